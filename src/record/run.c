// SPDX-License-Identifier: BSD-2-Clause
#include "record/run.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "capture/hold.h"
#include "capture/perf_events.h"
#include "capture/privileges.h"
#include "engine/inspect.h"
#include "record/capture.h"
#include "record/control.h"
#include "record/discover.h"
#include "record/flight.h"
#include "record/gpu.h"
#include "record/intake.h"
#include "record/output.h"
#include "record/overhead.h"
#include "record/pace.h"
#include "record/status.h"
#include "record/step_limit.h"
#include "record/summary.h"
#include "record/targets.h"
#include "record/unwinder.h"
#include "record/view.h"
#include "record/windows.h"
#include "util/clock.h"
#include "util/exit_code.h"
#include "util/log.h"
#include "util/yield.h"

#define CHECK_ALIVE_NS NSEC_PER_SEC
#define STEPS_LOOK_NS (3 * NSEC_PER_SEC) /* after so long it is said if there was no step */
#define GPU_CALM 10             /* percent of a ring of a GPU, whose records come in bursts */
#define PENDING_CALM (4u << 20) /* bytes waiting for the files: beyond that their writers do not yield */
#define UNWIND_CALM (1u << 20)  /* bytes of samples that wait: beyond that the thread that unwinds does not yield */

struct run {
	const struct record_options *o;
	struct targets targets;
	struct capture capture;
	struct intake intake;
	struct windows windows;
	struct recorder *recorder; /* NULL: no --flight-recorder */
	struct discover *discover; /* NULL: neither --discover nor --cgroup */
	struct run_control control;
	struct status status;
	bool yields;            /* our threads may yield */
	struct pace *pace;      /* NULL: they do not */
	uint64_t last_check_ns; /* of whether the targets are alive */
	int signal_fd;
	bool stop, interrupted, steps_told;
};

/* ---- before anything is attached ---- */

/* Programs, maps, rings and events, some of them for each CPU: as measured, with a margin. */
static int check_descriptors(void)
{
	rlim_t need = 96 + 11 * (rlim_t)sysconf(_SC_NPROCESSORS_CONF);
	struct rlimit rl;

	if (getrlimit(RLIMIT_NOFILE, &rl) || rl.rlim_max >= need)
		return 0;
	log_error("only %llu files may be open, and a recording needs up to %llu: ulimit -n %d",
		(unsigned long long)rl.rlim_max, (unsigned long long)need, need > 1024 ? 65536 : 1024);
	return -EPERM;
}

/* Called after the COMMAND was started, which keeps the limit that it would have without us. */
static void raise_descriptors(void)
{
	struct rlimit rl;

	if (getrlimit(RLIMIT_NOFILE, &rl) || rl.rlim_cur == rl.rlim_max)
		return;
	rl.rlim_cur = rl.rlim_max;
	setrlimit(RLIMIT_NOFILE, &rl);
}

/* ---- while it runs ---- */

static void read_signals(struct run *r)
{
	struct view *view = r->o->view;
	struct signalfd_siginfo si;

	while (read(r->signal_fd, &si, sizeof(si)) == sizeof(si)) {
		if (si.ssi_signo == SIGCHLD) {
			command_reap(&r->targets.cmd);
		} else if (view && sigismember(&view->signals, (int)si.ssi_signo) == 1) {
			view->ops->signal(view, (int)si.ssi_signo);
		} else if (si.ssi_signo == SIGUSR1 && r->recorder) {
			recorder_request(r->recorder, "SIGUSR1", (struct last){ 0 }, 0);
		} else if (si.ssi_signo == SIGUSR1) {
			log_warn("SIGUSR1: nothing to dump; a recording with --flight-recorder has");
		} else {
			r->stop = true;
			r->interrupted = true;
		}
	}
}

/* Called while the symbols of a file are read. */
static int keep_up(void *arg)
{
	struct run *r = arg;

	read_signals(r);
	return r->stop ? -ECANCELED : windows_keep_up(&r->windows);
}

static bool targets_gone(struct run *r, uint64_t now)
{
	bool check = now - r->last_check_ns >= CHECK_ALIVE_NS;

	if (r->o->all)
		return false;
	if (check)
		r->last_check_ns = now;
	return !tasks_alive(r->capture.tasks, check) && !r->discover;
}

/* Returns `more`, or an error. */
static int show_view(struct run *r, struct view *view, int more)
{
	int ret = more < 0 ? more : view->ops->round(view, clock_boot_ns());

	if (ret > 0)
		r->stop = r->interrupted = true;
	return ret < 0 ? ret : more;
}

/* How long, in ms, there is nothing to do unless something happens. */
static int time_to_wait(const struct run *r, uint64_t now)
{
	uint64_t wait = windows_wait_ns(&r->windows, now), due = discover_due_ns(r->discover);

	if (r->intake.gpu && gpu_fill(r->intake.gpu) > GPU_CALM) /* more has come while this was taken */
		return 0;
	if (r->recorder && recorder_busy(r->recorder))
		return 0;
	if (r->recorder && recorder_waits(r->recorder) && wait > NSEC_PER_MSEC)
		wait = NSEC_PER_MSEC;
	if (due < now + wait)
		wait = due > now ? due - now : 0;
	return (int)((wait + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC);
}

/* Handles everything but records. Returns `more`, or an error. */
static int serve(struct run *r, int more)
{
	struct view *view = r->o->view;
	uint64_t now = clock_boot_ns();
	int err = windows_read_flag(&r->windows);

	control_serve(r->control.control);
	err = err ? err : r->control.failed;
	if (r->recorder && !err)
		err = recorder_round(r->recorder, now);
	if (!err)
		err = windows_turn(&r->windows, now);
	discover_turn(r->discover, now);
	follow_turn(r->capture.follow, now);
	overhead_turn(r->windows.overhead, r->windows.sink, now);
	misfits_turn(r->capture.misfits, r->windows.sink, now);
	r->stop = r->stop || r->control.stop || r->windows.over;
	if (err)
		return err;
	if (view)
		return show_view(r, view, more);
	if (!r->steps_told && now - r->status.begun_ns > STEPS_LOOK_NS) {
		r->steps_told = true;
		record_tell_steps(&r->windows);
	}
	status_show(&r->status, &r->windows, now);
	return more;
}

/* Whether the loop waits for nothing but time. */
static bool is_calm(const struct run *r)
{
	return !(r->recorder && (recorder_busy(r->recorder) || recorder_waits(r->recorder))) &&
	       !(r->intake.gpu && gpu_fill(r->intake.gpu) > GPU_CALM) &&
	       windows_pending(&r->windows) < PENDING_CALM &&
	       (!r->intake.unwinder || unwinder_waiting(r->intake.unwinder) < UNWIND_CALM);
}

static unsigned int fullest_ring(void *arg)
{
	const struct run *r = arg;
	unsigned int records = session_fill(r->capture.session), gpu = r->intake.gpu ? gpu_fill(r->intake.gpu) : 0;

	return records > gpu ? records : gpu;
}

/* The run works without it, too. */
static void open_pace(struct run *r, const struct pollfd *fds, nfds_t n_fds)
{
	struct pace_config c = { .fds = fds, .n_fds = n_fds, .fill = fullest_ring, .arg = r };
	int err = r->yields ? pace_new(&c, &r->pace) : -EPERM;

	if (err)
		log_debug("the recording does not yield to others: %s", strerror(-err));
}

static int loop(struct run *r)
{
	struct view *view = r->o->view;
	struct pollfd fds[] = {
		{ .fd = session_control_fd(r->capture.session), .events = POLLIN },
		{ .fd = r->signal_fd, .events = POLLIN },
		{ .fd = view ? view->fd : -1, .events = POLLIN },
		{ .fd = control_fd(r->control.control), .events = POLLIN },
		{ .fd = r->windows.flag_fd, .events = POLLIN },
		{ .fd = gpu_fd(r->intake.gpu), .events = POLLIN },
	};
	nfds_t n_fds = sizeof(fds) / sizeof(fds[0]);
	int more = 0;

	open_pace(r, fds, n_fds);
	while (more >= 0 && !r->stop) {
		uint64_t now = clock_boot_ns();

		r->targets.gone = targets_gone(r, now);
		if (r->targets.gone)
			break;
		if (pace_poll(r->pace, fds, n_fds, more ? 0 : time_to_wait(r, now), is_calm(r),
			    windows_due_ns(&r->windows)) < 0 &&
			errno != EINTR) {
			more = -errno;
			break;
		}
		read_signals(r);
		more = windows_drain(&r->windows);
		if (more >= 0)
			more = serve(r, more);
	}
	pace_free(r->pace);
	return more < 0 ? more : 0;
}

/* ---- start and end ---- */

static int setup_signals(struct run *r)
{
	sigset_t set;

	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* exceeding ulimit -f becomes an error of the write, like a full disk */
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

static int open_capture(struct run *r)
{
	struct capture *c = &r->capture;
	int err;

	if (record_wants_profile(r->o) || r->o->view || r->o->has_budget)
		capture_calibrate(c);
	err = capture_open(c, r->o, targets_hold_pid(&r->targets), intake_record, &r->intake);

	if (c->session && c->inspector)
		inspector_set_wait(c->inspector, keep_up, r);
	return err;
}

static int open_recorder(struct run *r)
{
	struct recorder_config c = {
		.o = r->o,
		.capture = &r->capture,
		.in = &r->intake,
		.rec = &r->windows.rec,
		.done = run_control_done,
		.done_arg = &r->control,
	};
	int err = record_is_flight(r->o) ? recorder_new(&c, &r->recorder) : 0;

	if (r->recorder)
		r->windows.recorder = recorder_sink(r->recorder);
	return err;
}

static int open_unwinder(struct run *r)
{
	unsigned int hz = r->o->sample_hz ? r->o->sample_hz : SAMPLE_HZ_DEFAULT;
	int err;

	if (!r->capture.stacks)
		return 0;
	err = unwinder_new(r->capture.stacks, sampler_period_ns(hz), &r->intake.unwinder);
	if (err)
		log_error("cannot start a thread that unwinds stacks: %s", strerror(-err));
	return err;
}

/* A process may have been born just now: its record is in the control ring. */
static bool is_target(uint32_t tgid, void *arg)
{
	struct run *r = arg;

	session_drain_control(r->capture.session);
	return tasks_find(r->capture.tasks, tgid);
}

static int open_gpu(struct run *r)
{
	struct gpu_config c = {
		.cupti = r->o->cupti,
		.every = r->o->gpu_every,
		.budget_ppm = (uint32_t)r->o->gpu_budget,
		.wait_ms = r->o->has_gpu_wait ? r->o->gpu_wait_ms : GPU_WAIT_MS,
		.is_target = is_target,
		.is_target_arg = r,
		.cb = intake_made,
		.arg = &r->intake,
	};
	int err = r->o->gpu ? gpu_new(&c, &r->intake.gpu) : 0;

	if (!err && r->intake.gpu)
		r->targets.environment = gpu_environment(r->intake.gpu);
	return err;
}

/* Opens the first window, if it opens now. */
static int start(struct run *r)
{
	const struct record_options *o = r->o;
	uint64_t now = clock_boot_ns();
	int err;

	err = outputs_prepare(o);
	if (err)
		return err;
	status_begin(&r->status, now);
	r->last_check_ns = now;
	err = open_recorder(r) ?: open_unwinder(r) ?
						   : windows_begin(&r->windows);
	r->stop = r->stop || r->windows.over; /* a signal arrived while the targets were being attached */
	if (err)
		return err;
	r->control.recorder = r->recorder;
	r->control.begun_ns = now;
	if (!o->command)
		return 0;
	metadata_command(r->capture.metadata, r->targets.cmd.pid, o->command);
	err = command_release(&r->targets.cmd);
	if (err)
		log_error("cannot run %s: %s", o->command[0], strerror(-err));
	return err;
}

static void say_begun(const struct run *r)
{
	const char *what = r->windows.open ? "recording" : "waiting for the window to open";

	if (r->recorder)
		what = "flight recorder on";
	log_info("%s%s", what, r->o->duration_ns && !record_by_time(r->o) ? "" : "; Ctrl-C ends it");
}

static int drop_privileges(struct run *r)
{
	enum yield_right right = yield_allow();
	int err = privileges_drop(!r->capture.uprobe_multi, right == YIELD_BY_CAPABILITY);

	r->yields = right != YIELD_NEVER;
	if (err)
		log_error("cannot give up privileges: %s", strerror(-err));
	return err;
}

/* From here on something is attached. */
static int run_attached(struct run *r)
{
	int err, close_err;

	err = targets_attach(&r->targets, &r->capture);
	if (!err)
		discover_turn(r->discover, clock_boot_ns());
	capture_calibrated(&r->capture); /* before it would lose its privileges */
	if (!err && r->o->has_budget && !r->capture.weighs) {
		log_error("--budget: the cost of inftrace could not be measured here (-v says why)");
		err = -EOPNOTSUPP;
	}
	hold_hurry(session_hold(r->capture.session)); /* needs a privilege */
	if (!err && r->o->gpu_attach)
		gpu_attach(r->intake.gpu, r->capture.inspector, r->o->pids, r->o->n_pids); /* the same */
	if (!err)
		err = drop_privileges(r);
	if (!err)
		err = start(r);
	if (err) {
		windows_abandon(&r->windows);
		return err;
	}
	if (!r->o->view)
		say_begun(r);
	err = loop(r);
	if (r->recorder)
		recorder_finish(r->recorder);
	close_err = windows_end(&r->windows);
	if (!err)
		err = close_err;
	if (!err && r->recorder && recorder_failed(r->recorder))
		err = -EIO;
	if (!r->o->view)
		record_summary(&r->windows, r->status.begun_ns);
	discover_summary(r->discover);
	return err;
}

static int exit_code(const struct run *r, int err)
{
	const struct command *cmd = &r->targets.cmd;
	struct window_totals t;

	if (err == -EPERM || err == -EOPNOTSUPP)
		return EXIT_ALLOWED;
	if (err == -EINVAL)
		return EXIT_USAGE;
	if (err)
		return EXIT_RUN;
	windows_totals(&r->windows, &t);
	if (r->o->strict && total_of(t.lost))
		return EXIT_LOSS;
	if (r->o->strict && capture_lacks_option(&r->capture))
		return EXIT_USAGE;
	if (r->o->command && !r->interrupted && cmd->exited)
		return command_exit_code(cmd);
	return EXIT_OK;
}

static int prepare(struct run *r, struct record_options *o)
{
	int err;

	/* privileges before presets: users who may not record need not hear of those */
	err = targets_check(&r->targets) ?: outputs_check(o) ?
				    : check_descriptors()    ?
							     : capture_check(&r->capture);
	if (!err)
		err = windows_check(&r->windows) ?: capture_prepare(&r->capture, o) ?
										    : setup_signals(r);
	if (!err && o->has_budget) {
		r->windows.overhead = r->intake.overhead = overhead_new(&r->capture, o->budget);
		err = r->windows.overhead ? 0 : -ENOMEM;
	}
	if (!err && o->max_steps_each)
		err = step_limit_new(o->max_steps_each, &r->intake.step_limit);
	if (!err && record_finds(o))
		err = discover_new(&r->capture, o, &r->discover);
	/* before there is anything of which it should not have a copy */
	if (!err)
		err = capture_start_inspector(&r->capture, o) ?: capture_start_stacks(&r->capture, o);
	if (!err)
		err = open_gpu(r);
	if (!err && o->command)
		err = targets_spawn(&r->targets);
	raise_descriptors();
	return err;
}

int record_run(struct record_options *o)
{
	struct run r = {
		.o = o,
		.targets.o = o,
		.intake = { .c = &r.capture, .keep_names = record_is_flight(o) },
		.windows = { .o = o, .c = &r.capture, .in = &r.intake },
		.control = { .o = o, .windows = &r.windows },
		.signal_fd = -1,
	};
	int err, ended, code;

	err = prepare(&r, o);
	/* who asks while the rest is prepared waits for the answer, and is not told that nothing is running */
	if (!err)
		run_control_open(&r.control);
	err = err ?: open_capture(&r);
	if (!err && o->view)
		o->view->session = r.capture.session;
	if (!err)
		err = run_attached(&r);
	control_free(r.control.control);
	recorder_free(r.recorder);
	discover_free(r.discover);
	windows_free(&r.windows);
	free(r.intake.overhead);
	unwinder_free(r.intake.unwinder);
	gpu_free(r.intake.gpu);
	capture_close(&r.capture);
	targets_end(&r.targets);
	if (!r.targets.command_exited)
		r.interrupted = true;
	ended = targets_check_ended(&r.targets);
	err = err ? err : ended;
	code = exit_code(&r, err);
	if (err && !log_error_said())
		log_error("cannot record: %s", strerror(-err));
	step_limit_free(r.intake.step_limit);
	targets_free(&r.targets);
	capture_free(&r.capture);
	if (r.signal_fd >= 0)
		close(r.signal_fd);
	return code;
}
