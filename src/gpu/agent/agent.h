/* SPDX-License-Identifier: BSD-2-Clause */
/* The agent's connection to inftrace, and what all vendors have in common. */
#ifndef INFTRACE_GPU_AGENT_AGENT_H
#define INFTRACE_GPU_AGENT_AGENT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "gpu/agent/budget.h"
#include "gpu/agent/clocks.h"
#include "gpu/agent/ring.h"

/* The agent's connection to inftrace. The process may close any descriptor, and use its number for something else. */

struct connection {
	int fd;		/* -1: none */
	dev_t dev;	/* which file it was */
	ino_t ino;
};

/*
 * The agent's part that all vendors have in common (agent.c), and what a vendor's part is to it: one file each, cuda.c
 * and rocm.c. A process is served by one of them, the first that is loaded.
 */

/*
 * How a vendor's library is told what to collect. Calls come from one thread at a time, without the lock. They return 0,
 * a negative errno, or the library's own error, which is positive.
 */
struct backend {
	uint32_t vendor;     /* enum gpu_vendor */
	uint32_t can;        /* GPU_WANT_* that it knows */
	int other_user;      /* its error if another tool has the library; 0: several can have it */
	clock_read_fn *time; /* the clock of its records */

	/* Finds the library, once. -ENOENT: there is none, -ENOSYS: it lacks a function; or its error, in *ret_call. */
	int (*load)(uint32_t *ret_version, uint32_t *ret_call);
	/* Prepares collecting, ahead of the first comparison of the clocks; end() undoes it. */
	int (*begin)(uint32_t *ret_call);
	void (*end)(void);
	/* One of GPU_WANT_*. */
	int (*enable)(uint32_t want);
	void (*disable)(uint32_t want);
	/* Has it hand over what has completed. last: nothing more is collected, so that this is everything that is to come.
	 * ret_until_ns: CLOCK_BOOTTIME; what ended before has been handed over; 0: it is not known. */
	int (*flush)(bool last, uint64_t *ret_until_ns);
	/* Tells what the devices are, without the lock; NULL: it does not know. false: it is not known yet, or not all was told. */
	bool (*describe)(bool (*tell)(uint32_t device, const struct gpu_device *about));
	/* How many buffers it has at present; under the lock. */
	uint32_t (*buffers)(void);
	/* There is no ring any more; under the lock. */
	void (*release)(void);
};

extern const struct backend cuda_backend;

/* Guards the ring, the clocks, and what the threads of a backend share. Never held while a library is called that could
 * wait for a callback. */
extern pthread_mutex_t agent_lock;

/* Serves inftrace, if its socket is in the environment; called while the vendor's runtime starts. 0, or a negative errno:
 * nobody wants to know. */
int agent_start(const struct backend *b);

/* The process ends: takes what the library still has, and collects nothing any more. */
void agent_exit(void);

/* Whether this is the process that is served, and not a child of its; under the lock. */
bool agent_is_here(void);

/* Records are being handed over: CPU time so far, and what the clocks were. */
struct arrival {
	uint64_t cpu_ns, before_ns, gpu, after_ns;
	bool is_known; /* gpu */
};

/* Not under the lock. */
struct arrival agent_arrival(void);

/* Whether the clocks have moved against each other since they were compared. */
static inline bool arrival_stepped(const struct arrival *a, const struct clocks *clocks)
{
	return !a->is_known || !clocks_fit(clocks, a->before_ns, a->gpu, a->after_ns);
}

/* For records: the ring, and the clocks by which their times are converted. NULL: there is nobody to write for. Under the
 * lock, as is agent_show(), which must follow, and counts the CPU time since the arrival. */
struct ring *agent_ring(const struct clocks **ret_clocks);
void agent_show(struct ring *ring, const struct arrival *a);

/* Waits a little for the reader to make room in the ring, under the lock, which it gives up meanwhile: agent_ring() has to be
 * asked again. false: it has waited for long enough. For threads that have nothing else to do. */
bool agent_wait_for_room(void);

/* A copy of a kernel's name, which stays; NULL: there is no room. Under the lock. */
const char *agent_keep(const char *name);

#endif
