// SPDX-License-Identifier: BSD-2-Clause
#include "capture/perf_events.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <limits.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#ifdef __x86_64__
#include <cpuid.h>
#endif

#include "capture/features.h"
#include "probe.h"
#include "process_sums.h"
#include "util/alloc.h"
#include "util/log.h"

#include "inftrace.skel.h" /* uses types of the headers above */

static int perf_event_open(const struct perf_event_attr *attr, int cpu, int group)
{
	int fd = (int)syscall(SYS_perf_event_open, attr, -1, cpu, group, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

struct program_events {
	size_t n;
	struct {
		struct bpf_link *link;
		int fd; /* the link's */
	} events[];
};

static int program_attach_event(struct program_events *p, struct bpf_program *prog, const struct perf_event_attr *attr, int cpu)
{
	int fd = perf_event_open(attr, cpu, -1), err;

	if (fd < 0)
		return fd == -ENODEV ? 0 : fd; /* the CPU is offline */
	p->events[p->n].fd = fd;
	p->events[p->n].link = bpf_program__attach_perf_event(prog, fd); /* owns fd on success */
	if (!p->events[p->n].link) {
		err = -errno;
		close(fd);
		return err;
	}
	p->n++;
	return 0;
}

void program_events_set(const struct program_events *p, bool on)
{
	for (size_t i = 0; p && i < p->n; i++)
		ioctl(p->events[i].fd, on ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE, 0);
}

void program_events_free(struct program_events *p)
{
	for (size_t i = 0; p && i < p->n; i++)
		bpf_link__destroy(p->events[i].link);
	free(p);
}

/* ---- samples ---- */

int sampler_new(struct bpf_program *prog, unsigned int hz, struct program_events **ret_sampler)
{
	const struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.freq = 1,
		.sample_freq = hz,
		.exclude_idle = 1,
	};
	int cpus = libbpf_num_possible_cpus(), err = 0, limit;
	struct program_events *s = xcalloc(1, sizeof(*s) + (size_t)cpus * sizeof(s->events[0]));

	for (int cpu = 0; cpu < cpus && !err; cpu++)
		err = program_attach_event(s, prog, &attr, cpu);
	if (!err) {
		*ret_sampler = s;
		return 0;
	}
	limit = read_sysctl("/proc/sys/kernel/perf_event_max_sample_rate");
	if (err == -EINVAL && limit > 0 && (unsigned int)limit < hz)
		log_error("--sample-rate: the kernel allows %d a second (sysctl kernel.perf_event_max_sample_rate)", limit);
	else
		log_error("cannot open the clocks for samples: %s (" PERF_EVENT_RIGHTS ")", strerror(-err));
	program_events_free(s);
	return err;
}

/* ---- page faults ---- */

void faults_configure(struct inftrace_bpf *k, enum fault_ends ends, bool stacks)
{
	bool events = ends == FAULT_ENDS_EVENTS, ret = ends == FAULT_ENDS_RETURN;

	k->rodata->cfg.fault_return = ret;
	bpf_program__set_autoload(k->progs.page_fault_user, (events || ret) && KERNEL_HAS_FAULT_BEGIN);
	bpf_program__set_autoload(k->progs.fault_minor, events && !stacks);
	bpf_program__set_autoload(k->progs.fault_major, events && !stacks);
	bpf_program__set_autoload(k->progs.fault_minor_stacks, events && stacks);
	bpf_program__set_autoload(k->progs.fault_major_stacks, events && stacks);
	bpf_program__set_autoload(k->progs.fault_return, ret && !stacks);
	bpf_program__set_autoload(k->progs.fault_return_stacks, ret && stacks);
}

int faults_attach(struct inftrace_bpf *k, struct program_events **ret_faults)
{
	bool stacks = bpf_program__autoload(k->progs.fault_minor_stacks);
	struct bpf_program *minor = stacks ? k->progs.fault_minor_stacks : k->progs.fault_minor;
	struct bpf_program *major = stacks ? k->progs.fault_major_stacks : k->progs.fault_major;
	struct perf_event_attr attr = { .type = PERF_TYPE_SOFTWARE, .size = sizeof(attr), .sample_period = 1 };
	int cpus = libbpf_num_possible_cpus(), err = 0;
	struct program_events *f;

	*ret_faults = NULL;
	if (!bpf_program__autoload(minor))
		return 0;
	f = xcalloc(1, sizeof(*f) + (size_t)cpus * 2 * sizeof(f->events[0]));
	for (int cpu = 0; cpu < cpus && !err; cpu++) {
		attr.config = PERF_COUNT_SW_PAGE_FAULTS_MIN;
		err = program_attach_event(f, minor, &attr, cpu);
		attr.config = PERF_COUNT_SW_PAGE_FAULTS_MAJ;
		err = err ?: program_attach_event(f, major, &attr, cpu);
	}
	if (err)
		log_error("cannot open the page fault events: %s (" PERF_EVENT_RIGHTS ")", strerror(-err));
	*ret_faults = f;
	return err;
}

/* ---- watchpoints ---- */

int watchpoint_open(pid_t tid, uint64_t addr, uint32_t type, uint32_t len)
{
	const struct perf_event_attr attr = {
		.type = PERF_TYPE_BREAKPOINT,
		.size = sizeof(attr),
		.sample_period = 1,
		.disabled = 1, /* hits before it has a program would count as missed */
		.exclude_kernel = 1,
		.exclude_hv = 1,
		.inherit = 1,
		.remove_on_exec = 1,
		.bp_type = type,
		.bp_addr = addr,
		.bp_len = len,
	};
	int fd = (int)syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* ---- counters ---- */

struct perf_event {
	uint32_t type;
	uint64_t config;
	bool none; /* no event is known to count it */
};

struct pmu {
	struct counters counters;
	unsigned int cpus;
	int fds[]; /* CPU * PMU_MAX + counter; -1: none */
};

#define HW_CACHE_LL_READ_MISS \
	(PERF_COUNT_HW_CACHE_LL | PERF_COUNT_HW_CACHE_OP_READ << 8 | PERF_COUNT_HW_CACHE_RESULT_MISS << 16)

/*
 * Misses of the last-level cache. The kernel's event "cache-misses" counts them only on Intel; it counts the misses of the
 * second level on AMD, and of the first on arm64 (intel_perfmon_event_map, amd_zen2_perfmon_event_map,
 * armv8_pmuv3_perf_map in the kernel). AMD's counters of the third level do not know the thread, but from Zen 3 on cores
 * count where lines come from: ls_any_fills_from_sys.dram_io_all in tools/perf/pmu-events/arch/x86/amdzen4.
 */
static struct perf_event llc_miss_event(void)
{
#ifdef __x86_64__
	unsigned int a, b, c, d, family;

	if (!__get_cpuid(0, &a, &b, &c, &d))
		return (struct perf_event){ .none = true };
	if (b == signature_INTEL_ebx)
		return (struct perf_event){ PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES, false };
	if (b == signature_AMD_ebx && __get_cpuid(1, &a, &b, &c, &d)) {
		family = (a >> 8 & 0xf) + (a >> 20 & 0xff);
		return (struct perf_event){ PERF_TYPE_RAW, 0x4844, family < 0x19 };
	}
#endif
	return (struct perf_event){ PERF_TYPE_HW_CACHE, HW_CACHE_LL_READ_MISS, false };
}

/* i: the counter's number in the set. */
static struct perf_event counter_event(enum counter_set set, unsigned int i)
{
	static const struct perf_event hardware[] = {
		[COUNTER_INSTRUCTIONS] = { PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS, false },
		[COUNTER_CYCLES] = { PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, false },
	};
	static const struct perf_event software[] = {
		{ PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, false },
		{ PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, false },
	};

	if (set == COUNTERS_SOFTWARE)
		return software[i];
	return i == COUNTER_LLC_MISSES ? llc_miss_event() : hardware[i];
}

/* Opens the counters in one group, so that all of them count, or none. Returns 0 or the first error. */
static int open_cpu(struct pmu *p, unsigned int cpu)
{
	int *fds = &p->fds[cpu * PMU_MAX], err = 0;

	for (unsigned int i = 0; i < PMU_MAX && counter_name(p->counters.set, i); i++) {
		struct perf_event e = counter_event(p->counters.set, i);
		const struct perf_event_attr attr = {
			.type = e.type,
			.size = sizeof(attr),
			.config = e.config,
			.disabled = !i,      /* or the others of the group would not count: pmu_set() starts all */
			.exclude_kernel = 1, /* which would include what inftrace itself does there */
			.exclude_hv = 1,
		};
		int fd = e.none ? -ENOENT : perf_event_open(&attr, (int)cpu, i ? fds[0] : -1);

		if (fd >= 0) {
			fds[i] = fd;
			p->counters.mask |= (uint8_t)(1u << i);
		} else if (i != COUNTER_LLC_MISSES || p->counters.set != COUNTERS_HARDWARE) {
			err = fd;
			break;
		}
	}
	return err;
}

static void close_cpu(struct pmu *p, unsigned int cpu)
{
	for (int i = 0; i < PMU_MAX; i++) {
		if (p->fds[cpu * PMU_MAX + i] >= 0)
			close(p->fds[cpu * PMU_MAX + i]);
		p->fds[cpu * PMU_MAX + i] = -1;
	}
}

/* A CPU that lacks one of the counters, as some small cores do, gets none: nothing is counted there. */
static int open_cpus(struct pmu *p)
{
	unsigned int some = 0;
	int first = 0, err;

	for (unsigned int cpu = 0; cpu < p->cpus; cpu++) {
		err = open_cpu(p, cpu);
		if (!err) {
			some++;
			continue;
		}
		close_cpu(p, cpu);
		if (err == -ENODEV) /* the CPU is offline */
			continue;
		first = first ? first : err;
		if (err != -ENOENT && err != -EOPNOTSUPP)
			return err;
	}
	if (some && first)
		log_info("-e pmu: only %u CPUs have these counters; what runs on others is not counted", some);
	return some ? 0 : first ? first
				: -ENODEV;
}

static int pmu_refuse(enum counter_set set, int err)
{
	if (err == -EPERM || err == -EACCES)
		return log_fail(-EPERM, "-e pmu: the kernel does not allow counters (perf_event_open: %s); " PERF_EVENT_RIGHTS, strerror(-err));
	if (set != COUNTERS_HARDWARE || (err != -ENOENT && err != -EOPNOTSUPP && err != -ENODEV))
		return log_fail(err, "-e pmu: cannot open the counters: perf_event_open: %s", strerror(-err));
	return log_fail(-EOPNOTSUPP, "-e pmu: this machine has no hardware counters (perf_event_open: %s), as many virtual ones; with --counters software "
				     "it counts what every kernel does",
		strerror(-err));
}

int pmu_new(enum counter_set set, struct inftrace_bpf *k, struct pmu **ret_pmu)
{
	unsigned int cpus = (unsigned int)libbpf_num_possible_cpus();
	struct pmu *p;
	int err;

	*ret_pmu = NULL;
	bpf_program__set_autoload(k->progs.pmu_switch, set != COUNTERS_NONE);
	if (set == COUNTERS_NONE)
		return 0;
	p = xmalloc(sizeof(*p) + cpus * PMU_MAX * sizeof(p->fds[0]));
	*p = (struct pmu){ .counters.set = set, .cpus = cpus };
	memset(p->fds, -1, cpus * PMU_MAX * sizeof(p->fds[0]));
	err = open_cpus(p);
	if (err) {
		pmu_free(p);
		return pmu_refuse(set, err);
	}
	if (set == COUNTERS_HARDWARE && !counters_have(&p->counters, COUNTER_LLC_MISSES))
		log_info("-e pmu: this CPU has no counter that is known to count misses of the last-level cache: they are left out");
	pmu_set(p, true);
	k->rodata->cfg.pmu = p->counters.mask;
	bpf_map__set_max_entries(k->maps.pmu_events, cpus * PMU_MAX);
	*ret_pmu = p;
	return 0;
}

void pmu_free(struct pmu *p)
{
	for (unsigned int cpu = 0; p && cpu < p->cpus; cpu++)
		close_cpu(p, cpu);
	free(p);
}

int pmu_bind(const struct pmu *p, struct inftrace_bpf *k)
{
	int map = bpf_map__fd(k->maps.pmu_events);

	for (uint32_t i = 0; p && i < p->cpus * PMU_MAX; i++) {
		if (p->fds[i] >= 0 && bpf_map_update_elem(map, &i, &p->fds[i], BPF_ANY)) {
			int err = -errno;

			return log_fail(err, "-e pmu: the kernel does not let programs read the counters: %s", strerror(-err));
		}
	}
	return 0;
}

/* A group counts only while its leader is enabled. */
void pmu_set(const struct pmu *p, bool on)
{
	for (unsigned int cpu = 0; p && cpu < p->cpus; cpu++) {
		if (p->fds[cpu * PMU_MAX] >= 0)
			ioctl(p->fds[cpu * PMU_MAX], on ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE, PERF_IOC_FLAG_GROUP);
	}
}

struct counters pmu_counters(const struct pmu *p)
{
	return p ? p->counters : (struct counters){ 0 };
}

/* ---- what is mapped ---- */

/* With many CPUs each makes fewer events; all rings together stay at 4 MB. */
#define RING_BYTES (64u << 10)
#define RINGS_BYTES (4u << 20)
#define RING_LEAST (16u << 10)

/* perf_event_open(2): what precedes the path of a PERF_RECORD_MMAP */
struct mmap_head {
	struct perf_event_header h;
	uint32_t pid, tid;
	uint64_t addr, len, pgoff;
};

struct lost_record {
	struct perf_event_header h;
	uint64_t id, lost;
};

struct map_ring {
	int fd;
	struct perf_event_mmap_page *page; /* the data follows */
};

struct map_watch {
	size_t page_bytes, ring_bytes;
	uint64_t lost;
	unsigned char record[sizeof(struct mmap_head) + PATH_MAX + 1]; /* the current one, in one piece */
	size_t n;
	struct map_ring rings[];
};

static int open_ring(struct map_watch *w, int cpu)
{
	const struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_DUMMY,
		.mmap = 1, /* of executable pages only, without mmap_data */
		.watermark = 1,
		.wakeup_watermark = UINT32_MAX, /* nobody polls */
	};
	struct map_ring *r = &w->rings[w->n];
	int err;

	r->fd = perf_event_open(&attr, cpu, -1);
	if (r->fd < 0)
		return r->fd == -ENODEV ? 0 : r->fd; /* the CPU is offline */
	r->page = mmap(NULL, w->page_bytes + w->ring_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);
	if (r->page == MAP_FAILED) {
		err = -errno;
		close(r->fd);
		return err;
	}
	w->n++;
	return 0;
}

int map_watch_new(struct map_watch **ret_watch)
{
	int cpus = libbpf_num_possible_cpus(), err = 0;
	struct map_watch *w;

	if (cpus < 0)
		return cpus;
	w = xcalloc(1, sizeof(*w) + (size_t)cpus * sizeof(w->rings[0]));
	w->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	w->ring_bytes = RING_BYTES;
	while (w->ring_bytes > RING_LEAST && w->ring_bytes * (size_t)cpus > RINGS_BYTES)
		w->ring_bytes /= 2;
	if (w->ring_bytes < w->page_bytes)
		w->ring_bytes = w->page_bytes;
	for (int cpu = 0; cpu < cpus && !err; cpu++)
		err = open_ring(w, cpu);
	if (err) {
		map_watch_free(w);
		return err;
	}
	*ret_watch = w;
	return 0;
}

void map_watch_free(struct map_watch *w)
{
	for (size_t i = 0; w && i < w->n; i++) {
		munmap(w->rings[i].page, w->page_bytes + w->ring_bytes);
		close(w->rings[i].fd);
	}
	free(w);
}

/* Copies bytes at a position of the ring, which they may wrap around. */
static void map_ring_copy(const struct map_watch *w, const struct map_ring *r, uint64_t at, void *to, size_t n)
{
	const unsigned char *data = (const unsigned char *)r->page + w->page_bytes;
	size_t from = (size_t)(at & (w->ring_bytes - 1)), first = w->ring_bytes - from;

	if (first > n)
		first = n;
	memcpy(to, data + from, first);
	memcpy((unsigned char *)to + first, data, n - first);
}

static void map_watch_take_record(struct map_watch *w, size_t n, map_watch_cb cb, void *arg)
{
	const struct mmap_head *m = (const void *)w->record;
	const struct lost_record *l = (const void *)w->record;

	if (m->h.type == PERF_RECORD_LOST && n >= sizeof(*l)) {
		w->lost += l->lost;
	} else if (m->h.type == PERF_RECORD_MMAP && n > sizeof(*m) && (m->h.misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_USER) {
		w->record[n] = 0;
		cb((pid_t)m->pid, (const char *)(m + 1), arg);
	}
}

static void drain_ring(struct map_watch *w, struct map_ring *r, map_watch_cb cb, void *arg)
{
	uint64_t head = __atomic_load_n(&r->page->data_head, __ATOMIC_ACQUIRE), tail = r->page->data_tail;

	while (tail < head) {
		struct perf_event_header h;
		size_t n;

		map_ring_copy(w, r, tail, &h, sizeof(h));
		if (h.size < sizeof(h) || h.size > head - tail) /* cannot be */
			break;
		n = h.size < sizeof(w->record) ? h.size : sizeof(w->record) - 1;
		map_ring_copy(w, r, tail, w->record, n);
		map_watch_take_record(w, n, cb, arg);
		tail += h.size;
	}
	__atomic_store_n(&r->page->data_tail, tail < head ? head : tail, __ATOMIC_RELEASE);
}

void map_watch_drain(struct map_watch *w, map_watch_cb cb, void *arg)
{
	for (size_t i = 0; i < w->n; i++)
		drain_ring(w, &w->rings[i], cb, arg);
}

uint64_t map_watch_lost(const struct map_watch *w)
{
	return w->lost;
}
