// SPDX-License-Identifier: BSD-2-Clause
/*
 * Names and lines of Python frames, and lists of interpreters, threads and frames, in a memory image laid out as in each
 * known version, with junk and wild pointers in it.
 */
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

static uint8_t memory[0x10000];
static unsigned int reads;
static bool exited;

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

static void put_str(const struct python *p, uint64_t address, const void *text, size_t length, unsigned int width, bool ascii)
{
	const struct python_objects *o = &p->objects;

	put(address + o->type, TYPE_STR, 8);
	put(address + o->str_length, length, 8);
	put(address + o->str_state, (width | 8 | (ascii ? 16 : 0)) << o->str_kind_shift, 4);
	memcpy(memory + (address - BASE) + (ascii ? o->str_data : o->str_data_wide), text, length * width);
}

static void put_ascii(const struct python *p, uint64_t address, const char *text)
{
	put_str(p, address, text, strlen(text), 1, true);
}

/* A function "A.f" in "m.py" from line 10: its first two code units are on line 11, the next on line 12. */
static void put_function(const struct python *p)
{
	static const uint8_t lnotab[] = { 0, 1, 4, 1 }, ranges[] = { 4, 1, 2, 1 };
	static const uint8_t locations[] = { 0x80 | 11 << 3 | 1, 0, 0, 0x80 | 11 << 3 | 0, 0, 0 };
	const struct python_objects *o = &p->objects;
	static const uint8_t *const tables[] = { lnotab, ranges, locations };
	size_t len = o->lines == PYTHON_LINES_LOCATIONS ? sizeof(locations) : sizeof(lnotab);

	memset(memory, 0, sizeof(memory));
	put(CODE + o->type, TYPE_CODE, 8);
	put(CODE + (o->code_qualname == PYTHON_NO_OFFSET ? o->code_name : o->code_qualname), NAME, 8);
	put(CODE + o->code_filename, FILE_NAME, 8);
	put(CODE + o->code_lines, LINES, 8);
	put(CODE + o->code_firstlineno, 10, 4);
	put_ascii(p, NAME, "A.f");
	put_ascii(p, FILE_NAME, "m.py");
	put(LINES + o->type, TYPE_BYTES, 8);
	put(LINES + o->bytes_size, len, 8);
	memcpy(memory + (LINES - BASE) + o->bytes_data, tables[o->lines], len);
}

static uint64_t instr_at(const struct python *p, unsigned int offset)
{
	if (p->walk.flags & PYTHON_WALK_LASTI)
		return offset / p->objects.lasti_unit;
	return CODE + p->objects.code_start + offset;
}

/* ---- the tables ---- */

/* The tables in which 3.13 and 3.14 describe their layout, with the numbers of a Debian build. */
static void fill_debug_words(uint64_t *words, unsigned int minor)
{
	/* word, value: what the versions share, then by word in each */
	static const uint16_t of_13[][2] = { { 5, 632 }, { 8, 7264 }, { 9, 7344 }, { 21, 8 }, { 23, 72 }, { 24, 152 }, { 25, 160 },
		{ 29, 8 }, { 30, 0 }, { 31, 56 }, { 32, 72 }, { 33, 70 }, { 35, 112 }, { 36, 120 }, { 37, 128 }, { 38, 136 }, { 39, 68 },
		{ 40, 52 }, { 43, 200 }, { 45, 8 }, { 65, 16 }, { 66, 32 }, { 68, 32 }, { 69, 16 }, { 70, 40 } };
	static const uint16_t of_14[][2] = { { 5, 808 }, { 8, 7272 }, { 9, 7344 }, { 24, 8 }, { 26, 72 }, { 27, 152 }, { 28, 160 },
		{ 32, 8 }, { 33, 0 }, { 34, 56 }, { 35, 80 }, { 36, 74 }, { 40, 112 }, { 41, 120 }, { 42, 128 }, { 43, 136 }, { 44, 68 },
		{ 45, 52 }, { 48, 208 }, { 51, 8 }, { 75, 16 }, { 76, 32 }, { 78, 32 }, { 79, 16 }, { 80, 40 } };
	size_t n = minor == 13 ? ARRAY_SIZE(of_13) : ARRAY_SIZE(of_14);

	memset(words, 0, PYTHON_DEBUG_WORDS * sizeof(*words));
	memcpy(words, "xdebugpy", 8);
	words[1] = 3u << 24 | minor << 16 | 0x05f0;
	for (size_t i = 0; i < n; i++)
		words[minor == 13 ? of_13[i][0] : of_14[i][0]] = minor == 13 ? of_13[i][1] : of_14[i][1];
}

static void get_layout(unsigned int minor, struct python *ret_python)
{
	uint64_t words[PYTHON_DEBUG_WORDS];

	if (minor < 13) {
		assert_int_equal(python_layout_known(3, minor, ret_python), 0);
	} else {
		fill_debug_words(words, minor);
		assert_int_equal(python_layout_read(words, PYTHON_DEBUG_WORDS, ret_python), 0);
	}
	assert_int_equal(ret_python->minor, minor);
	ret_python->type_code = TYPE_CODE;
	ret_python->type_str = TYPE_STR;
	ret_python->type_bytes = TYPE_BYTES;
	ret_python->type_int = TYPE_INT;
}

/* Of the test that runs. */
static struct python_names *n;
static struct python p;
static struct python_name named;

/* A process of which only the version is known. */
static void start(unsigned int minor)
{
	python_names_free(n);
	n = python_names_new(read_image, NULL);
	get_layout(minor, &p);
	python_names_set(n, TGID, &p);
}

/* The same, with the function in its memory. */
static void start_with_function(unsigned int minor)
{
	start(minor);
	put_function(&p);
}

static int tear_down(void **state)
{
	python_names_free(n);
	n = NULL;
	return 0;
}

static void check_name(uint64_t instr, const char *name, uint32_t line)
{
	assert_int_equal(python_names_get(n, TGID, CODE, instr, &named), 0);
	assert_string_equal(named.name, name);
	assert_int_equal(named.line, line);
}

TEST_WITH(test_each_version, NULL, tear_down)
{
	for (unsigned int minor = 8; minor <= 14; minor++) {
		static const unsigned int lines[] = { 11, 11, 12 };

		start_with_function(minor);
		for (unsigned int i = 0; i < ARRAY_SIZE(lines); i++) {
			check_name(instr_at(&p, 2 * i), "A.f", lines[i]);
			assert_string_equal(named.file, "m.py");
		}
	}
}

TEST(test_versions_refused)
{
	uint64_t words[PYTHON_DEBUG_WORDS];

	p = (struct python){};
	assert_int_equal(python_layout_known(2, 7, &p), -ENOTSUP);
	assert_int_equal(python_layout_known(3, 7, &p), -ENOTSUP);
	assert_int_equal(python_layout_known(3, 13, &p), -ENOTSUP); /* only from its own table */
	fill_debug_words(words, 14);
	assert_int_equal(python_layout_read(words, PYTHON_DEBUG_WORDS - 1, &p), -ENOENT);
	words[1] = 3u << 24 | 99 << 16;
	assert_int_equal(python_layout_read(words, PYTHON_DEBUG_WORDS, &p), -ENOTSUP);
	assert_int_equal(p.minor, 99);
	fill_debug_words(words, 14);
	words[40] = UINT64_MAX; /* an impossible offset */
	assert_int_equal(python_layout_read(words, PYTHON_DEBUG_WORDS, &p), -EBADMSG);
	words[0] = 0;
	assert_int_equal(python_layout_read(words, PYTHON_DEBUG_WORDS, &p), -ENOENT);
}

/* ---- names ---- */

TEST_WITH(test_known_code_is_read_once, NULL, tear_down)
{
	struct python_names_stats stats;

	start_with_function(11);
	assert_int_equal(python_names_get(n, TGID, CODE, instr_at(&p, 0), &named), 0);
	reads = 0;
	check_name(instr_at(&p, 4), "A.f", 12);
	assert_int_equal(reads, 1);

	/* another function in its place */
	put_ascii(&p, NAME + 0x200, "other");
	put(CODE + p.objects.code_qualname, NAME + 0x200, 8);
	check_name(instr_at(&p, 0), "other", 11);
	python_names_stats(n, &stats);
	assert_int_equal(stats.read, 2);

	/* no longer a code object */
	put(CODE + p.objects.type, 0, 8);
	assert_int_equal(python_names_get(n, TGID, CODE, instr_at(&p, 0), &named), -EFAULT);
	assert_int_equal(python_names_get(n, TGID + 1, CODE, instr_at(&p, 0), &named), -ENOENT);
}

/* Samples arrive after the process has exited, but exited processes are forgotten at some time. */
TEST_WITH(test_process_that_exits, NULL, tear_down)
{
	struct python_names_stats stats;

	start_with_function(11);
	assert_int_equal(python_names_get(n, TGID, CODE, instr_at(&p, 4), &named), 0);
	assert_true(python_names_has(n, TGID, &p));
	assert_true(python_names_gone(n, TGID));
	assert_false(python_names_gone(n, TGID));
	assert_false(python_names_has(n, TGID, &p));
	exited = true;
	check_name(instr_at(&p, 4), "A.f", 12);
	assert_int_equal(python_names_get(n, TGID, CODE + 8, 0, &named), -ESRCH);
	for (uint32_t tgid = 1000; tgid < 1100; tgid++) {
		python_names_set(n, tgid, &p);
		python_names_gone(n, tgid);
	}
	assert_int_equal(python_names_get(n, TGID, CODE, instr_at(&p, 4), &named), -ENOENT);
	python_names_stats(n, &stats);
	assert_int_equal(stats.memory, 0);
	exited = false;
}

TEST_WITH(test_texts, NULL, tear_down)
{
	static const uint8_t latin[] = { 'a', 0xe4 };
	static const uint16_t ucs2[] = { 0x3a3, 0xd800, 'b' };
	static const uint32_t ucs4[] = { 0x1f40d, 0x110000 };

	static const struct {
		const void *text;
		size_t length;
		unsigned int width;
		const char *name;
	} list[] = {
		{ latin, 2, 1, "a\xc3\xa4" },
		{ ucs2, 3, 2, "\xce\xa3?b" },
		{ ucs4, 2, 4, "\xf0\x9f\x90\x8d?" },
	};

	for (unsigned int minor = 8; minor <= 14; minor++) {
		start_with_function(minor);
		for (size_t i = 0; i < ARRAY_SIZE(list); i++) {
			python_names_set(n, TGID, &p);
			put_str(&p, NAME, list[i].text, list[i].length, list[i].width, false);
			assert_int_equal(python_names_get(n, TGID, CODE, 0, &named), 0);
			assert_string_equal(named.name, list[i].name);
		}
	}
}

TEST_WITH(test_long_name_is_cut, NULL, tear_down)
{
	uint16_t wide[1000];

	for (size_t i = 0; i < ARRAY_SIZE(wide); i++)
		wide[i] = 0x2211;
	start_with_function(11);
	put_str(&p, NAME, wide, ARRAY_SIZE(wide), 2, false);
	assert_int_equal(python_names_get(n, TGID, CODE, 0, &named), 0);
	assert_int_equal(strlen(named.name), PYTHON_NAME_MAX / 3 * 3); /* whole characters */
}

TEST_WITH(test_wild_lengths_and_pointers, NULL, tear_down)
{
	static const uint64_t wild[] = { 0, 1, BASE - 1, BASE + sizeof(memory) - 4, UINT64_MAX, UINT64_MAX - 7, INT64_MAX, CODE };

	start(11);
	for (size_t i = 0; i < ARRAY_SIZE(wild); i++) {
		put_function(&p);
		assert_int_equal(python_names_get(n, TGID, wild[i] == CODE ? 0 : wild[i], 0, &named), -EFAULT);
		put(CODE + p.objects.code_qualname, wild[i], 8);
		assert_int_equal(python_names_get(n, TGID, CODE, 0, &named), -EFAULT);
		put_function(&p);
		put(NAME + p.objects.str_length, 1ull << 31 | wild[i], 8);
		assert_int_equal(python_names_get(n, TGID, CODE, 0, &named), -EFAULT);

		/* it has a name, but no file and no line */
		put_function(&p);
		put(CODE + p.objects.code_filename, wild[i], 8);
		put(CODE + p.objects.code_lines, wild[i], 8);
		assert_int_equal(python_names_get(n, TGID, CODE, instr_at(&p, 0), &named), 0);
		assert_null(named.file);
		assert_int_equal(named.line, 0);
		put_function(&p);
		put(CODE + p.objects.code_lines, LINES + 8 * i, 8);
		put(LINES + 8 * i + p.objects.type, TYPE_BYTES, 8);
		put(LINES + 8 * i + p.objects.bytes_size, 1ull << 31 | wild[i], 8);
		assert_int_equal(python_names_get(n, TGID, CODE, instr_at(&p, 0), &named), 0);
		assert_int_equal(named.line, 0);
	}
	/* far from the code: no line */
	put_function(&p);
	assert_int_equal(python_names_get(n, TGID, CODE, CODE - 0x1000, &named), 0);
	assert_int_equal(named.line, 0);
	assert_int_equal(python_names_get(n, TGID, CODE, UINT64_MAX >> 1, &named), 0);
	assert_int_equal(named.line, 0);
}

/* Old functions are forgotten when there are many. */
TEST_WITH(test_memory_is_bounded, NULL, tear_down)
{
	struct python_names_stats stats;

	start_with_function(11);
	for (unsigned int i = 0; i < 200000; i++) {
		put(CODE + p.objects.code_firstlineno, i, 4);
		assert_int_equal(python_names_get(n, TGID, CODE, 0, &named), 0);
		python_names_stats(n, &stats);
		assert_true(stats.memory < 9u << 20);
	}
}

/* Every byte of the image and of the layout may be anything. */
TEST_WITH(test_junk, NULL, tear_down)
{

	srand(1);
	for (unsigned int i = 0; i < 20000; i++) {
		uint64_t words[PYTHON_DEBUG_WORDS];

		get_layout(8 + i % 7, &p);
		put_function(&p);
		for (unsigned int j = 0; j < 4; j++)
			memory[0x1000 * (1 + (unsigned int)rand() % 4) + (unsigned int)rand() % 0x100] = (uint8_t)rand();
		if (i % 3 == 0)
			((uint8_t *)&p.objects)[(unsigned int)rand() % offsetof(struct python_objects, str_kind_shift)] = (uint8_t)rand();
		python_names_free(n);
		n = python_names_new(read_image, NULL);
		python_names_set(n, TGID, &p);
		if (!python_names_get(n, TGID, CODE, instr_at(&p, (unsigned int)rand() % 8), &named)) {
			assert_true(strlen(named.name) < PYTHON_NAME_MAX);
			assert_true(!named.file || strlen(named.file) < PYTHON_FILE_MAX);
		}
		fill_debug_words(words, 13 + i % 2);
		words[(unsigned int)rand() % PYTHON_DEBUG_WORDS] = ((uint64_t)rand() << 32 | (uint32_t)rand()) >> rand() % 64;
		(void)python_layout_read(words, PYTHON_DEBUG_WORDS, &p);
	}
}

/* ---- lines ---- */

TEST(test_lines)
{
	/* 300 further, in steps that fit a byte; then back by 2 */
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
	put_ascii(&p, NAME, text);
	return task_text();
}

TEST_WITH(test_tasks, NULL, tear_down)
{
	static const uint16_t wide[] = { 'b', 0xe9, 0x394, 0xd800 };
	char longest[400];

	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = 0;
	for (unsigned int minor = 8; minor <= 14; minor++) {
		struct python_task task = { .frames = 1, .bytes = 32 };
		const char *text;

		start(minor);
		assert_string_equal(task_named("alpha"), "[task alpha]");
		assert_string_equal(task_named("Task-x"), "[task Task-x]");
		assert_string_equal(task_named("Task-"), "[task Task-]");
		assert_string_equal(task_named("Task-12"), "[task]"); /* asyncio's own number */
		assert_string_equal(task_named(""), "[task]");
		text = task_named(longest);
		assert_int_equal(strspn(text + 6, "x"), PYTHON_TASK_BYTES - p.objects.str_data);
		assert_int_equal(text[strlen(text) - 1], ']');
		memset(memory, 0, sizeof(memory));
		put_str(&p, NAME, wide, 4, 2, false);
		assert_string_equal(task_text(), "[task b\xc3\xa9\xce\x94?]");
		put(NAME + p.objects.type, TYPE_INT, 8);
		assert_string_equal(task_text(), "[task]");
		put(NAME + p.objects.type, TYPE_CODE, 8);
		assert_null(task_text());
		/* cut within its header */
		put_ascii(&p, NAME, "alpha");
		memcpy(task.name, memory + (NAME - BASE), sizeof(task.name));
		assert_null(python_names_task(n, TGID, &task));
		assert_null(python_names_task(n, TGID + 1, &task));
	}
}

/* Task names that never repeat, such as request ids, would make a stack each. */
TEST_WITH(test_many_tasks, NULL, tear_down)
{
	struct python_names_stats stats;
	char name[32], shown[48];

	start(11);
	for (int i = 0; i < PYTHON_TASKS_MAX + 10; i++) {
		snprintf(name, sizeof(name), "request %d", i);
		snprintf(shown, sizeof(shown), "[task %s]", name);
		assert_string_equal(task_named(name), i < PYTHON_TASKS_MAX ? shown : "[task]");
	}
	assert_string_equal(task_named("request 3"), "[task request 3]");
	python_names_stats(n, &stats);
	assert_int_equal(stats.tasks_left, 10);
}

TEST_WITH(test_junk_tasks, NULL, tear_down)
{

	srand(5);
	for (unsigned int minor = 8; minor <= 14; minor++) {
		start(minor);
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
	}
}

/* ---- frames ---- */

#define RUNTIME BASE
#define INTERP(i) (BASE + 0x1000u * (1 + (i)))
#define THREAD(i) (BASE + 0x4000u + 0x1000u * (i))
#define FRAME(i) (BASE + 0x8000u + 0x100u * (i))
#define FRAMES 100
#define FRAME_CODE 0x5000000000u
#define SELF 0x7f0000001000u

/* For 3.13 and later, what an interpreter's own table says. */
static struct python_walk walk_of(unsigned int minor)
{
	struct python layout;

	if (minor < 13) {
		assert_int_equal(python_layout_known(3, minor, &layout), 0);
	} else {
		assert_int_equal(python_layout_known(3, 12, &layout), 0);
		layout.walk.thread_frame = 72;
		layout.walk.cframe_frame = PYTHON_NO_OFFSET;
		layout.walk.frame_owner = layout.walk.gen_owner = 74;
		layout.walk.frame_locals = 80;
	}
	layout.walk.runtime = RUNTIME;
	return layout.walk;
}

static unsigned int frames_of(const struct python_walk *w, uint64_t self, struct python_found *f)
{
	python_names_free(n);
	n = python_names_new(read_image, NULL);
	python_names_set(n, TGID, &(struct python){ .walk = *w });
	python_names_frames(n, TGID, self, f);
	return f->n;
}

/* A frame, or the marker of a call from C. Frame i calls frame i - 1. */
static void put_frame(const struct python_walk *w, unsigned int i, bool shim, bool entry)
{
	put(FRAME(i) + w->frame_code, (FRAME_CODE + 0x100 * i) | 1, 8); /* with a tag, as in 3.14 */
	put(FRAME(i) + w->frame_instr, 2 * i, w->flags & PYTHON_WALK_LASTI ? 4 : 8);
	put(FRAME(i) + w->frame_previous, FRAME(i + 1), 8);
	if (w->frame_owner != PYTHON_NO_OFFSET)
		put(FRAME(i) + w->frame_owner, shim ? w->owner_shim : 0, 1);
	if (w->frame_entry != PYTHON_NO_OFFSET)
		put(FRAME(i) + w->frame_entry, entry, 1);
}

/* Two interpreters; the second has two threads, the second of which is ours, with this many frames. */
static void put_process(const struct python_walk *w, unsigned int frames)
{
	memset(memory, 0, sizeof(memory));
	put(RUNTIME + w->interpreters, INTERP(0), 8);
	put(INTERP(0) + w->interp_next, INTERP(1), 8);
	put(INTERP(1) + w->interp_threads, THREAD(0), 8);
	put(THREAD(0) + w->thread_next, THREAD(1), 8);
	put(THREAD(0) + w->thread_self, SELF + 1, 8);
	put(THREAD(1) + w->thread_self, SELF, 8);
	if (w->cframe_frame != PYTHON_NO_OFFSET) {
		put(THREAD(1) + w->thread_frame, THREAD(2), 8);
		put(THREAD(2) + w->cframe_frame, FRAME(0), 8);
	} else {
		put(THREAD(1) + w->thread_frame, FRAME(0), 8);
	}
	for (unsigned int i = 0; i < frames; i++)
		put_frame(w, i, false, false);
	put(FRAME(frames - 1) + w->frame_previous, 0, 8);
}

TEST_WITH(test_frames_of_each_version, NULL, tear_down)
{
	for (unsigned int minor = 8; minor <= 14; minor++) {
		struct python_walk w = walk_of(minor);
		struct python_found f;
		bool marks = w.frame_owner != PYTHON_NO_OFFSET, each = w.flags & PYTHON_WALK_EACH;
		unsigned int at = 0;

		/* 0 is called by 1, 1 from C by 3 (or 2 is that call's marker), 3 from outside */
		put_process(&w, 5);
		put_frame(&w, 1, false, true);
		put_frame(&w, 2, marks, false);
		put_frame(&w, 3, false, true);
		put_frame(&w, 4, marks, false);
		put(FRAME(4) + w.frame_previous, 0, 8);
		assert_int_equal(frames_of(&w, SELF, &f), marks ? 3 : 5);
		assert_false(f.cut);
		for (unsigned int i = 0; i < 5; i++) {
			bool entry = each || i == 1 || i == 3;

			if (marks && (i == 2 || i == 4))
				continue;
			assert_int_equal(f.frames[at].code, FRAME_CODE + 0x100 * i);
			assert_int_equal(f.frames[at].instr & ~PYTHON_F_ENTRY, 2 * i);
			assert_int_equal(!!(f.frames[at].instr & PYTHON_F_ENTRY), entry);
			at++;
		}
		assert_int_equal(frames_of(&w, SELF + 2, &f), 0);
		assert_int_equal(frames_of(&w, 0, &f), 0);
	}
}

TEST_WITH(test_more_than_fit, NULL, tear_down)
{
	struct python_walk w = walk_of(11);
	struct python_found f;

	put_process(&w, FRAMES);
	assert_int_equal(frames_of(&w, SELF, &f), SAMPLE_PYTHON_MAX);
	assert_true(f.cut);
	put_process(&w, SAMPLE_PYTHON_MAX);
	assert_int_equal(frames_of(&w, SELF, &f), SAMPLE_PYTHON_MAX);
	assert_false(f.cut);
}

TEST_WITH(test_circles, NULL, tear_down)
{
	for (unsigned int minor = 8; minor <= 14; minor++) {
		struct python_walk w = walk_of(minor);
		struct python_found f;

		put_process(&w, 3);
		put(FRAME(2) + w.frame_previous, FRAME(0), 8);
		assert_int_equal(frames_of(&w, SELF, &f), SAMPLE_PYTHON_MAX);
		assert_true(f.cut);
		put_process(&w, 3);
		put(THREAD(1) + w.thread_self, 0, 8);
		put(THREAD(1) + w.thread_next, THREAD(0), 8);
		assert_int_equal(frames_of(&w, SELF, &f), 0);
		put(INTERP(1) + w.interp_threads, 0, 8);
		put(INTERP(1) + w.interp_next, INTERP(0), 8);
		assert_int_equal(frames_of(&w, SELF, &f), 0);
	}
}

TEST_WITH(test_junk_frames, NULL, tear_down)
{
	srand(3);
	for (unsigned int i = 0; i < 5000; i++) {
		struct python_walk w = walk_of(8 + i % 7);
		struct python_found f;

		put_process(&w, 1 + (unsigned int)rand() % 80);
		for (unsigned int j = 0; j < 20; j++) {
			uint64_t wild = (uint64_t)rand() << 33 | (uint32_t)rand(), near = BASE + (unsigned int)rand() % sizeof(memory);

			put(BASE + (unsigned int)rand() % (sizeof(memory) - 8), rand() % 4 ? near : wild, 8);
		}
		reads = 0;
		assert_true(frames_of(&w, SELF, &f) <= SAMPLE_PYTHON_MAX);
		assert_true(reads < 20000);
	}
}

#define OBJECT(i) (BASE + 0xf000u + 0x100u * (i))
#define END (BASE + sizeof(memory))

enum {
	HANDLE,
	CALLBACK,
	TASK,
	CODE_OBJECT,
	GENERATORS,
};

/* Turns the frame into a generator's or coroutine's; returns the generator. */
static uint64_t put_generator(const struct python_walk *w, unsigned int i)
{
	uint64_t object = OBJECT(GENERATORS + i / 4);

	if (w->frame_gen == PYTHON_NO_OFFSET) {
		put(FRAME(i) + w->gen_owner, PYTHON_OWNER_GENERATOR, 1);
		return FRAME(i) - w->gen_frame;
	}
	put(FRAME(i) + w->frame_gen, object, 8);
	return object;
}

/* A function, two coroutines, the outer one being the task's, the loop's function, and one more. They are further apart than
 * other frames, since these have variables. */
static void put_task(const struct python_walk *w, unsigned int place, uint64_t name)
{
	uint64_t gen;

	put_process(w, 17);
	for (unsigned int i = 0; i < 16; i += 4)
		put(FRAME(i) + w->frame_previous, FRAME(i + 4), 8);
	put_generator(w, 4);
	gen = put_generator(w, 8);
	put(FRAME(12) + w->frame_locals, OBJECT(HANDLE) | (w->cframe_frame == PYTHON_NO_OFFSET), 8);
	put(OBJECT(HANDLE) + PYTHON_HANDLE_CALLBACK, OBJECT(CALLBACK), 8);
	put(OBJECT(CALLBACK) + place, OBJECT(TASK), 8);
	put(OBJECT(TASK) + w->task_coro, gen, 8);
	put(OBJECT(TASK) + w->task_name, name, 8);
	memset(memory + (name - BASE), 'n', END - name < PYTHON_TASK_BYTES ? END - name : PYTHON_TASK_BYTES);
}

TEST_WITH(test_tasks_of_frames, NULL, tear_down)
{
	static const unsigned int places[] = { PYTHON_CALLBACK_STEP, PYTHON_CALLBACK_METHOD };
	struct python_found f;

	for (unsigned int minor = 8; minor <= 14; minor++) {
		struct python_walk w = walk_of(minor);

		for (unsigned int i = 0; i < 2; i++) {
			put_task(&w, places[i], END - PYTHON_TASK_BYTES);
			assert_int_equal(frames_of(&w, SELF, &f), 5);
			assert_true(f.has_task);
			assert_int_equal(f.task.frames, 3);
			assert_int_equal(f.task.bytes, PYTHON_TASK_BYTES);
			assert_int_equal(f.task.name[PYTHON_TASK_BYTES - 1], 'n');
		}
		/* the name lies at the end of the memory */
		put_task(&w, places[0], END - 64);
		frames_of(&w, SELF, &f);
		assert_true(f.has_task);
		assert_int_equal(f.task.bytes, 64);
		/* another one's coroutine, and no task at all */
		put(OBJECT(TASK) + w.task_coro, OBJECT(HANDLE), 8);
		frames_of(&w, SELF, &f);
		assert_false(f.has_task);
		put_task(&w, places[0], END - 64);
		put(FRAME(12) + w.frame_locals, 0, 8);
		frames_of(&w, SELF, &f);
		assert_false(f.has_task);
		assert_int_equal(f.n, 5);
		put_task(&w, places[0], END - 64);
		w.task_coro = PYTHON_NO_OFFSET;
		frames_of(&w, SELF, &f);
		assert_false(f.has_task);
	}
}

/* From 3.12 on a function may run another task's coroutine eagerly, with unknown name. A plain generator belongs to the task. */
TEST_WITH(test_eager_tasks, NULL, tear_down)
{
	struct python_found f;

	for (unsigned int minor = 8; minor <= 14; minor++) {
		for (unsigned int flags = 0; flags <= 0x80; flags += 0x80) {
			struct python_walk w = walk_of(minor);

			put_task(&w, PYTHON_CALLBACK_STEP, END - 64);
			put_generator(&w, 0);
			put_frame(&w, 4, false, false);
			put(FRAME(4) + w.frame_previous, FRAME(8), 8);
			if (w.frame_gen == PYTHON_NO_OFFSET)
				put(FRAME(4) + w.gen_owner, 0, 1);
			else
				put(FRAME(4) + w.frame_gen, 0, 8);
			put(FRAME(0) + w.frame_code, OBJECT(CODE_OBJECT), 8);
			if (w.code_flags != PYTHON_NO_OFFSET)
				put(OBJECT(CODE_OBJECT) + w.code_flags, flags, 4);
			frames_of(&w, SELF, &f);
			assert_int_equal(f.has_task, minor < 12 || !flags);
			assert_int_equal(f.n, 5);
		}
	}
}

RUN_TESTS(NULL, NULL)
