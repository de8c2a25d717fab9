// SPDX-License-Identifier: BSD-2-Clause
#include "record/out_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/outfile.h"
#include "util/log.h"

#define PART_SUFFIX ".part"

bool out_file_is_stdout(const char *name)
{
	return !strcmp(name, "-");
}

const char *out_file_part_name(const struct out_file *f, char buf[PATH_MAX])
{
	snprintf(buf, PATH_MAX, "%s%s", f->name, f->is_part ? PART_SUFFIX : "");
	return buf;
}

int out_file_create_part(const char *name, int flags)
{
	char part[PATH_MAX], why[OUTFILE_WHY_MAX] = "";
	bool created;
	int fd;

	if (snprintf(part, sizeof(part), "%s" PART_SUFFIX, name) >= (int)sizeof(part)) {
		fd = -ENAMETOOLONG;
		snprintf(why, sizeof(why), "%s", strerror(-fd));
	} else {
		fd = outfile_open(part, O_EXCL | flags, &created, why);
	}
	if (fd < 0) {
		if (fd != -EEXIST)
			log_error("cannot create %s" PART_SUFFIX ": %s", name, why);
		return fd;
	}
	if (!faccessat(AT_FDCWD, name, F_OK, AT_SYMLINK_NOFOLLOW)) {
		outfile_unlink(part);
		close(fd);
		return -EEXIST;
	}
	return fd;
}

int out_file_open(const char *name, int flags, bool part, struct out_file *ret_file)
{
	char why[OUTFILE_WHY_MAX];
	int fd;

	*ret_file = (struct out_file){ .name = strdup(name) };
	if (!ret_file->name)
		return -ENOMEM;
	if (part) {
		fd = out_file_create_part(name, flags);
		ret_file->created = ret_file->is_part = fd >= 0;
		return fd;
	}
	if (out_file_is_stdout(name))
		return STDOUT_FILENO;
	fd = outfile_open(name, flags, &ret_file->created, why);
	if (fd < 0) {
		log_error("cannot create %s: %s", name, why);
		return fd;
	}
	fcntl(fd, F_SETFL, flags); /* removes the O_NONBLOCK that it was opened with */
	return fd;
}

int out_file_claim(int fd, const char *name)
{
	struct stat st;
	int err = 0;

	if (out_file_is_stdout(name) || fstat(fd, &st) || !S_ISREG(st.st_mode))
		return 0;
	if (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) {
		log_error("cannot write %s: another recording is writing it", name);
		return -EBUSY;
	}
	if (ftruncate(fd, 0)) {
		err = -errno;
		log_error("cannot write %s: %s", name, strerror(-err));
	}
	return err;
}

int out_file_end_last_line(int fd)
{
	char last = '\n';
	struct stat st;
	int in;

	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || !st.st_size)
		return 0;
	in = outfile_reopen(fd);
	if (in < 0)
		return 0; /* we may write it, but not read it */
	if (pread(in, &last, 1, st.st_size - 1) != 1)
		last = '\n';
	close(in);
	return last == '\n' || write(fd, "\n", 1) == 1 ? 0 : -errno;
}

int out_file_finish(struct out_file *f, bool keep)
{
	char part[PATH_MAX];
	int err = 0;

	out_file_part_name(f, part);
	if (!keep && f->created)
		outfile_unlink(part);
	else if (f->is_part)
		err = outfile_rename(part, f->name);
	if (err)
		log_error("cannot rename %s to %s: %s", part, f->name, strerror(-err));
	return err;
}

void out_file_drop(struct out_file *f, int fd)
{
	char part[PATH_MAX];

	if (fd >= 0 && fd != STDOUT_FILENO)
		close(fd);
	if (f->created && f->name)
		outfile_unlink(out_file_part_name(f, part));
	free(f->name);
	*f = (struct out_file){ 0 };
}
