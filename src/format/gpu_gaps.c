// SPDX-License-Identifier: BSD-2-Clause
#include "format/gpu_gaps.h"

#include <stdlib.h>
#include <string.h>

#include "sink/process_list.h"
#include "stack/stack.h"
#include "util/list.h"

#define LOSSES 32
#define SAMPLES_TOLD 16 /* different stacks in one interval */

struct gap_span {
	uint64_t start_ns, end_ns;
	uint32_t of;  /* a system call: its number; off the CPU: who ended it; a sample: its stack */
	uint8_t kind; /* enum rec_kind */
	uint8_t state;
};

/* The newest spans, in order of arrival; once full, a ring whose oldest is at next. */
struct gap_thread {
	struct thread_entry entry;
	struct gap_span *spans;
	size_t n, cap, next;
	uint64_t from_ns; /* spans that ended before may be missing */
};

struct gpu_gaps {
	const struct recording *rec;
	struct thread_map threads;
	bool any; /* waits are recorded */
	struct {
		uint64_t from_ns, to_ns;
	} losses[LOSSES];
	size_t n_losses;
};

struct gpu_gaps *gpu_gaps_new(const struct recording *rec)
{
	struct gpu_gaps *g = xcalloc(1, sizeof(*g));

	g->rec = rec;
	g->threads = (struct thread_map){ .size = sizeof(struct gap_thread), .max = GPU_GAPS_THREADS_MAX };
	return g;
}

static void thread_free_spans(void *thread)
{
	free(((struct gap_thread *)thread)->spans);
}

void gpu_gaps_free(struct gpu_gaps *g)
{
	if (!g)
		return;
	thread_map_clear(&g->threads, thread_free_spans);
	free(g);
}

/* ---- records ---- */

static void gpu_gaps_add_span(struct gpu_gaps *g, uint32_t tid, const struct gap_span *s)
{
	struct gap_thread *t = s->end_ns > s->start_ns ? thread_map_get(&g->threads, tid) : NULL;

	if (!t)
		return;
	if (t->n < GPU_GAPS_SPANS_MAX) {
		*list_push(t->spans, t->n, t->cap) = *s;
		return;
	}
	if (t->spans[t->next].end_ns > t->from_ns)
		t->from_ns = t->spans[t->next].end_ns;
	t->spans[t->next] = *s;
	t->next = (t->next + 1) % GPU_GAPS_SPANS_MAX;
}

static void gpu_gaps_add_off_cpu(struct gpu_gaps *g, const struct rec_off_cpu *r)
{
	uint64_t end_ns = r->h.start_ns + r->h.dur_ns, runnable_ns = off_cpu_runnable_ns(r);
	bool ran_out = r->h.flags & OFF_CPU_F_PREEMPT;

	g->any = true;
	if (ran_out)
		runnable_ns = r->h.start_ns;
	else if (!r->wake_ns || runnable_ns > end_ns)
		runnable_ns = end_ns;
	gpu_gaps_add_span(g, r->h.tid,
		&(struct gap_span){ r->h.start_ns, runnable_ns, r->h.flags & OFF_CPU_F_WAKER_IRQ ? 0 : r->waker_tid, REC_OFF_CPU, (uint8_t)r->h.id });
	gpu_gaps_add_span(g, r->h.tid, &(struct gap_span){ runnable_ns, end_ns, 0, REC_OFF_CPU, ST_RUNNABLE });
}

void gpu_gaps_record(struct gpu_gaps *g, const struct rec_hdr *h)
{
	struct gap_span s = { h->start_ns, h->start_ns + h->dur_ns, h->id, h->kind, ST_MAX };

	switch (h->kind) {
	case REC_OFF_CPU:
		if (h->id < ST_MAX)
			gpu_gaps_add_off_cpu(g, (const struct rec_off_cpu *)h);
		return;
	case REC_SYSCALL:
		s.state = ST_SYSCALL;
		if (h->flags & SYSCALL_F_COMPAT)
			s.of = SYSCALL_NONE;
		break;
	case REC_FAULT:
		s.state = ST_FAULT;
		break;
	case REC_FUNCTION:
		if (h->id >= g->rec->probes->n || g->rec->probes->specs[h->id].role != ROLE_GPU_WAIT)
			return;
		s.state = ST_GPU_WAIT;
		break;
	case REC_STACK:
		if (h->id != SAMPLE_CPU)
			return;
		s.of = ((const struct rec_stack *)h)->stack;
		s.end_ns = s.start_ns + 1; /* an instant */
		break;
	default:
		return;
	}
	gpu_gaps_add_span(g, h->tid, &s);
}

void gpu_gaps_loss(struct gpu_gaps *g, const struct loss *l)
{
	if (!l->count[REC_OFF_CPU] && !l->count[REC_SYSCALL] && !l->count[REC_FAULT] && !l->count[REC_FUNCTION])
		return;
	if (g->n_losses == LOSSES) {
		g->losses[1].from_ns = g->losses[0].from_ns;
		memmove(g->losses, g->losses + 1, --g->n_losses * sizeof(g->losses[0]));
	}
	g->losses[g->n_losses].from_ns = l->from_ns;
	g->losses[g->n_losses++].to_ns = l->to_ns;
}

/* ---- an interval ---- */

struct gap_edge {
	uint64_t ns;
	uint8_t state;
	int8_t more;
};

static int edges_by_time(const void *a, const void *b)
{
	const struct gap_edge *x = a, *y = b;

	return (x->ns > y->ns) - (x->ns < y->ns);
}

/* The state that counts where several are nested. Runnable first: a thread that still waits for an idle GPU may be waiting for
 * a CPU. */
static enum time_state prevailing_state(const int n[ST_MAX])
{
	if (n[ST_RUNNABLE] > 0)
		return ST_RUNNABLE;
	if (n[ST_GPU_WAIT] > 0)
		return ST_GPU_WAIT;
	for (int i = ST_RUNNABLE + 1; i < ST_MAX; i++) {
		if (n[i] > 0)
			return (enum time_state)i;
	}
	return n[ST_FAULT] > 0 ? ST_FAULT : n[ST_SYSCALL] > 0 ? ST_SYSCALL
							      : ST_CPU;
}

static uint64_t span_overlap_ns(const struct gap_span *s, uint64_t start_ns, uint64_t end_ns)
{
	uint64_t from = s->start_ns > start_ns ? s->start_ns : start_ns, to = s->end_ns < end_ns ? s->end_ns : end_ns;

	return to > from ? to - from : 0;
}

static void thread_divide_states(const struct gap_thread *t, uint64_t start_ns, uint64_t end_ns, uint64_t ret_ns[ST_MAX])
{
	struct gap_edge *e = xmalloc((2 * t->n + 1) * sizeof(*e));
	int n_of[ST_MAX] = { 0 };
	uint64_t at = start_ns;
	size_t n = 0;

	for (size_t i = 0; i < t->n; i++) {
		const struct gap_span *s = &t->spans[i];

		if (s->state >= ST_MAX || !span_overlap_ns(s, start_ns, end_ns))
			continue;
		e[n++] = (struct gap_edge){ s->start_ns > start_ns ? s->start_ns : start_ns, s->state, 1 };
		e[n++] = (struct gap_edge){ s->end_ns < end_ns ? s->end_ns : end_ns, s->state, -1 };
	}
	qsort(e, n, sizeof(*e), edges_by_time);
	for (size_t i = 0; i < n; i++) {
		ret_ns[prevailing_state(n_of)] += e[i].ns - at;
		at = e[i].ns;
		n_of[e[i].state] += e[i].more;
	}
	ret_ns[prevailing_state(n_of)] += end_ns - at;
	free(e);
}

/* Finds the call and the wait that took most of the interval. */
static void thread_find_longest(const struct gap_thread *t, uint64_t start_ns, uint64_t end_ns, struct gap_cause *c)
{
	uint64_t syscall_ns = 0, wait_ns = 0;

	for (size_t i = 0; i < t->n; i++) {
		const struct gap_span *s = &t->spans[i];
		uint64_t ns = span_overlap_ns(s, start_ns, end_ns);

		if (s->kind == REC_SYSCALL && ns > syscall_ns) {
			syscall_ns = ns;
			c->syscall = s->of;
		} else if (s->kind == REC_OFF_CPU && s->state == c->state && ns > wait_ns) {
			wait_ns = ns;
			c->waker_tid = s->of;
		}
	}
}

static uint32_t thread_find_stack(const struct gap_thread *t, uint64_t start_ns, uint64_t end_ns)
{
	uint32_t stacks[SAMPLES_TOLD], counts[SAMPLES_TOLD];
	size_t n = 0, most = 0, k;

	for (size_t i = 0; i < t->n; i++) {
		const struct gap_span *s = &t->spans[i];

		if (s->kind != REC_STACK || s->of == STACK_NONE || !span_overlap_ns(s, start_ns, end_ns))
			continue;
		for (k = 0; k < n && stacks[k] != s->of; k++)
			;
		if (k == SAMPLES_TOLD)
			continue;
		stacks[k] = s->of;
		counts[k] = k == n ? 1 : counts[k] + 1;
		n += k == n;
		if (counts[k] > counts[most])
			most = k;
	}
	return n ? stacks[most] : STACK_NONE;
}

static bool interval_is_complete(const struct gpu_gaps *g, const struct gap_thread *t, uint64_t start_ns, uint64_t end_ns)
{
	if (!g->any || !t || start_ns < t->from_ns)
		return false;
	for (size_t i = 0; i < g->n_losses; i++) {
		if (g->losses[i].from_ns < end_ns && g->losses[i].to_ns > start_ns)
			return false;
	}
	return true;
}

bool gpu_gaps_cause(const struct gpu_gaps *g, uint32_t tid, uint64_t start_ns, uint64_t end_ns, struct gap_cause *ret_cause)
{
	const struct gap_thread *t = thread_map_find(&g->threads, tid);
	struct gap_cause c = { .syscall = SYSCALL_NONE };

	if (!interval_is_complete(g, t, start_ns, end_ns))
		return false;
	thread_divide_states(t, start_ns, end_ns, c.ns);
	for (int i = 1; i < ST_MAX; i++) {
		if (c.ns[i] > c.ns[c.state])
			c.state = (enum time_state)i;
	}
	thread_find_longest(t, start_ns, end_ns, &c);
	c.stack = thread_find_stack(t, start_ns, end_ns);
	*ret_cause = c;
	return true;
}
