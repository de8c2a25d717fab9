// SPDX-License-Identifier: BSD-2-Clause
#include "target/command.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/user.h"

#define END_WAIT_MS (COMMAND_END_S * 1000)
#define INTERPRETERS_MAX 4 /* the kernel's limit */

static int check_path(const char *path)
{
	struct stat st;

	if (stat(path, &st))
		return -errno;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	return access(path, X_OK) ? -errno : 0;
}

/* Finds it where execvp(3) would. */
static int find_path(const char *name, char path[PATH_MAX])
{
	const char *dirs = getenv("PATH");
	int err = -ENOENT;

	if (!*name || strchr(name, '/')) {
		if (snprintf(path, PATH_MAX, "%s", name) >= PATH_MAX)
			return -ENAMETOOLONG;
		return check_path(name);
	}
	if (!dirs)
		dirs = "/bin:/usr/bin"; /* the default of execvp */
	for (;;) {
		int len = (int)strcspn(dirs, ":");
		const char *dir = len ? dirs : "."; /* an empty part means the current directory, also at the end */

		if (snprintf(path, PATH_MAX, "%.*s/%s", len ? len : 1, dir, name) < PATH_MAX) {
			int why = check_path(path);

			if (!why)
				return 0;
			if (why == -EACCES || why == -EISDIR)
				err = -EACCES;
		}
		if (!dirs[len])
			return err;
		dirs += len + 1;
	}
}

int command_check(const char *name)
{
	char path[PATH_MAX];

	return find_path(name, path);
}

/* Reads the interpreter from the first line; false: it is not a script. */
static bool read_interpreter(char path[PATH_MAX])
{
	char line[256];
	struct stat st;
	ssize_t n;
	int fd;

	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	n = fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) ? read(fd, line, sizeof(line) - 1) : -1;
	if (fd >= 0)
		close(fd);
	if (n < 2 || memcmp(line, "#!", 2))
		return false;
	line[n] = 0;
	return sscanf(line, "#! %255s", path) == 1;
}

int command_program(const char *name, char path[PATH_MAX])
{
	struct stat st;
	int err = find_path(name, path);

	for (int depth = 0; !err && depth < INTERPRETERS_MAX && read_interpreter(path); depth++)
		err = check_path(path);
	if (!err && (stat(path, &st) || !S_ISREG(st.st_mode)))
		err = -EACCES;
	return err;
}

static void run_child(
	char **argv, const int fds[3], const struct user *user, const char *const *environment, int release_fd, int error_fd)
{
	sigset_t none;
	char go;
	int err;

	if (read(release_fd, &go, 1) != 1)
		_exit(0); /* inftrace gave up */
	close(release_fd);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGXFSZ, SIG_DFL);
	for (int fd = 0; fd < 3; fd++) {
		if (fds[fd] >= 0)
			dup2(fds[fd], fd);
	}
	err = user ? user_become(user) : 0;
	for (; environment && *environment && !err; environment++)
		err = putenv((char *)*environment) ? -errno : 0;
	if (!err) {
		execvp(argv[0], argv);
		err = -errno;
	}
	err = -err;
	if (write(error_fd, &err, sizeof(err)) < 0)
		_exit(126);
	_exit(127);
}

int command_spawn(char **argv, struct command *ret_cmd)
{
	static const int as_they_are[3] = { -1, -1, -1 };

	return command_spawn_with(argv, as_they_are, NULL, NULL, ret_cmd);
}

int command_spawn_with(char **argv, const int fds[3], const struct user *user, const char *const *environment,
	struct command *ret_cmd)
{
	int release[2], error[2];
	pid_t pid;

	if (pipe2(release, O_CLOEXEC))
		return -errno;
	if (pipe2(error, O_CLOEXEC)) {
		close(release[0]);
		close(release[1]);
		return -errno;
	}
	pid = fork();
	if (!pid) {
		close(release[1]);
		run_child(argv, fds, user, environment, release[0], error[1]);
	}
	close(release[0]);
	close(error[1]);
	if (pid < 0) {
		close(release[1]);
		close(error[0]);
		return -errno;
	}
	*ret_cmd = (struct command){ .pid = pid, .release_fd = release[1], .error_fd = error[0] };
	return 0;
}

int command_release(struct command *cmd)
{
	int err = 0;
	ssize_t n;

	if (write(cmd->release_fd, "g", 1) != 1)
		return -EPIPE;
	close(cmd->release_fd);
	cmd->release_fd = -1;
	/* a successful exec closes the pipe */
	do {
		n = read(cmd->error_fd, &err, sizeof(err));
	} while (n < 0 && errno == EINTR);
	close(cmd->error_fd);
	cmd->error_fd = -1;
	return n == sizeof(err) ? -err : 0;
}

void command_reap(struct command *cmd)
{
	if (cmd->pid && !cmd->exited && waitpid(cmd->pid, &cmd->status, WNOHANG) == cmd->pid)
		cmd->exited = true;
}

static void wait_for_exit(struct command *cmd)
{
	command_reap(cmd);
	for (int ms = 0; ms < END_WAIT_MS && !cmd->exited; ms++) {
		usleep(1000);
		command_reap(cmd);
	}
}

void command_wait(struct command *cmd)
{
	if (cmd->pid)
		wait_for_exit(cmd);
}

void command_end(struct command *cmd)
{
	if (!cmd->pid)
		return;
	if (cmd->release_fd > 0)
		close(cmd->release_fd);
	if (cmd->error_fd > 0)
		close(cmd->error_fd);
	cmd->release_fd = cmd->error_fd = -1;
	command_reap(cmd);
	if (!cmd->exited)
		kill(cmd->pid, SIGTERM);
	wait_for_exit(cmd);
}

int command_exit_code(const struct command *cmd)
{
	return WIFSIGNALED(cmd->status) ? 128 + WTERMSIG(cmd->status) : WEXITSTATUS(cmd->status);
}
