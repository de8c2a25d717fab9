// SPDX-License-Identifier: BSD-2-Clause
#include "record/discover.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "capture/python.h"
#include "target/process.h"
#include "util/clock.h"
#include "util/list_room.h"
#include "util/log.h"

#define LOOK_NS (NSEC_PER_SEC / 10)
#define COST_SHARE 20 /* looking takes at most one in so many parts of a CPU */

/* A process loads its libraries soon after it was started, or when a user asks for a model: one that has not matched is
 * looked at again when it has been known for twice as long, but at least this often. */
#define AGAIN_MAX_NS (5 * NSEC_PER_SEC)

/* A process that is not a target. Its number may have been reused, by one that is then found a little later. */
struct other {
	pid_t pid;
	uint64_t first_ns, next_ns; /* when it was seen first; when it will be looked at */
	bool refused; /* it matches, and there was no room */
};

struct others {
	struct other *list; /* by pid */
	size_t n, cap;
};

struct discover {
	struct capture *c;
	struct others known, next; /* as of the last look; those that this look has met */
	pid_t alive[DISCOVER_MAX];
	size_t n_alive;
	uint64_t found, ended, refused;
	uint64_t now_ns, due_ns;
	bool told_full, told_access;
};

int discover_new(struct capture *c, struct discover **ret_discover)
{
	struct discover *d;

	if (!c->probes.n_engines) {
		log_error("--discover: finds the processes that a preset matches, and none is loaded; leave out --engine none, "
			  "and -e -functions");
		return -EINVAL;
	}
	d = calloc(1, sizeof(*d));
	if (!d)
		return -ENOMEM;
	d->c = c;
	*ret_discover = d;
	return 0;
}

void discover_free(struct discover *d)
{
	if (!d)
		return;
	free(d->known.list);
	free(d->next.list);
	free(d);
}

/* ---- those that were found ---- */

static bool is_alive_target(const struct discover *d, pid_t pid)
{
	const struct task *t = tasks_find(d->c->tasks, (uint32_t)pid);

	return t && t->alive_process;
}

static void forget_ended(struct discover *d)
{
	for (size_t i = 0; i < d->n_alive; i++) {
		if (is_alive_target(d, d->alive[i]))
			continue;
		d->alive[i--] = d->alive[--d->n_alive];
		d->ended++;
	}
}

static bool has_exited(int pidfd)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };

	return poll(&p, 1, 0) == 1 && p.revents & POLLIN;
}

/* pidfd was opened before the process was looked at. */
static void add(struct discover *d, pid_t pid, int pidfd)
{
	struct capture *c = d->c;
	char comm[TASK_COMM_LEN] = "";
	int err = session_target(c->session, pid) ?: session_watch(c->session);

	if (err) {
		session_target_gone(c->session, pid);
		log_warn("process %d cannot be recorded: %s", pid, strerror(-err));
		return;
	}
	/* from now on the programs report its exit; it may have exited before, and its number may have been reused */
	if (has_exited(pidfd) || tasks_add_process(c->tasks, pid)) {
		session_target_gone(c->session, pid);
		return;
	}
	metadata_process(c->metadata, pid);
	attach_process(session_probes(c->session), pid, 0);
	pythons_look(c->pythons, pid);
	process_comm(pid, comm);
	log_debug("found process %d (%s)", pid, comm);
	d->alive[d->n_alive++] = pid;
	d->found++;
}

/* ---- looking ---- */

static int match_mapping(const struct mapped_file *m, void *arg)
{
	const struct probe_table *pt = arg;

	for (size_t i = 0; i < pt->n_engines; i++) {
		if (engine_claims(pt->engines[i], m->path))
			return 1;
	}
	return 0;
}

static void refuse(struct discover *d, struct other *o)
{
	d->refused += !o->refused;
	o->refused = true;
	if (!d->told_full)
		log_warn("--discover: more than %d processes at a time; further ones are left out until others end", DISCOVER_MAX);
	d->told_full = true;
}

/* Returns whether the process need not be looked at again, since it is a target or gone. */
static bool look_at(struct discover *d, struct other *o)
{
	int matches, pidfd = (int)syscall(SYS_pidfd_open, o->pid, 0);
	bool done = false;

	if (pidfd < 0)
		return errno == ESRCH;
	matches = process_each_mapped(o->pid, match_mapping, &d->c->probes);
	if (matches == -EACCES && !d->told_access) {
		log_warn("--discover: the files of process %d, and perhaps of others, may not be read, which takes CAP_SYS_PTRACE in "
			 "their user namespace; engines among them are not found",
			o->pid);
		d->told_access = true;
	}
	if (matches > 0 && d->n_alive == DISCOVER_MAX) {
		refuse(d, o);
	} else if (matches > 0) {
		d->refused -= o->refused;
		add(d, o->pid, pidfd);
		done = true;
	}
	close(pidfd);
	return done;
}

static int by_pid(const void *a, const void *b)
{
	const struct other *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

static int meet(pid_t pid, void *arg)
{
	struct discover *d = arg;
	struct other o = { .pid = pid, .first_ns = d->now_ns };
	const struct other *known = NULL;

	if (pid == getpid() || is_alive_target(d, pid))
		return 0;
	if (d->known.n)
		known = bsearch(&o, d->known.list, d->known.n, sizeof(o), by_pid);
	if (known)
		o = *known;
	if (list_room((void **)&d->next.list, d->next.n, &d->next.cap, sizeof(o)))
		return -ENOMEM;
	if (o.next_ns <= d->now_ns) {
		uint64_t age = d->now_ns - o.first_ns;

		if (look_at(d, &o))
			return 0;
		o.next_ns = d->now_ns + (age < AGAIN_MAX_NS ? age : AGAIN_MAX_NS);
	}
	d->next.list[d->next.n++] = o;
	return 0;
}

static void look(struct discover *d)
{
	struct others last = d->known;

	forget_ended(d);
	process_each(meet, d);
	if (d->next.n)
		qsort(d->next.list, d->next.n, sizeof(*d->next.list), by_pid);
	d->known = d->next;
	last.n = 0;
	d->next = last;
}

void discover_turn(struct discover *d, uint64_t now_ns)
{
	uint64_t begun, cost;

	if (!d || now_ns < d->due_ns)
		return;
	begun = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	d->now_ns = now_ns;
	look(d);
	cost = (clock_ns(CLOCK_THREAD_CPUTIME_ID) - begun) * COST_SHARE;
	d->due_ns = now_ns + (cost > LOOK_NS ? cost : LOOK_NS);
}

uint64_t discover_due_ns(const struct discover *d)
{
	return d ? d->due_ns : UINT64_MAX;
}

void discover_summary(struct discover *d)
{
	if (!d)
		return;
	forget_ended(d);
	log_info("%llu processes found, %llu of them have ended", (unsigned long long)d->found, (unsigned long long)d->ended);
	if (d->refused)
		log_warn("%llu processes that a preset matches were left out: more than %d at a time",
			(unsigned long long)d->refused, DISCOVER_MAX);
}
