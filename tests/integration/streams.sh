#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# One busy recording in all formats at once: they say the same, and what inftrace says that it recorded;
# and files that are read while they grow, or after a kill.

. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/robust/common.sh"
need python3 protoc node
need_llama
READER=$TOP/tests/tools/pftrace.py
STREAMS=$TOP/tests/tools/streams.py

# 8 processes that make system calls, faults and further processes
noise() {
	for _ in 1 2 3 4 5 6 7 8; do
		for _ in 1 2 3 4 5 6 7 8 9 10; do
			dd if=/dev/zero of=/dev/null bs=64k count=20 2>/dev/null
		done &
	done
}
# 8 that do a little now and then, as long as their shell lives
murmur() { # FIFO
	for i in 0 1 2 3 4 5 6 7; do
		while read -rt "0.2$i" || kill -0 $$; do
			:
		done <>"$1" 2>/dev/null &
	done
}
export -f noise murmur

# outputs DIRECTORY: options for all four
outputs() {
	for kind in json json.gz pftrace pftrace.gz; do
		echo -o "$1/t.$kind"
	done
}

n=$(often 30 200) # prefixes of each growing file

# ---- growing files, over many flushes ----

grown=$TMP/grown
mkdir "$grown"
mkfifo "$TMP/fifo"
# shellcheck disable=SC2016,SC2046
spawn recorder "$INFTRACE" record -q $(outputs "$grown") -- bash -c \
	'echo $$ >"$1.pid"; murmur "$1"; shift; "$@" >/dev/null; wait' - "$TMP/fifo" "$DRIVER" -n 1 -t 2 "${MODEL_ARGS[@]}"
spawn sampler "$STREAMS" sample "$recorder" "$grown"/t.{json,json.gz,pftrace,pftrace.gz}
begun=$SECONDS

# ---- a busy recording ----

busy=$TMP/busy
mkdir "$busy"
# shellcheck disable=SC2016,SC2046
check "busy: recorded" timeout 120 "$INFTRACE" record --strict --ring-size 64MB -e +cpu,+memory,+irq $(outputs "$busy") \
	--profile "$busy/p.jsonl" -- bash -c 'noise; "$@"; wait' - "$DRIVER" -n 8 -t 2 "${MODEL_ARGS[@]}"
cp "$TMP/check.out" "$busy/said"
sed 's/^/# /' "$busy/said"
check_shown "busy: the numbers of slices, instants, counters and switches" \
	"$STREAMS" counts "$busy/t.json" "$busy/said" "$busy/p.jsonl"
check "busy: .json.gz as .json" "$STREAMS" same "$busy/t.json" "$busy/t.json.gz"
for kind in pftrace pftrace.gz; do
	check "busy: .$kind as .json" "$READER" compare "$busy/t.$kind" "$busy/t.json"
done
sed 's/^/# /' "$TMP/check.out"
protoc --decode_raw <"$busy/t.pftrace" >"$busy/text" || true
check "busy: protoc reads every packet" "$READER" protoc "$busy/t.pftrace" "$busy/text"
check "busy: .json and .json.gz are valid" "$INFTRACE" validate "$busy"/t.json "$busy"/t.json.gz
check "busy: .pftrace cut at $n bytes" "$READER" cuts "$busy/t.pftrace" "$n" 1

# ---- the growing files again ----

while ((SECONDS - begun < $(often 10 26))); do
	sleep 0.1
done
kill -9 "$recorder"
wait "$recorder" 2>/dev/null || true
kill "$(cat "$TMP/fifo.pid")"
wait "$sampler"
declare -A opens
for kind in json json.gz pftrace pftrace.gz; do
	mkdir "$grown/$kind"
	check_shown "$n prefixes of a growing .$kind" "$STREAMS" prefixes "$grown/t.$kind" "$n" 1 "$grown/$kind"
	if [[ $kind == json* ]]; then
		# the events of those that are packed are as whole, by the check before: a quarter of them
		opened=("$grown/$kind"/*)
		[ "$kind" = json ] || opened=("${opened[@]:0:$((n / 4))}")
		background node "$TOP/tests/tools/check_chrome_trace.mjs" --brief "${opened[@]}" >"$TMP/open.$kind"
		opens[$kind]=$BG
	fi
done
for kind in json json.gz; do
	check "prefixes of a growing .$kind open in chrome://tracing" wait "${opens[$kind]}"
done
importer "after the kill: .json, .json.gz" "$grown"/t.json "$grown"/t.json.gz
check "after the kill: .pftrace, .pftrace.gz" "$READER" loads "$grown"/t.pftrace "$grown"/t.pftrace.gz
