/* SPDX-License-Identifier: BSD-2-Clause */
/* From a frame to its caller. Reads nothing but the copy of the stack. */
#ifndef INFTRACE_STACK_UNWIND_H
#define INFTRACE_STACK_UNWIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stack/row.h"

struct unwind {
	uint64_t regs[ROW_REGS];
	uint64_t known;	      /* a bit for each register */
	uint64_t start;	      /* address of the first byte of the copy */
	const uint8_t *stack; /* need not be aligned */
	size_t size;
	bool exact; /* the address is that of the next instruction to run, not one behind a call */
	bool inner; /* the first frame */
};

/* regs: ROW_REGS of them. */
void unwind_start(struct unwind *u, const uint64_t *regs, const void *stack, size_t size);

/* The address of the frame's code: for callers, within the call. */
uint64_t unwind_pc(const struct unwind *u);

/*
 * Moves on to the caller. row: of unwind_pc(). 0; 1: there is none, this is the start of the thread; -ENODATA: the copy
 * of the stack ends before; -EINVAL: nothing says where the caller is, or it makes no sense. A row that is not known
 * means that the frame pointer is tried, which the caller has to check.
 */
int unwind_step(struct unwind *u, const struct row *row);

#endif
