// SPDX-License-Identifier: BSD-2-Clause
#include "record/hooks.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/listener.h"
#include "gpu/inject.h"
#include "hook/hand_over.h"
#include "target/process.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/passing.h"
#include "util/text.h"

#define SLOTS_BYTES (sizeof(struct hook_slot) * (1 + HOOK_SLOTS))
#define LOAD_NS (12 * NSEC_PER_SEC) /* for the injection, which has its own limits, and the connection */
#define PLACE_MS 5000               /* for the agent to place its hooks */
#define PAUSE_MS 1
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
	int fd;     /* of the connection */
	int map_fd; /* the slots */
	bool ended; /* the process has exited, or called exec */
	struct hook_slot *slots;
};

struct hooks {
	struct capture *c;
	struct agent_listener listener;
	char library[PATH_MAX];
	struct hook_order order;
	struct hooked_process processes[HOOK_PROCESSES];
	unsigned int n;
	bool instead;      /* of probes, which no process has */
	bool said_unseen;
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

	if (tsc)
		h->mult = (uint64_t)(((unsigned __int128)ns << 32) / tsc);
	if (ns > 2 * CLOCK_SPAN_NS) /* the kernel changes the rate now and then */
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

/* ---- one process ---- */

static void say_without(pid_t pid, const char *why)
{
	log_warn("--hooks: process %d: %s; its barriers have probes", pid, why);
}

static bool is_awaited(uint32_t tgid, void *arg)
{
	(void)arg;
	return tgid;
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
		err = clock_boot_ns() > until_ns ? -ETIMEDOUT : 0;
		if (err)
			snprintf(ret_why, size, "the library did not answer");
		else
			poll(NULL, 0, PAUSE_MS);
	}
	gpu_injection_end(&injection);
	return err;
}

/* Hands over the slots, and has hooks placed. */
static int process_place(const struct hooks *h, int fd, int map_fd, struct hook_answer *ret)
{
	const struct gpu_welcome w = { .magic = HOOK_MAGIC, .version = HOOK_VERSION };
	struct pollfd p = { .fd = fd, .events = POLLIN };
	ssize_t n;
	int err;

	err = passing_send(fd, &w, sizeof(w), &map_fd, 1, MSG_DONTWAIT);
	if (!err)
		err = passing_send(fd, &h->order, sizeof(h->order), NULL, 0, MSG_DONTWAIT);
	if (err)
		return err;
	if (poll(&p, 1, PLACE_MS) <= 0)
		return -ETIMEDOUT;
	n = recv(fd, ret, sizeof(*ret), MSG_DONTWAIT);
	if (n < 0)
		return -errno;
	return n == sizeof(*ret) && ret->n == h->order.n ? 0 : -EPROTO;
}

/* Whether all calls of the functions that the process has are seen. Else says why. */
static bool process_is_covered(const struct hooks *h, const struct hook_answer *a, char *ret_why, size_t size)
{
	unsigned int slots = 0;

	for (uint32_t i = 0; i < h->order.n; i++) {
		const struct hook_found *f = &a->found[i];

		if (f->direct) {
			snprintf(ret_why, size, "%s is called directly in the library that has it, where no hook can be", h->order.functions[i].name);
			return false;
		}
		if (f->failed) {
			snprintf(ret_why, size, "%u of %u places from which %s is called cannot be changed", f->failed, f->slots, h->order.functions[i].name);
			return false;
		}
		slots += f->slots;
	}
	if (!slots)
		snprintf(ret_why, size, "it has no barrier that a preset names, or calls it in another way than through its linkage table");
	return slots;
}

static void process_free(struct hooks *h, struct hooked_process *p)
{
	if (p->slots)
		session_hooks_remove(h->c->session, (uint32_t)p->pid, (uint32_t)(p - h->processes));
	if (p->slots)
		munmap(p->slots, SLOTS_BYTES);
	if (p->map_fd >= 0)
		close(p->map_fd);
	if (p->fd >= 0)
		close(p->fd); /* the agent removes the hooks */
	*p = (struct hooked_process){ .fd = -1, .map_fd = -1 };
}

static int process_hook(struct hooks *h, pid_t pid, char *ret_why, size_t size)
{
	struct hooked_process *p = &h->processes[h->n];
	struct hook_answer answer;
	struct pair now;
	int err;

	*p = (struct hooked_process){ .pid = pid, .fd = -1, .map_fd = -1 };
	if (h->n == HOOK_PROCESSES) {
		snprintf(ret_why, size, "%d processes have hooks already", HOOK_PROCESSES);
		return -ENOSPC;
	}
	err = process_load(h, pid, &p->fd, ret_why, size);
	if (err)
		return err;
	snprintf(ret_why, size, "its slots cannot be made");
	err = session_hooks_add(h->c->session, (uint32_t)pid, h->n, SLOTS_BYTES, &p->map_fd, (void **)&p->slots);
	if (!err) {
		now = clock_follow(h);
		clock_publish(h, (struct hooks_head *)p->slots, &now);
		snprintf(ret_why, size, "the library did not place the hooks");
		err = process_place(h, p->fd, p->map_fd, &answer);
	}
	if (!err && !process_is_covered(h, &answer, ret_why, size))
		err = -EOPNOTSUPP;
	if (err) {
		process_free(h, p);
		return err;
	}
	h->n++;
	if (answer.ns > h->c->hook_ns)
		h->c->hook_ns = answer.ns < HOOK_NS_MAX ? answer.ns : HOOK_NS_MAX;
	for (uint32_t i = 0; i < h->order.n; i++)
		log_debug("--hooks: process %d: %s through %u slots of %u libraries", pid, h->order.functions[i].name, answer.found[i].slots, answer.found[i].defined);
	return 0;
}

/* ---- all of them ---- */

/* The functions at which threads meet, by their first argument. */
static void order_fill(struct hook_order *o, const struct probe_table *pt)
{
	for (size_t i = 0; i < pt->n && o->n < HOOK_FUNCTIONS; i++) {
		const struct probe_spec *s = &pt->specs[i];
		bool known = false;

		if (!probe_spec_may_hook(s) || strlen(s->symbol) >= HOOK_NAME_MAX)
			continue;
		for (uint32_t k = 0; k < o->n; k++)
			known |= !strcmp(o->functions[k].name, s->symbol) && !strcmp(o->functions[k].library, s->library);
		if (known || strlen(s->library) >= HOOK_NAME_MAX)
			continue;
		strcpy(o->functions[o->n].name, s->symbol);
		strcpy(o->functions[o->n++].library, s->library);
	}
}

static int hooks_begin(struct hooks *h)
{
	static const struct gpu_hello hello = { .magic = HOOK_MAGIC, .version = HOOK_VERSION, .record_size = sizeof(struct hook_slot) };

	int err;

	h->first = pair_read();
	order_fill(&h->order, &h->c->probes);
	err = agent_listener_init(&h->listener, "hooks", &hello, is_awaited, NULL);
	if (!err)
		err = agent_find_file("--hooks", HOOK_AGENT_FILE, h->library);
	if (!err)
		err = agent_listener_open(&h->listener);
	return err ? err : session_hooks_attach(h->c->session, h->library, HOOK_JOINS_ENTRY);
}

int hooks_new(struct capture *c, const pid_t *pids, size_t n, struct hooks **ret_hooks)
{
	struct hooks *h = xcalloc(1, sizeof(*h));
	char why[256], source[64];
	bool all = n;
	int err;

	h->c = c;
	h->listener.epoll = -1;
	if (!clock_is_counter(source)) {
		log_warn("--hooks: the kernel's clock here is not the CPUs' counter but %s; barriers have probes", *source ? source : "unknown");
		*ret_hooks = h;
		return 0;
	}
	err = hooks_begin(h);
	if (err) {
		hooks_free(h);
		return err;
	}
	poll(NULL, 0, (int)(CLOCK_FIRST_NS / NSEC_PER_MSEC));
	for (size_t i = 0; i < n; i++) {
		err = process_hook(h, pids[i], why, sizeof(why));
		if (err)
			say_without(pids[i], why);
		all &= !err;
	}
	h->instead = all;
	for (size_t i = 0; all && i < c->probes.n; i++)
		c->probes.specs[i].hooked = probe_spec_may_hook(&c->probes.specs[i]);
	*ret_hooks = h;
	return 0;
}

void hooks_free(struct hooks *h)
{
	if (!h)
		return;
	for (unsigned int i = 0; i < h->n; i++)
		process_free(h, &h->processes[i]);
	agent_listener_close(&h->listener);
	free(h);
}

void hooks_turn(struct hooks *h)
{
	struct pair now;
	char c;

	if (!h || !h->n)
		return;
	now = clock_follow(h);
	for (unsigned int i = 0; i < h->n; i++) {
		struct hooked_process *p = &h->processes[i];

		clock_publish(h, (struct hooks_head *)p->slots, &now);
		/* the agent says nothing more */
		p->ended = p->ended || recv(p->fd, &c, 1, MSG_DONTWAIT) >= 0 || (errno != EAGAIN && errno != EINTR);
	}
}

void hooks_step(struct hooks *h, uint32_t tgid)
{
	if (!h->instead || h->said_unseen)
		return;
	for (unsigned int i = 0; i < h->n; i++) {
		if ((uint32_t)h->processes[i].pid == tgid && !h->processes[i].ended)
			return;
	}
	/* its last steps may come after its end */
	if (!process_exists((pid_t)tgid))
		return;
	h->said_unseen = true;
	log_warn("--hooks: process %u has none, since it was born or called exec during the recording: its time at barriers counts as on-CPU", tgid);
}

void hooks_summary(struct hooks *h)
{
	uint64_t calls = 0, ns = 0, full = 0;
	unsigned int threads = 0;

	for (unsigned int i = 0; h && i < h->n; i++) {
		const struct hook_slot *slots = h->processes[i].slots;
		const struct hooks_head *head = (const struct hooks_head *)slots;
		uint32_t used = head->used < HOOK_SLOTS ? head->used : HOOK_SLOTS;

		full += head->full;
		threads += used;
		for (uint32_t k = 1; k <= used; k++) {
			calls += slots[k].calls / 2;
			log_debug("hooks: slot %u: thread %u, %" PRIu64 " waits, %.6f s", k, slots[k].tid, slots[k].calls / 2, (double)slots[k].total[slots[k].calls >> 1 & 1] / 1e9);
			ns += slots[k].total[slots[k].calls >> 1 & 1];
		}
	}
	if (!h || !h->n)
		return;
	log_info("hooks: %" PRIu64 " waits at barriers of up to %u threads at once, %.3f s in all", calls, threads, (double)ns / 1e9);
	if (full)
		log_warn("hooks: %" PRIu64 " threads had no room (%d for a process): their time at barriers counts as on-CPU", full, HOOK_SLOTS);
	if (session_stats(h->c->session)->hooks_misfit)
		log_warn("hooks: %" PRIu64 " times what they saw made no sense, and was left out", (uint64_t)session_stats(h->c->session)->hooks_misfit);
}
