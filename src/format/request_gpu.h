/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * GPU time of requests, by part of a request's time (enum request_span). In a step with rows of a request, each part of the
 * GPU is divided between the request and the others as the step's time is; steps of others and the time between steps count in
 * full. GPU time becomes known some time after a step, so the steps of a context are then gone through once more, in order.
 */
#ifndef INFTRACE_REQUEST_GPU_H
#define INFTRACE_REQUEST_GPU_H

#include "requests/step_requests.h"

/* Steps whose GPU time, or whose requests, are still to come; beyond that, the oldest one's GPU time is unknown. */
#define REQUEST_GPU_STEPS_MAX 4096
/* With more contexts, one that waits for nothing is forgotten. */
#define REQUEST_GPU_CONTEXTS_MAX 256

struct request_gpu;

struct request_gpu *request_gpu_new(void);
void request_gpu_free(struct request_gpu *g);

/* A step's record has arrived, and its GPU activity will follow. */
void request_gpu_expect(struct request_gpu *g, uint32_t step);
void request_gpu_step(struct request_gpu *g, const struct rec_gpu_step *r);

/* From struct step_requests_ops. */
void request_gpu_part(struct request_gpu *g, const struct step_request *r, const struct step_seen *s, const struct request_part *p);
void request_gpu_told(struct request_gpu *g, const struct step_seen *s);
void request_gpu_over(struct request_gpu *g, const struct step_request *r);

/* Whether something about a request is still to come. */
bool request_gpu_waits(const struct request_gpu *g, uint32_t serial);

/* Adds the keys of a request to the shape of its line, and forgets it. Those of a span sum to the span, or are left out. */
char *request_gpu_end(struct request_gpu *g, char *p, uint32_t serial, bool shown);

#endif
