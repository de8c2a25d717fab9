#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Execution traces: for each operator for which the engine runs a function one node, with the edges that the engine's own
# graph has.

. "$(dirname "$0")/../lib.sh"

ET=$TOP/tests/tools/et.py

need protoc
need_llama

# traced NAME MODEL THREADS RECORD-OPTION... [-- DRIVER-OPTION...]: what is compared stays in TMP/NAME.said
traced() {
	local name=$1
	args_split "${@:4}"
	check "$name: is recorded" engine_recorded "$name" -o "$TMP/$name.et" "${BEFORE[@]}" -- \
		"$DRIVER" -w -q -n 4 -t "$3" -N "$TMP/$name.nodes" "${BEHIND[@]}" "${MODEL_ARGS[0]}" "$(llama_model "${2%-*}" "${2#*-}")"
	check "$name: nodes and edges are the graph's" "$ET" "$TMP/$name.et" "$TMP/$name.nodes"
	tail -n 1 "$TMP/check.out" >"$TMP/$name.said"
	sed 's/^/# /' "$TMP/$name.said"
	check "$name: is valid" "$INFTRACE" validate "$TMP/$name.et"
}

# said NAME EXPRESSION: of what et.py printed
said() {
	python3 -c "import json, sys; e = json.load(sys.stdin); print($2)" <"$TMP/$1.said"
}

test_f16() {
	traced f16 tiny-f16 2 --strict
	same "f16: all steps" "$(said f16 'e["steps"]')" 5
	same "f16: each node has its time" "$(said f16 'e["timed"] == e["nodes"]')" True
	same "f16: two operators in one call" "$(said f16 'e["fused"] > 0')" True
	same "f16: what reads the cache comes after what writes it" "$(said f16 'e["control"] > 0')" True
	cp "$TMP/f16.et" "$TMP/f16"
	check_rc "f16: is known without its name" 0 "execution trace, $(said f16 'e["nodes"]') nodes" "$INFTRACE" validate "$TMP/f16"
	check_rc "f16: goes along beside a trace" 0 "f16.et: execution trace, $(said f16 'e["nodes"]') nodes without a cycle; none has a number of PyTorch's" \
		"$INFTRACE" link -o "$TMP/f16.zip" "$TOP/tests/golden/kineto.json.gz" --et "$TMP/f16.et"
	check_rc "f16: which the report says" 1 "it is an execution trace, which has no times" "$INFTRACE" report "$TMP/f16.zip"
	check_rc "f16: and is no trace to report by itself" 1 "is an execution trace: inftrace validate checks it" "$INFTRACE" report "$TMP/f16.et"
}

test_one_thread() {
	traced single tiny-f16 1 --strict
	same "single: each node has its time" "$(said single 'e["timed"] == e["nodes"]')" True
}

test_quantized() {
	traced q8_0 tiny-q8_0 2 --strict
}

test_experts() {
	traced moe moe-f16 2 --strict
	traced qwen3moe qwen3moe-q8_0 2 --strict
}

# A step of several graphs, which use the same nodes again, and some of which give no output.
test_long_prompt() {
	traced long tiny-f16 2 --strict -- -b 1024
	same "long: more nodes than in one graph" "$(said long 'e["nodes"] > 410')" True
}

# Beside a trace and a profile, which have the same operators.
test_beside_others() {
	traced beside tiny-f16 2 --strict --profile "$TMP/beside.jsonl" -o "$TMP/beside.json"
	check "the trace is whole" python3 -c 'import json, sys; json.load(open(sys.argv[1]))' "$TMP/beside.json"
	same "no record of nodes in it" "$(grep -c '"name":"node"' "$TMP/beside.json")" 0
}

# A function that somebody calls an operator is no call of a node.
test_uprobe() {
	traced uprobe tiny-f16 2 --strict -u 'libggml-cpu*.so*:ggml_graph_plan@op'
	same "uprobe: each node has its time" "$(said uprobe 'e["timed"] == e["nodes"]')" True
}

# The first steps of many, and no more: those of the prompt and of the first token.
test_first_steps() {
	check "first steps: is recorded" engine_recorded first --strict --et-steps 2 -o "$TMP/first.et" -- \
		"$DRIVER" -w -q -n 8 -t 2 -N "$TMP/all.nodes" "${MODEL_ARGS[@]}"
	grep -E '^."step":[01],' "$TMP/all.nodes" >"$TMP/first.nodes"
	check "first steps: nodes and edges are the graph's" "$ET" "$TMP/first.et" "$TMP/first.nodes"
	same "first steps: two" "$(tail -n 1 "$TMP/check.out" | grep -o '"steps": 2,')" '"steps": 2,'
}

# nodes_of FILE.et: how many, as validate counts them
nodes_of() {
	"$INFTRACE" validate "$1" | sed -n 's/.*: execution trace, \([0-9]*\) nodes.*/\1/p'
}

# Files for each window, with whole steps only: three of one token each, whose graphs have as many operators.
test_windows() {
	mkdir "$TMP/windows"
	engine_started windows --strict --window manual --max-steps 3 --output-dir "$TMP/windows" --format et,json,et.json,kineto.json.gz -- \
		"$DRIVER" -w -q -n 40 -r 1000000 -t 2 -N "$TMP/windows.nodes" "${MODEL_ARGS[@]}"
	for i in 0 1; do
		timeout 60 "$INFTRACE" start --pid "$TRACER" >"$TMP/windows.told"
		check "windows: $i closes" wait_until 60 grep -q "window $i (start to max_steps)" "$TMP/windows.err"
	done
	kill -INT "$TRACER"
	check "windows: inftrace ends well" wait "$TRACER"
	kill -TERM "$ENGINE"
	wait "$ENGINE" || true
	each=$(grep -E '^."step":1,' "$TMP/windows.nodes" | grep -c '"empty":false')
	same "windows: a file for each" "$(find "$TMP/windows" -name '*.et' | wc -l)" 2
	for f in "$TMP"/windows/*.et; do
		check "windows: is valid" "$INFTRACE" validate "$f" "${f%.et}.et.json" "${f%.et}.kineto.json.gz"
		same "windows: three steps" "$(nodes_of "$f")" "$((3 * each))"
	done
}

# A program that is no engine: a file that says what it is, and nothing else.
test_no_engine() {
	check_rc "no engine: it is said" 0 "has no operators" "$INFTRACE" record -o "$TMP/none.et" -- sleep 0
	: >"$TMP/none.nodes"
	check "no engine: the file can be read" "$ET" "$TMP/none.et" "$TMP/none.nodes"
	check_rc "no engine: it is said in PyTorch's form" 0 "has no operators" "$INFTRACE" record -o "$TMP/none.et.json" -o "$TMP/none.kineto.json" -- sleep 0
	check "no engine: which has a process and no more" python3 -c '
import json, sys
e, k = map(json.load, map(open, sys.argv[1:]))
assert [n["id"] for n in e["nodes"]] == [1] and e["pid"] == 0 and k["traceEvents"]' "$TMP/none.et.json" "$TMP/none.kineto.json"
	check "no engine: and is valid" "$INFTRACE" validate "$TMP/none.et.json" "$TMP/none.kineto.json"
}

test_refused() {
	check_rc "without functions" 2 "made of function calls" \
		"$INFTRACE" record -e sched -o "$TMP/refused.et" -- true
	check_rc "split into files" 2 "cannot be split" \
		"$INFTRACE" record --max-size 1MB -o "$TMP/refused.et" -- true
	check_rc "split into files, in PyTorch's form" 2 "cannot be split" \
		"$INFTRACE" record --max-size 1MB -o "$TMP/refused.et.json" -- true
	check_rc "compressed" 2 "must end in" "$INFTRACE" record -o "$TMP/refused.et.gz" -- true
	check_rc "steps of no execution trace" 2 "needs an execution trace" "$INFTRACE" record --et-steps 3 -o "$TMP/refused.json" -- true
	check_rc "no steps" 2 "et-steps" "$INFTRACE" record --et-steps 0 -o "$TMP/refused.et" -- true
}

run_tests "$@"
