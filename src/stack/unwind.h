/* SPDX-License-Identifier: BSD-2-Clause */
/* Unwinding a copied stack, and the process that reads the files for that. What is passed between processes is plain data. */
#ifndef INFTRACE_STACK_UNWIND_H
#define INFTRACE_STACK_UNWIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stack/intern.h"

/* ---- a row of the table that DWARF's call frame information encodes: from the registers of a frame to those of its caller ---- */

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
	RULE_AT,      /* at CFA + offset */
	RULE_IS,      /* is CFA + offset */
	RULE_REG,     /* the value of register `reg`, plus offset */
	RULE_AT_EXPR, /* at the address that the operations yield */
	RULE_IS_EXPR, /* what the operations yield */
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
	uint8_t known;  /* 0: the file says nothing of this place */
	uint8_t signal; /* a signal interrupted the caller: its address is no return address */
	uint8_t ra;     /* register that holds the return address */
	uint8_t n_ops;
	uint32_t pad;
	struct rule cfa; /* RULE_REG or RULE_IS_EXPR */
	struct rule regs[ROW_REGS];
	struct row_op ops[ROW_OPS_MAX];
};

/* What a file says of one place in it. */
struct place {
	struct row row;
	uint64_t rel_pc;           /* see struct frame */
	uint64_t from, to;         /* offsets in the file: all of this is so from here up to there */
	char name[STACK_NAME_MAX]; /* "": none */
};

#define FILE_BUILD_ID_MAX 129

/* ---- files ---- */

/*
 * Reads the ELF files of traced processes in a process of its own. They are under the control of those processes, and
 * libdw was not written for files that want to do harm; besides, whoever may write to a file can make it shorter while
 * it is being read, which ends the process that has mapped it. The process is forked once, early; it keeps no
 * capabilities and few system calls, and has limits on memory and time. What reads for it is its child: when that ends
 * or takes too long it is replaced, and the file that it read last is given up.
 */

struct reader;

/* The number of a file. */
#define READER_FILES_MAX 2048

/* How long the answer to one question may take. The first one on a file includes reading its symbols. */
#define READER_MS_MAX 10000

/* The process may be replaced so many times. */
#define READER_REPLACED_MAX 16

int reader_new(struct reader **ret_reader);
void reader_free(struct reader *r);

/* How many times the process that reads was replaced: then no file is open any more. */
unsigned int reader_generation(const struct reader *r);

#define READER_LINK_MAX 256

/* Opens a file under a number. fd, debug_fd, linked: see lookup_open(). -EPROTO: reading it failed badly, don't try again; or
 * another error. */
int reader_open(struct reader *r, uint32_t file, int fd, int debug_fd, bool linked);

/* Its number is free again. */
void reader_close(struct reader *r, uint32_t file);

/* After reader_open(): see lookup_link(). */
void reader_link(const struct reader *r, char to[READER_LINK_MAX]);

/* See lookup_place(). -EPROTO as above; -EBADF: the file is not open. */
int reader_place(struct reader *r, uint32_t file, uint64_t offset, struct place *ret_place);

/* ---- from a frame to its caller: reads nothing but the copy of the stack ---- */

struct unwind {
	uint64_t regs[ROW_REGS];
	uint64_t known;       /* a bit for each register */
	uint64_t start;       /* address of the first byte of the copy */
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
