// SPDX-License-Identifier: BSD-2-Clause
#include "target/code.h"

#include <elf.h>
#include <stdlib.h>

#include "util/alloc.h"

bool code_open(struct elf_file *elf, void *bytes, size_t len, uint64_t vaddr, struct code *ret_code)
{
	struct code c = { .bytes = bytes, .len = len, .vaddr = vaddr };

	if (elf_machine(elf) != EM_X86_64) {
		free(bytes);
		return false;
	}
	if (cs_open(CS_ARCH_X86, CS_MODE_64, &c.cs) || cs_option(c.cs, CS_OPT_DETAIL, CS_OPT_ON))
		out_of_memory();
	c.in = cs_malloc(c.cs);
	c.ahead = cs_malloc(c.cs);
	if (!c.in || !c.ahead)
		out_of_memory();
	*ret_code = c;
	return true;
}

bool code_read(struct elf_file *elf, const struct elf_symbol *function, size_t len, struct code *ret_code)
{
	uint8_t *bytes = xmalloc(len);

	if (elf_read_at_offset(elf, function->offset, bytes, len)) {
		free(bytes);
		return false;
	}
	return code_open(elf, bytes, len, function->vaddr, ret_code);
}

void code_close(struct code *c)
{
	cs_free(c->in, 1);
	cs_free(c->ahead, 1);
	cs_close(&c->cs);
	free(c->bytes);
}
