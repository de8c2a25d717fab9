/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a test engine knows about its own run, for comparison with what a tracer saw.
 *
 * Everything is measured by the thread that calls the step function, directly around
 * each call. Times are nanoseconds; starts are CLOCK_BOOTTIME, the clock of the traces.
 */
#ifndef TEST_COUNTS_H
#define TEST_COUNTS_H

#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>

/* What tests/probed/count_calls.c counts, in its order. */
enum { COUNT_BARRIERS, COUNT_FORWARDS, COUNT_CALLS };

struct step {
	int32_t n_tokens;
	uint64_t start_ns, wall_ns;
	uint64_t cpu_ns;             /* CLOCK_THREAD_CPUTIME_ID */
	uint64_t calls[COUNT_CALLS]; /* by all threads */
};

struct counts {
	struct step *steps;
	size_t n_steps, steps_cap;
	uint64_t prompts, prompt_tokens, generated;
	uint64_t load_ns;
	uint64_t minflt, majflt, nvcsw, nivcsw; /* RUSAGE_THREAD, within the steps */
	struct rusage before;                   /* of the step that is open */
	uint64_t cpu_before;
	const uint64_t *calls; /* NULL: count_calls.so is not preloaded */
	FILE *stages;          /* NULL: not wanted */
};

/* Nothing counted yet. With stages_path every stage is written to that file as one JSON line
 * {"stage","start_ns","dur_ns","n_tokens"}. Returns 0 or -errno. */
int counts_init(struct counts *c, const char *stages_path);
void counts_fini(struct counts *c);

/* Around one call of the step function, on the thread that calls it. */
void counts_step_begin(struct counts *c, int32_t n_tokens);
void counts_step_end(struct counts *c);

/* A stage other than a step (load, sample, ...) that began at start_ns and ends now.
 * Returns its duration. */
uint64_t counts_stage(struct counts *c, const char *stage, uint64_t start_ns);

/* Prints everything as one line of JSON. extra: NULL, or further members as JSON text that
 * starts with a comma. */
void counts_print(const struct counts *c, const char *engine, int threads, const char *extra);

#endif
