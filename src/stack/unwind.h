/* SPDX-License-Identifier: BSD-2-Clause */
/* Unwinds a copied stack; a process of its own reads the ELF files for that. Only plain data passes between the processes. */
#ifndef INFTRACE_STACK_UNWIND_H
#define INFTRACE_STACK_UNWIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stack/intern.h"

/* ---- a row of DWARF's call frame information: how to get from a frame's registers to its caller's ---- */

/* Registers by their DWARF numbers. */
#ifdef __x86_64__
#define ROW_REGS 17
#define ROW_FP 6
#define ROW_SP 7
#define ROW_PC 16
#define ROW_RA 16 /* holds the return address on entry */
#else
#define ROW_REGS 33
#define ROW_FP 29
#define ROW_SP 31
#define ROW_PC 32
#define ROW_RA 30
#endif

#define ROW_OPS_MAX 80 /* a signal handler's return takes 37 */

enum rule_kind {
	RULE_UNDEFINED,
	RULE_SAME,
	RULE_AT,      /* saved at CFA + offset */
	RULE_IS,      /* CFA + offset */
	RULE_REG,     /* register `reg` + offset */
	RULE_AT_EXPR, /* saved at the address that the operations yield */
	RULE_IS_EXPR, /* the value that the operations yield */
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
	uint8_t known;  /* 0: the file has no row for this place */
	uint8_t signal; /* a signal interrupted the caller, so its address is not a return address */
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
	uint64_t from, to;         /* file offsets in [from, to) for which all of this holds */
	char name[STACK_NAME_MAX]; /* "": none */
};

#define FILE_BUILD_ID_MAX 129

/* ---- files ---- */

/*
 * Reads the ELF files of traced processes in a process of its own. The traced processes control these files, and libdw
 * is not hardened against hostile ones; besides, truncating a file while it is mapped kills the process that reads it.
 * The process is forked once, early; it keeps no capabilities and few system calls, and has limits on memory and time.
 * A child of it does the reading: when that ends or takes too long it is replaced, and the file that it read last is
 * given up.
 */

struct reader;

/* File numbers are below this. */
#define READER_FILES_MAX 2048

/* How long one answer may take. The first one on a file includes reading its symbols. */
#define READER_MS_MAX 10000

/* How often the process may be replaced. */
#define READER_REPLACED_MAX 16

int reader_new(struct reader **ret_reader);
void reader_free(struct reader *r);

/* Returns how often the reading process was replaced: a new one has no file open. */
unsigned int reader_generation(const struct reader *r);

#define READER_LINK_MAX 256

/* Opens a file under the number `file`. fd, debug_fd, linked: see lookup_open(). -EPROTO: reading it failed badly, don't try
 * again; or another error. */
int reader_open(struct reader *r, uint32_t file, int fd, int debug_fd, bool linked);

/* Closes a file and frees its number. */
void reader_close(struct reader *r, uint32_t file);

/* After reader_open(): see lookup_link(). */
void reader_link(const struct reader *r, char to[READER_LINK_MAX]);

/* See lookup_place(). -EPROTO as above; -EBADF: the file is not open. */
int reader_place(struct reader *r, uint32_t file, uint64_t offset, struct place *ret_place);

/* ---- from a frame to its caller, reading only the copy of the stack ---- */

struct unwind {
	uint64_t regs[ROW_REGS];
	uint64_t known;       /* bit mask of registers */
	uint64_t start;       /* address of the first byte of the copy */
	const uint8_t *stack; /* need not be aligned */
	size_t size;
	bool exact; /* the PC is the next instruction to run, not a return address */
	bool inner; /* the innermost frame */
};

/* regs: ROW_REGS registers. stack is not copied. */
void unwind_start(struct unwind *u, const uint64_t *regs, const void *stack, size_t size);

/* Returns an address within the frame's current instruction: for callers, within the call. */
uint64_t unwind_pc(const struct unwind *u);

/*
 * Moves on to the caller. row: of unwind_pc(). Returns 0; 1: no caller, this is the start of the thread; -ENODATA: the
 * copy of the stack is too short; -EINVAL: the caller cannot be found, or makes no sense. With an unknown row the frame
 * pointer is tried; the user of this function has to check the result.
 */
int unwind_step(struct unwind *u, const struct row *row);

#endif
