// SPDX-License-Identifier: BSD-2-Clause
#include "target/go.h"

#include <errno.h>
#include <stdlib.h>

#define BUILDINFO_MAX (16u << 20) /* bytes: version and modules */

/* Since Go 1.13; cmd/link/internal/ld/data.go */
static int is_go(struct elf_file *elf)
{
	uint64_t vaddr;
	size_t len;
	void *data;
	int err;

	err = elf_read_section(elf, ".go.buildinfo", BUILDINFO_MAX, &vaddr, &data, &len);
	if (!err)
		free(data);
	return err == -ENOENT ? 0 : err == -ENOMEM ? err : 1; /* whatever is in it */
}

/* The linker puts Go's code in one piece between two symbols, and the code of other compilers around it. */
int go_text_read(struct elf_file *elf, struct go_text *ret_text)
{
	struct go_text text = {};
	struct elf_symbol sym;
	int err = is_go(elf);

	if (err > 0) {
		err = elf_find_symbol(elf, "runtime.text", &sym);
		if (!err) {
			text.from = sym.vaddr;
			text.to = UINT64_MAX; /* without other code this end is not an address in the code */
			err = elf_find_symbol(elf, "runtime.etext", &sym);
			if (!err)
				text.to = sym.vaddr;
		}
		if (err == -ENOENT)
			err = 0;
	}
	if (!err)
		*ret_text = text;
	return err;
}
