// SPDX-License-Identifier: BSD-2-Clause
/* The Chrome trace, from records as the BPF programs send them: every field of every kind. */
#include "sinks.h"

#include <sys/syscall.h>

#define CPUS 4194305 /* the pseudo process of the CPU tracks */

static void test_chrome_empty(void **state)
{
	struct json_object *clock;
	struct out o;

	(void)state;
	chrome_open(&o);
	/* valid from the first flush on, with the target's name and the clocks */
	flush(&o);
	read_text(&o);
	assert_memory_equal(
		o.text, "[\n{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":5000000,", 48);
	assert_true(o.text[o.len - 1] == '}');
	assert_int_equal(o.s->ops->bytes(o.s), o.len);
	validate(&o, false);

	chrome_read(&o);
	validate(&o, false);
	assert_text(arg(find(&o, "M", "process_name", 0), "name"), "server");
	assert_text(arg(find(&o, "M", "process_name", 1), "name"), "inftrace");
	clock = find(&o, "i", "inftrace_clock", 0);
	assert_span(clock, "inftrace", "0.000", NULL);
	assert_text(arg(clock, "boottime_ns"), "1000000000000");
	assert_text(arg(clock, "monotonic_ns"), "900000000007");
	assert_text(arg(clock, "realtime_ns"), "1763616000000000001");
	assert_true(json_object_is_type(
		json_object_object_get(json_object_object_get(clock, "args"), "realtime_ns"),
		json_type_string));
	assert_non_null(find(&o, "i", "inftrace_clock", 1));
	assert_null(find(&o, "i", "inftrace_clock", 2));
	chrome_done(&o);
}

/* ts and dur, to the nanosecond. */
static void test_chrome_times(void **state)
{
	static const struct {
		uint64_t start, dur;
		const char *ts, *dur_us;
	} times[] = {
		{ START, 0, "0.000", "0.000" },
		{ START, 1, "0.000", "0.001" },
		{ START + 1, 999, "0.001", "0.999" },
		{ START + 999, 1000, "0.999", "1.000" },
		{ START + 1000, 1001, "1.000", "1.001" },
		{ START + 123456789012345, 60, "123456789012.345", "0.060" },
		/* seven years, where a double has no nanoseconds any more */
		{ START + 220898664123456789, 100000000000000007, "220898664123456.789",
			"100000000000000.007" },
		/* in flight when the recording began */
		{ START - 500, 1500, "0.000", "1.000" },
		{ START - 500, 500, "0.000", "0.000" },
		{ START - 500, 100, "0.000", "0.000" },
		{ 0, START + 42, "0.000", "0.042" },
	};
	struct out o;

	(void)state;
	chrome_open(&o);
	for (size_t i = 0; i < ARRAY_SIZE(times); i++) {
		struct rec_syscall r = { .h = hdr(REC_SYSCALL, SYS_getpid) };

		r.h.start_ns = times[i].start;
		r.h.dur_ns = times[i].dur;
		r.h.tid = TID + (uint32_t)i;
		EMIT(&o, &r);
	}
	chrome_read(&o);
	validate(&o, false);
	for (size_t i = 0; i < ARRAY_SIZE(times); i++) {
		struct json_object *e = find(&o, "X", "getpid", (unsigned int)i);

		assert_span(e, "syscall", times[i].ts, times[i].dur_us);
		assert_track(e, PID, TID + (uint32_t)i);
	}
	chrome_done(&o);
}

static void test_chrome_syscalls(void **state)
{
	static const struct {
		uint32_t nr;
		int64_t ret;
		uint64_t arg0;
		uint8_t flags;
		const char *name, *ret_text, *fd, *bytes, *path;
	} calls[] = {
		{ SYS_read, 4096, 5, 0, "read", "4096", "5", "4096", NULL },
		{ SYS_read, 0, (uint64_t)-1, 0, "read", "0", "-1", NULL, NULL },
		{ SYS_read, -11, 7, 0, "read", "EAGAIN", "7", NULL, NULL },
		{ SYS_write, -32, 0xffffffff00000001, SYSCALL_F_BLOCKED, "write", "EPIPE", "1", NULL,
			"slow" },
		{ SYS_futex, -110, 0x7f0000001000, SYSCALL_F_BLOCKED, "futex", "ETIMEDOUT", NULL, NULL,
			"slow" },
		{ SYS_futex, -512, 0, 0, "futex", "ERESTARTSYS", NULL, NULL, NULL },
		{ SYS_getpid, -4095, 0, 0, "getpid", "-4095", NULL, NULL, NULL },
		{ SYS_getpid, -4096, 0, 0, "getpid", "-4096", NULL, NULL, NULL },
		{ SYS_getpid, INT64_MIN, 0, 0, "getpid", "-9223372036854775808", NULL, NULL, NULL },
		{ SYS_getpid, 0xffffffff, 0, 0, "getpid", "4294967295", NULL, NULL, NULL },
		{ SYS_getpid, 0x100000000, 0, 0, "getpid", "0x100000000", NULL, NULL, NULL },
		{ SYS_mmap, 0x7f1234567000, 0, 0, "mmap", "0x7f1234567000", NULL, NULL, NULL },
		{ SYS_mmap, INT64_MAX, 0, 0, "mmap", "0x7fffffffffffffff", NULL, NULL, NULL },
		{ 511, 3, 0, 0, "syscall_511", "3", NULL, NULL, NULL },
		{ UINT32_MAX, 3, 0, 0, "syscall_4294967295", "3", NULL, NULL, NULL },
		/* numbers of the 32-bit table mean other calls */
		{ SYS_read, 3, 9, SYSCALL_F_COMPAT, NULL, "3", NULL, NULL, NULL },
		/* what it returned is not known yet */
		{ SYS_read, 0, 5, REC_F_OPEN_END | SYSCALL_F_BLOCKED, "read", NULL, "5", NULL, "slow" },
		{ SYS_read, 1, 5, REC_F_OPEN_START, "read", "1", "5", "1", NULL },
	};
	struct out o;
	size_t n = 0;

	(void)state;
	chrome_open(&o);
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		struct rec_syscall r = { .h = hdr(REC_SYSCALL, calls[i].nr),
			.ret = calls[i].ret,
			.arg0 = calls[i].arg0 };

		r.h.start_ns = START + i * 10000;
		r.h.flags = calls[i].flags;
		EMIT(&o, &r);
	}
	chrome_read(&o);
	validate(&o, false);
	for (size_t i = 0; i < json_object_array_length(o.events); i++) {
		struct json_object *e = json_object_array_get_idx(o.events, i);
		char compat[32];

		if (strcmp(field(e, "ph"), "X"))
			continue;
		assert_true(n < ARRAY_SIZE(calls));
		snprintf(compat, sizeof(compat), "compat_%u", calls[n].nr);
		assert_text(field(e, "name"), calls[n].name ? calls[n].name : compat);
		assert_text(arg(e, "ret"), calls[n].ret_text);
		assert_text(arg(e, "fd"), calls[n].fd);
		assert_text(arg(e, "bytes"), calls[n].bytes);
		assert_text(arg(e, "path"), calls[n].path);
		assert_text(
			arg(e, "began_before"), calls[n].flags & REC_F_OPEN_START ? "true" : NULL);
		assert_text(arg(e, "unfinished"), calls[n].flags & REC_F_OPEN_END ? "true" : NULL);
		n++;
	}
	assert_int_equal(n, ARRAY_SIZE(calls));
	chrome_done(&o);
}

static void test_chrome_off_cpu(void **state)
{
	struct json_object *e;
	struct out o;

	(void)state;
	chrome_open(&o);
	for (uint32_t st = ST_RUNNABLE; st < ST_MAX; st++) {
		struct rec_off_cpu r = { .h = hdr(REC_OFF_CPU, st), .cpu_from = 1 };

		r.h.start_ns = START + st * 10000;
		EMIT(&o, &r);
	}
	chrome_read(&o);
	validate(&o, false);
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

static void test_chrome_wakeups(void **state)
{
	struct rec_off_cpu r = { .h = hdr(REC_OFF_CPU, ST_BLOCKED_FUTEX), .cpu_from = 1 };
	struct json_object *e;
	struct out o;

	(void)state;
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
	r.waker_tid = PID + 99; /* nobody knows */
	EMIT(&o, &r);
	chrome_read(&o);
	validate(&o, false);
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
static void test_chrome_early_wakeup(void **state)
{
	struct rec_syscall waker = { .h = hdr(REC_SYSCALL, SYS_futex) };
	struct rec_off_cpu r = { .h = hdr(REC_OFF_CPU, ST_BLOCKED_FUTEX), .waker_tid = PID };
	struct out o;

	(void)state;
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
	validate(&o, false);
	assert_text(field(get(&o, "s", "wake-up"), "ts"), "1.400");
	assert_text(field(get(&o, "f", "wake-up"), "ts"), "4.999");
	assert_text(arg(find(&o, "X", "blocked: futex", 0), "run_queue_us"), "3.000");
	chrome_done(&o);
}

/*
 * Where a system call takes 0.2 us, chrome://tracing nests calls that follow each other, and leaves out
 * arrows that begin in one that it has nested. They are in the file, at their instants: the checker tells
 * how many they are. KEEP names a file for the trace, which tests/integration/importer.sh has the importer read.
 */
static void test_chrome_fast_calls(void **state)
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

	(void)state;
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
static void test_chrome_arrows(void **state)
{
	struct rec_syscall waker = { .h = hdr(REC_SYSCALL, SYS_futex) };
	struct rec_off_cpu r = { .h = hdr(REC_OFF_CPU, ST_BLOCKED_FUTEX), .waker_tid = PID };
	unsigned int n = 0;
	struct out o;

	(void)state;
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
	validate(&o, false); /* which looks at ids and slices */
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

static void test_chrome_cpus_and_faults(void **state)
{
	struct rec_fault fault = { .h = hdr(REC_FAULT, 0), .addr = 0x7fff0000beef };
	struct rec_on_cpu on = { .h = hdr(REC_ON_CPU, 0) };
	struct json_object *e;
	struct out o;

	(void)state;
	chrome_open(&o);
	EMIT(&o, &on);
	on.h.start_ns += 10000;
	on.h.flags = REC_F_OPEN_START | REC_F_OPEN_END;
	EMIT(&o, &on);
	on.h.cpu = 65535; /* more than there can be: no name, but no harm */
	EMIT(&o, &on);
	EMIT(&o, &fault);
	fault.h.start_ns += 10000;
	fault.h.flags = FAULT_F_MAJOR | REC_F_OPEN_START | REC_F_OPEN_END;
	EMIT(&o, &fault);
	fault.h.flags = FAULT_F_KERNEL;
	fault.addr = 0;
	EMIT(&o, &fault);
	chrome_read(&o);
	validate(&o, false);

	e = find(&o, "X", "worker", 0);
	assert_span(e, "cpu", "10.000", "1.234");
	assert_track(e, CPUS, 3);
	assert_text(arg(e, "pid"), "5000000");
	assert_text(arg(e, "tid"), "5000001");
	assert_text(arg(e, "unfinished"), NULL);
	assert_text(arg(find(&o, "X", "worker", 1), "unfinished"), "true");
	assert_text(arg(find(&o, "X", "worker", 1), "began_before"), "true");
	assert_track(find(&o, "X", "worker", 2), CPUS, 65535);
	e = find(&o, "M", "thread_name", 0);
	assert_track(e, CPUS, 3);
	assert_text(arg(e, "name"), "CPU 3");

	e = get(&o, "X", "page_fault_minor");
	assert_span(e, "fault", "10.000", "1.234");
	assert_track(e, PID, TID);
	assert_text(arg(e, "address"), "0x7fff0000beef");
	e = get(&o, "X", "page_fault_major");
	assert_text(arg(e, "began_before"), "true");
	assert_text(arg(e, "unfinished"), "true");
	e = get(&o, "i", "page_fault_minor");
	assert_span(e, "fault", "20.000", NULL);
	assert_text(field(e, "s"), "t");
	assert_text(arg(e, "kernel"), "true");
	assert_text(arg(e, "address"), "0x0");
	chrome_done(&o);
}

static void test_chrome_functions(void **state)
{
	static const char ugly[] = "ns::f<\"\\\t\x01\x7f\xff\xc3\xa9>";
	static const uint64_t vals[] = { 1, 0xdeadbeef0000, (uint64_t)-5, INT64_MAX, UINT64_MAX,
		(uint64_t)INT64_MIN };
	struct rec_function r = { .h = hdr(REC_FUNCTION, 0) };
	struct json_object *e;
	struct out o;

	(void)state;
	add_probe("compute", ROLE_OP, PROBE_F_SPAN, "$a",
		"op arg1,ptr arg2,s32 arg3,u64 arg4,u64 arg5,s64 arg6");
	add_probe("mark", ROLE_LAUNCH, PROBE_F_INSTANT, NULL, "");
	add_probe(ugly, ROLE_OTHER, PROBE_F_SPAN, NULL, "");
	chrome_open(&o);
	memcpy(r.vals, vals, sizeof(vals));
	EMIT(&o, &r);
	r.vals[0] = 2; /* a number without a name */
	r.h.start_ns += 10000;
	r.h.flags = REC_F_OPEN_START | REC_F_OPEN_END;
	EMIT(&o, &r);
	r.h.flags = 0;
	r.h.id = 1;
	EMIT(&o, &r);
	r.h.id = 2;
	r.h.start_ns += 10000;
	r.h.flags = REC_F_OPEN_END;
	EMIT(&o, &r);
	r.h.id = 3; /* no such probe */
	EMIT(&o, &r);
	r.h.id = UINT32_MAX;
	EMIT(&o, &r);
	chrome_read(&o);
	validate(&o, false);

	e = get(&o, "X", "mul_mat");
	assert_span(e, "op", "10.000", "1.234");
	assert_track(e, PID, TID);
	assert_text(arg(e, "a"), "mul_mat");
	assert_text(arg(e, "b"), "0xdeadbeef0000");
	assert_text(arg(e, "c"), "-5");
	assert_text(arg(e, "d"), "9223372036854775807");
	assert_text(arg(e, "e"), "18446744073709551615");
	assert_true(json_object_is_type(
		json_object_object_get(json_object_object_get(e, "args"), "e"), json_type_string));
	assert_text(arg(e, "f"), "-9223372036854775808");
	e = get(&o, "X", "compute");
	assert_text(arg(e, "a"), NULL);
	assert_text(arg(e, "began_before"), "true");
	assert_text(arg(e, "unfinished"), "true");
	e = get(&o, "i", "mark");
	assert_span(e, "launch", "20.000", NULL);
	assert_text(field(e, "s"), "t");
	e = get(&o, "X", "ns::f<\"\\\t\x01\x7f\xef\xbf\xbd\xc3\xa9>");
	assert_text(arg(e, "unfinished"), "true");
	chrome_done(&o);
}

static void test_chrome_steps(void **state)
{
	struct rec_step r = { .h = hdr(REC_STEP, 0), .vals = { 1 }, .number = 7 };
	struct json_object *e, *parts;
	int64_t sum = 0;
	struct out o;

	(void)state;
	add_probe("llama_decode", ROLE_STEP, PROBE_F_SPAN, "a == 1 ? decode : prefill",
		"s32 *(sp+8)");
	chrome_open(&o);
	share_out(&r, 123456789);
	EMIT(&o, &r);
	r.vals[0] = (uint64_t)-3;
	r.lost = 4;
	r.h.flags = REC_F_OPEN_END;
	r.h.start_ns += 200000000;
	EMIT(&o, &r);
	r.h.id = 1; /* no such probe */
	EMIT(&o, &r);
	chrome_read(&o);
	validate(&o, false);

	e = find(&o, "X", "decode", 0);
	assert_span(e, "step", "10.000", "123456.789");
	assert_track(e, PID, TID);
	assert_text(arg(e, "a"), "1");
	assert_text(arg(e, "step"), "7");
	assert_text(arg(e, "lost_records"), NULL);
	parts = json_object_object_get(json_object_object_get(e, "args"), "breakdown_us");
	json_object_object_foreach(parts, key, v)
	{
		(void)key;
		assert_true(ns_of(v) > 0);
		sum += ns_of(v);
	}
	assert_int_equal(sum, 123456789);
	e = find(&o, "X", "decode", 1); /* again on the track of the steps */
	assert_span(e, "steps", "10.000", "123456.789");
	assert_text(arg(e, "thread"), "5000001");
	e = find(&o, "X", "prefill", 0);
	assert_text(arg(e, "a"), "-3");
	assert_text(arg(e, "lost_records"), "4");
	assert_text(arg(e, "unfinished"), "true");
	assert_null(find(&o, "X", "prefill", 2));
	chrome_done(&o);
}

/* Two steps touch, two others overlap by a nanosecond. */
static void test_chrome_two_lanes(void **state)
{
	static const uint64_t starts[] = { 0, 1000, 5000, 5999 };
	struct out o;
	int64_t tids[4];

	(void)state;
	add_probe("step", ROLE_STEP, PROBE_F_SPAN, NULL, "");
	chrome_open(&o);
	for (size_t i = 0; i < 4; i++) {
		struct rec_step r = { .h = hdr(REC_STEP, 0) };

		r.h.tid += (uint32_t)i;
		r.h.start_ns = START + starts[i];
		share_out(&r, 1000);
		EMIT(&o, &r);
	}
	chrome_read(&o);
	validate(&o, false);
	for (unsigned int i = 0; i < 4; i++)
		tids[i] = json_object_get_int64(
			json_object_object_get(find(&o, "X", "step", 2 * i + 1), "tid"));
	assert_true(tids[0] > CPUS); /* no thread's */
	assert_int_equal(tids[1], tids[0]);
	assert_int_equal(tids[2], tids[0]);
	assert_int_equal(tids[3], tids[0] + 1);
	chrome_done(&o);
}

struct lane {
	int64_t start, end;
	int64_t pid, tid;
};

static int compare_lanes(const void *a, const void *b)
{
	const struct lane *x = a, *y = b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	return x->start < y->start ? -1 : x->start > y->start;
}

/* Steps of many threads at once, in any order: on the tracks of the steps none touches another. */
static void test_chrome_lanes(void **state)
{
	static struct lane lanes[4000];
	size_t n = 0, steps = 2000, on_threads = 0;
	struct out o;

	(void)state;
	add_probe("step", ROLE_STEP, PROBE_F_SPAN, NULL, "");
	chrome_open(&o);
	for (size_t i = 0; i < steps; i++) {
		/* up to some 20 at once, of which 16 have a lane; not in the order of their ends */
		struct rec_step r = { .h = hdr(REC_STEP, 0) };

		r.h.tgid = PID + (uint32_t)(i % 2) * 100000;
		r.h.tid = PID + 1000 + (uint32_t)i;
		r.h.start_ns = START + i * 1000 + draw() % 3000;
		share_out(&r, draw() % 8 ? draw() % 10000 : draw() % 30000);
		EMIT(&o, &r);
	}
	chrome_read(&o);
	validate(&o, false);
	for (size_t i = 0; i < json_object_array_length(o.events); i++) {
		struct json_object *e = json_object_array_get_idx(o.events, i);
		const char *cat = field(e, "cat");

		on_threads += cat && !strcmp(cat, "step");
		if (!cat || strcmp(cat, "steps"))
			continue;
		lanes[n].start = ns_field(e, "ts");
		lanes[n].end = lanes[n].start + ns_field(e, "dur");
		lanes[n].pid = json_object_get_int64(json_object_object_get(e, "pid"));
		lanes[n++].tid = json_object_get_int64(json_object_object_get(e, "tid"));
	}
	assert_int_equal(on_threads, steps);
	assert_true(n > steps / 2 && n <= steps);
	qsort(lanes, n, sizeof(lanes[0]), compare_lanes);
	for (size_t i = 1; i < n; i++) {
		if (lanes[i].pid == lanes[i - 1].pid && lanes[i].tid == lanes[i - 1].tid)
			assert_true(lanes[i].start >= lanes[i - 1].end);
	}
	chrome_done(&o);
}

static void test_chrome_tasks(void **state)
{
	static const char hostile[TASK_COMM_LEN] = "\x1b[2J\"\\\n\xff\xed\xa0\x80"
						   "x%s";
	struct rec_task r = { .h = hdr(REC_TASK, TASK_FORK), .arg = PID };
	struct json_object *e;
	struct out o;

	(void)state;
	chrome_open(&o);
	memcpy(r.comm, "fifteen bytes..", 15);
	for (r.h.id = TASK_FORK; r.h.id <= TASK_COMM + 1; r.h.id++) {
		tasks_update(rec.tasks, &r);
		EMIT(&o, &r);
	}
	/* a new name, before and after which the thread does something */
	memcpy(r.comm, hostile, sizeof(hostile));
	r.h.id = TASK_COMM;
	tasks_update(rec.tasks, &r);
	EMIT(&o, &r);
	/* and a name of the process, which is that of its main thread */
	r.h.tid = PID;
	memcpy(r.comm, "renamed\0", 8);
	tasks_update(rec.tasks, &r);
	EMIT(&o, &r);
	chrome_read(&o);
	validate(&o, false);
	e = get(&o, "i", "fork");
	assert_span(e, "task", "10.000", NULL);
	assert_track(e, PID, TID);
	assert_text(arg(e, "comm"), "fifteen bytes..");
	assert_text(arg(e, "parent"), "5000000");
	assert_text(arg(get(&o, "i", "exec"), "code"), NULL);
	assert_text(arg(get(&o, "i", "exit"), "code"), "5000000");
	e = find(&o, "i", "rename", 1);
	assert_text(
		arg(e, "comm"), "\x1b[2J\"\\\n\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdx%s");
	assert_text(arg(find(&o, "M", "thread_name", 0), "name"), "fifteen bytes..");
	for (unsigned int i = 1; (e = find(&o, "M", "thread_name", i)); i++) {
		if (strcmp(arg(e, "name"), "fifteen bytes.."))
			break;
	}
	assert_text(
		arg(e, "name"), "\x1b[2J\"\\\n\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdx%s");
	assert_track(e, PID, TID);
	e = find(&o, "M", "process_name", 2);
	assert_track(e, PID, PID);
	assert_text(arg(e, "name"), "renamed");
	chrome_done(&o);
}

static void test_chrome_loss(void **state)
{
	struct loss l = { .from_ns = START - 5, .to_ns = START + 1000 };
	struct json_object *e;
	struct out o;

	(void)state;
	chrome_open(&o);
	l.count[REC_SYSCALL] = 3;
	l.count[REC_STEP] = UINT64_MAX / 2;
	o.s->ops->loss(o.s, &l);
	l.from_ns = l.to_ns;
	l.to_ns += 7;
	memset(l.count, 0, sizeof(l.count));
	l.count[REC_MAPPED] = 1;
	o.s->ops->loss(o.s, &l);
	chrome_read(&o);
	validate(&o, false);
	e = find(&o, "X", "lost records", 0);
	assert_span(e, "loss", "0.000", "1.000");
	assert_text(arg(e, "syscall"), "3");
	assert_text(arg(e, "step"), "9223372036854775807");
	assert_text(arg(e, "fault"), NULL);
	assert_span(find(&o, "X", "lost records", 1), "loss", "1.000", "0.007");
	chrome_done(&o);
}

static void test_chrome_mark(void **state)
{
	struct mark m = { .name = "window_close", .ns = START + 2500, .number = 4294967295u, .reason = "\"x\"" };
	struct json_object *e;
	struct out o;

	(void)state;
	chrome_open(&o);
	o.s->ops->mark(o.s, &m);
	chrome_read(&o);
	validate(&o, false);
	e = get(&o, "i", "window_close");
	assert_span(e, "inftrace", "2.500", NULL);
	assert_track(e, 4194306, 4194306);
	assert_text(arg(e, "number"), "4294967295");
	assert_text(arg(e, "reason"), "\"x\"");
	chrome_done(&o);
}

/* In each of two files, which the one sink writes, all is said that a reader needs, and of what was sent
 * each is in the one where it belongs. */
static void rotate(struct out *o, struct out *ret_first)
{
	struct writer *w;
	int fd = memfd_create("trace", MFD_CLOEXEC);

	assert_int_equal(writer_new(dup(fd), "trace", WRITER_PLAIN, &w), 0);
	o->s->ops->rotate(o->s, w);
	assert_int_equal(writer_close(o->w), 0);
	*ret_first = (struct out){ .fd = o->fd };
	read_text(ret_first);
	ret_first->events = json_tokener_parse(ret_first->text);
	assert_non_null(ret_first->events);
	o->fd = fd;
	o->w = w;
}

static void emit_one_of_each(struct out *o, uint64_t at)
{
	struct rec_syscall call = { .h = hdr(REC_SYSCALL, SYS_getpid) };
	struct rec_on_cpu on = { .h = hdr(REC_ON_CPU, 0) };
	struct rec_step step = { .h = hdr(REC_STEP, 0) };
	struct loss l = { .from_ns = START + at, .to_ns = START + at + 1, .count = { [REC_STEP] = 1 } };

	call.h.start_ns = on.h.start_ns = step.h.start_ns = START + at;
	step.h.dur_ns = 500000;
	EMIT(o, &call);
	EMIT(o, &on);
	EMIT(o, &step);
	step.h.start_ns += 10; /* overlaps: on another lane */
	step.h.tid = PID;
	EMIT(o, &step);
	o->s->ops->loss(o->s, &l);
}

static void check_names(const struct out *o)
{
	static const char *const threads[] = { "worker", "server", "CPU 3", "steps", "steps", "inftrace" };
	size_t found = 0;

	assert_text(arg(find(o, "M", "process_name", 0), "name"), "server");
	for (unsigned int n = 0; n < ARRAY_SIZE(threads); n++) {
		for (unsigned int i = 0; find(o, "M", "thread_name", i); i++)
			found += !strcmp(arg(find(o, "M", "thread_name", i), "name"), threads[n]);
	}
	assert_int_equal(found, 4 + 2 * 2);
	assert_null(find(o, "M", "thread_name", ARRAY_SIZE(threads)));
	assert_non_null(find(o, "i", "inftrace_clock", 1));
	assert_null(find(o, "i", "inftrace_clock", 2));
	get(o, "X", "getpid");
	get(o, "X", "lost records");
}

static void test_chrome_rotate(void **state)
{
	struct out o, first;

	(void)state;
	add_probe("step", ROLE_STEP, PROBE_F_SPAN, "decode", "u64 arg1");
	chrome_open(&o);
	emit_one_of_each(&o, 1000);
	rotate(&o, &first);
	validate(&first, false);
	check_names(&first);
	emit_one_of_each(&o, 400000); /* the steps of the first file are not over */
	chrome_read(&o);
	validate(&o, false);
	check_names(&o);
	assert_text(field(get(&first, "X", "getpid"), "ts"), "1.000");
	assert_text(field(get(&o, "X", "getpid"), "ts"), "400.000");
	/* the lanes go on */
	for (unsigned int i = 0; i < 4; i++) {
		struct json_object *e = find(i < 2 ? &first : &o, "X", "decode", 2 * (i % 2) + 1);

		assert_text(field(e, "cat"), "steps");
		assert_track(e, PID, 4194307 + i);
	}
	chrome_done(&first);
	chrome_done(&o);
}

/* An arrow from a slice of the first file would begin outside of every slice in the second. */
static void test_chrome_rotate_arrows(void **state)
{
	struct rec_syscall call = { .h = hdr(REC_SYSCALL, SYS_getpid) };
	struct rec_off_cpu off = { .h = hdr(REC_OFF_CPU, ST_BLOCKED_FUTEX) };
	struct out o, first;

	(void)state;
	call.h.flags = REC_F_WOKE;
	call.h.tid = PID;
	off.wake_ns = off.h.start_ns + 1000;
	off.waker_tid = PID;
	off.waker_slice = call.h.start_ns;
	chrome_open(&o);
	EMIT(&o, &call);
	rotate(&o, &first);
	EMIT(&o, &off);
	call.h.start_ns = off.waker_slice = off.h.start_ns = START + 50000;
	off.wake_ns = off.h.start_ns + 100;
	EMIT(&o, &off);
	EMIT(&o, &call);
	chrome_read(&o);
	validate(&o, false);
	assert_null(find(&first, "s", "wake-up", 0));
	assert_text(field(get(&o, "s", "wake-up"), "ts"), "50.100");
	chrome_done(&first);
	chrome_done(&o);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_chrome_empty),
		TEST(test_chrome_times),
		TEST(test_chrome_syscalls),
		TEST(test_chrome_off_cpu),
		TEST(test_chrome_wakeups),
		TEST(test_chrome_early_wakeup),
		TEST(test_chrome_fast_calls),
		TEST(test_chrome_arrows),
		TEST(test_chrome_cpus_and_faults),
		TEST(test_chrome_functions),
		TEST(test_chrome_steps),
		TEST(test_chrome_two_lanes),
		TEST(test_chrome_lanes),
		TEST(test_chrome_tasks),
		TEST(test_chrome_loss),
		TEST(test_chrome_mark),
		TEST(test_chrome_rotate),
		TEST(test_chrome_rotate_arrows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
