// SPDX-License-Identifier: BSD-2-Clause
#include "stack/unwind.h"

#include <dwarf.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stack/lookup.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/confine.h"
#include "util/passing.h"

/* ---- between the two processes ---- */

struct reader_request {
	uint32_t file;
	uint16_t open; /* comes with one or two descriptors; the answer's name is the debug link */
	uint16_t linked;
	uint64_t offset;
	uint64_t close; /* only close the file */
};

struct reader_answer {
	int32_t err;
	uint32_t pad;
	struct place place;
};

/* ---- the process that reads ELF files, and the server that forks it: nothing here may trust what a file says ---- */

#define MEMORY_MAX (UINT64_C(1) << 30) /* bytes of data */

/* The reader may take requests, read files, use memory, answer and exit. */
#define CALLS                                                                                                       \
	SYS_read, SYS_pread64, SYS_fstat, SYS_newfstatat, SYS_lseek, SYS_fcntl, SYS_close, SYS_recvmsg, SYS_sendto, \
		SYS_mmap, SYS_munmap, SYS_mremap, SYS_mprotect, SYS_madvise, SYS_brk, SYS_futex, SYS_getrandom,     \
		SYS_clock_gettime, SYS_sysinfo, SYS_setitimer, SYS_rt_sigprocmask, SYS_rt_sigreturn,                \
		SYS_restart_syscall, SYS_getpid, SYS_gettid, SYS_exit, SYS_exit_group

static const int reader_calls[] = { CALLS };

/* The server also forks readers. */
static const int server_calls[] = {
	CALLS, SYS_clone, SYS_set_robust_list, SYS_rseq, SYS_prlimit64, SYS_prctl, SYS_seccomp, SYS_kill, SYS_wait4
};

static int confine_if_full(const int *list, size_t n)
{
	return confine_is_full() ? confine_to_calls(list, n) : 0;
}

/* Returns the number of descriptors received, or -1: there will be no more messages. */
static int receive_from(int from, void *data, size_t size, int fds[2])
{
	ssize_t n;

	do
		n = passing_receive(from, data, size, fds, 2, 0, NULL);
	while (n == -EINTR);
	return n == (ssize_t)size ? (fds[0] >= 0) + (fds[1] >= 0) : -1;
}

static void answer_request(struct lookup **files, const struct reader_request *rq, const int fds[2], struct reader_answer *a)
{
	a->err = -EINVAL;
	if (rq->file >= READER_FILES_MAX)
		return;
	if (!rq->open && !rq->close) {
		a->err = files[rq->file] ? lookup_place(files[rq->file], rq->offset, &a->place) : -EBADF;
		return;
	}
	lookup_close(files[rq->file]);
	files[rq->file] = NULL;
	a->err = 0;
	if (rq->close)
		return;
	a->err = lookup_open(fds[0], fds[1], rq->linked, &files[rq->file]);
	if (!a->err)
		lookup_link(files[rq->file], a->place.name, READER_LINK_MAX);
}

static _Noreturn void reader_run(int fd)
{
	static struct lookup *files[READER_FILES_MAX];
	static struct reader_answer a;
	struct reader_request rq;
	int fds[2];

	if (confine_is_full())
		confine_limit(RLIMIT_DATA, MEMORY_MAX);
	if (confine_if_full(reader_calls, sizeof(reader_calls) / sizeof(reader_calls[0])))
		_exit(1);
	while (receive_from(fd, &rq, sizeof(rq), fds) >= 0) {
		/* a file that takes too long ends this process by SIGALRM */
		confine_time(READER_MS_MAX);
		memset(&a, 0, sizeof(a));
		answer_request(files, &rq, fds, &a);
		confine_time(0);
		if (send(fd, &a, sizeof(a), MSG_NOSIGNAL) < 0)
			break;
	}
	_exit(0);
}

/* The server: each message with a socket replaces the reader by a new one, which answers requests from that socket. */
static _Noreturn void reader_serve(int fd)
{
	struct rlimit files;
	pid_t child = 0;
	char byte;
	int fds[2];

	/* libdw keeps files open */
	if (!getrlimit(RLIMIT_NOFILE, &files))
		confine_limit(RLIMIT_NOFILE, files.rlim_max);
	fd = confine_reader(fd, "inftrace-stack");
	if (fd < 0)
		_exit(1);
	if (confine_if_full(server_calls, sizeof(server_calls) / sizeof(server_calls[0])))
		_exit(1);
	while (receive_from(fd, &byte, sizeof(byte), fds) == 1) {
		if (child > 0) {
			kill(child, SIGKILL);
			waitpid(child, NULL, 0);
		}
		child = fork();
		if (!child) {
			close(fd);
			reader_run(fds[0]);
		}
		close(fds[0]);
	}
	if (child > 0)
		kill(child, SIGKILL);
	_exit(0);
}

/* ---- the recorder's side: whatever the answers contain is safe to use, see unwind_step() ---- */

struct reader {
	pid_t pid;
	int server; /* socket to the server */
	int fd;     /* socket to the reader; -1: none */
	unsigned int generation;
	struct reader_answer answer;
};

int reader_new(struct reader **ret_reader)
{
	int fds[2], err;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds))
		return -errno;
	pid = fork();
	if (!pid) {
		close(fds[0]);
		reader_serve(fds[1]);
	}
	err = pid < 0 ? -errno : 0;
	close(fds[1]);
	if (err) {
		close(fds[0]);
		return err;
	}
	*ret_reader = xcalloc(1, sizeof(**ret_reader));
	(*ret_reader)->pid = pid;
	(*ret_reader)->server = fds[0];
	(*ret_reader)->fd = -1;
	return 0;
}

void reader_free(struct reader *r)
{
	if (!r)
		return;
	if (r->fd >= 0)
		close(r->fd);
	close(r->server);
	/* the server's process group includes the reader */
	kill(-r->pid, SIGKILL);
	kill(r->pid, SIGKILL);
	while (waitpid(r->pid, NULL, 0) < 0 && errno == EINTR)
		;
	free(r);
}

unsigned int reader_generation(const struct reader *r)
{
	return r->generation;
}

/* Has the server start a reader, with no file open. */
static int reader_start(struct reader *r)
{
	int fds[2], err;

	if (r->generation > READER_REPLACED_MAX)
		return -EPROTO;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds))
		return -errno;
	err = passing_send(r->server, "", 1, &fds[1], 1, 0);
	close(fds[1]);
	if (err) {
		close(fds[0]);
		return err;
	}
	r->fd = fds[0];
	return 0;
}

static int reader_read_answer(struct reader *r)
{
	uint64_t end = clock_mono_ns() + READER_MS_MAX * NSEC_PER_MSEC;

	for (;;) {
		struct pollfd p = { .fd = r->fd, .events = POLLIN };
		uint64_t now = clock_mono_ns();
		ssize_t n;

		if (now >= end)
			return -EPROTO;
		if (poll(&p, 1, (int)((end - now) / NSEC_PER_MSEC) + 1) <= 0)
			continue;
		n = recv(r->fd, &r->answer, sizeof(r->answer), MSG_DONTWAIT);
		if (n == sizeof(r->answer))
			return 0;
		if (n >= 0 || (errno != EINTR && errno != EAGAIN))
			return -EPROTO;
	}
}

static int reader_send_request(struct reader *r, const struct reader_request *rq, const int *fds, size_t n)
{
	int err = r->fd < 0 ? reader_start(r) : 0;

	if (err)
		return err;
	err = passing_send(r->fd, rq, sizeof(*rq), fds, n, 0);
	if (!err)
		err = reader_read_answer(r);
	if (err) {
		/* the server kills this reader when it starts the next one */
		close(r->fd);
		r->fd = -1;
		r->generation++;
		return -EPROTO;
	}
	err = r->answer.err;
	return err > 0 || err < -4095 ? -EPROTO : err;
}

int reader_open(struct reader *r, uint32_t file, int fd, int debug_fd, bool linked)
{
	const struct reader_request rq = { .file = file, .open = 1, .linked = linked };
	const int fds[2] = { fd, debug_fd };
	int err;

	r->answer.place.name[0] = '\0';
	err = reader_send_request(r, &rq, fds, debug_fd < 0 ? 1 : 2);
	close(fd);
	if (debug_fd >= 0)
		close(debug_fd);
	return err;
}

void reader_close(struct reader *r, uint32_t file)
{
	const struct reader_request rq = { .file = file, .close = 1 };

	if (r->fd >= 0)
		reader_send_request(r, &rq, NULL, 0);
}

void reader_link(const struct reader *r, char to[READER_LINK_MAX])
{
	const char *name = r->answer.place.name;
	size_t len = strnlen(name, READER_LINK_MAX);

	*to = '\0';
	if (len < READER_LINK_MAX && !memchr(name, '/', len)) /* a reader that a file has taken over may say anything */
		memcpy(to, name, len + 1);
}

int reader_place(struct reader *r, uint32_t file, uint64_t offset, struct place *ret_place)
{
	const struct reader_request rq = { .file = file, .offset = offset };
	int err;

	if (r->fd < 0)
		return -EBADF;
	err = reader_send_request(r, &rq, NULL, 0);
	if (err)
		return err;
	*ret_place = r->answer.place;
	ret_place->name[sizeof(ret_place->name) - 1] = '\0';
	return 0;
}

#define DEPTH_MAX 16

#ifdef __x86_64__
#define ADDRESS_MASK UINT64_MAX
#else
/* without the pointer authentication bits */
#define ADDRESS_MASK ((UINT64_C(1) << 48) - 1)
#endif

void unwind_start(struct unwind *u, const uint64_t *regs, const void *stack, size_t size)
{
	memcpy(u->regs, regs, sizeof(u->regs));
	u->known = (UINT64_C(1) << ROW_REGS) - 1;
	u->start = regs[ROW_SP];
	u->stack = stack;
	u->size = size;
	u->exact = true;
	u->inner = true;
}

uint64_t unwind_pc(const struct unwind *u)
{
	return u->regs[ROW_PC] - !u->exact;
}

static int unwind_read_stack(const struct unwind *u, uint64_t addr, size_t size, uint64_t *ret)
{
	uint64_t at = addr - u->start;

	*ret = 0;
	if (addr < u->start)
		return -EINVAL;
	if (at >= u->size || size > u->size - at)
		return -ENODATA;
	memcpy(ret, u->stack + at, size);
	return 0;
}

static bool reg_is_known(const struct unwind *u, unsigned int reg)
{
	return reg < ROW_REGS && u->known >> reg & 1;
}

/* ---- DWARF's stack machine, as far as call frame information uses it ---- */

struct machine {
	const struct unwind *u;
	uint64_t cfa;
	uint64_t stack[DEPTH_MAX];
	unsigned int depth;
};

static int machine_push(struct machine *m, uint64_t value)
{
	if (m->depth == DEPTH_MAX)
		return -EINVAL;
	m->stack[m->depth++] = value;
	return 0;
}

static int machine_push_register(struct machine *m, unsigned int reg, int64_t offset)
{
	return reg_is_known(m->u, reg) ? machine_push(m, m->u->regs[reg] + (uint64_t)offset) : -EINVAL;
}

/* Runs an operation on the top value. -ENOSYS: it is not unary. */
static int machine_run_unary(struct machine *m, const struct row_op *op)
{
	uint64_t *top = &m->stack[m->depth - 1];

	switch (op->atom) {
	case DW_OP_deref:
		return unwind_read_stack(m->u, *top, sizeof(*top), top);
	case DW_OP_deref_size:
		return op->number < 1 || op->number > 8 ? -EINVAL : unwind_read_stack(m->u, *top, (size_t)op->number, top);
	case DW_OP_dup:
		return machine_push(m, *top);
	case DW_OP_drop:
		m->depth--;
		return 0;
	case DW_OP_neg:
		*top = -*top;
		return 0;
	case DW_OP_not:
		*top = ~*top;
		return 0;
	case DW_OP_plus_uconst:
		*top += (uint64_t)op->number;
		return 0;
	default:
		return -ENOSYS;
	}
}

/* Replaces the top two values by the result. */
static int machine_replace_two(struct machine *m, uint64_t value)
{
	m->stack[--m->depth - 1] = value;
	return 0;
}

static int machine_run_binary(struct machine *m, const struct row_op *op)
{
	uint64_t b = m->stack[m->depth - 1], a = m->stack[m->depth - 2];
	int64_t sa = (int64_t)a, sb = (int64_t)b;

	switch (op->atom) {
	case DW_OP_and:
		return machine_replace_two(m, a & b);
	case DW_OP_or:
		return machine_replace_two(m, a | b);
	case DW_OP_xor:
		return machine_replace_two(m, a ^ b);
	case DW_OP_plus:
		return machine_replace_two(m, a + b);
	case DW_OP_minus:
		return machine_replace_two(m, a - b);
	case DW_OP_mul:
		return machine_replace_two(m, a * b);
	case DW_OP_shl:
		return machine_replace_two(m, b < 64 ? a << b : 0);
	case DW_OP_shr:
		return machine_replace_two(m, b < 64 ? a >> b : 0);
	case DW_OP_eq:
		return machine_replace_two(m, a == b);
	case DW_OP_ne:
		return machine_replace_two(m, a != b);
	case DW_OP_ge:
		return machine_replace_two(m, sa >= sb);
	case DW_OP_gt:
		return machine_replace_two(m, sa > sb);
	case DW_OP_le:
		return machine_replace_two(m, sa <= sb);
	case DW_OP_lt:
		return machine_replace_two(m, sa < sb);
	default:
		return -EINVAL;
	}
}

static int machine_run_op(struct machine *m, const struct row_op *op)
{
	int err;

	if (op->atom >= DW_OP_lit0 && op->atom <= DW_OP_lit31)
		return machine_push(m, op->atom - DW_OP_lit0);
	if (op->atom >= DW_OP_breg0 && op->atom <= DW_OP_breg31)
		return machine_push_register(m, op->atom - DW_OP_breg0, op->number);
	switch (op->atom) {
	case DW_OP_bregx:
		return op->number < 0 || op->number >= ROW_REGS ? -EINVAL : machine_push_register(m, (unsigned int)op->number, op->number2);
	case DW_OP_call_frame_cfa:
		return machine_push(m, m->cfa);
	case DW_OP_const1u ... DW_OP_consts:
		return machine_push(m, (uint64_t)op->number);
	case DW_OP_stack_value:
	case DW_OP_nop:
		return 0;
	default:
		err = m->depth ? machine_run_unary(m, op) : -EINVAL;
		if (err != -ENOSYS)
			return err;
		return m->depth > 1 ? machine_run_binary(m, op) : -EINVAL;
	}
}

/* There are no jumps, so it terminates. */
static int rule_evaluate(const struct unwind *u, const struct row *row, const struct rule *rule, uint64_t cfa, uint64_t *ret)
{
	struct machine m = { .u = u, .cfa = cfa };
	int err = 0;

	if (row->n_ops > ROW_OPS_MAX || rule->op + rule->n_ops > row->n_ops)
		return -EINVAL;
	for (unsigned int i = 0; !err && i < rule->n_ops; i++)
		err = machine_run_op(&m, &row->ops[rule->op + i]);
	if (!err && !m.depth)
		err = -EINVAL;
	if (!err)
		*ret = m.stack[m.depth - 1];
	return err;
}

/* ---- rules ---- */

static int row_find_cfa(const struct unwind *u, const struct row *row, uint64_t *ret_cfa)
{
	if (row->cfa.kind == RULE_IS_EXPR)
		return rule_evaluate(u, row, &row->cfa, 0, ret_cfa);
	if (row->cfa.kind != RULE_REG || !reg_is_known(u, row->cfa.reg))
		return -EINVAL;
	*ret_cfa = u->regs[row->cfa.reg] + (uint64_t)(int64_t)row->cfa.offset;
	return 0;
}

static int row_restore_register(const struct unwind *u, const struct row *row, unsigned int reg, uint64_t cfa, uint64_t *ret)
{
	const struct rule *rule = &row->regs[reg];
	uint64_t at = cfa + (uint64_t)(int64_t)rule->offset;
	int err;

	switch (rule->kind) {
	case RULE_SAME:
		*ret = u->regs[reg];
		return reg_is_known(u, reg) ? 0 : -ENOENT;
	case RULE_AT:
		return unwind_read_stack(u, at, sizeof(*ret), ret);
	case RULE_IS:
		*ret = at;
		return 0;
	case RULE_REG:
		*ret = reg_is_known(u, rule->reg) ? u->regs[rule->reg] + (uint64_t)(int64_t)rule->offset : 0;
		return reg_is_known(u, rule->reg) ? 0 : -ENOENT;
	case RULE_AT_EXPR:
		err = rule_evaluate(u, row, rule, cfa, &at);
		return err ? err : unwind_read_stack(u, at, sizeof(*ret), ret);
	case RULE_IS_EXPR:
		return rule_evaluate(u, row, rule, cfa, ret);
	default:
		return -ENOENT;
	}
}

/* The stack grows downwards, so the caller's frame lies above; only a leaf function on arm64 may use no stack. A signal
 * may have been handled on another stack. */
static bool cfa_is_progress(const struct unwind *u, const struct row *row, uint64_t cfa)
{
	if (row->signal)
		return true;
	return cfa > u->regs[ROW_SP] || (cfa == u->regs[ROW_SP] && u->inner && ROW_RA != ROW_PC);
}

static int unwind_set_frame(struct unwind *u, const uint64_t *regs, uint64_t known, uint64_t pc, bool signal)
{
	memcpy(u->regs, regs, sizeof(u->regs));
	pc &= ADDRESS_MASK;
	u->regs[ROW_PC] = pc;
	u->known = known | UINT64_C(1) << ROW_PC;
	u->exact = signal;
	u->inner = false;
	return !pc; /* by convention 0 at the outermost frame, if the frame information does not mark it */
}

static int step_by_row(struct unwind *u, const struct row *row)
{
	uint64_t regs[ROW_REGS] = {}, known = 0, cfa;
	int err = row_find_cfa(u, row, &cfa);

	if (err)
		return err;
	if (row->ra >= ROW_REGS || !cfa_is_progress(u, row, cfa))
		return -EINVAL;
	if (row->regs[row->ra].kind == RULE_UNDEFINED)
		return 1;
	for (unsigned int i = 0; i < ROW_REGS; i++) {
		err = row_restore_register(u, row, i, cfa, &regs[i]);
		if (!err)
			known |= UINT64_C(1) << i;
		else if (i == row->ra || i == ROW_SP)
			return err == -ENODATA ? err : -EINVAL;
	}
	return unwind_set_frame(u, regs, known, regs[row->ra], row->signal);
}

/* Code made at run time has no frame information, but the usual JIT compilers keep the frame pointer. */
static int step_by_frame_pointer(struct unwind *u)
{
	uint64_t regs[ROW_REGS] = {}, fp = u->regs[ROW_FP], ra;
	int err;

	if (!reg_is_known(u, ROW_FP) || fp < u->regs[ROW_SP] || fp % 8)
		return -EINVAL;
	err = unwind_read_stack(u, fp, sizeof(*regs), &regs[ROW_FP]) ?: unwind_read_stack(u, fp + 8, sizeof(ra), &ra);
	if (err)
		return err;
	regs[ROW_SP] = fp + 16;
	return unwind_set_frame(u, regs, UINT64_C(1) << ROW_FP | UINT64_C(1) << ROW_SP, ra, false);
}

int unwind_step(struct unwind *u, const struct row *row)
{
	return row->known ? step_by_row(u, row) : step_by_frame_pointer(u);
}
