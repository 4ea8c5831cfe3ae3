#!/usr/bin/env bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# ramferry bench by rdma://, both sides in one process and in two. Runs as root inside tests/support/rxe-vm.
set -u
. "$(dirname "$(readlink -f "$0")")/../e2e/case.sh"
begin boot

ADDRESS=${RXE_ADDRESS:-10.0.0.1}

bench() { # ARGUMENT...: its CSV is in $T/csv
	timeout 100 "$RAMFERRY" bench "$@" --csv >"$T/csv" 2>"$T/bench.err" </dev/null ||
		{ echo "status $?: $(cat "$T/bench.err")"; return 1; }
}

values() { # COLUMN: of all lines of the last bench
	awk -F, -v name="$1" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) column = i; next } { print $column }' "$T/csv" |
		paste -sd ' '
}

one_process() {
	bench chunk-size --memory 16M --rate 1M --chunk-sizes 1M,64M "rdma://$ADDRESS:0" || return
	need "registrations follow the chunks" is "$(values registrations)" "16 1 16 1" || return
	bench in-flight --memory 16M "rdma://$ADDRESS:0" || return
	need "an idle guest is sent once" is "$(values normal_bytes)" "16777216 16777216 16777216 16777216"
}

two_processes() {
	"$RAMFERRY" bench receive --runs 2 --memory 16M "rdma://$ADDRESS:0" 2>"$T/receive" &
	local pid=$! port=
	for _ in $(seq 200); do
		port=$(sed -n 's/^listening at rdma:.*://p' "$T/receive")
		[ -z "$port" ] || break
		sleep 0.1
	done
	kill $pid
	wait $pid || { echo "a signal is no success for the receiver"; return 1; }
	"$RAMFERRY" bench receive --runs 2 --memory 16M "rdma://$ADDRESS:$port" 2>"$T/receive" &
	pid=$!
	for _ in $(seq 200); do
		grep -q '^listening' "$T/receive" && break
		sleep 0.1
	done
	bench rounds --memory 16M --rate 1M --runs 2 --to "rdma://$ADDRESS:$port" ||
		{ kill $pid; cat "$T/receive"; return 1; }
	wait $pid || { echo "the receiver: $(cat "$T/receive")"; return 1; }
	need "both runs are there" is "$(values run)" "1 2"
}

check "bench: both sides in one process" one_process
check "bench: two processes, as on two hosts, twice" two_processes
finish
