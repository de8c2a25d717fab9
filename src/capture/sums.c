// SPDX-License-Identifier: BSD-2-Clause
#include "capture/sums.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "probe.h"
#include "target/process.h"
#include "util/list.h"

static int compare_totals(const void *a, const void *b)
{
	uint32_t x = ((const struct process_totals *)a)->tgid,
		 y = ((const struct process_totals *)b)->tgid;

	return x < y ? -1 : x > y;
}

static int compare_process_calls(const void *a, const void *b)
{
	const struct syscall_key *x = &((const struct process_call *)a)->key,
				 *y = &((const struct process_call *)b)->key;

	if (x->tgid != y->tgid)
		return x->tgid < y->tgid ? -1 : 1;
	return x->nr < y->nr ? -1 : x->nr > y->nr;
}

struct process_call *sums_read_calls(int fd, size_t *ret_n)
{
	struct process_call *calls = xcalloc(SYSCALL_SUMS_MAX, sizeof(*calls));
	struct syscall_key key, *before = NULL;
	size_t n = 0;

	for (; n < SYSCALL_SUMS_MAX && !bpf_map_get_next_key(fd, before, &key); before = &key) {
		calls[n].key = key;
		n += !bpf_map_lookup_elem(fd, &key, &calls[n].sum);
	}
	qsort(calls, n, sizeof(*calls), compare_process_calls);
	*ret_n = n;
	return calls;
}

struct process_totals *sums_read(int process_fd, int syscall_fd, size_t *ret_n)
{
	struct process_totals *list = xcalloc(PROCESS_SUMS_MAX, sizeof(*list));
	size_t n = 0, n_calls, i = 0;
	struct process_call *calls;
	uint32_t key, *before = NULL;

	/* nothing adds to the maps any more, so a walk over the keys sees each entry once */
	for (; n < PROCESS_SUMS_MAX && !bpf_map_get_next_key(process_fd, before, &key); before = &key) {
		list[n].tgid = key;
		n += !bpf_map_lookup_elem(process_fd, &key, &list[n].sums);
	}
	qsort(list, n, sizeof(*list), compare_totals);
	calls = sums_read_calls(syscall_fd, &n_calls);
	/* the calls of a process for which there was no room in the first map are left out */
	for (size_t k = 0; k < n; k++) {
		struct process_totals *t = &list[k];
		size_t from;

		while (i < n_calls && calls[i].key.tgid < t->tgid)
			i++;
		from = i;
		while (i < n_calls && calls[i].key.tgid == t->tgid)
			i++;
		if (i > from)
			t->calls = xcalloc(i - from, sizeof(*t->calls));
		for (size_t c = from; c < i; c++)
			t->calls[t->n_calls++] = (struct syscall_total){ .nr = calls[c].key.nr, .sum = calls[c].sum };
	}
	free(calls);
	*ret_n = n;
	return list;
}

void sums_free(struct process_totals *list, size_t n)
{
	for (size_t i = 0; list && i < n; i++)
		free(list[i].calls);
	free(list);
}

/* ---- memory ---- */

#define SAMPLE_NS UINT64_C(10000000)

struct sums_process {
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
	struct sums_process *processes; /* by tgid */
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

struct memory *memory_new(int sums_fd)
{
	struct memory *m = xcalloc(1, sizeof(*m));

	m->fd = sums_fd;
	return m;
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

static struct sums_process *memory_get_process(struct memory *m, uint32_t tgid)
{
	size_t i = process_place(m, tgid);
	struct sums_process *p;

	if (i < m->n && m->processes[i].tgid == tgid)
		return &m->processes[i];
	m->processes = xreallocarray(m->processes, m->n + 1, sizeof(*p));
	p = &m->processes[i];
	memmove(p + 1, p, (m->n++ - i) * sizeof(*p));
	*p = (struct sums_process){ .tgid = tgid, .rss_updates = UINT64_MAX };
	return p;
}

static void memory_start_process(struct task *t, void *arg)
{
	rss_peak_read((pid_t)t->tgid, &memory_get_process(arg, t->tgid)->before_bytes);
}

void memory_start(struct memory *m, struct tasks *tasks)
{
	tasks_each_process(tasks, memory_start_process, m);
}

static void process_record(struct sums_process *p, const struct process_sums *s, const struct round *r)
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

static void process_sample(struct sums_process *p, const struct round *r, bool gone)
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

static void memory_sample_process(struct task *t, void *arg)
{
	struct round *r = arg;
	struct sums_process *p = memory_get_process(r->m, t->tgid);

	if (p->round + 1 != r->m->round) /* a new process, perhaps with the number of an old one */
		p->gone = false;
	p->round = r->m->round;
	process_sample(p, r, false); /* even if it has no memory any more, since the kernel frees some of it later */
}

void memory_sample(struct memory *m, struct tasks *tasks, uint64_t now_ns, bool last, record_cb cb, void *arg)
{
	struct round r = { .m = m, .now_ns = now_ns, .cb = cb, .arg = arg };

	if (!last && now_ns - m->last_ns < SAMPLE_NS)
		return;
	m->last_ns = now_ns;
	m->round++;
	tasks_each_process(tasks, memory_sample_process, &r);
	for (size_t i = 0; i < m->n; i++) {
		struct sums_process *p = &m->processes[i];

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
		size_t at = process_place(m, t->tgid);
		const struct sums_process *p = at < m->n && m->processes[at].tgid == t->tgid ? &m->processes[at] : NULL;
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

#define PEEK_TRIES 3
#define PEEK_READ (1 << 16)

/* Returns a file descriptor whose reading runs the program. */
static int open_iterator(struct bpf_program *prog)
{
	struct bpf_link *link = bpf_program__attach_iter(prog, NULL);
	int fd;

	if (!link)
		return -errno;
	fd = bpf_iter_create(bpf_link__fd(link));
	if (fd < 0)
		fd = -errno;
	bpf_link__destroy(link); /* the file holds a reference of its own */
	return fd;
}

int snapshot_run(struct bpf_program *prog)
{
	int fd = open_iterator(prog);
	char buf[64];
	ssize_t n;

	if (fd < 0)
		return fd;
	while ((n = read(fd, buf, sizeof(buf))) > 0)
		;
	n = n < 0 ? -errno : 0;
	close(fd);
	return (int)n;
}

int snapshot_waiting(struct bpf_program *prog, volatile uint64_t *until, uint64_t boot_ns)
{
	if (!bpf_program__autoload(prog))
		return 0;
	*until = boot_ns;
	return snapshot_run(prog);
}

static int peek_read_all(int fd, char **ret_data, size_t *ret_len)
{
	char *data = NULL;
	size_t len = 0;
	ssize_t n;

	do {
		data = xreallocarray(data, len + PEEK_READ, 1);
		n = read(fd, data + len, PEEK_READ);
		len += n > 0 ? (size_t)n : 0;
	} while (n > 0);
	if (n < 0) {
		n = -errno;
		free(data);
		return (int)n;
	}
	*ret_data = data;
	*ret_len = len;
	return 0;
}

struct done {
	uint32_t *tids;
	size_t n, cap;
};

static bool done_has_thread(const struct done *d, uint32_t tid)
{
	for (size_t i = 0; i < d->n; i++) {
		if (d->tids[i] == tid)
			return true;
	}
	return false;
}

static uint64_t word_at(const char *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/* Passes on the records of one thread, up to its end. */
static void peek_pass_records(const char *from, const char *to, record_cb cb, void *arg)
{
	while (from < to) {
		uint64_t size = word_at(from);

		cb((const struct rec_hdr *)(from + sizeof(size)), size, arg);
		from += sizeof(size) + size;
	}
}

/* Returns how many threads were torn, or an error. All sizes are multiples of 8. */
static int peek_parse(const char *data, size_t len, struct done *d, record_cb cb, peek_cb thread_cb, void *arg)
{
	const char *p = data, *end = data + len, *first = data;
	struct peek_end thread;
	int torn = 0;

	while ((size_t)(end - p) >= sizeof(uint64_t)) {
		uint64_t size = word_at(p);

		if (size != PEEK_WHOLE && size != PEEK_TORN) {
			if (size < sizeof(struct rec_hdr) || size > (size_t)(end - p) - sizeof(size))
				return -EPROTO;
			p += sizeof(size) + size;
			continue;
		}
		if ((size_t)(end - p) < sizeof(thread))
			return -EPROTO;
		memcpy(&thread, p, sizeof(thread));
		if (!done_has_thread(d, thread.tid)) {
			if (size == PEEK_TORN) {
				torn++;
			} else {
				*list_push(d->tids, d->n, d->cap) = thread.tid;
				peek_pass_records(first, p, cb, arg);
				thread_cb(thread.tid, thread.at_ns, arg);
			}
		}
		p += sizeof(thread);
		first = p;
	}
	return torn;
}

int snapshot_peek(struct bpf_program *prog, record_cb cb, peek_cb thread_cb, void *arg)
{
	struct done d = { 0 };
	int torn = 1;

	for (int i = 0; i < PEEK_TRIES && torn > 0; i++) {
		char *data = NULL;
		size_t len = 0;
		int fd = open_iterator(prog), err;

		err = fd < 0 ? fd : peek_read_all(fd, &data, &len);
		torn = err ? err : peek_parse(data, len, &d, cb, thread_cb, arg);
		free(data);
		if (fd >= 0)
			close(fd);
	}
	free(d.tids);
	return torn < 0 ? torn : 0;
}
