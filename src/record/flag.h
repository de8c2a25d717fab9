/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The flag file of --window-flag: whether it is there, told by inotify(7), so that an absent or a
 * quiet one costs nothing. What other machines do on a network file system is not seen.
 */
#ifndef INFTRACE_RECORD_FLAG_H
#define INFTRACE_RECORD_FLAG_H

#include <stdbool.h>

struct flag;

/*
 * Watches the directory of `path`, which must exist. A file there that is no regular one (a symbolic
 * link, too), or belongs to somebody else than root or the user who has called inftrace or its
 * sudo, is refused: here with an error, later with a warning, and does not count as there. On
 * failure one line has been printed; -EINVAL, -EPERM (refused), or what the system says.
 */
int flag_open(const char *path, struct flag **ret_flag);
void flag_free(struct flag *f);

/* Readable when there may be something to read. */
int flag_fd(const struct flag *f);

/*
 * Does not wait. Tells whether the file is there after the next change; returns 1 when another one
 * is to be told (it was removed and has come back), 0 when that is the state of now. -errno.
 */
int flag_read(struct flag *f, bool *ret_there);

#endif
