// SPDX-License-Identifier: BSD-2-Clause
/*
 * A call in a thread of another process which nothing depends on once it has begun. At any moment this process may be
 * killed, upon which the kernel lets the thread run on with the registers it has:
 *
 *  1. The thread waits in a system call; it is seized and stopped. Let go of, it resumes its call.
 *  2. Code is written where nobody has anything, and, far below its stack pointer, what the code needs: addresses,
 *     texts, and the thread's registers in the form of a frame that rt_sigreturn(2) takes. None of that is seen.
 *  3. One ptrace request sets its registers to the code. From then on it needs nobody: it calls dlopen(), dlsym()
 *     and the entry, puts errno back, and returns through rt_sigreturn to where it was, to begin its system call again.
 *  4. Normally that last system call is seen coming and replaced by one that does nothing, and the thread is given its registers by ptrace
 *     instead. Then the kernel resumes the interrupted call as after any stop: also one whose remaining time it keeps
 *     (nanosleep, poll, a futex with a timeout), which through rt_sigreturn would start over.
 *
 * The code stays, since another injection, whose process was killed, might still use it.
 */
#include "gpu/inject_call.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int inject_refuse(char *ret_why, size_t size, int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(ret_why, size, fmt, ap);
	va_end(ap);
	return err;
}

#ifndef __x86_64__

bool inject_code_fits(const uint8_t *bytes)
{
	(void)bytes;
	return true;
}

int inject_call(pid_t pid, pid_t tid, const struct inject_places *places, inject_valid_fn *valid, void *arg, const struct inject_work *work,
	char *ret_why, size_t size)
{
	(void)pid, (void)tid, (void)places, (void)valid, (void)arg, (void)work;
	return inject_refuse(ret_why, size, -EOPNOTSUPP, "injecting is not supported on this architecture");
}

#else

#include <cpuid.h>
#include <elf.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "gpu/inject_seccomp.h"

#define RED_ZONE 128
#define STACK_NEEDED (96u << 10) /* by dlopen(), generously */
#define STATE_MAX 16384          /* of the registers of vectors */
#define TEXT_MAX 4096
#define PATIENCE_MS 20000
#define FP_STATE_WORDS 464                 /* where software has its own in that state */
#define FEATURES_TILES (UINT64_C(3) << 17) /* AMX: large, and not in use while in a system call */
#define RUNNING INT64_MIN
/* what the kernel has in rax while it is to begin a system call again */
#define ERESTARTSYS 512
#define ERESTART_RESTARTBLOCK 516

/* In the stack of the thread; the code has its address in rbx. */
struct block {
	uint64_t errno_location, dlopen, dlsym, library, entry, argument, frame;
	uint64_t handle;
	int64_t result; /* of the entry */
	int64_t call;   /* -1: none */
	uint64_t args[2];
	int64_t returned;
};

/* All of the code; its place does not matter. */
__asm__(".pushsection .rodata\n"
	"inject_code_begin:\n"
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
	"1:	movq 72(%rbx), %rax\n"
	"	testq %rax, %rax\n"
	"	js 3f\n"
	"	movq 80(%rbx), %rdi\n"
	"	movq 88(%rbx), %rsi\n"
	"	syscall\n"
	"	movq %rax, 96(%rbx)\n"
	"3:	call *0(%rbx)\n"
	"	movl %r12d, (%rax)\n"
	"	movq 48(%rbx), %rsp\n"
	"2:	movl $15, %eax\n" /* rt_sigreturn; again, where it was left out */
	"	syscall\n"
	"inject_code_returns:\n"
	"	jmp 2b\n"
	"inject_code_end:\n"
	".popsection\n");
extern const uint8_t inject_code_begin[], inject_code_returns[], inject_code_end[];

_Static_assert(offsetof(struct block, frame) == 48 && offsetof(struct block, result) == 64 && offsetof(struct block, call) == 72 &&
		       offsetof(struct block, returned) == 96,
	"the code has these offsets");

/* The labels are of one piece, which the compiler does not know. */
static size_t code_offset(const uint8_t *label)
{
	return (uintptr_t)label - (uintptr_t)inject_code_begin;
}

bool inject_code_fits(const uint8_t *bytes)
{
	static const uint8_t zero[INJECT_CODE_MAX];
	size_t length = code_offset(inject_code_end);

	return !memcmp(bytes, zero, INJECT_CODE_MAX) || !memcmp(bytes, inject_code_begin, length);
}

/* The system calls in which a thread holds no lock of its libraries, such as that of malloc. */
static bool waits(long long number)
{
	static const int calls[] = {
		SYS_poll, SYS_ppoll, SYS_select, SYS_pselect6, SYS_epoll_wait, SYS_epoll_pwait, SYS_read, SYS_readv, SYS_recvfrom, SYS_recvmsg,
		SYS_accept, SYS_accept4, SYS_nanosleep, SYS_clock_nanosleep, SYS_futex, SYS_pause, SYS_wait4, SYS_waitid, SYS_rt_sigtimedwait,
		SYS_rt_sigsuspend, SYS_epoll_pwait2
	};

	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
		if (number == calls[i])
			return true;
	return false;
}

/* Whether it waits in such a call, without stopping it. */
static bool seems_to_wait(pid_t pid, pid_t tid)
{
	char path[64], text[64] = "";
	ssize_t n = -1;
	char *end;
	long number;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", pid, tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, text, sizeof(text) - 1);
		close(fd);
	}
	if (n <= 0)
		return false;
	number = strtol(text, &end, 10); /* "running" is no number */
	return end != text && waits(number);
}

/*
 * Some calls are not begun again after a stop, as if there had been a signal (signal(7)). As there is none, they are
 * begun again by their registers.
 */
static void begin_again(pid_t tid, struct user_regs_struct *r)
{
	struct __ptrace_peeksiginfo_args own = { .nr = 1 }, shared = { .nr = 1, .flags = PTRACE_PEEKSIGINFO_SHARED };
	siginfo_t pending;

	if ((long long)r->rax != -EINTR || ptrace(PTRACE_PEEKSIGINFO, tid, &own, &pending) ||
		ptrace(PTRACE_PEEKSIGINFO, tid, &shared, &pending))
		return;
	r->rax = r->orig_rax;
	r->rip -= 2;
	r->orig_rax = (unsigned long long)-1;
	ptrace(PTRACE_SETREGS, tid, 0, r);
}

/* Whether its stack goes on far enough below its stack pointer, in memory that can be written to now. */
static bool has_stack(pid_t pid, uint64_t sp)
{
	char path[64], line[512], rights[8];
	unsigned long long start, end;
	bool found = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	f = fopen(path, "re");
	if (!f)
		return false;
	while (!found && fgets(line, sizeof(line), f))
		found = sscanf(line, "%llx-%llx %4s", &start, &end, rights) == 3 && sp >= start && sp < end && !strncmp(rights, "rw", 2) &&
			/* that of the main thread grows by itself */
			sp - start >= (strstr(line, "[stack]") ? 2 * STATE_MAX + 2 * TEXT_MAX : STACK_NEEDED);
	fclose(f);
	return found;
}

static int write_memory(pid_t tid, uint64_t at, const void *data, size_t length)
{
	for (size_t i = 0; i < length; i += 8) {
		uint64_t word;

		if (length - i < 8)
			word = (uint64_t)ptrace(PTRACE_PEEKDATA, tid, at + i, 0);
		memcpy(&word, (const char *)data + i, length - i < 8 ? length - i : 8);
		if (ptrace(PTRACE_POKEDATA, tid, at + i, word))
			return -errno;
	}
	return 0;
}

static void read_memory(pid_t tid, uint64_t at, void *ret_data, size_t words)
{
	for (size_t i = 0; i < words; i++) {
		uint64_t word = (uint64_t)ptrace(PTRACE_PEEKDATA, tid, at + 8 * i, 0);

		memcpy((char *)ret_data + 8 * i, &word, sizeof(word));
	}
}

struct call {
	pid_t pid, tid;
	const struct inject_places *places;
	struct user_regs_struct before;
	uint64_t mask;
	uint8_t state[STATE_MAX] __attribute__((aligned(64)));
	size_t state_size;
	uint64_t block; /* where it is */
	bool gone;      /* has ended, or executes another program */
};

/* Waits until it stops. 0 and what waitpid() says; -ETIMEDOUT; -ESRCH */
static int await_stop(struct call *c, int *ret_status)
{
	const struct timespec pause = { .tv_nsec = 50000 };
	struct timespec now, end;
	siginfo_t about;

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += PATIENCE_MS / 1000;
	for (;;) {
		about.si_pid = 0;
		/* how it ended is left for its parent, which may be this process */
		if (waitid(P_PID, (id_t)c->tid, &about, WEXITED | WSTOPPED | WNOHANG | WNOWAIT | __WALL) ||
			(about.si_pid && about.si_code != CLD_TRAPPED && about.si_code != CLD_STOPPED)) {
			c->gone = true;
			return -ESRCH;
		}
		if (about.si_pid && waitpid(c->tid, ret_status, __WALL | WNOHANG) == c->tid) {
			if (*ret_status >> 8 != (SIGTRAP | PTRACE_EVENT_EXEC << 8))
				return 0;
			c->gone = true;
			ptrace(PTRACE_DETACH, c->tid, 0, 0);
			return -ESRCH;
		}
		clock_gettime(CLOCK_MONOTONIC, &now);
		if (now.tv_sec > end.tv_sec)
			return -ETIMEDOUT;
		nanosleep(&pause, NULL);
	}
}

/* The signal that a stop is about, if it is about one. */
static int signal_of(int status)
{
	return status >> 16 || WSTOPSIG(status) == (SIGTRAP | 0x80) ? 0 : WSTOPSIG(status);
}

/* Lets it go on after a stop that is not ours: with its signal, or stopped as it should be. */
static void pass_on(pid_t tid, int status, int request)
{
	if (status >> 16 == PTRACE_EVENT_STOP && WSTOPSIG(status) != SIGTRAP)
		ptrace(PTRACE_LISTEN, tid, 0, 0); /* the whole process is stopped */
	else
		ptrace(request, tid, 0, signal_of(status));
}

static bool is_own_stop(const struct call *c, int status)
{
	(void)c;
	return status >> 16 == PTRACE_EVENT_STOP && WSTOPSIG(status) == SIGTRAP;
}

static bool is_group_stop(int status)
{
	return status >> 16 == PTRACE_EVENT_STOP && WSTOPSIG(status) != SIGTRAP;
}

/* Lets it go on until a stop is the one; how, says request. -EAGAIN: the whole process has been stopped, and that is not waited for. */
static int await(struct call *c, bool (*is_it)(const struct call *c, int status), int request, bool patient)
{
	int status, err;

	for (;;) {
		err = await_stop(c, &status);
		if (err)
			return err;
		if (is_it(c, status))
			return 0;
		if (is_group_stop(status) && !patient)
			return -EAGAIN;
		pass_on(c->tid, status, request);
	}
}

/* Stops it where a signal would be handled, so that registers can be set and an interrupted call is resumed. */
static int stop(struct call *c)
{
	if (ptrace(PTRACE_INTERRUPT, c->tid, 0, 0))
		return -errno;
	return await(c, is_own_stop, PTRACE_CONT, false);
}

static int read_registers(struct call *c)
{
	struct iovec iov = { c->state, sizeof(c->state) };

	if (ptrace(PTRACE_GETREGS, c->tid, 0, &c->before) || ptrace(PTRACE_GETSIGMASK, c->tid, sizeof(c->mask), &c->mask) ||
		ptrace(PTRACE_GETREGSET, c->tid, NT_X86_XSTATE, &iov))
		return -errno;
	c->state_size = iov.iov_len;
	/* as much as one with that of tiles cannot be held */
	return iov.iov_len < 576 || iov.iov_len == sizeof(c->state) ? -EOPNOTSUPP : 0;
}

/* The state of vectors as a frame has it: how long it is. 0: not known */
static uint32_t frame_state(const struct call *c, uint8_t *ret_state)
{
	struct {
		uint32_t magic, extended_size;
		uint64_t features;
		uint32_t size, padding[7];
	} words = { .magic = 0x46505853 };
	const uint32_t magic_end = 0x46505845;
	uint64_t present;
	uint32_t size = 576, a, b, k, d;

	memcpy(ret_state, c->state, c->state_size);
	memcpy(&words.features, c->state + FP_STATE_WORDS, sizeof(words.features));
	words.features &= ~FEATURES_TILES;
	for (uint32_t i = 2; i < 63; i++) {
		if (!(words.features >> i & 1))
			continue;
		if (!__get_cpuid_count(0xd, i, &a, &b, &k, &d))
			return 0;
		size = b + a > size ? b + a : size;
	}
	if (size > c->state_size)
		return 0;
	words.size = size;
	words.extended_size = size + 4;
	memcpy(ret_state + FP_STATE_WORDS, &words, sizeof(words));
	memcpy(&present, ret_state + 512, sizeof(present));
	present &= words.features;
	memcpy(ret_state + 512, &present, sizeof(present));
	memset(ret_state + 520, 0, 56);
	memcpy(ret_state + size, &magic_end, sizeof(magic_end));
	return size + 4;
}

/* The registers as the kernel would have them at the start of a signal handler: before the call that was interrupted. */
static void frame_registers(const struct call *c, uint64_t state, ucontext_t *ret_frame)
{
	const struct user_regs_struct *r = &c->before;
	greg_t *g = ret_frame->uc_mcontext.gregs;
	long long rax = (long long)r->rax;
	bool again = (long long)r->orig_rax >= 0 && rax <= -ERESTARTSYS && rax >= -ERESTART_RESTARTBLOCK;

	memset(ret_frame, 0, sizeof(*ret_frame));
	ret_frame->uc_flags = 7;                   /* with the state of vectors, and ss */
	ret_frame->uc_stack.ss_flags = 0x7fffffff; /* not valid: its alternate stack stays as it is */
	g[REG_R8] = (greg_t)r->r8, g[REG_R9] = (greg_t)r->r9, g[REG_R10] = (greg_t)r->r10, g[REG_R11] = (greg_t)r->r11;
	g[REG_R12] = (greg_t)r->r12, g[REG_R13] = (greg_t)r->r13, g[REG_R14] = (greg_t)r->r14, g[REG_R15] = (greg_t)r->r15;
	g[REG_RDI] = (greg_t)r->rdi, g[REG_RSI] = (greg_t)r->rsi, g[REG_RBP] = (greg_t)r->rbp, g[REG_RBX] = (greg_t)r->rbx;
	g[REG_RDX] = (greg_t)r->rdx, g[REG_RCX] = (greg_t)r->rcx, g[REG_RSP] = (greg_t)r->rsp, g[REG_EFL] = (greg_t)r->eflags;
	g[REG_RAX] = (greg_t)(again ? r->orig_rax : r->rax);
	g[REG_RIP] = (greg_t)(again ? r->rip - 2 : r->rip);
	g[REG_CSGSFS] = (greg_t)(r->cs | r->ss << 48);
	memcpy(&ret_frame->uc_mcontext.fpregs, &state, sizeof(state));
	memcpy(&ret_frame->uc_sigmask, &c->mask, sizeof(c->mask));
}

/* Appends a text to those in the process, and says where it will be. */
static uint64_t add_text(char *texts, size_t *length, const char *text, uint64_t at)
{
	uint64_t there = at + *length;

	if (!text)
		return 0;
	memcpy(texts + *length, text, strlen(text) + 1);
	*length += strlen(text) + 1;
	return there;
}

static size_t text_size(const char *text)
{
	return text ? strlen(text) + 1 : 0;
}

/* Puts the code and all that it needs into the process, where nobody sees it. */
static int prepare(struct call *c, const struct inject_work *w)
{
	char texts[TEXT_MAX] __attribute__((aligned(8))) = "";
	size_t size = text_size(w->library) + text_size(w->entry) + text_size(w->argument) + text_size(w->name), length = 0;
	uint8_t state[STATE_MAX + 8] __attribute__((aligned(64)));
	ucontext_t frame;
	uint64_t top = c->before.rsp - RED_ZONE, at_state, at_text, at_frame;
	uint32_t state_size = frame_state(c, state);
	struct block b = { .result = RUNNING, .call = w->call, .args = { (uint64_t)w->number, (uint64_t)w->flags }, .returned = RUNNING };
	int err;

	if (size > sizeof(texts) || !state_size)
		return -EOPNOTSUPP;
	at_text = (top - size - 8) & ~UINT64_C(63);
	at_state = (at_text - state_size - 8) & ~UINT64_C(63);
	at_frame = (at_state - sizeof(frame)) & ~UINT64_C(63);
	c->block = (at_frame - sizeof(b) - 64) & ~UINT64_C(63);
	b.errno_location = c->places->errno_location;
	b.dlopen = c->places->dlopen;
	b.dlsym = c->places->dlsym;
	b.library = add_text(texts, &length, w->library, at_text);
	b.entry = add_text(texts, &length, w->entry, at_text);
	b.argument = add_text(texts, &length, w->argument, at_text);
	if (w->name)
		b.args[0] = add_text(texts, &length, w->name, at_text);
	b.frame = at_frame;
	frame_registers(c, at_state, &frame);
	err = write_memory(c->tid, c->places->code, inject_code_begin, code_offset(inject_code_end));
	err = err ? err : write_memory(c->tid, at_text, texts, size);
	err = err ? err : write_memory(c->tid, at_state, state, state_size);
	err = err ? err : write_memory(c->tid, at_frame, &frame, sizeof(frame));
	return err ? err : write_memory(c->tid, c->block, &b, sizeof(b));
}

/* Whether it is about to return through rt_sigreturn(2). */
static bool is_returning(const struct call *c, int status)
{
	struct user_regs_struct r;

	return WSTOPSIG(status) == (SIGTRAP | 0x80) && !ptrace(PTRACE_GETREGS, c->tid, 0, &r) &&
	       r.rip == c->places->code + code_offset(inject_code_returns) && r.orig_rax == SYS_rt_sigreturn;
}

/* Lets it run until it is about to return. */
static int run(struct call *c)
{
	struct user_regs_struct r = c->before;
	int err;

	r.rip = c->places->code;
	r.rbx = c->block;
	r.rsp = c->block - 64;
	r.orig_rax = (unsigned long long)-1; /* no system call to be begun again */
	r.rax = 0;
	if (ptrace(PTRACE_SETREGS, c->tid, 0, &r))
		return -errno;
	if (ptrace(PTRACE_SYSCALL, c->tid, 0, 0))
		return -ESRCH;
	err = await(c, is_returning, PTRACE_SYSCALL, true);
	if (err)
		return err;
	/* another call is made in its place, which seccomp filters allow. Should we end now, this one is made after it. */
	if (ptrace(PTRACE_GETREGS, c->tid, 0, &r))
		return -ESRCH;
	r.orig_rax = SYS_getpid;
	if (ptrace(PTRACE_SETREGS, c->tid, 0, &r) || ptrace(PTRACE_INTERRUPT, c->tid, 0, 0) || ptrace(PTRACE_CONT, c->tid, 0, 0))
		return -ESRCH;
	return await(c, is_own_stop, PTRACE_CONT, true);
}

/* Gives it its registers back; until the second request it could still return by itself. */
static void restore(struct call *c)
{
	struct iovec iov = { c->state, c->state_size };

	ptrace(PTRACE_SETREGSET, c->tid, NT_X86_XSTATE, &iov);
	ptrace(PTRACE_SETREGS, c->tid, 0, &c->before);
}

static int call(struct call *c, const struct inject_work *work, char *ret_why, size_t size)
{
	struct block b;
	int err;

	err = prepare(c, work);
	if (err)
		return inject_refuse(ret_why, size, err, "its memory cannot be written to: %s", strerror(-err));
	err = run(c);
	if (err == -ETIMEDOUT)
		return inject_refuse(ret_why, size, err, "a thread has not come back from loading %s yet", work->library ?: "a library");
	if (err)
		return inject_refuse(ret_why, size, err, "it ended, or executed another program, meanwhile");
	read_memory(c->tid, c->block, &b, sizeof(b) / 8);
	restore(c);
	if (!work->library)
		return b.returned < 0 ? inject_refuse(ret_why, size, (int)b.returned, "a system call in it failed: %s", strerror((int)-b.returned)) : (int)b.returned;
	if (!b.handle)
		return inject_refuse(ret_why, size, -ENOEXEC, "its dlopen() refuses %s", work->library);
	if (b.result == RUNNING)
		return inject_refuse(ret_why, size, -ENOEXEC, "%s has no %s()", work->library, work->entry);
	if (b.result)
		return inject_refuse(ret_why, size, (int)b.result, "the agent could not start in it: %s", strerror((int)-b.result));
	return 0;
}

/* While it is stopped. */
static int check_and_call(struct call *c, inject_valid_fn *valid, void *arg, const struct inject_work *work, char *ret_why, size_t size)
{
	int err = read_registers(c);

	if (err)
		return inject_refuse(ret_why, size, err, "its registers cannot be read: %s", strerror(-err));
	/* it was seen before it stopped, and has gone on since then */
	if (c->before.cs != 0x33 || !waits((long long)c->before.orig_rax))
		return -EAGAIN;
	begin_again(c->tid, &c->before);
	if (!valid(arg))
		return inject_refuse(ret_why, size, -ESRCH, "it executed another program meanwhile");
	if (!has_stack(c->pid, c->before.rsp))
		return -EAGAIN;
	err = inject_seccomp_check(c->tid, work->in_memory, work->same_filters, ret_why, size);
	return err ? err : call(c, work, ret_why, size);
}

int inject_call(pid_t pid, pid_t tid, const struct inject_places *places, inject_valid_fn *valid, void *arg, const struct inject_work *work,
	char *ret_why, size_t size)
{
	struct call c = { .pid = pid, .tid = tid, .places = places };
	int err;

	if (!seems_to_wait(pid, tid))
		return -EAGAIN;
	/* not PTRACE_O_EXITKILL: it goes on when we end */
	if (ptrace(PTRACE_SEIZE, tid, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC))
		return errno == ESRCH ? -EAGAIN : inject_refuse(ret_why, size, -errno, "it cannot be traced: %s", strerror(errno));
	err = stop(&c);
	if (!err)
		err = check_and_call(&c, valid, arg, work, ret_why, size);
	else if (err == -ESRCH || err == -ETIMEDOUT)
		err = -EAGAIN;
	if (!c.gone && ptrace(PTRACE_DETACH, tid, 0, 0) && errno == ESRCH) {
		/* it runs: only one that has stopped can be let go of */
		int status;

		if (!ptrace(PTRACE_INTERRUPT, tid, 0, 0) && !await_stop(&c, &status))
			ptrace(PTRACE_DETACH, tid, 0, signal_of(status));
	}
	return err;
}

#endif
