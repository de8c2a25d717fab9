// SPDX-License-Identifier: BSD-2-Clause
/* Triggers: their expressions, what counts as a hit, and what it says. */
#include "triggers.h"

#include <signal.h>

#include "record/trigger.h"
#include "stderr.h"

#define SEC UINT64_C(1000000000)

static void start(uint64_t cooldown_ns, uint32_t max, const char *first, const char *second)
{
	trigger_free(set);
	set = NULL;
	assert_int_equal(trigger_parse(&set, first), 0);
	if (second)
		assert_int_equal(trigger_parse(&set, second), 0);
	trigger_start(set, &probes, cooldown_ns, max);
}

/* Times from the start of the recording. */
static struct rec_step step(uint64_t start_ns, uint64_t dur_ns, uint64_t tokens)
{
	struct rec_step r = {
		.h = hdr(REC_STEP, 0), .vals = { tokens, 0xc0 }, .number = next_step++
	};

	r.h.start_ns = START + start_ns;
	r.h.dur_ns = dur_ns;
	r.ns[ST_CPU] = dur_ns;
	return r;
}

static void assert_hit(const struct trigger_hit *hit, const char *reason, uint64_t ns, uint32_t tgid)
{
	if (!hit)
		fail_msg("no hit instead of %s", reason);
	assert_string_equal(hit->reason, reason);
	assert_int_equal(hit->ns, START + ns);
	assert_int_equal(hit->tgid, tgid);
	assert_memory_equal(hit->reason, hit->expr, strlen(hit->expr));
}

/* Expects that the record is a hit, of the test's process; or none. */
static void hit(const struct rec_hdr *h, const char *reason, uint64_t ns)
{
	assert_hit(trigger_record(set, h), reason, ns, PID);
}

static void no_hit(const struct rec_hdr *h)
{
	const struct trigger_hit *hit = trigger_record(set, h);

	if (hit)
		fail_msg("%s", hit->reason);
}

static void assert_counts(uint64_t hits, uint64_t cooling, uint64_t beyond)
{
	assert_int_equal(set->counts.hits, hits);
	assert_int_equal(set->counts.cooling, cooling);
	assert_int_equal(set->counts.beyond, beyond);
}

/* ---- steps ---- */

TEST_WITH(test_step, begin_test, end_test)
{
	struct rec_step r;

	start(0, 0, "step>150ms", NULL);
	r = step(5 * MS, 150 * MS, 1);
	no_hit(&r.h);
	r.h.dur_ns++;
	r.number = 4711;
	hit(&r.h, "step>150ms: step 4711 (decode) of pid 5000000 took 150.0 ms", 155 * MS + 1);
	r.vals[0] = 512;
	r.h.dur_ns = 12345 * MS;
	r.h.flags = REC_F_OPEN_END;
	hit(&r.h, "step>150ms: step 4711 (prefill) of pid 5000000 took 12.35 s so far", 12350 * MS);
	/* of a probe that does not exist */
	r.h.id = 1;
	no_hit(&r.h);
	assert_counts(2, 0, 0);
}

/* What came from outside does not count; the name is of the largest of the other causes. */
TEST_WITH(test_gap, begin_test, end_test)
{
	static struct rec_gap r = { .step = 7, .n_causes = 3, .unknown_ns = MS };

	r.seg[0] = (struct gap_segment){ .dur_ns = 900 * MS, .state = ST_BLOCKED_POLL, .comm = "main" };
	r.seg[1] = (struct gap_segment){ .dur_ns = 40 * MS, .state = ST_RUNNABLE, .comm = "up\x1b" };
	r.seg[2] = (struct gap_segment){ .dur_ns = 10 * MS, .state = ST_CPU, .comm = "main" };
	r.h = hdr(REC_GAP, 0);
	r.h.start_ns = START;
	start(0, 0, "gap>50ms", "gap>60ms");
	r.h.dur_ns = 951 * MS;
	assert_null(trigger_record(set, &r.h));
	r.h.dur_ns = 951 * MS + 1;
	hit(&r.h, "gap>50ms: step 7 of pid 5000000 began 951.0 ms after the one before it, 40.0 ms of that up\\x1b (runnable)", 951 * MS + 1);
	r.h.flags = GAP_F_WITHIN;
	assert_null(trigger_record(set, &r.h));
	r.h.flags = REC_F_OPEN_START;
	assert_null(trigger_record(set, &r.h));
}

/* The longest time without any launched work, once it is known what the GPU did. */
TEST_WITH(test_gpu_idle, begin_test, end_test)
{
	struct rec_gpu_step r = { .h = hdr(REC_GPU_STEP, 0), .step = 7, .device = 2 };

	start(0, 0, "gpu_idle>5ms", "gpu_idle>1ms");
	assert_true(trigger_needs_gpu(set));
	r.gaps[0] = (struct gpu_gap){ .start_ns = START + 1000, .dur_ns = 1 * MS };
	no_hit(&r.h);
	r.gaps[0].dur_ns = 5 * MS + 1;
	hit(&r.h, "gpu_idle>5ms: GPU 2 had nothing to do for 5.0 ms in step 7 of pid 5000000", 1000 + 5 * MS + 1);
	r.h.flags = GPU_STEP_F_LOST;
	no_hit(&r.h);
}

TEST_WITH(test_phases, begin_test, end_test)
{
	struct rec_step decode = step(0, 20 * MS, 1), prefill = step(100, 300 * MS, 99);

	start(0, 0, "decode>10us", "prefill>299.5ms");
	hit(&decode.h, "decode>10us: step 0 (decode) of pid 5000000 took 20.0 ms", 20 * MS);
	hit(&prefill.h, "prefill>299.5ms: step 1 (prefill) of pid 5000000 took 300.0 ms", 300 * MS + 100);
	start(0, 0, "prefill>1ms", NULL);
	no_hit(&decode.h);
	start(0, 0, "decode>1ms", NULL);
	no_hit(&prefill.h);
}

TEST_WITH(test_every_state, begin_test, end_test)
{
	char expr[40], reason[120];

	for (int i = 0; i < ST_MAX; i++) {
		const char *name = time_state_name((enum time_state)i);
		bool is_blocked = !strncmp(name, "blocked_", 8);
		struct rec_step r = step(0, 90 * MS, 1);

		r.ns[ST_CPU] = 0;
		r.ns[i] = 50 * MS;
		r.ns[i ? 0 : 1] = 40 * MS;
		snprintf(expr, sizeof(expr), "%s>50ms", name);
		start(0, 0, expr, "blocked>49ms");
		snprintf(reason, sizeof(reason),
			"blocked>49ms: step %d (decode) of pid 5000000 was in it for 50.0 ms of "
			"90.0 ms",
			i);
		if (is_blocked)
			hit(&r.h, reason, 90 * MS);
		else
			no_hit(&r.h);
		r.ns[i]++;
		snprintf(reason, sizeof(reason),
			"%s: step %d (decode) of pid 5000000 was in it for 50.0 ms of 90.0 ms",
			expr, i);
		hit(&r.h, reason, 90 * MS);
	}
}

/* The sum counts when no single wait is long enough. */
TEST_WITH(test_blocked, begin_test, end_test)
{
	struct rec_step r = step(0, 100 * MS, 1);

	start(0, 0, "blocked>50ms", NULL);
	r.ns[ST_CPU] = 0;
	r.ns[ST_RUNNABLE] = 49 * MS;
	r.ns[ST_BLOCKED_FUTEX] = 20 * MS;
	r.ns[ST_BLOCKED_IO] = 20 * MS;
	r.ns[ST_BLOCKED_OTHER] = 10 * MS;
	r.ns[ST_STOPPED] = 1 * MS;
	no_hit(&r.h);
	r.ns[ST_BLOCKED_OTHER] += 500;
	hit(&r.h, "blocked>50ms: step 0 (decode) of pid 5000000 was in it for 50.0 ms of 100.0 ms", 100 * MS);
}

/* ---- a request's first token ---- */

/* Runs until the last step handed over had its turn. */
static const struct trigger_hit *settle(void)
{
	for (int i = 0; i < 3; i++) {
		const struct trigger_hit *hit = trigger_settled(set);

		if (hit)
			return hit;
	}
	return NULL;
}

static const struct trigger_hit *give(struct rec_step r)
{
	assert_null(trigger_record(set, &r.h));
	return settle();
}

static void hit_after(struct rec_step r, const char *reason, uint64_t ns)
{
	assert_hit(give(r), reason, ns, PID);
}

static void no_hit_after(struct rec_step r)
{
	assert_null(give(r));
}

TEST_WITH(test_first_token, begin_test, end_test)
{
	start(0, 0, "ttft>2s", NULL);
	/* a prompt in three parts, reported once it is too late for its first token */
	no_hit_after(step(0, 900 * MS, 512));
	no_hit_after(step(1000 * MS, 1000 * MS, 512));
	hit_after(step(2100 * MS, 200 * MS, 100),
		"ttft>2s: a request of pid 5000000, from its first prefill step to the end of step 2: 2300.0 ms", 2300 * MS);
	no_hit_after(step(2400 * MS, 200 * MS, 50));
	for (int i = 0; i < 10; i++)
		no_hit_after(step((2700 + (uint64_t)i * 100) * MS, 50 * MS, 1));
	/* the next one, whose only step the end cuts */
	struct rec_step r = step(5000 * MS, 2500 * MS, 9);
	r.h.flags = REC_F_OPEN_END;
	hit_after(r, "ttft>2s: a request of pid 5000000, from its first prefill step to the end of step 14: 2500.0 ms", 7500 * MS);
	assert_counts(2, 0, 0);
}

/* Decodes alone have no first token; a slow one is a different matter. */
TEST_WITH(test_no_first_token, begin_test, end_test)
{
	start(0, 0, "ttft>2s", NULL);
	for (uint64_t i = 0; i < 10; i++)
		no_hit_after(step(i * 3 * SEC, 2500 * MS, 1));
	no_hit_after(step(40 * SEC, 2 * SEC, 64));
	assert_counts(0, 0, 0);
}

/* From two processes and two contexts, out of order. */
TEST_WITH(test_first_tokens_apart, begin_test, end_test)
{
	struct rec_step a = step(0, 1 * SEC, 512), b = step(100, 1 * SEC, 512),
			c = step(200, 1 * SEC, 512);
	struct rec_step d = step(1100 * MS, 950 * MS, 200);

	start(0, 0, "ttft>2s", NULL);
	b.vals[1] = 0xc1;
	c.h.tgid = PID + 1;
	assert_null(trigger_record(set, &d.h));
	assert_null(trigger_record(set, &c.h));
	assert_null(trigger_record(set, &b.h));
	assert_null(trigger_record(set, &a.h));
	assert_hit(settle(), "ttft>2s: a request of pid 5000000, from its first prefill step to the end of step 3: 2050.0 ms", 2050 * MS, PID);
	assert_null(settle());
}

TEST_WITH(test_socket, begin_test, end_test)
{
	struct rec_request r = { .h = hdr(REC_REQUEST, 7) };

	start(0, 0, "ttft>2s", NULL);
	r.h.start_ns = START;
	r.h.dur_ns = 60 * SEC;
	r.first_byte_ns = START + 1 * SEC; /* of its header */
	r.first_chunk_ns = START + 2 * SEC;
	no_hit(&r.h);
	r.first_chunk_ns++;
	hit(&r.h, "ttft>2s: a request on descriptor 7 of pid 5000000 had its first answer after 2000.0 ms", 2 * SEC + 1);
	r.first_chunk_ns = 0;
	no_hit(&r.h);
	r.h.flags = REQUEST_F_HEADER_ONLY;
	hit(&r.h, "ttft>2s: a request on descriptor 7 of pid 5000000 had no answer after 60.00 s", 60 * SEC);
	r.h.flags = 0;
	r.first_byte_ns = 0;
	hit(&r.h, "ttft>2s: a request on descriptor 7 of pid 5000000 had no answer after 60.00 s", 60 * SEC);
	/* hostile */
	r.first_byte_ns = START - 1;
	no_hit(&r.h);
}

/* ---- the rate ---- */

/* `n` decode steps of dur, one per `every`, from `from`; returns the first hit. */
static const struct trigger_hit *decode(uint64_t from, uint64_t every, uint64_t dur, unsigned int n)
{
	const struct trigger_hit *hit = NULL;

	for (unsigned int i = 0; i < n && !hit; i++)
		hit = give(step(from + i * every, dur, 1));
	return hit;
}

TEST_WITH(test_rate, begin_test, end_test)
{
	start(0, 0, "rate<10", NULL);
	/* 20 per second, with half of the time within steps */
	assert_null(decode(0, 50 * MS, 25 * MS, 200));
	/* exactly 10 */
	assert_null(decode(10000 * MS, 100 * MS, 50 * MS, 50));
	/* steps are not slower, but the gaps are longer: 0.9 of the second before still count */
	assert_null(decode(15000 * MS, 120 * MS, 50 * MS, 1));
	assert_hit(decode(15120 * MS, 120 * MS, 50 * MS, 50), "rate<10: pid 5000000 gave 10 tokens in 1020.0 ms, up to step 251", 15170 * MS, PID);
	/* reported once per second */
	assert_hit(decode(15240 * MS, 120 * MS, 50 * MS, 50), "rate<10: pid 5000000 gave 9 tokens in 1080.0 ms, up to step 260", 16250 * MS, PID);
	/* one long step among fast ones */
	assert_null(decode(20000 * MS, 20 * MS, 10 * MS, 100));
	assert_hit(decode(22000 * MS, 0, 1500 * MS, 1), "rate<10: pid 5000000 gave 1 tokens in 1510.0 ms, up to step 361", 23500 * MS, PID);
}

/* Neither the tokens nor the time of prompts count, and one second is a single hit for two expressions. */
TEST_WITH(test_rate_between_prompts, begin_test, end_test)
{
	const struct trigger_hit *hit = NULL;

	start(0, 0, "rate<20", "rate<10");
	for (uint64_t i = 0; i < 5 && !hit; i++) {
		no_hit_after(step(i * 500 * MS, 300 * MS, 999));
		hit = give(step((i * 500 + 300) * MS, 200 * MS, 1));
	}
	assert_hit(hit, "rate<20: pid 5000000 gave 5 tokens in 1000.0 ms, up to step 9", 2500 * MS, PID);
	assert_counts(1, 0, 0);
}

TEST_WITH(test_rate_when_idle, begin_test, end_test)
{
	start(0, 0, "rate<10", NULL);
	/* requests of 0.5 s, one per 5 s, without a visible prefill: never a second of decoding */
	for (uint64_t i = 0; i < 20; i++)
		assert_null(decode(i * 5 * SEC, 50 * MS, 10 * MS, 10));
	/* closer together, each with a prefill, during which no token is missed */
	for (uint64_t i = 0; i < 20; i++) {
		no_hit_after(step(200 * SEC + i * SEC, 400 * MS, 999));
		assert_null(decode(200 * SEC + i * SEC + 400 * MS, 50 * MS, 10 * MS, 10));
	}
	assert_counts(0, 0, 0);
}

TEST_WITH(test_rate_of_each_process, begin_test, end_test)
{
	const struct trigger_hit *hit = NULL;

	start(0, 0, "rate<10", NULL);
	for (uint64_t i = 0; i < 40 && !hit; i++) {
		struct rec_step slow = step(i * 150 * MS, 100 * MS, 1);

		slow.h.tgid = PID + 1;
		for (uint64_t k = 0; k < 5; k++)
			no_hit_after(step((i * 150 + k * 30) * MS, 25 * MS, 1));
		hit = give(slow);
	}
	/* the first step took its own time, each later one 150 ms: 100 + 6 * 150 = 1000 */
	assert_hit(hit, "rate<10: pid 5000001 gave 7 tokens in 1000.0 ms, up to step 36", 1000 * MS, PID + 1);
}

/* A batch gives more than one token; a cut step gives none. */
TEST_WITH(test_rate_of_batches, begin_test, end_test)
{
	struct step_seen s = {
		.tgid = 1, .phase = PHASE_DECODE, .start = 1, .end = 1 + SEC, .tokens = 8
	};
	struct rates rs = { 0 };
	struct rate r;

	assert_true(rates_step(&rs, &s, &r));
	assert_int_equal(r.tokens, 8);
	assert_int_equal(r.ns, SEC);
	assert_true(rate_below(&r, 8 * SEC + 1));
	assert_false(rate_below(&r, 8 * SEC));
	s.start = s.end;
	s.end += SEC;
	s.cut = true;
	assert_true(rates_step(&rs, &s, &r));
	assert_int_equal(r.tokens, 0);
	rates_free(&rs);
}

/* Many steps and many processes: memory is bounded, the results stay right. */
TEST_WITH(test_rate_bounds, begin_test, end_test)
{
	struct step_seen s = { .phase = PHASE_DECODE, .tokens = 1 };
	struct rates rs = { 0 };
	struct rate r;

	s.tgid = 9;
	for (uint64_t i = 0; i < 300000; i++) {
		s.start = 1 + i * 10000;
		s.end = s.start + 9000;
		assert_int_equal(rates_step(&rs, &s, &r), i >= 100000);
		if (i < 100000)
			continue;
		/* 100000 a second, over at most 2 ms more than a second */
		assert_in_range(r.ns, SEC, SEC + 2 * MS);
		assert_in_range(r.tokens * 10000, r.ns - 10000, r.ns + 10000);
	}
	for (uint32_t pid = 100; pid < 1000; pid++) {
		s.tgid = pid;
		s.start = s.end;
		s.end += SEC;
		assert_true(rates_step(&rs, &s, &r));
		assert_int_equal(r.tokens, 1);
	}
	rates_free(&rs);
}

/* ---- the rest ---- */

TEST_WITH(test_lost, begin_test, end_test)
{
	start(0, 0, "lost>0", NULL);
	assert_null(trigger_loss(set, 0, START + 1));
	assert_hit(trigger_loss(set, 3, START + 2), "lost>0: 3 records were lost", 2, 0);
	assert_null(trigger_loss(set, 3, START + 3));
	assert_hit(trigger_loss(set, 10, START + 4), "lost>0: 7 records were lost", 4, 0);
	start(0, 0, "lost>100", NULL);
	assert_null(trigger_loss(set, 100, START + 1));
	assert_hit(trigger_loss(set, 101, START + 2), "lost>100: 101 records were lost", 2, 0);
	assert_null(trigger_loss(set, 201, START + 3));
	/* without such an expression */
	start(0, 0, "exit", NULL);
	assert_null(trigger_loss(set, 1000, START + 2));
}

static struct rec_task gone(uint32_t status, const char *comm)
{
	struct rec_task r = { .h = hdr(REC_TASK, TASK_EXIT), .arg = status };

	r.h.start_ns = START + 77;
	r.h.flags = TASK_F_LAST;
	memcpy(r.comm, comm, strnlen(comm, TASK_COMM_LEN));
	return r;
}

TEST_WITH(test_exit, begin_test, end_test)
{
	static const struct {
		uint32_t status; /* of wait(2) */
		const char *how;
		bool crash;
	} ends[] = {
		{ 0, "ended with exit code 0", false },
		{ 3 << 8, "ended with exit code 3", false },
		{ 255 << 8, "ended with exit code 255", false },
		{ SIGKILL, "was killed by SIGKILL", true },
		{ SIGSEGV, "was killed by SIGSEGV", true },
		{ SIGABRT | 0x80, "was killed by SIGABRT, core dumped", true },
		{ SIGTERM, "was killed by SIGTERM", true },
		{ 35, "was killed by signal 35", true },
		{ 64, "was killed by signal 64", true },
	};
	char reason[120];

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		struct rec_task r = gone(ends[i].status, "server");

		start(0, 0, "exit", "crash");
		snprintf(reason, sizeof(reason), "exit: process 5000000 (server) %s", ends[i].how);
		hit(&r.h, reason, 77);
		start(0, 0, "crash", NULL);
		snprintf(reason, sizeof(reason), "crash: process 5000000 (server) %s", ends[i].how);
		if (ends[i].crash)
			hit(&r.h, reason, 77);
		else
			no_hit(&r.h);
		/* a thread of the process, and other events of a thread's life */
		r.h.flags = 0;
		no_hit(&r.h);
		r.h.flags = TASK_F_LAST;
		for (uint32_t id = TASK_FORK; id <= TASK_COMM; id++) {
			r.h.id = id;
			if (id != TASK_EXIT)
				no_hit(&r.h);
		}
	}
	/* a name is the process' own */
	struct rec_task r = gone(0, "\x1b[31m\n\xff\"0123456789");
	start(0, 0, "exit", NULL);
	hit(&r.h, "exit: process 5000000 (\\x1b[31m\\x0a\\xff\"01234567) ended with exit code 0", 77);
}

/* ---- how often ---- */

TEST_WITH(test_cooldown, begin_test, end_test)
{
	struct rec_step r = step(0, 1 * SEC, 1);
	unsigned int hits = 0;

	start(10 * SEC, 0, "step>1ms", "exit");
	for (uint64_t i = 0; i < 100; i++) {
		r.h.start_ns = START + i * SEC;
		hits += trigger_record(set, &r.h) != NULL;
	}
	assert_int_equal(hits, 10);
	assert_counts(10, 90, 0);
	/* also for another expression; the time of the event counts, not that of the report */
	struct rec_task t = gone(0, "x");
	t.h.start_ns = START + 100 * SEC + 999 * MS;
	no_hit(&t.h);
	t.h.start_ns = START + 85 * SEC;
	no_hit(&t.h);
	t.h.start_ns = START + 101 * SEC;
	hit(&t.h, "exit: process 5000000 (x) ended with exit code 0", 101 * SEC);
	assert_counts(11, 92, 0);
}

/* A crash is reported after what led to it, but not one crash after another. */
TEST_WITH(test_cooldown_crash, begin_test, end_test)
{
	struct rec_step r = step(0, 1 * SEC, 1);
	struct rec_task t = gone(SIGSEGV, "x");

	start(10 * SEC, 0, "step>1ms", "crash");
	r.h.start_ns = START;
	assert_non_null(trigger_record(set, &r.h));
	t.h.start_ns = START + 2 * SEC;
	assert_non_null(trigger_record(set, &t.h));
	t.h.start_ns = START + 3 * SEC;
	assert_null(trigger_record(set, &t.h));
	t.h.start_ns = START + 13 * SEC;
	assert_non_null(trigger_record(set, &t.h));
	assert_counts(3, 1, 0);
}

/* The exit is reported before the step, which ended before it. */
TEST_WITH(test_no_cooldown, begin_test, end_test)
{
	struct rec_task t = gone(0, "x");
	struct rec_step r = step(0, 40, 1);

	start(0, 0, "exit", "step>1ns");
	hit(&t.h, "exit: process 5000000 (x) ended with exit code 0", 77);
	hit(&r.h, "step>1ns: step 0 (decode) of pid 5000000 took 0.0 us", 40);
	start(100, 0, "exit", "step>1ns");
	assert_non_null(trigger_record(set, &t.h));
	assert_null(trigger_record(set, &r.h));
}

TEST_WITH(test_max, begin_test, end_test)
{
	struct rec_step r = step(0, 1 * SEC, 1);
	unsigned int hits = 0;

	start(10 * SEC, 3, "step>1ms", NULL);
	for (uint64_t i = 0; i < 100; i++) {
		r.h.start_ns = START + i * SEC;
		hits += trigger_record(set, &r.h) != NULL;
	}
	assert_int_equal(hits, 3);
	assert_counts(3, 18, 79);
}

/* Two at once are reported once, even without a cool-down. */
TEST_WITH(test_one_at_a_time, begin_test, end_test)
{
	struct rec_step r = step(0, 1 * SEC, 1);

	start(0, 0, "step>1ms", "cpu>1ms");
	hit(&r.h, "step>1ms: step 0 (decode) of pid 5000000 took 1000.0 ms", 1 * SEC);
	assert_null(trigger_settled(set));
	assert_counts(1, 0, 0);
	start(0, 0, "ttft>1ms", NULL);
	for (uint64_t i = 0; i < 4; i++) {
		r = step(i * 10 * MS, 2 * MS, 5);
		r.vals[1] = i;
		assert_null(trigger_record(set, &r.h));
	}
	assert_non_null(settle());
	assert_null(settle());
	assert_counts(1, 3, 0);
}

TEST_WITH(test_summary, begin_test, end_test)
{
	struct rec_step r = step(0, 1 * SEC, 1);
	struct stderr_grab g;
	const char *said;

	start(10 * SEC, 0, "step>1ms", "crash");
	assert_int_equal(trigger_parse(&set, "prefill>1h"), 0);
	assert_int_equal(trigger_parse(&set, "decode>1h"), 0);
	r.ns[ST_CPU] = 0;
	for (int i = 0; i < 3; i++)
		trigger_record(set, &r.h);
	stderr_grab_begin(&g);
	trigger_summary(set);
	said = stderr_grab_end(&g);
	assert_string_equal(said,
		"inftrace: --trigger step>1ms: 1 hits, 2 more only counted\n"
		"inftrace: --trigger crash: no hit\n"
		"inftrace: warning: --trigger prefill>1h: nothing was seen that it applies to\n"
		"inftrace: --trigger decode>1h: no hit\n");
}

/* A request that exceeded the first limit counts for the second trigger, too. */
TEST_WITH(test_summary_of_two, begin_test, end_test)
{
	struct rec_request r = { .h = hdr(REC_REQUEST, 7) };
	struct stderr_grab g;

	start(0, 0, "ttft>1ns", "ttft>1h");
	assert_non_null(trigger_record(set, &r.h));
	stderr_grab_begin(&g);
	trigger_summary(set);
	assert_string_equal(stderr_grab_end(&g), "inftrace: --trigger ttft>1ns: 1 hits, 0 more only counted\n"
						 "inftrace: --trigger ttft>1h: no hit\n");
}

/* ---- what is written ---- */

TEST_WITH(test_parse_errors, begin_test, end_test)
{
#define KNOWN                                                                                                             \
	"; there are step, decode, prefill, gap, gpu_idle, ttft, request_ttft, request_tpot, queue, rate, lost, exit, crash, " \
	"blocked, cpu, barrier, gpu_wait, gc, syscall, fault, irq, runnable, blocked_futex, _gil, _io, _net, _ipc, _poll, _sleep, " \
	"_fault, _gpu, _other, stopped\n"
	static const struct {
		const char *text, *line;
	} bad[] = {
		{ "", "--trigger: '' is not known" KNOWN },
		{ "stpe>1s", "--trigger: 'stpe' is not known" KNOWN },
		{ "setps>1s", "--trigger: 'setps' is not known" KNOWN },
		{ "steps>1s", "--trigger: 'steps' is not known; nearest: step" KNOWN },
		{ "blocked_futx>1s", "'blocked_futx' is not known; nearest: blocked_futex" KNOWN },
		{ "futex>1s", "'futex' is not known; nearest: blocked_futex" KNOWN },
		{ "runable>1s", "'runable' is not known; nearest: runnable" KNOWN },
		{ "Step>1s", "'Step' is not known; nearest: step" KNOWN },
		{ "step >1s", "'step ' is not known; nearest: step" KNOWN },
		{ "\x1b[2Jx>1", "'\\x1b[2Jx' is not known" KNOWN },
		{ ">1s", "'' is not known" KNOWN },
		{ "step", "--trigger: 'step' does not have the form of step>150ms\n" },
		{ "step<1s", "--trigger: 'step<1s' does not have the form of step>150ms\n" },
		{ "step=1s", "--trigger: 'step=1s' does not have the form of step>150ms\n" },
		{ "step>=1s", "--trigger: 'step>=1s' does not have the form of step>150ms\n" },
		{ "step!=1s", "--trigger: 'step!=1s' does not have the form of step>150ms\n" },
		{ "blocked_io<1s", "--trigger: 'blocked_io<1s' does not have the form of blocked_io>50ms\n" },
		{ "blocked", "--trigger: 'blocked' does not have the form of blocked>50ms\n" },
		{ "rate>10", "--trigger: 'rate>10' does not have the form of rate<10\n" },
		{ "lost<1", "--trigger: 'lost<1' does not have the form of lost>0\n" },
		{ "exit>1", "--trigger: 'exit>1' does not have the form of exit\n" },
		{ "crash=", "--trigger: 'crash=' does not have the form of crash\n" },
		{ "step>", "--trigger: step: '' is not a duration; write 10s, 500ms or 2m\n" },
		{ "step>fast", "--trigger: step: 'fast' is not a duration; write 10s, 500ms or 2m\n" },
		{ "step>>1s", "--trigger: step: '>1s' is not a duration; write 10s, 500ms or 2m\n" },
		{ "ttft>-1s", "--trigger: ttft: '-1s' is not a duration; write" },
		{ "ttft>99999999999h", "--trigger: ttft: '99999999999h' is too large a duration; write" },
		{ "lost>x", "--trigger: lost: 'x' is not a number; write digits only" },
		{ "lost>1.5", "--trigger: lost: '1.5' is not a number; write digits only" },
		{ "rate<", "--trigger: rate: '' is not a number of tokens per second above 0; write rate<10" },
		{ "rate<0", "--trigger: rate: '0' is not a number of tokens per second above 0; write" },
		{ "rate<10ms", "--trigger: rate: '10ms' is not a number of tokens per second above 0" },
		{ "rate<1.5.5", "--trigger: rate: '1.5.5' is not a number of tokens per second above 0" },
	};

	assert_int_equal(trigger_parse(&set, "lost>7"), 0);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct trigger_set *none = NULL;
		struct stderr_grab g;
		const char *said;
		int err, err_first;

		stderr_grab_begin(&g);
		err = trigger_parse(&set, bad[i].text);
		said = stderr_grab_end(&g);
		if (!strstr(said, bad[i].line) || strchr(said, '\n') != said + strlen(said) - 1)
			fail_msg("'%s': %s", bad[i].text, said);
		assert_true(strlen(said) < 500);
		assert_int_equal(err, -EINVAL);
		stderr_grab_begin(&g);
		err_first = trigger_parse(&none, bad[i].text);
		stderr_grab_end(&g);
		assert_int_equal(err_first, -EINVAL);
		assert_null(none);
	}
	/* the existing triggers stay as they were */
	trigger_start(set, &probes, 0, 0);
	assert_hit(trigger_loss(set, 8, START), "lost>7: 8 records were lost", 0, 0);
}

TEST_WITH(test_parse_many, begin_test, end_test)
{
	struct stderr_grab g;
	int err;

	for (int i = 0; i < TRIGGERS_MAX; i++)
		assert_int_equal(trigger_parse(&set, "step>0.5"), 0);
	stderr_grab_begin(&g);
	err = trigger_parse(&set, "exit");
	assert_string_equal(stderr_grab_end(&g), "inftrace: --trigger: more than 16 expressions\n");
	assert_int_equal(err, -EINVAL);
}

/* A long way to write a time: the end of the reason is still there. */
TEST_WITH(test_long_expression, begin_test, end_test)
{
	struct rec_step r = step(0, 100 * SEC, 1);
	const struct trigger_hit *hit;
	char text[512] = "step>0.";

	memset(text + strlen(text), '1', sizeof(text) - strlen(text) - 2);
	text[sizeof(text) - 2] = 's';
	start(0, 0, text, NULL);
	hit = trigger_record(set, &r.h);
	assert_non_null(hit);
	assert_string_equal(hit->expr, text);
	assert_string_equal(hit->reason + 60, ": step 0 (decode) of pid 5000000 took 100.00 s");
}

RUN_TESTS(NULL, NULL)
