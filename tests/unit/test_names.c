/* SPDX-License-Identifier: BSD-2-Clause */
#include <signal.h>
#include <sys/syscall.h>

#include "unit.h"
#include "util/names.h"

TEST(test_syscall_name)
{
	static const struct {
		unsigned int nr;
		const char *name;
	} names[] = { { SYS_read, "read" }, { SYS_write, "write" }, { SYS_futex, "futex" }, { SYS_mmap, "mmap" },
		{ SYS_fcntl, "fcntl" }, { SYS_newfstatat, "newfstatat" }, { SYS_epoll_pwait2, "epoll_pwait2" },
		{ SYS_exit_group, "exit_group" }, { SYS_clone3, "clone3" } };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		assert_string_equal(syscall_name(names[i].nr), names[i].name);
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
	static const struct {
		enum sys_class class;
		unsigned int calls[5];
	} classes[] = {
		{ SYS_FUTEX, { SYS_futex, 449, 455 } },
		{ SYS_SLEEP, { SYS_nanosleep, SYS_clock_nanosleep } },
		{ SYS_POLL, { SYS_ppoll, SYS_epoll_pwait, SYS_io_uring_enter } },
		{ SYS_FD, { SYS_ioctl, SYS_accept4 } },
		{ SYS_IO, { SYS_openat, SYS_fsync, SYS_msync } },
		{ SYS_IPC, { SYS_semtimedop, SYS_mq_timedreceive } },
		{ SYS_MAP, { SYS_mmap } },
		{ SYS_OTHER, { SYS_wait4, SYS_getpid, UINT_MAX } },
#ifdef __x86_64__
		{ SYS_POLL, { SYS_poll, SYS_epoll_wait } },
		{ SYS_IO, { SYS_unlink } },
#endif
	};

	for (size_t i = 0; i < ARRAY_SIZE(classes); i++) {
		for (const unsigned int *call = classes[i].calls; call < classes[i].calls + 5 && *call; call++)
			assert_int_equal(syscall_class(*call), classes[i].class);
	}
	assert_int_equal(syscall_class(SYS_read), SYS_FD); /* 0 on x86 */
	/* the first argument's file can matter only if that is a descriptor */
	for (unsigned int nr = 0; nr < SYSCALL_MAX; nr++) {
		if (syscall_class(nr) == SYS_FD)
			assert_true(syscall_has_fd(nr));
		if (syscall_class(nr) != SYS_OTHER || syscall_has_fd(nr) ||
			syscall_ret_is_bytes(nr))
			assert_non_null(syscall_name(nr));
	}
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
	static const struct {
		int err;
		const char *name;
	} names[] = { { ENOENT, "ENOENT" }, { EAGAIN, "EAGAIN" }, { 512, "ERESTARTSYS" }, { 513, "ERESTARTNOINTR" },
		{ 514, "ERESTARTNOHAND" }, { 516, "ERESTART_RESTARTBLOCK" }, { 530, "ERECALLCONFLICT" } };
	static const int none[] = { 0, -ENOENT, INT_MIN, INT_MAX, 511, 520, 531 };
	const char *expect;
	int err;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		assert_string_equal(errno_name(names[i].err), names[i].name);
	for (size_t i = 0; i < ARRAY_SIZE(none); i++)
		assert_null(errno_name(none[i]));
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
	for (sig = 1; sig < 32; sig++) {
		expect = sigabbrev_np(sig);
		/* the C library calls it by its second name */
		snprintf(name, sizeof(name), "SIG%s", sig == SIGIO ? "IO" : expect);
		assert_string_equal(signal_name(sig), name);
	}
}

TEST(test_states)
{
	static const struct {
		enum time_state state;
		const char *key, *off_cpu;
	} names[] = { { ST_CPU, "cpu", NULL }, { ST_BARRIER, "barrier", NULL }, { ST_GPU_WAIT, "gpu_wait", "gpu_wait" },
		{ ST_RUNNABLE, "runnable", "runnable" }, { ST_BLOCKED_FUTEX, "blocked_futex", "blocked: futex" },
		{ ST_BLOCKED_GPU, "blocked_gpu", NULL }, { ST_STOPPED, "stopped", "stopped" },
		{ ST_BLOCKED_FAULT, NULL, "blocked: fault" } };
	int i, j;

	for (size_t k = 0; k < ARRAY_SIZE(names); k++) {
		if (names[k].key)
			assert_string_equal(time_state_name(names[k].state), names[k].key);
		if (names[k].off_cpu)
			assert_string_equal(off_cpu_name(names[k].state), names[k].off_cpu);
	}
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
	static const struct {
		enum rec_kind kind;
		const char *name;
	} names[] = { { REC_SYSCALL, "syscall" }, { REC_OFF_CPU, "off_cpu" }, { REC_ON_CPU, "on_cpu" },
		{ REC_FAULT, "fault" }, { REC_FUNCTION, "function" }, { REC_STEP, "step" }, { REC_TASK, "task" },
		{ REC_MAPPED, "mapped" }, { REC_IRQ, "irq" }, { REC_MEMORY, "memory" }, { REC_HOLD, "hold" },
		{ REC_PLACED, "placed" }, { REC_SAMPLE, "sample" }, { REC_STACK, "stack" }, { REC_GPU, "gpu" },
		{ REC_GPU_STEP, "gpu_step" }, { REC_MESSAGE, "message" }, { REC_GPU_LOAD, "gpu_load" },
		{ REC_NODE, "node" }, { REC_GAP, "gap" }, { REC_SENT, "sent" }, { REC_METRIC, "metric" },
		{ REC_ANSWERED, "answered" } };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		assert_string_equal(rec_kind_name(names[i].kind), names[i].name);
	for (int i = 0; i < REC_KIND_MAX; i++)
		assert_non_null(rec_kind_name(i));
	assert_string_equal(rec_kind_name(REC_KIND_MAX), "invalid");
}

RUN_TESTS(NULL, NULL)
