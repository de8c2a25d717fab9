#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Triggers about one request of a batch, with a real llama.cpp that serves several at once.

. "$(dirname "$0")/../lib.sh"

need python3
need_llama
serve=$(serve_driver)
model=$(llama_model mite)

# One request of a batch: a server that stands still now and then, with all of its requests. The dump has them all.
test_token() {
	"$INFTRACE" record --flight-recorder 64MB --output-dir "$TMP/batch" --trigger 'request_tpot>600ms' --max-dumps 1 -- \
		"$serve" -l "$TMP/batch.log" -r 60 -s 6 -p 6 -a 2 -S 4:800000 "${MODEL_ARGS[0]}" "$model" \
		>"$TMP/batch.out" 2>"$TMP/batch.err" || not_ok "batch: recorded" "$(tail -n 1 "$TMP/batch.err")"
	dumps batch 1 'request_tpot>600ms: a token of sequence [0-9]+ of pid [0-9]+ took [0-9.]+ ms, up to the end of step [0-9]+'
	cat "$TMP"/batch/*.jsonl >"$TMP/batch.jsonl"
	expect "batch: it came once the server had stood still" '(lambda step: any(q["step"] < step <= q["step"] + 2
		for q in l if "stall" in q))(int([e["shape"]["trigger"] for e in p if "trigger" in e["shape"]][0].split()[-1]))' \
		p="$TMP/batch.jsonl" l="$TMP/batch.log"
	expect "batch: the dump has each request that had rows in its steps" '(lambda steps, lines: len(steps) > 3 and
		{q[1] for s in l if "parts" in s and s["step"] in steps for q in s["parts"]} == {e["sequence"] for e in lines} and
		sum(e["steps"] for e in lines) == sum(len(s["parts"]) for s in l if "parts" in s and s["step"] in steps))(
		{e["shape"]["step"] for e in p if e["event"] == "token_prof"},
		[e["shape"] for e in p if e["event"] == "request_prof"])' p="$TMP/batch.jsonl" l="$TMP/batch.log"
}

# Prompts in many parts, and a server that stands still during them.
test_first() {
	"$INFTRACE" record --flight-recorder 64MB --output-dir "$TMP/first" --trigger 'request_ttft>600ms' --max-dumps 1 -- \
		"$serve" -l "$TMP/first.log" -r 20 -s 6 -p 6 -a 2 -b 16 -L 7:200 -S 15:300000 "${MODEL_ARGS[0]}" "$model" \
		>"$TMP/first.out" 2>"$TMP/first.err" || not_ok "first: recorded" "$(tail -n 1 "$TMP/first.err")"
	dumps first 1 'request_ttft>600ms: the request of sequence [0-9]+ of pid [0-9]+ had .* (in|of) step [0-9]+'
}

# queued NAME REQUESTS GAP: requests over HTTP. Those that can be joined with their sockets are known to have been queued, if only for a moment.
queued() {
	server_started "$1" "$serve" -H -p 4 -l "$TMP/$1.served" "${MODEL_ARGS[0]}" "$model"
	background "$INFTRACE" record -e +requests --flight-recorder 64MB --output-dir "$TMP/$1" --trigger 'queue>1us' \
		--max-dumps 1 -p "$SERVER" 2>"$TMP/$1.err"
	wait_until 60 grep -q 'flight recorder on' "$TMP/$1.err"
	check "$1: clients" timeout 120 "$TOP/tests/programs/serve_client.py" "$PORT" "$2" "$3" 10
	kill "$SERVER"
	wait "$SERVER" || true
	wait "$BG" || sed 's/^/# /' "$TMP/$1.err"
	dumps "$1" 1 'queue>1us: a request was queued for [0-9.]+ (us|ms) before it began as sequence [0-9]+ of pid [0-9]+'
}

test_queue() {
	queued queue 60 20
}

# The recording is over before it has looked at them.
test_queue_at_the_end() {
	queued end 12 5
}

run_tests "$@"
