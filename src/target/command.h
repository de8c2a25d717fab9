/* SPDX-License-Identifier: BSD-2-Clause */
/* A command that inftrace starts itself: held back until everything is attached. */
#ifndef INFTRACE_COMMAND_H
#define INFTRACE_COMMAND_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

struct user;

struct command {
	pid_t pid;
	int release_fd; /* write end: a byte lets it go, closing it ends it */
	int error_fd;	/* read end: errno when exec failed, nothing when it worked */
	bool exited;
	int status; /* of waitpid(2) */
};

/* Whether execvp(3) would find it: 0, -ENOENT, -EACCES, -EISDIR or what else stat(2) says. */
int command_check(const char *name);

/* The program that will run: of a script its interpreter. As command_check(). */
int command_program(const char *name, char path[PATH_MAX]);

/* Forks; the child waits. Signals are as they were before inftrace blocked them. fds: what its standard
 * descriptors become, -1 as they are. user: whose it is; NULL: ours. */
int command_spawn_with(char **argv, const int fds[3], const struct user *user, struct command *ret_cmd);
int command_spawn(char **argv, struct command *ret_cmd);

/* Lets the child run. Returns the errno of its exec as a negative number, or 0. */
int command_release(struct command *cmd);

/* Takes the exit status if it has exited. */
void command_reap(struct command *cmd);

#define COMMAND_END_S 2

/* Ends it: SIGTERM, and waits up to COMMAND_END_S. Does nothing when it has exited. */
void command_end(struct command *cmd);

/* As a shell would say it: its code, or 128 + signal. */
int command_exit_code(const struct command *cmd);

#endif
