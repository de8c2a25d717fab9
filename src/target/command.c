// SPDX-License-Identifier: BSD-2-Clause
#include "target/command.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "target/process.h"
#include "util/alloc.h"
#include "util/parse.h"
#include "util/text.h"
#include "util/user.h"

#define END_WAIT_MS (COMMAND_END_S * 1000)
#define INTERPRETERS_MAX 4 /* the kernel's limit */

static int program_check_path(const char *path)
{
	struct stat st;

	if (stat(path, &st))
		return -errno;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	return access(path, X_OK) ? -errno : 0;
}

/* Finds it where execvp(3) would. */
static int program_find_path(const char *name, char path[PATH_MAX])
{
	const char *dirs = getenv("PATH");
	int err = -ENOENT;

	if (!*name || strchr(name, '/')) {
		if (snprintf(path, PATH_MAX, "%s", name) >= PATH_MAX)
			return -ENAMETOOLONG;
		return program_check_path(name);
	}
	if (!dirs)
		dirs = "/bin:/usr/bin"; /* the default of execvp */
	for (;;) {
		int len = (int)strcspn(dirs, ":");
		const char *dir = len ? dirs : "."; /* an empty part means the current directory, also at the end */

		if (snprintf(path, PATH_MAX, "%.*s/%s", len ? len : 1, dir, name) < PATH_MAX) {
			int why = program_check_path(path);

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

	return program_find_path(name, path);
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
	int err = program_find_path(name, path);

	for (int depth = 0; !err && depth < INTERPRETERS_MAX && read_interpreter(path); depth++)
		err = program_check_path(path);
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

int command_spawn(char **argv, const int fds[3], const struct user *user, const char *const *environment,
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

#define SUFFIX ".gguf"
#define FILES_MAX 16   /* models of one process that are distinguished */
#define FDS_MAX 4096   /* descriptors that are checked */
#define VALUE_MAX 64
#define OPTIONS_MAX 32

/* Copies the name of a .gguf file from its path, without " (deleted)"; false: another kind of file. */
static bool model_file_name(const char *path, char name[MODEL_NAME_MAX])
{
	static const char deleted[] = " (deleted)";
	const char *base = basename(path);
	size_t len = strlen(base), tail = strlen(deleted), suffix = strlen(SUFFIX);

	if (len > tail && !strcmp(base + len - tail, deleted))
		len -= tail;
	if (len <= suffix || len >= MODEL_NAME_MAX || strncasecmp(base + len - suffix, SUFFIX, suffix))
		return false;
	memcpy(name, base, len);
	name[len] = 0;
	return true;
}

struct model_file {
	char name[MODEL_NAME_MAX];
	uint64_t bytes;
};

struct model_files {
	struct model_file list[FILES_MAX];
	size_t n;
};

static void model_files_add(struct model_files *f, const char *name, uint64_t bytes)
{
	size_t i = 0;

	while (i < f->n && strcmp(f->list[i].name, name))
		i++;
	if (i == FILES_MAX)
		return;
	if (i == f->n) {
		f->list[f->n++].bytes = 0;
		memcpy(f->list[i].name, name, strlen(name) + 1);
	}
	f->list[i].bytes += bytes;
}

static int add_mapped(const struct mapped_file *m, void *arg)
{
	char name[MODEL_NAME_MAX];

	if (model_file_name(m->path, name))
		model_files_add(arg, name, m->end - m->start);
	return 0;
}

/* Reads only the links: open() or stat() of their targets may take for ever. */
static void read_fds(pid_t pid, struct model_files *files)
{
	char path[64], target[PATH_MAX], name[MODEL_NAME_MAX];
	unsigned int seen = 0;
	struct dirent *d;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	dir = opendir(path);
	if (!dir)
		return;
	while (seen++ < FDS_MAX && (d = readdir(dir))) {
		ssize_t n = readlinkat(dirfd(dir), d->d_name, target, sizeof(target) - 1);

		if (n <= 0)
			continue;
		target[n] = 0;
		if (target[0] == '/' && model_file_name(target, name))
			model_files_add(files, name, 0);
	}
	closedir(dir);
}

int model_of_files(pid_t pid, char name[MODEL_NAME_MAX])
{
	struct model_files *files = xcalloc(1, sizeof(*files));
	const struct model_file *best;
	int err;

	err = process_each_file(pid, add_mapped, files);
	if (!err && !files->n)
		read_fds(pid, files);
	best = files->list;
	for (size_t i = 1; i < files->n; i++) {
		const struct model_file *m = &files->list[i];

		if (m->bytes > best->bytes || (m->bytes == best->bytes && strcmp(m->name, best->name) < 0))
			best = m;
	}
	if (!err && !files->n)
		err = -ENOENT;
	if (!err)
		memcpy(name, best->name, sizeof(best->name));
	free(files);
	return err;
}

/* ---- the command line ---- */

/* The value of the option at *s, in the same string or the next one; moves *s to the last string that
 * belongs to the option. */
static const char *option_value(const struct process_text *t, const char **s, char name[VALUE_MAX])
{
	size_t len = strcspn(*s, "=");
	const char *next;

	name[0] = 0;
	if (len >= VALUE_MAX)
		return NULL;
	memcpy(name, *s, len);
	name[len] = 0;
	if ((*s)[len] == '=')
		return *s + len + 1;
	next = process_text_next(t, *s);
	/* a negative number is a value, not an option */
	if (!next || (next[0] == '-' && !isdigit((unsigned char)next[1]) && next[1] != '.'))
		return NULL;
	*s = next;
	return next;
}

static bool value_is_number(const char *value)
{
	char *end;

	strtod(value, &end);
	return *value && !*end && !isspace((unsigned char)*value);
}

static bool is_one_of(const char *name, const char *const *names, size_t n)
{
	size_t i = 0;

	while (i < n && strcmp(name, names[i]))
		i++;
	return i < n;
}

static bool is_model_option(const char *name, const char *value)
{
	static const char *const names[] = { "--model", "--model-path", "--model_path", "--model-id", "--hf-repo", "-hf", "-hfr" };
	size_t len = strlen(value), suffix = strlen(SUFFIX);

	if (!strcmp(name, "-m")) /* for Python -m is a module */
		return len > suffix && !strcasecmp(value + len - suffix, SUFFIX);
	return is_one_of(name, names, sizeof(names) / sizeof(names[0]));
}

/* Copies the name of a file without its directory, and of a repository, "org/name", both parts. */
static bool set_model(const char *value, char name[MODEL_NAME_MAX])
{
	const char *slash = strrchr(value, '/'), *base = value;
	size_t len;

	if (slash && (strchr("/.~", value[0]) || strchr(value, '/') != slash))
		base = slash + 1;
	len = strlen(base);
	if (text_is_blank(base, len) || len >= MODEL_NAME_MAX || secret_value(value))
		return false;
	memcpy(name, base, len + 1);
	return true;
}

int model_of_cmdline(const struct process_text *cmdline, char name[MODEL_NAME_MAX])
{
	static const char *const servers[] = { "vllm", "ferrum" };
	const char *s = process_text_next(cmdline, NULL), *before = s;

	for (; s && (s = process_text_next(cmdline, s)); before = s) {
		const char *value = NULL;
		char option[VALUE_MAX];

		if (s[0] == '-')
			value = option_value(cmdline, &s, option);
		if (value && is_model_option(option, value) && set_model(value, name))
			return 0;
		if (strcmp(s, "serve") || !is_one_of(basename(before), servers, 2))
			continue;
		value = process_text_next(cmdline, s);
		if (value && *value != '-' && set_model(value, name))
			return 0;
	}
	return -ENOENT;
}

uint32_t model_concurrency(const struct process_text *cmdline)
{
	static const char *const names[] = { "-np", "--parallel", "--max-num-seqs", "--max_num_seqs", "--max-running-requests",
		"--max-concurrent-requests" };
	const char *s = process_text_next(cmdline, NULL);
	uint32_t n = 0, last = 0;

	while (s && (s = process_text_next(cmdline, s))) {
		char option[VALUE_MAX];
		const char *value = s[0] == '-' ? option_value(cmdline, &s, option) : NULL;

		if (value && is_one_of(option, names, sizeof(names) / sizeof(names[0])) && !parse_u32(value, &n) && n)
			last = n; /* the last one counts, as for parsers of command lines */
	}
	return last;
}

/* Letters, digits and the characters that occur in words, lists and file names. */
static bool is_plain(const char *text)
{
	for (const char *p = text; *p; p++) {
		if (!isalnum((unsigned char)*p) && !strchr("_.,:/+-", *p))
			return false;
	}
	return *text && strlen(text) < VALUE_MAX;
}

static bool is_secret(const char *name, const char *value)
{
	size_t len = strlen(name);
	bool counts = len > 6 && !strcasecmp(name + len - 6, "tokens"); /* --max-num-batched-tokens */

	if (counts && (!value || value_is_number(value)))
		return false;
	return secret_name(name) || (value && secret_value(value));
}

static bool option_is_text(const char *name)
{
	return strcasestr(name, "prompt") || strcasestr(name, "user") || strcasestr(name, "text") ||
	       strcasestr(name, "message");
}

void model_add_options(const struct process_text *cmdline, struct json_object *obj)
{
	const char *s = process_text_next(cmdline, NULL);
	unsigned int n = 0;

	while (s && n < OPTIONS_MAX && (s = process_text_next(cmdline, s))) {
		char name[VALUE_MAX];
		const char *value;

		if (!strcmp(s, "--"))
			break;
		if (s[0] != '-' || !s[1] || isdigit((unsigned char)s[1]))
			continue;
		value = option_value(cmdline, &s, name);
		if (!name[0] || !is_plain(name) || is_secret(name, value) || option_is_text(name) ||
			(value && (!is_plain(value) || (name[1] != '-' && !value_is_number(value)))))
			continue;
		if (json_object_object_add(obj, name, value ? json_object_new_string(value) : json_object_new_boolean(1)))
			out_of_memory();
		n++;
	}
}
