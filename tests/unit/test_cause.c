// SPDX-License-Identifier: BSD-2-Clause
/* The verdict on a step: series with one disturbance each. */
#include "series.h"

static struct wait_info waited_behind(struct series *s, uint32_t tid, int64_t ns, uint32_t by_tid)
{
	return (struct wait_info){ .ns = ns, .tid = tid, .state = ST_RUNNABLE, .behind = name_of(s, "cc1plus"), .behind_tid = by_tid };
}

TEST(test_nothing)
{
	struct series s;

	series_begin(&s);
	add_usual(&s, 1000);
	verdict(&s, UINT32_MAX);
	series_free(&s);
}

TEST(test_own_states)
{
	static const uint8_t states[] = { ST_CPU, ST_SYSCALL, ST_FAULT, ST_IRQ, ST_RUNNABLE,
		ST_BLOCKED_FUTEX, ST_BLOCKED_IO, ST_BLOCKED_NET, ST_BLOCKED_IPC, ST_BLOCKED_POLL,
		ST_BLOCKED_SLEEP, ST_BLOCKED_FAULT, ST_BLOCKED_GPU, ST_BLOCKED_OTHER, ST_STOPPED,
		STATE_OTHER };

	for (size_t i = 0; i < sizeof(states); i++) {
		struct series s;
		struct step step = step_behind_usual(&s);
		struct cause c;

		step.own[states[i]] += 139 * MS;
		/* the worker waits at the barrier meanwhile */
		step.workers[ST_BARRIER] += 139 * MS;
		step.wait = (struct wait_info){ .ns = 139 * MS, .tid = 990, .comm = name_of(&s, "cc1plus") };
		if (states[i] == ST_RUNNABLE)
			step.wait = waited_behind(&s, 4711, 139 * MS, 990);
		c = verdict_between(&s, &step);
		assert_int_equal(c.where, WHERE_OWN);
		assert_int_equal(c.state, states[i]);
		assert_near(c.part, 139 * MS);
		assert_near(c.excess, 139 * MS);
		assert_near(c.typical, 40 * MS);
		assert_int_equal(c.by_tid, states[i] < ST_RUNNABLE ? 0 : 990);
		series_free(&s);
	}
}

TEST(test_straggler)
{
	struct series s;
	struct step step = step_behind_usual(&s);
	struct cause c;

	step.own[ST_BARRIER] += 139 * MS;
	step.workers[ST_RUNNABLE] += 139 * MS;
	step.held = 140 * MS;
	step.wait = waited_behind(&s, 4712, 139 * MS, 990);
	c = verdict_between(&s, &step);
	assert_int_equal(c.where, WHERE_STRAGGLER);
	assert_int_equal(c.state, ST_RUNNABLE);
	assert_int_equal(c.tid, 4712);
	assert_near(c.part, 139 * MS);
	steps_set(&s.p->steps, 100, STEP_TOTAL, 183 * MS);
	assert_sentence(&s,
		"step 100, 183 ms instead of 40.0 ms: worker 4712 waited 139 ms for a CPU "
		"behind pid 990 `cc1plus`");
	series_free(&s);
}

/* The thread at the end of the way is named, with what it did. */
TEST(test_chain)
{
	struct series s;
	struct step step = step_behind_usual(&s);
	struct cause c;

	step.own[ST_BLOCKED_FUTEX] += 139 * MS;
	step.wait = (struct wait_info){ .ns = 138 * MS, .tid = 990, .comm = name_of(&s, "writer"), .name = name_of(&s, "writer: blocked_io in fsync") };
	c = verdict_between(&s, &step);
	assert_int_equal(c.where, WHERE_OWN);
	assert_int_equal(c.by_tid, 990);
	steps_set(&s.p->steps, 100, STEP_TOTAL, 183 * MS);
	assert_sentence(&s,
		"step 100, 183 ms instead of 40.0 ms: the calling thread waited 139 ms for a lock, 138 ms of it by `writer: blocked_io in fsync`");
	series_free(&s);
	/* it kept the straggler waiting */
	step = step_behind_usual(&s);
	step.own[ST_BARRIER] += 139 * MS;
	step.held = 140 * MS;
	step.wait = (struct wait_info){ .ns = 138 * MS, .tid = 990, .comm = name_of(&s, "writer"), .name = name_of(&s, "writer: cpu") };
	c = verdict_between(&s, &step);
	assert_int_equal(c.tid, 4712);
	series_sum(&s);
	assert_string_equal(strstr(slowest(&s), " longer"), " longer at barriers for worker 4712, 138 ms of it by `writer: cpu`");
	series_free(&s);
	/* nobody else: the call and its file */
	step = step_behind_usual(&s);
	step.own[ST_BLOCKED_IO] += 139 * MS;
	step.wait = (struct wait_info){ .ns = 138 * MS, .tid = 4711, .state = ST_BLOCKED_IO, .name = name_of(&s, "read of models/x") };
	verdict_between(&s, &step);
	steps_set(&s.p->steps, 100, STEP_TOTAL, 183 * MS);
	assert_sentence(&s,
		"step 100, 183 ms instead of 40.0 ms: the calling thread waited 139 ms for a disk, 138 ms of it in `read of models/x`");
	series_free(&s);
}

/* A thread that joined late: what it did before is in no sum. */
TEST(test_straggler_late)
{
	struct series s;
	struct step step = step_behind_usual(&s);
	struct cause c;

	step.own[ST_BARRIER] += 60 * MS;
	step.held = 60 * MS;
	c = verdict_between(&s, &step);
	assert_int_equal(c.where, WHERE_OWN);
	assert_int_equal(c.state, ST_BARRIER);
	assert_int_equal(c.tid, 4712);
	steps_set(&s.p->steps, 100, STEP_TOTAL, 100 * MS);
	assert_sentence(&s,
		"step 100, 100 ms instead of 40.0 ms: the calling thread waited 60.6 ms "
		"longer at barriers for worker 4712");
	series_free(&s);
}

/* ---- one disturbance, one verdict ---- */

struct disturbance {
	/* the step's excess over the usual, and its workers' */
	int64_t own[STATES], workers[STATES];
	int64_t held;	      /* 0: as usual */
	bool nobody_held;     /* no straggler is known */
	int64_t runnable;     /* within that wait the straggler waited for a CPU, behind pid 990 */
	bool busy;            /* or it ran all the time */
	/* the verdict; 0: not checked */
	enum cause_where where;
	uint8_t state, second;
	int64_t part, second_part;
	uint32_t tid, by_tid;
};

static void check_disturbance(const struct disturbance *d)
{
	struct series s;
	struct step step = step_behind_usual(&s);
	struct cause c;

	for (unsigned int i = 0; i < STATES; i++) {
		step.own[i] += d->own[i];
		step.workers[i] += d->workers[i];
	}
	if (d->held)
		step.held = d->held;
	if (d->nobody_held)
		step.straggler_tid = 0;
	if (d->runnable)
		step.wait = waited_behind(&s, 4712, d->runnable, 990);
	if (d->busy)
		step.wait = (struct wait_info){ .ns = d->held, .tid = 4712, .state = ST_CPU };
	c = verdict_between(&s, &step);
	assert_int_equal(c.where, d->where);
	assert_int_equal(c.state, d->state);
	if (d->part)
		assert_near(c.part, d->part);
	if (d->second) {
		assert_int_equal(c.second, d->second);
		assert_near(c.second_part, d->second_part);
	}
	if (d->tid)
		assert_int_equal(c.tid, d->tid);
	assert_int_equal(c.by_tid, d->by_tid);
	series_free(&s);
}

#define DISTURBANCE(name, ...)                                                          \
	TEST(test_##name)                                                               \
	{                                                                               \
		check_disturbance(&(const struct disturbance){ __VA_ARGS__ });          \
	}

/* Many waits at barriers: the straggler of the longest is named, the sum is reported. */
DISTURBANCE(straggler_slices,
	.own = { [ST_BARRIER] = 139 * MS }, .workers = { [ST_RUNNABLE] = 139 * MS },
	.held = 9 * MS, .runnable = 8 * MS,
	.where = WHERE_WORKERS, .state = ST_RUNNABLE, .part = 139 * MS, .tid = 4712, .by_tid = 990)

/* The awaited thread ran all the time. */
DISTURBANCE(straggler_busy,
	.own = { [ST_BARRIER] = 60 * MS }, .workers = { [ST_CPU] = 60 * MS },
	.held = 60 * MS, .busy = true,
	.where = WHERE_STRAGGLER, .state = ST_CPU, .part = 60 * MS, .tid = 4712)

/* Older profiles name no straggler; what the workers did tells all the same. */
DISTURBANCE(workers,
	.own = { [ST_BARRIER] = 80 * MS }, .workers = { [ST_STOPPED] = 3 * 80 * MS },
	.nobody_held = true,
	.where = WHERE_WORKERS, .state = ST_STOPPED, .part = 80 * MS)

/* Nothing is known about the others: the barrier is the verdict. */
DISTURBANCE(barrier_alone,
	.own = { [ST_BARRIER] = 80 * MS },
	.nobody_held = true,
	.where = WHERE_OWN, .state = ST_BARRIER)

/* The calling thread took over the work of one that could not run. */
DISTURBANCE(taken_over,
	.own = { [ST_CPU] = 30 * MS }, .workers = { [ST_RUNNABLE] = 60 * MS, [ST_CPU] = -30 * MS },
	.where = WHERE_WORKERS, .state = ST_RUNNABLE, .part = 30 * MS)

/* Workers without work slept; that is no cause. */
DISTURBANCE(idle_workers,
	.own = { [ST_CPU] = 60 * MS }, .workers = { [ST_BLOCKED_FUTEX] = 60 * MS },
	.where = WHERE_OWN, .state = ST_CPU, .part = 60 * MS)

DISTURBANCE(second,
	.own = { [ST_BLOCKED_IO] = 60 * MS, [ST_SYSCALL] = 30 * MS },
	.where = WHERE_OWN, .state = ST_BLOCKED_IO, .second = ST_SYSCALL, .second_part = 30 * MS)

/* As --budget leaves them without barriers; half as long, as steps without probe overhead are. */
static struct step without_barriers(struct series *s)
{
	struct step step = usual(s);

	step.left_out = 1u << SHED_BARRIERS;
	step.own[ST_CPU] = (step.own[ST_CPU] + step.own[ST_BARRIER]) / 2;
	step.own[ST_BARRIER] = 0;
	memset(step.workers, 0, sizeof(step.workers));
	step.straggler_tid = 0;
	step.held = 0;
	return step;
}

static void add_without_barriers(struct series *s, int n)
{
	for (int i = 0; i < n; i++) {
		struct step step = without_barriers(s);

		series_add(s, &step);
	}
}

/* They are compared with one another: next to them, all steps with barriers would be slow. */
TEST(test_left_out)
{
	struct series s;
	struct step slow;
	struct cause c;

	series_begin(&s);
	add_without_barriers(&s, 60);
	add_usual(&s, 60);
	add_without_barriers(&s, 60);
	slow = without_barriers(&s);
	slow.own[ST_CPU] += 139 * MS;
	series_add(&s, &slow);
	add_without_barriers(&s, 60);
	c = verdict(&s, 180);
	assert_int_equal(c.where, WHERE_OWN);
	assert_int_equal(c.state, ST_CPU);
	assert_true(c.unseen);
	assert_near(c.typical, 20 * MS);
	steps_set(&s.p->steps, 180, STEP_TOTAL, 160 * MS);
	series_free(&s);
}

/* Verdicts that need no barriers are the same for them. */
TEST(test_left_out_runnable)
{
	struct series s;
	struct step slow;
	struct cause c;

	series_begin(&s);
	add_without_barriers(&s, 100);
	slow = without_barriers(&s);
	slow.own[ST_RUNNABLE] += 60 * MS;
	slow.own[ST_CPU] += 30 * MS;
	slow.wait = waited_behind(&s, 4711, 60 * MS, 990);
	series_add(&s, &slow);
	add_without_barriers(&s, 100);
	c = verdict(&s, 100);
	assert_int_equal(c.where, WHERE_OWN);
	assert_int_equal(c.state, ST_RUNNABLE);
	assert_false(c.unseen);
	assert_int_equal(c.second, STATE_NONE); /* work, or a wait at barriers: unknown */
	assert_int_equal(c.by_tid, 990);
	series_free(&s);
}

/* Which of them took longer than usual is unknown, and theirs do not define the usual. */
TEST(test_left_out_ops)
{
	struct series s;
	struct step step;
	uint32_t op;
	int64_t ns;

	series_begin(&s);
	for (int i = 0; i < 100; i++) {
		struct op_time ops = { name_of(&s, "mul_mat"), about(&s, 30 * MS, 2) };

		step = usual(&s);
		step.left_out = i % 3 ? 1u << SHED_OPERATORS : 0;
		if (i == 40)
			ops.ns += 20 * MS; /* left out, too */
		series_add(&s, &step);
		process_add_ops(s.p, 0, step.number, &ops, i % 3 && i != 40 ? 0 : 1);
	}
	series_end(&s);
	step = steps_load(&s.p->steps, 40);
	ns = cause_op(s.p, &step, &op);
	assert_int_equal(ns, 0);
	step = steps_load(&s.p->steps, 45);
	ns = cause_op(s.p, &step, &op);
	assert_true(ns < 5 * MS);
	series_free(&s);
}

TEST(test_op)
{
	struct series s;
	struct step slow;
	struct op_time ops[2];
	uint32_t op;
	int64_t ns;

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
		process_add_ops(s.p, 0, step.number, ops, 2);
		process_add_ops(s.p, 1, step.number, ops, 1); /* none */
	}
	series_end(&s);
	slow = steps_load(&s.p->steps, 50);
	ns = cause_op(s.p, &slow, &op);
	assert_string_equal(model_text(&s.m, op), "soft_max");
	assert_near(ns, 20 * MS);
	for (int i = 0; i < 100; i++)
		assert_int_equal(steps_get(&s.p->steps, (size_t)i, STEP_N_OPS), 2);
	series_free(&s);
}

RUN_TESTS(NULL, NULL)
