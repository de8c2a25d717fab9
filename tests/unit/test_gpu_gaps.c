/* SPDX-License-Identifier: BSD-2-Clause */
/* What a thread did while a GPU was idle. */
#include "cases.h"
#include "format/gpu_gaps.h"
#include "gpu/info.h"
#include "sinks.h"
#include "stack/stack.h"

#define WAIT 1 /* the probe of calls that wait for a GPU */

static struct gpu_gaps *gaps;

static int set_up(void **state)
{
	if (setup(state))
		return -1;
	gaps = gpu_gaps_new(&rec);
	add_probe("cuLaunchKernel", ROLE_LAUNCH, PROBE_F_SPAN, NULL, "");
	add_probe("cuStreamSynchronize", ROLE_GPU_WAIT, PROBE_F_SPAN, NULL, "");
	return 0;
}

static int tear_down(void **state)
{
	gpu_gaps_free(gaps);
	return teardown(state);
}

static struct rec_hdr at(enum rec_kind kind, uint32_t id, uint64_t from, uint64_t to)
{
	struct rec_hdr h = hdr(kind, id);

	h.start_ns = START + from;
	h.dur_ns = to - from;
	return h;
}

static void off_cpu(enum time_state state, uint8_t flags, uint64_t from, uint64_t wake, uint64_t to, uint32_t waker)
{
	struct rec_off_cpu r = { .h = at(REC_OFF_CPU, state, from, to), .wake_ns = wake ? START + wake : 0, .waker_tid = waker };

	r.h.flags = flags;
	gpu_gaps_record(gaps, &r.h);
}

static void give(enum rec_kind kind, uint32_t id, uint64_t from, uint64_t to)
{
	struct rec_hdr h = at(kind, id, from, to);

	gpu_gaps_record(gaps, &h);
}

static void sample(uint32_t stack, uint64_t when)
{
	struct rec_stack r = { .h = at(REC_STACK, SAMPLE_CPU, when, when), .stack = stack };

	gpu_gaps_record(gaps, &r.h);
}

static bool cause(uint64_t from, uint64_t to, struct gap_cause *c)
{
	return gpu_gaps_cause(gaps, TID, START + from, START + to, c);
}

TEST_WITH(test_states, set_up, tear_down)
{
	struct gap_cause c;

	give(REC_SYSCALL, 7, 0, 110); /* 100 to 110 of it */
	give(REC_SYSCALL, 9, 200, 400);
	assert_false(cause(100, 1000, &c)); /* waits are not recorded */
	off_cpu(ST_BLOCKED_FUTEX, 0, 220, 300, 350, 77);
	off_cpu(ST_RUNNABLE, OFF_CPU_F_PREEMPT, 500, 0, 520, 0);
	give(REC_FAULT, 0, 515, 530);
	give(REC_FUNCTION, WAIT, 600, 700);
	give(REC_FUNCTION, 0, 700, 800);                /* no wait */
	off_cpu(ST_BLOCKED_OTHER, 0, 620, 640, 650, 0); /* within it: the wake-up is late */
	off_cpu(ST_BLOCKED_IO, OFF_CPU_F_WAKER_IRQ, 950, 2000, 2001, 5);
	sample(3, 810);
	sample(4, 820);
	sample(4, 99);
	sample(3, 830);
	assert_true(cause(100, 1000, &c));
	assert_int_equal(c.ns[ST_SYSCALL], 10 + 20 + 50);
	assert_int_equal(c.ns[ST_BLOCKED_FUTEX], 80);
	assert_int_equal(c.ns[ST_RUNNABLE], 50 + 20 + 10);
	assert_int_equal(c.ns[ST_FAULT], 10);
	assert_int_equal(c.ns[ST_GPU_WAIT], 90);
	assert_int_equal(c.ns[ST_BLOCKED_IO], 50);
	assert_int_equal(c.ns[ST_CPU], 900 - 80 - 80 - 80 - 10 - 90 - 50);
	assert_int_equal(c.state, ST_CPU);
	assert_int_equal(c.stack, 3);
	assert_int_equal(c.syscall, 9);
	assert_true(cause(210, 310, &c));
	assert_int_equal(c.state, ST_BLOCKED_FUTEX);
	assert_int_equal(c.waker_tid, 77);
	assert_int_equal(c.stack, STACK_NONE);
	assert_true(cause(960, 1000, &c));
	assert_int_equal(c.state, ST_BLOCKED_IO);
	assert_int_equal(c.waker_tid, 0); /* an interrupt */
	assert_int_equal(c.syscall, SYSCALL_NONE);
	assert_false(gpu_gaps_cause(gaps, TID + 1, START, START + 10, &c)); /* no record of it */
}

TEST_WITH(test_lost, set_up, tear_down)
{
	struct loss l = { .from_ns = START + 500, .to_ns = START + 600 };
	struct gap_cause c;

	off_cpu(ST_BLOCKED_FUTEX, 0, 0, 10, 10, 0);
	l.count[REC_IRQ] = 1;
	gpu_gaps_loss(gaps, &l);
	assert_true(cause(0, 1000, &c));
	l.count[REC_SYSCALL] = 1;
	gpu_gaps_loss(gaps, &l);
	assert_false(cause(0, 1000, &c));
	assert_true(cause(0, 500, &c));
	assert_true(cause(600, 1000, &c));
	for (int i = 0; i < 100; i++) { /* merged, the oldest */
		l.from_ns = l.to_ns + 10;
		l.to_ns += 20;
		gpu_gaps_loss(gaps, &l);
	}
	assert_true(cause(0, 500, &c));
	assert_false(cause(0, 501, &c));
	assert_false(cause(2590, 2600, &c));
	assert_true(cause(2600, 2700, &c));
}

/* With more spans than are kept, older times are unknown. */
TEST_WITH(test_bounds, set_up, tear_down)
{
	struct gap_cause c;

	off_cpu(ST_BLOCKED_FUTEX, 0, 0, 5, 5, 0);
	for (uint64_t i = 0; i < GPU_GAPS_SPANS_MAX; i++)
		give(REC_SYSCALL, 1, 10 * i + 10, 10 * i + 15);
	assert_false(cause(0, 10, &c));
	assert_true(cause(10, 20, &c));
	assert_int_equal(c.ns[ST_SYSCALL], 5);
	give(REC_SYSCALL, 1, 10 * GPU_GAPS_SPANS_MAX + 10, 10 * GPU_GAPS_SPANS_MAX + 15);
	assert_false(cause(10, 20, &c));
	assert_true(cause(15, 10 * GPU_GAPS_SPANS_MAX + 20, &c));
	assert_int_equal(c.ns[ST_SYSCALL], 5 * GPU_GAPS_SPANS_MAX);
	for (uint32_t i = 0; i < 2 * GPU_GAPS_THREADS_MAX; i++) {
		struct rec_syscall r = { .h = at(REC_SYSCALL, 1, 0, 1) };

		r.h.tid = i + 1;
		gpu_gaps_record(gaps, &r.h);
	}
	assert_false(gpu_gaps_cause(gaps, 2 * GPU_GAPS_THREADS_MAX, START, START + 1, &c));
}

/* Whatever comes, the states sum to the interval. */
TEST_WITH(test_exact, set_up, tear_down)
{
	const unsigned int n = cases(2000, 100);

	srand(2);
	for (unsigned int i = 0; i < n; i++) {
		uint64_t from = (uint64_t)rand() % 5000, to = from + (uint64_t)rand() % 500, sum = 0;
		struct gap_cause c;

		switch (rand() % 4) {
		case 0:
			off_cpu((enum time_state)(rand() % (ST_MAX + 1)), (uint8_t)rand(), from, (uint64_t)rand() % 6000, to, 1);
			break;
		case 1:
			give(REC_FUNCTION, WAIT + (uint32_t)rand() % 2, from, to);
			break;
		default:
			give(rand() % 2 ? REC_SYSCALL : REC_FAULT, (uint32_t)rand(), from, to);
		}
		if (!cause(to, to + 300, &c))
			continue;
		for (int k = 0; k < ST_MAX; k++) {
			sum += c.ns[k];
			assert_true(c.ns[k] <= c.ns[c.state]);
		}
		assert_int_equal(sum, 300);
	}
}

RUN_TESTS(NULL, NULL)
