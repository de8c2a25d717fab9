/* SPDX-License-Identifier: BSD-2-Clause */
/* Execution traces of PyTorch, Chakra's tools and inftrace, and whether one is of the same run as a Kineto trace. */
#ifndef INFTRACE_LINK_ET_H
#define INFTRACE_LINK_ET_H

#include "link/file.h"

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
