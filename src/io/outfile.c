// SPDX-License-Identifier: BSD-2-Clause
#include "io/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "util/log.h"
#include "util/parse.h"
#include "util/user.h"

#define LINKS_MAX 40 /* symbolic links in one path, the kernel's limit */
#define TRIES_MAX 8  /* in case somebody keeps creating and removing the file */
#define CREATE_MODE 0600

static int outfile_fail(char why[OUTFILE_WHY_MAX], int err, const char *what)
{
	snprintf(why, OUTFILE_WHY_MAX, "%s", what ? what : strerror(-err));
	return err;
}

/* ---- trust ---- */

static bool is_trusted(uid_t uid)
{
	return !uid || uid == geteuid() || (!geteuid() && uid == user_calling());
}

static bool is_trusted_group(gid_t gid)
{
	return !gid || gid == getegid() || (!geteuid() && gid == user_calling_group());
}

static bool others_can_write(const struct stat *dir)
{
	return !is_trusted(dir->st_uid) || dir->st_mode & S_IWOTH ||
	       (dir->st_mode & S_IWGRP && !is_trusted_group(dir->st_gid));
}

/* Gives a new file or directory to the user who called sudo. */
static void give_to_caller(int fd)
{
	uid_t uid = user_calling();

	if (geteuid() || !uid)
		return;
	if (fchownat(fd, "", uid, user_calling_group(), AT_EMPTY_PATH))
		log_debug("a file stays root's: %s", strerror(errno));
}

/* ---- resolving a path ---- */

struct outfile_walk {
	int dir;             /* the directory reached so far, O_PATH */
	char rest[PATH_MAX]; /* of the path */
	unsigned int links;
	bool create; /* creates missing directories */
	char *why;
};

static int walk_to(struct outfile_walk *w, int dir)
{
	if (dir < 0)
		return outfile_fail(w->why, -errno, NULL);
	if (w->dir >= 0)
		close(w->dir);
	w->dir = dir;
	return 0;
}

/* Takes the first part of the rest. Returns false if there is none; *ret_last: nothing follows it. */
static bool walk_part(struct outfile_walk *w, char part[NAME_MAX + 1], bool *ret_last)
{
	char *from = w->rest + strspn(w->rest, "/");
	size_t len = strcspn(from, "/");

	if (!len || len > NAME_MAX)
		return false;
	memcpy(part, from, len);
	part[len] = 0;
	/* a slash at the end means a directory */
	*ret_last = !from[len];
	memmove(w->rest, from + len, strlen(from + len) + 1);
	return true;
}

static int walk_link(struct outfile_walk *w, int link, const struct stat *st, const char *part)
{
	char target[PATH_MAX], rest[PATH_MAX];
	struct statfs fs;
	ssize_t n;

	if (!is_trusted(st->st_uid)) {
		snprintf(w->why, OUTFILE_WHY_MAX,
			"%.80s on the way is a link by user %u, which is not followed", part,
			st->st_uid);
		return -ELOOP;
	}
	if (++w->links > LINKS_MAX)
		return outfile_fail(w->why, -ELOOP, NULL);
	/* links in /proc are more than their text */
	if (!fstatfs(link, &fs) && fs.f_type == PROC_SUPER_MAGIC)
		return walk_to(w, openat(w->dir, part, O_PATH | O_DIRECTORY | O_CLOEXEC));
	n = readlinkat(link, "", target, sizeof(target) - 1);
	if (n < 0)
		return outfile_fail(w->why, -errno, NULL);
	target[n] = 0;
	/* the rest is empty or begins with a slash */
	if (snprintf(rest, sizeof(rest), "%s%s", target, w->rest) >= (int)sizeof(rest))
		return outfile_fail(w->why, -ENAMETOOLONG, NULL);
	memcpy(w->rest, rest, sizeof(rest));
	return *target == '/' ? walk_to(w, open("/", O_PATH | O_DIRECTORY | O_CLOEXEC)) : 0;
}

static int walk_make_part(struct outfile_walk *w, const char *part)
{
	struct stat st, parent;
	int fd;

	if (mkdirat(w->dir, part, 0777) && errno != EEXIST)
		return -1;
	fd = openat(w->dir, part, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	/* where others can write, it may be a different directory by now */
	if (fd >= 0 && !fstat(fd, &st) && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
		!fstat(w->dir, &parent) && !others_can_write(&parent))
		give_to_caller(fd);
	return fd;
}

static int walk_step(struct outfile_walk *w, const char *part)
{
	int fd = openat(w->dir, part, O_PATH | O_NOFOLLOW | O_CLOEXEC), err;
	struct stat st;

	if (fd < 0 && errno == ENOENT && w->create)
		fd = walk_make_part(w, part);
	if (fd < 0 || fstat(fd, &st)) {
		err = outfile_fail(w->why, -errno, NULL);
	} else if (S_ISLNK(st.st_mode)) {
		err = walk_link(w, fd, &st, part);
	} else if (!S_ISDIR(st.st_mode)) {
		err = outfile_fail(w->why, -ENOTDIR, NULL);
	} else {
		return walk_to(w, fd);
	}
	if (fd >= 0)
		close(fd);
	return err;
}

/* Follows a link at the end of the path if it belongs to a trusted user and nobody else can have put it there. */
static bool follow_last(struct outfile_walk *w, const char *last, int *reterr)
{
	int fd = openat(w->dir, last, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st, parent;
	bool follow;

	if (fd < 0)
		return false;
	follow = !fstat(fd, &st) && S_ISLNK(st.st_mode) && is_trusted(st.st_uid) &&
		 !fstat(w->dir, &parent) && !others_can_write(&parent);
	if (follow)
		*reterr = walk_link(w, fd, &st, last);
	close(fd);
	return follow;
}

/* Opens a directory; with `last` the directory of a file, whose last part is stored there. Returns an O_PATH descriptor. */
static int outfile_open_directory(const char *name, bool create, char *last, char why[OUTFILE_WHY_MAX])
{
	char part[NAME_MAX + 1];
	struct outfile_walk w = { .dir = -1, .create = create, .why = why };
	bool is_last = false;
	int err;

	if (!*name)
		return outfile_fail(why, -ENOENT, "the name is empty");
	if (snprintf(w.rest, sizeof(w.rest), "%s", name) >= (int)sizeof(w.rest))
		return outfile_fail(why, -ENAMETOOLONG, NULL);
	err = walk_to(&w, open(*name == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
	while (!err && !(last && is_last) && walk_part(&w, part, &is_last)) {
		if (!last || !is_last)
			err = walk_step(&w, part);
		else if (follow_last(&w, part, &err))
			is_last = false;
		else
			strcpy(last, part);
	}
	if (!err && !(last && is_last) && strlen(w.rest) > NAME_MAX)
		err = outfile_fail(why, -ENAMETOOLONG, NULL);
	else if (!err && last && !is_last)
		err = outfile_fail(why, -EISDIR, NULL);
	if (!err)
		return w.dir;
	if (w.dir >= 0)
		close(w.dir);
	return err;
}

int outfile_make_directory(const char *name, char why[OUTFILE_WHY_MAX])
{
	int dir = outfile_open_directory(name, true, NULL, why);

	if (dir < 0)
		return dir;
	/* not on the descriptor: glibc's faccessat() cannot handle O_PATH ones */
	close(dir);
	return access(name, W_OK | X_OK) ? outfile_fail(why, -errno, NULL) : 0;
}

/* ---- the file ---- */

static bool is_own_descriptor(const char *name)
{
	static const char *const dirs[] = { "/dev/fd/", "/proc/self/fd/" };
	uint32_t fd;

	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		if (!strncmp(name, dirs[i], strlen(dirs[i])))
			return !parse_u32(name + strlen(dirs[i]), &fd);
	}
	return !strcmp(name, "/dev/stdout") || !strcmp(name, "/dev/stderr");
}

static int check_existing(int dir, int fd, char why[OUTFILE_WHY_MAX])
{
	struct stat st, parent;

	if (fstat(fd, &st) || fstat(dir, &parent))
		return outfile_fail(why, -errno, NULL);
	if (S_ISDIR(st.st_mode))
		return outfile_fail(why, -EISDIR, "it is a directory, give a file");
	if (S_ISLNK(st.st_mode))
		return outfile_fail(why, -ELOOP,
			"it is a symbolic link where others can write, which is not followed; give the name of the file");
	if (!S_ISREG(st.st_mode) && !S_ISFIFO(st.st_mode) && !S_ISCHR(st.st_mode))
		return outfile_fail(why, -EINVAL, "it is neither a file nor a pipe");
	if (others_can_write(&parent) && !is_trusted(st.st_uid)) {
		snprintf(why, OUTFILE_WHY_MAX,
			"it belongs to user %u, in a directory where others can write; remove it, or give another name",
			st.st_uid);
		return -EPERM;
	}
	if (others_can_write(&parent) && S_ISREG(st.st_mode) && st.st_nlink > 1)
		return outfile_fail(why, -EPERM,
			"it has another hard link, and others can write to its directory; give another name");
	return 0;
}

/* Opens the file that was checked, whatever has its name by now. */
static int open_found(int fd, int flags)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

/* -EAGAIN: it appeared or vanished meanwhile. */
static int try_open(int dir, const char *last, int flags, bool *ret_created, char why[OUTFILE_WHY_MAX])
{
	int found = openat(dir, last, O_PATH | O_NOFOLLOW | O_CLOEXEC), fd, err;

	if (found < 0 && errno != ENOENT)
		return outfile_fail(why, -errno, NULL);
	if (found < 0) {
		fd = openat(dir, last,
			O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | flags, CREATE_MODE);
		if (fd < 0)
			return errno == EEXIST ? -EAGAIN : outfile_fail(why, -errno, NULL);
		give_to_caller(fd);
		*ret_created = true;
		return fd;
	}
	err = flags & O_EXCL ? outfile_fail(why, -EEXIST, NULL) : check_existing(dir, found, why);
	fd = err ? -1 : open_found(found, O_WRONLY | flags);
	if (!err && fd < 0)
		err = outfile_fail(why, -errno, errno == ENXIO ? "nobody reads it" : NULL);
	close(found);
	if (err)
		return err;
	*ret_created = false;
	return fd;
}

int outfile_open(const char *name, int flags, bool *ret_created, char why[OUTFILE_WHY_MAX])
{
	char last[NAME_MAX + 1];
	int dir, fd = -EAGAIN;

	*ret_created = false;
	if (is_own_descriptor(name)) {
		fd = open(name, O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | flags);
		return fd < 0 ? outfile_fail(why, -errno, NULL) : fd;
	}
	dir = outfile_open_directory(name, false, last, why);
	if (dir < 0)
		return dir;
	for (int i = 0; i < TRIES_MAX && fd == -EAGAIN; i++)
		fd = try_open(dir, last, flags, ret_created, why);
	close(dir);
	return fd == -EAGAIN ? outfile_fail(why, fd, "it keeps appearing and disappearing") : fd;
}

bool outfile_is_input(const struct stat *out, const char *input)
{
	struct stat in;

	return !(strcmp(input, "-") ? stat(input, &in) : fstat(STDIN_FILENO, &in)) && in.st_dev == out->st_dev && in.st_ino == out->st_ino;
}

int outfile_stream(const char *name, FILE **ret_out, char why[OUTFILE_WHY_MAX])
{
	struct stat st;
	bool created;
	FILE *out = NULL;
	int err, fd = outfile_open(name, 0, &created, why);

	if (fd < 0)
		return fd;
	fcntl(fd, F_SETFL, 0);
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || !ftruncate(fd, 0))
		out = fdopen(fd, "w");
	if (!out) {
		err = outfile_fail(why, -errno, NULL);
		close(fd);
		return err;
	}
	*ret_out = out;
	return 0;
}

int outfile_make_parent(const char *name, char why[OUTFILE_WHY_MAX])
{
	char last[NAME_MAX + 1];
	int dir;

	if (is_own_descriptor(name))
		return 0;
	dir = outfile_open_directory(name, true, last, why);
	if (dir < 0)
		return dir;
	close(dir);
	return 0;
}

int outfile_check(const char *name, char why[OUTFILE_WHY_MAX])
{
	char last[NAME_MAX + 1], path[NAME_MAX + 32];
	int dir, found, err = 0;

	if (is_own_descriptor(name))
		return access(name, W_OK) ? outfile_fail(why, -errno, NULL) : 0;
	dir = outfile_open_directory(name, false, last, why);
	if (dir < 0)
		return dir;
	found = openat(dir, last, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (found < 0 && errno != ENOENT)
		err = outfile_fail(why, -errno, NULL);
	else if (found >= 0)
		err = check_existing(dir, found, why);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", found >= 0 ? found : dir);
	if (!err && access(path, found >= 0 ? W_OK : W_OK | X_OK))
		err = outfile_fail(why, -errno, NULL);
	if (found >= 0)
		close(found);
	close(dir);
	return err;
}

/* Whether the nearest existing directory of the path can be written to. */
static int check_nearest_directory(const char *name, size_t len, char why[OUTFILE_WHY_MAX])
{
	char path[PATH_MAX];
	struct stat st;
	char *slash;

	if (len >= sizeof(path))
		return outfile_fail(why, -ENAMETOOLONG, NULL);
	memcpy(path, name, len);
	while (len > 1 && path[len - 1] == '/')
		len--;
	path[len] = 0;
	while (stat(*path ? path : ".", &st)) {
		if (errno != ENOENT)
			return outfile_fail(why, -errno, NULL);
		slash = strrchr(path, '/');
		if (!slash)
			path[0] = 0;
		else
			slash[slash == path] = 0;
	}
	if (!S_ISDIR(st.st_mode))
		return outfile_fail(why, -ENOTDIR, NULL);
	return access(*path ? path : ".", W_OK | X_OK) ? outfile_fail(why, -errno, NULL) : 0;
}

int outfile_check_directory(const char *name, char why[OUTFILE_WHY_MAX])
{
	return check_nearest_directory(name, strlen(name), why);
}

int outfile_check_parent(const char *name, char why[OUTFILE_WHY_MAX])
{
	const char *slash = strrchr(name, '/');

	return slash ? check_nearest_directory(name, (size_t)(slash - name) + 1, why) : 0;
}

/* ---- names ---- */

int outfile_unlink(const char *name)
{
	char last[NAME_MAX + 1], why[OUTFILE_WHY_MAX];
	int dir = outfile_open_directory(name, false, last, why), err;

	if (dir < 0)
		return dir;
	err = unlinkat(dir, last, 0) ? -errno : 0;
	close(dir);
	return err;
}

static int rename_at(int from_dir, const char *from, int to_dir, const char *to)
{
	if (!renameat2(from_dir, from, to_dir, to, RENAME_NOREPLACE))
		return 0;
	/* network filesystems and some others cannot do it */
	if (errno != EINVAL)
		return -errno;
	if (!faccessat(to_dir, to, F_OK, AT_SYMLINK_NOFOLLOW))
		return -EEXIST;
	return renameat(from_dir, from, to_dir, to) ? -errno : 0;
}

int outfile_rename(const char *from, const char *to)
{
	char from_last[NAME_MAX + 1], to_last[NAME_MAX + 1], why[OUTFILE_WHY_MAX];
	int from_dir = outfile_open_directory(from, false, from_last, why), to_dir, err;

	if (from_dir < 0)
		return from_dir;
	to_dir = outfile_open_directory(to, false, to_last, why);
	err = to_dir < 0 ? to_dir : rename_at(from_dir, from_last, to_dir, to_last);
	if (to_dir >= 0)
		close(to_dir);
	close(from_dir);
	return err;
}

int outfile_reopen(int fd)
{
	char path[32];
	struct stat st;
	int again;

	if (fstat(fd, &st) || !S_ISREG(st.st_mode))
		return -ENOENT;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	return again < 0 ? -errno : again;
}
