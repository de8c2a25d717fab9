/* SPDX-License-Identifier: BSD-2-Clause */
/* Tells the BPF programs, and the code that names frames, which processes run Python, and where its lock is. */
#ifndef INFTRACE_CAPTURE_PYTHON_H
#define INFTRACE_CAPTURE_PYTHON_H

#include <stdint.h>
#include <sys/types.h>

struct pythons {
	struct python_names *names; /* of frames: see stack/python_name.h */
	/* private */
	struct python_finder *finder;
	int runtimes_fd; /* -1: no programs yet */
	int walks_fd;    /* -1: nothing copies stacks */
	volatile uint32_t *known;
	unsigned int told_minor; /* the unknown version of the last warning */
};

struct pythons *pythons_new(void);
void pythons_free(struct pythons *p);

/* Makes processes known to the programs from now on, in their maps: of struct python_runtime, and of struct python_walk, which may be
 * negative. known: counts the processes added so far. */
void pythons_bind(struct pythons *p, int runtimes_fd, int walks_fd, volatile uint32_t *known);

/* p may be NULL for all of these. */

/* Checks whether a process runs Python, unless that is known. Takes a fraction of a millisecond, and some milliseconds once
 * for each interpreter. */
void pythons_look(struct pythons *p, pid_t pid);
/* A process has exited, or runs another program; or it has begun with the memory of its parent, at the same addresses. */
void pythons_process(struct pythons *p, uint32_t parent, uint32_t tgid);

#endif
