/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Parts of a function that the compiler has moved away from it, for code that seldom runs. Where local symbols are
 * stripped they have no name: the function's jumps lead there.
 */
#ifndef INFTRACE_STACK_COLD_H
#define INFTRACE_STACK_COLD_H

#include <libelf.h>
#include <stddef.h>
#include <stdint.h>

#define COLD_MAX 8

/* Where a part of the code begins that the call frame information describes as one function, which includes the
 * address; 0: none does. Addresses are as linked. */
uint64_t cold_function(Elf *elf, uint64_t vaddr);

/* The parts that a function of some bytes at an offset in the file jumps to, apart from itself, by where they begin.
 * Returns how many. */
size_t cold_parts(Elf *elf, uint64_t vaddr, uint64_t offset, size_t size, uint64_t ret_starts[COLD_MAX]);

#endif
