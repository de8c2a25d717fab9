#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# What inftrace says that it costs a step.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../robust/common.sh
. "$TOP/tests/robust/common.sh"

setup() {
	need_root
	need cc python3
	# the initial one has this number in every kernel
	[ "$(readlink /proc/self/ns/pid)" = "pid:[4026531836]" ] || skip_all "not told in a pid namespace"
	build storm
}

steps='[x for x in p if x["event"] == "token_prof"]'
told="[x for x in $steps if \"tracer_us\" in x[\"shape\"]]"

storm() { # CALLS
	"$INFTRACE" record -q --engine none -u "$TMP/storm:storm_step@step" --profile "$TMP/$1.jsonl" -- \
		"$TMP/storm" -s 200 -n "$1" >"$TMP/$1.out"
}

# The same step with ten times as many system calls.
test_calls() {
	check "steps of 20 calls" storm 20
	check "steps of 200 calls" storm 200
	for n in 20 200; do
		check "$n calls: the profile is valid" "$INFTRACE" validate "$TMP/$n.jsonl" --require token_prof
		expect "$n calls: each step says what it cost" "len($told) == len($steps) == 200" p="$TMP/$n.jsonl"
		expect "$n calls: no more than it took" \
			"all(0 <= x['shape']['tracer_waited_us'] <= x['shape']['tracer_us'] <= x['stage_us']['total'] for x in $told)" \
			p="$TMP/$n.jsonl"
	done
	expect "calls cost" "statistics.median(x['shape']['tracer_us'] for x in $told) > 5 * statistics.median(x['shape']['tracer_us'] for x in ${told//in p/in q})" \
		p="$TMP/200.jsonl" q="$TMP/20.jsonl"
	"$INFTRACE" report "$TMP/200.jsonl" >"$TMP/report"
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

ALL_TESTS=(calls llama)
run_tests "$@"
