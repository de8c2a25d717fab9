// SPDX-License-Identifier: BSD-2-Clause
/*
 * libFuzzer target: any bytes as an ELF file with notes of USDT probes or, after an 'x' or an 'a',
 * as the argument string of one on x86_64 or arm64.
 *
 *   clang -g -O1 -fsanitize=fuzzer,address,undefined -D_GNU_SOURCE -Isrc tests/fuzz/fuzz_usdt.c \
 *         src/target/usdt.c src/target/elf.c src/engine/fetch.c -lelf -o fuzz_usdt
 *   mkdir -p corpus && cp build/probed/sdt_pie corpus && printf 'x-4@sym+4(%%rip)
 * 8@8(%%rbp,%%rax,8)' >corpus/x
 *   ./fuzz_usdt -max_total_time=120 -max_len=65536 corpus
 */
#include "fuzz.h"

#include <elf.h>

#include "engine/spec.h"
#include "target/usdt.h"

static const char *const exprs[] = { "s8 arg1", "u32 arg2", "f32 arg3", "f64 arg1", "str arg2",
	"str *(*(*(arg1+8)))", "ptr *(arg12-8)", "s64 *(*(*(arg1+8)-8)+0x7fffffff)" };

/* Checks what the BPF side relies on. */
static void check_place(const struct usdt_note *note)
{
	for (size_t i = 0; i < LENGTH(exprs); i++) {
		struct fetch f, placed;
		struct probe_arg arg;
		const char *why;

		REQUIRE(!fetch_parse(exprs[i], NULL, 0, true, &f, &arg, &why));
		if (fetch_place(&f, &arg, note, &placed, &why)) {
			REQUIRE(why && *why);
			continue;
		}
		REQUIRE((placed.reg < REG_PLACES_MAX || placed.reg == REG_NONE) && placed.index <= REG_PLACES_MAX);
		REQUIRE(placed.derefs <= FETCH_DEREFS_MAX && placed.shift <= 3);
		REQUIRE(placed.size && placed.size <= 8 && !(placed.size & (placed.size - 1)));
	}
}

static int on_note(const struct usdt_note *note, void *arg)
{
	size_t len = strlen(note->name);
	unsigned int *left = arg;

	REQUIRE(len <= USDT_NAME_MAX && strchr(note->name, ':') && note->n_args <= USDT_ARGS_MAX);
	check_place(note);
	return !--*left;
}

static void fuzz_file(const uint8_t *data, size_t size)
{
	struct elf_file *elf;
	unsigned int left = 1000;

	if (elf_open(path_of(data, size), &elf))
		return;
	usdt_each(elf, "*", on_note, &left);
	elf_close(elf);
}

static void fuzz_args(int machine, const uint8_t *data, size_t size)
{
	struct usdt_note note = { .name = "p:n" };
	char *text = strndup((const char *)data, size);

	REQUIRE(text);
	note.n_args = usdt_parse_args(NULL, machine, 0x1000, text, note.args);
	check_place(&note);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size && *data == 'x')
		fuzz_args(EM_X86_64, data + 1, size - 1);
	else if (size && *data == 'a')
		fuzz_args(EM_AARCH64, data + 1, size - 1);
	else
		fuzz_file(data, size);
	return 0;
}
