/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef INFTRACE_UTIL_USER_H
#define INFTRACE_UTIL_USER_H

#include <sys/types.h>

/* The user who called inftrace; under sudo, the one who called sudo. */
uid_t user_calling(void);
gid_t user_calling_group(void);

/* An account of this machine. */
struct user {
	char *name, *home;
	uid_t uid;
	gid_t gid;
};

/* Finds an account by name or number; the caller frees it with user_free(). -ENOENT: there is none. */
int user_find(const char *name, struct user *ret_user);
void user_free(struct user *u);

/* Makes this process run as the user, with all groups, and sets HOME, USER and LOGNAME; the rest of
 * the environment stays. Negative errno. */
int user_become(const struct user *u);

#endif
