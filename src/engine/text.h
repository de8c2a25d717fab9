/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Positions in the text of a preset: json-c keeps none, and silently takes the last of several
 * equal keys. All texts are valid JSON, terminated by a NUL.
 */
#ifndef INFTRACE_ENGINE_TEXT_H
#define INFTRACE_ENGINE_TEXT_H

#include <stddef.h>

/* The opening quote of the first occurrence of the key between `text` and `end`, at most `depth`
 * brackets deeper than `text`. NULL if there is none. */
const char *text_find_key(const char *text, const char *end, const char *key, unsigned int depth);

/* The text after a key's colon. */
const char *text_value(const char *key);

/* The end of the value that begins at `p`, or after white space there. */
const char *text_value_end(const char *p);

/* The line of a place in the text, from 1. */
unsigned int text_line(const char *text, const char *p);

/*
 * Looks for a key that an object has twice, comparing keys as written; a key with an escape counts
 * too, since the escape may hide that. Returns 0 with *ret_key NULL or its opening quote, -ENOMEM.
 */
int text_find_duplicate(const char *text, const char **ret_key);

#endif
