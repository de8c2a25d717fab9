/* SPDX-License-Identifier: BSD-2-Clause */
/* A frame of inftrace top as text, for a terminal or for a file. */
#ifndef INFTRACE_TOP_SCREEN_H
#define INFTRACE_TOP_SCREEN_H

#include "top/live.h"

/* The first table below the states. */
enum screen_part {
	PART_SLOW,
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

/* Returns lines that fit the width of the screen, without any control sequence that is not
 * intended; to be freed by the caller. */
char *screen_render(const struct screen *s, const struct live_frame *f, size_t *ret_len);

#endif
