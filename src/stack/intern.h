/* SPDX-License-Identifier: BSD-2-Clause */
/* One copy of each text, frame and stack, in memory with a limit. */
#ifndef INFTRACE_STACK_INTERN_H
#define INFTRACE_STACK_INTERN_H

#include <stddef.h>
#include <stdint.h>

#include "stack/stack.h"

#define INTERN_NONE UINT32_MAX

struct intern;

int intern_new(size_t memory_max, struct intern **ret_intern);
void intern_free(struct intern *in);

/* The copy of a text, at most STACK_NAME_MAX - 1 bytes of it, with control characters and what is no UTF-8 replaced by
 * '?'. NULL without memory, and for NULL. */
const char *intern_text(struct intern *in, const char *text);

/* The number of a frame, whose texts are interned or NULL. INTERN_NONE without memory. */
uint32_t intern_frame(struct intern *in, const struct frame *f);
/* The number of a stack of 1 to STACK_FRAMES_MAX frames. INTERN_NONE without memory. */
uint32_t intern_stack(struct intern *in, const uint32_t *frames, unsigned int n);

const struct frame *intern_get_frame(const struct intern *in, uint32_t frame);
unsigned int intern_get_stack(const struct intern *in, uint32_t stack, const uint32_t **ret_frames);

size_t intern_memory(const struct intern *in);
uint32_t intern_frames(const struct intern *in);
uint32_t intern_stacks(const struct intern *in);

#endif
