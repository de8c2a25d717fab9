// SPDX-License-Identifier: BSD-2-Clause
/* Makes the report, and writes it as JSON: docs/report.md. */
#include <string.h>

#include "report/output.h"
#include "schema/left_out.h"
#include "util/fmt.h"
#include "util/text.h"

/* ---- from files ---- */

static void make_summaries(struct report *r)
{
	struct model *m = &r->model;
	const struct phase_names names = { model_name(m, "prefill"), model_name(m, "decode") };

	model_finish(m);
	r->summaries = xcalloc(m->n_processes, sizeof(*r->summaries));
	for (size_t i = 0; i < m->n_processes; i++) {
		typical_find(m->processes[i]);
		summary_make(m->processes[i], m, &names, &r->summaries[i]);
	}
	stragglers_find(m, r->summaries, &r->stragglers);
}

void report_make(struct report *r, const char *const *files, size_t n_files,
	void (*problem)(void *ctx, const char *text), void (*note)(void *ctx, const char *text), void *ctx)
{
	struct read_notes notes = { note, ctx };
	char path[256], text[768], more[64] = "";

	*r = (struct report){ .files = files, .n_files = n_files };
	model_init(&r->model);
	for (size_t i = 0; i < n_files; i++) {
		struct read_problems problems = { 0 };

		read_file(&r->model, files[i], &problems, &notes);
		if (!problems.count)
			continue;
		snprintf(more, sizeof(more), problems.count > 1 ? " (and %llu more)" : "", LLU(problems.count - 1));
		snprintf(text, sizeof(text), "%s: %s%s", text_printable(path, sizeof(path), files[i]), problems.first,
			more);
		problem(ctx, text);
	}
	make_summaries(r);
}

void report_slo(struct report *r, const struct slo *slo)
{
	for (size_t i = 0; i < r->model.n_processes; i++)
		slo_judge(r->model.processes[i], slo, &r->summaries[i].batches.slo);
}

void report_free(struct report *r)
{
	stragglers_free(&r->stragglers);
	for (size_t i = 0; i < r->model.n_processes; i++)
		summary_free(&r->summaries[i]);
	free(r->summaries);
	model_free(&r->model);
}

bool report_empty(const struct report *r)
{
	for (size_t i = 0; i < r->model.n_processes; i++) {
		if (!process_empty(r->model.processes[i]))
			return false;
	}
	return !r->stragglers.n_groups && !r->stragglers.alone && !r->model.n_families;
}

/* ---- objects ---- */

struct json_object *json_put(struct json_object *o, const char *key, struct json_object *value)
{
	if (!value || (key ? json_object_object_add(o, key, value) : json_object_array_add(o, value)))
		out_of_memory();
	return value;
}

struct json_object *json_put_object(struct json_object *o, const char *key)
{
	return json_put(o, key, json_object_new_object());
}

struct json_object *json_put_array(struct json_object *o, const char *key)
{
	return json_put(o, key, json_object_new_array());
}

void json_put_text(struct json_object *o, const char *key, const char *text)
{
	if (text)
		json_put(o, key, json_object_new_string(text));
}

void json_put_name(const struct page *page, struct json_object *o, const char *key, uint32_t name)
{
	if (name)
		json_put_text(o, key, model_text(page->m, name));
}

void json_put_u64(struct json_object *o, const char *key, uint64_t v)
{
	json_put(o, key, json_object_new_uint64(v));
}

void json_put_number(struct json_object *o, const char *key, double v, const char *format)
{
	char text[32];

	snprintf(text, sizeof(text), format, v);
	json_put(o, key, json_object_new_double_s(v, text));
}

void json_put_us(struct json_object *o, const char *key, int64_t ns)
{
	char text[FMT_US_MAX + 2], *p = text;

	if (ns < 0)
		*p++ = '-';
	p = fmt_us(p, ns < 0 ? -(uint64_t)ns : (uint64_t)ns);
	*p = '\0';
	json_put(o, key, json_object_new_double_s((double)ns / 1000, text));
}

void json_put_states(struct json_object *o, const char *key, const int64_t *ns, int64_t total)
{
	struct json_object *v = json_put_object(o, key);

	json_put_us(v, "total", total);
	for (unsigned int s = 0; s < STATES; s++) {
		if (ns[s])
			json_put_us(v, words_state(s), ns[s]);
	}
}

#define PUT_PERCENT(percent) json_put_us(v, "p" #percent, p->p##percent);

void json_put_percentiles(struct json_object *o, const char *key, const struct percentiles *p)
{
	struct json_object *v;

	if (!p->n)
		return;
	v = json_put_object(o, key);
	json_put_u64(v, "count", p->n);
	PERCENTS(PUT_PERCENT)
	json_put_us(v, "max", p->max);
}

const char *json_text(struct json_object *o, size_t *ret_len)
{
	const int flags = JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE;
	const char *text = json_object_to_json_string_length(o, flags, ret_len);

	if (!text)
		out_of_memory();
	return text;
}

/* ---- steps ---- */

/* The threads that ran while it waited for a CPU; the last element is the time without a name. */
static void put_behind(const struct page *page, struct json_object *o, const struct cause *c)
{
	struct json_object *array = json_put_array(o, "behind"), *one;
	int64_t others = c->behind_whole;

	list_for_each (row, c->behind, c->n_behind) {
		one = json_put_object(array, NULL);
		json_put_name(page, one, "by", row->by);
		json_put_u64(one, "by_tid", row->tid);
		json_put_us(one, "us", row->ns);
		others -= row->ns;
	}
	if (others > 0)
		json_put_us(json_put_object(array, NULL), "us", others);
}

static void put_cause(const struct page *page, struct json_object *o, const struct cause *c)
{
	json_put_us(o, "typical_us", c->typical);
	json_put_us(o, "excess_us", c->excess);
	json_put_u64(o, "compared", c->compared);
	json_put_text(o, "state", words_state(c->state));
	json_put_text(o, "where", cause_where_names[c->where]);
	if (c->where == WHERE_NONE)
		return;
	json_put_us(o, "state_us", c->part);
	if (c->tid)
		json_put_u64(o, "tid", c->tid);
	json_put_name(page, o, "by", c->by);
	if (c->by || c->by_tid)
		json_put_u64(o, "by_tid", c->by_tid);
	if (c->n_behind)
		put_behind(page, o, c);
	if (c->crowded)
		json_put(o, "crowded", json_object_new_boolean(true));
	if (c->wait) {
		json_put_name(page, o, "wait", c->wait);
		json_put_us(o, "wait_us", c->wait_ns);
	}
	if (c->second != STATE_NONE) {
		json_put_text(o, "second_state", words_state(c->second));
		json_put_us(o, "second_us", c->second_part);
	}
}

/* A step with its verdict. */
static void put_step(const struct page *page, struct json_object *o, const struct process *p, const struct step *s,
	const struct cause *c)
{
	char parts[SHED_TEXT_MAX];

	json_put_u64(o, "step", s->number);
	json_put_u64(o, "pid", p->pid);
	json_put_u64(o, "recording", s->recording);
	json_put_name(page, o, "phase", s->phase);
	json_put_u64(o, "n_tokens", s->n_tokens);
	json_put_us(o, "ts_us", s->ts);
	json_put_us(o, "total_us", s->total);
	if (s->left_out)
		json_put_text(o, "left_out", shed_text(s->left_out, parts));
	put_cause(page, o, c);
}

static void put_gap(const struct page *page, struct json_object *o, const struct process *p, const struct step *s,
	const struct slow_step *slow)
{
	json_put_u64(o, "before_step", s->number);
	json_put_u64(o, "pid", p->pid);
	json_put_u64(o, "recording", s->recording);
	json_put_us(o, "ts_us", s->ts - s->gap);
	json_put_us(o, "gap_us", s->gap);
	json_put_us(o, "typical_us", slow->cause.typical);
	json_put_us(o, "excess_us", slow->cause.excess);
	if (slow->waiting)
		json_put_u64(o, "waiting_requests", slow->waiting);
	json_put_name(page, o, "call", slow->call);
	if (slow->call)
		json_put_us(o, "call_us", slow->call_ns);
	json_put_name(page, o, "by", s->gap_by.name);
	if (s->gap_by.name)
		json_put_us(o, "by_us", s->gap_by.ns);
}

/* The slow steps, and the slow gaps between steps: the slowest first. */
static void json_put_slow_steps(const struct page *page, struct json_object *o, const struct process *p, const struct summary *sum)
{
	struct json_object *steps = json_put_array(o, "slowest"), *gaps = json_put_array(o, "slowest_between"), *one;

	list_for_each (slow, sum->slow, least_of(sum->n_slow, page->slowest)) {
		const struct step s = steps_load(&p->steps, slow->step);

		one = json_put_object(slow->gap ? gaps : steps, NULL);
		if (slow->gap)
			put_gap(page, one, p, &s, slow);
		else
			put_step(page, one, p, &s, &slow->cause);
		json_put_text(one, "text", words_slow(page->m, p, slow, SENTENCE));
		if (!slow->gap)
			json_put_hot(page, one, p, slow);
	}
}

/* ---- a process ---- */

static void json_put_tally(const struct page *page, struct json_object *o, const char *key, const struct tally *t)
{
	struct json_object *hottest;

	json_put_list (o, key, one, row, t->rows, t->len) {
		json_put_name(page, one, "name", row->name);
		json_put_u64(one, "count", row->count);
		json_put_us(one, "total_us", row->ns);
		if (op_code_is_clear(&row->hot)) {
			hottest = json_put_object(one, "hottest");
			json_put_name(page, hottest, "function", page->m->code.functions[row->hot.function].name);
			json_put_u64(hottest, "samples", row->hot.samples);
			json_put_u64(hottest, "of", row->hot.of);
		}
		json_put_counts(one, &row->counts);
	}
}

/* Threads that kept each other off CPUs, or were held back by a CPU limit. */
static void put_crowds(struct json_object *o, const struct summary *sum)
{
	struct json_object *v;

	if (sum->crowd.threads) {
		v = json_put_object(o, "crowded");
		json_put_u64(v, "threads", sum->crowd.threads);
		json_put_u64(v, "cpus_allowed", sum->crowd.cpus);
		json_put_u64(v, "steps", sum->crowd.steps);
		json_put_us(v, "waited_us", sum->crowd.waited);
		json_put_text(v, "text", words_crowd(&sum->crowd, SENTENCE));
	}
	if (sum->limited.threads) {
		v = json_put_object(o, "limited");
		json_put_u64(v, "threads", sum->limited.threads);
		if (sum->cpu_limit)
			json_put_double(v, "cpu_limit", (double)sum->cpu_limit / 1000);
		json_put_u64(v, "steps", sum->limited.steps);
		json_put_us(v, "waited_us", sum->limited.waited);
		json_put_text(v, "text", words_limited(sum, SENTENCE));
	}
}

static void json_put_latencies(const struct page *page, struct json_object *o, const struct summary *sum)
{
	json_put_percentiles(o, "unread_us", &sum->unread);
	json_put_percentiles(o, "to_engine_us", &sum->to_engine);
	json_put_percentiles(o, "ttft_us", &sum->ttft);
	json_put_percentiles(o, "first_step_to_first_token_us", &sum->first_step);
	json_put_percentiles(o, "request_us", &sum->whole);
	json_put_percentiles(o, sum->tpot_of_lines ? "mean_time_per_token_us" : "time_per_output_token_us", &sum->tpot);
	json_put_list (o, "calls", one, call, sum->calls, sum->n_calls) {
		json_put_name(page, one, "name", call->name);
		json_put_percentiles(one, "us", &call->times);
	}
	if (sum->prefill_rate)
		json_put_double(o, "prefill_tokens_per_s", sum->prefill_rate);
	if (sum->output_rate)
		json_put_double(o, "output_tokens_per_s", sum->output_rate);
	json_put_u64(o, "pauses", sum->pauses);
	json_put_list (o, "phases", one, phase, sum->phases, sum->n_phases) {
		json_put_name(page, one, "phase", phase->phase);
		json_put_u64(one, "steps", phase->steps.n);
		json_put_u64(one, "tokens", phase->tokens);
		json_put_percentiles(one, "step_us", &phase->steps);
		json_put_states(one, "breakdown_us", phase->own, phase->total);
		if (phase->workers_total)
			json_put_states(one, "workers_us", phase->workers, phase->workers_total);
		if (phase->barriers_in && phase->barriers_in < phase->steps.n) {
			json_put_u64(one, "barrier_steps", phase->barriers_in);
			json_put_double(one, "barrier_share", page_share(phase->barriers, phase->barriers_of));
		}
	}
}

static void put_request_counts(struct json_object *o, const struct request_summary *rs)
{
	struct json_object *v;
	char text[REQUESTS_TEXT_MAX];

	if (!rs->count && !rs->mixed)
		return;
	v = json_put_object(o, "requests");
	json_put_u64(v, "count", rs->count);
	json_put_u64(v, "prompt_tokens", rs->prompt_tokens);
	json_put_u64(v, "output_tokens", rs->output_tokens);
	json_put_u64(v, "began_before", rs->began_before);
	json_put_u64(v, "lost_steps", rs->lost);
	json_put_u64(v, "mixed", rs->mixed);
	json_put_u64(v, "shared_steps", rs->shared_steps);
	json_put_u64(v, "shared_tokens", rs->shared_tokens);
	json_put_u64(v, "max_sequences", rs->max_sequences);
	if (requests_left_out(rs, text))
		json_put_text(v, "left_out", text);
}

static void json_put_process_totals(struct json_object *o, const struct process *p)
{
	struct json_object *v;

	if (p->served.n_exchanges || p->served.unrelated) {
		json_put_u64(o, "socket_requests", p->served.n_exchanges);
		json_put_u64(o, "socket_requests_joined", p->served.joined);
		json_put_u64(o, "socket_requests_unrelated", p->served.unrelated);
	}
	if (p->has_sched) {
		json_put_states(o, "threads_us", p->sched, p->sched_total);
		json_put_u64(o, "switches_voluntary", p->switches_voluntary);
		json_put_u64(o, "switches_involuntary", p->switches_involuntary);
	}
	if (p->has_faults) {
		v = json_put_object(o, "faults");
		json_put_u64(v, "minor", p->faults_minor);
		json_put_u64(v, "major", p->faults_major);
		json_put_us(v, "minor_us", p->fault_minor_ns);
		json_put_us(v, "major_us", p->fault_major_ns);
	}
	if (p->has_memory) {
		v = json_put_object(o, "memory");
		json_put_u64(v, "rss_peak_bytes", p->rss_peak);
		if (p->has_pages) {
			json_put_u64(v, "pages_allocated", p->pages_allocated);
			json_put_u64(v, "pages_freed", p->pages_freed);
		}
	}
}

static void json_put_process(const struct page *page, struct json_object *o, const struct process *p, const struct summary *sum)
{
	struct json_object *parts = NULL;

	json_put_u64(o, "pid", p->pid);
	json_put_name(page, o, "comm", p->comm);
	json_put_name(page, o, "model", p->model);
	json_put_name(page, o, "commit_sha", p->commit);
	json_put_name(page, o, "env_hash", p->env_hash);
	json_put_name(page, o, "host", p->host);
	json_put_u64(o, "recordings", p->recordings);
	json_put_u64(o, "steps", p->steps.len);
	json_put_us(o, "wall_us", p->wall);
	if (p->tracer_of)
		json_put_double(o, "tracer_share", (double)p->tracer / (double)p->tracer_of);
	for (int i = 0; i < SHED_PARTS; i++) {
		if (!p->left_out[i])
			continue;
		parts = parts ? parts : json_put_object(o, "left_out_steps");
		json_put_u64(parts, shed_part_name(i), p->left_out[i]);
	}
	json_put_name(page, o, "misfit", p->finding);
	if (p->stand_ins)
		json_put_u64(o, "stand_in_steps", p->stand_ins);
	/* the steps that had not ended, each with what it was doing */
	json_put_list (o, "open", one, open, sum->open, least_of(sum->n_open, page->slowest ?: 1)) {
		const struct step s = steps_load(&p->steps, open->step);

		put_step(page, one, p, &s, &open->cause);
		json_put_text(one, "text", words_open(page->m, p, open, SENTENCE));
	}
	put_crowds(o, sum);
	json_put_latencies(page, o, sum);
	json_put_phase_counts(page, o, &p->counts);
	json_put_gpu(page, o, &p->gpu);
	json_put_u64(o, "slow_steps", sum->slow_steps);
	json_put_u64(o, "slow_alone", sum->slow_alone);
	json_put_u64(o, "slow_between", sum->slow_gaps);
	json_put_list (o, "causes", one, c, sum->causes.list, sum->causes.n) {
		json_put_text(one, "state", words_state(c->state));
		json_put_text(one, "where", cause_where_names[c->where]);
		json_put_name(page, one, "by", c->by);
		json_put_u64(one, "steps", c->steps);
		json_put_us(one, "excess_us", c->excess);
		json_put_text(one, "text", words_cause(page->m, c, SENTENCE));
	}
	json_put_slow_steps(page, o, p, sum);
	json_put_code(page, o, &sum->code);
	json_put_tally(page, o, "operators", &p->ops);
	json_put_tally(page, o, "syscalls", &p->syscalls);
	if (p->gaps.rows.len)
		json_put_tally(page, o, "between_steps", &p->gaps.rows);
	if (p->waits.rows.len)
		json_put_tally(page, o, "within_steps", &p->waits.rows);
	if (p->idle)
		json_put_us(o, "between_steps_idle_us", p->idle);
	if (p->request_gaps.rows.len)
		json_put_tally(page, o, "requests_without_step", &p->request_gaps.rows);
	if (p->answers.rows.len)
		json_put_tally(page, o, "answers_late", &p->answers.rows);
	put_request_counts(o, &sum->requests);
	json_put_requests(page, o, p, &sum->batches);
	json_put_process_totals(o, p);
	json_put_u64(o, "steps_with_loss", sum->lossy_steps);
	json_put_u64(o, "steps_unfinished", sum->unfinished);
}

/* ---- all ---- */

static void json_put_loss(const struct page *page, struct json_object *o, const struct model *m)
{
	struct json_object *kinds;

	json_put_u64(o, "records", m->lost_records);
	kinds = json_put_object(o, "kinds");
	for (size_t i = 0; i < m->lost.len; i++)
		json_put_u64(kinds, model_text(m, m->lost.rows[i].name), m->lost.rows[i].count);
	json_put_list (o, "windows", one, w, m->windows, m->n_windows) {
		json_put_name(page, one, "file", w->file);
		json_put_us(one, "total_us", w->total);
		json_put_u64(one, "records", w->records);
		json_put_u64(one, "lost", w->lost);
		json_put_u64(one, "steps", w->steps);
		json_put_name(page, one, "trigger", w->trigger);
		if (w->coverage >= 0)
			json_put_double(one, "coverage", w->coverage);
		json_put_text(one, "not_recorded", w->lacks_faults ? "faults" : NULL);
	}
}

struct json_object *report_object(const struct report *r, uint32_t slowest, bool plots)
{
	const struct page page_of = { .m = &r->model, .slowest = slowest }, *page = &page_of;
	struct json_object *o = json_object_new_object(), *files, *processes, *states;
	char printable[512];

	/* names of files can be any bytes, JSON is UTF-8 */
	files = json_put_array(o, "files");
	for (size_t i = 0; i < r->n_files; i++)
		json_put_text(files, NULL, text_printable(printable, sizeof(printable), r->files[i]));
	processes = json_put_array(o, "processes");
	for (size_t i = 0; i < r->model.n_processes; i++) {
		const struct process *p = r->model.processes[i];
		const struct summary *sum = &r->summaries[i];
		struct json_object *one;

		if (process_empty(p))
			continue;
		one = json_put_object(processes, NULL);
		json_put_process(page, one, p, sum);
		if (!plots)
			continue;
		json_put_plot(page, one, p, sum);
		json_put_requests_plot(one, page->m, p, &sum->batches);
		json_put_flames(page, one, p, &sum->code);
	}
	json_put_stragglers(page, o, &r->stragglers);
	if (r->model.n_families) {
		json_put_list (o, "families", one, f, r->model.families, r->model.n_families) {
			json_put_name(page, one, "event", f->event);
			json_put_name(page, one, "source", f->source);
			json_put_u64(one, "lines", f->lines);
			json_put_percentiles(one, "total_us", &f->total);
			json_put_tally(page, one, "stages", &f->stages);
		}
	}
	json_put_code_left_out(page, o);
	json_put_loss(page, json_put_object(o, "loss"), &r->model);
	states = plots ? json_put_array(o, "states") : NULL;
	for (unsigned int s = 0; plots && s < STATES; s++)
		json_put_text(states, NULL, words_state(s));
	return o;
}

/* Escapes characters that control a terminal or change the direction of text. */
static void print_escaped(const char *text, size_t len, FILE *out)
{
	char *buf = xmalloc(TEXT_JSON_MAX(len));

	fwrite(buf, 1, (size_t)(text_json(buf, text, len) - buf), out);
	free(buf);
}

/* One line for each step, since there may be millions. */
static void put_all_steps(const struct report *r, FILE *out)
{
	const struct model *m = &r->model;
	const struct page page = { .m = m };
	const char *separator = "\n", *text;
	struct json_object *o;
	struct cause cause;
	size_t len;

	fputs(",\"steps\":[", out);
	for (size_t i = 0; i < m->n_processes; i++) {
		const struct process *p = m->processes[i];

		for (size_t k = 0; k < p->steps.len; k++) {
			const struct step loaded = steps_load(&p->steps, k), *s = &loaded;
			int64_t typical = 0, excess;

			cause_find(p, s, &cause);
			o = json_object_new_object();
			put_step(&page, o, p, s, &cause);
			excess = cause_gap_excess(p, s, &typical);
			if (s->gap >= 0)
				json_put_us(o, "gap_us", s->gap);
			if (excess)
				json_put_us(o, "gap_excess_us", excess);
			text = json_text(o, &len);
			fputs(separator, out);
			print_escaped(text, len, out);
			json_object_put(o);
			separator = ",\n";
		}
	}
	fputs("\n]", out);
}

void report_json(const struct report *r, uint32_t slowest, bool all_steps, FILE *out)
{
	struct json_object *o = report_object(r, slowest, false);
	const char *text;
	size_t len;

	text = json_text(o, &len);
	/* without its closing brace, so that the steps can follow */
	print_escaped(text, len - 1, out);
	if (all_steps)
		put_all_steps(r, out);
	fputs("}\n", out);
	json_object_put(o);
}
