/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds out which request seen on a socket is which one seen in the steps of the same process.
 *
 * Where the engine numbers its requests, and the preset tells where, both have the same number. Otherwise the evidence is time.
 * A request is read from its socket before the first row of its sequence is decoded; its answer begins after the first
 * output, ends soon after the last step, and has not many more parts than there are tokens. Requests that can be the same form
 * a group. If a group can be matched completely, the pairs that every complete matching contains are joined. One request too
 * many of either kind leaves the whole group unjoined.
 *
 * This is tried with a short limit first, which most answers keep, so that groups are small. Pairs are then not joined that
 * could have exchanged their sequences, with each other or with unjoined requests, had some answers been late.
 *
 * If all joined answers of a process took as many writes as tokens plus the same number of writes for framing, all its answers
 * do: this rule tells requests apart that time alone does not. Where time joins too few, on a busy machine, a number that
 * explains each of at least 16 answers is that rule if no other number explains even half of them.
 *
 * Requests that began in one step and had as many tokens are told apart by order, where one thread reads all requests of a
 * process and began each joined answer before the sequence's second step: it writes a token, and then asks for the next one.
 * Answers then begin in the order in which sequences go on, by their steps and by their rows within a step. This order is
 * relied on if it agrees with everything else that is known, and at least 32 requests would have shown if it did not. The rows
 * of the first step are in the order of arrival, which tells less: several threads sample tokens at once (node-llama-cpp 3.22:
 * of 54,600 pairs with their first output in one step, 4,106 were answered in another order than that of their rows in it, and
 * none in another order than that in which they went on).
 */
#ifndef INFTRACE_REQUEST_JOIN_H
#define INFTRACE_REQUEST_JOIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct join_socket {
	uint32_t tgid;
	uint32_t chunks;      /* parts of the answer */
	uint64_t start;       /* when its first bytes were read */
	uint64_t first, last; /* the first part and the end of its answer; 0: not answered */
	uint64_t blocked;     /* time that blocking writes of the answer took */
	bool gone;            /* the client closed it: the answer may lack its end */
	uint32_t writes;      /* calls that the answer took */
	uint64_t given;       /* the engine's number of it, plus 1; 0: unknown */
	uint32_t tid;         /* the thread that read it */
	uint64_t came;        /* when its first bytes arrived; for readers */
};

struct join_sequence {
	uint32_t tgid;
	bool open;      /* it is not over: its end is unknown */
	bool vague;     /* its beginning, or some of its steps, were not seen: not joined */
	bool any;       /* nor is its end known: it may be any request in its time */
	uint64_t start; /* the start of the step with its first row */
	uint64_t first; /* the end of the step with its first output; 0: none */
	uint64_t last;  /* the end of its last step */
	uint64_t outputs;
	uint64_t given; /* as in struct join_socket */
	uint64_t context;
	uint64_t second; /* as in struct step_request; 0 while it is open */
};

enum join_result {
	JOIN_DONE,
	JOIN_NONE,      /* none fits */
	JOIN_AMBIGUOUS, /* several fit, or too many are alike */
	JOIN_OPEN,      /* depends on a request that is not over */
};

#define JOIN_SOCKETS 512
#define JOIN_SEQUENCES 1536

struct join_answer {
	enum join_result result;
	uint32_t with;  /* JOIN_DONE: index of the other one */
	uint32_t group; /* the same for all requests that depend on each other */
};

struct join;

/* The caller frees it with free(). */
struct join *join_new(void);

/* Joins at most JOIN_SOCKETS with JOIN_SEQUENCES. Groups have numbers below n_sockets + n_sequences. */
void join_decide(struct join *j, const struct join_socket *sockets, size_t n_sockets,
	const struct join_sequence *sequences, size_t n_sequences, struct join_answer *ret_sockets,
	struct join_answer *ret_sequences);

#endif
