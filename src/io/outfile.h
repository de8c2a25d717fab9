/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Files that inftrace writes, often as root, into directories where others may write, too. Whoever
 * can create files there can plant a link, a pipe or a file of their own under a name that is known
 * in advance. So:
 *
 *   - symbolic links are followed only when a trusted user made them: root, the user who runs
 *     inftrace, and the one who called sudo; the last part of a name only in a directory where nobody
 *     else can write. This is the rule of fs.protected_symlinks, for all directories and kernels, and
 *     somewhat stricter;
 *   - in a directory where others can write, an existing file is written only when it belongs to a
 *     trusted user, and has no other hard link;
 *   - everything is checked before it is opened, and what was checked is what is opened;
 *   - new files have mode 0600 and, under sudo, belong to the user who called it, before anything is
 *     written to them. An existing file keeps its owner and mode.
 *
 * /dev/stdout, /dev/stderr, /dev/fd/N and /proc/self/fd/N are descriptors that the caller opened.
 *
 * All functions return 0, a descriptor, or -errno with the reason in `why`, without the name.
 */
#ifndef INFTRACE_OUTFILE_H
#define INFTRACE_OUTFILE_H

#include <stdbool.h>
#include <stdio.h>

#define OUTFILE_WHY_MAX 160

/*
 * Opens a file for writing, without truncating it. flags: O_APPEND; O_EXCL: -EEXIST unless it is
 * new. *ret_created: it is new. Opening a pipe does not block: -ENXIO without a reader.
 */
int outfile_open(const char *name, int flags, bool *ret_created, char why[OUTFILE_WHY_MAX]);

/* Opens a file for writing from its beginning, as a stream. Anything that was in it is removed. */
int outfile_stream(const char *name, FILE **ret_out, char why[OUTFILE_WHY_MAX]);

/* Whether outfile_open() can be expected to succeed. Creates nothing. */
int outfile_check(const char *name, char why[OUTFILE_WHY_MAX]);

/* Whether writing to the file would replace what is read; input "-": the standard input. */
struct stat;
bool outfile_is_input(const struct stat *out, const char *input);

/* Creates the missing parts of a directory, or of the directory of a file. */
int outfile_make_directory(const char *name, char why[OUTFILE_WHY_MAX]);
int outfile_make_parent(const char *name, char why[OUTFILE_WHY_MAX]);

/* Whether these two can be expected to succeed. Creates nothing. */
int outfile_check_directory(const char *name, char why[OUTFILE_WHY_MAX]);
int outfile_check_parent(const char *name, char why[OUTFILE_WHY_MAX]);

/* Removes or renames, unless that needs a link that outfile_open() would not follow. An existing
 * file is not replaced: -EEXIST. */
int outfile_unlink(const char *name);
int outfile_rename(const char *from, const char *to);

/* Opens the same regular file for reading, whatever has its name by now. -ENOENT: it is not a regular file. */
int outfile_reopen(int fd);

#endif
