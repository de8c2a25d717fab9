// SPDX-License-Identifier: BSD-2-Clause
#include "target/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "target/process.h"

/* linux/magic.h of Debian 12 lacks the last one */
#define OVERLAYFS_MAGIC 0x794c7630
#define BTRFS_MAGIC 0x9123683E
#define BCACHEFS_MAGIC 0xca451a4e

/* Filesystems on which stat(2) reports another device than the maps file does. */
static bool has_own_devices(int fd)
{
	struct statfs fs;

	return !fstatfs(fd, &fs) && (fs.f_type == OVERLAYFS_MAGIC || fs.f_type == BTRFS_MAGIC ||
					    fs.f_type == BCACHEFS_MAGIC);
}

static bool is_mapped_file(int fd, const struct stat *st, const struct mapped_file *m)
{
	return st->st_ino == m->ino && (st->st_dev == m->dev || has_own_devices(fd));
}

/*
 * Turns a descriptor that only stands for an inode into one that can be read. Opening is what acts
 * on FIFOs and devices, so it is checked first. Closes path_fd.
 */
static int reopen_regular(int path_fd, const struct mapped_file *m, int *ret_fd)
{
	char path[32];
	struct stat st;
	int fd, err = 0;

	if (fstat(path_fd, &st))
		err = -errno;
	else if (!S_ISREG(st.st_mode) || (m && !is_mapped_file(path_fd, &st, m)))
		err = -ENOENT;
	if (!err) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", path_fd);
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
		if (fd < 0)
			err = -errno;
		else
			*ret_fd = fd;
	}
	close(path_fd);
	return err;
}

static int open_by_mapping(pid_t pid, const struct mapped_file *m, int *ret_fd)
{
	char path[96];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, pid, m->start, m->end);
	fd = open(path, O_PATH | O_CLOEXEC);
	return fd < 0 ? -errno : reopen_regular(fd, m, ret_fd);
}

static bool is_our_root(int root)
{
	struct stat theirs, ours;

	return !fstat(root, &theirs) && !stat("/", &ours) && theirs.st_dev == ours.st_dev && theirs.st_ino == ours.st_ino;
}

/* m: what it must be; NULL: anything regular. */
static int open_in_root(pid_t pid, const char *file, const struct mapped_file *m, int *ret_fd)
{
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	char path[32];
	int root, fd, err;

	snprintf(path, sizeof(path), "/proc/%d/root", pid);
	root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return -errno;
	fd = (int)syscall(SYS_openat2, root, file, &how, sizeof(how));
	/*
	 * systemd's DynamicUser= forbids openat2(2) (systemd.exec(5), RestrictSUIDSGID=). Without it a link may lead out of the root, but
	 * O_PATH opens nothing yet, and only the file that is mapped is taken; no link leads out of our own root.
	 */
	if (fd < 0 && errno == ENOSYS && (m || is_our_root(root)))
		fd = openat(root, file + strspn(file, "/"), O_PATH | O_CLOEXEC);
	err = fd < 0 ? -errno : 0;
	close(root);
	return err ? err : reopen_regular(fd, m, ret_fd);
}

int file_open_mapped(pid_t pid, const struct mapped_file *m, int *ret_fd)
{
	int err = open_by_mapping(pid, m, ret_fd);

	/* -ENOENT: the mapping grew or was split meanwhile */
	if (err == -EPERM || err == -EACCES || err == -ENOENT)
		err = open_in_root(pid, m->path, m, ret_fd);
	return err;
}

int file_open_path(pid_t pid, const char *path, int *ret_fd)
{
	return open_in_root(pid, path, NULL, ret_fd);
}

int file_open_exe(pid_t pid, int *ret_fd)
{
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	fd = open(path, O_PATH | O_CLOEXEC); /* leads to the inode itself, as map_files does */
	return fd < 0 ? -errno : reopen_regular(fd, NULL, ret_fd);
}
