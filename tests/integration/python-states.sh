#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# States of Python programs, against what the programs see of themselves.

. "$(dirname "$0")/../lib.sh"
need python3
P=$TOP/tests/programs
PYTHON=$(readlink -f "$(command -v /usr/bin/python3 || command -v python3)")

# recorded NAME PROGRAM ARGUMENTS OPTION...: each call of its function step() is a step.
recorded() {
	local name=$1 program=$2 arguments=$3
	shift 3
	# shellcheck disable=SC2086 # words
	"$INFTRACE" record -q --strict --engine "$TOP/engines/python.json" --py-step "$program:step" --profile "$TMP/$name.jsonl" "$@" -- \
		"$PYTHON" "$P/$program" $arguments >"$TMP/$name.log" 2>"$TMP/err" || not_ok "$name: recorded" "$(cat "$TMP/err")"
	check "$name: valid" "$INFTRACE" validate "$TMP/$name.jsonl"
}

setup() {
	"$INFTRACE" record -q --engine none --py-step none -o /dev/null -f chrome -- "$PYTHON" -c pass 2>"$TMP/err" || true
	! grep -q 'not in' "$TMP/err" || skip_all "its steps cannot be seen: $(grep -m 1 'not in' "$TMP/err")"
}

# Collections of garbage, for as long as Python's own callbacks say.
test_gc() {
	readelf -n "$PYTHON" 2>/dev/null | grep -q gc__start || {
		skip gc "this interpreter was built without USDT probes"
		return
	}
	recorded gc python_gc.py 100 -o "$TMP/gc.json"
	check "gc: in steps, and slices" "$P/check_gc.py" "$TMP/gc.jsonl" "$TMP/gc.json" "$TMP/gc.log"
	check "gc: valid trace" "$INFTRACE" validate "$TMP/gc.json"
	check "gc: why steps were slow" grep -q 'collected garbage for [0-9.]* ms' <("$INFTRACE" report -n 100 "$TMP/gc.jsonl")
}

# Waits for the interpreter's lock, and who had it; others are waits for a lock. On a busy machine something else may be in the way.
test_gil() {
	recorded gil python_gil.py 60
	check "gil: waits, and who was in the way" "$P/check_gil.py" --most 0.8 "$TMP/gil.jsonl" "$TMP/gil.log"
	recorded rare python_gil.py "40 none none none gil"
	check "gil: why steps were slow" grep -qE 'waited [0-9.]+ ms for the GIL' <("$INFTRACE" report -n 100 "$TMP/rare.jsonl")
}

# Every second program is written in Python: that alone makes none an engine.
test_discover() {
	spawn program "$PYTHON" -c 'import time; time.sleep(60)'
	"$INFTRACE" record -d 1s --discover --engine "$TOP/engines/python.json" --profile "$TMP/found.jsonl" 2>"$TMP/err" || true
	check "discover: finds none" grep -q '0 processes found' "$TMP/err"
	kill "$program"
}

run_tests "$@"
