// SPDX-License-Identifier: BSD-2-Clause
/*
 * Chrome trace: GPU activity. A process per device and a track per stream, with the names, categories and arguments of
 * PyTorch's profiler (Kineto), so that tools for its traces read these, too.
 */
#include <stdlib.h>

#include "format/arrows.h"
#include "format/chrome.h"
#include "util/bytes.h"
#include "util/clock.h"

static void name_device(struct chrome_sink *c, uint32_t device)
{
	char name[GPU_LABEL_MAX];

	if (bit_is_set(&c->gpus_named, device))
		return;
	bit_set(&c->gpus_named, device);
	chrome_name_process(c, PID_GPU + device, gpu_label(c->rec.gpu, device, name), PID_GPU + device);
}

static void name_track(struct chrome_sink *c, uint32_t track, const struct gpu_track *t)
{
	name_device(c, t->device);
	if (bit_is_set(c->gpu_tracks_named, track))
		return;
	bit_set(c->gpu_tracks_named, track);
	chrome_name_track(c, PID_GPU + t->device, TID_GPU + track, t->name, gpu_track_is_steps(t) ? -1 : (int64_t)track);
}

static char *fmt_three(char *p, const char *name, const uint32_t v[3])
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

	p = fmt_three(p, "grid", r->grid);
	p = fmt_three(p, "block", r->block);
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

static void add_arrow(struct chrome_sink *c, const struct rec_gpu *r)
{
	struct arrow a = {
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

	if (gpu_has_arrow(r, &c->rec) && arrows_add(c->arrows, &a))
		chrome_arrow(c, &a);
}

/* ---- in Kineto's form: kernels have the number of the operator that launched them ---- */

#define LAUNCHES (1u << 16)
#define LAUNCHES_OPEN 64
/* A kernel often ends before its operator does: it is held until then, or this long, or until more are held. */
#define HELD_NS UINT64_C(2000000000)
#define HELD_MAX 1024

struct launch {
	uint64_t start_ns, op; /* op: the number of the innermost operator around it; 0: none, or it has not ended yet */
	uint32_t tid;
};

struct kineto_launches {
	struct launch all[LAUNCHES];        /* by their threads and times */
	struct launch *open[LAUNCHES_OPEN]; /* the last ones; NULL: its operator is known */
	unsigned int next;
	struct {
		struct rec_gpu r;
		uint64_t since; /* CLOCK_BOOTTIME */
	} held[HELD_MAX];
	unsigned int n_held;
};

static struct launch *launch_at(struct kineto_launches *l, uint32_t tid, uint64_t start_ns)
{
	return &l->all[(start_ns ^ (uint64_t)tid << 40) * 0x9e3779b97f4a7c15ull >> 48];
}

void chrome_kineto_launch(struct chrome_sink *c, const struct rec_hdr *h)
{
	struct launch *at;

	if (!c->rec.kineto)
		return;
	if (!c->launches)
		c->launches = xcalloc(1, sizeof(*c->launches));
	at = launch_at(c->launches, h->tid, h->start_ns);
	*at = (struct launch){ .start_ns = h->start_ns, .tid = h->tid };
	c->launches->open[c->launches->next++ % LAUNCHES_OPEN] = at;
}

void chrome_kineto_op(struct chrome_sink *c, const struct rec_hdr *h, uint64_t number)
{
	for (unsigned int i = 0; c->launches && i < LAUNCHES_OPEN; i++) {
		struct launch **at = &c->launches->open[i];

		if (!*at || (*at)->tid != h->tid || (*at)->start_ns < h->start_ns)
			continue;
		(*at)->op = number;
		*at = NULL;
	}
}

/* The launch of a kernel or a copy; NULL: it was not seen. */
static const struct launch *launch_of(struct chrome_sink *c, const struct rec_gpu *r)
{
	const struct launch *at = c->launches ? launch_at(c->launches, r->launch_tid, r->launch_ns) : NULL;

	return at && at->tid == r->launch_tid && at->start_ns == r->launch_ns ? at : NULL;
}

static char *fmt_launched_by(struct chrome_sink *c, char *p, const struct rec_gpu *r)
{
	const struct launch *at = launch_of(c, r);

	return at && at->op ? fmt_u64(fmt_lit(p, ",\"External id\":"), at->op) : p;
}

/* Kineto's launch also has the kernel's correlation number. The slice of the driver's function is written before that is
 * known, so the runtime call that PyTorch makes gets a slice of its own. */
static void kineto_launch(struct chrome_sink *c, const struct rec_gpu *r)
{
	static const char *const names[GPU_ACTIVITIES] = { "cudaLaunchKernel", "cudaMemcpyAsync", "cudaMemsetAsync" };
	struct rec_hdr h = r->h;
	char *p;

	if (!c->rec.kineto || !gpu_has_arrow(r, &c->rec))
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
	name_track(c, r->track, t);
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
	add_arrow(c, r);
}

void chrome_kineto_held(struct chrome_sink *c, bool all)
{
	struct kineto_launches *l = c->launches;
	uint64_t now = l && l->n_held ? clock_boot_ns() : 0;
	unsigned int n = 0;

	for (unsigned int i = 0; l && i < l->n_held; i++) {
		const struct launch *at = launch_of(c, &l->held[i].r);

		if (all || !at || at->op || now - l->held[i].since >= HELD_NS)
			write_activity(c, &l->held[i].r);
		else
			l->held[n++] = l->held[i];
	}
	if (l)
		l->n_held = n;
}

void chrome_gpu(struct chrome_sink *c, const struct rec_gpu *r)
{
	const struct launch *at = launch_of(c, r);
	struct kineto_launches *l = c->launches;

	if (!at || at->op) {
		write_activity(c, r);
		return;
	}
	if (l->n_held == HELD_MAX) {
		write_activity(c, &l->held[0].r);
		memmove(l->held, l->held + 1, --l->n_held * sizeof(*l->held));
	}
	l->held[l->n_held].r = *r;
	l->held[l->n_held++].since = clock_boot_ns();
}

static void add_step(struct chrome_sink *c, const struct rec_gpu_step *r, const struct gpu_step_device *d)
{
	const struct gpu_track *t = gpu_info_get_track(c->rec.gpu, d->track);
	struct drawn drawn;

	if (!t || t->device != d->device)
		return;
	name_track(c, d->track, t);
	drawn_gpu_step(&drawn, r, d);
	chrome_span(c, &r->h, PID_GPU + d->device, TID_GPU + d->track, &drawn);
}

void chrome_gpu_step(struct chrome_sink *c, const struct rec_gpu_step *r)
{
	if (r->h.flags & GPU_STEP_F_LOST || r->h.id >= c->rec.probes->n)
		return;
	for (uint32_t i = 0; i < gpu_step_devices(r); i++)
		add_step(c, r, &r->devices[i]);
}

/* The value at the begin of the interval holds up to the next one. */
void chrome_gpu_load(struct chrome_sink *c, const struct rec_gpu_load *r)
{
	char name[GPU_COUNTER_NAME_MAX];
	struct drawn_counter d;

	if (r->h.id >= GPU_DEVICES_MAX)
		return;
	name_device(c, r->h.id);
	for (enum gpu_counter i = 0; i < GPU_COUNTERS; i++) {
		if (!gpu_counter_value(i, r, &d.value))
			continue;
		d.name = gpu_counter_name(c->rec.gpu, i, r, name);
		d.unit = gpu_counter_unit(i);
		chrome_counter(c, PID_GPU + r->h.id, PID_GPU + r->h.id, r->h.start_ns, "gpu", &d);
	}
}
