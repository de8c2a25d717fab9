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
#include "fuzz.h"

#include "engine/engine.h"
#include "engine/spec.h"
#include "target/usdt.h"
#include "util/log.h"

static unsigned int lines;

/* Replaces util/log.c: every error is reported once, in one printable line. */
static void check_message(const char *fmt, va_list ap)
{
	char text[4096];
	int n = vsnprintf(text, sizeof(text), fmt, ap);

	REQUIRE(n >= 0 && n < (int)sizeof(text));
	check_line(text);
}

void log_error(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	check_message(fmt, ap);
	va_end(ap);
	lines++;
}

/* A C++ function in an option. */
void log_warn(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	check_message(fmt, ap);
	va_end(ap);
}

/* Checks what the sinks and the BPF side rely on. */
static void check_spec(const struct probe_spec *s)
{
	static const uint64_t vals[] = { 0, 1, 2, 100, UINT32_MAX, INT64_MAX, UINT64_MAX };
	struct probe p;

	REQUIRE(spec_text_ok(s->symbol, SPEC_STRING_MAX) && s->nargs <= FUNC_VALS_MAX && s->role < ROLE_MAX);
	for (unsigned int i = 0; i < s->nargs; i++) {
		const struct fetch *f = &s->fetch[i];
		unsigned int reg = f->reg & ~(s->is_usdt ? FETCH_USDT_ARG : 0);

		REQUIRE(spec_text_ok(s->args[i].name, SPEC_NAME_MAX) && reg < (s->is_usdt ? USDT_ARGS_MAX : REG_MAX));
		REQUIRE(f->derefs <= FETCH_DEREFS_MAX && !(f->size & (f->size - 1)) && f->size && f->size <= 8);
	}
	for (size_t i = 0; i < LENGTH(vals); i++) {
		uint64_t v[FUNC_VALS_MAX] = { vals[i], vals[i], vals[i], vals[i], vals[i], vals[i] };

		REQUIRE(spec_text_ok(probe_spec_name(s, v), SPEC_STRING_MAX));
	}
	probe_spec_encode(s, &p);
	probe_spec_matches(s, "/usr/lib/libllama.so.1 (deleted)");
}

static int add_option(struct probe_table *pt, const uint8_t *data, size_t size)
{
	char *option = strndup((const char *)data, size);
	int err;

	REQUIRE(option);
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
		err = engine_load(&pt, path_of(data, size));
	REQUIRE(lines == !!err);
	for (size_t i = 0, n = pt.n, id; i < n && !err; i++) {
		check_spec(&pt.specs[i]);
		/* a glob meets a file whose symbols are as hostile */
		if (pt.specs[i].is_glob && !probe_table_match(&pt, i, "_ZN2at3add\x1b" "Ev", false, &(struct tensor_args){}, &id))
			REQUIRE(spec_text_ok(probe_spec_name(&pt.specs[id], (uint64_t[FUNC_VALS_MAX]){}), SPEC_STRING_MAX));
	}
	probe_table_free(&pt);
	return 0;
}
