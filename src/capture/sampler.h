/* SPDX-License-Identifier: BSD-2-Clause */
/* The clocks that take samples of what runs: a software event on each CPU. */
#ifndef INFTRACE_SAMPLER_H
#define INFTRACE_SAMPLER_H

#include <stdbool.h>
#include <stdint.h>

/* What perf_event_open(2) wants, for messages; above 2 is a patch of Debian and Ubuntu, whose kernels begin with 3 and 4. */
#define PERF_EVENT_RIGHTS "it takes CAP_PERFMON, and where kernel.perf_event_paranoid is above 2 CAP_SYS_ADMIN: run as root, or set that to 2"

#define SAMPLE_HZ_DEFAULT 99 /* beats with no timer of whole milliseconds */
#define SAMPLE_HZ_MAX 999

struct bpf_program;
struct sampler;

/* Runs the program hz times in each second of every CPU that is not idle. Prints one line on failure; -errno. */
int sampler_new(struct bpf_program *prog, unsigned int hz, struct sampler **ret_sampler);
void sampler_free(struct sampler *s);

/* Stops the clocks, or starts them again. */
void sampler_set(struct sampler *s, bool on);

/* Opens such an event on a CPU: a file descriptor, or -errno. */
int sampler_open_event(unsigned int hz, int cpu);

/* Nanoseconds between two samples of a CPU. */
static inline uint64_t sampler_period_ns(unsigned int hz)
{
	return UINT64_C(1000000000) / hz;
}

#endif
