/* SPDX-License-Identifier: BSD-2-Clause */
/* Whom the threads of a step waited for a CPU behind, as it is told. */
#ifndef INFTRACE_SINK_BEHIND_H
#define INFTRACE_SINK_BEHIND_H

#include <stdbool.h>
#include <stddef.h>

#include "record.h"

struct behind_row {
	uint64_t ns;
	uint32_t tid, tgid;	  /* 0: nobody; by says what there was instead: "idle", "cpu.max" */
	bool limit;
	char by[TASK_COMM_LEN + 1]; /* as its owner named it: not fit to print */
};

/*
 * The rows of a table, the longest first. waited_ns: the time that all of it is part of; a table that has
 * more is not used. Returns how many; *ret_others is what no row has.
 */
size_t behind_rows(const struct behind_table *table, uint64_t waited_ns,
	struct behind_row rows[BEHIND_MAX], uint64_t *ret_others);

#endif
