// SPDX-License-Identifier: BSD-2-Clause
#include "gpu/partition.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/info.h"

/* At one instant the number of kernels and the like that are under way changes. */
struct edge {
	uint64_t ns;
	int8_t kernel, collective, copy, queued, unknown;
	uint32_t tid; /* of the launch */
};

static int compare_edges(const void *a, const void *b)
{
	const struct edge *x = a, *y = b;

	return (x->ns > y->ns) - (x->ns < y->ns);
}

static uint64_t clip(uint64_t ns, uint64_t from, uint64_t to)
{
	return ns < from ? from : ns > to ? to
					  : ns;
}

/* The device with the most time in kernels and copies of the step, those side by side twice. */
static uint32_t busiest(const struct gpu_run *list, size_t n, uint64_t start_ns, uint64_t end_ns)
{
	uint64_t busy[GPU_DEVICES_MAX] = { 0 };
	uint32_t best = 0;

	for (size_t i = 0; i < n; i++) {
		uint64_t until_ns = gpu_run_is_of(&list[i], start_ns, end_ns) ? UINT64_MAX : end_ns;

		if (list[i].start_ns != UINT64_MAX && list[i].device < GPU_DEVICES_MAX)
			busy[list[i].device] += clip(list[i].end_ns, start_ns, until_ns) - clip(list[i].start_ns, start_ns, until_ns);
	}
	for (uint32_t d = 1; d < GPU_DEVICES_MAX; d++) {
		if (busy[d] > busy[best])
			best = d;
	}
	return best;
}

static size_t add_edges(struct edge *e, const struct gpu_run *r, uint64_t start_ns, uint64_t end_ns)
{
	uint64_t from = clip(r->start_ns, start_ns, end_ns), to = clip(r->end_ns, start_ns, end_ns);
	bool is_known = r->launched_ns && r->start_ns != UINT64_MAX;
	int8_t collective = r->is_collective, kernel = r->is_kernel && !collective, copy = !r->is_kernel;
	/* when it is not known since when it waited, it may have been all the time */
	uint64_t queued = clip(r->launched_ns, start_ns, from);
	size_t n = 0;

	if (to > from) {
		e[n++] = (struct edge){ .ns = from, .kernel = kernel, .collective = collective, .copy = copy, .tid = r->launch_tid };
		e[n++] = (struct edge){ .ns = to, .kernel = (int8_t)-kernel, .collective = (int8_t)-collective, .copy = (int8_t)-copy };
	}
	if (from > queued) {
		e[n++] = (struct edge){ .ns = queued, .queued = is_known, .unknown = !is_known, .tid = r->launch_tid };
		e[n++] = (struct edge){ .ns = from, .queued = (int8_t)-is_known, .unknown = (int8_t) - !is_known };
	}
	return n;
}

/* Keeps it if it is one of the longest, behind those of the same length. */
static void add_gap(struct gpu_gap gaps[GPU_GAPS], uint64_t from_ns, uint64_t to_ns, uint32_t tid)
{
	int i = GPU_GAPS;

	for (; i && gaps[i - 1].dur_ns < to_ns - from_ns; i--) {
		if (i < GPU_GAPS)
			gaps[i] = gaps[i - 1];
	}
	if (i < GPU_GAPS && to_ns > from_ns)
		gaps[i] = (struct gpu_gap){ .start_ns = from_ns, .dur_ns = to_ns - from_ns, .tid = tid };
}

/* The parts between the edges, which are sorted. */
static void measure(const struct edge *e, size_t n, uint64_t start_ns, uint64_t end_ns, struct rec_gpu_step *ret)
{
	int64_t kernels = 0, collectives = 0, copies = 0, queued = 0, unknown = 0;
	uint64_t at = start_ns, idle_ns = start_ns; /* it has been idle since then, up to here */
	uint32_t tid = 0;                           /* of the last launch */

	for (size_t i = 0; i <= n; i++) {
		uint64_t next = i < n ? e[i].ns : end_ns;
		enum gpu_part part = kernels       ? GPU_PART_BUSY
				     : collectives ? GPU_PART_COLLECTIVE
				     : copies      ? GPU_PART_COPY
				     : queued      ? GPU_PART_IDLE_WAIT
				     : unknown     ? GPU_PART_UNKNOWN
						   : GPU_PART_IDLE_LAUNCH;

		ret->ns[part] += next - at;
		if (next > at && part != GPU_PART_IDLE_LAUNCH) {
			add_gap(ret->gaps, idle_ns, at, tid);
			idle_ns = next;
		}
		at = next;
		if (i == n)
			break;
		if (e[i].tid)
			tid = e[i].tid;
		kernels += e[i].kernel;
		collectives += e[i].collective;
		copies += e[i].copy;
		queued += e[i].queued;
		unknown += e[i].unknown;
	}
	add_gap(ret->gaps, idle_ns, end_ns, 0);
}

/* For how long something runs after the end that was launched before it. edges: room for them. */
static uint64_t measure_after(
	const struct gpu_run *list, size_t n, uint32_t device, uint64_t start_ns, uint64_t end_ns, struct edge *edges)
{
	uint64_t sum = 0, at = end_ns;
	int64_t running = 0;
	size_t n_edges = 0;

	for (size_t i = 0; i < n; i++) {
		const struct gpu_run *r = &list[i];

		if (r->device != device || r->end_ns <= end_ns || !gpu_run_is_of(r, start_ns, end_ns))
			continue;
		edges[n_edges++] = (struct edge){ .ns = clip(r->start_ns, end_ns, r->end_ns), .kernel = 1 };
		edges[n_edges++] = (struct edge){ .ns = r->end_ns, .kernel = -1 };
	}
	qsort(edges, n_edges, sizeof(*edges), compare_edges);
	for (size_t i = 0; i < n_edges; i++) {
		sum += running ? edges[i].ns - at : 0;
		at = edges[i].ns;
		running += edges[i].kernel;
	}
	return sum;
}

int gpu_partition(const struct gpu_run *list, size_t n, uint64_t start_ns, uint64_t end_ns, struct rec_gpu_step *ret)
{
	struct edge *edges = calloc(4 * n + 1, sizeof(*edges));
	uint32_t device = busiest(list, n, start_ns, end_ns);
	size_t n_edges = 0;

	if (!edges)
		return -ENOMEM;
	ret->device = device;
	ret->kernels = ret->copies = 0;
	memset(ret->ns, 0, sizeof(ret->ns));
	memset(ret->gaps, 0, sizeof(ret->gaps));
	for (size_t i = 0; i < n; i++) {
		const struct gpu_run *r = &list[i];
		bool within = r->start_ns < end_ns && r->end_ns > start_ns;

		if (r->start_ns != UINT64_MAX && r->device != device)
			continue;
		ret->kernels += within && r->is_kernel;
		ret->copies += within && !r->is_kernel;
		n_edges += add_edges(edges + n_edges, r, start_ns, end_ns);
	}
	qsort(edges, n_edges, sizeof(*edges), compare_edges);
	measure(edges, n_edges, start_ns, end_ns, ret);
	ret->after_ns = measure_after(list, n, device, start_ns, end_ns, edges);
	free(edges);
	return 0;
}
