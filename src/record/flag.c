// SPDX-License-Identifier: BSD-2-Clause
#include "record/flag.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/log.h"
#include "util/user.h"

#define DIRECTORY_EVENTS                                                                       \
	(IN_CREATE | IN_MOVED_TO | IN_DELETE | IN_MOVED_FROM | IN_DELETE_SELF | IN_MOVE_SELF | \
		IN_ONLYDIR)
/* for the nearest directory above, while the flag's directory is missing */
#define ABOVE_EVENTS (IN_CREATE | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR)
#define WATCH_TRIES 16 /* directories may come and go while one is looked for */
#define EVENTS_BYTES 16384

struct flag {
	char path[PATH_MAX], directory[PATH_MAX];
	const char *name; /* the last part of path */
	uid_t user;
	int fd;
	int wd, above_wd; /* -1: none */
	bool there;       /* as last reported */
	bool look;        /* something has happened to it */
	bool away;        /* ... and it was gone for a while */
	bool warned;      /* that the file is refused; until one is not */
};

/*
 * 0: there. -ENOENT: not there; other errors with the reason. Checks the file itself, not what its
 * name may lead to a moment later.
 */
static int check_file(const struct flag *f, char *why, size_t size)
{
	int fd = open(f->path, O_PATH | O_NOFOLLOW | O_CLOEXEC), err = 0;
	struct stat st;

	if (fd < 0 || fstat(fd, &st)) {
		err = -errno;
		snprintf(why, size, "%s", strerror(errno));
	} else if (!S_ISREG(st.st_mode)) {
		err = -EINVAL;
		snprintf(why, size, "it is %s, not a regular file",
			S_ISLNK(st.st_mode)   ? "a symbolic link"
			: S_ISDIR(st.st_mode) ? "a directory"
					      : "a special file");
	} else if (st.st_uid && st.st_uid != f->user) {
		err = -EPERM;
		snprintf(why, size, "it belongs to user %u, neither to you (%u) nor to root",
			st.st_uid, f->user);
	}
	if (fd >= 0)
		close(fd);
	return err;
}

static bool look(struct flag *f)
{
	char why[128];
	int err = check_file(f, why, sizeof(why));

	if (err && err != -ENOENT && !f->warned) {
		log_warn("the flag file %s does not count: %s", f->path, why);
		f->warned = true;
	}
	if (!err)
		f->warned = false;
	return !err;
}

/* ---- the directory ---- */

static void drop(struct flag *f, int *wd)
{
	if (*wd >= 0)
		inotify_rm_watch(f->fd, *wd);
	*wd = -1;
}

/* Watches the nearest existing directory above the missing one. */
static int watch_above(struct flag *f)
{
	char path[PATH_MAX];
	size_t n;
	int wd;

	memcpy(path, f->directory, sizeof(path));
	do {
		n = strlen(path);
		while (n > 1 && path[n - 1] != '/')
			n--;
		while (n > 1 && path[n - 1] == '/')
			n--;
		path[n] = 0;
		wd = inotify_add_watch(f->fd, path, ABOVE_EVENTS);
	} while (wd < 0 && (errno == ENOENT || errno == ENOTDIR) && n > 1);
	if (wd < 0)
		return -errno;
	if (wd != f->above_wd)
		drop(f, &f->above_wd);
	f->above_wd = wd;
	return 0;
}

/* 0: the directory is watched; 1: it is missing, and the nearest one above it is watched. */
static int watch(struct flag *f)
{
	for (int i = 0; i < WATCH_TRIES; i++) {
		int wd = inotify_add_watch(f->fd, f->directory, DIRECTORY_EVENTS), above, err;

		if (wd >= 0) {
			if (wd == f->above_wd) /* a bind mount of the same directory */
				f->above_wd = -1;
			drop(f, &f->above_wd);
			f->wd = wd;
			return 0;
		}
		if (errno != ENOENT && errno != ENOTDIR)
			return -errno;
		above = f->above_wd;
		err = watch_above(f);
		if (err)
			return err;
		/* watched before the directory was looked for, so nothing is missed */
		if (f->above_wd == above)
			return 1;
	}
	return -ENOENT;
}

static void give_up(struct flag *f, const char *why)
{
	drop(f, &f->wd);
	drop(f, &f->above_wd);
	log_warn("the flag file %s can no longer be watched: %s; its window stays closed", f->path,
		why);
}

/* The directory is no longer in its place. */
static void directory_gone(struct flag *f, const char *what)
{
	int err;

	drop(f, &f->wd);
	err = watch(f);
	if (err < 0)
		give_up(f, strerror(-err));
	else
		log_warn("the directory of the flag file %s was %s; %s", f->path, what,
			err ? "its window stays closed until it is back" : "it is there again");
}

/* ---- events ---- */

static void directory_event(struct flag *f, const struct inotify_event *e)
{
	bool mine = e->len && !strcmp(e->name, f->name);

	f->look |= mine;
	f->away |= mine && e->mask & (IN_DELETE | IN_MOVED_FROM);
	if (!(e->mask & (IN_UNMOUNT | IN_IGNORED | IN_MOVE_SELF)))
		return;
	f->look = f->away = true;
	if (e->mask & IN_IGNORED)
		f->wd = -1;
	/* what is mounted there later cannot be told from what is below it */
	if (e->mask & IN_UNMOUNT)
		give_up(f, "its directory was unmounted");
	else
		directory_gone(f, e->mask & IN_IGNORED ? "removed" : "moved");
}

static void above_event(struct flag *f, const struct inotify_event *e)
{
	int err;

	if (e->mask & IN_IGNORED)
		f->above_wd = -1;
	else if (e->mask & (IN_MOVE_SELF | IN_UNMOUNT))
		drop(f, &f->above_wd);
	err = watch(f);
	f->look = true;
	if (err < 0)
		give_up(f, strerror(-err));
	else if (!err)
		log_info("the directory of the flag file %s is back", f->path);
}

/* Events were lost, perhaps including those of the directory. */
static void overflow(struct flag *f)
{
	int err;

	drop(f, &f->wd);
	err = watch(f);
	f->look = true;
	if (err < 0)
		give_up(f, strerror(-err));
}

static int drain(struct flag *f)
{
	char buf[EVENTS_BYTES] __attribute__((aligned(__alignof__(struct inotify_event))));
	ssize_t n;

	while ((n = read(f->fd, buf, sizeof(buf))) > 0) {
		const struct inotify_event *e;

		for (char *p = buf; p < buf + n; p += sizeof(*e) + e->len) {
			e = (const struct inotify_event *)p;
			if (e->mask & IN_Q_OVERFLOW)
				overflow(f);
			else if (e->wd == f->wd)
				directory_event(f, e);
			else if (e->wd == f->above_wd)
				above_event(f, e);
		}
	}
	return n < 0 && errno != EAGAIN && errno != EINTR ? -errno : 0;
}

int flag_read(struct flag *f, bool *ret_there)
{
	int err = drain(f);
	bool there;

	if (err)
		return err;
	there = f->look ? f->wd >= 0 && look(f) : f->there;
	if (f->away && f->there && there) {
		f->away = f->there = *ret_there = false;
		return 1;
	}
	f->look = f->away = false;
	f->there = *ret_there = there;
	return 0;
}

/* ---- open ---- */

/* A relative path starts at the current directory, even if that is moved. */
static int set_path(struct flag *f, const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	char cwd[PATH_MAX] = "";
	int n;

	if (!*name) {
		log_error("--window-flag: '%s' names no file", path);
		return -EINVAL;
	}
	if (*path != '/' && !getcwd(cwd, sizeof(cwd))) {
		n = -errno;
		log_error("--window-flag: %s: the current directory: %s", path, strerror(-n));
		return n;
	}
	n = snprintf(f->path, sizeof(f->path), "%s%s%s", cwd, *cwd ? "/" : "", path);
	if (n >= (int)sizeof(f->path) || strlen(name) > NAME_MAX) {
		log_error("--window-flag: %.40s...: %s", path, strerror(ENAMETOOLONG));
		return -EINVAL;
	}
	f->name = strrchr(f->path, '/') + 1;
	n = (int)(f->name - f->path) - 1;
	memcpy(f->directory, f->path, (size_t)(n ? n : 1));
	return 0;
}

static const char *watch_error(int err)
{
	/* inotify(7), "/proc interfaces" */
	if (err == -EMFILE)
		return "too many users of inotify; raise fs.inotify.max_user_instances";
	if (err == -ENOSPC)
		return "too many files are watched; raise fs.inotify.max_user_watches";
	return strerror(-err);
}

static int watch_first(struct flag *f)
{
	char why[128];
	int err;

	f->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (f->fd >= 0)
		f->wd = inotify_add_watch(f->fd, f->directory, DIRECTORY_EVENTS);
	if (f->wd < 0) {
		err = -errno;
		log_error("--window-flag: cannot watch directory %s: %s", f->directory,
			watch_error(err));
		return err;
	}
	/* watched first, so nothing that happens from here on is missed */
	err = check_file(f, why, sizeof(why));
	f->look = !err;
	if (!err || err == -ENOENT)
		return 0;
	log_error("--window-flag: %s: %s", f->path, why);
	return err;
}

int flag_open(const char *path, struct flag **ret_flag)
{
	struct flag *f = calloc(1, sizeof(*f));
	int err;

	if (!f)
		return -ENOMEM;
	f->fd = f->wd = f->above_wd = -1;
	f->user = user_calling();
	err = set_path(f, path);
	if (!err)
		err = watch_first(f);
	if (err) {
		flag_free(f);
		return err;
	}
	*ret_flag = f;
	return 0;
}

int flag_fd(const struct flag *f)
{
	return f->fd;
}

void flag_free(struct flag *f)
{
	if (!f)
		return;
	if (f->fd >= 0)
		close(f->fd); /* also ends all watches */
	free(f);
}
