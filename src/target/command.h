/* SPDX-License-Identifier: BSD-2-Clause */
/* Commands: one that inftrace starts itself, and what the files and the command line of an engine say of its model. */
#ifndef INFTRACE_COMMAND_H
#define INFTRACE_COMMAND_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* A command that inftrace starts itself and holds back until everything is attached. */

struct user;

struct command {
	pid_t pid;
	int release_fd; /* write end: a byte lets the command run, closing it ends the command */
	int error_fd;	/* read end: errno if exec failed, nothing if it succeeded */
	bool exited;
	int status; /* as from waitpid(2) */
};

/* Whether execvp(3) would find it: 0, -ENOENT, -EACCES, -EISDIR or another error of stat(2). */
int command_check(const char *name);

/* Finds the program that will run: for a script its interpreter. Errors as for command_check(). */
int command_program(const char *name, char path[PATH_MAX]);

/* Forks; the child waits. Its signals are as they were before inftrace blocked them. fds: its standard
 * descriptors, -1 to inherit one. user: whom it runs as; NULL: the user of inftrace. environment: NAME=VALUE in addition to
 * inftrace's own, ending with NULL; or NULL. */
int command_spawn(char **argv, const int fds[3], const struct user *user, const char *const *environment, struct command *ret_cmd);

/* Lets the child run. Returns 0, or -errno if its exec failed. */
int command_release(struct command *cmd);

/* Takes the exit status if the command has exited. */
void command_reap(struct command *cmd);

#define COMMAND_END_S 2

/* Waits up to COMMAND_END_S for a command that is about to exit. */
void command_wait(struct command *cmd);

/* Ends the command: sends SIGTERM and waits up to COMMAND_END_S. Does nothing if it has exited. */
void command_end(struct command *cmd);

/* The exit code that a shell would give: its code, or 128 + signal. */
int command_exit_code(const struct command *cmd);

/* What a process reveals about the model that it serves. All of it is hostile. */

#define MODEL_NAME_MAX 257 /* with the NUL */

struct json_object;
struct process_text;

/*
 * The name, without its directory, of the .gguf file that the process has mapped most of, else of one that
 * it has open. -ENOENT, -ESRCH, -EACCES.
 */
int model_of_files(pid_t pid, char name[MODEL_NAME_MAX]);

/* The model that its command line names, by --model or the like, or as in `vllm serve NAME`. -ENOENT. */
int model_of_cmdline(const struct process_text *cmdline, char name[MODEL_NAME_MAX]);

/* The number of sequences at a time that --parallel or the like allows; 0: no such option. */
uint32_t model_concurrency(const struct process_text *cmdline);

/*
 * Adds the options on its command line as "--name": "value", or true for those without a value. Only
 * settings: numbers, words and file names; for short options only numbers, since the word after one may be
 * a prompt. No secrets.
 */
void model_add_options(const struct process_text *cmdline, struct json_object *obj);

#endif
