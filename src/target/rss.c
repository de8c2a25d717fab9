// SPDX-License-Identifier: BSD-2-Clause
#include "target/rss.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Reads a file of /proc in one read, as far as it fits. */
static int file_read(pid_t tgid, const char *name, char *buf, size_t size)
{
	char path[64];
	ssize_t n;
	int fd, err;

	snprintf(path, sizeof(path), "/proc/%d/%s", tgid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	n = read(fd, buf, size - 1);
	err = n < 0 ? -errno : 0;
	close(fd);
	if (err)
		return err;
	buf[n] = '\0';
	return 0;
}

int rss_read(pid_t tgid, uint64_t *ret_bytes)
{
	unsigned long long size, resident;
	char text[128];
	int err;

	err = file_read(tgid, "statm", text, sizeof(text));
	if (err)
		return err;
	if (sscanf(text, "%llu %llu", &size, &resident) != 2)
		return -EIO;
	if (!size) /* its memory is gone already */
		return -ESRCH;
	*ret_bytes = resident * (uint64_t)sysconf(_SC_PAGESIZE);
	return 0;
}

int rss_peak_read(pid_t tgid, uint64_t *ret_bytes)
{
	char text[4096], *line;
	int err;

	err = file_read(tgid, "status", text, sizeof(text));
	if (err)
		return err;
	line = strstr(text, "\nVmHWM:");
	if (!line)
		return -ESRCH;
	*ret_bytes = strtoull(line + strlen("\nVmHWM:"), NULL, 10) * 1024;
	return 0;
}
