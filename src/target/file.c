// SPDX-License-Identifier: BSD-2-Clause
#include "target/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "target/process.h"
#include "util/alloc.h"

/* linux/magic.h of Debian 12 lacks the last one */
#define OVERLAYFS_MAGIC 0x794c7630
#define BTRFS_MAGIC 0x9123683E
#define BCACHEFS_MAGIC 0xca451a4e

/* Filesystems on which stat(2) reports another device than the maps file does. */
static bool has_own_devices(int fd)
{
	struct statfs fs;

	return !fstatfs(fd, &fs) && (fs.f_type == OVERLAYFS_MAGIC || fs.f_type == BTRFS_MAGIC ||
					    fs.f_type == BCACHEFS_MAGIC);
}

/*
 * Turns an O_PATH descriptor into one that can be read. Opening acts on FIFOs and devices, so the type is checked
 * first. m: as for open_in_root(). Closes path_fd.
 */
static int reopen_regular(int path_fd, const struct mapped_file *m, int *ret_fd)
{
	char path[32];
	struct stat st;
	int fd, err = 0;

	if (fstat(path_fd, &st))
		err = -errno;
	else if (!S_ISREG(st.st_mode) || (m && (st.st_ino != m->ino || (st.st_dev != m->dev && !has_own_devices(path_fd)))))
		err = -ENOENT;
	if (!err) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", path_fd);
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
		if (fd < 0)
			err = -errno;
		else
			*ret_fd = fd;
	}
	close(path_fd);
	return err;
}

static bool is_our_root(int root)
{
	struct stat theirs, ours;

	return !fstat(root, &theirs) && !stat("/", &ours) && theirs.st_dev == ours.st_dev && theirs.st_ino == ours.st_ino;
}

/* m: the mapping that must be of this file; NULL: any regular file will do. */
static int open_in_root(pid_t pid, const char *file, const struct mapped_file *m, int *ret_fd)
{
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	char path[32];
	int root, fd, err;

	snprintf(path, sizeof(path), "/proc/%d/root", pid);
	root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return -errno;
	fd = (int)syscall(SYS_openat2, root, file, &how, sizeof(how));
	/*
	 * systemd's DynamicUser= forbids openat2(2) (systemd.exec(5), RestrictSUIDSGID=). Without it a link may lead out of
	 * the root, but O_PATH opens nothing yet, and only the file that is mapped is taken; no link leads out of our own root.
	 */
	if (fd < 0 && errno == ENOSYS && (m || is_our_root(root)))
		fd = openat(root, file + strspn(file, "/"), O_PATH | O_CLOEXEC);
	err = fd < 0 ? -errno : 0;
	close(root);
	return err ? err : reopen_regular(fd, m, ret_fd);
}

int file_open_mapped(pid_t pid, const struct mapped_file *m, int *ret_fd)
{
	char path[96];
	int fd, err;

	snprintf(path, sizeof(path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, pid, m->start, m->end);
	fd = open(path, O_PATH | O_CLOEXEC);
	err = fd < 0 ? -errno : reopen_regular(fd, m, ret_fd);
	/* -ENOENT: the mapping grew or was split meanwhile */
	if (err == -EPERM || err == -EACCES || err == -ENOENT)
		err = open_in_root(pid, m->path, m, ret_fd);
	return err;
}

int file_open_path(pid_t pid, const char *path, int *ret_fd)
{
	return open_in_root(pid, path, NULL, ret_fd);
}

int file_open_exe(pid_t pid, int *ret_fd)
{
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	fd = open(path, O_PATH | O_CLOEXEC); /* leads to the inode itself, as map_files does */
	return fd < 0 ? -errno : reopen_regular(fd, NULL, ret_fd);
}

/* ---- ELF files ---- */

#define NOTES_MAX 4096  /* bytes of notes that are read at a time */
#define ID_MAX 64

static bool read_at(int fd, uint64_t offset, void *buf, size_t len)
{
	return offset <= INT64_MAX - len && pread(fd, buf, len, (off_t)offset) == (ssize_t)len;
}

bool elf_header_read(int fd, Elf64_Ehdr *ret_header)
{
	return read_at(fd, 0, ret_header, sizeof(*ret_header)) && !memcmp(ret_header->e_ident, ELFMAG, SELFMAG) &&
	       ret_header->e_ident[EI_CLASS] == ELFCLASS64 && ret_header->e_ident[EI_DATA] == ELFDATA2LSB &&
	       ret_header->e_phentsize == sizeof(Elf64_Phdr) && ret_header->e_phoff < INT64_MAX / 2;
}

int elf_segment_next(int fd, const Elf64_Ehdr *header, uint32_t type, unsigned int *i, Elf64_Phdr *ret_segment)
{
	while (*i < header->e_phnum && *i < ELF_SEGMENTS_MAX) {
		if (!read_at(fd, header->e_phoff + (*i)++ * sizeof(*ret_segment), ret_segment, sizeof(*ret_segment)))
			return -ENOEXEC;
		if (ret_segment->p_type == type)
			return 1;
	}
	return 0;
}

static int write_hex(const unsigned char *id, size_t len, char *hex, size_t size)
{
	if (size < 2 * len + 1)
		return -ENOSPC;
	for (size_t i = 0; i < len; i++)
		snprintf(hex + 2 * i, 3, "%02x", id[i]);
	return 0;
}

/* Searches the notes in a part of the file. All lengths in them are below 2^32, so no sum wraps. */
static int find_in_notes(int fd, uint64_t offset, uint64_t size, uint64_t alignment, char *hex, size_t hex_size)
{
	const size_t align = alignment == 8 ? 7 : 3;
	unsigned char notes[NOTES_MAX];
	size_t at = 0, len = size < sizeof(notes) ? size : sizeof(notes);
	ssize_t n = offset <= INT64_MAX ? pread(fd, notes, len, (off_t)offset) : -1;

	len = n > 0 ? (size_t)n : 0;
	while (at <= len && len - at >= sizeof(Elf64_Nhdr)) {
		size_t name, desc;
		Elf64_Nhdr nh;

		memcpy(&nh, notes + at, sizeof(nh));
		name = at + sizeof(nh);
		desc = (name + nh.n_namesz + align) & ~align;
		if (desc > len || nh.n_descsz > len - desc)
			break;
		if (nh.n_type == NT_GNU_BUILD_ID && nh.n_namesz == sizeof("GNU") &&
			!memcmp(notes + name, "GNU", sizeof("GNU")) && nh.n_descsz && nh.n_descsz <= ID_MAX)
			return write_hex(notes + desc, nh.n_descsz, hex, hex_size);
		at = (desc + nh.n_descsz + align) & ~align;
	}
	return -ENOENT;
}

/* Segments first: they exist even without section headers. */
int build_id_read(int fd, char *hex, size_t size)
{
	unsigned int i = 0;
	Elf64_Ehdr eh;
	Elf64_Phdr ph;
	Elf64_Shdr sh;
	int err = -ENOENT;

	if (!elf_header_read(fd, &eh))
		return -ENOENT;
	while (err == -ENOENT && elf_segment_next(fd, &eh, PT_NOTE, &i, &ph) > 0)
		err = find_in_notes(fd, ph.p_offset, ph.p_filesz, ph.p_align, hex, size);
	for (i = 0; err == -ENOENT && eh.e_shoff && i < eh.e_shnum && i < ELF_SEGMENTS_MAX && eh.e_shoff < INT64_MAX / 2; i++) {
		if (read_at(fd, eh.e_shoff + i * sizeof(sh), &sh, sizeof(sh)) && sh.sh_type == SHT_NOTE)
			err = find_in_notes(fd, sh.sh_offset, sh.sh_size, sh.sh_addralign, hex, size);
	}
	return err;
}

int loader_of(const char *path, char ret_loader[LOADER_PATH_MAX])
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), err = -ENOEXEC;
	char loader[LOADER_PATH_MAX];
	unsigned int i = 0;
	struct stat st;
	Elf64_Ehdr eh;
	Elf64_Phdr ph;

	if (fd < 0)
		return -errno;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && elf_header_read(fd, &eh))
		err = elf_segment_next(fd, &eh, PT_INTERP, &i, &ph) ?: -ENOENT;
	if (err > 0 && (ph.p_filesz < 2 || ph.p_filesz > sizeof(loader) || !read_at(fd, ph.p_offset, loader, ph.p_filesz) ||
			       loader[ph.p_filesz - 1]))
		err = -ENOEXEC;
	close(fd);
	if (err < 0)
		return err;
	memcpy(ret_loader, loader, sizeof(loader));
	return 0;
}

/* ---- the libraries that a program is linked with, by its files: known before its loader begins, and after it is gone ---- */

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

struct library_walk {
	pid_t pid;
	uint16_t machine;
	const char *library_path;
	char *cache; /* /etc/ld.so.cache; it has the paths as texts that end in NUL */
	size_t cache_len;
	unsigned int opens;
	struct object objects[LIBRARIES_MAX];
	int n;
	Elf64_Dyn entries[ENTRIES_MAX]; /* of the current one */
};

/* Opens a library where ld.so(8) would. Passes over libraries for other machines, as the loader does. */
static int library_open_at(struct library_walk *w, const char *path)
{
	Elf64_Ehdr eh;
	int fd;

	if (*path != '/' || w->opens++ >= OPENS_MAX || file_open_path(w->pid, path, &fd))
		return -1;
	if (elf_header_read(fd, &eh) && eh.e_machine == w->machine)
		return fd;
	close(fd);
	return -1;
}

/* $ORIGIN only counts at the beginning of a directory: linkers put it nowhere else. */
static int library_open_in_list(struct library_walk *w, const char *list, const char *origin, const char *name, char path[PATH_MAX])
{
	int fd = -1;

	for (size_t len; list && *list && fd < 0; list += len + !!list[len]) {
		size_t token = strncmp(list, "$ORIGIN", 7) ? 0 : 7;

		token = strncmp(list, "${ORIGIN}", 9) ? token : 9;
		len = strcspn(list, ":;");
		if (snprintf(path, PATH_MAX, "%s%.*s/%s", token ? origin : "", (int)(len - token), list + token, name) < PATH_MAX)
			fd = library_open_at(w, path);
	}
	return fd;
}

static int library_open_cached(struct library_walk *w, const char *name, char path[PATH_MAX])
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
		fd = library_open_at(w, path);
	}
	return fd;
}

static int library_open_needed(struct library_walk *w, const struct object *library, char path[PATH_MAX])
{
	const struct object *by = &w->objects[library->parent];
	int fd = -1;

	if (strchr(library->name, '/'))
		return library_open_at(w, strcpy(path, library->name));
	for (int i = library->parent; !by->runpath && i >= 0 && fd < 0; i = w->objects[i].parent)
		fd = library_open_in_list(w, w->objects[i].rpath, w->objects[i].origin, library->name, path);
	if (fd < 0)
		fd = library_open_in_list(w, w->library_path, w->objects[0].origin, library->name, path);
	if (fd < 0)
		fd = library_open_in_list(w, by->runpath, by->origin, library->name, path);
	if (fd < 0)
		fd = library_open_cached(w, library->name, path);
	if (fd < 0)
		fd = library_open_in_list(w, "/lib/" MULTIARCH ":/usr/lib/" MULTIARCH ":/lib64:/usr/lib64:/lib:/usr/local/lib:/usr/lib", "",
			library->name, path);
	return fd;
}

/* Reads the dynamic section into w->entries. Returns their number, and the file offset of the texts. */
static size_t read_dynamic(int fd, struct library_walk *w, uint64_t *ret_texts)
{
	uint64_t texts = 0;
	unsigned int i = 0;
	Elf64_Phdr ph;
	Elf64_Ehdr eh;
	size_t n;

	if (!elf_header_read(fd, &eh) || elf_segment_next(fd, &eh, PT_DYNAMIC, &i, &ph) <= 0)
		return 0;
	n = ph.p_filesz < sizeof(w->entries) ? ph.p_filesz / sizeof(*w->entries) : ENTRIES_MAX;
	if (!read_at(fd, ph.p_offset, w->entries, n * sizeof(*w->entries)))
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

static char *dynamic_read_text(int fd, uint64_t at)
{
	char text[TEXT_MAX];
	ssize_t n = at < INT64_MAX ? pread(fd, text, sizeof(text) - 1, (off_t)at) : 0;

	text[n > 0 ? n : 0] = 0;
	return *text ? xstrdup(text) : NULL;
}

static void add_library(struct library_walk *w, int by, char *name)
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

static void object_read_dynamic(struct library_walk *w, int i, int fd)
{
	struct object *o = &w->objects[i];
	uint64_t texts;
	size_t n = read_dynamic(fd, w, &texts);

	for (size_t k = 0; k < n && w->entries[k].d_tag != DT_NULL; k++) {
		const Elf64_Dyn *e = &w->entries[k];

		if (e->d_tag == DT_RPATH && !o->rpath)
			o->rpath = dynamic_read_text(fd, texts + e->d_un.d_val);
		else if (e->d_tag == DT_RUNPATH && !o->runpath)
			o->runpath = dynamic_read_text(fd, texts + e->d_un.d_val);
		else if (e->d_tag == DT_NEEDED)
			add_library(w, i, dynamic_read_text(fd, texts + e->d_un.d_val));
	}
}

static void read_cache(struct library_walk *w)
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
	struct library_walk *w = xcalloc(1, sizeof(*w));
	char path[PATH_MAX];
	int err = 0, fd = exe_fd;
	Elf64_Ehdr eh;

	w->pid = pid;
	w->machine = elf_header_read(exe_fd, &eh) ? eh.e_machine : EM_NONE;
	w->library_path = library_path;
	w->n = 1;
	w->objects[0].parent = -1;
	snprintf(path, sizeof(path), "%s", exe);
	read_cache(w);
	for (int i = 0; i < w->n && !err; i++) {
		if (i)
			fd = library_open_needed(w, &w->objects[i], path);
		if (i)
			err = cb(w->objects[i].name, fd, arg);
		w->objects[i].origin = xstrndup(path, strrchr(path, '/') ? (size_t)(strrchr(path, '/') - path) : 0);
		if (fd >= 0)
			object_read_dynamic(w, i, fd);
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
