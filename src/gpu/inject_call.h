/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of an injection share: has a thread of another process make a call, by ptrace(2). */
#ifndef INFTRACE_GPU_INJECT_CALL_H
#define INFTRACE_GPU_INJECT_CALL_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

/* Addresses in that process. */
struct inject_places {
	uint64_t errno_location, dlopen, dlsym;
	uint64_t code; /* for INJECT_CODE_MAX bytes of code: executable, and not used by anybody */
};

#define INJECT_CODE_MAX 192
#define INJECT_CALLS_MAX 3
#define INJECT_DATA_MAX 16

/* Whether such a place is free, by what is there: zeros, or the same code. */
bool inject_code_fits(const uint8_t *bytes);

/* Whether the places are valid, asked while the thread is stopped. */
typedef bool inject_valid_fn(void *arg);

struct inject_syscall {
	int64_t number;
	uint64_t args[4];
	int64_t returned;
};

/* Stands for the address of a word of inject_work.data, in that and in arguments. */
#define INJECT_DATA(word) (UINT64_C(0xda7a000000000000) + 8 * (word))

/* What is to be done, in this order. What system calls return and write is what the process wants it to be. */
struct inject_work {
	const char *library, *entry, *argument; /* dlopen(library), and entry(argument) of it; library NULL: not */
	size_t n_calls;
	struct inject_syscall calls[INJECT_CALLS_MAX];
	uint64_t data[INJECT_DATA_MAX];
	bool in_memory;    /* for the check of seccomp filters: the library comes in a memfd, and */
	bool same_filters; /* this process is under as many as that one */
};

/* A thread that seems to wait in a system call, with room on its stack. */
struct inject_thread {
	pid_t tid;
	uint64_t sp;
};

/* Looks at each thread once, without stopping any. Returns how many there are, up to max. -ESRCH */
int inject_threads(pid_t pid, struct inject_thread *ret_threads, int max);

/*
 * Returns 0 or an error of our own: what the process returns is never one. -EAGAIN: this thread is not one that can be used; another may
 * be. It waits for the thread for as long as that takes; ret_why says meanwhile what is waited for.
 */
int inject_call(const struct inject_thread *thread, const struct inject_places *places, inject_valid_fn *valid, void *arg,
	struct inject_work *work, char *ret_why, size_t size);

/* Says why not, in the words of the user. Returns err. */
int __attribute__((format(printf, 4, 5))) inject_refuse(char *ret_why, size_t size, int err, const char *fmt, ...);

/* ---- what the seccomp filters of a thread would say to the system calls of an injection ---- */

/* What a filter says: SECCOMP_RET_*. One that is malformed would end the thread. */
uint32_t inject_seccomp_run(const struct sock_filter *filter, size_t n, const struct seccomp_data *data);

/*
 * ---- what an injection has to know of a machine: inject_x86_64.c and inject_arm64.c ----
 *
 * The functions are for a thread that is stopped by ptrace(2). Those that return int return 0 or a negative errno.
 */

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
