// SPDX-License-Identifier: BSD-2-Clause
#include "capture/features.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "capture/links.h"
#include "target/process.h"

#define VMLINUX_BTF "/sys/kernel/btf/vmlinux"
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* Shared by the tests of one run. */
struct prober {
	bool fast_only;
	struct btf *btf; /* the kernel's; NULL until its first use */
	int btf_err;
};

/* ---- tiny programs ---- */

#define INSN(c, d, s, o, i) \
	((struct bpf_insn){ .code = (c), .dst_reg = (d), .src_reg = (s), .off = (o), .imm = (i) })
#define MOV_IMM(d, i) INSN(BPF_ALU64 | BPF_MOV | BPF_K, d, 0, 0, i)
#define MOV_REG(d, s) INSN(BPF_ALU64 | BPF_MOV | BPF_X, d, s, 0, 0)
#define CALL(helper) INSN(BPF_JMP | BPF_CALL, 0, 0, 0, helper)
#define EXIT() INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0)
#define LOAD_MAP(d, fd) \
	INSN(BPF_LD | BPF_DW | BPF_IMM, d, BPF_PSEUDO_MAP_FD, 0, fd), INSN(0, 0, 0, 0, 0)

static const struct bpf_insn empty[] = { MOV_IMM(BPF_REG_0, 0), EXIT() };

/* Closes what a test has opened. Returns `result` if it is an error, else 0, also for a descriptor. */
static int test_close_fds(const int *fds, size_t n, int result)
{
	for (size_t i = 0; i < n; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	return result < 0 ? result : 0;
}

/* Returns a file descriptor or -errno, as do the libbpf calls below. */
static int test_load_program(enum bpf_prog_type type, const struct bpf_insn *insns, size_t n, const struct bpf_prog_load_opts *opts)
{
	return bpf_prog_load(type, "inftrace_probe", "Dual BSD/GPL", insns, n, opts);
}

/* Loads an empty program of a kind that is bound to something in the kernel's BTF. */
static int load_tracing(struct prober *p, const char *btf_name, uint32_t btf_kind, enum bpf_attach_type attach_type)
{
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = attach_type);
	int id;

	if (!p->btf && !p->btf_err) {
		p->btf = btf__load_vmlinux_btf();
		p->btf_err = p->btf ? 0 : -errno;
	}
	if (!p->btf)
		return p->btf_err;
	id = btf__find_by_name_kind(p->btf, btf_name, btf_kind);
	if (id < 0)
		return id;
	opts.attach_btf_id = (uint32_t)id;
	return test_load_program(BPF_PROG_TYPE_TRACING, empty, ARRAY_SIZE(empty), &opts);
}

/*
 * ---- one function per kind of feature: 0 or -errno ----
 *
 * libbpf_probe_bpf_map_type() and libbpf_probe_bpf_helper() are no help: without privileges they say "no" and "yes",
 * where the remedy depends on -EPERM. And a map type says less than a program that uses the map.
 */

static int try_btf(struct prober *p, const char *path)
{
	return access(path, R_OK) ? -errno : 0;
}

static int try_ring_buffer(struct prober *p, const char *arg)
{
	int fd = bpf_map_create(BPF_MAP_TYPE_RINGBUF, "inftrace_probe", 0, 0, (uint32_t)sysconf(_SC_PAGESIZE), NULL);

	return test_close_fds(&fd, 1, fd);
}

static int try_program(const struct bpf_insn *insns, size_t n)
{
	int fd = test_load_program(BPF_PROG_TYPE_KPROBE, insns, n, NULL);

	return test_close_fds(&fd, 1, fd);
}

/* Time keeping is built on compare-and-exchange. */
static int try_atomics(struct prober *p, const char *arg)
{
	const struct bpf_insn insns[] = {
		MOV_IMM(BPF_REG_0, 0),
		INSN(BPF_STX | BPF_DW | BPF_MEM, BPF_REG_10, BPF_REG_0, -8, 0),
		INSN(BPF_STX | BPF_DW | BPF_ATOMIC, BPF_REG_10, BPF_REG_0, -8, BPF_CMPXCHG),
		MOV_IMM(BPF_REG_0, 0),
		EXIT(),
	};

	return try_program(insns, ARRAY_SIZE(insns));
}

/* A map for task storage must describe its types: an int as the key, an unsigned long as the value. */
static int load_storage_btf(void)
{
	struct btf *btf = btf__new_empty();
	const void *raw;
	uint32_t size;
	int fd;

	btf__add_int(btf, "int", 4, BTF_INT_SIGNED);
	btf__add_int(btf, "long", 8, 0);
	raw = btf__raw_data(btf, &size);
	fd = bpf_btf_load(raw, size, NULL);
	btf__free(btf);
	return fd;
}

/* Loads a program that uses the map, since the map alone appeared two releases earlier. */
static int try_task_storage(struct prober *p, const char *arg)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = BPF_F_NO_PREALLOC, .btf_key_type_id = 1,
		.btf_value_type_id = 2);
	int fds[3] = { -1, -1, -1 }, err;

	err = fds[0] = load_storage_btf();
	opts.btf_fd = (uint32_t)fds[0];
	if (err >= 0)
		err = fds[1] = bpf_map_create(BPF_MAP_TYPE_TASK_STORAGE, "inftrace_probe", 4, 8, 0, &opts);
	const struct bpf_insn insns[] = {
		CALL(BPF_FUNC_get_current_task_btf),
		MOV_REG(BPF_REG_2, BPF_REG_0),
		LOAD_MAP(BPF_REG_1, fds[1]),
		MOV_IMM(BPF_REG_3, 0),
		MOV_IMM(BPF_REG_4, BPF_LOCAL_STORAGE_GET_F_CREATE),
		CALL(BPF_FUNC_task_storage_get),
		MOV_IMM(BPF_REG_0, 0),
		EXIT(),
	};
	if (err >= 0)
		err = fds[2] = test_load_program(BPF_PROG_TYPE_KPROBE, insns, ARRAY_SIZE(insns), NULL);
	return test_close_fds(fds, ARRAY_SIZE(fds), err);
}

static int try_attach_cookie(struct prober *p, const char *arg)
{
	const struct bpf_insn insns[] = {
		CALL(BPF_FUNC_get_attach_cookie),
		MOV_IMM(BPF_REG_0, 0),
		EXIT(),
	};

	return try_program(insns, ARRAY_SIZE(insns));
}

/*
 * The kernel's answer to a link on "/", which it must refuse: -EBADF if it knows uprobe_multi and
 * gets to check the file. A pid of -1 is refused before that with -EINVAL if the pid is compared
 * with processes; older kernels compare it with threads (fixed in 6.10 and backported). Both tests
 * are libbpf's own, from its probe_uprobe_multi_link().
 */
static int uprobe_multi_error(pid_t pid)
{
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = ATTACH_UPROBE_MULTI);
	int fds[3] = { -1, -1, open("/", O_PATH | O_CLOEXEC) }, err;

	err = fds[0] = test_load_program(BPF_PROG_TYPE_KPROBE, empty, ARRAY_SIZE(empty), &opts);
	if (err >= 0)
		err = fds[1] = links_create_multi_at(fds[0], false, fds[2], 0, pid);
	return test_close_fds(fds, ARRAY_SIZE(fds), err);
}

static int try_uprobe_multi(struct prober *p, const char *arg)
{
	int err = uprobe_multi_error(0);

	if (err == -EBADF)
		return 0;
	return err == -EPERM ? err : -EOPNOTSUPP;
}

/* The function that is probed in our own process. */
static __attribute__((noinline)) void *probed(void *arg)
{
	__asm__ volatile(""
			 : "+r"(arg));
	return arg;
}

struct feature_place {
	uint64_t addr, offset;
};

static int find_file_offset(const struct mapped_file *m, void *arg)
{
	struct feature_place *p = arg;

	if (p->addr < m->start || p->addr >= m->end)
		return 0;
	p->offset = p->addr - m->start + m->offset;
	return 1;
}

uint64_t own_offset(uint64_t addr)
{
	struct feature_place p = { .addr = addr };

	process_each_mapped(getpid(), find_file_offset, &p);
	return p.offset;
}

/* A program that adds one to the first entry of a map. */
static int load_counter(int map)
{
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = ATTACH_UPROBE_MULTI);
	const struct bpf_insn insns[] = {
		INSN(BPF_ST | BPF_W | BPF_MEM, BPF_REG_10, 0, -4, 0),
		MOV_REG(BPF_REG_2, BPF_REG_10),
		INSN(BPF_ALU64 | BPF_ADD | BPF_K, BPF_REG_2, 0, 0, -4),
		LOAD_MAP(BPF_REG_1, map),
		CALL(BPF_FUNC_map_lookup_elem),
		INSN(BPF_JMP | BPF_JEQ | BPF_K, BPF_REG_0, 0, 2, 0),
		MOV_IMM(BPF_REG_1, 1),
		INSN(BPF_STX | BPF_DW | BPF_ATOMIC, BPF_REG_0, BPF_REG_1, 0, BPF_ADD),
		MOV_IMM(BPF_REG_0, 0),
		EXIT(),
	};

	return test_load_program(BPF_PROG_TYPE_KPROBE, insns, ARRAY_SIZE(insns), &opts);
}

/* Tests whether a link for our process sees a call from a thread other than the main one. */
static int count_in_thread(void)
{
	uint64_t offset = own_offset((uintptr_t)probed), count = 0;
	int fds[3] = { -1, -1, -1 }, err;
	uint32_t zero = 0;
	pthread_t thread;

	if (!offset)
		return -ENOENT;
	err = fds[0] = bpf_map_create(BPF_MAP_TYPE_ARRAY, "inftrace_probe", 4, 8, 1, NULL);
	if (err >= 0)
		err = fds[1] = load_counter(fds[0]);
	if (err >= 0)
		err = fds[2] = links_create_own(fds[1], false, offset);
	if (err >= 0)
		err = -pthread_create(&thread, NULL, probed, NULL);
	if (!err) {
		pthread_join(thread, NULL);
		err = bpf_map_lookup_elem(fds[0], &zero, &count) ? -errno : count == 1 ? 0
										       : -EOPNOTSUPP;
	}
	return test_close_fds(fds, ARRAY_SIZE(fds), err);
}

#ifdef __x86_64__

/* Runs a 5-byte nop as a leaf function may, with a value below the stack pointer. Returns whether the value survived. */
static __attribute__((noinline)) bool pass_nop5(uint64_t *ret_addr)
{
	uint64_t kept;

	/* the compiler's own data is in the red zone, the 128 bytes below the stack pointer */
	__asm__ volatile("lea	-256(%%rsp), %%rsp\n"
			 "	movq	$1, -8(%%rsp)\n"
			 "	.balign	8\n"
			 "1:	.byte	0x0f, 0x1f, 0x44, 0, 0\n"
			 "	movq	-8(%%rsp), %0\n"
			 "	lea	256(%%rsp), %%rsp\n"
			 "	lea	1b(%%rip), %1"
			 : "=&r"(kept), "=&r"(*ret_addr)
			 :
			 : "memory", "cc");
	return kept == 1;
}

/* Detaching takes 20 ms and more: a grandchild does it as it exits, so nobody has to wait for it or reap it. */
static _Noreturn void answer_nop5(int prog, uint64_t offset, int to)
{
	int link, err;
	uint64_t addr;

	if (fork())
		_exit(0);
	link = links_create_own(prog, false, offset);
	err = link < 0 ? link : 0;
	for (int i = 0; i < 4 && !err; i++) /* the kernel replaces a nop once its breakpoint has been hit */
		err = pass_nop5(&addr) ? 0 : -EFAULT;
	_exit(write(to, &err, sizeof(err)) != sizeof(err));
}

int features_nop5(void)
{
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = ATTACH_UPROBE_MULTI);
	int fds[3] = { -1, -1, -1 }, err = try_uprobe_multi(NULL, NULL), answer;
	uint64_t addr;
	pid_t pid;

	if (err)
		return err == -EOPNOTSUPP ? 0 : err; /* older than the kernels with the bug */
	pass_nop5(&addr);
	err = fds[0] = test_load_program(BPF_PROG_TYPE_KPROBE, empty, ARRAY_SIZE(empty), &opts);
	if (err < 0)
		return err;
	if (pipe2(fds + 1, O_CLOEXEC) || (pid = fork()) < 0) {
		err = -errno;
		goto out;
	}
	if (!pid)
		answer_nop5(fds[0], own_offset(addr), fds[2]);
	waitpid(pid, NULL, 0);
	close(fds[2]);
	fds[2] = -1;
	/* no answer: the child did not survive */
	err = read(fds[1], &answer, sizeof(answer)) == sizeof(answer) ? answer : -EFAULT;
out:
	return test_close_fds(fds, ARRAY_SIZE(fds), err);
}

static int try_nop5(struct prober *p, const char *arg)
{
	return features_nop5();
}

#else

int features_nop5(void)
{
	return 0;
}

#endif

/* Tests the kernel's answer and, unless fast_only, its behaviour. */
static int try_uprobe_multi_pid(struct prober *p, const char *arg)
{
	int err = try_uprobe_multi(p, arg);

	if (err)
		return err;
	if (uprobe_multi_error(-1) != -EINVAL)
		return -EOPNOTSUPP;
	return p->fast_only ? 0 : count_in_thread();
}

static int open_event(struct perf_event_attr *attr)
{
	int fd = (int)syscall(SYS_perf_event_open, attr, -1, sched_getcpu(), -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* Some virtual machines have debug registers in which a watchpoint can be set and never fires. */
static int try_watchpoint(struct prober *p, const char *arg)
{
	static volatile uint64_t word;
	int fd = watchpoint_open(0, (uintptr_t)&word, HW_BREAKPOINT_RW, HW_BREAKPOINT_LEN_1), err = 0;
	uint64_t hits = 0;

	if (fd >= 0 && !ioctl(fd, PERF_EVENT_IOC_ENABLE, 0)) {
		word++;
		if (read(fd, &hits, sizeof(hits)) == sizeof(hits) && !hits)
			err = -ENODEV;
	}
	return test_close_fds(&fd, 1, fd < 0 ? fd : err);
}

/*
 * As above, opens a probe on "/", which fails with -EINVAL if all else is fine. -EACCES: since 6.16, and
 * in the stable releases of mid-2025, CAP_PERFMON is no longer enough for it (commit ba677dbe77af,
 * "perf: Revert to requiring CAP_SYS_ADMIN for uprobes"). uprobe_multi has no such check.
 */
static int try_uprobe(struct prober *p, const char *type_file)
{
	struct perf_event_attr attr = { .size = sizeof(attr), .config1 = (uintptr_t) "/" };
	FILE *f = fopen(type_file, "re");
	int got, fd, err;

	if (!f)
		return -errno;
	got = fscanf(f, "%" SCNu32, &attr.type);
	fclose(f);
	if (got != 1)
		return -ENXIO;
	fd = open_event(&attr);
	err = test_close_fds(&fd, 1, fd);
	return err == -EINVAL ? 0 : err;
}

/* Opens the event with a program attached. */
static int try_event(struct perf_event_attr *attr)
{
	int fds[3] = { -1, -1, -1 }, err;

	attr->size = sizeof(*attr);
	err = fds[0] = test_load_program(BPF_PROG_TYPE_PERF_EVENT, empty, ARRAY_SIZE(empty), NULL);
	if (err >= 0)
		err = fds[1] = open_event(attr);
	if (err >= 0)
		err = fds[2] = bpf_link_create(fds[0], fds[1], BPF_PERF_EVENT, NULL);
	return test_close_fds(fds, ARRAY_SIZE(fds), err);
}

static int try_faults(struct prober *p, const char *kind)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.config = strcmp(kind, "major") ? PERF_COUNT_SW_PAGE_FAULTS_MIN
						: PERF_COUNT_SW_PAGE_FAULTS_MAJ,
		.sample_period = 1,
	};

	return try_event(&attr);
}

static int try_cpu_clock(struct prober *p, const char *arg)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.freq = 1,
		.sample_freq = 99 };

	return try_event(&attr);
}

/* Virtual machines often have none. */
static int try_cycles(struct prober *p, const char *arg)
{
	struct perf_event_attr attr = { .size = sizeof(attr),
		.type = PERF_TYPE_HARDWARE,
		.config = PERF_COUNT_HW_CPU_CYCLES };
	int fd = open_event(&attr);

	return test_close_fds(&fd, 1, fd);
}

static int try_tracing(struct prober *p, const char *btf_name, uint32_t btf_kind, enum bpf_attach_type attach_type)
{
	int fds[2] = { -1, -1 }, err;

	err = fds[0] = load_tracing(p, btf_name, btf_kind, attach_type);
	if (err >= 0)
		err = fds[1] = bpf_raw_tracepoint_open(NULL, fds[0]);
	return test_close_fds(fds, ARRAY_SIZE(fds), err);
}

static int try_tracepoint(struct prober *p, const char *name)
{
	char typedef_name[64];

	snprintf(typedef_name, sizeof(typedef_name), "btf_trace_%s", name);
	return try_tracing(p, typedef_name, BTF_KIND_TYPEDEF, BPF_TRACE_RAW_TP);
}

static int try_return(struct prober *p, const char *function)
{
	return try_tracing(p, function, BTF_KIND_FUNC, BPF_TRACE_FEXIT);
}

static int try_iterator(struct prober *p, const char *btf_name)
{
	int fds[3] = { -1, -1, -1 }, err;

	err = fds[0] = load_tracing(p, btf_name, BTF_KIND_FUNC, BPF_TRACE_ITER);
	if (err >= 0)
		err = fds[1] = bpf_link_create(fds[0], 0, BPF_TRACE_ITER, NULL);
	if (err >= 0)
		err = fds[2] = bpf_iter_create(fds[1]);
	return test_close_fds(fds, ARRAY_SIZE(fds), err);
}

/* ---- the tables ---- */

#define FEATURE(desc, release, func, what) .name = desc, .since = release, .try = func, .arg = what
#define FAST(desc, release, func, what) FEATURE(desc, release, func, what), .fast = true
#define TRACEPOINT(tp) FEATURE("tracepoint " tp, "5.5", try_tracepoint, tp)

const struct feature_desc feature_descs[FEATURE_MAX] = {
	[FEATURE_BTF] = { FAST("BTF of the kernel", "5.4", try_btf, VMLINUX_BTF) },
	[FEATURE_RING_BUFFER] = { FAST("ring buffer", "5.8", try_ring_buffer, NULL) },
	[FEATURE_ATOMICS] = { FAST("atomic operations", "5.12", try_atomics, NULL) },
	[FEATURE_TASK_STORAGE] = { FAST("task storage", "5.12", try_task_storage, NULL) },
	[FEATURE_ATTACH_COOKIE] = { FAST("attach cookie", "5.15", try_attach_cookie, NULL) },
	[FEATURE_UPROBE_MULTI] = { FAST("uprobe_multi", "6.6", try_uprobe_multi, NULL),
		.loss = "function probes attach and detach one by one, which takes longer" },
	[FEATURE_UPROBE_MULTI_PID] = { FAST("uprobe_multi by process", "6.10", try_uprobe_multi_pid, NULL),
		.loss = "probes cost other processes that call the functions too: 1 us a call" },
	[FEATURE_WATCHPOINTS] = { FAST("hardware watchpoints", "5.13", try_watchpoint, NULL),
		.loss = "steps of Python programs keep probes at all Python functions: 2 us a call" },
	[FEATURE_UPROBE] = { FAST("uprobe", "4.17", try_uprobe, "/sys/bus/event_source/devices/uprobe/type"), .instead = FEATURE_UPROBE_MULTI },
#ifdef __x86_64__
	[FEATURE_NOP5] = { FEATURE("uprobe on a 5-byte nop", "3.5", try_nop5, NULL), .loss = "USDT probes there are left out" },
#endif
	[FEATURE_TASK_ITER] = { FEATURE("task iterator", "5.8", try_iterator, "bpf_iter_task") },
	[FEATURE_SCHED_SWITCH] = { TRACEPOINT("sched_switch") },
	[FEATURE_SCHED_WAKING] = { TRACEPOINT("sched_waking") },
	[FEATURE_SCHED_FORK] = { TRACEPOINT("sched_process_fork") },
	[FEATURE_SCHED_EXEC] = { TRACEPOINT("sched_process_exec") },
	[FEATURE_SCHED_EXIT] = { TRACEPOINT("sched_process_exit") },
	[FEATURE_SCHED_MIGRATE] = { TRACEPOINT("sched_migrate_task"),
		.loss = "migrations are not counted" },
	[FEATURE_TASK_RENAME] = { TRACEPOINT("task_rename") },
	[FEATURE_SYS_ENTER] = { TRACEPOINT("sys_enter") },
	[FEATURE_SYS_EXIT] = { TRACEPOINT("sys_exit") },
	[FEATURE_PAGE_FAULT_USER] = { TRACEPOINT("page_fault_user"),
		.loss = "page faults have no duration" },
	[FEATURE_FAULTS_MINOR] = { FEATURE("perf event minor-faults", "4.9", try_faults, "minor"),
		.loss = "minor page faults are not seen", .instead = FEATURE_FAULT_RETURN },
	[FEATURE_FAULTS_MAJOR] = { FEATURE("perf event major-faults", "4.9", try_faults, "major"),
		.loss = "major page faults are not seen", .instead = FEATURE_FAULT_RETURN },
	[FEATURE_CPU_CLOCK] = { FEATURE("perf event cpu-clock", "4.9", try_cpu_clock, NULL),
		.loss = "there is no -e samples" },
	[FEATURE_CYCLES] = { FEATURE("hardware counters", "4.9", try_cycles, NULL),
		.loss = "there is no -e pmu, or only --counters software" },
	[FEATURE_FAULT_RETURN] = { FEATURE("return of " FAULT_RETURN_FUNCTION, "5.9", try_return, FAULT_RETURN_FUNCTION),
		.loss = "it only stands in for the perf events of faults" },
	[FEATURE_IRQ_HANDLER] = { TRACEPOINT("irq_handler_entry"), .loss = "there is no -e irq" },
	[FEATURE_SOFTIRQ] = { TRACEPOINT("softirq_entry"), .loss = "there is no -e irq" },
#ifdef __x86_64__
	[FEATURE_LOCAL_TIMER] = { TRACEPOINT("local_timer_entry"),
		.loss = "-e irq does not see the timer and the calls of other CPUs" },
#endif
	[FEATURE_PAGE_ALLOC] = { TRACEPOINT("mm_page_alloc"), .loss = "there is no -e memory" },
	[FEATURE_PAGE_FREE] = { TRACEPOINT("mm_page_free"), .loss = "there is no -e memory" },
	[FEATURE_RSS_STAT] = { TRACEPOINT("rss_stat"), .loss = "there is no -e memory" },
};

const struct capability_desc capability_descs[CAPABILITIES_MAX] = {
	{ CAP_BPF, "CAP_BPF", NULL },
	{ CAP_PERFMON, "CAP_PERFMON", NULL },
	{ CAP_SYS_PTRACE, "CAP_SYS_PTRACE", NULL },
	{ CAP_SYS_RESOURCE, "CAP_SYS_RESOURCE",
		"not needed since 5.11, where BPF memory left RLIMIT_MEMLOCK" },
	{ CAP_SYS_ADMIN, "CAP_SYS_ADMIN",
		"needed for function probes where there is no uprobe_multi (before 6.6), and for perf events where "
		"perf_event_paranoid is above 2" },
};

/* ---- properties of the process ---- */

int32_t read_sysctl(const char *path)
{
	FILE *f = fopen(path, "re");
	int32_t value = SYSCTL_UNKNOWN;

	if (!f)
		return value;
	if (fscanf(f, "%" SCNd32, &value) != 1)
		value = SYSCTL_UNKNOWN;
	fclose(f);
	return value;
}

/* The mode in brackets: "none [integrity] confidentiality". */
static void read_lockdown(char mode[32])
{
	FILE *f = fopen("/sys/kernel/security/lockdown", "re");
	char line[128] = "", *from;

	if (!f)
		return;
	if (fgets(line, sizeof(line), f) && (from = strchr(line, '[')))
		snprintf(mode, 32, "%.*s", (int)strcspn(from + 1, "]"), from + 1);
	fclose(f);
}

static uint64_t read_capabilities(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { 0 };

	if (syscall(SYS_capget, &header, data))
		return 0;
	return data[0].effective | (uint64_t)data[1].effective << 32;
}

/* The initial namespaces have fixed inodes: see the enum in include/linux/proc_ns.h. */
static bool in_namespace(const char *path, ino_t initial)
{
	struct stat st;

	return !stat(path, &st) && st.st_ino != initial;
}

int features_probe(struct features *ret, bool fast_only)
{
	struct features f = { 0 };
	struct prober prober = { .fast_only = fast_only };
	struct utsname uts;
	struct rlimit rl;

	if (uname(&uts) || getrlimit(RLIMIT_MEMLOCK, &rl))
		return -errno;
	snprintf(f.release, sizeof(f.release), "%s", uts.release);
	snprintf(f.machine, sizeof(f.machine), "%s", uts.machine);
	f.memlock = rl.rlim_cur == RLIM_INFINITY ? UINT64_MAX : rl.rlim_cur;
	f.caps = read_capabilities();
	f.user_ns = in_namespace("/proc/self/ns/user", 0xEFFFFFFD);
	f.pid_ns = in_namespace("/proc/self/ns/pid", 0xEFFFFFFC);
	read_lockdown(f.lockdown);
	f.perf_paranoid = read_sysctl("/proc/sys/kernel/perf_event_paranoid");
	f.unprivileged_bpf_disabled = read_sysctl("/proc/sys/kernel/unprivileged_bpf_disabled");
	for (int i = 0; i < FEATURE_MAX; i++) {
		const struct feature_desc *d = &feature_descs[i];

		f.err[i] = FEATURE_UNTRIED;
		if (!fast_only || d->fast)
			f.err[i] = d->try(&prober, d->arg);
	}
	btf__free(prober.btf);
	*ret = f;
	return 0;
}

/* Tries a feature, unless that has been done; returns 0, or -errno if it does not work. */
static int features_try(struct features *f, enum feature id)
{
	struct prober prober = { 0 };

	if (f->err[id] == FEATURE_UNTRIED)
		f->err[id] = feature_descs[id].try(&prober, feature_descs[id].arg);
	btf__free(prober.btf);
	return f->err[id];
}

/* ---- verdicts ---- */

enum fault_ends features_fault_ends(struct features *f)
{
	if (!features_try(f, FEATURE_FAULTS_MINOR) && !features_try(f, FEATURE_FAULTS_MAJOR))
		return FAULT_ENDS_EVENTS;
	return features_try(f, FEATURE_FAULT_RETURN) ? FAULT_ENDS_NONE : FAULT_ENDS_RETURN;
}

bool features_have_capability(const struct features *f, int cap)
{
	uint64_t admin = cap == CAP_BPF || cap == CAP_PERFMON ? 1ull << CAP_SYS_ADMIN : 0;

	return f->caps & (1ull << cap | admin);
}

static bool release_before(const char *release, const char *than)
{
	unsigned int a[2] = { 0, 0 }, b[2] = { 0, 0 };

	sscanf(release, "%u.%u", &a[0], &a[1]);
	sscanf(than, "%u.%u", &b[0], &b[1]);
	return a[0] != b[0] ? a[0] < b[0] : a[1] < b[1];
}

bool features_permitted(const struct features *f)
{
	for (int i = 0; i < CAPABILITIES_MAX; i++)
		if (!capability_descs[i].loss &&
			!features_have_capability(f, capability_descs[i].cap))
			return false;
	return !f->user_ns;
}

/* Why the kernel refuses what the capabilities should allow. */
static void remedy_refused(const struct features *f, enum feature id, char *buf, size_t size)
{
	bool event = id >= FEATURE_FAULTS_MINOR && id <= FEATURE_CYCLES;

	if (id == FEATURE_UPROBE)
		snprintf(buf, size,
			"this kernel allows it to CAP_SYS_ADMIN only, as all do since 6.16 and the "
			"stable updates of mid-2025: run as root (sudo), or a kernel with "
			"uprobe_multi (%s)",
			feature_descs[FEATURE_UPROBE_MULTI].since);
	else if (event && f->perf_paranoid > 2 && !features_have_capability(f, CAP_SYS_ADMIN))
		snprintf(buf, size,
			"at perf_event_paranoid %" PRId32 " the kernels of Debian and Ubuntu allow "
			"it to CAP_SYS_ADMIN only: run as root (sudo), or set "
			"kernel.perf_event_paranoid=2",
			f->perf_paranoid);
	else
		snprintf(buf, size,
			"refused (%s) although the capabilities are there, by a container's "
			"seccomp profile or an LSM: run on the host, or with --privileged",
			strerror(-f->err[id]));
}

const char *features_remedy(const struct features *f, enum feature id, char *buf, size_t size)
{
	const struct feature_desc *d = &feature_descs[id];
	int err = f->err[id];

	if (err == -EPERM || err == -EACCES)
		remedy_refused(f, id, buf, size);
	else if (err == -EFAULT)
		snprintf(buf, size, "kernel %s overwrites the stack of the function, as 6.18 does: run an older or a newer one", f->release);
	else if (id == FEATURE_BTF)
		snprintf(buf, size,
			"%s is missing: run a kernel built with CONFIG_DEBUG_INFO_BTF=y, which is "
			"what distributions ship since " FEATURES_RELEASE_MIN,
			VMLINUX_BTF);
	else if (release_before(f->release, d->since))
		snprintf(buf, size, "kernel %s is too old: this came with %s%s", f->release, d->since,
			d->loss ? "" : ": run " FEATURES_RELEASE_MIN " or newer");
	else if (id == FEATURE_CYCLES)
		snprintf(buf, size, "this machine has none, as many virtual ones (%s)", strerror(-err));
	else if (id == FEATURE_WATCHPOINTS && err == -ENODEV)
		snprintf(buf, size, "they can be set and do not fire, as in some virtual machines");
	else
		snprintf(buf, size, "kernel %s was built without it (%s)", f->release,
			strerror(-err));
	return buf;
}

bool features_blocked_by(const struct features *f, enum feature id)
{
	const struct feature_desc *d = &feature_descs[id];

	return !d->loss && f->err[id] < 0 && !(d->instead && features_have(f, d->instead));
}

static int require_capabilities(const struct features *f, char *ret_why, size_t size)
{
	char missing[128] = "";
	size_t len = 0;

	for (int i = 0; i < CAPABILITIES_MAX; i++) {
		const struct capability_desc *d = &capability_descs[i];

		if (d->loss || features_have_capability(f, d->cap))
			continue;
		len += (size_t)snprintf(
			missing + len, sizeof(missing) - len, "%s%s", len ? ", " : "", d->name);
	}
	if (!len)
		return 0;
	snprintf(ret_why, size,
		"not permitted, missing %s: run as root (sudo), or give the binary "
		"cap_bpf,cap_perfmon,cap_sys_ptrace+ep with setcap",
		missing);
	return -EPERM;
}

int features_require(const struct features *f, char *ret_why, size_t size)
{
	char remedy[256];
	int err;

	err = require_capabilities(f, ret_why, size);
	if (err)
		return err;
	if (f->user_ns) {
		snprintf(ret_why, size,
			"not permitted in a user namespace (a rootless container): run on the host "
			"or in a container of the real root");
		return -EPERM;
	}
	if (!strcmp(f->lockdown, "confidentiality")) {
		snprintf(ret_why, size,
			"not permitted, the kernel is locked down (confidentiality): boot with "
			"lockdown=integrity or without");
		return -EPERM;
	}
	for (int i = 0; i < FEATURE_MAX; i++) {
		if (!features_blocked_by(f, i))
			continue;
		snprintf(ret_why, size, "no %s: %s", feature_descs[i].name,
			features_remedy(f, i, remedy, sizeof(remedy)));
		return f->err[i] == -EPERM || f->err[i] == -EACCES ? -EPERM : -EOPNOTSUPP;
	}
	return 0;
}
