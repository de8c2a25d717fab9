// SPDX-License-Identifier: BSD-2-Clause
#include "top/screen.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "schema/left_out.h"
#include "util/alloc.h"
#include "util/fmt.h"
#include "util/text.h"

/* ---- lines of a fixed width ---- */

#define PUT_MAX 1024

static void canvas_append(struct canvas *c, const char *bytes, size_t len)
{
	if (c->len + len >= c->size) {
		c->size = 2 * (c->len + len + 1);
		c->text = xreallocarray(c->text, c->size, 1);
	}
	memcpy(c->text + c->len, bytes, len);
	c->len += len;
	c->text[c->len] = '\0';
}

static bool canvas_is_full(const struct canvas *c)
{
	return c->height && c->row + c->reserved >= c->height;
}

unsigned int canvas_left(const struct canvas *c)
{
	if (!c->height)
		return UINT_MAX;
	return canvas_is_full(c) ? 0 : c->height - c->reserved - c->row;
}

/* ECMA-48, 8.3.117 (SGR) */
void canvas_style(struct canvas *c, enum canvas_style style)
{
	static const char *const codes[] = {
		[STYLE_BOLD] = "\x1b[1m",
		[STYLE_REVERSE] = "\x1b[7m",
		[STYLE_DIM] = "\x1b[2m",
	};

	if (!c->ansi || canvas_is_full(c))
		return;
	canvas_append(c, codes[style], strlen(codes[style]));
	c->styled = true;
}

/* Writes a character of `columns` columns, which must not control the terminal. Drops it if it does not fit the line. */
static void put_char(struct canvas *c, const char *bytes, size_t len, unsigned int columns)
{
	if (canvas_is_full(c) || c->column + columns > c->width)
		return;
	canvas_append(c, bytes, len);
	c->column += columns;
}

struct glyph {
	int bytes;
	unsigned int columns; /* 0: unprintable, shown as "?" in one column */
};

static struct glyph next_glyph(const struct canvas *c, const char *text)
{
	int n = fmt_utf8_scan((const unsigned char *)text, strlen(text)), columns;
	uint32_t character;

	if (n <= 0)
		return (struct glyph){ .bytes = n ? -n : 1 };
	if (n == 1)
		return (struct glyph){ .bytes = 1, .columns = *text >= ' ' && *text < 0x7f };
	character = text_decode((const unsigned char *)text, n);
	/* characters that take no column are shown as "?", since they could stack up */
	columns = c->utf8 && text_is_shown(character) ? wcwidth((wchar_t)character) : 0;
	return (struct glyph){ .bytes = n, .columns = columns > 0 ? (unsigned int)columns : 0 };
}

static void put_bytes(struct canvas *c, const char *text, size_t len)
{
	for (const char *end = text + len; text < end;) {
		struct glyph g = next_glyph(c, text);

		if (g.columns)
			put_char(c, text, (size_t)g.bytes, g.columns);
		else
			put_char(c, "?", 1, 1);
		text += g.bytes;
	}
}

void canvas_text(struct canvas *c, const char *text)
{
	put_bytes(c, text, strlen(text));
}

unsigned int canvas_width(const struct canvas *c, const char *text)
{
	unsigned int columns = 0;

	while (*text) {
		struct glyph g = next_glyph(c, text);

		columns += g.columns ? g.columns : 1;
		text += g.bytes;
	}
	return columns;
}

void canvas_put(struct canvas *c, const char *fmt, ...)
{
	char text[PUT_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	canvas_text(c, text);
}

void canvas_goto(struct canvas *c, unsigned int column)
{
	while (c->column < column && c->column < c->width && !canvas_is_full(c))
		put_char(c, " ", 1, 1);
}

void canvas_bar(struct canvas *c, double share, unsigned int width)
{
	static const char *const eighths[] = { "", "▏", "▎", "▍", "▌", "▋", "▊", "▉" };
	unsigned int end = c->column + width, n;

	share = share > 0 ? share : 0;
	n = (unsigned int)((share < 1 ? share : 1) * width * 8 + 0.5);
	if (!c->utf8)
		n = (n + 4) / 8 * 8;
	for (; n >= 8; n -= 8)
		put_char(c, c->utf8 ? "█" : "#", c->utf8 ? strlen("█") : 1, 1);
	if (n)
		put_char(c, eighths[n], strlen(eighths[n]), 1);
	canvas_goto(c, end);
}

/* How many bytes fit into this many columns: up to a blank, if there is one. */
static size_t wrap_at(const struct canvas *c, const char *text, unsigned int columns)
{
	unsigned int used = 0;
	size_t blank = 0, at = 0;

	while (text[at]) {
		struct glyph g = next_glyph(c, text + at);

		used += g.columns ? g.columns : 1;
		if (text[at] == ' ')
			blank = at;
		if (used > columns)
			return blank ? blank : at;
		at += (size_t)g.bytes;
	}
	return at;
}

void canvas_wrap(struct canvas *c, const char *text, unsigned int indent)
{
	while (*text && !canvas_is_full(c)) {
		size_t n = wrap_at(c, text, c->width > c->column ? c->width - c->column : 0);

		if (!n) /* not even one character fits: it is cut */
			n = strlen(text);
		put_bytes(c, text, n);
		text += n;
		text += strspn(text, " ");
		if (!*text)
			return;
		canvas_line(c);
		canvas_goto(c, indent);
	}
}

void canvas_line(struct canvas *c)
{
	if (canvas_is_full(c))
		return;
	if (!c->ansi) {
		while (c->len && c->text[c->len - 1] == ' ')
			c->len--;
		canvas_append(c, "\n", 1);
	} else {
		if (c->styled)
			canvas_append(c, "\x1b[0m", 4);
		/* wipes the rest of the line, unless the cursor is on its last column */
		if (c->column < c->width)
			canvas_append(c, "\x1b[K", 3);
		/* a newline after the last line would scroll */
		if (!c->height || c->row + 1 < c->height)
			canvas_append(c, "\r\n", 2);
	}
	c->styled = false;
	c->column = 0;
	c->row++;
}

/* ---- what is on the screen ---- */

#define WIDE_FROM 60 /* columns: a narrower screen has no bars */
#define NAMES 24     /* the first column of a table */
#define WIDE_NAMES 40
#define WIDE_NAMES_FROM 80
#define STATE_ROWS_MIN 3
/* rows of operators and of system calls; more if the number of lines is unlimited */
#define ROWS_MAX 10
#define ROWS_MAX_TEXT 20
#define SHOWN_MIN 0.00005 /* a state with a smaller share would show as 0.00 % */

struct screen_page {
	struct canvas c;
	const struct screen *s;
	const struct live_frame *f;
	/* of the interval, or of the run */
	const struct live_sums *sums;
	double seconds;
	bool wide;
	int name_columns, value_columns; /* of the table of states */
	unsigned int first_column;       /* the width of the first one of another table, if wide */
};

static double time_fraction(int64_t part, int64_t whole)
{
	return whole > 0 ? (double)part / (double)whole : 0;
}

static int64_t sums_wall_time(const struct live_sums *sums)
{
	return ns_add(sums->total, sums->between);
}

/* ---- the head ---- */

/* Adds a fact to a list that takes as many lines as it needs. */
static void __attribute__((format(printf, 2, 3))) put_fact(struct screen_page *p, const char *fmt, ...)
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

static void put_rate(struct screen_page *p, const char *name, uint64_t n)
{
	double rate = p->seconds > 0 ? (double)n / p->seconds : 0;

	put_fact(p, "%s %.*f", name, rate < 99.95 ? 1 : 0, rate);
}

static void put_title(struct screen_page *p)
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
	/* the elapsed time stays visible */
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

static void put_percentiles(struct screen_page *p, const struct percentiles *of)
{
	put_fact(p, "p50 %s", DURATION(of->p50));
	put_fact(p, "p90 %s", DURATION(of->p90));
	put_fact(p, "p99 %s", DURATION(of->p99));
}

static void put_serving(struct screen_page *p, const struct live_process *serving)
{
	char said[PHRASE_MAX];

	if (!p->s->run_only)
		put_fact(p, "%u active, %u waiting", serving->active, serving->waiting);
	if (!p->s->run_only && *words_scheduler(serving->scheduler, said))
		put_fact(p, "scheduler: %s", said);
	if (!serving->ttft.n)
		return;
	put_fact(p, "TTFT in steps (%zu):", serving->ttft.n);
	put_percentiles(p, &serving->ttft);
}

/* The requests in batches: those of all processes together, then of each if there are several. */
static void put_batches(struct screen_page *p)
{
	const struct live_batches *b = &p->f->batches;

	if (!p->f->has_batches)
		return;
	put_fact(p, "requests:");
	put_serving(p, &b->all);
	canvas_line(&p->c);
	for (size_t i = 0; i < b->n_processes && b->n_processes > 1; i++) {
		put_fact(p, "  pid %u:", b->processes[i].pid);
		put_serving(p, &b->processes[i]);
		canvas_line(&p->c);
	}
}

/* How busy each device was; separately for each process if several use it. */
static void put_gpus(struct screen_page *p)
{
	const struct live_frame *f = p->f;

	for (size_t i = 0; i < f->n_gpus; i++) {
		const struct live_gpu *g = &f->gpus[i];
		double busy = p->s->run_only ? time_fraction(g->run, f->now) : time_fraction(g->last, g->last_of);
		bool alone = true;

		for (size_t k = 0; k < f->n_gpus; k++)
			alone &= k == i || f->gpus[k].device != g->device;
		if (alone)
			put_fact(p, "GPU %u busy %.0f %%", g->device, 100 * busy);
		else
			put_fact(p, "GPU %u (pid %u) busy %.0f %%", g->device, g->pid, 100 * busy);
	}
}

static void page_put_head(struct screen_page *p)
{
	const struct live_frame *f = p->f;
	const struct live_sums *sums = p->sums;
	char left_out[REQUESTS_TEXT_MAX], parts[SHED_TEXT_MAX];

	put_rate(p, "steps/s", sums->steps);
	if (f->run.tokens)
		put_rate(p, "tokens/s", sums->tokens);
	if (sums->prompt_tokens)
		put_rate(p, "prompt tokens/s", sums->prompt_tokens);
	put_fact(p, "steps %llu", (unsigned long long)f->run.steps);
	if (f->run.tokens)
		put_fact(p, "tokens %llu", (unsigned long long)f->run.tokens);
	if (sums->max_workers)
		put_fact(p, "workers %u", sums->max_workers);
	if (f->processes > 1)
		put_fact(p, "engines %zu", f->processes);
	if (f->run.idle)
		put_fact(p, "idle %s", DURATION(f->run.idle));
	put_gpus(p);
	if (sums->tracer_of)
		put_fact(p, "inftrace %.1f %%", 100 * time_fraction(sums->tracer, sums->tracer_of));
	if (sums->left_out)
		put_fact(p, "without %s", shed_text(sums->left_out, parts));
	put_fact(p, "lost %llu", (unsigned long long)f->lost);
	if (f->last_lost && !p->s->run_only)
		put_fact(p, "(%llu just now)", (unsigned long long)f->last_lost);
	canvas_line(&p->c);
	if (f->tpot.n) {
		put_fact(p, "time per output token (%.*f s):", f->tpot_span < LIVE_TPOT_NS, (double)f->tpot_span / 1e9);
		put_percentiles(p, &f->tpot);
	}
	if (f->ttft && !f->batches.all.ttft.n)
		put_fact(p, "TTFT in steps %s (%llu tokens)", DURATION(f->ttft),
			(unsigned long long)f->ttft_tokens);
	if (p->c.column)
		canvas_line(&p->c);
	put_batches(p);
	if (requests_left_out(&f->requests, left_out)) {
		canvas_text(&p->c, left_out);
		canvas_line(&p->c);
	}
}

/* ---- the states ---- */

#define STATE_ROWS (STATES + 1) /* time outside of steps follows the states */

/* ns[workers][run]: time of the calling thread or the workers, in the interval or the run. */
struct state_row {
	const char *name;
	int64_t ns[2][2];
};

static size_t make_rows(const struct live_frame *f, struct state_row rows[STATE_ROWS])
{
	size_t n = 0, k;

	for (unsigned int i = 0; i < STATE_ROWS; i++) {
		struct state_row row = { "(between steps)", { { f->last.between, f->run.between } } };

		if (i < STATES)
			row = (struct state_row){ words_state(i),
				{ { f->last.own[i], f->run.own[i] }, { f->last.workers[i], f->run.workers[i] } } };
		if (!row.ns[0][1] && !row.ns[1][1])
			continue;
		/* by the time over the run, so that rows keep their places */
		for (k = n++; k > 0 && rows[k - 1].ns[0][1] < row.ns[0][1]; k--)
			rows[k] = rows[k - 1];
		rows[k] = row;
	}
	return n;
}

/* Merges the rows for which there is no room into one. */
static size_t merge_rows(struct state_row *rows, size_t n, size_t max)
{
	struct state_row *rest = &rows[max - 1];

	if (n <= max)
		return n;
	for (size_t i = max; i < n; i++) {
		for (int k = 0; k < 4; k++)
			rest->ns[k / 2][k % 2] = ns_add(rest->ns[k / 2][k % 2], rows[i].ns[k / 2][k % 2]);
	}
	rest->name = "(the rest)";
	return max;
}

/* The whole that the rows' times are parts of. */
static int64_t page_whole_time(const struct screen_page *p, bool workers, bool run)
{
	const struct live_sums *sums = run ? &p->f->run : &p->f->last;

	return workers ? sums->workers_total : sums_wall_time(sums);
}

static void put_share(struct screen_page *p, int64_t part, int64_t whole)
{
	if (whole > 0)
		canvas_put(&p->c, "%*.*f %%", p->value_columns - 2, p->wide ? 2 : 1,
			time_fraction(part, whole) * 100);
	else
		canvas_put(&p->c, "%*s", p->value_columns, "-");
}

/* The shares of the calling thread or the workers, of the interval and then of the run, the first with a bar. row NULL: the
 * heading. */
static void put_shares(struct screen_page *p, const struct state_row *row, bool workers, unsigned int bar)
{
	double seconds = (double)p->f->interval / 1e9;
	char label[DURATION_MAX] = "run";

	if (!p->s->run_only && seconds < 0.8)
		words_duration(label, p->f->interval);
	else if (!p->s->run_only)
		snprintf(label, sizeof(label), "%s%.0f s", seconds < 99.5 ? "last " : "", seconds);
	for (int run = p->s->run_only; run < 2; run++) {
		const char *head = workers ? "workers" : label;
		bool first = run == p->s->run_only;
		int64_t whole = page_whole_time(p, workers, run);

		if (p->c.column + (unsigned int)p->value_columns > p->s->width)
			return;
		if (row)
			put_share(p, row->ns[workers][run], whole);
		else
			canvas_put(&p->c, "%*s", p->value_columns, first ? head : "run");
		if (!first || !bar)
			continue;
		canvas_text(&p->c, " ");
		canvas_bar(&p->c, row ? time_fraction(row->ns[workers][run], whole) : 0, bar);
	}
}

static void put_state_row(struct screen_page *p, const struct state_row *row)
{
	unsigned int groups = p->f->run.workers_total ? 2 : 1, bar = 0;
	unsigned int columns = groups * (p->s->run_only ? 1 : 2);

	canvas_put(&p->c, "%-*s", p->name_columns, row ? row->name : "Time of steps");
	if (p->wide)
		bar = (p->s->width - (unsigned int)p->name_columns -
			      columns * (unsigned int)p->value_columns) /
			      groups -
		      1;
	for (unsigned int g = 0; g < groups; g++)
		put_shares(p, row, g, bar);
	canvas_line(&p->c);
}

static bool row_shows(const struct screen_page *p, const struct state_row *row)
{
	bool shows = !p->s->height;

	for (int k = 0; k < 4; k++)
		shows |= time_fraction(row->ns[k / 2][k % 2], page_whole_time(p, k / 2, k % 2)) >= SHOWN_MIN;
	return shows;
}

static void put_states(struct screen_page *p)
{
	struct state_row rows[STATE_ROWS];
	size_t n = make_rows(p->f, rows), room = canvas_left(&p->c);

	if (!n)
		return;
	if (p->s->height) {
		/* about half of the remaining lines */
		room = room > 2 * STATE_ROWS_MIN ? room / 2 : STATE_ROWS_MIN;
		n = merge_rows(rows, n, room);
	}
	canvas_style(&p->c, STYLE_BOLD);
	put_state_row(p, NULL);
	for (size_t i = 0; i < n; i++) {
		if (row_shows(p, &rows[i]))
			put_state_row(p, &rows[i]);
	}
}

/* ---- the tables below ---- */

static void page_put_slow_steps(struct screen_page *p)
{
	const struct live_frame *f = p->f;
	char text[SENTENCE_MAX + 32];

	canvas_style(&p->c, STYLE_BOLD);
	canvas_put(&p->c, "Slow steps of the last minute: ");
	if (!f->minute_slow)
		canvas_text(&p->c, "none");
	else
		canvas_put(&p->c, "%zu%s", f->minute_slow, f->minute_more ? " and more" : "");
	canvas_line(&p->c);
	for (size_t i = 0; i < f->n_slow && canvas_left(&p->c); i++) {
		if (f->processes > 1)
			snprintf(text, sizeof(text), "pid %u: %s", f->slow[i].pid, f->slow[i].text);
		else
			snprintf(text, sizeof(text), "%s", f->slow[i].text);
		canvas_text(&p->c, "  ");
		canvas_wrap(&p->c, text, 4);
		canvas_line(&p->c);
	}
}

/* The first column of a table; a longer name is cut. */
static void page_put_name(struct screen_page *p, const char *name, unsigned int indent)
{
	unsigned int columns = p->wide ? p->first_column : p->s->width > 20 ? p->s->width - 20
							       : 0;

	canvas_goto(&p->c, indent);
	p->c.width = columns;
	canvas_text(&p->c, name);
	p->c.width = p->s->width;
	canvas_goto(&p->c, columns);
}

static void page_put_row(struct screen_page *p, const struct live_row *row, int64_t total)
{
	bool run = p->s->run_only;
	uint64_t n = run ? row->run_n : row->last_n;
	int64_t ns = run ? row->run_ns : row->last_ns;
	double per_second = p->seconds > 0 ? (double)ns / p->seconds : 0;
	double calls = run ? (double)n : p->seconds > 0 ? (double)n / p->seconds
							: 0;
	struct canvas *c = &p->c;

	page_put_name(p, row->name, 2);
	canvas_put(c, "%10.*f", !run && calls < 99.95 ? 1 : 0, calls);
	canvas_put(c, "%10s", DURATION(run ? ns : (int64_t)per_second));
	if (p->wide) {
		canvas_put(c, "%10s  ", n ? DURATION(ns / (int64_t)n) : "");
		canvas_bar(c, time_fraction(ns, total), p->s->width - c->column - 1);
	}
	canvas_line(c);
}

static void page_put_table(struct screen_page *p, const char *title, const char *of, unsigned int first_column,
	const struct live_rows *t)
{
	size_t max = p->s->height ? ROWS_MAX : ROWS_MAX_TEXT;
	bool run = p->s->run_only;
	struct canvas *c = &p->c;
	int64_t total = 0;

	if (!t->len)
		return;
	p->first_column = p->s->width < WIDE_NAMES_FROM ? NAMES : first_column;
	for (size_t i = 0; i < t->len; i++)
		total = ns_add(total, run ? t->rows[i].run_ns : t->rows[i].last_ns);
	canvas_style(c, STYLE_BOLD);
	page_put_name(p, title, 0);
	canvas_put(c, "%*s%s%10s", run ? 10 : 8, of, run ? "" : "/s", run ? "time" : "time/s");
	if (p->wide)
		canvas_put(c, "%10s", "each");
	canvas_line(c);
	for (size_t i = 0; i < t->len && i < max && canvas_left(c); i++) {
		if (run ? t->rows[i].run_n : t->rows[i].last_n)
			page_put_row(p, &t->rows[i], total);
	}
}

static void page_put_part(struct screen_page *p, enum screen_part part)
{
	if (canvas_left(&p->c) < 2)
		return;
	switch (part) {
	case PART_SLOW:
		if (p->f->run.steps)
			page_put_slow_steps(p);
		break;
	case PART_GAPS:
		page_put_table(p, "Between steps", "gaps", WIDE_NAMES, &p->f->gaps);
		break;
	case PART_SYSCALLS:
		page_put_table(p, "System calls", "calls", NAMES, &p->f->syscalls);
		break;
	case PART_OPS:
		page_put_table(p, "Operators", "calls", NAMES, &p->f->ops);
		break;
	case PART_MAX:
		break;
	}
}

static void put_foot(struct screen_page *p)
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
	struct screen_page p = {
		.c = { .width = s->width, .height = s->height, .utf8 = s->utf8, .ansi = s->ansi },
		.s = s,
		.f = f,
		.sums = s->run_only ? &f->run : &f->last,
		.seconds = (double)(s->run_only ? f->now : f->interval) / 1e9,
		.wide = s->width >= WIDE_FROM,
	};

	/* narrow: "(between steps)" and 100.0 % three times fit into 40 columns */
	p.name_columns = p.wide ? 16 : 15;
	p.value_columns = p.wide ? 9 : 8;
	if (s->height)
		p.c.reserved = 1 + (s->message != NULL);
	put_title(&p);
	page_put_head(&p);
	put_states(&p);
	for (unsigned int i = 0; i < PART_MAX; i++)
		page_put_part(&p, (enum screen_part)((s->first + i) % PART_MAX));
	if (s->height)
		put_foot(&p);
	*ret_len = p.c.len;
	return p.c.text;
}
