// SPDX-License-Identifier: BSD-2-Clause
/*
 * Makes a call in a thread of another process such that it completes on its own once it has begun. This process may be
 * killed at any moment, upon which the kernel lets the thread run on with the registers it has:
 *
 *  1. The thread waits in a system call; it is seized and stopped. If released now, it resumes its call.
 *  2. Code is written to unused memory, and, far below the stack pointer, what the code needs: addresses, texts, and the
 *     thread's registers as a frame for rt_sigreturn(2). The target notices none of that.
 *  3. One ptrace request sets the registers to the code. From then on the thread needs no tracer: it calls dlopen(),
 *     dlsym() and the entry, restores errno, and returns through rt_sigreturn to where it was, to begin its system call again.
 *  4. Normally the tracer stops at that rt_sigreturn, replaces it by a call that does nothing, and restores the registers
 *     by ptrace. Then the kernel resumes the interrupted call as after any stop, also one whose remaining time it keeps
 *     (nanosleep, poll, a futex with a timeout), which through rt_sigreturn would start over.
 *
 * The code stays, since another injection, whose process was killed, might still use it.
 */
#include "gpu/inject_call.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "target/process.h"
#include "util/alloc.h"

#define RED_ZONE 128             /* x86_64 ABI; arm64 has none */
#define STACK_NEEDED (96u << 10) /* a generous bound for dlopen() */
#define TEXT_MAX 4096
#define RUNNING INT64_MIN

int inject_refuse(char *ret_why, size_t size, int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(ret_why, size, fmt, ap);
	va_end(ap);
	return err;
}

bool inject_code_fits(const uint8_t *bytes)
{
	static const uint8_t zero[INJECT_CODE_MAX];

	return !memcmp(bytes, zero, INJECT_CODE_MAX) || (inject_code_size <= INJECT_CODE_MAX && !memcmp(bytes, inject_code, inject_code_size));
}

/*
 * ---- seccomp ----
 *
 * With a filter that answers a system call by killing the process, or by a signal, an injection would do harm. So this
 * computes its answers first: filters are small programs without loops (Documentation/userspace-api/seccomp_filter.rst),
 * which the kernel gives (PTRACE_SECCOMP_GET_FILTER) to a tracer with CAP_SYS_ADMIN.
 */

#define FILTERS_MAX 128
#define STEPS_MAX 32768 /* BPF_MAXINSNS is 4096 */
#define THREAD_FLAGS \
	(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID)

enum need {
	IF_ANY, /* glibc works without, or does not always make it */
	NEEDED,
	IF_MEMORY, /* needed for a library in a memfd */
};

/* The system calls of dlopen() and the agent, with the arguments that filters look at. */
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

static uint32_t seccomp_load_word(const struct seccomp_data *data, uint32_t at)
{
	uint32_t word;

	if (at > sizeof(*data) - sizeof(word))
		return 0;
	memcpy(&word, (const char *)data + at, sizeof(word));
	return word;
}

static uint32_t seccomp_compute(uint16_t op, uint32_t a, uint32_t b)
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

static bool seccomp_condition_holds(uint16_t op, uint32_t a, uint32_t b)
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
				*reg = seccomp_load_word(data, f->k);
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
			a = seccomp_compute(BPF_OP(f->code), a, value);
			break;
		case BPF_JMP:
			if (BPF_OP(f->code) == BPF_JA)
				at += f->k;
			else
				at += seccomp_condition_holds(BPF_OP(f->code), a, value) ? f->jt : f->jf;
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

/* Checks one filter: each call must be answered without harm, and needed ones allowed. */
static int filter_check_calls(const struct sock_filter *filter, size_t n, bool in_memory, char *ret_why, size_t size)
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

/*
 * Checks the filters of a thread that is stopped by ptrace(2), without making any call in it. Returns 0 if none would kill it and the
 * needed calls are allowed, else -EPERM and a line in ret_why. in_memory: the library comes in a memfd. same_filters: unreadable
 * filters are taken for this process's own.
 */
static int check_filters(pid_t tid, bool in_memory, bool same_filters, char *ret_why, size_t size)
{
	struct sock_filter *filter = NULL;
	int err = 0;
	long n;

	for (long i = 0; !err && i < FILTERS_MAX; i++) {
		n = ptrace(PTRACE_SECCOMP_GET_FILTER, tid, i, NULL);
		/* no further filter, or none at all */
		if (n < 0 && (errno == ENOENT || errno == EINVAL))
			break;
		if (n < 0 && errno == EACCES && same_filters)
			break;
		filter = n > 0 ? xcalloc((size_t)n, sizeof(*filter)) : NULL;
		if (!filter || ptrace(PTRACE_SECCOMP_GET_FILTER, tid, i, filter) != n)
			err = inject_refuse(ret_why, size, -EPERM, "a seccomp filter restricts it, and cannot be read: %s", strerror(errno));
		else
			err = filter_check_calls(filter, (size_t)n, in_memory, ret_why, size);
		free(filter);
	}
	return err;
}

/* ---- threads that wait ---- */

/*
 * In these system calls a thread holds no lock of its libraries, such as malloc's, unless it waits for another one: fork() takes one of malloc's
 * after the other, and dlopen() calls malloc(). glibc waits for a lock with the value 2; its condition variables, semaphores and joins have other
 * operations.
 */
static bool syscall_is_wait(long number)
{
	static const int calls[] = {
#ifdef SYS_poll /* newer architectures do without these */
		SYS_poll, SYS_select, SYS_epoll_wait, SYS_pause,
#endif
		SYS_ppoll, SYS_pselect6, SYS_epoll_pwait, SYS_read, SYS_readv, SYS_recvfrom, SYS_recvmsg, SYS_accept, SYS_accept4, SYS_nanosleep,
		SYS_clock_nanosleep, SYS_futex, SYS_wait4, SYS_waitid, SYS_rt_sigtimedwait, SYS_rt_sigsuspend, SYS_epoll_pwait2
	};

	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
		if (number == calls[i])
			return true;
	return false;
}

static bool syscall_is_lock(long number, const unsigned long long *args)
{
	return number == SYS_futex && ((int)args[1] & FUTEX_CMD_MASK) == FUTEX_WAIT && (uint32_t)args[2] == 2;
}

/* Returns how often the thread has begun to wait for anything. */
static unsigned long wait_count(pid_t tid)
{
	char value[PROCESS_STATUS_MAX];

	return process_status(tid, "voluntary_ctxt_switches:", value) ? 0 : strtoul(value, NULL, 10);
}

/* Whether the thread waits in such a call, without stopping it. */
static bool seems_to_wait(pid_t tid, struct inject_seen *ret_seen)
{
	unsigned long long *a = ret_seen->args;
	char path[64];
	int n = 0;
	FILE *f;

	/* an equal count after reading the call shows that the thread still waits in it */
	ret_seen->waits_since = wait_count(tid);
	snprintf(path, sizeof(path), "/proc/%d/syscall", tid);
	f = fopen(path, "re");
	if (f) {
		/* a running thread has "running" here */
		n = fscanf(f, "%ld %llx %llx %llx %llx %llx %llx %llx %llx", &ret_seen->call, &a[0], &a[1], &a[2], &a[3], &a[4], &a[5],
			&ret_seen->sp, &ret_seen->pc);
		fclose(f);
	}
	return n == 9 && syscall_is_wait(ret_seen->call) && !syscall_is_lock(ret_seen->call, ret_seen->args) &&
	       wait_count(tid) == ret_seen->waits_since;
}

struct inject_look {
	struct inject_thread *threads;
	int n, max;
};

static int waiting_thread_add(pid_t tid, void *arg)
{
	struct inject_look *l = arg;
	struct inject_seen seen;

	if (seems_to_wait(tid, &seen))
		l->threads[l->n++] = (struct inject_thread){ .tid = tid, .sp = seen.sp };
	return l->n == l->max;
}

/* Whether this line of maps has the stack, with enough room below its stack pointer. */
static bool mapping_has_stack(const char *line, uint64_t sp)
{
	unsigned long long start, end;
	char rights[8];

	return sscanf(line, "%llx-%llx %4s", &start, &end, rights) == 3 && sp >= start && sp < end && !strncmp(rights, "rw", 2) &&
	       /* the main thread's stack grows by itself */
	       sp - start >= (strstr(line, "[stack]") ? 2 * INJECT_FRAME_MAX + 2 * TEXT_MAX : STACK_NEEDED);
}

int inject_threads(pid_t pid, struct inject_thread *ret_threads, int max)
{
	struct inject_look l = { .threads = ret_threads, .max = max };
	char path[64], line[512];
	int n = 0, err = process_each_thread(pid, waiting_thread_add, &l);
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	f = err < 0 ? NULL : fopen(path, "re");
	while (f && n < l.n && fgets(line, sizeof(line), f)) {
		for (int i = n; i < l.n; i++) {
			struct inject_thread t = ret_threads[i];

			if (!mapping_has_stack(line, t.sp))
				continue;
			ret_threads[i] = ret_threads[n];
			ret_threads[n++] = t;
		}
	}
	if (f)
		fclose(f);
	return err < 0 ? err : n;
}

/* ---- the call ---- */

static int target_write_memory(pid_t tid, uint64_t at, const void *data, size_t length)
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

static void target_read_memory(pid_t tid, uint64_t at, void *ret_data, size_t words)
{
	for (size_t i = 0; i < words; i++) {
		uint64_t word = (uint64_t)ptrace(PTRACE_PEEKDATA, tid, at + 8 * i, 0);

		memcpy((char *)ret_data + 8 * i, &word, sizeof(word));
	}
}

struct inject_call {
	pid_t tid;
	const struct inject_places *places;
	struct inject_seen seen;
	struct inject_state before;
	uint64_t block; /* address of the struct inject_block */
	bool gone;      /* the thread has ended, or executes another program */
};

/* Waits until the thread stops, and gives the status of waitpid(). -ESRCH: it is gone. */
static int await_stop(struct inject_call *c, int *ret_status)
{
	const struct timespec pause = { .tv_nsec = 50000 };
	siginfo_t about;

	for (;;) {
		about.si_pid = 0;
		/* the exit status is left for its parent, which may be this process */
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
		nanosleep(&pause, NULL);
	}
}

/* Returns the signal of a signal-delivery stop, 0 for other stops. */
static int stop_signal(int status)
{
	return status >> 16 || WSTOPSIG(status) == (SIGTRAP | 0x80) ? 0 : WSTOPSIG(status);
}

static bool stop_is_own(const struct inject_call *c, int status)
{
	return status >> 16 == PTRACE_EVENT_STOP && WSTOPSIG(status) == SIGTRAP;
}

/* Lets the thread go on by `request` until is_it() accepts a stop. -EAGAIN: the whole process has been stopped, and not patient. */
static int call_await(struct inject_call *c, bool (*is_it)(const struct inject_call *c, int status), int request, bool patient)
{
	int status, err;

	for (;;) {
		err = await_stop(c, &status);
		if (err)
			return err;
		if (is_it(c, status))
			return 0;
		/* another stop: the thread goes on with its signal, or stays stopped with the whole process */
		if (status >> 16 != PTRACE_EVENT_STOP || WSTOPSIG(status) == SIGTRAP)
			ptrace(request, c->tid, 0, stop_signal(status));
		else if (patient)
			ptrace(PTRACE_LISTEN, c->tid, 0, 0);
		else
			return -EAGAIN;
	}
}

/* Stops the thread where a signal would be handled, so that registers can be set and an interrupted call is resumed. */
static int call_stop_thread(struct inject_call *c)
{
	if (ptrace(PTRACE_INTERRUPT, c->tid, 0, 0))
		return -errno;
	return call_await(c, stop_is_own, PTRACE_CONT, false);
}

/* The same for a thread that has stopped elsewhere. */
static int call_stop_again(struct inject_call *c, bool patient)
{
	if (ptrace(PTRACE_INTERRUPT, c->tid, 0, 0) || ptrace(PTRACE_CONT, c->tid, 0, 0))
		return -ESRCH;
	return call_await(c, stop_is_own, PTRACE_CONT, patient);
}

/* Appends a text; returns its address in the target, where the texts are at `at`. */
static uint64_t block_add_text(char *texts, size_t *length, const char *text, uint64_t at)
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

/* Replaces an INJECT_DATA() placeholder by the address, now that it is known. */
static void data_resolve_address(uint64_t *value, uint64_t at_data)
{
	if (*value - INJECT_DATA(0) < INJECT_DATA(INJECT_DATA_MAX) - INJECT_DATA(0))
		*value += at_data - INJECT_DATA(0);
}

static void prepare_calls(struct inject_block *b, const struct inject_work *w, uint64_t at_data)
{
	memcpy(b->calls, w->calls, sizeof(w->calls));
	memcpy(b->data, w->data, sizeof(b->data));
	b->calls[w->n_calls].number = -1;
	for (size_t i = 0; i < w->n_calls; i++) {
		for (size_t k = 0; k < sizeof(b->calls->args) / sizeof(*b->calls->args); k++)
			data_resolve_address(&b->calls[i].args[k], at_data);
	}
	for (size_t i = 0; i < INJECT_DATA_MAX; i++)
		data_resolve_address(&b->data[i], at_data);
}

/* Writes the code and all that it needs into unused memory of the target. */
static int call_write_code(struct inject_call *c, const struct inject_work *w)
{
	char texts[TEXT_MAX] __attribute__((aligned(8))) = "";
	size_t size = text_size(w->library) + text_size(w->entry) + text_size(w->argument), length = 0, frame_size;
	uint8_t frame[INJECT_FRAME_MAX];
	uint64_t top = inject_state_sp(&c->before) - RED_ZONE, at_text, at_frame;
	struct inject_block b = { .result = RUNNING };
	int err;

	frame_size = inject_frame(&c->before, 0, frame);
	if (size > sizeof(texts) || !frame_size)
		return -EOPNOTSUPP;
	at_text = (top - size - 8) & ~UINT64_C(63);
	at_frame = (at_text - frame_size - 8) & ~UINT64_C(63);
	inject_frame(&c->before, at_frame, frame);
	c->block = (at_frame - sizeof(b) - 64) & ~UINT64_C(63);
	b.errno_location = c->places->errno_location;
	b.dlopen = c->places->dlopen;
	b.dlsym = c->places->dlsym;
	b.library = block_add_text(texts, &length, w->library, at_text);
	b.entry = block_add_text(texts, &length, w->entry, at_text);
	b.argument = block_add_text(texts, &length, w->argument, at_text);
	prepare_calls(&b, w, c->block + offsetof(struct inject_block, data));
	b.frame = at_frame;
	err = target_write_memory(c->tid, c->places->code, inject_code, inject_code_size);
	err = err ? err : target_write_memory(c->tid, at_text, texts, size);
	err = err ? err : target_write_memory(c->tid, at_frame, frame, frame_size);
	return err ? err : target_write_memory(c->tid, c->block, &b, sizeof(b));
}

static bool stop_is_at_syscall(const struct inject_call *c, int status)
{
	return WSTOPSIG(status) == (SIGTRAP | 0x80);
}

/* Whether the code is about to return through rt_sigreturn(2). */
static bool stop_is_at_return(const struct inject_call *c, int status)
{
	return stop_is_at_syscall(c, status) && inject_is_returning(c->tid, c->places->code);
}

/* Runs the code until it is about to return. */
static int call_run_code(struct inject_call *c)
{
	int err = inject_start(c->tid, &c->before, c->places->code, c->block, c->block - 64);

	if (err)
		return err;
	if (ptrace(PTRACE_SYSCALL, c->tid, 0, 0))
		return -ESRCH;
	err = call_await(c, stop_is_at_return, PTRACE_SYSCALL, true);
	if (err)
		return err;
	/* getpid is made instead, which seccomp filters allow. If the tracer ends now, the code repeats rt_sigreturn after it. */
	return inject_replace_call(c->tid, SYS_getpid) ? -ESRCH : call_stop_again(c, true);
}

static int call_make(struct inject_call *c, struct inject_work *work, char *ret_why, size_t size)
{
	struct inject_block b;
	int err;

	err = call_write_code(c, work);
	if (err)
		return inject_refuse(ret_why, size, err, "its memory cannot be written to: %s", strerror(-err));
	inject_refuse(ret_why, size, 0, "a thread has not come back from loading %s yet", work->library ?: "a library");
	err = call_run_code(c);
	if (err)
		return inject_refuse(ret_why, size, err, "it ended, or executed another program, meanwhile");
	target_read_memory(c->tid, c->block, &b, sizeof(b) / 8);
	/* until all registers are written, the code could still return by itself */
	inject_state_write(c->tid, &c->before);
	memcpy(work->calls, b.calls, sizeof(work->calls));
	memcpy(work->data, b.data, sizeof(work->data));
	if (!work->library)
		return 0;
	if (!b.handle)
		return inject_refuse(ret_why, size, -ENOEXEC, "its dlopen() refuses %s", work->library);
	if (b.result == RUNNING)
		return inject_refuse(ret_why, size, -ENOEXEC, "%s has no %s()", work->library, work->entry);
	if (b.result)
		return inject_refuse(ret_why, size, -ENOEXEC, "the agent could not start in it: %s", strerror((int)-b.result));
	return 0;
}

/*
 * Some calls end with EINTR after a stop, as if there had been a signal (signal(7)). If no signal is pending, sets the
 * registers so that the call begins again.
 */
static void call_restart_interrupted(struct inject_call *c)
{
	struct __ptrace_peeksiginfo_args own = { .nr = 1 }, shared = { .nr = 1, .flags = PTRACE_PEEKSIGINFO_SHARED };
	siginfo_t pending;

	if (!inject_state_interrupted(&c->before) || ptrace(PTRACE_PEEKSIGINFO, c->tid, &own, &pending) ||
		ptrace(PTRACE_PEEKSIGINFO, c->tid, &shared, &pending))
		return;
	c->seen.waits_since = wait_count(c->tid) - c->seen.waits_since;
	inject_state_begin_again(c->tid, &c->before, &c->seen);
}

/* Reads the state; if that is incomplete, lets the thread go on to its call and stops it again. -EAGAIN: it is in no usable call. */
static int call_read_state(struct inject_call *c)
{
	struct inject_state *first = &c->before, now;
	int err = inject_state_read(c->tid, first);

	if (err)
		return err;
	/* the thread has gone on between seems_to_wait() and the stop */
	if (!syscall_is_wait(first->call))
		return -EAGAIN;
	if (!inject_state_must_resume(first))
		return 0;
	if (ptrace(PTRACE_SYSCALL, c->tid, 0, 0))
		return -ESRCH;
	err = call_await(c, stop_is_at_syscall, PTRACE_SYSCALL, false);
	err = err ? err : call_stop_again(c, false);
	err = err ? err : inject_state_read(c->tid, &now);
	err = err ? err : inject_state_resumed(first, &now);
	if (!err)
		*first = now;
	return err;
}

/* Whether libraries are being loaded or unloaded, perhaps by the thread itself, which reads a file for it. A call of dlopen() in between would end
 * the process: glibc, dl_open_worker_begin(). */
static bool is_loading(const struct inject_call *c)
{
	uint64_t word = 0;

	if (c->places->link_state)
		target_read_memory(c->tid, c->places->link_state, &word, 1);
	return (int)word != RT_CONSISTENT;
}

/* For a stopped thread. */
static int check_and_call(struct inject_call *c, inject_valid_fn *valid, void *arg, struct inject_work *work, char *ret_why, size_t size)
{
	int err = call_read_state(c);

	/* mapping_has_stack() has not checked another stack pointer */
	if (err == -EAGAIN || err == -ESRCH || (!err && (inject_state_sp(&c->before) != c->seen.sp || (work->library && is_loading(c)))))
		return -EAGAIN;
	if (err)
		return inject_refuse(ret_why, size, err, "its registers cannot be read: %s", strerror(-err));
	call_restart_interrupted(c);
	if (!valid(arg))
		return inject_refuse(ret_why, size, -ESRCH, "it executed another program meanwhile");
	err = check_filters(c->tid, work->in_memory, work->same_filters, ret_why, size);
	return err ? err : call_make(c, work, ret_why, size);
}

int inject_call(const struct inject_thread *thread, const struct inject_places *places, inject_valid_fn *valid, void *arg,
	struct inject_work *work, char *ret_why, size_t size)
{
	struct inject_call c = { .tid = thread->tid, .places = places };
	int err;

	if (!seems_to_wait(c.tid, &c.seen) || c.seen.sp != thread->sp)
		return -EAGAIN;
	/* no PTRACE_O_EXITKILL: the thread goes on when the tracer ends */
	if (ptrace(PTRACE_SEIZE, c.tid, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC))
		return errno == ESRCH ? -EAGAIN : inject_refuse(ret_why, size, -errno, "it cannot be traced: %s", strerror(errno));
	err = call_stop_thread(&c);
	if (!err)
		err = check_and_call(&c, valid, arg, work, ret_why, size);
	else if (err == -ESRCH)
		err = -EAGAIN;
	if (!c.gone && ptrace(PTRACE_DETACH, c.tid, 0, 0) && errno == ESRCH) {
		/* the thread runs: it must stop to be detached */
		int status;

		if (!ptrace(PTRACE_INTERRUPT, c.tid, 0, 0) && !await_stop(&c, &status))
			ptrace(PTRACE_DETACH, c.tid, 0, stop_signal(status));
	}
	return err;
}
