// SPDX-License-Identifier: BSD-2-Clause
/*
 * A uprobe on an instruction that the kernel emulates costs a twentieth of one that it must
 * single-step (every #DB leaves a guest). Most functions start with endbr64, which is
 * single-stepped; right after it there usually is a push, which is emulated.
 */
#include "target/site.h"

#include <errno.h>
#include <string.h>

#include "probe.h"
#include "target/code.h"

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

/* Linux 6.18 calls a trampoline from there, which uses the stack of the function below the stack pointer. */
static bool is_nop5(const cs_insn *in)
{
	return in->id == X86_INS_NOP && in->size == 5;
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

static bool reg_is_part(x86_reg reg, uint32_t regs)
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
	/* a store may hit an argument in memory */
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
		if (reg_is_part(written[i], regs))
			return false;
	}
	return true;
}

/* The target of a direct jump; 0: it is no such jump. */
static uint64_t jump_to(csh cs, const cs_insn *in)
{
	const cs_x86_op *op = &in->detail->x86.operands[0];

	return is_jump(cs, in) && in->detail->x86.op_count == 1 && op->type == X86_OP_IMM ? (uint64_t)op->imm : 0;
}

/* Whether a direct jump in the code goes to from..to, inclusive. Bytes that do not decode may hide one: `undecoded` is the
 * answer then. */
static bool jumps_into(const struct code *c, uint64_t from, uint64_t to, bool undecoded)
{
	struct code_place at = code_at(c, c->vaddr);

	while (code_next(c, &at, c->ahead)) {
		uint64_t goes = jump_to(c->cs, c->ahead);

		if (goes && goes >= from && goes <= to)
			return true;
	}
	return at.left && undecoded;
}

/* Whether the site is reached once per call, as far as can be seen. */
static bool is_reached_once(const struct code *c, const struct elf_symbol *sym, const cs_insn *site)
{
	uint64_t at = site->address - sym->vaddr;

	if (!at)
		return true; /* no worse than the entry */
	/* callers may skip an endbr64, so the instruction after it is an entry, too; unless the
	 * function loops there, and none loops to a push */
	if (at == 4 && !memcmp(c->bytes, "\xf3\x0f\x1e\xfa", 4))
		return site->id == X86_INS_PUSH || !jumps_into(c, site->address, site->address, false);
	return sym->size == c->len && !jumps_into(c, sym->vaddr, site->address, true);
}

/* A conditional jump to a return: the code after it is for the calls that have work to do. */
static bool is_early_return(const struct code *c, const cs_insn *in)
{
	uint64_t to = in->id == X86_INS_JMP ? 0 : jump_to(c->cs, in);
	struct code_place at = code_at(c, to);

	return to > in->address && code_next(c, &at, c->ahead) && cs_insn_group(c->cs, c->ahead, CS_GRP_RET);
}

static void choose_x86(const struct code *c, const struct elf_symbol *sym, uint32_t regs, unsigned int flags, struct site *site)
{
	const cs_insn *in = c->in;
	struct code_place at = code_at(c, sym->vaddr);
	bool r10_is_sp = false, after_nop5 = false;

	while (at.addr - sym->vaddr < WAY_MAX && code_next(c, &at, c->in)) {
		uint64_t offset = sym->offset + (in->address - sym->vaddr);

		if (after_nop5 && is_reached_once(c, sym, in))
			site->offset = offset;
		after_nop5 = is_nop5(in) && site->offset == offset;
		if (site_is_emulated(in) && is_reached_once(c, sym, in)) {
			site->cheap = true;
			site->offset = offset;
		}
		if (flags & SITE_PAST_EARLY_RETURN && is_early_return(c, in))
			continue;
		if (site_is_emulated(in) || is_branch(c->cs, in) || !keeps_entry_state(c->cs, in, regs, flags, r10_is_sp))
			break;
		r10_is_sp |= saves_sp_in_r10(in);
	}
}

/*
 * Finds the place where a thread that has come to a barrier knows whether it is the last: the je or jne after
 *	lock xadd counter, reg;  ...;  cmp
 * The zero flag alone decides a jump on equality; what is equal is the count and the number of threads.
 */
static bool choose_arrival(const struct code *c, const struct elf_symbol *sym, uint32_t regs, unsigned int flags, struct site *site)
{
	const cs_insn *in = c->in;
	struct code_place at = code_at(c, sym->vaddr);
	bool counted = false, compared = false;

	while (at.addr - sym->vaddr < WAY_MAX && code_next(c, &at, c->in)) {
		if (compared && (in->id == X86_INS_JE || in->id == X86_INS_JNE) && site_is_emulated(in)) {
			if (!is_reached_once(c, sym, in))
				return false;
			site->cheap = site->arrival = true;
			site->offset = sym->offset + (in->address - sym->vaddr);
			return true;
		}
		compared = counted && in->id == X86_INS_CMP;
		if (is_early_return(c, in))
			continue;
		if (is_branch(c->cs, in) || !keeps_entry_state(c->cs, in, regs, flags, false))
			break;
		counted |= in->id == X86_INS_XADD && in->detail->x86.prefix[0] == X86_PREFIX_LOCK;
	}
	return false;
}

bool site_is_nop5(struct elf_file *elf, uint64_t offset)
{
	struct code_place at;
	struct code c;
	bool nop5;

	if (!code_read(elf, &(struct elf_symbol){ .offset = offset }, 5, &c))
		return false;
	at = code_at(&c, 0);
	nop5 = code_next(&c, &at, c.in) && is_nop5(c.in);
	code_close(&c);
	return nop5;
}

/* On arm64, which simulates adr, branches and literal loads only, all entries cost alike. */
void site_choose(struct elf_file *elf, const struct elf_symbol *sym, uint32_t regs,
	unsigned int flags, struct site *ret_site)
{
	size_t len = !sym->size ? UNSIZED_LEN : sym->size < CODE_MAX ? sym->size
								     : CODE_MAX;
	struct code c;

	*ret_site = (struct site){ .offset = sym->offset };
	if (!code_read(elf, sym, len, &c))
		return;
	if (!(flags & SITE_ARRIVAL) || !choose_arrival(&c, sym, regs, flags, ret_site))
		choose_x86(&c, sym, flags & SITE_RETURNS ? regs | 1u << REG_SP : regs, flags, ret_site);
	code_close(&c);
}

/*
 * Where a function with a stack protector returns:
 *	sub reg, fs:0x28;  jne to a call of __stack_chk_fail;  add rsp, N or lea rsp, [rbp - N];  pop ...;  ret
 * The jump is emulated, comes once for each return, and what follows says where the return address is.
 */
#define EXIT_CODE_MAX (16 << 10) /* the longest function that is looked at */
#define CANARY 0x28              /* its offset in the thread's area */
#define JUMPS_MAX 1024

/* The way from a stack protector's jump, as far as it has been followed. */
struct site_way {
	uint64_t from; /* of the jump; 0: there is none */
	bool checked;  /* the instruction before was its comparison */
	bool bp;       /* the stack pointer is the frame pointer plus `bytes`, else its value at the jump plus `bytes` */
	bool bp_lost;  /* the frame pointer is no longer the function's */
	int64_t bytes;
	bool unwinds; /* the last instruction took down the frame */
};

struct exits {
	struct code code;
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

static bool insn_writes_reg(csh cs, const cs_insn *in, x86_reg reg)
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
static bool way_follow_insn(csh cs, struct site_way *w, const cs_insn *in)
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
	w->bp_lost |= insn_writes_reg(cs, in, X86_REG_RBP);
	return !insn_writes_reg(cs, in, X86_REG_RSP);
}

static int exit_add(struct exits *e, const struct site_way *w, uint64_t at)
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

static bool jump_is_inside(const struct exits *e, const cs_insn *in)
{
	const cs_x86_op *op = &in->detail->x86.operands[0];

	return op->type == X86_OP_IMM && (uint64_t)op->imm - e->sym.vaddr < e->sym.size;
}

/* A tail call, after the frame was taken down, is a way out, too. */
static int exits_take_jump(struct exits *e, struct site_way *w, const cs_insn *in)
{
	const cs_x86_op *op = &in->detail->x86.operands[0];
	bool checks = w->checked && (in->id == X86_INS_JNE) && site_is_emulated(in);

	if (op->type == X86_OP_IMM && e->n_jumps == JUMPS_MAX)
		return -ENOENT;
	if (op->type == X86_OP_IMM)
		e->jumps[e->n_jumps++] = (uint64_t)op->imm;
	if (in->id == X86_INS_JMP && w->unwinds && !jump_is_inside(e, in))
		return -ENOENT;
	*w = (struct site_way){ .from = checks ? in->address : 0 };
	return 0;
}

static int exits_take_insn(struct exits *e, struct site_way *w, const cs_insn *in)
{
	int err;

	if (cs_insn_group(e->code.cs, in, CS_GRP_RET)) {
		err = in->detail->x86.op_count ? -ENOENT : exit_add(e, w, in->address);
		*w = (struct site_way){ 0 };
		return err;
	}
	if (is_jump(e->code.cs, in))
		return exits_take_jump(e, w, in);
	if (cs_insn_group(e->code.cs, in, CS_GRP_CALL) || !way_follow_insn(e->code.cs, w, in))
		w->from = 0;
	w->checked = is_canary_check(in);
	return 0;
}

/* Whether no jump enters the way from a place to its return, which would bypass the place. */
static bool exits_are_passed(const struct exits *e)
{
	for (int i = 0; i < e->n; i++) {
		for (unsigned int k = 0; k < e->n_jumps; k++) {
			if (e->jumps[k] > e->from[i] && e->jumps[k] <= e->to[i])
				return false;
		}
	}
	return e->n > 0;
}

static int exits_find(struct exits *e, struct code_place *at)
{
	struct site_way w = { 0 };
	int err = 0;

	while (!err && code_next(&e->code, at, e->code.in))
		err = exits_take_insn(e, &w, e->code.in);
	return err || !exits_are_passed(e) ? -ENOENT : 0;
}

/* A jump out of the function may be a tail call. Conditional ones are not: with them compilers reach the cold parts of the
 * function, which are kept elsewhere. */
static int returns_find(struct exits *e, struct code_place *at)
{
	const cs_insn *in = e->code.in;
	int err = 0;

	while (!err && code_next(&e->code, at, e->code.in)) {
		bool returns = cs_insn_group(e->code.cs, in, CS_GRP_RET);

		if (returns ? in->detail->x86.op_count || e->n == SITE_EXITS_MAX : in->id == X86_INS_JMP && !jump_is_inside(e, in))
			err = -ENOENT;
		else if (returns) /* the stack pointer is what it was at the entry */
			e->sites[e->n++] = (struct site){ .offset = e->sym.offset + (in->address - e->sym.vaddr), .exit = true };
	}
	return err;
}

static int code_find_sites(struct elf_file *elf, const struct elf_symbol *sym, struct site *ret_sites,
	int (*find)(struct exits *e, struct code_place *at))
{
	struct exits e = { .sym = *sym, .sites = ret_sites };
	struct code_place at;
	int err;

	if (!sym->size || sym->size > EXIT_CODE_MAX || !code_read(elf, sym, sym->size, &e.code))
		return -ENOENT;
	at = code_at(&e.code, sym->vaddr);
	err = find(&e, &at);
	code_close(&e.code);
	return err || at.left || !e.n ? -ENOENT : e.n;
}

int site_exits(struct elf_file *elf, const struct elf_symbol *sym, struct site ret_sites[SITE_EXITS_MAX])
{
	return code_find_sites(elf, sym, ret_sites, exits_find);
}

int site_returns(struct elf_file *elf, const struct elf_symbol *sym, struct site ret_sites[SITE_EXITS_MAX])
{
	return code_find_sites(elf, sym, ret_sites, returns_find);
}
