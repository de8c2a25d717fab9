#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The preset whisper.cpp on Debian's build, which is stripped: encoders, decoders and operators, as many as whisper.cpp
# counts itself, and the requests of whisper-server.

. "$(dirname "$0")/../lib.sh"

need python3 curl
[ -d "$ENGINES/next-whisper" ] || [ "$(often '' all)" ] || skip_all "134 MB of packages: with --all"
root=$(whisper_next 2>"$TMP/next.err") || skip_all "$(cat "$TMP/next.err")"
mkdir "$TMP/mnt"
"$TOP/tests/engines/make_whisper.py" "$TMP/mnt/model.bin" "$TMP/mnt/sound.wav"

# It counts tokens, by how many there are in a step: 1, fewer than 16, more.
test_cli() {
	check "cli: recorded" "$INFTRACE" record --strict --ring-size 64MB -o "$TMP/t.json" --profile "$TMP/cli.jsonl" -- \
		"$TOP/tests/engines/in_root" "$root" "$TMP/mnt" whisper-cli -m /mnt/model.bin -t 2 -f /mnt/sound.wav
	cp "$TMP/check.out" "$TMP/cli.said"
	sed -n 's/.* \(encode\|decode\|batchd\) time = .* \([0-9]*\) runs .*/"\1": \2,/p' "$TMP/cli.said" | tr -d '\n' | sed 's/^/{/; s/,$/}\n/' >"$TMP/cli.runs"
	json '[e["shape"] for e in p if e["event"] == "token_prof"]' p="$TMP/cli.jsonl" >"$TMP/steps"
	expect "cli: decodes of one and of several sequences, as whisper-cli counts them" \
		'[sum(s["rows"] == 1 for s in p), sum(s["rows"] for s in p if s["rows"] > 1)] == [r["decode"], r["batchd"]] and r["batchd"] > 0 and r["decode"] > 0' \
		p=<(json '[s for s in p if s["phase"] == "decode"]' p="$TMP/steps") r=last:"$TMP/cli.runs"
	expect "cli: three graphs for each sound that is encoded" '[s["phase"] for s in p].count("encode") == 3 * r["encode"] > 0' \
		p="$TMP/steps" r=last:"$TMP/cli.runs"
	expect "cli: steps and operators within the request" '(lambda r: all(r["ts"] <= e["ts"] and e["ts"] + e["dur"] <= r["ts"] + r["dur"]
		for e in t if e.get("cat") in ("step", "op") and e["tid"] == r["tid"]) and any(e["name"] == "flash_attn_ext" for e in t))(
		next(e for e in t if e["name"] == "whisper_full"))' t="$TMP/t.json"
	check "cli: valid" "$INFTRACE" validate "$TMP/t.json" "$TMP/cli.jsonl" --require token_prof
}

test_server() {
	local i port
	port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
	spawn SERVER "$TOP/tests/engines/in_root" "$root" "$TMP/mnt" whisper-server -m /mnt/model.bin -t 2 --host 127.0.0.1 --port "$port" \
		>"$TMP/server.log" 2>&1
	wait_until 60 curl -s --noproxy '*' -o "$TMP/page" "http://127.0.0.1:$port/"
	recording BG server --strict --profile "$TMP/server.jsonl" -p "$SERVER"
	for i in 1 2 3; do
		check "server: answer $i" curl -sS --fail --noproxy '*' -F "file=@$TMP/mnt/sound.wav" "http://127.0.0.1:$port/inference"
	done
	kill -INT "$BG"
	check "server: nothing is lost" wait "$BG"
	kill "$SERVER"
	wait "$SERVER" 2>/dev/null || true
	expect "server: each request at its socket" '([e["shape"]["request"] for e in p if e["event"] == "request_prof" and
		e["shape"]["source_kind"] == "socket"] == 3 * ["POST /inference"])' p="$TMP/server.jsonl"
	expect "server: the steps of each" '[e["shape"]["phase"] for e in p if e["event"] == "token_prof"].count("encode") == 9' p="$TMP/server.jsonl"
	check "server: valid" "$INFTRACE" validate "$TMP/server.jsonl" --require token_prof,request_prof
}

run_tests "$@"
