/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How busy the devices of a process were, and how much was waiting for them, at regular intervals.
 */
#ifndef INFTRACE_GPU_LOAD_H
#define INFTRACE_GPU_LOAD_H

#include <stdbool.h>
#include <stddef.h>

#include "record.h"
#include "util/clock.h"

#define GPU_LOAD_NS (10 * NSEC_PER_MSEC) /* a record for so long, unless there is nothing to tell */
#define GPU_LOAD_SLOTS 1024              /* what is known earlier than that is counted in the last one */
#define GPU_LOAD_DEVICES 16              /* of a process: of more, nothing is told */

struct gpu_load;

typedef void (*gpu_load_cb)(const struct rec_hdr *h, size_t size, void *arg);
struct gpu_load_ops {
	/* Launches up to then of which nothing has been added. */
	size_t (*pending)(uint64_t until_ns, void *arg);
	/* Whether nothing is missing of what ran: otherwise the interval is not told. */
	bool (*is_known)(uint64_t from_ns, uint64_t to_ns, void *arg);
};

/* -ENOMEM */
int gpu_load_new(uint32_t tgid, uint64_t now_ns, struct gpu_load **ret_load);
void gpu_load_free(struct gpu_load *l);

/* What ran: nearly in the order of its begin. */
void gpu_load_add(struct gpu_load *l, const struct rec_gpu *r);

/* Everything that ended before has been added: tells the intervals up to then. How much waits is told of a process with one device. */
void gpu_load_take(
	struct gpu_load *l, uint64_t until_ns, const struct gpu_load_ops *ops, void *ops_arg, gpu_load_cb cb, void *arg);

#endif
