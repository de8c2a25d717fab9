// SPDX-License-Identifier: BSD-2-Clause
#include "waits/way_back.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include <uthash.h>

#include "util/alloc.h"
#include "util/clock.h"
#include "util/list.h"

/* An entry is found by looking back through the logs of all CPUs at once, first a little, then ever further. */
#define LOOK_NS 100000
#define LOOK_GROWTH 8

/* Wake-ups at one instant may go round in a circle; and a gap of seconds on a busy machine may consist of very many segments. */
#define STEPS_MAX 65536

/* A wake-up may be logged before the switch of the thread that is about to sleep, on the other CPU. */
#define RACE_NS 50000

/* Entries of one CPU, by number. */
struct entries {
	uint64_t first, head; /* valid ones: first <= n < head; of runs the one at head is the running task */
	uint64_t at;          /* the place of the last search */
	uint64_t look;        /* how far the search in progress has got */
};

struct cpu_log {
	struct entries runs, wakes;
};

#define COLLECTORS_MAX 64 /* threads that collect garbage; the one that was the first to do so is forgotten */
#define KEPT_MAX 256      /* collections of each; the oldest is overwritten. A busy server has some 100 a second */

#define HANDED_KEPT (HANDED_MAX - HANDED_MAX / 8) /* the programs go on writing */

struct collector {
	UT_hash_handle hh;
	uint32_t tid;
	uint64_t n; /* collections so far */
	struct collection list[KEPT_MAX]; /* in their order */
};

struct wait_walker {
	struct wait_log log;
	uint64_t since_ns;
	struct cpu_log *cpu;
	struct collector *collectors;
	uint64_t collected; /* collections of the log that were taken */
};

/* A task's time on a CPU. */
struct run {
	uint64_t start_ns, end_ns; /* UINT64_MAX: it runs */
	const struct ran *entry;
	unsigned int cpu;
};

struct wait_walker *wait_walker_new(const struct wait_log *log)
{
	struct wait_walker *w = xcalloc(1, sizeof(*w));

	w->log = *log;
	w->cpu = xcalloc(log->cpus, sizeof(*w->cpu));
	return w;
}

void wait_walker_free(struct wait_walker *w)
{
	struct collector *c, *next;

	if (!w)
		return;
	HASH_ITER(hh, w->collectors, c, next)
	{
		HASH_DEL(w->collectors, c);
		free(c);
	}
	free(w->cpu);
	free(w);
}

/* ---- entries ---- */

static const struct ran *ran_of(const struct wait_walker *w, unsigned int cpu, uint64_t n)
{
	return &w->log.ran[((size_t)cpu << w->log.shift) + (n & ((1ull << w->log.shift) - 1))];
}

static const struct wake *wake_of(const struct wait_walker *w, unsigned int cpu, uint64_t n)
{
	return &w->log.wakes[((size_t)cpu << w->log.shift) + (n & ((1ull << w->log.shift) - 1))];
}

static uint64_t run_start(const struct wait_walker *w, unsigned int cpu, uint64_t n)
{
	uint64_t start = n ? ran_of(w, cpu, n - 1)->end_ns : 0;

	return start > w->since_ns ? start : w->since_ns;
}

static uint64_t run_end(const struct wait_walker *w, unsigned int cpu, uint64_t n)
{
	return n == w->cpu[cpu].runs.head ? UINT64_MAX : ran_of(w, cpu, n)->end_ns;
}

/* The programs go on writing: the oldest eighth of a ring is theirs. */
static void entries_look(struct entries *e, const uint64_t *head, unsigned int shift)
{
	uint64_t size = 1ull << shift, kept = size - size / 8;

	e->head = __atomic_load_n(head, __ATOMIC_ACQUIRE);
	e->first = e->head > kept ? e->head - kept : 0;
	if (e->at < e->first || e->at > e->head)
		e->at = e->head;
}

/* Since when all CPUs' logs are complete. */
static uint64_t logs_begin(struct wait_walker *w)
{
	uint64_t begin = w->since_ns;

	for (unsigned int i = 0; i < w->log.cpus; i++) {
		struct cpu_log *c = &w->cpu[i];
		uint64_t ns;

		entries_look(&c->runs, &w->log.heads[i].ran, w->log.shift);
		entries_look(&c->wakes, &w->log.heads[i].wakes, w->log.shift);
		ns = c->runs.first ? run_start(w, i, c->runs.first) : 0;
		if (ns > begin)
			begin = ns;
		ns = c->wakes.first ? wake_of(w, i, c->wakes.first)->ns : 0;
		if (ns > begin)
			begin = ns;
	}
	return begin;
}

/* Whether the programs have left alone what was read since logs_begin(). */
static bool logs_kept(const struct wait_walker *w)
{
	uint64_t size = 1ull << w->log.shift;

	for (unsigned int i = 0; i < w->log.cpus; i++) {
		const struct wait_log_heads *h = &w->log.heads[i];

		/* the entry at the head is being written, and an entry's start is the end of the one before */
		if (__atomic_load_n(&h->ran, __ATOMIC_ACQUIRE) + 2 > w->cpu[i].runs.first + size ||
			__atomic_load_n(&h->wakes, __ATOMIC_ACQUIRE) + 2 > w->cpu[i].wakes.first + size)
			return false;
	}
	return true;
}

/* Sets runs.at to the last run that began before at_ns, or to the first. */
static void runs_seek(struct wait_walker *w, unsigned int cpu, uint64_t at_ns)
{
	struct entries *e = &w->cpu[cpu].runs;

	while (e->at < e->head && run_start(w, cpu, e->at + 1) < at_ns)
		e->at++;
	while (e->at > e->first && run_start(w, cpu, e->at) >= at_ns)
		e->at--;
}

/* Finds the last run of the thread that began before at_ns, and did not end before from_ns. */
static bool find_run(struct wait_walker *w, uint32_t tid, uint64_t at_ns, uint64_t from_ns, struct run *ret)
{
	uint64_t width = LOOK_NS, low;
	bool found = false;

	if (at_ns <= from_ns)
		return false;
	for (unsigned int i = 0; i < w->log.cpus; i++) {
		runs_seek(w, i, at_ns);
		w->cpu[i].runs.look = w->cpu[i].runs.at;
	}
	do {
		low = at_ns - from_ns > width ? at_ns - width : from_ns;
		for (unsigned int i = 0; i < w->log.cpus; i++) {
			struct entries *e = &w->cpu[i].runs;

			for (; e->look + 1 > e->first && run_end(w, i, e->look) > low; e->look--) {
				uint64_t start = run_start(w, i, e->look);

				if (ran_of(w, i, e->look)->tid != tid || start >= at_ns)
					continue;
				if (!found || start > ret->start_ns)
					*ret = (struct run){ start, run_end(w, i, e->look), ran_of(w, i, e->look), i };
				found = true;
				break;
			}
		}
		width *= LOOK_GROWTH;
	} while (!found && low > from_ns);
	return found;
}

static void wakes_seek(struct wait_walker *w, unsigned int cpu, uint64_t at_ns)
{
	struct entries *e = &w->cpu[cpu].wakes;

	while (e->at < e->head && wake_of(w, cpu, e->at)->ns <= at_ns)
		e->at++;
	while (e->at > e->first && wake_of(w, cpu, e->at - 1)->ns > at_ns)
		e->at--;
}

/* Finds the last wake-up of the thread within from_ns..at_ns, or with WAKE_F_MOVED the last time that it was moved; NULL: none. */
static const struct wake *find_wake(struct wait_walker *w, uint32_t tid, uint64_t from_ns, uint64_t at_ns, uint8_t moved)
{
	const struct wake *found = NULL;
	uint64_t width = LOOK_NS, low;

	for (unsigned int i = 0; i < w->log.cpus; i++) {
		wakes_seek(w, i, at_ns);
		w->cpu[i].wakes.look = w->cpu[i].wakes.at;
	}
	do {
		low = at_ns - from_ns > width ? at_ns - width : from_ns;
		for (unsigned int i = 0; i < w->log.cpus; i++) {
			struct entries *e = &w->cpu[i].wakes;

			for (; e->look > e->first; e->look--) {
				const struct wake *k = wake_of(w, i, e->look - 1);

				if (k->ns < low)
					break;
				if (k->tid != tid || (k->flags & WAKE_F_MOVED) != moved)
					continue;
				if (!found || k->ns > found->ns)
					found = k;
				break;
			}
		}
		width *= LOOK_GROWTH;
	} while (!found && low > from_ns);
	return found;
}

/* ---- the way ---- */

struct walk {
	struct wait_walker *w;
	struct way *way;
	uint64_t from_ns, begin_ns, at_ns; /* explained from at_ns on */
	uint32_t on;
	uint32_t gil; /* who had a Python interpreter's lock when the wait for it that was looked at last began; 0: not known */
	unsigned int cpu; /* on which it came at at_ns */
	bool wakes;       /* at at_ns it woke the thread of the segment after it */
	unsigned int steps;
	size_t n; /* segments so far */
	bool (*is_answer)(uint32_t tgid, void *arg); /* NULL: it is not the way of a request */
	void *arg;
	uint32_t asked; /* this thread was given nothing since it woke last, or the way is there already ... */
	uint64_t woken_ns; /* ... which was then */
	struct gap_segment last;
};

static bool is_same(const struct gap_segment *a, const struct gap_segment *b)
{
	return a->tid == b->tid && a->state == b->state && a->call == b->call && a->file == b->file &&
	       (a->flags & GAP_SEGMENT_F_LIMITED) == (b->flags & GAP_SEGMENT_F_LIMITED);
}

/* Adds an earlier part to a segment. It then names who ran in that part, if that was for longer than the thread that it names has run. */
static void segment_extend(struct gap_segment *s, const struct gap_segment *more)
{
	if (s->by_tid == more->by_tid) {
		s->by_ns += more->dur_ns;
	} else if (s->by_ns < more->dur_ns) {
		s->by_tid = more->by_tid;
		s->by_tgid = more->by_tgid;
		memcpy(s->by, more->by, sizeof(s->by));
		s->by_ns = more->dur_ns;
	}
	s->start_ns = more->start_ns;
	s->dur_ns += more->dur_ns;
}

/* Adds what came before: s from start_ns to at_ns. */
static void walk_add(struct walk *k, uint64_t start_ns, struct gap_segment s)
{
	struct way *way = k->way;
	struct gap_segment *last = &k->last;

	if (start_ns < k->from_ns)
		start_ns = k->from_ns;
	if (start_ns >= k->at_ns)
		return;
	s.start_ns = start_ns;
	s.dur_ns = k->at_ns - start_ns;
	s.flags |= k->wakes ? GAP_SEGMENT_F_WAKES : 0;
	k->wakes = false;
	k->at_ns = start_ns;
	causes_add(&way->causes, &s);
	if (k->n && !(s.flags & GAP_SEGMENT_F_WAKES) && is_same(last, &s) && (k->is_answer || last->by_tid == s.by_tid) &&
		start_ns + s.dur_ns == last->start_ns) {
		segment_extend(last, &s);
	} else {
		*last = s;
		last->by_ns = s.dur_ns;
		k->n++;
	}
	if (k->n <= GAP_SEGMENTS_MAX)
		way->seg[k->n - 1] = *last;
}

static struct gap_segment segment_of(const struct run *r, uint8_t state)
{
	struct gap_segment s = { .tid = r->entry->tid, .tgid = r->entry->tgid, .call = CALL_NONE, .state = state };

	memcpy(s.comm, r->entry->comm, sizeof(s.comm));
	return s;
}

static void collections_add(struct wait_walker *w, const struct collection *new)
{
	struct collector *c, *oldest = w->collectors;
	const struct collection *last;

	if (new->end_ns <= new->start_ns) /* it is being written */
		return;
	HASH_FIND(hh, w->collectors, &new->tid, sizeof(new->tid), c);
	if (!c) {
		if (HASH_COUNT(w->collectors) == COLLECTORS_MAX) {
			HASH_DEL(w->collectors, oldest);
			free(oldest);
		}
		c = xcalloc(1, sizeof(*c));
		c->tid = new->tid;
		HASH_ADD(hh, w->collectors, tid, sizeof(c->tid), c);
	}
	last = c->n ? &c->list[(c->n - 1) % KEPT_MAX] : NULL;
	if (!last || last->end_ns <= new->start_ns) /* else it is an old one that is being overwritten */
		c->list[c->n++ % KEPT_MAX] = *new;
}

/* Takes those that are new in the log. */
static void collections_take(struct wait_walker *w)
{
	uint64_t n = w->log.n_collections ? __atomic_load_n(w->log.n_collections, __ATOMIC_ACQUIRE) : 0;

	if (n - w->collected > COLLECTIONS_MAX)
		w->collected = n - COLLECTIONS_MAX;
	for (; w->collected < n; w->collected++)
		collections_add(w, &w->log.collections[w->collected % COLLECTIONS_MAX]);
}

/* From start_ns on the thread computed, or collected garbage. */
static void walk_computing(struct walk *k, const struct run *r, uint64_t start_ns)
{
	uint64_t first, n;
	struct collector *c;

	HASH_FIND(hh, k->w->collectors, &k->on, sizeof(k->on), c);
	first = c && c->n > KEPT_MAX ? c->n - KEPT_MAX : 0;
	n = c ? first + bisect(c->n - first, i, c->list[(first + i) % KEPT_MAX].start_ns < k->at_ns) : 0;
	while (n-- > first && c->list[n % KEPT_MAX].end_ns > start_ns) {
		const struct collection *gc = &c->list[n % KEPT_MAX];

		walk_add(k, gc->end_ns, segment_of(r, ST_CPU));
		walk_add(k, gc->start_ns > start_ns ? gc->start_ns : start_ns, segment_of(r, ST_GC));
	}
	walk_add(k, start_ns, segment_of(r, ST_CPU));
}

/* The thread ran. Its page faults within the run are one segment, the first: when they were is not logged. Of a run that is not
 * over, or that began before the gap, it is not known how many of them are in it. */
static void walk_run(struct walk *k, const struct run *r)
{
	uint64_t fault_ns = r->end_ns < UINT64_MAX && r->start_ns >= k->from_ns && r->end_ns <= k->at_ns ? r->entry->fault_ns : 0;

	if (r->start_ns < k->at_ns && fault_ns < k->at_ns - r->start_ns)
		walk_computing(k, r, r->start_ns + fault_ns);
	walk_add(k, r->start_ns, segment_of(r, fault_ns ? ST_FAULT : ST_CPU));
}

/* From start_ns on the thread was in the queue of the CPU: divides that time among those that ran there. */
static void walk_queue(struct walk *k, uint64_t start_ns, struct gap_segment s)
{
	struct entries *e = &k->w->cpu[k->cpu].runs;

	runs_seek(k->w, k->cpu, k->at_ns);
	for (uint64_t n = e->at; n + 1 > e->first && k->at_ns > start_ns; n--) {
		const struct ran *by = ran_of(k->w, k->cpu, n);
		uint64_t from = run_start(k->w, k->cpu, n);

		s.by_tid = by->tid;
		s.by_tgid = by->tgid;
		memcpy(s.by, by->comm, sizeof(s.by));
		walk_add(k, from > start_ns ? from : start_ns, s);
	}
}

/* From start_ns on the thread could have run, at last on the CPU k->cpu. */
static void walk_runnable(struct walk *k, uint64_t start_ns, const struct run *r, bool limited)
{
	struct gap_segment s = segment_of(r, ST_RUNNABLE);
	const struct wake *moved;

	s.flags = limited ? GAP_SEGMENT_F_LIMITED : 0;
	if (start_ns < k->from_ns)
		start_ns = k->from_ns;
	if (limited)
		walk_add(k, start_ns, s);
	while (k->at_ns > start_ns + 1 && (moved = find_wake(k->w, k->on, start_ns + 1, k->at_ns - 1, WAKE_F_MOVED))) {
		walk_queue(k, moved->ns, s);
		if (k->at_ns > moved->ns || moved->call >= k->w->log.cpus)
			return;
		k->cpu = moved->call;
	}
	walk_queue(k, start_ns, s);
}

/* Calls in which a thread passes data to another one through the network: on one machine, the soft interrupt that wakes the
 * other is served within the call. */
static bool call_may_send(uint16_t call)
{
	static const uint16_t calls[] = { SYS_write, SYS_writev, SYS_sendto, SYS_sendmsg, SYS_sendmmsg, SYS_sendfile, SYS_splice,
		SYS_read, SYS_readv, SYS_recvfrom, SYS_recvmsg, SYS_recvmmsg, SYS_connect, SYS_accept, SYS_accept4, SYS_shutdown,
		SYS_close, SYS_io_uring_enter };

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		if (calls[i] == call)
			return true;
	}
	return false;
}

static bool leads_on(const struct wake *k, uint32_t on, uint8_t state)
{
	if (!k->waker_tid || k->waker_tid == on || k->flags & (WAKE_F_KERNEL | WAKE_F_MOVED))
		return false;
	if (!(k->flags & WAKE_F_IRQ))
		return true;
	return k->flags & WAKE_F_SOFT && call_may_send(k->call) && (state == ST_BLOCKED_NET || state == ST_BLOCKED_POLL);
}

/* The wake-up that ended the wait after a run. One from before the run began ended the wait before it: the kernel does not report
 * each of them. NULL: not known. */
static const struct wake *wake_after(struct walk *k, const struct run *r)
{
	uint64_t since_ns = r->end_ns > RACE_NS ? r->end_ns - RACE_NS : 0;

	return find_wake(k->w, k->on, since_ns > r->start_ns ? since_ns : r->start_ns, k->at_ns, 0);
}

#define GIL_LOOK_NS NSEC_PER_MSEC
#define GIL_LOOKS 64

/*
 * Who had a Python interpreter's lock as a wait for it after a run ended that nobody ended: who took it when the thread let it
 * go, which the thread waits for first (CPython: drop_gil() and take_gil(), FORCE_SWITCHING). 0: not known.
 */
static uint32_t gil_taker(struct walk *k, struct run r)
{
	const struct wake *wake;
	struct run before;

	for (int i = 0; i < GIL_LOOKS && r.end_ns - r.start_ns <= GIL_LOOK_NS; i++) {
		if (!find_run(k->w, k->on, r.start_ns, k->begin_ns, &before))
			return 0;
		wake = find_wake(k->w, k->on, before.end_ns, r.start_ns, 0);
		if (before.entry->state == ST_BLOCKED_GIL && wake && leads_on(wake, k->on, ST_BLOCKED_GIL))
			return wake->waker_tid;
		if (before.entry->state != ST_BLOCKED_GIL && before.entry->state != ST_RUNNABLE)
			return 0;
		r = before;
	}
	return 0;
}

/*
 * Who had a Python interpreter's lock when the thread, which ran from ran_ns on, had waited for it in vain: who is waiting for the
 * lock to be taken when it takes it. The thread had no CPU when the lock was let go, so nobody woke it then. 0: not known.
 */
static uint32_t gil_giver(struct walk *k, uint64_t ran_ns)
{
	struct wait_walker *w = k->w;
	struct run r;

	for (unsigned int i = 0; i < w->log.cpus; i++) {
		wakes_seek(w, i, ran_ns);
		for (uint64_t n = w->cpu[i].wakes.at; n < w->cpu[i].wakes.head; n++) {
			const struct wake *wake = wake_of(w, i, n);

			if (wake->ns > ran_ns + GIL_LOOK_NS)
				break;
			if (wake->waker_tid == k->on && !(wake->flags & (WAKE_F_IRQ | WAKE_F_MOVED)) &&
				find_run(w, wake->tid, wake->ns, k->begin_ns, &r) && r.entry->state == ST_BLOCKED_GIL)
				return wake->tid;
		}
	}
	return 0;
}

/* The thread waited since the end of the run: goes on with the thread that woke it, or with what it did before. */
static void walk_wait(struct walk *k, const struct run *r)
{
	uint64_t off_ns = r->end_ns, ran_ns = k->at_ns, wake_ns;
	const struct wake *wake = wake_after(k, r);
	struct gap_segment s = segment_of(r, r->entry->state);
	struct run by;

	if (wake) {
		wake_ns = wake->ns > off_ns ? wake->ns : off_ns;
		walk_runnable(k, wake_ns, r, false);
		if (s.state != ST_STOPPED && leads_on(wake, k->on, s.state)) {
			k->on = wake->waker_tid;
			k->wakes = k->n;
			k->gil = 0;
			return;
		}
		/* whoever continued it did not keep it from going on */
		if (s.state == ST_STOPPED && !(wake->flags & WAKE_F_IRQ) && find_run(k->w, wake->waker_tid, wake->ns, k->begin_ns, &by)) {
			s.by_tid = by.entry->tid;
			s.by_tgid = by.entry->tgid;
			memcpy(s.by, by.entry->comm, sizeof(s.by));
		}
	}
	if (s.state == ST_BLOCKED_GIL && (k->gil || (k->gil = gil_giver(k, ran_ns)) || (k->gil = gil_taker(k, *r)))) {
		k->on = k->gil;
		k->gil = 0;
		return;
	}
	s.call = r->entry->call;
	s.file = r->entry->file;
	walk_add(k, off_ns, s);
}

/* Goes on before the thread's first run in the logs: it was created then, or had waited since before they begin. */
static void walk_first(struct walk *k, const struct run *first)
{
	const struct wake *wake = find_wake(k->w, k->on, k->begin_ns, k->at_ns, 0);
	struct ran unseen = *first->entry;

	if (wake && wake->flags & WAKE_F_FORK) {
		walk_runnable(k, wake->ns, first, false);
		k->on = wake->waker_tid;
		k->wakes = k->n;
		return;
	}
	unseen.state = ST_BLOCKED_OTHER;
	unseen.call = CALL_NONE;
	walk_wait(k, &(struct run){ .end_ns = k->begin_ns, .entry = &unseen });
}

/* Whether the way goes on. */
static bool walk_may(struct walk *k, uint64_t from_ns)
{
	if (k->at_ns <= from_ns || k->way->end != GAP_COMPLETE)
		return false;
	if (k->at_ns <= k->begin_ns)
		k->way->end = GAP_TOO_OLD;
	else if (k->steps++ == STEPS_MAX || (k->is_answer && k->n >= GAP_SEGMENTS_MAX))
		k->way->end = GAP_TOO_LONG;
	return k->way->end == GAP_COMPLETE;
}

static void walk_step(struct walk *k);

/* What the thread has read since it woke last that another one had written since then, the latest; false: nothing that is logged. */
static bool find_handed(const struct walk *k, struct handed *ret)
{
	const struct wait_log *l = &k->w->log;
	uint64_t head = __atomic_load_n(l->n_handed, __ATOMIC_ACQUIRE), first = head > HANDED_KEPT ? head - HANDED_KEPT : 0;
	uint64_t n = first + bisect(head - first, i, l->handed[(first + i) % HANDED_MAX].ns <= k->at_ns);

	while (n-- > first) {
		const struct handed *h = &l->handed[n % HANDED_MAX];

		if (h->ns <= k->woken_ns)
			return false;
		if (h->tid != k->on || h->sent_ns <= k->woken_ns || k->is_answer(h->by_tgid, k->arg))
			continue;
		*ret = *h;
		return true;
	}
	return false;
}

/* If the thread has got data since it woke last, it could not go on before that was written: goes on with who did. */
static bool walk_handed(struct walk *k)
{
	uint64_t from_ns = k->from_ns;
	const struct wake *woken;
	struct handed h;

	if (!k->is_answer || (k->on == k->asked && k->at_ns > k->woken_ns))
		return false;
	woken = find_wake(k->w, k->on, k->begin_ns, k->at_ns, 0);
	k->asked = k->on;
	k->woken_ns = woken ? woken->ns : k->begin_ns;
	if (!woken || !find_handed(k, &h) || h.sent_ns <= from_ns)
		return false;
	k->from_ns = h.sent_ns;
	while (walk_may(k, h.sent_ns) && k->on == h.tid)
		walk_step(k);
	k->from_ns = from_ns;
	k->on = h.by;
	k->wakes = k->n;
	return true;
}

/* When the thread was created, if it was not woken since; else when the logs begin. No earlier run is its own, so none is looked for: for
 * each of a client's threads that would be in all of the logs. */
static uint64_t created_or_begin(const struct walk *k)
{
	const struct wake *wake = find_wake(k->w, k->on, k->begin_ns, k->at_ns, 0);

	return wake && wake->flags & WAKE_F_FORK ? wake->ns : k->begin_ns;
}

static void walk_step(struct walk *k)
{
	struct run r, before;

	if (walk_handed(k))
		return;
	if (!find_run(k->w, k->on, k->at_ns, k->begin_ns, &r)) { /* on a CPU that has not switched since the logs begin */
		walk_add(k, k->begin_ns, (struct gap_segment){ .tid = k->on, .call = CALL_NONE, .state = ST_CPU });
		return;
	}
	if (r.end_ns >= k->at_ns) {
		k->cpu = r.cpu;
		walk_run(k, &r);
		if (k->at_ns <= k->from_ns)
			return;
		if (!find_run(k->w, k->on, k->at_ns, created_or_begin(k), &before) || before.entry->state == ST_CPU) {
			walk_first(k, &r); /* before.entry: another thread that had its number */
			return;
		}
		r = before;
	}
	if (r.entry->state == ST_RUNNABLE)
		walk_runnable(k, r.end_ns, &r, r.entry->flags & RAN_F_THROTTLED);
	else
		walk_wait(k, &r);
}

static struct walk walk_begin(struct wait_walker *w, uint64_t since_ns, uint64_t from_ns, uint64_t to_ns, struct way *ret)
{
	ret->end = GAP_COMPLETE;
	ret->n = 0;
	memset(&ret->causes, 0, sizeof(ret->causes));
	w->since_ns = since_ns;
	collections_take(w);
	return (struct walk){ .w = w, .way = ret, .from_ns = from_ns, .at_ns = to_ns, .begin_ns = logs_begin(w) };
}

/* Goes back to from_ns. */
static void walk_to(struct walk *k, uint64_t from_ns)
{
	k->from_ns = from_ns;
	while (walk_may(k, from_ns))
		walk_step(k);
}

/* From the thread back to where the walk is to end, with its causes. */
static void walk_whole(struct walk *k, uint32_t tid)
{
	struct way *ret = k->way;
	uint64_t from_ns = k->from_ns, to_ns = k->at_ns;

	k->on = tid;
	walk_to(k, from_ns);
	if (!logs_kept(k->w)) {
		memset(&ret->causes, 0, sizeof(ret->causes));
		ret->end = GAP_TOO_OLD;
		k->at_ns = to_ns;
		k->n = 0;
	}
	k->wakes = false;
	walk_add(k, from_ns, (struct gap_segment){ .call = CALL_NONE, .state = ST_MAX });
	ret->n = k->n < GAP_SEGMENTS_MAX ? k->n : GAP_SEGMENTS_MAX;
	causes_finish(&ret->causes, GAP_CAUSES_MAX);
}

void way_back(struct wait_walker *w, uint32_t tid, uint64_t since_ns, uint64_t from_ns, uint64_t to_ns, struct way *ret)
{
	struct walk k = walk_begin(w, since_ns, from_ns, to_ns, ret);

	walk_whole(&k, tid);
}

void way_back_of_request(struct wait_walker *w, uint32_t tid, uint64_t since_ns, uint64_t from_ns, uint64_t to_ns,
	bool (*is_answer)(uint32_t tgid, void *arg), void *arg, struct way *ret)
{
	struct walk k = walk_begin(w, since_ns, from_ns, to_ns, ret);

	k.is_answer = is_answer;
	k.arg = arg;
	walk_whole(&k, tid);
}

/*
 * Goes back to from_ns, and adds only what the thread waited. A wait for a Python interpreter's lock ends every 5 ms, for the
 * thread to ask for it (CPython: take_gil()); only the last one ends with a wake-up by the thread that had it. So who had it when
 * a wait began had it when the one before ended.
 */
static void walk_waits(struct walk *k, uint32_t tid, uint64_t from_ns)
{
	struct run r;

	while (walk_may(k, from_ns) && find_run(k->w, tid, k->at_ns, k->begin_ns, &r)) {
		k->cpu = r.cpu;
		if (r.end_ns >= k->at_ns) { /* it ran, after an earlier run */
			if (k->at_ns - r.start_ns > GIL_LOOK_NS)
				k->gil = 0;
			k->at_ns = r.start_ns > from_ns ? r.start_ns : from_ns;
			if (k->at_ns <= from_ns)
				return;
			if (!find_run(k->w, tid, k->at_ns, k->begin_ns, &r) || r.entry->state == ST_CPU) {
				k->way->end = GAP_TOO_OLD; /* it waited since before the logs begin, or is new */
				return;
			}
		}
		k->on = tid;
		walk_to(k, r.end_ns > from_ns ? r.end_ns : from_ns);
		if (r.entry->state != ST_RUNNABLE)
			k->gil = r.entry->state == ST_BLOCKED_GIL && k->on != tid ? k->on : 0;
	}
}

void waits_back(struct wait_walker *w, uint32_t tid, uint64_t since_ns, uint64_t from_ns, uint64_t to_ns, const struct held *held, struct way *ret)
{
	struct walk k = walk_begin(w, since_ns, from_ns, to_ns, ret);

	if (held->by) {
		walk_waits(&k, tid, held->to_ns);
		k.at_ns = held->to_ns;
		k.on = held->by;
		walk_to(&k, held->from_ns);
		k.at_ns = held->from_ns;
	}
	walk_waits(&k, tid, from_ns);
	if (!logs_kept(w)) {
		memset(&ret->causes, 0, sizeof(ret->causes));
		ret->end = GAP_TOO_OLD;
		k.n = 0;
	}
	ret->n = k.n < GAP_SEGMENTS_MAX ? k.n : GAP_SEGMENTS_MAX;
	causes_finish(&ret->causes, GAP_CAUSES_MAX);
}

/* Goes back to when the thread left the CPU, and adds only for how long it waited for one. */
static void walk_off(struct walk *k, const struct run *r)
{
	bool queued = r->entry->state == ST_RUNNABLE;
	const struct wake *wake = queued ? NULL : wake_after(k, r);

	if (!(r->entry->flags & RAN_F_GPU_WAIT) && (queued || wake))
		walk_runnable(k, queued || wake->ns < r->end_ns ? r->end_ns : wake->ns, r, r->entry->flags & RAN_F_THROTTLED);
	k->at_ns = r->end_ns;
}

void behind_back(struct wait_walker *w, uint32_t tid, uint64_t since_ns, uint64_t from_ns, uint64_t to_ns, struct way *ret)
{
	struct walk k = walk_begin(w, since_ns, from_ns, to_ns, ret);
	struct run r = { .entry = NULL };
	const struct wake *wake;

	k.on = tid;
	while (walk_may(&k, from_ns) && find_run(w, tid, k.at_ns, k.begin_ns, &r)) {
		if (r.end_ns < k.at_ns) {
			if (r.entry->state == ST_CPU) /* another thread that had its number */
				break;
			if (k.at_ns == to_ns && (r.entry->state != ST_RUNNABLE || find_wake(w, tid, r.end_ns, to_ns, WAKE_F_MOVED)))
				k.at_ns = r.end_ns; /* in the queue of which CPU it is now is not known */
			k.cpu = k.at_ns == to_ns ? r.cpu : k.cpu;
			walk_off(&k, &r);
		}
		k.cpu = r.cpu;
		k.at_ns = r.start_ns;
	}
	if (r.entry && k.at_ns > from_ns && (wake = find_wake(w, tid, k.begin_ns, k.at_ns, 0)))
		walk_runnable(&k, wake->ns, &r, false); /* before its first run in the logs */
	if (!logs_kept(w))
		memset(&ret->causes, 0, sizeof(ret->causes));
}

uint64_t last_run_end(struct wait_walker *w, uint32_t tid, uint64_t since_ns, uint64_t now_ns, bool *ret_before)
{
	uint64_t begin_ns;
	struct run r;

	w->since_ns = since_ns;
	begin_ns = logs_begin(w);
	*ret_before = !find_run(w, tid, now_ns, begin_ns, &r);
	if (!logs_kept(w))
		return 0;
	return *ret_before ? begin_ns : r.end_ns;
}

#define WAKERS_MAX 32 /* others are not counted: a most frequent one is among the first in all likelihood */

void frequent_waker_find(struct wait_walker *w, uint32_t tid, uint64_t since_ns, struct frequent_waker *ret)
{
	struct frequent_waker wakers[WAKERS_MAX] = {};
	size_t n = 0;

	*ret = (struct frequent_waker){};
	w->since_ns = since_ns;
	logs_begin(w);
	for (unsigned int cpu = 0; cpu < w->log.cpus; cpu++) {
		const struct entries *e = &w->cpu[cpu].wakes;

		for (uint64_t i = e->first; i < e->head; i++) {
			const struct wake *k = wake_of(w, cpu, i);
			size_t at = 0;

			if (k->tid != tid || k->ns < since_ns || !leads_on(k, tid, ST_BLOCKED_POLL))
				continue;
			ret->of++;
			while (at < n && wakers[at].tid != k->waker_tid)
				at++;
			if (at == WAKERS_MAX)
				continue;
			n += at == n;
			wakers[at].tid = k->waker_tid;
			if (++wakers[at].wakes > ret->wakes) {
				ret->tid = k->waker_tid;
				ret->wakes = wakers[at].wakes;
			}
		}
	}
}
