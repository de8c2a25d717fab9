/* SPDX-License-Identifier: BSD-2-Clause */
/* Where the events of an output end, by the mode of its writer. */
#ifndef INFTRACE_FRAMING_H
#define INFTRACE_FRAMING_H

#include <stddef.h>

#include "io/writer.h"

/*
 * Returns the length of the whole events at the beginning of the text that fit the limit, or that of the first
 * event if none fits. The text consists of whole events.
 */
size_t framing_within(enum writer_mode mode, const char *text, size_t len, size_t limit);

#endif
