/* SPDX-License-Identifier: BSD-2-Clause */
/* How a step is divided among GPU activities, against a method that looks at every nanosecond. */
#include "cases.h"
#include "gpu/info.h"
#include "gpu/process.h"
#include "unit.h"

/* Keeps the longest. */
static void keep_gap(struct gpu_gap *gaps, uint64_t from, uint64_t to)
{
	struct gpu_gap gap = { .start_ns = from, .dur_ns = to - from };

	for (int i = 0; i < GPU_GAPS; i++) {
		struct gpu_gap other = gaps[i];

		if (other.dur_ns >= gap.dur_ns)
			continue;
		gaps[i] = gap;
		gap = other;
	}
}

#define ALL UINT32_MAX

static void divide_slowly(const struct gpu_run *list, size_t n, uint32_t device, uint64_t start, uint64_t end, uint64_t ns[GPU_PART_MAX],
	struct gpu_gap gaps[GPU_GAPS])
{
	uint64_t idle = start;

	memset(gaps, 0, GPU_GAPS * sizeof(*gaps));
	memset(ns, 0, GPU_PART_MAX * sizeof(*ns));
	for (uint64_t at = start; at < end; at++) {
		bool kernels = false, collectives = false, copies = false, queued = false, unknown = false;

		for (size_t i = 0; i < n; i++) {
			const struct gpu_run *r = &list[i];
			/* work that has not run may be of any device */
			bool is_of = device == ALL || r->start_ns == UINT64_MAX || r->device == device;
			bool runs = is_of && r->start_ns != UINT64_MAX && at >= r->start_ns && at < r->end_ns;

			kernels |= runs && r->is_kernel && !r->is_collective;
			collectives |= runs && r->is_collective;
			copies |= runs && !r->is_kernel;
			if (!is_of || at >= r->start_ns || at < r->launched_ns)
				continue;
			queued |= r->launched_ns && r->start_ns != UINT64_MAX;
			unknown |= !r->launched_ns || r->start_ns == UINT64_MAX;
		}
		ns[kernels            ? GPU_PART_BUSY
			: collectives ? GPU_PART_COLLECTIVE
			: copies      ? GPU_PART_COPY
			: queued      ? GPU_PART_IDLE_WAIT
			: unknown     ? GPU_PART_UNKNOWN
				      : GPU_PART_IDLE_LAUNCH]++;
		if (!kernels && !collectives && !copies && !queued && !unknown)
			continue;
		keep_gap(gaps, idle, at);
		idle = at + 1;
	}
	keep_gap(gaps, idle, end);
}

/* Whether the thread's work, or its launch, ended the gap. */
static bool ends_gap(const struct gpu_run *list, size_t n, const struct gpu_gap *gap)
{
	uint64_t end = gap->start_ns + gap->dur_ns;

	for (size_t i = 0; i < n; i++) {
		const struct gpu_run *r = &list[i];

		if (r->launch_tid == gap->tid && (r->launched_ns == end || (r->start_ns == end && r->launched_ns)))
			return true;
	}
	return false;
}

/* Each device has what it has alone, and there are no others. */
static void assert_devices(const struct gpu_run *list, size_t n, uint64_t start, uint64_t end, const struct rec_gpu_step *r)
{
	uint32_t told = 0, kernels = 0, copies = 0;
	uint64_t ns[GPU_PART_MAX];
	struct gpu_gap gaps[GPU_GAPS];
	uint64_t after = 0;

	for (uint32_t device = 0; device < GPU_DEVICES_MAX; device++) {
		const struct gpu_step_device *d = &r->devices[told];
		bool used = false;

		for (size_t i = 0; i < n; i++)
			used |= list[i].start_ns != UINT64_MAX && list[i].device == device &&
				((list[i].start_ns < end && list[i].end_ns > start) || (list[i].launched_ns < end && list[i].end_ns > start));
		if (told >= r->n_devices || d->device != device) {
			assert_false(used);
			continue;
		}
		divide_slowly(list, n, device, start, end, ns, gaps);
		for (int i = 0; i < GPU_PART_MAX; i++)
			assert_int_equal(d->ns[i], ns[i]);
		kernels += d->kernels;
		copies += d->copies;
		after = d->after_ns > after ? d->after_ns : after;
		told++;
	}
	assert_int_equal(told, r->n_devices);
	assert_int_equal(kernels, r->kernels);
	assert_int_equal(copies, r->copies);
	assert_true(r->after_ns >= after);
}

TEST(test_partition)
{
	const unsigned int n_cases = cases(3000, 200);

	srand(1);
	for (unsigned int c = 0; c < n_cases; c++) {
		struct gpu_run list[12];
		size_t n = (size_t)rand() % 12;
		uint64_t ns[GPU_PART_MAX], sum = 0, start = 500, end = 500 + (uint64_t)rand() % 300;
		struct gpu_gap gaps[GPU_GAPS];
		struct rec_gpu_step r;

		for (size_t i = 0; i < n; i++) {
			uint64_t from = 400 + (uint64_t)rand() % 500;

			list[i] = (struct gpu_run){
				.start_ns = from,
				.end_ns = from + (uint64_t)rand() % 100,
				.launched_ns = rand() % 3 ? from - (uint64_t)rand() % 200 : 0,
				.device = (uint32_t)rand() % 3 * 7,
				.is_kernel = rand() % 2,
				.launch_tid = 1 + (uint32_t)i,
			};
			list[i].is_collective = list[i].is_kernel && rand() % 2;
			if (!(rand() % 10))
				list[i].start_ns = list[i].end_ns = UINT64_MAX;
		}
		gpu_partition(list, n, start, end, &r);
		divide_slowly(list, n, ALL, start, end, ns, gaps);
		assert_devices(list, n, start, end, &r);
		for (int i = 0; i < GPU_GAPS; i++) {
			assert_int_equal(r.gaps[i].start_ns, gaps[i].start_ns);
			assert_int_equal(r.gaps[i].dur_ns, gaps[i].dur_ns);
			if (r.gaps[i].tid)
				assert_true(ends_gap(list, n, &r.gaps[i]));
			else
				assert_true(!gaps[i].dur_ns || gaps[i].start_ns + gaps[i].dur_ns == end);
		}
		for (int i = 0; i < GPU_PART_MAX; i++) {
			assert_int_equal(r.ns[i], ns[i]);
			sum += r.ns[i];
		}
		assert_int_equal(sum, end - start);
	}
}

RUN_TESTS(NULL, NULL)
