// SPDX-License-Identifier: BSD-2-Clause
#include "stack/kernel_symbols.h"

#include <errno.h>
#include <fcntl.h>
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

#define READ_MAX (1 << 20) /* bytes at once */
#define UNREAD_MAX (4 * PERF_MAP_BYTES_MAX)
#define READ_AGAIN_NS (250 * NSEC_PER_MSEC)

struct code {
	uint64_t start;
	uint32_t size;
	uint32_t name;	/* in texts */
	uint32_t order; /* in the file */
};

struct perf_map {
	int fd;
	uint64_t offset; /* of the first line that was not read */
	uint64_t read_ns;
	struct code *codes; /* sorted by start; one for each */
	size_t n, cap;
	uint32_t order;
	char *texts;
	size_t texts_len, texts_cap;
};

int perf_map_new(int fd, struct perf_map **ret_map)
{
	struct perf_map *map = calloc(1, sizeof(*map));

	if (!map) {
		close(fd);
		return -ENOMEM;
	}
	map->fd = fd;
	*ret_map = map;
	return 0;
}

int perf_map_open(pid_t pid, struct perf_map **ret_map)
{
	struct stat st;
	char path[64];
	uid_t uid;
	pid_t own;
	int fd, err;

	if (process_own_number(pid, &own) || process_user(pid, &uid))
		return -ENOENT;
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", own);
	err = file_open_path(pid, path, &fd);
	if (err)
		return -ENOENT;
	/* /tmp belongs to all: another user's file says what that user wants */
	if (fstat(fd, &st) || st.st_uid != uid) {
		close(fd);
		return -EPERM;
	}
	return perf_map_new(fd, ret_map);
}

void perf_map_free(struct perf_map *map)
{
	if (!map)
		return;
	close(map->fd);
	free(map->codes);
	free(map->texts);
	free(map);
}

size_t perf_map_memory(const struct perf_map *map)
{
	return map ? sizeof(*map) + map->cap * sizeof(*map->codes) + map->texts_cap : 0;
}

static int compare_codes(const void *a, const void *b)
{
	const struct code *ca = a, *cb = b;

	if (ca->start != cb->start)
		return ca->start < cb->start ? -1 : 1;
	return ca->order < cb->order ? -1 : 1;
}

/* One for each start: the last one. */
static void perf_map_sort(struct perf_map *map)
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
static void keep_newest(struct perf_map *map, uint32_t keep)
{
	char *texts = malloc(map->texts_cap);
	size_t n = 0, len = 0;

	for (size_t i = 0; texts && i < map->n; i++) {
		const char *name = map->texts + map->codes[i].name;
		size_t size = strlen(name) + 1;

		if (map->order - map->codes[i].order > keep)
			continue;
		map->codes[n] = map->codes[i];
		map->codes[n++].name = (uint32_t)len;
		memcpy(texts + len, name, size);
		len += size;
	}
	if (texts) {
		free(map->texts);
		map->texts = texts;
	}
	map->n = n;
	map->texts_len = len;
}

static void make_room(struct perf_map *map)
{
	perf_map_sort(map);
	for (uint32_t keep = PERF_MAP_NAMES_MAX / 2;
		map->n > PERF_MAP_NAMES_MAX / 2 || map->texts_len > PERF_MAP_BYTES_MAX / 2; keep /= 2)
		keep_newest(map, keep);
}

static int add(struct perf_map *map, uint64_t start, uint64_t size, const char *name, size_t len)
{
	if (len >= PERF_MAP_NAME_MAX)
		len = PERF_MAP_NAME_MAX - 1;
	if (map->n == PERF_MAP_NAMES_MAX || map->texts_len + len + 1 > PERF_MAP_BYTES_MAX)
		make_room(map);
	if (map->n == map->cap) {
		size_t cap = map->cap ? 2 * map->cap : 1024;
		struct code *codes = realloc(map->codes, cap * sizeof(*codes));

		if (!codes)
			return -ENOMEM;
		map->codes = codes;
		map->cap = cap;
	}
	if (map->texts_len + len + 1 > map->texts_cap) {
		size_t cap = map->texts_cap ? 2 * map->texts_cap : 65536;
		char *texts = realloc(map->texts, cap);

		if (!texts)
			return -ENOMEM;
		map->texts = texts;
		map->texts_cap = cap;
	}
	memcpy(map->texts + map->texts_len, name, len);
	map->texts[map->texts_len + len] = '\0';
	if (size > UINT32_MAX)
		size = UINT32_MAX;
	map->codes[map->n++] = (struct code){
		.start = start, .size = (uint32_t)size, .name = (uint32_t)map->texts_len, .order = map->order++
	};
	map->texts_len += len + 1;
	return 0;
}

/* -1: it is no hexadecimal digit. */
static int digit_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool perf_map_read_hex(const char **at, const char *end, uint64_t *ret)
{
	const char *s = *at;
	int digits = 0;

	for (*ret = 0; s < end && digits < 17; s++, digits++) {
		int v = digit_value(*s);

		if (v < 0)
			break;
		*ret = *ret << 4 | (uint64_t)v;
	}
	*at = s;
	return digits && digits < 17;
}

/* Lines that are none are skipped. */
static int perf_map_add_line(struct perf_map *map, const char *s, const char *end)
{
	uint64_t start, size;

	if (end - s > 2 && s[0] == '0' && s[1] == 'x')
		s += 2;
	if (!perf_map_read_hex(&s, end, &start) || s == end || *s++ != ' ')
		return 0;
	if (!perf_map_read_hex(&s, end, &size) || s == end || *s++ != ' ' || s == end || !size)
		return 0;
	return add(map, start, size, s, (size_t)(end - s));
}

/* Reads whole lines from where it stopped; in one that is longer than the buffer it goes on behind it. */
static void read_on(struct perf_map *map)
{
	char *buf = malloc(READ_MAX), *s, *end;
	ssize_t n = buf ? pread(map->fd, buf, READ_MAX, (off_t)map->offset) : -1;
	int err = 0;

	for (s = buf; n > 0 && !err; s = end + 1) {
		end = memchr(s, '\n', (size_t)(buf + n - s));
		if (!end)
			break;
		err = perf_map_add_line(map, s, end);
	}
	if (n > 0)
		map->offset += s == buf && n == READ_MAX ? (uint64_t)n : (uint64_t)(s - buf);
	free(buf);
	perf_map_sort(map);
}

static void look(struct perf_map *map)
{
	uint64_t now = clock_mono_ns();
	struct stat st;

	if (map->read_ns && now - map->read_ns < READ_AGAIN_NS)
		return;
	map->read_ns = now;
	if (fstat(map->fd, &st) || (uint64_t)st.st_size == map->offset)
		return;
	/* written anew */
	if ((uint64_t)st.st_size < map->offset) {
		map->offset = 0;
		map->n = map->texts_len = 0;
	}
	/* of more than would be kept only the end */
	if ((uint64_t)st.st_size - map->offset > UNREAD_MAX)
		map->offset = (uint64_t)st.st_size - UNREAD_MAX;
	/* each time at least half of the buffer, but for lines that are longer than names can be */
	for (int i = 0; i < 2 * UNREAD_MAX / READ_MAX; i++) {
		uint64_t before = map->offset;

		read_on(map);
		if (map->offset == before)
			break;
	}
}

const char *perf_map_find(struct perf_map *map, uint64_t addr, uint64_t *ret_start)
{
	size_t i;

	look(map);
	i = bisect(map->n, k, map->codes[k].start <= addr);
	if (!i || addr - map->codes[i - 1].start >= map->codes[i - 1].size)
		return NULL;
	*ret_start = map->codes[i - 1].start;
	return map->texts + map->codes[i - 1].name;
}
