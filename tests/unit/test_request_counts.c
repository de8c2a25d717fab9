// SPDX-License-Identifier: BSD-2-Clause
/* How many requests are active and waiting, against a count of all of them at each time. */
#include "requests/request_counts.h"
#include "unit.h"

#define STEPS 600
#define SLOTS 8
#define TICKS (STEPS * 3 + 2)

static uint64_t seed = 88172645463325252ull;

static uint64_t draw(void)
{
	return next_random(&seed);
}

struct told {
	uint64_t active, waiting;
};

/* Takes all reports, as they apply at each time. */
static void take_all(struct request_counts *c, struct told *told, uint64_t *until, struct told *now)
{
	struct request_change change;

	while (request_counts_next(c, &change)) {
		assert_true(change.active_changed || change.waiting_changed);
		assert_true(change.ns >= *until);
		for (; *until < change.ns; (*until)++)
			told[*until] = *now;
		*now = (struct told){ change.active, change.waiting };
	}
}

/* Steps of three ticks: two running, one between. */
TEST(test_random)
{
	for (int round = 0; round < 50; round++) {
		static struct told want[TICKS], told[TICKS];
		struct request_counts *c = calloc(1, sizeof(*c));
		struct request_live live[SLOTS] = { 0 };
		uint64_t last[SLOTS] = { 0 }, until = 0;
		struct told now = { 0 };

		memset(want, 0, sizeof(want));
		memset(told, 0, sizeof(told));
		for (uint64_t k = 0; k < STEPS; k++) {
			uint64_t start = 3 * k + 1, end = start + 2;

			for (int i = 0; i < SLOTS; i++) {
				if (draw() % 3)
					continue;
				if (live[i].counted && !(draw() % 8)) /* another one begins */
					request_counts_end(c, &live[i]);
				if (live[i].counted) {
					uint64_t wait_from = 3 * last[i] + 4, wait_to = start - 1;

					for (uint64_t t = 3 * last[i] + 3; t < start; t++)
						want[t].active++;
					for (uint64_t t = wait_from; t < wait_to; t++)
						want[t].waiting++;
				}
				request_counts_part(c, &live[i], start, end);
				for (uint64_t t = start; t < end; t++)
					want[t].active++;
				last[i] = k;
			}
			assert_true(request_counts_step(c, start, end));
			if (draw() % 2)
				take_all(c, told, &until, &now);
		}
		for (int i = 0; i < SLOTS; i++)
			request_counts_end(c, &live[i]);
		take_all(c, told, &until, &now);
		assert_int_equal(now.active, 0);
		assert_int_equal(now.waiting, 0);
		assert_memory_equal(told, want, sizeof(want));
		request_counts_clear(c);
		free(c);
	}
}

/* A slot that stays empty holds up the others only for some time; when it continues it counts again. */
TEST(test_quiet)
{
	struct request_counts *c = calloc(1, sizeof(*c));
	struct request_live quiet = { 0 }, busy = { 0 };
	struct request_change change;
	uint64_t n = 0;

	request_counts_part(c, &quiet, 0, 2);
	request_counts_part(c, &busy, 0, 2);
	request_counts_step(c, 0, 2);
	assert_true(request_counts_next(c, &change) && change.active == 2 && change.ns == 0);
	for (uint64_t k = 1; k <= REQUEST_QUIET_STEPS; k++) {
		assert_false(request_counts_next(c, &change));
		request_counts_part(c, &busy, 10 * k, 10 * k + 2);
		request_counts_step(c, 10 * k, 10 * k + 2);
	}
	assert_true(request_counts_next(c, &change));
	assert_true(change.active == 1 && change.ns == 2 && !change.waiting_changed);
	assert_false(quiet.counted);
	request_counts_part(c, &quiet, 90000, 90002);
	request_counts_end(c, &busy);
	request_counts_end(c, &quiet);
	while (request_counts_next(c, &change))
		n++;
	assert_int_equal(n, 3);
	assert_int_equal(change.active, 0);
	request_counts_clear(c);
	free(c);
}

/* More changes than there is room for: reported ones are in order, and nothing is left in the end. */
TEST(test_many)
{
	struct request_counts *c = calloc(1, sizeof(*c));
	struct request_live *live = calloc(20000, sizeof(*live));
	struct request_change change;
	uint64_t before = 0;

	for (uint64_t i = 0; i < 20000; i++)
		request_counts_part(c, &live[i], 2 * i, 2 * i + 1);
	for (uint64_t i = 0; i < 20000; i++)
		request_counts_end(c, &live[i]);
	while (request_counts_next(c, &change)) {
		assert_true(change.ns >= before);
		before = change.ns;
	}
	assert_int_equal(change.active, 0);
	request_counts_clear(c);
	free(live);
	free(c);
}

/* Overlapping steps, even those that end before they begin, never make time go back. */
TEST(test_overlaps)
{
	struct request_counts *c = calloc(1, sizeof(*c));
	struct request_live live[SLOTS] = { 0 };
	struct request_change change = { 0 };
	uint64_t before = 0;

	for (uint64_t k = 0; k < 20000; k++) {
		uint64_t start = draw() % 8 ? k * 10 + draw() % 30 : draw(), end = start + (draw() % 8 ? draw() % 100 : draw());

		for (int i = 0; i < SLOTS; i++) {
			if (draw() % 4 == 0)
				request_counts_part(c, &live[i], start, end);
			else if (draw() % 20 == 0)
				request_counts_end(c, &live[i]);
		}
		request_counts_step(c, start, end);
		while (request_counts_next(c, &change)) {
			assert_true(change.ns >= before);
			assert_true(change.active < 1000000 && change.waiting < 1000000);
			before = change.ns;
		}
	}
	for (int i = 0; i < SLOTS; i++)
		request_counts_end(c, &live[i]);
	while (request_counts_next(c, &change))
		;
	assert_int_equal(change.active, 0);
	request_counts_clear(c);
	free(c);
}

RUN_TESTS(NULL, NULL)
