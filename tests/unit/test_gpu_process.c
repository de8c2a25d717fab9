/* SPDX-License-Identifier: BSD-2-Clause */
/* What a GPU did during steps, from a ring and from launches: joined, divided to the nanosecond, or reported as missing. */
#include <sys/stat.h>

#include "gpu/hand_over.h"
#include "gpu/process.h"
#include "gpu_agent.h"

#define PID 4711
#define TID 4712
#define NOW UINT64_C(1000000000000)
#define US UINT64_C(1000)
#define MS UINT64_C(1000000)
#define T (NOW + MS) /* when most tests begin */
#define GOT_MAX 65536

static struct {
	unsigned int n, steps;
	struct rec_gpu list[GOT_MAX];
	struct rec_gpu_step step; /* the last one */
	uint64_t busy_ns;         /* as the intervals say */
	unsigned int whole;       /* intervals in which the GPU was busy all the time */
} got;

static void on_record(const struct rec_hdr *h, size_t size, void *arg)
{
	if (h->kind == REC_GPU) {
		assert_int_equal(size, sizeof(struct rec_gpu));
		assert_true(got.n < GOT_MAX);
		got.list[got.n++] = *(const struct rec_gpu *)h;
	} else if (h->kind == REC_GPU_LOAD) {
		got.busy_ns += ((const struct rec_gpu_load *)h)->busy_ns;
		got.whole += ((const struct rec_gpu_load *)h)->busy_ns == h->dur_ns;
	} else {
		assert_int_equal(h->kind, REC_GPU_STEP);
		memset(&got.step, 0, sizeof(got.step));
		memcpy(&got.step, h, size);
		assert_int_equal(size, REC_GPU_STEP_SIZE(got.step.n_devices));
		got.steps++;
	}
}

static struct gpu_info *info;
static struct gpu_process *process;
static struct fake_agent agent;

static int start_process(uint32_t pid, struct gpu_process **ret_process, struct fake_agent *ret_agent)
{
	if (gpu_process_new(pid, info, NOW, ret_process))
		return -1;
	*ret_agent = agent_open(gpu_process_feed(*ret_process));
	ret_agent->ring->writer.on_since = NOW;
	ret_agent->ring->writer.state = GPU_STATE_ON;
	return 0;
}

static int set_up(void **state)
{
	memset(&got, 0, sizeof(got));
	info = gpu_info_new();
	if (start_process(PID, &process, &agent))
		return -1;
	gpu_process_drain(process, NOW, on_record, NULL);
	return 0;
}

static int tear_down(void **state)
{
	agent_close(&agent);
	gpu_process_free(process);
	gpu_info_free(info);
	return 0;
}

static void run_at(uint64_t ns)
{
	assert_false(gpu_process_drain(process, ns, on_record, NULL));
}

/* Drains when all that ended by `ns` has been written. */
static void drain_at(uint64_t ns)
{
	agent_flushed(&agent, ns);
	run_at(ns);
}

static unsigned int records_at(uint64_t ns)
{
	drain_at(ns);
	return got.n;
}

static unsigned int steps_at(uint64_t ns)
{
	drain_at(ns);
	return got.steps;
}

static void call_of(uint32_t tid, uint64_t start, uint64_t end, uint64_t stream, uint32_t grid)
{
	const struct launch l = {
		.start_ns = start,
		.end_ns = end,
		.stream = stream,
		.tid = tid,
		.grid = { grid, 1, 1 },
		.block = { 1, 1, 1 },
		.kind = LAUNCH_KERNEL,
		.has_stream = true,
		.has_shape = true,
	};

	gpu_process_call(process, &l);
}

static void call(uint64_t start, uint64_t end, uint64_t stream, uint32_t grid)
{
	call_of(TID, start, end, stream, grid);
}

static void kernel(uint64_t start, uint64_t end, uint32_t stream, uint32_t correlation, uint32_t grid)
{
	struct gpu_record r = agent_kernel(start, end, stream, correlation);

	r.kernel.grid[0] = grid;
	agent_write(&agent, &r);
}

/* before: time since the last step of the thread */
static bool step_behind(uint32_t number, uint64_t start, uint64_t end, uint64_t before)
{
	const struct rec_step r = {
		.h = { .kind = REC_STEP, .tgid = PID, .tid = TID, .start_ns = start, .dur_ns = end - start },
		.number = number,
		.before_ns = { [ST_CPU] = before / 3, [ST_RUNNABLE] = before - before / 3 },
	};

	return gpu_process_step(process, &r);
}

static bool step(uint32_t number, uint64_t start, uint64_t end)
{
	return step_behind(number, start, end, 0);
}

static struct gpu_counts counts(void)
{
	struct gpu_counts c;

	gpu_process_counts(process, &c);
	return c;
}

static void assert_launches(uint64_t joined, uint64_t missed, uint64_t pending)
{
	struct gpu_counts c = counts();

	assert_int_equal(c.joined, joined);
	assert_int_equal(c.missed, missed);
	assert_int_equal(c.pending, pending);
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
TEST_WITH(test_step, set_up, tear_down)
{
	struct gpu_record copy = { .kind = GPU_RECORD_COPY };

	call(T + 100 * US, T + 105 * US, 0xaa, 1);
	call(T + 110 * US, T + 115 * US, 0xaa, 2);
	kernel(T + 110 * US, T + 200 * US, 7, 1, 1); /* 5 us after its call */
	kernel(T + 250 * US, T + 300 * US, 7, 2, 2); /* long after its launch */
	copy.start = T + 290 * US;
	copy.end = T + 400 * US;
	copy.correlation = 3;
	copy.context = 1;
	copy.copy.bytes = 1000;
	agent_write(&agent, &copy);
	assert_true(step(5, T, T + 1000 * US));
	assert_int_equal(records_at(T + 2 * MS), 2); /* the copy's launch is not seen yet, but may still come */
	assert_int_equal(records_at(T + 900 * MS), 2);
	assert_int_equal(got.steps, 0);
	assert_int_equal(records_at(T + 1002 * MS), 3);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(got.list[i].launch_tid, TID);
		assert_int_equal(got.list[i].launched_ns, T + (105 + 10 * (uint64_t)i) * US);
	}
	assert_int_equal(got.list[2].launch_tid, 0);
	assert_int_equal(got.steps, 1);
	assert_int_equal(got.step.step, 5);
	assert_int_equal(got.step.kernels, 2);
	assert_int_equal(got.step.copies, 1);
	/* the copy's launch was not seen: before it, gaps with nothing else queued are unknown */
	assert_parts(140 * US, 100 * US, 600 * US, 55 * US, 105 * US);
}

/* The time since the last step is divided, too, if all of it is known. */
TEST_WITH(test_before, set_up, tear_down)
{
	const uint64_t *before = got.step.before_ns;
	uint64_t sum = 0;

	call(T + 10 * US, T + 20 * US, 0xaa, 1);
	kernel(T + 30 * US, T + 70 * US, 7, 1, 1);
	assert_true(step_behind(0, T + 50 * US, T + 100 * US, 50 * US));
	assert_int_equal(steps_at(T + 300 * MS), 1);
	assert_parts(20 * US, 0, 30 * US, 0, 0);
	assert_int_equal(before[GPU_PART_BUSY], 20 * US);
	assert_int_equal(before[GPU_PART_IDLE_WAIT], 10 * US);
	assert_int_equal(before[GPU_PART_IDLE_LAUNCH], 20 * US);
	/* nothing had been collected by then */
	assert_true(step_behind(1, T + 310 * MS, T + 311 * MS, 312 * MS));
	assert_int_equal(steps_at(T + 600 * MS), 2);
	assert_parts(0, 0, MS, 0, 0);
	for (int i = 0; i < GPU_PART_MAX; i++)
		sum += before[i];
	assert_int_equal(sum, 0);
}

/* Work launched within a step that runs later was queued. A launch without a record is waited for, but not for ever. */
TEST_WITH(test_pending, set_up, tear_down)
{
	call(T + 10 * US, T + 20 * US, 0xaa, 1);
	assert_true(step(0, T, T + 100 * US));
	assert_int_equal(steps_at(T + 500 * MS), 0);
	kernel(T + 600 * MS, T + 700 * MS, 7, 1, 1);
	assert_int_equal(steps_at(T + 800 * MS), 0);
	assert_int_equal(steps_at(T + 900 * MS), 1);
	assert_parts(0, 0, 20 * US, 80 * US, 0);
	assert_int_equal(got.step.after_ns, 100 * MS);

	call(T + 900 * MS + 10 * US, T + 900 * MS + 20 * US, 0xaa, 1);
	assert_true(step(1, T + 900 * MS, T + 900 * MS + 100 * US));
	assert_int_equal(steps_at(T + 1800 * MS), 1);
	assert_int_equal(steps_at(T + 1901 * MS), 2);
	assert_parts(0, 0, 20 * US, 0, 80 * US);
}

/* CUPTI never handed over everything: the launches tell what there must be. */
TEST_WITH(test_never_flushed, set_up, tear_down)
{
	call(T + 10 * US, T + 20 * US, 0xaa, 1);
	assert_true(step(0, T, T + 100 * US));
	kernel(T + 20 * US, T + 90 * US, 7, 1, 1);
	run_at(T + 500 * MS);
	assert_int_equal(got.n, 0);
	run_at(T + 1100 * MS);
	assert_int_equal(got.n, 1);
	assert_int_equal(got.steps, 0);
	run_at(T + 1300 * MS);
	assert_int_equal(got.steps, 1);
	assert_parts(70 * US, 0, 30 * US, 0, 0);
	/* a launch whose record is very late */
	call(T + 2000 * MS, T + 2000 * MS + 10 * US, 0xaa, 1);
	assert_true(step(1, T + 2000 * MS, T + 2000 * MS + 100 * US));
	run_at(T + 9000 * MS);
	assert_int_equal(got.steps, 1);
	kernel(T + 2000 * MS + 50 * US, T + 2000 * MS + 60 * US, 7, 2, 1);
	run_at(T + 9200 * MS);
	assert_int_equal(got.steps, 2);
	assert_parts(10 * US, 0, 50 * US, 40 * US, 0);
}

/* How busy the GPU was during a kernel is not told before the kernel has ended, however often finished work was handed over
 * before. */
TEST_WITH(test_long, set_up, tear_down)
{
	const uint64_t t = NOW + 20 * MS;

	call(t, t + 10 * US, 0xaa, 1);
	kernel(t + 20 * US, t + 30 * US, 7, 1, 1);
	call(t + 100 * US, t + 110 * US, 0xaa, 2);
	for (uint64_t ms = 1; ms < 400; ms += 50)
		assert_int_equal(records_at(t + ms * MS), 1);
	assert_int_equal(got.whole, 0);
	kernel(t + MS, t + 400 * MS, 7, 2, 2);
	assert_int_equal(records_at(t + 450 * MS), 2);
	assert_int_equal(got.busy_ns, 399 * MS + 10 * US);
	assert_int_equal(got.whole, 39);
	/* a step that launches nothing does not hold it up for long */
	call(t + 500 * MS, t + 510 * MS, 0xaa, 3);
	kernel(t + 600 * MS, t + 650 * MS, 8, 3, 4);
	call(t + 590 * MS, t + 591 * MS, 0xbb, 4);
	drain_at(t + 700 * MS);
	assert_int_equal(got.whole, 39);
	drain_at(t + 1700 * MS);
	assert_int_equal(got.whole, 39 + 5);
	/* nor is a step held at all at the end */
	call(t + 1720 * MS, t + 1721 * MS, 0xbb, 4);
	kernel(t + 1740 * MS, t + 1750 * MS, 8, 4, 4);
	gpu_process_finish(process, t + 1800 * MS, on_record, NULL);
	assert_int_equal(got.whole, 39 + 6);
}

/* Without launches and without a flush nothing is known. */
TEST_WITH(test_nothing_known, set_up, tear_down)
{
	kernel(T + 20 * US, T + 90 * US, 7, 1, 1);
	assert_true(step(0, T, T + 100 * US));
	run_at(T + 9000 * MS);
	assert_int_equal(got.steps, 0);
	run_at(T + 11000 * MS);
	assert_int_equal(got.steps, 1);
	assert_true(got.step.h.flags & GPU_STEP_F_LOST);
}

TEST_WITH(test_lost, set_up, tear_down)
{
	const uint64_t t = NOW + 10 * MS;

	assert_true(step(0, t, t + MS));
	drain_at(t + 2 * MS);
	agent.ring->writer.dropped_cupti = 1;
	assert_true(step(1, t + 2 * MS + MS / 2, t + 3 * MS));
	drain_at(t + 4 * MS);
	assert_true(step(2, t + 5 * MS, t + 6 * MS));
	assert_int_equal(steps_at(t + 204 * MS), 2);
	assert_int_equal(got.step.step, 1);
	assert_true(got.step.h.flags & GPU_STEP_F_LOST && !got.step.ns[GPU_PART_IDLE_LAUNCH]);
	drain_at(t + 300 * MS);
	assert_int_equal(got.step.step, 2);
	assert_parts(0, 0, MS, 0, 0);
	/* a step that began before anything was collected */
	assert_true(step(3, NOW - MS, t + 300 * MS));
	drain_at(t + 600 * MS);
	assert_int_equal(got.step.step, 3);
	assert_true(got.step.h.flags & GPU_STEP_F_LOST);
}

/* A pause of the budget: steps in it have no GPU times, those around it do, and launches in it are not waited for. */
TEST_WITH(test_pause, set_up, tear_down)
{
	const uint64_t t = NOW + 10 * MS;

	assert_true(step(0, t, t + MS));
	agent.ring->writer.off_since = t + 2 * MS;
	agent.ring->writer.state = GPU_STATE_OVER_BUDGET;
	run_at(t + 3 * MS);
	assert_true(counts().is_over);
	call(t + 3 * MS, t + 3 * MS + US, 0xaa, 1);
	assert_true(step(1, t + 3 * MS, t + 4 * MS));
	/* nothing is flushed any more, but nothing can come either */
	run_at(t + 300 * MS);
	assert_int_equal(got.steps, 2);
	assert_int_equal(got.step.step, 1);
	assert_true(got.step.h.flags & GPU_STEP_F_LOST);
	/* it goes on; a step that began in the pause is known only in part */
	agent.ring->writer.on_since = t + 400 * MS;
	agent.ring->writer.state = GPU_STATE_ON;
	assert_true(step(2, t + 399 * MS, t + 401 * MS));
	assert_int_equal(steps_at(t + 700 * MS), 3);
	assert_true(got.step.h.flags & GPU_STEP_F_LOST);
	call(t + 350 * MS, t + 350 * MS + US, 0xaa, 1); /* late */
	call(t + 702 * MS, t + 702 * MS + 5 * US, 0xaa, 1);
	kernel(t + 702 * MS + 10 * US, t + 702 * MS + 20 * US, 7, 1, 1);
	assert_true(step(3, t + 702 * MS, t + 702 * MS + 100 * US));
	assert_int_equal(steps_at(t + 1000 * MS), 4);
	assert_parts(10 * US, 0, 85 * US, 5 * US, 0);
	assert_false(counts().is_over);
	assert_int_equal(counts().over_ns, 398 * MS);
	assert_int_equal(counts().pending, 0);
	/* what is turned off with the window, or for steps that are not taken, does not count as a pause of the budget */
	agent.ring->writer.off_since = t + 1100 * MS;
	agent.ring->writer.state = GPU_STATE_OFF;
	run_at(t + 1200 * MS);
	agent.ring->writer.on_since = t + 1300 * MS;
	agent.ring->writer.state = GPU_STATE_ON;
	drain_at(t + 1400 * MS);
	assert_int_equal(counts().over_ns, 398 * MS);
}

/* The agent leaves, or never collects: no step waits. */
TEST_WITH(test_end, set_up, tear_down)
{
	kernel(T, T + MS, 7, 1, 1);
	assert_true(step(0, T, T + MS));
	agent.ring->writer.state = GPU_STATE_GONE;
	run_at(T + 2 * MS);
	assert_int_equal(got.n, 0);
	call(T - 20 * US, T - 10 * US, 0xaa, 1); /* read in the next turn */
	run_at(T + 2 * MS);
	assert_int_equal(got.n, 1);
	assert_int_equal(got.list[0].launch_ns, T - 20 * US);
	assert_int_equal(got.steps, 1);
	assert_parts(MS, 0, 0, 0, 0);
	/* a step may become known later than that */
	assert_true(step(1, T, T + MS / 2));
	gpu_process_finish(process, T + 2 * MS, on_record, NULL);
	assert_int_equal(got.steps, 2);
	assert_parts(MS / 2, 0, 0, 0, 0);
	agent.ring->writer.state = GPU_STATE_FAILED;
	gpu_process_drain(process, T + 3 * MS, on_record, NULL);
	assert_false(step(2, T, T + MS));
}

/* A kernel whose record is missing does not shift those after the next wait. */
TEST_WITH(test_resync, set_up, tear_down)
{
	uint64_t t = NOW + MS;

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
	assert_launches(9, 0, 0);
}

/* Nor do many missing records, with whatever waits, when collecting began later than the calls. */
TEST_WITH(test_resync_at_once, set_up, tear_down)
{
	uint64_t t = NOW + MS, stream = 0xaa;
	uint32_t correlation = 0;

	for (uint32_t i = 0; i < 40; i++, t += MS) {
		for (uint32_t k = 0; k < 10; k++) {
			call(t + k * 20 * US, t + k * 20 * US + 5 * US, stream, 1);
			if (i >= 19) /* no record of those before; all records of the last ones */
				kernel(t + k * 20 * US + 8 * US, t + k * 20 * US + 15 * US, 7, ++correlation, 1);
		}
		gpu_process_wait(process, &stream, t + 300 * US, t + 310 * US);
	}
	assert_int_equal(records_at(t), 210);
	for (uint32_t i = 0; i < got.n; i++)
		assert_int_equal(got.list[i].launch_ns + 8 * US, got.list[i].h.start_ns);
}

/* Work that began after the recording is left out and not counted as missed, and its launch is not waited for. */
TEST_WITH(test_after_end, set_up, tear_down)
{
	uint64_t t = NOW + MS;

	call(t, t + US, 0xaa, 1);
	kernel(t + 2 * US, t + 3 * US, 7, 1, 1);
	call(t + 4 * US, t + 5 * US, 0xaa, 1);
	gpu_process_end(process, t + 10 * US);
	kernel(t + 11 * US, t + 12 * US, 7, 2, 1);
	kernel(t + 20 * US, t + 30 * US, 7, 3, 1);
	assert_int_equal(records_at(t + 1100 * MS), 1);
	assert_int_equal(got.list[0].h.start_ns, t + 2 * US);
	assert_launches(2, 0, 0);
	assert_int_equal(counts().lost, 0);
	assert_int_equal(counts().kept, 1);
}

/* The device's clock loses or gains 3 us a second against the CPU's, and was off by 6 us at the beginning: no launch is
 * lost, and the drift is removed as far as it shows. The first second waits for calls that could fit better. */
static void check_drift(int64_t begin_ns, int64_t ns_per_ms)
{
	uint64_t t = NOW + MS, stream = 0xaa;

	for (uint32_t i = 0; i < 6000; i++, t += MS) {
		uint64_t start = t + 2 * US + (uint64_t)(begin_ns + ns_per_ms * i); /* 2 us after its call, and done 2 us before the wait ends */

		call(t, t + 3 * US, stream, 1);
		kernel(start, start + 30 * US, 7, i + 1, 1);
		gpu_process_wait(process, &stream, t + 4 * US, t + 34 * US);
		if (i % 100 == 99) {
			got.n = 0;
			drain_at(t + MS / 2);
		}
	}
	assert_int_equal(got.n, 100);
	for (uint32_t i = 0; i < got.n; i++) {
		assert_true(got.list[i].h.start_ns + US >= got.list[i].launch_ns);
		assert_true(got.list[i].h.start_ns <= got.list[i].launch_ns + 5 * US);
		assert_int_equal(got.list[i].launch_ns, t - MS * (100 - i));
	}
	assert_launches(6000, 0, 0);
	assert_in_range(counts().residual_ns, 300, 10000);
}

TEST_WITH(test_drift_early, set_up, tear_down)
{
	check_drift(-6000, -3);
}

TEST_WITH(test_drift_late, set_up, tear_down)
{
	check_drift(2000, 3);
}

static void launched_kernel(uint64_t start, uint64_t end, uint32_t correlation, uint32_t thread, uint64_t launched)
{
	struct gpu_record r = agent_kernel(start, end, 7, correlation);

	r.kernel.grid[0] = 99; /* of no call */
	r.thread = thread;
	r.launched = launched;
	agent_write(&agent, &r);
}

/* Where a record names the thread and time of its launch, it belongs to the call around that time, whatever its shape and
 * order, or to none. */
TEST_WITH(test_by_thread, set_up, tear_down)
{
	uint64_t t = NOW + MS;

	call(t, t + 10 * US, 0xaa, 1);
	call(t + 20 * US, t + 30 * US, 0xaa, 1);
	launched_kernel(t + 100 * US, t + 110 * US, 9, TID, t + 25 * US);
	launched_kernel(t + 120 * US, t + 130 * US, 2, TID, t + 5 * US);
	launched_kernel(t + 140 * US, t + 150 * US, 3, TID, t + 30 * US);    /* a second one, at the very end of the call */
	launched_kernel(t + 160 * US, t + 170 * US, 4, TID, t + 15 * US);    /* between the calls */
	launched_kernel(t + 180 * US, t + 190 * US, 5, TID + 1, t + 5 * US); /* of a thread whose calls are not seen */
	launched_kernel(t + 200 * US, t + 210 * US, 6, TID, t + 2 * MS);     /* after it began, which is impossible */
	assert_int_equal(records_at(t + 1100 * MS), 6);
	assert_int_equal(got.list[0].launch_ns, t + 20 * US);
	assert_int_equal(got.list[0].launched_ns, t + 30 * US);
	assert_int_equal(got.list[0].launch_tid, TID);
	assert_int_equal(got.list[1].launch_ns, t);
	assert_int_equal(got.list[2].launch_ns, t + 20 * US);
	for (int i = 3; i < 6; i++) {
		assert_int_equal(got.list[i].launch_tid, 0);
		assert_int_equal(got.list[i].launch_ns, 0);
	}
	/* its launch time is known all the same */
	assert_int_equal(got.list[3].launched_ns, t + 15 * US);
	assert_int_equal(got.list[4].launched_ns, t + 5 * US);
	assert_int_equal(got.list[5].launched_ns, 0);
	/* one flow for each call */
	assert_int_equal(!!(got.list[0].h.flags & GPU_F_FIRST) + !!(got.list[2].h.flags & GPU_F_FIRST), 1);
	assert_launches(3, 3, 0);
}

/* A thread is preempted in its call, or inftrace before it has read the call: what was launched has ended by then and waits
 * for the call. So does what was launched after it, which fits the same call. */
TEST_WITH(test_late_call, set_up, tear_down)
{
	for (uint32_t by_thread = 0; by_thread < 2; by_thread++) {
		const uint64_t at = T + by_thread * 400 * MS;
		uint32_t n = got.n;

		for (uint32_t i = 0; i < 2; i++) {
			uint64_t start = at + (10 + 20 * i) * US;

			if (by_thread)
				launched_kernel(start, start + 5 * US, 3 + i, TID + i, start - 5 * US);
			else
				kernel(start, start + 5 * US, 7, 1 + i, 1);
		}
		assert_true(step(by_thread, at, at + 100 * US));
		call_of(TID + 1, at + 20 * US, at + 28 * US, 0xaa, 1);
		assert_int_equal(records_at(at + 300 * MS), n);
		assert_int_equal(got.steps, by_thread);
		call_of(TID, at, at + 301 * MS, 0xaa, 1);
		assert_int_equal(records_at(at + 302 * MS), n + 2);
		assert_int_equal(got.list[n].launch_ns, at);
		assert_int_equal(got.list[n + 1].launch_ns, at + 20 * US);
		assert_int_equal(got.steps, by_thread + 1);
		assert_parts(10 * US, 0, 88 * US, 2 * US, 0);
	}
	assert_launches(4, 0, 0);
	/* not for ever; and after a call went missing, not again */
	kernel(T + 800 * MS, T + 801 * MS, 7, 5, 1);
	assert_int_equal(records_at(T + 1700 * MS), 4);
	assert_int_equal(records_at(T + 1802 * MS), 5);
	kernel(T + 1810 * MS, T + 1811 * MS, 7, 6, 1);
	assert_int_equal(records_at(T + 1812 * MS), 6);
	assert_launches(4, 2, 0);
}

/* Kernels of a few shapes on a few streams, one after the other on each: every one finds its call, with the runtime's calls
 * around the driver's. */
TEST_WITH(test_streams, set_up, tear_down)
{
	enum { STREAMS = 4,
		N = 4000 };
	uint64_t at = NOW + MS, free_at[STREAMS] = { 0 }, flushed = NOW, launched[N];
	struct gpu_record waiting[N];
	unsigned int n_waiting = 0;

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

static void capture(uint64_t at, uint64_t stream, bool end)
{
	const struct launch l = {
		.start_ns = at, .end_ns = at, .stream = stream, .tid = TID, .kind = end ? LAUNCH_CAPTURE_END : LAUNCH_CAPTURE, .has_stream = true
	};

	gpu_process_call(process, &l);
}

/* Calls whose stream is captured launch nothing, in whatever order that becomes known; nor do others of that thread. */
TEST_WITH(test_captured, set_up, tear_down)
{
	for (int order = 0; order < 6; order++) {
		const uint64_t at = T + (uint64_t)order * 10 * MS;

		for (int i = 0; i < 3; i++) {
			/* each of the three is the first, the second and the last once or twice */
			switch ((order / 2 + i * (1 + order % 2)) % 3) {
			case 0:
				capture(at + 100 * US, 0xaa, false);
				break;
			case 1:
				capture(at + 200 * US, 0xaa, true);
				break;
			case 2:
				call(at + 90 * US, at + 95 * US, 0xaa, 3);
				call(at + 110 * US, at + 115 * US, 0xaa, 1);
				call(at + 120 * US, at + 125 * US, 0xbb, 1);
				call(at + 210 * US, at + 215 * US, 0xaa, 1);
			}
		}
		kernel(at + 100 * US, at + 110 * US, 7, 10 * (uint32_t)order + 1, 3);
		kernel(at + 220 * US, at + 300 * US, 7, 10 * (uint32_t)order + 2, 1);
		assert_int_equal(records_at(at + 9 * MS), 2 * (order + 1));
		assert_int_equal(got.list[2 * order].launch_ns, at + 90 * US);
		assert_int_equal(got.list[2 * order + 1].launch_ns, at + 210 * US);
	}
	assert_launches(12, 0, 0);
	/* a capture that has not ended launches nothing so far */
	capture(T + 100 * MS, 0xaa, false);
	call(T + 101 * MS, T + 102 * MS, 0xaa, 1);
	assert_int_equal(counts().pending, 0);
	capture(T + 101 * MS, 0xaa, true);
	assert_int_equal(counts().pending, 1);
}

/* An engine that waits elsewhere: its step returns while the GPU works on what it launched. */
TEST_WITH(test_after, set_up, tear_down)
{
	call(T + 10 * US, T + 20 * US, 0xaa, 1);
	call(T + 30 * US, T + 40 * US, 0xaa, 2);
	call(T + 50 * US, T + 60 * US, 0xaa, 3);
	call(T + 120 * US, T + 130 * US, 0xaa, 4); /* of the next step */
	assert_true(step(1, T, T + 100 * US));
	kernel(T + 30 * US, T + 110 * US, 7, 1, 1);
	kernel(T + 150 * US, T + 190 * US, 7, 2, 2);
	kernel(T + 190 * US, T + 250 * MS, 7, 3, 3);
	kernel(T + 250 * MS, T + 300 * MS, 7, 4, 4);
	assert_int_equal(records_at(T + 301 * MS), 4);
	assert_int_equal(got.steps, 0); /* its work ran a short while ago: more may come */
	assert_int_equal(steps_at(T + 500 * MS), 1);
	assert_parts(70 * US, 0, 20 * US, 10 * US, 0);
	assert_int_equal(got.step.after_ns, 10 * US + 40 * US + 250 * MS - 190 * US);
	/* nothing more came */
	assert_true(step(2, T + 310 * MS, T + 320 * MS));
	assert_int_equal(steps_at(T + 900 * MS), 2);
	assert_int_equal(got.step.after_ns, 0);
}

/* ---- devices of two processes ---- */

static struct gpu_process *other;
static struct fake_agent other_agent;

static int set_up_two(void **state)
{
	return set_up(state) || start_process(PID + 1, &other, &other_agent);
}

static int tear_down_two(void **state)
{
	agent_close(&other_agent);
	gpu_process_free(other);
	return tear_down(state);
}

static void drain_other(uint64_t ns)
{
	agent_flushed(&other_agent, ns);
	assert_false(gpu_process_drain(other, ns, on_record, NULL));
}

static void say(struct fake_agent *a, uint32_t own, const char *name, uint8_t uuid)
{
	struct gpu_record r = { .kind = GPU_RECORD_DEVICE, .device = own, .about = { .uuid = { 1, uuid }, .uuid_kind = GPU_UUID_DEVICE } };

	snprintf(r.about.name, sizeof(r.about.name), "%s", name);
	agent_write(a, &r);
}

static void run_on(struct fake_agent *a, uint32_t own, uint64_t start)
{
	struct gpu_record r = agent_kernel(start, start + US, 7, 1);

	r.device = own;
	agent_write(a, &r);
}

/* Each process has a device 0 of its own, and they share one; one device is described late, one never. */
TEST_WITH(test_visible, set_up_two, tear_down_two)
{
	static const uint32_t expected[] = { 0 /* A */, 1 /* B */, 2, 1 /* B */, 3 /* C */, 4 };

	run_on(&agent, 0, T); /* before the device is described */
	say(&agent, 0, "A", 10);
	say(&agent, 1, "B", 11);
	say(&other_agent, 0, "B", 11);
	say(&other_agent, 1, "C", 12);
	run_on(&agent, 1, T + 2 * US);
	run_on(&agent, 2, T + 4 * US);
	for (uint32_t own = 0; own < 3; own++)
		run_on(&other_agent, own, T + own * US);
	/* their launches are not seen, and no longer waited for */
	drain_at(T + 1100 * MS);
	drain_other(T + 1100 * MS);
	assert_int_equal(got.n, 6);
	for (int i = 0; i < 6; i++)
		assert_int_equal(got.list[i].device, expected[i]);
	assert_string_equal(gpu_info_device(info, 3)->name, "C");
	assert_null(gpu_info_device(info, 4));
	say(&other_agent, 2, "D", 13);
	drain_other(T + 1200 * MS);
	assert_string_equal(gpu_info_device(info, 4)->name, "D");
}

/* A step in which nothing ran belongs to a device of its own process, though another has the number. */
TEST_WITH(test_idle, set_up_two, tear_down_two)
{
	const struct rec_step r = { .h = { .kind = REC_STEP, .tgid = PID + 1, .tid = PID + 1, .start_ns = T, .dur_ns = 100 * US } };

	say(&agent, 0, "A", 10);
	say(&other_agent, 0, "B", 11);
	drain_at(T);
	assert_true(gpu_process_step(other, &r));
	drain_other(T + 300 * MS);
	assert_int_equal(got.steps, 1);
	assert_parts(0, 0, 100 * US, 0, 0);
	assert_int_equal(got.step.device, 1);
	assert_int_equal(got.step.n_devices, 1);
	assert_int_equal(got.step.devices[0].device, 1);
}

/* ---- which devices of several processes are the same, and their numbers and names ---- */

static struct gpu_devices devices;

static int set_up_devices(void **state)
{
	memset(&devices, 0, sizeof(devices));
	return 0;
}

/* Adds a device that a process calls `own`, with its own UUID for each number. */
static uint32_t add(unsigned char uuid, const char *pci, uint32_t own)
{
	struct gpu_device about = { .name = "A GPU", .uuid = { uuid }, .uuid_kind = GPU_UUID_DEVICE };
	uint32_t device = UINT32_MAX;

	snprintf(about.pci, sizeof(about.pci), "%s", pci);
	assert_true(gpu_devices_add(&devices, &about, own, false, &device));
	return device;
}

TEST_WITH(test_uuid, set_up_devices, NULL)
{
	assert_int_equal(add(1, "", 0), 0);
	assert_int_equal(add(2, "", 1), 1);
	assert_int_equal(add(2, "", 0), 1); /* another process does not see the first */
	assert_int_equal(add(3, "", 0), 2); /* its number is taken */
	assert_int_equal(add(4, "", 7), 7);
	assert_int_equal(add(3, "", 5), 2);
	assert_int_equal(devices.n_known, 4);
}

/* Devices with PCI addresses keep the machine's numbers, whatever a process sees. */
TEST_WITH(test_machine, set_up_devices, NULL)
{
	static const char *const entries[] = { "0000:1b:00.0", "0000:c1:00.0", "0001:02:00.0", "none" };
	char dir[] = "/tmp/inftrace-devices-XXXXXX", path[PATH_MAX];

	assert_non_null(mkdtemp(dir));
	for (int i = 0; i < 4; i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, entries[i]);
		assert_int_equal(mkdir(path, 0700), 0);
	}
	devices.machine_dir = dir;
	assert_int_equal(add(1, "0001:02:00.0", 0), 2);
	assert_int_equal(add(2, "0000:1B:00.0", 1), 0);
	assert_int_equal(add(3, "0000:C1:00.0", 0), 1);
	assert_string_equal(gpu_devices_get(&devices, 0)->pci, "0000:1b:00.0");
	assert_int_equal(add(4, "0000:c1:00.0", 0), 3); /* an instance of the same device */
	assert_int_equal(add(5, "0000:c2:00.0", 9), 9); /* it is not there */
	for (int i = 0; i < 4; i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, entries[i]);
		rmdir(path);
	}
	rmdir(dir);
	assert_int_equal(add(6, "0000:1c:00.0", 11), 11);
}

/* A device without a description may be another process's, unless numbers are the machine's. */
TEST_WITH(test_unknown, set_up_devices, NULL)
{
	const struct gpu_device about = { .name = "A GPU", .pci = "nonsense" };
	uint32_t device;

	assert_true(gpu_devices_add(&devices, NULL, 0, false, &device) && device == 0);
	assert_true(gpu_devices_add(&devices, NULL, 0, false, &device) && device == 1);
	assert_true(gpu_devices_add(&devices, NULL, 3, true, &device) && device == 3);
	assert_true(gpu_devices_add(&devices, NULL, 3, true, &device) && device == 3);
	assert_null(gpu_devices_get(&devices, 0));
	gpu_devices_set(&devices, 0, &about);
	assert_string_equal(gpu_devices_get(&devices, 0)->name, "A GPU");
	assert_string_equal(gpu_devices_get(&devices, 0)->pci, "");
	assert_int_equal(add(1, "", 0), 2);
	gpu_devices_set(&devices, 2, &about); /* the device is known */
	assert_string_equal(gpu_devices_get(&devices, 2)->uuid, "GPU-01000000-0000-0000-0000-000000000000");
	gpu_devices_set(&devices, 5, &about); /* no such device */
	assert_null(gpu_devices_get(&devices, 5));
	assert_null(gpu_devices_get(&devices, GPU_DEVICES_MAX));
	assert_int_equal(devices.n_known, 2);
}

TEST_WITH(test_full, set_up_devices, NULL)
{
	struct gpu_device about = { .uuid_kind = GPU_UUID_MIG + 1 };
	uint32_t device = 77;

	memset(about.name, '\x1b', sizeof(about.name)); /* a name without a NUL, too */
	assert_true(gpu_devices_add(&devices, &about, UINT32_MAX, true, &device) && device == 0);
	assert_int_equal(strlen(gpu_devices_get(&devices, 0)->name), GPU_DEVICE_NAME_MAX - 1);
	assert_int_equal(gpu_devices_get(&devices, 0)->name[0], '?');
	assert_string_equal(gpu_devices_get(&devices, 0)->uuid, "");
	for (unsigned char i = 1; i < GPU_DEVICES_MAX; i++)
		assert_int_equal(add(i, "", 0), i);
	device = 77;
	assert_false(gpu_devices_add(&devices, NULL, 0, false, &device));
	assert_int_equal(device, 77);
	assert_int_equal(add(5, "", 0), 5);
}

RUN_TESTS(NULL, NULL)
