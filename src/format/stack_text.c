// SPDX-License-Identifier: BSD-2-Clause
#include "format/stack_text.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "record.h"

#define NAME_LEN_MAX 255  /* of a file */
#define PLACE_LEN_MAX 127 /* of one that is shown with directories */

static const char *path_base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

/* What follows the last "/NAME/" in a path, or NULL. */
static const char *path_after(const char *path, const char *name)
{
	const char *found = NULL;

	for (const char *p = strstr(path, name); p; p = strstr(p + 1, name))
		found = p + strlen(name);
	return found;
}

/* In the standard library, ".../lib/python3.11/re/__init__.py": from the directory with the version on. */
static const char *path_in_library(const char *path)
{
	for (const char *p = strstr(path, "/lib"); p; p = strstr(p + 1, "/lib")) {
		const char *slash = strchr(p + 1, '/');

		if (slash && !strncmp(slash, "/python3.", 9) && slash[9 + strspn(slash + 9, "0123456789")] == '/')
			return slash + 1;
	}
	return NULL;
}

/* "__init__.py" is in every package: a file of an installed package is shown with its directories there. */
static const char *python_place(const char *path)
{
	const char *place = path_after(path, "/site-packages/") ?: path_after(path, "/dist-packages/") ?
												       : path_in_library(path);

	return place && *place && strlen(place) <= PLACE_LEN_MAX ? place : path_base_name(path);
}

static size_t text_len_limit(int len)
{
	return len < STACK_TEXT_MAX ? (size_t)len : STACK_TEXT_MAX - 1;
}

size_t stack_text_name(const struct frame *f, char buf[STACK_TEXT_MAX])
{
	if (f->kind == FRAME_PYTHON && f->file)
		return text_len_limit(snprintf(buf, STACK_TEXT_MAX, "%.*s (%.*s:%u)", STACK_NAME_MAX, f->name, NAME_LEN_MAX,
			python_place(f->file), f->line));
	return text_len_limit(snprintf(buf, STACK_TEXT_MAX, "%.*s", STACK_NAME_MAX, f->name));
}

size_t stack_text_function(const struct frame *f, char buf[STACK_TEXT_MAX])
{
	if (f->kind == FRAME_PYTHON && f->file)
		return text_len_limit(snprintf(buf, STACK_TEXT_MAX, "%.*s (%.*s)", STACK_NAME_MAX, f->name, NAME_LEN_MAX, python_place(f->file)));
	return stack_text(f, buf);
}

const char *stack_text_mapping(const struct frame *f, char buf[STACK_TEXT_MAX])
{
	switch (f->kind) {
	case FRAME_KERNEL:
		snprintf(buf, STACK_TEXT_MAX, f->file ? "[kernel.%.64s]" : "[kernel]", f->file);
		return buf;
	case FRAME_JIT:
		return "[jit]";
	default:
		return f->file ? f->file : "[unknown]";
	}
}

size_t stack_text(const struct frame *f, char buf[STACK_TEXT_MAX])
{
	char mapping[STACK_TEXT_MAX];
	const char *from;
	size_t len = stack_text_name(f, buf);

	if (f->kind == FRAME_PYTHON || f->kind == FRAME_UNKNOWN)
		return len;
	from = path_base_name(stack_text_mapping(f, mapping));
	if (f->kind == FRAME_KERNEL)
		from = "[kernel]";
	return len + text_len_limit(snprintf(buf + len, STACK_TEXT_MAX - len, from[0] == '[' ? " %.*s" : " [%.*s]", NAME_LEN_MAX, from));
}

static bool frame_is_of_libc(const struct frame *f)
{
	const char *base = f->file ? path_base_name(f->file) : "";

	return !strncmp(base, "libc.so", 7) || !strncmp(base, "libc-", 5) || !strncmp(base, "libpthread", 10) ||
	       !strncmp(base, "ld-", 3) || !strcmp(base, "[vdso]");
}

static bool frame_has_name(const struct frame *f)
{
	return f->name[0] != '[';
}

const struct frame *stack_subject(const struct stacks *s, uint32_t stack)
{
	const struct frame *user = NULL, *named = NULL, *first = NULL, *f;
	const uint32_t *frames;
	unsigned int n = stacks_get(s, stack, &frames);

	for (unsigned int i = 0; i < n; i++) {
		f = stacks_frame(s, frames[i]);
		if (!f)
			continue;
		if (f->kind == FRAME_PYTHON)
			return f;
		if (!user && f->kind != FRAME_KERNEL && !frame_is_of_libc(f))
			user = f;
		if (!named && f->kind != FRAME_KERNEL && frame_has_name(f))
			named = f;
		first = first ? first : f;
	}
	if (user && frame_has_name(user))
		return user;
	return named ? named : first;
}

bool stack_frame_is_library(const struct frame *f)
{
	return f->kind == FRAME_PYTHON && (!f->file || f->file[0] == '<' ||
		(path_in_library(f->file) && !path_after(f->file, "/site-packages/") && !path_after(f->file, "/dist-packages/")));
}

const char *stack_kind_name(uint32_t kind)
{
	if (kind == SAMPLE_CPU)
		return "sample";
	return kind == SAMPLE_OFF_CPU ? "wait" : NULL;
}
