/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Writes the logs of the CPUs: src/wait_log.h.
 *
 * All programs here run with interrupts disabled, so each CPU's logs have one writer at a time: at a switch the run queue of
 * the CPU is locked, and at a wake-up the woken task.
 */
#ifndef INFTRACE_WAIT_LOG_BPF_H
#define INFTRACE_WAIT_LOG_BPF_H

#include "blocked.bpf.h"
#include "states.bpf.h"

/* include/linux/sched.h */
#define TASK_DEAD 0x0080
#define PF_EXITING 0x00000004
#define PF_KTHREAD 0x00200000

/* Entries of each CPU less one; a power of two less one. User space sizes the maps for the possible CPUs; others have no log. */
const volatile u32 log_mask __weak = 0;

/* Those of each CPU one after the other, each at its number modulo the entries of a CPU. The oldest entry is overwritten. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct ran);
} ran_log SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct wake);
} wake_log SEC(".maps");

#define TIDS_MAX (1u << 22) /* PID_MAX_LIMIT of include/linux/threads.h */

/*
 * The processes whose threads the way back may visit beyond those of the targets: a thread of theirs woke one of these, or of each
 * other. A bit each, by tgid. Most tasks of a machine have nothing to do with the targets; only that they ran is logged. So what a
 * process's threads waited for before one of them woke one of these for the first time is not known; for the helpers of a server it
 * would not be for each of them. A tgid that is used again is one too many.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TIDS_MAX / 64);
	__type(key, u32);
	__type(value, u64);
} wakers SEC(".maps");

static __always_inline bool is_waker(u32 tgid)
{
	u32 i = tgid / 64;
	u64 *bits = bpf_map_lookup_elem(&wakers, &i);

	return bits && *bits >> tgid % 64 & 1;
}

static __always_inline void waker_add(u32 tgid)
{
	u32 i = tgid / 64;
	u64 *bits = bpf_map_lookup_elem(&wakers, &i);

	if (bits && !(*bits >> tgid % 64 & 1))
		__sync_fetch_and_or(bits, 1ull << tgid % 64);
}

#define FD_NAMES_MAX 1024

/* The names of the files and peers that threads waited for, by fd_note(). The least recently used one makes room: then it has no name. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, FD_NAMES_MAX);
	__type(key, u64);
	__type(value, struct fd_name);
} fd_names SEC(".maps");

/* The process is the one that connected or listened, as SO_PEERCRED has it. If that is the same at both ends they may be a
 * socketpair(), which anybody can have inherited. */
static __always_inline void unix_peer(struct fd_name *n, struct unix_sock *u)
{
	struct pid *pid = BPF_CORE_READ((struct sock *)u, sk_peer_pid);
	struct unix_sock *peer = (struct unix_sock *)BPF_CORE_READ(u, peer);
	struct unix_address *address = BPF_CORE_READ(peer, addr);
	u32 len = BPF_CORE_READ(address, len) - sizeof(u16);
	struct hlist_node *links;

	if (peer && pid != BPF_CORE_READ((struct sock *)peer, sk_peer_pid)) {
		n->tgid = BPF_CORE_READ(pid, numbers[0].nr);
		links = BPF_CORE_READ(pid, tasks[0].first); /* 0: PIDTYPE_PID, of its first thread */
		if (links)
			bpf_core_read_str(n->comm, sizeof(n->comm),
				&((struct task_struct *)((u64)links - bpf_core_field_offset(struct task_struct, pid_links)))->comm);
	}
	if (!address)
		return;
	len = len < sizeof(n->path) ? len : sizeof(n->path) - 1;
	bpf_core_read(n->path, len & (sizeof(n->path) - 1), &address->name[0].sun_path);
	if (!n->path[0])
		n->path[0] = '@'; /* in the abstract namespace, as tools show it */
}

/* Returns a key to the peer of a connected socket. 0: none is known. */
static __always_inline u64 peer_key(struct fd_name *n, struct sock *sk)
{
	u64 key = 0;

	n->family = BPF_CORE_READ(sk, __sk_common.skc_family);
	if (n->family == AF_UNIX && bpf_core_type_exists(struct unix_sock)) {
		unix_peer(n, (struct unix_sock *)sk);
	} else if (n->family == AF_INET || n->family == AF_INET6) {
		n->port = bpf_ntohs(BPF_CORE_READ(sk, __sk_common.skc_dport));
		inet_addresses(sk, n->family, NULL, n->address);
	}
	if (!n->port && !n->tgid && !n->path[0])
		return 0;
#pragma unroll
	for (u32 i = 0; i < sizeof(*n) / sizeof(u64); i++) {
		key = (key ^ ((u64 *)n)[i]) * 0x9e3779b97f4a7c15; /* 2^64 / the golden ratio */
		key ^= key >> 32;
	}
	return key | 1ull << 63; /* no device has such a number */
}

/* Notes what a task waits for in a call on a descriptor, and returns its key: of a file, device and inode. 0: unknown. */
static __noinline u64 fd_note(struct task_struct *task, u64 fd, u32 state)
{
	struct file *file = file_of_fd(task, fd);
	struct fd_name n = {};
	u64 key = 0;

	if (!file)
		return 0;
	if (state == ST_BLOCKED_IO)
		key = (u64)BPF_CORE_READ(file, f_inode, i_sb, s_dev) << 32 | (u32)BPF_CORE_READ(file, f_inode, i_ino);
	else if (file_kind(file) == FILE_SOCKET)
		key = peer_key(&n, sock_of_file(file));
	if (!key || bpf_map_lookup_elem(&fd_names, &key))
		return key;
	if (!n.family) {
		bpf_probe_read_kernel_str(n.name, sizeof(n.name), BPF_CORE_READ(file, f_path.dentry, d_name.name));
		bpf_probe_read_kernel_str(n.directory, sizeof(n.directory), BPF_CORE_READ(file, f_path.dentry, d_parent, d_name.name));
	}
	bpf_map_update_elem(&fd_names, &key, &n, BPF_ANY);
	return key;
}

static __always_inline u32 wait_log_index(u32 cpu, u64 n)
{
	u32 mask = log_mask;

	return cpu * (mask + 1) + ((u32)n & mask);
}

static __always_inline struct ran *ran_at(u32 cpu, u64 n)
{
	u32 i = wait_log_index(cpu, n);

	return bpf_map_lookup_elem(&ran_log, &i);
}

static __always_inline void ran_is(struct ran *r, struct task_struct *task)
{
	r->tid = task->pid;
	r->tgid = task->tgid;
	__builtin_memcpy(r->comm, task->comm, sizeof(r->comm));
}

/* The system call that the task is in, and its first argument. An interrupt or a fault that hits user code leaves -1 where a
 * system call leaves its number. */
static __always_inline u32 task_call(struct task_struct *task, u64 *ret_arg)
{
	struct pt_regs *regs;
	s64 nr;

	if (task->flags & (PF_KTHREAD | PF_EXITING))
		return CALL_NONE;
	regs = (struct pt_regs *)bpf_task_pt_regs(task);
#ifdef __TARGET_ARCH_x86
	nr = (s64)regs->orig_ax;
	*ret_arg = regs->di;
#else
	nr = regs->syscallno;
	*ret_arg = regs->orig_x0;
#endif
	return nr >= 0 && nr < CALL_NONE ? nr : CALL_NONE;
}

/* When the CPU last switched; 0: unknown. */
static __always_inline u64 ran_since(void)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct wait_log_heads *heads = bpf_map_lookup_elem(&wait_log_heads, &cpu);

	return heads ? heads->switch_ns : 0;
}

#define SWITCH_PREEMPT (1ull << 32) /* in `how`, above the state of the task that leaves the CPU */

/* The system call that a thread of a target is in, and its first argument. */
static __always_inline u32 thread_call(struct thread *t, struct task_struct *task, u64 *ret_arg)
{
	if (!cfg.track_syscalls)
		return task_call(task, ret_arg);
	*ret_arg = t->sys_arg0;
	return t->in_syscall && t->sys_nr < CALL_NONE ? t->sys_nr : CALL_NONE;
}

/* Why a task that may be visited leaves the CPU, beyond what its state says. Not inline: the programs' stacks are nearly full. */
static __noinline void ran_why(struct ran *r, struct task_struct *prev)
{
	u32 state;
	u64 arg;

	if (r->state == ST_RUNNABLE && is_throttled(prev))
		r->flags |= RAN_F_THROTTLED;
	if (r->state != ST_BLOCKED_OTHER)
		return;
	r->call = task_call(prev, &arg);
	if (r->call != CALL_NONE) {
		state = blocked_in_syscall(prev, r->call, arg);
		r->state = state & ~BLOCKED_NAMED;
		if (cfg.names && state & BLOCKED_NAMED)
			r->file = fd_note(prev, arg, r->state);
	} else if (!(prev->flags & (PF_KTHREAD | PF_EXITING))) {
		r->state = ST_BLOCKED_FAULT;
	}
}

/* The same of a thread of a target that waits: switch_out() has found out. */
static __always_inline void ran_known(struct ran *r, struct thread *out, struct task_struct *prev)
{
	r->state = out->off;
	if (out->in_syscall && out->sys_nr < CALL_NONE)
		r->call = out->sys_nr;
	if (cfg.names && out->off_named)
		r->file = fd_note(prev, out->sys_arg0, r->state);
}

/* A task's time on this CPU, for its track. id: as in struct rec_on_cpu. */
static __always_inline void on_cpu_emit(u32 tgid, u32 tid, u64 from, u64 to, u32 id)
{
	struct rec_on_cpu *r = emit_reserve(sizeof(*r), REC_ON_CPU);
	u32 flags = 0;

	if (!r)
		return;
	if (from < stats.start_ns) {
		from = stats.start_ns;
		flags = REC_F_OPEN_START;
	}
	hdr_fill(&r->h, REC_ON_CPU, from, to, tgid, tid, id, flags);
	emit_submit(r);
}

/* The running task's entry is another one's, whose leaving was not reported: it ends when prev came onto the CPU, if that is known. */
static __noinline void ran_unreported(u32 cpu, struct wait_log_heads *heads, struct task_struct *prev, u64 now)
{
	u64 from = came_onto_cpu(now);
	struct ran *r = ran_at(cpu, heads->ran), *after = ran_at(cpu, heads->ran + 1);

	if (!r || !after || !cfg.steps)
		return;
	if (from <= heads->switch_ns) {
		ran_is(r, prev);
		return;
	}
	r->end_ns = from;
	r->file = r->fault_ns = r->flags = 0;
	r->call = CALL_NONE;
	r->state = ST_BLOCKED_OTHER;
	if (emits(REC_ON_CPU) && cfg.all_cpus && r->tid && from > stats.start_ns)
		on_cpu_emit(r->tgid, r->tid, heads->switch_ns, from, 0);
	heads->switch_ns = from;
	heads->switched_to = prev->pid;
	ran_is(after, prev);
	smp_wmb();
	WRITE_ONCE(heads->ran, heads->ran + 1);
}

/* A CPU is about to switch: makes prev the running task of the log. */
static __always_inline void ran_catch_up(struct task_struct *prev, u64 now)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct wait_log_heads *heads = bpf_map_lookup_elem(&wait_log_heads, &cpu);
	struct ran *r = heads ? ran_at(cpu, heads->ran) : NULL;
	u64 arrival;

	if (!r)
		return;
	arrival = last_arrival(prev);
	if (r->tid != (u32)prev->pid)
		ran_unreported(cpu, heads, prev, now);
	else if (arrival && heads->switch_ns)
		heads->clock_off = heads->switch_ns - arrival;
}

/* A CPU switches. out: prev, if it is a thread of a target; its state is known then. */
static __always_inline void ran_switch(struct thread *out, struct task_struct *prev, struct task_struct *next, u64 now, u64 how)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct wait_log_heads *heads = bpf_map_lookup_elem(&wait_log_heads, &cpu);
	struct ran *r, *after;
	u32 task_state = (u32)how;
	u64 fault_ns;

	if (!heads)
		return;
	r = ran_at(cpu, heads->ran);
	after = ran_at(cpu, heads->ran + 1);
	if (!r || !after)
		return;
	heads->switch_ns = now;
	heads->switched_to = next->pid;
	if (!cfg.steps) { /* then nobody asks who ran: all entries are one */
		r->tid = next->pid;
		return;
	}
	r->end_ns = now;
	r->flags = out && out->role == ST_GPU_WAIT ? RAN_F_GPU_WAIT : 0;
	r->call = CALL_NONE;
	r->file = 0;
	fault_ns = out ? out->times.ns[ST_FAULT] - out->fault_on : 0;
	r->fault_ns = fault_ns < ~0u ? fault_ns : ~0u;
	if (how & SWITCH_PREEMPT || !task_state)
		r->state = ST_RUNNABLE;
	else if (task_state & TASK_DEAD)
		r->state = ST_CPU;
	else
		r->state = task_state & TASK_STOPPED_MASK ? ST_STOPPED : ST_BLOCKED_OTHER;
	if (out && cfg.track_syscalls && r->state == ST_BLOCKED_OTHER)
		ran_known(r, out, prev);
	else if (out || (r->state != ST_CPU && is_waker(prev->tgid)))
		ran_why(r, prev);
	ran_is(after, next);
	smp_wmb();
	WRITE_ONCE(heads->ran, heads->ran + 1);
}

/* The running task wakes another one, or creates it. leads: the way back may visit this task for it, or with WAKE_F_FORK the other one. */
static __always_inline void wake_log_add(u32 cpu, struct wait_log_heads *heads, struct task_struct *woken, struct task_struct *waker,
	bool leads, u64 now, u32 call, u32 flags)
{
	struct wake *w;
	u32 i;

	if (!heads)
		return;
	i = wait_log_index(cpu, heads->wakes);
	w = bpf_map_lookup_elem(&wake_log, &i);
	if (!w)
		return;
	w->ns = now;
	w->tid = woken->pid;
	w->waker_tid = waker->pid;
	w->call = call;
	w->flags = flags | (waker->flags & PF_KTHREAD ? WAKE_F_KERNEL : 0);
	smp_wmb();
	WRITE_ONCE(heads->wakes, heads->wakes + 1);
	if (leads && !(waker->flags & PF_KTHREAD))
		waker_add(flags & WAKE_F_FORK ? woken->tgid : waker->tgid);
}

#endif
