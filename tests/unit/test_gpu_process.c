/* SPDX-License-Identifier: BSD-2-Clause */
/* What a GPU did during steps, from a ring and from launches: joined, divided to the nanosecond, or said to be missing. */
#include <stdlib.h>

#include "cases.h"
#include "gpu/hand_over.h"
#include "gpu/partition.h"
#include "gpu/process.h"
#include "gpu_agent.h"

#define PID 4711
#define TID 4712
#define NOW UINT64_C(1000000000000)
#define US UINT64_C(1000)
#define MS UINT64_C(1000000)
#define GOT_MAX 65536

static struct {
	unsigned int n, steps;
	struct rec_gpu list[GOT_MAX];
	struct rec_gpu_step step; /* the last one */
} got;

static void on_record(const struct rec_hdr *h, size_t size, void *arg)
{
	(void)arg;
	if (h->kind == REC_GPU) {
		assert_int_equal(size, sizeof(struct rec_gpu));
		assert_true(got.n < GOT_MAX);
		got.list[got.n++] = *(const struct rec_gpu *)h;
	} else {
		assert_int_equal(h->kind, REC_GPU_STEP);
		assert_int_equal(size, sizeof(struct rec_gpu_step));
		got.steps++;
		got.step = *(const struct rec_gpu_step *)h;
	}
}

static struct gpu_info *info;
static struct gpu_process *process;
static struct fake_agent agent;

static int set_up(void **state)
{
	(void)state;
	memset(&got, 0, sizeof(got));
	if (gpu_info_new(&info) || gpu_process_new(PID, info, NOW, &process))
		return -1;
	agent = agent_open(gpu_process_feed(process));
	agent.ring->writer.on_since = NOW;
	agent.ring->writer.state = GPU_STATE_ON;
	gpu_process_drain(process, NOW, on_record, NULL);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	agent_close(&agent);
	gpu_process_free(process);
	gpu_info_free(info);
	return 0;
}

static void drain_at(uint64_t ns)
{
	agent_flushed(&agent, ns);
	assert_false(gpu_process_drain(process, ns, on_record, NULL));
}

static void call(uint64_t start, uint64_t end, uint64_t stream, uint32_t grid)
{
	const struct launch l = {
		.start_ns = start,
		.end_ns = end,
		.stream = stream,
		.tid = TID,
		.grid = { grid, 1, 1 },
		.block = { 1, 1, 1 },
		.kind = LAUNCH_KERNEL,
		.has_stream = true,
		.has_shape = true,
	};

	gpu_process_call(process, &l);
}

static void kernel(uint64_t start, uint64_t end, uint32_t stream, uint32_t correlation, uint32_t grid)
{
	struct gpu_record r = agent_kernel(start, end, stream, correlation);

	r.kernel.grid[0] = grid;
	agent_write(&agent, &r);
}

static bool step(uint32_t number, uint64_t start, uint64_t end)
{
	const struct rec_step r = {
		.h = { .kind = REC_STEP, .tgid = PID, .tid = TID, .start_ns = start, .dur_ns = end - start },
		.number = number,
	};

	return gpu_process_step(process, &r);
}

static void assert_parts(uint64_t busy, uint64_t copy, uint64_t launch, uint64_t wait, uint64_t unknown)
{
	const uint64_t *ns = got.step.ns;

	assert_int_equal(got.step.h.flags & GPU_STEP_F_LOST, 0);
	if (ns[GPU_PART_BUSY] != busy || ns[GPU_PART_COPY] != copy || ns[GPU_PART_IDLE_LAUNCH] != launch ||
		ns[GPU_PART_IDLE_WAIT] != wait || ns[GPU_PART_UNKNOWN] != unknown)
		fail_msg("%lu %lu %lu %lu %lu, not %lu %lu %lu %lu %lu", ns[GPU_PART_BUSY], ns[GPU_PART_COPY], ns[GPU_PART_IDLE_LAUNCH],
			ns[GPU_PART_IDLE_WAIT], ns[GPU_PART_UNKNOWN], busy, copy, launch, wait, unknown);
}

/* Two kernels and a copy in a step; the second one had to wait. */
static void test_step(void **state)
{
	const uint64_t t = NOW + MS;
	struct gpu_record copy = { .kind = GPU_RECORD_COPY };

	(void)state;
	call(t + 100 * US, t + 105 * US, 0xaa, 1);
	call(t + 110 * US, t + 115 * US, 0xaa, 2);
	kernel(t + 110 * US, t + 200 * US, 7, 1, 1); /* 5 us after its call */
	kernel(t + 250 * US, t + 300 * US, 7, 2, 2); /* though it was launched long ago */
	copy.start = t + 290 * US;
	copy.end = t + 400 * US;
	copy.correlation = 3;
	copy.context = 1;
	copy.copy.bytes = 1000;
	agent_write(&agent, &copy);
	assert_true(step(5, t, t + 1000 * US));
	drain_at(t + 2 * MS);
	assert_int_equal(got.n, 3);
	assert_int_equal(got.steps, 0); /* something that ended later may still come */
	for (int i = 0; i < 2; i++) {
		assert_int_equal(got.list[i].launch_tid, TID);
		assert_int_equal(got.list[i].launched_ns, t + (105 + 10 * (uint64_t)i) * US);
	}
	assert_int_equal(got.list[2].launch_tid, 0);
	drain_at(t + 300 * MS);
	assert_int_equal(got.steps, 1);
	assert_int_equal(got.step.step, 5);
	assert_int_equal(got.step.kernels, 2);
	assert_int_equal(got.step.copies, 1);
	/* the launch of the copy was not seen: before it, nothing is known of gaps in which nothing else was queued */
	assert_parts(140 * US, 100 * US, 600 * US, 55 * US, 105 * US);
}

/* What is launched within a step and runs later was queued; a launch of which nothing came is waited for, but not for ever. */
static void test_pending(void **state)
{
	const uint64_t t = NOW + MS;

	(void)state;
	call(t + 10 * US, t + 20 * US, 0xaa, 1);
	assert_true(step(0, t, t + 100 * US));
	drain_at(t + 500 * MS);
	assert_int_equal(got.steps, 0);
	kernel(t + 600 * MS, t + 700 * MS, 7, 1, 1);
	drain_at(t + 800 * MS);
	assert_int_equal(got.steps, 1);
	assert_parts(0, 0, 20 * US, 80 * US, 0);

	call(t + 900 * MS + 10 * US, t + 900 * MS + 20 * US, 0xaa, 1);
	assert_true(step(1, t + 900 * MS, t + 900 * MS + 100 * US));
	drain_at(t + 1800 * MS);
	assert_int_equal(got.steps, 1);
	drain_at(t + 1901 * MS);
	assert_int_equal(got.steps, 2);
	assert_parts(0, 0, 20 * US, 0, 80 * US);
}

/* CUPTI has never handed over everything: the launches say what there must be. */
static void test_never_flushed(void **state)
{
	const uint64_t t = NOW + MS;

	(void)state;
	call(t + 10 * US, t + 20 * US, 0xaa, 1);
	assert_true(step(0, t, t + 100 * US));
	kernel(t + 20 * US, t + 90 * US, 7, 1, 1);
	assert_false(gpu_process_drain(process, t + 500 * MS, on_record, NULL));
	assert_int_equal(got.n, 0);
	assert_false(gpu_process_drain(process, t + 1100 * MS, on_record, NULL));
	assert_int_equal(got.n, 1);
	assert_int_equal(got.steps, 0);
	assert_false(gpu_process_drain(process, t + 1300 * MS, on_record, NULL));
	assert_int_equal(got.steps, 1);
	assert_parts(70 * US, 0, 30 * US, 0, 0);
	/* one whose record is very late */
	call(t + 2000 * MS, t + 2000 * MS + 10 * US, 0xaa, 1);
	assert_true(step(1, t + 2000 * MS, t + 2000 * MS + 100 * US));
	assert_false(gpu_process_drain(process, t + 9000 * MS, on_record, NULL));
	assert_int_equal(got.steps, 1);
	kernel(t + 2000 * MS + 50 * US, t + 2000 * MS + 60 * US, 7, 2, 1);
	assert_false(gpu_process_drain(process, t + 9200 * MS, on_record, NULL));
	assert_int_equal(got.steps, 2);
	assert_parts(10 * US, 0, 50 * US, 40 * US, 0);
}

/* Without launches and without a flush nothing is known. */
static void test_nothing_known(void **state)
{
	const uint64_t t = NOW + MS;

	(void)state;
	kernel(t + 20 * US, t + 90 * US, 7, 1, 1);
	assert_true(step(0, t, t + 100 * US));
	assert_false(gpu_process_drain(process, t + 9000 * MS, on_record, NULL));
	assert_int_equal(got.steps, 0);
	assert_false(gpu_process_drain(process, t + 11000 * MS, on_record, NULL));
	assert_int_equal(got.steps, 1);
	assert_true(got.step.h.flags & GPU_STEP_F_LOST);
}

static void test_lost(void **state)
{
	const uint64_t t = NOW + 10 * MS;

	(void)state;
	assert_true(step(0, t, t + MS));
	drain_at(t + 2 * MS);
	agent.ring->writer.dropped_cupti = 1;
	assert_true(step(1, t + 2 * MS + MS / 2, t + 3 * MS));
	drain_at(t + 4 * MS);
	assert_true(step(2, t + 5 * MS, t + 6 * MS));
	drain_at(t + 204 * MS);
	assert_int_equal(got.steps, 2);
	assert_int_equal(got.step.step, 1);
	assert_true(got.step.h.flags & GPU_STEP_F_LOST && !got.step.ns[GPU_PART_IDLE_LAUNCH]);
	drain_at(t + 300 * MS);
	assert_int_equal(got.step.step, 2);
	assert_parts(0, 0, MS, 0, 0);
	/* one that began before anything was collected */
	assert_true(step(3, NOW - MS, t + 300 * MS));
	drain_at(t + 600 * MS);
	assert_int_equal(got.step.step, 3);
	assert_true(got.step.h.flags & GPU_STEP_F_LOST);
}

/* The agent leaves, or never collects: no step waits. */
static void test_end(void **state)
{
	const uint64_t t = NOW + MS;

	(void)state;
	kernel(t, t + MS, 7, 1, 1);
	assert_true(step(0, t, t + MS));
	agent.ring->writer.state = GPU_STATE_GONE;
	assert_false(gpu_process_drain(process, t + 2 * MS, on_record, NULL));
	assert_int_equal(got.n, 1);
	assert_int_equal(got.steps, 1);
	assert_parts(MS, 0, 0, 0, 0);
	/* a step may become known later than that */
	assert_true(step(1, t, t + MS / 2));
	gpu_process_finish(process, t + 2 * MS, on_record, NULL);
	assert_int_equal(got.steps, 2);
	assert_parts(MS / 2, 0, 0, 0, 0);
	agent.ring->writer.state = GPU_STATE_FAILED;
	gpu_process_drain(process, t + 3 * MS, on_record, NULL);
	assert_false(step(2, t, t + MS));
}

/* A kernel whose record is missing does not shift those behind the next wait. */
static void test_resync(void **state)
{
	uint64_t t = NOW + MS;
	struct gpu_counts c;

	(void)state;
	for (uint32_t i = 0; i < 10; i++) {
		call(t, t + US, 0xaa, 1);
		if (i) /* the first one is missing */
			kernel(t + 10 * US, t + 20 * US, 7, i + 1, 1);
		gpu_process_wait(process, NULL, t + 5 * US, t + 30 * US);
		t += MS;
		drain_at(t);
	}
	assert_int_equal(got.n, 9);
	for (uint32_t i = 0; i < 9; i++)
		assert_int_equal(got.list[i].launch_ns + 10 * US, got.list[i].h.start_ns);
	gpu_process_counts(process, &c);
	assert_int_equal(c.joined, 9);
	assert_int_equal(c.missed, 0);
}

/* Kernels of a few shapes on a few streams, which run one after the other on each: every one finds its call, with calls of
 * the runtime around those of the driver. */
static void test_streams(void **state)
{
	enum { STREAMS = 4,
		N = 4000 };
	uint64_t at = NOW + MS, free_at[STREAMS] = { 0 }, flushed = NOW, launched[N];
	struct gpu_record waiting[N];
	unsigned int n_waiting = 0;

	(void)state;
	srand(3);
	for (uint32_t i = 0; i < N; i++) {
		uint32_t s = (uint32_t)rand() % STREAMS, grid = 1 + (uint32_t)rand() % 8;
		uint64_t start;

		launched[i] = at;
		call(at, at + 2 * US, 0x1000 + s, grid);
		if (rand() % 2)
			call(at - 500, at + 3 * US, 0x1000 + s, grid);
		start = at + 4 * US > free_at[s] ? at + 4 * US : free_at[s];
		free_at[s] = start + 1 + (uint64_t)rand() % (20 * US);
		waiting[n_waiting] = agent_kernel(start, free_at[s], 50 + s, i + 1);
		waiting[n_waiting++].kernel.grid[0] = grid;
		at += 5 * US + (uint64_t)rand() % US;
		if (rand() % 20 && i < N - 1)
			continue;
		flushed = i < N - 1 ? at : at + 1000 * MS;
		for (unsigned int k = n_waiting; k--;) {
			if (waiting[k].end >= flushed)
				continue;
			agent_write(&agent, &waiting[k]);
			waiting[k] = waiting[--n_waiting];
		}
		drain_at(flushed);
	}
	assert_int_equal(got.n, N);
	for (uint32_t i = 0; i < N; i++)
		assert_int_equal(got.list[i].launch_ns, launched[got.list[i].correlation - 1]);
}

/* ---- partitions against one that looks at every nanosecond ---- */

static void divide_slowly(const struct gpu_run *list, size_t n, uint64_t start, uint64_t end, uint64_t ns[GPU_PART_MAX])
{
	memset(ns, 0, GPU_PART_MAX * sizeof(*ns));
	for (uint64_t at = start; at < end; at++) {
		bool kernels = false, copies = false, queued = false, unknown = false;

		for (size_t i = 0; i < n; i++) {
			const struct gpu_run *r = &list[i];
			bool runs = r->start_ns != UINT64_MAX && at >= r->start_ns && at < r->end_ns;

			kernels |= runs && r->is_kernel;
			copies |= runs && !r->is_kernel;
			if (at >= r->start_ns || at < r->launched_ns)
				continue;
			queued |= r->launched_ns && r->start_ns != UINT64_MAX;
			unknown |= !r->launched_ns || r->start_ns == UINT64_MAX;
		}
		ns[kernels        ? GPU_PART_BUSY
			: copies  ? GPU_PART_COPY
			: queued  ? GPU_PART_IDLE_WAIT
			: unknown ? GPU_PART_UNKNOWN
				  : GPU_PART_IDLE_LAUNCH]++;
	}
}

static void test_partition(void **state)
{
	const unsigned int n_cases = cases(3000, 200);

	(void)state;
	srand(1);
	for (unsigned int c = 0; c < n_cases; c++) {
		struct gpu_run list[12];
		size_t n = (size_t)rand() % 12;
		uint64_t ns[GPU_PART_MAX], sum = 0, start = 500, end = 500 + (uint64_t)rand() % 300;
		struct rec_gpu_step r;

		for (size_t i = 0; i < n; i++) {
			uint64_t from = 400 + (uint64_t)rand() % 500;

			list[i] = (struct gpu_run){
				.start_ns = from,
				.end_ns = from + (uint64_t)rand() % 100,
				.launched_ns = rand() % 3 ? from - (uint64_t)rand() % 200 : 0,
				.is_kernel = (uint32_t)rand() % 2,
			};
			if (!(rand() % 10))
				list[i].start_ns = list[i].end_ns = UINT64_MAX;
		}
		assert_int_equal(gpu_partition(list, n, start, end, &r), 0);
		divide_slowly(list, n, start, end, ns);
		for (int i = 0; i < GPU_PART_MAX; i++) {
			assert_int_equal(r.ns[i], ns[i]);
			sum += r.ns[i];
		}
		assert_int_equal(sum, end - start);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_step, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_pending, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_never_flushed, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_nothing_known, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_lost, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_end, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_resync, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_streams, set_up, tear_down),
		cmocka_unit_test(test_partition),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
