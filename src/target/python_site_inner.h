/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the files of python_site.h. */
#ifndef INFTRACE_PYTHON_SITE_INNER_H
#define INFTRACE_PYTHON_SITE_INNER_H

#include "target/python_site.h"
#include "target/site_code.h"

/* Places of registers in struct pt_regs. */
#define PLACE_RBX 5 /* and up to there those that calls preserve */
#define PLACE_RSI 13
#define PLACE_RDI 14
#define PLACE_NONE 0xff

struct python_search {
	struct elf_file *elf;
	csh cs;
	uint8_t *text; /* the section with all the code */
	size_t len;
	uint64_t vaddr;
	struct elf_symbol eval; /* the function that runs Python functions; it is within the section */
	uint64_t check;         /* the function that is called when the recursion is too deep */
	uint64_t semaphore;     /* offset in the file; 0: it was built without USDT probes */
	struct python_sites *out;
};

/* A walk through instructions. */
struct python_walk_code {
	const uint8_t *p;
	size_t left;
	uint64_t addr;
};

/* Whether the address is in the section. */
bool python_in_text(const struct python_search *s, uint64_t addr);
struct python_walk_code python_code_at(const struct python_search *s, uint64_t addr);
/* false: no instruction, or the end of the section */
bool python_code_next(const struct python_search *s, struct python_walk_code *w, cs_insn *in);

bool python_is_conditional_jump(const cs_insn *in);
/* The place of a register with 64 bits; PLACE_NONE: it is another one. */
uint8_t python_place_of(x86_reg reg);
/* Adds a place; -ENOTSUP if there are too many. site.offset is filled in. */
int python_add_site(struct python_search *s, uint64_t vaddr, struct site site);

/*
 * Each finds the places of some versions. 0 or -ENOTSUP, with the reason in ret_why.
 */
int python_find_3_8(struct python_search *s, const char **ret_why); /* to 3.10 */
int python_find_3_11(struct python_search *s, const char **ret_why);
int python_find_3_12(struct python_search *s, const char **ret_why);

#endif
