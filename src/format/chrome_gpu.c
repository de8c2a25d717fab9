// SPDX-License-Identifier: BSD-2-Clause
/*
 * Chrome trace: GPU activity. A process per device and a track per stream, with the names, categories and arguments of
 * PyTorch's profiler (Kineto), so that tools for its traces read these, too.
 */
#include <stdlib.h>

#include "format/chrome.h"
#include "format/flows.h"
#include "util/bytes.h"
#include "util/clock.h"

static void chrome_name_gpu(struct chrome_sink *c, uint32_t device)
{
	char name[GPU_LABEL_MAX];

	if (bit_is_set(&c->gpus_named, device))
		return;
	bit_set(&c->gpus_named, device);
	chrome_name_process(c, PID_GPU + device, gpu_label(c->rec.gpu, device, name), PID_GPU + device);
}

static void chrome_name_gpu_track(struct chrome_sink *c, uint32_t track, const struct gpu_track *t)
{
	chrome_name_gpu(c, t->device);
	if (bit_is_set(c->gpu_tracks_named, track))
		return;
	bit_set(c->gpu_tracks_named, track);
	chrome_name_track(c, PID_GPU + t->device, TID_GPU + track, t->name, gpu_track_is_steps(t) ? -1 : (int64_t)track);
}

static char *fmt_dimensions(char *p, const char *name, const uint32_t v[3])
{
	p = fmt_string(fmt_lit(p, ","), name);
	p = fmt_u32(fmt_lit(p, ":["), v[0]);
	p = fmt_u32(fmt_lit(p, ","), v[1]);
	p = fmt_u32(fmt_lit(p, ","), v[2]);
	return fmt_lit(p, "]");
}

static char *fmt_kernel(const struct chrome_sink *c, char *p, const struct rec_gpu *r)
{
	const struct gpu_kernel_name *k = gpu_info_kernel(c->rec.gpu, r->name);

	p = fmt_dimensions(p, "grid", r->grid);
	p = fmt_dimensions(p, "block", r->block);
	p = fmt_u32(fmt_lit(p, ",\"shared memory\":"), r->shared);
	if (r->registers)
		p = fmt_u32(fmt_lit(p, ",\"registers per thread\":"), r->registers);
	if (strcmp(k->full, k->brief))
		p = fmt_string(fmt_lit(p, ",\"kernel\":"), k->full);
	return p;
}

static char *fmt_copy(char *p, const struct rec_gpu *r)
{
	uint64_t mb = gpu_megabytes_per_s(r);

	p = fmt_u64(fmt_lit(p, ",\"bytes\":"), r->bytes <= INT64_MAX ? r->bytes : INT64_MAX);
	if (mb) {
		p = fmt_u64(fmt_lit(p, ",\"memory bandwidth (GB/s)\":"), mb / 1000);
		*p++ = '.';
		*p++ = (char)('0' + mb / 100 % 10);
		*p++ = (char)('0' + mb / 10 % 10);
		*p++ = (char)('0' + mb % 10);
	}
	return r->h.id == GPU_COPY ? fmt_string(fmt_lit(p, ",\"kind\":"), gpu_copy_name(r->copy_kind)) : p;
}

static void add_launch_flow(struct chrome_sink *c, const struct rec_gpu *r)
{
	struct flow a = {
		.waker_tgid = r->h.tgid,
		.waker_tid = r->launch_tid,
		.tgid = PID_GPU + r->device,
		.tid = TID_GPU + r->track,
		.track = TID_GPU + r->track,
		.slice_ns = r->launch_ns,
		.wake_ns = r->launch_ns,
		.end_ns = r->h.start_ns,
		.is_launch = true,
	};

	if (gpu_has_flow(r, &c->rec) && flows_add(c->flows, &a))
		chrome_flow(c, &a);
}

/* ---- in Kineto's form: kernels have the number of the operator that launched them ---- */

#define LAUNCHES (1u << 16)
#define LAUNCH_PLACES 8 /* of each: the oldest there makes room for it */
#define LATEST 256 /* launches and operators: their records may come in another order than they ended */
/* A kernel often ends before its operator does: it is held until then, or this long, or until more are held. */
#define HELD_NS UINT64_C(2000000000)
#define HELD_MAX 8192
#define SETTLED 2 /* calls of settled() after which operators within a known one are known, too */

struct launched_op {
	uint64_t start_ns, end_ns, number;
	uint32_t tid;
};

struct chrome_launch {
	uint64_t start_ns;
	uint64_t op, op_start_ns; /* the innermost operator around it that has ended; 0: none */
	uint32_t tid;
};

struct chrome_held {
	struct rec_gpu r;
	uint64_t since;       /* CLOCK_BOOTTIME */
	unsigned int settled; /* since its operator is known */
};

struct kineto_launches {
	struct chrome_launch all[LAUNCHES / LAUNCH_PLACES][LAUNCH_PLACES]; /* by their threads and times */
	struct chrome_launch *latest[LATEST];
	struct launched_op ops[LATEST];
	unsigned int n_latest, n_ops;
	struct chrome_held held[HELD_MAX]; /* the oldest at `first` */
	unsigned int first, n_held;
};

static struct chrome_launch *launch_places(struct kineto_launches *l, uint32_t tid, uint64_t start_ns)
{
	return l->all[((start_ns ^ (uint64_t)tid << 40) * 0x9e3779b97f4a7c15ull >> 32) % (LAUNCHES / LAUNCH_PLACES)];
}

static struct kineto_launches *launches_get(struct chrome_sink *c)
{
	if (!c->launches)
		c->launches = xcalloc(1, sizeof(*c->launches)); /* pages that are never touched are never allocated */
	return c->launches;
}

static void launch_set_op(struct chrome_launch *l, const struct launched_op *op)
{
	if (l->tid != op->tid || l->start_ns < op->start_ns || l->start_ns >= op->end_ns || (l->op && op->start_ns <= l->op_start_ns))
		return;
	l->op = op->number;
	l->op_start_ns = op->start_ns;
}

void chrome_kineto_launch(struct chrome_sink *c, const struct rec_hdr *h)
{
	struct kineto_launches *l;
	struct chrome_launch *places, *at;

	if (!c->rec.kineto)
		return;
	l = launches_get(c);
	at = places = launch_places(l, h->tid, h->start_ns);
	for (unsigned int i = 1; i < LAUNCH_PLACES; i++) {
		if (places[i].start_ns < at->start_ns)
			at = &places[i];
	}
	*at = (struct chrome_launch){ .start_ns = h->start_ns, .tid = h->tid };
	l->latest[l->n_latest++ % LATEST] = at;
	for (unsigned int i = 0; i < LATEST; i++)
		launch_set_op(at, &l->ops[i]);
}

void chrome_kineto_op(struct chrome_sink *c, const struct rec_hdr *h, uint64_t number)
{
	struct kineto_launches *l = launches_get(c);
	struct launched_op *op = &l->ops[l->n_ops++ % LATEST];

	*op = (struct launched_op){ h->start_ns, h->start_ns + h->dur_ns, number, h->tid };
	for (unsigned int i = 0; i < LATEST && l->latest[i]; i++)
		launch_set_op(l->latest[i], op);
}

/* The launch of a kernel or a copy; NULL: it was not seen. */
static const struct chrome_launch *find_launch(struct chrome_sink *c, const struct rec_gpu *r)
{
	const struct chrome_launch *at = c->launches ? launch_places(c->launches, r->launch_tid, r->launch_ns) : NULL;

	for (unsigned int i = 0; at && i < LAUNCH_PLACES; i++) {
		if (at[i].tid == r->launch_tid && at[i].start_ns == r->launch_ns)
			return &at[i];
	}
	return NULL;
}

static char *fmt_launched_by(struct chrome_sink *c, char *p, const struct rec_gpu *r)
{
	const struct chrome_launch *at = find_launch(c, r);

	return at && at->op ? fmt_u64(fmt_lit(p, ",\"External id\":"), at->op) : p;
}

/* Kineto's launch also has the kernel's correlation number. The slice of the driver's function is written before that is
 * known, so the runtime call that PyTorch makes gets a slice of its own. */
static void kineto_launch(struct chrome_sink *c, const struct rec_gpu *r)
{
	static const char *const names[GPU_ACTIVITIES] = { "cudaLaunchKernel", "cudaMemcpyAsync", "cudaMemsetAsync" };
	struct rec_hdr h = r->h;
	char *p;

	if (!c->rec.kineto || !gpu_has_flow(r, &c->rec))
		return;
	h.tid = r->launch_tid;
	h.start_ns = r->launch_ns;
	h.dur_ns = r->launched_ns - r->launch_ns;
	chrome_place(c, &h);
	p = fmt_string(span_begin(c, &h, h.tgid, h.tid), r->graph ? "cudaGraphLaunch" : names[h.id]);
	p = fmt_u32(fmt_lit(p, ",\"cat\":\"cuda_runtime\",\"args\":{\"correlation\":"), r->correlation);
	event_end(c, fmt_lit(fmt_launched_by(c, p, r), "}"));
}

static void write_activity(struct chrome_sink *c, const struct rec_gpu *r)
{
	const struct gpu_track *t = gpu_info_get_track(c->rec.gpu, r->track);
	const char *op = gpu_info_operator_name(c->rec.gpu, r->captured_in);
	char *p;

	if (!t || t->device != r->device || r->h.id >= GPU_ACTIVITIES)
		return;
	chrome_name_gpu_track(c, r->track, t);
	p = span_begin(c, &r->h, PID_GPU + r->device, TID_GPU + r->track);
	p = fmt_string(p, gpu_name(c->rec.gpu, r));
	p = fmt_string(fmt_lit(p, ",\"cat\":"), gpu_category(r));
	p = fmt_u32(fmt_lit(p, ",\"args\":{\"device\":"), r->device);
	p = fmt_u32(fmt_lit(p, ",\"context\":"), r->context);
	p = fmt_u32(fmt_lit(p, ",\"stream\":"), r->stream);
	p = fmt_launched_by(c, fmt_u32(fmt_lit(p, ",\"correlation\":"), r->correlation), r);
	p = fmt_u32(fmt_lit(p, ",\"pid\":"), r->h.tgid);
	p = r->h.id == GPU_KERNEL ? fmt_kernel(c, p, r) : fmt_copy(p, r);
	if (r->graph)
		p = fmt_u32(fmt_lit(p, ",\"graph id\":"), r->graph);
	if (r->graph_node && r->graph_node <= INT64_MAX)
		p = fmt_u64(fmt_lit(p, ",\"graph node id\":"), r->graph_node);
	if (r->graph_position)
		p = fmt_u32(fmt_lit(p, ",\"graph position\":"), r->graph_position);
	if (op)
		p = fmt_string(fmt_lit(p, ",\"captured in\":"), op);
	if (r->launch_tid && r->h.start_ns >= r->launched_ns)
		p = fmt_us(fmt_lit(p, ",\"queued_us\":"), r->h.start_ns - r->launched_ns);
	*p++ = '}';
	event_end(c, p);
	kineto_launch(c, r);
	add_launch_flow(c, r);
}

/* Whether the operator that launched it is known, or will not be. */
static bool held_activity_is_due(struct chrome_sink *c, struct chrome_held *h, uint64_t now)
{
	const struct chrome_launch *at = find_launch(c, &h->r);

	return (at && at->op && h->settled++ >= SETTLED) || now - h->since >= HELD_NS;
}

void chrome_kineto_held(struct chrome_sink *c, bool all)
{
	struct kineto_launches *l = c->launches;
	unsigned int n = l ? l->n_held : 0, left = 0;
	uint64_t now = n ? clock_boot_ns() : 0;

	for (unsigned int i = 0; i < n; i++) {
		struct chrome_held *h = &l->held[(l->first + i) % HELD_MAX];

		if (all || held_activity_is_due(c, h, now))
			write_activity(c, &h->r);
		else
			l->held[(l->first + left++) % HELD_MAX] = *h;
	}
	if (l)
		l->n_held = left;
}

void chrome_gpu(struct chrome_sink *c, const struct rec_gpu *r)
{
	struct kineto_launches *l;
	struct chrome_held *h;

	if (!c->rec.kineto || !r->launch_tid) {
		write_activity(c, r);
		return;
	}
	l = launches_get(c);
	h = &l->held[(l->first + l->n_held) % HELD_MAX];
	if (l->n_held++ == HELD_MAX) { /* h is the oldest */
		write_activity(c, &h->r);
		l->first = (l->first + 1) % HELD_MAX;
		l->n_held = HELD_MAX;
	}
	*h = (struct chrome_held){ .r = *r, .since = clock_boot_ns() };
}

static void chrome_add_gpu_step(struct chrome_sink *c, const struct rec_gpu_step *r, const struct gpu_step_device *d)
{
	const struct gpu_track *t = gpu_info_get_track(c->rec.gpu, d->track);
	struct drawn drawn;

	if (!t || t->device != d->device)
		return;
	chrome_name_gpu_track(c, d->track, t);
	drawn_gpu_step(&drawn, r, d);
	chrome_span(c, &r->h, PID_GPU + d->device, TID_GPU + d->track, &drawn);
}

void chrome_gpu_step(struct chrome_sink *c, const struct rec_gpu_step *r)
{
	if (r->h.flags & GPU_STEP_F_LOST || r->h.id >= c->rec.probes->n)
		return;
	for (uint32_t i = 0; i < gpu_step_devices(r); i++)
		chrome_add_gpu_step(c, r, &r->devices[i]);
}

/* The value at the begin of the interval holds up to the next one. */
void chrome_gpu_load(struct chrome_sink *c, const struct rec_gpu_load *r)
{
	char name[GPU_COUNTER_NAME_MAX];
	struct drawn_counter d = { .real = false };

	if (r->h.id >= GPU_DEVICES_MAX)
		return;
	chrome_name_gpu(c, r->h.id);
	for (enum gpu_counter i = 0; i < GPU_COUNTERS; i++) {
		if (!gpu_counter_value(i, r, &d.value))
			continue;
		d.name = gpu_counter_name(c->rec.gpu, i, r, name);
		d.unit = gpu_counter_unit(i);
		chrome_counter(c, PID_GPU + r->h.id, PID_GPU + r->h.id, r->h.start_ns, "gpu", &d);
	}
}
