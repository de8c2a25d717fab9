/* SPDX-License-Identifier: BSD-2-Clause */
/* In which functions operators were sampled. */
#ifndef INFTRACE_SINK_OP_HOT_H
#define INFTRACE_SINK_OP_HOT_H

#include <stdbool.h>
#include <stdint.h>

#include "stack/stack.h"

struct op_function;

/* All zeroes: none. */
struct op_hot {
	struct op_function *functions;
	bool cut; /* there were more functions than are kept, or no memory: which one is the hottest is not known */
};

/* Of one operator. */
struct op_hottest {
	const struct frame *function; /* NULL: none that has a name */
	uint64_t samples, next;	      /* in it, and in the next one */
	uint64_t of;		      /* of all */
};

/*
 * A sample in the operator with this number; f: the innermost function, which must stay valid. *total: how many functions are
 * kept in all of an output, which is bounded.
 */
void op_hot_add(struct op_hot *h, uint32_t *total, uint32_t op, const struct frame *f);
void op_hot_clear(struct op_hot *h, uint32_t *total);

/* The hottest functions of the first n operators, by number: free() it. NULL: nothing is known of any, or no memory. */
struct op_hottest *op_hot_find(const struct op_hot *h, uint32_t n);

/* Whether the hottest function is certain enough to be named: see chance_is_clear(). */
bool op_hottest_is_clear(const struct op_hottest *h);

#endif
