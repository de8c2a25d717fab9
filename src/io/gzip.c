// SPDX-License-Identifier: BSD-2-Clause
#include "io/gzip.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* RFC 1952, section 2.3 */
#define MEMBER_HEADER 10
#define MEMBER_TRAILER 8
#define MEMBER_F_EXTRA 0x04
#define MEMBER_F_COMMENT 0x10
#define MEMBER_GAP_MIN 512           /* smaller gaps in a page do not get a member */
#define LARGE_BYTES (3 * PAGE_BYTES) /* holds any event, even one that does not compress */
#define RATIO_ONE 32

/* ---- where events end ---- */

/* Events are separated by ",\n" and contain no newline; each begins with the separator or with
 * "[\n", preceded by newlines for padding. */
static size_t json_within(const char *text, size_t len, size_t limit)
{
	/* includes the separator after an event that ends at the limit */
	const char *end = len - limit > 2 ? text + limit + 2 : text + len, *p;

	while (end > text + 2 && (p = memrchr(text + 2, '\n', (size_t)(end - text) - 2))) {
		if (p[-1] == ',' && p > text + 2)
			return (size_t)(p - text) - 1;
		end = p;
	}
	for (p = text + limit; p < text + len && (p = memchr(p, '\n', (size_t)(text + len - p)));
		p++) {
		if (p > text + 2 && p[-1] == ',')
			return (size_t)(p - text) - 1;
	}
	return len;
}

static size_t lines_within(const char *text, size_t len, size_t limit)
{
	const char *p = memrchr(text, '\n', limit);

	if (!p)
		p = memchr(text + limit, '\n', len - limit);
	return p ? (size_t)(p - text) + 1 : len;
}

/* The length of the first packet: a key of one byte, the length, and as many bytes as it says. */
static size_t packet_length(const char *text, size_t len)
{
	size_t i = 1, n = 0;
	int shift = 0;

	while (i < len && text[i] & 0x80 && shift < 28) {
		n |= (size_t)(text[i++] & 0x7f) << shift;
		shift += 7;
	}
	if (i < len)
		n |= (size_t)(uint8_t)text[i++] << shift;
	return n < len - i ? i + n : len;
}

static size_t packets_within(const char *text, size_t len, size_t limit)
{
	size_t end = packet_length(text, len), next;

	while (end < limit) {
		next = end + packet_length(text + end, len - end);
		if (next > limit)
			break;
		end = next;
	}
	return end;
}

size_t framing_within(enum writer_mode mode, const char *text, size_t len, size_t limit)
{
	if (len <= limit)
		return len;
	switch (mode) {
	case WRITER_PLAIN:
	case WRITER_GZIP:
		return json_within(text, len, limit);
	case WRITER_LINES:
		return lines_within(text, len, limit);
	default:
		return packets_within(text, len, limit);
	}
}

/* ---- members ---- */

struct gzip {
	enum writer_mode mode;
	z_stream z;
	uint64_t offset; /* in the file, of the first member */
	size_t used;
	size_t ratio; /* how far a page's text was compressed, in RATIO_ONE: a guess for the next */
	unsigned char members[64 * PAGE_BYTES];
};

int gzip_new(enum writer_mode mode, struct gzip **ret_gzip)
{
	struct gzip *g = malloc(sizeof(*g));

	if (!g)
		return -ENOMEM;
	g->mode = mode;
	g->z = (z_stream){ .zalloc = Z_NULL };
	g->ratio = 6 * RATIO_ONE; /* for a short text; long ones reach 10 and more */
	/* level 1 makes it several times smaller and is fast enough to keep up; raw, since the
	 * members get our own headers */
	if (deflateInit2(&g->z, 1, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
		free(g);
		return -ENOMEM;
	}
	*ret_gzip = g;
	return 0;
}

void gzip_free(struct gzip *g)
{
	if (!g)
		return;
	deflateEnd(&g->z);
	free(g);
}

static unsigned char *put_le32(unsigned char *p, uint32_t v)
{
	for (int i = 0; i < 4; i++, v >>= 8)
		*p++ = (unsigned char)v;
	return p;
}

/* Writes a header of MEMBER_HEADER + pad bytes. */
static unsigned char *put_header(unsigned char *p, size_t pad)
{
	static const unsigned char head[MEMBER_HEADER] = { 0x1f, 0x8b, Z_DEFLATED };

	memcpy(p, head, sizeof(head));
	if (pad)
		p[3] = pad < 6 ? MEMBER_F_COMMENT : MEMBER_F_EXTRA;
	p += sizeof(head);
	if (pad >= 6) { /* one subfield, with a name of our own */
		p[0] = (unsigned char)(pad - 2);
		p[1] = (unsigned char)((pad - 2) >> 8);
		p[2] = 'I';
		p[3] = 'T';
		p[4] = (unsigned char)(pad - 6);
		p[5] = (unsigned char)((pad - 6) >> 8);
		memset(p + 6, 0, pad - 6);
	} else if (pad) {
		memset(p, ' ', pad - 1);
		p[pad - 1] = 0;
	}
	return p + pad;
}

/*
 * Appends the events as one member of at most `room` bytes. If it leaves too little of the page for
 * another one, or if there are no events, it is padded to the end of the page. Returns false and
 * appends nothing when the events need more room.
 */
static bool add_member(struct gzip *g, const char *text, size_t len, size_t room)
{
	unsigned char *start = g->members + g->used, *p;
	size_t n, rest;

	deflateReset(&g->z);
	g->z.next_in = (unsigned char *)text;
	g->z.avail_in = (unsigned int)len;
	g->z.next_out = start + MEMBER_HEADER;
	g->z.avail_out = (unsigned int)(room - MEMBER_HEADER - MEMBER_TRAILER);
	if (deflate(&g->z, Z_FINISH) != Z_STREAM_END)
		return false;
	n = g->z.total_out;
	rest = PAGE_BYTES - (g->offset + g->used + MEMBER_HEADER + n + MEMBER_TRAILER) % PAGE_BYTES;
	if (rest == PAGE_BYTES || (len && rest >= MEMBER_GAP_MIN))
		rest = 0;
	memmove(start + MEMBER_HEADER + rest, start + MEMBER_HEADER, n);
	p = put_header(start, rest) + n;
	p = put_le32(p, (uint32_t)crc32(0, (const unsigned char *)text, (unsigned int)len));
	p = put_le32(p, (uint32_t)len);
	g->used = (size_t)(p - g->members);
	return true;
}

/* Appends as many events as fit into the page, or if none fits fills it up. Returns their length. */
static size_t fill_page(struct gzip *g, const char *text, size_t left)
{
	size_t gap = PAGE_BYTES - (g->offset + g->used) % PAGE_BYTES;
	size_t len = framing_within(g->mode, text, left, gap * g->ratio / RATIO_ONE), shorter;

	while (!add_member(g, text, len, gap)) {
		shorter = framing_within(g->mode, text, len, len - len / 4);
		if (shorter < len) {
			len = shorter;
		} else if (gap < PAGE_BYTES) {
			add_member(g, text, 0, gap);
			return 0;
		} else {
			gap = LARGE_BYTES; /* one event that is larger than a page and does not compress */
		}
	}
	/* slightly less, so that the next guess is rarely too long */
	if (gap == PAGE_BYTES)
		g->ratio = len * (RATIO_ONE - 2) / (g->z.total_out + MEMBER_HEADER) + 1;
	return len;
}

size_t gzip_pack(struct gzip *g, uint64_t offset, const char *text, size_t len,
	const char **ret_bytes, size_t *ret_len)
{
	size_t done = 0;

	g->offset = offset;
	g->used = 0;
	while (done < len && g->used + LARGE_BYTES <= sizeof(g->members))
		done += fill_page(g, text + done, len - done);
	*ret_bytes = (const char *)g->members;
	*ret_len = g->used;
	return done;
}
