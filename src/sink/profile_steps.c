// SPDX-License-Identifier: BSD-2-Clause
#include "sink/profile_steps.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/rows.h"
#include "sink/behind.h"
#include "sink/left_out.h"
#include "sink/weight.h"
#include "target/cpu_limit.h"
#include "util/names.h"

#define HELD_MAX 1024 /* if full, the first one is written with what is known then */

/* What the rows of a step were. */
struct told {
	uint64_t prompt, decode;
};

/* A line that waits for that. What its arguments mean may not be known any more when it is written. */
struct held_step {
	uint32_t number, tgid;
	bool graph;
	struct told told;
	char *text; /* of its shape and stages */
	size_t told_at, len;
};

struct profile_steps {
	struct profile_lines *lines;
	const struct recording *rec;
	struct {
		uint32_t tgid;
		uint64_t as_of, limit;
	} cpu;                           /* last read */
	uint32_t self;                   /* the recorder */
	bool parts_seen;                 /* the rows of some step were known by sequence */
	struct held_step held[HELD_MAX]; /* sorted by number */
	size_t n_held;
	char text[PROFILE_BODY_MAX];
};

/* ---- a line ---- */

/* What held a thread up for longest, and which thread caused it. */
static char *add_stall(char *p, const char *prefix, const struct stall *s)
{
	const char *state = time_state_name((enum time_state)s->state), *by = s->by;

	if (s->state == ST_CPU || s->state >= ST_MAX)
		return p;
	p = profile_add_key(p, prefix, "_state");
	p = fmt_json_str(p, state, strlen(state));
	p = fmt_us(profile_add_key(p, prefix, "_us"), s->dur_ns);
	if (s->state == ST_RUNNABLE && s->flags & STALL_F_UNNAMED)
		return p;
	if (s->state == ST_RUNNABLE && (!s->by_tid || s->flags & STALL_F_THROTTLED))
		by = s->flags & STALL_F_THROTTLED ? "cpu.max" : "idle";
	else if (!s->by_tid)
		return p; /* woken by an interrupt, or it ended in another way */
	p = profile_add_key(p, prefix, "_by");
	p = fmt_json_str(p, by, strnlen(by, sizeof(s->by)));
	p = fmt_u64(profile_add_key(p, prefix, "_by_tid"), s->flags & STALL_F_THROTTLED ? 0 : s->by_tid);
	if (s->state != ST_RUNNABLE && s->late_ns)
		p = fmt_us(profile_add_key(p, prefix, "_late_us"), s->late_ns);
	return p;
}

/* Behind which threads it waited for a CPU, the longest first: keys prefix1_by, ... and prefix_others_us. */
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
static uint64_t cpu_limit(struct profile_steps *ps, const struct rec_step *r)
{
	uint64_t end = r->h.start_ns + r->h.dur_ns;

	if (ps->cpu.tgid != r->h.tgid || end > ps->cpu.as_of + 1000000000) {
		ps->cpu.tgid = r->h.tgid;
		ps->cpu.as_of = end;
		ps->cpu.limit = cpu_limit_read(r->h.tgid);
	}
	return ps->cpu.limit;
}

/* Up to where it says what its rows were. */
static char *add_call(const struct profile_steps *ps, char *p, const struct rec_step *r)
{
	const struct probe_spec *s = &ps->rec->probes->specs[r->h.id];
	struct step_rows rows;

	p = add_u64(p, "\"step\":", r->number);
	p = add_u64(p, ",\"pid\":", r->h.tgid);
	p = add_u64(p, ",\"tid\":", r->h.tid);
	p = add_string(p, ",\"phase\":", probe_spec_name(s, r->vals));
	p = profile_add_args(p, s, r->vals, NULL);
	if (rows_of_step(s, r->vals, &rows) && rows.readable)
		p = add_u64(p, ",\"rows\":", r->vals[s->row_count - 1]);
	return p;
}

static char *add_told(char *p, const struct told *t)
{
	p = add_u64(p, ",\"prompt_tokens\":", t->prompt);
	return add_u64(p, ",\"decode_tokens\":", t->decode);
}

/* What is behind that. */
static char *add_step(struct profile_steps *ps, char *p, const struct rec_step *r)
{
	char off[SHED_TEXT_MAX];
	struct weight weight;

	p = add_us(p, ",\"ts_us\":",
		r->h.start_ns > ps->rec->start_boot_ns ? r->h.start_ns - ps->rec->start_boot_ns : 0);
	p = add_u64(p, ",\"switches\":",
		(uint64_t)r->n.switches_voluntary + r->n.switches_involuntary);
	p = add_u64(p, ",\"switches_voluntary\":", r->n.switches_voluntary);
	p = add_u64(p, ",\"migrations\":", r->n.migrations);
	p = add_u64(p, ",\"faults_minor\":", r->n.faults_minor);
	p = add_u64(p, ",\"faults_major\":", r->n.faults_major);
	p = add_u64(p, ",\"syscalls\":", r->n.syscalls);
	p = add_u64(p, ",\"lost\":", r->lost);
	if (r->h.flags & REC_F_OPEN_START)
		p = fmt_lit(p, ",\"began_before\":true");
	if (r->h.flags & REC_F_OPEN_END)
		p = fmt_lit(p, ",\"unfinished\":true");
	if (r->n.cpus_allowed)
		p = add_u64(p, ",\"cpus_allowed\":", r->n.cpus_allowed);
	if (cpu_limit(ps, r))
		p = add_us(p, ",\"cpu_limit\":", ps->cpu.limit); /* in thousandths, too */
	if (r->left_out)
		p = add_string(p, ",\"left_out\":", shed_text(r->left_out, off));
	if (r->workers || !(r->left_out & 1u << SHED_BARRIERS)) /* workers are recognised at barriers */
		p = add_u64(p, ",\"workers\":", r->workers);
	p = add_stall(p, "stall", &r->stall);
	if (r->straggler_tid) {
		p = add_u64(p, ",\"straggler_tid\":", r->straggler_tid);
		p = add_us(p, ",\"straggler_held_us\":", r->held_ns);
		p = add_stall(p, "straggler", &r->straggler);
	}
	p = add_behind(p, "behind", &r->behind, r->ns[ST_RUNNABLE]);
	if (r->workers)
		p = add_behind(p, "workers_behind", &r->workers_behind, r->workers_ns[ST_RUNNABLE]);
	if (weight_of(r, ps->rec->prices, ps->self, &weight)) {
		p = add_us(p, ",\"tracer_us\":", weight.ns);
		p = add_us(p, ",\"tracer_waited_us\":", weight.waited_ns);
	}
	p = add_us(p, PROFILE_STAGES "\"total\":", r->h.dur_ns);
	p = profile_add_states(p, "", r->ns);
	if (r->workers) {
		uint64_t total = 0;

		for (int i = 0; i < ST_MAX; i++)
			total += r->workers_ns[i];
		p = add_us(p, ",\"workers_total\":", total);
		p = profile_add_states(p, "workers_", r->workers_ns);
	}
	*p++ = '}';
	return p;
}

static void write_step(struct profile_steps *ps, const struct rec_step *r)
{
	char *p = profile_line_begin(ps->lines, "token_prof", r->h.tgid);

	if (p)
		profile_line_end(ps->lines, add_step(ps, add_call(ps, p, r), r), r->n.graphs > 0);
}

/* ---- steps that wait until it is known what their rows were ---- */

static size_t find_held(const struct profile_steps *ps, uint32_t number)
{
	size_t i = 0;

	while (i < ps->n_held && ps->held[i].number < number)
		i++;
	return i;
}

static void write_held(struct profile_steps *ps, const struct held_step *h, bool is_told)
{
	char *p = profile_line_begin(ps->lines, "token_prof", h->tgid);

	if (!p)
		return;
	p = fmt_str(p, h->text, h->told_at);
	if (is_told)
		p = add_told(p, &h->told);
	p = fmt_str(p, h->text + h->told_at, h->len - h->told_at);
	profile_line_end(ps->lines, p, h->graph);
}

/* Writes the first n. Of what has waited in vain the rows are not known. */
static void write_first(struct profile_steps *ps, size_t n, bool last_is_told)
{
	for (size_t i = 0; i < n; i++) {
		write_held(ps, &ps->held[i], last_is_told && i == n - 1);
		free(ps->held[i].text);
	}
	ps->n_held -= n;
	memmove(ps->held, ps->held + n, ps->n_held * sizeof(*ps->held));
}

/* As step_requests.c takes them: by its parts, or as a single one where others have parts. */
static bool will_be_told(struct profile_steps *ps, const struct rec_step *r)
{
	struct step_rows rows;

	ps->parts_seen |= r->n_parts > 0;
	if (r->n_parts || !ps->parts_seen)
		return r->n_parts > 0 && !r->parts_left;
	return rows_of_step(&ps->rec->probes->specs[r->h.id], r->vals, &rows) && rows.readable && rows.one;
}

/* false: no memory */
static bool hold(struct profile_steps *ps, const struct rec_step *r)
{
	struct held_step h = { .number = r->number, .tgid = r->h.tgid, .graph = r->n.graphs > 0 };
	char *p = add_call(ps, ps->text, r);
	size_t i;

	h.told_at = (size_t)(p - ps->text);
	h.len = (size_t)(add_step(ps, p, r) - ps->text);
	h.text = malloc(h.len);
	if (!h.text)
		return false;
	memcpy(h.text, ps->text, h.len);
	if (ps->n_held == HELD_MAX)
		write_first(ps, 1, false);
	i = find_held(ps, r->number);
	memmove(ps->held + i + 1, ps->held + i, (ps->n_held++ - i) * sizeof(*ps->held));
	ps->held[i] = h;
	return true;
}

void profile_steps_add(struct profile_steps *ps, const struct rec_step *r)
{
	if (!will_be_told(ps, r) || !hold(ps, r))
		write_step(ps, r);
}

void profile_steps_part(struct profile_steps *ps, const struct step_seen *s, const struct request_part *p)
{
	size_t i = find_held(ps, s->number);

	if (i == ps->n_held || ps->held[i].number != s->number)
		return;
	ps->held[i].told.prompt += p->prompt;
	ps->held[i].told.decode += p->rows->rows - p->prompt;
}

void profile_steps_taken(struct profile_steps *ps, const struct step_seen *s)
{
	size_t i = find_held(ps, s->number);
	bool there = i < ps->n_held && ps->held[i].number == s->number;

	write_first(ps, i + there, there);
}

void profile_steps_finish(struct profile_steps *ps)
{
	write_first(ps, ps->n_held, false);
}

int profile_steps_new(struct profile_lines *lines, const struct recording *rec, struct profile_steps **ret_steps)
{
	struct profile_steps *ps = calloc(1, sizeof(*ps));

	if (!ps)
		return -ENOMEM;
	ps->lines = lines;
	ps->rec = rec;
	ps->self = (uint32_t)getpid();
	*ret_steps = ps;
	return 0;
}

void profile_steps_free(struct profile_steps *ps)
{
	if (!ps)
		return;
	for (size_t i = 0; i < ps->n_held; i++)
		free(ps->held[i].text);
	free(ps);
}
