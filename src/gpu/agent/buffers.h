/* SPDX-License-Identifier: BSD-2-Clause */
/* The buffers that CUPTI fills, and what becomes of the records in them. */
#ifndef INFTRACE_GPU_AGENT_BUFFERS_H
#define INFTRACE_GPU_AGENT_BUFFERS_H

#include "gpu/agent/cupti.h"
#include "gpu/agent/reading.h"

#define BUFFER_SIZE (1u << 20)
#define BUFFERS_MAX 64 /* that CUPTI may have at once; it drops, and counts, what has no place */
#define BUFFERS_KEPT 8

/* Free buffers, linked through their first bytes, and those that CUPTI has. */
struct buffers {
	void *free;
	uint32_t free_count;
	uint32_t open;
	struct {
		void *buffer;
		uint64_t since_ns;
	} taken[BUFFERS_MAX];
};

/* A buffer for CUPTI, or NULL. now_ns: CLOCK_BOOTTIME. */
void *buffer_take(struct buffers *b, uint64_t now_ns);
void buffer_return(struct buffers *b, void *buffer);
void buffers_free(struct buffers *b);

/* Since when CUPTI has had the oldest of those that it has; UINT64_MAX: it has none. */
uint64_t buffers_since(const struct buffers *b);

/* Turns what is in a buffer, from `at` on, into records of the ring. at: NULL at first. stepped: the clocks have moved against each
 * other since they were compared. Returns false, and sets `at`, where the ring has no more room, unless drop. */
bool buffer_read(const struct cupti *cupti, const struct reading *r, uint8_t *buffer, size_t valid, bool drop, void **at);

#endif
