// SPDX-License-Identifier: BSD-2-Clause
#include "io/zip_writer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "util/list.h"

/* APPNOTE.TXT 6.3 of PKWARE, chapter 4; all numbers are little-endian. */
#define ZIP_LOCAL 0x04034b50u /* before each member */
#define ZIP_ENTRY 0x02014b50u /* for each member, in the directory */
#define ZIP_END 0x06054b50u   /* after the directory */
#define ZIP_LOCAL_BYTES 30    /* without the name and the extra field */
#define ZIP_ENTRY_BYTES 46
#define ZIP_END_BYTES 22
#define ZIP_STORED 0
#define ZIP_DEFLATED 8
#define ZIP_VERSION 20 /* to extract: deflate, directories */
#define ZIP_NAME_MAX 4096
/* Sizes and positions have 32 bits, where 0xffffffff has another meaning. */
#define ZIP_BYTES_MAX UINT64_C(0xfffffffe)

#define BUF_BYTES (64 * 1024)
#define LEVEL 3

struct zip_member {
	char *name;
	uint64_t at, packed, size;
	uint32_t crc, when; /* when: in MS-DOS format */
	uint16_t method;
};

struct zip_writer {
	int fd;
	uint64_t at;
	struct zip_member *members;
	size_t n, members_size;
	uint8_t in[BUF_BYTES], out[BUF_BYTES];
};

static uint8_t *zip_put(uint8_t *p, uint64_t v, unsigned int bytes)
{
	while (bytes--) {
		*p++ = (uint8_t)v;
		v >>= 8;
	}
	return p;
}

#define fail(why, err, ...) (snprintf((why), ZIP_WHY_MAX, __VA_ARGS__), (err))

struct zip_writer *zip_writer_new(int fd)
{
	struct zip_writer *zip = xcalloc(1, sizeof(*zip));

	zip->fd = fd;
	return zip;
}

void zip_writer_free(struct zip_writer *zip)
{
	if (!zip)
		return;
	for (size_t i = 0; i < zip->n; i++)
		free(zip->members[i].name);
	free(zip->members);
	free(zip);
}

static int zip_write_at(struct zip_writer *zip, uint64_t at, const void *bytes, size_t len, char why[ZIP_WHY_MAX])
{
	const char *p = bytes;
	ssize_t n;

	if (at + len > ZIP_BYTES_MAX)
		return fail(why, -EFBIG, "the archive would be larger than 4 GB: compress the files, or link fewer of them");
	while (len) {
		n = pwrite(zip->fd, p, len, (off_t)at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return fail(why, -errno, "%s", strerror(errno));
		p += n;
		at += (uint64_t)n;
		len -= (size_t)n;
	}
	return 0;
}

static int zip_append(struct zip_writer *zip, const void *bytes, size_t len, char why[ZIP_WHY_MAX])
{
	int err = zip_write_at(zip, zip->at, bytes, len, why);

	if (!err)
		zip->at += len;
	return err;
}

static uint32_t dos_time(time_t when)
{
	struct tm tm;

	if (!gmtime_r(&when, &tm) || tm.tm_year < 80 || tm.tm_year > 207)
		return 1 << 21 | 1 << 16; /* the earliest date: 1980-01-01 */
	return (uint32_t)(tm.tm_year - 80) << 25 | (uint32_t)(tm.tm_mon + 1) << 21 | (uint32_t)tm.tm_mday << 16 |
	       (uint32_t)tm.tm_hour << 11 | (uint32_t)tm.tm_min << 5 | (uint32_t)tm.tm_sec / 2;
}

/* Writes what a member's header and its entry in the directory have in common, up to the length of the name. */
static uint8_t *put_common(uint8_t *p, const struct zip_member *m)
{
	p = zip_put(p, ZIP_VERSION, 2);
	p = zip_put(p, 0, 2); /* flags */
	p = zip_put(p, m->method, 2);
	p = zip_put(p, m->when, 4);
	p = zip_put(p, m->crc, 4);
	p = zip_put(p, m->packed, 4);
	p = zip_put(p, m->size, 4);
	return zip_put(p, strlen(m->name), 2);
}

/* Leaves room for the header, which is written once the sizes are known. */
static int zip_begin_member(struct zip_writer *zip, const char *name, time_t when, struct zip_member **ret, char why[ZIP_WHY_MAX])
{
	if (zip->n == ZIP_MEMBERS_MAX)
		return fail(why, -E2BIG, "more than %d files", ZIP_MEMBERS_MAX);
	if (strlen(name) > ZIP_NAME_MAX)
		return fail(why, -ENAMETOOLONG, "a name is too long");
	*ret = list_push(zip->members, zip->n, zip->members_size);
	**ret = (struct zip_member){ .at = zip->at, .when = dos_time(when), .crc = (uint32_t)crc32(0, NULL, 0), .name = xstrdup(name) };
	zip->at += ZIP_LOCAL_BYTES + strlen(name);
	return 0;
}

static int zip_end_member(struct zip_writer *zip, struct zip_member *m, char why[ZIP_WHY_MAX])
{
	uint8_t head[ZIP_LOCAL_BYTES], *p;

	if (m->size > ZIP_BYTES_MAX)
		return fail(why, -EFBIG, "a file is larger than 4 GB: compress it with gzip");
	m->packed = zip->at - m->at - ZIP_LOCAL_BYTES - strlen(m->name);
	p = put_common(zip_put(head, ZIP_LOCAL, 4), m);
	zip_put(p, 0, 2); /* no extra field */
	return zip_write_at(zip, m->at, head, sizeof(head), why) ?: zip_write_at(zip, m->at + ZIP_LOCAL_BYTES, m->name, strlen(m->name), why);
}

int zip_writer_text(struct zip_writer *zip, const char *name, const char *text, size_t len, time_t when, char why[ZIP_WHY_MAX])
{
	struct zip_member *m;
	int err = zip_begin_member(zip, name, when, &m, why);

	if (err)
		return err;
	m->size = len;
	m->crc = (uint32_t)crc32_z(m->crc, (const uint8_t *)text, len);
	return zip_append(zip, text, len, why) ?: zip_end_member(zip, m, why);
}

static ssize_t zip_read_input(struct zip_writer *zip, struct zip_member *m, int from, char why[ZIP_WHY_MAX])
{
	ssize_t n;

	do {
		n = read(from, zip->in, sizeof(zip->in));
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return fail(why, -errno, "cannot read: %s", strerror(errno));
	m->size += (uint64_t)n;
	m->crc = (uint32_t)crc32_z(m->crc, zip->in, (size_t)n);
	return n;
}

/* n: bytes read into zip->in so far. */
static int zip_store_member(struct zip_writer *zip, struct zip_member *m, int from, ssize_t n, char why[ZIP_WHY_MAX])
{
	int err = 0;

	m->method = ZIP_STORED;
	while (!err && n > 0) {
		err = zip_append(zip, zip->in, (size_t)n, why);
		if (!err)
			n = zip_read_input(zip, m, from, why);
	}
	return err ? err : (int)n;
}

static int zip_deflate_input(struct zip_writer *zip, z_stream *z, int flush, char why[ZIP_WHY_MAX])
{
	int err = 0;

	do {
		z->next_out = zip->out;
		z->avail_out = sizeof(zip->out);
		deflate(z, flush);
		err = zip_append(zip, zip->out, sizeof(zip->out) - z->avail_out, why);
	} while (!err && !z->avail_out);
	return err;
}

static int zip_pack_member(struct zip_writer *zip, struct zip_member *m, int from, ssize_t n, char why[ZIP_WHY_MAX])
{
	z_stream z = { 0 };
	int err = 0;

	m->method = ZIP_DEFLATED;
	/* measured on a Kineto trace: level 1 leaves 1/9, 3 1/10 in the same time, 6 1/13 in twice and 9 1/14 in nine times that */
	if (deflateInit2(&z, LEVEL, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		out_of_memory();
	while (!err && n > 0) {
		z.next_in = zip->in;
		z.avail_in = (uInt)n;
		err = zip_deflate_input(zip, &z, Z_NO_FLUSH, why);
		if (!err)
			n = zip_read_input(zip, m, from, why);
	}
	if (!err && n < 0)
		err = (int)n;
	if (!err)
		err = zip_deflate_input(zip, &z, Z_FINISH, why);
	deflateEnd(&z);
	return err;
}

int zip_writer_file(struct zip_writer *zip, const char *name, int from, time_t when, char why[ZIP_WHY_MAX])
{
	struct zip_member *m;
	ssize_t n;
	int err = zip_begin_member(zip, name, when, &m, why);

	if (err)
		return err;
	n = zip_read_input(zip, m, from, why);
	if (n < 0)
		return (int)n;
	err = (n >= 2 && zip->in[0] == 0x1f && zip->in[1] == 0x8b ? zip_store_member : zip_pack_member)(zip, m, from, n, why);
	return err ?: zip_end_member(zip, m, why);
}

static int put_entry(struct zip_writer *zip, const struct zip_member *m, char why[ZIP_WHY_MAX])
{
	uint8_t entry[ZIP_ENTRY_BYTES], *p = zip_put(entry, ZIP_ENTRY, 4);
	int err;

	p = zip_put(p, 3 << 8 | ZIP_VERSION, 2); /* made by: attributes as UNIX has them */
	p = put_common(p, m);
	p = zip_put(p, 0, 2 + 2 + 2 + 2);           /* extra, comment, disk, internal attributes */
	p = zip_put(p, UINT64_C(0100600) << 16, 4); /* a file of its owner */
	zip_put(p, m->at, 4);
	err = zip_append(zip, entry, sizeof(entry), why);
	return err ? err : zip_append(zip, m->name, strlen(m->name), why);
}

int zip_writer_finish(struct zip_writer *zip, char why[ZIP_WHY_MAX])
{
	uint8_t last[ZIP_END_BYTES], *p = zip_put(last, ZIP_END, 4);
	uint64_t at = zip->at;
	int err = 0;

	for (size_t i = 0; !err && i < zip->n; i++)
		err = put_entry(zip, &zip->members[i], why);
	if (err)
		return err;
	p = zip_put(p, 0, 2 + 2); /* disks */
	p = zip_put(zip_put(p, zip->n, 2), zip->n, 2);
	p = zip_put(p, zip->at - at, 4);
	p = zip_put(p, at, 4);
	zip_put(p, 0, 2); /* no comment */
	return zip_append(zip, last, sizeof(last), why);
}
