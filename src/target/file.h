/* SPDX-License-Identifier: BSD-2-Clause */
/* Files of a traced process, and their build ids. */
#ifndef INFTRACE_TARGET_FILE_H
#define INFTRACE_TARGET_FILE_H

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
 * The GNU build-id of an ELF file in lower-case hex, from its program headers alone and without libelf:
 * little enough code to run on a hostile file with all privileges. -ENOENT: it has none there, or is not
 * a 64-bit ELF file; -ENOSPC: hex is too small.
 */
int build_id_read(int fd, char *hex, size_t size);

#endif
