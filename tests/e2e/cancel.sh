#!/usr/bin/env bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# A move that is cancelled by a signal, wherever it is, leaves the guest as it was. In the end the same guest moves all the same.
set -u
. "$(dirname "$(readlink -f "$0")")/case.sh"
begin

# It writes more in a second than LIMIT lets pass, so that rounds follow each other for ever.
APPEND="RF_FILL_MIB=60 RF_SET_MIB=60 RF_WRITES=20000"
LIMIT=(--max-bandwidth 40M --downtime-limit 30)

destination_and_send() { # OPTION of send...
	destination b append="$APPEND" || return
	before=$(settings_of a)
	send_start a "$RECEIVE_URI" "$@"
}

# The sender ends by itself, says that it was cancelled, and so does the receiver, whose guest will never run.
is_cancelled() {
	local status
	wait_end send.a 20
	status=$?
	need "exit status" is $status 1 || { tail -5 "$T/a.send"; return 1; }
	need "it says so" says "$T/a.send" 'cancel' || return
	is_untouched a "$before" || return
	wait_end receive.b 20
	status=$?
	need "the receiver fails, too" is $status 1 || { tail -5 "$T/b.receive"; return 1; }
	need "the destination's guest never ran" never_ran b
}

in_round_0() { # SIGNAL
	destination_and_send --max-bandwidth 8M || return
	need "round 0 begins" within 20 send_reached a rounds 0 || return
	sleep 0.3
	kill -"$1" "${PID[send.a]}"
	is_cancelled || return
	need "it was round 0" is "$(grep -c '"event":"round"' "$T/a.send")" 0
}

in_a_later_round() {
	destination_and_send "${LIMIT[@]}" || return
	need "round 2 begins" within 60 send_reached a rounds 2 || return
	kill -TERM "${PID[send.a]}"
	is_cancelled
}

# The destination's QEMU is frozen while memory is copied, so that the switchover hangs where it loads the device state.
while_stopped() {
	destination_and_send --max-bandwidth 40M --on-stall force || return
	need "memory is copied" within 20 send_reached a rounds 0 || return
	kill -STOP "${PID[b]}"
	need "the guest stands still" within 60 stands_still a || { tail -5 "$T/a.send"; return 1; }
	sleep 0.5
	kill -INT "${PID[send.a]}"
	is_cancelled
}

paused_before() {
	qmp a stop >/dev/null
	destination_and_send --max-bandwidth 8M || return
	need "round 0 begins" within 20 send_reached a rounds 0 || return
	kill -INT "${PID[send.a]}"
	wait_end send.a 20
	need "exit status" is $? 1 || return
	need "it is still paused" is "$(qmp a query-status "" status)" paused || return
	qmp a cont >/dev/null
	is_untouched a "$before"
}

while_connecting() {
	socat -d -d TCP-LISTEN:0,bind=127.0.0.1,fork SYSTEM:'sleep 60' 2>"$T/deaf.log" &
	PID[deaf]=$!
	within 5 grep -qs 'listening on' "$T/deaf.log" || return
	before=$(settings_of a)
	send_start a "tcp://127.0.0.1:$(sed -n 's/.*listening on .*127.0.0.1:\([0-9]*\).*/\1/p' "$T/deaf.log" | head -1)"
	sleep 1
	kill -TERM "${PID[send.a]}"
	wait_end send.a 5
	need "it ends soon" is $? 1 || return
	end deaf
	is_untouched a "$before"
}

# Cancelled by the receiver's operator: for the source that is a failure.
at_the_receiver() {
	destination_and_send --max-bandwidth 8M || return
	need "round 0 begins" within 20 send_reached a rounds 0 || return
	kill -INT "${PID[receive.b]}"
	wait_end send.a 20
	need "the sender fails" is $? 1 || return
	is_untouched a "$before" || return
	wait_end receive.b 20
	need "the receiver ends" is $? 1 || return
	need "the destination's guest never ran" never_ran b
}

before_a_guest_came() {
	need "a receiver listens" receive_into_child c append="$APPEND" || return
	kill -TERM "${PID[receive.c]}"
	wait_end receive.c 10
	need "the receiver ends" is $? 1 || return
	need "and its QEMU with it" within 5 no_process_with "$T/c.console"
}

stall_aborts() {
	destination_and_send "${LIMIT[@]}" --on-stall abort || return
	wait_end send.a 60
	need "exit status" is $? 1 || return
	is_untouched a "$before"
}

timeout_aborts() {
	destination_and_send "${LIMIT[@]}" --timeout 3s || return
	wait_end send.a 30
	need "exit status" is $? 1 || return
	is_untouched a "$before"
}

moves_after_all() {
	destination b append="$APPEND" || return
	move a b --verify --on-stall force || return
	need "no count is missing" counts_join a b
}

# After each case, however it ended.
tidy_up() {
	local name
	for name in send.a receive.b receive.c; do
		end $name KILL
	done
	qemu_end b
}

qemu_start a append="$APPEND" && guest_up a || exit 1
check "SIGINT in round 0" in_round_0 INT
check "SIGTERM in round 0" in_round_0 TERM
check "SIGTERM in a later round" in_a_later_round
check "SIGINT while the guest stands still" while_stopped
check "SIGINT, and the guest was paused before: it still is" paused_before
check "SIGTERM while a peer is silent" while_connecting
check "SIGINT to the receiver in round 0" at_the_receiver
check "SIGTERM to a receiver that no guest has come to ends the QEMU that it started" before_a_guest_came
check "a guest that writes too fast: --on-stall abort" stall_aborts
check "a guest that writes too fast: --timeout" timeout_aborts
check "after all that the guest moves" moves_after_all
finish
