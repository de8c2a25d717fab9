// SPDX-License-Identifier: BSD-2-Clause
/*
 * Requests from steps that say which rows belong to whom: a simulated server with slots, prompt chunks, kept prefixes,
 * drafts, pauses and cancellations; what it knows about its requests is compared with the result, to the nanosecond.
 */
#include "requests/step_requests.h"
#include "unit.h"

#define SLOTS_MAX 64
#define STEPS_MAX 1500
#define REQUESTS 1024
#define TGID 7

static uint64_t seed;

static uint64_t any(uint64_t from, uint64_t to)
{
	return from + next_random(&seed) % (to - from + 1);
}

static bool chance(unsigned int percent)
{
	return any(1, 100) <= percent;
}

/* ---- the server ---- */

struct truth {
	uint64_t context, sequence;
	size_t first, last; /* steps */
	uint64_t cached, prompt, outputs, drafts;
	bool cancelled;
};

struct slot {
	struct truth *now; /* NULL: free */
	uint64_t left;     /* prompt rows still to be decoded */
	uint64_t answer;   /* outputs still wanted */
	uint64_t end;      /* position after the kept part */
	uint64_t verify;   /* number of drafts in the step before, some of which were accepted */
	bool paused;
};

struct server {
	struct slot slots[SLOTS_MAX];
	size_t n_slots;
	uint64_t context, n_batch;
	bool drafts;
};

struct played {
	struct step_seen s;
	struct row_part parts[SLOTS_MAX];
	uint32_t prompt[SLOTS_MAX];
	struct truth *of[SLOTS_MAX];
	uint64_t taken[SLOTS_MAX]; /* outputs that each slot got */
};

static struct played played[STEPS_MAX];
static size_t n_played;
static struct truth truths[REQUESTS];
static size_t n_truths;

static void arrive(struct server *sv, struct slot *slot)
{
	struct truth *t = &truths[n_truths];

	assert_true(n_truths < REQUESTS);
	n_truths++;
	*t = (struct truth){ .context = sv->context, .sequence = (uint64_t)(slot - sv->slots), .first = SIZE_MAX };
	slot->now = t;
	slot->left = chance(30) ? any(1, 3) : any(4, 300);
	slot->answer = chance(20) ? 1 : any(1, 30);
	if (slot->end > 1 && chance(60))
		t->cached = any(1, slot->end - 1);
	/* the next turn of a chat; a request that was cancelled within its prompt, or has drafts, is not continued */
	if (slot->end && !slot->verify && chance(30) && slot->paused) {
		t->cached = slot->end;
		slot->left += 2;
	}
	slot->verify = 0;
	slot->paused = false;
	slot->end = t->cached;
}

static void leave(struct slot *slot, bool cancelled)
{
	slot->now->cancelled = cancelled;
	/* paused: it may be continued */
	slot->paused = slot->now->outputs > 0;
	slot->now = NULL;
}

/* Adds the slot's rows to the step under construction. */
static void add_rows(struct server *sv, struct slot *slot, struct played *p)
{
	uint32_t i = p->s.n_parts;
	struct row_part *part = &p->parts[i];
	uint64_t room = sv->n_batch - p->s.tokens, rows;

	if (!slot->now || !room || (slot->now->first != SIZE_MAX && chance(5)))
		return;
	*part = (struct row_part){ .sequence = slot->now->sequence, .position = (int64_t)slot->end };
	if (slot->left) {
		rows = slot->left < room ? slot->left : room;
		slot->left -= rows;
		part->outputs = !slot->left;
		p->prompt[i] = (uint32_t)rows;
		slot->now->prompt += rows;
		p->taken[i] = part->outputs;
		slot->end += rows;
	} else {
		rows = sv->drafts && room > 4 && chance(30) ? any(2, 4) : 1;
		part->outputs = (uint32_t)rows;
		p->taken[i] = any(1, rows);
		/* in a last step it would be unknown how many drafts were accepted */
		if (p->taken[i] > slot->answer || (rows > 1 && p->taken[i] == slot->answer))
			p->taken[i] = part->outputs = (uint32_t)(rows = 1);
		slot->now->drafts += rows > 1;
		slot->verify = rows > 1;
		slot->end += p->taken[i];
	}
	part->rows = (uint32_t)rows;
	p->of[i] = slot->now;
	p->s.n_parts++;
	p->s.tokens += rows;
	slot->now->outputs += p->taken[i];
	slot->answer -= p->taken[i];
	slot->now->last = n_played;
	if (slot->now->first == SIZE_MAX)
		slot->now->first = n_played;
	if (!slot->answer)
		leave(slot, false);
	else if (chance(3) && slot->verify == 0)
		leave(slot, true);
}

static void play_step(struct server *sv, uint64_t *now)
{
	struct played *p = &played[n_played];
	uint64_t left;

	memset(p, 0, sizeof(*p));
	for (size_t i = 0; i < sv->n_slots; i++) {
		if (!sv->slots[i].now && chance(20))
			arrive(sv, &sv->slots[i]);
	}
	/* decoding slots come first, as in llama.cpp's server */
	for (int prompts = 0; prompts < 2; prompts++) {
		for (size_t i = 0; i < sv->n_slots; i++) {
			struct slot *slot = &sv->slots[i];

			if (slot->now && !slot->left == !prompts)
				add_rows(sv, slot, p);
		}
	}
	*now += chance(10) ? 0 : any(1, 1000000);
	if (!p->s.n_parts)
		return;
	p->s.start = *now;
	p->s.end = *now += any(1, 50000000);
	p->s.number = (uint32_t)n_played;
	p->s.tgid = TGID;
	p->s.context = sv->context;
	p->s.phase = p->s.n_parts > 1 ? PHASE_SHARED : PHASE_DECODE;
	p->s.parts = p->parts;
	p->s.has_rows = p->s.has_states = true;
	left = p->s.end - p->s.start;
	for (int i = 0; i < ST_MAX; i++) {
		p->s.ns[i] = chance(50) ? any(0, left) : 0;
		left -= p->s.ns[i];
	}
	p->s.ns[ST_CPU] += left;
	n_played++;
}

/* ---- the result ---- */

static struct step_request got[REQUESTS];
static struct step_wait *got_waits[REQUESTS];
static uint64_t *got_intervals[REQUESTS];
static size_t n_got, n_begun, n_first, n_part;

static void *copy_of(const void *p, size_t size)
{
	void *copy = malloc(size + 1);

	assert_non_null(copy);
	return size ? memcpy(copy, p, size) : copy;
}

static void on_done(struct step_request *r, void *arg)
{
	assert_true(r->serial && r->serial <= REQUESTS);
	n_got++;
	got[r->serial - 1] = *r;
	got_waits[r->serial - 1] = copy_of(r->waits, r->n_waits * sizeof(*r->waits));
	got_intervals[r->serial - 1] = copy_of(r->intervals, r->n_intervals * sizeof(*r->intervals));
}

static void on_begin(struct step_request *r, const struct step_seen *s, void *arg)
{
	n_begun++;
	assert_int_equal(r->serial, n_begun);
	assert_int_equal(r->start, s->start);
}

static void on_part(struct step_request *r, const struct step_seen *s, const struct request_part *p, void *arg)
{
	const struct played *step = &played[s->number];

	for (uint32_t i = 0; i < s->n_parts; i++) {
		if (step->parts[i].sequence != r->sequence)
			continue;
		assert_int_equal(p->prompt, step->prompt[i]);
		assert_memory_equal(p->rows, &step->parts[i], sizeof(*p->rows));
		assert_int_equal(p->own_ns + p->others_ns, s->end - s->start);
		n_part++;
	}
}

static void on_first(struct step_request *r, void *arg)
{
	assert_int_equal(r->first_output, r->last_end);
	n_first++;
}

static const struct step_requests_ops all_ops = {
	.begin = on_begin, .part = on_part, .first = on_first, .done = on_done
};

static void forget(void)
{
	for (size_t i = 0; i < REQUESTS; i++) {
		free(got_intervals[i]);
		free(got_waits[i]);
		got_intervals[i] = NULL;
		got_waits[i] = NULL;
	}
	n_got = n_begun = n_first = n_part = 0;
	memset(got, 0, sizeof(got));
}

/* ---- both ---- */

static const struct played *step_of(const struct truth *t, size_t number, uint32_t *ret_part)
{
	const struct played *p = &played[number];

	if (p->s.context != t->context)
		return NULL;
	for (*ret_part = 0; *ret_part < p->s.n_parts; ++*ret_part) {
		if (p->of[*ret_part] == t)
			break;
	}
	return p;
}

static void check_times(const struct truth *t, const struct step_request *r)
{
	uint64_t spans[SPAN_MAX] = {}, waits[REQUESTS] = {}, previous = 0, second = 0, others = 0, named = 0;
	uint64_t first_waits[REQUESTS] = {}, first_named = 0;
	const struct played *before = NULL;
	size_t n_steps = 0, n_shared = 0, n_intervals = 0;
	uint32_t part;

	for (size_t i = t->first; i <= t->last; i++) {
		const struct played *p = step_of(t, i, &part);
		uint64_t total, prompts = 0;

		if (!p)
			continue;
		total = p->s.end - p->s.start;
		if (before)
			spans[SPAN_BETWEEN] += p->s.start - before->s.end;
		before = p;
		if (part == p->s.n_parts) {
			spans[SPAN_OTHERS] += total;
			for (uint32_t k = 0; k < p->s.n_parts; k++)
				waits[p->of[k] - truths] += total * p->parts[k].rows / p->s.tokens;
			continue;
		}
		n_steps++;
		n_shared += p->s.n_parts > 1;
		for (uint32_t k = 0; k < p->s.n_parts; k++) {
			if (k == part)
				continue;
			prompts += p->prompt[k];
			waits[p->of[k] - truths] += total * p->prompt[k] / p->s.tokens;
		}
		spans[SPAN_OTHERS] += total * prompts / p->s.tokens;
		spans[p->prompt[part] ? SPAN_OWN_PREFILL : SPAN_OWN_DECODE] += total - total * prompts / p->s.tokens;
		second = previous && !second ? p->s.start + part : second;
		for (uint64_t k = 0; previous && k < p->taken[part]; k++)
			assert_int_equal(got_intervals[r->serial - 1][n_intervals++], (p->s.end - previous) / p->taken[part]);
		if (!previous && p->taken[part]) {
			assert_int_equal(r->first_output, p->s.end);
			assert_int_equal(r->first_others, spans[SPAN_OTHERS]);
			assert_int_equal(r->first_between, spans[SPAN_BETWEEN]);
			assert_int_equal(spans[SPAN_OWN_PREFILL] + r->first_others + r->first_between, step_request_ttft(r));
			memcpy(first_waits, waits, sizeof(waits));
		}
		previous = p->taken[part] ? p->s.end : previous;
	}
	assert_int_equal(r->first_output != 0, previous != 0);
	assert_int_equal(step_request_ttft(r), previous ? r->first_output - r->start : 0);
	assert_int_equal(r->second, second);
	assert_int_equal(r->steps, n_steps);
	assert_int_equal(r->shared, n_shared);
	assert_int_equal(r->n_intervals, n_intervals);
	for (int i = 0; i < SPAN_MAX; i++) {
		uint64_t sum = 0;

		assert_int_equal(r->spans[i], spans[i]);
		for (int k = 0; k < ST_MAX; k++)
			sum += r->span_states[i][k];
		assert_true(r->states_unknown[i] || sum == spans[i]);
		assert_true(i == SPAN_BETWEEN || !r->states_unknown[i]);
		others += spans[i];
	}
	assert_int_equal(others, r->last_end - r->start);
	for (size_t i = 0; i < r->n_waits; i++) {
		const struct step_wait *w = &got_waits[r->serial - 1][i];
		uint64_t truth = waits[w->serial - 1];

		assert_int_equal(w->sequence, truths[w->serial - 1].sequence);
		assert_true(w->ns + 2 * (t->last - t->first + 1) >= truth && truth + 2 * (t->last - t->first + 1) >= w->ns);
		assert_true(!i || w[-1].ns >= w->ns);
		named += w->ns;
		truth = r->first_output ? first_waits[w->serial - 1] : w->first_ns;
		assert_true(w->first_ns + 2 * (t->last - t->first + 1) >= truth && truth + 2 * (t->last - t->first + 1) >= w->first_ns);
		first_named += w->first_ns;
	}
	assert_int_equal(first_named, r->first_others);
	assert_int_equal(named + r->waits_rest, spans[SPAN_OTHERS]);
	assert_int_equal(r->waits_rest, 0);
}

/* Numbers requests in the order of their first rows. */
static void sort_truths(void)
{
	static struct truth sorted[REQUESTS];
	static size_t place[REQUESTS];
	size_t n = 0;

	for (size_t i = 0; i < n_played; i++) {
		for (uint32_t k = 0; k < played[i].s.n_parts; k++) {
			struct truth *t = played[i].of[k];

			if (t->first != i)
				continue;
			place[t - truths] = n;
			sorted[n++] = *t;
		}
	}
	for (size_t i = 0; i < n_played; i++) {
		for (uint32_t k = 0; k < played[i].s.n_parts; k++)
			played[i].of[k] = &truths[place[played[i].of[k] - truths]];
	}
	n_truths = n;
	memcpy(truths, sorted, n * sizeof(*truths));
}

static void compare_all(void)
{
	assert_int_equal(n_got, n_truths);
	for (size_t i = 0; i < n_truths; i++) {
		const struct truth *t = &truths[i];
		const struct step_request *r = &got[i];

		assert_int_equal(r->sequence, t->sequence);
		assert_int_equal(r->context, t->context);
		assert_true(r->by_parts && !r->mixed && !r->lost && !r->began_before && !r->cut);
		assert_true(step_request_split(r));
		assert_int_equal(r->start, played[t->first].s.start);
		assert_int_equal(r->last_end, played[t->last].s.end);
		assert_int_equal(r->cached, t->cached);
		assert_int_equal(r->prompt_tokens, t->prompt);
		assert_int_equal(step_request_tokens(r), t->outputs);
		assert_int_equal(r->drafts, t->drafts);
		check_times(t, r);
	}
}

/* No other step shows how many of the last drafts were accepted. */
static void settle(void)
{
	for (size_t i = 0; i < n_played; i++) {
		struct played *p = &played[i];

		for (uint32_t k = 0; k < p->s.n_parts; k++) {
			if (p->of[k]->last != i || p->prompt[k] || p->parts[k].rows == 1)
				continue;
			p->of[k]->outputs -= p->taken[k] - 1;
			p->taken[k] = 0;
		}
	}
}

static void play(size_t n_slots, size_t n_contexts, bool drafts, size_t n_steps)
{
	static struct server servers[2];
	uint64_t now[2] = { 1000, 5000 };

	n_played = n_truths = 0;
	memset(servers, 0, sizeof(servers));
	memset(truths, 0, sizeof(truths));
	for (size_t i = 0; i < n_contexts; i++)
		servers[i] = (struct server){
			.n_slots = n_slots, .context = 100 + i, .n_batch = n_slots + any(8, 128), .drafts = drafts
		};
	while (n_played < n_steps && n_truths + 2 * n_slots < REQUESTS) {
		size_t i = n_contexts > 1 && now[1] < now[0];

		play_step(&servers[i], &now[i]);
	}
	settle();
	sort_truths();
}

static void run(const struct step_requests_ops *ops)
{
	struct step_requests *q;

	forget();
	q = step_requests_new(NULL, ops, NULL);
	for (size_t i = 0; i < n_played; i++)
		step_requests_add(q, &played[i].s);
	step_requests_finish(q);
	step_requests_free(q);
}

TEST(test_servers)
{
	static const size_t n_slots[] = { 1, 2, 4, 8, 16, 24, 64 };

	for (size_t i = 0; i < 5 * ARRAY_SIZE(n_slots); i++) {
		seed = 88172645463325252u + i * 7919;
		play(n_slots[i % ARRAY_SIZE(n_slots)], 1 + i % 2, i % 3 == 0, 400);
		run(&all_ops);
		compare_all();
	}
}

static int at_end(void **state)
{
	forget();
	return 0;
}

RUN_TESTS(NULL, at_end)
