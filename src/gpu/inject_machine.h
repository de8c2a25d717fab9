/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What an injection has to know of a machine; all of that is in inject_x86_64.c and inject_arm64.c. The functions are for a thread
 * that is stopped by ptrace(2). Those that return int return 0 or a negative errno.
 */
#ifndef INFTRACE_GPU_INJECT_MACHINE_H
#define INFTRACE_GPU_INJECT_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#include "gpu/inject_call.h"

#define INJECT_VECTORS_MAX 16384
#define INJECT_FRAME_MAX (INJECT_VECTORS_MAX + 4096)

extern const uint16_t inject_elf_machine;  /* EM_* */
extern const uint32_t inject_seccomp_arch; /* AUDIT_ARCH_* */

/* The code that an injection runs; its place does not matter. A register has the address of its struct inject_block. */
extern const uint8_t inject_code[];
extern const uint64_t inject_code_size, inject_code_returns; /* behind its rt_sigreturn(2), which is repeated where it was left out */

/* In the stack of the thread. The code has these offsets. */
struct inject_block {
	uint64_t errno_location, dlopen, dlsym, library, entry, argument, frame;
	uint64_t handle;
	int64_t result;                                    /* of the entry */
	struct inject_syscall calls[INJECT_CALLS_MAX + 1]; /* -1 ends them */
	uint64_t data[INJECT_DATA_MAX];
};
_Static_assert(offsetof(struct inject_block, frame) == 48 && offsetof(struct inject_block, result) == 64 && offsetof(struct inject_block, calls) == 72 &&
		       offsetof(struct inject_syscall, args) == 8 && offsetof(struct inject_syscall, returned) == 40 && sizeof(struct inject_syscall) == 48,
	"the code has these offsets");

/* A thread that was stopped in a system call, or at its beginning or its end. */
struct inject_state {
	struct user_regs_struct registers; /* with which the kernel resumes the call */
	long call;                         /* its number; -1: it is in none */
	uint32_t at[2];                    /* arm64: the instructions before and at its place */
	uint64_t mask;                     /* signals that are blocked */
	size_t vectors_size;
	uint8_t vectors[INJECT_VECTORS_MAX] __attribute__((aligned(64)));
};

/* -EOPNOTSUPP: it is not of 64 bits, has a shadow stack, or more vector registers than can be kept. */
int inject_state_read(pid_t tid, struct inject_state *ret);
int inject_state_write(pid_t tid, const struct inject_state *s);

uint64_t inject_state_sp(const struct inject_state *s);

/* What was seen of it before it was stopped. */
struct inject_seen {
	long call;
	unsigned long long args[6], sp, pc;
	unsigned long waits_since; /* how often it has waited since then, for being stopped as well */
};

/* Whether its call ended with EINTR, as some do after any stop (signal(7)); and has that call begin again. */
bool inject_state_interrupted(const struct inject_state *s);
int inject_state_begin_again(pid_t tid, struct inject_state *s, const struct inject_seen *seen);

/*
 * Whether it does not show yet if the kernel keeps the remaining time of the call. Then the thread is to go on to the beginning of its call and to be
 * stopped and read again, upon which this has the number of the call.
 */
bool inject_state_must_resume(const struct inject_state *s);
int inject_state_resumed(const struct inject_state *first, struct inject_state *s);

/*
 * What rt_sigreturn(2) takes for these registers, but with the call at its very beginning, as long as INJECT_FRAME_MAX at most. It will be at that
 * address, which is a multiple of 64, and so will be the stack pointer. Returns its size, 0: it cannot be made.
 */
size_t inject_frame(const struct inject_state *s, uint64_t at, uint8_t *ret_frame);

/* Sets all registers at once: to run the code, which is at that address. */
int inject_start(pid_t tid, const struct inject_state *s, uint64_t code, uint64_t block, uint64_t sp);

/* Stopped at the beginning of a system call: whether it is the code's rt_sigreturn; and makes another call of it. */
bool inject_is_returning(pid_t tid, uint64_t code);
int inject_replace_call(pid_t tid, long number);

#endif
