/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the agent share: it is a library of its own in the traced process, and never ends that. */
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
	void *function; /* the address of a pointer to it */
};

/* Finds all of them. -ENOSYS: one is missing. */
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

/* ---- what the agent may take of a CPU: where it takes more, it pauses for as long as brings the average back ---- */

#define LOOK_NS UINT64_C(1000000000) /* what enabling takes at once is no rate */
#define PAUSE_MAX_NS (60 * LOOK_NS)

struct budget {
	uint64_t since_ns, own_ns; /* when what it takes was looked at last, and how much it was by then */
	uint64_t until_ns;         /* of the pause */
};

/* Something is collected from now on. Times are CLOCK_BOOTTIME; own_ns: what the agent has taken so far. */
static inline void budget_begin(struct budget *b, uint64_t now_ns, uint64_t own_ns)
{
	b->since_ns = now_ns;
	b->own_ns = own_ns;
}

/* Whether it has taken more than ppm millionths of the last second or so, and is to pause. ppm 0: never. */
static inline bool budget_exceeded(struct budget *b, uint32_t ppm, uint64_t now_ns, uint64_t own_ns)
{
	uint64_t elapsed = now_ns - b->since_ns, own = own_ns - b->own_ns;
	double pause;

	if (elapsed < LOOK_NS)
		return false;
	budget_begin(b, now_ns, own_ns);
	if (!ppm || own <= elapsed / 1000000 * ppm)
		return false;
	/* as long as makes it the budget of both together */
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

/* ---- the times of CUPTI's clock become those of CLOCK_BOOTTIME, by comparing both again and again (clocks.c) ---- */

#define CLOCKS_KEPT 64

struct comparison {
	uint64_t gpu, boot;
	double slope; /* how much faster CLOCK_BOOTTIME has run since the comparison before, less 1 */
	bool step;    /* the clocks moved against each other since the comparison before */
};

struct clocks {
	struct comparison kept[CLOCKS_KEPT]; /* a ring: the newest is at (count - 1) % CLOCKS_KEPT */
	uint32_t count;
	uint32_t stepped_at; /* count at the last step, if there was one */
	uint64_t best_ns;    /* the shortest time between the two readings around one of CUPTI's clock */
	struct gpu_ring_clock said;
};

/* A clock that is compared: 0 and its time, or its error. */
typedef int clock_read_fn(uint64_t *ns);

uint64_t clocks_boot_ns(void);

/* Compares the clocks: the best of up to 100 readings. Returns what read() said. */
int clocks_compare(struct clocks *c, clock_read_fn *read);

/* Adds a comparison that was made; uncertain_ns: half of the time between the two readings around it. */
void clocks_add(struct clocks *c, uint64_t gpu, uint64_t boot, uint64_t uncertain_ns);

/* Whether CUPTI's clock, read between two readings of the other one, is where the last comparison points. */
bool clocks_fit(const struct clocks *c, uint64_t before, uint64_t gpu, uint64_t after);

/* Converts. ret_sure: false where the clocks were stepped around it. There must be a comparison. */
uint64_t clocks_convert(const struct clocks *c, uint64_t gpu, bool *ret_sure);

/* Shows the last comparison to the reader. */
void clocks_say(const struct clocks *c, struct gpu_ring_clock *shared);

/* ---- the ring (ring.c): names, and the vendor's buffers that are read into it. The caller holds the lock of the agent. ---- */

#define NAMES_MAX 65536 /* further ones are id 0: unknown */
#define NAME_BYTES_MAX (16u << 20)

struct name {
	uint32_t hash;
	uint32_t length;
	const char *text;    /* in the pieces of memory below, with a 0 at its end */
	const void *seen_at; /* where its library last had it */
	uint32_t written_to; /* the ring that has it, by ring.generation */
};

/* All memory is mapped: the malloc of the process may be anything. */
struct names {
	struct name *list;  /* NAMES_MAX, id - 1; pages are taken as they are used */
	uint32_t *by_hash;  /* 2 * NAMES_MAX, id or 0 */
	uint32_t *by_place; /* NAMES_MAX, a guess: id or 0 */
	char *memory;
	size_t memory_used, memory_size, bytes;
	uint32_t count;
};

struct ring {
	struct gpu_ring *shared; /* NULL: none */
	struct gpu_record *records;
	uint32_t capacity;
	uint32_t generation;                /* how many rings there have been */
	uint64_t head;                      /* our own: what is in shared is for the reader */
	uint64_t tail;                      /* as last seen */
	struct gpu_ring_writer said;        /* the counters */
	uint64_t marked_ring, marked_cupti; /* as of the last mark of dropped records */
	struct names names;
};

/* Maps the ring that a descriptor stands for. 0, or a negative errno: it is no ring of this version. */
int ring_map(struct ring *r, int fd);
void ring_unmap(struct ring *r);

/* Tells what a device is. false: there is no room for that now. */
bool ring_device(struct ring *r, uint32_t device, const struct gpu_device *about);

/* A copy of a text, which stays; NULL: there is no room. It may become a name later. */
const char *ring_keep(struct ring *r, const char *text);

/* Whether there is room for a record, whatever its name, and for the mark of ring_show(). */
bool ring_has_room(struct ring *r);

/* Writes a record, or counts it as dropped. Not visible before ring_show(). */
void ring_put(struct ring *r, const struct gpu_record *rec);

/* Marks dropped records, then shows all that was written, and the counters, to the reader. */
void ring_show(struct ring *r);

/* From a record of a vendor's library to one of the ring: what all have in common. */

/* Where, and from when to when by the vendor's clock */
struct span {
	uint64_t start, end;
	uint32_t device, context, stream, correlation;
};

/* What all records of a buffer need. */
struct reading {
	const struct clocks *clocks;
	struct ring *ring;
	uint64_t now;
	bool stepped;
	bool forced; /* what has not completed is in it, too, without times */
};

/* stepped: the clocks have moved against each other since they were compared. */
struct reading reading_begin(const struct clocks *clocks, bool stepped, struct ring *ring);

/* Counts a record of what is over. Returns false where it has no times that could be shown. */
bool reading_span(struct gpu_record *rec, const struct reading *r, const struct span *s);

/* Writes a record of a kernel with this name. */
void reading_put_kernel(struct gpu_record *rec, const struct reading *r, const char *name);

/* ---- the agent (agent.c) ---- */

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
	/* Prepares collecting, ahead of the first comparison of the clocks; end() undoes it. NULL, both: there is nothing to do. */
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
	/* How many buffers it has at present; under the lock. NULL: none. */
	uint32_t (*buffers)(void);
	/* There is no ring any more; under the lock. NULL: that does not matter. */
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
