/* SPDX-License-Identifier: BSD-2-Clause */
/* Kineto's traces, PyTorch's profiler: what is taken from their events. */
#ifndef INFTRACE_LINK_KINETO_H
#define INFTRACE_LINK_KINETO_H

#include "link/file.h"
#include "read/trace.h"

struct kineto;

/* f gets its calls, operators and times. -ENOMEM. */
int kineto_new(struct link_file *f, struct kineto **ret_kineto);
void kineto_free(struct kineto *k);

/* The trace's baseTimeNanoseconds; without it, as before PyTorch 2.5, times are since 1970. */
void kineto_base(struct kineto *k, int64_t base_ns);

/* A slice with its times as they are in the file. 0 or -ENOMEM. */
int kineto_event(struct kineto *k, const struct trace_event *e, int64_t start_ns, int64_t end_ns);

/* Whether what has been read is of Kineto. */
bool kineto_is(const struct kineto *k);

/* After the last event: times become wall-clock times, kernels are compared with their launches. -ENOMEM. */
int kineto_finish(struct kineto *k);

#endif
