// SPDX-License-Identifier: BSD-2-Clause

#include "record/limits.h"
#include "unit.h"

static struct rec_step step(uint32_t tgid, uint64_t start_ns)
{
	return (struct rec_step){ .h = { .tgid = tgid, .tid = tgid, .kind = REC_STEP, .start_ns = start_ns, .dur_ns = 10 } };
}

static enum step_limit_take take(struct step_limit *l, uint32_t tgid, uint8_t kind, uint64_t start_ns)
{
	struct rec_step r = step(tgid, start_ns);

	r.h.kind = kind;
	return step_limit_take(l, &r.h, sizeof(r));
}

static void note(const struct rec_hdr *h, size_t size, void *arg)
{
	char *text = arg;

	assert_int_equal(size, sizeof(struct rec_step));
	sprintf(text + strlen(text), "%u:%u ", h->tgid, (unsigned int)h->start_ns);
}

/* The first two of each process, in any order. */
TEST(test_each)
{
	struct step_limit *l;

	l = step_limit_new(2);
	for (int window = 0; window < 2; window++) {
		struct rec_step before = step(1, 50);
		char text[256] = "";

		before.h.flags = REC_F_OPEN_START;
		assert_int_equal(step_limit_take(l, &before.h, sizeof(before)), STEP_LIMIT_PASS);
		assert_int_equal(take(l, 1, REC_STEP, 160), STEP_LIMIT_HELD);
		assert_int_equal(take(l, 1, REC_STEP, 140), STEP_LIMIT_HELD);
		assert_int_equal(take(l, 2, REC_STEP, 145), STEP_LIMIT_HELD);
		step_limit_settled(l, 200, note, text); /* an earlier one may still arrive */
		assert_string_equal(text, "");
		assert_int_equal(take(l, 1, REC_STEP, 120), STEP_LIMIT_HELD);
		assert_int_equal(take(l, 2, REC_STEP, 210), STEP_LIMIT_HELD);
		step_limit_settled(l, 300, note, text);
		assert_string_equal(text, "1:120 1:140 2:145 ");
		assert_int_equal(take(l, 1, REC_SYSCALL, 149), STEP_LIMIT_PASS);
		assert_int_equal(take(l, 1, REC_SYSCALL, 150), STEP_LIMIT_DROP);
		assert_int_equal(take(l, 1, REC_STEP, 150), STEP_LIMIT_DROP);
		assert_int_equal(take(l, 1, REC_TASK, 150), STEP_LIMIT_PASS);
		assert_int_equal(take(l, 2, REC_SYSCALL, 220), STEP_LIMIT_PASS);
		step_limit_release(l, UINT64_MAX, note, text);
		assert_string_equal(text, "1:120 1:140 2:145 2:210 ");
		step_limit_reset(l);
	}
	step_limit_free(l);
}

static void note_parts(const struct rec_hdr *h, size_t size, void *arg)
{
	const struct rec_step_parts *r = (const struct rec_step_parts *)h;

	assert_int_equal(size, sizeof(*r));
	assert_int_equal(r->parts[STEP_PARTS_MAX - 1].sequence, 7);
	(*(int *)arg)++;
}

/* What follows the step's record is held as well. */
TEST(test_parts)
{
	struct rec_step_parts r = { .s = step(1, 100) };
	struct step_limit *l;
	int n = 0;

	r.s.n_parts = STEP_PARTS_MAX;
	r.parts[STEP_PARTS_MAX - 1].sequence = 7;
	l = step_limit_new(2);
	assert_int_equal(step_limit_take(l, &r.s.h, sizeof(r)), STEP_LIMIT_HELD);
	step_limit_release(l, UINT64_MAX, note_parts, &n);
	assert_int_equal(n, 1);
	step_limit_free(l);
}

RUN_TESTS(NULL, NULL)
