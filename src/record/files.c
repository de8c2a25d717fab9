// SPDX-License-Identifier: BSD-2-Clause
#include "record/files.h"

#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/outfile.h"
#include "util/list_room.h"
#include "util/log.h"

/* ---- one file ---- */

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

/* -EEXIST: the name is taken, perhaps by a part of another recording. Prints one line on any other failure. */
static int out_file_create_part(const char *name, int flags)
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

/* ---- the files of an output, with --max-size ---- */

#define LOOK_RECORDS 32 /* records between two checks of the size: some KB */
#define NUMBER_MAX 1000000

struct rotation {
	const struct record_options *o;
	char *base; /* the name of the first file, which has number 1 */
	enum writer_mode mode;
	bool part; /* files have names of parts until they are complete, not only until they have content */
	bool keep_first;
	uint32_t number;     /* of the file being written */
	unsigned int looked; /* records since the last check of the size */
	struct out_file old; /* the previous file, until all of it is written; w NULL: it is */
	/* the files before that, oldest first, and their bytes */
	uint32_t *files;
	size_t n, cap;
	uint64_t bytes;
};

int rotation_new(const struct record_options *o, const char *name, enum writer_mode mode, bool part,
	struct rotation **ret_rotation)
{
	struct rotation *r = calloc(1, sizeof(*r));

	if (r)
		r->base = strdup(name);
	if (!r || !r->base) {
		free(r);
		return -ENOMEM;
	}
	r->o = o;
	r->mode = mode;
	r->part = part;
	r->number = 1;
	*ret_rotation = r;
	return 0;
}

void rotation_free(struct rotation *r)
{
	if (!r)
		return;
	free(r->files);
	free(r->base);
	free(r);
}

void rotation_keep_first(struct rotation *r)
{
	r->keep_first = true;
}

/* ---- names ---- */

/* trace.2.json.gz; NULL without memory. */
static char *numbered_name(const struct rotation *r, uint32_t number)
{
	const char *slash = strrchr(r->base, '/'), *file = slash ? slash + 1 : r->base;
	size_t len = strlen(file), stem = len, at;
	const char *dot;
	char *name;

	if (number == 1)
		return strdup(r->base);
	if (len > 3 && !strcmp(file + len - 3, ".gz"))
		stem -= 3;
	dot = memrchr(file, '.', stem);
	at = (size_t)((dot ? dot : file + stem) - r->base);
	if (asprintf(&name, "%.*s.%u%s", (int)at, r->base, number, r->base + at) < 0)
		return NULL;
	return name;
}

int rotation_create(struct rotation *r, struct out_file *ret_file)
{
	int fd, flags = r->mode == WRITER_LINES ? O_APPEND : 0;
	uint32_t number = r->number;
	char *name = NULL;

	do {
		free(name);
		name = numbered_name(r, ++number);
		if (!name) {
			log_error("cannot create the file after %s: %s", r->base, strerror(ENOMEM));
			return -ENOMEM;
		}
		fd = out_file_create_part(name, flags);
	} while (fd == -EEXIST && number < NUMBER_MAX);
	if (fd < 0) {
		if (fd == -EEXIST)
			log_error("cannot create %s: all numbers are taken", name);
		free(name);
		return fd;
	}
	flock(fd, LOCK_EX | LOCK_NB); /* so that no other inftrace claims it */
	r->number = number;
	*ret_file = (struct out_file){ .name = name, .is_part = true, .created = true };
	return fd;
}

/* ---- complete files ---- */

/* Leaves as many as are to be kept, including the file being written. */
static void remove_oldest(struct rotation *r)
{
	size_t kept = r->n && r->keep_first && r->files[0] == 1;

	while (r->o->max_files && r->n - kept >= r->o->max_files) {
		char *name = numbered_name(r, r->files[kept]);
		int err = name ? outfile_unlink(name) : 0;

		if (err && err != -ENOENT)
			log_warn("--max-files: cannot delete %s: %s", name, strerror(-err));
		free(name);
		r->n--;
		memmove(r->files + kept, r->files + kept + 1, (r->n - kept) * sizeof(*r->files));
	}
}

/* All of it has been written, or will be now. */
static int finish_old(struct rotation *r)
{
	struct out_file *old = &r->old;
	int err, finish_err;

	r->bytes += writer_bytes(old->w);
	err = writer_close(old->w);
	finish_err = out_file_finish(old, true);
	free(old->name);
	*old = (struct out_file){ 0 };
	remove_oldest(r);
	return err ? err : finish_err;
}

/* ---- the file being written ---- */

static int go_on(struct rotation *r, struct out_file *f, struct sink *format)
{
	uint32_t number = r->number;
	struct out_file next;
	char part[PATH_MAX];
	int err, fd;

	err = writer_flush(f->w);
	if (err)
		return err;
	fd = rotation_create(r, &next);
	if (fd < 0)
		return fd;
	err = writer_new(fd, r->part ? out_file_part_name(&next, part) : next.name, r->mode, &next.w);
	if (!err)
		writer_keep_free(next.w, &r->o->min_free);
	if (!err && (err = list_room((void **)&r->files, r->n, &r->cap, sizeof(*r->files))))
		writer_close(next.w);
	if (err) {
		log_error("cannot write %s: %s", next.name, strerror(-err));
		out_file_drop(&next, next.w ? -1 : fd);
		return err;
	}
	r->files[r->n++] = number;
	format->ops->rotate(format, next.w);
	/* errors are reported later */
	writer_flush(f->w);
	writer_flush(next.w);
	r->old = *f;
	*f = next;
	return 0;
}

/* Gives the file its own name, now that there is something in it. */
static int show(struct out_file *f)
{
	int err = out_file_finish(f, true);

	f->is_part = f->is_part && err;
	return err;
}

int rotation_turn(struct rotation *r, struct out_file *f, struct sink *format, bool flush)
{
	int err = 0;

	if (!flush && ++r->looked < LOOK_RECORDS)
		return 0;
	r->looked = 0;
	if (r->old.w && !writer_pending(r->old.w))
		err = finish_old(r);
	if (!err && f->is_part && !r->part && writer_bytes(f->w))
		err = show(f);
	/* a slow disk gets larger files, so that at most two wait in memory */
	if (err || r->old.w || writer_size(f->w, format->ops->held ? format->ops->held(format) : 0) < r->o->max_size)
		return err;
	return writer_stalls(f->w) ? writer_flush(f->w) : go_on(r, f, format);
}

int rotation_close(struct rotation *r)
{
	return r && r->old.w ? finish_old(r) : 0;
}

int rotation_end(const struct rotation *r, struct out_file *f)
{
	char part[PATH_MAX];
	struct stat st;

	if (!r || r->part || !f->is_part)
		return 0;
	if (!stat(out_file_part_name(f, part), &st) && st.st_size)
		return show(f);
	outfile_unlink(part);
	f->is_part = false;
	return 0;
}

/* ---- queries ---- */

uint64_t rotation_bytes(const struct rotation *r)
{
	return r ? r->bytes + (r->old.w ? writer_bytes(r->old.w) : 0) : 0;
}

uint64_t rotation_pending(const struct rotation *r)
{
	return r && r->old.w ? writer_pending(r->old.w) : 0;
}

void rotation_report(const struct rotation *r, void (*cb)(const char *name, uint64_t bytes, void *arg), void *arg)
{
	struct stat st;

	for (size_t i = 0; r && i < r->n; i++) {
		char *name = numbered_name(r, r->files[i]);

		if (name && !stat(name, &st))
			cb(name, (uint64_t)st.st_size, arg);
		free(name);
	}
}

/* ---- files for clients ---- */

struct json_object *file_path_json(const char *name)
{
	char cwd[PATH_MAX], path[2 * PATH_MAX];

	if (name[0] == '/' || !strcmp(name, "-") || !getcwd(cwd, sizeof(cwd)))
		return json_object_new_string(name);
	if (!strcmp(name, "."))
		return json_object_new_string(cwd);
	snprintf(path, sizeof(path), "%s/%s", cwd, strncmp(name, "./", 2) ? name : name + 2);
	return json_object_new_string(path);
}

void left_files_add(struct left_files *f, const char *name, uint64_t bytes)
{
	struct json_object *o;

	f->n++;
	f->bytes += bytes;
	if (!f->list)
		return;
	o = json_object_new_object();
	json_object_object_add(o, "name", file_path_json(name));
	json_object_object_add(o, "bytes", json_object_new_int64((int64_t)bytes));
	json_object_array_add(f->list, o);
}
