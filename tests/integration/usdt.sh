#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# USDT probes: every event and every argument of a program that says what it gave its probes, built by
# several compilers, which put the arguments in different places; semaphores; CPython's own probes.

. "$(dirname "$0")/../lib.sh"

preset=$TOP/tests/probed/sdt.json
record=(--engine "$preset")

# traced PRELOAD PROGRAM ARG...: records the program, with the options in record, from when it has said
# "ready" and waits until it says "done" and waits again; leaves t.json, t.err (of inftrace) and sdt.out (of the
# program) in $TMP.
traced() {
	local RECORD_BY=(env LD_PRELOAD="$1") target
	waiting target sdt "${@:2}"
	recording BG t --strict -e functions --ring-size 16MB -o "$TMP/t.json" "${record[@]}" -p "$target"
	find "/proc/$BG/fd" -lname '*perf_event*' | wc -l >"$TMP/perf_events"
	say sdt
	wait_until 60 grep -qx "done" "$TMP/sdt.out"
	kill -INT "$BG"
	wait "$BG" || {
		kill "$target" # the next one shall have the bytes to itself
		return 120
	}
	say sdt
	wait "$target"
}

# fired NAME PRELOAD PROGRAM ROUNDS
fired() {
	check "$1: nothing is lost" traced "$2" "$3" "$4"
	"$TOP/tests/probed/check_sdt.py" "$TMP/t.json" "$TMP/sdt.out" | sed "s/^\(not ok\|ok\) /&$1: /" || test_failed=1
	same "$1: the semaphore was on" "$(grep -c '"guarded"' "$TMP/sdt.out")" "$4"
	same "$1: the semaphore is off again" "$(tail -n 1 "$TMP/sdt.out")" off
	same "$1: no place was left out" "$(grep -c 'left out' "$TMP/t.err")" 0
	check "$1: the trace is valid" "$INFTRACE" validate "$TMP/t.json"
}

need python3
echo '#include <sys/sdt.h>' | ${CC:-cc} -E - >/dev/null 2>&1 || skip_all "no sys/sdt.h (systemtap-sdt-dev)"
build_probed sdt

test_fired() {
	for build in pie fixed O0 clang; do
		fired "$build" "" "$probed/sdt_$build" 1000
	done
	fired "single links" "$probed/no_uprobe_multi.so" "$probed/sdt_pie" 1000
	same "single links were used" "$([ "$(cat "$TMP/perf_events")" -gt 10 ] && echo yes)" yes

	"$INFTRACE" engines -e "$preset" "$probed/sdt_pie" >"$TMP/list"
	same "inftrace engines lists a line for each place" "$(grep -c ' usdt:sdt:copies(n)' "$TMP/list")" 6
	same "all of them are cheap" "$(grep ' usdt:' "$TMP/list" | grep -vc '^  cheap')" 0
}

try() { # OPTION
	record=(--engine none -u "$1")
	traced "" "$probed/sdt_pie" 10 && cat "$TMP/t.err"
}

# From the command line; probes that cannot be placed are reported.
test_command_line() {
	check_rc "-u with a file" 0 '[^0-9]30 function' try "$probed/sdt_pie:usdt:sdt:copies(n=s32 arg1)@op"
	check_rc "-u with a name and a glob" 0 '[^0-9]20 function' try "sdt_pie:usdt:*:p[ao]*(n=ptr arg1)@op"
	check_rc "-u: an argument too many" 0 \
		'warning: sdt:copies at .* argument n cannot be read: the probe has no such argument' \
		try "sdt_pie:usdt:sdt:copies(n=s32 arg2)"
	check_rc "-u: a variable whose name stands for two" 0 'argument n cannot be read: it is in a variable that' \
		try "sdt_pie:usdt:sdt:twice(n=s32 arg1)"
	check_rc "-u: no pointer" 0 'argument n cannot be read: it is not a pointer' try "sdt_pie:usdt:sdt:parts(n=u8 *(arg1))"
	check_rc "-u: another size" 0 'argument n cannot be read: it has a different size' \
		try "sdt_pie:usdt:sdt:floats(n=f32 arg1)"
	check_rc "-u: no such probe" 1 'has no USDT probe sdt:copy; it has: sdt:' \
		"$INFTRACE" record -o "$TMP/t.json" --engine none -u "$probed/sdt_pie:usdt:sdt:copy" -- true
	check_rc "-u: a probe that is not reached" 0 'usdt:sdt:guarded: attached, never hit' \
		"$INFTRACE" record -o "$TMP/t.json" --engine none -u "$probed/sdt_pie:usdt:sdt:guarded" -- true
}

# Kernels whose optimised uprobes write below the stack pointer get no probe on a nop of 5 bytes; others do.
test_nop5() {
	[ "$(uname -m)" = x86_64 ] || {
		skip "nop5" "x86_64 only"
		return
	}
	local events=1000 lines=0
	"$INFTRACE" doctor >"$TMP/doctor"
	grep -q '^ok *uprobe on a 5-byte nop ' "$TMP/doctor" || {
		check "nop5: doctor says what is left out" \
			grep -q '^missing *uprobe on a 5-byte nop .*optional: USDT probes there are left out' "$TMP/doctor"
		events=0 lines=1
	}
	record=(--engine none -u "$probed/nop5:usdt:sdt:f*(n=s64 arg1)")
	check "nop5: a recording" traced "" "$probed/nop5" 1000
	same "nop5: no variable was overwritten" "$(grep damaged "$TMP/sdt.out")" "damaged 0"
	same "nop5: a line says that the probe is left out" "$(grep -c 'left out.*5-byte nop' "$TMP/t.err")" "$lines"
	same "nop5: events" "$(grep -c '"name":"sdt:five"' "$TMP/t.json")" "$events"
}

# With windows, steps have links of their own: one at a place whose USDT probe has a semaphore agrees with it.
test_windows() {
	mkdir "$TMP/windows"
	waiting target sdt "$probed/sdt_pie" 20
	recording BG t --engine none --window every=60s,for=50s --output-dir "$TMP/windows" -e functions \
		-u "$probed/sdt_pie:usdt:sdt:guarded" -u "$probed/sdt_pie:sdt_fire_guarded@step" -p "$target"
	say sdt
	wait_until 60 grep -qx "done" "$TMP/sdt.out"
	say sdt
	wait "$target" "$BG" || true
	same "windows: a warning" "$(grep -c warning "$TMP/t.err")" 0
	expect "windows: a step at the place of a USDT probe" \
		'[sum(e.get("name") == n and e["ph"] in "Xi" and e.get("cat") != "steps" for e in t)
			for n in ("sdt:guarded", "sdt_fire_guarded")] == [20, 20]' t="$(echo "$TMP"/windows/trace_*.json)"
}

# Floating-point numbers in the profile.
test_numbers() {
	record=(--engine none --profile "$TMP/p.jsonl" -u "$probed/sdt_pie:sdt_take_numbers(d=f64 *(arg1+8),f=f32 *(arg1+4))@step")
	check "steps with floating-point numbers" traced "" "$probed/sdt_pie" 16
	check "their profile is valid" "$INFTRACE" validate "$TMP/p.jsonl"
	grep '"take_numbers"' "$TMP/sdt.out" >"$TMP/said.jsonl"
	expect "their numbers are in the profile" \
		'([str(float(l["shape"]["d"])) for l in sorted((l for l in p if l["event"] == "token_prof"), key=lambda l: l["shape"]["ts_us"])] ==
			[str(float.fromhex(s["args"]["d"])) for s in said] and
			{"NaN", "Infinity", "-Infinity"} < {l["shape"]["f"] for l in p if l["event"] == "token_prof"})' \
		p="$TMP/p.jsonl" said="$TMP/said.jsonl"
}

# CPython: garbage collections as slices, by its own count.
test_python() {
	python=$(readlink -f /usr/bin/python3)
	readelf -n "$python" 2>/dev/null | grep -q gc__start || {
		skip "python" "$python has no USDT probes"
		return
	}
	cat >"$TMP/python.json" <<-EOF
		{
		  "name": "python", "match": { "mapped": ["${python##*/}"] },
		  "probes": [
		    {
		      "begin": "usdt:python:gc__start", "end": "usdt:python:gc__done", "role": "other", "name": "gc",
		      "args": { "generation": "s32 arg1" }
		    },
		    { "usdt": "python:gc__done", "role": "other", "name": "gc_done", "args": { "collected": "s64 arg1" } },
		    {
		      "usdt": "python:function__return", "role": "op", "name": "return",
		      "args": { "file": "str arg1", "function": "str arg2", "line": "s32 arg3" }
		    }
		  ]
		}
	EOF
	cat >"$TMP/collect.py" <<-EOF
		import gc
		import json
		import os

		def leaf(n):
		    return n + 1

		seen = []
		gc.callbacks.append(lambda phase, info: phase == "stop" and seen.append((info["generation"], info["collected"])))
		gc.disable()
		print("ready", flush=True)
		os.read(0, 1)
		for n in range(60):
		    for i in range(n):
		        knot = []
		        knot.append(knot)
		    knot = None
		    gc.collect(n % 3)
		print(json.dumps({"seen": seen, "sum": sum(map(leaf, range(1000)))}))
		print("done", flush=True)
		os.read(0, 1)
	EOF
	record=(--engine "$TMP/python.json")
	check "python runs" traced "" "$python" -I -S "$TMP/collect.py"
	grep '^{' "$TMP/sdt.out" >"$TMP/said"
	# What differs is shown, with what inftrace said. A trace is not in the order of time: a thread that has moved to another CPU has
	# its next records in another ring.
	same "python: a slice for each collection, with its generation" \
		"$(json '[e["args"]["generation"] for e in sorted((e for e in t if e["name"] == "gc"), key=lambda e: e["ts"])]' t="$TMP/t.json")" \
		"$(json '[s[0] for s in said["seen"]]' said=last:"$TMP/said")"
	same "python: what each collected" \
		"$(json '[e["args"]["collected"] for e in sorted((e for e in t if e["name"] == "gc_done"), key=lambda e: e["ts"])]' \
			t="$TMP/t.json")" \
		"$(json '[s[1] for s in said["seen"]]' said=last:"$TMP/said")"
	[ "$test_failed" = 0 ] || sed 's/^/# /' "$TMP/t.err"
	expect "python: calls of a function, with its file" \
		'len([e for e in t if e["name"] == "return" and e["args"]["function"] == "leaf" and
			e["args"]["file"].endswith("collect.py") and e["args"]["line"] == 6]) == 1000' t="$TMP/t.json"
}

run_tests "$@"
