// SPDX-License-Identifier: BSD-2-Clause
/* The Chrome trace: off-CPU time, who ended it, and its flows. */
#include "sinks.h"

#include <sys/syscall.h>

TEST_WITH(test_chrome_off_cpu, setup, teardown)
{
	struct out o;

	chrome_open(&o);
	for (uint32_t st = ST_RUNNABLE; st < ST_MAX; st++) {
		struct rec_off_cpu r = { .h = hdr(REC_OFF_CPU, st), .cpu_from = 1 };

		r.h.start_ns = START + (st - ST_RUNNABLE) * 10000;
		EMIT(&o, &r);
	}
	chrome_expect(&o, NULL, "{'ph':'X','pid':5000000,'tid':5000001,'ts':0.000,'dur':1.234,'name':'runnable','cat':'sched','args':{'cpu':3,'cpu_before':1}}\n"
				"{'ph':'X','pid':5000000,'tid':5000001,'ts':10.000,'dur':1.234,'name':'blocked: futex','cat':'sched','args':{'cpu':3,'cpu_before':1}}\n"
				"{'ph':'X','pid':5000000,'tid':5000001,'ts':20.000,'dur':1.234,'name':'blocked: gil','cat':'sched','args':{'cpu':3,'cpu_before':1}}\n"
				"{'ph':'X','pid':5000000,'tid':5000001,'ts':30.000,'dur':1.234,'name':'blocked: io','cat':'sched','args':{'cpu':3,'cpu_before':1}}\n"
				"{'ph':'X','pid':5000000,'tid':5000001,'ts':40.000,'dur':1.234,'name':'blocked: net','cat':'sched','args':{'cpu':3,'cpu_before':1}}\n"
				"{'ph':'X','pid':5000000,'tid':5000001,'ts':50.000,'dur':1.234,'name':'blocked: ipc','cat':'sched','args':{'cpu':3,'cpu_before':1}}\n"
				"{'ph':'X','pid':5000000,'tid':5000001,'ts':60.000,'dur':1.234,'name':'blocked: poll','cat':'sched','args':{'cpu':3,'cpu_before':1}}\n"
				"{'ph':'X','pid':5000000,'tid':5000001,'ts':70.000,'dur':1.234,'name':'blocked: sleep','cat':'sched','args':{'cpu':3,'cpu_before':1}}\n"
				"{'ph':'X','pid':5000000,'tid':5000001,'ts':80.000,'dur':1.234,'name':'blocked: fault','cat':'sched','args':{'cpu':3,'cpu_before':1}}\n"
				"{'ph':'X','pid':5000000,'tid':5000001,'ts':90.000,'dur':1.234,'name':'blocked: gpu','cat':'sched','args':{'cpu':3,'cpu_before':1}}\n"
				"{'ph':'X','pid':5000000,'tid':5000001,'ts':100.000,'dur':1.234,'name':'blocked: other','cat':'sched','args':{'cpu':3,'cpu_before':1}}\n"
				"{'ph':'X','pid':5000000,'tid':5000001,'ts':110.000,'dur':1.234,'name':'stopped','cat':'sched','args':{'cpu':3,'cpu_before':1}}\n");
}

TEST_WITH(test_chrome_wakeups, setup, teardown)
{
	struct rec_off_cpu r = { .h = hdr(REC_OFF_CPU, ST_BLOCKED_FUTEX), .cpu_from = 1 };
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
	r.wake_ns = r.h.start_ns + 1234; /* it ran at once */
	EMIT(&o, &r);
	r.h.start_ns += 10000;
	r.waker_tid = PID + 99; /* unknown */
	EMIT(&o, &r);
	chrome_expect(&o, NULL, "{'ph':'X','pid':5000000,'tid':5000001,'ts':10.000,'dur':1.234,'name':'blocked: futex','cat':'sched','args':{'cpu':3,'cpu_before':1,"
				"'preempted':true,'end_not_seen':true,'began_before':true,'unfinished':true}}\n"
				"{'ph':'X','pid':5000000,'tid':5000001,'ts':20.000,'dur':1.234,'name':'blocked: futex','cat':'sched','args':{'cpu':3,'cpu_before':1,"
				"'run_queue_us':1.000,'waker':'interrupt'}}\n"
				"{'ph':'X','pid':5000000,'tid':5000001,'ts':30.000,'dur':1.234,'name':'blocked: futex','cat':'sched','args':{'cpu':3,'cpu_before':1,"
				"'run_queue_us':0.000,'waker_tid':5000000,'waker':'server'}}\n"
				"{'ph':'X','pid':5000000,'tid':5000001,'ts':40.000,'dur':1.234,'name':'blocked: futex','cat':'sched','args':{'cpu':3,'cpu_before':1,"
				"'run_queue_us':1.234,'waker_tid':5000099}}\n");
}

/* A thread can be woken just before it has left the CPU, by one that has moved on since: the flow begins at that time,
 * within the waker's slice, and the thread is runnable from its first nanosecond off CPU. */
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
	/* in the previous file: no slice to begin in */
	waker.h.start_ns = r.waker_slice = START - 100;
	r.wake_ns = START - 1;
	r.h.start_ns = START + 10000;
	EMIT(&o, &waker);
	EMIT(&o, &r);
	chrome_expect(&o, NULL, "{'ph':'X','pid':5000000,'tid':5000000,'ts':1.000,'dur':0.500,'name':'futex','cat':'syscall','args':{'ret':0,'cpu':3}}\n"
				"{'ph':'X','pid':5000000,'tid':5000001,'ts':2.000,'dur':3.000,'name':'blocked: futex','cat':'sched','args':{'cpu':3,'cpu_before':0,"
				"'run_queue_us':3.000,'waker_tid':5000000,'waker':'server'}}\n"
				"{'ph':'s','id':1,'pid':5000000,'tid':5000000,'ts':1.400,'name':'wake-up','cat':'sched'}\n"
				"{'ph':'f','bp':'e','id':1,'pid':5000000,'tid':5000001,'ts':4.999,'name':'wake-up','cat':'sched'}\n"
				"{'ph':'X','pid':5000000,'tid':5000000,'ts':0.000,'dur':0.400,'name':'futex','cat':'syscall','args':{'ret':0,'cpu':3}}\n"
				"{'ph':'X','pid':5000000,'tid':5000001,'ts':10.000,'dur':3.000,'name':'blocked: futex','cat':'sched','args':{'cpu':3,'cpu_before':0,"
				"'run_queue_us':3.000,'waker_tid':5000000,'waker':'server'}}\n");
}

/*
 * Where a system call takes 0.2 us, chrome://tracing nests consecutive calls, and drops flows that begin in a call that it
 * has nested. The file has them at their instants; the checker reports their number. KEEP names a file for the trace, which
 * tests/integration/importer.sh has the importer read.
 */
TEST_WITH(test_chrome_fast_calls, setup, teardown)
{
	struct rec_syscall call = { .h = hdr(REC_SYSCALL, SYS_futex) };
	struct rec_off_cpu off = { .h = hdr(REC_OFF_CPU, ST_BLOCKED_FUTEX), .waker_tid = TID };
	uint64_t at = START + 20000, off_end = START;
	const char *keep = getenv("KEEP"), *note;
	unsigned int flows = 0, random = 1;
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
		flows++;
	}
	chrome_read(&o);
	f = open_memstream(&summary, &summary_len);
	validate_to(&o, false, f);
	note = strstr(summary, "; note: ");
	assert_non_null(note);
	assert_non_null(strstr(note, " arrows that chrome://tracing leaves out"));
	assert_in_range(atoi(note + strlen("; note: ")), flows / 20, flows - flows / 20);
	for (unsigned int i = 0; i < flows; i += 100)
		assert_non_null(find(&o, "s", "wake-up", i));
	if (keep) {
		f = fopen(keep, "we");
		assert_int_equal(fwrite(o.text, 1, o.len, f), o.len);
		fclose(f);
	}
	free(summary);
	chrome_done(&o);
}

/* Flows from the waker to the woken thread: each with its own id, both ends in slices. */
TEST_WITH(test_chrome_flows, setup, teardown)
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
	/* no flows: no slice to start in, or a lost one; nothing to end in; still off CPU; an interrupt */
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
