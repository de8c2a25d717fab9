// SPDX-License-Identifier: BSD-2-Clause
#include "format/profile_stacks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "format/stack_text.h"
#include "record.h"
#include "util/map.h"
#include "util/names.h"

/*
 * ---- which operator a sample was taken in ----
 *
 * A sample says when the innermost operator of its thread had begun, and the record
 * of that operator says what it was and when it ended. The two arrive in any order: samples are unwound first, and a
 * long operator ends after its samples. A sample that has waited for ten seconds has none.
 */

/* Takes samples whose operator is known, or will not be. op: the number given with it, plus 1; 0: none. */
typedef void (*stack_ops_cb)(void *arg, const struct rec_stack *r, uint32_t op);

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

/* Returns NULL without memory. */
static struct stack_ops *stack_ops_new(stack_ops_cb cb, void *arg)
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

static void stack_ops_free(struct stack_ops *so)
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

/* An operator with FUNCTION_F_SAMPLED has ended. */
static void stack_ops_call(struct stack_ops *so, const struct rec_function *r, uint32_t op)
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

/* Samples, with or without an operator, and anything else that has none. */
static void stack_ops_stack(struct stack_ops *so, const struct rec_stack *r)
{
	struct call_key key = { .start_ns = r->ref, .tid = r->h.tid };
	bool in_op = r->h.id == SAMPLE_CPU && r->ref;
	struct op_call *call = in_op ? find_call(so, &key) : NULL;

	if (in_op && !call && has_room(so))
		so->waiting[so->n_waiting++] = (struct waiting){ .r = *r, .round = so->round };
	else
		pass(so, r, call);
}

/* See struct sink_ops: every 10 ms. */
static void stack_ops_settled(struct stack_ops *so)
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

/* Nothing else comes: passes on what waits. */
static void stack_ops_finish(struct stack_ops *so)
{
	give_up(so, so->n_waiting);
}

/* ---- stacks ---- */

#define SUMS_MAX 16384 /* if full, all are written */
#define ENDED_MAX 4096 /* steps whose end and phase are known, by the low bits of their number */
#define HOLD 100       /* rounds of profile_stacks_settled(), a second */

/* For everything but the frames. */
#define ROOM (PROFILE_BODY_MAX - 2048 - FMT_JSON_STR_MAX(STACK_TEXT_MAX))

struct stack_key {
	uint32_t tgid, tid, step, stack;
	uint32_t state, kind;
	uint32_t op; /* the operator's number + 1; 0: in none */
	uint32_t waker_tid, waker_stack; /* of a wait */
	uint32_t by_interrupt;
};

struct stack_sum {
	UT_hash_handle hh;
	struct stack_key key;
	uint64_t n, ns;
	uint64_t round; /* of the first */
};

struct ended_step {
	uint32_t step; /* number + 1; 0: none */
	bool graph;
	uint64_t round;
	const char *phase;
};

struct profile_stacks {
	struct profile_lines *lines;
	const struct recording *rec;
	struct profile_ops *names; /* of operators, by number */
	struct stack_ops *ops;
	struct stack_sum *sums;
	struct ended_step ended[ENDED_MAX];
	uint64_t round;
	uint8_t *told; /* whose frames are in this file: a bit for each stack */
	uint32_t told_size;
};

/* Whether the frames of a stack are to be written: once for each file. Without memory: each time. */
static bool is_new(struct profile_stacks *ps, uint32_t stack)
{
	bool told;

	if (stack >= ps->told_size) {
		uint32_t size = (stack | 4095) + 1;
		uint8_t *bits = size ? realloc(ps->told, size / 8) : NULL;

		if (!bits)
			return true;
		memset(bits + ps->told_size / 8, 0, (size - ps->told_size) / 8);
		ps->told = bits;
		ps->told_size = size;
	}
	told = ps->told[stack / 8] & 1u << stack % 8;
	ps->told[stack / 8] |= (uint8_t)(1u << stack % 8);
	return !told;
}

/* The innermost first. What does not fit is cut at the outer end. */
static char *add_frames(char *p, const struct profile_stacks *ps, uint32_t stack)
{
	const char *end = p + ROOM;
	char text[STACK_TEXT_MAX];
	const uint32_t *frames;
	unsigned int n = stacks_get(ps->rec->stacks, stack, &frames);

	p = fmt_lit(p, ",\"frames\":[");
	for (unsigned int i = 0; i < n; i++) {
		const struct frame *f = stacks_frame(ps->rec->stacks, frames[i]);
		size_t len = f ? stack_text(f, text) : 0;

		if (!f)
			continue;
		if (p[-1] != '[')
			*p++ = ',';
		if (FMT_JSON_STR_MAX(len) + 32 > (size_t)(end - p)) {
			p = fmt_lit(p, "\"[cut]\"");
			break;
		}
		p = fmt_json_str(p, text, len);
	}
	*p++ = ']';
	return p;
}

/* Who ended the wait, and in which function, if its stack says so: its number alone may be that of a thread that an interrupt
 * hit. */
static char *add_waker(char *p, const struct profile_stacks *ps, const struct stack_key *k)
{
	const struct frame *f = ps->rec->stacks ? stack_subject(ps->rec->stacks, k->waker_stack) : NULL;
	const struct task *waker = k->waker_tid ? tasks_find(ps->rec->tasks, k->waker_tid) : NULL;
	char text[STACK_TEXT_MAX];

	if (k->by_interrupt)
		return add_string(p, ",\"waker\":", "interrupt");
	if (!f)
		return p;
	p = add_u64(p, ",\"waker_tid\":", k->waker_tid);
	if (waker && waker->comm[0])
		p = add_string(p, ",\"waker\":", waker->comm);
	stack_text(f, text);
	return add_string(p, ",\"woken_by\":", text);
}

static void write_sum(struct profile_stacks *ps, const struct stack_sum *sum)
{
	const struct stack_key *k = &sum->key;
	const struct ended_step *step = &ps->ended[k->step % ENDED_MAX];
	bool known = k->step && step->step == k->step, has_stack = false;
	char *p = profile_line_begin(ps->lines, "stack_prof", k->tgid);
	const uint32_t *frames;

	if (!p)
		return;
	p = add_u64(p, "\"pid\":", k->tgid);
	p = add_u64(p, ",\"tid\":", k->tid);
	if (k->step)
		p = add_u64(p, ",\"step\":", k->step - 1);
	if (known && step->phase)
		p = add_string(p, ",\"phase\":", step->phase);
	p = add_string(p, ",\"state\":", time_state_name((enum time_state)k->state));
	p = add_string(p, ",\"kind\":", stack_kind_name(k->kind));
	if (k->op)
		p = add_string(p, ",\"op\":", profile_ops_name(ps->names, k->op - 1));
	p = add_waker(p, ps, k);
	p = add_u64(p, ",\"samples\":", sum->n);
	has_stack = ps->rec->stacks && stacks_get(ps->rec->stacks, k->stack, &frames);
	if (has_stack)
		p = add_u64(p, ",\"stack\":", k->stack);
	p = add_us(p, PROFILE_STAGES "\"total\":", sum->ns);
	*p++ = '}';
	if (has_stack && is_new(ps, k->stack))
		p = add_frames(p, ps, k->stack);
	profile_line_end(ps->lines, p, known && step->graph);
}

static void sum_free(struct profile_stacks *ps, struct stack_sum *sum)
{
	HASH_DEL(ps->sums, sum);
	free(sum);
}

static void write_all(struct profile_stacks *ps)
{
	struct stack_sum *sum, *next;

	HASH_ITER(hh, ps->sums, sum, next)
	{
		write_sum(ps, sum);
		sum_free(ps, sum);
	}
}

/* NULL: no memory. */
static struct stack_sum *sum_new(struct profile_stacks *ps, const struct stack_key *key)
{
	struct stack_sum *sum = calloc(1, sizeof(*sum));

	if (!sum)
		return NULL;
	if (HASH_COUNT(ps->sums) == SUMS_MAX)
		write_all(ps);
	sum->key = *key;
	sum->round = ps->round;
	HASH_ADD(hh, ps->sums, key, sizeof(sum->key), sum);
	if (sum->hh.tbl)
		return sum;
	free(sum);
	return NULL;
}

/* Of a thread that waits for others at a barrier within its operator it says nothing of the operator's code. */
static void add_to_op(struct profile_stacks *ps, const struct rec_stack *r, uint32_t op)
{
	const struct frame *f;
	const uint32_t *frames;

	if (r->state == ST_BARRIER || !ps->rec->stacks || !stacks_get(ps->rec->stacks, r->stack, &frames))
		return;
	f = stacks_frame(ps->rec->stacks, frames[0]);
	if (f)
		profile_ops_sample(ps->names, r->h.tgid, r->step, op, f);
}

static void add(void *arg, const struct rec_stack *r, uint32_t op)
{
	struct profile_stacks *ps = arg;
	struct stack_key key = { r->h.tgid, r->h.tid, r->step, r->stack, r->state, r->h.id, op, 0, STACK_NONE,
		r->h.id == SAMPLE_OFF_CPU && r->flags & SAMPLE_F_WOKEN_IRQ };
	struct stack_sum *sum, alone;

	if (r->h.id == SAMPLE_OFF_CPU && r->waker_stack != STACK_NONE) {
		key.waker_tid = r->waker_tid;
		key.waker_stack = r->waker_stack;
	}
	if (op)
		add_to_op(ps, r, op - 1);
	alone = (struct stack_sum){ .key = key, .n = 1, .ns = r->weight_ns };
	HASH_FIND(hh, ps->sums, &key, sizeof(key), sum);
	sum = sum ? sum : sum_new(ps, &key);
	if (!sum) {
		write_sum(ps, &alone);
		return;
	}
	sum->n++;
	sum->ns += r->weight_ns;
}

void profile_stacks_add(struct profile_stacks *ps, const struct rec_stack *r)
{
	if (stack_kind_name(r->h.id) && r->state < ST_MAX)
		stack_ops_stack(ps->ops, r);
}

void profile_stacks_call(struct profile_stacks *ps, const struct rec_function *r)
{
	if (r->h.flags & FUNCTION_F_SAMPLED && ps->rec->probes->specs[r->h.id].role == ROLE_OP)
		stack_ops_call(ps->ops, r, profile_ops_number(ps->names, r));
}

void profile_stacks_step(struct profile_stacks *ps, const struct rec_step *r)
{
	ps->ended[(r->number + 1) % ENDED_MAX] = (struct ended_step){
		.step = r->number + 1,
		.graph = r->n.graphs > 0,
		.round = ps->round,
		.phase = probe_spec_name(&ps->rec->probes->specs[r->h.id], r->vals),
	};
}

static bool is_due(const struct profile_stacks *ps, const struct stack_sum *sum)
{
	const struct ended_step *step = &ps->ended[sum->key.step % ENDED_MAX];

	if (ps->round - sum->round < HOLD)
		return false;
	if (!sum->key.step || step->step > sum->key.step) /* so many steps later it is over, or was lost */
		return true;
	return step->step == sum->key.step && ps->round - step->round >= HOLD;
}

void profile_stacks_settled(struct profile_stacks *ps)
{
	struct stack_sum *sum, *next;

	stack_ops_settled(ps->ops);
	if (++ps->round % LOOK)
		return;
	HASH_ITER(hh, ps->sums, sum, next)
	{
		if (!is_due(ps, sum))
			continue;
		write_sum(ps, sum);
		sum_free(ps, sum);
	}
}

void profile_stacks_rotate(struct profile_stacks *ps)
{
	if (ps->told)
		memset(ps->told, 0, ps->told_size / 8);
}

void profile_stacks_finish(struct profile_stacks *ps)
{
	stack_ops_finish(ps->ops);
	write_all(ps);
}

int profile_stacks_new(struct profile_lines *lines, const struct recording *rec, struct profile_ops *names,
	struct profile_stacks **ret_stacks)
{
	struct profile_stacks *ps = calloc(1, sizeof(*ps));

	if (!ps)
		return -ENOMEM;
	ps->lines = lines;
	ps->rec = rec;
	ps->names = names;
	ps->ops = stack_ops_new(add, ps);
	if (!ps->ops) {
		free(ps);
		return -ENOMEM;
	}
	*ret_stacks = ps;
	return 0;
}

void profile_stacks_free(struct profile_stacks *ps)
{
	struct stack_sum *sum, *next;

	if (!ps)
		return;
	HASH_ITER(hh, ps->sums, sum, next)
	{
		sum_free(ps, sum);
	}
	stack_ops_free(ps->ops);
	free(ps->told);
	free(ps);
}
