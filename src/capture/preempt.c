// SPDX-License-Identifier: BSD-2-Clause
#include "capture/preempt.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#ifdef __aarch64__

int preempt_count_offset(int64_t *ret_off)
{
	*ret_off = 0;
	return 0;
}

#else

#define ANCHOR "bpf_prog_active"

/* A variable that is in BTF still cannot be used if the kernel does not find its symbol: symbols of
 * data are kept only with CONFIG_KALLSYMS_ALL. Loading a program is the test, since reading all of
 * /proc/kallsyms takes a third of the time of a start. */
static bool can_load(int var_id)
{
	const struct bpf_insn insns[] = {
		{ .code = BPF_LD | BPF_DW | BPF_IMM, .src_reg = BPF_PSEUDO_BTF_ID, .imm = var_id },
		{ 0 },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	int fd = bpf_prog_load(BPF_PROG_TYPE_RAW_TRACEPOINT, "inftrace_probe", "Dual BSD/GPL", insns,
			       sizeof(insns) / sizeof(insns[0]), NULL);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* All per-CPU variables of the kernel proper are in one section, of which each CPU has a copy. */
static int find_offset(const struct btf *btf, int64_t *ret_off, int *ret_anchor)
{
	int id = btf__find_by_name_kind(btf, ".data..percpu", BTF_KIND_DATASEC);
	const struct btf_type *sec = id > 0 ? btf__type_by_id(btf, (uint32_t)id) : NULL;
	int64_t anchor = -1, count = -1;
	int anchor_id = 0;

	for (unsigned int i = 0; sec && i < btf_vlen(sec); i++) {
		const struct btf_var_secinfo *v = &btf_var_secinfos(sec)[i];
		const char *name =
			btf__name_by_offset(btf, btf__type_by_id(btf, v->type)->name_off);

		if (!strcmp(name, ANCHOR)) {
			anchor = v->offset;
			anchor_id = (int)v->type;
		} else if (!strcmp(name, "__preempt_count") || !strcmp(name, "pcpu_hot")) {
			count = v->offset;
		}
	}
	if (anchor < 0 || count < 0)
		return -ENOENT;
	*ret_off = count - anchor;
	*ret_anchor = anchor_id;
	return 0;
}

int preempt_count_offset(int64_t *ret_off)
{
	struct btf *btf = btf__load_vmlinux_btf();
	int err, anchor;
	int64_t off;

	if (!btf)
		return -errno;
	err = find_offset(btf, &off, &anchor);
	btf__free(btf);
	if (err)
		return err;
	if (!can_load(anchor))
		return -ENOENT;
	*ret_off = off;
	return 0;
}

#endif
