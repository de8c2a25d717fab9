// SPDX-License-Identifier: BSD-2-Clause
/* Parts of a function that the compiler has moved away from it, in this program itself. */
#include <elf.h>
#include <fcntl.h>
#include <gelf.h>

#include "stack/lookup.h"
#include "unit.h"

/* Two ways to where it seldom goes, so that one of them leads into the middle of its other part. */
__attribute__((noinline, cold)) static void complain(int x)
{
	(void)!write(2, &x, x < 0 ? sizeof(x) : 0);
}

__attribute__((noinline)) int parted(int x, volatile int *p);
__attribute__((noinline)) int parted(int x, volatile int *p)
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
		return 0; /* compiled without optimization */
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

TEST(test_parts)
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

TEST(test_no_code)
{
	struct image *im = *state;
	uint64_t starts[COLD_MAX];

	assert_int_equal(cold_parts(im->elf, 0, UINT64_MAX / 2, 100, starts), 0);
	assert_int_equal(cold_parts(im->elf, 0, 0, 0, starts), 0);
	assert_int_equal(cold_parts(im->elf, 0, 0, SIZE_MAX, starts), 0);
}

RUN_TESTS(open_image, close_image)
