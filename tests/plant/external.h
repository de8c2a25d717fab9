/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is planted from outside of the engine. All functions return 0, or -1 and have said why; it
 * was in force between the two instants.
 */
#ifndef PLANT_EXTERNAL_H
#define PLANT_EXTERNAL_H

#include "plant.h"

struct target {
	int pid;
	int cpu;            /* that the engine's thread runs on, to be contended */
	int other_cpu;      /* for everything else */
	const char *cgroup; /* of the engine, with the CPU controller */
};

/* A child that waits on its CPU until it is wanted. */
struct rival;
struct rival *rival_start(enum plant_cause cause, const struct target *t);
int rival_run(struct rival *r, uint64_t size_ns, uint64_t *ret_start, uint64_t *ret_end);
void rival_stop(struct rival *r);

int quota_plant(const struct target *t, uint64_t size_ns, uint64_t *ret_start, uint64_t *ret_end);
int stop_plant(const struct target *t, uint64_t size_ns, uint64_t *ret_start, uint64_t *ret_end);
int debugger_plant(const struct target *t, uint64_t size_ns, uint64_t *ret_start, uint64_t *ret_end);
int softirq_plant(const struct target *t, struct rival *flood, uint64_t size_ns, uint64_t *ret_start, uint64_t *ret_end);
int caches_drop(void);

#endif
