// SPDX-License-Identifier: BSD-2-Clause
/*
 * Short-lived processes, one after another, each ending at once:
 *
 *	spawns COUNT
 *
 * by posix_spawn, fork, vfork, and an exec by a thread other than the first, after a random time, so
 * that the first thread is about to sleep, asleep, or runnable when it is killed. Prints "ready" and
 * waits for a line on stdin.
 */
#include "../program.h"

#include <spawn.h>

#define SPIN_MAX 65536

static char *child_argv[] = { (char *)"spawns", (char *)"child", NULL };
static atomic_uint spin;

static void exec_child(void)
{
	execv("/proc/self/exe", child_argv);
	die("execv");
}

static void *exec_late(void *arg)
{
	for (unsigned int n = spin; n; n--)
		__asm__ volatile("" ::: "memory");
	exec_child();
	return arg;
}

static void exec_from_thread(void)
{
	int p[2];

	must(!pipe(p), "pipe");
	thread_start(exec_late, NULL);
	byte_receive(p[0]);
}

static pid_t spawn(unsigned int i)
{
	pid_t pid = 0;

	switch (i % 4) {
	case 0:
		must(!posix_spawn(&pid, "/proc/self/exe", NULL, NULL, child_argv, environ), "posix_spawn");
		break;
	case 1:
		pid = fork();
		if (!pid)
			_exit(0);
		break;
	case 2:
		pid = vfork();
		if (!pid)
			exec_child();
		break;
	default:
		/* a random size up to a random power of two: most paths through the kernel are short */
		spin = (unsigned int)rand() % (SPIN_MAX >> (unsigned int)rand() % 16);
		pid = fork();
		if (!pid)
			exec_from_thread();
	}
	return pid;
}

int main(int argc, char **argv)
{
	unsigned int count;
	int status;

	if (argc != 2) {
		fputs("Usage: spawns COUNT\n", stderr);
		return 2;
	}
	if (!strcmp(argv[1], "child"))
		return 0;
	count = (unsigned int)strtoul(argv[1], NULL, 10);
	line_wait();
	for (unsigned int i = 0; i < count; i++) {
		pid_t pid = spawn(i);

		if (pid < 0 || waitpid(pid, &status, 0) != pid || status) {
			fprintf(stderr, "spawns: child %u failed\n", i);
			return 1;
		}
	}
	return 0;
}
