/* SPDX-License-Identifier: BSD-2-Clause */
/* A frame of inftrace top as text, for a terminal or for a file. */
#ifndef INFTRACE_TOP_SCREEN_H
#define INFTRACE_TOP_SCREEN_H

#include "top/live.h"

/* The first table below the states. */
enum screen_part {
	PART_SLOW,
	PART_GAPS,
	PART_SYSCALLS,
	PART_OPS,
	PART_MAX,
};

struct screen {
	unsigned int width, height; /* height 0: unlimited */
	bool utf8;                  /* the terminal is UTF-8; widths come from the process' LC_CTYPE */
	bool ansi;                  /* draws from the upper left corner, over the previous screen */
	bool run_only;              /* the final summary: nothing about an interval */
	enum screen_part first;
	bool ops; /* operators are recorded */
	/* may be unprintable; NULL: none */
	const char *target, *engines, *message, *keys;
};

/* Returns lines that fit the width of the screen, without unintended control sequences; to be freed by the caller. */
char *screen_render(const struct screen *s, const struct live_frame *f, size_t *ret_len);

/* ---- Lines of a fixed width, as text for a terminal or a file. ---- */

struct canvas {
	char *text;
	size_t len, size;
	unsigned int width, height; /* height 0: no limit */
	unsigned int reserved;      /* lines kept free at the end */
	unsigned int column, row;
	bool utf8, ansi;
	bool styled; /* the line has a style, which is reset at its end */
};

enum canvas_style {
	STYLE_BOLD,
	STYLE_REVERSE,
	STYLE_DIM,
};

/* The style of the following text in this line, on a terminal. */
void canvas_style(struct canvas *c, enum canvas_style style);

/* Untrusted text: unprintable characters become '?'. What does not fit the line is cut. */
void canvas_text(struct canvas *c, const char *text);
void canvas_put(struct canvas *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* How many columns the text takes. */
unsigned int canvas_width(const struct canvas *c, const char *text);

/* Fills up with blanks to that column. */
void canvas_goto(struct canvas *c, unsigned int column);

/* A bar that is `width` columns wide for a share of 1, in eighths of a column if the terminal has them. */
void canvas_bar(struct canvas *c, double share, unsigned int width);

/* Writes text over as many lines as it needs, broken at blanks; the first begins at the current
 * column, the following ones at column indent. The last line is not ended. */
void canvas_wrap(struct canvas *c, const char *text, unsigned int indent);

/* Ends the line. Lines beyond the last one are dropped. */
void canvas_line(struct canvas *c);

/* The number of remaining lines, without reserved ones. */
unsigned int canvas_left(const struct canvas *c);

#endif
