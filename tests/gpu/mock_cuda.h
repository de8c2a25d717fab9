/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of libcuda.so.1 (mock.h) share. */
#ifndef MOCK_CUDA_H
#define MOCK_CUDA_H

#include <stdbool.h>

#include "mock.h"

typedef int CUresult;
#define API __attribute__((noinline)) CUresult

#define OUT_OF_MEMORY 2
#define NOT_READY 600

#define STREAM_LEGACY ((struct stream *)1)
#define STREAM_PER_THREAD ((struct stream *)2)

struct function {
	char *name;
};

/* Launches that were captured, and are launched together. */
struct graph {
	uint32_t id, count, room;
	struct {
		struct mock_work work;
		uint64_t ns;
	} * nodes;
};

struct stream {
	uint32_t id;
	uint64_t busy_until;
	struct graph *captured_by; /* what is launched to it becomes a node of that */
};

/* Whether cuInit() has been called. */
bool mock_cuda_ready(void);

/* What a handle stands for. */
struct stream *mock_stream(struct stream *handle);

/* Launches it, so that it takes that long; or notes it where the stream is being captured. */
void mock_run(struct mock_work *w, struct stream *s, uint64_t ns);

/* Sleeps until then. The truth is complete by then. */
CUresult mock_wait(uint64_t boot_ns);

/* No stream is captured by that any more. */
void mock_end_capture(const struct graph *g);

void mock_graph_add(struct graph *g, const struct mock_work *w, uint64_t ns);

#endif
