// SPDX-License-Identifier: BSD-2-Clause
/* Dumps of the flight recorder, whatever is appended meanwhile. */
#include "flight_model.h"

TEST(test_empty_dump)
{
	struct rec_hdr open = { .kind = REC_SYSCALL, .start_ns = START };
	struct flight_dump dump;
	struct model m;

	model_new(&m, MB, 0, 1);
	assert_false(dump_has(m.f, open, 0));
	assert_int_equal(flight_dump_next(m.f, on_dumped, &m, 10), 0);
	flight_dump_end(m.f);
	assert_int_equal(flight_dump_begin(m.f, START, NULL, &dump), 0);
	assert_int_equal(dump.horizon_ns, 0);
	/* what is appended after the begin is not part of it */
	model_append(&m, 1);
	assert_int_equal(flight_dump_next(m.f, on_dumped, &m, 10), 0);
	flight_dump_end(m.f);
	model_dump(&m);
	assert_int_equal(m.handed_over, 1);
	/* freed in the middle of a dump */
	model_dump_begin(&m, START, 0);
	model_free(&m);
}

/* A dump that hands nothing over loses nothing; new records cycle through the remaining memory. */
TEST(test_overwrite_beside_dump)
{
	struct flight_stats before, st;
	struct model m;

	model_new(&m, MB, 0, 77);
	model_append(&m, 50000);
	model_dump_begin(&m, START, 0);
	before = model_check(&m);
	for (int i = 0; i < 200000; i++) {
		model_append(&m, 1);
		if (i % 1000 == 0)
			model_check(&m);
	}
	st = model_check(&m);
	assert_true(st.kept > 0 && st.kept < before.kept / 4);
	/* memory that only the dump holds counts as used */
	assert_true(st.used_bytes >= before.used_bytes);
	model_dump_rest(&m);
	/* once the dump is gone there is room again */
	model_append(&m, 50000);
	st = model_check(&m);
	assert_true(st.kept > before.kept / 10 * 9);
	model_dump(&m);
	model_free(&m);
}

/* Dumps a full store with this many records appended meanwhile; UINT_MAX: until some must be evicted. Returns how many were
 * appended. */
static unsigned int fill_beside_dump(struct model *m, unsigned int max)
{
	unsigned int n = 0;
	size_t evicted;

	model_new(m, MB, 0, 78);
	model_append(m, 50000);
	model_dump_begin(m, START, 0);
	for (evicted = model_check(m).evicted; n < max && model_check(m).evicted == evicted; n++)
		model_append(m, 1);
	model_dump_rest(m);
	return n;
}

/* Another dump right after one during which all memory was used. */
TEST(test_dump_in_full_memory)
{
	struct model m;
	unsigned int n;

	n = fill_beside_dump(&m, UINT_MAX);
	model_free(&m);
	assert_int_equal(fill_beside_dump(&m, n - 1), n - 1);
	for (int round = 0; round < 5; round++) {
		model_dump_begin(&m, START, 0);
		model_append(&m, 20000);
		model_check(&m);
		model_dump_rest(&m);
		assert_true(round || m.handed_over > 1000);
	}
	model_free(&m);
}

/* What was handed over stays: a second dump has it again. */
TEST(test_dump_twice)
{
	struct model m;
	size_t first;

	model_new(&m, MB, 0, 5);
	model_append(&m, 3000);
	model_dump(&m);
	first = m.handed_over;
	assert_int_equal(first, 3000);
	model_append(&m, 10);
	model_dump(&m);
	assert_int_equal(m.handed_over, 3010);
	/* many small dumps do not use up the memory */
	for (int i = 0; i < 500; i++) {
		model_append(&m, 1);
		model_dump(&m);
	}
	assert_int_equal(m.handed_over, 3510);
	model_free(&m);
}

/* Each pass has everything, whatever is appended meanwhile, and a dump that ends early holds nothing. */
TEST(test_passes)
{
	struct thread_map processes = { .size = sizeof(struct flight_process) };
	size_t first;
	struct model m;

	model_new(&m, MB, 0, 6);
	model_append(&m, 50000);
	model_dump_begin(&m, START, 0);
	first = m.dump_next;
	flight_dump_passes(m.f, 3);
	for (int pass = 0; pass < 3; pass++) {
		m.dump_next = first;
		m.handed_over = 0;
		if (pass)
			flight_dump_again(m.f);
		while (flight_dump_next(m.f, on_dumped, &m, 1000))
			model_append(&m, 1000);
		assert_true(m.handed_over > 1000);
		assert_int_equal(m.dump_next, m.dump_end);
	}
	flight_dump_end(m.f);
	model_append(&m, 50000);
	model_dump_begin(&m, START, 0);
	flight_dump_processes(m.f, &processes);
	thread_map_clear(&processes, NULL);
	flight_dump_passes(m.f, 2);
	flight_dump_next(m.f, on_dumped, &m, 100);
	flight_dump_end(m.f);
	model_append(&m, 50000);
	assert_true(model_check(&m).kept > 1000);
	model_dump(&m);
	model_free(&m);
}

TEST_STORE(test_processes)
{
	struct rec_fault rec = { .h = { .kind = REC_FAULT, .dur_ns = 5 } };
	uint64_t of[301] = { 0 };
	unsigned int cut = 0;
	struct thread_map processes = { .size = sizeof(struct flight_process) };
	const struct flight_process *p = NULL;
	struct flight_dump dump;
	struct flight *f = store_new(MB, 0);

	assert_int_equal(flight_dump_begin(f, START, NULL, &dump), 0);
	flight_dump_processes(f, &processes);
	assert_null(processes.first);
	flight_dump_end(f);
	/* process n has n of the 45,150 records */
	for (uint32_t round = 0; round < 300; round++) {
		for (uint32_t tgid = 300; tgid > round; tgid--) {
			rec.h.tgid = tgid;
			rec.h.start_ns += 10;
			assert_int_equal(flight_append(f, &rec.h, sizeof(rec)), 0);
		}
	}
	assert_int_equal(flight_dump_begin(f, START, NULL, &dump), 0);
	flight_dump_processes(f, &processes);
	while ((p = thread_map_next(&processes, p))) {
		assert_in_range(p->tgid.tid, 1, 300);
		assert_int_equal(of[p->tgid.tid], 0);
		of[p->tgid.tid] = p->records;
	}
	/* the last round has process 300 only, the one before two processes, ...; the first round kept may be incomplete */
	for (uint32_t tgid = 300; tgid > 1 && of[tgid - 1]; tgid--) {
		cut += of[tgid - 1] == of[tgid];
		assert_int_equal(of[tgid - 1], of[tgid] - (of[tgid - 1] != of[tgid]));
	}
	assert_true(of[300] > 50 && cut <= 1);
	thread_map_clear(&processes, NULL);
}

static void append_within(const struct rec_hdr *rec, size_t size, void *arg)
{
	struct model *m = arg;

	on_dumped(rec, size, m);
	model_append(m, 5);
}

TEST(test_append_from_callback)
{
	struct model m;

	model_new(&m, MB, 0, 9);
	model_append(&m, 40000);
	for (int round = 0; round < 3; round++) {
		model_dump_begin(&m, START, 0);
		while (flight_dump_next(m.f, append_within, &m, 100))
			;
		assert_int_equal(m.dump_next, m.dump_end);
		flight_dump_end(m.f);
		model_check(&m);
	}
	model_free(&m);
}

RUN_TESTS(NULL, NULL)
