// SPDX-License-Identifier: BSD-2-Clause
#include "record/targets.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "capture/hold.h"
#include "capture/perf_events.h"
#include "capture/python.h"
#include "record/options.h"
#include "sink/process_list.h"
#include "target/cgroup.h"
#include "target/file.h"
#include "target/process.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/log.h"

/* ---- --discover and --cgroup ---- */

/* Found processes alive at a time: as many as can have files of their own. */
#define DISCOVER_MAX 256

#define LOOK_NS (NSEC_PER_SEC / 10)
#define LOOK_WATCHED_NS (5 * NSEC_PER_SEC) /* where the kernel reports what processes map */
#define WATCH_NS (10 * NSEC_PER_MSEC)
#define COST_SHARE 20 /* looking takes at most 1/20 of a CPU */

/* Libraries are loaded soon after the start, or when a user asks for a model: without kernel events, a process that has
 * not matched is looked at again when it has been known for twice as long, but at least this often. */
#define AGAIN_MAX_NS (5 * NSEC_PER_SEC)

/* A user may have this many times the places that are left, which is 192 of 256; a cgroup, 240. */
#define USER_SHARE 3
#define CGROUP_SHARE 15

#define MAPPED_MAX 64
#define MISSED_MAX 16
#define ENDED_NS NSEC_PER_SEC /* events of a target that has ended arrive within this */

/* A process that is no target. Its PID may have been reused; the new process is then found a little later. */
struct other {
	struct thread_entry pid;
	uint64_t first_ns, next_ns; /* when it was seen first; when it will be looked at */
	bool refused;               /* it matches, and there was no room */
	bool unread;                /* its files may not be read */
};

/* A process that was made a target. */
struct discover_found {
	pid_t pid;
	uid_t uid;
	char cgroup[CGROUP_OWNER_MAX];
};

struct discover {
	struct capture *c;
	const char *option;
	bool by_preset;
	char cgroup[PATH_MAX];         /* "": every process of the system */
	struct thread_map known, next; /* struct other: met by the last look, and by the one under way */
	struct discover_found alive[DISCOVER_MAX];
	size_t n_alive;
	struct map_watch *watch;  /* NULL: no kernel events, only looks */
	pid_t mapped[MAPPED_MAX]; /* have just mapped a file of a preset */
	size_t n_mapped;
	pid_t missed_last[MISSED_MAX];
	bool stirred; /* look soon */
	uint64_t maps_lost;
	uint64_t found, ended, refused, missed, unread;
	bool waits;                                      /* a refused process waits for others to end */
	uint64_t now_ns, least_ns, due_ns, watch_due_ns; /* least_ns: no look before that */
	bool told_full, told_access, told_gone;
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
	return log_fail(-EINVAL, "--cgroup %s: %s", given, why);
}

int discover_new(struct capture *c, const struct record_options *o, struct discover **ret_discover)
{
	struct discover *d;
	int err = 0;

	if (o->discover && !c->probes.n_engines)
		return log_fail(-EINVAL, "--discover: finds the processes that a preset matches, and none is loaded; leave out --engine none, "
					 "and -e -functions");
	d = xcalloc(1, sizeof(*d));
	d->c = c;
	d->known.size = d->next.size = sizeof(struct other);
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
	thread_map_clear(&d->known, NULL);
	thread_map_clear(&d->next, NULL);
	free(d);
}

/* ---- found processes ---- */

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

static int has_any_mapping(const struct mapped_file *m, void *arg)
{
	return 1;
}

/* pidfd was opened before the process was looked at. -ESRCH: it has ended; other -errno, after one line. */
static int discover_add_process(struct discover *d, const struct discover_found *f, int pidfd)
{
	struct capture *c = d->c;
	pid_t pid = f->pid;
	char comm[TASK_COMM_LEN] = "";
	int err = session_target(c->session, pid) ?: session_watch(c->session), mapped = -ESRCH;

	if (err) {
		session_target_gone(c->session, pid);
		log_warn("process %d cannot be recorded: %s", pid, strerror(-err));
		return err;
	}
	/* from now on the programs report its exit; it may have exited before, and its number may have been reused */
	if (!has_exited(pidfd)) /* an exiting process loses its memory first: do_exit() in the kernel */
		mapped = process_each_executable(pid, has_any_mapping, NULL);
	if (!mapped || mapped == -ESRCH || tasks_add_process(c->tasks, pid)) {
		session_target_gone(c->session, pid);
		return -ESRCH;
	}
	process_comm(pid, comm);
	metadata_process(c->metadata, pid);
	attach_process(c->session->attach, pid, 0);
	pythons_look(c->pythons, pid);
	log_debug("found process %d (%s)", pid, comm);
	d->alive[d->n_alive++] = *f;
	d->found++;
	return 0;
}

/* ---- looking ---- */

static bool is_engine_file(const struct probe_table *pt, const char *path)
{
	for (size_t i = 0; i < pt->n_engines; i++) {
		if (engine_shows(pt->engines[i], path))
			return true;
	}
	return false;
}

static int match_mapping(const struct mapped_file *m, void *arg)
{
	return is_engine_file(arg, m->path);
}

/* Anybody may start processes that a preset matches. Those of one user, or of one cgroup, where one person may be several
 * users, must leave room for others. */
static bool discover_has_room(const struct discover *d, const struct discover_found *f)
{
	size_t left = DISCOVER_MAX - d->n_alive, of_user = 0, of_cgroup = 0;

	for (size_t i = 0; i < d->n_alive; i++) {
		of_user += d->alive[i].uid == f->uid;
		of_cgroup += !strcmp(d->alive[i].cgroup, f->cgroup);
	}
	return left && (*d->cgroup || (of_user < USER_SHARE * left && of_cgroup < CGROUP_SHARE * left));
}

static void discover_refuse(struct discover *d, struct other *o)
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
	if (d->told_access || o->pid.tid == 1 || process_is_kernel_thread((pid_t)o->pid.tid))
		return;
	log_warn("--discover: the files of process %d, and perhaps of others, may not be read, which takes CAP_SYS_PTRACE in "
		 "their user namespace; engines among them are not found",
		o->pid.tid);
	d->told_access = true;
}

/* 0: the process is a target now; 1: it does not match; -ESRCH: it has ended; -EACCES, -EBUSY: not yet, for the reason
 * noted in o; other -errno: it never will be. */
static int discover_check_process(struct discover *d, struct other *o)
{
	struct discover_found f = { .pid = (pid_t)o->pid.tid };
	int matches = 1, pidfd = (int)syscall(SYS_pidfd_open, f.pid, 0), ret;

	if (pidfd < 0)
		return errno == ESRCH ? -ESRCH : 1;
	if (d->by_preset)
		matches = process_each_mapped(f.pid, match_mapping, &d->c->probes);
	ret = matches < 0 ? matches : !matches;
	if (matches > 0) {
		process_user(f.pid, &f.uid);
		cgroup_owner(f.pid, f.cgroup);
	}
	if (matches == -EACCES) {
		note_unread(d, o);
	} else if (matches > 0 && !discover_has_room(d, &f)) {
		discover_refuse(d, o);
		ret = -EBUSY;
	} else if (matches > 0) {
		d->refused -= o->refused;
		o->first_ns = d->now_ns;
		o->next_ns = 0;
		o->refused = o->unread = false;
		ret = discover_add_process(d, &f, pidfd);
	}
	close(pidfd);
	return ret;
}

static int discover_meet_process(pid_t pid, void *arg)
{
	struct discover *d = arg;
	const struct other *known = thread_map_find(&d->known, (uint32_t)pid);
	struct other *o;

	if (pid == getpid() || is_alive_target(d, pid))
		return 0;
	o = thread_map_get(&d->next, (uint32_t)pid);
	o->first_ns = known ? known->first_ns : d->now_ns;
	o->next_ns = known ? known->next_ns : 0;
	o->refused = known && known->refused;
	o->unread = known && known->unread;
	if (o->next_ns <= d->now_ns) {
		uint64_t age = d->now_ns - o->first_ns;

		if (!discover_check_process(d, o))
			return 0;
		o->next_ns = d->now_ns + (age < AGAIN_MAX_NS ? age : AGAIN_MAX_NS);
	}
	d->waits |= o->refused;
	return 0;
}

static void discover_scan(struct discover *d)
{
	int err;

	forget_ended(d);
	d->waits = false;
	err = *d->cgroup ? cgroup_each_process(d->cgroup, discover_meet_process, d) : process_each(discover_meet_process, d);
	if (err && !*d->cgroup)
		log_debug("--discover: cannot read /proc");
	else if (err && !d->told_gone)
		log_warn("--cgroup: %s: %s", d->cgroup,
			err == -ENOENT ? "the cgroup has been removed; if there is one of this name again, it is recorded" : strerror(-err));
	d->told_gone = err;
	thread_map_clear(&d->known, NULL);
	d->known = d->next;
	d->next = (struct thread_map){ .size = sizeof(struct other) };
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

static bool process_was_target(const struct discover *d, pid_t pid)
{
	const struct task *t = tasks_find(d->c->tasks, (uint32_t)pid);

	return t && t->traced && (t->alive_process || d->now_ns - t->exit_ns < ENDED_NS);
}

/* A process that no longer has the file mapped is just calling exit or exec. */
static void discover_check_mapped(struct discover *d, pid_t pid)
{
	bool known = thread_map_find(&d->known, (uint32_t)pid);
	struct other *o;
	int ret;

	if (process_was_target(d, pid))
		return;
	o = thread_map_get(&d->known, (uint32_t)pid);
	o->first_ns = known ? o->first_ns : d->now_ns;
	ret = discover_check_process(d, o);
	if (ret == -ESRCH || ret == 1) {
		note_missed(d, pid);
	} else if (ret && !known) {
		d->waits |= o->refused;
		d->due_ns = d->now_ns + LOOK_NS;
	}
}

static void on_mapped(pid_t pid, const char *path, void *arg)
{
	struct discover *d = arg;

	if (pid <= 0 || pid == getpid() || (d->by_preset && !is_engine_file(&d->c->probes, path)))
		return;
	if (*d->cgroup || d->n_mapped == MAPPED_MAX) { /* it may be outside the cgroup */
		d->stirred = d->stirred || !is_alive_target(d, pid);
		return;
	}
	for (size_t i = 0; i < d->n_mapped; i++) {
		if (d->mapped[i] == pid)
			return;
	}
	d->mapped[d->n_mapped++] = pid;
}

static void discover_read_mappings(struct discover *d)
{
	d->watch_due_ns = d->now_ns + WATCH_NS;
	map_watch_drain(d->watch, on_mapped, d);
	if (d->n_mapped)
		session_drain_control(d->c->session); /* children of targets are targets */
	for (size_t i = 0; i < d->n_mapped; i++)
		discover_check_mapped(d, d->mapped[i]);
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
		discover_read_mappings(d);
	if (now_ns < (d->stirred ? d->least_ns : d->due_ns))
		return;
	d->stirred = false;
	begun = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	discover_scan(d);
	cost = (clock_ns(CLOCK_THREAD_CPUTIME_ID) - begun) * COST_SHARE;
	/* no event says that there is room for a refused process, or that a process enters a cgroup */
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
			if (!process_was_target(d, d->mapped[i]))
				note_missed(d, d->mapped[i]);
		}
		d->n_mapped = 0;
	}
	forget_ended(d);
	log_info("%" PRIu64 " processes found, %" PRIu64 " of them have ended", d->found, d->ended);
	if (d->refused)
		log_warn("%" PRIu64 " processes %swere left out: more than %d at a time, or than the share of a user", d->refused,
			d->by_preset ? "that a preset matches " : "", DISCOVER_MAX);
	if (d->missed)
		log_warn("%" PRIu64 " processes that mapped a file of a preset ended before they were found", d->missed);
	if (d->maps_lost)
		log_debug("%" PRIu64 " events of the kernel about mapped files were lost: processes may have been found late", d->maps_lost);
	if (d->unread)
		log_debug("the files of %" PRIu64 " processes could not be read", d->unread);
}

/* ---- -p, COMMAND, -a ---- */

#define PIDFDS_MAX 256 /* usually 1024 descriptors are allowed */

#define FAMILY_MAX 1024 /* processes looked at: the given ones and what they have started */

struct family {
	pid_t members[FAMILY_MAX]; /* parents before their children */
	size_t n;
};

static int family_add_children(pid_t tid, void *arg)
{
	struct family *f = arg;
	char path[64];
	pid_t pid;
	FILE *list;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", tid, tid);
	list = fopen(path, "re");
	while (list && f->n < FAMILY_MAX && fscanf(list, "%d", &pid) == 1) {
		size_t i = 0;

		while (i < f->n && f->members[i] != pid)
			i++;
		if (i == f->n && pid != getpid()) /* a shell that is recorded may have started inftrace, too */
			f->members[f->n++] = pid;
	}
	if (list)
		fclose(list);
	return 0;
}

/* Whether it runs the program of one of the given processes. */
static bool runs_given_program(const struct record_options *o, pid_t pid)
{
	struct stat own, given;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	if (stat(path, &own))
		return false;
	for (size_t i = 0; i < o->n_pids; i++) {
		snprintf(path, sizeof(path), "/proc/%d/exe", o->pids[i]);
		if (!stat(path, &given) && own.st_dev == given.st_dev && own.st_ino == given.st_ino)
			return true;
	}
	return false;
}

/* Adds running descendants of the given processes that a preset matches, such as the engine and the workers of an API server. Those that
 * start later are recorded in any case. If none matches, warns of those that run the same program. */
static void targets_find_children(struct targets *t, const struct capture *c)
{
	const struct record_options *o = t->o;
	struct family f = { .n = 0 };
	char list[256] = ""; /* what does not fit is left out */
	size_t len = 0;

	for (size_t i = 0; i < o->n_pids && i < FAMILY_MAX; i++)
		f.members[f.n++] = o->pids[i];
	for (size_t i = 0; i < f.n; i++)
		process_each_thread(f.members[i], family_add_children, &f);
	for (size_t i = o->n_pids; i < f.n; i++) {
		pid_t pid = f.members[i];
		int pidfd = (int)syscall(SYS_pidfd_open, pid, 0); /* before it is looked at, since a PID may be reused */

		if (pidfd >= 0 && t->n_pids < PIDFDS_MAX && process_each_mapped(pid, match_mapping, (void *)&c->probes) > 0) {
			t->pids[t->n_pids] = pid;
			t->pidfds[t->n_pids++] = pidfd;
			continue;
		}
		if (pidfd >= 0)
			close(pidfd);
		if (len + 12 < sizeof(list) && runs_given_program(o, pid))
			len += (size_t)snprintf(list + len, sizeof(list) - len, ",%d", pid);
	}
	if (t->n_pids > o->n_pids)
		log_info("also recorded: %zu running child process%s that a preset matches, first %d", t->n_pids - o->n_pids,
			t->n_pids - o->n_pids == 1 ? "" : "es", t->pids[o->n_pids]);
	else if (*list)
		log_warn("process %d has children of the same program, which run already and are not recorded; to record them, too: -p %d%s",
			o->pids[0], o->pids[0], list);
}

static int check_pids(const struct record_options *o)
{
	for (size_t i = 0; i < o->n_pids; i++) {
		pid_t pid = o->pids[i], tgid;

		if (!process_exists(pid) || process_tgid(pid, &tgid))
			return log_fail(-ESRCH, "no process %d is running; pgrep -af NAME finds it", pid);
		if (tgid != pid)
			return log_fail(-EINVAL, "%d is a thread of process %d: give -p %d", pid, tgid, tgid);
		if (process_is_kernel_thread(pid))
			log_warn("-p %d is a kernel thread: it makes no system calls and runs no engine; only its time "
				 "on and off the CPUs can be recorded",
				pid);
		if (pid == getpid())
			return log_fail(-EINVAL, "-p %d is inftrace itself", pid);
	}
	return 0;
}

static int check_user(struct targets *t)
{
	const char *name = t->o->user;
	int err = name ? user_find(name, &t->user) : 0;

	if (err == -ENOENT) {
		log_error("--user %s: there is no such user", name);
		err = -EINVAL;
	}
	if (!err && name && geteuid() && t->user.uid != getuid()) {
		log_error("--user %s: only root may run a COMMAND as another user", name);
		err = -EPERM;
	}
	return err;
}

int targets_spawn(struct targets *t, const char *const *environment)
{
	static const int as_they_are[3] = { -1, -1, -1 };
	const int *fds = t->o->view ? t->o->view->command_fds : as_they_are;

	return command_spawn(t->o->command, fds, t->o->user ? &t->user : NULL, environment, &t->cmd);
}

int targets_check(struct targets *t)
{
	const struct record_options *o = t->o;
	int err;

	/* all opened before any process is looked at, since a PID may be reused */
	t->pids = xcalloc(o->n_pids + PIDFDS_MAX, sizeof(*t->pids));
	t->pidfds = xcalloc(o->n_pids + PIDFDS_MAX, sizeof(*t->pidfds));
	for (; t->n_pids < o->n_pids; t->n_pids++) {
		t->pids[t->n_pids] = o->pids[t->n_pids];
		t->pidfds[t->n_pids] = t->n_pids < PIDFDS_MAX ? (int)syscall(SYS_pidfd_open, o->pids[t->n_pids], 0) : -1;
	}
	err = check_pids(o);
	if (!err && o->command) {
		err = command_check(o->command[0]);
		if (err)
			log_error("cannot run %s: %s", o->command[0], strerror(-err));
	}
	return err ?: check_user(t);
}

/* ---- attaching ---- */

/* -ESRCH, of which nothing is said: it has exited. */
static int targets_add_process(const struct targets *t, struct capture *c, pid_t pid, int pidfd)
{
	int err = session_target(c->session, pid);

	/* from now on the programs see it exit; it may have exited before, and its number may have been reused */
	if (!err && pidfd >= 0 && has_exited(pidfd)) {
		session_target_gone(c->session, pid);
		return -ESRCH;
	}
	if (err)
		return log_fail(err, "-p %d: %s", pid, err == -E2BIG ? "too many processes" : strerror(-err));
	if (!t->o->command)
		metadata_process(c->metadata, pid);
	err = tasks_add_process(c->tasks, pid) ?: attach_process(c->session->attach, pid, 0);
	pythons_look(c->pythons, pid);
	if (err == -EACCES) {
		log_warn("process %d has privileges that inftrace does not have: its files may not be read and "
			 "its functions are left out",
			pid);
		err = 0;
	}
	return err < 0 ? err : 0;
}

static int targets_add_given(const struct targets *t, struct capture *c, pid_t pid, int pidfd)
{
	int err = targets_add_process(t, c, pid, pidfd);

	if (err == -ESRCH)
		log_error("process %d has exited while inftrace was attaching", pid);
	return err;
}

/* -a: learns the names of running processes, and probes the engines among them. Processes come and go meanwhile. */
static int add_running_process(pid_t pid, void *arg)
{
	struct capture *c = arg;

	if (pid == getpid() || tasks_add_process(c->tasks, pid))
		return 0;
	attach_process(c->session->attach, pid, 0);
	pythons_look(c->pythons, pid);
	return 0;
}

/* A command waits in its loader; an executable without a loader gets its probes before it begins. */
static void hold_targets(const struct targets *t, struct capture *c)
{
	const struct record_options *o = t->o;
	char path[PATH_MAX], loader[LOADER_PATH_MAX];
	bool found = o->command && !command_program(o->command[0], path);
	int n = hold_loaders(c->session->hold, found ? path : NULL);

	if (n < 0)
		log_warn("libraries that are mapped from here on get their probes some milliseconds late: cannot "
			 "probe the dynamic loader: %s",
			strerror(-n));
	if (found && loader_of(path, loader) == -ENOENT)
		attach_executable(c->session->attach, path);
}

void targets_find(struct targets *t, struct capture *c)
{
	if (c->session->hold)
		hold_targets(t, c);
	targets_find_children(t, c);
}

int targets_attach(struct targets *t, struct capture *c)
{
	const struct record_options *o = t->o;
	int err;

	for (size_t i = 0; i < t->n_pids; i++)
		attach_expect_process(c->session->attach, t->pids[i]);
	err = attach_named_files(c->session->attach);
	if (!err)
		err = session_attach(c->session);
	if (!err && o->command)
		err = targets_add_given(t, c, t->cmd.pid, -1);
	for (size_t i = 0; i < t->n_pids && !err; i++) {
		err = (i < o->n_pids ? targets_add_given : targets_add_process)(t, c, t->pids[i], t->pidfds[i]);
		if (err == -ESRCH && i >= o->n_pids)
			err = 0;
	}
	if (!err && (o->n_uprobes || o->n_py_steps || o->n_py_spans) && o->n_pids &&
		attach_check_options(c->session->attach, o->pids, o->n_pids, o->strict) && o->strict)
		err = -EINVAL;
	if (!err && o->all)
		err = process_each(add_running_process, c);
	return err;
}

/* A probe in the loader affects every program that starts meanwhile, and kills one on a CPU emulator, as under valgrind:
 * it is in one process only, unless asked for. */
pid_t targets_hold_pid(const struct targets *t)
{
	if (t->o->command)
		return t->o->hold ? 0 : t->cmd.pid;
	return t->o->n_pids == 1 ? t->o->pids[0] : 0;
}

/* ---- end ---- */

int targets_end(struct targets *t)
{
	/* the record of its exit comes before its exit status, on a busy machine long before */
	if (t->gone)
		command_wait(&t->cmd);
	command_reap(&t->cmd);
	t->command_exited = t->cmd.exited;
	if (t->cmd.pid)
		command_end(&t->cmd);
	if (!t->cmd.pid || t->cmd.exited)
		return 0;
	log_warn("%s still runs, %d s after SIGTERM, as process %d: kill -9 %d ends it", t->o->command[0],
		COMMAND_END_S, t->cmd.pid, t->cmd.pid);
	return -EBUSY;
}

void targets_free(struct targets *t)
{
	user_free(&t->user);
	for (size_t i = 0; i < t->n_pids; i++) {
		if (t->pidfds[i] >= 0)
			close(t->pidfds[i]);
	}
	free(t->pidfds);
	free(t->pids);
}
