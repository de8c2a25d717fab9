/* SPDX-License-Identifier: BSD-2-Clause */
/* What a recording knows about GPUs, for sinks. */
#ifndef INFTRACE_TEST_GPU_INFO_H
#define INFTRACE_TEST_GPU_INFO_H

#include "gpu/info.h"
#include "sinks.h"

static struct gpu_info *info;

static inline int set_up_info(void **state)
{
	if (setup(state))
		return -1;
	info = gpu_info_new();
	rec.gpu = info;
	return 0;
}

static inline int tear_down(void **state)
{
	rec.gpu = NULL;
	gpu_info_free(info);
	return teardown(state);
}

#endif
