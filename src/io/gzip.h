/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Events as gzip members, none of which crosses a page boundary of the file, so that a file cut at
 * one consists of whole members.
 */
#ifndef INFTRACE_GZIP_H
#define INFTRACE_GZIP_H

#include <stddef.h>
#include <stdint.h>

#include "io/writer.h"

#define PAGE_BYTES 4096 /* the smallest page size: larger pages end at its multiples */

/*
 * Returns the length of the whole events at the beginning of the text that fit the limit, or that of the first
 * event if none fits. The text consists of whole events.
 */
size_t framing_within(enum writer_mode mode, const char *text, size_t len, size_t limit);

struct gzip;

/* -ENOMEM. The mode determines where events end. */
int gzip_new(enum writer_mode mode, struct gzip **ret_gzip);
void gzip_free(struct gzip *g);

/*
 * Compresses whole events from the beginning of the text, to be written at this offset of the file:
 * all of them, or as many as fit one write. Returns the length of their text; the members are in
 * *ret_bytes until the next call.
 */
size_t gzip_pack(struct gzip *g, uint64_t offset, const char *text, size_t len,
	const char **ret_bytes, size_t *ret_len);

#endif
