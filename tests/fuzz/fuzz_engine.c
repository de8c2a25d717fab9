// SPDX-License-Identifier: BSD-2-Clause
/*
 * libFuzzer target: any bytes as a preset, and, when they start with '-', as a -u option.
 *
 *   clang -g -O1 -std=gnu11 -D_GNU_SOURCE -DENGINES_DIR='""' -Isrc \
 *           -fsanitize=fuzzer,address,undefined tests/fuzz/fuzz_engine.c src/engine/engine.c \
 *           src/engine/spec.c src/engine/fetch.c src/target/elf.c \
 *           src/util/json.c src/util/text.c src/util/parse.c \
 *           -lelf -lz -lcapstone -o fuzz_engine
 *   mkdir -p corpus && cp engines/llama.cpp.json corpus
 *   ./fuzz_engine -max_total_time=120 -dict=tests/fuzz/engine.dict corpus
 */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/engine.h"
#include "engine/spec.h"
#include "target/usdt.h"
#include "util/log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned int lines;

/* Replaces util/log.c: every error is reported once, in one printable line. */
static void check_line(const char *fmt, va_list ap)
{
	char text[4096];
	int n = vsnprintf(text, sizeof(text), fmt, ap);

	if (n < 0 || n >= (int)sizeof(text))
		abort();
	for (int i = 0; i < n; i++) {
		if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
			abort();
	}
}

void log_error(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	check_line(fmt, ap);
	va_end(ap);
	lines++;
}

/* A C++ function in an option. */
void log_warn(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	check_line(fmt, ap);
	va_end(ap);
}

/* Checks what the sinks and the BPF side rely on. */
static void check_spec(const struct probe_spec *s)
{
	static const uint64_t vals[] = { 0, 1, 2, 100, UINT32_MAX, INT64_MAX, UINT64_MAX };
	struct probe p;

	if (!spec_text_ok(s->symbol, SPEC_STRING_MAX) || s->nargs > FUNC_VALS_MAX ||
		s->role >= ROLE_MAX)
		abort();
	for (unsigned int i = 0; i < s->nargs; i++) {
		const struct fetch *f = &s->fetch[i];
		unsigned int reg = f->reg & ~(s->is_usdt ? FETCH_USDT_ARG : 0);

		if (!spec_text_ok(s->args[i].name, SPEC_NAME_MAX) ||
			reg >= (s->is_usdt ? USDT_ARGS_MAX : REG_MAX) ||
			f->derefs > FETCH_DEREFS_MAX || (f->size & (f->size - 1)) || !f->size ||
			f->size > 8)
			abort();
	}
	for (size_t i = 0; i < sizeof(vals) / sizeof(vals[0]); i++) {
		uint64_t v[FUNC_VALS_MAX] = { vals[i], vals[i], vals[i], vals[i], vals[i],
			vals[i] };

		if (!spec_text_ok(probe_spec_name(s, v), SPEC_STRING_MAX))
			abort();
	}
	probe_spec_encode(s, &p);
	probe_spec_matches(s, "/usr/lib/libllama.so.1 (deleted)");
}

static int load_preset(struct probe_table *pt, const uint8_t *data, size_t size)
{
	static int fd = -1;
	char path[64];

	if (fd < 0)
		fd = memfd_create("fuzz_engine", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, 0) || pwrite(fd, data, size, 0) != (ssize_t)size)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return engine_load(pt, path);
}

static int add_option(struct probe_table *pt, const uint8_t *data, size_t size)
{
	char *option = strndup((const char *)data, size);
	int err;

	if (!option)
		abort();
	err = probe_table_add_option(pt, option);
	free(option);
	return err;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct probe_table pt = { .op_detail = size % 2 };
	int err;

	lines = 0;
	if (size && data[0] == '-')
		err = add_option(&pt, data + 1, size - 1);
	else
		err = load_preset(&pt, data, size);
	if (lines != !!err)
		abort();
	for (size_t i = 0, n = pt.n, id; i < n && !err; i++) {
		check_spec(&pt.specs[i]);
		/* a glob meets a file whose symbols are as hostile */
		if (pt.specs[i].is_glob &&
			!probe_table_match(&pt, i,
				"_ZN2at3add\x1b"
				"Ev",
				false, &id) &&
			!spec_text_ok(probe_spec_name(&pt.specs[id], (uint64_t[FUNC_VALS_MAX]){}),
				SPEC_STRING_MAX))
			abort();
	}
	probe_table_free(&pt);
	return 0;
}
