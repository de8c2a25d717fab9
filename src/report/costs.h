/* SPDX-License-Identifier: BSD-2-Clause */
/* By phase: what steps cost the CPU, and what GPUs did in them. */
#ifndef INFTRACE_REPORT_COSTS_H
#define INFTRACE_REPORT_COSTS_H

#include "report/model.h"

struct json_node;

/* Adds the counters of a step's line. Without counters it only counts the step. */
void count_phases_add(struct count_phases *c, uint32_t phase, const struct json_node *shape);

/* Whether a line of operators has counters at all. */
bool counts_there(const struct json_node *shape);

/* Adds an operator's counters. cursor: of node_get_next(), NULL at first. */
void counts_add_op(
	struct count_sum *s, const struct json_node *shape, const char *name, uint64_t calls, const struct json_node **cursor);

/*
 * "memory-bound", "compute-bound", or NULL: neither is likely, or it is not known. A rule of thumb, which
 * docs/counters.md explains:
 *   memory   less than one instruction a cycle, and at least one byte from memory a cycle
 *   compute  at least two instructions a cycle, and less than one byte from memory a cycle
 */
const char *counts_bound(const struct count_sum *s);

#define COUNTS_TEXT_MAX 128

/* "0.62 instructions a cycle, at least 2.10 bytes from memory a cycle"; "" without counts. Returns buf. */
const char *counts_text(const struct count_sum *s, char buf[COUNTS_TEXT_MAX]);

/* ---- What GPUs did during steps, by phase. ---- */

/* Adds what a step's line says of GPUs; shape may be NULL or have none. */
void gpu_phases_add(struct gpu_phases *g, uint32_t phase, uint32_t step, int64_t total_ns, const struct json_node *shape);

#endif
