// SPDX-License-Identifier: BSD-2-Clause
/* What the text of a frame says. */
#include <string.h>

#include "report/stack_times.h"

#define LINE_MAX ((1u << 24) - 1)
#define ELLIPSIS "..."

/* Libraries that are in nobody's own code: what is done in them is done for their callers. */
static const char *const system_files[] = { "libc", "libpthread", "libm", "libdl", "librt", "ld-linux", "ld-musl",
	"libstdc++", "libgcc_s", "[vdso]", "vdso", "linux-vdso", "libpython", "python" };

/* "libc.so.6", "libc-2.36.so", "python3.11", but neither "libcuda.so" nor "python_server". */
static bool is_system(const char *file, size_t len)
{
	for (size_t i = 0; i < sizeof(system_files) / sizeof(system_files[0]); i++) {
		size_t n = strlen(system_files[i]);

		if (n <= len && !memcmp(file, system_files[i], n) && (n == len || strchr(".-0123456789", file[n])))
			return true;
	}
	return false;
}

/* The "(file:line)" or "[library]" at the end of a frame, after a blank; NULL if there is none. */
static const char *find_place(const char *text, size_t len)
{
	char end = len ? text[len - 1] : '\0', open = end == ']' ? '[' : '(';

	if (end != ']' && end != ')')
		return NULL;
	for (size_t i = len - 1; i > 0; i--) {
		if (text[i] == open && text[i - 1] == ' ')
			return text + i;
	}
	return NULL;
}

/* Takes the ":line" off the file at the end. Returns the new length of the text in front of ")". */
static size_t take_line(const char *place, size_t len, uint32_t *ret_line)
{
	size_t at = len, digits;
	uint64_t line = 0;

	while (at > 0 && place[at - 1] >= '0' && place[at - 1] <= '9')
		at--;
	digits = len - at;
	if (!digits || digits > 9 || at < 2 || place[at - 1] != ':')
		return len;
	for (size_t i = at; i < len; i++)
		line = line * 10 + (uint64_t)(place[i] - '0');
	*ret_line = line < LINE_MAX ? (uint32_t)line : LINE_MAX;
	return at - 1;
}

/* Where a text of UTF-8 may be cut, at most at len. */
static size_t cut_at(const char *text, size_t len)
{
	while (len > 0 && ((unsigned char)text[len] & 0xc0) == 0x80)
		len--;
	return len;
}

/* Joins the name and the place where it is, each cut if it is too long. */
static void join(struct code_frame *f, const char *name, size_t name_len, const char *place, size_t place_len,
	const char *end)
{
	size_t place_max = CODE_NAME_MAX / 3, end_len = strlen(end), room;
	char *p = f->text;

	if (place_len > place_max) {
		/* the end of a path says more */
		size_t skip = place_len - place_max;

		while (skip < place_len && ((unsigned char)place[skip] & 0xc0) == 0x80)
			skip++;
		place += skip;
		place_len -= skip;
	}
	room = CODE_NAME_MAX - place_len - end_len;
	if (name_len > room) {
		name_len = cut_at(name, room - strlen(ELLIPSIS) - 2);
		memcpy(p, name, name_len);
		p = stpcpy(p + name_len, ELLIPSIS);
		if (place_len)
			p = stpcpy(p, place[0] == '(' || place[0] == '[' ? " " : "");
	} else {
		memcpy(p, name, name_len);
		p += name_len;
	}
	memcpy(p, place, place_len);
	stpcpy(p + place_len, end);
}

void code_frame_parse(const char *text, size_t len, struct code_frame *ret)
{
	const char *place = find_place(text, len);
	size_t place_len = place ? (size_t)(text + len - place) : 0, inner;

	ret->line = 0;
	ret->kind = CODE_NATIVE;
	if (!len || text[0] == '[') {
		ret->kind = CODE_UNKNOWN; /* "[unknown]", "[cut]" */
	} else if (place && place[0] == '(') {
		/* a name in C++ may end in ")" as well, but then it is followed by its library */
		ret->kind = CODE_PYTHON;
		inner = take_line(place, place_len - 1, &ret->line);
		join(ret, text, (size_t)(place - text), place, inner, ")");
		return;
	} else if (place && place_len == 8 && !memcmp(place, "[kernel]", 8)) {
		ret->kind = CODE_KERNEL;
	} else if (place && is_system(place + 1, place_len - 2)) {
		ret->kind = CODE_SYSTEM;
	}
	if (!len)
		join(ret, "[unknown]", 9, "", 0, "");
	else
		join(ret, text, len - place_len, place ? place : "", place_len, "");
}
