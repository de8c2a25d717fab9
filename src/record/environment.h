/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the environment says where no option does: ours, then that of a target. Ours may say
 * anything. That of a target is somebody else's choice: see environment_may_choose().
 */
#ifndef INFTRACE_RECORD_ENVIRONMENT_H
#define INFTRACE_RECORD_ENVIRONMENT_H

#include <stdbool.h>
#include <sys/types.h>

#include "target/process.h"

/* A value of ours; NULL when it is not set, empty or blank. */
const char *environment_ours(const char *name);

/* That of a process, read once. */
struct environment {
	pid_t pid; /* 0: there is none, and nothing is set */
	struct process_text text;
	bool may_choose;
};

/* One that cannot be read is empty. pid 0: none. */
void environment_read(pid_t pid, struct environment *ret);
void environment_free(struct environment *e);

/* Likewise, of the process. */
const char *environment_theirs(const struct environment *e, const char *name);

/*
 * A variable under two names, ours and that of another tool: in our environment, then in theirs. NULL:
 * not set, or, where it is of VLLM_CHAKRA_*, switched off by VLLM_CHAKRA_TRACE=0.
 */
struct variable {
	const char *name, *value;
	pid_t pid; /* whose it is; 0: ours */
};

bool environment_find(const struct environment *e, const char *const names[2], struct variable *ret);

/* A process of somebody else must choose neither where root writes nor what it waits for. */
bool environment_may_choose(pid_t pid);

/* A path of a variable as one of ours; malloc()ed, NULL without memory. */
char *environment_path(const struct variable *v);

/* "in the environment", "of process 123" */
const char *environment_whose(const struct variable *v, char buf[32]);

#endif
