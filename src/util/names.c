/* SPDX-License-Identifier: BSD-2-Clause */
#include <signal.h>
#include <stddef.h>
#include <string.h>

#include "util/names.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#define SYSCALL_TABLE "syscalls.h" /* made by scripts/gen-syscalls */

/* Own numbers, since the installed headers may be older than the table. */
enum {
#define SYSCALL(nr, name) NR_##name = (nr),
#include SYSCALL_TABLE
#undef SYSCALL
};

static const char *const syscall_names[] = {
#define SYSCALL(nr, name) [nr] = #name,
#include SYSCALL_TABLE
#undef SYSCALL
};

_Static_assert(ARRAY_SIZE(syscall_names) <= SYSCALL_MAX, "raise SYSCALL_MAX");

static const struct syscall_quoted quoted_names[] = {
#define SYSCALL(nr, name) [nr] = { "\"" #name "\"", sizeof(#name) + 1 },
#include SYSCALL_TABLE
#undef SYSCALL
};

#define ARG_FD 1 /* the first argument is a file descriptor */
#define BYTES 2  /* the result is a number of bytes */
#define SENDS 4  /* sends data through the descriptor, or wakes */
#define RECEIVES 8

struct traits {
	unsigned char class, flags;
};

#define T(name, class_, flags_) [NR_##name] = { SYS_##class_, flags_ }

/*
 * A call that is not listed can go off CPU only for a lock or for a wait of its own kind (wait4,
 * pause), and is SYS_OTHER. The descriptor of an *at() call is not worth showing: it is nearly
 * always AT_FDCWD.
 */
static const struct traits syscall_traits[] = {
	T(read, FD, ARG_FD | BYTES | RECEIVES),
	T(write, FD, ARG_FD | BYTES | SENDS),
	T(pread64, FD, ARG_FD | BYTES),
	T(pwrite64, FD, ARG_FD | BYTES),
	T(readv, FD, ARG_FD | BYTES | RECEIVES),
	T(writev, FD, ARG_FD | BYTES | SENDS),
	T(preadv, FD, ARG_FD | BYTES),
	T(pwritev, FD, ARG_FD | BYTES),
	T(preadv2, FD, ARG_FD | BYTES | RECEIVES),
	T(pwritev2, FD, ARG_FD | BYTES | SENDS),
	T(sendfile, FD, ARG_FD | BYTES | SENDS),
	T(splice, FD, ARG_FD | BYTES | RECEIVES),
	T(tee, FD, ARG_FD | BYTES | RECEIVES),
	T(vmsplice, FD, ARG_FD | BYTES | SENDS),
	T(copy_file_range, FD, ARG_FD | BYTES),
	T(recvfrom, FD, ARG_FD | BYTES | RECEIVES),
	T(sendto, FD, ARG_FD | BYTES | SENDS),
	T(recvmsg, FD, ARG_FD | BYTES | RECEIVES),
	T(sendmsg, FD, ARG_FD | BYTES | SENDS),
	T(recvmmsg, FD, ARG_FD | RECEIVES), /* results are numbers of messages */
	T(sendmmsg, FD, ARG_FD | SENDS),
	T(connect, FD, ARG_FD),
	T(accept, FD, ARG_FD),
	T(accept4, FD, ARG_FD),
	T(bind, FD, ARG_FD),
	T(listen, FD, ARG_FD),
	T(shutdown, FD, ARG_FD),
	T(getsockopt, FD, ARG_FD),
	T(setsockopt, FD, ARG_FD),
	T(getsockname, FD, ARG_FD),
	T(getpeername, FD, ARG_FD),
	T(ioctl, FD, ARG_FD),
	T(fcntl, FD, ARG_FD),
	T(close, FD, ARG_FD),
	T(close_range, OTHER, ARG_FD),
	T(dup, OTHER, ARG_FD),
	T(dup3, OTHER, ARG_FD),
	T(epoll_ctl, OTHER, ARG_FD),
	T(timerfd_settime, OTHER, ARG_FD),
	T(timerfd_gettime, OTHER, ARG_FD),
	T(pidfd_send_signal, OTHER, ARG_FD),
	T(pidfd_getfd, OTHER, ARG_FD),
	T(process_mrelease, OTHER, ARG_FD),
	T(setns, OTHER, ARG_FD),
	T(io_uring_register, OTHER, ARG_FD),

	T(futex, FUTEX, 0),
	T(futex_waitv, FUTEX, RECEIVES),
	T(futex_wake, FUTEX, SENDS),
	T(futex_wait, FUTEX, RECEIVES),
	T(futex_requeue, FUTEX, SENDS),

	T(nanosleep, SLEEP, 0),
	T(clock_nanosleep, SLEEP, 0),

	T(ppoll, POLL, 0),
	T(pselect6, POLL, 0),
	T(epoll_pwait, POLL, ARG_FD),
	T(epoll_pwait2, POLL, ARG_FD),
	T(io_getevents, POLL, 0),
	T(io_pgetevents, POLL, 0),
	T(io_uring_enter, POLL, ARG_FD),

	T(semop, IPC, 0),
	T(semtimedop, IPC, 0),
	T(semctl, IPC, 0),
	T(msgsnd, IPC, 0),
	T(msgrcv, IPC, BYTES),
	T(mq_timedsend, IPC, ARG_FD),
	T(mq_timedreceive, IPC, ARG_FD | BYTES),

	T(mmap, MAP, 0),

	T(fsync, IO, ARG_FD),
	T(fdatasync, IO, ARG_FD),
	T(syncfs, IO, ARG_FD),
	T(sync, IO, 0),
	T(sync_file_range, IO, ARG_FD),
	T(fallocate, IO, ARG_FD),
	T(ftruncate, IO, ARG_FD),
	T(fadvise64, IO, ARG_FD),
	T(readahead, IO, ARG_FD),
	T(cachestat, IO, ARG_FD),
	T(lseek, IO, ARG_FD),
	T(flock, IO, ARG_FD),
	T(fstat, IO, ARG_FD),
	T(fstatfs, IO, ARG_FD),
	T(fchmod, IO, ARG_FD),
	T(fchown, IO, ARG_FD),
	T(fchdir, IO, ARG_FD),
	T(fgetxattr, IO, ARG_FD),
	T(fsetxattr, IO, ARG_FD),
	T(flistxattr, IO, ARG_FD),
	T(fremovexattr, IO, ARG_FD),
	T(getdents64, IO, ARG_FD | BYTES),
	T(inotify_add_watch, IO, ARG_FD),
	T(inotify_rm_watch, IO, ARG_FD),
	T(fanotify_mark, IO, ARG_FD),
	T(finit_module, IO, ARG_FD),
	T(openat, IO, 0),
	T(openat2, IO, 0),
	T(open_by_handle_at, IO, 0),
	T(name_to_handle_at, IO, 0),
	T(newfstatat, IO, 0),
	T(statx, IO, 0),
	T(statfs, IO, 0),
	T(truncate, IO, 0),
	T(faccessat, IO, 0),
	T(faccessat2, IO, 0),
	T(fchmodat, IO, 0),
	T(fchmodat2, IO, 0),
	T(fchownat, IO, 0),
	T(utimensat, IO, 0),
	T(linkat, IO, 0),
	T(symlinkat, IO, 0),
	T(unlinkat, IO, 0),
	T(renameat, IO, 0),
	T(renameat2, IO, 0),
	T(mkdirat, IO, 0),
	T(mknodat, IO, 0),
	T(readlinkat, IO, BYTES),
	T(getcwd, IO, 0),
	T(chdir, IO, 0),
	T(chroot, IO, 0),
	T(getxattr, IO, 0),
	T(lgetxattr, IO, 0),
	T(setxattr, IO, 0),
	T(lsetxattr, IO, 0),
	T(listxattr, IO, 0),
	T(llistxattr, IO, 0),
	T(removexattr, IO, 0),
	T(lremovexattr, IO, 0),
	T(getxattrat, IO, 0),
	T(setxattrat, IO, 0),
	T(listxattrat, IO, 0),
	T(removexattrat, IO, 0),
	T(file_getattr, IO, 0),
	T(file_setattr, IO, 0),
	T(execve, IO, 0),
	T(execveat, IO, 0),
	T(mount, IO, 0),
	T(umount2, IO, 0),
	T(swapon, IO, 0),
	T(swapoff, IO, 0),
	T(quotactl, IO, 0),
	T(quotactl_fd, IO, ARG_FD),
	T(io_submit, IO, 0),
	T(msync, IO, 0),
	T(madvise, IO, 0),
	T(process_madvise, IO, ARG_FD | BYTES),
	T(mlock, IO, 0), /* these three fault pages in */
	T(mlock2, IO, 0),
	T(mlockall, IO, 0),

	T(process_vm_readv, OTHER, BYTES),
	T(process_vm_writev, OTHER, BYTES),
	T(getrandom, OTHER, BYTES),

#ifdef __x86_64__
	/* older forms, which arm64 never had */
	T(poll, POLL, 0),
	T(select, POLL, 0),
	T(epoll_wait, POLL, ARG_FD),
	T(dup2, OTHER, ARG_FD),
	T(getdents, IO, ARG_FD | BYTES),
	T(open, IO, 0),
	T(creat, IO, 0),
	T(stat, IO, 0),
	T(lstat, IO, 0),
	T(access, IO, 0),
	T(chmod, IO, 0),
	T(chown, IO, 0),
	T(lchown, IO, 0),
	T(utime, IO, 0),
	T(utimes, IO, 0),
	T(futimesat, IO, 0),
	T(link, IO, 0),
	T(symlink, IO, 0),
	T(unlink, IO, 0),
	T(rename, IO, 0),
	T(mkdir, IO, 0),
	T(rmdir, IO, 0),
	T(mknod, IO, 0),
	T(readlink, IO, BYTES),
#endif
};

/* include/linux/errno.h of the kernel, which neither user space nor the C library knows */
#define KERNEL_ERRNO_MIN 512
static const char *const kernel_errno_names[] = {
#define E(nr, name) [(nr)-KERNEL_ERRNO_MIN] = #name
	E(512, ERESTARTSYS),
	E(513, ERESTARTNOINTR),
	E(514, ERESTARTNOHAND),
	E(515, ENOIOCTLCMD),
	E(516, ERESTART_RESTARTBLOCK),
	E(517, EPROBE_DEFER),
	E(518, EOPENSTALE),
	E(519, ENOPARAM),
	E(521, EBADHANDLE),
	E(522, ENOTSYNC),
	E(523, EBADCOOKIE),
	E(524, ENOTSUPP),
	E(525, ETOOSMALL),
	E(526, ESERVERFAULT),
	E(527, EBADTYPE),
	E(528, EJUKEBOX),
	E(529, EIOCBQUEUED),
	E(530, ERECALLCONFLICT),
#undef E
};

static const char *const signal_names[] = {
#define S(name) [name] = #name
	/* clang-format off */
	S(SIGHUP), S(SIGINT), S(SIGQUIT), S(SIGILL), S(SIGTRAP), S(SIGABRT), S(SIGBUS),
	S(SIGFPE), S(SIGKILL), S(SIGUSR1), S(SIGSEGV), S(SIGUSR2), S(SIGPIPE), S(SIGALRM),
	S(SIGTERM), S(SIGSTKFLT), S(SIGCHLD), S(SIGCONT), S(SIGSTOP), S(SIGTSTP), S(SIGTTIN),
	S(SIGTTOU), S(SIGURG), S(SIGXCPU), S(SIGXFSZ), S(SIGVTALRM), S(SIGPROF), S(SIGWINCH),
	S(SIGIO), S(SIGPWR), S(SIGSYS),
/* clang-format on */
#undef S
};

static const struct {
	const char *key, *off_cpu;
} states[] = {
	[ST_CPU] = { "cpu", NULL },
	[ST_BARRIER] = { "barrier", NULL },
	[ST_GPU_WAIT] = { "gpu_wait", NULL },
	[ST_GC] = { "gc", NULL },
	[ST_SYSCALL] = { "syscall", NULL },
	[ST_FAULT] = { "fault", NULL },
	[ST_IRQ] = { "irq", NULL },
	[ST_RUNNABLE] = { "runnable", "runnable" },
	[ST_BLOCKED_FUTEX] = { "blocked_futex", "blocked: futex" },
	[ST_BLOCKED_GIL] = { "blocked_gil", "blocked: gil" },
	[ST_BLOCKED_IO] = { "blocked_io", "blocked: io" },
	[ST_BLOCKED_NET] = { "blocked_net", "blocked: net" },
	[ST_BLOCKED_IPC] = { "blocked_ipc", "blocked: ipc" },
	[ST_BLOCKED_POLL] = { "blocked_poll", "blocked: poll" },
	[ST_BLOCKED_SLEEP] = { "blocked_sleep", "blocked: sleep" },
	[ST_BLOCKED_FAULT] = { "blocked_fault", "blocked: fault" },
	[ST_BLOCKED_GPU] = { "blocked_gpu", "blocked: gpu" },
	[ST_BLOCKED_OTHER] = { "blocked_other", "blocked: other" },
	[ST_STOPPED] = { "stopped", "stopped" },
};

_Static_assert(ARRAY_SIZE(states) == ST_MAX, "a time state has no name");

static const char *const rec_kinds[] = {
	[REC_SYSCALL] = "syscall",
	[REC_OFF_CPU] = "off_cpu",
	[REC_ON_CPU] = "on_cpu",
	[REC_FAULT] = "fault",
	[REC_FUNCTION] = "function",
	[REC_STEP] = "step",
	[REC_TASK] = "task",
	[REC_MAPPED] = "mapped",
	[REC_IRQ] = "irq",
	[REC_MEMORY] = "memory",
	[REC_REQUEST] = "request",
	[REC_HOLD] = "hold",
	[REC_PLACED] = "placed",
	[REC_SAMPLE] = "sample",
	[REC_STACK] = "stack",
	[REC_GPU] = "gpu",
	[REC_GPU_STEP] = "gpu_step",
	[REC_GPU_LOAD] = "gpu_load",
	[REC_NODE] = "node",
	[REC_MESSAGE] = "message",
	[REC_GAP] = "gap",
	[REC_SENT] = "sent",
	[REC_ANSWERED] = "answered",
	[REC_METRIC] = "metric",
};

_Static_assert(ARRAY_SIZE(rec_kinds) == REC_KIND_MAX, "a kind of record has no name");

static struct traits syscall_lookup(unsigned int nr)
{
	static const struct traits none = { SYS_OTHER, 0 };

	return nr < ARRAY_SIZE(syscall_traits) ? syscall_traits[nr] : none;
}

const char *syscall_name(unsigned int nr)
{
	return nr < ARRAY_SIZE(syscall_names) ? syscall_names[nr] : NULL;
}

const struct syscall_quoted *syscall_quoted(unsigned int nr)
{
	return nr < ARRAY_SIZE(quoted_names) && quoted_names[nr].len ? &quoted_names[nr] : NULL;
}

enum sys_class syscall_class(unsigned int nr)
{
	return syscall_lookup(nr).class;
}

bool syscall_has_fd(unsigned int nr)
{
	return syscall_lookup(nr).flags & ARG_FD;
}

bool syscall_ret_is_bytes(unsigned int nr)
{
	return syscall_lookup(nr).flags & BYTES;
}

enum transfer syscall_transfer(unsigned int nr)
{
	unsigned char flags = syscall_lookup(nr).flags;

	return flags & SENDS ? TRANSFER_SEND : flags & RECEIVES ? TRANSFER_RECEIVE : TRANSFER_NONE;
}

const char *errno_name(int err)
{
	if (err >= KERNEL_ERRNO_MIN && (size_t)err - KERNEL_ERRNO_MIN < ARRAY_SIZE(kernel_errno_names))
		return kernel_errno_names[err - KERNEL_ERRNO_MIN];
	return err > 0 ? strerrorname_np(err) : NULL;
}

const char *signal_name(int sig)
{
	return sig > 0 && (size_t)sig < ARRAY_SIZE(signal_names) ? signal_names[sig] : NULL;
}

const char *time_state_name(enum time_state state)
{
	return (unsigned int)state < ST_MAX ? states[state].key : "invalid";
}

const char *off_cpu_name(enum time_state state)
{
	if ((unsigned int)state < ST_MAX && states[state].off_cpu)
		return states[state].off_cpu;
	return time_state_name(state);
}

const char *hit_kind_name(enum hit_kind kind)
{
	static const char *const names[] = {
		[HIT_ENTRY] = "function",
		[HIT_STEPPED] = "function, single-stepped",
		[HIT_RETURN] = "return",
		[HIT_SYSCALL] = "system call, each way",
		[HIT_SWITCH] = "context switch",
		[HIT_WAKE] = "wake-up",
		[HIT_FAULT] = "fault",
		[HIT_FAULT_END] = "end of a fault",
		[HIT_WATCH] = "watchpoint",
		[HIT_HOOK] = "hook",
	};

	return (unsigned int)kind < HIT_MAX ? names[kind] : "invalid";
}

const char *rec_kind_name(enum rec_kind kind)
{
	return (unsigned int)kind < REC_KIND_MAX ? rec_kinds[kind] : "invalid";
}

static const struct {
	const char *name;
	const char *counters[PMU_MAX];
} sets[COUNTER_SETS] = {
	[COUNTERS_HARDWARE] = { "hardware",
		{ [COUNTER_INSTRUCTIONS] = "instructions", [COUNTER_CYCLES] = "cycles", [COUNTER_LLC_MISSES] = "llc_misses" } },
	[COUNTERS_SOFTWARE] = { "software", { "cpu_clock_ns", "page_faults" } },
};

const char *counter_name(enum counter_set set, unsigned int i)
{
	return set < COUNTER_SETS && i < PMU_MAX ? sets[set].counters[i] : NULL;
}

enum counter_set counter_set_parse(const char *text)
{
	for (enum counter_set set = COUNTERS_NONE + 1; set < COUNTER_SETS; set++) {
		if (!strcmp(text, sets[set].name))
			return set;
	}
	return COUNTERS_NONE;
}
