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

/* Called with each relocation that stores an address of the file itself: where, and which. */
typedef void (*relocation_cb)(uint64_t at, uint64_t addend, void *arg);

/* A file without relocations, or with packed ones (DT_RELR), has its addresses in place. */
static int each_relocation(struct elf_file *elf, relocation_cb cb, void *arg)
{
	Elf64_Rela chunk[RELAS_CHUNK];
	struct relocations rel;
	int err;

	err = find_relocations(elf, &rel);
	if (err)
		return err == -ENOENT ? 0 : err;
	for (uint64_t i = 0; i < rel.n; i += RELAS_CHUNK) {
		uint64_t k = rel.n - i < RELAS_CHUNK ? rel.n - i : RELAS_CHUNK;

		err = elf_read_at_offset(elf, rel.offset + i * sizeof(*chunk), chunk, k * sizeof(*chunk));
		if (err)
			return err;
		for (uint64_t c = 0; c < k; c++) {
			if (is_relative(elf, chunk[c].r_info))
				cb(chunk[c].r_offset, (uint64_t)chunk[c].r_addend, arg);
		}
	}
	return 0;
}

struct pointers {
	uint64_t vaddr;
	uint64_t *values;
	size_t n;
};

static void store_pointer(uint64_t at, uint64_t addend, void *arg)
{
	struct pointers *p = arg;

	at -= p->vaddr;
	if (at / sizeof(*p->values) < p->n && !(at % sizeof(*p->values)))
		p->values[at / sizeof(*p->values)] = addend;
}

/*
 * Reads n pointers from data at an address as linked, the way they are before the dynamic linker relocates
 * them: from the relocations themselves, as addresses as linked. -ENXIO: no such data; -EBADMSG.
 */
static int elf_pointers_read(struct elf_file *elf, uint64_t vaddr, uint64_t *ret_pointers, size_t n)
{
	struct pointers p = {.vaddr = vaddr, .values = ret_pointers, .n = n};
	uint64_t offset;
	int err;

	err = elf_vaddr_to_offset(elf, vaddr, &offset);
	if (!err)
		err = elf_read_at_offset(elf, offset, ret_pointers, n * sizeof(*ret_pointers));
	if (!err)
		err = each_relocation(elf, store_pointer, &p);
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

/*
 * Virtual tables of C++ classes, also without symbols (Itanium C++ ABI, 2.5.2 and 2.9.5): run time type information
 * has the mangled name of the class as text and a pointer to it as its second word; the second word of the table
 * points to that information, the first is 0 in a table of the class itself, and from the third on it has functions.
 */
#define VTABLE "_ZTV"
#define NAME_CHUNK 65536
#define REFERENCES_MAX 64

static int find_in_range(struct elf_file *elf, const Elf64_Phdr *ph, const char *text, size_t len, uint64_t *ret_vaddr)
{
	char buf[NAME_CHUNK];
	uint64_t at = 0;

	while (at + len <= ph->p_filesz) {
		size_t n = ph->p_filesz - at < sizeof(buf) ? ph->p_filesz - at : sizeof(buf);
		int err = elf_read_at_offset(elf, ph->p_offset + at, buf, n);
		const char *p;

		if (err)
			return err;
		p = memmem(buf, n, text, len);
		if (p) {
			*ret_vaddr = ph->p_vaddr + at + (size_t)(p - buf);
			return 0;
		}
		at += n - (len - 1);
	}
	return -ENOENT;
}

/* The address of a text with a NUL before and behind it, in what is mapped read-only. */
static int find_text(struct elf_file *elf, const char *text, uint64_t *ret_vaddr)
{
	char whole[256] = {};
	size_t len = strlen(text);
	Elf64_Phdr ph = {};
	Elf64_Ehdr eh;
	int err;

	if (len + 2 > sizeof(whole))
		return -EINVAL;
	memcpy(whole + 1, text, len);
	err = elf_read_at_offset(elf, 0, &eh, sizeof(eh));
	for (unsigned int i = 0; !err && i < eh.e_phnum && i < PHDRS_MAX; i++) {
		err = elf_read_at_offset(elf, eh.e_phoff + i * sizeof(ph), &ph, sizeof(ph));
		if (err || ph.p_type != PT_LOAD || ph.p_flags & PF_W)
			continue;
		err = find_in_range(elf, &ph, whole, len + 2, ret_vaddr);
		if (!err)
			*ret_vaddr += 1;
		if (err != -ENOENT)
			return err;
		err = 0;
	}
	return err ?: -ENOENT;
}

struct references {
	uint64_t to;
	uint64_t at[REFERENCES_MAX];
	unsigned int n;
};

static void store_reference(uint64_t at, uint64_t addend, void *arg)
{
	struct references *r = arg;

	if (addend == r->to && r->n < REFERENCES_MAX)
		r->at[r->n++] = at;
}

static int find_vtable(struct elf_file *elf, const char *name, uint64_t *ret_vaddr)
{
	struct references names = {}, types = {};
	struct elf_symbol sym;
	uint64_t words[3];
	int err;

	err = elf_find_object(elf, name, &sym);
	if (!err)
		*ret_vaddr = sym.vaddr;
	if (err != -ENOENT)
		return err;
	err = find_text(elf, name + strlen(VTABLE), &names.to) ?: each_relocation(elf, store_reference, &names);
	for (unsigned int i = 0; !err && i < names.n; i++) {
		types = (struct references){.to = names.at[i] - sizeof(uint64_t)};
		err = each_relocation(elf, store_reference, &types);
		for (unsigned int k = 0; !err && k < types.n; k++) {
			uint64_t vaddr = types.at[k] - sizeof(uint64_t);

			if (elf_pointers_read(elf, vaddr, words, 3) || words[0] || !elf_is_code(elf, words[2]))
				continue;
			*ret_vaddr = vaddr;
			return 0;
		}
	}
	return err ?: -ENOENT;
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

bool elf_is_path(const char *expr)
{
	return strstr(expr, "()") || !strncmp(expr, VTABLE, strlen(VTABLE));
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
	if (!strncmp(name, VTABLE, strlen(VTABLE)))
		err = find_vtable(elf, name, &sym.vaddr);
	else
		err = elf_find_symbol(elf, name, &sym);
	while (!err && *p)
		err = resolve_step(elf, &p, &sym.vaddr);
	if (!err)
		err = elf_is_code(elf, sym.vaddr) ? elf_vaddr_to_offset(elf, sym.vaddr, &sym.offset) : -EBADMSG;
	if (err)
		return err == -ENXIO ? -EBADMSG : err;
	sym.name = expr;
	sym.size = 0; /* not known */
	*ret_sym = sym;
	return 0;
}
