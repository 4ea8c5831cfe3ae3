# SPDX-License-Identifier: LGPL-2.1-or-later
# Run ramferry on the QEMUs of lib.sh. Events of a sender go to $T/NAME.send, those of a receiver to $T/NAME.receive, one JSON
# object a line; NAME is that of the QEMU it works on.

# Where NAME's receiver listens, once it does.
receiver_address() { # NAME
	sed -n 's/.*"message":"listening at \([^"]*\)".*/\1/p' "$T/$1.receive" 2>/dev/null | head -1
}

receiver_listens() { # NAME
	[ -n "$(receiver_address "$1")" ] || ended "receive.$1"
}

# Sets RECEIVE_URI. RECEIVE_AT is where it shall listen, if not at tcp://127.0.0.1:0.
receive_start() { # NAME [OPTION...]
	local name=$1
	shift
	rm -f "$T/$name.receive" # of another run, which would be taken for this one's
	"$RAMFERRY" receive --json --qmp "$T/$name.qmp" "$@" "${RECEIVE_AT:-tcp://127.0.0.1:0}" >"$T/$name.receive" 2>"$T/$name.receive.err" &
	PID[receive.$name]=$!
	await_receiver "$name"
}

# The same with a QEMU that ramferry starts, called NAME. Options for ramferry in RECEIVE_OPTIONS.
receive_into_child() { # NAME [OPTION of qemu_command...]
	local name=$1
	qemu_command "$@"
	: >"$T/$name.console"
	chmod 666 "$T/$name.console"
	rm -f "$T/$name.receive"
	# shellcheck disable=SC2086 # the options are words
	"$RAMFERRY" receive --json ${RECEIVE_OPTIONS:-} tcp://127.0.0.1:0 -- "${QEMU_COMMAND[@]}" \
		>"$T/$name.receive" 2>"$T/$name.receive.err" &
	PID[receive.$name]=$!
	await_receiver "$name"
}

await_receiver() { # NAME
	RECEIVE_URI=
	within 20 receiver_listens "$1" || return 1
	RECEIVE_URI=$(receiver_address "$1")
	[ -n "$RECEIVE_URI" ]
}

send() { # NAME URI [OPTION...]: the exit status of ramferry send
	local name=$1 uri=$2
	shift 2
	"$RAMFERRY" send --json --qmp "$T/$name.qmp" "$@" "$uri" >"$T/$name.send" 2>"$T/$name.send.err"
}

send_start() { # NAME URI [OPTION...]
	local name=$1 uri=$2
	shift 2
	rm -f "$T/$name.send"
	"$RAMFERRY" send --json --qmp "$T/$name.qmp" "$@" "$uri" >"$T/$name.send" 2>"$T/$name.send.err" &
	PID[send.$name]=$!
}

# Has NAME's sender told of this phase ("rounds") and, if given, of a round from this one on?
send_reached() { # NAME PHASE [ROUND]
	grep '"event":"progress"' "$T/$1.send" 2>/dev/null | awk -v phase="$2" -v round="${3:-0}" -F'[,:{}]' '
		{ p = r = ""; for (i = 1; i < NF; i++) { if ($i == "\"phase\"") p = $(i + 1); if ($i == "\"round\"") r = $(i + 1) } }
		p == "\"" phase "\"" && r + 0 >= round + 0 { found = 1; exit }
		END { exit !found }'
}

# The sentence that a sender or receiver ended with.
sentence_of() { # FILE
	sed -n 's/^{"event":"result".*"error":"\(.*\)"}$/\1/p; s/^{"event":"result".*"message":"\([^"]*\)".*$/\1/p' "$1" | tail -1
}

stat_of() { # FILE NAME: from the summary
	sed -n 's/^{"event":"summary".*"stats":{[^}]*"'"$2"'":\([0-9]*\).*/\1/p' "$1"
}
