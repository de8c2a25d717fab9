/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The terminal as a screen: alternate buffer, no cursor, keys one by one. Plain ECMA-48 and xterm
 * sequences. Neither reading nor drawing ever waits.
 */
#ifndef INFTRACE_TOP_TERM_H
#define INFTRACE_TOP_TERM_H

#include <stdbool.h>
#include <stddef.h>

struct term;

/* The terminal behind a descriptor, opened anew: what is set on it is not set for others. -ENOTTY,
 * -ENXIO for one that cannot show a screen (TERM=dumb), -ENOMEM and what else open(2) says. */
int term_open(int fd, struct term **ret_term);
/* Leaves the screen, too. */
void term_free(struct term *t);

/* The screen (again, after the process was stopped), and back to how the terminal was. A signal
 * that kills the process (SIGSEGV, SIGABRT, SIGQUIT, ...) leaves it, too. term_leave waits for what
 * was drawn, but not for ever. */
void term_enter(struct term *t);
void term_leave(struct term *t);

/* To be polled for keys. */
int term_fd(const struct term *t);

/* The next key that was pressed; 0: none; -1: the terminal is gone. Keys that send several bytes
 * (arrows) are none. */
int term_key(struct term *t);

void term_size(const struct term *t, unsigned int *ret_width, unsigned int *ret_height);

/* Draws from the upper left corner. Copied; while a slow terminal still takes the frame before,
 * dropped. */
void term_draw(struct term *t, const char *text, size_t len);

/* Goes on with what the terminal did not take at once; true when all is out. */
bool term_flush(struct term *t);

#endif
