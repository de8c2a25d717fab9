// SPDX-License-Identifier: BSD-2-Clause
#include "stack/lookup.h"

#include <dwarf.h>
#include <elf.h>
#include <elfutils/libdwfl.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <libiberty/demangle.h>
#include <limits.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "target/elf.h"
#include "target/file.h"
#include "util/list.h"
#include "util/map.h"
#include "util/text.h"

struct lookup_text {
	char *to;
	size_t len, max;
	jmp_buf full;
};

static void demangled_append(const char *s, size_t len, void *arg)
{
	struct lookup_text *t = arg;

	if (len > t->max - t->len)
		len = t->max - t->len;
	memcpy(t->to + t->len, s, len);
	t->len += len;
	/* The rest could be exponentially long. The callers hold no heap memory, so longjmp() leaks nothing. */
	if (t->len == t->max)
		longjmp(t->full, 1);
}

/* Rust names have the prefix _R, or a hash: 17h and 16 hex digits. */
static bool is_rust(const char *name)
{
	const char *hash = strstr(name, "17h");

	return !strncmp(name, "_R", 2) || (hash && strspn(hash + 3, "0123456789abcdef") == 16);
}

/* Returns the length without what compilers add for a copy or part of a function, and linkers for a symbol version. */
static size_t name_source_length(const char *name)
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
	struct lookup_text t = { .to = to, .max = size - 1 };
	const char *volatile name = mangled;
	volatile int done = 0;

	if (!strncmp(mangled, "_Z", 2) || !strncmp(mangled, "_R", 2) || !strncmp(mangled, "___Z", 4)) {
		if (setjmp(t.full))
			done = 1;
		else if (is_rust(name))
			done = rust_demangle_callback(name, DMGL_NO_OPTS, demangled_append, &t);
		else
			done = cplus_demangle_v3_callback(name, DMGL_NO_OPTS, demangled_append, &t);
	}
	if (!done || !t.len) {
		t.len = name_source_length(name);
		if (t.len > size - 1)
			t.len = size - 1;
		memcpy(to, name, t.len);
	}
	to[t.len] = '\0';
}

#define PLACES_MAX 65536
#define ROWS_MAX 8192
#define EVALUATES "_PyEval_EvalFrameDefault"
#define DELETED " (deleted)"
#define MANY 128 /* files: two processes or so */

struct file_key {
	uint64_t dev, ino;
};

/* What is known of the offsets in [from, to). */
struct known {
	uint64_t from, to;
	struct spot spot;
};

struct module {
	UT_hash_handle hh;
	struct module *next; /* in `all`: processes point to it even after its inode number was reused */
	struct file_key key;
	uint32_t number;
	unsigned int generation; /* of the reader that has it open */
	bool open, failed;
	bool used; /* see modules_use() */
	int64_t mtime_ns;
	int64_t size;
	const char *path, *build_id; /* interned */
	struct known *known;         /* sorted, none overlaps */
	size_t n_known, cap_known;
};

/* Rows repeat, so one copy of each is kept, without unused operations. */
struct row_entry {
	UT_hash_handle hh;
	struct row row;
};

struct modules {
	struct intern *in;
	struct reader *reader;
	struct module *files; /* the current ones */
	struct module *all;
	struct module *vdso;
	uint32_t n_files, many;          /* many: from so many on, unmapped files are dropped */
	uint32_t free[READER_FILES_MAX]; /* unused file numbers */
	uint32_t n_free, next_number;
	struct row_entry *rows;
	size_t n_known; /* ranges of all files */
	struct modules_stats stats;
	struct place answer;
};

int modules_new(struct intern *in, struct modules **ret_modules)
{
	struct reader *reader;
	int err = reader_new(&reader);

	if (err)
		return err;
	*ret_modules = xcalloc(1, sizeof(**ret_modules));
	(*ret_modules)->in = in;
	(*ret_modules)->many = MANY;
	(*ret_modules)->reader = reader;
	return 0;
}

/* Forgets all places and rows; the reader can be asked again. */
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

static const char *module_intern_path(struct intern *in, const char *path)
{
	size_t len = strlen(path);
	char buf[STACK_NAME_MAX];

	if (text_has_suffix(path, DELETED))
		len -= strlen(DELETED);
	/* the end of a long path says more */
	if (len >= sizeof(buf)) {
		path += len - sizeof(buf) + 1;
		len = sizeof(buf) - 1;
	}
	memcpy(buf, path, len);
	buf[len] = '\0';
	return intern_text(in, buf);
}

/* Opens the debug file that distributions install by build-id, on this system or in the root of the process. -1: there is none. */
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

/* The same by the .gnu_debuglink name, in the root of the process: beside the file, in .debug there, or below /usr/lib/debug. */
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

/* Takes over fd. */
static int open_with_debug(struct modules *ms, const struct module *m, pid_t pid, int fd, const char *build_id)
{
	int debug_fd = open_debug_file(pid, build_id), again = debug_fd < 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : -1, err;
	char link[READER_LINK_MAX];

	err = reader_open(ms->reader, m->number, fd, debug_fd, false);
	if (!err && again >= 0) {
		reader_link(ms->reader, link);
		debug_fd = open_linked_file(pid, m->path, link);
		if (debug_fd >= 0)
			return reader_open(ms->reader, m->number, again, debug_fd, true);
	}
	if (again >= 0)
		close(again);
	return err;
}

/* Gives the file to the reader. Takes over fd. */
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
	m = xcalloc(1, sizeof(*m));
	m->key = *key;
	m->number = ms->n_free ? ms->free[--ms->n_free] : ms->next_number++;
	m->path = module_intern_path(ms->in, path);
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
	int fd;

	*ret_fault = false;
	if (file_open_mapped(pid, from, &fd))
		return NULL;
	if (fstat(fd, &st)) {
		close(fd);
		return NULL;
	}
	mtime = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
	HASH_FIND(hh, ms->files, &key, sizeof(key), m);
	/* the inode number of a deleted file was reused, or the file rewritten; the old frames stay */
	if (m && (m->mtime_ns != mtime || m->size != st.st_size)) {
		HASH_DEL(ms->files, m);
		m = NULL;
	}
	if (m || !(m = new_module(ms, &key, from->path))) {
		close(fd);
		return m;
	}
	m->mtime_ns = mtime;
	m->size = st.st_size;
	HASH_ADD(hh, ms->files, key, sizeof(m->key), m);
	*ret_fault = open_module(ms, m, pid, fd) == -EPROTO;
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

/* A file that failed stays, so that it is not tried again. */
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

struct module *modules_vdso(struct modules *ms)
{
	const struct file_key none = {};
	const Elf64_Ehdr *eh = (const Elf64_Ehdr *)getauxval(AT_SYSINFO_EHDR);
	size_t size;
	int fd;

	if (ms->vdso || !eh)
		return ms->vdso;
	fd = memfd_create("vdso", MFD_CLOEXEC);
	if (fd < 0)
		return NULL;
	/* it ends with the section headers */
	size = eh->e_shoff + (size_t)eh->e_shnum * eh->e_shentsize;
	if (write(fd, eh, size) != (ssize_t)size) {
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
	r = xmalloc(offsetof(struct row_entry, row) + size);
	memcpy(&r->row, row, size);
	HASH_ADD_KEYPTR(hh, ms->rows, &r->row, size, r);
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

	return intern_frame(ms->in, &f);
}

/* The reader was replaced: opens the file for the new one. */
static int module_reopen(struct modules *ms, struct module *m, pid_t pid, const struct mapped_file *from)
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

static int module_read_place(struct modules *ms, struct module *m, pid_t pid, const struct mapped_file *from, uint64_t offset)
{
	int err;

	memset(&ms->answer, 0, sizeof(ms->answer));
	if (m->failed)
		return -EBADF;
	if (!m->open || m->generation != reader_generation(ms->reader)) {
		err = module_reopen(ms, m, pid, from);
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

static bool is_thread_start(const char *name)
{
	return !strcmp(name, "_start") || !strcmp(name, "clone") || !strcmp(name, "clone3") || !strcmp(name, "__clone") ||
	       !strcmp(name, "__clone3");
}

/* A file may claim any range, so it is cut to what is not known yet. */
static void module_keep_range(struct modules *ms, struct module *m, size_t at, uint64_t offset, const struct spot *spot)
{
	struct known k = { .from = ms->answer.from, .to = ms->answer.to, .spot = *spot };
	size_t cap;

	if (k.from > offset || k.to <= offset) {
		k.from = offset;
		k.to = offset + 1;
	}
	if (at && k.from < m->known[at - 1].to)
		k.from = m->known[at - 1].to;
	if (at < m->n_known && k.to > m->known[at].from)
		k.to = m->known[at].from;
	cap = m->cap_known;
	list_push(m->known, m->n_known, m->cap_known);
	ms->stats.memory += (m->cap_known - cap) * sizeof(*m->known);
	memmove(m->known + at + 1, m->known + at, (m->n_known - 1 - at) * sizeof(*m->known));
	m->known[at] = k;
	ms->n_known++;
}

struct spot modules_spot(struct modules *ms, struct module *m, pid_t pid, const struct mapped_file *from, uint64_t offset)
{
	size_t at = bisect(m->n_known, k, m->known[k].to <= offset); /* the first range that ends after it */
	struct spot spot = {};
	int err;

	if (at < m->n_known && m->known[at].from <= offset)
		return m->known[at].spot;
	if (ms->n_known >= PLACES_MAX || HASH_COUNT(ms->rows) >= ROWS_MAX) {
		drop_places(ms);
		at = 0;
	}
	err = module_read_place(ms, m, pid, from, offset);
	spot.row = err ? NULL : keep_row(ms, &ms->answer.row);
	spot.fault = err == -EPROTO;
	spot.named = ms->answer.name[0];
	spot.starts = is_thread_start(ms->answer.name);
	spot.evaluates = !strncmp(ms->answer.name, EVALUATES, strlen(EVALUATES));
	spot.frame = make_frame(ms, m, &ms->answer);
	if (!err)
		module_keep_range(ms, m, at, offset, &spot);
	return spot;
}

void modules_stats(const struct modules *ms, struct modules_stats *ret_stats)
{
	*ret_stats = ms->stats;
}

/* ---- one file ---- */

#define SYMBOLS_MAX (4 << 20)
#define LOADS_MAX 32
/* Its cold parts must get its name: much of the interpreter's code is in them (CPython 3.14 built by GCC 16). */
#define PARTED "_PyEval_EvalFrameDefault"
#define NESTED_MAX 16 /* symbols to look back through for one that includes the place */

struct lookup_symbol {
	uint64_t start;
	uint32_t size; /* 0: to the next one */
	int32_t index;
};

struct lookup_load {
	uint64_t offset, size, vaddr;
};

struct lookup {
	Dwfl *dwfl;
	Dwfl_Module *mod;
	int debug_fd; /* -1: none, or passed on */
	GElf_Addr bias;
	struct lookup_load loads[LOADS_MAX];
	size_t n_loads;
	Dwarf_CFI *eh, *debug;
	Dwarf_Addr eh_bias, debug_bias;
	bool no_eh, no_debug;
	struct lookup_symbol *symbols;
	size_t n_symbols;
	bool symbols_read;
	/* the parts of PARTED */
	uint64_t parts[COLD_MAX];
	size_t n_parts;
	bool parts_read;
};

/* Callers pass open files; libdw must never search for one itself. */
static int find_elf(Dwfl_Module *mod, void **data, const char *name, Dwarf_Addr base, char **file, Elf **elf)
{
	(void)mod, (void)data, (void)name, (void)base, (void)file, (void)elf;
	return -1;
}

static int find_debuginfo(Dwfl_Module *mod, void **data, const char *name, Dwarf_Addr base, const char *file,
	const char *link, GElf_Word crc, char **debug_file)
{
	struct lookup *l = *data;
	int fd = l ? l->debug_fd : -1;

	(void)mod, (void)name, (void)base, (void)file, (void)link, (void)crc, (void)debug_file;
	if (fd >= 0)
		l->debug_fd = -1;
	return fd;
}

static const Dwfl_Callbacks callbacks = {
	.find_elf = find_elf,
	.find_debuginfo = find_debuginfo,
	.section_address = dwfl_offline_section_address,
};

static int lookup_read_loads(struct lookup *l, Elf *elf)
{
	size_t n;

	if (elf_getphdrnum(elf, &n))
		return -EBADMSG;
	for (size_t i = 0; i < n && l->n_loads < LOADS_MAX; i++) {
		GElf_Phdr ph;

		if (!gelf_getphdr(elf, (int)i, &ph))
			return -EBADMSG;
		if (ph.p_type == PT_LOAD && (ph.p_flags & PF_X))
			l->loads[l->n_loads++] = (struct lookup_load){ ph.p_offset, ph.p_filesz, ph.p_vaddr };
	}
	return l->n_loads ? 0 : -ENOEXEC;
}

/* ---- .gnu_debuglink: a name, padded to 4 bytes, and the checksum of the file ---- */

static const char *find_link(Elf *elf, uint32_t *ret_crc)
{
	size_t names, len;
	Elf_Scn *scn = NULL;

	if (elf_getshdrstrndx(elf, &names))
		return NULL;
	while ((scn = elf_nextscn(elf, scn))) {
		const char *name;
		Elf_Data *data;
		GElf_Shdr sh;

		if (!gelf_getshdr(scn, &sh) || sh.sh_type == SHT_NOBITS)
			continue;
		name = elf_strptr(elf, names, sh.sh_name);
		if (!name || strcmp(name, ".gnu_debuglink"))
			continue;
		data = elf_rawdata(scn, NULL);
		if (!data || !data->d_buf)
			return NULL;
		len = strnlen(data->d_buf, data->d_size);
		if (!len || (len / 4 + 1) * 4 + sizeof(*ret_crc) > data->d_size)
			return NULL;
		memcpy(ret_crc, (const char *)data->d_buf + (len / 4 + 1) * 4, sizeof(*ret_crc));
		return data->d_buf;
	}
	return NULL;
}

static bool has_checksum(int fd, uint32_t crc)
{
	static unsigned char buf[1 << 16];
	uLong sum = crc32(0, NULL, 0);
	off_t at = 0;
	ssize_t n;

	while ((n = pread(fd, buf, sizeof(buf), at)) > 0) {
		sum = crc32(sum, buf, (uInt)n);
		at += n;
	}
	return !n && sum == crc;
}

/* A link with a path is refused, since it could lead anywhere. */
void lookup_link(const struct lookup *l, char *to, size_t size)
{
	GElf_Addr bias;
	uint32_t crc;
	const char *name = find_link(dwfl_module_getelf(l->mod, &bias), &crc);

	*to = '\0';
	if (name && strlen(name) < size && !strchr(name, '/') && strcmp(name, ".") && strcmp(name, ".."))
		strcpy(to, name);
}

int lookup_open(int fd, int debug_fd, bool linked, struct lookup **ret_lookup)
{
	struct lookup *l = xcalloc(1, sizeof(*l));
	int err = -ENOEXEC;
	void **data;
	uint32_t crc;
	Elf *elf;

	l->debug_fd = debug_fd;
	l->dwfl = dwfl_begin(&callbacks);
	if (!l->dwfl)
		out_of_memory();
	dwfl_report_begin(l->dwfl);
	l->mod = dwfl_report_elf(l->dwfl, "file", "file", fd, 0, true);
	if (!l->mod)
		goto out;
	fd = -1; /* it is libdw's now */
	dwfl_report_end(l->dwfl, NULL, NULL);
	if (!dwfl_module_info(l->mod, &data, NULL, NULL, NULL, NULL, NULL, NULL))
		goto out;
	*data = l;
	elf = dwfl_module_getelf(l->mod, &l->bias);
	if (!elf)
		goto out;
	if (linked && l->debug_fd >= 0 && (!find_link(elf, &crc) || !has_checksum(l->debug_fd, crc))) {
		close(l->debug_fd);
		l->debug_fd = -1;
	}
	err = lookup_read_loads(l, elf);
out:
	if (fd >= 0)
		close(fd);
	if (err)
		lookup_close(l);
	else
		*ret_lookup = l;
	return err;
}

void lookup_close(struct lookup *l)
{
	if (!l)
		return;
	if (l->debug_fd >= 0)
		close(l->debug_fd);
	dwfl_end(l->dwfl);
	free(l->symbols);
	free(l);
}

/* ---- call frame information ---- */

static int rule_copy_ops(struct row *row, struct rule *rule, const Dwarf_Op *ops, size_t n)
{
	if (n > ROW_OPS_MAX - (size_t)row->n_ops)
		return -E2BIG;
	rule->op = row->n_ops;
	rule->n_ops = (uint8_t)n;
	for (size_t i = 0; i < n; i++) {
		row->ops[row->n_ops++] = (struct row_op){
			.atom = ops[i].atom, .number = (int64_t)ops[i].number, .number2 = (int64_t)ops[i].number2
		};
	}
	return 0;
}

static bool is_int32(int64_t v)
{
	return v == (int32_t)v;
}

static int row_set_cfa(struct row *row, Dwarf_Frame *frame)
{
	Dwarf_Op *ops;
	size_t n;

	if (dwarf_frame_cfa(frame, &ops, &n) || !n)
		return -EBADMSG;
	if (n == 1 && ops->atom == DW_OP_bregx && ops->number < ROW_REGS && is_int32((int64_t)ops->number2)) {
		row->cfa = (struct rule){
			.kind = RULE_REG, .reg = (uint8_t)ops->number, .offset = (int32_t)ops->number2
		};
		return 0;
	}
	row->cfa.kind = RULE_IS_EXPR;
	return rule_copy_ops(row, &row->cfa, ops, n);
}

static int row_set_register(struct row *row, Dwarf_Frame *frame, int reg)
{
	struct rule *rule = &row->regs[reg];
	Dwarf_Op mem[3], *ops;
	bool value;
	size_t n;

	if (dwarf_frame_register(frame, reg, mem, &ops, &n))
		return -EBADMSG;
	if (!n) {
		rule->kind = ops == mem ? RULE_UNDEFINED : RULE_SAME;
		return 0;
	}
	if (n == 1 && ops->atom == DW_OP_regx && ops->number < ROW_REGS) {
		rule->kind = RULE_REG;
		rule->reg = (uint8_t)ops->number;
		return 0;
	}
	value = ops[n - 1].atom == DW_OP_stack_value;
	n -= value;
	if (n && n <= 2 && ops[0].atom == DW_OP_call_frame_cfa &&
		(n == 1 || (ops[1].atom == DW_OP_plus_uconst && is_int32((int64_t)ops[1].number)))) {
		rule->kind = value ? RULE_IS : RULE_AT;
		rule->offset = n == 1 ? 0 : (int32_t)ops[1].number;
		return 0;
	}
	rule->kind = value ? RULE_IS_EXPR : RULE_AT_EXPR;
	return rule_copy_ops(row, rule, ops, n);
}

/* Addresses in [from, to). */
struct range {
	Dwarf_Addr from, to;
};

/* ret_range: the addresses for which the row is valid. */
static int read_row(Dwarf_CFI *cfi, Dwarf_Addr at, struct row *row, struct range *ret_range)
{
	Dwarf_Frame *frame;
	bool signal;
	int ra, err;

	memset(row, 0, sizeof(*row));
	if (dwarf_cfi_addrframe(cfi, at, &frame))
		return -ENOENT;
	ra = dwarf_frame_info(frame, &ret_range->from, &ret_range->to, &signal);
	err = ra < 0 || ra >= ROW_REGS ? -EBADMSG : row_set_cfa(row, frame);
	for (int reg = 0; !err && reg < ROW_REGS; reg++)
		err = row_set_register(row, frame, reg);
	row->ra = (uint8_t)ra;
	row->signal = signal;
	row->known = !err;
	free(frame);
	return err;
}

/* Looks in one of the file's two tables of call frame information; cfi is NULL if it is missing. */
static bool find_row_in(Dwarf_CFI *cfi, Dwarf_Addr bias, Dwarf_Addr at, struct row *row, struct range *range)
{
	if (!cfi || read_row(cfi, at - bias, row, range))
		return false;
	range->from += bias;
	range->to += bias;
	return true;
}

/* at: with libdw's bias. */
static void find_row(struct lookup *l, Dwarf_Addr at, struct row *row, struct range *range)
{
	if (!l->eh && !l->no_eh) {
		l->eh = dwfl_module_eh_cfi(l->mod, &l->eh_bias);
		l->no_eh = !l->eh;
	}
	if (find_row_in(l->eh, l->eh_bias, at, row, range))
		return;
	if (!l->debug && !l->no_debug) {
		l->debug = dwfl_module_dwarf_cfi(l->mod, &l->debug_bias);
		l->no_debug = !l->debug;
	}
	if (find_row_in(l->debug, l->debug_bias, at, row, range))
		return;
	memset(row, 0, sizeof(*row));
	*range = (struct range){ at, at + 1 };
}

/* ---- names ---- */

static const char *symbol_name(const struct lookup *l, const struct lookup_symbol *s, GElf_Sym *ret_sym)
{
	GElf_Addr addr;

	return dwfl_module_getsym_info(l->mod, s->index, ret_sym, &addr, NULL, NULL, NULL);
}

/* Of two names for one place, the better one has a size, is global, has fewer leading underscores, is longer, in this order. */
static bool symbol_is_better(struct lookup *l, const struct lookup_symbol *a, const struct lookup_symbol *b)
{
	GElf_Sym sa, sb;
	const char *na, *nb;
	size_t ua, ub;

	if (!a->size != !b->size)
		return a->size;
	na = symbol_name(l, a, &sa);
	nb = symbol_name(l, b, &sb);
	if (!na || !nb)
		return na;
	if ((GELF_ST_BIND(sa.st_info) == STB_LOCAL) != (GELF_ST_BIND(sb.st_info) == STB_LOCAL))
		return GELF_ST_BIND(sb.st_info) == STB_LOCAL;
	ua = strspn(na, "_");
	ub = strspn(nb, "_");
	return ua != ub ? ua < ub : strlen(na) > strlen(nb);
}

static int elf_symbol_compare(const void *a, const void *b)
{
	const struct lookup_symbol *sa = a, *sb = b;

	if (sa->start != sb->start)
		return sa->start < sb->start ? -1 : 1;
	return sa->index < sb->index ? -1 : sa->index > sb->index;
}

static bool is_code(const struct lookup *l, GElf_Addr addr)
{
	for (size_t i = 0; i < l->n_loads; i++) {
		if (addr - l->bias - l->loads[i].vaddr < l->loads[i].size)
			return true;
	}
	return false;
}

/* Keeps the best of several names for one place. */
static void symbols_drop_aliases(struct lookup *l)
{
	size_t kept = 0;

	for (size_t i = 0; i < l->n_symbols; i++) {
		if (kept && l->symbols[kept - 1].start == l->symbols[i].start) {
			if (symbol_is_better(l, &l->symbols[i], &l->symbols[kept - 1]))
				l->symbols[kept - 1] = l->symbols[i];
			continue;
		}
		l->symbols[kept++] = l->symbols[i];
	}
	l->n_symbols = kept;
}

/* Reads and sorts the symbols, since libdw's own search is linear. */
static void lookup_read_symbols(struct lookup *l)
{
	int n = dwfl_module_getsymtab(l->mod);

	l->symbols_read = true;
	if (n <= 0)
		return;
	if (n > SYMBOLS_MAX)
		n = SYMBOLS_MAX;
	l->symbols = xcalloc((size_t)n, sizeof(*l->symbols));
	for (int i = 1; i < n; i++) {
		GElf_Sym sym;
		GElf_Addr addr;
		GElf_Word shndx;
		const char *name = dwfl_module_getsym_info(l->mod, i, &sym, &addr, &shndx, NULL, NULL);
		int type = name ? GELF_ST_TYPE(sym.st_info) : STT_SECTION;

		if (!name || !*name || *name == '$' || shndx == SHN_UNDEF || !is_code(l, addr) ||
			(type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE))
			continue;
		l->symbols[l->n_symbols++] = (struct lookup_symbol){
			.start = addr, .size = sym.st_size > UINT32_MAX ? UINT32_MAX : (uint32_t)sym.st_size, .index = i
		};
	}
	qsort(l->symbols, l->n_symbols, sizeof(*l->symbols), elf_symbol_compare);
	symbols_drop_aliases(l);
}

static bool same_section(struct lookup *l, Dwarf_Addr a, Dwarf_Addr b)
{
	Dwarf_Addr bias;
	Elf_Scn *of_a = dwfl_module_address_section(l->mod, &a, &bias);
	Elf_Scn *of_b = dwfl_module_address_section(l->mod, &b, &bias);

	return of_a && of_a == of_b;
}

/* Returns the symbol of an address, or NULL, and narrows the range to the addresses around it with the same result. */
static const struct lookup_symbol *find_symbol(struct lookup *l, Dwarf_Addr at, struct range *range)
{
	size_t lo;

	if (!l->symbols_read)
		lookup_read_symbols(l);
	lo = bisect(l->n_symbols, k, l->symbols[k].start <= at);
	if (lo < l->n_symbols && l->symbols[lo].start < range->to)
		range->to = l->symbols[lo].start;
	for (size_t back = 0; back < NESTED_MAX && back < lo; back++) {
		const struct lookup_symbol *s = &l->symbols[lo - 1 - back];

		/* a symbol without a size extends to the next, but not into another section: _init does not name the PLT */
		if (s->size ? at - s->start < s->size : !back && same_section(l, s->start, at)) {
			if (s->start > range->from)
				range->from = s->start;
			if (s->size && s->start + s->size < range->to)
				range->to = s->start + s->size;
			return s;
		}
		if (s->start + s->size > range->from)
			range->from = s->start + s->size;
	}
	return NULL;
}

static bool lookup_find_vaddr(const struct lookup *l, uint64_t offset, uint64_t *ret_vaddr)
{
	for (size_t i = 0; i < l->n_loads; i++) {
		if (offset - l->loads[i].offset < l->loads[i].size) {
			*ret_vaddr = offset - l->loads[i].offset + l->loads[i].vaddr;
			return true;
		}
	}
	return false;
}

static void lookup_read_parts(struct lookup *l)
{
	Elf *elf = dwfl_module_getelf(l->mod, &l->bias);

	l->parts_read = true;
	for (size_t i = 0; elf && i < l->n_symbols; i++) {
		const struct lookup_symbol *s = &l->symbols[i];
		uint64_t vaddr = s->start - l->bias;
		GElf_Sym sym;
		const char *name = symbol_name(l, s, &sym);

		if (!name || strcmp(name, PARTED))
			continue;
		for (size_t j = 0; j < l->n_loads; j++) {
			const struct lookup_load *load = &l->loads[j];

			if (vaddr - load->vaddr < load->size)
				l->n_parts = cold_parts(elf, vaddr, vaddr - load->vaddr + load->offset, s->size, l->parts);
		}
		break;
	}
}

/* Returns the name of a cold part without a symbol, or NULL. */
static const char *lookup_find_part(struct lookup *l, uint64_t vaddr, Dwarf_Addr *start)
{
	uint64_t function;

	if (!l->parts_read)
		lookup_read_parts(l);
	if (!l->n_parts)
		return NULL;
	function = cold_function(dwfl_module_getelf(l->mod, &l->bias), vaddr);
	for (size_t i = 0; i < l->n_parts; i++) {
		if (l->parts[i] == function) {
			*start = function + l->bias;
			return PARTED ".cold";
		}
	}
	return NULL;
}

int lookup_place(struct lookup *l, uint64_t offset, struct place *ret_place)
{
	const struct lookup_symbol *s;
	const char *name;
	struct range range;
	Dwarf_Addr at, start;
	GElf_Sym sym;
	uint64_t vaddr;

	if (!lookup_find_vaddr(l, offset, &vaddr))
		return -ENXIO;
	at = vaddr + l->bias;
	find_row(l, at, &ret_place->row, &range);
	start = range.from;
	s = find_symbol(l, at, &range);
	/* a signal trampoline was not called, so its address is its start, not behind a call */
	if (!s && ret_place->row.signal) {
		range = (struct range){ at, at + 1 };
		s = find_symbol(l, at + 1, &range);
		range = (struct range){ at, at + 1 };
	}
	if (s) {
		name = symbol_name(l, s, &sym);
		start = s->start;
	} else {
		name = lookup_find_part(l, vaddr, &start);
	}
	ret_place->rel_pc = start - l->bias;
	ret_place->from = offset - (at - range.from);
	ret_place->to = offset + (range.to - at);
	memset(ret_place->name, 0, sizeof(ret_place->name));
	if (name)
		demangle(name, ret_place->name, sizeof(ret_place->name));
	return 0;
}
