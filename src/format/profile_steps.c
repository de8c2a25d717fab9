// SPDX-License-Identifier: BSD-2-Clause
/*
 * token_prof: one line per engine step, whose stages add up to its total to the nanosecond. Which rows of a batch were prompts
 * is known once the steps before it are: such a line waits until the requests have taken the step. Why it did not begin sooner
 * is known once all records up to its begin have come. What a GPU did is known some seconds later: the lines of a process with
 * a GPU wait for it.
 */
#include "format/profile_line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/rows.h"
#include "format/derive.h"
#include "format/gpu_gaps.h"
#include "format/path_code.h"
#include "format/stack_text.h"
#include "format/step_overhead.h"
#include "gpu/info.h"
#include "schema/left_out.h"
#include "target/cgroup.h"
#include "util/alloc.h"
#include "util/list.h"
#include "util/names.h"
#include "waits/causes.h"

#define GAP_MIN_NS 1000 /* a shorter gap is not worth a cause, even if it is the longest */

#define GAP_ROUNDS 2 /* of settled records, after which the gap before a step is known: waits/gaps.h */

#define CODE_ROUNDS 100 /* the same where its samples have to come first, a second: they are unwound */

#define HELD_MAX 8192 /* if full, the first ones are written with what is known then */

/* What is kept of a step's record until its GPU activity is known. */
struct step_of_gpu {
	uint32_t tid;
	bool is_whole; /* nothing of it was lost, or left out by --budget */
	uint64_t runnable_ns;
	struct behind_table behind;
};

/* What the rows of a step were. */
struct steps_told {
	uint64_t prompt, decode, again;
};

/* A line that waits for that, or for GPU activity; kept as text, since by then its arguments may have lost their meaning. */
struct held_step {
	uint32_t number, tgid;
	bool graph;
	bool waits_told, waits_gpu;
	unsigned int waits_gap; /* for so many rounds of profile_steps_settled() */
	bool is_told;
	struct steps_told told;
	struct rec_gpu_step *gpu; /* NULL: not known */
	struct step_of_gpu of_gpu;
	struct causes *gap, *waits; /* likewise */
	uint64_t gap_from_ns, gap_ns;
	char *text; /* of its shape and stages */
	size_t told_at, gpu_at, len;
};

struct profile_steps {
	struct profile_lines *lines;
	const struct recording *rec;
	struct {
		uint32_t tgid;
		uint64_t as_of, limit;
	} cpu;                            /* last read */
	uint32_t self;                    /* pid of the recorder */
	struct gpu_gaps *gaps;            /* NULL: no GPU is recorded */
	bool parts_seen;                  /* the rows of some step were known by sequence */
	struct held_step *held[HELD_MAX]; /* sorted by number */
	size_t n_held;
	uint32_t told_until; /* steps below this were told what their rows were, or will not be */
	char text[PROFILE_BODY_MAX];
};

/* ---- a line ---- */

static char *add_by_thread(char *p, const char *prefix, const char *by, size_t max, uint32_t tid)
{
	p = profile_add_key(p, prefix, "_by");
	p = fmt_json_str(p, by, strnlen(by, max));
	return fmt_u64(profile_add_key(p, prefix, "_by_tid"), tid);
}

/* Adds who ran while it waited for a CPU, the longest first: keys prefix1_by, ... and prefix_others_us. */
static char *add_behind(
	char *p, const char *prefix, const struct behind_table *table, uint64_t waited_ns)
{
	struct behind_row rows[BEHIND_MAX];
	uint64_t others;
	size_t n = behind_rows(table, waited_ns, rows, &others);
	char key[32];

	for (size_t i = 0; i < n; i++) {
		snprintf(key, sizeof(key), "%s%zu", prefix, i + 1);
		p = profile_add_key(p, key, "_by");
		p = fmt_json_str(p, rows[i].by, strlen(rows[i].by));
		p = fmt_u64(profile_add_key(p, key, "_tid"), rows[i].tid);
		p = fmt_u64(profile_add_key(p, key, "_pid"), rows[i].tgid);
		p = fmt_us(profile_add_key(p, key, "_us"), rows[i].ns);
	}
	return n && others ? fmt_us(profile_add_key(p, prefix, "_others_us"), others) : p;
}

/* Read once a second, since it may change at any time. */
static uint64_t step_cpu_limit(struct profile_steps *ps, const struct rec_step *r)
{
	uint64_t end = r->h.start_ns + r->h.dur_ns;

	if (ps->cpu.tgid != r->h.tgid || end > ps->cpu.as_of + 1000000000) {
		ps->cpu.tgid = r->h.tgid;
		ps->cpu.as_of = end;
		ps->cpu.limit = cpu_limit_read(r->h.tgid);
	}
	return ps->cpu.limit;
}

/* Adds the shape up to where it says what its rows were. */
static char *add_step_call(const struct profile_steps *ps, char *p, const struct rec_step *r)
{
	const struct probe_spec *s = &ps->rec->probes->specs[r->h.id];
	struct step_rows rows;

	p = PUT_FIRST(p, step, r->number);
	p = PUT(p, pid, r->h.tgid);
	p = PUT(p, tid, r->h.tid);
	p = PUT(p, phase, probe_spec_name(s, r->vals));
	p = profile_add_args(p, s, r->vals, NULL);
	if (rows_of_step(s, r->vals, &rows) && rows.readable)
		p = PUT(p, rows, r->vals[s->row_count - 1]);
	for (int i = 0; i < SCHEDULER_VALUES; i++) {
		if (r->scheduler[i])
			p = fmt_u64(profile_add_key(p, "scheduler_", scheduler_keys[i]), r->scheduler[i] - 1);
	}
	return p;
}

/* Adds the rest of the shape. */
static char *add_step_shape(struct profile_steps *ps, char *p, const struct rec_step *r)
{
	const struct probe_spec *spec = &ps->rec->probes->specs[r->h.id];
	char off[SHED_TEXT_MAX];
	struct step_overhead weight;

	p = PUT(p, ts_us, profile_since(ps->rec, r->h.start_ns));
	p = PUT(p, switches, (uint64_t)r->n.switches_voluntary + r->n.switches_involuntary);
	p = PUT(p, switches_voluntary, r->n.switches_voluntary);
	p = PUT(p, migrations, r->n.migrations);
	p = PUT(p, faults_minor, r->n.faults_minor);
	p = PUT(p, faults_major, r->n.faults_major);
	p = PUT(p, syscalls, r->n.syscalls);
	p = PUT(p, lost, r->lost);
	p = PUT_NONZERO(p, stand_in, spec->stand_in ? spec->symbol : NULL);
	p = PUT_NONZERO(p, watched, r->h.flags & STEP_F_WATCHED);
	p = PUT_NONZERO(p, began_before, r->h.flags & REC_F_OPEN_START);
	p = PUT_NONZERO(p, unfinished, r->h.flags & REC_F_OPEN_END);
	p = PUT_NONZERO(p, cpus_allowed, r->n.cpus_allowed);
	p = PUT_NONZERO(p, cpu_limit, step_cpu_limit(ps, r));
	p = PUT_NONZERO(p, left_out, r->left_out ? shed_text(r->left_out, off) : NULL);
	p = PUT_NONZERO(p, left_out_changed, r->left_out & SHED_CHANGED);
	if (r->workers || !(r->left_out & 1u << SHED_BARRIERS)) /* workers are recognised at barriers */
		p = PUT(p, workers, r->workers);
	if (r->straggler_tid)
		p = PUT(PUT(p, straggler_tid, r->straggler_tid), straggler_held_us, r->held_ns);
	p = add_behind(p, "behind", &r->behind, r->ns[ST_RUNNABLE]);
	if (r->workers)
		p = add_behind(p, "workers_behind", &r->workers_behind, r->workers_ns[ST_RUNNABLE]);
	if (r->counted == COUNTED)
		p = counts_fmt(p, &ps->rec->counters, r->counts);
	p = PUT_NONZERO(p, counters_shared, r->counted == COUNTED_SHARED);
	if (step_overhead_of(r, ps->rec->prices, ps->self, &weight)) {
		p = PUT(p, tracer_us, weight.ns);
		p = PUT(p, tracer_waited_us, weight.waited_ns);
	}
	return p;
}

static char *add_step_stages(char *p, const struct rec_step *r)
{
	p = PUT_TOTAL(p, r->h.dur_ns);
	p = profile_add_states(p, "", r->ns);
	if (r->workers) {
		uint64_t total = 0;

		for (int i = 0; i < ST_MAX; i++)
			total += r->workers_ns[i];
		p = PUT(p, workers_total, total);
		p = profile_add_states(p, "workers_", r->workers_ns);
	}
	*p++ = '}';
	return p;
}

static void write_step_line(struct profile_steps *ps, const struct rec_step *r)
{
	char *p = profile_line_begin(ps->lines, "token_prof", r->h.tgid);

	profile_line_end(ps->lines, add_step_stages(add_step_shape(ps, add_step_call(ps, p, r), r), r), r->n.graphs > 0);
}

/* ---- what the GPU did ---- */

/* Names who ran instead if it did so for at least half of the gap's runnable time, however the step's own is spread. */
static char *add_gap_runner(char *p, const char *prefix, const struct step_of_gpu *s, const struct gpu_gap *g, uint64_t ns)
{
	struct behind_row rows[BEHIND_MAX];
	uint64_t others;

	if (g->tid != s->tid || !behind_rows(&s->behind, s->runnable_ns, rows, &others) || rows[0].ns + ns / 2 < s->runnable_ns)
		return p;
	return add_by_thread(p, prefix, rows[0].by, sizeof(rows[0].by), rows[0].tid);
}

static char *add_gap_waker(char *p, const char *prefix, const struct recording *rec, uint32_t tid)
{
	const struct task *t = tid ? tasks_find(rec->tasks, tid) : NULL;

	return t && t->comm[0] ? add_by_thread(p, prefix, t->comm, sizeof(t->comm), tid) : p;
}

static char *add_gap_function(char *p, const char *prefix, const struct recording *rec, uint32_t stack)
{
	const struct frame *f = rec->stacks ? stack_subject(rec->stacks, stack) : NULL;
	char text[STACK_TEXT_MAX];
	size_t len = f ? stack_text(f, text) : 0;

	return len ? fmt_json_str(profile_add_key(p, prefix, "_in"), text, len) : p;
}

static char *add_gap_cause(char *p, const char *prefix, const struct recording *rec, const struct step_of_gpu *s,
	const struct gpu_gap *g, const struct gap_cause *c)
{
	const char *state = time_state_name(c->state), *call = c->syscall == SYSCALL_NONE ? NULL : syscall_name(c->syscall);
	char key[48];

	p = fmt_json_str(profile_add_key(p, prefix, "_state"), state, strlen(state));
	for (int i = 0; i < ST_MAX; i++) {
		if (!c->ns[i])
			continue;
		snprintf(key, sizeof(key), "_%s_us", time_state_name((enum time_state)i));
		p = fmt_us(profile_add_key(p, prefix, key), c->ns[i]);
	}
	if (c->state == ST_RUNNABLE)
		return add_gap_runner(p, prefix, s, g, c->ns[c->state]);
	if (c->state == ST_CPU)
		return add_gap_function(p, prefix, rec, c->stack);
	if (call && (c->state == ST_SYSCALL || c->state > ST_RUNNABLE))
		p = fmt_json_str(profile_add_key(p, prefix, "_call"), call, strlen(call));
	return c->state > ST_RUNNABLE ? add_gap_waker(p, prefix, rec, c->waker_tid) : p;
}

static char *add_gpu_gap(char *p, unsigned int number, const struct recording *rec, const struct gpu_gaps *gaps, const struct step_of_gpu *s,
	const struct gpu_gap *g)
{
	struct gap_cause c;
	char prefix[32];

	snprintf(prefix, sizeof(prefix), "gpu_gap%u", number);
	p = fmt_us(PUT_KEY_N(p, gpu_gapN_us, number), g->dur_ns);
	p = fmt_us(PUT_KEY_N(p, gpu_gapN_ts_us, number), profile_since(rec, g->start_ns));
	p = fmt_u64(PUT_KEY_N(p, gpu_gapN_tid, number), g->tid);
	if (gaps && s->is_whole && gpu_gaps_cause(gaps, g->tid, g->start_ns, g->start_ns + g->dur_ns, &c))
		p = add_gap_cause(p, prefix, rec, s, g, &c);
	return p;
}

/* Adds what one of several devices did: the parts that are not 0. */
static char *add_device_parts(char *p, const struct gpu_step_device *d)
{
	char prefix[32];

	snprintf(prefix, sizeof(prefix), "gpu_device%u_", d->device);
	p = fmt_u64(PUT_KEY_N(p, gpu_deviceN_kernels, d->device), d->kernels);
	p = fmt_u64(PUT_KEY_N(p, gpu_deviceN_copies, d->device), d->copies);
	for (int i = 0; i < GPU_PART_MAX; i++) {
		if (d->ns[i])
			p = fmt_us(profile_add_key(p, prefix, gpu_part_key(i) + strlen("gpu_")), d->ns[i]);
	}
	return d->after_ns ? fmt_us(PUT_KEY_N(p, gpu_deviceN_after_us, d->device), d->after_ns) : p;
}

/* Adds keys to the shape. The parts sum to the step's duration. */
static char *add_gpu_parts(
	char *p, const struct recording *rec, const struct gpu_gaps *gaps, const struct step_of_gpu *s, const struct rec_gpu_step *r)
{
	if (r->h.flags & GPU_STEP_F_LOST)
		return PUT(p, gpu_lost, true);
	p = PUT(p, gpu_device, r->device);
	p = PUT(p, gpu_kernels, r->kernels);
	p = PUT(p, gpu_copies, r->copies);
	for (int i = 0; i < GPU_PART_MAX; i++) {
		if (!r->ns[i] && i == GPU_PART_COLLECTIVE) /* most programs have none */
			continue;
		p = fmt_us(profile_add_key(p, gpu_part_key(i), ""), r->ns[i]);
	}
	p = PUT_NONZERO(p, gpu_after_us, r->after_ns);
	p = PUT(p, gpu_residual_us, r->residual_ns);
	if (r->n_devices > 1) {
		p = PUT(p, gpu_devices, r->n_devices);
		for (uint32_t i = 0; i < gpu_step_devices(r); i++)
			p = add_device_parts(p, &r->devices[i]);
	}
	for (unsigned int i = 0; i < GPU_GAPS && r->gaps[i].dur_ns >= GAP_MIN_NS; i++)
		p = add_gpu_gap(p, i + 1, rec, gaps, s, &r->gaps[i]);
	return p;
}

/* ---- why the step did not begin sooner ---- */

#define PATH_MAX_LISTED 4 /* in a line */

static char *add_text(char *p, const char *prefix, const char *key, const char *text, size_t max)
{
	return fmt_json_str(profile_add_key(p, prefix, key), text, strnlen(text, max));
}

#define CODE_MIN_NS 5000000 /* a shorter cause has hardly a sample */

static char *add_cause(char *p, const struct recording *rec, const char *prefix, const struct gap_segment *s, const char *code)
{
	const char *call = s->call == CALL_NONE ? NULL : syscall_name(s->call);
	char name[GAP_FD_MAX];
	const char *fd = gap_segment_fd(rec, s, name);

	if (s->comm[0])
		p = add_text(p, prefix, "_comm", s->comm, sizeof(s->comm));
	p = fmt_u64(profile_add_key(p, prefix, "_tid"), s->tid);
	if (s->tgid)
		p = fmt_u64(profile_add_key(p, prefix, "_pid"), s->tgid);
	p = add_text(p, prefix, "_state", time_state_name((enum time_state)s->state), PROFILE_BODY_MAX);
	if (call)
		p = add_text(p, prefix, "_call", call, PROFILE_BODY_MAX);
	if (fd)
		p = add_text(p, prefix, *fd == 'f' ? "_file" : "_peer", name, sizeof(name));
	if (gap_segment_has_behind(s)) {
		p = add_text(p, prefix, "_behind", gap_segment_behind(s), sizeof(s->by));
		p = fmt_u64(profile_add_key(p, prefix, "_behind_tid"), s->by_tid);
		p = fmt_us(profile_add_key(p, prefix, "_behind_us"), s->by_ns);
	}
	if (code)
		p = add_text(p, prefix, "_in", code, PATH_CODE_MAX);
	return fmt_us(profile_add_key(p, prefix, "_us"), s->dur_ns);
}

char *profile_add_path(char *p, const struct recording *rec, const char *prefix, struct causes *c, const struct path_code *code, uint64_t from_ns,
	uint64_t to_ns)
{
	char key[16], in[PATH_CODE_MAX];

	causes_finish(c, PATH_MAX_LISTED);
	for (unsigned int i = 0; i < c->n; i++) {
		const struct gap_segment *s = &c->list[i];
		bool known = code && s->dur_ns >= CODE_MIN_NS && path_code_find(code, s->tid, (enum time_state)s->state, from_ns, to_ns, in);

		snprintf(key, sizeof(key), "%s%u", prefix, i + 1);
		p = add_cause(p, rec, key, s, known ? in : NULL);
	}
	if (c->others_ns)
		p = fmt_us(profile_add_key(p, prefix, "_rest_us"), c->others_ns);
	if (c->unknown_ns)
		p = fmt_us(profile_add_key(p, prefix, "_unknown_us"), c->unknown_ns);
	return c->estimated_ns ? fmt_us(profile_add_key(p, prefix, "_estimated_us"), c->estimated_ns) : p;
}

/* ---- steps that wait until it is known what their rows were, why they did not begin sooner, and what the GPU did ---- */

static size_t held_step_find(const struct profile_steps *ps, uint32_t number)
{
	return bisect(ps->n_held, i, ps->held[i]->number < number);
}

static void held_step_write(struct profile_steps *ps, const struct held_step *h)
{
	char *p = profile_line_begin(ps->lines, "token_prof", h->tgid);

	p = fmt_str(p, h->text, h->told_at);
	if (h->is_told) {
		p = PUT(PUT(p, prompt_tokens, h->told.prompt), decode_tokens, h->told.decode);
		p = PUT_NONZERO(p, recomputed_tokens, h->told.again);
	}
	p = fmt_str(p, h->text + h->told_at, h->gpu_at - h->told_at);
	if (h->gap)
		p = profile_add_path(PUT(p, gap_us, h->gap_ns), ps->rec, "path", h->gap, ps->lines->code, h->gap_from_ns, h->gap_from_ns + h->gap_ns);
	if (h->waits)
		p = profile_add_path(p, ps->rec, "wait", h->waits, NULL, 0, 0);
	if (h->gpu)
		p = add_gpu_parts(p, ps->rec, ps->gaps, &h->of_gpu, h->gpu);
	p = fmt_str(p, h->text + h->gpu_at, h->len - h->gpu_at);
	profile_line_end(ps->lines, p, h->graph);
}

static void held_step_free(struct held_step *h)
{
	free(h->text);
	free(h->gap);
	free(h->waits);
	free(h->gpu);
	free(h);
}

/* Writes steps that wait for nothing, and the first n in any case, without what they waited for. */
static void held_steps_write_ready(struct profile_steps *ps, size_t n)
{
	size_t left = 0;

	for (size_t i = 0; i < ps->n_held; i++) {
		struct held_step *h = ps->held[i];

		if (i >= n && ((h->waits_told && h->number >= ps->told_until) || h->waits_gap || h->waits_gpu)) {
			ps->held[left++] = h;
			continue;
		}
		held_step_write(ps, h);
		held_step_free(h);
	}
	ps->n_held = left;
}

/* Whether step_requests.c will tell what its rows were: by its parts, or as a single sequence where other steps have parts. */
static bool step_has_rows_to_come(struct profile_steps *ps, const struct rec_step *r)
{
	struct step_rows rows;

	ps->parts_seen |= r->n_parts > 0;
	if (r->n_parts || !ps->parts_seen)
		return r->n_parts > 0 && !r->parts_left;
	return rows_of_step(&ps->rec->probes->specs[r->h.id], r->vals, &rows) && rows.readable && rows.one;
}

static void held_step_add(struct profile_steps *ps, const struct rec_step *r, bool told, bool gpu)
{
	struct held_step *h = xmalloc(sizeof(*h));
	char *p = add_step_call(ps, ps->text, r);
	size_t i;

	*h = (struct held_step){
		.number = r->number,
		.tgid = r->h.tgid,
		.graph = r->n.graphs > 0,
		.waits_told = told,
		.waits_gap = ps->rec->gaps ? GAP_ROUNDS : 0,
		.waits_gpu = gpu,
		.of_gpu = { r->h.tid, !r->lost && !(r->left_out & (1u << SHED_SYSCALLS | 1u << SHED_TIMELINE)), r->ns[ST_RUNNABLE], r->behind },
	};
	h->told_at = (size_t)(p - ps->text);
	p = add_step_shape(ps, p, r);
	h->gpu_at = (size_t)(p - ps->text);
	h->len = (size_t)(add_step_stages(p, r) - ps->text);
	h->text = memcpy(xmalloc(h->len), ps->text, h->len);
	if (ps->n_held == HELD_MAX)
		held_steps_write_ready(ps, HELD_MAX / 8);
	i = held_step_find(ps, r->number);
	memmove(ps->held + i + 1, ps->held + i, (ps->n_held++ - i) * sizeof(*ps->held));
	ps->held[i] = h;
}

void profile_steps_add(struct profile_steps *ps, const struct rec_step *r)
{
	struct step_rows rows;
	bool told = step_has_rows_to_come(ps, r), gpu = ps->rec->gpu && gpu_info_expects(ps->rec->gpu, r->h.tgid);

	if (rows_of_step(&ps->rec->probes->specs[r->h.id], r->vals, &rows) && rows.n_sequences)
		profile_lines_saw(ps->lines, r->h.tgid, rows.n_sequences);
	if (told || gpu || ps->rec->gaps)
		held_step_add(ps, r, told, gpu);
	else
		write_step_line(ps, r);
}

static struct held_step *held_step_get(struct profile_steps *ps, uint32_t number)
{
	size_t i = held_step_find(ps, number);

	return i < ps->n_held && ps->held[i]->number == number ? ps->held[i] : NULL;
}

void profile_steps_part(struct profile_steps *ps, const struct step_seen *s, const struct request_part *p)
{
	struct held_step *h = held_step_get(ps, s->number);

	if (!h)
		return;
	*(p->prompt ? &h->told.prompt : &h->told.decode) += p->rows->rows - p->again;
	h->told.again += p->again;
}

void profile_steps_taken(struct profile_steps *ps, const struct step_seen *s)
{
	struct held_step *h = held_step_get(ps, s->number);

	if (h)
		h->is_told = h->waits_told;
	if (s->number >= ps->told_until)
		ps->told_until = s->number + 1;
	if (!ps->rec->gaps) /* else they still wait for that, until profile_steps_settled() */
		held_steps_write_ready(ps, 0);
}

void profile_steps_gpu(struct profile_steps *ps, const struct rec_gpu_step *r)
{
	struct held_step *h = held_step_get(ps, r->step);

	if (!h)
		return;
	if (!h->gpu)
		h->gpu = xmalloc(sizeof(*h->gpu));
	memcpy(h->gpu, r, REC_GPU_STEP_SIZE(gpu_step_devices(r)));
	h->waits_gpu = false;
	held_steps_write_ready(ps, 0);
}

void profile_steps_gap(struct profile_steps *ps, const struct rec_gap *r)
{
	struct held_step *h = held_step_get(ps, r->step);
	bool within = r->h.flags & GAP_F_WITHIN;
	struct causes **to;

	if (!h || r->h.flags & REC_F_OPEN_START)
		return;
	to = within ? &h->waits : &h->gap;
	if (*to)
		return;
	*to = xcalloc(1, sizeof(**to));
	causes_add_gap(*to, r);
	if (within)
		return;
	h->gap_from_ns = r->h.start_ns;
	h->gap_ns = r->h.dur_ns;
	if (ps->lines->code && h->gap_ns >= CODE_MIN_NS)
		h->waits_gap = CODE_ROUNDS;
}

void profile_steps_settled(struct profile_steps *ps)
{
	for (size_t i = 0; i < ps->n_held; i++)
		ps->held[i]->waits_gap -= ps->held[i]->waits_gap > 0;
	held_steps_write_ready(ps, 0);
}

void profile_steps_record(struct profile_steps *ps, const struct rec_hdr *h)
{
	if (ps->gaps)
		gpu_gaps_record(ps->gaps, h);
}

void profile_steps_loss(struct profile_steps *ps, const struct loss *l)
{
	if (ps->gaps)
		gpu_gaps_loss(ps->gaps, l);
}

void profile_steps_finish(struct profile_steps *ps)
{
	held_steps_write_ready(ps, ps->n_held);
}

struct profile_steps *profile_steps_new(struct profile_lines *lines, const struct recording *rec)
{
	struct profile_steps *ps = xcalloc(1, sizeof(*ps));

	if (rec->gpu)
		ps->gaps = gpu_gaps_new(rec);
	ps->lines = lines;
	ps->rec = rec;
	ps->self = (uint32_t)getpid();
	return ps;
}

void profile_steps_free(struct profile_steps *ps)
{
	for (size_t i = 0; i < ps->n_held; i++)
		held_step_free(ps->held[i]);
	gpu_gaps_free(ps->gaps);
	free(ps);
}
