/* SPDX-License-Identifier: BSD-2-Clause */
/* The counters that threads are given their share of: opened on each CPU, read by the BPF programs (bpf/pmu.bpf.h). */
#ifndef INFTRACE_PMU_H
#define INFTRACE_PMU_H

#include <stdbool.h>

#include "util/counters.h"

struct inftrace_bpf;
struct pmu;

/*
 * Opens a set on all CPUs that are online, and configures the programs for it, which are not loaded yet. With
 * COUNTERS_NONE *ret_pmu is NULL. One line on failure: -EOPNOTSUPP if the machine has none of them, -EPERM if they are
 * not allowed, or another error.
 */
int pmu_new(enum counter_set set, struct inftrace_bpf *k, struct pmu **ret_pmu);
void pmu_free(struct pmu *p);

/* Gives the counters to the programs, which have been loaded. -errno. p NULL: does nothing, here and below. */
int pmu_bind(const struct pmu *p, struct inftrace_bpf *k);

/* Stops counting, which lets others have the counters, or continues. */
void pmu_set(const struct pmu *p, bool on);

struct counters pmu_counters(const struct pmu *p);

#endif
