/* SPDX-License-Identifier: BSD-2-Clause */
/* Unwinding a copied stack, and the process that reads the files for that. */
#ifndef INFTRACE_STACK_UNWIND_H
#define INFTRACE_STACK_UNWIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stack/row.h"

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

/* in_process: no other process. Negative errno. */
int reader_new(bool in_process, struct reader **ret_reader);
void reader_free(struct reader *r);

/* How many times the process that reads was replaced: then no file is open any more. */
unsigned int reader_generation(const struct reader *r);

#define READER_LINK_MAX 256

/* Opens a file under a number. Takes over the descriptors; debug_fd: a file with what was stripped from it, or -1.
 * -EPROTO: reading it failed badly, don't try again; or another error. */
int reader_open(struct reader *r, uint32_t file, int fd, int debug_fd);

/* The same with a debug_fd that was found by name: see lookup_open(). */
int reader_open_linked(struct reader *r, uint32_t file, int fd, int debug_fd);

/* Its number is free again. */
void reader_close(struct reader *r, uint32_t file);

/* After reader_open(): see lookup_link(). */
void reader_link(const struct reader *r, uint32_t file, char to[READER_LINK_MAX]);

/* See lookup_place(). -EPROTO as above; -EBADF: the file is not open. */
int reader_place(struct reader *r, uint32_t file, uint64_t offset, struct place *ret_place);

/* From a frame to its caller. Reads nothing but the copy of the stack. */

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
