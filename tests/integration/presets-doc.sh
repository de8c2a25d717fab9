#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The example of docs/engines.md, run exactly as written there; the schema, against all presets.

. "$(dirname "$0")/../lib.sh"
need python3

doc=$TOP/docs/engines.md

# block INFO: the contents of the fenced block that begins with that line
block() {
	awk -v info="\`\`\`$1" '$0 == info { on = 1; next } /^```/ { on = 0 } on' "$doc"
}

mkdir "$TMP/bin" "$TMP/example"
ln -s "$INFTRACE" "$TMP/bin/inftrace"
# the tests are root: sudo is not needed, and may not be there
printf '#!/bin/sh\nexec "$@"\n' >"$TMP/bin/sudo"
chmod +x "$TMP/bin/sudo"
cd "$TMP/example" || exit
for file in tally.c serve.c tally.json; do
	block "${file##*.} $file" >"$file"
done
block sh >commands
check "the commands of the example" env PATH="$TMP/bin:$PATH" bash -eu commands
cp "$TMP/check.out" out

same "a line for each probe" "$(sed -n 's/^  [a-z]* *\([a-z]*\) *+0x[0-9a-f]* *\([a-z_]*\)\(+[0-9]*\)\{0,1\}/\1 \2/p' out)" \
	'step tally_step(n_tokens, number, prompt)
op tally_op(kind)
barrier tally_join
other tally_evict(bytes)'
check "the trace is valid" "$INFTRACE" validate tally-trace.json
"$TOP/tests/probed/check_tally.py" tally-trace.json || test_failed=1

schema() { # PRESET...
	"$TOP/tests/tools/json_schema.py" "$TOP/docs/preset.schema.json" "$@"
}

check "the schema describes all presets" schema "$TOP"/engines/*.json "$TOP"/tests/probed/*.json tally.json
same "every key of the schema is in the document" "$(python3 - "$TOP/docs/preset.schema.json" "$doc" <<-'PY'
	import json, sys
	schema, text = json.load(open(sys.argv[1])), open(sys.argv[2]).read()
	objects = [schema, *schema["$defs"].values()]
	print(*(key for o in objects for key in o.get("properties", {}) if "`%s`" % key not in text))
	print(*(r for r in schema["$defs"]["probe"]["properties"]["role"]["enum"] if "`%s`" % r not in text))
	PY
)" ""

# What is not a preset is refused by both the schema and inftrace: changes to p, the preset, and s and o,
# its probes of the step and of the operators.
wrong=(
	'del p["name"]' 'p["name"] = ""' 'p["name"] = "a\nb"' 'p["name"] = 5' 'p["version"] = -1'
	'p["checked"] = "1.0"' 'p["match"] = {}' 'p["match"]["mapped"] = []' 'p["extra"] = 1'
	'p["enums"]["op_kind"] = {"names": "embed"}' 'p["enums"]["op_kind"]["more"] = 1'
	'p["probes"] = {}' 'del s["role"]' 's["role"] = "steps"' 's["begin"] = "tally_op"' 'del s["symbol"]'
	's["symbol"] = [5]' 'del o["end"]' 's["args"] = []' 's["args"]["n"] = "s32"'
	's["args"]["n"] = "s32 arg13"' 's["usdt"] = "a:b"' 'o["usdt"] = "a:b"'
	'del s["symbol"]; s["usdt"] = "tally"' 'del s["symbol"]; s["usdt"] = ["a:b:c"]' 's["args"]["n"] = "s32 *arg1"' 's["args"]["n"] = "s32 *(*(*(*(arg1))))"'
	's["args"]["n"] = "s32 *(arg1+x)"' 's["args"]["n"] = "s32 arg1 2"' 's["args"][""] = "s32 arg1"'
	's["args"] = {"a%d" % i: "u8 arg1" for i in range(11)}' 's["detail_only"] = 1' 's["when"] = "number"'
	's["when"] = "number = 1"' 's["check"] = 1' 's["check"] = "number"' 's["check"] = ["n_tokens > 0", 1]'
	's["check"] = ["number > 0"] * 5' 's["graph_launch"] = "yes"' 's["names"] = {}' 's["names"] = {"number": "prompt"}'
	's["args"]["n"] = "s32 *(arg1) at the return"' 's["args"]["n"] = "s32 arg1 if number"'
	's["args"]["n"] = "s32 arg1 if number = 1"' 's["library"] = 1' 's["arg"] = {}'
)
for change in "${wrong[@]}"; do
	python3 - "$change" >wrong.json <<-'PY'
		import json, sys
		p = json.load(open("tally.json"))
		s, o = p["probes"][:2]
		exec(sys.argv[1])
		print(json.dumps(p))
	PY
	check_rc "schema: $change" 1 'wrong.json: ' schema wrong.json
	check_rc "inftrace: $change" 2 'wrong.json:1: ' "$INFTRACE" engines -e ./wrong.json ./libtally.so
done
