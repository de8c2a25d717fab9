// SPDX-License-Identifier: BSD-2-Clause
#include "capture/session.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/membarrier.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "capture/hold.h"
#include "capture/perf_events.h"
#include "capture/preempt.h"
#include "capture/python.h"
#include "capture/ringbuf.h"
#include "capture/sums.h"
#include "capture/watch.h"
#include "hook_slot.h"
#include "inftrace.skel.h"
#include "probe.h"
#include "target/elf.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/names.h"
#include "wait_log.h"

/* Entries of the map of connections, 1.5 KB each. Each CPU takes free entries in batches of 128 (LOCAL_FREE_TARGET of
 * kernel/bpf/bpf_lru_list.c), which the others then lack: without room for these, entries in use would be evicted. */
#define CONNECTIONS_MAX(cpus) (1024 + 128 * (cpus))

/* System calls on sockets. Message calls take the connection as their first argument and return the number of bytes. */
static const struct {
	unsigned int nr;
	enum request_call request;
	enum message_call message;
} socket_calls[] = {
	{ SYS_read, REQUEST_CALL_READ, MESSAGE_CALL_RECEIVE },
	{ SYS_readv, REQUEST_CALL_READV, MESSAGE_CALL_RECEIVE },
	{ SYS_recvfrom, REQUEST_CALL_RECVFROM, MESSAGE_CALL_RECEIVE },
	{ SYS_recvmsg, REQUEST_CALL_RECVMSG, MESSAGE_CALL_RECEIVE },
	{ SYS_write, REQUEST_CALL_WRITE, MESSAGE_CALL_SEND },
	{ SYS_writev, REQUEST_CALL_WRITEV, MESSAGE_CALL_SEND },
	{ SYS_sendto, REQUEST_CALL_WRITE, MESSAGE_CALL_SEND },
	{ SYS_sendmsg, REQUEST_CALL_SENDMSG, MESSAGE_CALL_SEND },
	{ SYS_sendfile, REQUEST_CALL_NONE, MESSAGE_CALL_SEND },
	{ SYS_accept, REQUEST_CALL_ACCEPT, MESSAGE_CALL_NONE },
	{ SYS_accept4, REQUEST_CALL_ACCEPT, MESSAGE_CALL_NONE },
	{ SYS_close, REQUEST_CALL_CLOSE, MESSAGE_CALL_NONE },
};

/* Passes the requests in progress to the callback. The record is the first member of a connection. All at once: from one key to the
 * next, a connection that ends would begin the walk anew. -errno. */
static int requests_left(int connections_fd, record_cb cb, void *arg)
{
	struct bpf_map_info info = {};
	uint32_t len = sizeof(info), n, batch;
	char *keys, *values;
	int err;

	if (bpf_obj_get_info_by_fd(connections_fd, &info, &len))
		return -errno;
	n = info.max_entries;
	keys = xcalloc(n, info.key_size);
	values = xcalloc(n, info.value_size);
	err = bpf_map_lookup_batch(connections_fd, NULL, &batch, keys, values, &n, NULL) ? -errno : 0;
	for (uint32_t i = 0; (!err || err == -ENOENT) && i < n; i++) {
		struct rec_request *r = (struct rec_request *)(values + (size_t)i * info.value_size);

		r->h.flags |= r->writes && !(r->h.flags & REQUEST_F_HEADER_ONLY) ? REQUEST_F_END_UNSEEN : REC_F_OPEN_END;
		if (r->reads)
			cb(&r->h, sizeof(*r), arg);
	}
	free(keys);
	free(values);
	return err == -ENOENT ? 0 : err;
}

#define TRACEPOINT "tp_btf/"

static bool starts_with(const char *s, const char *prefix)
{
	return !strncmp(s, prefix, strlen(prefix));
}

/*
 * Marks the programs whose names begin with `prefix` to be loaded. Those whose names begin with
 * `optional` (NULL: none) are left out if the kernel lacks their tracepoint; for any other the
 * result is -EOPNOTSUPP, and one line that names the option is printed.
 */
static int group_load(struct bpf_object *obj, const char *prefix, const char *optional, const char *option)
{
	struct btf *btf = btf__load_vmlinux_btf();
	struct bpf_program *prog;
	int err = btf ? 0 : -errno;

	if (err)
		log_error("%s: cannot read the BTF of the kernel: %s", option, strerror(-err));
	bpf_object__for_each_program(prog, obj)
	{
		const char *name = bpf_program__name(prog);
		const char *tp = bpf_program__section_name(prog) + strlen(TRACEPOINT);
		char type[128];

		if (err || !starts_with(name, prefix))
			continue;
		snprintf(type, sizeof(type), "btf_trace_%s", tp);
		if (btf__find_by_name_kind(btf, type, BTF_KIND_TYPEDEF) > 0) {
			bpf_program__set_autoload(prog, true);
		} else if (!optional || !starts_with(name, optional)) {
			log_error("%s: this kernel has no tracepoint %s; leave it out", option, tp);
			err = -EOPNOTSUPP;
		}
	}
	btf__free(btf);
	return err;
}

/* Deletes all entries of a hash with keys of at most 8 bytes. */
static void map_clear(int fd)
{
	uint64_t key;

	while (!bpf_map_get_next_key(fd, NULL, &key)) {
		if (bpf_map_delete_elem(fd, &key))
			break;
	}
}

/* Overwrites all entries of an array with zeros. */
static void map_zero(int fd)
{
	struct bpf_map_info info = {};
	uint32_t len = sizeof(info);
	void *zero;

	if (bpf_obj_get_info_by_fd(fd, &info, &len))
		return;
	zero = xcalloc(1, info.value_size);
	for (uint32_t i = 0; i < info.max_entries; i++)
		bpf_map_update_elem(fd, &i, zero, BPF_ANY);
	free(zero);
}

/* Chooses the programs for samples and stacks. Call after session_configure(), which chooses the scheduler's. */
static void stacks_configure(struct inftrace_bpf *k, const struct session_config *c)
{
	bpf_program__set_autoload(k->progs.sample_cpu, c->sample_hz);
	bpf_program__set_autoload(k->progs.stacks_switch, c->stacks);
	bpf_program__set_autoload(k->progs.stacks_waking, c->stacks && bpf_program__autoload(k->progs.sched_waking));
	bpf_program__set_autoload(k->progs.stacks_waking_irq, c->stacks && bpf_program__autoload(k->progs.sched_waking_irq));
	bpf_program__set_autoload(k->progs.snapshot_waits, c->stacks);
	bpf_program__set_autoload(k->progs.sys_exit_stacks, c->stacks);
	bpf_map__set_autocreate(k->maps.sample_copies, c->sample_hz || c->stacks);
	bpf_map__set_max_entries(k->maps.sample_copies,
		bpf_map__max_entries(k->maps.sample_copies) * (unsigned int)libbpf_num_possible_cpus());
	bpf_map__set_autocreate(k->maps.python_processes, c->sample_hz || c->stacks);
}

#define STORAGE_TRIES 20
#define DYING_WAIT_MS 200 /* usually some microseconds; longer if the thread waits for a CPU */

static int print_libbpf(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	int min = level == LIBBPF_DEBUG ? 2 : 1;

	return log_level() >= min ? vfprintf(stderr, fmt, ap) : 0;
}

/* 8 MB hold a hundred thousand records, a tenth of a second of the worst storm. On large machines the
 * storm is spread over more CPUs, and all rings together stay at 128 MB; at 8 MB if the user has
 * limited the memory. */
static size_t default_ring_bytes(unsigned int rings, bool small)
{
	size_t bytes = 8 << 20, all = small ? 8 << 20 : 128 << 20, least = small ? 1 << 19 : 1 << 20;

	while (bytes * rings > all && bytes > least)
		bytes /= 2;
	return bytes;
}

static bool have_preempt_count(struct inftrace_bpf *k)
{
	int64_t off;

	if (preempt_count_offset(&off))
		return false;
	k->rodata->preempt_count_off = off;
	return true;
}

static bool hold_by_multi(const struct session_config *c)
{
	return c->uprobe_multi && (!c->hold_pid || c->uprobe_multi_pid);
}

/* The logs of all CPUs together, at most. An entry of each log is written for every switch: on a busy CPU some 10,000 a second. */
#define WAIT_LOG_BYTES (96u << 20)
#define WAIT_LOG_SHIFT_MAX 16

static void wait_log_configure(struct session *s, bool sched, bool steps)
{
	unsigned int cpus = sched ? (unsigned int)libbpf_num_possible_cpus() : 1, shift = sched && steps ? WAIT_LOG_SHIFT_MAX : 0;

	while (shift && ((uint64_t)cpus << shift) * (sizeof(struct ran) + sizeof(struct wake)) > WAIT_LOG_BYTES)
		shift--;
	s->skel->rodata->log_mask = (1u << shift) - 1;
	bpf_map__set_max_entries(s->skel->maps.wait_log_heads, cpus);
	bpf_map__set_max_entries(s->skel->maps.ran_log, cpus << shift);
	bpf_map__set_max_entries(s->skel->maps.wake_log, cpus << shift);
	if (!shift)
		bpf_map__set_max_entries(s->skel->maps.wakers, 1);
}

/* Whether links may be by process. */
static bool can_move_links(const struct session_config *c)
{
	return c->uprobe_multi && c->uprobe_multi_pid && !c->cfg.trace_all;
}

static void session_configure(struct session *s, const struct session_config *c)
{
	struct inf_config *cfg = &s->skel->rodata->cfg;
	struct inftrace_bpf *k = s->skel;
	struct bpf_program *const of_functions[] = { k->progs.function_entry, k->progs.function_return, k->progs.function_exit,
		k->progs.barrier_arrival, k->progs.python_entry };
	bool functions = c->probes && c->probes->n;
	bool preempt_count = have_preempt_count(k);

	*cfg = c->cfg;
	s->n_rings = rings_count((unsigned int)libbpf_num_possible_cpus(), &cfg->ring_shift);
	cfg->self_tgid = (uint32_t)getpid();
	cfg->map_nr = SYS_mmap;
	cfg->steps = functions;
	cfg->shapes = functions && probe_table_shapes(c->probes);
	cfg->count_strangers = can_move_links(c) && !c->finds;
	for (unsigned int i = 0; i < sizeof(cfg->sys_class); i++)
		cfg->sys_class[i] = (uint8_t)syscall_class(i) | (syscall_transfer(i) ? SYS_F_TRANSFER : 0);

	bpf_program__set_autoload(k->progs.sched_switch, c->cfg.track_sched);
	bpf_program__set_autoload(k->progs.sched_migrate, c->cfg.track_sched && functions);
	bpf_program__set_autoload(k->progs.sched_wakeup_new, c->cfg.track_sched && functions);
	wait_log_configure(s, c->cfg.track_sched, functions);
	bpf_program__set_autoload(k->progs.sched_waking, c->cfg.track_sched && !preempt_count);
	bpf_program__set_autoload(k->progs.sched_waking_irq, c->cfg.track_sched && preempt_count);
	bpf_program__set_autoload(k->progs.sys_enter, c->cfg.track_syscalls);
	bpf_program__set_autoload(k->progs.sys_exit, c->cfg.track_syscalls && !c->stacks);
	faults_configure(k, c->fault_ends, c->stacks);
	for (size_t i = 0; i < sizeof(of_functions) / sizeof(of_functions[0]); i++) {
		bpf_program__set_autoload(of_functions[i], functions);
		if (c->uprobe_multi)
			bpf_program__set_expected_attach_type(of_functions[i], ATTACH_UPROBE_MULTI);
	}
	watches_configure(k, c->probes, can_move_links(c) && c->watchpoints);
	bpf_program__set_autoload(k->progs.node_entry, c->cfg.emit_mask & 1u << REC_NODE);
	if (c->uprobe_multi)
		bpf_program__set_expected_attach_type(k->progs.node_entry, ATTACH_UPROBE_MULTI);
	bpf_map__set_autocreate(k->maps.node_rooms, c->cfg.emit_mask & 1u << REC_NODE);
	bpf_program__set_autoload(k->progs.hook_joins, c->cfg.hooks);
	if (!c->cfg.hooks) {
		bpf_map__set_max_entries(k->maps.hook_slots, 1);
		bpf_map__set_max_entries(k->maps.hook_processes, 1);
	}
	bpf_program__set_autoload(k->progs.hold_loader, c->cfg.hold);
	bpf_program__set_autoload(k->progs.snapshot_peek, c->peek);
	if (hold_by_multi(c))
		bpf_program__set_expected_attach_type(k->progs.hold_loader, ATTACH_UPROBE_MULTI);
	bpf_map__set_max_entries(k->maps.rings, s->n_rings);
	if (!functions) {
		bpf_map__set_max_entries(k->maps.probes, 1);
		bpf_map__set_max_entries(k->maps.engine_steps, 1);
	}
	if (!c->cfg.hold) {
		bpf_map__set_max_entries(k->maps.holds, 1);
		bpf_map__set_max_entries(k->maps.holds_done, 1);
	}
}

/* Configures what is loaded on demand. */
static int configure_groups(struct session *s, const struct session_config *c)
{
	struct inf_config *cfg = &s->skel->rodata->cfg;
	struct inftrace_bpf *k = s->skel;
	struct timespec tick;
	bool hands = false;
	int err = 0;

	for (size_t i = 0; c->probes && i < c->probes->n && c->cfg.track_sched; i++)
		hands |= c->probes->specs[i].sent_function != NULL;
	if (!hands) {
		bpf_map__set_max_entries(k->maps.handings, 1);
		bpf_map__set_max_entries(k->maps.handed_log, 1);
	}

	if (!c->cfg.sums && !c->cfg.memory)
		bpf_map__set_max_entries(k->maps.process_sums, 1);
	if (!c->cfg.sums)
		bpf_map__set_max_entries(k->maps.syscall_sums, 1);
	bpf_map__set_max_entries(k->maps.connections, c->requests ? CONNECTIONS_MAX((unsigned int)libbpf_num_possible_cpus()) : 1);
	for (size_t i = 0; i < sizeof(socket_calls) / sizeof(socket_calls[0]); i++) {
		k->rodata->request_calls[socket_calls[i].nr] = (uint8_t)socket_calls[i].request;
		k->rodata->message_calls[socket_calls[i].nr] = (uint8_t)socket_calls[i].message;
	}
	clock_getres(CLOCK_MONOTONIC_COARSE, &tick);
	k->rodata->tick_ns = (uint64_t)tick.tv_nsec;
	bpf_program__set_autoload(k->progs.requests_exit, c->requests);
	bpf_program__set_autoload(k->progs.requests_packet, c->requests);
	bpf_program__set_autoload(k->progs.messages_exit, c->messages);
	if (hands)
		err = group_load(k->obj, "handed_", "handed_", "a preset");
	if (!err && c->cfg.track_irq)
		err = group_load(k->obj, "irq_", "irq_vector_", "-e irq");
	if (!err && c->cfg.memory) {
		err = group_load(k->obj, have_preempt_count(k) ? "memory_task_" : "memory_any_", NULL,
			"-e memory");
		if (!err)
			err = group_load(k->obj, "memory_rss", NULL, "-e memory");
	}
	bpf_program__set_autoload(k->progs.sums_process_exit, c->cfg.sums || c->cfg.memory);
	if (err || !c->cfg.ipc)
		return err;
	s->eventfd = eventfd(0, EFD_CLOEXEC);
	if (s->eventfd < 0)
		return log_fail(-errno, "cannot open an eventfd: %s", strerror(errno));
	cfg->eventfd = (uint32_t)s->eventfd;
	return 0;
}

/* Maps an array that the programs write. Returns MAP_FAILED on failure. */
static void *map_array(const struct bpf_map *map)
{
	return mmap(NULL, (size_t)bpf_map__max_entries(map) * bpf_map__value_size(map), PROT_READ, MAP_SHARED, bpf_map__fd(map), 0);
}

static int wait_log_map(struct session *s)
{
	const struct inftrace_bpf *k = s->skel;
	struct wait_log *l = &s->wait_log;

	if (!k->rodata->log_mask)
		return 0;
	l->cpus = bpf_map__max_entries(k->maps.wait_log_heads);
	l->shift = (unsigned int)__builtin_popcount(k->rodata->log_mask);
	l->ran = map_array(k->maps.ran_log);
	l->wakes = map_array(k->maps.wake_log);
	l->heads = map_array(k->maps.wait_log_heads);
	l->collections = map_array(k->maps.collections);
	l->n_collections = &k->bss->n_collections;
	l->handed = map_array(k->maps.handed_log);
	l->n_handed = &k->bss->n_handed;
	if (l->handed == MAP_FAILED || l->ran == MAP_FAILED || l->collections == MAP_FAILED || l->wakes == MAP_FAILED || l->heads == MAP_FAILED)
		return log_fail(-errno, "cannot map the logs of the CPUs: %s", strerror(errno));
	return 0;
}

static void wait_log_unmap(struct session *s)
{
	const struct wait_log *l = &s->wait_log;
	size_t n = (size_t)l->cpus << l->shift;

	if (l->ran && l->ran != MAP_FAILED)
		munmap((void *)l->ran, n * sizeof(*l->ran));
	if (l->wakes && l->wakes != MAP_FAILED)
		munmap((void *)l->wakes, n * sizeof(*l->wakes));
	if (l->heads && l->heads != MAP_FAILED)
		munmap((void *)l->heads, l->cpus * sizeof(*l->heads));
	if (l->collections && l->collections != MAP_FAILED)
		munmap((void *)l->collections, COLLECTIONS_MAX * sizeof(*l->collections));
	if (l->handed && l->handed != MAP_FAILED)
		munmap((void *)l->handed, bpf_map__max_entries(s->skel->maps.handed_log) * sizeof(*l->handed));
}

static int load_error(int err)
{
	if (err == -EPERM)
		log_error("the kernel does not allow BPF programs to be loaded; run as root or with CAP_BPF, "
			  "CAP_PERFMON and CAP_SYS_PTRACE");
	else
		log_error("the kernel refused the BPF programs: %s; inftrace doctor says what is missing, "
			  "-v shows the kernel's messages",
			strerror(-err));
	return err == -EPERM ? err : -EOPNOTSUPP;
}

static struct attach *open_attach(struct session *s, const struct session_config *c)
{
	struct attach_config a = {
		.probes = c->probes,
		.inspector = c->inspector,
		.probes_fd = bpf_map__fd(s->skel->maps.probes),
		.python_calls_fd = bpf_map__fd(s->skel->maps.python_calls),
		.python_values_fd = bpf_map__fd(s->skel->maps.python_values),
		.programs = {
			[LINK_RETURN] = s->skel->progs.function_return,
			[LINK_EXIT] = s->skel->progs.function_exit,
			[LINK_PYTHON_EXIT] = s->skel->progs.function_exit,
			[LINK_PYTHON_ENTRY] = s->skel->progs.python_entry,
			[LINK_ENTRY] = s->skel->progs.function_entry,
			[LINK_ARRIVAL] = s->skel->progs.barrier_arrival,
			[LINK_NODE] = s->skel->progs.node_entry,
		},
		.multi = c->uprobe_multi,
		.states_only = c->states_only,
		.windows = c->cfg.windows,
		.sheds = c->cfg.budget,
		.hooks = c->cfg.hooks,
	};

	if (can_move_links(c))
		a.link_gens = &s->skel->bss->link_gens;
	return attach_new(&a);
}

/* The two clocks drift apart only while the machine is suspended. */
static void session_follow_clock(struct session *s)
{
	volatile uint64_t *offset = (volatile uint64_t *)&s->skel->bss->boot_offset;
	uint64_t now = (uint64_t)clock_boot_offset_ns(&s->clock_shift);

	/* modulo 2^64, as the programs add it: a time namespace may turn a clock back */
	if (now - *offset + NSEC_PER_MSEC > 2 * NSEC_PER_MSEC)
		*offset = now;
}

int session_open(const struct session_config *c, struct session **ret_session)
{
	struct session *s = xcalloc(1, sizeof(*s));
	int err, template_fd = -1;
	size_t ring_bytes;

	s->eventfd = -1;
	s->clock_shift = clock_shift_read();
	s->cb = c->cb;
	s->cb_arg = c->cb_arg;
	s->pythons = c->pythons;
	libbpf_set_print(print_libbpf);
	s->skel = inftrace_bpf__open();
	if (!s->skel) {
		err = load_error(-errno);
		goto out;
	}
	session_configure(s, c);
	s->sample_hz = c->sample_hz;
	stacks_configure(s->skel, c);
	err = configure_groups(s, c) ?: pmu_new(c->counters, s->skel, &s->pmu);
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
	if (s->pythons)
		pythons_bind(s->pythons, bpf_map__fd(s->skel->maps.python_runtimes), bpf_map__fd(s->skel->maps.python_processes),
			&s->skel->bss->python_known);
	ring_bytes = c->ring_bytes ? c->ring_bytes : default_ring_bytes(s->n_rings, c->peek);
	err = rings_create(s->skel->maps.rings, s->skel->maps.control, s->n_rings, ring_bytes, c->cb,
		c->cb_arg, &s->rings);
	if (err) {
		log_error("cannot create %u ring buffers of %zu bytes: %s; try a smaller --ring-size",
			s->n_rings, ring_bytes, strerror(-err));
		goto out;
	}
	session_follow_clock(s);
	err = wait_log_map(s) ?: pmu_bind(s->pmu, s->skel);
	if (err)
		goto out;
	s->attach = open_attach(s, c);
	err = watches_new(s->skel, s->attach->links, c->probes, &s->watches);
	if (err) {
		log_error("cannot map the watched functions: %s", strerror(-err));
		goto out;
	}
	if (c->cfg.hold)
		s->hold = hold_new(&(struct hold_config){
			.prog = s->skel->progs.hold_loader,
			.multi = hold_by_multi(c),
			.pid = c->hold_pid,
			.holds_fd = bpf_map__fd(s->skel->maps.holds),
			.done_fd = bpf_map__fd(s->skel->maps.holds_done),
		});
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
	bpf_link__destroy(s->hooks);
	hold_free(s->hold);
	watches_free(s->watches);
	attach_free(s->attach);
	for (size_t i = 0; i < s->n_tps; i++)
		bpf_link__destroy(s->tps[i].link);
	program_events_free(s->faults);
	program_events_free(s->sampler);
	pmu_free(s->pmu);
	rings_free(s->rings);
	if (s->eventfd >= 0)
		close(s->eventfd);
	wait_log_unmap(s);
	inftrace_bpf__destroy(s->skel);
	free(s);
}

int session_hooks_attach(struct session *s, const char *path, const char *function)
{
	struct elf_file *elf = NULL;
	struct elf_symbol sym;
	int err = elf_open(path, &elf) ?: elf_find_symbol(elf, function, &sym);

	if (!err) {
		s->hooks = bpf_program__attach_uprobe(s->skel->progs.hook_joins, false, -1, path, sym.offset);
		err = s->hooks ? 0 : -errno;
	}
	elf_close(elf);
	return err ? log_fail(err, "cannot probe %s: %s", path, strerror(-err)) : 0;
}

int session_hooks_add(struct session *s, uint32_t tgid, uint32_t index, size_t bytes, int *ret_fd, void **ret_slots)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = BPF_F_MMAPABLE | BPF_F_INNER_MAP);
	uint32_t number = index + 1;
	void *slots = MAP_FAILED;
	int fd, err;

	fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "hook_slots", sizeof(uint32_t), sizeof(struct hook_slot), (uint32_t)(bytes / sizeof(struct hook_slot)), &opts);
	if (fd < 0)
		return -errno;
	slots = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	err = slots == MAP_FAILED || bpf_map_update_elem(bpf_map__fd(s->skel->maps.hook_slots), &index, &fd, BPF_ANY) ||
			      bpf_map_update_elem(bpf_map__fd(s->skel->maps.hook_processes), &tgid, &number, BPF_ANY)
		      ? -errno
		      : 0;
	if (err) {
		if (slots != MAP_FAILED)
			munmap(slots, bytes);
		close(fd);
		return err;
	}
	*ret_fd = fd;
	*ret_slots = slots;
	return 0;
}

void session_hooks_remove(struct session *s, uint32_t tgid, uint32_t index)
{
	bpf_map_delete_elem(bpf_map__fd(s->skel->maps.hook_processes), &tgid);
	bpf_map_delete_elem(bpf_map__fd(s->skel->maps.hook_slots), &index);
}

int session_target(struct session *s, pid_t tgid)
{
	uint32_t key = (uint32_t)tgid;
	uint8_t one = 1;

	return bpf_map_update_elem(bpf_map__fd(s->skel->maps.targets), &key, &one, BPF_ANY) ? -errno : 0;
}

void session_target_gone(struct session *s, pid_t tgid)
{
	uint32_t key = (uint32_t)tgid;

	bpf_map_delete_elem(bpf_map__fd(s->skel->maps.targets), &key);
}

static int tracepoint_attach(struct tracepoint *tp)
{
	tp->link = bpf_program__attach(tp->prog);
	if (tp->link)
		return 0;
	return log_fail(-errno, "cannot attach to %s: %s", strchr(bpf_program__section_name(tp->prog), '/') + 1, strerror(errno));
}

int session_attach(struct session *s)
{
	struct bpf_program *prog;
	int err = 0;

	bpf_object__for_each_program(prog, s->skel->obj)
	{
		const char *sec = bpf_program__section_name(prog);
		struct tracepoint *tp = &s->tps[s->n_tps];

		/* attached by name, without perf_event_open(2): tracepoints, and returns of the kernel's functions */
		if ((!starts_with(sec, TRACEPOINT) && !starts_with(sec, "fexit/")) || !bpf_program__autoload(prog))
			continue;
		/* these follow the life of tasks, also in closed windows */
		*tp = (struct tracepoint){ .prog = prog, .always = starts_with(sec, TRACEPOINT "sched_process_") || !strcmp(sec, TRACEPOINT "task_rename") };
		err = tracepoint_attach(tp);
		if (err)
			return err;
		s->n_tps++;
	}
	err = faults_attach(s->skel, &s->faults);
	if (!err && s->sample_hz)
		err = sampler_new(s->skel->progs.sample_cpu, s->sample_hz, &s->sampler);
	return err;
}

static int walk_tasks(struct bpf_program *prog)
{
	int err = snapshot_run(prog);

	if (err)
		log_error("cannot walk the tasks: %s", strerror(-err));
	return err;
}

/* The kernel refuses storage while another program on that CPU, which was preempted, is using it: a
 * moment later it is available (kernel/bpf/bpf_task_storage.c). */
int session_watch(struct session *s)
{
	volatile uint64_t *refused = (volatile uint64_t *)&s->skel->bss->stats.no_storage;
	uint64_t before = *refused;
	int err = 0;

	for (int i = 0; i < STORAGE_TRIES && !err; i++) {
		*refused = before;
		err = walk_tasks(s->skel->progs.snapshot_create);
		if (*refused == before)
			break;
		usleep(1000);
	}
	return err;
}

static void set_events(struct session *s, bool on)
{
	program_events_set(s->faults, on);
	program_events_set(s->sampler, on);
	watches_set(s->watches, on);
	pmu_set(s->pmu, on);
}

void session_idle(struct session *s)
{
	if (s->idle)
		return;
	s->idle = true;
	links_idle(s->attach->links);
	for (size_t i = 0; i < s->n_tps; i++) {
		if (s->tps[i].always)
			continue;
		bpf_link__destroy(s->tps[i].link);
		s->tps[i].link = NULL;
	}
	set_events(s, false);
}

static void report_missing_probes(int err)
{
	if (err)
		log_warn("cannot attach all function probes again: %s", strerror(-err));
}

void session_hooks_detach(struct session *s, bool off)
{
	report_missing_probes(links_shed(s->attach->links, LINK_WHEN_BARRIERS, off));
}

int session_wake(struct session *s)
{
	int err = 0;

	if (!s->idle)
		return 0;
	for (size_t i = 0; i < s->n_tps && !err; i++) {
		if (!s->tps[i].link)
			err = tracepoint_attach(&s->tps[i]);
	}
	if (err)
		return err;
	set_events(s, true);
	s->idle = false;
	report_missing_probes(links_wake(s->attach->links));
	return 0;
}

int session_start(struct session *s, uint64_t *ret_boot_ns)
{
	volatile struct inf_stats *st = &s->skel->bss->stats;
	int err;

	err = session_wake(s);
	if (err)
		return err;
	if (s->skel->rodata->cfg.windows) { /* clears the sums of the previous one */
		st->dying = 0;
		map_clear(bpf_map__fd(s->skel->maps.process_sums));
		map_clear(bpf_map__fd(s->skel->maps.syscall_sums));
		map_clear(bpf_map__fd(s->skel->maps.connections));
		map_zero(bpf_map__fd(s->skel->maps.groups));
	}
	err = session_watch(s);
	if (err)
		return err;
	st->steps = 0;
	s->skel->bss->pmu_epoch++;
	session_follow_clock(s);
	st->start_ns = clock_boot_ns();
	__atomic_store_n(&s->skel->bss->enabled, 1, __ATOMIC_RELEASE);
	err = walk_tasks(s->skel->progs.snapshot_init);
	if (err)
		return err;
	*ret_boot_ns = st->start_ns;
	return 0;
}

bool session_over(const struct session *s)
{
	return __atomic_load_n(&s->skel->bss->closing, __ATOMIC_ACQUIRE);
}

int session_stop(struct session *s, uint64_t *ret_boot_ns)
{
	const struct inf_config *cfg = &s->skel->rodata->cfg;
	struct inftrace_bpf__bss *bss = s->skel->bss;
	bool over;
	int err;

	/* The task iterator cannot reach a dying thread that has left the kernel's lists: such a thread ends its spans itself,
	 * in its last switch. */
	for (int ms = 0; !session_over(s) && ms < DYING_WAIT_MS && (int32_t)session_stats(s)->dying > 0; ms++)
		usleep(1000);
	over = __atomic_exchange_n(&bss->closing, 1, __ATOMIC_ACQ_REL);
	if (!over) {
		bss->stats.stop_ns = clock_boot_ns();
		__atomic_store_n(&bss->enabled, 0, __ATOMIC_RELEASE);
	}
	/* Waits until programs that saw the window open have finished: all of them run within sections that a grace period
	 * waits for, and this call waits for one (kernel/sched/membarrier.c; with nohz_full CPUs it is an error, but programs
	 * take only some microseconds). */
	if (cfg->windows || over || (cfg->sums && !cfg->sums_live)) /* the threads keep their sums until the end */
		syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
	*ret_boot_ns = bss->stats.stop_ns;
	err = snapshot_waiting(s->skel->progs.snapshot_waits, &bss->waits_until, bss->stats.stop_ns);
	if (!err)
		err = snapshot_run(s->skel->progs.snapshot_close);
	__atomic_store_n(&bss->closing, 0, __ATOMIC_RELEASE);
	return err;
}

/* The kinds of records that a part consists of; 0: probes. */
static const uint32_t kinds_of[SHED_PARTS] = {
	[SHED_SAMPLES] = 1u << REC_SAMPLE,
	[SHED_SYSCALLS] = 1u << REC_SYSCALL,
	[SHED_TIMELINE] = 1u << REC_OFF_CPU | 1u << REC_ON_CPU | 1u << REC_FAULT | 1u << REC_IRQ | 1u << REC_FUNCTION,
};

/* When turning on, the programs learn of it last: from then on they see all calls. */
static void shed_probes(struct session *s, enum shed_part part, bool off, uint64_t *ret_boot_ns)
{
	volatile struct shed_state *st = (volatile struct shed_state *)&s->skel->bss->sheds[part];
	enum link_when when = part == SHED_BARRIERS ? LINK_WHEN_BARRIERS : LINK_WHEN_OPERATORS;

	if (!off)
		report_missing_probes(links_shed(s->attach->links, when, false));
	else
		st->off_ns = *ret_boot_ns = clock_boot_ns();
	__atomic_store_n(&st->changes, st->changes + 1, __ATOMIC_RELEASE);
	if (off)
		links_shed(s->attach->links, when, true);
	else
		*ret_boot_ns = clock_boot_ns();
}

void session_shed(struct session *s, enum shed_part part, bool off, uint64_t *ret_boot_ns)
{
	uint32_t kinds = s->skel->bss->kinds_off, of = kinds_of[part];

	if (!of) {
		shed_probes(s, part, off, ret_boot_ns);
		return;
	}
	*ret_boot_ns = clock_boot_ns();
	__atomic_store_n(&s->skel->bss->kinds_off, off ? kinds | of : kinds & ~of, __ATOMIC_RELEASE);
	if (!off)
		*ret_boot_ns = clock_boot_ns();
}

uint32_t session_parts(const struct session *s)
{
	uint32_t parts = s->attach->parts;

	for (int part = 0; part < SHED_PARTS; part++) {
		if (s->skel->rodata->cfg.emit_mask & kinds_of[part])
			parts |= 1u << part;
	}
	return parts;
}

bool session_shedding(const struct session *s)
{
	return links_closing(s->attach->links);
}

int session_peek(struct session *s, record_cb cb, peek_cb thread_cb, void *arg)
{
	int err = snapshot_peek(s->skel->progs.snapshot_peek, cb, thread_cb, arg);

	return err ?: requests_left(bpf_map__fd(s->skel->maps.connections), cb, arg);
}

int session_peek_waits(struct session *s)
{
	struct inftrace_bpf__bss *bss = s->skel->bss;

	return bss->enabled ? snapshot_waiting(s->skel->progs.snapshot_waits, &bss->waits_until, clock_boot_ns()) : 0;
}

int session_drain(struct session *s)
{
	session_follow_clock(s);
	return rings_drain(s->rings);
}

unsigned int session_fill(const struct session *s)
{
	return rings_fill(s->rings);
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

void session_hits(const struct session *s, struct hit_time ret_times[HIT_MAX])
{
	const volatile struct inf_stats *st = session_stats(s);

	memset(ret_times, 0, HIT_MAX * sizeof(*ret_times));
	for (unsigned int r = 0; r < s->n_rings; r++) {
		for (int k = 0; k < HIT_MAX; k++) {
			ret_times[k].n += st->hits[r].kind[k].n;
			ret_times[k].ns += st->hits[r].kind[k].ns;
		}
	}
}

uint64_t session_sample_ns(const struct session *s, uint64_t *ret_period_ns)
{
	const volatile struct inf_stats *st = session_stats(s);
	uint64_t n = st->samples;

	*ret_period_ns = s->sample_hz ? sampler_period_ns(s->sample_hz) : 0;
	return n ? st->sample_ns / n : 0;
}

struct process_totals *session_sums(const struct session *s, size_t *ret_n)
{
	return sums_read(bpf_map__fd(s->skel->maps.process_sums), bpf_map__fd(s->skel->maps.syscall_sums), ret_n);
}

struct process_call *session_calls(const struct session *s, size_t *ret_n)
{
	return sums_read_calls(bpf_map__fd(s->skel->maps.syscall_sums), ret_n);
}

struct counters session_counters(const struct session *s)
{
	return pmu_counters(s->pmu);
}

int session_requests(const struct session *s)
{
	return requests_left(bpf_map__fd(s->skel->maps.connections), s->cb, s->cb_arg);
}

const struct wait_log *session_wait_log(const struct session *s)
{
	return s->wait_log.cpus ? &s->wait_log : NULL;
}

bool session_fd_name(const void *session, uint64_t key, struct fd_name *ret)
{
	const struct session *s = session;

	return !bpf_map__lookup_elem(s->skel->maps.fd_names, &key, sizeof(key), ret, sizeof(*ret), 0);
}

int session_engine_steps_fd(const struct session *s)
{
	return bpf_map__fd(s->skel->maps.engine_steps);
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
