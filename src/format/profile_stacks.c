// SPDX-License-Identifier: BSD-2-Clause
/*
 * stack_prof: samples and waits, summed up by thread, step, state, operator and stack.
 *
 * Stacks arrive some time after the steps that they belong to, since they are unwound first. So the sums of a step are written
 * about a second after its end, those outside of steps about a second after the first of them; whatever comes after that makes a
 * further line. All lines together are exact.
 */
#include "format/profile_line.h"

#include <stdlib.h>
#include <string.h>

#include "format/stack_text.h"
#include "record.h"
#include "util/list.h"
#include "util/map.h"
#include "util/names.h"

#define SUMS_MAX 16384 /* if full, all are written */
#define ENDED_MAX 4096 /* steps whose end and phase are known, by the low bits of their number */
#define HOLD 100       /* rounds of profile_stacks_settled(), a second */

#define WAITING_MAX 4096 /* samples; if there are more, the oldest have no operator */
#define CALLS_MAX 4096   /* operators; each has at least one sample. Beyond that their samples have none */
#define HOLD_SAMPLE 1000 /* rounds, 10 seconds: operators may be long */
#define HOLD_CALL 100    /* one second: samples are unwound soon */
#define LOOK 20          /* rounds between two looks at what waits */

/* For everything but the frames. */
#define ROOM (PROFILE_BODY_MAX - 2048 - FMT_JSON_STR_MAX(STACK_TEXT_MAX))

struct stack_key {
	uint32_t tgid, tid, step, stack;
	uint32_t state, kind;
	uint32_t op;                     /* the operator's number + 1; 0: in none */
	uint32_t waker_tid, waker_stack; /* of a wait */
	uint32_t by_interrupt;
};

struct stacks_stack_sum {
	UT_hash_handle hh;
	struct stack_key key;
	uint64_t n, ns;
	uint64_t round; /* of the first */
};

struct stacks_ended_step {
	uint32_t step; /* number + 1; 0: none */
	bool graph;
	uint64_t round;
	const char *phase;
};

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

struct stacks_waiting {
	struct rec_stack r;
	uint64_t round;
};

struct profile_stacks {
	struct profile_lines *lines;
	const struct recording *rec;
	struct profile_ops *names; /* of operators, by number */
	struct op_call *calls;
	struct stacks_waiting *waiting; /* samples whose operator is not known yet */
	size_t n_waiting, waiting_size;
	struct stacks_stack_sum *sums;
	struct stacks_ended_step ended[ENDED_MAX];
	uint64_t round;
	uint8_t *told; /* whose frames are in this file: a bit for each stack */
	uint32_t told_size;
};

/* Whether the frames of a stack are to be written: once for each file. */
static bool stack_is_new(struct profile_stacks *ps, uint32_t stack)
{
	bool told;

	if (stack >= ps->told_size) {
		uint32_t size = (stack | 4095) + 1;

		ps->told = xreallocarray(ps->told, size / 8, 1);
		memset(ps->told + ps->told_size / 8, 0, (size - ps->told_size) / 8);
		ps->told_size = size;
	}
	told = ps->told[stack / 8] & 1u << stack % 8;
	ps->told[stack / 8] |= (uint8_t)(1u << stack % 8);
	return !told;
}

/* Adds frames, the innermost first. What does not fit is cut at the outer end. */
static char *add_stack_frames(char *p, const struct profile_stacks *ps, uint32_t stack)
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

/* Adds who ended the wait, and in which function, if the waker's stack is known: a tid alone may be of a thread that an
 * interrupt hit. */
static char *add_stack_waker(char *p, const struct profile_stacks *ps, const struct stack_key *k)
{
	const struct frame *f = ps->rec->stacks ? stack_subject(ps->rec->stacks, k->waker_stack) : NULL;
	const struct task *waker = k->waker_tid ? tasks_find(ps->rec->tasks, k->waker_tid) : NULL;
	char text[STACK_TEXT_MAX];

	if (k->by_interrupt)
		return PUT(p, waker, "interrupt");
	if (!f)
		return p;
	p = PUT(p, waker_tid, k->waker_tid);
	if (waker && waker->comm[0])
		p = PUT(p, waker, waker->comm);
	stack_text(f, text);
	return PUT(p, woken_by, text);
}

static void stack_sum_write(struct profile_stacks *ps, const struct stacks_stack_sum *sum)
{
	const struct stack_key *k = &sum->key;
	const struct stacks_ended_step *step = &ps->ended[k->step % ENDED_MAX];
	bool known = k->step && step->step == k->step, has_stack = false;
	char *p = profile_line_begin(ps->lines, "stack_prof", k->tgid);
	const uint32_t *frames;

	p = PUT_FIRST(p, pid, k->tgid);
	p = PUT(p, tid, k->tid);
	if (k->step)
		p = PUT(p, step, k->step - 1);
	if (known && step->phase)
		p = PUT(p, phase, step->phase);
	p = PUT(p, state, time_state_name((enum time_state)k->state));
	p = PUT(p, kind, stack_kind_name(k->kind));
	if (k->op)
		p = PUT(p, op, profile_ops_name(ps->names, k->op - 1));
	p = add_stack_waker(p, ps, k);
	p = PUT(p, samples, sum->n);
	has_stack = ps->rec->stacks && stacks_get(ps->rec->stacks, k->stack, &frames);
	if (has_stack)
		p = PUT(p, stack, k->stack);
	p = PUT_TOTAL(p, sum->ns);
	*p++ = '}';
	if (has_stack && stack_is_new(ps, k->stack))
		p = add_stack_frames(p, ps, k->stack);
	profile_line_end(ps->lines, p, known && step->graph);
}

static void stack_sum_free(struct profile_stacks *ps, struct stacks_stack_sum *sum)
{
	HASH_DEL(ps->sums, sum);
	free(sum);
}

static void stack_sums_write_all(struct profile_stacks *ps)
{
	struct stacks_stack_sum *sum, *next;

	HASH_ITER(hh, ps->sums, sum, next)
	{
		stack_sum_write(ps, sum);
		stack_sum_free(ps, sum);
	}
}

/* A sample at a barrier inside an operator says nothing about the operator's code. */
static void op_add_sample(struct profile_stacks *ps, const struct rec_stack *r, uint32_t op)
{
	const struct frame *f;
	const uint32_t *frames;

	if (r->state == ST_BARRIER || !ps->rec->stacks || !stacks_get(ps->rec->stacks, r->stack, &frames))
		return;
	f = stacks_frame(ps->rec->stacks, frames[0]);
	if (f)
		profile_ops_sample(ps->names, r->h.tgid, r->step, op, f);
}

/* op: the number of the operator, plus 1; 0: in none */
static void stack_sums_add(struct profile_stacks *ps, const struct rec_stack *r, uint32_t op)
{
	struct stack_key key = { r->h.tgid, r->h.tid, r->step, r->stack, r->state, r->h.id, op, 0, STACK_NONE,
		r->h.id == SAMPLE_OFF_CPU && r->flags & SAMPLE_F_WOKEN_IRQ };
	struct stacks_stack_sum *sum;

	if (r->h.id == SAMPLE_OFF_CPU && r->waker_stack != STACK_NONE) {
		key.waker_tid = r->waker_tid;
		key.waker_stack = r->waker_stack;
	}
	if (op)
		op_add_sample(ps, r, op - 1);
	HASH_FIND(hh, ps->sums, &key, sizeof(key), sum);
	if (!sum) {
		if (HASH_COUNT(ps->sums) == SUMS_MAX)
			stack_sums_write_all(ps);
		sum = xcalloc(1, sizeof(*sum));
		sum->key = key;
		sum->round = ps->round;
		HASH_ADD(hh, ps->sums, key, sizeof(sum->key), sum);
	}
	sum->n++;
	sum->ns += r->weight_ns;
}

/*
 * ---- which operator a sample was taken in ----
 *
 * A sample says when the innermost operator of its thread had begun, and the record of that operator says what it was and when
 * it ended. The two arrive in any order: samples are unwound first, and a long operator ends after its samples. A sample that
 * has waited for ten seconds has none.
 */

static void op_call_free(struct profile_stacks *ps, struct op_call *call)
{
	HASH_DEL(ps->calls, call);
	free(call);
}

static struct op_call *op_call_find(struct profile_stacks *ps, const struct call_key *key)
{
	struct op_call *call;

	HASH_FIND(hh, ps->calls, key, sizeof(*key), call);
	return call;
}

/* Takes a sample whose operator is known; call NULL: it will not be. */
static void sample_add_to_call(struct profile_stacks *ps, const struct rec_stack *r, const struct op_call *call)
{
	stack_sums_add(ps, r, call && r->h.start_ns <= call->end_ns ? call->op + 1 : 0);
}

void profile_stacks_call(struct profile_stacks *ps, const struct rec_function *r)
{
	struct call_key key = { .start_ns = r->h.start_ns, .tid = r->h.tid };
	struct op_call *call = op_call_find(ps, &key);
	size_t n = 0;

	if (!(r->h.flags & FUNCTION_F_SAMPLED) || ps->rec->probes->specs[r->h.id].role != ROLE_OP)
		return;
	if (!call && HASH_COUNT(ps->calls) == CALLS_MAX)
		return;
	if (!call) {
		call = xcalloc(1, sizeof(*call));
		call->key = key;
		HASH_ADD(hh, ps->calls, key, sizeof(call->key), call);
	}
	call->end_ns = r->h.start_ns + r->h.dur_ns;
	call->op = profile_ops_number(ps->names, r);
	call->round = ps->round;
	for (size_t i = 0; i < ps->n_waiting; i++) {
		struct stacks_waiting *w = &ps->waiting[i];

		if (w->r.ref == key.start_ns && w->r.h.tid == key.tid)
			sample_add_to_call(ps, &w->r, call);
		else
			ps->waiting[n++] = *w;
	}
	ps->n_waiting = n;
}

/* Passes on the first n waiting samples without an operator. */
static void samples_give_up(struct profile_stacks *ps, size_t n)
{
	for (size_t i = 0; i < n; i++)
		sample_add_to_call(ps, &ps->waiting[i].r, NULL);
	ps->n_waiting -= n;
	if (n)
		memmove(ps->waiting, ps->waiting + n, ps->n_waiting * sizeof(ps->waiting[0]));
}

void profile_stacks_add(struct profile_stacks *ps, const struct rec_stack *r)
{
	struct call_key key = { .start_ns = r->ref, .tid = r->h.tid };
	bool in_op = r->h.id == SAMPLE_CPU && r->ref;
	struct op_call *call = in_op ? op_call_find(ps, &key) : NULL;

	if (!stack_kind_name(r->h.id) || r->state >= ST_MAX)
		return;
	if (!in_op || call) {
		sample_add_to_call(ps, r, call);
		return;
	}
	if (ps->n_waiting == WAITING_MAX)
		samples_give_up(ps, WAITING_MAX / 4);
	*list_push(ps->waiting, ps->n_waiting, ps->waiting_size) = (struct stacks_waiting){ .r = *r, .round = ps->round };
}

/* ---- lines ---- */

void profile_stacks_step(struct profile_stacks *ps, const struct rec_step *r)
{
	ps->ended[(r->number + 1) % ENDED_MAX] = (struct stacks_ended_step){
		.step = r->number + 1,
		.graph = r->n.graphs > 0,
		.round = ps->round,
		.phase = probe_spec_name(&ps->rec->probes->specs[r->h.id], r->vals),
	};
}

static bool stack_sum_is_due(const struct profile_stacks *ps, const struct stacks_stack_sum *sum)
{
	const struct stacks_ended_step *step = &ps->ended[sum->key.step % ENDED_MAX];

	if (ps->round - sum->round < HOLD)
		return false;
	if (!sum->key.step || step->step > sum->key.step) /* so many steps later it is over, or was lost */
		return true;
	return step->step == sum->key.step && ps->round - step->round >= HOLD;
}

void profile_stacks_settled(struct profile_stacks *ps)
{
	struct stacks_stack_sum *sum, *next;
	struct op_call *call, *next_call;
	size_t n = 0;

	if (++ps->round % LOOK)
		return;
	while (n < ps->n_waiting && ps->round - ps->waiting[n].round >= HOLD_SAMPLE)
		n++;
	samples_give_up(ps, n);
	HASH_ITER(hh, ps->calls, call, next_call)
	{
		if (ps->round - call->round >= HOLD_CALL)
			op_call_free(ps, call);
	}
	HASH_ITER(hh, ps->sums, sum, next)
	{
		if (!stack_sum_is_due(ps, sum))
			continue;
		stack_sum_write(ps, sum);
		stack_sum_free(ps, sum);
	}
}

void profile_stacks_rotate(struct profile_stacks *ps)
{
	if (ps->told)
		memset(ps->told, 0, ps->told_size / 8);
}

void profile_stacks_finish(struct profile_stacks *ps)
{
	samples_give_up(ps, ps->n_waiting);
	stack_sums_write_all(ps);
}

struct profile_stacks *profile_stacks_new(struct profile_lines *lines, const struct recording *rec, struct profile_ops *names)
{
	struct profile_stacks *ps = xcalloc(1, sizeof(*ps));

	ps->lines = lines;
	ps->rec = rec;
	ps->names = names;
	return ps;
}

void profile_stacks_free(struct profile_stacks *ps)
{
	struct stacks_stack_sum *sum, *next;
	struct op_call *call, *next_call;

	HASH_ITER(hh, ps->sums, sum, next)
	{
		stack_sum_free(ps, sum);
	}
	HASH_ITER(hh, ps->calls, call, next_call)
	{
		op_call_free(ps, call);
	}
	free(ps->waiting);
	free(ps->told);
	free(ps);
}
