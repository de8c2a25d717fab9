/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Opens files of a traced process. It chooses their paths and what they lead to, in a mount namespace
 * that may be its own, so that a path of its is never resolved with our root.
 */
#ifndef INFTRACE_TARGET_FILE_H
#define INFTRACE_TARGET_FILE_H

#include <sys/types.h>

struct mapped_file;

/*
 * Opens the file of a mapping for reading: through /proc/PID/map_files, which leads to the very inode
 * that is mapped, also when it was deleted or replaced; where the kernel does not allow that
 * (CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE), by its path within the root of the process. Either way
 * it is a regular file with the device and inode of the mapping before anything but its inode is
 * opened: a FIFO or a device is never. -ENOENT: neither leads to it; or what open(2) says.
 */
int file_open_mapped(pid_t pid, const struct mapped_file *m, int *ret_fd);

/* The same for the program that the process runs. -ENOENT also for a zombie and a kernel thread. */
int file_open_exe(pid_t pid, int *ret_fd);

#endif
