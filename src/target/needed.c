// SPDX-License-Identifier: BSD-2-Clause
/* The libraries that a program is linked with, as its files say: known before its loader begins, and after it is gone. */
#include "target/file.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/alloc.h"

#define LIBRARIES_MAX 256
#define ENTRIES_MAX 4096
#define TEXT_MAX 4096 /* bytes of a name, or of a list of directories */
#define CACHE_MAX (1u << 20)
#define OPENS_MAX 8192
#if defined(__x86_64__)
#define MULTIARCH "x86_64-linux-gnu"
#else
#define MULTIARCH "aarch64-linux-gnu"
#endif

struct object {
	char *name, *origin; /* the directory of its file */
	char *rpath, *runpath;
	int parent; /* its RPATH counts, too */
};

struct walk {
	pid_t pid;
	const char *library_path;
	char *cache; /* /etc/ld.so.cache; it has the paths as texts that end in NUL */
	size_t cache_len;
	unsigned int opens;
	struct object objects[LIBRARIES_MAX];
	int n;
	Elf64_Dyn entries[ENTRIES_MAX]; /* of the current one */
};

/* ---- where a library is: ld.so(8) ---- */

/* Libraries for other machines are passed over, as the loader does. */
static int open_at(struct walk *w, const char *path)
{
	Elf64_Ehdr eh;
	int fd;

	if (*path != '/' || w->opens++ >= OPENS_MAX || file_open_path(w->pid, path, &fd))
		return -1;
	if (elf_header_read(fd, &eh))
		return fd;
	close(fd);
	return -1;
}

/* $ORIGIN only counts at the beginning of a directory, where alone linkers put it. */
static int open_in(struct walk *w, const char *list, const char *origin, const char *name, char path[PATH_MAX])
{
	int fd = -1;

	for (size_t len; list && *list && fd < 0; list += len + !!list[len]) {
		size_t token = strncmp(list, "$ORIGIN", 7) ? 0 : 7;

		token = strncmp(list, "${ORIGIN}", 9) ? token : 9;
		len = strcspn(list, ":;");
		if (snprintf(path, PATH_MAX, "%s%.*s/%s", token ? origin : "", (int)(len - token), list + token, name) < PATH_MAX)
			fd = open_at(w, path);
	}
	return fd;
}

static int open_cached(struct walk *w, const char *name, char path[PATH_MAX])
{
	char *end = w->cache + w->cache_len, *p = w->cache;
	size_t len = strlen(name) + 1;
	int fd = -1;

	for (; fd < 0 && p < end && (p = memmem(p, (size_t)(end - p), name, len)); p++) {
		char *begin = p;

		while (begin > w->cache && begin[-1])
			begin--;
		if (p == begin || p[-1] != '/' || p - begin > PATH_MAX - (ptrdiff_t)len || strstr(begin, "/glibc-hwcaps/"))
			continue;
		strcpy(path, begin);
		fd = open_at(w, path);
	}
	return fd;
}

static int open_library(struct walk *w, const struct object *library, char path[PATH_MAX])
{
	const struct object *by = &w->objects[library->parent];
	int fd = -1;

	if (strchr(library->name, '/'))
		return open_at(w, strcpy(path, library->name));
	for (int i = library->parent; !by->runpath && i >= 0 && fd < 0; i = w->objects[i].parent)
		fd = open_in(w, w->objects[i].rpath, w->objects[i].origin, library->name, path);
	if (fd < 0)
		fd = open_in(w, w->library_path, w->objects[0].origin, library->name, path);
	if (fd < 0)
		fd = open_in(w, by->runpath, by->origin, library->name, path);
	if (fd < 0)
		fd = open_cached(w, library->name, path);
	if (fd < 0)
		fd = open_in(w, "/lib/" MULTIARCH ":/usr/lib/" MULTIARCH ":/lib64:/usr/lib64:/lib:/usr/local/lib:/usr/lib", "",
			library->name, path);
	return fd;
}

/* ---- what a file needs ---- */

/* Returns the number of entries of its dynamic section, and where its texts are in the file. */
static size_t read_dynamic(int fd, struct walk *w, uint64_t *ret_texts)
{
	uint64_t texts = 0;
	unsigned int i = 0;
	Elf64_Phdr ph;
	Elf64_Ehdr eh;
	size_t n;

	if (!elf_header_read(fd, &eh) || elf_segment_next(fd, &eh, PT_DYNAMIC, &i, &ph) <= 0 || ph.p_offset > INT64_MAX)
		return 0;
	n = ph.p_filesz < sizeof(w->entries) ? ph.p_filesz / sizeof(*w->entries) : ENTRIES_MAX;
	if (pread(fd, w->entries, n * sizeof(*w->entries), (off_t)ph.p_offset) != (ssize_t)(n * sizeof(*w->entries)))
		return 0;
	for (size_t k = 0; k < n; k++)
		texts = w->entries[k].d_tag == DT_STRTAB ? w->entries[k].d_un.d_ptr : texts;
	for (i = 0; elf_segment_next(fd, &eh, PT_LOAD, &i, &ph) > 0;) {
		if (texts < ph.p_vaddr || texts - ph.p_vaddr >= ph.p_filesz)
			continue;
		*ret_texts = texts - ph.p_vaddr + ph.p_offset;
		return n;
	}
	return 0;
}

static char *read_text(int fd, uint64_t at)
{
	char text[TEXT_MAX];
	ssize_t n = at < INT64_MAX ? pread(fd, text, sizeof(text) - 1, (off_t)at) : 0;

	text[n > 0 ? n : 0] = 0;
	return *text ? xstrdup(text) : NULL;
}

static void add_library(struct walk *w, int by, char *name)
{
	for (int i = 1; name && i < w->n; i++) {
		if (!strcmp(w->objects[i].name, name)) {
			free(name);
			return;
		}
	}
	if (name && w->n < LIBRARIES_MAX)
		w->objects[w->n++] = (struct object){ .name = name, .parent = by };
	else
		free(name);
}

static void read_object(struct walk *w, int i, int fd)
{
	struct object *o = &w->objects[i];
	uint64_t texts;
	size_t n = read_dynamic(fd, w, &texts);

	for (size_t k = 0; k < n && w->entries[k].d_tag != DT_NULL; k++) {
		const Elf64_Dyn *e = &w->entries[k];

		if (e->d_tag == DT_RPATH && !o->rpath)
			o->rpath = read_text(fd, texts + e->d_un.d_val);
		else if (e->d_tag == DT_RUNPATH && !o->runpath)
			o->runpath = read_text(fd, texts + e->d_un.d_val);
		else if (e->d_tag == DT_NEEDED)
			add_library(w, i, read_text(fd, texts + e->d_un.d_val));
	}
}

static void read_cache(struct walk *w)
{
	ssize_t n = 0;
	int fd;

	w->cache = xcalloc(1, CACHE_MAX + 1);
	if (!file_open_path(w->pid, "/etc/ld.so.cache", &fd)) {
		n = pread(fd, w->cache, CACHE_MAX, 0);
		close(fd);
	}
	w->cache_len = n > 0 ? (size_t)n : 0;
}

int needed_each(pid_t pid, const char *exe, int exe_fd, const char *library_path, needed_cb cb, void *arg)
{
	struct walk *w = xcalloc(1, sizeof(*w));
	char path[PATH_MAX];
	int err = 0, fd = exe_fd;

	w->pid = pid;
	w->library_path = library_path;
	w->n = 1;
	w->objects[0].parent = -1;
	snprintf(path, sizeof(path), "%s", exe);
	read_cache(w);
	for (int i = 0; i < w->n && !err; i++) {
		if (i)
			fd = open_library(w, &w->objects[i], path);
		if (i)
			err = cb(w->objects[i].name, fd, arg);
		w->objects[i].origin = xstrndup(path, strrchr(path, '/') ? (size_t)(strrchr(path, '/') - path) : 0);
		if (fd >= 0)
			read_object(w, i, fd);
		if (i && fd >= 0)
			close(fd);
	}
	for (int i = 0; i < w->n; i++) {
		free(w->objects[i].name);
		free(w->objects[i].origin);
		free(w->objects[i].rpath);
		free(w->objects[i].runpath);
	}
	free(w->cache);
	free(w);
	return err;
}
