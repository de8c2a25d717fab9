/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where things stand in the text of a preset: json-c keeps no positions, and of a key that is
 * given twice silently the last. All texts are valid JSON, ended by a NUL.
 */
#ifndef INFTRACE_ENGINE_TEXT_H
#define INFTRACE_ENGINE_TEXT_H

#include <stddef.h>

/* The opening quote of the first such key between `text` and `end`, at most `depth` brackets
 * deeper than `text`. NULL when there is none. */
const char *text_find_key(const char *text, const char *end, const char *key, unsigned int depth);

/* Behind a key's colon. */
const char *text_value(const char *key);

/* The end of the value that begins at `p` or behind white space there. */
const char *text_value_end(const char *p);

/* Line of a place in the text, from 1. */
unsigned int text_line(const char *text, const char *p);

/*
 * Looks for a key that an object has twice, as they are written; an escape in a key counts too,
 * since it may hide that. Returns 0 with *ret_key NULL or its opening quote, -ENOMEM.
 */
int text_find_duplicate(const char *text, const char **ret_key);

#endif
