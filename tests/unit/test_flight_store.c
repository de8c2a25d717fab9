// SPDX-License-Identifier: BSD-2-Clause
/* The flight recorder's store: what it keeps, and in how much memory. */
#include <sys/mman.h>

#include "cases.h"
#include "flight_model.h"

TEST(test_refused)
{
	union any_rec rec = { .h = { .kind = REC_ON_CPU, .start_ns = START, .dur_ns = 5 } };
	struct flight_stats st;
	struct flight *f;
	struct tasks *ts;

	ts = tasks_new();
	assert_int_equal(flight_new(0, 0, ts, &f), -EINVAL);
	assert_int_equal(flight_new(MB - 1, 0, ts, &f), -EINVAL);
	assert_int_equal(flight_new(UINT64_MAX, 0, ts, &f), -EINVAL);
	assert_int_equal(flight_new(MB, 0, ts, &f), 0);
	assert_int_equal(flight_append(f, &rec.h, sizeof(rec.h) - 1), -EINVAL);
	assert_int_equal(flight_append(f, &rec.h, REC_SIZE_MAX + 1), -EINVAL);
	rec.h.kind = REC_KIND_MAX;
	assert_int_equal(flight_append(f, &rec.h, sizeof(rec.h)), -EINVAL);
	rec.h.kind = REC_TASK;
	assert_int_equal(flight_append(f, &rec.h, sizeof(rec.h)), -EINVAL);
	rec.h.kind = REC_MAPPED;
	assert_int_equal(flight_append(f, &rec.h, sizeof(rec.h)), 0);
	flight_get_stats(f, &st);
	assert_int_equal(st.kept, 0);
	assert_int_equal(st.oldest_ns, 0);
	assert_int_equal(st.used_bytes, 0);
	rec.h.kind = REC_REQUEST;
	assert_int_equal(flight_append(f, &rec.h, REC_SIZE_MAX), 0);
	flight_get_stats(f, &st);
	assert_int_equal(st.kept, 1);
	assert_int_equal(st.records[REC_REQUEST], 1);
	assert_int_equal(st.oldest_ns, START);
	assert_int_equal(st.horizon_ns, 0);
	flight_free(f);
	flight_free(NULL);
	tasks_free(ts);
}

/* A store that never fills takes next to no memory, however large. */
TEST(test_large)
{
	const uint64_t bytes = 40000 * MB;
	struct model m;
	void *probe;

	probe = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (probe == MAP_FAILED)
		SKIP("vm.overcommit_memory is 2, or memory is limited");
	munmap(probe, bytes);
	model_new(&m, bytes, 0, 1);
	assert_true(mapping_kb(m.f, "Rss") <= 2048);
	model_append(&m, 100000);
	assert_true(mapping_kb(m.f, "Rss") <= 32 * 1024);
	model_dump(&m);
	assert_int_equal(m.handed_over, 100000);
	model_free(&m);
}

/* The memory is one mapping of no more than was asked for, mostly for records; unused pages are not allocated. */
TEST(test_bound)
{
	static const uint64_t sizes[] = { MB, MB + 4095, 3 * MB + 12345, 20 * MB, 64 * MB };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct flight_stats st;
		struct model m;

		model_new(&m, sizes[i], 0, i + 1);
		flight_get_stats(m.f, &st);
		assert_true(st.bytes <= sizes[i]);
		assert_true(mapping_kb(m.f, "Size") * 1024 <= sizes[i]);
		assert_true(mapping_kb(m.f, "Rss") <= 64 + 32); /* headers */
		do {
			model_append(&m, 100);
			flight_get_stats(m.f, &st);
		} while (!st.evicted);
		model_append(&m, m.n);
		st = model_check(&m);
		assert_true(st.used_bytes <= st.bytes);
		assert_true(st.used_bytes >= sizes[i] / 100 * 83);
		model_dump_begin(&m, START, 0);
		model_append(&m, m.n / 4);
		assert_true(mapping_kb(m.f, "Size") * 1024 <= sizes[i]);
		assert_true(mapping_kb(m.f, "Rss") * 1024 <= sizes[i]);
		model_dump_rest(&m);
		model_free(&m);
	}
}

/* Appends, with dumps at any speed, several in a row: always everything that ended after the horizon, in order, and the
 * horizon no later than necessary. */
TEST(test_against_model)
{
	static const uint64_t sizes[] = { MB, MB + 70000, 2 * MB };

	for (uint64_t seed = 1; seed <= 12; seed++) {
		uint64_t dice = seed * 7919;
		unsigned int dumps = 0;
		struct model m;

		model_new(&m, sizes[seed % 3], 0, seed);
		for (unsigned int turn = 0; turn < 60; turn++) {
			unsigned int speed = (unsigned int)(next_random(&dice) % 4);

			model_append(&m, next_random(&dice) % 8000);
			model_check(&m);
			if (next_random(&dice) % 2)
				continue;
			model_dump_begin(&m, START, 0);
			dumps++;
			/* from much slower than records arrive to much faster */
			for (unsigned int part = 0; part < 40; part++) {
				if (!flight_dump_next(m.f, on_dumped, &m,
					    (unsigned int)(next_random(&dice) % 500) << speed))
					break;
				model_append(&m, next_random(&dice) % 600);
			}
			model_check(&m);
			if (next_random(&dice) % 4 == 0)
				flight_dump_end(m.f);
			else
				model_dump_rest(&m);
			model_check(&m);
		}
		assert_true(dumps > 10);
		model_free(&m);
	}
}

RUN_TESTS(NULL, NULL)
