/* SPDX-License-Identifier: BSD-2-Clause */
/* The characters of a Python string, as they are in memory, to UTF-8. */
#ifndef INFTRACE_PYTHON_TEXT_H
#define INFTRACE_PYTHON_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct python_text {
	uint64_t length; /* characters */
	unsigned int width; /* bytes of each */
	bool ascii;
};

/* From a string's state (three bits of the width, one for compact, one for ASCII) and its length. -EBADMSG: there is no
 * such string, or one that is no function's name: one of the old kind, or of more than a million characters. */
int python_text_kind(uint32_t state, uint64_t length, struct python_text *ret_text);

/* Writes as many whole characters as fit with a NUL; what is no character becomes '?'. */
void python_text_write(const struct python_text *t, const uint8_t *data, char *buf, size_t size);

#endif
