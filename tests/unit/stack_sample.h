/* SPDX-License-Identifier: BSD-2-Clause */
/* A sample of a thread that another process has stopped: registers and a copy of the stack. */
#ifndef INFTRACE_TEST_STACK_SAMPLE_H
#define INFTRACE_TEST_STACK_SAMPLE_H

#include <elf.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

#include "record.h"
#include "unit.h"

static inline void sample_registers(uint64_t to[SAMPLE_REGS], pid_t tid)
{
#ifdef __x86_64__
	struct user_regs_struct r;
	struct iovec iov = { &r, sizeof(r) };

	assert_int_equal(ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &iov), 0);
	{
		const uint64_t regs[SAMPLE_REGS] = { r.rax, r.rdx, r.rcx, r.rbx, r.rsi, r.rdi, r.rbp, r.rsp, r.r8, r.r9, r.r10,
			r.r11, r.r12, r.r13, r.r14, r.r15, r.rip };

		memcpy(to, regs, sizeof(regs));
	}
#else
	struct user_regs_struct r;
	struct iovec iov = { &r, sizeof(r) };

	assert_int_equal(ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &iov), 0);
	memcpy(to, &r, SAMPLE_REGS * sizeof(*to));
#endif
}

/* Copies the stack, up to a limit; returns its length. */
static inline uint32_t sample_copy(pid_t tid, uint64_t from, uint8_t *to, size_t max)
{
	size_t n = 0;

	while (n < max) {
		size_t page = 4096 - (from + n) % 4096, len = page < max - n ? page : max - n;
		struct iovec local = { to + n, len }, remote = { (void *)(from + n), len };

		if (process_vm_readv(tid, &local, 1, &remote, 1, 0) != (ssize_t)len)
			break;
		n += len;
	}
	return (uint32_t)(n & ~(size_t)7);
}

/* Stops the thread meanwhile. The caller frees the sample. NULL: the thread is gone. */
static inline struct rec_sample *sample_take(pid_t tgid, pid_t tid, size_t *ret_size)
{
	struct rec_sample *r;
	int status;

	if (ptrace(PTRACE_SEIZE, tid, 0, 0))
		return NULL;
	r = calloc(1, REC_SAMPLE_SIZE(0, 0, SAMPLE_STACK_MAX));
	assert_non_null(r);
	assert_int_equal(ptrace(PTRACE_INTERRUPT, tid, 0, 0), 0);
	while (waitpid(tid, &status, __WALL) < 0)
		assert_int_equal(errno, EINTR);
	assert_true(WIFSTOPPED(status));
	r->h.tgid = (uint32_t)tgid;
	r->h.tid = (uint32_t)tid;
	r->h.kind = REC_SAMPLE;
	sample_registers(r->regs, tid);
	r->stack_bytes = sample_copy(tid, r->regs[SAMPLE_REG_SP], (uint8_t *)(r + 1), SAMPLE_STACK_MAX);
	assert_int_equal(ptrace(PTRACE_DETACH, tid, 0, 0), 0);
	*ret_size = REC_SAMPLE_SIZE(0, 0, r->stack_bytes);
	return r;
}

#endif
