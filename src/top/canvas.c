// SPDX-License-Identifier: BSD-2-Clause
#include "top/canvas.h"

#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>

#include "util/alloc.h"
#include "util/fmt.h"
#include "util/text.h"

#define PUT_MAX 1024

static void append(struct canvas *c, const char *bytes, size_t len)
{
	if (c->len + len >= c->size) {
		c->size = 2 * (c->len + len + 1);
		c->text = xreallocarray(c->text, c->size, 1);
	}
	memcpy(c->text + c->len, bytes, len);
	c->len += len;
	c->text[c->len] = '\0';
}

static bool full(const struct canvas *c)
{
	return c->height && c->row + c->reserved >= c->height;
}

unsigned int canvas_left(const struct canvas *c)
{
	if (!c->height)
		return UINT_MAX;
	return full(c) ? 0 : c->height - c->reserved - c->row;
}

/* ECMA-48, 8.3.117 (SGR) */
void canvas_style(struct canvas *c, enum canvas_style style)
{
	static const char *const codes[] = {
		[STYLE_BOLD] = "\x1b[1m",
		[STYLE_REVERSE] = "\x1b[7m",
		[STYLE_DIM] = "\x1b[2m",
	};

	if (!c->ansi || full(c))
		return;
	append(c, codes[style], strlen(codes[style]));
	c->styled = true;
}

/* Writes a character that takes `columns` columns and does not control the terminal, or else "?". */
static void put_char(struct canvas *c, const char *bytes, size_t len, unsigned int columns)
{
	if (full(c) || c->column + columns > c->width)
		return;
	append(c, bytes, len);
	c->column += columns;
}

struct glyph {
	int bytes;
	unsigned int columns; /* 0: unprintable, shown as "?" in one column */
};

static struct glyph next_glyph(const struct canvas *c, const char *text)
{
	int n = fmt_utf8_scan((const unsigned char *)text, strlen(text)), columns;
	uint32_t character;

	if (n <= 0)
		return (struct glyph){ .bytes = n ? -n : 1 };
	if (n == 1)
		return (struct glyph){ .bytes = 1, .columns = *text >= ' ' && *text < 0x7f };
	character = text_decode((const unsigned char *)text, n);
	/* stacks up characters that take no column of their own */
	columns = c->utf8 && text_is_shown(character) ? wcwidth((wchar_t)character) : 0;
	return (struct glyph){ .bytes = n, .columns = columns > 0 ? (unsigned int)columns : 0 };
}

static void put_bytes(struct canvas *c, const char *text, size_t len)
{
	for (const char *end = text + len; text < end;) {
		struct glyph g = next_glyph(c, text);

		if (g.columns)
			put_char(c, text, (size_t)g.bytes, g.columns);
		else
			put_char(c, "?", 1, 1);
		text += g.bytes;
	}
}

void canvas_text(struct canvas *c, const char *text)
{
	put_bytes(c, text, strlen(text));
}

unsigned int canvas_width(const struct canvas *c, const char *text)
{
	unsigned int columns = 0;

	while (*text) {
		struct glyph g = next_glyph(c, text);

		columns += g.columns ? g.columns : 1;
		text += g.bytes;
	}
	return columns;
}

void canvas_put(struct canvas *c, const char *fmt, ...)
{
	char text[PUT_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	canvas_text(c, text);
}

void canvas_goto(struct canvas *c, unsigned int column)
{
	while (c->column < column && c->column < c->width && !full(c))
		put_char(c, " ", 1, 1);
}

void canvas_bar(struct canvas *c, double share, unsigned int width)
{
	static const char *const eighths[] = { "", "▏", "▎", "▍", "▌", "▋", "▊", "▉" };
	unsigned int end = c->column + width, n;

	share = share > 0 ? share : 0;
	n = (unsigned int)((share < 1 ? share : 1) * width * 8 + 0.5);
	if (!c->utf8)
		n = (n + 4) / 8 * 8;
	for (; n >= 8; n -= 8)
		put_char(c, c->utf8 ? "█" : "#", c->utf8 ? strlen("█") : 1, 1);
	if (n)
		put_char(c, eighths[n], strlen(eighths[n]), 1);
	canvas_goto(c, end);
}

/* How many bytes fit into this many columns: up to a blank, if there is one. */
static size_t wrap_at(const struct canvas *c, const char *text, unsigned int columns)
{
	unsigned int used = 0;
	size_t blank = 0, at = 0;

	while (text[at]) {
		struct glyph g = next_glyph(c, text + at);

		used += g.columns ? g.columns : 1;
		if (text[at] == ' ')
			blank = at;
		if (used > columns)
			return blank ? blank : at;
		at += (size_t)g.bytes;
	}
	return at;
}

void canvas_wrap(struct canvas *c, const char *text, unsigned int indent)
{
	while (*text && !full(c)) {
		size_t n = wrap_at(c, text, c->width > c->column ? c->width - c->column : 0);

		if (!n) /* not even one character fits: it is cut */
			n = strlen(text);
		put_bytes(c, text, n);
		text += n;
		text += strspn(text, " ");
		if (!*text)
			return;
		canvas_line(c);
		canvas_goto(c, indent);
	}
}

void canvas_line(struct canvas *c)
{
	if (full(c))
		return;
	if (!c->ansi) {
		while (c->len && c->text[c->len - 1] == ' ')
			c->len--;
		append(c, "\n", 1);
	} else {
		if (c->styled)
			append(c, "\x1b[0m", 4);
		/* wipes the rest of the line, unless the cursor is on its last column */
		if (c->column < c->width)
			append(c, "\x1b[K", 3);
		/* a newline after the last line would scroll */
		if (!c->height || c->row + 1 < c->height)
			append(c, "\r\n", 2);
	}
	c->styled = false;
	c->column = 0;
	c->row++;
}
