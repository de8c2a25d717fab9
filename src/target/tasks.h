/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names of the threads and processes that records speak of, and which processes of the
 * targets are alive. Kept from the task records, so threads that have exited keep their name while
 * records of them may still come; /proc fills in those that never sent one (wakers outside the
 * targets).
 */
#ifndef INFTRACE_TASKS_H
#define INFTRACE_TASKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "record.h"

struct task {
	uint32_t tid, tgid; /* tgid 0: the slot is empty */
	bool traced;	    /* a thread of a target */
	bool alive_process; /* on the entry of a process's main thread: a target that lives */
	bool exited;
	char comm[TASK_COMM_LEN];
	uint32_t written; /* a bit for each output that has its name */
	uint64_t exit_ns;
};

struct tasks;

int tasks_new(struct tasks **ret_tasks);
void tasks_free(struct tasks *ts);

/* All that is known, in a table of its own; no output has any name of it. -ENOMEM. */
int tasks_copy(const struct tasks *ts, struct tasks **ret_copy);

/* Adds those of `from` that are no threads of targets, as far as their numbers are not known. */
void tasks_add_others(struct tasks *ts, const struct tasks *from);

/* The entry of a thread; created from /proc when there is none. NULL only without memory. The
 * pointer is valid until the next call that can create one. */
struct task *tasks_get(struct tasks *ts, uint32_t tgid, uint32_t tid);

/* A number that is another one after every change of an entry: who has kept what it made of an entry
 * need not look again as long as this is the same. */
uint64_t tasks_changes(const struct tasks *ts);

/* The same without creating: NULL when unknown. */
struct task *tasks_find(struct tasks *ts, uint32_t tid);

/* Whether the thread is there and has not exited. `tgid` 0: of whatever process. */
bool tasks_lives(struct tasks *ts, uint32_t tgid, uint32_t tid);

/* No output has any name: all are new. */
void tasks_forget_outputs(struct tasks *ts);

/* Forgets which threads of a process (0: of all) this output has named. */
void tasks_forget_output(struct tasks *ts, unsigned int output, uint32_t tgid);

/* A waker: its name is looked up in /proc once. NULL without memory. */
struct task *tasks_get_other(struct tasks *ts, uint32_t tid);

/* Adds a target and its threads, as /proc shows them. -ESRCH. */
int tasks_add_process(struct tasks *ts, pid_t tgid);

/* Follows a REC_TASK record. */
void tasks_update(struct tasks *ts, const struct rec_task *r);

/* Calls cb for each target process that is alive, as far as the records tell. */
void tasks_each_process(struct tasks *ts, void (*cb)(struct task *t, void *arg), void *arg);

/* Target processes alive. With `check`, /proc is asked about each (records may have been lost). */
unsigned int tasks_alive(struct tasks *ts, bool check);

#endif
