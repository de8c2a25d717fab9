// SPDX-License-Identifier: BSD-2-Clause
#include "engine/sites.h"

#include <ctype.h>
#include <elf.h>
#include <errno.h>
#include <libiberty/demangle.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/python_steps.h"
#include "engine/rows.h"
#include "engine/spec.h"
#include "target/code.h"
#include "target/elf.h"
#include "target/python.h"
#include "target/usdt.h"
#include "util/alloc.h"
#include "util/list.h"
#include "util/log.h"

#define SIZES_FUNCTION "_ZN2at6native4sizeERKNS_6TensorEl"
#define TYPES_FUNCTION "_ZN2at6native10is_complexERKNS_6TensorE"

struct site_walk {
	struct elf_file *elf;
	const struct probe_table *pt;
	size_t id;
	struct go_text go;
	struct declared declared;
	struct tensor_args layout; /* all 0: unknown or not wanted */
	found_cb cb;
	void *arg;
};

static void note_fetch(const struct fetch *f, uint32_t *regs, unsigned int *flags)
{
	*regs |= 1u << f->reg;
	if (f->derefs || f->flags & FETCH_F_STRING)
		*flags |= SITE_READS_MEMORY;
}

/* Reports the places on the way out of a function, to be attached before its entry. */
static int on_exits(struct site_walk *w, struct found *entry)
{
	struct found found = { .kind = FOUND_SITE, .spec = w->id, .symbol = entry->symbol, .tensors = entry->tensors };
	struct site exits[SITE_EXITS_MAX];
	int n = site_exits(w->elf, entry->symbol, exits), err = 0;

	if (n <= 0 && w->pt->dear_ends)
		n = site_returns(w->elf, entry->symbol, exits);
	for (int i = 0; i < n && !err; i++) {
		found.site = exits[i];
		err = w->cb(&found, w->arg);
	}
	entry->site.no_exits = n <= 0;
	return err;
}

/* A step's rows as accessor functions of the file show them. */
struct file_rows {
	struct fetch fetch[FUNC_VALS_MAX];
	struct row_fetch row[ROW_COLUMNS];
};

static void rows_find_accessors(struct site_walk *w, const struct probe_spec *s, struct file_rows *fr, struct found *found)
{
	const struct element *shown[ROW_COLUMNS] = {};
	struct element elements[ROW_COLUMNS];
	struct elf_symbol sym;
	bool any = false;

	for (int i = 0; i < ROW_COLUMNS; i++) {
		if (s->accessor[i].function && !elf_find_symbol(w->elf, s->accessor[i].function, &sym) &&
			element_find(w->elf, &sym, &elements[i]))
			shown[i] = &elements[i];
		any |= shown[i] != NULL;
	}
	if (!any)
		return;
	switch (rows_adapt(s, shown, fr->fetch, fr->row)) {
	case 0:
		return;
	case 1:
		break;
	default:
		memset(fr->row, 0, sizeof(fr->row));
		memcpy(fr->fetch, s->fetch, sizeof(fr->fetch));
	}
	found->fetch = fr->fetch;
	found->row = fr->row;
}

static int on_symbol(const struct elf_symbol *sym, void *arg)
{
	struct file_rows fr;
	struct site_walk *w = arg;
	const struct probe_spec *s = &w->pt->specs[w->id];
	struct found found = { .kind = FOUND_SITE, .spec = w->id, .symbol = sym };
	unsigned int flags = 0;
	uint32_t regs = 0;

	if (s->flags & PROBE_F_SPAN && sym->vaddr >= w->go.from && sym->vaddr < w->go.to) {
		found.kind = FOUND_GO;
		return w->cb(&found, w->arg);
	}
	for (unsigned int i = 0; i < s->nargs; i++) {
		if (!s->args[i].is_row)
			note_fetch(&s->fetch[i], &regs, &flags);
	}
	for (unsigned int i = 0; i < ROW_COLUMNS; i++) {
		if (!s->row[i].loads)
			continue;
		note_fetch(&s->row[i].array, &regs, &flags);
		flags |= SITE_READS_MEMORY;
	}
	rows_find_accessors(w, s, &fr, &found);
	if (s->flags & PROBE_F_GROUP)
		note_fetch(&s->group, &regs, &flags);
	if (s->flags & PROBE_F_SPAN)
		flags |= SITE_RETURNS;
	if (s->past_early_return)
		flags |= SITE_PAST_EARLY_RETURN;
	/* its values would have to be those at the entry */
	if (s->past_early_return && s->flags & PROBE_F_GROUP && !s->nargs)
		flags |= SITE_ARRIVAL;
	if (s->declared) {
		size_t len;
		const char *name = spec_mangled_part(sym->name, s->name_part, &len);
		int result;

		found.declared = name ? declared_find(&w->declared, name, len, &result) : NULL;
		if (found.declared && w->layout.sizes)
			tensor_args_read(sym->name, result, &w->layout, &found.tensors);
		regs |= found.tensors.regs;
		flags |= found.tensors.regs ? SITE_READS_MEMORY : 0;
	}
	site_choose(w->elf, sym, regs, flags, &found.site);
	if (s->exits) {
		int err = on_exits(w, &found);

		if (err)
			return err;
	}
	return w->cb(&found, w->arg);
}

/* Finds where the arguments of a USDT probe are at one of its places. */
static int place_args(const struct site_walk *w, const struct usdt_note *note, struct fetch fetch[FUNC_VALS_MAX],
	struct found *found)
{
	const struct probe_spec *s = &w->pt->specs[w->id];

	memset(fetch, 0, sizeof(s->fetch));
	for (unsigned int i = 0; i < s->nargs; i++) {
		if (!fetch_place(&s->fetch[i], &s->args[i], note, &fetch[i], &found->why))
			continue;
		found->kind = FOUND_NO_ARG;
		found->arg = i;
		return -EINVAL;
	}
	return 0;
}

/* The nop of a USDT probe is emulated on x86_64; arm64 does not single-step it since 6.12, either. */
static int on_usdt_note(const struct usdt_note *note, void *arg)
{
	struct elf_symbol sym = { .name = note->name, .vaddr = note->vaddr, .offset = note->offset };
	struct site_walk *w = arg;
	struct found found = { .kind = FOUND_SITE, .spec = w->id, .symbol = &sym, .semaphore = note->semaphore };
	struct fetch fetch[FUNC_VALS_MAX];
	uint8_t code = 0;

	if (!place_args(w, note, fetch, &found)) {
		elf_read_at_offset(w->elf, note->offset, &code, sizeof(code));
		found.fetch = fetch;
		found.site.offset = note->offset;
		found.site.cheap = elf_machine(w->elf) == EM_X86_64 && code == 0x90;
	}
	return w->cb(&found, w->arg);
}

/* Reports the places in an interpreter where a Python function may begin or end. */
static int walk_python(struct site_walk *w)
{
	struct elf_symbol sym = { .name = w->pt->specs[w->id].symbol };
	struct found found = { .kind = FOUND_SITE, .spec = w->id, .symbol = &sym };
	struct python_sites sites;
	int err = python_sites_find(w->elf, &sites, &found.why);

	if (!err && !python_names_tell(sym.name, sites.layout, &found.why))
		err = -ENOTSUP;
	if (!err && w->pt->specs[w->id].values && sites.minor < 10) {
		found.why = "arguments of Python functions can be read with CPython 3.10 to 3.14 only";
		err = -ENOTSUP;
	}
	if (err == -ENOTSUP) {
		found.kind = FOUND_NO_PYTHON;
		return w->cb(&found, w->arg);
	}
	for (unsigned int i = 0; !err && i < sites.n; i++) {
		found.site = sites.sites[i];
		sym.offset = found.site.offset;
		err = w->cb(&found, w->arg);
	}
	return err;
}

/* In another release the path may lead nowhere: then this file lacks the function, and only this one. */
static int walk_path(struct site_walk *w, struct elf_symbol *ret_sym)
{
	int err = elf_resolve(w->elf, w->pt->specs[w->id].symbol, ret_sym);

	return err == -EBADMSG || err == -EINVAL ? -ENOENT : err;
}

static int on_any_note(const struct usdt_note *note, void *arg)
{
	return 1;
}

/* A file that lacks the function is not reported: another one may have it. */
static int walk_spec(struct site_walk *w)
{
	const struct probe_spec *s = &w->pt->specs[w->id];
	struct elf_symbol sym;
	int err;

	if (s->unless && usdt_each(w->elf, s->unless + strlen(SPEC_USDT), on_any_note, NULL))
		return 0;
	if (s->is_python)
		err = walk_python(w);
	else if (s->is_usdt)
		err = usdt_each(w->elf, s->symbol + strlen(SPEC_USDT), on_usdt_note, w);
	else if (elf_is_path(s->symbol))
		err = walk_path(w, &sym) ?: on_symbol(&sym, w);
	else if (s->is_glob)
		err = elf_match_symbols(w->elf, s->symbol, on_symbol, w);
	else
		err = elf_find_symbol(w->elf, s->symbol, &sym) ?: on_symbol(&sym, w);
	return err == -ENOENT || err > 0 ? 0 : err;
}

/* Whether the specification applies to a file with that name. */
static bool sites_wants(const struct probe_table *pt, size_t spec, const char *shown, bool states_only)
{
	const struct probe_spec *s = &pt->specs[spec];

	return !s->from && !(states_only && s->engine && !probe_spec_makes_states(s)) && probe_spec_matches(s, shown);
}

/* The number of the first specification whose arguments need the sizes of tensors, plus 1; 0: none does. */
static size_t tensors_wanted(const struct probe_table *pt)
{
	for (size_t i = 0; i < pt->n; i++) {
		const struct python_values *v = pt->specs[i].batch ? NULL : pt->specs[i].values;

		for (unsigned int k = 0; v && k < v->n; k++) {
			if (v->value[k].as == PYTHON_AS_LENGTH || v->value[k].as == PYTHON_AS_SIZE)
				return i + 1;
		}
	}
	return 0;
}

bool probe_table_wants_tensors(const struct probe_table *pt, const char *shown)
{
	const char *slash = strrchr(shown, '/');

	return !strncmp(slash ? slash + 1 : shown, "libtorch_cpu.so", strlen("libtorch_cpu.so")) && tensors_wanted(pt);
}

static int find_tensors(struct site_walk *w, const char *shown)
{
	struct elf_symbol sym = { .name = SIZES_FUNCTION };
	struct found found = { .kind = FOUND_TENSORS, .symbol = &sym };

	if (!probe_table_wants_tensors(w->pt, shown))
		return 0;
	found.spec = tensors_wanted(w->pt) - 1;
	tensor_layout_find(w->elf, NULL, NULL, &found.tensors);
	return w->cb(&found, w->arg);
}

int sites_find(const struct probe_table *pt, struct elf_file *elf, const char *shown, bool states_only,
	found_cb cb, void *arg)
{
	struct site_walk w = { .elf = elf, .pt = pt, .cb = cb, .arg = arg };
	bool begun = false;
	int err = find_tensors(&w, shown);

	for (w.id = 0; w.id < pt->n && !err; w.id++) {
		if (!sites_wants(pt, w.id, shown, states_only))
			continue;
		if (!begun)
			err = go_text_read(elf, &w.go);
		begun = true;
		if (!err && pt->specs[w.id].declared && !w.declared.text) {
			declared_read(elf, &w.declared);
			if (probe_table_shapes(pt) && !pt->specs[w.id].nargs)
				tensor_layout_find(elf, NULL, NULL, &w.layout);
		}
		if (!err)
			err = walk_spec(&w);
	}
	declared_clear(&w.declared);
	return err;
}

static void site_warn_refused(struct probe_table *pt, const char *shown, const struct found *f, size_t *last_told)
{
	struct probe_spec *s = &pt->specs[f->spec];
	bool told = *last_told == f->spec;

	*last_told = f->spec;
	s->refused = true;
	if (told)
		return;
	if (f->kind == FOUND_NO_PYTHON) {
		if (s->engine)
			log_debug("%s: not in %s: %s", s->symbol, shown, f->why);
		else
			log_warn("%s %s: not in %s: %s", python_option(s->role), s->symbol, shown, f->why);
		return;
	}
	if (f->kind == FOUND_GO)
		log_warn("%s in %s is a Go function, which a return probe would break: left out (a preset can "
			 "probe its entry, with \"instant\")",
			f->symbol->name, shown);
	else
		log_warn("%s at +0x%lx: argument %s cannot be read: %s; the probe is left out there",
			f->symbol->name, (unsigned long)f->symbol->offset, s->args[f->arg].name, f->why);
}

static void site_warn_rows(const struct probe_table *pt, const char *shown, const struct found *f, size_t *last_told)
{
	const struct probe_spec *s = &pt->specs[f->spec];
	bool all = true;

	for (int i = 0; i < ROW_COLUMNS; i++)
		all &= !s->row[i].loads || f->row[i].loads;
	if (all) {
		log_debug("%s in %s: the rows of its batch are laid out in another way than in the builds that the preset %s was made for",
			s->symbol, shown, s->engine->name);
		return;
	}
	*last_told = f->spec;
	log_warn("%s in %s: its batch is not that of the builds that the preset %s was made for, so what is in a step is not known: "
		 "steps have no requests (docs/engines.md)",
		s->symbol, shown, s->engine->name);
}

/* The specification that the place belongs to. */
static int find_spec(struct probe_table *pt, const struct found *f, const struct elf_symbol *symbol, size_t *ret_id)
{
	const struct probe_spec *s = &pt->specs[f->spec];

	*ret_id = f->spec;
	if (f->row)
		return probe_table_rows(pt, f->spec, symbol->name, f->fetch, f->row, ret_id);
	if (s->is_usdt)
		return probe_table_place(pt, f->spec, symbol->name, f->fetch, ret_id);
	return s->is_glob ? probe_table_match(pt, f->spec, symbol->name, f->site.no_exits, &f->tensors, ret_id) : 0;
}

/* Of builds that differ, none is right. */
static void take_tensors(struct probe_table *pt, const char *shown, uint32_t sizes)
{
	if (!sizes)
		log_warn("%s does not show where it keeps the sizes of tensors: len() and shape of tensors are unknown", shown);
	pt->tensors_differ |= pt->tensor_sizes && pt->tensor_sizes != sizes;
	pt->tensor_sizes = sizes;
	for (size_t i = 0; i < pt->n; i++) {
		if (pt->specs[i].values)
			pt->specs[i].values->tensor_sizes = pt->tensors_differ ? 0 : sizes;
	}
}

int sites_take(struct probe_table *pt, const char *shown, const struct found *f, size_t *last_told,
	probe_site_cb cb, void *arg)
{
	char usdt_name[sizeof(SPEC_USDT) + USDT_NAME_MAX];
	struct elf_symbol symbol = *f->symbol;
	struct probe_site ps = { .symbol = &symbol, .site = f->site, .semaphore = f->semaphore };
	struct probe_spec *s;
	int err;

	if (f->kind == FOUND_TENSORS) {
		take_tensors(pt, shown, f->tensors.sizes);
		return 0;
	}
	if (f->kind != FOUND_SITE) {
		site_warn_refused(pt, shown, f, last_told);
		return 0;
	}
	if (f->row && *last_told != f->spec)
		site_warn_rows(pt, shown, f, last_told);
	if (f->declared && pt->specs[f->spec].declared && probe_table_shapes(pt) && !f->tensors.sizes && *last_told != f->spec) {
		*last_told = f->spec;
		log_debug("%s does not show where it keeps the sizes of tensors: operators have no shapes", shown);
	}
	if (pt->specs[f->spec].is_usdt) {
		snprintf(usdt_name, sizeof(usdt_name), SPEC_USDT "%s", symbol.name);
		symbol.name = usdt_name;
	}
	err = find_spec(pt, f, &symbol, &ps.spec);
	if (err == -E2BIG) {
		pt->left_out++;
		return 0;
	}
	if (err)
		return err;
	s = &pt->specs[ps.spec];
	if (f->declared && !s->declared && pt->specs[f->spec].declared)
		s->declared = xasprintf("%s%s", pt->specs[f->spec].declared, f->declared);
	return cb(&ps, arg);
}

#define TEXT_MAX (UINT64_C(256) << 20) /* of a file's read-only data; PyTorch 1.13 has 10 MB */
#define TENSOR_CODE_MAX 1024
#define DECLARED_MAX 65536 /* further ones are left out; PyTorch 1.13 has 2,900 */

/* The length of the name, with the name of the overload; 0: it is no declaration. */
static size_t declared_name_length(const char *text)
{
	static const char word[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
	size_t n = strspn(text, word), overload = text[n] == '.' ? 1 + strspn(text + n + 1, word) : 0;

	if (!n || isdigit((unsigned char)*text) || overload == 1 || text[n + overload] != '(' || !strstr(text, ") -> "))
		return 0;
	return n + overload;
}

/* The point before an overload is an underscore in the function's name. */
static int declared_compare(const char *a, size_t a_len, const char *b, size_t b_len)
{
	for (size_t i = 0; i < a_len && i < b_len; i++) {
		char x = a[i] == '.' ? '_' : a[i], y = b[i] == '.' ? '_' : b[i];

		if (x != y)
			return x < y ? -1 : 1;
	}
	return a_len < b_len ? -1 : a_len > b_len;
}

static int declared_compare_names(const void *a, const void *b)
{
	const char *x = *(const char *const *)a, *y = *(const char *const *)b;

	return declared_compare(x, strlen(x), y, strlen(y));
}

void declared_clear(struct declared *d)
{
	free(d->text);
	free(d->names);
	*d = (struct declared){ 0 };
}

void declared_read(struct elf_file *elf, struct declared *ret)
{
	struct declared d = { 0 };
	uint64_t vaddr;
	size_t len = 0;
	void *text;

	if (elf_read_section(elf, ".rodata", TEXT_MAX, &vaddr, &text, &len))
		return;
	d.text = text;
	d.names = xcalloc(DECLARED_MAX, sizeof(*d.names));
	for (char *p = d.text, *next; p < d.text + len && d.n < DECLARED_MAX; p = next) {
		size_t name = declared_name_length(p);

		next = p + strlen(p) + 1; /* the copy ends with a NUL */
		if (!name)
			continue;
		p[name] = 0;
		d.names[d.n++] = p;
	}
	qsort(d.names, d.n, sizeof(*d.names), declared_compare_names);
	*ret = d;
}

/* 1: the result is returned in memory, whose address is the first argument; 0: in registers; -1: not known. */
static int result_of(const char *declared)
{
	const char *result = strstr(declared + strlen(declared) + 1, ") -> ");
	size_t len = result ? strlen(result) : 0;

	if (!result)
		return -1;
	if (!strcmp(result + 5, "()") || !strcmp(result + 5, "bool") || !strcmp(result + 5, "int") || !strcmp(result + 5, "float") ||
		!strcmp(result + 5, "ScalarType"))
		return 0;
	if (!strncmp(result + 5, "Tensor", 6)) /* Tensor(a!) is a reference */
		return strcmp(result + len - 2, "!)") != 0;
	return result[5] == '(' || !strcmp(result + 5, "Scalar") || !strcmp(result + 5, "SymInt") ? 1 : -1;
}

const char *declared_find(const struct declared *d, const char *name, size_t len, int *ret_result)
{
	size_t at = bisect(d->n, i, declared_compare(d->names[i], strlen(d->names[i]), name, len) < 0);
	const char *found = NULL;

	if (at < d->n && !declared_compare(name, len, d->names[at], strlen(d->names[at]))) {
		*ret_result = result_of(d->names[at]);
		return d->names[at];
	}
	/* linkers store a text that is the end of another one only once: addmm in sspaddmm */
	for (size_t i = 0; i < d->n; i++) {
		const char *all = d->names[i];
		size_t more = strlen(all) > len ? strlen(all) - len : 0;

		if (!more || !len || declared_compare(name, len, all + more, len))
			continue;
		/* the name is the end of this one: nothing but the name is known */
		*ret_result = !found || *ret_result == result_of(all) ? result_of(all) : -1;
		found = found ? found : all + more;
	}
	return found;
}

/* ---- tensors ---- */

/*
 * A tensor has the number of its sizes, followed by the sizes, or by their address if they are more than SHAPE_SIZES:
 *	mov n, [tensor + N];  ...;  cmp n, 5;  ja ...;  lea sizes, [tensor + N + 8], or add tensor, N + 8
 */
static void find_sizes(const struct code *c, struct tensor_args *t)
{
	struct code_place at = code_at(c, c->vaddr);
	const cs_insn *in = c->in;
	x86_op_mem n = {};
	x86_reg reg = X86_REG_INVALID;
	bool compared = false;

	while (code_next(c, &at, c->in)) {
		const cs_x86_op *op = in->detail->x86.operands;

		if (in->id == X86_INS_MOV && op[0].type == X86_OP_REG && op[1].type == X86_OP_MEM && op[1].size == 8) {
			reg = op[0].reg;
			n = op[1].mem;
			compared = false;
		} else if (in->id == X86_INS_CMP && op[0].type == X86_OP_REG && op[1].type == X86_OP_IMM) {
			compared = op[0].reg == reg && op[1].imm == SHAPE_SIZES && n.disp > 0 && n.disp < INT16_MAX;
		} else if (compared && ((in->id == X86_INS_LEA && op[1].mem.base == n.base && op[1].mem.disp == n.disp + 8) ||
					       (in->id == X86_INS_ADD && op[0].type == X86_OP_REG && op[0].reg == n.base &&
						       op[1].type == X86_OP_IMM && op[1].imm == n.disp + 8))) {
			t->sizes = (uint32_t)n.disp;
			return;
		}
	}
}

/*
 * ... and the number of its type, 2 bytes. The one after the last is that of an undefined tensor:
 *	mov tensor, [rdi];  movzx n, word [tensor + N];  cmp n, TYPES;  ja ...
 */
static void find_types(const struct code *c, struct tensor_args *t)
{
	struct code_place at = code_at(c, c->vaddr);
	const cs_insn *in = c->in;
	x86_reg tensor = X86_REG_INVALID;
	uint32_t found = 0;

	while (code_next(c, &at, c->in)) {
		const cs_x86_op *op = in->detail->x86.operands;

		if (in->id == X86_INS_MOV && op[0].type == X86_OP_REG && op[1].type == X86_OP_MEM && op[1].mem.base == X86_REG_RDI &&
			!op[1].mem.disp)
			tensor = op[0].reg;
		else if (in->id == X86_INS_MOVZX && op[1].type == X86_OP_MEM && op[1].size == 2 && op[1].mem.base == tensor &&
			 op[1].mem.disp > 0 && op[1].mem.disp < INT16_MAX)
			found = (uint32_t)op[1].mem.disp;
		else if (found && in->id == X86_INS_CMP && op[0].size == 2 && op[1].type == X86_OP_IMM && op[1].imm > 0 &&
			 op[1].imm < 1 << SHAPE_TYPE_BITS)
			t->n_types = (uint8_t)op[1].imm;
		if (found && in->id != X86_INS_MOVZX)
			break;
	}
	t->types = t->n_types ? found : 0;
}

static void find_in_code(
	struct elf_file *elf, const char *function, void (*find)(const struct code *c, struct tensor_args *t), struct tensor_args *t)
{
	struct elf_symbol sym;
	struct code c;

	if (elf_find_symbol(elf, function, &sym) || sym.size > TENSOR_CODE_MAX || !code_read(elf, &sym, sym.size, &c))
		return;
	find(&c, t);
	code_close(&c);
}

void tensor_layout_find(struct elf_file *elf, const char *sizes_function, const char *types_function, struct tensor_args *t)
{
	find_in_code(elf, sizes_function ?: SIZES_FUNCTION, find_sizes, t);
	find_in_code(elf, types_function ?: TYPES_FUNCTION, find_types, t);
}

/* How many general registers an argument takes if so many are free (System V ABI for x86-64). -1: not known. */
static int registers_of(char *type)
{
	/* the last two are passed by address, since they have destructors */
	static const char *const one[] = { "bool", "c10::ScalarType", "c10::Layout", "c10::Device", "c10::MemoryFormat", "c10::SymInt",
		"at::Generator" };
	bool optional = !strncmp(type + 3, "::optional<", 11);
	char *last = type + strlen(type) - 1;

	if (*last == '&')
		return 1;
	if (!strncmp(type, "c10::ArrayRef<", 14) || !strncmp(type + 3, "::basic_string_view<", 20))
		return 2;
	if (optional) {
		*last = 0;
		type += 14;
	}
	if (!strcmp(type, "double") || !strcmp(type, "long"))
		return optional + (*type == 'l');
	for (size_t i = 0; i < sizeof(one) / sizeof(one[0]); i++) {
		if (!strcmp(one[i], type))
			return 1;
	}
	return -1;
}

/* Terminates the argument at p and returns the next one; NULL: none. */
static char *next_argument(char *p)
{
	int inside = 0;

	for (; *p && (inside || (*p != ',' && *p != ')')); p++)
		inside += (*p == '<' || *p == '(') - (*p == '>' || *p == ')');
	if (*p != ',')
		return *p = 0, NULL;
	*p++ = 0;
	return p + strspn(p, " ");
}

static void tensor_args_add(struct tensor_args *t, const char *type, unsigned int reg)
{
	static const struct {
		const char *type;
		uint16_t index;
	} known[] = { { "at::Tensor const&", 0 }, { "at::Tensor&", 0 }, { "c10::optional<at::Tensor> const&", SHAPE_FLAG_FIRST },
		{ "std::optional<at::Tensor> const&", SHAPE_FLAG_LAST } };

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]) && __builtin_popcount(t->regs) < FUNC_VALS_MAX / 2; i++) {
		if (strcmp(known[i].type, type))
			continue;
		t->tensors |= 1u << t->n;
		t->regs |= (uint8_t)(1u << reg);
		t->index |= (uint16_t)(known[i].index << 2 * reg);
	}
}

void tensor_args_read(const char *symbol, int result, const struct tensor_args *layout, struct tensor_args *ret_tensors)
{
	char *text = cplus_demangle_v3(symbol, DMGL_PARAMS), *next, *p = text ? strchr(text, '(') : NULL;
	struct tensor_args t = { .sizes = layout->sizes, .types = layout->types, .n_types = layout->n_types };
	int reg = result;

	for (p = p && p[1] != ')' ? p + 1 : NULL; p && t.n < 32; p = next, t.n++) {
		int n;

		next = next_argument(p);
		if (reg >= 0 && reg <= REG_ARG6)
			tensor_args_add(&t, p, (unsigned int)reg);
		n = strlen(p) > 3 ? registers_of(p) : -1;
		/* an argument that does not fit is passed in memory, and a later one may fit again */
		if (reg + n <= REG_ARG6 + 1)
			reg = reg < 0 || n < 0 ? -1 : reg + n;
	}
	free(text);
	*ret_tensors = t;
}
