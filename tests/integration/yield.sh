#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The threads of a recording stay out of the way of what they record, and nothing is lost because of it.

. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/robust/common.sh"

need cc python3
build storm

# NAME:POLICY of each thread of a process, sorted; without the bit that is not inherited
classes() { # PID
	python3 - "$1" <<-'PY'
		import os, sys
		names = {os.SCHED_OTHER: "other", os.SCHED_IDLE: "idle", os.SCHED_FIFO: "first"}
		told = []
		for tid in os.listdir(f"/proc/{sys.argv[1]}/task"):
		    try:
		        name = open(f"/proc/{sys.argv[1]}/task/{tid}/comm").read().strip()
		        policy = os.sched_getscheduler(int(tid)) & ~os.SCHED_RESET_ON_FORK
		    except OSError:
		        continue
		    told.append(f"{name}:{names.get(policy, policy)}")
		print(*sorted(told))
	PY
}

has_classes() { # PID CLASSES
	[ "$(classes "$1")" = "$2" ]
}

test_classes() {
	local rc=0
	background "$TMP/storm" -s 0 -n 10 -p 20000
	background "$INFTRACE" record -o "$TMP/classes.json" -e -functions -p "$BG" 2>"$TMP/classes.err"
	wait_until 60 has_classes "$BG" "inftrace-watch:first inftrace-write:idle inftrace:idle" || rc=$?
	[ "$rc" -eq 0 ] || sed 's/^/# /' "$TMP/classes.err"
	same "those that read and write yield, the one that watches does not: $(classes "$BG")" "$rc" 0
	interrupted "it ends as usual" "$BG"
}

# More threads that never sleep than CPUs: a thread that yields to all of them would run too late for its rings, each time. One that does
# not may be kept from them by what else this machine does; then it is tried again.
test_busy() {
	local cpus calls got lost hog hogs=() rc try
	cpus=$(nproc)
	for ((i = 0; i < cpus; i++)); do
		background "$TMP/storm" -s 0 -n 1000000000
		hogs+=("$BG")
	done
	for try in 1 2 3; do
		rc=0
		"$INFTRACE" record --strict -o "$TMP/busy.pftrace" -e syscalls -- \
			"$TMP/storm" -t "$((2 * cpus))" -s 10 -n 20000 >"$TMP/busy.out" 2>"$TMP/busy.err" || rc=$?
		calls=$(json 'c["calls"]' c=last:"$TMP/busy.out")
		got=$(sed -nE 's/^inftrace: [0-9.]+ s, (.*, )?([0-9]+) syscall.*/\2/p' "$TMP/busy.err")
		lost=$(sed -nE 's/^inftrace: warning: lost (.*, )?([0-9]+) syscall.*/\2/p' "$TMP/busy.err")
		check "try $try: its $calls calls are among $got and ${lost:-0} that are told as lost" test "$((got + ${lost:-0}))" -ge "$calls"
		[ "$rc" -ne 0 ] || break
		sed 's/^/# /' "$TMP/busy.err"
	done
	same "nothing is lost where all CPUs are busy" "$rc" 0
	for hog in "${hogs[@]}"; do
		kill "$hog" || true
		wait "$hog" 2>/dev/null || true
	done
}

test_command() {
	local show='import os, resource
print(os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0), resource.getrlimit(resource.RLIMIT_NICE))'
	python3 -c "$show" >"$TMP/alone"
	check "a command" "$INFTRACE" record -o "$TMP/command.json" -- sh -c "python3 -c '$show' >$TMP/traced"
	same "it has the class, the priority and the limit that it would have alone" "$(cat "$TMP/traced")" \
		"$(cat "$TMP/alone")"
}

# A scheduling class that the user chose for inftrace is kept.
test_chosen() {
	local rc=0
	need chrt
	background "$TMP/storm" -s 0 -n 10 -p 20000
	background chrt -b 0 "$INFTRACE" record -o "$TMP/chosen.json" -e -functions -p "$BG" 2>"$TMP/chosen.err"
	wait_until 60 has_classes "$BG" "inftrace-write:3 inftrace:3" || rc=$?
	same "a class that was chosen stays: $(classes "$BG")" "$rc" 0
	kill -INT "$BG"
	wait "$BG" || true
}

run_tests "$@"
