#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The requests in each step of vLLM, by the preset: a program with its names replays what logs of the real scheduler say.

. "$(dirname "$0")/../lib.sh"
need python3 gcc

setup() {
	replays_of vllm _C.abi3.so
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

metric() { # NAME: its sum over all labels
	"$TOP/tests/tools/metrics.py" value "$(cat "$TMP/metrics.url")" "$1"
}

# Requests that are preempted and go on; how this is told differs between releases.
test_preempted() {
	local release file
	for release in "" 0.9.1 0.9.2 v2; do
		replay "preempted$release" -preempted $release
	done
	schema_fits "preempted: as the schema says" profile "$TMP/preempted.jsonl"
	for file in "$TMP/preempted.jsonl" "$TMP/preempted.json"; do
		"$INFTRACE" report "$file" >"$TMP/report"
		check "preempted: the report of ${file##*.} says how often, and what was computed once more" grep -qE \
			'^  preempted: 18 of 19[0-9] requests, 38 times in all, for [0-9.]+ [mu]?s; 3555 tokens were computed once more for that, in ' "$TMP/report"
	done
	"$INFTRACE" report --json "$TMP/preempted.jsonl" >"$TMP/report.json"
	schema_fits "preempted: the report as JSON, too" report "$TMP/report.json"
	expect "preempted: a slice for the first four times of each, which sum up" \
		"(lambda n: sum(e['name'] == 'preempted' and e['cat'] == 'batch' for e in t if e['ph'] == 'X') == sum(min(4, i) for i in n) and sum(n) == 38)(
			[e['args']['preemptions'] for e in t if e.get('cat') == 'batch' and 'preemptions' in e.get('args', {})])" t="$TMP/preempted.json"
	expect "preempted: each step says of how many tokens" \
		"sum(s['shape'].get('recomputed_tokens', 0) for s in p if s['event'] == 'token_prof') == 3555" p="$TMP/preempted.jsonl"
	serving metrics "$INFTRACE" export --prometheus 127.0.0.1:0 "$TMP/preempted.jsonl"
	same "preempted: so do the metrics" "$(metric inftrace_request_preemptions_total) $(metric inftrace_recomputed_tokens_total)" "38 3555"
	kill "$BG"
	wait "$BG" || true
}

# Results of a batch in the step after it.
test_async() {
	replay async -async async
}

test_versions() {
	replay_versions ""
}

test_next_release() {
	replay_next "" paced
}

# While it runs, watchpoints take over from the probes: the same. Here with and without the results of a batch in the step after it.
test_watched() {
	local queue NEAR=200000 # see replay_next
	watchpoints_here watched || return 0
	for queue in "" async; do
		replay "watched$queue" "${queue:+-async}" $queue paced
		watchpoints_took_over "watched$queue"
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

test_server() {
	local headline
	served server 40 10 -- -o "$TMP/server.json" || return 0
	check "server: valid" "$INFTRACE" validate --require request_prof,token_prof "$TMP/server.json" "$TMP/server.jsonl"
	schema_fits "server: as the schema says" profile "$TMP/server.jsonl"
	"$INFTRACE" report --json "$TMP/server.jsonl" >"$TMP/report.json"
	schema_fits "server: the report as JSON, too" report "$TMP/report.json"
	# the client's clock: from before it connected to after it had read; the rest is for a machine that does other things, too
	headline='(lambda p, first: len(p) == 1 and p[0]["ttft_us"]["count"] == 40 == p[0]["to_engine_us"]["count"] and
		all(0.8 * first[i] < p[0]["ttft_us"][k] * 1e3 + 5e6 and p[0]["ttft_us"][k] * 1e3 < 1.01 * first[i] + 1e7 for i, k in ((19, "p50"), (35, "p90"))))'
	expect "server: the headline is what clients saw" "$headline"'([x for x in r[0]["processes"] if x["steps"]],
		sorted(e["first"] - e["connected"] for e in c))' r="$TMP/report.json" c="$TMP/server.clients"
}

# Its event loop is held up by one function, which those that wait for it name.
test_held_up() {
	served held "$(often 160 400)" 40 hold 20 -- -e +samples || return 0
	check "held: valid" "$INFTRACE" validate "$TMP/held.jsonl"
	"$INFTRACE" report "$TMP/held.jsonl" >"$TMP/report"
	check "held: the report names the function" grep -qE '^ .* python3 \([0-9]+\): cpu, mostly in .* from parse_large \(serve.py:[0-9]+\)$' "$TMP/report"
}

# A thread of its API process keeps the interpreter's lock.
test_lock_kept() {
	served lock "$(often 160 400)" 40 gil 20 -- -e +samples
}

# The same with the libraries that vLLM's API server has: uvicorn and its like; and its processes talk over ZeroMQ.
test_uvicorn() {
	local python SERVE=serve_uvicorn.py
	if python=$(python_with uvicorn,fastapi,uvloop,httptools,zmq); then
		RUN=(env PYTHONDONTWRITEBYTECODE=1 "$python")
		served uvicorn "$(often 160 400)" 50 gil 20 -- -e +samples || return 0
		check "uvicorn: valid" "$INFTRACE" validate "$TMP/uvicorn.jsonl"
		"$INFTRACE" report "$TMP/uvicorn.jsonl" >"$TMP/report"
		check "uvicorn: the report says what answers waited for" grep -q '^Answers began .* after their first tokens were there, waiting for$' "$TMP/report"
	else
		skip "uvicorn" "packages are missing (apt-get install --no-install-recommends python3-uvicorn python3-fastapi python3-uvloop python3-httptools python3-zmq)"
	fi
}

# Its tokenizer, a process of its own, gets no CPU, while the engine is busy with other requests.
test_starved() {
	served starved "$(often 160 400)" 40 starve 20
	expect "starved: it is part of the time until the engine had it" \
		'all(0 < s["stage_us"]["sent"] <= s["stage_us"]["to_engine"] for s in p if s["event"] == "request_prof" and s["shape"].get("joined"))' p="$TMP/starved.jsonl"
	check "starved: valid" "$INFTRACE" validate "$TMP/starved.jsonl"
}

# Its engine collects garbage.
test_collected() {
	served collected "$(often 100 200)" 60 gc 5
}

# Its KV cache is full; or all slots are taken, or the step has as many tokens as it may.
test_refused() {
	local file
	SLOTS=3 served refused "$(often 100 300)" 12 kv 6 -- -o "$TMP/refused.json" || return 0
	check "refused: valid" "$INFTRACE" validate "$TMP/refused.json" "$TMP/refused.jsonl"
	schema_fits "refused: as the schema says" profile "$TMP/refused.jsonl"
	for file in "$TMP/refused.jsonl" "$TMP/refused.json"; do
		"$INFTRACE" report "$file" >"$TMP/report"
		check "refused: the report of ${file##*.} says of all requests why" \
			grep -qE '^  queued .*(KV cache full [0-9]+ %.*all slots taken|all slots taken [0-9]+ %.*KV cache full)' "$TMP/report"
		check "refused: and of a slow one" grep -qE '^  request .* queued \(.*the KV cache was full for [0-9.]+ m?s' "$TMP/report"
	done
	"$INFTRACE" report --json "$TMP/refused.jsonl" >"$TMP/report.json"
	schema_fits "refused: the report as JSON, too" report "$TMP/report.json"
	expect "refused: each step says of the scheduler what the other output does" \
		'(lambda told: len(told) > 100 and told == {s["shape"]["step"]: {k[10:]: v for k, v in s["shape"].items() if k.startswith("scheduler_")}
			for s in p if s["event"] == "token_prof"})(
			{e["args"]["step"]: e["args"].get("scheduler", {}) for e in t if e.get("cat") == "step"})' p="$TMP/refused.jsonl" t="$TMP/refused.json"
}

# What its scheduler says now.
test_now() {
	server_started now env -C "$AT" "${RUN[@]}" "$SERVE" 3 kv 6
	background timeout 120 "$TOP/tests/programs/serve_client.py" "$PORT" 5000 5 6 >/dev/null 2>&1
	check "now: why" "$INFTRACE" why --engine "$TOP/engines/vllm.json" -p "$SERVER"
	cp "$TMP/check.out" "$TMP/why"
	check "now: it says who waits in the engine" grep -qE '^    its scheduler, at last: [1-9][0-9]* wait, [0-3] of 3 slots taken' "$TMP/why"
	check "now: and how many have no answer, all of which have its header" awk '
		/have no answer yet/ { unanswered = $1 } /^    its scheduler, at last: / { waiting = $5 }
		END { print unanswered, waiting; exit 2 * unanswered < waiting }' "$TMP/why"
	timeout 60 "$INFTRACE" top -n 5 -d 1 --engine "$TOP/engines/vllm.json" -p "$SERVER" >"$TMP/top" 2>/dev/null || true
	check "now: so does top" grep -qE 'scheduler: [1-9][0-9]* wait, [0-3] of 3 slots taken, ([0-9]|1[01]) of 11 blocks of the KV cache free' "$TMP/top"
	kill "$BG" "$SERVER"
	wait "$BG" "$SERVER" || true
}

# One of its two ranks does, which are processes of their own, and which the engine waits for.
test_rank_collects() {
	served rank 100 60 rank 5
}

# Batches that no scheduler makes, and that change while they are read.
test_junk() {
	replay_junk
	same "junk: the ids that are text are passed on" "$(json '[e["args"]["id"] for e in t if e["name"] == "sent"]' t="$TMP/junk.json")" \
		"[\"$(printf 'a%.0s' {1..63})\", \"\", \"plain\"]"
}

run_tests "$@"
