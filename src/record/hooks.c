// SPDX-License-Identifier: BSD-2-Clause
#include "record/hooks.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/listener.h"
#include "gpu/inject.h"
#include "hook/hand_over.h"
#include "hook/ring.h"
#include "sink/sink.h"
#include "target/process.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/passing.h"

#define SLOTS_BYTES (sizeof(struct hook_slot) * (1 + HOOK_SLOTS))
#define RINGS_BYTES (sizeof(struct hook_ring) * (1 + HOOK_SLOTS))
#define LOAD_NS (12 * NSEC_PER_SEC) /* for the injection, which has its own limits, and the connection */
#define PLACE_MS 5000               /* for the agent to place its hooks */
#define PAUSE_MS 1
#define PRELOAD "LD_PRELOAD" /* read by the dynamic linker: a colon-separated list */
#define HOOK_NS_MAX 1000            /* what a process may claim that a hook takes */
#define CLOCK_TRIES 20
#define CLOCK_FIRST_NS (10 * NSEC_PER_MSEC) /* the first estimate of the counter's rate */
#define CLOCK_SPAN_NS NSEC_PER_SEC          /* later ones: over at least this */
#define CLOCK_SOURCE "/sys/devices/system/clocksource/clocksource0/current_clocksource"

/* The CPU's counter and CLOCK_BOOTTIME at one instant. */
struct pair {
	uint64_t tsc, ns;
};

struct hooked_process {
	pid_t pid;
	int fd;                  /* of the connection; 0: there is no process here */
	int map_fd;              /* the slots */
	struct hook_slot *slots; /* NULL: not handed over */
	int rings_fd;            /* 0: calls are not wanted */
	struct hook_ring *rings; /* as many as slots; of its file there is only what is in use. NULL: likewise */
	uint64_t *taken;         /* from each ring, so far */
	uint64_t latest_ns;      /* what is known of it last */
	bool covered;            /* all its calls are seen */
	bool worked;             /* and it has made a step since */
	bool told;               /* its threads tell of themselves again, now that they are recorded */
};

struct hooks {
	struct capture *c;
	struct agent_listener listener;
	int (*keep_up)(void *arg); /* called while it waits */
	void *keep_up_arg;
	char library[PATH_MAX];
	char *environment[3]; /* what a COMMAND needs; ends with NULL */
	bool off;             /* the clock is of another kind */
	void (*take)(const struct rec_hdr *h, size_t size, void *arg); /* NULL: calls are not wanted one by one */
	void *arg;
	const struct window_totals *window; /* NULL: none is open */
	struct hook_order order;
	uint32_t specs[HOOK_FUNCTIONS]; /* of which probe they are */
	struct hooked_process processes[HOOK_PROCESSES];
	bool instead;  /* of probes, which no process has for barriers */
	bool detached; /* the probes that processes have are off */
	bool mixed;    /* a process without hooks has made steps: the probes stay */
	bool said_unseen;
	uint64_t calls, begun, ns, full; /* of processes that have ended; ns: on the CPU; begun: operators */
	uint64_t lost;
	bool placed; /* in any process */
	struct pair first; /* the rate is of the time since then */
	uint64_t mult;
};

/* ---- the clock ---- */

static uint64_t counter_read(void)
{
#ifdef __x86_64__
	return __builtin_ia32_rdtsc();
#else
	return 0;
#endif
}

static struct pair pair_read(void)
{
	uint64_t before, after, ns, least = UINT64_MAX;
	struct pair best = { 0 };

	for (int i = 0; i < CLOCK_TRIES; i++) {
		before = counter_read();
		ns = clock_boot_ns();
		after = counter_read();
		if (after - before >= least)
			continue;
		least = after - before;
		best = (struct pair){ before + least / 2, ns };
	}
	return best;
}

static void clock_publish(const struct hooks *h, struct hooks_head *head, const struct pair *now)
{
	uint32_t changes = __atomic_load_n(&head->changes, __ATOMIC_RELAXED) + 1, i = changes & 1;

	__atomic_store_n(&head->clock[i].tsc, now->tsc, __ATOMIC_RELAXED);
	__atomic_store_n(&head->clock[i].ns, now->ns, __ATOMIC_RELAXED);
	__atomic_store_n(&head->clock[i].mult, h->mult, __ATOMIC_RELAXED);
	__atomic_store_n(&head->changes, changes, __ATOMIC_RELEASE);
}

/* Takes the rate since the first pair. */
static struct pair clock_follow(struct hooks *h)
{
	struct pair now = pair_read();
	uint64_t ns = now.ns - h->first.ns, tsc = now.tsc - h->first.tsc;

	if (now.tsc <= h->first.tsc || now.ns <= h->first.ns) { /* the machine was suspended */
		h->first = now;
		return now;
	}
	h->mult = (uint64_t)(((unsigned __int128)ns << 32) / tsc);
	if (ns > 2 * CLOCK_SPAN_NS && h->mult) /* the kernel changes the rate now and then */
		h->first = (struct pair){ now.tsc - (uint64_t)(((unsigned __int128)CLOCK_SPAN_NS << 32) / h->mult), now.ns - CLOCK_SPAN_NS };
	return now;
}

/* Whether the kernel's clocks are the CPUs' counters. */
static bool clock_is_counter(char source[64])
{
	static const char *const good[] = { "tsc", "kvm-clock", "hyperv_clocksource_tsc_page" };
	FILE *f = fopen(CLOCK_SOURCE, "re");

	*source = '\0';
	if (f && fgets(source, 64, f))
		source[strcspn(source, "\n")] = '\0';
	if (f)
		fclose(f);
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		if (!strcmp(source, good[i]))
			return true;
	}
	return false;
}

/* ---- calls ---- */

/* What the process says: of its own threads, at most. */
static void entry_pass(const struct hooks *h, struct hooked_process *p, const struct hook_entry *e, uint64_t end_ns, uint8_t flags)
{
	uint64_t until_ns = h->window->close_ns ? h->window->close_ns : UINT64_MAX;
	const struct probe_spec *s;
	struct rec_function r;

	if (end_ns > p->latest_ns)
		p->latest_ns = end_ns;
	if (e->function >= h->order.n || !e->tid || e->start < h->window->open_ns || e->start >= until_ns || end_ns < e->start)
		return;
	s = &h->c->probes.specs[h->specs[e->function]];
	if (end_ns > until_ns) {
		end_ns = until_ns;
		flags |= REC_F_OPEN_END;
	}
	r.h = (struct rec_hdr){
		.start_ns = e->start,
		.dur_ns = end_ns - e->start,
		.tgid = (uint32_t)p->pid,
		.tid = e->tid,
		.kind = REC_FUNCTION,
		.flags = flags,
		.id = h->specs[e->function],
	};
	r.off_cpu_ns = 0;
	r.step = e->step;
	r.vals[0] = e->value;
	h->take(&r.h, REC_FUNCTION_SIZE(probe_spec_values(s)), h->arg);
}

/* Takes what has been added to a ring. Returns how much was lost. */
static uint64_t ring_drain(const struct hooks *h, struct hooked_process *p, uint32_t slot)
{
	const struct hook_ring *ring = &p->rings[slot];
	uint64_t n = __atomic_load_n(&ring->n, __ATOMIC_ACQUIRE), at = p->taken[slot], lost = 0;
	struct hook_entry e;

	if (n < at) /* the process has changed it */
		at = n;
	if (n - at > HOOK_RING) {
		lost = n - at - HOOK_RING;
		at = n - HOOK_RING;
	}
	for (; at < n; at++) {
		e = ring->entries[at % HOOK_RING];
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		/* its place is that of the entry that is being written */
		if (__atomic_load_n(&ring->n, __ATOMIC_RELAXED) - at >= HOOK_RING)
			lost++;
		else
			entry_pass(h, p, &e, e.start + e.dur, 0);
	}
	p->taken[slot] = n;
	return lost;
}

/* What a thread had in flight when the window closed or, as far as it is known, its process ended. */
static void slot_cut(const struct hooks *h, struct hooked_process *p, uint32_t slot)
{
	const struct hook_slot *s = &p->slots[slot];
	struct hook_entry e = p->rings[slot].op;
	uint64_t end_ns = h->window->close_ns ? h->window->close_ns : p->latest_ns;

	if (e.start)
		entry_pass(h, p, &e, e.dur ? e.start + e.dur : end_ns, e.dur ? 0 : REC_F_OPEN_END);
	e = (struct hook_entry){ .start = s->began[s->met & 1], .function = p->rings[slot].barrier, .step = s->work, .tid = s->tid };
	if (s->calls & 1 && s->taken)
		entry_pass(h, p, &e, end_ns > e.start ? end_ns : e.start, REC_F_OPEN_END);
}

static void process_drain(struct hooks *h, struct hooked_process *p, bool over)
{
	uint32_t used = p->rings ? __atomic_load_n(&((const struct hooks_head *)p->slots)->used, __ATOMIC_RELAXED) : 0;

	if (!h->window)
		return;
	used = used < HOOK_SLOTS ? used : HOOK_SLOTS;
	for (uint32_t k = 1; k <= used; k++)
		h->lost += ring_drain(h, p, k);
	for (uint32_t k = 1; over && k <= used; k++)
		slot_cut(h, p, k);
}

void hooks_drain(struct hooks *h, bool over)
{
	for (struct hooked_process *p = h->processes; p < h->processes + HOOK_PROCESSES; p++)
		process_drain(h, p, over);
}

void hooks_window(struct hooks *h, const struct window_totals *window)
{
	h->window = window;
}

static struct hooked_process *process_find(const struct hooks *h, uint32_t pid)
{
	for (const struct hooked_process *p = h->processes; p < h->processes + HOOK_PROCESSES; p++) {
		if (p->fd && (uint32_t)p->pid == pid)
			return (struct hooked_process *)p;
	}
	return NULL;
}

/* The earliest instant within a time that is known. */
struct earliest {
	uint64_t from_ns, to_ns, ns;
};

static void earliest_look(struct earliest *e, uint64_t ns)
{
	if (ns > e->from_ns && ns < e->to_ns && (!e->ns || ns < e->ns))
		e->ns = ns;
}

/* Of the calls in one ring, the latest ones first, which are in order but for operators. */
static void ring_look(const struct hook_ring *ring, struct earliest *e)
{
	uint64_t n = __atomic_load_n(&ring->n, __ATOMIC_ACQUIRE);
	unsigned int before = 0;

	earliest_look(e, ring->op.start);
	for (uint64_t i = 1; i < HOOK_RING && i <= n && before < 4; i++) {
		const struct hook_entry *entry = &ring->entries[(n - i) % HOOK_RING];

		earliest_look(e, entry->start);
		earliest_look(e, entry->start + entry->dur);
		before += entry->start + entry->dur < e->from_ns;
	}
}

uint64_t hooks_ran_ns(const struct hooks *h, const struct rec_off_cpu *r)
{
	const struct hooked_process *p = process_find(h, r->h.tgid);
	struct earliest e = { .from_ns = r->h.start_ns, .to_ns = r->h.start_ns + r->h.dur_ns };
	uint32_t used = p && p->rings ? __atomic_load_n(&((const struct hooks_head *)p->slots)->used, __ATOMIC_RELAXED) : 0;

	for (uint32_t k = 1; k <= used && k <= HOOK_SLOTS; k++) {
		if (p->slots[k].tid != r->h.tid)
			continue;
		ring_look(&p->rings[k], &e);
		earliest_look(&e, p->slots[k].began[p->slots[k].met & 1]);
	}
	return e.ns;
}

uint64_t hooks_lost(const struct hooks *h)
{
	return h->lost;
}

/* ---- one process ---- */

/* While the recording begins, barriers get probes instead. */
static void say_without(const struct hooks *h, pid_t pid, const char *why, bool begins)
{
	log_warn("--hooks: process %d: %s; %s", pid, why, h->instead && !begins ? "its time at barriers counts as on-CPU from here on" : "its barriers have probes");
}

static void count_process(const struct hooked_process *p, struct hooks *to)
{
	const struct hooks_head *head = (const struct hooks_head *)p->slots;
	uint32_t used = p->slots ? __atomic_load_n(&head->used, __ATOMIC_RELAXED) : 0;

	used = used < HOOK_SLOTS ? used : HOOK_SLOTS;
	to->full += p->slots ? head->full : 0;
	for (uint32_t k = 1; k <= used; k++) {
		to->calls += p->slots[k].calls / 2;
		to->begun += p->slots[k].begun;
		to->ns += p->slots[k].total[p->slots[k].calls >> 1 & 1];
	}
}

static void process_free(struct hooks *h, struct hooked_process *p)
{
	process_drain(h, p, true);
	count_process(p, h);
	if (p->slots) {
		session_hooks_remove(h->c->session, (uint32_t)p->pid, (uint32_t)(p - h->processes));
		munmap(p->slots, SLOTS_BYTES);
		close(p->map_fd);
	}
	if (p->rings)
		munmap(p->rings, RINGS_BYTES);
	if (p->rings_fd)
		close(p->rings_fd);
	free(p->taken);
	if (p->fd)
		close(p->fd); /* the agent removes the hooks */
	*p = (struct hooked_process){ 0 };
}

/* Makes the rings, in memory that the process cannot make smaller. */
static int rings_new(struct hooked_process *p)
{
	void *at;
	int fd = memfd_create("inftrace-hooks", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return -errno;
	p->rings_fd = fd;
	if (ftruncate(fd, (off_t)RINGS_BYTES) || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return -errno;
	at = mmap(NULL, RINGS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (at == MAP_FAILED)
		return -errno;
	p->rings = at;
	p->taken = xcalloc(1 + HOOK_SLOTS, sizeof(*p->taken));
	return 0;
}

/* Takes over the connection of an agent: hands over slots, and has hooks placed. */
static int process_new(struct hooks *h, pid_t pid, int fd, struct hooked_process **ret_process)
{
	const struct gpu_welcome w = { .magic = HOOK_MAGIC, .version = HOOK_VERSION };
	struct hooked_process *p = h->processes;
	struct pair now;
	int err;

	while (p < h->processes + HOOK_PROCESSES && p->fd)
		p++;
	if (p == h->processes + HOOK_PROCESSES) {
		close(fd);
		return -ENOSPC;
	}
	*p = (struct hooked_process){ .pid = pid, .fd = fd };
	err = session_hooks_add(h->c->session, (uint32_t)pid, (uint32_t)(p - h->processes), SLOTS_BYTES, &p->map_fd, (void **)&p->slots);
	if (!err) {
		now = clock_follow(h);
		clock_publish(h, (struct hooks_head *)p->slots, &now);
		err = passing_send(fd, &w, sizeof(w), &p->map_fd, 1, MSG_DONTWAIT);
	}
	if (!err && h->take)
		err = rings_new(p);
	if (!err)
		err = passing_send(fd, &h->order, sizeof(h->order), &p->rings_fd, p->rings != NULL, MSG_DONTWAIT);
	if (err) {
		process_free(h, p);
		return err;
	}
	*ret_process = p;
	return 0;
}

/* Whether all calls of the functions that the process has are seen. Else says why; "": it has none yet. */
static bool answer_covers(const struct hooks *h, const struct hook_answer *a, char *ret_why, size_t size)
{
	bool any = false, all = true;

	*ret_why = '\0';
	for (uint32_t i = 0; i < h->order.n; i++) {
		const struct hook_found *f = &a->found[i];
		const char *name = h->order.functions[i].name;

		if (f->direct)
			snprintf(ret_why, size, "%s is also called directly, or by its address, where no hook can be", name);
		else if (f->failed)
			snprintf(ret_why, size, "%u of %u places from which %s is called cannot be changed", f->failed, f->slots, name);
		all &= !f->direct && !f->failed && (f->slots || !f->defined);
		any |= f->slots;
	}
	return any && all;
}

/* Reads an answer, if there is one. -EAGAIN: there is none; other errors: the process has ended, or called exec. */
static int process_answer(struct hooks *h, struct hooked_process *p, char *ret_why, size_t size)
{
	struct hook_answer a;
	ssize_t n = recv(p->fd, &a, sizeof(a), MSG_DONTWAIT);

	if (n < 0)
		return errno == EINTR ? -EAGAIN : -errno;
	if (n != sizeof(a) || a.n != h->order.n)
		return n ? -EPROTO : -ECONNRESET;
	p->covered = answer_covers(h, &a, ret_why, size);
	h->placed |= p->covered;
	if (a.ns > h->c->hook_ns)
		h->c->hook_ns = h->c->outside_ns[HIT_HOOK] = a.ns < HOOK_NS_MAX ? a.ns : HOOK_NS_MAX;
	for (uint32_t i = 0; i < h->order.n; i++)
		log_debug("--hooks: process %d: %s through %u slots, in %u libraries", p->pid, h->order.functions[i].name, a.found[i].slots, a.found[i].defined);
	return 0;
}

/* ---- processes of -p: the recording waits for them ---- */

static int mapping_has_barrier(const struct mapped_file *m, void *arg)
{
	const struct probe_table *pt = arg;

	for (size_t i = 0; i < pt->n; i++) {
		if (probe_spec_may_hook(&pt->specs[i]) && probe_spec_matches(&pt->specs[i], m->path))
			return 1;
	}
	return 0;
}

static int mapping_is_library(const struct mapped_file *m, void *arg)
{
	const struct stat *st = arg;

	return m->dev == st->st_dev && m->ino == st->st_ino;
}

/* Injects the agent, and takes its connection. Returns 0, or a negative errno with the reason. */
static int process_load(struct hooks *h, pid_t pid, int *ret_fd, char *ret_why, size_t size)
{
	static const struct injected_library library = { HOOK_ATTACH_ENTRY, HOOK_AGENT_SONAME };
	uint64_t until_ns = clock_boot_ns() + LOAD_NS;
	struct gpu_injection injection = { 0 };
	unsigned int left;
	uint32_t peer;
	int err, fd;

	snprintf(ret_why, size, "it has no library with a barrier that hooks can see");
	if (process_each_mapped(pid, mapping_has_barrier, &h->c->probes) <= 0)
		return -ENOENT;
	snprintf(ret_why, size, "the library cannot be brought in");
	err = agent_listener_add_namespace(&h->listener, pid);
	if (!err)
		err = gpu_injection_begin(h->c->inspector, pid, &library, h->library, h->listener.socket_name, NULL, &injection);
	while (!err) {
		err = injection.helper ? gpu_injection_result(&injection, ret_why, size) : 0;
		if (err && err != -EINPROGRESS)
			break;
		left = AGENT_ACCEPT_MAX;
		while ((fd = agent_listener_next(&h->listener, &left, &peer)) >= 0) {
			if (peer == (uint32_t)pid) {
				gpu_injection_end(&injection);
				*ret_fd = fd;
				return 0;
			}
			close(fd);
		}
		err = clock_boot_ns() > until_ns ? -ETIMEDOUT : h->keep_up(h->keep_up_arg);
		if (err)
			snprintf(ret_why, size, "the library did not answer");
		else
			poll(NULL, 0, PAUSE_MS);
	}
	gpu_injection_end(&injection);
	return err;
}

static int process_hook(struct hooks *h, pid_t pid, char *ret_why, size_t size)
{
	struct hooked_process *p;
	struct pollfd ready = { .events = POLLIN };
	struct stat st;
	int err, fd;

	err = process_load(h, pid, &fd, ret_why, size);
	if (err)
		return err;
	snprintf(ret_why, size, "its slots cannot be made, or there are %d processes already", HOOK_PROCESSES);
	err = process_new(h, pid, fd, &p);
	if (err)
		return err;
	/* the program is on a function of this very file */
	if (stat(h->library, &st) || process_each_mapped(pid, mapping_is_library, &st) <= 0) {
		snprintf(ret_why, size, "it has another file of inftrace's library, since it is in a container or had one before");
		process_free(h, p);
		return -EOPNOTSUPP;
	}
	ready.fd = p->fd;
	snprintf(ret_why, size, "the library did not place the hooks");
	err = poll(&ready, 1, PLACE_MS) > 0 ? process_answer(h, p, ret_why, size) : -ETIMEDOUT;
	if (!err && !p->covered && !*ret_why)
		snprintf(ret_why, size, "it has no barrier that a preset names, or calls it in another way than through its linkage table");
	if (!err && !p->covered)
		err = -EOPNOTSUPP;
	if (err)
		process_free(h, p);
	return err;
}

/* ---- all of them ---- */

/* Several presets may have a function. */
static bool order_has(const struct hook_order *o, const struct probe_spec *s)
{
	for (uint32_t k = 0; k < o->n; k++) {
		if (!strcmp(o->functions[k].name, s->symbol) && !strcmp(o->functions[k].library, s->library))
			return true;
	}
	return false;
}

static void order_add(struct hooks *h, size_t spec)
{
	struct probe_spec *s = &h->c->probes.specs[spec];
	struct hook_order *o = &h->order;

	if (strlen(s->symbol) >= HOOK_NAME_MAX || strlen(s->library) >= HOOK_NAME_MAX || (o->n == HOOK_FUNCTIONS && !order_has(o, s)))
		return;
	s->ordered = true;
	if (order_has(o, s))
		return;
	h->specs[o->n] = (uint32_t)spec;
	strcpy(o->functions[o->n].name, s->symbol);
	strcpy(o->functions[o->n].library, s->library);
	o->functions[o->n].is_op = s->role == ROLE_OP;
	if (s->role == ROLE_OP && probe_spec_values(s)) {
		o->functions[o->n].arg = (uint8_t)(s->fetch[0].reg - REG_ARG1);
		o->functions[o->n].size = s->fetch[0].size;
		o->functions[o->n].offset = s->fetch[0].off[0];
	}
	o->n++;
}

/* The functions at which threads meet, by their first argument; and those that begin operators, which end there. */
static void order_fill(struct hooks *h)
{
	const struct probe_table *pt = &h->c->probes;
	bool ends = false;

	for (size_t i = 0; i < pt->n; i++) {
		if (pt->specs[i].role != ROLE_BARRIER || !probe_spec_may_hook(&pt->specs[i]))
			continue;
		order_add(h, i);
		ends |= pt->specs[i].flags & PROBE_F_END;
	}
	for (size_t i = 0; ends && h->take && i < pt->n; i++) {
		if (pt->specs[i].role == ROLE_OP && probe_spec_may_hook(&pt->specs[i]))
			order_add(h, i);
	}
}

/* No process has probes for what is ordered. */
static void leave_out_probes(const struct hooks *h)
{
	for (size_t i = 0; i < h->c->probes.n; i++)
		h->c->probes.specs[i].hooked = h->c->probes.specs[i].ordered;
}

int hooks_new(struct capture *c, bool (*is_target)(uint32_t tgid, void *arg), void (*take)(const struct rec_hdr *h, size_t size, void *arg),
	void *arg, struct hooks **ret_hooks)
{
	static const struct gpu_hello hello = { .magic = HOOK_MAGIC, .version = HOOK_VERSION, .record_size = sizeof(struct hook_slot) };
	const char *others = getenv(PRELOAD);
	struct hooks *h = xcalloc(1, sizeof(*h));
	char source[64];
	int err;

	h->c = c;
	h->take = take;
	h->arg = arg;
	h->off = !clock_is_counter(source);
	if (h->off)
		log_warn("--hooks: the kernel's clock here is not the CPUs' counter but %s; barriers have probes", *source ? source : "unknown");
	err = agent_listener_init(&h->listener, "hooks", &hello, is_target, arg);
	if (!err)
		err = agent_find_file("--hooks", HOOK_AGENT_FILE, h->library);
	if (!err)
		err = agent_listener_open(&h->listener);
	if (err) {
		hooks_free(h);
		return err;
	}
	if (!h->off) {
		h->environment[0] = xasprintf(PRELOAD "=%s%s%s", h->library, others && *others ? ":" : "", others ? others : "");
		h->environment[1] = xasprintf(HOOK_ENV_SOCKET "=%s", h->listener.socket_name);
	}
	h->first = pair_read();
	*ret_hooks = h;
	return 0;
}

const char *const *hooks_environment(const struct hooks *h)
{
	return (const char *const *)h->environment;
}

int hooks_attach(struct hooks *h, const pid_t *pids, size_t n, int (*keep_up)(void *arg), void *arg)
{
	char why[256];
	int err;

	order_fill(h);
	h->off = h->off || !h->order.n;
	if (h->off)
		return 0;
	h->keep_up = keep_up;
	h->keep_up_arg = arg;
	err = session_hooks_attach(h->c->session, h->library, HOOK_JOINS_ENTRY);
	if (err)
		return err;
	poll(NULL, 0, (int)(CLOCK_FIRST_NS / NSEC_PER_MSEC));
	h->instead = n;
	for (size_t i = 0; i < n && h->instead; i++) {
		err = process_hook(h, pids[i], why, sizeof(why));
		if (err && process_exists(pids[i]))
			say_without(h, pids[i], why, true);
		h->instead = !err || !process_exists(pids[i]);
	}
	if (h->instead)
		leave_out_probes(h);
	for (unsigned int i = 0; !h->instead && i < HOOK_PROCESSES; i++) {
		if (h->processes[i].fd) /* all have probes */
			process_free(h, &h->processes[i]);
	}
	return 0;
}

void hooks_free(struct hooks *h)
{
	if (!h)
		return;
	for (unsigned int i = 0; i < HOOK_PROCESSES; i++) {
		if (h->processes[i].fd)
			process_free(h, &h->processes[i]);
	}
	agent_listener_close(&h->listener);
	free(h->environment[0]);
	free(h->environment[1]);
	free(h);
}

/* Takes the agents that have connected by themselves. */
static void hooks_accept(struct hooks *h)
{
	unsigned int left = AGENT_ACCEPT_MAX;
	struct hooked_process *p;
	uint32_t pid;
	int fd, err;

	while ((fd = agent_listener_next(&h->listener, &left, &pid)) >= 0) {
		if (!h->listener.is_target(pid, h->listener.arg)) {
			close(fd);
			continue;
		}
		p = process_find(h, pid);
		if (p) /* it has called exec since */
			process_free(h, p);
		err = process_new(h, (pid_t)pid, fd, &p);
		if (err)
			log_debug("--hooks: process %u: %s", pid, strerror(-err));
	}
}

/* Detaches probes that hooks make superfluous: once a process works, for until then it may load further libraries. */
static void hooks_detach(struct hooks *h)
{
	bool off = false;

	for (unsigned int i = 0; i < HOOK_PROCESSES; i++)
		off |= h->processes[i].covered && h->processes[i].worked;
	off = off && !h->mixed;
	if (h->instead || off == h->detached)
		return;
	h->detached = off;
	session_hooks_detach(h->c->session, off);
}

void hooks_turn(struct hooks *h)
{
	char why[256] = "";
	struct pair now;
	int err;

	if (!h || h->off)
		return;
	hooks_accept(h);
	now = clock_follow(h);
	for (unsigned int i = 0; i < HOOK_PROCESSES; i++) {
		struct hooked_process *p = &h->processes[i];

		if (!p->fd)
			continue;
		clock_publish(h, (struct hooks_head *)p->slots, &now);
		if (!p->told)
			__atomic_fetch_add(&((struct hooks_head *)p->slots)->steps, 1, __ATOMIC_RELAXED);
		p->told = true;
		err = process_answer(h, p, why, sizeof(why));
		if (!err && *why) { /* of a library that was loaded now */
			say_without(h, p->pid, why, false);
			h->mixed = true;
			err = -EOPNOTSUPP;
		}
		if (err && err != -EAGAIN)
			process_free(h, p);
	}
	hooks_detach(h);
}

void hooks_step(struct hooks *h, uint32_t tgid)
{
	struct hooked_process *p;

	if (h->off || h->mixed || h->said_unseen)
		return;
	p = process_find(h, tgid);
	if (p)
		p->worked |= p->covered;
	/* its last steps may come after its end */
	if ((p && p->covered) || !process_exists((pid_t)tgid))
		return;
	if (!h->instead) {
		h->mixed = h->detached;
		return;
	}
	h->said_unseen = true;
	log_warn("--hooks: process %u has none, since it was born or called exec during the recording: its time at barriers counts as on-CPU", tgid);
}

void hooks_summary(struct hooks *h)
{
	if (!h || h->off)
		return;
	for (unsigned int i = 0; i < HOOK_PROCESSES; i++) {
		if (h->processes[i].fd)
			process_free(h, &h->processes[i]);
	}
	if (!h->placed)
		return;
	log_info("hooks: %" PRIu64 " waits at barriers, %.3f s of them on the CPU", h->calls, (double)h->ns / 1e9);
	if (h->full)
		log_warn("hooks: %" PRIu64 " threads had no room (%d for a process): their time at barriers counts as on-CPU", h->full, HOOK_SLOTS);
	if (session_stats(h->c->session)->hooks_misfit)
		log_warn("hooks: %" PRIu64 " times what they saw made no sense, and was left out", (uint64_t)session_stats(h->c->session)->hooks_misfit);
}
