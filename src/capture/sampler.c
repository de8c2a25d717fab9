// SPDX-License-Identifier: BSD-2-Clause
#include "capture/sampler.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "util/log.h"

#define RATE_SYSCTL "/proc/sys/kernel/perf_event_max_sample_rate"

struct sampler {
	size_t n;
	struct {
		struct bpf_link *link;
		int fd; /* the link's */
	} events[];
};

int sampler_open_event(unsigned int hz, int cpu)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.freq = 1,
		.sample_freq = hz,
		.exclude_idle = 1,
	};
	int fd = (int)syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static int attach_event(struct sampler *s, struct bpf_program *prog, unsigned int hz, int cpu)
{
	int fd = sampler_open_event(hz, cpu), err;

	if (fd < 0)
		return fd == -ENODEV ? 0 : fd; /* the CPU is offline */
	s->events[s->n].fd = fd;
	s->events[s->n].link = bpf_program__attach_perf_event(prog, fd); /* owns fd on success */
	if (!s->events[s->n].link) {
		err = -errno;
		close(fd);
		return err;
	}
	s->n++;
	return 0;
}

/* 0: unknown. */
static unsigned int rate_limit(void)
{
	unsigned int hz = 0;
	FILE *f = fopen(RATE_SYSCTL, "re");

	if (!f)
		return 0;
	if (fscanf(f, "%u", &hz) != 1)
		hz = 0;
	fclose(f);
	return hz;
}

static void say_why(unsigned int hz, int err)
{
	unsigned int limit = rate_limit();

	if (err == -EINVAL && limit && limit < hz)
		log_error("--sample-rate: the kernel allows %u a second (sysctl kernel.perf_event_max_sample_rate)", limit);
	else
		log_error("cannot open the clocks for samples: %s (" PERF_EVENT_RIGHTS ")", strerror(-err));
}

int sampler_new(struct bpf_program *prog, unsigned int hz, struct sampler **ret_sampler)
{
	int cpus = libbpf_num_possible_cpus(), err = 0;
	struct sampler *s = calloc(1, sizeof(*s) + (size_t)cpus * sizeof(s->events[0]));

	if (!s)
		return -ENOMEM;
	for (int cpu = 0; cpu < cpus && !err; cpu++)
		err = attach_event(s, prog, hz, cpu);
	if (err) {
		say_why(hz, err);
		sampler_free(s);
		return err;
	}
	*ret_sampler = s;
	return 0;
}

void sampler_free(struct sampler *s)
{
	for (size_t i = 0; s && i < s->n; i++)
		bpf_link__destroy(s->events[i].link);
	free(s);
}

void sampler_set(struct sampler *s, bool on)
{
	for (size_t i = 0; s && i < s->n; i++)
		ioctl(s->events[i].fd, on ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE, 0);
}
