// SPDX-License-Identifier: BSD-2-Clause
/* Perfetto trace: what GPUs did, a process for each device and a track for each stream, as in the JSON. */
#include "sink/gpu.h"
#include "sink/perfetto.h"

static void add_shape(struct event *e, const char *name, const uint32_t v[3])
{
	char text[3 * FMT_U32_MAX + 3], *p;

	p = fmt_u32(text, v[0]);
	*p++ = 'x';
	p = fmt_u32(p, v[1]);
	*p++ = 'x';
	p = fmt_u32(p, v[2]);
	event_add_text(e, name, text, (size_t)(p - text));
}

static void add_kernel(struct event *e, const struct rec_gpu *r)
{
	const struct gpu_info *info = e->s->rec.gpu;
	const char *name = gpu_info_full_name(info, r->name);

	add_shape(e, "grid", r->grid);
	add_shape(e, "block", r->block);
	event_add(e, "shared_memory", VALUE_UINT, r->shared);
	if (strcmp(name, gpu_info_short_name(info, r->name)))
		event_add_word(e, "kernel", name);
}

static void add_copy(struct event *e, const struct rec_gpu *r)
{
	uint64_t mb = gpu_megabytes_per_s(r);

	event_add(e, "bytes", VALUE_UINT, r->bytes);
	if (mb)
		event_add(e, "megabytes_per_s", VALUE_UINT, mb);
	if (r->h.id == GPU_COPY)
		event_add_word(e, "kind", gpu_copy_name(r->copy_kind));
}

/* A flow binds to instants: those of other slices would be theirs, too. */
static void write_arrow(struct perfetto_sink *s, const struct rec_gpu *r, uint32_t row)
{
	uint32_t from = perfetto_row(s, r->h.tgid, r->launch_tid, TRACK_CALLS);
	struct event e;

	if (!from)
		return;
	event_init(&e, s, from, "ac2g", "ac2g");
	event_add_flow(&e, EVENT_FLOW, ++s->flow);
	event_write_instant(&e, r->launch_ns);
	event_init(&e, s, row, "ac2g", "ac2g");
	event_add_flow(&e, EVENT_FLOW_END, s->flow);
	event_write_instant(&e, perfetto_ts(s, r->h.start_ns));
}

void perfetto_gpu(struct perfetto_sink *s, const struct rec_gpu *r)
{
	uint32_t row = r->h.id < GPU_ACTIVITIES ? perfetto_gpu_row(s, r->track, r->device) : 0;
	struct event e;

	if (!row)
		return;
	event_init(&e, s, row, gpu_category(r), gpu_name(s->rec.gpu, r));
	event_add(&e, "device", VALUE_UINT, r->device);
	event_add(&e, "context", VALUE_UINT, r->context);
	event_add(&e, "stream", VALUE_UINT, r->stream);
	event_add(&e, "correlation", VALUE_UINT, r->correlation);
	event_add(&e, "pid", VALUE_UINT, r->h.tgid);
	if (r->h.id == GPU_KERNEL)
		add_kernel(&e, r);
	else
		add_copy(&e, r);
	if (r->graph)
		event_add(&e, "graph_id", VALUE_UINT, r->graph);
	if (r->graph_node)
		event_add(&e, "graph_node_id", VALUE_UINT, r->graph_node);
	if (r->launch_tid && r->h.start_ns >= r->launched_ns)
		event_add(&e, "queued_ns", VALUE_UINT, r->h.start_ns - r->launched_ns);
	event_write_span(&e, perfetto_ts(s, r->h.start_ns), r->h.start_ns + r->h.dur_ns);
	if (gpu_has_arrow(r, &s->rec))
		write_arrow(s, r, row);
}

void perfetto_gpu_step(struct perfetto_sink *s, const struct rec_gpu_step *r)
{
	bool shown = !(r->h.flags & GPU_STEP_F_LOST) && r->h.id < s->rec.probes->n;
	uint32_t row = shown ? perfetto_gpu_row(s, r->track, r->device) : 0;
	char name[8 + FMT_U32_MAX];
	struct event e;

	if (!row)
		return;
	*fmt_u32(fmt_lit(name, "step "), r->step) = 0;
	event_init_text(&e, s, row, "gpu_step", name);
	event_add(&e, "step", VALUE_UINT, r->step);
	event_add(&e, "pid", VALUE_UINT, r->h.tgid);
	event_add(&e, "kernels", VALUE_UINT, r->kernels);
	event_add(&e, "copies", VALUE_UINT, r->copies);
	for (int i = 0; i < GPU_PART_MAX; i++)
		event_add(&e, gpu_part_name(i), VALUE_UINT, r->ns[i]);
	event_add(&e, "residual_ns", VALUE_UINT, r->residual_ns);
	event_write_span(&e, perfetto_ts(s, r->h.start_ns), r->h.start_ns + r->h.dur_ns);
}

void perfetto_gpu_load(struct perfetto_sink *s, const struct rec_gpu_load *r)
{
	uint64_t value;

	for (enum gpu_counter i = 0; i < GPU_COUNTERS && r->h.id < GPU_DEVICES_MAX; i++) {
		if (gpu_counter_value(i, r, &value))
			event_write_counter(s, perfetto_gpu_counter(s, i, r), r->h.start_ns, value);
	}
}
