#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# States of Python programs, against what the programs see of themselves.

. "$(dirname "$0")/../lib.sh"
need python3
P=$TOP/tests/programs
PROGRAMS_AT=$P
PYTHON=$(readlink -f "$(command -v /usr/bin/python3 || command -v python3)")
RUN=("$PYTHON")

# recorded NAME PROGRAM ARGUMENTS OPTION...: each call of its function step() is a step.
recorded() {
	local name=$1 program=$2 arguments=$3
	shift 3
	# shellcheck disable=SC2086 # words
	engine_recorded "$name" --strict --engine "$TOP/engines/python.json" --py-step "$program:step" --profile "$TMP/$name.jsonl" "$@" -- \
		"${RUN[@]}" "$PROGRAMS_AT/$program" $arguments || not_ok "$name: recorded" "$(cat "$TMP/$name.err")"
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
	check "gc: in steps, and slices" "$P/check_gc.py" "$TMP/gc.jsonl" "$TMP/gc.json" "$TMP/gc.out"
	check "gc: valid trace" "$INFTRACE" validate "$TMP/gc.json"
	# on a busy machine all steps may have waited for a CPU longer than they collected: then ahead of everything else on it
	! chrt -r 1 true 2>"$TMP/err" || local RUN=(chrt -r 1 "$PYTHON")
	for _ in 1 2; do
		says_garbage && break
		rm "$TMP"/gc.*
		recorded gc python_gc.py 100
	done
	check "gc: why steps were slow" says_garbage
}

says_garbage() {
	"$INFTRACE" report -n 100 "$TMP/gc.jsonl" | grep 'collected garbage for [0-9.]* ms'
}

# Waits for the interpreter's lock, and who had it; others are waits for a lock. On a busy machine something else may be in the way.
test_gil() {
	recorded gil python_gil.py 60
	check "gil: waits, and who was in the way" "$P/check_gil.py" --most 0.6 "$TMP/gil.jsonl" "$TMP/gil.out"
	recorded rare python_gil.py "40 none none none gil"
	check "gil: why steps were slow" grep -qE 'waited [0-9.]+ ms for the GIL' <("$INFTRACE" report -n 100 "$TMP/rare.jsonl")
}

# waits VERSION PLANT...: a shorter run of the same, where something else may more easily be in the way of most of a plant.
waits() {
	recorded "$1" python_gil.py "24 ${*:2}"
	check "$1: waits for the lock, and who was in the way" "$P/check_gil.py" --most 0.5 "$TMP/$1.jsonl" "$TMP/$1.out"
}

test_versions() {
	local version RUN
	[ "$(python_versions | wc -l)" -gt 1 ] || skip "other versions" "there is one interpreter only"
	while read -r version RUN; do
		case $version in
		3.8 | 3.9) waits "$version" none gil lock ;;
		*) waits "$version" none gil lock gc ;;
		esac
	done < <(python_versions)
}

# Those of Debian's next release, which have marks of collections.
test_next_release() {
	local root version RUN PROGRAMS_AT=/mnt
	root=$(python_next 2>&1) || {
		skip "next release" "$root"
		return
	}
	for version in 3.13 3.14; do
		RUN=("$TOP/tests/engines/in_root" "$root" "$P" "/usr/bin/python$version")
		waits "next-$version" none gil lock gc
		recorded "next-$version-gc" python_gc.py 50 -o "$TMP/next.json"
		check "next-$version: collections" "$P/check_gc.py" "$TMP/next-$version-gc.jsonl" "$TMP/next.json" "$TMP/next-$version-gc.out"
	done
}

# Of a thread that waits for the lock: who has it. Before 3.11 its number is not to be found.
test_why() {
	spawn program "$PYTHON" -c '
import threading
threading.Thread(target=lambda: sum(range(10**11)), daemon=True).start()
while True: pass'
	sleep 1
	for _ in 1 2 3 4 5; do # it looks again every 5 ms, for which it may be waiting for a CPU
		"$INFTRACE" why -d 500ms -p "$program" >"$TMP/why" 2>&1 || not_ok "why" "$(cat "$TMP/why")"
		! says_who_has || break
	done
	check "why: who has the lock" says_who_has
	kill -9 "$program"
}

says_who_has() {
	grep -E 'waits in futex.*, for the GIL(, which thread [0-9]+ has)?$' "$TMP/why"
}

# Every second program is written in Python: that alone makes none an engine.
test_discover() {
	spawn program "$PYTHON" -c 'import time; time.sleep(60)'
	"$INFTRACE" record -d 1s --discover --engine "$TOP/engines/python.json" --profile "$TMP/found.jsonl" 2>"$TMP/err" || true
	check "discover: finds none" grep -q '0 processes found' "$TMP/err"
	kill "$program"
}

run_tests "$@"
