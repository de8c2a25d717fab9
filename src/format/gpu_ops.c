// SPDX-License-Identifier: BSD-2-Clause
#include "format/gpu_ops.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/info.h"
#include "sink/process_list.h"
#include "util/clock.h"
#include "util/list.h"

#define LATE_NS (75 * NSEC_PER_SEC) /* by then a kernel's step and launching operator are known, in most cases */
#define DEVICES_MAX 256             /* of all processes */

struct gpu_op_span {
	uint64_t start_ns, end_ns;
	uint64_t reach_ns;  /* the latest end of this span and all before it */
	uint64_t launch_ns; /* of a kernel; 0: unknown */
	uint32_t of;        /* number of the operator; of steps and kernels: their process */
	uint32_t launch_tid, device;
	uint32_t op; /* operator in which it was captured */
};

/* Sorted by their begin. */
struct gpu_op_spans {
	struct gpu_op_span *list;
	size_t n, cap;
};

struct gpu_op_thread {
	struct thread_entry entry;
	struct gpu_op_spans calls;
};

/* Up to when a device's time has been given to kernels. */
struct gpu_op_device {
	uint32_t tgid, device;
	uint64_t until_ns;
};

struct gpu_ops {
	struct thread_map threads;
	size_t n_calls;
	struct gpu_op_spans kernels, steps;
	struct gpu_op_device devices[DEVICES_MAX];
	size_t n_devices;
	uint64_t latest_ns; /* of all kernels, the latest end */
	uint64_t from_ns;   /* for steps that began before it, some kernels are gone */
};

struct gpu_ops *gpu_ops_new(void)
{
	struct gpu_ops *g = xcalloc(1, sizeof(*g));

	g->threads.size = sizeof(struct gpu_op_thread);
	return g;
}

static void thread_free_calls(void *thread)
{
	free(((struct gpu_op_thread *)thread)->calls.list);
}

void gpu_ops_free(struct gpu_ops *g)
{
	if (!g)
		return;
	thread_map_clear(&g->threads, thread_free_calls);
	free(g->kernels.list);
	free(g->steps.list);
	free(g);
}

/* ---- spans ---- */

static void spans_insert(struct gpu_op_spans *s, const struct gpu_op_span *new)
{
	size_t i = s->n;

	list_push(s->list, s->n, s->cap);
	/* spans come ordered by end, or nearly by begin: the place is near the end */
	for (; i && s->list[i - 1].start_ns > new->start_ns; i--)
		s->list[i] = s->list[i - 1];
	s->list[i] = *new;
	for (; i < s->n; i++) {
		uint64_t reach_ns = i ? s->list[i - 1].reach_ns : 0;

		s->list[i].reach_ns = s->list[i].end_ns > reach_ns ? s->list[i].end_ns : reach_ns;
	}
}

static void spans_drop(struct gpu_op_spans *s, size_t n)
{
	s->n -= n;
	if (n)
		memmove(s->list, s->list + n, s->n * sizeof(*s->list));
}

/* Returns how many begin before ns. */
static size_t spans_before(const struct gpu_op_spans *s, uint64_t ns)
{
	return bisect(s->n, k, s->list[k].start_ns < ns);
}

/* Returns the first of those before `end` that may end after ns. */
static size_t spans_reaching(const struct gpu_op_spans *s, size_t end, uint64_t ns)
{
	while (end && s->list[end - 1].reach_ns > ns)
		end--;
	return end;
}

/* ---- operators ---- */

static void gpu_ops_drop_calls(struct gpu_ops *g)
{
	g->n_calls = 0;
	for (struct gpu_op_thread *t = NULL; (t = thread_map_next(&g->threads, t));) {
		spans_drop(&t->calls, t->calls.n - t->calls.n / 2);
		g->n_calls += t->calls.n;
	}
}

void gpu_ops_call(struct gpu_ops *g, const struct rec_hdr *h, uint32_t op)
{
	struct gpu_op_thread *t = h->dur_ns ? thread_map_get(&g->threads, h->tid) : NULL; /* nothing is launched within an instant */

	if (!t)
		return;
	if (g->n_calls == GPU_OPS_CALLS_MAX)
		gpu_ops_drop_calls(g);
	g->n_calls++;
	spans_insert(&t->calls, &(struct gpu_op_span){ .start_ns = h->start_ns, .end_ns = h->start_ns + h->dur_ns, .of = op });
}

/* Calls of one thread are nested or apart: the innermost is the one that began last. */
static uint32_t kernel_find_op(const struct gpu_ops *g, const struct gpu_op_span *kernel)
{
	const struct gpu_op_thread *t = kernel->launch_tid ? thread_map_find(&g->threads, kernel->launch_tid) : NULL;

	if (kernel->op != GPU_OPS_NONE)
		return kernel->op;
	for (size_t i = t ? spans_before(&t->calls, kernel->launch_ns + 1) : 0; i > 0; i--) {
		const struct gpu_op_span *call = &t->calls.list[i - 1];

		if (call->reach_ns < kernel->launch_ns)
			break;
		if (call->end_ns >= kernel->launch_ns)
			return call->of;
	}
	return GPU_OPS_NONE;
}

/* ---- steps ---- */

void gpu_ops_step(struct gpu_ops *g, const struct rec_hdr *h)
{
	if (g->steps.n == GPU_OPS_STEPS_MAX)
		spans_drop(&g->steps, GPU_OPS_STEPS_MAX / 2);
	spans_insert(&g->steps, &(struct gpu_op_span){ .start_ns = h->start_ns, .end_ns = h->start_ns + h->dur_ns, .of = h->tgid });
}

static uint64_t outside_steps_ns(const struct gpu_ops *g, uint32_t tgid, uint64_t from_ns, uint64_t to_ns)
{
	size_t end = spans_before(&g->steps, to_ns);
	uint64_t ns = 0;

	for (size_t i = spans_reaching(&g->steps, end, from_ns); i < end && from_ns < to_ns; i++) {
		const struct gpu_op_span *s = &g->steps.list[i];

		if (s->of != tgid || s->end_ns <= from_ns)
			continue;
		if (s->start_ns > from_ns)
			ns += s->start_ns - from_ns;
		from_ns = s->end_ns;
	}
	return from_ns < to_ns ? ns + to_ns - from_ns : ns;
}

/* ---- kernels ---- */

void gpu_ops_divide(const struct gpu_ops *g, const struct rec_hdr *step, gpu_op_cb cb, void *arg)
{
	uint64_t start_ns = step->start_ns, end_ns = start_ns + step->dur_ns, until_ns[GPU_DEVICES_MAX] = { 0 };
	size_t end = start_ns < g->from_ns ? 0 : spans_before(&g->kernels, end_ns);

	for (size_t i = spans_reaching(&g->kernels, end, start_ns); i < end; i++) {
		const struct gpu_op_span *k = &g->kernels.list[i];
		uint64_t from_ns = k->start_ns > start_ns ? k->start_ns : start_ns, to_ns = k->end_ns < end_ns ? k->end_ns : end_ns;

		if (k->of != step->tgid)
			continue;
		if (from_ns < until_ns[k->device])
			from_ns = until_ns[k->device];
		if (from_ns >= to_ns)
			continue;
		until_ns[k->device] = to_ns;
		cb(&(struct gpu_op_time){ .tgid = k->of, .op = kernel_find_op(g, k), .ns = to_ns - from_ns }, arg);
	}
}

static struct gpu_op_device *gpu_ops_get_device(struct gpu_ops *g, uint32_t tgid, uint32_t device)
{
	struct gpu_op_device *d = g->devices, *idle = d;

	for (size_t i = 0; i < g->n_devices; i++) {
		if (d[i].tgid == tgid && d[i].device == device)
			return &d[i];
		if (d[i].until_ns < idle->until_ns)
			idle = &d[i];
	}
	if (g->n_devices < DEVICES_MAX)
		idle = &d[g->n_devices++];
	*idle = (struct gpu_op_device){ .tgid = tgid, .device = device };
	return idle;
}

static void gpu_ops_take_kernels(struct gpu_ops *g, size_t n, gpu_op_cb cb, void *arg)
{
	for (size_t i = 0; i < n; i++) {
		const struct gpu_op_span *k = &g->kernels.list[i];
		struct gpu_op_device *d = gpu_ops_get_device(g, k->of, k->device);
		uint64_t from_ns = k->start_ns > d->until_ns ? k->start_ns : d->until_ns;

		if (k->end_ns > g->from_ns)
			g->from_ns = k->end_ns;
		if (from_ns >= k->end_ns)
			continue;
		d->until_ns = k->end_ns;
		cb(&(struct gpu_op_time){ .tgid = k->of,
			   .op = kernel_find_op(g, k),
			   .ns = k->end_ns - from_ns,
			   .outside_ns = outside_steps_ns(g, k->of, from_ns, k->end_ns) },
			arg);
	}
	spans_drop(&g->kernels, n);
	/* a step that may still be divided began later than what was taken */
	spans_drop(&g->steps, g->kernels.n ? spans_reaching(&g->steps, g->steps.n, g->kernels.list[0].start_ns) : 0);
}

void gpu_ops_kernel(struct gpu_ops *g, const struct rec_gpu *r, uint32_t op, gpu_op_cb cb, void *arg)
{
	const struct gpu_op_span s = {
		.start_ns = r->h.start_ns,
		.end_ns = r->h.start_ns + r->h.dur_ns,
		.launch_ns = r->launch_ns,
		.of = r->h.tgid,
		.launch_tid = r->launch_tid,
		.device = r->device,
		.op = op,
	};

	if (r->h.id != GPU_KERNEL || r->device >= GPU_DEVICES_MAX)
		return;
	if (g->kernels.n == GPU_OPS_KERNELS_MAX)
		gpu_ops_take_kernels(g, GPU_OPS_KERNELS_MAX / 2, cb, arg);
	spans_insert(&g->kernels, &s);
	if (s.end_ns > g->latest_ns)
		g->latest_ns = s.end_ns;
}

void gpu_ops_take(struct gpu_ops *g, bool all, gpu_op_cb cb, void *arg)
{
	uint64_t before_ns = all ? UINT64_MAX : g->latest_ns > LATE_NS ? g->latest_ns - LATE_NS
								       : 0;

	gpu_ops_take_kernels(g, spans_before(&g->kernels, before_ns), cb, arg);
}
