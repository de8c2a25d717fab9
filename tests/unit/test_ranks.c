// SPDX-License-Identifier: BSD-2-Clause
/* Which calls of several ranks are one collective: by their numbers, by what they are like, and where that is not known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "link/ranks.h"

#define MS INT64_C(1000000)
#define N 100

static const struct host_place here = { .known = true, .first_ns = INT64_MIN, .last_ns = INT64_MAX };

/* A recording of one process, whose n-th call is 10 * n ms behind its begin. */
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

/* Sizes that vary, so that no two parts of the sequence are alike. */
static uint64_t varied(size_t i)
{
	return 1000 + (i * i + 3 * i) % 97;
}

static uint64_t uniform(size_t i)
{
	(void)i;
	return 4096;
}

/* Calls of a rank that is `late` behind; some are left out, some are of another size. */
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
		assert_int_equal(ranks_add(&r, i, &here, &recordings[i].c), 0);
	assert_int_equal(ranks_group(&r), 0);
}

static const struct rank_call *other_call(const struct rank_group *g, size_t member, size_t collective)
{
	uint32_t at = g->calls[member][collective];

	return at == RANKS_NONE ? NULL : &r.list[g->members[member]]->calls[at];
}

/* How many calls of the members are at the same place in the sequence, and that none is at another one. */
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
	(void)state;
	ranks_clear(&r);
	return 0;
}

/* ---- by number ---- */

static void test_by_number(void **state)
{
	(void)state;
	rank(0, 7, 0, uniform, 0, NONE, NONE);
	rank(1, 7, 4 * MS, uniform, 0, NONE, NONE);
	find(2);
	assert_int_equal(r.n_groups, 1);
	assert_int_equal(r.groups[0].n, 2);
	assert_int_equal(r.groups[0].ranks, 2);
	assert_int_equal(right(&r.groups[0]), N);
	assert_int_equal(r.groups[0].mismatched + r.groups[0].unplaced, 0);
}

/* One is late by several collectives, as where programs do not wait for their GPUs: the number decides, not the time. */
static void test_far_apart(void **state)
{
	(void)state;
	rank(0, 7, 0, uniform, 0, NONE, NONE);
	rank(1, 7, 45 * MS, uniform, 0, NONE, NONE);
	find(2);
	assert_int_equal(r.n_groups, 1);
	for (size_t i = 0; i < N; i++)
		assert_int_equal(other_call(&r.groups[0], 1, i)->own_ns - r.list[r.groups[0].members[0]]->calls[i].own_ns,
			r.groups[0].members[0] ? -45 * MS : 45 * MS);
}

static void test_other_groups(void **state)
{
	(void)state;
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

/* The address of a communicator is used again for the next one. */
static void test_address_again(void **state)
{
	(void)state;
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

/* ---- what does not go together ---- */

static void test_other_size(void **state)
{
	(void)state;
	rank(0, 7, 0, varied, 0, NONE, NONE);
	rank(1, 7, 2 * MS, varied, 0, NONE, 40);
	find(2);
	assert_int_equal(r.groups[0].mismatched, 1);
	assert_int_equal(right(&r.groups[0]), N - 1);
	assert_null(other_call(&r.groups[0], 1, 40));
	assert_int_equal(r.groups[0].unplaced, 1);
}

/* A call that is in no recording, though nothing says so: what follows is found by what it is like. */
static void test_missing(void **state)
{
	(void)state;
	rank(0, 7, 0, varied, 0, NONE, NONE);
	rank(1, 7, 2 * MS, varied, 0, 40, NONE);
	find(2);
	assert_int_equal(r.groups[0].mismatched, 1);
	assert_int_equal(right(&r.groups[0]), N - 1);
	assert_null(other_call(&r.groups[0], 1, 40));
}

/* ---- lost records ---- */

static void test_lost(void **state)
{
	struct recording *rec;

	(void)state;
	rank(0, 7, 0, varied, 0, NONE, NONE);
	rec = rank(1, 7, 2 * MS, varied, 0, 40, NONE);
	lose(rec, 41 * 10 * MS, 41 * 10 * MS + 5 * MS);
	find(2);
	assert_int_equal(r.groups[0].mismatched, 0);
	assert_int_equal(right(&r.groups[0]), N - 1);
}

/* All calls are alike: behind the loss nobody knows which is which. */
static void test_lost_uniform(void **state)
{
	struct recording *rec;

	(void)state;
	rank(0, 7, 0, uniform, 0, NONE, NONE);
	rec = rank(1, 7, 2 * MS, uniform, 0, 40, NONE);
	lose(rec, 41 * 10 * MS, 41 * 10 * MS + 5 * MS);
	find(2);
	assert_int_equal(right(&r.groups[0]), 40);
	assert_int_equal(r.groups[0].unplaced, N - 41);
}

/* What is recorded during a loss may be a part of what there was. */
static void test_within_loss(void **state)
{
	struct recording *rec;

	(void)state;
	rank(0, 7, 0, varied, 0, NONE, NONE);
	rec = rank(1, 7, 0, varied, 0, NONE, NONE);
	lose(rec, 30 * 10 * MS - MS, 40 * 10 * MS + MS);
	find(2);
	assert_int_equal(right(&r.groups[0]), N - 11);
}

/* ---- communicators from before the recording ---- */

static void test_by_likeness(void **state)
{
	(void)state;
	rank(0, 0, 0, varied, 0, NONE, NONE);
	rank(1, 0, 3 * MS, varied, 20, NONE, NONE);
	rank(2, 0, -3 * MS, varied, 33, NONE, NONE);
	find(3);
	assert_int_equal(r.n_groups, 1);
	assert_int_equal(r.groups[0].n, 3);
	assert_int_equal(right(&r.groups[0]), N - 20 + N - 33);
}

static void test_ambiguous(void **state)
{
	(void)state;
	rank(0, 0, 0, uniform, 0, NONE, NONE);
	rank(1, 0, 3 * MS, uniform, 0, NONE, NONE);
	find(2);
	assert_int_equal(r.n_groups, 0);
}

static uint64_t elsewhere(size_t i)
{
	return 1000 + (i * i + 5 * i) % 89;
}

static void test_unlike(void **state)
{
	(void)state;
	rank(0, 0, 0, varied, 0, NONE, NONE);
	rank(1, 0, 0, elsewhere, 0, NONE, NONE);
	find(2);
	assert_int_equal(r.n_groups, 0);
}

/* The same calls, seconds later: another run. */
static void test_later(void **state)
{
	(void)state;
	rank(0, 0, 0, varied, 0, NONE, NONE);
	rank(1, 0, 2000 * MS, varied, 0, NONE, NONE);
	find(2);
	assert_int_equal(r.n_groups, 0);
}

static void test_few(void **state)
{
	(void)state;
	rank(0, 0, 0, varied, N - RANKS_AGREE_MIN + 1, NONE, NONE);
	rank(1, 0, 0, varied, N - RANKS_AGREE_MIN + 1, NONE, NONE);
	find(2);
	assert_int_equal(r.n_groups, 0);
}

/* ---- files ---- */

/* A recording in two formats, and in two windows. */
static void test_files(void **state)
{
	struct recording *rec;

	(void)state;
	for (uint32_t i = 0; i < 2; i++) {
		rec = rank(i, 7, 0, varied, 0, NONE, NONE);
		assert_int_equal(ranks_add(&r, i, &here, &rec->c), 0);
		assert_int_equal(ranks_add(&r, i, &here, &rec->c), 0);
		rec = recording(2);
		for (size_t k = 0; k < 20; k++)
			call(rec, i + 1, 0x1000 + i, (int64_t)(N + 100 + k) * 10 * MS, varied(k));
		assert_int_equal(ranks_add(&r, i, &here, &rec->c), 0);
	}
	assert_int_equal(ranks_group(&r), 0);
	assert_int_equal(r.n, 2);
	assert_int_equal(r.list[0]->n, N + 20);
	assert_int_equal(r.n_groups, 1);
	assert_int_equal(right(&r.groups[0]), N + 20);
}

/* The clock of the other host is 5 s ahead at first, and gains. */
static void test_clock(void **state)
{
	const struct host_place ahead = {
		.known = true, .first_ns = 5000 * MS, .last_ns = 6000 * MS, .ahead_first_ns = 5000 * MS, .ahead_last_ns = 5001 * MS
	};
	struct recording *rec;

	(void)state;
	assert_int_equal(host_place_at(&ahead, 5000 * MS), 0);
	assert_int_equal(host_place_at(&ahead, 5500 * MS), 500 * MS - MS / 2);
	assert_int_equal(host_place_at(&ahead, 6000 * MS), 999 * MS);
	rec = rank(0, 7, 0, varied, 0, NONE, NONE);
	assert_int_equal(ranks_add(&r, 0, &here, &rec->c), 0);
	rec = rank(1, 7, 5000 * MS, varied, 0, NONE, NONE);
	assert_int_equal(ranks_add(&r, 1, &ahead, &rec->c), 0);
	assert_int_equal(ranks_group(&r), 0);
	assert_true(r.list[1]->calls[0].placed);
	assert_true(r.list[1]->calls[N - 1].placed);
	for (size_t i = 0; i < N; i++)
		assert_true(llabs(r.list[0]->calls[i].at_ns - r.list[1]->calls[i].at_ns) <= MS);
}

static void test_outside(void **state)
{
	const struct host_place part = { .known = true, .first_ns = 100 * MS, .last_ns = 200 * MS };

	(void)state;
	assert_int_equal(ranks_add(&r, 0, &part, &rank(0, 7, 0, varied, 0, NONE, NONE)->c), 0);
	assert_int_equal(ranks_group(&r), 0);
	for (size_t i = 0; i < N; i++)
		assert_int_equal(r.list[0]->calls[i].placed, i >= 9 && i <= 19);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_teardown(name, clear)
	const struct CMUnitTest tests[] = {
		CASE(test_by_number),
		CASE(test_far_apart),
		CASE(test_other_groups),
		CASE(test_address_again),
		CASE(test_other_size),
		CASE(test_missing),
		CASE(test_lost),
		CASE(test_lost_uniform),
		CASE(test_within_loss),
		CASE(test_by_likeness),
		CASE(test_ambiguous),
		CASE(test_unlike),
		CASE(test_later),
		CASE(test_few),
		CASE(test_files),
		CASE(test_clock),
		CASE(test_outside),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
