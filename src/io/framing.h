/* SPDX-License-Identifier: BSD-2-Clause */
/* Where the events of an output end, by the mode of its writer. */
#ifndef INFTRACE_FRAMING_H
#define INFTRACE_FRAMING_H

#include <stddef.h>

#include "io/writer.h"

/*
 * The length of the text until where the last event ends that ends within the limit, or else, when
 * that is none, the first one. The text is whole events, and begins with one.
 */
size_t framing_within(enum writer_mode mode, const char *text, size_t len, size_t limit);

#endif
