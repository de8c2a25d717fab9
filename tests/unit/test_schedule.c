// SPDX-License-Identifier: BSD-2-Clause
/* Windows: every source of a request and every limit, alone and combined. Times are whole numbers. */
#include "record/windows.h"
#include "stderr.h"
#include "unit.h"

#define SEC UINT64_C(1000000000)
#define BEGIN (1000 * SEC + 7) /* of the run */
#define NEVER UINT64_MAX

static struct schedule sched;

/* Times here are in milliseconds from the beginning. */
static uint64_t at(uint64_t ms)
{
	return BEGIN + ms * (SEC / 1000);
}

static void begin(enum schedule_source source, uint64_t duration_ms, uint64_t max_steps)
{
	struct schedule_config c = {
		.source = source,
		.every_ns = source == SCHEDULE_EVERY ? 10 * SEC : 0,
		.for_ns = source == SCHEDULE_EVERY ? 2 * SEC : 0,
		.duration_ns = duration_ms * (SEC / 1000),
		.max_steps = max_steps,
	};

	schedule_init(&sched, &c, BEGIN);
}

/* `next_ms` from the beginning, or NEVER. */
static void check(
	int line, uint64_t ms, bool open, uint32_t number, const char *why, uint64_t next_ms)
{
	struct schedule_state st = schedule_next(&sched, at(ms));
	const char *reason = open ? st.opened : st.closed;

	if (st.open != open || st.number != number || strcmp(reason ? reason : "", why))
		fail_msg("line %d: %s, number %u, %s", line, st.open ? "open" : "closed", st.number,
			reason ? reason : "no reason");
	if (st.next_ns != (next_ms == NEVER ? NEVER : at(next_ms)))
		fail_msg("line %d: next look at %.3f", line,
			((double)st.next_ns - (double)BEGIN) / 1e6);
}
#define OPEN(ms, number, why, next_ms) check(__LINE__, ms, true, number, why, next_ms)
#define CLOSED(ms, number, why, next_ms) check(__LINE__, ms, false, number, why, next_ms)

static void flag(uint64_t ms, bool there)
{
	schedule_flag(&sched, at(ms), there);
}

static bool is_over(void)
{
	return sched.state.over;
}

/* ---- by the wall clock ---- */

/* The wall clock is `real_ms` into a period of 10 s as the run begins. */
static void begin_aligned(uint64_t real_ms)
{
	struct schedule_config c = {
		.source = SCHEDULE_EVERY,
		.every_ns = 10 * SEC,
		.for_ns = 2 * SEC,
		.aligned = true,
		.real_offset_ns = 1763616000 * SEC + real_ms * (SEC / 1000) - BEGIN,
	};

	schedule_init(&sched, &c, BEGIN);
}

TEST(test_aligned)
{
	begin_aligned(3000);
	CLOSED(0, 0, "", 7000);
	OPEN(7000, 1, "schedule", 9000);
	CLOSED(9000, 1, "schedule", 17000);
	OPEN(17500, 2, "schedule", 19000); /* late, and closed with the others */
	CLOSED(19000, 2, "schedule", 27000);
	CLOSED(30000, 2, "schedule", 37000); /* missed */
}

/* The window of the period in which the run begins would be incomplete. */
TEST(test_aligned_inside)
{
	begin_aligned(1000);
	CLOSED(0, 0, "", 9000);
	CLOSED(500, 0, "", 9000);
	OPEN(9000, 1, "schedule", 11000);
}

TEST(test_aligned_set)
{
	begin_aligned(3000);
	schedule_clock(&sched, sched.c.real_offset_ns + 999999); /* two clocks that are read one after the other */
	CLOSED(1000, 0, "", 7000);
	schedule_clock(&sched, sched.c.real_offset_ns + 2 * SEC);
	CLOSED(1000, 0, "", 5000);
	OPEN(5000, 1, "schedule", 7000);
	schedule_clock(&sched, sched.c.real_offset_ns - 3 * SEC); /* not twice in the same period */
	CLOSED(7000, 1, "schedule", 8000);
	CLOSED(8000, 1, "schedule", 18000);
	OPEN(18000, 2, "schedule", 20000);
}

TEST(test_aligned_parsed)
{
	struct schedule_config c = {};

	assert_int_equal(schedule_parse("every=60s,for=2s", &c), 0);
	assert_false(c.aligned);
	assert_int_equal(schedule_parse("aligned,every=60s,for=2s", &c), 0);
	assert_true(c.aligned);
	assert_int_equal(c.every_ns, 60 * SEC);
}

/* ---- the whole run ---- */

TEST(test_whole)
{
	begin(SCHEDULE_WHOLE, 0, 0);
	OPEN(0, 1, "start", NEVER);
	schedule_steps(&sched, at(5), 1000000);
	OPEN(100000000, 1, "start", NEVER);
}

TEST(test_whole_duration)
{
	begin(SCHEDULE_WHOLE, 500, 0);
	OPEN(0, 1, "start", 500);
	OPEN(499, 1, "start", 500);
	assert_false(is_over());
	CLOSED(500, 1, "duration", NEVER);
	assert_true(is_over());
	assert_int_equal(schedule_start(&sched, at(501)), -ESHUTDOWN);
	CLOSED(501, 1, "duration", NEVER);
	/* later than asked for, and stopped in between: the run ends all the same */
	begin(SCHEDULE_WHOLE, 500, 0);
	assert_int_equal(schedule_stop(&sched, at(100)), 0);
	CLOSED(100, 1, "stop", 500);
	assert_int_equal(schedule_start(&sched, at(200)), 0);
	OPEN(200, 2, "start", 500);
	assert_int_equal(schedule_stop(&sched, at(300)), 0);
	CLOSED(700, 2, "stop", NEVER);
	assert_true(is_over());
}

TEST(test_whole_max_steps)
{
	begin(SCHEDULE_WHOLE, 0, 10);
	schedule_steps(&sched, at(1), 9);
	OPEN(1, 1, "start", NEVER);
	schedule_steps(&sched, at(2), 1);
	CLOSED(2, 1, "max_steps", NEVER);
	assert_true(is_over());
}

/* ---- by hand ---- */

TEST(test_manual)
{
	begin(SCHEDULE_MANUAL, 0, 0);
	CLOSED(0, 0, "", NEVER);
	assert_int_equal(schedule_stop(&sched, at(1)), 1);
	assert_int_equal(schedule_start(&sched, at(10)), 0);
	OPEN(10, 1, "start", NEVER);
	assert_int_equal(schedule_start(&sched, at(11)), 1);
	OPEN(11, 1, "start", NEVER);
	assert_int_equal(schedule_stop(&sched, at(12)), 0);
	CLOSED(12, 1, "stop", NEVER);
	assert_int_equal(schedule_stop(&sched, at(12)), 1);
	assert_int_equal(schedule_start(&sched, at(12)), 0);
	OPEN(12, 2, "start", NEVER);
}

TEST(test_manual_limits)
{
	begin(SCHEDULE_MANUAL, 1000, 10);
	CLOSED(5000, 0, "", NEVER);
	schedule_start(&sched, at(5000));
	OPEN(5999, 1, "start", 6000);
	CLOSED(6000, 1, "duration", NEVER);
	assert_false(is_over());
	schedule_steps(&sched, at(6500), 100); /* between windows: counted in none */
	schedule_start(&sched, at(7000));
	schedule_steps(&sched, at(7100), 9);
	OPEN(7100, 2, "start", 8000);
	schedule_steps(&sched, at(7200), 5);
	CLOSED(7200, 2, "max_steps", NEVER);
	/* counted separately in each */
	schedule_start(&sched, at(7300));
	schedule_steps(&sched, at(7400), 9);
	OPEN(7400, 3, "start", 8300);
	/* a start while it is open does not make it longer */
	assert_int_equal(schedule_start(&sched, at(8299)), 1);
	CLOSED(8300, 3, "duration", NEVER);
}

/* ---- the flag ---- */

TEST(test_flag)
{
	begin(SCHEDULE_FLAG, 0, 0);
	CLOSED(0, 0, "", NEVER);
	flag(1, false);
	CLOSED(1, 0, "", NEVER);
	flag(2, true);
	OPEN(2, 1, "flag", NEVER);
	flag(3, true);
	OPEN(3, 1, "flag", NEVER);
	flag(4, false);
	CLOSED(4, 1, "flag", NEVER);
	/* removed and back at once: another window */
	flag(5, true);
	flag(6, false);
	flag(6, true);
	OPEN(6, 3, "flag", NEVER);
}

/* After a limit it must disappear and reappear. */
TEST(test_flag_limits)
{
	begin(SCHEDULE_FLAG, 1000, 10);
	flag(0, true);
	OPEN(0, 1, "flag", 1000);
	CLOSED(1000, 1, "duration", NEVER);
	CLOSED(5000, 1, "duration", NEVER);
	flag(5000, true);
	CLOSED(5000, 1, "duration", NEVER);
	flag(5001, false);
	CLOSED(5001, 1, "duration", NEVER);
	flag(6000, true);
	OPEN(6000, 2, "flag", 7000);
	schedule_steps(&sched, at(6500), 10);
	CLOSED(6500, 2, "max_steps", NEVER);
	flag(6600, false);
	flag(6600, true);
	OPEN(6600, 3, "flag", 7600);
	/* noticed late, together with the flag's removal: whichever came first counts */
	flag(9000, false);
	CLOSED(9000, 3, "duration", NEVER);
	assert_false(is_over());
}

TEST(test_flag_and_hand)
{
	begin(SCHEDULE_FLAG, 0, 0);
	/* a stop applies to this flag only */
	flag(1, true);
	assert_int_equal(schedule_stop(&sched, at(2)), 0);
	CLOSED(2, 1, "stop", NEVER);
	/* a start without a new flag */
	assert_int_equal(schedule_start(&sched, at(3)), 0);
	OPEN(3, 2, "start", NEVER);
	flag(4, false);
	OPEN(4, 2, "start", NEVER);
	flag(5, true);
	OPEN(5, 2, "start", NEVER);
	assert_int_equal(schedule_stop(&sched, at(6)), 0);
	CLOSED(6, 2, "stop", NEVER);
	flag(7, false);
	/* a start while the flag has it open: it stays open when the flag goes */
	flag(8, true);
	OPEN(8, 3, "flag", NEVER);
	assert_int_equal(schedule_start(&sched, at(9)), 1);
	flag(10, false);
	OPEN(10, 3, "flag", NEVER);
	assert_int_equal(schedule_stop(&sched, at(11)), 0);
	CLOSED(11, 3, "stop", NEVER);
}

/* ---- a part of each period: 2 s in 10 s ---- */

TEST(test_every)
{
	begin(SCHEDULE_EVERY, 0, 0);
	for (uint32_t i = 0; i < 1000; i++) {
		OPEN(10000 * i, i + 1, "schedule", 10000 * i + 2000);
		OPEN(10000 * i + 1999, i + 1, "schedule", 10000 * i + 2000);
		CLOSED(10000 * i + 2000, i + 1, "schedule", 10000 * i + 10000);
		CLOSED(10000 * i + 9999, i + 1, "schedule", 10000 * i + 10000);
	}
}

/* However late each look is, the next window begins on time, and each has its full length. */
TEST(test_every_late)
{
	begin(SCHEDULE_EVERY, 0, 0);
	for (uint32_t i = 0; i < 1000; i++) {
		uint64_t late = i * 7 % 1000;

		OPEN(10000 * i + late, i + 1, "schedule", 10000 * i + late + 2000);
		CLOSED(10000 * i + late + 2003, i + 1, "schedule", 10000 * i + 10000);
	}
}

/* The machine sleeps: missed windows are not made up for. */
TEST(test_every_suspend)
{
	begin(SCHEDULE_EVERY, 0, 0);
	OPEN(1000, 1, "schedule", 2000);
	/* asleep with the window open, awake between two */
	CLOSED(1005000, 1, "schedule", 1010000);
	OPEN(1010000, 2, "schedule", 1012000);
	CLOSED(1012000, 2, "schedule", 1020000);
	/* awake within a window: it has its full length */
	OPEN(2001500, 3, "schedule", 2003500);
	CLOSED(2003500, 3, "schedule", 2010000);
	/* asleep in one and awake in another: two */
	OPEN(2010000, 4, "schedule", 2012000);
	OPEN(3010500, 5, "schedule", 3012500);
	CLOSED(3012500, 5, "schedule", 3020000);
}

/* A window that opens late lasts until the next, which begins on time. */
TEST(test_every_without_a_gap)
{
	struct schedule_config c = { .source = SCHEDULE_EVERY, .every_ns = 10 * SEC, .for_ns = 9 * SEC };

	schedule_init(&sched, &c, BEGIN);
	OPEN(0, 1, "schedule", 9000);
	CLOSED(9000, 1, "schedule", 10000);
	OPEN(18000, 2, "schedule", 20000);
	OPEN(20000, 3, "schedule", 29000);
	CLOSED(29000, 3, "schedule", 30000);
}

TEST(test_every_limits)
{
	begin(SCHEDULE_EVERY, 500, 10);
	OPEN(0, 1, "schedule", 500);
	CLOSED(500, 1, "duration", 10000);
	CLOSED(1999, 1, "duration", 10000);
	OPEN(10000, 2, "schedule", 10500);
	schedule_steps(&sched, at(10100), 11);
	CLOSED(10100, 2, "max_steps", 20000);
	/* both have passed: whichever came first counts */
	OPEN(20000, 3, "schedule", 20500);
	CLOSED(25000, 3, "duration", 30000);
	assert_false(is_over());
	begin(SCHEDULE_EVERY, 3000, 0);
	OPEN(0, 1, "schedule", 2000);
	CLOSED(5000, 1, "schedule", 10000);
}

TEST(test_every_and_hand)
{
	begin(SCHEDULE_EVERY, 0, 0);
	/* a stop applies to this period only */
	assert_int_equal(schedule_stop(&sched, at(1000)), 0);
	CLOSED(1000, 1, "stop", 10000);
	CLOSED(1999, 1, "stop", 10000);
	OPEN(10000, 2, "schedule", 12000);
	CLOSED(12000, 2, "schedule", 20000);
	/* a start lasts until the stop, through periods */
	assert_int_equal(schedule_start(&sched, at(15000)), 0);
	OPEN(15000, 3, "start", 20000);
	OPEN(20000, 3, "start", 22000);
	OPEN(22000, 3, "start", 30000);
	OPEN(30000, 3, "start", 32000);
	assert_int_equal(schedule_stop(&sched, at(31000)), 0);
	CLOSED(31000, 3, "stop", 40000);
	OPEN(40000, 4, "schedule", 42000);
	/* within a window of the period, which continues */
	assert_int_equal(schedule_start(&sched, at(41000)), 1);
	OPEN(42000, 4, "schedule", 50000);
	assert_int_equal(schedule_stop(&sched, at(45000)), 0);
	CLOSED(45000, 4, "stop", 50000);
	/* a long one by hand ends at a limit: the next period has its own window */
	begin(SCHEDULE_EVERY, 4000, 0);
	CLOSED(2000, 1, "schedule", 10000);
	schedule_start(&sched, at(7000));
	OPEN(7000, 2, "start", 10000);
	OPEN(10000, 2, "start", 11000);
	CLOSED(11000, 2, "duration", 20000);
	OPEN(20000, 3, "schedule", 22000);
}

/* Each window is opened once and closed once, in this order, whatever happens. */
TEST(test_any_order)
{
	static const enum schedule_source sources[] = { SCHEDULE_WHOLE, SCHEDULE_MANUAL,
		SCHEDULE_FLAG, SCHEDULE_EVERY };
	uint64_t seed = 88172645463325252ull; /* xorshift64 (Marsaglia, 2003) */

	for (int run = 0; run < 400; run++) {
		struct schedule_state last = {}, st;
		uint64_t ms = 0;

		begin(sources[run % 4], run & 4 ? 3000 : 0, run & 8 ? 10 : 0);
		for (int i = 0; i < 500; i++) {
			next_random(&seed);
			ms += seed % 1000;
			switch (seed >> 32 & 7) {
			case 0:
			case 1:
				if (sources[run % 4] == SCHEDULE_FLAG)
					flag(ms, seed >> 40 & 1);
				break;
			case 2:
				schedule_start(&sched, at(ms));
				break;
			case 3:
				schedule_stop(&sched, at(ms));
				break;
			case 4:
				schedule_steps(&sched, at(ms), seed >> 40 & 3);
				break;
			}
			st = schedule_next(&sched, at(ms));
			assert_true(st.number >= last.number && (!st.open || st.number));
			if (st.open && !last.open)
				assert_true(st.number > last.number);
			assert_true(!st.number == !st.opened);
			assert_true(st.open || !st.number || st.closed);
			assert_true(st.next_ns > at(ms));
			assert_false(st.over && st.open);
			/* nothing happened: nothing changes */
			last = schedule_next(&sched, at(ms));
			assert_int_equal(last.number, st.number);
			assert_int_equal(last.open, st.open);
		}
	}
}

/* ---- output ---- */

TEST(test_parse)
{
	struct schedule_config c = { .duration_ns = 5, .max_steps = 6 };

	assert_int_equal(schedule_parse("manual", &c), 0);
	assert_int_equal(c.source, SCHEDULE_MANUAL);
	assert_int_equal(schedule_parse("every=60s,for=2s", &c), 0);
	assert_int_equal(c.source, SCHEDULE_EVERY);
	assert_int_equal(c.every_ns, 60 * SEC);
	assert_int_equal(c.for_ns, 2 * SEC);
	assert_int_equal(schedule_parse("for=10ms,every=10.000001ms", &c), 0);
	assert_int_equal(c.every_ns, 10000001);
	assert_int_equal(c.for_ns, 10000000);
	assert_int_equal(c.duration_ns, 5);
	assert_int_equal(c.max_steps, 6);
}

TEST(test_parse_errors)
{
#define NEITHER "' is neither manual nor like every=60s,for=2s\n"
	static const struct {
		const char *text, *line;
	} bad[] = {
		{ "", "--window: '" NEITHER },
		{ "Manual", "'Manual" NEITHER },
		{ "manual,every=1s,for=1s", "'manual,every=1s,for=1s" NEITHER },
		{ "60s", "'60s" NEITHER },
		{ "every=1s,for=20ms,", "'every=1s,for=20ms," NEITHER },
		{ "every=1s,,for=20ms", NEITHER },
		{ " every=1s,for=20ms", NEITHER },
		{ "every", "'every" NEITHER },
		{ "every=60s", "--window: for is missing, as in every=60s,for=2s\n" },
		{ "for=2s", "--window: every is missing, as in every=60s,for=2s\n" },
		{ "every=1s,every=2s,for=1s", "--window: every is given twice\n" },
		{ "every=1s,for=1s,for=1s", "--window: for is given twice\n" },
		{ "every=x,for=1s",
			"--window: every: 'x' is not a duration; write 10s, 500ms or 2m\n" },
		{ "every=1s,for=", "--window: for: '' is not a duration; write" },
		{ "every=1s,for=-1s", "--window: for: '-1s' is not a duration; write" },
		{ "every=999999999999h,for=1s",
			"--window: every: '999999999999h' is too large a duration" },
		{ "every=1s,for=9.9ms", "--window: for=9.9ms is shorter than 10ms\n" },
		{ "every=1s,for=0", "--window: for=0 is shorter than 10ms\n" },
		{ "every=1s,for=1s", "--window: for=1s is not shorter than every=1s\n" },
		{ "every=1s,for=1m", "--window: for=1m is not shorter than every=1s\n" },
		{ "every=0s,for=1m", "--window: for=1m is not shorter than every=0s\n" },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct schedule_config c = { .source = SCHEDULE_FLAG, .every_ns = 1, .for_ns = 2 };
		struct stderr_grab g;
		const char *said;
		int err;

		stderr_grab_begin(&g);
		err = schedule_parse(bad[i].text, &c);
		said = stderr_grab_end(&g);
		assert_int_equal(err, -EINVAL);
		if (!strstr(said, bad[i].line) || strchr(said, '\n') != said + strlen(said) - 1)
			fail_msg("'%s': %s", bad[i].text, said);
		assert_true(c.source == SCHEDULE_FLAG && c.every_ns == 1 && c.for_ns == 2);
	}
}

RUN_TESTS(NULL, NULL)
