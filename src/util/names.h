/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names for the kernel's numbers and for counters, and what is known about each system call.
 *
 * System calls are those of the machine this is built for (its 64-bit table). All strings
 * are static. A function that can meet an unknown number returns NULL for it.
 */
#ifndef INFTRACE_UTIL_NAMES_H
#define INFTRACE_UTIL_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "record.h"

/* Larger than every number with a name. */
#define SYSCALL_MAX 512

const char *syscall_name(unsigned int nr);

/* The name in quotes, in memory of the same size for all, so that it can be copied without a call. NULL
 * for a number without a name. */
#define SYSCALL_QUOTED 32
struct syscall_quoted {
	char text[SYSCALL_QUOTED - 1];
	unsigned char len;
};
const struct syscall_quoted *syscall_quoted(unsigned int nr);

/* What a thread that goes off CPU inside this call waits for. SYS_OTHER when unknown. */
enum sys_class syscall_class(unsigned int nr);

/* Whether the first argument is a file descriptor. */
bool syscall_has_fd(unsigned int nr);

/* Whether a positive result is a number of bytes moved. */
bool syscall_ret_is_bytes(unsigned int nr);

/* The direction of data through the descriptor of the first argument; for futex calls, whether they
 * wake (send) or wait, with TRANSFER_NONE for futex(2) itself. Calls that cannot be used on a pipe
 * or socket, such as pread64, have none. */
enum transfer {
	TRANSFER_NONE,
	TRANSFER_SEND,
	TRANSFER_RECEIVE,
};
enum transfer syscall_transfer(unsigned int nr);

/* "ENOENT" for 2. Knows the kernel's own codes too (ERESTARTSYS, 512 and up): a system call's
 * result shows them at the exit tracepoint when a signal interrupted it. */
const char *errno_name(int err);

/* "SIGKILL" for 9; NULL for the real-time signals. */
const char *signal_name(int sig);

/* The key in the profile: "cpu", "blocked_futex". Never NULL; "invalid" when out of range. */
const char *time_state_name(enum time_state state);

/* The name of an off-CPU span in a trace: "blocked: futex", "runnable", "stopped"; for other states
 * their profile key. Never NULL. */
const char *off_cpu_name(enum time_state state);

/* "syscall", "off_cpu", ... Never NULL; "invalid" when out of range. */
const char *rec_kind_name(enum rec_kind kind);
/* For messages. */
const char *hit_kind_name(enum hit_kind kind);

enum counter_set {
	COUNTERS_NONE,
	COUNTERS_HARDWARE, /* of the CPU: enum hardware_counter */
	COUNTERS_SOFTWARE, /* of the kernel, which every machine has */
	COUNTER_SETS,
};

enum hardware_counter {
	COUNTER_INSTRUCTIONS,
	COUNTER_CYCLES,
	COUNTER_LLC_MISSES,
};

struct counters {
	enum counter_set set;
	uint8_t mask; /* 1 << counter, for each that is available */
};

/* The counter's name, which is its key in the profile; NULL: no such counter in the set. */
const char *counter_name(enum counter_set set, unsigned int i);

/* Parses the value of --counters; COUNTERS_NONE: not a set. */
enum counter_set counter_set_parse(const char *text);

static inline bool counters_have(const struct counters *c, unsigned int i)
{
	return c->mask >> i & 1;
}

#endif
