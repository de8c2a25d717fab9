/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Copies of stacks. The user stack is copied from its pointer up, page by page, as far as its pages are resident:
 * nothing is read in from a disk. User space unwinds the copy.
 *
 * The stack of a thread that waited cannot be read as it comes back onto a CPU, since another thread's memory is
 * current then. So the wait is kept with the kernel stack, and the user stack is copied at the end of the system call or
 * fault in which the thread waited: user space has not run in between.
 */
#ifndef INFTRACE_SAMPLES_BPF_H
#define INFTRACE_SAMPLES_BPF_H

#include "inftrace.bpf.h"
#include "python.bpf.h"

#define COPY_PAGE 4096 /* where pages are larger, they are copied in such pieces */
#define COPY_PAGES (SAMPLE_STACK_MAX / COPY_PAGE + 1)
#define COPY_BURST (4ull * REC_SENT_MAX)
/* Bytes that a call leaves on the stack; on arm64 the return address is in a register. */
#ifdef __TARGET_ARCH_x86
#define RETURN_ADDRESS 8
#else
#define RETURN_ADDRESS 0
#endif
#define NSEC_PER_SEC 1000000000ull
#ifndef PF_KTHREAD
#define PF_KTHREAD 0x00200000 /* include/linux/sched.h */
#endif

/* Copying programs can interrupt each other, and a copying thread can be preempted: each kind has its own room, and a
 * program that finds it in use leaves its stack out, which is counted. */
enum sample_room {
	ROOM_EVENT, /* the samples of a CPU */
	ROOM_TASK,  /* the waits of a thread */
	ROOMS,
};

struct sample_copy {
	u32 busy;
	u32 left;    /* samples left out since the last one that was kept */
	u64 allowed; /* bytes that may be copied, as of ... */
	u64 at_ns;   /* ... this instant */
	struct python_stack python;
	union {
		struct rec_sample r;
		u8 bytes[REC_SENT_MAX + COPY_PAGE]; /* a page fits at any place within the record */
	};
};

/* ROOMS of each CPU; user space sizes it to the number of CPUs. Not per-CPU memory, which comes in pieces of at most 32 KB.
 * Not created unless a program that uses it is loaded. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ROOMS);
	__type(key, u32);
	__type(value, struct sample_copy);
} sample_copies __weak SEC(".maps");

#ifdef __TARGET_ARCH_x86
#define USER_REGS const struct pt_regs
#else
#define USER_REGS const struct user_pt_regs
#endif

static __always_inline void copy_regs(u64 to[SAMPLE_REGS], USER_REGS *regs)
{
#ifdef __TARGET_ARCH_x86
	to[0] = regs->ax;
	to[1] = regs->dx;
	to[2] = regs->cx;
	to[3] = regs->bx;
	to[4] = regs->si;
	to[5] = regs->di;
	to[6] = regs->bp;
	to[7] = regs->sp;
	to[8] = regs->r8;
	to[9] = regs->r9;
	to[10] = regs->r10;
	to[11] = regs->r11;
	to[12] = regs->r12;
	to[13] = regs->r13;
	to[14] = regs->r14;
	to[15] = regs->r15;
	to[16] = regs->ip;
#else
#pragma unroll
	for (int i = 0; i < SAMPLE_REG_SP; i++)
		to[i] = regs->regs[i];
	to[SAMPLE_REG_SP] = regs->sp;
	to[SAMPLE_REG_PC] = regs->pc;
#endif
}

/* Takes a room of this CPU. NULL: it is in use, or there is none. */
static __always_inline struct sample_copy *copy_open(u32 room)
{
	u32 at = bpf_get_smp_processor_id() * ROOMS + room;
	struct sample_copy *c = bpf_map_lookup_elem(&sample_copies, &at);

	return c && !__sync_lock_test_and_set(&c->busy, 1) ? c : NULL;
}

static __always_inline void copy_close(struct sample_copy *c)
{
	smp_wmb();
	WRITE_ONCE(c->busy, 0);
}

/* Whether the limit of bytes per second allows another copy, however long it is. */
__weak __noinline bool copy_allowed(struct sample_copy *c, u64 now)
{
	u64 ns;

	if (!c)
		return 0;
	ns = now > c->at_ns ? now - c->at_ns : 0;
	if (ns > NSEC_PER_SEC)
		ns = NSEC_PER_SEC;
	c->at_ns = now;
	c->allowed += ns * SAMPLE_BYTES_PER_S / NSEC_PER_SEC;
	if (c->allowed > COPY_BURST)
		c->allowed = COPY_BURST;
	if (c->allowed >= REC_SENT_MAX)
		return 1;
	c->left++;
	return 0;
}

static __always_inline u64 thread_pointer(struct task_struct *task)
{
#ifdef __TARGET_ARCH_x86
	return task->thread.fsbase;
#else
	return task->thread.uw.tp_value;
#endif
}

/*
 * Where a thread's stack begins, if that is near. The C libraries place a thread's data, to which its thread register
 * points, right above its stack; the kernel knows where the main thread's begins.
 */
static __always_inline u64 stack_base(struct task_struct *task, u64 sp)
{
	u64 own = thread_pointer(task);
	u64 first = BPF_CORE_READ(task, mm, start_stack);

	return own > sp && own - sp < SAMPLE_STACK_MAX ? own : first;
}

/*
 * Appends the user stack to a record that ends at `at`, up to `base` if that is above the stack pointer. Returns where
 * the record ends now.
 */
__weak __noinline u64 copy_stack(struct sample_copy *c, u64 at, u64 base)
{
	u64 sp, begin = at, left = SAMPLE_STACK_MAX, n;

	if (!c)
		return 0;
	sp = c->r.regs[SAMPLE_REG_SP];
	if (base > sp && base - sp < left)
		left = base - sp;
	else
		c->r.flags |= SAMPLE_F_TRUNCATED;
	for (u32 i = 0; i < COPY_PAGES && left; i++) {
		n = COPY_PAGE - (sp & (COPY_PAGE - 1));
		if (n > left)
			n = left;
		barrier_var(n);
		n = ((n - 1) & (COPY_PAGE - 1)) + 1;
		barrier_var(at);
		if (at > REC_SENT_MAX)
			break;
		if (bpf_probe_read_user(c->bytes + at, n, (const void *)sp)) {
			c->r.flags |= SAMPLE_F_TRUNCATED;
			break;
		}
		at += n;
		sp += n;
		left -= n;
	}
	n = (at - begin) & ~7ull;
	c->r.stack_bytes = n;
	return begin + n;
}

/* Appends the current thread's asyncio task likewise. */
static __always_inline u64 copy_task(struct sample_copy *c, u64 at)
{
	if (!c->python.has_task)
		return at;
	barrier_var(at);
	if (at > REC_SENT_MAX ||
		bpf_probe_read_kernel(c->bytes + at, sizeof(struct python_task), &c->python.task))
		return at;
	c->r.task = 1;
	return at + sizeof(struct python_task);
}

/* Appends the current thread's Python frames likewise. */
__weak __noinline u64 copy_python(struct sample_copy *c, struct thread *t, u64 at)
{
	u32 n;

	if (!c || !t)
		return at;
	python_frames(t, &c->python);
	n = c->python.n;
	barrier_var(n);
	if (!n || n > SAMPLE_PYTHON_MAX)
		return at;
	barrier_var(at);
	if (at > REC_SENT_MAX)
		return at;
	if (bpf_probe_read_kernel(c->bytes + at, n * sizeof(struct python_frame), c->python.frames))
		return at;
	c->r.python_n = n;
	if (c->python.cut)
		c->r.flags |= SAMPLE_F_PYTHON_CUT;
	return copy_task(c, at + n * sizeof(struct python_frame));
}

/*
 * A return probe replaces the function's return address by its own, which no unwinder gets past. The kernel keeps a
 * thread's pending ones in a list, innermost first.
 */
static __always_inline const struct return_instance *returns_of(struct task_struct *task)
{
	return BPF_CORE_READ(task, utask, return_instances);
}

/* Sets the registers of a thread within the code of a return probe to after the return. */
static __always_inline void returns_leave(struct sample_copy *c, struct task_struct *task)
{
	const struct return_instance *r = returns_of(task);
	u64 area;

	if (!r)
		return;
	area = BPF_CORE_READ(task, mm, uprobes_state.xol_area, vaddr);
	if (!area || c->r.regs[SAMPLE_REG_PC] - area >= COPY_PAGE)
		return;
	c->r.regs[SAMPLE_REG_PC] = BPF_CORE_READ(r, orig_ret_vaddr);
	c->r.regs[SAMPLE_REG_SP] = BPF_CORE_READ(r, stack) + RETURN_ADDRESS;
}

/* Restores the return addresses in the copied stack, which begins at `begin` in the record. */
__weak __noinline int returns_restore(struct sample_copy *c, u64 begin, u64 returns)
{
	const struct return_instance *r = (const struct return_instance *)returns;

	if (!c)
		return 0;
	for (u32 i = 0; i < FRAMES_MAX && r; i++) {
		u64 at = BPF_CORE_READ(r, stack) - c->r.regs[SAMPLE_REG_SP];

		if (at + sizeof(u64) <= c->r.stack_bytes && at < SAMPLE_STACK_MAX) {
			at += begin;
			barrier_var(at);
			if (at <= REC_SENT_MAX)
				*(u64 *)(c->bytes + at) = BPF_CORE_READ(r, orig_ret_vaddr);
		}
		r = BPF_CORE_READ(r, next);
	}
	return 0;
}

/* Appends the Python frames and the user stack to a record that ends at `at` and has the registers. Returns where it
 * ends now. */
static __always_inline u64 copy_user(struct sample_copy *c, struct thread *t, struct task_struct *task, u64 at)
{
	u64 returns = (u64)returns_of(task), end;

	if (returns)
		returns_leave(c, task);
	at = copy_python(c, t, at);
	end = copy_stack(c, at, stack_base(task, c->r.regs[SAMPLE_REG_SP]));
	if (returns)
		returns_restore(c, at, returns);
	return end;
}

/* Sends a record that ends at `end`. */
__weak __noinline int copy_send(struct sample_copy *c, u64 end)
{
	u32 group = bpf_get_smp_processor_id() >> cfg.ring_shift;
	void *ring = bpf_map_lookup_elem(&rings, &group);

	if (!c)
		return 0;
	barrier_var(end);
	if (end < sizeof(struct rec_sample) || end > REC_SENT_MAX)
		return 0;
	c->allowed = c->allowed > end ? c->allowed - end : 0;
	__sync_fetch_and_add(&stats.sample_bytes, end);
	if (!ring || bpf_ringbuf_output(ring, &c->r, end, BPF_RB_NO_WAKEUP))
		count_lost(group, REC_SAMPLE);
	return 0;
}

/* Begins a record without stacks and registers. Returns where it ends. */
static __always_inline u64 copy_begin(struct sample_copy *c, struct task_struct *task, u32 kind, u64 start, u64 end)
{
	hdr_fill(&c->r.h, REC_SAMPLE, start, end, task->tgid, task->pid, kind, 0);
	c->r.flags = 0;
	c->r.kernel_n = 0;
	c->r.python_n = 0;
	c->r.task = 0;
	c->r.stack_bytes = 0;
	c->r.waker_tid = 0;
	c->r.ref = 0;
	c->r.kept_of = 1;
	return sizeof(c->r);
}

static __always_inline bool has_user_stack(struct task_struct *task)
{
	return !(task->flags & PF_KTHREAD);
}

static __always_inline void copy_no_user(struct sample_copy *c)
{
	c->r.flags |= SAMPLE_F_NO_USER;
	for (int i = 0; i < SAMPLE_REGS; i++)
		c->r.regs[i] = 0;
}

/* ---- waits ---- */

static __always_inline struct due_wait *due_at(struct thread *t, u32 i)
{
	barrier_var(i);
	return &t->due[i & (WAITS_DUE - 1)];
}

__weak __noinline u64 copy_wait_kernel(struct sample_copy *c, const struct due_wait *w)
{
	u32 n;

	if (!c || !w)
		return 0;
	n = w->kernel_n;
	if (n > WAIT_KERNEL_MAX)
		n = WAIT_KERNEL_MAX;
	__builtin_memcpy(c->bytes + sizeof(c->r), w->kernel, sizeof(w->kernel));
	c->r.kernel_n = n;
	return sizeof(c->r) + n * sizeof(u64);
}

/* Sends a wait that is over, in the context of its thread. Returns false if it was left out. */
static __noinline bool wait_send(struct thread *t, struct task_struct *task, u32 i)
{
	struct sample_copy *c = copy_open(ROOM_TASK);
	const struct due_wait *w;
	bool taken;
	u64 end;

	if (!c || !t)
		return 0;
	w = due_at(t, i);
	taken = copy_allowed(c, now_ns());
	if (taken) {
		copy_begin(c, task, SAMPLE_OFF_CPU, w->from, w->from + w->ns);
		c->r.h.flags = w->flags;
		c->r.step = w->step;
		c->r.state = w->state;
		c->r.waker_tid = w->waker_tid;
		c->r.flags = w->sample_flags;
		c->r.ref = w->waker_ns;
		end = copy_wait_kernel(c, w);
		if (has_user_stack(task)) {
			USER_REGS *regs = (USER_REGS *)bpf_task_pt_regs(task);

			copy_regs(c->r.regs, regs);
			end = copy_user(c, t, task, end);
		} else {
			copy_no_user(c);
		}
		copy_send(c, end);
	}
	copy_close(c);
	return taken;
}

/* Sends the waits in the system call or fault that began at `since` and ends now. Earlier waits, in calls whose end was not
 * seen, have no stack. */
static __noinline int waits_send(struct thread *t, struct task_struct *task, u64 since)
{
	u32 n;

	if (!t)
		return 0;
	n = t->n_due;
	t->n_due = 0;
	for (u32 i = 0; i < WAITS_DUE && i < n; i++) {
		if (due_at(t, i)->from >= since && wait_send(t, task, i))
			__sync_fetch_and_add(&stats.waits, 1);
		else
			__sync_fetch_and_add(&stats.waits_left, 1);
	}
	return 0;
}

#endif
