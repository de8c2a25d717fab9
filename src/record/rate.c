// SPDX-License-Identifier: BSD-2-Clause
#include "record/rate.h"

#include <errno.h>
#include <stdlib.h>

#include "util/clock.h"

#define PROCESSES_MAX 64 /* if full, the one that was quiet for longest is forgotten */
#define PARTS_MAX 1024
#define PART_NS (NSEC_PER_SEC / 1000) /* each has at least that, except the last */

struct process {
	uint32_t tgid;
	uint64_t last_end;
	struct rate sum;
	struct rate parts[PARTS_MAX]; /* steps, as a ring */
	unsigned int first, n;
};

struct rates {
	struct process *list[PROCESSES_MAX];
	size_t n;
};

static void forget(struct process *p)
{
	p->sum = (struct rate){};
	p->n = 0;
}

static struct process *find(struct rates *rs, uint32_t tgid)
{
	struct process **oldest = rs->list, *p;

	for (size_t i = 0; i < rs->n; i++) {
		if (rs->list[i]->tgid == tgid)
			return rs->list[i];
		if (rs->list[i]->last_end < (*oldest)->last_end)
			oldest = &rs->list[i];
	}
	if (rs->n == PROCESSES_MAX) {
		p = *oldest;
		forget(p);
	} else {
		p = calloc(1, sizeof(*p));
		if (!p)
			return NULL;
		rs->list[rs->n++] = p;
	}
	p->tgid = tgid;
	p->last_end = 0;
	return p;
}

static struct rate *nth(struct process *p, unsigned int i)
{
	return &p->parts[(p->first + i) % PARTS_MAX];
}

/* Merges short ones, so that there is room for a second of them. */
static void append(struct process *p, struct rate step)
{
	if (!p->n || nth(p, p->n - 1)->ns >= PART_NS)
		*nth(p, p->n++) = (struct rate){};
	nth(p, p->n - 1)->tokens += step.tokens;
	nth(p, p->n - 1)->ns += step.ns;
	p->sum.tokens += step.tokens;
	p->sum.ns += step.ns;
	/* keeps no more than needed for a second */
	while (p->sum.ns - nth(p, 0)->ns >= NSEC_PER_SEC) {
		p->sum.tokens -= nth(p, 0)->tokens;
		p->sum.ns -= nth(p, 0)->ns;
		p->first = (p->first + 1) % PARTS_MAX;
		p->n--;
	}
}

bool rates_step(struct rates *rs, const struct step_seen *s, struct rate *ret_rate)
{
	struct process *p = find(rs, s->tgid);
	uint64_t from;

	if (!p)
		return false;
	from = p->last_end;
	if (!from || s->start >= from + NSEC_PER_SEC) {
		forget(p);
		from = s->start;
	}
	if (s->end > p->last_end)
		p->last_end = s->end;
	if (s->phase == PHASE_PREFILL)
		return false;
	append(p, (struct rate){
			  .tokens = step_seen_tokens(s),
			  .ns = s->end > from ? s->end - from : 0,
		  });
	if (p->sum.ns < NSEC_PER_SEC)
		return false;
	*ret_rate = p->sum;
	return true;
}

void rates_forget(struct rates *rs, uint32_t tgid)
{
	for (size_t i = 0; i < rs->n; i++) {
		if (rs->list[i]->tgid == tgid)
			forget(rs->list[i]);
	}
}

bool rate_below(const struct rate *r, uint64_t limit)
{
	return (unsigned __int128)r->tokens * NSEC_PER_SEC * NSEC_PER_SEC <
	       (unsigned __int128)limit * r->ns;
}

void rates_free(struct rates *rs)
{
	for (size_t i = 0; rs && i < rs->n; i++)
		free(rs->list[i]);
	free(rs);
}

int rates_new(struct rates **ret_rates)
{
	struct rates *rs = calloc(1, sizeof(*rs));

	if (!rs)
		return -ENOMEM;
	*ret_rates = rs;
	return 0;
}
