#!/usr/bin/env bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# What cannot work is refused in one sentence, and the guest has not noticed: after each case it runs and its QEMU is set as before.
set -u
. "$(dirname "$(readlink -f "$0")")/case.sh"
begin

APPEND="RF_FILL_MIB=20"
NOBODY=tcp://127.0.0.1:1 # nothing listens there

# ---- What is wrong with the command line ------------------------------------------------------------------------------------

usage_error() { # REGEX ARGUMENT...
	local regex=$1 out status
	shift
	out=$("$RAMFERRY" "$@" 2>&1)
	status=$?
	need "exit status" is $status 2 || return
	need "one sentence" is "$(printf '%s\n' "$out" | wc -l)" 1 || { echo "$out"; return 1; }
	grep -qiE "$regex" <<<"$out" || { echo "says \"$out\", should match /$regex/"; return 1; }
}

wrong_options() {
	local sock="$T/a.qmp" before
	before=$(settings_of a)
	usage_error 'no option --warp' send --qmp "$sock" --warp 9 $NOBODY || return
	usage_error 'chunk-size.*1 MiB to 1 GiB' send --qmp "$sock" --chunk-size 3M $NOBODY || return
	usage_error 'lanes' send --qmp "$sock" --lanes 1000 $NOBODY || return
	usage_error 'max-bandwidth' send --qmp "$sock" --max-bandwidth fast $NOBODY || return
	usage_error 'tracker' send --qmp "$sock" --tracker magic $NOBODY || return
	usage_error 'URI' send --qmp "$sock" || return
	usage_error 'one URI' send --qmp "$sock" $NOBODY $NOBODY || return
	usage_error 'qmp' send $NOBODY || return
	usage_error 'smoke' send --qmp "$sock" smoke://host || return
	usage_error '99999' send --qmp "$sock" tcp://127.0.0.1:99999 || return
	usage_error 'ferry' ferry || return
	usage_error 'qmp' receive tcp://127.0.0.1:0 || return
	is_untouched a "$before"
}

# ---- What is wrong with the monitor -----------------------------------------------------------------------------------------

bad_socket() { # REGEX SOCKET
	local status
	"$RAMFERRY" send --json --qmp "$2" $NOBODY >"$T/bad.send" 2>"$T/bad.send.err"
	status=$?
	need "exit status" is $status 3 || { cat "$T/bad.send"; return 1; }
	need "one sentence that tells why" says "$T/bad.send" "$1"
}

dead_socket() {
	socat "UNIX-LISTEN:$T/dead" - </dev/null >/dev/null 2>&1 &
	PID[dead]=$!
	within 5 test -S "$T/dead" || return
	end dead KILL
	need "the socket is still there" test -S "$T/dead" || return
	bad_socket 'connect' "$T/dead" && bad_socket 'no such file' "$T/never" && bad_socket 'socket|connect' /etc/passwd
}

foreign_socket() {
	socat "UNIX-LISTEN:$T/foreign,fork" SYSTEM:'echo hello; cat' 2>/dev/null &
	PID[foreign]=$!
	within 5 test -S "$T/foreign" || return
	bad_socket 'QMP|QEMU' "$T/foreign"
	local status=$?
	end foreign
	return $status
}

silent_socket() {
	socat "UNIX-LISTEN:$T/silent,fork" SYSTEM:'sleep 60' 2>/dev/null &
	PID[silent]=$!
	within 5 test -S "$T/silent" || return
	bad_socket 'QMP|QEMU|monitor' "$T/silent"
	local status=$?
	end silent
	return $status
}

busy_monitor() {
	local before status
	before=$(settings_of a)
	socat -u "UNIX-CONNECT:$T/a.qmp" - >"$T/busy" 2>&1 &
	PID[busy]=$!
	within 5 grep -qs QMP "$T/busy" || return
	bad_socket 'monitor|somebody|client|use' "$T/a.qmp"
	status=$?
	end busy
	[ $status = 0 ] && is_untouched a "$before"
}

two_senders() {
	local before status
	before=$(settings_of a)
	destination d1 append="$APPEND" || return
	send_start a "$RECEIVE_URI" --max-bandwidth 4M
	need "the first is on its way" within 10 send_reached a rounds || return
	bad_socket 'monitor|somebody|another|client|use' "$T/a.qmp"
	status=$?
	need "the first does not mind" alive send.a || return
	kill -INT "${PID[send.a]}"
	wait_end send.a 10
	need "the first is cancelled" is $? 1 || return
	end receive.d1
	qemu_end d1
	[ $status = 0 ] && is_untouched a "$before"
}

# ---- What is wrong with the other side --------------------------------------------------------------------------------------

no_receiver() {
	send_fails '[13]' 'refused|nobody|no receiver|connect' a $NOBODY
}

unknown_host() {
	send_fails '[23]' 'no-such-host' a tcp://no-such-host.invalid:7263
}

other_language() { # WHAT
	local port
	rm -f "$T/other.log"
	# fork: whoever retries meets the same again
	socat -d -d TCP-LISTEN:0,bind=127.0.0.1,fork SYSTEM:"$1" 2>"$T/other.log" &
	PID[other]=$!
	within 5 grep -qs 'listening on' "$T/other.log" || return
	port=$(sed -n 's/.*listening on .*127.0.0.1:\([0-9]*\).*/\1/p' "$T/other.log" | head -1)
	send_fails "$2" 'speak|ramferry|answer|peer|closed|receiver' a "tcp://127.0.0.1:$port" --connect-timeout 3s
	local status=$?
	end other
	return $status
}

stranger_at_receiver() {
	local host=${RECEIVE_URI#tcp://}
	destination e1 append="$APPEND" || return
	host=${RECEIVE_URI#tcp://}
	printf 'GET / HTTP/1.0\r\n\r\n' | timeout 5 socat - "TCP:$host" >/dev/null 2>&1
	head -c 100000 /dev/urandom | timeout 5 socat - "TCP:$host" >/dev/null 2>&1
	need "the receiver waits on" alive receive.e1 || { cat "$T/e1.receive"; return 1; }
	kill -TERM "${PID[receive.e1]}"
	wait_end receive.e1 10
	need "and ends when told to" is $? 1
	qemu_end e1
}

unlike() { # REGEX OPTION of qemu_command...: a destination with these is refused, by both sides
	local regex=$1 status
	shift
	destination u append="$APPEND" "$@" || return
	send_fails 3 "$regex" a "$RECEIVE_URI"
	status=$?
	if [ $status = 0 ]; then
		wait_end receive.u 10
		need "the receiver says so, too" is $? 3 && need "with a sentence" says "$T/u.receive" "$regex"
		status=$?
	fi
	end receive.u
	qemu_end u
	return $status
}

private_destination() {
	qemu_start u append="$APPEND" ram=private incoming=1 || return
	"$RAMFERRY" receive --json --qmp "$T/u.qmp" tcp://127.0.0.1:0 >"$T/u.receive" 2>"$T/u.receive.err"
	need "exit status" is $? 3 || return
	need "the line to add" says "$T/u.receive" 'memory-backend-file.*share=on'
	qemu_end u
}

not_incoming() {
	qemu_start u append="$APPEND" || return
	"$RAMFERRY" receive --json --qmp "$T/u.qmp" tcp://127.0.0.1:0 >"$T/u.receive" 2>"$T/u.receive.err"
	need "exit status" is $? 3 || return
	need "the options to add" says "$T/u.receive" 'incoming defer' || return
	need "the guest there runs" guest_up u
	qemu_end u
}

# ---- What is wrong with the guest ---------------------------------------------------------------------------------------------

bad_guest() { # REGEX OPTION of qemu_command...
	local regex=$1 status
	shift
	qemu_start b append="$APPEND" "$@" && need "it boots" guest_up b || return
	send_fails 3 "$regex" b $NOBODY
	status=$?
	qemu_end b
	return $status
}

qemu_start a append="$APPEND" && guest_up a || exit 1
mkdir "$T/fat"

check "wrong options get one sentence and status 2" wrong_options
check "a socket that nobody listens at, none, and a file" dead_socket
check "a socket of another program" foreign_socket
check "a socket of a program that says nothing" silent_socket
check "a monitor that somebody else uses" busy_monitor
check "a second send for the same guest" two_senders
check "no receiver" no_receiver
check "a host that cannot be found" unknown_host
check "a peer that speaks something else" other_language 'echo SSH-2.0-OpenSSH_9.2; sleep 5' '[23]'
check "a peer that echoes" other_language 'cat' '[23]'
check "a peer that says nothing" other_language 'sleep 20' '[123]'
check "strangers at a receiver are sent away, and it waits on" stranger_at_receiver
check "a destination with more memory" unlike 'memory|RAM|block|size' size=288
check "a destination of another machine type" unlike 'machine' machine=q35
check "a destination with memory in two nodes" unlike 'memory|RAM|block' ram=numa
check "a destination with private memory is told what to add" private_destination
check "a destination that does not wait for a guest is told what to add" not_incoming
check "private memory at the source: told what to add" bad_guest 'memory-backend-file.*share=on' ram=private
check "a device that blocks migration" bad_guest 'qcow|fat' -- -drive "if=none,id=d,format=raw,file=fat:rw:$T/fat" -device virtio-blk,drive=d
finish
