#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# record --metrics: the engine's own metrics as counters, against what the server says that it has answered; and pages of enemies.

. "$(dirname "$0")/../lib.sh"

need python3
P=$TOP/tests/programs

# recorded NAME KIND OPTION...: five seconds of a server's pages.
recorded() {
	server_started "$1" "$P/metrics_server.py" "$2"
	check "$1: records" timeout 60 "$INFTRACE" record --strict --engine none -d 5s "${@:3}" --metrics "$PORT" -p "$SERVER"
	cp "$TMP/check.out" "$TMP/$1.err"
	kill "$SERVER"
	wait "$SERVER" || true
}

test_values() {
	recorded values values -o "$TMP/t.json" -o "$TMP/t.pftrace"
	check_shown "values: each of each page" "$P/check_metrics.py" "$TMP/t.json" "$TMP/values.out"
	check "values: valid" "$INFTRACE" validate "$TMP/t.json"
	check "values: the .pftrace as the JSON has it" "$TOP/tests/tools/pftrace.py" compare "$TMP/t.pftrace" "$TMP/t.json"
	check "values: so many" grep -qE '^inftrace: metrics: [0-9]+ values of 9 series, from [0-9]+ pages$' "$TMP/values.err"
	check "values: what has too long a name is said" grep -q 'of a page 1 values are not in the traces' "$TMP/values.err"
}

pages() { # NAME
	grep -c '^{' "$TMP/$1.out" || true
}

pages_read() { # NAME N
	[ "$(pages "$1")" -ge "$2" ]
}

traces_in() { # DIRECTORY
	find "$1" -name '*.json' | grep .
}

# Files for each process, of a window and of a dump: each trace has them all.
test_windows() {
	local name trace
	for name in window dump; do
		server_started "$name" "$P/metrics_server.py" values
		if [ "$name" = window ]; then
			set -- --window every=2h,for=1h
		else
			set -- --flight-recorder 16MB
		fi
		recording TRACER "$name" --engine none --output-dir "$TMP/$name" --metrics "http://127.0.0.1:$PORT" "$@" -p "$SERVER" ||
			continue
		wait_until 60 pages_read "$name" $(($(pages "$name") + 4))
		if [ "$name" = dump ]; then
			kill -USR1 "$TRACER"
			wait_until 60 traces_in "$TMP/$name" >/dev/null
		fi
		interrupted "$name: ended" "$TRACER"
		kill "$SERVER"
		wait "$SERVER" || true
		while read -r trace; do
			check_shown "$name: each value of each page" "$P/check_metrics.py" "$trace" "$TMP/$name.out"
		done < <(traces_in "$TMP/$name")
		same "$name: traces" "$(traces_in "$TMP/$name" | wc -l)" 1
	done
}

# What is no page of metrics, or of too many, harms nothing and is said.
test_enemies() {
	recorded many many -o "$TMP/t.json"
	check "many: what is left out" grep -q 'of a page 1978 values are not in the traces: they are beyond 1024 series' "$TMP/many.err"
	recorded huge huge -o "$TMP/t.json"
	check "huge: said" grep -q 'not read: the page has more than 4 MB' "$TMP/huge.err"
	recorded slow slow -o "$TMP/t.json"
	check "slow: said" grep -q 'not read: there was no answer yet' "$TMP/slow.err"
	recorded missing missing -o "$TMP/t.json" --profile "$TMP/t.jsonl"
	check "missing: said" grep -q 'not read: HTTP status 404' "$TMP/missing.err"
	recorded junk junk -o "$TMP/t.json" -o "$TMP/t.pftrace"
	check "junk: valid" "$INFTRACE" validate "$TMP/t.json"
	check "junk: the .pftrace as the JSON has it" "$TOP/tests/tools/pftrace.py" compare "$TMP/t.pftrace" "$TMP/t.json"
	check "nobody listens: recorded, and said" timeout 60 "$INFTRACE" record --engine none -o "$TMP/t.json" --metrics 1 -- sleep 1.5
	cp "$TMP/check.out" "$TMP/nobody.err"
	check "nobody listens: said" grep -q 'http://127.0.0.1:1/metrics: not read: Connection refused' "$TMP/nobody.err"
}

test_refused() {
	local where
	for where in '' ftp://a/metrics 70000 a:80 'http://a b' 'http://user@a/'; do
		check_rc "refused: '$where'" 2 'is neither http://HOST:PORT/PATH nor a port' "$INFTRACE" record --metrics "$where" -o "$TMP/t.json" -- true
	done
	check_rc "without a trace" 2 '--metrics: they are in traces, so give -o, too' "$INFTRACE" record --metrics 80 --profile "$TMP/t.jsonl" -- true
}

run_tests "$@"
