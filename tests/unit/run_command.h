/* SPDX-License-Identifier: BSD-2-Clause */
/* A command of inftrace as a whole, in a child process, on text made by a test. */
#ifndef INFTRACE_TEST_RUN_COMMAND_H
#define INFTRACE_TEST_RUN_COMMAND_H

#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "cmd/cmd.h"
#include "unit.h"

struct output {
	int rc;
	char *out, *err;
};

static inline char *fd_text(int fd)
{
	struct stat sb;
	char *text;

	assert_int_equal(fstat(fd, &sb), 0);
	text = malloc((size_t)sb.st_size + 1);
	assert_non_null(text);
	assert_int_equal(pread(fd, text, (size_t)sb.st_size, 0), sb.st_size);
	text[sb.st_size] = '\0';
	close(fd);
	return text;
}

/* Runs it in a child, since argp exits by itself on usage errors. */
static inline void run_command(struct output *result, int (*command)(int argc, char **argv), const void *text, size_t len, char **argv)
{
	int in, out, err, status, argc = 0;
	pid_t pid;

	while (argv[argc])
		argc++;
	in = memfd_create("in", MFD_CLOEXEC);
	out = memfd_create("out", MFD_CLOEXEC);
	err = memfd_create("err", MFD_CLOEXEC);
	assert_true(in >= 0 && out >= 0 && err >= 0);
	assert_int_equal(write(in, text, len), len);
	assert_int_equal(lseek(in, 0, SEEK_SET), 0);
	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		dup2(in, STDIN_FILENO);
		dup2(out, STDOUT_FILENO);
		dup2(err, STDERR_FILENO);
		exit(command(argc, argv));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	result->rc = WEXITSTATUS(status);
	result->out = fd_text(out);
	result->err = fd_text(err);
	close(in);
}

static inline void output_free(struct output *result)
{
	free(result->out);
	free(result->err);
}

static inline void assert_contains(const char *text, const char *wanted)
{
	if (!strstr(text, wanted))
		fail_msg("no \"%s\" in:\n%s", wanted, text);
}

#endif
