/* SPDX-License-Identifier: BSD-2-Clause */
/* The threads behind which those of a step waited for a CPU, as rows of a table. */
#ifndef INFTRACE_SINK_BEHIND_H
#define INFTRACE_SINK_BEHIND_H

#include <stdbool.h>
#include <stddef.h>

#include "record.h"

struct behind_row {
	uint64_t ns;
	uint32_t tid, tgid;	  /* 0: no thread; `by` says what there was instead: "idle", "cpu.max" */
	bool limit;
	char by[TASK_COMM_LEN + 1]; /* as its owner named it: may be unprintable */
};

/*
 * Returns the number of rows of a table, longest first. waited_ns: the time of which the rows are parts;
 * a table with a larger sum is not used. *ret_others is what no row has.
 */
size_t behind_rows(const struct behind_table *table, uint64_t waited_ns,
	struct behind_row rows[BEHIND_MAX], uint64_t *ret_others);

#endif
