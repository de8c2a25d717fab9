// SPDX-License-Identifier: BSD-2-Clause
#include "format/workers.h"

#include <stdlib.h>

#include "util/alloc.h"

#define CAP_MIN 256
/* Spans arrive at most this late, by a wide margin. */
#define KEEP_NS UINT64_C(10000000000)
/* A lane rests this long if there are others: a thread's last spans end when it leaves the CPU for
 * the last time, which on a busy machine is some time after its exit was reported. */
#define REST_NS UINT64_C(100000000)

struct shared_lane {
	uint32_t tid;        /* the owner */
	uint64_t birth_ns;   /* together with tid, identifies the owner */
	uint64_t done_ns;    /* from then on the owner does not need the lane */
	uint64_t used_until; /* the last end of anything on the lane */
	bool named;          /* in this file */
};

/* The lanes of a process that has had a short-lived thread. */
struct crew {
	uint32_t id;
	unsigned int short_lived;
	unsigned int n_lanes;
	struct shared_lane lanes[WORKERS_LANES];
};

struct worker {
	uint32_t tid, tgid; /* tgid 0: the slot is empty */
	unsigned int lane;  /* from 1; 0: none */
	uint32_t crew_id;   /* whose lane it has: its process's, unless that is a new one with the same pid */
	uint64_t birth_ns;
	uint64_t from_ns, to_ns; /* what lies within is on the lane */
	uint64_t exit_ns;        /* 0: it lives */
	struct crew *crew;       /* of the process: only on the entry of its main thread */
};

static struct worker *worker_find_slot(struct worker *slots, size_t cap, uint32_t tid)
{
	size_t i = (tid * 2654435761u) & (cap - 1); /* Knuth's multiplicative hash */

	while (slots[i].tgid && slots[i].tid != tid)
		i = (i + 1) & (cap - 1);
	return &slots[i];
}

static struct worker *worker_find(const struct workers *ws, uint32_t tid)
{
	struct worker *w;

	if (!ws->cap)
		return NULL;
	w = worker_find_slot(ws->slots, ws->cap, tid);
	return w->tgid ? w : NULL;
}

/* The entry of a process is needed as long as it lives; that of a thread while spans for a lane may
 * arrive. */
static bool worker_is_needed(const struct workers *ws, const struct worker *w)
{
	uint64_t since = w->tid == w->tgid ? w->exit_ns : w->birth_ns + WORKERS_STAY_NS;

	return w->tgid && (!since || since + KEEP_NS > ws->now_ns);
}

static void workers_make_room(struct workers *ws)
{
	size_t needed = 0, cap = ws->cap ? ws->cap : CAP_MIN;
	struct worker *slots;

	for (size_t i = 0; i < ws->cap; i++)
		needed += worker_is_needed(ws, &ws->slots[i]);
	if (needed * 4 >= cap)
		cap *= 2;
	slots = xcalloc(cap, sizeof(*slots));
	for (size_t i = 0; i < ws->cap; i++) {
		struct worker *w = &ws->slots[i];

		if (worker_is_needed(ws, w))
			*worker_find_slot(slots, cap, w->tid) = *w;
		else
			free(w->crew);
	}
	free(ws->slots);
	ws->slots = slots;
	ws->cap = cap;
	ws->used = needed;
}

/* Adds an entry without anything from a former owner of the tid. */
static struct worker *worker_add(struct workers *ws, uint32_t tgid, uint32_t tid, uint64_t birth_ns)
{
	struct worker *w;

	if (ws->used * 2 >= ws->cap)
		workers_make_room(ws);
	w = worker_find_slot(ws->slots, ws->cap, tid);
	ws->used += !w->tgid;
	free(w->crew);
	*w = (struct worker){ .tid = tid, .tgid = tgid, .birth_ns = birth_ns };
	return w;
}

static struct crew *crew_find(const struct workers *ws, uint32_t tgid)
{
	const struct worker *main = worker_find(ws, tgid);

	return main && main->tgid == tgid ? main->crew : NULL;
}

static struct shared_lane *worker_lane(const struct workers *ws, const struct worker *w)
{
	struct crew *crew = w->lane ? crew_find(ws, w->tgid) : NULL;

	return crew && crew->id == w->crew_id ? &crew->lanes[w->lane - 1] : NULL;
}

void workers_free(struct workers *ws)
{
	for (size_t i = 0; i < ws->cap; i++)
		free(ws->slots[i].crew);
	free(ws->slots);
	*ws = (struct workers){ 0 };
}

/* ---- births: which lane a thread takes over ---- */

static bool lane_is_free(const struct shared_lane *l, uint64_t birth_ns, uint64_t rest_ns)
{
	return l->done_ns + rest_ns <= birth_ns && l->used_until <= birth_ns;
}

/* The lane that has been free longest; NULL: none is free. */
static struct shared_lane *crew_find_free_lane(struct crew *crew, uint64_t birth_ns, uint64_t rest_ns)
{
	struct shared_lane *best = NULL;

	for (unsigned int i = 0; i < crew->n_lanes; i++) {
		struct shared_lane *l = &crew->lanes[i];

		if (lane_is_free(l, birth_ns, rest_ns) && (!best || l->done_ns < best->done_ns))
			best = l;
	}
	return best;
}

/* Where the time of one owner ends and that of the next begins. Between the exit of the one and the
 * birth of the other there is room for both: the first span of a thread begins just before its
 * birth is reported. */
static uint64_t lane_border(const struct shared_lane *l, uint64_t birth_ns)
{
	uint64_t border = l->done_ns + (birth_ns - l->done_ns) / 2;

	return border > l->used_until ? border : l->used_until;
}

static void worker_take_lane(struct workers *ws, struct crew *crew, struct worker *w)
{
	struct shared_lane *l = crew_find_free_lane(crew, w->birth_ns, REST_NS);
	struct worker *before;

	if (!l && crew->n_lanes < WORKERS_LANES)
		l = &crew->lanes[crew->n_lanes++];
	if (!l)
		l = crew_find_free_lane(crew, w->birth_ns, 0);
	if (!l)
		return;
	if (l->tid) {
		w->from_ns = lane_border(l, w->birth_ns);
		before = worker_find(ws, l->tid);
		if (before && worker_lane(ws, before) == l && before->birth_ns == l->birth_ns &&
			before->to_ns > w->from_ns)
			before->to_ns = w->from_ns;
	}
	w->crew_id = crew->id;
	w->to_ns = w->birth_ns + WORKERS_STAY_NS;
	w->lane = (unsigned int)(l - crew->lanes) + 1;
	*l = (struct shared_lane){
		.tid = w->tid,
		.birth_ns = w->birth_ns,
		.done_ns = w->to_ns,
		.used_until = w->from_ns,
		.named = l->named,
	};
}

static void worker_begin(struct workers *ws, const struct rec_hdr *h)
{
	bool process = h->tid == h->tgid;
	struct crew *crew;
	struct worker *w;

	if (process && !worker_find(ws, h->tid))
		return;
	w = worker_add(ws, h->tgid, h->tid, h->start_ns);
	crew = process ? NULL : crew_find(ws, h->tgid);
	if (crew && crew->short_lived >= WORKERS_SHORT_LIVED)
		worker_take_lane(ws, crew, w);
}

/* ---- deaths ---- */

static void count_short_lived(struct workers *ws, uint32_t tgid)
{
	struct worker *main = worker_find(ws, tgid);

	if (!main || main->tgid != tgid)
		main = worker_add(ws, tgid, tgid, 0);
	if (!main->crew) {
		main->crew = xcalloc(1, sizeof(*main->crew));
		main->crew->id = ++ws->crews;
	}
	if (++main->crew->short_lived == WORKERS_SHORT_LIVED)
		ws->share = true;
}

static void worker_exit(struct workers *ws, const struct rec_hdr *h)
{
	struct worker *w = worker_find(ws, h->tid);
	struct shared_lane *l;

	if (w && w->tgid == h->tgid && w->tid != w->tgid && !w->exit_ns) {
		w->exit_ns = h->start_ns;
		l = worker_lane(ws, w);
		if (l && l->tid == w->tid && l->birth_ns == w->birth_ns && h->start_ns < l->done_ns)
			l->done_ns = h->start_ns;
		if (h->start_ns - w->birth_ns < WORKERS_SHORT_NS)
			count_short_lived(ws, h->tgid);
	}
	if (!(h->flags & TASK_F_LAST))
		return;
	w = worker_find(ws, h->tgid);
	if (w && w->tgid == h->tgid)
		w->exit_ns = h->start_ns;
}

void workers_task(struct workers *ws, const struct rec_task *r)
{
	if (r->h.start_ns > ws->now_ns)
		ws->now_ns = r->h.start_ns;
	if (r->h.id == TASK_FORK)
		worker_begin(ws, &r->h);
	else if (r->h.id == TASK_EXIT)
		worker_exit(ws, &r->h);
}

/* ---- spans ---- */

unsigned int workers_lane(struct workers *ws, const struct rec_hdr *h, bool *ret_new)
{
	uint64_t end = h->start_ns + h->dur_ns;
	struct worker *w = worker_find(ws, h->tid);
	struct shared_lane *l;

	if (!w || !w->lane || w->tgid != h->tgid || h->start_ns < w->from_ns || end > w->to_ns)
		return 0;
	l = worker_lane(ws, w);
	if (!l)
		return 0;
	if (end > l->used_until)
		l->used_until = end;
	*ret_new = !l->named;
	l->named = true;
	return w->lane;
}

void workers_forget_names(struct workers *ws)
{
	for (size_t i = 0; i < ws->cap; i++) {
		struct crew *crew = ws->slots[i].crew;

		for (unsigned int l = 0; crew && l < crew->n_lanes; l++)
			crew->lanes[l].named = false;
	}
}
