// SPDX-License-Identifier: BSD-2-Clause
#include "util/user.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/alloc.h"
#include "util/parse.h"

static uint32_t calling_id(uint32_t own, const char *variable)
{
	const char *sudo = getuid() ? NULL : getenv(variable);
	uint32_t id;

	return sudo && !parse_u32(sudo, &id) ? id : own;
}

uid_t user_calling(void)
{
	return calling_id(getuid(), "SUDO_UID");
}

gid_t user_calling_group(void)
{
	return calling_id(getgid(), "SUDO_GID");
}

int user_find(const char *name, struct user *ret_user)
{
	const struct passwd *pw = getpwnam(name);
	uint32_t uid;

	if (!pw && !parse_u32(name, &uid))
		pw = getpwuid(uid);
	if (!pw)
		return -ENOENT;
	*ret_user = (struct user){ xstrdup(pw->pw_name), xstrdup(pw->pw_dir), pw->pw_uid, pw->pw_gid };
	return 0;
}

void user_free(struct user *u)
{
	free(u->name);
	free(u->home);
	*u = (struct user){};
}

int user_become(const struct user *u)
{
	/* an unprivileged user may still name themselves */
	if (!geteuid() && (initgroups(u->name, u->gid) || setresgid(u->gid, u->gid, u->gid)))
		return -errno;
	if (setresuid(u->uid, u->uid, u->uid))
		return -errno;
	if (setenv("HOME", u->home, 1) || setenv("USER", u->name, 1) || setenv("LOGNAME", u->name, 1))
		return -errno;
	return 0;
}
