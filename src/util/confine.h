/* SPDX-License-Identifier: BSD-2-Clause */
/* Gives up privileges of this process, for good. */
#ifndef INFTRACE_CONFINE_H
#define INFTRACE_CONFINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONFINE_CAP(cap) (UINT64_C(1) << (cap))

/* Whether this thread has all of the capabilities. */
bool confine_has(uint64_t caps);

/* Keeps those of the capabilities that are in `keep`, for this thread: to be called before there are
 * others. Nothing can bring the others back, also not by an exec. Negative errno. */
int confine_capabilities(uint64_t keep);

/* System calls by number that are refused (EPERM), or the only ones that are not. A filter stays for
 * what is forked, and comes on top of those before. Sets no_new_privs. Negative errno. */
int confine_to_calls(const int *calls, size_t n);
int confine_without_calls(const int *calls, size_t n);

/* What nobody does who only records: run other programs, become somebody else, change mounts, modules
 * or clocks, look into other processes by ptrace, speak to a network, fork. */
int confine_recorder(void);

#endif
