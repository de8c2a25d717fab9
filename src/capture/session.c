// SPDX-License-Identifier: BSD-2-Clause
#include "capture/session.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "capture/groups.h"
#include "capture/requests.h"
#include "capture/sums.h"
#include "inftrace.skel.h"
#include "util/log.h"
#include "util/names.h"

#define ATTACH_UPROBE_MULTI 48 /* BPF_TRACE_UPROBE_MULTI, Linux 6.6 */

#define DYING_WAIT_MS 200 /* usually some microseconds; longer when it waits for a CPU */
#define TRACEPOINTS_MAX 48 /* tp_btf programs in bpf/ */

struct session {
	record_cb cb;
	void *cb_arg;
	struct inftrace_bpf *skel;
	struct rings *rings;
	struct attach *attach;
	unsigned int n_rings;
	struct bpf_link *tp_links[TRACEPOINTS_MAX];
	size_t n_tp_links;
	struct bpf_link **fault_links;
	size_t n_fault_links;
	int eventfd; /* -1: none */
};

static uint64_t boot_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

static int print_libbpf(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	int min = level == LIBBPF_DEBUG ? 2 : 1;

	return log_level() >= min ? vfprintf(stderr, fmt, ap) : 0;
}

/* 8 MB hold a hundred thousand records, a tenth of a second of the worst storm; on large machines
 * the storm is spread over more CPUs, and all rings together stay at 128 MB. */
static size_t default_ring_bytes(unsigned int rings)
{
	size_t bytes = 8 << 20;

	while (bytes * rings > (128 << 20) && bytes > (1 << 20))
		bytes /= 2;
	return bytes;
}

/* A variable that is in BTF still cannot be loaded when kallsyms does not have it. */
static bool have_preempt_count(void)
{
#ifdef __aarch64__
	return true; /* in the task */
#else
	FILE *f = fopen("/proc/kallsyms", "re");
	char line[512], name[128];
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f))
		found = sscanf(line, "%*x %*c %127s", name) == 1 &&
			(!strcmp(name, "__preempt_count") || !strcmp(name, "pcpu_hot"));
	if (f)
		fclose(f);
	return found;
#endif
}

static void configure(struct session *s, const struct session_config *c)
{
	struct inf_config *cfg = &s->skel->rodata->cfg;
	struct inftrace_bpf *k = s->skel;
	bool functions = c->probes && c->probes->n;
	bool preempt_count = have_preempt_count();

	s->n_rings = rings_count((unsigned int)libbpf_num_possible_cpus(), &cfg->ring_shift);
	cfg->emit_mask = c->emit_mask;
	cfg->trace_all = c->trace_all;
	cfg->self_tgid = (uint32_t)getpid();
	cfg->all_cpus = c->all_cpus;
	cfg->watch_maps = c->watch_maps;
	cfg->map_nr = SYS_mmap;
	cfg->track_syscalls = c->track_syscalls;
	cfg->track_sched = c->track_sched;
	cfg->min_syscall_ns = c->min_syscall_ns;
	cfg->count_strangers = c->uprobe_multi && c->uprobe_multi_pid && !c->trace_all;
	for (unsigned int i = 0; i < sizeof(cfg->sys_class); i++)
		cfg->sys_class[i] = (uint8_t)syscall_class(i) | (syscall_transfer(i) ? SYS_F_TRANSFER : 0);

	bpf_program__set_autoload(k->progs.sched_switch, c->track_sched);
	bpf_program__set_autoload(k->progs.sched_waking, c->track_sched && !preempt_count);
	bpf_program__set_autoload(k->progs.sched_waking_irq, c->track_sched && preempt_count);
	bpf_program__set_autoload(k->progs.sys_enter, c->track_syscalls);
	bpf_program__set_autoload(k->progs.sys_exit, c->track_syscalls);
	bpf_program__set_autoload(k->progs.page_fault_user, c->track_faults);
	bpf_program__set_autoload(k->progs.fault_minor, c->track_faults);
	bpf_program__set_autoload(k->progs.fault_major, c->track_faults);
	bpf_program__set_autoload(k->progs.function_entry, functions);
	bpf_program__set_autoload(k->progs.function_return, functions);
	if (c->uprobe_multi) {
		bpf_program__set_expected_attach_type(k->progs.function_entry, ATTACH_UPROBE_MULTI);
		bpf_program__set_expected_attach_type(k->progs.function_return, ATTACH_UPROBE_MULTI);
	}
	bpf_map__set_max_entries(k->maps.rings, s->n_rings);
	if (!functions)
		bpf_map__set_max_entries(k->maps.probes, 1);
}

/* What is loaded on demand, and what goes with it. */
static int configure_groups(struct session *s, const struct session_config *c)
{
	struct inf_config *cfg = &s->skel->rodata->cfg;
	struct inftrace_bpf *k = s->skel;
	int err = 0;

	cfg->track_irq = c->track_irq;
	cfg->memory = c->track_memory;
	cfg->sums = c->sums;
	cfg->ipc = c->ipc;
	cfg->ipc_only = c->ipc_only;
	if (!c->sums && !c->track_memory)
		bpf_map__set_max_entries(k->maps.process_sums, 1);
	if (!c->sums)
		bpf_map__set_max_entries(k->maps.syscall_sums, 1);
	bpf_map__set_max_entries(k->maps.connections,
		c->requests ? requests_connections((unsigned int)libbpf_num_possible_cpus()) : 1);
	requests_calls(k->rodata->request_calls);
	bpf_program__set_autoload(k->progs.requests_exit, c->requests);
	if (c->track_irq)
		err = group_load(k->obj, "irq_", "irq_vector_", "-e irq");
	if (!err && c->track_memory) {
		err = group_load(k->obj, have_preempt_count() ? "memory_task_" : "memory_any_", NULL,
			"-e memory");
		if (!err)
			err = group_load(k->obj, "memory_rss", NULL, "-e memory");
	}
	bpf_program__set_autoload(k->progs.sums_process_exit, c->sums || c->track_memory);
	if (err || !c->ipc)
		return err;
	s->eventfd = eventfd(0, EFD_CLOEXEC);
	if (s->eventfd < 0) {
		err = -errno;
		log_error("cannot open an eventfd: %s", strerror(-err));
		return err;
	}
	cfg->eventfd = (uint32_t)s->eventfd;
	return 0;
}

static int load_error(int err)
{
	if (err == -EPERM)
		log_error("the kernel does not allow BPF programs to be loaded; run as root or with CAP_BPF, "
			  "CAP_PERFMON and CAP_SYS_PTRACE");
	else
		log_error("the kernel refused the BPF programs: %s; inftrace doctor tells what is missing, "
			  "-v shows the kernel's own words",
			strerror(-err));
	return err == -EPERM ? err : -EOPNOTSUPP;
}

static int open_attach(struct session *s, const struct session_config *c)
{
	struct attach_config a = {
		.probes = c->probes,
		.probes_fd = bpf_map__fd(s->skel->maps.probes),
		.entry = s->skel->progs.function_entry,
		.ret = s->skel->progs.function_return,
		.multi = c->uprobe_multi,
		.states_only = c->states_only,
	};

	if (s->skel->rodata->cfg.count_strangers)
		a.link_gens = &s->skel->bss->link_gens;
	return attach_new(&a, &s->attach);
}

int session_open(const struct session_config *c, struct session **ret_session)
{
	struct session *s = calloc(1, sizeof(*s));
	int err, template_fd = -1;
	size_t ring_bytes;

	if (!s)
		return -ENOMEM;
	s->eventfd = -1;
	s->cb = c->cb;
	s->cb_arg = c->cb_arg;
	libbpf_set_print(print_libbpf);
	s->skel = inftrace_bpf__open();
	if (!s->skel) {
		err = load_error(-errno);
		goto out;
	}
	configure(s, c);
	err = configure_groups(s, c);
	if (err)
		goto out;
	template_fd = rings_set_template(s->skel->maps.rings);
	if (template_fd < 0) {
		err = load_error(template_fd);
		goto out;
	}
	err = inftrace_bpf__load(s->skel);
	if (err) {
		err = load_error(err);
		goto out;
	}
	ring_bytes = c->ring_bytes ? c->ring_bytes : default_ring_bytes(s->n_rings);
	err = rings_create(s->skel->maps.rings, bpf_map__fd(s->skel->maps.control), s->n_rings,
		ring_bytes, c->cb, c->cb_arg, &s->rings);
	if (err) {
		log_error("cannot create %u ring buffers of %zu bytes: %s; try a smaller --ring-size",
			s->n_rings, ring_bytes, strerror(-err));
		goto out;
	}
	err = open_attach(s, c);
	if (err)
		goto out;
	*ret_session = s;
	s = NULL;
out:
	if (template_fd >= 0)
		close(template_fd);
	session_free(s);
	return err;
}

void session_free(struct session *s)
{
	if (!s)
		return;
	attach_free(s->attach);
	for (size_t i = 0; i < s->n_tp_links; i++)
		bpf_link__destroy(s->tp_links[i]);
	for (size_t i = 0; i < s->n_fault_links; i++)
		bpf_link__destroy(s->fault_links[i]);
	free(s->fault_links);
	rings_free(s->rings);
	if (s->eventfd >= 0)
		close(s->eventfd);
	inftrace_bpf__destroy(s->skel);
	free(s);
}

int session_target(struct session *s, pid_t tgid)
{
	uint32_t key = (uint32_t)tgid;
	uint8_t one = 1;

	return bpf_map_update_elem(bpf_map__fd(s->skel->maps.targets), &key, &one, BPF_ANY) ? -errno : 0;
}

static int open_software_event(unsigned int config, int cpu)
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

static int attach_fault_event(struct session *s, struct bpf_program *prog, unsigned int config, int cpu)
{
	struct bpf_link *l;
	int fd;

	fd = open_software_event(config, cpu);
	if (fd < 0)
		return fd == -ENODEV ? 0 : fd; /* the CPU is offline */
	l = bpf_program__attach_perf_event(prog, fd); /* owns fd on success */
	if (!l) {
		int err = -errno;

		close(fd);
		return err;
	}
	s->fault_links[s->n_fault_links++] = l;
	return 0;
}

static int attach_faults(struct session *s)
{
	int cpus = libbpf_num_possible_cpus(), err = 0;

	s->fault_links = calloc((size_t)cpus * 2, sizeof(*s->fault_links));
	if (!s->fault_links)
		return -ENOMEM;
	for (int cpu = 0; cpu < cpus && !err; cpu++) {
		err = attach_fault_event(s, s->skel->progs.fault_minor, PERF_COUNT_SW_PAGE_FAULTS_MIN, cpu);
		if (!err)
			err = attach_fault_event(
				s, s->skel->progs.fault_major, PERF_COUNT_SW_PAGE_FAULTS_MAJ, cpu);
	}
	return err;
}

int session_attach(struct session *s)
{
	struct bpf_program *prog;
	int err = 0;

	bpf_object__for_each_program(prog, s->skel->obj) {
		const char *sec = bpf_program__section_name(prog);
		struct bpf_link *l;

		if (strncmp(sec, "tp_btf/", 7) || !bpf_program__autoload(prog))
			continue;
		l = bpf_program__attach(prog);
		if (!l) {
			err = -errno;
			log_error("cannot attach to %s: %s", sec + 7, strerror(-err));
			return err;
		}
		s->tp_links[s->n_tp_links++] = l;
	}
	if (bpf_program__autoload(s->skel->progs.fault_minor)) {
		err = attach_faults(s);
		if (err)
			log_error("cannot open the page fault events: %s (perf_event_paranoid, CAP_PERFMON)",
				strerror(-err));
	}
	return err;
}

struct attach *session_probes(struct session *s)
{
	return s->attach;
}

/* Runs a task iterator once over all tasks. */
static int run_iterator(struct bpf_program *prog)
{
	struct bpf_link *link = bpf_program__attach_iter(prog, NULL);
	char buf[64];
	ssize_t n = -1;
	int fd, err;

	if (!link)
		return -errno;
	fd = bpf_iter_create(bpf_link__fd(link));
	err = fd < 0 ? -errno : 0;
	while (!err && (n = read(fd, buf, sizeof(buf))) > 0)
		;
	if (!err && n < 0)
		err = -errno;
	if (fd >= 0)
		close(fd);
	bpf_link__destroy(link);
	return err;
}

int session_start(struct session *s, uint64_t *ret_boot_ns)
{
	volatile struct inf_stats *st = &s->skel->bss->stats;
	int err;

	err = run_iterator(s->skel->progs.snapshot_create);
	if (err) {
		log_error("cannot walk the tasks: %s", strerror(-err));
		return err;
	}
	st->start_ns = boot_ns();
	__atomic_store_n(&s->skel->bss->enabled, 1, __ATOMIC_RELEASE);
	err = run_iterator(s->skel->progs.snapshot_init);
	if (err) {
		log_error("cannot walk the tasks: %s", strerror(-err));
		return err;
	}
	*ret_boot_ns = st->start_ns;
	return 0;
}

/* A dying thread that has left the kernel's lists is out of reach for the task iterator: it ends its
 * spans itself, in its last switch. */
static void wait_for_dying(const struct session *s)
{
	for (int ms = 0; ms < DYING_WAIT_MS && session_stats(s)->dying; ms++)
		usleep(1000);
}

int session_stop(struct session *s)
{
	struct inftrace_bpf__bss *bss = s->skel->bss;
	int err;

	wait_for_dying(s);
	bss->stats.stop_ns = boot_ns();
	__atomic_store_n(&bss->closing, 1, __ATOMIC_RELEASE);
	__atomic_store_n(&bss->enabled, 0, __ATOMIC_RELEASE);
	err = run_iterator(s->skel->progs.snapshot_close);
	__atomic_store_n(&bss->closing, 0, __ATOMIC_RELEASE);
	return err;
}

int session_drain(struct session *s)
{
	return rings_drain(s->rings);
}

void session_drain_control(struct session *s)
{
	rings_drain_control(s->rings);
}

int session_control_fd(const struct session *s)
{
	return bpf_map__fd(s->skel->maps.control);
}

const volatile struct inf_stats *session_stats(const struct session *s)
{
	return &s->skel->bss->stats;
}

void session_lost(const struct session *s, uint64_t ret_lost[REC_KIND_MAX])
{
	const volatile struct inf_stats *st = session_stats(s);

	for (int k = 0; k < REC_KIND_MAX; k++) {
		ret_lost[k] = 0;
		for (unsigned int r = 0; r < s->n_rings; r++)
			ret_lost[k] += st->lost[r][k];
	}
}

int session_sums(const struct session *s, struct process_totals **ret_list, size_t *ret_n)
{
	return sums_read(bpf_map__fd(s->skel->maps.process_sums), bpf_map__fd(s->skel->maps.syscall_sums),
		ret_list, ret_n);
}

int session_calls(const struct session *s, struct process_call **ret_calls, size_t *ret_n)
{
	return sums_read_calls(bpf_map__fd(s->skel->maps.syscall_sums), ret_calls, ret_n);
}

int session_requests(const struct session *s)
{
	return requests_left(bpf_map__fd(s->skel->maps.connections), s->cb, s->cb_arg);
}

int session_sums_fd(const struct session *s)
{
	return bpf_map__fd(s->skel->maps.process_sums);
}

bool session_probe_hit(const struct session *s, uint32_t id)
{
	struct probe p;

	return !bpf_map_lookup_elem(bpf_map__fd(s->skel->maps.probes), &id, &p) && p.hit;
}
