/* SPDX-License-Identifier: BSD-2-Clause */
/* Attaches function probes to the files that the targets have mapped. */
#ifndef INFTRACE_ATTACH_H
#define INFTRACE_ATTACH_H

#include <stdbool.h>
#include <sys/types.h>

#include "engine/engine.h"

struct bpf_program;
struct attach;

/* `multi`: the programs were loaded for uprobe_multi links. `states_only`: leave out functions that
 * only make records of their own, for a profile without a timeline. The table must outlive the
 * result; it grows by the matches of globs. probes_fd: the map that gets what to do at each probe. */
int attach_new(struct probe_table *pt, int probes_fd, struct bpf_program *entry,
	struct bpf_program *ret_prog, bool multi, bool states_only, struct attach **ret_attach);

/* Detaches everything. */
void attach_free(struct attach *a);

/*
 * Looks at the executable files that the process has mapped and attaches what matches in those not
 * seen before. Returns the number of sites attached, or -ESRCH. A file that cannot be probed is
 * reported once and left out.
 */
int attach_process(struct attach *a, pid_t pid);

/*
 * Checks the probes of the command line that name a file by its path, and attaches them. Returns
 * -ENOENT after printing what was not found.
 */
int attach_named_files(struct attach *a);

#endif
