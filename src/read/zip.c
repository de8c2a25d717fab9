// SPDX-License-Identifier: BSD-2-Clause
#include "read/zip.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "util/zip_format.h"

#define COMMENT_MAX 0xffff
#define DIRECTORY_MAX (16u << 20)
#define RAW_BYTES (64 * 1024)
#define FLAG_ENCRYPTED 1u

static int __attribute__((format(printf, 3, 4))) fail(struct zip *zip, int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(zip->error, sizeof(zip->error), fmt, ap);
	va_end(ap);
	return err;
}

/* Reads up to len bytes at this place of the file. */
static ssize_t read_at(int fd, uint64_t at, void *buf, size_t len)
{
	size_t have = 0;
	ssize_t n;

	while (have < len) {
		n = pread(fd, (char *)buf + have, len - have, (off_t)(at + have));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			break;
		have += (size_t)n;
	}
	return (ssize_t)have;
}

bool zip_is(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	uint8_t magic[4] = { 0 };
	struct stat sb;
	bool is;

	if (fd < 0)
		return false;
	is = !fstat(fd, &sb) && S_ISREG(sb.st_mode) && read_at(fd, 0, magic, 4) == 4 &&
	     (zip_get(magic, 4) == ZIP_LOCAL || zip_get(magic, 4) == ZIP_END);
	close(fd);
	return is;
}

/* Returns where the end of the directory is described. */
static int find_end(struct zip *zip, uint64_t size, uint8_t ret_end[ZIP_END_BYTES])
{
	size_t len = size < ZIP_END_BYTES + COMMENT_MAX ? (size_t)size : ZIP_END_BYTES + COMMENT_MAX;
	uint8_t *tail = malloc(len ? len : 1);
	ssize_t n;
	int err = -EBADMSG;

	if (!tail)
		return fail(zip, -ENOMEM, "out of memory");
	n = read_at(zip->fd, size - len, tail, len);
	if (n < 0) {
		free(tail);
		return fail(zip, (int)n, "cannot read: %s", strerror((int)-n));
	}
	for (ssize_t i = n - ZIP_END_BYTES; i >= 0; i--) {
		if (zip_get(tail + i, 4) != ZIP_END)
			continue;
		memcpy(ret_end, tail + i, ZIP_END_BYTES);
		err = 0;
		break;
	}
	free(tail);
	return err ? fail(zip, err, "the archive is cut off: the directory at its end is missing") : 0;
}

static int add_member(struct zip *zip, const uint8_t *p, size_t name_len, uint64_t file_size)
{
	struct zip_member *m = &zip->members[zip->n];

	m->flags = (uint16_t)zip_get(p + 8, 2);
	m->method = (uint16_t)zip_get(p + 10, 2);
	m->crc = zip_get(p + 16, 4);
	m->packed = zip_get(p + 20, 4);
	m->size = zip_get(p + 24, 4);
	m->at = zip_get(p + 42, 4);
	if (m->at > file_size || m->packed > file_size - m->at)
		return fail(zip, -EBADMSG, "the archive is damaged, or one with ZIP64: a member lies beyond its end");
	m->name = strndup((const char *)p + ZIP_ENTRY_BYTES, name_len);
	if (!m->name)
		return fail(zip, -ENOMEM, "out of memory");
	zip->n++;
	return 0;
}

static int read_directory(struct zip *zip, const uint8_t *p, size_t len, size_t n, uint64_t file_size)
{
	size_t name_len, entry;
	int err = 0;

	zip->members = calloc(n ? n : 1, sizeof(*zip->members));
	if (!zip->members)
		return fail(zip, -ENOMEM, "out of memory");
	while (!err && zip->n < n) {
		if (len < ZIP_ENTRY_BYTES || zip_get(p, 4) != ZIP_ENTRY)
			return fail(zip, -EBADMSG, "the directory of the archive is damaged");
		name_len = zip_get(p + 28, 2);
		entry = ZIP_ENTRY_BYTES + name_len + zip_get(p + 30, 2) + zip_get(p + 32, 2);
		if (entry > len || name_len > ZIP_NAME_MAX)
			return fail(zip, -EBADMSG, "the directory of the archive is damaged");
		err = add_member(zip, p, name_len, file_size);
		p += entry;
		len -= entry;
	}
	return err;
}

static int load_directory(struct zip *zip)
{
	uint8_t end[ZIP_END_BYTES], *text;
	struct stat sb;
	uint64_t at;
	size_t len, n;
	int err;

	if (fstat(zip->fd, &sb))
		return fail(zip, -errno, "cannot read: %s", strerror(errno));
	err = find_end(zip, (uint64_t)sb.st_size, end);
	if (err)
		return err;
	n = zip_get(end + 10, 2);
	len = zip_get(end + 12, 4);
	at = zip_get(end + 16, 4);
	if (n > ZIP_MEMBERS_MAX || len > DIRECTORY_MAX || at == UINT32_MAX)
		return fail(zip, -E2BIG, "the archive has ZIP64, or more than %d files", ZIP_MEMBERS_MAX);
	if (at + len > (uint64_t)sb.st_size)
		return fail(zip, -EBADMSG, "the archive is damaged: its directory lies beyond its end");
	text = malloc(len ? len : 1);
	if (!text)
		return fail(zip, -ENOMEM, "out of memory");
	if (read_at(zip->fd, at, text, len) != (ssize_t)len)
		err = fail(zip, -EIO, "cannot read its directory");
	else
		err = read_directory(zip, text, len, n, (uint64_t)sb.st_size);
	free(text);
	return err;
}

int zip_open(struct zip *zip, const char *path)
{
	memset(zip, 0, sizeof(*zip));
	zip->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (zip->fd < 0)
		return fail(zip, -errno, "cannot open: %s", strerror(errno));
	return load_directory(zip);
}

void zip_close(struct zip *zip)
{
	for (size_t i = 0; i < zip->n; i++)
		free(zip->members[i].name);
	free(zip->members);
	if (zip->fd >= 0)
		close(zip->fd);
	memset(zip, 0, sizeof(*zip));
	zip->fd = -1;
}

/* ---- members ---- */

struct member_stream {
	struct json_stream stream;
	const struct zip_member *m;
	int fd;
	uint64_t at, left; /* in the file, of the packed bytes */
	uint64_t size;     /* so far */
	uint32_t crc;
	bool inflating, ended;
	z_stream z;
	uint8_t raw[RAW_BYTES];
};

static ssize_t raw_read(struct member_stream *s, void *buf, size_t len, const char **ret_why)
{
	ssize_t n = read_at(s->fd, s->at, buf, len < s->left ? len : (size_t)s->left);

	if (n < 0) {
		*ret_why = "cannot read the archive";
		return n;
	}
	if (!n && s->left) {
		*ret_why = "the archive is cut off within this file";
		return -EBADMSG;
	}
	s->at += (uint64_t)n;
	s->left -= (uint64_t)n;
	return n;
}

static ssize_t inflate_read(struct member_stream *s, void *buf, size_t len, const char **ret_why)
{
	ssize_t n;
	int ret;

	s->z.next_out = buf;
	s->z.avail_out = (uInt)len;
	while (!s->ended && s->z.avail_out == len) {
		if (!s->z.avail_in) {
			n = raw_read(s, s->raw, sizeof(s->raw), ret_why);
			if (n < 0)
				return n;
			s->z.next_in = s->raw;
			s->z.avail_in = (uInt)n;
		}
		ret = inflate(&s->z, Z_NO_FLUSH);
		s->ended = ret == Z_STREAM_END;
		if (ret == Z_STREAM_END || ret == Z_OK)
			continue;
		*ret_why = "damaged within the archive";
		return -EBADMSG;
	}
	return (ssize_t)(len - s->z.avail_out);
}

static ssize_t member_read(struct json_stream *stream, void *buf, size_t len, const char **ret_why)
{
	struct member_stream *s = (struct member_stream *)stream;
	ssize_t n;

	len = len < UINT32_MAX ? len : UINT32_MAX;
	n = s->inflating ? inflate_read(s, buf, len, ret_why) : raw_read(s, buf, len, ret_why);
	if (n < 0)
		return n;
	s->size += (uint64_t)n;
	s->crc = (uint32_t)crc32_z(s->crc, buf, (size_t)n);
	if (s->size <= s->m->size && (n || (s->size == s->m->size && s->crc == s->m->crc)))
		return n;
	*ret_why = "damaged within the archive: its size or checksum is not that of the directory";
	return -EBADMSG;
}

static void member_close(struct json_stream *stream)
{
	struct member_stream *s = (struct member_stream *)stream;

	if (s->inflating)
		inflateEnd(&s->z);
	free(s);
}

/* A member that cannot be read from its beginning. */
static ssize_t member_refuse(struct json_stream *stream, void *buf, size_t len, const char **ret_why)
{
	(void)stream, (void)buf, (void)len;
	*ret_why = "cannot be read from the archive: encrypted, compressed by another method than deflate, or damaged";
	return -EBADMSG;
}

int zip_source(const struct zip *zip, const struct zip_member *m, struct json_source *source)
{
	struct member_stream *s = calloc(1, sizeof(*s));
	uint8_t head[ZIP_LOCAL_BYTES] = { 0 };

	if (!s) {
		memset(source, 0, sizeof(*source));
		snprintf(source->error, sizeof(source->error), "out of memory");
		return -ENOMEM;
	}
	s->stream = (struct json_stream){ member_read, member_close };
	s->m = m;
	s->fd = zip->fd;
	s->left = m->packed;
	s->crc = (uint32_t)crc32(0, NULL, 0);
	/* the name has its own length there, and something may follow it */
	if (read_at(zip->fd, m->at, head, sizeof(head)) != sizeof(head) || zip_get(head, 4) != ZIP_LOCAL ||
		m->flags & FLAG_ENCRYPTED || (m->method != ZIP_STORED && m->method != ZIP_DEFLATED))
		s->stream.read = member_refuse;
	s->at = m->at + ZIP_LOCAL_BYTES + zip_get(head + 26, 2) + zip_get(head + 28, 2);
	if (m->method == ZIP_DEFLATED && s->stream.read == member_read) {
		if (inflateInit2(&s->z, -MAX_WBITS) == Z_OK)
			s->inflating = true;
		else
			s->stream.read = member_refuse;
	}
	return json_source_open_stream(source, &s->stream);
}
