/* SPDX-License-Identifier: BSD-2-Clause */
/* Decodes machine code of x86_64 in a file, one instruction after the other. */
#ifndef INFTRACE_TARGET_CODE_H
#define INFTRACE_TARGET_CODE_H

#include <capstone/capstone.h>
#include <stdbool.h>

#include "target/elf.h"

struct code {
	csh cs;
	uint8_t *bytes;
	size_t len;
	uint64_t vaddr;	     /* of the first byte, as linked */
	cs_insn *in, *ahead; /* for a walk, and for a nested one */
};

/* Takes over the bytes. */
struct code code_open(void *bytes, size_t len, uint64_t vaddr);

/* Reads the first `len` bytes of a function. false: the file does not have them, or is not for x86_64. */
bool code_read(struct elf_file *elf, const struct elf_symbol *function, size_t len, struct code *ret_code);
void code_close(struct code *c);

static inline bool code_has(const struct code *c, uint64_t vaddr)
{
	return vaddr - c->vaddr < c->len;
}

/* The position of a walk. */
struct code_place {
	const uint8_t *p;
	size_t left;
	uint64_t addr;
};

/* Begins a walk at an address; outside of the code nothing is left. */
static inline struct code_place code_at(const struct code *c, uint64_t vaddr)
{
	size_t at = code_has(c, vaddr) ? vaddr - c->vaddr : c->len;

	return (struct code_place){ .p = c->bytes + at, .left = c->len - at, .addr = vaddr };
}

/* false: no instruction, or the end of the code. */
static inline bool code_next(const struct code *c, struct code_place *at, cs_insn *in)
{
	return cs_disasm_iter(c->cs, &at->p, &at->left, &at->addr, in);
}

/* The place of a vector in a C++ class, and the layout of its elements, read off the code of the class's functions. */

/* In bytes. */
struct element {
	uint32_t vector; /* where the object has the address of the first element; the address of the end is 8 bytes further */
	uint32_t size;   /* of an element */
	uint32_t member; /* in the element */
};

/*
 * Finds the member of element `index` that a function (object, index, ...) stores, or whose address it passes as the first
 * argument of a call. false: its code does not show that, or is not x86_64.
 */
bool element_find(struct elf_file *elf, const struct elf_symbol *function, struct element *ret_element);

#endif
