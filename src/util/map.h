/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hash tables from uthash (https://troydhanson.github.io/uthash/), which end the program when memory runs out (util/alloc.h).
 *
 * Two kinds of data have tables of their own instead: what is looked up for every record (format/workers.c,
 * target/tasks.c), since a look-up by number among a thousand threads took 1 ns there and 12 to 19 ns here; and
 * small entries by the hundred thousand (report/stats.c), since each entry here needs 56 bytes of overhead.
 */
#ifndef INFTRACE_UTIL_MAP_H
#define INFTRACE_UTIL_MAP_H

#include "util/alloc.h"

#define uthash_fatal(why) out_of_memory()
#include <uthash.h>

#endif
