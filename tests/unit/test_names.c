/* SPDX-License-Identifier: BSD-2-Clause */
#include <signal.h>
#include <sys/syscall.h>

#include "unit.h"
#include "util/names.h"

TEST(test_syscall_name)
{
	assert_string_equal(syscall_name(SYS_read), "read");
	assert_string_equal(syscall_name(SYS_write), "write");
	assert_string_equal(syscall_name(SYS_futex), "futex");
	assert_string_equal(syscall_name(SYS_mmap), "mmap");
	assert_string_equal(syscall_name(SYS_fcntl), "fcntl");
	assert_string_equal(syscall_name(SYS_newfstatat), "newfstatat");
	assert_string_equal(syscall_name(SYS_epoll_pwait2), "epoll_pwait2");
	assert_string_equal(syscall_name(SYS_exit_group), "exit_group");
	assert_string_equal(syscall_name(SYS_clone3), "clone3");
	assert_null(syscall_name(SYSCALL_MAX));
	assert_null(syscall_name(UINT_MAX));
}

/* Newer than the headers that may be installed; one number on every architecture. */
TEST(test_syscall_name_new)
{
	static const char *const names[] = { "cachestat", "fchmodat2", "map_shadow_stack",
		"futex_wake", "futex_wait", "futex_requeue", "statmount", "listmount",
		"lsm_get_self_attr", "lsm_set_self_attr", "lsm_list_modules", "mseal", "setxattrat",
		"getxattrat", "listxattrat", "removexattrat", "open_tree_attr", "file_getattr",
		"file_setattr" };
	unsigned int i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		assert_string_equal(syscall_name(451 + i), names[i]);
#ifdef __x86_64__
	assert_string_equal(syscall_name(335), "uretprobe");
	assert_string_equal(syscall_name(336), "uprobe");
	assert_null(syscall_name(337)); /* 337 to 423 are not in use on x86 */
	assert_null(syscall_name(423));
#endif
}

TEST(test_syscall_names_differ)
{
	unsigned int i, j, n = 0;

	for (i = 0; i < SYSCALL_MAX; i++) {
		if (!syscall_name(i))
			continue;
		n++;
		for (j = 0; j < i; j++) {
			if (syscall_name(j))
				assert_string_not_equal(syscall_name(i), syscall_name(j));
		}
	}
	assert_true(n > 300);
}

TEST(test_syscall_class)
{
	unsigned int nr;

	assert_int_equal(syscall_class(SYS_futex), SYS_FUTEX);
	assert_int_equal(syscall_class(449), SYS_FUTEX); /* futex_waitv */
	assert_int_equal(syscall_class(455), SYS_FUTEX); /* futex_wait */
	assert_int_equal(syscall_class(SYS_nanosleep), SYS_SLEEP);
	assert_int_equal(syscall_class(SYS_clock_nanosleep), SYS_SLEEP);
	assert_int_equal(syscall_class(SYS_ppoll), SYS_POLL);
	assert_int_equal(syscall_class(SYS_epoll_pwait), SYS_POLL);
	assert_int_equal(syscall_class(SYS_io_uring_enter), SYS_POLL);
	assert_int_equal(syscall_class(SYS_read), SYS_FD);
	assert_int_equal(syscall_class(SYS_ioctl), SYS_FD);
	assert_int_equal(syscall_class(SYS_accept4), SYS_FD);
	assert_int_equal(syscall_class(SYS_openat), SYS_IO);
	assert_int_equal(syscall_class(SYS_fsync), SYS_IO);
	assert_int_equal(syscall_class(SYS_msync), SYS_IO);
	assert_int_equal(syscall_class(SYS_semtimedop), SYS_IPC);
	assert_int_equal(syscall_class(SYS_mq_timedreceive), SYS_IPC);
	assert_int_equal(syscall_class(SYS_mmap), SYS_MAP);
	assert_int_equal(syscall_class(SYS_wait4), SYS_OTHER);
	assert_int_equal(syscall_class(SYS_getpid), SYS_OTHER);
	assert_int_equal(syscall_class(UINT_MAX), SYS_OTHER);
	/* the file behind the first argument can decide only if that is a descriptor */
	for (nr = 0; nr < SYSCALL_MAX; nr++) {
		if (syscall_class(nr) == SYS_FD)
			assert_true(syscall_has_fd(nr));
		if (syscall_class(nr) != SYS_OTHER || syscall_has_fd(nr) ||
			syscall_ret_is_bytes(nr))
			assert_non_null(syscall_name(nr));
	}
#ifdef __x86_64__
	assert_int_equal(syscall_class(SYS_poll), SYS_POLL);
	assert_int_equal(syscall_class(SYS_epoll_wait), SYS_POLL);
	assert_int_equal(syscall_class(SYS_unlink), SYS_IO);
#endif
}

TEST(test_syscall_args)
{
	assert_true(syscall_has_fd(SYS_read));
	assert_true(syscall_has_fd(SYS_epoll_pwait));
	assert_true(syscall_has_fd(SYS_mq_timedsend));
	assert_false(syscall_has_fd(SYS_openat));
	assert_false(syscall_has_fd(SYS_mmap));
	assert_false(syscall_has_fd(SYS_futex));
	assert_false(syscall_has_fd(UINT_MAX));
	assert_true(syscall_ret_is_bytes(SYS_pwritev2));
	assert_true(syscall_ret_is_bytes(SYS_recvmsg));
	assert_false(syscall_ret_is_bytes(SYS_recvmmsg));
	assert_false(syscall_ret_is_bytes(SYS_openat));
	assert_false(syscall_ret_is_bytes(SYS_ppoll));
	assert_false(syscall_ret_is_bytes(UINT_MAX));
	assert_int_equal(syscall_transfer(SYS_write), TRANSFER_SEND);
	assert_int_equal(syscall_transfer(SYS_vmsplice), TRANSFER_SEND);
	assert_int_equal(syscall_transfer(SYS_recvmmsg), TRANSFER_RECEIVE);
	assert_int_equal(syscall_transfer(SYS_pread64), TRANSFER_NONE);
	assert_int_equal(syscall_transfer(SYS_futex), TRANSFER_NONE);
	assert_int_equal(syscall_transfer(UINT_MAX), TRANSFER_NONE);
}

TEST(test_errno_name)
{
	const char *expect;
	int err;

	assert_string_equal(errno_name(ENOENT), "ENOENT");
	assert_string_equal(errno_name(EAGAIN), "EAGAIN");
	assert_string_equal(errno_name(512), "ERESTARTSYS");
	assert_string_equal(errno_name(513), "ERESTARTNOINTR");
	assert_string_equal(errno_name(514), "ERESTARTNOHAND");
	assert_string_equal(errno_name(516), "ERESTART_RESTARTBLOCK");
	assert_string_equal(errno_name(530), "ERECALLCONFLICT");
	assert_null(errno_name(0));
	assert_null(errno_name(-ENOENT));
	assert_null(errno_name(INT_MIN));
	assert_null(errno_name(INT_MAX));
	assert_null(errno_name(511));
	assert_null(errno_name(520));
	assert_null(errno_name(531));
#if __GLIBC_PREREQ(2, 32)
	for (err = 1; err < 512; err++) {
		expect = strerrorname_np(err);
		/* the C library calls it by its second name */
		if (err == EOPNOTSUPP)
			expect = "EOPNOTSUPP";
		if (expect)
			assert_string_equal(errno_name(err), expect);
		else
			assert_null(errno_name(err));
	}
#else
	(void)expect;
	(void)err;
	print_message("not compared with strerrorname_np(): it came with glibc 2.32\n");
#endif
}

TEST(test_signal_name)
{
	const char *expect;
	char name[32];
	int sig;

	assert_string_equal(signal_name(SIGKILL), "SIGKILL");
	assert_string_equal(signal_name(SIGCHLD), "SIGCHLD");
	assert_null(signal_name(0));
	assert_null(signal_name(-1));
	assert_null(signal_name(32));
	assert_null(signal_name(INT_MAX));
#if __GLIBC_PREREQ(2, 32)
	for (sig = 1; sig < 32; sig++) {
		expect = sigabbrev_np(sig);
		/* the C library calls it by its second name */
		snprintf(name, sizeof(name), "SIG%s", sig == SIGIO ? "IO" : expect);
		assert_string_equal(signal_name(sig), name);
	}
#else
	(void)expect;
	(void)name;
	(void)sig;
	print_message("not compared with sigabbrev_np(): it came with glibc 2.32\n");
#endif
}

TEST(test_states)
{
	int i, j;

	assert_string_equal(time_state_name(ST_CPU), "cpu");
	assert_string_equal(time_state_name(ST_BARRIER), "barrier");
	assert_string_equal(time_state_name(ST_GPU_WAIT), "gpu_wait");
	assert_string_equal(time_state_name(ST_RUNNABLE), "runnable");
	assert_string_equal(time_state_name(ST_BLOCKED_FUTEX), "blocked_futex");
	assert_string_equal(time_state_name(ST_BLOCKED_GPU), "blocked_gpu");
	assert_string_equal(time_state_name(ST_STOPPED), "stopped");
	assert_string_equal(off_cpu_name(ST_BLOCKED_FUTEX), "blocked: futex");
	assert_string_equal(off_cpu_name(ST_BLOCKED_FAULT), "blocked: fault");
	assert_string_equal(off_cpu_name(ST_RUNNABLE), "runnable");
	assert_string_equal(off_cpu_name(ST_STOPPED), "stopped");
	assert_string_equal(off_cpu_name(ST_GPU_WAIT), "gpu_wait");
	for (i = 0; i < ST_MAX; i++) {
		assert_non_null(off_cpu_name(i));
		for (j = 0; j < i; j++)
			assert_string_not_equal(time_state_name(i), time_state_name(j));
		/* "blocked_io" in the profile is "blocked: io" in the trace */
		if (i >= ST_BLOCKED_FUTEX && i <= ST_BLOCKED_OTHER) {
			assert_memory_equal(time_state_name(i), "blocked_", 8);
			assert_memory_equal(off_cpu_name(i), "blocked: ", 9);
			assert_string_equal(time_state_name(i) + 8, off_cpu_name(i) + 9);
		}
	}
	assert_string_equal(time_state_name(ST_MAX), "invalid");
	assert_string_equal(off_cpu_name((enum time_state) - 1), "invalid");
}

TEST(test_rec_kinds)
{
	int i;

	assert_string_equal(rec_kind_name(REC_SYSCALL), "syscall");
	assert_string_equal(rec_kind_name(REC_OFF_CPU), "off_cpu");
	assert_string_equal(rec_kind_name(REC_ON_CPU), "on_cpu");
	assert_string_equal(rec_kind_name(REC_FAULT), "fault");
	assert_string_equal(rec_kind_name(REC_FUNCTION), "function");
	assert_string_equal(rec_kind_name(REC_STEP), "step");
	assert_string_equal(rec_kind_name(REC_TASK), "task");
	assert_string_equal(rec_kind_name(REC_MAPPED), "mapped");
	assert_string_equal(rec_kind_name(REC_IRQ), "irq");
	assert_string_equal(rec_kind_name(REC_MEMORY), "memory");
	assert_string_equal(rec_kind_name(REC_HOLD), "hold");
	assert_string_equal(rec_kind_name(REC_PLACED), "placed");
	assert_string_equal(rec_kind_name(REC_SAMPLE), "sample");
	assert_string_equal(rec_kind_name(REC_STACK), "stack");
	assert_string_equal(rec_kind_name(REC_GPU), "gpu");
	assert_string_equal(rec_kind_name(REC_GPU_STEP), "gpu_step");
	assert_string_equal(rec_kind_name(REC_MESSAGE), "message");
	assert_string_equal(rec_kind_name(REC_GPU_LOAD), "gpu_load");
	assert_string_equal(rec_kind_name(REC_NODE), "node");
	for (i = 0; i < REC_KIND_MAX; i++)
		assert_non_null(rec_kind_name(i));
	assert_string_equal(rec_kind_name(REC_KIND_MAX), "invalid");
}

RUN_TESTS(NULL, NULL)
