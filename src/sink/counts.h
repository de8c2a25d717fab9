/* SPDX-License-Identifier: BSD-2-Clause */
/* What counters counted, in the formats of outputs. */
#ifndef INFTRACE_COUNTS_H
#define INFTRACE_COUNTS_H

#include "util/counters.h"

/* Instructions per cycle, in thousandths; false: not both were counted. */
bool counts_ipc(const struct counters *c, const uint64_t *n, uint64_t *ret_ipc);

/* Members of an object: ,"instructions":1 and so on; *first: without the first comma. */
char *counts_fmt(char *p, const struct counters *c, const uint64_t *n, bool *first);
#define COUNTS_FMT_MAX 160 /* bytes */

#endif
