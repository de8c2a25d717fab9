/* SPDX-License-Identifier: BSD-2-Clause */
/* Synthetic series of steps, with everything that a profile can say about them. */
#ifndef INFTRACE_TEST_SERIES_H
#define INFTRACE_TEST_SERIES_H

#include "report/sentences.h"
#include "report/summary.h"
#include "unit.h"

#define MS 1000000LL

struct series {
	struct model m;
	struct process *p;
	struct phase_names names;
	uint64_t random;
	int64_t now;
	uint32_t number;
	/* of series_sum() */
	struct summary sum;
	char text[SENTENCE_MAX];
};

static inline void series_begin(struct series *s)
{
	memset(s, 0, sizeof(*s));
	s->random = 42;
	model_init(&s->m);
	s->p = model_process(&s->m, 4711, 0);
	s->names = (struct phase_names){ model_name(&s->m, "prefill"), model_name(&s->m, "decode") };
}

static inline uint32_t name_of(struct series *s, const char *name)
{
	return model_name(&s->m, name);
}

/* Within some percent of v. */
static inline int64_t about(struct series *s, int64_t v, int percent)
{
	s->random = s->random * 6364136223846793005ULL + 1442695040888963407ULL;
	return v + v * ((int64_t)(s->random >> 33) % (2 * percent + 1) - percent) / 100;
}

static inline void step_sum(struct step *step)
{
	step->total = step->workers_total = 0;
	for (unsigned int i = 0; i < STATES; i++) {
		step->total += step->own[i];
		step->workers_total += step->workers[i];
	}
}

/* An ordinary decode step of some 40 ms on two threads. */
static inline struct step usual(struct series *s)
{
	struct step step = {
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

static inline void series_add(struct series *s, struct step *step)
{
	step_sum(step);
	process_add_step(s->p, step);
	s->now += step->total + about(s, 300000, 10);
	s->number++;
}

static inline void add_usual(struct series *s, int n)
{
	for (int i = 0; i < n; i++) {
		struct step step = usual(s);

		series_add(s, &step);
	}
}

static inline void series_end(struct series *s)
{
	model_finish(&s->m);
	typical_find(s->p);
}

/* Returns the verdict on a step; all others must be within noise. */
static inline struct cause verdict(struct series *s, uint32_t number)
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

/* Returns what the report says about them all. */
static inline const struct summary *series_sum(struct series *s)
{
	summary_free(&s->sum);
	summary_make(s->p, &s->m, &s->names, &s->sum);
	return &s->sum;
}

static inline void series_free(struct series *s)
{
	summary_free(&s->sum);
	model_free(&s->m);
}

/* Returns what it says about the slowest one. */
static inline const char *slowest(struct series *s)
{
	assert_true(s->sum.n_slow > 0);
	return words_slow(&s->m, s->p, &s->sum.slow[0], s->text);
}

static inline void assert_sentence(struct series *s, const char *wanted)
{
	series_sum(s);
	assert_string_equal(slowest(s), wanted);
}

static inline void assert_near(int64_t got, int64_t wanted)
{
	if (llabs(got - wanted) > 2 * MS)
		fail_msg("%lld ns, not about %lld", (long long)got, (long long)wanted);
}

/* After 100 usual steps: this one, then 100 more. */
static inline struct cause verdict_between(struct series *s, struct step *step)
{
	uint32_t number = s->number;

	series_add(s, step);
	add_usual(s, 100);
	return verdict(s, number);
}

/* The same; returns what the report says about them all. */
static inline const struct summary *sum_between(struct series *s, struct step *step)
{
	series_add(s, step);
	add_usual(s, 100);
	series_end(s);
	return series_sum(s);
}

/* A series with 100 usual steps; returns the next one, to be disturbed. */
static inline struct step step_behind_usual(struct series *s)
{
	series_begin(s);
	add_usual(s, 100);
	return usual(s);
}

static inline struct behind_info behind(struct series *s, const char *name, uint32_t tid, int64_t ns)
{
	return (struct behind_info){ .by = name_of(s, name), .tid = tid, .pid = tid, .ns = ns };
}

#endif
