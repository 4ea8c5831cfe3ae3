#!/usr/bin/env bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# no-globals.sh CC LIBRARY: the library has no global state, so it may hold no variable that can be written. A library with
# one of each kind is made first, to show that they would be seen.
set -euo pipefail

compiler=$1
library=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Constant tables with pointers in them are in .data.rel.ro, which is not writable when the program runs. The names left
# out belong to the start files of the C runtime and to the compiler's own library.
writable() { # LIBRARY
	objdump -t "$1" | awk '
		/ d  \.|\.data\.rel\.ro/ || $NF ~ /^(completed\.[0-9]+|__dso_handle|__TMC_END__|_edata|__bss_start|_end|__cpu_(model|features2))$/ { next }
		/ (\.data|\.bss|\.tdata|\.tbss|\*COM\*)[^ \t]*\t/ { print $NF }' | sort
}

printf '%s\n' 'int shared; static int counter = 3; static _Thread_local int mine; static char *names[] = {"a"};' \
	'static const char *const table[] = {"b"};' \
	'const char *use(int i) { mine += shared++; return counter++ ? names[mine] : table[i]; }' |
	"$compiler" -shared -fPIC -O0 -x c -o "$work/planted.so" -
planted=$(writable "$work/planted.so" | tr '\n' ' ')
[ "$planted" = "counter mine names shared " ] || {
	echo "this test does not see what was planted: $planted"
	exit 1
}

found=$(writable "$library")
[ -z "$found" ] || {
	echo "global state in $library:"
	echo "$found"
	exit 1
}
