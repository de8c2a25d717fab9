// SPDX-License-Identifier: BSD-2-Clause
#include "capture/sums.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "target/process.h"
#include "util/bisect.h"

static int compare_totals(const void *a, const void *b)
{
	uint32_t x = ((const struct process_totals *)a)->tgid,
		 y = ((const struct process_totals *)b)->tgid;

	return x < y ? -1 : x > y;
}

static int compare_calls(const void *a, const void *b)
{
	const struct syscall_key *x = &((const struct process_call *)a)->key,
				 *y = &((const struct process_call *)b)->key;

	if (x->tgid != y->tgid)
		return x->tgid < y->tgid ? -1 : 1;
	return x->nr < y->nr ? -1 : x->nr > y->nr;
}

/* Nothing adds to the maps any more, so a walk over the keys sees each entry once. */
static int processes_read(int fd, struct process_totals **ret_list, size_t *ret_n)
{
	struct process_totals *list;
	uint32_t key, *before = NULL;
	size_t n = 0;

	list = calloc(PROCESS_SUMS_MAX, sizeof(*list));
	if (!list)
		return -ENOMEM;
	for (; n < PROCESS_SUMS_MAX && !bpf_map_get_next_key(fd, before, &key); before = &key) {
		list[n].tgid = key;
		n += !bpf_map_lookup_elem(fd, &key, &list[n].sums);
	}
	qsort(list, n, sizeof(*list), compare_totals);
	*ret_list = list;
	*ret_n = n;
	return 0;
}

int sums_read_calls(int fd, struct process_call **ret_calls, size_t *ret_n)
{
	struct syscall_key key, *before = NULL;
	struct process_call *calls;
	size_t n = 0;

	calls = calloc(SYSCALL_SUMS_MAX, sizeof(*calls));
	if (!calls)
		return -ENOMEM;
	for (; n < SYSCALL_SUMS_MAX && !bpf_map_get_next_key(fd, before, &key); before = &key) {
		calls[n].key = key;
		n += !bpf_map_lookup_elem(fd, &key, &calls[n].sum);
	}
	qsort(calls, n, sizeof(*calls), compare_calls);
	*ret_calls = calls;
	*ret_n = n;
	return 0;
}

/* Leaves out the calls of a process that is in no list, since the list was full. */
static int calls_share(
	struct process_totals *list, size_t n, const struct process_call *calls, size_t n_calls)
{
	size_t i = 0;

	for (size_t k = 0; k < n; k++) {
		size_t from;

		while (i < n_calls && calls[i].key.tgid < list[k].tgid)
			i++;
		from = i;
		while (i < n_calls && calls[i].key.tgid == list[k].tgid)
			i++;
		if (i == from)
			continue;
		list[k].calls = calloc(i - from, sizeof(*list[k].calls));
		if (!list[k].calls)
			return -ENOMEM;
		for (size_t c = from; c < i; c++)
			list[k].calls[list[k].n_calls++] =
				(struct syscall_total){ .nr = calls[c].key.nr,
					.sum = calls[c].sum };
	}
	return 0;
}

int sums_read(int process_fd, int syscall_fd, struct process_totals **ret_list, size_t *ret_n)
{
	struct process_totals *list = NULL;
	struct process_call *calls = NULL;
	size_t n = 0, n_calls = 0;
	int err;

	err = processes_read(process_fd, &list, &n);
	if (!err)
		err = sums_read_calls(syscall_fd, &calls, &n_calls);
	if (!err)
		err = calls_share(list, n, calls, n_calls);
	free(calls);
	if (err) {
		sums_free(list, n);
		return err;
	}
	*ret_list = list;
	*ret_n = n;
	return 0;
}

void sums_free(struct process_totals *list, size_t n)
{
	for (size_t i = 0; list && i < n; i++)
		free(list[i].calls);
	free(list);
}

/* ---- memory ---- */

#define SAMPLE_NS UINT64_C(10000000)

struct process {
	uint32_t tgid;
	uint32_t round;
	bool gone;
	uint64_t before_bytes;  /* the highest resident set before the window */
	uint64_t highest_bytes; /* of all samples */
	struct rec_memory last;
	uint64_t rss_updates;
};

struct memory {
	int fd;
	struct process *processes; /* by tgid */
	size_t n;
	uint32_t round;
	uint64_t last_ns;
};

/* The context of tasks_each_process(). */
struct round {
	struct memory *m;
	uint64_t now_ns;
	record_cb cb;
	void *arg;
};

int memory_new(int sums_fd, struct memory **ret_memory)
{
	struct memory *m = calloc(1, sizeof(*m));

	if (!m)
		return -ENOMEM;
	m->fd = sums_fd;
	*ret_memory = m;
	return 0;
}

void memory_free(struct memory *m)
{
	if (!m)
		return;
	free(m->processes);
	free(m);
}

/* The index of a process in the list, or where it belongs. */
static size_t process_place(const struct memory *m, uint32_t tgid)
{
	return bisect(m->n, k, m->processes[k].tgid < tgid);
}

static struct process *process_find(const struct memory *m, uint32_t tgid)
{
	size_t i = process_place(m, tgid);

	return i < m->n && m->processes[i].tgid == tgid ? &m->processes[i] : NULL;
}

static struct process *process_get(struct memory *m, uint32_t tgid)
{
	size_t i = process_place(m, tgid);
	struct process *list;

	if (i < m->n && m->processes[i].tgid == tgid)
		return &m->processes[i];
	list = realloc(m->processes, (m->n + 1) * sizeof(*list));
	if (!list)
		return NULL;
	m->processes = list;
	memmove(list + i + 1, list + i, (m->n - i) * sizeof(*list));
	m->n++;
	list[i] = (struct process){ .tgid = tgid, .rss_updates = UINT64_MAX };
	return &list[i];
}

static void start_one(struct task *t, void *arg)
{
	struct process *p = process_get(arg, t->tgid);

	if (p)
		rss_peak_read((pid_t)t->tgid, &p->before_bytes);
}

void memory_start(struct memory *m, struct tasks *tasks)
{
	tasks_each_process(tasks, start_one, m);
}

static void process_record(struct process *p, const struct process_sums *s, const struct round *r)
{
	struct rec_memory *rec = &p->last;

	rec->h = (struct rec_hdr){
		.start_ns = r->now_ns,
		.tgid = p->tgid,
		.tid = p->tgid,
		.kind = REC_MEMORY,
	};
	rec->pages_allocated = s->pages_allocated;
	rec->pages_freed = s->pages_freed;
	rec->rss_bytes = 0;
	if (!p->gone)
		p->gone = rss_read((pid_t)p->tgid, &rec->rss_bytes) != 0;
	if (rec->rss_bytes > p->highest_bytes)
		p->highest_bytes = rec->rss_bytes;
	p->rss_updates = s->rss_updates;
	r->cb(&rec->h, sizeof(*rec), r->arg);
}

static void process_sample(struct process *p, const struct round *r, bool gone)
{
	struct process_sums s;

	if (bpf_map_lookup_elem(r->m->fd, &p->tgid, &s))
		return; /* nothing has happened yet, or there was no room */
	if (gone)
		p->gone = true;
	else if (s.rss_updates == p->rss_updates && s.pages_allocated == p->last.pages_allocated &&
		 s.pages_freed == p->last.pages_freed)
		return;
	process_record(p, &s, r);
}

static void sample_one(struct task *t, void *arg)
{
	struct round *r = arg;
	struct process *p = process_get(r->m, t->tgid);

	if (!p)
		return;
	if (p->round + 1 != r->m->round) /* a new process, perhaps with the number of an old one */
		p->gone = false;
	p->round = r->m->round;
	process_sample(p, r, false); /* even if it has no memory any more, since the kernel frees some of it later */
}

void memory_sample(
	struct memory *m, struct tasks *tasks, uint64_t now_ns, bool last, record_cb cb, void *arg)
{
	struct round r = { .m = m, .now_ns = now_ns, .cb = cb, .arg = arg };

	if (!last && now_ns - m->last_ns < SAMPLE_NS)
		return;
	m->last_ns = now_ns;
	m->round++;
	tasks_each_process(tasks, sample_one, &r);
	for (size_t i = 0; i < m->n; i++) {
		struct process *p = &m->processes[i];

		if (p->round + 1 == m->round)
			process_sample(p, &r, true);
		else if (last && p->round != m->round)
			process_sample(p, &r, false);
	}
}

/*
 * The highest resident set that the kernel remembers counts if it rose within the window. Otherwise
 * the samples have to do.
 */
void memory_totals(const struct memory *m, struct process_totals *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct process_totals *t = &list[i];
		const struct process *p = process_find(m, t->tgid);
		uint64_t before = p ? p->before_bytes : 0, highest;

		t->rss_peak_bytes = p ? p->highest_bytes : 0;
		t->lives = !rss_read((pid_t)t->tgid, &t->rss_bytes);
		if (t->lives && t->rss_bytes > t->rss_peak_bytes)
			t->rss_peak_bytes = t->rss_bytes;
		if (!t->lives)
			highest = t->sums.maxrss_pages * (uint64_t)sysconf(_SC_PAGESIZE);
		else if (rss_peak_read((pid_t)t->tgid, &highest))
			continue;
		if (highest > before && highest > t->rss_peak_bytes)
			t->rss_peak_bytes = highest;
	}
}
