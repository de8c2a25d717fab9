// SPDX-License-Identifier: BSD-2-Clause
#include "stack/lookup.h"

#include <capstone/capstone.h>
#include <dwarf.h>
#include <gelf.h>
#include <stdbool.h>
#include <string.h>

#include "util/list.h"

#define FUNCTION_MAX (1u << 20) /* bytes */

/* .eh_frame_hdr: the functions of the call frame information, sorted by address. */
struct hdr {
	uint8_t version, frame_encoding, count_encoding, table_encoding;
	int32_t frame;
	uint32_t count;
	struct {
		int32_t start, entry; /* relative to the header */
	} table[];
};

static const struct hdr *get_hdr(Elf *elf, uint64_t *ret_vaddr, uint32_t *ret_n)
{
	const struct hdr *h;
	Elf_Data *data;
	size_t n;

	if (elf_getphdrnum(elf, &n))
		return NULL;
	for (size_t i = 0; i < n; i++) {
		GElf_Phdr ph;

		if (!gelf_getphdr(elf, (int)i, &ph))
			return NULL;
		if (ph.p_type != PT_GNU_EH_FRAME)
			continue;
		data = elf_getdata_rawchunk(elf, (int64_t)ph.p_offset, ph.p_filesz, ELF_T_BYTE);
		h = data ? data->d_buf : NULL;
		/* all linkers write these encodings */
		if (!h || data->d_size < sizeof(*h) || (uintptr_t)h % _Alignof(struct hdr) || h->version != 1 ||
			h->count_encoding != DW_EH_PE_udata4 || h->table_encoding != (DW_EH_PE_datarel | DW_EH_PE_sdata4))
			return NULL;
		*ret_vaddr = ph.p_vaddr;
		*ret_n = h->count;
		if (*ret_n > (data->d_size - sizeof(*h)) / sizeof(h->table[0]))
			*ret_n = (uint32_t)((data->d_size - sizeof(*h)) / sizeof(h->table[0]));
		return h;
	}
	return NULL;
}

uint64_t cold_function(Elf *elf, uint64_t vaddr)
{
	uint64_t base;
	uint32_t n;
	const struct hdr *h = get_hdr(elf, &base, &n);
	size_t i;

	if (!h)
		return 0;
	i = bisect(n, k, base + (uint64_t)(int64_t)h->table[k].start <= vaddr);
	return i ? base + (uint64_t)(int64_t)h->table[i - 1].start : 0;
}

/* Gives the target of a direct jump; false for other instructions. */
static bool jump_target(csh cs, const cs_insn *in, uint64_t *ret_target)
{
	if (!cs_insn_group(cs, in, CS_GRP_JUMP))
		return false;
#ifdef __x86_64__
	if (in->detail->x86.op_count != 1 || in->detail->x86.operands[0].type != X86_OP_IMM)
		return false;
	*ret_target = (uint64_t)in->detail->x86.operands[0].imm;
	return true;
#else
	const cs_arm64 *arm = &in->detail->arm64;

	/* the last operand: that of tbz before it is the number of a bit */
	if (!arm->op_count || arm->operands[arm->op_count - 1].type != ARM64_OP_IMM)
		return false;
	*ret_target = (uint64_t)arm->operands[arm->op_count - 1].imm;
	return true;
#endif
}

static size_t add_start(uint64_t starts[COLD_MAX], size_t n, uint64_t start)
{
	for (size_t i = 0; i < n; i++) {
		if (starts[i] == start)
			return n;
	}
	if (n < COLD_MAX)
		starts[n++] = start;
	return n;
}

size_t cold_parts(Elf *elf, uint64_t vaddr, uint64_t offset, size_t size, uint64_t ret_starts[COLD_MAX])
{
	Elf_Data *data = NULL;
	const uint8_t *code;
	size_t left, n = 0;
	uint64_t at = vaddr;
	cs_insn *in;
	csh cs;

	if (size && size <= FUNCTION_MAX)
		data = elf_getdata_rawchunk(elf, (int64_t)offset, size, ELF_T_BYTE);
#ifdef __x86_64__
	if (!data || cs_open(CS_ARCH_X86, CS_MODE_64, &cs))
		return 0;
#else
	if (!data || cs_open(CS_ARCH_ARM64, CS_MODE_LITTLE_ENDIAN, &cs))
		return 0;
#endif
	cs_option(cs, CS_OPT_DETAIL, CS_OPT_ON);
	in = cs_malloc(cs);
	code = data->d_buf;
	left = data->d_size;
	while (in && cs_disasm_iter(cs, &code, &left, &at, in)) {
		uint64_t target, start;

		if (!jump_target(cs, in, &target) || target - vaddr < size)
			continue;
		start = cold_function(elf, target);
		/* a jump to a function's start is a tail call */
		if (start && start != target)
			n = add_start(ret_starts, n, start);
	}
	if (in)
		cs_free(in, 1);
	cs_close(&cs);
	return n;
}
