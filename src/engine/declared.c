// SPDX-License-Identifier: BSD-2-Clause
#include "engine/declared.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX (UINT64_C(256) << 20) /* of a file's read-only data; PyTorch 1.13 has 10 MB */
#define DECLARED_MAX 65536	       /* further ones are left out; PyTorch 1.13 has 2,900 */

/* As long as its name is, with that of its overload; 0: it is no declaration. */
static size_t declaration(const char *text)
{
	static const char word[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
	size_t n = strspn(text, word), overload = text[n] == '.' ? 1 + strspn(text + n + 1, word) : 0;

	if (!n || isdigit((unsigned char)*text) || overload == 1 || text[n + overload] != '(' || !strstr(text, ") -> "))
		return 0;
	return n + overload;
}

/* The point before an overload is an underscore in the function's name. */
static int compare(const char *a, size_t a_len, const char *b, size_t b_len)
{
	for (size_t i = 0; i < a_len && i < b_len; i++) {
		char x = a[i] == '.' ? '_' : a[i], y = b[i] == '.' ? '_' : b[i];

		if (x != y)
			return x < y ? -1 : 1;
	}
	return a_len < b_len ? -1 : a_len > b_len;
}

static int by_name(const void *a, const void *b)
{
	const char *x = *(const char *const *)a, *y = *(const char *const *)b;

	return compare(x, strlen(x), y, strlen(y));
}

void declared_clear(struct declared *d)
{
	free(d->text);
	free(d->names);
	*d = (struct declared){ 0 };
}

int declared_read(struct elf_file *elf, struct declared *ret)
{
	struct declared d = { 0 };
	uint64_t vaddr;
	size_t len = 0;
	void *text;
	int err;

	err = elf_read_section(elf, ".rodata", TEXT_MAX, &vaddr, &text, &len);
	if (err)
		return err == -ENOMEM ? err : 0;
	d.text = text;
	d.names = calloc(DECLARED_MAX, sizeof(*d.names));
	if (!d.names) {
		declared_clear(&d);
		return -ENOMEM;
	}
	for (char *p = d.text, *next; p < d.text + len && d.n < DECLARED_MAX; p = next) {
		size_t name = declaration(p);

		next = p + strlen(p) + 1; /* the copy ends with a NUL */
		if (!name)
			continue;
		p[name] = 0;
		d.names[d.n++] = p;
	}
	qsort(d.names, d.n, sizeof(*d.names), by_name);
	*ret = d;
	return 0;
}

const char *declared_find(const struct declared *d, const char *name, size_t len)
{
	size_t from = 0, to = d->n;

	while (from < to) {
		size_t at = from + (to - from) / 2;
		int order = compare(name, len, d->names[at], strlen(d->names[at]));

		if (!order)
			return d->names[at];
		if (order < 0)
			to = at;
		else
			from = at + 1;
	}
	/* linkers store a text that is the end of another one only once: addmm in sspaddmm */
	for (size_t i = 0; i < d->n; i++) {
		const char *all = d->names[i];
		size_t more = strlen(all) > len ? strlen(all) - len : 0;

		if (more && len && !compare(name, len, all + more, len))
			return all + more;
	}
	return NULL;
}
