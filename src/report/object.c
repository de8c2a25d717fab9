// SPDX-License-Identifier: BSD-2-Clause
/* The report as JSON: docs/report.md. */
#include "report/output.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/stacks.h"
#include "report/report.h"
#include "report/words.h"
#include "sink/left_out.h"
#include "util/fmt.h"
#include "util/text.h"

static void put_name(struct json_build *b, struct json_object *o, const char *key,
	const struct model *m, uint32_t name)
{
	if (name)
		json_put_text(b, o, key, model_text(m, name));
}

void object_percentiles(
	struct json_build *b, struct json_object *o, const char *key, const struct percentiles *p)
{
	struct json_object *v;

	if (!p->n)
		return;
	v = json_new_object(b);
	json_put_u64(b, v, "count", p->n);
	json_put_us(b, v, "p50", p->p50);
	json_put_us(b, v, "p90", p->p90);
	json_put_us(b, v, "p99", p->p99);
	json_put_us(b, v, "max", p->max);
	json_put(b, o, key, v);
}

struct json_object *object_states(struct json_build *b, const int64_t *ns, int64_t total)
{
	struct json_object *v = json_new_object(b);

	json_put_us(b, v, "total", total);
	for (unsigned int s = 0; s < STATES; s++) {
		if (ns[s])
			json_put_us(b, v, words_state(s), ns[s]);
	}
	return v;
}

static struct json_object *phase_object(
	struct json_build *b, const struct model *m, const struct phase_summary *phase)
{
	struct json_object *o = json_new_object(b);

	put_name(b, o, "phase", m, phase->phase);
	json_put_u64(b, o, "steps", phase->steps.n);
	json_put_u64(b, o, "tokens", phase->tokens);
	object_percentiles(b, o, "step_us", &phase->steps);
	json_put(b, o, "breakdown_us", object_states(b, phase->own, phase->total));
	if (phase->workers_total)
		json_put(
			b, o, "workers_us", object_states(b, phase->workers, phase->workers_total));
	return o;
}

/* All that ran while it waited for a CPU; the last element is the time without a name. */
static struct json_object *behind_array(
	struct json_build *b, const struct model *m, const struct cause *c)
{
	struct json_object *array = json_new_array(b), *o;
	int64_t others = c->behind_whole;

	for (uint32_t i = 0; i < c->n_behind; i++) {
		o = json_new_object(b);
		put_name(b, o, "by", m, c->behind[i].by);
		json_put_u64(b, o, "by_tid", c->behind[i].tid);
		json_put_us(b, o, "us", c->behind[i].ns);
		json_append(b, array, o);
		others -= c->behind[i].ns;
	}
	if (others > 0) {
		o = json_new_object(b);
		json_put_us(b, o, "us", others);
		json_append(b, array, o);
	}
	return array;
}

static void put_cause(
	struct json_build *b, struct json_object *o, const struct model *m, const struct cause *c)
{
	json_put_us(b, o, "typical_us", c->typical);
	json_put_us(b, o, "excess_us", c->excess);
	json_put_u64(b, o, "compared", c->compared);
	json_put_text(b, o, "state", words_state(c->state));
	json_put_text(b, o, "where", cause_where_name(c->where));
	if (c->where == WHERE_NONE)
		return;
	json_put_us(b, o, "state_us", c->part);
	if (c->tid)
		json_put_u64(b, o, "tid", c->tid);
	put_name(b, o, "by", m, c->by);
	if (c->by || c->by_tid)
		json_put_u64(b, o, "by_tid", c->by_tid);
	if (c->n_behind)
		json_put(b, o, "behind", behind_array(b, m, c));
	if (c->crowded)
		json_put(b, o, "crowded", json_object_new_boolean(true));
	if (c->longest)
		json_put_us(b, o, "longest_us", c->longest);
	if (c->late)
		json_put_us(b, o, "late_us", c->late);
	if (c->second != STATE_NONE) {
		json_put_text(b, o, "second_state", words_state(c->second));
		json_put_us(b, o, "second_us", c->second_part);
	}
}

/* How many steps lack what. */
static void put_left_out(struct json_build *b, struct json_object *o, const struct process *p)
{
	struct json_object *parts = NULL;

	for (int i = 0; i < SHED_PARTS; i++) {
		if (!p->left_out[i])
			continue;
		parts = parts ? parts : json_new_object(b);
		json_put_u64(b, parts, shed_part_name(i), p->left_out[i]);
	}
	if (parts)
		json_put(b, o, "left_out_steps", parts);
}

struct json_object *object_step(struct json_build *b, const struct model *m,
	const struct process *p, const struct step *s, const struct cause *c)
{
	struct json_object *o = json_new_object(b);
	char parts[SHED_TEXT_MAX];

	json_put_u64(b, o, "step", s->number);
	json_put_u64(b, o, "pid", p->pid);
	json_put_u64(b, o, "recording", s->recording);
	put_name(b, o, "phase", m, s->phase);
	json_put_u64(b, o, "n_tokens", s->n_tokens);
	json_put_us(b, o, "ts_us", s->ts);
	json_put_us(b, o, "total_us", s->total);
	if (s->left_out)
		json_put_text(b, o, "left_out", shed_text(s->left_out, parts));
	put_cause(b, o, m, c);
	return o;
}

static struct json_object *gap_object(struct json_build *b, const struct model *m,
	const struct process *p, const struct slow_step *slow)
{
	const struct step s = steps_load(&p->steps, slow->step);
	struct json_object *o = json_new_object(b);

	json_put_u64(b, o, "before_step", s.number);
	json_put_u64(b, o, "pid", p->pid);
	json_put_u64(b, o, "recording", s.recording);
	json_put_us(b, o, "ts_us", s.ts - s.gap);
	json_put_us(b, o, "gap_us", s.gap);
	json_put_us(b, o, "typical_us", slow->cause.typical);
	json_put_us(b, o, "excess_us", slow->cause.excess);
	if (slow->waiting)
		json_put_u64(b, o, "waiting_requests", slow->waiting);
	if (slow->call) {
		put_name(b, o, "call", m, slow->call);
		json_put_us(b, o, "call_us", slow->call_ns);
	}
	return o;
}

/* Of operators with enough samples. */
static void put_hottest(struct json_build *b, struct json_object *o, const struct model *m, const struct op_hot *hot)
{
	struct json_object *hottest;

	if (!op_code_is_clear(hot))
		return;
	hottest = json_new_object(b);
	put_name(b, hottest, "function", m, m->code.functions[hot->function].name);
	json_put_u64(b, hottest, "samples", hot->samples);
	json_put_u64(b, hottest, "of", hot->of);
	json_put(b, o, "hottest", hottest);
}

static struct json_object *tally_array(
	struct json_build *b, const struct model *m, const struct tally *t)
{
	struct json_object *array = json_new_array(b), *o;

	for (size_t i = 0; i < t->len; i++) {
		o = json_new_object(b);
		put_name(b, o, "name", m, t->rows[i].name);
		json_put_u64(b, o, "count", t->rows[i].count);
		json_put_us(b, o, "total_us", t->rows[i].ns);
		put_hottest(b, o, m, &t->rows[i].hot);
		if (t->rows[i].counts.of)
			counts_put(b, o, &t->rows[i].counts);
		json_append(b, array, o);
	}
	return array;
}

static struct json_object *families_array(struct json_build *b, const struct model *m)
{
	struct json_object *array = json_new_array(b), *o;

	for (size_t i = 0; i < m->n_families; i++) {
		const struct foreign_family *f = &m->families[i];

		o = json_new_object(b);
		put_name(b, o, "event", m, f->event);
		put_name(b, o, "source", m, f->source);
		json_put_u64(b, o, "lines", f->lines);
		object_percentiles(b, o, "total_us", &f->total);
		json_put(b, o, "stages", tally_array(b, m, &f->stages));
		json_append(b, array, o);
	}
	return array;
}

static struct json_object *causes_array(
	struct json_build *b, const struct model *m, const struct summary *sum)
{
	struct json_object *array = json_new_array(b), *o;
	char sentence[SENTENCE_MAX];

	for (size_t i = 0; i < sum->causes.n; i++) {
		const struct cause_sum *c = &sum->causes.list[i];

		o = json_new_object(b);
		json_put_text(b, o, "state", words_state(c->state));
		json_put_text(b, o, "where", cause_where_name(c->where));
		put_name(b, o, "by", m, c->by);
		json_put_u64(b, o, "steps", c->steps);
		json_put_us(b, o, "excess_us", c->excess);
		json_put_text(b, o, "text", words_cause(m, c, sentence));
		json_append(b, array, o);
	}
	return array;
}

/* The slow steps and the slow gaps between steps, sorted together, slowest first. */
static int put_slow(struct json_build *b, struct json_object *o, const struct model *m,
	const struct process *p, const struct summary *sum, uint32_t slowest)
{
	struct json_object *steps = json_new_array(b), *gaps = json_new_array(b), *one;
	char sentence[SENTENCE_MAX];
	int err = 0;

	for (size_t i = 0; !err && i < sum->n_slow && i < slowest; i++) {
		const struct slow_step *slow = &sum->slow[i];
		const struct step s = steps_load(&p->steps, slow->step);

		err = words_slow(m, p, slow, sentence);
		one = slow->gap ? gap_object(b, m, p, slow) : object_step(b, m, p, &s, &slow->cause);
		json_put_text(b, one, "text", sentence);
		if (!err && !slow->gap)
			err = code_put_hot(b, one, m, p, slow);
		json_append(b, slow->gap ? gaps : steps, one);
	}
	json_put(b, o, "slowest", steps);
	json_put(b, o, "slowest_between", gaps);
	return err;
}

/* The steps that had not ended, each with what it was doing. */
static int put_open(struct json_build *b, struct json_object *o, const struct model *m,
	const struct process *p, const struct summary *sum, uint32_t slowest)
{
	struct json_object *array = json_new_array(b), *one;
	char sentence[SENTENCE_MAX];
	int err = 0;

	for (size_t i = 0; !err && i < sum->n_open && (i < slowest || !i); i++) {
		const struct slow_step *open = &sum->open[i];
		const struct step s = steps_load(&p->steps, open->step);

		err = words_open(m, p, open, sentence);
		one = object_step(b, m, p, &s, &open->cause);
		json_put_text(b, one, "text", sentence);
		json_append(b, array, one);
	}
	json_put(b, o, "open", array);
	return err;
}

static void put_crowd(struct json_build *b, struct json_object *o, const struct crowd *c)
{
	struct json_object *v;
	char sentence[SENTENCE_MAX];

	if (!c->threads)
		return;
	v = json_new_object(b);
	json_put_u64(b, v, "threads", c->threads);
	json_put_u64(b, v, "cpus_allowed", c->cpus);
	json_put_u64(b, v, "steps", c->steps);
	json_put_us(b, v, "waited_us", c->waited);
	json_put_text(b, v, "text", words_crowd(c, sentence));
	json_put(b, o, "crowded", v);
}

static void put_requests(struct json_build *b, struct json_object *o, const struct request_summary *rs)
{
	struct json_object *v;
	char text[REQUESTS_TEXT_MAX];

	if (!rs->count && !rs->mixed)
		return;
	v = json_new_object(b);
	json_put_u64(b, v, "count", rs->count);
	json_put_u64(b, v, "prompt_tokens", rs->prompt_tokens);
	json_put_u64(b, v, "output_tokens", rs->output_tokens);
	json_put_u64(b, v, "began_before", rs->began_before);
	json_put_u64(b, v, "lost_steps", rs->lost);
	json_put_u64(b, v, "mixed", rs->mixed);
	json_put_u64(b, v, "shared_steps", rs->shared_steps);
	json_put_u64(b, v, "shared_tokens", rs->shared_tokens);
	json_put_u64(b, v, "max_sequences", rs->max_sequences);
	if (requests_left_out(rs, text))
		json_put_text(b, v, "left_out", text);
	json_put(b, o, "requests", v);
}

static void put_limited(struct json_build *b, struct json_object *o, const struct summary *sum)
{
	struct json_object *v;
	char sentence[SENTENCE_MAX];

	if (!sum->limited.threads)
		return;
	v = json_new_object(b);
	json_put_u64(b, v, "threads", sum->limited.threads);
	if (sum->cpu_limit)
		json_put_double(b, v, "cpu_limit", (double)sum->cpu_limit / 1000);
	json_put_u64(b, v, "steps", sum->limited.steps);
	json_put_us(b, v, "waited_us", sum->limited.waited);
	json_put_text(b, v, "text", words_limited(sum, sentence));
	json_put(b, o, "limited", v);
}

static void put_process_totals(struct json_build *b, struct json_object *o, const struct process *p)
{
	struct json_object *v;

	if (p->seqs.n_exchanges || p->seqs.unrelated) {
		json_put_u64(b, o, "socket_requests", p->seqs.n_exchanges);
		json_put_u64(b, o, "socket_requests_joined", p->seqs.joined);
		json_put_u64(b, o, "socket_requests_unrelated", p->seqs.unrelated);
	}
	if (p->has_sched) {
		v = object_states(b, p->sched, p->sched_total);
		json_put(b, o, "threads_us", v);
		json_put_u64(b, o, "switches_voluntary", p->switches_voluntary);
		json_put_u64(b, o, "switches_involuntary", p->switches_involuntary);
	}
	if (p->has_faults) {
		v = json_new_object(b);
		json_put_u64(b, v, "minor", p->faults_minor);
		json_put_u64(b, v, "major", p->faults_major);
		json_put_us(b, v, "minor_us", p->fault_minor_ns);
		json_put_us(b, v, "major_us", p->fault_major_ns);
		json_put(b, o, "faults", v);
	}
	if (p->has_memory) {
		v = json_new_object(b);
		json_put_u64(b, v, "rss_peak_bytes", p->rss_peak);
		if (p->has_pages) {
			json_put_u64(b, v, "pages_allocated", p->pages_allocated);
			json_put_u64(b, v, "pages_freed", p->pages_freed);
		}
		json_put(b, o, "memory", v);
	}
}

static void put_latencies(struct json_build *b, struct json_object *o, const struct model *m,
	const struct summary *sum)
{
	struct json_object *calls = json_new_array(b), *call;

	object_percentiles(b, o, "ttft_us", &sum->ttft);
	object_percentiles(b, o, "first_step_to_first_token_us", &sum->first_step);
	object_percentiles(b, o, "request_us", &sum->whole);
	object_percentiles(b, o, sum->tpot_of_lines ? "mean_time_per_token_us" : "time_per_output_token_us", &sum->tpot);
	for (size_t i = 0; i < sum->n_calls; i++) {
		call = json_new_object(b);
		put_name(b, call, "name", m, sum->calls[i].name);
		object_percentiles(b, call, "us", &sum->calls[i].times);
		json_append(b, calls, call);
	}
	json_put(b, o, "calls", calls);
	if (sum->prefill_rate)
		json_put_double(b, o, "prefill_tokens_per_s", sum->prefill_rate);
	if (sum->output_rate)
		json_put_double(b, o, "output_tokens_per_s", sum->output_rate);
	json_put_u64(b, o, "pauses", sum->pauses);
}

static struct json_object *process_object(
	struct json_build *b, const struct report *r, size_t i, uint32_t slowest, int *err)
{
	const struct process *p = r->model.processes[i];
	const struct summary *sum = &r->summaries[i];
	struct json_object *o = json_new_object(b), *phases = json_new_array(b);
	const struct model *m = &r->model;

	json_put_u64(b, o, "pid", p->pid);
	put_name(b, o, "comm", m, p->comm);
	put_name(b, o, "model", m, p->model);
	put_name(b, o, "commit_sha", m, p->commit);
	put_name(b, o, "env_hash", m, p->env_hash);
	if (p->host)
		put_name(b, o, "host", m, p->host);
	json_put_u64(b, o, "recordings", p->recordings);
	json_put_u64(b, o, "steps", p->steps.len);
	json_put_us(b, o, "wall_us", p->wall);
	if (p->tracer_of)
		json_put_double(b, o, "tracer_share", (double)p->tracer / (double)p->tracer_of);
	put_left_out(b, o, p);
	if (p->finding)
		put_name(b, o, "misfit", m, p->finding);
	if (p->stand_ins)
		json_put_u64(b, o, "stand_in_steps", p->stand_ins);
	*err = put_open(b, o, m, p, sum, slowest);
	put_crowd(b, o, &sum->crowd);
	put_limited(b, o, sum);
	put_latencies(b, o, m, sum);
	for (size_t k = 0; k < sum->n_phases; k++)
		json_append(b, phases, phase_object(b, m, &sum->phases[k]));
	json_put(b, o, "phases", phases);
	counts_put_phases(b, o, m, &p->counts);
	if (p->gpu.n)
		json_put(b, o, "gpu", gpu_array(b, m, &p->gpu));
	json_put_u64(b, o, "slow_steps", sum->slow_steps);
	json_put_u64(b, o, "slow_alone", sum->slow_alone);
	json_put_u64(b, o, "slow_between", sum->slow_gaps);
	json_put(b, o, "causes", causes_array(b, m, sum));
	if (!*err)
		*err = put_slow(b, o, m, p, sum, slowest);
	code_put(b, o, m, &sum->code);
	json_put(b, o, "operators", tally_array(b, m, &p->ops));
	json_put(b, o, "syscalls", tally_array(b, m, &p->syscalls));
	put_requests(b, o, &sum->requests);
	seq_put(b, o, p, &sum->seqs, slowest);
	put_process_totals(b, o, p);
	json_put_u64(b, o, "steps_with_loss", sum->lossy_steps);
	json_put_u64(b, o, "steps_unfinished", sum->unfinished);
	return o;
}

static struct json_object *loss_object(struct json_build *b, const struct model *m)
{
	struct json_object *o = json_new_object(b), *kinds = json_new_object(b), *windows, *w;

	json_put_u64(b, o, "records", m->lost_records);
	for (size_t i = 0; i < m->lost.len; i++)
		json_put_u64(b, kinds, model_text(m, m->lost.rows[i].name), m->lost.rows[i].count);
	json_put(b, o, "kinds", kinds);
	windows = json_new_array(b);
	for (size_t i = 0; i < m->n_windows; i++) {
		w = json_new_object(b);
		put_name(b, w, "file", m, m->windows[i].file);
		json_put_us(b, w, "total_us", m->windows[i].total);
		json_put_u64(b, w, "records", m->windows[i].records);
		json_put_u64(b, w, "lost", m->windows[i].lost);
		json_put_u64(b, w, "steps", m->windows[i].steps);
		put_name(b, w, "trigger", m, m->windows[i].trigger);
		if (m->windows[i].coverage >= 0)
			json_put_double(b, w, "coverage", m->windows[i].coverage);
		if (m->windows[i].lacks_faults)
			json_put_text(b, w, "not_recorded", "faults");
		json_append(b, windows, w);
	}
	json_put(b, o, "windows", windows);
	return o;
}

struct json_object *report_object(const struct report *r, uint32_t slowest)
{
	struct json_build build = { 0 }, *b = &build;
	struct json_object *o = json_new_object(b), *files = json_new_array(b), *processes;
	char printable[512];
	int err = 0;

	/* names of files can be any bytes, JSON is UTF-8 */
	for (size_t i = 0; i < r->n_files; i++)
		json_append(b, files,
			json_object_new_string(
				text_printable(printable, sizeof(printable), r->files[i])));
	json_put(b, o, "files", files);
	processes = json_new_array(b);
	for (size_t i = 0; !err && i < r->model.n_processes; i++) {
		if (!process_empty(r->model.processes[i]))
			json_append(b, processes, process_object(b, r, i, slowest, &err));
	}
	json_put(b, o, "processes", processes);
	if (!err)
		err = late_put(b, o, &r->model, &r->late, slowest);
	if (r->model.n_families)
		json_put(b, o, "families", families_array(b, &r->model));
	code_put_left_out(b, o, &r->model);
	json_put(b, o, "loss", loss_object(b, &r->model));
	if (!err && !b->failed)
		return o;
	json_object_put(o);
	return NULL;
}

/* Characters that drive a terminal, or change the order of what is around them, become escapes. */
static int print(const char *text, size_t len, FILE *out)
{
	char *buf = malloc(6 * len + 1);

	if (!buf)
		return -ENOMEM;
	fwrite(buf, 1, (size_t)(text_json(buf, text, len) - buf), out);
	free(buf);
	return 0;
}

/* One line for each step, since there may be millions. */
static int put_all_steps(const struct report *r, FILE *out)
{
	const struct model *m = &r->model;
	const char *separator = "\n", *text;
	struct json_build b = { 0 };
	struct json_object *o;
	struct cause cause;
	size_t len = 0;

	fputs(",\"steps\":[", out);
	for (size_t i = 0; i < m->n_processes; i++) {
		const struct process *p = m->processes[i];

		for (size_t k = 0; k < p->steps.len; k++) {
			const struct step loaded = steps_load(&p->steps, k), *s = &loaded;
			int64_t typical = 0, excess;

			cause_find(p, s, &cause);
			o = object_step(&b, m, p, s, &cause);
			excess = cause_gap_excess(p, s, &typical);
			if (s->gap >= 0)
				json_put_us(&b, o, "gap_us", s->gap);
			if (excess)
				json_put_us(&b, o, "gap_excess_us", excess);
			text = json_text(&b, o, &len);
			if (!b.failed) {
				fputs(separator, out);
				b.failed = print(text, len, out);
			}
			json_object_put(o);
			if (b.failed)
				return -ENOMEM;
			separator = ",\n";
		}
	}
	fputs("\n]", out);
	return 0;
}

int report_json(const struct report *r, uint32_t slowest, bool all_steps, FILE *out)
{
	struct json_object *o = report_object(r, slowest);
	struct json_build b = { .failed = !o };
	const char *text = NULL;
	size_t len = 0;
	int err = -ENOMEM;

	if (o)
		text = json_text(&b, o, &len);
	if (b.failed)
		goto out;
	/* without its closing brace, so that the steps can follow */
	err = print(text, len - 1, out);
	if (!err && all_steps)
		err = put_all_steps(r, out);
	fputs("}\n", out);
out:
	json_object_put(o);
	return err;
}

/* ---- json.c ---- */

static struct json_object *checked(struct json_build *b, struct json_object *o)
{
	b->failed |= !o;
	return o;
}

struct json_object *json_new_object(struct json_build *b)
{
	return checked(b, json_object_new_object());
}

struct json_object *json_new_array(struct json_build *b)
{
	return checked(b, json_object_new_array());
}

void json_put(
	struct json_build *b, struct json_object *o, const char *key, struct json_object *value)
{
	if (!o || !value || json_object_object_add(o, key, value)) {
		b->failed = true;
		json_object_put(value);
	}
}

void json_append(struct json_build *b, struct json_object *array, struct json_object *value)
{
	if (!array || !value || json_object_array_add(array, value)) {
		b->failed = true;
		json_object_put(value);
	}
}

void json_put_text(struct json_build *b, struct json_object *o, const char *key, const char *text)
{
	json_put(b, o, key, json_object_new_string(text));
}

void json_put_u64(struct json_build *b, struct json_object *o, const char *key, uint64_t v)
{
	json_put(b, o, key, json_object_new_uint64(v));
}

void json_put_double(struct json_build *b, struct json_object *o, const char *key, double v)
{
	char text[32];

	snprintf(text, sizeof(text), "%.6g", v);
	json_put(b, o, key, json_object_new_double_s(v, text));
}

void json_put_us(struct json_build *b, struct json_object *o, const char *key, int64_t ns)
{
	char text[FMT_US_MAX + 2], *p = text;

	if (ns < 0)
		*p++ = '-';
	p = fmt_us(p, ns < 0 ? -(uint64_t)ns : (uint64_t)ns);
	*p = '\0';
	json_put(b, o, key, json_object_new_double_s((double)ns / 1000, text));
}

const char *json_text(struct json_build *b, struct json_object *o, size_t *ret_len)
{
	const char *text = json_object_to_json_string_length(
		o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE, ret_len);

	b->failed |= !text;
	return text;
}
