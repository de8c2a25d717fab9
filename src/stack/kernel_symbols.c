// SPDX-License-Identifier: BSD-2-Clause
#include "stack/kernel_symbols.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SYMBOLS_MAX 400000
#define NAME_MAX_LEN 256
#define MODULE_MAX 64
#define MODULES_MAX 1024

struct symbol {
	uint64_t start;
	uint32_t name;	 /* in texts */
	uint16_t module; /* 0: the kernel itself */
	uint16_t pad;
};

struct kernel_symbols {
	FILE *file;
	struct symbol *symbols;
	size_t n, cap;
	char *texts;
	size_t texts_len, texts_cap;
	char (*modules)[MODULE_MAX];
	size_t n_modules;
};

int kernel_symbols_new(const char *path, struct kernel_symbols **ret_symbols)
{
	struct kernel_symbols *ks = calloc(1, sizeof(*ks));
	int err;

	if (!ks)
		return -ENOMEM;
	ks->file = fopen(path ? path : "/proc/kallsyms", "re");
	if (!ks->file) {
		err = -errno;
		free(ks);
		return err;
	}
	*ret_symbols = ks;
	return 0;
}

void kernel_symbols_free(struct kernel_symbols *ks)
{
	if (!ks)
		return;
	if (ks->file)
		fclose(ks->file);
	free(ks->symbols);
	free(ks->texts);
	free(ks->modules);
	free(ks);
}

size_t kernel_symbols_memory(const struct kernel_symbols *ks)
{
	return ks ? ks->cap * sizeof(*ks->symbols) + ks->texts_cap + ks->n_modules * MODULE_MAX : 0;
}

static bool grow(void **array, size_t *cap, size_t needed, size_t size, size_t first)
{
	size_t to = *cap ? *cap : first;
	void *p;

	if (needed <= *cap)
		return true;
	while (to < needed)
		to += to / 2;
	p = realloc(*array, to * size);
	if (!p)
		return false;
	*array = p;
	*cap = to;
	return true;
}

static uint16_t module_number(struct kernel_symbols *ks, const char *name)
{
	size_t n = ks->n_modules;
	char(*modules)[MODULE_MAX];

	if (!name)
		return 0;
	/* they come one module after the other */
	if (n && !strcmp(ks->modules[n - 1], name))
		return (uint16_t)n;
	if (n == MODULES_MAX)
		return 0;
	modules = realloc(ks->modules, (n + 1) * sizeof(*modules));
	if (!modules)
		return 0;
	ks->modules = modules;
	snprintf(modules[n], MODULE_MAX, "%s", name);
	ks->n_modules++;
	return (uint16_t)(n + 1);
}

/* "ffffffff81000000 T name\t[module]" */
static void add_line(struct kernel_symbols *ks, char *line)
{
	char *at, *name, *module = NULL;
	uint64_t start = strtoull(line, &at, 16);
	size_t len;

	line[strcspn(line, "\n")] = '\0';
	if (!start || at[0] != ' ' || !at[1] || !strchr("tTwW", at[1]) || at[2] != ' ')
		return;
	name = at + 3;
	at = strchr(name, '\t');
	if (at) {
		*at++ = '\0';
		at[strcspn(at, "]")] = '\0';
		module = *at == '[' ? at + 1 : NULL;
	}
	len = strlen(name);
	if (!len || len >= NAME_MAX_LEN || ks->n == SYMBOLS_MAX ||
		!grow((void **)&ks->symbols, &ks->cap, ks->n + 1, sizeof(*ks->symbols), 65536) ||
		!grow((void **)&ks->texts, &ks->texts_cap, ks->texts_len + len + 1, 1, 1 << 20))
		return;
	memcpy(ks->texts + ks->texts_len, name, len + 1);
	ks->symbols[ks->n++] = (struct symbol){
		.start = start, .name = (uint32_t)ks->texts_len, .module = module_number(ks, module)
	};
	ks->texts_len += len + 1;
}

static int compare(const void *a, const void *b)
{
	const struct symbol *sa = a, *sb = b;

	if (sa->start != sb->start)
		return sa->start < sb->start ? -1 : 1;
	return sa->name < sb->name ? -1 : sa->name > sb->name;
}

static void read_all(struct kernel_symbols *ks)
{
	char *line = NULL;
	size_t cap = 0;

	while (getline(&line, &cap, ks->file) > 0)
		add_line(ks, line);
	free(line);
	fclose(ks->file);
	ks->file = NULL;
	qsort(ks->symbols, ks->n, sizeof(*ks->symbols), compare);
}

const char *kernel_symbols_find(struct kernel_symbols *ks, uint64_t addr, uint64_t *ret_start, const char **ret_module)
{
	size_t lo = 0, hi;
	const struct symbol *s;

	if (ks->file)
		read_all(ks);
	hi = ks->n;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (ks->symbols[mid].start <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (!lo)
		return NULL;
	s = &ks->symbols[lo - 1];
	/* of several names the first one listed */
	while (s > ks->symbols && s[-1].start == s->start)
		s--;
	*ret_start = s->start;
	*ret_module = s->module ? ks->modules[s->module - 1] : NULL;
	return ks->texts + s->name;
}
