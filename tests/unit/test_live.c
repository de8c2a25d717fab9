// SPDX-License-Identifier: BSD-2-Clause
/* The model of inftrace top, against the report on the same steps. */
#include "top/live.h"
#include "unit.h"
#include "util/names.h"

#define MS INT64_C(1000000)
#define SECOND (1000 * MS)
#define STEPS 600

/* xorshift64 (Marsaglia, 2003): the same on every machine */
static uint64_t draw(void)
{
	static uint64_t seed = 88172645463325252ull;

	return next_random(&seed);
}

static struct live_step make_step(
	uint32_t number, uint32_t tid, int64_t ts, int64_t total, uint32_t tokens)
{
	struct live_step s = {
		.pid = 100,
		.workers = 1,
		.live_phase = tokens > 1 ? LIVE_PREFILL : LIVE_DECODE,
		.step = { .number = number,
			.tid = tid,
			.ts = ts,
			.total = total,
			.n_tokens = tokens },
	};

	strcpy(s.phase, tokens > 1 ? "prefill" : "decode");
	s.step.own[ST_CPU] = total - total / 10;
	s.step.own[ST_BARRIER] = total / 10;
	s.step.workers[ST_CPU] = total / 2;
	s.step.workers[ST_RUNNABLE] = total / 3;
	s.step.workers_total = total / 2 + total / 3;
	return s;
}

/* Prompts of 100 tokens in two parts, each followed by 28 decode steps; some slow, with idle times now and then. */
static void make_run(struct live_step steps[STEPS], int64_t *ret_end)
{
	int64_t now = 5 * MS;

	for (uint32_t i = 0; i < STEPS; i++) {
		uint32_t in_request = i % 30, tokens = in_request < 2 ? 64 - 28 * in_request : 1;
		int64_t total = (int64_t)(draw() % MS) + (tokens > 1 ? 40 : 10) * MS;

		if (!in_request && i)
			now += 3 * SECOND;
		steps[i] = make_step(i, 100, now, total, tokens);
		if (i % 97 == 50) {
			steps[i].step.own[ST_RUNNABLE] = 30 * MS;
			steps[i].step.total += 30 * MS;
			steps[i].wait.row = (struct wait_info){ .ns = 30 * MS, .tid = 100, .behind_tid = 4711, .state = ST_RUNNABLE };
			strcpy(steps[i].wait.behind, "hog");
		}
		now += steps[i].step.total + (int64_t)(draw() % 100000) + 1000;
	}
	*ret_end = now;
}

/* The report of these steps. */
struct reference {
	struct model m;
	struct process *p;
	struct phase_names names;
	struct summary sum;
};

static void reference_make(struct reference *r, const struct live_step *steps, size_t n)
{
	model_init(&r->m);
	r->names.prefill = model_name(&r->m, "prefill");
	r->names.decode = model_name(&r->m, "decode");
	r->p = model_process(&r->m, 100, 0);
	for (size_t i = 0; i < n; i++) {
		struct step s = steps[i].step;

		s.phase = model_name(&r->m, steps[i].phase);
		s.wait = steps[i].wait.row;
		s.wait.behind = model_name(&r->m, steps[i].wait.behind);
		process_add_step(r->p, &s);
	}
	model_finish(&r->m);
	typical_find(r->p);
	summary_make(r->p, NULL, &r->names, &r->sum);
}

static void reference_free(struct reference *r)
{
	summary_free(&r->sum);
	model_free(&r->m);
}

static void check_equal(const struct live_sums *a, const struct live_sums *b)
{
	int64_t own = 0;

	assert_memory_equal(a, b, sizeof(*a));
	for (unsigned int i = 0; i < STATES; i++)
		own += a->own[i];
	assert_int_equal(own, a->total);
}

static void sums_add(struct live_sums *a, const struct live_sums *b)
{
	a->steps += b->steps;
	a->unfinished += b->unfinished;
	a->lossy += b->lossy;
	a->tokens += b->tokens;
	a->prompt_tokens += b->prompt_tokens;
	a->total += b->total;
	a->workers_total += b->workers_total;
	a->tracer += b->tracer;
	a->tracer_of += b->tracer_of;
	a->between += b->between;
	a->idle += b->idle;
	if (b->max_workers > a->max_workers)
		a->max_workers = b->max_workers;
	for (unsigned int i = 0; i < STATES; i++) {
		a->own[i] += b->own[i];
		a->workers[i] += b->workers[i];
	}
}

/* The cost of recording, for the steps for which it is known. */
TEST(test_weight)
{
	const struct live_frame *f;
	struct live_step s;
	struct live *l = live_new();

	for (uint32_t i = 0; i < 4; i++) {
		s = make_step(i, 100, i * MS, MS, 1);
		s.weighed = i > 1;
		s.step.tracer = i > 1 ? 1000 * (int64_t)i : -1;
		live_step(l, &s);
	}
	f = live_frame(l, 5 * MS, true);
	assert_int_equal(f->run.tracer, 5000);
	assert_int_equal(f->run.tracer_of, 2 * MS);
	live_free(l);
}

/* Steps arrive out of order within a round of two; the intervals add up to the run, as in the report. */
TEST(test_run)
{
	static struct live_step steps[STEPS];
	struct live_sums added = { 0 }, expected = { 0 };
	const struct live_frame *f = NULL;
	struct reference r = { 0 };
	struct live *l = live_new();
	int64_t end, phases = 0;

	make_run(steps, &end);
	reference_make(&r, steps, STEPS);
	for (size_t i = 0; i < STEPS; i += 4) {
		live_step(l, &steps[i + 2]);
		live_step(l, &steps[i + 1]);
		live_settled(l);
		live_step(l, &steps[i]);
		live_step(l, &steps[i + 3]);
		live_settled(l);
		f = live_frame(l, steps[i + 3].step.total + steps[i + 3].step.ts, false);
		assert_true(f->run.steps <= i + 4);
		sums_add(&added, &f->last);
		assert_true(!f->last.steps || f->last.max_workers == 1);
	}
	f = live_frame(l, end, true);
	sums_add(&added, &f->last);
	check_equal(&f->run, &added);
	assert_int_equal(f->processes, 1);

	expected.steps = STEPS;
	expected.max_workers = 1;
	for (size_t i = 0; i < STEPS; i++) {
		const struct step loaded = steps_load(&r.p->steps, i), *s = &loaded;

		if (s->phase == r.names.decode)
			expected.tokens++;
		else
			expected.prompt_tokens += s->n_tokens;
		for (unsigned int k = 0; k < STATES; k++) {
			expected.own[k] += s->own[k];
			expected.workers[k] += s->workers[k];
		}
		expected.total += s->total;
		expected.workers_total += s->workers_total;
		if (s->gap > PAUSE_NS)
			expected.idle += s->gap;
		else if (s->gap > 0)
			expected.between += s->gap;
	}
	check_equal(&f->run, &expected);
	for (size_t i = 0; i < r.sum.n_phases; i++)
		phases += r.sum.phases[i].total;
	assert_int_equal(phases, f->run.total);
	live_free(l);
	reference_free(&r);
}

/* The latencies of the last ten seconds equal those of a report on them. */
TEST(test_latencies)
{
	static struct live_step steps[STEPS];
	const struct live_frame *f;
	struct reference r = { 0 };
	size_t first = 0, n = STEPS;
	struct live *l = live_new();
	int64_t end, now;

	make_run(steps, &end);
	f = live_frame(l, 0, false);
	assert_int_equal(f->tpot.n, 0);
	assert_int_equal(f->ttft, 0);
	for (size_t i = 0; i < STEPS; i++)
		live_step(l, &steps[i]);
	now = steps[STEPS - 1].step.ts + steps[STEPS - 1].step.total;
	f = live_frame(l, now, true);
	while (steps[first].step.ts + steps[first].step.total < now - LIVE_TPOT_NS)
		first++;
	/* the previous one says where the first one's time begins */
	first--;
	n -= first;
	reference_make(&r, steps + first, n);
	assert_int_equal(f->tpot.n, r.sum.tpot.n);
	assert_int_equal(f->tpot.p50, r.sum.tpot.p50);
	assert_int_equal(f->tpot.p90, r.sum.tpot.p90);
	assert_int_equal(f->tpot.p99, r.sum.tpot.p99);
	assert_int_equal(f->tpot_span, LIVE_TPOT_NS);
	reference_free(&r);
	reference_make(&r, steps + STEPS - 30, 30);
	assert_int_equal(r.sum.first_step.n, 1);
	assert_int_equal(f->ttft, r.sum.first_step.p50);
	assert_int_equal(f->ttft_tokens, 100);
	reference_free(&r);
	/* and they go away */
	f = live_frame(l, now + 11 * SECOND, false);
	assert_int_equal(f->tpot.n, 0);
	live_free(l);
}

/* The same sentences as the report's, for a minute. */
TEST(test_slow)
{
	static struct live_step steps[STEPS];
	char text[SENTENCE_MAX];
	const struct live_frame *f;
	struct reference r = { 0 };
	struct live *l = live_new();
	int64_t end, begin;

	make_run(steps, &end);
	/* all within the minute */
	for (begin = 0; steps[begin].step.ts < end - LIVE_MINUTE_NS;)
		begin++;
	reference_make(&r, steps + begin, STEPS - (size_t)begin);
	for (size_t i = (size_t)begin; i < STEPS; i++) {
		live_step(l, &steps[i]);
		live_settled(l);
		if (i % 10 == 0)
			live_frame(l, steps[i].step.ts + steps[i].step.total, false);
	}
	f = live_frame(l, end, true);
	assert_true(r.sum.n_slow >= 4);
	assert_int_equal(f->minute_slow, r.sum.n_slow);
	assert_false(f->minute_more);
	for (size_t i = 0; i < f->n_slow; i++)
		assert_string_equal(f->slow[i].text, words_slow(&r.m, r.p, &r.sum.slow[i], text));
	assert_non_null(strstr(f->slow[0].text, "for a CPU behind pid 4711 `hog`"));
	f = live_frame(l, end + LIVE_MINUTE_NS, true);
	assert_int_equal(f->minute_slow, 0);
	live_free(l);
	reference_free(&r);
}

/* More steps than are kept: verdicts on dropped steps stay until the minute is over. */
TEST(test_slow_stays)
{
	const struct live_frame *f;
	int64_t now = 0;
	uint32_t number = 0;
	struct live *l = live_new();

	for (unsigned int second = 0; second < 30; second++) {
		for (unsigned int i = 0; i < 500; i++) {
			struct live_step s =
				make_step(number, 100, now, MS + (int64_t)(draw() % 10000), 1);

			if (number == 1000) {
				s.step.own[ST_STOPPED] = 50 * MS;
				s.step.total += 50 * MS;
			}
			live_step(l, &s);
			live_settled(l);
			number++;
			now += 2 * MS;
		}
		f = live_frame(l, now, false);
		if (second < 2)
			continue;
		assert_int_equal(f->minute_slow, 1);
		assert_int_equal(f->slow[0].number, 1000);
		assert_non_null(strstr(f->slow[0].text, "was stopped for 50.0 ms"));
	}
	assert_int_equal(f->run.steps, number - 1); /* the last one may be preceded by others */
	f = live_frame(l, 2 * SECOND + LIVE_MINUTE_NS - 2 * MS, false);
	assert_int_equal(f->minute_slow, 1);
	f = live_frame(l, 2 * SECOND + LIVE_MINUTE_NS + 60 * MS, false);
	assert_int_equal(f->minute_slow, 0);
	live_free(l);
}

/* 1 + each of n_outputs, n_sequences, sequence, sequences */
static void set_rows(struct live_step *s, uint64_t outputs, uint64_t n, uint64_t sequence, uint64_t mask)
{
	s->step.rows[ROW_N_OUTPUTS] = 1 + outputs;
	s->step.rows[ROW_N_SEQUENCES] = 1 + n;
	s->step.rows[ROW_ONE_SEQUENCE] = n == 1 ? 1 + sequence : 0;
	s->step.rows[ROW_MASK] = n > 1 ? 1 + mask : 0;
}

/* A request that shares steps counts for no time after its first token; its tokens do count. */
TEST(test_mixed)
{
	const struct live_frame *f;
	char text[REQUESTS_TEXT_MAX];
	struct live_step s;
	struct live *l = live_new();

	for (uint32_t i = 0; i < 12; i++) {
		/* a prompt and its tokens, then four sequences at once, then another prompt and its tokens */
		s = make_step(i, 200, i * 20 * MS, 10 * MS, i % 8 ? 1 : 40);
		set_rows(&s, 1, 1, i < 8 ? 0 : 5, 0);
		if (i >= 4 && i < 8) {
			s.step.n_tokens = 4;
			s.live_phase = LIVE_OTHER;
			strcpy(s.phase, "mixed");
			set_rows(&s, 4, 4, 0, 15);
		}
		live_step(l, &s);
		if (i == 3) {
			live_settled(l);
			live_settled(l);
			f = live_frame(l, i * 20 * MS, false);
			assert_int_equal(f->tpot.n, 3);
			assert_int_equal(f->ttft, 10 * MS);
			assert_int_equal(f->ttft_tokens, 40);
			assert_false(requests_left_out(&f->requests, text));
		}
	}
	f = live_frame(l, 240 * MS, true);
	assert_int_equal(f->run.tokens, 3 + 4 * 4 + 3);
	assert_int_equal(f->run.prompt_tokens, 80);
	assert_int_equal(f->tpot.n, 3);
	assert_int_equal(f->tpot.max, 20 * MS);
	assert_int_equal(f->ttft_at, (8 * 20 + 10) * MS);
	assert_true(requests_left_out(&f->requests, text));
	assert_string_equal(text, "left out of these times: at least 4 requests, which shared 4 steps with others (up to 4 "
				  "sequences in one)");
	live_free(l);
}

struct live_part {
	uint64_t sequence;
	int64_t position;
	uint32_t rows, outputs;
};

/* A step with rows of several sequences, each identified by its sequence. */
static void add_batch(struct live *l, uint32_t number, uint32_t pid, const struct live_part *parts, uint32_t n)
{
	struct live_step s = make_step(number, 200, number * 20 * MS, 10 * MS, 2);
	struct row_part rows[8];

	s.pid = pid;
	s.step.n_tokens = 0;
	s.live_phase = LIVE_OTHER;
	strcpy(s.phase, "mixed");
	for (uint32_t i = 0; i < n; i++) {
		rows[i] = (struct row_part){ parts[i].sequence, parts[i].position, parts[i].rows, parts[i].outputs };
		s.step.n_tokens += parts[i].rows;
	}
	set_rows(&s, n, n, 0, n > 1 ? 15 : 0);
	s.n_parts = n;
	s.parts = rows;
	live_step(l, &s);
	memset(rows, 0xff, sizeof(rows));
}

#define BATCH(l, number, pid, ...)                                          \
	add_batch(l, number, pid, (const struct live_part[]){ __VA_ARGS__ }, \
		sizeof((const struct live_part[]){ __VA_ARGS__ }) / sizeof(struct live_part))

static void check_process(const struct live_process *p, uint32_t pid, uint32_t active, uint32_t waiting, size_t n, int64_t max)
{
	assert_int_equal(p->pid, pid);
	assert_int_equal(p->active, active);
	assert_int_equal(p->waiting, waiting);
	assert_int_equal(p->ttft.n, n);
	assert_int_equal(p->ttft.max, max);
}

/* Where the sequences of the rows are known, requests in one batch have their own times. */
TEST(test_batches)
{
	const struct live_frame *f;
	char text[REQUESTS_TEXT_MAX];
	struct live *l = live_new();

	BATCH(l, 0, 100, { 0, 0, 30, 1 });
	/* 1 begins while 0 has its second token; 2 has its prompt in two parts, and waits for the second one */
	BATCH(l, 1, 100, { 0, 30, 1, 1 }, { 1, 0, 8, 1 }, { 2, 0, 5, 0 });
	BATCH(l, 2, 100, { 0, 31, 1, 1 }, { 1, 8, 1, 1 });
	f = live_frame(l, 55 * MS, true);
	assert_true(f->has_batches);
	check_process(&f->batches.all, 0, 2, 1, 2, 10 * MS);
	assert_int_equal(f->run.prompt_tokens, 43);
	assert_int_equal(f->tpot.n, 3);
	assert_int_equal(f->tpot.max, 20 * MS);
	assert_false(requests_left_out(&f->requests, text));

	/* 2 has its first token, 1 is over and another is in its slot; a second process */
	BATCH(l, 3, 100, { 0, 32, 1, 1 }, { 1, 0, 3, 1 }, { 2, 5, 5, 1 });
	BATCH(l, 4, 101, { 0, 0, 3, 1 });
	f = live_frame(l, 95 * MS, true);
	assert_int_equal(f->batches.n_processes, 2);
	check_process(&f->batches.all, 0, 4, 0, 5, 50 * MS);
	check_process(&f->batches.processes[0], 100, 3, 0, 4, 50 * MS);
	check_process(&f->batches.processes[1], 101, 1, 0, 1, 10 * MS);

	/* steps were lost: no time spans them */
	live_lost_steps(l);
	BATCH(l, 9, 100, { 0, 37, 1, 1 }, { 3, 0, 3, 0 });
	live_settled(l);
	live_settled(l);
	assert_int_equal(live_frame(l, 195 * MS, false)->tpot.max, 20 * MS);
	BATCH(l, 10, 100, { 0, 38, 1, 1 }, { 3, 3, 3, 1 });

	/* no more requests; and a minute later */
	check_process(&live_frame(l, 5 * SECOND, true)->batches.all, 0, 0, 0, 5, 50 * MS);
	check_process(&live_frame(l, 100 * SECOND, true)->batches.all, 0, 0, 0, 0, 0);
	live_free(l);
}

/* One after the other on changing threads, and at once on two. */
TEST(test_lanes)
{
	static const struct {
		const char *name;
		uint32_t steps;
		int64_t between, idle, tpot_max;
		size_t tpot_n;
	} cases[] = {
		{ "changing threads", 20, 19 * 5 * MS, 0, 15 * MS, 19 },
		/* 10 of 12 ms, 11 of 12 ms */
		{ "two threads", 40, 19 * 2 * MS + 19 * MS, 0, 12 * MS, 38 },
		{ "two contexts, whose threads change places", 40, 19 * 2 * MS + 19 * MS, 0, 12 * MS, 38 },
		{ "a pause is idle time, and no token's", 2, 0, 5 * SECOND - MS, 0, 0 },
	};

	for (unsigned int k = 0; k < ARRAY_SIZE(cases); k++) {
		struct live *l = live_new();
		const struct live_frame *f;
		struct live_step s;

		for (uint32_t i = 0; i < cases[k].steps; i++) {
			if (k == 0)
				s = make_step(i, 200 + i * 7 % 3, i * 15 * MS, 10 * MS, 1);
			else if (k < 3)
				s = make_step(i, 300 + (i + (k == 2) * i / 2) % 2, i / 2 * 12 * MS + i % 2 * 6 * MS, (10 + i % 2) * MS, 1);
			else
				s = make_step(i, 1, i * 5 * SECOND, MS, 1);
			s.step.context = k == 2 ? 0x7f0000001000 + i % 2 : 0;
			live_step(l, &s);
		}
		f = live_frame(l, 10 * SECOND, true);
		if (f->run.between != cases[k].between || f->run.idle != cases[k].idle || f->tpot.n != cases[k].tpot_n ||
			f->tpot.max != cases[k].tpot_max)
			fail_msg("%s: between %lld, idle %lld, %zu tokens, at most %lld", cases[k].name, (long long)f->run.between,
				(long long)f->run.idle, f->tpot.n, (long long)f->tpot.max);
		live_free(l);
	}
}

/* Far more than can wait, each on its own thread: nothing is lost. */
TEST(test_many)
{
	const struct live_frame *f;
	struct live_sums sum = { 0 };
	struct live_step s;
	struct live *l = live_new();

	for (uint32_t i = 0; i < 30000; i++) {
		s = make_step(i, i, i * MS / 4, MS, 1);
		s.pid = i / 1000;
		live_step(l, &s);
		sum.total += MS;
	}
	f = live_frame(l, 8 * SECOND, false);
	assert_true(f->run.steps < 30000);
	sum.steps = f->last.steps;
	f = live_frame(l, 9 * SECOND, true);
	sum.steps += f->last.steps;
	assert_int_equal(sum.steps, 30000);
	assert_int_equal(f->run.steps, 30000);
	assert_int_equal(f->run.total, sum.total);
	assert_int_equal(f->processes, 30);
	live_free(l);
}

TEST(test_unfinished)
{
	const struct live_frame *f;
	struct live_step s = make_step(0, 1, 0, 7 * MS, 1);
	struct live *l;

	s.step.unfinished = true;
	s.step.lost = 3;
	l = live_new();
	live_step(l, &s);
	f = live_frame(l, 7 * MS, true);
	assert_int_equal(f->run.steps, 1);
	assert_int_equal(f->run.unfinished, 1);
	assert_int_equal(f->run.lossy, 1);
	assert_int_equal(f->run.total, 7 * MS);
	assert_int_equal(f->run.tokens, 0);
	live_free(l);
}

static void check_row(const struct live_rows *rows, const char *name, uint64_t last_n,
	int64_t last_ns, uint64_t run_n, int64_t run_ns)
{
	size_t at = list_find(rows->len, i, !strcmp(rows->rows[i].name, name));
	const struct live_row *row = &rows->rows[at];

	if (at == rows->len)
		fail_msg("no row %s", name);
	assert_int_equal(row->last_n, last_n);
	assert_int_equal(row->last_ns, last_ns);
	assert_int_equal(row->run_n, run_n);
	assert_int_equal(row->run_ns, run_ns);
}

TEST(test_rows)
{
	struct process_call calls[] = {
		{ { 1, 0 }, { 10, 1000 } },
		{ { 1, 1 }, { 5, 50000 } },
		{ { 2, 0 }, { 1, 7 } },
		{ { 2, 0 | SYSCALL_SUM_COMPAT }, { 2, 9 } },
	};
	const char *first = syscall_name(0), *second = syscall_name(1);
	char name[] = "mul_mat", other[] = "mul_mat";
	const struct live_frame *f;
	struct live *l = live_new();

	live_op(l, name, 100);
	live_op(l, other, 20);
	live_op(l, "add", 3);
	live_gap(l, "main: cpu", 30);
	live_gap(l, "up: blocked_sleep", 50);
	live_gap(l, "main: cpu", 40);
	live_syscalls(l, calls, 3);
	live_lost(l, 5);
	f = live_frame(l, SECOND, false);
	assert_int_equal(f->ops.len, 2);
	assert_string_equal(f->ops.rows[0].name, "mul_mat");
	check_row(&f->ops, "mul_mat", 2, 120, 2, 120);
	check_row(&f->ops, "add", 1, 3, 1, 3);
	assert_string_equal(f->gaps.rows[0].name, "main: cpu");
	check_row(&f->gaps, "main: cpu", 2, 70, 2, 70);
	assert_string_equal(f->syscalls.rows[0].name, second);
	check_row(&f->syscalls, first, 11, 1007, 11, 1007);
	assert_int_equal(f->lost, 5);
	assert_int_equal(f->last_lost, 5);

	/* another name in its place */
	strcpy(name, "rope");
	live_op(l, name, 50);
	for (int i = 0; i < 1000; i++) {
		char thread[32];

		snprintf(thread, sizeof(thread), "t%d: cpu", i);
		live_gap(l, thread, 1);
	}
	calls[0].sum.n += 4;
	calls[0].sum.ns += 100000;
	live_syscalls(l, calls, 4);
	f = live_frame(l, 2 * SECOND, false);
	check_row(&f->ops, "mul_mat", 0, 0, 2, 120);
	check_row(&f->ops, "rope", 1, 50, 1, 50);
	assert_int_equal(f->gaps.len, 257);
	check_row(&f->gaps, "main: cpu", 0, 0, 2, 70);
	check_row(&f->gaps, "(others)", 746, 746, 746, 746);
	assert_string_equal(f->syscalls.rows[0].name, first);
	check_row(&f->syscalls, first, 4, 100000, 15, 101007);
	check_row(&f->syscalls, second, 0, 0, 5, 50000);
	check_row(&f->syscalls, "(32 bit)", 2, 9, 2, 9);
	assert_int_equal(f->last_lost, 0);
	assert_int_equal(f->interval, SECOND);
	calls[1].sum.ns += 2;
	live_syscalls(l, calls, 4);
	f = live_frame(l, 3 * SECOND, false);
	assert_string_equal(f->syscalls.rows[0].name, second);
	f = live_frame(l, 3 * SECOND, true);
	assert_string_equal(f->syscalls.rows[0].name, first);
	assert_string_equal(f->ops.rows[0].name, "mul_mat");
	live_free(l);
}

RUN_TESTS(NULL, NULL)
