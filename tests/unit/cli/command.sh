#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# command.sh RAMFERRY FAKE-QEMU JSON-LINES MANUAL-DIRECTORY: the command line from outside. Each wrong use gets one sentence on
# standard error and its status, and nothing on standard output.
set -u

ramferry=$1 fake=$2 json_lines=$3 manual=$4
work=$(mktemp -d)
export TMPDIR=$work
unset XDG_RUNTIME_DIR
pids=()
trap 'kill -KILL "${pids[@]}" 2>/dev/null; wait 2>/dev/null; rm -rf "$work"' EXIT
failures=0

fail() {
	echo "FAILED: $*"
	failures=$((failures + 1))
}

# expect STATUS SENTENCE ARGUMENT...: the sentence is a regular expression
expect() {
	local status=$1 sentence=$2
	shift 2
	timeout 30 "$ramferry" "$@" >"$work/out" 2>"$work/err" </dev/null
	local got=$?
	[ $got = "$status" ] || fail "ramferry $*: status $got, not $status"
	[ "$(grep -c '^ramferry' "$work/err")" = 1 ] && grep -q -- "$sentence" "$work/err" ||
		fail "ramferry $*: \"$(cat "$work/err")\" does not say \"$sentence\" in one line"
	[ ! -s "$work/out" ] || fail "ramferry $*: wrote to standard output: $(head -c 200 "$work/out")"
}

# ---- Usage: status 2 ----

expect 2 'no command "carry"' carry
expect 2 'no option "--carry"' --carry
expect 2 'no command "carry"' help carry
expect 2 'a URI is missing' send --qmp s
expect 2 'a URI is missing' receive --qmp s
expect 2 'see ramferry send --help' send --qmp s
expect 2 'see ramferry receive --help' receive
expect 2 '--qmp is missing' send tcp://127.0.0.1
expect 2 '--qmp is missing.*or a QEMU' receive tcp://127.0.0.1
expect 2 'no option --carry' send --qmp s --carry tcp://h
expect 2 'no option --carry' send --qmp s --carry=3 tcp://h
expect 2 'no option -x' send -x --qmp s tcp://h
expect 2 'one URI is enough' send --qmp s tcp://a tcp://b
expect 2 '--qmp needs a value' send tcp://h --qmp
expect 2 '--qmp needs a value' send --qmp --quiet tcp://h
expect 2 '--qmp needs the path' send --qmp= tcp://h
expect 2 '--qmp is given twice' send --qmp s --qmp=t tcp://h
expect 2 '--json takes no value' send --json=yes --qmp s tcp://h
expect 2 '--chunk-size is given twice' send --qmp s --chunk-size 1M --chunk-size=2M tcp://h
expect 2 '1 MiB to 1 GiB, a power of two' send --qmp s --chunk-size 3M tcp://h
expect 2 '1 MiB to 1 GiB, a power of two' send --qmp s --chunk-size=2G tcp://h
expect 2 'chunk-size' send --qmp s --chunk-size much tcp://h
expect 2 'wait, force or abort' send --qmp s --on-stall weep tcp://h
expect 2 'on or off' send --qmp s --verify=perhaps tcp://h
expect 2 'option of ramferry send' receive --qmp s --chunk-size 1M tcp://127.0.0.1
expect 2 'must be the number of a process' send --qmp s --pid 0 tcp://h
expect 2 'must be the number of a process' send --qmp s --pid 12x tcp://h
expect 2 'do not go together' send --qmp s --quiet --verbose tcp://h
expect 2 'pigeon' send --qmp s pigeon://h
expect 2 'names no host' send --qmp s tcp://
expect 2 'not an address' send --qmp s host
expect 2 'takes nothing behind the address: "?lanes=2"' send --qmp s 'tcp://h?lanes=2'
expect 2 'is missing behind --' receive tcp://127.0.0.1 --
expect 2 'is missing behind --' receive tcp://127.0.0.1 -- ''
expect 2 'not for one behind --' receive --qmp s tcp://127.0.0.1 -- "$fake" greet
expect 2 'leave out -incoming' receive tcp://127.0.0.1 -- "$fake" greet -incoming defer
expect 2 'leave out --daemonize' receive tcp://127.0.0.1 -- "$fake" greet --daemonize

expect 2 'stands behind --to' doctor tcp://127.0.0.1
expect 2 '--to needs a value' doctor --to
expect 2 '--to needs a URI' doctor --to=
expect 2 '--to is given twice' doctor --to tcp://a --to tcp://b
expect 2 '--pid goes with --qmp' doctor --pid 1
expect 2 'no option --to' send --qmp s --to tcp://h tcp://h
expect 2 'no option --carry' doctor --carry
expect 2 'do not go together' doctor --quiet --verbose
expect 2 'names no host' doctor --to tcp://
expect 2 'pigeon' doctor --to pigeon://h
expect 2 '1 MiB to 1 GiB, a power of two' doctor --chunk-size 3M
expect 2 'see ramferry doctor --help' doctor --

"$ramferry" >"$work/out" 2>"$work/err"
[ $? = 2 ] && [ ! -s "$work/out" ] && grep -q '^Usage' "$work/err" || fail "without arguments it does not tell its usage"

# ---- Refused: status 3 ----

expect 3 "$work/none" send --qmp "$work/none" tcp://127.0.0.1
: >"$work/file"
expect 3 "$work/file" send --qmp "$work/file" tcp://127.0.0.1
expect 3 'cannot start /nonexistent: No such file' receive tcp://127.0.0.1:0 -- /nonexistent
expect 3 'ended with exit status 7 before' receive tcp://127.0.0.1:0 -- "$fake" exit:7
expect 3 'does not speak QMP' receive tcp://127.0.0.1:0 -- "$fake" greet

# A socket of some other program, and one that a silent program holds.
"$fake" greet -qmp "unix:$work/other,server=on" &
pids+=($!)
for _ in $(seq 500); do [ -S "$work/other" ] && break; sleep 0.01; done
expect 3 'does not speak QMP' send --qmp "$work/other" tcp://127.0.0.1

# ---- The doctor: every line ends in ok, or in what to do; what is needed makes it status 3 ----

doctor() { # STATUS ARGUMENT...: its lines are in $work/out
	local status=$1
	shift
	timeout 60 "$ramferry" doctor "$@" >"$work/out" 2>"$work/err" </dev/null
	local got=$?
	[ $got = "$status" ] || fail "doctor $*: status $got, not $status: $(cat "$work/out" "$work/err")"
	if grep -vE ': ok$| - (better|needed): .|: (better|needed): .|^nothing that was found' "$work/out"; then
		fail "doctor $*: a line ends in neither"
	fi
}

found() { # REGEX: a line of the last doctor
	grep -qE "$1" "$work/out" || fail "the doctor does not find /$1/: $(cat "$work/out")"
}

doctor 0
for area in 'tracker wp-async' 'tracker hash.*ok$' 'tcp sockets.*ok$' 'rdma '; do found "^$area"; done
grep -q 'in the way of a move' "$work/out" || fail "the doctor does not say that all is well"
doctor 0 --quiet
if grep 'ok$' "$work/out"; then fail "a quiet doctor says what is ok"; fi
doctor 3 --tracker callback --qmp "$work/none"
found '^guest monitor: .*/none.* - needed: '
found '^tracker callback: .* - needed: '
doctor 3 --qmp "$work/other"
found '^guest monitor: .*does not speak QMP.* - needed: '
doctor 3 --to tcp://127.0.0.1:1
found '^receiver connection: .*refused - needed: '
[ "$(wc -l <"$work/err")" = 1 ] || fail "the doctor says more than one sentence: $(cat "$work/err")"

# ---- Closed standard descriptors: their numbers are not given to anything else ----

bash -c 'exec "$@" <&- >&- 2>&-' - "$ramferry" receive tcp://127.0.0.1:0 -- "$fake" silent &
pids+=($!)
pid=$!
for _ in $(seq 1000); do ls "$work"/ramferry-*/qmp >"$work/socket" 2>/dev/null && break; sleep 0.01; done
for fd in 0 1 2; do
	at=$(readlink "/proc/$pid/fd/$fd")
	[ "$at" = /dev/null ] || fail "with closed standard descriptors $fd is $at"
done
kill -TERM "$pid"
wait "$pid"
"$ramferry" --version >&-
[ $? = 1 ] || fail "--version to a closed standard output is no failure"

# ---- What it gives to the QEMU behind -- ----

timeout 30 "$ramferry" receive tcp://127.0.0.1:0 -- "$fake" arguments -m 64 >"$work/out" 2>"$work/err"
grep -q '^\[arguments\]\[-m\]\[64\]\[-S\]\[-incoming\]\[defer\]\[-qmp\]\[unix:.*,server=on,wait=off\]$' "$work/err" ||
	fail "wrong arguments for QEMU: $(cat "$work/err")"

# ---- Signals while its QEMU starts: status 1, and nothing is left ----

for signal in INT TERM HUP; do
	# A shell's background processes ignore SIGINT; env gives it its usual meaning back.
	env --default-signal=INT "$ramferry" receive tcp://127.0.0.1:0 -- "$fake" silent >"$work/out" 2>"$work/err" &
	pid=$!
	pids+=($pid)
	for _ in $(seq 1000); do ls "$work"/ramferry-*/qmp >"$work/socket" 2>/dev/null && break; sleep 0.01; done
	kill -$signal $pid
	wait $pid
	status=$?
	[ $status = 1 ] && grep -q cancelled "$work/err" || fail "SIG$signal: status $status, $(cat "$work/err")"
	! ls -d "$work"/ramferry-* 2>/dev/null || fail "SIG$signal: its directory is still there"
done

# ---- JSON ----

json() { # STATUS ARGUMENT...
	local status=$1 said
	shift
	timeout 30 "$ramferry" "$@" >"$work/out" 2>"$work/err" </dev/null
	local got=$?
	said=$("$json_lines" <"$work/out") || fail "ramferry $*: $(cat "$work/out")"
	[ "$got" = "$status" ] && [ "$said" = "$status" ] || fail "ramferry $*: status $got, in JSON $said, not $status"
	[ "$status" = 0 ] || grep -q '^ramferry' "$work/err" || fail "ramferry $*: nothing for people"
}

json 2 send --json
json 2 send --carry --json --qmp s tcp://h
json 2 send --json --qmp s --chunk-size 3 tcp://h
json 3 send --json --qmp "$work/none" tcp://h
json 3 send --json --qmp "$work/none"$'\xff\033\n"' tcp://h
json 0 doctor --json
json 2 doctor --json --pid 3
json 3 doctor --json --qmp "$work/none"$'\xff\033\n"' --to tcp://127.0.0.1:1
json 3 receive --json tcp://127.0.0.1:0 -- "$fake" exit:3

# ---- Help, version, manual ----

"$ramferry" --version | grep -qE '^ramferry [0-9]+\.[0-9]+\.[0-9]+$' || fail "no version"
"$ramferry" --help | grep -q 'ramferry receive' || fail "no overview"
for side in send receive doctor bench; do
	"$ramferry" $side --help >"$work/help" || fail "$side --help: status $?"
	"$ramferry" help $side | cmp -s - "$work/help" || fail "help $side is not $side --help"
	[ "$(grep -c '^  --' "$work/help")" -ge 8 ] || fail "$side --help lists few options"
	awk 'length > 80' "$work/help" | grep . && fail "$side --help has lines of more than 80 columns"
	# Whatever the help lists is understood, and stands in the manual.
	for option in $(sed -n 's/^  --\([a-z-]*\).*/\1/p' "$work/help"); do
		grep -q "Fl Fl $option\b" "$manual/ramferry-$side.1" || fail "ramferry-$side(1) lacks --$option"
		if "$ramferry" $side "--$option" 2>&1 | grep -q 'no option'; then fail "--$option is unknown"; fi
	done
done
[ -z "$(command -v mandoc)" ] || mandoc -T lint -W warning "$manual"/ramferry*.1 || fail "the manual pages are not clean"

[ $failures = 0 ] || exit 1
echo "the command line is as it should be"
