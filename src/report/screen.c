// SPDX-License-Identifier: BSD-2-Clause
#include "report/screen.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/canvas.h"

#define NAME_COLUMNS 16
#define VALUE_COLUMNS 9
#define BARS_FROM 60 /* columns: a narrower screen has no room for bars */
#define STATE_ROWS_MIN 3
#define ROWS_MAX 10 /* of operators and system calls, each */
#define SLOW_LINES 3

struct page {
	struct canvas c;
	const struct screen *s;
	const struct live_frame *f;
	/* of the interval, or of the run */
	const struct live_sums *sums;
	double seconds;
};

static double share(int64_t part, int64_t whole)
{
	return whole > 0 ? (double)part / (double)whole : 0;
}

static int64_t wall(const struct live_sums *sums)
{
	return ns_add(sums->total, sums->between);
}

/* ---- the head ---- */

/* The next of some facts, which follow one another over as many lines as they need. */
static void __attribute__((format(printf, 2, 3))) put_fact(struct page *p, const char *fmt, ...)
{
	struct canvas *c = &p->c;
	char text[128];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (c->column && c->column + 2 + canvas_width(c, text) > c->width)
		canvas_line(c);
	canvas_put(c, "%s%s", c->column ? "  " : "", text);
}

static void put_rate(struct page *p, const char *name, uint64_t n)
{
	double rate = p->seconds > 0 ? (double)n / p->seconds : 0;

	put_fact(p, "%s %.*f", name, rate < 99.95 ? 1 : 0, rate);
}

static void put_title(struct page *p)
{
	unsigned long long s = (unsigned long long)(p->f->now / 1000000000);
	const struct screen *sc = p->s;
	struct canvas *c = &p->c;
	char elapsed[32];

	if (s >= 3600)
		snprintf(elapsed, sizeof(elapsed), " %llu:%02llu:%02llu", s / 3600, s / 60 % 60, s % 60);
	else
		snprintf(elapsed, sizeof(elapsed), " %llu:%02llu", s / 60, s % 60);
	canvas_style(c, STYLE_REVERSE);
	/* the time stays in sight */
	c->width -= c->width > strlen(elapsed) ? (unsigned int)strlen(elapsed) : 0;
	canvas_text(c, sc->target ? sc->target : "");
	canvas_put(c, ", %s", sc->engines ? sc->engines : "no engine found");
	if (sc->ops)
		canvas_text(c, ", with operators");
	canvas_goto(c, c->width);
	c->width = sc->width;
	canvas_text(c, elapsed);
	canvas_line(c);
}

static void put_head(struct page *p)
{
	const struct live_frame *f = p->f;
	const struct live_sums *sums = p->sums;
	char d[3][DURATION_MAX];

	put_rate(p, "steps/s", sums->steps);
	if (f->run.tokens)
		put_rate(p, "tokens/s", sums->tokens);
	if (sums->prompt_tokens)
		put_rate(p, "prompt tokens/s", sums->prompt_tokens);
	put_fact(p, "steps %llu", (unsigned long long)f->run.steps);
	if (f->run.tokens)
		put_fact(p, "tokens %llu", (unsigned long long)f->run.tokens);
	if (f->workers)
		put_fact(p, "workers %u", f->workers);
	if (f->processes > 1)
		put_fact(p, "engines %zu", f->processes);
	if (f->run.idle)
		put_fact(p, "idle %s", words_duration(d[0], f->run.idle));
	put_fact(p, "lost %llu", (unsigned long long)f->lost);
	if (f->last_lost && !p->s->run_only)
		put_fact(p, "(%llu just now)", (unsigned long long)f->last_lost);
	canvas_line(&p->c);
	if (f->tpot.n)
		put_fact(p, "time per output token, %s: p50 %s, p90 %s, p99 %s",
			words_duration((char[DURATION_MAX]){ 0 }, f->tpot_span),
			words_duration(d[0], f->tpot.p50), words_duration(d[1], f->tpot.p90),
			words_duration(d[2], f->tpot.p99));
	if (f->ttft)
		put_fact(p, "TTFT %s (%llu tokens)", words_duration(d[0], f->ttft),
			(unsigned long long)f->ttft_tokens);
	if (p->c.column)
		canvas_line(&p->c);
}

/* ---- the states ---- */

/* One past the states: outside of steps. */
#define BETWEEN STATES
#define STATE_ROWS (STATES + 1)

struct state_row {
	const char *name;
	int64_t last, run, workers_last, workers_run;
};

static size_t make_rows(const struct live_frame *f, struct state_row rows[STATE_ROWS])
{
	size_t n = 0, k;

	for (unsigned int i = 0; i < STATE_ROWS; i++) {
		struct state_row row = { .name = "(between steps)",
			.last = f->last.between,
			.run = f->run.between };

		if (i < STATES)
			row = (struct state_row){ words_state(i), f->last.own[i], f->run.own[i],
				f->last.workers[i], f->run.workers[i] };
		if (!row.run && !row.workers_run)
			continue;
		/* by the time over the run, so that rows keep their places */
		for (k = n++; k > 0 && rows[k - 1].run < row.run; k--)
			rows[k] = rows[k - 1];
		rows[k] = row;
	}
	return n;
}

/* Those for which there is no room become one. */
static size_t merge_rows(struct state_row *rows, size_t n, size_t max)
{
	struct state_row *rest = &rows[max - 1];

	if (n <= max)
		return n;
	for (size_t i = max; i < n; i++) {
		rest->last = ns_add(rest->last, rows[i].last);
		rest->run = ns_add(rest->run, rows[i].run);
		rest->workers_last = ns_add(rest->workers_last, rows[i].workers_last);
		rest->workers_run = ns_add(rest->workers_run, rows[i].workers_run);
	}
	rest->name = "(the rest)";
	return max;
}

static void put_share(struct page *p, int64_t part, int64_t whole)
{
	if (whole > 0)
		canvas_put(&p->c, "%7.2f %%", share(part, whole) * 100);
	else
		canvas_put(&p->c, "%*s", VALUE_COLUMNS, "-");
}

/* The columns of a row of states, or of its heading (row NULL). */
static void put_state_columns(struct page *p, const struct state_row *row)
{
	const struct live_sums *last = &p->f->last, *run = &p->f->run;
	unsigned int groups = run->workers_total ? 2 : 1;
	unsigned int columns = p->s->run_only ? 1 : 2;
	unsigned int used = NAME_COLUMNS + groups * columns * VALUE_COLUMNS, bar = 0;
	struct canvas *c = &p->c;
	char label[32], d[DURATION_MAX];

	if (p->s->width >= BARS_FROM)
		bar = (p->s->width - used) / groups - 1;
	snprintf(label, sizeof(label), "%s", words_duration(d, p->f->interval));
	for (unsigned int g = 0; g < groups; g++) {
		int64_t last_whole = g ? last->workers_total : wall(last);
		int64_t run_whole = g ? run->workers_total : wall(run);
		int64_t last_part = row ? (g ? row->workers_last : row->last) : 0;
		int64_t run_part = row ? (g ? row->workers_run : row->run) : 0;

		if (!row && p->s->run_only) {
			canvas_put(c, "%*s", VALUE_COLUMNS, g ? "workers" : "run");
		} else if (!row) {
			canvas_put(c, "%*s", VALUE_COLUMNS, g ? "workers" : label);
		} else if (p->s->run_only) {
			put_share(p, run_part, run_whole);
		} else {
			put_share(p, last_part, last_whole);
		}
		if (bar) {
			canvas_text(c, " ");
			if (row && p->s->run_only)
				canvas_bar(c, share(run_part, run_whole), bar);
			else if (row)
				canvas_bar(c, share(last_part, last_whole), bar);
			else
				canvas_goto(c, c->column + bar);
		}
		if (p->s->run_only)
			continue;
		if (row)
			put_share(p, run_part, run_whole);
		else
			canvas_put(c, "%*s", VALUE_COLUMNS, "run");
	}
	canvas_line(c);
}

static void put_states(struct page *p)
{
	struct state_row rows[STATE_ROWS];
	size_t n = make_rows(p->f, rows), room = canvas_left(&p->c);

	if (!n)
		return;
	if (p->s->height) {
		/* about half of what is left */
		room = room > 2 * STATE_ROWS_MIN ? room / 2 : STATE_ROWS_MIN;
		n = merge_rows(rows, n, room);
	}
	canvas_style(&p->c, STYLE_BOLD);
	canvas_put(&p->c, "%-*s", NAME_COLUMNS, "Time of steps");
	put_state_columns(p, NULL);
	for (size_t i = 0; i < n; i++) {
		canvas_put(&p->c, "%-*s", NAME_COLUMNS, rows[i].name);
		put_state_columns(p, &rows[i]);
	}
}

/* ---- what is below ---- */

static void put_slow(struct page *p)
{
	const struct live_frame *f = p->f;
	char text[SENTENCE_MAX + 32];

	canvas_style(&p->c, STYLE_BOLD);
	canvas_put(&p->c, "Slow steps of the last minute: ");
	if (!f->minute_slow)
		canvas_text(&p->c, "none");
	else
		canvas_put(&p->c, "%zu", f->minute_slow);
	canvas_line(&p->c);
	for (size_t i = 0; i < f->n_slow && canvas_left(&p->c); i++) {
		if (f->processes > 1)
			snprintf(text, sizeof(text), "pid %u: %s", f->slow[i].pid, f->slow[i].text);
		else
			snprintf(text, sizeof(text), "%s", f->slow[i].text);
		canvas_text(&p->c, "  ");
		canvas_wrap(&p->c, text, 4, p->s->height ? SLOW_LINES : UINT32_MAX);
		canvas_line(&p->c);
	}
}

static void put_count(struct page *p, uint64_t n, bool per_second)
{
	double v = (double)n;

	if (per_second)
		v = p->seconds > 0 ? v / p->seconds : 0;
	canvas_put(&p->c, "%10.*f", per_second && v < 99.95 ? 1 : 0, v);
}

static void put_row(struct page *p, const struct live_row *row, int64_t total)
{
	bool run = p->s->run_only;
	uint64_t n = run ? row->run_n : row->last_n;
	int64_t ns = run ? row->run_ns : row->last_ns;
	char d[DURATION_MAX];
	double per_second = p->seconds > 0 ? (double)ns / p->seconds : 0;
	struct canvas *c = &p->c;

	canvas_text(c, "  ");
	canvas_text(c, row->name);
	canvas_goto(c, p->s->width >= BARS_FROM ? 24 : 14);
	put_count(p, n, !run);
	canvas_put(c, "%10s", words_duration(d, run ? ns : (int64_t)per_second));
	canvas_put(c, "%10s", n ? words_duration(d, ns / (int64_t)n) : "");
	if (p->s->width >= BARS_FROM) {
		canvas_text(c, "  ");
		canvas_bar(c, share(ns, total), p->s->width - c->column - 1);
	}
	canvas_line(c);
}

static void put_table(struct page *p, const char *title, const struct live_rows *t)
{
	bool run = p->s->run_only;
	struct canvas *c = &p->c;
	int64_t total = 0;

	if (!t->len)
		return;
	for (size_t i = 0; i < t->len; i++)
		total = ns_add(total, run ? t->rows[i].run_ns : t->rows[i].last_ns);
	canvas_style(c, STYLE_BOLD);
	canvas_text(c, title);
	canvas_goto(c, p->s->width >= BARS_FROM ? 24 : 14);
	canvas_put(c, "%10s%10s%10s", run ? "calls" : "calls/s", run ? "time" : "time/s", "each");
	canvas_line(c);
	for (size_t i = 0; i < t->len && i < ROWS_MAX && canvas_left(c); i++) {
		if (run ? t->rows[i].run_n : t->rows[i].last_n)
			put_row(p, &t->rows[i], total);
	}
}

static void put_part(struct page *p, enum screen_part part)
{
	if (canvas_left(&p->c) < 2)
		return;
	switch (part) {
	case PART_SLOW:
		if (p->f->run.steps)
			put_slow(p);
		break;
	case PART_SYSCALLS:
		put_table(p, "System calls", &p->f->syscalls);
		break;
	case PART_OPS:
		put_table(p, "Operators", &p->f->ops);
		break;
	case PART_MAX:
		break;
	}
}

static void put_foot(struct page *p)
{
	struct canvas *c = &p->c;

	c->reserved = 0;
	while (canvas_left(c) > 1 + (p->s->message != NULL))
		canvas_line(c);
	if (p->s->message && canvas_left(c) > 1) {
		canvas_style(c, STYLE_BOLD);
		canvas_text(c, p->s->message);
		canvas_line(c);
	}
	if (p->s->keys) {
		canvas_style(c, STYLE_DIM);
		canvas_text(c, p->s->keys);
	}
	canvas_line(c);
}

char *screen_render(const struct screen *s, const struct live_frame *f, size_t *ret_len)
{
	struct page p = {
		.c = { .width = s->width, .height = s->height, .utf8 = s->utf8, .ansi = s->ansi },
		.s = s,
		.f = f,
		.sums = s->run_only ? &f->run : &f->last,
		.seconds = (double)(s->run_only ? f->now : f->interval) / 1e9,
	};

	if (s->height)
		p.c.reserved = 1 + (s->message != NULL);
	put_title(&p);
	put_head(&p);
	put_states(&p);
	for (unsigned int i = 0; i < PART_MAX; i++)
		put_part(&p, (enum screen_part)((s->first + i) % PART_MAX));
	if (s->height)
		put_foot(&p);
	if (p.c.failed || !p.c.text) {
		free(p.c.text);
		return NULL;
	}
	*ret_len = p.c.len;
	return p.c.text;
}
