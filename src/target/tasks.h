/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names of the threads and processes that occur in records, and which target processes are alive.
 * They come from task records, so threads that have exited keep their names while records of them
 * may still arrive; /proc fills in those without task records (wakers outside the targets).
 */
#ifndef INFTRACE_TASKS_H
#define INFTRACE_TASKS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "record.h"
#include "target/cgroup.h"

struct task {
	uint32_t tid, tgid; /* tgid 0: the slot is empty */
	bool traced;	    /* a thread of a target */
	bool alive_process; /* on the entry of a process's main thread: a target that is alive */
	bool exited;
	uint8_t container; /* of a target's main thread: one more than its place in the list; 0: none */
	char comm[TASK_COMM_LEN];
	uint32_t written; /* a bit for each output that has written its name */
	uint64_t exit_ns; /* CLOCK_BOOTTIME when its exit was noticed */
};

struct tasks;

struct tasks *tasks_new(void);
void tasks_free(struct tasks *ts);

/* Copies everything that is known; in the copy no output has any name yet. */
struct tasks *tasks_copy(const struct tasks *ts);

/* Adds the threads of `from` outside the targets, unless their numbers are known already. */
void tasks_add_others(struct tasks *ts, const struct tasks *from);

/* The entry of a thread, created from /proc if needed. Valid until the next call that can create one. */
struct task *tasks_get(struct tasks *ts, uint32_t tgid, uint32_t tid);

/* A number that changes with every change of an entry: as long as it stays the same, anything
 * derived from an entry is still valid. */
uint64_t tasks_changes(const struct tasks *ts);

/* tasks_get() without creating an entry: NULL when unknown. */
struct task *tasks_find(struct tasks *ts, uint32_t tid);

/* Whether the thread exists and has not exited. `tgid` 0: of any process. */
bool tasks_lives(struct tasks *ts, uint32_t tgid, uint32_t tid);

/* Whether the process ended so long ago that its last records are in the sinks, or is not known any more. */
bool tasks_ended(struct tasks *ts, uint32_t tgid);

/* Forgets all names that outputs have written: all threads are new to them. */
void tasks_forget_outputs(struct tasks *ts);

/* Forgets which threads of a process (0: of all) this output has named. */
void tasks_forget_output(struct tasks *ts, unsigned int output, uint32_t tgid);

/* The entry of a waker, whose name is looked up in /proc once. */
struct task *tasks_get_other(struct tasks *ts, uint32_t tid);

/* Adds a target and its threads from /proc. -ESRCH. */
int tasks_add_process(struct tasks *ts, pid_t tgid);

/* What happens to a process as a whole. */
enum process_news {
	NEWS_NONE,
	NEWS_FORK,
	NEWS_EXEC,
	NEWS_MAPPED,   /* a file */
	NEWS_HEADLESS, /* its main thread has exited, others go on */
	NEWS_GONE,
};

/* Applies a REC_TASK record. Returns what it tells of the process. */
enum process_news tasks_update(struct tasks *ts, const struct rec_task *r);

/* The container of a target, as of when it was added or last called exec; NULL: none, or it is not known. Valid until the next
 * call that can create an entry. */
const struct container *tasks_container(struct tasks *ts, uint32_t tgid);

/* Calls cb for each target process that is alive, as far as the records tell. */
void tasks_each_process(struct tasks *ts, void (*cb)(struct task *t, void *arg), void *arg);

/* The number of target processes alive. `check` asks /proc about each, since records may have been lost. */
unsigned int tasks_alive(struct tasks *ts, bool check);

#endif
