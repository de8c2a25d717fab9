/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hash tables from uthash (https://troydhanson.github.io/uthash/). Without memory HASH_ADD*() leaves
 * out the entry and sets its hh.tbl to NULL, where the library by default would end the program.
 *
 * Two kinds of data have tables of their own instead: what is looked up for every record (format/workers.c,
 * target/tasks.c), since a look-up by number among a thousand threads took 1 ns there and 12 to 19 ns here; and
 * small entries by the hundred thousand (report/stats.c), since each entry here needs 56 bytes of overhead.
 */
#ifndef INFTRACE_UTIL_MAP_H
#define INFTRACE_UTIL_MAP_H

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#endif
