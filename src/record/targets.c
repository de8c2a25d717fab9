// SPDX-License-Identifier: BSD-2-Clause
#include "record/targets.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "capture/hold.h"
#include "capture/python.h"
#include "record/view.h"
#include "target/process.h"
#include "util/log.h"

#define PIDFDS_MAX 256 /* usually 1024 descriptors are allowed */

/* ---- before anything is attached ---- */

struct children {
	const struct record_options *o;
	struct stat program; /* of the parent */
	char list[256];      /* ",12,34"; what does not fit is left out */
};

static bool program_of(pid_t pid, struct stat *ret)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	return !stat(path, ret);
}

static bool is_given(const struct record_options *o, pid_t pid)
{
	for (size_t i = 0; i < o->n_pids; i++) {
		if (o->pids[i] == pid)
			return true;
	}
	return false;
}

static int list_children(pid_t tid, void *arg)
{
	struct children *c = arg;
	char path[64];
	struct stat sb;
	pid_t pid;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", tid, tid);
	f = fopen(path, "re");
	while (f && fscanf(f, "%d", &pid) == 1) {
		size_t len = strlen(c->list);

		if (!is_given(c->o, pid) && program_of(pid, &sb) && sb.st_dev == c->program.st_dev &&
			sb.st_ino == c->program.st_ino && len + 12 < sizeof(c->list))
			snprintf(c->list + len, sizeof(c->list) - len, ",%d", pid);
	}
	if (f)
		fclose(f);
	return 0;
}

/* A server may have started others of its kind that do its work. Those that it starts from now on are recorded. */
static void tell_children(const struct record_options *o, pid_t pid)
{
	struct children c = { .o = o };

	if (program_of(pid, &c.program))
		process_each_thread(pid, list_children, &c);
	if (*c.list)
		log_warn("process %d has children of the same program, which run already and are not recorded; to record them, too: -p %d%s",
			pid, pid, c.list);
}

static int check_pids(const struct record_options *o)
{
	for (size_t i = 0; i < o->n_pids; i++) {
		pid_t pid = o->pids[i], tgid;

		if (!process_exists(pid) || process_tgid(pid, &tgid)) {
			log_error("no process %d is running; pgrep -af NAME finds it", pid);
			return -ESRCH;
		}
		if (tgid != pid) {
			log_error("%d is a thread of process %d: give -p %d", pid, tgid, tgid);
			return -EINVAL;
		}
		if (process_is_kernel_thread(pid))
			log_warn("-p %d is a kernel thread: it makes no system calls and runs no engine; only its time "
				 "on and off the CPUs can be recorded",
				pid);
		if (pid == getpid()) {
			log_error("-p %d is inftrace itself", pid);
			return -EINVAL;
		}
		tell_children(o, pid);
	}
	return 0;
}

static int check_command(const struct record_options *o)
{
	int err = o->command ? command_check(o->command[0]) : 0;

	if (err)
		log_error("cannot run %s: %s", o->command[0], strerror(-err));
	return err;
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

int targets_spawn(struct targets *t)
{
	static const int as_they_are[3] = { -1, -1, -1 };
	const struct record_options *o = t->o;

	return command_spawn_with(o->command, o->view ? o->view->command_fds : as_they_are,
		o->user ? &t->user : NULL, t->environment, &t->cmd);
}

/* For all processes of -p, before they are looked at, since a number may be reused by another process. */
static int open_pidfds(struct targets *t)
{
	const struct record_options *o = t->o;

	t->pidfds = calloc(o->n_pids + 1, sizeof(*t->pidfds));
	if (!t->pidfds)
		return -ENOMEM;
	for (size_t i = 0; i < o->n_pids; i++)
		t->pidfds[i] = i < PIDFDS_MAX ? (int)syscall(SYS_pidfd_open, o->pids[i], 0) : -1;
	return 0;
}

static void close_pidfds(struct targets *t)
{
	for (size_t i = 0; t->pidfds && i < t->o->n_pids; i++) {
		if (t->pidfds[i] >= 0)
			close(t->pidfds[i]);
	}
	free(t->pidfds);
	t->pidfds = NULL;
}

int targets_check(struct targets *t)
{
	return open_pidfds(t) ?: check_pids(t->o) ?: check_command(t->o) ?: check_user(t);
}

/* ---- attaching ---- */

static bool has_exited(int pidfd)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };

	return poll(&p, 1, 0) == 1 && p.revents & POLLIN;
}

static int add_target(const struct targets *t, struct capture *c, pid_t pid, int pidfd)
{
	int err;

	err = session_target(c->session, pid);
	/* from now on the programs see it exit; it may have exited before, and its number may have been reused */
	if (!err && pidfd >= 0 && has_exited(pidfd)) {
		session_target_gone(c->session, pid);
		log_error("process %d has exited while inftrace was attaching", pid);
		return -ESRCH;
	}
	if (err) {
		log_error("-p %d: %s", pid, err == -E2BIG ? "too many processes" : strerror(-err));
		return err;
	}
	if (!t->o->command)
		metadata_process(c->metadata, pid);
	err = tasks_add_process(c->tasks, pid);
	if (!err)
		err = attach_process(session_probes(c->session), pid, 0);
	pythons_look(c->pythons, pid);
	if (err == -ESRCH)
		log_error("process %d has exited while inftrace was attaching", pid);
	if (err == -EACCES) {
		log_warn("process %d has privileges that inftrace does not have: its files may not be read and "
			 "its functions are left out",
			pid);
		err = 0;
	}
	return err < 0 ? err : 0;
}

/* -a: the names of running processes, and the engines among them. Processes come and go meanwhile. */
static int add_running(pid_t pid, void *arg)
{
	struct capture *c = arg;

	if (pid == getpid() || tasks_add_process(c->tasks, pid))
		return 0;
	attach_process(session_probes(c->session), pid, 0);
	pythons_look(c->pythons, pid);
	return 0;
}

/* A command waits in its loader; an executable without a loader gets its probes before it begins. */
static void hold_targets(const struct targets *t, struct capture *c)
{
	const struct record_options *o = t->o;
	char path[PATH_MAX], loader[LOADER_PATH_MAX];
	bool found = o->command && !command_program(o->command[0], path);
	int n = hold_loaders(session_hold(c->session), found ? path : NULL);

	if (n < 0)
		log_warn("libraries that are mapped from here on get their probes some milliseconds late: cannot "
			 "probe the dynamic loader: %s",
			strerror(-n));
	if (found && loader_of(path, loader) == -ENOENT)
		attach_executable(session_probes(c->session), path);
}

int targets_attach(struct targets *t, struct capture *c)
{
	const struct record_options *o = t->o;
	int err;

	if (session_hold(c->session))
		hold_targets(t, c);
	for (size_t i = 0; i < o->n_pids; i++)
		attach_expect_process(session_probes(c->session), o->pids[i]);
	err = attach_named_files(session_probes(c->session));
	if (!err)
		err = session_attach(c->session);
	if (!err && o->command)
		err = add_target(t, c, t->cmd.pid, -1);
	for (size_t i = 0; i < o->n_pids && !err; i++)
		err = add_target(t, c, o->pids[i], t->pidfds[i]);
	if (!err && (o->n_uprobes || o->n_py_steps) && o->n_pids &&
		attach_check_options(session_probes(c->session), o->pids, o->n_pids, o->strict) && o->strict)
		err = -EINVAL;
	if (!err && o->all)
		err = process_each(add_running, c);
	return err;
}

/*
 * The process whose loader is probed. A probe in the loader affects every program that is started meanwhile, and
 * one that runs on a CPU emulator, as under valgrind, dies of it: so it is in one process only, unless asked for.
 */
pid_t targets_hold_pid(const struct targets *t)
{
	if (t->o->command)
		return t->o->hold ? 0 : t->cmd.pid;
	return t->o->n_pids == 1 ? t->o->pids[0] : 0;
}

/* ---- end ---- */

void targets_end(struct targets *t)
{
	/* the record of its exit comes before its status: a busy machine may take long from one to the other */
	if (t->gone)
		command_wait(&t->cmd);
	command_reap(&t->cmd);
	t->command_exited = t->cmd.exited;
	if (t->cmd.pid)
		command_end(&t->cmd);
}

int targets_check_ended(const struct targets *t)
{
	if (!t->cmd.pid || t->cmd.exited)
		return 0;
	log_warn("%s still runs, %d s after SIGTERM, as process %d: kill -9 %d ends it", t->o->command[0],
		COMMAND_END_S, t->cmd.pid, t->cmd.pid);
	return -EBUSY;
}

void targets_free(struct targets *t)
{
	user_free(&t->user);
	close_pidfds(t);
}
