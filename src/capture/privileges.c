// SPDX-License-Identifier: BSD-2-Clause
#include "capture/privileges.h"

#include <linux/capability.h>

#include "util/confine.h"

/* For bpf() and uprobes on what is mapped and born from now on; for /proc and the mapped files of other
 * users' processes; for files and directories that are given to the user, at each window, dump and
 * rotation; for SIGTERM to another user's COMMAND; for descriptors for the links of many targets. */
#define KEPT                                                                                       \
	(CONFINE_CAP(CAP_BPF) | CONFINE_CAP(CAP_PERFMON) | CONFINE_CAP(CAP_SYS_PTRACE) |           \
		CONFINE_CAP(CAP_CHECKPOINT_RESTORE) | CONFINE_CAP(CAP_DAC_READ_SEARCH) |           \
		CONFINE_CAP(CAP_DAC_OVERRIDE) | CONFINE_CAP(CAP_CHOWN) | CONFINE_CAP(CAP_FOWNER) | \
		CONFINE_CAP(CAP_KILL) | CONFINE_CAP(CAP_SYS_RESOURCE))

int privileges_drop(bool single_links, bool nice)
{
	int err = confine_capabilities(KEPT | (single_links ? CONFINE_CAP(CAP_SYS_ADMIN) : 0) |
				       (nice ? CONFINE_CAP(CAP_SYS_NICE) : 0));

#ifndef __SANITIZE_ADDRESS__ /* its leak check forks and traces */
	if (!err)
		err = confine_recorder();
#endif
	return err;
}
