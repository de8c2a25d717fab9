// SPDX-License-Identifier: BSD-2-Clause
/*
 * The agent in a program that uses a GPU of AMD's, which does not exist (tests/gpu/mock_rocm.h): what it writes into the
 * ring is compared with what that GPU has done.
 */
#include "gpu_truth.h"

#ifdef __SANITIZE_ADDRESS__
#define MANY 50000
#else
#define MANY 200000
#endif
#define PIECE 25000

/* All that has run so far is there; a busy machine may take long for that. Then nothing is collected any more. */
static void settle(struct peer *p, uint64_t records)
{
	PEER_WAIT(__atomic_load_n(&p->ring->writer.records, __ATOMIC_ACQUIRE) >= records);
	peer_want(p, 0);
}

static void test_many(void **state)
{
	struct truth t = { 0 };
	struct peer p;
	char line[64];
	size_t seen = 0;

	(void)state;
	begin(&p, 1u << 16, LAUNCHES, "MOCK_CLOCK_OFFSET_NS=1700000000000000000 MOCK_CLOCK_DRIFT_PPM=50");
	assert_int_equal(peer_state(&p), GPU_STATE_ON);
	assert_int_equal(p.ring->writer.vendor, GPU_VENDOR_AMD);
	peer_do(&p, "kernel-ns 100");
	for (size_t count = 0; count < MANY; count += PIECE) {
		snprintf(line, sizeof(line), "launch %d", PIECE);
		peer_do(&p, line);
		peer_do(&p, "sync");
		settle(&p, count + PIECE);
		truth_read(&p, &t);
		seen += take_all(&p, &t);
		peer_want(&p, LAUNCHES);
	}
	assert_int_equal(seen, MANY);
	assert_int_equal(p.ring->writer.records, MANY);
	assert_int_equal(p.ring->writer.dropped_ring + p.ring->writer.dropped_cupti + p.ring->writer.dropped_clock, 0);
	print_message("# agent: %d kernels, %.0f ns of CPU time for each; clocks: %.2f us, of which %.2f us drift\n", MANY,
		(double)p.ring->writer.own_ns / MANY, (double)tolerance(&p) / 1e3, (double)p.ring->clock.bend_ns / 1e3);
	free(t.list);
	peer_end(&p);
}

/* Each version has other sizes of records, or another layout; and copies, of which the CPU made one in five, are there. */
static void test_versions(void **state)
{
	static const char *const environments[] = {
		"MOCK_ROCPROFILER=0.5",
		"MOCK_ROCPROFILER=0.5 MOCK_SHUFFLE=1 MOCK_CLOCK_OFFSET_NS=-70000000000",
		"MOCK_ROCPROFILER=1.1 MOCK_CLOCK_DRIFT_PPM=-200",
		"MOCK_ROCPROFILER=1.3 MOCK_SHUFFLE=1",
		"MOCK_ROCPROFILER=1.3 MOCK_COMPLETE_MS=5",
	};
	static const uint32_t numbers[] = { 500, 500, 10100, 10300, 10300 };

	(void)state;
	for (size_t i = 0; i < sizeof(environments) / sizeof(*environments); i++) {
		struct truth t = { 0 };
		struct peer p;

		begin(&p, 1u << 14, LAUNCHES, environments[i]);
		assert_int_equal(p.ring->writer.version, numbers[i]);
		peer_do(&p, "kernel-ns 300");
		peer_do(&p, "launch 1500");
		peer_do(&p, "copies 50");
		peer_do(&p, "threads 4 500");
		peer_do(&p, "names 300");
		peer_do(&p, "graph 4");
		peer_do(&p, "sync");
		settle(&p, 1500 + 40 + 2000 + 300 + 20);
		assert_int_equal(peer_state(&p), GPU_STATE_OFF);
		truth_read(&p, &t);
		assert_int_equal(t.count, 1500 + 40 + 2000 + 300 + 20);
		assert_int_equal(take_all(&p, &t), t.count);
		free(t.list);
		peer_end(&p);
	}
}

/* Each says on which thread, and when, it was launched. */
static void test_launches(void **state)
{
	struct gpu_record r;
	struct timespec ts;
	struct peer p;
	uint64_t before;

	(void)state;
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

/* What was launched while it was on is there, and nothing else. */
static void test_windows(void **state)
{
	struct truth t = { 0 };
	struct peer p;

	(void)state;
	begin(&p, 1u << 12, 0, "MOCK_SHUFFLE=1");
	assert_int_equal(peer_state(&p), GPU_STATE_OFF);
	peer_do(&p, "kernel-ns 300");
	for (int i = 0; i < 50; i++) {
		peer_do(&p, "launch 20");
		peer_want(&p, i % 2 ? GPU_WANT_KERNELS : GPU_WANT_ALL);
		assert_int_equal(p.ring->writer.collected, i % 2 ? GPU_WANT_KERNELS : LAUNCHES);
		truth_read(&p, &t);
		peer_do(&p, "launch 100");
		peer_do(&p, "sync");
		settle(&p, 100 * (uint64_t)(i + 1));
		truth_read(&p, &t);
		assert_int_equal(take_all(&p, &t), 100);
	}
	free(t.list);
	peer_end(&p);
}

/* What rocprofiler lost, what has no times, and what the ring had no room for is counted. */
static void test_lost(void **state)
{
	struct truth t = { 0 };
	struct peer p;
	size_t taken;

	(void)state;
	begin(&p, 1u << 13, LAUNCHES, "MOCK_DROP_EVERY=10");
	peer_do(&p, "launch 5000");
	peer_do(&p, "sync");
	settle(&p, 4500);
	truth_read(&p, &t);
	/* the count comes with the records: of those behind the last one it is not known yet */
	taken = take_all(&p, &t);
	assert_int_equal(taken, 4500);
	assert_in_range(p.ring->writer.dropped_cupti, 499, 500);
	assert_int_equal(p.marked_cupti, p.ring->writer.dropped_cupti);
	peer_end(&p);

	t.at = 0;
	begin(&p, 1u << 13, LAUNCHES, "MOCK_ZERO_EVERY=4");
	peer_do(&p, "launch 1000");
	peer_do(&p, "sync");
	settle(&p, 1000);
	truth_read(&p, &t);
	assert_int_equal(take_all(&p, &t), 750);
	assert_int_equal(p.ring->writer.records, 1000);
	assert_int_equal(p.ring->writer.dropped_clock, 250);
	peer_end(&p);

	t.at = 0;
	begin(&p, 8, LAUNCHES, "");
	for (int i = 0; i < 20; i++) {
		uint64_t dropped = p.ring->writer.dropped_ring;

		peer_do(&p, "launch 200");
		peer_do(&p, "sync");
		settle(&p, 200 * (uint64_t)(i + 1));
		truth_read(&p, &t);
		taken = take_all(&p, &t);
		assert_int_equal(taken + p.ring->writer.dropped_ring - dropped, 200);
		peer_want(&p, LAUNCHES);
	}
	peer_end(&p);
	free(t.list);
}

/* It leaves, says why, and the program goes on. */
static void test_refused(void **state)
{
	static const struct {
		const char *environment;
		int32_t error;
		uint32_t call;
	} cases[] = {
		{ "MOCK_FAIL_START=12", 12, GPU_CALL_ENABLE },
		{ "MOCK_FAIL_CONFIGURE=39", 39, GPU_CALL_REGISTER },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct gpu_record r;
		struct peer p;

		begin(&p, 64, LAUNCHES, cases[i].environment);
		assert_int_equal(peer_state(&p), GPU_STATE_FAILED);
		assert_int_equal(p.ring->writer.error, cases[i].error);
		assert_int_equal(p.ring->writer.failed_call, cases[i].call);
		peer_do(&p, "launch 100");
		peer_do(&p, "sync");
		peer_want(&p, 0);
		assert_int_equal(peer_state(&p), GPU_STATE_FAILED);
		assert_false(peer_take(&p, &r));
		peer_end(&p);
	}
}

/* A reader that is not what it should be, or goes away. */
static void test_readers(void **state)
{
	struct gpu_record r;
	struct peer p;

	(void)state;
	/* it wants no agent */
	peer_listen(&p, 64);
	peer_start(&p, true, "");
	peer_tell(&p, "launch 10");
	peer_accept(&p);
	peer_send_welcome(&p, -EBUSY, -1);
	peer_done(&p);
	peer_end(&p);

	/* it is not there */
	peer_listen(&p, 64);
	close(p.listener);
	peer_start(&p, true, "");
	peer_do(&p, "launch 10");
	peer_end(&p);

	/* it goes away while there is something to do */
	begin(&p, 1u << 10, LAUNCHES, "");
	peer_do(&p, "launch 100");
	close(p.connection);
	p.connection = -1;
	PEER_WAIT(peer_state(&p) == GPU_STATE_GONE);
	while (peer_take(&p, &r))
		;
	peer_do(&p, "launch 1000");
	peer_do(&p, "sync");
	assert_false(peer_take(&p, &r));
	peer_end(&p);
}

/* A program that does what programs do. */
static void test_programs(void **state)
{
	struct truth t = { 0 };
	struct gpu_record r;
	struct peer p;

	(void)state;
	/* a child has nothing to do with the ring of its parent */
	begin(&p, 1u << 12, LAUNCHES, "");
	peer_do(&p, "launch 100");
	peer_do(&p, "sync");
	peer_do(&p, "fork sleep 1");
	peer_do(&p, "launch 100");
	peer_do(&p, "sync");
	settle(&p, 200);
	for (int i = 0; i < 200; i++)
		assert_true(peer_take(&p, &r));
	assert_false(peer_take(&p, &r));

	/* another program in the same process: a new agent, which gets a ring of its own */
	peer_tell(&p, "exec");
	PEER_WAIT(poll(&(struct pollfd){ .fd = p.connection, .events = POLLRDHUP }, 1, 0) == 1);
	peer_drop_ring(&p);
	peer_tell(&p, "launch 70");
	peer_serve(&p, LAUNCHES);
	peer_done(&p);
	peer_do(&p, "sync");
	settle(&p, 70);
	for (int i = 0; i < 70; i++)
		assert_true(peer_take(&p, &r));

	/* it closes what it does not know */
	peer_want(&p, LAUNCHES);
	peer_do(&p, "close-all");
	PEER_WAIT(peer_state(&p) == GPU_STATE_GONE);
	peer_do(&p, "launch 10");
	peer_end(&p);

	/* it ends: what has run until then is there */
	begin(&p, 1u << 12, LAUNCHES, "");
	p.ring->reader.flush_ms = 1000000;
	peer_do(&p, "launch 100");
	peer_do(&p, "sync");
	truth_read(&p, &t);
	peer_tell(&p, "exit");
	PEER_WAIT(poll(&(struct pollfd){ .fd = p.connection, .events = POLLRDHUP }, 1, 0) == 1);
	assert_int_equal(take_all(&p, &t), 100);
	assert_int_equal(peer_state(&p), GPU_STATE_GONE);
	peer_end(&p);

	/* it ends while the GPU works */
	begin(&p, 1u << 12, LAUNCHES, "");
	peer_do(&p, "kernel-ns 100000000000");
	peer_do(&p, "launch 100");
	peer_tell(&p, "exit");
	peer_end(&p);
	free(t.list);
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
