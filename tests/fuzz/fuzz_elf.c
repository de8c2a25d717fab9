// SPDX-License-Identifier: BSD-2-Clause
/*
 * libFuzzer target: any bytes as the ELF file of a library to be probed.
 *
 *   clang -g -O1 -fsanitize=fuzzer,address,undefined -D_GNU_SOURCE -Isrc \
 *         tests/fuzz/fuzz_elf.c src/target/elf.c -lelf -o fuzz_elf
 *   mkdir -p corpus && cc -shared -o corpus/seed.so -x c /dev/null
 *   ./fuzz_elf -max_total_time=120 corpus
 */
#include "fuzz.h"

#include "target/elf.h"

/* Names that compilers put into every shared object, so that lookups hit too. */
static const char *const names[] = { "deregister_tm_clones", "_init", "completed.0", "frame_dummy",
	"no_such_name", "main@@V1" };

/* Read what the callback gets, for the sanitizer's sake. */
static int read_symbol(const struct elf_symbol *sym, void *arg)
{
	*(size_t *)arg += strlen(sym->name) + (sym->offset == 0);
	REQUIRE(sym->offset); /* a function at offset 0 must never match */
	return 0;
}

static void use(struct elf_file *elf)
{
	char hex[ELF_BUILD_ID_MAX];
	const char *out[5];
	size_t sum = 0;
	int n;

	for (size_t i = 0; i < LENGTH(names); i++) {
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
	struct elf_file *elf;

	if (elf_open(path_of(data, size), &elf))
		return 0;
	use(elf);
	elf_close(elf);
	return 0;
}
