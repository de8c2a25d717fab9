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
#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/engine.h"
#include "target/usdt.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const exprs[] = { "s8 arg1", "u32 arg2", "f32 arg3", "f64 arg1", "str arg2",
	"str *(*(*(arg1+8)))", "ptr *(arg12-8)", "s64 *(*(*(arg1+8)-8)+0x7fffffff)" };

/* Checks what the BPF side relies on. */
static void check_place(const struct usdt_note *note)
{
	for (size_t i = 0; i < sizeof(exprs) / sizeof(exprs[0]); i++) {
		struct fetch f, placed;
		struct probe_arg arg;
		const char *why;

		if (fetch_parse(exprs[i], NULL, 0, true, &f, &arg, &why))
			abort();
		if (fetch_place(&f, &arg, note, &placed, &why)) {
			if (!why || !*why)
				abort();
			continue;
		}
		if ((placed.reg >= REG_PLACES_MAX && placed.reg != REG_NONE) ||
			placed.index > REG_PLACES_MAX || placed.derefs > FETCH_DEREFS_MAX ||
			placed.shift > 3 || !placed.size || placed.size > 8 ||
			placed.size & (placed.size - 1))
			abort();
	}
}

static int on_note(const struct usdt_note *note, void *arg)
{
	size_t len = strlen(note->name);
	unsigned int *left = arg;

	if (len > USDT_NAME_MAX || !strchr(note->name, ':') || note->n_args > USDT_ARGS_MAX)
		abort();
	check_place(note);
	return !--*left;
}

static void fuzz_file(const uint8_t *data, size_t size)
{
	static int fd = -1;
	struct elf_file *elf;
	unsigned int left = 1000;
	char path[64];

	if (fd < 0)
		fd = memfd_create("fuzz_usdt", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, 0) || pwrite(fd, data, size, 0) != (ssize_t)size)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (elf_open(path, &elf))
		return;
	usdt_each(elf, "*", on_note, &left);
	elf_close(elf);
}

static void fuzz_args(int machine, const uint8_t *data, size_t size)
{
	struct usdt_note note = { .name = "p:n" };
	char *text = strndup((const char *)data, size);

	if (!text)
		abort();
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
