#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Requests as seen on sockets, compared with what the server and its clients measure.

. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/programs/programs.sh"
FAMILIES=$TOP/tests/programs/families.py
CLIENT=$TOP/tests/programs/sse_client.py

# serve NAME COMMAND...: prints its port, then "ready", and ends at a line of input; PORT, SERVER
serve() {
	mkfifo "$TMP/$1.stop"
	server_started "$@" <>"$TMP/$1.stop"
}

# attach NAME RECORD-OPTION...: with requests, since the server listens. TRACER
attach() {
	recording TRACER "$1" --strict --profile "$TMP/$1.jsonl" "${@:2}" -p "$SERVER"
}

# stop NAME: the server, and with it the recording
stop() {
	local rc=0
	echo >"$TMP/$1.stop"
	wait "$SERVER" || rc=$?
	wait "$TRACER" || rc=$?
	record_result "$1" "$rc"
}

need python3 node
background "$CLIENT" upstream >"$TMP/upstream"
wait_until 60 grep -sq . "$TMP/upstream"

test_clients() {
	for clients in 1 8; do
		name=clients-$clients
		serve "$name" "$TOP/tests/programs/sse_server.py" "$TMP/$name.told" "$TMP/$name.socket" "$(cat "$TMP/upstream")"
		attach "$name" -o "$TMP/$name.json"
		check "$name: clients" timeout 300 "$CLIENT" load "$PORT" "$TMP/$name.socket" "$clients" 16
		cp "$TMP/check.out" "$TMP/$name.asked"
		stop "$name" || continue
		check_shown "$name: every request and its times, by the server's and the clients' clock" \
			"$FAMILIES" sockets "$TMP/$name.json" "$TMP/$name.jsonl" "$TMP/$name.told" "$TMP/$name.asked"
	done
}

# What comes waits to be accepted, and then to be read: its client waits as well.
test_late() {
	serve late "$TOP/tests/programs/sse_server.py" "$TMP/late.told" "$TMP/late.socket" "$(cat "$TMP/upstream")" 60
	attach late -o "$TMP/late.json"
	check "late: clients" timeout 300 "$CLIENT" load "$PORT" "$TMP/late.socket" 4 6
	cp "$TMP/check.out" "$TMP/late.asked"
	stop late || return 0
	check_shown "late: every request and its times, by the server's and the clients' clock" \
		"$FAMILIES" sockets "$TMP/late.json" "$TMP/late.jsonl" "$TMP/late.told" "$TMP/late.asked"
	expect "late: some had come long before they were accepted" \
		'max(s["unread"] - s["accepted"] for s in (e["stage_us"] for e in p) if "accepted" in s and "unread" in s) > 30000' p="$TMP/late.jsonl"
	check "late: report" "$INFTRACE" report "$TMP/late.jsonl"
	cp "$TMP/check.out" "$TMP/late.report"
	check "late: what it says of them" grep -E '^  until the server read it +24 ' "$TMP/late.report"
}

# A read of no bytes notes when its connection's last packet came. The next read, of another connection, must not use that.
test_empty() {
	serve empty "$TOP/tests/programs/empty_reads.py"
	attach empty -o "$TMP/empty.json"
	stop empty || return 0
	expect "empty: none of 40 requests came before it was sent" '[round(1000 * r["shape"]["ts_us"]) + int(w["shape"]["boottime_ns"]) >= int(r["shape"]["request"][5:])
		for w in p if w["event"] == "window_prof" for r in p if "GET" in r["shape"].get("request", "")] == 40 * [True]' p="$TMP/empty.jsonl"
}

# A connection opened before the recording.
test_early() {
	name=early
	serve "$name" "$TOP/tests/programs/sse_server.py" "$TMP/$name.told" "$TMP/$name.socket" 1
	mkfifo "$TMP/early.go"
	"$CLIENT" early "$PORT" <>"$TMP/early.go" >"$TMP/early.asked" &
	client=$!
	test_pids+=("$client")
	wait_until 60 grep -sqx open "$TMP/early.asked"
	attach "$name" -o "$TMP/$name.json"
	echo >"$TMP/early.go"
	wait "$client"
	stop "$name"
	sed -i 1d "$TMP/$name.told"
	check "$name: the request within the recording" \
		"$FAMILIES" sockets "$TMP/$name.json" "$TMP/$name.jsonl" "$TMP/$name.told"
}

# Without requests if the list says so, and with -p of what does not listen.
test_left_out() {
	name=left-out
	serve "$name" "$TOP/tests/programs/sse_server.py" "$TMP/$name.told" "$TMP/$name.socket" 1
	attach "$name" -e -requests
	check "$name: client" "$CLIENT" get "$PORT" /split/5/3 4
	kill -INT "$TRACER"
	wait "$TRACER"
	expect "$name: no requests" '[e for e in p if e["event"] == "request_prof"] == [] and len(p) > 0' p="$TMP/$name.jsonl"
	background python3 -c 'import os, socket, threading
a, b = socket.socketpair()
threading.Thread(target=lambda: [b.sendall(b.recv(100)) for _ in iter(int, 1)], daemon=True).start()
while True: a.sendall(b"x"), a.recv(100)'
	check "$name: of no server" "$INFTRACE" record -d 300ms --profile "$TMP/pair.jsonl" -p "$BG"
	expect "$name: of no server" '[e for e in p if e["event"] == "request_prof"] == [] and len(p) > 0' p="$TMP/pair.jsonl"
}

# No system calls in the trace, no trace at all.
test_alone() {
	name=alone
	serve "$name" "$TOP/tests/programs/sse_server.py" "$TMP/$name.told" "$TMP/$name.socket" 1
	attach "$name"
	check "$name: client" "$CLIENT" get "$PORT" /split/5/3 4
	spawn client "$CLIENT" get "$PORT" /chunked/100/20 1 >"$TMP/late"
	wait_until 60 grep -sq begins "$TMP/late"
	kill -INT "$TRACER"
	wait "$TRACER"
	kill "$client"
	wait "$client" || true
	expect "$name: a profile without a trace, cut within a request" \
		'([(e["shape"]["request"], e["shape"].get("end_not_seen")) for e in p if e["event"] == "request_prof"] ==
			[("POST /split/5/3", None)] * 4 + [("POST /chunked/100/20", True)])' p="$TMP/$name.jsonl"
}

# A second opinion on an engine.
test_node() {
	if node=$(node_20 2>/dev/null) && folder=$(node_llama 2>/dev/null); then
		model=$(llama_model)
		cd "$folder" || exit
		name=node
		serve "$name" "$node" "$TOP/tests/engines/node_llama_gen.mjs" -s "$model" 20 1
		attach "$name" -o "$TMP/$name.json"
		check "$name: client" "$CLIENT" get "$PORT" / 4
		stop "$name" && check "$name: requests of the sockets and of the steps" "$FAMILIES" served "$TMP/$name.jsonl" || true
	else
		skip "requests of the node binding" "no node 20 or no node-llama-cpp"
	fi
}

teardown() {
	schema_fits "each line fits the schema" profile "$TMP"/*.jsonl
	traces_check
}

run_tests "$@"
