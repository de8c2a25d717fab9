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

/* One that goes on, in a process of its own: the target can hold up that one, but not us. */
struct gpu_injection {
	pid_t pid;    /* of the target */
	pid_t helper; /* 0: none */
	struct gpu_injection_said *said;
};

/* What else is asked first, there: 0, or a negative errno and a line. */
typedef int gpu_injection_check(pid_t pid, char *ret_why, size_t size);

/*
 * The files of the process are read by the inspector. agent_path is absolute, for us: where the process does not see that file, it gets a
 * copy of it in memory; socket_name as in gpu/hand_over.h. check may be NULL.
 */
int gpu_injection_begin(struct inspector *inspector, pid_t pid, const char *agent_path, const char *socket_name, gpu_injection_check *check,
	struct gpu_injection *ret_injection);

/*
 * -EINPROGRESS: it goes on; otherwise it is over. 0: the agent has started, and will connect. Else a negative errno, with a
 * line in ret_why that says what is in the way, and nothing has changed in the process; but -ETIMEDOUT: it took too long, and a thread that has not come back
 * from loading the agent yet will do so by itself. Takes milliseconds as a rule, and at most a second after its files have been read.
 */
int gpu_injection_result(struct gpu_injection *i, char *ret_why, size_t size);

/* Without a result. i may be over, or have never begun. */
void gpu_injection_end(struct gpu_injection *i);

#endif
