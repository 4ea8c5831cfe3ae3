#!/usr/bin/env bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# Real QEMUs move over rdma://, and what goes wrong on the way is told in one sentence while the guest runs on. Runs as root inside
# tests/support/rxe-vm. The guests are boot sectors: a Linux guest takes minutes to boot in emulation inside emulation.
#
# usage: moves.sh [full|old|odp]     old: a kernel without PAGEMAP_SCAN; odp: one whose soft-RoCE follows page tables
set -u
. "$(dirname "$(readlink -f "$0")")/../e2e/case.sh"
begin boot

SET=${1:-full}
ADDRESS=${RXE_ADDRESS:-10.0.0.1}
RECEIVE_AT="rdma://$ADDRESS:0"

# Few pages for the many cases; what is moved is compared by both sides (--verify) and by its own invariant.
OPTIONS=(guest=slow size=128)

source_up() { # NAME [OPTION...]
	qemu_start "$1" "${OPTIONS[@]}" "${@:2}" && need "its guest starts" within 120 on_console "$1" B
}

# The same guest serves case after case: where it was moved to is the next source.
current=
serial=0
ensure_source() {
	[ -z "$current" ] || { alive "$current" && guest_runs "$current"; } || { qemu_end "$current"; current=; }
	[ -n "$current" ] && return
	serial=$((serial + 1))
	current=guest$serial
	source_up "$current"
}

next_destination() { # [OPTION of receive...]
	serial=$((serial + 1))
	next=guest$serial
	qemu_start "$next" "${OPTIONS[@]}" incoming=1 && need "a receiver listens" receive_start "$next" "$@"
}

memory_right() { # NAME: stopped for the look
	local status
	qmp "$1" stop >/dev/null
	need "its memory is what it can have written" "$TOOLS/boot-invariant" "$SHM/$1.ram"
	status=$?
	qmp "$1" cont >/dev/null
	return $status
}

arrives() { # OPTION of send...
	ensure_source && next_destination || return
	move "$current" "$next" --verify --timeout 100s "$@" || return
	need "its memory was right where it stopped" "$TOOLS/boot-invariant" "$SHM/$current.ram" || return
	memory_right "$next" || return
	qemu_end "$current"
	current=$next
}

arrives_rewriting_all() {
	local keep=$current
	OPTIONS=(guest=boot size=128)
	current=
	arrives --on-stall force
	local status=$?
	qemu_end "$current"
	OPTIONS=(guest=slow size=128)
	current=$keep
	return $status
}

arrives_by_soft_dirty() {
	arrives || return
	local log=$T/guest1.send
	need "the log says why it was not wp-async" grep -q 'tracker wp-async cannot serve here: .*Linux 6.7' "$log" || return
	need "the log says what it was" grep -q 'tracked by soft-dirty' "$log"
}

drop_destination() {
	end "receive.$next" KILL
	qemu_end "$next"
}

# ---- What is refused -------------------------------------------------------------------------------------------------------

refused() { # STATUS REGEX URI [OPTION...]
	ensure_source || return
	send_fails "$1" "$2" "$current" "$3" "${@:4}"
}

no_device() {
	rdma link delete rxe0 || return
	refused '[13]' 'RDMA device|no RDMA' "rdma://$ADDRESS:7263"
	local status=$?
	rdma link add rxe0 type rxe netdev rdma0
	return $status
}

port_down() {
	ip link set rdma0 down || return
	refused '[13]' 'down|not active|reach|no route|unreachable|cannot' "rdma://$ADDRESS:7263"
	local status=$?
	bring_up
	return $status
}

bring_up() {
	ip link set rdma0 up
	ip addr add "$ADDRESS/24" dev rdma0 2>/dev/null
	within 10 grep -q ACTIVE /sys/class/infiniband/rxe0/ports/1/state
}

# A process that may not ignore the limit, as of a service without rights.
memlock_too_small() {
	local status ramferry=$RAMFERRY
	ensure_source && next_destination || return
	cat >"$T/limited" <<END
#!/bin/sh
exec setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock prlimit --memlock=1048576:1048576 $ramferry "\$@"
END
	chmod 755 "$T/limited"
	RAMFERRY=$T/limited
	send_fails 3 'memlock|ulimit|lock' "$current" "$RECEIVE_URI" --register pin-all
	status=$?
	RAMFERRY=$ramferry
	drop_destination
	return $status
}

qemu_is_no_ramferry() {
	serial=$((serial + 1))
	next=guest$serial
	qemu_start "$next" "${OPTIONS[@]}" -- -incoming defer || return
	qmp "$next" migrate-incoming "{\"uri\":\"rdma:$ADDRESS:4444\"}" >/dev/null || return
	refused '[13]' 'ramferry' "rdma://$ADDRESS:4444"
	local status=$?
	qemu_end "$next"
	return $status
}

qemu_as_source() {
	ensure_source && next_destination || return
	local port=${RECEIVE_URI##*:}
	qmp "$current" migrate "{\"uri\":\"rdma:$ADDRESS:$port\"}" >/dev/null
	need "QEMU's migration fails" within 30 migration_failed || return
	need "the guest runs on" guest_runs "$current" || return
	need "the receiver waits on" alive "receive.$next" || return
	send "$current" "$RECEIVE_URI" --verify
	has_moved "$current" "$next" $? || return
	qemu_end "$current"
	current=$next
}

migration_failed() {
	[ "$(qmp "$current" query-migrate "" status)" = failed ]
}

# ---- What goes wrong on the way --------------------------------------------------------------------------------------------

show_send() { # and fail
	tail -n 5 "$T/$current.send" "$T/$current.send.err" "$T/$next.receive" "$T/$next.receive.err"
	return 1
}

lost_in() { # PHASE WHAT...: the sender is in that phase when WHAT is done
	local phase=$1 status expected=1
	shift
	ensure_source && next_destination || return
	before=$(settings_of "$current")
	send_start "$current" "$RECEIVE_URI" --max-bandwidth 16M
	[ "$phase" != setup ] || expected="[13]" # nobody there is a refusal
	[ "$phase" = setup ] || need "the move reaches $phase" within 40 send_reached "$current" "$phase" || show_send || return
	"$@"
	wait_end "send.$current" 60
	status=$?
	need "exit status" is $status "$expected" || show_send || return
	need "it tells why" says "$T/$current.send" . || return
	is_untouched "$current" "$before" || return
	need "the other guest never ran" never_ran "$next" || return
	drop_destination
}

kill_receiver() {
	end "receive.$next" KILL
}

remove_device() {
	rdma link delete rxe0
}

lost_device() {
	lost_in rounds remove_device
	local status=$?
	remake_device
	return $status
}

# Soft-RoCE's queue pair for connections may not survive that it was used while the link was down: only a new device has one.
remake_device() {
	rdma link delete rxe0 2>/dev/null
	rdma link add rxe0 type rxe netdev rdma0
	within 10 grep -q ACTIVE /sys/class/infiniband/rxe0/ports/1/state
}

# Either it goes on when the link is back, or it fails and the guest runs on: never anything else.
link_blinks() {
	blink
	local status=$?
	remake_device
	return $status
}

blink() {
	local status
	ensure_source && next_destination || return
	before=$(settings_of "$current")
	send_start "$current" "$RECEIVE_URI" --max-bandwidth 16M
	need "rounds begin" within 40 send_reached "$current" rounds || return
	ip link set rdma0 down
	sleep 0.5
	bring_up
	wait_end "send.$current" 90
	status=$?
	case $status in
	0) has_moved "$current" "$next" 0 && memory_right "$next" && qemu_end "$current" && current=$next ;;
	1) need "it tells why" says "$T/$current.send" . && is_untouched "$current" "$before" && drop_destination ;;
	*) need "exit status" is $status 1 ;;
	esac
}

case $SET in
old)
	check "a guest moves by rdma, tracked by soft-dirty: the log says why" arrives_by_soft_dirty
	# Reading all memory takes longer than any downtime limit, in emulation.
	check "a guest moves by rdma where its tracking is by hash" arrives --tracker hash --on-stall force
	check "the same, all memory registered before the first round" arrives --tracker hash --on-stall force --register pin-all
	;;
odp)
	check "a guest moves by rdma, registered on demand" arrives
	check "a guest moves by rdma, page tables followed (odp)" arrives --register odp
	;;
full)
	check "a guest moves by rdma, registered on demand, chunks of 1 MiB" arrives --chunk-size 1M
	check "… chunks of 64 MiB" arrives
	check "… chunks of 1 GiB" arrives --chunk-size 1G
	check "… by four lanes, a chunk at a time (register-ahead 0, writes-per-chunk 1)" \
		arrives --lanes 4 --register-ahead 0 --writes-per-chunk 1 --chunk-size 1M
	check "a guest moves by rdma, all memory registered before the first round, chunks of 1 MiB" \
		arrives --register pin-all --chunk-size 1M
	check "… chunks of 1 GiB" arrives --register pin-all --chunk-size 1G
	check "a guest moves by rdma with less pinned than it has (max-pinned)" arrives --max-pinned 64M --chunk-size 1M
	check "a guest that rewrites all its memory moves by force" arrives_rewriting_all
	check "memlock too small: refused with the bytes and what to do" memlock_too_small
	check "an address that is on no device" refused '[13]' 'device|reach|route' rdma://127.0.0.1:7263
	check "nobody listens" refused '[13]' . "rdma://$ADDRESS:7"
	check "a port that is down" port_down
	check "no RDMA device" no_device
	check "QEMU's rdma: at the other end is no ramferry" qemu_is_no_ramferry
	check "QEMU's rdma: calls a receiver, and goes away" qemu_as_source
	check "the receiver is killed in the setup" lost_in setup kill_receiver
	check "the receiver is killed in the rounds" lost_in rounds kill_receiver
	check "the receiver is killed in the switchover" lost_in switchover kill_receiver
	check "the link goes down and comes up in the rounds" link_blinks
	check "the device goes away in the rounds" lost_device
	check "all of that over, a guest moves by rdma" arrives
	;;
esac
finish
