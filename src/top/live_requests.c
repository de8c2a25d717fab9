// SPDX-License-Identifier: BSD-2-Clause
#include "top/live_requests.h"

#include <stdlib.h>
#include <string.h>

#include "util/clock.h"

#define REQUESTS_MAX 1024 /* the newest */
#define CONTEXTS_MAX 256
#define FIRST_MAX 2048 /* first tokens that are kept */
#define FIRST_NS (60 * NSEC_PER_SEC)
#define QUIET_NS NSEC_PER_SEC /* without a step an engine has nothing to do */

struct entry {
	uint32_t serial, tgid; /* serial 0: unused */
	uint64_t context, sequence, step_end; /* of the last one with rows of it */
	bool first; /* it has its first token */
};

/* The last step of a context. */
struct context {
	uint32_t tgid;
	uint64_t context, end, ns;
};

struct first_token {
	uint64_t at, ns;
	uint32_t tgid;
};

struct live_requests {
	struct entry entries[REQUESTS_MAX]; /* by serial */
	struct context contexts[CONTEXTS_MAX];
	size_t n_contexts;
	struct first_token first[FIRST_MAX]; /* a ring */
	size_t n_first;
	int64_t values[FIRST_MAX];
	bool any;
};

struct live_requests *live_requests_new(void)
{
	return calloc(1, sizeof(struct live_requests));
}

void live_requests_free(struct live_requests *lr)
{
	free(lr);
}

static struct entry *entry_of(struct live_requests *lr, const struct step_request *r)
{
	return &lr->entries[r->serial % REQUESTS_MAX];
}

void live_requests_begin(struct live_requests *lr, const struct step_request *r)
{
	/* the one before it in its slot is over */
	for (size_t i = 0; i < REQUESTS_MAX; i++) {
		struct entry *e = &lr->entries[i];

		if (e->sequence == r->sequence && e->context == r->context && e->tgid == r->tgid)
			e->serial = 0;
	}
	*entry_of(lr, r) = (struct entry){
		.serial = r->serial, .tgid = r->tgid, .context = r->context, .sequence = r->sequence
	};
	lr->any = true;
}

/* Takes the place of the one that was quiet for longest when there is no room. */
static struct context *context_of(struct live_requests *lr, uint32_t tgid, uint64_t context)
{
	struct context *oldest = lr->contexts;

	for (size_t i = 0; i < lr->n_contexts; i++) {
		struct context *c = &lr->contexts[i];

		if (c->context == context && c->tgid == tgid)
			return c;
		if (c->end < oldest->end)
			oldest = c;
	}
	if (lr->n_contexts < CONTEXTS_MAX)
		oldest = &lr->contexts[lr->n_contexts++];
	*oldest = (struct context){ .tgid = tgid, .context = context };
	return oldest;
}

void live_requests_part(struct live_requests *lr, const struct step_request *r, const struct step_seen *s)
{
	struct context *c = context_of(lr, r->tgid, r->context);
	struct entry *e = entry_of(lr, r);

	c->end = s->end;
	c->ns = s->end - s->start;
	if (e->serial == r->serial)
		e->step_end = s->end;
}

void live_requests_first(struct live_requests *lr, const struct step_request *r)
{
	struct entry *e = entry_of(lr, r);

	if (e->serial == r->serial)
		e->first = true;
	lr->first[lr->n_first++ % FIRST_MAX] = (struct first_token){ r->first_output, step_request_ttft(r), r->tgid };
}

void live_requests_mixed(struct live_requests *lr, const struct step_request *r)
{
	struct entry *e = entry_of(lr, r);

	if (e->serial == r->serial)
		e->serial = 0;
}

static struct live_process *process_of(struct live_batches *b, uint32_t tgid)
{
	size_t i = 0;

	while (i < b->n_processes && b->processes[i].pid != tgid)
		i++;
	if (i == LIVE_PROCESSES_MAX)
		return NULL;
	if (i == b->n_processes)
		b->processes[b->n_processes++] = (struct live_process){ .pid = tgid };
	return &b->processes[i];
}

static void count(struct live_process *p, bool active, bool waiting)
{
	if (!p)
		return;
	p->active += active;
	p->waiting += waiting;
}

static struct percentiles first_tokens(struct live_requests *lr, uint64_t now, uint32_t tgid)
{
	size_t n = 0, kept = lr->n_first < FIRST_MAX ? lr->n_first : FIRST_MAX;

	for (size_t i = 0; i < kept; i++) {
		const struct first_token *f = &lr->first[i];

		if (f->ns && f->at + FIRST_NS >= now && (!tgid || f->tgid == tgid))
			lr->values[n++] = (int64_t)f->ns;
	}
	return percentiles_of(lr->values, n);
}

bool live_requests_find(struct live_requests *lr, uint64_t now, struct live_batches *ret)
{
	*ret = (struct live_batches){ 0 };
	if (!lr->any)
		return false;
	for (size_t i = 0; i < REQUESTS_MAX; i++) {
		const struct entry *e = &lr->entries[i];
		const struct context *c;
		bool active, waiting;

		if (!e->serial)
			continue;
		c = context_of(lr, e->tgid, e->context);
		/* a step that takes longer than that is still running, as far as is known */
		if (c->end + (c->ns > QUIET_NS / 2 ? 2 * c->ns : QUIET_NS) < now)
			continue;
		active = e->step_end == c->end;
		waiting = !active && !e->first;
		count(&ret->all, active, waiting);
		if (active || waiting)
			count(process_of(ret, e->tgid), active, waiting);
	}
	ret->all.ttft = first_tokens(lr, now, 0);
	for (size_t i = 0; i < ret->n_processes; i++)
		ret->processes[i].ttft = first_tokens(lr, now, ret->processes[i].pid);
	return true;
}
