// SPDX-License-Identifier: BSD-2-Clause
/* Requests from steps with known rows: separate sequences, shared steps, drafts, cuts. */
#include "request_text.h"

static struct step_request got[16]; /* in the order in which they ended */
static size_t n_got;
static uint64_t tokens[64];
static size_t n_tokens, n_mixed, n_steps, n_begun, n_parts, n_firsts;

static void on_done(struct step_request *r, void *arg)
{
	assert_true(n_got < ARRAY_SIZE(got));
	got[n_got++] = *r;
}

static void on_token(struct step_request *r, const struct step_seen *s, uint64_t ns, uint64_t gap, void *arg)
{
	assert_true(n_tokens < ARRAY_SIZE(tokens));
	tokens[n_tokens++] = ns;
}

static void on_mixed(struct step_request *r, void *arg)
{
	assert_true(r->mixed);
	n_mixed++;
}

static void on_step(struct step_request *r, const struct step_seen *s, void *arg)
{
	assert_true(r->start);
	n_steps++;
}

static void on_begin(struct step_request *r, const struct step_seen *s, void *arg)
{
	n_begun++;
	assert_int_equal(r->serial, n_begun);
	assert_int_equal(r->start, s->start);
}

static void on_part(struct step_request *r, const struct step_seen *s, const struct request_part *p, void *arg)
{
	n_parts++;
	assert_true(r->last_end >= s->end);
	assert_true(p->rows->sequence == r->sequence && p->prompt <= p->rows->rows);
}

static void on_first(struct step_request *r, void *arg)
{
	n_firsts++;
	assert_true(r->first_output && r->first_output <= r->last_end);
	assert_int_equal(r->first_output - r->start, step_request_ttft(r));
}

/* A step of 10, starting 10 after the previous one; rows and outputs of one sequence, beginning at a position. */
static struct step_seen alone(uint64_t nth, enum step_phase phase, uint64_t rows, uint64_t outputs,
	uint64_t sequence, int64_t position)
{
	return (struct step_seen){
		.start = 100 + 20 * nth,
		.end = 110 + 20 * nth,
		.number = (uint32_t)nth,
		.tgid = 1,
		.phase = phase,
		.tokens = rows,
		.has_rows = true,
		.rows = { .readable = true, .one = true, .sequence = sequence, .n_sequences = 1, .n_outputs = outputs, .outputs_known = true, .position = position },
	};
}

static struct step_seen shared(uint64_t nth, uint64_t mask, uint64_t n, uint64_t outputs)
{
	struct step_seen s = alone(nth, PHASE_SHARED, n, outputs, 0, 0);

	s.rows.one = false;
	s.rows.mask = mask;
	s.rows.n_sequences = n;
	return s;
}

#define PREFILL(nth, ...) alone(nth, PHASE_PREFILL, __VA_ARGS__)
#define DECODE(nth, sequence, position) alone(nth, PHASE_DECODE, 1, 1, sequence, position)

static void run(const struct step_seen *steps, size_t n)
{
	static const struct step_requests_ops ops = {
		.begin = on_begin, .part = on_part, .first = on_first, .step = on_step, .token = on_token, .mixed = on_mixed, .done = on_done
	};
	struct step_requests *q;

	n_got = n_tokens = n_mixed = n_steps = n_begun = n_parts = n_firsts = 0;
	q = step_requests_new(NULL, &ops, NULL);
	for (size_t i = 0; i < n; i++)
		step_requests_add(q, &steps[i]);
	step_requests_finish(q);
	step_requests_free(q);
	assert_int_equal(n_steps, n);
	assert_int_equal(n_begun, n_got);
}

#define RUN(...)                                                 \
	do {                                                     \
		const struct step_seen list[] = { __VA_ARGS__ }; \
		run(list, ARRAY_SIZE(list));                     \
	} while (0)

/* Expects these requests in the order in which they ended, and the times of their tokens. */
static void expect(const char *want)
{
	char text[4096], *p = text;

	for (size_t i = 0; i < n_got; i++)
		p = put_request(p, &got[i]);
	p += sprintf(p, "tokens");
	for (size_t i = 0; i < n_tokens; i++)
		p += sprintf(p, " %llu", (unsigned long long)tokens[i]);
	sprintf(p, "\n");
	assert_string_equal(text, want);
}

/* Two in turns: each has its own steps, and its tokens wait for the other's. */
TEST(test_turns)
{
	RUN(PREFILL(0, 8, 1, 0, 0), PREFILL(1, 9, 1, 1, 0), DECODE(2, 0, 8), DECODE(3, 1, 9), DECODE(4, 0, 9));
	expect("of 0 100-190 prompt 8+-1 tokens 3 ttft 10 intervals 2\n"
			"of 1 120-170 prompt 9+-1 tokens 2 ttft 10 intervals 1\n"
			"tokens 40 40 40\n");
	assert_int_equal(n_mixed, 0);
	assert_int_equal(n_parts, 5);
	assert_int_equal(n_firsts, 2);
}

/* Only the last part of a prompt gives an output; it may be a single row. */
TEST(test_parts)
{
	RUN(PREFILL(0, 8, 0, 0, 0), PREFILL(1, 8, 0, 0, 8), DECODE(2, 0, 16), DECODE(3, 0, 17));
	expect("of 0 100-170 prompt 17+-1 tokens 2 ttft 50 intervals 1\n"
			"tokens 20\n");

	/* prompts without tokens after them, as for embeddings: each begins a new request */
	RUN(PREFILL(0, 8, 8, 0, 0), PREFILL(1, 8, 8, 0, 0), PREFILL(2, 9, 9, 0, 0));
	expect("of 0 100-110 prompt 8+-1 tokens 0 ttft 0 intervals 0 end_seen\n"
			"of 0 120-130 prompt 8+-1 tokens 0 ttft 0 intervals 0 end_seen\n"
			"of 0 140-150 prompt 9+-1 tokens 0 ttft 0 intervals 0\n"
			"tokens\n");
	assert_int_equal(n_mixed, 0);

	/* the recording ended within the prompt */
	RUN(PREFILL(0, 8, 0, 0, 0));
	expect("of 0 100-110 prompt 8+-1 tokens 0 ttft 0 intervals 0\n"
			"tokens\n");
	/* llama_batch_get_one(): whether it was the last part is unknown */
	RUN(PREFILL(0, 8, 1, 0, -1));
	expect("of 0 100-110 prompt 8+-1 tokens 0 ttft 0 intervals 0\n"
			"tokens\n");
	/* a token, and no more wanted */
	RUN(PREFILL(0, 8, 1, 0, 0));
	expect("of 0 100-110 prompt 8+-1 tokens 1 ttft 10 intervals 0\n"
			"tokens\n");
}

TEST(test_shared)
{
	/* the first becomes mixed, the second is so from the start; then one more, alone */
	RUN(PREFILL(0, 8, 1, 0, 0), DECODE(1, 0, 8), shared(2, 3, 2, 2), shared(3, 3, 2, 2), DECODE(4, 1, 30),
		PREFILL(5, 6, 1, 0, 0), DECODE(6, 0, 6));
	expect("of 0 100-170 prompt 8+-1 tokens 2 ttft 10 intervals 1 shared 2 mixed end_seen\n"
			"of 0 200-230 prompt 6+-1 tokens 2 ttft 10 intervals 1\n"
			"of 1 140-190 prompt 0+-1 tokens 1 ttft 0 intervals 0 shared 2 mixed\n"
			"tokens 20 20\n");
	assert_int_equal(n_mixed, 2);
	/* the rest of a prompt that did not fit a shared step is no request of its own ... */
	RUN(shared(0, 3, 8, 1), PREFILL(1, 4, 1, 1, 7), DECODE(2, 1, 11));
	expect("of 0 100-110 prompt 0+-1 tokens 0 ttft 0 intervals 0 shared 1 mixed\n"
			"of 1 100-150 prompt 4+-1 tokens 2 ttft 30 intervals 1 shared 1 mixed\n"
			"tokens 20\n");
	/* ... but what comes after other requests' steps is, with a kept beginning */
	RUN(shared(0, 3, 8, 2), DECODE(1, 0, 11), PREFILL(2, 4, 1, 1, 7), DECODE(3, 1, 11));
	assert_int_equal(n_got, 3);
	assert_int_equal(n_mixed, 2);
	/* another context is unrelated */
	{
		struct step_seen other = shared(2, 3, 2, 2);

		other.context = 77;
		RUN(PREFILL(0, 8, 1, 0, 0), DECODE(1, 0, 8), other, DECODE(3, 0, 9));
		assert_int_equal(n_got, 3);
		assert_int_equal(n_mixed, 2);
	}
}

/* The sequences are unknown: all of the context may have taken part. */
TEST(test_unknown)
{
	struct step_seen wide = shared(4, 0, 2, 2), unreadable = shared(4, 0, 0, 0), other = PREFILL(2, 5, 1, 0, 0);

	other.context = 77;
	RUN(PREFILL(0, 8, 1, 0, 0), PREFILL(1, 8, 1, 1, 0), other, DECODE(3, 0, 8), wide);
	assert_int_equal(n_got, 3);
	assert_int_equal(n_mixed, 2);
	unreadable.rows.outputs_known = unreadable.rows.readable = false;
	RUN(unreadable);
	assert_int_equal(n_got, 1);
	assert_true(got[0].mixed);
	assert_int_equal(step_seen_tokens(&unreadable), 0);
}

/* How many of four outputs are accepted follows from the next step's position. */
TEST(test_drafts)
{
	struct step_seen verify = alone(1, PHASE_DECODE, 4, 4, 0, 8);

	RUN(PREFILL(0, 8, 1, 0, 0), verify, DECODE(2, 0, 10));
	expect("of 0 100-150 prompt 8+-1 tokens 4 ttft 10 intervals 3\n"
			"tokens 10 10 20\n");
	assert_int_equal(got[0].drafts, 1);
	/* what is not known is one, and no time */
	RUN(PREFILL(0, 8, 1, 0, 0), verify);
	expect("of 0 100-130 prompt 8+-1 tokens 2 ttft 10 intervals 0\n"
			"tokens\n");
	RUN(PREFILL(0, 8, 1, 0, 0), verify, DECODE(2, 0, 99));
	expect("of 0 100-150 prompt 8+-1 tokens 3 ttft 10 intervals 1\n"
			"tokens 20\n");
}

TEST(test_cut)
{
	struct step_seen first = PREFILL(0, 8, 1, 0, 0), last = DECODE(2, 0, 9);

	first.began_before = true;
	RUN(first, DECODE(1, 0, 8));
	expect("of 0 100-130 prompt 8+-1 tokens 1 ttft 0 intervals 1 began_before\n"
			"tokens 20\n");
	last.cut = true;
	RUN(PREFILL(0, 8, 1, 0, 0), DECODE(1, 0, 8), last);
	expect("of 0 100-150 prompt 8+-1 tokens 2 ttft 10 intervals 1 cut\n"
			"tokens 20\n");
	RUN(DECODE(0, 0, 40), DECODE(1, 0, 41));
	expect("of 0 100-130 prompt 0+-1 tokens 2 ttft 0 intervals 1 began_before\n"
			"tokens 20\n");
}

TEST(test_lost)
{
	static const struct step_requests_ops ops = { .done = on_done };
	const struct step_seen first = PREFILL(0, 8, 1, 0, 0), second = DECODE(1, 0, 8), third = PREFILL(2, 8, 1, 0, 0),
			       fourth = DECODE(3, 0, 8);
	struct step_requests *q;

	n_got = n_tokens = 0;
	q = step_requests_new(NULL, &ops, NULL);
	step_requests_add(q, &first);
	step_requests_add(q, &second);
	step_requests_lost(q, 1);
	step_requests_add(q, &third);
	step_requests_add(q, &fourth);
	step_requests_finish(q);
	step_requests_free(q);
	expect("of 0 100-130 prompt 8+-1 tokens 2 ttft 0 intervals 1 lost end_seen\n"
			"of 0 140-170 prompt 8+-1 tokens 2 ttft 10 intervals 1\n"
			"tokens\n");
}

static void settled(struct step_requests *q, int rounds)
{
	for (int i = 0; i < rounds; i++)
		step_requests_settled(q);
}

/* A step says how many were lost before it; the counters report the same ones, before or after it is taken. */
TEST(test_lost_before)
{
	static const struct step_requests_ops ops = { .done = on_done };
	static const struct probe_table none;
	struct step_seen s[] = { PREFILL(0, 8, 1, 0, 0), DECODE(4, 0, 8), PREFILL(5, 8, 1, 0, 0), DECODE(9, 0, 8),
		PREFILL(10, 8, 1, 0, 0), PREFILL(12, 8, 1, 0, 0) };

	for (int late = 0; late < 2; late++) {
		struct step_requests *q;

		n_got = 0;
		q = step_requests_new(&none, &ops, NULL);
		s[0].lost = 7; /* before the first */
		s[1].lost = s[2].lost = 10;
		s[3].lost = s[4].lost = 13;
		s[5].lost = 12; /* from a peek, an older count */
		for (size_t i = 0; i < 5; i++) {
			if (!late && i % 2)
				step_requests_lost(q, 3);
			s[i].round = 10 * i;
			step_requests_add(q, &s[i]);
			settled(q, 10);
			if (late && i % 2)
				step_requests_lost(q, 3);
		}
		s[5].round = 50;
		step_requests_add(q, &s[5]);
		settled(q, 10);
		step_requests_lost(q, 1); /* no step tells where */
		step_requests_finish(q);
		step_requests_free(q);
		assert_int_equal(n_got, 4);
		assert_true(got[0].lost && got[1].lost && !got[2].lost && got[3].lost);
	}
}

/* More sequences than can be tracked: the longest silent one ends. */
TEST(test_many)
{
	static const struct step_requests_ops ops = { .done = NULL };
	struct step_requests *q;

	q = step_requests_new(NULL, &ops, NULL);
	for (uint64_t i = 0; i < 5000; i++) {
		struct step_seen s = i % 3 ? DECODE(i, i * 7 % 3000, (int64_t)i) : shared(i, UINT64_MAX, 64, 64);

		step_requests_add(q, &s);
	}
	step_requests_finish(q);
	step_requests_free(q);
}

RUN_TESTS(NULL, NULL)
