/* SPDX-License-Identifier: BSD-2-Clause */
/* Presets from texts, with ' for ". */
#ifndef INFTRACE_TEST_PRESET_H
#define INFTRACE_TEST_PRESET_H

#include <sys/mman.h>

#include "engine/engine.h"
#include "engine/spec.h"
#include "stderr.h"
#include "unit.h"

static int preset_fd;
static char preset_path[64];
static struct stderr_grab said;
static struct probe_table pt;

static inline int free_table(void **state)
{
	probe_table_free(&pt);
	return 0;
}

/* A test that fills the table. */
#define TABLE_TEST(name) TEST_WITH(name, NULL, free_table)

static inline int make_preset_file(void **state)
{
	preset_fd = memfd_create("preset", MFD_CLOEXEC);
	snprintf(preset_path, sizeof(preset_path), "/proc/self/fd/%d", preset_fd);
	return preset_fd < 0;
}

/* Whatever the input was: one line, fit to print. */
static inline void assert_one_line(const char *text)
{
	size_t len = strlen(text);

	assert_true(len > strlen("inftrace: \n") && text[len - 1] == '\n');
	assert_memory_equal(text, "inftrace: ", 10);
	for (size_t i = 0; i < len - 1; i++) {
		if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
			fail_msg("byte 0x%02x in: %s", text[i], text);
	}
}

/* Loads bytes as a preset into the table. An error has its one line, success has none. */
static inline int load_bytes(const void *text, size_t len)
{
	int err;

	assert_int_equal(ftruncate(preset_fd, 0), 0);
	assert_int_equal(pwrite(preset_fd, text, len, 0), len);
	stderr_grab_begin(&said);
	err = engine_load(&pt, preset_path);
	stderr_grab_end(&said);
	if (err)
		assert_one_line(said.text);
	else
		assert_string_equal(said.text, "");
	return err;
}

static inline size_t put_quotes(char *text)
{
	for (char *p = text; (p = strchr(p, '\''));)
		*p = '"';
	return strlen(text);
}

static inline int load_text(const char *text)
{
	char *copy = test_malloc(strlen(text) + 1);
	int err;

	strcpy(copy, text);
	err = load_bytes(copy, put_quotes(copy));
	test_free(copy);
	return err;
}

/* Returns a text with `n` times `part` in its middle, which the caller frees. */
static inline char *repeat(const char *before, const char *part, size_t n, const char *behind)
{
	char *text = test_malloc(strlen(before) + n * (strlen(part) + 8) + strlen(behind) + 1), *p;

	p = stpcpy(text, before);
	for (size_t i = 0; i < n; i++)
		p += sprintf(p, part, (int)i);
	strcpy(p, behind);
	return text;
}

static inline void load_good(const char *text)
{
	if (load_text(text))
		fail_msg("%s refused: %s", text, said.text);
}

static inline void expect_good(const char *text)
{
	load_good(text);
	probe_table_free(&pt);
}

static inline const struct probe_spec *get(const char *symbol)
{
	for (size_t i = 0; i < pt.n; i++) {
		if (!strcmp(pt.specs[i].symbol, symbol))
			return &pt.specs[i];
	}
	fail_msg("no probe of %s", symbol);
	return NULL;
}

static inline const char *name_of(const struct probe_spec *s, uint64_t val)
{
	uint64_t vals[FUNC_VALS_MAX] = { val };

	return probe_spec_name(s, vals);
}

#define START "{'name':'x','match':{'mapped':['lib*']},"
#define PROBES(text) START "'probes':[" text "]}"
#define F "'symbol':'f','role':'op'"

#endif
