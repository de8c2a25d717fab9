// SPDX-License-Identifier: BSD-2-Clause
/*
 * Perfetto's own format, streamed: a sequence of packets, each written as a whole, in the order in which
 * their records arrived. A reader sorts by time, and tolerates a file whose last packet is torn.
 */
#include "format/perfetto.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "engine/check.h"
#include "engine/rows.h"
#include "engine/spec.h"
#include "format/inputs.h"
#include "schema/left_out.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/fmt.h"
#include "util/host_id.h"
#include "util/list.h"
#include "util/names.h"
#include "util/program.h"

/* ---- processes, threads and their tracks, described before their first event ---- */

#define THREADS_FIRST 256

static char *put_task_comm(char *p, uint32_t field, const char comm[TASK_COMM_LEN])
{
	return proto_text(p, field, comm[0] ? comm : "?", comm[0] ? strnlen(comm, TASK_COMM_LEN) : 1);
}

/* Writes an entry of the process tree, where a reader finds names. tid 0: of the process itself. */
static void write_tree_entry(struct perfetto_sink *s, uint32_t tid, uint32_t tgid, const char comm[TASK_COMM_LEN])
{
	char *packet, *tree, *entry, *p = packet_begin(s, &packet);

	p = proto_u64(p, PACKET_TIMESTAMP, s->rec.start_boot_ns);
	p = proto_u64(p, PACKET_SEQUENCE, SEQUENCE_FTRACE);
	p = proto_open(p, PACKET_PROCESS_TREE, &tree);
	p = proto_open(p, tid ? 2 /* threads */ : 1 /* processes */, &entry);
	p = proto_u64(p, 1 /* tid, pid */, tid ? tid : tgid);
	p = put_task_comm(p, tid ? 2 /* name */ : 3 /* cmdline */, comm);
	p = tid ? proto_u64(p, 3 /* tgid */, tgid) : p;
	packet_end(s, packet, proto_close(tree, proto_close(entry, p)));
}

static uint32_t row_add(struct perfetto_sink *s)
{
	if (!s->n_rows)
		list_push(s->rows, s->n_rows, s->rows_size);
	*list_push(s->rows, s->n_rows, s->rows_size) = (struct perfetto_row){ 0 };
	return (uint32_t)s->n_rows - 1;
}

static char *track_begin(struct perfetto_sink *s, uint32_t row, char **ret_packet, char **ret_track)
{
	char *p = packet_begin(s, ret_packet);

	p = proto_u64(p, PACKET_SEQUENCE, SEQUENCE_EVENTS);
	p = proto_open(p, PACKET_TRACK, ret_track);
	return proto_u64(p, TRACK_UUID, row);
}

static void track_end(struct perfetto_sink *s, char *packet, char *track, char *p)
{
	packet_end(s, packet, proto_close(track, p));
}

static void describe_process(struct perfetto_sink *s, const struct perfetto_process *pr)
{
	const struct container *in = tasks_container(s->rec.tasks, pr->tgid);
	char *packet, *track, *process, *p, text[CONTAINER_TEXT_MAX];

	write_tree_entry(s, 0, pr->tgid, pr->comm);
	p = track_begin(s, pr->row, &packet, &track);
	p = proto_open(p, TRACK_PROCESS_FIELD, &process);
	p = proto_u64(p, 1 /* pid */, pr->tgid);
	p = put_task_comm(p, 6 /* process_name */, pr->comm);
	if (in) {
		container_text(in, text);
		p = proto_text(p, 8 /* process_labels */, text, strlen(text));
	}
	track_end(s, packet, track, proto_close(process, p));
}

static void describe_thread(
	struct perfetto_sink *s, const struct perfetto_thread *t, enum track_kind kind)
{
	static const char *const names[] = {
		[TRACK_CALLS] = "calls",
		[TRACK_OFF_CPU] = "off CPU",
		[TRACK_IPC] = "ipc",
		[TRACK_SYSCALLS] = "system calls",
		[TRACK_STACKS] = "waiting in",
	};
	char *packet, *track, *thread, *p;

	p = track_begin(s, t->rows[kind - TRACK_CALLS], &packet, &track);
	p = proto_text(p, TRACK_NAME, names[kind], strlen(names[kind]));
	p = proto_open(p, TRACK_THREAD_FIELD, &thread);
	p = proto_u64(p, 1 /* pid */, t->tgid);
	p = proto_u64(p, 2 /* tid */, t->tid);
	p = put_task_comm(p, 5 /* thread_name */, t->comm);
	p = proto_close(thread, p);
	/* else the slices would be cut where the thread's system calls end */
	p = proto_u64(p, TRACK_DISALLOW_MERGING, 1);
	track_end(s, packet, track, p);
}

static struct perfetto_process *perfetto_name_process(struct perfetto_sink *s, struct perfetto_process *pr)
{
	struct task *t = tasks_get(s->rec.tasks, pr->tgid, pr->tgid);

	if (t->comm[0])
		memcpy(pr->comm, t->comm, TASK_COMM_LEN);
	pr->row = row_add(s);
	describe_process(s, pr);
	return pr;
}

static struct perfetto_process *perfetto_get_process(struct perfetto_sink *s, uint32_t tgid)
{
	struct perfetto_process *pr = process_list_get(&s->processes, tgid, s->rec.tasks);

	return pr->row ? pr : perfetto_name_process(s, pr);
}

static void perfetto_tracks_reset(struct perfetto_sink *s)
{
	for (size_t i = 0; i < s->threads_size; i++)
		free(s->threads[i].calls);
	if (s->threads)
		memset(s->threads, 0, s->threads_size * sizeof(*s->threads));
	s->n_threads = 0;
	s->n_rows = s->n_calls = 0;
	/* their lanes continue, so that slices of different files do not overlap */
	for (size_t i = 0; i < s->processes.n; i++) {
		struct perfetto_process *pr = (struct perfetto_process *)s->processes.list + i;

		pr->row = 0;
		memset(pr->counter_rows, 0, sizeof(pr->counter_rows));
		memset(pr->lane_rows, 0, sizeof(pr->lane_rows));
	}
	s->own_row = s->requests_row = s->metrics_row = 0;
	memset(s->metric_rows, 0, sizeof(s->metric_rows));
	memset(s->gpu_rows, 0, sizeof(s->gpu_rows));
	memset(s->gpu_step_rows, 0, sizeof(s->gpu_step_rows));
	memset(s->gpu_counter_rows, 0, sizeof(s->gpu_counter_rows));
}

/* The slot of a thread, or the empty one where it belongs. */
static struct perfetto_thread *thread_find_slot(struct perfetto_thread *table, size_t size, uint32_t tid)
{
	size_t i = tid * 0x9e3779b1u & (size - 1); /* 2^32 / golden ratio */

	while (table[i].tid && table[i].tid != tid)
		i = (i + 1) & (size - 1);
	return &table[i];
}

static void threads_grow(struct perfetto_sink *s)
{
	size_t size = s->threads_size ? 2 * s->threads_size : THREADS_FIRST;
	struct perfetto_thread *table = xcalloc(size, sizeof(*table));

	for (size_t i = 0; i < s->threads_size; i++) {
		if (s->threads[i].tid)
			*thread_find_slot(table, size, s->threads[i].tid) = s->threads[i];
	}
	free(s->threads);
	s->threads = table;
	s->threads_size = size;
}

static void perfetto_name_thread(
	struct perfetto_sink *s, struct perfetto_thread *t, const char comm[TASK_COMM_LEN])
{
	struct perfetto_process *pr = perfetto_get_process(s, t->tgid);
	char text[PROTO_TEXT_MAX(TASK_COMM_LEN)], *end;

	memcpy(t->comm, comm, TASK_COMM_LEN);
	end = proto_text(text, 1, comm, strnlen(comm, TASK_COMM_LEN));
	t->text_len = (unsigned char)(end - text - PROTO_TEXT_HEAD);
	memcpy(t->text, text + PROTO_TEXT_HEAD, t->text_len);
	if (t->tid == t->tgid && memcmp(pr->comm, comm, TASK_COMM_LEN)) {
		memcpy(pr->comm, comm, TASK_COMM_LEN);
		describe_process(s, pr);
	}
	write_tree_entry(s, t->tid, t->tgid, t->comm);
	for (unsigned int kind = TRACK_CALLS; kind <= TRACK_STACKS; kind++) {
		if (t->rows[kind - TRACK_CALLS])
			describe_thread(s, t, (enum track_kind)kind);
	}
}

/* Describes a thread that is new, or has a new name or process. */
static void perfetto_update_thread(struct perfetto_sink *s, struct perfetto_thread *t, const struct task *task)
{
	char comm[TASK_COMM_LEN] = "";

	/* the bytes after the NUL are undefined */
	memcpy(comm, task->comm, strnlen(task->comm, TASK_COMM_LEN - 1));
	if (t->tid && t->tgid == task->tgid && !memcmp(t->comm, comm, TASK_COMM_LEN))
		return;
	s->n_threads += !t->tid;
	if (t->tid && t->tgid != task->tgid) { /* another thread with the same number */
		memset(t->rows, 0, sizeof(t->rows));
		free(t->calls);
		t->calls = NULL;
	}
	t->tid = task->tid;
	t->tgid = task->tgid;
	perfetto_name_thread(s, t, comm);
}

/* Not inlined: its registers would be saved for each record (5 of 382 instructions of a system call). */
static __attribute__((noinline)) struct perfetto_thread *perfetto_refresh_thread(struct perfetto_sink *s, uint32_t tgid, uint32_t tid)
{
	struct perfetto_thread *t;
	struct task copy;

	if (!tid)
		return NULL;
	copy = *tasks_get(s->rec.tasks, tgid, tid); /* the table may grow */
	if (2 * s->n_threads >= s->threads_size)
		threads_grow(s);
	t = thread_find_slot(s->threads, s->threads_size, tid);
	perfetto_update_thread(s, t, &copy);
	t->changes = tasks_changes(s->rec.tasks);
	return t;
}

struct perfetto_thread *perfetto_thread(struct perfetto_sink *s, uint32_t tgid, uint32_t tid)
{
	if (tid && s->threads_size) {
		struct perfetto_thread *t = thread_find_slot(s->threads, s->threads_size, tid);

		if (t->tid == tid && t->tgid == tgid && t->changes == tasks_changes(s->rec.tasks))
			return t;
	}
	return perfetto_refresh_thread(s, tgid, tid);
}

uint32_t perfetto_thread_row(struct perfetto_sink *s, struct perfetto_thread *t, enum track_kind kind)
{
	uint32_t *row = &t->rows[kind - TRACK_CALLS];

	if (!*row) {
		*row = row_add(s);
		describe_thread(s, t, kind);
	}
	return *row;
}

uint32_t perfetto_row(struct perfetto_sink *s, uint32_t tgid, uint32_t tid, enum track_kind kind)
{
	struct perfetto_thread *t = perfetto_thread(s, tgid, tid);

	return t ? perfetto_thread_row(s, t, kind) : 0;
}

uint32_t perfetto_track(
	struct perfetto_sink *s, uint32_t *row, uint32_t parent, const char *name, int64_t rank, const char *unit)
{
	char *packet, *track, *counter, *p;

	if (*row)
		return *row;
	*row = row_add(s);
	p = track_begin(s, *row, &packet, &track);
	p = proto_text(p, TRACK_NAME, name, strlen(name));
	p = proto_u64(p, TRACK_PARENT, parent);
	if (rank != NO_RANK)
		p = proto_s64(p, TRACK_RANK, rank);
	if (unit) {
		p = proto_open(p, TRACK_COUNTER, &counter);
		p = strcmp(unit, "bytes") ? proto_text(p, 6 /* unit_name */, unit, strlen(unit)) : proto_u64(p, 3 /* unit */, 3 /* UNIT_SIZE_BYTES */);
		p = proto_close(counter, p);
	} else {
		p = proto_u64(p, TRACK_DISALLOW_MERGING, 1);
	}
	track_end(s, packet, track, p);
	return *row;
}

static uint32_t perfetto_lane(struct perfetto_sink *s, const struct rec_hdr *h, enum track_kind kind)
{
	struct perfetto_process *pr = perfetto_get_process(s, h->tgid);
	unsigned int which = kind - TRACK_STEPS, i = 0;

	while (i < pr->lanes[which] && pr->lane_end[which][i] > h->start_ns)
		i++;
	if (i == PERFETTO_LANES)
		return 0;
	pr->lane_end[which][i] = h->start_ns + h->dur_ns;
	pr->lanes[which] += i == pr->lanes[which];
	return perfetto_track(s, &pr->lane_rows[which][i], pr->row, kind == TRACK_STEPS ? "steps" : "requests", NO_RANK, NULL);
}

static uint32_t perfetto_counter(struct perfetto_sink *s, uint32_t tgid, unsigned int which, const char *name, const char *unit)
{
	struct perfetto_process *pr = perfetto_get_process(s, tgid);

	return perfetto_track(s, &pr->counter_rows[which], pr->row, name, NO_RANK, unit);
}

static uint32_t perfetto_own_row(struct perfetto_sink *s)
{
	char *packet, *track, *p;

	if (s->own_row)
		return s->own_row;
	s->own_row = row_add(s);
	p = track_begin(s, s->own_row, &packet, &track);
	p = proto_text(p, TRACK_NAME, "inftrace", 8);
	track_end(s, packet, track, p);
	return s->own_row;
}

uint32_t perfetto_pseudo_process(struct perfetto_sink *s, uint32_t *row, uint32_t pid, const char *name)
{
	char *packet, *track, *process, *p;

	if (*row)
		return *row;
	*row = row_add(s);
	p = track_begin(s, *row, &packet, &track);
	p = proto_open(p, TRACK_PROCESS_FIELD, &process);
	p = proto_u64(p, 1 /* pid */, pid);
	p = proto_text(p, 6 /* process_name */, name, strlen(name));
	p = proto_close(process, p);
	p = proto_u64(p, TRACK_CHILD_ORDERING, 3 /* EXPLICIT */);
	track_end(s, packet, track, p);
	return *row;
}

static uint32_t requests_get_row(struct perfetto_sink *s)
{
	return perfetto_pseudo_process(s, &s->requests_row, REQUESTS_PID, REQUESTS_NAME);
}

static uint32_t perfetto_request_row(struct perfetto_sink *s, uint32_t row)
{
	uint32_t *id = request_tracks_row_id(s->requests, row);
	char name[REQUEST_NAME_MAX];
	int64_t rank;

	if (*id)
		return *id;
	request_tracks_row_name(s->requests, row, name, &rank);
	return perfetto_track(s, id, requests_get_row(s), name, rank, NULL);
}

static uint32_t perfetto_request_counter(struct perfetto_sink *s, uint32_t group, enum request_counter which)
{
	uint32_t *id = request_tracks_counter_id(s->requests, group, which);
	char name[REQUEST_NAME_MAX];
	const char *unit;

	if (*id)
		return *id;
	request_tracks_counter_name(s->requests, group, which, name, &unit);
	return perfetto_track(s, id, requests_get_row(s), name, (int64_t)which - REQUEST_COUNTERS, unit);
}

/* ---- records that become slices, instants and counters on tracks of their own ---- */

static void event_init_record(struct event *e, struct perfetto_sink *s, const struct rec_hdr *h,
	enum track_kind track, const char *category, const char *name)
{
	event_init(e, s, perfetto_row(s, h->tgid, h->tid, track), category, name);
}

static uint64_t double_bits(uint64_t bits, unsigned int size)
{
	uint32_t half = (uint32_t)bits;
	double d;
	float f;

	if (size != sizeof(f))
		return bits;
	memcpy(&f, &half, sizeof(f));
	d = f;
	memcpy(&bits, &d, sizeof(bits));
	return bits;
}

static void event_add_value(struct event *e, const struct probe_arg *a, uint64_t v)
{
	if (a->names && v < a->names->n && a->names->names[v])
		event_add_word(e, a->name, a->names->names[v]);
	else if (a->is_pointer)
		event_add(e, a->name, VALUE_POINTER, v);
	else if (a->is_float)
		event_add(e, a->name, VALUE_DOUBLE, double_bits(v, a->size));
	else
		event_add(e, a->name, a->is_signed ? VALUE_INT : VALUE_UINT, v);
}

static void event_add_args(
	struct event *e, const struct rec_hdr *h, const uint64_t *vals, const char *strs)
{
	const struct recording *rec = &e->s->rec;
	const struct probe_spec *s = &rec->probes->specs[h->id];
	char text[INPUTS_TEXT_MAX], *end;
	uint64_t bytes;

	for (unsigned int i = 0; i < s->nargs; i++) {
		const struct probe_arg *a = &s->args[i];
		const char *str = strs, *name = NULL;

		strs += a->is_string ? FUNC_STR_LEN : 0;
		if (!check_shown(s, i, vals) ||
			(s->fetch[i].flags & FETCH_F_LATE && h->flags & REC_F_OPEN_END))
			continue;
		if (a->is_handle && rec->handles)
			name = handles_get(rec->handles, h->tgid, vals[i]);
		if (a->is_string)
			event_add_text(e, a->name, str, strnlen(str, FUNC_STR_LEN));
		else if (name)
			event_add_text(e, a->name, name, strlen(name));
		else
			event_add_value(e, a, vals[i]);
	}
	if (bytes_of_call(s, vals, &bytes))
		event_add(e, "bytes", VALUE_UINT, bytes);
	if (s->nshapes) {
		end = inputs_write(text, &s->tensors, vals, INPUT_SHAPES);
		event_add_text(e, "Input Dims", text, (size_t)(end - text));
		end = inputs_write(text, &s->tensors, vals, INPUT_PROFILER_TYPES);
		event_add_text(e, "Input type", text, (size_t)(end - text));
	}
}

/* n NULL: nothing was counted. */
static void event_add_counts(struct event *e, const uint64_t *n)
{
	const struct counters *c = &e->s->rec.counters;
	uint64_t ipc, bits;
	double d;

	for (unsigned int i = 0; n && i < PMU_MAX; i++) {
		if (counters_have(c, i))
			event_add(e, counter_name(c->set, i), VALUE_UINT, n[i]);
	}
	if (n && counts_ipc(c, n, &ipc)) {
		d = (double)ipc / 1000;
		memcpy(&bits, &d, sizeof(bits));
		event_add(e, "ipc", VALUE_DOUBLE, bits);
	}
}

static void perfetto_function(struct perfetto_sink *s, const struct rec_function *r)
{
	const struct probe_spec *spec = probe_table_get(s->rec.probes, &r->h);
	enum held_kind kind;
	struct event e;

	if (!spec)
		return;
	event_init_record(&e, s, &r->h, TRACK_CALLS, probe_role_name(spec->role), probe_record_name(spec, r));
	event_add_args(&e, &r->h, r->vals, probe_record_strings(spec, r));
	event_add_counts(&e, probe_record_counts(spec, r));
	event_add_open(&e, r->h.flags);
	kind = spec->flags & PROBE_F_BEGIN ? HELD_PAIR
	       : spec->flags & PROBE_F_END ? HELD_END
					   : HELD_PLAIN;
	if (spec->flags & PROBE_F_INSTANT)
		event_write_instant(&e, perfetto_ts(s, r->h.start_ns));
	else
		event_write_record(&e, &r->h, kind);
}

static void event_add_states(struct event *e, const char *prefix, const uint64_t *ns)
{
	char key[64];

	for (int i = 0; i < ST_MAX; i++) {
		const char *name = time_state_name((enum time_state)i);

		if (!ns[i])
			continue;
		*fmt_str(fmt_str(key, prefix, strlen(prefix)), name, strlen(name)) = 0;
		event_add_copy(e, key, VALUE_UINT, ns[i]);
	}
}

/* Adds what the engine's scheduler says of itself. */
static void event_add_scheduler(struct event *e, const struct rec_step *r)
{
	char key[64];

	for (int i = 0; i < SCHEDULER_VALUES; i++) {
		if (!r->scheduler[i])
			continue;
		snprintf(key, sizeof(key), "scheduler.%s", scheduler_keys[i]);
		event_add_copy(e, key, VALUE_UINT, r->scheduler[i] - 1);
	}
}

static void perfetto_step(struct perfetto_sink *s, const struct rec_step *r, size_t size)
{
	char text[PARTS_TEXT_MAX], off[SHED_TEXT_MAX];
	const struct probe_spec *spec = probe_table_get(s->rec.probes, &r->h);
	struct event e;
	uint32_t lane;
	size_t len;

	if (!spec)
		return;
	event_init_record(&e, s, &r->h, TRACK_CALLS, "step", probe_spec_name(spec, r->vals));
	event_add_args(&e, &r->h, r->vals, r->strs[0]);
	if (r->n_parts > 1 && (len = parts_text(r, size, text)))
		event_add_text(&e, "batch", text, len);
	event_add(&e, "step", VALUE_UINT, r->number);
	event_add_scheduler(&e, r);
	event_add_states(&e, "breakdown_ns.", r->ns);
	event_add_states(&e, "before_ns.", r->before_ns);
	event_add_counts(&e, r->counted == COUNTED ? r->counts : NULL);
	if (r->lost)
		event_add(&e, "lost_records", VALUE_UINT, r->lost);
	if (spec->stand_in)
		event_add_word(&e, "stand_in", spec->symbol);
	if (r->h.flags & STEP_F_WATCHED)
		event_add(&e, "watched", VALUE_BOOL, 1);
	if (r->left_out)
		event_add_word(&e, "left_out", shed_text(r->left_out, off));
	if (r->left_out & SHED_CHANGED)
		event_add(&e, "left_out_changed", VALUE_BOOL, 1);
	event_add_open(&e, r->h.flags);
	event_write_record(&e, &r->h, spec->flags & PROBE_F_END ? HELD_END : HELD_PLAIN);
	/* with more steps at once than lanes, some are only on their threads' tracks */
	lane = perfetto_lane(s, &r->h, TRACK_STEPS);
	event_again(&e, lane);
	event_add(&e, "thread", VALUE_UINT, r->h.tid);
	event_write_span(&e, perfetto_ts(s, r->h.start_ns), r->h.start_ns + r->h.dur_ns);
	request_tracks_step(s->requests, r, lane);
}

static void perfetto_fault(struct perfetto_sink *s, const struct rec_fault *r)
{
	struct event e;

	event_init_record(&e, s, &r->h, TRACK_CALLS, "fault",
		r->h.flags & FAULT_F_MAJOR ? "page_fault_major" : "page_fault_minor");
	event_add(&e, "address", VALUE_POINTER, r->addr);
	if (r->h.flags & FAULT_F_KERNEL)
		event_add(&e, "kernel", VALUE_BOOL, 1);
	event_add_open(&e, r->h.flags);
	if (r->h.flags & FAULT_F_KERNEL)
		event_write_instant(&e, perfetto_ts(s, r->h.start_ns));
	else
		event_write_record(&e, &r->h, HELD_PLAIN);
}

/* ---- what drawn.c describes ---- */

static void event_add_drawn_arg(struct event *e, const struct drawn_arg *a)
{
	char name[32];

	switch (a->kind) {
	case DRAWN_NUMBER:
		event_add(e, a->name, VALUE_UINT, a->v);
		break;
	case DRAWN_POINTER:
		event_add(e, a->name, VALUE_POINTER, a->v);
		break;
	case DRAWN_TIME:
		snprintf(name, sizeof(name), "%s_ns", a->name);
		event_add_copy(e, name, VALUE_UINT, a->v);
		break;
	case DRAWN_FLAG:
		event_add(e, a->name, VALUE_BOOL, 1);
		break;
	case DRAWN_TEXT:
		event_add_text(e, a->name, a->text, a->v);
		break;
	case DRAWN_WORD:
		event_add_word(e, a->name, a->text);
		break;
	}
}

void event_init_drawn(struct event *e, struct perfetto_sink *s, uint32_t row, const struct drawn *d)
{
	switch (d->names) {
	case DRAWN_NAME_STAYS:
		event_init(e, s, row, d->category, d->name);
		break;
	case DRAWN_NAME_RECURS:
		event_init_copy(e, s, row, d->category, d->name);
		break;
	case DRAWN_NAME_OF_EACH:
		event_init_text(e, s, row, d->category, d->name);
		break;
	}
	for (size_t i = 0; i < d->n; i++)
		event_add_drawn_arg(e, &d->args[i]);
	event_add_open(e, d->flags);
}

static void perfetto_drawn(struct perfetto_sink *s, const struct rec_hdr *h)
{
	struct drawn d;
	struct event e;

	if (!drawn_of(&d, h, &s->irqs))
		return;
	event_init_drawn(&e, s, perfetto_row(s, h->tgid, h->tid, TRACK_CALLS), &d);
	if (h->kind == REC_TASK && h->id == TASK_EXIT && e.row)
		s->rows[e.row].waits_ns = 0; /* whatever it was in has been sent */
	if (d.as == DRAWN_SPAN)
		event_write_record(&e, h, HELD_PLAIN);
	else
		event_write_instant(&e, perfetto_ts(s, d.ns));
}

static void perfetto_memory(struct perfetto_sink *s, const struct rec_memory *r)
{
	struct drawn_counter d[MEMORY_COUNTERS];

	drawn_memory(d, r);
	for (unsigned int i = 0; i < MEMORY_COUNTERS; i++)
		event_write_counter(s, perfetto_counter(s, r->h.tgid, i, d[i].name, d[i].unit), r->h.start_ns, d[i].value);
}

static void perfetto_metric(struct perfetto_sink *s, const struct rec_metric *r)
{
	struct drawn_counter d;

	drawn_metric(&d, r);
	if (r->h.id < METRICS_MAX)
		event_write_real(s,
			perfetto_track(s, &s->metric_rows[r->h.id], perfetto_pseudo_process(s, &s->metrics_row, METRICS_PID, METRICS_NAME),
				d.name, NO_RANK, d.unit),
			r->h.start_ns, d.value);
}

/*
 * A flow binds to slices or instants. An instant of a waker shows where it was at the wake-up, perhaps
 * in a system call, which is not one of our slices. And viewers draw a flow from the end of what it
 * leaves to the beginning of what it enters, but the time off CPU begins before the wake-up.
 */
static void perfetto_write_flow(struct perfetto_sink *s, uint32_t from, uint64_t from_ns, uint32_t to, uint64_t to_ns,
	const char *category, const char *name)
{
	struct event e;

	event_init(&e, s, from, category, name);
	event_add_flow(&e, EVENT_FLOW, ++s->flow);
	event_write_instant(&e, perfetto_ts(s, from_ns));
	event_init(&e, s, to, category, name);
	event_add_flow(&e, EVENT_FLOW_END, s->flow);
	event_write_instant(&e, perfetto_ts(s, to_ns));
}

static void perfetto_off_cpu(struct perfetto_sink *s, const struct rec_off_cpu *r)
{
	bool from_irq = r->h.flags & OFF_CPU_F_WAKER_IRQ || !r->waker_tid;
	uint64_t end = r->h.start_ns + r->h.dur_ns;
	uint32_t waker_tgid = 0, from;
	struct task *waker;
	struct event e;

	event_init_record(&e, s, &r->h, TRACK_OFF_CPU, "sched", off_cpu_name((enum time_state)r->h.id));
	if (!e.row)
		return;
	event_add(&e, "cpu", VALUE_UINT, r->h.cpu);
	event_add(&e, "cpu_before", VALUE_UINT, r->cpu_from);
	if (r->h.flags & OFF_CPU_F_PREEMPT)
		event_add(&e, "preempted", VALUE_BOOL, 1);
	if (r->late)
		event_add(&e, "end_not_seen", VALUE_BOOL, 1);
	if (r->wake_ns)
		event_add(&e, "run_queue_ns", VALUE_UINT, end - off_cpu_runnable_ns(r));
	if (r->wake_ns && from_irq) {
		event_add_word(&e, "waker", "interrupt");
	} else if (r->wake_ns) {
		event_add(&e, "waker_tid", VALUE_UINT, r->waker_tid);
		waker = tasks_get_other(s->rec.tasks, r->waker_tid);
		waker_tgid = waker ? waker->tgid : 0;
		if (waker && waker->comm[0])
			event_add_word(&e, "waker", waker->comm);
	}
	event_add_open(&e, r->h.flags);
	event_write_record(&e, &r->h, HELD_PLAIN);
	if (!off_cpu_has_flow(r, &s->rec, waker_tgid))
		return;
	from = perfetto_row(s, waker_tgid, r->waker_tid, TRACK_CALLS);
	if (from) /* to just before it runs, as in the JSON */
		perfetto_write_flow(s, from, r->wake_ns, e.row, end - 1 > r->wake_ns ? end - 1 : r->wake_ns, "sched", "wake-up");
}

/* Perfetto knows only the names of the 64-bit table. */
static void perfetto_compat_syscall(struct perfetto_sink *s, const struct rec_syscall *r)
{
	struct event e;
	char name[32];

	*fmt_u32(fmt_lit(name, "compat_"), r->h.id) = 0;
	event_init_copy(&e, s, perfetto_row(s, r->h.tgid, r->h.tid, TRACK_CALLS), "syscall", name);
	if (!(r->h.flags & REC_F_OPEN_END))
		event_add(&e, "ret", VALUE_INT, (uint64_t)r->ret);
	event_add_open(&e, r->h.flags);
	event_write_record(&e, &r->h, HELD_PLAIN);
}

static void perfetto_ipc(struct perfetto_sink *s, const struct rec_syscall *r)
{
	const char *name = ipc_name(&r->h);
	struct event e;

	if (!name)
		return;
	event_init_record(&e, s, &r->h, TRACK_IPC, "ipc", name);
	event_add_word(&e, "kind", ipc_kind_name(&r->h));
	event_add_open(&e, r->h.flags);
	event_write_record(&e, &r->h, HELD_PLAIN);
}

/* ---- what the next step of each context waited for, on tracks of their own ---- */

static void perfetto_gap(struct perfetto_sink *s, const struct rec_gap *r)
{
	struct perfetto_process *pr = perfetto_get_process(s, r->h.tgid);
	const unsigned int which = TRACK_PATHS - TRACK_STEPS;
	unsigned int i = drawn_gap_track(pr->contexts, &pr->lanes[which], PERFETTO_LANES, r->context);
	char name[GAP_TRACK_NAME_MAX];
	struct rec_hdr at;
	struct drawn d;
	struct event e;
	uint32_t row;

	if (i == PERFETTO_LANES)
		return;
	row = perfetto_track(s, &pr->lane_rows[which][i], pr->row, drawn_gap_track_name(i, name), NO_RANK, NULL);
	for (unsigned int nth = 0; nth < drawn_gap_slices(r); nth++) {
		drawn_gap_slice(&d, &s->rec, r, nth, &at);
		event_init_drawn(&e, s, row, &d);
		event_write_span(&e, perfetto_ts(s, at.start_ns), perfetto_ts(s, at.start_ns + at.dur_ns));
	}
}

/* ---- requests on sockets, on tracks of their process, and those of batches, in a process of their own ---- */

static void perfetto_request(struct perfetto_sink *s, const struct rec_request *r)
{
	uint64_t start = perfetto_ts(s, r->h.start_ns);
	struct drawn d;
	struct event e;
	uint32_t row;

	perfetto_thread(s, r->h.tgid, r->h.tid);
	row = perfetto_lane(s, &r->h, TRACK_REQUESTS);
	if (!row)
		return;
	drawn_request(&d, r);
	event_init_drawn(&e, s, row, &d);
	event_write_span(&e, start, perfetto_ts(s, r->h.start_ns + r->h.dur_ns));
	if (r->first_chunk_ns) {
		event_init(&e, s, row, "requests", "ttft");
		event_write_span(&e, start, r->first_chunk_ns);
	}
}

static void perfetto_request_slice(const struct request_slice *rs, void *arg)
{
	struct perfetto_sink *s = arg;
	struct event e;

	event_init_drawn(&e, s, perfetto_request_row(s, rs->row), &rs->d);
	event_write_span(&e, perfetto_ts(s, rs->start), perfetto_ts(s, rs->end));
}

static void perfetto_request_flow(const struct request_flow *a, void *arg)
{
	struct perfetto_sink *s = arg;
	uint32_t from = a->lane ? a->lane : perfetto_request_row(s, a->from_row);

	perfetto_write_flow(s, from, a->from_ns, perfetto_request_row(s, a->row), a->ns, "batch", a->name);
}

static void perfetto_request_count(uint32_t group, enum request_counter counter, uint64_t ns, uint64_t value, void *arg)
{
	event_write_counter(arg, perfetto_request_counter(arg, group, counter), ns, value);
}

static const struct request_tracks_ops requests_ops = {
	.slice = perfetto_request_slice,
	.flow = perfetto_request_flow,
	.counter = perfetto_request_count,
};

#define SNAPSHOT_NS UINT64_C(5000000000)

/* ---- the file ---- */

static void write_clocks(struct perfetto_sink *s, uint64_t boot, uint64_t mono, uint64_t real)
{
	char *packet, *clocks, *p = packet_begin(s, &packet);

	p = proto_u64(p, PACKET_TIMESTAMP, boot);
	p = proto_u64(p, PACKET_SEQUENCE, SEQUENCE_FTRACE);
	p = proto_open(p, PACKET_CLOCKS, &clocks);
	p = put_clock(p, CLOCK_OF_BOOTTIME, boot);
	p = put_clock(p, CLOCK_OF_MONOTONIC, mono);
	p = put_clock(p, CLOCK_OF_REALTIME, real);
	p = proto_u64(p, 2 /* primary_trace_clock */, CLOCK_OF_BOOTTIME);
	packet_end(s, packet, proto_close(clocks, p));
	s->clock_ns = boot;
}

static void write_clocks_now(struct perfetto_sink *s)
{
	struct clock_reading now = clock_read();

	write_clocks(s, now.boot_ns, now.mono_ns, now.real_ns);
}

static void write_system(struct perfetto_sink *s)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	char *packet, *system, *mark, *p = packet_begin(s, &packet);
	static const char version[] = "inftrace " INFTRACE_VERSION;
	struct utsname u;

	p = proto_u64(p, PACKET_SEQUENCE, SEQUENCE_FTRACE);
	p = proto_open(p, PACKET_SYSTEM, &system);
	if (!uname(&u)) {
		/* a reader derives the table of system calls from the machine, the task states from
		 * the release */
		p = proto_open(p, 1 /* utsname */, &mark);
		p = proto_text(p, 1, u.sysname, strlen(u.sysname));
		p = proto_text(p, 2, u.version, strlen(u.version));
		p = proto_text(p, 3, u.release, strlen(u.release));
		p = proto_text(p, 4, u.machine, strlen(u.machine));
		p = proto_close(mark, p);
	}
	p = proto_text(p, 4 /* tracing_service_version */, version, strlen(version));
	if (cpus > 0)
		p = proto_u64(p, 8 /* num_cpus */, (uint64_t)cpus);
	packet_end(s, packet, proto_close(system, p));
}

/* Perfetto's name of a recording: how it was started. */
static void write_command_line(struct perfetto_sink *s)
{
	char *packet, *config, *p;

	if (!s->rec.command_line)
		return;
	p = packet_begin(s, &packet);
	p = proto_open(p, PACKET_CONFIG, &config);
	p = proto_text(p, 22 /* unique_session_name */, s->rec.command_line, strlen(s->rec.command_line));
	packet_end(s, packet, proto_close(config, p));
}

/* The host, and what relates its clock to those of other recordings, as an instant with the args of the JSON's clock readings:
 * Perfetto has no fields for them. */
static void write_host(struct perfetto_sink *s)
{
	const struct host_id *h = s->rec.host;
	char shift[24];
	struct event e;

	if (!h || !h->boot_id[0])
		return;
	event_init(&e, s, perfetto_own_row(s), "inftrace", "inftrace_clock");
	event_add_text(&e, "boot_id", h->boot_id, BOOT_ID_LEN);
	if (h->name[0])
		event_add_text(&e, "hostname", h->name, strlen(h->name));
	if (h->shift_ns)
		event_add_text(&e, "boottime_shift_ns", shift, (size_t)(fmt_s64(shift, h->shift_ns) - shift));
	event_write_instant(&e, s->clock_ns);
}

static void write_uuid(struct perfetto_sink *s)
{
	uint64_t id[2] = { s->rec.start_boot_ns, s->rec.start_real_ns };
	char *packet, *uuid, *p = packet_begin(s, &packet);

	if (getrandom(id, sizeof(id), GRND_NONBLOCK) < 0)
		id[1] ^= (uint64_t)getpid() << 32;
	p = proto_open(p, PACKET_UUID, &uuid);
	p = proto_u64(p, 1 /* msb */, id[0]);
	p = proto_u64(p, 2 /* lsb */, id[1]);
	packet_end(s, packet, proto_close(uuid, p));
}

static void perfetto_record(struct sink *sink, const struct rec_hdr *rec, size_t size)
{
	struct perfetto_sink *s = (struct perfetto_sink *)sink;

	switch (rec->kind) {
	case REC_SYSCALL:
		if (rec->flags & SYSCALL_F_COMPAT)
			perfetto_compat_syscall(s, (const struct rec_syscall *)rec);
		else
			perfetto_syscall(s, (const struct rec_syscall *)rec);
		perfetto_ipc(s, (const struct rec_syscall *)rec);
		break;
	case REC_OFF_CPU:
		perfetto_off_cpu(s, (const struct rec_off_cpu *)rec);
		perfetto_waking(s, (const struct rec_off_cpu *)rec);
		break;
	case REC_ON_CPU:
		perfetto_on_cpu(s, (const struct rec_on_cpu *)rec);
		break;
	case REC_FAULT:
		perfetto_fault(s, (const struct rec_fault *)rec);
		break;
	case REC_FUNCTION:
		perfetto_function(s, (const struct rec_function *)rec);
		break;
	case REC_STEP:
		perfetto_step(s, (const struct rec_step *)rec, size);
		break;
	case REC_TASK:
	case REC_IRQ:
	case REC_HOLD:
	case REC_PLACED:
	case REC_MESSAGE:
		perfetto_drawn(s, rec);
		break;
	case REC_REQUEST:
		perfetto_request(s, (const struct rec_request *)rec);
		break;
	case REC_MEMORY:
		perfetto_memory(s, (const struct rec_memory *)rec);
		break;
	case REC_GPU:
		perfetto_gpu(s, (const struct rec_gpu *)rec);
		break;
	case REC_GPU_STEP:
		perfetto_gpu_step(s, (const struct rec_gpu_step *)rec);
		break;
	case REC_GPU_LOAD:
		perfetto_gpu_load(s, (const struct rec_gpu_load *)rec);
		break;
	case REC_GAP:
		if (!(rec->flags & REC_F_OPEN_START)) /* else no step was before it */
			perfetto_gap(s, (const struct rec_gap *)rec);
		break;
	case REC_METRIC:
		perfetto_metric(s, (const struct rec_metric *)rec);
		break;
	case REC_STACK:
		perfetto_stack(s, (const struct rec_stack *)rec);
		break;
	}
}

static void perfetto_loss(struct sink *sink, const struct loss *l)
{
	struct perfetto_sink *s = (struct perfetto_sink *)sink;
	struct drawn d;
	struct event e;

	/* tells readers of the sequence to forget earlier names */
	interns_begin(s, true);
	perfetto_gpus_reset(s->gpus, true);
	perfetto_cpus_lost(s, l->count[REC_ON_CPU] + l->count[REC_OFF_CPU] + l->count[REC_SYSCALL]);
	drawn_loss(&d, l);
	event_init_drawn(&e, s, perfetto_own_row(s), &d);
	event_write_span(&e, perfetto_ts(s, l->from_ns), l->to_ns);
}

static void perfetto_mark(struct sink *sink, const struct mark *m)
{
	struct perfetto_sink *s = (struct perfetto_sink *)sink;
	struct drawn d;
	struct event e;

	drawn_mark(&d, m);
	event_init_drawn(&e, s, perfetto_own_row(s), &d);
	event_write_instant(&e, perfetto_ts(s, m->ns));
}

static void perfetto_settled(struct sink *sink)
{
	held_settled((struct perfetto_sink *)sink);
}

static int perfetto_flush(struct sink *sink)
{
	struct perfetto_sink *s = (struct perfetto_sink *)sink;

	perfetto_cpus_flush(s);
	if (clock_ns(CLOCK_BOOTTIME) - s->clock_ns >= SNAPSHOT_NS)
		write_clocks_now(s);
	return writer_flush(s->sink.w);
}

static void perfetto_first_process(struct task *t, void *arg)
{
	struct perfetto_sink *s = arg;

	if (!s->rec.tgid || s->rec.tgid == t->tgid)
		perfetto_get_process(s, t->tgid);
}

/* Comes after the clocks. */
static void perfetto_begin_file(struct perfetto_sink *s)
{
	write_uuid(s);
	write_system(s);
	write_command_line(s);
	interns_begin(s, false);
	write_host(s);
	tasks_each_process(s->rec.tasks, perfetto_first_process, s);
}

static void perfetto_end_file(struct perfetto_sink *s)
{
	held_close(s);
	perfetto_cpus_close(s);
	write_clocks_now(s);
}

static void perfetto_rotate(struct sink *sink, struct writer *w)
{
	struct perfetto_sink *s = (struct perfetto_sink *)sink;

	perfetto_end_file(s);
	s->sink.w = w;
	interns_reset(s->interns);
	perfetto_tracks_reset(s);
	perfetto_stacks_reset(s->stacks);
	perfetto_gpus_reset(s->gpus, false);
	request_tracks_rotate(s->requests);
	write_clocks_now(s);
	perfetto_begin_file(s);
}

static size_t perfetto_held(const struct sink *sink)
{
	return held_bytes((const struct perfetto_sink *)sink);
}

static int perfetto_close(struct sink *sink, const struct window_totals *t)
{
	struct perfetto_sink *s = (struct perfetto_sink *)sink;
	int err;

	(void)t;
	request_tracks_finish(s->requests);
	perfetto_end_file(s);
	err = writer_close(s->sink.w);
	irq_names_free(s->irqs);
	request_tracks_free(s->requests);
	interns_reset(s->interns);
	free(s->interns);
	free(s->held);
	perfetto_stacks_reset(s->stacks);
	free(s->stacks);
	free(s->gpus);
	perfetto_tracks_reset(s);
	free(s->processes.list);
	free(s->threads);
	free(s->rows);
	free(s);
	return err;
}

static const struct sink_ops perfetto_ops = {
	.record = perfetto_record,
	.loss = perfetto_loss,
	.mark = perfetto_mark,
	.settled = perfetto_settled,
	.flush = perfetto_flush,
	.rotate = perfetto_rotate,
	.held = perfetto_held,
	.close = perfetto_close,
};

struct sink *perfetto_sink_new(struct writer *w, const struct recording *rec)
{
	struct perfetto_sink *s = xcalloc(1, sizeof(*s));

	s->sink.ops = &perfetto_ops;
	s->rec = *rec;
	s->interns = interns_new();
	s->held = held_new();
	s->requests = request_tracks_new(&s->rec, &requests_ops, s);
	s->processes.size = sizeof(struct perfetto_process);
	s->sink.w = w;
	s->deltas_ns = rec->start_boot_ns;
	write_clocks(s, rec->start_boot_ns, rec->start_mono_ns, rec->start_real_ns);
	perfetto_begin_file(s);
	return &s->sink;
}
