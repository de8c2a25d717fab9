// SPDX-License-Identifier: BSD-2-Clause
/*
 * CPython 3.12 begins to run each Python function, whoever calls it, by counting down how deep the recursion may still be:
 *	mov eax, [state + N];  lea edx, [rax - 1];  mov [state + N], edx;  test eax, eax;  jle
 * The jump is the place. Where a function returns, or an exception leaves it, a function is called with its frame as
 * the second argument, _PyEvalFrameClearAndPop(), which is known by its symbol, or by its looking at once who owns
 * the frame. Generators that yield do not come by there.
 */
#include <errno.h>

#include "probe.h"
#include "target/python_site_inner.h"

#define CLEAR "_PyEvalFrameClearAndPop"
#define CLEAR_WAY 12   /* of its first instructions, one compares ... */
#define FRAME_OWNER 70 /* ... this byte of the frame */
#define DEPTH 28       /* in the state: int py_recursion_remaining */
#define TEST_WAY 2     /* instructions between the count and the jump */

/* The register with the state, if the instruction stores an int that may be the count; else PLACE_NONE. */
static x86_reg counts(const cs_insn *in)
{
	const cs_x86_op *op = &in->detail->x86.operands[0];

	if ((in->id != X86_INS_MOV && in->id != X86_INS_SUB && in->id != X86_INS_ADD && in->id != X86_INS_DEC) ||
		op->type != X86_OP_MEM || op->size != 4 || op->mem.disp != DEPTH || op->mem.index != X86_REG_INVALID ||
		op->mem.base == X86_REG_RSP)
		return X86_REG_INVALID;
	return op->mem.base;
}

static bool is_test(const cs_insn *in)
{
	return in->id == X86_INS_TEST || in->id == X86_INS_CMP;
}

/* "Not above zero", in whichever order. */
static bool is_depth_jump(const cs_insn *in)
{
	return python_is_conditional_jump(in) && (in->id == X86_INS_JLE || in->id == X86_INS_JG || in->id == X86_INS_JS ||
							 in->id == X86_INS_JNS);
}

static int find_entries(struct python_search *s, cs_insn *in)
{
	struct python_walk_code w = python_code_at(s, s->eval.vaddr);
	x86_reg state = X86_REG_INVALID;
	int way = 0, err = 0;

	while (!err && w.addr - s->eval.vaddr < s->eval.size && python_code_next(s, &w, in)) {
		x86_reg base = counts(in);

		if (base != X86_REG_INVALID && python_place_of(base) != PLACE_NONE) {
			state = base;
			way = 0;
		} else if (state != X86_REG_INVALID && is_depth_jump(in)) {
			err = python_add_site(s, in->address,
				(struct site){ .reg = python_place_of(state), .no_yields = true });
			state = X86_REG_INVALID;
		} else if (!is_test(in) || ++way > TEST_WAY) {
			state = X86_REG_INVALID;
		}
	}
	return err || w.addr - s->eval.vaddr < s->eval.size ? -ENOTSUP : 0;
}

/* Whether a function looks at once who owns the frame that its second argument is. */
static bool looks_at_owner(const struct python_search *s, cs_insn *in, uint64_t addr)
{
	struct python_walk_code w = python_code_at(s, addr);
	x86_reg frame = X86_REG_RSI;

	for (int i = 0; i < CLEAR_WAY && python_code_next(s, &w, in); i++) {
		const cs_x86_op *ops = in->detail->x86.operands;

		if (in->id == X86_INS_CALL || in->id == X86_INS_RET || in->id == X86_INS_JMP)
			return false;
		if (in->id == X86_INS_MOV && ops[0].type == X86_OP_REG && ops[0].size == 8 && ops[1].type == X86_OP_REG &&
			ops[1].reg == X86_REG_RSI)
			frame = ops[0].reg;
		if (in->id == X86_INS_CMP && ops[0].type == X86_OP_MEM && ops[0].size == 1 && ops[0].mem.disp == FRAME_OWNER &&
			ops[0].mem.index == X86_REG_INVALID && (ops[0].mem.base == frame || ops[0].mem.base == X86_REG_RSI))
			return true;
	}
	return false;
}

/* The function by what it does: of those that the interpreter calls exactly one. */
static int find_clear(const struct python_search *s, cs_insn *in, cs_insn *ahead, struct elf_symbol *ret_sym)
{
	struct python_walk_code w = python_code_at(s, s->eval.vaddr);
	uint64_t found = 0;

	while (w.addr - s->eval.vaddr < s->eval.size && python_code_next(s, &w, in)) {
		const cs_x86_op *op = &in->detail->x86.operands[0];
		uint64_t to = (uint64_t)op->imm;

		if (in->id != X86_INS_CALL || op->type != X86_OP_IMM || !python_in_text(s, to) || to == found)
			continue;
		if (looks_at_owner(s, ahead, to) && found)
			return -ENOTSUP;
		else if (looks_at_owner(s, ahead, to))
			found = to;
	}
	if (!found)
		return -ENOTSUP;
	*ret_sym = (struct elf_symbol){ .name = CLEAR, .vaddr = found, .size = 16 };
	return elf_vaddr_to_offset(s->elf, found, &ret_sym->offset);
}

static int find_exit(struct python_search *s, cs_insn *in, cs_insn *ahead)
{
	struct elf_symbol clear;
	struct site site;

	if (elf_find_symbol(s->elf, CLEAR, &clear) && find_clear(s, in, ahead, &clear))
		return -ENOTSUP;
	site_choose(s->elf, &clear, 1u << REG_ARG2, 0, &site);
	if (!site.cheap)
		return -ENOTSUP;
	return python_add_site(
		s, clear.vaddr + (site.offset - clear.offset), (struct site){ .exit = true, .exit_units = PLACE_RSI });
}

int python_find_3_12(struct python_search *s, const char **ret_why)
{
	cs_insn *in = cs_malloc(s->cs), *ahead = cs_malloc(s->cs);
	int err = in && ahead ? 0 : -ENOTSUP;

	*ret_why = "where it leaves functions is not known";
	if (!err)
		err = find_exit(s, in, ahead);
	if (!err) {
		*ret_why = "where it begins to run a function is not known";
		err = find_entries(s, in);
	}
	if (!err && s->out->n < 2)
		err = -ENOTSUP;
	if (in)
		cs_free(in, 1);
	if (ahead)
		cs_free(ahead, 1);
	return err;
}
