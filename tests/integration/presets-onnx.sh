#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The ONNX Runtime preset on its real, stripped build: every run is a step, with its names.

. "$(dirname "$0")/../lib.sh"
need node npm

runs=20000
# the release that the preset was checked with
folder=$(npm_folder onnxruntime-1.30.0 onnxruntime-node@1.30.0 2>&1) || skip_all "$folder"
cd "$folder" || exit
python3 "$TOP/tests/engines/onnx/make_onnx.py" "$TMP/m.onnx"
lib=$(find . -path "*/$(npm_arch)/*" -name 'libonnxruntime.so*' -type f)
[ "$(uname -m)" = x86_64 ] || skip_all "the preset follows pointers in x86_64 code only"

same "the library is stripped" "$(nm "$lib" 2>&1 | grep -c 'no symbols')" 1
check_rc "inftrace engines finds Run" 0 'step .*OrtGetApiBase' \
	"$INFTRACE" engines -e onnxruntime "$lib"

engine_started t --strict -e functions -o "$TMP/t.json" --profile "$TMP/p.jsonl" -- \
	node "$TOP/tests/engines/onnx/run_onnx.mjs" -w "$TMP/m.onnx" "$runs"
check "the model runs" wait "$ENGINE"
check "nothing is lost" wait "$TRACER"

expect "$runs of $runs runs" \
	'len([e for e in t if e.get("cat") == "step" and e["name"] == "Run"]) == c["runs"] == '"$runs" \
	t="$TMP/t.json" c=last:"$TMP/t.out"
expect "names and numbers of inputs and outputs" \
	'all([e["args"][k] for k in ("n_inputs", "n_outputs", "input", "output")]
		== [len(c["inputs"]), len(c["outputs"]), c["inputs"][0], c["outputs"][0]] == [1, 1, "tokens", "scores"]
		for e in t if e.get("cat") == "step")' t="$TMP/t.json" c=last:"$TMP/t.out"
expect "a profile line for each" \
	'len([l for l in p if l["event"] == "token_prof"]) == '"$runs" p="$TMP/p.jsonl"
check "the profile is valid" "$INFTRACE" validate "$TMP/p.jsonl"

# Debian's Python module, which is stripped and has no C interface: each operator of each run, and a line that says what is missing.
if [ ! -d "$ENGINES/next-onnx" ] && [ ! "$(often '' all)" ]; then
	skip "python" "70 MB of packages: with --all"
elif ! root=$(onnx_next 2>&1); then
	skip "python" "$root"
else
	mkdir "$TMP/mnt"
	cp "$TMP/m.onnx" "$TOP/tests/engines/onnx/run_onnx.py" "$TMP/mnt"
	engine_started python --strict -e functions -o "$TMP/python.json" -- \
		"$TOP/tests/engines/in_root" "$root" "$TMP/mnt" python3 /mnt/run_onnx.py /mnt/m.onnx 20000
	check "python: the model runs" wait "$ENGINE"
	check "python: nothing is lost" wait "$TRACER"
	grep '^{"engine"' "$TMP/python.out" >"$TMP/python.log"
	expect "python: each operator of each run, as its own profiler counts them" \
		'len(c["nodes"]) > 1 and all([e["args"]["node"] for e in t if e["name"] == "LaunchKernelStep"].count(int(n)) == k == c["runs"] for n, k in c["nodes"].items())' \
		t="$TMP/python.json" c=last:"$TMP/python.log"
	check "python: that there are no steps is said, and what would help" \
		grep -q 'the preset onnxruntime does not fit: no steps.*--py-step Session.run' "$TMP/python.err"
fi
