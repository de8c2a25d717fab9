// SPDX-License-Identifier: BSD-2-Clause
#include "stack/module.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stack/reader.h"
#include "target/elf.h"
#include "target/file.h"
#include "util/bisect.h"
#include "util/map.h"

#define PLACES_MAX 65536
#define ROWS_MAX 8192
#define EVALUATES "_PyEval_EvalFrameDefault"
#define DELETED " (deleted)"
#define MANY 128 /* files: two processes or so */

struct file_key {
	uint64_t dev, ino;
};

/* What is known of the offsets from here up to there. */
struct known {
	uint64_t from, to;
	struct spot spot;
};

struct module {
	UT_hash_handle hh;
	struct module *next; /* processes point to it, also when another file has got its number */
	struct file_key key;
	uint32_t number;
	unsigned int generation; /* of the reader that has it open */
	bool open, failed;
	bool used; /* see modules_use() */
	int64_t mtime_ns;
	int64_t size;
	const char *path, *build_id; /* interned */
	struct known *known; /* sorted, none overlaps */
	size_t n_known, cap_known;
};

/* Rows repeat: one copy of each, without the operations that are not used. */
struct row_entry {
	UT_hash_handle hh;
	uint32_t size;
	struct row row;
};


struct modules {
	struct intern *in;
	struct reader *reader;
	struct module *files; /* the current ones */
	struct module *all;
	struct module *vdso;
	uint32_t n_files, many;          /* many: more than that are too many, if no process maps some */
	uint32_t free[READER_FILES_MAX]; /* numbers */
	uint32_t n_free, next_number;
	struct row_entry *rows;
	size_t n_known; /* of all files */
	struct modules_stats stats;
	struct place answer;
};

int modules_new(struct intern *in, bool in_process, struct modules **ret_modules)
{
	struct modules *ms = calloc(1, sizeof(*ms));
	int err;

	if (!ms)
		return -ENOMEM;
	ms->in = in;
	ms->many = MANY;
	err = reader_new(in_process, &ms->reader);
	if (err) {
		free(ms);
		return err;
	}
	*ret_modules = ms;
	return 0;
}

/* What is known can be asked for again. */
static void drop_places(struct modules *ms)
{
	struct row_entry *r, *next_row;

	for (struct module *m = ms->all; m; m = m->next) {
		free(m->known);
		m->known = NULL;
		m->n_known = m->cap_known = 0;
	}
	ms->n_known = 0;
	HASH_ITER(hh, ms->rows, r, next_row)
	{
		HASH_DEL(ms->rows, r);
		free(r);
	}
	ms->stats.memory = 0;
}

void modules_free(struct modules *ms)
{
	struct module *m, *next;

	if (!ms)
		return;
	drop_places(ms);
	HASH_CLEAR(hh, ms->files);
	for (m = ms->all; m; m = next) {
		next = m->next;
		free(m);
	}
	reader_free(ms->reader);
	free(ms);
}

/* ---- files ---- */

static const char *take_path(struct intern *in, const char *path)
{
	size_t len = strlen(path), end = strlen(DELETED);
	char buf[STACK_NAME_MAX];

	if (len > end && !strcmp(path + len - end, DELETED))
		len -= end;
	/* of a long path the end says more */
	if (len >= sizeof(buf)) {
		path += len - sizeof(buf) + 1;
		len = sizeof(buf) - 1;
	}
	memcpy(buf, path, len);
	buf[len] = '\0';
	return intern_text(in, buf);
}

/* The file with what was stripped from it, as distributions install it: by its build-id, here or in the root of the
 * process. -1: there is none. */
static int open_debug_file(pid_t pid, const char *build_id)
{
	char path[FILE_BUILD_ID_MAX + 64];
	struct stat st;
	int fd;

	if (strlen(build_id) < 4)
		return -1;
	snprintf(path, sizeof(path), "/usr/lib/debug/.build-id/%.2s/%s.debug", build_id, build_id + 2);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode))
		return fd;
	if (fd >= 0)
		close(fd);
	return pid && !file_open_path(pid, path, &fd) ? fd : -1;
}

/* The same by the name that the file itself gives, in the root of the process: beside it, in .debug there, or below
 * /usr/lib/debug. */
static int open_linked_file(pid_t pid, const char *path, const char *link)
{
	static const char *const places[] = { "%.*s/%s", "%.*s/.debug/%s", "/usr/lib/debug%.*s/%s" };
	const char *end = strrchr(path, '/');
	char linked[PATH_MAX];
	int fd;

	if (!pid || *path != '/' || !end || !*link || !strcmp(link, ".") || !strcmp(link, ".."))
		return -1;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		int len = snprintf(linked, sizeof(linked), places[i], (int)(end - path), path, link);

		if (len > 0 && (size_t)len < sizeof(linked) && strcmp(linked, path) && !file_open_path(pid, linked, &fd))
			return fd;
	}
	return -1;
}

/* Takes over the descriptor of the file. */
static int open_with_debug(struct modules *ms, const struct module *m, pid_t pid, int fd, const char *build_id)
{
	int debug_fd = open_debug_file(pid, build_id), again = debug_fd < 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : -1, err;
	char link[READER_LINK_MAX];

	err = reader_open(ms->reader, m->number, fd, debug_fd);
	if (!err && again >= 0) {
		reader_link(ms->reader, m->number, link);
		debug_fd = open_linked_file(pid, m->path, link);
		if (debug_fd >= 0)
			return reader_open_linked(ms->reader, m->number, again, debug_fd);
	}
	if (again >= 0)
		close(again);
	return err;
}

/* Gives the file to the reader. Takes over the descriptor. */
static int open_module(struct modules *ms, struct module *m, pid_t pid, int fd)
{
	char build_id[FILE_BUILD_ID_MAX] = "";
	int err;

	if (build_id_read(fd, build_id, sizeof(build_id)))
		build_id[0] = '\0';
	if (!m->build_id && *build_id)
		m->build_id = intern_text(ms->in, build_id);
	ms->stats.lookups++;
	err = open_with_debug(ms, m, pid, fd, build_id);
	m->open = !err;
	m->failed = err && err != -EMFILE && err != -ENFILE;
	m->generation = reader_generation(ms->reader);
	if (m->failed)
		ms->stats.failed++;
	return err;
}

static struct module *new_module(struct modules *ms, const struct file_key *key, const char *path)
{
	struct module *m;

	if (ms->n_files == READER_FILES_MAX)
		return NULL;
	m = calloc(1, sizeof(*m));
	if (!m)
		return NULL;
	m->key = *key;
	m->number = ms->n_free ? ms->free[--ms->n_free] : ms->next_number++;
	m->path = take_path(ms->in, path);
	m->next = ms->all;
	ms->all = m;
	ms->n_files++;
	ms->stats.files++;
	return m;
}

struct module *modules_get(struct modules *ms, pid_t pid, const struct mapped_file *from, bool *ret_fault)
{
	struct file_key key = { from->dev, from->ino };
	struct module *m;
	struct stat st;
	int64_t mtime;
	int fd, err;

	*ret_fault = false;
	if (file_open_mapped(pid, from, &fd))
		return NULL;
	if (fstat(fd, &st)) {
		close(fd);
		return NULL;
	}
	mtime = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
	HASH_FIND(hh, ms->files, &key, sizeof(key), m);
	/* a number of a file that was deleted meanwhile; its frames stay */
	if (m && (m->mtime_ns != mtime || m->size != st.st_size)) {
		HASH_DEL(ms->files, m);
		m = NULL;
	}
	if (m) {
		close(fd);
		return m;
	}
	m = new_module(ms, &key, from->path);
	if (!m) {
		close(fd);
		return NULL;
	}
	m->mtime_ns = mtime;
	m->size = st.st_size;
	HASH_ADD(hh, ms->files, key, sizeof(m->key), m);
	if (!m->hh.tbl) {
		close(fd);
		return NULL;
	}
	err = open_module(ms, m, pid, fd);
	*ret_fault = err == -EPROTO;
	return m;
}

bool modules_many(const struct modules *ms)
{
	return ms->n_files >= ms->many;
}

void modules_use(struct module *m)
{
	m->used = true;
}

static void drop_module(struct modules *ms, struct module *m)
{
	struct module *current;

	HASH_FIND(hh, ms->files, &m->key, sizeof(m->key), current);
	if (current == m)
		HASH_DEL(ms->files, m);
	if (m->open && m->generation == reader_generation(ms->reader))
		reader_close(ms->reader, m->number);
	ms->free[ms->n_free++] = m->number;
	ms->n_files--;
	ms->n_known -= m->n_known;
	ms->stats.memory -= m->cap_known * sizeof(*m->known);
	free(m->known);
	free(m);
}

/* One that failed stays, so that it does not fail again. */
void modules_drop_unused(struct modules *ms)
{
	struct module **at = &ms->all;

	while (*at) {
		struct module *m = *at;

		if (m->used || m->failed || m == ms->vdso) {
			m->used = false;
			at = &m->next;
			continue;
		}
		*at = m->next;
		drop_module(ms, m);
	}
	ms->many = ms->n_files > MANY / 2 ? 2 * ms->n_files : MANY;
	if (ms->many > READER_FILES_MAX)
		ms->many = READER_FILES_MAX;
}

/* Its size, of which the ELF header at its start says the end of the last part. */
static size_t vdso_size(const Elf64_Ehdr *eh)
{
	size_t end = eh->e_shoff + (size_t)eh->e_shnum * eh->e_shentsize;

	return end;
}

struct module *modules_vdso(struct modules *ms)
{
	const struct file_key none = {};
	const Elf64_Ehdr *eh = (const Elf64_Ehdr *)getauxval(AT_SYSINFO_EHDR);
	int fd;

	if (ms->vdso || !eh)
		return ms->vdso;
	fd = memfd_create("vdso", MFD_CLOEXEC);
	if (fd < 0)
		return NULL;
	if (write(fd, eh, vdso_size(eh)) != (ssize_t)vdso_size(eh)) {
		close(fd);
		return NULL;
	}
	ms->vdso = new_module(ms, &none, "[vdso]");
	if (ms->vdso)
		open_module(ms, ms->vdso, 0, fd);
	else
		close(fd);
	return ms->vdso;
}

/* ---- places ---- */

static const struct row *keep_row(struct modules *ms, const struct row *row)
{
	uint32_t size = (uint32_t)(offsetof(struct row, ops) + row->n_ops * sizeof(row->ops[0]));
	struct row_entry *r;

	if (!row->known || row->n_ops > ROW_OPS_MAX)
		return NULL;
	HASH_FIND(hh, ms->rows, row, size, r);
	if (r)
		return &r->row;
	r = malloc(offsetof(struct row_entry, row) + size);
	if (!r)
		return NULL;
	r->size = size;
	memcpy(&r->row, row, size);
	HASH_ADD_KEYPTR(hh, ms->rows, &r->row, size, r);
	if (!r->hh.tbl) {
		free(r);
		return NULL;
	}
	ms->stats.memory += offsetof(struct row_entry, row) + size;
	return &r->row;
}

static uint32_t make_frame(struct modules *ms, const struct module *m, const struct place *p)
{
	struct frame f = {
		.name = intern_text(ms->in, p->name[0] ? p->name : "[unknown]"),
		.file = m->path,
		.build_id = m->build_id,
		.rel_pc = p->rel_pc,
		.kind = FRAME_NATIVE,
	};

	return f.name ? intern_frame(ms->in, &f) : INTERN_NONE;
}

/* The reader was replaced: opens the file for the new one. */
static int reopen(struct modules *ms, struct module *m, pid_t pid, const struct mapped_file *from)
{
	int fd;

	m->open = false;
	if (m == ms->vdso) {
		m->failed = true;
		return -EBADF;
	}
	if (file_open_mapped(pid, from, &fd))
		return -EBADF; /* for now: another process may have it */
	return open_module(ms, m, pid, fd);
}

static int ask(struct modules *ms, struct module *m, pid_t pid, const struct mapped_file *from, uint64_t offset)
{
	int err;

	memset(&ms->answer, 0, sizeof(ms->answer));
	if (m->failed)
		return -EBADF;
	if (!m->open || m->generation != reader_generation(ms->reader)) {
		err = reopen(ms, m, pid, from);
		if (err)
			return err;
	}
	ms->stats.lookups++;
	err = reader_place(ms->reader, m->number, offset, &ms->answer);
	if (err == -EPROTO && !m->failed) {
		m->failed = true;
		ms->stats.failed++;
	}
	return err;
}

static bool is_start(const char *name)
{
	return !strcmp(name, "_start") || !strcmp(name, "clone") || !strcmp(name, "clone3") || !strcmp(name, "__clone") ||
	       !strcmp(name, "__clone3");
}

/* The first range that ends behind the offset. */
static size_t find_known(const struct module *m, uint64_t offset)
{
	return bisect(m->n_known, k, m->known[k].to <= offset);
}

/* A file may say anything, so ranges are cut to what is not known yet. */
static void keep(struct modules *ms, struct module *m, size_t at, uint64_t offset, const struct spot *spot)
{
	struct known k = { .from = ms->answer.from, .to = ms->answer.to, .spot = *spot };

	if (k.from > offset || k.to <= offset) {
		k.from = offset;
		k.to = offset + 1;
	}
	if (at && k.from < m->known[at - 1].to)
		k.from = m->known[at - 1].to;
	if (at < m->n_known && k.to > m->known[at].from)
		k.to = m->known[at].from;
	if (m->n_known == m->cap_known) {
		size_t cap = m->cap_known ? 2 * m->cap_known : 16;
		struct known *known = realloc(m->known, cap * sizeof(*known));

		if (!known)
			return;
		ms->stats.memory += (cap - m->cap_known) * sizeof(*known);
		m->known = known;
		m->cap_known = cap;
	}
	memmove(m->known + at + 1, m->known + at, (m->n_known - at) * sizeof(*m->known));
	m->known[at] = k;
	m->n_known++;
	ms->n_known++;
}

struct spot modules_spot(struct modules *ms, struct module *m, pid_t pid, const struct mapped_file *from, uint64_t offset)
{
	size_t at = find_known(m, offset);
	struct spot spot = {};
	int err;

	if (at < m->n_known && m->known[at].from <= offset)
		return m->known[at].spot;
	if (ms->n_known >= PLACES_MAX || HASH_COUNT(ms->rows) >= ROWS_MAX) {
		drop_places(ms);
		at = 0;
	}
	err = ask(ms, m, pid, from, offset);
	spot.row = err ? NULL : keep_row(ms, &ms->answer.row);
	spot.fault = err == -EPROTO;
	spot.named = ms->answer.name[0];
	spot.starts = is_start(ms->answer.name);
	spot.evaluates = !strncmp(ms->answer.name, EVALUATES, strlen(EVALUATES));
	spot.frame = make_frame(ms, m, &ms->answer);
	if (!err)
		keep(ms, m, at, offset, &spot);
	return spot;
}

void modules_stats(const struct modules *ms, struct modules_stats *ret_stats)
{
	*ret_stats = ms->stats;
}
