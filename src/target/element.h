/* SPDX-License-Identifier: BSD-2-Clause */
/* Where a C++ class keeps the elements of a vector, and what is in them, read off the code of its functions. */
#ifndef INFTRACE_ELEMENT_H
#define INFTRACE_ELEMENT_H

#include "target/elf.h"

/* Bytes. */
struct element {
	uint32_t vector; /* where the object has the address of the first element; that of their end is 8 bytes further */
	uint32_t size;   /* of an element */
	uint32_t member; /* in the element */
};

/*
 * The function (object, index, ...) stores a member of element `index`, or passes the member's address as the first
 * argument of a call. -ENOENT: its code does not show that, or this is no x86_64.
 */
int element_find(struct elf_file *elf, const struct elf_symbol *function, struct element *ret_element);

#endif
