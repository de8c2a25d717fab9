// SPDX-License-Identifier: BSD-2-Clause
#include "target/elf_strings.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define PHDRS_MAX 256
#define DYNAMIC_MAX 256
#define RELAS_MAX (8u << 20)
#define RELAS_CHUNK 512

struct relocations {
	uint64_t offset; /* of the Elf64_Rela in the file */
	uint64_t n;
};

/* The dynamic section says where the relocations are; no section headers are needed. */
static int find_relocations(struct elf_file *elf, struct relocations *ret)
{
	uint64_t rela = 0, size = 0;
	Elf64_Phdr ph = {};
	Elf64_Ehdr eh;
	int err;

	err = elf_read_at_offset(elf, 0, &eh, sizeof(eh));
	for (unsigned int i = 0; !err && i < eh.e_phnum && i < PHDRS_MAX && ph.p_type != PT_DYNAMIC; i++)
		err = elf_read_at_offset(elf, eh.e_phoff + i * sizeof(ph), &ph, sizeof(ph));
	if (err || ph.p_type != PT_DYNAMIC)
		return err ? err : -ENOENT;
	for (unsigned int i = 0; i < DYNAMIC_MAX && i < ph.p_filesz / sizeof(Elf64_Dyn); i++) {
		Elf64_Dyn d;

		err = elf_read_at_offset(elf, ph.p_offset + i * sizeof(d), &d, sizeof(d));
		if (err || d.d_tag == DT_NULL)
			break;
		if (d.d_tag == DT_RELA)
			rela = d.d_un.d_ptr;
		if (d.d_tag == DT_RELASZ)
			size = d.d_un.d_val;
	}
	if (err || !rela)
		return err ? err : -ENOENT;
	ret->n = size / sizeof(Elf64_Rela);
	if (ret->n > RELAS_MAX)
		return -EBADMSG;
	return elf_vaddr_to_offset(elf, rela, &ret->offset);
}

static bool is_relative(const struct elf_file *elf, uint64_t info)
{
	return ELF64_R_TYPE(info) ==
	       (elf_machine(elf) == EM_X86_64 ? R_X86_64_RELATIVE : R_AARCH64_RELATIVE);
}

/* Where the pointers of the object will lead, as addresses as linked. */
static int apply_relocations(
	struct elf_file *elf, const struct elf_symbol *sym, uint64_t *pointers, size_t n)
{
	Elf64_Rela chunk[RELAS_CHUNK];
	struct relocations rel;
	int err;

	err = find_relocations(elf, &rel);
	if (err)
		return err == -ENOENT ? 0 : err; /* packed (DT_RELR) or not relocated: it is in place */
	for (uint64_t i = 0; i < rel.n; i += RELAS_CHUNK) {
		uint64_t k = rel.n - i < RELAS_CHUNK ? rel.n - i : RELAS_CHUNK;

		err = elf_read_at_offset(elf, rel.offset + i * sizeof(*chunk), chunk, k * sizeof(*chunk));
		if (err)
			return err;
		for (uint64_t c = 0; c < k; c++) {
			uint64_t at = chunk[c].r_offset - sym->vaddr;

			if (is_relative(elf, chunk[c].r_info) && at / sizeof(*pointers) < n && !(at % 8))
				pointers[at / sizeof(*pointers)] = (uint64_t)chunk[c].r_addend;
		}
	}
	return 0;
}

static char *read_string(struct elf_file *elf, uint64_t vaddr)
{
	char buf[ELF_STRINGS_LEN_MAX + 1];
	uint64_t offset;
	size_t len;

	if (!vaddr || elf_vaddr_to_offset(elf, vaddr, &offset))
		return NULL;
	for (len = 0; len < sizeof(buf); len++) {
		if (elf_read_at_offset(elf, offset + len, &buf[len], 1))
			return NULL;
		if (!buf[len])
			return len ? strdup(buf) : NULL;
	}
	return NULL;
}

void elf_strings_free(char **strings, size_t n)
{
	for (size_t i = 0; strings && i < n; i++)
		free(strings[i]);
	free(strings);
}

int elf_strings_read(struct elf_file *elf, const char *object, char ***ret_strings, size_t *ret_n)
{
	uint64_t pointers[ELF_STRINGS_MAX] = {};
	struct elf_symbol sym;
	char **strings;
	size_t n, found = 0;
	int err;

	err = elf_find_object(elf, object, &sym);
	if (err)
		return err;
	n = sym.size / sizeof(pointers[0]);
	if (!n || n > ELF_STRINGS_MAX || !sym.offset)
		return -EBADMSG;
	err = elf_read_at_offset(elf, sym.offset, pointers, n * sizeof(pointers[0]));
	if (!err)
		err = apply_relocations(elf, &sym, pointers, n);
	if (err)
		return err == -ENODATA || err == -ENXIO ? -EBADMSG : err;
	strings = calloc(n, sizeof(*strings));
	if (!strings)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		strings[i] = read_string(elf, pointers[i]);
		found += strings[i] != NULL;
	}
	if (!found) {
		elf_strings_free(strings, n);
		return -EBADMSG;
	}
	*ret_strings = strings;
	*ret_n = n;
	return 0;
}
