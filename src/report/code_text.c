// SPDX-License-Identifier: BSD-2-Clause
/* On a terminal: the functions in which threads ran and waited. */
#include <math.h>
#include <string.h>

#include "report/code_inner.h"
#include "report/text_page.h"
#include "report/words.h"
#include "util/text.h"

#define ROWS_SHOWN 10
#define WAIT_ROWS_SHOWN 3
#define DIFF_ROWS_SHOWN 5
#define NAME_WIDTH 46
/* Functions with a smaller share are left out. */
#define LEAST_SHARE 0.005

static const char *printable(char buf[64], const struct page *page, uint32_t name)
{
	return name ? text_printable(buf, 64, model_text(page->m, name)) : "";
}

/* Pads by characters, not bytes; what is longer takes its room. */
static void put_padded(const struct page *page, const char *text, int width)
{
	int columns = 0;

	for (const char *p = text; *p; p++)
		columns += ((unsigned char)*p & 0xc0) != 0x80;
	fprintf(page->out, "%s%*s", text, columns < width ? width - columns : 0, "");
}

static void put_function(const struct page *page, const struct code_row *row)
{
	char name[FUNCTION_MAX];

	fputs("  ", page->out);
	put_padded(page, words_function(page->m, row->function, row->line, name), NAME_WIDTH);
}

static void put_samples(const struct page *page, const struct code_table *table)
{
	char name[64], title[128];
	double all = (double)table->ns;

	if (table->phase)
		snprintf(title, sizeof(title), "Code of %s: %llu sample%s", printable(name, page, table->phase),
			(unsigned long long)table->samples, table->samples == 1 ? "" : "s");
	else
		snprintf(title, sizeof(title), "Code outside of steps: %llu sample%s",
			(unsigned long long)table->samples, table->samples == 1 ? "" : "s");
	fprintf(page->out, "\n%-*s%10s%10s\n", NAME_WIDTH + 2, title, "self", "total");
	for (size_t i = 0; i < table->n_rows && i < ROWS_SHOWN; i++) {
		const struct code_row *row = &table->rows[i];

		if (row->self < LEAST_SHARE * all)
			break;
		put_function(page, row);
		fprintf(page->out, "%8.2f %%%8.2f %% ", 100 * row->self / all, 100 * row->total / all);
		page_bar(page, row->self / all, PAGE_BAR / 2);
		fputc('\n', page->out);
	}
}

/* Where it was preempted says nothing about a thread. */
static bool wait_is_shown(const struct code_table *table)
{
	return table->wait && table->state != ST_RUNNABLE && table->state != ST_STOPPED;
}

/* "woken by release (pool.py) of worker": whoever ended the most of it. */
static void put_waker(const struct page *page, const struct code_row *row)
{
	char function[FUNCTION_MAX], name[64];

	if (!row->by && !row->thread)
		return;
	fputs("    woken by ", page->out);
	if (row->by)
		fputs(words_function(page->m, row->by, 0, function), page->out);
	if (row->thread)
		fprintf(page->out, "%s%s", row->by ? " of " : "", printable(name, page, row->thread));
	fprintf(page->out, ": %.0f %%\n", row->held > 0 ? 100 * fmin(1, (double)row->ended / row->held) : 0);
}

static void put_waits(const struct page *page, const struct code_summary *c, uint32_t phase)
{
	bool first = true;
	char name[64], d[DURATION_MAX];

	for (size_t i = 0; i < c->n_tables; i++) {
		const struct code_table *table = &c->tables[i];

		if (table->phase != phase || !wait_is_shown(table))
			continue;
		if (first && phase)
			fprintf(page->out, "\nWaits of %s\n", printable(name, page, phase));
		else if (first)
			fprintf(page->out, "\nWaits outside of steps\n");
		first = false;
		fprintf(page->out, "  %s: %llu, %s\n", words_state(table->state), (unsigned long long)table->samples,
			words_duration(d, table->ns));
		for (size_t k = 0; k < table->n_rows && k < WAIT_ROWS_SHOWN; k++) {
			const struct code_row *row = &table->rows[k];

			if (row->held < LEAST_SHARE * (double)table->ns)
				break;
			put_function(page, row);
			fprintf(page->out, "%8.2f %%%10s\n", 100 * row->held / (double)table->ns,
				words_duration(d, (int64_t)row->held));
			put_waker(page, row);
		}
	}
}

static void put_diff_row(const struct page *page, const struct code_row *row, bool sampled)
{
	char d[DURATION_MAX], d2[DURATION_MAX], d3[DURATION_MAX];

	put_function(page, row);
	fprintf(page->out, "%10s", words_duration(d, (int64_t)row->total));
	if (sampled)
		fprintf(page->out, " %s %-8s", page->utf8 ? "±" : "+-",
			words_duration(d2, (int64_t)row->deviation));
	else
		fprintf(page->out, "%11s", "");
	fprintf(page->out, "%10s\n", words_duration(d3, (int64_t)row->held));
}

static void put_diff(const struct page *page, const struct code_diff *diff)
{
	char name[64], d[DURATION_MAX], caller[FUNCTION_MAX];

	fprintf(page->out, "\nCode of slow%s%s steps: %llu took %s more in %s", diff->phase ? " " : "",
		printable(name, page, diff->phase), (unsigned long long)diff->steps, words_duration(d, diff->part),
		words_state(diff->state));
	if (diff->samples)
		fprintf(page->out, "; %llu sample%s, usually %.1f", (unsigned long long)diff->samples,
			diff->samples == 1 ? "" : "s", diff->usual);
	if (diff->waits)
		fprintf(page->out, "; %llu wait%s", (unsigned long long)diff->waits, diff->waits == 1 ? "" : "s");
	fputc('\n', page->out);
	if (!diff->clear)
		fprintf(page->out, "  %s\n",
			diff->samples ? "these samples do not show that one function holds most of it"
				      : "no function holds most of it");
	for (size_t i = 0, shown = 0; i < diff->n_rows && shown < DIFF_ROWS_SHOWN; i++) {
		const struct code_row *row = &diff->rows[i];

		if ((i || !diff->clear) && row->held <= CODE_SIGMAS * row->held_deviation)
			continue;
		if (!shown++)
			fprintf(page->out, "%-*s%10s%11s%10s\n", NAME_WIDTH + 2, "", "more", "", "in itself");
		put_diff_row(page, row, diff->samples != 0);
		if (!i && diff->caller)
			fprintf(page->out, "    called from %s\n",
				words_function(page->m, diff->caller, diff->caller_line, caller));
		if (!i && diff->user)
			fprintf(page->out, "    for %s\n", words_function(page->m, diff->user, diff->user_line, caller));
	}
}

static void put_phase(const struct page *page, const struct code_summary *c, uint32_t phase)
{
	for (size_t i = 0; i < c->n_tables; i++) {
		if (c->tables[i].phase == phase && c->tables[i].state == STATES)
			put_samples(page, &c->tables[i]);
	}
	put_waits(page, c, phase);
}

void page_code(const struct page *page, const struct code_summary *c)
{
	for (size_t i = 0; i < c->n_tables; i++) {
		bool first = true;

		for (size_t k = 0; k < i; k++)
			first &= c->tables[k].phase != c->tables[i].phase;
		if (first)
			put_phase(page, c, c->tables[i].phase);
	}
	for (size_t i = 0; i < c->n_diffs; i++)
		put_diff(page, &c->diffs[i]);
}

void page_code_left_out(const struct page *page)
{
	const struct code_tree *t = &page->m->code;

	if (t->unknown)
		fprintf(page->out, "Stacks: %llu lines have one that is not in the file\n", (unsigned long long)t->unknown);
	if (t->cut_deep)
		fprintf(page->out, "Stacks: of %llu that were deeper, only the innermost %d calls are told apart\n",
			(unsigned long long)t->cut_deep, STACK_DEPTH_MAX);
	if (t->cut_nodes)
		fprintf(page->out, "Stacks: %llu were too many, and are `[left out]`\n", (unsigned long long)t->cut_nodes);
	if (t->cut_rows)
		fprintf(page->out, "Stacks: %llu samples and waits behind the first %u lines with a step count for no slow step\n",
			(unsigned long long)t->cut_rows, STACK_ROWS_MAX);
}
