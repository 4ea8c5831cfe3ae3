#!/usr/bin/env bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# in-vm.sh SUITE TEST...: boot the kernel of a Debian suite in an rxe-vm and run the tests there, one after the other. Each is a
# program of the build with its arguments, or a script of this folder with an argument ("moves.sh odp"). Prints what they print, and one line of TAP for each
# case of a script and for each program, so that every one counts for scripts/tally, which shares the boot.
set -u
here=$(dirname "$(readlink -f "$0")")
export RAMFERRY_BUILD
RAMFERRY_BUILD=$(readlink -f "${RAMFERRY_BUILD:-$here/../../build}")

if [ -z "${RXE_VM:-}" ]; then
	suite=$1
	exec "$here/../support/rxe-vm" --suite "$suite" --timeout "${RXE_SECONDS:-580}" env "RAMFERRY_BUILD=$RAMFERRY_BUILD" "$0" "$@"
fi
suite=$1
shift

count=0
tap() { # ok|not ok NAME
	count=$((count + 1))
	echo "$1 $count - $suite: $2"
}

# A case is a line "ok    SENTENCE" or "FAIL  SENTENCE" of tests/e2e/case.sh.
cases() {
	local line
	while IFS= read -r line; do
		case $line in
		'ok    '*) tap ok "${line#ok    }" ;;
		'FAIL  '*) tap "not ok" "${line#FAIL  }" ;;
		'skip  '*) tap ok "${line#skip  } # SKIP" ;;
		*) echo "# $line" ;;
		esac
	done
}

# A test may have taken it away.
need_device() {
	ip link set rdma0 up
	ip addr replace 10.0.0.1/24 dev rdma0
	[ -e /sys/class/infiniband/rxe0 ] || rdma link add rxe0 type rxe netdev rdma0
}

for test; do
	read -ra words <<<"$test"
	need_device
	before=$count
	if [ -x "$here/${words[0]}" ]; then
		cases < <("$here/${words[0]}" "${words[@]:1}" 2>&1)
		[ $count -gt $before ] || tap "not ok" "$test said nothing"
	else
		program=$RAMFERRY_BUILD/tests/rdma/${words[0]}
		[ -x "$program" ] || program=$RAMFERRY_BUILD/tests/unit/memory/${words[0]}
		"$program" "${words[@]:1}" >/tmp/test.log 2>&1
		status=$?
		sed 's/^/# /' /tmp/test.log
		functions=$(grep -c '^\[       OK' /tmp/test.log)
		case $status in
		0) tap ok "${words[0]} ($functions functions)" ;;
		*) tap "not ok" "${words[0]} (status $status): $(sed -n 's/^\[  FAILED  \] //p' /tmp/test.log | tr '\n' ' ')" ;;
		esac
	fi
done
echo "1..$count"
