// SPDX-License-Identifier: BSD-2-Clause
#include "stack/unwind.h"

#include <dwarf.h>
#include <errno.h>
#include <string.h>

#define DEPTH_MAX 16

#ifdef __x86_64__
#define ADDRESS_MASK UINT64_MAX
#else
/* without what authenticates a pointer */
#define ADDRESS_MASK ((UINT64_C(1) << 48) - 1)
#endif

void unwind_start(struct unwind *u, const uint64_t *regs, const void *stack, size_t size)
{
	memcpy(u->regs, regs, sizeof(u->regs));
	u->known = (UINT64_C(1) << ROW_REGS) - 1;
	u->start = regs[ROW_SP];
	u->stack = stack;
	u->size = size;
	u->exact = true;
	u->inner = true;
}

uint64_t unwind_pc(const struct unwind *u)
{
	return u->regs[ROW_PC] - !u->exact;
}

static int read_stack(const struct unwind *u, uint64_t addr, size_t size, uint64_t *ret)
{
	uint64_t at = addr - u->start;

	*ret = 0;
	if (addr < u->start)
		return -EINVAL;
	if (at >= u->size || size > u->size - at)
		return -ENODATA;
	memcpy(ret, u->stack + at, size);
	return 0;
}

static bool is_known(const struct unwind *u, unsigned int reg)
{
	return reg < ROW_REGS && u->known >> reg & 1;
}

/* ---- DWARF's stack machine, as far as call frame information uses it ---- */

struct machine {
	const struct unwind *u;
	uint64_t cfa;
	uint64_t stack[DEPTH_MAX];
	unsigned int depth;
};

static int push(struct machine *m, uint64_t value)
{
	if (m->depth == DEPTH_MAX)
		return -EINVAL;
	m->stack[m->depth++] = value;
	return 0;
}

static int push_register(struct machine *m, unsigned int reg, int64_t offset)
{
	return is_known(m->u, reg) ? push(m, m->u->regs[reg] + (uint64_t)offset) : -EINVAL;
}

/* On the value at the top. */
static int run_unary(struct machine *m, const struct row_op *op)
{
	uint64_t *top = &m->stack[m->depth - 1];

	switch (op->atom) {
	case DW_OP_deref:
		return read_stack(m->u, *top, sizeof(*top), top);
	case DW_OP_deref_size:
		return op->number < 1 || op->number > 8 ? -EINVAL : read_stack(m->u, *top, (size_t)op->number, top);
	case DW_OP_dup:
		return push(m, *top);
	case DW_OP_drop:
		m->depth--;
		return 0;
	case DW_OP_neg:
		*top = -*top;
		return 0;
	case DW_OP_not:
		*top = ~*top;
		return 0;
	case DW_OP_plus_uconst:
		*top += (uint64_t)op->number;
		return 0;
	default:
		return -EINVAL;
	}
}

static int run_binary(struct machine *m, const struct row_op *op)
{
	uint64_t b = m->stack[m->depth - 1], a = m->stack[m->depth - 2], value;
	int64_t sa = (int64_t)a, sb = (int64_t)b;

	switch (op->atom) {
	case DW_OP_and:
		value = a & b;
		break;
	case DW_OP_or:
		value = a | b;
		break;
	case DW_OP_xor:
		value = a ^ b;
		break;
	case DW_OP_plus:
		value = a + b;
		break;
	case DW_OP_minus:
		value = a - b;
		break;
	case DW_OP_mul:
		value = a * b;
		break;
	case DW_OP_shl:
		value = b < 64 ? a << b : 0;
		break;
	case DW_OP_shr:
		value = b < 64 ? a >> b : 0;
		break;
	case DW_OP_eq:
		value = a == b;
		break;
	case DW_OP_ne:
		value = a != b;
		break;
	case DW_OP_ge:
		value = sa >= sb;
		break;
	case DW_OP_gt:
		value = sa > sb;
		break;
	case DW_OP_le:
		value = sa <= sb;
		break;
	case DW_OP_lt:
		value = sa < sb;
		break;
	default:
		return -EINVAL;
	}
	m->stack[--m->depth - 1] = value;
	return 0;
}

static bool is_unary(uint32_t atom)
{
	return atom == DW_OP_deref || atom == DW_OP_deref_size || atom == DW_OP_dup || atom == DW_OP_drop ||
	       atom == DW_OP_neg || atom == DW_OP_not || atom == DW_OP_plus_uconst;
}

static int run(struct machine *m, const struct row_op *op)
{
	if (op->atom >= DW_OP_lit0 && op->atom <= DW_OP_lit31)
		return push(m, op->atom - DW_OP_lit0);
	if (op->atom >= DW_OP_breg0 && op->atom <= DW_OP_breg31)
		return push_register(m, op->atom - DW_OP_breg0, op->number);
	switch (op->atom) {
	case DW_OP_bregx:
		return op->number < 0 || op->number >= ROW_REGS ? -EINVAL : push_register(m, (unsigned int)op->number, op->number2);
	case DW_OP_call_frame_cfa:
		return push(m, m->cfa);
	case DW_OP_const1u:
	case DW_OP_const1s:
	case DW_OP_const2u:
	case DW_OP_const2s:
	case DW_OP_const4u:
	case DW_OP_const4s:
	case DW_OP_const8u:
	case DW_OP_const8s:
	case DW_OP_constu:
	case DW_OP_consts:
		return push(m, (uint64_t)op->number);
	case DW_OP_stack_value:
	case DW_OP_nop:
		return 0;
	default:
		if (is_unary(op->atom))
			return m->depth ? run_unary(m, op) : -EINVAL;
		return m->depth > 1 ? run_binary(m, op) : -EINVAL;
	}
}

/* No jumps, so it ends. */
static int evaluate(const struct unwind *u, const struct row *row, const struct rule *rule, uint64_t cfa, uint64_t *ret)
{
	struct machine m = { .u = u, .cfa = cfa };
	int err = 0;

	if (row->n_ops > ROW_OPS_MAX || rule->op + rule->n_ops > row->n_ops)
		return -EINVAL;
	for (unsigned int i = 0; !err && i < rule->n_ops; i++)
		err = run(&m, &row->ops[rule->op + i]);
	if (!err && !m.depth)
		err = -EINVAL;
	if (!err)
		*ret = m.stack[m.depth - 1];
	return err;
}

/* ---- rules ---- */

static int find_cfa(const struct unwind *u, const struct row *row, uint64_t *ret_cfa)
{
	if (row->cfa.kind == RULE_IS_EXPR)
		return evaluate(u, row, &row->cfa, 0, ret_cfa);
	if (row->cfa.kind != RULE_REG || !is_known(u, row->cfa.reg))
		return -EINVAL;
	*ret_cfa = u->regs[row->cfa.reg] + (uint64_t)(int64_t)row->cfa.offset;
	return 0;
}

static int apply(const struct unwind *u, const struct row *row, unsigned int reg, uint64_t cfa, uint64_t *ret)
{
	const struct rule *rule = &row->regs[reg];
	uint64_t at = cfa + (uint64_t)(int64_t)rule->offset;
	int err;

	switch (rule->kind) {
	case RULE_SAME:
		*ret = u->regs[reg];
		return is_known(u, reg) ? 0 : -ENOENT;
	case RULE_AT:
		return read_stack(u, at, sizeof(*ret), ret);
	case RULE_IS:
		*ret = at;
		return 0;
	case RULE_REG:
		*ret = is_known(u, rule->reg) ? u->regs[rule->reg] + (uint64_t)(int64_t)rule->offset : 0;
		return is_known(u, rule->reg) ? 0 : -ENOENT;
	case RULE_AT_EXPR:
		err = evaluate(u, row, rule, cfa, &at);
		return err ? err : read_stack(u, at, sizeof(*ret), ret);
	case RULE_IS_EXPR:
		return evaluate(u, row, rule, cfa, ret);
	default:
		return -ENOENT;
	}
}

/* The stack grows downwards, so the caller's part lies above; only a leaf function of arm64 may use none. A signal may
 * have been handled on another stack. */
static bool is_progress(const struct unwind *u, const struct row *row, uint64_t cfa)
{
	if (row->signal)
		return true;
	return cfa > u->regs[ROW_SP] || (cfa == u->regs[ROW_SP] && u->inner && ROW_RA != ROW_PC);
}

static int finish(struct unwind *u, const uint64_t *regs, uint64_t known, uint64_t pc, bool signal)
{
	memcpy(u->regs, regs, sizeof(u->regs));
	pc &= ADDRESS_MASK;
	u->regs[ROW_PC] = pc;
	u->known = known | UINT64_C(1) << ROW_PC;
	u->exact = signal;
	u->inner = false;
	return !pc; /* by convention, where the frame information does not say that it is the last */
}

static int step_by_row(struct unwind *u, const struct row *row)
{
	uint64_t regs[ROW_REGS] = {}, known = 0, cfa;
	int err = find_cfa(u, row, &cfa);

	if (err)
		return err;
	if (row->ra >= ROW_REGS || !is_progress(u, row, cfa))
		return -EINVAL;
	if (row->regs[row->ra].kind == RULE_UNDEFINED)
		return 1;
	for (unsigned int i = 0; i < ROW_REGS; i++) {
		err = apply(u, row, i, cfa, &regs[i]);
		if (!err)
			known |= UINT64_C(1) << i;
		else if (i == row->ra || i == ROW_SP)
			return err == -ENODATA ? err : -EINVAL;
	}
	return finish(u, regs, known, regs[row->ra], row->signal);
}

/* Code made at run time has no frame information; that of the usual engines keeps the frame pointer. */
static int step_by_frame_pointer(struct unwind *u)
{
	uint64_t regs[ROW_REGS], fp = u->regs[ROW_FP], caller_fp, ra;
	int err;

	if (!is_known(u, ROW_FP) || fp < u->regs[ROW_SP] || fp % 8)
		return -EINVAL;
	err = read_stack(u, fp, sizeof(caller_fp), &caller_fp);
	if (!err)
		err = read_stack(u, fp + 8, sizeof(ra), &ra);
	if (err)
		return err;
	memset(regs, 0, sizeof(regs));
	regs[ROW_FP] = caller_fp;
	regs[ROW_SP] = fp + 16;
	return finish(u, regs, UINT64_C(1) << ROW_FP | UINT64_C(1) << ROW_SP, ra, false);
}

int unwind_step(struct unwind *u, const struct row *row)
{
	return row->known ? step_by_row(u, row) : step_by_frame_pointer(u);
}
