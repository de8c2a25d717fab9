/* SPDX-License-Identifier: BSD-2-Clause */
/* One copy of each text, frame and stack, in memory with a limit. */
#ifndef INFTRACE_STACK_INTERN_H
#define INFTRACE_STACK_INTERN_H

#include <stddef.h>
#include <stdint.h>

/* No stack: none could be taken, or the memory is used up. */
#define STACK_NONE UINT32_MAX
/* Frames of one stack, all kinds together. */
#define STACK_FRAMES_MAX 256
/* Bytes of a name, with its NUL; longer ones are cut. */
#define STACK_NAME_MAX 512

enum frame_kind {
	FRAME_NATIVE,
	FRAME_KERNEL,
	FRAME_PYTHON,
	FRAME_JIT,     /* named by a perf map */
	FRAME_UNKNOWN, /* code in no file and no perf map; or "[cut]", the root of a cut stack */
	FRAME_KIND_MAX,
};

/* A function, not an address: samples at any place in it have the same frame. Texts have no control characters. */
struct frame {
	const char *name;     /* demangled; "[unknown]" */
	const char *file;     /* path of the mapped file, or of the .py file; the kernel's module; NULL */
	const char *build_id; /* lower-case hex; NULL */
	uint64_t rel_pc;      /* native: linked address of the function, or of the code if it has no name */
	uint32_t line;        /* Python: the line that runs; 0: unknown */
	enum frame_kind kind;
};

#define INTERN_NONE UINT32_MAX

struct intern;

struct intern *intern_new(size_t memory_max);
void intern_free(struct intern *in);

/* Interns a text, cut to STACK_NAME_MAX - 1 bytes, with '?' for control characters and invalid UTF-8. Returns NULL for NULL, and
 * when memory_max is reached. */
const char *intern_text(struct intern *in, const char *text);

/* Interns a frame, whose texts are interned; returns its id. INTERN_NONE without a name, and when memory_max is reached. */
uint32_t intern_frame(struct intern *in, const struct frame *f);
/* Interns a stack of 1 to STACK_FRAMES_MAX frames; returns its id. INTERN_NONE when memory_max is reached. */
uint32_t intern_stack(struct intern *in, const uint32_t *frames, unsigned int n);

const struct frame *intern_get_frame(const struct intern *in, uint32_t frame);
unsigned int intern_get_stack(const struct intern *in, uint32_t stack, const uint32_t **ret_frames);

struct intern_counts {
	size_t memory; /* bytes */
	uint32_t frames, stacks;
};

void intern_counts(const struct intern *in, struct intern_counts *ret_counts);

#endif
