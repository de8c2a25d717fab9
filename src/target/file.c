// SPDX-License-Identifier: BSD-2-Clause
#include "target/file.h"

#include <elf.h>
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

static bool is_mapped_file(int fd, const struct stat *st, const struct mapped_file *m)
{
	return st->st_ino == m->ino && (st->st_dev == m->dev || has_own_devices(fd));
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
	else if (!S_ISREG(st.st_mode) || (m && !is_mapped_file(path_fd, &st, m)))
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

static int open_by_mapping(pid_t pid, const struct mapped_file *m, int *ret_fd)
{
	char path[96];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, pid, m->start, m->end);
	fd = open(path, O_PATH | O_CLOEXEC);
	return fd < 0 ? -errno : reopen_regular(fd, m, ret_fd);
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
	int err = open_by_mapping(pid, m, ret_fd);

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

#define SEGMENTS_MAX 256
#define NOTES_MAX 4096 /* bytes of a segment that are read */
#define ID_MAX 64

static int write_hex(const unsigned char *id, size_t len, char *hex, size_t size)
{
	if (size < 2 * len + 1)
		return -ENOSPC;
	for (size_t i = 0; i < len; i++)
		snprintf(hex + 2 * i, 3, "%02x", id[i]);
	return 0;
}

static size_t align4(size_t n)
{
	return (n + 3) & ~(size_t)3;
}

/* Searches the notes of a segment. All lengths in them are below 2^32, so no sum wraps. */
static int find_in_notes(const unsigned char *notes, size_t len, char *hex, size_t size)
{
	size_t at = 0;

	while (len - at >= sizeof(Elf64_Nhdr)) {
		size_t name, desc;
		Elf64_Nhdr nh;

		memcpy(&nh, notes + at, sizeof(nh));
		name = at + sizeof(nh);
		desc = name + align4(nh.n_namesz);
		if (desc > len || nh.n_descsz > len - desc)
			return -ENOENT;
		if (nh.n_type == NT_GNU_BUILD_ID && nh.n_namesz == sizeof("GNU") &&
			!memcmp(notes + name, "GNU", sizeof("GNU")) && nh.n_descsz && nh.n_descsz <= ID_MAX)
			return write_hex(notes + desc, nh.n_descsz, hex, size);
		at = desc + align4(nh.n_descsz);
		if (at > len)
			return -ENOENT;
	}
	return -ENOENT;
}

int build_id_read(int fd, char *hex, size_t size)
{
	unsigned char notes[NOTES_MAX];
	Elf64_Ehdr eh;

	if (pread(fd, &eh, sizeof(eh), 0) != sizeof(eh) || memcmp(eh.e_ident, ELFMAG, SELFMAG) ||
		eh.e_ident[EI_CLASS] != ELFCLASS64 || eh.e_ident[EI_DATA] != ELFDATA2LSB ||
		eh.e_phentsize != sizeof(Elf64_Phdr) || eh.e_phoff > INT64_MAX / 2)
		return -ENOENT;
	for (size_t i = 0; i < eh.e_phnum && i < SEGMENTS_MAX; i++) {
		Elf64_Phdr ph;
		ssize_t n;
		int err;

		if (pread(fd, &ph, sizeof(ph), (off_t)(eh.e_phoff + i * sizeof(ph))) != sizeof(ph))
			return -ENOENT;
		if (ph.p_type != PT_NOTE || ph.p_offset > INT64_MAX)
			continue;
		n = pread(fd, notes, ph.p_filesz < sizeof(notes) ? ph.p_filesz : sizeof(notes), (off_t)ph.p_offset);
		err = n > 0 ? find_in_notes(notes, (size_t)n, hex, size) : -ENOENT;
		if (err != -ENOENT)
			return err;
	}
	return -ENOENT;
}
