// SPDX-License-Identifier: BSD-2-Clause
/* What --budget turns off, and on again. */
#include "record/limits.h"
#include "schema/left_out.h"
#include "unit.h"

#define MS UINT64_C(1000000)
#define SEC (1000 * MS)
#define BUDGET 20000 /* 2 % */
#define ALL ((1u << SHED_PARTS) - 1)
#define FIRST SHED_SAMPLES
#define SECOND SHED_BARRIERS
#define BIT(part) (1u << (part))

/* A recording with the cost of each part in a step, on top of `ns`, the time of a step. */
struct load {
	struct shed shed;
	uint64_t now, ns, base, cost[SHED_PARTS];
	uint32_t parts;
	unsigned int changes;
};

static void load_init(struct load *l, uint64_t budget)
{
	memset(l, 0, sizeof(*l));
	l->now = 1000 * SEC;
	l->ns = 10 * MS;
	l->parts = ALL;
	shed_init(&l->shed, budget);
}

static uint64_t weight(const struct load *l)
{
	uint64_t ns = l->base;

	for (int i = 0; i < SHED_PARTS; i++)
		ns += l->parts & ~l->shed.off & BIT(i) ? l->cost[i] : 0;
	return ns;
}

static void run_step(struct load *l)
{
	uint64_t begin = l->now;

	l->now += l->ns;
	shed_step(&l->shed, begin, l->ns, weight(l));
	if (!shed_turn(&l->shed, l->parts, l->now))
		return;
	l->changes++;
	l->now += 50 * MS; /* turning it off or on takes time */
	shed_applied(&l->shed, l->now);
}

static void run_for(struct load *l, uint64_t ns)
{
	uint64_t end = l->now + ns;

	while (l->now < end)
		run_step(l);
}

/* Runs until something changes. */
static void run_until_change(struct load *l)
{
	unsigned int changes = l->changes;

	for (int i = 0; i < 1000000 && l->changes == changes; i++)
		run_step(l);
	assert_int_equal(l->changes, changes + 1);
}

TEST(test_within)
{
	struct load l;

	load_init(&l, BUDGET);
	l.base = l.ns / 100;
	l.cost[SHED_BARRIERS] = l.ns / 200;
	run_for(&l, 1000 * SEC);
	assert_int_equal(l.shed.off, 0);
	assert_int_equal(l.changes, 0);
	assert_int_equal(l.shed.share, 15000);
	assert_false(shed_exhausted(&l.shed));
}

/* Parts go one after another, no more than needed. */
TEST(test_order)
{
	struct load l;

	load_init(&l, BUDGET);
	for (int i = 0; i < SHED_PARTS; i++)
		l.cost[i] = l.ns / 50;
	for (unsigned int i = 0; i < SHED_PARTS - 1; i++) {
		run_until_change(&l);
		assert_int_equal(l.shed.off, (2u << i) - 1);
	}
	run_for(&l, 100 * SEC);
	assert_int_equal(l.shed.off, ALL & ~BIT(SHED_TIMELINE)); /* 2 % are within 2 % */
	assert_false(shed_exhausted(&l.shed));
}

TEST(test_only_what_there_is)
{
	struct load l;

	load_init(&l, BUDGET);
	l.base = l.ns / 10;
	l.parts = BIT(SHED_OPERATORS) | BIT(SHED_TIMELINE);
	run_for(&l, 100 * SEC);
	assert_int_equal(l.shed.off, l.parts);
	assert_int_equal(l.changes, 2);
	assert_true(shed_exhausted(&l.shed));
	/* a library with barriers is mapped */
	l.parts |= BIT(SHED_BARRIERS);
	run_until_change(&l);
	assert_int_equal(l.shed.off, l.parts);
}

/* Nothing is decided on a step or two, nor on what was recorded in another way. */
TEST(test_looks)
{
	struct shed s;

	shed_init(&s, BUDGET);
	shed_step(&s, SEC, MS, MS);
	assert_false(shed_turn(&s, ALL, 100 * SEC));
	for (int i = 0; i < SHED_LOOK_STEPS - 2; i++)
		shed_step(&s, SEC, MS, MS);
	assert_false(shed_turn(&s, ALL, SEC + 10 * MS));
	shed_step(&s, SEC, MS, MS);
	assert_true(shed_turn(&s, ALL, SEC + 10 * MS));
	shed_applied(&s, 2 * SEC);
	for (int i = 0; i < 1000; i++)
		shed_step(&s, 2 * SEC - 1, MS, MS);
	assert_false(shed_turn(&s, ALL, 10 * SEC));
	/* few, but for a second */
	for (int i = 0; i < SHED_LOOK_LEAST; i++)
		shed_step(&s, 2 * SEC, MS, MS);
	assert_false(shed_turn(&s, ALL, 2 * SEC + 999 * MS));
	assert_true(shed_turn(&s, ALL, 3 * SEC));
	assert_int_equal(s.off, BIT(FIRST) | BIT(SECOND));
}

TEST(test_on_again)
{
	struct load l;

	load_init(&l, BUDGET);
	l.cost[FIRST] = l.ns / 25;
	run_until_change(&l);
	assert_int_equal(l.shed.off, BIT(FIRST));
	run_for(&l, 60 * SEC);
	assert_int_equal(l.shed.off, BIT(FIRST)); /* its price is known */
	assert_int_equal(l.shed.part[FIRST].price_ns, l.cost[FIRST]);
	/* steps become longer, so that it would only be 1 % of them */
	l.ns *= 4;
	run_until_change(&l);
	assert_int_equal(l.shed.off, 0);
	run_for(&l, 1000 * SEC);
	assert_int_equal(l.changes, 2);
}

/* A part that costs nothing was turned off on the way: it does not stay off. */
TEST(test_free_part)
{
	struct load l;

	load_init(&l, BUDGET);
	l.cost[SECOND] = l.ns / 10;
	run_until_change(&l);
	run_until_change(&l);
	assert_int_equal(l.shed.off, BIT(FIRST) | BIT(SECOND));
	run_until_change(&l);
	assert_int_equal(l.shed.off, BIT(SECOND));
	run_for(&l, 100 * SEC);
	assert_int_equal(l.shed.off, BIT(SECOND));
}

/* A price that is always measured too low: each try waits twice as long as the one before. */
TEST(test_no_flapping)
{
	struct load l;
	uint64_t quiet = SHED_QUIET_NS;

	load_init(&l, BUDGET);
	l.cost[FIRST] = l.ns / 10;
	run_until_change(&l);
	for (int i = 0; i < 10; i++) {
		uint64_t since = l.shed.since_ns;

		l.shed.part[FIRST].price_ns = 0;
		while (l.shed.off) {
			run_step(&l);
			l.shed.part[FIRST].price_ns = 0;
		}
		assert_true(l.now - since >= quiet);
		run_until_change(&l);
		assert_int_equal(l.shed.off, BIT(FIRST));
		quiet = quiet * 2 < SHED_QUIET_MAX_NS ? quiet * 2 : SHED_QUIET_MAX_NS;
		assert_int_equal(l.shed.part[FIRST].quiet_ns, quiet);
	}
	/* it was on for a long time: this is a new case */
	l.cost[FIRST] = 0;
	l.shed.part[FIRST].price_ns = 0;
	run_until_change(&l);
	run_for(&l, 3 * SHED_QUIET_MAX_NS);
	assert_int_equal(l.shed.off, 0);
	l.cost[FIRST] = l.ns / 10;
	run_until_change(&l);
	assert_int_equal(l.shed.part[FIRST].quiet_ns, SHED_QUIET_NS);
}

/* The load has changed, so that the old price is wrong. */
TEST(test_tried_at_last)
{
	struct load l;

	load_init(&l, BUDGET);
	l.cost[FIRST] = l.ns / 10;
	run_until_change(&l);
	l.cost[FIRST] = 0;
	run_for(&l, SHED_QUIET_MAX_NS - 10 * SEC);
	assert_int_equal(l.shed.off, BIT(FIRST));
	run_for(&l, 20 * SEC);
	assert_int_equal(l.shed.off, 0);
}

TEST(test_bounds)
{
	struct load l;

	load_init(&l, 0);
	l.base = 1000;
	run_for(&l, 10 * SEC);
	assert_int_equal(l.shed.off, ALL);
	assert_int_equal(l.changes, SHED_PARTS);
	l.base = 0;
	run_for(&l, 3 * SHED_QUIET_MAX_NS);
	assert_int_equal(l.changes, SHED_PARTS); /* no part is free */
	load_init(&l, SHED_WHOLE);
	l.base = l.ns;
	run_for(&l, 100 * SEC);
	assert_int_equal(l.shed.off, 0);
}

TEST(test_text)
{
	char buf[SHED_TEXT_MAX];

	assert_string_equal(shed_text(0, buf), "");
	assert_string_equal(shed_text(BIT(SHED_BARRIERS), buf), "barriers");
	assert_string_equal(shed_text(BIT(SHED_BARRIERS) | BIT(SHED_TIMELINE), buf), "barriers,timeline");
	assert_true(strlen(shed_text(~0u, buf)) < SHED_TEXT_MAX);
}

TEST(test_left_out)
{
	static struct left_out l;
	uint64_t ns[SHED_PARTS];

	assert_int_equal(left_out_between(NULL, 0, ~0ull), 0);
	assert_int_equal(left_out_between(&l, 0, ~0ull), 0);
	left_out_change(&l, 100, BIT(SHED_BARRIERS));
	left_out_change(&l, 200, BIT(SHED_BARRIERS) | BIT(SHED_OPERATORS));
	left_out_change(&l, 300, BIT(SHED_OPERATORS));
	left_out_change(&l, 400, 0);
	assert_int_equal(left_out_between(&l, 0, 99), 0);
	assert_int_equal(left_out_between(&l, 50, 150), BIT(SHED_BARRIERS));
	assert_int_equal(left_out_between(&l, 120, 130), BIT(SHED_BARRIERS));
	assert_int_equal(left_out_between(&l, 150, 350), BIT(SHED_BARRIERS) | BIT(SHED_OPERATORS));
	assert_int_equal(left_out_between(&l, 301, 350), BIT(SHED_OPERATORS));
	assert_int_equal(left_out_between(&l, 401, 500), 0);
	left_out_times(&l, 0, 1000, ns);
	assert_int_equal(ns[SHED_BARRIERS], 200);
	assert_int_equal(ns[SHED_OPERATORS], 200);
	assert_int_equal(ns[SHED_SYSCALLS], 0);
	left_out_times(&l, 150, 250, ns);
	assert_int_equal(ns[SHED_BARRIERS], 100);
	assert_int_equal(ns[SHED_OPERATORS], 50);
	left_out_times(&l, 500, 600, ns);
	assert_int_equal(ns[SHED_BARRIERS], 0);
}

/* Very many changes: nothing that was left out is forgotten, only the exact times may be. */
TEST(test_left_out_many)
{
	static struct left_out l;

	for (uint64_t i = 1; i <= 3 * LEFT_OUT_MAX; i++)
		left_out_change(&l, 100 * i, i % 2 ? BIT(SHED_BARRIERS) : 0);
	assert_int_equal(l.n, LEFT_OUT_MAX);
	assert_int_equal(left_out_between(&l, 0, 99), 0);
	assert_int_equal(left_out_between(&l, 250, 260), BIT(SHED_BARRIERS));
	assert_int_equal(left_out_between(&l, 100 * 3 * LEFT_OUT_MAX - 50, 100 * 3 * LEFT_OUT_MAX - 40), BIT(SHED_BARRIERS));
	assert_int_equal(left_out_between(&l, 100 * 3 * LEFT_OUT_MAX + 1, ~0ull), 0);
}

RUN_TESTS(NULL, NULL)
