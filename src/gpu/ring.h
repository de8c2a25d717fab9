/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads the ring that the agent in a traced process writes (gpu/hand_over.h). Everything in it is what that process
 * wants it to be, at any moment: each record is copied, then checked, and what fails is counted and left out.
 */
#ifndef INFTRACE_GPU_RING_H
#define INFTRACE_GPU_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/hand_over.h"

#define GPU_RING_CAPACITY (1u << 17) /* 16 MB, of which memory is taken as it is used */

/* What the agent says of itself. The counters only grow, whatever it writes. */
struct gpu_feed_state {
	enum gpu_state state;
	int error;
	enum gpu_call failed_call;
	uint32_t version;
	enum gpu_vendor vendor;
	uint32_t collected;
	uint64_t records;
	uint64_t dropped;       /* by the agent and by CUPTI */
	uint64_t dropped_cupti; /* of them by CUPTI */
	uint64_t unknown;
	uint64_t own_ns;
	uint64_t waited_ns;     /* for room in the ring */
	uint64_t on_since;      /* it has collected since then; 0: never */
	uint64_t off_since;     /* and has not since then, if that is later; 0: never */
	uint64_t flushed_until; /* records of what ended before it have been written; not later than now */
	uint64_t residual_ns;   /* times are known to this */
	bool settled;           /* the last gpu_feed_want() has been carried out */
};

/* Nothing more will come of it. */
static inline bool gpu_state_is_over(enum gpu_state s)
{
	return s == GPU_STATE_NO_CUPTI || s == GPU_STATE_OTHER_USER || s == GPU_STATE_FAILED || s == GPU_STATE_GONE;
}

/* Others only read it, but for shift_ns. */
struct gpu_feed {
	struct gpu_ring *ring;
	uint64_t size;
	int fd; /* the memfd, to be handed over */
	/* not read from the ring, where they could change */
	uint32_t capacity, change;
	uint64_t tail;
	uint64_t begun_ns;
	uint64_t shift_ns; /* to be added to times, if the process is in another time namespace: set before anything is taken */
	bool broken;       /* the ring makes no sense any more: nothing else is read from it */
	uint64_t bad;      /* records that were left out since they made no sense */
	struct gpu_feed_state state;
	struct {
		uint32_t id; /* 0: no name has begun */
		uint32_t length, have;
		char text[GPU_NAME_MAX + 1];
	} name;
};

struct gpu_feed_ops {
	/* A kernel, a copy, a set or a launch of a graph, within the time of the ring. */
	void (*activity)(const struct gpu_record *r, void *arg);
	/* The name of a kernel: any bytes but 0, with a 0 at its end. */
	void (*name)(uint32_t id, const char *text, void *arg);
	/* What a device is, by the number that the process gives it. Its texts end. */
	void (*device)(uint32_t device, const struct gpu_device *about, void *arg);
};

/* Makes a ring. now_ns: nothing in it can have begun long before. */
int gpu_feed_new(uint32_t capacity, uint64_t now_ns, struct gpu_feed **ret_feed);
void gpu_feed_free(struct gpu_feed *f);

/* Takes at most `max` records. Returns whether there are more. */
bool gpu_feed_drain(struct gpu_feed *f, uint64_t now_ns, uint32_t max, const struct gpu_feed_ops *ops, void *arg);

void gpu_feed_state(struct gpu_feed *f, uint64_t now_ns, struct gpu_feed_state *ret_state);

/* How full it is, in percent, as the agent has it. May be called by another thread. */
unsigned int gpu_feed_fill(const struct gpu_feed *f);

/* What is to be collected (GPU_WANT_*), and how often completed records are asked for. */
void gpu_feed_want(struct gpu_feed *f, uint32_t wanted, uint32_t flush_ms);

/* How much the agent may take of a CPU, in millionths of the time; 0: no limit. How long it waits for room in the ring, in all
 * between two times that completed records are asked for. */
void gpu_feed_limits(struct gpu_feed *f, uint32_t ppm, uint32_t wait_ms);

#endif
