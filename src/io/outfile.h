/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Files that inftrace writes, often as root, into directories where others may write, too. Whoever
 * can create files there can plant a link, a pipe or a file of his own under a name that is known
 * in advance. So:
 *
 *   - symbolic links are followed only when a trusted user made them: root, who runs inftrace, and
 *     under sudo who called that; the last part of a name only in a directory where nobody else can
 *     write, too. This is the rule of fs.protected_symlinks, for all directories and kernels, and
 *     somewhat stricter;
 *   - in a directory where others can write, an existing file is written only when it belongs to a
 *     trusted user, and has no other name;
 *   - nothing is opened before it was looked at, and what was looked at is what is opened;
 *   - new files have mode 0600 and, under sudo, belong to the user who called it, before there is
 *     anything in them. One that existed keeps its owner and mode.
 *
 * /dev/stdout, /dev/stderr, /dev/fd/N and /proc/self/fd/N are descriptors that the caller opened.
 *
 * All return 0, a descriptor, or -errno with the reason in `why`, without the name.
 */
#ifndef INFTRACE_OUTFILE_H
#define INFTRACE_OUTFILE_H

#include <stdbool.h>

#define OUTFILE_WHY_MAX 160

/*
 * Opens a file for writing, without truncating it. flags: O_APPEND; O_EXCL: it must be new, else
 * -EEXIST. *ret_created: it is. The descriptor of a pipe does not block to be opened: -ENXIO without
 * a reader.
 */
int outfile_open(const char *name, int flags, bool *ret_created, char why[OUTFILE_WHY_MAX]);

/* Whether outfile_open() may be expected to succeed. Creates nothing. */
int outfile_check(const char *name, char why[OUTFILE_WHY_MAX]);

/* Creates what is missing of a directory, or of the directory that a file is to be in. */
int outfile_make_directory(const char *name, char why[OUTFILE_WHY_MAX]);
int outfile_make_parent(const char *name, char why[OUTFILE_WHY_MAX]);

/* Whether what is missing of them may be expected to be created. Creates nothing. */
int outfile_check_directory(const char *name, char why[OUTFILE_WHY_MAX]);
int outfile_check_parent(const char *name, char why[OUTFILE_WHY_MAX]);

/* Removes or renames without a link on the way that outfile_open() would not follow. An existing
 * file is not replaced: -EEXIST. */
int outfile_unlink(const char *name);
int outfile_rename(const char *from, const char *to);

/* Opens the same regular file for reading, whatever has its name by now. -ENOENT: it is none. */
int outfile_reopen(int fd);

#endif
