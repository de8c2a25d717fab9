/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What GPUs did for requests: of each step with rows of a request, the parts of the GPU are divided between the request
 * and the others as the time of the step is. They become known some time after the step.
 */
#ifndef INFTRACE_REQUEST_GPU_H
#define INFTRACE_REQUEST_GPU_H

#include "engine/step_requests.h"

/* Steps whose GPU, or whose requests, are still to come: of more, the GPU of the oldest is not known. */
#define REQUEST_GPU_STEPS_MAX 4096

struct request_gpu;

/* -ENOMEM */
int request_gpu_new(struct request_gpu **ret_gpu);
void request_gpu_free(struct request_gpu *g);

/* Of struct step_requests_ops. expected: what the GPU did will follow. */
void request_gpu_part(
	struct request_gpu *g, const struct step_request *r, const struct step_seen *s, const struct request_part *p, bool expected);
void request_gpu_told(struct request_gpu *g, const struct step_seen *s);

void request_gpu_step(struct request_gpu *g, const struct rec_gpu_step *r);

/* Whether something about a request is still to come. */
bool request_gpu_waits(const struct request_gpu *g, uint32_t serial);

/* A request is over, and its line is written: adds its keys to the shape, and forgets it. */
char *request_gpu_end(struct request_gpu *g, char *p, uint32_t serial, bool shown);

#endif
