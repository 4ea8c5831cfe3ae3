#!/usr/bin/env bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# Programs die in the middle of a move. Whatever happens before the hand-off: the source's guest runs on, the destination's never
# does.
set -u
. "$(dirname "$(readlink -f "$0")")/case.sh"
begin

APPEND="RF_FILL_MIB=60 RF_WRITES=1000"

fails_soon() { # REGEX: the sender, with a sentence, and the guest is as it was
	local status
	wait_end send.a 20
	status=$?
	need "exit status" is $status 1 || { tail -5 "$T/a.send"; return 1; }
	need "one sentence that tells why" says "$T/a.send" "$1" || return
	is_untouched a "$before"
}

destination_and_send() { # OPTION of send...
	destination b append="$APPEND" || return
	before=$(settings_of a)
	send_start a "$RECEIVE_URI" "$@"
	need "memory is copied" within 20 send_reached a rounds 0
}

receiver_dies_in_round_0() {
	destination_and_send --max-bandwidth 8M || return
	end receive.b KILL
	fails_soon 'lost|gone|closed|connection|peer|other side' || return
	need "the destination's guest never ran" never_ran b
}

# Its QEMU is frozen, so that the switchover hangs where the device state is loaded.
receiver_dies_while_stopped() {
	destination_and_send --max-bandwidth 40M || return
	kill -STOP "${PID[b]}"
	need "the guest stands still" within 60 stands_still a || return
	sleep 0.5
	end receive.b KILL
	fails_soon 'lost|gone|closed|connection|peer|other side' || return
	kill -CONT "${PID[b]}"
	sleep 1
	need "the destination's guest never ran" never_ran b
}

# Noticed at once: at this rate memory would be copied for another minute.
destination_qemu_dies_in_round_0() {
	destination_and_send --max-bandwidth 1M || return
	end b KILL
	fails_soon 'QEMU \(process [0-9]+\) has ended' || return
	wait_end receive.b 10
	need "the receiver fails" is $? 1
}

destination_qemu_dies_while_stopped() {
	destination_and_send --max-bandwidth 40M || return
	kill -STOP "${PID[b]}"
	need "the guest stands still" within 60 stands_still a || return
	sleep 0.5
	end b KILL
	fails_soon 'QEMU|load|monitor|other side' || return
	wait_end receive.b 10
	need "the receiver fails" is $? 1
}

receiver_with_child_dies() {
	need "a receiver listens" receive_into_child c append="$APPEND" || return
	before=$(settings_of a)
	send_start a "$RECEIVE_URI" --max-bandwidth 8M
	need "memory is copied" within 20 send_reached a rounds 0 || return
	end receive.c KILL
	fails_soon 'lost|gone|closed|connection|peer|other side' || return
	need "its QEMU ended with it" within 10 no_process_with "$T/c.console"
}

source_qemu_dies() {
	local status
	qemu_start d append="$APPEND" && need "it boots" guest_up d || return
	destination b append="$APPEND" || return
	send_start d "$RECEIVE_URI" --max-bandwidth 8M
	need "memory is copied" within 20 send_reached d rounds 0 || return
	end d KILL
	wait_end send.d 20
	status=$?
	need "the sender fails, and knows that nobody runs it" is $status 1 || { tail -5 "$T/d.send"; return 1; }
	wait_end receive.b 20
	need "the receiver fails" is $? 1 || return
	need "the destination's guest never ran" never_ran b
	qemu_end d
}

moves_after_all() {
	destination b append="$APPEND" || return
	move a b --verify || return
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
check "the receiver is killed in round 0" receiver_dies_in_round_0
check "the receiver is killed while the guest stands still" receiver_dies_while_stopped
check "the destination's QEMU is killed in round 0" destination_qemu_dies_in_round_0
check "the destination's QEMU is killed while the guest stands still" destination_qemu_dies_while_stopped
check "a receiver that started its QEMU is killed: the QEMU ends" receiver_with_child_dies
check "the source's QEMU is killed in round 0" source_qemu_dies
check "after all that the guest moves" moves_after_all
finish
