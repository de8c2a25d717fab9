/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef INFTRACE_UTIL_NEAREST_H
#define INFTRACE_UTIL_NEAREST_H

#include <stddef.h>

#define EDIT_LEN_MAX 128

/* Edit distance (Levenshtein's) of two names of at most EDIT_LEN_MAX bytes, or max + 1 when it is larger. */
int edit_distance(const char *a, int la, const char *b, int lb, int max);

/* Which of the names was most likely meant: by a typing error, or by a part of it. NULL: none. */
const char *nearest_name(const char *typed, const char *const *names, size_t n);

#endif
