// SPDX-License-Identifier: BSD-2-Clause
#include "target/elf.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <gelf.h>
#include <libelf.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "target/code.h"
#include "target/file.h"
#include "util/list.h"
#include "util/text.h"

/*
 * Limits that no real file comes near (libtorch_cuda.so, the largest known: 1.4 GB, under 2 M
 * symbols), so that a forged one cannot exhaust the machine: a sparse file of any size is easy to
 * make.
 */
#define SECTIONS_MAX (64u << 10)
#define TABLE_BYTES_MAX (128u << 20) /* symbols and strings of one table */
#define NAME_LEN_MAX 4096            /* longer names are left out: nobody can type them */
#define SECTION_NAMES_MAX (4u << 20) /* bytes */
/* All names of a table together may be this many times as long as its strings: a forged table whose
 * symbols all share one long string would cost hours. Linkers share only a few names. */
#define SHARING_MAX 16

enum table_id {
	TABLE_SYMTAB,
	TABLE_DYNSYM,
	TABLE_MAX,
};

/* Ranks of symbols with the same name. */
#define RANK_DEFAULT_VERSION 1
#define RANK_WEAK 2
#define RANK_GLOBAL 4

struct elf_entry {
	uint64_t hash;
	const char *name;
	uint64_t vaddr;
	uint64_t size;
	uint32_t index; /* in the table: the tie-breaker that makes every order total */
	uint16_t len;
	uint8_t type; /* STT_FUNC or STT_OBJECT */
	uint8_t rank;
};

struct table {
	bool loaded;
	char *strings;
	struct elf_entry *entries; /* by hash, best rank first */
	size_t n;
};

struct elf_load {
	uint64_t vaddr, offset, filesz, memsz;
	bool exec;
};

struct elf_file {
	int fd;
	Elf *elf;
	uint64_t size;
	Elf64_Ehdr header;
	struct elf_load loads[ELF_SEGMENTS_MAX];
	int n_loads;
	struct table tables[TABLE_MAX];
};

static bool elf_has_range(const struct elf_file *elf, uint64_t offset, uint64_t len)
{
	return offset <= elf->size && len <= elf->size - offset;
}

int elf_read_at_offset(struct elf_file *elf, uint64_t offset, void *buf, size_t len)
{
	char *p = buf;

	if (offset > INT64_MAX || len > INT64_MAX - offset)
		return -ENODATA;
	while (len) {
		ssize_t n = pread(elf->fd, p, len, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			return -ENODATA;
		p += n;
		offset += (uint64_t)n;
		len -= (size_t)n;
	}
	return 0;
}

/* The same, but -EBADMSG if the file is too short. */
static int elf_read_exactly(struct elf_file *elf, uint64_t offset, void *buf, size_t len)
{
	int err = elf_read_at_offset(elf, offset, buf, len);

	return err == -ENODATA ? -EBADMSG : err;
}

/* Copies a part of the file, of a size that the caller bounds, and adds a NUL. The caller frees it. */
static int read_part(struct elf_file *elf, uint64_t offset, uint64_t len, void **ret_buf)
{
	char *buf;
	int err;

	if (!elf_has_range(elf, offset, len))
		return -EBADMSG;
	buf = xmalloc(len + 1);
	err = elf_read_exactly(elf, offset, buf, len);
	if (err) {
		free(buf);
		return err;
	}
	buf[len] = '\0';
	*ret_buf = buf;
	return 0;
}

/*
 * Checks what libelf would trust: it allocates for the section count before it looks at the
 * sections, and with e_shnum 0 that count is any 64-bit number (gABI, "sh_size" of section 0).
 */
static int check_header(struct elf_file *elf)
{
	Elf64_Ehdr *eh = &elf->header;
	Elf64_Shdr sh0;
	uint64_t shnum;
	int err;

	err = elf_read_at_offset(elf, 0, eh, SELFMAG);
	if (err || memcmp(eh->e_ident, ELFMAG, SELFMAG))
		return err && err != -ENODATA ? err : -ENOEXEC;
	err = elf_read_exactly(elf, 0, eh, sizeof(*eh));
	if (err)
		return err;
	if (eh->e_ident[EI_CLASS] != ELFCLASS64 || eh->e_ident[EI_DATA] != ELFDATA2LSB ||
		(eh->e_machine != EM_X86_64 && eh->e_machine != EM_AARCH64) || (eh->e_type != ET_EXEC && eh->e_type != ET_DYN))
		return -EOPNOTSUPP;
	if (eh->e_phnum && (eh->e_phentsize != sizeof(Elf64_Phdr) || eh->e_phoff > INT64_MAX / 2))
		return -EBADMSG;
	if (!eh->e_shoff)
		return 0;
	if (eh->e_shentsize != sizeof(Elf64_Shdr) || eh->e_shoff > INT64_MAX)
		return -EBADMSG;
	shnum = eh->e_shnum;
	if (!shnum) {
		err = elf_read_exactly(elf, eh->e_shoff, &sh0, sizeof(sh0));
		if (err)
			return err;
		shnum = sh0.sh_size;
	}
	if (shnum > SECTIONS_MAX || !elf_has_range(elf, eh->e_shoff, shnum * sizeof(Elf64_Shdr)))
		return -EBADMSG;
	return 0;
}

static int elf_read_loads(struct elf_file *elf)
{
	unsigned int i = 0;
	Elf64_Phdr ph;
	int more;

	while ((more = elf_segment_next(elf->fd, &elf->header, PT_LOAD, &i, &ph)) > 0) {
		if (!elf_has_range(elf, ph.p_offset, ph.p_filesz))
			return -EBADMSG;
		elf->loads[elf->n_loads++] = (struct elf_load){
			.vaddr = ph.p_vaddr,
			.offset = ph.p_offset,
			.filesz = ph.p_filesz,
			.memsz = ph.p_memsz,
			.exec = ph.p_flags & PF_X,
		};
	}
	return more ? -EBADMSG : 0;
}

int elf_open(const char *path, struct elf_file **ret_elf)
{
	/* O_NONBLOCK: a FIFO in place of a library must not block us */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	return fd < 0 ? -errno : elf_open_fd(fd, ret_elf);
}

int elf_open_fd(int fd, struct elf_file **ret_elf)
{
	struct elf_file *elf = xcalloc(1, sizeof(*elf));
	struct stat st;
	int err;

	elf->fd = fd;
	if (fstat(elf->fd, &st) < 0)
		err = -errno;
	else if (!S_ISREG(st.st_mode))
		err = S_ISDIR(st.st_mode) ? -EISDIR : -ENOEXEC;
	else
		err = 0;
	elf->size = err ? 0 : (uint64_t)st.st_size;
	if (!err)
		err = check_header(elf);
	if (!err) {
		elf_version(EV_CURRENT);
		/* not ELF_C_READ_MMAP: a file that shrinks meanwhile would kill us with SIGBUS */
		elf->elf = elf_begin(elf->fd, ELF_C_READ, NULL);
		err = elf->elf && elf_kind(elf->elf) == ELF_K_ELF ? elf_read_loads(elf) : -EBADMSG;
	}
	if (err) {
		elf_close(elf);
		return err;
	}
	*ret_elf = elf;
	return 0;
}

void elf_close(struct elf_file *elf)
{
	if (!elf)
		return;
	for (int t = 0; t < TABLE_MAX; t++) {
		free(elf->tables[t].entries);
		free(elf->tables[t].strings);
	}
	elf_end(elf->elf);
	close(elf->fd);
	free(elf);
}

int elf_machine(const struct elf_file *elf)
{
	return elf->header.e_machine;
}

/* The loaded part that contains vaddr in memory (in_mem) or in the file, or NULL. */
static const struct elf_load *load_find(const struct elf_file *elf, uint64_t vaddr, bool in_mem)
{
	for (int i = 0; i < elf->n_loads; i++) {
		const struct elf_load *l = &elf->loads[i];

		if (vaddr >= l->vaddr && vaddr - l->vaddr < (in_mem ? l->memsz : l->filesz))
			return l;
	}
	return NULL;
}

int elf_vaddr_to_offset(const struct elf_file *elf, uint64_t vaddr, uint64_t *ret_offset)
{
	const struct elf_load *l = load_find(elf, vaddr, false);

	if (!l)
		return -ENXIO;
	*ret_offset = vaddr - l->vaddr + l->offset;
	return 0;
}

/* Whether the address as linked is in a part of the file that is executed. */
static bool elf_is_code(const struct elf_file *elf, uint64_t vaddr)
{
	const struct elf_load *l = load_find(elf, vaddr, false);

	return l && l->exec;
}

/* FNV-1a. A collision costs one more comparison, so it does not have to withstand an attacker. */
static uint64_t symbol_name_hash(const char *name, size_t len)
{
	uint64_t h = 0xcbf29ce484222325;

	for (size_t i = 0; i < len; i++)
		h = (h ^ (uint8_t)name[i]) * 0x100000001b3;
	return h;
}

static int entry_cmp(const void *a, const void *b)
{
	const struct elf_entry *x = a, *y = b;

	if (x->hash != y->hash)
		return x->hash < y->hash ? -1 : 1;
	if (x->rank != y->rank)
		return x->rank > y->rank ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

/*
 * "f.cold", "f.cold.1": the unlikely part of f, which the compiler moved away. It is jumped to with
 * f's frame in place, so a return probe there would overwrite a local variable of the target.
 */
static bool is_cold_part(const char *name)
{
	const char *cold = strstr(name, ".cold");

	return cold && (!cold[5] || cold[5] == '.');
}

/* Whether a symbol can be looked up: defined, of a kept type, in a loaded part. */
static bool entry_make(const struct elf_file *elf, const Elf64_Sym *sym, const char *strings,
	uint64_t strings_len, struct elf_entry *ret_entry)
{
	int type = ELF64_ST_TYPE(sym->st_info), bind = ELF64_ST_BIND(sym->st_info);
	const struct elf_load *l;
	const char *name;
	size_t len;

	if (sym->st_shndx == SHN_UNDEF || (type != STT_FUNC && type != STT_OBJECT))
		return false;
	/* absolute ones (versions such as GLIBC_2.34) have no place in the file */
	if (sym->st_shndx == SHN_ABS || sym->st_shndx == SHN_COMMON || !sym->st_value)
		return false;
	l = load_find(elf, sym->st_value, type == STT_OBJECT);
	if (!l || (type == STT_FUNC && (!l->exec || !(sym->st_value - l->vaddr + l->offset))))
		return false;
	if (sym->st_name >= strings_len)
		return false;
	name = strings + sym->st_name;
	len = strnlen(name, NAME_LEN_MAX + 1); /* at the latest ends at the NUL after the table */
	if (len > NAME_LEN_MAX)
		return false;
	*ret_entry = (struct elf_entry){
		.name = name,
		.vaddr = sym->st_value,
		.size = sym->st_size,
		.len = (uint16_t)(strchrnul(name, '@') - name),
		.type = (uint8_t)type,
		.rank = RANK_DEFAULT_VERSION,
	};
	if (!ret_entry->len || !strcmp(name + ret_entry->len, "@plt"))
		return false;
	if (type == STT_FUNC && is_cold_part(name))
		return false;
	if (name[ret_entry->len] == '@' && name[ret_entry->len + 1] != '@')
		ret_entry->rank = 0;
	if (bind == STB_GLOBAL || bind == STB_GNU_UNIQUE)
		ret_entry->rank |= RANK_GLOBAL;
	else if (bind == STB_WEAK)
		ret_entry->rank |= RANK_WEAK;
	ret_entry->hash = symbol_name_hash(name, ret_entry->len);
	return true;
}

static Elf_Scn *section_find(const struct elf_file *elf, uint32_t type, GElf_Shdr *ret_sh)
{
	Elf_Scn *scn = NULL;

	while ((scn = elf_nextscn(elf->elf, scn)))
		if (gelf_getshdr(scn, ret_sh) && ret_sh->sh_type == type)
			return scn;
	return NULL;
}

/* Names in .dynsym carry no version: the hidden bit tells which are older. */
static int elf_read_versions(struct elf_file *elf, uint64_t n_syms, uint16_t **ret_versions)
{
	GElf_Shdr sh;

	if (!section_find(elf, SHT_GNU_versym, &sh) || sh.sh_size / sizeof(uint16_t) < n_syms)
		return 0;
	return read_part(elf, sh.sh_offset, n_syms * sizeof(uint16_t), (void **)ret_versions);
}

static int table_load(struct elf_file *elf, enum table_id id)
{
	struct table *t = &elf->tables[id];
	uint16_t *versions = NULL;
	Elf64_Sym *syms = NULL;
	GElf_Shdr sh, str_sh;
	uint64_t n_syms, names_len = 0;
	size_t cap = 0;
	int err = 0;

	if (t->loaded)
		return 0;
	if (!section_find(elf, id == TABLE_SYMTAB ? SHT_SYMTAB : SHT_DYNSYM, &sh)) {
		t->loaded = true;
		return 0;
	}
	n_syms = sh.sh_size / sizeof(*syms);
	if (sh.sh_entsize != sizeof(*syms) ||
		!gelf_getshdr(elf_getscn(elf->elf, sh.sh_link), &str_sh) || str_sh.sh_type != SHT_STRTAB)
		return -EBADMSG;
	if (!elf_has_range(elf, sh.sh_offset, sh.sh_size) || !elf_has_range(elf, str_sh.sh_offset, str_sh.sh_size))
		return -EBADMSG;
	if (sh.sh_size > TABLE_BYTES_MAX || str_sh.sh_size > TABLE_BYTES_MAX - sh.sh_size)
		return -EOVERFLOW;
	err = read_part(elf, str_sh.sh_offset, str_sh.sh_size, (void **)&t->strings);
	if (!err)
		err = read_part(elf, sh.sh_offset, n_syms * sizeof(*syms), (void **)&syms);
	if (!err && id == TABLE_DYNSYM)
		err = elf_read_versions(elf, n_syms, &versions);
	if (err)
		goto out;
	for (uint32_t i = 0; i < n_syms; i++) {
		struct elf_entry made, *e;

		if (!entry_make(elf, &syms[i], t->strings, str_sh.sh_size, &made))
			continue;
		names_len += made.len;
		err = names_len > SHARING_MAX * str_sh.sh_size ? -EBADMSG : 0;
		if (err)
			goto out;
		e = list_push(t->entries, t->n, cap);
		*e = made;
		e->index = i;
		if (versions && (versions[i] & 0x8000))
			e->rank &= ~RANK_DEFAULT_VERSION;
	}
	/* versions are cut off only now, since symbols may share a string */
	for (size_t i = 0; i < t->n; i++)
		t->strings[t->entries[i].name - t->strings + t->entries[i].len] = '\0';
	if (t->n)
		qsort(t->entries, t->n, sizeof(*t->entries), entry_cmp);
	t->loaded = true;
out:
	if (err) {
		free(t->strings);
		free(t->entries);
		*t = (struct table){ 0 };
	}
	free(versions);
	free(syms);
	return err;
}

static void entry_symbol(const struct elf_file *elf, const struct elf_entry *e, struct elf_symbol *sym)
{
	*sym = (struct elf_symbol){ .name = e->name, .vaddr = e->vaddr, .size = e->size };
	elf_vaddr_to_offset(elf, e->vaddr, &sym->offset);
}

static const struct elf_entry *table_find(const struct table *t, const char *name, size_t len, int type)
{
	uint64_t hash = symbol_name_hash(name, len);

	for (size_t i = bisect(t->n, k, t->entries[k].hash < hash); i < t->n && t->entries[i].hash == hash; i++) {
		const struct elf_entry *e = &t->entries[i];

		if (e->type == type && e->len == len && !memcmp(e->name, name, len))
			return e;
	}
	return NULL;
}

static int find_typed(struct elf_file *elf, const char *name, int type, struct elf_symbol *ret_sym)
{
	size_t len = strcspn(name, "@");

	if (!strcmp(name + len, "@plt"))
		return -ENOENT;
	for (int id = 0; id < TABLE_MAX; id++) {
		const struct elf_entry *e;
		int err;

		err = table_load(elf, id);
		if (err)
			return err;
		e = table_find(&elf->tables[id], name, len, type);
		if (!e)
			continue;
		entry_symbol(elf, e, ret_sym);
		return 0;
	}
	return -ENOENT;
}

int elf_find_symbol(struct elf_file *elf, const char *name, struct elf_symbol *ret_sym)
{
	return find_typed(elf, name, STT_FUNC, ret_sym);
}

int elf_find_object(struct elf_file *elf, const char *name, struct elf_symbol *ret_sym)
{
	return find_typed(elf, name, STT_OBJECT, ret_sym);
}

int elf_find_only_object(struct elf_file *elf, const char *name, struct elf_symbol *ret_sym)
{
	size_t len = strlen(name);
	uint64_t hash = symbol_name_hash(name, len);

	for (int id = 0; id < TABLE_MAX; id++) {
		const struct table *t = &elf->tables[id];
		const struct elf_entry *e, *first;
		int err;

		err = table_load(elf, id);
		if (err)
			return err;
		first = table_find(t, name, len, STT_OBJECT);
		for (e = first; e && e < t->entries + t->n && e->hash == hash; e++) {
			if (e->vaddr != first->vaddr && e->type == STT_OBJECT && !strcmp(e->name, name))
				return -ENOTUNIQ;
		}
		if (first) {
			entry_symbol(elf, first, ret_sym);
			return 0;
		}
	}
	return -ENOENT;
}

int elf_read_section(struct elf_file *elf, const char *name, size_t max, uint64_t *ret_vaddr,
	void **ret_data, size_t *ret_len)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr sh, str_sh;
	bool found = false;
	size_t str_index;
	void *names;
	int err;

	if (elf_getshdrstrndx(elf->elf, &str_index) || !gelf_getshdr(elf_getscn(elf->elf, str_index), &str_sh))
		return -ENOENT;
	if (str_sh.sh_type != SHT_STRTAB || str_sh.sh_size > SECTION_NAMES_MAX)
		return -EBADMSG;
	err = read_part(elf, str_sh.sh_offset, str_sh.sh_size, &names);
	if (err)
		return err;
	while (!found && (scn = elf_nextscn(elf->elf, scn)))
		found = gelf_getshdr(scn, &sh) && sh.sh_name < str_sh.sh_size &&
			!strcmp((char *)names + sh.sh_name, name);
	free(names);
	if (!found)
		return -ENOENT;
	if (sh.sh_type == SHT_NOBITS || sh.sh_flags & SHF_COMPRESSED || sh.sh_size > max)
		return -EBADMSG;
	err = read_part(elf, sh.sh_offset, sh.sh_size, ret_data);
	if (err)
		return err;
	*ret_vaddr = sh.sh_addr;
	*ret_len = sh.sh_size;
	return 0;
}

/* A function that matched. Rank, table and index decide which name is used for an offset. */
struct elf_match {
	uint64_t offset;
	const struct elf_entry *e;
	int table;
};

static int match_cmp(const void *a, const void *b)
{
	const struct elf_match *x = a, *y = b;

	if (x->offset != y->offset)
		return x->offset < y->offset ? -1 : 1;
	if (x->e->rank != y->e->rank)
		return x->e->rank > y->e->rank ? -1 : 1;
	if (x->table != y->table)
		return x->table - y->table;
	return x->e->index < y->e->index ? -1 : x->e->index > y->e->index;
}

int elf_match_symbols(struct elf_file *elf, const char *glob, elf_symbol_cb cb, void *arg)
{
	struct elf_match *matches = NULL, *m;
	size_t n = 0, cap = 0;
	int err, found = 0;

	for (int id = 0; id < TABLE_MAX; id++) {
		const struct table *t = &elf->tables[id];

		err = table_load(elf, id);
		if (err)
			goto out;
		for (size_t i = 0; i < t->n; i++) {
			const struct elf_entry *e = &t->entries[i];

			if (e->type != STT_FUNC || fnmatch(glob, e->name, FNM_EXTMATCH))
				continue;
			m = list_push(matches, n, cap);
			*m = (struct elf_match){ .e = e, .table = id };
			elf_vaddr_to_offset(elf, e->vaddr, &m->offset);
		}
	}
	if (n)
		qsort(matches, n, sizeof(*matches), match_cmp);
	err = 0;
	for (size_t i = 0; i < n && !err; i++) {
		struct elf_symbol sym;

		if (i && matches[i].offset == matches[i - 1].offset)
			continue;
		entry_symbol(elf, matches[i].e, &sym);
		err = cb(&sym, arg);
		found++;
	}
out:
	free(matches);
	return err ? err : found;
}

#define NEAR_OUT_MAX 16
#define NEAR_BUDGET 100000000 /* characters compared, a fraction of a second */

struct nearest {
	const char *names[NEAR_OUT_MAX];
	int scores[NEAR_OUT_MAX];
	int n, max;
};

static void nearest_add(struct nearest *near, const char *name, int score)
{
	int at = near->n;

	for (int i = 0; i < near->n; i++)
		if (!strcmp(near->names[i], name))
			return;
	while (at > 0 &&
		(score < near->scores[at - 1] ||
			(score == near->scores[at - 1] && strcmp(name, near->names[at - 1]) < 0)))
		at--;
	if (at == near->max)
		return;
	if (near->n < near->max)
		near->n++;
	for (int i = near->n - 1; i > at; i--) {
		near->names[i] = near->names[i - 1];
		near->scores[i] = near->scores[i - 1];
	}
	near->names[at] = name;
	near->scores[at] = score;
}

/* The distance of a function's name from the wanted one, or -1 if it is too far. */
static int nearest_score(const char *name, int len, const struct elf_entry *e, long *budget)
{
	int max = len / 3 < 1 ? 1 : len / 3 > 8 ? 8 : len / 3;
	int d;

	if (len <= EDIT_LEN_MAX && e->len <= EDIT_LEN_MAX && abs(len - e->len) <= max) {
		*budget -= (long)e->len * (2 * max + 1);
		d = edit_distance(name, len, e->name, e->len, max);
		if (d <= max)
			return d;
	}
	/* a part of a mangled or prefixed name: ranked after typing errors, the shortest first */
	*budget -= e->len;
	if (len >= 3 && e->len > len && memmem(e->name, e->len, name, (size_t)len))
		return 3 + (e->len - len) / 4;
	return -1;
}

int elf_nearest_symbols(struct elf_file *elf, const char *name, const char *out[], int n)
{
	struct nearest near = { .max = n < NEAR_OUT_MAX ? n : NEAR_OUT_MAX };
	size_t len = strcspn(name, "@");
	long budget = NEAR_BUDGET;

	if (!len || len > NAME_LEN_MAX || n <= 0)
		return 0;
	for (int id = 0; id < TABLE_MAX; id++) {
		const struct table *t = &elf->tables[id];
		int err, score;

		err = table_load(elf, id);
		if (err)
			return err;
		for (size_t i = 0; i < t->n && budget > 0; i++) {
			if (t->entries[i].type != STT_FUNC)
				continue;
			score = nearest_score(name, (int)len, &t->entries[i], &budget);
			if (score >= 0)
				nearest_add(&near, t->entries[i].name, score);
		}
	}
	for (int i = 0; i < near.n; i++)
		out[i] = near.names[i];
	return near.n;
}

#define BUILDINFO_MAX (16u << 20) /* bytes: version and modules */

/* Since Go 1.13; cmd/link/internal/ld/data.go */
static bool is_go(struct elf_file *elf)
{
	uint64_t vaddr;
	size_t len;
	void *data;
	int err;

	err = elf_read_section(elf, ".go.buildinfo", BUILDINFO_MAX, &vaddr, &data, &len);
	if (!err)
		free(data);
	return err != -ENOENT; /* the section exists, whatever is in it */
}

/* The linker puts Go's code in one piece between two symbols, and the code of other compilers around it. */
int go_text_read(struct elf_file *elf, struct go_text *ret_text)
{
	struct go_text text = {};
	struct elf_symbol sym;
	int err = is_go(elf) ? elf_find_symbol(elf, "runtime.text", &sym) : -ENOENT;

	if (!err) {
		text.from = sym.vaddr;
		text.to = UINT64_MAX; /* without other code this end is not an address in the code */
		err = elf_find_symbol(elf, "runtime.etext", &sym);
		if (!err)
			text.to = sym.vaddr;
	}
	if (err && err != -ENOENT)
		return err;
	*ret_text = text;
	return 0;
}

#define DYNAMIC_MAX 256
#define RELAS_MAX (8u << 20)
#define RELAS_CHUNK 512

struct relocations {
	uint64_t offset; /* of the Elf64_Rela in the file */
	uint64_t n;
};

/* The dynamic section says where the relocations are, so no section headers are needed. */
static int find_relocations(struct elf_file *elf, struct relocations *ret)
{
	uint64_t rela = 0, size = 0;
	unsigned int at = 0;
	Elf64_Phdr ph;
	int err = 0;

	if (elf_segment_next(elf->fd, &elf->header, PT_DYNAMIC, &at, &ph) <= 0)
		return -ENOENT;
	for (unsigned int i = 0; i < DYNAMIC_MAX && i < ph.p_filesz / sizeof(Elf64_Dyn); i++) {
		Elf64_Dyn d;

		err = elf_read_exactly(elf, ph.p_offset + i * sizeof(d), &d, sizeof(d));
		if (err || d.d_tag == DT_NULL)
			break;
		if (d.d_tag == DT_RELA)
			rela = d.d_un.d_ptr;
		if (d.d_tag == DT_RELASZ)
			size = d.d_un.d_val;
	}
	if (err || !rela)
		return err ? err : -ENOENT;
	ret->n = size / sizeof(Elf64_Rela);
	if (ret->n > RELAS_MAX)
		return -EBADMSG;
	return elf_vaddr_to_offset(elf, rela, &ret->offset);
}

/* Called with each relocation that stores an address of the file itself: where, and which. */
typedef void (*relocation_cb)(uint64_t at, uint64_t addend, void *arg);

/* A file without relocations, or with packed ones (DT_RELR), has its addresses in place. */
static int each_relocation(struct elf_file *elf, relocation_cb cb, void *arg)
{
	const uint32_t relative = elf_machine(elf) == EM_X86_64 ? R_X86_64_RELATIVE : R_AARCH64_RELATIVE;
	Elf64_Rela chunk[RELAS_CHUNK];
	struct relocations rel;
	int err;

	err = find_relocations(elf, &rel);
	if (err)
		return err == -ENOENT ? 0 : err;
	for (uint64_t i = 0; i < rel.n; i += RELAS_CHUNK) {
		uint64_t k = rel.n - i < RELAS_CHUNK ? rel.n - i : RELAS_CHUNK;

		err = elf_read_exactly(elf, rel.offset + i * sizeof(*chunk), chunk, k * sizeof(*chunk));
		if (err)
			return err;
		for (uint64_t c = 0; c < k; c++) {
			if (ELF64_R_TYPE(chunk[c].r_info) == relative)
				cb(chunk[c].r_offset, (uint64_t)chunk[c].r_addend, arg);
		}
	}
	return 0;
}

struct pointers {
	uint64_t vaddr;
	uint64_t *values;
	size_t n;
};

static void store_pointer(uint64_t at, uint64_t addend, void *arg)
{
	struct pointers *p = arg;

	at -= p->vaddr;
	if (at / sizeof(*p->values) < p->n && !(at % sizeof(*p->values)))
		p->values[at / sizeof(*p->values)] = addend;
}

/*
 * Reads n pointers from data at an address as linked, before relocation: their values, addresses as linked too, come from
 * the relocations, if any. -ENXIO: no such data; -EBADMSG.
 */
static int elf_pointers_read(struct elf_file *elf, uint64_t vaddr, uint64_t *ret_pointers, size_t n)
{
	struct pointers p = {.vaddr = vaddr, .values = ret_pointers, .n = n};
	uint64_t offset;
	int err;

	err = elf_vaddr_to_offset(elf, vaddr, &offset);
	if (!err)
		err = elf_read_exactly(elf, offset, ret_pointers, n * sizeof(*ret_pointers));
	return err ?: each_relocation(elf, store_pointer, &p);
}

static char *read_string(struct elf_file *elf, uint64_t vaddr)
{
	char buf[ELF_STRINGS_LEN_MAX + 1];
	uint64_t offset;
	size_t len;

	if (!vaddr || elf_vaddr_to_offset(elf, vaddr, &offset))
		return NULL;
	for (len = 0; len < sizeof(buf); len++) {
		if (elf_read_at_offset(elf, offset + len, &buf[len], 1))
			return NULL;
		if (!buf[len])
			return len ? xstrdup(buf) : NULL;
	}
	return NULL;
}

void elf_strings_free(char **strings, size_t n)
{
	for (size_t i = 0; strings && i < n; i++)
		free(strings[i]);
	free(strings);
}

int elf_strings_read(struct elf_file *elf, const char *object, char ***ret_strings, size_t *ret_n)
{
	uint64_t pointers[ELF_STRINGS_MAX] = {};
	struct elf_symbol sym;
	char **strings;
	size_t n, found = 0;
	int err;

	err = elf_find_object(elf, object, &sym);
	if (err)
		return err;
	n = sym.size / sizeof(pointers[0]);
	if (!n || n > ELF_STRINGS_MAX || !sym.offset)
		return -EBADMSG;
	err = elf_pointers_read(elf, sym.vaddr, pointers, n);
	if (err)
		return err == -ENXIO ? -EBADMSG : err;
	strings = xcalloc(n, sizeof(*strings));
	for (size_t i = 0; i < n; i++) {
		strings[i] = read_string(elf, pointers[i]);
		found += strings[i] != NULL;
	}
	if (!found) {
		elf_strings_free(strings, n);
		return -EBADMSG;
	}
	*ret_strings = strings;
	*ret_n = n;
	return 0;
}

/*
 * Virtual tables of C++ classes, also without symbols (Itanium C++ ABI, 2.5.2 and 2.9.5): run time type information
 * has the mangled name of the class as text and a pointer to it as its second word; the second word of the table
 * points to that information, the first is 0 in a table of the class itself, and from the third on it has functions.
 */
#define VTABLE "_ZTV"
#define NAME_CHUNK 65536
#define REFERENCES_MAX 64

static int segment_find_text(struct elf_file *elf, const Elf64_Phdr *ph, const char *text, size_t len, uint64_t *ret_vaddr)
{
	char buf[NAME_CHUNK];
	uint64_t at = 0;

	while (at + len <= ph->p_filesz) {
		size_t n = ph->p_filesz - at < sizeof(buf) ? ph->p_filesz - at : sizeof(buf);
		int err = elf_read_at_offset(elf, ph->p_offset + at, buf, n);
		const char *p;

		if (err)
			return err;
		p = memmem(buf, n, text, len);
		if (p) {
			*ret_vaddr = ph->p_vaddr + at + (size_t)(p - buf);
			return 0;
		}
		at += n - (len - 1);
	}
	return -ENOENT;
}

/* Finds the address of a text with a NUL before and behind it in a read-only segment. */
static int elf_find_text(struct elf_file *elf, const char *text, uint64_t *ret_vaddr)
{
	char whole[256] = {};
	size_t len = strlen(text);
	unsigned int i = 0;
	Elf64_Phdr ph;
	int err = -ENOENT;

	if (len + 2 > sizeof(whole))
		return -EINVAL;
	memcpy(whole + 1, text, len);
	while (err == -ENOENT && elf_segment_next(elf->fd, &elf->header, PT_LOAD, &i, &ph) > 0) {
		if (!(ph.p_flags & PF_W))
			err = segment_find_text(elf, &ph, whole, len + 2, ret_vaddr);
	}
	*ret_vaddr += !err;
	return err;
}

struct references {
	uint64_t to;
	uint64_t at[REFERENCES_MAX];
	unsigned int n;
};

static void store_reference(uint64_t at, uint64_t addend, void *arg)
{
	struct references *r = arg;

	if (addend == r->to && r->n < REFERENCES_MAX)
		r->at[r->n++] = at;
}

static int find_vtable(struct elf_file *elf, const char *name, uint64_t *ret_vaddr)
{
	struct references names = {}, types = {};
	struct elf_symbol sym;
	uint64_t words[3];
	int err;

	err = elf_find_object(elf, name, &sym);
	if (!err)
		*ret_vaddr = sym.vaddr;
	if (err != -ENOENT)
		return err;
	err = elf_find_text(elf, name + strlen(VTABLE), &names.to) ?: each_relocation(elf, store_reference, &names);
	for (unsigned int i = 0; !err && i < names.n; i++) {
		types = (struct references){.to = names.at[i] - sizeof(uint64_t)};
		err = each_relocation(elf, store_reference, &types);
		for (unsigned int k = 0; !err && k < types.n; k++) {
			uint64_t vaddr = types.at[k] - sizeof(uint64_t);

			if (elf_pointers_read(elf, vaddr, words, 3) || words[0] || !elf_is_code(elf, words[2]))
				continue;
			*ret_vaddr = vaddr;
			return 0;
		}
	}
	return err ?: -ENOENT;
}

#define RETURNS_WAY 64 /* bytes of a function within which it must return */

/* The address that a function returns, taken from its first "lea rax, [rip + x]; ret". */
static int returned_address(struct elf_file *elf, uint64_t vaddr, uint64_t *ret)
{
	struct elf_symbol function = { .vaddr = vaddr };
	struct code_place at;
	struct code c;
	uint64_t value = 0;
	bool have = false, found = false;

	if (elf_vaddr_to_offset(elf, vaddr, &function.offset) || !code_read(elf, &function, RETURNS_WAY, &c))
		return -EBADMSG;
	at = code_at(&c, vaddr);
	while (!found && code_next(&c, &at, c.in)) {
		const cs_x86_op *op = c.in->detail->x86.operands;

		found = have && c.in->id == X86_INS_RET;
		have = c.in->id == X86_INS_LEA && op[0].reg == X86_REG_RAX &&
		       op[1].mem.base == X86_REG_RIP && op[1].mem.index == X86_REG_INVALID;
		if (have)
			value = c.in->address + c.in->size + (uint64_t)op[1].mem.disp;
	}
	code_close(&c);
	if (!found)
		return -EBADMSG;
	*ret = value;
	return 0;
}

static int resolve_step(struct elf_file *elf, const char **expr, uint64_t *vaddr)
{
	unsigned long n;
	char *end;

	if (!strncmp(*expr, "()", 2)) {
		*expr += 2;
		return returned_address(elf, *vaddr, vaddr);
	}
	if (**expr != '[')
		return -EINVAL;
	n = strtoul(*expr + 1, &end, 10);
	if (end == *expr + 1 || *end != ']' || n > ELF_STRINGS_MAX)
		return -EINVAL;
	*expr = end + 1;
	return elf_pointers_read(elf, *vaddr + n * sizeof(uint64_t), vaddr, 1);
}

bool elf_is_path(const char *expr)
{
	return strstr(expr, "()") || !strncmp(expr, VTABLE, strlen(VTABLE));
}

int elf_resolve(struct elf_file *elf, const char *expr, struct elf_symbol *ret_sym)
{
	size_t len = strcspn(expr, "([");
	const char *p = expr + len;
	struct elf_symbol sym;
	char name[256];
	int err;

	if (!len || len >= sizeof(name))
		return -EINVAL;
	memcpy(name, expr, len);
	name[len] = 0;
	if (!strncmp(name, VTABLE, strlen(VTABLE)))
		err = find_vtable(elf, name, &sym.vaddr);
	else
		err = elf_find_symbol(elf, name, &sym);
	while (!err && *p)
		err = resolve_step(elf, &p, &sym.vaddr);
	if (!err)
		err = elf_is_code(elf, sym.vaddr) ? elf_vaddr_to_offset(elf, sym.vaddr, &sym.offset) : -EBADMSG;
	if (err)
		return err == -ENXIO ? -EBADMSG : err;
	sym.name = expr;
	sym.size = 0; /* not known */
	*ret_sym = sym;
	return 0;
}
