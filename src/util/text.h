/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Untrusted text (names of files, processes and symbols, arguments, messages) on its way to a
 * terminal or into JSON that is read on one. Characters that drive a terminal or change the order
 * or look of the text around them become escapes: C0 and C1 controls, U+007F, and the format
 * characters of Unicode (bidirectional overrides and isolates, zero-width ones, tags).
 */
#ifndef INFTRACE_UTIL_TEXT_H
#define INFTRACE_UTIL_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TEXT_JSON_MAX(len) (6 * (size_t)(len)) /* bytes that text_json() writes, at most */

/* Whether the character is shown as it is. */
bool text_is_shown(uint32_t c);

/* Decodes a well-formed UTF-8 sequence of `len` bytes, see fmt_utf8_scan(). */
uint32_t text_decode(const unsigned char *s, int len);

/* Writes a character as UTF-8, in up to 4 bytes. Returns the end. */
char *text_encode(char *out, uint32_t c);

/* Returns the text without white space at both ends, and its length in *len. White space is Unicode's property White_Space, which includes
 * no-break spaces. */
const char *text_trim(const char *text, size_t *len);

/* Whether there is nothing but white space. */
bool text_is_blank(const char *text, size_t len);

/* Whether the text ends with the suffix and has something before it. */
bool text_has_suffix(const char *text, const char *suffix);

/* Copies JSON text: ill-formed UTF-8 becomes U+FFFD, characters that are not shown \uXXXX (one
 * beyond U+FFFF becomes U+FFFD). Returns the end; nothing is terminated. */
char *text_json(char *out, const char *text, size_t len);

/* Makes untrusted text fit to print on one line: control bytes and invalid UTF-8 as \xNN, cut with
 * "..." to fit in size (at least 8). Returns buf. */
const char *text_printable(char *buf, size_t size, const char *text);

/* ---- typing errors ---- */

#define EDIT_LEN_MAX 128

/* The edit distance (Levenshtein's) of two names of at most EDIT_LEN_MAX bytes, or max + 1 when it is larger. */
int edit_distance(const char *a, int la, const char *b, int lb, int max);

/* The name that was most likely meant: one that differs by a typing error, or that contains what
 * was typed. NULL: none. */
const char *nearest_name(const char *typed, const char *const *names, size_t n);

/* ---- settings of a process that may be secrets, and must be neither printed nor hashed ---- */

/* By the name of a variable or an option: VLLM_API_KEY, --hf-token. */
bool secret_name(const char *name);

/* By the value: a URL with a password, a parameter with such a name, or a token of a known form. */
bool secret_value(const char *value);

#endif
