/* SPDX-License-Identifier: BSD-2-Clause */
/* What a call of CUDA launches or waits for, from the arguments that its preset names. */
#ifndef INFTRACE_RECORD_GPU_LAUNCH_H
#define INFTRACE_RECORD_GPU_LAUNCH_H

#include "engine/engine.h"
#include "gpu/join.h"
#include "gpu/process.h"

struct gpu_launches;

/* -ENOMEM */
int gpu_launches_new(struct gpu_launches **ret_launches);
void gpu_launches_free(struct gpu_launches *gl);

static inline bool gpu_launch_role(enum probe_role role)
{
	return role == ROLE_LAUNCH || role == ROLE_TRANSFER || role == ROLE_GRAPH || role == ROLE_GPU_WAIT || role == ROLE_CAPTURE ||
	       role == ROLE_CAPTURE_END;
}

/* false: it launches nothing on a GPU. */
bool gpu_launch_get(struct gpu_launches *gl, const struct probe_spec *s, const struct rec_function *r, struct launch *ret_launch);

/* Tells the process, if it is a wait for all that a stream, or everything, has launched. */
void gpu_launch_wait(struct gpu_launches *gl, const struct probe_spec *s, const struct rec_function *r, struct gpu_process *p);

#endif
