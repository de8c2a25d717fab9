#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The schemas of docs/schema, against what recordings and reports of them hold.

. "$(dirname "$0")/../lib.sh"
/usr/bin/python3 -c 'import jsonschema' 2>/dev/null || skip_all "python3-jsonschema is not installed"
MINI=$(mini_engine)
PROFILE=$TOP/docs/schema/profile.schema.json

# report NAME FILE...
report() {
	"$INFTRACE" report --json --all-steps "${@:2}" >"$TMP/$1.report.json" 2>"$TMP/$1.report.err" || true
	schema_fits "$1: its report fits the schema" report "$TMP/$1.report.json"
}

# Another process on its CPU, so that steps wait and have a culprit; operators by step.
taskset -c 0 sh -c 'while :; do :; done' &
test_pids+=($!)
check "recording: operators by step" "$INFTRACE" record -q --op-detail -e +memory,+samples,+stacks -o "$TMP/ops.json" \
	--profile "$TMP/ops.jsonl" -- taskset -c 0 "$MINI" -n 12 -t 1
kill "${test_pids[-1]}"
check "recording: several processes" "$INFTRACE" record -q --profile "$TMP/steps.jsonl" -- \
	sh -c "$MINI -n 12 -t 2 & $MINI -n 12 -t 1; wait"
check "recording: a window" "$INFTRACE" record -q --window every=10s,for=300ms -d 500ms \
	--output-dir "$TMP/windows" -- "$MINI" -n 2048 -t 1 -d 100
for name in ops steps; do
	schema_fits "$name: each line fits the schema" profile "$TMP/$name.jsonl"
	report "$name" "$TMP/$name.jsonl"
done
report trace "$TMP/ops.json"
schema_fits "window: each line fits the schema" profile "$TMP"/windows/*.jsonl
report window "$TMP"/windows/*.jsonl
schema_fits "each line fits the schema that inftrace validate is tested with" profile "$TOP"/tests/golden/family_*_good.jsonl
report golden "$TOP"/tests/golden/*good.js* "$TOP/tests/golden/kineto.json.gz"

# Invalid ones are refused. Not of a recording: its steps may be over before their function has a probe.
good=$TOP/tests/golden/family_token_prof_good.jsonl
sed 's/"concurrency": *[0-9]*/"concurrency":0/' "$good" >"$TMP/bad.jsonl"
check_rc "a value out of its range" 1 'concurrency: 0 is less than' \
	"$TOP/tests/tools/json_schema.py" "$PROFILE" "$TMP/bad.jsonl"
sed 's/"step":/"stop":/' "$good" >"$TMP/bad.jsonl"
check_rc "a key that is missing" 1 "'step' is a required property" \
	"$TOP/tests/tools/json_schema.py" "$PROFILE" "$TMP/bad.jsonl"
sed 's/"records":/"rekords":/' "${good/token/window}" >"$TMP/bad.jsonl"
check_rc "a key that no schema has" 1 "'rekords' does not match any" \
	"$TOP/tests/tools/json_schema.py" "$PROFILE" "$TMP/bad.jsonl"
