// SPDX-License-Identifier: BSD-2-Clause
/* The verdict on steps: synthetic series with one disturbance each, in all that a profile can say
 * of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "report/summary.h"
#include "report/words.h"

#define MS 1000000LL

struct series {
	struct model m;
	struct process *p;
	struct phase_names names;
	uint64_t random;
	int64_t now;
	uint32_t number;
};

static void series_begin(struct series *s)
{
	memset(s, 0, sizeof(*s));
	s->random = 42;
	assert_int_equal(model_init(&s->m), 0);
	assert_int_equal(model_process(&s->m, 4711, 0, &s->p), 0);
	assert_int_equal(model_name(&s->m, "prefill", &s->names.prefill), 0);
	assert_int_equal(model_name(&s->m, "decode", &s->names.decode), 0);
}

static uint32_t name_of(struct series *s, const char *name)
{
	uint32_t id;

	assert_int_equal(model_name(&s->m, name, &id), 0);
	return id;
}

/* Within some percent of v. */
static int64_t about(struct series *s, int64_t v, int percent)
{
	s->random = s->random * 6364136223846793005ULL + 1442695040888963407ULL;
	return v + v * ((int64_t)(s->random >> 33) % (2 * percent + 1) - percent) / 100;
}

static void step_sum(struct step *step)
{
	step->total = step->workers_total = 0;
	for (unsigned int i = 0; i < STATES; i++) {
		step->total += step->own[i];
		step->workers_total += step->workers[i];
	}
}

/* A decode step of some 40 ms on two threads, as they usually are. */
static struct step usual(struct series *s)
{
	struct step step = {
		.stall.state = STATE_NONE,
		.straggler.state = STATE_NONE,
		.number = s->number,
		.tid = 4711,
		.phase = s->names.decode,
		.n_tokens = 1,
		.ts = s->now,
		.straggler_tid = 4712,
		.held = 50000,
	};

	step.own[ST_CPU] = about(s, 37 * MS, 2);
	step.own[ST_BARRIER] = about(s, 3 * MS, 20);
	step.own[ST_SYSCALL] = about(s, 40000, 50);
	step.own[ST_BLOCKED_FUTEX] = about(s, 20000, 50);
	step.workers[ST_CPU] = about(s, 37 * MS, 2);
	step.workers[ST_BARRIER] = about(s, 3 * MS, 20);
	step_sum(&step);
	return step;
}

static void series_add(struct series *s, struct step *step)
{
	step_sum(step);
	assert_int_equal(process_add_step(s->p, step), 0);
	s->now += step->total + about(s, 300000, 10);
	s->number++;
}

static void add_usual(struct series *s, int n)
{
	for (int i = 0; i < n; i++) {
		struct step step = usual(s);

		series_add(s, &step);
	}
}

static void series_end(struct series *s)
{
	assert_int_equal(model_finish(&s->m), 0);
	assert_int_equal(typical_find(s->p), 0);
}

/* The verdict on a step; all others must be within noise. */
static struct cause verdict(struct series *s, uint32_t number)
{
	struct cause c, found = { 0 };

	series_end(s);
	for (size_t i = 0; i < s->p->steps.len; i++) {
		const struct step step = steps_load(&s->p->steps, i);

		cause_find(s->p, &step, &c);
		if (step.number == number)
			found = c;
		else if (c.where != WHERE_NONE)
			fail_msg("step %u: %lld ns more", step.number,
				(long long)c.excess);
	}
	return found;
}

static void assert_sentence(struct series *s, const char *wanted)
{
	struct summary sum;
	char text[SENTENCE_MAX];

	assert_int_equal(summary_make(s->p, NULL, &s->names, &sum), 0);
	assert_true(sum.n_slow > 0);
	assert_int_equal(words_slow(&s->m, s->p, &sum.slow[0], text), 0);
	assert_string_equal(text, wanted);
	summary_free(&sum);
}

static void assert_near(int64_t got, int64_t wanted)
{
	if (llabs(got - wanted) > 2 * MS)
		fail_msg("%lld ns, not about %lld", (long long)got, (long long)wanted);
}

/* 100 usual steps, the one, 100 more. */
static struct cause verdict_between(struct series *s, struct step *step)
{
	uint32_t number = s->number;

	series_add(s, step);
	add_usual(s, 100);
	return verdict(s, number);
}

/* A series with 100 usual steps; returns the next one, to be disturbed. */
static struct step step_behind_usual(struct series *s)
{
	series_begin(s);
	add_usual(s, 100);
	return usual(s);
}

static struct behind_info behind(struct series *s, const char *name, uint32_t tid, int64_t ns)
{
	return (struct behind_info){ .by = name_of(s, name), .tid = tid, .pid = tid, .ns = ns };
}

static void assert_cause(
	struct series *s, const struct summary *sum, size_t i, int64_t excess, const char *wanted)
{
	char text[SENTENCE_MAX];

	assert_true(i < sum->n_causes);
	assert_string_equal(words_cause(&s->m, &sum->causes[i], text), wanted);
	assert_near(sum->causes[i].excess, excess);
	assert_int_equal(sum->causes[i].steps, 1);
}

static void test_nothing(void **state)
{
	struct series s;

	(void)state;
	series_begin(&s);
	add_usual(&s, 1000);
	verdict(&s, UINT32_MAX);
	model_free(&s.m);
}

static void test_own_states(void **state)
{
	static const uint8_t states[] = { ST_CPU, ST_SYSCALL, ST_FAULT, ST_IRQ, ST_RUNNABLE,
		ST_BLOCKED_FUTEX, ST_BLOCKED_IO, ST_BLOCKED_NET, ST_BLOCKED_IPC, ST_BLOCKED_POLL,
		ST_BLOCKED_SLEEP, ST_BLOCKED_FAULT, ST_BLOCKED_GPU, ST_BLOCKED_OTHER, ST_STOPPED,
		STATE_OTHER };

	(void)state;
	for (size_t i = 0; i < sizeof(states); i++) {
		struct series s;
		struct step step;
		struct cause c;

		step = step_behind_usual(&s);
		step.own[states[i]] += 139 * MS;
		/* meanwhile the worker waits at the barrier */
		step.workers[ST_BARRIER] += 139 * MS;
		step.stall =
			(struct stall_info){ .state = states[i], .ns = 139 * MS, .by_tid = 990 };
		step.stall.by = name_of(&s, "cc1plus");
		c = verdict_between(&s, &step);
		assert_int_equal(c.where, WHERE_OWN);
		assert_int_equal(c.state, states[i]);
		assert_near(c.part, 139 * MS);
		assert_near(c.excess, 139 * MS);
		assert_near(c.typical, 40 * MS);
		assert_int_equal(c.by_tid, 990);
		model_free(&s.m);
	}
}

static void test_straggler(void **state)
{
	struct series s;
	struct step step;
	struct cause c;

	(void)state;
	step = step_behind_usual(&s);
	step.own[ST_BARRIER] += 139 * MS;
	step.workers[ST_RUNNABLE] += 139 * MS;
	step.held = 140 * MS;
	step.straggler = (struct stall_info){ .state = ST_RUNNABLE, .ns = 139 * MS, .by_tid = 990 };
	step.straggler.by = name_of(&s, "cc1plus");
	c = verdict_between(&s, &step);
	assert_int_equal(c.where, WHERE_STRAGGLER);
	assert_int_equal(c.state, ST_RUNNABLE);
	assert_int_equal(c.tid, 4712);
	assert_near(c.part, 139 * MS);
	assert_int_equal(steps_set(&s.p->steps, 100, STEP_TOTAL, 183 * MS), 0);
	assert_sentence(&s,
		"step 100, 183 ms instead of 40.0 ms: worker 4712 waited 139 ms for a CPU "
		"behind pid 990 `cc1plus`");
	model_free(&s.m);
}

/* Many slices: the longest is known, the sum is told. */
static void test_straggler_slices(void **state)
{
	struct series s;
	struct step step;
	struct cause c;

	(void)state;
	step = step_behind_usual(&s);
	step.own[ST_BARRIER] += 139 * MS;
	step.workers[ST_RUNNABLE] += 139 * MS;
	step.held = 9 * MS;
	step.straggler = (struct stall_info){ .state = ST_RUNNABLE, .ns = 8 * MS, .by_tid = 990 };
	step.straggler.by = name_of(&s, "cc1plus");
	c = verdict_between(&s, &step);
	assert_int_equal(c.where, WHERE_WORKERS);
	assert_int_equal(c.state, ST_RUNNABLE);
	assert_int_equal(c.tid, 4712);
	assert_int_equal(c.by_tid, 990);
	assert_near(c.part, 139 * MS);
	model_free(&s.m);
}

/* The thread that was waited for ran all the time. */
static void test_straggler_busy(void **state)
{
	struct series s;
	struct step step;
	struct cause c;

	(void)state;
	step = step_behind_usual(&s);
	step.own[ST_BARRIER] += 60 * MS;
	step.workers[ST_CPU] += 60 * MS;
	step.held = 60 * MS;
	c = verdict_between(&s, &step);
	assert_int_equal(c.state, ST_CPU);
	assert_int_equal(c.where, WHERE_STRAGGLER);
	assert_int_equal(c.tid, 4712);
	assert_near(c.part, 60 * MS);
	model_free(&s.m);
}

/* A thread that joined late: what it did before is not in any sum. */
static void test_straggler_late(void **state)
{
	struct series s;
	struct step step;
	struct cause c;

	(void)state;
	step = step_behind_usual(&s);
	step.own[ST_BARRIER] += 60 * MS;
	step.held = 60 * MS;
	c = verdict_between(&s, &step);
	assert_int_equal(c.where, WHERE_OWN);
	assert_int_equal(c.state, ST_BARRIER);
	assert_int_equal(c.tid, 4712);
	assert_int_equal(steps_set(&s.p->steps, 100, STEP_TOTAL, 100 * MS), 0);
	assert_sentence(&s,
		"step 100, 100 ms instead of 40.0 ms: the calling thread waited 60.6 ms "
		"longer at barriers for worker 4712");
	model_free(&s.m);
}

/* Several were in the way: each is named with its share, in the sentence and in the totals, and the shares are
 * all of it. */
static void test_hogs_of(bool workers)
{
	struct series s;
	struct step step;
	struct summary sum;
	int64_t all = 0, waited;

	step = step_behind_usual(&s);
	{
		const struct behind_info rows[] = { behind(&s, "hoga", 990, 50 * MS),
			behind(&s, "hogb", 991, 40 * MS), behind(&s, "hogc", 992, 30 * MS),
			behind(&s, "hogc", 993, 18 * MS) };
		size_t own = workers ? 0 : 4;

		assert_int_equal(process_add_behind(s.p, &step, rows, own, rows, 4 - own), 0);
	}
	waited = 140 * MS;
	if (workers) {
		step.own[ST_BARRIER] += waited;
		step.workers[ST_RUNNABLE] = waited;
		step.held = 9 * MS;
		step.straggler = (struct stall_info){ .state = ST_RUNNABLE, .ns = 8 * MS, .by_tid = 991 };
	} else {
		step.own[ST_RUNNABLE] = waited;
		step.stall = (struct stall_info){ .state = ST_RUNNABLE, .ns = 8 * MS, .by_tid = 991 };
	}
	series_add(&s, &step);
	add_usual(&s, 100);
	series_end(&s);
	assert_int_equal(summary_make(s.p, NULL, &s.names, &sum), 0);
	assert_int_equal(sum.n_causes, 4);
	assert_cause(&s, &sum, 0, 50 * MS,
		workers ? "workers: waited for a CPU behind `hoga`" : "waited for a CPU behind `hoga`");
	assert_cause(&s, &sum, 1, 48 * MS,
		workers ? "workers: waited for a CPU behind `hogc`" : "waited for a CPU behind `hogc`");
	assert_cause(&s, &sum, 2, 40 * MS,
		workers ? "workers: waited for a CPU behind `hogb`" : "waited for a CPU behind `hogb`");
	assert_cause(&s, &sum, 3, 2 * MS,
		workers ? "workers: waited for a CPU behind others" : "waited for a CPU behind others");
	for (size_t i = 0; i < sum.n_causes; i++)
		all += sum.causes[i].excess;
	assert_int_equal(all, sum.slow[0].cause.excess);
	summary_free(&sum);
	assert_int_equal(steps_set(&s.p->steps, 100, STEP_TOTAL, 180 * MS), 0);
	assert_sentence(&s,
		workers ? "step 100, 180 ms instead of 40.0 ms: worker 4712 waited 140 ms for a CPU: 50.0 ms behind "
			  "pid 990 `hoga`, 40.0 ms behind pid 991 `hogb`, 30.0 ms behind pid 992 `hogc`, 18.0 ms behind "
			  "pid 993 `hogc`, 2.00 ms behind others" :
			  "step 100, 180 ms instead of 40.0 ms: the calling thread waited 140 ms for a CPU: 50.0 ms behind "
			  "pid 990 `hoga`, 40.0 ms behind pid 991 `hogb`, 30.0 ms behind pid 992 `hogc`, 18.0 ms behind "
			  "pid 993 `hogc`, 2.00 ms behind others");
	model_free(&s.m);
}

static void test_hogs(void **state)
{
	(void)state;
	test_hogs_of(false);
	test_hogs_of(true);
}

/* More threads than CPUs: that is the cause, and not who was in the way by chance. */
static void test_crowd(void **state)
{
	struct series s;
	struct summary sum;
	char text[SENTENCE_MAX];

	(void)state;
	series_begin(&s);
	for (int i = 0; i < 3; i++) {
		struct step step = usual(&s);
		struct behind_info own = behind(&s, "engine", 4712, 500 * MS);
		struct behind_info worker = behind(&s, "engine", 4711, 400 * MS);

		own.pid = worker.pid = 4711;
		step.n_workers = step.cpus_allowed = 1;
		assert_int_equal(process_add_behind(s.p, &step, &own, 1, &worker, 1), 0);
		step.own[ST_RUNNABLE] = 500 * MS;
		step.own[ST_BARRIER] = 460 * MS;
		step.workers[ST_RUNNABLE] = 500 * MS;
		step.workers[ST_BARRIER] = 460 * MS;
		series_add(&s, &step);
	}
	series_end(&s);
	assert_int_equal(summary_make(s.p, NULL, &s.names, &sum), 0);
	assert_int_equal(sum.slow_alone, 3);
	assert_int_equal(sum.crowd.steps, 3);
	assert_int_equal(sum.crowd.waited, 3 * 900 * MS);
	assert_true(strstr(words_crowd(&sum.crowd, text),
			    "2 spinning threads share 1 allowed CPU: they waited 2.70 s for it ") == text);
	assert_string_equal(words_cause(&s.m, &sum.causes[0], text),
		"waited for a CPU behind one another: more threads than allowed CPUs");
	assert_int_equal(words_slow(&s.m, s.p, &sum.slow[0], text), 0);
	assert_non_null(strstr(text, ": 2 spinning threads share 1 allowed CPU: the calling thread waited 500 ms "
				     "for a CPU behind its own thread 4712 `engine`"));
	summary_free(&sum);

	/* with a CPU for each it is the scheduler's choice */
	for (int i = 0; i < 3; i++)
		assert_int_equal(steps_set(&s.p->steps, (size_t)i, STEP_CPUS_ALLOWED, 2), 0);
	assert_int_equal(summary_make(s.p, NULL, &s.names, &sum), 0);
	assert_int_equal(sum.crowd.threads, 0);
	summary_free(&sum);
	model_free(&s.m);
}

static void test_limited(void **state)
{
	struct series s;
	struct summary sum;
	char text[SENTENCE_MAX];

	(void)state;
	series_begin(&s);
	for (int i = 0; i < 3; i++) {
		struct step step = usual(&s);
		struct behind_info row = behind(&s, "cpu.max", 0, 50 * MS);

		row.limit = true;
		step.n_workers = 1;
		step.cpus_allowed = 2;
		step.cpu_limit = 1500;
		assert_int_equal(process_add_behind(s.p, &step, &row, 1, &row, 1), 0);
		step.own[ST_RUNNABLE] = step.workers[ST_RUNNABLE] = 50 * MS;
		step.own[ST_BARRIER] = 40 * MS;
		series_add(&s, &step);
	}
	series_end(&s);
	assert_int_equal(summary_make(s.p, &s.m, &s.names, &sum), 0);
	assert_true(strstr(words_limited(&sum, text),
			    "2 spinning threads share 1.5 CPUs (cgroup cpu.max): held back for 300 ms, ") == text);
	assert_int_equal(words_slow(&s.m, s.p, &sum.slow[0], text), 0);
	assert_non_null(strstr(text, "the calling thread was held back for 50.0 ms by a CPU limit"));
	summary_free(&sum);
	model_free(&s.m);
}

/* A step that hangs is told of, with what it waits for. */
static void test_open(void **state)
{
	struct series s;
	struct step step;
	struct summary sum;
	char text[SENTENCE_MAX];

	(void)state;
	step = step_behind_usual(&s);
	step.unfinished = true;
	step.own[ST_STOPPED] = 1090 * MS;
	step.stall = (struct stall_info){ .state = ST_STOPPED, .ns = 1090 * MS };
	series_add(&s, &step);
	assert_int_equal(steps_set(&s.p->steps, 100, STEP_TOTAL, 1130 * MS), 0);
	series_end(&s);
	assert_int_equal(summary_make(s.p, NULL, &s.names, &sum), 0);
	assert_int_equal(sum.slow_steps, 0);
	assert_int_equal(sum.n_open, 1);
	assert_int_equal(words_open(&s.m, s.p, &sum.open[0], text), 0);
	assert_string_equal(text, "step 100 had not ended after 1.13 s: the calling thread was stopped for 1.09 s by a "
				  "signal or a debugger");
	summary_free(&sum);
	model_free(&s.m);
}

/* Older profiles have no straggler; what the workers did says it all the same. */
static void test_workers(void **state)
{
	struct series s;
	struct step step;
	struct cause c;

	(void)state;
	step = step_behind_usual(&s);
	step.own[ST_BARRIER] += 80 * MS;
	step.workers[ST_STOPPED] += 3 * 80 * MS;
	step.straggler_tid = 0;
	c = verdict_between(&s, &step);
	assert_int_equal(c.where, WHERE_WORKERS);
	assert_int_equal(c.state, ST_STOPPED);
	assert_near(c.part, 80 * MS);
	model_free(&s.m);
}

/* Nothing is known of the others: it stays with the barrier. */
static void test_barrier_alone(void **state)
{
	struct series s;
	struct step step;
	struct cause c;

	(void)state;
	step = step_behind_usual(&s);
	step.own[ST_BARRIER] += 80 * MS;
	step.straggler_tid = 0;
	c = verdict_between(&s, &step);
	assert_int_equal(c.where, WHERE_OWN);
	assert_int_equal(c.state, ST_BARRIER);
	model_free(&s.m);
}

/* The calling thread took over the work of one that could not run. */
static void test_taken_over(void **state)
{
	struct series s;
	struct step step;
	struct cause c;

	(void)state;
	step = step_behind_usual(&s);
	step.own[ST_CPU] += 30 * MS;
	step.workers[ST_RUNNABLE] += 60 * MS;
	step.workers[ST_CPU] -= 30 * MS;
	c = verdict_between(&s, &step);
	assert_int_equal(c.where, WHERE_WORKERS);
	assert_int_equal(c.state, ST_RUNNABLE);
	assert_near(c.part, 30 * MS);
	model_free(&s.m);
}

/* Workers that had nothing to do slept; that is no reason. */
static void test_idle_workers(void **state)
{
	struct series s;
	struct step step;
	struct cause c;

	(void)state;
	step = step_behind_usual(&s);
	step.own[ST_CPU] += 60 * MS;
	step.workers[ST_BLOCKED_FUTEX] += 60 * MS;
	c = verdict_between(&s, &step);
	assert_int_equal(c.where, WHERE_OWN);
	assert_int_equal(c.state, ST_CPU);
	assert_near(c.part, 60 * MS);
	model_free(&s.m);
}

static void test_second(void **state)
{
	struct series s;
	struct step step;
	struct cause c;

	(void)state;
	step = step_behind_usual(&s);
	step.own[ST_BLOCKED_IO] += 60 * MS;
	step.own[ST_SYSCALL] += 30 * MS;
	c = verdict_between(&s, &step);
	assert_int_equal(c.state, ST_BLOCKED_IO);
	assert_int_equal(c.second, ST_SYSCALL);
	assert_near(c.second_part, 30 * MS);
	model_free(&s.m);
}

/* Steps grow with the context, until the next prompt: each is as slow as those around it. */
static void test_growing(void **state)
{
	static const int lengths[] = { 1000, 700, 20, 30, 100, 400, 1000 };
	struct series s;

	(void)state;
	series_begin(&s);
	for (size_t request = 0; request < sizeof(lengths) / sizeof(lengths[0]); request++) {
		struct step step = usual(&s);

		step.phase = s.names.prefill;
		step.n_tokens = 100;
		series_add(&s, &step);
		for (int i = 0; i < lengths[request]; i++) {
			step = usual(&s);
			step.own[ST_CPU] += i * 40000;
			series_add(&s, &step);
		}
	}
	verdict(&s, UINT32_MAX);
	model_free(&s.m);
}

/* The CPU is now faster and now slower; what is no part of that stands out all the same. */
static void test_scatter(void **state)
{
	struct series s;
	struct step step;
	struct cause c;

	(void)state;
	series_begin(&s);
	for (int i = 0; i < 200; i++) {
		step = usual(&s);
		step.own[ST_CPU] = about(&s, 37 * MS, 40);
		if (i == 100) {
			step.own[ST_CPU] = 40 * MS;
			step.own[ST_BLOCKED_IO] = 12 * MS;
		}
		series_add(&s, &step);
	}
	c = verdict(&s, 100);
	assert_int_equal(c.where, WHERE_OWN);
	assert_int_equal(c.state, ST_BLOCKED_IO);
	assert_int_equal(c.part, 12 * MS);
	model_free(&s.m);
}

/* A hundred slow steps in a row do not become what is usual. */
static void test_long_disturbance(void **state)
{
	struct series s;
	struct cause c;
	int found = 0;

	(void)state;
	series_begin(&s);
	add_usual(&s, 1000);
	for (int i = 0; i < 120; i++) {
		struct step step = usual(&s);

		step.own[ST_RUNNABLE] += 40 * MS;
		series_add(&s, &step);
	}
	add_usual(&s, 1000);
	series_end(&s);
	for (size_t i = 0; i < s.p->steps.len; i++) {
		const struct step step = steps_load(&s.p->steps, i);

		cause_find(s.p, &step, &c);
		assert_int_equal(c.where != WHERE_NONE, i >= 1000 && i < 1120);
		found += c.where == WHERE_OWN && c.state == ST_RUNNABLE;
	}
	assert_int_equal(found, 120);
	model_free(&s.m);
}

/* Batches of several sizes take turns; prompts are of any size. Steps are compared with their like.
 */
static void test_sizes(void **state)
{
	struct series s;
	uint32_t slow = 0;
	struct cause c;

	(void)state;
	series_begin(&s);
	for (int i = 0; i < 600; i++) {
		struct step step = usual(&s);

		if (i % 10 == 9) {
			step.phase = s.names.prefill;
			step.n_tokens = (uint32_t)about(&s, 512, 15);
			step.own[ST_CPU] = about(&s, step.n_tokens * MS, 2);
		} else {
			step.n_tokens = 1 + (uint32_t)i % 4;
			step.own[ST_CPU] += (step.n_tokens - 1) * 30 * MS;
		}
		if (i == 399) {
			slow = s.number;
			step.own[ST_BLOCKED_FAULT] = 200 * MS;
		}
		series_add(&s, &step);
	}
	c = verdict(&s, slow);
	assert_int_equal(c.state, ST_BLOCKED_FAULT);
	assert_near(c.part, 200 * MS);
	model_free(&s.m);
}

/* One prompt: nothing to compare with, but what it waited for can be told. */
static void test_alone(void **state)
{
	struct series s;
	struct step step;
	struct cause c;

	(void)state;
	series_begin(&s);
	step = usual(&s);
	step.phase = s.names.prefill;
	step.n_tokens = 2000;
	step.own[ST_CPU] = 3000 * MS;
	step.own[ST_STOPPED] = 400 * MS;
	series_add(&s, &step);
	add_usual(&s, 50);
	c = verdict(&s, 0);
	assert_int_equal(c.compared, 0);
	assert_int_equal(c.state, ST_STOPPED);
	assert_int_equal(c.part, 400 * MS);
	assert_sentence(&s,
		"step 0 (prefill of 2000 tokens), 3.40 s: the calling thread was stopped "
		"for 400 ms by a signal or a debugger");
	model_free(&s.m);
}

/* A step that was cut is no slow step, whatever its time. */
static void test_unfinished(void **state)
{
	struct series s;
	struct step step;

	(void)state;
	step = step_behind_usual(&s);
	step.unfinished = true;
	step.own[ST_RUNNABLE] += 139 * MS;
	series_add(&s, &step);
	assert_int_equal(verdict(&s, 100).where, WHERE_NONE);
	model_free(&s.m);
}

static void test_gap(void **state)
{
	struct series s;
	struct summary sum;
	struct call call = { .ns = 45 * MS };
	char text[SENTENCE_MAX];

	(void)state;
	series_begin(&s);
	call.name = name_of(&s, "sample");
	add_usual(&s, 100);
	call.ts = s.now + MS;
	assert_int_equal(process_add_call(s.p, &call), 0);
	call = (struct call){ call.ts + 1000, 100000, name_of(&s, "inner"), 0 };
	assert_int_equal(process_add_call(s.p, &call), 0);
	s.now += 50 * MS;
	add_usual(&s, 100);
	s.now += 5000 * MS; /* nobody asked for a token */
	add_usual(&s, 100);
	series_end(&s);
	assert_int_equal(summary_make(s.p, NULL, &s.names, &sum), 0);
	assert_int_equal(sum.slow_steps, 0);
	assert_int_equal(sum.slow_gaps, 1);
	assert_int_equal(sum.slow[0].step, 100);
	assert_near(sum.slow[0].cause.excess, 50 * MS);
	assert_int_equal(sum.pauses, 1);
	assert_int_equal(sum.tpot.n, 298);
	assert_near(sum.tpot.max, 90 * MS);
	assert_int_equal(words_slow(&s.m, s.p, &sum.slow[0], text), 0);
	assert_true(strstr(text, "before step 100, 50.3 ms instead of ") == text);
	assert_non_null(
		strstr(text, "us outside of the engine's steps, 45.0 ms of it in `sample`"));
	assert_int_equal(sum.n_calls, 2);
	summary_free(&sum);
	model_free(&s.m);
}

/* From the first of several prefill steps to the end of the last one before a decode step. */
static void test_ttft(void **state)
{
	struct series s;
	struct summary sum;
	int64_t start;

	(void)state;
	series_begin(&s);
	for (int request = 0; request < 3; request++) {
		start = s.now;
		for (int i = 0; i <= request; i++) {
			struct step step = usual(&s);

			step.phase = s.names.prefill;
			step.n_tokens = 512;
			step.own[ST_CPU] = 500 * MS;
			series_add(&s, &step);
		}
		if (request == 2)
			start = s.now - start;
		add_usual(&s, 20);
	}
	series_end(&s);
	assert_int_equal(summary_make(s.p, NULL, &s.names, &sum), 0);
	assert_int_equal(sum.ttft.n, 3);
	assert_near(sum.ttft.max, start);
	assert_int_equal(sum.tpot.n, 60);
	assert_int_equal(sum.n_phases, 2);
	assert_int_equal(sum.phases[0].phase, s.names.prefill); /* it took longer */
	assert_int_equal(sum.phases[0].tokens, 6 * 512);
	summary_free(&sum);
	model_free(&s.m);
}

/* Two contexts at the same time: each one's steps follow one another. Where contexts are not known,
 * it is those of each thread; where they are, threads may change. */
static void test_lanes_of(bool contexts)
{
	struct series s;
	struct summary sum;

	series_begin(&s);
	for (int i = 0; i < 200; i++) {
		struct step step = usual(&s);

		if (contexts)
			step.context = 0xffff000000001000ULL + (uint64_t)i % 2;
		step.tid = 4711 + (contexts ? (uint32_t)i / 7 % 3 : (uint32_t)i % 2);
		step.ts = i / 2 * 41 * MS + i % 2 * 20 * MS;
		step.own[ST_CPU] = 37 * MS;
		step.own[ST_BARRIER] = 3 * MS;
		series_add(&s, &step);
	}
	series_end(&s);
	assert_int_equal(summary_make(s.p, NULL, &s.names, &sum), 0);
	assert_int_equal(sum.tpot.n, 198);
	assert_near(sum.tpot.p50, 41 * MS);
	assert_int_equal(steps_get(&s.p->steps, 0, STEP_LANE), steps_get(&s.p->steps, 99, STEP_LANE));
	assert_int_equal(steps_get(&s.p->steps, 100, STEP_LANE), steps_get(&s.p->steps, 199, STEP_LANE));
	assert_true(steps_get(&s.p->steps, 0, STEP_LANE) != steps_get(&s.p->steps, 100, STEP_LANE));
	summary_free(&sum);
	model_free(&s.m);
}

static void test_lanes(void **state)
{
	(void)state;
	test_lanes_of(false);
	test_lanes_of(true);
}

static void test_op(void **state)
{
	struct series s;
	struct step slow;
	struct op_time ops[2];
	uint32_t op;
	int64_t ns;

	(void)state;
	series_begin(&s);
	for (int i = 0; i < 100; i++) {
		struct step step = usual(&s);

		ops[0] = (struct op_time){ name_of(&s, "mul_mat"), about(&s, 30 * MS, 2) };
		ops[1] = (struct op_time){ name_of(&s, "soft_max"), about(&s, 5 * MS, 2) };
		if (i == 50) {
			step.own[ST_CPU] += 20 * MS;
			ops[1].ns += 20 * MS;
		}
		series_add(&s, &step);
		assert_int_equal(process_add_ops(s.p, 0, step.number, ops, 2), 0);
		assert_int_equal(process_add_ops(s.p, 1, step.number, ops, 1), 0); /* none */
	}
	series_end(&s);
	slow = steps_load(&s.p->steps, 50);
	assert_int_equal(cause_op(s.p, &slow, &op, &ns), 0);
	assert_string_equal(model_text(&s.m, op), "soft_max");
	assert_near(ns, 20 * MS);
	for (int i = 0; i < 100; i++)
		assert_int_equal(steps_get(&s.p->steps, (size_t)i, STEP_N_OPS), 2);
	model_free(&s.m);
}

/* A recording behind another in the same file: the time axis goes on. */
static void test_recordings(void **state)
{
	struct series s;

	(void)state;
	series_begin(&s);
	add_usual(&s, 10);
	s.now = 1 * MS;
	for (int i = 0; i < 10; i++) {
		struct step step = usual(&s);

		step.recording = 1;
		series_add(&s, &step);
	}
	series_end(&s);
	assert_int_equal(s.p->recordings, 2);
	for (size_t i = 1; i < 20; i++)
		assert_true(steps_get(&s.p->steps, i, STEP_AT) >= steps_end(&s.p->steps, i - 1));
	assert_int_equal(steps_get(&s.p->steps, 10, STEP_GAP), -1);
	assert_int_equal(steps_get(&s.p->steps, 10, STEP_TS), 1 * MS);
	model_free(&s.m);
}

static void test_durations(void **state)
{
	static const struct {
		int64_t ns;
		const char *text;
	} cases[] = { { 0, "0 ns" }, { 999, "999 ns" }, { 1000, "1.00 us" }, { 9994, "9.99 us" },
		{ 9996, "10.0 us" }, { 99960, "100 us" }, { 999499, "999 us" },
		{ 999600, "1.00 ms" }, { 183000000, "183 ms" }, { 41040000, "41.0 ms" },
		{ 3400000000, "3.40 s" }, { 610000000000, "610 s" }, { -5000, "-5.00 us" } };
	char buf[DURATION_MAX];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_string_equal(words_duration(buf, cases[i].ns), cases[i].text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_own_states),
		cmocka_unit_test(test_straggler),
		cmocka_unit_test(test_straggler_slices),
		cmocka_unit_test(test_straggler_busy),
		cmocka_unit_test(test_straggler_late),
		cmocka_unit_test(test_hogs),
		cmocka_unit_test(test_crowd),
		cmocka_unit_test(test_limited),
		cmocka_unit_test(test_open),
		cmocka_unit_test(test_workers),
		cmocka_unit_test(test_barrier_alone),
		cmocka_unit_test(test_taken_over),
		cmocka_unit_test(test_idle_workers),
		cmocka_unit_test(test_second),
		cmocka_unit_test(test_growing),
		cmocka_unit_test(test_scatter),
		cmocka_unit_test(test_long_disturbance),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_alone),
		cmocka_unit_test(test_unfinished),
		cmocka_unit_test(test_gap),
		cmocka_unit_test(test_ttft),
		cmocka_unit_test(test_lanes),
		cmocka_unit_test(test_op),
		cmocka_unit_test(test_recordings),
		cmocka_unit_test(test_durations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
