// SPDX-License-Identifier: BSD-2-Clause
#include "capture/calibrate.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "capture/features.h"
#include "capture/links.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/confine.h"

#define SAMPLES_MAX 1024
#define SAMPLES 301
#define SAMPLES_STEPPED 101
#define PAGES 256

#define WORK_BYTES (256u << 10) /* stands for the data of an engine, which pushes the kernel's out of the caches */
#define LINE 64

#define UPROBE_TYPE "/sys/bus/event_source/devices/uprobe/type"
#define UPROBE_RETURN "/sys/bus/event_source/devices/uprobe/format/retprobe" /* "config:0" */

/* Attached programs; closing the descriptors detaches them. */
struct attached {
	int fds[8];
	size_t n;
};

struct calibration {
	bool multi;
	enum fault_ends fault_ends;
	int err;
	uint64_t ns[HIT_MAX];
	struct attached functions;
	pthread_mutex_t lock;
	pthread_cond_t is_measured;
	bool measured, taken, over; /* freed by whichever of thread and caller is done with it last */
};

static void calibration_free(struct calibration *c)
{
	pthread_cond_destroy(&c->is_measured);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

/* ---- what is measured ---- */

/* Two functions: the kernel emulates the first instruction of one, and single-steps that of the other. */
#ifdef __x86_64__
__asm__(".text\n"
	".balign 64\n"
	".type inftrace_emulated, @function\n"
	"inftrace_emulated:\n"
	"	push %rbp\n"
	"	pop %rbp\n"
	"	ret\n"
	".size inftrace_emulated, .-inftrace_emulated\n"
	".balign 64\n"
	".type inftrace_stepped, @function\n"
	"inftrace_stepped:\n"
	"	lea 8(%rsp), %rax\n"
	"	ret\n"
	".size inftrace_stepped, .-inftrace_stepped\n");
#else
__asm__(".text\n"
	".balign 64\n"
	".type inftrace_emulated, %function\n"
	"inftrace_emulated:\n"
	"	nop\n"
	"	ret\n"
	".size inftrace_emulated, .-inftrace_emulated\n"
	".balign 64\n"
	".type inftrace_stepped, %function\n"
	"inftrace_stepped:\n"
	"	add x0, x0, #0\n"
	"	ret\n"
	".size inftrace_stepped, .-inftrace_stepped\n");
#endif

void inftrace_emulated(void);
void inftrace_stepped(void);

#define PAGE 4096

static char *pages; /* each page faults once, when it is first touched */
static unsigned int next_page;

static void touch_page(void)
{
	((volatile char *)pages)[next_page++ % PAGES * PAGE] = 1;
}

static void call_kernel(void)
{
	syscall(SYS_getppid);
}

static char work[WORK_BYTES];

/*
 * Between two hits an engine works on its own data, so the kernel's has to be fetched again. In a loop of nothing but
 * hits each would take half as long.
 */
static void do_work(void)
{
	for (unsigned int i = 0; i < WORK_BYTES; i += LINE)
		((volatile char *)work)[i]++;
}

static int compare_times(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Returns the median of n runs in nanoseconds: others may want the CPU, too. */
static uint64_t measure_median(void (*what)(void), unsigned int n)
{
	uint64_t ns[SAMPLES_MAX];

	for (unsigned int i = 0; i < n; i++) {
		do_work();
		ns[i] = clock_mono_ns();
		what();
		ns[i] = clock_mono_ns() - ns[i];
	}
	qsort(ns, n, sizeof(*ns), compare_times);
	return ns[n / 2];
}

static uint64_t measure_fault(void)
{
	madvise(pages, PAGES * PAGE, MADV_DONTNEED);
	return measure_median(touch_page, PAGES);
}

static uint64_t time_minus(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

/* ---- empty programs ---- */

/* of: BTF id of the kernel function that it attaches to; 0: none. */
static int load_empty_program(enum bpf_prog_type type, enum bpf_attach_type attach, int of)
{
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = attach, .attach_btf_id = (uint32_t)of);
	const struct bpf_insn insns[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};

	return bpf_prog_load(type, "inftrace_empty", "Dual BSD/GPL", insns, 2, &opts);
}

static void attached_close(struct attached *a)
{
	while (a->n)
		close(a->fds[--a->n]);
}

static int attached_keep_fd(struct attached *a, int fd)
{
	if (fd < 0)
		return fd == -1 ? -errno : fd;
	a->fds[a->n++] = fd;
	return 0;
}

static int attached_add_tracepoint(struct attached *a, const char *name)
{
	int prog = load_empty_program(BPF_PROG_TYPE_RAW_TRACEPOINT, 0, 0), err = attached_keep_fd(a, prog);

	return err ?: attached_keep_fd(a, bpf_raw_tracepoint_open(name, prog));
}

/* Has an event run a program. */
static int attached_add_fd(struct attached *a, int fd, enum bpf_prog_type type)
{
	int err = attached_keep_fd(a, fd), prog;

	if (err)
		return err;
	prog = load_empty_program(type, 0, 0);
	err = attached_keep_fd(a, prog);
	if (!err && (ioctl(fd, PERF_EVENT_IOC_SET_BPF, prog) || ioctl(fd, PERF_EVENT_IOC_ENABLE, 0)))
		err = -errno;
	return err;
}

static int attached_add_event(struct attached *a, struct perf_event_attr *attr, enum bpf_prog_type type)
{
	attr->size = sizeof(*attr);
	return attached_add_fd(a, (int)syscall(SYS_perf_event_open, attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC), type);
}

static int attached_add_fault_end(struct attached *a, enum fault_ends ends)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_PAGE_FAULTS_MIN,
		.sample_period = 1,
	};

	int id, prog, err;

	if (ends == FAULT_ENDS_NONE)
		return 0;
	if (ends == FAULT_ENDS_EVENTS)
		return attached_add_event(a, &attr, BPF_PROG_TYPE_PERF_EVENT);
	id = libbpf_find_vmlinux_btf_id(FAULT_RETURN_FUNCTION, BPF_TRACE_FEXIT);
	if (id < 0)
		return id;
	prog = load_empty_program(BPF_PROG_TYPE_TRACING, BPF_TRACE_FEXIT, id);
	err = attached_keep_fd(a, prog);
	return err ?: attached_keep_fd(a, bpf_raw_tracepoint_open(NULL, prog));
}

static int read_sysfs_number(const char *path, const char *format, unsigned int *ret)
{
	FILE *f = fopen(path, "re");
	int n = f ? fscanf(f, format, ret) : 0;

	if (f)
		fclose(f);
	return n == 1 ? 0 : -ENOENT;
}

static int attached_add_uprobe(struct attached *a, bool ret, uint64_t offset)
{
	unsigned int type, bit;
	struct perf_event_attr attr = {
		.uprobe_path = (uintptr_t) "/proc/self/exe",
		.probe_offset = offset,
	};
	int err = read_sysfs_number(UPROBE_TYPE, "%u", &type) ?: read_sysfs_number(UPROBE_RETURN, "config:%u", &bit);

	if (err)
		return err;
	attr.type = type;
	attr.config = ret ? UINT64_C(1) << bit : 0;
	return attached_add_event(a, &attr, BPF_PROG_TYPE_KPROBE);
}

static int attached_add_function(const struct calibration *c, struct attached *a, bool ret, void (*function)(void))
{
	uint64_t offset = own_offset((uintptr_t)function);
	int prog, err;

	if (!offset)
		return -ENOENT;
	if (!c->multi)
		return attached_add_uprobe(a, ret, offset);
	prog = load_empty_program(BPF_PROG_TYPE_KPROBE, ATTACH_UPROBE_MULTI, 0);
	err = attached_keep_fd(a, prog);
	return err ?: attached_keep_fd(a, links_create_own(prog, ret, offset));
}

/* ---- the kinds of hits ---- */

static int calibrate_syscalls(struct calibration *c)
{
	uint64_t without = measure_median(call_kernel, SAMPLES);
	struct attached a = { 0 };
	int err = attached_add_tracepoint(&a, "sys_enter") ?: attached_add_tracepoint(&a, "sys_exit");

	if (!err)
		c->ns[HIT_SYSCALL] = time_minus(measure_median(call_kernel, SAMPLES), without) / 2;
	attached_close(&a);
	return err;
}

/*
 * Measures what a program at the page fault tracepoint adds. Where there is no such tracepoint (arm64), a system call's
 * cost stands for it, which is not less.
 */
static int calibrate_faults(struct calibration *c)
{
	uint64_t without, start;
	struct attached a = { 0 };
	bool has_begin;
	int err;

	pages = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pages == MAP_FAILED)
		return -errno;
	madvise(pages, PAGES * PAGE, MADV_NOHUGEPAGE);
	without = measure_fault();
	err = attached_add_tracepoint(&a, "page_fault_user");
	has_begin = err != -ENOENT;
	err = has_begin ? err : 0;
	start = err ? 0 : measure_fault();
	err = err ?: attached_add_fault_end(&a, c->fault_ends);
	if (!err) {
		c->ns[HIT_FAULT] = c->ns[HIT_SWITCH] = c->ns[HIT_WAKE] = has_begin ? time_minus(start, without) : c->ns[HIT_SYSCALL];
		c->ns[HIT_FAULT_END] = time_minus(measure_fault(), start);
	}
	attached_close(&a);
	munmap(pages, PAGES * PAGE);
	return err;
}

static int calibrate_functions(struct calibration *c)
{
	uint64_t without = measure_median(inftrace_emulated, SAMPLES), entry;
	uint64_t stepped_without = measure_median(inftrace_stepped, SAMPLES_STEPPED);
	struct attached *a = &c->functions;
	int err = attached_add_function(c, a, false, inftrace_emulated) ?: attached_add_function(c, a, false, inftrace_stepped);

	if (err)
		return err;
	entry = measure_median(inftrace_emulated, SAMPLES);
	c->ns[HIT_ENTRY] = time_minus(entry, without);
	c->ns[HIT_STEPPED] = time_minus(measure_median(inftrace_stepped, SAMPLES_STEPPED), stepped_without);
	err = attached_add_function(c, a, true, inftrace_emulated);
	if (!err)
		c->ns[HIT_RETURN] = time_minus(measure_median(inftrace_emulated, SAMPLES), entry);
	return err;
}

static volatile uint64_t watched;

static void write_watched(void)
{
	watched++;
}

/* Where there are no watchpoints, nothing is watched. */
static void calibrate_watch(struct calibration *c)
{
	uint64_t without = measure_median(write_watched, SAMPLES_STEPPED);
	struct attached a = { 0 };

	if (!attached_add_fd(&a, watchpoint_open(0, (uintptr_t)&watched, HW_BREAKPOINT_W, HW_BREAKPOINT_LEN_8), BPF_PROG_TYPE_PERF_EVENT))
		c->ns[HIT_WATCH] = time_minus(measure_median(write_watched, SAMPLES_STEPPED), without);
	attached_close(&a);
}

static void *calibration_thread(void *arg)
{
	struct calibration *c = arg;
	bool taken;

	pthread_setname_np(pthread_self(), "inftrace-weigh");
	c->err = calibrate_syscalls(c) ?: calibrate_faults(c) ?
							      : calibrate_functions(c);
	calibrate_watch(c);
	confine_capabilities(0); /* the rest needs none */
	pthread_mutex_lock(&c->lock);
	c->measured = true;
	pthread_cond_signal(&c->is_measured);
	pthread_mutex_unlock(&c->lock);
	attached_close(&c->functions); /* each detach waits for a grace period; by now nobody waits for this thread */
	pthread_mutex_lock(&c->lock);
	c->over = true;
	taken = c->taken;
	pthread_mutex_unlock(&c->lock);
	if (taken)
		calibration_free(c);
	return NULL;
}

int calibration_start(bool uprobe_multi, enum fault_ends ends, struct calibration **ret_calibration)
{
	struct calibration *c = xcalloc(1, sizeof(*c));
	sigset_t all, before;
	pthread_t thread;
	int err;

	c->multi = uprobe_multi;
	c->fault_ends = ends;
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->is_measured, NULL);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&thread, NULL, calibration_thread, c);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (err) {
		calibration_free(c);
		return -err;
	}
	pthread_detach(thread);
	*ret_calibration = c;
	return 0;
}

int calibration_end(struct calibration *c, uint64_t ret_ns[HIT_MAX])
{
	bool over;
	int err;

	if (!c)
		return -ENOENT;
	pthread_mutex_lock(&c->lock);
	while (!c->measured)
		pthread_cond_wait(&c->is_measured, &c->lock);
	err = c->err;
	if (!err)
		memcpy(ret_ns, c->ns, sizeof(c->ns));
	c->taken = true;
	over = c->over;
	pthread_mutex_unlock(&c->lock);
	if (over)
		calibration_free(c);
	return err;
}
