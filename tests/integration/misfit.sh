#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# A preset whose steps are never called while the engine works: a line says so, and its stand-in makes the steps until
# one of its own is called after all. fit.c numbers its graphs, so that a step that is missing, or there twice, shows.

. "$(dirname "$0")/../lib.sh"

preset=$TOP/tests/probed/fit.json
unfit='the preset fit does not fit: steps are calls of fit_graph, since fit_decode is not called'

# The steps of a profile, in order.
steps='sorted((l["shape"] for l in p if l["event"] == "token_prof"), key=lambda s: s["ts_us"])'

need python3
build_probed "$BUILD/probed/fit" "$BUILD/probed/old/libfit.so"

# engine NAME [VARIABLE=VALUE]: fit in the background, which prints into TMP/NAME.out; its process id is in ENGINE
engine() {
	waiting ENGINE "$1" env "${@:2}" "$probed/fit"
}

has_done() { # NAME N
	[ "$(grep -c ^done "$TMP/$1.out")" -ge "$2" ]
}

# did NAME N: waits until N commands are done, and sets FROM and TO, the graphs of the last one
did() {
	wait_until 60 has_done "$1" "$2"
	read -r FROM TO < <(awk -v n="$2" '/^done/ && !--n { print $3, $4 }' "$TMP/$1.out")
}

# record NAME OPTION...: in the background, into TMP/NAME.err
record() {
	recording TRACER "$1" --engine "${PRESET:-$preset}" "${@:2}"
}

recorded() {
	kill -INT "$TRACER"
	wait "$TRACER"
}

told() { # NAME
	wait_until 60 grep -q 'does not fit' "$TMP/$1.err"
}

# With steps alone; the preset's own step is called later.
test_stand_in() {
	engine later
	record later --profile "$TMP/later.jsonl" -p "$ENGINE"
	say later process
	check "a line says that the preset does not fit" told later
	say later process 40
	did later 2
	local last=$TO
	say later decode 50
	say later process 30
	did later 4
	recorded
	same "it is said once" "$(grep -c 'does not fit' "$TMP/later.err")" 1
	check "with the function that may be the step" grep -q "process $ENGINE: $unfit; libfit.so has fit_process (" "$TMP/later.err"
	check "the profile is valid" "$INFTRACE" validate --require misfit_prof "$TMP/later.jsonl"
	schema_fits "it is as its schema says" profile "$TMP/later.jsonl"
	expect "a line of the profile says it" \
		"[(l['shape']['pid'], l['shape']['finding']) for l in p if l['event'] == 'misfit_prof'] == [($ENGINE,
			'$unfit; libfit.so has fit_process')]" p="$TMP/later.jsonl"
	expect "from then on each graph is a step, once, and marked" \
		"(lambda s: [x['n'] for x in s] == list(range(s[0]['n'], $last + 1)) and s[0]['n'] < $last - 40 and
			all(x['stand_in'] == 'fit_graph' for x in s))([x for x in $steps if x['phase'] == 'graph'])" p="$TMP/later.jsonl"
	expect "until the engine's own step is called, which alone counts" \
		"([x['n'] for x in $steps if x['phase'] == 'decode' and 'stand_in' not in x] == list(range($last + 1, $last + 51)) and
			${steps}[-1]['n'] == $last + 50)" p="$TMP/later.jsonl"
	"$INFTRACE" report "$TMP/later.jsonl" >"$TMP/report"
	check "the report begins with it" grep -qx "  $unfit; libfit.so has fit_process" <(sed -n 2p "$TMP/report")
	check "and with how many stand in" grep -qE "^  [0-9]+ of [0-9]+ steps stand in for those of the engine" "$TMP/report"
	"$INFTRACE" report --json "$TMP/later.jsonl" >"$TMP/report.json"
	schema_fits "as JSON, too, as its schema says" report "$TMP/report.json"
	expect "which has both" "(lambda q: 'fit_process' in q['misfit'] and q['stand_in_steps'] == sum('stand_in' in s for s in $steps))(
		json.loads(open('$TMP/report.json').read())['processes'][0])" p="$TMP/later.jsonl"
}

# With a timeline, in both formats, of a library without the preset's step.
test_missing() {
	engine missing LD_LIBRARY_PATH="$probed/old"
	record missing -e functions -o "$TMP/missing.json" -o "$TMP/missing.pftrace" -p "$ENGINE"
	say missing process
	check "a step that is not there: a line says so" told missing
	say missing process 40
	did missing 2
	recorded
	expect "the traces have an instant" \
		"([(e['args']['number'], e['args']['reason']) for e in t if e.get('name') == 'misfit'] ==
			[($ENGINE, '$unfit; libfit.so has fit_process')])" t="$TMP/missing.json"
	check "the trace is valid" "$INFTRACE" validate "$TMP/missing.json"
	check "the other format has all of it, too" "$TOP/tests/tools/pftrace.py" compare "$TMP/missing.pftrace" "$TMP/missing.json"
	expect "each graph is a step, and marked" \
		"(lambda s: s and s == list(range(s[0], $TO + 1)))(sorted(e['args']['n'] for e in t
			if e.get('cat') == 'step' and e['args'].get('stand_in') == 'fit_graph'))" t="$TMP/missing.json"
	"$INFTRACE" report "$TMP/missing.json" >"$TMP/report"
	check "the report of a trace begins with it, too" grep -qx "  $unfit; libfit.so has fit_process" <(sed -n 2p "$TMP/report")
}

# A preset that fits, of an engine that is within a step as the recording begins, for long.
test_fits() {
	local second
	engine fits
	say fits long
	wait_until 60 grep -qx 'second 1' "$TMP/fits.out"
	record fits --profile "$TMP/fits.jsonl" -p "$ENGINE"
	second=$(grep -c '^second' "$TMP/fits.out")
	wait_until 60 grep -qx "second $((second + 4))" "$TMP/fits.out"
	say fits decode 50
	did fits 2
	recorded
	same "a preset that fits: nothing is said" "$(grep -c 'does not fit' "$TMP/fits.err")" 0
	expect "and all steps are the engine's own" "[x['n'] for x in $steps] == list(range($FROM, $TO + 1))" p="$TMP/fits.jsonl"
}

# Of two processes with the same library one calls the preset's step; a third does nothing.
test_processes() {
	local idle own
	engine idle
	idle=$ENGINE
	engine own
	own=$ENGINE
	engine other
	record processes --profile "$TMP/processes.jsonl" -p "$idle,$own,$ENGINE"
	say own decode
	say other process
	check "one of several processes: a line says so" told processes
	say own decode 10
	say other process 10
	did own 2
	did other 2
	recorded
	same "of this process only" "$(grep -o 'process [0-9]*: the preset fit does not fit' "$TMP/processes.err")" \
		"process $ENGINE: the preset fit does not fit"
	expect "each process has its own steps" \
		"{(s['pid'], s['phase']) for s in $steps} == {($own, 'decode'), ($ENGINE, 'graph')}" p="$TMP/processes.jsonl"
}

# A preset without a stand-in: operators show that the engine is at work.
test_alone() {
	python3 -c 'import json, sys; p = json.load(open(sys.argv[1])); del p["probes"][1]; print(json.dumps(p))' \
		"$preset" >"$TMP/alone.json"
	engine alone
	PRESET=$TMP/alone.json record alone -e functions -o "$TMP/alone.trace.json" --profile "$TMP/alone.jsonl" -p "$ENGINE"
	say alone process
	check "without a stand-in: a line says that there are no steps" told alone
	say alone process 1
	recorded
	check "and which function may be one" grep -q 'no steps, since fit_decode is not called; libfit.so has fit_process (' "$TMP/alone.err"
	same "there are none" "$(grep -c token_prof "$TMP/alone.jsonl")" 0
	"$INFTRACE" report "$TMP/alone.jsonl" >"$TMP/report"
	check "the report says why" grep -q '^  the preset fit does not fit: no steps, since fit_decode' "$TMP/report"
}

# A dump of the flight recorder long after it was found.
test_dump() {
	engine dump
	mkdir "$TMP/dumps"
	record dump --flight-recorder 8MB --output-dir "$TMP/dumps" -p "$ENGINE"
	say dump process
	check "with the flight recorder: a line" told dump
	say dump process 20
	did dump 2
	kill -USR1 "$TRACER"
	wait_until 60 grep -q '^inftrace: dump' "$TMP/dump.err"
	recorded
	expect "a dump says it, too" '["does not fit: steps are calls of fit_graph" in l["shape"]["finding"] for l in p if l["event"] == "misfit_prof"] == [True]' \
		p="$(compgen -G "$TMP/dumps/*.jsonl" | head -n 1)"
}

# Presets of several --engine add up, and two of one name are an error.
test_several() {
	echo '{ "name": "more", "match": { "mapped": ["libfit*.so"] }, "probes": [{ "instant": "fit_process", "role": "other" }] }' >"$TMP/more.json"
	engine several
	record several --engine "$TMP/more.json" -o "$TMP/several.json" -p "$ENGINE"
	say several decode 5
	did several 1
	say several process 5
	did several 2
	recorded
	expect "several presets: what each of them probes" \
		'[sum(e["name"] == n for e in t) > 0 for n in ("decode", "fit_process")] == [True, True]' t="$TMP/several.json"
	sed 's/"more"/"fit"/' "$TMP/more.json" >"$TMP/same.json"
	check_rc "several presets: of one name" 2 'same.json has the name of another one' \
		"$INFTRACE" record --engine "$preset" --engine "$TMP/same.json" -- true
	check "several presets: one's own instead of the installed one" \
		"$INFTRACE" record --engine auto --engine "$TOP/engines/nccl.json" -o "$TMP/auto.json" -- true
	check_rc "several presets: not for what is shown of one" 2 'give one -e' "$INFTRACE" engines -e "$preset" -e "$TMP/more.json"
}

# Without an engine, or without a step: said while it goes on, and at the end.
test_no_steps() {
	local none='no engine found so far, so there are no steps: .*--engine FILE, --py-step FUNCTION or -u LIB:FUNCTION@step'
	spawn pid sleep infinity
	PRESET=auto record none -o "$TMP/none.json" -p "$pid"
	check "no engine: said while it goes on" wait_until 60 grep -q "$none" "$TMP/none.err"
	recorded
	same "no engine: said at the end, too" "$(grep -c "$none" "$TMP/none.err")" 2
	PRESET=none record unwanted -o "$TMP/unwanted.json" -p "$pid"
	recorded
	engine unused
	record unused --profile "$TMP/unused.jsonl" -p "$ENGINE"
	check "no step: said while it goes on" wait_until 60 grep -q 'no step so far: fit_decode has not been called' "$TMP/unused.err"
	say unused decode 5
	did unused 1
	recorded
	same "no step: not at the end, after one" "$(grep -c 'no step so far' "$TMP/unused.err")" 1
	record terse --profile "$TMP/terse.jsonl" -p "$ENGINE"
	recorded
	record verbose -v --profile "$TMP/verbose.jsonl" -p "$ENGINE"
	recorded
	same "functions that were not called are named with -v only" \
		"$(grep -c 'fit_decode: attached, never hit' "$TMP/terse.err") $(grep -c 'fit_decode: attached, never hit' "$TMP/verbose.err")" "0 1"
	same "no steps wanted: nothing is said" "$(grep -c 'no engine found' "$TMP/unwanted.err")" 0
}

checked() { # COMMAND
	engine "check$1"
	say "check$1" "$@"
	"$INFTRACE" engines -e "$preset" -p "$ENGINE" --check 3s 2>&1 | tee "$TMP/table"
}

# The numbers of calls on demand.
test_check() {
	check_rc "--check: the step is called" 0 '^  step     fit_decode  *[0-9]+ calls$' checked decode
	same "and nothing is said" "$(grep -c 'not fit' "$TMP/table")" 0
	check_rc "--check: it is not" 1 '^  step     fit_decode  *never hit$' checked process
	check "a line says so" grep -q "$unfit" "$TMP/table"
	check "the stand-in was called" grep -qE '^  stand-in fit_graph  *[0-9]+ calls that were steps$' "$TMP/table"
	check "and the operator" grep -qE '^  op       fit_op  *[0-9]+ calls$' "$TMP/table"
	check_rc "--check: nothing is called" 1 '^nothing was called' checked ""
	check_rc "--check: of no process" 2 'give the process with -p' "$INFTRACE" engines --check 1s
}

# The next change of llama.cpp: functions that compute and that the preset does not know.
test_releases() {
	local libs name path
	for name in libs next; do
		if ! libs=$(llama_$name 2>&1); then
			skip "steps of libllama, $name" "$libs"
			continue
		fi
		path=$(find "$libs" -name 'libllama.*so*' -type f)
		check "${path##*/}: its steps are found in its code" "$TOP/tests/probed/unknown_steps.py" "$TOP/engines/llama.cpp.json" "$path"
		same "${path##*/}: the preset knows all of them" "$(cat "$TMP/check.out")" ""
	done
}

run_tests "$@"
