// SPDX-License-Identifier: BSD-2-Clause
#include "target/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "target/process.h"

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
 * Turns a descriptor that only stands for an inode into one that can be read. Opening is what acts
 * on FIFOs and devices, so it is checked first. Closes path_fd.
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

/* m: what it must be; NULL: anything regular. */
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
	 * systemd's DynamicUser= forbids openat2(2) (systemd.exec(5), RestrictSUIDSGID=). Without it a link may lead out of the root, but
	 * O_PATH opens nothing yet, and only the file that is mapped is taken; no link leads out of our own root.
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
