// SPDX-License-Identifier: BSD-2-Clause
/* Rows of a step: how a preset describes them, what is shown of them, and conditional names. */
#include "engine/check.h"
#include "preset.h"

static struct probe_spec *make_spec(void)
{
	struct probe_spec *s = spec_append(&pt, NULL, "f");
	const char *why;

	assert_non_null(s);
	s->role = ROLE_STEP;
	assert_int_equal(spec_add_arg(s, "n", "s32 arg1", NULL, 0, &why), 0);
	return s;
}

TEST(test_columns)
{
	static const struct {
		const char *text;
		struct row_fetch want;
	} good[] = {
		{ "s8 *(*(sp+56)+row)", { .array = { .reg = REG_SP, .derefs = 1, .size = 8, .off = { 56 } },
						.stride = 1,
						.loads = 1,
						.size = 1,
						.flags = FETCH_F_SIGNED } },
		{ "u32 *(arg2+4*row)", { .array = { .reg = REG_ARG2, .size = 8 }, .stride = 4, .loads = 1, .size = 4 } },
		{ "s64 *(arg2+24+16*row)", { .array = { .reg = REG_ARG2, .size = 8 }, .off = { 24 }, .stride = 16, .loads = 1, .size = 8, .flags = FETCH_F_SIGNED } },
		{ "u16 * ( arg2 + 0x10 * row -8 ) ", { .array = { .reg = REG_ARG2, .size = 8 }, .off = { -8 }, .stride = 16, .loads = 1, .size = 2 } },
		{ "u32 *(*(*(*(arg1+8)+16)+8*row)+4)",
			{ .array = { .reg = REG_ARG1, .derefs = 2, .size = 8, .off = { 8, 16 } }, .off = { 0, 4 }, .stride = 8, .loads = 2, .size = 4 } },
	};
	static const char *const bad[] = { "", "s32", "s32 arg1", "s32 *(arg1)", "s32 *(arg1+8)", "f32 *(arg1+4*row)",
		"str *(arg1+8*row)", "ptr", "s32 *(arg1+0*row)", "s32 *(arg1+99999*row)", "s32 *(arg1-4*row)",
		"s32 *(arg1+4*row+4*row)", "s32 *(*(arg1+8*row)+8*row)", "s32 *(*(*(arg1+8*row)))",
		"s32 *(arg1+4*rows)", "s32 *(arg1+4*row", "s32 *(arg1+4*row) x", "s32 *(arg1+row*4)",
		"s32 *(*(*(*(*(arg1)))+4*row))", "s32 *(ret+4*row)" };
	const char *why;

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		struct row_fetch got = {};

		why = NULL;
		if (fetch_parse_row(good[i].text, &got, &why))
			fail_msg("%s: %s", good[i].text, why);
		if (memcmp(&got, &good[i].want, sizeof(got)))
			fail_msg("%s", good[i].text);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct row_fetch got = { .loads = 9 };

		why = NULL;
		if (fetch_parse_row(bad[i], &got, &why) != -EINVAL || !why || got.loads != 9)
			fail_msg("%s: no error", bad[i]);
	}
}

TEST(test_else)
{
	static const struct {
		enum row_column column;
		const char *text;
		int want; /* < 0: an error */
	} cases[] = { { ROW_OUTPUT, "s8 *(arg1+row)", ROW_ELSE_NONE }, { ROW_OUTPUT, "s8 *(arg1+row) else last", ROW_ELSE_LAST },
		{ ROW_OUTPUT, "s8 *(arg1+row) else all", ROW_ELSE_ALL },
		{ ROW_OUTPUT, "s8 *(arg1+row) else none", ROW_ELSE_NONE }, { ROW_OUTPUT, "s8 *(arg1+row) else first", -1 },
		{ ROW_OUTPUT, "s8 *(arg1+row) else", -1 }, { ROW_POSITION, "s8 *(arg1+row) else last", -1 } };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct probe_spec *s = make_spec();
		const char *why = NULL;
		int err;

		assert_int_equal(rows_begin(s, "n", &why), 0);
		err = rows_add_column(s, cases[i].column, cases[i].text, &why);
		assert_int_equal(err, cases[i].want < 0 ? -EINVAL : 0);
		if (!err)
			assert_int_equal(s->row_else, cases[i].want);
		probe_table_free(&pt);
	}
}

/* Rows that are structures in one array are read as a whole. */
TEST(test_structs)
{
	static const struct {
		const char *columns[ROW_COLUMNS];
		int want; /* row_struct */
		bool list;
	} cases[] = {
		{ { "s32 *(*(*(arg3+72)+56+112*row)+8) list", "u64 *(*(arg3+72)+64+112*row)", "s32 *(*(arg3+72)+96+112*row)",
			  "u8 *(*(arg3+72)+32+112*row)" },
			112, true },
		{ { "s32 *(*(arg3+72)+128*row)" }, 128, false },
		{ { "s32 *(*(arg3+72)+136*row)" }, 0, false },
		{ { "s32 *(*(arg3+72)+8*row)" }, 0, false },
		{ { "s32 *(*(arg3+72)+64*row)", NULL, "s32 *(*(arg3+80)+64*row)" }, 0, false },
		{ { "s32 *(*(arg3+72)+64*row)", NULL, "s32 *(*(arg3+72)+72*row)" }, 0, false },
		{ { "s32 *(*(arg3+72)+64*row)", NULL, "s32 *(*(arg3+72)+61+64*row)" }, 0, false },
		{ { "s32 *(*(arg3+72)+64*row)", NULL, "s32 *(*(arg3+72)-4+64*row)" }, 0, false },
	};
	const char *why;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct probe_spec *s = make_spec();
		struct probe p;

		assert_int_equal(rows_begin(s, "n", &why), 0);
		for (int k = 0; k < ROW_COLUMNS; k++) {
			if (cases[i].columns[k])
				assert_int_equal(rows_add_column(s, (enum row_column)k, cases[i].columns[k], &why), 0);
		}
		rows_end(s);
		assert_int_equal(probe_spec_encode(s, &p), 0);
		assert_int_equal(p.row_struct, cases[i].want);
		assert_int_equal(p.row[ROW_SEQUENCE].list, cases[i].list);
		assert_int_equal(rows_add_column(s, ROW_POSITION, "s32 *(*(*(arg3+72)+8*row)) list", &why), -EINVAL);
		assert_int_equal(rows_add_column(s, ROW_SEQUENCE, "s32 *(*(arg3+72)+8*row) list", &why), -EINVAL);
		probe_table_free(&pt);
	}
}

/* Accessor functions in a file override what the preset says. */
TABLE_TEST(test_accessors)
{
	static const struct element same = { 72, 112, 96 }, older = { 64, 96, 80 }, older_output = { 64, 96, 16 },
				    older_set = { 64, 96, 24 }, wide = { 72, 200, 96 }, set = { 72, 112, 40 };
	static const struct {
		const struct element *found[ROW_COLUMNS];
		int want;
		int position, sequence, output; /* offsets; -1: left out */
	} cases[] = {
		{ { NULL, NULL, &same, NULL }, 0, 96, 56, 32 },
		{ { &set, &set, &same, NULL }, 0, 96, 56, 32 },
		{ { &older_set, &older_set, &older, &older_output }, 1, 80, 40, 16 },
		{ { NULL, NULL, &older, &older_output }, 1, 80, -1, 16 },
		{ { &set, &set, &older, &older_output }, -EINVAL, 0, 0, 0 }, /* they contradict each other */
		{ { NULL, NULL, &wide, NULL }, -EINVAL, 0, 0, 0 },
	};
	static const char *const bad[] = { "f", "f@", "@8", "f@x", "f@-1", "f@128", "f@8 " };
	struct fetch fetch[FUNC_VALS_MAX];
	struct row_fetch row[ROW_COLUMNS];
	struct probe_spec *s = make_spec();
	const char *why;

	assert_int_equal(spec_add_arg(s, "count", "s32 elements(arg3+72, 112)", NULL, 0, &why), 0);
	assert_int_equal(rows_begin(s, "count", &why), 0);
	assert_int_equal(rows_add_column(s, ROW_SEQUENCE, "s32 *(*(*(arg3+72)+56+112*row)+8) list", &why), 0);
	assert_int_equal(rows_add_column(s, ROW_SEQUENCES, "u64 *(*(arg3+72)+64+112*row)", &why), 0);
	assert_int_equal(rows_add_column(s, ROW_POSITION, "s32 *(*(arg3+72)+96+112*row)", &why), 0);
	assert_int_equal(rows_add_accessor(s, ROW_POSITION, "f@96", &why), -EINVAL); /* before rows_end() */
	rows_end(s);
	assert_int_equal(rows_add_accessor(s, ROW_OUTPUT, "f@32", &why), -EINVAL); /* no such column */
	assert_int_equal(rows_add_column(s, ROW_OUTPUT, "u8 *(*(arg3+72)+32+112*row)", &why), 0);
	rows_end(s);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(rows_add_accessor(s, ROW_POSITION, bad[i], &why), -EINVAL);
	assert_int_equal(rows_add_accessor(s, ROW_SEQUENCE, "add@40", &why), 0);
	assert_int_equal(rows_add_accessor(s, ROW_SEQUENCES, "add@40", &why), 0);
	assert_int_equal(rows_add_accessor(s, ROW_POSITION, "put@96", &why), 0);
	assert_int_equal(rows_add_accessor(s, ROW_OUTPUT, "set@0x20", &why), 0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(rows_adapt(s, cases[i].found, fetch, row), cases[i].want);
		if (cases[i].want < 0)
			continue;
		assert_int_equal(fetch[s->row_count - 1].element, cases[i].want ? 96 : 112);
		assert_int_equal(fetch[s->row_count - 1].off[0], cases[i].want ? 64 : 72);
		assert_int_equal(row[ROW_POSITION].off[0], cases[i].position);
		assert_int_equal(row[ROW_SEQUENCE].loads ? row[ROW_SEQUENCE].off[0] : -1, cases[i].sequence);
		assert_int_equal(row[ROW_OUTPUT].off[0], cases[i].output);
		assert_int_equal(row[ROW_POSITION].stride, cases[i].want ? 96 : 112);
		assert_int_equal(row[ROW_POSITION].array.off[0], cases[i].want ? 64 : 72);
	}
}

/* How many elements a vector has. */
TEST(test_elements)
{
	static const struct {
		const char *text;
		struct fetch want;
	} good[] = {
		{ "s32 elements(arg3+72, 112)", { .reg = REG_ARG3, .derefs = 1, .size = 4, .flags = FETCH_F_SIGNED, .element = 112, .off = { 72 } } },
		{ "u64 elements ( *(arg1 +8) , 0x10 )", { .reg = REG_ARG1, .derefs = 2, .size = 8, .element = 16, .off = { 8 } } },
	};
	static const char *const bad[] = { "s32 elements", "s32 elements(", "s32 elements(arg3)", "s32 elements(arg3,)",
		"s32 elements(arg3,0)", "s32 elements(arg3,65536)", "s32 elements(arg3,8", "s32 elements(ret,8) x",
		"str elements(arg3,8)", "f32 elements(arg3,8)", "s32 *(elements(arg3,8))", "s32 elements(*(*(*(arg3))),8)" };
	struct probe_arg arg;
	const char *why;

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		struct fetch got = {};

		if (fetch_parse(good[i].text, NULL, 0, false, &got, &arg, &why))
			fail_msg("%s: %s", good[i].text, why);
		assert_memory_equal(&got, &good[i].want, sizeof(got));
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct fetch got = {};

		why = NULL;
		if (fetch_parse(bad[i], NULL, 0, false, &got, &arg, &why) != -EINVAL || !why)
			fail_msg("%s: no error", bad[i]);
	}
}

TABLE_TEST(test_begin)
{
	struct probe_spec *s = make_spec();
	const char *why = NULL;

	assert_int_equal(rows_begin(s, "m", &why), -EINVAL);
	assert_int_equal(spec_add_arg(s, "text", "str arg2", NULL, 0, &why), 0);
	assert_int_equal(rows_begin(s, "text", &why), -EINVAL);
	assert_int_equal(spec_add_arg(s, "position", "s32 arg3", NULL, 0, &why), 0);
	assert_int_equal(rows_begin(s, "n", &why), -EINVAL);
	assert_string_equal(why, "an argument has the name of what is made of rows: n_outputs, n_sequences, sequence, "
				 "sequences, position or rows_read");
	probe_table_free(&pt);

	s = make_spec();
	for (char name[] = "a"; name[0] < 'e'; name[0]++)
		assert_int_equal(spec_add_arg(s, name, "s32 arg3", NULL, 0, &why), 0);
	assert_int_equal(rows_begin(s, "n", &why), -EINVAL);
}

/* Unknown values are not shown, and nothing is shown if the count does not fit. */
TABLE_TEST(test_shown)
{
	static const struct {
		uint64_t vals[1 + ROW_VALUES];
		bool shown[ROW_VALUES];
	} cases[] = {
		{ { 3, 1, 1, 0, 0, 7, 3 }, { 1, 1, 1, 0, 1, 0 } },
		{ { 3, 2, 2, ROW_UNKNOWN, 5, 7, 3 }, { 1, 1, 0, 1, 1, 0 } },
		{ { 3, 2, 2, ROW_UNKNOWN, 0, ROW_UNKNOWN, 2 }, { 1, 1, 0, 0, 0, 1 } },
		{ { (uint64_t)-1, ROW_UNKNOWN, ROW_UNKNOWN, ROW_UNKNOWN, 0, ROW_UNKNOWN, 0 }, { 0, 0, 0, 0, 0, 1 } },
	};
	struct probe_spec *s = make_spec();
	struct step_rows rows;
	const char *why;

	assert_false(rows_of_step(s, cases[0].vals, &rows));
	assert_int_equal(rows_begin(s, "n", &why), 0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		for (unsigned int k = 0; k < ROW_VALUES; k++)
			assert_int_equal(check_shown(s, s->rows_at + k, cases[i].vals), cases[i].shown[k]);
	}
	assert_true(rows_of_step(s, cases[0].vals, &rows));
	assert_true(rows.readable && rows.one && rows.outputs_known);
	assert_int_equal(rows.position, 7);
	assert_true(rows_of_step(s, cases[3].vals, &rows));
	assert_false(rows.readable || rows.one || rows.outputs_known || rows.mask || rows.n_sequences);
	assert_int_equal(rows.position, -1);
	s->misfits = 1;
	assert_false(rows_of_step(s, cases[0].vals, &rows));
	for (unsigned int k = 0; k < ROW_VALUES; k++)
		assert_false(check_shown(s, s->rows_at + k, cases[0].vals));
}

/* No more parts than the record has. */
TEST(test_parts)
{
	struct rec_step_parts r = { .s.n_parts = 3 };
	size_t whole = sizeof(r.s) + 3 * sizeof(struct row_part);
	const struct row_part *parts = NULL;

	assert_int_equal(step_parts(&r.s, whole, &parts), 3);
	assert_ptr_equal(parts, r.parts);
	assert_int_equal(step_parts(&r.s, whole + 8, &parts), 3);
	assert_int_equal(step_parts(&r.s, whole - 1, &parts), 0);
	assert_int_equal(step_parts(&r.s, sizeof(r.s), &parts), 0);
	assert_int_equal(step_parts(&r.s, 0, &parts), 0);
	r.s.n_parts = STEP_PARTS_MAX;
	assert_int_equal(step_parts(&r.s, sizeof(r), &parts), STEP_PARTS_MAX);
	r.s.n_parts = STEP_PARTS_MAX + 1;
	assert_int_equal(step_parts(&r.s, SIZE_MAX, &parts), 0);
	r.s.n_parts = 0;
	assert_int_equal(step_parts(&r.s, sizeof(r), &parts), 0);
}

TEST(test_parts_text)
{
	struct rec_step_parts r = { .s = { .n_parts = 3 }, .parts = { { 3, 57, 1, 1 }, { 0, 0, 128, 0 }, { (uint64_t)-7, -1, 2, ROW_PART_UNKNOWN } } };
	char text[PARTS_TEXT_MAX];
	size_t len;

	parts_text(&r.s, sizeof(r), text);
	assert_string_equal(text, "3: 1 at 57, 0: 128 at 0, -7: 2");
	r.s.parts_left = 5;
	len = parts_text(&r.s, sizeof(r), text);
	assert_string_equal(text, "3: 1 at 57, 0: 128 at 0, -7: 2, and 5 more");
	assert_int_equal(len, strlen(text));
	parts_text(&r.s, sizeof(r.s), text);
	assert_string_equal(text, "");
	/* the longest */
	r.s.n_parts = STEP_PARTS_MAX;
	r.s.parts_left = UINT32_MAX;
	for (int i = 0; i < STEP_PARTS_MAX; i++)
		r.parts[i] = (struct row_part){ INT64_MIN, INT64_MAX, UINT32_MAX, UINT32_MAX };
	for (int i = 0; i < STEP_PARTS_MAX; i++) {
		assert_in_range(parts_text(&r.s, sizeof(r), text), 20, PARTS_TEXT_MAX - 1);
		assert_non_null(strstr(text, " more"));
		r.parts[i] = (struct row_part){ 0, 0, 1, 0 };
	}
	parts_text(&r.s, sizeof(r), text);
	assert_null(strstr(text, "4294967295"));
}

TEST(test_names)
{
	static const struct {
		const char *rule;
		uint64_t n, m;
		const char *name;
	} good[] = { { "n == 1 ? one : n > 1 ? more : none", 1, 0, "one" },
		{ "n == 1 ? one : n > 1 ? more : none", 2, 0, "more" },
		{ "n == 1 ? one : n > 1 ? more : none", 0, 0, "none" },
		{ "n==m?same:n<m?less:more", 4, 4, "same" }, { "n==m?same:n<m?less:more", (uint64_t)-4, 4, "less" },
		{ "n==m?same:n<m?less:more", 4, (uint64_t)-4, "more" }, { "n != m ? a.b-c_1 : x", 4, 5, "a.b-c_1" } };
	static const char *const bad[] = { "n ? a : b", "n == 1 ? a", "n == 1 ? : b", "n == 1 ? a :", "n == 1 ? a b : c",
		"n == 1 ? a : b c", "n == k ? a : b", "k == 1 ? a : b", "n == 1 ? a : n == ? b : c", "? a : b",
		"n==1?a:n==2?a:n==3?a:n==4?a:n==5?a:n==6?a:n==7?a:n==8?a:n==9?a:b" };

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		struct probe_spec *s = make_spec();
		uint64_t vals[FUNC_VALS_MAX] = { good[i].n, good[i].m };
		const char *why = NULL;

		assert_int_equal(spec_add_arg(s, "m", "s32 arg2", NULL, 0, &why), 0);
		if (spec_set_name(s, good[i].rule, &why))
			fail_msg("%s: %s", good[i].rule, why);
		assert_string_equal(probe_spec_name(s, vals), good[i].name);
		s->misfits = 1;
		assert_string_equal(probe_spec_name(s, vals), "f");
		probe_table_free(&pt);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct probe_spec *s = make_spec();
		const char *why = NULL;

		if (spec_set_name(s, bad[i], &why) != -EINVAL || !why)
			fail_msg("%s: no error", bad[i]);
		probe_table_free(&pt);
	}
}

/* The kernel compares numbers only, and before it looks at rows. */
TABLE_TEST(test_when)
{
	struct probe_spec *s = make_spec();
	const char *why = NULL;

	assert_int_equal(rows_begin(s, "n", &why), 0);
	assert_int_equal(spec_set_when(s, "n == n_outputs", &why), -EINVAL);
	s->when = (struct probe_cond){};
	assert_int_equal(spec_set_when(s, "n_outputs > 1", &why), -EINVAL);
	s->when = (struct probe_cond){};
	assert_int_equal(spec_set_when(s, "n > 1", &why), 0);
}

RUN_TESTS(NULL, NULL)
