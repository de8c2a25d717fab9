#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# What inftrace says that it costs a step.

. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/robust/common.sh"

need cc python3
# the initial one has this number in every kernel
[ "$(readlink /proc/self/ns/pid)" = "pid:[4026531836]" ] || skip_all "not told in a pid namespace"
build storm

steps='[x for x in p if x["event"] == "token_prof"]'
told="sorted([x for x in $steps if \"tracer_us\" in x[\"shape\"]], key=lambda x: x[\"shape\"][\"step\"])"

# Every second step with ten times as many system calls: of one recording, since what a call costs is measured anew for each.
test_calls() {
	check "records" "$INFTRACE" record -q --engine none -u "$TMP/storm:storm_step@step" --profile "$TMP/p.jsonl" -- \
		"$TMP/storm" -s 400 -n 20 -x 10
	check "the profile is valid" "$INFTRACE" validate "$TMP/p.jsonl" --require token_prof
	expect "each step says what it cost" "len($told) == len($steps) == 400" p="$TMP/p.jsonl"
	expect "no more than it took" \
		"all(0 <= x['shape']['tracer_waited_us'] <= x['shape']['tracer_us'] <= x['stage_us']['total'] for x in $told)" \
		p="$TMP/p.jsonl"
	# by how much is not asked: a probe that an interrupt hit while it was timed makes all steps dearer
	expect "calls cost" "statistics.median(y['shape']['tracer_us'] - x['shape']['tracer_us'] for x, y in zip(($told)[::2], ($told)[1::2])) > 0" \
		p="$TMP/p.jsonl"
	"$INFTRACE" report "$TMP/p.jsonl" >"$TMP/report"
	same "the report begins with it" \
		"$(sed -n '2s/[0-9.]\+ %/N %/p' "$TMP/report")" "  inftrace itself: N % of the time of a token"
}

test_llama() {
	need_llama
	"$INFTRACE" record -q --profile "$TMP/llama.jsonl" -- "$DRIVER" -q -n 16 -t 2 "${MODEL_ARGS[@]}" >"$TMP/llama.out" || true
	check "llama: the profile is valid" "$INFTRACE" validate "$TMP/llama.jsonl" --require token_prof
	expect "llama: each step says what it cost" "0 < len($told) == len($steps)" p="$TMP/llama.jsonl"
	expect "llama: something, and no more than its threads had" \
		"all(0 < x['shape']['tracer_us'] <= x['stage_us']['total'] + x['stage_us'].get('workers_total', 0) for x in $told)" \
		p="$TMP/llama.jsonl"
}

run_tests "$@"
