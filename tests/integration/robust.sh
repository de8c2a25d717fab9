#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# inftrace is killed, and the traced processes do what processes do: what was written must be valid
# and complete, and nothing may stay loaded in the kernel.

. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/robust/common.sh"

traces=()
options=()
for f in outer inner leaf recurse; do
	options+=(-u "$TMP/life:life_$f")
done

setup_robust
# with the objects of inftrace itself: the linker takes those that are used
ar rcs "$TMP/inftrace.a" "$BUILD"/{io,util}/*.o
cc -std=gnu11 -D_GNU_SOURCE -O2 -I"$TOP/src" -o "$TMP/writer_kill" "$ROBUST/writer_kill.c" \
	"$TMP/inftrace.a" -ljson-c -lz -pthread

# A writer that is killed.
test_writer() {
	# A recording is seldom inside write(2); this writer is all the time.
	for mode in plain gzip packets; do
		check "a writer killed in its writes, $mode" "$TMP/writer_kill" "$mode" "$TMP/killed" "$(often 60 200)"
	done
}

# Checks all but the last line, which may be cut.
profile_valid() { # FILE
	if [ -s "$1" ] && [ "$(tail -c 1 "$1" | wc -l)" -eq 0 ]; then
		sed -i '$d' "$1"
	fi
	[ ! -s "$1" ] || "$INFTRACE" validate "$1"
}

both_begun() { # BASE: what is compressed has content only with its first member
	[ -s "$1.json" ] && [ -s "$1.json.gz" ]
}

# kill_one NUMBER DIRECTORY: a recording of the storm, killed at a random moment of its first half second
kill_one() {
	local base=$2/kill$1 recorder
	spawn recorder "$INFTRACE" record -q -p "$storm" --engine none \
		-u "$TMP/storm:storm_step@step" -o "$base.json" -o "$base.json.gz" --profile "$base.jsonl"
	if ! wait_until 60 both_begun "$base"; then
		echo "recording $1 did not start"
		return 1
	fi
	sleep "0.$(printf %03d $((RANDOM % 500)))"
	kill -9 "$recorder"
	wait "$recorder" 2>/dev/null || true
	"$INFTRACE" validate "$base.json" "$base.json.gz" || return 1
	profile_valid "$base.jsonl"
}

kill_all() {
	local i
	for ((i = 0; i < kills; i++)); do
		if ((i % 2)); then
			kill_one "$i" "$disk" || return 1
		else
			kill_one "$i" "$shm" || return 1
		fi
	done
}

# A recording that is killed.
test_killed() {
	disk=$TMP
	shm=$(mktemp -d -p /dev/shm 2>/dev/null) || shm=$TMP
	echo "# filesystems: $(stat -f -c %T "$disk" "$shm" | tr '\n' ' ')"

	spawn storm "$TMP/storm" -t 4 -n 20 -s 0 -p 500 -w
	kills=$(often 10 20)
	check "killed $kills times: all files are valid" kill_all
	importer "killed $kills times: all traces open" "$disk"/kill*.json "$shm"/kill*.json
	importer "killed $kills times: a compressed trace opens" "$disk"/kill1.json.gz "$shm"/kill2.json.gz
	check "killed $kills times: the storm was recorded" \
		test "$(cat "$disk"/kill*.json "$shm"/kill*.json | grep -c '"name":"getppid"')" -gt 100
	check "killed: the target lives" kill -0 "$storm"
	check_bpf "killed" "$TMP/bpf.before"
	[ "$shm" = "$TMP" ] || rm -rf "$shm"
	rm -f "$TMP"/kill*
}

# record_case NAME WANTED_RC COMMAND ARG...: records the command to TMP/NAME.json; stdout goes to NAME.out,
# stderr to NAME.err. The trace is opened at the end, with all others.
record_case() {
	local name=$1 wanted=$2 rc=0
	shift 2
	"$INFTRACE" record --engine none "${options[@]}" -o "$TMP/$name.json" -- "$@" \
		>"$TMP/$name.out" 2>"$TMP/$name.err" || rc=$?
	same "$name: exit code" "$rc" "$wanted"
	check "$name: valid" "$INFTRACE" validate "$TMP/$name.json"
	traces+=("$TMP/$name.json")
}

# count_case NAME EXPRESSION: of the events by name (n), the events (t) and what the program printed (c)
count_case() {
	expect "$1: $2" "(lambda n: $2)(__import__('collections').Counter(
		(e['name'], e['ph']) for e in t))" t="$TMP/$1.json" c=last:"$TMP/$1.out"
}

# Its memory is limited while it records: it says so, and what it wrote is as after a kill.
test_no_memory() {
	local base=$TMP/no_memory target recorder rc=0
	spawn target sh -c 'while :; do /bin/true; done' # each process, and each stack, needs some
	spawn recorder "$INFTRACE" record -p "$target" --engine none -e +samples,+stacks \
		-o "$base.json" -o "$base.json.gz" --profile "$base.jsonl" 2>"$base.err"
	wait_until 60 both_begun "$base"
	prlimit --pid "$recorder" --as=1000000
	wait "$recorder" || rc=$?
	kill "$target"
	same "no memory: exit code" "$rc" 1
	check "no memory: it says so" grep -q '^inftrace: out of memory; ' "$base.err"
	check "no memory: the traces open" "$INFTRACE" validate "$base.json" "$base.json.gz"
	check "no memory: the profile opens" profile_valid "$base.jsonl"
}

# What happens to a process: it is stopped.
test_stop() {
	record_case stop 0 "$TMP/life" stop
	# checked by cause and effect, not by duration: it falls asleep between the first two instants, and is woken
	# between the last two
	expect "stop: a span from the stop to the continuation" 'any(
	c["stop"][0] <= start <= c["stop"][1] and c["cont"][0] <= wake <= c["cont"][1]
	for base in [next(int(e["args"]["boottime_ns"]) for e in t if e["name"] == "inftrace_clock")]
	for e in t if e["name"] == "stopped" and e["ph"] == "X" and e["tid"] == c["tid"]
	for start in [base + round(e["ts"] * 1000)]
	for wake in [start + round((e["dur"] - e["args"].get("run_queue_us", 0)) * 1000)])' \
		t="$TMP/stop.json" c=last:"$TMP/stop.out"
}

# It becomes another program.
test_exec() {
	record_case exec 0 "$TMP/life" exec
	expect "exec: both images" \
		'[sum(e["name"] == w for e in t) for w in ("exec", "getppid")] == [2, 20]' t="$TMP/exec.json"

	for i in 1 2 3; do
		record_case "exec-thread$i" 0 "$TMP/life" exec-thread
	done
	expect "exec-thread: one process, and it goes on" '[len({e["pid"] for e in t if e["ph"] == "X" and e["pid"] < 4194304}),
	sum(e["name"] == "exit_group" for e in t)] == [1, 1]' t="$TMP/exec-thread1.json"
}

# Threads and processes without end.
test_crowds() {
	record_case churn 0 "$TMP/life" churn 2000
	count_case churn 'n[("fork", "i")] == c["threads"] and n[("getppid", "X")] == c["calls"] and
	n[("exit", "i")] == c["threads"] + 1'

	record_case crowd 0 "$TMP/life" crowd 200
	count_case crowd 'n[("fork", "i")] == c["threads"] and n[("getppid", "X")] == c["calls"]'

	record_case tree 0 "$TMP/life" tree 3 6
	count_case tree 'n[("fork", "i")] + 1 == n[("exit", "i")] == c["processes"] and
	n[("getppid", "X")] == c["calls"]'
}

# Ends.
test_ends() {
	record_case daemon 7 "$TMP/life" daemon "$TMP/daemon.end"
	expect "daemon: recorded to its end" \
		'sum(e["name"] == "getppid" for e in t) == 10 and sum(e["name"] == "exit" for e in t) >= 3' \
		t="$TMP/daemon.json"
	check "daemon: its end was waited for" test -e "$TMP/daemon.end"

	record_case leader 0 "$TMP/life" leader
	expect "leader: recorded to the end of its thread" \
		'sum(e["name"] == "getppid" for e in t) == 20' t="$TMP/leader.json"

	record_case kill 137 "$TMP/life" die 9
	record_case segv 139 "$TMP/life" die 11
	record_case at-once 0 true
	record_case false 1 false
}

# Functions that are left without a return.
test_left() {
	for mode in handler altstack; do
		record_case "$mode" 0 "$TMP/life" "$mode"
		count_case "$mode" 'all(n[("life_" + f, "X")] == c[f] for f in ("outer", "inner", "leaf"))'
	done

	record_case longjmp 0 "$TMP/life" longjmp 100
	# 34 times it returned
	count_case longjmp 'n[("life_outer", "X")] == 34 and n[("life_inner", "X")] == 68 and n[("life_leaf", "X")] == 1'
	check "longjmp: counted" grep -q ' 200 functions were left without a return' "$TMP/longjmp.err"

	for depth in 40 100; do # FRAMES_MAX is 32; the kernel has return probes for 64
		record_case "recurse$depth" 0 "$TMP/life" recurse "$depth"
		count_case "recurse$depth" 'n[("life_recurse", "X")] == 320 and n[("life_leaf", "X")] == 10'
		check "recurse$depth: counted" \
			grep -q " $((10 * (depth - 32))) calls were nested too deep" "$TMP/recurse$depth.err"
	done
}

fresh() {
	cp dl_lib libdlx.so
	cp dl_lib other.so
}

dl_case() { # NAME ARG...
	record_case "$1" 0 ./dl "${@:2}"
	count_case "$1" 'n[("dl_work", "X")] == c["calls"] > 0'
}

# Libraries.
test_libraries() {
	options=(-u libdlx.so:dl_work)
	cd "$TMP" || exit
	fresh
	dl_case cycle cycle ./libdlx.so 50
	fresh
	dl_case deleted deleted ./libdlx.so
	fresh
	dl_case replaced replaced ./libdlx.so ./other.so
	fresh
	rm libdlx.so
	dl_case reused reused ./other.so ./libdlx.so
	json '"# waited at most %d us for a probe; inode reused: %s" % (
	max(a["longest_us"], b["longest_us"]), d["reused"])' \
		a=last:cycle.out b=last:replaced.out d=last:reused.out
}

# The process may be there, be gone, or go at any moment in between: 0, or 1 and one line.
gone() {
	local i rc pid
	for ((i = 0; i < 240; i += 20)); do
		sleep "0.$(printf %03d "$i")" &
		pid=$!
		rc=0
		"$INFTRACE" record -q --engine none -p "$pid" -o "$TMP/gone.json" 2>"$TMP/gone.err" || rc=$?
		if [ "$rc" -eq 0 ]; then
			"$INFTRACE" validate "$TMP/gone.json" || return 1
			rm "$TMP/gone.json"
		elif [ "$rc" -ne 1 ] || [ "$(wc -l <"$TMP/gone.err")" -ne 1 ] || [ -e "$TMP/gone.json" ]; then
			echo "exit code $rc, $(cat "$TMP/gone.err")"
			return 1
		fi
		wait "$pid" 2>/dev/null || true
	done
}

# Targets that disappear.
test_gone() {
	check "a target that exits while inftrace attaches" gone
}

teardown() {
	[ ${#traces[@]} -eq 0 ] || importer "all of these open" "${traces[@]}"
	check_bpf "all of these" "$TMP/bpf.before"
}

run_tests "$@"
