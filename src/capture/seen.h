/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The mapped files that have been checked. Traced processes determine their number and names, so a
 * look-up takes the same time with any number, and the memory is bounded (some 4 MB).
 */
#ifndef INFTRACE_SEEN_H
#define INFTRACE_SEEN_H

#include <stdbool.h>
#include <stdint.h>

struct seen;

struct seen *seen_new(void); /* NULL without memory */
void seen_free(struct seen *s);

/*
 * Adds a file. dev 0: on any device. for_good: under any name, and never forgotten: it has probes,
 * which keep its inode. The inode number of any other file may be reused once it is deleted, so its
 * name counts, too; when the table is full, all of these are forgotten, and will be checked again.
 * build_id: of a file that an engine claims, copied; NULL for others.
 */
void seen_add(struct seen *s, uint64_t dev, uint64_t ino, const char *name, bool for_good, const char *build_id);
bool seen_has(const struct seen *s, uint64_t dev, uint64_t ino, const char *name, const char **ret_build_id);

#endif
