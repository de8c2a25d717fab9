// SPDX-License-Identifier: BSD-2-Clause
/*
 * The families of the profile that come from calls of functions: op_prof, graph_prof and sample_prof.
 *
 * Operators are summed up, per step or for the whole window. The calls of a step arrive through several rings, drained in any
 * order, and a worker's last operator arrives when it begins its next one. So the line of a step waits for a while; calls that
 * arrive even later make a further line of the same step.
 */
#include "format/profile_line.h"

#include <stdio.h>
#include <stdlib.h>

#include "format/gpu_ops.h"
#include "format/stack_text.h"
#include "gpu/info.h"
#include "schema/left_out.h"
#include "sink/process_list.h"
#include "stack/stack.h"
#include "util/chance.h"
#include "util/map.h"

/* ---- in which functions operators were sampled ---- */

/* All zeroes: none. */
struct ops_op_hot {
	struct op_function *functions;
	bool cut; /* more functions than are kept: the hottest one is unknown */
};

/* The hottest function of one operator. */
struct op_hottest {
	const struct frame *function; /* NULL: none that has a name */
	uint64_t samples, next;       /* in it, and in the second hottest */
	uint64_t of;                  /* of all functions */
};

#define FUNCTIONS_MAX 65536 /* some 8 MB */

/* Texts are interned, so their addresses tell functions apart. The line is not part of the key. */
struct function_key {
	const char *name, *file;
	uint64_t rel_pc;
	uint32_t op, kind;
};

struct op_function {
	UT_hash_handle hh;
	struct function_key key;
	const struct frame *frame;
	uint64_t samples;
};

/*
 * Counts a sample in the operator with this number; frame: of the innermost function, which must stay valid. *total: functions
 * kept in the whole output, which is bounded.
 */
static void op_hot_add(struct ops_op_hot *h, uint32_t *total, uint32_t op, const struct frame *frame)
{
	struct function_key key = { frame->name, frame->file, frame->rel_pc, op, frame->kind };
	struct op_function *f;

	HASH_FIND(hh, h->functions, &key, sizeof(key), f);
	if (!f && *total == FUNCTIONS_MAX) {
		h->cut = true;
		return;
	}
	if (!f) {
		f = xcalloc(1, sizeof(*f));
		f->key = key;
		HASH_ADD(hh, h->functions, key, sizeof(f->key), f);
		(*total)++;
	}
	f->frame = frame;
	f->samples++;
}

static void op_hot_clear(struct ops_op_hot *h, uint32_t *total)
{
	struct op_function *f, *next;

	HASH_ITER(hh, h->functions, f, next)
	{
		HASH_DEL(h->functions, f);
		free(f);
		(*total)--;
	}
	*h = (struct ops_op_hot){ 0 };
}

static void op_hottest_add(struct op_hottest *best, const struct op_function *f)
{
	best->of += f->samples;
	if (f->key.kind == FRAME_UNKNOWN || f->key.name[0] == '[')
		return;
	if (f->samples > best->samples) {
		best->next = best->samples;
		best->samples = f->samples;
		best->function = f->frame;
	} else if (f->samples > best->next) {
		best->next = f->samples;
	}
}

/* Returns the hottest functions of the first n operators, by number, which the caller frees. NULL: none is known. */
static struct op_hottest *op_hot_find(const struct ops_op_hot *h, uint32_t n)
{
	struct op_hottest *best = h->functions && !h->cut && n ? xcalloc(n, sizeof(*best)) : NULL;

	for (const struct op_function *f = h->functions; best && f; f = f->hh.next) {
		if (f->key.op < n)
			op_hottest_add(&best[f->key.op], f);
	}
	return best;
}

/* ---- operators ---- */

#define NAMES_MAX 1024 /* of operators; further ones count as "other" */
#define NAME_LEN 64
#define NAME_CACHE 256
#define STEP_WAYS 4
#define STEP_SETS 256
#define STEPS_MAX (STEP_SETS * STEP_WAYS) /* whose operators are summed up at a time */
#define PROCESSES_MAX 4096
#define COUNT_PREFIX_MAX 16 /* "instructions_" */
#define HOLD \
	100 /* rounds of profile_ops_settled(), a second, before the line of a step is written */

/* The rest is for the shape, and the sums of names that do not fit. */
#define ROOM (PROFILE_BODY_MAX - 1024)

struct op_sum {
	uint64_t n, ns, gpu_ns;
	uint64_t counted; /* calls whose counts are known */
	uint64_t counts[PMU_MAX];
};

struct op_sums {
	struct op_sum *list; /* indexed by the number of the name */
	uint32_t n;
	struct ops_op_hot hot;
	uint64_t gpu_none_ns; /* of kernels that belong to no operator */
};

struct step_ops {
	uint32_t step; /* number + 1; 0: free */
	uint32_t tgid;
	bool ended, graph;
	uint32_t left_out; /* as in struct rec_step */
	struct op_sums sums;
};

struct process_ops {
	uint32_t tgid; /* must be the first member */
	struct op_sums sums;
};

struct ops_ended_step {
	uint32_t step;
	uint64_t round;
};

struct profile_ops {
	struct profile_lines *lines;
	const struct recording *rec;
	struct name {
		char text[NAME_LEN];
		UT_hash_handle hh;
	} names[NAMES_MAX], *by_text;
	struct {
		const char *name;
		uint32_t number;
	} by_address[NAME_CACHE];
	struct step_ops steps[STEPS_MAX];
	struct ops_ended_step ended[STEPS_MAX]; /* whose lines are waiting, oldest first, from first_ended on */
	uint32_t first_ended, n_ended;
	uint32_t written; /* the highest step with a line */
	uint64_t round;
	struct process_list processes; /* struct process_ops */
	size_t last_process;
	struct gpu_ops *gpu;  /* NULL: no GPU is recorded */
	uint32_t n_functions; /* in which operators were sampled */
	bool any;             /* operators were called */
	bool graph;           /* some step launched one */
};

/* ---- names ---- */

/* Interns an operator's name; returns its number. */
static uint32_t ops_intern_name(struct profile_ops *o, const char *text)
{
	uint32_t n = HASH_COUNT(o->by_text);
	struct name *name;

	HASH_FIND_STR(o->by_text, text, name);
	if (name)
		return (uint32_t)(name - o->names);
	if (n == NAMES_MAX)
		return 0;
	name = &o->names[n];
	strcpy(name->text, text);
	HASH_ADD_STR(o->by_text, text, name);
	return n;
}

/* An address stays the same, but its text may change when an engine's own names are read. */
static uint32_t ops_name_number(struct profile_ops *o, const char *name)
{
	uint32_t i = (uint32_t)((uintptr_t)name >> 3) % NAME_CACHE, number;
	char text[NAME_LEN];
	size_t len = strnlen(name, NAME_LEN - 2);

	if (o->by_address[i].name == name &&
		!strncmp(o->names[o->by_address[i].number].text, name, NAME_LEN - 2))
		return o->by_address[i].number;
	memcpy(text, name, len);
	text[len] = 0;
	if (!strcmp(text, "total")) /* a key of the profile itself */
		memcpy(text, "total_", sizeof("total_"));
	number = ops_intern_name(o, text);
	o->by_address[i].name = name;
	o->by_address[i].number = number;
	return number;
}

uint32_t profile_ops_number(struct profile_ops *o, const struct rec_function *r)
{
	return ops_name_number(o, probe_record_name(&o->rec->probes->specs[r->h.id], r));
}

const char *profile_ops_name(const struct profile_ops *o, uint32_t number)
{
	return o->names[number].text;
}

/* ---- sums ---- */

static struct op_sum *op_sums_get(struct op_sums *s, uint32_t number)
{
	if (number >= s->n) {
		uint32_t n = s->n ? s->n : 32;

		while (n <= number)
			n *= 2;
		s->list = xreallocarray(s->list, n, sizeof(*s->list));
		memset(s->list + s->n, 0, (n - s->n) * sizeof(*s->list));
		s->n = n;
	}
	return &s->list[number];
}

/* counts: NULL if they are not known */
static void op_sums_add(struct op_sums *s, uint32_t number, uint64_t ns, const uint64_t *counts)
{
	struct op_sum *sum = op_sums_get(s, number);

	sum->n++;
	sum->ns += ns;
	if (!counts)
		return;
	sum->counted++;
	for (int i = 0; i < PMU_MAX; i++)
		sum->counts[i] += counts[i];
}

/* Adds the time and counts of one sum to another. */
static void op_sum_move(struct op_sum *to, const struct op_sum *from)
{
	to->n += from->n;
	to->ns += from->ns;
	to->gpu_ns += from->gpu_ns;
	to->counted += from->counted;
	for (int i = 0; i < PMU_MAX; i++)
		to->counts[i] += from->counts[i];
}

static void op_sums_add_gpu(struct op_sums *s, uint32_t number, uint64_t ns)
{
	*(number == GPU_OPS_NONE ? &s->gpu_none_ns : &op_sums_get(s, number)->gpu_ns) += ns;
}

static void op_sums_clear(struct profile_ops *o, struct op_sums *s)
{
	op_hot_clear(&s->hot, &o->n_functions);
	free(s->list);
	*s = (struct op_sums){ 0 };
}

static char *add_op_key(char *p, const char *prefix, const char *name)
{
	char key[NAME_LEN + COUNT_PREFIX_MAX];

	snprintf(key, sizeof(key), "%s%s", prefix, name);
	p = fmt_json_str(fmt_lit(p, ","), key, strlen(key));
	return fmt_lit(p, ":");
}

/* Returns how many of the names fit into a line. The rest is added to "other", the first one. *ret_room: bytes left. */
static uint32_t op_sums_fit(const struct profile_ops *o, struct op_sums *s, size_t *ret_room)
{
	size_t room = ROOM;

	for (uint32_t i = 0; i < s->n; i++) {
		size_t name = FMT_JSON_STR_MAX(strlen(o->names[i].text) + COUNT_PREFIX_MAX);
		size_t need = 3 * name + FMT_U64_MAX + 2 * FMT_US_MAX;

		if (s->list[i].counted)
			need += (PMU_MAX + 1) * (name + FMT_U64_MAX);
		if (!s->list[i].n && !s->list[i].gpu_ns)
			continue;
		if (need <= room) {
			room -= need;
			continue;
		}
		for (uint32_t k = i; k < s->n; k++)
			op_sum_move(&s->list[0], &s->list[k]);
		*ret_room = 0; /* "other" may need it */
		return i;
	}
	*ret_room = room;
	return s->n;
}

/* Adds the hottest function of each operator, if it is clear and fits. p: within the shape. */
static char *fmt_hot(char *p, const struct profile_ops *o, const struct op_sums *s, uint32_t fit, size_t room)
{
	struct op_hottest *best = op_hot_find(&s->hot, fit);
	char function[STACK_TEXT_MAX];

	for (uint32_t i = 0; best && i < fit; i++) {
		const struct op_hottest *h = &best[i];
		const char *name = o->names[i].text;
		size_t len, need;

		if (!s->list[i].n || !h->function || !chance_is_clear((double)h->samples, (double)h->next))
			continue;
		len = stack_text_function(h->function, function);
		need = 3 * FMT_JSON_STR_MAX(strlen(name) + 6) + FMT_JSON_STR_MAX(len) + 2 * FMT_U64_MAX;
		if (need > room)
			continue;
		room -= need;
		p = fmt_json_str(add_op_key(p, "f_", name), function, len);
		p = profile_fmt_share(add_op_key(p, "fs_", name), h->samples, h->of);
		p = fmt_u64(add_op_key(p, "s_", name), h->of);
	}
	free(best);
	return p;
}

/* p: within the shape. */
static char *fmt_gpu(char *p, const struct profile_ops *o, const struct op_sums *s, uint32_t fit)
{
	uint64_t ns = s->gpu_none_ns;

	for (uint32_t i = 0; i < fit; i++)
		ns += s->list[i].gpu_ns;
	if (!ns)
		return p;
	p = PUT(p, gpu_us, ns);
	p = PUT(p, gpu_unattributed_us, s->gpu_none_ns);
	for (uint32_t i = 0; i < fit; i++) {
		char name[NAME_LEN + 4];

		if (!s->list[i].gpu_ns)
			continue;
		snprintf(name, sizeof(name), "%s_us", o->names[i].text);
		p = fmt_us(add_op_key(p, "g_", name), s->list[i].gpu_ns);
	}
	return p;
}

/* What the calls of each operator cost the CPU. p: within the shape. */
static char *fmt_counts(char *p, const struct profile_ops *o, const struct op_sums *s, uint32_t fit)
{
	const struct counters *c = &o->rec->counters;
	char prefix[COUNT_PREFIX_MAX];

	for (uint32_t i = 0; i < fit; i++) {
		const struct op_sum *sum = &s->list[i];

		for (unsigned int k = 0; sum->counted && k < PMU_MAX; k++) {
			if (!counters_have(c, k))
				continue;
			snprintf(prefix, sizeof(prefix), "%s_", counter_name(c->set, k));
			p = fmt_u64(add_op_key(p, prefix, o->names[i].text), sum->counts[k]);
		}
		if (sum->counted && sum->counted < sum->n)
			p = fmt_u64(add_op_key(p, "counted_", o->names[i].text), sum->counted);
	}
	return p;
}

/* p: within the shape. */
static char *fmt_sums(char *p, const struct profile_ops *o, struct op_sums *s)
{
	uint64_t n = 0, ns = 0;
	uint32_t fit;
	size_t room;

	fit = op_sums_fit(o, s, &room);
	for (uint32_t i = 0; i < fit; i++) {
		n += s->list[i].n;
		ns += s->list[i].ns;
	}
	p = PUT(p, ops, n);
	for (uint32_t i = 0; i < fit; i++) {
		if (s->list[i].n)
			p = fmt_u64(add_op_key(p, "n_", o->names[i].text), s->list[i].n);
	}
	p = fmt_counts(p, o, s, fit);
	p = fmt_gpu(p, o, s, fit);
	p = fmt_hot(p, o, s, fit, room);
	p = PUT_TOTAL(p, ns);
	for (uint32_t i = 0; i < fit; i++) {
		if (s->list[i].n)
			p = fmt_us(add_op_key(p, "", o->names[i].text), s->list[i].ns);
	}
	*p++ = '}';
	if (s->n)
		memset(s->list, 0, s->n * sizeof(*s->list));
	s->gpu_none_ns = 0;
	return p;
}

/* ---- steps ---- */

/* GPU time alone is not worth a line where there are no operators. */
static bool op_sums_has_any(const struct profile_ops *o, const struct op_sums *s)
{
	for (uint32_t i = 0; i < s->n; i++) {
		if (s->list[i].n || s->list[i].gpu_ns)
			return true;
	}
	return s->gpu_none_ns && o->any;
}

/* Adds what --budget left out. */
static char *add_shed_parts(char *p, uint32_t parts)
{
	char text[SHED_TEXT_MAX];

	return parts ? PUT(p, left_out, shed_text(parts, text)) : p;
}

/* Writes the line, if there is anything to write, and frees the slot. */
static void step_ops_write(struct profile_ops *o, struct step_ops *s)
{
	if (op_sums_has_any(o, &s->sums)) {
		char *p = profile_line_begin(o->lines, "op_prof", s->tgid);

		p = PUT_FIRST(p, step, s->step - 1);
		p = PUT(p, pid, s->tgid);
		p = add_shed_parts(p, s->left_out);
		p = fmt_sums(p, o, &s->sums);
		profile_line_end(o->lines, p, s->graph);
	}
	op_hot_clear(&s->sums.hot, &o->n_functions);
	if (s->step > o->written)
		o->written = s->step;
	s->step = 0;
}

static struct step_ops *step_ops_find(struct profile_ops *o, uint32_t step)
{
	struct step_ops *set = &o->steps[step % STEP_SETS * STEP_WAYS];

	for (int i = 0; i < STEP_WAYS; i++) {
		if (set[i].step == step)
			return &set[i];
	}
	return NULL;
}

/* The order in which slots are reused: free ones, ended steps, then the oldest. */
static bool step_ops_is_before(const struct step_ops *a, const struct step_ops *b)
{
	if (!a->step || !b->step)
		return !a->step && b->step;
	if (a->ended != b->ended)
		return a->ended;
	return a->step < b->step;
}

static struct ops_ended_step *ended_step_at(struct profile_ops *o, uint32_t i)
{
	return &o->ended[(o->first_ended + i) % STEPS_MAX];
}

static void step_ops_end(struct profile_ops *o, struct step_ops *s)
{
	uint32_t i;

	s->ended = true;
	if (o->n_ended == STEPS_MAX) {
		struct step_ops *oldest = step_ops_find(o, o->ended[o->first_ended].step);

		if (oldest)
			step_ops_write(o, oldest);
		o->first_ended = (o->first_ended + 1) % STEPS_MAX;
		o->n_ended--;
	}
	i = o->n_ended++;
	/* puts steps that come from several rings at once in order */
	for (; i > 0 && ended_step_at(o, i - 1)->step > s->step; i--) {
		if (ended_step_at(o, i - 1)->round + 1 < o->round)
			break;
		*ended_step_at(o, i) = *ended_step_at(o, i - 1);
	}
	*ended_step_at(o, i) = (struct ops_ended_step){ s->step, o->round };
}

static struct step_ops *step_ops_get(struct profile_ops *o, uint32_t step, uint32_t tgid)
{
	struct step_ops *s = step_ops_find(o, step), *set = &o->steps[step % STEP_SETS * STEP_WAYS];

	if (s)
		return s;
	s = set;
	for (int i = 1; i < STEP_WAYS; i++) {
		if (step_ops_is_before(&set[i], s))
			s = &set[i];
	}
	if (s->step)
		step_ops_write(o, s);
	s->step = step;
	s->tgid = tgid;
	s->ended = s->graph = false;
	s->left_out = 0;
	if (step <= o->written) /* late: its end will not be reported again */
		step_ops_end(o, s);
	return s;
}

/* ---- processes ---- */

static void process_ops_write(struct profile_ops *o, struct process_ops *pr)
{
	struct task *task = tasks_find(o->rec->tasks, pr->tgid);
	char *p;

	if (!op_sums_has_any(o, &pr->sums))
		return;
	p = profile_line_begin(o->lines, "op_prof", pr->tgid);
	if (!o->lines->windows)
		p = fmt_lit(p, "\"window\":0,");
	p = PUT_FIRST(p, pid, pr->tgid);
	p = PUT(p, comm, task ? task->comm : "");
	p = add_shed_parts(p, left_out_between(o->rec->left_out, o->rec->start_boot_ns, UINT64_MAX));
	p = fmt_sums(p, o, &pr->sums);
	profile_line_end(o->lines, p, o->graph);
}

static struct process_ops *process_ops_nth(const struct profile_ops *o, size_t i)
{
	return (struct process_ops *)o->processes.list + i;
}

static void process_ops_drop(void *process, void *arg)
{
	struct process_ops *pr = process;

	process_ops_write(arg, pr);
	op_sums_clear(arg, &pr->sums);
}

/* NULL: too many processes are alive. */
static struct op_sums *process_ops_sums(struct profile_ops *o, uint32_t tgid)
{
	size_t i = o->last_process;

	if (i >= o->processes.n || process_ops_nth(o, i)->tgid != tgid)
		for (i = 0; i < o->processes.n && process_ops_nth(o, i)->tgid != tgid;)
			i++;
	if (i == o->processes.n) {
		process_list_room(&o->processes, o->rec->tasks, process_ops_drop, o);
		if (o->processes.n == PROCESSES_MAX)
			return NULL;
		i = o->processes.n++;
		*process_ops_nth(o, i) = (struct process_ops){ .tgid = tgid };
	}
	o->last_process = i;
	return &process_ops_nth(o, i)->sums;
}

/* ---- calls ---- */

static void add_op(struct profile_ops *o, const struct probe_spec *s, const struct rec_function *r)
{
	uint32_t name = ops_name_number(o, probe_record_name(s, r));
	bool by_step = o->rec->probes->op_detail && r->step;
	struct op_sums *sums = by_step ? &step_ops_get(o, r->step, r->h.tgid)->sums : process_ops_sums(o, r->h.tgid);

	o->any = true;
	if (sums)
		op_sums_add(sums, name, r->h.dur_ns, probe_record_counts(s, r));
	if (o->gpu)
		gpu_ops_call(o->gpu, &r->h, name);
}

static void write_call_line(
	struct profile_ops *o, const struct probe_spec *s, const struct rec_function *r)
{
	const char *event = s->role == ROLE_GRAPH ? "graph_prof" : "sample_prof";
	char *p = profile_line_begin(o->lines, event, r->h.tgid);

	p = PUT_FIRST(p, call, probe_spec_name(s, r->vals));
	if (r->step)
		p = PUT(p, step, r->step - 1);
	p = PUT(p, pid, r->h.tgid);
	p = PUT(p, tid, r->h.tid);
	p = PUT(p, ts_us, profile_since(o->rec, r->h.start_ns));
	p = profile_add_args(p, s, r->vals, probe_record_strings(s, r));
	p = PUT_NONZERO(p, unfinished, r->h.flags & REC_F_OPEN_END);
	p = PUT_TOTAL(p, r->h.dur_ns);
	*p++ = '}';
	profile_line_end(o->lines, p, s->flags & PROBE_F_GRAPH);
}

void profile_ops_call(struct profile_ops *o, const struct rec_function *r)
{
	const struct probe_spec *s = &o->rec->probes->specs[r->h.id];

	if (s->role == ROLE_OP)
		add_op(o, s, r);
	else if ((s->role == ROLE_GRAPH || s->role == ROLE_SAMPLE) && !(s->flags & PROBE_F_INSTANT))
		write_call_line(o, s, r);
}

void profile_ops_step(struct profile_ops *o, const struct rec_step *r)
{
	struct step_ops *s;

	o->graph |= r->n.graphs > 0;
	if (!o->rec->probes->op_detail)
		return;
	if (o->gpu)
		gpu_ops_step(o->gpu, &r->h);
	s = step_ops_get(o, r->number + 1, r->h.tgid);
	s->graph = r->n.graphs > 0;
	s->left_out = r->left_out;
	if (!s->ended)
		step_ops_end(o, s);
}

/* Samples of a step whose line was written already are in no line. */
void profile_ops_sample(struct profile_ops *o, uint32_t tgid, uint32_t step, uint32_t number, const struct frame *f)
{
	bool by_step = o->rec->probes->op_detail && step;
	struct step_ops *s = by_step ? step_ops_find(o, step) : NULL;
	struct op_sums *sums = by_step ? (s ? &s->sums : NULL) : process_ops_sums(o, tgid);

	if (sums)
		op_hot_add(&sums->hot, &o->n_functions, number, f);
}

/* ---- GPUs ---- */

/* With lines for steps, the line of a process has only what is outside of steps. */
static void add_gpu_time(const struct gpu_op_time *t, void *arg)
{
	struct profile_ops *o = arg;
	uint64_t ns = o->rec->probes->op_detail ? t->outside_ns : t->ns;
	struct op_sums *sums = ns ? process_ops_sums(o, t->tgid) : NULL;

	if (sums)
		op_sums_add_gpu(sums, t->op, ns);
}

static void add_gpu_step_time(const struct gpu_op_time *t, void *arg)
{
	op_sums_add_gpu(arg, t->op, t->ns);
}

void profile_ops_gpu(struct profile_ops *o, const struct rec_gpu *r)
{
	const char *op = gpu_info_operator_name(o->rec->gpu, r->captured_in);

	if (o->gpu)
		gpu_ops_kernel(o->gpu, r, op ? ops_name_number(o, op) : GPU_OPS_NONE, add_gpu_time, o);
}

/* By now everything that the step needs has arrived. */
void profile_ops_gpu_step(struct profile_ops *o, const struct rec_gpu_step *r)
{
	if (o->gpu && o->any && o->rec->probes->op_detail && !(r->h.flags & GPU_STEP_F_LOST))
		gpu_ops_divide(o->gpu, &r->h, add_gpu_step_time, &step_ops_get(o, r->step + 1, r->h.tgid)->sums);
}

/* ---- */

static void write_ended_steps(struct profile_ops *o, uint64_t hold)
{
	while (o->n_ended && o->ended[o->first_ended].round + hold <= o->round) {
		struct step_ops *s = step_ops_find(o, o->ended[o->first_ended].step);

		if (s && s->ended)
			step_ops_write(o, s);
		o->first_ended = (o->first_ended + 1) % STEPS_MAX;
		o->n_ended--;
	}
}

void profile_ops_settled(struct profile_ops *o)
{
	o->round++;
	write_ended_steps(o, HOLD);
	if (o->gpu && !(o->round % HOLD))
		gpu_ops_take(o->gpu, false, add_gpu_time, o);
}

void profile_ops_finish(struct profile_ops *o)
{
	write_ended_steps(o, 0);
	if (o->gpu)
		gpu_ops_take(o->gpu, true, add_gpu_time, o);
	for (size_t i = 0; i < STEPS_MAX; i++) {
		if (o->steps[i].step)
			step_ops_write(o, &o->steps[i]);
	}
	for (size_t i = 0; i < o->processes.n; i++)
		process_ops_write(o, process_ops_nth(o, i));
}

void profile_ops_free(struct profile_ops *o)
{
	for (size_t i = 0; i < STEPS_MAX; i++)
		op_sums_clear(o, &o->steps[i].sums);
	for (size_t i = 0; i < o->processes.n; i++)
		op_sums_clear(o, &process_ops_nth(o, i)->sums);
	free(o->processes.list);
	gpu_ops_free(o->gpu);
	HASH_CLEAR(hh, o->by_text);
	free(o);
}

struct profile_ops *profile_ops_new(struct profile_lines *lines, const struct recording *rec)
{
	struct profile_ops *o = xcalloc(1, sizeof(*o));

	if (rec->gpu)
		o->gpu = gpu_ops_new();
	o->lines = lines;
	o->rec = rec;
	o->processes.size = sizeof(struct process_ops);
	ops_intern_name(o, "other");
	return o;
}
