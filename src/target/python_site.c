// SPDX-License-Identifier: BSD-2-Clause
/* What the versions have in common: python_site_3_8.c, python_site_3_11.c and python_site_3_12.c find the places. */
#include "target/python_site.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "target/python.h"
#include "target/python_site_inner.h"
#include "target/usdt.h"

#define EVAL "_PyEval_EvalFrameDefault"
#define CHECK "_Py_CheckRecursiveCall"
#define LEAVES "python:function__return"
#define TEXT_MAX (64u << 20) /* bytes of code */

bool python_in_text(const struct python_search *s, uint64_t addr)
{
	return addr - s->vaddr < s->len;
}

struct python_walk_code python_code_at(const struct python_search *s, uint64_t addr)
{
	size_t at = python_in_text(s, addr) ? addr - s->vaddr : s->len;

	return (struct python_walk_code){ .p = s->text + at, .left = s->len - at, .addr = addr };
}

bool python_code_next(const struct python_search *s, struct python_walk_code *w, cs_insn *in)
{
	return cs_disasm_iter(s->cs, &w->p, &w->left, &w->addr, in);
}

bool python_is_conditional_jump(const cs_insn *in)
{
	return site_is_emulated(in) &&
	       ((in->size == 2 && in->bytes[0] >= 0x70 && in->bytes[0] <= 0x7f) || (in->size == 6 && in->bytes[0] == 0x0f));
}

uint8_t python_place_of(x86_reg reg)
{
	static const x86_reg places[] = { X86_REG_R15, X86_REG_R14, X86_REG_R13, X86_REG_R12, X86_REG_RBP, X86_REG_RBX,
		X86_REG_R11, X86_REG_R10, X86_REG_R9, X86_REG_R8, X86_REG_RAX, X86_REG_RCX, X86_REG_RDX, X86_REG_RSI,
		X86_REG_RDI };

	for (uint8_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		if (places[i] == reg)
			return i;
	}
	return PLACE_NONE;
}

int python_add_site(struct python_search *s, uint64_t vaddr, struct site site)
{
	int err = elf_vaddr_to_offset(s->elf, vaddr, &site.offset);

	if (err || s->out->n == PYTHON_SITES_MAX)
		return -ENOTSUP;
	site.cheap = true;
	site.python = s->out->layout;
	s->out->sites[s->out->n++] = site;
	return 0;
}

static int on_note(const struct usdt_note *note, void *arg)
{
	struct python_search *s = arg;

	s->semaphore = note->semaphore;
	return 1;
}

static bool has(struct elf_file *elf, const char *function)
{
	struct elf_symbol sym;

	return !elf_find_symbol(elf, function, &sym);
}

/* The second number of the version; from 3.11 on it is a constant, before that the functions that it has tell. 0: unknown */
static unsigned int minor_of(struct elf_file *elf)
{
	struct elf_symbol sym;
	uint64_t version = 0;

	if (!elf_find_object(elf, "Py_Version", &sym) && sym.offset &&
		!elf_read_at_offset(elf, sym.offset, &version, sizeof(version)))
		return version >> 24 == 3 ? (unsigned int)(version >> 16 & 0xff) : 0;
	if (has(elf, "PyIter_Send"))
		return 10;
	if (has(elf, "PyObject_VectorcallMethod"))
		return 9;
	return has(elf, "PyCode_NewWithPosOnlyArgs") ? 8 : 0;
}

static int find_all(struct python_search *s, const char **ret_why)
{
	switch (s->out->layout) {
	case PYTHON_LAYOUT_3_8:
		return python_find_3_8(s, ret_why);
	case PYTHON_LAYOUT_3_11:
		return python_find_3_11(s, ret_why);
	default:
		return python_find_3_12(s, ret_why);
	}
}

static int find_in_text(struct python_search *s, const char **ret_why)
{
	int err = -ENOTSUP;

	if (!python_in_text(s, s->eval.vaddr) || s->eval.size > s->len - (s->eval.vaddr - s->vaddr) ||
		cs_open(CS_ARCH_X86, CS_MODE_64, &s->cs))
		return -ENOTSUP;
	if (!cs_option(s->cs, CS_OPT_DETAIL, CS_OPT_ON))
		err = find_all(s, ret_why);
	cs_close(&s->cs);
	return err;
}

int python_sites_find(struct elf_file *elf, struct python_sites *ret_sites, const char **ret_why)
{
	struct python_sites sites = { .n = 0 };
	struct python_search s = { .elf = elf, .out = &sites };
	struct elf_symbol check;
	void *text;
	int err;

	if (elf_find_symbol(elf, EVAL, &s.eval))
		return -ENOENT;
	*ret_why = "Python functions can be steps with CPython 3.8 to 3.12 on x86_64 only: later ones call and leave them in too many places";
	sites.minor = minor_of(elf);
	if (elf_machine(elf) != EM_X86_64 || sites.minor < 8 || sites.minor > 12)
		return -ENOTSUP;
	sites.layout = sites.minor < 11 ? PYTHON_LAYOUT_3_8 : sites.minor == 11 ? PYTHON_LAYOUT_3_11
										: PYTHON_LAYOUT_3_12;
	*ret_why = "its code cannot be read";
	if (usdt_each(elf, LEAVES, on_note, &s) < 0)
		return -ENOTSUP;
	if (elf_find_symbol(elf, CHECK, &check) || elf_read_section(elf, ".text", TEXT_MAX, &s.vaddr, &text, &s.len))
		return -ENOTSUP;
	s.text = text;
	s.check = check.vaddr;
	err = find_in_text(&s, ret_why);
	free(text);
	if (!err)
		*ret_sites = sites;
	return err;
}

void python_calls_layout(enum python_layout layout, struct python_calls *ret_calls)
{
	static const struct {
		uint8_t minor, how, frame_owner, code_flags;
	} of[PYTHON_LAYOUTS] = {
		[PYTHON_LAYOUT_3_8] = { .minor = 8, .how = PYTHON_BY_CALL },
		[PYTHON_LAYOUT_3_11] = { .minor = 11, .how = PYTHON_BY_STATE, .frame_owner = 69, .code_flags = 48 },
		[PYTHON_LAYOUT_3_12] = { .minor = 12, .how = PYTHON_BY_FRAME, .frame_owner = 70, .code_flags = 48 },
	};
	struct python p = { 0 };

	python_layout_known(3, of[layout].minor, &p);
	ret_calls->how = of[layout].how;
	ret_calls->thread_frame = p.walk.thread_frame;
	ret_calls->cframe_frame = p.walk.cframe_frame;
	ret_calls->frame_code = p.walk.frame_code;
	ret_calls->frame_owner = of[layout].frame_owner;
	ret_calls->code_name = layout == PYTHON_LAYOUT_3_8 ? p.objects.code_name : p.objects.code_qualname;
	ret_calls->code_file = p.objects.code_filename;
	ret_calls->code_flags = of[layout].code_flags;
	ret_calls->str_length = p.objects.str_length;
	ret_calls->str_state = p.objects.str_state;
	ret_calls->str_data = p.objects.str_data;
}
