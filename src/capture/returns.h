/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef INFTRACE_RETURNS_H
#define INFTRACE_RETURNS_H

#include <stdbool.h>
#include <sys/types.h>

/* Whether a return probe would end this process at its first return. */
bool returns_break(pid_t pid);

#endif
