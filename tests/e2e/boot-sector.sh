#!/usr/bin/env bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# A guest that writes 99 MiB round and round, as fast as it can, arrives with memory that it can have written: see
# tests/support/guest/bootsector.S. Under TCG, and under KVM where that runs.
set -u
. "$(dirname "$(readlink -f "$0")")/case.sh"
begin boot

OPTIONS=(guest=boot size=128)

invariant_holds() { # NAME: stopped
	need "its memory is what it can have written" "$TOOLS/boot-invariant" "$SHM/$1.ram"
}

arrives() { # ACCEL OPTION...
	local a=$1-a b=$1-b
	shift
	qemu_start "$a" "${OPTIONS[@]}" accel="${a%-a}" && need "it starts" guest_up "$a" || return
	destination "$b" "${OPTIONS[@]}" accel="${a%-a}" || return
	move "$a" "$b" --verify --on-stall force "$@" || return
	need "its memory was right where it stopped" invariant_holds "$a" || return
	qmp "$b" stop >/dev/null
	invariant_holds "$b"
	local status=$?
	qemu_end "$a"
	qemu_end "$b"
	return $status
}

kvm_runs() {
	[ -w /dev/kvm ] && qemu_start probe "${OPTIONS[@]}" accel=kvm && guest_up probe
}

check "a boot sector guest arrives with its memory right, under TCG, tracked by wp-async" arrives tcg --tracker wp-async
check "the same, tracked by hash" arrives tcg --tracker hash
if kvm_runs >"$T/kvm.log" 2>&1; then
	qemu_end probe
	check "a boot sector guest arrives with its memory right, under KVM, tracked by wp-async" arrives kvm --tracker wp-async
	check "the same, tracked by hash" arrives kvm --tracker hash
else
	skip "a boot sector guest under KVM" "KVM does not run it here: $(tail -1 "$T/kvm.log")"
fi
finish
