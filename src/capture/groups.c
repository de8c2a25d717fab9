// SPDX-License-Identifier: BSD-2-Clause
#include "capture/groups.h"

#include <bpf/btf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "util/log.h"

#define TRACEPOINT "tp_btf/"

static bool starts_with(const char *s, const char *prefix)
{
	return !strncmp(s, prefix, strlen(prefix));
}

static bool has_tracepoint(const struct btf *btf, const char *name)
{
	char type[128];

	snprintf(type, sizeof(type), "btf_trace_%s", name);
	return btf__find_by_name_kind(btf, type, BTF_KIND_TYPEDEF) > 0;
}

int group_load(struct bpf_object *obj, const char *prefix, const char *optional, const char *option)
{
	struct btf *btf = btf__load_vmlinux_btf();
	struct bpf_program *prog;
	int err = btf ? 0 : -errno;

	if (err)
		log_error("%s: cannot read the BTF of the kernel: %s", option, strerror(-err));
	bpf_object__for_each_program(prog, obj)
	{
		const char *name = bpf_program__name(prog);
		const char *tp = bpf_program__section_name(prog) + strlen(TRACEPOINT);

		if (err || !starts_with(name, prefix))
			continue;
		if (has_tracepoint(btf, tp)) {
			bpf_program__set_autoload(prog, true);
		} else if (!optional || !starts_with(name, optional)) {
			log_error("%s: this kernel has no tracepoint %s; leave it out", option, tp);
			err = -EOPNOTSUPP;
		}
	}
	btf__free(btf);
	return err;
}
