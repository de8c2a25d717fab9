// SPDX-License-Identifier: BSD-2-Clause
/* Triggers on one request, in a batch with others. */
#include "triggers.h"

#include "record/trigger.h"

static void start(const char *expr)
{
	assert_int_equal(trigger_parse(&set, expr), 0);
	trigger_start(set, &probes, 0, 0);
}

/* A step of `ms` milliseconds with rows of these sequences. Returns the hit so far. */
static const struct trigger_hit *batch(uint64_t start_ms, uint64_t ms, uint64_t context, const struct row_part *parts,
	uint32_t n)
{
	struct rec_step_parts r = { .s = { .h = hdr(REC_STEP, 0), .number = next_step++, .n_parts = n } };
	const struct trigger_hit *hit;

	for (uint32_t i = 0; i < n; i++) {
		r.parts[i] = parts[i];
		r.s.vals[0] += parts[i].rows;
	}
	r.s.vals[1] = context;
	r.s.h.start_ns = START + start_ms * MS;
	r.s.h.dur_ns = ms * MS;
	r.s.ns[ST_CPU] = r.s.h.dur_ns;
	assert_null(trigger_record(set, &r.s.h));
	for (int i = 0; i < 3; i++) {
		hit = trigger_settled(set);
		if (hit)
			return hit;
	}
	return NULL;
}

#define BATCH(start_ms, ms, ...)                                               \
	batch(start_ms, ms, 0xc0, (const struct row_part[]){ __VA_ARGS__ },    \
		sizeof((const struct row_part[]){ __VA_ARGS__ }) / sizeof(struct row_part))

static void assert_hit(const struct trigger_hit *hit, const char *reason, uint64_t ms)
{
	assert_non_null(hit);
	assert_string_equal(hit->reason, reason);
	assert_int_equal(hit->ns, START + ms * MS);
	assert_int_equal(hit->tgid, PID);
}

/* A request without rows for long is reported while it waits, and once. */
TEST_WITH(test_first, begin_test, end_test)
{
	start("request_ttft>100ms");
	assert_null(BATCH(0, 50, { 0, 0, 30, 1 }));
	assert_null(BATCH(60, 20, { 0, 30, 1, 1 }, { 1, 0, 8, 0 }));
	assert_null(BATCH(100, 40, { 0, 31, 1, 1 }));
	/* steps of another context do not count for it */
	assert_null(batch(150, 100, 0xc1, (const struct row_part[]){ { 7, 0, 3, 1 } }, 1));
	assert_hit(BATCH(260, 10, { 0, 32, 1, 1 }),
		"request_ttft>100ms: the request of sequence 1 of pid 5000000 had no token after 210.0 ms, at the end of step 4",
		270);
	assert_null(BATCH(300, 20, { 1, 8, 8, 1 }));
	assert_null(BATCH(330, 20, { 1, 16, 1, 1 }));
	/* the next one in its slot: reported at the end of the step with its first token */
	assert_hit(BATCH(400, 150, { 1, 0, 8, 1 }),
		"request_ttft>100ms: the request of sequence 1 of pid 5000000 had its first token after 150.0 ms, in step 7", 550);
	assert_null(BATCH(560, 500, { 1, 8, 1, 1 }));
}

TEST_WITH(test_token, begin_test, end_test)
{
	start("request_tpot>100ms");
	assert_null(BATCH(0, 500, { 0, 0, 30, 1 }, { 1, 0, 3, 1 }));
	assert_null(BATCH(510, 50, { 0, 30, 1, 1 }, { 1, 3, 1, 1 }));
	/* 1 has no rows for a while */
	assert_null(BATCH(570, 50, { 0, 31, 1, 1 }));
	assert_null(BATCH(630, 25, { 0, 32, 1, 1 }));
	assert_hit(BATCH(660, 20, { 0, 33, 1, 1 }, { 1, 4, 1, 1 }),
		"request_tpot>100ms: a token of sequence 1 of pid 5000000 took 120.0 ms, up to the end of step 4", 680);
	/* another request's prompt is no token of the one before */
	assert_null(BATCH(900, 20, { 0, 0, 3, 1 }));
}

static const struct trigger_hit *exchange(uint64_t from_ms, uint64_t first_ms, uint64_t last_ms)
{
	struct rec_request r = { .h = hdr(REC_REQUEST, 7), .chunks = 2 };

	r.h.start_ns = START + from_ms * MS;
	r.read_ns = r.h.start_ns;
	r.h.dur_ns = (last_ms - from_ms) * MS;
	r.first_byte_ns = r.first_chunk_ns = START + first_ms * MS;
	r.last_chunk_ns = START + last_ms * MS;
	return trigger_record(set, &r.h);
}

/* Two requests one after the other, the second of which waited long: known when both are over. */
TEST_WITH(test_queue, begin_test, end_test)
{
	const struct trigger_hit *hit = NULL;

	start("queue>100ms");
	assert_null(BATCH(1000, 50, { 3, 0, 30, 1 }));
	assert_null(BATCH(1060, 50, { 3, 30, 1, 1 }));
	assert_null(exchange(990, 1052, 1112));
	assert_null(BATCH(1400, 50, { 3, 0, 8, 1 }));
	assert_null(BATCH(1460, 50, { 3, 8, 1, 1 }));
	assert_null(exchange(1250, 1452, 1512));
	for (uint64_t i = 0; i < 8 && !hit; i++)
		hit = BATCH(2000 + i * 400, 50, { 3, 0, 8, 1 });
	assert_hit(hit, "queue>100ms: a request was queued for 150.0 ms before it began as sequence 3 of pid 5000000", 1400);
}

/* A token may have been in a lost step. */
TEST_WITH(test_lost, begin_test, end_test)
{
	start("request_ttft>100ms");
	assert_int_equal(trigger_parse(&set, "request_tpot>100ms"), 0);
	assert_null(BATCH(0, 50, { 0, 0, 30, 1 }, { 1, 0, 8, 0 }));
	trigger_lost_steps(set, 1);
	assert_null(trigger_settled(set));
	next_step += 7;
	assert_null(BATCH(300, 20, { 0, 31, 1, 1 }, { 1, 8, 8, 1 }));
	/* those that begin afterwards are reported */
	assert_null(BATCH(400, 20, { 2, 0, 8, 1 }));
	assert_hit(BATCH(430, 200, { 2, 8, 1, 1 }),
		"request_tpot>100ms: a token of sequence 2 of pid 5000000 took 210.0 ms, up to the end of step 10", 630);
}

/* More than there is room for: the newest are still reported. */
TEST_WITH(test_many, begin_test, end_test)
{
	enum { EACH = 64 };
	struct row_part parts[EACH] = { 0 };
	const struct trigger_hit *hit = NULL;

	start("request_ttft>100ms");
	for (uint64_t k = 0; k < 10; k++) {
		for (uint32_t i = 0; i < EACH; i++)
			parts[i] = (struct row_part){ k * EACH + i, 0, 2, 0 };
		assert_null(batch(k * 5, 4, 0xc0, parts, EACH));
	}
	assert_int_equal(set->n_no_token, NO_TOKEN_MAX);
	hit = BATCH(130, 2, { 9 * EACH, 2, 2, 1 });
	assert_non_null(hit);
	assert_int_equal(set->n_no_token, NO_TOKEN_MAX - 1);
}

RUN_TESTS(NULL, NULL)
