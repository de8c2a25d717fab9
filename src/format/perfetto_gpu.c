// SPDX-License-Identifier: BSD-2-Clause
/* Perfetto trace: what GPUs did. */
#include <stdio.h>
#include <sys/random.h>

#include "format/perfetto.h"
#include "stack/stack.h"
#include "util/alloc.h"
#include "util/bytes.h"

/*
 * Kernels, copies and sets are GpuRenderStageEvents instead of TrackEvents, each once: from these Perfetto makes the tracks of
 * streams, of the device and of the process, and its tables gpu_slice, gpu_track and gpu (protos/perfetto/trace/gpu/ and
 * src/trace_processor/importers/proto/gpu_event_parser.cc of Perfetto v58). It has nothing for a device's steps and counters,
 * which are on ordinary tracks.
 */

/* Ids of stages; those of queues follow. */
enum spec {
	SPEC_KERNEL = 1,
	SPEC_COPY,
	SPEC_SET,
	SPEC_QUEUES,
};

/* Arguments of a launch. Perfetto's own SQL reads those up to ARG_SHARED_DYNAMIC, and the place of streams in a process
 * comes from ARG_DEVICE and ARG_STREAM. */
enum arg {
	ARG_BLOCK_SIZE = 1,
	ARG_GRID_SIZE,
	ARG_THREADS,
	ARG_REGISTERS,
	ARG_SHARED_STATIC,
	ARG_SHARED_DYNAMIC,
	ARG_DEVICE,
	ARG_STREAM,
	ARG_QUEUED,
	ARG_BYTES,
	ARG_RATE,
	ARG_KIND,
	ARG_GRAPH,
	ARG_NODE,
	ARG_POSITION,
	ARG_CAPTURED,
	ARGS,
};

static const char *const arg_names[ARGS] = {
	[ARG_BLOCK_SIZE] = "workgroup_size",
	[ARG_GRID_SIZE] = "grid_size",
	[ARG_THREADS] = "thread_count",
	[ARG_REGISTERS] = "registers_per_thread",
	[ARG_SHARED_STATIC] = "shared_mem_static",
	[ARG_SHARED_DYNAMIC] = "shared_mem_dynamic",
	[ARG_DEVICE] = "device",
	[ARG_STREAM] = "stream",
	[ARG_QUEUED] = "queued_ns",
	[ARG_BYTES] = "bytes",
	[ARG_RATE] = "megabytes_per_s",
	[ARG_KIND] = "kind",
	[ARG_GRAPH] = "graph_id",
	[ARG_NODE] = "graph_node_id",
	[ARG_POSITION] = "graph_position",
	[ARG_CAPTURED] = "captured_in",
};

/*
 * trace_processor finds the end of a flow by the event's number alone, among all files of one machine in an archive
 * (InitPerMachineState() makes its GpuTracker), and the API of a slice by its context's number alone, among all files (table
 * gpu_context): both start somewhere else in each recording. Tracks of queues are per file (InitPerTraceAndMachineState()).
 */
#define EVENTS_FROM_MAX (UINT64_C(1) << 55)
#define CONTEXTS_FROM_MAX (UINT32_MAX / GPU_TRACKS_MAX) /* the table has 32 bits */

/* At most, per device: its name twice, with its number, its UUID and address. */
#define DEVICE_BYTES (2 * GPU_DEVICE_NAME_MAX + 64)

/* What this file has described so far. */
struct perfetto_gpus {
	bool begun, lost;
	uint64_t names[GPU_NAMES_MAX / 64 + 1];
	uint32_t devices;                  /* number described in this file */
	uint64_t contexts_from;            /* the number of the first */
	uint64_t contexts[GPU_TRACKS_MAX]; /* of each track; 0: not described yet */
	uint64_t number;                   /* of the last event */
};

void perfetto_gpus_reset(struct perfetto_gpus *g, bool lost)
{
	if (!g)
		return;
	g->lost = lost && g->begun;
	g->begun = false;
	g->devices = 0;
	memset(g->names, 0, sizeof(g->names));
	memset(g->contexts, 0, sizeof(g->contexts));
}

static char *put_spec(char *p, uint64_t iid, const char *name, uint64_t category)
{
	char *spec;

	p = proto_open(p, INTERNED_GPU_SPEC, &spec);
	p = proto_u64(p, 1 /* iid */, iid);
	p = proto_text(p, 2 /* name */, name, strlen(name));
	return proto_close(spec, proto_u64(p, 4 /* category */, category));
}

static void gpus_begin_sequence(struct perfetto_sink *s, struct perfetto_gpus *g)
{
	char *packet, *data, *p = packet_of(s, SEQUENCE_GPU, SEQUENCE_F_CLEARED, &packet);

	p = proto_u64(p, g->lost ? PACKET_DROPPED : PACKET_FIRST, 1);
	p = proto_open(p, PACKET_INTERNED, &data);
	p = put_spec(p, SPEC_KERNEL, "kernel", GPU_CATEGORY_COMPUTE);
	p = put_spec(p, SPEC_COPY, "gpu_memcpy", GPU_CATEGORY_OTHER);
	p = put_spec(p, SPEC_SET, "gpu_memset", GPU_CATEGORY_OTHER);
	for (uint64_t i = 1; i < ARGS; i++)
		p = put_interned(p, INTERNED_GPU_ARG, i, arg_names[i], strlen(arg_names[i]));
	packet_end(s, packet, proto_close(data, p));
	g->begun = true;
}

static char *put_device(char *p, const struct gpu_identity *is, const char *name)
{
	char *gpu, *uuid;

	p = proto_open(p, 1 /* gpus */, &gpu);
	if (is && is->name[0]) {
		p = proto_text(p, 1 /* name */, name, strlen(name));
		p = proto_text(p, 3 /* model */, is->name, strlen(is->name));
	}
	if (is && is->uuid[0]) {
		p = proto_open_short(p, 5 /* uuid */, &uuid);
		memcpy(p, is->uuid_bytes, sizeof(is->uuid_bytes));
		p = proto_close_short(uuid, p + sizeof(is->uuid_bytes));
	}
	if (is && is->pci[0])
		p = proto_text(p, 7 /* pci_bdf */, is->pci, strlen(is->pci));
	return proto_close(gpu, p);
}

/* Describes the devices for the table gpu; several of the same name are told apart by number. A device's place in the list is
 * its number. */
static void gpus_describe_devices(struct perfetto_sink *s, struct perfetto_gpus *g)
{
	char *packet, *info, *p = packet_begin(s, &packet), *end = p + WRITER_EVENT_MAX - DEVICE_BYTES - 64, name[GPU_LABEL_MAX];
	uint32_t n = 0, last = 0;

	for (uint32_t i = 0; i < GPU_DEVICES_MAX; i++) {
		const struct gpu_identity *is = gpu_info_device(s->rec.gpu, i);

		n += is && is->name[0];
		last = is ? i : last;
	}
	p = proto_open(p, PACKET_GPU_INFO, &info);
	for (uint32_t i = 0; i <= last && p < end; i++) {
		const struct gpu_identity *is = gpu_info_device(s->rec.gpu, i);

		if (is)
			snprintf(name, sizeof(name), n > 1 ? "%s #%u" : "%s", is->name, i);
		p = put_device(p, is, name);
	}
	packet_end(s, packet, proto_close(info, p));
	g->devices = gpu_info_devices_known(s->rec.gpu);
}

/* Numbers a context across processes: CUDA counts them in each process anew. */
static uint64_t gpus_context_number(const struct perfetto_gpus *g, const struct gpu_info *info, const struct gpu_track *t)
{
	const struct gpu_track *o;
	uint32_t i = 0;

	while ((o = gpu_info_get_track(info, i)) && (o->context != t->context || o->tgid != t->tgid))
		i++;
	return g->contexts_from + i;
}

static bool context_is_known(const struct perfetto_gpus *g, uint64_t number)
{
	for (uint32_t i = 0; i < GPU_TRACKS_MAX; i++) {
		if (g->contexts[i] == number)
			return true;
	}
	return false;
}

static void gpus_describe_track(struct perfetto_sink *s, struct perfetto_gpus *g, const struct rec_gpu *r, const struct gpu_track *t)
{
	char *packet, *data, *context, *p;
	uint64_t number = gpus_context_number(g, s->rec.gpu, t);
	bool is_new = !context_is_known(g, number);

	g->contexts[r->track] = number;
	p = proto_open(packet_of(s, SEQUENCE_GPU, 0, &packet), PACKET_INTERNED, &data);
	p = put_spec(p, SPEC_QUEUES + r->track, t->name, GPU_CATEGORY_COMPUTE);
	if (is_new) {
		p = proto_open(p, INTERNED_GPU_CONTEXT, &context);
		p = proto_u64(p, 1 /* iid */, number);
		p = proto_u64(p, 2 /* pid */, t->tgid);
		p = proto_close(context, proto_u64(p, 3 /* api */, r->h.flags & GPU_F_AMD ? GPU_API_HIP : GPU_API_CUDA));
	}
	packet_end(s, packet, proto_close(data, p));
}

static void gpus_describe_name(struct perfetto_sink *s, struct perfetto_gpus *g, uint32_t name)
{
	const struct gpu_kernel_name *k = gpu_info_kernel(s->rec.gpu, name);
	char *packet, *data, *mark, *p = packet_of(s, SEQUENCE_GPU, 0, &packet);

	bit_set(g->names, name);
	p = proto_open(p, PACKET_INTERNED, &data);
	p = put_interned(p, INTERN_NAME, name, k->brief, strlen(k->brief));
	p = proto_open(p, INTERNED_GPU_KERNEL, &mark);
	p = proto_u64(p, 1 /* iid */, name);
	/* a name that was cut cannot be demangled */
	if (strlen(k->mangled) < STACK_NAME_MAX - 1)
		p = proto_text(p, 2 /* name */, k->mangled, strlen(k->mangled));
	p = proto_text(p, 3 /* demangled_name */, k->full, strlen(k->full));
	packet_end(s, packet, proto_close(data, proto_close(mark, p)));
}

static bool activity_is_named(const struct rec_gpu *r)
{
	return r->h.id == GPU_KERNEL && r->name && r->name <= GPU_NAMES_MAX;
}

static struct perfetto_gpus *gpus_new(const struct recording *rec)
{
	struct perfetto_gpus *g = xcalloc(1, sizeof(*g));
	uint64_t from[2];

	if (getrandom(from, sizeof(from), GRND_NONBLOCK) != sizeof(from))
		from[0] = from[1] = rec->start_real_ns;
	g->number = from[0] % EVENTS_FROM_MAX;
	g->contexts_from = (1 + from[1] % (CONTEXTS_FROM_MAX - 1)) * GPU_TRACKS_MAX;
	return g;
}

/* Describes what its event will refer to. NULL: it has no track. */
static struct perfetto_gpus *gpus_describe(struct perfetto_sink *s, const struct rec_gpu *r)
{
	const struct gpu_track *t = r->h.id < GPU_ACTIVITIES ? gpu_info_get_track(s->rec.gpu, r->track) : NULL;
	struct perfetto_gpus *g;

	if (!t || t->device != r->device)
		return NULL;
	if (!s->gpus)
		s->gpus = gpus_new(&s->rec);
	g = s->gpus;
	if (!g->begun)
		gpus_begin_sequence(s, g);
	if (g->devices != gpu_info_devices_known(s->rec.gpu))
		gpus_describe_devices(s, g);
	if (!g->contexts[r->track])
		gpus_describe_track(s, g, r, t);
	if (activity_is_named(r) && !bit_is_set(g->names, r->name))
		gpus_describe_name(s, g, r->name);
	return g;
}

static char *put_launch_arg(char *p, enum arg name, uint64_t v)
{
	char *arg;

	p = proto_open_short(p, GPU_LAUNCH_ARG, &arg);
	p = proto_u64(p, 1 /* name_iid */, name);
	return proto_close_short(arg, proto_u64(p, 4 /* uint_value */, v));
}

static char *put_launch_text(char *p, enum arg name, const char *text)
{
	char *arg;

	p = proto_open(p, GPU_LAUNCH_ARG, &arg);
	p = proto_u64(p, 1 /* name_iid */, name);
	return proto_close(arg, proto_text(p, 6 /* string_value */, text, strlen(text)));
}

static char *put_dimensions(char *p, uint32_t field, const uint32_t v[3])
{
	char *dim;

	p = proto_open_short(p, field, &dim);
	for (uint32_t i = 0; i < 3; i++)
		p = proto_u64(p, i + 1, v[i]);
	return proto_close_short(dim, p);
}

static uint64_t dimensions_product(const uint32_t v[3])
{
	uint64_t n;

	return __builtin_mul_overflow((uint64_t)v[0] * v[1], v[2], &n) || n > INT64_MAX ? INT64_MAX : n;
}

static char *put_kernel_args(char *p, const struct rec_gpu *r)
{
	uint64_t block = dimensions_product(r->block), grid = dimensions_product(r->grid), threads;

	if (__builtin_mul_overflow(block, grid, &threads) || threads > INT64_MAX)
		threads = INT64_MAX;
	p = put_dimensions(p, GPU_LAUNCH_GRID, r->grid);
	p = put_dimensions(p, GPU_LAUNCH_BLOCK, r->block);
	p = put_launch_arg(p, ARG_BLOCK_SIZE, block);
	p = put_launch_arg(p, ARG_GRID_SIZE, grid);
	p = put_launch_arg(p, ARG_THREADS, threads);
	if (r->registers)
		p = put_launch_arg(p, ARG_REGISTERS, r->registers);
	p = put_launch_arg(p, ARG_SHARED_STATIC, r->shared_static);
	return put_launch_arg(p, ARG_SHARED_DYNAMIC, r->shared - r->shared_static);
}

static char *put_copy_args(char *p, const struct rec_gpu *r)
{
	uint64_t mb = gpu_megabytes_per_s(r);

	p = put_launch_arg(p, ARG_BYTES, r->bytes <= INT64_MAX ? r->bytes : INT64_MAX);
	if (mb)
		p = put_launch_arg(p, ARG_RATE, mb);
	return r->h.id == GPU_COPY ? put_launch_text(p, ARG_KIND, gpu_copy_name(r->copy_kind)) : p;
}

static char *put_launch_args(char *p, const struct gpu_info *info, const struct rec_gpu *r)
{
	const char *op = gpu_info_operator_name(info, r->captured_in);
	char *launch;

	p = proto_open(p, GPU_STAGE_LAUNCH, &launch);
	p = r->h.id == GPU_KERNEL ? put_kernel_args(p, r) : put_copy_args(p, r);
	p = put_launch_arg(p, ARG_DEVICE, r->device);
	p = put_launch_arg(p, ARG_STREAM, r->stream);
	if (r->graph)
		p = put_launch_arg(p, ARG_GRAPH, r->graph);
	if (r->graph_node && r->graph_node <= INT64_MAX)
		p = put_launch_arg(p, ARG_NODE, r->graph_node);
	if (r->graph_position)
		p = put_launch_arg(p, ARG_POSITION, r->graph_position);
	if (op)
		p = put_launch_text(p, ARG_CAPTURED, op);
	if (r->launch_tid && r->h.start_ns >= r->launched_ns)
		p = put_launch_arg(p, ARG_QUEUED, r->h.start_ns - r->launched_ns);
	return proto_close(launch, p);
}

/* The flow begins at an instant: a flow from the call's slice would also come from each slice within it. */
static void write_launch_flow(struct perfetto_sink *s, const struct rec_gpu *r, uint64_t number)
{
	uint32_t from = perfetto_row(s, r->h.tgid, r->launch_tid, TRACK_CALLS);
	struct event e;

	if (!from)
		return;
	event_init(&e, s, from, "ac2g", "ac2g");
	event_add_submission(&e, number);
	event_write_instant(&e, r->launch_ns);
}

void perfetto_gpu(struct perfetto_sink *s, const struct rec_gpu *r)
{
	struct perfetto_gpus *g = gpus_describe(s, r);
	uint64_t start_ns = perfetto_ts(s, r->h.start_ns), end_ns = r->h.start_ns + r->h.dur_ns;
	static const uint8_t stages[GPU_ACTIVITIES] = { SPEC_KERNEL, SPEC_COPY, SPEC_SET };
	const char *name;
	char *packet, *event, *p;

	if (!g)
		return;
	p = proto_u64(packet_of(s, SEQUENCE_GPU, 0, &packet), PACKET_TIMESTAMP, start_ns);
	p = proto_open(p, PACKET_GPU_STAGE, &event);
	p = proto_u64(p, GPU_STAGE_EVENT, ++g->number);
	p = proto_u64(p, GPU_STAGE_DURATION, end_ns > start_ns ? end_ns - start_ns : 0);
	p = proto_u64(p, GPU_STAGE_CONTEXT, g->contexts[r->track]);
	p = proto_u64(p, GPU_STAGE_SUBMISSION, r->correlation);
	p = proto_u64(p, GPU_STAGE_GPU, r->device);
	p = proto_u64(p, GPU_STAGE_QUEUE, SPEC_QUEUES + r->track);
	p = proto_u64(p, GPU_STAGE_STAGE, stages[r->h.id]);
	if (activity_is_named(r)) {
		p = proto_u64(p, GPU_STAGE_KERNEL_IID, r->name);
		p = proto_u64(p, GPU_STAGE_NAME_IID, r->name);
	} else {
		name = gpu_name(s->rec.gpu, r);
		p = proto_text(p, GPU_STAGE_NAME, name, strlen(name));
	}
	packet_end(s, packet, proto_close(event, put_launch_args(p, s->rec.gpu, r)));
	if (gpu_has_flow(r, &s->rec))
		write_launch_flow(s, r, g->number);
}

static uint32_t gpu_process_row(struct perfetto_sink *s, uint32_t device)
{
	char name[GPU_LABEL_MAX];

	return perfetto_pseudo_process(s, &s->gpu_rows[device], PID_GPU + device, gpu_label(s->rec.gpu, device, name));
}

/* 0: there are too many processes. */
static uint32_t gpu_load_row(struct perfetto_sink *s, enum gpu_counter which, const struct rec_gpu_load *r)
{
	struct gpu_counter_row *of = s->gpu_counter_rows[r->h.id][which], *end = of + GPU_PROCESSES_MAX;
	char name[GPU_COUNTER_NAME_MAX];

	while (of < end && of->row && of->tgid != r->h.tgid)
		of++;
	if (of == end)
		return 0;
	of->tgid = r->h.tgid;
	return perfetto_track(s, &of->row, gpu_process_row(s, r->h.id), gpu_counter_name(s->rec.gpu, which, r, name), NO_RANK,
		gpu_counter_unit(which));
}

/* Returns the track of a device's steps; 0: it has none. */
static uint32_t gpu_step_row(struct perfetto_sink *s, uint32_t track, uint32_t device)
{
	const struct gpu_track *t = gpu_info_get_track(s->rec.gpu, track);

	if (!t || t->device != device || !gpu_track_is_steps(t))
		return 0;
	return perfetto_track(s, &s->gpu_step_rows[track], gpu_process_row(s, device), t->name, -1, NULL);
}

static void write_gpu_step(struct perfetto_sink *s, const struct rec_gpu_step *r, const struct gpu_step_device *d)
{
	uint32_t row = gpu_step_row(s, d->track, d->device);
	struct drawn drawn;
	struct event e;

	if (!row)
		return;
	drawn_gpu_step(&drawn, r, d);
	event_init_drawn(&e, s, row, &drawn);
	event_write_span(&e, perfetto_ts(s, r->h.start_ns), r->h.start_ns + r->h.dur_ns);
}

void perfetto_gpu_step(struct perfetto_sink *s, const struct rec_gpu_step *r)
{
	if (r->h.flags & GPU_STEP_F_LOST || r->h.id >= s->rec.probes->n)
		return;
	for (uint32_t i = 0; i < gpu_step_devices(r); i++)
		write_gpu_step(s, r, &r->devices[i]);
}

void perfetto_gpu_load(struct perfetto_sink *s, const struct rec_gpu_load *r)
{
	uint64_t value;

	for (enum gpu_counter i = 0; i < GPU_COUNTERS && r->h.id < GPU_DEVICES_MAX; i++) {
		if (gpu_counter_value(i, r, &value))
			event_write_counter(s, gpu_load_row(s, i, r), r->h.start_ns, value);
	}
}
