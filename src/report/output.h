/* SPDX-License-Identifier: BSD-2-Clause */
/* Helpers to write the parts of the report, on a terminal and as JSON. */
#ifndef INFTRACE_REPORT_OUTPUT_H
#define INFTRACE_REPORT_OUTPUT_H

#include <json-c/json.h>
#include <stdio.h>

#include "report/report.h"
#include "report/sentences.h"

/* The output. JSON uses only m, for names, and slowest, the number of slow steps and requests to list. */
struct page {
	const struct model *m;
	uint32_t slowest;
	FILE *out;
	bool utf8;
	bool brief; /* what fits a screen */
};

/* ---- on a terminal ---- */

#define PAGE_BAR 20

void page_put(const struct page *page, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* 0 if whole is 0. */
double page_share(int64_t part, int64_t whole);
/* A bar that is `width` columns wide for a share of 1, in eighths of a column if the terminal has them. */
void page_bar(const struct page *page, double part, int width);
/* "  name  12.34 % BAR  each" */
void page_part(const struct page *page, const char *name, int64_t part, int64_t whole, int64_t each);
/* Stores in `order` the indices whose ns or `also` is not 0, longest ns first; returns their number. `also` may be NULL. */
size_t page_order(const int64_t *ns, const int64_t *also, unsigned int n, unsigned int *order);
/* Writes the goodput and the requests in batches of a process, if there are any. */
void page_requests(const struct page *page, const struct process *p, const struct batch_summary *sum);

/* The functions of a process, if there are stacks; and what was left out of all of them. */
void page_code(const struct page *page, const struct code_summary *c);
void page_code_left_out(const struct page *page);

void page_counts(const struct page *page, const struct count_phases *c);
void page_gpu(const struct page *page, const struct gpu_phase *p);

/* Writes the groups of ranks, and how many ranks are in none. */
void page_stragglers(const struct page *page, const struct stragglers *l);

/* ---- as JSON, with json-c ---- */

/* Takes ownership of the value, and returns it. key NULL: appends it to the array o. */
struct json_object *json_put(struct json_object *o, const char *key, struct json_object *value);

/* Both return the new value, which o owns. */
struct json_object *json_put_object(struct json_object *o, const char *key);
struct json_object *json_put_array(struct json_object *o, const char *key);

/* Adds an array of objects, one for each of the n elements of a list; the body fills in `one` from the element `x`. */
#define json_put_list(o, key, one, x, list, n)                                                       \
	for (struct json_object *one##_in = json_put_array(o, key), *one; one##_in; one##_in = NULL) \
		for (typeof(*(list)) *x = (list); x && (size_t)(x - (list)) < (n); x++)              \
			if ((one = json_put_object(one##_in, NULL)))

/* Adds nothing for NULL. */
void json_put_text(struct json_object *o, const char *key, const char *text);
/* A name of the model's; nothing for 0. */
void json_put_name(const struct page *page, struct json_object *o, const char *key, uint32_t name);
void json_put_u64(struct json_object *o, const char *key, uint64_t v);
/* format: of a double. */
void json_put_number(struct json_object *o, const char *key, double v, const char *format);
#define json_put_double(o, key, v) json_put_number(o, key, v, "%.6g")
/* Nanoseconds as microseconds with three decimals, exactly. */
void json_put_us(struct json_object *o, const char *key, int64_t ns);
/* {"total": ..., "cpu": ...} in microseconds. */
void json_put_states(struct json_object *o, const char *key, const int64_t *ns, int64_t total);
/* {"count": ..., "p50": ...} in microseconds; nothing without values. */
void json_put_percentiles(struct json_object *o, const char *key, const struct percentiles *p);

/* Compact. The object owns the text. */
const char *json_text(struct json_object *o, size_t *ret_len);

/* Adds "batch_requests", and "goodput" with --slo, if there is any. */
void json_put_requests(const struct page *page, struct json_object *o, const struct process *p,
	const struct batch_summary *sum);

/*
 * "requests_plot", which the page draws: {"count": all, "parts": [NAME, ...], "rows": [[number, sequence, recording,
 * start, total, to the first token or -1, prompt tokens, output tokens, flags, part, ...], ...], "text": {row:
 * sentence}}, in milliseconds; the first is at 0. Of many requests only the slowest and a selection of the others.
 * Nothing without any.
 */
void json_put_requests_plot(struct json_object *o, const struct model *m, const struct process *p, const struct batch_summary *sum);

/*
 * "plot": {"phase": NAME, "rows": [[t, steps, p25, p50, p75], ...], "slow": [{t, y, state, text}, ...], "dt": width,
 * "own": [[share per state], ...], "workers": ...}: times are milliseconds, y and the percentiles are those of one
 * step with the pause before it; shares are thousandths, with states in the order of record.h. Nothing without steps.
 */
void json_put_plot(const struct page *page, struct json_object *o, const struct process *p, const struct summary *sum);

/* "code" and "slow_code" of a process, if there are stacks. */
void json_put_code(const struct page *page, struct json_object *o, const struct code_summary *c);
/* "code" and "second_code" of a slow step, if a function holds most of its excess in that state. */
void json_put_hot(const struct page *page, struct json_object *o, const struct process *p, const struct slow_step *slow);
/* "stacks_left_out" of the report, if there is something. */
void json_put_code_left_out(const struct page *page, struct json_object *o);
/* "flames", the trees that the page draws, if there are any. */
void json_put_flames(const struct page *page, struct json_object *o, const struct process *p, const struct code_summary *c);

/* If there are counters: the members of an operator, and the array "counters" of the phases. */
void json_put_counts(struct json_object *o, const struct count_sum *s);
void json_put_phase_counts(const struct page *page, struct json_object *o, const struct count_phases *c);
/* "gpu" of a process, if anything is known of it. */
void json_put_gpu(const struct page *page, struct json_object *o, const struct gpu_phases *g);

/* "collectives" of the report, if there are groups of ranks, and "ranks_not_compared". */
void json_put_stragglers(const struct page *page, struct json_object *o, const struct stragglers *l);

#endif
