// SPDX-License-Identifier: BSD-2-Clause
#include "capture/pmu.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#ifdef __x86_64__
#include <cpuid.h>
#endif

#include "capture/sampler.h"
#include "probe.h"
#include "process_sums.h"
#include "inftrace.skel.h"
#include "util/log.h"

struct event {
	uint32_t type;
	uint64_t config;
	bool none; /* nothing is known that would count it */
};

struct pmu {
	struct counters counters;
	unsigned int cpus;
	int fds[]; /* CPU * PMU_MAX + counter; -1: none */
};

#define HW_CACHE_LL_READ_MISS \
	(PERF_COUNT_HW_CACHE_LL | PERF_COUNT_HW_CACHE_OP_READ << 8 | PERF_COUNT_HW_CACHE_RESULT_MISS << 16)

/*
 * Misses of the last cache before the memory. The kernel's own event "cache-misses" counts those only on Intel; on AMD
 * it is those of the second level, and on arm64 of the first (intel_perfmon_event_map, amd_zen2_perfmon_event_map,
 * armv8_pmuv3_perf_map in the kernel). AMD's third level has counters of its own which know no thread, but from Zen 3 on
 * cores count from where lines come: ls_any_fills_from_sys.dram_io_all in tools/perf/pmu-events/arch/x86/amdzen4.
 */
static struct event llc_misses(void)
{
#ifdef __x86_64__
	unsigned int a, b, c, d, family;

	if (!__get_cpuid(0, &a, &b, &c, &d))
		return (struct event){ .none = true };
	if (b == signature_INTEL_ebx)
		return (struct event){ PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES, false };
	if (b == signature_AMD_ebx && __get_cpuid(1, &a, &b, &c, &d)) {
		family = (a >> 8 & 0xf) + (a >> 20 & 0xff);
		return (struct event){ PERF_TYPE_RAW, 0x4844, family < 0x19 };
	}
#endif
	return (struct event){ PERF_TYPE_HW_CACHE, HW_CACHE_LL_READ_MISS, false };
}

/* By counter_set and the numbers of its counters. */
static struct event event_of(enum counter_set set, unsigned int i)
{
	static const struct event hardware[] = {
		[COUNTER_INSTRUCTIONS] = { PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS, false },
		[COUNTER_CYCLES] = { PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, false },
	};
	static const struct event software[] = {
		{ PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, false },
		{ PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, false },
	};

	if (set == COUNTERS_SOFTWARE)
		return software[i];
	return i == COUNTER_LLC_MISSES ? llc_misses() : hardware[i];
}

/* Counts user code only: the kernel's would include what inftrace itself does there. */
static int open_event(struct event e, unsigned int cpu, int group)
{
	struct perf_event_attr attr = {
		.type = e.type,
		.size = sizeof(attr),
		.config = e.config,
		.disabled = group < 0, /* or those that join it would not count: pmu_set() begins with all */
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};
	int fd = (int)syscall(SYS_perf_event_open, &attr, -1, cpu, group, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* In one group, so that all of them count, or none. Returns the number of the first counter's error. */
static int open_cpu(struct pmu *p, unsigned int cpu)
{
	int *fds = &p->fds[cpu * PMU_MAX], err = 0;

	for (unsigned int i = 0; i < PMU_MAX && counter_name(p->counters.set, i); i++) {
		struct event e = event_of(p->counters.set, i);
		int fd = e.none ? -ENOENT : open_event(e, cpu, i ? fds[0] : -1);

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

/* CPUs without one of the counters, as the small ones of some, have none: what runs there is not counted. */
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

static int refuse(enum counter_set set, int err)
{
	if (err == -EPERM || err == -EACCES) {
		log_error("-e pmu: the kernel does not allow counters (perf_event_open: %s); " PERF_EVENT_RIGHTS, strerror(-err));
		return -EPERM;
	}
	if (set != COUNTERS_HARDWARE || (err != -ENOENT && err != -EOPNOTSUPP && err != -ENODEV)) {
		log_error("-e pmu: cannot open the counters: perf_event_open: %s", strerror(-err));
		return err;
	}
	log_error("-e pmu: this machine has no hardware counters (perf_event_open: %s), as many virtual ones; with --counters software "
		  "it counts what every kernel does",
		strerror(-err));
	return -EOPNOTSUPP;
}

static void configure(const struct pmu *p, struct inftrace_bpf *k)
{
	bpf_program__set_autoload(k->progs.pmu_switch, p);
	if (!p)
		return;
	k->rodata->cfg.pmu = p->counters.mask;
	bpf_map__set_max_entries(k->maps.pmu_events, p->cpus * PMU_MAX);
}

int pmu_new(enum counter_set set, struct inftrace_bpf *k, struct pmu **ret_pmu)
{
	unsigned int cpus = (unsigned int)libbpf_num_possible_cpus();
	struct pmu *p = NULL;
	int err;

	if (set == COUNTERS_NONE)
		goto out;
	p = malloc(sizeof(*p) + cpus * PMU_MAX * sizeof(p->fds[0]));
	if (!p)
		return -ENOMEM;
	*p = (struct pmu){ .counters.set = set, .cpus = cpus };
	memset(p->fds, -1, cpus * PMU_MAX * sizeof(p->fds[0]));
	err = open_cpus(p);
	if (err) {
		pmu_free(p);
		return refuse(set, err);
	}
	if (set == COUNTERS_HARDWARE && !counters_have(&p->counters, COUNTER_LLC_MISSES))
		log_info("-e pmu: this CPU has no counter that is known to count misses of the last-level cache: they are left out");
	pmu_set(p, true);
out:
	configure(p, k);
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

			log_error("-e pmu: the kernel does not let programs read the counters: %s", strerror(-err));
			return err;
		}
	}
	return 0;
}

/* The others of a group count only together with its first. */
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
