// SPDX-License-Identifier: BSD-2-Clause
/*
 * Where a function with a stack protector returns:
 *	sub reg, fs:0x28;  jne to a call of __stack_chk_fail;  add rsp, N or lea rsp, [rbp - N];  pop ...;  ret
 * The jump is emulated, comes once for each return, and what follows says where the return address is.
 */
#include <elf.h>
#include <errno.h>

#include "probe.h"
#include "target/site.h"
#include "target/site_code.h"

#define CODE_MAX (16 << 10) /* the longest function that is looked at */
#define CANARY 0x28	    /* its offset in the thread's area */
#define JUMPS_MAX 1024

/* The way from a stack protector's jump, as far as it has been followed. */
struct way {
	uint64_t from; /* of the jump; 0: there is none */
	bool checked;  /* the instruction before was its comparison */
	bool bp;       /* the stack pointer is the frame pointer plus `bytes`, else what it was at the jump plus that */
	bool bp_lost;  /* the frame pointer is no longer the function's */
	int64_t bytes;
	bool unwinds; /* the last instruction took down the frame */
};

struct exits {
	csh cs;
	struct elf_symbol sym;
	struct site *sites;
	uint64_t from[SITE_EXITS_MAX], to[SITE_EXITS_MAX]; /* of each, the jump and the return */
	int n;
	uint64_t jumps[JUMPS_MAX]; /* where jumps in the function go */
	unsigned int n_jumps;
};

static bool is_canary_check(const cs_insn *in)
{
	const cs_x86 *x = &in->detail->x86;

	if (in->id != X86_INS_SUB && in->id != X86_INS_XOR && in->id != X86_INS_CMP)
		return false;
	for (uint8_t i = 0; i < x->op_count; i++) {
		const cs_x86_op *op = &x->operands[i];

		if (op->type == X86_OP_MEM && op->mem.segment == X86_REG_FS && op->mem.disp == CANARY &&
			op->mem.base == X86_REG_INVALID && op->mem.index == X86_REG_INVALID)
			return true;
	}
	return false;
}

static bool writes(csh cs, const cs_insn *in, x86_reg reg)
{
	cs_regs read, written;
	uint8_t n_read, n_written;

	if (cs_regs_access(cs, in, read, &n_read, written, &n_written))
		return true;
	for (uint8_t i = 0; i < n_written; i++) {
		if (written[i] == reg)
			return true;
	}
	return false;
}

/* Follows what an instruction on the way does to the stack. False: it is not known. */
static bool follow(csh cs, struct way *w, const cs_insn *in)
{
	const cs_x86_op *ops = in->detail->x86.operands;

	w->unwinds = true;
	if (in->id == X86_INS_POP && in->detail->x86.op_count == 1 && ops[0].type == X86_OP_REG && ops[0].size == 8) {
		w->bp_lost |= ops[0].reg == X86_REG_RBP;
		w->bytes += 8;
		return ops[0].reg != X86_REG_RSP;
	}
	if (in->id == X86_INS_ADD && ops[0].type == X86_OP_REG && ops[0].reg == X86_REG_RSP && ops[1].type == X86_OP_IMM) {
		w->bytes += ops[1].imm;
		return true;
	}
	if (in->id == X86_INS_LEA && ops[0].reg == X86_REG_RSP) {
		w->bytes = ops[1].mem.disp;
		w->bp = true;
		return ops[1].mem.base == X86_REG_RBP && ops[1].mem.index == X86_REG_INVALID && !w->bp_lost;
	}
	if (in->id == X86_INS_LEAVE) {
		w->bytes = 8;
		w->bp = true;
		return !w->bp_lost;
	}
	w->unwinds = false;
	w->bp_lost |= writes(cs, in, X86_REG_RBP);
	return !writes(cs, in, X86_REG_RSP);
}

static int exit_add(struct exits *e, const struct way *w, uint64_t at)
{
	if (!w->from || w->bytes < 0 || w->bytes % 8 || w->bytes / 8 > PROBE_COOKIE_EXIT_MAX || e->n == SITE_EXITS_MAX)
		return -ENOENT;
	e->from[e->n] = w->from;
	e->to[e->n] = at;
	e->sites[e->n++] = (struct site){
		.offset = e->sym.offset + (w->from - e->sym.vaddr),
		.cheap = true,
		.exit = true,
		.exit_bp = w->bp,
		.exit_units = (uint16_t)(w->bytes / 8),
	};
	return 0;
}

static bool is_inside(const struct exits *e, const cs_insn *in)
{
	const cs_x86_op *op = &in->detail->x86.operands[0];

	return op->type == X86_OP_IMM && (uint64_t)op->imm - e->sym.vaddr < e->sym.size;
}

/* A jump that takes the place of a return, after the frame was taken down, is a way out, too. */
static int take_jump(struct exits *e, struct way *w, const cs_insn *in)
{
	const cs_x86_op *op = &in->detail->x86.operands[0];
	bool checks = w->checked && (in->id == X86_INS_JNE) && site_is_emulated(in);

	if (op->type == X86_OP_IMM && e->n_jumps == JUMPS_MAX)
		return -ENOENT;
	if (op->type == X86_OP_IMM)
		e->jumps[e->n_jumps++] = (uint64_t)op->imm;
	if (in->id == X86_INS_JMP && w->unwinds && !is_inside(e, in))
		return -ENOENT;
	*w = (struct way){ .from = checks ? in->address : 0 };
	return 0;
}

static int take(struct exits *e, struct way *w, const cs_insn *in)
{
	int err;

	if (cs_insn_group(e->cs, in, CS_GRP_RET)) {
		err = in->detail->x86.op_count ? -ENOENT : exit_add(e, w, in->address);
		*w = (struct way){ 0 };
		return err;
	}
	if (cs_insn_group(e->cs, in, CS_GRP_JUMP) || cs_insn_group(e->cs, in, CS_GRP_BRANCH_RELATIVE)) {
		if (!cs_insn_group(e->cs, in, CS_GRP_CALL))
			return take_jump(e, w, in);
	}
	if (cs_insn_group(e->cs, in, CS_GRP_CALL) || !follow(e->cs, w, in))
		w->from = 0;
	w->checked = is_canary_check(in);
	return 0;
}

/* Nothing may jump to the way between a place and its return, past the place. */
static bool are_passed(const struct exits *e)
{
	for (int i = 0; i < e->n; i++) {
		for (unsigned int k = 0; k < e->n_jumps; k++) {
			if (e->jumps[k] > e->from[i] && e->jumps[k] <= e->to[i])
				return false;
		}
	}
	return e->n > 0;
}

static int exits_find(struct exits *e, const uint8_t *code)
{
	cs_insn *in = cs_malloc(e->cs);
	struct way w = { 0 };
	uint64_t addr = e->sym.vaddr;
	size_t left = e->sym.size;
	int err = in ? 0 : -ENOENT;

	while (!err && left && cs_disasm_iter(e->cs, &code, &left, &addr, in))
		err = take(e, &w, in);
	if (in)
		cs_free(in, 1);
	if (err || left || !are_passed(e))
		return -ENOENT;
	return e->n;
}

/* At the return the stack pointer is what it was at the entry. */
static int return_add(struct exits *e, const cs_insn *in)
{
	if (in->detail->x86.op_count || e->n == SITE_EXITS_MAX)
		return -ENOENT;
	e->sites[e->n++] = (struct site){ .offset = e->sym.offset + (in->address - e->sym.vaddr), .exit = true };
	return 0;
}

/* Jumps out of the function may be calls in place of returns, but for conditional ones: compilers have those go to the parts that are
 * hardly ever run, which are kept elsewhere. */
static bool may_leave(const struct exits *e, const cs_insn *in)
{
	return in->id == X86_INS_JMP && !is_inside(e, in);
}

static int returns_find(struct exits *e, const uint8_t *code)
{
	cs_insn *in = cs_malloc(e->cs);
	uint64_t addr = e->sym.vaddr;
	size_t left = e->sym.size;
	int err = in ? 0 : -ENOENT;

	while (!err && left && cs_disasm_iter(e->cs, &code, &left, &addr, in)) {
		if (cs_insn_group(e->cs, in, CS_GRP_RET))
			err = return_add(e, in);
		else if (may_leave(e, in))
			err = -ENOENT;
	}
	if (in)
		cs_free(in, 1);
	return err || left || !e->n ? -ENOENT : e->n;
}

static int find_with(struct elf_file *elf, const struct elf_symbol *sym, struct site *ret_sites,
	int (*find)(struct exits *e, const uint8_t *code))
{
	struct exits e = { .sym = *sym, .sites = ret_sites };
	uint8_t code[CODE_MAX];
	int n = -ENOENT;

	if (elf_machine(elf) != EM_X86_64 || !sym->size || sym->size > sizeof(code) ||
		elf_read_at_offset(elf, sym->offset, code, sym->size))
		return -ENOENT;
	if (cs_open(CS_ARCH_X86, CS_MODE_64, &e.cs))
		return -ENOENT;
	if (!cs_option(e.cs, CS_OPT_DETAIL, CS_OPT_ON))
		n = find(&e, code);
	cs_close(&e.cs);
	return n;
}

int site_exits(struct elf_file *elf, const struct elf_symbol *sym, struct site ret_sites[SITE_EXITS_MAX])
{
	return find_with(elf, sym, ret_sites, exits_find);
}

int site_returns(struct elf_file *elf, const struct elf_symbol *sym, struct site ret_sites[SITE_EXITS_MAX])
{
	return find_with(elf, sym, ret_sites, returns_find);
}
