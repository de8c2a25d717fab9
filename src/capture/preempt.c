// SPDX-License-Identifier: BSD-2-Clause
#include "capture/preempt.h"

#include <bpf/btf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#ifdef __aarch64__

int preempt_count_offset(int64_t *ret_off)
{
	*ret_off = 0;
	return 0;
}

#else

#define ANCHOR "bpf_prog_active"

/* A variable that is in BTF still cannot be loaded when /proc/kallsyms does not have it: those of
 * data are there only with CONFIG_KALLSYMS_ALL. */
static bool in_kallsyms(const char *wanted)
{
	FILE *f = fopen("/proc/kallsyms", "re");
	char line[512], name[128];
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f))
		found = sscanf(line, "%*x %*c %127s", name) == 1 && !strcmp(name, wanted);
	if (f)
		fclose(f);
	return found;
}

/* All per-CPU variables of the kernel itself are in one section, of which each CPU has a copy. */
static int find_offset(const struct btf *btf, int64_t *ret_off)
{
	int id = btf__find_by_name_kind(btf, ".data..percpu", BTF_KIND_DATASEC);
	const struct btf_type *sec = id > 0 ? btf__type_by_id(btf, (uint32_t)id) : NULL;
	int64_t anchor = -1, count = -1;

	for (unsigned int i = 0; sec && i < btf_vlen(sec); i++) {
		const struct btf_var_secinfo *v = &btf_var_secinfos(sec)[i];
		const char *name =
			btf__name_by_offset(btf, btf__type_by_id(btf, v->type)->name_off);

		if (!strcmp(name, ANCHOR))
			anchor = v->offset;
		else if (!strcmp(name, "__preempt_count") || !strcmp(name, "pcpu_hot"))
			count = v->offset;
	}
	if (anchor < 0 || count < 0)
		return -ENOENT;
	*ret_off = count - anchor;
	return 0;
}

int preempt_count_offset(int64_t *ret_off)
{
	struct btf *btf;
	int err;

	if (!in_kallsyms(ANCHOR))
		return -ENOENT;
	btf = btf__load_vmlinux_btf();
	if (!btf)
		return -errno;
	err = find_offset(btf, ret_off);
	btf__free(btf);
	return err;
}

#endif
