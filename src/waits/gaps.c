// SPDX-License-Identifier: BSD-2-Clause
#include "waits/gaps.h"

#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "engine/check.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/list.h"

/* More contexts than a server has; if there are more, that whose last step was the earliest is forgotten. */
#define CONTEXTS_MAX 1024

#define WAITS_MIN_NS 20000 /* of a step; less is not worth looking for */

struct gap_key {
	uint64_t context;
	uint64_t tgid;
};

struct gap_context {
	UT_hash_handle hh;
	struct gap_key key;
	uint64_t busy_until, drawn_until;
	uint32_t steps_lost; /* before its last step */
};

/* A step whose gap is not known yet. */
struct gap_step {
	uint64_t start, end, context;
	uint64_t off_ns; /* its time off the CPU */
	struct held held;
	uint32_t tgid, tid, cpu, number, probe, steps_lost;
	bool began_before, waits_passed;
	unsigned int rounds;
};

struct gaps {
	struct wait_walker *walker;
	const struct probe_table *probes;
	uint64_t open_ns;
	struct gap_context *contexts;
	struct gap_step *steps; /* in the order in which they came, from `sorted` on; before, by their starts */
	size_t n, cap, sorted;
	struct way way;
	struct rec_gap gap;
};

struct gaps *gaps_new(const struct wait_log *log, const struct probe_table *probes)
{
	struct gaps *g = xcalloc(1, sizeof(*g));

	g->walker = wait_walker_new(log);
	g->probes = probes;
	return g;
}

static void gaps_forget(struct gaps *g)
{
	struct gap_context *c, *next;

	HASH_ITER(hh, g->contexts, c, next)
	{
		HASH_DEL(g->contexts, c);
		free(c);
	}
	g->n = g->sorted = 0;
}

void gaps_free(struct gaps *g)
{
	if (!g)
		return;
	gaps_forget(g);
	wait_walker_free(g->walker);
	free(g->steps);
	free(g);
}

void gaps_open(struct gaps *g, uint64_t open_ns)
{
	gaps_forget(g);
	g->open_ns = open_ns;
}

/* Adds a thread's time behind another one, or replaces the slot with the least time if that has less. */
static void behind_add(struct behind_table *table, const struct gap_segment *s)
{
	uint32_t tid = s->flags & GAP_SEGMENT_F_LIMITED ? BEHIND_LIMIT : s->by_tid;
	struct behind *least = table->slots;

	for (size_t i = 0; i < BEHIND_MAX; i++) {
		struct behind *b = &table->slots[i];

		if (b->ns && b->tid == tid) {
			b->ns += s->by_ns;
			return;
		}
		if (b->ns < least->ns)
			least = b;
	}
	if (least->ns >= s->by_ns)
		return;
	*least = (struct behind){ .ns = s->by_ns, .tid = tid, .tgid = s->by_tgid };
	memcpy(least->comm, s->by, sizeof(least->comm));
}

static void behind_thread(struct gaps *g, uint32_t tid, uint64_t from_ns, uint64_t to_ns, struct behind_table *table)
{
	behind_back(g->walker, tid, g->open_ns, from_ns, to_ns, &g->way);
	for (size_t i = 0; i < g->way.causes.n; i++)
		behind_add(table, &g->way.causes.list[i]);
}

void gaps_behind(struct gaps *g, struct rec_step *r)
{
	uint64_t from = r->h.start_ns, to = from + r->h.dur_ns;
	struct step_worker team[STEP_WORKERS_MAX];

	memcpy(team, r->team, sizeof(team));
	r->behind = r->workers_behind = (struct behind_table){ 0 };
	if (!g)
		return;
	if (r->ns[ST_RUNNABLE] >= WAITS_MIN_NS)
		behind_thread(g, r->h.tid, from, to, &r->behind);
	for (size_t i = 0; i < STEP_WORKERS_MAX && r->workers_ns[ST_RUNNABLE] >= WAITS_MIN_NS; i++) {
		if (team[i].tid)
			behind_thread(g, team[i].tid, from + team[i].joined_us * 1000ull, to, &r->workers_behind);
	}
}

void gaps_step(struct gaps *g, const struct rec_step *r)
{
	struct gap_step s = {
		.start = r->h.start_ns,
		.end = r->h.start_ns + r->h.dur_ns,
		.tgid = r->h.tgid,
		.tid = r->h.tid,
		.cpu = r->h.cpu,
		.number = r->number,
		.probe = r->h.id,
		.steps_lost = r->steps_lost,
		.began_before = r->h.flags & REC_F_OPEN_START,
		.held = { r->straggler_tid, r->held_at, r->held_at + r->held_ns },
	};

	if (s.held.from_ns < s.start) /* the window opened within that wait */
		s.held.from_ns = s.start;
	for (int i = ST_RUNNABLE; i < ST_MAX; i++)
		s.off_ns += r->ns[i];

	check_value(&g->probes->specs[r->h.id], r->vals, "context", &s.context);
	*list_push(g->steps, g->n, g->cap) = s;
}

static int compare_steps(const void *a, const void *b)
{
	const struct gap_step *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return (x->number > y->number) - (x->number < y->number);
}

/* Not one by one as they come: on a busy machine each CPU's ring has thousands, and all of the next one's are before these. */
static void gaps_sort(struct gaps *g)
{
	size_t i = g->sorted ? g->sorted : 1;

	while (i < g->n && compare_steps(&g->steps[i - 1], &g->steps[i]) <= 0)
		i++;
	if (i < g->n)
		qsort(g->steps, g->n, sizeof(*g->steps), compare_steps);
	g->sorted = g->n;
}

static struct gap_context *context_of(struct gaps *g, const struct gap_step *s)
{
	const struct gap_key key = { s->context, s->tgid };
	struct gap_context *c, *oldest;

	HASH_FIND(hh, g->contexts, &key, sizeof(key), c);
	if (!c) {
		if (HASH_COUNT(g->contexts) == CONTEXTS_MAX) {
			oldest = g->contexts;
			HASH_DEL(g->contexts, oldest);
			free(oldest);
		}
		c = xcalloc(1, sizeof(*c));
		c->key = key;
	} else {
		HASH_DEL(g->contexts, c); /* to the end of the list */
	}
	HASH_ADD(hh, g->contexts, key, sizeof(key), c);
	return c;
}

/* Adds the way to a gap. Returns its size. */
static size_t gap_fill(struct rec_gap *gap, const struct way *way)
{
	gap->others_ns = way->causes.others_ns;
	gap->unknown_ns = way->causes.unknown_ns;
	gap->end = way->end;
	gap->n_causes = (uint8_t)way->causes.n;
	gap->n = (uint16_t)way->n;
	memcpy(gap->seg, way->causes.list, way->causes.n * sizeof(*gap->seg));
	memcpy(gap->seg + way->causes.n, way->seg, way->n * sizeof(*gap->seg));
	return REC_GAP_SIZE(way->causes.n + way->n);
}

static struct rec_hdr gap_hdr(const struct gap_step *s, uint64_t from_ns, uint64_t to_ns, uint8_t flags)
{
	return (struct rec_hdr){
		.start_ns = from_ns,
		.dur_ns = to_ns - from_ns,
		.flags = flags,
		.tgid = s->tgid,
		.tid = s->tid,
		.cpu = (uint16_t)s->cpu,
		.kind = REC_GAP,
		.id = s->probe,
	};
}

struct asker {
	const struct gaps *g;
	uint32_t tgid;
};

/* Whether a process is an engine that has not seen the request of the asker yet: what it sends is about others. */
static bool runs_steps_for(uint32_t tgid, void *arg)
{
	const struct asker *a = arg;
	const struct gap_context *c = NULL;

	if (tgid != a->tgid) {
		for (c = a->g->contexts; c && c->key.tgid != tgid; c = c->hh.next)
			;
	}
	return c;
}

/* When the request came is not known yet. One that took longer than this, or than GAP_SEGMENTS_MAX, to be passed on has the rest unknown. */
#define SENT_BACK_NS (10 * NSEC_PER_SEC)

/* h: the thread that passed something on at `at`, which came after from_ns; id: of what. */
static void pass_sent(struct gaps *g, const struct rec_hdr *h, uint64_t id, uint64_t from_ns, uint64_t at,
	bool (*is_answer)(uint32_t tgid, void *arg), void (*cb)(const struct rec_hdr *h, size_t size, void *arg), void *arg)
{
	uint64_t from = from_ns > g->open_ns ? from_ns : g->open_ns;

	if (at <= from)
		return;
	g->gap.h = *h;
	g->gap.h.kind = REC_SENT;
	g->gap.h.flags = 0;
	g->gap.h.start_ns = from;
	g->gap.h.dur_ns = at - from;
	g->gap.context = id;
	g->gap.step = 0;
	way_back_of_request(g->walker, h->tid, g->open_ns, from, at, is_answer, &(struct asker){ g, h->tgid }, &g->way);
	cb(&g->gap.h, gap_fill(&g->gap, &g->way), arg);
}

void gaps_sent(struct gaps *g, const struct rec_hdr *h, uint64_t id, void (*cb)(const struct rec_hdr *h, size_t size, void *arg), void *arg)
{
	pass_sent(g, h, id, h->start_ns > SENT_BACK_NS ? h->start_ns - SENT_BACK_NS : 0, h->start_ns, runs_steps_for, cb, arg);
}

/* An answer waits for whatever its server reads, also for what its engine has written. */
static bool none_is_answer(uint32_t tgid, void *arg)
{
	(void)tgid;
	(void)arg;
	return false;
}

void gaps_answered(struct gaps *g, const struct rec_hdr *h, void (*cb)(const struct rec_hdr *h, size_t size, void *arg), void *arg)
{
	pass_sent(g, h, h->start_ns, h->start_ns, h->start_ns + h->dur_ns, none_is_answer, cb, arg);
}

static void leave_out_short(struct way *way)
{
	size_t n = 0;

	for (size_t i = 0; i < way->n; i++) {
		if (way->seg[i].dur_ns >= WAITS_MIN_NS)
			way->seg[n++] = way->seg[i];
	}
	way->n = n;
}

/* Passes on what the thread of a step waited for within it. Segments of steps that overlap, or of one that was recorded after the
 * gap before a later one was passed on, would have no place on a track. */
static void pass_waits(struct gaps *g, struct gap_step *s, void (*cb)(const struct rec_hdr *h, size_t size, void *arg), void *arg)
{
	struct gap_context *c = context_of(g, s);
	uint64_t known;

	s->waits_passed = true;
	if (s->off_ns + (s->held.by ? s->held.to_ns - s->held.from_ns : 0) < WAITS_MIN_NS)
		return;
	g->gap.h = gap_hdr(s, s->start, s->end, GAP_F_WITHIN);
	g->gap.context = s->context;
	g->gap.step = s->number;
	waits_back(g->walker, s->tid, g->open_ns, s->start, s->end, &s->held, &g->way);
	known = g->way.causes.others_ns;
	for (size_t i = 0; i < g->way.causes.n; i++)
		known += g->way.causes.list[i].dur_ns;
	if (g->way.end != GAP_COMPLETE && known < s->off_ns)
		g->way.causes.unknown_ns = s->off_ns - known;
	leave_out_short(&g->way);
	if (s->start < c->drawn_until)
		g->way.n = 0;
	else
		c->drawn_until = s->end;
	cb(&g->gap.h, gap_fill(&g->gap, &g->way), arg);
}

/* Passes on the gap before a step, if there is one and no step within it was lost, and its waits. Before the first step a gap
 * began earlier. */
static void pass_step(struct gaps *g, struct gap_step *s, void (*cb)(const struct rec_hdr *h, size_t size, void *arg), void *arg)
{
	struct gap_context *c = context_of(g, s);
	uint64_t from = c->busy_until ? c->busy_until : g->open_ns;

	if (s->start > from && s->steps_lost == c->steps_lost && !s->began_before) {
		g->gap.h = gap_hdr(s, from, s->start, c->busy_until ? 0 : REC_F_OPEN_START);
		g->gap.context = s->context;
		g->gap.step = s->number;
		way_back(g->walker, s->tid, g->open_ns, from, s->start, &g->way);
		cb(&g->gap.h, gap_fill(&g->gap, &g->way), arg);
		if (c->drawn_until < s->start)
			c->drawn_until = s->start;
	}
	if (!s->waits_passed)
		pass_waits(g, s, cb, arg);
	c->steps_lost = s->steps_lost;
	if (s->end > c->busy_until)
		c->busy_until = s->end;
}

void gaps_waits(struct gaps *g, const struct rec_step *r, void (*cb)(const struct rec_hdr *h, size_t size, void *arg), void *arg)
{
	for (size_t i = g->n; i-- > 0;) {
		if (g->steps[i].number == r->number) {
			pass_waits(g, &g->steps[i], cb, arg);
			return;
		}
	}
}

/* Whether none of the first n steps is of the context of s. */
static bool is_first_of_context(const struct gaps *g, size_t n, const struct gap_step *s)
{
	for (size_t i = 0; i < n; i++) {
		if (g->steps[i].context == s->context && g->steps[i].tgid == s->tgid)
			return false;
	}
	return true;
}

void gaps_settled(struct gaps *g, bool all, void (*cb)(const struct rec_hdr *h, size_t size, void *arg), void *arg)
{
	size_t kept = 0;

	gaps_sort(g);
	/* a step that began before another one of its context was given no later than that one's round, unless they overlap: then the
	 * gap waits for it */
	for (size_t i = 0; i < g->n; i++) {
		struct gap_step s = g->steps[i];
		bool done = all || s.rounds;

		if (done && is_first_of_context(g, kept, &s)) {
			pass_step(g, &s, cb, arg);
			continue;
		}
		if (done && !s.waits_passed)
			pass_waits(g, &s, cb, arg);
		s.rounds++;
		g->steps[kept++] = s;
	}
	g->n = g->sorted = kept;
}
