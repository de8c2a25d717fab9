// SPDX-License-Identifier: BSD-2-Clause
/*
 * A return probe replaces the return address on the stack. Where the thread has a shadow stack
 * (x86, since Linux 6.6, for programs that ask for it) the kernel must change that too, or the
 * return faults. It does since 6.11, and in some later releases of older branches: commit
 * 1713b63a07a2 ("x86/shstk: Make return uprobe work with shadow stack"), whose function is looked
 * for here.
 */
#include "capture/returns.h"

#include <bpf/btf.h>

#include "target/process.h"

static bool kernel_has_fix(void)
{
	struct btf *btf = btf__load_vmlinux_btf();
	bool found;

	if (!btf)
		return false;
	found = btf__find_by_name_kind(btf, "shstk_update_last_frame", BTF_KIND_FUNC) > 0;
	btf__free(btf);
	return found;
}

bool returns_break(pid_t pid)
{
	return process_has_shadow_stack(pid) && !kernel_has_fix();
}
