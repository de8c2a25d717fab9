#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# What Perfetto's own trace processor makes of our files: no error, nothing lost, and in its tables what the JSON has.

. "$(dirname "$0")/../lib.sh"

need python3 npm
NODE=$(node_20 2>&1) || skip_all "$NODE"
TRACE_PROCESSOR=$(trace_processor 2>&1) || skip_all "$TRACE_PROCESSOR"
export NODE TRACE_PROCESSOR
TABLES=$TOP/tests/tools/trace_processor.py

# tables NAME VERB ARG...: what it compared is shown
tables() {
	check_shown "$1" "$TABLES" "${@:2}"
}

test_timeline() {
	need_llama
	check "timeline: records" timeout 120 "$INFTRACE" record --strict -e +cpu,+irq,+memory --op-detail \
		-o "$TMP/timeline.pftrace" -o "$TMP/timeline.json" -- "$DRIVER" -n 16 -t 2 "${MODEL_ARGS[@]}"
	tables "timeline: its tables have what the JSON has" compare "$TMP/timeline.pftrace" "$TMP/timeline.json"
	tables "timeline: it takes the JSON" loads "$TMP/timeline.json"
}

test_stacks() {
	need_llama
	check "stacks: records" timeout 120 "$INFTRACE" record -e +samples,+stacks -o "$TMP/stacks.pftrace" -o "$TMP/stacks.json" -- \
		"$DRIVER" -n 300 -t 1 "${MODEL_ARGS[@]}"
	"$INFTRACE" export --collapsed "$TMP/stacks.pftrace" >"$TMP/stacks.collapsed"
	check "stacks: there are some" test -s "$TMP/stacks.collapsed"
	tables "stacks: each sample has its frames" samples "$TMP/stacks.pftrace" "$TMP/stacks.collapsed"
	tables "stacks: its tables have what the JSON has" compare "$TMP/stacks.pftrace" "$TMP/stacks.json"
}

test_gpu() {
	local mock=$BUILD/gpu
	need cc
	run_logged "$TMP/make.log" "cannot build the GPU that does not exist" make -C "$TOP/tests/gpu" O="$mock"
	check "gpu: records" env LD_LIBRARY_PATH="$mock" MOCK_DEVICES=4 timeout 120 "$INFTRACE" record --gpu --cupti "$mock/libcupti.so" \
		-o "$TMP/gpu.pftrace" -o "$TMP/gpu.json" -- "$mock/mock_driver" init "graph 10" "launch 5" sync
	tables "gpu: the queries of Perfetto's skills" gpu "$TMP/gpu.pftrace" "$TMP/gpu.json"
	tables "gpu: its tables have what the JSON has" compare "$TMP/gpu.pftrace" "$TMP/gpu.json"
}

# A file can be loaded at any moment, whatever happened to who wrote it.
test_cut() {
	local file=$TMP/cut.pftrace i size
	recording BG cut -a -e +cpu --engine none -o "$file"
	for i in 1 2 3; do
		wait_until 60 grew "$file" "$(stat -c %s "$file")"
		cp "$file" "$TMP/cut$i.pftrace"
	done
	kill -9 "$BG"
	wait "$BG" || true
	for i in 4 5 6; do
		size=$(stat -c %s "$file")
		head -c $((size - size / i - i)) "$file" >"$TMP/cut$i.pftrace"
	done
	tables "cut: taken while they grow, after the recorder was killed, and cut anywhere" loads "$TMP"/cut*.pftrace
}

grew() { # FILE SIZE
	[ "$(stat -c %s "$1")" -gt "$2" ]
}

# This trace processor is older than Perfetto's manifest, so it takes the files to be of one clock.
test_archive() {
	local i
	for i in 1 2; do
		timeout 60 "$INFTRACE" record --engine none -o "$TMP/host$i.pftrace" -- sleep 2 2>"$TMP/host$i.err" &
	done
	wait
	check "archive: links" "$INFTRACE" link -o "$TMP/all.zip" a="$TMP/host1.pftrace" b="$TMP/host2.pftrace"
	tables "archive: it takes it" loads "$TMP/all.zip" "$TMP/host1.pftrace" "$TMP/host2.pftrace"
}

test_junk() {
	head -c 3000 "$INFTRACE" >"$TMP/junk.pftrace" # of random bytes some are an empty trace
	check_rc "junk: what is no trace is not taken" 1 "trace processor did not" "$TABLES" loads "$TMP/junk.pftrace"
}

run_tests "$@"
