// SPDX-License-Identifier: BSD-2-Clause
/*
 * The agent for processes that use a GPU, in a program above a GPU that does not exist (tests/gpu/mock.h): what it
 * writes into the ring is compared with what that GPU has done.
 */
#include "gpu_runs.h"
#include "util/clock.h"

#ifdef __SANITIZE_ADDRESS__
#define MANY 100000
#else
#define MANY 1000000
#endif

static void test_many(void **state)
{
	check_many(1u << 18, GPU_VENDOR_NVIDIA, "MOCK_CUPTI=13.4 MOCK_CLOCK_OFFSET_NS=1700000000000000000 MOCK_CLOCK_DRIFT_PPM=50", MANY, 100000);
}

static void test_versions(void **state)
{
	static const char *const work[] = { "kernel-ns 300", "launch 3000", "copies 40", "launch 3000", "names 300", "sync", NULL };

	check_version("MOCK_CUPTI=12.0", 19, work, 6340);
	check_version("MOCK_CUPTI=12.8 MOCK_SHUFFLE=1", 26, work, 6340);
	check_version("MOCK_CUPTI=13.0 MOCK_CLOCK_DRIFT_PPM=-200", 130000, work, 6340);
	check_version("MOCK_CUPTI=13.1 MOCK_CLOCK_OFFSET_NS=-70000000000", 130100, work, 6340);
	check_version("MOCK_CUPTI=13.3 MOCK_COMPLETE_MS=5", 130300, work, 6340);
	check_version("MOCK_CUPTI=13.4 MOCK_SHUFFLE=1 MOCK_CLOCK_DRIFT_PPM=200", 130400, work, 6340);
}

static void test_windows(void **state)
{
	check_windows(LAUNCHES);
}

static void test_graphs(void **state)
{
	struct gpu_record r;
	struct peer p;
	int nodes = 0, graphs = 0, kernels = 0;

	begin(&p, 1u << 12, GPU_WANT_KERNELS, "");
	peer_run(&p, "graph 20");
	peer_want(&p, 0);
	for (; peer_take(&p, &r); nodes++) {
		assert_int_equal(r.kind, GPU_RECORD_KERNEL);
		assert_int_equal(r.kernel.graph, 1);
		assert_int_equal(r.kernel.graph_node, UINT64_C(1) << 32 | (uint64_t)(nodes % 5 + 1));
	}
	assert_int_equal(nodes, 100);
	peer_want(&p, GPU_WANT_KERNELS | GPU_WANT_GRAPHS);
	peer_do(&p, "graph 20");
	peer_run(&p, "launch 30");
	peer_want(&p, 0);
	while (peer_take(&p, &r)) {
		graphs += r.kind == GPU_RECORD_GRAPH;
		kernels += r.kind == GPU_RECORD_KERNEL;
	}
	assert_int_equal(graphs, 20);
	assert_int_equal(kernels, 30);
	peer_end(&p);
}

static void test_lost(void **state)
{
	check_lost(500);
}

static uint64_t flushed_until(const struct peer *p)
{
	return __atomic_load_n(&p->ring->writer.flushed_until, __ATOMIC_ACQUIRE);
}

/* Up to when all is there is said while it goes on, and not beyond what a buffer may still have that CUPTI keeps. */
static void test_flushed(void **state)
{
	struct truth t = { 0 };
	struct gpu_record r;
	uint32_t comparisons;
	uint64_t at;
	struct peer p;
	int n = 0;

	begin(&p, 1u << 12, LAUNCHES, "MOCK_KEEP=1");
	peer_do(&p, "kernel-ns 1000");
	for (int i = 0; i < 3; i++) {
		peer_run(&p, "launch 100");
		at = clock_boot_ns();
		PEER_WAIT(flushed_until(&p) > at);
		truth_read(&p, &t);
		assert_int_equal(take_all(&p, &t), 100);
	}
	/* the first of them is not done for long */
	peer_do(&p, "kernel-ns 3600000000000");
	peer_do(&p, "launch 1");
	peer_do(&p, "kernel-ns 1000");
	at = clock_boot_ns();
	peer_do(&p, "launch 32");
	comparisons = p.ring->clock.comparisons;
	PEER_WAIT(__atomic_load_n(&p.ring->clock.comparisons, __ATOMIC_ACQUIRE) > comparisons + 3);
	assert_false(peer_take(&p, &r));
	assert_true(flushed_until(&p) < at);
	peer_want(&p, 0);
	assert_true(flushed_until(&p) > at);
	while (peer_take(&p, &r))
		n++;
	assert_int_equal(n, 16); /* those that do not wait behind it */
	assert_int_equal(p.devices, 1);
	assert_string_equal(p.about[0].name, "Mock H100");
	free(t.list);
	peer_end(&p);
}

/* What each device is, as the process numbers them; also where the driver lacks a function, or one fails. */
static void test_devices(void **state)
{
	static const struct {
		const char *environment;
		uint32_t kind;
		unsigned char third, last; /* of the bytes of the UUID */
	} cases[] = {
		{ "MOCK_DEVICES=3 CUDA_VISIBLE_DEVICES=2,0", GPU_UUID_DEVICE, 2, 0 },
		{ "MOCK_DEVICES=3 CUDA_VISIBLE_DEVICES=GPU-00000002,0", GPU_UUID_DEVICE, 2, 0 },
		{ "MOCK_DEVICES=3 MOCK_MIG=1 CUDA_VISIBLE_DEVICES=MIG-00000002,MIG-00000000", GPU_UUID_MIG, 2, 1 },
		{ "MOCK_DEVICES=3 CUDA_VISIBLE_DEVICES=2,0 MOCK_FAIL_UUID=999", GPU_UUID_NONE, 0, 0 },
		{ "MOCK_DEVICES=3 CUDA_VISIBLE_DEVICES=2,0 LD_LIBRARY_PATH=%s/gpu/old", GPU_UUID_DEVICE, 2, 0 },
	};
	char environment[PATH_MAX];
	struct gpu_record r;
	struct peer p;

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const struct gpu_device *d = p.about;

		snprintf(environment, sizeof(environment), cases[i].environment, peer_build());
		begin(&p, 1u << 8, LAUNCHES, environment);
		peer_do(&p, "launch 1");
		peer_want(&p, 0);
		while (peer_take(&p, &r))
			;
		assert_int_equal(p.devices, 2);
		assert_string_equal(d[0].name, cases[i].kind == GPU_UUID_MIG ? "Mock H100 MIG 1g.10gb" : "Mock H100");
		assert_string_equal(d[0].pci, cases[i].kind == GPU_UUID_MIG ? "FFFF:1B:00.0" : "FFFF:1D:00.0");
		assert_string_equal(d[1].pci, "FFFF:1B:00.0");
		assert_int_equal(d[0].uuid_kind, cases[i].kind);
		assert_int_equal(d[0].uuid[3], cases[i].third);
		assert_int_equal(d[0].uuid[15], cases[i].last);
		peer_end(&p);
	}
}

/* For a reader that is slow it waits, so that nothing is lost; for one that has stopped, not for long. */
static void test_waits(void **state)
{
	const int wanted = 20000;
	struct gpu_record r;
	struct peer p;
	int n = 0;

	begin(&p, 1u << 8, 0, "");
	p.ring->reader.wait_ms = 3600000;
	peer_want(&p, LAUNCHES);
	peer_do(&p, "kernel-ns 100");
	peer_run(&p, "launch 20000");
	while (n < wanted) {
		PEER_WAIT(peer_take(&p, &r));
		n++;
		if (n % 1000 == 0)
			usleep(1000);
	}
	peer_want(&p, 0);
	assert_false(peer_take(&p, &r));
	assert_int_equal(p.ring->writer.records, wanted);
	assert_int_equal(p.ring->writer.dropped_ring + p.ring->writer.dropped_cupti, 0);
	assert_true(p.ring->writer.waited_ns > 0);

	p.ring->reader.wait_ms = 5;
	peer_want(&p, LAUNCHES);
	peer_run(&p, "launch 20000");
	peer_want(&p, 0);
	for (n = 0; peer_take(&p, &r);)
		n++;
	assert_int_equal(p.ring->writer.records, 2 * wanted);
	assert_int_equal(n + (int)p.ring->writer.dropped_ring, wanted);
	assert_true(p.ring->writer.dropped_ring > 0);

	/* it leaves */
	p.ring->reader.wait_ms = 3600000;
	peer_want(&p, LAUNCHES);
	peer_run(&p, "launch 20000");
	p.ring->reader.wait_ms = 1;
	peer_drop_ring(&p);
	peer_run(&p, "launch 100");
	peer_end(&p);
}

static void test_refused(void **state)
{
	check_refused("MOCK_ERROR39=1", GPU_STATE_OTHER_USER, 39, GPU_CALL_ENABLE);
	check_refused("MOCK_FAIL_ENABLE=35", GPU_STATE_FAILED, 35, GPU_CALL_ENABLE);
	check_refused("INFTRACE_CUPTI=/nonexistent", GPU_STATE_NO_CUPTI, -ENOENT, GPU_CALL_NONE);
}

/* A reader that is not what it should be. */
static void test_readers(void **state)
{
	struct gpu_record r;
	struct peer p;

	check_no_reader();

	/* what it hands over is no ring */
	peer_listen(&p, 64);
	peer_start(&p, true, "");
	peer_tell(&p, "launch 10");
	peer_accept(&p);
	peer_make_ring(&p);
	p.ring->fixed.capacity = 128;
	peer_send_welcome(&p, 0, p.ring_fd);
	peer_done(&p);
	peer_end(&p);

	/* its tail is junk: nothing is written where it should not be */
	begin(&p, 64, LAUNCHES, "");
	p.ring->reader.tail = UINT64_MAX / 2;
	peer_run(&p, "launch 1000");
	peer_want(&p, 0);
	assert_in_range(p.ring->writer.head, 0, 64);
	p.ring->reader.tail = 0;

	peer_want(&p, LAUNCHES);
	check_reader_goes(&p);

	/* it says goodbye */
	begin(&p, 1u << 12, LAUNCHES, "");
	peer_run(&p, "launch 1000");
	p.ring->reader.leave = 1;
	peer_change(&p);
	PEER_WAIT(peer_state(&p) == GPU_STATE_GONE);
	for (int i = 0; i < 1000; i++)
		assert_true(peer_take(&p, &r));
	peer_do(&p, "launch 1000");
	peer_end(&p);
}

/* A program that does what programs do. */
static void test_programs(void **state)
{
	struct peer p;

	/* a child has nothing to do with the ring of its parent */
	begin(&p, 1u << 12, LAUNCHES, "");
	peer_do(&p, "launch 100");
	peer_do(&p, "fork launch 50");
	peer_run(&p, "launch 100");
	peer_want(&p, 0);
	take_records(&p, 200);
	check_program(&p);
}

/* Attached late, left, and attached again, with kernels all the time. */
static void test_attach(void **state)
{
	char attach[PATH_MAX + 128];
	struct gpu_record r;
	struct peer p;

	peer_listen(&p, 1u << 10);
	peer_start(&p, false, "");
	snprintf(attach, sizeof(attach), "attach %s/inftrace-gpu.so %s", peer_build(), p.name);
	for (int i = 0; i < 200; i++) {
		peer_do(&p, "launch 10");
		peer_tell(&p, attach);
		peer_serve(&p, LAUNCHES);
		peer_done(&p);
		PEER_WAIT(peer_state(&p) == GPU_STATE_ON);
		peer_run(&p, "launch 10");
		if (i % 2) {
			p.ring->reader.leave = 1;
			peer_change(&p);
			PEER_WAIT(peer_state(&p) == GPU_STATE_GONE);
		} else {
			peer_want(&p, 0);
		}
		for (int k = 0; k < 10; k++)
			assert_true(peer_take(&p, &r));
		assert_false(peer_take(&p, &r));
		peer_drop_ring(&p);
	}
	peer_end(&p);
}

/* What costs too much is turned off, and said. */
static void test_budget(void **state)
{
	struct peer p;

	begin(&p, 1u << 10, 0, "");
	p.ring->reader.budget_ppm = 1;
	peer_want(&p, LAUNCHES);
	PEER_WAIT(peer_state(&p) == GPU_STATE_OVER_BUDGET);
	assert_int_equal(p.ring->writer.collected, 0);
	p.ring->reader.budget_ppm = 0;
	peer_want(&p, LAUNCHES);
	assert_int_equal(peer_state(&p), GPU_STATE_ON);
	/* again, and by itself once it may */
	p.ring->reader.budget_ppm = 1;
	PEER_WAIT(peer_state(&p) == GPU_STATE_OVER_BUDGET);
	p.ring->reader.budget_ppm = 0;
	PEER_WAIT(peer_state(&p) == GPU_STATE_ON);
	assert_int_equal(p.ring->writer.collected, LAUNCHES);
	assert_true(p.ring->writer.own_ns > 0);
	peer_end(&p);
}

/* At least two comparisons more, of which one began after the call. */
static void launch_until_compared(struct peer *p)
{
	uint32_t comparisons = __atomic_load_n(&p->ring->clock.comparisons, __ATOMIC_ACQUIRE);

	peer_run(p, "launch 100");
	PEER_WAIT(__atomic_load_n(&p->ring->clock.comparisons, __ATOMIC_ACQUIRE) > comparisons + 1);
}

/* CUPTI's clock jumps, as CLOCK_REALTIME does: each record is right, or says that it may not be. */
static void test_clock_steps(void **state)
{
	static const char *const steps[] = { "step-clock 3600000000000", "step-clock -7000000", "step-clock -5000000000000", "step-clock 400000",
		"step-clock -60000000" };
	struct truth t = { 0 };
	struct peer p;
	size_t seen = 0, sure = 0;

	begin(&p, 1u << 14, LAUNCHES, "");
	for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
		for (int k = 0; k < 5; k++)
			peer_run(&p, "launch 20");
		peer_do(&p, steps[i]);
		/* until it has been noticed; and then some more */
		launch_until_compared(&p);
		peer_run(&p, "launch 100");
	}
	/* the last step went 60 ms back: until the clock has passed where it was, also if a comparison is disturbed and seems a step */
	for (int k = 0; k < 10; k++)
		launch_until_compared(&p);
	peer_want(&p, 0);
	truth_read(&p, &t);
	assert_true(p.ring->clock.steps >= sizeof(steps) / sizeof(*steps));
	for (struct gpu_record r; peer_take(&p, &r); seen++) {
		uint32_t at = r.correlation - t.list[0].correlation;

		assert_in_range(at, 0, t.count - 1);
		if (r.flags & GPU_RECORD_F_CLOCK)
			continue;
		sure++;
		compare(&p, &r, &t.list[at]);
	}
	assert_int_equal(seen + p.ring->writer.dropped_clock, t.count);
	/* those after the last step cannot be all that are */
	assert_true(sure > 0);
	free(t.list);
	peer_end(&p);
}

/* What there is no memory for is counted, and the program goes on; later there is some again. */
static void test_no_memory(void **state)
{
	char attach[PATH_MAX + 128];
	const struct gpu_ring_writer *w;
	struct gpu_record r;
	struct peer p;
	size_t taken = 0;

	begin(&p, 1u << 12, 0, "");
	w = &p.ring->writer;
	peer_do(&p, "no-memory 1");
	peer_want(&p, LAUNCHES);
	peer_run(&p, "launch 1000");
	peer_want(&p, 0);
	while (peer_take(&p, &r))
		taken++;
	assert_int_equal(taken, 0);
	assert_int_equal(w->dropped_cupti, 1000);
	assert_int_equal(p.marked_cupti, 1000);
	peer_do(&p, "no-memory 0");
	peer_want(&p, LAUNCHES);
	peer_run(&p, "launch 1000");
	peer_want(&p, 0);
	while (peer_take(&p, &r))
		taken++;
	assert_int_equal(taken, 1000);
	peer_end(&p);

	/* not even for the ring */
	peer_listen(&p, 64);
	peer_start(&p, false, "");
	peer_do(&p, "launch 10");
	peer_do(&p, "no-memory 1");
	snprintf(attach, sizeof(attach), "attach %s/inftrace-gpu.so %s", peer_build(), p.name);
	peer_tell(&p, attach);
	peer_serve(&p, LAUNCHES);
	peer_done(&p);
	PEER_WAIT_HUNG_UP(&p);
	peer_drop_ring(&p);
	peer_do(&p, "launch 10");
	peer_do(&p, "no-memory 0");
	peer_tell(&p, attach);
	peer_serve(&p, LAUNCHES);
	peer_done(&p);
	PEER_WAIT(peer_state(&p) == GPU_STATE_ON);
	peer_end(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_versions),
		cmocka_unit_test(test_windows),
		cmocka_unit_test(test_graphs),
		cmocka_unit_test(test_lost),
		cmocka_unit_test(test_flushed),
		cmocka_unit_test(test_devices),
		cmocka_unit_test(test_waits),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_readers),
		cmocka_unit_test(test_programs),
		cmocka_unit_test(test_attach),
		cmocka_unit_test(test_budget),
		cmocka_unit_test(test_clock_steps),
		cmocka_unit_test(test_no_memory),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
