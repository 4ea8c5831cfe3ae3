# SPDX-License-Identifier: LGPL-2.1-or-later
# Start QEMUs with small guests, look at them, and clean up after whatever happened. For tests/e2e, bench and the demo.
#
# Source it, with RAMFERRY_BUILD set to the build directory if that is not build/, then call `support_begin`. Each QEMU has a name; its files are
# $T/NAME.qmp (for ramferry), $T/NAME.test (for us), $T/NAME.watch (for an outside observer), $T/NAME.console, $T/NAME.log
# and $SHM/NAME.ram*. Whatever was started is ended by its own pid when the shell ends.

SUPPORT=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
RAMFERRY_BUILD=$(readlink -f "${RAMFERRY_BUILD:-$SUPPORT/../../build}")
TOOLS=$RAMFERRY_BUILD/tests/support
[ -x "$TOOLS/qmp-do" ] || { echo "nothing is built in $RAMFERRY_BUILD (RAMFERRY_BUILD)" >&2; exit 1; }
RAMFERRY=${RAMFERRY:-$RAMFERRY_BUILD/cli/ramferry}
QEMU=${QEMU:-qemu-system-x86_64}

declare -A PID=()   # by name, of everything that must not outlive us
declare -A GUEST=() # by QEMU name: linux, boot or slow

support_begin() {
	umask 022
	T=$(mktemp -d "${TMPDIR:-/tmp}/ramferry.XXXXXX")
	SHM=$(mktemp -d /dev/shm/ramferry.XXXXXX)
	chmod 1777 "$T" "$SHM" # a QEMU may run as another user
	trap support_end EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP
}

support_end() {
	local status=$? name
	trap - EXIT
	for name in "${!PID[@]}"; do
		end "$name" KILL
	done
	[ -n "${RAMFERRY_KEEP:-}" ] || rm -rf "$T"
	rm -rf "$SHM"
	exit $status
}

# ---- Processes -----------------------------------------------------------------------------------------------------------

alive() { # NAME
	local state
	[ -n "${PID[$1]:-}" ] || return
	# One that is not our child may stay a zombie for as long as its new parent likes.
	state=$(sed -n 's/^State:[[:space:]]*//p' "/proc/${PID[$1]}/status" 2>/dev/null)
	case $state in '' | Z* | X*) return 1 ;; esac
}

end() { # NAME [SIGNAL]: end a process we started and forget it
	local pid=${PID[$1]:-}
	[ -n "$pid" ] || return 0
	kill -CONT "$pid" 2>/dev/null
	kill -"${2:-TERM}" "$pid" 2>/dev/null
	wait "$pid" 2>/dev/null
	unset "PID[$1]"
}

# Until COMMAND succeeds, at most SECONDS. Polling, because files and other programs' state have no event to wait for.
within() { # SECONDS COMMAND...
	local until=$((${EPOCHREALTIME/[.,]/} + $1 * 1000000))
	shift
	while ! "$@"; do
		[ "${EPOCHREALTIME/[.,]/}" -lt $until ] || return 1
		sleep 0.02
	done
}

ended() { # NAME
	! alive "$1"
}

# Wait for NAME to end by itself, at most SECONDS; its exit status, or 124.
wait_end() { # NAME SECONDS
	local pid=${PID[$1]} status
	within "$2" ended "$1" || return 124
	wait "$pid"
	status=$?
	unset "PID[$1]"
	return $status
}

# ---- Guests --------------------------------------------------------------------------------------------------------------

# Sets KERNEL, or WHY_NO_KERNEL to a sentence.
find_kernel() {
	local found
	if ! found=$("$SUPPORT/guest-kernel" 2>"$T/guest-kernel.log"); then
		WHY_NO_KERNEL=$(cat "$T/guest-kernel.log")
		return 1
	fi
	KERNEL=$T/vmlinuz # copies, since a QEMU of another user may not be able to read ours
	cp "$found" "$KERNEL"
	cp "$TOOLS/initrd" "$T/initrd"
	chmod 644 "$KERNEL" "$T/initrd"
}

# Fills QEMU_COMMAND for a QEMU called NAME. Options, with their defaults:
#   guest=linux (boot: guest/bootsector.S, slow: bootsector-slow.S)  append="" (RF_FILL_MIB=… and so on, see guest/counter.c)
#   size=256 (MiB)  accel=tcg  machine=pc
#   ram=shared (a file in /dev/shm, private, memfd, numa: two nodes)  qemu=…  user=…  qmp=1 (0: no monitor for ramferry)
#   incoming=0 (1: -S -incoming defer)  and more arguments for QEMU behind "--"
qemu_command() { # NAME [OPTION=VALUE...] [-- ARGUMENT...]
	local name=$1 guest=linux append= size=256 accel=tcg machine=pc ram=shared qemu=$QEMU user= incoming=0 qmp=1 monitor
	shift
	while [ $# -gt 0 ] && [ "$1" != -- ]; do
		local "${1%%=*}=${1#*=}"
		shift
	done
	[ "${1:-}" != -- ] || shift

	QEMU_COMMAND=()
	[ -z "$user" ] || QEMU_COMMAND+=(setpriv "--reuid=$user" --regid=nogroup --clear-groups)
	QEMU_COMMAND+=($qemu -accel "$accel" -nodefaults -display none -no-reboot -m "${size}M")
	QEMU_COMMAND+=(-serial "file:$T/$name.console")
	for monitor in test watch; do
		QEMU_COMMAND+=(-qmp "unix:$T/$name.$monitor,server=on,wait=off")
	done
	[ "$qmp" = 0 ] || QEMU_COMMAND+=(-qmp "unix:$T/$name.qmp,server=on,wait=off")
	qemu_ram
	if [ "$guest" = linux ]; then
		QEMU_COMMAND+=(-kernel "$KERNEL" -initrd "$T/initrd")
		QEMU_COMMAND+=(-append "console=ttyS0 quiet loglevel=0 panic=-1 $append")
	else
		local image=bootsector.img
		[ "$guest" = boot ] || image=bootsector-$guest.img
		cp "$TOOLS/$image" "$T/$image"
		QEMU_COMMAND+=(-drive "if=ide,format=raw,snapshot=on,file=$T/$image")
	fi
	[ "$incoming" = 0 ] || QEMU_COMMAND+=(-S -incoming defer)
	QEMU_COMMAND+=("$@")
	GUEST[$name]=$guest
}

qemu_ram() { # part of qemu_command, whose variables it uses
	local file="$SHM/$name.ram" half=$((size / 2))
	case $ram in
	shared)
		QEMU_COMMAND+=(-machine "$machine,memory-backend=m"
			-object "memory-backend-file,id=m,mem-path=$file,share=on,size=${size}M") ;;
	private)
		QEMU_COMMAND+=(-machine "$machine") ;;
	memfd)
		QEMU_COMMAND+=(-machine "$machine,memory-backend=m" -object "memory-backend-memfd,id=m,share=on,size=${size}M") ;;
	numa)
		QEMU_COMMAND+=(-machine "$machine"
			-object "memory-backend-file,id=m0,mem-path=${file}0,share=on,size=${half}M"
			-object "memory-backend-file,id=m1,mem-path=${file}1,share=on,size=${half}M"
			-numa node,memdev=m0,cpus=0 -numa node,memdev=m1) ;;
	esac
}

qemu_start() { # as qemu_command
	local name=$1
	qemu_command "$@"
	: >"$T/$name.console"
	chmod 666 "$T/$name.console"
	"${QEMU_COMMAND[@]}" >"$T/$name.log" 2>&1 &
	PID[$name]=$!
	qmp "$name" query-status >/dev/null || { cat "$T/$name.log" >&2; return 1; }
}

qemu_end() { # NAME: and its memory
	end "$1" KILL
	rm -f "$SHM/$1".ram* "$T/$1".qmp "$T/$1".test "$T/$1".watch
}

qmp() { # NAME COMMAND [ARGUMENTS [FIELD]]
	"$TOOLS/qmp-do" "$T/$1.test" "${@:2}"
}

# ---- What a guest shows --------------------------------------------------------------------------------------------------

on_console() { # NAME REGEX
	grep -aqE "$2" "$T/$1.console" 2>/dev/null
}

# Numbers of whole lines only: "count 12" may be the beginning of "count 123".
last_count() { # NAME
	grep -aoE '^count [0-9]+'$'\r''$' "$T/$1.console" | tail -1 | tr -dc 0-9
}

progress_of() { # NAME: a number that grows while the guest runs
	if [ "${GUEST[$1]}" = linux ]; then
		local n
		n=$(last_count "$1")
		echo "${n:-0}"
	else
		stat -c %s "$T/$1.console"
	fi
}

got_further() { # NAME THAN
	[ "$(progress_of "$1")" -gt "$2" ]
}

guest_up() { # NAME: booted, and its memory filled
	if [ "${GUEST[$1]}" = linux ]; then
		within 60 on_console "$1" '^count 3'
	else
		within 30 on_console "$1" 'AB'
	fi
}

# It runs: it says so, and it gets further, with nothing broken.
guest_runs() { # NAME
	[ "$(qmp "$1" query-status "" running 2>/dev/null)" = true ] &&
		within 10 got_further "$1" 0 && within 10 got_further "$1" $(($(progress_of "$1") + 2)) &&
		! on_console "$1" broken
}

# The consoles of the QEMUs a guest went through, one after the other, hold count 1, 2, 3, ... without a gap. A line may have
# begun in one and ended in the next.
counts_join() { # NAME...
	local name
	for name; do cat "$T/$name.console"; done | tr -d '\r' | awk '
		/broken/ { print; bad = 1; exit 1 }
		held != "" { if (split(held, w, " ") == 2 && w[2] != ++n) { print held " after count " n - 1; bad = 1; exit 1 } held = "" }
		/^count [0-9]+$/ { held = $0 } # judged when the next line shows that it is whole
		END { if (!bad && n < 3) { print "only " n " counts"; bad = 1 } exit bad }'
}

# The count that followed N on the consoles of these QEMUs.
count_after() { # N NAME...
	local n=$1 name
	shift
	for name; do cat "$T/$name.console"; done | tr -d '\r' | sed -n "/^count $n\$/{n;s/^count //p;q}"
}

# Everything of QEMU that a move may have touched and must put back.
settings_of() { # NAME
	qmp "$1" query-migrate-capabilities
	qmp "$1" query-migrate-parameters
}

memory_of() { # NAME FIELD (allocated, data, nonzero)
	"$TOOLS/memory-of" "$SHM/$1".ram* | awk -v f="$2" '{ for (i = 1; i < NF; i += 2) if ($i == f) print $(i + 1) }'
}

now_us() {
	echo "${EPOCHREALTIME/[.,]/}"
}
