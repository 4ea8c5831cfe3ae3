#!/usr/bin/env bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# ramferry doctor where there is an RDMA device: rxe0 over rdma0, at 10.0.0.1. Runs as root inside tests/support/rxe-vm, and takes the
# interface down and the device away at its end.
set -u
. "$(dirname "$(readlink -f "$0")")/../e2e/case.sh"
begin boot

ADDRESS=${RXE_ADDRESS:-10.0.0.1}
# In emulation inside emulation the guest at leisure still gets somewhere.
KIND=boot
[ ! -e "$TOOLS/bootsector-slow.img" ] || KIND=slow

doctor() { # ARGUMENT...: sets STATUS; its lines are in $T/doctor and its sentence in $T/doctor.err
	timeout 60 "${RUN_AS[@]}" "$RAMFERRY" doctor "$@" >"$T/doctor" 2>"$T/doctor.err" </dev/null
	STATUS=$?
}
RUN_AS=()

finds() { # REGEX: a line of the last doctor
	grep -qE "$1" "$T/doctor" && return
	echo "no line like /$1/ in:"
	cat "$T/doctor" "$T/doctor.err"
	return 1
}

finds_the_device() {
	doctor
	need "exit status" is $STATUS 0 || return
	finds '^rdma rxe0: up to [0-9]+ registrations of .*, [0-9]+ writes in flight on each: ok$' || return
	finds '^rdma rxe0 on-demand: .*ODP.*: ok$' || return
	finds '^rdma rxe0 port 1: active, [0-9.]+ Gbit/s, Ethernet, .* interface rdma0: ok$' || return
	finds "^rdma rxe0 port 1 GID [0-9]+: RoCE v2, $ADDRESS on rdma0: ok\$" || return
	finds "^rdma address: rdma://$ADDRESS leads to rxe0 port 1: ok\$" || return
	finds '^rdma address: rdma://\[fe80::.*%rdma0\] leads to rxe0 port 1: ok$' || return
	finds '^limit memlock: any amount' || return
	doctor --json
	finds '"what":"rxe0 port 1",.*"bits_per_second":[1-9]'
}

# Root may pin what it likes; who has not that right is told how to get it.
small_memlock() {
	RUN_AS=(setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock prlimit --memlock=65536:65536)
	doctor
	RUN_AS=()
	need "exit status" is $STATUS 0 || return
	finds '^limit memlock: only 64 KiB .* - better: .*ulimit -l'
}

nobody_there() {
	doctor --to "rdma://$ADDRESS:7"
	need "exit status" is $STATUS 3 || return
	finds "^receiver connection: .*$ADDRESS:7.* - needed: "
}

receive_by_rdma() { # NAME
	rm -f "$T/$1.receive"
	"$RAMFERRY" receive --json --qmp "$T/$1.qmp" "rdma://$ADDRESS:0" >"$T/$1.receive" 2>"$T/$1.receive.err" &
	PID[receive.$1]=$!
	await_receiver "$1"
}

asked_receiver_receives() {
	qemu_start b guest=$KIND size=64 incoming=1 || return
	need "a receiver listens" receive_by_rdma b || { cat "$T/b.receive" "$T/b.receive.err"; return 1; }
	for _ in 1 2; do
		doctor --json --to "$RECEIVE_URI"
		need "exit status" is $STATUS 0 || { cat "$T/doctor" "$T/doctor.err" "$T/b.receive"; return 1; }
		finds '"what":"round trip",.*"round_trip_ns":[1-9]' && finds '"bytes_per_second":[1-9]' || return
	done
	need "the receiver has told of both" is "$(grep -c '"message":"a ramferry doctor measured' "$T/b.receive")" 2 || return
	qemu_start a guest=$KIND size=64 && need "the guest boots" guest_up a || return
	doctor --qmp "$T/a.qmp" --to "$RECEIVE_URI"
	need "exit status, with a guest" is $STATUS 0 || { cat "$T/doctor" "$T/doctor.err"; return 1; }
	finds '^guest whole: it can be moved: ok$' && finds '^guest rdma: it can go by rdma: ok$' || return
	need "the guest there has not run" never_ran b || return
	move a b --on-stall force # for the guest may write faster than rxe carries
}

# A guest that rdma cannot carry as things are; tcp can.
not_by_rdma() {
	qemu_start g guest=$KIND size=64 -- -device virtio-balloon-pci && need "the guest boots" guest_up g || return
	RUN_AS=(setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock prlimit --memlock=65536:65536)
	doctor --qmp "$T/g.qmp"
	need "exit status" is $STATUS 0 || { cat "$T/doctor"; return 1; }
	finds '^guest rdma: better: the device virtio-balloon.* gives guest memory back' || return
	finds '^limit memlock: better: .*too little.*ulimit -l' || return
	doctor --qmp "$T/g.qmp" --to "rdma://$ADDRESS:7"
	RUN_AS=()
	need "exit status, by rdma" is $STATUS 3 || return
	finds '^guest rdma: needed: ' && finds '^limit memlock: needed: ' || return
	doctor --qmp "$T/g.qmp" --register odp
	finds '^guest rdma: it can go by rdma: ok$'
}

port_down() {
	ip link set rdma0 down
	doctor --to "rdma://$ADDRESS:7"
	ip link set rdma0 up
	need "exit status" is $STATUS 3 || return
	finds '^rdma rxe0 port 1: it is not active .* - better: .*ip link set rdma0 up$'
}

no_device() {
	rdma link delete rxe0
	doctor
	need "exit status" is $STATUS 0 || return
	finds '^rdma devices: this host has no RDMA device - better: ' || return
	doctor --to "rdma://$ADDRESS:7"
	need "exit status, when one is needed" is $STATUS 3 || return
	finds '^rdma devices: this host has no RDMA device - needed: '
}

check "it finds the device, its port and its addresses" finds_the_device
check "little memory may be pinned: how to get more" small_memlock
check "nobody listens at the URI" nobody_there
check "a receiver is measured over rdma, and receives" asked_receiver_receives
check "a balloon and little memory to pin: not by rdma" not_by_rdma
check "a port that is down: how to get it up" port_down
check "no device" no_device
finish
