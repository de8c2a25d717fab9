// SPDX-License-Identifier: BSD-2-Clause
/* The Chrome trace in two files, each complete. */
#include "sinks.h"

#include <sys/syscall.h>

/* Each of two files written by one sink has everything that a reader needs, and each record is in the right file. */
static struct out rotate(struct out *o)
{
	struct out first = out_rotate(o, WRITER_PLAIN);

	first.events = json_tokener_parse(first.text);
	assert_non_null(first.events);
	return first;
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
	sink_loss(o->s, &l);
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

TEST_WITH(test_chrome_rotate, setup, teardown)
{
	struct out o, first;

	add_probe("step", ROLE_STEP, PROBE_F_SPAN, "decode", "u64 arg1");
	chrome_open(&o);
	emit_one_of_each(&o, 1000);
	first = rotate(&o);
	validate(&first, false);
	check_names(&first);
	emit_one_of_each(&o, 400000); /* the steps of the first file are not over */
	chrome_read(&o);
	check_names(&o);
	assert_text(field(get(&first, "X", "getpid"), "ts"), "1.000");
	assert_text(field(get(&o, "X", "getpid"), "ts"), "400.000");
	/* the lanes continue */
	for (unsigned int i = 0; i < 4; i++) {
		struct json_object *e = find(i < 2 ? &first : &o, "X", "decode", 2 * (i % 2) + 1);

		assert_text(field(e, "cat"), "steps");
		assert_track(e, PID, 4194307 + i);
	}
	chrome_done(&first);
	chrome_done(&o);
}

/* A flow from a slice of the first file would begin outside every slice in the second. */
TEST_WITH(test_chrome_rotate_flows, setup, teardown)
{
	struct rec_syscall call = { .h = hdr(REC_SYSCALL, SYS_getpid) };
	struct rec_off_cpu off = { .h = hdr(REC_OFF_CPU, ST_BLOCKED_FUTEX) };
	struct out o, first;

	call.h.flags = REC_F_WOKE;
	call.h.tid = PID;
	off.wake_ns = off.h.start_ns + 1000;
	off.waker_tid = PID;
	off.waker_slice = call.h.start_ns;
	chrome_open(&o);
	EMIT(&o, &call);
	first = rotate(&o);
	EMIT(&o, &off);
	call.h.start_ns = off.waker_slice = off.h.start_ns = START + 50000;
	off.wake_ns = off.h.start_ns + 100;
	EMIT(&o, &off);
	EMIT(&o, &call);
	chrome_read(&o);
	assert_null(find(&first, "s", "wake-up", 0));
	assert_text(field(get(&o, "s", "wake-up"), "ts"), "50.100");
	chrome_done(&first);
	chrome_done(&o);
}

RUN_TESTS(NULL, NULL)
