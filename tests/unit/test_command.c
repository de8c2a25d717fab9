// SPDX-License-Identifier: BSD-2-Clause
/* Commands that inftrace starts: found as by execvp(3), held until they are released. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "elf_image.h"
#include "target/command.h"
#include "target/file.h"
#include "unit.h"

static char dir[] = "/tmp/test_command.XXXXXX";
static const char *const files[] = { "tool", "no-exec", "here/only-here", "out" };

static void make_file(const char *name, mode_t mode)
{
	static const char text[] = "#!/bin/sh\nexit 9\n";
	int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static int enter_directory(void **state)
{
	signal(SIGPIPE, SIG_IGN);
	setenv("PATH", "/usr/bin:/bin", 1); /* not directories that only some may search */
	if (!mkdtemp(dir) || chdir(dir) || mkdir("here", 0700) || mkdir("folder", 0700) ||
		mkdir("here/tool", 0700))
		return -1;
	make_file("tool", 0700);
	make_file("no-exec", 0600);
	make_file("here/only-here", 0700);
	return 0;
}

static int leave_directory(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		unlink(files[i]);
	rmdir("here/tool");
	rmdir("here");
	rmdir("folder");
	return chdir("/") || rmdir(dir);
}

/* ---- command_check ---- */

/* Whether execvp() runs it; tried in a child. */
static bool execvp_finds(const char *name)
{
	char *argv[] = { (char *)name, NULL };
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		int null = open("/dev/null", O_RDWR);

		dup2(null, STDIN_FILENO);
		dup2(null, STDOUT_FILENO);
		dup2(null, STDERR_FILENO);
		execvp(name, argv);
		_exit(222);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return !WIFEXITED(status) || WEXITSTATUS(status) != 222;
}

TEST(test_check)
{
	static const char *const paths[] = { "/bin:/usr/bin", "", ":", "/nonexistent",
		"/nonexistent:", ":/nonexistent", "/nonexistent::/bin", "here", "here:", "here:.",
		".:here", "/bin/", NULL };
	static const char *const names[] = { "sh", "tool", "./tool", "no-exec", "./no-exec",
		"only-here", "here/only-here", "folder", "./folder", "/", "nothing", "./nothing",
		"tool/x", "", ".", "..", "/bin/sh", "/bin/nothing", "tool:" };
	char *before = strdup(getenv("PATH"));

	for (size_t p = 0; p < ARRAY_SIZE(paths); p++) {
		if (paths[p])
			setenv("PATH", paths[p], 1);
		else
			unsetenv("PATH");
		for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
			int err = command_check(names[i]);

			if (!err != execvp_finds(names[i]))
				fail_msg("PATH %s, %s: %d", paths[p] ? paths[p] : "unset", names[i],
					err);
		}
	}
	setenv("PATH", before, 1);
	free(before);
}

TEST(test_check_errors)
{
	static const struct {
		const char *name;
		int err;
	} names[] = { { "tool", 0 }, { "nothing", -ENOENT }, { "./nothing", -ENOENT }, { "", -ENOENT }, { "no-exec", -EACCES },
		{ "./no-exec", -EACCES }, { "folder", -EACCES }, { "./folder", -EISDIR }, { "./tool/x", -ENOTDIR } };
	char *before = strdup(getenv("PATH")), *longest;

	setenv("PATH", "/nonexistent:.", 1);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (command_check(names[i].name) != names[i].err)
			fail_msg("%s: %d", names[i].name, command_check(names[i].name));
	}

	/* longer than any path: neither found nor truncated to something that exists */
	longest = malloc(3 * PATH_MAX);
	memset(longest, '/', 3 * PATH_MAX);
	strcpy(longest + 2 * PATH_MAX, "bin");
	setenv("PATH", longest, 1);
	assert_int_equal(command_check("sh"), -ENOENT);
	strcpy(longest + 2 * PATH_MAX, "bin:/bin");
	setenv("PATH", longest, 1);
	assert_int_equal(command_check("sh"), 0);
	memset(longest, 'a', PATH_MAX + 10);
	longest[PATH_MAX + 10] = 0;
	assert_int_equal(command_check(longest), -ENOENT);
	setenv("PATH", before, 1);
	free(longest);
	free(before);
}

/* ---- loaders ---- */

static void write_file(const char *path, const void *data, size_t size)
{
	FILE *f = fopen(path, "we");

	assert_non_null(f);
	assert_int_equal(fwrite(data, 1, size, f), size);
	fclose(f);
}

TEST(test_loader)
{
	char own[LOADER_PATH_MAX], loader[LOADER_PATH_MAX] = "untouched";
	Elf64_Ehdr e = elf_header(sizeof(e), 0, 0, 0, 0);
	struct {
		Elf64_Ehdr e;
		Elf64_Phdr p;
		char name[LOADER_PATH_MAX + 1];
	} image;

#define EXPECT(data, size, err)                                  \
	do {                                                     \
		write_file("exe", data, size);                   \
		assert_int_equal(loader_of("exe", loader), err); \
	} while (0)
	assert_int_equal(loader_of("/proc/self/exe", own), 0);
	EXPECT("#!/bin/sh\n", 10, -ENOEXEC);
	EXPECT("", 0, -ENOEXEC);
	assert_int_equal(loader_of("folder", loader), -ENOEXEC);
	assert_int_equal(loader_of("nothing", loader), -ENOENT);

	/* no headers; headers beyond the end; a name that is too long, unterminated, or missing */
	EXPECT(&e, sizeof(e), -ENOENT);
	e.e_phnum = 1;
	EXPECT(&e, sizeof(e), -ENOEXEC);
	memset(&image, 'x', sizeof(image));
	image.e = e;
	for (size_t len = 0; len <= LOADER_PATH_MAX + 1; len++) {
		image.p = (Elf64_Phdr){ .p_type = PT_INTERP, .p_offset = offsetof(typeof(image), name), .p_filesz = len };
		EXPECT(&image, sizeof(image), -ENOEXEC);
	}
	image.p.p_filesz = 20;
	image.p.p_offset = UINT64_MAX - 5;
	EXPECT(&image, sizeof(image), -ENOEXEC);
	image.p.p_offset = offsetof(typeof(image), name);
	image.name[19] = 0;
	EXPECT(&image, sizeof(image), 0);
	assert_string_equal(loader, "xxxxxxxxxxxxxxxxxxx");
#undef EXPECT
	unlink("exe");
}

/* ---- command_spawn and what follows ---- */

static const int as_they_are[3] = { -1, -1, -1 };

static unsigned int count_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned int n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static void wait_exited(struct command *cmd)
{
	assert_int_equal(waitid(P_PID, (id_t)cmd->pid, &(siginfo_t){}, WEXITED | WNOWAIT), 0);
	command_reap(cmd);
	assert_true(cmd->exited);
}

static void spawn_shell(struct command *cmd, const char *script)
{
	char *argv[] = { "sh", "-c", (char *)script, NULL };

	assert_int_equal(command_spawn(argv, as_they_are, NULL, NULL, cmd), 0);
	assert_true(cmd->pid > 0);
	assert_false(cmd->exited);
}

/* Releases it, and waits for its end. */
static int run_to_end(struct command *cmd, int err)
{
	assert_int_equal(command_release(cmd), err);
	wait_exited(cmd);
	command_end(cmd); /* nothing left to end */
	return command_exit_code(cmd);
}

static int run_shell(const char *script)
{
	struct command cmd;

	spawn_shell(&cmd, script);
	return run_to_end(&cmd, 0);
}

TEST(test_exit_codes)
{
	unsigned int fds = count_fds();

	assert_int_equal(run_shell("exit 0"), 0);
	assert_int_equal(run_shell("exit 7"), 7);
	assert_int_equal(run_shell("exit 255"), 255);
	assert_int_equal(run_shell("kill -KILL $$"), 128 + SIGKILL);
	assert_int_equal(run_shell("kill -TERM $$"), 128 + SIGTERM);
	assert_int_equal(count_fds(), fds);
}

/* It ends by itself, without being told to. */
TEST(test_wait)
{
	struct command cmd, none = {};

	command_wait(&none);
	spawn_shell(&cmd, "sleep 0.1; exit 7");
	assert_int_equal(command_release(&cmd), 0);
	for (int i = 0; i < 30 && !cmd.exited; i++)
		command_wait(&cmd);
	assert_true(cmd.exited);
	assert_int_equal(command_exit_code(&cmd), 7);
}

TEST(test_exec_failure)
{
	static const struct {
		const char *name;
		int err;
	} names[] = { { "/nonexistent/x", -ENOENT }, { "no-such-command-anywhere", -ENOENT }, { "./no-exec", -EACCES },
		{ "./folder", -EACCES }, { "./tool/x", -ENOTDIR } };
	unsigned int fds = count_fds();

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char *argv[] = { (char *)names[i].name, NULL };
		struct command cmd;

		assert_int_equal(command_spawn(argv, as_they_are, NULL, NULL, &cmd), 0);
		assert_int_equal(run_to_end(&cmd, names[i].err), 127);
	}
	assert_int_equal(count_fds(), fds);
}

/* It executes nothing before it is released, and never if it is not. */
TEST(test_held)
{
	unsigned int fds = count_fds();
	struct command cmd;
	int status;

	spawn_shell(&cmd, "echo > out");
	assert_int_equal(waitpid(cmd.pid, &status, WNOHANG), 0);
	assert_int_not_equal(access("out", F_OK), 0);
	command_reap(&cmd);
	assert_false(cmd.exited);
	command_end(&cmd);
	assert_true(cmd.exited);
	assert_int_not_equal(access("out", F_OK), 0);
	assert_int_equal(waitpid(cmd.pid, &status, 0), -1);
	assert_int_equal(count_fds(), fds);

	assert_int_equal(run_shell("echo > out"), 0);
	assert_int_equal(access("out", F_OK), 0);
	assert_int_equal(count_fds(), fds);
}

/* It was killed before it was released. */
TEST(test_killed_while_held)
{
	unsigned int fds = count_fds();
	struct command cmd;

	spawn_shell(&cmd, "exit 0");
	assert_int_equal(kill(cmd.pid, SIGKILL), 0);
	wait_exited(&cmd);
	assert_int_equal(command_release(&cmd), -EPIPE);
	assert_int_equal(command_exit_code(&cmd), 128 + SIGKILL);
	command_end(&cmd);
	assert_int_equal(count_fds(), fds);
}

TEST(test_end)
{
	struct command cmd, none = {};

	command_end(&none);
	spawn_shell(&cmd, "exec sleep 1000");
	assert_int_equal(command_release(&cmd), 0);
	command_end(&cmd);
	assert_true(cmd.exited);
	assert_int_equal(command_exit_code(&cmd), 128 + SIGTERM);
	command_end(&cmd); /* again: by now the pid is nobody else's */

	/* what it writes while ending is its own */
	spawn_shell(&cmd, "trap 'exit 3' TERM; echo > out; while :; do sleep 0.01; done");
	unlink("out");
	assert_int_equal(command_release(&cmd), 0);
	while (access("out", F_OK))
		usleep(1000);
	command_end(&cmd);
	assert_true(cmd.exited);
	assert_int_equal(command_exit_code(&cmd), 3);
}

/* Without a shell, which changes signals. */
static int run(char **argv)
{
	struct command cmd;

	assert_int_equal(command_spawn(argv, as_they_are, NULL, NULL, &cmd), 0);
	return run_to_end(&cmd, 0);
}

/* inftrace blocks and ignores signals; its command gets them as if started alone. */
TEST(test_signals)
{
	sigset_t block, before;

	sigemptyset(&block);
	sigaddset(&block, SIGINT);
	sigaddset(&block, SIGTERM);
	sigaddset(&block, SIGCHLD);
	sigaddset(&block, SIGHUP);
	assert_int_equal(sigprocmask(SIG_BLOCK, &block, &before), 0);
	assert_int_equal(signal(SIGXFSZ, SIG_IGN) == SIG_ERR, 0);
	assert_int_equal(run((char *[]){ "grep", "-q", "^SigBlk:[[:space:]]*0*$",
				 "/proc/self/status", NULL }),
		0);
	/* not ignored: 13, PIPE, and 25, XFSZ, each the lowest bit of its digit */
	assert_int_equal(run((char *[]){ "grep", "-q",
				 "^SigIgn:[[:space:]]*[0-9a-f]*[02468ace][0-9a-f]\\{2\\}"
				 "[02468ace][0-9a-f]\\{3\\}$",
				 "/proc/self/status", NULL }),
		0);
	assert_int_equal(sigprocmask(SIG_SETMASK, &before, NULL), 0);
	signal(SIGXFSZ, SIG_DFL);
}

/* inftrace's descriptors do not leak into the command, nor do the pipes to it. */
TEST(test_descriptors)
{
	char script[128];
	unsigned int n = 0;

	for (int fd = 0; fd < 1024; fd++) {
		int flags = fcntl(fd, F_GETFD);

		n += flags >= 0 && !(flags & FD_CLOEXEC);
	}
	/* the shell's own descriptor of the directory is closed again when it checks the names */
	snprintf(script, sizeof(script),
		"n=0; for f in /proc/$$/fd/*; do [ ! -e $f ] || n=$((n + 1)); done; exit $((n != "
		"%u))",
		n);
	assert_int_equal(run_shell(script), 0);
}

RUN_TESTS(enter_directory, leave_directory)
