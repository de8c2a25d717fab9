// SPDX-License-Identifier: BSD-2-Clause
/* Argument expressions: from text to the small table that the BPF side interprets. */
#include "engine/spec.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "target/usdt.h"

#define WRITTEN_DEREFS_MAX 3

struct type {
	const char *name;
	uint8_t size;
	bool is_signed;
};

static const struct type types[] = {
	{ "u8", 1, false },
	{ "u16", 2, false },
	{ "u32", 4, false },
	{ "u64", 8, false },
	{ "s8", 1, true },
	{ "s16", 2, true },
	{ "s32", 4, true },
	{ "s64", 8, true },
	{ "f32", 4, false },
	{ "f64", 8, false },
	{ "ptr", 8, false },
	{ "handle", 8, false },
	{ "str", 8, false },
	{ "str64", 8, false },
};

static const char *const registers[REG_MAX] = {
	[REG_ARG1] = "arg1",
	[REG_ARG2] = "arg2",
	[REG_ARG3] = "arg3",
	[REG_ARG4] = "arg4",
	[REG_ARG5] = "arg5",
	[REG_ARG6] = "arg6",
#ifdef __aarch64__
	[REG_ARG7] = "arg7",
	[REG_ARG8] = "arg8",
#endif
	[REG_SP] = "sp",
};

static void skip_space(const char **p)
{
	while (isspace((unsigned char)**p))
		(*p)++;
}

static size_t expr_word_length(const char *p)
{
	size_t n = 0;

	while (isalnum((unsigned char)p[n]) || p[n] == '_')
		n++;
	return n;
}

static bool take_char(const char **p, char c)
{
	skip_space(p);
	if (**p != c)
		return false;
	(*p)++;
	return true;
}

static bool take_word(const char **p, const char *word)
{
	size_t len = expr_word_length(*p);

	if (strlen(word) != len || strncmp(word, *p, len))
		return false;
	*p += len;
	return true;
}

static int take_number_in(const char **p, long min, long max, int32_t *ret)
{
	char *end;
	long v;

	errno = 0;
	v = strtol(*p, &end, 0);
	if (end == *p || errno || v < min || v > max)
		return -EINVAL;
	*p = end;
	*ret = (int32_t)v;
	return 0;
}

static int parse_offset(const char **p, int32_t *ret)
{
	skip_space(p);
	*ret = 0;
	return **p == '+' || **p == '-' ? take_number_in(p, INT32_MIN, INT32_MAX, ret) : 0;
}

/* Parses ">>N", a part of a register: its upper half is the second member of a structure passed by value. */
static int parse_shift(const char **p, int32_t *ret)
{
	skip_space(p);
	*ret = 0;
	if (strncmp(*p, ">>", 2))
		return 0;
	*p += 2;
	return take_number_in(p, 0, 63, ret);
}

static int parse_register(const char **p, struct fetch *f, const char **ret_err)
{
	if (take_word(p, "ret")) { /* what the function returns */
		f->reg = REG_NONE;
		f->flags |= FETCH_F_RETURN;
		return 0;
	}
	for (int i = 0; i < REG_MAX; i++) {
		if (!registers[i] || !take_word(p, registers[i]))
			continue;
		f->reg = (uint8_t)i;
		return 0;
	}
	*ret_err = "not a register (arg1 to arg6, sp)";
	return -EINVAL;
}

static int parse_usdt_arg(const char **p, struct fetch *f, const char **ret_err)
{
	size_t len = expr_word_length(*p);
	char *end = NULL;
	long n = 0;

	if (len > 3 && !strncmp(*p, "arg", 3) && isdigit((unsigned char)(*p)[3]))
		n = strtol(*p + 3, &end, 10);
	if (n < 1 || n > USDT_ARGS_MAX || end != *p + len) {
		*ret_err = "not an argument of a USDT probe (arg1 to arg12)";
		return -EINVAL;
	}
	f->reg = (uint8_t)(FETCH_USDT_ARG | (n - 1));
	*p = end;
	return 0;
}

/* The load of a column that advances with the row. */
struct row_place {
	uint32_t stride; /* 0: not parsed yet */
	uint8_t load;    /* its number, the innermost is 0 */
};

/* Parses "+N*row" or "+row" before, after or instead of the offset. */
static int parse_row(const char **p, const struct fetch *f, struct row_place *row, int32_t *off)
{
	const char *at = *p;
	int32_t n = 1;

	if (!take_char(&at, '+'))
		return 0;
	skip_space(&at);
	if (isdigit((unsigned char)*at)) {
		if (take_number_in(&at, 0, INT32_MAX, &n) || !take_char(&at, '*'))
			return 0;
		skip_space(&at);
	}
	if (!take_word(&at, "row"))
		return 0;
	if (row->stride || n < 1 || n > INT16_MAX)
		return -EINVAL;
	row->stride = (uint32_t)n;
	row->load = f->derefs;
	*p = at;
	return *off ? 0 : parse_offset(p, off);
}

/* expr := REG | '*' '(' expr [+N] ')'; the innermost load comes first in f->off. */
static int parse_source(
	const char **p, struct fetch *f, bool usdt, struct row_place *row, int depth, const char **ret_err)
{
	int max = row ? FETCH_DEREFS_MAX : WRITTEN_DEREFS_MAX, err;

	if (!take_char(p, '*'))
		return usdt ? parse_usdt_arg(p, f, ret_err) : parse_register(p, f, ret_err);
	if (depth >= max) {
		*ret_err = row ? "more than four loads" : "more than three loads";
		return -EINVAL;
	}
	if (!take_char(p, '(')) {
		*ret_err = "'(' expected after '*'";
		return -EINVAL;
	}
	err = parse_source(p, f, usdt, row, depth + 1, ret_err);
	if (err)
		return err;
	if (row)
		err = parse_row(p, f, row, &f->off[f->derefs]);
	if (!err && !f->off[f->derefs])
		err = parse_offset(p, &f->off[f->derefs]);
	if (!err && row)
		err = parse_row(p, f, row, &f->off[f->derefs]);
	if (err || !take_char(p, ')')) {
		*ret_err = "'+OFFSET)' expected";
		return -EINVAL;
	}
	f->derefs++;
	return 0;
}

/* "elements(SOURCE+N, BYTES)": the length of a vector; its begin is stored at SOURCE+N, its end 8 bytes further. */
static int parse_elements(const char **p, struct fetch *f, const char **ret_err)
{
	int32_t bytes;

	*ret_err = "elements(SOURCE+OFFSET, BYTES) expected";
	if (!take_char(p, '(') || parse_source(p, f, false, NULL, 1, ret_err) || parse_offset(p, &f->off[f->derefs]) || !take_char(p, ',') ||
		take_number_in(p, 1, UINT16_MAX, &bytes) || !take_char(p, ')'))
		return -EINVAL;
	f->derefs++;
	f->element = (uint16_t)bytes;
	return 0;
}

static int parse_type(const char **p, const struct enum_table *enums, size_t n_enums, struct fetch *f,
	struct probe_arg *arg)
{
	skip_space(p);
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		const struct type *t = &types[i];

		if (!take_word(p, t->name))
			continue;
		f->size = t->size;
		arg->is_signed = t->is_signed;
		arg->is_handle = !strcmp(t->name, "handle");
		arg->is_pointer = arg->is_handle || !strcmp(t->name, "ptr");
		arg->is_float = t->name[0] == 'f';
		arg->is_string = !strncmp(t->name, "str", 3);
		f->flags = arg->is_string ? FETCH_F_STRING : t->is_signed ? FETCH_F_SIGNED
									  : 0;
		return 0;
	}
	for (size_t i = 0; i < n_enums; i++) {
		if (!take_word(p, enums[i].name))
			continue;
		f->size = 4;
		arg->names = &enums[i];
		return 0;
	}
	return -EINVAL;
}

int fetch_parse(const char *text, const struct enum_table *enums, size_t n_enums, bool usdt,
	struct fetch *ret_fetch, struct probe_arg *ret_arg, const char **ret_err)
{
	struct probe_arg arg = { .name = ret_arg->name, .only_if = ret_arg->only_if };
	struct fetch f = {};
	const char *p = text, *shift;
	int err;

	err = parse_type(&p, enums, n_enums, &f, &arg);
	if (err) {
		*ret_err = "not a type (u8..u64, s8..s64, f32, f64, ptr, str or an enum of the preset)";
		return err;
	}
	skip_space(&p);
	if (!usdt && !arg.is_string && !arg.is_float && take_word(&p, "elements"))
		err = parse_elements(&p, &f, ret_err);
	else
		err = parse_source(&p, &f, usdt, NULL, 0, ret_err);
	if (err)
		return err;
	skip_space(&p);
	shift = p;
	if (f.flags & FETCH_F_RETURN && (f.derefs || *p || arg.is_string || arg.is_float)) {
		*ret_err = "\"ret\" is a whole number or address: nothing is read from there";
		return -EINVAL;
	}
	if (!f.derefs && !arg.is_string && !usdt && parse_shift(&p, &f.off[0])) {
		*ret_err = "'>>0' to '>>63' expected";
		return -EINVAL;
	}
	/* a structure that contains integers is in a general register as a whole */
	if (arg.is_float && !f.derefs && !usdt && p == shift) {
		*ret_err = "floating-point registers cannot be read: an f32 or f64 must be loaded, *(...)";
		return -EINVAL;
	}
	skip_space(&p);
	if (*p) {
		*ret_err = "text after the expression";
		return -EINVAL;
	}
	arg.size = f.size;
	*ret_fetch = f;
	*ret_arg = arg;
	return 0;
}

int fetch_parse_row(const char *text, struct row_fetch *ret_fetch, const char **ret_err)
{
	struct row_place row = {};
	struct probe_arg arg = {};
	struct row_fetch r = {};
	struct fetch f = {};
	const char *p = text;
	int err;

	*ret_err = "not a type of number (u8..u64, s8..s64)";
	err = parse_type(&p, NULL, 0, &f, &arg);
	if (err || arg.is_string || arg.is_float)
		return -EINVAL;
	err = parse_source(&p, &f, false, &row, 0, ret_err);
	if (err)
		return err;
	skip_space(&p);
	*ret_err = "text after the expression";
	if (*p)
		return -EINVAL;
	*ret_err = "\"ret\" is not known before the function returns";
	if (f.flags & FETCH_F_RETURN)
		return -EINVAL;
	*ret_err = "the last load or the one before it must be of an element for each row: *(SOURCE+8*row)";
	if (!row.stride || f.derefs - row.load > 2)
		return -EINVAL;
	r.stride = row.stride;
	r.loads = (uint8_t)(f.derefs - row.load);
	r.size = f.size;
	r.flags = f.flags;
	for (int i = 0; i < r.loads; i++) {
		r.off[i] = f.off[row.load + i];
		f.off[row.load + i] = 0;
	}
	r.array = f;
	r.array.derefs = row.load;
	r.array.size = 8;
	r.array.flags = 0;
	*ret_fetch = r;
	return 0;
}

static uint64_t value_extend(uint64_t v, unsigned int size, bool is_signed)
{
	unsigned int unused = 64 - 8 * size;

	return is_signed ? (uint64_t)((int64_t)(v << unused) >> unused) : v << unused >> unused;
}

/* Converts as C does: cuts to the type or, if the type is wider, extends by the argument's own sign. */
static void fetch_narrow(struct fetch *f, const struct usdt_arg *a)
{
	if (a->size >= f->size)
		return;
	f->size = a->size;
	f->flags = (uint8_t)((f->flags & ~FETCH_F_SIGNED) | (a->is_signed ? FETCH_F_SIGNED : 0));
}

static int fetch_place_const(struct fetch *f, int64_t value, const char **ret_why)
{
	int64_t at;

	if (!f->derefs) {
		value = (int64_t)value_extend((uint64_t)value, f->size, f->flags & FETCH_F_SIGNED);
		f->flags = (uint8_t)(f->flags | FETCH_F_CONST);
		f->off[0] = (int32_t)value;
		f->off[1] = (int32_t)(value >> 32);
		return 0;
	}
	if (__builtin_add_overflow(value, f->off[0], &at) || at != (int32_t)at) {
		*ret_why = "it is an address that is too large";
		return -EINVAL;
	}
	f->off[0] = (int32_t)at;
	return 0;
}

static int fetch_place_memory(struct fetch *f, const struct usdt_arg *a, const char **ret_why)
{
	if (a->value != (int32_t)a->value) {
		*ret_why = "its variable is too far away";
		return -EINVAL;
	}
	if (f->flags & FETCH_F_STRING && !f->derefs)
		f->off[f->derefs++] = 0; /* the string is where the load points */
	memmove(&f->off[1], &f->off[0], sizeof(f->off) - sizeof(f->off[0]));
	f->off[0] = (int32_t)a->value;
	f->derefs++;
	if (a->index != REG_NONE) {
		f->index = (uint8_t)(a->index + 1);
		f->shift = a->shift;
	}
	return 0;
}

int fetch_place(const struct fetch *f, const struct probe_arg *arg, const struct usdt_note *note,
	struct fetch *ret_fetch, const char **ret_why)
{
	unsigned int n = f->reg & ~FETCH_USDT_ARG;
	const struct usdt_arg *a = &note->args[n];
	struct fetch placed = *f;
	int err = 0;

	*ret_why = NULL;
	if (n >= note->n_args)
		*ret_why = "the probe has no such argument here";
	else if (a->place == USDT_NOWHERE)
		*ret_why = a->why;
	else if ((f->derefs || arg->is_string) && a->size != 8)
		*ret_why = "it is not a pointer";
	else if (arg->is_float && !f->derefs && a->size != f->size)
		*ret_why = "it has a different size";
	if (*ret_why)
		return -EINVAL;
	if (!f->derefs && !arg->is_string)
		fetch_narrow(&placed, a);
	placed.reg = a->reg;
	switch (a->place) {
	case USDT_CONST:
		err = fetch_place_const(&placed, a->value, ret_why);
		break;
	case USDT_MEM:
		err = fetch_place_memory(&placed, a, ret_why);
		break;
	default:
		if (!f->derefs)
			placed.off[0] = (int32_t)a->value;
	}
	if (!err)
		*ret_fetch = placed;
	return err;
}
