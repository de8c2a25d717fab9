/* SPDX-License-Identifier: BSD-2-Clause */
/* The buffers that CUPTI fills, and what becomes of the records in them. */
#ifndef INFTRACE_GPU_AGENT_BUFFERS_H
#define INFTRACE_GPU_AGENT_BUFFERS_H

#include "gpu/agent/clocks.h"
#include "gpu/agent/cupti.h"
#include "gpu/agent/ring.h"

#define BUFFER_SIZE (1u << 20)
#define BUFFERS_MAX 64 /* that CUPTI may have at once; it drops, and counts, what has no place */
#define BUFFERS_KEPT 8

/* Free buffers, linked through their first bytes. */
struct buffers {
	void *free;
	uint32_t free_count;
	uint32_t open;
};

/* A buffer for CUPTI, or NULL. */
void *buffer_take(struct buffers *b);
void buffer_return(struct buffers *b, void *buffer);
void buffers_free(struct buffers *b);

/* Turns what is in a buffer into records of the ring. stepped: the clocks have moved against each other since they were compared. */
void buffer_read(const struct cupti *cupti, const struct clocks *clocks, bool stepped, struct ring *ring, uint8_t *buffer, size_t valid);

#endif
