// SPDX-License-Identifier: BSD-2-Clause
#include "io/control_socket.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 16 /* clients the kernel queues until they are accepted */
#define DIRECTORY_MODE 0700
#define SOCKET_MODE 0600

int control_directory(uid_t uid, char *buf, size_t size)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	int n;

	if (!uid)
		n = snprintf(buf, size, "/run/inftrace");
	else if (uid == geteuid() && runtime && *runtime == '/')
		n = snprintf(buf, size, "%s/inftrace", runtime);
	else
		n = snprintf(buf, size, "/run/user/%u/inftrace", uid);
	return n > 0 && (size_t)n < size ? 0 : -ENAMETOOLONG;
}

static int fail(char msg[CONTROL_MSG_MAX], int err, const char *what)
{
	snprintf(msg, CONTROL_MSG_MAX, "%s: %s", what, strerror(-err));
	return err;
}

static int open_directory(const char *directory, int *ret_fd, char msg[CONTROL_MSG_MAX])
{
	struct stat st;
	int fd, err = 0;

	if (mkdir(directory, DIRECTORY_MODE) && errno != EEXIST)
		return fail(msg, -errno, "cannot create the directory");
	fd = open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && (errno == ENOTDIR || errno == ELOOP)) {
		snprintf(msg, CONTROL_MSG_MAX, "not a directory (links are not followed); remove it");
		return -ENOTDIR;
	}
	if (fd < 0)
		return fail(msg, -errno, "cannot open the directory");
	if (fstat(fd, &st)) {
		err = fail(msg, -errno, "cannot look at the directory");
	} else if (st.st_uid != geteuid()) {
		snprintf(msg, CONTROL_MSG_MAX, "the directory belongs to user %u", st.st_uid);
		err = -EPERM;
	} else if (st.st_mode & 022) {
		snprintf(msg, CONTROL_MSG_MAX,
			"others may write to the directory; chmod 700 fixes that");
		err = -EPERM;
	}
	if (err)
		close(fd);
	else
		*ret_fd = fd;
	return err;
}

/* Goes through the descriptor of the directory that was checked, which also allows long names
 * (sun_path has 108 bytes). */
static void address_of(int dir_fd, const char *name, struct sockaddr_un *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->sun_family = AF_UNIX;
	snprintf(ret->sun_path, sizeof(ret->sun_path), "/proc/self/fd/%d/%.32s", dir_fd, name);
}

/* Whether it is a socket that nobody listens on any more. */
static bool is_left_behind(int dir_fd, const char *name)
{
	struct sockaddr_un sa;
	struct stat st;
	bool dead;
	int fd;

	/* connecting to something that is no socket is refused as well */
	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISSOCK(st.st_mode))
		return false;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return false;
	address_of(dir_fd, name, &sa);
	/* EPROTOTYPE: of another version, which may be running */
	dead = connect(fd, (struct sockaddr *)&sa, sizeof(sa)) && errno == ECONNREFUSED;
	close(fd);
	return dead;
}

/* The process in the name; 0: the file is not one of ours. */
static pid_t pid_of(const char *name)
{
	int pid = 0, end = 0;

	if (sscanf(name, "%d" CONTROL_SUFFIX "%n", &pid, &end) != 1 &&
		sscanf(name, ".%d.new%n", &pid, &end) != 1)
		return 0;
	return pid > 0 && end && !name[end] ? pid : 0;
}

/*
 * Removes the sockets of recorders that were killed. Only names whose process is gone, or our own:
 * nobody can take such a name between the check and the removal.
 */
static void remove_left_behind(int dir_fd)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *d;

	if (!dir) {
		if (fd >= 0)
			close(fd);
		return;
	}
	while ((d = readdir(dir))) {
		pid_t pid = pid_of(d->d_name);

		if (!pid || (pid != getpid() && (!kill(pid, 0) || errno != ESRCH)))
			continue;
		if (is_left_behind(dir_fd, d->d_name))
			unlinkat(dir_fd, d->d_name, 0);
	}
	closedir(dir);
}

/* The socket is bound under another name and renamed once it listens, so that whoever finds it can connect. */
static int open_socket(struct control_socket *s, char msg[CONTROL_MSG_MAX])
{
	struct sockaddr_un sa;
	char new_name[32];
	int err;

	snprintf(s->name, sizeof(s->name), "%d" CONTROL_SUFFIX, getpid());
	snprintf(new_name, sizeof(new_name), ".%d.new", getpid());
	s->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (s->fd < 0)
		return fail(msg, -errno, "socket");
	/* the file gets the mode of the socket, less the umask, so it never has any other
	 * (net/unix/af_unix.c, unix_bind_bsd()) */
	if (fchmod(s->fd, SOCKET_MODE))
		return fail(msg, -errno, "fchmod");
	address_of(s->dir_fd, new_name, &sa);
	if (bind(s->fd, (struct sockaddr *)&sa, sizeof(sa)))
		return fail(msg, -errno, "bind");
	if (listen(s->fd, BACKLOG)) {
		err = fail(msg, -errno, "listen");
	} else if (renameat2(s->dir_fd, new_name, s->dir_fd, s->name, RENAME_NOREPLACE)) {
		err = fail(msg, errno == EEXIST ? -EADDRINUSE : -errno, s->name);
	} else {
		return 0;
	}
	unlinkat(s->dir_fd, new_name, 0);
	return err;
}

int control_socket_open(const char *directory, struct control_socket *ret, char msg[CONTROL_MSG_MAX])
{
	struct control_socket s = { .fd = -1 };
	int err;

	err = open_directory(directory, &s.dir_fd, msg);
	if (err)
		return err;
	remove_left_behind(s.dir_fd);
	err = open_socket(&s, msg);
	if (err) {
		if (s.fd >= 0)
			close(s.fd);
		close(s.dir_fd);
		return err;
	}
	*ret = s;
	return 0;
}

void control_socket_close(struct control_socket *s)
{
	unlinkat(s->dir_fd, s->name, 0);
	close(s->fd);
	close(s->dir_fd);
}
