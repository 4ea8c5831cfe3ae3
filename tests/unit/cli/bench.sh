#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# bench.sh RAMFERRY: ramferry bench from outside, with guests of a few MiB. No time is looked at.
set -u

ramferry=$1
work=$(mktemp -d)
pids=()
trap 'kill -KILL "${pids[@]}" 2>/dev/null; wait 2>/dev/null; rm -rf "$work"' EXIT
failures=0

fail() {
	echo "FAILED: $*"
	failures=$((failures + 1))
}

expect() { # STATUS SENTENCE ARGUMENT...: one sentence on standard error, nothing on standard output
	local status=$1 sentence=$2
	shift 2
	timeout 60 "$ramferry" bench "$@" >"$work/out" 2>"$work/err" </dev/null
	local got=$?
	[ $got = "$status" ] || fail "bench $*: status $got, not $status"
	[ "$(wc -l <"$work/err")" = 1 ] && grep -q -- "^ramferry bench: .*$sentence" "$work/err" ||
		fail "bench $*: \"$(cat "$work/err")\" does not say \"$sentence\" in one line"
	[ ! -s "$work/out" ] || fail "bench $*: wrote to standard output: $(head -c 200 "$work/out")"
}

# check.py EXPRESSION FILE: is the expression true of the JSON in the file, which is `j`?
cat >"$work/check.py" <<'END'
import json, sys
with open(sys.argv[2]) as f:
    j = json.load(f)
def median(row, metric):
    m = row["metrics"][metric]
    assert m["minimum"] <= m["median"] <= m["maximum"], m
    return m["median"]
sys.exit(0 if eval(sys.argv[1]) else 1)
END

run() { # ARGUMENT...: it works; its output is in $work/out
	timeout 120 "$ramferry" bench "$@" >"$work/out" 2>"$work/err" </dev/null ||
		fail "bench $*: status $?: $(cat "$work/err")"
	[ ! -s "$work/err" ] || fail "bench $*: said $(cat "$work/err")"
}

holds() { # EXPRESSION
	python3 "$work/check.py" "$1" "$work/out" || fail "not so: $1"
}

# ---- Usage ----

tcp=tcp://127.0.0.1:0
expect 2 'what to measure is missing'
expect 2 '--json takes no value' --json=1
expect 2 'a URI is missing' chunk-size
expect 2 'see ramferry bench --help' chunk-size
expect 2 'no experiment "chunky"' chunky $tcp
expect 2 'one URI is enough' chunk-size $tcp $tcp
expect 2 'leave out "tcp' chunk-size --to tcp://h $tcp
expect 2 '--to needs a URI' chunk-size --to=
expect 2 '--memory needs a value' chunk-size $tcp --memory
expect 2 '--memory is given twice' chunk-size $tcp --memory 1M --memory 2M
expect 2 '--memory: ' chunk-size --memory much $tcp
expect 2 '--memory must be a multiple of 4 KiB' chunk-size --memory 5000 $tcp
expect 2 '--memory must be a multiple of 4 KiB' chunk-size --memory 0 $tcp
expect 2 '--writers: ' chunk-size --writers many $tcp
expect 2 '--writers must be at most 1024' chunk-size --writers 2000 $tcp
expect 2 '--working-set must be' chunk-size --memory 8M --working-set 4M $tcp
expect 2 '--working-set must be' chunk-size --memory 8M --working-set 1 $tcp
expect 2 '--rate: ' chunk-size --rate fast $tcp
expect 2 'random or sweep' chunk-size --pattern stripes $tcp
expect 2 '--runs must be 1 to 1000' chunk-size --runs 0 $tcp
expect 2 '--runs must be 1 to 1000' chunk-size --runs 2000 $tcp
expect 2 'whole number of MiB' chunk-size --chunk-sizes 1M,1000 $tcp
expect 2 '--chunk-sizes: ' chunk-size --chunk-sizes 1M,,2M $tcp
expect 2 'a power of two' chunk-size --chunk-sizes 3M $tcp
expect 2 '--chunk-sizes goes with chunk-size only' in-flight --chunk-sizes 1M $tcp
expect 2 '--chunk-size is what varies' chunk-size --chunk-size 1M $tcp
expect 2 '--register is what varies' in-flight --register odp $tcp
expect 2 '--rates goes with converge only' rounds --rates 1M $tcp
expect 2 '--rates: ' converge --rates 1M,fast $tcp
expect 2 'the rate is what varies' converge --rate 1M $tcp
expect 2 'about a guest that writes' converge --writers 0 $tcp
expect 2 'default, historical or both' chunk-size --settings modern $tcp
expect 2 '--settings goes with' rounds --settings default $tcp
expect 2 'ends in .svg or .png' rounds --plot x.gif $tcp
expect 2 'do not go together' rounds --quiet --verbose $tcp
expect 2 'no option --qmp' rounds --qmp s $tcp
expect 2 'no option --carry' rounds --carry $tcp
expect 2 'downtime-limit must be' rounds --downtime-limit soon $tcp
expect 2 'pigeon' rounds pigeon://h
expect 2 'names no host' rounds --to tcp://
expect 2 'leave out --csv' receive --csv $tcp
expect 2 'leave out --to' receive --to tcp://h
expect 3 'are free here: take a smaller guest' rounds --memory 32T $tcp
PATH=$work "$ramferry" bench rounds --plot "$work/x.svg" $tcp >"$work/out" 2>"$work/err"
[ $? = 3 ] && [ "$(cat "$work/err")" = "ramferry bench: --plot needs gnuplot, which is not installed (Debian: gnuplot-nox)" ] ||
	fail "without gnuplot: $(cat "$work/err")"
expect 3 'default 1 MiB, run 1: cannot connect' chunk-size --settings default --chunk-sizes 1M --memory 1M --to tcp://127.0.0.1:1

# ---- Each experiment, by tcp ----

small=(--memory 16M --rate 2M)
run chunk-size "${small[@]}" --runs 2 --chunk-sizes 1M,8M --json $tcp
holds 'j["bench"] == "chunk-size" and j["status"] == 0 and j["error"] is None and j["fabric"] == "tcp"'
holds 'all(j["environment"][k] for k in ("ramferry", "kernel", "machine", "cpus", "cpu", "memory_bytes"))'
holds 'j["guest"]["memory_bytes"] == 16 << 20 and j["guest"]["writers"] == 4 and j["guest"]["bytes_per_second"] == 2 << 20'
holds '[(r["settings"], r["point"]) for r in j["rows"]] == [(s, p) for s in ("historical", "default") for p in ("1 MiB", "8 MiB")]'
holds 'all(len(r["runs"]) == 2 and [x["seed"] for x in r["runs"]] == [1, 2] for r in j["rows"])'
holds 'j["rows"][0]["options"]["writes-per-chunk"] == "1" and "writes-per-chunk" not in j["rows"][2]["options"]'
holds 'all(median(r, m) > 0 for r in j["rows"] for m in ("total_ms", "downtime_ms", "throughput_mbit_per_s"))'
holds 'all(median(r, "sent_mib") >= 16 for r in j["rows"])'
holds '[median(r, "registrations") for r in j["rows"]] == [16, 2, 16, 2]'
holds 'all(sum(p["bytes"] for p in x["rounds"]) == x["stats"]["normal_bytes"] >= 16 << 20 for r in j["rows"] for x in r["runs"])'

run in-flight --memory 16M --json $tcp
holds '[(r["settings"], r["point"]) for r in j["rows"]] == [(s, p) for s in ("historical", "default") for p in ("pin-all", "on-demand")]'
holds 'all(r["options"]["switchover"] == "threshold" and r["options"]["chunk-size"] == "32M" for r in j["rows"])'
holds 'all(x["guest_written_bytes"] == 0 for r in j["rows"] for x in r["runs"])'

run converge "${small[@]:0:2}" --rates 0,1M,max --downtime-limit 10s --json $tcp
holds '[r["guest"]["bytes_per_second"] for r in j["rows"]] == [0, 1 << 20, None]'
holds 'j["rows"][0]["runs"][0]["guest_written_bytes"] == 0 < j["rows"][2]["runs"][0]["guest_written_bytes"]'
holds 'j["options"]["downtime-limit"] == "10s"'
run converge --memory 4M --json $tcp
holds 'len(j["rows"]) == 8 and j["rows"][0]["point"] == "idle"'

run rounds "${small[@]}" --pattern sweep --json $tcp
holds 'len(j["rows"]) == 1 and len(j["rows"][0]["runs"][0]["rounds"]) == median(j["rows"][0], "rounds") >= 2'
holds 'j["guest"]["pattern"] == "sweep"'

run rounds "${small[@]}" --runs 3 $tcp
grep -q '^final pass ' "$work/out" && grep -q '^downtime .* ms: pause ' "$work/out" &&
	grep -q '^rounds by tcp.* 3 runs, medians' "$work/out" || fail "the table of rounds: $(cat "$work/out")"

run chunk-size "${small[@]}" --settings default --chunk-sizes 1M,2M --csv $tcp
[ "$(wc -l <"$work/out")" = 3 ] && head -n 1 "$work/out" | grep -q '^bench,uri,settings,point,run,seed,.*,total_ms,.*,total_ns,' ||
	fail "CSV: $(head -c 300 "$work/out")"
[ "$(awk -F, '{print NF}' "$work/out" | sort -u | wc -l)" = 1 ] || fail "the lines of the CSV differ in length"

timeout 60 "$ramferry" bench chunk-size --json --memory much $tcp >"$work/out" 2>"$work/err"
[ $? = 2 ] || fail "wrong use with --json is no wrong use"
holds 'j["status"] == 2 and "memory" in j["error"] and j["rows"] == []'
timeout 60 "$ramferry" bench rounds --csv $tcp --json >"$work/out" 2>"$work/err"
holds 'j["status"] == 2 and "--json and --csv do not go together" in j["error"]'

# ---- Drawings ----

if command -v gnuplot >/dev/null; then
	for experiment in chunk-size in-flight converge rounds; do
		run $experiment "${small[@]:0:2}" --plot "$work/it's $experiment.svg" $tcp
		grep -q '<svg' "$work/it's $experiment.svg" || fail "$experiment draws no SVG"
		! grep -q 'nan' "$work/it's $experiment.svg" || fail "$experiment draws what is no number"
	done
	run rounds "${small[@]}" --plot "$work/x.png" $tcp
	[ "$(head -c 4 "$work/x.png" | tail -c 3)" = PNG ] || fail "rounds draws no PNG"
else
	echo "gnuplot is not installed: no drawings"
fi

# ---- Virtual time: the same seed, the same figures ----

expect 2 'no profile "nobody"' rounds sim:nobody
expect 2 'not as fast as it can' rounds --memory 16M --rate max sim:default
expect 2 'both of its sides in one process' rounds --memory 16M --to sim:default
run chunk-size --memory 64M --rate 16M --chunk-sizes 1M,64M --runs 2 --csv sim:default
cp "$work/out" "$work/first"
run chunk-size --memory 64M --rate 16M --chunk-sizes 1M,64M --runs 2 --csv sim:default
column=$(head -n 1 "$work/out" | tr ',' '\n' | grep -nx cpu_ms | cut -d : -f 1)
cmp -s <(cut -d , -f "$column" --complement "$work/first") <(cut -d , -f "$column" --complement "$work/out") ||
	fail "a simulation does not repeat itself"
run in-flight --memory 1G --json sim:default
holds 'j["virtual_time"] and j["fabric"] == "sim" and all(median(r, "sent_mib") >= 1024 for r in j["rows"])'

# ---- Two processes, as on two hosts ----

"$ramferry" bench receive --memory 16M tcp://127.0.0.1:0 2>"$work/receive" &
pid=$!
pids+=($pid)
for _ in $(seq 1000); do grep -q listening "$work/receive" && break; sleep 0.01; done
port=$(sed -n 's/^listening at tcp:.*://p' "$work/receive" | head -n 1)
expect 3 'memory' rounds --memory 8M --to "tcp://127.0.0.1:$port"
kill -TERM $pid
wait $pid
[ $? = 0 ] || fail "a signal that ends bench receive is no success: $(cat "$work/receive")"
"$ramferry" bench receive --runs 2 --memory 16M "tcp://127.0.0.1:$port" 2>"$work/receive" &
pid=$!
pids+=($pid)
for _ in $(seq 1000); do grep -q listening "$work/receive" && break; sleep 0.01; done
run rounds "${small[@]}" --runs 2 --json --to "tcp://127.0.0.1:$port"
holds 'j["two_hosts"] and len(j["rows"][0]["runs"]) == 2'
wait $pid || fail "bench receive has status $?: $(cat "$work/receive")"

# ---- A signal: what was measured before is told ----

env --default-signal=INT "$ramferry" bench rounds --memory 64M --rate 64M --downtime-limit 1ms --on-stall wait --max-bandwidth 8M \
	--json --verbose $tcp >"$work/out" 2>"$work/err" &
pid=$!
pids+=($pid)
for _ in $(seq 1000); do grep -q 'listening at' "$work/err" && break; sleep 0.01; done
kill -INT $pid
wait $pid
[ $? = 1 ] && grep -q cancelled "$work/err" || fail "SIGINT: $(cat "$work/err")"
holds 'j["status"] == 1 and j["rows"][0]["runs"] == []'

[ $failures = 0 ] || exit 1
echo "ramferry bench is as it should be"
