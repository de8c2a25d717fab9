/* SPDX-License-Identifier: BSD-2-Clause */
/* Gives up privileges of this process irrevocably. */
#ifndef INFTRACE_CONFINE_H
#define INFTRACE_CONFINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONFINE_CAP(cap) (UINT64_C(1) << (cap))

/* Whether this thread has all these capabilities. */
bool confine_has(uint64_t caps);

/* Drops all capabilities of this thread that are not in `keep`. Call it before other threads exist.
 * Nothing can bring the others back, not even an exec. Negative errno. */
int confine_capabilities(uint64_t keep);

/* Refuses all but these system calls, by number, with EPERM. Children inherit a filter, and a later one adds to those
 * before. Sets no_new_privs. Negative errno. */
int confine_to_calls(const int *calls, size_t n);

/* Refuses what a process that only records never does: run other programs, change its user, mounts,
 * modules or clocks, look into other processes by ptrace, use the network, fork. */
int confine_recorder(void);

/* The same, but it may use the network. */
int confine_client(void);

/* Sets a limit of setrlimit(2), which cannot be raised again. */
void confine_limit(int resource, uint64_t max);

/*
 * Confines a process that reads for another one: it is in a process group of its own, takes no signal but SIGALRM, which ends
 * it, ends with its parent, dumps no core, writes no file, and has no capabilities and no descriptor but this one. Returns the
 * descriptor's new number, or negative errno.
 */
int confine_reader(int fd, const char *name);

/* Requests SIGALRM after ms; 0: never. */
void confine_time(unsigned int ms);

/* Whether system calls and memory can be limited, too: not with a sanitizer, which needs more of both. */
bool confine_is_full(void);

/* Closes all descriptors but this one, which must be 3 or above, and points 0 to 2 (with_stderr: 0 and 1) at /dev/null, so
 * that no message can be written anywhere. Returns the descriptor's new number, or negative errno. */
int confine_to_descriptor(int fd, bool with_stderr);

#endif
