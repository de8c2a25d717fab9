/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Injects an agent (gpu/agent/, hook/agent/) into a running process: has one of its threads call dlopen() and then the agent's
 * entry. The process goes on as if nothing had happened, even if inftrace is killed meanwhile.
 */
#ifndef INFTRACE_GPU_INJECT_H
#define INFTRACE_GPU_INJECT_H

#include <stddef.h>
#include <sys/types.h>

struct inspector;

/* An injection under way, in a helper process: the target can hold up the helper, but not the recorder. */
struct gpu_injection {
	pid_t pid;    /* of the target */
	pid_t helper; /* 0: none */
	struct gpu_injection_said *said;
};

/* What is injected, besides its path. */
struct injected_library {
	const char *entry;  /* int (const char *socket_name) */
	const char *soname; /* finds it in a process that has it already */
};

/* A further check that the helper makes first. Returns 0, or a negative errno and a line in ret_why. */
typedef int gpu_injection_check(pid_t pid, char *ret_why, size_t size);

/*
 * Starts an injection. The inspector reads the files of the process. agent_path: absolute, as this process sees it; if the target does
 * not see that file, it gets a copy in memory. socket_name: see agent/listener.h. check may be NULL.
 */
int gpu_injection_begin(struct inspector *inspector, pid_t pid, const struct injected_library *library, const char *agent_path,
	const char *socket_name, gpu_injection_check *check, struct gpu_injection *ret_injection);

/*
 * Returns -EINPROGRESS while the injection goes on; otherwise it is over. 0: the agent has started, and will connect. Else a negative
 * errno with the reason as a line in ret_why, and nothing has changed in the process; but after -ETIMEDOUT a thread that still loads
 * the agent will come back by itself. Takes milliseconds as a rule, and at most a second once the files have been read.
 */
int gpu_injection_result(struct gpu_injection *i, char *ret_why, size_t size);

/* Ends an injection without a result. It may be over, or have never begun. */
void gpu_injection_end(struct gpu_injection *i);

#endif
