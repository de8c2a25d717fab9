/* SPDX-License-Identifier: BSD-2-Clause */
/* The operators of PyTorch: as Kineto, its profiler, has them, and as execution traces do. */
#ifndef INFTRACE_LINK_ET_H
#define INFTRACE_LINK_ET_H

#include "link/hosts.h"
#include "read/trace.h"

/* Kineto's traces, PyTorch's profiler: what is taken from their events. */

struct kineto;

/* f gets its calls, operators and times. */
struct kineto *kineto_new(struct link_file *f);
void kineto_free(struct kineto *k);

/* The trace's baseTimeNanoseconds; without it, as before PyTorch 2.5, times are since 1970. */
void kineto_base(struct kineto *k, int64_t base_ns);

/* A slice with its times as they are in the file. */
void kineto_event(struct kineto *k, const struct trace_event *e, int64_t start_ns, int64_t end_ns);

/* Whether what has been read is of Kineto. */
bool kineto_is(const struct kineto *k);

/* After the last event: times become wall-clock times, kernels are compared with their launches. */
void kineto_finish(struct kineto *k);

/* Execution traces of PyTorch, Chakra's tools and inftrace, and whether one is of the same run as a Kineto trace. */

#define ET_NODES_MAX (1u << 22)

/* Of the operators of an execution trace. */
struct et_check {
	uint64_t nodes;
	uint64_t operators;    /* nodes with a number, rf_id */
	uint64_t found;        /* of them in the Kineto trace, with the same name */
	uint64_t renamed;      /* there with another name */
	uint64_t missing_deps; /* dependencies on nodes that are not in the file */
};

/*
 * Reads f's file. kineto NULL: it is not compared. Returns 0, or -errno with the reason in `why`, as link_file_read: it cannot
 * be read, or its dependencies form a cycle.
 */
int et_check(const struct link_file *f, const struct link_file *kineto, struct et_check *ret, char why[LINK_WHY_MAX]);

#endif
