#!/usr/bin/env bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# Do the stories bite? Plant one bug at a time in a copy of the tree, and see that a test of the suite fails.
#
# usage: tests/sim/plants.sh [WORD]          only those whose name has WORD in it
#
# Not part of `make check`: it builds once more, and each bug a little. A plant is a line below: what it is, the file, what sed does
# to it, and the test that must notice.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."

plants() {
	cat <<-'END'
		no drain point before round 0|engine/source.c|s/s->drains.needed && rf_source_drain_point(s, e)/false/|drains
		no drain point is ever taken|engine/source_drains.c|s/rf_peer_call(&s->peer, call_drain, s, e)/false/|drains
		what is collected is not suspect|engine/scan.c|/unite(&set->suspect, &set->scratch/d|drains
		what is suspect is forgotten at a drain point|engine/scan.c|/unite(&set->to_send, &set->suspect/d|drains
		what is suspect does not join the final pass|engine/source_switchover.c|/rf_scan_drained/d; /drains.needed/d|drains
		what is suspect is taken back before the drain point|engine/scan.c|s/if (!job->scan->joining)/if (false)/|drains
	END
}

work=$(mktemp -d "${TMPDIR:-/tmp}/plants.XXXXXX")
trap 'rm -rf "$work"' EXIT
git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t "$work"
cd "$work"
meson setup build >log 2>&1 && ninja -C build $(plants | sed 's/.*|/tests\/sim\/sim-/' | sort -u) >>log 2>&1 || { tail log; exit 1; }

failures=0
while IFS='|' read -r what file edit test <&3; do
	[[ $what == *"${1:-}"* ]] || continue
	cp "$file" "$work/original"
	sed -i "$edit" "$file"
	if cmp -s "$file" "$work/original"; then
		verdict="FAIL: there is no place to plant it any more"
	elif ! ninja -C build "tests/sim/sim-$test" >log 2>&1; then
		verdict="FAIL: it does not build: $(grep -m1 error: log)"
	elif timeout 120 "build/tests/sim/sim-$test" >log 2>&1; then
		verdict="FAIL: nobody notices"
	else
		verdict="noticed by $(sed -n 's/^\[  FAILED  \] \(test[a-z_]*\)$/\1/p' log | sort -u | tr '\n' ' ')"
	fi
	[[ $verdict == FAIL* ]] && failures=$((failures + 1))
	echo "$what: $verdict"
	cp "$work/original" "$file"
	touch "$file"
done 3< <(plants)
exit $((failures > 0))
