/* SPDX-License-Identifier: BSD-2-Clause */
/* Frames of stacks as text, the same in all formats. */
#ifndef INFTRACE_STACK_TEXT_H
#define INFTRACE_STACK_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stack/stack.h"

#define STACK_TEXT_MAX 800 /* with the NUL; longer ones are cut */

/* The name alone, for Python with its place: "f (file.py:12)". Returns its length. */
size_t stack_text_name(const struct frame *f, char buf[STACK_TEXT_MAX]);

/* The same with where it is from: "memcpy [libc.so.6]", "schedule [kernel]", "f (file.py:12)". */
size_t stack_text(const struct frame *f, char buf[STACK_TEXT_MAX]);

/* The same without the line: what all its places have in common. */
size_t stack_text_function(const struct frame *f, char buf[STACK_TEXT_MAX]);

/* Where the frame is from: the path of a file, "[kernel]", "[kernel.MODULE]", "[jit]" or "[unknown]". */
const char *stack_text_mapping(const struct frame *f, char buf[STACK_TEXT_MAX]);

/* The frame that says best what a thread was doing: the innermost of Python, else the innermost that is neither in the
 * kernel nor in the C library, if it has a name, else the innermost outside of the kernel with one, else the innermost.
 * NULL: there is no frame. */
const struct frame *stack_subject(const struct stacks *s, uint32_t stack);

/* Whether it is Python's own: of the standard library, or in no file. */
bool stack_frame_is_library(const struct frame *f);

/* "sample" (on the CPU) or "wait", of enum sample_kind; NULL for what is neither. */
const char *stack_kind_name(uint32_t kind);

#endif
