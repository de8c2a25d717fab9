// SPDX-License-Identifier: BSD-2-Clause
/* Argument expressions: the table for BPF, for every type and shape, and refusals. */
#include "engine/spec.h"
#include "unit.h"

static char *op_names[] = { "none", "mul_mat" };
static const struct enum_table enums[] = {
	{ .name = "ggml_type" },
	{ .name = "op", .names = op_names, .n = ARRAY_SIZE(op_names) },
	{ .name = "s32x" },
};

static char arg_name[] = "n";

/* What a failed call must leave alone. */
static const struct fetch untouched_fetch = { .reg = 0x55, .derefs = 0x55, .size = 0x55 };
static const struct probe_arg untouched_arg = { .name = arg_name, .is_signed = true };

struct good {
	const char *text;
	struct fetch fetch;
	bool is_signed, is_pointer, is_string, is_float;
	const struct enum_table *names;
};

#define GOOD(text_, ...)                            \
	{                                           \
		.text = text_, .fetch = __VA_ARGS__ \
	}
static const struct good goods[] = {
	GOOD("u8 arg1", { .reg = REG_ARG1, .size = 1 }),
	GOOD("u16 arg2", { .reg = REG_ARG2, .size = 2 }),
	GOOD("u32 arg3", { .reg = REG_ARG3, .size = 4 }),
	GOOD("u64 arg4", { .reg = REG_ARG4, .size = 8 }),
	GOOD("s8 arg5", { .reg = REG_ARG5, .size = 1, .flags = FETCH_F_SIGNED }, .is_signed = true),
	GOOD("s16 arg6", { .reg = REG_ARG6, .size = 2, .flags = FETCH_F_SIGNED }, .is_signed = true),
	GOOD("s32 sp", { .reg = REG_SP, .size = 4, .flags = FETCH_F_SIGNED }, .is_signed = true),
	GOOD("s64 arg1", { .reg = REG_ARG1, .size = 8, .flags = FETCH_F_SIGNED }, .is_signed = true),
	GOOD("str arg1", { .reg = REG_ARG1, .size = 8, .flags = FETCH_F_STRING }, .is_string = true),
	GOOD("str *(*(arg2+8)-1)", { .reg = REG_ARG2, .derefs = 2, .size = 8, .flags = FETCH_F_STRING, .off = { 8, -1 } }, .is_string = true),
	GOOD("ptr arg1", { .reg = REG_ARG1, .size = 8 }, .is_pointer = true),
	/* an enum of the preset is a C enum: four bytes */
	GOOD("op arg1", { .reg = REG_ARG1, .size = 4 }, .names = &enums[1]),
	GOOD("s32x arg1", { .reg = REG_ARG1, .size = 4 }, .names = &enums[2]),
	/* parts of a register */
	GOOD("u32 arg2>>32", { .reg = REG_ARG2, .size = 4, .off = { 32 } }),
	GOOD("s8 arg6 >> 0x3f ", { .reg = REG_ARG6, .size = 1, .flags = FETCH_F_SIGNED, .off = { 63 } }, .is_signed = true),
	GOOD("op arg1>>0", { .reg = REG_ARG1, .size = 4 }, .names = &enums[1]),
	/* loads: the innermost offset comes first */
	GOOD("u32 *(arg2)", { .reg = REG_ARG2, .derefs = 1, .size = 4 }),
	GOOD("op *(arg2+80)", { .reg = REG_ARG2, .derefs = 1, .size = 4, .off = { 80 } }, .names = &enums[1]),
	GOOD("s32 *(sp+8)", { .reg = REG_SP, .derefs = 1, .size = 4, .flags = FETCH_F_SIGNED, .off = { 8 } }, .is_signed = true),
	GOOD("u8 *(*(arg1+8)+16)", { .reg = REG_ARG1, .derefs = 2, .size = 1, .off = { 8, 16 } }),
	GOOD("ptr *(*(*(arg6-1)+0x10)-0x20)", { .reg = REG_ARG6, .derefs = 3, .size = 8, .off = { -1, 16, -32 } }, .is_pointer = true),
	GOOD("u64 *(*(*(sp)))", { .reg = REG_SP, .derefs = 3, .size = 8 }),
	GOOD("u64 *(arg1+0)", { .reg = REG_ARG1, .derefs = 1, .size = 8 }),
	/* offsets are limited to 32 bits */
	GOOD("u64 *(arg1+2147483647)", { .reg = REG_ARG1, .derefs = 1, .size = 8, .off = { INT32_MAX } }),
	GOOD("u64 *(arg1-2147483648)", { .reg = REG_ARG1, .derefs = 1, .size = 8, .off = { INT32_MIN } }),
	GOOD("u64 *(arg1+0x7fffffff)", { .reg = REG_ARG1, .derefs = 1, .size = 8, .off = { INT32_MAX } }),
	/* floats from memory, or a structure's member in a general register */
	GOOD("f32 *(arg1+4)", { .reg = REG_ARG1, .derefs = 1, .size = 4, .off = { 4 } }, .is_float = true),
	GOOD("f64 *(*(sp+8))", { .reg = REG_SP, .derefs = 2, .size = 8, .off = { 8 } }, .is_float = true),
	GOOD("f32 arg2 >>32", { .reg = REG_ARG2, .size = 4, .off = { 32 } }, .is_float = true),
	GOOD("f32 arg1>>0", { .reg = REG_ARG1, .size = 4 }, .is_float = true),
	/* white space where C allows it */
	GOOD(" \tu8  * ( * ( arg1 +8 ) -16 ) ", { .reg = REG_ARG1, .derefs = 2, .size = 1, .off = { 8, -16 } }),
};

TEST(test_good)
{
	for (size_t i = 0; i < ARRAY_SIZE(goods); i++) {
		const struct good *g = &goods[i];
		struct probe_arg arg = { .name = arg_name };
		struct fetch fetch = untouched_fetch;
		const char *why = NULL;
		int err;

		err = fetch_parse(g->text, enums, ARRAY_SIZE(enums), false, &fetch, &arg, &why);
		if (err || memcmp(&fetch, &g->fetch, sizeof(fetch)))
			fail_msg("%s: %d %s", g->text, err, why ? why : "wrong table");
		assert_int_equal(arg.is_signed, g->is_signed);
		assert_int_equal(arg.is_pointer, g->is_pointer);
		assert_int_equal(arg.is_string, g->is_string);
		assert_int_equal(arg.is_float, g->is_float);
		assert_int_equal(arg.size, g->fetch.size);
		assert_ptr_equal(arg.names, g->names);
		assert_ptr_equal(arg.name, arg_name); /* the caller's */
	}
}

#define NO_TYPE "not a type (u8..u64, s8..s64, f32, f64, ptr, str or an enum of the preset)"
#define NO_REG "not a register (arg1 to arg6, sp)"
#define NO_OFFSET "'+OFFSET)' expected"
#define NO_PAREN "'(' expected after '*'"
#define NO_SHIFT "'>>0' to '>>63' expected"
#define BEHIND "text after the expression"
#define DEEP "more than three loads"
#define NO_FLOAT "floating-point registers cannot be read: an f32 or f64 must be loaded, *(...)"

/* By what is wrong. */
static const struct {
	const char *why;
	const char *texts[24];
} bads[] = {
	{ NO_TYPE,
		{ "", " ", "arg1", "u arg1", "u128 arg1", "string arg1", "u8arg1", "U8 arg1", "ops arg1",
			"*(arg1)", "f16 *(arg1)", "float *(arg1)" } },
	{ NO_REG,
		{ "str", "u8", "u8 ", "u8 arg", "u8 arg0", "u8 arg9", "u8 arg11", "u8 rdi", "u8 SP",
			"u8 8", "u8 u8 arg1", "u8 (arg1)", "u8 *()", "u8 *(8)", "u8 *(+8)" } },
	{ BEHIND,
		{ "u8 arg1 arg2", "u8 arg1+8", "u8 *(arg1))", "u8 *(arg1)+8", "u8 arg1,", "u8 arg1>>8x",
			"u8 arg1>8", "u8 *(arg1)>>8", "str arg1>>8" } },
	{ NO_SHIFT, { "u8 arg1>>", "u8 arg1>>-1", "u8 arg1>>64", "u8 arg1>>arg2", "u8 arg1>>99999999999999999999" } },
	{ NO_OFFSET,
		{ "u8 *(arg1>>8)", "u8 *(arg1", "u8 *(arg1+", "u8 *(arg1+)", "u8 *(arg1+-8)",
			"u8 *(arg1+8+8)", "u8 *(arg1*8)", "u8 *(arg1+8x)", "u8 *(arg1+0x)", "u8 *(arg1+arg2)",
			"u8 *(arg1+2147483648)", "u8 *(arg1-2147483649)", "u8 *(arg1+0xffffffff)",
			"u8 *(arg1+9223372036854775808)", "u8 *(arg1+99999999999999999999999)",
			"u8 *(*(arg1+8)+16" } },
	{ NO_PAREN, { "u8 *arg1", "u8 *", "u8 **(arg1)" } },
	{ NO_FLOAT, { "f32 arg1", "f64 arg2 ", "f64 sp", "f64 arg1+8" } },
	{ DEEP, { "u8 *(*(*(*(arg1))))", "u8 *(*(*(*(*(*(*(*(arg1))))))))" } },
};

static void check_bad(const char *text, const char *expected)
{
	struct probe_arg arg = untouched_arg;
	struct fetch fetch = untouched_fetch;
	const char *why = NULL;
	int err = fetch_parse(text, enums, ARRAY_SIZE(enums), false, &fetch, &arg, &why);

	if (err != -EINVAL || !why || strcmp(why, expected))
		fail_msg("'%s': %d %s", text, err, why ? why : "(no reason)");
	assert_memory_equal(&fetch, &untouched_fetch, sizeof(fetch));
	assert_memory_equal(&arg, &untouched_arg, sizeof(arg));
}

TEST(test_bad)
{
	for (size_t i = 0; i < ARRAY_SIZE(bads); i++) {
		for (size_t k = 0; bads[i].texts[k]; k++)
			check_bad(bads[i].texts[k], bads[i].why);
	}
}

/* Every prefix of a good text is bad, and none is read beyond its end (ASan, valgrind). */
TEST(test_prefixes)
{
	static const char whole[] = "ptr *(*(*(arg6-1)+0x10)-0x20)";

	for (size_t n = 0; n < sizeof(whole); n++) {
		char *text = test_malloc(n + 1);
		struct probe_arg arg;
		struct fetch fetch;
		const char *why;

		memcpy(text, whole, n);
		text[n] = 0;
		assert_int_equal(fetch_parse(text, NULL, 0, false, &fetch, &arg, &why),
			n == sizeof(whole) - 1 ? 0 : -EINVAL);
		test_free(text);
	}
}

TEST(test_enums_are_optional)
{
	struct probe_arg arg;
	struct fetch fetch;
	const char *why;

	assert_int_equal(fetch_parse("op arg1", NULL, 0, false, &fetch, &arg, &why), -EINVAL);
	assert_int_equal(fetch_parse("op arg1", enums, 1, false, &fetch, &arg, &why), -EINVAL);
	assert_int_equal(fetch_parse("op arg1", enums, 2, false, &fetch, &arg, &why), 0);
}

RUN_TESTS(NULL, NULL)
