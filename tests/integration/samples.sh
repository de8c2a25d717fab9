#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# -e samples and -e stacks: there are as many samples as the CPU time of the target says, each long wait has a stack, and
# what is left out or lost is counted.

. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/programs/programs.sh"

P=$PROGRAMS/samples

need cc python3

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
	expect "waits: --min-stack leaves out shorter ones" "$n < 60 / 2"
}

# A wait says which function of which thread ended it; one for a time, that an interrupt did.
test_wakers() {
	cc -O1 -pthread -o "$TMP/gives" -x c - <<-'C'
		#include <pthread.h>
		#include <stdio.h>
		#include <time.h>
		static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
		static pthread_cond_t given = PTHREAD_COND_INITIALIZER;
		static int n;
		static __attribute__((noinline)) void give(void)
		{
			pthread_mutex_lock(&lock);
			n++;
			pthread_cond_signal(&given);
			pthread_mutex_unlock(&lock);
			__asm__ volatile("");
		}
		static __attribute__((noinline)) void take(void)
		{
			pthread_mutex_lock(&lock);
			while (!n)
				pthread_cond_wait(&given, &lock);
			n--;
			pthread_mutex_unlock(&lock);
			__asm__ volatile("");
		}
		static void *run(void *arg)
		{
			for (int i = 0; i < 40; i++)
				take();
			return arg;
		}
		int main(int argc, char **argv)
		{
			struct timespec t = { .tv_nsec = 5000000 };
			pthread_t thread;
			puts("ready");
			fflush(stdout);
			getchar();
			pthread_create(&thread, NULL, run, NULL);
			for (int i = 0; i < 40; i++) {
				nanosleep(&t, NULL);
				give();
			}
			pthread_join(thread, NULL);
			return !fopen(argv[argc - 1], "r"); /* its files can be read until then */
		}
	C
	mkfifo "$TMP/gives.end"
	engine_started wakers -e +stacks -o "$TMP/wakers.pftrace" --profile "$TMP/wakers.jsonl" -- "$TMP/gives" "$TMP/gives.end"
	wait_until 60 grep -sq '"woken_by":"give' "$TMP/wakers.jsonl"
	: >"$TMP/gives.end"
	wait "$ENGINE"
	wait "$TRACER"
	check "wakers: are counted" [ "$(grep -oP 'wakers: \K[0-9]+' "$TMP/wakers.err")" -gt 0 ]
	expect "wakers: take() is woken by give()" \
		"(lambda known, lines: (lambda by: 'give [gives]' in by and not by - {'give [gives]', None} or [str(b) for b in by])(
			{l['shape'].get('woken_by') for l in lines if 'take [gives]' in known[l['shape']['stack']]}))(
			{l['shape']['stack']: l['frames'] for l in p if 'frames' in l},
			[l for l in p if l['event'] == 'stack_prof' and 'stack' in l['shape']])" p="$TMP/wakers.jsonl"
	expect "wakers: an interrupt ends a time" \
		"any(l['shape'].get('waker') == 'interrupt' and l['shape']['state'] == 'blocked_sleep' for l in p if l['event'] == 'stack_prof')" \
		p="$TMP/wakers.jsonl"
	"$INFTRACE" report "$TMP/wakers.jsonl" >"$TMP/wakers.txt"
	# children that exit have no user space any more
	check "exits: recorded" "$INFTRACE" record -e +stacks -o "$TMP/exits.json" --profile "$TMP/exits.jsonl" -- \
		bash -c 'for i in 1 2 3 4 5; do sleep 0.02; done'
	expect "exits: inftrace's own program is not who wakes" \
		"[w for w in {l['shape'].get('woken_by') for l in p if l['event'] == 'stack_prof'} - {None} if w.endswith('[kernel]') and not 'bpf' in w] and not any('bpf_prog_' in f for l in p for f in l.get('frames', ()))" p="$TMP/exits.jsonl"
	check "wakers: the report says so" grep -q '^    woken by give \[gives\] of gives: ' "$TMP/wakers.txt"
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

has_frames() { # PROFILE NAME: each stack has its frames in the file
	expect "$2: stacks have their frames" \
		"(lambda known, lines: bool(lines) and all(l['shape']['stack'] in known for l in lines))(
			[l['shape']['stack'] for l in p if 'frames' in l],
			[l for l in p if l['event'] == 'stack_prof' and 'stack' in l['shape']]) or p" p="$1"
	# a single window may only have caught what is around work()
	check "$2: some are in work()" grep -qs '"work ' "$1" "${@:3}"
}

# Each sample has the innermost operator of its thread; outside of work() is only what enters and leaves it.
test_operators() {
	engine_recorded operators -e +samples --sample-rate 499 --engine none -u "$P:below@op" -u "$P:work@op" \
		-o "$TMP/operators.pftrace" --profile "$TMP/operators.jsonl" -- "$P" 1 4 1000 0
	expect "operators: samples of work() are in work" \
		"(lambda known, lines: (lambda n: n.get('work', 0) > 10 and n.get('work', 0) >= 0.9 * sum(n.values()) or n)(
			{op: sum(l['shape']['samples'] for l in lines if l['shape'].get('op') == op and
				any(f.startswith('work ') for f in known[l['shape']['stack']])) for op in ('work', 'below', None)}))(
			{l['shape']['stack']: l['frames'] for l in p if 'frames' in l},
			[l for l in p if l['event'] == 'stack_prof' and 'stack' in l['shape']])" p="$TMP/operators.jsonl"
	"$INFTRACE" report "$TMP/operators.jsonl" >"$TMP/operators.txt"
	check "operators: the report names the hottest function" \
		grep -q '^    [0-9]* % of [0-9]* samples in work \[samples\]' "$TMP/operators.txt"
	expect "operators: so does the profile, of the samples that are in stack_prof" \
		"(lambda o, s: o.get('f_work') == 'work [samples]' and o['s_work'] == sum(s.values()) and
			abs(o['fs_work'] - s['work [samples]'] / sum(s.values())) < 1e-6 or (o, s))(
			[l['shape'] for l in p if l['event'] == 'op_prof'][0],
			(lambda known, lines: {f: sum(l['shape']['samples'] for l in lines if known[l['shape']['stack']][0] == f)
				for f in {known[l['shape']['stack']][0] for l in lines}})(
				{l['shape']['stack']: l['frames'] for l in p if 'frames' in l},
				[l for l in p if l['event'] == 'stack_prof' and l['shape'].get('op') == 'work']))" p="$TMP/operators.jsonl"
	check "operators: the profile is valid" "$INFTRACE" validate "$TMP/operators.jsonl" --require op_prof,stack_prof
}

# A dump has the stacks of what came before it.
test_flight() {
	mkdir "$TMP/flight.d"
	engine_started flight -e +samples,+stacks --flight-recorder 8MB --output-dir "$TMP/flight.d" -- "$P" 1 1 2000 9
	wait_until 60 cpu_used "$ENGINE" 50
	kill -USR1 "$TRACER"
	wait "$ENGINE"
	wait "$TRACER"
	has_frames "$(echo "$TMP"/flight.d/*.jsonl)" flight
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
	# long enough for several windows also where inftrace and the program seldom have a CPU
	engine_recorded windows -e +samples,+stacks --sample-rate 499 --window every=300ms,for=200ms --output-dir "$TMP/windows.d" -- \
		"$P" 2 1 2000 0
	for f in "$TMP"/windows.d/*.jsonl; do
		grep -q stack_prof "$f" || continue # there was no sample
		n=$((n + 1))
		[ "$n" -gt 2 ] || has_frames "$f" "windows: $n" "$TMP"/windows.d/*.jsonl
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

run_tests "$@"
