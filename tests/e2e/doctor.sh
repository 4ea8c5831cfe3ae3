#!/usr/bin/env bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# ramferry doctor on real guests and receivers: it finds what a move would find, nobody notices it, and a receiver that was
# asked still receives.
set -u
. "$(dirname "$(readlink -f "$0")")/case.sh"
begin

APPEND="RF_FILL_MIB=20"
NOBODY=tcp://127.0.0.1:1 # nothing listens there

# Sets STATUS; its lines are in $T/doctor and its sentence in $T/doctor.err.
doctor() { # ARGUMENT...
	timeout 60 "$RAMFERRY" doctor "$@" >"$T/doctor" 2>"$T/doctor.err" </dev/null
	STATUS=$?
}

finds() { # REGEX: a line of the last doctor
	grep -qE "$1" "$T/doctor" && return
	echo "no line like /$1/ in:"
	cat "$T/doctor" "$T/doctor.err"
	return 1
}

measure() { # NAME: a number of the last doctor --json
	sed -n 's/^{"event":"finding".*"'"$1"'":\([0-9]*\).*/\1/p' "$T/doctor"
}

good_guest() {
	local before
	before=$(settings_of a)
	doctor --qmp "$T/a.qmp"
	need "exit status" is $STATUS 0 || { cat "$T/doctor"; return 1; }
	finds '^guest qemu: version [0-9.]+, process .*machine=pc.*ok$' || return
	finds '^guest state: running: ok$' || return
	finds '^guest memory: "m", 256 MiB, shared in /dev/shm/.*ok$' || return
	finds '^guest tracing: .*ok$' || return
	finds '^guest writers: .*ok$' || return
	finds '^guest whole: it can be moved: ok$' || return
	is_untouched a "$before"
}

waiting_guest() {
	qemu_start b incoming=1 || return
	doctor --qmp "$T/b.qmp"
	need "exit status" is $STATUS 0 || { cat "$T/doctor"; return 1; }
	finds '^guest state: it waits for a guest.*ok$' && finds '^guest whole: it can be filled: ok$' || return
	need "it waits still" is "$(qmp b query-status "" status)" inmigrate
}

private_guest() {
	qemu_start p ram=private append="$APPEND" || return
	doctor --qmp "$T/p.qmp" --json
	need "exit status" is $STATUS 3 || return
	finds '"verdict":"needed","area":"guest","what":"memory","text":".*memory-backend-file.*share=on' || return
	finds '^{"event":"result","status":3,"result":"refused"' || return
	need "the guest runs on" guest_runs p
}

# What another program says is no greeting of QEMU's.
other_socket() {
	socat "UNIX-LISTEN:$T/other" SYSTEM:'echo hello; cat' >/dev/null 2>&1 &
	PID[other]=$!
	within 5 test -S "$T/other" || return
	doctor --qmp "$T/other"
	end other KILL
	need "exit status" is $STATUS 3 || return
	finds '^guest monitor: .*does not speak QMP.* - needed: ' && finds '^tracker hash: .*ok$'
}

nobody_there() {
	doctor --to $NOBODY
	need "exit status" is $STATUS 3 || return
	finds '^receiver connection: .*127.0.0.1:1.*refused - needed: '
}

# Two doctors, and then a source: the receiver was there for all three, at one address.
asked_receiver_receives() {
	destination c || return
	doctor --to "$RECEIVE_URI"
	need "exit status" is $STATUS 0 || { cat "$T/doctor" "$T/doctor.err" "$T/c.receive"; return 1; }
	finds '^receiver connection: .*ok$' && finds '^receiver round trip: .*ok$' || return
	finds '^receiver bandwidth: .*lane.*ok$' || return
	doctor --json --qmp "$T/a.qmp" --to "$RECEIVE_URI"
	need "exit status, with a guest" is $STATUS 0 || { cat "$T/doctor" "$T/doctor.err" "$T/c.receive"; return 1; }
	need "a round trip on loopback takes less than 100 ms" test "$(measure round_trip_ns)" -lt 100000000 || return
	need "loopback carries more than 10 MiB/s" test "$(measure bytes_per_second)" -gt 10485760 || return
	need "the receiver has told of both" is \
		"$(grep -c '"message":"a ramferry doctor measured' "$T/c.receive")" 2 || { cat "$T/c.receive"; return 1; }
	need "the guest there has not run" never_ran c || return
	move a c
}

# One that stops in the middle of its measuring keeps the receiver for some seconds only.
stopped_doctor() {
	destination d || return
	"$RAMFERRY" doctor --to "$RECEIVE_URI" >"$T/doctor" 2>&1 &
	PID[doctor]=$!
	within 10 grep -q '"phase":"setup"' "$T/d.receive" || { cat "$T/d.receive"; return 1; }
	kill -STOP "${PID[doctor]}"
	need "the receiver goes on waiting" within 15 grep -q 'a ramferry doctor' "$T/d.receive" || { cat "$T/d.receive"; return 1; }
	end doctor KILL
	qemu_start e append="$APPEND" && need "the guest boots" guest_up e || return
	move e d
}

tidy_up() {
	local name
	for name in b p; do
		[ -z "${PID[$name]:-}" ] || qemu_end $name
	done
}

qemu_start a append="$APPEND" && guest_up a || exit 1
check "a good guest can be moved, and does not notice that it was looked at" good_guest
check "a QEMU that waits can be filled, and waits on" waiting_guest
check "a guest with private memory is told what to add" private_guest
check "the socket of another program is no monitor" other_socket
check "nobody listens at the URI" nobody_there
check "a receiver is measured twice, and receives" asked_receiver_receives
check "a doctor that stops does not keep a receiver" stopped_doctor
finish
