/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef INFTRACE_UTIL_NEAREST_H
#define INFTRACE_UTIL_NEAREST_H

#include <stddef.h>

/* Which of the names was most likely meant: by a typing error, or by a part of it. NULL: none. */
const char *nearest_name(const char *typed, const char *const *names, size_t n);

#endif
