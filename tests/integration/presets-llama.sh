#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The llama.cpp preset on real llama.cpp: steps, operators, tensors and experts are those of the
# graphs that the engine passes to its own callback, calls are as many as a preloaded library
# counts.

. "$(dirname "$0")/../lib.sh"

# traced TRACE LOG RECORD-OPTION... -- COMMAND ARG...: the command says "ready" in LOG when its
# libraries are loaded, and then waits for a line of input.
traced() {
	local trace=$1 log=$2 engine tracer
	args_split "${@:3}"
	fed engine "${BEHIND[@]}" >"$log" 2>"$log.err"
	wait_until 60 grep -qx ready "$log" || return 1
	spawn tracer "$INFTRACE" record -e functions -o "$trace" "${BEFORE[@]}" -p "$engine" 2>"$trace.err"
	wait_until 60 grep -q 'recording' "$trace.err" || return 1
	echo >&9
	exec 9>&-
	wait "$engine" && wait "$tracer"
}

# compare NAME MODEL TYPE THREADS DRIVER-OPTION...: with the libraries in $libs
compare() {
	local name=$1 model rc=0
	model=$(llama_model "$2" "$3")
	traced "$TMP/t.json" "$TMP/log" --strict --op-detail -- env LD_PRELOAD="$probed/count_calls.so" \
		COUNT_CALLS="$TMP/calls" "$DRIVER" -w -q -n 6 -t "$4" -N "$TMP/nodes" "${@:5}" "$libs" "$model" || rc=$?
	if [ "$rc" -ne 0 ]; then
		sed 's/^/# /' "$TMP/log" "$TMP/log.err" "$TMP/t.json.err"
		not_ok "$name" "the run failed: $rc"
		return 0
	fi
	"$TOP/tests/probed/compare_llama.py" "$name" "$TMP/t.json" --log "$TMP/log" --nodes "$TMP/nodes" \
		--calls "$TMP/calls" --detail || test_failed=1
}

need_llama
libs=${MODEL_ARGS[0]}
build_probed

test_models() {
	for threads in 1 2; do
		for type in f16 q8_0 q4_0; do
			compare "tiny $type, threads: $threads" tiny "$type" "$threads"
		done
		compare "tiny f16, threads in a pool: $threads" tiny f16 "$threads" -P 50
		compare "moe f16, threads: $threads" moe f16 "$threads"
		compare "qwen3moe q8_0, threads in a pool: $threads" qwen3moe q8_0 "$threads" -P 50
	done
}

# Builds of the CPU backend that run here: they differ in their barriers, and each is other code. The best, the
# plainest and one between them, or all.
test_variants() {
	mapfile -t variants < <(llama_variants 2>"$TMP/unable")
	read -r unable <"$TMP/unable" || true
	n=${#variants[@]} ran=0
	[ "$n" -le "$(often 3 99)" ] || variants=("${variants[0]}" "${variants[n / 2]}" "${variants[n - 1]}")
	for variant in "${variants[@]}"; do
		libs=$(llama_variant_libs "$variant")
		compare "$variant: tiny q4_0, threads in a pool: 2" tiny q4_0 2 -P 50
		expect "$variant: the engine computed with it" 'c["cpu_backend"] == "libggml-cpu-'"$variant"'.so"' \
			c=last:"$TMP/log"
		json '"# '"$variant"': %d barrier calls in the last step" % c["step_barriers"][-1]' c=last:"$TMP/log"
		ran=$((ran + 1))
	done
	libs=${MODEL_ARGS[0]}
	echo "# builds of the CPU backend that ran: ${variants[*]}, of $n that can"
	for variant in $unable; do
		skip "$variant" "this CPU cannot run libggml-cpu-$variant.so"
	done
	check "two builds of the CPU backend at least" test "$ran" -ge 2
}

# The engine's graphs, for runs without the callback: they depend on nothing but the tokens.
graphs() { # NODES
	python3 - "$TOP/tests/probed" "$1" <<-'PY'
		import json, sys
		sys.path.append(sys.argv[1])
		from compare_llama import FUSED, expected_ops, read_nodes
		for g in read_nodes(sys.argv[2]):
		    names = [name for name, _ in expected_ops(g)]
		    fused = names.count(FUSED)
		    print(json.dumps({"operators": len(names) - fused, "fused": fused}))
	PY
}
graphs_of_a_run() {
	"$DRIVER" -q -n 20 -t 1 -N "$TMP/nodes" "${MODEL_ARGS[@]}" >"$TMP/log"
	graphs "$TMP/nodes" >"$TMP/graphs"
}

# Without the callback and the preloaded library, and with operator names only.
test_operators() {
	graphs_of_a_run
	traced "$TMP/t.json" "$TMP/log" --strict -- "$DRIVER" -w -q -n 20 -t 1 "${MODEL_ARGS[@]}"
	expect "tiny f16: steps" 'len([e for e in t if e.get("cat") == "step"]) == c["steps"] == 21' \
		t="$TMP/t.json" c=last:"$TMP/log"
	expect "tiny f16: the operators and fused ones of the graph of each token" \
		'([[len([e for e in t if e.get("cat") == "op" and (e["name"] == "rms_norm_mul") == fused and
			s["ts"] <= e["ts"] < s["ts"] + s["dur"]]) for fused in (False, True)]
			for s in sorted((s for s in t if s.get("cat") == "step"), key=lambda s: s["ts"])] ==
			[[x["operators"], x["fused"]] for x in g] and min(min(x.values()) for x in g) > 0)' \
		t="$TMP/t.json" g="$TMP/graphs"
	expect "tiny f16: barriers of a single thread are not seen" \
		'not [e for e in t if e.get("cat") == "barrier"]' t="$TMP/t.json"
	expect "tiny f16: every operator ends before the next, all within their graph" \
		'(lambda ops, graphs: len(graphs) == 21 and all(a["ts"] + a["dur"] <= b["ts"] + 0.0005
			for a, b in zip(ops, ops[1:])) and all(any(g["ts"] <= o["ts"] and
			o["ts"] + o["dur"] <= g["ts"] + g["dur"] + 0.0005 for g in graphs) for o in ops))(
			*[sorted((e for e in t if e.get("cat") == c), key=lambda e: e["ts"]) for c in ("op", "graph")])' \
		t="$TMP/t.json"
	expect "tiny f16: a sample for each token" \
		'len([e for e in t if e.get("cat") == "sample" and e["name"] == "llama_sampler_sample"]) == 20' \
		t="$TMP/t.json"
}

test_barriers() {
	traced "$TMP/t.json" "$TMP/log" --strict --op-detail -- env LD_PRELOAD="$probed/count_calls.so" \
		COUNT_CALLS="$TMP/calls" "$DRIVER" -w -q -n 20 -t 1 "${MODEL_ARGS[@]}"
	expect "tiny f16: every barrier call of a single thread with --op-detail" \
		'([sum(b.get("cat") == "barrier" and s["ts"] <= b["ts"] < s["ts"] + s["dur"] for b in t)
			for s in sorted((s for s in t if s.get("cat") == "step"), key=lambda s: s["ts"])] ==
			c["step_barriers"] and min(c["step_barriers"]) > 0)' t="$TMP/t.json" c=last:"$TMP/log"

	# the same calls of two threads, at the cheap place after the test for a single one
	traced "$TMP/t.json" "$TMP/log" --strict -- env LD_PRELOAD="$probed/count_calls.so" \
		COUNT_CALLS="$TMP/calls" "$DRIVER" -w -q -n 20 -t 2 -P 50 "${MODEL_ARGS[@]}"
	read -r barriers _ < <(od -An -tu8 "$TMP/calls")
	expect "tiny f16, threads: 2: every barrier call" \
		'len([e for e in t if e.get("cat") == "barrier"]) == '"$barriers"' == sum(c["step_barriers"]) > 0' \
		t="$TMP/t.json" c=last:"$TMP/log"
}

# The binding calls llama_decode from changing threads.
test_node() {
	graphs_of_a_run
	if ! node=$(node_20 2>&1); then
		skip "node binding" "$node"
	elif ! folder=$(node_llama 2>&1); then
		skip "node binding" "$folder"
	else
		cd "$folder" || exit
		for threads in 1 2; do
			name="node binding, threads: $threads"
			check "$name" traced "$TMP/t.json" "$TMP/log" --strict -- env LD_PRELOAD="$probed/count_calls.so" \
				COUNT_CALLS="$TMP/calls" "$node" "$TOP/tests/engines/node_llama_gen.mjs" -w \
				"${MODEL_ARGS[1]}" 20 "$threads" 2
			read -r barriers forwards < <(od -An -tu8 "$TMP/calls")
			expect "$name: all tokens that the binding evaluated" \
				'sum(e["args"]["n_tokens"] for e in t if e.get("cat") == "step") == c["evaluated"]' \
				t="$TMP/t.json" c=last:"$TMP/log"
			expect "$name: a sample for each generated token, not one for each member of the chain" \
				'len([e for e in t if e.get("cat") == "sample"]) == c["generated"]' \
				t="$TMP/t.json" c=last:"$TMP/log"
			expect "$name: barrier calls, but for those of a single thread" \
				'len([e for e in t if e.get("cat") == "barrier"]) == '"$((threads > 1 ? barriers : 0))" \
				t="$TMP/t.json"
			expect "$name: the operators of a graph on each thread for each step" \
				'(len([e for e in t if e.get("cat") == "op" and e["name"] != "rms_norm_mul"]) == '"$forwards"' ==
					g[-1]["operators"] * '"$threads"' * len([e for e in t if e.get("cat") == "step"]))' \
				t="$TMP/t.json" g="$TMP/graphs"
		done
	fi
}

run_tests "$@"
