// SPDX-License-Identifier: BSD-2-Clause
#include "engine/declared.h"

#include <ctype.h>
#include <libiberty/demangle.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "target/code.h"
#include "util/list.h"

#define TEXT_MAX (UINT64_C(256) << 20) /* of a file's read-only data; PyTorch 1.13 has 10 MB */
#define TENSOR_CODE_MAX 1024
#define DECLARED_MAX 65536             /* further ones are left out; PyTorch 1.13 has 2,900 */

/* As long as its name is, with that of its overload; 0: it is no declaration. */
static size_t declaration(const char *text)
{
	static const char word[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
	size_t n = strspn(text, word), overload = text[n] == '.' ? 1 + strspn(text + n + 1, word) : 0;

	if (!n || isdigit((unsigned char)*text) || overload == 1 || text[n + overload] != '(' || !strstr(text, ") -> "))
		return 0;
	return n + overload;
}

/* The point before an overload is an underscore in the function's name. */
static int compare(const char *a, size_t a_len, const char *b, size_t b_len)
{
	for (size_t i = 0; i < a_len && i < b_len; i++) {
		char x = a[i] == '.' ? '_' : a[i], y = b[i] == '.' ? '_' : b[i];

		if (x != y)
			return x < y ? -1 : 1;
	}
	return a_len < b_len ? -1 : a_len > b_len;
}

static int by_name(const void *a, const void *b)
{
	const char *x = *(const char *const *)a, *y = *(const char *const *)b;

	return compare(x, strlen(x), y, strlen(y));
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
		size_t name = declaration(p);

		next = p + strlen(p) + 1; /* the copy ends with a NUL */
		if (!name)
			continue;
		p[name] = 0;
		d.names[d.n++] = p;
	}
	qsort(d.names, d.n, sizeof(*d.names), by_name);
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
	size_t at = bisect(d->n, i, compare(d->names[i], strlen(d->names[i]), name, len) < 0);
	const char *found = NULL;

	if (at < d->n && !compare(name, len, d->names[at], strlen(d->names[at]))) {
		*ret_result = result_of(d->names[at]);
		return d->names[at];
	}
	/* linkers store a text that is the end of another one only once: addmm in sspaddmm */
	for (size_t i = 0; i < d->n; i++) {
		const char *all = d->names[i];
		size_t more = strlen(all) > len ? strlen(all) - len : 0;

		if (!more || !len || compare(name, len, all + more, len))
			continue;
		/* it is the end of one of them, of which only the name is known */
		*ret_result = !found || *ret_result == result_of(all) ? result_of(all) : -1;
		found = found ? found : all + more;
	}
	return found;
}

/* ---- tensors ---- */

/*
 * Tensors have the number of their sizes, and behind it the sizes, or if these are more than SHAPE_SIZES their address:
 *	mov n, [tensor + N];  ...;  cmp n, 5;  ja ...;  lea sizes, [tensor + N + 8], or add tensor, N + 8
 */
static uint32_t find_sizes(const struct code *c)
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
			return (uint32_t)n.disp;
		}
	}
	return 0;
}

uint32_t tensor_sizes_find(struct elf_file *elf, const char *function)
{
	struct elf_symbol sym;
	struct code c;
	uint32_t found;

	if (elf_find_symbol(elf, function, &sym) || sym.size > TENSOR_CODE_MAX || !code_read(elf, &sym, sym.size, &c))
		return 0;
	found = find_sizes(&c);
	code_close(&c);
	return found;
}

/* How many general registers an argument takes, if there are as many (System V ABI for x86-64). -1: not known. */
static int registers_of(char *type)
{
	/* of the last two the address is passed, since they have destructors */
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

/* Ends the argument that begins there, and returns the next one; NULL: there is none. */
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

static void take_tensor(struct tensor_args *t, const char *type, unsigned int reg)
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

void tensor_args_read(const char *symbol, int result, uint32_t sizes, struct tensor_args *ret_tensors)
{
	char *text = cplus_demangle_v3(symbol, DMGL_PARAMS), *next, *p = text ? strchr(text, '(') : NULL;
	struct tensor_args t = { .sizes = sizes };
	int reg = result;

	for (p = p && p[1] != ')' ? p + 1 : NULL; p && t.n < 32; p = next, t.n++) {
		int n;

		next = next_argument(p);
		if (reg >= 0 && reg <= REG_ARG6)
			take_tensor(&t, p, (unsigned int)reg);
		n = strlen(p) > 3 ? registers_of(p) : -1;
		/* what does not fit is passed in memory, and what comes behind it may fit again */
		if (reg + n <= REG_ARG6 + 1)
			reg = reg < 0 || n < 0 ? -1 : reg + n;
	}
	free(text);
	*ret_tensors = t;
}
