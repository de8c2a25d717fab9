/* SPDX-License-Identifier: BSD-2-Clause */
/* Where to put the probe of a function: at the cheapest instruction that is as good as the entry. */
#ifndef INFTRACE_SITE_H
#define INFTRACE_SITE_H

#include <stdbool.h>
#include <stdint.h>

#include "target/elf.h"

struct cs_insn;

struct site {
	uint64_t offset;     /* in the file */
	bool cheap : 1;	     /* the kernel emulates the instruction instead of single-stepping it */
	bool arrival : 1;    /* SITE_ARRIVAL was given, and the place was found */
	bool exit : 1;	     /* on the way out: the stack pointer at the entry was ... */
	bool exit_bp : 1;    /* ... the frame pointer, if set, else the stack pointer, there ... */
	bool nop5 : 1;	     /* the instruction is a nop of 5 bytes */
	bool no_exits : 1;   /* an entry, and its way out is not known */
	bool no_yields : 1;  /* where an interpreter begins to run a function, and its yields are not seen */
	uint16_t exit_units; /* ... plus 8 times this */
	uint8_t python;	     /* where an interpreter begins or leaves a function: enum python_layout */
	uint8_t reg;	     /* where an interpreter begins to run a function: see PROBE_COOKIE_REG_SHIFT */
};

/* There will be a return probe. */
#define SITE_RETURNS 0x01
/* Some arguments are read from memory. */
#define SITE_READS_MEMORY 0x04
/* Calls that return after a mere test may be missed: the site may lie after it. */
#define SITE_PAST_EARLY_RETURN 0x02
/*
 * The function is a barrier: each thread adds itself to a counter (lock xadd), compares, and the last one to arrive
 * lets the others go. The site is the conditional jump after the comparison, where the zero flag tells the last one
 * from the others. Implies SITE_PAST_EARLY_RETURN. No return probe can sit there. Without such a place the site is
 * chosen as if the flag were not given.
 */
#define SITE_ARRIVAL 0x08

/*
 * Chooses the site for a function: its entry, or a later instruction of its straight-line beginning
 * that is reached exactly once per call with the registers in `regs` (1 << enum fetch_reg) as at the
 * entry. flags: SITE_*. With SITE_RETURNS, or when REG_SP is among the registers, the stack pointer
 * and the return address are as at the entry, too, so a return probe works there. Falls back to the
 * entry whenever it cannot be sure.
 */
void site_choose(struct elf_file *elf, const struct elf_symbol *sym, uint32_t regs, unsigned int flags,
	struct site *ret_site);

bool site_is_nop5(struct elf_file *elf, uint64_t offset);

/* Functions with more ways out are given up. */
#define SITE_EXITS_MAX 8

/*
 * Finds the returns of a function without a stack protector. They are expensive, since they must be single-stepped. Each call
 * passes one, unless an exception leaves it or another part of the function, out of line, returns for it. Returns how many;
 * -ENOENT: some other way leads out, or may.
 */
int site_returns(struct elf_file *elf, const struct elf_symbol *sym, struct site ret_sites[SITE_EXITS_MAX]);

/*
 * Finds cheap places on a function's way out, where its stack protector compares. Each call passes one of them once, just
 * before it returns, unless an exception leaves it. What a return probe would see of the stack is known there.
 * Returns how many; -ENOENT: it has a way out without such a place, or may have one.
 */
int site_exits(struct elf_file *elf, const struct elf_symbol *sym, struct site ret_sites[SITE_EXITS_MAX]);

/* Whether the kernel emulates an instruction under a probe, instead of single-stepping it (x86_64). */
bool site_is_emulated(const struct cs_insn *in);

#endif
