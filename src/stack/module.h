/* SPDX-License-Identifier: BSD-2-Clause */
/* The files that processes run code of, and what is known of places in them. */
#ifndef INFTRACE_STACK_MODULE_H
#define INFTRACE_STACK_MODULE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "stack/intern.h"
#include "stack/row.h"
#include "target/process.h"

struct modules;
struct module;

/* A place in a file. */
struct spot {
	const struct row *row; /* NULL: nothing is known */
	uint32_t frame;	       /* INTERN_NONE without memory */
	bool named;
	bool fault;	       /* reading the file for this failed badly */
	bool starts;	       /* where threads begin */
	bool evaluates;	       /* Python's function that evaluates frames */
};

struct modules_stats {
	uint64_t files, failed, lookups;
	size_t memory;
};

/* The number of the files that reading one process's files may end the reader for. */
#define MODULE_FAILURES_MAX 3

int modules_new(struct intern *in, bool in_process, struct modules **ret_modules);
void modules_free(struct modules *ms);

/* The file of a mapping, opened through the process. fault: set when reading it failed badly. NULL: it cannot be had. */
struct module *modules_get(struct modules *ms, pid_t pid, const struct mapped_file *m, bool *ret_fault);

/*
 * Files that no process maps any more are dropped when there are many: if modules_many(), call modules_use() for each that a
 * process points to, and modules_drop_unused(). Frames that they had stay.
 */
bool modules_many(const struct modules *ms);
void modules_use(struct module *m);
void modules_drop_unused(struct modules *ms);

/* The page of code that the kernel gives each process. */
struct module *modules_vdso(struct modules *ms);

/* What is known of an offset in the file. Valid until the next call. */
struct spot modules_spot(struct modules *ms, struct module *m, pid_t pid, const struct mapped_file *from, uint64_t offset);

void modules_stats(const struct modules *ms, struct modules_stats *ret_stats);

#endif
