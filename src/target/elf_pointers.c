// SPDX-License-Identifier: BSD-2-Clause
#include "target/elf_pointers.h"

#include <capstone/capstone.h>
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

/* The dynamic section says where the relocations are, so no section headers are needed. */
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

static int apply_relocations(struct elf_file *elf, uint64_t vaddr, uint64_t *pointers, size_t n)
{
	Elf64_Rela chunk[RELAS_CHUNK];
	struct relocations rel;
	int err;

	err = find_relocations(elf, &rel);
	if (err)
		return err == -ENOENT ? 0 : err; /* packed (DT_RELR) or not relocated: the value is in place */
	for (uint64_t i = 0; i < rel.n; i += RELAS_CHUNK) {
		uint64_t k = rel.n - i < RELAS_CHUNK ? rel.n - i : RELAS_CHUNK;

		err = elf_read_at_offset(elf, rel.offset + i * sizeof(*chunk), chunk, k * sizeof(*chunk));
		if (err)
			return err;
		for (uint64_t c = 0; c < k; c++) {
			uint64_t at = chunk[c].r_offset - vaddr;

			if (is_relative(elf, chunk[c].r_info) && at / sizeof(*pointers) < n && !(at % 8))
				pointers[at / sizeof(*pointers)] = (uint64_t)chunk[c].r_addend;
		}
	}
	return 0;
}

int elf_pointers_read(struct elf_file *elf, uint64_t vaddr, uint64_t *ret_pointers, size_t n)
{
	uint64_t offset;
	int err;

	err = elf_vaddr_to_offset(elf, vaddr, &offset);
	if (!err)
		err = elf_read_at_offset(elf, offset, ret_pointers, n * sizeof(*ret_pointers));
	if (!err)
		err = apply_relocations(elf, vaddr, ret_pointers, n);
	return err == -ENODATA ? -EBADMSG : err;
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
	err = elf_pointers_read(elf, sym.vaddr, pointers, n);
	if (err)
		return err == -ENXIO ? -EBADMSG : err;
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

#define RETURNS_WAY 64 /* bytes of a function within which it must return */

/* The address that a function returns, taken from its first "lea rax, [rip + x]; ret". */
static int returned_address(struct elf_file *elf, uint64_t vaddr, uint64_t *ret)
{
	uint8_t code[RETURNS_WAY];
	const uint8_t *p = code;
	size_t left = sizeof(code);
	uint64_t offset, value = 0;
	bool have = false, found = false;
	cs_insn *in;
	csh cs;

	if (elf_machine(elf) != EM_X86_64 || elf_vaddr_to_offset(elf, vaddr, &offset) ||
		elf_read_at_offset(elf, offset, code, sizeof(code)) ||
		cs_open(CS_ARCH_X86, CS_MODE_64, &cs))
		return -EBADMSG;
	cs_option(cs, CS_OPT_DETAIL, CS_OPT_ON);
	in = cs_malloc(cs);
	while (in && !found && cs_disasm_iter(cs, &p, &left, &vaddr, in)) {
		const cs_x86_op *op = in->detail->x86.operands;

		found = have && in->id == X86_INS_RET;
		have = in->id == X86_INS_LEA && op[0].reg == X86_REG_RAX &&
		       op[1].mem.base == X86_REG_RIP && op[1].mem.index == X86_REG_INVALID;
		if (have)
			value = in->address + in->size + (uint64_t)op[1].mem.disp;
	}
	if (in)
		cs_free(in, 1);
	cs_close(&cs);
	if (!found)
		return -EBADMSG;
	*ret = value;
	return 0;
}

static int resolve_step(struct elf_file *elf, const char **expr, uint64_t *vaddr)
{
	unsigned long n;
	char *end;

	if (!strncmp(*expr, "()", 2)) {
		*expr += 2;
		return returned_address(elf, *vaddr, vaddr);
	}
	if (**expr != '[')
		return -EINVAL;
	n = strtoul(*expr + 1, &end, 10);
	if (end == *expr + 1 || *end != ']' || n > ELF_STRINGS_MAX)
		return -EINVAL;
	*expr = end + 1;
	return elf_pointers_read(elf, *vaddr + n * sizeof(uint64_t), vaddr, 1);
}

int elf_resolve(struct elf_file *elf, const char *expr, struct elf_symbol *ret_sym)
{
	size_t len = strcspn(expr, "([");
	const char *p = expr + len;
	struct elf_symbol sym;
	char name[256];
	int err;

	if (!len || len >= sizeof(name))
		return -EINVAL;
	memcpy(name, expr, len);
	name[len] = 0;
	err = elf_find_symbol(elf, name, &sym);
	while (!err && *p)
		err = resolve_step(elf, &p, &sym.vaddr);
	if (!err)
		err = elf_vaddr_to_offset(elf, sym.vaddr, &sym.offset);
	if (err)
		return err == -ENXIO ? -EBADMSG : err;
	sym.name = expr;
	sym.size = 0; /* not known */
	*ret_sym = sym;
	return 0;
}
