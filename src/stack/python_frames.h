/* SPDX-License-Identifier: BSD-2-Clause */
/* The Python frames of a thread that does not run, as bpf/python.bpf.h finds them of one that does. */
#ifndef INFTRACE_PYTHON_FRAMES_H
#define INFTRACE_PYTHON_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "python_walk.h"

/* Exactly len bytes of the process's memory, or negative. */
typedef int (*python_frames_read)(void *arg, uint64_t address, void *buf, size_t len);

struct python_found {
	struct python_frame frames[SAMPLE_PYTHON_MAX]; /* innermost first, marked as those in samples are */
	unsigned int n;
	bool cut; /* there are more, or one could not be read */
	bool has_task;
	struct python_task task;
};

/* Of the thread whose pthread_self() is self. */
void python_frames(python_frames_read read, void *arg, const struct python_walk *w, uint64_t self, struct python_found *ret);

#endif
