/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the files of the agent, a library in the traced process that never ends it. */
#ifndef INFTRACE_GPU_AGENT_AGENT_H
#define INFTRACE_GPU_AGENT_AGENT_H

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "gpu/hand_over.h"

/* ---- functions of a library that is not linked ---- */

struct symbol {
	const char *name;
	void *function; /* address of the function pointer to set */
};

/* Finds all symbols. -ENOSYS: one is missing. */
static inline int symbols_find(void *library, const struct symbol *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		void *found = dlsym(library, list[i].name);

		if (!found)
			return -ENOSYS;
		memcpy(list[i].function, &found, sizeof(found));
	}
	return 0;
}

/* ---- the CPU budget of the agent: above it, the agent pauses until the average is back within it ---- */

#define LOOK_NS UINT64_C(1000000000) /* interval of checks: the one-time cost of enabling is no rate */
#define PAUSE_MAX_NS (60 * LOOK_NS)

struct budget {
	uint64_t since_ns, own_ns; /* the last check, and the CPU time used by then */
	uint64_t until_ns;         /* end of the pause */
};

/* Collecting begins. now_ns: CLOCK_BOOTTIME; own_ns: the agent's CPU time so far. */
static inline void budget_begin(struct budget *b, uint64_t now_ns, uint64_t own_ns)
{
	b->since_ns = now_ns;
	b->own_ns = own_ns;
}

/* Whether the agent used more than ppm millionths of the last second or so, and must pause. ppm 0: never. */
static inline bool budget_exceeded(struct budget *b, uint32_t ppm, uint64_t now_ns, uint64_t own_ns)
{
	uint64_t elapsed = now_ns - b->since_ns, own = own_ns - b->own_ns;
	double pause;

	if (elapsed < LOOK_NS)
		return false;
	budget_begin(b, now_ns, own_ns);
	if (!ppm || own <= elapsed / 1000000 * ppm)
		return false;
	/* elapsed time and pause together keep the budget */
	pause = (double)own * 1e6 / ppm - (double)elapsed;
	b->until_ns = now_ns + (pause > (double)PAUSE_MAX_NS ? PAUSE_MAX_NS : pause < (double)LOOK_NS ? LOOK_NS
												      : (uint64_t)pause);
	return true;
}

/* Whether the pause is over. */
static inline bool budget_again(const struct budget *b, uint32_t ppm, uint64_t now_ns)
{
	return !ppm || now_ns >= b->until_ns;
}

/* ---- converting times of CUPTI's clock to CLOCK_BOOTTIME, by comparing both regularly (clocks.c) ---- */

#define CLOCKS_KEPT 64

struct comparison {
	uint64_t gpu, boot;
	double slope; /* rate of CLOCK_BOOTTIME against CUPTI's clock since the previous comparison, less 1 */
	bool step;    /* a clock was stepped since the previous comparison */
};

struct clocks {
	struct comparison kept[CLOCKS_KEPT]; /* a ring, newest at (count - 1) % CLOCKS_KEPT */
	uint32_t count;
	uint32_t stepped_at; /* count at the last step, if there was one */
	uint64_t best_ns;    /* shortest time between the two CLOCK_BOOTTIME readings around CUPTI's */
	struct gpu_ring_clock said;
};

/* Reads the clock of the records: returns 0 and its time, or its error. */
typedef int clock_read_fn(uint64_t *ns);

uint64_t clocks_boot_ns(void);

/* Compares the clocks by the best of up to 100 readings. Returns 0 or the error of read(). */
int clocks_compare(struct clocks *c, clock_read_fn *read);

/* Adds a comparison. uncertain_ns: half of the time between the two CLOCK_BOOTTIME readings. */
void clocks_add(struct clocks *c, uint64_t gpu, uint64_t boot, uint64_t uncertain_ns);

/* Whether CUPTI's clock, read between the CLOCK_BOOTTIME readings before and after, is where the last comparison points. */
bool clocks_fit(const struct clocks *c, uint64_t before, uint64_t gpu, uint64_t after);

/* Converts a time; needs a comparison. ret_sure: false if the clocks were stepped nearby. */
uint64_t clocks_convert(const struct clocks *c, uint64_t gpu, bool *ret_sure);

/* Publishes the last comparison to the reader. */
void clocks_say(const struct clocks *c, struct gpu_ring_clock *shared);

/* ---- the ring (ring.c): names, and the vendor's records. The caller holds agent_lock. ---- */

#define NAMES_MAX 65536 /* further ones are id 0: unknown */
#define NAME_BYTES_MAX (16u << 20)

struct name {
	uint32_t hash;
	uint32_t length;
	const char *text;    /* in names.memory, NUL-terminated */
	const void *seen_at; /* its last address in the vendor's library */
	uint32_t written_to; /* ring.generation of the ring that has it */
};

/* All memory is from mmap(), since the process may have any malloc. */
struct names {
	struct name *list;  /* NAMES_MAX, by id - 1; pages are backed as they are used */
	uint32_t *by_hash;  /* 2 * NAMES_MAX, id or 0 */
	uint32_t *by_place; /* NAMES_MAX, by address: a guessed id or 0 */
	char *memory;
	size_t memory_used, memory_size, bytes;
	uint32_t count;
};

struct ring {
	struct gpu_ring *shared; /* NULL: none */
	struct gpu_record *records;
	uint32_t capacity;
	uint32_t generation;                /* number of rings so far */
	uint64_t head;                      /* own copy: the shared one is only for the reader */
	uint64_t tail;                      /* as last read */
	struct gpu_ring_writer said;        /* counters to be published */
	uint64_t marked_ring, marked_cupti; /* counters at the last GPU_RECORD_DROPPED */
	struct names names;
};

/* Maps the ring of a memfd. Negative errno; -EPROTO: it is no ring of this version. */
int ring_map(struct ring *r, int fd);
void ring_unmap(struct ring *r);

/* Writes the description of a device. false: there is no room now. */
bool ring_device(struct ring *r, uint32_t device, const struct gpu_device *about);

/* Returns a copy of a text that is never freed; NULL: there is no room. It may become a name later. */
const char *ring_keep(struct ring *r, const char *text);

/* Whether there is room for a record with the longest name, and for the mark of ring_show(). */
bool ring_has_room(struct ring *r);

/* Writes a record, or counts it as dropped. The reader sees it only after ring_show(). */
void ring_put(struct ring *r, const struct gpu_record *rec);

/* Marks dropped records, then publishes all that was written, and the counters. */
void ring_show(struct ring *r);

/* Common to the conversion of all vendors' records to records of the ring. */

/* Start and end are by the vendor's clock. */
struct span {
	uint64_t start, end;
	uint32_t device, context, stream, correlation;
};

/* Context for reading the records of a buffer. */
struct reading {
	const struct clocks *clocks;
	struct ring *ring;
	uint64_t now;
	bool stepped;
	bool forced; /* the buffer also has activity that has not completed, without times */
};

/* stepped: a clock was stepped since the last comparison. */
struct reading reading_begin(const struct clocks *clocks, bool stepped, struct ring *ring);

/* Counts a completed record, and sets its times and numbers. Returns false if it has no usable times. */
bool reading_span(struct gpu_record *rec, const struct reading *r, const struct span *s);

/* Writes a kernel's record, preceded by its name if that is new. */
void reading_put_kernel(struct gpu_record *rec, const struct reading *r, const char *name);

/* ---- the agent (agent.c) ---- */

/*
 * agent.c is common to all vendors; cuda.c and rocm.c are a vendor's backend each. The first backend that is loaded serves
 * the process.
 */

/*
 * How to tell a vendor's library what to collect. Calls come from one thread at a time, without agent_lock unless noted.
 * They return 0, a negative errno, or the library's own error, which is positive.
 */
struct backend {
	uint32_t vendor;     /* enum gpu_vendor */
	uint32_t can;        /* GPU_WANT_* that it supports */
	int other_user;      /* its error if another tool uses the library; 0: several may use it */
	clock_read_fn *time; /* the clock of its records */

	/* Finds the library, once. -ENOENT: there is none; -ENOSYS: it lacks a function; or the error of *ret_call. */
	int (*load)(uint32_t *ret_version, uint32_t *ret_call);
	/* Prepares collecting, before the first comparison of the clocks; end() undoes it. Both NULL: nothing to do. */
	int (*begin)(uint32_t *ret_call);
	void (*end)(void);
	/* want: one of GPU_WANT_*. */
	int (*enable)(uint32_t want);
	void (*disable)(uint32_t want);
	/* Has the library hand over completed records. last: collecting has ended, so nothing comes after this.
	 * ret_until_ns: CLOCK_BOOTTIME; what ended before has been handed over; 0: not known. */
	int (*flush)(bool last, uint64_t *ret_until_ns);
	/* Describes the devices; NULL: cannot. false: they are not known yet, or tell() failed. */
	bool (*describe)(bool (*tell)(uint32_t device, const struct gpu_device *about));
	/* Returns how many buffers the library has; under agent_lock. NULL: none. */
	uint32_t (*buffers)(void);
	/* The ring is gone; under agent_lock. May be NULL. */
	void (*release)(void);
};

extern const struct backend cuda_backend;

/* Guards the ring, the clocks, and what a backend's threads share. Never held during a library call that may wait for a
 * callback. */
extern pthread_mutex_t agent_lock;

/* Serves inftrace, if its socket is in the environment; called while the vendor's runtime starts. Negative errno: it does not
 * serve. */
int agent_start(const struct backend *b);

/* The process exits: flushes the library, and stops collecting. */
void agent_exit(void);

/* Whether this is the served process, not a forked child of it; under agent_lock. */
bool agent_is_here(void);

/* The thread's CPU time and the clocks when records begin to arrive. */
struct arrival {
	uint64_t cpu_ns, before_ns, gpu, after_ns;
	bool is_known; /* gpu is valid */
};

/* Not under agent_lock. */
struct arrival agent_arrival(void);

/* Whether a clock was stepped since the last comparison. */
static inline bool arrival_stepped(const struct arrival *a, const struct clocks *clocks)
{
	return !a->is_known || !clocks_fit(clocks, a->before_ns, a->gpu, a->after_ns);
}

/* Returns the ring and the clocks for records that arrive; NULL: nobody reads. agent_show() must follow, and counts the CPU time
 * since the arrival. Both under agent_lock. */
struct ring *agent_ring(const struct clocks **ret_clocks);
void agent_show(struct ring *ring, const struct arrival *a);

/* Waits a little for the reader to make room in the ring. Releases agent_lock meanwhile, so call agent_ring() again. false: it has
 * waited long enough. For threads that have nothing else to do. */
bool agent_wait_for_room(void);

/* ring_keep() for a kernel's name; under agent_lock. */
const char *agent_keep(const char *name);

#endif
