// SPDX-License-Identifier: BSD-2-Clause
/* The ELF reader, against files of this system (compared with the dynamic linker) and a small image with every field forgeable. */
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>

#include "elf_image.h"
#include "target/elf.h"
#include "target/file.h"

/* ---- files of this system ---- */

struct libc {
	struct elf_file *elf;
	void *handle; /* asked by name: dlsym(RTLD_DEFAULT) finds the sanitizer's functions first */
	uintptr_t base;
};

static struct libc open_libc(void)
{
	struct libc libc = { .handle = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD) };
	Dl_info info;

	assert_non_null(libc.handle);
	assert_int_not_equal(dladdr(dlsym(libc.handle, "getppid"), &info), 0);
	assert_int_equal(elf_open(info.dli_fname, &libc.elf), 0);
	libc.base = (uintptr_t)info.dli_fbase;
	return libc;
}

static void close_libc(struct libc *libc)
{
	elf_close(libc->elf);
	dlclose(libc->handle);
}

TEST(test_libc_functions)
{
	/* pthread_cond_wait has an older version too; dlsym() gives the default one */
	static const char *const names[] = { "malloc", "getppid", "pthread_cond_wait", "qsort" };
	struct libc libc = open_libc();

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct elf_symbol sym;
		uint8_t code[8];

		assert_int_equal(elf_find_symbol(libc.elf, names[i], &sym), 0);
		assert_string_equal(sym.name, names[i]);
		assert_ptr_equal(libc.base + sym.vaddr, dlsym(libc.handle, names[i]));
		assert_true(sym.size > 0);
		assert_int_equal(elf_read_at_offset(libc.elf, sym.offset, code, sizeof(code)), 0);
		assert_memory_equal(code, libc.base + sym.vaddr, sizeof(code));
	}
	close_libc(&libc);
}

static int remember_symbol(const struct elf_symbol *sym, void *arg)
{
	struct elf_symbol *last = arg;

	assert_true(sym->offset > last->offset);
	*last = *sym;
	return 0;
}

TEST(test_libc_glob)
{
	struct elf_symbol last = { 0 }, sym;
	struct libc libc = open_libc();

	assert_true(elf_match_symbols(libc.elf, "*", remember_symbol, &last) > 1000);
	last = (struct elf_symbol){ 0 };
	assert_int_equal(elf_match_symbols(libc.elf, "getppi[d]", remember_symbol, &last), 1);
	assert_int_equal(elf_find_symbol(libc.elf, "getppid", &sym), 0);
	assert_memory_equal(&last, &sym, sizeof(sym));
	assert_int_equal(elf_match_symbols(libc.elf, "no_such_*", remember_symbol, &last), 0);
	close_libc(&libc);
}

TEST(test_libc_nearest)
{
	const char *out[3];
	struct libc libc = open_libc();

	assert_true(elf_nearest_symbols(libc.elf, "pthread_cond_wayt", out, 3) >= 1);
	assert_string_equal(out[0], "pthread_cond_wait");
	assert_int_equal(elf_nearest_symbols(libc.elf, "zzzzzzzzzqqqqqqqqqq", out, 3), 0);
	assert_int_equal(elf_nearest_symbols(libc.elf, "", out, 3), 0);
	close_libc(&libc);
}

/* The build-id as the loader mapped it, not from a section. */
static int find_loaded_build_id(struct dl_phdr_info *info, size_t size, void *arg)
{
	char *hex = arg;

	if (info->dlpi_name[0]) /* not the executable */
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		const char *p = (const char *)info->dlpi_addr + ph->p_vaddr;
		const ElfW(Nhdr) *nh = (const void *)p;

		if (ph->p_type != PT_NOTE || nh->n_type != NT_GNU_BUILD_ID)
			continue;
		for (unsigned int k = 0; k < nh->n_descsz; k++)
			sprintf(hex + 2 * k, "%02x", (uint8_t)p[sizeof(*nh) + 4 + k]);
		return 1;
	}
	return 1;
}

TEST(test_self)
{
	char hex[ELF_BUILD_ID_MAX] = "", loaded[ELF_BUILD_ID_MAX] = "";
	struct elf_file *elf;
	struct elf_symbol sym;
	int fd;

	assert_int_equal(elf_open("/proc/self/exe", &elf), 0);
	/* a static function: only .symtab has it */
	assert_int_equal(elf_find_symbol(elf, "remember_symbol", &sym), 0);
	assert_int_equal(elf_find_symbol(elf, "main", &sym), 0);
	assert_int_equal(elf_find_object(elf, "main", &sym), -ENOENT);
	assert_int_equal(elf_find_symbol(elf, "fopen", &sym), -ENOENT); /* undefined here */
	elf_close(elf);
	dl_iterate_phdr(find_loaded_build_id, loaded);
	fd = open("/proc/self/exe", O_RDONLY);
	assert_int_equal(build_id_read(fd, hex, sizeof(hex)), loaded[0] ? 0 : -ENOENT);
	assert_string_equal(hex, loaded);
	close(fd);
}

TEST(test_not_elf)
{
	struct elf_file *elf;
	char path[] = "/tmp/inftrace-elf-XXXXXX";

	assert_non_null(mkdtemp(path));
	assert_int_equal(elf_open("/nonexistent/lib.so", &elf), -ENOENT);
	assert_int_equal(elf_open(path, &elf), -EISDIR);
	assert_int_equal(elf_open("/dev/null", &elf), -ENOEXEC);
	assert_int_equal(elf_open("/etc/passwd", &elf), -ENOEXEC);
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(elf_open(path, &elf), -ENOEXEC); /* and does not hang */
	unlink(path);
}

/* ---- a forged image ---- */

enum { SH_NULL, SH_SYMTAB, SH_STRTAB, SH_DYNSYM, SH_VERSYM, SH_NOTE, SH_MAX };
enum { PH_TEXT, PH_DATA, PH_NOTE, PH_MAX };

#define TEXT_VADDR 0x401000
#define DATA_VADDR 0x602000
#define N_SYMS 20
#define N_DYNSYMS 4

struct image {
	Elf64_Ehdr eh;
	Elf64_Phdr ph[PH_MAX];
	Elf64_Shdr sh[SH_MAX];
	Elf64_Sym sym[N_SYMS];
	Elf64_Sym dynsym[N_DYNSYMS];
	uint16_t versym[N_DYNSYMS];
	char str[512];
	struct {
		Elf64_Nhdr nh;
		char name[4];
		uint8_t desc[4];
	} note;
	uint8_t text[256];
	uint8_t data[64];
	/* at the end, so that a table can run past it */
	char tail[8];
};

static size_t str_len;

static uint32_t add_string(struct image *im, const char *s)
{
	size_t at = str_len;

	assert_true(at + strlen(s) + 1 <= sizeof(im->str));
	strcpy(im->str + at, s);
	str_len += strlen(s) + 1;
	return (uint32_t)at;
}

static Elf64_Sym symbol(struct image *im, const char *name, int bind, int type, uint16_t shndx,
	uint64_t vaddr, uint64_t size)
{
	return (Elf64_Sym){ .st_name = add_string(im, name),
		.st_info = (unsigned char)ELF64_ST_INFO(bind, type),
		.st_shndx = shndx,
		.st_value = vaddr,
		.st_size = size };
}

static void image_fill(struct image *im)
{
	int n = 1;

	memset(im, 0, sizeof(*im));
	str_len = 1;
	im->eh = elf_header(offsetof(struct image, ph), PH_MAX, offsetof(struct image, sh), SH_MAX, 0);
	im->ph[PH_TEXT] = elf_segment(PT_LOAD, PF_R | PF_X, TEXT_VADDR, offsetof(struct image, text), sizeof(im->text), 0);
	im->ph[PH_DATA] = elf_segment(PT_LOAD, PF_R | PF_W, DATA_VADDR, offsetof(struct image, data), sizeof(im->data), 64);
	im->ph[PH_NOTE] = elf_segment(PT_NOTE, 0, 0, offsetof(struct image, note), sizeof(im->note), 0);
#define SECTION(type, member, link) \
	elf_section(0, type, 0, offsetof(struct image, member), sizeof(im->member), sizeof(im->member[0]), link)
	im->sh[SH_SYMTAB] = SECTION(SHT_SYMTAB, sym, SH_STRTAB);
	im->sh[SH_STRTAB] = SECTION(SHT_STRTAB, str, 0);
	im->sh[SH_DYNSYM] = SECTION(SHT_DYNSYM, dynsym, SH_STRTAB);
	im->sh[SH_VERSYM] = SECTION(SHT_GNU_versym, versym, 0);
	im->sh[SH_NOTE] = elf_section(0, SHT_NOTE, 0, offsetof(struct image, note), sizeof(im->note), 0, 0);
	im->note.nh = (Elf64_Nhdr){ .n_namesz = 4, .n_descsz = 4, .n_type = NT_GNU_BUILD_ID };
	memcpy(im->note.name, "GNU", 4);
	memcpy(im->note.desc, "\xde\xad\xbe\xef", 4);
	for (size_t i = 0; i < sizeof(im->text); i++)
		im->text[i] = (uint8_t)i;

#define SYM(...) im->sym[n++] = symbol(im, __VA_ARGS__)
	SYM("alpha", STB_GLOBAL, STT_FUNC, 1, TEXT_VADDR + 0x10, 8);
	SYM("alpha_alias", STB_WEAK, STT_FUNC, 1, TEXT_VADDR + 0x10, 8);
	SYM("old@V1", STB_GLOBAL, STT_FUNC, 1, TEXT_VADDR + 0x20, 8);
	SYM("old@@V2", STB_GLOBAL, STT_FUNC, 1, TEXT_VADDR + 0x30, 8);
	SYM("twin", STB_LOCAL, STT_FUNC, 1, TEXT_VADDR + 0x40, 8);
	SYM("twin", STB_GLOBAL, STT_FUNC, 1, TEXT_VADDR + 0x50, 8);
	SYM("undefined", STB_GLOBAL, STT_FUNC, SHN_UNDEF, 0, 0);
	SYM("undefined_with_value", STB_GLOBAL, STT_FUNC, SHN_UNDEF, TEXT_VADDR + 0x60, 0);
	SYM("stub@plt", STB_LOCAL, STT_FUNC, 1, TEXT_VADDR + 0x60, 8);
	SYM("absolute", STB_GLOBAL, STT_FUNC, SHN_ABS, TEXT_VADDR + 0x60, 8);
	SYM("zero", STB_GLOBAL, STT_FUNC, 1, 0, 8);
	SYM("in_data", STB_GLOBAL, STT_FUNC, 1, DATA_VADDR, 8);
	SYM("outside", STB_GLOBAL, STT_FUNC, 1, TEXT_VADDR + sizeof(im->text), 8);
	SYM("alpha.cold", STB_LOCAL, STT_FUNC, 1, TEXT_VADDR + 0x70, 8);
	SYM("table", STB_GLOBAL, STT_OBJECT, 1, DATA_VADDR + 8, 16);
	SYM("zeroed", STB_GLOBAL, STT_OBJECT, 1, DATA_VADDR + sizeof(im->data) + 8, 16);
	SYM("last", STB_GLOBAL, STT_FUNC, 1, TEXT_VADDR + sizeof(im->text) - 1, 1);
	SYM("indirect", STB_GLOBAL, STT_GNU_IFUNC, 1, TEXT_VADDR + 0x80, 8);
	assert_true(n <= N_SYMS);
	im->dynsym[1] = symbol(im, "dynamic", STB_GLOBAL, STT_FUNC, 1, TEXT_VADDR + 0x90, 8);
	im->dynsym[2] = symbol(im, "dynamic", STB_GLOBAL, STT_FUNC, 1, TEXT_VADDR + 0xa0, 8);
	im->dynsym[3] = symbol(im, "alpha", STB_GLOBAL, STT_FUNC, 1, TEXT_VADDR + 0x10, 8);
	im->versym[1] = 0x8002; /* hidden: an older version */
	im->versym[2] = 3;
}

static int open_bytes(const void *bytes, size_t len, struct elf_file **ret_elf)
{
	return elf_open_fd(file_of(bytes, len), ret_elf);
}

static int build_id_of(const struct image *im, size_t len, char *hex, size_t size)
{
	int fd = file_of(im, len), err = build_id_read(fd, hex, size);

	close(fd);
	return err;
}

static struct elf_file *open_image(const struct image *im)
{
	struct elf_file *elf = NULL;

	assert_int_equal(open_bytes(im, sizeof(*im), &elf), 0);
	return elf;
}

static struct elf_file *open_good(struct image *im)
{
	image_fill(im);
	return open_image(im);
}

static void assert_found(struct elf_file *elf, const char *name, uint64_t text_offset)
{
	struct elf_symbol sym;
	uint8_t byte;

	assert_int_equal(elf_find_symbol(elf, name, &sym), 0);
	assert_int_equal(sym.vaddr, TEXT_VADDR + text_offset);
	assert_int_equal(sym.offset, offsetof(struct image, text) + text_offset);
	assert_int_equal(elf_read_at_offset(elf, sym.offset, &byte, 1), 0);
	assert_int_equal(byte, text_offset);
}

TEST(test_image_lookup)
{
	static const char *const absent[] = { "undefined", "undefined_with_value", "stub",
		"stub@plt", "absolute", "zero", "in_data", "outside", "alpha.cold", "table",
		"indirect", "alph", "alphaa", "", "@", "alpha@plt" };
	struct elf_symbol sym;
	struct elf_file *elf;
	struct image im;
	uint64_t offset;
	char hex[9];

	elf = open_good(&im);
	assert_int_equal(elf_machine(elf), EM_X86_64);
	assert_found(elf, "alpha", 0x10);
	assert_found(elf, "alpha@V9", 0x10);
	assert_found(elf, "alpha_alias", 0x10);
	assert_found(elf, "old", 0x30);
	assert_found(elf, "twin", 0x50);
	assert_found(elf, "last", sizeof(im.text) - 1);
	assert_found(elf, "dynamic", 0xa0);
	for (size_t i = 0; i < ARRAY_SIZE(absent); i++)
		assert_int_equal(elf_find_symbol(elf, absent[i], &sym), -ENOENT);

	assert_int_equal(elf_find_object(elf, "table", &sym), 0);
	assert_int_equal(sym.offset, offsetof(struct image, data) + 8);
	assert_int_equal(sym.size, 16);
	assert_int_equal(elf_find_object(elf, "zeroed", &sym), 0);
	assert_int_equal(sym.offset, 0);
	assert_int_equal(elf_find_object(elf, "alpha", &sym), -ENOENT);

	assert_int_equal(elf_vaddr_to_offset(elf, DATA_VADDR + 63, &offset), 0);
	assert_int_equal(offset, offsetof(struct image, data) + 63);
	assert_int_equal(elf_vaddr_to_offset(elf, DATA_VADDR + 64, &offset), -ENXIO);
	assert_int_equal(elf_vaddr_to_offset(elf, 0, &offset), -ENXIO);
	assert_int_equal(elf_vaddr_to_offset(elf, UINT64_MAX, &offset), -ENXIO);

	assert_int_equal(build_id_of(&im, sizeof(im), hex, sizeof(hex)), 0);
	assert_string_equal(hex, "deadbeef");
	assert_int_equal(build_id_of(&im, sizeof(im), hex, sizeof(hex) - 1), -ENOSPC);

	assert_int_equal(elf_read_at_offset(elf, sizeof(im) - 4, hex, 4), 0);
	assert_int_equal(elf_read_at_offset(elf, sizeof(im) - 4, hex, 5), -ENODATA);
	assert_int_equal(elf_read_at_offset(elf, UINT64_MAX, hex, 5), -ENODATA);
	elf_close(elf);
}

struct names {
	char text[256];
	int stop_at;
};

static int collect_name(const struct elf_symbol *sym, void *arg)
{
	struct names *names = arg;

	strcat(names->text, sym->name);
	strcat(names->text, " ");
	return --names->stop_at == 0 ? -ECANCELED : 0;
}

TEST(test_image_glob)
{
	struct names names = { "", 0 };
	struct elf_file *elf;
	struct image im;

	elf = open_good(&im);
	/* aliases once, by the stronger name; copies in .dynsym not again; by offset */
	assert_int_equal(elf_match_symbols(elf, "*", collect_name, &names), 8);
	assert_string_equal(names.text, "alpha old old twin twin dynamic dynamic last ");
	names = (struct names){ "", 0 };
	assert_int_equal(elf_match_symbols(elf, "alpha_*", collect_name, &names), 1);
	assert_string_equal(names.text, "alpha_alias ");
	names = (struct names){ "", 2 };
	assert_int_equal(elf_match_symbols(elf, "[ot]*", collect_name, &names), -ECANCELED);
	assert_string_equal(names.text, "old old ");
	elf_close(elf);
}

TEST(test_image_nearest)
{
	const char *out[4];
	struct elf_file *elf;
	struct image im;

	elf = open_good(&im);
	assert_int_equal(elf_nearest_symbols(elf, "alhpa", out, 4), 0); /* two edits of five */
	assert_int_equal(elf_nearest_symbols(elf, "aplha_alias", out, 4), 1);
	assert_string_equal(out[0], "alpha_alias");
	/* each name once, although two symbols have it; parts of names; the nearer first */
	assert_int_equal(elf_nearest_symbols(elf, "namic", out, 4), 1);
	assert_string_equal(out[0], "dynamic");
	assert_int_equal(elf_nearest_symbols(elf, "alpho", out, 4), 1);
	assert_int_equal(elf_nearest_symbols(elf, "alph", out, 4), 2);
	assert_string_equal(out[0], "alpha");
	assert_string_equal(out[1], "alpha_alias");
	assert_int_equal(elf_nearest_symbols(elf, "alph", out, 1), 1);
	assert_string_equal(out[0], "alpha");
	elf_close(elf);
}

TEST(test_many_symbols)
{
	enum { N = 100000, STR = 16 };
	size_t syms_size = (N + 1) * sizeof(Elf64_Sym), size;
	struct image *im;
	struct elf_file *elf;
	struct elf_symbol found;
	Elf64_Sym *syms;
	char *strings, name[STR];

	size = sizeof(*im) + syms_size + (size_t)N * STR;
	im = calloc(1, size);
	assert_non_null(im);
	image_fill(im);
	syms = (void *)(im + 1);
	strings = (char *)(im + 1) + syms_size;
	im->sh[SH_SYMTAB].sh_offset = sizeof(*im);
	im->sh[SH_SYMTAB].sh_size = syms_size;
	im->sh[SH_STRTAB].sh_offset = sizeof(*im) + syms_size;
	im->sh[SH_STRTAB].sh_size = (uint64_t)N * STR;
	im->sh[SH_DYNSYM].sh_type = SHT_NULL;
	im->ph[PH_TEXT].p_filesz = im->ph[PH_TEXT].p_memsz = size - im->ph[PH_TEXT].p_offset;
	for (uint32_t i = 0; i < N; i++) {
		sprintf(strings + i * STR, "fn_%u", i * 7919 % N);
		syms[i + 1] = (Elf64_Sym){ .st_name = i * STR,
			.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
			.st_shndx = 1,
			.st_value = TEXT_VADDR + 16 + i };
	}
	assert_int_equal(open_bytes(im, size, &elf), 0);
	for (uint32_t i = 0; i < N; i++) {
		sprintf(name, "fn_%u", i * 7919 % N);
		assert_int_equal(elf_find_symbol(elf, name, &found), 0);
		assert_int_equal(found.vaddr, TEXT_VADDR + 16 + i);
	}
	assert_int_equal(elf_find_symbol(elf, "fn_100000", &found), -ENOENT);
	elf_close(elf);
	free(im);
}

/* ---- hostile images ---- */

static int stop_never(const struct elf_symbol *sym, void *arg)
{
	*(size_t *)arg += strlen(sym->name);
	return 0;
}

/* Whatever the file is, each call returns, and its results can be used. */
static void use_all(struct elf_file *elf)
{
	static const char *const names[] = { "alpha", "old", "table", "nope", "dynamic" };
	struct elf_symbol sym;
	const char *out[4];
	uint8_t code[32];
	size_t sum = 0;
	int n;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (!elf_find_symbol(elf, names[i], &sym)) {
			assert_string_equal(sym.name, names[i]);
			elf_read_at_offset(elf, sym.offset, code, sizeof(code));
		}
		if (!elf_find_object(elf, names[i], &sym))
			assert_string_equal(sym.name, names[i]);
	}
	elf_match_symbols(elf, "*a*", stop_never, &sum);
	n = elf_nearest_symbols(elf, "alpho", out, 4);
	for (int i = 0; i < n; i++)
		assert_true(strlen(out[i]) > 0);
}

static void use_build_id(const struct image *im, size_t len)
{
	char hex[ELF_BUILD_ID_MAX];

	if (!build_id_of(im, len, hex, sizeof(hex)))
		assert_true(strlen(hex) > 0);
}

TEST(test_header_errors)
{
	struct image good, im;
	struct elf_file *elf;

	image_fill(&good);
#define EXPECT(error, change)                                               \
	do {                                                                \
		im = good;                                                  \
		change;                                                     \
		assert_int_equal(open_bytes(&im, sizeof(im), &elf), error); \
	} while (0)
	EXPECT(-ENOEXEC, im.eh.e_ident[0] = 'E');
	EXPECT(-EOPNOTSUPP, im.eh.e_ident[EI_CLASS] = ELFCLASS32);
	EXPECT(-EOPNOTSUPP, im.eh.e_ident[EI_DATA] = ELFDATA2MSB);
	EXPECT(-EOPNOTSUPP, im.eh.e_machine = EM_386);
	EXPECT(-EOPNOTSUPP, im.eh.e_type = ET_REL);
	EXPECT(-EOPNOTSUPP, im.eh.e_type = ET_CORE);
	EXPECT(-EBADMSG, im.eh.e_shoff = sizeof(im));
	EXPECT(-EBADMSG, im.eh.e_shoff = UINT64_MAX - 8);
	EXPECT(-EBADMSG, im.eh.e_shentsize = 1);
	EXPECT(-EBADMSG, im.eh.e_shnum = 60000);
	EXPECT(-EBADMSG, (im.eh.e_shnum = 0, im.sh[0].sh_size = UINT64_MAX));
	EXPECT(-EBADMSG, (im.eh.e_shnum = 0, im.sh[0].sh_size = 1 << 16));
	EXPECT(-EBADMSG, im.ph[PH_TEXT].p_filesz = sizeof(im));
	EXPECT(-EBADMSG, im.ph[PH_TEXT].p_offset = UINT64_MAX - 4);
#undef EXPECT
}

TEST(test_table_errors)
{
	struct image good, im;
	struct elf_symbol sym;
	struct elf_file *elf;
	size_t sum = 0;
	const char *out[2];

	image_fill(&good);
#define EXPECT(error, change)                                                                   \
	do {                                                                                    \
		im = good;                                                                      \
		change;                                                                         \
		elf = open_image(&im);                                                          \
		assert_int_equal(elf_find_symbol(elf, "alpha", &sym), error);                   \
		if (error == -EBADMSG) {                                                        \
			assert_int_equal(elf_match_symbols(elf, "*", stop_never, &sum), error); \
			assert_int_equal(elf_nearest_symbols(elf, "a", out, 2), error);         \
		}                                                                               \
		use_all(elf);                                                                   \
		elf_close(elf);                                                                 \
	} while (0)
	EXPECT(-EBADMSG, im.sh[SH_SYMTAB].sh_offset = sizeof(im) - 8);
	EXPECT(-EBADMSG, im.sh[SH_SYMTAB].sh_offset = UINT64_MAX);
	EXPECT(-EBADMSG, im.sh[SH_SYMTAB].sh_size = UINT64_MAX);
	EXPECT(-EBADMSG, im.sh[SH_SYMTAB].sh_size = 1 << 20);
	EXPECT(-EBADMSG, im.sh[SH_SYMTAB].sh_entsize = 0);
	EXPECT(-EBADMSG, im.sh[SH_SYMTAB].sh_link = 99);
	EXPECT(-EBADMSG, im.sh[SH_SYMTAB].sh_link = SH_NOTE);
	EXPECT(-EBADMSG, im.sh[SH_STRTAB].sh_size = UINT64_MAX);
	EXPECT(-EBADMSG, im.sh[SH_STRTAB].sh_size = 1 << 20);
	EXPECT(-EBADMSG, im.sh[SH_STRTAB].sh_offset = UINT64_MAX);
	/* overlapping tables are odd, not dangerous */
	EXPECT(0, im.sh[SH_DYNSYM].sh_offset = im.sh[SH_STRTAB].sh_offset);
	EXPECT(0, im.sh[SH_VERSYM].sh_offset = UINT64_MAX);
	EXPECT(-ENOENT, im.sh[SH_STRTAB].sh_size = 0);
	EXPECT(-ENOENT, (im.sym[1].st_name = UINT32_MAX, im.dynsym[3].st_name = UINT32_MAX));
	EXPECT(-ENOENT, (im.sym[1].st_value = UINT64_MAX, im.dynsym[3].st_value = UINT64_MAX));
	EXPECT(-ENOENT, (im.ph[PH_TEXT].p_vaddr = UINT64_MAX - 0x20));
	EXPECT(-ENOENT, im.eh.e_phnum = 0);
	EXPECT(-ENOENT, im.eh.e_shoff = 0);
#undef EXPECT
	/* a name without a NUL before the table's end */
	im = good;
	im.sh[SH_STRTAB].sh_size = im.sym[1].st_name + 3;
	elf = open_image(&im);
	assert_found(elf, "alp", 0x10);
	elf_close(elf);
}

/* Many symbols that share one long name would make small files expensive. */
TEST(test_shared_names)
{
	enum { N = 10000, STR = 4000 };
	size_t size = sizeof(struct image) + N * sizeof(Elf64_Sym) + STR;
	struct elf_file *elf;
	struct elf_symbol sym;
	struct image *im;
	Elf64_Sym *syms;
	char *strings;

	im = calloc(1, size);
	assert_non_null(im);
	image_fill(im);
	syms = (void *)(im + 1);
	strings = (char *)(syms + N);
	memset(strings, 'a', STR - 1);
	im->sh[SH_SYMTAB].sh_offset = sizeof(*im);
	im->sh[SH_SYMTAB].sh_size = N * sizeof(Elf64_Sym);
	im->sh[SH_STRTAB].sh_offset = size - STR;
	im->sh[SH_STRTAB].sh_size = STR;
	for (int i = 0; i < N; i++)
		syms[i] = im->sym[1];
	assert_int_equal(open_bytes(im, size, &elf), 0);
	assert_int_equal(elf_find_symbol(elf, "alpha", &sym), -EBADMSG);
	assert_int_equal(elf_find_symbol(elf, "alpha", &sym), -EBADMSG);
	use_all(elf);
	elf_close(elf);
	free(im);
}

TEST(test_note_errors)
{
	struct image good, im;
	char hex[ELF_BUILD_ID_MAX];

	image_fill(&good);
#define EXPECT(error, change)                                                            \
	do {                                                                             \
		im = good;                                                               \
		change;                                                                  \
		assert_int_equal(build_id_of(&im, sizeof(im), hex, sizeof(hex)), error); \
	} while (0)
	EXPECT(0, im.ph[PH_NOTE].p_offset = UINT64_MAX); /* the section still has it */
	EXPECT(0, im.eh.e_shoff = 0);                    /* the segment still has it */
	EXPECT(-ENOENT, im.note.nh.n_descsz = 0);
	EXPECT(-ENOENT, im.note.nh.n_descsz = 1000);
	EXPECT(-ENOENT, im.note.nh.n_descsz = UINT32_MAX);
	EXPECT(-ENOENT, im.note.nh.n_namesz = UINT32_MAX);
	EXPECT(-ENOENT, im.note.nh.n_namesz = 0);
	EXPECT(-ENOENT, im.note.name[0] = 'X');
	/* what is there is read, and no more */
	EXPECT(0, (im.ph[PH_NOTE].p_filesz = UINT64_MAX, im.sh[SH_NOTE].sh_size = UINT64_MAX));
	EXPECT(-ENOENT, (im.ph[PH_NOTE].p_filesz = 4, im.sh[SH_NOTE].sh_size = 15));
#undef EXPECT
}

/* Cut at every length, and every header byte set to nasty values. */
TEST(test_cut_and_flipped)
{
	static const uint8_t values[] = { 0x00, 0x01, 0x7f, 0x80, 0xff };
	struct image good, im;
	struct elf_file *elf;
	size_t opened = 0;

	image_fill(&good);
	for (size_t len = 0; len < sizeof(good); len++) {
		use_build_id(&good, len);
		if (open_bytes(&good, len, &elf))
			continue;
		use_all(elf);
		elf_close(elf);
		opened++;
	}
	assert_true(opened < sizeof(good));
	for (size_t at = 0; at < offsetof(struct image, str); at++) {
		for (size_t v = 0; v < ARRAY_SIZE(values); v++) {
			im = good;
			((uint8_t *)&im)[at] = values[v];
			use_build_id(&im, sizeof(im));
			if (open_bytes(&im, sizeof(im), &elf))
				continue;
			use_all(elf);
			elf_close(elf);
		}
	}
}

RUN_TESTS(NULL, NULL)
