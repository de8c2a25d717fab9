// SPDX-License-Identifier: BSD-2-Clause
/* The report as JSON: docs/report.md. */
#include <string.h>

#include "report/output.h"
#include "report/report.h"
#include "schema/left_out.h"
#include "util/fmt.h"
#include "util/text.h"

/* ---- objects ---- */

struct json_object *json_put(struct json_build *b, struct json_object *o, const char *key, struct json_object *value)
{
	if (o && value && !(key ? json_object_object_add(o, key, value) : json_object_array_add(o, value)))
		return value;
	b->failed = true;
	json_object_put(value);
	return NULL;
}

struct json_object *json_put_object(struct json_build *b, struct json_object *o, const char *key)
{
	return json_put(b, o, key, json_object_new_object());
}

struct json_object *json_put_array(struct json_build *b, struct json_object *o, const char *key)
{
	return json_put(b, o, key, json_object_new_array());
}

void json_put_text(struct json_build *b, struct json_object *o, const char *key, const char *text)
{
	json_put(b, o, key, json_object_new_string(text));
}

void json_put_name(struct json_build *b, struct json_object *o, const char *key, uint32_t name)
{
	if (name)
		json_put_text(b, o, key, model_text(b->m, name));
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

void json_put_states(struct json_build *b, struct json_object *o, const char *key, const int64_t *ns, int64_t total)
{
	struct json_object *v = json_put_object(b, o, key);

	json_put_us(b, v, "total", total);
	for (unsigned int s = 0; s < STATES; s++) {
		if (ns[s])
			json_put_us(b, v, words_state(s), ns[s]);
	}
}

void json_put_percentiles(struct json_build *b, struct json_object *o, const char *key, const struct percentiles *p)
{
	struct json_object *v;

	if (!p->n)
		return;
	v = json_put_object(b, o, key);
	json_put_u64(b, v, "count", p->n);
	json_put_us(b, v, "p50", p->p50);
	json_put_us(b, v, "p90", p->p90);
	json_put_us(b, v, "p99", p->p99);
	json_put_us(b, v, "max", p->max);
}

const char *json_text(struct json_build *b, struct json_object *o, size_t *ret_len)
{
	const char *text = json_object_to_json_string_length(
		o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE, ret_len);

	b->failed |= !text;
	return text;
}

/* ---- steps ---- */

/* All that ran while it waited for a CPU; the last element is the time without a name. */
static void put_behind(struct json_build *b, struct json_object *o, const struct cause *c)
{
	struct json_object *array = json_put_array(b, o, "behind"), *one;
	int64_t others = c->behind_whole;

	list_for_each (row, c->behind, c->n_behind) {
		one = json_put_object(b, array, NULL);
		json_put_name(b, one, "by", row->by);
		json_put_u64(b, one, "by_tid", row->tid);
		json_put_us(b, one, "us", row->ns);
		others -= row->ns;
	}
	if (others > 0)
		json_put_us(b, json_put_object(b, array, NULL), "us", others);
}

static void put_cause(struct json_build *b, struct json_object *o, const struct cause *c)
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
	json_put_name(b, o, "by", c->by);
	if (c->by || c->by_tid)
		json_put_u64(b, o, "by_tid", c->by_tid);
	if (c->n_behind)
		put_behind(b, o, c);
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

/* A step with its verdict. */
static void put_step(struct json_build *b, struct json_object *o, const struct process *p, const struct step *s,
	const struct cause *c)
{
	char parts[SHED_TEXT_MAX];

	json_put_u64(b, o, "step", s->number);
	json_put_u64(b, o, "pid", p->pid);
	json_put_u64(b, o, "recording", s->recording);
	json_put_name(b, o, "phase", s->phase);
	json_put_u64(b, o, "n_tokens", s->n_tokens);
	json_put_us(b, o, "ts_us", s->ts);
	json_put_us(b, o, "total_us", s->total);
	if (s->left_out)
		json_put_text(b, o, "left_out", shed_text(s->left_out, parts));
	put_cause(b, o, c);
}

static void put_gap(struct json_build *b, struct json_object *o, const struct process *p, const struct step *s,
	const struct slow_step *slow)
{
	json_put_u64(b, o, "before_step", s->number);
	json_put_u64(b, o, "pid", p->pid);
	json_put_u64(b, o, "recording", s->recording);
	json_put_us(b, o, "ts_us", s->ts - s->gap);
	json_put_us(b, o, "gap_us", s->gap);
	json_put_us(b, o, "typical_us", slow->cause.typical);
	json_put_us(b, o, "excess_us", slow->cause.excess);
	if (slow->waiting)
		json_put_u64(b, o, "waiting_requests", slow->waiting);
	json_put_name(b, o, "call", slow->call);
	if (slow->call)
		json_put_us(b, o, "call_us", slow->call_ns);
}

static void put_causes(struct json_build *b, struct json_object *o, const struct cause_sums *causes)
{
	char sentence[SENTENCE_MAX];

	json_put_list (b, o, "causes", one, c, causes->list, causes->n) {
		json_put_text(b, one, "state", words_state(c->state));
		json_put_text(b, one, "where", cause_where_name(c->where));
		json_put_name(b, one, "by", c->by);
		json_put_u64(b, one, "steps", c->steps);
		json_put_us(b, one, "excess_us", c->excess);
		json_put_text(b, one, "text", words_cause(b->m, c, sentence));
	}
}

/* The slow steps, and the slow gaps between steps: the slowest first. */
static void put_slow(struct json_build *b, struct json_object *o, const struct process *p, const struct summary *sum)
{
	struct json_object *steps = json_put_array(b, o, "slowest"), *gaps = json_put_array(b, o, "slowest_between"), *one;
	char sentence[SENTENCE_MAX];

	list_for_each (slow, sum->slow, least_of(sum->n_slow, b->slowest)) {
		const struct step s = steps_load(&p->steps, slow->step);

		one = json_put_object(b, slow->gap ? gaps : steps, NULL);
		if (slow->gap)
			put_gap(b, one, p, &s, slow);
		else
			put_step(b, one, p, &s, &slow->cause);
		b->failed |= words_slow(b->m, p, slow, sentence) != 0;
		json_put_text(b, one, "text", sentence);
		if (!slow->gap)
			json_put_hot(b, one, p, slow);
	}
}

/* The steps that had not ended, each with what it was doing. */
static void put_open(struct json_build *b, struct json_object *o, const struct process *p, const struct summary *sum)
{
	char sentence[SENTENCE_MAX];

	json_put_list (b, o, "open", one, open, sum->open, least_of(sum->n_open, b->slowest ?: 1)) {
		const struct step s = steps_load(&p->steps, open->step);

		put_step(b, one, p, &s, &open->cause);
		b->failed |= words_open(b->m, p, open, sentence) != 0;
		json_put_text(b, one, "text", sentence);
	}
}

/* ---- a process ---- */

static void put_tally(struct json_build *b, struct json_object *o, const char *key, const struct tally *t)
{
	struct json_object *hottest;

	json_put_list (b, o, key, one, row, t->rows, t->len) {
		json_put_name(b, one, "name", row->name);
		json_put_u64(b, one, "count", row->count);
		json_put_us(b, one, "total_us", row->ns);
		if (op_code_is_clear(&row->hot)) {
			hottest = json_put_object(b, one, "hottest");
			json_put_name(b, hottest, "function", b->m->code.functions[row->hot.function].name);
			json_put_u64(b, hottest, "samples", row->hot.samples);
			json_put_u64(b, hottest, "of", row->hot.of);
		}
		json_put_counts(b, one, &row->counts);
	}
}

/* Threads that kept each other from CPUs, or were held back by a limit of them. */
static void put_crowds(struct json_build *b, struct json_object *o, const struct summary *sum)
{
	struct json_object *v;
	char sentence[SENTENCE_MAX];

	if (sum->crowd.threads) {
		v = json_put_object(b, o, "crowded");
		json_put_u64(b, v, "threads", sum->crowd.threads);
		json_put_u64(b, v, "cpus_allowed", sum->crowd.cpus);
		json_put_u64(b, v, "steps", sum->crowd.steps);
		json_put_us(b, v, "waited_us", sum->crowd.waited);
		json_put_text(b, v, "text", words_crowd(&sum->crowd, sentence));
	}
	if (sum->limited.threads) {
		v = json_put_object(b, o, "limited");
		json_put_u64(b, v, "threads", sum->limited.threads);
		if (sum->cpu_limit)
			json_put_double(b, v, "cpu_limit", (double)sum->cpu_limit / 1000);
		json_put_u64(b, v, "steps", sum->limited.steps);
		json_put_us(b, v, "waited_us", sum->limited.waited);
		json_put_text(b, v, "text", words_limited(sum, sentence));
	}
}

static void put_latencies(struct json_build *b, struct json_object *o, const struct summary *sum)
{
	json_put_percentiles(b, o, "ttft_us", &sum->ttft);
	json_put_percentiles(b, o, "first_step_to_first_token_us", &sum->first_step);
	json_put_percentiles(b, o, "request_us", &sum->whole);
	json_put_percentiles(b, o, sum->tpot_of_lines ? "mean_time_per_token_us" : "time_per_output_token_us", &sum->tpot);
	json_put_list (b, o, "calls", one, call, sum->calls, sum->n_calls) {
		json_put_name(b, one, "name", call->name);
		json_put_percentiles(b, one, "us", &call->times);
	}
	if (sum->prefill_rate)
		json_put_double(b, o, "prefill_tokens_per_s", sum->prefill_rate);
	if (sum->output_rate)
		json_put_double(b, o, "output_tokens_per_s", sum->output_rate);
	json_put_u64(b, o, "pauses", sum->pauses);
	json_put_list (b, o, "phases", one, phase, sum->phases, sum->n_phases) {
		json_put_name(b, one, "phase", phase->phase);
		json_put_u64(b, one, "steps", phase->steps.n);
		json_put_u64(b, one, "tokens", phase->tokens);
		json_put_percentiles(b, one, "step_us", &phase->steps);
		json_put_states(b, one, "breakdown_us", phase->own, phase->total);
		if (phase->workers_total)
			json_put_states(b, one, "workers_us", phase->workers, phase->workers_total);
	}
}

static void put_request_counts(struct json_build *b, struct json_object *o, const struct request_summary *rs)
{
	struct json_object *v;
	char text[REQUESTS_TEXT_MAX];

	if (!rs->count && !rs->mixed)
		return;
	v = json_put_object(b, o, "requests");
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
}

static void put_process_totals(struct json_build *b, struct json_object *o, const struct process *p)
{
	struct json_object *v;

	if (p->served.n_exchanges || p->served.unrelated) {
		json_put_u64(b, o, "socket_requests", p->served.n_exchanges);
		json_put_u64(b, o, "socket_requests_joined", p->served.joined);
		json_put_u64(b, o, "socket_requests_unrelated", p->served.unrelated);
	}
	if (p->has_sched) {
		json_put_states(b, o, "threads_us", p->sched, p->sched_total);
		json_put_u64(b, o, "switches_voluntary", p->switches_voluntary);
		json_put_u64(b, o, "switches_involuntary", p->switches_involuntary);
	}
	if (p->has_faults) {
		v = json_put_object(b, o, "faults");
		json_put_u64(b, v, "minor", p->faults_minor);
		json_put_u64(b, v, "major", p->faults_major);
		json_put_us(b, v, "minor_us", p->fault_minor_ns);
		json_put_us(b, v, "major_us", p->fault_major_ns);
	}
	if (p->has_memory) {
		v = json_put_object(b, o, "memory");
		json_put_u64(b, v, "rss_peak_bytes", p->rss_peak);
		if (p->has_pages) {
			json_put_u64(b, v, "pages_allocated", p->pages_allocated);
			json_put_u64(b, v, "pages_freed", p->pages_freed);
		}
	}
}

static void put_process(struct json_build *b, struct json_object *o, const struct process *p, const struct summary *sum)
{
	struct json_object *parts = NULL;

	json_put_u64(b, o, "pid", p->pid);
	json_put_name(b, o, "comm", p->comm);
	json_put_name(b, o, "model", p->model);
	json_put_name(b, o, "commit_sha", p->commit);
	json_put_name(b, o, "env_hash", p->env_hash);
	json_put_name(b, o, "host", p->host);
	json_put_u64(b, o, "recordings", p->recordings);
	json_put_u64(b, o, "steps", p->steps.len);
	json_put_us(b, o, "wall_us", p->wall);
	if (p->tracer_of)
		json_put_double(b, o, "tracer_share", (double)p->tracer / (double)p->tracer_of);
	for (int i = 0; i < SHED_PARTS; i++) {
		if (!p->left_out[i])
			continue;
		parts = parts ? parts : json_put_object(b, o, "left_out_steps");
		json_put_u64(b, parts, shed_part_name(i), p->left_out[i]);
	}
	json_put_name(b, o, "misfit", p->finding);
	if (p->stand_ins)
		json_put_u64(b, o, "stand_in_steps", p->stand_ins);
	put_open(b, o, p, sum);
	put_crowds(b, o, sum);
	put_latencies(b, o, sum);
	json_put_phase_counts(b, o, &p->counts);
	json_put_gpu(b, o, &p->gpu);
	json_put_u64(b, o, "slow_steps", sum->slow_steps);
	json_put_u64(b, o, "slow_alone", sum->slow_alone);
	json_put_u64(b, o, "slow_between", sum->slow_gaps);
	put_causes(b, o, &sum->causes);
	put_slow(b, o, p, sum);
	json_put_code(b, o, &sum->code);
	put_tally(b, o, "operators", &p->ops);
	put_tally(b, o, "syscalls", &p->syscalls);
	put_request_counts(b, o, &sum->requests);
	json_put_requests(b, o, p, &sum->batches);
	put_process_totals(b, o, p);
	json_put_u64(b, o, "steps_with_loss", sum->lossy_steps);
	json_put_u64(b, o, "steps_unfinished", sum->unfinished);
}

/* ---- all ---- */

static void put_loss(struct json_build *b, struct json_object *o, const struct model *m)
{
	struct json_object *kinds;

	json_put_u64(b, o, "records", m->lost_records);
	kinds = json_put_object(b, o, "kinds");
	for (size_t i = 0; i < m->lost.len; i++)
		json_put_u64(b, kinds, model_text(m, m->lost.rows[i].name), m->lost.rows[i].count);
	json_put_list (b, o, "windows", one, w, m->windows, m->n_windows) {
		json_put_name(b, one, "file", w->file);
		json_put_us(b, one, "total_us", w->total);
		json_put_u64(b, one, "records", w->records);
		json_put_u64(b, one, "lost", w->lost);
		json_put_u64(b, one, "steps", w->steps);
		json_put_name(b, one, "trigger", w->trigger);
		if (w->coverage >= 0)
			json_put_double(b, one, "coverage", w->coverage);
		if (w->lacks_faults)
			json_put_text(b, one, "not_recorded", "faults");
	}
}

struct json_object *report_object(const struct report *r, uint32_t slowest)
{
	struct json_build build = { .m = &r->model, .slowest = slowest }, *b = &build;
	struct json_object *o = json_object_new_object(), *files, *processes;
	char printable[512];

	/* names of files can be any bytes, JSON is UTF-8 */
	files = json_put_array(b, o, "files");
	for (size_t i = 0; i < r->n_files; i++)
		json_put_text(b, files, NULL, text_printable(printable, sizeof(printable), r->files[i]));
	processes = json_put_array(b, o, "processes");
	for (size_t i = 0; !b->failed && i < r->model.n_processes; i++) {
		if (!process_empty(r->model.processes[i]))
			put_process(b, json_put_object(b, processes, NULL), r->model.processes[i], &r->summaries[i]);
	}
	json_put_late(b, o, &r->late);
	if (r->model.n_families) {
		json_put_list (b, o, "families", one, f, r->model.families, r->model.n_families) {
			json_put_name(b, one, "event", f->event);
			json_put_name(b, one, "source", f->source);
			json_put_u64(b, one, "lines", f->lines);
			json_put_percentiles(b, one, "total_us", &f->total);
			put_tally(b, one, "stages", &f->stages);
		}
	}
	json_put_code_left_out(b, o);
	put_loss(b, json_put_object(b, o, "loss"), &r->model);
	if (!b->failed)
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
	struct json_build b = { .m = m };
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
			o = json_object_new_object();
			put_step(&b, o, p, s, &cause);
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
	if (!b.failed) {
		/* without its closing brace, so that the steps can follow */
		err = print(text, len - 1, out);
		if (!err && all_steps)
			err = put_all_steps(r, out);
		fputs("}\n", out);
	}
	json_object_put(o);
	return err;
}
