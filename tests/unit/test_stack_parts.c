// SPDX-License-Identifier: BSD-2-Clause
/*
 * The parts that make stacks: steps from frame to frame; names of the kernel, of code made at run time, and demangled; one
 * copy of each text, frame and stack in bounded memory; function parts that the compiler moved away; any number of code
 * files, as processes come and go.
 */
#include <dwarf.h>
#include <elf.h>
#include <fcntl.h>
#include <gelf.h>
#include <sys/mman.h>

#include "stack/intern.h"
#include "stack/kernel_symbols.h"
#include "stack/lookup.h"
#include "stack/unwind.h"
#include "unit.h"

/* ---- steps ---- */

#define BASE UINT64_C(0x7ffd00000000)

/* CFA = stack pointer + size, the return address below it. */
static struct row row_of(int32_t size)
{
	struct row row = { .known = 1, .ra = ROW_PC };

	row.cfa = (struct rule){ .kind = RULE_REG, .reg = ROW_SP, .offset = size };
	for (int i = 0; i < ROW_REGS; i++)
		row.regs[i].kind = RULE_SAME;
	row.regs[ROW_PC] = (struct rule){ .kind = RULE_AT, .offset = -8 };
	row.regs[ROW_SP].kind = RULE_IS;
	return row;
}

static void start(struct unwind *u, const uint64_t *stack, size_t n)
{
	uint64_t regs[ROW_REGS] = {};

	regs[ROW_SP] = BASE;
	regs[ROW_FP] = BASE;
	regs[ROW_PC] = 0x1000;
	unwind_start(u, regs, stack, n * sizeof(*stack));
}

TEST(steps)
{
	const uint64_t stack[] = { 1, 0x2000, 2, 3, 0x3000, 0 };
	struct row row = row_of(16), last = row_of(8);
	struct unwind u;

	start(&u, stack, 6);
	assert_int_equal(unwind_pc(&u), 0x1000);
	assert_int_equal(unwind_step(&u, &row), 0);
	assert_int_equal(unwind_pc(&u), 0x1fff);
	row.cfa.offset = 24;
	assert_int_equal(unwind_step(&u, &row), 0);
	assert_int_equal(unwind_pc(&u), 0x2fff);
	/* a return address of 0 is the end, too */
	assert_int_equal(unwind_step(&u, &last), 1);
	start(&u, stack, 6);
	last.regs[ROW_PC].kind = RULE_UNDEFINED;
	assert_int_equal(unwind_step(&u, &last), 1);
}

TEST(circles_end)
{
	const uint64_t stack[] = { 0x1000, 0x1000 };
	struct row row = row_of(0);
	struct unwind u;

	/* the caller's stack pointer is the same or lower */
	start(&u, stack, 2);
	assert_int_equal(unwind_step(&u, &row), -EINVAL);
	row.cfa.offset = -16;
	assert_int_equal(unwind_step(&u, &row), -EINVAL);
	/* a frame pointer that points to itself */
	row.known = 0;
	{
		const uint64_t fp[] = { BASE, 0x1000, BASE, 0x1000 };

		start(&u, fp, 4);
		assert_int_equal(unwind_step(&u, &row), 0);
		assert_int_equal(unwind_step(&u, &row), -EINVAL);
	}
}

TEST(only_the_copy_is_read)
{
	const uint64_t stack[] = { 1, 2 };
	struct row row = row_of(24);
	struct unwind u;

	start(&u, stack, 2);
	assert_int_equal(unwind_step(&u, &row), -ENODATA);
	row = row_of(16);
	row.regs[ROW_PC].offset = -4; /* half of it */
	start(&u, stack, 2);
	assert_int_equal(unwind_step(&u, &row), -ENODATA);
	row.regs[ROW_PC].offset = -24; /* below the stack pointer */
	assert_int_equal(unwind_step(&u, &row), -EINVAL);
	row.regs[ROW_PC].offset = INT32_MIN;
	assert_int_equal(unwind_step(&u, &row), -EINVAL);
	u.regs[ROW_SP] = UINT64_MAX;
	assert_int_equal(unwind_step(&u, &row), -EINVAL);
}

/* CFA of a PLT entry: rsp + 8 + ((rip & 15) >= 11) * 8 */
TEST(expressions)
{
	const struct row_op plt[] = {
		{ .atom = DW_OP_breg0 + ROW_SP, .number = 8 },
		{ .atom = DW_OP_bregx, .number = ROW_PC },
		{ .atom = DW_OP_lit15 },
		{ .atom = DW_OP_and },
		{ .atom = DW_OP_lit11 },
		{ .atom = DW_OP_ge },
		{ .atom = DW_OP_lit3 },
		{ .atom = DW_OP_shl },
		{ .atom = DW_OP_plus },
	};
	const uint64_t stack[] = { 0x2001, 0x3001 };
	struct row row = row_of(0);
	struct unwind u;

	row.cfa = (struct rule){ .kind = RULE_IS_EXPR, .n_ops = 9 };
	row.n_ops = 9;
	memcpy(row.ops, plt, sizeof(plt));
	start(&u, stack, 2);
	assert_int_equal(unwind_step(&u, &row), 0);
	assert_int_equal(unwind_pc(&u), 0x2000);
	start(&u, stack, 2);
	u.regs[ROW_PC] = 0x100b;
	assert_int_equal(unwind_step(&u, &row), 0);
	assert_int_equal(unwind_pc(&u), 0x3000);
}

/* Rows of random bytes, as from a process taken over by a hostile file. A step returns only what unwind.h names, and a
 * failed one changes no register. */
TEST(junk_rows)
{
	unsigned int moved = 0, ended = 0, cut = 0, wrong = 0;
	struct row row = {};
	uint64_t stack[64];
	struct unwind u;

	srandom(1);
	for (int i = 0; i < 200000; i++) {
		unsigned char *bytes = (unsigned char *)&row;

		for (size_t k = 0; k < sizeof(row); k += 1 + (i & 7))
			bytes[k] = (unsigned char)random();
		for (size_t k = 0; k < 64; k++)
			stack[k] = BASE + (uint64_t)(random() % 600);
		if (i & 1) {
			row.known = 1;
			row.cfa.kind = (uint8_t)(random() % RULE_KIND_MAX);
			row.cfa.reg = ROW_SP;
			row.cfa.offset = (int32_t)(random() % 600);
			row.ra = ROW_PC;
			row.n_ops = (uint8_t)(random() % (ROW_OPS_MAX + 1));
			for (size_t k = 0; k < ROW_OPS_MAX; k++)
				row.ops[k].atom = (uint32_t)random() % 256;
		}
		start(&u, stack, 64);
		for (int k = 0, err = 0; k < 4 && !err; k++) {
			struct unwind before = u;

			err = unwind_step(&u, &row);
			moved += !err;
			ended += err == 1;
			cut += err == -ENODATA;
			wrong += err == -EINVAL;
			if (err < 0)
				assert_memory_equal(u.regs, before.regs, sizeof(u.regs));
			else if (!err)
				assert_int_not_equal(u.regs[ROW_PC], 0);
			assert_true(!err || err == 1 || err == -ENODATA || err == -EINVAL);
			assert_true(err || row.known || u.regs[ROW_SP] > before.regs[ROW_SP]);
			assert_int_equal(u.known >> ROW_REGS, 0);
		}
	}
	assert_true(moved && ended && cut && wrong);
}

/* ---- names ---- */

static void check_name(const char *mangled, const char *wanted)
{
	char name[STACK_NAME_MAX];

	demangle(mangled, name, sizeof(name));
	assert_string_equal(name, wanted);
}

TEST(demangles)
{
	check_name("ggml_compute_forward", "ggml_compute_forward");
	check_name("_ZN13llama_context6decodeERK11llama_batch", "llama_context::decode");
	check_name("_ZNSt6vectorIiSaIiEE9push_backEOi", "std::vector<int, std::allocator<int> >::push_back");
	check_name("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", "core::fmt::Formatter::pad");
	check_name("_RNvCs1234_7mycrate3foo", "mycrate::foo");
	check_name("compute.constprop.0.isra.0", "compute");
	check_name("compute.cold", "compute");
	check_name("__libc_start_main@@GLIBC_2.34", "__libc_start_main");
	check_name(".hidden", ".hidden");
	check_name("_Z", "_Z");
	check_name("_ZN", "_ZN");
	check_name("", "");
}

/* Each S_ repeats what came before: 2^40 times, cut at once. */
TEST(demangles_no_bombs)
{
	char mangled[1024] = "_Z1fI1aE", name[64];
	size_t n;

	n = strlen(strcpy(mangled, "_Z1fSt4pairIiiE"));
	for (int i = 0; i < 9; i++)
		n += (size_t)sprintf(mangled + n, "St4pairIS%c_S%c_E", '0' + i, '0' + i);
	demangle(mangled, name, sizeof(name));
	assert_true(strlen(name) < sizeof(name));
	/* deep */
	memset(mangled, 'P', sizeof(mangled));
	memcpy(mangled, "_Z1f", 4);
	mangled[sizeof(mangled) - 1] = '\0';
	demangle(mangled, name, sizeof(name));
	assert_true(strlen(name) < sizeof(name));
}

TEST(kernel_names)
{
	const char *const list =
		"ffffffff81000000 T _text\n"
		"ffffffff81000000 T _stext\n"
		"ffffffff81000200 t do_one\n"
		"ffffffff81000300 d a_datum\n"
		"ffffffffc0000010 t of_module\t[some_module]\n"
		"ffffffffc0000100 t later\t[some_module]\n"
		"ffffffff81000400 W do_two\n"
		"junk\n\nffffffff81000500\nffffffff81000600 T\n";
	char path[] = "/tmp/test_stack_XXXXXX";
	struct kernel_symbols *ks;
	const char *module;
	uint64_t at;
	int fd = mkstemp(path);

	assert_int_equal(write(fd, list, strlen(list)), strlen(list));
	close(fd);
	assert_int_equal(kernel_symbols_new(path, &ks), 0);
	unlink(path);
	assert_string_equal(kernel_symbols_find(ks, 0xffffffff81000001, &at, &module), "_text");
	assert_null(module);
	assert_string_equal(kernel_symbols_find(ks, 0xffffffff81000310, &at, &module), "do_one");
	assert_int_equal(at, 0xffffffff81000200);
	assert_string_equal(kernel_symbols_find(ks, 0xffffffff81000400, &at, &module), "do_two");
	assert_string_equal(kernel_symbols_find(ks, 0xffffffffc0000020, &at, &module), "of_module");
	assert_string_equal(module, "some_module");
	assert_null(kernel_symbols_find(ks, 0x1000, &at, &module));
	kernel_symbols_free(ks);
	assert_int_equal(kernel_symbols_new("/nonexistent", &ks), -ENOENT);
}

/* More than is read at once, with the last ones unordered and the last line unterminated. */
TEST(many_kernel_names)
{
	static const unsigned int number = 20000, behind = 500;
	char path[] = "/tmp/test_stack_XXXXXX", name[32];
	struct kernel_symbols *ks;
	const char *module;
	FILE *f = fdopen(mkstemp(path), "w");
	uint64_t at;

	for (unsigned int i = 0; i < number; i++)
		fprintf(f, "%016x T function_%u\n", 0x1000 * (i + 1), i);
	for (unsigned int i = 0; i < behind; i++) {
		unsigned int k = i * 7 % behind;

		fprintf(f, "%016x t of_module_%u\t[m]%s", 0x1000 * (number - behind / 2 + k) + 0x800, k, i + 1 < behind ? "\n" : "");
	}
	fclose(f);
	assert_int_equal(kernel_symbols_new(path, &ks), 0);
	unlink(path);
	for (unsigned int i = 0; i < number; i++) {
		snprintf(name, sizeof(name), "function_%u", i);
		assert_string_equal(kernel_symbols_find(ks, 0x1000 * (i + 1) + 0x7ff, &at, &module), name);
		assert_int_equal(at, 0x1000 * (i + 1));
		assert_null(module);
	}
	for (unsigned int k = 0; k < behind; k++) {
		snprintf(name, sizeof(name), "of_module_%u", k);
		assert_string_equal(kernel_symbols_find(ks, 0x1000 * (number - behind / 2 + k) + 0x801, &at, &module), name);
		assert_string_equal(module, "m");
	}
	kernel_symbols_free(ks);
}

static struct perf_map *new_map(const char *text, int *ret_fd)
{
	int fd = memfd_create("map", 0);

	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	*ret_fd = dup(fd);
	return perf_map_new(fd);
}

TEST(perf_map_names)
{
	uint64_t at;
	int fd;
	struct perf_map *map = new_map("1000 10 first thing\n"
				       "0x2000 20 LazyCompile:~second /a.js:3\n"
				       "1000 10 \xff\n"
				       "1000 10 again\n"
				       "nothing\n\n 30 40 x\n11111111111111111 1 y\n5000 0 empty\n6000 10\n7000 10 \n"
				       "8000 10 unfinished",
		&fd);

	assert_string_equal(perf_map_find(map, 0x100f, &at), "again");
	assert_int_equal(at, 0x1000);
	assert_null(perf_map_find(map, 0x1010, &at));
	assert_string_equal(perf_map_find(map, 0x2000, &at), "LazyCompile:~second /a.js:3");
	assert_null(perf_map_find(map, 0x5000, &at));
	assert_null(perf_map_find(map, 0x6000, &at));
	assert_null(perf_map_find(map, 0x8000, &at));
	close(fd);
	perf_map_free(map);
}

/* A file that grows by 10,000 names a second: memory is bounded, and the newest are known. */
TEST(perf_map_is_bounded)
{
	uint64_t at;
	unsigned long last = 0;
	char line[600];
	int fd;
	struct perf_map *map = new_map("10 1 x\n", &fd);
	FILE *f = fdopen(fd, "a");

	assert_non_null(f);
	for (unsigned long i = 0; i < 100000; i++) {
		last = 0x100000 + i * 16;
		fprintf(f, "%lx 10 function_%lu\n", last, i);
	}
	fflush(f);
	assert_string_equal(perf_map_find(map, last, &at), "function_99999");
	assert_string_equal(perf_map_find(map, last - 16 * 1000, &at), "function_98999");
	assert_null(perf_map_find(map, 0x100000, &at));
	assert_true(perf_map_memory(map) < 8 << 20);
	perf_map_free(map);
	fclose(f);
	/* long names, and a line without an end */
	memset(line, 'n', sizeof(line) - 1);
	line[sizeof(line) - 1] = '\0';
	map = new_map("10 1 x\n", &fd);
	f = fdopen(fd, "a");
	for (unsigned long i = 0; i < 20000; i++)
		fprintf(f, "%lx 10 %s\n", 0x100000 + i * 16, line);
	for (unsigned long i = 0; i < 5000; i++)
		fprintf(f, "%s", line);
	fprintf(f, "\n99999999 10 last\n");
	fflush(f);
	assert_string_equal(perf_map_find(map, 0x99999999, &at), "last");
	assert_true(perf_map_memory(map) < 8 << 20);
	perf_map_free(map);
	fclose(f);
}

/* ---- one copy of each ---- */

static uint32_t add_frame(struct intern *in, const char *name)
{
	struct frame f = { .kind = FRAME_NATIVE, .name = intern_text(in, name), .rel_pc = 16 };

	return intern_frame(in, &f);
}

TEST(same_is_one)
{
	struct intern *in = intern_new(1 << 20);
	uint32_t f[3] = { add_frame(in, "a"), add_frame(in, "b"), add_frame(in, "a") };
	const uint32_t *frames;

	assert_ptr_equal(intern_text(in, "a"), intern_text(in, "a"));
	assert_null(intern_text(in, NULL));
	assert_int_equal(f[0], f[2]);
	assert_int_not_equal(f[0], f[1]);
	assert_int_equal(intern_stack(in, f, 2), 0);
	assert_int_equal(intern_stack(in, f, 3), 1);
	assert_int_equal(intern_stack(in, f, 2), 0);
	assert_int_equal(intern_get_stack(in, 1, &frames), 3);
	assert_memory_equal(frames, f, sizeof(f));
	assert_string_equal(intern_get_frame(in, f[1])->name, "b");
	assert_int_equal(intern_get_frame(in, f[1])->rel_pc, 16);
	assert_int_equal(intern_get_stack(in, 2, &frames), 0);
	assert_int_equal(intern_get_stack(in, STACK_NONE, &frames), 0);
	assert_null(intern_get_frame(in, 2));
	assert_null(intern_get_frame(in, INTERN_NONE));
	intern_free(in);
}

TEST(texts_are_cleaned)
{
	struct intern *in = intern_new(1 << 20);
	char text[2 * STACK_NAME_MAX];

	assert_string_equal(intern_text(in, "a\n\x1b[2J\x7f;\xff\xc3\xa9"), "a??[2J?;?\xc3\xa9");
	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(strlen(intern_text(in, text)), STACK_NAME_MAX - 1);
	/* a character that would be cut in two */
	memcpy(text + STACK_NAME_MAX - 2, "\xc3\xa9", 2);
	assert_string_equal(intern_text(in, text) + STACK_NAME_MAX - 4, "xx?");
	intern_free(in);
}

TEST(memory_has_a_limit)
{
	struct intern *in = intern_new(1 << 20);
	uint32_t last = INTERN_NONE, n = 0;
	struct intern_counts counts;
	const uint32_t *frames;
	char name[32];

	for (;; n++) {
		uint32_t f, id;

		snprintf(name, sizeof(name), "function_%u", n);
		f = add_frame(in, name);
		id = f == INTERN_NONE ? INTERN_NONE : intern_stack(in, &f, 1);
		if (id == INTERN_NONE)
			break;
		last = id;
	}
	assert_in_range(n, 1000, 10000);
	intern_counts(in, &counts);
	assert_int_equal(counts.frames, n);
	assert_int_equal(counts.stacks, n);
	assert_in_range(counts.memory, (1 << 20) - 70000, 1 << 20);
	/* what was there before still is */
	assert_int_equal(intern_get_stack(in, last, &frames), 1);
	snprintf(name, sizeof(name), "function_%u", n - 1);
	assert_string_equal(intern_get_frame(in, frames[0])->name, name);
	assert_int_equal(intern_stack(in, frames, 1), last);
	intern_free(in);
}

/* ---- parts of a function, in this program itself ---- */

/* Two paths to cold code, so that one of them leads into the middle of the split-off part. */
__attribute__((noinline, cold)) static void complain(int x)
{
	(void)!write(2, &x, x < 0 ? sizeof(x) : 0);
}

__attribute__((noinline)) int parted(int x, volatile int *p);
__attribute__((noinline, optimize("O2"))) int parted(int x, volatile int *p)
{
	if (__builtin_expect(x == 42, 0)) {
		complain(x);
		*p += 2;
		complain(*p);
		return *p;
	}
	for (int i = 0; i < x; i++) {
		*p += i;
		if (__builtin_expect(*p == 77, 0)) {
			complain(i);
			*p *= 3;
			complain(*p);
			return -1;
		}
	}
	return *p;
}

struct image {
	Elf *elf;
	int fd;
	GElf_Sym function, cold;
	uint64_t offset;
};

static bool find_symbols(struct image *im)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr sh;

	while ((scn = elf_nextscn(im->elf, scn)) && gelf_getshdr(scn, &sh)) {
		Elf_Data *data = sh.sh_type == SHT_SYMTAB ? elf_getdata(scn, NULL) : NULL;

		for (size_t i = 0; data && i < sh.sh_size / sh.sh_entsize; i++) {
			GElf_Sym sym;
			const char *name;

			if (!gelf_getsym(data, (int)i, &sym))
				continue;
			name = elf_strptr(im->elf, sh.sh_link, sym.st_name);
			if (name && !strcmp(name, "parted"))
				im->function = sym;
			if (name && !strcmp(name, "parted.cold"))
				im->cold = sym;
		}
	}
	return im->function.st_value && im->cold.st_value;
}

static int open_image(void **state)
{
	static struct image im;
	size_t n;

	elf_version(EV_CURRENT);
	im.fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	im.elf = elf_begin(im.fd, ELF_C_READ, NULL);
	if (!im.elf || elf_getphdrnum(im.elf, &n))
		return -1;
	*state = &im;
	if (!find_symbols(&im))
		return 0; /* this compiler does not split it */
	for (size_t i = 0; i < n; i++) {
		GElf_Phdr ph;

		if (gelf_getphdr(im.elf, (int)i, &ph) && ph.p_type == PT_LOAD && im.function.st_value - ph.p_vaddr < ph.p_filesz)
			im.offset = im.function.st_value - ph.p_vaddr + ph.p_offset;
	}
	return 0;
}

static int close_image(void **state)
{
	struct image *im = *state;

	elf_end(im->elf);
	close(im->fd);
	return 0;
}

TEST_WITH(test_parts, open_image, close_image)
{
	struct image *im = *state;
	uint64_t starts[COLD_MAX] = { 0 };
	volatile int v = 0;

	if (!im->cold.st_value)
		skip();
	assert_int_equal(parted(3, &v), 3);
	assert_int_equal(cold_parts(im->elf, im->function.st_value, im->offset, im->function.st_size, starts), 1);
	assert_int_equal(starts[0], im->cold.st_value);
	assert_int_equal(cold_function(im->elf, im->cold.st_value + im->cold.st_size - 1), im->cold.st_value);
	assert_int_equal(cold_function(im->elf, im->function.st_value + 1), im->function.st_value);
	assert_int_equal(cold_function(im->elf, 0), 0);
}

TEST_WITH(test_no_code, open_image, close_image)
{
	struct image *im = *state;
	uint64_t starts[COLD_MAX];

	assert_int_equal(cold_parts(im->elf, 0, UINT64_MAX / 2, 100, starts), 0);
	assert_int_equal(cold_parts(im->elf, 0, 0, 0, starts), 0);
	assert_int_equal(cold_parts(im->elf, 0, 0, SIZE_MAX, starts), 0);
}

/* ---- files ---- */

#define MANY (READER_FILES_MAX + 100)
#define OPEN_MAX_MORE 500 /* far fewer descriptors than these */

struct text {
	char *data;
	size_t size;
};

/* A file of its own, mapped by this process. */
struct copy {
	char path[64];
	struct mapped_file file;
	void *map;
	size_t size;
};

/* Any ELF file. */
static struct text read_self(void)
{
	struct text t = { .size = 0 };
	FILE *f = fopen("/proc/self/exe", "re");

	assert_non_null(f);
	assert_int_equal(fseek(f, 0, SEEK_END), 0);
	t.size = (size_t)ftell(f);
	rewind(f);
	t.data = malloc(t.size);
	assert_non_null(t.data);
	assert_int_equal(fread(t.data, 1, t.size, f), t.size);
	fclose(f);
	return t;
}

static int find_copy(const struct mapped_file *m, void *arg)
{
	struct copy *c = arg;

	if (m->start != (uintptr_t)c->map)
		return 0;
	c->file = *m;
	c->file.path = c->path;
	return 1;
}

static void copy_map(struct copy *c, const struct text *t)
{
	int fd;

	snprintf(c->path, sizeof(c->path), "/tmp/test_stack_modules.XXXXXX");
	fd = mkostemp(c->path, O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, t->data, t->size), t->size);
	c->size = t->size;
	c->map = mmap(NULL, c->size, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	assert_true(c->map != MAP_FAILED);
	close(fd);
	assert_int_equal(process_each_executable(getpid(), find_copy, c), 1);
}

static void copy_unmap(const struct copy *c)
{
	munmap(c->map, c->size);
	unlink(c->path);
}

static unsigned int open_files(void)
{
	unsigned int n = 0;

	for (int fd = 0; fd < 2 * MANY; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static struct module *get(struct modules *ms, const struct copy *c)
{
	bool fault = true;
	struct module *m = modules_get(ms, getpid(), &c->file, &fault);

	assert_non_null(m);
	assert_false(fault);
	return m;
}

TEST(test_many)
{
	unsigned int before = open_files(), drops = 0;
	struct modules_stats stats;
	struct text self = read_self();
	struct module *first;
	struct copy kept, c;
	struct modules *ms;
	struct intern *in = intern_new(1 << 20);

	assert_int_equal(modules_new(in, &ms), 0);
	copy_map(&kept, &self);
	first = get(ms, &kept);
	for (int i = 0; i < MANY; i++) {
		if (modules_many(ms)) {
			modules_use(first);
			modules_drop_unused(ms);
			drops++;
		}
		copy_map(&c, &self);
		get(ms, &c);
		copy_unmap(&c);
	}
	assert_true(drops > 1);
	assert_true(open_files() < before + OPEN_MAX_MORE);
	/* one that was in use is still known */
	assert_ptr_equal(get(ms, &kept), first);
	modules_stats(ms, &stats);
	assert_int_equal(stats.failed, 0);
	assert_int_equal(stats.files, MANY + 1);
	copy_unmap(&kept);
	modules_free(ms);
	intern_free(in);
	free(self.data);
}

RUN_TESTS(NULL, NULL)
