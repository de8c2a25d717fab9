// SPDX-License-Identifier: BSD-2-Clause
#include "gpu/process.h"

#include <stdlib.h>
#include <string.h>

#include "util/clock.h"
#include "util/list.h"

#define ANY_DEVICE UINT32_MAX

/* An instant at which the number of activities under way changes. */
struct gpu_edge {
	uint64_t ns;
	enum gpu_part part; /* gets the time, unless a part that counts more is under way */
	int change;         /* 1 or -1 */
	uint32_t device;    /* ANY_DEVICE: counts for each */
	uint32_t tid;       /* of the launch */
};

static int edge_compare_times(const void *a, const void *b)
{
	const struct gpu_edge *x = a, *y = b;

	return (x->ns > y->ns) - (x->ns < y->ns);
}

static uint64_t time_clip(uint64_t ns, uint64_t from, uint64_t to)
{
	return ns < from ? from : ns > to ? to
					  : ns;
}

static bool run_is_within(const struct gpu_run *r, uint64_t start_ns, uint64_t end_ns)
{
	return r->start_ns < end_ns && r->end_ns > start_ns;
}

/* Sets the devices, sorted, and the one with the most time in kernels and copies of the step, where parallel ones count twice. */
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
		busy[r->device] += time_clip(r->end_ns, start_ns, until_ns) - time_clip(r->start_ns, start_ns, until_ns);
		used[r->device] |= is_of || run_is_within(r, start_ns, end_ns) || (r->launched_ns < end_ns && r->start_ns > start_ns);
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

static size_t add_edges(struct gpu_edge *e, const struct gpu_run *r, uint64_t start_ns, uint64_t end_ns)
{
	uint64_t from = time_clip(r->start_ns, start_ns, end_ns), to = time_clip(r->end_ns, start_ns, end_ns);
	enum gpu_part runs = r->is_collective ? GPU_PART_COLLECTIVE : r->is_kernel ? GPU_PART_BUSY
										   : GPU_PART_COPY;
	enum gpu_part waits = r->launched_ns && r->start_ns != UINT64_MAX ? GPU_PART_IDLE_WAIT : GPU_PART_UNKNOWN;
	/* if it is not known since when it waited, it may have waited all the time */
	uint64_t queued = time_clip(r->launched_ns, start_ns, from);
	uint32_t device = r->start_ns == UINT64_MAX ? ANY_DEVICE : r->device;
	size_t n = 0;

	if (to > from) {
		e[n++] = (struct gpu_edge){ from, runs, 1, device, r->launch_tid };
		e[n++] = (struct gpu_edge){ to, runs, -1, device, 0 };
	}
	if (from > queued) {
		e[n++] = (struct gpu_edge){ queued, waits, 1, device, r->launch_tid };
		e[n++] = (struct gpu_edge){ from, waits, -1, device, 0 };
	}
	return n;
}

/* Keeps a gap if it is one of the longest; gaps of equal length stay in order. */
static void gaps_keep_longest(struct gpu_gap gaps[GPU_GAPS], uint64_t from_ns, uint64_t to_ns, uint32_t tid)
{
	int i = GPU_GAPS;

	for (; i && gaps[i - 1].dur_ns < to_ns - from_ns; i--) {
		if (i < GPU_GAPS)
			gaps[i] = gaps[i - 1];
	}
	if (i < GPU_GAPS && to_ns > from_ns)
		gaps[i] = (struct gpu_gap){ .start_ns = from_ns, .dur_ns = to_ns - from_ns, .tid = tid };
}

/* Gives the time of each part, of a device or ANY_DEVICE, from sorted edges. gaps may be NULL. */
static void edges_sum_parts(const struct gpu_edge *e, size_t n, uint32_t device, uint64_t start_ns, uint64_t end_ns, uint64_t ret_ns[GPU_PART_MAX],
	struct gpu_gap *gaps)
{
	/* parts that count more come first */
	static const enum gpu_part parts[] = { GPU_PART_BUSY, GPU_PART_COLLECTIVE, GPU_PART_COPY, GPU_PART_IDLE_WAIT, GPU_PART_UNKNOWN,
		GPU_PART_IDLE_LAUNCH };
	int64_t under_way[GPU_PART_MAX] = { [GPU_PART_IDLE_LAUNCH] = 1 };
	uint64_t at = start_ns, idle_ns = start_ns; /* start of the current gap */
	uint32_t tid = 0;                           /* of the last launch */

	memset(ret_ns, 0, GPU_PART_MAX * sizeof(*ret_ns));
	for (size_t i = 0; i <= n; i++) {
		uint64_t next = i < n ? e[i].ns : end_ns;
		const enum gpu_part *part = parts;

		if (i < n && device != ANY_DEVICE && e[i].device != ANY_DEVICE && e[i].device != device)
			continue;
		while (!under_way[*part])
			part++;
		ret_ns[*part] += next - at;
		if (gaps && next > at && *part != GPU_PART_IDLE_LAUNCH) {
			gaps_keep_longest(gaps, idle_ns, at, tid);
			idle_ns = next;
		}
		at = next;
		if (i == n)
			break;
		if (e[i].tid)
			tid = e[i].tid;
		under_way[e[i].part] += e[i].change;
	}
	if (gaps)
		gaps_keep_longest(gaps, idle_ns, end_ns, 0);
}

/* Returns how long activity launched within the step runs after its end. edges: room for 2 * n. */
static uint64_t runs_time_after(
	const struct gpu_run *list, size_t n, uint32_t device, uint64_t start_ns, uint64_t end_ns, struct gpu_edge *edges)
{
	uint64_t sum = 0, at = end_ns;
	int64_t running = 0;
	size_t n_edges = 0;

	for (size_t i = 0; i < n; i++) {
		const struct gpu_run *r = &list[i];

		if ((device != ANY_DEVICE && r->device != device) || r->end_ns <= end_ns || !gpu_run_is_of(r, start_ns, end_ns))
			continue;
		edges[n_edges++] = (struct gpu_edge){ .ns = time_clip(r->start_ns, end_ns, r->end_ns), .change = 1 };
		edges[n_edges++] = (struct gpu_edge){ .ns = r->end_ns, .change = -1 };
	}
	qsort(edges, n_edges, sizeof(*edges), edge_compare_times);
	for (size_t i = 0; i < n_edges; i++) {
		sum += running ? edges[i].ns - at : 0;
		at = edges[i].ns;
		running += edges[i].change;
	}
	return sum;
}

static void runs_count(const struct gpu_run *list, size_t n, uint64_t start_ns, uint64_t end_ns, uint32_t device, uint32_t *ret_kernels,
	uint32_t *ret_copies)
{
	*ret_kernels = *ret_copies = 0;
	for (size_t i = 0; i < n; i++) {
		if (!run_is_within(&list[i], start_ns, end_ns) || (device != ANY_DEVICE && list[i].device != device))
			continue;
		*ret_kernels += list[i].is_kernel;
		*ret_copies += !list[i].is_kernel;
	}
}

void gpu_partition(const struct gpu_run *list, size_t n, uint64_t start_ns, uint64_t end_ns, struct rec_gpu_step *ret)
{
	struct gpu_edge *edges = xcalloc(4 * n, sizeof(*edges)), *after = xcalloc(2 * n, sizeof(*after));
	size_t n_edges = 0;

	memset(ret->gaps, 0, sizeof(ret->gaps));
	memset(ret->devices, 0, sizeof(ret->devices));
	find_devices(list, n, start_ns, end_ns, ret);
	for (size_t i = 0; i < n; i++)
		n_edges += add_edges(edges + n_edges, &list[i], start_ns, end_ns);
	qsort(edges, n_edges, sizeof(*edges), edge_compare_times);
	edges_sum_parts(edges, n_edges, ANY_DEVICE, start_ns, end_ns, ret->ns, ret->gaps);
	runs_count(list, n, start_ns, end_ns, ANY_DEVICE, &ret->kernels, &ret->copies);
	ret->after_ns = runs_time_after(list, n, ANY_DEVICE, start_ns, end_ns, after);
	for (uint32_t i = 0; i < ret->n_devices && i < GPU_STEP_DEVICES; i++) {
		struct gpu_step_device *d = &ret->devices[i];

		edges_sum_parts(edges, n_edges, d->device, start_ns, end_ns, d->ns, NULL);
		runs_count(list, n, start_ns, end_ns, d->device, &d->kernels, &d->copies);
		d->after_ns = runs_time_after(list, n, d->device, start_ns, end_ns, after);
	}
	free(edges);
	free(after);
}

/* ---- one process ---- */

#define DRAIN_MAX (GPU_HELD_MAX / 2)   /* records per turn; no more than that are held when it starts */
#define PENDING_MAX 1024               /* launches of a step without activity */
#define GRACE_NS (200 * NSEC_PER_MSEC) /* by then, activity at the end of a step has mostly ended */
#define PATIENCE_NS NSEC_PER_SEC       /* a launch still without activity by then is left so */
/* CUPTI hands over a buffer when all activity recorded in it is done, or when it is full: where something always runs, only the
 * launches tell when the records of an instant are complete. */
#define HOLD_NS NSEC_PER_SEC        /* records of older activity are handed over, perhaps out of order */
#define LATE_NS (10 * NSEC_PER_SEC) /* by then, a step whose launches miss records is divided without them */
#define LOOK_NS (NSEC_PER_SEC / 10)
#define SHIFT_MAX_NS 1000 /* per turn */
#define GAPS_MAX 32
#define RUNS_KEPT 4096
#define KEEP_NS (60 * NSEC_PER_SEC) /* a step is known only at its end: runs are kept for steps this long */

/* A step whose partition is not known yet. */
struct gpu_waiting {
	struct rec_hdr h;
	uint32_t number;
	uint64_t before_ns; /* since the last step of its thread; 0: none, or not known */
	bool is_partial;
};

/* Records that ended in this time are missing. */
struct gap {
	uint64_t from_ns, to_ns;
};

struct gpu_process {
	uint32_t tgid;
	struct gpu_info *info;
	struct gpu_feed *feed;
	struct gpu_feed_state state;
	struct gpu_join *join;
	struct gpu_graphs *graphs;
	struct gpu_load *load;
	uint32_t *names; /* by the agent's id */
	uint32_t n_names;
	struct {
		bool any;
		uint32_t number;
		int64_t shift_ns;   /* added to its times to match the times of calls */
	} devices[GPU_DEVICES_MAX]; /* by the process's own number; .number is the recording's */
	uint64_t skew_ns;           /* largest error seen of a device's times */
	uint32_t used_last;         /* the process's own number of the device handed over last */
	struct rec_gpu *held;
	size_t n_held, cap_held;
	bool waits;           /* some of held wait for their calls */
	struct gpu_run *runs; /* activity handed over */
	size_t n_runs, cap_runs;
	uint64_t runs_from_ns; /* activity that started before is forgotten */
	struct gpu_waiting *steps;
	size_t n_steps, cap_steps;
	struct gap gaps[GAPS_MAX];
	size_t n_gaps;
	/* collecting pauses, for the budget or by --gpu=every=N */
	uint64_t first_on_ns, on_ns; /* when collecting began, the first and the last time; 0: never */
	uint64_t pause_ns;           /* start of the last pause before on_ns; 0: none */
	uint64_t off_ns;             /* start of the current pause; 0: collecting is on */
	uint64_t over_ns;            /* total of pauses for the budget */
	bool is_over;
	uint64_t settled_ns; /* everything that ended up to then has been handed over */
	uint64_t looked_ns;  /* when all of held was last looked at */
	uint64_t kept, lost_here, lost_seen;
	uint64_t end_ns; /* of the recording; UINT64_MAX: none yet */
	bool was_gone;   /* in the turn before */
};

int gpu_process_new(uint32_t tgid, struct gpu_info *info, uint64_t now_ns, struct gpu_process **ret_process)
{
	struct gpu_process *p = xcalloc(1, sizeof(*p));
	int err;

	p->tgid = tgid;
	p->info = info;
	p->settled_ns = now_ns;
	p->end_ns = UINT64_MAX;
	p->graphs = gpu_graphs_new();
	p->join = gpu_join_new(p->graphs);
	p->load = gpu_load_new(tgid, now_ns);
	err = gpu_feed_new(GPU_RING_CAPACITY, now_ns, &p->feed);
	if (err) {
		gpu_process_free(p);
		return err;
	}
	*ret_process = p;
	return 0;
}

void gpu_process_free(struct gpu_process *p)
{
	if (!p)
		return;
	gpu_feed_free(p->feed);
	gpu_join_free(p->join);
	gpu_graphs_free(p->graphs);
	gpu_load_free(p->load);
	free(p->names);
	free(p->held);
	free(p->runs);
	free(p->steps);
	free(p);
}

struct gpu_feed *gpu_process_feed(struct gpu_process *p)
{
	return p->feed;
}

/* ---- what is missing ---- */

static void process_add_gap(struct gpu_process *p, uint64_t from_ns, uint64_t to_ns)
{
	if (p->n_gaps && from_ns <= p->gaps[p->n_gaps - 1].to_ns) {
		p->gaps[p->n_gaps - 1].to_ns = to_ns;
		return;
	}
	if (p->n_gaps == GAPS_MAX) {
		p->gaps[1].from_ns = p->gaps[0].from_ns;
		memmove(p->gaps, p->gaps + 1, --p->n_gaps * sizeof(*p->gaps));
	}
	p->gaps[p->n_gaps++] = (struct gap){ from_ns, to_ns };
}

static uint64_t process_lost_records(const struct gpu_process *p)
{
	return p->state.dropped + p->state.unknown + p->feed->bad + p->feed->broken + p->lost_here;
}

static bool has_gap(const struct gpu_process *p, uint64_t from_ns, uint64_t to_ns)
{
	if (p->off_ns && to_ns > p->off_ns)
		return true;
	for (size_t i = 0; i < p->n_gaps; i++) {
		if (p->gaps[i].from_ns < to_ns && p->gaps[i].to_ns > from_ns)
			return true;
	}
	return false;
}

/* ---- from the ring ---- */

static void on_name(uint32_t id, const char *text, void *arg)
{
	struct gpu_process *p = arg;
	uint32_t n = p->n_names ? p->n_names : 256;

	if (id > GPU_NAME_IDS_MAX)
		return;
	while (n <= id)
		n *= 2;
	if (n > p->n_names) {
		p->names = xreallocarray(p->names, n, sizeof(*p->names));
		memset(p->names + p->n_names, 0, (n - p->n_names) * sizeof(*p->names));
		p->n_names = n;
	}
	p->names[id] = gpu_info_name(p->info, text);
}

/* Gives the recording's number of the process's device `own`. about: NULL if not described. false: there are too many. */
static bool find_device(struct gpu_process *p, uint32_t own, const struct gpu_device *about, uint32_t *ret_device)
{
	bool of_machine = p->state.vendor == GPU_VENDOR_AMD; /* see agent_device_number() in agent/rocm.c */

	if (!p->devices[own].any)
		p->devices[own].any = gpu_devices_add(gpu_info_devices(p->info), about, own, of_machine, &p->devices[own].number);
	*ret_device = p->devices[own].number;
	return p->devices[own].any;
}

static void on_device(uint32_t own, const struct gpu_device *about, void *arg)
{
	struct gpu_process *p = arg;
	uint32_t device;

	if (find_device(p, own, about, &device))
		gpu_devices_set(gpu_info_devices(p->info), device, about);
}

static void fill_kernel(const struct gpu_process *p, const struct gpu_kernel *k, struct rec_gpu *ret)
{
	ret->h.id = GPU_KERNEL;
	ret->name = k->name < p->n_names ? p->names[k->name] : 0;
	memcpy(ret->grid, k->grid, sizeof(ret->grid));
	memcpy(ret->block, k->block, sizeof(ret->block));
	ret->shared = k->shared_static + k->shared_dynamic;
	ret->shared_static = k->shared_static;
	ret->registers = k->registers;
	ret->graph = k->graph;
	ret->graph_node = k->graph_node;
}

static void fill_copy(const struct gpu_record *r, struct rec_gpu *ret)
{
	ret->h.id = r->kind == GPU_RECORD_COPY ? GPU_COPY : GPU_SET;
	ret->bytes = r->copy.bytes;
	ret->copy_kind = r->kind == GPU_RECORD_COPY ? r->copy.kind : 0;
	ret->graph = r->copy.graph;
	ret->graph_node = r->copy.graph_node;
}

static void on_activity(const struct gpu_record *r, void *arg)
{
	struct gpu_process *p = arg;
	struct rec_gpu *g;

	if (r->kind == GPU_RECORD_GRAPH) /* its kernels are recorded one by one */
		return;
	if (p->n_held == GPU_HELD_MAX) {
		p->lost_here++;
		return;
	}
	g = list_push(p->held, p->n_held, p->cap_held);
	*g = (struct rec_gpu){
		.h = { .kind = REC_GPU, .start_ns = r->start + (uint64_t)p->devices[r->device].shift_ns, .dur_ns = r->end - r->start, .tgid = p->tgid, .tid = p->tgid },
		.device = r->device,
		.context = r->context,
		.stream = r->stream,
		.correlation = r->correlation,
		.launch_tid = r->launched ? r->thread : 0,
		.launch_ns = r->thread ? r->launched : 0,
	};
	if (p->state.vendor == GPU_VENDOR_AMD)
		g->h.flags |= GPU_F_AMD;
	if (r->kind == GPU_RECORD_KERNEL)
		fill_kernel(p, &r->kernel, g);
	else
		fill_copy(r, g);
}

/* ---- handing over ---- */

static int record_compare_calls(const void *a, const void *b)
{
	const struct rec_gpu *x = a, *y = b;
	int before = (x->correlation > y->correlation) - (x->correlation < y->correlation);

	return before ? before : (x->h.start_ns > y->h.start_ns) - (x->h.start_ns < y->h.start_ns);
}

static int record_compare_starts(const void *a, const void *b)
{
	const struct rec_gpu *x = a, *y = b;

	return (x->h.start_ns > y->h.start_ns) - (x->h.start_ns < y->h.start_ns);
}

/* The list is mostly sorted already, since each stream's records come in order. */
static void records_sort(struct rec_gpu *list, size_t n, int (*compare)(const void *a, const void *b))
{
	size_t i = 1;

	while (i < n && compare(&list[i - 1], &list[i]) <= 0)
		i++;
	if (i < n)
		qsort(list, n, sizeof(*list), compare);
}

/* Returns the clock uncertainty of the times. */
static uint64_t process_residual_ns(const struct gpu_process *p)
{
	return p->skew_ns > p->state.residual_ns ? p->skew_ns : p->state.residual_ns;
}

/*
 * CUPTI relates the clock of a device to the CPU's once: on an H200 with 13.0, times of llama.cpp's kernels became 2 to 3 us early per
 * second, PyTorch's did not. Observed skew is corrected bit by bit, as one pair of a call and a kernel may be wrong.
 */
static void process_correct_clock(struct gpu_process *p, uint32_t device)
{
	struct join_skew skew = gpu_join_skew(p->join, device);
	uint64_t seen_ns = skew.early_ns > skew.late_ns ? skew.early_ns : skew.late_ns;

	if (skew.early_ns && skew.late_ns) /* one of them must be a wrong pair */
		return;
	p->devices[device].shift_ns += (int64_t)(skew.early_ns < SHIFT_MAX_NS ? skew.early_ns : SHIFT_MAX_NS);
	p->devices[device].shift_ns -= (int64_t)(skew.late_ns < SHIFT_MAX_NS ? skew.late_ns : SHIFT_MAX_NS);
	p->skew_ns = seen_ns > p->skew_ns ? seen_ns : p->skew_ns;
}

static void keep_run(struct gpu_process *p, const struct rec_gpu *g)
{
	if (p->n_runs == GPU_RUNS_MAX) {
		/* the older half, which no step has needed so far */
		p->runs_from_ns = p->runs[p->n_runs / 2].start_ns;
		memmove(p->runs, p->runs + p->n_runs / 2, (p->n_runs - p->n_runs / 2) * sizeof(*p->runs));
		p->n_runs -= p->n_runs / 2;
	}
	*list_push(p->runs, p->n_runs, p->cap_runs) = (struct gpu_run){
		.start_ns = g->h.start_ns,
		.end_ns = g->h.start_ns + g->h.dur_ns,
		.launched_ns = g->launched_ns,
		.device = g->device,
		.is_kernel = g->h.id == GPU_KERNEL,
		.is_collective = g->h.id == GPU_KERNEL && gpu_info_kernel(p->info, g->name)->is_collective,
		.launch_tid = g->launch_tid,
	};
}

/* The devices are described by now: the agent does that before it moves flushed_until. */
static void process_hand_over(struct gpu_process *p, struct rec_gpu *g, gpu_record_cb cb, void *arg)
{
	struct gpu_track of = { .tgid = g->h.tgid, .context = g->context, .stream = g->stream };

	p->used_last = g->device;
	if (!find_device(p, g->device, NULL, &g->device)) {
		p->lost_here++;
		return;
	}
	of.device = g->device;
	/* activity after the end of the recording is not part of it, but a step may have launched it */
	if (g->h.start_ns < p->end_ns || g->launch_tid)
		keep_run(p, g);
	if (g->h.start_ns >= p->end_ns)
		return;
	gpu_load_add(p->load, g);
	if (!gpu_info_track(p->info, &of, g->h.start_ns, g->h.start_ns + g->h.dur_ns, &g->track)) {
		p->lost_here++;
		return;
	}
	p->kept++;
	cb(&g->h, sizeof(*g), arg);
}

/* Sets the graph positions of the first n records held, which are in the order of their calls. */
static void process_place_in_graphs(struct gpu_process *p, size_t n)
{
	for (size_t i = 0, end; i < n; i = end) {
		const struct rec_gpu *first = &p->held[i];

		for (end = i + 1; end < n && p->held[end].correlation == first->correlation && p->held[end].graph == first->graph; end++)
			;
		if (first->graph && first->graph_node)
			gpu_graphs_launched(p->graphs, &p->held[i], end - i);
	}
}

/*
 * Whether the launching call may still come: probes see a call return, and the GPU may be done by then, e.g. if the thread was
 * preempted. If launches are missing anyway, nothing is held up for them; AMD's records say which call it is, so there up to
 * half may be missing.
 */
static bool record_may_wait(const struct gpu_process *p, const struct rec_gpu *g, uint64_t since_ns)
{
	uint64_t joined, missed;

	gpu_join_counts(p->join, &joined, &missed);
	return g->h.start_ns + g->h.dur_ns > since_ns && (g->launch_tid ? missed <= joined : !missed);
}

/* Hands over what ended up to until_ns; but a record that ended after since_ns waits for its call, as do all launched after it. Returns
 * the time up to which all is handed over. */
static uint64_t process_release_held(struct gpu_process *p, uint64_t until_ns, uint64_t since_ns, gpu_record_cb cb, void *arg)
{
	size_t n = 0, joined = 0;

	/* records that stay move to the end */
	for (size_t i = 0; i < p->n_held; i++) {
		struct rec_gpu g;

		if (p->held[i].h.start_ns + p->held[i].h.dur_ns > until_ns)
			continue;
		g = p->held[i];
		p->held[i] = p->held[n];
		p->held[n++] = g;
	}
	p->waits = false;
	if (!n)
		return until_ns;
	records_sort(p->held, n, record_compare_calls);
	while (joined < n &&
		gpu_join_activity(p->join, &p->held[joined], p->state.residual_ns, record_may_wait(p, &p->held[joined], since_ns)))
		joined++;
	for (uint32_t i = 0; i < GPU_DEVICES_MAX; i++)
		process_correct_clock(p, i);
	process_place_in_graphs(p, joined);
	records_sort(p->held, joined, record_compare_starts);
	for (size_t i = 0; i < joined; i++)
		process_hand_over(p, &p->held[i], cb, arg);
	p->waits = joined < n;
	for (size_t i = joined; i < n; i++) {
		uint64_t end_ns = p->held[i].h.start_ns + p->held[i].h.dur_ns;

		until_ns = end_ns <= until_ns ? end_ns - 1 : until_ns;
	}
	p->n_held -= joined;
	memmove(p->held, p->held + joined, p->n_held * sizeof(*p->held));
	return until_ns;
}

/* Everything up to then has been handed over. */
static void process_set_settled(struct gpu_process *p, uint64_t until_ns)
{
	if (until_ns > p->settled_ns)
		p->settled_ns = until_ns;
}

/* Drops calls that were waited for but whose activity is missing, at the latest after LATE_NS. */
static void process_settle_waits(struct gpu_process *p, uint64_t now_ns)
{
	gpu_join_settle(p->join, now_ns > p->settled_ns + LATE_NS ? now_ns - LATE_NS : p->settled_ns);
}

/* Hands over everything known to be complete, and what has been held for long. over: nothing more will come. */
static void process_release_due(struct gpu_process *p, uint64_t now_ns, bool over, gpu_record_cb cb, void *arg)
{
	/* in a pause no records are on their way */
	uint64_t until_ns = over || p->off_ns ? now_ns : p->state.flushed_until;

	if (over) {
		process_release_held(p, UINT64_MAX, UINT64_MAX, cb, arg);
		process_set_settled(p, until_ns);
	} else if (until_ns > p->settled_ns) {
		process_set_settled(p, process_release_held(p, until_ns, now_ns - HOLD_NS, cb, arg));
	} else if (now_ns >= p->looked_ns + LOOK_NS) { /* seldom, since it looks at all held records */
		process_release_held(p, now_ns - HOLD_NS, UINT64_MAX, cb, arg);
		p->looked_ns = now_ns;
	}
}

static size_t process_count_pending(uint64_t until_ns, void *arg)
{
	return gpu_join_pending(((struct gpu_process *)arg)->join, until_ns, NULL, 0);
}

static bool knows_all(const struct gpu_process *p, uint64_t from_ns, uint64_t to_ns)
{
	return p->first_on_ns && from_ns >= p->first_on_ns && !has_gap(p, from_ns, to_ns);
}

static bool process_is_known(uint64_t from_ns, uint64_t to_ns, void *arg)
{
	return knows_all(arg, from_ns, to_ns);
}

/*
 * Returns the time up to which activity is complete. While a device is never idle, CUPTI keeps records for long. If all launches are
 * seen, all activity before the first pending launch is there. Running activity has no record yet, but its launch was seen: what
 * follows that launch is not complete, unless it was long ago, since not every call launches something.
 */
static uint64_t complete_until(const struct gpu_process *p, uint64_t now_ns)
{
	uint64_t joined, missed, until_ns = p->settled_ns;
	struct launch first;
	bool runs = gpu_join_pending(p->join, UINT64_MAX, &first, 1);

	gpu_join_counts(p->join, &joined, &missed);
	if (joined && !missed && !p->waits) {
		uint64_t seen_ns = runs ? first.start_ns : now_ns - GRACE_NS;

		until_ns = seen_ns > until_ns ? seen_ns : until_ns;
	}
	if (runs && first.start_ns < until_ns)
		until_ns = first.start_ns > until_ns - PATIENCE_NS ? first.start_ns : until_ns - PATIENCE_NS;
	return until_ns;
}

static void process_emit_load(struct gpu_process *p, uint64_t until_ns, gpu_record_cb cb, void *arg)
{
	static const struct gpu_load_ops ops = { .pending = process_count_pending, .is_known = process_is_known };

	gpu_load_take(p->load, until_ns, &ops, p, cb, arg);
}

/* ---- calls and steps ---- */

void gpu_process_call(struct gpu_process *p, const struct launch *l)
{
	/* a call in a pause gets no records */
	if (l->end_ns < p->first_on_ns || (p->off_ns && l->start_ns >= p->off_ns) ||
		(l->start_ns >= p->pause_ns && l->start_ns < p->on_ns && p->pause_ns))
		return;
	gpu_join_call(p->join, l);
}

void gpu_process_operator(struct gpu_process *p, const struct rec_hdr *h, const char *name)
{
	uint64_t end_ns = h->start_ns + h->dur_ns;

	if (gpu_graphs_has_captured(p->graphs, h->tid, h->start_ns, end_ns))
		gpu_graphs_operator(p->graphs, h->tid, h->start_ns, end_ns, gpu_info_operator(p->info, name));
}

void gpu_process_wait(struct gpu_process *p, const uint64_t *stream, uint64_t start_ns, uint64_t end_ns)
{
	gpu_join_wait(p->join, stream, start_ns, end_ns);
}

bool gpu_process_step(struct gpu_process *p, const struct rec_step *r)
{
	uint64_t before_ns = 0;

	if (!p->state.on_since) /* collecting may have begun since the last turn */
		gpu_feed_state(p->feed, r->h.start_ns + r->h.dur_ns, &p->state);
	if (!p->state.on_since || p->state.state == GPU_STATE_FAILED)
		return false;
	if (p->n_steps == GPU_STEPS_MAX)
		return false;
	for (int i = 0; i < ST_MAX; i++)
		before_ns += r->before_ns[i];
	*list_push(p->steps, p->n_steps, p->cap_steps) = (struct gpu_waiting){
		.h = r->h,
		.number = r->number,
		.before_ns = before_ns <= r->h.start_ns ? before_ns : 0,
		.is_partial = r->h.start_ns < (p->first_on_ns ?: p->state.on_since) || r->h.start_ns < p->runs_from_ns,
	};
	return true;
}

/* Whether most launches are seen, so that they show what must have run. */
static bool knows_launches(const struct gpu_process *p)
{
	uint64_t joined, missed;

	gpu_join_counts(p->join, &joined, &missed);
	return joined > missed;
}

/* Whether more activity launched in the step may still come, such as nodes of a long-running graph. */
static bool step_is_still_running(const struct gpu_process *p, const struct gpu_waiting *s, uint64_t known_ns)
{
	uint64_t end_ns = s->h.start_ns + s->h.dur_ns;

	for (size_t i = p->n_runs; i--;) {
		if (p->runs[i].end_ns + GRACE_NS > known_ns && gpu_run_is_of(&p->runs[i], s->h.start_ns, end_ns))
			return true;
	}
	return false;
}

static bool step_is_ready(const struct gpu_process *p, const struct gpu_waiting *s, uint64_t now_ns)
{
	uint64_t end_ns = s->h.start_ns + s->h.dur_ns;
	uint64_t known_ns = p->settled_ns > now_ns - HOLD_NS ? p->settled_ns : now_ns - HOLD_NS;
	bool pending;

	if (p->settled_ns < end_ns + GRACE_NS && now_ns < end_ns + HOLD_NS + GRACE_NS)
		return false;
	if (now_ns < end_ns + LATE_NS && step_is_still_running(p, s, known_ns))
		return false;
	pending = gpu_join_pending(p->join, end_ns, NULL, 0);
	if (p->settled_ns >= end_ns + GRACE_NS)
		return !pending || p->settled_ns >= end_ns + PATIENCE_NS;
	return (!pending && knows_launches(p)) || now_ns >= end_ns + LATE_NS;
}

/* Divides a time by the activity around it and by the pending launches before its end. */
static void process_divide_time(const struct gpu_process *p, uint64_t start_ns, uint64_t end_ns, struct rec_gpu_step *r)
{
	struct gpu_run *list = xcalloc(p->n_runs + PENDING_MAX, sizeof(*list));
	struct launch *pending = xcalloc(PENDING_MAX, sizeof(*pending));
	size_t n = 0, n_pending = gpu_join_pending(p->join, end_ns, pending, PENDING_MAX);

	for (size_t i = 0; i < p->n_runs; i++) {
		if (p->runs[i].end_ns > start_ns && (p->runs[i].start_ns < end_ns || p->runs[i].launched_ns < end_ns))
			list[n++] = p->runs[i];
	}
	for (size_t i = 0; i < n_pending && i < PENDING_MAX; i++)
		list[n++] = (struct gpu_run){
			.start_ns = UINT64_MAX, .end_ns = UINT64_MAX, .launched_ns = pending[i].end_ns, .launch_tid = pending[i].tid
		};
	gpu_partition(list, n, start_ns, end_ns, r);
	free(list);
	free(pending);
}

static void step_divide_before(const struct gpu_process *p, const struct gpu_waiting *s, struct rec_gpu_step *r)
{
	uint64_t from_ns = s->h.start_ns - s->before_ns;
	struct rec_gpu_step before = { .device = r->device };

	if (!s->before_ns || from_ns < p->runs_from_ns || !knows_all(p, from_ns, s->h.start_ns))
		return;
	process_divide_time(p, from_ns, s->h.start_ns, &before);
	memcpy(r->before_ns, before.ns, sizeof(before.ns));
}

static bool find_tracks(struct gpu_process *p, struct rec_gpu_step *r)
{
	for (uint32_t i = 0; i < r->n_devices && i < GPU_STEP_DEVICES; i++) {
		struct gpu_step_device *d = &r->devices[i];
		const struct gpu_track of = { .device = d->device, .tgid = p->tgid, .stream = GPU_STREAM_STEPS };

		if (!gpu_info_track(p->info, &of, r->h.start_ns, r->h.start_ns + r->h.dur_ns, &d->track))
			return false;
	}
	return true;
}

static void process_emit_step(struct gpu_process *p, const struct gpu_waiting *s, gpu_record_cb cb, void *arg)
{
	struct rec_gpu_step r = { .h = s->h, .step = s->number, .residual_ns = process_residual_ns(p) };
	uint64_t end_ns = s->h.start_ns + s->h.dur_ns;
	bool is_known = !s->is_partial && (p->settled_ns >= end_ns || knows_launches(p)) && !has_gap(p, s->h.start_ns, end_ns);

	r.h.kind = REC_GPU_STEP;
	r.h.flags &= REC_F_OPEN_START | REC_F_OPEN_END;
	find_device(p, p->used_last, NULL, &r.device); /* in case no device did anything */
	if (is_known)
		process_divide_time(p, s->h.start_ns, end_ns, &r);
	if (!is_known || !find_tracks(p, &r)) {
		memset(r.ns, 0, sizeof(r.ns));
		memset(r.gaps, 0, sizeof(r.gaps));
		r.after_ns = r.n_devices = 0;
		r.h.flags |= GPU_STEP_F_LOST;
	} else {
		step_divide_before(p, s, &r);
	}
	for (int i = 0; i < GPU_GAPS; i++) {
		if (r.gaps[i].dur_ns && !r.gaps[i].tid)
			r.gaps[i].tid = s->h.tid;
	}
	cb(&r.h, REC_GPU_STEP_SIZE(r.n_devices < GPU_STEP_DEVICES ? r.n_devices : GPU_STEP_DEVICES), arg);
}

/* Forgets the older half of runs if no step will need it; a half at once, so that the list is seldom moved. */
static void forget_runs(struct gpu_process *p, uint64_t needed_ns)
{
	size_t n = p->n_runs / 2;

	if (n < RUNS_KEPT || p->runs[n].end_ns + KEEP_NS > needed_ns)
		return;
	p->runs_from_ns = p->runs[n].start_ns;
	p->n_runs -= n;
	memmove(p->runs, p->runs + n, p->n_runs * sizeof(*p->runs));
}

static void process_emit_steps(struct gpu_process *p, uint64_t now_ns, bool all, gpu_record_cb cb, void *arg)
{
	size_t n = 0;
	uint64_t needed_ns = now_ns;

	for (size_t i = 0; i < p->n_steps; i++) {
		struct gpu_waiting s = p->steps[i];

		if (all || step_is_ready(p, &s, now_ns)) {
			process_emit_step(p, &s, cb, arg);
			continue;
		}
		if (s.h.start_ns - s.before_ns < needed_ns)
			needed_ns = s.h.start_ns - s.before_ns;
		p->steps[n++] = s;
	}
	p->n_steps = n;
	forget_runs(p, needed_ns);
}

/* ---- */

/* Notes when collecting began and ended: activity in pauses is not known. */
static void process_track_pauses(struct gpu_process *p)
{
	const struct gpu_feed_state *st = &p->state;

	if (!st->on_since)
		return;
	if (!p->on_ns) {
		p->first_on_ns = st->on_since;
		gpu_join_forget(p->join, st->on_since);
	}
	if (p->on_ns && st->on_since != p->on_ns) {
		uint64_t from_ns = p->off_ns ?: p->settled_ns;

		process_add_gap(p, from_ns, st->on_since);
		gpu_join_forget(p->join, st->on_since);
		p->over_ns += p->is_over && st->on_since > from_ns ? st->on_since - from_ns : 0;
		p->pause_ns = from_ns;
		p->off_ns = 0;
		p->is_over = false;
	}
	p->on_ns = st->on_since;
	if (!p->off_ns && st->off_since >= st->on_since)
		p->off_ns = st->off_since;
	p->is_over |= st->state == GPU_STATE_OVER_BUDGET;
}

/* Notes a gap if records were lost since the last turn. Lost activity ended after the last known flush. */
static void process_note_losses(struct gpu_process *p, uint64_t now_ns)
{
	uint64_t n = process_lost_records(p);

	if (n == p->lost_seen && !p->feed->broken)
		return;
	p->lost_seen = n;
	process_add_gap(p, p->settled_ns, now_ns);
	gpu_join_forget(p->join, now_ns);
	gpu_graphs_lost(p->graphs);
}

static const struct gpu_feed_ops feed_ops = { .activity = on_activity, .name = on_name, .device = on_device };

bool gpu_process_drain(struct gpu_process *p, uint64_t now_ns, gpu_record_cb cb, void *arg)
{
	bool more, over, gone;

	/* before the drain: records written before this state are then in the ring */
	gpu_feed_state(p->feed, now_ns, &p->state);
	process_track_pauses(p);
	more = gpu_feed_drain(p->feed, now_ns, DRAIN_MAX, &feed_ops, p);
	gone = !more && gpu_state_is_over(p->state.state);
	/* in the turn in which the process goes, its last calls may not have been read yet */
	over = gone && p->was_gone;
	p->was_gone = gone;
	if (!more) {
		process_note_losses(p, now_ns);
		process_release_due(p, now_ns, over, cb, arg);
	}
	if (p->n_held > GPU_HELD_MAX / 2)
		process_release_held(p, UINT64_MAX, UINT64_MAX, cb, arg); /* out of order rather than not at all */
	process_emit_load(p, over ? p->settled_ns : complete_until(p, now_ns), cb, arg);
	process_settle_waits(p, now_ns);
	process_emit_steps(p, now_ns, over, cb, arg);
	return more;
}

void gpu_process_end(struct gpu_process *p, uint64_t end_ns)
{
	p->end_ns = end_ns;
	gpu_join_end(p->join, end_ns);
}

void gpu_process_finish(struct gpu_process *p, uint64_t now_ns, gpu_record_cb cb, void *arg)
{
	while (gpu_process_drain(p, now_ns, cb, arg))
		;
	process_release_held(p, UINT64_MAX, UINT64_MAX, cb, arg);
	process_set_settled(p, now_ns);
	process_emit_load(p, p->settled_ns, cb, arg);
	process_settle_waits(p, now_ns);
	process_emit_steps(p, now_ns, true, cb, arg);
}

void gpu_process_state(const struct gpu_process *p, struct gpu_feed_state *ret_state)
{
	*ret_state = p->state;
}

void gpu_process_counts(const struct gpu_process *p, struct gpu_counts *ret_counts)
{
	*ret_counts = (struct gpu_counts){
		.vendor = p->state.vendor,
		.kept = p->kept,
		.lost = process_lost_records(p),
		.dropped_cupti = p->state.dropped_cupti,
		.bad = p->feed->bad + p->feed->broken,
		.pending = gpu_join_pending(p->join, UINT64_MAX, NULL, 0),
		.residual_ns = process_residual_ns(p),
		.waited_ns = p->state.waited_ns,
		.over_ns = p->over_ns,
		.is_over = p->is_over,
	};
	gpu_join_counts(p->join, &ret_counts->joined, &ret_counts->missed);
}
