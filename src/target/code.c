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

/*
 * Follows a function's code with values of the form base + index * n + offset, where the base is the object, or what the
 * object has stored somewhere. Both ways of each branch are followed. Anything else is unknown, and nothing is run.
 */

#define CODE_MAX 4096   /* the longest function that is looked at */
#define STEPS_MAX 1024  /* instructions, on all ways together */
#define WAYS_MAX 32     /* branches still to be followed */
#define OBJECT_MAX 4096 /* bytes of the object in which a vector may be */
#define REGS 16

enum base {
	BASE_UNKNOWN, /* the whole value */
	BASE_NONE,
	BASE_OBJECT,
	BASE_STORED, /* the word that the object has at `at` */
};

struct value {
	enum base base;
	uint32_t at;
	int64_t index, offset;
};

struct code_way {
	uint64_t pc;
	struct value regs[REGS];
};

struct code_finder {
	struct code code;
	struct elf_symbol sym;
	struct code_way ways[WAYS_MAX];
	unsigned int n_ways, steps;
	uint8_t visits[CODE_MAX];
	bool loaded[OBJECT_MAX]; /* the object's words that are read */
	bool stored, passed, differ;
	struct element by_store, by_call;
};

static const struct value unknown;

/* The number of a general register, for its 32 or 64 bits; -1: another one, or a smaller part. */
static int reg_number(unsigned int reg)
{
	static const x86_reg regs[REGS][2] = { { X86_REG_RAX, X86_REG_EAX }, { X86_REG_RCX, X86_REG_ECX },
		{ X86_REG_RDX, X86_REG_EDX }, { X86_REG_RBX, X86_REG_EBX }, { X86_REG_RSP, X86_REG_ESP },
		{ X86_REG_RBP, X86_REG_EBP }, { X86_REG_RSI, X86_REG_ESI }, { X86_REG_RDI, X86_REG_EDI },
		{ X86_REG_R8, X86_REG_R8D }, { X86_REG_R9, X86_REG_R9D }, { X86_REG_R10, X86_REG_R10D },
		{ X86_REG_R11, X86_REG_R11D }, { X86_REG_R12, X86_REG_R12D }, { X86_REG_R13, X86_REG_R13D },
		{ X86_REG_R14, X86_REG_R14D }, { X86_REG_R15, X86_REG_R15D } };

	for (int i = 0; i < REGS; i++) {
		if (reg == regs[i][0] || reg == regs[i][1])
			return i;
	}
	return -1;
}

#define RDI 7
#define RSI 6

static struct value value_of_reg(const struct code_way *w, unsigned int reg)
{
	int n = reg_number(reg);

	return n < 0 ? unknown : w->regs[n];
}

static struct value value_of_number(int64_t n)
{
	return (struct value){ .base = BASE_NONE, .offset = n };
}

/* Bounds keep all of this far from an overflow. */
static struct value value_bound(struct value v)
{
	return v.index < 0 || v.index > INT16_MAX || v.offset < INT32_MIN || v.offset > INT32_MAX ? unknown : v;
}

static struct value value_sum(struct value a, struct value b)
{
	if (a.base == BASE_NONE)
		a.base = b.base, a.at = b.at;
	else if (b.base != BASE_NONE)
		return unknown;
	a.index += b.index;
	a.offset += b.offset;
	return a.base == BASE_UNKNOWN ? unknown : value_bound(a);
}

static struct value value_multiply(struct value a, int64_t by)
{
	if (a.base != BASE_NONE || by < 0 || by > INT16_MAX)
		return unknown;
	a.index *= by;
	a.offset *= by;
	return value_bound(a);
}

static struct value value_of_address(const struct code_way *w, const cs_x86_op *op)
{
	struct value v = value_of_number(op->mem.disp);

	if (op->mem.segment != X86_REG_INVALID)
		return unknown;
	if (op->mem.base != X86_REG_INVALID)
		v = value_sum(v, value_of_reg(w, op->mem.base));
	if (op->mem.index != X86_REG_INVALID)
		v = value_sum(v, value_multiply(value_of_reg(w, op->mem.index), op->mem.scale));
	return v;
}

static struct value value_of_operand(struct code_finder *f, const struct code_way *w, const cs_x86_op *op)
{
	struct value v;

	if (op->type == X86_OP_IMM)
		return value_bound(value_of_number(op->imm));
	if (op->type == X86_OP_REG)
		return value_of_reg(w, op->reg);
	v = value_of_address(w, op);
	if (v.base != BASE_OBJECT || v.index || op->size != 8 || v.offset < 0 || v.offset >= OBJECT_MAX)
		return unknown;
	f->loaded[v.offset] = true;
	return (struct value){ .base = BASE_STORED, .at = (uint32_t)v.offset };
}

/* The value that an instruction computes from its operands. */
static struct value insn_compute_value(struct code_finder *f, const struct code_way *w, const cs_insn *in)
{
	const cs_x86 *x = &in->detail->x86;
	const cs_x86_op *op = x->operands, *last = &op[x->op_count - 1];

	switch (in->id) {
	case X86_INS_MOV:
	case X86_INS_MOVABS:
	case X86_INS_MOVSXD:
		return value_of_operand(f, w, last);
	case X86_INS_LEA:
		return value_of_address(w, last);
	case X86_INS_ADD:
		return value_sum(value_of_operand(f, w, op), value_of_operand(f, w, last));
	case X86_INS_SUB:
		return last->type == X86_OP_IMM ? value_sum(value_of_operand(f, w, op), value_of_number(-last->imm)) : unknown;
	case X86_INS_SHL:
	case X86_INS_SAL:
		return last->type == X86_OP_IMM && last->imm < 16 ? value_multiply(value_of_operand(f, w, op), INT64_C(1) << last->imm) : unknown;
	case X86_INS_IMUL:
		return last->type == X86_OP_IMM ? value_multiply(value_of_operand(f, w, &op[x->op_count - 2]), last->imm) : unknown;
	case X86_INS_XOR:
		return op[0].type == X86_OP_REG && last->type == X86_OP_REG && op[0].reg == last->reg ? value_of_number(0) : unknown;
	default:
		return unknown;
	}
}

/* Notes that a member at this address is stored or passed on. Of several members the first in the element counts. */
static void finder_note_member(struct code_finder *f, struct value v, bool *known, struct element *e)
{
	if (v.base != BASE_STORED || v.index < 1 || v.offset < 0 || v.offset >= v.index)
		return;
	if (*known && (e->vector != v.at || e->size != (uint32_t)v.index))
		f->differ = true;
	if (!*known || v.offset < e->member)
		*e = (struct element){ v.at, (uint32_t)v.index, (uint32_t)v.offset };
	*known = true;
}

static void finder_take_call(struct code_finder *f, struct code_way *w)
{
	static const uint8_t lost[] = { 0, 1, 2, RSI, RDI, 8, 9, 10, 11 };

	finder_note_member(f, w->regs[RDI], &f->passed, &f->by_call);
	for (size_t i = 0; i < sizeof(lost); i++)
		w->regs[lost[i]] = unknown;
}

static void finder_take_insn(struct code_finder *f, struct code_way *w, const cs_insn *in)
{
	const cs_x86_op *to = in->detail->x86.operands;
	struct value v = unknown;
	cs_regs read, written;
	uint8_t n_read, n_written;
	int reg;

	if (cs_insn_group(f->code.cs, in, CS_GRP_CALL)) {
		finder_take_call(f, w);
		return;
	}
	if (in->detail->x86.op_count && to->type == X86_OP_MEM && to->access & CS_AC_WRITE)
		finder_note_member(f, value_of_address(w, to), &f->stored, &f->by_store);
	if (in->detail->x86.op_count && to->type == X86_OP_REG && to->size >= 4)
		v = insn_compute_value(f, w, in);
	if (cs_regs_access(f->code.cs, in, read, &n_read, written, &n_written))
		n_written = 0;
	for (uint8_t i = 0; i < n_written; i++) {
		static const x86_reg parts[][2] = { { X86_REG_AL, X86_REG_RAX }, { X86_REG_CL, X86_REG_RCX },
			{ X86_REG_DL, X86_REG_RDX }, { X86_REG_BL, X86_REG_RBX }, { X86_REG_SIL, X86_REG_RSI },
			{ X86_REG_DIL, X86_REG_RDI } };
		unsigned int whole = written[i];

		for (size_t k = 0; k < sizeof(parts) / sizeof(*parts); k++)
			whole = whole == parts[k][0] ? parts[k][1] : whole;
		reg = reg_number(whole);
		if (reg >= 0)
			w->regs[reg] = to->type == X86_OP_REG && written[i] == to->reg ? v : unknown;
	}
}

/* Returns whether the way goes on, at *pc, and queues the other way of a conditional jump. */
static bool finder_take_branch(struct code_finder *f, struct code_way *w, const cs_insn *in, uint64_t *pc)
{
	const cs_x86_op *op = in->detail->x86.operands;
	uint64_t to = op->type == X86_OP_IMM ? (uint64_t)op->imm : 0;
	bool inside = to - f->sym.vaddr < f->sym.size;

	if (in->id == X86_INS_JMP) {
		if (!inside)
			finder_take_call(f, w); /* a tail call */
		*pc = to;
		return inside;
	}
	if (inside && f->n_ways < WAYS_MAX) {
		f->ways[f->n_ways] = *w;
		f->ways[f->n_ways++].pc = to;
	}
	return true;
}

/* Follows a way to its end. All ways together pass each instruction at most twice. */
static void finder_follow_way(struct code_finder *f, struct code_way *w)
{
	const cs_insn *in = f->code.in;
	uint64_t pc = w->pc;

	for (;;) {
		struct code_place at = code_at(&f->code, pc);

		if (!at.left || f->visits[pc - f->sym.vaddr]++ >= 2 || f->steps++ >= STEPS_MAX || !code_next(&f->code, &at, f->code.in) ||
			cs_insn_group(f->code.cs, in, CS_GRP_RET))
			return;
		pc = at.addr;
		if (!cs_insn_group(f->code.cs, in, CS_GRP_JUMP))
			finder_take_insn(f, w, in);
		else if (!finder_take_branch(f, w, in, &pc))
			return;
	}
}

static bool finder_find_element(struct code_finder *f, struct element *ret_element)
{
	const struct element *e = &f->by_call;

	f->ways[0] = (struct code_way){ .pc = f->sym.vaddr };
	f->ways[0].regs[RDI] = (struct value){ .base = BASE_OBJECT };
	f->ways[0].regs[RSI] = (struct value){ .base = BASE_NONE, .index = 1 };
	f->n_ways = 1;
	while (f->n_ways) {
		struct code_way w = f->ways[--f->n_ways];

		finder_follow_way(f, &w);
	}
	if (!f->passed)
		e = &f->by_store;
	if (f->differ || !(f->passed || f->stored) || e->vector + 8 >= OBJECT_MAX || !f->loaded[e->vector + 8])
		return false;
	*ret_element = *e;
	return true;
}

bool element_find(struct elf_file *elf, const struct elf_symbol *function, struct element *ret_element)
{
	struct code_finder f = { .sym = *function };
	bool found;

	if (!function->size || function->size > CODE_MAX || !code_read(elf, function, function->size, &f.code))
		return false;
	found = finder_find_element(&f, ret_element);
	code_close(&f.code);
	return found;
}
