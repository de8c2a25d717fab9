/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef INFTRACE_UTIL_USER_H
#define INFTRACE_UTIL_USER_H

#include <sys/types.h>

/* Who has called inftrace: with sudo, the one who called that. */
uid_t user_calling(void);
gid_t user_calling_group(void);

#endif
