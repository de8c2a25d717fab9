// SPDX-License-Identifier: BSD-2-Clause
/* The report on a terminal. */
#include <locale.h>
#include <langinfo.h>
#include <stdarg.h>
#include <string.h>

#include "report/costs.h"
#include "report/output.h"
#include "schema/left_out.h"

#define WORKERS_BAR 16
#define ROWS_MAX 15 /* of operators, and of system calls */
#define CAUSES_SHOWN 8
#define CALLS_SHOWN 8
#define BRIEF_SLOWEST 3

void page_put(const struct page *page, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vfprintf(page->out, fmt, ap);
	va_end(ap);
}

double page_share(int64_t part, int64_t whole)
{
	return whole > 0 ? (double)part / (double)whole : 0;
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
		page_put(page, page->utf8 ? "█" : "#");
	if (n > 0)
		columns++;
	page_put(page, "%s%*s", n > 0 ? eighths[n] : "", width - columns, "");
}

void page_part(const struct page *page, const char *name, int64_t part, int64_t whole, int64_t each)
{
	double share = page_share(part, whole);

	page_put(page, "  %-15s%6.2f %% ", name, 100 * share);
	page_bar(page, share, PAGE_BAR);
	page_put(page, "%8s", DURATION(each));
}

size_t page_order(const int64_t *ns, const int64_t *also, unsigned int n, unsigned int *order)
{
	size_t found = 0, k;

	for (unsigned int i = 0; i < n; i++) {
		if (!ns[i] && (!also || !also[i]))
			continue;
		for (k = found++; k > 0 && ns[order[k - 1]] < ns[i]; k--)
			order[k] = order[k - 1];
		order[k] = i;
	}
	return found;
}

#define PUT_NAME(percent) page_put(page, " %10s", "p" #percent);
#define PUT_TIME(percent) page_put(page, " %10s", DURATION(p->p##percent));

/* A row of a table; nothing without values. */
static void page_percentiles(const struct page *page, const char *name, const struct percentiles *p)
{
	if (!p->n)
		return;
	page_put(page, "  %-25s%8zu", name, p->n);
	PERCENTS(PUT_TIME)
	page_put(page, " %10s\n", DURATION(p->max));
}

static void page_put_process_head(const struct page *page, const struct process *p, const struct summary *sum)
{
	const struct model *m = page->m;
	bool any = false;

	page_put(page, "%s%spid %u", NAME(m, p->comm), p->comm ? ", " : "", p->pid);
	if (p->host)
		page_put(page, " on %s", NAME(m, p->host));
	if (p->model && strcmp(model_text(m, p->model), "unknown"))
		page_put(page, ", model %s", NAME(m, p->model));
	if (p->commit)
		page_put(page, ", commit %s", NAME(m, p->commit));
	if (!p->steps.len)
		page_put(page, ": no engine steps");
	else
		page_put(page, ": %zu step%s in %s", p->steps.len, p->steps.len == 1 ? "" : "s", DURATION(p->wall));
	for (size_t i = 0; p->steps.len && i < sum->n_phases; i++)
		page_put(page, "%s%zu %s%s", i ? ", " : " (", sum->phases[i].steps.n, NAME(m, sum->phases[i].phase),
			i + 1 == sum->n_phases ? ")" : "");
	if (p->steps.len && p->recordings > 1)
		page_put(page, ", %u recordings", p->recordings);
	page_put(page, "\n");
	if (p->finding)
		page_put(page, "  %s\n", text_printable((char[512]){ 0 }, 512, model_text(m, p->finding)));
	if (p->stand_ins)
		page_put(page,
			"  %llu of %zu steps stand in for those of the engine: of their tokens and requests nothing is known\n", LLU(p->stand_ins), p->steps.len);
	if (p->steps.len && p->tracer_of)
		page_put(page, "  inftrace itself: %.1f %% of the time of a token\n",
			100 * page_share(p->tracer, p->tracer_of));
	for (int i = 0; i < SHED_PARTS && p->steps.len; i++) {
		if (!p->left_out[i])
			continue;
		page_put(page, "%s%s in %llu of %zu steps%s", any ? ", " : "  left out to keep within --budget: ",
			shed_part_name(i), LLU(p->left_out[i]), p->steps.len,
			i == SHED_BARRIERS ? " (their time is in cpu)" : "");
		any = true;
	}
	if (any)
		page_put(page, "\n");
}

static void page_put_latencies(const struct page *page, const struct process *p, const struct summary *sum)
{
	const struct request_summary *rs = &sum->requests;
	char row[80], text[REQUESTS_TEXT_MAX];

	page_put(page, "\n  %-24s%9s", "", "count");
	PERCENTS(PUT_NAME)
	page_put(page, " %10s\n", "max");
	page_percentiles(page, "time to first token", &sum->ttft);
	page_percentiles(page, "until the server read it", &sum->unread);
	page_percentiles(page, "until the engine had it", &sum->to_engine);
	page_percentiles(page, "first step to first token", &sum->first_step);
	page_percentiles(page, sum->tpot_of_lines ? "mean time per token" : "time per output token", &sum->tpot);
	page_percentiles(page, "whole request", p->served.n_exchanges ? &sum->whole : &sum->batches.total);
	page_percentiles(page, "queued", &sum->batches.queued);
	for (size_t i = 0; i < sum->n_phases; i++) {
		snprintf(row, sizeof(row), "%s step", NAME(page->m, sum->phases[i].phase));
		page_percentiles(page, row, &sum->phases[i].steps);
	}
	for (size_t i = 0; i < sum->n_calls && i < CALLS_SHOWN; i++)
		page_percentiles(page, NAME(page->m, sum->calls[i].name), &sum->calls[i].times);
	if (sum->prefill_rate)
		page_put(page, "  tokens/s: prefill %s", words_rate(row, sum->prefill_rate));
	if (sum->output_rate)
		page_put(page, "%s output %s", sum->prefill_rate ? "," : "  tokens/s:", words_rate(row, sum->output_rate));
	if (sum->prefill_rate || sum->output_rate)
		page_put(page, "\n");
	if (rs->count)
		page_put(page, "  requests: %llu, of %llu prompt and %llu output tokens\n", LLU(rs->count),
			LLU(rs->prompt_tokens), LLU(rs->output_tokens));
	if (requests_left_out(rs, text))
		page_put(page, "  %s\n", text);
	/* the requests behind the rows of TTFT and whole requests */
	if (p->served.n_exchanges || p->served.unrelated) {
		page_put(page, "  requests seen at sockets: %zu", p->served.n_exchanges);
		if (p->served.in_batches)
			page_put(page, ", %llu of them found in the steps", LLU(p->served.joined));
		if (p->served.unrelated)
			page_put(page, "; left out: %llu that were none to the engine", LLU(p->served.unrelated));
		page_put(page, "\n");
	}
	if (sum->pauses)
		page_put(page, "  %llu pauses of more than 1 s between steps (up to %s) count for no token\n",
			LLU(sum->pauses), DURATION(sum->pause_max));
}

static void page_put_breakdown(const struct page *page, const struct phase_summary *phase)
{
	unsigned int order[STATES];
	size_t n = page_order(phase->own, phase->workers, STATES, order);
	char title[100];

	snprintf(title, sizeof(title), "Where the time of %s went", phase->phase ? NAME(page->m, phase->phase) : "steps");
	page_put(page, "\n%-54s%s\n", title, phase->workers_total ? "workers" : "");
	for (size_t i = 0; i < n; i++) {
		unsigned int s = order[i];
		double workers = page_share(phase->workers[s], phase->workers_total);

		page_part(page, words_state(s), phase->own[s], phase->total, phase->own[s] / (int64_t)phase->steps.n);
		page_put(page, " ");
		if (phase->workers_total) {
			page_put(page, "%6.2f %% ", workers * 100);
			page_bar(page, workers, WORKERS_BAR);
		}
		page_put(page, "\n");
	}
	if (phase->barriers_in && phase->barriers_in < phase->steps.n)
		page_put(page, "  barrier: %.2f %% of the time of the %llu steps in which it was recorded\n",
			100 * page_share(phase->barriers, phase->barriers_of), LLU(phase->barriers_in));
}

static void page_put_slowest(const struct page *page, const struct process *p, const struct summary *sum)
{
	page_put(page, "\nSlow steps: %llu of %zu took longer than those around them",
		LLU(sum->slow_steps - sum->slow_alone), p->steps.len);
	if (sum->slow_alone)
		page_put(page, "; %llu waited, with nothing to compare with", LLU(sum->slow_alone));
	if (sum->slow_gaps)
		page_put(page, "; %llu pause%s between them did", LLU(sum->slow_gaps), sum->slow_gaps == 1 ? "" : "s");
	page_put(page, "\n");
	list_for_each (c, sum->causes.list, least_of(sum->causes.n, CAUSES_SHOWN))
		page_put(page, "  %9s in %llu: %s\n", DURATION(c->excess), LLU(c->steps),
			words_cause(page->m, c, SENTENCE));
	if (sum->n_slow && page->slowest)
		page_put(page, "The slowest:\n");
	list_for_each (slow, sum->slow, least_of(sum->n_slow, page->slowest))
		page_put(page, "  %s\n", words_slow(page->m, p, slow, SENTENCE));
}

static void page_put_tally(const struct page *page, const char *title, const struct tally *t)
{
	char counts[COUNTS_TEXT_MAX];
	int64_t total = 0;

	if (!t->len)
		return;
	for (size_t i = 0; i < t->len; i++)
		total = ns_add(total, t->rows[i].ns);
	page_put(page, "\n%-26s%12s %10s %10s\n", title, "count", "time", "each");
	list_for_each (row, t->rows, least_of(t->len, ROWS_MAX)) {
		const char *bound = counts_bound(&row->counts);

		/* rows that are only counted have no time */
		page_put(page, "  %-24s%12llu %10s %10s  ", NAME(page->m, row->name), LLU(row->count),
			row->ns ? DURATION(row->ns) : "-",
			row->ns && row->count ? DURATION((int64_t)((uint64_t)row->ns / row->count)) : "-");
		page_bar(page, page_share(row->ns, total), PAGE_BAR - 2);
		page_put(page, "\n");
		if (*counts_text(&row->counts, counts))
			page_put(page, "    %s%s%s\n", counts, bound ? ": " : "", bound ?: "");
		if (op_code_is_clear(&row->hot))
			page_put(page, "    %.0f %% of %llu samples in %s\n",
				100 * (double)row->hot.samples / (double)row->hot.of, LLU(row->hot.of),
				FUNCTION(page->m, row->hot.function, 0));
	}
	if (t->len > ROWS_MAX)
		page_put(page, "  and %zu more\n", t->len - ROWS_MAX);
}

#define GAP_ROWS_MAX 10
#define GAP_ROWS_BRIEF 4
/* A smaller share of the time of the steps is not worth the lines. */
#define GAPS_LEAST 100

static int64_t gaps_total(const struct gap_sum *g)
{
	int64_t total = 0;

	list_for_each (row, g->rows.rows, g->rows.len)
		total = ns_add(total, row->ns);
	return total;
}

static void page_put_gap_rows(const struct page *page, const struct tally *t, int64_t total)
{
	size_t shown = least_of(t->len, page->brief ? GAP_ROWS_BRIEF : GAP_ROWS_MAX);
	int64_t rest = total;

	list_for_each (row, t->rows, shown) {
		page_put(page, "  %5.1f %% %10s  %s\n", 100 * page_share(row->ns, total), DURATION(row->ns),
			GAP_NAME(page->m, row->name));
		rest -= row->ns;
	}
	if (t->len > shown)
		page_put(page, "  %5.1f %% %10s  %zu more\n", 100 * page_share(rest, total), DURATION(rest), t->len - shown);
}

/* Who caused the time in which no step ran, of requests and between steps, and in which steps waited. */
static void page_put_gaps(const struct page *page, const struct process *p, const struct summary *sum)
{
	int64_t total = gaps_total(&p->request_gaps), steps = 0;

	if (total && total >= sum->batches.parts_total / GAPS_LEAST) {
		page_put(page, "\nRequests spent %s without a step of their context, waiting for\n", DURATION(total));
		page_put_gap_rows(page, &p->request_gaps.rows, total);
		if (page->brief)
			return;
	}
	total = gaps_total(&p->answers);
	if (total && total >= sum->batches.parts_total / GAPS_LEAST) {
		page_put(page, "\nAnswers began %s after their first tokens were there, waiting for\n", DURATION(total));
		page_put_gap_rows(page, &p->answers.rows, total);
	}
	total = gaps_total(&p->gaps);
	list_for_each (phase, sum->phases, sum->n_phases)
		steps = ns_add(steps, phase->total);
	if (total && total >= steps / GAPS_LEAST) {
		page_put(page, "\nBetween steps: %s in %llu gaps", DURATION(total), LLU(p->gaps.n));
		if (p->idle)
			page_put(page, "; during %s of it there was no request", DURATION(p->idle));
		page_put(page, "\n");
		page_put_gap_rows(page, &p->gaps.rows, total);
	}
	total = gaps_total(&p->waits);
	if (!total || total < steps / GAPS_LEAST)
		return;
	page_put(page, "\nWithin steps: the calling thread waited %s in %llu steps\n", DURATION(total), LLU(p->waits.n));
	page_put_gap_rows(page, &p->waits.rows, total);
}

/* Totals of the process, in steps and between them. */
static void page_put_process_totals(const struct page *page, const struct process *p)
{
	unsigned int order[STATES];
	size_t n;

	if (p->has_sched) {
		n = page_order(p->sched, NULL, STATES, order);
		page_put(page, "\nAll threads:");
		for (size_t i = 0; i < n && i < 6; i++)
			page_put(page, "%s %s %.1f %%", i ? "," : "", words_state(order[i]),
				100 * page_share(p->sched[order[i]], p->sched_total));
		page_put(page, "\n  switches: %llu voluntary, %llu involuntary\n", LLU(p->switches_voluntary),
			LLU(p->switches_involuntary));
	}
	if (p->has_faults)
		page_put(page, "Page faults: %llu minor (%s), %llu major (%s)\n", LLU(p->faults_minor),
			DURATION(p->fault_minor_ns), LLU(p->faults_major), DURATION(p->fault_major_ns));
	if (p->has_memory)
		page_put(page, "Memory: at most %.1f MB resident", (double)p->rss_peak / (1 << 20));
	if (p->has_pages)
		page_put(page, ", %llu pages allocated, %llu freed", LLU(p->pages_allocated), LLU(p->pages_freed));
	if (p->has_memory)
		page_put(page, "\n");
}

static void page_put_process(const struct page *page, const struct process *p, const struct summary *sum)
{
	page_put_process_head(page, p, sum);
	if (p->steps.len) {
		/* steps that hang come first */
		if (sum->n_open)
			page_put(page, "\nNot ended: %zu step%s\n", sum->n_open, sum->n_open == 1 ? "" : "s");
		list_for_each (open, sum->open, least_of(sum->n_open, page->slowest ?: 1))
			page_put(page, "  %s\n", words_open(page->m, p, open, SENTENCE));
		if (sum->crowd.threads)
			page_put(page, "\n%s\n", words_crowd(&sum->crowd, SENTENCE));
		if (sum->limited.threads)
			page_put(page, "\n%s\n", words_limited(sum, SENTENCE));
	}
	if (p->steps.len || p->served.len || p->served.n_exchanges) {
		page_put_latencies(page, p, sum);
		page_requests(page, p, &sum->batches);
	}
	if (p->steps.len) {
		for (size_t i = 0; i < sum->n_phases; i++)
			page_put_breakdown(page, &sum->phases[i]);
		page_put_gaps(page, p, sum);
		list_for_each (gpu, p->gpu.list, p->gpu.n)
			page_gpu(page, gpu);
		page_counts(page, &p->counts);
		page_put_slowest(page, p, sum);
	}
	if (page->brief)
		return;
	page_code(page, &sum->code);
	page_put_tally(page, "Operators", &p->ops);
	if (p->ops.len && p->left_out[SHED_OPERATORS])
		page_put(page, "  in %llu of %zu steps and in parts of some others; the rest was left out to keep within --budget\n",
			LLU(p->steps.len - p->left_out[SHED_OPERATORS]), p->steps.len);
	page_put_tally(page, "System calls", &p->syscalls);
	page_put_process_totals(page, p);
}

static void page_put_loss(const struct page *page, const struct report *r)
{
	const struct model *m = &r->model;
	uint64_t lossy = 0, unfinished = 0;
	bool lacks_faults = false;
	double coverage = 1;

	for (size_t i = 0; i < m->n_processes; i++) {
		lossy += r->summaries[i].lossy_steps;
		unfinished += r->summaries[i].unfinished;
	}
	for (size_t i = 0; i < m->n_windows; i++) {
		lacks_faults |= m->windows[i].lacks_faults;
		if (m->windows[i].coverage >= 0 && m->windows[i].coverage < coverage)
			coverage = m->windows[i].coverage;
	}
	page_put(page, "Loss: ");
	if (!m->lost_records && !lossy) {
		page_put(page, "none");
	} else {
		page_put(page, "%llu records", LLU(m->lost_records));
		for (size_t i = 0; i < m->lost.len; i++)
			page_put(page, "%s%llu %s%s", i ? ", " : " (", LLU(m->lost.rows[i].count),
				NAME(m, m->lost.rows[i].name), i + 1 == m->lost.len ? ")" : "");
		if (lossy)
			page_put(page, "; %llu steps have gaps in the timeline, none in their times", LLU(lossy));
		else
			page_put(page, "; none of them within a step of these files");
	}
	if (coverage < 1)
		page_put(page, "; coverage %.4f %%", coverage * 100);
	if (unfinished)
		page_put(page, "; %llu steps had not ended", LLU(unfinished));
	page_put(page, "\n");
	if (lacks_faults)
		page_put(page,
			"Not recorded: page faults, which the kernel did not show; their time is in that of other states\n");
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
static void page_put_triggers(const struct page *page)
{
	const struct model *m = page->m;

	for (size_t i = 0; i < m->n_windows; i++) {
		uint32_t trigger = m->windows[i].trigger;
		bool told = !trigger;

		for (size_t k = 0; k < i; k++)
			told |= m->windows[k].trigger == trigger;
		if (!told)
			page_put(page, "Trigger: %s\n\n", text_printable((char[160]){ 0 }, 160, model_text(m, trigger)));
	}
}

void report_brief(const struct report *r, FILE *out)
{
	const struct page page = { .m = &r->model, .out = out, .slowest = BRIEF_SLOWEST, .utf8 = terminal_is_utf8(), .brief = true };

	for (size_t i = 0; i < r->model.n_processes; i++) {
		if (!process_empty(r->model.processes[i]))
			page_put_process(&page, r->model.processes[i], &r->summaries[i]);
	}
	page_put_loss(&page, r);
}

void report_text(const struct report *r, uint32_t slowest, FILE *out)
{
	const struct model *m = &r->model;
	const struct page page = { .m = m, .out = out, .slowest = slowest, .utf8 = terminal_is_utf8() };
	const char *between = "";

	page_put_triggers(&page);
	page_stragglers(&page, &r->stragglers);
	for (size_t i = 0; i < m->n_processes; i++) {
		if (process_empty(m->processes[i]))
			continue;
		page_put(&page, "%s", between);
		between = "\n";
		page_put_process(&page, m->processes[i], &r->summaries[i]);
	}
	/* what other programs wrote: for each event its lines, and where their time went */
	list_for_each (f, m->families, m->n_families) {
		page_put(&page, "\n%s%s%s: %llu line%s", NAME(m, f->event), f->source ? ", " : "", NAME(m, f->source),
			LLU(f->lines), f->lines == 1 ? "" : "s");
		if (f->total.n)
			page_put(&page, ", p50 %s, p90 %s, p99 %s, %s in all", DURATION(f->total.p50),
				DURATION(f->total.p90), DURATION(f->total.p99), DURATION(f->total.sum));
		page_put_tally(&page, "Stages", &f->stages);
	}
	page_put(&page, "\n");
	page_code_left_out(&page);
	page_put_loss(&page, r);
}
