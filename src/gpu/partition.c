// SPDX-License-Identifier: BSD-2-Clause
#include "gpu/partition.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/info.h"

#define ANY_DEVICE UINT32_MAX

/* At one instant the number of kernels and the like that are under way changes. */
struct edge {
	uint64_t ns;
	int8_t kernel, collective, copy, queued, unknown;
	uint32_t device; /* ANY_DEVICE: it may be each of them */
	uint32_t tid;    /* of the launch */
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

static bool is_within(const struct gpu_run *r, uint64_t start_ns, uint64_t end_ns)
{
	return r->start_ns < end_ns && r->end_ns > start_ns;
}

/* Sets the devices, by their numbers, and the one with the most time in kernels and copies of the step, those side by side twice. */
static void find_devices(const struct gpu_run *list, size_t n, uint64_t start_ns, uint64_t end_ns, struct rec_gpu_step *ret)
{
	uint64_t busy[GPU_DEVICES_MAX] = { 0 };
	bool used[GPU_DEVICES_MAX] = { false };
	uint32_t most = 0;

	for (size_t i = 0; i < n; i++) {
		const struct gpu_run *r = &list[i];
		bool is_of = gpu_run_is_of(r, start_ns, end_ns);
		uint64_t until_ns = is_of ? UINT64_MAX : end_ns;

		if (r->start_ns == UINT64_MAX || r->device >= GPU_DEVICES_MAX)
			continue;
		busy[r->device] += clip(r->end_ns, start_ns, until_ns) - clip(r->start_ns, start_ns, until_ns);
		used[r->device] |= is_of || is_within(r, start_ns, end_ns) || (r->launched_ns < end_ns && r->start_ns > start_ns);
	}
	ret->n_devices = 0;
	for (uint32_t d = 0; d < GPU_DEVICES_MAX; d++) {
		if (busy[d] > busy[most] || (used[d] && !used[most]))
			most = d;
		if (used[d] && ret->n_devices++ < GPU_STEP_DEVICES)
			ret->devices[ret->n_devices - 1].device = d;
	}
	if (busy[most] || used[most])
		ret->device = most;
	if (!ret->n_devices) {
		ret->n_devices = 1;
		ret->devices[0].device = ret->device;
	}
}

static size_t add_edges(struct edge *e, const struct gpu_run *r, uint64_t start_ns, uint64_t end_ns)
{
	uint64_t from = clip(r->start_ns, start_ns, end_ns), to = clip(r->end_ns, start_ns, end_ns);
	bool is_known = r->launched_ns && r->start_ns != UINT64_MAX;
	int8_t collective = r->is_collective, kernel = r->is_kernel && !collective, copy = !r->is_kernel;
	/* when it is not known since when it waited, it may have been all the time */
	uint64_t queued = clip(r->launched_ns, start_ns, from);
	uint32_t device = r->start_ns == UINT64_MAX ? ANY_DEVICE : r->device;
	size_t n = 0;

	if (to > from) {
		e[n++] = (struct edge){
			.ns = from, .kernel = kernel, .collective = collective, .copy = copy, .device = device, .tid = r->launch_tid
		};
		e[n++] = (struct edge){
			.ns = to, .kernel = (int8_t)-kernel, .collective = (int8_t)-collective, .copy = (int8_t)-copy, .device = device
		};
	}
	if (from > queued) {
		e[n++] = (struct edge){ .ns = queued, .queued = is_known, .unknown = !is_known, .device = device, .tid = r->launch_tid };
		e[n++] = (struct edge){ .ns = from, .queued = (int8_t)-is_known, .unknown = (int8_t) - !is_known, .device = device };
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

static bool is_of_device(uint32_t device, const struct edge *e)
{
	return device == ANY_DEVICE || e->device == ANY_DEVICE || e->device == device;
}

/* The parts between the edges of a device, or of all together. The edges are sorted. gaps: NULL: they are not wanted. */
static void measure(const struct edge *e, size_t n, uint32_t device, uint64_t start_ns, uint64_t end_ns, uint64_t ret_ns[GPU_PART_MAX],
	struct gpu_gap *gaps)
{
	int64_t kernels = 0, collectives = 0, copies = 0, queued = 0, unknown = 0;
	uint64_t at = start_ns, idle_ns = start_ns; /* it has been idle since then, up to here */
	uint32_t tid = 0;                           /* of the last launch */

	memset(ret_ns, 0, GPU_PART_MAX * sizeof(*ret_ns));
	for (size_t i = 0; i <= n; i++) {
		uint64_t next = i < n ? e[i].ns : end_ns;
		enum gpu_part part = kernels       ? GPU_PART_BUSY
				     : collectives ? GPU_PART_COLLECTIVE
				     : copies      ? GPU_PART_COPY
				     : queued      ? GPU_PART_IDLE_WAIT
				     : unknown     ? GPU_PART_UNKNOWN
						   : GPU_PART_IDLE_LAUNCH;

		if (i < n && !is_of_device(device, &e[i]))
			continue;
		ret_ns[part] += next - at;
		if (gaps && next > at && part != GPU_PART_IDLE_LAUNCH) {
			add_gap(gaps, idle_ns, at, tid);
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
	if (gaps)
		add_gap(gaps, idle_ns, end_ns, 0);
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

		if ((device != ANY_DEVICE && r->device != device) || r->end_ns <= end_ns || !gpu_run_is_of(r, start_ns, end_ns))
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

static void count(const struct gpu_run *list, size_t n, uint64_t start_ns, uint64_t end_ns, uint32_t device, uint32_t *ret_kernels,
	uint32_t *ret_copies)
{
	*ret_kernels = *ret_copies = 0;
	for (size_t i = 0; i < n; i++) {
		if (!is_within(&list[i], start_ns, end_ns) || (device != ANY_DEVICE && list[i].device != device))
			continue;
		*ret_kernels += list[i].is_kernel;
		*ret_copies += !list[i].is_kernel;
	}
}

int gpu_partition(const struct gpu_run *list, size_t n, uint64_t start_ns, uint64_t end_ns, struct rec_gpu_step *ret)
{
	struct edge *edges = calloc(4 * n + 1, sizeof(*edges)), *after = calloc(2 * n + 1, sizeof(*after));
	size_t n_edges = 0;

	if (!edges || !after) {
		free(edges);
		free(after);
		return -ENOMEM;
	}
	memset(ret->gaps, 0, sizeof(ret->gaps));
	memset(ret->devices, 0, sizeof(ret->devices));
	find_devices(list, n, start_ns, end_ns, ret);
	for (size_t i = 0; i < n; i++)
		n_edges += add_edges(edges + n_edges, &list[i], start_ns, end_ns);
	qsort(edges, n_edges, sizeof(*edges), compare_edges);
	measure(edges, n_edges, ANY_DEVICE, start_ns, end_ns, ret->ns, ret->gaps);
	count(list, n, start_ns, end_ns, ANY_DEVICE, &ret->kernels, &ret->copies);
	ret->after_ns = measure_after(list, n, ANY_DEVICE, start_ns, end_ns, after);
	for (uint32_t i = 0; i < ret->n_devices && i < GPU_STEP_DEVICES; i++) {
		struct gpu_step_device *d = &ret->devices[i];

		measure(edges, n_edges, d->device, start_ns, end_ns, d->ns, NULL);
		count(list, n, start_ns, end_ns, d->device, &d->kernels, &d->copies);
		d->after_ns = measure_after(list, n, d->device, start_ns, end_ns, after);
	}
	free(edges);
	free(after);
	return 0;
}
