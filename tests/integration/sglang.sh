#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The requests in each step of SGLang, by the preset: a program with its names replays what a log of the real scheduler says.

. "$(dirname "$0")/../lib.sh"
need python3 gcc

setup() {
	replays_of sglang common_ops.abi3.so
}

test_normal() {
	replay normal ""
	check "normal: valid" "$INFTRACE" validate --require request_prof "$TMP/normal.json" "$TMP/normal.jsonl"
	schema_fits "normal: as the schema says" profile "$TMP/normal.jsonl"
	check "normal: report" "$INFTRACE" report "$TMP/normal.jsonl"
	cp "$TMP/check.out" "$TMP/report"
	check "normal: it has all requests" grep -q 'requests: 198, of ' "$TMP/report" # two more were never scheduled
}

# A batch is begun before the results of the one before it are there, with requests of which it is not known that they are over.
test_overlap() {
	replay overlap "" overlap
	check "overlap: valid" "$INFTRACE" validate --require request_prof "$TMP/overlap.json" "$TMP/overlap.jsonl"
}

# Tokens are in an array in newer releases.
test_new() {
	replay new "" overlap new
}

# Requests lose their memory, and go on with what the cache has.
test_retracted() {
	replay retracted "" retracted
	replay "retracted, newer" "" retracted new overlap
	expect "retracted: each time" "sum(s['shape'].get('preemptions', 0) for s in p if s['event'] == 'request_prof') > 20" p="$TMP/retracted.jsonl"
}

# Several tokens in one step, as with speculative decoding: of the results, or before these in older releases.
test_several() {
	replay several "" several
	replay "several, newer" "" several new overlap
	expect "several: more tokens than steps that gave any" \
		'sum(s["shape"]["output_tokens"] for s in p if s["event"] == "request_prof") > 1.2 * sum(s["shape"]["n_sequences"] for s in p if s["event"] == "token_prof")' \
		p="$TMP/several.jsonl"
}

test_versions() {
	replay_versions "" overlap
}

test_next_release() {
	replay_next "" overlap paced
}

# The whole server: each request is one, with what happened to it before the engine had it.
test_server() {
	served server 40 10 -- -o "$TMP/server.json"
	check "server: valid" "$INFTRACE" validate --require request_prof,token_prof "$TMP/server.json" "$TMP/server.jsonl"
	expect "server: when it was passed on" "$SENT" p="$TMP/server.jsonl"
}

SENT='all(0 < s["stage_us"]["sent"] <= s["stage_us"]["to_engine"] for s in p if s["event"] == "request_prof" and s["shape"].get("joined"))'

# Its tokenizer, a process of its own, gets no CPU. In newer releases what passes a request on has another argument.
test_starved() {
	served starved "$(often 160 400)" 40 starve 20
	NEWER=1 served newer "$(often 160 400)" 40 starve 20
	expect "newer: when it was passed on" "$SENT" p="$TMP/newer.jsonl"
}

# Its KV cache is full; or all slots are taken, or a batch has as many tokens as it may.
test_refused() {
	SLOTS=3 served refused "$(often 100 300)" 12 kv 6
	check "refused: valid" "$INFTRACE" validate "$TMP/refused.jsonl"
}

# Batches that no scheduler makes, and that change while they are read.
test_junk() {
	replay_junk
}

test_windows() {
	mkdir "$TMP/windows"
	check "windows: are recorded" engine_recorded windows --strict --engine "$TOP/engines/sglang.json" --window every=500ms,for=200ms \
		--output-dir "$TMP/windows" -- "${RUN[@]}" "$AT/replay.py" "$AT/sglang-schedule.jsonl" overlap paced
	check "windows: rows of all steps but the first" "$TOP/tests/programs/check_sglang.py" windows "$TMP/windows.out" "$TMP"/windows/trace_*.json
}

# While it runs, watchpoints take over from the probes: the same.
test_watched() {
	local NEAR=200000 # see replay_next
	watchpoints_here watched || return 0
	replay watched "" overlap paced
	watchpoints_took_over watched
}

run_tests "$@"
