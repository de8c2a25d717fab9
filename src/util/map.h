/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hash tables, which are uthash's (https://troydhanson.github.io/uthash/). Without memory HASH_ADD*()
 * leaves the entry's hh.tbl NULL and the entry out, where the library by itself would end the program.
 *
 * What is looked up for every record has a table of its own instead: of a thousand threads a look-up by
 * number took 1 ns there and 12 to 19 ns here (sink/workers.c, target/tasks.c); and what is small and
 * comes by the hundred thousand (report/idmap.c), since each entry here has 56 bytes besides its own.
 */
#ifndef INFTRACE_UTIL_MAP_H
#define INFTRACE_UTIL_MAP_H

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#endif
