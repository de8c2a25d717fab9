/* SPDX-License-Identifier: BSD-2-Clause */
/* What steps, by phase, and operators cost the CPU, and whether that was bound by its memory. */
#ifndef INFTRACE_REPORT_COUNTS_H
#define INFTRACE_REPORT_COUNTS_H

#include <stddef.h>
#include <stdint.h>

#include "util/counters.h"

/* Sums over steps or calls. */
struct count_sum {
	uint64_t of, all;	   /* those with counts; and with or without */
	uint64_t n[PMU_MAX];	   /* by enum hardware_counter */
	uint64_t missed_of; /* those with COUNTER_LLC_MISSES, too */
};

#define COUNT_PHASES_MAX 16 /* of more, the others are counted as the last one */

struct count_phases {
	struct count_phase {
		uint32_t phase; /* a name */
		struct count_sum sum;
	} list[COUNT_PHASES_MAX];
	size_t n;
};

struct json_build;
struct json_node;
struct json_object;
struct model;
struct page;

/* Adds what the line of a step says; without counts: that there was a step. */
void count_phases_add(struct count_phases *c, uint32_t phase, const struct json_node *shape);

/* Whether the line of operators has counts, which need not be looked for otherwise. */
bool counts_there(const struct json_node *shape);

/* Adds those of an operator. cursor: of node_get_next(), NULL at first. */
void counts_add_op(
	struct count_sum *s, const struct json_node *shape, const char *name, uint64_t calls, const struct json_node **cursor);

/*
 * "memory-bound", "compute-bound", or NULL: neither is likely, or it is not known. A rule of thumb, which docs/counters.md
 * explains:
 *   memory   less than one instruction a cycle, and at least one byte from memory a cycle
 *   compute  at least two instructions a cycle, and less than one byte from memory a cycle
 */
const char *counts_bound(const struct count_sum *s);

#define COUNTS_TEXT_MAX 128

/* "0.62 instructions a cycle, at least 2.10 bytes from memory a cycle"; "" without counts. Returns buf. */
const char *counts_text(const struct count_sum *s, char buf[COUNTS_TEXT_MAX]);

/* The section of the report. */
void page_counts(const struct page *page, const struct count_phases *c);

/* As members of an object, where there are counts: those of an operator, and an array "counters" of the phases. */
void counts_put(struct json_build *b, struct json_object *o, const struct count_sum *s);
void counts_put_phases(struct json_build *b, struct json_object *o, const struct model *m, const struct count_phases *c);

#endif
