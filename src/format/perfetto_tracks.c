// SPDX-License-Identifier: BSD-2-Clause
/* Perfetto trace: processes, threads and their tracks, described before their first event. */
#include <stdlib.h>

#include "format/gpu.h"
#include "format/perfetto.h"
#include "util/list.h"

#define THREADS_FIRST 256
#define NO_RANK INT64_MIN

static char *put_comm(char *p, uint32_t field, const char comm[TASK_COMM_LEN])
{
	return proto_text(
		p, field, comm[0] ? comm : "?", comm[0] ? strnlen(comm, TASK_COMM_LEN) : 1);
}

static void write_tree_process(struct perfetto_sink *s, const struct perfetto_process *pr)
{
	char *packet, *tree, *process, *p = packet_begin(s, &packet);

	p = proto_u64(p, PACKET_TIMESTAMP, s->rec.start_boot_ns);
	p = proto_u64(p, PACKET_SEQUENCE, SEQUENCE_FTRACE);
	p = proto_open(p, PACKET_PROCESS_TREE, &tree);
	p = proto_open(p, 1 /* processes */, &process);
	p = proto_u64(p, 1 /* pid */, pr->tgid);
	p = put_comm(p, 3 /* cmdline */, pr->comm);
	p = proto_close(process, p);
	packet_end(s, packet, proto_close(tree, p));
}

static void write_tree_thread(struct perfetto_sink *s, const struct perfetto_thread *t)
{
	char *packet, *tree, *thread, *p = packet_begin(s, &packet);

	p = proto_u64(p, PACKET_TIMESTAMP, s->rec.start_boot_ns);
	p = proto_u64(p, PACKET_SEQUENCE, SEQUENCE_FTRACE);
	p = proto_open(p, PACKET_PROCESS_TREE, &tree);
	p = proto_open(p, 2 /* threads */, &thread);
	p = proto_u64(p, 1 /* tid */, t->tid);
	p = put_comm(p, 2 /* name */, t->comm);
	p = proto_u64(p, 3 /* tgid */, t->tgid);
	p = proto_close(thread, p);
	packet_end(s, packet, proto_close(tree, p));
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

	write_tree_process(s, pr);
	p = track_begin(s, pr->row, &packet, &track);
	p = proto_open(p, TRACK_PROCESS_FIELD, &process);
	p = proto_u64(p, 1 /* pid */, pr->tgid);
	p = put_comm(p, 6 /* process_name */, pr->comm);
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
	p = put_comm(p, 5 /* thread_name */, t->comm);
	p = proto_close(thread, p);
	/* else the slices would be cut where the thread's system calls end */
	p = proto_u64(p, TRACK_DISALLOW_MERGING, 1);
	track_end(s, packet, track, p);
}

static struct perfetto_process *name_process(struct perfetto_sink *s, struct perfetto_process *pr)
{
	struct task *t = tasks_get(s->rec.tasks, pr->tgid, pr->tgid);

	if (t->comm[0])
		memcpy(pr->comm, t->comm, TASK_COMM_LEN);
	pr->row = row_add(s);
	describe_process(s, pr);
	return pr;
}

struct perfetto_process *perfetto_process(struct perfetto_sink *s, uint32_t tgid)
{
	struct perfetto_process *pr = process_list_get(&s->processes, tgid, s->rec.tasks);

	return pr->row ? pr : name_process(s, pr);
}

void perfetto_tracks_reset(struct perfetto_sink *s)
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
	s->own_row = s->requests_row = 0;
	memset(s->gpu_rows, 0, sizeof(s->gpu_rows));
	memset(s->gpu_step_rows, 0, sizeof(s->gpu_step_rows));
	memset(s->gpu_counter_rows, 0, sizeof(s->gpu_counter_rows));
}

/* The slot of a thread, or the empty one where it belongs. */
static struct perfetto_thread *find_slot(struct perfetto_thread *table, size_t size, uint32_t tid)
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
			*find_slot(table, size, s->threads[i].tid) = s->threads[i];
	}
	free(s->threads);
	s->threads = table;
	s->threads_size = size;
}

static void name_thread(
	struct perfetto_sink *s, struct perfetto_thread *t, const char comm[TASK_COMM_LEN])
{
	struct perfetto_process *pr = perfetto_process(s, t->tgid);
	char text[PROTO_TEXT_MAX(TASK_COMM_LEN)], *end;

	memcpy(t->comm, comm, TASK_COMM_LEN);
	end = proto_text(text, 1, comm, strnlen(comm, TASK_COMM_LEN));
	t->text_len = (unsigned char)(end - text - PROTO_TEXT_HEAD);
	memcpy(t->text, text + PROTO_TEXT_HEAD, t->text_len);
	if (t->tid == t->tgid && memcmp(pr->comm, comm, TASK_COMM_LEN)) {
		memcpy(pr->comm, comm, TASK_COMM_LEN);
		describe_process(s, pr);
	}
	write_tree_thread(s, t);
	for (unsigned int kind = TRACK_CALLS; kind <= TRACK_STACKS; kind++) {
		if (t->rows[kind - TRACK_CALLS])
			describe_thread(s, t, (enum track_kind)kind);
	}
}

/* Describes a thread that is new, or has a new name or process. */
static void tell_thread(struct perfetto_sink *s, struct perfetto_thread *t, const struct task *task)
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
	name_thread(s, t, comm);
}

static struct perfetto_thread *look_at_thread(struct perfetto_sink *s, uint32_t tgid, uint32_t tid)
{
	struct perfetto_thread *t;
	struct task copy;

	if (!tid)
		return NULL;
	copy = *tasks_get(s->rec.tasks, tgid, tid); /* the table may grow */
	if (2 * s->n_threads >= s->threads_size)
		threads_grow(s);
	t = find_slot(s->threads, s->threads_size, tid);
	tell_thread(s, t, &copy);
	t->changes = tasks_changes(s->rec.tasks);
	return t;
}

struct perfetto_thread *perfetto_thread(struct perfetto_sink *s, uint32_t tgid, uint32_t tid)
{
	if (tid && s->threads_size) {
		struct perfetto_thread *t = find_slot(s->threads, s->threads_size, tid);

		if (t->tid == tid && t->tgid == tgid && t->changes == tasks_changes(s->rec.tasks))
			return t;
	}
	return look_at_thread(s, tgid, tid);
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

/* Describes a track of slices or of a counter (unit: its unit), below another one, once. rank: INT64_MIN: none. */
static uint32_t track_get(
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

uint32_t perfetto_lane(struct perfetto_sink *s, const struct rec_hdr *h, enum track_kind kind)
{
	struct perfetto_process *pr = perfetto_process(s, h->tgid);
	unsigned int which = kind == TRACK_REQUESTS, i = 0;

	while (i < pr->lanes[which] && pr->lane_end[which][i] > h->start_ns)
		i++;
	if (i == PERFETTO_LANES)
		return 0;
	pr->lane_end[which][i] = h->start_ns + h->dur_ns;
	pr->lanes[which] += i == pr->lanes[which];
	return track_get(s, &pr->lane_rows[which][i], pr->row, kind == TRACK_STEPS ? "steps" : "requests", NO_RANK, NULL);
}

uint32_t perfetto_counter(struct perfetto_sink *s, uint32_t tgid, unsigned int which, const char *name, const char *unit)
{
	struct perfetto_process *pr = perfetto_process(s, tgid);

	return track_get(s, &pr->counter_rows[which], pr->row, name, NO_RANK, unit);
}

uint32_t perfetto_own_row(struct perfetto_sink *s)
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

/* Describes a process that is none of the system's. */
static uint32_t pseudo_process(struct perfetto_sink *s, uint32_t *row, uint32_t pid, const char *name)
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

static uint32_t requests_row(struct perfetto_sink *s)
{
	return pseudo_process(s, &s->requests_row, REQUESTS_PID, REQUESTS_NAME);
}

static uint32_t gpu_process_row(struct perfetto_sink *s, uint32_t device)
{
	char name[GPU_LABEL_MAX];

	return pseudo_process(s, &s->gpu_rows[device], PID_GPU + device, gpu_label(s->rec.gpu, device, name));
}

uint32_t perfetto_gpu_counter(struct perfetto_sink *s, enum gpu_counter which, const struct rec_gpu_load *r)
{
	struct gpu_counter_row *of = s->gpu_counter_rows[r->h.id][which], *end = of + GPU_PROCESSES_MAX;
	char name[GPU_COUNTER_NAME_MAX];

	while (of < end && of->row && of->tgid != r->h.tgid)
		of++;
	if (of == end)
		return 0;
	of->tgid = r->h.tgid;
	return track_get(s, &of->row, gpu_process_row(s, r->h.id), gpu_counter_name(s->rec.gpu, which, r, name), NO_RANK,
		gpu_counter_unit(which));
}

uint32_t perfetto_gpu_row(struct perfetto_sink *s, uint32_t track, uint32_t device)
{
	const struct gpu_track *t = gpu_info_get_track(s->rec.gpu, track);

	if (!t || t->device != device || !gpu_track_is_steps(t))
		return 0;
	return track_get(s, &s->gpu_step_rows[track], gpu_process_row(s, device), t->name, -1, NULL);
}

uint32_t perfetto_request_row(struct perfetto_sink *s, uint32_t row)
{
	uint32_t *id = request_tracks_row_id(s->requests, row);
	char name[REQUEST_NAME_MAX];
	int64_t rank;

	if (*id)
		return *id;
	request_tracks_row_name(s->requests, row, name, &rank);
	return track_get(s, id, requests_row(s), name, rank, NULL);
}

uint32_t perfetto_request_counter(struct perfetto_sink *s, uint32_t group, enum request_counter which)
{
	uint32_t *id = request_tracks_counter_id(s->requests, group, which);
	char name[REQUEST_NAME_MAX];
	const char *unit;

	if (*id)
		return *id;
	request_tracks_counter_name(s->requests, group, which, name, &unit);
	return track_get(s, id, requests_row(s), name, (int64_t)which - REQUEST_COUNTERS, unit);
}
