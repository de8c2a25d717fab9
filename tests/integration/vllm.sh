#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The requests in each step of vLLM, by the preset: a program with its names replays what logs of the real scheduler say.

. "$(dirname "$0")/../lib.sh"
need python3 gcc

setup() {
	"$INFTRACE" record -q --engine none --py-step none -o /dev/null -f chrome -- python3 -c pass 2>"$TMP/err" || true
	! grep -q 'not in' "$TMP/err" || skip_all "its steps cannot be seen: $(grep -m 1 'not in' "$TMP/err")"
	mkdir "$TMP/at"
	cp -r "$TOP/tests/programs/vllm_like/." "$TOP"/tests/programs/schedules/vllm-*.gz "$TMP/at"
	gunzip "$TMP"/at/*.gz
	gcc -shared -o "$TMP/at/_C.abi3.so" -x c - <<<'int nothing;'
	RUN=(env PYTHONDONTWRITEBYTECODE=1 python3)
	AT=$TMP/at
	NEAR=
}

# replay NAME LOG [async] [paced]: with RUN, to which the files are at AT; and compares all rows and requests
replay() {
	local name=$1 log=vllm-schedule$2.jsonl
	check "$name: is recorded" engine_recorded "$name" -v --strict --engine "$TOP/engines/vllm.json" -o "$TMP/$name.json" \
		--profile "$TMP/$name.jsonl" -- "${RUN[@]}" "$AT/replay.py" "$AT/$log" "${@:3}"
	check "$name: the rows of each step, and each request" "$TOP/tests/programs/check_vllm.py" "$TMP/at/$log" \
		"$TMP/$name.json" "$TMP/$name.jsonl" "$TMP/$name.out" $NEAR
}

test_steps() {
	local file
	replay steps ""
	check "steps: valid" "$INFTRACE" validate --require request_prof "$TMP/steps.json" "$TMP/steps.jsonl"
	schema_fits "steps: as the schema says" profile "$TMP/steps.jsonl"
	for file in "$TMP/steps.jsonl" "$TMP/steps.json"; do
		check "steps: report of ${file##*.}" "$INFTRACE" report "$file"
		cp "$TMP/check.out" "$TMP/report"
		check "steps: it has all requests" grep -q 'requests: 199, of ' "$TMP/report" # another one was never scheduled
		check "steps: and names them by their ids" grep -qE '^  request [0-9]+ \(cmpl-0001-[0-9]+-0, [0-9]+ prompt tokens\)' "$TMP/report"
	done
	"$INFTRACE" report --json "$TMP/steps.jsonl" >"$TMP/report.json"
	schema_fits "steps: the report as JSON, too" report "$TMP/report.json"
	expect "steps: each request has a slice with its id, in as few slots as there are requests at a time" \
		"(lambda r: len({e['args']['request_id'] for e in r}) == 199 and len({e['tid'] for e in r}) <= 17)(
			[e for e in t if e.get('cat') == 'batch' and 'request_id' in e.get('args', {})])" t="$TMP/steps.json"
	expect "steps: and the time before its first step" \
		"sum(e.get('cat') == 'batch' and e.get('name') == 'queued' and e['ph'] == 'X' for e in t) == 199" t="$TMP/steps.json"
}

# Requests that are preempted and come back; results of a batch in the step after it.
test_preempted() {
	replay preempted -preempted
}

test_async() {
	replay async -async async
}

test_versions() {
	local version python RUN
	while read -r version python; do
		case $version in
		3.8 | 3.9) continue ;; # the engine needs 3.10
		esac
		RUN=(env PYTHONDONTWRITEBYTECODE=1 "$python")
		replay "$version" ""
	done < <(python_versions)
}

test_next_release() {
	local root version RUN AT=/mnt NEAR=200000
	root=$(python_next 2>&1) || {
		skip "next release" "$root"
		return
	}
	for version in 3.13 3.14; do
		RUN=("$TOP/tests/engines/in_root" "$root" "$TMP/at" "/usr/bin/python$version")
		replay "next-$version" "" paced
		watchpoints_here "next-$version, watched" || continue
		check "next-$version: watchpoints have taken over" grep -q 'its Python functions are watched' "$TMP/next-$version.err"
	done
}

# While it runs, watchpoints take over from the probes: the same. Here with and without the results of a batch in the step after it.
test_watched() {
	local queue NEAR=200000 # a watchpoint costs up to 20 us in a virtual machine
	watchpoints_here watched || return
	for queue in "" async; do
		replay "watched$queue" "${queue:+-async}" $queue paced
		check "watched$queue: watchpoints have taken over" grep -q 'its Python functions are watched' "$TMP/watched$queue.err"
		check "watched$queue: none was missed" test -z "$(grep 'watchpoints .* were missed' "$TMP/watched$queue.err")"
	done
}

# A dump of the flight recorder, for a request that was slow.
test_flight() {
	mkdir "$TMP/dumps"
	check "flight: is recorded" engine_recorded flight --engine "$TOP/engines/vllm.json" --flight-recorder 32MB --output-dir "$TMP/dumps" \
		--trigger 'request_ttft>100us' -- "${RUN[@]}" "$AT/replay.py" "$AT/vllm-schedule.jsonl"
	check "flight: a dump has requests with their ids" grep -q '"request_id":"cmpl-' "$TMP/dumps/"*.jsonl
	check "flight: the dumps are valid" "$INFTRACE" validate "$TMP/dumps/"*
}

# Batches that no scheduler makes, and that change while they are read.
test_junk() {
	check "junk: is recorded" engine_recorded junk --strict --engine "$TOP/engines/vllm.json" -o "$TMP/junk.json" \
		--profile "$TMP/junk.jsonl" -- "${RUN[@]}" "$AT/junk.py"
	same "junk: the program did not notice" "$(tail -n 1 "$TMP/junk.out")" "done"
	check "junk: rows are whole, or none" "$TOP/tests/programs/check_vllm.py" junk "$TMP/junk.json" "$TMP/junk.out"
	check "junk: valid" "$INFTRACE" validate "$TMP/junk.json" "$TMP/junk.jsonl"
}

run_tests "$@"
