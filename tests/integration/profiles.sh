#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The families of the profile that come from function calls: operators, graphs, samples, requests.

. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/programs/programs.sh"
FAMILIES=$TOP/tests/programs/families.py

# engine FILE ARGS: a preset of contexts.c
engine() {
	cat >"$1" <<-END
		{
		  "name": "contexts",
		  "match": { "mapped": ["contexts"] },
		  "probes": [
		    { "symbol": "decode", "role": "step", "args": { $2 }, "name": "n_tokens == 1 ? decode : prefill" }
		  ]
		}
	END
}

need python3 node

# Several contexts at once.
test_contexts() {
	engine "$TMP/apart.json" '"n_tokens": "s32 arg2", "context": "ptr arg1"'
	engine "$TMP/alike.json" '"n_tokens": "s32 arg2"'

	for how in keep hop; do
		for n in 1 5; do
			name=contexts-$n-$how
			record_attached "$name" --engine "$TMP/apart.json" -- "$PROGRAMS/contexts" "$n" 8 20 "$how" || continue
			check "$name: requests, their tokens and times" \
				"$FAMILIES" contexts "$TMP/$name.json" "$TMP/$name.jsonl" "$TMP/$name.out"
			check "$name: the same from the steps of the profile" "$FAMILIES" requests "$TMP/$name.jsonl"
		done
	done
	name=contexts-alike
	record_attached "$name" --engine "$TMP/alike.json" -- "$PROGRAMS/contexts" 5 8 20 keep &&
		check "$name: what is of several contexts says so" \
			"$FAMILIES" alike "$TMP/$name.json" "$TMP/$name.jsonl" "$TMP/$name.out" || true
}

# families FILE: those that come from calls
families() {
	json '",".join(sorted({e["event"] for e in p} & {"op_prof", "graph_prof", "sample_prof", "request_prof"}))' \
		p="$1"
}

# llama NAME RECORD-OPTION... -- DRIVER-OPTION...
llama() {
	args_split "${@:2}"
	record_attached "$1" "${BEFORE[@]}" -- "$DRIVER" -w -q -n 12 -N "$TMP/$1.nodes" "${BEHIND[@]}" "${MODEL_ARGS[@]}"
}

# alone NAME RECORD-OPTION...: with the profile only
alone() {
	engine_recorded "$1" --strict --profile "$TMP/$1.jsonl" "${@:2}" -- "$DRIVER" -w -q -n 4 -t 1 "${MODEL_ARGS[@]}" ||
		not_ok "$1: recorded" "$(cat "$TMP/$1.err")"
}

test_llama() {
	if (need_llama) >/dev/null 2>&1; then
		need_llama
		for threads in "-t 1" "-t 2" "-t 2 -P 50" "-t 3 -P 0"; do
			name=llama${threads// /} n=4
			# they spin for each other, mostly in vain on two CPUs
			[ "$threads" != "-t 3 -P 0" ] || n=2
			# shellcheck disable=SC2086
			llama "$name" --op-detail -- $threads -r 3 -n "$n" || continue
			check "$name: operators of each step" "$FAMILIES" ops "$TMP/$name.jsonl" "$TMP/$name.nodes" "$TMP/$name.out"
			check "$name: graphs and samples" "$FAMILIES" calls "$TMP/$name.json" "$TMP/$name.jsonl"
			check "$name: requests" "$FAMILIES" requests "$TMP/$name.jsonl"
			expect "$name: a request for each prompt" \
				'([(e["shape"]["prompt_tokens"], e["shape"]["output_tokens"]) for e in p if e["event"] == "request_prof"]
					== [(c["prompt_tokens"] / 3, '"$((n + 1))"')] * 3)' p="$TMP/$name.jsonl" c=last:"$TMP/$name.out"
		done
		llama llama-window -- -t 2 &&
			check "llama-window: operators of the window" "$FAMILIES" window "$TMP/llama-window.json" "$TMP/llama-window.jsonl"
		alone only
		same "the profile alone has no lines for calls" "$(families "$TMP/only.jsonl")" request_prof
		alone named -e +functions
		same "but with -e functions" "$(families "$TMP/named.jsonl")" graph_prof,op_prof,request_prof,sample_prof
		alone detail --op-detail
		expect "and with --op-detail, by step" \
			'sorted({e["shape"]["step"] for e in p if e["event"] == "op_prof"}) == [0, 1, 2, 3, 4]' p="$TMP/detail.jsonl"
		alone asked -u 'libllama:llama_sampler_sample@sample'
		expect "and with -u, for that function" \
			'([e["shape"]["call"] for e in p if e["event"] in ("op_prof", "graph_prof", "sample_prof")]
				== ["llama_sampler_sample"] * 4)' p="$TMP/asked.jsonl"
	else
		skip "families of llama.cpp" "no llama.cpp here"
	fi
}

# The binding calls llama_decode from changing threads.
test_node() {
	if node=$(node_20 2>/dev/null) && folder=$(node_llama 2>/dev/null) && (need_llama) >/dev/null 2>&1; then
		name=node
		need_llama
		cd "$folder" || exit
		record_attached "$name" -- "$node" "$TOP/tests/engines/node_llama_gen.mjs" -w "${MODEL_ARGS[1]}" 20 2 3 && {
			check "$name: requests" "$FAMILIES" requests "$TMP/$name.jsonl"
			check "$name: graphs and samples" "$FAMILIES" calls "$TMP/$name.json" "$TMP/$name.jsonl"
			expect "$name: tokens that the binding evaluated" \
				'(sum(e["shape"]["prompt_tokens"] + e["shape"]["output_tokens"] - 1
					for e in p if e["event"] == "request_prof") == c["evaluated"])' p="$TMP/$name.jsonl" c=last:"$TMP/$name.out"
		} || true
	else
		skip "families of the node binding" "no node 20, no node-llama-cpp or no model"
	fi
}

teardown() {
	traces_check
}

run_tests "$@"
