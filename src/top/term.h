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

/* Opens the terminal behind a descriptor again, so that its flags are not shared with others.
 * -ENOTTY, -ENXIO if it cannot show a screen (TERM=dumb), or another error of open(2). */
int term_open(int fd, struct term **ret_term);
/* Also leaves the screen. */
void term_free(struct term *t);

/* Shows the screen (also again, after the process was stopped), and restores the terminal. A signal
 * that kills the process (SIGSEGV, SIGABRT, SIGQUIT, ...) restores it, too. term_leave waits for
 * the output, but not for ever. */
void term_enter(struct term *t);
void term_leave(struct term *t);

/* The descriptor to poll for keys. */
int term_fd(const struct term *t);

/* The next key that was pressed; 0: none; -1: the terminal is gone. Ignores keys that send several
 * bytes (arrows). */
int term_key(struct term *t);

void term_size(const struct term *t, unsigned int *ret_width, unsigned int *ret_height);

/* Draws from the upper left corner. The text is copied; it is dropped if a slow terminal is still
 * taking the previous frame. */
void term_draw(struct term *t, const char *text, size_t len);

/* Writes more of what the terminal did not take at once; true when all is written. */
bool term_flush(struct term *t);

#endif
