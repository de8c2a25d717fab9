/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of handles: calls that make one say what it stands for, later calls have just the handle.
 */
#ifndef INFTRACE_HANDLES_H
#define INFTRACE_HANDLES_H

#include <stdint.h>

struct handles;

/* NULL: no memory. */
struct handles *handles_new(void);
void handles_free(struct handles *h);

/* Of this process from now on. Empty names, the handle 0, and more handles than there is room for
 * are left out. */
void handles_set(struct handles *h, uint32_t tgid, uint64_t handle, const char *name);

/* NULL: not known. The name is valid until the next call that changes something. */
const char *handles_get(const struct handles *h, uint32_t tgid, uint64_t handle);

/* There is another program in the process now. */
void handles_drop(struct handles *h, uint32_t tgid);

#endif
