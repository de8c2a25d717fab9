// SPDX-License-Identifier: BSD-2-Clause
#include "record/flight_store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "util/list.h"

/* ---- spans in flight ---- */

/* BPF programs read the clock before their change is visible: a span seen open can have ended this much earlier. */
#define CLOCK_SLACK_NS 10000

/* The kinds of spans that nest on a thread. */
#define KINDS_NESTED                                                                                       \
	(1u << REC_SYSCALL | 1u << REC_OFF_CPU | 1u << REC_ON_CPU | 1u << REC_FAULT | 1u << REC_FUNCTION | \
		1u << REC_STEP | 1u << REC_IRQ | 1u << REC_HOLD)

struct stored_thread {
	uint32_t tid;
	uint64_t at_ns;
	size_t from, to; /* its spans, as offsets in `data` */
};

struct in_flight {
	char *data; /* records, each preceded by its size */
	size_t len, cap;
	struct stored_thread *threads; /* once ready, sorted by tid */
	size_t n_threads, threads_cap;
	size_t thread_from; /* where the spans of the thread being added start */
	uint64_t since_ns;  /* a record that ended earlier is not replaced */
};

struct in_flight *in_flight_new(void)
{
	struct in_flight *f = xcalloc(1, sizeof(*f));

	f->since_ns = UINT64_MAX;
	return f;
}

void in_flight_free(struct in_flight *f)
{
	if (!f)
		return;
	free(f->data);
	free(f->threads);
	free(f);
}

static uint64_t record_end(const struct rec_hdr *h)
{
	return h->start_ns + h->dur_ns;
}

void in_flight_add(const struct rec_hdr *h, size_t size, void *in_flight)
{
	struct in_flight *f = in_flight;
	uint64_t head = size;

	if (f->len + sizeof(head) + size > f->cap) {
		f->cap = 2 * f->cap + 65536;
		f->data = xreallocarray(f->data, f->cap, 1);
	}
	memcpy(f->data + f->len, &head, sizeof(head));
	memcpy(f->data + f->len + sizeof(head), h, size);
	f->len += sizeof(head) + size;
	/* an operator may be peeked after its end: a thread's last one stays in flight until another follows */
	if (1u << h->kind & KINDS_NESTED && record_end(h) < f->since_ns)
		f->since_ns = record_end(h);
}

void in_flight_end_thread(uint32_t tid, uint64_t at_ns, void *in_flight)
{
	struct in_flight *f = in_flight;

	*list_push(f->threads, f->n_threads, f->threads_cap) =
		(struct stored_thread){ .tid = tid, .at_ns = at_ns, .from = f->thread_from, .to = f->len };
	f->thread_from = f->len;
	if (at_ns < f->since_ns)
		f->since_ns = at_ns;
}

static int compare_tids(const void *a, const void *b)
{
	const struct stored_thread *x = a, *y = b;

	return (x->tid > y->tid) - (x->tid < y->tid);
}

void in_flight_ready(struct in_flight *f)
{
	if (f->n_threads)
		qsort(f->threads, f->n_threads, sizeof(*f->threads), compare_tids);
	f->since_ns -= f->since_ns < CLOCK_SLACK_NS ? f->since_ns : CLOCK_SLACK_NS;
}

static const struct stored_thread *in_flight_find_thread(const struct in_flight *f, uint32_t tid)
{
	struct stored_thread key = { .tid = tid };

	return f->n_threads ? bsearch(&key, f->threads, f->n_threads, sizeof(key), compare_tids) : NULL;
}

uint64_t in_flight_at(const struct in_flight *f, uint32_t tid)
{
	const struct stored_thread *t = in_flight_find_thread(f, tid);

	return t ? t->at_ns : UINT64_MAX;
}

/* Returns the record at *offset, and moves on to the next. */
static const struct rec_hdr *record_at(const struct in_flight *f, size_t *offset, uint64_t *ret_size)
{
	const char *p = f->data + *offset;

	memcpy(ret_size, p, sizeof(*ret_size));
	*offset += sizeof(*ret_size) + *ret_size;
	return (const struct rec_hdr *)(p + sizeof(*ret_size));
}

void in_flight_each(const struct in_flight *f, record_cb cb, void *arg)
{
	for (size_t offset = 0; offset < f->len;) {
		uint64_t size;
		const struct rec_hdr *h = record_at(f, &offset, &size);

		cb(h, size, arg);
	}
}

void in_flight_drop(struct in_flight *f, bool (*drop)(const struct rec_hdr *h, void *arg), void *arg)
{
	size_t to = f->thread_from; /* the spans of threads stay where the threads' offsets point */

	for (size_t offset = to; offset < f->len;) {
		size_t from = offset;
		uint64_t size;

		if (drop(record_at(f, &offset, &size), arg))
			continue;
		memmove(f->data + to, f->data + from, offset - from);
		to += offset - from;
	}
	f->len = to;
}

bool is_same_span(const struct rec_hdr *open, void *arg)
{
	const struct rec_hdr *h = arg;
	/* an open step may have been reported as a call */
	uint32_t a = open->kind == REC_STEP ? REC_FUNCTION : open->kind, b = h->kind == REC_STEP ? REC_FUNCTION : h->kind;
	/* an open span may lack its id (why it is off-CPU), which is needed only for these kinds */
	bool several = a == REC_FUNCTION || a == REC_IRQ || a == REC_REQUEST;

	return open->start_ns == h->start_ns && open->tid == h->tid && a == b && (!several || open->id == h->id);
}

bool in_flight_replaces(const struct in_flight *f, const struct rec_hdr *h)
{
	const struct stored_thread *t;

	if (record_end(h) < f->since_ns || !(1u << h->kind & KINDS_NESTED))
		return false;
	t = in_flight_find_thread(f, h->tid);
	if (!t)
		return false;
	if (record_end(h) > t->at_ns)
		return true;
	for (size_t offset = t->from; offset < t->to;) {
		uint64_t size;

		if (is_same_span(record_at(f, &offset, &size), (void *)h))
			return true;
	}
	return false;
}

/* ---- the store ---- */

#define CHUNK_BYTES (256 * 1024)
#define CHUNK_BYTES_MIN (16 * 1024) /* holds several of the largest record */
#define CHUNKS_MIN 64               /* roughly, in the smallest store */
#define CHUNKS_MAX 8192             /* a larger store has larger chunks, since each has a header */
#define SPARE_MIN 2
#define SPARE_SHARE 16 /* 1/16 of the chunks is free when a dump begins */

/* Precedes each record. */
struct stored_entry {
	uint64_t size;
	struct rec_hdr rec[];
};

struct chunk {
	struct chunk *next; /* newer, or free */
	char *data;
	uint64_t start_ns, end_ns; /* the earliest start and latest end in it */
	uint32_t used;
	uint32_t count[REC_KIND_MAX];
	bool kept;   /* in the store; else only needed by the dump */
	bool pinned; /* the dump has not handed it over yet */
};

struct dump {
	bool running;
	uint64_t horizon_ns;
	struct tasks *names;
	struct tasks *first_names; /* with several passes: the names at the first record */
	unsigned int passes;       /* how many follow this one */
	struct chunk *first;
	struct chunk *chunk; /* handed over next; NULL: all were */
	uint32_t offset;
	struct chunk *last;
	uint32_t last_used; /* of the last chunk, which may keep growing */
};

/* Lies at the start of its memory, followed by the chunks' headers and data. */
struct flight {
	size_t bytes, chunk_bytes;
	uint64_t keep_ns;
	struct chunk *oldest, *newest; /* chunks of the store; records are appended to the newest */
	struct chunk *free[2];         /* [true]: those without pages */
	unsigned int n_chunks, n_free[2], spare;
	uint64_t horizon_ns, evicted;
	struct tasks *base; /* the names at the oldest record kept */
	struct dump dump;
	struct chunk chunks[];
};

static size_t round_up(size_t n, size_t to)
{
	return (n + to - 1) / to * to;
}

static uint32_t entry_bytes(size_t size)
{
	return (uint32_t)(sizeof(struct stored_entry) + round_up(size, sizeof(uint64_t)));
}

static struct stored_entry *entry_at(const struct chunk *c, uint32_t offset)
{
	return (struct stored_entry *)(c->data + offset);
}

static void push_free(struct flight *f, struct chunk *c, bool cold)
{
	c->next = f->free[cold];
	f->free[cold] = c;
	f->n_free[cold]++;
}

/* Divides up the f->bytes of memory. */
static void flight_divide_memory(struct flight *f, size_t page)
{
	size_t chunk = CHUNK_BYTES, front;

	while (chunk > CHUNK_BYTES_MIN && f->bytes / chunk < CHUNKS_MIN)
		chunk /= 2;
	while (f->bytes / chunk > CHUNKS_MAX)
		chunk *= 2;
	chunk = round_up(chunk, page);
	f->n_chunks = (unsigned int)((f->bytes - sizeof(*f) - page) / (chunk + sizeof(struct chunk)));
	f->chunk_bytes = chunk;
	f->spare = f->n_chunks / SPARE_SHARE;
	if (f->spare < SPARE_MIN)
		f->spare = SPARE_MIN;
	front = round_up(sizeof(*f) + f->n_chunks * sizeof(struct chunk), page);
	/* backwards, so that the first is taken first */
	for (unsigned int i = f->n_chunks; i-- > 0;) {
		f->chunks[i].data = (char *)f + front + i * chunk;
		push_free(f, &f->chunks[i], true);
	}
}

int flight_new(uint64_t bytes, uint64_t keep_ns, const struct tasks *tasks, struct flight **ret_flight)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct flight *f;

	bytes = bytes / page * page;
	if (bytes < FLIGHT_BYTES_MIN || bytes > FLIGHT_BYTES_MAX)
		return -EINVAL;
	f = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (f == MAP_FAILED)
		return -errno;
	f->bytes = bytes;
	f->keep_ns = keep_ns;
	flight_divide_memory(f, page);
	f->base = tasks_copy(tasks);
	*ret_flight = f;
	return 0;
}

void flight_free(struct flight *f)
{
	if (!f)
		return;
	flight_dump_end(f);
	tasks_free(f->base);
	munmap(f, f->bytes);
}

/* ---- chunks ---- */

static void free_chunk(struct flight *f, struct chunk *c)
{
	/* a few keep their pages, since they will soon be needed again */
	push_free(f, c, f->keep_ns && f->n_free[false] >= f->spare && !madvise(c->data, f->chunk_bytes, MADV_DONTNEED));
}

/* A chunk that the dump has not handed over yet stays linked to the next, and is freed after that. */
static void evict_oldest(struct flight *f)
{
	struct chunk *c = f->oldest;
	const struct stored_entry *e;

	/* its task records precede everything that is kept */
	for (uint32_t offset = c->count[REC_TASK] ? 0 : c->used; offset < c->used; offset += entry_bytes(e->size)) {
		e = entry_at(c, offset);
		if (e->rec->kind == REC_TASK)
			tasks_update(f->base, (const struct rec_task *)e->rec);
	}
	if (c->end_ns > f->horizon_ns)
		f->horizon_ns = c->end_ns;
	for (int k = 0; k < REC_KIND_MAX; k++)
		f->evicted += c->count[k];
	f->oldest = c->next;
	c->kept = false;
	if (!c->pinned)
		free_chunk(f, c);
}

/* Evicts until n chunks are free. The newest is never evicted: without a dump there are more than n chunks, and a dump
 * begins with spare ones, so by the time they run out there are newer chunks. */
static void flight_evict_chunks(struct flight *f, unsigned int n)
{
	while (f->n_free[false] + f->n_free[true] < n)
		evict_oldest(f);
}

static struct chunk *add_chunk(struct flight *f)
{
	struct chunk *c;
	bool cold;

	flight_evict_chunks(f, f->dump.running ? 1 : f->spare + 1);
	cold = !f->free[false];
	c = f->free[cold];
	f->free[cold] = c->next;
	f->n_free[cold]--;
	*c = (struct chunk){ .data = c->data, .start_ns = UINT64_MAX, .kept = true };
	if (f->newest)
		f->newest->next = c;
	else
		f->oldest = c;
	f->newest = c;
	return c;
}

/* ---- records ---- */

int flight_append(struct flight *f, const struct rec_hdr *rec, size_t size)
{
	struct chunk *c = f->newest;
	struct stored_entry *e;
	uint64_t end_ns;

	if (size < sizeof(*rec) || size > REC_SIZE_MAX || rec->kind >= REC_KIND_MAX ||
		(rec->kind == REC_TASK && size < sizeof(struct rec_task)))
		return -EINVAL;
	if (rec->kind == REC_MAPPED)
		return 0;
	if (!c || c->used + entry_bytes(size) > f->chunk_bytes)
		c = add_chunk(f);
	e = entry_at(c, c->used);
	e->size = size;
	memcpy(e->rec, rec, size);
	c->used += entry_bytes(size);
	c->count[rec->kind]++;
	end_ns = record_end(rec);
	if (end_ns > c->end_ns)
		c->end_ns = end_ns;
	if (rec->start_ns < c->start_ns)
		c->start_ns = rec->start_ns;
	return 0;
}

void flight_expire(struct flight *f, uint64_t now_ns)
{
	if (!f->keep_ns || now_ns < f->keep_ns)
		return;
	while (f->oldest != f->newest && f->oldest->end_ns < now_ns - f->keep_ns)
		evict_oldest(f);
}

void flight_get_stats(const struct flight *f, struct flight_stats *ret_stats)
{
	struct flight_stats st = {
		.bytes = f->bytes,
		.used_bytes = (f->n_chunks - f->n_free[false] - f->n_free[true]) * f->chunk_bytes,
		.horizon_ns = f->horizon_ns,
		.evicted = f->evicted,
		.oldest_ns = UINT64_MAX,
	};

	for (unsigned int i = 0; i < f->n_chunks; i++) {
		const struct chunk *c = &f->chunks[i];

		if (!c->kept)
			continue;
		if (c->start_ns < st.oldest_ns)
			st.oldest_ns = c->start_ns;
		for (int k = 0; k < REC_KIND_MAX; k++) {
			st.records[k] += c->count[k];
			st.kept += c->count[k];
		}
	}
	if (!st.kept)
		st.oldest_ns = 0;
	*ret_stats = st;
}

/* ---- dumps ---- */

int flight_dump_begin(struct flight *f, uint64_t at_ns, struct tasks *live, struct flight_dump *ret_dump)
{
	struct dump *d = &f->dump;
	struct tasks *names;

	if (d->running)
		return -EBUSY;
	/* the previous dump may have used up the spare ones */
	flight_evict_chunks(f, f->spare);
	names = tasks_copy(f->base);
	if (live)
		tasks_add_others(names, live);
	*d = (struct dump){
		.running = true,
		.names = names,
		.horizon_ns = f->horizon_ns,
		.first = f->oldest,
		.chunk = f->oldest,
		.last = f->newest,
		.last_used = f->newest ? f->newest->used : 0,
	};
	if (f->keep_ns && at_ns > f->keep_ns && at_ns - f->keep_ns > d->horizon_ns)
		d->horizon_ns = at_ns - f->keep_ns;
	for (struct chunk *c = f->oldest; c; c = c->next)
		c->pinned = true;
	*ret_dump = (struct flight_dump){ .horizon_ns = d->horizon_ns, .names = names };
	return 0;
}

static uint32_t dumped_bytes(const struct flight *f, const struct chunk *c)
{
	return c == f->dump.last ? f->dump.last_used : c->used;
}

/* A place among the records of the dump. */
struct cursor {
	const struct chunk *chunk;
	uint32_t offset;
};

/* Returns the next record, skipping most that ended before since_ns; NULL: there are no more. */
static const struct stored_entry *next_entry(const struct flight *f, struct cursor *at, uint64_t since_ns)
{
	const struct stored_entry *e;

	while (at->chunk && (at->offset == dumped_bytes(f, at->chunk) || at->chunk->end_ns < since_ns))
		*at = (struct cursor){ at->chunk == f->dump.last ? NULL : at->chunk->next, 0 };
	if (!at->chunk)
		return NULL;
	e = entry_at(at->chunk, at->offset);
	at->offset += entry_bytes(e->size);
	return e;
}

static int compare_newest_first(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x > y ? -1 : x < y;
}

/* When the nth step from the end began; 0: there are fewer. */
static uint64_t flight_nth_last_step(const struct flight *f, uint32_t n)
{
	struct cursor at = { f->dump.first, 0 };
	uint64_t *starts = NULL, ns = 0;
	const struct stored_entry *e;
	size_t len = 0, cap = 0;

	while ((e = next_entry(f, &at, 0))) {
		if (e->rec->kind == REC_STEP)
			*list_push(starts, len, cap) = e->rec->start_ns;
	}
	if (len >= n) {
		qsort(starts, len, sizeof(*starts), compare_newest_first);
		ns = starts[n - 1];
	}
	free(starts);
	return ns;
}

void flight_dump_last(struct flight *f, struct last last, uint64_t at_ns, struct flight_dump *dump)
{
	uint64_t from = last.n ? flight_nth_last_step(f, last.n) : last.ns && at_ns > last.ns ? at_ns - last.ns
											      : 0;

	if (from > f->dump.horizon_ns)
		f->dump.horizon_ns = dump->horizon_ns = from;
}

/* This pass is done with the dump's current chunk. */
static void flight_unpin_chunk(struct flight *f)
{
	struct dump *d = &f->dump;
	struct chunk *c = d->chunk;

	d->chunk = c == d->last ? NULL : c->next;
	d->offset = 0;
	if (d->passes)
		return;
	c->pinned = false;
	if (!c->kept)
		free_chunk(f, c);
}

int flight_dump_next(struct flight *f, record_cb cb, void *arg, unsigned int max_records)
{
	struct dump *d = &f->dump;

	while (d->chunk) {
		struct chunk *c = d->chunk;
		uint32_t end = dumped_bytes(f, c);

		if (c->end_ns <= d->horizon_ns && !c->count[REC_TASK])
			d->offset = end;
		while (d->offset < end) {
			const struct stored_entry *e = entry_at(c, d->offset);

			if (!max_records--)
				return 1;
			d->offset += entry_bytes(e->size);
			if (e->rec->kind == REC_TASK)
				tasks_update(d->names, (const struct rec_task *)e->rec);
			if (record_end(e->rec) > d->horizon_ns)
				cb(e->rec, e->size, arg);
		}
		flight_unpin_chunk(f);
	}
	return 0;
}

void flight_dump_end(struct flight *f)
{
	struct dump *d = &f->dump;

	if (d->passes)
		d->chunk = d->first;
	d->passes = 0;
	while (d->chunk)
		flight_unpin_chunk(f);
	tasks_free(d->names);
	tasks_free(d->first_names);
	*d = (struct dump){};
}

/* ---- dumps in passes ---- */

void flight_dump_passes(struct flight *f, unsigned int n)
{
	if (n < 2)
		return;
	f->dump.passes = n - 1;
	f->dump.first_names = tasks_copy(f->dump.names);
}

struct tasks *flight_dump_again(struct flight *f)
{
	struct dump *d = &f->dump;

	tasks_free(d->names);
	d->names = tasks_copy(d->first_names);
	d->chunk = d->first;
	d->offset = 0;
	d->passes--;
	return d->names;
}

void flight_dump_since(struct flight *f, uint64_t since_ns, record_cb cb, void *arg)
{
	struct cursor at = { f->dump.chunk, 0 };
	const struct stored_entry *e;

	while ((e = next_entry(f, &at, since_ns))) {
		if (record_end(e->rec) >= since_ns)
			cb(e->rec, e->size, arg);
	}
}

void flight_dump_processes(struct flight *f, struct thread_map *processes)
{
	struct cursor at = { f->dump.chunk, 0 };
	const struct stored_entry *e;

	while ((e = next_entry(f, &at, f->dump.horizon_ns))) {
		if (e->rec->kind != REC_ON_CPU && e->rec->kind != REC_METRIC && record_end(e->rec) > f->dump.horizon_ns)
			((struct flight_process *)thread_map_get(processes, e->rec->tgid))->records++;
	}
}
