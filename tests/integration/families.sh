#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The lines per process at the end of a profile, compared with the spans of the same recording, and
# without a timeline.

. "$(dirname "$0")/../lib.sh"
need python3 node
. "$TOP/tests/programs/programs.sh"
CHECK_KERNEL=$TOP/tests/programs/check_kernel.py
FAMILIES=syscall_prof,fault_prof,sched_prof,memory_prof,window_prof

check_sums() { # NAME
	check "$1: the sums of each process, to the nanosecond, from its spans" \
		"$CHECK_KERNEL" sums "$TMP/$1.json" "$TMP/$1.jsonl"
	check "$1: all families" "$INFTRACE" validate "$TMP/$1.jsonl" --require "$FAMILIES"
}

for run in "switches" "faults $TMP/file" "ipc same" "preempt 4 40" "leave thread" "leave killed" "leave exec"; do
	name=${run// /-}
	name=${name//\//}
	name=${name%%-tmp*}
	# shellcheck disable=SC2086
	record "$name" -e -ipc --ring-size 64MB --engine none -- "$PROGRAMS/"$run && check_sums "$name"
done

# several processes, the last of them unfinished
record several -e -ipc --engine none -d 1s -- sh -c "$PROGRAMS/ipc >/dev/null & $PROGRAMS/ipc >/dev/null; exec sleep 10"
check_sums several
record several -e -ipc --engine none -- sh -c "$PROGRAMS/ipc >/dev/null; $PROGRAMS/pages"
check_sums several
expect "several: a line for each process, with its name" \
	'sorted(p["shape"]["comm"] for p in p if p["event"] == "sched_prof") == ["ipc", "pages", "sh"]' p="$TMP/several.jsonl"

# without a timeline: the numbers of calls are those of the previous run
record_profile() { # NAME [OPTION ...] -- COMMAND ...
	rm -f "$TMP/$1.jsonl"
	"$INFTRACE" record --profile "$TMP/$1.jsonl" "${@:2}" </dev/null >"$TMP/$1.out" 2>"$TMP/$1.err"
}
record_profile alone --engine none -- "$PROGRAMS/ipc" same
check "--profile alone: all families" "$INFTRACE" validate "$TMP/alone.jsonl" --require "$FAMILIES"
check "--profile alone: the same counts of calls" "$CHECK_KERNEL" same "$TMP/ipc-same.jsonl" "$TMP/alone.jsonl"
expect "--profile alone: nothing was sent for them" 'p[-1]["shape"]["records"] < 50' p="$TMP/alone.jsonl"
record_profile short --engine none --min-syscall 10s -o "$TMP/short.json" -- "$PROGRAMS/ipc" same
check "--min-syscall leaves none out of the sums" "$CHECK_KERNEL" same "$TMP/ipc-same.jsonl" "$TMP/short.jsonl"

traces_check
