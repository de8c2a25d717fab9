// SPDX-License-Identifier: BSD-2-Clause
#include "stack/kernel_symbols.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/bisect.h"

#define SYMBOLS_MAX 400000
#define NAME_MAX_LEN 256
#define MODULE_MAX 64
#define MODULES_MAX 1024
#define BLOCK 65536 /* bytes that are read at once; a longer line is no symbol */

struct symbol {
	uint64_t start;
	uint32_t name;   /* in texts */
	uint16_t module; /* 0: the kernel itself */
	uint16_t pad;
};

struct kernel_symbols {
	int fd; /* -1: it has been read */
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
	ks->fd = open(path ? path : "/proc/kallsyms", O_RDONLY | O_CLOEXEC);
	if (ks->fd < 0) {
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
	if (ks->fd >= 0)
		close(ks->fd);
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

/* Reads hexadecimal digits; returns what is behind them. */
static char *read_hex(char *at, uint64_t *ret_value)
{
	uint64_t value = 0;

	for (;; at++) {
		char c = *at;

		if (c >= '0' && c <= '9')
			value = value << 4 | (uint64_t)(c - '0');
		else if (c >= 'a' && c <= 'f')
			value = value << 4 | (uint64_t)(c - 'a' + 10);
		else
			break;
	}
	*ret_value = value;
	return at;
}

/* "ffffffff81000000 T name\t[module]"; a kernel has some 100,000 of them. */
static void add_line(struct kernel_symbols *ks, char *line, char *end)
{
	char *at, *name, *module = NULL;
	uint64_t start;
	size_t len;

	*end = '\0';
	at = read_hex(line, &start);
	if (!start || at[0] != ' ' || ((at[1] | 0x20) != 't' && (at[1] | 0x20) != 'w') || at[2] != ' ')
		return;
	name = at + 3;
	at = memchr(name, '\t', (size_t)(end - name));
	len = (size_t)((at ? at : end) - name);
	if (at) {
		*at++ = '\0';
		at[strcspn(at, "]")] = '\0';
		module = *at == '[' ? at + 1 : NULL;
	}
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

/* The kernel's own come first, and are sorted. Those of modules and BPF programs are not. */
static void sort(struct kernel_symbols *ks)
{
	struct symbol *all = ks->symbols;
	uint64_t least = UINT64_MAX;
	size_t sorted = 1;

	while (sorted < ks->n && compare(&all[sorted - 1], &all[sorted]) < 0)
		sorted++;
	if (sorted >= ks->n)
		return;
	for (size_t i = sorted; i < ks->n; i++)
		least = all[i].start < least ? all[i].start : least;
	while (sorted > 0 && all[sorted - 1].start >= least)
		sorted--;
	qsort(all + sorted, ks->n - sorted, sizeof(*all), compare);
}

/* Takes the lines of what was read, and moves the rest to the beginning. Returns its length. */
static size_t take_lines(struct kernel_symbols *ks, char *buf, size_t len)
{
	char *line = buf, *end;

	while ((end = memchr(line, '\n', len - (size_t)(line - buf)))) {
		add_line(ks, line, end);
		line = end + 1;
	}
	len -= (size_t)(line - buf);
	memmove(buf, line, len);
	return len;
}

static void read_all(struct kernel_symbols *ks)
{
	char *buf = malloc(BLOCK + 1);
	size_t have = 0;
	ssize_t n = 1;

	while (buf && n > 0 && have < BLOCK) {
		n = read(ks->fd, buf + have, BLOCK - have);
		if (n > 0)
			have = take_lines(ks, buf, have + (size_t)n);
	}
	if (buf && have && have < BLOCK)
		add_line(ks, buf, buf + have);
	free(buf);
	close(ks->fd);
	ks->fd = -1;
	sort(ks);
}

const char *kernel_symbols_find(struct kernel_symbols *ks, uint64_t addr, uint64_t *ret_start, const char **ret_module)
{
	const struct symbol *s;
	size_t i;

	if (ks->fd >= 0)
		read_all(ks);
	i = bisect(ks->n, k, ks->symbols[k].start <= addr);
	if (!i)
		return NULL;
	s = &ks->symbols[i - 1];
	/* of several names the first one listed */
	while (s > ks->symbols && s[-1].start == s->start)
		s--;
	*ret_start = s->start;
	*ret_module = s->module ? ks->modules[s->module - 1] : NULL;
	return ks->texts + s->name;
}
