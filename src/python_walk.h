/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* How the BPF programs and stack/python_name.c find a process's Python frames. User space fills it in from target/python.h. */
#ifndef INFTRACE_PYTHON_WALK_H
#define INFTRACE_PYTHON_WALK_H

#include "record.h"

/* Set in python_frame.instr: C code called the interpreter with this frame. Python frames that this one calls in turn share
 * the interpreter's C frame (3.11 and later). If no frame of a sample has the bit, each frame of the interpreter's evaluation
 * function gets one Python frame, and the innermost one the rest. */
#define PYTHON_F_ENTRY (1ull << 63)

/* Threads and interpreters searched for a thread: new ones are first in the list. */
#define PYTHON_THREADS_MAX 2048
/* Frames, and marks of calls from C between them. */
#define PYTHON_STEPS_MAX (3 * SAMPLE_PYTHON_MAX)

/* An offset that this version does not have. */
#define PYTHON_NO_OFFSET 0xffff

/* _PyRuntime in a process. */
struct python_runtime {
	u64 address, bytes;
};

/* Addresses in the process, and offsets in CPython's structures. Wrong ones only lead to memory that is not there or to
 * frames without a name. */
struct python_walk {
	u64 runtime; /* _PyRuntime */
	/* offsets of the first interpreter in the runtime, and of the next one and the first thread in an interpreter */
	u32 interpreters, interp_next, interp_threads;
	u16 thread_next;
	u16 thread_self;   /* pthread_self() of the thread */
	u16 thread_native; /* gettid() of the thread, in its own PID namespace */
	u16 thread_frame;  /* the innermost frame, or the cframe that points to it */
	u16 cframe_frame;  /* the innermost frame, in the cframe */
	u16 frame_code, frame_previous;
	u16 frame_instr; /* an address, or with PYTHON_WALK_LASTI an int */
	u16 frame_owner; /* a byte */
	u16 frame_entry; /* a byte: C code called the interpreter with it */
	u8 owner_shim;	 /* with this owner or a higher one it is no Python frame, but the mark of a call from C */
	u8 flags;	 /* PYTHON_WALK_* */
	u8 pad[2];
	/* The PID namespace, where threads are found by gettid(). */
	u64 ns_dev, ns_ino;
	/* in an asyncio task of the C implementation; task_coro PYTHON_NO_OFFSET: tasks are not looked for */
	u16 task_coro, task_name;
	u16 frame_locals; /* the first local variable: "self" of a method */
	/* How to recognise frames of generators and coroutines: up to 3.10 a frame has its generator, or 0; later it has a
	 * byte, its owner, and lies within its generator. */
	u16 frame_gen, gen_owner, gen_frame;
	u16 code_flags; /* where a task may run as soon as it is made (3.12), so that a coroutine may be another task's */
	u16 pad2;
};
_Static_assert(sizeof(struct python_walk) == 80, "both sides lay it out the same way");

#define PYTHON_WALK_LASTI 0x01 /* frame_instr leads to an int: the offset of the instruction in its code */
#define PYTHON_WALK_EACH 0x02  /* each Python frame has its own frame of the interpreter */

/* asyncio: asyncio.Handle has the function that a loop calls as an attribute; its slots are in the order of their names. For a
 * task that function is an object with the task in one of two places: a TaskStepMethWrapper, or a method of the task. */
#define PYTHON_HANDLE_CALLBACK 24
#define PYTHON_CALLBACK_STEP 16
#define PYTHON_CALLBACK_METHOD 24
/* The owner of a generator's or coroutine's frame, and flags of a coroutine's or asynchronous generator's code. CPython:
 * Include/internal/pycore_frame.h and Include/cpython/code.h. */
#define PYTHON_OWNER_GENERATOR 1
#define PYTHON_CODE_ASYNC (0x80 | 0x200)

/* Low bits of an object's address that 3.14 uses as tags of the reference. */
#define PYTHON_TAGS 7ull

#endif
