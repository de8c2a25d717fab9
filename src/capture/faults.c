// SPDX-License-Identifier: BSD-2-Clause
#include "capture/faults.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "capture/features.h"
#include "capture/sampler.h"
#include "capture/session.h"
#include "inftrace.skel.h"
#include "util/log.h"

struct faults {
	size_t n;
	struct {
		struct bpf_link *link;
		int fd; /* the link's */
	} events[];
};

void faults_configure(struct inftrace_bpf *k, const struct session_config *c)
{
	bool events = c->fault_ends == FAULT_ENDS_EVENTS, ret = c->fault_ends == FAULT_ENDS_RETURN;

	k->rodata->cfg.fault_return = ret;
	bpf_program__set_autoload(k->progs.page_fault_user, (events || ret) && KERNEL_HAS_FAULT_BEGIN);
	bpf_program__set_autoload(k->progs.fault_minor, events && !c->stacks);
	bpf_program__set_autoload(k->progs.fault_major, events && !c->stacks);
	bpf_program__set_autoload(k->progs.fault_minor_stacks, events && c->stacks);
	bpf_program__set_autoload(k->progs.fault_major_stacks, events && c->stacks);
	bpf_program__set_autoload(k->progs.fault_return, ret && !c->stacks);
	bpf_program__set_autoload(k->progs.fault_return_stacks, ret && c->stacks);
}

static int open_event(unsigned int config, int cpu)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = config,
		.sample_period = 1,
	};
	int fd = (int)syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static int attach_event(struct faults *f, struct bpf_program *prog, unsigned int config, int cpu)
{
	int fd = open_event(config, cpu), err;

	if (fd < 0)
		return fd == -ENODEV ? 0 : fd; /* the CPU is offline */
	f->events[f->n].fd = fd;
	f->events[f->n].link = bpf_program__attach_perf_event(prog, fd); /* owns fd on success */
	if (!f->events[f->n].link) {
		err = -errno;
		close(fd);
		return err;
	}
	f->n++;
	return 0;
}

int faults_attach(struct inftrace_bpf *k, struct faults **ret_faults)
{
	bool stacks = bpf_program__autoload(k->progs.fault_minor_stacks);
	struct bpf_program *minor = stacks ? k->progs.fault_minor_stacks : k->progs.fault_minor;
	struct bpf_program *major = stacks ? k->progs.fault_major_stacks : k->progs.fault_major;
	int cpus = libbpf_num_possible_cpus(), err = 0;
	struct faults *f;

	*ret_faults = NULL;
	if (!bpf_program__autoload(minor))
		return 0;
	f = calloc(1, sizeof(*f) + (size_t)cpus * 2 * sizeof(f->events[0]));
	if (!f)
		return -ENOMEM;
	for (int cpu = 0; cpu < cpus && !err; cpu++) {
		err = attach_event(f, minor, PERF_COUNT_SW_PAGE_FAULTS_MIN, cpu);
		if (!err)
			err = attach_event(f, major, PERF_COUNT_SW_PAGE_FAULTS_MAJ, cpu);
	}
	if (err)
		log_error("cannot open the page fault events: %s (" PERF_EVENT_RIGHTS ")", strerror(-err));
	*ret_faults = f;
	return err;
}

void faults_set(const struct faults *f, bool on)
{
	for (size_t i = 0; f && i < f->n; i++)
		ioctl(f->events[i].fd, on ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE, 0);
}

void faults_free(struct faults *f)
{
	for (size_t i = 0; f && i < f->n; i++)
		bpf_link__destroy(f->events[i].link);
	free(f);
}
