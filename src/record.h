/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The records that travel from the BPF programs to user space.
 *
 * Shared by both sides, so only fixed-width types are allowed. Every record is a complete span or
 * an instant: user space never pairs anything. Records contain ids instead of strings, except for
 * the comm in REC_TASK, the source of names, which cannot be looked up once a short-lived task is
 * gone.
 */
#ifndef INFTRACE_RECORD_H
#define INFTRACE_RECORD_H

#ifndef __bpf__
#include <stdint.h>
typedef uint64_t u64;
typedef int64_t s64;
typedef uint32_t u32;
typedef int32_t s32;
typedef uint16_t u16;
typedef uint8_t u8;
#endif

/* Kinds of records; index of every counter per kind. */
enum rec_kind {
	REC_SYSCALL,
	REC_OFF_CPU,
	REC_ON_CPU,
	REC_FAULT,
	REC_FUNCTION,
	REC_STEP,
	REC_TASK,
	REC_MAPPED, /* the target mapped an executable file: look for probes */
	REC_IRQ,
	REC_MEMORY, /* made in user space, from the programs' counts */
	REC_REQUEST,
	REC_HOLD,     /* the thread waited for its probes */
	REC_PLACED,   /* made in user space: probes were placed after the file had been mapped */
	REC_SAMPLE,   /* a copied stack, which no sink sees: user space turns it into REC_STACK */
	REC_STACK,    /* made in user space */
	REC_GPU,      /* made in user space: what a GPU did */
	REC_GPU_STEP, /* made in user space: what a GPU did during a step */
	REC_GPU_LOAD, /* made in user space: how busy a GPU was */
	REC_NODE,     /* an operator's node in the engine's graph, and its sources */
	REC_MESSAGE,  /* a call moved data over a TCP connection */
	REC_GAP,      /* made in user space: what came between two steps of a context, and who caused it */
	REC_SENT,     /* made in user space: a server passes a request on to its engine, or an answer to its client, and what that waited for */
	REC_METRIC,   /* made in user space: a value of the engine's own metrics */
	REC_ANSWERED, /* the header alone, of the thread that wrote the first part of an answer: from the beginning of its request until then */
	REC_KIND_MAX,
};

/*
 * Time states, exclusive and exhaustive: at each instant a thread is in exactly one.
 * The order is the order of the stages in the profile.
 */
enum time_state {
	ST_CPU,
	ST_BARRIER,
	ST_GPU_WAIT,
	ST_GC,
	ST_SYSCALL,
	ST_FAULT,
	ST_IRQ,
	ST_RUNNABLE,
	ST_BLOCKED_FUTEX,
	ST_BLOCKED_GIL, /* the lock of a Python interpreter */
	ST_BLOCKED_IO,
	ST_BLOCKED_NET,
	ST_BLOCKED_IPC,
	ST_BLOCKED_POLL,
	ST_BLOCKED_SLEEP,
	ST_BLOCKED_FAULT,
	ST_BLOCKED_GPU,
	ST_BLOCKED_OTHER,
	ST_STOPPED,
	ST_MAX,
};

/* How a system call can block: indexed by syscall number in the BPF programs. */
enum sys_class {
	SYS_OTHER,
	SYS_FUTEX,
	SYS_SLEEP,
	SYS_POLL,
	SYS_FD, /* the file type behind the fd in the first argument decides: io, net, ipc, gpu */
	SYS_IO, /* file I/O whatever the first argument is: sync, open, rename ... */
	SYS_NET,
	SYS_IPC,
	SYS_MAP, /* mmap: may map an executable file */
};
/* Or-ed to that: the call moves data through its fd; with SYS_FUTEX: its number alone tells whether it waits or wakes. */
#define SYS_F_TRANSFER 0x80

/* rec_hdr.flags: these are the same for all kinds ... */
#define REC_F_OPEN_START 0x01 /* began before the recording: start is the start of the recording */
#define REC_F_OPEN_END 0x02   /* still open at the end: dur runs to the end of the recording */
#define REC_F_WOKE 0x80       /* of a span: woke a thread of the targets */

/* ... and each kind has its own within REC_F_OF_KIND, named after it. */
#define REC_F_OF_KIND 0x7c
#define SYSCALL_F_BLOCKED 0x04 /* went off CPU in between (the slow path) */
#define SYSCALL_F_COMPAT 0x08  /* the number is from the 32-bit table */
#define SYSCALL_IPC_SHIFT 4    /* enum ipc_kind, in these three bits */
#define SYSCALL_IPC_MASK 0x70
#define OFF_CPU_F_PREEMPT 0x04   /* involuntary */
#define OFF_CPU_F_WAKER_IRQ 0x08 /* woken from an interrupt, so the waker is unknown */
#define FUNCTION_F_SAMPLED 0x04  /* of an operator: samples were taken while it was in flight; see rec_sample.ref */
#define FUNCTION_F_COUNTED 0x08  /* of an operator: struct rec_counts follows the rest of it */
#define FUNCTION_F_OFF_CPU 0x10  /* of an instant of ROLE_SEQUENCE: off_cpu_ns is known */
#define STEP_F_WATCHED 0x04      /* a call of a Python function whose end a watchpoint saw, not a probe at all functions */
#define FAULT_F_MAJOR 0x04
#define FAULT_F_KERNEL 0x08       /* taken in the kernel, an instant (its start is not seen) */
#define IRQ_F_SOFT 0x04           /* a soft interrupt */
#define IRQ_F_VECTOR 0x08         /* enum irq_vector */
#define REQUEST_F_END_UNSEEN 0x04 /* its end was not seen */
#define REQUEST_F_FAILED 0x08     /* the answer could not be written: the client had closed the connection */
#define REQUEST_F_HEADER_ONLY 0x10 /* of the answer only the header was written, which says that parts follow */

struct rec_hdr {
	u64 start_ns; /* CLOCK_BOOTTIME */
	u64 dur_ns;   /* 0 for an instant */
	u32 tgid, tid;
	u16 cpu;
	u8 kind; /* enum rec_kind */
	u8 flags;
	u32 id; /* syscall number, probe id, enum time_state, enum task_event, step number */
};
_Static_assert(sizeof(struct rec_hdr) == 32, "no kind has padding behind the header");

/*
 * What a system call passes data through, in (flags & SYSCALL_IPC_MASK) >> SYSCALL_IPC_SHIFT. A call that blocked took the
 * slow path, any other the fast path.
 */
enum ipc_kind {
	IPC_NONE, /* or something else */
	IPC_PIPE,
	IPC_UNIX,
	IPC_EVENTFD,
	IPC_FUTEX_WAIT,
	IPC_FUTEX_WAKE,
	IPC_MAX,
};
_Static_assert(IPC_MAX <= (SYSCALL_IPC_MASK >> SYSCALL_IPC_SHIFT) + 1, "the kinds fit into their bits");

struct rec_syscall {
	struct rec_hdr h; /* id: number */
	s64 ret;
	u64 arg0;
};

struct rec_off_cpu {
	struct rec_hdr h; /* id: enum time_state of the part before the wake-up */
	/* when it was woken, perhaps just before it left the CPU; 0: it stayed runnable, or was not woken */
	u64 wake_ns;
	u32 waker_tid;
	u16 cpu_from; /* CPU that it left; h.cpu is the one it came back on */
	u8 late;      /* its end was not seen: it ends when the thread was next seen running */
	u8 pad;
	u64 waker_slice; /* start_ns of the waker's span; 0: it was in none that is recorded */
};

#define REC_ON_CPU_PREEMPTED 0x100 /* like TASK_REPORT_MAX in the kernel's tracepoint */

struct rec_on_cpu {
	struct rec_hdr h; /* id: the task's state when it left, or REC_ON_CPU_PREEMPTED */
};

struct rec_fault {
	struct rec_hdr h;
	u64 addr;
};

#define FUNC_VALS_MAX 10
#define FUNC_STRS_MAX 2
#define FUNC_STR_LEN 64 /* with its NUL */

/*
 * After the last value in use come the strings, if the probe fetches any, FUNC_STR_LEN bytes each, in the order of
 * the string arguments; then the record ends. The value of a string argument is its address.
 */
struct rec_function {
	struct rec_hdr h; /* id: probe id */
	u32 step;         /* number + 1 of the step to which the call belongs; 0: none */
	u32 off_cpu_ns;   /* with FUNCTION_F_OFF_CPU: off-CPU time since the thread's last step, modulo 2^32 */
	u64 vals[FUNC_VALS_MAX];
	char strs[FUNC_STRS_MAX][FUNC_STR_LEN];
};
#define REC_FUNCTION_SIZE(nvals) (sizeof(struct rec_hdr) + 2 * sizeof(u32) + (nvals) * sizeof(u64))
_Static_assert(REC_FUNCTION_SIZE(FUNC_VALS_MAX) == __builtin_offsetof(struct rec_function, strs),
	"the strings of a function with all values lie where they are declared");

/* CPU counters that are read at a time, at most: src/capture/perf_events.h. */
#define PMU_MAX 3

enum counted {
	COUNTED_NONE, /* nothing was to be counted */
	COUNTED,
	COUNTED_SHARED, /* others used the counters for a part of the time */
	COUNTED_NOT,    /* the counters could not be read at one of the ends, or a switch in between was not seen */
};

/* At the end of a record with FUNCTION_F_COUNTED: after its values, or if it has strings, after FUNC_STRS_MAX of these. */
struct rec_counts {
	u64 n[PMU_MAX];
};

#define NODES_MAX 11       /* the node and its sources: ggml has ten */
#define NODE_BYTES_MAX 384 /* of each; ggml's have 336 */

/* Nodes of the graph, as in the engine's memory when an operator begins on the first of its threads. Ends after the last
 * node. */
struct rec_node {
	struct rec_hdr h;  /* id: probe id; an instant */
	u32 step;          /* as in rec_function */
	u16 n;             /* nodes */
	u16 unread;        /* 1 << node: could not be read and is 0 */
	u64 at[NODES_MAX]; /* addresses of the nodes: the operator's own, then its sources in their order */
	u8 nodes[NODES_MAX][NODE_BYTES_MAX];
};
#define REC_NODE_SIZE(n) (__builtin_offsetof(struct rec_node, nodes) + (n)*NODE_BYTES_MAX)

/* Counts of a step, for the calling thread. */
struct step_counts {
	u32 switches_voluntary, switches_involuntary;
	u32 migrations;
	u32 faults_minor, faults_major;
	u32 syscalls;
	u32 graphs;       /* launched */
	u32 cpus_allowed; /* not a count: the CPUs that it may run on, at the end of the step */
};

#define TASK_COMM_LEN 16

/* A thread that worked on a step for the one that called it. */
#define STEP_WORKERS_MAX 64
struct step_worker {
	u32 tid;       /* 0: none */
	u32 joined_us; /* after the step's begin, rounded up */
};

/*
 * Time that threads waited for a CPU while one other thread ran on it. A step keeps the largest few; the
 * rest of its time in ST_RUNNABLE belongs to others, or to unknown threads.
 */
#define BEHIND_MAX 8
#define BEHIND_LIMIT 0xffffffffu /* tid: not behind a thread, but held back by a CPU limit of the cgroup */

struct behind {
	u64 ns;   /* 0: empty */
	u32 tid;  /* 0: the idle task, or BEHIND_LIMIT */
	u32 tgid; /* 0: as tid */
	char comm[TASK_COMM_LEN];
};

struct behind_table {
	struct behind slots[BEHIND_MAX];
};

/* Programs that ran on a thread, by their overhead. */
enum hit_kind {
	HIT_ENTRY,   /* a function probe whose instruction the kernel emulates */
	HIT_STEPPED, /* one whose instruction is single-stepped */
	HIT_RETURN,
	HIT_SYSCALL, /* two for each call */
	HIT_SWITCH,  /* the thread came onto a CPU */
	HIT_WAKE,    /* it woke another thread */
	HIT_FAULT,
	HIT_FAULT_END,
	HIT_WATCH, /* a watchpoint */
	HIT_HOOK, /* no program: a call that is seen by a hook */
	HIT_MAX,
};

struct hits {
	u32 n[HIT_MAX];
};

/* What --budget turns off, one after the other. */
enum shed_part {
	SHED_SAMPLES,   /* stacks: of samples and of waits */
	SHED_BARRIERS,  /* the probes of barriers */
	SHED_OPERATORS, /* the probes of functions that make neither states nor steps */
	SHED_SYSCALLS,  /* the records of system calls */
	SHED_TIMELINE,  /* all other records but steps and task events */
	SHED_PARTS,
};
#define SHED_CHANGED (1u << 31) /* with bits of these: one was off for a part of the step only */

/* The part of a step that belongs to one sequence: its rows. */
#define STEP_PARTS_MAX 256 /* a power of two */
struct row_part {
	u64 sequence;
	s64 position; /* of the first row; -1: unknown */
	u32 rows;
	u32 outputs; /* rows with an output; ROW_PART_UNKNOWN */
};
#define ROW_PART_UNKNOWN 0xffffffffu

/* What the scheduler of an engine in Python says of itself in a step. */
enum scheduler_value {
	SCHEDULER_WAITING,     /* requests that wait */
	SCHEDULER_RUNNING,     /* requests that have a slot ... */
	SCHEDULER_SLOTS,       /* ... and how many slots there are */
	SCHEDULER_TOKENS_MAX,  /* of a step */
	SCHEDULER_KV_FREE,     /* blocks of the KV cache: that are free ... */
	SCHEDULER_KV_BLOCKS,   /* ... and in all */
	SCHEDULER_AHEAD,       /* not 0: it has made the next step's batch already */
	SCHEDULER_FULL,        /* not 0: the KV cache had no room for a request */
	SCHEDULER_VALUES, /* a power of two */
};

/* Why that scheduler let no other request in: its key, and what a sentence and a table say. */
#define REFUSALS_ALL(X)                                                                \
	X(SLOT, slot, "all slots were taken", "all slots taken")                       \
	X(TOKENS, tokens, "steps had as many tokens as they may", "steps had no tokens left") \
	X(KV, kv, "the KV cache was full", "KV cache full")

enum refusal {
#define REFUSAL(name, key, phrase, column) REFUSED_##name,
	REFUSALS_ALL(REFUSAL)
#undef REFUSAL
		REFUSALS,
};

/* Followed by n_parts of struct row_part, in the order of their first rows in the batch. A row of several sequences
 * counts in each. */
struct rec_step {
	struct rec_hdr h; /* id: probe id */
	u64 vals[FUNC_VALS_MAX];
	u64 ns[ST_MAX]; /* add up to h.dur_ns exactly */
	/* of the other threads that worked on the step, each since it joined */
	u64 workers_ns[ST_MAX];
	u32 workers;
	u32 straggler_tid;      /* the thread that the caller waited for in its longest wait at a barrier; 0: none */
	u64 held_at, held_ns;   /* that wait */
	u32 number;             /* 0, 1, ... in the order in which steps began in this recording */
	u32 lost;               /* records of any kind lost during the step */
	struct step_counts n;
	union {
		struct step_worker team[STEP_WORKERS_MAX]; /* as the programs send it */
		struct {
			struct behind_table behind, workers_behind; /* set in user space: who ran while the caller, and the workers, waited for a CPU */
		};
	};
	struct hits hits, workers_hits;             /* on the caller, and on the workers */
	char strs[FUNC_STRS_MAX][FUNC_STR_LEN];     /* string arguments, as in rec_function */
	/* the caller's time by state between the end of its thread's previous step and the start of this one, which it sums to;
	 * all 0: unknown */
	u64 before_ns[ST_MAX];
	u32 n_parts;         /* 0: its rows are not described, or could not be read */
	u32 parts_left;      /* sequences beyond the first STEP_PARTS_MAX, which have no part */
	u32 left_out;        /* set in user space: 1 << enum shed_part that was off while it ran; SHED_CHANGED */
	u32 steps_lost;      /* steps whose records were lost in this recording before this one was made */
	u64 counts[PMU_MAX]; /* of the caller; only with COUNTED */
	u32 counted;         /* enum counted */
	u32 counts_pad;
	u32 scheduler[SCHEDULER_VALUES]; /* each plus 1; 0: unknown */
};

#define REC_STEP_SIZE(parts) (sizeof(struct rec_step) + (parts) * sizeof(struct row_part))

struct rec_step_parts {
	struct rec_step s;
	struct row_part parts[STEP_PARTS_MAX];
};

/*
 * Task events, and what traces call them. FORK: a new thread or process, arg: parent tid. EXEC: arg: tid before the exec.
 * EXIT: arg: exit code as in wait(2); only the flags tell whether the process is gone. COMM: a thread's name, at the start or
 * when it changed.
 */
#define TASK_EVENTS(X) X(TASK_FORK, "fork") X(TASK_EXEC, "exec") X(TASK_EXIT, "exit") X(TASK_COMM, "rename")

enum task_event {
#define TASK_EVENT(event, name) event,
	TASK_EVENTS(TASK_EVENT)
		TASK_STRANGER, /* the name of a thread that is not a target, for the tracks of CPUs; not in the output itself */
};
#define TASK_F_LAST 0x01   /* TASK_EXIT: the last thread of its process */
#define TASK_F_SHARES 0x02 /* TASK_FORK: runs in the memory of its parent: a thread, or after vfork */

struct rec_task {
	struct rec_hdr h; /* id: enum task_event; tgid, tid: the task concerned */
	u32 arg;
	u32 ptgid; /* TASK_FORK: parent's tgid */
	char comm[TASK_COMM_LEN];
};

struct rec_mapped {
	struct rec_hdr h;
};

enum hold_end {
	HOLD_READY,
	HOLD_EXPIRED, /* the probes were not in place by the deadline */
};

/* A thread was held in the dynamic loader. */
struct rec_hold {
	struct rec_hdr h; /* id: enum hold_end */
};

#define PLACED_NAME_LEN 64 /* with its NUL */

/* An interval in which a mapped file's functions had no probes yet. */
struct rec_placed {
	struct rec_hdr h;           /* tid: the process */
	char file[PLACED_NAME_LEN]; /* the file's name, or the end of it */
};

/* Interrupts that x86 serves without a named handler. */
enum irq_vector {
	VECTOR_LOCAL_TIMER,
	VECTOR_RESCHEDULE,
	VECTOR_CALL_FUNCTION,
	VECTOR_CALL_FUNCTION_SINGLE,
	VECTOR_IRQ_WORK,
	VECTOR_MAX,
};

struct rec_irq {
	struct rec_hdr h; /* id: number of the interrupt, or of the soft one, or enum irq_vector */
};

/* Of a process, since the start of the recording. */
struct rec_memory {
	struct rec_hdr h; /* tid: the process */
	u64 rss_bytes;
	u64 pages_allocated, pages_freed;
};

/*
 * A histogram of the times between the parts of an answer. Each power of two of nanoseconds, from
 * 2^REQUEST_GAP_LOW, is divided into REQUEST_GAP_PARTS, so that a time is known to within 1.6 %.
 * The first and the last count include what is shorter and longer.
 */
#define REQUEST_GAP_LOW 16
#define REQUEST_GAP_OCTAVES 20
#define REQUEST_GAP_BITS 5
#define REQUEST_GAP_PARTS (1 << REQUEST_GAP_BITS)
#define REQUEST_GAPS (REQUEST_GAP_OCTAVES * REQUEST_GAP_PARTS)
#define REQUEST_HEAD_LEN 64
#define REQUEST_ANSWER_LEN 160 /* has the `id` of an answer of the OpenAI API, and of an event with a token of SGLang's own */

/* A request that was served through a socket. */
struct rec_request {
	struct rec_hdr h;                  /* from the first bytes received to the last ones written; id: the descriptor */
	u64 read_ns;                       /* when the server had read the first bytes */
	u64 accept_ns;                     /* of the connection, if this is its first request; 0: it is not, or unknown */
	u64 first_byte_ns;                 /* of the answer; 0: none */
	u64 first_chunk_ns, last_chunk_ns; /* of the parts after its header; 0: none */
	u64 bytes_read, bytes_written;
	u64 longest_ns; /* between two parts */
	u64 blocked_ns; /* in calls that wrote the answer and had to wait, for example for a slow client */
	u64 gone_ns;    /* when the client's closing of the connection, or of its half, was seen; 0: not seen */
	u32 reads, writes;
	u32 chunks; /* parts of the answer */
	u16 family; /* AF_ */
	u16 http;   /* head is the beginning of an HTTP request */
	char head[REQUEST_HEAD_LEN];
	char answer[REQUEST_ANSWER_LEN]; /* with http: the beginning of the first part of the answer after its header, as written; zeros: none */
	u16 gaps[REQUEST_GAPS];
};

#define MESSAGE_F_RECEIVED 0x04

/*
 * What a call has written to a TCP connection, or read from it. Both ends number the bytes alike, so a byte that one end has
 * received is found among those that the other has sent.
 */
struct rec_message {
	struct rec_hdr h; /* the call; id: the descriptor */
	u64 position;     /* of the byte after its last one, since the connection began; both ends may differ by one or two */
	u32 sequence;     /* likewise as TCP counts, modulo 2^32: from a number that both ends know and nobody can guess */
	u32 bytes;
	u32 local[4], peer[4]; /* IPv6, or IPv4 mapped into it; in network byte order, as in the packets */
	u16 local_port, peer_port;
	u32 pad;
};

enum sample_kind {
	SAMPLE_CPU,     /* taken at regular intervals of CPU time */
	SAMPLE_OFF_CPU, /* of a thread that waited */
	SAMPLE_WAKER,   /* of a thread that ended another one's wait */
	SAMPLE_KIND_MAX,
};

/* Registers by DWARF number. On x86_64: rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp, r8 to r15, rip. On arm64: x0 to x30, sp, pc. */
#if defined(__TARGET_ARCH_arm64) || defined(__aarch64__)
#define SAMPLE_REGS 33
#define SAMPLE_REG_SP 31
#else
#define SAMPLE_REGS 17
#define SAMPLE_REG_SP 7
#endif
#define SAMPLE_REG_PC (SAMPLE_REGS - 1)

#define SAMPLE_KERNEL_MAX 48 /* frames */
#define SAMPLE_PYTHON_MAX 64
#define SAMPLE_STACK_MAX 65536 /* bytes, from the stack pointer up: llama.cpp has a frame of 36 KB */

#define SAMPLE_F_TRUNCATED 0x01  /* the stack goes on beyond what was copied: it is longer, or a page is not there */
#define SAMPLE_F_PYTHON_CUT 0x02 /* more Python frames than SAMPLE_PYTHON_MAX, or one could not be read */
#define SAMPLE_F_NO_USER 0x04    /* no registers and no stack: a thread without user mode */
#define SAMPLE_F_WAITS 0x08      /* the thread still waits: its stack is not copied, and instead of Python frames there is one
				  * whose `code` is the thread pointer; see sample_complete() in stack/stack.c */
#define SAMPLE_F_WOKEN_IRQ 0x20  /* SAMPLE_OFF_CPU: an interrupt ended the wait */
#define SAMPLE_F_LOOKED 0x10     /* with SAMPLE_F_WAITS: for a dump while the recording goes on; the whole wait comes later */

/* Addresses in the process. */
struct python_frame {
	u64 code;  /* the code object */
	u64 instr; /* the instruction in it */
};

#define PYTHON_TASK_BYTES 192 /* the header of a string takes up to 72 of them */

/* The asyncio task that a thread runs. */
struct python_task {
	u32 frames; /* this many of the innermost Python frames are within the task */
	u32 bytes;  /* of the object that is its name, as far as it could be read, at most PYTHON_TASK_BYTES */
	u8 name[PYTHON_TASK_BYTES];
};

/*
 * A copied stack. Followed by kernel_n addresses of 8 bytes and python_n of struct python_frame, both innermost first, by a
 * struct python_task if `task` is set, and by stack_bytes (a multiple of 8) of the user stack from its pointer up.
 */
struct rec_sample {
	struct rec_hdr h; /* id: enum sample_kind. SAMPLE_CPU: an instant; SAMPLE_OFF_CPU: the wait */
	u32 step;         /* number + 1 of the step that the thread works on; 0: none */
	u8 state;         /* enum time_state: at the instant, or of the wait */
	u8 flags;         /* SAMPLE_F_* */
	u16 kernel_n;
	u16 python_n;
	u16 task; /* 1: the asyncio task is known */
	u32 stack_bytes;
	u32 waker_tid; /* SAMPLE_OFF_CPU: 0: unknown */
	u32 kept_of;   /* SAMPLE_CPU: it stands for so many samples, since others were left out; at least 1 */
	u64 ref;       /* SAMPLE_CPU: start_ns of the innermost operator in flight on the thread; if the last of its ends has been
		  * seen already, its record says so. SAMPLE_OFF_CPU: start_ns of its waker's sample. 0: none */
	u64 regs[SAMPLE_REGS];
};
#define REC_SAMPLE_SIZE(kernel, python, stack) \
	(sizeof(struct rec_sample) + (kernel) * sizeof(u64) + (python) * sizeof(struct python_frame) + (stack))
#define SAMPLE_TASK_SIZE(r) ((r)->task ? sizeof(struct python_task) : 0)

/* What user space makes of a sample. */
struct rec_stack {
	struct rec_hdr h; /* as the sample's */
	u32 step;
	u8 state;
	u8 flags; /* SAMPLE_F_* */
	u16 pad;
	u32 stack; /* its number in the recording */
	u32 waker_tid;
	u64 weight_ns; /* SAMPLE_CPU: the time between two samples; SAMPLE_OFF_CPU: the wait's */
	union {
		u64 ref;         /* as the sample's; of SAMPLE_OFF_CPU until its waker is known */
		u32 waker_stack; /* SAMPLE_OFF_CPU: the waker's stack, by number; or STACK_NONE */
	};
};

#define GPU_F_FIRST 0x04 /* the first that its call has launched */
#define GPU_F_AMD 0x08   /* on an AMD GPU */

enum gpu_activity {
	GPU_KERNEL,
	GPU_COPY,
	GPU_SET, /* of memory to a value */
	GPU_ACTIVITIES,
};

/* What a GPU did. Its times are the recording's, as far as the clocks could be compared. */
struct rec_gpu {
	struct rec_hdr h; /* id: enum gpu_activity; tid: the process */
	u32 device, context, stream;
	u32 track;       /* the number of its track in the recording */
	u32 name;        /* of a kernel: its number in the recording; 0: unknown */
	u32 correlation; /* the number of the call that caused it, as CUPTI counts */
	u32 grid[3], block[3];
	u32 shared; /* bytes of a block; those of them known at compile time: */
	u32 shared_static;
	u32 registers;      /* of a thread; 0: unknown */
	u32 copy_kind;      /* enum gpu_copy_kind in gpu/hand_over.h */
	u32 graph;          /* the CUDA graph that it belongs to; 0: none */
	u32 launch_tid;     /* the thread that launched it; 0: that was not seen */
	u32 graph_position; /* its place in the graph, from 1 on; 0: unknown */
	u32 captured_in;    /* number in the recording of the operator in which it was captured; 0: unknown */
	u64 graph_node;
	u64 bytes;
	u64 launch_ns, launched_ns; /* begin and end of the launching call; 0: it was not seen */
};

/* What a device did at each instant of a step: exactly one of these. */
enum gpu_part {
	GPU_PART_BUSY,        /* a kernel ran, other than of a collective */
	GPU_PART_COPY,        /* no kernel ran, but a copy */
	GPU_PART_IDLE_LAUNCH, /* idle, and nothing had been launched */
	GPU_PART_IDLE_WAIT,   /* idle, although something had been launched */
	GPU_PART_COLLECTIVE,  /* only kernels of collectives (NCCL) ran, which mostly wait for other devices */
	GPU_PART_UNKNOWN,     /* idle, and it is unknown whether something had been launched; or it is unknown what was launched */
	GPU_PART_MAX,
};

/* A time of GPU_PART_IDLE_LAUNCH, from the end of one launch's work to the next launch. */
struct gpu_gap {
	u64 start_ns, dur_ns; /* dur_ns 0: there is none */
	u32 tid;              /* the thread whose launch ended it; if none did, the step's */
	u32 pad;
};
#define GPU_GAPS 3 /* of a step: the longest, in order */

#define GPU_STEP_F_LOST 0x04 /* records of the GPU are missing: the times are unknown, and 0 */

/* One device during a step, as the process of the step used it. */
struct gpu_step_device {
	u32 device;
	u32 track;            /* the number of its track in the recording */
	u32 kernels, copies;  /* that ran within it */
	u64 ns[GPU_PART_MAX]; /* add up to the step's time exactly */
	u64 after_ns;         /* how long work launched in the step ran on after its end */
};
#define GPU_STEP_DEVICES 16 /* if there are more, those with the lowest numbers have an entry of their own */

struct rec_gpu_step {
	struct rec_hdr h; /* of the step; id: its probe */
	u32 step;         /* its number */
	u32 device;       /* the one that was busy for longest, in the step and with what was launched in it */
	/* What follows covers all devices together: they are busy while any of them is, and idle while all are. */
	u32 kernels, copies; /* that ran within it */
	u32 n_devices;       /* devices that ran something, or had something to run; 1 if none had */
	u32 pad;
	u64 ns[GPU_PART_MAX];                             /* add up to h.dur_ns exactly */
	u64 after_ns;                                     /* how long work launched in the step ran on after its end */
	u64 residual_ns;                                  /* clock uncertainty of the GPU's times */
	u64 before_ns[GPU_PART_MAX];                      /* since the end of its thread's last step; sum to that time; all 0: unknown */
	struct gpu_gap gaps[GPU_GAPS];                    /* none of the devices had anything to do */
	struct gpu_step_device devices[GPU_STEP_DEVICES]; /* by number; n_devices of them, as far as they fit. The last member */
};
/* The size with n devices: the unused ones are not sent. */
#define REC_GPU_STEP_SIZE(n) (__builtin_offsetof(struct rec_gpu_step, devices) + (n) * sizeof(struct gpu_step_device))

/* A process's use of a device in one interval. */
struct rec_gpu_load {
	struct rec_hdr h; /* id: the device; tid: the process */
	u64 busy_ns;      /* time in which something ran, at most h.dur_ns */
	u32 waits;        /* launched and not done at the interval's end; valid only with: */
	u32 has_waits;
};

enum gap_end {
	GAP_COMPLETE, /* explained back to its begin */
	GAP_TOO_LONG, /* given up after very many segments */
	GAP_TOO_OLD,  /* what was logged of the rest has been overwritten */
};

#define GAP_F_WITHIN 0x04 /* of struct rec_gap: not before a step, but what its thread waited for within it */

#define GAP_SEGMENT_F_WAKES 0x01   /* ended as its thread woke, or created, that of the segment after it */
#define GAP_SEGMENT_F_LIMITED 0x02 /* ST_RUNNABLE: a CPU limit of its cgroup held it back */
#define CALL_NONE 0xffff

/* What a thread did while the next step could not begin; as a cause: in all. */
struct gap_segment {
	u64 start_ns, dur_ns; /* a cause has no start */
	u64 by_ns;            /* for how long of it `by` */
	u64 file;             /* or peer that it waits for: see struct ran; of a cause 0 also if there were several */
	u32 tid, tgid;        /* tgid 0: unknown */
	u32 by_tid, by_tgid;  /* ST_RUNNABLE: which thread ran on its CPU meanwhile, of a cause for longest; 0: none did. ST_STOPPED: who
			       * continued it; 0: unknown */
	u16 call;             /* of a wait: the system call; CALL_NONE: none */
	u8 state;             /* enum time_state; ST_MAX: unknown */
	u8 flags;             /* GAP_SEGMENT_F_* */
	u32 pad;
	char comm[TASK_COMM_LEN], by[TASK_COMM_LEN]; /* "": unknown */
};

#define GAP_CAUSES_MAX 32
#define GAP_SEGMENTS_MAX 256

/* From the end of a context's step to the start of its next one; with REC_F_OPEN_START, from the window's begin to its first one.
 * The causes, with the others and the unknown time, sum to it. With GAP_F_WITHIN, the step itself: they sum to its waits, and
 * the segments leave out what its thread ran, and short ones. A REC_SENT is one up to the instant at which a request was passed on, from
 * some time before it came: context is sequence_id_hash() of its id, and step 0; or up to the first part of an answer, with the time at
 * which its request began as context. */
struct rec_gap {
	struct rec_hdr h; /* tid: the thread of the step; id: its probe */
	u64 context;
	u64 others_ns, unknown_ns; /* of causes that found no room, and of none */
	u32 step;                  /* its number */
	u8 end;                    /* enum gap_end */
	u8 n_causes;
	u16 n;
	/* n_causes, the longest first; then the latest n segments, the last one first, which touch each other. The last member */
	struct gap_segment seg[GAP_CAUSES_MAX + GAP_SEGMENTS_MAX];
};
#define REC_GAP_SIZE(n) (__builtin_offsetof(struct rec_gap, seg) + (n) * sizeof(struct gap_segment))

#define METRICS_MAX 1024
#define METRIC_NAME_LEN 200 /* with its NUL */

/* A value on the page with the metrics of an engine. Belongs to no thread. */
struct rec_metric {
	struct rec_hdr h;           /* an instant: when the page had arrived; id: the series, below METRICS_MAX */
	u64 value;                  /* the bits of a double; finite */
	char name[METRIC_NAME_LEN]; /* of the series, with its labels */
};

/* The largest record that a sink takes, and the largest that the programs send. */
#define REC_SIZE_MAX sizeof(struct rec_gap)
#define REC_SENT_MAX (REC_SAMPLE_SIZE(SAMPLE_KERNEL_MAX, SAMPLE_PYTHON_MAX, SAMPLE_STACK_MAX) + sizeof(struct python_task))

/* Both sides copy records in units of 8 bytes, and the rings align them to that. */
#define REC_ASSERT_WHOLE(type) _Static_assert(sizeof(type) % 8 == 0, #type " is a multiple of 8 bytes")
REC_ASSERT_WHOLE(struct rec_syscall);
REC_ASSERT_WHOLE(struct rec_off_cpu);
REC_ASSERT_WHOLE(struct rec_on_cpu);
REC_ASSERT_WHOLE(struct rec_fault);
REC_ASSERT_WHOLE(struct rec_function);
REC_ASSERT_WHOLE(struct rec_step);
REC_ASSERT_WHOLE(struct row_part);
REC_ASSERT_WHOLE(struct rec_task);
REC_ASSERT_WHOLE(struct rec_mapped);
REC_ASSERT_WHOLE(struct rec_hold);
REC_ASSERT_WHOLE(struct rec_placed);
REC_ASSERT_WHOLE(struct rec_irq);
REC_ASSERT_WHOLE(struct rec_memory);
REC_ASSERT_WHOLE(struct rec_request);
REC_ASSERT_WHOLE(struct rec_message);
REC_ASSERT_WHOLE(struct rec_sample);
REC_ASSERT_WHOLE(struct python_task);
REC_ASSERT_WHOLE(struct rec_stack);
REC_ASSERT_WHOLE(struct rec_gpu);
REC_ASSERT_WHOLE(struct rec_gpu_step);
REC_ASSERT_WHOLE(struct rec_gpu_load);
REC_ASSERT_WHOLE(struct rec_gap);
REC_ASSERT_WHOLE(struct rec_metric);
_Static_assert(sizeof(struct rec_request) <= REC_SIZE_MAX && sizeof(struct rec_step_parts) <= REC_SIZE_MAX,
	"a gap with all its segments is the largest record of a sink");
_Static_assert(REC_SIZE_MAX <= REC_SENT_MAX, "a sample is the largest record that is sent");

#endif
