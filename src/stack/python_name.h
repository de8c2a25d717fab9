/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names of Python frames: reads code objects in the memory of processes, which are neither stopped nor changed
 * meanwhile. What is read is hostile: all lengths are bounded, objects must be of the types that they should be of, and
 * texts become valid UTF-8.
 *
 * One thread tells which processes there are, and another may ask for names at the same time.
 */
#ifndef INFTRACE_PYTHON_NAME_H
#define INFTRACE_PYTHON_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "python_walk.h"
#include "target/python.h"

/* Bytes of a function's name and of the path of its file, with their NUL; longer ones are cut. */
#define PYTHON_NAME_MAX 256
#define PYTHON_FILE_MAX 512

/* What a Python frame is called. The texts need to be valid until the next call only. */
struct python_name {
	const char *name; /* qualified: module.Class.method, or as much as is known */
	const char *file; /* or NULL */
	uint32_t line;    /* 0: unknown */
};

struct python_names;

/* How the memory of a process is read, for tests: exactly len bytes, or negative. NULL: by /proc/PID/mem. */
typedef int (*python_read)(void *arg, uint32_t tgid, uint64_t address, void *buf, size_t len);

struct python_names *python_names_new(python_read read, void *arg);
void python_names_free(struct python_names *n);

/* The process runs this interpreter, from now on; what was known of it is forgotten. */
void python_names_set(struct python_names *n, uint32_t tgid, const struct python *p);
/* Whether a process runs one, and which. */
bool python_names_has(struct python_names *n, uint32_t tgid, struct python *ret_python);
/* It exits or runs another program. Names that were read are kept for samples that are still to come, until some more
 * processes are gone. */
void python_names_gone(struct python_names *n, uint32_t tgid);

/*
 * Names a frame of a sample, without PYTHON_F_ENTRY: by class and enclosing function where the version has that (3.11).
 * The texts are valid until the next call. -ENOENT: the process has no known interpreter; -ESRCH: it is gone; -EFAULT:
 * there is no code object (any more).
 */
int python_names_get(struct python_names *n, uint32_t tgid, uint64_t code, uint64_t instr, struct python_name *ret_named);

struct python_found {
	struct python_frame frames[SAMPLE_PYTHON_MAX]; /* innermost first, marked as those in samples are */
	unsigned int n;
	bool cut; /* there are more, or one could not be read */
	bool has_task;
	struct python_task task;
};

/* The Python frames of the thread whose pthread_self() is self, which must not run. */
void python_names_frames(struct python_names *n, uint32_t tgid, uint64_t self, struct python_found *ret_found);

/*
 * The name of an asyncio task, valid until the next call: "[task NAME]"; "[task]" if it is a number that asyncio gave it, or
 * one of more than PYTHON_TASKS_MAX names in the process, since each makes another stack of the same functions. NULL: it
 * is not known.
 */
const char *python_names_task(struct python_names *n, uint32_t tgid, const struct python_task *task);
#define PYTHON_TASKS_MAX 256

struct python_names_stats {
	uint64_t named, failed;
	uint64_t tasks_left; /* stacks of a task whose name was one too many */
	uint64_t read;       /* code objects read; the others were known */
	size_t memory;       /* bytes */
};
void python_names_stats(struct python_names *n, struct python_names_stats *ret_stats);

/* ---- from an instruction to the line, by the tables that the compiler leaves with its code ---- */

/*
 * The line of the instruction at an offset in bytes into the code (negative: not begun); 0: none, or the table does not
 * say. The table may have any content.
 */
uint32_t python_line(enum python_lines kind, const uint8_t *table, size_t len, uint32_t first_line, int64_t offset);

#endif
