/* SPDX-License-Identifier: BSD-2-Clause */
/* What /proc says about a process. All names come from the traced side: treat them as hostile. */
#ifndef INFTRACE_PROCESS_H
#define INFTRACE_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "record.h"
#include "util/clock.h"

bool process_exists(pid_t pid);

/* If not, other threads may still be running. */
bool process_main_thread_lives(pid_t pid);

#define PROCESS_STATUS_MAX 512 /* bytes of a line of /proc/PID/status; 32 nested namespaces take 352 */

/* Copies what follows `name`, which ends in a colon, in /proc/PID/status; also of a thread. -ESRCH: no such line or process. */
int process_status(pid_t pid, const char *name, char ret_value[PROCESS_STATUS_MAX]);

/* Whether its main thread has a shadow stack (x86). */
bool process_has_shadow_stack(pid_t pid);

/* A kernel thread has no memory of its own and runs no program. */
bool process_is_kernel_thread(pid_t pid);

/* Reads a file of /proc/PID in one read, as far as it fits, and adds a NUL. -ESRCH, or another error of open(2). */
int process_file(pid_t pid, const char *name, char *buf, size_t size);

/* Copies the name of a process or thread into comm, NUL-terminated. -ESRCH when it is gone. */
int process_comm(pid_t pid, char comm[TASK_COMM_LEN]);

/* The tgid of a thread. -ESRCH. */
int process_tgid(pid_t tid, pid_t *ret_tgid);

/*
 * What its time namespace adds to its clocks. Zero as for clock_shift_read(). -EOPNOTSUPP: unknown, since it has made a
 * namespace for its children (unshare(2)), and the kernel only tells what that one adds. -ESRCH.
 */
int process_clock_shift(pid_t pid, struct clock_shift *ret_shift);

/* The real user of a process. -ESRCH. */
int process_user(pid_t pid, uid_t *ret_uid);

/* Its parent, whose number is 0 for one outside of this PID namespace. -ESRCH. */
int process_parent(pid_t pid, pid_t *ret_parent);

/* Calls cb for each thread of the process; the first non-zero return ends the walk and is returned.
 * -ESRCH when the process is gone. */
int process_each_thread(pid_t pid, int (*cb)(pid_t tid, void *arg), void *arg);

/* Calls cb for every process; same returns, except for -ESRCH. */
int process_each(int (*cb)(pid_t pid, void *arg), void *arg);

struct mapped_file {
	uint64_t dev, ino;
	uint64_t start, end; /* addresses of the mapping */
	uint64_t offset;     /* in the file */
	const char *path;    /* as the process sees it; valid during the callback; may end in " (deleted)" */
};

/* Calls cb for each executable file mapping. Same returns as process_each_thread(), and -EACCES when
 * the kernel does not let us look: see ptrace(2), "Ptrace access mode checking". */
int process_each_mapped(pid_t pid, int (*cb)(const struct mapped_file *m, void *arg), void *arg);

/* The same for all mappings of files. */
int process_each_file(pid_t pid, int (*cb)(const struct mapped_file *m, void *arg), void *arg);

/* The same for all executable mappings: without a file ino is 0, and the path is "[vdso]", "" and the like. */
int process_each_executable(pid_t pid, int (*cb)(const struct mapped_file *m, void *arg), void *arg);

/* The process's number in its own PID namespace. -ESRCH. */
int process_own_number(pid_t pid, pid_t *ret_number);

/* Whether it has a socket, TCP or UNIX, on which it waits for connections; false also if that cannot be read. */
bool process_listens(pid_t pid);

/* Strings, each terminated by a NUL, that a process was started with or has put there since: hostile. */
struct process_text {
	char *data;
	size_t len;
};

/* Reads the environment, at most 4 MB of it, or the command line, at most 64 KB. They are empty once
 * the process has exited and waits for its parent. -ESRCH, -EACCES. */
int process_environ(pid_t pid, struct process_text *ret);
int process_cmdline(pid_t pid, struct process_text *ret);
void process_text_free(struct process_text *t);

/* The string after s, the first for NULL; NULL: there is none. */
const char *process_text_next(const struct process_text *t, const char *s);

/* The value of a variable; if it is set twice the first one, as for getenv(3); NULL: not set. */
const char *process_text_variable(const struct process_text *t, const char *name);

/* The resident set in bytes. -ESRCH when the process has exited (or is a zombie). */
int rss_read(pid_t tgid, uint64_t *ret_bytes);

/* The highest one since the last exec of the process (VmHWM). */
int rss_peak_read(pid_t tgid, uint64_t *ret_bytes);

#endif
