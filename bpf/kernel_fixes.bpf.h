/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * All differences between kernels from 6.1 on that the programs account for. Each comment names the release that brought
 * the difference; the consequences are described at the callers. What user space finds out before it loads the programs
 * (uprobe_multi, the vector tracepoints, the memory tracepoints) is in src/capture/features.c.
 *
 * Differences that need no code here, because the programs work with either behaviour:
 *
 * - Before 6.2 bpf_task_storage_get() fails when it is called within another call on the same CPU. The switch of a
 *   thread is then not seen: see off_cpu_missed().
 * - Since 6.2 rss_stat has no total that could be added up (the counters became per-CPU): memory_rss() only counts that
 *   something has changed, and user space reads the total from /proc.
 * - Before 6.16 an LRU hash keeps 128 free entries for each CPU, so groups are an array: see group.bpf.h.
 * - The verifier of 6.1 does not carry bounds from the lower half of a register to the whole, and gives up after a
 *   million instructions that later ones prune: hence u64 lengths, and global functions (inftrace.bpf.h).
 */
#ifndef INFTRACE_KERNEL_FIXES_BPF_H
#define INFTRACE_KERNEL_FIXES_BPF_H

/* include/linux/sched.h: __TASK_STOPPED, __TASK_TRACED, and TASK_FROZEN, which 6.1 brought for the freezer. */
#define TASK_STOPPED_MASK (0x0004 | 0x0008 | 0x8000)

/*
 * Must be called first by programs that may be preempted, such as those on uprobes. From 6.13 on x86 (6.18 on
 * arm64) a program of their type with more than 64 bytes of stack has a private stack, one per CPU
 * (bpf_enable_priv_stack() in kernel/bpf/verifier.c), which another thread that runs the program on this CPU
 * meanwhile overwrites. A program with a tail call anywhere keeps the kernel's stack. This tail call is
 * never made: the verifier sees that and removes it.
 */
static __always_inline void keep_stack(void *ctx)
{
	if (cfg.never)
		bpf_tail_call(ctx, NULL, 0);
}

/*
 * Whether a system call is not the traced program's: on x86 the kernel itself leaves a return probe by one since 6.11
 * (uretprobe, 335), and enters a probe on a nop by one since 6.18 (uprobe, 336). The numbers are from syscall_64.tbl.
 */
static __always_inline bool is_probe_call(long id)
{
#ifdef __TARGET_ARCH_x86
	return id == 335 || id == 336;
#else
	return 0;
#endif
}

/*
 * The preempt count of this CPU. On x86 it is a per-CPU variable, which no program can name: __preempt_count before
 * 6.2 and since 6.15, a member of pcpu_hot in between. bpf_prog_active can be named on every kernel, so user space
 * passes the distance from it to the other variable (src/capture/preempt.h). An extern for each will not do: libbpf
 * looks for a missing one in the BTF of the modules, which needs CAP_SYS_ADMIN.
 */
extern const int bpf_prog_active __ksym __weak;
const volatile s64 preempt_count_off __weak = 0;

static __always_inline int preempt_count(void)
{
#ifdef __TARGET_ARCH_x86
	s64 off = preempt_count_off;
	int count = 0;

	if (!&bpf_prog_active)
		return 0;
	if (bpf_core_type_exists(struct pcpu_hot))
		off += bpf_core_field_offset(struct pcpu_hot, preempt_count);
	bpf_probe_read_kernel(&count, sizeof(count), bpf_this_cpu_ptr(&bpf_prog_active) + off);
	return count;
#else
	return bpf_get_current_task_btf()->thread_info.preempt.count;
#endif
}

/* Whether a CPU limit of its cgroup holds the task back. Without CONFIG_FAIR_GROUP_SCHED there are no such limits, nor the
 * member. */
static __always_inline bool is_throttled(struct task_struct *task)
{
	return bpf_core_field_exists(task->se.cfs_rq) && BPF_CORE_READ(task, se.cfs_rq, throttle_count) > 0;
}

/* When the task last came onto a CPU, by the clock of that CPU's run queue; 0: unknown, as without CONFIG_SCHED_INFO. */
static __always_inline u64 last_arrival(struct task_struct *task)
{
	return bpf_core_field_exists(task->sched_info.last_arrival) ? task->sched_info.last_arrival : 0;
}

/* The process that owns the memory; 0: unknown, since without CONFIG_MEMCG memory has no owner. */
static __always_inline u32 mm_owner_tgid(struct mm_struct *mm)
{
	return bpf_core_field_exists(mm->owner) ? mm->owner->tgid : 0;
}

#endif
