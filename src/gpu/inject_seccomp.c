// SPDX-License-Identifier: BSD-2-Clause
/*
 * A filter that answers a system call by ending the process, or by a signal, would have an injection do harm. So its
 * answers are worked out here first: filters are small programs without loops (Documentation/userspace-api/seccomp_filter.rst), which the
 * kernel hands out (PTRACE_SECCOMP_GET_FILTER) to whoever may administer the system.
 */
#include "gpu/inject_seccomp.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "gpu/inject_call.h"
#include "gpu/inject_machine.h"

#define FILTERS_MAX 128
#define STEPS_MAX 32768 /* BPF_MAXINSNS is 4096 */
#define THREAD_FLAGS \
	(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID)

enum need {
	IF_ANY, /* glibc does without, or does not make it everywhere */
	NEEDED,
	IF_MEMORY, /* needed for a library in a memfd */
};

/* What dlopen() and the agent call, with the arguments that filters look at. */
static const struct checked {
	const char *name;
	int number;
	enum need need;
	uint64_t args[3];
} checked[] = {
	{ "rt_sigreturn", SYS_rt_sigreturn, NEEDED, { 0 } },
	{ "getpid", SYS_getpid, NEEDED, { 0 } },
	{ "socketpair", SYS_socketpair, IF_MEMORY, { AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0 } },
	{ "openat", SYS_openat, NEEDED, { (uint64_t)AT_FDCWD, 0, O_RDONLY | O_CLOEXEC } },
	{ "read", SYS_read, NEEDED, { 0 } },
	{ "pread64", SYS_pread64, IF_ANY, { 0 } },
	{ "fstat", SYS_fstat, IF_ANY, { 0 } },
	{ "newfstatat", SYS_newfstatat, IF_ANY, { 0 } },
	{ "lseek", SYS_lseek, IF_ANY, { 0 } },
	{ "getdents64", SYS_getdents64, IF_ANY, { 0 } },
	{ "close", SYS_close, NEEDED, { 0 } },
	{ "mmap", SYS_mmap, NEEDED, { 0, 4096, PROT_READ | PROT_WRITE } },
	{ "mmap of code", SYS_mmap, NEEDED, { 0, 4096, PROT_READ | PROT_EXEC } },
	{ "mprotect", SYS_mprotect, NEEDED, { 0, 4096, PROT_READ } },
	{ "munmap", SYS_munmap, NEEDED, { 0, 4096 } },
	{ "madvise", SYS_madvise, IF_ANY, { 0, 4096, MADV_DONTNEED } },
	{ "brk", SYS_brk, IF_ANY, { 0 } },
	{ "getrandom", SYS_getrandom, IF_ANY, { 0 } },
	{ "rt_sigprocmask", SYS_rt_sigprocmask, NEEDED, { SIG_SETMASK } },
	{ "clone3", SYS_clone3, IF_ANY, { 0 } },
	{ "clone", SYS_clone, NEEDED, { THREAD_FLAGS } },
	{ "set_robust_list", SYS_set_robust_list, IF_ANY, { 0 } },
	{ "rseq", SYS_rseq, IF_ANY, { 0 } },
	{ "prctl", SYS_prctl, IF_ANY, { 15 /* PR_SET_NAME */ } },
	{ "sched_yield", SYS_sched_yield, IF_ANY, { 0 } },
	{ "futex", SYS_futex, NEEDED, { 0, FUTEX_WAIT, 0 } },
	{ "socket", SYS_socket, NEEDED, { AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0 } },
	{ "setsockopt", SYS_setsockopt, NEEDED, { 0, SOL_SOCKET, SO_RCVTIMEO } },
	{ "connect", SYS_connect, NEEDED, { 0 } },
	{ "sendto", SYS_sendto, NEEDED, { 0 } },
	{ "recvmsg", SYS_recvmsg, NEEDED, { 0 } },
	{ "clock_gettime", SYS_clock_gettime, NEEDED, { 3 /* CLOCK_THREAD_CPUTIME_ID, which the vDSO leaves to the kernel */ } },
	{ "clock_nanosleep", SYS_clock_nanosleep, IF_ANY, { 0 } },
#ifdef SYS_poll
	{ "poll", SYS_poll, NEEDED, { 0 } },
#else
	{ "ppoll", SYS_ppoll, NEEDED, { 0 } },
#endif
	{ "exit", SYS_exit, NEEDED, { 0 } },
	{ "restart_syscall", SYS_restart_syscall, IF_ANY, { 0 } },
};

static uint32_t load(const struct seccomp_data *data, uint32_t at)
{
	uint32_t word;

	if (at > sizeof(*data) - sizeof(word))
		return 0;
	memcpy(&word, (const char *)data + at, sizeof(word));
	return word;
}

static uint32_t compute(uint16_t op, uint32_t a, uint32_t b)
{
	switch (op) {
	case BPF_ADD:
		return a + b;
	case BPF_SUB:
		return a - b;
	case BPF_MUL:
		return a * b;
	case BPF_DIV:
		return b ? a / b : 0;
	case BPF_MOD:
		return b ? a % b : 0;
	case BPF_AND:
		return a & b;
	case BPF_OR:
		return a | b;
	case BPF_XOR:
		return a ^ b;
	case BPF_LSH:
		return b < 32 ? a << b : 0;
	case BPF_RSH:
		return b < 32 ? a >> b : 0;
	default: /* BPF_NEG */
		return -a;
	}
}

static bool holds(uint16_t op, uint32_t a, uint32_t b)
{
	switch (op) {
	case BPF_JEQ:
		return a == b;
	case BPF_JGT:
		return a > b;
	case BPF_JGE:
		return a >= b;
	default: /* BPF_JSET */
		return a & b;
	}
}

uint32_t inject_seccomp_run(const struct sock_filter *filter, size_t n, const struct seccomp_data *data)
{
	uint32_t a = 0, x = 0, memory[BPF_MEMWORDS] = { 0 }, value;
	size_t at = 0;

	for (int steps = 0; at < n && steps < STEPS_MAX; steps++) {
		const struct sock_filter *f = &filter[at++];
		uint32_t *reg = BPF_CLASS(f->code) == BPF_LDX || BPF_CLASS(f->code) == BPF_STX ? &x : &a;

		value = BPF_SRC(f->code) == BPF_X ? x : f->k;
		switch (BPF_CLASS(f->code)) {
		case BPF_LD:
		case BPF_LDX:
			if (BPF_MODE(f->code) == BPF_ABS)
				*reg = load(data, f->k);
			else if (BPF_MODE(f->code) == BPF_MEM)
				*reg = memory[f->k % BPF_MEMWORDS];
			else
				*reg = BPF_MODE(f->code) == BPF_LEN ? (uint32_t)sizeof(*data) : f->k;
			break;
		case BPF_ST:
		case BPF_STX:
			memory[f->k % BPF_MEMWORDS] = *reg;
			break;
		case BPF_ALU:
			a = compute(BPF_OP(f->code), a, value);
			break;
		case BPF_JMP:
			if (BPF_OP(f->code) == BPF_JA)
				at += f->k;
			else
				at += holds(BPF_OP(f->code), a, value) ? f->jt : f->jf;
			break;
		case BPF_RET:
			return BPF_RVAL(f->code) == BPF_A ? a : f->k;
		default:
			if (BPF_MISCOP(f->code) == BPF_TAX)
				x = a;
			else
				a = x;
		}
	}
	return SECCOMP_RET_KILL_PROCESS;
}

/* One filter: whether each call is answered without harm, and what is needed is allowed. */
static int ask(const struct sock_filter *filter, size_t n, bool in_memory, char *ret_why, size_t size)
{
	for (size_t i = 0; i < sizeof(checked) / sizeof(*checked); i++) {
		const struct checked *c = &checked[i];
		struct seccomp_data data = { .nr = c->number, .arch = inject_seccomp_arch };

		for (size_t k = 0; k < sizeof(c->args) / sizeof(*c->args); k++)
			data.args[k] = c->args[k];
		switch (inject_seccomp_run(filter, n, &data) & SECCOMP_RET_ACTION_FULL) {
		case SECCOMP_RET_ALLOW:
		case SECCOMP_RET_LOG:
			break;
		case SECCOMP_RET_ERRNO:
		case SECCOMP_RET_TRACE:
			if (c->need == NEEDED || (c->need == IF_MEMORY && in_memory))
				return inject_refuse(ret_why, size, -EPERM, "its seccomp filter forbids %s, which the library needs", c->name);
			break;
		case SECCOMP_RET_USER_NOTIF:
			return inject_refuse(ret_why, size, -EPERM, "another program decides whether it may call %s (seccomp)", c->name);
		default:
			if (c->need == IF_MEMORY && !in_memory)
				break;
			return inject_refuse(ret_why, size, -EPERM, "its seccomp filter would end it for %s, which the library needs", c->name);
		}
	}
	return 0;
}

int inject_seccomp_check(pid_t tid, bool in_memory, bool same_filters, char *ret_why, size_t size)
{
	struct sock_filter *filter = NULL;
	int err = 0;
	long n;

	for (long i = 0; !err && i < FILTERS_MAX; i++) {
		n = ptrace(PTRACE_SECCOMP_GET_FILTER, tid, i, NULL);
		/* there are no more, or none at all */
		if (n < 0 && (errno == ENOENT || errno == EINVAL))
			break;
		if (n < 0 && errno == EACCES && same_filters)
			break;
		filter = n > 0 ? calloc((size_t)n, sizeof(*filter)) : NULL;
		if (!filter || ptrace(PTRACE_SECCOMP_GET_FILTER, tid, i, filter) != n)
			err = inject_refuse(ret_why, size, -EPERM, "a seccomp filter restricts it, and cannot be read: %s", strerror(errno));
		else
			err = ask(filter, (size_t)n, in_memory, ret_why, size);
		free(filter);
	}
	return err;
}
