#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# -e samples and -e stacks: there are as many samples as the CPU time of the target says, each long wait has a stack, and
# what is left out or lost is counted.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../programs/programs.sh
. "$TOP/tests/programs/programs.sh"

P=$PROGRAMS/samples

setup() {
	need_root
	need cc python3
}

# said NAME PATTERN: the number in front of the pattern in the messages of a recording; 0 if it is not there.
said() {
	grep -oP "[0-9]+(?= $2)" "$TMP/$1.err" | head -n 1 || echo 0
}

# A thread on a CPU is sampled once in a period: as many samples as periods of CPU time, a quarter more or less, since the
# clocks of CPUs tick independently of the threads that come and go. A virtual CPU that its host does not run has CPU
# time, but one tick for all of it: then there are fewer.
as_many() { # NAME HZ SAMPLES
	expect "$1: as many samples as CPU time" \
		"0.5 * c['cpu_ns'] / 1e9 * $2 - 10 <= $3 <= 1.25 * c['cpu_ns'] / 1e9 * $2 + 10 or [$3, c]" c="last:$TMP/$1.out"
}

test_rate() {
	engine_recorded rate -e +samples --sample-rate 997 -o "$TMP/rate.pftrace" -- "$P" 2 1 1000 0
	as_many rate 997 "$(said rate taken)"
}

test_rate_default() {
	engine_recorded default -e +samples -o "$TMP/default.pftrace" -- "$P" 2 1 1000 0
	as_many default 99 "$(said default taken)"
}

# The waits of at least 3 ms have a stack; no more waits have one than there are slices of 1 ms in which the process was blocked.
test_waits() {
	local n
	engine_recorded waits -e +stacks -o "$TMP/waits.json" -- "$P" 3 1 20 60
	n=$(said waits 'with their stack')
	expect "waits: each long one has its stack" "c['waits'] <= $n or [$n, c]" c="last:$TMP/waits.out"
	expect "waits: no short one has" \
		"$n <= sum(e.get('name', '').startswith('blocked') and e.get('dur', 0) >= 999 for e in t) or $n" \
		t="$TMP/waits.json"
	engine_recorded waits-long -e +stacks --min-stack 500ms -o "$TMP/waits.json" -- "$P" 1 1 20 60
	n=$(said waits-long 'with their stack')
	expect "waits: --min-stack leaves out shorter ones" "$n < c['waits'] / 2 or [$n, c]" c="last:$TMP/waits-long.out"
}

# 64 KB a sample are more than is copied in a second.
test_limit() {
	local taken left
	engine_recorded limit -e +samples --sample-rate 999 -o "$TMP/limit.pftrace" -- "$P" 2 64 1000 0
	taken=$(said limit taken)
	left=$(said limit 'left out')
	check "limit: what is left out is said" [ "$left" -gt 0 ]
	as_many limit 999 $((taken + left))
}

# inftrace cannot read a ring that is soon full.
test_loss() {
	local taken stacks lost
	engine_started loss -e samples --ring-size 256KB -o "$TMP/loss.pftrace" -- "$P" 2 64 1000 0
	kill -STOP "$TRACER"
	wait "$ENGINE"
	kill -CONT "$TRACER"
	wait "$TRACER"
	taken=$(said loss taken)
	stacks=$(said loss stack)
	lost=$(grep -oP '^inftrace: warning: lost .*?\b\K[0-9]+(?= sample)' "$TMP/loss.err" || echo 0)
	check "loss: is said" [ "$lost" -gt 0 ]
	same "loss: each sample is a stack, or lost" $((stacks + lost)) "$taken"
}

has_work() { # PROFILE: each stack has its frames in the file, and some are in work()
	expect "$2: stacks have their frames" \
		"(lambda known, lines: bool(lines) and all(l['shape']['stack'] in known for l in lines) and
			any(f.startswith('work ') for frames in known.values() for f in frames))(
			{l['shape']['stack']: l['frames'] for l in p if 'frames' in l},
			[l for l in p if l['event'] == 'stack_prof' and 'stack' in l['shape']]) or len(p)" p="$1"
}

# A dump has the stacks of what came before it.
test_flight() {
	mkdir "$TMP/flight.d"
	engine_started flight -e +samples,+stacks --flight-recorder 8MB --output-dir "$TMP/flight.d" -- "$P" 1 1 2000 9
	wait_until 60 cpu_used "$ENGINE" 50
	kill -USR1 "$TRACER"
	wait "$ENGINE"
	wait "$TRACER"
	has_work "$(echo "$TMP"/flight.d/*.jsonl)" flight
}

cpu_used() { # PID TICKS
	[ "$(awk '{print $14 + $15}' "/proc/$1/stat")" -ge "$2" ]
}

# linked NAME: recorded, with the file beside the program
linked() {
	engine_recorded "$1" -e +samples --sample-rate 999 --profile "$TMP/$1.jsonl" -- "$TMP/linked/spins"
}

# A stripped program names the file with its symbols, which is used if it is that one.
test_debuglink() {
	local file=$TMP/linked/.debug/spins.dbg
	mkdir -p "$TMP/linked/.debug"
	cc -O1 -o "$TMP/spins" -x c - <<-'C'
		#include <stdio.h>
		#include <time.h>
		static __attribute__((noinline)) void spins_here(void)
		{
			for (volatile int i = 0; i < 1000000; i++)
				;
		}
		int main(void)
		{
			puts("ready");
			fflush(stdout);
			getchar();
			for (clock_t end = clock() + CLOCKS_PER_SEC / 2; clock() < end;)
				spins_here();
			return 0;
		}
	C
	objcopy --only-keep-debug "$TMP/spins" "$file"
	objcopy --strip-all --remove-section=.note.gnu.build-id --add-gnu-debuglink="$file" "$TMP/spins" "$TMP/linked/spins"
	check "debuglink: recorded" linked named
	check "debuglink: the file beside it has the names" grep -q '"spins_here \[spins\]"' "$TMP/named.jsonl"
	echo >>"$file"
	check "debuglink: recorded with another file" linked other
	check "debuglink: whose checksum is wrong" grep -q '\[spins\]' "$TMP/other.jsonl"
	same "debuglink: so that it has no names" "$(grep -c spins_here "$TMP/other.jsonl")" 0
}

# A return probe replaces the return address of its function on the stack; the copy has the one from before.
test_returns() {
	engine_recorded returns -e +samples --engine none -u "$P:work@step" -u "$P:below@op" --profile "$TMP/returns.jsonl" -- \
		"$P" 2 4 800 0
	expect "returns: stacks go on beyond functions with return probes" \
		"(lambda frames, lines: (lambda work: sum(l['shape']['samples'] for l in work
				if any(f.startswith('run ') for f in frames[l['shape']['stack']]))
			>= 0.9 * sum(l['shape']['samples'] for l in work) > 0)(
				[l for l in lines if any(f.startswith('work ') for f in frames[l['shape']['stack']])]))(
			{l['shape']['stack']: l['frames'] for l in p if 'frames' in l},
			[l for l in p if l['event'] == 'stack_prof' and 'stack' in l['shape']])" p="$TMP/returns.jsonl"
}

# Each window has its own, with their frames.
test_windows() {
	local f n=0
	mkdir "$TMP/windows.d"
	engine_recorded windows -e +samples,+stacks --window every=600ms,for=400ms --output-dir "$TMP/windows.d" -- "$P" 2 1 1500 0
	for f in "$TMP"/windows.d/*.jsonl; do
		grep -q stack_prof "$f" || continue # there was no sample
		n=$((n + 1))
		[ "$n" -gt 2 ] || has_work "$f" "windows: $n"
	done
	check "windows: several have stacks" [ "$n" -gt 1 ]
}

test_refused() {
	check_rc "refused: --sample-rate 0" 2 "^inftrace: --sample-rate: '0' is not a number of samples a second from 1 to 999$" \
		"$INFTRACE" record -e +samples --sample-rate 0 -p 1
	check_rc "refused: --sample-rate 1000" 2 "^inftrace: --sample-rate: '1000' is not" \
		"$INFTRACE" record -e +samples --sample-rate 1000 -p 1
	check_rc "refused: --sample-rate without samples" 2 '^inftrace: --sample-rate: needs -e \+samples$' \
		"$INFTRACE" record --sample-rate 99 -p 1
	check_rc "refused: --min-stack without stacks" 2 '^inftrace: --min-stack: needs -e \+stacks$' \
		"$INFTRACE" record --min-stack 1ms -p 1
	check_rc "refused: --min-stack" 2 "^inftrace: --min-stack: " "$INFTRACE" record -e +stacks --min-stack x -p 1
	check_rc "refused: a ring that no stack fits in" 2 '^inftrace: --ring-size: stacks need at least 256KB$' \
		"$INFTRACE" record -e +stacks --ring-size 16KB -p 1
	same "refused: in one line each" "$(wc -l <"$TMP/check.out")" 1
}

test_doctor() {
	"$INFTRACE" doctor >"$TMP/doctor" || true
	check "doctor: says whether samples can be taken" grep -qE '^(ok|missing|unknown) +perf event cpu-clock ' "$TMP/doctor"
	check "doctor: says whether there are hardware counters" grep -qE '^(ok|missing|unknown) +hardware counters ' "$TMP/doctor"
}

ALL_TESTS=(rate rate_default waits limit loss debuglink returns flight windows refused doctor)
run_tests "$@"
