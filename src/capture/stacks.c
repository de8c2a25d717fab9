// SPDX-License-Identifier: BSD-2-Clause
#include "capture/stacks.h"

#include <bpf/libbpf.h>

#include "capture/session.h"
#include "inftrace.skel.h"

void stacks_configure(struct inftrace_bpf *k, const struct session_config *c)
{
	k->rodata->cfg.min_stack_ns = c->min_stack_ns;
	bpf_program__set_autoload(k->progs.sample_cpu, c->sample_hz);
	bpf_program__set_autoload(k->progs.stacks_switch, c->stacks);
	bpf_program__set_autoload(k->progs.stacks_waking, c->stacks && bpf_program__autoload(k->progs.sched_waking));
	bpf_program__set_autoload(k->progs.stacks_waking_irq, c->stacks && bpf_program__autoload(k->progs.sched_waking_irq));
	bpf_program__set_autoload(k->progs.snapshot_waits, c->stacks);
	bpf_program__set_autoload(k->progs.sys_exit_stacks, c->stacks);
	bpf_map__set_autocreate(k->maps.sample_copies, c->sample_hz || c->stacks);
	bpf_map__set_max_entries(k->maps.sample_copies,
		bpf_map__max_entries(k->maps.sample_copies) * (unsigned int)libbpf_num_possible_cpus());
	bpf_map__set_autocreate(k->maps.python_processes, c->sample_hz || c->stacks);
}
