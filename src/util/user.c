// SPDX-License-Identifier: BSD-2-Clause
#include "util/user.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/parse.h"

uid_t user_calling(void)
{
	const char *sudo = getuid() ? NULL : getenv("SUDO_UID");
	uint32_t uid;

	return sudo && !parse_u32(sudo, &uid) ? uid : getuid();
}

gid_t user_calling_group(void)
{
	const char *sudo = getuid() ? NULL : getenv("SUDO_GID");
	uint32_t gid;

	return sudo && !parse_u32(sudo, &gid) ? gid : getgid();
}

int user_find(const char *name, struct user *ret_user)
{
	const struct passwd *pw = getpwnam(name);
	struct user u;
	uint32_t uid;

	if (!pw && !parse_u32(name, &uid))
		pw = getpwuid(uid);
	if (!pw)
		return -ENOENT;
	u = (struct user){ strdup(pw->pw_name), strdup(pw->pw_dir), pw->pw_uid, pw->pw_gid };
	if (!u.name || !u.home) {
		user_free(&u);
		return -ENOMEM;
	}
	*ret_user = u;
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
