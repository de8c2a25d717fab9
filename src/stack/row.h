/* SPDX-License-Identifier: BSD-2-Clause */
/* How to find the registers of the caller from those of a frame, at one place in a file: a row of the table that
 * DWARF's call frame information encodes. Plain data, since it is passed between processes. */
#ifndef INFTRACE_STACK_ROW_H
#define INFTRACE_STACK_ROW_H

#include <stdint.h>

#include "stack/stack.h"

/* By DWARF's numbers. */
#ifdef __x86_64__
#define ROW_REGS 17
#define ROW_FP 6
#define ROW_SP 7
#define ROW_PC 16
#define ROW_RA 16 /* where the return address is at first */
#else
#define ROW_REGS 33
#define ROW_FP 29
#define ROW_SP 31
#define ROW_PC 32
#define ROW_RA 30
#endif

#define ROW_OPS_MAX 80 /* of which a signal handler's return takes 37 */

enum rule_kind {
	RULE_UNDEFINED,
	RULE_SAME,
	RULE_AT,       /* at CFA + offset */
	RULE_IS,       /* is CFA + offset */
	RULE_REG,      /* the value of register `reg`, plus offset */
	RULE_AT_EXPR,  /* at the address that the operations yield */
	RULE_IS_EXPR,  /* what the operations yield */
	RULE_KIND_MAX,
};

struct rule {
	uint8_t kind;
	uint8_t reg;
	uint8_t op, n_ops; /* in row.ops */
	int32_t offset;
};

struct row_op {
	int64_t number, number2;
	uint32_t atom, pad;
};

struct row {
	uint8_t known;	   /* 0: the file says nothing of this place */
	uint8_t signal;	   /* a signal interrupted the caller: its address is no return address */
	uint8_t ra;	   /* register that holds the return address */
	uint8_t n_ops;
	uint32_t pad;
	struct rule cfa;   /* RULE_REG or RULE_IS_EXPR */
	struct rule regs[ROW_REGS];
	struct row_op ops[ROW_OPS_MAX];
};

/* What a file says of one place in it. */
struct place {
	struct row row;
	uint64_t rel_pc; /* see struct frame */
	uint64_t from, to; /* offsets in the file: all of this is so from here up to there */
	char name[STACK_NAME_MAX]; /* "": none */
};

#define FILE_BUILD_ID_MAX 129

#endif
