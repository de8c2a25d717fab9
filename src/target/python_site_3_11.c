// SPDX-License-Identifier: BSD-2-Clause
/*
 * CPython 3.11 runs a Python function that another one calls without a call of its own: it goes back to the beginning of
 * _PyEval_EvalFrameDefault(). On that way, and when C code calls it, it counts the depth of the recursion:
 *	mov [state + N], depth - 1;  test;  jcc to:  mov rsi, "";  mov rdi, state;  call _Py_CheckRecursiveCall
 * The jump is where a function begins, and state the register with the thread's state. Where a function ends, by a
 * return, a yield or an exception, the interpreter looks whether its USDT probe function__return is on:
 *	cmp word ptr [semaphore], 0;  jcc
 * (Its function__entry does not help: 3.11 reaches it only while a tracer in Python is active.) Both jumps are emulated,
 * and the semaphore stays as it is: switched on, it would cost far more than a probe.
 */
#include <errno.h>
#include <string.h>

#include "target/python_site_inner.h"

#define CALL_WAY 4 /* the most instructions before the call */
#define CMP_LEN 8  /* of the comparison with the semaphore */
#define FRAME_ENTRY 68

/* Registers that calls preserve, and the first argument's. */
static uint8_t state_place(x86_reg reg)
{
	uint8_t place = python_place_of(reg);

	return place <= PLACE_RBX || place == PLACE_RDI ? place : PLACE_NONE;
}

/* Whether an address has an empty string, which is what CPython calls a Python function there. */
static bool is_empty(const struct python_search *s, uint64_t vaddr)
{
	uint64_t offset;
	char c = 1;

	return !elf_vaddr_to_offset(s->elf, vaddr, &offset) && !elf_read_at_offset(s->elf, offset, &c, 1) && !c;
}

/* The string that an instruction puts into the second argument's register; 0: it does not. */
static uint64_t string_of(const cs_insn *in)
{
	const cs_x86_op *ops = in->detail->x86.operands;

	if (in->detail->x86.op_count != 2 || ops[0].type != X86_OP_REG ||
		(ops[0].reg != X86_REG_RSI && ops[0].reg != X86_REG_ESI))
		return 0;
	if (in->id == X86_INS_MOV && ops[1].type == X86_OP_IMM)
		return (uint64_t)ops[1].imm;
	if (in->id == X86_INS_LEA && ops[1].mem.base == X86_REG_RIP && ops[1].mem.index == X86_REG_INVALID)
		return in->address + in->size + (uint64_t)ops[1].mem.disp;
	return 0;
}

/* The function, or a stub of a library's PLT. */
static bool is_check(const struct python_search *s, uint64_t addr)
{
	return addr == s->check || addr - s->vaddr >= s->len;
}

/* Whether the code at an address calls the check for a Python function; ret_reg has the thread's state there. */
static bool checks_recursion(const struct python_search *s, uint64_t addr, uint8_t *ret_reg)
{
	cs_insn *in = cs_malloc(s->cs);
	const uint8_t *p = s->text + (addr - s->vaddr);
	size_t left = s->len - (addr - s->vaddr);
	/* unless it is put there. With USDT probes that is so where an exception is thrown into a generator, which does not
	 * begin to run then; without, generators are not followed. */
	uint8_t reg = s->semaphore ? PLACE_NONE : PLACE_RDI;
	bool found = false, empty = false;

	for (int i = 0; in && i < CALL_WAY && addr - s->vaddr < s->len && cs_disasm_iter(s->cs, &p, &left, &addr, in); i++) {
		const cs_x86_op *ops = in->detail->x86.operands;
		uint64_t string = string_of(in);

		if (in->id == X86_INS_CALL) {
			found = ops[0].type == X86_OP_IMM && is_check(s, (uint64_t)ops[0].imm) && empty && reg != PLACE_NONE;
			break;
		}
		if (in->id == X86_INS_JMP && !i && ops[0].type == X86_OP_IMM && (uint64_t)ops[0].imm - s->vaddr < s->len) {
			addr = (uint64_t)ops[0].imm;
			p = s->text + (addr - s->vaddr);
			left = s->len - (addr - s->vaddr);
		} else if (string) {
			empty = is_empty(s, string);
		} else if (in->id == X86_INS_MOV && ops[0].type == X86_OP_REG && ops[0].reg == X86_REG_RDI &&
			   ops[1].type == X86_OP_REG) {
			reg = state_place(ops[1].reg);
		} else {
			break;
		}
	}
	if (in)
		cs_free(in, 1);
	*ret_reg = reg;
	return found;
}

static int find_entries(struct python_search *s)
{
	cs_insn *in = cs_malloc(s->cs);
	const uint8_t *p = s->text + (s->eval.vaddr - s->vaddr);
	uint64_t addr = s->eval.vaddr;
	size_t left = s->eval.size;
	uint8_t reg;
	int err = in ? 0 : -ENOTSUP;

	while (!err && left && cs_disasm_iter(s->cs, &p, &left, &addr, in)) {
		uint64_t to;

		if (!python_is_conditional_jump(in))
			continue;
		to = (uint64_t)in->detail->x86.operands[0].imm;
		if ((to - s->vaddr < s->len && checks_recursion(s, to, &reg)) || checks_recursion(s, addr, &reg))
			err = python_add_site(s, in->address, (struct site){ .reg = reg, .no_yields = !s->semaphore });
	}
	if (in)
		cs_free(in, 1);
	return !err && left ? -ENOTSUP : err;
}

/* Whether the four bytes at p, relative to the address `from`, lead to the semaphore. */
static bool is_semaphore(const struct python_search *s, const uint8_t *p, uint64_t from)
{
	uint64_t offset;
	int32_t rel;

	memcpy(&rel, p, sizeof(rel));
	return !elf_vaddr_to_offset(s->elf, from + (uint64_t)(int64_t)rel, &offset) && offset == s->semaphore;
}

/*
 * The comparisons may be anywhere, also in the part of the function that is rarely executed and lies elsewhere. What
 * reads the semaphore in another way is a place where functions end and no probe could be.
 */
static int find_exits(struct python_search *s)
{
	static const uint8_t cmp[] = { 0x66, 0x83, 0x3d };
	cs_insn *in = cs_malloc(s->cs);
	int err = in ? 0 : -ENOTSUP;

	for (size_t i = 2; !err && i + CMP_LEN < s->len; i++) {
		const uint8_t *t = s->text + i;
		bool compares = !memcmp(t, cmp, sizeof(cmp)) && !t[CMP_LEN - 1];
		bool loads = t[0] == 0x0f && t[1] == 0xb7 && (t[2] & 0xc7) == 0x05;
		const uint8_t *p = t + CMP_LEN;
		uint64_t addr = s->vaddr + i + CMP_LEN;
		size_t left = s->len - i - CMP_LEN;

		if (loads && is_semaphore(s, t + 3, s->vaddr + i + 7))
			err = -ENOTSUP;
		if (!compares || !is_semaphore(s, t + 3, addr))
			continue;
		if (cs_disasm_iter(s->cs, &p, &left, &addr, in) && python_is_conditional_jump(in))
			err = python_add_site(s, in->address, (struct site){ .exit = true });
		else
			err = -ENOTSUP;
	}
	if (in)
		cs_free(in, 1);
	return err;
}

/* Whether an instruction compares the byte of a frame that says that C code called the interpreter. */
static bool tests_entry(const cs_insn *in)
{
	const cs_x86_op *ops = in->detail->x86.operands;

	return in->id == X86_INS_CMP && ops[0].type == X86_OP_MEM && ops[0].size == 1 && ops[0].mem.disp == FRAME_ENTRY &&
	       ops[0].mem.base != X86_REG_RSP && ops[0].mem.base != X86_REG_RIP && ops[0].mem.index == X86_REG_INVALID &&
	       ops[1].type == X86_OP_IMM && !ops[1].imm;
}

/*
 * Without USDT probes: at a return and at an exception the interpreter looks whether C code has called it with the frame, and
 * jumps then. (At a yield it does not: that is always so.)
 */
static int find_returns(struct python_search *s)
{
	cs_insn *in = cs_malloc(s->cs);
	const uint8_t *p = s->text + (s->eval.vaddr - s->vaddr);
	uint64_t addr = s->eval.vaddr;
	size_t left = s->eval.size;
	bool tested = false;
	int err = in ? 0 : -ENOTSUP;

	while (!err && left && cs_disasm_iter(s->cs, &p, &left, &addr, in)) {
		if (tested && python_is_conditional_jump(in)) {
			err = python_add_site(s, in->address, (struct site){ .exit = true });
			tested = false;
		} else if (tests_entry(in)) {
			err = tested ? -ENOTSUP : 0;
			tested = true;
		} else if (tested && in->id != X86_INS_MOV && in->id != X86_INS_LEA) {
			err = -ENOTSUP; /* the comparison's result is gone, or used otherwise */
		}
	}
	if (in)
		cs_free(in, 1);
	/* a return, an exception, and the making of a generator */
	return err || left || s->out->n < 3 ? -ENOTSUP : 0;
}

int python_find_3_11(struct python_search *s, const char **ret_why)
{
	unsigned int exits;

	*ret_why = "where it leaves functions is not known";
	if ((s->semaphore ? find_exits(s) : find_returns(s)) || !s->out->n)
		return -ENOTSUP;
	exits = s->out->n;
	*ret_why = "where it begins to run a function is not known";
	return find_entries(s) || s->out->n == exits ? -ENOTSUP : 0;
}
