# SPDX-License-Identifier: LGPL-2.1-or-later
# Completion for bash. The options are those that the command itself lists.

_ramferry() {
	local word=${COMP_WORDS[COMP_CWORD]} side=${COMP_WORDS[1]} uris='tcp:// rdma://' i
	COMPREPLY=()
	if [ "$COMP_CWORD" = 1 ]; then
		mapfile -t COMPREPLY < <(compgen -W 'send receive doctor bench help --help --version' -- "$word")
		return
	fi
	for ((i = 2; i < COMP_CWORD; i++)); do
		if [ "${COMP_WORDS[i]}" = -- ]; then # a QEMU and its arguments
			mapfile -t COMPREPLY < <(compgen -f -- "$word")
			return
		fi
	done
	case ${COMP_WORDS[COMP_CWORD - 1]} in
	--qmp | --plot)
		mapfile -t COMPREPLY < <(compgen -f -- "$word")
		return
		;;
	help)
		mapfile -t COMPREPLY < <(compgen -W 'send receive doctor bench' -- "$word")
		return
		;;
	esac
	case $side in
	send | receive | doctor | bench)
		if [ "$side" = bench ] && [ "$COMP_CWORD" = 2 ]; then
			mapfile -t COMPREPLY < <(compgen -W 'chunk-size in-flight converge rounds receive --help' -- "$word")
			return
		fi
		[ "$side" != doctor ] || [ "${COMP_WORDS[COMP_CWORD - 1]}" = --to ] || uris=
		mapfile -t COMPREPLY < <(compgen -W "$uris $(ramferry "$side" --help 2>/dev/null |
			sed -n 's/^  \(--[a-z-]*\).*/\1/p' | tr '\n' ' ')" -- "$word")
		;;
	esac
}

complete -F _ramferry ramferry
