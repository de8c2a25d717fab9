// SPDX-License-Identifier: BSD-2-Clause
#include "read/json_source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#define RAW_BUF (64 * 1024)

struct json_source_state {
	int fd;			    /* -1: from a stream, or from memory */
	struct json_stream *stream; /* NULL: from memory */
	const unsigned char *mem;
	size_t mem_left;
	bool raw_end;      /* nothing follows the bytes in raw */
	int failed;        /* -errno that the next fill returns */
	bool in_member;    /* between the header of a gzip member and its trailer */
	bool zlib_started; /* inflateEnd is due */
	z_stream z;
	unsigned char *raw_pos;
	size_t raw_len;
	unsigned char raw[RAW_BUF];
	unsigned char *buf;
	size_t size;
};

static int __attribute__((format(printf, 3, 4)))
source_fail(struct json_source *source, int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(source->error, sizeof(source->error), fmt, ap);
	va_end(ap);
	return err;
}

static ssize_t read_some(struct json_source *source, void *buf, size_t len)
{
	struct json_source_state *st = source->state;
	const char *why = NULL;
	ssize_t n;

	if (st->stream) {
		n = st->stream->read(st->stream, buf, len, &why);
		return n < 0 ? source_fail(source, (int)n, "%s", why) : n;
	}
	if (st->fd < 0) {
		n = len < st->mem_left ? len : st->mem_left;
		memcpy(buf, st->mem, n);
		st->mem += n;
		st->mem_left -= n;
		return n;
	}
	do {
		n = read(st->fd, buf, len);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? source_fail(source, -errno, "cannot read: %s", strerror(errno)) : n;
}

/* Refills raw once it is used up. */
static int raw_fill(struct json_source *source)
{
	struct json_source_state *st = source->state;
	ssize_t n;

	if (st->raw_len || st->raw_end)
		return 0;
	n = read_some(source, st->raw, sizeof(st->raw));
	if (n < 0)
		return (int)n;
	st->raw_pos = st->raw;
	st->raw_len = n;
	st->raw_end = n == 0;
	return 0;
}

static ssize_t plain_read(struct json_source *source, unsigned char *buf, size_t len)
{
	struct json_source_state *st = source->state;
	ssize_t n;

	if (!st->raw_len && !st->raw_end) {
		n = read_some(source, buf, len);
		if (n < 0)
			return n;
		st->raw_end = n == 0;
		return n;
	}
	if (len > st->raw_len)
		len = st->raw_len;
	memcpy(buf, st->raw_pos, len);
	st->raw_pos += len;
	st->raw_len -= len;
	return len;
}

static int gzip_error(struct json_source *source, int zret)
{
	struct json_source_state *st = source->state;

	if (zret == Z_MEM_ERROR)
		return source_fail(source, -ENOMEM, "out of memory");
	return source_fail(source, -EBADMSG,
		"damaged gzip data (whole members before it: %llu): %s",
		(unsigned long long)source->members, st->z.msg ? st->z.msg : "not a gzip header");
}

/* A file is a sequence of members, as for gzip(1) and every reader of the trace formats. */
static ssize_t gzip_read(struct json_source *source, unsigned char *buf, size_t len)
{
	struct json_source_state *st = source->state;
	int err, zret;

	st->z.next_out = buf;
	st->z.avail_out = len;
	while (st->z.avail_out == len) {
		err = raw_fill(source);
		if (err)
			return err;
		if (!st->raw_len) {
			if (!st->in_member)
				return 0;
			return source_fail(source, -EBADMSG,
				"gzip data is cut inside a member (whole members before it: %llu): "
				"readers refuse the file",
				(unsigned long long)source->members);
		}
		if (!st->in_member) {
			inflateReset(&st->z);
			st->in_member = true;
		}
		st->z.next_in = st->raw_pos;
		st->z.avail_in = st->raw_len;
		zret = inflate(&st->z, Z_NO_FLUSH);
		st->raw_pos += st->raw_len - st->z.avail_in;
		st->raw_len = st->z.avail_in;
		if (zret == Z_STREAM_END) {
			st->in_member = false;
			source->members++;
		} else if (zret != Z_OK && zret != Z_BUF_ERROR) {
			/* returns what was decoded so far first, the error with the next call */
			err = gzip_error(source, zret);
			if (st->z.avail_out == len)
				return err;
			st->failed = err;
		}
	}
	return len - st->z.avail_out;
}

/* Makes room after what is not consumed yet, which is moved to the beginning of the buffer. */
static int buf_reserve(struct json_source *source, size_t keep)
{
	struct json_source_state *st = source->state;
	size_t size = st->size ? st->size : JSON_SOURCE_BUF;
	unsigned char *buf;

	if (keep)
		memmove(st->buf, source->pos, keep);
	if (keep > size / 2)
		size *= 2;
	if (size > st->size) {
		buf = realloc(st->buf, size);
		if (!buf)
			return source_fail(source, -ENOMEM, "out of memory");
		st->buf = buf;
		st->size = size;
	}
	source->pos = st->buf;
	source->end = st->buf + keep;
	return 0;
}

int json_source_fill(struct json_source *source)
{
	struct json_source_state *st = source->state;
	size_t keep = (size_t)(source->end - source->pos), have = keep;
	ssize_t n;

	n = buf_reserve(source, keep);
	if (n)
		return n;
	while (!st->failed && have < st->size) {
		if (source->gzip)
			n = gzip_read(source, st->buf + have, st->size - have);
		else
			n = plain_read(source, st->buf + have, st->size - have);
		if (n < 0)
			st->failed = n;
		if (n <= 0)
			break;
		have += n;
	}
	source->end = st->buf + have;
	if (have > keep)
		return 1;
	return st->failed;
}

static int source_start(struct json_source *source)
{
	struct json_source_state *st = source->state;
	int err;

	err = raw_fill(source);
	if (err)
		return err;
	if (st->raw_len == 1) { /* a pipe may deliver the magic in two parts */
		ssize_t n = read_some(source, st->raw + 1, sizeof(st->raw) - 1);

		if (n < 0)
			return (int)n;
		st->raw_len += n;
	}
	if (st->raw_len >= 2 && st->raw_pos[0] == 0x1f && st->raw_pos[1] == 0x8b) {
		if (inflateInit2(&st->z, 15 + 16) != Z_OK)
			return source_fail(source, -ENOMEM, "out of memory");
		st->zlib_started = true;
		source->gzip = true;
	}
	err = json_source_fill(source);
	return err < 0 ? err : 0;
}

static int source_alloc(struct json_source *source)
{
	memset(source, 0, sizeof(*source));
	source->state = calloc(1, sizeof(*source->state));
	if (!source->state)
		return source_fail(source, -ENOMEM, "out of memory");
	source->state->fd = -1;
	return 0;
}

int json_source_open_mem(struct json_source *source, const void *data, size_t len)
{
	int err;

	err = source_alloc(source);
	if (err)
		return err;
	source->state->mem = data;
	source->state->mem_left = len;
	return source_start(source);
}

int json_source_open_stream(struct json_source *source, struct json_stream *stream)
{
	int err;

	err = source_alloc(source);
	if (err) {
		stream->close(stream);
		return err;
	}
	source->state->stream = stream;
	return source_start(source);
}

int json_source_open(struct json_source *source, const char *path)
{
	struct stat sb;
	int err, fd;

	err = source_alloc(source);
	if (err)
		return err;
	if (!strcmp(path, "-"))
		fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0);
	else
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0)
		return source_fail(source, -errno, "cannot open: %s", strerror(errno));
	source->state->fd = fd;
	if (!fstat(fd, &sb) && S_ISDIR(sb.st_mode))
		return source_fail(source, -EISDIR, "is a directory, not a trace or profile");
	return source_start(source);
}

void json_source_close(struct json_source *source)
{
	struct json_source_state *st = source->state;

	if (!st)
		return;
	if (st->zlib_started)
		inflateEnd(&st->z);
	if (st->fd >= 0)
		close(st->fd);
	if (st->stream)
		st->stream->close(st->stream);
	free(st->buf);
	free(st);
	source->state = NULL;
	source->pos = source->end = NULL;
}
