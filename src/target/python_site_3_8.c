// SPDX-License-Identifier: BSD-2-Clause
/*
 * CPython 3.8 to 3.10 call _PyEval_EvalFrameDefault() for each Python function, with its frame as an argument. It ends with
 * a call, of _Py_CheckFunctionResult():
 *	call ...;  add rsp, N;  pop ...;  ret
 * or with a jump to that function behind the pops. Both are emulated, and what follows says where the frame of this call
 * of the interpreter is. A way out without a call, as of one that fails before it begins, is not seen.
 */
#include <errno.h>
#include <stdlib.h>

#include "probe.h"
#include "target/python_site_inner.h"

#define WAY_MAX 16  /* the most instructions between the last call and the return */
#define CANARY 0x28 /* of the stack protector, in the thread's area */

/* What an instruction on the way out does to the stack pointer; false: it is none that is found there. */
static bool follow(const cs_insn *in, int64_t *bytes)
{
	const cs_x86_op *ops = in->detail->x86.operands;

	switch (in->id) {
	case X86_INS_POP:
		*bytes += 8;
		return ops[0].type == X86_OP_REG && ops[0].reg != X86_REG_RSP;
	case X86_INS_ADD:
		*bytes += ops[1].imm;
		return ops[0].type == X86_OP_REG && ops[0].reg == X86_REG_RSP && ops[1].type == X86_OP_IMM;
	case X86_INS_LEA:
		*bytes += ops[1].mem.disp;
		return ops[0].reg == X86_REG_RSP && ops[1].mem.base == X86_REG_RSP && ops[1].mem.index == X86_REG_INVALID;
	case X86_INS_SUB: /* the stack protector's comparison, or the next one */
	case X86_INS_XOR:
		return ops[0].type == X86_OP_REG && ops[0].reg != X86_REG_RSP;
	case X86_INS_MOV:
		return ops[0].type == X86_OP_REG && ops[0].reg != X86_REG_RSP;
	case X86_INS_JNE:
	case X86_INS_NOP:
		return true;
	default:
		return false;
	}
}

/* Whether what comes behind a call leads to the return, and by how much the stack pointer is below its value at the entry. */
static bool returns(const struct python_search *s, cs_insn *in, uint64_t addr, uint16_t *ret_units)
{
	struct python_walk_code w = python_code_at(s, addr);
	int64_t bytes = 0;

	for (int i = 0; i < WAY_MAX && python_code_next(s, &w, in); i++) {
		const cs_x86_op *op = &in->detail->x86.operands[0];

		if (in->id == X86_INS_RET) {
			if (in->detail->x86.op_count || bytes < 0 || bytes % 8 || bytes / 8 > PROBE_COOKIE_EXIT_MAX)
				return false;
			*ret_units = (uint16_t)(bytes / 8);
			return true;
		}
		if (in->id == X86_INS_JMP && op->type == X86_OP_IMM && python_in_text(s, (uint64_t)op->imm))
			w = python_code_at(s, (uint64_t)op->imm);
		else if (!follow(in, &bytes))
			return false;
	}
	return false;
}

static int find_exits(struct python_search *s, cs_insn *in, cs_insn *ahead)
{
	struct python_walk_code w = python_code_at(s, s->eval.vaddr);
	bool unwound = false;
	int err = 0;

	while (!err && w.addr - s->eval.vaddr < s->eval.size && python_code_next(s, &w, in)) {
		const cs_x86_op *op = &in->detail->x86.operands[0];
		struct site site = { .exit = true };

		if (in->id == X86_INS_CALL && site_is_emulated(in) && returns(s, ahead, w.addr, &site.exit_units))
			err = python_add_site(s, in->address, site);
		else if (in->id == X86_INS_JMP && unwound && site_is_emulated(in) &&
			 (uint64_t)op->imm - s->eval.vaddr >= s->eval.size)
			err = python_add_site(s, in->address, site);
		unwound = in->id == X86_INS_POP;
	}
	return err || w.addr - s->eval.vaddr < s->eval.size ? -ENOTSUP : 0;
}

int python_find_3_8(struct python_search *s, const char **ret_why)
{
	cs_insn *in = cs_malloc(s->cs), *ahead = cs_malloc(s->cs);
	struct site entry = { .reg = s->out->minor == 8 ? PLACE_RDI : PLACE_RSI };
	struct python_walk_code w = python_code_at(s, s->eval.vaddr);
	int err = in && ahead ? 0 : -ENOTSUP;

	*ret_why = "where it leaves functions is not known";
	if (!err)
		err = find_exits(s, in, ahead);
	if (!err && !s->out->n)
		err = -ENOTSUP;
	if (!err) {
		*ret_why = "where it begins to run a function is not known";
		err = python_code_next(s, &w, in) && site_is_emulated(in) ? python_add_site(s, s->eval.vaddr, entry) : -ENOTSUP;
	}
	if (in)
		cs_free(in, 1);
	if (ahead)
		cs_free(ahead, 1);
	return err;
}
