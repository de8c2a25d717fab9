/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of handles: the call that makes one says what it stands for, later calls have just the handle. */
#ifndef INFTRACE_HANDLES_H
#define INFTRACE_HANDLES_H

#include <stdint.h>

struct handles;
struct tasks;

/* tasks: tells which processes have ended, whose names go when there are many; must outlive the result; may be NULL. */
struct handles *handles_new(struct tasks *tasks);
void handles_free(struct handles *h);

/* Names a handle of this process from now on. Ignores empty names, the handle 0, and handles without room. */
void handles_set(struct handles *h, uint32_t tgid, uint64_t handle, const char *name);

/* The same for a handle that is of no interest once there are 32768 newer ones, in all processes, and then has no name. */
void handles_set_recent(struct handles *h, uint32_t tgid, uint64_t handle, const char *name);

/* NULL: unknown. The name is valid until the next call that changes anything. */
const char *handles_get(const struct handles *h, uint32_t tgid, uint64_t handle);

/* Call when the process runs another program. */
void handles_drop(struct handles *h, uint32_t tgid);

#endif
