/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names Python frames: reads code objects in the memory of processes, which are neither stopped nor changed. The memory
 * is hostile: all lengths are bounded, objects must have the expected types, and texts become valid UTF-8.
 *
 * One thread may set processes while another asks for names.
 */
#ifndef INFTRACE_PYTHON_NAME_H
#define INFTRACE_PYTHON_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "python_walk.h"
#include "target/python.h"

/* Bytes of a function's name and of its file's path, with NUL; longer ones are cut. */
#define PYTHON_NAME_MAX 256
#define PYTHON_FILE_MAX 512

/* A Python frame's name. The texts need only be valid until the next call. */
struct python_name {
	const char *name; /* qualified: module.Class.method, or as much as is known */
	const char *file; /* or NULL */
	uint32_t line;    /* 0: unknown */
};

struct python_names;

/* Reads the memory of a process, for tests: exactly len bytes, else negative. NULL: /proc/PID/mem is read. */
typedef int (*python_read)(void *arg, uint32_t tgid, uint64_t address, void *buf, size_t len);

struct python_names *python_names_new(python_read read, void *arg);
void python_names_free(struct python_names *n);

/* The process runs this interpreter from now on; forgets what was known of the process. */
void python_names_set(struct python_names *n, uint32_t tgid, const struct python *p);
/* Whether the process runs an interpreter, and which. */
bool python_names_has(struct python_names *n, uint32_t tgid, struct python *ret_python);
/* The process exits or runs another program. Its names are kept for samples still to come, until more processes are gone.
 * Returns whether it ran an interpreter. */
bool python_names_gone(struct python_names *n, uint32_t tgid);

/*
 * Names a frame of a sample; instr without PYTHON_F_ENTRY. From 3.11 on the name has class and enclosing function. The
 * texts are valid until the next call. -ENOENT: the process has no known interpreter; -ESRCH: it is gone; -EFAULT: there
 * is no code object (any more).
 */
int python_names_get(struct python_names *n, uint32_t tgid, uint64_t code, uint64_t instr, struct python_name *ret_named);

struct python_found {
	struct python_frame frames[SAMPLE_PYTHON_MAX]; /* innermost first, with PYTHON_F_ENTRY as in samples */
	unsigned int n;
	bool cut; /* there are more, or one could not be read */
	bool has_task;
	struct python_task task;
};

/* Finds the Python frames of the thread whose pthread_self() is self; it must not run. */
void python_names_frames(struct python_names *n, uint32_t tgid, uint64_t self, struct python_found *ret_found);

/*
 * Returns the name of an asyncio task, valid until the next call: "[task NAME]"; "[task]" if asyncio numbered it, or beyond
 * PYTHON_TASKS_MAX names in the process, since each name makes another stack of the same functions. NULL: not known.
 */
const char *python_names_task(struct python_names *n, uint32_t tgid, const struct python_task *task);
#define PYTHON_TASKS_MAX 256

struct python_names_stats {
	uint64_t named, failed;
	uint64_t tasks_left; /* stacks of tasks beyond PYTHON_TASKS_MAX names */
	uint64_t read;       /* code objects read, not taken from the cache */
	size_t memory;       /* bytes */
};
void python_names_stats(struct python_names *n, struct python_names_stats *ret_stats);

/* ---- from an instruction to its line, by the line table of the code object ---- */

/*
 * Returns the line of the instruction at a byte offset in the code (negative: not begun); 0: none, or the table does not
 * say. The table may have any content.
 */
uint32_t python_line(enum python_lines kind, const uint8_t *table, size_t len, uint32_t first_line, int64_t offset);

#endif
