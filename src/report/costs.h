/* SPDX-License-Identifier: BSD-2-Clause */
/* By phase: what steps cost the CPU, and what GPUs did in them. */
#ifndef INFTRACE_REPORT_COSTS_H
#define INFTRACE_REPORT_COSTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "record.h"
#include "util/names.h"

/* Sums over steps or calls. */
struct count_sum {
	uint64_t of, all;    /* those with counts; and with or without */
	uint64_t n[PMU_MAX]; /* by enum hardware_counter */
	uint64_t missed_of;  /* those with COUNTER_LLC_MISSES, too */
};

#define COUNT_PHASES_MAX 16 /* of more, the others are counted as the last one */

struct count_phases {
	struct count_phase {
		uint32_t phase; /* a name */
		struct count_sum sum;
	} list[COUNT_PHASES_MAX];
	size_t n;
};

struct json_node;

/* Adds what the line of a step says; without counts: that there was a step. */
void count_phases_add(struct count_phases *c, uint32_t phase, const struct json_node *shape);

/* Whether the line of operators has counts, which need not be looked for otherwise. */
bool counts_there(const struct json_node *shape);

/* Adds those of an operator. cursor: of node_get_next(), NULL at first. */
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

#define GPU_PHASE_GAPS 3
#define GPU_WHY_MAX 384

/* A time in which nothing had been launched. */
struct phase_gap {
	int64_t ns; /* 0: none */
	uint32_t step;
	char *why; /* "the launching thread ..."; NULL: not known */
};

/* What GPUs did in steps. */
struct gpu_sum {
	uint64_t kernels, copies;
	int64_t total, part[GPU_PART_MAX]; /* of the steps that say something of it */
	int64_t after;                     /* for how long what was launched in the steps ran after them */
};

#define GPU_PHASES_MAX 16 /* of more, the others are counted as the last one */

struct gpu_phase {
	uint32_t phase;       /* a name */
	uint64_t steps, lost; /* of which it is known, and is not, what the GPU did */
	struct gpu_sum all;
	struct phase_device {
		uint32_t device;
		struct gpu_sum sum;
	} devices[GPU_STEP_DEVICES];
	size_t n_devices;
	bool devices_missing;                  /* there are more */
	struct phase_gap gaps[GPU_PHASE_GAPS]; /* the longest first */
	size_t n_gaps;
};

struct gpu_phases {
	struct gpu_phase list[GPU_PHASES_MAX];
	size_t n;
};

/* Adds what the line of a step says; shape NULL or without a GPU: nothing. */
void gpu_phases_add(struct gpu_phases *g, uint32_t phase, uint32_t step, int64_t total_ns, const struct json_node *shape);
void gpu_phases_clear(struct gpu_phases *g);

#endif
