/* SPDX-License-Identifier: BSD-2-Clause */
/* Files of a traced process, and their build ids. */
#ifndef INFTRACE_TARGET_FILE_H
#define INFTRACE_TARGET_FILE_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * Opens files of a traced process. The process chooses their paths and what they lead to, possibly in
 * a mount namespace of its own, so its paths are never resolved from our root.
 */

struct mapped_file;

/*
 * Opens the file of a mapping for reading: through /proc/PID/map_files, which leads to the very inode
 * that is mapped even if it was deleted or replaced; where the kernel does not allow that
 * (CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE), by its path within the root of the process. Either way
 * it is checked to be a regular file with the device and inode of the mapping before it is opened, so
 * a FIFO or a device never is. -ENOENT: neither leads to it; or an error of open(2).
 */
int file_open_mapped(pid_t pid, const struct mapped_file *m, int *ret_fd);

/* Opens a regular file by its path as the process sees it: symbolic links, ".." and mounts are those of the process, and
 * none leads out of its root. */
int file_open_path(pid_t pid, const char *path, int *ret_fd);

/* file_open_mapped() for the program that the process runs. -ENOENT also for a zombie or a kernel thread. */
int file_open_exe(pid_t pid, int *ret_fd);

/*
 * ELF files without libelf: little enough code to run on a hostile file with all privileges.
 */

/* false: it is not a 64-bit little-endian ELF file. */
bool elf_header_read(int fd, Elf64_Ehdr *ret_header);

#define ELF_SEGMENTS_MAX 256 /* further segments are ignored, as are further sections in the search for a build-id */

/* Reads the next program header of this type from the *i-th on, and moves *i past it. Returns 1; 0: there is none;
 * -ENOEXEC: the file ends before. */
int elf_segment_next(int fd, const Elf64_Ehdr *header, uint32_t type, unsigned int *i, Elf64_Phdr *ret_segment);

/* The GNU build-id in lower-case hex. -ENOENT: none, or not a 64-bit ELF file; -ENOSPC: hex is too small. */
int build_id_read(int fd, char *hex, size_t size);

#define LOADER_PATH_MAX 256

/* The loader that an executable asks for (PT_INTERP). -ENOENT: none; -ENOEXEC: not a 64-bit executable;
 * else an error of open(2). */
int loader_of(const char *path, char ret_loader[LOADER_PATH_MAX]);

/*
 * Calls cb with each library that a program is linked with, directly or not, by the name that the linker recorded; fd -1: not
 * found where glibc's loader would search, without hardware capabilities, in the root of the process. exe: path of the
 * program, for $ORIGIN; exe_fd: open on it; library_path: its LD_LIBRARY_PATH, or NULL. The first non-zero return ends the
 * walk and is returned. The files may be hostile: the work is bounded.
 */
typedef int (*needed_cb)(const char *name, int fd, void *arg);
int needed_each(pid_t pid, const char *exe, int exe_fd, const char *library_path, needed_cb cb, void *arg);

#endif
