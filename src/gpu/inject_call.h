/* SPDX-License-Identifier: BSD-2-Clause */
/* Has a thread of another process make a call, by ptrace(2). */
#ifndef INFTRACE_GPU_INJECT_CALL_H
#define INFTRACE_GPU_INJECT_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

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
int inject_call(pid_t pid, const struct inject_thread *thread, const struct inject_places *places, inject_valid_fn *valid, void *arg,
	struct inject_work *work, char *ret_why, size_t size);

/* Says why not, in the words of the user. Returns err. */
int __attribute__((format(printf, 4, 5))) inject_refuse(char *ret_why, size_t size, int err, const char *fmt, ...);

#endif
