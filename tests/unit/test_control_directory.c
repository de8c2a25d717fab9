// SPDX-License-Identifier: BSD-2-Clause
/* The place of the control socket: its directory, its name, and who may use it. */
#include <sys/wait.h>

#include "cases.h"
#include "control.h"
#include "stderr.h"

#define NOBODY 65534

TEST_WITH(test_modes, setup, teardown)
{
	struct recording *r = *state;
	mode_t mask = umask(0);
	struct stat st;

	open_control(r);
	umask(mask);
	assert_int_equal(stat(directory, &st), 0);
	assert_int_equal(st.st_mode, S_IFDIR | 0700);
	assert_int_equal(stat(socket_of(getpid()), &st), 0);
	assert_int_equal(st.st_mode, S_IFSOCK | 0600);
}

static void expect_no_control(struct recording *r, int err, const char *why)
{
	struct stderr_grab g;
	const char *text = g.text;

	assert_int_equal(GRABBED(g, control_new(run_request, r, directory, &r->control)), err);
	assert_null(r->control);
	if (!strstr(text, why) ||
		!strstr(text, "warning: no control socket in /tmp/test_control.") ||
		strchr(text, '\n') != text + strlen(text) - 1)
		assert_string_equal(text, why);
}

TEST_WITH(test_bad_folders, setup, teardown)
{
	struct recording *r = *state;
	char real[128];

	snprintf(real, sizeof(real), "%s/real", top);
	assert_int_equal(mkdir(real, 0700), 0);
	assert_int_equal(symlink(real, directory), 0);
	expect_no_control(r, -ENOTDIR, "links are not followed");
	assert_int_equal(unlink(directory), 0);
	assert_int_equal(rmdir(real), 0); /* the directory is empty */
	close(open(directory, O_CREAT | O_WRONLY, 0600));
	expect_no_control(r, -ENOTDIR, "not a directory");
	assert_int_equal(unlink(directory), 0);
	assert_int_equal(mkdir(directory, 0700), 0);
	assert_int_equal(chmod(directory, 0770), 0);
	expect_no_control(r, -EPERM, "others may write to the directory");
	assert_int_equal(chmod(directory, 0700), 0);
	if (!geteuid()) {
		assert_int_equal(chown(directory, NOBODY, NOBODY), 0);
		expect_no_control(r, -EPERM, "the directory belongs to user 65534");
	}
	assert_int_equal(rmdir(directory), 0);
	snprintf(directory, sizeof(directory), "%s/missing/run", top);
	expect_no_control(r, -ENOENT, "cannot create the directory: No such file");
	snprintf(directory, sizeof(directory), "%s/run", top);
	open_control(r);
}

/* sun_path has room for 108 bytes. */
TEST_WITH(test_long_directory, setup, teardown)
{
	struct recording *r = *state;
	char path[512], middle[256], name[600];
	struct control_peer *peers;
	struct stat st;
	size_t n;

	snprintf(middle, sizeof(middle), "%s/%0200d", top, 0);
	assert_int_equal(mkdir(middle, 0700), 0);
	snprintf(path, sizeof(path), "%s/run", middle);
	assert_int_equal(control_new(run_request, r, path, &r->control), 0);
	snprintf(name, sizeof(name), "%s/%d.sock", path, getpid());
	assert_int_equal(stat(name, &st), 0);
	control_free(r->control);
	r->control = NULL;
	assert_int_equal(stat(name, &st), -1);
	control_list(&(struct control_where){ .uid = geteuid(), .directory = path }, 0, &peers, &n);
	assert_int_equal(n, 0);
	control_peers_free(peers, n);
	assert_int_equal(remove_all(middle), 0);
}

static bool there(const char *name)
{
	struct stat st;

	return !lstat(path_of(name), &st);
}

TEST_WITH(test_left_behind, setup, teardown)
{
	static const char *const dead[] = { "4194304.sock", ".4194304.new" };
	static const char *const others[] = { "1.sock", "4194304.sock.old", "x4194304.sock",
		"-4194304.sock", "0.sock", "4194304" };
	struct recording *r = *state;
	char own[32];

	assert_int_equal(mkdir(directory, 0700), 0);
	for (size_t i = 0; i < sizeof(dead) / sizeof(dead[0]); i++)
		leave_socket(dead[i]);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		leave_socket(others[i]);
	snprintf(own, sizeof(own), "%d.sock", getpid());
	leave_socket(own);
	snprintf(own, sizeof(own), ".%d.new", getpid());
	leave_socket(own);
	assert_int_equal(mkdir(path_of("4194303.sock"), 0700), 0);
	assert_int_equal(symlink("1.sock", path_of("4194302.sock")), 0);
	close(open(path_of("4194301.sock"), O_CREAT | O_WRONLY, 0600));

	open_control(r);
	expect(r, ask_text(STATUS), STATUS_EMPTY);
	assert_false(there(own));
	for (size_t i = 0; i < sizeof(dead) / sizeof(dead[0]); i++)
		assert_false(there(dead[i]));
	/* of live processes, or not our sockets */
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		assert_true(there(others[i]));
	assert_true(there("4194303.sock"));
	assert_true(there("4194302.sock"));
	assert_true(there("4194301.sock"));
}

/* As with two containers that share the directory. */
TEST_WITH(test_name_in_use, setup, teardown)
{
	struct recording *r = *state, second = { 0 };

	open_control(r);
	expect_no_control(&second, -EADDRINUSE, ".sock: Address already in use");
	expect(r, ask_text(STATUS), STATUS_EMPTY);
}

/* The modes of directory and socket keep other users out; where they do not, the recorder does. */
TEST_WITH(test_other_users, setup, teardown)
{
	struct recording *r = *state;
	char text[256] = "";
	int status, fds[2];
	pid_t pid;

	if (geteuid())
		SKIP("needs root");
	open_control(r);
	assert_int_equal(chmod(top, 0755), 0);
	assert_int_equal(chmod(directory, 0755), 0);
	assert_int_equal(pipe(fds), 0);
	for (int open = 0; open < 2; open++) {
		pid = fork();
		if (!pid) {
			char path[256];
			int fd;

			snprintf(path, sizeof(path), "%s", socket_of(getppid()));
			if (setgid(NOBODY) || setuid(NOBODY))
				_exit(1);
			fd = dial(path);
			if (fd < 0)
				_exit(fd == -EACCES ? 2 : 3);
			/* it may have been refused already */
			send(fd, "{\"command\":\"stop\"}", 18, MSG_NOSIGNAL);
			/* the child must live until it was checked; the end of the pipe ends it */
			close(fds[1]);
			fcntl(fd, F_SETFL, 0);
			ssize_t n = recv(fd, text, sizeof(text), 0);

			_exit(n > 0 && memmem(text, (size_t)n, "user 65534 may not", 18) ? 0 : 5);
		}
		assert_true(pid > 0);
		do {
			struct pollfd p = { .fd = control_fd(r->control), .events = POLLIN };

			poll(&p, 1, 50);
			control_serve(r->control);
		} while (!waitpid(pid, &status, WNOHANG));
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), open ? 0 : 2);
		assert_int_equal(chmod(socket_of(getpid()), 0666), 0);
	}
	close(fds[0]);
	close(fds[1]);
	assert_int_equal(r->stops, 0);
}

RUN_TESTS(make_top, remove_top)
