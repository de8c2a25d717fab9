/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef INFTRACE_UTIL_NEAREST_H
#define INFTRACE_UTIL_NEAREST_H

#include <stddef.h>

#define EDIT_LEN_MAX 128

/* The edit distance (Levenshtein's) of two names of at most EDIT_LEN_MAX bytes, or max + 1 when it is larger. */
int edit_distance(const char *a, int la, const char *b, int lb, int max);

/* The name that was most likely meant: one that differs by a typing error, or that contains what
 * was typed. NULL: none. */
const char *nearest_name(const char *typed, const char *const *names, size_t n);

#endif
