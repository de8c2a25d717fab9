#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Windows: what is recorded between their edges is all there is, and nothing of it is in two.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"
need_root
need python3 node
need_llama

CHECK_WINDOWS=$TOP/tests/programs/check_windows.py

# record_windows NAME TOKENS OPTION...: a recording of the driver; its pid is in RECORDER.
record_windows() {
	local name=$1 tokens=$2
	shift 2
	mkdir "$TMP/$name"
	background "$INFTRACE" record --output-dir "$TMP/$name" "$@" -- "$DRIVER" -q -d 2500 -n "$tokens" -r 0 -t 2 \
		-S "$TMP/$name.stages" "${MODEL_ARGS[@]}" >"$TMP/$name.out" 2>"$TMP/$name.log"
	RECORDER=$BG
	wait_until 20 grep -q 'Ctrl-C ends it' "$TMP/$name.log" || not_ok "$name" "$(tail -n 1 "$TMP/$name.log")"
	sleep 2.2 # closed, its probes are in place a second after a library is mapped
}

# The engine ends as on Ctrl-C, and the recording with it.
end_windows() { # NAME
	pkill -INT -P "$RECORDER" || true
	wait "$RECORDER" && ok "$1: recorded" || not_ok "$1: recorded" "$(tail -n 1 "$TMP/$1.log")"
}

loads() { # NAME
	check "$1: every trace loads" node "$TOP/tests/tools/check_chrome_trace.mjs" "$TMP/$1"/trace_*.json
	check "$1: every profile is valid" all_valid "$TMP/$1"
}

all_valid() {
	local f
	for f in "$1"/profile_*.jsonl; do
		"$INFTRACE" validate "$f" --require window_prof
	done
}

# parts N NAME: so many traces are being written.
parts() {
	[ "$(find "$TMP/$2" -name 'trace_*.part' | wc -l)" -eq "$1" ]
}

# ---- a flag file, a hundred times ----

flag=$TMP/window.on
record_windows flag 64 --window-flag "$flag" -e sched,syscalls,faults,functions
for i in {1..100}; do
	touch "$flag"
	wait_until 10 parts 1 flag
	sleep "0.0$((i % 8))"
	rm "$flag"
	wait_until 10 parts 0 flag
	sleep "0.0$((i % 5))"
done
end_windows flag
check "flag: a hundred windows, each step in the right ones" \
	"$CHECK_WINDOWS" "$TMP/flag" "$TMP/flag.stages" --windows 100
loads flag
