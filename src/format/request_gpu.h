/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What GPUs did for requests, in each part of a request's time (enum request_span): in a step with rows of a request the parts of
 * the GPU are divided between the request and the others as the time of the step is; of steps of others, and of the time between
 * steps, it has all. They become known some time after the step, so the steps of a context are gone through once more,
 * in their order, when they are.
 */
#ifndef INFTRACE_REQUEST_GPU_H
#define INFTRACE_REQUEST_GPU_H

#include "requests/step_requests.h"

/* Steps whose GPU, or whose requests, are still to come: of more, the GPU of the oldest is not known. */
#define REQUEST_GPU_STEPS_MAX 4096
/* With more contexts, one that waits for nothing is forgotten. */
#define REQUEST_GPU_CONTEXTS_MAX 256

struct request_gpu;

struct request_gpu *request_gpu_new(void);
void request_gpu_free(struct request_gpu *g);

/* The step's record is here, and what the GPU did in it will follow. */
void request_gpu_expect(struct request_gpu *g, uint32_t step);
void request_gpu_step(struct request_gpu *g, const struct rec_gpu_step *r);

/* Of struct step_requests_ops. */
void request_gpu_part(struct request_gpu *g, const struct step_request *r, const struct step_seen *s, const struct request_part *p);
void request_gpu_told(struct request_gpu *g, const struct step_seen *s);
void request_gpu_over(struct request_gpu *g, const struct step_request *r);

/* Whether something about a request is still to come. */
bool request_gpu_waits(const struct request_gpu *g, uint32_t serial);

/* The line of a request is written: adds its keys to the shape, and forgets it. Those of a span sum to it, or there are none. */
char *request_gpu_end(struct request_gpu *g, char *p, uint32_t serial, bool shown);

#endif
