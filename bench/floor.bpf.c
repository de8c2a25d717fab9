// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * The floor that the benchmarks compare with: programs that do nothing, on the hooks that
 * inftrace uses. What they cost, every tracer on BPF has to pay.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("tp_btf/sys_enter")
int sys_enter(void *ctx)
{
	return 0;
}

SEC("tp_btf/sys_exit")
int sys_exit(void *ctx)
{
	return 0;
}

SEC("tp_btf/sched_switch")
int sched_switch(void *ctx)
{
	return 0;
}

SEC("tp_btf/sched_waking")
int sched_waking(void *ctx)
{
	return 0;
}

SEC("tp_btf/page_fault_user")
int page_fault_user(void *ctx)
{
	return 0;
}

SEC("perf_event")
int fault_minor(void *ctx)
{
	return 0;
}

SEC("uprobe")
int function_entry(void *ctx)
{
	return 0;
}

SEC("uretprobe")
int function_return(void *ctx)
{
	return 0;
}
