/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests that come in by HTTP, as llama.cpp's server takes them: a thread for each connection reads them, hands them to the
 * thread that decodes, and writes each token as a chunk of the answer as soon as it is there.
 *
 *   GET /NAME?prompt=TOKENS&tokens=TOKENS&pad=BYTES    pad: as much in each chunk
 */
#ifndef TEST_SERVE_HTTP_H
#define TEST_SERVE_HTTP_H

#include <stdbool.h>
#include <stdint.h>

/* Of a request, shared by its connection's thread and the one that decodes. */
struct answer;

struct http_request {
	int name, prompt, tokens;
	uint64_t waiting_ns, read_ns; /* CLOCK_BOOTTIME, right before and right after its first bytes were read */
	struct answer *answer;
};

/* Listens on a port of its own, which it returns. pieces: requests are read in small pieces, and between these no bytes, in
 * every way there is. */
int http_start(bool pieces);

/* The next request that was read; waits for it for a while if it is to. */
bool http_take(struct http_request *ret, bool wait);

void http_tokens(struct answer *a, int n);
bool http_gone(struct answer *a); /* the client is */
void http_end(struct answer *a);

#endif
