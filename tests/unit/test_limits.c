// SPDX-License-Identifier: BSD-2-Clause
/* --budget: what it turns off and on again, and what steps without it say; and --max-steps-per-process. */
#include "record/capture.h"
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

/* A recording with the cost of each part in a step, on top of `ns`, the step's time. */
struct load {
	struct shed shed;
	uint64_t now, ns, base, cost[SHED_PARTS];
	uint32_t parts;
	unsigned int changes;
};

static struct load l;

static void load_init(uint64_t budget)
{
	l = (struct load){ .now = 1000 * SEC, .ns = 10 * MS, .parts = ALL };
	shed_init(&l.shed, budget);
}

static int load_budget(void **state)
{
	load_init(BUDGET);
	return 0;
}

static uint64_t weight(void)
{
	uint64_t ns = l.base;

	for (int i = 0; i < SHED_PARTS; i++)
		ns += l.parts & ~l.shed.off & BIT(i) ? l.cost[i] : 0;
	return ns;
}

static void run_step(void)
{
	uint64_t begin = l.now;

	l.now += l.ns;
	shed_step(&l.shed, begin, l.ns, weight());
	if (!shed_turn(&l.shed, l.parts, l.now))
		return;
	l.changes++;
	l.now += 50 * MS; /* turning a part off or on takes time */
	shed_applied(&l.shed, l.now);
}

static void run_for(uint64_t ns)
{
	uint64_t end = l.now + ns;

	while (l.now < end)
		run_step();
}

/* Runs until something changes. */
static void run_until_change(void)
{
	unsigned int changes = l.changes;

	for (int i = 0; i < 1000000 && l.changes == changes; i++)
		run_step();
	assert_int_equal(l.changes, changes + 1);
}

TEST_WITH(test_within, load_budget, NULL)
{
	l.base = l.ns / 100;
	l.cost[SHED_BARRIERS] = l.ns / 200;
	run_for(1000 * SEC);
	assert_int_equal(l.shed.off, 0);
	assert_int_equal(l.changes, 0);
	assert_int_equal(l.shed.share, 15000);
	assert_false(shed_exhausted(&l.shed));
}

/* Parts are turned off one after another, no more than needed. */
TEST_WITH(test_order, load_budget, NULL)
{
	for (int i = 0; i < SHED_PARTS; i++)
		l.cost[i] = l.ns / 50;
	for (unsigned int i = 0; i < SHED_PARTS - 1; i++) {
		run_until_change();
		assert_int_equal(l.shed.off, (2u << i) - 1);
	}
	run_for(100 * SEC);
	assert_int_equal(l.shed.off, ALL & ~BIT(SHED_TIMELINE)); /* 2 % are within 2 % */
	assert_false(shed_exhausted(&l.shed));
}

TEST_WITH(test_only_what_there_is, load_budget, NULL)
{
	l.base = l.ns / 10;
	l.parts = BIT(SHED_OPERATORS) | BIT(SHED_TIMELINE);
	run_for(100 * SEC);
	assert_int_equal(l.shed.off, l.parts);
	assert_int_equal(l.changes, 2);
	assert_true(shed_exhausted(&l.shed));
	/* a library with barriers is mapped */
	l.parts |= BIT(SHED_BARRIERS);
	run_until_change();
	assert_int_equal(l.shed.off, l.parts);
}

/* Nothing is decided on a step or two, nor on steps recorded in another way. */
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

TEST_WITH(test_on_again, load_budget, NULL)
{
	l.cost[FIRST] = l.ns / 25;
	run_until_change();
	assert_int_equal(l.shed.off, BIT(FIRST));
	run_for(60 * SEC);
	assert_int_equal(l.shed.off, BIT(FIRST)); /* its price is known */
	assert_int_equal(l.shed.part[FIRST].price_ns, l.cost[FIRST]);
	/* steps become longer, so that it would only cost 1 % */
	l.ns *= 4;
	run_until_change();
	assert_int_equal(l.shed.off, 0);
	run_for(1000 * SEC);
	assert_int_equal(l.changes, 2);
}

/* A part that costs nothing was turned off on the way: it does not stay off. */
TEST_WITH(test_free_part, load_budget, NULL)
{
	l.cost[SECOND] = l.ns / 10;
	run_until_change();
	run_until_change();
	assert_int_equal(l.shed.off, BIT(FIRST) | BIT(SECOND));
	run_until_change();
	assert_int_equal(l.shed.off, BIT(SECOND));
	run_for(100 * SEC);
	assert_int_equal(l.shed.off, BIT(SECOND));
}

/* A part whose price is known is sampled, as far as the budget allows. */
TEST_WITH(test_turns, load_budget, NULL)
{
	l.cost[FIRST] = l.ns / 10;
	run_until_change();
	assert_int_equal(l.shed.off, BIT(FIRST));
	assert_int_equal(l.shed.turns, 0);
	run_for(10 * SEC);
	assert_int_equal(l.shed.off, BIT(FIRST));
	assert_int_equal(l.shed.turns, BIT(FIRST));
	assert_int_equal(l.shed.share, 0);
	assert_int_equal(shed_turn_ns(&l.shed), l.ns * SHED_TURN_STEPS > SHED_TURN_NS ? l.ns * SHED_TURN_STEPS : SHED_TURN_NS);
	/* within turns it has become dearer than when it was turned off, and then cheap again */
	for (int i = 0; i < 10; i++)
		shed_turn_step(&l.shed, 2 * l.ns);
	run_for(10 * SEC);
	assert_int_equal(l.shed.part[FIRST].price_ns, 2 * l.ns);
	assert_int_equal(l.shed.turns, 0);
	l.shed.part[FIRST].price_ns = l.ns / 10;
	run_for(10 * SEC);
	assert_int_equal(l.shed.turns, BIT(FIRST));
	for (int i = 0; i < 10; i++)
		shed_turn_step(&l.shed, l.ns / 20);
	run_for(SEC);
	assert_int_equal(l.shed.part[FIRST].price_ns, l.ns / 20);
	assert_int_equal(l.shed.turns, BIT(FIRST));
	l.shed.part[FIRST].price_ns = l.ns / 10;
	/* it stays so until the budget is exceeded: the rest gets dearer */
	l.base = l.ns * 14 / 1000;
	run_for(10 * SEC);
	assert_int_equal(l.shed.turns, BIT(FIRST));
	l.base = l.ns * 17 / 1000;
	run_for(10 * SEC);
	assert_int_equal(l.shed.off, BIT(FIRST));
	assert_int_equal(l.shed.turns, 0);
}

/* A turn is long enough for two of the longest steps, up to a limit. */
TEST(test_turn_length)
{
	struct shed s;

	shed_init(&s, BUDGET);
	for (int i = 0; i < SHED_LOOK_STEPS; i++)
		shed_step(&s, SEC, i ? MS : 2 * SEC, 0);
	shed_turn(&s, ALL, SEC);
	assert_int_equal(shed_turn_ns(&s), 4 * SEC);
	for (int i = 0; i < SHED_LOOK_STEPS; i++)
		shed_step(&s, SEC, i ? MS : 20 * SEC, 0);
	shed_turn(&s, ALL, SEC);
	assert_int_equal(shed_turn_ns(&s), SHED_TURN_MAX_NS);
}

/* Operators are shown by the timeline: without it they are not sampled, barriers are. */
TEST_WITH(test_turns_of_timeline, load_budget, NULL)
{
	l.base = l.ns * 5 / 1000;
	l.cost[SHED_TIMELINE] = l.ns;
	l.cost[SHED_OPERATORS] = l.cost[SHED_BARRIERS] = l.ns / 20;
	run_for(100 * SEC);
	assert_int_equal(l.shed.off & ~(BIT(SHED_SAMPLES) | BIT(SHED_SYSCALLS)), BIT(SHED_BARRIERS) | BIT(SHED_OPERATORS) | BIT(SHED_TIMELINE));
	assert_int_equal(l.shed.turns & (BIT(SHED_OPERATORS) | BIT(SHED_TIMELINE)), 0);
	assert_true(l.shed.turns & BIT(SHED_BARRIERS));
}

/* A price that is always measured too low: each try waits twice as long as the one before. */
TEST_WITH(test_no_flapping, load_budget, NULL)
{
	uint64_t quiet = SHED_QUIET_NS;

	l.cost[FIRST] = l.ns / 10;
	run_until_change();
	for (int i = 0; i < 10; i++) {
		uint64_t since = l.shed.since_ns;

		l.shed.part[FIRST].price_ns = 0;
		while (l.shed.off) {
			run_step();
			l.shed.part[FIRST].price_ns = 0;
		}
		assert_true(l.now - since >= quiet);
		run_until_change();
		assert_int_equal(l.shed.off, BIT(FIRST));
		quiet = quiet * 2 < SHED_QUIET_MAX_NS ? quiet * 2 : SHED_QUIET_MAX_NS;
		assert_int_equal(l.shed.part[FIRST].quiet_ns, quiet);
	}
	/* it was on for a long time: this is a new case */
	l.cost[FIRST] = 0;
	l.shed.part[FIRST].price_ns = 0;
	run_until_change();
	run_for(3 * SHED_QUIET_MAX_NS);
	assert_int_equal(l.shed.off, 0);
	l.cost[FIRST] = l.ns / 10;
	run_until_change();
	assert_int_equal(l.shed.part[FIRST].quiet_ns, SHED_QUIET_NS);
}

/* The load has changed, so that the old price is wrong. */
TEST_WITH(test_tried_at_last, load_budget, NULL)
{
	l.cost[FIRST] = l.ns / 10;
	run_until_change();
	l.cost[FIRST] = 0;
	run_for(SHED_QUIET_MAX_NS - 10 * SEC);
	assert_int_equal(l.shed.off, BIT(FIRST));
	run_for(20 * SEC);
	assert_int_equal(l.shed.off, 0);
}

TEST(test_bounds)
{

	load_init(0);
	l.base = 1000;
	run_for(10 * SEC);
	assert_int_equal(l.shed.off, ALL);
	assert_int_equal(l.changes, SHED_PARTS);
	l.base = 0;
	run_for(3 * SHED_QUIET_MAX_NS);
	assert_int_equal(l.changes, SHED_PARTS); /* no part is free */
	load_init(SHED_WHOLE);
	l.base = l.ns;
	run_for(100 * SEC);
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
	static struct left_out out;
	uint64_t ns[SHED_PARTS];

	assert_int_equal(left_out_between(NULL, 0, ~0ull), 0);
	assert_int_equal(left_out_between(&out, 0, ~0ull), 0);
	left_out_change(&out, 100, BIT(SHED_BARRIERS));
	left_out_change(&out, 200, BIT(SHED_BARRIERS) | BIT(SHED_OPERATORS));
	left_out_change(&out, 300, BIT(SHED_OPERATORS));
	left_out_change(&out, 400, 0);
	assert_int_equal(left_out_between(&out, 0, 99), 0);
	assert_int_equal(left_out_between(&out, 50, 150), BIT(SHED_BARRIERS));
	assert_int_equal(left_out_between(&out, 120, 130), BIT(SHED_BARRIERS));
	assert_int_equal(left_out_between(&out, 150, 350), BIT(SHED_BARRIERS) | BIT(SHED_OPERATORS));
	assert_int_equal(left_out_between(&out, 301, 350), BIT(SHED_OPERATORS));
	assert_int_equal(left_out_between(&out, 401, 500), 0);
	left_out_times(&out, 0, 1000, ns);
	assert_int_equal(ns[SHED_BARRIERS], 200);
	assert_int_equal(ns[SHED_OPERATORS], 200);
	assert_int_equal(ns[SHED_SYSCALLS], 0);
	left_out_times(&out, 150, 250, ns);
	assert_int_equal(ns[SHED_BARRIERS], 100);
	assert_int_equal(ns[SHED_OPERATORS], 50);
	left_out_times(&out, 500, 600, ns);
	assert_int_equal(ns[SHED_BARRIERS], 0);
}

/* Very many changes: nothing that was left out is forgotten, nor for how long. */
TEST(test_left_out_many)
{
	static struct left_out out;
	uint64_t ns[SHED_PARTS];

	for (uint64_t i = 1; i <= 3 * LEFT_OUT_MAX; i++)
		left_out_change(&out, 100 * i, i % 2 ? BIT(SHED_BARRIERS) : 0);
	assert_in_range(out.n, LEFT_OUT_MAX / 2, LEFT_OUT_MAX);
	left_out_times(&out, 0, UINT64_MAX, ns);
	assert_int_equal(ns[SHED_BARRIERS], 100 * 3 * LEFT_OUT_MAX / 2);
	assert_int_equal(ns[SHED_OPERATORS], 0);
	left_out_times(&out, 100 * 3 * LEFT_OUT_MAX - 1000, UINT64_MAX, ns);
	assert_int_equal(ns[SHED_BARRIERS], 500);
	assert_int_equal(left_out_between(&out, 0, 99), 0);
	assert_int_equal(left_out_between(&out, 250, 260), BIT(SHED_BARRIERS));
	assert_int_equal(left_out_between(&out, 100 * 3 * LEFT_OUT_MAX - 50, 100 * 3 * LEFT_OUT_MAX - 40), BIT(SHED_BARRIERS));
	assert_int_equal(left_out_between(&out, 100 * 3 * LEFT_OUT_MAX + 1, ~0ull), 0);
}

/* ---- steps with something left out, and marks of when that changed ---- */

static struct rec_step a_step(uint64_t start)
{
	struct rec_step r = {
		.h = { .kind = REC_STEP, .start_ns = start, .dur_ns = 100 },
		.ns = { [ST_CPU] = 60, [ST_BARRIER] = 30, [ST_RUNNABLE] = 10 },
		.workers_ns = { [ST_CPU] = 20, [ST_BARRIER] = 80 },
		.workers = 1,
		.straggler_tid = 7,
	};

	return r;
}

static struct capture c;
static struct overhead *o;

static int begin(void **state)
{
	c = (struct capture){ 0 };
	o = overhead_new(&c, BUDGET);
	return 0;
}

static int end(void **state)
{
	free(o);
	return 0;
}

TEST_WITH(test_steps, begin, end)
{
	struct rec_step r = a_step(1000), *shown;

	left_out_change(&o->left_out, 2050, BIT(SHED_BARRIERS));
	left_out_change(&o->left_out, 3000, 0);
	left_out_change(&o->left_out, 4000, BIT(SHED_OPERATORS));
	/* before the change: as it came */
	assert_ptr_equal(overhead_step(o, &r.h, sizeof(r)), &r.h);
	/* during the change: the barriers seen are incomplete, so none are reported; the sum stays */
	r = a_step(2000);
	shown = (struct rec_step *)overhead_step(o, &r.h, sizeof(r));
	assert_int_equal(shown->left_out, (BIT(SHED_BARRIERS) | SHED_CHANGED));
	assert_int_equal(shown->ns[ST_BARRIER], 0);
	assert_int_equal(shown->ns[ST_CPU], 90);
	assert_int_equal(shown->ns[ST_RUNNABLE], 10);
	assert_int_equal(shown->workers_ns[ST_BARRIER], 0);
	assert_int_equal(shown->workers_ns[ST_CPU], 100);
	assert_int_equal(shown->straggler_tid, 0);
	assert_int_equal(r.ns[ST_BARRIER], 30); /* the original record is not changed */
	r = a_step(4500);
	shown = (struct rec_step *)overhead_step(o, &r.h, sizeof(r));
	assert_int_equal(shown->left_out, BIT(SHED_OPERATORS));
	assert_int_equal(shown->ns[ST_BARRIER], 30);
	assert_int_equal(shown->straggler_tid, 7);
}

/* A step with its parts, as long as it can be. */
TEST_WITH(test_step_with_parts, begin, end)
{
	struct rec_step_parts r = { .s = a_step(1000) }, *shown;

	r.s.n_parts = STEP_PARTS_MAX;
	r.parts[STEP_PARTS_MAX - 1].rows = 11;
	left_out_change(&o->left_out, 0, BIT(SHED_BARRIERS));
	shown = (struct rec_step_parts *)overhead_step(o, &r.s.h, sizeof(r));
	assert_ptr_not_equal(shown, &r);
	assert_int_equal(shown->parts[STEP_PARTS_MAX - 1].rows, 11);
}

/* A step's cost follows from its hits; for a cut step it is unknown. */
TEST_WITH(test_weighed, begin, end)
{
	struct rec_step r = a_step(1000);

	c.prices.known = true;
	c.prices.ns[HIT_ENTRY] = 5;
	r.workers = 0;
	r.hits.n[HIT_ENTRY] = 4;
	overhead_step(o, &r.h, sizeof(r));
	assert_int_equal(o->shed.look.steps, 1);
	assert_int_equal(o->shed.look.weight_ns, 20);
	assert_int_equal(o->shed.look.ns, 100);
	r.h.flags = REC_F_OPEN_END;
	overhead_step(o, &r.h, sizeof(r));
	assert_int_equal(o->shed.look.steps, 1);
	c.prices.known = false;
	r.h.flags = 0;
	overhead_step(o, &r.h, sizeof(r));
	assert_int_equal(o->shed.look.steps, 1);
	overhead_turn(NULL, NULL, 0);
}

struct marks {
	struct sink sink;
	size_t n;
	struct {
		uint64_t ns;
		const char *reason;
	} list[16];
};

static void take_mark(struct sink *s, const struct mark *m)
{
	struct marks *all = (struct marks *)s;

	assert_true(all->n < 16);
	assert_string_equal(m->name, "budget");
	all->list[all->n].ns = m->ns;
	all->list[all->n++].reason = m->reason;
}

static const struct sink_ops ops = { .mark = take_mark };

TEST(test_marks)
{
	static struct left_out out;
	struct marks m = { .sink.ops = &ops };

	overhead_marks(NULL, &m.sink, 0, 1000);
	overhead_marks(&out, &m.sink, 0, 1000);
	assert_int_equal(m.n, 0);
	left_out_change(&out, 100, BIT(SHED_BARRIERS));
	left_out_change(&out, 200, BIT(SHED_BARRIERS) | BIT(SHED_OPERATORS));
	left_out_change(&out, 300, BIT(SHED_OPERATORS));
	overhead_marks(&out, &m.sink, 150, 400);
	assert_int_equal(m.n, 3);
	assert_int_equal(m.list[0].ns, 150); /* what was off already */
	assert_string_equal(m.list[0].reason, "barriers off");
	assert_int_equal(m.list[1].ns, 200);
	assert_string_equal(m.list[1].reason, "operators off");
	assert_int_equal(m.list[2].ns, 300);
	assert_string_equal(m.list[2].reason, "barriers on");
	m.n = 0;
	overhead_marks(&out, &m.sink, 500, 500);
	assert_int_equal(m.n, 1);
	assert_int_equal(m.list[0].ns, 500);
	assert_string_equal(m.list[0].reason, "operators off");
	m.n = 0;
	overhead_marks(&out, &m.sink, 0, 99);
	assert_int_equal(m.n, 0);
}

/* Costly events that no option turns off are named if they exist. */
TEST(test_stays)
{
	struct probe_spec specs[2] = { { .attached = 1 }, { .is_python = true, .role = ROLE_STEP } };
	struct probe_table pt = { .specs = specs, .n = 2 };

	assert_string_equal(overhead_stays(&pt, false), ""); /* no target runs Python */
	specs[1].attached = 1;
	assert_non_null(strstr(overhead_stays(&pt, true), "--py-step"));
	pt.n = 1;
	assert_string_equal(overhead_stays(&pt, false), "");
	assert_non_null(strstr(overhead_stays(&pt, true), "+pmu"));
}

/* ---- --max-steps-per-process ---- */

static struct rec_step step(uint32_t tgid, uint64_t start_ns)
{
	return (struct rec_step){ .h = { .tgid = tgid, .tid = tgid, .kind = REC_STEP, .start_ns = start_ns, .dur_ns = 10 } };
}

static enum step_limit_take take(struct step_limit *limit, uint32_t tgid, uint8_t kind, uint64_t start_ns)
{
	struct rec_step r = step(tgid, start_ns);

	r.h.kind = kind;
	return step_limit_take(limit, &r.h, sizeof(r));
}

static char text[256];

static void note(struct sink *s, const struct rec_hdr *h, size_t size)
{
	assert_int_equal(size, sizeof(struct rec_step));
	sprintf(text + strlen(text), "%u:%u ", h->tgid, (unsigned int)h->start_ns);
}

/* The first two of each process, in any order. */
TEST(test_each)
{
	struct sink noting = { .ops = &(struct sink_ops){ .record = note } };
	struct step_limit *limit = step_limit_new(2);

	for (int window = 0; window < 2; window++) {
		struct rec_step before = step(1, 50);

		*text = 0;
		before.h.flags = REC_F_OPEN_START;
		assert_int_equal(step_limit_take(limit, &before.h, sizeof(before)), STEP_LIMIT_PASS);
		assert_int_equal(take(limit, 1, REC_STEP, 160), STEP_LIMIT_HELD);
		assert_int_equal(take(limit, 1, REC_STEP, 140), STEP_LIMIT_HELD);
		assert_int_equal(take(limit, 2, REC_STEP, 145), STEP_LIMIT_HELD);
		assert_int_equal(step_limit_settled(limit, 200, &noting), 0); /* an earlier one may still arrive */
		assert_string_equal(text, "");
		assert_int_equal(take(limit, 1, REC_STEP, 120), STEP_LIMIT_HELD);
		assert_int_equal(take(limit, 2, REC_STEP, 210), STEP_LIMIT_HELD);
		assert_int_equal(step_limit_settled(limit, 300, &noting), 3);
		assert_string_equal(text, "1:120 1:140 2:145 ");
		assert_int_equal(take(limit, 1, REC_SYSCALL, 149), STEP_LIMIT_PASS);
		assert_int_equal(take(limit, 1, REC_SYSCALL, 150), STEP_LIMIT_DROP);
		assert_int_equal(take(limit, 1, REC_STEP, 150), STEP_LIMIT_DROP);
		assert_int_equal(take(limit, 1, REC_TASK, 150), STEP_LIMIT_PASS);
		assert_int_equal(take(limit, 2, REC_SYSCALL, 220), STEP_LIMIT_PASS);
		assert_int_equal(step_limit_release(limit, UINT64_MAX, &noting), 1);
		assert_string_equal(text, "1:120 1:140 2:145 2:210 ");
		step_limit_reset(limit);
	}
	step_limit_free(limit);
}

static void check_parts(struct sink *s, const struct rec_hdr *h, size_t size)
{
	const struct rec_step_parts *r = (const struct rec_step_parts *)h;

	assert_int_equal(size, sizeof(*r));
	assert_int_equal(r->parts[STEP_PARTS_MAX - 1].sequence, 7);
}

/* What follows the step's record is held back as well. */
TEST(test_held_parts)
{
	struct rec_step_parts r = { .s = step(1, 100) };
	struct sink checking = { .ops = &(struct sink_ops){ .record = check_parts } };
	struct step_limit *limit = step_limit_new(2);

	r.s.n_parts = STEP_PARTS_MAX;
	r.parts[STEP_PARTS_MAX - 1].sequence = 7;
	assert_int_equal(step_limit_take(limit, &r.s.h, sizeof(r)), STEP_LIMIT_HELD);
	assert_int_equal(step_limit_release(limit, UINT64_MAX, &checking), 1);
	step_limit_free(limit);
}

RUN_TESTS(NULL, NULL)
