#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# inftrace report of requests in batches: on profiles of a simulated server, about which everything is known, of a real
# llama.cpp that batches, and its page in a headless Chromium; inftrace top of the same.

. "$(dirname "$0")/../lib.sh"

need python3

fits() { # NAME
	schema_fits "$1: it fits the schema" report "$TMP/$1.report.jsonl"
}

# simulate NAME OPTION...: leaves $TMP/NAME.jsonl, .truth.jsonl and .report.jsonl
simulate() {
	"$TOP/tests/tools/request_lines.py" --truth "$TMP/$1.truth.jsonl" "${@:2}" >"$TMP/$1.jsonl"
	check "$1: JSON" "$INFTRACE" report --json -n 10000 --slo ttft=100ms,tpot=5ms "$TMP/$1.jsonl"
	cp "$TMP/check.out" "$TMP/$1.report.jsonl"
	fits "$1"
}

agrees() { # NAME
	expect "$1: all requests, with their times" '(lambda b, p:
		b["count"] == len(t) and b["output_tokens"] == sum(q["outputs"] for q in t) and
		all(p(b[key], [q[of] + q.get(more, 0) for q in t if q[of]]) for key, of, more in
			(("ttft_us", "ttft", "queued"), ("first_step_to_first_token_us", "ttft", ""), ("tpot_us", "tpot", ""), ("queued_us", "queued", ""))))(
		{**r[0]["processes"][0], **r[0]["processes"][0]["batch_requests"]}, lambda have, ns: (lambda s:
			[round(have[k] * 1000) for k in ("p50", "p90", "p99", "max")] ==
			[s[(len(s) * k + 99) // 100 - 1] for k in (50, 90, 99, 100)])(sorted(ns)))' \
		r="$TMP/$1.report.jsonl" t="$TMP/$1.truth.jsonl"
	expect "$1: the parts are the sums of the lines" '(lambda b, ns:
		{k: ns(v) for k, v in b["parts_us"].items()} == {k: sum(ns(l["stage_us"][k]) for l in p
			if l["event"] == "request_prof") for k in b["parts_us"]})(
		r[0]["processes"][0]["batch_requests"], lambda us: round(us * 1000))' r="$TMP/$1.report.jsonl" p="$TMP/$1.jsonl"
	expect "$1: goodput" '(lambda g: (g["judged"], g["kept"]) == (len(t), sum(
		q["ttft"] + q["queued"] <= 100e6 and (q["tpot"] or 0) <= 5e6 for q in t)))(r[0]["processes"][0]["goodput"])' \
		r="$TMP/$1.report.jsonl" t="$TMP/$1.truth.jsonl"
	expect "$1: who waited longest for whom" '(lambda have, want: have == want[:len(have)] and len(have) == min(64, len(want)))(
		[round(q["us"] * 1000) for q in r[0]["processes"][0]["batch_requests"]["pairs"]],
		sorted((ns for q in t for ns in sorted(q["waited"].values())[-8:] if ns), reverse=True))' \
		r="$TMP/$1.report.jsonl" t="$TMP/$1.truth.jsonl"
}

# Prompts of 1,024 tokens beside requests that decode: the report says for whom the victims waited.
test_interference() {
	simulate long --requests 300 --long 15:1024 --outputs 20:60 --rate 12
	agrees long
	expect "long: those who waited long for a prompt are told, with the request that it was of" '(lambda late: all(
		str(o) in late.get(q["number"], "") for q in t for o, ns in q["waited"].items() if ns > 50e6))(
		(lambda s: {n: " ".join(l["text"] for l in s if l["request"] == n) for n in {l["request"] for l in s}})(
		r[0]["processes"][0]["batch_requests"]["slowest"]))' r="$TMP/long.report.jsonl" t="$TMP/long.truth.jsonl"
}

# More requests than slots, and a server that now and then waits for the network.
test_queue() {
	simulate queue --requests 400 --slots 4 --rate 40 --cancel 20
	agrees queue
	expect "queue: the slowest was in the queue" 'r[0]["processes"][0]["batch_requests"]["slowest"][0]["parts"][0]["part"] == "queued"' r="$TMP/queue.report.jsonl"
	simulate stall --requests 200 --stall 300:400
	agrees stall
	expect "stall: the network was in the way between steps" '(lambda l: l["parts"][0]["part"] == "between" and
		"waited 400 ms for the network" in l["text"])(r[0]["processes"][0]["batch_requests"]["slowest"][0])' \
		r="$TMP/stall.report.jsonl"
}

# A real llama.cpp that serves requests, and its own log of them.
test_real() {
	[ "$(id -u)" -eq 0 ] || { skip real "needs root"; return; }
	need_llama
	local serve model
	serve=$(serve_driver)
	model=$(llama_model mite)
	check "real: recorded" "$INFTRACE" record -q --profile "$TMP/real.jsonl" -o "$TMP/real.json" -- "$serve" -l "$TMP/real.log" -r 200 -s 5 \
		-p 6 -a 3 -L 20:300 "${MODEL_ARGS[0]}" "$model"
	check "real: text" "$INFTRACE" report "$TMP/real.jsonl"
	cp "$TMP/check.out" "$TMP/real.txt"
	check "real: JSON" "$INFTRACE" report --json -n 10000 --slo ttft=1h,tpot=1h "$TMP/real.jsonl"
	cp "$TMP/check.out" "$TMP/real.report.jsonl"
	expect "real: all requests, with their tokens" '(lambda b, t: (b["count"], b["prompt_tokens"], b["cached_tokens"],
		b["output_tokens"], b["first_step_to_first_token_us"]["count"]) == (len(t), sum(q["prompt"] for q in t), sum(q["cached"] for q in t),
		sum(q["outputs"] for q in t), sum(q["outputs"] > 0 for q in t)))({**r[0]["processes"][0], **r[0]["processes"][0]["batch_requests"]},
		[q for q in l if "outputs" in q])' r="$TMP/real.report.jsonl" l="$TMP/real.log"
	expect "real: none is mixed" '(lambda p: p["requests"]["mixed"] == 0 and "left_out" not in p["requests"] and
		p["goodput"]["kept"] == p["goodput"]["judged"] == p["first_step_to_first_token_us"]["count"])(r[0]["processes"][0])' \
		r="$TMP/real.report.jsonl"
	expect "real: the parts are all of their time" '(lambda u: round(1000 * u["total"]) == sum(round(1000 * v)
		for k, v in u.items() if k != "total") > 0)(r[0]["processes"][0]["batch_requests"]["parts_us"])' \
		r="$TMP/real.report.jsonl"
	expect "real: steps by sequences, as it filled them" '(lambda o, n: all(sum(q["steps"] for q in o if q["from"] == a) ==
		sum(a <= k <= b for k in n) for a, b in ((1, 1), (2, 2), (3, 4), (5, 8))))(
		r[0]["processes"][0]["batch_requests"]["occupancy"], [len({q[1] for q in s["parts"]}) for s in l if "parts" in s])' \
		r="$TMP/real.report.jsonl" l="$TMP/real.log"
	check "real: JSON of the trace" "$INFTRACE" report --json -n 10000 --slo ttft=1h,tpot=1h "$TMP/real.json"
	cp "$TMP/check.out" "$TMP/trace.report.jsonl"
	fits real
	fits trace
	expect "real: the trace says the same of them" '(lambda f: f(r[0]["processes"][0]) == f(t[0]["processes"][0]))(lambda p:
		(p["goodput"], p["mean_time_per_token_us"], [(s["request"], s["kind"], s["us"], s["excess_us"]) for s in
		p["batch_requests"]["slowest"] if s["compared"]], {k: v for k, v in p["batch_requests"].items() if k not in ("slowest", "parts_states_us")}))' \
		r="$TMP/real.report.jsonl" t="$TMP/trace.report.jsonl"
	same "real: the text says so" "$(grep -c '^Where the time of requests went\|^Sequences in a step' "$TMP/real.txt")" 2
	check "real: top" "$INFTRACE" top -b -- "$serve" -l "$TMP/top.log" -r 100 -s 6 -p 6 -a 3 "${MODEL_ARGS[0]}" "$model"
	same "real: top has the first tokens of all" "$(sed -n 's/^requests: .*TTFT in steps (\([0-9]*\)):.*/\1/p' "$TMP/check.out" |
		tail -n 1)" "$(json 'sum(q["outputs"] > 0 for q in l if "outputs" in q)' l="$TMP/top.log")"
}

test_page() {
	local size
	simulate page --requests 400 --long 15:1024 --stall 300:400 --rate 12
	simulate many --requests 4000 --no-steps --rate 40 --slots 16
	for name in page many; do
		check "$name: page" "$INFTRACE" report --html "$TMP/$name.html" --slo ttft=100ms "$TMP/$name.jsonl"
	done
	same "many: the page is small" "$(($(stat -c %s "$TMP/many.html") < 400000))" 1
	if ! command -v node >/dev/null || ! [ -x "${CHROMIUM:-/usr/bin/chromium}" ]; then
		skip "page" "chromium or node is not installed"
		return
	fi
	check "page: dark" "$TOP/tests/tools/check_page.mjs" --dark "$TMP/page.html"
	for size in 1200x900 390x844; do
		for name in page many; do
			check "$name: the chart of $size can be zoomed by keys, mouse and fingers" "$TOP/tests/tools/check_page.mjs" \
				--size "$size" --eval "$(cat "$TOP/tests/tools/gantt_gestures.js")" "$TMP/$name.html"
			expect "$name, $size: each of these does" 'len(r) == 8 and all(r.values())' r=last:"$TMP/check.out"
		done
	done
}

run_tests "$@"
