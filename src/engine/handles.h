/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of handles: the call that makes one says what it stands for, later calls have just the handle. */
#ifndef INFTRACE_HANDLES_H
#define INFTRACE_HANDLES_H

#include <stdint.h>

struct handles;
struct tasks;

/* tasks: names of processes that have ended there go when there are many; outlives the result; may be NULL. */
struct handles *handles_new(struct tasks *tasks);
void handles_free(struct handles *h);

/* The name from now on, in this process. Ignores empty names, the handle 0, and handles for which
 * there is no room. */
void handles_set(struct handles *h, uint32_t tgid, uint64_t handle, const char *name);

/* NULL: unknown. The name is valid until the next call that changes anything. */
const char *handles_get(const struct handles *h, uint32_t tgid, uint64_t handle);

/* The process now runs another program. */
void handles_drop(struct handles *h, uint32_t tgid);

#endif
