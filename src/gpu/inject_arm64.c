// SPDX-License-Identifier: BSD-2-Clause
/*
 * On arm64, when a thread stops, the kernel has already set its registers so that the interrupted call begins again
 * (do_signal() in arch/arm64/kernel/signal.c); a tracer sees neither that the thread was in a call nor how that is to end.
 * So the call is found by its instruction and x8. If the kernel keeps the call's remaining time, the thread calls
 * restart_syscall(2) instead, but x8 changes to that only when the thread goes on: the next stop shows it.
 */
#ifdef __aarch64__

#include "gpu/inject_call.h"

#include <elf.h>
#include <errno.h>
#include <linux/audit.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>

#define SVC 0xd4000001u
#define MODE_32_BIT 0x10     /* in pstate */
#define BRANCH_TYPE 0xc00ull /* in pstate; cleared: no branch has led to the code */
#define NO_CALL (-1)

/* include/uapi/linux/elf.h and arch/arm64/include/uapi/asm/ptrace.h, Linux 6.13 */
#ifndef NT_ARM_GCS
#define NT_ARM_GCS 0x410
#endif
struct shadow_stack {
	uint64_t enabled, locked, pointer;
};

const uint16_t inject_elf_machine = EM_AARCH64;
const uint32_t inject_seccomp_arch = AUDIT_ARCH_AARCH64;

/* blr calls functions, as their bti instructions allow. */
__asm__(".pushsection .rodata\n"
	".global inject_code, inject_code_size, inject_code_returns\n"
	"	.balign 8\n"
	"inject_code:\n"
	"	ldr x9, [x19, #0]\n"
	"	blr x9\n"
	"	ldr w20, [x0]\n"
	"	ldr x0, [x19, #24]\n"
	"	cbz x0, 1f\n"
	"	mov w1, #2\n" /* RTLD_NOW */
	"	ldr x9, [x19, #8]\n"
	"	blr x9\n"
	"	str x0, [x19, #56]\n"
	"	cbz x0, 1f\n"
	"	ldr x1, [x19, #32]\n"
	"	ldr x9, [x19, #16]\n"
	"	blr x9\n"
	"	cbz x0, 1f\n"
	"	mov x9, x0\n"
	"	ldr x0, [x19, #40]\n"
	"	blr x9\n"
	"	sxtw x0, w0\n"
	"	str x0, [x19, #64]\n"
	"1:	add x21, x19, #72\n"
	"6:	ldr x8, [x21]\n"
	"	tbnz x8, #63, 3f\n"
	"	ldp x0, x1, [x21, #8]\n"
	"	ldp x2, x3, [x21, #24]\n"
	"	svc #0\n"
	"	str x0, [x21, #40]\n"
	"	add x21, x21, #48\n"
	"	b 6b\n"
	"3:	ldr x9, [x19, #0]\n"
	"	blr x9\n"
	"	str w20, [x0]\n"
	"	ldr x9, [x19, #48]\n"
	"	mov sp, x9\n"
	"2:	mov x8, #139\n" /* rt_sigreturn */
	"	svc #0\n"
	"4:	b 2b\n"
	"5:\n"
	"	.balign 8\n"
	"inject_code_size: .quad 5b - inject_code\n"
	"inject_code_returns: .quad 4b - inject_code\n"
	".popsection\n");

/* Returns the bytes read, or a negative errno. */
static ssize_t read_regs(pid_t tid, unsigned long which, void *ret_set, size_t size)
{
	struct iovec iov = { ret_set, size };

	return ptrace(PTRACE_GETREGSET, tid, which, &iov) ? -errno : (ssize_t)iov.iov_len;
}

static int write_regs(pid_t tid, unsigned long which, const void *set, size_t size)
{
	struct iovec iov = { (void *)set, size };

	return ptrace(PTRACE_SETREGSET, tid, which, &iov) ? -errno : 0;
}

static bool is_at_svc(const struct inject_state *s)
{
	return s->at[1] == SVC;
}

int inject_state_read(pid_t tid, struct inject_state *ret)
{
	struct user_regs_struct *r = &ret->registers;
	struct shadow_stack shadow = { 0 };
	ssize_t n = read_regs(tid, NT_PRSTATUS, r, sizeof(*r));
	long around;

	if (n < 0)
		return (int)n;
	if (n != sizeof(*r) || r->pstate & MODE_32_BIT)
		return -EOPNOTSUPP; /* a 32-bit program */
	n = read_regs(tid, NT_FPREGSET, ret->vectors, sizeof(struct user_fpsimd_struct));
	if (n < 0)
		return (int)n;
	/* the rest of longer SVE registers is not preserved over a system call (Documentation/arch/arm64/sve.rst) */
	ret->vectors_size = (size_t)n;
	/* rt_sigreturn(2) would want a token on a shadow stack */
	if (n != sizeof(struct user_fpsimd_struct) || (read_regs(tid, NT_ARM_GCS, &shadow, sizeof(shadow)) > 0 && shadow.enabled & 1))
		return -EOPNOTSUPP;
	if (ptrace(PTRACE_GETSIGMASK, tid, sizeof(ret->mask), &ret->mask))
		return -errno;
	errno = 0;
	around = ptrace(PTRACE_PEEKTEXT, tid, r->pc - sizeof(*ret->at), 0);
	memcpy(ret->at, &around, sizeof(ret->at));
	ret->call = !errno && (ret->at[0] == SVC || ret->at[1] == SVC) ? (long)r->regs[8] : NO_CALL;
	return 0;
}

int inject_state_write(pid_t tid, const struct inject_state *s)
{
	int err = write_regs(tid, NT_FPREGSET, s->vectors, s->vectors_size);

	return err ? err : write_regs(tid, NT_PRSTATUS, &s->registers, sizeof(s->registers));
}

uint64_t inject_state_sp(const struct inject_state *s)
{
	return s->registers.sp;
}

bool inject_state_interrupted(const struct inject_state *s)
{
	return !is_at_svc(s) && (long long)s->registers.regs[0] == -EINTR;
}

/*
 * The result has replaced the first argument in x0. The argument is known if this is still the call that was seen before the stop: its
 * thread has waited once since then, for the stop itself.
 */
int inject_state_begin_again(pid_t tid, struct inject_state *s, const struct inject_seen *seen)
{
	struct user_regs_struct *r = &s->registers;

	if (seen->call != s->call || seen->sp != r->sp || seen->pc != r->pc || seen->waits_since != 1 ||
		memcmp(&seen->args[1], &r->regs[1], sizeof(seen->args) - sizeof(seen->args[0])))
		return -EAGAIN;
	r->regs[0] = seen->args[0];
	r->pc -= sizeof(*s->at);
	return write_regs(tid, NT_PRSTATUS, r, sizeof(*r));
}

bool inject_state_must_resume(const struct inject_state *s)
{
	return is_at_svc(s) && (s->call == SYS_nanosleep || s->call == SYS_clock_nanosleep || s->call == SYS_futex);
}

int inject_state_resumed(const struct inject_state *first, struct inject_state *s)
{
	/* else the call has returned meanwhile, or the thread handles a signal */
	if (!is_at_svc(s) || s->registers.pc != first->registers.pc || s->registers.sp != first->registers.sp ||
		(s->call != first->call && s->call != SYS_restart_syscall))
		return -EAGAIN;
	s->call = first->call;
	return 0;
}

size_t inject_frame(const struct inject_state *s, uint64_t at, uint8_t *ret_frame)
{
	struct {
		siginfo_t about;
		ucontext_t context;
	} frame = { 0 };
	struct fpsimd_context f = { .head = { FPSIMD_MAGIC, sizeof(f) } };
	const struct user_fpsimd_struct *v = (const void *)s->vectors;
	mcontext_t *m = &frame.context.uc_mcontext;
	struct _aarch64_ctx end = { 0 };

	_Static_assert(sizeof(frame) <= INJECT_FRAME_MAX && sizeof(f) + sizeof(end) <= sizeof(m->__reserved), "room for it");
	frame.context.uc_stack.ss_flags = 0x7fffffff; /* invalid, so the alternate stack stays as it is */
	memcpy(&frame.context.uc_sigmask, &s->mask, sizeof(s->mask));
	memcpy(m->regs, s->registers.regs, sizeof(m->regs));
	m->regs[8] = (unsigned long long)s->call; /* rt_sigreturn(2) forgets the remaining time */
	m->sp = s->registers.sp;
	m->pc = s->registers.pc;
	m->pstate = s->registers.pstate;
	f.fpsr = v->fpsr;
	f.fpcr = v->fpcr;
	memcpy(f.vregs, v->vregs, sizeof(f.vregs));
	memcpy(m->__reserved, &f, sizeof(f));
	memcpy(m->__reserved + sizeof(f), &end, sizeof(end));
	memcpy(ret_frame, &frame, sizeof(frame));
	return sizeof(frame) - sizeof(m->__reserved) + sizeof(f) + sizeof(end);
}

int inject_start(pid_t tid, const struct inject_state *s, uint64_t code, uint64_t block, uint64_t sp)
{
	struct user_regs_struct r = s->registers;

	r.pc = code; /* a changed pc tells the kernel not to resume the call */
	r.pstate &= ~BRANCH_TYPE;
	r.regs[19] = block;
	r.sp = sp;
	return write_regs(tid, NT_PRSTATUS, &r, sizeof(r));
}

bool inject_is_returning(pid_t tid, uint64_t code)
{
	struct user_regs_struct r;
	int call;

	return read_regs(tid, NT_PRSTATUS, &r, sizeof(r)) == sizeof(r) && read_regs(tid, NT_ARM_SYSTEM_CALL, &call, sizeof(call)) == sizeof(call) &&
	       r.pc == code + inject_code_returns && call == SYS_rt_sigreturn;
}

int inject_replace_call(pid_t tid, long number)
{
	int call = (int)number;

	return write_regs(tid, NT_ARM_SYSTEM_CALL, &call, sizeof(call));
}

#endif
