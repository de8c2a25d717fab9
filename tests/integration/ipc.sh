#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# -e ipc: what passes data through pipes, UNIX sockets, eventfds and futexes, by call, kind and path,
# compared with the program and strace.

. "$(dirname "$0")/../lib.sh"
need python3 node
. "$TOP/tests/programs/programs.sh"
CHECK_KERNEL=$TOP/tests/programs/check_kernel.py
p=$PROGRAMS/ipc

if record ipc --engine none -- "$p"; then
	check "calls by kind and path, as the program did them" "$CHECK_KERNEL" ipc "$TMP/ipc.json" "$TMP/ipc.out"
	expect "a slow call holds the time that it was blocked" \
		'all(any(s.get("cat") == "sched" and s["ph"] == "X" and s["tid"] == e["tid"] and s["ts"] >= e["ts"] and
			s["ts"] + s["dur"] <= e["ts"] + e["dur"] + .001 for s in t)
		     for e in t if e["name"] == "ipc_slow" and not e["args"].get("began_before"))' t="$TMP/ipc.json"
	if command -v strace >/dev/null; then
		strace -f -yy -o "$TMP/strace" "$p" </dev/null >"$TMP/strace.out" 2>&1
		check "calls by kind, as strace -y sees them" "$CHECK_KERNEL" strace "$TMP/ipc.json" "$TMP/strace"
	else
		skip "calls by kind, as strace -y sees them" "strace is not installed"
	fi
fi

record alone -e ipc --engine none -- "$p"
check "-e ipc alone: the same calls" "$CHECK_KERNEL" ipc "$TMP/alone.json" "$TMP/alone.out"
expect "-e ipc alone: and no others" '{e.get("cat") for e in t if e["ph"] == "X"} == {"ipc"}' t="$TMP/alone.json"

record without -e -ipc --engine none -- "$p"
expect "-e -ipc: calls are calls" \
	'"ipc" not in {e.get("cat") for e in t} and sum(e["name"] in ("read", "write") for e in t) > 200' t="$TMP/without.json"

# a call in which the recording finds its thread
mkfifo "$TMP/fifo"
cat <>"$TMP/fifo" >/dev/null &
target=$!
test_pids+=("$target")
wait_until 60 grep -q "^0 " "/proc/$target/syscall"
record attached --engine none -d 300ms -p "$target"
expect "a thread that is asleep when the recording begins" \
	'[(e["args"]["syscall"], e["args"]["kind"], e["args"].get("began_before")) for e in t
	  if e["name"] == "ipc_slow"] == [("read", "pipe", True)]' t="$TMP/attached.json"
kill "$target"

traces_check
