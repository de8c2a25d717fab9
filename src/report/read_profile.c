// SPDX-License-Identifier: BSD-2-Clause
/* Reads the lines of a profile (docs/profile-schema.md), with or without keys that only some versions write. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "read/profile.h"
#include "report/costs.h"
#include "report/read.h"
#include "schema/left_out.h"
#include "schema/profile_keys.h"
#include "util/list.h"
#include "util/text.h"

struct profile_reader {
	struct model *m;
	struct read_problems *problems;
	uint32_t file;          /* its name */
	uint64_t line;          /* the number of the current line */
	uint32_t recording;     /* of the current lines */
	bool first_step_seen;   /* step 0 of this recording */
	bool window_ended;      /* the next step belongs to another recording */
	uint32_t n_steps;       /* of this recording */
	struct process *recent; /* of the previous line */
	struct stack_ids stacks;
	const struct json_node *object, *shape, *stages; /* the current line */
	const char *event;
	struct op_time *ops; /* of one line */
	size_t ops_size;
	/* where to look for the next key: see key_find() and read_state() */
	unsigned int shape_hint, own_hint, workers_hint;
};

/* Reports a line that cannot be used. */
#define LINE_BAD(r, fmt, ...) \
	read_problem((r)->problems, "line %llu: " fmt, (unsigned long long)(r)->line, ##__VA_ARGS__)

/* How to read a key. */
enum key_type {
	KEY_U32,
	KEY_U64,
	KEY_PLUS_1, /* a u64; 0: missing */
	KEY_US,
	KEY_NAME,
	KEY_STATE,
	KEY_TRUE,
	KEY_PARTS,
	KEY_FLAG, /* of a request */
};

struct read_key {
	const char *name;
	enum key_type type;
	size_t at; /* offset of the member, or the flag */
};

/* Fields of schema/profile_fields.h, which says how they are read. */
#define FIELD_TYPE(key, size) PROFILE_BY_TYPE(key, (size) == 8 ? KEY_U64 : KEY_U32, KEY_US, KEY_NAME, KEY_TRUE, KEY_STATE, KEY_PARTS)
#define FIELD_KEY(object, member, key) #key, FIELD_TYPE(key, sizeof(((struct object *)0)->member)), offsetof(struct object, member)
#define FLAG_KEY(key, flag) #key, sizeof(profile_field_##key) ? KEY_FLAG : 0, flag
#define STEP_KEY(name, member, key) { FIELD_KEY(step, member, key) },
#define ROW_KEY(name, member, key) { #key, KEY_PLUS_1, offsetof(struct step, member) },
#define NO_KEY(...)

static const struct read_key step_keys[] = {
	{ FIELD_KEY(step, stand_in, stand_in) },
	{ FIELD_KEY(step, tracer, tracer_us) },
	STEP_FIELDS(STEP_KEY, ROW_KEY, NO_KEY, NO_KEY)
};

/* hint: where the key is likely to be, initially 0. */
static const struct read_key *key_find(const struct read_key *keys, size_t n, const char *name, unsigned int *hint)
{
	for (unsigned int i = 0; i < n; i++) {
		unsigned int k = (*hint + i) % (unsigned int)n;

		if (!strcmp(name, keys[k].name)) {
			*hint = k + 1;
			return &keys[k];
		}
	}
	return NULL;
}
#define KEY_FIND(keys, name, hint) key_find(keys, sizeof(keys) / sizeof((keys)[0]), name, hint)

/* Returns false if the value is not valid for the key. */
static bool key_read(struct model *m, const struct read_key *key, const struct json_node *value, void *object)
{
	void *member = (char *)object + key->at;
	unsigned int hint = 0;
	const char *text;
	int state;

	switch (key->type) {
	case KEY_U32:
		return read_u32(value, member);
	case KEY_US:
		return read_us(value, member);
	case KEY_U64:
		*(uint64_t *)member = node_u64(value);
		return true;
	case KEY_PLUS_1:
		*(uint64_t *)member = node_u64(value) + 1;
		return true;
	case KEY_NAME:
		text = node_string(value);
		*(uint32_t *)member = model_name(m, text);
		return text;
	case KEY_STATE:
		text = node_string(value);
		state = text ? read_state(text, &hint) : -1;
		*(uint8_t *)member = state < 0 ? STATE_OTHER : (uint8_t)state;
		return text;
	case KEY_PARTS:
		text = node_string(value);
		*(uint32_t *)member = text ? shed_parts_of(text) : 0;
		return text;
	case KEY_TRUE:
		*(bool *)member = node_is(value, JSON_TRUE);
		return true;
	case KEY_FLAG:
		if (node_is(value, JSON_TRUE))
			((struct request *)object)->flags |= (uint16_t)key->at;
		return true;
	}
	return true;
}

/* The threads behind which a step waited for a CPU. */
struct behind_rows {
	struct behind_info own[BEHIND_MAX], workers[BEHIND_MAX];
};

static const struct read_key behind_keys[] = {
	{ "by", KEY_NAME, offsetof(struct behind_info, by) },
	{ "tid", KEY_U32, offsetof(struct behind_info, tid) },
	{ "pid", KEY_U32, offsetof(struct behind_info, pid) },
	{ "us", KEY_US, offsetof(struct behind_info, ns) },
};

/* Looks up "behind1_us", "workers_behind2_by" and the like among the keys that are read. */
static const struct read_key *behind_find(const char *name, struct behind_rows *rows, void **ret_row)
{
	bool workers = !strncmp(name, "workers_", 8);
	unsigned int hint = 0;
	uint32_t n;

	name = profile_key_numbered(workers ? name + 8 : name, "behind", &n);
	if (!name || n - 1 >= BEHIND_MAX)
		return NULL;
	*ret_row = workers ? &rows->workers[n - 1] : &rows->own[n - 1];
	return KEY_FIND(behind_keys, name, &hint);
}

/* Returns false after reporting why. */
static bool step_shape(struct profile_reader *r, struct step *step, struct behind_rows *rows)
{
	json_for_each (value, r->shape) {
		void *row = NULL;
		const struct read_key *key = behind_find(value->key, rows, &row);

		if (!key) {
			row = step;
			key = KEY_FIND(step_keys, value->key, &r->shape_hint);
		}
		if (key && !key_read(r->m, key, value, row)) {
			LINE_BAD(r, "shape.%s is not %s", value->key,
				key->type == KEY_U32 || key->type == KEY_US ? "a number >= 0" : "a string");
			return false;
		}
	}
	return true;
}

/* The states of a step; the difference between their sum and the total becomes STATE_OTHER. */
static bool step_stages(struct profile_reader *r, struct step *step)
{
	int64_t ns, sum = 0, workers_sum = 0;
	char printable[64];
	int state;

	step->total = -1;
	json_for_each (value, r->stages) {
		const char *key = value->key;

		if (!read_us(value, &ns)) {
			LINE_BAD(r, "stage_us.%s is not a number >= 0", text_printable(printable, sizeof(printable), key));
			return false;
		}
		if (!strcmp(key, "total")) {
			step->total = ns;
		} else if (!strcmp(key, "workers_total")) {
			step->workers_total = ns;
		} else if (!strncmp(key, "workers_", 8)) {
			state = read_state(key + 8, &r->workers_hint);
			workers_sum = ns_add(workers_sum, ns);
			if (state >= 0)
				step->workers[state] = ns;
			else
				step->workers[STATE_OTHER] = ns_add(step->workers[STATE_OTHER], ns);
		} else {
			state = read_state(key, &r->own_hint);
			if (state >= 0) {
				step->own[state] = ns;
				sum = ns_add(sum, ns);
			}
		}
	}
	if (step->total < 0) {
		LINE_BAD(r, "missing stage: stage_us.total");
		return false;
	}
	if (sum < step->total)
		step->own[STATE_OTHER] = step->total - sum;
	if (workers_sum > step->workers_total)
		step->workers_total = workers_sum;
	return true;
}

/* Numbers of steps, requests and stacks start again with each recording. */
static void recording_begin(struct profile_reader *r)
{
	r->recording = r->m->recordings++;
	r->window_ended = false;
	r->first_step_seen = false;
	r->n_steps = 0;
}

/* A recorder that was killed has written no window_prof: the steps of the next one start from 0 again. */
static void recording_of_step(struct profile_reader *r, uint32_t number)
{
	if (r->n_steps && (r->window_ended || (!number && r->first_step_seen)))
		recording_begin(r);
	r->window_ended = false;
	r->first_step_seen |= !number;
	r->n_steps++;
}

/* The number of rows up to the first empty one, or 0 if the file claims the impossible. */
static size_t behind_count(const struct model *m, struct behind_info *rows, int64_t waited)
{
	int64_t sum = 0;
	size_t n = 0;

	for (; n < BEHIND_MAX && rows[n].ns > 0; n++) {
		sum = ns_add(sum, rows[n].ns);
		rows[n].limit = !rows[n].tid && !strcmp(model_text(m, rows[n].by), "cpu.max");
	}
	return sum <= waited ? n : 0;
}

/* ---- who caused the time before a step ---- */

#define PATHS_MAX 4

struct path_row {
	uint32_t comm, state, call, file, peer, behind, in; /* names */
	uint32_t tid, pid, behind_tid;
	int64_t ns, behind_ns;
};

static const struct read_key path_keys[] = {
	{ "comm", KEY_NAME, offsetof(struct path_row, comm) },
	{ "tid", KEY_U32, offsetof(struct path_row, tid) },
	{ "pid", KEY_U32, offsetof(struct path_row, pid) },
	{ "state", KEY_NAME, offsetof(struct path_row, state) },
	{ "call", KEY_NAME, offsetof(struct path_row, call) },
	{ "file", KEY_NAME, offsetof(struct path_row, file) },
	{ "peer", KEY_NAME, offsetof(struct path_row, peer) },
	{ "behind", KEY_NAME, offsetof(struct path_row, behind) },
	{ "behind_tid", KEY_U32, offsetof(struct path_row, behind_tid) },
	{ "behind_us", KEY_US, offsetof(struct path_row, behind_ns) },
	{ "in", KEY_NAME, offsetof(struct path_row, in) },
	{ "us", KEY_US, offsetof(struct path_row, ns) },
};

/* "read of models/x", "recvfrom from 10.0.0.5:80"; "": not known. */
static const char *path_call(const struct model *m, const struct path_row *row, char buf[320])
{
	const char *call = model_text(m, row->call);
	const char *peer = strncmp(call, "re", 2) ? " to " : " from "; /* it reads, or receives */

	snprintf(buf, 320, "%.32s%s%.111s%s%.111s", call, row->file ? " of " : "", model_text(m, row->file), row->peer ? peer : "",
		model_text(m, row->peer));
	return buf;
}

/* "upstream (7): blocked_sleep in clock_nanosleep", or with the text `of` for the process: threads of one name and process are one
 * cause. */
static uint32_t path_name(struct model *m, const struct path_row *row, const char *of)
{
	char name[480], thread[32] = "", call[320];
	const char *state = model_text(m, row->state);

	if (!row->comm)
		snprintf(thread, sizeof(thread), "thread %u", row->tid);
	snprintf(name, sizeof(name), "%.40s%s%s: %.32s%s%s", model_text(m, row->comm), thread, of, *state ? state : "?", row->call ? " in " : "",
		row->call ? path_call(m, row, call) : "");
	return model_name(m, name);
}

/* "behind bash": who ran on its CPU, or continued it; or the code that it was "in". 0: nobody, or unknown. */
static uint32_t path_behind(struct model *m, const struct path_row *row)
{
	const char *who = model_text(m, row->behind);
	char text[280];

	if (row->in && !row->behind) {
		snprintf(text, sizeof(text), "in %.256s", model_text(m, row->in));
		return model_name(m, text);
	}
	if (!row->behind || row->behind_ns > row->ns)
		return 0;
	if (row->behind_tid)
		snprintf(text, sizeof(text), "%s %.40s", strcmp(model_text(m, row->state), "stopped") ? "behind" : "continued by", who);
	else
		snprintf(text, sizeof(text), "%s", strcmp(who, "idle") ? "held back by a CPU limit" : "while its CPU was idle");
	return model_name(m, text);
}

static void path_add(struct profile_reader *r, const struct process *p, struct gap_causes *to, const struct path_row *row,
	struct largest_cause *ret)
{
	struct gap_cause c = { .ns = row->ns, .behind_ns = row->in && !row->behind ? row->ns : row->behind_ns, .count = 1 };
	char of[32] = "", process[80];

	if (row->comm && row->pid && row->pid != p->pid) {
		snprintf(of, sizeof(of), " (%u)", row->pid);
		snprintf(process, sizeof(process), "%.40s%s", model_text(r->m, row->comm), of);
		c.process = model_name(r->m, process);
		c.without_pid = path_name(r->m, row, " (other processes)");
	}
	c.name = path_name(r->m, row, of);
	c.behind = path_behind(r->m, row);
	gap_causes_add(to, &c);
	if (row->ns <= ret->ns)
		return;
	ret->ns = row->ns;
	ret->name = c.behind && c.behind_ns > c.ns / 2 ? gap_name(r->m, c.name, c.behind) : c.name;
}

static void path_add_rest(struct profile_reader *r, struct gap_causes *to, const char *name, int64_t ns)
{
	const struct gap_cause c = { .name = model_name(r->m, name), .ns = ns, .count = 1 };

	if (ns > 0)
		gap_causes_add(to, &c);
}

/* Reads the rows of a line. Returns their sum, the rest included. */
static int64_t path_read_rows(struct profile_reader *r, const char *prefix, struct path_row rows[PATHS_MAX])
{
	unsigned int hint = 0;
	int64_t sum = 0;
	uint32_t n;

	json_for_each (value, r->shape) {
		const char *name = profile_key_numbered(value->key, prefix, &n);
		const struct read_key *key = name && n - 1 < PATHS_MAX ? KEY_FIND(path_keys, name, &hint) : NULL;

		if (key)
			key_read(r->m, key, value, &rows[n - 1]);
	}
	for (n = 0; n < PATHS_MAX; n++)
		sum = ns_add(sum, rows[n].ns);
	return sum;
}

/* Adds who caused a time, of which `rest` has no row, to a sum. */
static void path_add_rows(struct profile_reader *r, const struct process *p, const struct path_row rows[PATHS_MAX], int64_t rest, int64_t unknown,
	struct gap_sum *to, struct largest_cause *ret)
{
	to->n++;
	for (unsigned int n = 0; n < PATHS_MAX; n++) {
		if (rows[n].ns > 0)
			path_add(r, p, &to->causes, &rows[n], ret);
	}
	path_add_rest(r, &to->causes, "(others)", rest);
	path_add_rest(r, &to->causes, "(unknown)", unknown);
}

/* Adds who caused `gap`, a time outside of steps, by the keys with this prefix of a line of a step or a request. */
static void profile_read_path(struct profile_reader *r, const struct process *p, const char *prefix, int64_t gap, struct gap_sum *to,
	struct largest_cause *ret)
{
	struct path_row rows[PATHS_MAX] = {}, none[PATHS_MAX] = {};
	int64_t rest = 0, known = path_read_rows(r, prefix, rows);
	char key[32];

	snprintf(key, sizeof(key), "%s_rest_us", prefix);
	read_us(node_get(r->shape, key), &rest);
	known = ns_add(known, rest);
	/* the file claims the impossible: nothing is known */
	if (known > gap)
		path_add_rows(r, p, none, 0, gap, to, ret);
	else
		path_add_rows(r, p, rows, rest, gap - known, to, ret);
}

/* Adds who made the calling thread wait within the step. */
static void profile_read_waits(struct profile_reader *r, struct process *p, struct step *step)
{
	struct path_row rows[PATHS_MAX] = {}, *first = rows;
	int64_t rest = 0, unknown = 0, sum = path_read_rows(r, "wait", rows);
	struct largest_cause largest = {};
	unsigned int hint = 0;
	char call[320];
	int state;

	read_us(node_get(r->shape, KEY(wait_rest_us)), &rest);
	read_us(node_get(r->shape, KEY(wait_unknown_us)), &unknown);
	sum = ns_add(ns_add(sum, rest), unknown);
	if (!sum || sum > step->total)
		return;
	path_add_rows(r, p, rows, rest, unknown, &p->waits, &largest);
	state = read_state(model_text(r->m, first->state), &hint);
	step->wait = (struct wait_info){
		.ns = first->ns,
		.tid = first->tid,
		.comm = first->comm,
		.name = first->tid == step->tid ? model_name(r->m, path_call(r->m, first, call)) : largest.name,
		.behind = first->behind_ns > first->ns / 2 ? first->behind : 0,
		.behind_tid = first->behind_ns > first->ns / 2 ? first->behind_tid : 0,
		.state = state < 0 ? STATE_OTHER : (uint8_t)state,
	};
}

static void profile_read_step(struct profile_reader *r, struct process *p)
{
	struct step step = { .tracer = -1 };
	struct behind_rows rows = { 0 };
	int64_t gap;

	if (!step_shape(r, &step, &rows) || !step_stages(r, &step))
		return;
	recording_of_step(r, step.number);
	step.recording = r->recording;
	if (step.tracer >= 0) {
		p->tracer = ns_add(p->tracer, step.tracer);
		p->tracer_of = ns_add(p->tracer_of, step.total);
	}
	count_phases_add(&p->counts, step.phase, r->shape);
	gpu_phases_add(&p->gpu, step.phase, step.number, step.total, r->shape);
	process_add_behind(p, &step, rows.own, behind_count(r->m, rows.own, step.own[ST_RUNNABLE]), rows.workers,
		behind_count(r->m, rows.workers, step.workers[ST_RUNNABLE]));
	if (read_us(node_get(r->shape, KEY(gap_us)), &gap))
		profile_read_path(r, p, "path", gap, &p->gaps, &step.gap_by);
	profile_read_waits(r, p, &step);
	process_add_step(p, &step);
}

static uint64_t count_value(const struct json_node *value)
{
	int64_t v = node_s64(value);

	return v < 0 ? 0 : (uint64_t)v;
}

static uint64_t shape_count(const struct json_node *shape, const char *key)
{
	return count_value(node_get(shape, key));
}

static bool stage_read_ns(const struct json_node *stages, const char *key, int64_t *ret_ns)
{
	return read_us(node_get(stages, key), ret_ns);
}

static void stage_sum(const struct profile_reader *r, const char *key, int64_t *sum)
{
	int64_t ns;

	if (stage_read_ns(r->stages, key, &ns))
		*sum = ns_add(*sum, ns);
}

/* "n_<name>" in the shape: the number of calls. They come in the order of the stages. */
static uint64_t shape_call_count(const struct json_node *shape, const char *name, const struct json_node **cursor)
{
	char key[256];

	if (snprintf(key, sizeof(key), "n_%s", name) >= (int)sizeof(key))
		return 0;
	return count_value(node_get_next(shape, key, cursor));
}

/* op_prof and syscall_prof: a stage for each name; operators may be those of a step. */
static void profile_read_tally(struct profile_reader *r, struct process *p)
{
	const struct json_node *cursor = NULL, *counts_cursor = NULL;
	bool ops = !strcmp(r->event, "op_prof"), counts = counts_there(r->shape);
	struct tally *tally = ops ? &p->ops : &p->syscalls;
	struct tally_row *row;
	struct op_time op;
	uint32_t number;
	size_t n = 0;

	json_for_each (value, r->stages) {
		const char *key = value->key;
		uint64_t calls;

		if (!strcmp(key, "total") || !read_us(value, &op.ns))
			continue;
		calls = shape_call_count(r->shape, key, &cursor);
		op.name = model_name(r->m, key);
		row = tally_add(tally, op.name, op.ns, calls);
		*list_push(r->ops, n, r->ops_size) = op;
		if (counts)
			counts_add_op(&row->counts, r->shape, key, calls, &counts_cursor);
	}
	if (ops && read_u32(node_get(r->shape, KEY(step)), &number))
		process_add_ops(p, r->recording, number, r->ops, n);
}

/* sample_prof and graph_prof: one call. */
static void profile_read_call(struct profile_reader *r, struct process *p)
{
	struct call call = { .recording = r->recording };

	if (!stage_read_ns(r->stages, KEY(total), &call.ns) || !stage_read_ns(r->shape, KEY(ts_us), &call.ts))
		return;
	call.name = model_name(r->m, node_string(node_get(r->shape, KEY(call))));
	*list_add(p, calls) = call;
}

/* ---- requests ---- */

static const struct read_key request_keys[] = {
	{ FIELD_KEY(request, number, number) },
	{ FIELD_KEY(request, context, context) },
	{ FIELD_KEY(request, sequence, sequence) },
	{ FIELD_KEY(request, ts, ts_us) },
	{ FIELD_KEY(request, prompt_tokens, prompt_tokens) },
	{ FIELD_KEY(request, cached_tokens, cached_tokens) },
	{ FIELD_KEY(request, output_tokens, output_tokens) },
	{ FIELD_KEY(request, preemptions, preemptions) },
	{ FIELD_KEY(request, recomputed_tokens, recomputed_tokens) },
	{ FIELD_KEY(request, steps, steps) },
	{ FIELD_KEY(request, steps_shared, steps_shared) },
	{ FIELD_KEY(request, chunks, chunks) },
	{ FLAG_KEY(mixed, REQUEST_MIXED) },
	{ FLAG_KEY(began_before, REQUEST_BEGAN_BEFORE) },
	{ FLAG_KEY(unfinished, REQUEST_UNFINISHED) },
	{ FLAG_KEY(end_not_seen, REQUEST_END_NOT_SEEN) },
	{ FLAG_KEY(lost_steps, REQUEST_LOST) },
	{ FLAG_KEY(cancelled, REQUEST_CANCELLED) },
	{ FLAG_KEY(joined, REQUEST_JOINED) },
	{ FIELD_KEY(request, waited_others, waited_others_us) },
	{ FIELD_KEY(request, write_blocked, write_blocked_us) },
};

/* The stages of a request, except its parts. */
static const struct read_key request_stages[] = {
	{ FIELD_KEY(request, total, total) },
	{ FIELD_KEY(request, ttft, ttft) },
	{ FIELD_KEY(request, first_others, ttft_others) },
	{ FIELD_KEY(request, first_between, ttft_between) },
	{ FIELD_KEY(request, ttft_client, ttft_client) },
	{ FIELD_KEY(request, unread, unread) },
	{ FIELD_KEY(request, to_engine, to_engine) },
	{ FIELD_KEY(request, preempted, preempted) },
	{ FIELD_KEY(request, recompute, recompute) },
	{ FIELD_KEY(request, first_preempted, ttft_preempted) },
	{ FIELD_KEY(request, answered, answered) },
	{ FIELD_KEY(request, tpot, tpot_mean) },
	{ FIELD_KEY(request, tpot_max, tpot_max) },
#define REFUSED_KEY(name, key, phrase, column) { FIELD_KEY(request, refused[REFUSED_##name], no_##key) },
	REFUSALS_ALL(REFUSED_KEY)
};

#define SLICE_KEY(key, member) key, KEY_US, offsetof(struct request, member)

/* Stages in the args of a trace's slice, beside request_keys. */
static const struct read_key slice_keys[] = {
	{ SLICE_KEY("ttft_us", ttft) },
	{ SLICE_KEY("own_prefill_us", parts[TIME_OWN_PREFILL]) },
	{ SLICE_KEY("own_decode_us", parts[TIME_OWN_DECODE]) },
	{ SLICE_KEY("others_us", parts[TIME_OTHERS]) },
	{ SLICE_KEY("between_us", parts[TIME_BETWEEN]) },
	{ SLICE_KEY("queued_us", parts[TIME_QUEUED]) },
	{ SLICE_KEY("preempted_us", preempted) },
	{ SLICE_KEY("recompute_us", recompute) },
	{ SLICE_KEY("ttft_preempted_us", first_preempted) },
	{ SLICE_KEY("ttft_others_us", first_others) },
	{ SLICE_KEY("ttft_between_us", first_between) },
#define REFUSED_SLICE_KEY(name, key, phrase, column) { SLICE_KEY("no_" #key "_us", refused[REFUSED_##name]) },
	REFUSALS_ALL(REFUSED_SLICE_KEY)
};

static const struct read_key wait_keys[] = {
	{ "_for", KEY_U32, offsetof(struct request_wait, number) },
	{ "_sequence", KEY_U32, offsetof(struct request_wait, sequence) },
	{ "_us", KEY_US, offsetof(struct request_wait, ns) },
	{ "_ttft_us", KEY_US, offsetof(struct request_wait, first) },
};

/* Looks up "waited1_for" and the like. */
static const struct read_key *wait_find(const char *name, struct request_wait *waits, void **ret_wait, unsigned int *hint)
{
	unsigned int n;

	if (strncmp(name, "waited", 6))
		return NULL;
	n = (unsigned int)(unsigned char)name[6] - '1';
	if (n >= REQUEST_WAITS_MAX)
		return NULL;
	*ret_wait = &waits[n];
	return KEY_FIND(wait_keys, name + 7, hint);
}

/* Returns the key with an impossible value; NULL: there is none. */
static const char *request_shape(const struct json_node *shape, struct request *r, struct request_wait *waits)
{
	unsigned int hint = 0, wait_hint = 0;

	json_for_each (value, shape) {
		void *object = r;
		const struct read_key *key = wait_find(value->key, waits, &object, &wait_hint);

		if (!key) {
			object = r;
			key = KEY_FIND(request_keys, value->key, &hint);
		}
		if (key && !key_read(NULL, key, value, object))
			return value->key;
	}
	return NULL;
}

/* Parses "own_prefill", a whole part (STATE_NONE), or "own_prefill_cpu", the part's time in a state of the calling thread. */
static bool state_find(const char *name, unsigned int *hint, struct request_state *ret_state)
{
	for (unsigned int part = 0; part < TIME_PARTS; part++) {
		size_t len = strlen(request_time_name(part));
		int state;

		if (strncmp(name, request_time_name(part), len) || (name[len] && name[len] != '_'))
			continue;
		state = name[len] ? read_state(name + len + 1, hint) : STATE_NONE;
		ret_state->part = (uint8_t)part;
		ret_state->state = state < 0 ? STATE_OTHER : (uint8_t)state;
		return true;
	}
	return false;
}

/* Returns the key with an impossible value, or the one that is missing; else NULL. */
static const char *request_stages_read(struct served *s, const struct json_node *stages, struct request *r)
{
	unsigned int state_hint = 0, hint = 0;
	struct request_state state;
	const struct read_key *key;

	json_for_each (value, stages) {
		if (!state_find(value->key, &state_hint, &state)) {
			key = KEY_FIND(request_stages, value->key, &hint);
			if (key && !key_read(NULL, key, value, r))
				return value->key;
			continue;
		}
		if (!read_us(value, &state.ns))
			return value->key;
		if (state.state == STATE_NONE)
			r->parts[state.part] = state.ns;
		else if (state.ns && r->n_states < TIME_PARTS * STATES)
			*list_push(s->states, s->n_states, s->states_size) = state;
		r->n_states = (uint16_t)(s->n_states - r->first_state);
	}
	return r->total < 0 ? "total" : NULL;
}

/* Drops the values of a line that contradict others, and derives missing ones. */
static void request_reconcile(struct request *r, const struct request_wait *waits)
{
	int64_t sum = 0, waited = r->waited_others, first;

	for (unsigned int i = 0; i < TIME_PARTS; i++)
		sum = ns_add(sum, r->parts[i]);
	for (unsigned int i = 0; i < REQUEST_WAITS_MAX && waits[i].ns > 0; i++)
		waited = ns_add(waited, waits[i].ns);
	if (sum == r->total && waited <= r->parts[TIME_OTHERS] && !(r->flags & REQUEST_OF_STEPS))
		r->flags |= REQUEST_PARTED;
	else
		memset(r->parts, 0, sizeof(r->parts));
	if (r->ttft > r->total)
		r->ttft = -1;
	/* nothing came after its first token */
	if (r->first_others < 0 && r->ttft >= 0 && r->ttft + r->parts[TIME_QUEUED] == r->total) {
		r->first_others = r->parts[TIME_OTHERS];
		r->first_between = r->parts[TIME_BETWEEN];
	}
	if (r->first_others > r->parts[TIME_OTHERS] || r->first_between > r->parts[TIME_BETWEEN])
		r->first_others = -1;
	first = ns_add(r->parts[TIME_OWN_PREFILL], ns_add(r->first_others, r->first_between));
	if (r->first_others < 0 || r->first_between < 0 || first != r->ttft || !(r->flags & REQUEST_PARTED))
		r->first_others = r->first_between = -1;
	if (r->flags & (REQUEST_LOST | REQUEST_MIXED))
		r->ttft = r->tpot = -1;
	if (r->flags & REQUEST_BEGAN_BEFORE)
		r->ttft = -1;
	/* its last step gave its last token */
	if (r->tpot < 0 && r->ttft >= 0 && r->output_tokens > 1 && !(r->flags & REQUEST_UNFINISHED))
		r->tpot = (r->total - r->ttft - r->parts[TIME_QUEUED]) / (r->output_tokens - 1);
}

static struct request new_request(uint32_t recording, struct request_wait *waits)
{
	for (unsigned int i = 0; i < REQUEST_WAITS_MAX; i++)
		waits[i] = (struct request_wait){ .first = -1, .sequence = SEQUENCE_UNKNOWN };
	return (struct request){
		.total = -1,
		.ttft = -1,
		.ttft_client = -1,
		.unread = -1,
		.to_engine = -1,
		.answered = -1,
		.tpot = -1,
		.first_others = -1,
		.first_between = -1,
		.recording = recording,
	};
}

static void served_add_request(struct served *s, struct request *r, const struct request_wait *waits)
{
	request_reconcile(r, waits);
	r->first_wait = (uint32_t)s->n_waits;
	for (; r->n_waits < REQUEST_WAITS_MAX && waits[r->n_waits].ns > 0; r->n_waits++) {
		struct request_wait wait = waits[r->n_waits];

		if (wait.first > wait.ns)
			wait.first = -1;
		*list_push(s->waits, s->n_waits, s->waits_size) = wait;
	}
	s->in_batches += !(r->flags & REQUEST_OF_STEPS);
	*list_push(s->requests, s->len, s->size) = *r;
}

/* socket: the line is only about the exchange. */
static void served_add_exchange(struct served *s, const struct request *r, const struct json_node *shape, bool socket)
{
	const char *why = socket ? node_string(node_get(shape, KEY(joined_why))) : NULL;

	if (why && !strcmp(why, PROFILE_JOINED_NONE)) {
		s->unrelated++;
		return;
	}
	s->joined += !socket;
	*list_push(s->exchanges, s->n_exchanges, s->exchanges_size) = (struct exchange){
		.ts = r->ts,
		.total = socket || r->answered < 0 ? r->total : ns_add(r->total, r->answered),
		.first = socket ? r->ttft : r->ttft_client,
		.unread = r->unread,
		.to_engine = r->to_engine,
		.tpot = r->tpot,
		.recording = r->recording,
		.outputs = socket ? r->chunks : r->output_tokens,
		/* once it is answered it is over, whatever was seen of its sequence's end */
		.cut = r->flags & (socket || r->answered < 0 ? REQUEST_UNFINISHED | REQUEST_END_NOT_SEEN : REQUEST_UNFINISHED),
	};
}

/* A line of request_prof: the request, or the exchange on a socket, or both. */
static void profile_read_request(struct profile_reader *reader, struct process *p)
{
	const char *kind = node_string(node_get(reader->shape, KEY(source_kind))), *bad;
	bool socket = kind && !strcmp(kind, "socket");
	struct request_wait waits[REQUEST_WAITS_MAX];
	struct served *s = &p->served;
	int64_t behind = 0, late = 0;
	struct request r;
	char printable[64];

	if (reader->window_ended)
		recording_begin(reader);
	r = new_request(reader->recording, waits);
	r.first_state = (uint32_t)s->n_states;
	if (!kind || strcmp(kind, "sequence"))
		r.flags = REQUEST_OF_STEPS;
	bad = request_shape(reader->shape, &r, waits);
	if (!bad)
		bad = request_stages_read(s, reader->stages, &r);
	if (bad)
		LINE_BAD(reader, "%s of a request is not a number >= 0",
			text_printable(printable, sizeof(printable), bad));
	if (bad || socket)
		s->n_states = r.first_state;
	if (bad)
		return;
	if (socket) {
		served_add_exchange(s, &r, reader->shape, true);
		return;
	}
	/* a wait without `_ttft_us` was not before the first token */
	for (size_t i = 0; i < REQUEST_WAITS_MAX && r.first_others >= 0; i++) {
		if (waits[i].first < 0)
			waits[i].first = 0;
	}
	r.id = model_name(reader->m, node_string(node_get(reader->shape, KEY(request_id))) ?: "");
	served_add_request(s, &r, waits);
	read_us(node_get(reader->stages, KEY(behind_others)), &behind);
	if (r.flags & REQUEST_PARTED && (node_get(reader->shape, "path1_us") || node_get(reader->shape, KEY(path_unknown_us))))
		profile_read_path(reader, p, "path", r.parts[TIME_QUEUED] + r.parts[TIME_BETWEEN] - behind, &p->request_gaps,
			&s->requests[s->len - 1].gap_by);
	if ((node_get(reader->shape, "answer1_us") || node_get(reader->shape, KEY(answer_unknown_us))) &&
		read_us(node_get(reader->stages, KEY(first_answered)), &late))
		profile_read_path(reader, p, "answer", late, &p->answers, &s->requests[s->len - 1].answer_by);
	if (r.flags & REQUEST_JOINED)
		served_add_exchange(s, &r, reader->shape, false);
}

void read_request_slice(struct model *m, struct served *s, const struct json_node *args, int64_t ts, int64_t dur, uint32_t recording)
{
	struct request_wait waits[REQUEST_WAITS_MAX];
	struct request r = new_request(recording, waits);
	const struct read_key *key;
	unsigned int hint = 0;

	if (request_shape(args, &r, waits))
		return;
	json_for_each (value, args) {
		key = KEY_FIND(slice_keys, value->key, &hint);
		if (key && !key_read(NULL, key, value, &r))
			return;
	}
	if (!r.number)
		return;
	/* the slice begins where the queue ends */
	r.ts = ts > r.parts[TIME_QUEUED] ? ts - r.parts[TIME_QUEUED] : 0;
	r.total = ns_add(dur, r.parts[TIME_QUEUED]);
	r.id = model_name(m, node_string(node_get(args, KEY(request_id))) ?: "");
	served_add_request(s, &r, waits);
}

/* ---- lines of other events ---- */

static void profile_read_stack(struct profile_reader *r, struct process *p)
{
	const char *why;

	if (r->window_ended)
		recording_begin(r);
	why = stack_times_read(r->m, p, &r->stacks, node_get(r->object, "frames"), r->shape, r->stages, r->recording);
	if (why)
		LINE_BAD(r, "%s", why);
}

static void profile_read_sched(struct profile_reader *r, struct process *p)
{
	unsigned int hint = 0;
	int64_t ns;
	int state;

	p->has_sched = true;
	p->switches_voluntary += shape_count(r->shape, KEY(switches_voluntary));
	p->switches_involuntary += shape_count(r->shape, KEY(switches_involuntary));
	stage_sum(r, KEY(total), &p->sched_total);
	json_for_each (value, r->stages) {
		if (!strcmp(value->key, "total") || !read_us(value, &ns))
			continue;
		state = read_state(value->key, &hint);
		if (state < 0)
			state = STATE_OTHER;
		p->sched[state] = ns_add(p->sched[state], ns);
	}
}

static void profile_read_faults(struct profile_reader *r, struct process *p)
{
	p->has_faults = true;
	p->faults_minor += shape_count(r->shape, KEY(n_minor));
	p->faults_major += shape_count(r->shape, KEY(n_major));
	stage_sum(r, KEY(minor), &p->fault_minor_ns);
	stage_sum(r, KEY(major), &p->fault_major_ns);
}

static void profile_read_memory(struct profile_reader *r, struct process *p)
{
	uint64_t peak = shape_count(r->shape, KEY(rss_peak_bytes));

	p->has_memory = true;
	if (peak > p->rss_peak)
		p->rss_peak = peak;
	p->has_pages |= node_get(r->shape, KEY(pages_allocated)) != NULL;
	p->pages_allocated += shape_count(r->shape, KEY(pages_allocated));
	p->pages_freed += shape_count(r->shape, KEY(pages_freed));
}

static void profile_read_finding(struct profile_reader *r, struct process *p)
{
	p->finding = model_name(r->m, node_string(node_get(r->shape, KEY(finding))));
}

static const struct family {
	const char *event;
	void (*read)(struct profile_reader *r, struct process *p);
} families[] = {
	{ "token_prof", profile_read_step },
	{ "op_prof", profile_read_tally },
	{ "sample_prof", profile_read_call },
	{ "graph_prof", profile_read_call },
	{ "request_prof", profile_read_request },
	{ "syscall_prof", profile_read_tally },
	{ "sched_prof", profile_read_sched },
	{ "fault_prof", profile_read_faults },
	{ "memory_prof", profile_read_memory },
	{ "stack_prof", profile_read_stack },
	{ "misfit_prof", profile_read_finding },
};

static void profile_read_window(struct profile_reader *r)
{
	struct window w = { .file = r->file, .coverage = -1 };
	struct model *m = r->m;
	const struct json_node *coverage = node_get(r->shape, KEY(coverage));
	const char *missing;

	/* a window without lines does not count as a recording */
	if (!r->window_ended)
		model_set_clock(m, r->recording, r->shape, 0);
	r->window_ended = true;
	stage_read_ns(r->stages, KEY(total), &w.total);
	w.records = shape_count(r->shape, KEY(records));
	w.lost = shape_count(r->shape, KEY(lost));
	w.steps = shape_count(r->shape, KEY(steps));
	w.trigger = model_name(m, node_string(node_get(r->shape, KEY(trigger))));
	missing = node_string(node_get(r->shape, KEY(not_recorded)));
	w.lacks_faults = missing && !strcmp(missing, "faults");
	if (coverage)
		w.coverage = node_double(coverage);
	if (!(w.coverage >= 0 && w.coverage <= 1))
		w.coverage = -1;
	m->lost_records += w.lost;
	json_for_each (value, r->shape) {
		const char *key = value->key;

		if (strncmp(key, "lost_", 5) || !node_s64(value))
			continue;
		tally_add(&m->lost, model_name(m, key + 5), 0, shape_count(r->shape, key));
	}
	*list_push(m->windows, m->n_windows, m->windows_size) = w;
}

/* The process of a line; without a pid that of the previous line. */
static struct process *line_process(struct profile_reader *r, const struct profile_line *line)
{
	const struct json_node *pid_value = node_get(r->shape, KEY(pid)), *comm = node_get(r->shape, KEY(comm));
	uint32_t pid = 0, env, origin, model, commit;
	struct model *m = r->m;
	char text[512];

	if (!pid_value && r->recent)
		return r->recent;
	read_u32(pid_value, &pid);
	env = model_name(m, node_string(line->values[PROFILE_KEY_env_hash]));
	model = model_name(m, node_string(line->values[PROFILE_KEY_model]));
	commit = model_name(m, node_string(line->values[PROFILE_KEY_commit_sha]));
	if (text_is_blank(model_text(m, commit), strlen(model_text(m, commit))))
		commit = 0;
	/* builds are not mixed */
	snprintf(text, sizeof(text), "%s\n%s", model_text(m, env), model_text(m, commit));
	origin = commit ? model_name(m, text) : env;
	r->recent = model_process(m, pid, origin);
	r->recent->env_hash = env;
	r->recent->model = model;
	r->recent->commit = commit;
	if (comm)
		r->recent->comm = model_name(m, node_string(comm));
	return r->recent;
}

/* A line of another program's event, of which only the stages are known. */
static void profile_read_foreign(struct profile_reader *r, const struct profile_line *line)
{
	struct foreign_family *f = model_family(r->m, r->event, node_string(line->values[PROFILE_KEY_source]));
	int64_t ns;

	if (!f) {
		LINE_BAD(r, "left out: more than %d kinds of events of other programs", FAMILIES_MAX);
		return;
	}
	f->lines++;
	json_for_each (value, r->stages) {
		if (!read_us(value, &ns))
			continue;
		if (!strcmp(value->key, "total")) {
			*list_add(f, totals) = ns;
			continue;
		}
		tally_add(&f->stages, model_name(r->m, value->key), ns, 1);
	}
}

static int profile_read_line(void *ctx, const struct profile_line *line)
{
	struct profile_reader *r = ctx;

	r->line = line->number;
	r->event = node_string(line->values[PROFILE_KEY_event]);
	r->object = line->object;
	r->shape = line->values[PROFILE_KEY_shape];
	r->stages = line->values[PROFILE_KEY_stage_us];
	if (!r->event || !node_is(r->shape, JSON_OBJECT) || !node_is(r->stages, JSON_OBJECT)) {
		LINE_BAD(r, "%s", r->event ? "shape and stage_us must be objects" : "event must be a non-empty string");
		return 0;
	}
	for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
		if (strcmp(r->event, families[i].event))
			continue;
		families[i].read(r, line_process(r, line));
		return 0;
	}
	if (!strcmp(r->event, "window_prof"))
		profile_read_window(r);
	else
		profile_read_foreign(r, line);
	return 0;
}

static void profile_line_bad(void *ctx, uint64_t number, const char *why)
{
	struct profile_reader *r = ctx;

	r->line = number;
	LINE_BAD(r, "%s", why);
}

void read_profile(struct model *m, struct json_source *source, const char *path, struct read_problems *problems)
{
	static const struct profile_reader_ops ops = { .line = profile_read_line, .bad = profile_line_bad };
	struct profile_reader r = { .m = m, .problems = problems };
	char printable[512];

	r.file = model_name(m, text_printable(printable, sizeof(printable), path));
	r.recording = m->recordings++;
	profile_read(source, &ops, &r);
	free(r.ops);
	idmap_free(&r.stacks.nodes);
}
