// SPDX-License-Identifier: BSD-2-Clause
#include "gpu/partition.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/info.h"

/* At one instant the number of kernels and the like that are under way changes. */
struct edge {
	uint64_t ns;
	int8_t kernel, copy, queued, unknown;
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

/* The device with the most time in kernels and copies, those side by side twice. */
static uint32_t busiest(const struct gpu_run *list, size_t n, uint64_t start_ns, uint64_t end_ns)
{
	uint64_t busy[GPU_DEVICES_MAX] = { 0 };
	uint32_t best = 0;

	for (size_t i = 0; i < n; i++) {
		if (list[i].start_ns != UINT64_MAX && list[i].device < GPU_DEVICES_MAX)
			busy[list[i].device] += clip(list[i].end_ns, start_ns, end_ns) - clip(list[i].start_ns, start_ns, end_ns);
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
	int8_t kernel = r->is_kernel != 0, copy = !kernel;
	/* when it is not known since when it waited, it may have been all the time */
	uint64_t queued = clip(r->launched_ns, start_ns, from);
	size_t n = 0;

	if (to > from) {
		e[n++] = (struct edge){ .ns = from, .kernel = kernel, .copy = copy };
		e[n++] = (struct edge){ .ns = to, .kernel = (int8_t)-kernel, .copy = (int8_t)-copy };
	}
	if (from > queued) {
		e[n++] = (struct edge){ .ns = queued, .queued = is_known, .unknown = !is_known };
		e[n++] = (struct edge){ .ns = from, .queued = (int8_t)-is_known, .unknown = (int8_t) - !is_known };
	}
	return n;
}

/* The parts between the edges, which are sorted. */
static void measure(const struct edge *e, size_t n, uint64_t start_ns, uint64_t end_ns, uint64_t ns[GPU_PART_MAX])
{
	int64_t kernels = 0, copies = 0, queued = 0, unknown = 0;
	uint64_t at = start_ns;

	for (size_t i = 0; i <= n; i++) {
		uint64_t next = i < n ? e[i].ns : end_ns;
		enum gpu_part part = kernels   ? GPU_PART_BUSY
				     : copies  ? GPU_PART_COPY
				     : queued  ? GPU_PART_IDLE_WAIT
				     : unknown ? GPU_PART_UNKNOWN
					       : GPU_PART_IDLE_LAUNCH;

		ns[part] += next - at;
		at = next;
		if (i == n)
			break;
		kernels += e[i].kernel;
		copies += e[i].copy;
		queued += e[i].queued;
		unknown += e[i].unknown;
	}
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
	measure(edges, n_edges, start_ns, end_ns, ret->ns);
	free(edges);
	return 0;
}
