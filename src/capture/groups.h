/* SPDX-License-Identifier: BSD-2-Clause */
/* Programs that are loaded only when asked for. */
#ifndef INFTRACE_GROUPS_H
#define INFTRACE_GROUPS_H

#include <bpf/libbpf.h>

/*
 * Marks the programs to be loaded whose names begin with `prefix`. Those that begin with `optional`
 * (NULL: none) are left out where the kernel does not have their tracepoint; for another the result
 * is -EOPNOTSUPP, and one line that names the option is printed.
 */
int group_load(
	struct bpf_object *obj, const char *prefix, const char *optional, const char *option);

#endif
