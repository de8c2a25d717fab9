// SPDX-License-Identifier: BSD-2-Clause
#include "util/user.h"

#include <stdlib.h>
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
