// SPDX-License-Identifier: BSD-2-Clause
/* same_pid PID: a process with that number makes system calls, until it is killed; exits with 77 where it
 * cannot get that number. */
#include "../program.h"

#include <linux/sched.h>

int main(int argc, char **argv)
{
	pid_t pid = argc > 1 ? atoi(argv[1]) : 0;
	struct clone_args args = { .exit_signal = SIGCHLD, .set_tid = (uintptr_t)&pid, .set_tid_size = 1 };
	long child = syscall(SYS_clone3, &args, sizeof(args));

	if (child < 0) {
		perror("clone3");
		return 77;
	}
	if (!child) {
		for (;;) {
			syscall(SYS_getppid);
			usleep(1000);
		}
	}
	say("ready");
	return waitpid(pid, NULL, 0) < 0;
}
