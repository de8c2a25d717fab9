/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Go moves the stack of a goroutine to a larger one while its functions run, and walks it: a return
 * address that the kernel has replaced, for a return probe, ends the program ("unexpected return
 * pc"). C functions in a Go program (cgo) run on the stack of the thread, which stays where it is.
 */
#ifndef INFTRACE_GO_H
#define INFTRACE_GO_H

#include "target/elf.h"

/* The code that Go's own tools made, as linked; none: from == to. */
struct go_text {
	uint64_t from, to;
};

/* Returns 0, also for a file without any Go code, or for a stripped one, in which Go functions have
 * no names. -EBADMSG, -ENOMEM. */
int go_text_read(struct elf_file *elf, struct go_text *ret_text);

#endif
