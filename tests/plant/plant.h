/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the planter and its hook in the engine share: a file in PLANT_DIR that both map. Times are
 * nanoseconds, instants of CLOCK_BOOTTIME.
 */
#ifndef PLANT_H
#define PLANT_H

#include <stddef.h>
#include <stdint.h>

/* X(name, done by the hook within the engine) */
#define PLANT_CAUSES(X) \
	X(hog, 0)       \
	X(quota, 0)     \
	X(stop, 0)      \
	X(evict, 1)     \
	X(drop, 1)      \
	X(mutex, 1)     \
	X(pipe, 1)      \
	X(socket, 1)    \
	X(sleep, 1)     \
	X(fsync, 1)     \
	X(storm, 1)     \
	X(fork, 1)      \
	X(debugger, 0)  \
	X(softirq, 0)

#define PIPE_BYTES (256 << 10) /* written into the slow pipe, which holds less */

enum plant_cause {
	PLANT_NONE,
#define ENUM(name, hook) PLANT_##name,
	PLANT_CAUSES(ENUM)
#undef ENUM
		PLANT_MAX,
};

/* Each 32-bit member that the other side waits for is a futex. */
struct plant_shared {
	uint32_t cause; /* of this run, set before the engine starts */
	uint32_t begun; /* steps that have begun */
	uint32_t ended; /* steps that have ended */
	uint32_t tid;   /* that calls the step */

	/* what the planter wants; wanted is its number, written last */
	uint32_t wanted;
	uint32_t step, node;
	uint64_t size_ns;
	uint64_t from, length; /* of the model's mapping */

	uint32_t ready; /* number of the wish that has come so far that the planter must act */
	uint32_t go;    /* number of the wish for which it has */
	uint32_t done;  /* number of the wish that is planted */
	uint64_t start_ns, end_ns;
	uint64_t cpu_ns, delay_ns; /* of the thread in between: on a CPU, and waiting for one */
};

/* Of the model's mapping in a process. */
struct plant_range {
	uint64_t start, length;
};

/* pid: 0 for the own process. Returns 0, or -1 and has said why. */
int plant_model_find(int pid, struct plant_range *ret_range);

/* The file "shared" in $PLANT_DIR. Returns NULL and has said why. */
struct plant_shared *plant_map(int create);

int plant_cause_find(const char *name);
const char *plant_cause_name(unsigned int cause);

void plant_set(uint32_t *word, uint32_t value); /* and wakes who waits for it */
/* Until *word has reached value, as a sequence number. Returns 0, or -1 after a minute. */
int plant_wait(uint32_t *word, uint32_t value);

/* Says on stderr what failed, with errno; returns -1. */
int plant_fail(const char *what);

#endif
