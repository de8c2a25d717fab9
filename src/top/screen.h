/* SPDX-License-Identifier: BSD-2-Clause */
/* A frame of inftrace top as text, for a terminal or for a file. */
#ifndef INFTRACE_TOP_SCREEN_H
#define INFTRACE_TOP_SCREEN_H

#include "top/live.h"

/* What comes first below the states. */
enum screen_part {
	PART_SLOW,
	PART_SYSCALLS,
	PART_OPS,
	PART_MAX,
};

struct screen {
	unsigned int width, height; /* height 0: as many lines as there are */
	bool utf8;                  /* of the terminal; the process' LC_CTYPE knows widths */
	bool ansi;                  /* from the upper left corner, over what stands there */
	bool run_only;              /* the last word: nothing of an interval */
	enum screen_part first;
	bool ops; /* operators are recorded */
	/* fit to print or not; NULL: none */
	const char *target, *engines, *message, *keys;
};

/* Lines that are no wider than the screen, in which nothing drives the terminal that is not meant
 * to. NULL without memory; the caller's to free. */
char *screen_render(const struct screen *s, const struct live_frame *f, size_t *ret_len);

#endif
