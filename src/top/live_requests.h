/* SPDX-License-Identifier: BSD-2-Clause */
/* The requests in the batches of the engines that inftrace top watches: how many there are now, and how long they wait for
 * their first tokens. */
#ifndef INFTRACE_TOP_LIVE_REQUESTS_H
#define INFTRACE_TOP_LIVE_REQUESTS_H

#include "engine/step_requests.h"
#include "report/stats.h"

#define LIVE_PROCESSES_MAX 8 /* counted separately; others are only in the sum */

struct live_process {
	uint32_t pid;
	uint32_t active;  /* requests with rows in the last step of their context */
	uint32_t waiting; /* requests whose prompt has begun, but without rows in that step */
	struct percentiles ttft; /* of requests that got their first token in the last minute */
};

struct live_batches {
	struct live_process all; /* pid 0 */
	struct live_process processes[LIVE_PROCESSES_MAX];
	size_t n_processes;
};

struct live_requests;

/* NULL without memory. */
struct live_requests *live_requests_new(void);
void live_requests_free(struct live_requests *lr);

/* Of struct step_requests_ops; only of requests whose rows are known. Times are those of struct step_seen. */
void live_requests_begin(struct live_requests *lr, const struct step_request *r);
void live_requests_part(struct live_requests *lr, const struct step_request *r, const struct step_seen *s);
void live_requests_first(struct live_requests *lr, const struct step_request *r);
void live_requests_mixed(struct live_requests *lr, const struct step_request *r);

/* The state at `now`. False: there have been no such requests. */
bool live_requests_find(struct live_requests *lr, uint64_t now, struct live_batches *ret);

#endif
