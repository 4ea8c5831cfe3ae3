# SPDX-License-Identifier: LGPL-2.1-or-later
# What the end-to-end scripts share: a case is a function and one line of output, "ok" or "FAIL" and its sentence. Inside a case,
# `need WHAT COMMAND...` says what did not hold; a case ends at the first need that fails.

. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../support/lib.sh"
. "$SUPPORT/move.sh"

failures=0 cases=0

begin() { # what every script starts with; exits with meson's "skipped" where there is no guest for it
	support_begin
	if ! find_kernel && [ "${1:-}" != boot ]; then
		echo "skip: $WHY_NO_KERNEL"
		exit 77
	fi
}

finish() {
	echo "$cases cases, $failures failed"
	[ $failures = 0 ]
	exit
}

check() { # SENTENCE COMMAND...: in this shell, so that a case can start things
	local sentence=$1
	shift
	cases=$((cases + 1))
	if "$@" >"$T/case.log" 2>&1; then
		echo "ok    $sentence"
	else
		failures=$((failures + 1))
		echo "FAIL  $sentence"
		sed 's/^/      /' "$T/case.log"
	fi
	! declare -F tidy_up >/dev/null || tidy_up
}

skip() { # SENTENCE REASON
	echo "skip  $1: $2"
}

need() { # WHAT COMMAND...
	local what=$1
	shift
	"$@" && return
	echo "not so: $what"
	return 1
}

is() { # VALUE EXPECTED: EXPECTED may be a pattern
	# shellcheck disable=SC2053
	[[ $1 == $2 ]] || { echo "is \"$1\", should be \"$2\""; return 1; }
}

same() { # TEXT EXPECTED
	[ "$1" = "$2" ] || { diff <(tr , '\n' <<<"$2") <(tr , '\n' <<<"$1"); return 1; }
}

says() { # FILE REGEX: the sentence that a sender or receiver ended with
	sentence_of "$1" | grep -qiE "$2" || { echo "says \"$(sentence_of "$1")\", should match /$2/"; cat "$1.err"; return 1; }
}

# ---- Moves that succeed ----------------------------------------------------------------------------------------------------

# The guest of FROM runs in TO, for good: both sides say so, TO's gets on and finds its memory right, FROM's stands still.
has_moved() { # FROM TO SEND_STATUS
	local receive_status
	wait_end "receive.$2" 10
	receive_status=$?
	show_on_failure "$1" "$2" need "send and receive end well" is "$3 $receive_status" "0 0" || return
	need "the guest runs at the destination" guest_runs "$2" || return
	need "it does not run at the source" is "$(qmp "$1" query-status "" running)" false
}

show_on_failure() { # FROM TO COMMAND...
	local from=$1 to=$2
	shift 2
	"$@" && return
	grep -hv '"event":"progress"' "$T/$from.send" "$T/$to.receive" | tail -30
	cat "$T/$from.send.err" "$T/$to.receive.err" "$T/$to.log" 2>/dev/null
	return 1
}

move() { # FROM TO [OPTION of send...]: to a receiver that listens at RECEIVE_URI
	local from=$1 to=$2
	shift 2
	send "$from" "$RECEIVE_URI" "$@"
	has_moved "$from" "$to" $?
}

# Start TO with the given options of qemu_command and a receiver for it.
destination() { # TO [OPTION...]
	qemu_start "$@" incoming=1 && need "a receiver listens" receive_start "$1"
}

# ---- Moves that must fail --------------------------------------------------------------------------------------------------

# As if nothing had happened: it gets on, the settings are the ones before, and nothing of ours is left in its process.
is_untouched() { # NAME SETTINGS
	need "the guest runs on at the source" guest_runs "$1" || return
	need "its settings are as before" same "$(settings_of "$1")" "$2" || return
	need "nobody traces it" is "$(sed -n 's/^TracerPid:[[:space:]]*//p' "/proc/${PID[$1]}/status")" 0 || return
	need "no userfaultfd is left in it" no_userfaultfd "$1"
}

stands_still() { # NAME
	[ "$(qmp "$1" query-status "" running)" = false ]
}

# A destination after a failed move: its guest has not run, and if its QEMU is still there, it stands still.
never_ran() { # NAME
	[ ! -s "$T/$1.console" ] && { ! alive "$1" || stands_still "$1"; }
}

no_process_with() { # WORD on its command line
	! pgrep -f -- "$1"
}

no_userfaultfd() { # NAME
	! find "/proc/${PID[$1]}/fd" -lname '*userfaultfd*' | grep .
}

# Send NAME's guest to URI: refused with STATUS (a pattern) and a sentence, and the guest is as it was.
send_fails() { # STATUS REGEX NAME URI [OPTION...]
	local status=$1 regex=$2 name=$3 before result
	before=$(settings_of "$name")
	shift 2
	send "$@"
	result=$?
	need "exit status" is $result "$status" || { cat "$T/$name.send" "$T/$name.send.err"; return 1; }
	need "one sentence that tells why" says "$T/$name.send" "$regex" || return
	is_untouched "$name" "$before"
}
