/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Settings from the environment where no option is given: ours, then that of a target. Ours may say
 * anything. That of a target is somebody else's choice: see environment_may_choose().
 */
#ifndef INFTRACE_RECORD_ENVIRONMENT_H
#define INFTRACE_RECORD_ENVIRONMENT_H

#include <stdbool.h>
#include <sys/types.h>

#include "target/process.h"

/* A value from our environment; NULL when it is not set, empty or blank. */
const char *environment_ours(const char *name);

/* The environment of a process, read once. */
struct environment {
	pid_t pid; /* 0: there is no process, and nothing is set */
	struct process_text text;
	bool may_choose;
};

/* An environment that cannot be read is empty. pid 0: none. */
void environment_read(pid_t pid, struct environment *ret);
void environment_free(struct environment *e);

/* The same from the environment of the process. */
const char *environment_theirs(const struct environment *e, const char *name);

/*
 * Looks for a variable under two names, ours and that of another tool: in our environment, then in
 * theirs. NULL: not set; or it is one of VLLM_CHAKRA_*, and VLLM_CHAKRA_TRACE=0 switches them off.
 */
struct variable {
	const char *name, *value;
	pid_t pid; /* whose environment; 0: ours */
};

/* As the other tool reads a switch. */
bool environment_is_on(const char *value);

bool environment_find(const struct environment *e, const char *const names[2], struct variable *ret);

/* A process of another user must choose neither where root writes nor what it waits for. */
bool environment_may_choose(pid_t pid);

/* The path in a variable, as seen by us; malloc()ed, NULL without memory. */
char *environment_path(const struct variable *v);

/* "in the environment", "of process 123" */
const char *environment_whose(const struct variable *v, char buf[32]);

#endif
