// SPDX-License-Identifier: BSD-2-Clause
#include "record/in_flight.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A program reads the clock a moment before others can see what it changes, so a span can seem to have ended this
 * much before the instant at which it was still seen open. */
#define CLOCK_SLACK_NS 10000

/* The kinds of spans of a thread's time, which nest. */
#define KINDS_NESTED                                                                                          \
	(1u << REC_SYSCALL | 1u << REC_OFF_CPU | 1u << REC_ON_CPU | 1u << REC_FAULT | 1u << REC_FUNCTION |    \
		1u << REC_STEP | 1u << REC_IRQ | 1u << REC_HOLD)

struct thread {
	uint32_t tid;
	uint64_t at_ns;
	size_t from, to; /* its spans, as offsets in `data` */
};

struct in_flight {
	char *data; /* records, each preceded by its size */
	size_t len, cap;
	struct thread *threads; /* once ready, sorted by tid */
	size_t n_threads, threads_cap;
	size_t thread_from; /* start of the spans of the thread that is being added */
	uint64_t since_ns;  /* what ended before is neither later nor in flight */
	int err;
};

int in_flight_new(struct in_flight **ret_in_flight)
{
	struct in_flight *f = calloc(1, sizeof(*f));

	if (!f)
		return -ENOMEM;
	f->since_ns = UINT64_MAX;
	*ret_in_flight = f;
	return 0;
}

void in_flight_free(struct in_flight *f)
{
	if (!f)
		return;
	free(f->data);
	free(f->threads);
	free(f);
}

static uint64_t end_of(const struct rec_hdr *h)
{
	return h->start_ns + h->dur_ns;
}

void in_flight_add(const struct rec_hdr *h, size_t size, void *in_flight)
{
	struct in_flight *f = in_flight;
	uint64_t head = size;

	if (f->len + sizeof(head) + size > f->cap) {
		char *data = realloc(f->data, 2 * f->cap + 65536);

		if (!data) {
			f->err = -ENOMEM;
			return;
		}
		f->data = data;
		f->cap = 2 * f->cap + 65536;
	}
	memcpy(f->data + f->len, &head, sizeof(head));
	memcpy(f->data + f->len + sizeof(head), h, size);
	f->len += sizeof(head) + size;
	/* the operator in flight may have ended already: it is the thread's last one if no other follows */
	if (1u << h->kind & KINDS_NESTED && end_of(h) < f->since_ns)
		f->since_ns = end_of(h);
}

void in_flight_end_thread(uint32_t tid, uint64_t at_ns, void *in_flight)
{
	struct in_flight *f = in_flight;

	if (f->n_threads == f->threads_cap) {
		struct thread *threads = realloc(f->threads, (2 * f->threads_cap + 64) * sizeof(*threads));

		if (!threads) {
			f->err = -ENOMEM;
			f->len = f->thread_from;
			return;
		}
		f->threads = threads;
		f->threads_cap = 2 * f->threads_cap + 64;
	}
	f->threads[f->n_threads++] =
		(struct thread){ .tid = tid, .at_ns = at_ns, .from = f->thread_from, .to = f->len };
	f->thread_from = f->len;
	if (at_ns < f->since_ns)
		f->since_ns = at_ns;
}

int in_flight_error(const struct in_flight *f)
{
	return f->err;
}

static int compare_tids(const void *a, const void *b)
{
	const struct thread *x = a, *y = b;

	return (x->tid > y->tid) - (x->tid < y->tid);
}

void in_flight_ready(struct in_flight *f)
{
	if (f->n_threads)
		qsort(f->threads, f->n_threads, sizeof(*f->threads), compare_tids);
	f->since_ns -= f->since_ns < CLOCK_SLACK_NS ? f->since_ns : CLOCK_SLACK_NS;
}

static const struct thread *thread_of(const struct in_flight *f, uint32_t tid)
{
	struct thread key = { .tid = tid };

	return f->n_threads ? bsearch(&key, f->threads, f->n_threads, sizeof(key), compare_tids) : NULL;
}

uint64_t in_flight_at(const struct in_flight *f, uint32_t tid)
{
	const struct thread *t = thread_of(f, tid);

	return t ? t->at_ns : UINT64_MAX;
}

/* The record at an offset; sets the offset of the next. */
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

static uint32_t nested_kind(const struct rec_hdr *h)
{
	return h->kind == REC_STEP ? REC_FUNCTION : h->kind; /* the call of a step may be reported as either */
}

/* Compares no ids but those of functions, since it may not be known yet why a thread is off the CPU, and a thread
 * is in one fault and one system call at a time. */
static bool is_same(const struct rec_hdr *a, const struct rec_hdr *b)
{
	return a->start_ns == b->start_ns && nested_kind(a) == nested_kind(b) &&
	       (nested_kind(a) != REC_FUNCTION || a->id == b->id);
}

bool in_flight_replaces(const struct in_flight *f, const struct rec_hdr *h)
{
	const struct thread *t;

	if (end_of(h) < f->since_ns || !(1u << h->kind & KINDS_NESTED))
		return false;
	t = thread_of(f, h->tid);
	if (!t)
		return false;
	if (end_of(h) > t->at_ns)
		return true;
	for (size_t offset = t->from; offset < t->to;) {
		uint64_t size;

		if (is_same(record_at(f, &offset, &size), h))
			return true;
	}
	return false;
}
