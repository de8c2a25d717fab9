// SPDX-License-Identifier: BSD-2-Clause
/*
 * Execution traces for Chakra's tools: the operators of each step and their dependencies. A step is written only once all of
 * it has arrived: if records were lost, or its begin or end was not seen, it would be a different graph.
 */
#include "format/chakra.h"

#include <stdlib.h>
#include <string.h>

#include "requests/request_feed.h"
#include "sink/process_list.h"
#include "sink/sink.h"
#include "util/list.h"
#include "util/log.h"
#include "util/names.h"

#define NODES_KEPT_MAX 16384 /* in steps that are not written yet: 25 MB */
#define CALLS_KEPT_MAX 262144
#define STEPS_KEPT_MAX 1024
#define THREADS_KEPT_MAX 64 /* threads whose last step is known; with more, some steps stand alone */
#define ROUNDS 2            /* calls of chakra_settled() until everything sent before has arrived */

struct kept_step {
	struct thread_entry entry; /* key: the step's number + 1 */
	unsigned int rounds;       /* 0: it has not ended */
	uint32_t tgid, tid;
	const char *phase;
	struct et_step s;
};

/* The last node of the last step of a thread. */
struct last_node {
	uint32_t tid; /* 0: unused */
	uint64_t id;
	uint64_t thread; /* in PyTorch's form: id of the thread's own node; 0: none yet */
};

struct chakra {
	struct sink sink;
	struct recording rec;
	struct thread_map steps; /* struct kept_step */
	size_t n_nodes, n_calls; /* kept */
	struct last_node last[THREADS_KEPT_MAX];
	unsigned int next_last; /* the next to be replaced */
	uint64_t next_id, written, left_out, unplaced;
	uint32_t pid; /* of the first step */
};

static void step_drop(struct chakra *c, struct kept_step *k)
{
	c->n_nodes -= k->s.n_nodes;
	c->n_calls -= k->s.n_calls + k->s.n_comms;
	free(k->s.nodes);
	free(k->s.calls);
	free(k->s.comms);
	thread_map_remove(&c->steps, k);
}

static void chakra_take_node(struct chakra *c, const struct rec_node *r)
{
	const struct node_fields *f = &c->rec.probes->specs[r->h.id].node;
	struct kept_step *k;
	struct et_node node;

	if (!f->layout.bytes || c->rec.kineto)
		return;
	k = r->step ? thread_map_get(&c->steps, r->step) : NULL;
	if (!k) {
		c->unplaced++;
		return;
	}
	if (c->n_nodes >= NODES_KEPT_MAX || !et_node_read(r, f, &node)) {
		k->s.incomplete = true;
		return;
	}
	*list_push(k->s.nodes, k->s.n_nodes, k->s.nodes_cap) = node;
	c->n_nodes++;
}

/* Returns the call's operator if its first argument names it as the nodes do; else ET_NO_OP. */
static uint32_t call_operator(const struct probe_spec *s, const struct rec_function *r)
{
	if (!s->nargs || !s->args[0].names || s->misfits & 1)
		return ET_NO_OP;
	return (uint32_t)r->vals[0];
}

static void chakra_take_comm(struct chakra *c, const struct rec_function *r, const struct et_comm *m)
{
	struct kept_step *k = r->step ? thread_map_get(&c->steps, r->step) : NULL;

	if (!k) {
		c->unplaced++;
	} else if (c->n_calls >= CALLS_KEPT_MAX) {
		k->s.incomplete = true;
	} else {
		*list_push(k->s.comms, k->s.n_comms, k->s.comms_cap) = *m;
		c->n_calls++;
	}
}

static void chakra_take_call(struct chakra *c, const struct rec_function *r)
{
	const struct probe_spec *s = &c->rec.probes->specs[r->h.id];
	struct kept_step *k;
	struct et_call *call;
	struct et_comm comm;

	if (s->role == ROLE_TRANSFER && !c->rec.kineto && et_comm_read(s, r, &comm)) {
		chakra_take_comm(c, r, &comm);
		return;
	}
	if (s->role != ROLE_OP || !(s->flags & (PROBE_F_BEGIN | PROBE_F_SPAN)) || !r->step)
		return;
	k = thread_map_get(&c->steps, r->step);
	if (!k)
		return;
	if (c->n_calls >= CALLS_KEPT_MAX) {
		k->s.incomplete = true;
		return;
	}
	call = list_push(k->s.calls, k->s.n_calls, k->s.calls_cap);
	*call = (struct et_call){
		.start_ns = r->h.start_ns,
		.end_ns = r->h.start_ns + r->h.dur_ns,
		.tid = r->h.tid,
		.op = call_operator(s, r),
		.name = s->flags & PROBE_F_SPAN ? probe_record_name(s, r) : NULL,
		.declared = s->declared,
		.number = request_feed_number(c->rec.requests),
		.args = s->tensors,
	};
	if (s->nshapes)
		memcpy(call->shapes, r->vals, probe_spec_values(s) * sizeof(r->vals[0]));
	c->n_calls++;
}

static void chakra_take_step(struct chakra *c, const struct rec_step *r)
{
	struct kept_step *k = thread_map_get(&c->steps, r->number + 1);

	if (!k) {
		c->left_out++;
		return;
	}
	k->rounds = 1;
	k->tgid = r->h.tgid;
	k->tid = r->h.tid;
	k->phase = probe_spec_name(&c->rec.probes->specs[r->h.id], r->vals);
	if (r->lost || r->left_out || r->h.flags & (REC_F_OPEN_START | REC_F_OPEN_END))
		k->s.incomplete = true;
}

static void chakra_record(struct sink *s, const struct rec_hdr *rec, size_t size)
{
	struct chakra *c = (struct chakra *)s;

	if (rec->id >= c->rec.probes->n)
		return;
	if (rec->kind == REC_NODE && size >= REC_NODE_SIZE(((const struct rec_node *)rec)->n))
		chakra_take_node(c, (const struct rec_node *)rec);
	else if (rec->kind == REC_FUNCTION)
		chakra_take_call(c, (const struct rec_function *)rec);
	else if (rec->kind == REC_STEP)
		chakra_take_step(c, (const struct rec_step *)rec);
}

/* A step that has not ended also reports its losses in its own record. */
static void chakra_loss(struct sink *s, const struct loss *l)
{
	struct chakra *c = (struct chakra *)s;
	struct kept_step *k = NULL;

	if (!l->count[REC_NODE] && !l->count[REC_FUNCTION])
		return;
	while ((k = thread_map_next(&c->steps, k)))
		k->s.incomplete = true;
}

static struct last_node *chakra_last_node(struct chakra *c, uint32_t tid)
{
	struct last_node *l;

	for (size_t i = 0; i < THREADS_KEPT_MAX; i++) {
		if (c->last[i].tid == tid)
			return &c->last[i];
	}
	l = &c->last[c->next_last++ % THREADS_KEPT_MAX];
	*l = (struct last_node){ .tid = tid };
	return l;
}

/* Keeps one kind of calls: in a step with nodes, those that only time them, otherwise those that are operators by themselves.
 * With nodes, others, such as those of --uprobe, would be taken for calls of these. */
static void choose_calls(struct chakra *c, struct kept_step *k)
{
	size_t n = 0;

	for (size_t i = 0; i < k->s.n_calls; i++) {
		if (!k->s.calls[i].name == (k->s.n_nodes > 0))
			k->s.calls[n++] = k->s.calls[i];
	}
	c->n_calls -= k->s.n_calls - n;
	k->s.n_calls = n;
}

/* In PyTorch's form: writes threads that have no node yet, and updates the end of the file for this step. */
static void begin_json(struct chakra *c, const struct kept_step *k, size_t n)
{
	uint64_t end_ns = 0;

	for (size_t i = 0; i < n; i++) {
		struct last_node *l = chakra_last_node(c, k->s.calls[i].tid);

		end_ns = k->s.calls[i].end_ns > end_ns ? k->s.calls[i].end_ns : end_ns;
		if (l->thread)
			continue;
		l->thread = c->next_id++;
		writer_commit(c->sink.w, et_json_thread(writer_reserve(c->sink.w), l->thread, l->tid));
	}
	c->pid = c->pid ? c->pid : k->tgid;
	et_json_end(c->sink.w, c->pid, end_ns - c->rec.start_boot_ns + c->rec.start_mono_ns);
}

static char *chakra_write_call(struct chakra *c, const struct et_call *call, const struct et_context *context)
{
	uint64_t thread;

	if (!c->rec.kineto)
		return et_write_call(writer_reserve(c->sink.w), call, context);
	thread = chakra_last_node(c, call->tid)->thread; /* 0: more threads than are kept */
	return et_json_call(writer_reserve(c->sink.w), call, thread ? thread : ET_JSON_ROOT);
}

/* Writes calls that are operators by themselves; returns their number. */
static size_t chakra_write_calls(struct chakra *c, struct kept_step *k, uint64_t before, const struct et_context *context)
{
	size_t n = k->s.n_calls && k->s.calls[0].name ? k->s.n_calls : 0;

	if (!n)
		return 0;
	if (c->rec.kineto)
		begin_json(c, k, n);
	et_calls_resolve(&k->s, c->next_id, before);
	for (size_t i = 0; i < n; i++)
		writer_commit(c->sink.w, chakra_write_call(c, &k->s.calls[i], context));
	return n;
}

static void chakra_write_step(struct chakra *c, struct kept_step *k)
{
	struct last_node *last = chakra_last_node(c, k->tid);
	size_t n = k->s.n_nodes;
	struct et_context context = {
		.real_ns = c->rec.start_real_ns - c->rec.start_boot_ns,
		.step = k->entry.tid - 1,
		.phase = k->phase,
		.tgid = k->tgid,
	};

	if (c->rec.et_steps && c->written >= c->rec.et_steps)
		return;
	choose_calls(c, k);
	if (k->s.incomplete || writer_full(c->sink.w)) {
		c->left_out++;
		return;
	}
	et_step_resolve(&k->s, c->next_id, last->id);
	c->n_nodes -= n - k->s.n_nodes;
	for (size_t i = 0; i < k->s.n_nodes; i++)
		writer_commit(c->sink.w, et_write_node(writer_reserve(c->sink.w), &k->s.nodes[i], &context));
	n = k->s.n_nodes + chakra_write_calls(c, k, last->id, &context);
	et_comms_resolve(&k->s, c->next_id + n, last->id);
	for (size_t i = 0; i < k->s.n_comms; i++)
		writer_commit(c->sink.w, et_write_comm(writer_reserve(c->sink.w), &k->s.comms[i], &context));
	n += k->s.n_comms;
	if (!n)
		return;
	c->next_id += n;
	last->id = c->next_id - 1;
	c->written++;
}

static int steps_by_number(const struct thread_entry *a, const struct thread_entry *b)
{
	return a->tid < b->tid ? -1 : a->tid > b->tid;
}

static void chakra_settled(struct sink *s)
{
	struct chakra *c = (struct chakra *)s;
	struct kept_step *k, *next;

	HASH_SORT(c->steps.first, steps_by_number);
	for (k = thread_map_next(&c->steps, NULL); k; k = next) {
		next = thread_map_next(&c->steps, k);
		if (!k->rounds || k->rounds++ <= ROUNDS)
			continue;
		chakra_write_step(c, k);
		step_drop(c, k);
	}
}

static int chakra_close(struct sink *s, const struct window_totals *t)
{
	struct chakra *c = (struct chakra *)s;
	struct kept_step *k;
	int err;

	HASH_SORT(c->steps.first, steps_by_number);
	while ((k = thread_map_next(&c->steps, NULL))) {
		if (k->rounds)
			chakra_write_step(c, k);
		else
			c->left_out++;
		step_drop(c, k);
	}
	if (t && c->left_out)
		log_warn("%llu steps are not in the execution trace: their begin or end was not seen, or records of "
			 "them were lost",
			(unsigned long long)c->left_out);
	if (t && c->unplaced)
		log_warn("%llu operators are not in the execution trace: they ran outside of any step, or too many steps "
			 "were under way",
			(unsigned long long)c->unplaced);
	if (t && !c->written)
		log_warn("the execution trace has no operators: no step of an engine was seen whose preset describes "
			 "its operators");
	if (t && writer_dropped(c->sink.w))
		log_warn("%llu operators are missing from steps of the execution trace: it could not be written as fast",
			(unsigned long long)writer_dropped(c->sink.w));
	err = writer_close(c->sink.w);
	free(c);
	return err;
}

static const struct sink_ops chakra_ops = {
	.record = chakra_record,
	.loss = chakra_loss,
	.settled = chakra_settled,
	.close = chakra_close,
};

struct sink *chakra_sink_new(struct writer *w, const struct recording *rec)
{
	struct chakra *c = xcalloc(1, sizeof(*c));

	c->sink.ops = &chakra_ops;
	c->rec = *rec;
	c->sink.w = w;
	c->steps = (struct thread_map){ .size = sizeof(struct kept_step), .max = STEPS_KEPT_MAX };
	c->next_id = rec->kineto ? ET_JSON_ROOT + 1 : 1;
	if (rec->kineto) {
		et_json_end(w, 0, rec->start_mono_ns);
		writer_commit(w, et_json_begin(writer_reserve(w), rec->start_real_ns, rec->start_mono_ns));
	} else {
		writer_commit(w, et_write_metadata(writer_reserve(w), NULL));
	}
	return &c->sink;
}
