// SPDX-License-Identifier: BSD-2-Clause
/* What is in flight when a dump begins, compared with earlier and later records. */
#include "record/flight_store.h"
#include "unit.h"

#define US UINT64_C(1000)
#define LOOKED (UINT64_C(1000) * 1000 * US)
#define TID 7u

static struct rec_hdr span(uint8_t kind, uint32_t tid, uint64_t start_ns, uint64_t end_ns, uint32_t id)
{
	return (struct rec_hdr){ .kind = kind, .tid = tid, .start_ns = start_ns, .dur_ns = end_ns - start_ns, .id = id };
}

/* A thread in a call of function 1, and in system call 39 within it; it left operator 2 a while ago. */
static void make(struct in_flight **ret_f)
{
	struct rec_hdr spans[] = {
		span(REC_FUNCTION, TID, LOOKED - 90 * US, LOOKED, 1),
		span(REC_FUNCTION, TID, LOOKED - 80 * US, LOOKED - 70 * US, 2),
		span(REC_SYSCALL, TID, LOOKED - 10 * US, LOOKED, 39),
	};
	struct rec_hdr request = span(REC_REQUEST, 5, LOOKED - 900 * US, LOOKED, 4);

	*ret_f = in_flight_new();
	in_flight_end_thread(TID + 1, LOOKED + 5 * US, *ret_f);
	for (size_t i = 0; i < sizeof(spans) / sizeof(spans[0]); i++)
		in_flight_add(&spans[i], sizeof(spans[i]), *ret_f);
	in_flight_end_thread(TID, LOOKED, *ret_f);
	in_flight_add(&request, sizeof(request), *ret_f);
	in_flight_ready(*ret_f);
}

TEST(test_replaces)
{
	static const struct {
		const char *what;
		uint8_t kind;
		uint32_t tid, id;
		int64_t start_us, end_us; /* relative to the instant at which the thread was looked at */
		bool replaced;
	} cases[] = {
		{ "ended before", REC_SYSCALL, TID, 1, -30, -20, false },
		{ "ended right before", REC_SYSCALL, TID, 1, -30, 0, false },
		{ "began later", REC_SYSCALL, TID, 1, 1, 2, true },
		{ "ended later", REC_OFF_CPU, TID, 1, -5, 1, true },
		{ "the call in flight has ended", REC_SYSCALL, TID, 39, -10, 3, true },
		{ "the clock was read a moment before", REC_SYSCALL, TID, 39, -10, -1, true },
		{ "the step in flight has ended", REC_STEP, TID, 1, -90, 4, true },
		{ "the operator that had come to its end", REC_FUNCTION, TID, 2, -80, -70, true },
		{ "another function at that instant", REC_FUNCTION, TID, 3, -80, -75, false },
		{ "another thread, looked at later", REC_SYSCALL, TID + 1, 1, 1, 4, false },
		{ "and what it did after that", REC_SYSCALL, TID + 1, 1, 1, 6, true },
		{ "a thread that was not looked at", REC_SYSCALL, TID + 2, 1, 1, 2, false },
		{ "what is no time of the thread", REC_MEMORY, TID, 0, 5, 6, false },
		{ "nor is its exit", REC_TASK, TID, TASK_EXIT, 5, 5, false },
	};
	struct in_flight *f;

	make(&f);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct rec_hdr h = span(cases[i].kind, cases[i].tid, LOOKED + (uint64_t)(cases[i].start_us * 1000),
			LOOKED + (uint64_t)(cases[i].end_us * 1000), cases[i].id);

		if (in_flight_replaces(f, &h) != cases[i].replaced)
			fail_msg("%s", cases[i].what);
	}
	assert_int_equal(in_flight_at(f, TID), LOOKED);
	assert_int_equal(in_flight_at(f, TID + 2), UINT64_MAX);
	in_flight_free(f);
}

static void count(const struct rec_hdr *h, size_t size, void *arg)
{
	((unsigned int *)arg)[h->kind]++;
}

static bool is_any(const struct rec_hdr *h, void *arg)
{
	return true;
}

/* Requests can be dropped; the threads' spans stay, and are still found. */
TEST(test_drop)
{
	struct rec_hdr ended = span(REC_SYSCALL, TID, LOOKED - 10 * US, LOOKED - 1, 39);
	unsigned int n[REC_KIND_MAX] = { 0 };
	struct in_flight *f;

	make(&f);
	in_flight_drop(f, is_any, NULL);
	in_flight_each(f, count, n);
	assert_int_equal(n[REC_REQUEST], 0);
	assert_int_equal(n[REC_FUNCTION], 2);
	assert_int_equal(n[REC_SYSCALL], 1);
	assert_true(in_flight_replaces(f, &ended));
	in_flight_free(f);
}

TEST(test_none)
{
	struct rec_hdr h = span(REC_SYSCALL, TID, LOOKED, LOOKED + US, 39);
	struct in_flight *f;

	f = in_flight_new();
	in_flight_ready(f);
	assert_false(in_flight_replaces(f, &h));
	in_flight_free(f);
	in_flight_free(NULL);
}

RUN_TESTS(NULL, NULL)
