// SPDX-License-Identifier: BSD-2-Clause
/* Argument expressions: from text to the small table that the BPF side interprets. */
#include "engine/engine.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

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
	{ "ptr", 8, false },
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

static size_t word_length(const char *p)
{
	size_t n = 0;

	while (isalnum((unsigned char)p[n]) || p[n] == '_')
		n++;
	return n;
}

static int parse_offset(const char **p, int32_t *ret)
{
	char *end;
	long v;

	skip_space(p);
	if (**p != '+' && **p != '-') {
		*ret = 0;
		return 0;
	}
	errno = 0;
	v = strtol(*p, &end, 0);
	if (end == *p || errno || v > INT32_MAX || v < INT32_MIN)
		return -EINVAL;
	*p = end;
	*ret = (int32_t)v;
	return 0;
}

/* A part of a register: the upper half is the second member of a structure passed by value. */
static int parse_shift(const char **p, int32_t *ret)
{
	char *end;
	long v;

	skip_space(p);
	if (strncmp(*p, ">>", 2)) {
		*ret = 0;
		return 0;
	}
	*p += 2;
	skip_space(p);
	errno = 0;
	v = strtol(*p, &end, 0);
	if (end == *p || errno || v < 0 || v > 63)
		return -EINVAL;
	*p = end;
	*ret = (int32_t)v;
	return 0;
}

/* expr := REG | '*' '(' expr [+N] ')'; the innermost load comes first in f->off. */
static int parse_source(const char **p, struct fetch *f, int depth, const char **ret_err)
{
	size_t len;
	int err;

	skip_space(p);
	if (**p == '*') {
		(*p)++;
		skip_space(p);
		if (**p != '(' || depth >= FETCH_DEREFS_MAX) {
			*ret_err = depth >= FETCH_DEREFS_MAX ? "more than three loads" : "'(' expected after '*'";
			return -EINVAL;
		}
		(*p)++;
		err = parse_source(p, f, depth + 1, ret_err);
		if (err)
			return err;
		err = parse_offset(p, &f->off[f->derefs]);
		skip_space(p);
		if (err || **p != ')') {
			*ret_err = "'+OFFSET)' expected";
			return -EINVAL;
		}
		(*p)++;
		f->derefs++;
		return 0;
	}
	len = word_length(*p);
	for (int i = 0; i < REG_MAX; i++) {
		if (!registers[i] || strlen(registers[i]) != len || strncmp(registers[i], *p, len))
			continue;
		f->reg = (uint8_t)i;
		*p += len;
		return 0;
	}
	*ret_err = "not a register (arg1 to arg6, sp)";
	return -EINVAL;
}

static int parse_type(const char **p, const struct enum_table *enums, size_t n_enums, struct fetch *f,
	struct probe_arg *arg)
{
	size_t len;

	skip_space(p);
	len = word_length(*p);
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		if (strlen(types[i].name) != len || strncmp(types[i].name, *p, len))
			continue;
		f->size = types[i].size;
		f->flags = types[i].is_signed ? FETCH_F_SIGNED : 0;
		arg->is_signed = types[i].is_signed;
		arg->is_pointer = !strcmp(types[i].name, "ptr");
		arg->is_string = !strncmp(types[i].name, "str", 3);
		if (arg->is_string)
			f->flags = FETCH_F_STRING;
		*p += len;
		return 0;
	}
	for (size_t i = 0; i < n_enums; i++) {
		if (strlen(enums[i].name) != len || strncmp(enums[i].name, *p, len))
			continue;
		f->size = 4;
		arg->names = &enums[i];
		*p += len;
		return 0;
	}
	return -EINVAL;
}

int fetch_parse(const char *text, const struct enum_table *enums, size_t n_enums,
	struct fetch *ret_fetch, struct probe_arg *ret_arg, const char **ret_err)
{
	struct fetch f = {};
	struct probe_arg arg = {};
	const char *p = text;
	int err;

	err = parse_type(&p, enums, n_enums, &f, &arg);
	if (err) {
		*ret_err = "not a type (u8..u64, s8..s64, ptr, str or an enum of the preset)";
		return err;
	}
	err = parse_source(&p, &f, 0, ret_err);
	if (err)
		return err;
	if (!f.derefs && !arg.is_string && parse_shift(&p, &f.off[0])) {
		*ret_err = "'>>0' to '>>63' expected";
		return -EINVAL;
	}
	skip_space(&p);
	if (*p) {
		*ret_err = "text behind the expression";
		return -EINVAL;
	}
	*ret_fetch = f;
	ret_arg->names = arg.names;
	ret_arg->is_signed = arg.is_signed;
	ret_arg->is_pointer = arg.is_pointer;
	ret_arg->is_string = arg.is_string;
	return 0;
}
