#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Stacks of real llama.cpp, which keeps no frame pointers: how many reach the start of their thread, and whether the
# functions have the shares that perf finds in the same run.

. "$(dirname "$0")/../lib.sh"

HZ=199 # more copies of deep stacks than that are left out

need_llama

# reach_start NAME: of the samples of a recording 98 %
reach_start() {
	local share
	share=$(grep -oP '[0-9.]+(?= % of [0-9]+ unwound to the start)' "$TMP/$1.err")
	echo "# ${share:-nothing} % of the stacks of $1 reach the start of their thread"
	if [ -n "$share" ] && awk "BEGIN { exit !($share >= 98) }"; then
		ok "$1: 98 % of the stacks reach the start of their thread"
	else
		not_ok "$1: 98 % of the stacks reach the start of their thread" "${share:-not said}; see $TMP/$1.err"
	fi
}

# Workers wait for each other, so that beside other work few tokens take long.
test_threads() {
	engine_recorded threads -e samples --sample-rate "$HZ" -o "$TMP/threads.pftrace" -- \
		"$DRIVER" -w -q -n 40 -t 2 "${MODEL_ARGS[@]}" || {
		not_ok "threads: recorded" "see $TMP/threads.err"
		return
	}
	reach_start threads
	"$INFTRACE" export --collapsed "$TMP/threads.pftrace" -o "$TMP/threads.collapsed"
	check "threads: the caller's and a worker's stack" sh -c "
		grep -q ';_start;.*;llama_decode;.*;ggml_graph_compute_thread;' '$TMP/threads.collapsed' &&
		grep -q ';clone3;start_thread;.*;ggml_graph_compute_thread;' '$TMP/threads.collapsed'"
}

# sampled_twice HZ TOKENS ROUNDS PERF-OPTION...: an engine that waits for a line, with perf and inftrace attached; then it gets the
# line, from here on all run to their ends.
sampled_twice() {
	local hz=$1 model engine perf tracer
	model=$(llama_model big q8_0) || return 1
	fed engine "$DRIVER" -w -q -n "$2" -r "$3" -t 1 "${MODEL_ARGS[0]}" "$model" >"$TMP/shares.out" 2>&1
	wait_until 60 grep -sqx ready "$TMP/shares.out" || return 1
	spawn perf perf record -q -e cpu-clock "${@:4}" -o "$TMP/perf.data" -p "$engine" 2>"$TMP/perf.err"
	wait_until 60 sh -c "ls -l /proc/$perf/fd | grep -q perf_event" || return 1
	recording tracer shares -e samples --sample-rate "$hz" -o "$TMP/shares.pftrace" -p "$engine" || return 1
	echo >&9
	exec 9>&-
	wait "$engine" && wait "$tracer" && wait "$perf"
}

test_shares() {
	if ! perf record -q -e cpu-clock -o /dev/null true >/dev/null 2>&1; then
		skip "shares: as perf finds them" "perf does not work here"
		return
	fi
	sampled_twice "$HZ" 600 1 -F 997 || {
		not_ok "shares: recorded" "see $TMP/shares.err"
		return
	}
	reach_start shares
	"$INFTRACE" export --collapsed "$TMP/shares.pftrace" -o "$TMP/shares.collapsed"
	perf script -i "$TMP/perf.data" -F ip,sym >"$TMP/perf.txt" 2>/dev/null
	"$TOP/tests/tools/compare_stacks.py" "$TMP/shares.collapsed" "$TMP/perf.txt" || test_failed=1
}

# The same with the callers of functions, and so long that chance is no excuse.
test_callers() {
	[ "${TEST_ALL:-}" ] || return 0
	if ! perf record -q -e cpu-clock --call-graph dwarf -o /dev/null true >/dev/null 2>&1; then
		skip "callers: as perf finds them" "perf does not work here"
		return
	fi
	sampled_twice "$HZ" 1900 3 -F 241 --call-graph dwarf,65528 || {
		not_ok "callers: recorded" "see $TMP/shares.err"
		return
	}
	reach_start shares
	"$INFTRACE" export --collapsed "$TMP/shares.pftrace" -o "$TMP/shares.collapsed"
	perf script -i "$TMP/perf.data" --no-inline -F ip,sym >"$TMP/perf.txt" 2>/dev/null
	"$TOP/tests/tools/compare_stacks.py" --callers "$TMP/shares.collapsed" "$TMP/perf.txt" || test_failed=1
}

run_tests "$@"
