/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds out which request seen on a socket is which one seen in the steps of the same process.
 *
 * Where the engine numbers its requests, and the preset says where it does, both have the same number. Otherwise they have no
 * common name: the evidence is time. The one on the socket was read before the first row of the sequence
 * was decoded; its answer began after the first output, ended soon after the last step, and does not have many more
 * parts than there were tokens. Requests that can be the same form a group. If it has equally many of both kinds, and
 * all of them can be paired, those are joined that are a pair in every way to do so. One too many of either kind leaves
 * the whole group unjoined.
 *
 * This is tried with a short limit first, which most answers keep: then the groups are small. Pairs that could have
 * exchanged their sequences, with each other or with what is left, had some answers been late, are not joined by that.
 *
 * Where all answers of a process that were joined so far took as many writes as there were tokens, and the same number
 * more for what frames them, that is so for the others, too: it tells those apart that time alone does not.
 *
 * Those that began in one step and had as many tokens are told apart by order, where one thread reads all requests of a process,
 * and has begun each answer that is joined before the sequence had its second step: it writes a token, and then asks for the next
 * one. The order in which answers begin is then that in which sequences go on, by their steps and by their rows in one step.
 * That is relied on if it agrees with all that is known otherwise, and this would have shown for at least 32 of them if it did
 * not. The rows of the first step are in the order of arrival, which says less: tokens are sampled by several threads at once
 * (node-llama-cpp 3.22, of 54,600 pairs that had their first output in one step: 4,106 answered in another order than they had
 * rows in it, and none in another one than that in which they went on).
 */
#ifndef INFTRACE_REQUEST_JOIN_H
#define INFTRACE_REQUEST_JOIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct join_socket {
	uint32_t tgid;
	uint32_t chunks;      /* parts of the answer */
	uint64_t start;       /* its first bytes were read */
	uint64_t first, last; /* of its answer: the first part, and the end; 0: not answered */
	uint64_t blocked;     /* so long its parts took to be written */
	bool gone;            /* the client closed it: the answer may lack its end */
	uint32_t writes;      /* calls that the answer took */
	uint64_t given;       /* the engine's number of it, plus 1; 0: unknown */
	uint32_t tid;         /* the thread that read it */
	uint64_t came;        /* its first bytes had come; for readers */
};

struct join_sequence {
	uint32_t tgid;
	bool open;      /* it is not over: nothing is known about its end */
	bool vague;     /* its beginning, or some of its steps, were not seen: it is joined with none */
	bool any;       /* nor is its end known: it may be any request in its time */
	uint64_t start; /* of the step with its first row */
	uint64_t first; /* the end of the step with its first output; 0: none */
	uint64_t last;  /* the end of its last step */
	uint64_t outputs;
	uint64_t given; /* as of a socket */
	uint64_t context;
	uint64_t second; /* of struct step_request; as long as it is open, 0 */
};

enum join_result {
	JOIN_DONE,
	JOIN_NONE,      /* none fits */
	JOIN_AMBIGUOUS, /* several fit, or too many are alike */
	JOIN_OPEN,      /* depends on one that is not over */
};

#define JOIN_SOCKETS 512
#define JOIN_SEQUENCES 1536

struct join_answer {
	enum join_result result;
	uint32_t with;  /* JOIN_DONE: number of the other one */
	uint32_t group; /* the same for all that depend on each other */
};

struct join;

/* The caller frees it with free(). */
struct join *join_new(void);

/* At most JOIN_SOCKETS and JOIN_SEQUENCES. Groups have numbers below the sum of both. */
void join_decide(struct join *j, const struct join_socket *sockets, size_t n_sockets,
	const struct join_sequence *sequences, size_t n_sequences, struct join_answer *ret_sockets,
	struct join_answer *ret_sequences);

#endif
