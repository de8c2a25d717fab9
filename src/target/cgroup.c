// SPDX-License-Identifier: BSD-2-Clause
#include "target/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define DEPTH_MAX 32 /* of cgroups below the one that was named: as many descriptors are open */

/* Where version 2 is mounted: alone, or beside version 1 (systemd's "hybrid" layout). */
static const char *const mounts[] = { "/sys/fs/cgroup", "/sys/fs/cgroup/unified" };

static bool is_version_2(const char *path)
{
	struct statfs fs;

	return !statfs(path, &fs) && fs.f_type == CGROUP2_SUPER_MAGIC;
}

static int open_procs(int dir)
{
	int fd = openat(dir, "cgroup.procs", O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* The kernel says when it is read whether a cgroup is threaded. */
static int check_directory(const char *path)
{
	int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd, err = 0;
	char c;

	if (dir < 0)
		return -errno;
	fd = open_procs(dir);
	if (fd < 0 || read(fd, &c, 1) < 0)
		err = fd < 0 ? fd : -errno;
	if (fd >= 0)
		close(fd);
	close(dir);
	return err;
}

int cgroup_find(const char *given, char ret_directory[PATH_MAX])
{
	bool exists = given[0] == '/' && !access(given, F_OK);
	char path[PATH_MAX];
	int err = -ENOENT;

	if (exists && is_version_2(given))
		err = snprintf(path, sizeof(path), "%s", given) < (int)sizeof(path) ? check_directory(path) : -ENAMETOOLONG;
	for (size_t i = 0; err == -ENOENT && !exists && i < sizeof(mounts) / sizeof(mounts[0]); i++) {
		if (snprintf(path, sizeof(path), "%s/%s", mounts[i], given + strspn(given, "/")) >= (int)sizeof(path))
			return -ENAMETOOLONG;
		if (is_version_2(path))
			err = check_directory(path);
		else
			exists = !access(path, F_OK) && i + 1 == sizeof(mounts) / sizeof(mounts[0]);
	}
	if (!err)
		memcpy(ret_directory, path, sizeof(path));
	return err == -ENOENT && exists ? -EMEDIUMTYPE : err;
}

static int each_in(int dir, int (*cb)(pid_t pid, void *arg), void *arg)
{
	int fd = open_procs(dir), err = 0, pid;
	FILE *f;

	if (fd < 0)
		return fd;
	f = fdopen(fd, "r");
	if (!f) {
		close(fd);
		return -ENOMEM;
	}
	while (!err && fscanf(f, "%d", &pid) == 1) {
		if (pid > 0) /* 0: of another PID namespace */
			err = cb(pid, arg);
	}
	fclose(f);
	return err;
}

/* A cgroup below may be removed meanwhile, or be threaded: then its processes are listed further up. */
static int each_below(int at, const char *name, int depth, int (*cb)(pid_t pid, void *arg), void *arg)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), err = fd < 0 ? -errno : 0;
	struct dirent *d;
	DIR *dir;

	if (err)
		return depth && (err == -ENOENT || err == -ENODEV) ? 0 : err;
	dir = fdopendir(fd);
	if (!dir) {
		close(fd);
		return -ENOMEM;
	}
	err = each_in(fd, cb, arg);
	if (depth && (err == -ENOENT || err == -ENODEV || err == -EOPNOTSUPP))
		err = 0;
	while (!err && depth < DEPTH_MAX && (d = readdir(dir))) {
		if (d->d_type == DT_DIR && d->d_name[0] != '.')
			err = each_below(fd, d->d_name, depth + 1, cb, arg);
	}
	closedir(dir);
	return err;
}

int cgroup_each_process(const char *directory, int (*cb)(pid_t pid, void *arg), void *arg)
{
	int err = each_below(AT_FDCWD, directory, 0, cb, arg);

	return err == -ENODEV || err == -ENOTDIR ? -ENOENT : err;
}
