// SPDX-License-Identifier: BSD-2-Clause
#include "stack/demangle.h"

#include <setjmp.h>
#include <string.h>

#include <libiberty/demangle.h>

struct text {
	char *to;
	size_t len, max;
	jmp_buf full;
};

static void append(const char *s, size_t len, void *arg)
{
	struct text *t = arg;

	if (len > t->max - t->len)
		len = t->max - t->len;
	memcpy(t->to + t->len, s, len);
	t->len += len;
	/* The rest could be exponentially long. What the callers hold lies on the stack. */
	if (t->len == t->max)
		longjmp(t->full, 1);
}

/* Whether what follows `at` looks like the hash of a Rust name: 17h and 16 hex digits, E. */
static int is_hash(const char *at)
{
	return strlen(at) >= 19 && !strncmp(at, "17h", 3) && strspn(at + 3, "0123456789abcdef") == 16;
}

static int is_rust(const char *name)
{
	const char *end;

	if (!strncmp(name, "_R", 2))
		return 1;
	end = strstr(name, "17h");
	return end && is_hash(end);
}

/* What compilers add to the name of a copy or a part of a function, and linkers for a version of it. */
static size_t length_of_source(const char *name)
{
	static const char *const added[] = { ".isra.", ".constprop.", ".part.", ".cold", ".lto_priv.", ".llvm.", ".localalias", "@" };
	size_t len = strlen(name);

	for (size_t i = 0; i < sizeof(added) / sizeof(added[0]); i++) {
		const char *at = strstr(name, added[i]);

		if (at && at > name && (size_t)(at - name) < len)
			len = (size_t)(at - name);
	}
	return len;
}

void demangle(const char *mangled, char *to, size_t size)
{
	struct text t = { .to = to, .max = size - 1 };
	const char *volatile name = mangled;
	volatile int done = 0;

	if (!strncmp(mangled, "_Z", 2) || !strncmp(mangled, "_R", 2) || !strncmp(mangled, "___Z", 4)) {
		if (setjmp(t.full))
			done = 1;
		else if (is_rust(name))
			done = rust_demangle_callback(name, DMGL_NO_OPTS, append, &t);
		else
			done = cplus_demangle_v3_callback(name, DMGL_NO_OPTS, append, &t);
	}
	if (!done || !t.len) {
		t.len = length_of_source(name);
		if (t.len > size - 1)
			t.len = size - 1;
		memcpy(to, name, t.len);
	}
	to[t.len] = '\0';
}
