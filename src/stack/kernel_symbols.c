// SPDX-License-Identifier: BSD-2-Clause
#include "stack/kernel_symbols.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "target/file.h"
#include "target/process.h"
#include "util/clock.h"
#include "util/list.h"

#define SYMBOLS_MAX 400000
#define NAME_MAX_LEN 256

/* Names, each NUL-terminated. */
struct texts {
	char *list;
	size_t len, cap;
};

/* Returns its offset in the list. */
static uint32_t texts_add(struct texts *t, const char *text, size_t len)
{
	size_t at = t->len;

	if (at + len + 1 > t->cap) {
		t->cap = t->cap ? 2 * t->cap : 65536; /* longer than any name, so doubling suffices */
		t->list = xreallocarray(t->list, t->cap, 1);
	}
	memcpy(t->list + at, text, len);
	t->list[at + len] = '\0';
	t->len += len + 1;
	return (uint32_t)at;
}

/* Reads 1 to 16 hex digits and moves *at behind them. */
static bool read_hex(const char **at, const char *end, uint64_t *ret)
{
	const char *s = *at;
	int digits = 0;

	for (*ret = 0; s < end && digits < 17; s++, digits++) {
		char c = *s | 0x20;

		if (*s >= '0' && *s <= '9')
			*ret = *ret << 4 | (uint64_t)(*s - '0');
		else if (c >= 'a' && c <= 'f')
			*ret = *ret << 4 | (uint64_t)(c - 'a' + 10);
		else
			break;
	}
	*at = s;
	return digits && digits < 17;
}

/* ---- the kernel's functions ---- */

struct kernel_symbol {
	uint64_t start;
	uint32_t name, module; /* offsets in texts; module 0: the kernel itself */
};

struct kernel_symbols {
	FILE *f; /* NULL: already read */
	struct kernel_symbol *symbols;
	size_t n, cap;
	struct texts texts;
};

int kernel_symbols_new(const char *path, struct kernel_symbols **ret_symbols)
{
	FILE *f = fopen(path ? path : "/proc/kallsyms", "re");

	if (!f)
		return -errno;
	*ret_symbols = xcalloc(1, sizeof(**ret_symbols));
	(*ret_symbols)->f = f;
	return 0;
}

void kernel_symbols_free(struct kernel_symbols *ks)
{
	if (!ks)
		return;
	if (ks->f)
		fclose(ks->f);
	free(ks->symbols);
	free(ks->texts.list);
	free(ks);
}

size_t kernel_symbols_memory(const struct kernel_symbols *ks)
{
	return ks ? ks->cap * sizeof(*ks->symbols) + ks->texts.cap : 0;
}

/* Parses "ffffffff81000000 T name\t[module]"; a kernel has some 100,000 such lines. */
static void kernel_symbols_add(struct kernel_symbols *ks, char *line, char *end)
{
	const char *at = line, *name, *module = NULL;
	struct kernel_symbol sym = { 0 };
	char *tab;

	*end = '\0';
	if (!read_hex(&at, end, &sym.start) || !sym.start || at[0] != ' ' || ((at[1] | 0x20) != 't' && (at[1] | 0x20) != 'w') || at[2] != ' ')
		return;
	name = at + 3;
	tab = memchr(name, '\t', (size_t)(end - name));
	if (tab && tab[1] == '[') {
		tab[1 + strcspn(tab + 1, "]")] = '\0';
		module = tab + 2;
	}
	end = tab ? tab : end;
	if (end == name || end - name >= NAME_MAX_LEN || ks->n == SYMBOLS_MAX)
		return;
	sym.name = texts_add(&ks->texts, name, (size_t)(end - name));
	/* symbols are grouped by module */
	if (module && ks->n && ks->symbols[ks->n - 1].module && !strcmp(ks->texts.list + ks->symbols[ks->n - 1].module, module))
		sym.module = ks->symbols[ks->n - 1].module;
	else if (module)
		sym.module = texts_add(&ks->texts, module, strnlen(module, NAME_MAX_LEN));
	*list_push(ks->symbols, ks->n, ks->cap) = sym;
}

static int kernel_symbol_compare(const void *a, const void *b)
{
	const struct kernel_symbol *sa = a, *sb = b;

	if (sa->start != sb->start)
		return sa->start < sb->start ? -1 : 1;
	return sa->name < sb->name ? -1 : sa->name > sb->name;
}

/* The kernel's own symbols come first and are sorted; those of modules and BPF programs are not. */
static void sort_symbols(struct kernel_symbols *ks)
{
	struct kernel_symbol *all = ks->symbols;
	uint64_t least = UINT64_MAX;
	size_t sorted = 1;

	while (sorted < ks->n && kernel_symbol_compare(&all[sorted - 1], &all[sorted]) < 0)
		sorted++;
	if (sorted >= ks->n)
		return;
	for (size_t i = sorted; i < ks->n; i++)
		least = all[i].start < least ? all[i].start : least;
	while (sorted > 0 && all[sorted - 1].start >= least)
		sorted--;
	qsort(all + sorted, ks->n - sorted, sizeof(*all), kernel_symbol_compare);
}

static void kernel_symbols_read(struct kernel_symbols *ks)
{
	char *line = NULL;
	size_t cap = 0;
	ssize_t n;

	while ((n = getline(&line, &cap, ks->f)) > 0)
		kernel_symbols_add(ks, line, line + n - (line[n - 1] == '\n'));
	free(line);
	fclose(ks->f);
	ks->f = NULL;
	sort_symbols(ks);
}

const char *kernel_symbols_find(struct kernel_symbols *ks, uint64_t addr, uint64_t *ret_start, const char **ret_module)
{
	const struct kernel_symbol *s;
	size_t i;

	if (ks->f)
		kernel_symbols_read(ks);
	i = bisect(ks->n, k, ks->symbols[k].start <= addr);
	if (!i)
		return NULL;
	s = &ks->symbols[i - 1];
	/* of several names for one address, the first listed */
	while (s > ks->symbols && s[-1].start == s->start)
		s--;
	*ret_start = s->start;
	*ret_module = s->module ? ks->texts.list + s->module : NULL;
	return ks->texts.list + s->name;
}

/* ---- code that is made at run time ---- */

#define READ_MAX (1 << 20) /* bytes at once */
#define UNREAD_MAX (4 * PERF_MAP_BYTES_MAX)
#define READ_AGAIN_NS (250 * NSEC_PER_MSEC)

struct kernel_code {
	uint64_t start;
	uint32_t size;
	uint32_t name;  /* offset in texts */
	uint32_t order; /* of its line in the file */
};

struct perf_map {
	int fd;
	uint64_t offset; /* of the first unread line */
	uint64_t read_ns;
	struct kernel_code *codes; /* sorted by start, which is unique */
	size_t n, cap;
	uint32_t order;
	struct texts texts;
};

struct perf_map *perf_map_new(int fd)
{
	struct perf_map *map = xcalloc(1, sizeof(*map));

	map->fd = fd;
	return map;
}

struct perf_map *perf_map_open(pid_t pid)
{
	struct stat st;
	char path[64];
	uid_t uid;
	pid_t own;
	int fd;

	if (process_own_number(pid, &own) || process_user(pid, &uid))
		return NULL;
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", own);
	if (file_open_path(pid, path, &fd))
		return NULL;
	/* anyone can write to /tmp: another user's file is not trusted */
	if (fstat(fd, &st) || st.st_uid != uid) {
		close(fd);
		return NULL;
	}
	return perf_map_new(fd);
}

void perf_map_free(struct perf_map *map)
{
	if (!map)
		return;
	close(map->fd);
	free(map->codes);
	free(map->texts.list);
	free(map);
}

size_t perf_map_memory(const struct perf_map *map)
{
	return map ? sizeof(*map) + map->cap * sizeof(*map->codes) + map->texts.cap : 0;
}

static int compare_codes(const void *a, const void *b)
{
	const struct kernel_code *ca = a, *cb = b;

	if (ca->start != cb->start)
		return ca->start < cb->start ? -1 : 1;
	return ca->order < cb->order ? -1 : 1;
}

/* Keeps the last code of each start. */
static void sort_codes(struct perf_map *map)
{
	size_t kept = 0;

	qsort(map->codes, map->n, sizeof(*map->codes), compare_codes);
	for (size_t i = 0; i < map->n; i++) {
		if (kept && map->codes[kept - 1].start == map->codes[i].start)
			kept--;
		map->codes[kept++] = map->codes[i];
	}
	map->n = kept;
}

/* Keeps the newest `keep` lines. */
static void perf_map_keep_newest(struct perf_map *map, uint32_t keep)
{
	struct texts old = map->texts;
	size_t n = 0;

	map->texts = (struct texts){ 0 };
	for (size_t i = 0; i < map->n; i++) {
		struct kernel_code *c = &map->codes[i];
		const char *name = old.list + c->name;

		if (map->order - c->order > keep)
			continue;
		c->name = texts_add(&map->texts, name, strlen(name));
		map->codes[n++] = *c;
	}
	map->n = n;
	free(old.list);
}

/* "START SIZE NAME"; other lines are skipped. */
static void perf_map_add_code(struct perf_map *map, const char *s, const char *end)
{
	uint64_t start, size;
	size_t len;

	if (end - s > 2 && s[0] == '0' && s[1] == 'x')
		s += 2;
	if (!read_hex(&s, end, &start) || s == end || *s++ != ' ')
		return;
	if (!read_hex(&s, end, &size) || s == end || *s++ != ' ' || s == end || !size)
		return;
	len = end - s < PERF_MAP_NAME_MAX ? (size_t)(end - s) : PERF_MAP_NAME_MAX - 1;
	if (map->n == PERF_MAP_NAMES_MAX || map->texts.len + len + 1 > PERF_MAP_BYTES_MAX) {
		sort_codes(map);
		for (uint32_t keep = PERF_MAP_NAMES_MAX / 2;
			map->n > PERF_MAP_NAMES_MAX / 2 || map->texts.len > PERF_MAP_BYTES_MAX / 2; keep /= 2)
			perf_map_keep_newest(map, keep);
	}
	*list_push(map->codes, map->n, map->cap) = (struct kernel_code){
		.start = start,
		.size = size < UINT32_MAX ? (uint32_t)size : UINT32_MAX,
		.name = texts_add(&map->texts, s, len),
		.order = map->order++,
	};
}

/* Reads whole lines from where it stopped; skips a buffer that has no line end. */
static void perf_map_read_lines(struct perf_map *map)
{
	char *buf = xmalloc(READ_MAX), *s, *end;
	ssize_t n = pread(map->fd, buf, READ_MAX, (off_t)map->offset);

	for (s = buf; n > 0; s = end + 1) {
		end = memchr(s, '\n', (size_t)(buf + n - s));
		if (!end)
			break;
		perf_map_add_code(map, s, end);
	}
	if (n > 0)
		map->offset += s == buf && n == READ_MAX ? (uint64_t)n : (uint64_t)(s - buf);
	free(buf);
	sort_codes(map);
}

static void perf_map_refresh(struct perf_map *map)
{
	uint64_t now = clock_mono_ns();
	struct stat st;

	if (map->read_ns && now - map->read_ns < READ_AGAIN_NS)
		return;
	map->read_ns = now;
	if (fstat(map->fd, &st) || (uint64_t)st.st_size == map->offset)
		return;
	/* the file was rewritten */
	if ((uint64_t)st.st_size < map->offset) {
		map->offset = 0;
		map->n = map->texts.len = 0;
	}
	/* read only the end if more is unread than would be kept */
	if ((uint64_t)st.st_size - map->offset > UNREAD_MAX)
		map->offset = (uint64_t)st.st_size - UNREAD_MAX;
	/* each read takes at least half of the buffer, unless lines are longer than names can be */
	for (int i = 0; i < 2 * UNREAD_MAX / READ_MAX; i++) {
		uint64_t before = map->offset;

		perf_map_read_lines(map);
		if (map->offset == before)
			break;
	}
}

const char *perf_map_find(struct perf_map *map, uint64_t addr, uint64_t *ret_start)
{
	size_t i;

	perf_map_refresh(map);
	i = bisect(map->n, k, map->codes[k].start <= addr);
	if (!i || addr - map->codes[i - 1].start >= map->codes[i - 1].size)
		return NULL;
	*ret_start = map->codes[i - 1].start;
	return map->texts.list + map->codes[i - 1].name;
}
