// SPDX-License-Identifier: BSD-2-Clause
#include "sink/stack_ops.h"

#include <stdlib.h>
#include <string.h>

#include "util/map.h"

#define WAITING_MAX 4096 /* samples; if there are more, the oldest have no operator */
#define CALLS_MAX 4096   /* operators; each has at least one sample. Beyond that their samples have none */
#define HOLD_SAMPLE 1000 /* rounds of stack_ops_settled(), 10 seconds: operators may be long */
#define HOLD_CALL 100 /* one second: samples are unwound soon */
#define LOOK 20          /* rounds between two looks at what waits */

struct call_key {
	uint64_t start_ns;
	uint32_t tid, pad;
};

/* An operator that has ended. */
struct op_call {
	UT_hash_handle hh;
	struct call_key key;
	uint64_t end_ns, round;
	uint32_t op;
};

struct waiting {
	struct rec_stack r;
	uint64_t round;
};

struct stack_ops {
	stack_ops_cb cb;
	void *arg;
	struct op_call *calls;
	struct waiting *waiting;
	size_t n_waiting, waiting_size;
	uint64_t round;
};

struct stack_ops *stack_ops_new(stack_ops_cb cb, void *arg)
{
	struct stack_ops *so = calloc(1, sizeof(*so));

	if (so) {
		so->cb = cb;
		so->arg = arg;
	}
	return so;
}

static void call_free(struct stack_ops *so, struct op_call *call)
{
	HASH_DEL(so->calls, call);
	free(call);
}

void stack_ops_free(struct stack_ops *so)
{
	struct op_call *call, *next;

	if (!so)
		return;
	HASH_ITER(hh, so->calls, call, next)
	{
		call_free(so, call);
	}
	free(so->waiting);
	free(so);
}

static struct op_call *find_call(struct stack_ops *so, const struct call_key *key)
{
	struct op_call *call;

	HASH_FIND(hh, so->calls, key, sizeof(*key), call);
	return call;
}

static struct op_call *call_new(struct stack_ops *so, const struct call_key *key)
{
	struct op_call *call = HASH_COUNT(so->calls) < CALLS_MAX ? calloc(1, sizeof(*call)) : NULL;

	if (!call)
		return NULL;
	call->key = *key;
	HASH_ADD(hh, so->calls, key, sizeof(call->key), call);
	if (call->hh.tbl)
		return call;
	free(call);
	return NULL;
}

static void pass(struct stack_ops *so, const struct rec_stack *r, const struct op_call *call)
{
	so->cb(so->arg, r, call && r->h.start_ns <= call->end_ns ? call->op + 1 : 0);
}

void stack_ops_call(struct stack_ops *so, const struct rec_function *r, uint32_t op)
{
	struct call_key key = { .start_ns = r->h.start_ns, .tid = r->h.tid };
	struct op_call *call = find_call(so, &key);
	size_t n = 0;

	call = call ? call : call_new(so, &key);
	if (!call)
		return;
	call->end_ns = r->h.start_ns + r->h.dur_ns;
	call->op = op;
	call->round = so->round;
	for (size_t i = 0; i < so->n_waiting; i++) {
		struct waiting *w = &so->waiting[i];

		if (w->r.ref == key.start_ns && w->r.h.tid == key.tid)
			pass(so, &w->r, call);
		else
			so->waiting[n++] = *w;
	}
	so->n_waiting = n;
}

/* Passes on the first of them without an operator. */
static void give_up(struct stack_ops *so, size_t n)
{
	for (size_t i = 0; i < n; i++)
		pass(so, &so->waiting[i].r, NULL);
	so->n_waiting -= n;
	if (n)
		memmove(so->waiting, so->waiting + n, so->n_waiting * sizeof(so->waiting[0]));
}

static bool has_room(struct stack_ops *so)
{
	size_t size = so->waiting_size ? 2 * so->waiting_size : 64;
	struct waiting *list;

	if (so->n_waiting < so->waiting_size)
		return true;
	if (so->n_waiting >= WAITING_MAX) {
		give_up(so, WAITING_MAX / 4);
		return true;
	}
	list = realloc(so->waiting, size * sizeof(*list));
	if (!list)
		return false;
	so->waiting = list;
	so->waiting_size = size;
	return true;
}

void stack_ops_stack(struct stack_ops *so, const struct rec_stack *r)
{
	struct call_key key = { .start_ns = r->ref, .tid = r->h.tid };
	bool in_op = r->h.id == SAMPLE_CPU && r->ref;
	struct op_call *call = in_op ? find_call(so, &key) : NULL;

	if (in_op && !call && has_room(so))
		so->waiting[so->n_waiting++] = (struct waiting){ .r = *r, .round = so->round };
	else
		pass(so, r, call);
}

void stack_ops_settled(struct stack_ops *so)
{
	struct op_call *call, *next;
	size_t n = 0;

	if (++so->round % LOOK)
		return;
	while (n < so->n_waiting && so->round - so->waiting[n].round >= HOLD_SAMPLE)
		n++;
	give_up(so, n);
	HASH_ITER(hh, so->calls, call, next)
	{
		if (so->round - call->round >= HOLD_CALL)
			call_free(so, call);
	}
}

void stack_ops_finish(struct stack_ops *so)
{
	give_up(so, so->n_waiting);
}
