// SPDX-License-Identifier: BSD-2-Clause
#include "stack/perf_map.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "target/file.h"
#include "target/process.h"
#include "util/bisect.h"
#include "util/clock.h"

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
static void sort(struct perf_map *map)
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
	sort(map);
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

static bool read_hex(const char **at, const char *end, uint64_t *ret)
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
static int add_line(struct perf_map *map, const char *s, const char *end)
{
	uint64_t start, size;

	if (end - s > 2 && s[0] == '0' && s[1] == 'x')
		s += 2;
	if (!read_hex(&s, end, &start) || s == end || *s++ != ' ')
		return 0;
	if (!read_hex(&s, end, &size) || s == end || *s++ != ' ' || s == end || !size)
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
		err = add_line(map, s, end);
	}
	if (n > 0)
		map->offset += s == buf && n == READ_MAX ? (uint64_t)n : (uint64_t)(s - buf);
	free(buf);
	sort(map);
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
