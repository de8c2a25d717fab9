// SPDX-License-Identifier: BSD-2-Clause
/* Which calls of several ranks are one collective: by number, by similarity, and where that is unknown. */
#include "link/ranks.h"
#include "unit.h"

#define MS INT64_C(1000000)
#define N 100

static const struct host_place here = { .known = true, .first_ns = INT64_MIN, .last_ns = INT64_MAX };

/* A recording of one process, whose n-th call is 10 * n ms after its begin. */
struct recording {
	struct collectives c;
	struct collective_call calls[256];
	struct communicator made[8];
	struct collective_loss losses[8];
};

static struct recording recordings[8];
static struct ranks r;

static struct recording *recording(size_t i)
{
	struct recording *rec = &recordings[i];

	memset(rec, 0, sizeof(*rec));
	rec->c = (struct collectives){ .calls = rec->calls, .made = rec->made, .losses = rec->losses };
	return rec;
}

static void call(struct recording *rec, uint32_t pid, uint64_t comm, int64_t ns, uint64_t key)
{
	rec->calls[rec->c.n_calls++] =
		(struct collective_call){ .from_ns = ns, .to_ns = ns + 1000, .comm = comm, .key = key, .bytes = key, .pid = pid, .tid = pid };
}

static void make(struct recording *rec, uint32_t pid, uint64_t comm, int64_t ns, uint64_t id)
{
	rec->made[rec->c.n_made++] = (struct communicator){ .ns = ns, .comm = comm, .id = id, .pid = pid, .ranks = 2, .rank = pid };
}

static void lose(struct recording *rec, int64_t from, int64_t to)
{
	rec->losses[rec->c.n_losses++] = (struct collective_loss){ from, to };
}

/* Sizes that vary, so that no two parts of the sequence look alike. */
static uint64_t varied(size_t i)
{
	return 1000 + (i * i + 3 * i) % 97;
}

static uint64_t uniform(size_t i)
{
	return 4096;
}

/* Calls of a rank that is `late`; some are left out, some have another size. */
static struct recording *rank(uint32_t i, uint64_t id, int64_t late, uint64_t (*key)(size_t), size_t from, size_t without, size_t other)
{
	struct recording *rec = recording(i);

	if (id)
		make(rec, i + 1, 0x1000 + i, 0, id);
	for (size_t k = from; k < N; k++) {
		if (k != without)
			call(rec, i + 1, 0x1000 + i, (int64_t)(k + 1) * 10 * MS + late, key(k) + (k == other));
	}
	return rec;
}

#define NONE SIZE_MAX

static void find(size_t n)
{
	for (uint32_t i = 0; i < n; i++)
		ranks_add(&r, i, &here, &recordings[i].c);
	ranks_group(&r);
}

static const struct rank_call *other_call(const struct rank_group *g, size_t member, size_t collective)
{
	uint32_t at = g->calls[member][collective];

	return at == RANKS_NONE ? NULL : &r.list[g->members[member]]->calls[at];
}

/* Returns how many calls of the members are at the same place in the sequence; none may be at another one. */
static size_t right(const struct rank_group *g)
{
	const struct rank *first = r.list[g->members[0]];
	size_t n = 0;

	for (size_t i = 0; i < first->n; i++) {
		for (size_t k = 1; k < g->n; k++) {
			const struct rank_call *b = other_call(g, k, i);

			if (!b)
				continue;
			assert_true(llabs(b->own_ns - first->calls[i].own_ns) < 10 * MS);
			n++;
		}
	}
	return n;
}

static int clear(void **state)
{
	ranks_clear(&r);
	return 0;
}

static uint64_t elsewhere(size_t i)
{
	return 1000 + (i * i + 5 * i) % 89;
}

/* ---- two ranks ---- */

TEST_WITH(test_pairs, NULL, clear)
{
	static const struct pair {
		const char *what;
		uint64_t id;                                   /* of both; 0: the communicators are older than the recording */
		uint64_t (*key)(size_t), (*other_key)(size_t); /* sizes of their calls; NULL: as the first rank's */
		int64_t late;                                  /* of the second, relative to the first */
		size_t from;                                   /* the first call of both */
		size_t without, other;                         /* calls of the second that are missing, or have another size; 0: none */
		int64_t lost_from, lost_to;                    /* of the second */
		/* the expected result */
		size_t groups, right, mismatched, unplaced;
	} table[] = {
		{ "by number", 7, uniform, .late = 4 * MS, .groups = 1, .right = N },
		{ "a call of another size", 7, varied, .late = 2 * MS, .other = 40, .groups = 1, .right = N - 1, .mismatched = 1, .unplaced = 1 },
		/* though no loss is reported: the calls after it are matched by similarity */
		{ "a call in no recording", 7, varied, .late = 2 * MS, .without = 40, .groups = 1, .right = N - 1, .mismatched = 1 },
		{ "a lost call", 7, varied, .late = 2 * MS, .without = 40, .lost_from = 410 * MS, .lost_to = 415 * MS, .groups = 1, .right = N - 1 },
		/* after the loss it is unknown which is which */
		{ "a lost call among others that are alike", 7, uniform, .late = 2 * MS, .without = 40, .lost_from = 410 * MS, .lost_to = 415 * MS,
			.groups = 1, .right = 40, .unplaced = N - 41 },
		/* they may be only a part */
		{ "calls within a loss", 7, varied, .lost_from = 299 * MS, .lost_to = 401 * MS, .groups = 1, .right = N - 11 },
		{ "calls that are alike, of older communicators", 0, uniform, .late = 3 * MS },
		{ "calls that differ, of older communicators", 0, varied, .other_key = elsewhere },
		{ "the same calls in another run, seconds later", 0, varied, .late = 2000 * MS },
		{ "too few calls", 0, varied, .from = N - RANKS_AGREE_MIN + 1 },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		const struct pair *p = &table[i];
		const struct rank_group *g;
		struct recording *rec;

		rank(0, p->id, 0, p->key, p->from, NONE, NONE);
		rec = rank(1, p->id, p->late, p->other_key ? p->other_key : p->key, p->from, p->without ? p->without : NONE, p->other ? p->other : NONE);
		if (p->lost_to)
			lose(rec, p->lost_from, p->lost_to);
		find(2);
		g = r.groups;
		if (r.n_groups != p->groups)
			fail_msg("%s: %zu groups", p->what, r.n_groups);
		if (g && (g->n != 2 || g->ranks != 2 || right(g) != p->right || g->mismatched != p->mismatched || g->unplaced != p->unplaced))
			fail_msg("%s: %zu of %u ranks, %zu right, %llu mismatched, %llu unplaced", p->what, g->n, g->ranks, right(g),
				(unsigned long long)g->mismatched, (unsigned long long)g->unplaced);
		if (g && (p->without || p->other))
			assert_null(other_call(g, 1, 40));
		clear(state);
	}
}

/* ---- groups ---- */

/* One is late by several collectives, as when programs do not wait for their GPUs: the number decides, not the time. */
TEST_WITH(test_far_apart, NULL, clear)
{
	rank(0, 7, 0, uniform, 0, NONE, NONE);
	rank(1, 7, 45 * MS, uniform, 0, NONE, NONE);
	find(2);
	assert_int_equal(r.n_groups, 1);
	for (size_t i = 0; i < N; i++)
		assert_int_equal(other_call(&r.groups[0], 1, i)->own_ns - r.list[r.groups[0].members[0]]->calls[i].own_ns,
			r.groups[0].members[0] ? -45 * MS : 45 * MS);
}

TEST_WITH(test_other_groups, NULL, clear)
{
	rank(0, 7, 0, varied, 0, NONE, NONE);
	rank(1, 8, 0, varied, 0, NONE, NONE);
	rank(2, 7, 0, varied, 0, NONE, NONE);
	rank(3, 8, 0, varied, 0, NONE, NONE);
	find(4);
	assert_int_equal(r.n_groups, 2);
	for (size_t i = 0; i < 2; i++) {
		const struct rank_group *g = &r.groups[i];

		assert_int_equal(g->n, 2);
		assert_int_equal(r.list[g->members[0]]->id, r.list[g->members[1]]->id);
	}
}

/* The address of a communicator is reused for the next one. */
TEST_WITH(test_address_again, NULL, clear)
{
	for (uint32_t i = 0; i < 2; i++) {
		struct recording *rec = rank(i, 7, 0, uniform, 0, NONE, NONE);

		make(rec, i + 1, 0x1000 + i, (N + 1) * 10 * MS, 9);
		for (int k = 0; k < 20; k++)
			call(rec, i + 1, 0x1000 + i, (N + 2 + k) * 10 * MS, 1);
	}
	find(2);
	assert_int_equal(r.n, 4);
	assert_int_equal(r.n_groups, 2);
	assert_int_equal(right(&r.groups[0]), N);
	assert_int_equal(right(&r.groups[1]), 20);
}

/* ---- communicators from before the recording ---- */

TEST_WITH(test_by_likeness, NULL, clear)
{
	rank(0, 0, 0, varied, 0, NONE, NONE);
	rank(1, 0, 3 * MS, varied, 20, NONE, NONE);
	rank(2, 0, -3 * MS, varied, 33, NONE, NONE);
	find(3);
	assert_int_equal(r.n_groups, 1);
	assert_int_equal(r.groups[0].n, 3);
	assert_int_equal(right(&r.groups[0]), N - 20 + N - 33);
}

/* ---- files ---- */

/* A recording in two formats, and in two windows. */
TEST_WITH(test_files, NULL, clear)
{
	struct recording *rec;

	for (uint32_t i = 0; i < 2; i++) {
		rec = rank(i, 7, 0, varied, 0, NONE, NONE);
		ranks_add(&r, i, &here, &rec->c);
		ranks_add(&r, i, &here, &rec->c);
		rec = recording(2);
		for (size_t k = 0; k < 20; k++)
			call(rec, i + 1, 0x1000 + i, (int64_t)(N + 100 + k) * 10 * MS, varied(k));
		ranks_add(&r, i, &here, &rec->c);
	}
	ranks_group(&r);
	assert_int_equal(r.n, 2);
	assert_int_equal(r.list[0]->n, N + 20);
	assert_int_equal(r.n_groups, 1);
	assert_int_equal(right(&r.groups[0]), N + 20);
}

/* The other host's clock is 5 s ahead at first, and gains. */
TEST_WITH(test_clock, NULL, clear)
{
	const struct host_place ahead = {
		.known = true, .first_ns = 5000 * MS, .last_ns = 6000 * MS, .ahead_first_ns = 5000 * MS, .ahead_last_ns = 5001 * MS
	};
	struct recording *rec;

	assert_int_equal(host_place_at(&ahead, 5000 * MS), 0);
	assert_int_equal(host_place_at(&ahead, 5500 * MS), 500 * MS - MS / 2);
	assert_int_equal(host_place_at(&ahead, 6000 * MS), 999 * MS);
	rec = rank(0, 7, 0, varied, 0, NONE, NONE);
	ranks_add(&r, 0, &here, &rec->c);
	rec = rank(1, 7, 5000 * MS, varied, 0, NONE, NONE);
	ranks_add(&r, 1, &ahead, &rec->c);
	ranks_group(&r);
	assert_true(r.list[1]->calls[0].placed);
	assert_true(r.list[1]->calls[N - 1].placed);
	for (size_t i = 0; i < N; i++)
		assert_true(llabs(r.list[0]->calls[i].at_ns - r.list[1]->calls[i].at_ns) <= MS);
}

TEST_WITH(test_outside, NULL, clear)
{
	const struct host_place part = { .known = true, .first_ns = 100 * MS, .last_ns = 200 * MS };

	ranks_add(&r, 0, &part, &rank(0, 7, 0, varied, 0, NONE, NONE)->c);
	ranks_group(&r);
	for (size_t i = 0; i < N; i++)
		assert_int_equal(r.list[0]->calls[i].placed, i >= 9 && i <= 19);
}

RUN_TESTS(NULL, NULL)
