// SPDX-License-Identifier: BSD-2-Clause
/* The steps of a report by column: what is stored can be read back. */
#include "report/model.h"
#include "unit.h"

static uint64_t random_state = 1;

static uint64_t draw(void)
{
	return next_random(&random_state);
}

/* Of all sizes, most of them small. */
static uint64_t number(unsigned int bits)
{
	return draw() >> (64 - bits) >> draw() % bits;
}

static struct stall_info random_stall(void)
{
	return (struct stall_info){
		.ns = (int64_t)number(63),
		.late = (int64_t)number(40),
		.by = (uint32_t)number(32),
		.by_tid = (uint32_t)number(32),
		.state = (uint8_t)(draw() % (STATE_NONE + 1)),
	};
}

static struct step random_step(void)
{
	struct step s = { .stall = random_stall(), .straggler = random_stall() };

	s.ts = (int64_t)number(63);
	s.at = (int64_t)number(63);
	s.total = (int64_t)number(40);
	s.gap = (int64_t)number(20) - 1;
	for (size_t i = 0; i < STATES; i++) {
		s.own[i] = (int64_t)number(40);
		s.workers[i] = i % 3 ? 0 : (int64_t)number(63);
	}
	s.workers_total = (int64_t)number(63);
	s.held = (int64_t)number(30);
	s.straggler_tid = (uint32_t)number(22);
	s.straggler_comm = (uint32_t)number(32);
	s.number = (uint32_t)number(32);
	s.tid = 4711;
	s.n_tokens = (uint32_t)number(32);
	s.phase = (uint32_t)number(3);
	s.recording = (uint32_t)number(8);
	s.lane = (uint32_t)number(16);
	s.context = number(64);
	s.syscalls = (uint32_t)number(32);
	s.faults_minor = (uint32_t)number(7);
	s.faults_major = (uint32_t)number(15);
	s.lost = (uint32_t)number(31);
	s.n_workers = (uint32_t)number(8);
	s.cpus_allowed = 2;
	s.cpu_limit = (int64_t)number(20);
	s.behind = (uint32_t)number(32);
	s.n_behind = (uint8_t)number(3);
	s.n_workers_behind = (uint8_t)number(8);
	s.ops = (uint32_t)number(32);
	s.n_ops = (uint32_t)number(9);
	s.typical = (uint32_t)number(20);
	for (size_t i = 0; i < ROW_VALUES; i++)
		s.rows[i] = number(64);
	s.unfinished = draw() & 1;
	s.began_before = draw() & 1;
	return s;
}

static void assert_stall(const struct stall_info *a, const struct stall_info *b)
{
	assert_true(a->ns == b->ns && a->late == b->late && a->by == b->by &&
		    a->by_tid == b->by_tid && a->state == b->state);
}

static void assert_step(const struct step *a, const struct step *b)
{
	assert_true(a->ts == b->ts && a->at == b->at && a->total == b->total && a->gap == b->gap);
	assert_memory_equal(a->own, b->own, sizeof(a->own));
	assert_memory_equal(a->workers, b->workers, sizeof(a->workers));
	assert_stall(&a->stall, &b->stall);
	assert_stall(&a->straggler, &b->straggler);
	assert_true(a->workers_total == b->workers_total && a->held == b->held &&
		    a->straggler_tid == b->straggler_tid && a->straggler_comm == b->straggler_comm);
	assert_true(a->number == b->number && a->tid == b->tid && a->n_tokens == b->n_tokens &&
		    a->phase == b->phase && a->recording == b->recording && a->lane == b->lane &&
		    a->context == b->context);
	assert_true(a->syscalls == b->syscalls && a->faults_minor == b->faults_minor &&
		    a->faults_major == b->faults_major && a->lost == b->lost &&
		    a->n_workers == b->n_workers && a->cpus_allowed == b->cpus_allowed &&
		    a->cpu_limit == b->cpu_limit);
	assert_true(a->behind == b->behind && a->n_behind == b->n_behind &&
		    a->n_workers_behind == b->n_workers_behind && a->ops == b->ops &&
		    a->n_ops == b->n_ops && a->typical == b->typical);
	assert_memory_equal(a->rows, b->rows, sizeof(a->rows));
	assert_true(a->unfinished == b->unfinished && a->began_before == b->began_before);
}

#define COUNT 1000

TEST(test_round_trip)
{
	static struct step made[COUNT];
	struct steps steps = { 0 };
	uint32_t order[COUNT];
	struct step got;

	for (size_t i = 0; i < COUNT; i++) {
		made[i] = random_step();
		steps_add(&steps, &made[i]);
		order[i] = (uint32_t)((i * 7) % COUNT);
	}
	for (size_t i = 0; i < COUNT; i++) {
		got = steps_load(&steps, i);
		assert_step(&got, &made[i]);
	}
	steps_reorder(&steps, order);
	for (size_t i = 0; i < COUNT; i++) {
		got = steps_load(&steps, i);
		assert_step(&got, &made[order[i]]);
	}
	steps_free(&steps);
}

/* A value of any size may come at any time, even in a column that had only one value. */
TEST(test_widths)
{
	static const int64_t values[] = { 5, 5, -1, 127, 128, -32768, 32768, INT32_MIN, 1LL << 31,
		INT64_MIN, INT64_MAX, 0 };
	const size_t n = sizeof(values) / sizeof(values[0]);
	const struct step none = { 0 };
	struct steps steps = { 0 };

	for (size_t i = 0; i < 3 * n; i++)
		steps_add(&steps, &none);
	assert_true(steps_all_zero(&steps, STEP_GAP));
	for (size_t i = 0; i < n; i++) {
		steps_set(&steps, n + i, STEP_GAP, values[i]);
		for (size_t k = 0; k < 3 * n; k++)
			assert_true(steps_get(&steps, k, STEP_GAP) ==
				    (k >= n && k <= n + i ? values[k - n] : 0));
	}
	assert_true(!steps_all_zero(&steps, STEP_GAP));
	assert_true(steps_load(&steps, n + 10).gap == INT64_MAX);
	steps_free(&steps);
}

/* What is the same in all steps takes no memory. */
TEST(test_same)
{
	const struct step s = { .tid = 7, .own = { 1, 2, 3 }, .rows = { 4 }, .unfinished = true };
	struct steps steps = { 0 };
	struct step got;

	for (size_t i = 0; i < 100; i++)
		steps_add(&steps, &s);
	for (size_t c = 0; c < STEP_COLUMNS; c++)
		assert_null(steps.columns[c].values);
	got = steps_load(&steps, 99);
	assert_step(&got, &s);
	steps_free(&steps);
}

RUN_TESTS(NULL, NULL)
