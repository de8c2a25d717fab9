// SPDX-License-Identifier: BSD-2-Clause
/*
 * libFuzzer target: any bytes as the ELF file of a library to be probed.
 *
 *   clang -g -O1 -fsanitize=fuzzer,address,undefined -D_GNU_SOURCE -Isrc \
 *         tests/fuzz/fuzz_elf.c src/target/elf.c -lelf -o fuzz_elf
 *   mkdir -p corpus && cc -shared -o corpus/seed.so -x c /dev/null
 *   ./fuzz_elf -max_total_time=120 corpus
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "target/elf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Names that compilers put into every shared object, so that lookups hit too. */
static const char *const names[] = { "deregister_tm_clones", "_init", "completed.0", "frame_dummy",
	"no_such_name", "main@@V1" };

/* Read what the callback gets, for the sanitizer's sake. */
static int read_symbol(const struct elf_symbol *sym, void *arg)
{
	*(size_t *)arg += strlen(sym->name) + (sym->offset == 0);
	if (!sym->offset)
		abort(); /* a function at offset 0 must never match */
	return 0;
}

static void use(struct elf_file *elf)
{
	char hex[ELF_BUILD_ID_MAX];
	const char *out[5];
	size_t sum = 0;
	int n;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct elf_symbol sym;
		uint8_t code[16];

		if (!elf_find_symbol(elf, names[i], &sym)) {
			read_symbol(&sym, &sum);
			elf_read_at_offset(elf, sym.offset, code, sizeof(code));
		}
		if (!elf_find_object(elf, names[i], &sym))
			sum += strlen(sym.name);
	}
	elf_match_symbols(elf, "*_*", read_symbol, &sum);
	n = elf_nearest_symbols(elf, "frame_dumy", out, 5);
	for (int i = 0; i < n; i++)
		sum += strlen(out[i]);
	if (!elf_build_id(elf, hex, sizeof(hex)))
		sum += strlen(hex);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int fd = -1;
	struct elf_file *elf;
	char path[64];

	if (fd < 0)
		fd = memfd_create("fuzz_elf", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, 0) || pwrite(fd, data, size, 0) != (ssize_t)size)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (elf_open(path, &elf))
		return 0;
	use(elf);
	elf_close(elf);
	return 0;
}
