/* SPDX-License-Identifier: BSD-2-Clause */
/* What GPUs did during steps, by phase. */
#ifndef INFTRACE_REPORT_GPU_H
#define INFTRACE_REPORT_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "record.h"

#define GPU_PHASE_GAPS 3
#define GPU_WHY_MAX 384

/* A time in which nothing had been launched. */
struct phase_gap {
	int64_t ns; /* 0: none */
	uint32_t step;
	char *why; /* "the launching thread ..."; NULL: not known */
};

/* One device in the steps. */
struct phase_device {
	uint32_t device;
	uint64_t kernels, copies;
	int64_t total, part[GPU_PART_MAX]; /* of the steps that say something of it */
	int64_t after;
};

#define GPU_PHASES_MAX 16 /* of more, the others are counted as the last one */

struct gpu_phase {
	uint32_t phase;       /* a name */
	uint64_t steps, lost; /* of which it is known, and is not, what the GPU did */
	uint64_t kernels, copies;
	int64_t total, part[GPU_PART_MAX];
	int64_t after; /* for how long what was launched in the steps ran after them */
	struct phase_device devices[GPU_STEP_DEVICES];
	size_t n_devices;
	bool devices_missing; /* there are more */
	struct phase_gap gaps[GPU_PHASE_GAPS]; /* the longest first */
};

struct gpu_phases {
	struct gpu_phase list[GPU_PHASES_MAX];
	size_t n;
};

struct json_build;
struct json_node;
struct json_object;
struct model;
struct page;

/* Adds what the line of a step says; shape NULL or without a GPU: nothing. */
void gpu_phases_add(struct gpu_phases *g, uint32_t phase, uint32_t step, int64_t total_ns, const struct json_node *shape);
void gpu_phases_clear(struct gpu_phases *g);

/* "launch-bound" and the like: what takes the largest part; NULL: nothing is known. */
const char *gpu_bound(const struct gpu_phase *p);

/* The section of the report, and the array of its JSON. */
void page_gpu(const struct page *page, const struct gpu_phases *g);
struct json_object *gpu_array(struct json_build *b, const struct model *m, const struct gpu_phases *g);

#endif
