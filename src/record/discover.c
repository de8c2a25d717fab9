// SPDX-License-Identifier: BSD-2-Clause
#include "record/discover.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "capture/perf_events.h"
#include "capture/python.h"
#include "target/cgroup.h"
#include "target/process.h"
#include "util/clock.h"
#include "util/list_room.h"
#include "util/log.h"

#define LOOK_NS (NSEC_PER_SEC / 10)
#define LOOK_WATCHED_NS (5 * NSEC_PER_SEC) /* where the kernel tells of what processes map */
#define WATCH_NS (10 * NSEC_PER_MSEC)
#define COST_SHARE 20 /* looking takes at most one in so many parts of a CPU */

/* Without events of the kernel: a process loads its libraries soon after it was started, or when a user asks for a
 * model. One that has not matched is looked at again when it has been known for twice as long, but at least this often. */
#define AGAIN_MAX_NS (5 * NSEC_PER_SEC)

/* A user has up to so many times the places that are left, which is 192 of 256; a cgroup, 240. */
#define USER_SHARE 3
#define CGROUP_SHARE 15

#define MAPPED_MAX 64
#define MISSED_MAX 16
#define ENDED_NS NSEC_PER_SEC /* events of a target that has ended arrive within this */

/* A process that is not a target. Its number may have been reused, by one that is then found a little later. */
struct other {
	pid_t pid;
	uint64_t first_ns, next_ns; /* when it was seen first; when it will be looked at */
	bool refused;               /* it matches, and there was no room */
	bool unread;                /* its files may not be read */
};

/* One that is a target. */
struct found {
	pid_t pid;
	uid_t uid;
	char cgroup[CGROUP_OWNER_MAX];
};

struct others {
	struct other *list; /* by pid */
	size_t n, cap;
};

struct discover {
	struct capture *c;
	const char *option;
	bool by_preset;
	char cgroup[PATH_MAX];     /* "": every process of the system */
	struct others known, next; /* as of the last look; those that this look has met */
	struct found alive[DISCOVER_MAX];
	size_t n_alive;
	struct map_watch *watch;  /* NULL: there is only looking */
	pid_t mapped[MAPPED_MAX]; /* have just mapped a file of a preset */
	size_t n_mapped;
	pid_t missed_last[MISSED_MAX];
	bool stirred; /* look soon */
	uint64_t maps_lost;
	uint64_t found, ended, refused, missed, unread, forgotten;
	bool waits;                                      /* one that was refused, for others to end */
	uint64_t now_ns, least_ns, due_ns, watch_due_ns; /* least_ns: no look before that */
	bool told_full, told_access, told_memory, told_gone;
};

static int find_cgroup(struct discover *d, const char *given)
{
	int err = *given ? cgroup_find(given, d->cgroup) : -ENODATA;
	const char *why = strerror(-err);

	if (!err)
		return 0;
	if (err == -ENOENT)
		why = "there is no such cgroup; systemd-cgls shows them, and /proc/PID/cgroup that of a process";
	else if (err == -ENODATA)
		why = "is empty; / is the cgroup of all processes";
	else if (err == -EMEDIUMTYPE)
		why = "this is not a cgroup of version 2, of which there is one hierarchy, in /sys/fs/cgroup or /sys/fs/cgroup/unified";
	else if (err == -EOPNOTSUPP)
		why = "this cgroup is threaded: give the one above it that has its processes";
	log_error("--cgroup %s: %s", given, why);
	return err == -ENOMEM ? err : -EINVAL;
}

int discover_new(struct capture *c, const struct record_options *o, struct discover **ret_discover)
{
	struct discover *d;
	int err = 0;

	if (o->discover && !c->probes.n_engines) {
		log_error("--discover: finds the processes that a preset matches, and none is loaded; leave out --engine none, "
			  "and -e -functions");
		return -EINVAL;
	}
	d = calloc(1, sizeof(*d));
	if (!d)
		return -ENOMEM;
	d->c = c;
	d->by_preset = o->discover;
	d->option = o->cgroup ? "--cgroup" : "--discover";
	if (o->cgroup)
		err = find_cgroup(d, o->cgroup);
	if (err) {
		discover_free(d);
		return err;
	}
	err = map_watch_new(&d->watch);
	if (err)
		log_debug("%s: the kernel does not tell of new processes (perf_event_open: %s): looking ten times a second", d->option,
			strerror(-err));
	*ret_discover = d;
	return 0;
}

void discover_free(struct discover *d)
{
	if (!d)
		return;
	map_watch_free(d->watch);
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
		if (is_alive_target(d, d->alive[i].pid))
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

static int any_mapping(const struct mapped_file *m, void *arg)
{
	(void)m;
	(void)arg;
	return 1;
}

/* One that exits loses its memory before the programs are told (do_exit() in the kernel), and is a zombie later. */
static bool is_exiting(pid_t pid)
{
	int err = process_each_executable(pid, any_mapping, NULL);

	return !err || err == -ESRCH;
}

/* pidfd was opened before the process was looked at. -ESRCH: it has ended; other -errno, after one line. */
static int add(struct discover *d, const struct found *f, int pidfd)
{
	struct capture *c = d->c;
	pid_t pid = f->pid;
	char comm[TASK_COMM_LEN] = "";
	int err = session_target(c->session, pid) ?: session_watch(c->session);

	if (err) {
		session_target_gone(c->session, pid);
		log_warn("process %d cannot be recorded: %s", pid, strerror(-err));
		return err;
	}
	/* from now on the programs report its exit; it may have exited before, and its number may have been reused */
	if (has_exited(pidfd) || is_exiting(pid) || tasks_add_process(c->tasks, pid)) {
		session_target_gone(c->session, pid);
		return -ESRCH;
	}
	process_comm(pid, comm);
	metadata_process(c->metadata, pid);
	attach_process(session_probes(c->session), pid, 0);
	pythons_look(c->pythons, pid);
	log_debug("found process %d (%s)", pid, comm);
	d->alive[d->n_alive++] = *f;
	d->found++;
	return 0;
}

/* ---- looking ---- */

static bool is_engine_file(const struct discover *d, const char *path)
{
	const struct probe_table *pt = &d->c->probes;

	for (size_t i = 0; i < pt->n_engines; i++) {
		if (engine_claims(pt->engines[i], path))
			return true;
	}
	return false;
}

static int match_mapping(const struct mapped_file *m, void *arg)
{
	return is_engine_file(arg, m->path);
}

/*
 * Whether there is room for it. Anybody may start processes that a preset matches: so many that there is none for others may be neither
 * those of one user, nor those of one cgroup, within which somebody may be several users. Each of them leaves a part of the room.
 */
static bool has_room(const struct discover *d, const struct found *f)
{
	size_t left = DISCOVER_MAX - d->n_alive, of_user = 0, of_cgroup = 0;

	for (size_t i = 0; i < d->n_alive; i++) {
		of_user += d->alive[i].uid == f->uid;
		of_cgroup += !strcmp(d->alive[i].cgroup, f->cgroup);
	}
	return left && (*d->cgroup || (of_user < USER_SHARE * left && of_cgroup < CGROUP_SHARE * left));
}

static void refuse(struct discover *d, struct other *o)
{
	d->refused += !o->refused;
	o->refused = true;
	if (!d->told_full)
		log_warn("%s: more than %d processes at a time, or than the share of a user; further ones are left out until others end", d->option,
			DISCOVER_MAX);
	d->told_full = true;
}

/* Files of init and of kernel threads, which run no engine, are often out of reach even for root. */
static void note_unread(struct discover *d, struct other *o)
{
	d->unread += !o->unread;
	o->unread = true;
	if (d->told_access || o->pid == 1 || process_is_kernel_thread(o->pid))
		return;
	log_warn("--discover: the files of process %d, and perhaps of others, may not be read, which takes CAP_SYS_PTRACE in "
		 "their user namespace; engines among them are not found",
		o->pid);
	d->told_access = true;
}

/* 0: the process is a target now; 1: it does not match; -ESRCH: it has ended; -EACCES, -EBUSY: it is noted in o why not;
 * other -errno: it never will be. */
static int look_at(struct discover *d, struct other *o)
{
	int matches = 1, pidfd = (int)syscall(SYS_pidfd_open, o->pid, 0), ret;
	struct found f = { .pid = o->pid };

	if (pidfd < 0)
		return errno == ESRCH ? -ESRCH : 1;
	if (d->by_preset)
		matches = process_each_mapped(o->pid, match_mapping, d);
	ret = matches < 0 ? matches : !matches;
	if (matches > 0) {
		process_user(f.pid, &f.uid);
		cgroup_owner(f.pid, f.cgroup);
	}
	if (matches == -EACCES) {
		note_unread(d, o);
	} else if (matches > 0 && !has_room(d, &f)) {
		refuse(d, o);
		ret = -EBUSY;
	} else if (matches > 0) {
		d->refused -= o->refused;
		*o = (struct other){ .pid = o->pid, .first_ns = d->now_ns };
		ret = add(d, &f, pidfd);
	}
	close(pidfd);
	return ret;
}

static int by_pid(const void *a, const void *b)
{
	const struct other *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

/* Without a note of it, a process is looked at each time, and counted each time it is refused. */
static void note_other(struct discover *d, struct others *others, const struct other *o)
{
	d->waits |= o->refused;
	if (!list_room((void **)&others->list, others->n, &others->cap, sizeof(*o))) {
		others->list[others->n++] = *o;
		return;
	}
	d->forgotten++;
	if (!d->told_memory)
		log_warn("%s: there is no memory for a list of the processes that were looked at: they may be counted twice", d->option);
	d->told_memory = true;
}

static void sort(struct others *others)
{
	if (others->n)
		qsort(others->list, others->n, sizeof(*others->list), by_pid);
}

static struct other *find_other(const struct discover *d, pid_t pid)
{
	struct other o = { .pid = pid };

	return d->known.n ? bsearch(&o, d->known.list, d->known.n, sizeof(o), by_pid) : NULL;
}

static int meet(pid_t pid, void *arg)
{
	struct discover *d = arg;
	struct other o = { .pid = pid, .first_ns = d->now_ns };
	const struct other *known;

	if (pid == getpid() || is_alive_target(d, pid))
		return 0;
	known = find_other(d, pid);
	if (known)
		o = *known;
	if (o.next_ns <= d->now_ns) {
		uint64_t age = d->now_ns - o.first_ns;

		if (!look_at(d, &o))
			return 0;
		o.next_ns = d->now_ns + (age < AGAIN_MAX_NS ? age : AGAIN_MAX_NS);
	}
	note_other(d, &d->next, &o);
	return 0;
}

static void look_in_cgroup(struct discover *d)
{
	int err = cgroup_each_process(d->cgroup, meet, d);

	if (err && !d->told_gone)
		log_warn("--cgroup: %s: %s", d->cgroup,
			err == -ENOENT ? "the cgroup has been removed; if there is one of this name again, it is recorded" : strerror(-err));
	d->told_gone = err;
}

static void look(struct discover *d)
{
	struct others last = d->known;

	forget_ended(d);
	d->waits = false;
	if (*d->cgroup)
		look_in_cgroup(d);
	else if (process_each(meet, d))
		log_debug("--discover: cannot read /proc");
	sort(&d->next);
	d->known = d->next;
	last.n = 0;
	d->next = last;
}

/* ---- what the kernel tells ---- */

/* Events of the same process may come in several rounds. */
static void note_missed(struct discover *d, pid_t pid)
{
	for (size_t i = 0; i < MISSED_MAX; i++) {
		if (d->missed_last[i] == pid)
			return;
	}
	d->missed_last[d->missed++ % MISSED_MAX] = pid;
	log_debug("process %d mapped a file of a preset, and has ended before it was found", pid);
}

static bool was_target(const struct discover *d, pid_t pid)
{
	const struct task *t = tasks_find(d->c->tasks, (uint32_t)pid);

	return t && t->traced && (t->alive_process || d->now_ns - t->exit_ns < ENDED_NS);
}

/* One that no longer has the file mapped calls exit or exec just now. */
static void look_at_mapped(struct discover *d, pid_t pid)
{
	struct other o = { .pid = pid, .first_ns = d->now_ns }, *known = find_other(d, pid);
	int ret;

	if (was_target(d, pid))
		return;
	ret = look_at(d, known ? known : &o);
	if (ret == -ESRCH || ret == 1) {
		note_missed(d, pid);
	} else if (ret && !known) {
		note_other(d, &d->known, &o);
		sort(&d->known);
		d->due_ns = d->now_ns + LOOK_NS;
	}
}

static void on_mapped(pid_t pid, const char *path, void *arg)
{
	struct discover *d = arg;

	if (pid <= 0 || pid == getpid() || (d->by_preset && !is_engine_file(d, path)))
		return;
	if (*d->cgroup || d->n_mapped == MAPPED_MAX) { /* it may be outside */
		d->stirred = d->stirred || !is_alive_target(d, pid);
		return;
	}
	for (size_t i = 0; i < d->n_mapped; i++) {
		if (d->mapped[i] == pid)
			return;
	}
	d->mapped[d->n_mapped++] = pid;
}

static void watch(struct discover *d)
{
	d->watch_due_ns = d->now_ns + WATCH_NS;
	map_watch_drain(d->watch, on_mapped, d);
	if (d->n_mapped)
		session_drain_control(d->c->session); /* children of targets are targets */
	for (size_t i = 0; i < d->n_mapped; i++)
		look_at_mapped(d, d->mapped[i]);
	d->n_mapped = 0;
	if (map_watch_lost(d->watch) != d->maps_lost)
		d->stirred = true;
	d->maps_lost = map_watch_lost(d->watch);
}

/* ---- from outside ---- */

void discover_turn(struct discover *d, uint64_t now_ns)
{
	uint64_t begun, cost, rest;

	if (!d)
		return;
	d->now_ns = now_ns;
	if (d->watch && now_ns >= d->watch_due_ns)
		watch(d);
	if (now_ns < (d->stirred ? d->least_ns : d->due_ns))
		return;
	d->stirred = false;
	begun = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	look(d);
	cost = (clock_ns(CLOCK_THREAD_CPUTIME_ID) - begun) * COST_SHARE;
	/* nobody tells that there is room for one that was refused, nor that a process enters a cgroup */
	rest = d->watch && !d->waits && !*d->cgroup ? LOOK_WATCHED_NS : LOOK_NS;
	d->least_ns = now_ns + cost;
	d->due_ns = now_ns + (cost > rest ? cost : rest);
}

uint64_t discover_due_ns(const struct discover *d)
{
	uint64_t look;

	if (!d)
		return UINT64_MAX;
	look = d->stirred ? d->least_ns : d->due_ns;
	return d->watch && d->watch_due_ns < look ? d->watch_due_ns : look;
}

void discover_summary(struct discover *d)
{
	if (!d)
		return;
	if (d->watch) {
		d->now_ns = clock_boot_ns();
		map_watch_drain(d->watch, on_mapped, d);
		for (size_t i = 0; i < d->n_mapped; i++) {
			if (!was_target(d, d->mapped[i]))
				note_missed(d, d->mapped[i]);
		}
		d->n_mapped = 0;
	}
	forget_ended(d);
	log_info("%llu processes found, %llu of them have ended", (unsigned long long)d->found, (unsigned long long)d->ended);
	if (d->refused)
		log_warn("%llu processes %swere left out: more than %d at a time, or than the share of a user", (unsigned long long)d->refused,
			d->by_preset ? "that a preset matches " : "", DISCOVER_MAX);
	if (d->missed)
		log_warn("%llu processes that mapped a file of a preset ended before they were found", (unsigned long long)d->missed);
	if (d->maps_lost)
		log_debug("%llu events of the kernel about mapped files were lost: processes may have been found late",
			(unsigned long long)d->maps_lost);
	if (d->unread)
		log_debug("the files of %llu processes could not be read", (unsigned long long)d->unread);
	if (d->forgotten)
		log_warn("%llu times there was no memory to note a process that had been looked at", (unsigned long long)d->forgotten);
}
