// SPDX-License-Identifier: BSD-2-Clause
#ifdef __x86_64__

#include "gpu/inject_call.h"

#include <cpuid.h>
#include <elf.h>
#include <errno.h>
#include <linux/audit.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>

#define CODE_SEGMENT 0x33                  /* cs of 64-bit programs */
#define FP_STATE_WORDS 464                 /* offset of the software-reserved words in the FXSAVE area */
#define FEATURES_TILES (UINT64_C(3) << 17) /* AMX: large, and not in use during a system call */
/* kernel-internal values of rax for a system call that is to begin again */
#define ERESTARTSYS 512
#define ERESTART_RESTARTBLOCK 516

const uint16_t inject_elf_machine = EM_X86_64;
const uint32_t inject_seccomp_arch = AUDIT_ARCH_X86_64;

__asm__(".pushsection .rodata\n"
	".global inject_code, inject_code_size, inject_code_returns\n"
	"inject_code:\n"
	"	call *0(%rbx)\n"
	"	movl (%rax), %r12d\n"
	"	movq 24(%rbx), %rdi\n"
	"	testq %rdi, %rdi\n"
	"	jz 1f\n"
	"	movl $2, %esi\n" /* RTLD_NOW */
	"	call *8(%rbx)\n"
	"	movq %rax, 56(%rbx)\n"
	"	testq %rax, %rax\n"
	"	jz 1f\n"
	"	movq %rax, %rdi\n"
	"	movq 32(%rbx), %rsi\n"
	"	call *16(%rbx)\n"
	"	testq %rax, %rax\n"
	"	jz 1f\n"
	"	movq 40(%rbx), %rdi\n"
	"	call *%rax\n"
	"	cltq\n"
	"	movq %rax, 64(%rbx)\n"
	"1:	leaq 72(%rbx), %r13\n"
	"6:	movq (%r13), %rax\n"
	"	testq %rax, %rax\n"
	"	js 3f\n"
	"	movq 8(%r13), %rdi\n"
	"	movq 16(%r13), %rsi\n"
	"	movq 24(%r13), %rdx\n"
	"	movq 32(%r13), %r10\n"
	"	syscall\n"
	"	movq %rax, 40(%r13)\n"
	"	addq $48, %r13\n"
	"	jmp 6b\n"
	"3:	call *0(%rbx)\n"
	"	movl %r12d, (%rax)\n"
	"	movq 48(%rbx), %rsp\n"
	"2:	movl $15, %eax\n" /* rt_sigreturn */
	"	syscall\n"
	"4:	jmp 2b\n"
	"5:\n"
	"	.balign 8\n"
	"inject_code_size: .quad 5b - inject_code\n"
	"inject_code_returns: .quad 4b - inject_code\n"
	".popsection\n");

int inject_state_read(pid_t tid, struct inject_state *ret)
{
	struct iovec iov = { ret->vectors, sizeof(ret->vectors) };

	if (ptrace(PTRACE_GETREGS, tid, 0, &ret->registers) || ptrace(PTRACE_GETSIGMASK, tid, sizeof(ret->mask), &ret->mask) ||
		ptrace(PTRACE_GETREGSET, tid, NT_X86_XSTATE, &iov))
		return -errno;
	ret->vectors_size = iov.iov_len;
	ret->call = ret->registers.cs == CODE_SEGMENT ? (long)ret->registers.orig_rax : -1;
	/* a full buffer: AMX tiles did not fit */
	return iov.iov_len < 576 || iov.iov_len == sizeof(ret->vectors) ? -EOPNOTSUPP : 0;
}

int inject_state_write(pid_t tid, const struct inject_state *s)
{
	struct iovec iov = { (void *)s->vectors, s->vectors_size };

	/* with these the kernel resumes the call, as after any stop */
	return ptrace(PTRACE_SETREGSET, tid, NT_X86_XSTATE, &iov) || ptrace(PTRACE_SETREGS, tid, 0, &s->registers) ? -errno : 0;
}

uint64_t inject_state_sp(const struct inject_state *s)
{
	return s->registers.rsp;
}

bool inject_state_interrupted(const struct inject_state *s)
{
	return (long long)s->registers.rax == -EINTR;
}

int inject_state_begin_again(pid_t tid, struct inject_state *s, const struct inject_seen *seen)
{
	struct user_regs_struct *r = &s->registers;

	r->rax = r->orig_rax;
	r->rip -= 2;
	r->orig_rax = (unsigned long long)-1;
	return ptrace(PTRACE_SETREGS, tid, 0, r) ? -errno : 0;
}

bool inject_state_must_resume(const struct inject_state *s)
{
	return false;
}

int inject_state_resumed(const struct inject_state *first, struct inject_state *s)
{
	(void)first, (void)s;
	return -EOPNOTSUPP;
}

/* Writes the vector state in the format of a signal frame. Returns its size; 0: not known. */
static uint32_t frame_vectors(const struct inject_state *s, uint8_t *ret_vectors)
{
	struct {
		uint32_t magic, extended_size;
		uint64_t features;
		uint32_t size, padding[7];
	} words = { .magic = 0x46505853 };
	const uint32_t magic_end = 0x46505845;
	uint64_t present;
	uint32_t size = 576, a, b, k, d;

	memcpy(ret_vectors, s->vectors, s->vectors_size);
	memcpy(&words.features, s->vectors + FP_STATE_WORDS, sizeof(words.features));
	words.features &= ~FEATURES_TILES;
	for (uint32_t i = 2; i < 63; i++) {
		if (!(words.features >> i & 1))
			continue;
		if (!__get_cpuid_count(0xd, i, &a, &b, &k, &d))
			return 0;
		size = b + a > size ? b + a : size;
	}
	if (size > s->vectors_size)
		return 0;
	words.size = size;
	words.extended_size = size + 4;
	memcpy(ret_vectors + FP_STATE_WORDS, &words, sizeof(words));
	memcpy(&present, ret_vectors + 512, sizeof(present));
	present &= words.features;
	memcpy(ret_vectors + 512, &present, sizeof(present));
	memset(ret_vectors + 520, 0, 56);
	memcpy(ret_vectors + size, &magic_end, sizeof(magic_end));
	return size + 4;
}

/* Sets the registers as the kernel does for a signal handler: before the interrupted call. */
static void frame_registers(const struct inject_state *s, uint64_t vectors, ucontext_t *ret_frame)
{
	const struct user_regs_struct *r = &s->registers;
	greg_t *g = ret_frame->uc_mcontext.gregs;
	long long rax = (long long)r->rax;
	bool again = (long long)r->orig_rax >= 0 && rax <= -ERESTARTSYS && rax >= -ERESTART_RESTARTBLOCK;

	ret_frame->uc_flags = 7;                   /* UC_FP_XSTATE, and valid ss */
	ret_frame->uc_stack.ss_flags = 0x7fffffff; /* invalid, so the alternate stack stays as it is */
	g[REG_R8] = (greg_t)r->r8, g[REG_R9] = (greg_t)r->r9, g[REG_R10] = (greg_t)r->r10, g[REG_R11] = (greg_t)r->r11;
	g[REG_R12] = (greg_t)r->r12, g[REG_R13] = (greg_t)r->r13, g[REG_R14] = (greg_t)r->r14, g[REG_R15] = (greg_t)r->r15;
	g[REG_RDI] = (greg_t)r->rdi, g[REG_RSI] = (greg_t)r->rsi, g[REG_RBP] = (greg_t)r->rbp, g[REG_RBX] = (greg_t)r->rbx;
	g[REG_RDX] = (greg_t)r->rdx, g[REG_RCX] = (greg_t)r->rcx, g[REG_RSP] = (greg_t)r->rsp, g[REG_EFL] = (greg_t)r->eflags;
	g[REG_RAX] = (greg_t)(again ? r->orig_rax : r->rax);
	g[REG_RIP] = (greg_t)(again ? r->rip - 2 : r->rip);
	g[REG_CSGSFS] = (greg_t)(r->cs | r->ss << 48);
	memcpy(&ret_frame->uc_mcontext.fpregs, &vectors, sizeof(vectors));
	memcpy(&ret_frame->uc_sigmask, &s->mask, sizeof(s->mask));
}

size_t inject_frame(const struct inject_state *s, uint64_t at, uint8_t *ret_frame)
{
	const size_t before = (sizeof(ucontext_t) + 63) / 64 * 64;
	ucontext_t frame = { 0 };
	uint32_t size;

	_Static_assert(sizeof(frame) <= INJECT_FRAME_MAX - INJECT_VECTORS_MAX - 64 - 4, "room for it");
	frame_registers(s, at + before, &frame);
	memset(ret_frame, 0, before);
	memcpy(ret_frame, &frame, sizeof(frame));
	size = frame_vectors(s, ret_frame + before);
	return size ? before + size : 0;
}

int inject_start(pid_t tid, const struct inject_state *s, uint64_t code, uint64_t block, uint64_t sp)
{
	struct user_regs_struct r = s->registers;

	r.rip = code;
	r.rbx = block;
	r.rsp = sp;
	r.orig_rax = (unsigned long long)-1; /* no system call to begin again */
	r.rax = 0;
	return ptrace(PTRACE_SETREGS, tid, 0, &r) ? -errno : 0;
}

bool inject_is_returning(pid_t tid, uint64_t code)
{
	struct user_regs_struct r;

	return !ptrace(PTRACE_GETREGS, tid, 0, &r) && r.rip == code + inject_code_returns && r.orig_rax == SYS_rt_sigreturn;
}

int inject_replace_call(pid_t tid, long number)
{
	struct user_regs_struct r;

	if (ptrace(PTRACE_GETREGS, tid, 0, &r))
		return -errno;
	r.orig_rax = (unsigned long long)number;
	return ptrace(PTRACE_SETREGS, tid, 0, &r) ? -errno : 0;
}

#endif
