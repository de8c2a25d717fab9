/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads the ring that the agent in a traced process writes (gpu/hand_over.h). That process can write anything into it at
 * any time: each record is copied, then checked; bad ones are counted and left out.
 */
#ifndef INFTRACE_GPU_RING_H
#define INFTRACE_GPU_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/hand_over.h"

#define GPU_RING_CAPACITY (1u << 17) /* 16 MB, backed by memory as it is used */

/* The agent's own claims. The counters only grow, whatever it writes. */
struct gpu_feed_state {
	enum gpu_state state;
	int error;
	enum gpu_call failed_call;
	uint32_t version;
	enum gpu_vendor vendor;
	uint32_t collected;
	uint64_t records;
	uint64_t dropped;       /* by the agent and by CUPTI */
	uint64_t dropped_cupti; /* of dropped: by CUPTI */
	uint64_t unknown;
	uint64_t own_ns;
	uint64_t waited_ns;     /* for room in the ring */
	uint64_t on_since;      /* when collecting last began; 0: never */
	uint64_t off_since;     /* when collecting last ended: it is off if that is later; 0: never */
	uint64_t flushed_until; /* what ended before it has been written; not later than now */
	uint64_t residual_ns;   /* clock uncertainty of the times */
	bool settled;           /* the last gpu_feed_want() has been carried out */
};

/* Whether the agent will write nothing more. */
static inline bool gpu_state_is_over(enum gpu_state s)
{
	return s == GPU_STATE_NO_CUPTI || s == GPU_STATE_OTHER_USER || s == GPU_STATE_FAILED || s == GPU_STATE_GONE;
}

/* Other files only read it, except that they set shift_ns. */
struct gpu_feed {
	struct gpu_ring *ring;
	uint64_t size;
	int fd; /* the memfd, to be handed over */
	/* own copies, since the ring's can change */
	uint32_t capacity, change;
	uint64_t tail;
	uint64_t begun_ns;
	uint64_t shift_ns; /* added to times, for a process in another time namespace; set before the first drain */
	bool broken;       /* head makes no sense: no more records are read */
	uint64_t bad;      /* records left out since they made no sense */
	struct gpu_feed_state state;
	struct {
		uint32_t id; /* 0: no name has begun */
		uint32_t length, have;
		char text[GPU_NAME_MAX + 1];
	} name;
};

struct gpu_feed_ops {
	/* A kernel, copy, set or graph launch, within the time of the ring. */
	void (*activity)(const struct gpu_record *r, void *arg);
	/* A kernel's name: any bytes, NUL-terminated. */
	void (*name)(uint32_t id, const char *text, void *arg);
	/* Describes a device by the process's own number. Its texts are NUL-terminated. */
	void (*device)(uint32_t device, const struct gpu_device *about, void *arg);
};

/* Makes a ring. now_ns: records that start more than 1 s earlier are bad. Negative errno. */
int gpu_feed_new(uint32_t capacity, uint64_t now_ns, struct gpu_feed **ret_feed);
void gpu_feed_free(struct gpu_feed *f);

/* Drains at most `max` records. Returns whether there are more. */
bool gpu_feed_drain(struct gpu_feed *f, uint64_t now_ns, uint32_t max, const struct gpu_feed_ops *ops, void *arg);

void gpu_feed_state(struct gpu_feed *f, uint64_t now_ns, struct gpu_feed_state *ret_state);

/* Returns how full the ring is, in percent, by the agent's head. Any thread may call it. */
unsigned int gpu_feed_fill(const struct gpu_feed *f);

/* Sets what to collect (GPU_WANT_*), and the interval of flushes. */
void gpu_feed_want(struct gpu_feed *f, uint32_t wanted, uint32_t flush_ms);

/* ppm: CPU time of the agent per elapsed time, in millionths; 0: no limit. wait_ms: its total wait for room in the ring between two
 * flushes. */
void gpu_feed_limits(struct gpu_feed *f, uint32_t ppm, uint32_t wait_ms);

#endif
