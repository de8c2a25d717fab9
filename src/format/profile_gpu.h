/* SPDX-License-Identifier: BSD-2-Clause */
/* What the GPU did in a step, in the line of the step; and which GPUs there were. */
#ifndef INFTRACE_PROFILE_GPU_H
#define INFTRACE_PROFILE_GPU_H

#include "format/gpu_gaps.h"

/* What the step's own record says, by the time that its GPU is known. */
struct profile_gpu_step {
	uint32_t tid;
	bool is_whole; /* nothing of it was lost, or left out by --budget */
	struct stall stall;
};

void profile_gpu_keep(struct profile_gpu_step *s, const struct rec_step *r);

/* Adds keys to the shape. The parts sum to the step's duration. */
char *profile_gpu_add(
	char *p, const struct recording *rec, const struct gpu_gaps *gaps, const struct profile_gpu_step *s, const struct rec_gpu_step *r);

/* What the devices are that were used: of the recording, for the line of a window. */
char *profile_gpu_add_devices(char *p, const struct gpu_info *info);

#endif
