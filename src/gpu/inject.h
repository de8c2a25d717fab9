/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Brings the agent (gpu/agent/) into a process that runs already: has one of its threads call dlopen() and then the
 * agent's entry. The process goes on as if nothing had happened, also when this one is killed meanwhile.
 */
#ifndef INFTRACE_GPU_INJECT_H
#define INFTRACE_GPU_INJECT_H

#include <stddef.h>
#include <sys/types.h>

struct inspector;

/*
 * The files of the process are read by the inspector. agent_path is absolute, for us: where the process does not see that file, it gets a
 * copy of it in memory; socket_name as in gpu/hand_over.h. 0: the agent has started, and will connect. Else a
 * negative errno, with a line in ret_why that says what is in the way, and nothing has changed in the process; but
 * -ETIMEDOUT: its thread has not come back yet, and will do so by itself. Takes milliseconds as a rule, at most half a
 * minute.
 */
int gpu_inject(struct inspector *inspector, pid_t pid, const char *agent_path, const char *socket_name, char *ret_why, size_t size);

#endif
