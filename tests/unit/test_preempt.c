// SPDX-License-Identifier: BSD-2-Clause
/* The offset of the preemption count, against libbpf's reading of the same types. */
#include <bpf/btf.h>

#include "capture/preempt.h"
#include "unit.h"

/* The offset of a per-CPU variable, or -1. */
static int64_t offset_of(const struct btf *btf, const char *name, int *ret_id)
{
	int id = btf__find_by_name_kind(btf, ".data..percpu", BTF_KIND_DATASEC);
	const struct btf_type *section = id > 0 ? btf__type_by_id(btf, (uint32_t)id) : NULL;
	const struct btf_var_secinfo *v = section ? btf_var_secinfos(section) : NULL;

	for (unsigned int i = 0; section && i < btf_vlen(section); i++, v++) {
		const struct btf_type *var = btf__type_by_id(btf, v->type);

		*ret_id = (int)v->type;
		if (!strcmp(btf__name_by_offset(btf, var->name_off), name))
			return v->offset;
	}
	return -1;
}

TEST(test_place)
{
	int64_t active, count, off = 0;
	int active_id = 0, id = 0, anchor = 0, err;
	struct btf *btf;

#ifdef __aarch64__
	skip();
#endif
	if (access("/sys/kernel/btf/vmlinux", R_OK)) {
		print_message("# skipped: this kernel has no BTF\n");
		skip();
	}
	btf = btf__load_vmlinux_btf();
	assert_non_null(btf);
	active = offset_of(btf, "bpf_prog_active", &active_id);
	count = offset_of(btf, "__preempt_count", &id);
	if (count < 0)
		count = offset_of(btf, "pcpu_hot", &id);
	btf__free(btf);
	err = preempt_count_place(&off, &anchor);
	if (active < 0 || count < 0) {
		assert_int_equal(err, -ENOENT);
		return;
	}
	assert_int_equal(err, 0);
	assert_int_equal(anchor, active_id);
	assert_int_equal(off, count - active);
}

RUN_TESTS(NULL, NULL)
