#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Interrupts between any two stores of the time keeping (bpf/states.bpf.h). Such a moment lasts for a nanosecond, so the
# programs are built once more with moments of microseconds: race_window(). Only with scripts/test --all.

. "$(dirname "$0")/../lib.sh"

[ -n "${TEST_ALL:-}" ] || skip_all "it builds inftrace once more, for half a minute of CPU time: with --all"

. "$TOP/tests/programs/programs.sh"

RUNS=12

need python3 clang bpftool
run_logged "$TMP/make.log" "cannot build inftrace with RACE_WINDOWS" \
	make -C "$TOP" -s -j2 O="$TMP/races" RACE_WINDOWS=1 CFLAGS=-O0 "$TMP/races/inftrace"
INFTRACE=$TMP/races/inftrace

# With moments that long a change of state may be interrupted in every try, which is told: such a run says nothing.
test_breakdown() {
	local p=$PROGRAMS/preempt i n=0
	for ((i = 0; i < RUNS; i++)); do
		record "$i" -e +irq --engine none --ring-size 64MB -u "$p:work(round=s32 arg1)@step" \
			-u "$p:leaf@op" -u "$p:spin@barrier" -- "$p" 12 150 || continue
		! grep -q "preempted in every try" "$TMP/$i.err" || continue
		check "$i: the breakdown of each step, from its spans" \
			"$CHECK" breakdown "$TMP/$i.json" "$TMP/$i.jsonl"
		n=$((n + 1))
	done
	check "runs without a change that was interrupted in every try" test "$n" -ge 3
}

run_tests "$@"
