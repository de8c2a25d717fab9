/* SPDX-License-Identifier: BSD-2-Clause */
/* Has a thread of another process make a call, by ptrace(2). Shared by the files of an injection. */
#ifndef INFTRACE_GPU_INJECT_CALL_H
#define INFTRACE_GPU_INJECT_CALL_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

/* Addresses in the target. */
struct inject_places {
	uint64_t errno_location, dlopen, dlsym;
	uint64_t link_state; /* of struct r_debug; 0: not known */
	uint64_t code; /* INJECT_CODE_MAX bytes for code: executable and unused */
};

#define INJECT_CODE_MAX 192
#define INJECT_CALLS_MAX 3
#define INJECT_DATA_MAX 16

/* Whether a place for code is free: it has zeros, or the same code. */
bool inject_code_fits(const uint8_t *bytes);

/* Whether the places are still valid; called while the thread is stopped. */
typedef bool inject_valid_fn(void *arg);

struct inject_syscall {
	int64_t number;
	uint64_t args[4];
	int64_t returned;
};

/* A placeholder, in inject_work.data and in arguments, for the address of a word of inject_work.data. */
#define INJECT_DATA(word) (UINT64_C(0xda7a000000000000) + 8 * (word))

/* What to do, in this order. The target controls what system calls return and write. */
struct inject_work {
	const char *library, *entry, *argument; /* dlopen(library), then its entry(argument); library NULL: neither */
	size_t n_calls;
	struct inject_syscall calls[INJECT_CALLS_MAX];
	uint64_t data[INJECT_DATA_MAX];
	bool in_memory;    /* for the seccomp check: the library comes in a memfd */
	bool same_filters; /* for the seccomp check: this process has at least as many filters as the target */
};

/* A thread that seems to wait in a system call, and has room on its stack. */
struct inject_thread {
	pid_t tid;
	uint64_t sp;
};

/* Lists such threads, up to max, looking once at each without stopping it. Returns how many, or -ESRCH. */
int inject_threads(pid_t pid, struct inject_thread *ret_threads, int max);

/*
 * Returns 0 or an error of its own, never one of the target's. -EAGAIN: this thread cannot be used; another may be. Waits for the thread
 * as long as it takes; meanwhile ret_why says what it waits for.
 */
int inject_call(const struct inject_thread *thread, const struct inject_places *places, inject_valid_fn *valid, void *arg,
	struct inject_work *work, char *ret_why, size_t size);

/* Writes the reason of a refusal for the user; returns err. */
int __attribute__((format(printf, 4, 5))) inject_refuse(char *ret_why, size_t size, int err, const char *fmt, ...);

/* ---- what a thread's seccomp filters would answer to the system calls of an injection ---- */

/* Returns the filter's answer, SECCOMP_RET_*; SECCOMP_RET_KILL_PROCESS if it is malformed. */
uint32_t inject_seccomp_run(const struct sock_filter *filter, size_t n, const struct seccomp_data *data);

/*
 * ---- per machine: inject_x86_64.c and inject_arm64.c ----
 *
 * The functions take a thread that is stopped by ptrace(2). Those that return int return 0 or a negative errno.
 */

#define INJECT_VECTORS_MAX 16384
#define INJECT_FRAME_MAX (INJECT_VECTORS_MAX + 4096)

extern const uint16_t inject_elf_machine;  /* EM_* */
extern const uint32_t inject_seccomp_arch; /* AUDIT_ARCH_* */

/* The position-independent code of an injection. A register has the address of its struct inject_block. */
extern const uint8_t inject_code[];
extern const uint64_t inject_code_size, inject_code_returns; /* offset behind rt_sigreturn(2), which the code repeats if it was skipped */

/* Data of the code, on the thread's stack. */
struct inject_block {
	uint64_t errno_location, dlopen, dlsym, library, entry, argument, frame;
	uint64_t handle;
	int64_t result;                                    /* of the entry */
	struct inject_syscall calls[INJECT_CALLS_MAX + 1]; /* number -1 ends them */
	uint64_t data[INJECT_DATA_MAX];
};
_Static_assert(offsetof(struct inject_block, frame) == 48 && offsetof(struct inject_block, result) == 64 && offsetof(struct inject_block, calls) == 72 &&
		       offsetof(struct inject_syscall, args) == 8 && offsetof(struct inject_syscall, returned) == 40 && sizeof(struct inject_syscall) == 48,
	"the code has these offsets");

/* State of a thread stopped in, at the beginning or at the end of a system call. */
struct inject_state {
	struct user_regs_struct registers; /* with these the kernel resumes the call */
	long call;                         /* system call number; -1: none */
	uint32_t at[2];                    /* arm64: the instructions before and at pc */
	uint64_t mask;                     /* blocked signals */
	size_t vectors_size;
	uint8_t vectors[INJECT_VECTORS_MAX] __attribute__((aligned(64)));
};

/* -EOPNOTSUPP: more vector registers than can be kept; on arm64 also a 32-bit program or a shadow stack. */
int inject_state_read(pid_t tid, struct inject_state *ret);
int inject_state_write(pid_t tid, const struct inject_state *s);

uint64_t inject_state_sp(const struct inject_state *s);

/* What was seen of a thread before it was stopped. */
struct inject_seen {
	long call;
	unsigned long long args[6], sp, pc;
	unsigned long waits_since; /* how often it has begun to wait since then, counting its stop */
};

/* Whether the call ended with EINTR, as some do after any stop (signal(7)); and has that call begin again. */
bool inject_state_interrupted(const struct inject_state *s);
int inject_state_begin_again(pid_t tid, struct inject_state *s, const struct inject_seen *seen);

/*
 * Whether the state does not show yet if the kernel keeps the call's remaining time. Then let the thread go on to the beginning of its
 * call, stop and read it again: inject_state_resumed() sets the number of the call, or returns -EAGAIN if it is not that call.
 */
bool inject_state_must_resume(const struct inject_state *s);
int inject_state_resumed(const struct inject_state *first, struct inject_state *s);

/*
 * Builds the frame with which rt_sigreturn(2) restores these registers, but with the call at its very beginning, at most INJECT_FRAME_MAX
 * bytes. at: its address, also the stack pointer's, a multiple of 64. Returns its size; 0: it cannot be made.
 */
size_t inject_frame(const struct inject_state *s, uint64_t at, uint8_t *ret_frame);

/* Sets all registers at once, to run the code at that address. */
int inject_start(pid_t tid, const struct inject_state *s, uint64_t code, uint64_t block, uint64_t sp);

/* For a thread stopped at the beginning of a system call: whether it is the code's rt_sigreturn; and replaces the call. */
bool inject_is_returning(pid_t tid, uint64_t code);
int inject_replace_call(pid_t tid, long number);

#endif
