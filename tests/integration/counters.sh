#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# -e pmu: steps and operators have what counters counted while their own thread was on a CPU. The kernel's software counters,
# which every machine has, are compared with what the program and the kernel know otherwise; hardware counters with perf,
# where there are any.

. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/programs/programs.sh"

P=$PROGRAMS/counted
STEPS=40
PAGES=50
PROBES=(--engine none -u "$P:step(pages=s64 arg1)@step" -u "$P:touch(pages=s64 arg1)@op" -u "$P:compute(ns=u64 arg1)@op")

need cc python3

CHECK=$TOP/tests/programs/check_counters.py

software() { # NAME ...
	engine_recorded "$1" "${PROBES[@]}" -e +pmu,+functions --counters software "${@:2}" -- "$P" "$STEPS" "$PAGES"
}

# Whether the machine has hardware counters.
has_hardware() {
	"$INFTRACE" doctor 2>&1 | grep -qE '^ok +hardware counters '
}

test_faults() {
	software faults --profile "$TMP/faults.jsonl"
	check "faults: of each step and operator, and of no other thread" "$CHECK" faults "$TMP/faults.jsonl" "$TMP/faults.out"
	check "faults: the profile is valid" "$INFTRACE" validate "$TMP/faults.jsonl" --require token_prof,op_prof
}

test_clock() {
	software clock --profile "$TMP/clock.jsonl"
	check "clock: runs while the thread is on a CPU" "$CHECK" clock "$TMP/clock.jsonl" "$TMP/clock.out"
}

test_trace() {
	software trace -o "$TMP/trace.json" -o "$TMP/trace.pftrace"
	check "trace: each step and operator has its counts" "$CHECK" trace "$TMP/trace.json" "$TMP/trace.out"
	check "trace: valid" "$INFTRACE" validate "$TMP/trace.json"
	check "trace: .pftrace has them, too" grep -q page_faults "$TMP/trace.pftrace"
}

# A step that a window cuts has no counts, others have theirs.
test_windows() {
	engine_recorded windows "${PROBES[@]}" -e +pmu --counters software --window every=120ms,for=60ms --output-dir "$TMP/windows" \
		-- "$P" 300 "$PAGES"
	cat "$TMP"/windows/*.jsonl >"$TMP/windows.jsonl"
	check "windows: whole steps have counts, and no others" "$CHECK" windows "$TMP/windows.jsonl"
}

test_refused() {
	check_rc "refused: --counters without pmu" 2 '^inftrace: --counters: needs -e \+pmu$' "$INFTRACE" record --counters software -p 1
	check_rc "refused: an unknown set" 2 "^inftrace: --counters: 'x' is neither hardware nor software$" \
		"$INFTRACE" record -e +pmu --counters x -p 1
	check_rc "refused: nothing to count" 2 '^inftrace: -e pmu: steps and operators are counted, and nothing here is one; ' \
		"$INFTRACE" record -e +pmu --counters software --engine none --profile "$TMP/refused.jsonl" -- "$P" 1 1
	if has_hardware; then
		skip "refused: hardware counters" "this machine has some"
		return
	fi
	check_rc "refused: hardware counters" 3 '^inftrace: -e pmu: this machine has no hardware counters \(perf_event_open: ' \
		"$INFTRACE" record "${PROBES[@]}" -e +pmu --profile "$TMP/refused.jsonl" -- "$P" 1 1
	same "refused: in one line" "$(wc -l <"$TMP/check.out")" 1
}

# All steps together have nearly all of the user code of a program that always does the same: of another run, so that
# there are enough counters for both.
test_hardware() {
	if ! has_hardware; then
		skip "hardware: as perf counts" "this machine has no hardware counters"
		return
	fi
	if ! command -v perf >/dev/null; then
		skip "hardware: as perf counts" "perf is not installed"
		return
	fi
	perf stat -x, -e instructions:u -o "$TMP/perf.csv" "$P" "$STEPS" "$PAGES" alone </dev/null >"$TMP/perf.out"
	"$INFTRACE" record "${PROBES[@]}" -e +pmu --profile "$TMP/hardware.jsonl" -- "$P" "$STEPS" "$PAGES" alone </dev/null >"$TMP/hardware.out" \
		2>"$TMP/hardware.err"
	check "hardware: as perf counts" "$CHECK" hardware "$TMP/hardware.jsonl" "$TMP/perf.csv"
}

# What reading them takes at a switch is measured, for tracer_us: one switch in 64 at random, of a thousand or more. How long is up to the machine.
test_weight() {
	engine_recorded weight -v "${PROBES[@]}" -e +pmu --counters software --profile "$TMP/weight.jsonl" -- "$P" 1000 1
	check "weight: switches are timed" grep -qE 'counters: [1-9][0-9]* ns at a switch, the mean of [1-9]' "$TMP/weight.err"
}

run_tests "$@"
