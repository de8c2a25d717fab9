/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the parts of the report on a terminal. */
#ifndef INFTRACE_REPORT_TEXT_PAGE_H
#define INFTRACE_REPORT_TEXT_PAGE_H

#include <stdio.h>

#include "report/code.h"
#include "report/model.h"
#include "report/seq_summary.h"

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

#endif
