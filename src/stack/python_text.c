// SPDX-License-Identifier: BSD-2-Clause
#include "stack/python_text.h"

#include <errno.h>
#include <string.h>

#define LENGTH_MAX (1u << 20)

int python_text_kind(uint32_t state, uint64_t length, struct python_text *ret_text)
{
	struct python_text t = { .length = length, .width = state & 7, .ascii = state & 16 };
	bool compact = state & 8;

	if (!compact || (t.width != 1 && t.width != 2 && t.width != 4) || (t.ascii && t.width != 1) || length > LENGTH_MAX)
		return -EBADMSG;
	*ret_text = t;
	return 0;
}

/* Up to four bytes; returns how many. */
static size_t put_utf8(uint32_t c, char *out)
{
	if (!c || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		c = '?';
	if (c < 0x80) {
		out[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		out[0] = (char)(0xc0 | c >> 6);
		out[1] = (char)(0x80 | (c & 63));
		return 2;
	}
	if (c < 0x10000) {
		out[0] = (char)(0xe0 | c >> 12);
		out[1] = (char)(0x80 | (c >> 6 & 63));
		out[2] = (char)(0x80 | (c & 63));
		return 3;
	}
	out[0] = (char)(0xf0 | c >> 18);
	out[1] = (char)(0x80 | (c >> 12 & 63));
	out[2] = (char)(0x80 | (c >> 6 & 63));
	out[3] = (char)(0x80 | (c & 63));
	return 4;
}

void python_text_write(const struct python_text *t, const uint8_t *data, char *buf, size_t size)
{
	size_t at = 0;

	for (uint64_t i = 0; i < t->length; i++) {
		uint32_t c = 0;
		char utf8[4];
		size_t n;

		memcpy(&c, data + i * t->width, t->width); /* both are little-endian */
		n = put_utf8(t->ascii && c >= 0x80 ? '?' : c, utf8);
		if (at + n >= size)
			break;
		memcpy(buf + at, utf8, n);
		at += n;
	}
	buf[at] = 0;
}
