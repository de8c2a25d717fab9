/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What user space passes to the BPF programs: configuration and, for each function probe, its role
 * and how to fetch its arguments. Shared by both sides, like record.h.
 */
#ifndef INFTRACE_PROBE_H
#define INFTRACE_PROBE_H

#include "python_walk.h"
#include "record.h"

#define RINGS_MAX 64

/* In the cookie of a probe, above its id: a step, which is also followed in closed windows. */
#define PROBE_COOKIE_STEP 0x80000000u
/* Likewise: the instruction is single-stepped. */
#define PROBE_COOKIE_STEPPED 0x40000000u
/* A place on a function's way out, see struct site_exit: the stack pointer at the entry was this register ... */
#define PROBE_COOKIE_EXIT_BP 0x20000000u
/* ... plus this many units of 8 bytes. */
#define PROBE_COOKIE_EXIT_SHIFT 12
#define PROBE_COOKIE_EXIT_MAX 0xffffu
/* Where the interpreter begins to run a Python function: the register with the thread's state or the frame, by its index in
 * struct pt_regs, ... */
#define PROBE_COOKIE_REG_SHIFT 12
#define PROBE_COOKIE_REG_MAX 0xffu
/* ... a flag if yields are not seen, and enum python_layout. */
#define PROBE_COOKIE_NO_YIELDS 0x100000u
#define PROBE_COOKIE_PYTHON_SHIFT 21
#define PROBE_COOKIE_PYTHON_MAX 7u
/* A place where the interpreter leaves Python functions. */
#define PROBE_COOKIE_PYTHON 0x10000000u
#define PROBE_COOKIE_ID 0xfffu /* the probe's id */

struct inf_config {
	u32 ring_shift;	 /* CPU number >> ring_shift is the ring's index */
	u32 emit_mask;	 /* 1 << enum rec_kind: kinds that go into the rings */
	u32 trace_all;	 /* -a: every task but inftrace itself */
	u32 self_tgid;
	u32 all_cpus;	 /* on-CPU spans of every task, not only of the targets */
	u32 watch_maps;	 /* report when a target maps an executable file */
	u32 map_nr;	 /* number of the system call mmap */
	u32 never;	 /* always 0, see keep_stack() */
	u32 hold;	 /* ms, or 0; keep track of what targets map, see struct hold_state */
	u8 track_syscalls, track_sched; /* these programs are loaded */
	u8 count_strangers; /* count calls of probed functions by other processes */
	u8 track_irq;
	u8 sums;     /* add up times and system calls per process, see process_sums.h */
	u8 sums_live; /* the sums are read during the recording */
	u8 memory;   /* add up pages likewise */
	u8 ipc;	     /* distinguish calls that pass data between processes or threads ... */
	u8 ipc_only; /* ... and send no others */
	u8 steps;    /* functions have probes, so there may be steps */
	u8 names;    /* of files that threads wait for */
	u8 windows;  /* the window opens and closes repeatedly: steps are followed in between */
	u8 pmu;	     /* 1 << counter: these are read; 0: none */
	u8 budget;   /* parts are turned off and on, see struct shed_state */
	u8 fault_return; /* a program on a return ends faults, which the kernel may skip: see fault_missed() */
	u8 shapes;	 /* probes may have FETCH_F_SHAPE */
	u8 watch;	 /* Python functions may be watched */
	u8 hooks;	 /* processes may have hooks: hook_slot.h */
	u32 max_steps; /* of a window, which ends with the last of them; 0: no limit */
	u32 eventfd; /* an eventfd of user space, from which to recognise others */
	u64 min_syscall_ns;
	u64 min_stack_ns; /* waits shorter than this have no stack */
	u8 sys_class[512]; /* enum sys_class by system call number */
};

/* The highest rate at which each CPU copies stacks, separately for samples and for waits. Further ones are left out evenly. */
#define SAMPLE_BYTES_PER_S (8ull << 20)

/* The total of timed programs. */
struct hit_time {
	u64 n, ns;
};

/*
 * Probes that --budget turns off: those of SHED_BARRIERS and SHED_OPERATORS. They are detached; hits before that, and of
 * probes that cannot be detached, are ignored. Calls in flight when they are turned off are left out, since their end is not
 * seen; waits at barriers count up to then.
 */
struct shed_state {
	u64 off_ns; /* when they were last turned off; CLOCK_BOOTTIME */
	u32 changes; /* odd: they are off */
	u32 pad;
};
#define SHED_PROBES (SHED_OPERATORS + 1) /* samples have none */

/* Counters, in memory that user space reads directly. */
struct inf_stats {
	u64 lost[RINGS_MAX][REC_KIND_MAX]; /* records whose ring was full */
	u64 lost_total;
	u64 step_mismatch;   /* steps whose states did not add up to their wall time */
	u64 no_storage;	     /* threads that could not be traced: no memory */
	u64 missed_switches; /* context switches whose program could not reach the storage */
	u64 account_retries; /* changes of state interrupted in every try: the time went to the previous state */
	u64 frames_stale;    /* frames left by longjmp or an exception */
	u64 frames_full;     /* calls nested deeper than FRAMES_MAX: no span */
	u64 faults_open;     /* user faults that ended in a signal: no span */
	u64 faults_missed;   /* faults whose end the kernel skipped: lost */
	u64 syscalls_short;  /* left out by --min-syscall */
	u64 irqs_full;	     /* interrupts nested deeper than IRQ_DEPTH: no span */
	u64 irqs_left;	     /* threads that were switched within an interrupt (PREEMPT_RT) */
	u64 sums_full;	     /* counts that found no room in the sums of a process */
	u64 strangers;	     /* calls of probed functions by processes that are not targets */
	u64 hooks_misfit;    /* what hooks saw makes no sense: it was left out */
	u64 holds_full;	     /* mappings of processes beyond HOLDS_MAX: nothing waits for them */
	u64 workers_full;    /* threads of a group beyond STEP_WORKERS_MAX: not in the workers' sums */
	u32 step_number;
	u32 dying; /* threads between their exit and their last switch */
	u64 start_ns; /* when the window was opened; set by user space */
	u64 stop_ns;
	u32 steps; /* that began in the window and have ended */
	u32 pad;
	u64 samples, samples_left; /* taken; left out to keep within SAMPLE_BYTES_PER_S */
	u64 waits, waits_left; /* likewise; also left out if the end of the call was not seen */
	u64 wakers, wakers_left; /* likewise, of threads that ended a wait */
	u64 sample_bytes; /* of all of these */
	u64 sample_ns;	  /* time spent on taking samples */
	u64 counters_shared, counters_unread; /* steps and operators without counts: COUNTED_SHARED, COUNTED_NOT */
	struct hit_time counters_time;        /* of timed reads of the counters when a thread came onto a CPU */
	struct {
		struct hit_time kind[HIT_MAX];
	} hits[RINGS_MAX]; /* by CPU, like the rings */
};

/* A thread of a target is held in the dynamic loader for at most this long. A COMMAND is started only to be recorded, so nobody waits
 * for it yet, and on a busy machine the probes may take that long. */
#define HOLD_ATTACHED_MS 50
#define HOLD_COMMAND_MS 500

/*
 * The mappings of a process. Each mapping of an executable file has a number, which increases over all processes, so that a
 * later process with the same pid is not mistaken for it.
 */
struct hold_state {
	u64 mapped; /* the newest; 0: none */
	u64 missed; /* the newest whose wait reached its deadline */
	u64 waiting; /* waiting threads */
};

enum probe_role {
	ROLE_OTHER,
	ROLE_STEP,
	ROLE_GRAPH,
	ROLE_OP,
	ROLE_SAMPLE,
	ROLE_BARRIER,
	ROLE_GPU_WAIT,
	ROLE_LAUNCH,
	ROLE_TRANSFER,
	ROLE_REQUEST,
	ROLE_CAPTURE,	  /* begins to capture a stream's launches for a CUDA graph */
	ROLE_CAPTURE_END, /* ends that */
	ROLE_SEQUENCE, /* changes what the engine keeps of sequences: always sent, like steps */
	ROLE_GC,       /* collects garbage */
	ROLE_MAX,
};

/* The system calls from which requests on sockets are derived. */
enum request_call {
	REQUEST_CALL_NONE,
	REQUEST_CALL_READ,
	REQUEST_CALL_RECVFROM,
	REQUEST_CALL_READV,
	REQUEST_CALL_RECVMSG,
	REQUEST_CALL_READ_LAST = REQUEST_CALL_RECVMSG,
	REQUEST_CALL_WRITE, /* and sendto */
	REQUEST_CALL_WRITEV,
	REQUEST_CALL_SENDMSG,
	REQUEST_CALL_ACCEPT, /* and accept4 */
	REQUEST_CALL_CLOSE,
};

/* The system calls that move data over TCP connections. */
enum message_call {
	MESSAGE_CALL_NONE,
	MESSAGE_CALL_RECEIVE, /* the descriptor is the first argument */
	MESSAGE_CALL_SEND,
};

#define PROBE_F_SPAN 0x01    /* has a return probe: a span from entry to return */
#define PROBE_F_BEGIN 0x02   /* entry begins a span that another function's entry ends */
#define PROBE_F_END 0x04     /* entry ends the span that began last on this thread */
#define PROBE_F_INSTANT 0x08 /* entry only: an instant */
#define PROBE_F_REGS 0x10    /* its values come from any registers, or from none */
#define PROBE_F_GRAPH 0x20   /* launches a CUDA graph: counted in the step */
#define PROBE_F_GROUP 0x40   /* a barrier of threads that work on the same step */
#define PROBE_F_LATE 0x80    /* some values are FETCH_F_LATE */

/* Follows the records of a thread in the output of snapshot_peek(). `word` is in the place of a size. */
#define PEEK_WHOLE 0ull
#define PEEK_TORN ~0ull /* the thread has changed its state meanwhile: its records may be inconsistent */

struct peek_end {
	u64 word;
	u64 at_ns; /* the instant of the records: spans open then did not end before it */
	u32 tid;
	u32 pad;
};
_Static_assert(sizeof(struct peek_end) % 8 == 0, "the records of the next thread are aligned");

/* Registers by name; the argument registers of the C ABI come first. */
enum fetch_reg {
	REG_ARG1,
	REG_ARG2,
	REG_ARG3,
	REG_ARG4,
	REG_ARG5,
	REG_ARG6,
	REG_ARG7, /* arm64 only */
	REG_ARG8,
	REG_SP,
	REG_MAX,
};

/* With PROBE_F_REGS registers are given by their index in struct pt_regs instead (user_pt_regs on
 * arm64), in units of 8 bytes: a compiler may leave an argument of a USDT probe in any of them. */
#define REG_PLACES_MAX 33
#define REG_NONE 0xff /* means 0 */

#define FETCH_DEREFS_MAX 4 /* three that users can write, and one for the place of a USDT probe's argument */
#define FETCH_F_SIGNED 0x01
#define FETCH_F_STRING 0x02 /* the last load is of a string: the value is its address, and the string is fetched, too */
#define FETCH_F_CONST 0x04  /* with PROBE_F_REGS: the value is in off[0] and off[1], low half first */
#define FETCH_F_LATE 0x08   /* the last load is done when the function returns, which stores the value */
#define FETCH_F_RETURN 0x10 /* with FETCH_F_LATE: the value is what the function returns */
#define FETCH_F_SHAPE 0x20  /* the last load is of the address of a tensor, which has at off[1] its number of sizes and then
			     * SHAPE_SIZES of them, and at off[2], if that is not 0, the number of its type. With `element` 1 the value
			     * is the number of sizes (SHAPE_COUNT_BITS) and the first two (SHAPE_BITS each), with 2 the next two
			     * (SHAPE_REST_BITS each), the last (SHAPE_LAST_BITS) and the type (SHAPE_TYPE_BITS). What does not fit, or
			     * is not known, has all bits set, and so has the value if there is no tensor, or more sizes. `index`: a
			     * byte tells whether there is a tensor, and the address is ... */
#define SHAPE_FLAG_FIRST 1  /* ... 8 bytes behind that byte, or ... */
#define SHAPE_FLAG_LAST 2   /* ... 8 bytes before it */
#define SHAPE_SIZES 5
#define SHAPE_COUNT_BITS 4
#define SHAPE_BITS 30
#define SHAPE_REST_BITS 21
#define SHAPE_LAST_BITS 16
#define SHAPE_TYPE_BITS 6

/*
 * value = reg; then for each dereference: value = *(value + off). The last reads `size` bytes.
 * Without dereferences: value = reg >> off[0], since the ABI packs small structures into registers.
 */
struct fetch {
	u8 reg; /* enum fetch_reg */
	u8 derefs;
	u8 size; /* 1, 2, 4 or 8 bytes */
	u8 flags;
	u8 index; /* with PROBE_F_REGS: 1 + a register that is added to the first, or 0 ... */
	u8 shift; /* ... after a shift to the left */
	u16 element; /* not 0: the last load is of a vector's begin, and the value is the number of elements of this size from
		      * there to its end, which is stored 8 bytes further; -1: it is no such vector. Or FETCH_F_SHAPE */
	s32 off[FETCH_DEREFS_MAX];
};

/* Arrays with an element for each row describe the rows of a step, such as the tokens of a batch. A column is one property. */
enum row_column {
	ROW_SEQUENCE, /* the sequence that the row belongs to, or the first of several ... */
	ROW_SEQUENCES, /* ... and how many there are; they are adjacent */
	ROW_POSITION,
	ROW_OUTPUT, /* not zero: the step gives an output for the row */
	ROW_COLUMNS,
};

/* The value of row i is at array + off[0] + i * stride; with two loads an address is there, and the value is off[1] behind
 * that. */
struct row_fetch {
	struct fetch array; /* its address; 0: there is no array */
	u32 stride;
	s32 off[2];
	u8 loads; /* 1 or 2; 0: the column is not described */
	u8 size;
	u8 flags; /* FETCH_F_SIGNED */
	u8 list; /* of ROW_SEQUENCE: a row's sequences are in a list, whose nodes begin with the address of the next */
};

/* Rows may be structures of at most this many bytes in one array: all columns then have that stride and array. */
#define ROW_STRUCT_MAX 128

/* Values of a step that are derived from its rows, from probe.rows_at on. */
enum row_value {
	ROW_N_OUTPUTS,
	ROW_N_SEQUENCES,
	ROW_ONE_SEQUENCE, /* if all rows belong to one sequence: which */
	ROW_MASK,	  /* if they belong to several, each of 0 to 63: 1 << sequence */
	ROW_FIRST_POSITION,
	ROW_READ, /* the rows that the other values cover: fewer than exist if some could not be read */
	ROW_VALUES,
};

#define ROW_UNKNOWN ((u64)1 << 63) /* any of these values but the mask, which is 0 if unknown */
#define STEP_ROWS_MAX 16384 /* sequences of rows that are read in a step */
#define ROW_IDS 512    /* different sequences that are distinguished; a power of two */

/* The outputs of a step without an array of outputs. */
enum row_else {
	ROW_ELSE_NONE,
	ROW_ELSE_LAST, /* one of the last row */
	ROW_ELSE_ALL,
};

enum probe_when {
	WHEN_ALWAYS,
	WHEN_EQ,
	WHEN_NE,
	WHEN_LT, /* signed */
	WHEN_GT,
};

/* Nodes of an engine's graph, for struct rec_node; the probe's first value is the address of the operator's own node. */
struct node_layout {
	u16 bytes;   /* of a node; 0: the probe copies none */
	u16 sources; /* offset of the pointers to its sources */
	u8 n_sources;
	u8 pad[3];
};

#define ENGINE_STEPS_MAX 4096
#define ENGINE_STACKS 8 /* a power of two */

struct engine_key {
	u32 tgid;
	u32 engine; /* as in struct probe */
};

/*
 * Whether a process calls the steps of a preset. Calls outside of all steps show that the engine is at work: of its stand-ins
 * or, if it has none, of its operators, graphs, barriers and samplers.
 */
struct engine_steps {
	u64 since_ns, last_ns; /* the first and the last of these calls */
	u64 sp[ENGINE_STACKS]; /* their stack pointers, by tid */
	u32 called;	       /* a step was called */
	u32 missing;	       /* set by user space: no step is called, so stand-ins are the steps until one is */
};

struct probe {
	u8 role; /* enum probe_role */
	u8 flags;
	u8 nvals;
	u8 nstrs; /* how many of these are strings */
	u8 hit; /* set at the first hit: shows which probes were never reached */
	u8 when; /* enum probe_when: the call counts only if it holds for ... */
	u8 when_val; /* ... this value */
	u8 outermost; /* calls within one of the same role do not count */
	u8 rows;      /* 1 + the index of the value with the number of rows; 0: rows are not described */
	u8 rows_at;   /* the first of ROW_VALUES values */
	u8 row_else;  /* enum row_else */
	u8 shed;      /* 1 + its part: SHED_BARRIERS or SHED_OPERATORS; 0: none */
	u8 python;    /* 1 + the index of its struct python_calls: only calls of these Python functions count; 0: all calls do */
	u8 row_struct; /* bytes of a row's structure, see ROW_STRUCT_MAX; 0: each column has an array of its own */
	u16 engine;   /* 1 + the engine's number, if a step or a sign that the engine is at work: struct engine_steps; else 0 */
	u8 stand_in;  /* a step only where no other step of its engine is called */
	u8 values;    /* its values are those of struct python_values */
	u8 hooked;    /* hooks see it in threads that have a slot: hook_slot.h */
	u8 pad[5];
	s64 when_than;
	struct fetch group; /* a value that all threads of a group share, and no other group has */
	struct fetch fetch[FUNC_VALS_MAX];
	struct row_fetch row[ROW_COLUMNS];
	struct node_layout node;
};

/* Bytes of a Python function's qualified name, and of the end of its file's path; ASCII only. */
#define PYTHON_TEXT_MAX 64
#define PYTHON_NAMES_MAX 16 /* functions that one --py-step stands for */
#define PYTHON_CALLS_MAX 16  /* options --py-step, and those of presets */

/* Versions of CPython with the same structures, as far as needed here: from 3.8, from 3.11, from 3.12, from 3.13, and from 3.14 on. */
enum python_layout {
	PYTHON_LAYOUT_3_8,
	PYTHON_LAYOUT_3_11,
	PYTHON_LAYOUT_3_12,
	PYTHON_LAYOUT_3_13,
	PYTHON_LAYOUT_3_14,
	PYTHON_LAYOUTS,
};

/* How the end of a function is known to be the step's. */
enum python_how {
	PYTHON_BY_STATE, /* its frame is the innermost one of the thread's state */
	PYTHON_BY_FRAME, /* its frame is in the register that the cookie has at PROBE_COOKIE_EXIT_SHIFT */
	PYTHON_BY_CALL,	 /* by the stack pointer: each function has its own call of the interpreter */
};

struct python_text {
	union {
		u64 words[PYTHON_TEXT_MAX / 8]; /* padded with zeros */
		char text[PYTHON_TEXT_MAX];
	};
};

/* What a call of a Python function means: struct python_batch. */
enum python_what {
	PYTHON_IS_STEP,
	PYTHON_HAS_BATCH, /* of the step that it is called in */
	PYTHON_HAS_ARRIVAL,
	PYTHON_HAS_RESULTS, /* of a batch; its return ends the step, which the function with the batch has begun */
	PYTHON_HAS_SENT,    /* a request that a server passes on to its engine: in a process without steps, which is not watched */
	PYTHON_IS_SPAN,	    /* it is a slice, also within others */
};
#define PYTHON_WHATS 4 /* those before PYTHON_HAS_SENT; a power of two */

struct python_function {
	struct python_text name, file; /* `file` is the end of the path, without the slash before it */
	u8 name_len, file_len; /* file_len 0: in any file */
	u8 what;	       /* enum python_what */
	u8 pad[5];
};

/* Attributes of objects with a batch. */
enum python_member {
	PYTHON_TOKENS,	     /* of the batch: a dict with the number of tokens for each request's id */
	PYTHON_TOTAL,	     /* of the batch: their sum */
	PYTHON_NEW,	     /* of the batch: a list of objects, the requests that are in a step for the first time ... */
	PYTHON_NEW_ID,	     /* ... of these: the id */
	PYTHON_NEW_CACHED,   /* ... and how many tokens need no computing */
	PYTHON_FINISHED,     /* of the batch: a set of ids of requests that are over */
	PYTHON_OUTPUTS,	     /* of the outputs: a list, for each request a list of the tokens that the step gave ... */
	PYTHON_OUTPUT_INDEX, /* ... and a dict that tells for each request's id which */
	PYTHON_ARRIVED,	     /* of a request that arrives: its id */
	PYTHON_SENT,	     /* of a request that is passed on: its id. Not named: the variable is the id */
	PYTHON_ALIVE,	     /* of self: a dict with the ids of requests that are not over; others get no token */
	PYTHON_KNOWN,	     /* of the batch: an object with what is told of requests that are not new, or a list of one each ... */
	PYTHON_KNOWN_IDS,    /* ... of the object: a list of their ids */
	PYTHON_RESUMED,	     /* of the object: a set of the ids of those that go on after they were preempted ... */
	PYTHON_RESUMED_TOO,  /* ... in other releases: a list with True for these; of one of a list: True */
	/* if the batch is a list of requests instead of a dict: */
	PYTHON_REQUESTS,  /* of the batch: the list. Their ids are PYTHON_NEW_ID */
	PYTHON_SAME,	  /* of the batch, and of its copy with the results: one object */
	PYTHON_LENGTHS,	  /* of the batch: a list with the number of tokens of each ... */
	PYTHON_POSITIONS, /* ... and one of what each has computed before */
	PYTHON_MODE,	  /* of the batch: a number, which tells whether each request has one token instead */
	PYTHON_OVER,	  /* of a request: an instance of a class in Python once it is over, else None */
	PYTHON_GIVEN,	  /* of a request: a list (or array) of the tokens that it has got */
	PYTHON_MEMBERS,
};

/* How a version keeps the attributes of an object. */
enum python_attributes {
	PYTHON_IN_DICT,	     /* in a dict that the object points to */
	PYTHON_VALUES_BEFORE, /* in an array that a word before the object points to, or in a dict: two words (3.11) ... */
	PYTHON_VALUES_TAGGED, /* ... one word (3.12) */
	PYTHON_VALUES_WITHIN, /* behind the object's own structure, or in a dict (3.13) */
};

/* Instead of the number of a step's tokens: it has no batch, or that could not be read. */
#define PYTHON_NO_BATCH ((u64)-1)
#define PYTHON_BATCH_UNREAD ((u64)-2)

/* Where a function has the batch of a step, and others a request that arrives, or is passed on. */
struct python_batch {
	u8 batch, outputs, arrival, sent; /* the local variables with them, from 1 on: 0 is self */
	u8 results; /* likewise, of the batch in the function with its results; 0: there is none, and the step is one function */
	u8 decodes; /* with a list of requests: the mode in which each has one token */
	u8 len[PYTHON_MEMBERS]; /* 0: the preset does not name it */
	u8 scheduler; /* the values of the option are those of enum scheduler_value, in the function with the batch */
	struct python_text name[PYTHON_MEMBERS];
};

/*
 * For an option and a layout: which Python functions are steps, and how to recognise one where the interpreter begins to run
 * it: the offsets lead from the thread's state to the function's names.
 */
struct python_calls {
	u64 lengths; /* 1 << length of each name */
	/* as in struct python_walk; thread_frame PYTHON_NO_OFFSET: where a function begins the register has its frame, not the
	 * thread's state */
	u16 thread_frame, cframe_frame;
	u16 frame_code, frame_owner;
	u16 code_name, code_file, code_flags;
	u16 str_length, str_state, str_data;
	u8 n;
	u8 how; /* enum python_how */
	u8 if_equal; /* it begins only if the comparison before the place found its operands equal */
	u8 attributes; /* enum python_attributes */
	u8 tagged_ints;	 /* the size of an int is in the upper bits of a word (3.12) */
	u8 old_keys;	 /* the names of a dict are kept as before 3.11 */
	u16 frame_locals, code_locals; /* code_locals: a tuple of the names of variables */
	u16 tuple_items;
	u16 type_keys;	 /* of a type: the names of its objects' attributes, unless PYTHON_IN_DICT */
	u16 split_values; /* bytes before the values of a dict that shares its names with others */
	struct python_function names[PYTHON_NAMES_MAX];
	struct python_batch batch;
};

/* Arguments of a step that is a call of a Python function: how each is found from the function's variables. */
#define PYTHON_VALUES_MAX 8
#define PYTHON_HOPS_MAX 6

enum python_hop_how {
	PYTHON_HOP_VARIABLE,
	PYTHON_HOP_ATTRIBUTE,
	PYTHON_HOP_ITEM, /* of a list or a tuple */
	PYTHON_HOP_KEY,	 /* of a dict: a string */
	PYTHON_HOP_LOCAL, /* an argument by its index: 0 is self */
	PYTHON_HOP_IF_ANY, /* an attribute if the object has it, else the object itself */
};

struct python_hop {
	u8 how; /* enum python_hop_how */
	u8 len; /* of the name */
	u16 pad;
	s32 index; /* of the item; negative: from the end */
	struct python_text name;
};

/* What is taken of the object that the hops lead to. */
enum python_value_as {
	PYTHON_AS_NUMBER, /* of an int */
	PYTHON_AS_LENGTH, /* as len() */
	PYTHON_AS_SIZE,	  /* of a dimension of a tensor or an array */
	PYTHON_AS_STRING, /* the address of its text */
	PYTHON_AS_TYPE,	  /* the address of the name of its type */
	PYTHON_AS_NONE,	  /* 1: it is None; else 0 */
	PYTHON_AS_REQUEST, /* nothing: it is the id of the step's request, a string or a number */
};

struct python_value {
	u8 n;	 /* hops */
	u8 as;	 /* enum python_value_as */
	u8 when; /* enum probe_when: the value is 1 if this holds, else 0; WHEN_ALWAYS: it is the number */
	u8 pad;
	s32 index; /* the dimension */
	s64 than;
	struct python_hop hops[PYTHON_HOPS_MAX];
};

/* The values of an option, in the order of its probe's; one of PYTHON_AS_REQUEST is the last, and none of them. */
struct python_values {
	u16 n;
	u16 prefill; /* 1 + the value that is above 0 for a prompt; 0: one of several tokens is one */
	u32 tensor_sizes; /* where PyTorch keeps the sizes of a tensor (FETCH_F_SHAPE), in bytes; 0: unknown */
	struct python_value value[PYTHON_VALUES_MAX];
};

/* A value that is not known. */
#define PYTHON_UNKNOWN ROW_UNKNOWN

/* What sees calls of Python functions: probes in the interpreter, which each function of a process hits, or watchpoints in the code
 * of the functions that are looked for. */
enum python_by {
	PYTHON_BY_PROBE,
	PYTHON_BY_WATCH,
	PYTHON_BYS,
};

enum python_watch_state {
	PYTHON_WATCH_NONE,  /* the probes see the calls */
	PYTHON_WATCH_TRIED, /* both do, and are counted; those of the probes count */
	PYTHON_WATCH_LIVE,  /* those of the watchpoints count, and of the probes where there is no other */
};

/* Processes whose functions may be watched. */
#define PYTHON_WATCHED_MAX 64

/* The functions of a process that the probes have seen, and their watchpoints: see capture/watch.h. */
struct python_watched {
	u32 tgid;
	u32 state; /* enum python_watch_state; user space sets it */
	/* 1 + the key of their struct python_calls; the id of the step's probe */
	u32 key, id;
	u32 others; /* more functions were seen than one of a kind */
	u32 ends;   /* enum python_what of the function whose return ends a step; user space sets it */
	/* by enum python_what: code objects (0: none was seen); and the first instruction of each by which its frame is the innermost
	 * one, once it is watched. User space sets it, as ... */
	u64 code[PYTHON_WHATS], first[PYTHON_WHATS];
	/* calls, and ends of steps, while they are tried */
	u32 seen[PYTHON_WHATS][PYTHON_BYS], left[PYTHON_BYS];
	u64 hits; /* of the watchpoints */
	struct python_walk walk; /* ... this */
};

#endif
