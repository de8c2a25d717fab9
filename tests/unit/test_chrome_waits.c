// SPDX-License-Identifier: BSD-2-Clause
/* The Chrome trace: time off CPU, who ended it, and the arrows of that. */
#include "sinks.h"

#include <sys/syscall.h>

TEST_WITH(test_chrome_off_cpu, setup, teardown)
{
	struct json_object *e;
	struct out o;

	chrome_open(&o);
	for (uint32_t st = ST_RUNNABLE; st < ST_MAX; st++) {
		struct rec_off_cpu r = { .h = hdr(REC_OFF_CPU, st), .cpu_from = 1 };

		r.h.start_ns = START + st * 10000;
		EMIT(&o, &r);
	}
	chrome_read(&o);
	for (uint32_t st = ST_RUNNABLE; st < ST_MAX; st++) {
		e = get(&o, "X", off_cpu_name((enum time_state)st));
		assert_span(e, "sched", field(e, "ts"), "1.234");
		assert_text(arg(e, "cpu"), "3");
		assert_text(arg(e, "cpu_before"), "1");
		assert_text(arg(e, "run_queue_us"), NULL);
		assert_text(arg(e, "waker"), NULL);
		assert_text(arg(e, "preempted"), NULL);
		assert_text(arg(e, "end_not_seen"), NULL);
	}
	chrome_done(&o);
}

TEST_WITH(test_chrome_wakeups, setup, teardown)
{
	struct rec_off_cpu r = { .h = hdr(REC_OFF_CPU, ST_BLOCKED_FUTEX), .cpu_from = 1 };
	struct json_object *e;
	struct out o;

	chrome_open(&o);
	r.h.flags = OFF_CPU_F_PREEMPT | REC_F_OPEN_START | REC_F_OPEN_END;
	r.late = 1;
	EMIT(&o, &r);
	r.h.flags = OFF_CPU_F_WAKER_IRQ;
	r.late = 0;
	r.h.start_ns += 10000;
	r.wake_ns = r.h.start_ns + 234;
	r.waker_tid = PID;
	EMIT(&o, &r);
	r.h.flags = 0;
	r.h.start_ns += 10000;
	r.wake_ns = r.h.start_ns + 1234; /* ran at once */
	EMIT(&o, &r);
	r.h.start_ns += 10000;
	r.waker_tid = PID + 99; /* unknown */
	EMIT(&o, &r);
	chrome_read(&o);
	e = find(&o, "X", "blocked: futex", 0);
	assert_text(arg(e, "preempted"), "true");
	assert_text(arg(e, "end_not_seen"), "true");
	assert_text(arg(e, "began_before"), "true");
	assert_text(arg(e, "unfinished"), "true");
	e = find(&o, "X", "blocked: futex", 1);
	assert_text(arg(e, "waker"), "interrupt");
	assert_text(arg(e, "waker_tid"), NULL);
	assert_text(arg(e, "run_queue_us"), "1.000");
	e = find(&o, "X", "blocked: futex", 2);
	assert_text(arg(e, "waker"), "server");
	assert_text(arg(e, "waker_tid"), "5000000");
	assert_text(arg(e, "run_queue_us"), "0.000");
	e = find(&o, "X", "blocked: futex", 3);
	assert_text(arg(e, "waker"), NULL);
	assert_text(arg(e, "waker_tid"), "5000099");
	chrome_done(&o);
}

/* A thread can be woken just before it has left the CPU, by one that has gone on since: the arrow begins
 * when that was, within the waker's slice, and the thread is runnable from its first nanosecond off
 * the CPU. */
TEST_WITH(test_chrome_early_wakeup, setup, teardown)
{
	struct rec_syscall waker = { .h = hdr(REC_SYSCALL, SYS_futex) };
	struct rec_off_cpu r = { .h = hdr(REC_OFF_CPU, ST_BLOCKED_FUTEX), .waker_tid = PID };
	struct out o;

	chrome_open(&o);
	waker.h.tid = PID;
	waker.h.start_ns = START + 1000;
	waker.h.dur_ns = 500;
	waker.h.flags = REC_F_WOKE;
	r.h.start_ns = START + 2000;
	r.h.dur_ns = 3000;
	r.wake_ns = START + 1400;
	r.waker_slice = waker.h.start_ns;
	EMIT(&o, &waker);
	EMIT(&o, &r);
	/* in the file before: nothing to begin in */
	waker.h.start_ns = r.waker_slice = START - 100;
	r.wake_ns = START - 1;
	r.h.start_ns = START + 10000;
	EMIT(&o, &waker);
	EMIT(&o, &r);
	chrome_read(&o);
	assert_text(field(get(&o, "s", "wake-up"), "ts"), "1.400");
	assert_text(field(get(&o, "f", "wake-up"), "ts"), "4.999");
	assert_text(arg(find(&o, "X", "blocked: futex", 0), "run_queue_us"), "3.000");
	chrome_done(&o);
}

/*
 * Where a system call takes 0.2 us, chrome://tracing nests calls that follow each other, and leaves out arrows
 * that begin in one that it has nested. They are in the file, at their instants: the checker says how many there
 * are. KEEP names a file for the trace, which tests/integration/importer.sh has the importer read.
 */
TEST_WITH(test_chrome_fast_calls, setup, teardown)
{
	struct rec_syscall call = { .h = hdr(REC_SYSCALL, SYS_futex) };
	struct rec_off_cpu off = { .h = hdr(REC_OFF_CPU, ST_BLOCKED_FUTEX), .waker_tid = TID };
	uint64_t at = START + 20000, off_end = START;
	const char *keep = getenv("KEEP"), *note;
	unsigned int arrows = 0, random = 1;
	char *summary = NULL;
	size_t summary_len;
	struct out o;
	FILE *f;

	chrome_open(&o);
	call.h.tid = TID;
	off.h.tid = PID;
	for (unsigned int i = 0; i < 4000; i++) {
		random = random * 1103515245 + 12345;
		call.h.start_ns = at;
		call.h.dur_ns = random >> 16 & 1 ? 200 : 580;
		off.wake_ns = at + (random >> 17) % call.h.dur_ns;
		at += call.h.dur_ns + 40 + (random >> 20) % 400;
		call.h.flags = off.wake_ns > off_end + 1000 ? REC_F_WOKE : 0;
		EMIT(&o, &call);
		if (!call.h.flags)
			continue;
		off.waker_slice = call.h.start_ns;
		off.h.start_ns = off_end + 200;
		off_end = off.wake_ns + 900;
		off.h.dur_ns = off_end - off.h.start_ns;
		EMIT(&o, &off);
		arrows++;
	}
	chrome_read(&o);
	f = open_memstream(&summary, &summary_len);
	validate_to(&o, false, f);
	note = strstr(summary, "; note: ");
	assert_non_null(note);
	assert_non_null(strstr(note, " arrows that chrome://tracing leaves out"));
	assert_in_range(atoi(note + strlen("; note: ")), arrows / 20, arrows - arrows / 20);
	for (unsigned int i = 0; i < arrows; i += 100)
		assert_non_null(find(&o, "s", "wake-up", i));
	if (keep) {
		f = fopen(keep, "we");
		assert_int_equal(fwrite(o.text, 1, o.len, f), o.len);
		fclose(f);
	}
	free(summary);
	chrome_done(&o);
}

/* Arrows from the waker to the woken: each with an id of its own, both ends in slices. */
TEST_WITH(test_chrome_arrows, setup, teardown)
{
	struct rec_syscall waker = { .h = hdr(REC_SYSCALL, SYS_futex) };
	struct rec_off_cpu r = { .h = hdr(REC_OFF_CPU, ST_BLOCKED_FUTEX), .waker_tid = PID };
	unsigned int n = 0;
	struct out o;

	chrome_open(&o);
	waker.h.tid = PID;
	waker.h.dur_ns = 10000000;
	waker.h.flags = REC_F_WOKE;
	r.waker_slice = waker.h.start_ns;
	for (; n < 50; n++) {
		if (n == 10) /* those before wait for it */
			EMIT(&o, &waker);
		r.h.start_ns += 20000;
		r.wake_ns = r.h.start_ns + n; /* from the first to the last nanosecond, and later */
		r.h.dur_ns = n < 25 ? 25 : n + 1;
		EMIT(&o, &r);
	}
	/* no arrows: no slice to start in, or one that was lost, nothing to end in, still off the CPU,
	 * an interrupt */
	r.h.start_ns += 20000;
	r.wake_ns = r.h.start_ns;
	r.waker_slice = 0;
	EMIT(&o, &r);
	r.waker_slice = waker.h.start_ns + 1;
	EMIT(&o, &r);
	r.waker_slice = waker.h.start_ns;
	r.h.dur_ns = 0;
	EMIT(&o, &r);
	r.h.dur_ns = 1000;
	r.h.flags = REC_F_OPEN_END;
	EMIT(&o, &r);
	r.h.start_ns += 20000;
	r.h.flags = OFF_CPU_F_WAKER_IRQ;
	EMIT(&o, &r);
	chrome_read(&o);
	for (unsigned int i = 0; i < n; i++) {
		struct json_object *s = find(&o, "s", "wake-up", i),
				   *f = find(&o, "f", "wake-up", i);

		assert_non_null(s);
		assert_non_null(f);
		assert_text(field(s, "id"), field(f, "id"));
		assert_track(s, PID, PID);
		assert_track(f, PID, TID);
		assert_text(field(f, "bp"), "e");
		assert_true(i == 0 ||
			    strcmp(field(s, "id"), field(find(&o, "s", "wake-up", i - 1), "id")));
	}
	assert_null(find(&o, "s", "wake-up", n));
	assert_null(find(&o, "f", "wake-up", n));
	chrome_done(&o);
}

RUN_TESTS(NULL, NULL)
