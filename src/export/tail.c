// SPDX-License-Identifier: BSD-2-Clause
#include "export/tail.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "util/alloc.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/map.h"
#include "util/text.h"

#define PROBLEMS_SHOWN_MAX 10
#define LOOK_NS (NSEC_PER_SEC / 2) /* time for one look */

/* Inode numbers are reused; together with the birth time, where the file system has it, they are unique. */
struct file_id {
	uint64_t ino, made_ns;
	uint32_t dev_major, dev_minor;
};

struct tail_file {
	struct file_id id;
	uint64_t offset; /* of the first byte not taken yet: the beginning of a line, or of a gzip member */
	uint64_t lines;  /* before it */
	bool seen;       /* at this look */
	bool skipping;   /* within a line that is too long */
	bool damaged;    /* the rest cannot be read */
	uint64_t incomplete; /* gzip: the member there was not complete when the file had this size */
	bool failed;     /* was reported */
	UT_hash_handle hh;
};

struct tail {
	char *const *paths;
	size_t n;
	struct tail_file *files;
	struct tail_counts counts;
	char *buf;
	size_t size;
	z_stream z;
	char *text; /* unpacked */
	size_t text_size;
	uint64_t problems;
	bool full_said;
	struct file_id next; /* the first file for which no time or bytes were left: the next look begins with it, if has_next */
	bool has_next;
	/* while reading */
	uint64_t left, until_ns;
	bool waits; /* skips files until that one */
	tail_take_fn take;
	void *ctx;
	const char *path; /* printable */
	uint64_t lines_before;
};

const struct tail_counts *tail_counts(const struct tail *t)
{
	return &t->counts;
}

static bool problem_is_shown(struct tail *t)
{
	if (t->problems++ == PROBLEMS_SHOWN_MAX)
		log_warn("further problems with profiles are counted only");
	return t->problems <= PROBLEMS_SHOWN_MAX;
}

/* ---- lines ---- */

static int tail_on_line(void *ctx, const struct profile_line *line)
{
	struct tail *t = ctx;
	struct profile_line l = *line;

	l.number += t->lines_before;
	t->counts.lines++;
	t->take(t->ctx, &l, t->path);
	return 0;
}

static void tail_on_bad_line(void *ctx, uint64_t number, const char *why)
{
	struct tail *t = ctx;

	t->counts.bad_lines++;
	if (problem_is_shown(t))
		log_warn("%s: line %llu: %s", t->path, (unsigned long long)(t->lines_before + number), why);
}

/* The lines are so many bytes of the file. */
static int tail_take_lines(struct tail *t, struct tail_file *file, const char *text, size_t len, size_t bytes)
{
	static const struct profile_reader_ops ops = { tail_on_line, tail_on_bad_line };
	struct json_source source;
	int err;

	if ((unsigned char)*text == 0x1f) /* as gzip in gzip, which could unpack to anything */
		return -EPROTO;
	t->lines_before = file->lines;
	err = json_source_open_mem(&source, text, len);
	if (!err)
		err = profile_read(&source, &ops, t);
	json_source_close(&source);
	for (const char *p = text; (p = memchr(p, '\n', len - (size_t)(p - text))); p++)
		file->lines++;
	file->offset += bytes;
	t->counts.bytes += bytes;
	t->left -= t->left < len ? t->left : len;
	return err;
}

/* ---- one file ---- */

/* Skips the part in the buffer of a line that is too long. */
static void tail_skip_part(struct tail *t, struct tail_file *file, size_t n)
{
	const char *newline = memchr(t->buf, '\n', n);

	if (!file->skipping) {
		t->counts.bad_lines++;
		if (problem_is_shown(t))
			log_warn("%s: line %llu: longer than %d MB", t->path, (unsigned long long)file->lines + 1, TAIL_LINE_MAX >> 20);
	}
	file->skipping = !newline;
	file->lines += !!newline;
	n = newline ? (size_t)(newline - t->buf) + 1 : n;
	file->offset += n;
	t->left -= t->left < n ? t->left : n;
}

/* Within a line that is too long: skips a hole of the file. */
static void skip_hole(struct tail_file *file, int fd, uint64_t end)
{
	off_t data = lseek(fd, (off_t)file->offset, SEEK_DATA);

	if (data < 0 && errno == ENXIO)
		file->offset = end;
	else if (data > (off_t)file->offset)
		file->offset = (uint64_t)data < end ? (uint64_t)data : end;
}

/* Returns how many bytes at the file's offset are in t->buf, at most `size`; -errno. */
static ssize_t tail_read_block(struct tail *t, const struct tail_file *file, int fd, size_t size)
{
	ssize_t n;

	if (t->size < size) {
		t->buf = xreallocarray(t->buf, size, 1);
		t->size = size;
	}
	n = pread(fd, t->buf, size, (off_t)file->offset);
	return n < 0 ? -errno : n;
}

/* Reads whole lines up to `end`, which is the size of the file. */
static int tail_read_lines(struct tail *t, struct tail_file *file, int fd, uint64_t end)
{
	size_t size = TAIL_BLOCK;
	const char *newline;
	ssize_t n;
	int err;

	while (file->offset < end && t->left) {
		if (file->skipping)
			skip_hole(file, fd, end);
		if (clock_mono_ns() > t->until_ns)
			t->left = 0;
		n = tail_read_block(t, file, fd, size);
		if (n < 0)
			return (int)n;
		newline = n ? memrchr(t->buf, '\n', (size_t)n) : NULL;
		if (file->skipping) {
			tail_skip_part(t, file, (size_t)n);
		} else if (newline) {
			n = newline - t->buf + 1;
			err = tail_take_lines(t, file, t->buf, (size_t)n, (size_t)n);
			if (err)
				return err;
		} else if ((size_t)n < size) {
			return 0; /* the line is not complete yet */
		} else if (size < TAIL_LINE_MAX) {
			size *= 2;
		} else {
			tail_skip_part(t, file, (size_t)n);
		}
	}
	return 0;
}

/*
 * Unpacks the member at the beginning of `len` bytes of a file behind *text_len bytes of text, which it updates. Returns its
 * length; 0: it is not complete; -EPROTO: it is damaged, or of another tool: it does not end with a line, or is longer
 * than a line may be.
 */
static ssize_t tail_unpack_member(struct tail *t, const char *from, size_t len, size_t *text_len)
{
	z_stream *z = &t->z;
	size_t room;
	int zret;

	inflateReset(z);
	z->next_in = (unsigned char *)from;
	z->avail_in = (unsigned int)len;
	do {
		room = t->text_size - *text_len - z->total_out;
		if (!room) {
			if (z->total_out > TAIL_LINE_MAX)
				return -EPROTO;
			t->text_size = t->text_size ? 2 * t->text_size : 2 * TAIL_BLOCK;
			t->text = xreallocarray(t->text, t->text_size, 1);
			room = t->text_size - *text_len - z->total_out;
		}
		z->next_out = (unsigned char *)t->text + *text_len + z->total_out;
		z->avail_out = (unsigned int)room;
		zret = inflate(z, Z_NO_FLUSH);
	} while (zret == Z_OK && !z->avail_out);
	if (zret != Z_STREAM_END)
		return zret == Z_OK || zret == Z_BUF_ERROR ? 0 : -EPROTO;
	if (z->total_out && t->text[*text_len + z->total_out - 1] != '\n')
		return -EPROTO;
	*text_len += z->total_out;
	return (ssize_t)(len - z->avail_in);
}

/* The same as tail_read_lines() for a file of gzip members, each of whole lines. */
static int tail_read_members(struct tail *t, struct tail_file *file, int fd, uint64_t end)
{
	size_t size = TAIL_BLOCK, text_len, done;
	ssize_t n, member;
	int err;

	while (file->offset < end && end != file->incomplete && t->left) {
		if (clock_mono_ns() > t->until_ns)
			t->left = 0;
		n = tail_read_block(t, file, fd, size);
		if (n < 0)
			return (int)n;
		member = 0;
		for (text_len = done = 0; done < (size_t)n && text_len < TAIL_BLOCK; done += (size_t)member) {
			member = tail_unpack_member(t, t->buf + done, (size_t)n - done, &text_len);
			if (member <= 0)
				break;
		}
		err = done ? tail_take_lines(t, file, t->text, text_len, done) : 0;
		if (err || member < 0)
			return err ? err : (int)member;
		if (!done && (size_t)n < size)
			file->incomplete = end;
		else if (!done && size >= TAIL_LINE_MAX)
			return -EPROTO;
		else if (!done)
			size *= 2;
	}
	return 0;
}

static bool is_gzip(int fd)
{
	unsigned char magic[2];

	return pread(fd, magic, 2, 0) == 2 && magic[0] == 0x1f && magic[1] == 0x8b;
}

static struct tail_file *tail_get_file(struct tail *t, const struct file_id *id)
{
	struct tail_file *file;

	HASH_FIND(hh, t->files, id, sizeof(*id), file);
	if (file)
		return file;
	if (HASH_COUNT(t->files) >= TAIL_FILES_MAX) {
		t->counts.files_left_out++;
		if (!t->full_said)
			log_warn("more than %d profiles: what is in others is left out; remove old ones", TAIL_FILES_MAX);
		t->full_said = true;
		return NULL;
	}
	file = xcalloc(1, sizeof(*file));
	file->id = *id;
	HASH_ADD(hh, t->files, id, sizeof(file->id), file);
	t->counts.files_read++;
	return file;
}

/* Reads what is new in an open file. */
static void tail_read_file(struct tail *t, int fd, const struct statx *st)
{
	struct file_id id = { .ino = st->stx_ino, .dev_major = st->stx_dev_major, .dev_minor = st->stx_dev_minor };
	struct tail_file *file;
	int err = 0;

	if (st->stx_mask & STATX_BTIME)
		id.made_ns = (uint64_t)st->stx_btime.tv_sec * 1000000000 + st->stx_btime.tv_nsec;
	file = tail_get_file(t, &id);
	if (!file)
		return;
	file->seen = true;
	if (st->stx_size < file->offset) {
		if (problem_is_shown(t))
			log_warn("%s: got shorter: reading it from its beginning", t->path);
		file->offset = file->lines = file->incomplete = 0;
		file->skipping = file->damaged = false;
	}
	if (t->waits && !memcmp(&file->id, &t->next, sizeof(t->next)))
		t->waits = false;
	if (!t->waits && !t->left && !t->has_next && file->offset < st->stx_size) {
		t->next = file->id;
		t->has_next = true;
	}
	if (!t->waits && !file->damaged)
		err = is_gzip(fd) ? tail_read_members(t, file, fd, st->stx_size) : tail_read_lines(t, file, fd, st->stx_size);
	file->damaged |= err == -EPROTO;
	t->counts.unread += st->stx_size > file->offset && !file->skipping && !file->damaged ? st->stx_size - file->offset : 0;
	if (err && !file->failed) {
		file->failed = true;
		t->counts.errors++;
		if (problem_is_shown(t))
			log_warn("cannot read %s: %s", t->path, file->damaged ? "damaged, or not compressed by inftrace: unpack it first" : strerror(-err));
	}
}

/* ---- files and directories ---- */

/* Returns -errno only for what is wrong with the path itself. */
static int tail_read_path(struct tail *t, int dir, const char *name, const char *path, bool named)
{
	/* O_NONBLOCK: a pipe may have nobody at its other end */
	int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (named ? 0 : O_NOFOLLOW));
	char printable[512];
	struct statx st;
	int err = 0;

	if (fd < 0)
		return -errno;
	t->path = text_printable(printable, sizeof(printable), path);
	if (statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_BTIME, &st))
		err = -errno;
	else if (!S_ISREG(st.stx_mode))
		err = S_ISDIR(st.stx_mode) ? -EISDIR : -EINVAL;
	else
		tail_read_file(t, fd, &st);
	close(fd);
	return err;
}

static bool is_profile_name(const char *name)
{
	static const char *const suffixes[] = { ".jsonl", ".jsonl.gz", ".jsonl.part", ".jsonl.gz.part" }; /* .part: is being written */
	bool is = false;

	for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++)
		is |= text_has_suffix(name, suffixes[i]);
	return is && name[0] != '.';
}

static void tail_read_directory(struct tail *t, const char *path)
{
	DIR *dir = opendir(path);
	const struct dirent *entry;
	char whole[4096];
	int err;

	if (!dir)
		return;
	while ((entry = readdir(dir))) {
		if (!is_profile_name(entry->d_name))
			continue;
		snprintf(whole, sizeof(whole), "%s/%s", path, entry->d_name);
		err = tail_read_path(t, dirfd(dir), entry->d_name, whole, false);
		if (err && err != -ENOENT && err != -ELOOP && err != -EISDIR && err != -EINVAL) {
			t->counts.errors++;
			if (problem_is_shown(t))
				log_warn("cannot read %s: %s", t->path ? t->path : "a profile", strerror(-err));
		}
	}
	closedir(dir);
}

static void tail_drop_gone_files(struct tail *t)
{
	struct tail_file *file, *next;

	HASH_ITER(hh, t->files, file, next)
	{
		if (!file->seen) {
			HASH_DEL(t->files, file);
			free(file);
			continue;
		}
		file->seen = false;
	}
	t->counts.files = HASH_COUNT(t->files);
}

static void tail_read_all(struct tail *t)
{
	t->counts.unread = t->counts.files_left_out = 0;
	for (size_t i = 0; i < t->n; i++) {
		if (tail_read_path(t, AT_FDCWD, t->paths[i], t->paths[i], true) == -EISDIR)
			tail_read_directory(t, t->paths[i]);
	}
}

void tail_read(struct tail *t, uint64_t max, tail_take_fn take, void *ctx)
{
	bool waited = t->has_next;

	t->left = max;
	t->until_ns = clock_mono_ns() + LOOK_NS;
	t->take = take;
	t->ctx = ctx;
	t->waits = t->has_next;
	t->has_next = false;
	tail_read_all(t);
	/* then the files before the one with which it began */
	t->waits = false;
	if (waited && t->left)
		tail_read_all(t);
	tail_drop_gone_files(t);
}

/* ---- start and end ---- */

/* Returns why a path is no profile, by its first byte; NULL: it may be one. Its lines are checked later. */
static const char *path_refusal(const char *path, char *buf, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	const char *why = NULL;
	unsigned char first;
	struct stat st;

	if (fd < 0 || fstat(fd, &st)) {
		snprintf(buf, size, "cannot open: %s", strerror(errno));
		why = buf;
	} else if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) {
		why = "is neither a regular file nor a directory";
	} else if (S_ISREG(st.st_mode) && pread(fd, &first, 1, 0) == 1) {
		if (first == '[' || first == '\n')
			why = "is a trace, not a profile: record with --profile FILE";
	}
	if (fd >= 0)
		close(fd);
	return why;
}

int tail_new(char *const *paths, size_t n, struct tail **ret)
{
	char buf[160], printable[256];
	struct tail *t;
	const char *why;

	for (size_t i = 0; i < n; i++) {
		why = path_refusal(paths[i], buf, sizeof(buf));
		if (!why)
			continue;
		return log_fail(-EINVAL, "%s: %s", text_printable(printable, sizeof(printable), paths[i]), why);
	}
	t = xcalloc(1, sizeof(*t));
	if (inflateInit2(&t->z, 15 + 16) != Z_OK)
		out_of_memory();
	t->paths = paths;
	t->n = n;
	*ret = t;
	return 0;
}

void tail_free(struct tail *t)
{
	struct tail_file *file, *next;

	if (!t)
		return;
	HASH_ITER(hh, t->files, file, next)
	{
		HASH_DEL(t->files, file);
		free(file);
	}
	inflateEnd(&t->z);
	free(t->text);
	free(t->buf);
	free(t);
}
