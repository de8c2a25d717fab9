#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# -e memory: pages allocated and freed, and resident sets, against a program that knows its own.

. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/programs/programs.sh"
CHECK_KERNEL=$TOP/tests/programs/check_kernel.py
p=$PROGRAMS/pages

need python3 node

test_pages() {
	if record pages -e +memory --engine none -- "$p"; then
		check "pages: counters at each plateau, and the profile" \
			"$CHECK_KERNEL" pages "$TMP/pages.json" "$TMP/pages.jsonl" "$TMP/pages.out"
		expect "pages: a process that is gone has no resident set" \
			'sorted((e for e in t if e["name"] == "rss"), key=lambda e: e["ts"])[-1]["args"]["bytes"] == 0' t="$TMP/pages.json"
	fi
	if record_attached attached -e memory --engine none -- "$p" -w; then
		check "attached: counters at each plateau, and the profile" \
			"$CHECK_KERNEL" pages "$TMP/attached.json" "$TMP/attached.jsonl" "$TMP/attached.out"
	fi
}

rss_of() { # PID
	awk '$1 == "VmRSS:" { print $2 * 1024 }' "/proc/$1/status"
}

# A process that stays alive: compared with /proc.
test_idle() {
	waiting target idle "$p" -i
	# the kernel may take pages of an idle process at any time
	before=$(rss_of "$target")
	record idle -e +memory --engine none -d 300ms -p "$target"
	rss=$(json '[p["shape"]["rss_bytes"] for p in p if p["event"] == "memory_prof"][0]' p="$TMP/idle.jsonl")
	expect "idle: VmRSS" "$(rss_of "$target") <= $rss <= $before"
	expect "idle: the counter has it, and each value once" \
		"(lambda v: v[-1:] == [$rss] and all(a != b for a, b in zip(v, v[1:])))([
			e['args']['bytes'] for e in sorted((e for e in t if e['name'] == 'rss'), key=lambda e: e['ts'])])" t="$TMP/idle.json"
}

# Without -e memory the profile has the values of /proc.
test_profile() {
	record profile --engine none -- "$p"
	expect "without -e memory: the highest resident set" \
		'[abs(p["shape"]["rss_peak_bytes"] - o[-1]["maxrss"]) <= 1 << 20 and "pages_allocated" not in p["shape"]
		  for p in p if p["event"] == "memory_prof"] == [True]' p="$TMP/profile.jsonl" o="$TMP/profile.out"
}

teardown() {
	traces_check
}

run_tests "$@"
