// SPDX-License-Identifier: BSD-2-Clause
#include "target/cpu_limit.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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
