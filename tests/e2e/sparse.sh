#!/usr/bin/env bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# A guest of 20 GiB that uses about 200 MiB: what it does not use costs neither memory, at either side, nor time.
set -u
. "$(dirname "$(readlink -f "$0")")/case.sh"
begin

MIB=20480
OPTIONS=(size=$MIB append="mem=448M RF_FILL_MIB=130")
LIMIT_BYTES=$((32 * 1048576 + MIB * 1048576 / 4096))

# Stopped by its operator, so that what is allocated meanwhile is not its own doing.
sparse_guest_moves() {
	qemu_start a "${OPTIONS[@]}" && need "it boots" guest_up a || return
	destination b "${OPTIONS[@]}" || return
	qmp a stop >/dev/null
	used=$(memory_of a allocated)
	"$TOOLS/peak-anon" "${PID[receive.b]}" >"$T/receive.anon" &
	receive_watcher=$!
	send_start a "$RECEIVE_URI" --verify
	"$TOOLS/peak-anon" "${PID[send.a]}" >"$T/send.anon"
	wait_end send.a 120
	need "send ends well" is $? 0 || { cat "$T/a.send"; return 1; }
	wait_end receive.b 10
	need "receive ends well" is $? 0
}

source_stays_sparse() {
	echo "allocated $used before, $(memory_of a allocated) after"
	need "no page was allocated at the source" is "$(memory_of a allocated)" "$used"
}

destination_is_sparse() {
	local got
	got=$(memory_of b allocated)
	echo "used $used, allocated at the destination $got"
	need "at most 1.1 of what is used" [ $((got * 10)) -le $((used * 11)) ]
}

private_memory_is_bounded() {
	wait "$receive_watcher"
	echo "send $(cat "$T/send.anon"), receive $(cat "$T/receive.anon"), limit $LIMIT_BYTES"
	need "send was measured" [ "$(cat "$T/send.anon")" -gt 0 ] || return
	need "send stays below" [ "$(cat "$T/send.anon")" -le $LIMIT_BYTES ] || return
	need "receive stays below" [ "$(cat "$T/receive.anon")" -le $LIMIT_BYTES ]
}

goes_on() {
	qmp b cont >/dev/null
	need "it runs" guest_runs b || return
	need "no count is missing" counts_join a b
}

check "a guest of 20 GiB, of which about 200 MiB are used, arrives verified" sparse_guest_moves
check "no data page is allocated at the source" source_stays_sparse
check "at most 1.1 of what is used is allocated at the destination" destination_is_sparse
check "each ramferry has at most 32 MiB plus 1/4096 of the guest's memory of its own" private_memory_is_bounded
check "the guest goes on" goes_on
finish
