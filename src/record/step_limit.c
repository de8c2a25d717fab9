// SPDX-License-Identifier: BSD-2-Clause
#include "record/step_limit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "target/process.h"
#include "target/tasks.h"

#define PARENTS_MAX 4

struct stepped {
	uint32_t tgid, steps;
	uint64_t end_ns; /* end of its last step; UINT64_MAX: more are to come */
	pid_t parents[PARENTS_MAX];
};

struct held {
	size_t size;
	union {
		struct rec_hdr h;
		char bytes[sizeof(struct rec_step_parts)];
	} rec;
};

struct step_limit {
	uint32_t max;
	struct stepped *list;
	size_t n, last;
	bool over, any;
	struct held *held;
	size_t n_held, cap_held;
	uint64_t settled_ns;
};

int step_limit_new(uint32_t steps, struct step_limit **ret_limit)
{
	struct step_limit *l = calloc(1, sizeof(*l));

	if (!l)
		return -ENOMEM;
	l->max = steps;
	*ret_limit = l;
	return 0;
}

void step_limit_free(struct step_limit *l)
{
	if (l)
		free(l->list);
	if (l)
		free(l->held);
	free(l);
}

void step_limit_reset(struct step_limit *l)
{
	l->n = l->last = l->n_held = 0;
	l->settled_ns = 0;
}

/* Only processes with steps have an entry. */
static struct stepped *find(struct step_limit *l, uint32_t tgid)
{
	if (l->last < l->n && l->list[l->last].tgid == tgid)
		return &l->list[l->last];
	for (size_t i = 0; i < l->n; i++) {
		if (l->list[i].tgid == tgid) {
			l->last = i;
			return &l->list[i];
		}
	}
	return NULL;
}

/* NULL without memory. */
static struct stepped *add(struct step_limit *l, uint32_t tgid)
{
	struct stepped *list = realloc(l->list, (l->n + 1) * sizeof(*list));

	if (!list)
		return NULL;
	l->list = list;
	list[l->n] = (struct stepped){ .tgid = tgid, .end_ns = UINT64_MAX };
	for (int i = 0, pid = (int)tgid; i < PARENTS_MAX && !process_parent(pid, &pid) && pid; i++)
		list[l->n].parents[i] = pid;
	return &list[l->n++];
}

static bool hold(struct step_limit *l, const struct rec_hdr *h, size_t size)
{
	if (size > sizeof(l->held->rec))
		return false;
	if (l->n_held == l->cap_held) {
		size_t cap = 2 * l->cap_held + 64;
		struct held *more = realloc(l->held, cap * sizeof(*more));

		if (!more)
			return false;
		l->held = more;
		l->cap_held = cap;
	}
	l->held[l->n_held].size = size;
	memcpy(&l->held[l->n_held++].rec, h, size);
	return true;
}

enum step_limit_take step_limit_take(struct step_limit *l, const struct rec_hdr *h, size_t size)
{
	const struct stepped *p = find(l, h->tgid);

	if (p && h->kind != REC_TASK && h->start_ns >= p->end_ns)
		return STEP_LIMIT_DROP;
	/* a step that began in the previous window counts there */
	if (h->kind != REC_STEP || h->flags & REC_F_OPEN_START)
		return STEP_LIMIT_PASS;
	if (p && p->steps >= l->max)
		return STEP_LIMIT_DROP;
	return hold(l, h, size) ? STEP_LIMIT_HELD : STEP_LIMIT_PASS;
}

static uint64_t end_of(const struct held *x)
{
	return x->rec.h.start_ns + x->rec.h.dur_ns;
}

static int compare_ends(const void *a, const void *b)
{
	uint64_t x = end_of(a), y = end_of(b);

	return (x > y) - (x < y);
}

void step_limit_release(struct step_limit *l, uint64_t until_ns, record_cb cb, void *arg)
{
	size_t n = 0;

	if (!l->n_held)
		return;
	qsort(l->held, l->n_held, sizeof(*l->held), compare_ends);
	for (; n < l->n_held && end_of(&l->held[n]) <= until_ns; n++) {
		const struct held *x = &l->held[n];
		struct stepped *p = find(l, x->rec.h.tgid);

		p = p ? p : add(l, x->rec.h.tgid);
		if (p && p->steps >= l->max)
			continue;
		if (p && ++p->steps == l->max)
			p->end_ns = end_of(x);
		cb(&x->rec.h, x->size, arg);
	}
	l->n_held -= n;
	memmove(l->held, l->held + n, l->n_held * sizeof(*l->held));
}

void step_limit_settled(struct step_limit *l, uint64_t now_ns, record_cb cb, void *arg)
{
	step_limit_release(l, l->settled_ns, cb, arg);
	l->settled_ns = now_ns;
}

/* Whether it is what started a process with steps, such as a server, and leaves them to that. */
static bool is_parent(const struct step_limit *l, pid_t tgid)
{
	for (size_t i = 0; i < l->n; i++) {
		for (int k = 0; k < PARENTS_MAX; k++) {
			if (l->list[i].parents[k] == tgid)
				return true;
		}
	}
	return false;
}

static void check_one(struct task *t, void *arg)
{
	struct step_limit *l = arg;
	const struct stepped *p = find(l, t->tgid);

	l->any = true;
	l->over &= p ? p->steps >= l->max : is_parent(l, (pid_t)t->tgid);
}

bool step_limit_over(struct step_limit *l, struct tasks *tasks)
{
	if (!l->n)
		return false;
	l->over = true;
	l->any = false;
	tasks_each_process(tasks, check_one, l);
	return l->any && l->over;
}
