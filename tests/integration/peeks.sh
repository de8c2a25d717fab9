#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Dumps of the flight recorder while no thread is at rest: what was open and what had ended fit together, at one
# instant for each thread, in every dump. PEEKS_ROUNDS makes it longer.

. "$(dirname "$0")/../lib.sh"
need python3
. "$TOP/tests/programs/programs.sh"

rounds=${PEEKS_ROUNDS:-30}

cat >"$TMP/relay.engine.json" <<-'JSON'
	{ "name": "relay", "version": 1, "match": { "mapped": ["relay"] }, "probes": [
	  { "library": "relay", "symbol": "step", "role": "step", "args": { "n_tokens": "s32 arg1" },
	    "name": "n_tokens == 1 ? decode : prefill" } ] }
JSON

spawn relay "$PROGRAMS/relay" 3 >"$TMP/relay.out"
wait_until 60 grep -qx ready "$TMP/relay.out"
recording recorder relay --output-dir "$TMP/dumps" --engine "$TMP/relay.engine.json" -u relay:outer -u relay:inner \
	--flight-recorder 1MB -p "$relay"
failed=0
for _ in $(seq "$rounds"); do
	"$INFTRACE" dump -p "$relay" >/dev/null 2>>"$TMP/dump.err" || failed=$((failed + 1))
done
same "dumped" "$failed" 0
kill -INT "$recorder"
wait "$recorder" || not_ok "recorded" "$(cat "$TMP/relay.err")"
same "a trace of each dump" "$(find "$TMP/dumps" -name 'trace_*.json' | wc -l)" "$rounds"
check "all are valid" "$INFTRACE" validate "$TMP"/dumps/*
check "open spans end together, and each is there once" "$TOP/tests/programs/check_flight.py" peeks "$TMP/dumps"
