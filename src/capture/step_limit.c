// SPDX-License-Identifier: BSD-2-Clause
#include "capture/step_limit.h"

#include <errno.h>
#include <stdlib.h>

#include "target/tasks.h"

struct stepped {
	uint32_t tgid, steps;
	uint64_t end_ns; /* of its last step; UINT64_MAX: there are more to come */
};

struct step_limit {
	uint32_t max;
	struct stepped *list;
	size_t n, last;
	bool over, any;
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
	free(l);
}

void step_limit_reset(struct step_limit *l)
{
	l->n = l->last = 0;
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
	return &list[l->n++];
}

bool step_limit_take(struct step_limit *l, const struct rec_hdr *h)
{
	struct stepped *p = find(l, h->tgid);

	if (p && h->kind != REC_TASK && h->start_ns >= p->end_ns)
		return false;
	/* one that began in the window before counts there */
	if (h->kind != REC_STEP || h->flags & REC_F_OPEN_START)
		return true;
	p = p ? p : add(l, h->tgid);
	if (p && ++p->steps == l->max)
		p->end_ns = h->start_ns + h->dur_ns;
	return true;
}

static void check_one(struct task *t, void *arg)
{
	struct step_limit *l = arg;
	const struct stepped *p = find(l, t->tgid);

	l->any = true;
	l->over &= p && p->steps >= l->max;
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
