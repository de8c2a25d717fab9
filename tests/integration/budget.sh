#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# --budget: what a recording costs decides what is left out of it, and the files say what that was.

. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/robust/common.sh"

WAIT=200 # seconds: with a machine full of others a step takes half a second

need cc python3
# the initial one has this number in every kernel
[ "$(readlink /proc/self/ns/pid)" = "pid:[4026531836]" ] || skip_all "no weight is told in a pid namespace"
build steps

# NAME ARGUMENT...: records in the background, and leaves the recorder's pid in $recorder.
begin() {
	spawn recorder "$INFTRACE" record "${@:2}" >"$TMP/$1.out" 2>"$TMP/$1.err"
}

# COMMAND...: succeeds, or the recorder has ended, which makes waiting useless
or_ended() {
	"$@" || ! kill -0 "$recorder" 2>/dev/null
}

said() { # NAME TEXT
	grep -q -- "$2" "$TMP/$1.err"
}

# NAME TEXT: the recorder says so in time
says() {
	wait_until "$WAIT" or_ended said "$1" "$2" || true
	said "$1" "$2" || sed 's/^/# /' "$TMP/$1.err"
	check "$1: $2" said "$1" "$2"
}

lines() { # FILE PATTERN NUMBER
	[ "$(grep -c -- "$2" "$1")" -ge "$3" ]
}

# NAME FILE PATTERN NUMBER: NUMBER lines of the file match in time
holds() {
	wait_until "$WAIT" or_ended lines "$2" "$3" "$4" 2>/dev/null || true
	check "$1: $4 lines like $3" lines "$2" "$3" "$4"
}

finish() { # NAME
	interrupted "$1: the recording ends as usual" "$recorder"
}

steps='[x for x in p if x["event"] == "token_prof"]'
whole="[x for x in $steps if \"left_out\" not in x[\"shape\"] and \"began_before\" not in x[\"shape\"]]"
without="[x for x in $steps if \"barriers\" in x[\"shape\"].get(\"left_out\", \"\")]"
window='[x["shape"] for x in p if x["event"] == "window_prof"]'

set_llama() {
	need_llama
	llama=("$DRIVER" -q -n 2000 -t 2 -i 5 "${MODEL_ARGS[@]}")
}

# The profile alone has nothing to leave out but barriers.
test_profile() {
	set_llama
	begin tight --budget 0% --profile "$TMP/tight.jsonl" -- "${llama[@]}"
	says tight "barriers are off"
	holds tight "$TMP/tight.jsonl" '"left_out":"barriers"' 20
	says tight "nothing is left to turn off"
	finish tight
	check "tight: the profile is valid, with the partition of each step" \
		"$INFTRACE" validate "$TMP/tight.jsonl" --require token_prof,window_prof
	expect "tight: time at barriers is told where they were seen" \
		"all('barrier' in x['stage_us'] and x['shape']['workers'] == 1 for x in ${whole}[1:]) and len($whole) > 2" p="$TMP/tight.jsonl"
	expect "tight: and nowhere else" \
		"not any('barrier' in x['stage_us'] or 'workers_barrier' in x['stage_us'] or 'straggler_tid' in x['shape'] for x in $without)" \
		p="$TMP/tight.jsonl"
	expect "tight: most of those steps say nothing of workers" \
		"sum('workers' in x['shape'] for x in $without) <= 3" p="$TMP/tight.jsonl"
	# the least of each: with others on the CPUs a step has more switches, which cost, too. A probe is timed all along, and may seem
	# twice as dear later.
	expect "tight: what inftrace costs a step is less than it was" \
		"(lambda cost: min(map(cost, $without)) < min(map(cost, $whole)))(lambda x: x['shape']['tracer_us'] - x['shape']['tracer_waited_us'])" \
		p="$TMP/tight.jsonl"
	expect "tight: the window says what was left out, and for how long" \
		"all(w['budget'] == 0 and w['left_out'] == 'barriers' and w['left_out_barriers_us'] > 0 for w in $window) and len($window) == 1" \
		p="$TMP/tight.jsonl"
	"$INFTRACE" report "$TMP/tight.jsonl" >"$TMP/report"
	same "tight: the report begins with it" "$(sed -n '3s/[0-9]\+/N/gp' "$TMP/report")" \
		"  left out to keep within --budget: barriers in N of N steps (their time is in cpu)"
	"$INFTRACE" report --json "$TMP/tight.jsonl" | tr -d '\n' >"$TMP/report.jsonl"
	expect "tight: and so in JSON" "len($without) == r[0]['processes'][0]['left_out_steps']['barriers']" \
		p="$TMP/tight.jsonl" r="$TMP/report.jsonl"

	begin wide --budget 100% --profile "$TMP/wide.jsonl" -- "${llama[@]}"
	holds wide "$TMP/wide.jsonl" '"barrier":' 40
	finish wide
	expect "wide: nothing is left out" \
		"not any('left_out' in x['shape'] for x in p) and len($whole) >= 40 and ${window}[0]['budget'] == 1" p="$TMP/wide.jsonl"
	check "wide: and nothing is said of it" [ -z "$(grep -e --budget "$TMP/wide.err")" ]
}

# With a timeline everything goes, in the documented order; the marks say when.
test_timeline() {
	set_llama
	begin all --budget 0% --op-detail -o "$TMP/all.json" -o "$TMP/all.pftrace" --profile "$TMP/all.jsonl" -- "${llama[@]}"
	says all "the timeline is off"
	holds all "$TMP/all.jsonl" '"left_out":"barriers,operators,syscalls,timeline"' 5
	finish all
	check "all: the trace is valid" "$INFTRACE" validate "$TMP/all.json"
	check "all: the profile is valid" "$INFTRACE" validate "$TMP/all.jsonl" --require token_prof,op_prof
	expect "all: a mark for each change, in order" \
		'[e["args"]["reason"] for e in t if e["name"] == "budget" and e["ph"] == "i"] == [p + " off" for p in ("barriers", "operators", "syscalls", "timeline")]' \
		t="$TMP/all.json"
	expect "all: behind a mark no such slice begins" \
		'all(e["ts"] <= m["ts"] for m in t if m["name"] == "budget" for e in t if e["ph"] == "X" and e.get("cat") == {"barriers off": "barrier", "operators off": "op"}.get(m["args"]["reason"]))' \
		t="$TMP/all.json"
	expect "all: steps are in the trace to the end, and say what was left out" \
		"[e['args'].get('left_out') for e in t if e.get('cat') == 'step'][-1] == 'barriers,operators,syscalls,timeline'" \
		t="$TMP/all.json"
	expect "all: each operator of a step, or a word that some were left out" \
		"len({x['shape']['ops'] for x in p if x['event'] == 'op_prof' and 'left_out' not in x['shape'] and x['shape']['step'] > ${steps}[0]['shape']['step'] + 1}) <= 2" \
		p="$TMP/all.jsonl"
}

# Samples go first; what the report says of code is about steps that have them.
test_samples() {
	spawn target "$TMP/steps"
	begin samples -p "$target" --budget 0% --engine none -e +samples,+stacks --sample-rate 999 -u "$TMP/steps:steps_step@step" \
		-u "$TMP/steps:steps_op@op" --profile "$TMP/samples.jsonl" -o "$TMP/samples.json"
	says samples "the timeline is off"
	holds samples "$TMP/samples.jsonl" '"left_out":"samples,operators,syscalls,timeline"' 5
	finish samples
	check "samples: the profile is valid" "$INFTRACE" validate "$TMP/samples.jsonl" --require token_prof
	check "samples: the trace is valid" "$INFTRACE" validate "$TMP/samples.json"
	same "samples: they are the first to go" "$(grep -oP '[^:]+(?= (is|are) off$)' "$TMP/samples.err" | head -n 1)" " samples, and stacks of waits,"
	expect "samples: none is in a step behind that" \
		"(lambda off: not any(x['event'] == 'stack_prof' and x['shape'].get('step') in off for x in p) and len(off) > 5)({x['shape']['step'] for x in ${steps}[-5:]} | {x['shape']['step'] for x in $steps if x['shape'].get('left_out', '').startswith('samples,operators')})" \
		p="$TMP/samples.jsonl"
	"$INFTRACE" report "$TMP/samples.jsonl" >"$TMP/report"
	check "samples: the report says so" grep -q 'left out to keep within --budget: samples in [0-9]* of' "$TMP/report"
	kill "$target"
}

# A part that would cost too much is recorded for some of the time, as far as the budget allows, and what is said of it is said of that.
test_turns() {
	spawn target "$TMP/steps" 500 10
	begin turns -p "$target" --budget 2% --engine none --op-detail -u "$TMP/steps:steps_step@step" -u "$TMP/steps:steps_op@op" \
		--profile "$TMP/turns.jsonl" -o "$TMP/turns.json"
	says turns "operators are off"
	says turns "operators are on for 5 % of the time"
	wait_until "$WAIT" or_ended turns_seen 3 || true
	finish turns
	check "turns: the profile is valid" "$INFTRACE" validate "$TMP/turns.jsonl" --require token_prof,op_prof
	check "turns: the trace is valid" "$INFTRACE" validate "$TMP/turns.json"
	local off="min(x['shape']['ts_us'] for x in $steps if 'left_out' in x['shape'])"
	local again="{x['shape']['step'] for x in $whole if x['shape']['ts_us'] > $off}"
	expect "turns: steps that are whole again" "len($again) >= 6" p="$TMP/turns.jsonl"
	expect "turns: have all of their operators" \
		"[s for s in $again if sum(x['shape']['ops'] for x in p if x['event'] == 'op_prof' and x['shape'].get('step') == s) != 500] == []" \
		p="$TMP/turns.jsonl"
	expect "turns: those that are not whole say so" \
		"(lambda ops: [s for s, n in ops.items() if 0 < n < 500 and s not in {x['shape']['step'] for x in $steps if 'left_out_changed' in x['shape'] or 'unfinished' in x['shape'] or 'began_before' in x['shape']}])(
			{s: sum(x['shape']['ops'] for x in p if x['event'] == 'op_prof' and x['shape'].get('step') == s) for s in {x['shape']['step'] for x in $steps}}) == []" \
		p="$TMP/turns.jsonl"
	expect "turns: most of the time they were left out" "${window}[0]['left_out_operators_us'] > 0.7 * ([x for x in p if x['event'] == 'window_prof'][0]['stage_us']['total'] - $off)" \
		p="$TMP/turns.jsonl"
	expect "turns: and in the trace, too" \
		"sorted(e['args']['step'] for e in t if e.get('cat') == 'step' and e['args'].get('left_out_changed')) == sorted(x['shape']['step'] for x in $steps if 'left_out_changed' in x['shape'])" \
		p="$TMP/turns.jsonl" t="$TMP/turns.json"
	expect "turns: a mark for each change" \
		'(lambda m: set(m[::2]) == {"operators off"} and set(m[1::2]) == {"operators on"})([e["args"]["reason"] for e in t if e["name"] == "budget" and e["ph"] == "i"])' \
		t="$TMP/turns.json"
	"$INFTRACE" report "$TMP/turns.jsonl" >"$TMP/report"
	check "turns: the report says of how many steps operators are" grep -qE '^  in [0-9]+ of [0-9]+ steps and in parts of some others; ' "$TMP/report"
	kill "$target"
}

turns_seen() { # N
	[ "$(grep -o '"reason":"operators on"' "$TMP/turns.json" | wc -l)" -ge "$1" ]
}

# Parts that fit are turned on again.
test_again() {
	spawn target "$TMP/steps"
	begin again -p "$target" --budget 1% --engine none --op-detail -u "$TMP/steps:steps_step@step" -u "$TMP/steps:steps_op@op" \
		--profile "$TMP/again.jsonl"
	says again "operators are off"
	kill -USR1 "$target"
	says again "operators are on again"
	wait_until "$WAIT" or_ended again_seen || true
	finish again
	check "again: the profile is valid" "$INFTRACE" validate "$TMP/again.jsonl" --require token_prof,op_prof
	# one that was moved to another CPU within a step may have two lines of it: calls that come late
	same "again: a step whose operators were not left out has all of them" \
		"$(json "(lambda ops, first: [x for x in ops if 'left_out' not in x and x.get('step', first) != first and
			sum(y['ops'] for y in ops if y.get('step') == x['step']) != 50])(
			[x['shape'] for x in p if x['event'] == 'op_prof'], ${steps}[0]['shape']['step'])" p="$TMP/again.jsonl")" "[]"
	expect "again: there are such steps after those without" \
		"(lambda s: max(s) > min(s | {x['shape']['step'] for x in $steps if 'left_out' in x['shape']}))({x['shape']['step'] for x in $whole})" \
		p="$TMP/again.jsonl"
	kill "$target"
}

# The line of operators of a step that follows one without them.
again_seen() {
	awk '/"left_out":"[a-z,]*operators/ { out = 1 } /"op_prof"/ && !/left_out/ && out { seen = 1 } END { exit !seen }' "$TMP/again.jsonl"
}

# Each window and dump says what was already off when it began.
test_windows() {
	local f n=0
	spawn target "$TMP/steps"
	begin windows -p "$target" --budget 0% --engine none -u "$TMP/steps:steps_step@step" -u "$TMP/steps:steps_op@op" \
		--window every=500ms,for=250ms --output-dir "$TMP/windows"
	says windows "the timeline is off"
	wait_until "$WAIT" or_ended last_window || true
	finish windows
	for f in "$TMP"/windows/profile_*.jsonl; do
		check "windows: valid" "$INFTRACE" validate "$f"
		n=$((n + 1))
	done
	f=$(ls -t "$TMP"/windows/profile_*.jsonl | sed -n 2p)
	expect "windows: one that began without says so for all of its time" \
		"all(w['left_out'] == 'operators,syscalls,timeline' and abs(w['left_out_timeline_us'] - x['stage_us']['total']) < 1 for x in p if x['event'] == 'window_prof' for w in [x['shape']])" \
		p="$f"
	f=${f/profile_/trace_}
	expect "windows: and has the marks at its beginning" \
		"(lambda open: [e['args']['reason'] for e in t if e['name'] == 'budget' and e['ts'] == open])(next(e['ts'] for e in t if e['name'] == 'window_open')) == ['operators off', 'syscalls off', 'timeline off']" \
		t="${f%.jsonl}.json"
	kill "$target"
}

# Three windows that have closed since.
last_window() {
	[ "$(grep -l '"left_out":"operators,syscalls,timeline"' "$TMP"/windows/profile_*.jsonl 2>/dev/null | wc -l)" -ge 3 ]
}

test_flight() {
	spawn target "$TMP/steps"
	begin flight -p "$target" --budget 0% --engine none -u "$TMP/steps:steps_step@step" -u "$TMP/steps:steps_op@op" \
		--flight-recorder 8MB --output-dir "$TMP/flight"
	says flight "the timeline is off"
	kill -USR1 "$recorder"
	says flight "dump 0"
	finish flight
	check "flight: the dump is valid" "$INFTRACE" validate "$TMP"/flight/trace_*.json
	check "flight: its profile is valid" "$INFTRACE" validate "$TMP"/flight/profile_*.jsonl
	expect "flight: it has the marks" \
		'{e["args"]["reason"] for e in t if e["name"] == "budget"} == {"operators off", "syscalls off", "timeline off"}' \
		t="$(ls "$TMP"/flight/trace_*.json)"
	expect "flight: and says for how long" "all(w['left_out_timeline_us'] > 0 for w in $window) and len($window) == 1" \
		p="$(ls "$TMP"/flight/profile_*.jsonl)"
	kill "$target"
}

refuses() { # WORDS OPTION...
	check_rc "refused: ${*:2}" 2 "$1" "$INFTRACE" record "${@:2}" -o "$TMP/never.json" -- true
}

test_usage() {
	local text
	for text in "" 2 two 2%% -1% 2%x .5% nan%; do
		refuses "--budget: '$text' is not a share of the time; write 2% or 0.5%, at most 100%" --budget "$text"
	done
	refuses "--budget: '101%' is too large a share of the time" --budget 101%
	refuses "nothing here is one" --budget 2% --engine none
	refuses "nothing here is one" --budget 2% -e -functions
	check "no file was made" [ ! -e "$TMP/never.json" ]
	check_rc "top has it, too" 2 "is not a share of the time" "$INFTRACE" top --budget 2 -- true
}

test_no_steps() {
	check_rc "no steps: it is said that nothing was measured" 0 "--budget: there was no step to measure it by" \
		"$INFTRACE" record --budget 2% --engine none -u "$TMP/steps:steps_step@step" -o "$TMP/no.json" -- true
}

test_top() {
	spawn target "$TMP/steps"
	spawn recorder "$INFTRACE" top -b -d 0.5 --budget 0% --engine none -u "$TMP/steps:steps_step@step" \
		-u "$TMP/steps:steps_op@op" -p "$target" >"$TMP/top.err" 2>&1
	says top "without operators"
	finish top
	kill "$target"
}

# What is dear for another reason than its number of calls is named, with its price.
test_dear() {
	spawn target "$TMP/steps" 500 10
	begin dear -p "$target" --engine none -u "$TMP/steps:steps_step@step" -u "$TMP/steps:steps_dear@op" -d 3s --profile "$TMP/dear.jsonl"
	wait "$recorder" || true
	if [ "$(uname -m)" = x86_64 ]; then
		check "dear: it is said what a call takes" grep -qE '^inftrace: steps_dear: the kernel has to single-step its probe: [0-9]+ calls at [0-9.]+ us took [0-9.]+ s of' "$TMP/dear.err"
	fi
	check "dear: of no other" test "$(grep -c 'single-step its probe' "$TMP/dear.err")" -le 1
	kill "$target"
}

# All functions of a Python program have probes until those that are steps are watched: that is not judged.
test_python() {
	watchpoints_here python || return 0
	cat >"$TMP/early.py" <<-'PY'
		import time

		def small():
		    pass

		def step():
		    for _ in range(300):
		        small()
		    time.sleep(0.002)

		print("ready", flush=True)
		while True:
		    step()
	PY
	spawn target /usr/bin/python3 "$TMP/early.py" >"$TMP/early.out"
	wait_until 60 grep -q ready "$TMP/early.out"
	begin early -p "$target" --budget 8% --py-step "$TMP/early.py:step" --profile "$TMP/early.jsonl" -o "$TMP/early.json"
	holds early "$TMP/early.jsonl" '"watched":true' 200
	finish early
	# on a machine that is busy enough it takes longer until they are
	expect "early: nothing was turned off before the steps were watched" \
		"(lambda first, watched, off: watched > first + 2900000 or all(x > watched for x in off))(
			${steps}[0]['shape']['ts_us'], min(x['shape']['ts_us'] for x in $steps if 'watched' in x['shape']),
			[e['ts'] for e in t if e['name'] == 'budget'])" p="$TMP/early.jsonl" t="$TMP/early.json"
	kill "$target"
}

ends_preset() {
	printf '%s' '{ "name": "steps", "version": 1, "match": { "mapped": ["steps"] }, "probes": [
		{ "symbol": "steps_step", "role": "step" }, { "symbol": "steps_o*", "exits": true, "role": "op" } ] }' >"$TMP/ends.json"
}

# Operators without a stack protector have times where a budget limits what these cost, and only there.
test_ends() {
	# those of steps that were seen as a whole: where each end costs much, even such a budget may be exceeded
	local cut="{x['shape']['step'] for x in p if x['event'] == 'token_prof' and x['shape'].keys() & {'left_out', 'unfinished', 'began_before'}}"
	local own="[x for x in p if x['event'] == 'op_prof' and x['shape'].get('step', -1) not in $cut | {-1}]"
	ends_preset
	spawn target "$TMP/steps"
	begin ends -p "$target" --budget 100% --engine "$TMP/ends.json" --op-detail --profile "$TMP/ends.jsonl"
	says ends "^inftrace: recording"
	kill -USR1 "$target"
	holds ends "$TMP/ends.jsonl" '"op_prof"' 4
	finish ends
	check "ends: the profile is valid" "$INFTRACE" validate "$TMP/ends.jsonl" --require token_prof,op_prof
	expect "ends: each call has a time" \
		"all(x['shape']['n_steps_op'] == 50 and x['stage_us']['steps_op'] > 0 for x in $own) and len($own) >= 4" p="$TMP/ends.jsonl"
	check "ends: its price is told" grep -qE '1 operators without a stack protector: the end of each of [0-9]+ calls took some [0-9.]+ us' "$TMP/ends.err"
	begin cheap -p "$target" --engine "$TMP/ends.json" --op-detail --profile "$TMP/cheap.jsonl"
	holds cheap "$TMP/cheap.jsonl" '"op_prof"' 4
	finish cheap
	expect "cheap: without a budget they are counted" \
		"all(x['shape']['n_steps_op'] == 50 and x['stage_us']['steps_op'] == 0 for x in $own) and len($own) >= 4" p="$TMP/cheap.jsonl"
	check "cheap: why they have no time is told" grep -q '1 operators have no time, .*: with --budget they may have one' "$TMP/cheap.err"
	kill "$target"
}

# And the budget turns them off.
test_ends_off() {
	spawn target "$TMP/steps"
	ends_preset
	begin ends_off -p "$target" --budget 0.1% --engine "$TMP/ends.json" --op-detail --profile "$TMP/ends_off.jsonl"
	says ends_off "operators are off"
	finish ends_off
	check "ends off: the profile is valid" "$INFTRACE" validate "$TMP/ends_off.jsonl" --require token_prof
	kill "$target"
}

run_tests "$@"
