// SPDX-License-Identifier: BSD-2-Clause
/* Enums that the engine's own file knows better than the preset. */
#include "preset.h"
#include "target/elf.h"

/* As the inspector does with its worker's results. */
static void read_enums_of(struct elf_file *elf)
{
	struct engine *e = pt.engines[0];

	for (size_t i = 0; i < e->n_enums; i++) {
		char **names;
		size_t n;

		if (e->enums[i].object && !elf_strings_read(elf, e->enums[i].object, &names, &n))
			engine_set_names(&pt, e, i, names, n);
	}
}

extern const char *const test_op_names[];
const char *const test_op_names[] = { "NONE", "Mul_Mat", NULL, "A\x1b[1m", "ADD" };

TABLE_TEST(test_enum_from_file)
{
	const struct probe_spec *s;
	struct elf_file *elf;

	load_good(START
		"'enums':{'e':{'table_symbol':'test_op_names','names':['old']},"
		"'other':{'table_symbol':'no_such_table','names':['kept']}},"
		"'probes':[{'symbol':'f','role':'op','args':{'o':'e arg1'},"
		"'name':'$o'},{'symbol':'g','role':'op',"
		"'args':{'o':'other arg1'},'name':'$o'}]}");
	s = get("f");
	assert_string_equal(name_of(s, 0), "old");
	assert_int_equal(elf_open("/proc/self/exe", &elf), 0);
	read_enums_of(elf);
	assert_string_equal(name_of(s, 0), "none");
	assert_string_equal(name_of(s, 1), "mul_mat");
	assert_string_equal(name_of(s, 2), "f"); /* a hole */
	assert_string_equal(name_of(s, 3), "a?[1m");
	assert_string_equal(name_of(s, 4), "add");
	assert_string_equal(name_of(s, 5), "f");
	assert_string_equal(name_of(get("g"), 0), "kept");
	read_enums_of(elf);
	assert_false(pt.many_names);
	elf_close(elf);
}

static void set_name(uint64_t ino, const char *name)
{
	char **names = calloc(2, sizeof(*names));

	names[0] = strdup(name);
	pt.reading.dev = 7;
	pt.reading.ino = ino;
	engine_set_names(&pt, pt.engines[0], 0, names, 1);
}

static const char *name_for(uint32_t tgid)
{
	probe_table_use(&pt, tgid);
	return name_of(get("f"), 0);
}

/* What a file says applies to the processes that have mapped it. */
TABLE_TEST(test_enum_of_process)
{
	const char *old;

	load_good(START
		"'enums':{'e':{'table_symbol':'t','names':['old']}},'probes':["
		"{'symbol':'f','role':'op','args':{'o':'e arg1'},'name':'$o'}]}");
	old = name_for(1);
	assert_string_equal(old, "old");
	set_name(1, "first");
	assert_string_equal(old, "old"); /* sinks identify names by address */
	probe_table_mapped(&pt, 7, 1, 100);
	assert_string_equal(name_for(1), "first");
	set_name(2, "second");
	probe_table_mapped(&pt, 7, 2, 200);
	assert_string_equal(name_for(100), "first");
	assert_string_equal(name_for(200), "second");
	assert_string_equal(name_for(100), "first");
	assert_string_equal(name_for(1), "first"); /* not known to use one */
	probe_table_forked(&pt, 200, 201);
	assert_string_equal(name_for(201), "second");
	probe_table_forked(&pt, 100, 200); /* another process with that number */
	assert_string_equal(name_for(200), "first");
	probe_table_mapped(&pt, 7, 2, 200);
	probe_table_forked(&pt, 300, 200);
	assert_string_equal(name_for(200), "first");
	/* any number of files with the same content */
	for (uint32_t i = 3; i < 2 * ENUM_VARIANTS_MAX; i++) {
		set_name(i, i % 2 ? "odd" : "even");
		probe_table_mapped(&pt, 7, i, 1000 + i);
	}
	assert_string_equal(name_for(1003), "odd");
	assert_string_equal(name_for(1004), "even");
	assert_string_equal(name_for(1000 + 2 * ENUM_VARIANTS_MAX - 1), "odd");
	assert_string_equal(name_for(201), "second");
	/* its number belongs to another file now */
	probe_table_unmapped(&pt, 7, 2);
	probe_table_mapped(&pt, 7, 2, 202);
	assert_string_equal(name_for(202), "first");
	set_name(2, "changed");
	probe_table_mapped(&pt, 7, 2, 202);
	assert_string_equal(name_for(202), "changed");
	assert_string_equal(name_for(201), "second");
	/* more variants than are kept */
	for (uint32_t i = 5; i <= ENUM_VARIANTS_MAX; i++) {
		char name[16];

		snprintf(name, sizeof(name), "name %u", i);
		set_name(1000 + i, name);
		probe_table_mapped(&pt, 7, 1000 + i, 2000 + i);
	}
	assert_string_equal(name_for(2000 + ENUM_VARIANTS_MAX - 1), "name 63");
	assert_string_equal(name_for(2000 + ENUM_VARIANTS_MAX), "first");
}

RUN_TESTS(make_preset_file, NULL)
