/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What serve_driver serves: requests whose prompts are new, begin like others, continue where the last request of
 * a slot ended, or were seen before.
 */
#ifndef TEST_SERVE_H
#define TEST_SERVE_H

#include <stdbool.h>
#include <stdint.h>

#define SLOTS_MAX 64

struct serve_options {
	int requests, slots, batch, context; /* context: tokens of each slot */
	int prompt, outputs;		     /* of a request, at most */
	int cancels, drafts, stalls;	     /* percent of requests; of requests; of steps */
	int stall_us;
	int long_every, long_prompt; /* every long_every-th request has a prompt of that length, and two outputs */
	int threads;
	double between; /* steps between arrivals, on average; 0: all at once */
	uint64_t seed;
	bool separate;
};

struct request {
	int id;
	int32_t *prompt;
	int n_prompt, n_outputs; /* n_outputs: as many as it asks for */
	int cancel_after;	 /* steps that it has a part in; 0: it is not cancelled */
	struct answer *answer;	 /* of one that came by HTTP, which has a name */
	int name;
	bool drafts, clears;	 /* clears: nothing of it is kept */
	uint64_t waiting_ns, arrived_ns;
	struct request *next; /* in the queue */

	int cached, fed, given; /* tokens */
	int first_step, last_step, steps;
};

struct slot {
	int32_t *tokens; /* its tokens in the context */
	int n_tokens;
	int32_t sampled; /* the last token, which is not in the context */
	bool answered;	 /* its last request had an output */
	int last_prompt; /* length of the last request's prompt */
	struct request *request;
	uint64_t used; /* when it became free */

	int row, n_rows; /* of the step: the first one with an output, and how many have one */
	int part;
};

/* From `from` to `to`, both included. */
int draw(int from, int to);
bool chance(int percent);

void load_init(const struct serve_options *o);

/* Steps until the next request arrives; below 0: there are no more. */
double load_interval(void);

/* One of so many tokens. */
struct request *load_asked(int prompt, int outputs);

/* A request that arrives now. */
struct request *load_request(const struct slot *slots);

void request_free(struct request *r);

/* How many tokens of the prompt need not be decoded in that slot: it holds them. */
int slot_cached(const struct slot *s, const struct request *r);

#endif
