// SPDX-License-Identifier: BSD-2-Clause
#include "target/usdt.h"

#include <ctype.h>
#include <elf.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "probe.h"
#include "util/list.h"

/* The largest known has 100 KB: a Java VM. */
#define SECTION_MAX (4u << 20)
#define NOTE_TYPE 3
#define ADDRS_SIZE (3 * sizeof(uint64_t)) /* location, base, semaphore */
#define SYMBOL_MAX 255

static const char why_form[] = "it is not written in a known form";
static const char why_float[] = "it is in a floating-point register, which no probe can read";
static const char why_symbol[] = "it is in a variable that the file does not name, or names twice";

/* Offsets in struct pt_regs of x86_64 and, after x30, struct user_pt_regs of arm64. */
enum {
	X86_IP = 16,
	ARM64_SP = 31,
	ARM64_PC = 32,
};

#define X86_NAMES_MAX 5

/* In that order, each with its names for 64, 32, 16 and 8 bits; the last is bits 8 to 15. */
static const char *const x86_names[][X86_NAMES_MAX] = {
	{ "r15", "r15d", "r15w", "r15b" },
	{ "r14", "r14d", "r14w", "r14b" },
	{ "r13", "r13d", "r13w", "r13b" },
	{ "r12", "r12d", "r12w", "r12b" },
	{ "rbp", "ebp", "bp", "bpl" },
	{ "rbx", "ebx", "bx", "bl", "bh" },
	{ "r11", "r11d", "r11w", "r11b" },
	{ "r10", "r10d", "r10w", "r10b" },
	{ "r9", "r9d", "r9w", "r9b" },
	{ "r8", "r8d", "r8w", "r8b" },
	{ "rax", "eax", "ax", "al", "ah" },
	{ "rcx", "ecx", "cx", "cl", "ch" },
	{ "rdx", "edx", "dx", "dl", "dh" },
	{ "rsi", "esi", "si", "sil" },
	{ "rdi", "edi", "di", "dil" },
	{ NULL }, /* orig_rax */
	{ "rip" },
	{ NULL }, /* cs */
	{ NULL }, /* flags */
	{ "rsp", "esp", "sp", "spl" },
};

/* The rest of an operand. */
struct usdt_text {
	const char *p, *end;
};

/* The context of an operand. */
struct usdt_reader {
	struct elf_file *elf;
	uint64_t vaddr;
	struct usdt_arg *arg;
};

static bool text_take_char(struct usdt_text *t, char c)
{
	if (t->p == t->end || *t->p != c)
		return false;
	t->p++;
	return true;
}

static void skip_blanks(struct usdt_text *t)
{
	while (t->p < t->end && *t->p == ' ')
		t->p++;
}

static size_t text_word_length(const struct usdt_text *t)
{
	const char *p = t->p;

	while (p < t->end && (isalnum((unsigned char)*p) || *p == '_' || *p == '.'))
		p++;
	return (size_t)(p - t->p);
}

/* A number without a sign, of up to 64 bits. */
static bool get_number(struct usdt_text *t, uint64_t *ret)
{
	char *end;

	if (t->p == t->end || !isdigit((unsigned char)*t->p))
		return false;
	errno = 0;
	*ret = strtoull(t->p, &end, 0);
	if (errno || end > t->end)
		return false;
	t->p = end;
	return true;
}

static bool get_signed(struct usdt_text *t, int64_t *ret)
{
	bool minus = text_take_char(t, '-');
	uint64_t v;

	if (!get_number(t, &v))
		return false;
	*ret = (int64_t)(minus ? -v : v);
	return true;
}

static int usdt_arg_refuse(struct usdt_arg *a, const char *why)
{
	a->why = why;
	return -EINVAL;
}

static int symbol_add_address(struct usdt_reader *r, const char *name, size_t len, int64_t *offset)
{
	char symbol[SYMBOL_MAX + 1];
	struct elf_symbol sym;

	if (!r->elf || len > SYMBOL_MAX)
		return usdt_arg_refuse(r->arg, why_symbol);
	memcpy(symbol, name, len);
	symbol[len] = '\0';
	if (elf_find_only_object(r->elf, symbol, &sym))
		return usdt_arg_refuse(r->arg, why_symbol);
	*offset = (int64_t)((uint64_t)*offset + sym.vaddr);
	return 0;
}

/* ---- x86_64, in the syntax of the GNU assembler ---- */

/* The name follows a '%'. */
static int x86_register(struct usdt_text *t, uint8_t *ret_reg, unsigned int *ret_shift)
{
	size_t len = text_word_length(t);

	for (size_t r = 0; r < sizeof(x86_names) / sizeof(x86_names[0]); r++) {
		for (int i = 0; i < X86_NAMES_MAX; i++) {
			const char *name = x86_names[r][i];

			if (!name || strlen(name) != len || memcmp(name, t->p, len))
				continue;
			*ret_reg = (uint8_t)r;
			*ret_shift = i == X86_NAMES_MAX - 1 ? 8 : 0;
			t->p += len;
			return 0;
		}
	}
	return -ENOENT;
}

static int x86_plain_register(struct usdt_reader *r, struct usdt_text *t)
{
	static const char *const floats[] = { "xmm", "ymm", "zmm", "st" };
	struct usdt_arg *a = r->arg;
	unsigned int shift;

	for (size_t i = 0; i < sizeof(floats) / sizeof(floats[0]); i++) {
		size_t len = strlen(floats[i]);

		if ((size_t)(t->end - t->p) >= len && !memcmp(t->p, floats[i], len))
			return usdt_arg_refuse(a, why_float);
	}
	if (x86_register(t, &a->reg, &shift) || t->p != t->end || a->reg == X86_IP)
		return usdt_arg_refuse(a, why_form);
	a->place = USDT_REG;
	a->value = shift;
	return 0;
}

/* Numbers and at most one symbol before the '(': -8, sym, sym+4, 4+sym. */
static int x86_displacement(struct usdt_reader *r, struct usdt_text *t, bool *ret_symbol)
{
	struct usdt_arg *a = r->arg;
	bool first = true;
	int64_t sum = 0;
	uint64_t v;

	*ret_symbol = false;
	while (t->p < t->end && *t->p != '(') {
		bool minus = text_take_char(t, '-'), plus = !minus && text_take_char(t, '+');
		size_t len = text_word_length(t);

		if (!first && !minus && !plus)
			return usdt_arg_refuse(a, why_form);
		first = false;
		if (get_number(t, &v)) {
			sum = (int64_t)((uint64_t)sum + (minus ? -v : v));
			continue;
		}
		if (!len || minus || *ret_symbol || isdigit((unsigned char)*t->p))
			return usdt_arg_refuse(a, why_form);
		if (symbol_add_address(r, t->p, len, &sum))
			return -EINVAL;
		t->p += len;
		*ret_symbol = true;
	}
	a->value = sum;
	return first && t->p == t->end ? usdt_arg_refuse(a, why_form) : 0;
}

/* "(%base)", "(%base,%index)", "(%base,%index,scale)", "(,%index,scale)" */
static int x86_base_index(struct usdt_arg *a, struct usdt_text *t)
{
	unsigned int shift = 0;
	uint64_t scale = 1;

	if (!text_take_char(t, '('))
		return -EINVAL;
	if (text_take_char(t, '%') && (x86_register(t, &a->reg, &shift) || shift))
		return -EINVAL;
	if (text_take_char(t, ',')) {
		if (!text_take_char(t, '%') || x86_register(t, &a->index, &shift) || shift)
			return -EINVAL;
		if (text_take_char(t, ',') && !get_number(t, &scale))
			return -EINVAL;
	}
	if (!text_take_char(t, ')') || t->p != t->end || (a->reg == REG_NONE && a->index == REG_NONE))
		return -EINVAL;
	if (!scale || scale > 8 || scale & (scale - 1) || a->index == X86_IP)
		return -EINVAL;
	a->shift = (uint8_t)__builtin_ctzll(scale);
	return 0;
}

static int x86_memory(struct usdt_reader *r, struct usdt_text *t)
{
	struct usdt_arg *a = r->arg;
	bool symbol;
	int err;

	err = x86_displacement(r, t, &symbol);
	if (err)
		return err;
	if (t->p < t->end && x86_base_index(a, t))
		return usdt_arg_refuse(a, why_form);
	if (a->reg == X86_IP) {
		if (!symbol || a->index != REG_NONE)
			return usdt_arg_refuse(a, why_form);
		/* the distance from the probe is the same in memory as in the file */
		a->value = (int64_t)((uint64_t)a->value - r->vaddr);
	}
	a->place = USDT_MEM;
	return 0;
}

static int parse_x86(struct usdt_reader *r, struct usdt_text *t)
{
	if (text_take_char(t, '%'))
		return x86_plain_register(r, t);
	if (!text_take_char(t, '$'))
		return x86_memory(r, t);
	if (!get_signed(t, &r->arg->value) || t->p != t->end)
		return usdt_arg_refuse(r->arg, why_form);
	r->arg->place = USDT_CONST;
	return 0;
}

/* ---- arm64 ---- */

/* x0 to x30, w0 to w30, sp; REG_NONE: xzr, wzr */
static int arm64_register(struct usdt_text *t, uint8_t *ret_reg)
{
	size_t len = text_word_length(t);
	struct usdt_text number = { t->p + 1, t->p + len };
	uint64_t n;

	if (len == 2 && !memcmp(t->p, "sp", 2))
		*ret_reg = ARM64_SP;
	else if (len == 3 && (!memcmp(t->p, "xzr", 3) || !memcmp(t->p, "wzr", 3)))
		*ret_reg = REG_NONE;
	else if (len > 1 && (*t->p == 'x' || *t->p == 'w') && get_number(&number, &n) && n <= 30 &&
		 number.p == number.end)
		*ret_reg = (uint8_t)n;
	else
		return -ENOENT;
	t->p += len;
	return 0;
}

/* "[x0]", "[x0, 8]", "[x0, #8]", "[x0, x1]", "[x0, x1, lsl 3]": the '[' has been read */
static int arm64_memory(struct usdt_arg *a, struct usdt_text *t)
{
	uint64_t shift = 0;

	if (arm64_register(t, &a->reg) || a->reg == REG_NONE)
		return usdt_arg_refuse(a, why_form);
	if (text_take_char(t, ',')) {
		skip_blanks(t);
		if (arm64_register(t, &a->index) == 0) {
			if (text_take_char(t, ',')) {
				skip_blanks(t);
				if (text_word_length(t) != 3 || memcmp(t->p, "lsl", 3))
					return usdt_arg_refuse(a, why_form);
				t->p += 3;
				skip_blanks(t);
				text_take_char(t, '#');
				if (!get_number(t, &shift) || shift > 3)
					return usdt_arg_refuse(a, why_form);
			}
		} else {
			text_take_char(t, '#');
			if (!get_signed(t, &a->value))
				return usdt_arg_refuse(a, why_form);
		}
	}
	if (!text_take_char(t, ']') || t->p != t->end)
		return usdt_arg_refuse(a, why_form);
	a->shift = (uint8_t)shift;
	a->place = USDT_MEM;
	return 0;
}

static int parse_arm64(struct usdt_reader *r, struct usdt_text *t)
{
	struct usdt_arg *a = r->arg;

	if (text_take_char(t, '['))
		return arm64_memory(a, t);
	if (t->p < t->end && memchr("vqdshb", *t->p, 6) && text_word_length(t) > 1 &&
		isdigit((unsigned char)t->p[1]))
		return usdt_arg_refuse(a, why_float);
	if (arm64_register(t, &a->reg) == 0) {
		if (t->p != t->end)
			return usdt_arg_refuse(a, why_form);
		a->place = a->reg == REG_NONE ? USDT_CONST : USDT_REG;
		return 0;
	}
	text_take_char(t, '#');
	if (!get_signed(t, &a->value) || t->p != t->end)
		return usdt_arg_refuse(a, why_form);
	a->place = USDT_CONST;
	return 0;
}

/* ---- both ---- */

/* "-4@OPERAND"; newer ones say "8f@OPERAND" for a floating-point number. */
static int usdt_parse_operand(struct usdt_reader *r, int machine, struct usdt_text *t)
{
	struct usdt_arg *a = r->arg;
	int64_t size;

	if (!get_signed(t, &size))
		return usdt_arg_refuse(a, why_form);
	text_take_char(t, 'f');
	if (!text_take_char(t, '@'))
		return usdt_arg_refuse(a, why_form);
	a->is_signed = size < 0;
	size = size < 0 ? -size : size;
	if (size != 1 && size != 2 && size != 4 && size != 8)
		return usdt_arg_refuse(a, "it is larger than 8 bytes");
	a->size = (uint8_t)size;
	return machine == EM_X86_64 ? parse_x86(r, t) : parse_arm64(r, t);
}

/* The end of an argument: the next blank that is not within [ ]. */
static const char *arg_end(const char *p)
{
	bool inside = false;

	for (; *p && (inside || *p != ' '); p++)
		inside = *p == '[' || (inside && *p != ']');
	return p;
}

unsigned int usdt_parse_args(struct elf_file *elf, int machine, uint64_t vaddr, const char *text,
	struct usdt_arg *ret_args)
{
	unsigned int n = 0;

	for (text += strspn(text, " "); *text && n < USDT_ARGS_MAX; text += strspn(text, " ")) {
		struct usdt_arg *a = &ret_args[n++];
		struct usdt_reader r = { .elf = elf, .vaddr = vaddr, .arg = a };
		struct usdt_text t = { text, arg_end(text) };

		*a = (struct usdt_arg){ .reg = REG_NONE, .index = REG_NONE };
		text = t.end;
		usdt_parse_operand(&r, machine, &t);
	}
	return n;
}

/* A note that matches, within the copy of the section. */
struct usdt_found {
	uint64_t vaddr, offset, semaphore;
	const char *provider, *name, *args;
};

struct usdt_walk {
	struct elf_file *elf;
	const char *glob;
	uint64_t base; /* address of .stapsdt.base; 0: there is none */
	struct usdt_found *found;
	size_t n, cap;
};

/* Joins the name that people type. False: nobody can type it. */
static bool join_name(const char *provider, const char *name, char buf[USDT_NAME_MAX + 1])
{
	size_t len = strlen(provider), name_len = strlen(name);

	if (!len || !name_len || len + 1 + name_len > USDT_NAME_MAX)
		return false;
	memcpy(buf, provider, len);
	buf[len] = ':';
	memcpy(buf + len + 1, name, name_len + 1);
	for (const char *p = buf; *p; p++) {
		if (!isgraph((unsigned char)*p))
			return false;
	}
	return true;
}

/* Returns the next of a note's three strings; NULL if the note ends before it does. */
static const char *next_string(const char **p, const char *end)
{
	const char *s = *p, *nul = memchr(s, 0, (size_t)(end - s));

	if (nul)
		*p = nul + 1;
	return nul ? s : NULL;
}

static void read_note(struct usdt_walk *w, const char *desc, size_t len)
{
	const char *p = desc + ADDRS_SIZE, *end = desc + len;
	char name[USDT_NAME_MAX + 1];
	struct usdt_found f = {};
	uint64_t addr[3];

	if (len < ADDRS_SIZE)
		return;
	memcpy(addr, desc, sizeof(addr));
	f.provider = next_string(&p, end);
	f.name = f.provider ? next_string(&p, end) : NULL;
	f.args = f.name ? next_string(&p, end) : NULL;
	if (!f.args || !join_name(f.provider, f.name, name) || fnmatch(w->glob, name, 0))
		return;
	/* the code has been moved since the addresses were written (prelink) */
	if (w->base && addr[1]) {
		addr[0] += w->base - addr[1];
		addr[2] += addr[2] ? w->base - addr[1] : 0;
	}
	f.vaddr = addr[0];
	if (elf_vaddr_to_offset(w->elf, f.vaddr, &f.offset))
		return;
	/* the kernel takes no odd ones: they are two bytes long */
	if (addr[2] && (elf_vaddr_to_offset(w->elf, addr[2], &f.semaphore) || f.semaphore & 1))
		return;
	*list_push(w->found, w->n, w->cap) = f;
}

/* In an ELF file of either class these notes are aligned to 4 bytes. */
static int usdt_read_notes(struct usdt_walk *w, const char *data, size_t len)
{
	static const char owner[] = "stapsdt";

	for (size_t at = 0; len - at >= sizeof(Elf64_Nhdr);) {
		Elf64_Nhdr nh;
		size_t name_len, desc_len;

		memcpy(&nh, data + at, sizeof(nh));
		at += sizeof(nh);
		name_len = ((size_t)nh.n_namesz + 3) & ~(size_t)3;
		desc_len = ((size_t)nh.n_descsz + 3) & ~(size_t)3;
		if (name_len > len - at || nh.n_descsz > len - at - name_len)
			return -EBADMSG;
		if (nh.n_type == NOTE_TYPE && nh.n_namesz == sizeof(owner) &&
			!memcmp(data + at, owner, sizeof(owner)))
			read_note(w, data + at + name_len, nh.n_descsz);
		at += name_len;
		at += desc_len < len - at ? desc_len : len - at;
	}
	return 0;
}

static int found_cmp(const void *a, const void *b)
{
	const struct usdt_found *x = a, *y = b;
	int d;

	if (x->offset != y->offset)
		return x->offset < y->offset ? -1 : 1;
	d = strcmp(x->provider, y->provider);
	return d ? d : strcmp(x->name, y->name);
}

static int report_found(const struct usdt_walk *w, usdt_cb cb, void *arg)
{
	char name[USDT_NAME_MAX + 1];
	struct usdt_note note = { .name = name };
	int err = 0, n = 0;

	for (size_t i = 0; i < w->n && !err; i++) {
		const struct usdt_found *f = &w->found[i];

		if (i && !found_cmp(f, f - 1))
			continue; /* a duplicate */
		join_name(f->provider, f->name, name);
		note.vaddr = f->vaddr;
		note.offset = f->offset;
		note.semaphore = f->semaphore;
		note.n_args =
			usdt_parse_args(w->elf, elf_machine(w->elf), f->vaddr, f->args, note.args);
		err = cb(&note, arg);
		n++;
	}
	return err ? err : n;
}

int usdt_each(struct elf_file *elf, const char *glob, usdt_cb cb, void *arg)
{
	struct usdt_walk w = { .elf = elf, .glob = glob };
	void *data = NULL, *base = NULL;
	uint64_t vaddr;
	size_t len;
	int err;

	err = elf_read_section(elf, ".note.stapsdt", SECTION_MAX, &vaddr, &data, &len);
	if (err)
		return err == -ENOENT ? 0 : err;
	if (!elf_read_section(elf, ".stapsdt.base", SECTION_MAX, &w.base, &base, &vaddr))
		free(base);
	err = usdt_read_notes(&w, data, len);
	if (!err && w.n)
		qsort(w.found, w.n, sizeof(*w.found), found_cmp);
	if (!err)
		err = report_found(&w, cb, arg);
	free(w.found);
	free(data);
	return err;
}
