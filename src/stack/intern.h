/* SPDX-License-Identifier: BSD-2-Clause */
/* One copy of each text, frame and stack, in memory with a limit. */
#ifndef INFTRACE_STACK_INTERN_H
#define INFTRACE_STACK_INTERN_H

#include <stddef.h>
#include <stdint.h>

#include "stack/stack.h"

#define INTERN_NONE UINT32_MAX

struct intern;

struct intern *intern_new(size_t memory_max);
void intern_free(struct intern *in);

/* The copy of a text, cut to STACK_NAME_MAX - 1 bytes, with '?' for control characters and invalid UTF-8. NULL for NULL, and
 * when memory_max is reached. */
const char *intern_text(struct intern *in, const char *text);

/* The number of a frame, whose texts are interned. INTERN_NONE without a name, and when memory_max is reached. */
uint32_t intern_frame(struct intern *in, const struct frame *f);
/* The number of a stack of 1 to STACK_FRAMES_MAX frames. INTERN_NONE when memory_max is reached. */
uint32_t intern_stack(struct intern *in, const uint32_t *frames, unsigned int n);

const struct frame *intern_get_frame(const struct intern *in, uint32_t frame);
unsigned int intern_get_stack(const struct intern *in, uint32_t stack, const uint32_t **ret_frames);

struct intern_counts {
	size_t memory; /* bytes */
	uint32_t frames, stacks;
};

void intern_counts(const struct intern *in, struct intern_counts *ret_counts);

#endif
