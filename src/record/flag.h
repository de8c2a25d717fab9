/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The flag file of --window-flag: whether it exists, from inotify(7), so that waiting costs
 * nothing. Does not see what other machines do on a network file system.
 */
#ifndef INFTRACE_RECORD_FLAG_H
#define INFTRACE_RECORD_FLAG_H

#include <stdbool.h>

struct flag;

/*
 * Watches the directory of `path`, which must exist. A file there that is not regular (including a
 * symbolic link), or that belongs neither to root nor to the user who called inftrace or sudo, is
 * refused: here with an error, later with a warning, and then counts as absent. On failure one line
 * has been printed; -EINVAL, -EPERM (refused), or a system error.
 */
int flag_open(const char *path, struct flag **ret_flag);
void flag_free(struct flag *f);

/* Readable when flag_read() may have news. */
int flag_fd(const struct flag *f);

/*
 * Does not wait. Tells whether the file exists after the next change; returns 1 if there is another
 * change to tell (it was removed and has come back), 0 if this is the current state. -errno.
 */
int flag_read(struct flag *f, bool *ret_there);

#endif
