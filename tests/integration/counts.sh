#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# System calls, page faults and context switches in a trace, against strace, getrusage(2), /proc and
# the traced programs' own counts. All counts are exact.

. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/programs/programs.sh"

compare_strace() { # NAME MODE
	if ! command -v strace >/dev/null; then
		skip "$1: strace" "strace is not installed"
		return
	fi
	SECTION_ONCE=1 strace -fc -U name,calls,errors -o "$TMP/$1.table" \
		"$PROGRAMS/syscalls" "$2" >"$TMP/$1.out2" 2>"$TMP/$1.log"
	check "$1: calls and errors as strace counts them" \
		"$CHECK" strace "$TMP/$1.json" "$TMP/$1.out" "$TMP/$1.table" "$TMP/$1.out2"
}

check_sections() { # NAME
	check "$1: calls, results, faults and switches as the program counts them" \
		"$CHECK" sections "$TMP/$1.json" "$TMP/$1.out"
}

need python3 node

test_syscalls() {
	for mode in single threads signals spawn; do
		record "calls-$mode" --engine none -- "$PROGRAMS/syscalls" "$mode" || continue
		check_sections "calls-$mode"
		compare_strace "calls-$mode" "$mode"
	done
	for mode in single threads signals spawn; do
		record_attached "calls-$mode-attached" --engine none -- "$PROGRAMS/syscalls" "$mode" -w || continue
		check_sections "calls-$mode-attached"
	done
}

# A file on a disk: those of a tmpfs never leave the memory.
test_faults() {
	pages=$PROGRAMS/pages.$$
	step="$PROGRAMS/faults:work(kind=s32 arg1)@step"
	if record faults --engine none -u "$step" -- "$PROGRAMS/faults" "$pages"; then
		check_sections faults
		check "faults: the profile's as getrusage counts them" \
			"$CHECK" faults "$TMP/faults.jsonl" "$TMP/faults.out"
		if [ "$(json 'sum(l["faults_major"] for l in o if "step" in l)' o="$TMP/faults.out")" -gt 0 ]; then
			ok "faults: major ones among them"
		else
			skip "faults: major ones" "the pages of a file in $PROGRAMS stay in memory"
		fi
		check "faults: those that end in a signal are told" \
			grep -q ' 40 page faults ended in a signal' "$TMP/faults.err"
	fi
	record_attached faults-attached --engine none -u "$step" -- "$PROGRAMS/faults" "$pages" -w &&
		check_sections faults-attached || true
}

# Where the kernel refuses the events of perf that count them.
test_refused() {
	local direct=$INFTRACE stages='for l in p for k in l["stage_us"]'
	printf '#!/bin/sh\nexec %s %s "$@"\n' "$PROGRAMS/without_perf" "$direct" >"$TMP/without_perf"
	chmod 755 "$TMP/without_perf"
	INFTRACE=$TMP/without_perf
	if record refused -v --engine none -u "$PROGRAMS/faults:work(kind=s32 arg1)@step" -- "$PROGRAMS/faults" "$PROGRAMS/pages.$$"; then
		check "refused: those of steps are the kernel's own" "$CHECK" faults "$TMP/refused.jsonl" "$TMP/refused.out"
		check "refused: the cost of inftrace is known" grep -q '"tracer_us"' "$TMP/refused.jsonl"
		"$INFTRACE" doctor >"$TMP/doctor"
		if grep -q '^ok .*return of handle_mm_fault' "$TMP/doctor"; then
			check_sections refused
			check "refused: doctor says what counts them" grep -q 'minor-faults .*return of handle_mm_fault stands in' "$TMP/doctor"
			check "refused: nothing is missing" grep -q '"event":"fault_prof"' "$TMP/refused.jsonl"
			check_rc "refused: the window does not say so" 1 "" grep -q not_recorded "$TMP/refused.jsonl"
		else
			check "refused: doctor says that they are missing" grep -q '^inftrace can record here, but no page faults$' "$TMP/doctor"
			same "refused: one line says it" "$(grep -c 'warning: page faults are not recorded.*run on the host' "$TMP/refused.err")" 1
			expect "refused: the window says so" "[l['shape']['not_recorded'] for l in p if l['event'] == 'window_prof'] == ['faults']" \
				p="$TMP/refused.jsonl"
			expect "refused: no counts and no times" \
				"not any(l['event'] == 'fault_prof' for l in p) and not any('fault' in k $stages)" p="$TMP/refused.jsonl"
			expect "refused: no slices" "not any(e.get('cat') == 'fault' for e in t)" t="$TMP/refused.json"
			check "refused: the profile is valid" "$direct" validate "$TMP/refused.jsonl" --require token_prof,sched_prof,window_prof
		fi
	fi
	INFTRACE=$direct
}

test_switches() {
	record switches --engine none -- "$PROGRAMS/switches" && check_sections switches || true
	record_attached switches-attached --engine none -- "$PROGRAMS/switches" -w &&
		check_sections switches-attached || true
}

teardown() {
	traces_check
}

run_tests "$@"
