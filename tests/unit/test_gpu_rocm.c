// SPDX-License-Identifier: BSD-2-Clause
/*
 * The agent in a program that uses a GPU of AMD's, which does not exist (tests/gpu/mock_rocm.h): what it writes into the
 * ring is compared with what that GPU has done.
 */
#include "gpu_runs.h"

#ifdef __SANITIZE_ADDRESS__
#define MANY 50000
#else
#define MANY 200000
#endif

static void test_many(void **state)
{
	check_many(1u << 16, GPU_VENDOR_AMD, "MOCK_CLOCK_OFFSET_NS=1700000000000000000 MOCK_CLOCK_DRIFT_PPM=50", MANY, 25000);
}

/* Each version has other sizes of records, or another layout; and copies, of which the CPU made one in five, are there. */
static void test_versions(void **state)
{
	static const char *const work[] = { "kernel-ns 300", "launch 1500", "copies 50", "threads 4 500", "names 300", "graph 4", "sync", NULL };
	const size_t records = 1500 + 40 + 2000 + 300 + 20;

	check_version("MOCK_ROCPROFILER=0.5", 500, work, records);
	check_version("MOCK_ROCPROFILER=0.5 MOCK_SHUFFLE=1 MOCK_CLOCK_OFFSET_NS=-70000000000", 500, work, records);
	check_version("MOCK_ROCPROFILER=1.1 MOCK_CLOCK_DRIFT_PPM=-200", 10100, work, records);
	check_version("MOCK_ROCPROFILER=1.3 MOCK_SHUFFLE=1", 10300, work, records);
	check_version("MOCK_ROCPROFILER=1.3 MOCK_COMPLETE_MS=5", 10300, work, records);
}

/* Each says on which thread, and when, it was launched. */
static void test_launches(void **state)
{
	struct gpu_record r;
	struct timespec ts;
	struct peer p;
	uint64_t before;

	begin(&p, 1u << 10, LAUNCHES, "");
	clock_gettime(CLOCK_BOOTTIME, &ts);
	before = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
	peer_do(&p, "launch 100");
	peer_do(&p, "copies 5");
	peer_do(&p, "sync");
	settle(&p, 104);
	for (int i = 0; i < 104; i++) {
		assert_true(peer_take(&p, &r));
		assert_int_equal(r.thread, p.pid);
		assert_in_range(r.launched, before, r.start);
	}
	assert_false(peer_take(&p, &r));
	peer_do(&p, "threads 2 3");
	peer_end(&p);
}

static void test_windows(void **state)
{
	check_windows(GPU_WANT_ALL);
}

/* The count comes with the records: of those behind the last one it is not known yet. */
static void test_lost(void **state)
{
	check_lost(499);
}

static void test_refused(void **state)
{
	check_refused("MOCK_FAIL_START=12", GPU_STATE_FAILED, 12, GPU_CALL_ENABLE);
	check_refused("MOCK_FAIL_CONFIGURE=39", GPU_STATE_FAILED, 39, GPU_CALL_REGISTER);
}

static void test_readers(void **state)
{
	struct peer p;

	check_no_reader();
	begin(&p, 1u << 10, LAUNCHES, "");
	peer_do(&p, "launch 100");
	check_reader_goes(&p);
}

/* A child has nothing to do with the ring of its parent. */
static void test_programs(void **state)
{
	struct peer p;

	begin(&p, 1u << 12, LAUNCHES, "");
	peer_run(&p, "launch 100");
	peer_do(&p, "fork sleep 1");
	peer_run(&p, "launch 100");
	settle(&p, 200);
	take_records(&p, 200);
	check_program(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_versions),
		cmocka_unit_test(test_launches),
		cmocka_unit_test(test_windows),
		cmocka_unit_test(test_lost),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_readers),
		cmocka_unit_test(test_programs),
	};

	signal(SIGPIPE, SIG_IGN);
	peer_program = "mock_hip_driver";
	return cmocka_run_group_tests(tests, NULL, NULL);
}
