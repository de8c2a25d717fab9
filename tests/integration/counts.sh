#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# System calls, page faults and context switches in a trace, against strace, getrusage(2), /proc and
# the traced programs' own counts. All counts are exact.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../programs/programs.sh
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

setup() {
	need_root
	need python3 node
}

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

test_switches() {
	record switches --engine none -- "$PROGRAMS/switches" && check_sections switches || true
	record_attached switches-attached --engine none -- "$PROGRAMS/switches" -w &&
		check_sections switches-attached || true
}

teardown() {
	traces_check
}

ALL_TESTS=(syscalls faults switches)
run_tests "$@"
