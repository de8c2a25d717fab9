// SPDX-License-Identifier: BSD-2-Clause
/*
 * A uprobe on an instruction that the kernel emulates costs a twentieth of one that it must
 * single-step (every #DB leaves a guest). Most functions start with endbr64, which is
 * single-stepped; right after it there usually is a push, which is emulated.
 */
#include "target/site.h"

#include <capstone/capstone.h>
#include <elf.h>
#include <string.h>

#include "probe.h"
#include "target/site_code.h"

#define CODE_MAX 4096 /* bytes of a function that are searched for jumps back */
#define WAY_MAX 64    /* the most bytes from the entry to the site */
#define UNSIZED_LEN 8 /* bytes read of a function of unknown size: an endbr64 and a push */

/*
 * What arch/x86/kernel/uprobes.c emulates: branch_setup_xol_ops() and push_setup_xol_ops().
 * Multi-byte nops only since 6.18, so they do not count.
 */
bool site_is_emulated(const cs_insn *in)
{
	const uint8_t *b = in->bytes;
	size_t n = in->size;

	if (n == 1)
		return b[0] == 0x90 || (b[0] >= 0x50 && b[0] <= 0x57);
	if (n == 2 && b[0] == 0x41)
		return b[1] >= 0x50 && b[1] <= 0x57;
	if (n == 2)
		return b[0] == 0xeb || (b[0] >= 0x70 && b[0] <= 0x7f);
	if (n == 5)
		return b[0] == 0xe8 || b[0] == 0xe9;
	return n == 6 && b[0] == 0x0f && b[1] >= 0x80 && b[1] <= 0x8f;
}

/* The loop instructions are only in the second group, which also has calls. */
static bool is_jump(csh cs, const cs_insn *in)
{
	return cs_insn_group(cs, in, CS_GRP_JUMP) ||
	       (cs_insn_group(cs, in, CS_GRP_BRANCH_RELATIVE) &&
		       !cs_insn_group(cs, in, CS_GRP_CALL));
}

static bool is_branch(csh cs, const cs_insn *in)
{
	return is_jump(cs, in) || cs_insn_group(cs, in, CS_GRP_CALL) ||
	       cs_insn_group(cs, in, CS_GRP_RET) || cs_insn_group(cs, in, CS_GRP_INT);
}

#define PARTS_MAX 5

/* Every part of the argument registers and of the stack pointer. */
static const x86_reg parts[REG_MAX][PARTS_MAX] = {
	[REG_ARG1] = { X86_REG_RDI, X86_REG_EDI, X86_REG_DI, X86_REG_DIL },
	[REG_ARG2] = { X86_REG_RSI, X86_REG_ESI, X86_REG_SI, X86_REG_SIL },
	[REG_ARG3] = { X86_REG_RDX, X86_REG_EDX, X86_REG_DX, X86_REG_DL, X86_REG_DH },
	[REG_ARG4] = { X86_REG_RCX, X86_REG_ECX, X86_REG_CX, X86_REG_CL, X86_REG_CH },
	[REG_ARG5] = { X86_REG_R8, X86_REG_R8D, X86_REG_R8W, X86_REG_R8B },
	[REG_ARG6] = { X86_REG_R9, X86_REG_R9D, X86_REG_R9W, X86_REG_R9B },
	[REG_SP] = { X86_REG_RSP, X86_REG_ESP, X86_REG_SP, X86_REG_SPL },
};

static bool is_part(x86_reg reg, uint32_t regs)
{
	for (int r = 0; r < REG_MAX; r++) {
		if (!(regs & 1u << r))
			continue;
		for (int i = 0; i < PARTS_MAX; i++) {
			if (parts[r][i] == reg)
				return true;
		}
	}
	return false;
}

/* A function that realigns the stack keeps the old stack pointer in r10: lea r10, [rsp + 8]. */
static bool saves_sp_in_r10(const cs_insn *in)
{
	const cs_x86 *x = &in->detail->x86;

	return in->id == X86_INS_LEA && x->operands[0].reg == X86_REG_R10 &&
	       x->operands[1].mem.base == X86_REG_RSP &&
	       x->operands[1].mem.index == X86_REG_INVALID;
}

/* Whether the operand lies in the function's own frame, which holds no argument that is read. rbp
 * belongs to the caller until it is pushed, and that push is a site. */
static bool is_own_frame(const cs_x86_op *op, bool r10_is_sp)
{
	return op->mem.index == X86_REG_INVALID &&
	       (op->mem.base == X86_REG_RSP || (r10_is_sp && op->mem.base == X86_REG_R10));
}

/*
 * Whether everything that a probe at the entry would read is still there after this instruction.
 * Without REG_SP in regs the function may have begun to build its frame.
 */
static bool keeps_entry_state(
	csh cs, const cs_insn *in, uint32_t regs, unsigned int flags, bool r10_is_sp)
{
	bool frame = !(regs & 1u << REG_SP), memory = flags & SITE_READS_MEMORY;
	cs_regs read, written;
	uint8_t n_read, n_written;

	if (in->id == X86_INS_ENDBR64 || in->id == X86_INS_NOP)
		return true;
	if (in->id == X86_INS_ENTER)
		return false; /* capstone does not know that it moves rsp */
	/* it is not known what a store hits; it may be an argument in memory */
	for (uint8_t i = 0; i < in->detail->x86.op_count && memory; i++) {
		const cs_x86_op *op = &in->detail->x86.operands[i];

		if (op->type == X86_OP_MEM && (i == 0 || op->access & CS_AC_WRITE) &&
			in->id != X86_INS_CMP && in->id != X86_INS_TEST &&
			!(frame && is_own_frame(op, r10_is_sp)))
			return false;
	}
	if (cs_regs_access(cs, in, read, &n_read, written, &n_written))
		return false;
	for (uint8_t i = 0; i < n_written; i++) {
		if (is_part(written[i], regs))
			return false;
	}
	return true;
}

/* Whether a direct jump in the code, which begins at vaddr, goes to from..to, inclusive. Bytes that
 * do not decode may hide one: `undecoded` is the answer then. */
static bool jumps_into(csh cs, const uint8_t *code, size_t len, uint64_t vaddr, uint64_t from,
	uint64_t to, bool undecoded)
{
	cs_insn *in = cs_malloc(cs);
	uint64_t addr = vaddr;
	bool found = !in;

	while (in && !found && len && cs_disasm_iter(cs, &code, &len, &addr, in)) {
		const cs_x86_op *op = &in->detail->x86.operands[0];

		if (!is_jump(cs, in) || in->detail->x86.op_count != 1 || op->type != X86_OP_IMM)
			continue;
		found = (uint64_t)op->imm >= from && (uint64_t)op->imm <= to;
	}
	if (len && !found)
		found = undecoded;
	if (in)
		cs_free(in, 1);
	return found;
}

/* Whether the site is reached once per call, as far as can be seen. */
static bool is_reached_once(
	csh cs, const uint8_t *code, size_t len, const struct elf_symbol *sym, const cs_insn *site)
{
	uint64_t at = site->address - sym->vaddr;

	if (!at)
		return true; /* no worse than the entry */
	/* callers may skip an endbr64, so the instruction after it is an entry, too; unless the
	 * function loops there, and none loops to a push */
	if (at == 4 && !memcmp(code, "\xf3\x0f\x1e\xfa", 4))
		return site->id == X86_INS_PUSH ||
		       !jumps_into(cs, code, len, sym->vaddr, site->address, site->address, false);
	return sym->size == len &&
	       !jumps_into(cs, code, len, sym->vaddr, sym->vaddr, site->address, true);
}

/* A conditional jump to a return: the code after it is for the calls that have work to do. */
static bool is_early_return(
	csh cs, const uint8_t *code, size_t len, const struct elf_symbol *sym, const cs_insn *in)
{
	cs_insn *ret = cs_malloc(cs);
	const uint8_t *p;
	uint64_t to;
	size_t left;
	bool found = false;

	if (ret && is_jump(cs, in) && in->id != X86_INS_JMP && in->detail->x86.op_count == 1 &&
		in->detail->x86.operands[0].type == X86_OP_IMM) {
		to = (uint64_t)in->detail->x86.operands[0].imm;
		if (to > in->address && to - sym->vaddr < len) {
			p = code + (to - sym->vaddr);
			left = len - (to - sym->vaddr);
			found = cs_disasm_iter(cs, &p, &left, &to, ret) &&
				cs_insn_group(cs, ret, CS_GRP_RET);
		}
	}
	if (ret)
		cs_free(ret, 1);
	return found;
}

static void choose_x86(csh cs, const uint8_t *code, size_t len, const struct elf_symbol *sym,
	uint32_t regs, unsigned int flags, struct site *site)
{
	cs_insn *in = cs_malloc(cs);
	const uint8_t *p = code;
	size_t left = len;
	uint64_t addr = sym->vaddr;
	bool r10_is_sp = false;

	while (in && left && addr - sym->vaddr < WAY_MAX &&
		cs_disasm_iter(cs, &p, &left, &addr, in)) {
		if (site_is_emulated(in) && is_reached_once(cs, code, len, sym, in)) {
			site->cheap = true;
			site->offset = sym->offset + (in->address - sym->vaddr);
		}
		if (flags & SITE_PAST_EARLY_RETURN && is_early_return(cs, code, len, sym, in))
			continue;
		if (site_is_emulated(in))
			break;
		if (is_branch(cs, in) || !keeps_entry_state(cs, in, regs, flags, r10_is_sp))
			break;
		r10_is_sp |= saves_sp_in_r10(in);
	}
	if (in)
		cs_free(in, 1);
}

/*
 * The place where a thread that has come to a barrier knows whether it is the last: the je or jne after
 *	lock xadd counter, reg;  ...;  cmp
 * The zero flag alone decides a jump on equality; what is equal is the count and the number of threads.
 */
static bool choose_arrival(csh cs, const uint8_t *code, size_t len, const struct elf_symbol *sym, uint32_t regs,
	unsigned int flags, struct site *site)
{
	cs_insn *in = cs_malloc(cs);
	const uint8_t *p = code;
	size_t left = len;
	uint64_t addr = sym->vaddr;
	bool counted = false, compared = false, found = false;

	while (in && !found && left && addr - sym->vaddr < WAY_MAX && cs_disasm_iter(cs, &p, &left, &addr, in)) {
		if (compared && (in->id == X86_INS_JE || in->id == X86_INS_JNE) && site_is_emulated(in)) {
			found = is_reached_once(cs, code, len, sym, in);
			break;
		}
		compared = counted && in->id == X86_INS_CMP;
		if (is_early_return(cs, code, len, sym, in))
			continue;
		if (is_branch(cs, in) || !keeps_entry_state(cs, in, regs, flags, false))
			break;
		counted |= in->id == X86_INS_XADD && in->detail->x86.prefix[0] == X86_PREFIX_LOCK;
	}
	if (found) {
		site->cheap = site->arrival = true;
		site->offset = sym->offset + (in->address - sym->vaddr);
	}
	if (in)
		cs_free(in, 1);
	return found;
}

void site_choose(struct elf_file *elf, const struct elf_symbol *sym, uint32_t regs,
	unsigned int flags, struct site *ret_site)
{
	uint8_t code[CODE_MAX];
	size_t len = sym->size;
	csh cs;

	*ret_site = (struct site){ .offset = sym->offset };
	if (elf_machine(elf) != EM_X86_64)
		return; /* arm64 simulates adr, branches and literal loads only: all entries cost
			   alike */
	if (!len)
		len = UNSIZED_LEN;
	if (len > sizeof(code))
		len = sizeof(code);
	if (elf_read_at_offset(elf, sym->offset, code, len))
		return;
	if (cs_open(CS_ARCH_X86, CS_MODE_64, &cs))
		return;
	if (cs_option(cs, CS_OPT_DETAIL, CS_OPT_ON)) {
		cs_close(&cs);
		return;
	}
	if (!(flags & SITE_ARRIVAL) || !choose_arrival(cs, code, len, sym, regs, flags, ret_site))
		choose_x86(cs, code, len, sym, flags & SITE_RETURNS ? regs | 1u << REG_SP : regs, flags, ret_site);
	cs_close(&cs);
}
