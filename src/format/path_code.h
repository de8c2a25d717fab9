/* SPDX-License-Identifier: BSD-2-Clause */
/* Which code ran, or waited, in the time that a path puts down to a thread: by the samples that were taken of it meanwhile. */
#ifndef INFTRACE_PATH_CODE_H
#define INFTRACE_PATH_CODE_H

#include <stdbool.h>
#include <stdint.h>

#include "record.h"
#include "stack/stack.h"

struct path_code;

/* stacks must outlive the result. */
struct path_code *path_code_new(const struct stacks *stacks);
void path_code_free(struct path_code *c);

/* Keeps a sample. The oldest make room. Only those outside of steps count. */
void path_code_add(struct path_code *c, const struct rec_stack *r);

#define PATH_CODE_MAX 384

/*
 * Finds the innermost function that at least half of the thread's time from..to in a state has in common, by samples on the CPU or of
 * waits, and the innermost one of Python around it that is not of the standard library: "scan_once_unicode [_json.so] from
 * load (serve.py:12)", and the asyncio task, if that has a name: " in [task loader]". false: there is no such function, or fewer than two samples on the CPU, or no wait.
 */
bool path_code_find(const struct path_code *c, uint32_t tid, enum time_state state, uint64_t from_ns, uint64_t to_ns, char ret[PATH_CODE_MAX]);

#endif
