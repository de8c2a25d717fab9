#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The ONNX Runtime preset on its real, stripped build: every run is a step, with its names.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"
need_root
need node npm

runs=20000
# the release that the preset was checked with
folder=$(npm_folder onnxruntime-1.30.0 onnxruntime-node@1.30.0 2>&1) || skip_all "$folder"
cd "$folder" || exit
mkfifo "$TMP/go"
python3 "$TOP/tests/engines/onnx/make_onnx.py" "$TMP/m.onnx"
lib=$(find . -path "*/$(npm_arch)/*" -name 'libonnxruntime.so*' -type f)
[ "$(uname -m)" = x86_64 ] || skip_all "the preset follows pointers in x86_64 code only"

same "the library is stripped" "$(nm "$lib" 2>&1 | grep -c 'no symbols')" 1
check_rc "inftrace engines finds Run" 0 'step .*OrtGetApiBase' \
	"$INFTRACE" engines -e onnxruntime "$lib"

node "$TOP/tests/engines/onnx/run_onnx.mjs" -w "$TMP/m.onnx" "$runs" <"$TMP/go" >"$TMP/log" &
engine=$!
test_pids+=("$engine")
exec 9>"$TMP/go"
wait_until 60 grep -qx ready "$TMP/log"
background "$INFTRACE" record --strict -e functions -o "$TMP/t.json" --profile "$TMP/p.jsonl" \
	-p "$engine" 2>"$TMP/err"
wait_until 60 grep -q recording "$TMP/err"
echo >&9
exec 9>&-
check "the model runs" wait "$engine"
check "nothing is lost" wait "$BG"

expect "$runs of $runs runs" \
	'len([e for e in t if e.get("cat") == "step" and e["name"] == "Run"]) == c["runs"] == '"$runs" \
	t="$TMP/t.json" c=last:"$TMP/log"
expect "names and numbers of inputs and outputs" \
	'all([e["args"][k] for k in ("n_inputs", "n_outputs", "input", "output")]
		== [len(c["inputs"]), len(c["outputs"]), c["inputs"][0], c["outputs"][0]] == [1, 1, "tokens", "scores"]
		for e in t if e.get("cat") == "step")' t="$TMP/t.json" c=last:"$TMP/log"
expect "a profile line for each" \
	'len([l for l in p if l["event"] == "token_prof"]) == '"$runs" p="$TMP/p.jsonl"
check "the profile is valid" "$INFTRACE" validate "$TMP/p.jsonl"
