/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Turns a sample (registers, a copy of the stack, addresses in the kernel, Python's frames) into a stack of named
 * frames. Nothing here needs BPF.
 *
 *   unwind.c          steps from frame to frame in the copied stack; runs the process that reads the ELF files, which
 *                     the traced side controls
 *   lookup.c          what each file says of a place in it: how to unwind from there, and its name
 *   kernel_symbols.c  names of the kernel's functions, and of code made at run time
 *   intern.c          one copy of each text, frame and stack
 *
 * Frames and stacks have small numbers that stay valid for the recording. Memory is bounded: see stacks_config.
 *
 * One thread takes samples. Another may look up a number (stacks_get(), stacks_frame()) that was handed to it with
 * the usual synchronisation: what a number stands for never moves and never changes.
 */
#ifndef INFTRACE_STACK_H
#define INFTRACE_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stack/intern.h"

struct python_found;
struct python_name;
struct python_task;
struct rec_sample;
struct stacks;

struct stacks_config {
	/* Names a Python frame; instr without PYTHON_F_ENTRY. Returns nonzero if the name is not known. NULL: none is. */
	int (*python)(void *arg, uint32_t tgid, uint64_t code, uint64_t instr, struct python_name *ret_name);
	/* Finds the Python frames of a waiting thread by its thread pointer; see stack/python_name.h. NULL: there are none. */
	void (*python_frames)(void *arg, uint32_t tgid, uint64_t self, struct python_found *ret_found);
	/* Returns an asyncio task's name as a frame, valid until the next call, or NULL if not known. NULL: none is. */
	const char *(*python_task)(void *arg, uint32_t tgid, const struct python_task *task);
	void *python_arg; /* of all three */
	/* Bytes for texts, frames and stacks; 0: 24 MB. When they are used up, a new stack is STACK_NONE. */
	size_t memory_max;
};

/* Forks the process that reads files: call it before privileges are dropped and other threads exist. Negative errno. */
int stacks_new(const struct stacks_config *c, struct stacks **ret_stacks);
void stacks_free(struct stacks *s);

/* Returns the id of the sample's stack. size: bytes of the record and all that follows it; STACK_NONE if the record claims more. */
uint32_t stacks_take(struct stacks *s, const struct rec_sample *r, size_t size);

/* Gives the frame ids of a stack, innermost first. Returns how many, 0 for STACK_NONE and unknown ids. */
unsigned int stacks_get(const struct stacks *s, uint32_t stack, const uint32_t **ret_frames);
/* NULL: no such frame. */
const struct frame *stacks_frame(const struct stacks *s, uint32_t frame);

/* Reads the mappings of a process now, since it may be gone when its samples arrive. */
void stacks_know_process(struct stacks *s, uint32_t tgid);
/* The process has mapped a file: mappings are read again with its next sample. */
void stacks_remap_process(struct stacks *s, uint32_t tgid);
/* The process is gone or runs another program. Its named frames stay. */
void stacks_forget_process(struct stacks *s, uint32_t tgid);

struct stacks_stats {
	uint64_t samples;
	uint64_t user;                /* samples with a user space part */
	uint64_t complete;            /* unwound to the start of the thread */
	uint64_t cut;                 /* the copy of the stack or the limit of frames ended first */
	uint64_t broken;              /* no way to the caller is known, or it leads in circles */
	uint64_t no_memory;           /* STACK_NONE since the memory was used up */
	uint64_t malformed;           /* records that contradict themselves */
	uint64_t files, files_failed; /* read; given up: malformed, too slow, or they ended the process that reads */
	uint64_t lookups;             /* requests to that process */
	uint64_t ns;                  /* time spent in stacks_take() */
	uint64_t places;              /* user space addresses looked up */
	uint64_t made;                /* addresses in no file and without a name: run-time code */
	size_t memory;                /* bytes, without the process that reads files */
	uint32_t stacks, frames, processes;
};

void stacks_stats(const struct stacks *s, struct stacks_stats *ret_stats);

#endif
