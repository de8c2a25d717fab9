// SPDX-License-Identifier: BSD-2-Clause
/* Steps of which something was left out, and the marks of when that changed. */
#include "record/capture.h"
#include "record/limits.h"
#include "unit.h"

#define BIT(part) (1u << (part))

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

TEST(test_steps)
{
	struct capture c = { 0 };
	struct overhead *o = overhead_new(&c, 20000);
	struct rec_step r = a_step(1000), *shown;

	assert_non_null(o);
	left_out_change(&o->left_out, 2050, BIT(SHED_BARRIERS));
	left_out_change(&o->left_out, 3000, 0);
	left_out_change(&o->left_out, 4000, BIT(SHED_OPERATORS));
	/* before: as it came */
	assert_ptr_equal(overhead_step(o, &r.h, sizeof(r)), &r.h);
	/* in the middle: what was seen of barriers is not all, so nothing is told of it; the sum stays */
	r = a_step(2000);
	shown = (struct rec_step *)overhead_step(o, &r.h, sizeof(r));
	assert_int_equal(shown->left_out, BIT(SHED_BARRIERS));
	assert_int_equal(shown->ns[ST_BARRIER], 0);
	assert_int_equal(shown->ns[ST_CPU], 90);
	assert_int_equal(shown->ns[ST_RUNNABLE], 10);
	assert_int_equal(shown->workers_ns[ST_BARRIER], 0);
	assert_int_equal(shown->workers_ns[ST_CPU], 100);
	assert_int_equal(shown->straggler_tid, 0);
	assert_int_equal(r.ns[ST_BARRIER], 30); /* the record itself is somebody else's */
	r = a_step(4500);
	shown = (struct rec_step *)overhead_step(o, &r.h, sizeof(r));
	assert_int_equal(shown->left_out, BIT(SHED_OPERATORS));
	assert_int_equal(shown->ns[ST_BARRIER], 30);
	assert_int_equal(shown->straggler_tid, 7);
	free(o);
}

/* A step with its parts, as long as it may be. */
TEST(test_parts)
{
	struct capture c = { 0 };
	struct overhead *o = overhead_new(&c, 20000);
	struct rec_step_parts r = { .s = a_step(1000) }, *shown;

	r.s.n_parts = STEP_PARTS_MAX;
	r.parts[STEP_PARTS_MAX - 1].rows = 11;
	left_out_change(&o->left_out, 0, BIT(SHED_BARRIERS));
	shown = (struct rec_step_parts *)overhead_step(o, &r.s.h, sizeof(r));
	assert_ptr_not_equal(shown, &r);
	assert_int_equal(shown->parts[STEP_PARTS_MAX - 1].rows, 11);
	free(o);
}

/* What a step costs is known from its hits; of one that is cut nothing is. */
TEST(test_weighed)
{
	struct capture c = { .prices = { .known = true, .ns = { [HIT_ENTRY] = 5 } } };
	struct overhead *o = overhead_new(&c, 20000);
	struct rec_step r = a_step(1000);

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
	free(o);
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
	static struct left_out l;
	struct marks m = { .sink.ops = &ops };

	overhead_marks(NULL, &m.sink, 0, 1000);
	overhead_marks(&l, &m.sink, 0, 1000);
	assert_int_equal(m.n, 0);
	left_out_change(&l, 100, BIT(SHED_BARRIERS));
	left_out_change(&l, 200, BIT(SHED_BARRIERS) | BIT(SHED_OPERATORS));
	left_out_change(&l, 300, BIT(SHED_OPERATORS));
	overhead_marks(&l, &m.sink, 150, 400);
	assert_int_equal(m.n, 3);
	assert_int_equal(m.list[0].ns, 150); /* what was off already */
	assert_string_equal(m.list[0].reason, "barriers off");
	assert_int_equal(m.list[1].ns, 200);
	assert_string_equal(m.list[1].reason, "operators off");
	assert_int_equal(m.list[2].ns, 300);
	assert_string_equal(m.list[2].reason, "barriers on");
	m.n = 0;
	overhead_marks(&l, &m.sink, 500, 500);
	assert_int_equal(m.n, 1);
	assert_int_equal(m.list[0].ns, 500);
	assert_string_equal(m.list[0].reason, "operators off");
	m.n = 0;
	overhead_marks(&l, &m.sink, 0, 99);
	assert_int_equal(m.n, 0);
}

/* What cannot be turned off, and is dear: said if it is there. */
TEST(test_stays)
{
	struct probe_spec specs[2] = { { .attached = 1 }, { .is_python = true } };
	struct probe_table pt = { .specs = specs, .n = 2 };

	assert_string_equal(overhead_stays(&pt, false), ""); /* no target runs Python */
	specs[1].attached = 1;
	assert_non_null(strstr(overhead_stays(&pt, true), "--py-step"));
	pt.n = 1;
	assert_string_equal(overhead_stays(&pt, false), "");
	assert_non_null(strstr(overhead_stays(&pt, true), "+pmu"));
}

RUN_TESTS(NULL, NULL)
