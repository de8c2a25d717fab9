// SPDX-License-Identifier: BSD-2-Clause
#include "target/code.h"

#include <elf.h>
#include <stdlib.h>

#include "util/alloc.h"

struct code code_open(void *bytes, size_t len, uint64_t vaddr)
{
	struct code c = { .bytes = bytes, .len = len, .vaddr = vaddr };

	if (cs_open(CS_ARCH_X86, CS_MODE_64, &c.cs) || cs_option(c.cs, CS_OPT_DETAIL, CS_OPT_ON))
		out_of_memory();
	c.in = cs_malloc(c.cs);
	c.ahead = cs_malloc(c.cs);
	if (!c.in || !c.ahead)
		out_of_memory();
	return c;
}

bool code_read(struct elf_file *elf, const struct elf_symbol *function, size_t len, struct code *ret_code)
{
	uint8_t *bytes;

	if (elf_machine(elf) != EM_X86_64)
		return false;
	bytes = xmalloc(len);
	if (elf_read_at_offset(elf, function->offset, bytes, len)) {
		free(bytes);
		return false;
	}
	*ret_code = code_open(bytes, len, function->vaddr);
	return true;
}

void code_close(struct code *c)
{
	cs_free(c->in, 1);
	cs_free(c->ahead, 1);
	cs_close(&c->cs);
	free(c->bytes);
}
