// SPDX-License-Identifier: BSD-2-Clause
/* How much longer a step took because of the recording: the arithmetic. */
#include "format/step_overhead.h"
#include "unit.h"

#define SELF 77

static const uint64_t outside[HIT_MAX] = {
	[HIT_ENTRY] = 500, [HIT_STEPPED] = 9000, [HIT_RETURN] = 600, [HIT_SYSCALL] = 60
};

static struct probe_costs prices(void)
{
	struct hit_time timed[HIT_MAX] = {
		[HIT_ENTRY] = { .n = 10, .ns = 3000 },
		[HIT_SYSCALL] = { .n = 30, .ns = 3000 },
	};
	struct probe_costs p = { 0 };

	probe_costs_make(&p, timed, NULL, outside);
	return p;
}

TEST(test_prices)
{
	struct probe_costs p = prices();
	const struct hit_time none[HIT_MAX] = { 0 };

	assert_true(p.known);
	assert_int_equal(p.ns[HIT_ENTRY], 500 + 300);
	assert_int_equal(p.ns[HIT_SYSCALL], 60 + 100);
	/* none of these was timed: assumed to be average */
	assert_int_equal(p.ns[HIT_STEPPED], 9000 + 150);
	assert_int_equal(p.ns[HIT_RETURN], 600 + 150);
	assert_int_equal(p.ns[HIT_WAKE], 150);
	probe_costs_make(&p, none, NULL, outside);
	assert_false(p.known);
}

/* With counters a second program runs at each switch, and nothing else changes. */
TEST(test_counters)
{
	const struct hit_time timed[HIT_MAX] = { [HIT_ENTRY] = { .n = 10, .ns = 3000 }, [HIT_SWITCH] = { .n = 20, .ns = 6000 } };
	const struct hit_time none = { 0 }, counters = { .n = 7, .ns = 2800 };
	const uint64_t reach[HIT_MAX] = { [HIT_ENTRY] = 500, [HIT_SWITCH] = 60 };
	struct probe_costs p = { 0 };

	probe_costs_make(&p, timed, &counters, reach);
	assert_int_equal(p.ns[HIT_ENTRY], 500 + 300);
	assert_int_equal(p.ns[HIT_SWITCH], 60 + 300 + 60 + 400);
	probe_costs_make(&p, timed, &none, reach); /* none was timed */
	assert_int_equal(p.ns[HIT_SWITCH], 60 + 300 + 60 + 300);
	probe_costs_make(&p, (struct hit_time[HIT_MAX]){ 0 }, &counters, reach);
	assert_false(p.known);
}

TEST(test_unknown)
{
	struct rec_step r = { .h.dur_ns = 1000 };
	struct probe_costs p = { .known = false };
	struct step_overhead w;

	assert_false(step_overhead_of(&r, &p, SELF, &w));
	assert_false(step_overhead_of(&r, NULL, SELF, &w));
}

TEST(test_alone)
{
	struct rec_step r = { .h.dur_ns = 1000000 };
	struct probe_costs p = prices();
	struct step_overhead w;

	r.hits.n[HIT_ENTRY] = 2;
	r.hits.n[HIT_STEPPED] = 1;
	r.hits.n[HIT_SYSCALL] = 10;
	assert_true(step_overhead_of(&r, &p, SELF, &w));
	assert_int_equal(w.ns, 2 * 800 + 9150 + 10 * 160);
	assert_int_equal(w.waited_ns, 0);
	r.behind.slots[0] = (struct behind){ .ns = 4000, .tid = 5, .tgid = SELF };
	r.behind.slots[3] = (struct behind){ .ns = 2000, .tid = 6, .tgid = SELF + 1 };
	r.behind.slots[7] = (struct behind){ .ns = 1000, .tid = 7, .tgid = SELF };
	/* no workers: their table does not count */
	r.workers_behind.slots[0] = r.behind.slots[0];
	assert_true(step_overhead_of(&r, &p, SELF, &w));
	assert_int_equal(w.waited_ns, 5000);
	assert_int_equal(w.ns, 2 * 800 + 9150 + 10 * 160 + 5000);
}

/* Workers hit the probes in parallel, and wait for one another. */
TEST(test_workers)
{
	struct rec_step r = { .h.dur_ns = 1000000, .workers = 3 };
	struct probe_costs p = prices();
	struct step_overhead w;

	r.workers_ns[ST_CPU] = 3000000;
	r.hits.n[HIT_ENTRY] = 100;
	r.workers_hits.n[HIT_ENTRY] = 300;
	assert_true(step_overhead_of(&r, &p, SELF, &w));
	assert_int_equal(w.ns, 100 * 800);
	r.behind.slots[0] = (struct behind){ .ns = 4000, .tid = 5, .tgid = SELF };
	r.workers_behind.slots[0] = (struct behind){ .ns = 6000, .tid = 5, .tgid = SELF };
	assert_true(step_overhead_of(&r, &p, SELF, &w));
	assert_int_equal(w.waited_ns, 10000);
	assert_int_equal(w.ns, 100 * 800 + 10000);
}

/* Once per 10 ms on a CPU, whatever the thread does there. */
TEST(test_samples)
{
	struct rec_step r = { .h.dur_ns = 300000000, .workers = 1 };
	struct probe_costs p = prices();
	struct step_overhead w;

	p.sample_ns = 5000;
	p.sample_period_ns = 10000000;
	r.ns[ST_CPU] = 50000000;
	r.ns[ST_BARRIER] = 30000000;
	r.ns[ST_SYSCALL] = 20000000;
	r.ns[ST_RUNNABLE] = r.ns[ST_BLOCKED_FUTEX] = 100000000;
	r.workers_ns[ST_CPU] = 300000000;
	assert_true(step_overhead_of(&r, &p, SELF, &w));
	assert_int_equal(w.ns, (10 * 5000 + 30 * 5000) / 2);
	/* while samples are left out */
	r.left_out = 1u << SHED_SAMPLES;
	assert_true(step_overhead_of(&r, &p, SELF, &w));
	assert_int_equal(w.ns, 0);
	r.left_out = 1u << SHED_BARRIERS;
	assert_true(step_overhead_of(&r, &p, SELF, &w));
	assert_int_equal(w.ns, (10 * 5000 + 30 * 5000) / 2);
	p.sample_period_ns = 0;
	assert_true(step_overhead_of(&r, &p, SELF, &w));
	assert_int_equal(w.ns, 0);
}

/* The cost cannot exceed the step. */
TEST(test_limit)
{
	struct rec_step r = { .h.dur_ns = 1000, .workers = 1 };
	struct probe_costs p = prices();
	struct step_overhead w;

	r.workers_ns[ST_RUNNABLE] = 500;
	r.hits.n[HIT_ENTRY] = UINT32_MAX;
	r.workers_hits.n[HIT_STEPPED] = UINT32_MAX;
	assert_true(step_overhead_of(&r, &p, SELF, &w));
	assert_int_equal(w.ns, 1000);
	assert_int_equal(w.waited_ns, 0);
	r.behind.slots[0] = (struct behind){ .ns = 4000, .tid = 5, .tgid = SELF };
	assert_true(step_overhead_of(&r, &p, SELF, &w));
	assert_int_equal(w.ns, 1000);
	assert_int_equal(w.waited_ns, 1000);
}

RUN_TESTS(NULL, NULL)
