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
#include "target/python_site.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "target/python.h"
#include "target/site_code.h"
#include "target/usdt.h"

#define EVAL "_PyEval_EvalFrameDefault"
#define CHECK "_Py_CheckRecursiveCall"
#define LEAVES "python:function__return"
#define TEXT_MAX (64u << 20) /* bytes of code */
#define CALL_WAY 4	     /* the most instructions before the call */
#define CMP_LEN 8	     /* of the comparison with the semaphore */

/* 3.11; see python_layout.c for the others */
#define FRAME_OWNER 69
#define CODE_FLAGS 48

struct search {
	struct elf_file *elf;
	csh cs;
	uint8_t *text; /* the section with all the code */
	size_t len;
	uint64_t vaddr;
	uint64_t check;	    /* the function */
	uint64_t semaphore; /* offset in the file */
	struct python_sites *out;
};

static bool is_conditional_jump(const cs_insn *in)
{
	return site_is_emulated(in) &&
	       ((in->size == 2 && in->bytes[0] >= 0x70 && in->bytes[0] <= 0x7f) || (in->size == 6 && in->bytes[0] == 0x0f));
}

static int add_site(struct search *s, uint64_t vaddr, struct site site)
{
	int err = elf_vaddr_to_offset(s->elf, vaddr, &site.offset);

	if (err || s->out->n == PYTHON_SITES_MAX)
		return -ENOTSUP;
	site.cheap = true;
	s->out->sites[s->out->n++] = site;
	return 0;
}

/* The index in struct pt_regs; 0xff: it is none that keeps its value. */
static uint8_t place_of(x86_reg reg)
{
	static const x86_reg places[] = { X86_REG_R15, X86_REG_R14, X86_REG_R13, X86_REG_R12, X86_REG_RBP, X86_REG_RBX };

	for (uint8_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		if (places[i] == reg)
			return i;
	}
	return 0xff;
}

/* Whether an address has an empty string, which is what CPython calls a Python function there. */
static bool is_empty(const struct search *s, uint64_t vaddr)
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

/* Whether the code at an address calls the check for a Python function; ret_reg has the thread's state there. */
static bool checks_recursion(const struct search *s, uint64_t addr, uint8_t *ret_reg)
{
	cs_insn *in = cs_malloc(s->cs);
	const uint8_t *p = s->text + (addr - s->vaddr);
	size_t left = s->len - (addr - s->vaddr);
	uint8_t reg = 0xff;
	bool found = false, empty = false;

	for (int i = 0; in && i < CALL_WAY && addr - s->vaddr < s->len && cs_disasm_iter(s->cs, &p, &left, &addr, in); i++) {
		const cs_x86_op *ops = in->detail->x86.operands;
		uint64_t string = string_of(in);

		if (in->id == X86_INS_CALL) {
			found = ops[0].type == X86_OP_IMM && (uint64_t)ops[0].imm == s->check && empty && reg != 0xff;
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
			reg = place_of(ops[1].reg);
		} else {
			break;
		}
	}
	if (in)
		cs_free(in, 1);
	*ret_reg = reg;
	return found;
}

static int find_entries(struct search *s, const struct elf_symbol *eval)
{
	cs_insn *in = cs_malloc(s->cs);
	const uint8_t *p = s->text + (eval->vaddr - s->vaddr);
	uint64_t addr = eval->vaddr;
	size_t left = eval->size;
	uint8_t reg;
	int err = in ? 0 : -ENOTSUP;

	while (!err && left && cs_disasm_iter(s->cs, &p, &left, &addr, in)) {
		uint64_t to;

		if (!is_conditional_jump(in))
			continue;
		to = (uint64_t)in->detail->x86.operands[0].imm;
		if ((to - s->vaddr < s->len && checks_recursion(s, to, &reg)) || checks_recursion(s, addr, &reg))
			err = add_site(s, in->address, (struct site){ .reg = reg });
	}
	if (in)
		cs_free(in, 1);
	return !err && left ? -ENOTSUP : err;
}

/* Whether the four bytes at p, relative to the address `from`, lead to the semaphore. */
static bool is_semaphore(const struct search *s, const uint8_t *p, uint64_t from)
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
static int find_exits(struct search *s)
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
		if (cs_disasm_iter(s->cs, &p, &left, &addr, in) && is_conditional_jump(in))
			err = add_site(s, in->address, (struct site){ .exit = true });
		else
			err = -ENOTSUP;
	}
	if (in)
		cs_free(in, 1);
	return err;
}

static int on_note(const struct usdt_note *note, void *arg)
{
	struct search *s = arg;

	s->semaphore = note->semaphore;
	return 1;
}

static int find_all(struct search *s, const struct elf_symbol *eval, const char **ret_why)
{
	unsigned int exits;

	*ret_why = "where it leaves functions is not known";
	if (find_exits(s) || !s->out->n)
		return -ENOTSUP;
	exits = s->out->n;
	*ret_why = "where it begins to run a function is not known";
	return find_entries(s, eval) || s->out->n == exits ? -ENOTSUP : 0;
}

static bool is_version(struct elf_file *elf)
{
	struct elf_symbol sym;
	uint64_t version = 0;

	return !elf_find_object(elf, "Py_Version", &sym) && sym.offset &&
	       !elf_read_at_offset(elf, sym.offset, &version, sizeof(version)) && version >> 16 == 0x030b;
}

int python_sites_find(struct elf_file *elf, struct python_sites *ret_sites, const char **ret_why)
{
	struct python_sites sites = { .n = 0 };
	struct search s = { .elf = elf, .out = &sites };
	struct elf_symbol eval, check;
	void *text;
	int err;

	if (elf_find_symbol(elf, EVAL, &eval))
		return -ENOENT;
	*ret_why = "Python functions can be steps with CPython 3.11 on x86_64 only";
	if (elf_machine(elf) != EM_X86_64 || !is_version(elf))
		return -ENOTSUP;
	*ret_why = "it was built without USDT probes (--with-dtrace)";
	if (usdt_each(elf, LEAVES, on_note, &s) < 0 || !s.semaphore)
		return -ENOTSUP;
	*ret_why = "its code cannot be read";
	if (elf_find_symbol(elf, CHECK, &check) || elf_read_section(elf, ".text", TEXT_MAX, &s.vaddr, &text, &s.len))
		return -ENOTSUP;
	s.text = text;
	s.check = check.vaddr;
	err = -ENOTSUP;
	if (eval.vaddr >= s.vaddr && eval.vaddr - s.vaddr < s.len && eval.size <= s.len - (eval.vaddr - s.vaddr) &&
		!cs_open(CS_ARCH_X86, CS_MODE_64, &s.cs)) {
		if (!cs_option(s.cs, CS_OPT_DETAIL, CS_OPT_ON))
			err = find_all(&s, &eval, ret_why);
		cs_close(&s.cs);
	}
	free(text);
	if (!err)
		*ret_sites = sites;
	return err;
}

void python_calls_layout(struct python_calls *ret_calls)
{
	struct python p = { 0 };

	python_layout_known(3, 11, &p);
	ret_calls->thread_frame = p.walk.thread_frame;
	ret_calls->cframe_frame = p.walk.cframe_frame;
	ret_calls->frame_code = p.walk.frame_code;
	ret_calls->frame_owner = FRAME_OWNER;
	ret_calls->code_name = p.objects.code_qualname;
	ret_calls->code_file = p.objects.code_filename;
	ret_calls->code_flags = CODE_FLAGS;
	ret_calls->str_length = p.objects.str_length;
	ret_calls->str_state = p.objects.str_state;
	ret_calls->str_data = p.objects.str_data;
}
