// SPDX-License-Identifier: BSD-2-Clause
/* inftrace record: the run, from the checks to the summary. */
#include "record/run.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "capture/features.h"
#include "capture/hold.h"
#include "capture/privileges.h"
#include "engine/inspector.h"
#include "record/control.h"
#include "record/flag.h"
#include "record/flight.h"
#include "record/metadata.h"
#include "record/output.h"
#include "record/step_limit.h"
#include "target/loader.h"
#include "target/process.h"
#include "util/exit_code.h"
#include "util/log.h"

#define DRAIN_MS 10		 /* the rings are drained this often, without wake-ups */
#define DRAIN_PROFILE_MS 100	 /* steps alone are few; each wake-up takes a CPU from a busy engine */
#define STATUS_TTY_NS NSEC_PER_SEC
#define STATUS_FILE_NS (10 * NSEC_PER_SEC)
#define CHECK_ALIVE_NS NSEC_PER_SEC
#define PIDFDS_MAX 256 /* of 1024 descriptors, as a rule */
#define IDLE_MS 500 /* with the window closed, only what wakes the loop up is done sooner */

/* ---- before anything is attached ---- */

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

/* Programs, maps, rings and events, of which some are for each CPU: measured, and some more. */
static int check_descriptors(void)
{
	rlim_t need = 96 + 8 * (rlim_t)sysconf(_SC_NPROCESSORS_CONF);
	struct rlimit rl;

	if (getrlimit(RLIMIT_NOFILE, &rl) || rl.rlim_max >= need)
		return 0;
	log_error("only %llu files may be open, and a recording needs up to %llu: ulimit -n %d",
		(unsigned long long)rl.rlim_max, (unsigned long long)need, need > 1024 ? 65536 : 1024);
	return -EPERM;
}

/* After a COMMAND was started, which keeps the limit that it would have without us. */
static void raise_descriptors(void)
{
	struct rlimit rl;

	if (getrlimit(RLIMIT_NOFILE, &rl) || rl.rlim_cur == rl.rlim_max)
		return;
	rl.rlim_cur = rl.rlim_max;
	setrlimit(RLIMIT_NOFILE, &rl);
}

static int check_user(struct run *r)
{
	const char *name = r->o->user;
	int err = name ? user_find(name, &r->user) : 0;

	if (err == -ENOENT) {
		log_error("--user %s: there is no such user", name);
		err = -EINVAL;
	}
	if (!err && name && geteuid() && r->user.uid != getuid()) {
		log_error("--user %s: only root may run a COMMAND as somebody else", name);
		err = -EPERM;
	}
	return err;
}

static int spawn_command(struct run *r)
{
	static const int as_they_are[3] = { -1, -1, -1 };
	const struct record_options *o = r->o;

	return command_spawn_with(o->command, o->view ? o->view->command_fds : as_they_are,
		o->user ? &r->user : NULL, &r->cmd);
}

static int load_probes(struct run *r)
{
	const struct record_options *o = r->o;
	int err = 0;

	r->probes.op_detail = o->op_detail;
	if (o->events & EVENT_FUNCTIONS || record_wants_profile(o)) {
		if (!strcmp(o->engine, "auto"))
			err = engine_load_all(&r->probes);
		else if (strcmp(o->engine, "none"))
			err = engine_load(&r->probes, o->engine);
	}
	for (size_t i = 0; i < o->n_uprobes && !err; i++)
		err = probe_table_add_option(&r->probes, o->uprobes[i]);
	return err;
}

/* ---- while it runs ---- */

static void read_signals(struct run *r)
{
	struct view *view = r->o->view;
	struct signalfd_siginfo si;

	while (read(r->signal_fd, &si, sizeof(si)) == sizeof(si)) {
		if (si.ssi_signo == SIGCHLD) {
			command_reap(&r->cmd);
		} else if (view && sigismember(&view->signals, (int)si.ssi_signo) == 1) {
			view->ops->signal(view, (int)si.ssi_signo);
		} else if (si.ssi_signo == SIGUSR1 && r->recorder) {
			recorder_request(r->recorder, "SIGUSR1", 0);
		} else if (si.ssi_signo == SIGUSR1) {
			log_warn("SIGUSR1: nothing to dump; a recording with --flight-recorder has");
		} else {
			r->stop = true;
			r->interrupted = true;
		}
	}
}

/* While the symbols of a file are read. */
static int keep_up(void *arg)
{
	struct run *r = arg;

	read_signals(r);
	return r->stop ? -ECANCELED : run_keep_up(r);
}

static void show_status(struct run *r, uint64_t now)
{
	bool tty = isatty(STDERR_FILENO);
	uint64_t period = tty ? STATUS_TTY_NS : STATUS_FILE_NS, records, span;
	const char *state = "";
	struct window_totals t;
	char text[256];

	if (now - r->last_status_ns < period)
		return;
	span = now - r->last_status_ns;
	run_totals(r, &t);
	records = total_of(t.records);
	if (record_by_time(r->o) && !r->recorder)
		state = r->w.open ? "  window open" : "  window closed";
	snprintf(text, sizeof(text),
		"%" PRIu64 " s  %" PRIu64 " steps (%" PRIu64 "/s)  %" PRIu64 " records/s  %.1f MB  %" PRIu64
		" lost%s",
		(now - r->begun_ns) / NSEC_PER_SEC, t.steps, (t.steps - r->last_steps) * NSEC_PER_SEC / span,
		(records - r->last_records) * NSEC_PER_SEC / span, (double)t.bytes / 1e6, total_of(t.lost), state);
	log_status(text);
	r->last_status_ns = now;
	r->last_records = records;
	r->last_steps = t.steps;
}

static bool targets_gone(struct run *r, uint64_t now)
{
	bool check = now - r->last_check_ns >= CHECK_ALIVE_NS;

	if (r->o->all)
		return false;
	if (check)
		r->last_check_ns = now;
	return !tasks_alive(r->tasks, check);
}

/* Returns `more`, or an error. */
static int show_view(struct run *r, struct view *view, int more)
{
	int ret = more < 0 ? more : view->ops->round(view, clock_ns(CLOCK_BOOTTIME));

	if (ret > 0)
		r->stop = r->interrupted = true;
	return ret < 0 ? ret : more;
}

int run_schedule(struct run *r, uint64_t now)
{
	struct schedule_state st = schedule_next(&r->schedule, now);
	int err = 0;

	r->next_ns = st.next_ns;
	if (r->w.open && (!st.open || st.number != r->scheduled))
		err = window_close(r, st.closed);
	if (!err && st.open && !r->w.open)
		err = window_open(r, st.opened);
	r->scheduled = st.number;
	r->stop = r->stop || st.over;
	return err;
}

static int read_flag(struct run *r)
{
	bool there;
	int more, err = 0;

	do {
		more = flag_read(r->flag, &there);
		if (more < 0) {
			log_error("cannot watch %s: %s", r->o->window_flag, strerror(-more));
			return more;
		}
		schedule_flag(&r->schedule, clock_ns(CLOCK_BOOTTIME), there);
		err = run_schedule(r, clock_ns(CLOCK_BOOTTIME));
	} while (more && !err);
	return err;
}

static void count_steps(struct run *r, uint64_t now)
{
	if (r->w.open && session_over(r->session)) /* also when the record of one was lost */
		schedule_steps(&r->schedule, now, r->o->max_steps);
	else if (r->step_limit && r->w.open && step_limit_over(r->step_limit, r->tasks))
		schedule_steps(&r->schedule, now, 1);
	else if (!r->step_limit && r->w.open && r->w.totals.steps > r->counted_steps)
		schedule_steps(&r->schedule, now, r->w.totals.steps - r->counted_steps);
	r->counted_steps = r->w.open ? r->w.totals.steps : 0;
}

/* How long nothing has to be done, in ms, as long as nothing happens. */
static int time_to_wait(const struct run *r, uint64_t now)
{
	uint64_t drain_ms = record_wants_trace(r->o) || r->o->events & EVENT_MEMORY ? DRAIN_MS : DRAIN_PROFILE_MS;
	uint64_t wait = (r->w.open ? drain_ms : IDLE_MS) * NSEC_PER_MSEC, next = r->next_ns;

	if (r->recorder && recorder_busy(r->recorder))
		return 0;
	if (r->recorder && recorder_waits(r->recorder))
		wait = NSEC_PER_MSEC;
	if (!r->w.open && !r->idle_ns && next != UINT64_MAX)
		next -= PREPARE_NS;
	if (next <= now)
		return 0;
	if (next - now < wait)
		wait = next - now;
	return (int)((wait + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC);
}

/* What has happened, apart from records. Returns `more`, or an error. */
static int serve(struct run *r, int more)
{
	struct view *view = r->o->view;
	uint64_t now = clock_ns(CLOCK_BOOTTIME);
	int err = 0;

	if (r->flag)
		err = read_flag(r);
	control_serve(r->control);
	err = err ? err : r->failed;
	if (r->recorder && !err)
		err = recorder_round(r->recorder, now);
	count_steps(r, now);
	if (!err)
		err = run_schedule(r, now);
	if (err)
		return err;
	if (view)
		return show_view(r, view, more);
	show_status(r, now);
	return more;
}

static int loop(struct run *r)
{
	struct view *view = r->o->view;
	struct pollfd fds[] = {
		{ .fd = session_control_fd(r->session), .events = POLLIN },
		{ .fd = r->signal_fd, .events = POLLIN },
		{ .fd = view ? view->fd : -1, .events = POLLIN },
		{ .fd = control_fd(r->control), .events = POLLIN },
		{ .fd = r->flag ? flag_fd(r->flag) : -1, .events = POLLIN },
	};
	int more = 0;

	while (more >= 0 && !r->stop) {
		uint64_t now = clock_ns(CLOCK_BOOTTIME);

		if (targets_gone(r, now))
			break;
		if (poll(fds, sizeof(fds) / sizeof(fds[0]), more ? 0 : time_to_wait(r, now)) < 0 && errno != EINTR)
			return -errno;
		read_signals(r);
		more = run_drain(r);
		if (more >= 0)
			more = serve(r, more);
	}
	return more < 0 ? more : 0;
}

/* ---- the whole ---- */

static int setup_signals(struct run *r)
{
	sigset_t set;

	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* over the limit of ulimit -f: an error of the write, like a full disk */
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGUSR1);
	if (r->o->view)
		sigorset(&set, &set, &r->o->view->signals);
	if (sigprocmask(SIG_BLOCK, &set, NULL))
		return -errno;
	r->signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	return r->signal_fd < 0 ? -errno : 0;
}

static void on_engine_file(pid_t pid, const char *name, const char *build_id, void *arg)
{
	struct run *r = arg;

	metadata_library(r->metadata, pid, name, build_id);
}

/*
 * Whose loader is probed. A probe in the loader is in every program that is started meanwhile, and one that
 * runs on an emulator of the CPU, as under valgrind, dies of it: so it is in one process, unless asked for.
 */
static pid_t hold_pid(const struct run *r)
{
	if (r->o->command)
		return r->o->hold ? 0 : r->cmd.pid;
	return r->o->n_pids == 1 ? r->o->pids[0] : 0;
}

static int open_session(struct run *r, bool uprobe_multi, bool uprobe_multi_pid)
{
	const struct record_options *o = r->o;
	struct session_config c = {
		.trace_all = o->all,
		.watch_maps = r->probes.n,
		.hold = r->probes.n && (o->command ? !o->no_hold : o->hold),
		.hold_pid = hold_pid(r),
		.min_syscall_ns = o->min_syscall_ns,
		.ring_bytes = o->ring_bytes,
		.uprobe_multi = uprobe_multi,
		.uprobe_multi_pid = uprobe_multi_pid,
		.windows = record_by_time(o) && !o->flight_bytes && !o->flight_ns,
		.max_steps = (uint32_t)o->max_steps,
		.peek = o->flight_bytes || o->flight_ns,
		.probes = &r->probes,
		.engine_file = on_engine_file,
		.engine_file_arg = r,
		.inspector = r->inspector,
		.cb = run_callback(),
		.cb_arg = r,
	};
	int err;

	events_configure(o, &r->probes, &c);
	err = session_open(&c, &r->session);
	if (!err && r->inspector)
		inspector_set_wait(r->inspector, keep_up, r);
	return err ? err : follow_new(r->session, r->tasks, &r->follow);
}

static int start_inspector(struct run *r)
{
	int err;

	if (!r->probes.n && !r->probes.n_engines)
		return 0;
	err = inspector_new(&r->probes, &r->inspector);
	if (err)
		log_error("cannot start the process that reads symbols: %s", strerror(-err));
	return err;
}

/* Of all that -p names, before it is looked at: a number may become another process's. */
static int open_pidfds(struct run *r)
{
	const struct record_options *o = r->o;

	r->pidfds = calloc(o->n_pids + 1, sizeof(*r->pidfds));
	if (!r->pidfds)
		return -ENOMEM;
	for (size_t i = 0; i < o->n_pids; i++)
		r->pidfds[i] = i < PIDFDS_MAX ? (int)syscall(SYS_pidfd_open, o->pids[i], 0) : -1;
	return 0;
}

static void close_pidfds(struct run *r)
{
	for (size_t i = 0; r->pidfds && i < r->o->n_pids; i++) {
		if (r->pidfds[i] >= 0)
			close(r->pidfds[i]);
	}
	free(r->pidfds);
	r->pidfds = NULL;
}

static bool has_exited(int pidfd)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };

	return poll(&p, 1, 0) == 1 && p.revents & POLLIN;
}

static int add_target(struct run *r, pid_t pid, int pidfd)
{
	int err;

	err = session_target(r->session, pid);
	/* from here on the programs see it exit; before, it may have, and the number be a stranger's */
	if (!err && pidfd >= 0 && has_exited(pidfd)) {
		session_target_gone(r->session, pid);
		log_error("process %d has exited while inftrace was attaching", pid);
		return -ESRCH;
	}
	if (err) {
		log_error("-p %d: %s", pid, err == -E2BIG ? "too many processes" : strerror(-err));
		return err;
	}
	if (!r->o->command)
		metadata_process(r->metadata, pid);
	err = tasks_add_process(r->tasks, pid);
	if (!err)
		err = attach_process(session_probes(r->session), pid, 0);
	if (err == -ESRCH)
		log_error("process %d has exited while inftrace was attaching", pid);
	if (err == -EACCES) {
		log_warn("process %d has privileges that inftrace has not: its files may not be read and "
			 "its functions are left out",
			pid);
		err = 0;
	}
	return err < 0 ? err : 0;
}

/* -a: the names of what runs already, and the engines among it. Processes come and go meanwhile. */
static int add_running(pid_t pid, void *arg)
{
	struct run *r = arg;

	if (pid != getpid() && !tasks_add_process(r->tasks, pid))
		attach_process(session_probes(r->session), pid, 0);
	return 0;
}

/* A command waits in its loader; an executable without one has its probes before it begins. */
static void hold_targets(struct run *r)
{
	const struct record_options *o = r->o;
	char path[PATH_MAX], loader[LOADER_PATH_MAX];
	bool found = o->command && !command_program(o->command[0], path);
	int n = hold_loaders(session_hold(r->session), found ? path : NULL);

	if (n < 0)
		log_warn("libraries that are mapped from here on have their probes some milliseconds later: cannot "
			 "probe the dynamic loader: %s",
			strerror(-n));
	if (found && loader_of(path, loader) == -ENOENT)
		attach_executable(session_probes(r->session), path);
}

static int attach_all(struct run *r)
{
	const struct record_options *o = r->o;
	int err;

	if (session_hold(r->session))
		hold_targets(r);
	for (size_t i = 0; i < o->n_pids; i++)
		attach_expect_process(session_probes(r->session), o->pids[i]);
	err = attach_named_files(session_probes(r->session));
	if (!err)
		err = session_attach(r->session);
	if (!err && o->command)
		err = add_target(r, r->cmd.pid, -1);
	for (size_t i = 0; i < o->n_pids && !err; i++)
		err = add_target(r, o->pids[i], r->pidfds[i]);
	if (!err && o->n_uprobes && o->n_pids &&
		attach_check_options(session_probes(r->session), o->pids, o->n_pids, o->strict) && o->strict)
		err = -EINVAL;
	if (!err && o->all)
		err = process_each(add_running, r);
	return err;
}

static int plan(struct run *r)
{
	struct schedule_config c = { .duration_ns = r->o->duration_ns, .max_steps = r->o->max_steps };
	int err = 0;

	if (r->step_limit)
		c.max_steps = 1; /* the limit itself is told when all have had theirs */

	if (r->o->window_flag) {
		c.source = SCHEDULE_FLAG;
	} else if (r->o->window_spec) {
		err = schedule_parse(r->o->window_spec, &c);
	}
	if (!err)
		schedule_init(&r->schedule, &c, clock_ns(CLOCK_BOOTTIME));
	return err;
}

/* The first window, if it opens now. */
static int start(struct run *r)
{
	const struct record_options *o = r->o;
	int err = 0;

	err = outputs_prepare(o);
	if (err)
		return err;
	r->w.rec = (struct recording){
		.probes = &r->probes,
		.tasks = r->tasks,
		.handles = r->handles,
		.windows = record_by_time(o),
		.meta = &r->meta,
		.on_file = window_file,
		.on_file_arg = r,
	};
	r->meta = (struct profile_meta){ .of = metadata_of, .arg = r->metadata };
	r->begun_ns = r->last_status_ns = r->last_check_ns = clock_ns(CLOCK_BOOTTIME);
	if (record_by_time(o))
		err = session_watch(r->session);
	if (!err && (o->flight_bytes || o->flight_ns))
		err = recorder_new(r, &r->recorder);
	if (!err)
		err = plan(r);
	if (!err)
		err = r->flag ? read_flag(r) : run_schedule(r, clock_ns(CLOCK_BOOTTIME));
	if (err)
		return err;
	if (!r->w.open)
		r->idle_ns = r->begun_ns + IDLE_NS;
	run_control(r);
	if (!o->command)
		return 0;
	metadata_command(r->metadata, r->cmd.pid, o->command);
	err = command_release(&r->cmd);
	if (err)
		log_error("cannot run %s: %s", o->command[0], strerror(-err));
	return err;
}

static void say_begun(const struct run *r)
{
	const char *what = r->recorder ? "flight recorder on" : r->w.open ? "recording" : "waiting for the window to open";

	log_info("%s%s", what, r->o->duration_ns && !record_by_time(r->o) ? "" : "; Ctrl-C ends it");
}

static int drop_privileges(const struct run *r)
{
	int err = privileges_drop(r->single_links);

	if (err)
		log_error("cannot give up privileges: %s", strerror(-err));
	return err;
}

/* From here on something is attached. */
static int run_attached(struct run *r)
{
	int err, close_err;

	err = attach_all(r);
	hold_hurry(session_hold(r->session)); /* takes a privilege */
	if (!err)
		err = drop_privileges(r);
	if (!err)
		err = start(r);
	if (err) {
		window_abandon(r);
		return err;
	}
	if (!r->o->view)
		say_begun(r);
	err = loop(r);
	if (r->recorder)
		recorder_finish(r->recorder);
	close_err = window_close(r, "end");
	if (!err)
		err = close_err;
	if (!err && r->recorder && recorder_failed(r->recorder))
		err = -EIO;
	if (!r->o->view)
		run_summary(r);
	return err;
}

/* What -u asks for was nowhere. */
static bool lacks_option(const struct run *r)
{
	for (size_t i = 0; i < r->probes.n; i++) {
		const struct probe_spec *s = &r->probes.specs[i];

		if (!s->engine && !s->from && !s->attached && !s->refused)
			return true;
	}
	return false;
}

static int exit_code(struct run *r, int err, bool lacks)
{
	if (err == -EPERM || err == -EOPNOTSUPP)
		return EXIT_ALLOWED;
	if (err == -EINVAL)
		return EXIT_USAGE;
	if (err)
		return EXIT_RUN;
	if (r->o->strict && total_of(r->whole.lost))
		return EXIT_LOSS;
	if (r->o->strict && lacks)
		return EXIT_USAGE;
	if (r->o->command && !r->interrupted && r->cmd.exited)
		return command_exit_code(&r->cmd);
	return EXIT_OK;
}

static int check_allowed(bool *ret_uprobe_multi, bool *ret_uprobe_multi_pid)
{
	struct features f;
	char why[512];
	int err;

	err = features_probe_fast(&f);
	if (!err)
		err = features_require(&f, why, sizeof(why));
	else
		snprintf(why, sizeof(why), "cannot look at the kernel: %s", strerror(-err));
	if (err) {
		log_error("%s", why);
		return err == -EPERM ? err : -EOPNOTSUPP;
	}
	*ret_uprobe_multi = features_have(&f, FEATURE_UPROBE_MULTI);
	/* in a pid namespace the records have other pids than the links would need */
	*ret_uprobe_multi_pid = features_have(&f, FEATURE_UPROBE_MULTI_PID) && !f.pid_ns;
	return 0;
}

int record_run(struct record_options *o)
{
	struct run r = { .o = o, .signal_fd = -1 };
	bool uprobe_multi = false, uprobe_multi_pid = false, reaped, lacks;
	int err;

	/* privileges before presets: who may not record need not hear of those */
	err = open_pidfds(&r) ?: check_pids(o) ?: check_command(o) ?: check_user(&r) ?: outputs_check(o) ?: check_descriptors();
	if (!err)
		err = check_allowed(&uprobe_multi, &uprobe_multi_pid);
	if (!err && o->window_flag)
		err = flag_open(o->window_flag, &r.flag);
	if (!err)
		err = load_probes(&r);
	if (!err)
		err = setup_signals(&r);
	if (!err)
		err = tasks_new(&r.tasks);
	if (!err) {
		r.handles = handles_new();
		err = r.handles ? 0 : -ENOMEM;
	}
	if (!err && o->max_steps_each)
		err = step_limit_new(o->max_steps_each, &r.step_limit);
	if (!err && record_wants_profile(o))
		err = metadata_new(o, &r.probes, &r.metadata);
	/* before there is anything of which it should not have a copy */
	if (!err)
		err = start_inspector(&r);
	if (!err && o->command)
		err = spawn_command(&r);
	raise_descriptors();
	if (!err)
		err = open_session(&r, uprobe_multi, uprobe_multi_pid);
	r.single_links = !uprobe_multi;
	if (!err && o->view)
		o->view->session = r.session;
	if (!err)
		err = run_attached(&r);
	control_free(r.control);
	recorder_free(r.recorder);
	flag_free(r.flag);
	follow_free(r.follow);
	session_free(r.session);
	command_reap(&r.cmd);
	reaped = r.cmd.exited;
	if (r.cmd.pid)
		command_end(&r.cmd);
	if (!reaped)
		r.interrupted = true;
	inspector_free(r.inspector);
	if (r.cmd.pid && !r.cmd.exited) {
		log_warn("%s still runs, %d s after SIGTERM, as process %d: kill -9 %d ends it", o->command[0],
			COMMAND_END_S, r.cmd.pid, r.cmd.pid);
		err = err ? err : -EBUSY;
	}
	tasks_free(r.tasks);
	handles_free(r.handles);
	metadata_free(r.metadata);
	step_limit_free(r.step_limit);
	lacks = lacks_option(&r);
	user_free(&r.user);
	close_pidfds(&r);
	probe_table_free(&r.probes);
	if (r.signal_fd >= 0)
		close(r.signal_fd);
	return exit_code(&r, err, lacks);
}
