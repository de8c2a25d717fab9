#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# llama.cpp's real CUDA build above a GPU that does not exist (tests/gpu/mock.h): it launches, copies, waits and captures graphs as
# it does on a GPU, but its kernels compute nothing. What is recorded of it, against what the GPU was told to do; and that it goes
# on whatever happens to inftrace.

. "$(dirname "$0")/../lib.sh"

setup() {
	need cc python3 c++filt protoc
	local libs
	libs=$(llama_cuda_libs 2>&1) || skip_all "$libs"
	build_mock_gpu
	export LD_LIBRARY_PATH=$MOCK
	DRIVER=$(llama_driver)
	LIBS=$libs
}

# recorded RECORD-OPTION... -- DRIVER-OPTION...: the driver with a model begins once its libraries have been probed, which
# they may be late on a busy machine.
recorded() {
	args_split "$@"
	MOCK_TRUTH=$TMP/t.bin fed BG "$INFTRACE" record --gpu --cupti "$MOCK/libcupti.so" --ring-size 64MB -o "$TMP/t.json" "${BEFORE[@]}" -- \
		"$DRIVER" -w -q -t 1 -g 99 "${BEHIND[@]}" >"$TMP/t.out" 2>"$TMP/t.err"
	wait_until 100 grep -sqx ready "$TMP/t.out" || return 1
	wait_until 60 grep -q '"cat":"transfer"' "$TMP/t.json" || true
	echo >&9
	exec 9>&-
	wait "$BG"
}

# What is shown is what the GPU did, with what launched it; a step has the parts of the GPU.
compare() { # NAME MODEL TYPE DRIVER-OPTION...
	local name=$1
	rm -f "$TMP"/t.*
	check "$name: records" recorded --strict -o "$TMP/t.pftrace" --profile "$TMP/t.jsonl" -- "${@:4}" "$LIBS" "$(llama_model "$2" "$3")"
	grep '^inftrace: gpu' "$TMP/t.err" | sed 's/^/# /' || true
	"$MOCK/mock_driver" --truth "$TMP/t.bin" >"$TMP/t.truth"
	check_shown "$name: what ran, when, what launched it, and what of it steps had" "$TOP/tests/programs/check_gpu.py" engine \
		"$TMP/t.json" "$TMP/t.truth" "$TMP/t.err" "$TMP/t.jsonl"
	check "$name: launches into a graph are none" bash -c "! grep 'no record came' '$TMP/t.err'"
	expect "$name: all steps" 'sum(x["event"] == "token_prof" and "gpu_busy_us" in x["shape"] for x in p) == c["steps"]' \
		p="$TMP/t.jsonl" c=last:"$TMP/t.out"
	expect "$name: each part of a graph has its place in it" '(lambda k: bool(k) and [e for e in k if not e["args"].get("graph position")][:1] == [] and
		len({(e["args"]["graph id"], e["args"]["graph node id"]) for e in k}) == len({(e["args"]["graph id"], e["args"]["graph position"])
		for e in k}))([e for e in t if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset") and "graph id" in e["args"]])' t="$TMP/t.json"
	check "$name: the files are valid" "$INFTRACE" validate "$TMP/t.json" "$TMP/t.jsonl" --require token_prof
	check "$name: the .pftrace as the JSON has it" "$TOP/tests/tools/pftrace.py" compare "$TMP/t.pftrace" "$TMP/t.json"
	check "$name: Perfetto's tables of GPUs as the JSON has it" "$TOP/tests/tools/gpu_tables.py" "$TMP/t.pftrace" "$TMP/t.json"
}

# Graphs are captured, launched again and again, and updated. Kernels are launched by cuLaunchKernelEx from 9.0 on.
test_arch() {
	MOCK_ARCH=8.9 compare "8.9, f16" tiny f16 -n 40
	expect "8.9: steps with graphs and without" '{x["graph_enabled"] for x in p if x["event"] == "token_prof"} == {True, False}' p="$TMP/t.jsonl"
	MOCK_ARCH=9.0 MOCK_CUPTI=13.4 compare "9.0, q4_0, two prompts" tiny q4_0 -n 20 -b 300 -r 2
	expect "9.0: each part of the time of a request has what the GPU did in it" '(lambda r: bool(r) and [x["shape"] for x in r for k in
		("own_prefill", "own_decode", "others", "between") if abs(sum(v for n, v in x["shape"].items() if n.startswith(k + "_gpu_")) -
		x["stage_us"].get(k, 0)) > 0.0005] == [])([x for x in p if x["event"] == "request_prof" and "between" in x["stage_us"]])' p="$TMP/t.jsonl"
}

# attached NAME SIGNAL: the agent comes into the engine that runs, some kernels are recorded, and then inftrace gets that signal.
attached() {
	rm -f "$TMP"/a.*
	background "$INFTRACE" record --gpu=attach -o "$TMP/a.json" --profile "$TMP/a.jsonl" -p "$ENGINE" 2>"$TMP/a.err"
	check "$1: kernels are in the file" wait_until 100 grep -sq '"cat":"kernel"' "$TMP/a.json"
	check "$1: steps have the parts of the GPU" wait_until 60 grep -sq gpu_busy_us "$TMP/a.jsonl"
	kill "-$2" "$BG"
	wait "$BG"
}

# On and off, and killed, in an engine that runs and forks.
test_attach() {
	local i
	mkdir -p "$TMP/lib"
	ln -sf "$MOCK/libcupti.so" "$TMP/lib/libcupti.so.13"
	LD_LIBRARY_PATH=$TMP/lib:$MOCK spawn ENGINE "$DRIVER" -q -t 1 -g 99 -r 0 -n 200 -H "$MOCK/fork_hook.so" "$LIBS" "$(llama_model)" >"$TMP/engine.out" 2>&1
	wait_until 60 grep -sq '^pid' "$TMP/engine.out"
	for ((i = 1; i <= $(often 2 20); i++)); do
		attached "attach $i" INT || not_ok "attach $i" "exit code $?: $(tail -n 1 "$TMP/a.err")"
		check "attach $i: valid" "$INFTRACE" validate "$TMP/a.json" "$TMP/a.jsonl"
		attached "attach $i, killed" KILL || true
	done
	kill "$ENGINE"
	check "attach: the engine goes on, and ends by itself" wait "$ENGINE"
	expect "attach: it has decoded" 'c["steps"] > 0 and c["generated"] > 0' c=last:"$TMP/engine.out"
}

run_tests "$@"
