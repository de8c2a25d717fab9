/* SPDX-License-Identifier: BSD-2-Clause */
/* What mock_driver.c and mock_hip_driver.c have in common: they are told what to do by commands. */
#ifndef MOCK_COMMANDS_H
#define MOCK_COMMANDS_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char **arguments;

static void carry_out(char *line);

static void close_all(void)
{
	for (int fd = 3; fd < 256; fd++)
		close(fd);
	for (int i = 0; i < 16; i++)
		if (open("/dev/null", O_RDWR) < 0)
			break;
}

static void fork_command(const char *one, const char *two)
{
	char rest[256];
	pid_t child;

	snprintf(rest, sizeof(rest), "%s %s", one ? one : "", two ? two : "");
	child = fork();
	if (!child) {
		carry_out(rest);
		exit(0);
	}
	waitpid(child, NULL, 0);
}

/* Commands that have nothing to do with a GPU. */
static bool carry_out_common(const char *word, const char *one, const char *two)
{
	if (!strcmp(word, "exit"))
		exit(0);
	if (!strcmp(word, "exec"))
		execv("/proc/self/exe", (char *[]){ arguments[0], NULL });
	if (!strcmp(word, "fork"))
		fork_command(one, two);
	else if (!strcmp(word, "sleep"))
		usleep(one ? (useconds_t)strtoul(one, NULL, 10) * 1000 : 0);
	else if (!strcmp(word, "close-all"))
		close_all();
	else
		return false;
	return true;
}

/* Names of kernels, all different; one is very long. */
static const char *nth_name(unsigned long i)
{
	static char name[9000];

	snprintf(name, sizeof(name), "kernel_%lu", i);
	if (i == 3) {
		memset(name + 8, 'x', sizeof(name) - 9);
		name[sizeof(name) - 1] = '\0';
	}
	return name;
}

/* By the arguments or, without any, by lines of standard input; each line is answered by "ok" once it has been carried out. */
static int run_commands(int argc, char **argv)
{
	char line[512];

	arguments = argv;
	for (int i = 1; i < argc; i++) {
		snprintf(line, sizeof(line), "%s", argv[i]);
		carry_out(line);
	}
	while (argc == 1 && fgets(line, sizeof(line), stdin)) {
		carry_out(line);
		puts("ok");
		fflush(stdout);
	}
	return 0;
}

#endif
