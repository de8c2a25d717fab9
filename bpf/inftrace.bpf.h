/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Shared by the BPF programs: configuration, maps, the state of a thread, and access to the rings.
 * Time keeping: states.bpf.h.
 *
 * Two idioms exist only for the verifier. Functions that are neither static nor inline are global: it checks them once,
 * on their own, and not again for every path that leads to a call, which would exceed its limit. It then knows nothing
 * about their arguments, and assumes that each pointer may be NULL: so they begin with a check that never fails. They
 * can take only memory, no task and no context. And barrier_var(i) makes the compiler forget what it knows about a
 * variable, so that the following bound (a mask or a comparison) stays in the code before the access, where the
 * verifier sees it, and is neither folded into what is known about i nor moved after the access.
 */
#ifndef INFTRACE_BPF_H
#define INFTRACE_BPF_H

#include "vmlinux.h"
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#include "record.h"
#include "probe.h"
#include "hook_slot.h"

#define READ_ONCE(x) (*(volatile typeof(x) *)&(x))
#define WRITE_ONCE(x, v) (*(volatile typeof(x) *)&(x) = (v))

/*
 * Orders stores before it with those after it (smp_wmb), or loads (smp_rmb). x86 keeps both in order, so only the
 * compiler has to be restrained. On arm64 an atomic operation of BPF that returns a value is a full barrier, on
 * any memory; there is no cheaper one that all verifiers from 6.1 on accept.
 */
#ifdef __TARGET_ARCH_x86
#define smp_wmb() asm volatile("" ::: "memory")
#define smp_rmb() asm volatile("" ::: "memory")
#else
static __always_inline void smp_mb(void)
{
	volatile u64 word = 0;

	asm volatile("" ::: "memory");
	__sync_lock_test_and_set(&word, 1);
	asm volatile("" ::: "memory");
}
#define smp_wmb() smp_mb()
#define smp_rmb() smp_mb()
#endif

/* ---- configuration and counters, shared with user space through the skeleton ---- */

/* Fixed when the programs are loaded. */
const volatile struct inf_config cfg __weak = {};

#include "kernel_fixes.bpf.h"

/* Whether the window is open. While it is closed a program costs this load and a branch; steps are followed nevertheless. */
volatile u32 enabled __weak = 0;

/* User space's CLOCK_BOOTTIME minus CLOCK_MONOTONIC here, modulo 2^64. User space updates it: session_drain(). */
volatile u64 boot_offset __weak = 0;

/* The window has just closed, and the task iterator is visiting the threads, or will do so soon. */
volatile u32 closing __weak = 0;

struct inf_stats stats __weak = {};

/* With cfg.budget, written by user space: the state of each enum shed_part, and 1 << kind of the records that are not sent. */
volatile struct shed_state sheds[SHED_PROBES] __weak = {};
volatile u32 kinds_off __weak = 0;

/* Generations of links, see link_lives(): the newest << 16 | the one whose calls count. */
volatile u32 link_gens __weak = 0;

/* ---- maps ---- */

#define PROBES_MAX 4096
#define TARGETS_MAX 4096

struct inner_ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096); /* a template: user space makes the real ones */
};

/* One ring per group of CPUs. Full: the record is counted as lost. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, RINGS_MAX);
	__type(key, u32);
	__array(values, struct inner_ring);
} rings __weak SEC(".maps");

/* Task events and newly mapped files: rare, never crowded out by the stream of records, and the only ring whose reader is
 * woken. Steps go here when their own ring is full. Full: counted as lost. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} control __weak SEC(".maps");

/* What to do at a function probe; index: the attach cookie. Sized by user space. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PROBES_MAX);
	__type(key, u32);
	__type(value, struct probe);
} probes __weak SEC(".maps");

/* Processes named by the user (key: tgid) until they exit, read only by the task iterator and by fork
 * while the recording starts. Full: user space refuses further -p. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, TARGETS_MAX);
	__type(key, u32);
	__type(value, u8);
} targets __weak SEC(".maps");

/* Processes that have mapped executable files; key: tgid, deleted when the process exits. Full: the process is not held for
 * its mappings; counted. */
#define HOLDS_MAX 4096

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, HOLDS_MAX);
	__type(key, u32);
	__type(value, struct hold_state);
} holds __weak SEC(".maps");

/* The number of the newest mapping. */
volatile u64 mapping __weak = 0;

struct frame {
	u64 start;
	u64 sp; /* stack pointer at the function's entry: distinguishes stale frames from live ones */
	u32 probe;
	u8 prev_role;
	u8 nvals;
	u8 step : 1; /* this frame is the step */
	u8 role : 7;
	u8 nstrs : 4;
	u8 late : 2; /* PROBE_F_LATE */
	u8 shed : 2; /* struct probe */
	u16 slot; /* of its strings */
	u8 flags; /* REC_F_* of its span */
	u8 group; /* the barrier of a group */
	u32 ip; /* low half: distinguishes two probes of one call from a tail call. Of a Python function: of its frame's address */
	u64 vals[FUNC_VALS_MAX];
};

/* A begin/end pair: closed at the last end seen before the next begin, or before the enclosing
 * function returns; if none was seen, at that point. */
struct open_op {
	u64 start, end;
	u32 probe; /* 0: none; else probe id + 1 */
	u8 nvals;
	u8 nstrs : 7, sampled : 1;
	u8 depth; /* frames around it */
	u8 changes; /* low byte of shed_state.changes when it began */
	u64 vals[FUNC_VALS_MAX];
};

/* Interrupts in flight: a hard one can hit a soft one. A power of two. */
#define IRQ_DEPTH 4

struct irq_frame {
	u64 start;
	u32 id;
	u8 type;
	u8 hit; /* the state that it interrupted */
};

#include "wait.bpf.h"

#define FRAMES_MAX 32
#define FRAME_NEXT (FRAMES_MAX - 1) /* the next step's frame, while step_entered */

#define CLOSE_BEGUN 1
#define CLOSE_DONE 2

/* A thread's time by state. Other threads read it as a whole. */
struct thread_times {
	u64 ns[ST_MAX];
	struct hits hits;
};

/*
 * The state of a thread that has slept since before the window opened, as the task iterator found it. The thread may
 * wake up at the same moment, so the iterator leaves the thread's own fields alone. This copy is valid only while
 * `since` is the beginning of the window; the first program that sees the thread run takes it over: thread_adopt().
 */
struct asleep {
	u8 off; /* enum time_state; ST_CPU: nothing is known */
	u8 in_syscall;
	u8 sys_flags;
	u8 pad[5];
	u32 tid;
	u32 sys_nr;
	u64 sys_arg0;
};

/* Where the thread's hooks add up their time: see hooks.bpf.h. */
struct hooked {
	u32 map, slot; /* 1 + the index of its process's slots; 0: it has no hooks */
	u32 tid; /* its own: the slot may become another thread's */
	u32 calls; /* that are counted as hits */
	u64 more; /* time elsewhere that is accounted, but not in the slot yet */
	u64 seen; /* the time of the slot's calls when it was last accounted */
	u64 owed; /* time at barriers that found no time on the CPU yet; below zero: too much was taken */
};

/* What a slot has that tells its time: see hook_time(). */
struct hook_read {
	u64 total, begun; /* begun: by the thread's own clock; 0: it is within no call */
	u64 away;
};

/* What a thread is doing now. Other threads read it as a whole: see member_look(). */
struct thread_now {
	u64 since;
	u64 next; /* an announcement, or 0: see thread_announce() */
	u64 edge; /* when its last system call or fault began, or ended; see now_before() */
	u8 off; /* enum time_state it left the CPU for; ST_CPU while it runs */
	u8 role; /* ST_CPU to ST_GC */
	u8 in_syscall;
	u8 in_fault;
	u8 irq_depth; /* up to here: what other threads read as its state */
	u8 dying; /* counted in stats.dying */
	u8 sys_flags;
	u8 off_flags; /* REC_F_* and OFF_CPU_F_* of the off-CPU span in flight */
};

/* System calls of one number that are not yet in the sums of the process. */
struct kept_calls {
	u32 nr; /* perhaps with SYSCALL_SUM_COMPAT */
	u32 n;
	u64 ns;
};
#define KEPT_CALLS 4 /* a power of two */

/* What survives from one window to the next. */
struct thread_kept {
	u8 depth;
	u8 in_step;
	u8 changing; /* one of the thread's own programs is between two states, see change_begin() */
	u8 switching; /* likewise a program of the scheduler */
	u16 link_gen; /* generation of links whose calls count, at this call */
	s16 untimed; /* hits until the next one to be timed */
};

/* Cleared for each window, like struct thread_now. The fields that a system call touches come first. */
struct thread_window {
	u64 sys_start;
	u32 sys_nr;
	u32 syscalls;
	u64 sys_arg0;
	struct thread_times times;
	u64 wake_ns; /* from here to `asleep.off`: what a switch touches, too */
	u64 waker_slice;
	u64 on_ns; /* when it last came onto the CPU; 0: before the recording */
	u64 fault_on; /* times.ns[ST_FAULT] then */
	u32 waker_tid;
	u32 off_tid; /* its tid when it left the CPU; of a dying thread: when it exited */
	u16 off_cpu, on_cpu;
	u8 waker_irq;
	u8 fault_flags;
	u8 n_due;
	u8 off_named; /* not 0: what it is off the CPU for has a name: BLOCKED_NAMED */
	struct asleep asleep;
	u8 in_exec; /* past the point of no return: the old image is gone */
	u8 step_left : 1, step_entered : 1; /* a step was left, the next one entered, while the former was still to be sent */
	u32 closed; /* closing what was open at the end of the window: CLOSE_BEGUN, CLOSE_DONE */
	u64 fault_start;
	u64 fault_addr;
	u64 ret_sp, ret_ns; /* the last return seen, until the next entry */
	struct thread_times view; /* another thread's, as read */
	struct open_wait view_wait; /* likewise; too large for a program's stack */
	struct thread_now view_now[2];
	u64 step_ns[ST_MAX];	  /* times.ns when the step in flight began; with step_over when the last one ended */
	struct hits step_hits;
	u32 timed_kind, step_over;
	u64 timed_ns;	/* when the function probe in flight began; 0: it is not timed */
	u64 group_key;		   /* its last group */
	u32 member_step; /* number + 1 of the step that it works on for another thread, at its last barrier */
	u32 epoch;		   /* of that group at the thread's last barrier */
	struct open_wait wait;	   /* at a barrier that only its arrival shows */
	u32 member_slot;	   /* its index among the members */
	u64 tid_ns; /* dying: the last instant at which it was known to have its tid */
	struct step_counts counts; /* the kernel's, just read by counts_read(); and graphs */
	struct irq_frame irqs[IRQ_DEPTH];
	/* With cfg.sums; [1]: involuntary, major. */
	u32 switches[2], faults[2], faults_kernel;
	u32 next_number; /* of the step that was entered */
	u64 fault_ns[2];
	u32 cut_probe, cut_depth; /* of the step that frames_end() has found: the probe's id + 1, or 0 */
	struct kept_calls calls[KEPT_CALLS];
	struct open_op op;
};

/* A wait whose stack is copied at the end of the call that it was in. */
#define WAITS_DUE 4	   /* in one call; a power of two */
#define WAIT_KERNEL_MAX 24 /* frames */

struct due_wait {
	u64 from, ns;
	u32 waker_tid;
	u32 step;
	u8 state;
	u8 flags; /* REC_F_* */
	u16 kernel_n;
	u32 sample_flags; /* SAMPLE_F_* */
	u64 waker_ns;
	u64 kernel[WAIT_KERNEL_MAX];
};

/* The state of a traced thread; a thread without one is no target. (Structures without a name: -fms-extensions.) */
struct thread {
	struct thread_now;
	struct thread_kept;
	struct thread_window;
	struct rec_step step; /* the step in flight; too large for a program's stack */
	struct frame frames[FRAMES_MAX];
	struct due_wait due[WAITS_DUE]; /* the first n_due of them */
	u64 wakes_call, wakes_ns; /* sys_start of the last call that woke a thread, and when its stack was sent for that */
	u64 waker_ns; /* wakes_ns of the thread that woke this one; 0: no stack was sent */
	u64 python; /* its state in the interpreter: see python.bpf.h */
	u32 python_misses;
	/* the Python function in flight that is a step: python_step.bpf.h */
	u32 python_probe;
	u64 python_frame, python_state, python_sp; /* python_frame 0: none; PYTHON_NO_FRAME: one whose return does not end it */
	u64 python_end_sp; /* python_sp of that whose return does */
	u64 python_seen; /* the frame of the call that a probe has seen, of steps that are two functions */
	u64 python_key; /* in python_calls */
	u64 python_watched, python_previous; /* the same frame, if a watchpoint has seen it begin; the one that called it */
	u64 python_span_state, python_span_key; /* as above, of the latest Python function that is a slice; 1 + the key */
	u64 work_seen_ns; /* see engine_called() */
	u64 packet_us, packet_sk; /* see came_ns(); the socket that it is of */
	u32 fault_counts[2]; /* with cfg.fault_return: the kernel's, minor and major, when the fault in flight began */
	struct hooked hooked, view_hooked; /* its own; another thread's, as read */
	struct hook_read view_slot; /* likewise its slot */
};
_Static_assert(__builtin_offsetof(struct thread, since) == 0, "member_look() reads struct thread_now at the thread's address");
_Static_assert(sizeof(struct thread_now) % 8 == 0 && sizeof(struct thread_window) % 8 == 0,
	"thread_renew() clears them in units of 8 bytes");
/* The kernel has 8 bytes of its own before it, in the first cache line. */
#define LINE_OF(member) ((__builtin_offsetof(struct thread, member) + 8) / 64)
_Static_assert(LINE_OF(syscalls) == 0 && LINE_OF(sys_arg0) == 1 && LINE_OF(times.ns[ST_FAULT]) == 1,
	"a system call touches two cache lines");
_Static_assert(LINE_OF(wake_ns) == 4 && LINE_OF(asleep.off) == 4 && LINE_OF(n_due) == 4, "a switch touches two more, and one of the times");

static __always_inline const struct thread_now *now_of(const struct thread *t)
{
	return (const struct thread_now *)t;
}

/* Full (no memory): the thread is not traced; counted. Freed with the task. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} threads __weak SEC(".maps");

/* Strings of calls in flight: a slot for each frame and one for the begin/end pair. */
#define STRINGS_OP FRAMES_MAX
#define STRINGS_SLOTS (FRAMES_MAX + 1)

struct string_slot {
	char s[FUNC_STRS_MAX][FUNC_STR_LEN];
};

struct strings {
	struct rec_function out; /* too large for a program's stack */
	struct string_slot slots[STRINGS_SLOTS];
};

/* Separate from struct thread, since few threads call functions with strings. Full (no memory): the
 * strings are empty. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct strings);
} strings __weak SEC(".maps");

/* Returns the value of a key in a hash, created as a copy of *first if there is none. NULL: no room; the caller counts it. */
static __always_inline void *lookup_or_create(void *map, const void *key, const void *first)
{
	void *value = bpf_map_lookup_elem(map, key);

	if (value)
		return value;
	bpf_map_update_elem(map, key, first, BPF_NOEXIST); /* fails if another CPU was first, which is just as well */
	return bpf_map_lookup_elem(map, key);
}

/* Numbers a process's new mapping of an executable file. Called before user space is notified, so that this knows when it
 * has seen all mappings. */
__weak __noinline int hold_mapped(u32 tgid)
{
	struct hold_state *h, none = {};
	u64 n;

	if (!cfg.hold)
		return 0;
	h = lookup_or_create(&holds, &tgid, &none);
	n = __sync_fetch_and_add(&mapping, 1) + 1;
	if (h)
		WRITE_ONCE(h->mapped, n);
	else
		__sync_fetch_and_add(&stats.holds_full, 1);
	return 0;
}

/*
 * CLOCK_BOOTTIME. bpf_ktime_get_boot_ns() would add a function on the way to the clock, and each return costs 10 ns
 * where the kernel guards returns against speculation.
 */
static __always_inline u64 now_ns(void)
{
	return bpf_ktime_get_ns() + boot_offset;
}

/* ---- threads ---- */

/* NULL: no target. */
static __always_inline struct thread *thread_of(struct task_struct *task)
{
	return bpf_task_storage_get(&threads, task, 0, 0);
}

/*
 * The same for programs whose tasks are mostly no targets: such a task has no storage of any kind, which takes no call to
 * see. Not used everywhere, since each pointer loaded from a task costs a millisecond at the start of a recording: the
 * verifier goes through all of the kernel's types four times to learn whether to trust it.
 */
static __always_inline struct thread *thread_of_any(struct task_struct *task)
{
	return task->bpf_storage ? thread_of(task) : NULL;
}

static __always_inline struct thread *thread_create(struct task_struct *task)
{
	struct thread *t;

	t = bpf_task_storage_get(&threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!t)
		__sync_fetch_and_add(&stats.no_storage, 1);
	return t;
}

#include "hits.bpf.h"

static __always_inline void counts_fill(struct step_counts *n, const struct thread *t, struct task_struct *task)
{
	n->switches_voluntary = task->nvcsw;
	n->switches_involuntary = task->nivcsw;
	n->migrations = task->se.nr_migrations;
	n->faults_minor = task->min_flt;
	n->faults_major = task->maj_flt;
	n->syscalls = t->syscalls;
	n->graphs = t->counts.graphs;
	n->cpus_allowed = task->nr_cpus_allowed;
}

/* Copies the task's counts to t->counts, since global functions cannot take a task. */
static __always_inline void counts_read(struct thread *t, struct task_struct *task)
{
	counts_fill(&t->counts, t, task);
}

/* Sets *from to *to - *from. */
static __always_inline void counts_subtract(struct step_counts *from, const struct step_counts *to)
{
	from->switches_voluntary = to->switches_voluntary - from->switches_voluntary;
	from->switches_involuntary = to->switches_involuntary - from->switches_involuntary;
	from->migrations = to->migrations - from->migrations;
	from->faults_minor = to->faults_minor - from->faults_minor;
	from->faults_major = to->faults_major - from->faults_major;
	from->syscalls = to->syscalls - from->syscalls;
	from->graphs = to->graphs - from->graphs;
	from->cpus_allowed = to->cpus_allowed;
}

/*
 * Whether this call counts. While links are being replaced, a call hits the links of two generations in one visit of the
 * kernel: the newer ones first, since consumer_add() in kernel/events/uprobes.c puts them in front. The newest decide for
 * the older ones, too.
 */
static __always_inline bool link_lives(struct thread *t, u64 cookie)
{
	u32 gens = link_gens, gen = cookie >> 32;

	if (gen == gens >> 16)
		t->link_gen = gens & 0xffff;
	return t->link_gen == gen;
}

static __always_inline struct strings *strings_of(struct task_struct *task)
{
	return bpf_task_storage_get(&strings, task, 0, 0);
}

/* The bound must stay visible to the verifier: clang would fold it into what it knows about i. */
static __always_inline struct frame *frame_at(struct thread *t, u32 i)
{
	barrier_var(i);
	return &t->frames[i & (FRAMES_MAX - 1)];
}

/*
 * Marks a place between two stores or loads where an interrupt would show. Does nothing, unless the programs are built with
 * -DRACE_WINDOWS, which stretches the moment to microseconds (tests/integration/races.sh), or by tests/unit.
 */
#ifdef RACE_WINDOWS
__weak __noinline int race_window(void)
{
	for (int i = 0; i < 60; i++)
		bpf_ktime_get_ns();
	return 0;
}
#elif !defined(race_window)
#define race_window() (void)0
#endif

#define NEXT_BITS 5
#define NEXT_STATE ((1 << NEXT_BITS) - 1)
_Static_assert(ST_MAX < 1 << NEXT_BITS, "a state fits beside the instant of an announcement");

/* One word, so that whoever interrupts the store finds the old announcement or the new one, and no mixture. The
 * upper bits of the instant are left out: it is compared with `since` only. */
static __always_inline u64 announcement(u64 since, u32 state)
{
	return since << NEXT_BITS | state;
}

/* From `since` on the state is `state`, whatever the fields say. */
static __always_inline void thread_announce(struct thread *t, u64 since, u32 state)
{
	WRITE_ONCE(t->next, announcement(since, state));
}

static __always_inline bool now_is_announced(const struct thread_now *t, u64 next)
{
	u64 since = READ_ONCE(t->since);

	return since && next >> NEXT_BITS == since << NEXT_BITS >> NEXT_BITS;
}

/* The state of a running thread. */
static __always_inline u32 now_on_state(const struct thread_now *t)
{
	u64 next = READ_ONCE(t->next);

	if (now_is_announced(t, next))
		return next & NEXT_STATE;
	if (t->role == ST_GPU_WAIT)
		return ST_GPU_WAIT;
	if (cfg.track_irq && READ_ONCE(t->irq_depth))
		return ST_IRQ;
	if (t->in_fault)
		return ST_FAULT;
	if (t->in_syscall)
		return ST_SYSCALL;
	return t->role & 3;
}

/* The state of a thread that left the CPU in the state `off`, or 0. A wait for the GPU is one
 * state, on and off the CPU. */
static __always_inline u32 now_state(const struct thread_now *t, u32 off)
{
	u32 on = now_on_state(t);

	return off && on != ST_GPU_WAIT ? off : on;
}

static __always_inline u32 thread_on_state(const struct thread *t)
{
	return now_on_state(now_of(t));
}

static __always_inline u32 thread_state(const struct thread *t, u32 off)
{
	return now_state(now_of(t), off);
}

/*
 * A program that is about to change what is in flight on its thread (the state, a function, a system call, a fault)
 * sets a mark first, and removes it when the records of what has ended are in their ring. A program that reads
 * another thread relies only on what it read while no mark was set and `since` did not move: see snapshot_peek(). A
 * changing program reads the clock after change_begin(), so a span that the reader has seen open ends after the
 * reader looked. Programs on interrupts set no mark: they change only the state, and `since` shows that.
 *
 * The scheduler's programs have a separate mark, since they run in the middle of the others.
 */
static __always_inline void change_begin(struct thread *t)
{
	WRITE_ONCE(t->changing, 1); /* an exchange, or the barrier of call_begin(), orders it before the changes */
}

static __always_inline void change_end(struct thread *t)
{
	smp_wmb();
	WRITE_ONCE(t->changing, 0);
}

static __always_inline void switch_begin(struct thread *t)
{
	WRITE_ONCE(t->switching, 1);
	smp_wmb();
}

static __always_inline void switch_end(struct thread *t)
{
	smp_wmb();
	WRITE_ONCE(t->switching, 0);
}

/* Whether what the task iterator knows about the thread is still valid. */
static __always_inline bool thread_asleep(const struct thread *t)
{
	return t->asleep.off && READ_ONCE(t->since) == stats.start_ns;
}

/* Takes over what the task iterator has left for the first program that sees the thread come back onto a CPU. */
static __always_inline void thread_adopt(struct thread *t)
{
	if (!t->asleep.off)
		return;
	if (thread_asleep(t)) {
		t->off_tid = t->asleep.tid;
		t->off_flags = REC_F_OPEN_START;
		t->off = t->asleep.off;
		t->sys_nr = t->asleep.sys_nr;
		t->sys_arg0 = t->asleep.sys_arg0;
		t->sys_start = stats.start_ns;
		t->sys_flags = t->asleep.sys_flags;
		t->in_syscall = t->asleep.in_syscall;
	}
	t->asleep.off = 0;
}

/* ---- access to the rings ---- */

static __always_inline void count_lost(u32 group, u32 kind)
{
	if (group < RINGS_MAX && kind < REC_KIND_MAX)
		__sync_fetch_and_add(&stats.lost[group][kind], 1);
	__sync_fetch_and_add(&stats.lost_total, 1);
}

/*
 * Called as a program of the thread begins. A fault that still seems to be in flight has ended in a signal, unless the kernel
 * has counted it: then its end was missed (faults.bpf.c says why). It is counted here as lost; its unknown duration stays with
 * what it interrupted.
 */
static __always_inline void fault_missed(struct thread *t)
{
	struct task_struct *task;
	u32 major;

	if (!cfg.fault_return || !t->in_fault)
		return;
	task = bpf_get_current_task_btf();
	major = (u32)task->maj_flt != t->fault_counts[1];
	if (!major && (u32)task->min_flt == t->fault_counts[0])
		return;
	WRITE_ONCE(t->in_fault, 0);
	if (cfg.sums)
		t->faults[major]++;
	__sync_fetch_and_add(&stats.faults_missed, 1);
	count_lost(bpf_get_smp_processor_id() >> cfg.ring_shift, REC_FAULT);
}

static __always_inline void emit(void *rec, u64 size, u32 kind)
{
	u32 group = bpf_get_smp_processor_id() >> cfg.ring_shift;
	void *ring = bpf_map_lookup_elem(&rings, &group);

	/* output, not reserve and submit: a program that is preempted between the two would block
	 * the reader of the whole ring */
	if (!ring || bpf_ringbuf_output(ring, rec, size, BPF_RB_NO_WAKEUP))
		count_lost(group, kind);
}

/*
 * Reserves room for a record, which is filled in place and passed to emit_submit(): a third cheaper than emit(). For
 * programs on tracepoints and software events, which are seldom preempted. One that is preempted between the two blocks
 * the reader of its ring until it continues; nothing is lost unless the ring fills up meanwhile. NULL: full, and
 * counted.
 */
static __always_inline void *emit_reserve(u64 size, u32 kind)
{
	u32 group = bpf_get_smp_processor_id() >> cfg.ring_shift;
	void *ring = bpf_map_lookup_elem(&rings, &group), *rec = NULL;

	if (ring)
		rec = bpf_ringbuf_reserve(ring, size, 0);
	if (!rec)
		count_lost(group, kind);
	return rec;
}

static __always_inline void emit_submit(void *rec)
{
	bpf_ringbuf_submit(rec, BPF_RB_NO_WAKEUP);
}

/* wake: BPF_RB_NO_WAKEUP or BPF_RB_FORCE_WAKEUP */
static __always_inline void emit_control(void *rec, u64 size, u32 kind, u64 wake)
{
	if (bpf_ringbuf_output(&control, rec, size, wake))
		count_lost(0, kind);
}

#define STEPS_LOST ((u32)stats.lost[0][REC_STEP]) /* emit_step() loses none elsewhere */

/* Steps are few, and report what was lost: if their ring is full they use the control ring. */
static __always_inline void emit_step(void *rec, u64 size)
{
	u32 group = bpf_get_smp_processor_id() >> cfg.ring_shift;
	void *ring = bpf_map_lookup_elem(&rings, &group);

	if (!ring || bpf_ringbuf_output(ring, rec, size, BPF_RB_NO_WAKEUP))
		emit_control(rec, size, REC_STEP, BPF_RB_NO_WAKEUP);
}

static __always_inline bool emits(u32 kind)
{
	return cfg.emit_mask & (1u << kind) && !(cfg.budget && kinds_off & (1u << kind));
}

static __always_inline void hdr_fill(
	struct rec_hdr *h, u32 kind, u64 start, u64 end, u32 tgid, u32 tid, u32 id, u32 flags)
{
	h->start_ns = start;
	h->dur_ns = end > start ? end - start : 0;
	h->tgid = tgid;
	h->tid = tid;
	h->cpu = bpf_get_smp_processor_id();
	h->kind = kind;
	h->flags = flags;
	h->id = id;
}

static __always_inline void hdr_current(
	struct rec_hdr *h, u32 kind, u64 start, u64 end, u32 id, u32 flags)
{
	struct task_struct *task = bpf_get_current_task_btf();

	hdr_fill(h, kind, start, end, task->tgid, task->pid, id, flags);
}

#endif
