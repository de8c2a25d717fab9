/* SPDX-License-Identifier: BSD-2-Clause */
/* Lines of a fixed width, as text for a terminal or a file. */
#ifndef INFTRACE_REPORT_CANVAS_H
#define INFTRACE_REPORT_CANVAS_H

#include <stdbool.h>
#include <stddef.h>

struct canvas {
	char *text;
	size_t len, size;
	unsigned int width, height; /* height 0: no limit */
	unsigned int reserved;      /* lines at the end that are not written for now */
	unsigned int column, row;
	bool utf8, ansi;
	bool styled; /* the line has a style that its end resets */
	bool failed; /* no memory */
};

enum canvas_style {
	STYLE_BOLD,
	STYLE_REVERSE,
	STYLE_DIM,
};

/* What follows in this line, on a terminal. */
void canvas_style(struct canvas *c, enum canvas_style style);

/* Text of anybody: what is no printable character becomes '?'. What goes beyond the line is cut. */
void canvas_text(struct canvas *c, const char *text);
void canvas_put(struct canvas *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The columns that the text takes. */
unsigned int canvas_width(const struct canvas *c, const char *text);

/* Blanks up to that column. */
void canvas_goto(struct canvas *c, unsigned int column);

/* A bar of width columns for a share of 1, in eighths of a column where the terminal has them. */
void canvas_bar(struct canvas *c, double share, unsigned int width);

/* Text over as many lines as it needs, broken at blanks; the first begins where the line is, those
 * behind it at the column indent. The last one is not ended. */
void canvas_wrap(struct canvas *c, const char *text, unsigned int indent);

/* Ends the line. What comes behind the last one is dropped. */
void canvas_line(struct canvas *c);

/* Lines that are left, without those that are reserved. */
unsigned int canvas_left(const struct canvas *c);

#endif
