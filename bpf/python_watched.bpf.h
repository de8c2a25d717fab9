/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Which processes have Python functions that are watched, or may be: see python_watch.bpf.h. */
#ifndef INFTRACE_PYTHON_WATCHED_BPF_H
#define INFTRACE_PYTHON_WATCHED_BPF_H

#include "inftrace.bpf.h"

/* User space maps it, and takes the entries up to n_python_watched. Full: the probes stay. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, PYTHON_WATCHED_MAX);
	__type(key, u32);
	__type(value, struct python_watched);
} python_watched __weak SEC(".maps");

/* Which of these a process has, by tgid. A child that has not called exec shares its parent's, as it has its watchpoints and its code.
 * Full: the child's steps are seen by probes. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, u32);
	__type(value, u32);
} python_watched_of __weak SEC(".maps");

u32 n_python_watched __weak = 0;

/* Gives a process an entry. */
__weak __noinline int python_watched_make(u32 tgid)
{
	struct python_watched *w;
	u32 i = n_python_watched;

	if (i >= PYTHON_WATCHED_MAX)
		return 0;
	i = __sync_fetch_and_add(&n_python_watched, 1);
	w = bpf_map_lookup_elem(&python_watched, &i);
	if (!w || bpf_map_update_elem(&python_watched_of, &tgid, &i, BPF_NOEXIST))
		return 0;
	w->tgid = tgid;
	return 0;
}

/* NULL: the process has none. */
static __always_inline struct python_watched *python_watched_find(u32 tgid)
{
	u32 *i = bpf_map_lookup_elem(&python_watched_of, &tgid);

	return i ? bpf_map_lookup_elem(&python_watched, i) : NULL;
}

/* A child has its parent's watchpoints from its beginning on. */
static __always_inline void python_watched_fork(u32 parent, u32 child)
{
	u32 *i, same;

	if (!cfg.watch || child == parent)
		return;
	i = bpf_map_lookup_elem(&python_watched_of, &parent);
	if (!i) {
		bpf_map_delete_elem(&python_watched_of, &child); /* an earlier process with its number */
		return;
	}
	same = *i; /* 6.1 takes no value from another map */
	bpf_map_update_elem(&python_watched_of, &child, &same, BPF_ANY);
}

/* A process runs another program. */
static __always_inline void python_watched_drop(u32 tgid)
{
	if (cfg.watch)
		bpf_map_delete_elem(&python_watched_of, &tgid);
}

#endif
