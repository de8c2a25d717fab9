/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Why a thread is off the CPU: the system call it blocked in, and the file behind its descriptor. */
#ifndef INFTRACE_BLOCKED_BPF_H
#define INFTRACE_BLOCKED_BPF_H

#include "inftrace.bpf.h"
#include "python_locks.bpf.h"

#include <bpf/bpf_endian.h>

#define S_IFMT 00170000
#define S_IFSOCK 0140000
#define S_IFIFO 0010000
#define S_IFCHR 0020000
#define AF_UNIX 1
#define AF_INET 2
#define AF_INET6 10
#define IPPROTO_TCP 6
#define MAPPED_PREFIX bpf_htonl(0xffff) /* of IPv4 addresses in IPv6, RFC 4291, 2.5.5.2 */
#define MAJOR(dev) ((dev) >> 20)
#define MAJOR_NVIDIA 195
#define MAJOR_DRM 226

/* The file operations of eventfds, learnt from one of user space: nothing else tells them from other anonymous inodes. */
volatile u64 eventfd_fops __weak = 0;

enum file_kind {
	FILE_PLAIN,
	FILE_PIPE,
	FILE_EVENTFD,
	FILE_SOCKET,
	FILE_KIND_MASK = 3, /* in the low bits of the address of its operations */
};

/* A cache of file kinds by their operations: saves most calls all but two of the reads. */
#define FOPS_KNOWN 8
volatile u64 fops_known[FOPS_KNOWN] __weak = {};

/* NULL: no such descriptor. */
static __always_inline struct file *file_of_fd(struct task_struct *task, u64 fd)
{
	struct fdtable *fdt = task->files->fdt;
	struct file *file = NULL;

	if (fd < fdt->max_fds)
		bpf_probe_read_kernel(&file, sizeof(file), fdt->fd + fd);
	return file;
}

/* Sets eventfd_fops. Called by the task iterator, in the context of inftrace itself. */
static __always_inline void ipc_learn(void)
{
	struct file *file = file_of_fd(bpf_get_current_task_btf(), cfg.eventfd);

	eventfd_fops = (u64)BPF_CORE_READ(file, f_op);
}

/* file: may be NULL. */
static __always_inline u32 file_kind(struct file *file)
{
	u64 fops = (u64)BPF_CORE_READ(file, f_op);
	volatile u64 *known = &fops_known[fops >> 6 & (FOPS_KNOWN - 1)]; /* they are hundreds of bytes apart */
	u32 mode, kind;

	if (!fops)
		return FILE_PLAIN;
	if ((*known & ~FILE_KIND_MASK) == fops)
		return *known & FILE_KIND_MASK;
	mode = BPF_CORE_READ(file, f_inode, i_mode) & S_IFMT;
	kind = fops == eventfd_fops ? FILE_EVENTFD : mode == S_IFIFO ? FILE_PIPE
					     : mode == S_IFSOCK      ? FILE_SOCKET
								     : FILE_PLAIN;
	*known = fops | kind;
	return kind;
}

static __always_inline struct sock *sock_of_file(struct file *file)
{
	struct socket *sock = BPF_CORE_READ(file, private_data);

	return BPF_CORE_READ(sock, sk);
}

/* Not for MPTCP, whose sockets have another protocol: their bytes are in several connections. */
static __always_inline bool is_tcp(struct sock *sk)
{
	u32 family = BPF_CORE_READ(sk, __sk_common.skc_family);

	return (family == AF_INET || family == AF_INET6) && BPF_CORE_READ(sk, sk_protocol) == IPPROTO_TCP;
}

/* The addresses of an IP socket, as IPv6. local: may be NULL. */
static __always_inline void inet_addresses(struct sock *sk, u32 family, u32 *local, u32 *peer)
{
	if (family == AF_INET) {
		peer[2] = MAPPED_PREFIX;
		peer[3] = BPF_CORE_READ(sk, __sk_common.skc_daddr);
		if (local) {
			local[2] = MAPPED_PREFIX;
			local[3] = BPF_CORE_READ(sk, __sk_common.skc_rcv_saddr);
		}
	} else if (bpf_core_field_exists(sk->__sk_common.skc_v6_daddr)) {
		bpf_core_read(peer, 4 * sizeof(u32), &sk->__sk_common.skc_v6_daddr);
		if (local)
			bpf_core_read(local, 4 * sizeof(u32), &sk->__sk_common.skc_v6_rcv_saddr);
	}
}

static __always_inline u32 ipc_of_fd(struct task_struct *task, u64 fd)
{
	struct file *file = file_of_fd(task, fd);

	switch (file_kind(file)) {
	case FILE_PIPE:
		return IPC_PIPE;
	case FILE_EVENTFD:
		return IPC_EVENTFD;
	case FILE_SOCKET:
		return BPF_CORE_READ(sock_of_file(file), __sk_common.skc_family) == AF_UNIX ? IPC_UNIX : IPC_NONE;
	default:
		return IPC_NONE;
	}
}

/* FUTEX_WAKE, REQUEUE, CMP_REQUEUE, WAKE_OP, UNLOCK_PI, WAKE_BITSET, CMP_REQUEUE_PI of
 * <linux/futex.h>. All others wait. */
#define FUTEX_CMD_MASK 127
#define FUTEX_WAKES (1u << 1 | 1u << 3 | 1u << 4 | 1u << 5 | 1u << 7 | 1u << 10 | 1u << 12)

/* Returns enum sys_class, perhaps with SYS_F_TRANSFER. */
static __always_inline u32 class_of(u32 nr)
{
	barrier_var(nr);
	return nr < sizeof(cfg.sys_class) ? cfg.sys_class[nr & (sizeof(cfg.sys_class) - 1)] : SYS_OTHER;
}

/* What a beginning system call passes data through: enum ipc_kind, shifted to its place in the flags. */
static __always_inline u32 ipc_of_call(struct task_struct *task, u32 nr, u64 arg0, u64 arg1)
{
	u32 class = class_of(nr), kind, cmd = arg1 & FUTEX_CMD_MASK;

	if (class == SYS_FUTEX)
		kind = cmd < 32 && FUTEX_WAKES & 1u << cmd ? IPC_FUTEX_WAKE : IPC_FUTEX_WAIT;
	else if (!(class & SYS_F_TRANSFER))
		return 0;
	else if (class == (SYS_FUTEX | SYS_F_TRANSFER))
		kind = IPC_FUTEX_WAIT; /* or wakes: user space can tell by the number */
	else
		kind = ipc_of_fd(task, arg0);
	return kind << SYSCALL_IPC_SHIFT;
}

#define BLOCKED_NAMED 0x80 /* beside the state: what is behind the descriptor has a name, or a peer */

/* The state of a thread that blocks on a descriptor, by the type of the file, perhaps with BLOCKED_NAMED. */
static __noinline u32 blocked_on_fd(struct task_struct *task, u64 fd)
{
	struct file *file = file_of_fd(task, fd);
	struct inode *inode;
	u32 kind, major, family;

	if (!file)
		return ST_BLOCKED_OTHER;
	kind = file_kind(file);
	if (kind == FILE_SOCKET) {
		family = BPF_CORE_READ(sock_of_file(file), __sk_common.skc_family);
		return (family == AF_INET || family == AF_INET6 ? ST_BLOCKED_NET : ST_BLOCKED_IPC) | BLOCKED_NAMED;
	}
	if (kind != FILE_PLAIN)
		return ST_BLOCKED_IPC;
	inode = BPF_CORE_READ(file, f_inode);
	switch (BPF_CORE_READ(inode, i_mode) & S_IFMT) {
	case 0: /* anonymous inode: timerfd, io_uring */
		return ST_BLOCKED_IPC;
	case S_IFCHR:
		major = MAJOR(BPF_CORE_READ(inode, i_rdev));
		return major == MAJOR_NVIDIA || major == MAJOR_DRM ? ST_BLOCKED_GPU : ST_BLOCKED_IO | BLOCKED_NAMED;
	default:
		return ST_BLOCKED_IO | BLOCKED_NAMED;
	}
}

/* As blocked_on_fd(). */
static __always_inline u32 blocked_in_syscall(struct task_struct *task, u32 nr, u64 arg0)
{
	switch (class_of(nr) & ~SYS_F_TRANSFER) {
	case SYS_FUTEX:
		return python_lock(task->tgid, arg0) ? ST_BLOCKED_GIL : ST_BLOCKED_FUTEX;
	case SYS_SLEEP:
		return ST_BLOCKED_SLEEP;
	case SYS_POLL:
		return ST_BLOCKED_POLL;
	case SYS_FD:
		return blocked_on_fd(task, arg0);
	case SYS_IO:
	case SYS_MAP:
		return ST_BLOCKED_IO;
	case SYS_NET:
		return ST_BLOCKED_NET;
	case SYS_IPC:
		return ST_BLOCKED_IPC;
	default:
		return ST_BLOCKED_OTHER;
	}
}

#endif
