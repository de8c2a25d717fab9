// SPDX-License-Identifier: BSD-2-Clause
#include "io/framing.h"

#include <stdint.h>
#include <string.h>

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
