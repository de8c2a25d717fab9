// SPDX-License-Identifier: BSD-2-Clause
#include "util/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "util/alloc.h"

#ifdef __x86_64__
#define ARCH AUDIT_ARCH_X86_64
#define NR_OTHER_ABI 0x40000000 /* x32 from here on, with the same numbers */
#else
#define ARCH AUDIT_ARCH_AARCH64
#define NR_OTHER_ABI 0x7fffffff
#endif

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

#define LAST_CAP 63

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define RETURN(what) BPF_STMT(BPF_RET | BPF_K, (what))
#define REFUSE RETURN(SECCOMP_RET_ERRNO | EPERM)
#define ALLOW RETURN(SECCOMP_RET_ALLOW)
/* each skips `n` instructions on the condition in its name */
#define UNLESS_EQUAL(value, n) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), 0, (n))
#define IF_EQUAL(value, n) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), (n), 0)
#define IF_LESS(value, n) BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, (value), 0, (n))
#define IF_SET(bits, n) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, (bits), (n), 0)

static const struct sock_filter prologue[] = {
	LOAD(arch),
	IF_EQUAL(ARCH, 1),
	REFUSE,
	LOAD(nr),
	IF_LESS(NR_OTHER_ABI, 1),
	REFUSE,
};

int confine_capabilities(uint64_t keep)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &head, data))
		return -errno;
	/* the bounding set needs CAP_SETPCAP, so it goes first; without CAP_SETPCAP an exec cannot
	 * gain anything but the privileges of a file */
	for (int cap = 0; cap <= LAST_CAP; cap++) {
		if (!(keep & CONFINE_CAP(cap)) && prctl(PR_CAPBSET_READ, cap) == 1 &&
			prctl(PR_CAPBSET_DROP, cap) && errno != EPERM)
			return -errno;
	}
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0))
		return -errno;
	for (int i = 0; i < 2; i++) {
		data[i].permitted &= (uint32_t)(keep >> (32 * i));
		data[i].effective &= data[i].permitted;
		data[i].inheritable = 0;
	}
	return syscall(SYS_capset, &head, data) ? -errno : 0;
}

bool confine_has(uint64_t caps)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];

	return !syscall(SYS_capget, &head, data) &&
	       !(caps & ~(data[0].effective | (uint64_t)data[1].effective << 32));
}

/* Installs a filter: `hit` for the listed calls, then the instructions `more`, and `otherwise` for all calls that pass both. */
static int filter_calls(const int *calls, size_t n, struct sock_filter hit, const struct sock_filter *more, size_t n_more,
	struct sock_filter otherwise)
{
	size_t len = sizeof(prologue) / sizeof(prologue[0]);
	struct sock_filter *f = xcalloc(len + 2 * n + n_more + 1, sizeof(*f));
	struct sock_fprog prog = { .filter = f };
	int err = 0;

	memcpy(f, prologue, sizeof(prologue));
	for (size_t i = 0; i < n; i++) {
		f[len++] = (struct sock_filter)UNLESS_EQUAL((uint32_t)calls[i], 1);
		f[len++] = hit;
	}
	if (n_more)
		memcpy(f + len, more, n_more * sizeof(*f));
	len += n_more;
	f[len++] = otherwise;
	prog.len = (unsigned short)len;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		err = -errno;
	else if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &prog))
		err = -EBUSY;
	free(f);
	return err;
}

int confine_to_calls(const int *calls, size_t n)
{
	return filter_calls(calls, n, (struct sock_filter)ALLOW, NULL, 0, (struct sock_filter)REFUSE);
}

static const int not_for_recorders[] = {
	/* other programs */
	SYS_execve, SYS_execveat,
#ifdef SYS_fork
	SYS_fork, SYS_vfork,
#endif
	/* other processes */
	SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_kcmp, SYS_pidfd_getfd,
	SYS_process_madvise, SYS_move_pages, SYS_migrate_pages,
	/* another user, other namespaces */
	SYS_setuid, SYS_setgid, SYS_setreuid, SYS_setregid, SYS_setresuid, SYS_setresgid, SYS_setfsuid,
	SYS_setfsgid, SYS_setgroups, SYS_capset, SYS_setns, SYS_unshare, SYS_chroot, SYS_personality,
	/* mounts */
	SYS_mount, SYS_umount2, SYS_pivot_root, SYS_open_tree, SYS_move_mount, SYS_fsopen, SYS_fsconfig,
	SYS_fsmount, SYS_fspick, SYS_mount_setattr, SYS_swapon, SYS_swapoff, SYS_quotactl,
	/* the kernel and the machine */
	SYS_init_module, SYS_finit_module, SYS_delete_module, SYS_kexec_load, SYS_kexec_file_load,
	SYS_reboot, SYS_acct, SYS_syslog, SYS_sethostname, SYS_setdomainname, SYS_settimeofday,
	SYS_clock_settime, SYS_clock_adjtime, SYS_adjtimex, SYS_vhangup,
#ifdef SYS_iopl
	SYS_iopl, SYS_ioperm, SYS_modify_ldt,
#endif
	/* ways around the above, and calls that a recorder never needs */
	SYS_mknodat, SYS_open_by_handle_at, SYS_userfaultfd, SYS_io_uring_setup, SYS_io_uring_enter,
	SYS_io_uring_register, SYS_add_key, SYS_request_key, SYS_keyctl, SYS_nfsservctl,
#ifdef SYS_mknod
	SYS_mknod,
#endif
};

/* Threads are made by clone(2), whose flags a filter can see, unlike those of clone3(2), for which
 * the C library falls back to clone(2). Sockets only of this machine: the control socket. */
static const struct sock_filter arguments[] = {
	UNLESS_EQUAL(SYS_clone3, 1),
	RETURN(SECCOMP_RET_ERRNO | ENOSYS),
	UNLESS_EQUAL(SYS_clone, 4),
	LOAD(args[0]),
	IF_SET(CLONE_THREAD, 1),
	REFUSE,
	ALLOW,
#define SOCKET_RULES 5 /* the rest */
	UNLESS_EQUAL(SYS_socket, 4),
	LOAD(args[0]),
	IF_EQUAL(AF_UNIX, 1),
	REFUSE,
	ALLOW,
};
#define ARGUMENTS (sizeof(arguments) / sizeof(arguments[0]))

static int confine_by(size_t n_arguments)
{
	return filter_calls(not_for_recorders, sizeof(not_for_recorders) / sizeof(not_for_recorders[0]),
		(struct sock_filter)REFUSE, arguments, n_arguments, (struct sock_filter)ALLOW);
}

int confine_recorder(void)
{
	return confine_by(ARGUMENTS);
}

int confine_client(void)
{
	return confine_by(ARGUMENTS - SOCKET_RULES);
}

void confine_limit(int resource, uint64_t max)
{
	struct rlimit rl = { max, max };

	setrlimit((__rlimit_resource_t)resource, &rl);
}

bool confine_is_full(void)
{
	return !SANITIZED;
}

int confine_reader(int fd, const char *name)
{
	sigset_t all;
	int err;

	/* Ctrl-C is for the recorder; this process ends when the recorder does. */
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, name);
	prctl(PR_SET_DUMPABLE, 0);
	sigfillset(&all);
	sigdelset(&all, SIGALRM);
	sigprocmask(SIG_SETMASK, &all, NULL);
	signal(SIGALRM, SIG_DFL);
	confine_limit(RLIMIT_CORE, 0);
	confine_limit(RLIMIT_FSIZE, 0);
	fd = confine_to_descriptor(fd, SANITIZED);
	if (fd < 0)
		return fd;
	err = confine_capabilities(0);
	return err ? err : fd;
}

void confine_time(unsigned int ms)
{
	const struct itimerval until = { .it_value = { .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 } };

	setitimer(ITIMER_REAL, &until, NULL);
}

int confine_to_descriptor(int fd, bool with_stderr)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0 || fd < 3 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || (!with_stderr && dup2(null, 2) < 0))
		return -EIO;
	if (dup2(fd, 3) < 0)
		return -errno;
	return syscall(SYS_close_range, 4, ~0U, 0) ? -errno : 3;
}
