// SPDX-License-Identifier: BSD-2-Clause
/* The page: page.html with the report's JSON and the plots in it. */
#include <stdio.h>
#include <string.h>

#include "report/output.h"

/* ---- what is drawn ---- */

#define ROWS_MAX 600
#define SLOW_MAX 400
#define COLUMNS_MAX 240

static void array_append_number(struct json_object *array, double v)
{
	json_put_number(array, NULL, v, "%.7g");
}

static double ns_to_ms(int64_t ns)
{
	return (double)ns / 1e6;
}

struct point {
	int64_t at, waited;
};

/* The value that is plotted for a step: whoever waits for a token waits for the pause before it as well. */
static struct point step_plot_point(const struct process *p, size_t i)
{
	int64_t gap = steps_get(&p->steps, i, STEP_GAP), total = steps_get(&p->steps, i, STEP_TOTAL);

	return (struct point){
		.at = steps_get(&p->steps, i, STEP_AT),
		.waited = gap > 0 && gap <= PAUSE_NS ? ns_add(gap, total) : total,
	};
}

ORDER(compare_at, struct point, RISING(at))

/* The steps of the phase by time, merged so that there are at most ROWS_MAX rows. */
static void put_rows(struct json_object *rows, const struct process *p, uint32_t phase)
{
	struct point *points = xcalloc(p->steps.len, sizeof(*points));
	int64_t *values = xcalloc(p->steps.len, sizeof(*values));
	struct json_object *row;
	size_t n = 0, each, len;

	for (size_t i = 0; i < p->steps.len; i++) {
		if (steps_get(&p->steps, i, STEP_PHASE) == phase && !steps_get(&p->steps, i, STEP_UNFINISHED))
			points[n++] = step_plot_point(p, i);
	}
	list_sort(points, n, compare_at);
	each = (n + ROWS_MAX - 1) / ROWS_MAX;
	for (size_t i = 0; i < n; i += len) {
		len = n - i < each ? n - i : each;
		row = json_put_array(rows, NULL);
		for (size_t k = 0; k < len; k++)
			values[k] = points[i + k].waited;
		percentiles_of(values, len);
		array_append_number(row, ns_to_ms(points[i + len / 2].at));
		array_append_number(row, (double)len);
		array_append_number(row, ns_to_ms(values[len / 4]));
		array_append_number(row, ns_to_ms(values[len / 2]));
		array_append_number(row, ns_to_ms(values[len - 1 - len / 4]));
	}
	free(points);
	free(values);
}

static void put_slow_points(const struct page *page, struct json_object *array, const struct process *p,
	const struct summary *sum, uint32_t phase)
{
	struct json_object *o;
	struct point at;

	for (size_t i = 0, n = 0; i < sum->n_slow && n < SLOW_MAX; i++) {
		const struct slow_step *slow = &sum->slow[i];

		if ((uint32_t)steps_get(&p->steps, slow->step, STEP_PHASE) != phase)
			continue;
		n++;
		at = step_plot_point(p, slow->step);
		o = json_put_object(array, NULL);
		json_put_double(o, "t", ns_to_ms(at.at));
		json_put_double(o, "y", ns_to_ms(at.waited));
		json_put_text(o, "state", slow->gap ? "between" : words_state(slow->cause.state));
		json_put_text(o, "text", words_slow(page->m, p, slow, SENTENCE));
	}
}

/* Time per state in columns of equal width; a step is divided among those in which it ran. */
struct columns {
	size_t n;
	int64_t start;
	double width;
	double *ns; /* n times STATES */
};

/* states: STEP_OWN or STEP_WORKERS. */
static void columns_add_step(struct columns *c, const struct steps *s, size_t step, enum step_column states)
{
	double from = (double)(steps_get(s, step, STEP_AT) - c->start) / c->width;
	double to = (double)(steps_end(s, step) - c->start) / c->width;
	size_t first = from < (double)c->n ? (size_t)from : c->n - 1;
	size_t last = to < (double)c->n ? (size_t)to : c->n - 1;

	for (size_t i = first; i <= last; i++) {
		double lo = from > (double)i ? from : (double)i;
		double hi = to < (double)(i + 1) ? to : (double)(i + 1);
		double part = first == last ? 1 : (hi - lo) / (to - from);

		for (unsigned int k = 0; k < STATES; k++)
			c->ns[i * STATES + k] += part * (double)steps_get(s, step, states + k);
	}
}

/* Thousandths, rounded; an empty array for a column in which nothing ran. */
static void put_columns(struct json_object *array, const struct columns *c)
{
	struct json_object *column;

	for (size_t i = 0; i < c->n; i++) {
		const double *ns = c->ns + i * STATES;
		double total = 0;

		for (unsigned int k = 0; k < STATES; k++)
			total += ns[k];
		column = json_put_array(array, NULL);
		for (unsigned int k = 0; k < STATES && total > 0; k++)
			array_append_number(column, (double)(int)(ns[k] * 1000 / total + 0.5));
	}
}

static void put_breakdown_plot(struct json_object *o, const struct process *p)
{
	struct columns c = { 0 };
	int64_t end = 0;
	bool workers = false;

	c.start = INT64_MAX;
	for (size_t i = 0; i < p->steps.len; i++) {
		if (steps_get(&p->steps, i, STEP_AT) < c.start)
			c.start = steps_get(&p->steps, i, STEP_AT);
		if (steps_end(&p->steps, i) > end)
			end = steps_end(&p->steps, i);
		workers |= steps_get(&p->steps, i, STEP_WORKERS_TOTAL) != 0;
	}
	c.n = p->steps.len < COLUMNS_MAX ? p->steps.len : COLUMNS_MAX;
	c.width = (double)(end - c.start) / (double)c.n;
	if (c.width < 1)
		c.width = 1;
	c.ns = xcalloc(c.n * STATES, sizeof(*c.ns));
	for (size_t i = 0; i < p->steps.len; i++)
		columns_add_step(&c, &p->steps, i, STEP_OWN);
	json_put_double(o, "t0", ns_to_ms(c.start));
	json_put_double(o, "dt", c.width / 1e6);
	put_columns(json_put_array(o, "own"), &c);
	if (workers) {
		memset(c.ns, 0, c.n * STATES * sizeof(*c.ns));
		for (size_t i = 0; i < p->steps.len; i++)
			columns_add_step(&c, &p->steps, i, STEP_WORKERS);
		put_columns(json_put_array(o, "workers"), &c);
	}
	free(c.ns);
}

void json_put_plot(const struct page *page, struct json_object *o, const struct process *p, const struct summary *sum)
{
	size_t decode = list_find(sum->n_phases, i, !strcmp(model_text(page->m, sum->phases[i].phase), "decode"));
	uint32_t phase;

	if (!sum->n_phases)
		return;
	/* decode, or else the phase that took longest */
	phase = sum->phases[decode < sum->n_phases ? decode : 0].phase;
	o = json_put_object(o, "plot");
	json_put_text(o, "phase", model_text(page->m, phase));
	put_rows(json_put_array(o, "rows"), p, phase);
	put_slow_points(page, json_put_array(o, "slow"), p, sum, phase);
	put_breakdown_plot(o, p);
}

/* ---- the page ---- */

/* The files as they are, each followed by a NUL. */
#define EMBED(name, file)                         \
	__asm__(".section .rodata\n"              \
		".global " #name "\n" #name ":\n" \
		".incbin \"" file "\"\n"          \
		".byte 0\n"                       \
		".previous\n");                   \
	extern const char name[]

EMBED(report_page, "report/page.html");
EMBED(report_flames, "report/flame.js");

/* Placeholders in the page, in this order. */
#define DATA_PLACE "@DATA@"
#define FLAMES_PLACE "@FLAMES@"

/* Copies the page up to the placeholder and skips it. place NULL: copies the rest. */
static char *page_copy_until(char *out, const char **page, const char *place)
{
	const char *end = place ? strstr(*page, place) : *page + strlen(*page);

	memcpy(out, *page, (size_t)(end - *page));
	out += end - *page;
	*page = end + (place ? strlen(place) : 0);
	return out;
}

char *report_html(const struct report *r, uint32_t slowest, size_t *ret_len)
{
	struct json_object *data = report_object(r, slowest, true);
	const char *rest = report_page, *text;
	char *html, *out;
	size_t len;

	text = json_text(data, &len);
	html = xmalloc(strlen(report_page) + strlen(report_flames) + 6 * len);
	out = page_copy_until(html, &rest, DATA_PLACE);
	/* Whatever the strings contain, no "</script>" or "<!--" can end or hide the element around them: outside of
	 * strings JSON has none of these characters. */
	for (size_t i = 0; i < len; i++) {
		if (memchr("<>&", text[i], 3))
			out += sprintf(out, "\\u%04x", text[i]);
		else
			*out++ = text[i];
	}
	out = page_copy_until(out, &rest, FLAMES_PLACE);
	out = stpcpy(out, report_flames);
	out = page_copy_until(out, &rest, NULL);
	*ret_len = (size_t)(out - html);
	json_object_put(data);
	return html;
}
