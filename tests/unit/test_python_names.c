// SPDX-License-Identifier: BSD-2-Clause
/* Names and lines of Python frames, in a memory image laid out as each known version does, and with junk in it. */
#include "stack/python_name.h"
#include "target/python.h"
#include "unit.h"

/* ---- the memory of a process ---- */

#define BASE 0x7f0000000000u
#define TYPE_CODE (BASE + 1)
#define TYPE_STR (BASE + 2)
#define TYPE_BYTES (BASE + 3)
#define TYPE_INT (BASE + 4)
#define CODE (BASE + 0x1000)
#define NAME (BASE + 0x2000)
#define FILE_NAME (BASE + 0x3000)
#define LINES (BASE + 0x4000)
#define TGID 42

static uint8_t memory[0x6000];
static unsigned int reads;
static bool exited;

static struct python p;
static struct python_names *n;
static struct python_name named;

static int read_image(void *arg, uint32_t tgid, uint64_t address, void *buf, size_t len)
{
	assert_int_equal(tgid, TGID);
	reads++;
	if (exited)
		return -ESRCH;
	if (address < BASE || address - BASE > sizeof(memory) || len > sizeof(memory) - (address - BASE))
		return -EFAULT;
	memcpy(buf, memory + (address - BASE), len);
	return 0;
}

static void put(uint64_t address, uint64_t value, size_t len)
{
	memcpy(memory + (address - BASE), &value, len);
}

static void put_str(uint64_t address, const void *text, size_t length, unsigned int width, bool ascii)
{
	const struct python_objects *o = &p.objects;

	put(address + o->type, TYPE_STR, 8);
	put(address + o->str_length, length, 8);
	put(address + o->str_state, (width | 8 | (ascii ? 16 : 0)) << o->str_kind_shift, 4);
	memcpy(memory + (address - BASE) + (ascii ? o->str_data : o->str_data_wide), text, length * width);
}

static void put_ascii(uint64_t address, const char *text)
{
	put_str(address, text, strlen(text), 1, true);
}

/* A function "A.f" in "m.py" from line 10: its first two code units are of line 11, the next of line 12. */
static void put_function(void)
{
	static const uint8_t lnotab[] = { 0, 1, 4, 1 }, ranges[] = { 4, 1, 2, 1 };
	static const uint8_t locations[] = { 0x80 | 11 << 3 | 1, 0, 0, 0x80 | 11 << 3 | 0, 0, 0 };
	const struct python_objects *o = &p.objects;
	static const uint8_t *const tables[] = { lnotab, ranges, locations };
	size_t len = o->lines == PYTHON_LINES_LOCATIONS ? sizeof(locations) : sizeof(lnotab);

	memset(memory, 0, sizeof(memory));
	put(CODE + o->type, TYPE_CODE, 8);
	put(CODE + (o->code_qualname == PYTHON_NO_OFFSET ? o->code_name : o->code_qualname), NAME, 8);
	put(CODE + o->code_filename, FILE_NAME, 8);
	put(CODE + o->code_lines, LINES, 8);
	put(CODE + o->code_firstlineno, 10, 4);
	put_ascii(NAME, "A.f");
	put_ascii(FILE_NAME, "m.py");
	put(LINES + o->type, TYPE_BYTES, 8);
	put(LINES + o->bytes_size, len, 8);
	memcpy(memory + (LINES - BASE) + o->bytes_data, tables[o->lines], len);
}

static uint64_t instr_at(unsigned int offset)
{
	if (p.walk.flags & PYTHON_WALK_LASTI)
		return offset / p.objects.lasti_unit;
	return CODE + p.objects.code_start + offset;
}

/* ---- the tables ---- */

/* Where 3.13 and 3.14 say what they have where, with numbers as of a Debian build. */
static void fill_debug_words(uint64_t *words, unsigned int minor)
{
	/* word, value: what the versions share, then by word in each */
	static const uint16_t of_13[][2] = { { 5, 632 }, { 8, 7264 }, { 9, 7344 }, { 21, 8 }, { 23, 72 }, { 24, 152 }, { 25, 160 },
		{ 29, 8 }, { 30, 0 }, { 31, 56 }, { 32, 72 }, { 33, 70 }, { 35, 112 }, { 36, 120 }, { 37, 128 }, { 38, 136 }, { 39, 68 },
		{ 40, 52 }, { 43, 200 }, { 45, 8 }, { 65, 16 }, { 66, 32 }, { 68, 32 }, { 69, 16 }, { 70, 40 } };
	static const uint16_t of_14[][2] = { { 5, 808 }, { 8, 7272 }, { 9, 7344 }, { 24, 8 }, { 26, 72 }, { 27, 152 }, { 28, 160 },
		{ 32, 8 }, { 33, 0 }, { 34, 56 }, { 35, 80 }, { 36, 74 }, { 40, 112 }, { 41, 120 }, { 42, 128 }, { 43, 136 }, { 44, 68 },
		{ 45, 52 }, { 48, 208 }, { 51, 8 }, { 75, 16 }, { 76, 32 }, { 78, 32 }, { 79, 16 }, { 80, 40 } };
	size_t count = minor == 13 ? ARRAY_SIZE(of_13) : ARRAY_SIZE(of_14);

	memset(words, 0, PYTHON_DEBUG_WORDS * sizeof(*words));
	memcpy(words, "xdebugpy", 8);
	words[1] = 3u << 24 | minor << 16 | 0x05f0;
	for (size_t i = 0; i < count; i++)
		words[minor == 13 ? of_13[i][0] : of_14[i][0]] = minor == 13 ? of_13[i][1] : of_14[i][1];
}

static void get_layout(unsigned int minor)
{
	uint64_t words[PYTHON_DEBUG_WORDS];

	if (minor < 13) {
		assert_int_equal(python_layout_known(3, minor, &p), 0);
	} else {
		fill_debug_words(words, minor);
		assert_int_equal(python_layout_read(words, PYTHON_DEBUG_WORDS, &p), 0);
	}
	assert_int_equal(p.minor, minor);
	p.type_code = TYPE_CODE;
	p.type_str = TYPE_STR;
	p.type_bytes = TYPE_BYTES;
	p.type_int = TYPE_INT;
}

static void start(void)
{
	assert_int_equal(python_names_new(read_image, NULL, &n), 0);
	assert_int_equal(python_names_set(n, TGID, &p), 0);
}

/* A process of that version with the function in its memory. */
static void start_with_function(unsigned int minor)
{
	get_layout(minor);
	put_function();
	start();
}

static int get(uint64_t code, uint64_t instr)
{
	return python_names_get(n, TGID, code, instr, &named);
}

TEST(test_each_version)
{
	for (unsigned int minor = 8; minor <= 14; minor++) {
		static const unsigned int lines[] = { 11, 11, 12 };

		start_with_function(minor);
		for (unsigned int i = 0; i < ARRAY_SIZE(lines); i++) {
			assert_int_equal(get(CODE, instr_at(2 * i)), 0);
			assert_string_equal(named.name, "A.f");
			assert_string_equal(named.file, "m.py");
			assert_int_equal(named.line, lines[i]);
		}
		python_names_free(n);
	}
}

TEST(test_versions_refused)
{
	uint64_t words[PYTHON_DEBUG_WORDS];

	assert_int_equal(python_layout_known(2, 7, &p), -ENOTSUP);
	assert_int_equal(python_layout_known(3, 7, &p), -ENOTSUP);
	assert_int_equal(python_layout_known(3, 13, &p), -ENOTSUP); /* only by what it says itself */
	fill_debug_words(words, 14);
	assert_int_equal(python_layout_read(words, PYTHON_DEBUG_WORDS - 1, &p), -ENOENT);
	words[1] = 3u << 24 | 99 << 16;
	assert_int_equal(python_layout_read(words, PYTHON_DEBUG_WORDS, &p), -ENOTSUP);
	assert_int_equal(p.minor, 99);
	fill_debug_words(words, 14);
	words[40] = UINT64_MAX; /* an offset that cannot be */
	assert_int_equal(python_layout_read(words, PYTHON_DEBUG_WORDS, &p), -EBADMSG);
	words[0] = 0;
	assert_int_equal(python_layout_read(words, PYTHON_DEBUG_WORDS, &p), -ENOENT);
}

/* ---- names ---- */

TEST(test_known_code_is_read_once)
{
	struct python_names_stats stats;

	start_with_function(11);
	assert_int_equal(get(CODE, instr_at(0)), 0);
	reads = 0;
	assert_int_equal(get(CODE, instr_at(4)), 0);
	assert_int_equal(reads, 1);
	assert_int_equal(named.line, 12);

	/* another function in its place */
	put_ascii(NAME + 0x200, "other");
	put(CODE + p.objects.code_qualname, NAME + 0x200, 8);
	assert_int_equal(get(CODE, instr_at(0)), 0);
	assert_string_equal(named.name, "other");
	python_names_stats(n, &stats);
	assert_int_equal(stats.read, 2);

	/* nothing any more */
	put(CODE + p.objects.type, 0, 8);
	assert_int_equal(get(CODE, instr_at(0)), -EFAULT);
	assert_int_equal(python_names_get(n, TGID + 1, CODE, instr_at(0), &named), -ENOENT);
	python_names_free(n);
}

/* Samples arrive after the process has exited; but processes that are gone do not stay for ever. */
TEST(test_process_that_exits)
{
	struct python_names_stats stats;

	start_with_function(11);
	assert_int_equal(get(CODE, instr_at(4)), 0);
	assert_true(python_names_has(n, TGID, &p));
	python_names_gone(n, TGID);
	python_names_gone(n, TGID);
	assert_false(python_names_has(n, TGID, &p));
	exited = true;
	assert_int_equal(get(CODE, instr_at(4)), 0);
	assert_string_equal(named.name, "A.f");
	assert_int_equal(named.line, 12);
	assert_int_equal(get(CODE + 8, 0), -ESRCH);
	for (uint32_t tgid = 1000; tgid < 1100; tgid++) {
		assert_int_equal(python_names_set(n, tgid, &p), 0);
		python_names_gone(n, tgid);
	}
	assert_int_equal(get(CODE, instr_at(4)), -ENOENT);
	python_names_stats(n, &stats);
	assert_int_equal(stats.memory, 0);
	exited = false;
	python_names_free(n);
}

TEST(test_texts)
{
	static const uint8_t latin[] = { 'a', 0xe4 };
	static const uint16_t ucs2[] = { 0x3a3, 0xd800, 'b' };
	static const uint32_t ucs4[] = { 0x1f40d, 0x110000 };

	for (unsigned int minor = 8; minor <= 14; minor++) {
		start_with_function(minor);
		put_str(NAME, latin, 2, 1, false);
		assert_int_equal(get(CODE, 0), 0);
		assert_string_equal(named.name, "a\xc3\xa4");
		python_names_set(n, TGID, &p);
		put_str(NAME, ucs2, 3, 2, false);
		assert_int_equal(get(CODE, 0), 0);
		assert_string_equal(named.name, "\xce\xa3?b");
		python_names_set(n, TGID, &p);
		put_str(NAME, ucs4, 2, 4, false);
		assert_int_equal(get(CODE, 0), 0);
		assert_string_equal(named.name, "\xf0\x9f\x90\x8d?");
		python_names_free(n);
	}
}

TEST(test_long_name_is_cut)
{
	uint16_t wide[1000];

	for (size_t i = 0; i < ARRAY_SIZE(wide); i++)
		wide[i] = 0x2211;
	start_with_function(11);
	put_str(NAME, wide, ARRAY_SIZE(wide), 2, false);
	assert_int_equal(get(CODE, 0), 0);
	assert_int_equal(strlen(named.name), PYTHON_NAME_MAX / 3 * 3); /* whole characters */
	python_names_free(n);
}

TEST(test_wild_lengths_and_pointers)
{
	static const uint64_t wild[] = { 0, 1, BASE - 1, BASE + sizeof(memory) - 4, UINT64_MAX, UINT64_MAX - 7, INT64_MAX, CODE };

	get_layout(11);
	start();
	for (size_t i = 0; i < ARRAY_SIZE(wild); i++) {
		put_function();
		assert_int_equal(get(wild[i] == CODE ? 0 : wild[i], 0), -EFAULT);
		put(CODE + p.objects.code_qualname, wild[i], 8);
		assert_int_equal(get(CODE, 0), -EFAULT);
		put_function();
		put(NAME + p.objects.str_length, 1ull << 31 | wild[i], 8);
		assert_int_equal(get(CODE, 0), -EFAULT);

		/* it has a name, but no file and no line */
		put_function();
		put(CODE + p.objects.code_filename, wild[i], 8);
		put(CODE + p.objects.code_lines, wild[i], 8);
		assert_int_equal(get(CODE, instr_at(0)), 0);
		assert_null(named.file);
		assert_int_equal(named.line, 0);
		put_function();
		put(CODE + p.objects.code_lines, LINES + 8 * i, 8);
		put(LINES + 8 * i + p.objects.type, TYPE_BYTES, 8);
		put(LINES + 8 * i + p.objects.bytes_size, 1ull << 31 | wild[i], 8);
		assert_int_equal(get(CODE, instr_at(0)), 0);
		assert_int_equal(named.line, 0);
	}
	/* far from the code: no line of it */
	put_function();
	assert_int_equal(get(CODE, CODE - 0x1000), 0);
	assert_int_equal(named.line, 0);
	assert_int_equal(get(CODE, UINT64_MAX >> 1), 0);
	assert_int_equal(named.line, 0);
	python_names_free(n);
}

/* Many functions are forgotten, not kept. */
TEST(test_memory_is_bounded)
{
	struct python_names_stats stats;

	start_with_function(11);
	for (unsigned int i = 0; i < 200000; i++) {
		put(CODE + p.objects.code_firstlineno, i, 4);
		assert_int_equal(get(CODE, 0), 0);
		python_names_stats(n, &stats);
		assert_true(stats.memory < 9u << 20);
	}
	python_names_free(n);
}

/* Every byte of the image and of the layout may be anything. */
TEST(test_junk)
{
	srand(1);
	for (unsigned int i = 0; i < 20000; i++) {
		uint64_t words[PYTHON_DEBUG_WORDS];

		get_layout(8 + i % 7);
		put_function();
		for (unsigned int j = 0; j < 4; j++)
			memory[0x1000 * (1 + (unsigned int)rand() % 4) + (unsigned int)rand() % 0x100] = (uint8_t)rand();
		if (i % 3 == 0)
			((uint8_t *)&p.objects)[(unsigned int)rand() % offsetof(struct python_objects, str_kind_shift)] = (uint8_t)rand();
		start();
		if (!get(CODE, instr_at((unsigned int)rand() % 8))) {
			assert_true(strlen(named.name) < PYTHON_NAME_MAX);
			assert_true(!named.file || strlen(named.file) < PYTHON_FILE_MAX);
		}
		python_names_free(n);
		fill_debug_words(words, 13 + i % 2);
		words[(unsigned int)rand() % PYTHON_DEBUG_WORDS] = ((uint64_t)rand() << 32 | (uint32_t)rand()) >> rand() % 64;
		(void)python_layout_read(words, PYTHON_DEBUG_WORDS, &p);
	}
}

/* ---- lines ---- */

TEST(test_lines)
{
	/* 300 further, in steps of what a byte holds; then back by 2 */
	static const uint8_t lnotab[] = { 6, 127, 0, 127, 0, 46, 2, (uint8_t)-2 };
	/* bytes 0 to 3: line 5; 4 and 5: none; 6 to 9: 3 */
	static const uint8_t ranges[] = { 4, 0, 2, 0x80, 4, (uint8_t)-2 };
	/* a short one, a long one (line - 3, end + 0), one without columns (+ 1000), and none */
	static const uint8_t locations[] = { 0x80 | 0 << 3 | 0, 1, 0x80 | 14 << 3 | 1, 7, 0, 0, 0, 0x80 | 13 << 3 | 0, 0x40 | (2000 & 63),
		2000 >> 6, 0x80 | 15 << 3 | 7 };

	assert_int_equal(python_line(PYTHON_LINES_LNOTAB, lnotab, sizeof(lnotab), 10, -1), 10);
	assert_int_equal(python_line(PYTHON_LINES_LNOTAB, lnotab, sizeof(lnotab), 10, 5), 10);
	assert_int_equal(python_line(PYTHON_LINES_LNOTAB, lnotab, sizeof(lnotab), 10, 6), 310);
	assert_int_equal(python_line(PYTHON_LINES_LNOTAB, lnotab, sizeof(lnotab), 10, 8), 308);
	assert_int_equal(python_line(PYTHON_LINES_LNOTAB, lnotab, 0, 10, 8), 10);
	assert_int_equal(python_line(PYTHON_LINES_RANGES, ranges, sizeof(ranges), 5, -2), 5);
	assert_int_equal(python_line(PYTHON_LINES_RANGES, ranges, sizeof(ranges), 5, 2), 5);
	assert_int_equal(python_line(PYTHON_LINES_RANGES, ranges, sizeof(ranges), 5, 4), 0);
	assert_int_equal(python_line(PYTHON_LINES_RANGES, ranges, sizeof(ranges), 5, 8), 3);
	assert_int_equal(python_line(PYTHON_LINES_RANGES, ranges, sizeof(ranges), 5, 10), 0);
	assert_int_equal(python_line(PYTHON_LINES_LOCATIONS, locations, sizeof(locations), 50, 0), 50);
	assert_int_equal(python_line(PYTHON_LINES_LOCATIONS, locations, sizeof(locations), 50, 2), 47);
	assert_int_equal(python_line(PYTHON_LINES_LOCATIONS, locations, sizeof(locations), 50, 5), 47);
	assert_int_equal(python_line(PYTHON_LINES_LOCATIONS, locations, sizeof(locations), 50, 6), 1047);
	assert_int_equal(python_line(PYTHON_LINES_LOCATIONS, locations, sizeof(locations), 50, 8), 0);
	assert_int_equal(python_line(PYTHON_LINES_LOCATIONS, locations, sizeof(locations), 50, 9000), 0);
}

TEST(test_lines_of_junk)
{
	srand(2);
	for (unsigned int i = 0; i < 100000; i++) {
		size_t len = (unsigned int)rand() % 64;
		uint8_t *exact = malloc(len ? len : 1);

		for (size_t j = 0; j < len; j++)
			exact[j] = (uint8_t)rand();
		for (int kind = PYTHON_LINES_LNOTAB; kind <= PYTHON_LINES_LOCATIONS; kind++)
			assert_true(python_line((enum python_lines)kind, exact, len, (uint32_t)rand(), rand() % 200) <= INT32_MAX);
		free(exact);
	}
}

/* ---- asyncio ---- */

/* As the programs copy it. */
static const char *task_text(void)
{
	struct python_task task = { .frames = 1, .bytes = PYTHON_TASK_BYTES };

	memcpy(task.name, memory + (NAME - BASE), sizeof(task.name));
	return python_names_task(n, TGID, &task);
}

static const char *task_named(const char *text)
{
	memset(memory, 0, sizeof(memory));
	put_ascii(NAME, text);
	return task_text();
}

TEST(test_tasks)
{
	static const uint16_t wide[] = { 'b', 0xe9, 0x394, 0xd800 };
	char longest[400];

	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = 0;
	for (unsigned int minor = 8; minor <= 14; minor++) {
		struct python_task task = { .frames = 1, .bytes = 32 };
		const char *text;

		get_layout(minor);
		start();
		assert_string_equal(task_named("alpha"), "[task alpha]");
		assert_string_equal(task_named("Task-x"), "[task Task-x]");
		assert_string_equal(task_named("Task-"), "[task Task-]");
		assert_string_equal(task_named("Task-12"), "[task]"); /* asyncio's own number */
		assert_string_equal(task_named(""), "[task]");
		text = task_named(longest);
		assert_int_equal(strspn(text + 6, "x"), PYTHON_TASK_BYTES - p.objects.str_data);
		assert_int_equal(text[strlen(text) - 1], ']');
		memset(memory, 0, sizeof(memory));
		put_str(NAME, wide, 4, 2, false);
		assert_string_equal(task_text(), "[task b\xc3\xa9\xce\x94?]");
		put(NAME + p.objects.type, TYPE_INT, 8);
		assert_string_equal(task_text(), "[task]");
		put(NAME + p.objects.type, TYPE_CODE, 8);
		assert_null(task_text());
		/* cut within its header */
		put_ascii(NAME, "alpha");
		memcpy(task.name, memory + (NAME - BASE), sizeof(task.name));
		assert_null(python_names_task(n, TGID, &task));
		assert_null(python_names_task(n, TGID + 1, &task));
		python_names_free(n);
	}
}

/* Names that are never the same again, as those of requests, would make a stack each. */
TEST(test_many_tasks)
{
	struct python_names_stats stats;
	char name[32], shown[48];

	get_layout(11);
	start();
	for (int i = 0; i < PYTHON_TASKS_MAX + 10; i++) {
		snprintf(name, sizeof(name), "request %d", i);
		snprintf(shown, sizeof(shown), "[task %s]", name);
		assert_string_equal(task_named(name), i < PYTHON_TASKS_MAX ? shown : "[task]");
	}
	assert_string_equal(task_named("request 3"), "[task request 3]");
	python_names_stats(n, &stats);
	assert_int_equal(stats.tasks_left, 10);
	python_names_free(n);
}

TEST(test_junk_tasks)
{
	srand(5);
	for (unsigned int minor = 8; minor <= 14; minor++) {
		get_layout(minor);
		start();
		for (int i = 0; i < 20000; i++) {
			struct python_task task = { .frames = (uint32_t)rand(), .bytes = i % 3 ? (uint32_t)rand() % 256 : (uint32_t)rand() };
			const char *text;

			for (size_t k = 0; k < sizeof(task.name); k++)
				task.name[k] = (uint8_t)rand();
			memcpy(task.name + p.objects.type, &(uint64_t){ i % 7 ? TYPE_STR : TYPE_INT }, 8);
			if (i % 2)
				memcpy(task.name + p.objects.str_length, &(uint64_t){ (uint64_t)rand() % 300 }, 8);
			text = python_names_task(n, TGID, &task);
			assert_true(!text || (strlen(text) < PYTHON_NAME_MAX + 8 && !strncmp(text, "[task", 5)));
		}
		python_names_free(n);
	}
}

RUN_TESTS(NULL, NULL)
