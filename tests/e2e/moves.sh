#!/usr/bin/env bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# A Linux guest moves and goes on: idle, writing, by each tracker, with memory of every kind that is taken, to receivers of every
# kind.
set -u
. "$(dirname "$(readlink -f "$0")")/case.sh"
begin

IDLE="RF_FILL_MIB=100"
WRITING="RF_FILL_MIB=100 RF_WRITES=2000"

idle_guest() {
	local sent nonzero
	qemu_start idle append="$IDLE" && need "it boots" guest_up idle || return
	destination idle2 append="$IDLE" || return
	move idle idle2 --verify || return
	need "no count is missing" counts_join idle idle2 || return
	sent=$(stat_of "$T/idle.send" transferred_bytes)
	nonzero=$(memory_of idle nonzero) # it stands still there, as it was sent
	echo "sent $sent bytes for $nonzero that are not zero"
	need "at most 1.02 of its data was sent" [ $((sent * 100)) -le $((nonzero * 102)) ] || return
	need "all of its data was sent" [ "$sent" -ge "$nonzero" ]
}

paused_guest() {
	qmp idle2 stop >/dev/null
	destination idle3 append="$IDLE" || return
	send idle2 "$RECEIVE_URI"
	need "send ends well" is $? 0 || return
	wait_end receive.idle3 10
	need "receive ends well" is $? 0 || return
	need "it is paused at the destination" is "$(qmp idle3 query-status "" running)" false || return
	qmp idle3 cont >/dev/null
	need "it runs when it is told to" guest_runs idle3 || return
	need "no count is missing" counts_join idle idle2 idle3
	qemu_end idle
	qemu_end idle2
	qemu_end idle3
}

writing_guest() {
	qemu_start w1 append="$WRITING" && need "it boots" guest_up w1 || return
	destination w2 append="$WRITING" || return
	move w1 w2 --verify --tracker wp-async || return
	need "no count is missing" counts_join w1 w2 || return
	need "more than one round" [ "$(stat_of "$T/w1.send" dirty_sync_count)" -ge 2 ]
	qemu_end w1
}

by_hash() {
	destination w3 append="$WRITING" || return
	move w2 w3 --verify --tracker hash || return
	need "no count is missing" counts_join w1 w2 w3
	qemu_end w2
}

into_a_child() {
	RECEIVE_OPTIONS= need "a receiver listens" receive_into_child w4 append="$WRITING" || return
	send w3 "$RECEIVE_URI" --verify --lanes 3 --chunk-size 1M
	local status=$?
	PID[w4]=$(child_of_receiver w4)
	has_moved w3 w4 $status || return
	need "no count is missing" counts_join w1 w2 w3 w4
	qemu_end w3
}

child_of_receiver() { # NAME
	within 10 grep -qs 'in process [0-9]' "$T/$1.receive"
	sed -n 's/.*in process \([0-9]*\).*/\1/p' "$T/$1.receive"
}

over_ipv6() {
	qemu_start w5 incoming=1 append="$WRITING" || return
	"$RAMFERRY" receive --json --qmp "$T/w5.qmp" "tcp://[::1]:0" >"$T/w5.receive" 2>"$T/w5.receive.err" &
	PID[receive.w5]=$!
	need "a receiver listens at ::1" await_receiver w5 || return
	move w4 w5 --register pin-all --switchover threshold || return
	need "no count is missing" counts_join w1 w2 w3 w4 w5
	qemu_end w4
	qemu_end w5
}

two_nodes() {
	qemu_start n1 ram=numa append="$WRITING" && need "it boots" guest_up n1 || return
	destination n2 ram=numa append="$WRITING" || return
	move n1 n2 --verify || return
	need "no count is missing" counts_join n1 n2
	qemu_end n1
	qemu_end n2
}

memfd() {
	qemu_start m1 ram=memfd append="$WRITING" && need "it boots" guest_up m1 || return
	destination m2 ram=memfd append="$WRITING" || return
	move m1 m2 --verify || return
	need "no count is missing" counts_join m1 m2
	qemu_end m1
	qemu_end m2
}

another_user() {
	qemu_start u1 user=nobody append="$WRITING" && need "it boots" guest_up u1 || return
	need "QEMU is nobody's" is "$(stat -c %U "/proc/${PID[u1]}")" nobody || return
	destination u2 user=nobody append="$WRITING" || return
	move u1 u2 --verify || return
	need "no count is missing" counts_join u1 u2
	qemu_end u1
	qemu_end u2
}

newer_qemu() { # COMMAND
	qemu_start v1 qemu="$1" append="$WRITING" && need "it boots" guest_up v1 || return
	destination v2 qemu="$1" append="$WRITING" || return
	move v1 v2 --verify || return
	need "no count is missing" counts_join v1 v2
	qemu_end v1
	qemu_end v2
}

check "an idle guest arrives verified; no more is sent than 1.02 of its data" idle_guest
check "a guest that its operator paused arrives paused, and goes on when told to" paused_guest
check "a writing guest arrives verified, tracked by wp-async" writing_guest
check "it moves on, tracked by hash" by_hash
check "it moves on into a QEMU that ramferry starts, over three lanes, in chunks of 1 MiB" into_a_child
check "it moves on over IPv6, with all memory registered before, leaving as soon as the rest fits" over_ipv6
check "a guest with two NUMA nodes arrives verified" two_nodes
if qemu_command probe ram=memfd && version=$($QEMU --version) && [[ $version =~ version\ ([0-9]+) ]] && [ "${BASH_REMATCH[1]}" -le 7 ]; then
	check "a guest in a memfd arrives verified" memfd
else
	skip "a guest in a memfd" "this QEMU does not take it"
fi
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
	check "a guest of another user's QEMU arrives verified" another_user
else
	skip "a guest of another user's QEMU" "this needs root and setpriv"
fi
found=
for suite in bookworm-backports trixie sid; do
	qemu=${XDG_CACHE_HOME:-$HOME/.cache}/ramferry/qemu-$suite/qemu-system-x86_64
	[ -x "$qemu" ] || continue
	found=1
	check "a guest of $("$qemu" --version | head -1 | sed 's/ (.*//; s/emulator //') arrives verified" newer_qemu "$qemu"
done
[ -n "$found" ] || skip "a guest of a newer QEMU" "none is here (scripts/fetch-qemu gets one)"
finish
