// SPDX-License-Identifier: BSD-2-Clause
/* The report on a terminal. */
#include <locale.h>
#include <langinfo.h>
#include <stdlib.h>
#include <string.h>

#include "report/stacks.h"
#include "report/report.h"
#include "report/output.h"
#include "report/words.h"
#include "sink/left_out.h"
#include "util/text.h"

#define WORKERS_BAR 16
#define ROWS_MAX 15 /* of operators, and of system calls */
#define CAUSES_SHOWN 8
#define CALLS_SHOWN 8

double page_share(int64_t part, int64_t whole)
{
	return whole > 0 ? (double)part / (double)whole : 0;
}

static const char *printable(char buf[64], const struct page *page, uint32_t name)
{
	return text_printable(buf, 64, model_text(page->m, name));
}

void page_bar(const struct page *page, double part, int width)
{
	static const char *const eighths[] = { "", "▏", "▎", "▍", "▌", "▋", "▊", "▉" };
	int n = (int)(part * width * 8 + 0.5), columns = 0;

	if (n > width * 8)
		n = width * 8;
	if (!page->utf8)
		n = (n + 4) / 8 * 8;
	for (; n >= 8; n -= 8, columns++)
		fputs(page->utf8 ? "█" : "#", page->out);
	if (n > 0) {
		fputs(eighths[n], page->out);
		columns++;
	}
	fprintf(page->out, "%*s", width - columns, "");
}

void page_percentiles(const struct page *page, const char *name, const struct percentiles *p)
{
	char d[4][DURATION_MAX];

	if (!p->n)
		return;
	fprintf(page->out, "  %-25s%8zu %10s %10s %10s %10s\n", name, p->n,
		words_duration(d[0], p->p50), words_duration(d[1], p->p90),
		words_duration(d[2], p->p99), words_duration(d[3], p->max));
}

static void put_head(const struct page *page, const struct process *p, const struct summary *sum)
{
	char name[64], d[DURATION_MAX];

	if (p->comm)
		fprintf(page->out, "%s, ", printable(name, page, p->comm));
	fprintf(page->out, "pid %u", p->pid);
	if (p->host)
		fprintf(page->out, " on %s", printable(name, page, p->host));
	if (p->model && strcmp(model_text(page->m, p->model), "unknown"))
		fprintf(page->out, ", model %s", printable(name, page, p->model));
	if (p->commit)
		fprintf(page->out, ", commit %s", printable(name, page, p->commit));
	if (!p->steps.len) {
		fprintf(page->out, ": no engine steps\n");
		return;
	}
	fprintf(page->out, ": %zu step%s in %s", p->steps.len, p->steps.len == 1 ? "" : "s",
		words_duration(d, p->wall));
	for (size_t i = 0; i < sum->n_phases; i++)
		fprintf(page->out, "%s%zu %s", i ? ", " : " (", sum->phases[i].steps.n,
			printable(name, page, sum->phases[i].phase));
	fprintf(page->out, "%s", sum->n_phases ? ")" : "");
	if (p->recordings > 1)
		fprintf(page->out, ", %u recordings", p->recordings);
	fputc('\n', page->out);
}

/* Steps that are not what the engine calls one. */
static void put_misfit(const struct page *page, const struct process *p)
{
	char shown[512];

	if (p->finding)
		fprintf(page->out, "  %s\n", text_printable(shown, sizeof(shown), model_text(page->m, p->finding)));
	if (p->stand_ins)
		fprintf(page->out, "  %llu of %zu steps stand in for those of the engine: of their tokens and requests nothing is known\n",
			(unsigned long long)p->stand_ins, p->steps.len);
}

static void put_tracer(const struct page *page, const struct process *p)
{
	if (p->tracer_of)
		fprintf(page->out, "  inftrace itself: %.1f %% of the time of a token\n",
			100 * page_share(p->tracer, p->tracer_of));
}

static void put_left_out(const struct page *page, const struct process *p)
{
	bool any = false;

	for (int i = 0; i < SHED_PARTS; i++) {
		if (!p->left_out[i])
			continue;
		fprintf(page->out, "%s%s in %llu of %zu steps%s", any ? ", " : "  left out to keep within --budget: ",
			shed_part_name(i), (unsigned long long)p->left_out[i], p->steps.len,
			i == SHED_BARRIERS ? " (their time is in cpu)" : "");
		any = true;
	}
	if (any)
		fputc('\n', page->out);
}

static void put_requests(const struct page *page, const struct request_summary *rs)
{
	char text[REQUESTS_TEXT_MAX];

	if (rs->count)
		fprintf(page->out, "  requests: %llu, of %llu prompt and %llu output tokens\n",
			(unsigned long long)rs->count, (unsigned long long)rs->prompt_tokens,
			(unsigned long long)rs->output_tokens);
	if (requests_left_out(rs, text))
		fprintf(page->out, "  %s\n", text);
}

/* Whose the time to first token and of whole requests is. */
static void put_exchanges(const struct page *page, const struct seqs *s)
{
	if (!s->n_exchanges && !s->unrelated)
		return;
	fprintf(page->out, "  requests seen at sockets: %zu", s->n_exchanges);
	if (s->in_batches)
		fprintf(page->out, ", %llu of them found in the steps", (unsigned long long)s->joined);
	if (s->unrelated)
		fprintf(page->out, "; left out: %llu that were none to the engine", (unsigned long long)s->unrelated);
	fputc('\n', page->out);
}

static void put_latencies(
	const struct page *page, const struct process *p, const struct summary *sum)
{
	char name[64], row[80], d[DURATION_MAX];

	fprintf(page->out, "\n  %-24s%9s %10s %10s %10s %10s\n", "", "count", "p50", "p90", "p99",
		"max");
	page_percentiles(page, "time to first token", &sum->ttft);
	page_percentiles(page, "first step to first token", &sum->first_step);
	page_percentiles(page, sum->tpot_of_lines ? "mean time per token" : "time per output token", &sum->tpot);
	page_percentiles(page, "whole request", p->seqs.n_exchanges ? &sum->whole : &sum->seqs.total);
	page_percentiles(page, "queued", &sum->seqs.queued);
	for (size_t i = 0; i < sum->n_phases; i++) {
		snprintf(row, sizeof(row), "%s step", printable(name, page, sum->phases[i].phase));
		page_percentiles(page, row, &sum->phases[i].steps);
	}
	for (size_t i = 0; i < sum->n_calls && i < CALLS_SHOWN; i++)
		page_percentiles(
			page, printable(name, page, sum->calls[i].name), &sum->calls[i].times);
	if (sum->prefill_rate || sum->output_rate) {
		fprintf(page->out, "  tokens/s:");
		if (sum->prefill_rate)
			fprintf(page->out, " prefill %s", words_rate(d, sum->prefill_rate));
		if (sum->output_rate)
			fprintf(page->out, "%s output %s", sum->prefill_rate ? "," : "", words_rate(d, sum->output_rate));
		fputc('\n', page->out);
	}
	put_requests(page, &sum->requests);
	put_exchanges(page, &p->seqs);
	if (sum->pauses)
		fprintf(page->out,
			"  %llu pauses of more than 1 s between steps (up to %s) count for no "
			"token\n",
			(unsigned long long)sum->pauses, words_duration(d, sum->pause_max));
}

/* Sorts the states by time. */
static size_t order_states(const int64_t *own, const int64_t *workers, unsigned int order[STATES])
{
	size_t n = 0, k;

	for (unsigned int s = 0; s < STATES; s++) {
		if (!own[s] && !workers[s])
			continue;
		for (k = n++; k > 0 && own[order[k - 1]] < own[s]; k--)
			order[k] = order[k - 1];
		order[k] = s;
	}
	return n;
}

static void put_breakdown(const struct page *page, const struct phase_summary *phase)
{
	unsigned int order[STATES];
	char name[64], d[DURATION_MAX], title[80];
	size_t n = order_states(phase->own, phase->workers, order);

	snprintf(title, sizeof(title), "Where the time of %s went",
		phase->phase ? printable(name, page, phase->phase) : "steps");
	fprintf(page->out, "\n%-54s%s\n", title, phase->workers_total ? "workers" : "");
	for (size_t i = 0; i < n; i++) {
		unsigned int s = order[i];
		double own = page_share(phase->own[s], phase->total);
		double workers = page_share(phase->workers[s], phase->workers_total);

		fprintf(page->out, "  %-15s%6.2f %% ", words_state(s), own * 100);
		page_bar(page, own, PAGE_BAR);
		fprintf(page->out, "%8s ",
			words_duration(d, phase->own[s] / (int64_t)phase->steps.n));
		if (phase->workers_total) {
			fprintf(page->out, "%6.2f %% ", workers * 100);
			page_bar(page, workers, WORKERS_BAR);
		}
		fputc('\n', page->out);
	}
}

/* Steps that hang come first. */
static int put_open(const struct page *page, const struct process *p, const struct summary *sum,
	uint32_t slowest)
{
	char sentence[SENTENCE_MAX];
	int err;

	if (!sum->n_open)
		return 0;
	fprintf(page->out, "\nNot ended: %zu step%s\n", sum->n_open, sum->n_open == 1 ? "" : "s");
	for (size_t i = 0; i < sum->n_open && (i < slowest || !i); i++) {
		err = words_open(page->m, p, &sum->open[i], sentence);
		if (err)
			return err;
		fprintf(page->out, "  %s\n", sentence);
	}
	return 0;
}

static int put_slowest(const struct page *page, const struct process *p, const struct summary *sum,
	uint32_t slowest)
{
	char sentence[SENTENCE_MAX], d[DURATION_MAX];
	int err;

	fprintf(page->out, "\nSlow steps: %llu of %zu took longer than those around them",
		(unsigned long long)(sum->slow_steps - sum->slow_alone), p->steps.len);
	if (sum->slow_alone)
		fprintf(page->out, "; %llu waited, with nothing to compare with",
			(unsigned long long)sum->slow_alone);
	if (sum->slow_gaps)
		fprintf(page->out, "; %llu pauses between them did",
			(unsigned long long)sum->slow_gaps);
	fputc('\n', page->out);
	for (size_t i = 0; i < sum->causes.n && i < CAUSES_SHOWN; i++)
		fprintf(page->out, "  %9s in %llu: %s\n", words_duration(d, sum->causes.list[i].excess),
			(unsigned long long)sum->causes.list[i].steps,
			words_cause(page->m, &sum->causes.list[i], sentence));
	if (sum->n_slow && slowest)
		fprintf(page->out, "The slowest:\n");
	for (size_t i = 0; i < sum->n_slow && i < slowest; i++) {
		err = words_slow(page->m, p, &sum->slow[i], sentence);
		if (err)
			return err;
		fprintf(page->out, "  %s\n", sentence);
	}
	return 0;
}

static void put_tally(const struct page *page, const char *title, const struct tally *t)
{
	char name[64], d[DURATION_MAX], function[FUNCTION_MAX], counts[COUNTS_TEXT_MAX];
	const char *bound;
	int64_t total = 0;

	if (!t->len)
		return;
	for (size_t i = 0; i < t->len; i++)
		total = ns_add(total, t->rows[i].ns);
	fprintf(page->out, "\n%-26s%12s %10s %10s\n", title, "count", "time", "each");
	for (size_t i = 0; i < t->len && i < ROWS_MAX; i++) {
		const struct tally_row *row = &t->rows[i];

		/* what is only counted has no time */
		fprintf(page->out, "  %-24s%12llu %10s", printable(name, page, row->name),
			(unsigned long long)row->count, row->ns ? words_duration(d, row->ns) : "-");
		fprintf(page->out, " %10s  ",
			row->ns && row->count ? words_duration(d, (int64_t)((uint64_t)row->ns / row->count))
					      : "-");
		page_bar(page, page_share(row->ns, total), PAGE_BAR - 2);
		fputc('\n', page->out);
		bound = counts_bound(&row->counts);
		if (*counts_text(&row->counts, counts))
			fprintf(page->out, "    %s%s%s\n", counts, bound ? ": " : "", bound ? bound : "");
		if (op_code_is_clear(&row->hot))
			fprintf(page->out, "    %.0f %% of %llu samples in %s\n",
				100 * (double)row->hot.samples / (double)row->hot.of, (unsigned long long)row->hot.of,
				words_function(page->m, row->hot.function, 0, function));
	}
	if (t->len > ROWS_MAX)
		fprintf(page->out, "  and %zu more\n", t->len - ROWS_MAX);
}

/* What the process did as a whole, in steps and between them. */
static void put_process_totals(const struct page *page, const struct process *p)
{
	unsigned int order[STATES];
	const int64_t none[STATES] = { 0 };
	char d[DURATION_MAX], d2[DURATION_MAX];
	size_t n;

	if (p->has_sched) {
		n = order_states(p->sched, none, order);
		fprintf(page->out, "\nAll threads:");
		for (size_t i = 0; i < n && i < 6; i++)
			fprintf(page->out, "%s %s %.1f %%", i ? "," : "", words_state(order[i]),
				100 * page_share(p->sched[order[i]], p->sched_total));
		fprintf(page->out, "\n  switches: %llu voluntary, %llu involuntary\n",
			(unsigned long long)p->switches_voluntary,
			(unsigned long long)p->switches_involuntary);
	}
	if (p->has_faults)
		fprintf(page->out, "Page faults: %llu minor (%s), %llu major (%s)\n",
			(unsigned long long)p->faults_minor, words_duration(d, p->fault_minor_ns),
			(unsigned long long)p->faults_major, words_duration(d2, p->fault_major_ns));
	if (p->has_memory)
		fprintf(page->out, "Memory: at most %.1f MB resident",
			(double)p->rss_peak / (1 << 20));
	if (p->has_pages)
		fprintf(page->out, ", %llu pages allocated, %llu freed",
			(unsigned long long)p->pages_allocated, (unsigned long long)p->pages_freed);
	if (p->has_memory)
		fputc('\n', page->out);
}

static int put_process(const struct page *page, const struct process *p, const struct summary *sum,
	uint32_t slowest)
{
	char sentence[SENTENCE_MAX];
	int err = 0;

	put_head(page, p, sum);
	put_misfit(page, p);
	if (p->steps.len) {
		put_tracer(page, p);
		put_left_out(page, p);
		err = put_open(page, p, sum, slowest);
		if (err)
			return err;
		if (sum->crowd.threads)
			fprintf(page->out, "\n%s\n", words_crowd(&sum->crowd, sentence));
		if (sum->limited.threads)
			fprintf(page->out, "\n%s\n", words_limited(sum, sentence));
		put_latencies(page, p, sum);
		page_requests(page, p, &sum->seqs, slowest);
		for (size_t i = 0; i < sum->n_phases; i++)
			put_breakdown(page, &sum->phases[i]);
		page_gpu(page, &p->gpu);
		page_counts(page, &p->counts);
		err = put_slowest(page, p, sum, slowest);
	} else if (p->seqs.len) {
		put_latencies(page, p, sum);
		page_requests(page, p, &sum->seqs, slowest);
	}
	page_code(page, &sum->code);
	put_tally(page, "Operators", &p->ops);
	put_tally(page, "System calls", &p->syscalls);
	put_process_totals(page, p);
	return err;
}

/* What other programs wrote: for each event its lines, and where their time went. */
static void put_families(const struct page *page, const struct model *m)
{
	char d[4][DURATION_MAX], name[64], source[64], title[140];

	for (size_t i = 0; i < m->n_families; i++) {
		const struct foreign_family *f = &m->families[i];

		printable(name, page, f->event);
		snprintf(title, sizeof(title), f->source ? "%s, %s" : "%s", name, f->source ? printable(source, page, f->source) : "");
		fprintf(page->out, "\n%s: %llu line%s", title, (unsigned long long)f->lines, f->lines == 1 ? "" : "s");
		if (f->total.n)
			fprintf(page->out, ", p50 %s, p90 %s, p99 %s, %s in all", words_duration(d[0], f->total.p50),
				words_duration(d[1], f->total.p90), words_duration(d[2], f->total.p99), words_duration(d[3], f->total.sum));
		put_tally(page, "Stages", &f->stages);
	}
}

static void put_loss(const struct page *page, const struct report *r)
{
	const struct model *m = &r->model;
	uint64_t lossy = 0, unfinished = 0;
	bool lacks_faults = false;
	double coverage = 1;
	char name[64];

	for (size_t i = 0; i < m->n_processes; i++) {
		lossy += r->summaries[i].lossy_steps;
		unfinished += r->summaries[i].unfinished;
	}
	for (size_t i = 0; i < m->n_windows; i++) {
		lacks_faults |= m->windows[i].lacks_faults;
		if (m->windows[i].coverage >= 0 && m->windows[i].coverage < coverage)
			coverage = m->windows[i].coverage;
	}
	fputs("Loss: ", page->out);
	if (!m->lost_records && !lossy) {
		fputs("none", page->out);
	} else {
		fprintf(page->out, "%llu records", (unsigned long long)m->lost_records);
		for (size_t i = 0; i < m->lost.len; i++)
			fprintf(page->out, "%s%llu %s", i ? ", " : " (",
				(unsigned long long)m->lost.rows[i].count,
				printable(name, page, m->lost.rows[i].name));
		fputs(m->lost.len ? ")" : "", page->out);
		if (lossy)
			fprintf(page->out, "; %llu steps have gaps in the timeline, none in their times", (unsigned long long)lossy);
		else
			fputs("; none of them within a step of these files", page->out);
	}
	if (coverage < 1)
		fprintf(page->out, "; coverage %.4f %%", coverage * 100);
	if (unfinished)
		fprintf(page->out, "; %llu steps had not ended", (unsigned long long)unfinished);
	fputc('\n', page->out);
	if (lacks_faults)
		fputs("Not recorded: page faults, which the kernel did not show; their time is in that of other states\n", page->out);
}

static bool terminal_is_utf8(void)
{
	locale_t locale = newlocale(LC_CTYPE_MASK, "", (locale_t)0);
	bool utf8;

	if (!locale)
		return false;
	utf8 = !strcmp(nl_langinfo_l(CODESET, locale), "UTF-8");
	freelocale(locale);
	return utf8;
}

/* Why the flight recorder has written the input; the same reason in several processes is printed once. */
static void put_triggers(const struct page *page)
{
	const struct model *m = page->m;
	char shown[160];

	for (size_t i = 0; i < m->n_windows; i++) {
		uint32_t trigger = m->windows[i].trigger;
		bool told = !trigger;

		for (size_t k = 0; k < i; k++)
			told |= m->windows[k].trigger == trigger;
		if (!told)
			fprintf(page->out, "Trigger: %s\n\n",
				text_printable(shown, sizeof(shown), model_text(m, trigger)));
	}
}

int report_text(const struct report *r, uint32_t slowest, FILE *out)
{
	const struct model *m = &r->model;
	struct page page = { .m = m, .out = out, .utf8 = terminal_is_utf8() };
	bool first = true;
	int err;

	put_triggers(&page);
	err = late_text(&page, &r->late, slowest);
	if (err)
		return err;
	for (size_t i = 0; i < m->n_processes; i++) {
		const struct process *p = m->processes[i];

		if (process_empty(p))
			continue;
		if (!first)
			fputc('\n', out);
		first = false;
		err = put_process(&page, p, &r->summaries[i], slowest);
		if (err)
			return err;
	}
	put_families(&page, &r->model);
	fputc('\n', out);
	page_code_left_out(&page);
	put_loss(&page, r);
	return 0;
}
