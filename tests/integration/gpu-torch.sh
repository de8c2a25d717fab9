#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Operators of a real PyTorch, some of which launch kernels of a GPU that does not exist (programs/gpu_torch.py): steps by
# --py-step have the parts of the GPU, and operators the time of their kernels.

. "$(dirname "$0")/../lib.sh"

STEPS=40

# The first interpreter that has PyTorch, and the places for the probes of --py-step.
setup() {
	need cc
	local p
	for p in /usr/bin/python3 python3; do
		command -v "$p" >/dev/null && "$p" -c 'import sys, torch; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null || continue
		PYTHON=$p
		break
	done
	[ "${PYTHON:-}" ] || skip_all "no CPython 3.11 here has PyTorch (apt-get install python3-torch)"
	build_mock_gpu
	export LD_LIBRARY_PATH=$MOCK
}

test_operators() {
	fed BG "$INFTRACE" record --gpu --cupti "$MOCK/libcupti.so" --py-step gpu_torch.py:Net.forward -o "$TMP/t.json" --profile "$TMP/t.jsonl" \
		-- "$PYTHON" "$TOP/tests/programs/gpu_torch.py" "$STEPS" >"$TMP/t.out" 2>"$TMP/t.err"
	wait_until 200 grep -sqx ready "$TMP/t.out" || true
	if grep -q 'not in' "$TMP/t.err"; then
		skip "operators" "$(grep -m 1 'not in' "$TMP/t.err")"
		return
	fi
	# on a busy machine libcuda is probed late
	check "its calls are seen" wait_until 100 sh -c "echo copy >&9; grep -q '\"cat\":\"transfer\"' '$TMP/t.json'"
	echo go >&9
	exec 9>&-
	check "records" wait "$BG"
	grep '^inftrace: gpu' "$TMP/t.err" | sed 's/^/# /' || true
	check "the files are valid" "$INFTRACE" validate "$TMP/t.json" "$TMP/t.jsonl" --require token_prof,op_prof
	expect "each step has its kernels, or it is said that it is not known" 'len(p) > '"$STEPS"' and [1 for x in p if x["event"] == "token_prof"
		and x["shape"].get("gpu_kernels", 10) != 10] == [] and sum("gpu_busy_us" in x["shape"] for x in p) > 0' p="$TMP/t.jsonl"
	expect "kernels are those of the operators that launched them" \
		'[[e["name"] for e in t if e.get("cat") == "kernel"].count(n) for n in ("gemm", "splitK", "relu", "softmax")] == '"[3 * $STEPS, 3 * $STEPS, 3 * $STEPS, $STEPS]" \
		t="$TMP/t.json"
	expect "operators have the time of their kernels" '("gpu_lost" in str(p) or all(abs(sum(x["shape"].get(k, 0) for x in p if x["event"] == "op_prof") -
		sum(e["dur"] for e in t if e.get("cat") == "kernel" and e["name"] in names)) < 5 for k, names in
		(("g_addmm_us", ("gemm", "splitK")), ("g_relu_us", ("relu",)), ("g__softmax_us", ("softmax",)))))' p="$TMP/t.jsonl" t="$TMP/t.json"
}

run_tests "$@"
