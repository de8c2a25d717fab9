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

#define INJECT_CODE_MAX 128

/* Whether such a place is free, by what is there: zeros, or the same code. */
bool inject_code_fits(const uint8_t *bytes);

/* Whether the places are valid, asked while the thread is stopped. */
typedef bool inject_valid_fn(void *arg);

/* What is to be done, in this order. */
struct inject_work {
	const char *library, *entry, *argument; /* dlopen(library), and entry(argument) of it; library NULL: not */
	long call;                              /* a system call, with name or, if that is NULL, number, and flags; -1: none */
	const char *name;
	int number, flags;
	bool in_memory;    /* for the check of seccomp filters: the library comes in a memfd, and */
	bool same_filters; /* this process is under as many as that one */
};

/* Returns what the system call did, or 0. -EAGAIN: this thread is not one that can be used; another may be. */
int inject_call(pid_t pid, pid_t tid, const struct inject_places *places, inject_valid_fn *valid, void *arg, const struct inject_work *work,
	char *ret_why, size_t size);

/* Says why not, in the words of the user. Returns err. */
int __attribute__((format(printf, 4, 5))) inject_refuse(char *ret_why, size_t size, int err, const char *fmt, ...);

#endif
