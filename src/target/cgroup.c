// SPDX-License-Identifier: BSD-2-Clause
#include "target/cgroup.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "target/process.h"
#include "util/alloc.h"

#define DEPTH_MAX 32 /* of cgroups below the named one; each level has an open descriptor */

/* Where cgroups of version 2 are mounted: alone, or beside version 1 (systemd's "hybrid" layout). */
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

/* Reads cgroup.procs, which fails with -EOPNOTSUPP in a threaded cgroup. */
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

static int procs_each_in(int dir, int (*cb)(pid_t pid, void *arg), void *arg)
{
	int fd = open_procs(dir), err = 0, pid;
	FILE *f;

	if (fd < 0)
		return fd;
	f = fdopen(fd, "r");
	if (!f)
		out_of_memory();
	while (!err && fscanf(f, "%d", &pid) == 1) {
		if (pid > 0) /* 0: of another PID namespace */
			err = cb(pid, arg);
	}
	fclose(f);
	return err;
}

/* A cgroup below may be removed meanwhile, or be threaded: then its processes are listed further up. */
static int procs_each_below(int at, const char *name, int depth, int (*cb)(pid_t pid, void *arg), void *arg)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), err = fd < 0 ? -errno : 0;
	struct dirent *d;
	DIR *dir;

	if (err)
		return depth && (err == -ENOENT || err == -ENODEV) ? 0 : err;
	dir = fdopendir(fd);
	if (!dir)
		out_of_memory();
	err = procs_each_in(fd, cb, arg);
	if (depth && (err == -ENOENT || err == -ENODEV || err == -EOPNOTSUPP))
		err = 0;
	while (!err && depth < DEPTH_MAX && (d = readdir(dir))) {
		if (d->d_type == DT_DIR && d->d_name[0] != '.')
			err = procs_each_below(fd, d->d_name, depth + 1, cb, arg);
	}
	closedir(dir);
	return err;
}

int cgroup_each_process(const char *directory, int (*cb)(pid_t pid, void *arg), void *arg)
{
	int err = procs_each_below(AT_FDCWD, directory, 0, cb, arg);

	return err == -ENODEV || err == -ENOTDIR ? -ENOENT : err;
}

#define ROOT "/sys/fs/cgroup"
#define CGROUPS_MAX 8192
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

static uint64_t quota_to_thousandths(uint64_t quota, uint64_t period)
{
	if (!quota || !period || quota > UINT64_MAX / 1000)
		return 0;
	return quota * 1000 / period ? quota * 1000 / period : 1;
}

/* The limit of the cgroup in this directory. "max 100000", or -1, means none. */
static uint64_t cpu_limit_at(const char *dir)
{
	char path[PATH_MAX + 32], quota[FILE_MAX], period[FILE_MAX];
	uint64_t q = 0, p = 0;

	snprintf(path, sizeof(path), "%s/cpu.max", dir);
	if (file_text(path, quota, sizeof(quota)))
		return sscanf(quota, "%" SCNu64 " %" SCNu64, &q, &p) == 2 ? quota_to_thousandths(q, p) : 0;
	snprintf(path, sizeof(path), "%s/cpu.cfs_quota_us", dir);
	if (!file_text(path, quota, sizeof(quota)) || quota[0] == '-')
		return 0;
	snprintf(path, sizeof(path), "%s/cpu.cfs_period_us", dir);
	if (!file_text(path, period, sizeof(period)))
		return 0;
	return sscanf(quota, "%" SCNu64, &q) == 1 && sscanf(period, "%" SCNu64, &p) == 1 ? quota_to_thousandths(q, p) : 0;
}

/* The smallest limit of a cgroup and those above it, up to the root of the hierarchy. */
static uint64_t cpu_limit_upwards(const char *mount, const char *cgroup, size_t len)
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
		uint64_t limit = cpu_limit_at(dir);
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
				limit = cpu_limit_upwards(mount, path + 1, n_path);
			if (limit && (!least || limit < least))
				least = limit;
		}
		cgroups += len + (cgroups[len] == '\n');
	}
	return least;
}

uint64_t cpu_limit_read(uint32_t tgid)
{
	char cgroups[CGROUPS_MAX];

	return process_file((pid_t)tgid, "cgroup", cgroups, sizeof(cgroups)) ? 0 : cpu_limit_of(cgroups, ROOT);
}

void cgroup_owner(pid_t pid, char ret_name[CGROUP_OWNER_MAX])
{
	char cgroups[CGROUPS_MAX] = "\n";
	const char *name = NULL;
	int length = 0;

	if (!process_file(pid, "cgroup", cgroups + 1, sizeof(cgroups) - 1))
		name = strstr(cgroups, "\n0::/"); /* of version 2 */
	if (name) {
		name += strlen("\n0::/");
		length = (int)strcspn(name, "/\n");
		if (name[length] == '/')
			length += 1 + (int)strcspn(name + length + 1, "/\n");
	}
	snprintf(ret_name, CGROUP_OWNER_MAX, "%.*s", length, name ?: "");
}

#define ID_DIGITS 64
#define UID_LEN 36
#define STATIC_UID_LEN 32 /* of static pods, which the kubelet reads from files */

static size_t hex_digits(const char *text, size_t len)
{
	size_t n = 0;

	while (n < len && (isdigit((unsigned char)text[n]) || (text[n] >= 'a' && text[n] <= 'f')))
		n++;
	return n;
}

/* Whether the rest of a directory's name is empty or a suffix of systemd. */
static bool is_systemd_suffix(const char *text, size_t len)
{
	return !len || (len == 6 && (!memcmp(text, ".scope", 6) || !memcmp(text, ".slice", 6)));
}

/* DIGITS, docker-DIGITS.scope, cri-containerd-DIGITS.scope, crio-DIGITS.scope, libpod-DIGITS.scope; but not
 * libpod-conmon-DIGITS.scope, which is the cgroup of libpod's monitor. */
static void container_take_id(const char *name, size_t len, struct container *c)
{
	const char *dash = memrchr(name, '-', len), *digits = dash ? dash + 1 : name;
	size_t left = len - (size_t)(digits - name);

	if (hex_digits(digits, left) != ID_DIGITS || !is_systemd_suffix(digits + ID_DIGITS, left - ID_DIGITS) || memmem(name, len, "conmon-", 7))
		return;
	memcpy(c->id, digits, ID_DIGITS);
	c->id[ID_DIGITS] = '\0';
}

/* 8-4-4-4-12 digits, in systemd's names with '_'; or 32 digits. Returns the length, or 0. */
static size_t uid_length(const char *text, size_t len)
{
	size_t n = hex_digits(text, len);

	if (n == STATIC_UID_LEN)
		return n;
	for (size_t i = 0; i < UID_LEN; i++) {
		bool dash = i == 8 || i == 13 || i == 18 || i == 23;

		if (i >= len || (dash ? text[i] != '-' && text[i] != '_' : !hex_digits(text + i, 1)))
			return 0;
	}
	return UID_LEN;
}

/* podUID, kubepods-burstable-podUID.slice */
static void container_take_pod(const char *name, size_t len, struct container *c)
{
	const char *pod = name;

	while ((pod = memmem(pod, len - (size_t)(pod - name), "pod", 3))) {
		size_t left = len - (size_t)(pod + 3 - name), n = uid_length(pod + 3, left);

		if (n && (pod == name || pod[-1] == '-') && is_systemd_suffix(pod + 3 + n, left - n)) {
			for (size_t i = 0; i < n; i++)
				c->pod[i] = pod[3 + i] == '_' ? '-' : pod[3 + i];
			c->pod[n] = '\0';
		}
		pod += 3;
	}
}

/* Lines are "N:CONTROLLERS:PATH". Of nested containers the innermost counts. */
bool container_of_cgroups(const char *cgroups, struct container *ret)
{
	struct container c = { 0 };

	while (*cgroups) {
		size_t line = strcspn(cgroups, "\n");
		const char *end = cgroups + line, *name = memchr(cgroups, '/', line);

		while (name && name < end) {
			size_t len;

			name++;
			len = strcspn(name, "/\n");
			container_take_id(name, len, &c);
			container_take_pod(name, len, &c);
			name += len;
		}
		cgroups = end + (*end == '\n');
	}
	if (!c.id[0] && !c.pod[0])
		return false;
	*ret = c;
	return true;
}

bool container_host_ok(const char *text)
{
	size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.");

	return n && n < CONTAINER_HOST_MAX && !text[n];
}

bool container_read(pid_t pid, struct container *ret)
{
	char cgroups[CGROUPS_MAX];
	struct process_text env;
	const char *host;

	if (process_file(pid, "cgroup", cgroups, sizeof(cgroups)) || !container_of_cgroups(cgroups, ret))
		return false;
	if (process_environ(pid, &env))
		return true;
	host = process_text_variable(&env, "HOSTNAME");
	if (host && container_host_ok(host))
		strcpy(ret->host, host);
	process_text_free(&env);
	return true;
}

const char *container_text(const struct container *c, char buf[CONTAINER_TEXT_MAX])
{
	int n = 0;

	buf[0] = '\0';
	if (c->id[0])
		n += snprintf(buf, CONTAINER_TEXT_MAX, "container %.12s", c->id);
	if (c->pod[0])
		n += snprintf(buf + n, CONTAINER_TEXT_MAX - (size_t)n, "%spod %s", n ? ", " : "", c->pod);
	if (c->host[0])
		snprintf(buf + n, CONTAINER_TEXT_MAX - (size_t)n, "%shost %s", n ? ", " : "", c->host);
	return buf;
}
