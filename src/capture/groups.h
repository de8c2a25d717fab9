/* SPDX-License-Identifier: BSD-2-Clause */
/* Groups of programs that are loaded only on demand. */
#ifndef INFTRACE_GROUPS_H
#define INFTRACE_GROUPS_H

#include <bpf/libbpf.h>

/*
 * Marks the programs whose names begin with `prefix` to be loaded. Those whose names begin with
 * `optional` (NULL: none) are left out if the kernel lacks their tracepoint; for any other the
 * result is -EOPNOTSUPP, and one line that names the option is printed.
 */
int group_load(
	struct bpf_object *obj, const char *prefix, const char *optional, const char *option);

#endif
