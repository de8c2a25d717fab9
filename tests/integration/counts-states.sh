#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The breakdown of steps: each state by name and size, and exact under preemption at any instruction.

. "$(dirname "$0")/../lib.sh"
need python3 node
. "$TOP/tests/programs/programs.sh"

adds_up() { # STDERR
	! grep "did not add up" "$1"
}

check_breakdown() { # NAME
	check "$1: the breakdown of each step, to the nanosecond, from its spans" \
		"$CHECK" breakdown "$TMP/$1.json" "$TMP/$1.jsonl"
	check "$1: every step adds up" adds_up "$TMP/$1.err"
}

p=$PROGRAMS/states
if record states --engine none -u "$p:work(kind=s32 arg1,seq=s32 arg2)@step" \
	-u "$p:gpu_sync@gpu_wait" -u "$p:barrier_spin@barrier" -- "$p" "$TMP/lock"; then
	check "states: their names, and at least as long as another thread saw them" \
		"$CHECK" states "$TMP/states.json" "$TMP/states.jsonl" "$TMP/states.out"
	check_breakdown states
	why=$(json 'next((l["why"] for l in o if "skipped" in l), "")' o="$TMP/states.out")
	[ -z "$why" ] || skip "states: blocked_fault" "$why"
fi

p=$PROGRAMS/preempt
for size in "12 150" "40 60" "3 500"; do
	name=preempt-${size% *}
	# shellcheck disable=SC2086
	record "$name" --engine none --ring-size 64MB -u "$p:work(round=s32 arg1)@step" \
		-u "$p:leaf@op" -u "$p:spin@barrier" -- "$p" $size || continue
	check "$name: calls, faults and switches of each thread" \
		"$CHECK" sections "$TMP/$name.json" "$TMP/$name.out"
	check_breakdown "$name"
	expect "$name: every call of a function" \
		'all(sum(e.get("cat") == cat and e["ph"] == "X" and e["name"] == name for e in t) == n
		     for cat, names in o[-1]["functions"].items() for name, n in names.items())' \
		t="$TMP/$name.json" o="$TMP/$name.out"
done

p=$PROGRAMS/leave
for how in exec exit thread killed; do
	record "leave-$how" --engine none -u "$p:work@step" -- "$p" "$how" || continue
	check_breakdown "leave-$how"
	expect "leave-$how: the step is there, unfinished" \
		'[p["shape"]["unfinished"] for p in p if p["event"] == "token_prof"] == [True]' \
		p="$TMP/leave-$how.jsonl"
done

traces_check
