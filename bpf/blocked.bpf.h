/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Why a thread is off the CPU: the system call it blocked in, and the file behind its descriptor. */
#ifndef INFTRACE_BLOCKED_BPF_H
#define INFTRACE_BLOCKED_BPF_H

#include "inftrace.bpf.h"

/* include/linux/sched.h: __TASK_STOPPED, __TASK_TRACED, and TASK_FROZEN since 6.1 */
#define TASK_STOPPED_MASK (0x0004 | 0x0008 | 0x8000)

#define S_IFMT 00170000
#define S_IFSOCK 0140000
#define S_IFIFO 0010000
#define S_IFCHR 0020000
#define AF_UNIX 1
#define AF_INET 2
#define AF_INET6 10
#define MAJOR(dev) ((dev) >> 20)
#define MAJOR_NVIDIA 195
#define MAJOR_DRM 226

/* What a thread that blocks on a descriptor waits for: the type of the file decides. */
static __noinline u32 blocked_on_fd(struct task_struct *task, u64 fd)
{
	struct file **fds, *file = NULL;
	struct inode *inode;
	struct socket *sock;
	u32 mode, major, family;

	if (!task || fd >= BPF_CORE_READ(task, files, fdt, max_fds))
		return ST_BLOCKED_OTHER;
	fds = BPF_CORE_READ(task, files, fdt, fd);
	bpf_probe_read_kernel(&file, sizeof(file), fds + fd);
	if (!file)
		return ST_BLOCKED_OTHER;
	inode = BPF_CORE_READ(file, f_inode);
	mode = BPF_CORE_READ(inode, i_mode) & S_IFMT;
	switch (mode) {
	case 0: /* anonymous inode: eventfd, timerfd, io_uring */
	case S_IFIFO:
		return ST_BLOCKED_IPC;
	case S_IFSOCK:
		sock = BPF_CORE_READ(file, private_data);
		family = BPF_CORE_READ(sock, sk, __sk_common.skc_family);
		return family == AF_INET || family == AF_INET6 ? ST_BLOCKED_NET : ST_BLOCKED_IPC;
	case S_IFCHR:
		major = MAJOR(BPF_CORE_READ(inode, i_rdev));
		return major == MAJOR_NVIDIA || major == MAJOR_DRM ? ST_BLOCKED_GPU : ST_BLOCKED_IO;
	default:
		return ST_BLOCKED_IO;
	}
}

static __always_inline u32 blocked_in_syscall(struct task_struct *task, u32 nr, u64 arg0)
{
	u32 class = SYS_OTHER;

	barrier_var(nr);
	if (nr < sizeof(cfg.sys_class))
		class = cfg.sys_class[nr & (sizeof(cfg.sys_class) - 1)];
	switch (class) {
	case SYS_FUTEX:
		return ST_BLOCKED_FUTEX;
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
