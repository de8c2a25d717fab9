/* SPDX-License-Identifier: BSD-2-Clause */
/* Where in a function to put its probe: the cheapest instruction that is as good as the entry. */
#ifndef INFTRACE_SITE_H
#define INFTRACE_SITE_H

#include <stdbool.h>
#include <stdint.h>

#include "target/elf.h"

struct site {
	uint64_t offset; /* in the file */
	bool cheap;	 /* the kernel emulates the instruction instead of single-stepping it */
};

/*
 * Chooses the site for a function. It is either the entry or a later instruction on the straight
 * way in: reached exactly once per call, with the stack pointer, the return address and the
 * registers in `regs` (1 << enum fetch_reg) as at the entry, so that entry and return probes both
 * work there. Falls back to the entry whenever it cannot be sure.
 */
void site_choose(
	struct elf_file *elf, const struct elf_symbol *sym, uint32_t regs, struct site *ret_site);

#endif
