// SPDX-License-Identifier: BSD-2-Clause
/*
 * Leaves work() without returning from it:
 *
 *	leave exec | exit | thread | killed
 *
 * by execve, by exit_group, by the exit of its thread, or because another thread ends the process.
 */
#include "../program.h"

#include "section.h"

static char *const again[] = { "leave", "nothing", NULL };
static atomic_bool inside;
static int pipes[2];

void work(const char *how);

__attribute__((noipa)) void work(const char *how)
{
	syscall(SYS_getppid);
	inside = true;
	if (!strcmp(how, "exec"))
		execv("/proc/self/exe", again);
	if (!strcmp(how, "exit"))
		_exit(0);
	if (!strcmp(how, "thread"))
		syscall(SYS_exit, 0);
	if (!strcmp(how, "killed"))
		byte_receive(pipes[0]);
}

static void *thread_run(void *arg)
{
	work(arg);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	if (argc != 2)
		return 2;
	if (!strcmp(argv[1], "nothing"))
		return 0;
	must(!pipe(pipes), "pipe");
	if (!strcmp(argv[1], "exec") || !strcmp(argv[1], "exit")) {
		work(argv[1]);
		die("execv");
	}
	thread = thread_start(thread_run, argv[1]);
	while (!inside)
		;
	if (!strcmp(argv[1], "thread"))
		pthread_join(thread, NULL);
	return 0;
}
