// SPDX-License-Identifier: BSD-2-Clause
/* Requests from steps with parts, with something missing: cut steps, losses, requests from before the recording, junk. */
#include "request_text.h"

#include "requests/step_slots.h"

struct told {
	struct step_request r;
	struct step_wait waits[8];
};

static struct told got[64]; /* by number */
static size_t n_got, n_firsts, n_steps;
static struct step_requests *requests;

static void on_done(struct step_request *r, void *arg)
{
	struct told *t = &got[r->serial - 1];

	assert_true(r->serial <= ARRAY_SIZE(got));
	n_got++;
	t->r = *r;
	for (size_t i = 0; i < r->n_waits && i < ARRAY_SIZE(t->waits); i++)
		t->waits[i] = r->waits[i];
}

static void on_first(struct step_request *r, void *arg)
{
	assert_true(r->first_output && !r->began_before && !r->mixed);
	n_firsts++;
}

static void on_step(struct step_request *r, const struct step_seen *s, void *arg)
{
	n_steps++;
}

static const struct step_requests_ops ops = { .first = on_first, .step = on_step, .done = on_done };

static void begin(void)
{
	n_got = n_firsts = n_steps = 0;
	memset(got, 0, sizeof(got));
	requests = step_requests_new(NULL, &ops, NULL);
}

static void end(void)
{
	step_requests_finish(requests);
	step_requests_free(requests);
}

/* In units of 10 from 100 on; all rows are told unless `rows` says otherwise. */
struct step {
	uint64_t start, end;
	uint32_t n;
	struct row_part parts[4];
	uint64_t rows;
	bool cut, began_before;
	uint32_t lost;
};

static void add_seen(struct step_seen *seen, const struct step *s)
{
	static uint32_t number;

	seen->start = 100 + 10 * s->start;
	seen->end = 100 + 10 * s->end;
	seen->number = number++;
	seen->tgid = 1;
	seen->context = 9;
	seen->phase = PHASE_SHARED;
	seen->has_rows = true;
	seen->cut = s->cut;
	seen->began_before = s->began_before;
	seen->lost = s->lost;
	seen->tokens = s->rows;
	for (uint32_t i = 0; i < seen->n_parts && !s->rows; i++)
		seen->tokens += seen->parts[i].rows;
	step_requests_add(requests, seen);
}

static void add(const struct step *s)
{
	struct step_seen seen = { .parts = s->parts, .n_parts = s->n };

	add_seen(&seen, s);
}

#define ADD_AS(...) add(&(struct step){ __VA_ARGS__ })
#define ADD(from, to, n_parts, ...) ADD_AS(.start = (from), .end = (to), .n = (n_parts), .parts = __VA_ARGS__)

/* The parts add up to what was divided. */
static void check_split(const struct step_request *r)
{
	uint64_t sum = 0, waits = r->waits_rest;

	assert_true(step_request_split(r));
	for (int i = 0; i < SPAN_MAX; i++)
		sum += r->spans[i];
	assert_int_equal(sum, r->last_end - r->start);
	for (size_t i = 0; i < r->n_waits && r->n_waits <= 8; i++)
		waits += got[r->serial - 1].waits[i].ns;
	if (r->n_waits <= 8)
		assert_int_equal(waits, r->spans[SPAN_OTHERS]);
}

/* Ends, and expects these requests in the order in which they began; their parts add up. */
static void expect(const char *want)
{
	char text[4096] = "", *p = text;

	end();
	for (size_t i = 0; i < n_got; i++) {
		p = put_request(p, &got[i].r);
		if (step_request_split(&got[i].r))
			check_split(&got[i].r);
	}
	assert_string_equal(text, want);
}

/* Requests under way when a recording begins have no known beginning. */
TEST(test_began_before)
{
	begin();
	ADD(0, 1, 3, { { 0, 40, 1, 1 }, { 1, 64, 8, 1 }, { 2, 0, 4, 1 } });
	ADD(2, 3, 3, { { 0, 41, 1, 1 }, { 1, 72, 1, 1 }, { 2, 4, 1, 1 } });
	/* then the slot is known, and what it keeps of the request before belongs to the next one */
	ADD(4, 5, 1, { { 0, 12, 3, 1 } });
	/* the prompt's end shows: the second had its first token there, after an unknown time */
	expect("of 0 100-130 prompt 0+-1 tokens 2 ttft 0 intervals 1 split 0/11/9/10 shared 2 began_before end_seen\n"
	       "of 1 100-130 prompt 8+-1 tokens 2 ttft 0 intervals 1 split 7/10/3/10 shared 2 began_before\n"
	       "of 2 100-130 prompt 4+0 tokens 2 ttft 10 intervals 1 split 4/10/6/10 shared 2\n"
	       "of 0 140-150 prompt 3+12 tokens 1 ttft 10 intervals 0 split 10/0/0/0\n");
	assert_int_equal(n_firsts, 2);

	/* a first step of which the recording has only the end */
	begin();
	ADD_AS(.start = 0, .end = 1, .n = 1, .parts = { { 0, 0, 8, 1 } }, .began_before = true);
	ADD(2, 3, 1, { { 0, 8, 1, 1 } });
	expect("of 0 100-130 prompt 8+-1 tokens 2 ttft 0 intervals 1 split 10/10/0/10 began_before\n");
	assert_int_equal(n_firsts, 0);
}

TEST(test_cut)
{
	begin();
	ADD(0, 1, 2, { { 0, 0, 8, 1 }, { 1, 0, 8, 0 } });
	ADD_AS(.start = 2, .end = 3, .n = 2, .parts = { { 0, 8, 1, 1 }, { 1, 8, 8, 1 } }, .cut = true);
	expect("of 0 100-130 prompt 8+0 tokens 1 ttft 10 intervals 0 split 5/2/13/10 shared 2 cut\n"
	       "of 1 100-130 prompt 16+0 tokens 0 ttft 0 intervals 0 split 15/0/5/10 shared 2 cut\n");
}

/* Requests under way when steps were lost may have had some of them; those that begin at position 0 had none. */
TEST(test_lost)
{
	begin();
	ADD(0, 1, 3, { { 0, 0, 8, 1 }, { 1, 0, 8, 1 }, { 2, 0, 8, 1 } });
	step_requests_lost(requests, 1);
	ADD(4, 5, 1, { { 0, 12, 1, 1 } }); /* goes on after the loss */
	ADD(6, 7, 1, { { 1, 0, 8, 1 } });
	ADD(8, 9, 1, { { 2, 4, 8, 1 } }); /* perhaps it began before */
	ADD(10, 11, 1, { { 2, 6, 8, 1 } });
	expect("of 0 100-150 prompt 8+0 tokens 2 ttft 0 intervals 1 shared 1 lost\n"
	       "of 1 100-110 prompt 8+0 tokens 1 ttft 0 intervals 0 shared 1 lost end_seen\n"
	       "of 2 100-110 prompt 8+0 tokens 1 ttft 0 intervals 0 shared 1 lost end_seen\n"
	       "of 1 160-170 prompt 8+0 tokens 1 ttft 10 intervals 0 split 10/0/0/0\n"
	       "of 2 180-190 prompt 8+-1 tokens 1 ttft 0 intervals 0 began_before lost end_seen\n"
	       "of 2 200-210 prompt 8+6 tokens 1 ttft 10 intervals 0 split 10/0/0/0\n");
}

/* A slot that was dropped within the lost steps: neither its old nor its new request is whole. */
TEST(test_lost_and_dropped)
{
	struct sequence_change c = { .what = SEQUENCE_REMOVE, .at_ns = 100 + 10 * 3, .tgid = 1, .context = 9, .to = INT64_MAX };

	begin();
	ADD(0, 1, 2, { { 0, 0, 8, 1 }, { 1, 0, 8, 1 } });
	step_requests_change(requests, &c);
	ADD_AS(.start = 6, .end = 7, .n = 2, .parts = { { 0, 4, 1, 1 }, { 1, 12, 1, 1 } }, .lost = 4);
	expect("of 0 100-110 prompt 8+0 tokens 1 ttft 0 intervals 0 shared 1 lost end_seen\n"
	       "of 1 100-170 prompt 8+0 tokens 2 ttft 0 intervals 1 shared 2 lost\n"
	       "of 0 160-170 prompt 0+-1 tokens 1 ttft 0 intervals 0 shared 1 began_before lost\n");
}

/* Rows of several sequences count in each, and hold up nobody. */
TEST(test_rows_of_several)
{
	begin();
	ADD_AS(.start = 0, .end = 10, .n = 3, .parts = { { 0, 0, 8, 1 }, { 1, 0, 8, 1 }, { 2, 0, 8, 1 } }, .rows = 8);
	ADD(10, 20, 3, { { 0, 8, 1, 1 }, { 1, 8, 1, 1 }, { 2, 8, 1, 1 } });
	/* a part of the prompt is shared */
	ADD_AS(.start = 20, .end = 30, .n = 2, .parts = { { 0, 0, 6, 1 }, { 1, 0, 8, 1 } }, .rows = 10);
	expect("of 0 100-300 prompt 8+0 tokens 2 ttft 100 intervals 1 split 100/100/0/0 shared 2 end_seen\n"
	       "of 1 100-300 prompt 8+0 tokens 2 ttft 100 intervals 1 split 100/100/0/0 shared 2 end_seen\n"
	       "of 2 100-300 prompt 8+0 tokens 2 ttft 100 intervals 1 split 100/100/0/0 shared 2\n"
	       "of 0 300-400 prompt 6+0 tokens 1 ttft 100 intervals 0 split 60/0/40/0 shared 1\n"
	       "of 1 300-400 prompt 8+0 tokens 1 ttft 100 intervals 0 split 80/0/20/0 shared 1\n");
}

/* Steps of a context that overlap, and a step whose rows could not be read. */
TEST(test_mixed)
{
	struct step_seen unread = { .tokens = 2, .rows = { .n_sequences = 2, .mask = 5 } };

	begin();
	ADD(0, 2, 1, { { 0, 0, 8, 1 } });
	ADD(1, 3, 1, { { 1, 0, 8, 1 } });
	ADD(4, 5, 1, { { 2, 0, 8, 1 } });
	expect("of 0 100-120 prompt 8+0 tokens 1 ttft 20 intervals 0 mixed\n"
	       "of 1 110-130 prompt 8+0 tokens 1 ttft 20 intervals 0 mixed\n"
	       "of 2 140-150 prompt 8+0 tokens 1 ttft 10 intervals 0 split 10/0/0/0\n");

	begin();
	ADD(0, 1, 3, { { 0, 0, 8, 1 }, { 1, 0, 8, 1 }, { 2, 0, 8, 1 } });
	add_seen(&unread, &(struct step){ .start = 2, .end = 3 });
	ADD(4, 5, 3, { { 0, 9, 1, 1 }, { 1, 8, 1, 1 }, { 2, 9, 1, 1 } });
	ADD(6, 7, 1, { { 0, 0, 8, 1 } });
	/* whom the second one waited for in the second step is unknown */
	expect("of 0 100-150 prompt 8+0 tokens 2 ttft 10 intervals 1 unknown 10 shared 3 mixed end_seen\n"
	       "of 1 100-150 prompt 8+0 tokens 2 ttft 10 intervals 1 split 4/10/16/20 unknown 10 shared 2\n"
	       "of 2 100-150 prompt 8+0 tokens 2 ttft 10 intervals 1 unknown 10 shared 3 mixed\n"
	       "of 0 160-170 prompt 8+0 tokens 1 ttft 10 intervals 0 split 10/0/0/0\n");

	/* more sequences than a record holds */
	begin();
	ADD(0, 1, 2, { { 0, 0, 8, 1 }, { 1, 0, 8, 1 } });
	unread = (struct step_seen){ .n_parts = 1, .parts = &(struct row_part){ 1, 8, 1, 1 }, .parts_left = 3 };
	add_seen(&unread, &(struct step){ .start = 2, .end = 3, .rows = 40 });
	expect("of 0 100-110 prompt 8+0 tokens 1 ttft 10 intervals 0 shared 1 mixed\n"
	       "of 1 100-130 prompt 8+0 tokens 2 ttft 10 intervals 1 shared 2\n");
}

/* Embeddings: an output for each row, and no token follows. */
TEST(test_all_outputs)
{
	begin();
	ADD(0, 1, 2, { { 0, 0, 8, 8 }, { 1, 0, 8, 8 } });
	ADD(2, 3, 2, { { 0, 8, 8, 8 }, { 1, 0, 9, 9 } });
	expect("of 0 100-130 prompt 16+0 tokens 0 ttft 0 intervals 0 split 10/0/10/10 shared 2\n"
	       "of 1 100-110 prompt 8+0 tokens 0 ttft 0 intervals 0 split 5/0/5/0 shared 1 end_seen\n"
	       "of 1 120-130 prompt 9+0 tokens 0 ttft 0 intervals 0 split 6/0/4/0 shared 1\n");
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(got[i].r.decodes, 0);
}

TEST(test_turns)
{
	begin();
	ADD(0, 1, 1, { { 0, 0, 8, 1 } });
	ADD(2, 3, 1, { { 0, 8, 1, 1 } });
	ADD(4, 5, 1, { { 0, 9, 1, 0 } }); /* one row that asks for no token: a prompt's first part */
	ADD(6, 7, 1, { { 0, 10, 4, 1 } });
	ADD(8, 9, 1, { { 0, 14, 1, 1 } });
	ADD(10, 11, 1, { { 0, 40, 1, 1 } }); /* how it got so far was not seen */
	expect("of 0 100-130 prompt 8+0 tokens 2 ttft 10 intervals 1 split 10/10/0/10 end_seen\n"
	       "of 0 140-190 prompt 5+9 tokens 2 ttft 30 intervals 1 split 20/10/0/20 end_seen\n"
	       "of 0 200-210 prompt 0+-1 tokens 1 ttft 0 intervals 0 split 0/10/0/0 began_before\n");
}

/* Without positions, as from llama_batch_get_one(): the parts of a prompt are of equal size, except a smaller last one. */
TEST(test_unplaced)
{
	begin();
	ADD(0, 1, 1, { { 0, -1, 8, 1 } });
	ADD(2, 3, 1, { { 0, -1, 8, 1 } });
	ADD(4, 5, 1, { { 0, -1, 3, 1 } });
	ADD(6, 7, 1, { { 0, -1, 1, 1 } });
	ADD(8, 9, 1, { { 0, -1, 1, 1 } });
	ADD(10, 11, 1, { { 0, INT64_MAX, 5, ROW_PART_UNKNOWN } });
	ADD(12, 13, 1, { { 0, -1, 1, ROW_PART_UNKNOWN } });
	expect("of 0 100-190 prompt 19+-1 tokens 3 ttft 50 intervals 2 split 30/20/0/40 end_seen\n"
	       "of 0 200-230 prompt 5+-1 tokens 2 ttft 10 intervals 1 split 10/10/0/10\n");
	assert_int_equal(n_firsts, 2);
}

/* More sequences than are tracked: the quietest is ended, and unknown when it comes again. */
TEST(test_pushed_out)
{
	static const struct step_requests_ops none;

	begin();
	ADD(0, 1, 1, { { 5, 0, 8, 1 } });
	for (uint64_t i = 0; i < 20; i++)
		ADD(2 + 2 * i, 3 + 2 * i, 2, { { 100 + i, 0, 8, 1 }, { 5, 8 + (int64_t)i, 1, 1 } });
	end();
	assert_int_equal(n_got, 21);
	assert_int_equal(step_request_tokens(&got[0].r), 21);
	requests = step_requests_new(NULL, &none, NULL);
	for (uint64_t i = 0; i < 5000; i++)
		ADD(2 * i, 2 * i + 1, 2, { { i * 7 % 3000, 0, 8, 1 }, { i, 0, 8, 1 } });
	end();
}

/* ---- calls between steps ---- */

static void change(uint64_t at, enum sequence_what what, uint64_t sequence, int64_t from, int64_t to, int64_t by)
{
	struct sequence_change c = { .what = what, .at_ns = 100 + 10 * at, .tgid = 1, .context = 9, .sequence = sequence, .every = what == SEQUENCE_CLEAR, .from = from, .to = to, .by = by, .source = (uint64_t)by };

	step_requests_change(requests, &c);
}

TEST(test_changes)
{
	/* what was removed does not go on, wherever the next one begins; a dropped prompt was cancelled */
	begin();
	ADD(0, 1, 2, { { 0, 0, 8, 1 }, { 1, 0, 8, 0 } });
	change(6, SEQUENCE_REMOVE, 0, 0, INT64_MAX, 0); /* told too early */
	change(2, SEQUENCE_REMOVE, 1, 0, INT64_MAX, 0);
	ADD(3, 4, 2, { { 0, 8, 1, 1 }, { 1, 8, 8, 1 } });
	ADD(7, 8, 2, { { 0, 9, 1, 1 }, { 1, 16, 1, 1 } });
	expect("of 0 100-140 prompt 8+0 tokens 2 ttft 10 intervals 1 split 5/2/13/20 shared 2 end_seen\n"
	       "of 1 100-110 prompt 8+0 tokens 0 ttft 0 intervals 0 split 5/0/5/0 shared 1 cancelled end_seen\n"
	       "of 1 130-180 prompt 8+8 tokens 2 ttft 10 intervals 1 split 10/5/5/30 shared 2\n"
	       "of 0 170-180 prompt 1+9 tokens 1 ttft 10 intervals 0 split 10/0/0/0 shared 1\n");

	/* the first request seen in a slot: only the copy shows that it begins here, since servers drop the rest of a slot
	 * before each part of a prompt */
	begin();
	change(0, SEQUENCE_REMOVE, 0, 12, INT64_MAX, 0);
	change(0, SEQUENCE_REMOVE, 1, 12, INT64_MAX, 0);
	change(0, SEQUENCE_COPY, 2, 0, 20, 0);
	ADD(1, 2, 4, { { 0, 12, 8, 1 }, { 1, 12, 3, 3 }, { 2, 20, 4, 1 }, { 3, 20, 4, 1 } });
	/* the second are drafts, the last of which were rejected */
	expect("of 0 110-120 prompt 8+-1 tokens 1 ttft 0 intervals 0 split 6/0/4/0 shared 1 began_before\n"
	       "of 1 110-120 prompt 0+-1 tokens 1 ttft 0 intervals 0 split 0/2/8/0 shared 1 began_before\n"
	       "of 2 110-120 prompt 4+20 tokens 1 ttft 10 intervals 0 split 4/0/6/0 shared 1\n"
	       "of 3 110-120 prompt 4+-1 tokens 1 ttft 0 intervals 0 split 4/0/6/0 shared 1 began_before\n");

	/* the context is full and its oldest half dropped: the request goes on */
	begin();
	ADD(0, 1, 1, { { 0, 0, 100, 1 } });
	ADD(2, 3, 1, { { 0, 100, 1, 1 } });
	change(4, SEQUENCE_REMOVE, 0, 4, 50, 0);
	change(4, SEQUENCE_SHIFT, 0, 50, 101, -46);
	ADD(5, 6, 1, { { 0, 55, 1, 1 } });
	expect("of 0 100-160 prompt 100+0 tokens 3 ttft 10 intervals 2 split 10/20/0/30\n");

	/* all but one, and all */
	begin();
	ADD(0, 1, 3, { { 0, 0, 8, 1 }, { 1, 0, 8, 1 }, { 2, 0, 8, 1 } });
	change(2, SEQUENCE_KEEP, 1, 0, INT64_MAX, 0);
	ADD(3, 4, 3, { { 0, 8, 1, 1 }, { 1, 8, 1, 1 }, { 2, 8, 1, 1 } });
	change(5, SEQUENCE_CLEAR, 0, 0, INT64_MAX, 0);
	ADD(6, 7, 1, { { 0, 0, 8, 1 } });
	/* whether this was the last request's last step is unknown: no step shows that its steps are still recorded */
	change(8, SEQUENCE_CLEAR, 0, 0, INT64_MAX, 0);
	expect("of 0 100-110 prompt 8+0 tokens 1 ttft 10 intervals 0 split 4/0/6/0 shared 1 end_seen\n"
	       "of 1 100-140 prompt 8+0 tokens 2 ttft 10 intervals 1 split 4/4/12/20 shared 2 end_seen\n"
	       "of 2 100-110 prompt 8+0 tokens 1 ttft 10 intervals 0 split 4/0/6/0 shared 1 end_seen\n"
	       "of 0 130-140 prompt 1+8 tokens 1 ttft 10 intervals 0 split 7/0/3/0 shared 1 end_seen\n"
	       "of 2 130-140 prompt 1+8 tokens 1 ttft 10 intervals 0 split 7/0/3/0 shared 1 end_seen\n"
	       "of 0 160-170 prompt 8+0 tokens 1 ttft 10 intervals 0 split 10/0/0/0\n");
}

/* ---- anything ---- */

static uint64_t seed = 88172645463325252u;

static uint64_t any(uint64_t from, uint64_t to)
{
	return from + next_random(&seed) % (to - from + 1);
}

static void on_any_done(struct step_request *r, void *arg)
{
	uint64_t sum = 0, waits = r->waits_rest, *n = arg;

	++*n;
	assert_true(r->start && r->last_end >= r->start);
	assert_true(step_request_ttft(r) <= r->last_end - r->start);
	assert_true(step_request_tokens(r) <= r->outputs + 1);
	if (!step_request_split(r))
		return;
	for (int i = 0; i < SPAN_MAX; i++) {
		uint64_t states = 0;

		sum += r->spans[i];
		for (int k = 0; k < ST_MAX; k++)
			states += r->span_states[i][k];
		if (!r->states_unknown[i])
			assert_int_equal(states, r->spans[i]);
	}
	assert_int_equal(sum, r->last_end - r->start);
	for (size_t i = 0; i < r->n_waits; i++)
		waits += r->waits[i].ns;
	assert_int_equal(waits, r->spans[SPAN_OTHERS]);
}

static int64_t any_position(void)
{
	static const int64_t odd[] = { -1, INT64_MIN, INT64_MAX, INT64_MAX / 2, INT32_MAX, 0 };

	return any(0, 3) ? (int64_t)any(0, 12) : odd[any(0, ARRAY_SIZE(odd) - 1)];
}

TEST(test_junk)
{
	static const struct step_requests_ops any_ops = { .done = on_any_done };
	static const uint32_t odd[] = { 0, 1, UINT32_MAX, 1u << 31 };
	uint64_t n = 0, now = 1000;

	for (int round = 0; round < 20; round++) {
		requests = step_requests_new(NULL, &any_ops, &n);
		for (int i = 0; i < 1000; i++) {
			struct row_part parts[STEP_PARTS_MAX];
			struct step_seen s = { .tgid = 1, .context = any(0, 2), .parts = parts, .has_rows = true };

			s.n_parts = (uint32_t)(any(0, 9) ? any(1, 6) : any(0, STEP_PARTS_MAX));
			for (uint32_t k = 0; k < s.n_parts; k++) {
				uint32_t rows = any(0, 9) ? (uint32_t)any(1, 4) : odd[any(0, 3)];

				parts[k] = (struct row_part){ any(0, 9) ? any(0, 7) : any(0, UINT64_MAX - 1), any_position(), rows,
					any(0, 3) ? 1 : odd[any(0, 3)] };
			}
			s.tokens = any(0, 3) ? 0 : any(0, UINT32_MAX);
			s.phase = (enum step_phase)any(PHASE_PREFILL, PHASE_SHARED);
			s.parts_left = any(0, 50) == 0;
			s.cut = any(0, 50) == 0;
			s.began_before = any(0, 50) == 0;
			s.start = now - (any(0, 60) ? 0 : any(0, 500));
			s.end = now += any(0, 1000);
			now += any(0, 1) ? any(0, 100) : 0;
			s.has_states = any(0, 60);
			s.ns[ST_CPU] = s.has_states ? s.end - s.start : 0;
			step_requests_add(requests, &s);
			if (any(0, 400) == 0)
				step_requests_lost(requests, 1);
			if (any(0, 9) == 0) {
				struct sequence_change c = { .what = (enum sequence_what)any(0, SEQUENCE_WHATS - 1), .tgid = 1, .at_ns = now - any(0, 1000) + any(0, 500), .context = any(0, 3), .sequence = any(0, 7), .source = any(0, 7), .from = any_position(), .to = any_position(), .by = any_position(), .every = any(0, 9) == 0 };

				step_requests_change(requests, &c);
			}
		}
		end();
	}
	assert_true(n > 1000);
}

/* What the thread did between two steps is known if no step of another context came between them. */
TEST(test_between)
{
	static const struct row_part first = { 0, 0, 8, 1 }, second = { 0, 8, 1, 1 }, third = { 0, 9, 1, 1 };
	struct step_seen list[] = {
		{ .start = 100, .end = 200, .parts = &first, .n_parts = 1, .before_ns = { [ST_SYSCALL] = 70 } },
		{ .start = 250, .end = 300, .parts = &second, .n_parts = 1, .before_ns = { [ST_CPU] = 20, [ST_SYSCALL] = 30 } },
		{ .start = 360, .end = 400, .parts = &third, .n_parts = 1, .before_ns = { [ST_CPU] = 60 } },
	};

	for (int i = 0; i < 2; i++) {
		begin();
		for (uint32_t k = 0; k < 3; k++) {
			list[k].number = k;
			list[k].phase = PHASE_SHARED;
			step_requests_add(requests, &list[k]);
		}
		end();
		assert_int_equal(n_got, 1);
		assert_int_equal(got[0].r.spans[SPAN_BETWEEN], 110);
		assert_int_equal(got[0].r.states_unknown[SPAN_BETWEEN], i);
		if (!i) {
			assert_int_equal(got[0].r.span_states[SPAN_BETWEEN][ST_CPU], 80);
			assert_int_equal(got[0].r.span_states[SPAN_BETWEEN][ST_SYSCALL], 30);
		}
		list[2].before_ns[ST_CPU] = 10; /* a step of another context came between */
	}
}

/* The engine itself says which request is placed where, and when it is done. */
TEST(test_placed)
{
	struct sequence_change c = { .what = SEQUENCE_PLACE, .tgid = 1, .context = 9, .to = INT64_MAX };

	/* the slot of a request that began before the recording, and its next request, which continues where that ended */
	begin();
	ADD(0, 1, 1, { { 0, 20, 1, 1 } });
	c.at_ns = 100 + 10 * 2;
	c.request = 18;
	step_requests_change(requests, &c);
	ADD(3, 4, 1, { { 0, 21, 1, 1 } });
	ADD(5, 6, 1, { { 0, 22, 1, 1 } });
	change(7, SEQUENCE_END, 0, 0, INT64_MAX, 0);
	/* given up within its prompt */
	c.at_ns = 100 + 10 * 8;
	c.request = 19;
	step_requests_change(requests, &c);
	ADD(9, 10, 1, { { 0, 0, 8, 0 } });
	change(11, SEQUENCE_END, 0, 0, INT64_MAX, 0);
	/* guesses, the last two of which were rejected, also after its last step */
	c.at_ns = 100 + 10 * 12;
	c.request = 20;
	step_requests_change(requests, &c);
	ADD(13, 14, 1, { { 0, 4, 8, 1 } });
	ADD(15, 16, 1, { { 0, 12, 4, 4 } });
	change(17, SEQUENCE_REMOVE, 0, 14, INT64_MAX, 0);
	ADD(18, 19, 1, { { 0, 14, 4, 4 } });
	change(20, SEQUENCE_REMOVE, 0, 17, INT64_MAX, 0);
	change(20, SEQUENCE_END, 0, 0, INT64_MAX, 0);
	expect("of 0 100-110 prompt 0+-1 tokens 1 ttft 0 intervals 0 split 0/10/0/0 began_before end_seen\n"
	       "of 0 130-160 prompt 1+21 tokens 2 ttft 10 intervals 1 split 10/10/0/10 given 18 end_seen\n"
	       "of 0 190-200 prompt 8+0 tokens 0 ttft 0 intervals 0 split 10/0/0/0 given 19 cancelled end_seen\n"
	       "of 0 230-290 prompt 8+4 tokens 6 ttft 10 intervals 5 split 10/20/0/30 given 20 end_seen\n");

	/* a draft model's context has sequences, too, but no requests */
	begin();
	c = (struct sequence_change){ .what = SEQUENCE_PLACE, .tgid = 1, .context = 8, .draft = 9, .at_ns = 90, .to = INT64_MAX };
	step_requests_change(requests, &c);
	ADD(0, 1, 1, { { 0, 0, 8, 1 } });
	ADD(2, 3, 1, { { 0, 8, 1, 1 } });
	expect("");
}

static uint64_t said_ns;

/* What the engine says at `at`, when its thread has been off CPU this long since its last step. */
static void told(enum sequence_what what, uint64_t at, uint64_t sequence, uint32_t off_cpu_ns)
{
	struct sequence_change c = { .what = what, .tgid = 1, .context = 9, .at_ns = at, .sequence = sequence, .to = INT64_MAX };

	c.request = 18 + sequence;
	c.said_ns = said_ns;
	c.off_known = true;
	c.off_cpu_ns = off_cpu_ns;
	step_requests_change(requests, &c);
}

static void check_sums(const struct step_request *r)
{
	uint64_t sum = 0, between = 0;

	for (int i = 0; i < SPAN_MAX; i++)
		sum += r->spans[i];
	for (int i = 0; i < ST_MAX; i++)
		between += r->span_states[SPAN_BETWEEN][i];
	assert_int_equal(sum, r->last_end - r->start);
	assert_true(r->states_unknown[SPAN_BETWEEN] || between == r->spans[SPAN_BETWEEN]);
	assert_int_equal(r->spans[SPAN_OWN_PREFILL] + r->first_others + r->first_between, r->first_output - r->start);
}

/* The engine tells when it begins a request, and when it has sampled a step's tokens: one after the other. */
TEST(test_sampled)
{
	begin();
	for (uint64_t i = 0; i < 3; i++)
		told(SEQUENCE_PLACE, 90, i, 0);
	told(SEQUENCE_BEGIN, 96, 0, 0);
	ADD(0, 1, 3, { { 0, 0, 8, 1 }, { 1, 0, 8, 1 }, { 2, 0, 8, 1 } });
	assert_int_equal(n_firsts, 0);
	told(SEQUENCE_TOKEN, 112, 0, 0);
	told(SEQUENCE_TOKEN, 114, 1, 0);
	ADD(2, 3, 3, { { 0, 8, 1, 1 }, { 1, 8, 1, 1 }, { 2, 8, 1, 1 } });
	assert_int_equal(n_firsts, 3);
	told(SEQUENCE_TOKEN, 132, 0, 0);
	told(SEQUENCE_END, 133, 0, 0);
	told(SEQUENCE_TOKEN, 136, 1, 3);
	ADD(4, 5, 1, { { 1, 9, 1, 1 } });
	ADD(6, 7, 1, { { 2, 9, 1, 1 } });
	told(SEQUENCE_TOKEN, 173, 1, 0); /* a step of another context came in between: what it tells is unknown */
	end();
	assert_int_equal(n_got, 3);
	for (int i = 0; i < 3; i++) {
		check_sums(&got[i].r);
		assert_int_equal(got[i].r.prefill_step, got[0].r.prefill_step);
	}
	assert_int_equal(got[0].r.start, 96);
	assert_true(got[0].r.states_unknown[SPAN_BETWEEN]); /* of the time before the first step of all */
	assert_int_equal(got[0].r.first_output, 112);
	assert_int_equal(got[0].r.first_between, 4 + 2);
	assert_int_equal(got[0].r.last_end, 132);
	assert_int_equal(got[1].r.start, 100);
	assert_int_equal(got[1].r.first_output, 114);
	assert_int_equal(got[1].r.last_end, 150); /* it went on after what came off CPU */
	/* nobody reported its tokens */
	assert_int_equal(got[2].r.first_output, 110);
	assert_int_equal(got[2].r.last_end, 170);
}

/* Before the first step and after the last one, only the off-CPU time of the thread is known. */
TEST(test_part_of_gap)
{
	static const struct {
		uint64_t cpu, poll, runnable; /* of the 50 before its step */
		uint32_t before, after;       /* off CPU: until it began the request, and until it had the token */
		bool unknown;
		uint64_t got_cpu, got_poll;
	} cases[] = {
		{ 50, 0, 0, 0, 0, false, 8 + 5, 0 },
		{ 10, 40, 0, 40, 0, false, 8 + 5, 0 },
		{ 10, 40, 0, 37, 0, false, 5 + 5, 3 },
		{ 10, 37, 3, 40, 0, false, 8 + 5, 0 },
		{ 10, 37, 3, 37, 0, true, 0, 0 }, /* unknown of which kind */
		{ 10, 40, 0, 30, 0, true, 0, 0 }, /* longer than the time itself */
		{ 10, 39, 0, 40, 0, true, 0, 0 }, /* not all of it is known */
		{ 50, 0, 0, 0, 2, true, 0, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct row_part prompt[] = { { 0, 0, 8, 1 } }, other[] = { { 1, 5, 1, 1 } };
		struct step_seen s = { .start = 100, .end = 110, .tgid = 1, .context = 9, .number = 1, .tokens = 1, .n_parts = 1, .parts = other };
		const struct step_request *r = &got[1].r;

		begin();
		step_requests_add(requests, &s);
		told(SEQUENCE_PLACE, 120, 0, 0);
		told(SEQUENCE_BEGIN, 152, 0, cases[i].before);
		told(SEQUENCE_TOKEN, 175, 0, cases[i].after);
		s = (struct step_seen){ .start = 160, .end = 170, .tgid = 1, .context = 9, .number = 2, .tokens = 8, .n_parts = 1, .parts = prompt };
		s.before_ns[ST_CPU] = cases[i].cpu;
		s.before_ns[ST_BLOCKED_POLL] = cases[i].poll;
		s.before_ns[ST_RUNNABLE] = cases[i].runnable;
		step_requests_add(requests, &s);
		end();
		assert_int_equal(n_got, 2);
		check_sums(r);
		assert_int_equal(r->start, 152);
		assert_int_equal(r->last_end, 175);
		assert_int_equal(step_request_ttft(r), 23);
		assert_int_equal(r->states_unknown[SPAN_BETWEEN], cases[i].unknown);
		if (!cases[i].unknown) {
			assert_int_equal(r->span_states[SPAN_BETWEEN][ST_CPU], cases[i].got_cpu);
			assert_int_equal(r->span_states[SPAN_BETWEEN][ST_BLOCKED_POLL], cases[i].got_poll);
		}
	}
}

/* Nobody says when a request is over: it is if it had no step for ten seconds when another one begins. */
TEST(test_idle)
{
	struct row_part first = { 1, 0, 5, 1 }, again = { 1, -1, 1, 1 }, second = { 2, 0, 3, 1 };
	struct step_seen s = { .tgid = 1, .context = 9, .has_rows = true, .own_ids = true, .no_ends = true, .n_parts = 1 };
	const struct {
		uint64_t ms;
		const struct row_part *part;
		size_t over; /* requests, after it */
	} steps[] = { { 0, &first, 0 }, { 9000, &again, 0 }, { 18500, &second, 0 }, { 20000, &(struct row_part){ 3, 0, 1, 1 }, 1 }, { 21000, &again, 1 } };

	begin();
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		s.start = 1000 + steps[i].ms * 1000000;
		s.end = s.start + 1000;
		s.number = (uint32_t)i;
		s.tokens = steps[i].part->rows;
		s.parts = steps[i].part;
		step_requests_add(requests, &s);
		assert_int_equal(n_got, steps[i].over);
	}
	end();
	assert_int_equal(n_got, 4);
	/* what comes of it later is another one, of which the beginning is not known */
	assert_int_equal(got[0].r.sequence, 1);
	assert_int_equal(got[0].r.outputs, 1); /* behind its first */
	assert_true(got[3].r.began_before);
}

static uint32_t said[SCHEDULER_VALUES]; /* by the scheduler in the next steps: as in struct rec_step */

/* Adds a step of an engine in Python, from 10 * start to 10 * end. */
static void add_own(uint64_t start, uint64_t end, uint32_t n, const struct row_part *parts, bool placed_once)
{
	static uint32_t number;
	struct step_seen s = { .start = 10 * start, .end = 10 * end, .number = number++, .tgid = 1, .context = 9, .has_rows = true };

	s.own_ids = true;
	s.placed_once = placed_once;
	s.phase = PHASE_SHARED;
	s.has_states = true;
	s.ns[ST_CPU] = s.end - s.start;
	s.n_parts = n;
	s.parts = parts;
	memcpy(s.scheduler, said, sizeof(said));
	for (uint32_t i = 0; i < n; i++)
		s.tokens += parts[i].rows;
	step_requests_add(requests, &s);
}

static void say(uint32_t waiting, uint32_t running, uint32_t slots)
{
	said[SCHEDULER_WAITING] = 1 + waiting;
	said[SCHEDULER_RUNNING] = 1 + running;
	said[SCHEDULER_SLOTS] = 1 + slots;
}

static void arrives(uint64_t at, uint64_t told_at, uint64_t sequence)
{
	said_ns = at;
	told(SEQUENCE_FIRST, told_at, sequence, 0);
	said_ns = 0;
}

#define OWN(start, end, ...) add_own(start, end, sizeof((struct row_part[]){ __VA_ARGS__ }) / sizeof(struct row_part), (struct row_part[]){ __VA_ARGS__ }, true)

/* After its first token, with others in its steps: what it computes once more is no prompt of its own, but others wait for it. */
TEST(test_preempted)
{
	const struct step_request *r = &got[0].r, *other = &got[1].r;

	begin();
	OWN(10, 11, { 1, 4, 6, 1 });
	OWN(11, 12, { 1, -1, 1, 1 });
	OWN(13, 14, { 2, 0, 8, 1 });
	OWN(15, 19, { 1, 3, 4, 0 });
	OWN(20, 22, { 1, -1, 5, 1 }, { 2, -1, 1, 1 });
	OWN(22, 23, { 1, -1, 3, 2 }); /* of two drafts one is accepted */
	OWN(25, 26, { 1, 14, 1, 1 }); /* all of it was still there */
	end();
	assert_int_equal(n_got, 2);
	assert_false(r->mixed);
	assert_int_equal(r->preemptions, 2);
	assert_int_equal(r->preempted, 30 + 20);
	assert_int_equal(r->first_preempted, 0);
	assert_int_equal(r->out[0].from, 120);
	assert_int_equal(r->out[0].to, 150);
	assert_int_equal(r->out[1].from, 230);
	assert_int_equal(r->recomputed, 4 + 4);
	assert_int_equal(r->recompute, 40 + 20 * 4 / 5);
	assert_int_equal(r->prompt_tokens, 6);
	assert_int_equal(r->cached, 4);
	assert_int_equal(step_request_tokens(r), 6);
	check_sums(r);
	assert_int_equal(other->preemptions, 0);
	assert_int_equal(other->spans[SPAN_OTHERS], 40 + 20 * 4 / 6);
	check_sums(other);
}

/* Within its prompt, of which another request has computed the next part meanwhile. */
TEST(test_preempted_early)
{
	const struct step_request *r = &got[0].r;

	begin();
	OWN(10, 11, { 1, 0, 4, 0 });
	OWN(12, 13, { 1, 6, 2, 1 });
	end();
	assert_int_equal(r->preemptions, 1);
	assert_int_equal(r->preempted, 10);
	assert_int_equal(r->first_preempted, 10);
	assert_int_equal(r->recomputed, 0);
	assert_int_equal(r->prompt_tokens, 6);
	assert_int_equal(r->cached, 2);
	assert_int_equal(step_request_ttft(r), 30);
	check_sums(r);
}

/* An engine that says of each part of a prompt where it begins: it goes back if the request was preempted. Drafts are not among its rows. */
TEST(test_preempted_by_place)
{
	static const struct row_part parts[] = { { 1, 0, 4, 0 }, { 1, 4, 4, 1 }, { 1, -1, 1, 3 }, { 1, 4, 8, 1 }, { 1, -1, 1, 1 }, { 2, -1, 3, 0 }, { 2, 1, 3, 1 } };

	begin();
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		add_own(10 + i, 11 + i, 1, &parts[i], false);
	end();
	assert_int_equal(got[0].r.preemptions, 1);
	assert_int_equal(got[0].r.recomputed, 7);
	assert_int_equal(got[0].r.prompt_tokens, 8);
	assert_int_equal(step_request_tokens(&got[0].r), 6);
	/* of one that began before the recording it is not known how much it had computed */
	assert_true(got[1].r.began_before);
	assert_int_equal(got[1].r.preemptions, 0);
}

/* Why a scheduler let no other request in. */
TEST(test_refused)
{
	begin();
	memset(said, 0, sizeof(said));
	say(0, 1, 2);
	said[SCHEDULER_TOKENS_MAX] = 1 + 8;
	OWN(10, 11, { 1, 0, 4, 1 });
	say(1, 2, 2);
	OWN(12, 13, { 1, -1, 1, 1 });
	say(1, 1, 2);
	OWN(14, 15, { 1, -1, 8, 1 });
	OWN(17, 18, { 1, -1, 1, 1 }); /* of the cache it says nothing */
	said[SCHEDULER_KV_FREE] = 1 + 100;
	OWN(18, 19, { 1, -1, 1, 1 });
	arrives(115, 195, 2);
	OWN(20, 21, { 2, 0, 3, 1 });
	end();
	assert_int_equal(got[1].r.arrived, 115);
	assert_int_equal(got[1].r.refused[REFUSED_SLOT], 20);
	assert_int_equal(got[1].r.refused[REFUSED_TOKENS], 30);
	assert_int_equal(got[1].r.refused[REFUSED_KV], 20);
	memset(said, 0, sizeof(said));
}

/* Of one that has made the next step's batch already: that one tells. */
TEST(test_refused_ahead)
{
	begin();
	memset(said, 0, sizeof(said));
	said[SCHEDULER_AHEAD] = 1 + 1;
	said[SCHEDULER_TOKENS_MAX] = 1 + 8;
	said[SCHEDULER_KV_FREE] = 1 + 100;
	say(0, 1, 2);
	OWN(10, 11, { 1, 0, 4, 1 });
	say(1, 1, 2);
	OWN(12, 13, { 1, -1, 1, 1 });
	OWN(14, 15, { 1, -1, 8, 1 });
	said[SCHEDULER_FULL] = 1 + 1;
	OWN(17, 18, { 1, -1, 1, 1 });
	said[SCHEDULER_FULL] = 1;
	say(1, 2, 2);
	OWN(18, 19, { 1, -1, 1, 1 });
	arrives(115, 195, 2);
	OWN(22, 23, { 2, 0, 3, 1 });
	end();
	assert_int_equal(got[1].r.refused[REFUSED_TOKENS], 20); /* in the third step, of which the second one's numbers are */
	assert_int_equal(got[1].r.refused[REFUSED_KV], 40);
	assert_int_equal(got[1].r.refused[REFUSED_SLOT], 40);
	memset(said, 0, sizeof(said));
}

/* Of one that tells only whether it is full, and computes prompts apart. */
TEST(test_refused_by_full)
{
	begin();
	say(0, 1, 2);
	OWN(10, 11, { 1, 0, 4, 1 });
	say(1, 1, 2); /* one of those that ran is over since */
	OWN(12, 13, { 1, -1, 1, 1 });
	say(1, 0, 2);
	OWN(14, 15, { 3, 0, 4, 1 });
	OWN(17, 18, { 1, -1, 1, 1 });
	arrives(115, 175, 2);
	say(0, 1, 2);
	OWN(18, 19, { 2, 0, 3, 1 });
	end();
	assert_int_equal(got[2].r.sequence, 2);
	assert_int_equal(got[2].r.refused[REFUSED_SLOT], 20);
	assert_int_equal(got[2].r.refused[REFUSED_TOKENS], 30);
	assert_int_equal(got[2].r.refused[REFUSED_KV], 10);
	memset(said, 0, sizeof(said));
}

/* More steps than are kept: the time before these has no reason. */
TEST(test_refused_long)
{
	static const struct row_part decode = { 1, -1, 1, 1 }, prompt = { 2, 0, 3, 1 };
	const uint64_t n = 5000;

	begin();
	say(1, 2, 2);
	for (uint64_t i = 0; i < n; i++)
		add_own(10 + 2 * i, 11 + 2 * i, 1, &decode, true);
	arrives(50, 10 * (10 + 2 * n), 2);
	add_own(10 + 2 * n, 11 + 2 * n, 1, &prompt, true);
	end();
	assert_int_equal(got[1].r.start - got[1].r.arrived, 20 * n + 50);
	assert_int_equal(got[1].r.refused[REFUSED_SLOT], 20 * (REFUSALS_MAX - 1));
	memset(said, 0, sizeof(said));
}

/* The engine's memory has a time, which is believed if it is possible. */
TEST(test_said)
{
	static const struct {
		uint64_t begun, sampled; /* as the engine says */
		uint32_t off;            /* when it was placed; when it began: 5 */
		uint32_t token_off;
		uint64_t start, last_end;
		bool unknown;
	} cases[] = {
		{ 0, 0, 5, 0, 152, 175, false },
		{ 130, 172, 5, 0, 130, 172, false },
		{ 119, 169, 5, 0, 152, 175, false }, /* before it was placed, and before the end of the step */
		{ 153, 176, 5, 0, 152, 175, false },
		{ 130, 0, 4, 0, 130, 175, true }, /* whether it was off the CPU before or after is unknown */
		{ 0, 172, 5, 1, 152, 172, true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct row_part prompt[] = { { 0, 0, 8, 1 } }, other[] = { { 1, 5, 1, 1 } };
		struct step_seen s = { .start = 100, .end = 110, .tgid = 1, .context = 9, .number = 1, .tokens = 1, .n_parts = 1, .parts = other };

		begin();
		step_requests_add(requests, &s);
		told(SEQUENCE_PLACE, 120, 0, cases[i].off);
		said_ns = cases[i].begun;
		told(SEQUENCE_BEGIN, 152, 0, 5);
		said_ns = 0;
		told(SEQUENCE_BEGIN, 155, 0, 5); /* the first one counts */
		said_ns = cases[i].sampled;
		told(SEQUENCE_TOKEN, 175, 0, cases[i].token_off);
		said_ns = 0;
		s = (struct step_seen){ .start = 160, .end = 170, .tgid = 1, .context = 9, .number = 2, .tokens = 8, .n_parts = 1, .parts = prompt };
		s.before_ns[ST_CPU] = 45;
		s.before_ns[ST_RUNNABLE] = 5;
		step_requests_add(requests, &s);
		end();
		assert_int_equal(n_got, 2);
		check_sums(&got[1].r);
		assert_int_equal(got[1].r.start, cases[i].start);
		assert_int_equal(got[1].r.last_end, cases[i].last_end);
		assert_int_equal(step_request_ttft(&got[1].r), cases[i].last_end - cases[i].start);
		assert_int_equal(got[1].r.states_unknown[SPAN_BETWEEN], cases[i].unknown);
	}
}

RUN_TESTS(NULL, NULL)
