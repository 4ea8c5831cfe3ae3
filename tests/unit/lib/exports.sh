#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# exports.sh LIBRARY MAP HEADER: the library exports what its map lists and its header declares, and nothing else.
set -eu

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

nm -D --defined-only "$1" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort >"$work/library"
sed -n 's/^[[:space:]]*\(rf_[a-z_]*\);$/\1/p' "$2" | sort >"$work/map"
sed -n 's/^RF_API .*\b\(rf_[a-z_]*\)(.*/\1/p' "$3" | sort >"$work/header"

[ -s "$work/library" ] || {
	echo "no symbol in $1"
	exit 1
}
for other in map header; do
	if ! diff -u "$work/$other" "$work/library"; then
		echo "the library's exports differ from its $other"
		exit 1
	fi
done
echo "$(wc -l <"$work/library") symbols"
