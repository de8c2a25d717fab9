/* SPDX-License-Identifier: BSD-2-Clause */
/* What the parts of the report are written with, on a terminal and as JSON. */
#ifndef INFTRACE_REPORT_OUTPUT_H
#define INFTRACE_REPORT_OUTPUT_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "report/summary.h"

/* Set by any of these functions that found no memory; they may then return NULL, which they also
 * accept. */
struct json_build {
	bool failed;
};

struct json_object *json_new_object(struct json_build *b);
struct json_object *json_new_array(struct json_build *b);

/* Takes over value. */
void json_put(
	struct json_build *b, struct json_object *o, const char *key, struct json_object *value);
void json_append(struct json_build *b, struct json_object *array, struct json_object *value);

void json_put_text(struct json_build *b, struct json_object *o, const char *key, const char *text);
void json_put_u64(struct json_build *b, struct json_object *o, const char *key, uint64_t v);
void json_put_double(struct json_build *b, struct json_object *o, const char *key, double v);
/* Nanoseconds as microseconds with three decimals, exactly. */
void json_put_us(struct json_build *b, struct json_object *o, const char *key, int64_t ns);

/* Compact. The object owns the text; NULL without memory. */
const char *json_text(struct json_build *b, struct json_object *o, size_t *ret_len);

/* ---- Parts of the report's JSON. ---- */

/* {"total": ..., "cpu": ...} in microseconds. */
struct json_object *object_states(struct json_build *b, const int64_t *ns, int64_t total);

/* {"count": ..., "p50": ...} in microseconds; nothing without values. */
void object_percentiles(
	struct json_build *b, struct json_object *o, const char *key, const struct percentiles *p);

/* A step with its verdict. */
struct json_object *object_step(struct json_build *b, const struct model *m,
	const struct process *p, const struct step *s, const struct cause *c);

/* ---- Shared by the parts of the report on a terminal. ---- */

#define PAGE_BAR 20

struct page {
	const struct model *m;
	FILE *out;
	bool utf8;
};

/* 0 if whole is 0. */
double page_share(int64_t part, int64_t whole);
/* A bar that is `width` columns wide for a share of 1, in eighths of a column if the terminal has them. */
void page_bar(const struct page *page, double part, int width);
/* A row of a table; nothing without values. */
void page_percentiles(const struct page *page, const char *name, const struct percentiles *p);

/* For the requests in batches of a process, if there are any: rows of its table, and the rest. */
void page_requests(const struct page *page, const struct process *p, const struct seq_summary *sum, uint32_t slowest);

/* The functions of a process, if there are stacks; and what was left out of all of them. */
void page_code(const struct page *page, const struct code_summary *c);
void page_code_left_out(const struct page *page);

/* ---- The requests in batches as JSON: docs/report.md. ---- */

/* Adds "batch_requests", and "goodput" with --slo, if there is any. */
void seq_put(struct json_build *b, struct json_object *o, const struct process *p, const struct seq_summary *sum,
	uint32_t slowest);

/*
 * What the page draws: {"count": all, "parts": [NAME, ...], "rows": [[number, sequence, recording, start, total, to the
 * first token or -1, prompt tokens, output tokens, flags, part, ...], ...], "text": {row: sentence}}, in milliseconds;
 * the first is at 0. Of many requests only the slowest and a selection of the others. NULL: there are none, or there is
 * no memory (then b says so).
 */
struct json_object *seq_plot_object(struct json_build *b, const struct process *p, const struct seq_summary *sum);

/* ---- The functions in which threads ran and waited, as objects of JSON. ---- */

/* "code" and "slow_code" of a process, if there are stacks. */
void code_put(struct json_build *b, struct json_object *o, const struct model *m, const struct code_summary *c);
/* "code" and "second_code" of a slow step, if a function holds most of its excess in that state. Returns 0 or -ENOMEM. */
int code_put_hot(struct json_build *b, struct json_object *o, const struct model *m, const struct process *p,
	const struct slow_step *slow);
/* "stacks_left_out" of the report, if there is something. */
void code_put_left_out(struct json_build *b, struct json_object *o, const struct model *m);

/* The trees that the page draws; NULL if there are none. */
struct json_object *code_flames(
	struct json_build *b, const struct model *m, const struct process *p, const struct summary *sum);

#endif
