// SPDX-License-Identifier: BSD-2-Clause
/* The flag file: what counts as present, and that no change is missed. */
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "cases.h"
#include "record/windows.h"
#include "stderr.h"
#include "unit.h"
#include "util/log.h"

static char top[64];    /* this test's own directory, the current one */
static char said[8192]; /* by the last call */
static struct flag *f;  /* the one under test */

static int setup(void **state)
{
	strcpy(top, "/tmp/test_flag.XXXXXX");
	unsetenv("SUDO_UID");
	return mkdtemp(top) && !chdir(top) && !mkdir("dir", 0755) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static int teardown(void **state)
{
	flag_free(f);
	f = NULL;
	return chdir("/") || nftw(top, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void touch(const char *path)
{
	int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	close(fd);
}

static void open_flag(const char *path)
{
	flag_free(f);
	f = NULL;
	assert_int_equal(flag_open(path, &f), 0);
}

/* Reads once; messages are in `said`. */
static int read_one(bool *ret_there)
{
	struct stderr_grab g;
	int ret;

	stderr_grab_begin(&g);
	ret = flag_read(f, ret_there);
	strcpy(said, stderr_grab_end(&g));
	return ret;
}

/* All changes so far, as text: "+" present, "-" absent. */
static const char *changes(void)
{
	static char text[64];
	char all[8192] = "";
	size_t n = 0;
	bool there;
	int more;

	do {
		more = read_one(&there);
		assert_in_range(more, 0, 1);
		strcat(all, said);
		text[n++] = there ? '+' : '-';
	} while (more && n < sizeof(text) - 1);
	text[n] = 0;
	strcpy(said, all);
	return text;
}

static void assert_changes(const char *wanted)
{
	assert_string_equal(changes(), wanted);
	assert_string_equal(said, "");
}

/* The same, with this text among the messages. */
static void assert_told(const char *wanted, const char *text)
{
	assert_string_equal(changes(), wanted);
	assert_non_null(strstr(said, text));
}

static bool readable(void)
{
	struct pollfd p = { .fd = flag_fd(f), .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

TEST_WITH(test_comes_and_goes, setup, teardown)
{
	open_flag("dir/flag");
	assert_changes("-");
	assert_false(readable());
	for (int i = 0; i < 100; i++) {
		touch("dir/flag");
		assert_true(readable());
		assert_changes("+");
		assert_changes("+");
		assert_false(readable());
		unlink("dir/flag");
		assert_true(readable());
		assert_changes("-");
	}
	touch("dir/flag.part");
	touch("dir/fla");
	assert_changes("-");
}

TEST_WITH(test_there_at_the_start, setup, teardown)
{
	touch("dir/flag");
	open_flag("dir/flag");
	assert_changes("+");
	unlink("dir/flag");
	assert_changes("-");
}

/* Between two readings: what happens (+ it is created, - removed), and what is reported. */
TEST_WITH(test_several_changes, setup, teardown)
{
	static const char *const cases[][2] = { { "+-", "-" }, { "+-+", "+" }, { "-+", "-+" }, { "-+-+", "-+" }, { "-+-", "-" }, { "", "-" } };

	open_flag("dir/flag");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		for (const char *c = cases[i][0]; *c; c++) {
			if (*c == '+')
				touch("dir/flag");
			else
				unlink("dir/flag");
		}
		assert_changes(cases[i][1]);
	}
}

TEST_WITH(test_other_ways_to_appear, setup, teardown)
{
	open_flag("dir/flag");
	touch("other");
	assert_int_equal(rename("other", "dir/flag"), 0);
	assert_changes("+");
	assert_int_equal(rename("dir/flag", "dir/other"), 0);
	assert_changes("-");
	assert_int_equal(link("dir/other", "dir/flag"), 0);
	assert_changes("+");
	/* replaced: never absent */
	touch("other");
	assert_int_equal(rename("other", "dir/flag"), 0);
	assert_changes("+");
	assert_int_equal(rename("dir/flag", "flag"), 0);
	assert_int_equal(rename("flag", "dir/flag"), 0);
	assert_changes("-+");
}

TEST_WITH(test_paths, setup, teardown)
{
	char path[PATH_MAX];
	open_flag("flag");
	touch("flag");
	assert_changes("+");
	snprintf(path, sizeof(path), "%s//dir/../dir/flag", top);
	open_flag(path);
	touch("dir/flag");
	assert_changes("+");
	unlink("dir/flag");
	/* a relative one stays where it was */
	open_flag("./dir/flag");
	assert_int_equal(chdir("/"), 0);
	snprintf(path, sizeof(path), "%s/dir/flag", top);
	touch(path);
	assert_changes("+");
	assert_int_equal(chdir(top), 0);
	/* the directory may be behind a symbolic link */
	assert_int_equal(symlink("dir", "link"), 0);
	open_flag("link/flag");
	assert_changes("+");
	unlink("dir/flag");
	assert_changes("-");
	/* in the root directory: none is created there */
	open_flag("/test_flag.none");
	assert_changes("-");
}

/* ---- what is refused ---- */

static void assert_refused(const char *path, int err, const char *line)
{
	struct flag *none = NULL;
	struct stderr_grab g;
	const char *text;
	int ret;

	stderr_grab_begin(&g);
	ret = flag_open(path, &none);
	text = stderr_grab_end(&g);
	assert_int_equal(ret, err);
	assert_null(none);
	if (!strstr(text, line) || strchr(text, '\n') != text + strlen(text) - 1)
		fail_msg("'%s' is not in: %s", line, text);
}

TEST_WITH(test_refused_at_the_start, setup, teardown)
{
	char path[PATH_MAX + 8];

	assert_refused("", -EINVAL, "--window-flag: '' names no file");
	assert_refused("dir/", -EINVAL, "--window-flag: 'dir/' names no file");
	assert_refused("nowhere/flag", -ENOENT, "/nowhere: No such file or directory");
	touch("file");
	assert_refused("file/flag", -ENOTDIR, "/file: Not a directory");
	assert_refused("dir/..", -EINVAL, "/dir/..: it is a directory, not a regular file");
	memset(path, 'x', sizeof(path));
	path[NAME_MAX + 1] = 0;
	assert_refused(path, -EINVAL, "...: File name too long");
	memset(path, '/', sizeof(path));
	strcpy(path + sizeof(path) - 2, "x");
	assert_refused(path, -EINVAL, "...: File name too long");

	touch("target");
	assert_int_equal(symlink("../target", "dir/flag"), 0);
	assert_refused("dir/flag", -EINVAL, "/dir/flag: it is a symbolic link, not a regular file");
	unlink("dir/flag");
	assert_int_equal(symlink("nowhere", "dir/flag"), 0);
	assert_refused("dir/flag", -EINVAL, "/dir/flag: it is a symbolic link, not a regular file");
	unlink("dir/flag");
	assert_int_equal(mkfifo("dir/flag", 0644), 0);
	assert_refused("dir/flag", -EINVAL, "/dir/flag: it is a special file, not a regular file");
}

/* Reported once, until a good one has been there. */
TEST_WITH(test_refused_later, setup, teardown)
{
	open_flag("dir/flag");
	for (int i = 0; i < 2; i++) {
		assert_int_equal(symlink("../target", "dir/flag"), 0);
		assert_string_equal(changes(), "-");
		assert_int_equal(
			strstr(said, "/dir/flag does not count: it is a symbolic link") != NULL,
			i == 0);
		unlink("dir/flag");
		assert_changes("-");
	}
	assert_int_equal(mkdir("dir/flag", 0755), 0);
	assert_changes("-");
	rmdir("dir/flag");
	touch("dir/flag");
	assert_changes("+");
	/* a refused file replaces a good one */
	assert_int_equal(symlink("../target", "link"), 0);
	assert_int_equal(rename("link", "dir/flag"), 0);
	assert_told("-", "it is a symbolic link");
	unlink("dir/flag");
	assert_changes("-");
}

static void own(const char *path, uid_t uid)
{
	touch(path);
	assert_int_equal(chown(path, uid, (gid_t)-1), 0);
}

TEST_WITH(test_owner, setup, teardown)
{
	if (getuid())
		SKIP("needs root");
	own("dir/flag", 4711);
	assert_refused("dir/flag", -EPERM,
		"/dir/flag: it belongs to user 4711, neither to you (0) nor to root");
	setenv("SUDO_UID", "4711", 1);
	open_flag("dir/flag");
	assert_changes("+");
	/* root's is as good */
	own("other", 0);
	assert_int_equal(rename("other", "dir/flag"), 0);
	assert_changes("+");
	own("other", 4712);
	assert_int_equal(rename("other", "dir/flag"), 0);
	assert_told("-", "belongs to user 4712, neither to you (4711) nor to root");
	/* not a number: as without sudo */
	setenv("SUDO_UID", "47x", 1);
	assert_refused("dir/flag", -EPERM, "neither to you (0)");
	unsetenv("SUDO_UID");
}

/* ---- the directory ---- */

TEST_WITH(test_directory_removed, setup, teardown)
{
	touch("dir/flag");
	open_flag("dir/flag");
	assert_changes("+");
	unlink("dir/flag");
	rmdir("dir");
	assert_told("-", "/dir/flag was removed; its window stays closed until it is back");
	touch("else"); /* where the flag is waited for */
	assert_changes("-");
	mkdir("dir", 0755);
	assert_true(readable());
	assert_told("-", "/dir/flag is back");
	touch("dir/flag");
	assert_changes("+");
	/* removed and back between two readings */
	unlink("dir/flag");
	rmdir("dir");
	mkdir("dir", 0755);
	touch("dir/flag");
	assert_told("-+", "was removed; it is there again");
	unlink("dir/flag");
	assert_changes("-");
}

TEST_WITH(test_directory_moved, setup, teardown)
{
	touch("dir/flag");
	open_flag("dir/flag");
	assert_changes("+");
	assert_int_equal(rename("dir", "moved"), 0);
	assert_told("-", "/dir/flag was moved; its window stays closed until it is back");
	unlink("moved/flag");
	touch("moved/flag");
	assert_changes("-");
	assert_int_equal(rename("moved", "dir"), 0);
	assert_string_equal(changes(), "+");
	unlink("dir/flag");
	assert_changes("-");
}

/* With parent directories, as each of them reappears. */
TEST_WITH(test_directories_above, setup, teardown)
{
	mkdir("a", 0755);
	mkdir("a/b", 0755);
	mkdir("a/b/c", 0755);
	open_flag("a/b/c/flag");
	assert_changes("-");
	rmdir("a/b/c");
	rmdir("a/b");
	rmdir("a");
	assert_told("-", "was removed");
	mkdir("a", 0755);
	assert_changes("-");
	mkdir("a/b", 0755);
	assert_changes("-");
	/* meanwhile a parent disappears, too */
	assert_int_equal(rename("a", "z"), 0);
	assert_changes("-");
	mkdir("z/b/c", 0755);
	touch("z/b/c/flag");
	assert_changes("-");
	assert_int_equal(rename("z", "a"), 0);
	assert_told("+", "is back");
	/* all at once */
	unlink("a/b/c/flag");
	rmdir("a/b/c");
	rmdir("a/b");
	rmdir("a");
	mkdir("a", 0755);
	mkdir("a/b", 0755);
	mkdir("a/b/c", 0755);
	touch("a/b/c/flag");
	assert_string_equal(changes(), "-+");
}

TEST_WITH(test_directory_becomes_a_file, setup, teardown)
{
	open_flag("dir/flag");
	rmdir("dir");
	touch("dir");
	assert_told("-", "was removed; its window stays closed until it is back");
	unlink("dir");
	mkdir("dir", 0755);
	touch("dir/flag");
	assert_string_equal(changes(), "+");
}

/* In its own mount namespace; exit code: 0 passed, 77 not allowed here. */
static int unmount_it(void)
{
	bool ok;

	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
		mount("none", "dir", "tmpfs", 0, NULL))
		return 77;
	touch("dir/flag");
	open_flag("dir/flag");
	ok = !strcmp(changes(), "+");
	umount("dir");
	ok = ok && !strcmp(changes(), "-");
	ok = ok &&
	     strstr(said,
		     "can no longer be watched: its directory was unmounted; its window stays closed");
	ok = ok && !strcmp(changes(), "-") && !*said;
	return ok ? 0 : 1;
}

TEST_WITH(test_directory_unmounted, setup, teardown)
{
	pid_t pid = fork();
	int status;

	if (!pid)
		_exit(unmount_it());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		SKIP("may not mount");
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* fs.inotify.max_queued_events, 16384 by default: one event reports the rest */
TEST_WITH(test_overflow, setup, teardown)
{
	unsigned int max = 0;
	FILE *file = fopen("/proc/sys/fs/inotify/max_queued_events", "re");

	open_flag("dir/flag");
	assert_non_null(file);
	assert_int_equal(fscanf(file, "%u", &max), 1);
	fclose(file);
	if (max > 100000)
		SKIP("fs.inotify.max_queued_events is too large");
	for (int there = 1; there >= 0; there--) {
		for (unsigned int i = 0; i <= max / 2; i++) {
			touch("dir/other");
			unlink("dir/other");
		}
		if (there)
			touch("dir/flag");
		else
			unlink("dir/flag");
		assert_changes(there ? "+" : "-");
	}
	/* and it is watched again */
	touch("dir/flag");
	assert_changes("+");
}

RUN_TESTS(NULL, NULL)
