// SPDX-License-Identifier: BSD-2-Clause
#include "read/json_source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "util/alloc.h"
#include "util/text.h"

void json_reader_init(struct json_reader *reader, struct json_source *source)
{
	memset(reader, 0, sizeof(*reader));
	reader->source = source;
	reader->line = 1;
}

void json_reader_free(struct json_reader *reader)
{
	json_nodes_free(&reader->nodes);
}

/* Sets the error text of a reader or source; returns err. */
#define fail(what, err, ...) (snprintf((what)->error, sizeof((what)->error), __VA_ARGS__), (err))

static int too_big(struct json_reader *reader)
{
	return fail(reader, -E2BIG, "larger than %u MB", JSON_TEXT_MAX >> 20);
}

/* Makes sure that there are more than `have` bytes at source->pos. */
static int reader_fill(struct json_reader *reader, size_t have)
{
	struct json_source *source = reader->source;
	int ret;

	if ((size_t)(source->end - source->pos) > have)
		return 0;
	ret = json_source_fill(source);
	if (ret < 0)
		return fail(reader, ret, "%s", source->error);
	return ret ? 0 : -ENODATA;
}

/* Skips n bytes of the buffer. */
static void reader_advance(struct json_reader *reader, size_t n)
{
	const unsigned char *p = reader->source->pos, *end = p + n;

	reader->byte += n;
	reader->source->pos += n;
	while ((p = memchr(p, '\n', end - p))) {
		reader->line++;
		p++;
	}
}

int json_reader_peek(struct json_reader *reader)
{
	struct json_source *source = reader->source;
	int err;

	for (;;) {
		err = reader_fill(reader, 0);
		if (err)
			return err;
		switch (*source->pos) {
		case '\n':
			reader->line++;
			/* fallthrough */
		case ' ':
		case '\t':
		case '\r':
			source->pos++;
			reader->byte++;
			break;
		default:
			return *source->pos;
		}
	}
}

void json_reader_take(struct json_reader *reader)
{
	if (reader->source->pos < reader->source->end)
		reader_advance(reader, 1);
}

/* Returns the scanned text as a value; its nodes are complete. */
static int value_finish(struct json_reader *reader, const struct json_scan *scan,
	unsigned char *text, const struct json_node **ret_value)
{
	int err;

	reader->surrogate_escapes = scan->surrogate_escapes;
	if (!ret_value)
		return 0;
	err = json_nodes_finish(&reader->nodes, (char *)text);
	if (err)
		return fail(reader, -EBADMSG, "invalid JSON: a number out of range");
	*ret_value = reader->nodes.list;
	return 0;
}

/* Runs the scanner over one value. *ret_len bytes of it are at source->pos, unless it is skipped. */
static int value_scan(struct json_reader *reader, struct json_scan *scan, size_t *ret_len)
{
	struct json_source *source = reader->source;
	size_t used, len = 0;
	int ret;

	do {
		ret = reader_fill(reader, len);
		if (ret == -ENODATA) {
			ret = json_scan_end(scan);
			break;
		}
		if (ret)
			return ret;
		ret = json_scan_feed(scan, source->pos + len, (size_t)(source->end - source->pos) - len, &used);
		len += used;
		if (scan->nodes && len > JSON_TEXT_MAX)
			return too_big(reader);
		if (!scan->nodes && ret >= 0) {
			reader_advance(reader, len);
			len = 0;
		}
	} while (!ret);
	*ret_len = len;
	if (ret == 1 || ret == -ENODATA)
		return ret == 1 ? 0 : ret;
	reader_advance(reader, len);
	if (ret != -EBADMSG)
		return fail(reader, ret, "%s", scan->error);
	return fail(reader, ret, "invalid JSON at line %llu (byte %llu): %s",
		(unsigned long long)reader->line, (unsigned long long)reader->byte, scan->error);
}

int json_reader_value(struct json_reader *reader, const struct json_node **ret_value)
{
	struct json_scan scan;
	unsigned char *text;
	size_t len = 0;
	int ret;

	ret = json_reader_peek(reader);
	if (ret < 0)
		return ret;
	reader->value_line = reader->line;
	json_scan_init(&scan, NULL);
	if (ret_value)
		json_scan_init(&scan, &reader->nodes);
	ret = value_scan(reader, &scan, &len);
	if (ret) {
		if (ret == -ENODATA)
			reader_advance(reader, len);
		return ret;
	}
	text = reader->source->pos;
	reader_advance(reader, len);
	return value_finish(reader, &scan, text, ret_value);
}

/*
 * Returns the text up to the next newline and consumes both. The caller may change it; it is valid until
 * the next call. -E2BIG: the line is over the limit and was skipped.
 */
static int line_read(struct json_reader *reader, unsigned char **ret_text, size_t *ret_len)
{
	struct json_source *source = reader->source;
	unsigned char *nl = NULL;
	bool big = false;
	size_t len = 0;
	int err;

	while (!nl) {
		err = reader_fill(reader, len);
		if (err == -ENODATA && (len || big))
			break;
		if (err)
			return err;
		nl = memchr(source->pos + len, '\n', (size_t)(source->end - source->pos) - len);
		len = (size_t)((nl ? nl : source->end) - source->pos);
		if (len > JSON_TEXT_MAX)
			big = true;
		if (big) {
			reader_advance(reader, len);
			len = 0;
		}
	}
	*ret_text = source->pos;
	*ret_len = len;
	source->pos += len;
	reader->byte += len;
	if (nl)
		json_reader_take(reader);
	return big ? too_big(reader) : 0;
}

/* Whether only JSON's white space is left. */
static bool text_ended(const unsigned char *text, size_t len)
{
	while (len && strchr(" \t\r\n", text[len - 1]) && text[len - 1])
		len--;
	return len == 0;
}

int json_reader_line(struct json_reader *reader, const struct json_node **ret_value)
{
	struct json_scan scan;
	size_t len, used = 0, before;
	unsigned char *text, *line;
	int ret;

	do {
		reader->value_line = reader->line;
		ret = line_read(reader, &text, &len);
		if (ret)
			return ret;
		line = text;
		text = (unsigned char *)text_trim((const char *)text, &len);
	} while (!len);
	before = (size_t)(text - line);

	json_scan_init(&scan, &reader->nodes);
	ret = json_scan_feed(&scan, text, len, &used);
	if (!ret)
		ret = json_scan_end(&scan);
	if (ret == -ENODATA)
		return fail(reader, -EBADMSG, "invalid JSON: the line ends inside the value");
	if (ret == -EBADMSG)
		return fail(reader, ret, "invalid JSON at column %zu: %s", before + used + 1, scan.error);
	if (ret < 0)
		return fail(reader, ret, "%s", scan.error);
	if (!text_ended(text + used, len - used))
		return fail(reader, -EBADMSG,
			"invalid JSON: text after the value, at column %zu", before + used + 1);
	return value_finish(reader, &scan, text, ret_value);
}

#define RAW_BUF (64 * 1024)

struct json_source_state {
	int fd;                     /* -1: from a stream, or from memory */
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

static ssize_t read_some(struct json_source *source, void *buf, size_t len)
{
	struct json_source_state *st = source->state;
	const char *why = NULL;
	ssize_t n;

	if (st->stream) {
		n = st->stream->read(st->stream, buf, len, &why);
		return n < 0 ? fail(source, (int)n, "%s", why) : n;
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
	return n < 0 ? fail(source, -errno, "cannot read: %s", strerror(errno)) : n;
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

/* A file may have several members, as gzip(1) and every reader of the trace formats accept. */
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
			return fail(source, -EBADMSG,
				"gzip data is cut inside a member (whole members before it: %llu): readers refuse the file",
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
			if (zret == Z_MEM_ERROR)
				out_of_memory();
			err = fail(source, -EBADMSG, "damaged gzip data (whole members before it: %llu): %s", (unsigned long long)source->members,
				st->z.msg ? st->z.msg : "not a gzip header");
			if (st->z.avail_out == len)
				return err;
			st->failed = err;
		}
	}
	return len - st->z.avail_out;
}

/* Moves the `keep` unconsumed bytes to the beginning of the buffer and makes room after them. */
static void buf_reserve(struct json_source *source, size_t keep)
{
	struct json_source_state *st = source->state;
	size_t size = st->size ? st->size : JSON_SOURCE_BUF;

	if (keep)
		memmove(st->buf, source->pos, keep);
	if (keep > size / 2)
		size *= 2;
	if (size > st->size) {
		st->buf = xreallocarray(st->buf, size, 1);
		st->size = size;
	}
	source->pos = st->buf;
	source->end = st->buf + keep;
}

int json_source_fill(struct json_source *source)
{
	struct json_source_state *st = source->state;
	size_t keep = (size_t)(source->end - source->pos), have = keep;
	ssize_t n;

	buf_reserve(source, keep);
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
			out_of_memory();
		st->zlib_started = true;
		source->gzip = true;
	}
	err = json_source_fill(source);
	return err < 0 ? err : 0;
}

static struct json_source_state *source_alloc(struct json_source *source)
{
	memset(source, 0, sizeof(*source));
	source->state = xcalloc(1, sizeof(*source->state));
	source->state->fd = -1;
	return source->state;
}

int json_source_open_mem(struct json_source *source, const void *data, size_t len)
{
	struct json_source_state *st = source_alloc(source);

	st->mem = data;
	st->mem_left = len;
	return source_start(source);
}

int json_source_open_stream(struct json_source *source, struct json_stream *stream)
{
	source_alloc(source)->stream = stream;
	return source_start(source);
}

int json_source_open(struct json_source *source, const char *path)
{
	struct json_source_state *st = source_alloc(source);
	int fd = strcmp(path, "-") ? open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY) : fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0);
	struct stat sb;

	if (fd < 0)
		return fail(source, -errno, "cannot open: %s", strerror(errno));
	st->fd = fd;
	if (!fstat(fd, &sb) && S_ISDIR(sb.st_mode))
		return fail(source, -EISDIR, "is a directory, not a trace or profile");
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
