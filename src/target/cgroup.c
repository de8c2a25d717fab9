// SPDX-License-Identifier: BSD-2-Clause
#include "target/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
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

#define ROOT "/sys/fs/cgroup"
#define CGROUPS_MAX 4096
#define FILE_MAX 64

/* Reads up to size - 1 bytes and adds a NUL. */
static bool file_text(const char *path, char *buf, size_t size)
{
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return false;
	n = read(fd, buf, size - 1);
	close(fd);
	if (n < 0)
		return false;
	buf[n] = '\0';
	return true;
}

static uint64_t thousandths(uint64_t quota, uint64_t period)
{
	if (!quota || !period || quota > UINT64_MAX / 1000)
		return 0;
	return quota * 1000 / period ? quota * 1000 / period : 1;
}

/* The limit of the cgroup in this directory. "max 100000", or -1, means none. */
static uint64_t limit_at(const char *dir)
{
	char path[PATH_MAX + 32], quota[FILE_MAX], period[FILE_MAX];
	uint64_t q = 0, p = 0;

	snprintf(path, sizeof(path), "%s/cpu.max", dir);
	if (file_text(path, quota, sizeof(quota)))
		return sscanf(quota, "%" SCNu64 " %" SCNu64, &q, &p) == 2 ? thousandths(q, p) : 0;
	snprintf(path, sizeof(path), "%s/cpu.cfs_quota_us", dir);
	if (!file_text(path, quota, sizeof(quota)) || quota[0] == '-')
		return 0;
	snprintf(path, sizeof(path), "%s/cpu.cfs_period_us", dir);
	if (!file_text(path, period, sizeof(period)))
		return 0;
	return sscanf(quota, "%" SCNu64, &q) == 1 && sscanf(period, "%" SCNu64, &p) == 1 ? thousandths(q, p) : 0;
}

/* The smallest limit of a cgroup and those above it, up to the root of the hierarchy. */
static uint64_t limit_upwards(const char *mount, const char *cgroup, size_t len)
{
	char dir[PATH_MAX];
	size_t at = strlen(mount);
	uint64_t least = 0;

	if (at + len >= sizeof(dir) || memmem(cgroup, len, "..", 2))
		return 0;
	memcpy(dir, mount, at);
	memcpy(dir + at, cgroup, len);
	dir[at + len] = '\0';
	for (;;) {
		uint64_t limit = limit_at(dir);
		char *slash;

		if (limit && (!least || limit < least))
			least = limit;
		slash = strrchr(dir + at, '/');
		if (!slash)
			return least;
		*slash = '\0';
	}
}

static bool has_cpu(const char *controllers, size_t len)
{
	while (len) {
		size_t n = strcspn(controllers, ",:");

		if (n == 3 && !memcmp(controllers, "cpu", 3))
			return true;
		if (n >= len)
			return false;
		controllers += n + 1;
		len -= n + 1;
	}
	return false;
}

/* Lines are "N:CONTROLLERS:PATH", for version 2 "0::PATH". */
uint64_t cpu_limit_of(const char *cgroups, const char *root)
{
	uint64_t least = 0;

	while (*cgroups) {
		size_t len = strcspn(cgroups, "\n");
		const char *controllers = memchr(cgroups, ':', len);
		const char *path = controllers ? memchr(controllers + 1, ':', len - (size_t)(controllers + 1 - cgroups)) :
						 NULL;
		char mount[PATH_MAX];

		if (path) {
			size_t n = (size_t)(path - controllers - 1), n_path = len - (size_t)(path + 1 - cgroups);
			uint64_t limit = 0;

			if (n && has_cpu(controllers + 1, n))
				snprintf(mount, sizeof(mount), "%s/%.*s", root, (int)n, controllers + 1);
			else
				snprintf(mount, sizeof(mount), "%s", root);
			if (!n || has_cpu(controllers + 1, n))
				limit = limit_upwards(mount, path + 1, n_path);
			if (limit && (!least || limit < least))
				least = limit;
		}
		cgroups += len + (cgroups[len] == '\n');
	}
	return least;
}

uint64_t cpu_limit_read(uint32_t tgid)
{
	char path[64], cgroups[CGROUPS_MAX];

	snprintf(path, sizeof(path), "/proc/%" PRIu32 "/cgroup", tgid);
	return file_text(path, cgroups, sizeof(cgroups)) ? cpu_limit_of(cgroups, ROOT) : 0;
}

void cgroup_owner(pid_t pid, char ret_name[CGROUP_OWNER_MAX])
{
	char path[64], cgroups[CGROUPS_MAX] = "\n";
	const char *name = NULL;
	int length = 0;

	snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
	if (file_text(path, cgroups + 1, sizeof(cgroups) - 1))
		name = strstr(cgroups, "\n0::/"); /* of version 2 */
	if (name) {
		name += strlen("\n0::/");
		length = (int)strcspn(name, "/\n");
		if (name[length] == '/')
			length += 1 + (int)strcspn(name + length + 1, "/\n");
	}
	snprintf(ret_name, CGROUP_OWNER_MAX, "%.*s", length, name ?: "");
}
