// SPDX-License-Identifier: BSD-2-Clause
/* inftrace record: the run, from the checks to the summary. */
#include "cmd/record.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "capture/features.h"
#include "capture/follow.h"
#include "capture/memory.h"
#include "capture/session.h"
#include "capture/sums.h"
#include "cmd/cmd.h"
#include "engine/check.h"
#include "target/command.h"
#include "target/process.h"
#include "util/log.h"
#include "util/names.h"

#define NSEC_PER_SEC UINT64_C(1000000000)
#define DRAIN_MS 10		      /* the rings are drained this often, without wake-ups */
#define DRAIN_PROFILE_MS 100	      /* steps alone are few; each wake-up takes a CPU from a busy engine */
#define FLUSH_NS (NSEC_PER_SEC / 10)  /* what was drained is in the file after this time */
#define STATUS_TTY_NS NSEC_PER_SEC
#define STATUS_FILE_NS (10 * NSEC_PER_SEC)
#define CHECK_ALIVE_NS NSEC_PER_SEC
#define NEVER_HIT_NAMED 16 /* functions of a glob that are named one by one */

struct run {
	struct record_options *o;
	struct probe_table probes;
	struct session *session;
	struct tasks *tasks;
	struct handles *handles;
	struct outputs *out;
	struct command cmd;
	struct recording rec;
	int signal_fd;
	bool stop, interrupted;
	struct follow *follow;
	struct memory *memory; /* NULL: neither -e memory nor a profile */
	struct process_totals *processes;
	struct window_totals totals;
	uint64_t last_loss_ns, last_flush_ns, last_status_ns, last_check_ns;
	uint64_t last_records, last_steps;
};

static uint64_t clock_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

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

static int load_probes(struct run *r)
{
	const struct record_options *o = r->o;
	int err = 0;

	r->probes.op_detail = o->op_detail;
	if (o->events & EVENT_FUNCTIONS || o->profile) {
		if (!strcmp(o->engine, "auto"))
			err = engine_load_all(&r->probes);
		else if (strcmp(o->engine, "none"))
			err = engine_load(&r->probes, o->engine);
	}
	for (size_t i = 0; i < o->n_uprobes && !err; i++)
		err = probe_table_add_option(&r->probes, o->uprobes[i]);
	return err;
}

/* ---- records ---- */

/* A call whose strings could not be kept (no memory in the kernel) comes without: empty ones follow. */
static const struct rec_hdr *with_strings(struct run *r, const struct rec_hdr *h, size_t size)
{
	static struct rec_function padded;
	const struct probe_spec *s = &r->probes.specs[h->id];

	if (size >= REC_FUNCTION_SIZE(s->nargs) + s->nstrs * (size_t)FUNC_STR_LEN ||
		size > sizeof(padded))
		return h;
	memset(&padded, 0, sizeof(padded));
	memcpy(&padded, h, size);
	return &padded.h;
}

static bool check_record(struct run *r, const struct rec_hdr *h)
{
	struct probe_spec *s = &r->probes.specs[h->id];
	const struct rec_function *f = (const struct rec_function *)h;
	const struct rec_step *step = (const struct rec_step *)h;

	if (h->kind == REC_STEP)
		return check_call(&r->probes, s, step->vals, step->strs[0]);
	return check_call(&r->probes, s, f->vals, probe_record_strings(s, f));
}

/* What a call says of a handle. */
static void learn_name(struct run *r, const struct probe_spec *s, const struct rec_function *f)
{
	unsigned int arg = (unsigned int)s->handle_arg, name = (unsigned int)s->handle_name;

	if (check_shown(s, arg, f->vals) && check_shown(s, name, f->vals) && !(f->h.flags & REC_F_OPEN_END))
		handles_set(r->handles, f->h.tgid, f->vals[arg],
			probe_arg_string(s, name, probe_record_strings(s, f)));
}

/* Threads that were born after the control ring had its turn: the record of it is there, since it
 * came before this one. */
static void meet_threads(struct run *r, const struct rec_hdr *h)
{
	uint32_t waker = h->kind == REC_OFF_CPU ? ((const struct rec_off_cpu *)h)->waker_tid : 0;

	if (!tasks_lives(r->tasks, h->tgid, h->tid) || (waker && !tasks_lives(r->tasks, 0, waker)))
		session_drain_control(r->session);
}

static void on_record(const struct rec_hdr *h, size_t size, void *arg)
{
	struct run *r = arg;
	struct probe_spec *s;

	if (h->kind >= REC_KIND_MAX)
		return;
	r->totals.records[h->kind]++;
	if (h->kind != REC_TASK && h->kind != REC_MAPPED)
		meet_threads(r, h);
	switch (h->kind) {
	case REC_TASK:
		tasks_update(r->tasks, (const struct rec_task *)h);
		follow_record(r->follow, h);
		if (h->id == TASK_EXEC || (h->id == TASK_FORK && h->tid == h->tgid))
			handles_drop(r->handles, h->tgid);
		break;
	case REC_MAPPED:
		follow_record(r->follow, h);
		return;
	case REC_STEP:
		r->totals.steps++;
		/* fall through */
	case REC_FUNCTION:
		if (h->id >= r->probes.n)
			return;
		s = &r->probes.specs[h->id];
		s->records++;
		if (h->kind == REC_FUNCTION)
			h = with_strings(r, h, size);
		if (!check_record(r, h))
			return;
		if (s->handle_arg >= 0 && h->kind == REC_FUNCTION)
			learn_name(r, s, (const struct rec_function *)h);
		if (s->hidden)
			return;
		break;
	}
	outputs_record(r->out, h);
}

static void check_loss(struct run *r, uint64_t now)
{
	struct loss l = { .from_ns = r->last_loss_ns, .to_ns = now };
	uint64_t lost[REC_KIND_MAX];
	bool any = false;

	session_lost(r->session, lost);
	for (int k = 0; k < REC_KIND_MAX; k++) {
		l.count[k] = lost[k] - r->totals.lost[k];
		r->totals.lost[k] = lost[k];
		any |= l.count[k] != 0;
	}
	r->last_loss_ns = now;
	if (!any)
		return;
	r->totals.lost_ns += l.to_ns - l.from_ns;
	outputs_loss(r->out, &l);
}

static uint64_t total_of(const uint64_t counts[REC_KIND_MAX])
{
	uint64_t n = 0;

	for (int k = 0; k < REC_KIND_MAX; k++)
		n += counts[k];
	return n;
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
		} else {
			r->stop = true;
			r->interrupted = true;
		}
	}
}

static void show_status(struct run *r, uint64_t now)
{
	bool tty = isatty(STDERR_FILENO);
	uint64_t period = tty ? STATUS_TTY_NS : STATUS_FILE_NS, records, span;
	char text[256];

	if (now - r->last_status_ns < period)
		return;
	span = now - r->last_status_ns;
	records = total_of(r->totals.records);
	snprintf(text, sizeof(text),
		"%" PRIu64 " s  %" PRIu64 " steps (%" PRIu64 "/s)  %" PRIu64 " records/s  %.1f MB  %" PRIu64
		" lost",
		(now - r->totals.open_ns) / NSEC_PER_SEC, r->totals.steps,
		(r->totals.steps - r->last_steps) * NSEC_PER_SEC / span,
		(records - r->last_records) * NSEC_PER_SEC / span, (double)outputs_bytes(r->out) / 1e6,
		total_of(r->totals.lost));
	log_status(text);
	r->last_status_ns = now;
	r->last_records = records;
	r->last_steps = r->totals.steps;
}

/* Returns 1 when more records wait, 0 when not, or an error. */
static int drain(struct run *r)
{
	uint64_t now;
	int more;

	more = session_drain(r->session);
	if (more < 0) {
		log_error("cannot read the ring buffers: %s", strerror(-more));
		return more;
	}
	if (!more)
		outputs_settled(r->out);
	follow_scan(r->follow);
	now = clock_ns(CLOCK_BOOTTIME);
	if (r->o->events & EVENT_MEMORY)
		memory_sample(r->memory, r->tasks, now, false, on_record, r);
	if (now - r->last_flush_ns < FLUSH_NS)
		return more;
	follow_strangers(r->follow, now);
	check_loss(r, now);
	r->last_flush_ns = now;
	return outputs_flush(r->out) ?: more;
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

static int loop(struct run *r)
{
	uint64_t end = r->o->duration_ns ? r->totals.open_ns + r->o->duration_ns : UINT64_MAX;
	struct view *view = r->o->view;
	struct pollfd fds[] = {
		{ .fd = session_control_fd(r->session), .events = POLLIN },
		{ .fd = r->signal_fd, .events = POLLIN },
		{ .fd = view ? view->fd : -1, .events = POLLIN },
	};
	uint64_t drain_ms = r->o->n_outputs || r->o->events & EVENT_MEMORY ? DRAIN_MS : DRAIN_PROFILE_MS;
	int more = 0;

	while (more >= 0 && !r->stop) {
		uint64_t now = clock_ns(CLOCK_BOOTTIME);
		int timeout = more ? 0 : (int)drain_ms;

		if (now >= end || targets_gone(r, now))
			break;
		if (timeout && end - now < drain_ms * UINT64_C(1000000))
			timeout = (int)((end - now) / 1000000) + 1;
		if (poll(fds, 3, timeout) < 0 && errno != EINTR)
			return -errno;
		read_signals(r);
		more = drain(r);
		if (view)
			more = show_view(r, view, more);
		else
			show_status(r, clock_ns(CLOCK_BOOTTIME));
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
	if (r->o->view)
		sigorset(&set, &set, &r->o->view->signals);
	if (sigprocmask(SIG_BLOCK, &set, NULL))
		return -errno;
	r->signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	return r->signal_fd < 0 ? -errno : 0;
}

static int open_session(struct run *r, bool uprobe_multi, bool uprobe_multi_pid)
{
	const struct record_options *o = r->o;
	struct session_config c = {
		.trace_all = o->all,
		.watch_maps = r->probes.n,
		.min_syscall_ns = o->min_syscall_ns,
		.ring_bytes = o->ring_bytes,
		.uprobe_multi = uprobe_multi,
		.uprobe_multi_pid = uprobe_multi_pid,
		.probes = &r->probes,
		.cb = on_record,
		.cb_arg = r,
	};
	int err;

	events_configure(o, &r->probes, &c);
	err = session_open(&c, &r->session);
	if (!err && (o->profile || o->events & EVENT_MEMORY))
		err = memory_new(session_sums_fd(r->session), &r->memory);
	return err ? err : follow_new(r->session, r->tasks, &r->follow);
}

static int add_target(struct run *r, pid_t pid)
{
	int err;

	err = session_target(r->session, pid);
	if (err) {
		log_error("-p %d: %s", pid, err == -E2BIG ? "too many processes" : strerror(-err));
		return err;
	}
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

static int attach_all(struct run *r)
{
	const struct record_options *o = r->o;
	int err;

	for (size_t i = 0; i < o->n_pids; i++)
		attach_expect_process(session_probes(r->session), o->pids[i]);
	err = attach_named_files(session_probes(r->session));
	if (!err)
		err = session_attach(r->session);
	if (!err && o->command)
		err = add_target(r, r->cmd.pid);
	for (size_t i = 0; i < o->n_pids && !err; i++)
		err = add_target(r, o->pids[i]);
	if (!err && o->all)
		err = process_each(add_running, r);
	return err;
}

static int start(struct run *r)
{
	const struct record_options *o = r->o;
	uint64_t before = clock_ns(CLOCK_BOOTTIME);
	int err;

	err = session_start(r->session, &r->totals.open_ns);
	if (err)
		return err;
	if (r->memory)
		memory_start(r->memory, r->tasks);
	r->rec = (struct recording){
		.start_boot_ns = r->totals.open_ns,
		.probes = &r->probes,
		.tasks = r->tasks,
		.handles = r->handles,
	};
	/* the other clocks at the same instant: both differences are constant over microseconds */
	r->rec.start_mono_ns = clock_ns(CLOCK_MONOTONIC) - (clock_ns(CLOCK_BOOTTIME) - r->totals.open_ns);
	r->rec.start_real_ns = clock_ns(CLOCK_REALTIME) - (clock_ns(CLOCK_BOOTTIME) - r->totals.open_ns);
	r->last_loss_ns = r->last_flush_ns = r->last_status_ns = r->last_check_ns = r->totals.open_ns;
	r->totals.open_cost_ns = clock_ns(CLOCK_BOOTTIME) - before;
	err = outputs_open(o, &r->rec, o->command ? r->cmd.pid : o->n_pids ? o->pids[0] : 0, &r->out);
	if (err || !o->command)
		return err;
	err = command_release(&r->cmd);
	if (err)
		log_error("cannot run %s: %s", o->command[0], strerror(-err));
	return err;
}

/* Per process, for the end of the profile. */
static void read_sums(struct run *r)
{
	int err;

	if (!r->o->profile)
		return;
	err = session_sums(r->session, &r->processes, &r->totals.n_processes);
	if (err) {
		log_warn("the sums per process are missing in the profile: %s", strerror(-err));
		return;
	}
	memory_totals(r->memory, r->processes, r->totals.n_processes);
	for (size_t i = 0; i < r->totals.n_processes; i++)
		r->processes[i].pages = r->o->events & EVENT_MEMORY;
	r->totals.processes = r->processes;
}

static int stop(struct run *r)
{
	int err, left_err;

	r->totals.close_ns = clock_ns(CLOCK_BOOTTIME);
	err = session_stop(r->session);
	if (err)
		log_warn("spans still open at the end are missing: %s", strerror(-err));
	read_sums(r);
	do {
		err = session_drain(r->session);
	} while (err > 0);
	if (r->o->events & EVENT_MEMORY)
		memory_sample(r->memory, r->tasks, r->totals.close_ns, true, on_record, r);
	left_err = session_requests(r->session);
	if (left_err)
		log_warn("requests that were not over are missing: %s", strerror(-left_err));
	check_loss(r, clock_ns(CLOCK_BOOTTIME));
	r->totals.close_cost_ns = clock_ns(CLOCK_BOOTTIME) - r->totals.close_ns;
	r->totals.bytes = outputs_bytes(r->out);
	return err;
}

static void summarise_counts(const struct run *r)
{
	char line[512] = "";
	size_t n = 0;

	for (int k = 0; k < REC_KIND_MAX; k++) {
		if (r->totals.records[k] && k != REC_MAPPED)
			n += (size_t)snprintf(line + n, sizeof(line) - n, "%s%" PRIu64 " %s", n ? ", " : "",
				r->totals.records[k], rec_kind_name((enum rec_kind)k));
	}
	log_info("%.1f s, %s", (double)(r->totals.close_ns - r->totals.open_ns) / 1e9,
		n ? line : "no records");
	n = 0;
	for (int k = 0; k < REC_KIND_MAX; k++) {
		if (r->totals.lost[k])
			n += (size_t)snprintf(line + n, sizeof(line) - n, "%s%" PRIu64 " %s", n ? ", " : "",
				r->totals.lost[k], rec_kind_name((enum rec_kind)k));
	}
	if (n)
		log_warn("lost %s: a larger --ring-size or fewer -e keeps up", line);
}

/* The places of a USDT probe are one probe, and the first of them stands for all. */
static bool never_hit(const struct run *r, uint32_t i)
{
	const struct probe_spec *specs = r->probes.specs, *s = &specs[i];

	if (!s->attached || session_probe_hit(r->session, i))
		return false;
	for (uint32_t k = 0; s->is_usdt && k < r->probes.n; k++) {
		if (k != i && specs[k].from == s->from && !strcmp(specs[k].symbol, s->symbol) &&
			(k < i || session_probe_hit(r->session, k)))
			return false;
	}
	return true;
}

/* A glob may stand for thousands of functions, most of which are not in use. */
static void summarise_glob(const struct run *r, uint32_t glob)
{
	const struct probe_spec *specs = r->probes.specs;
	uint32_t never = 0;

	for (uint32_t i = 0; i < r->probes.n; i++)
		never += specs[i].from == glob + 1 && never_hit(r, i);
	if (never > NEVER_HIT_NAMED && log_level() < 1) {
		log_info("%s: %u functions attached, %u of them never hit; -v names them",
			specs[glob].symbol, specs[glob].attached, never);
		return;
	}
	for (uint32_t i = 0; i < r->probes.n; i++) {
		if (specs[i].from == glob + 1 && never_hit(r, i))
			log_info("%s: attached, never hit", specs[i].symbol);
	}
}

static void summarise_probes(const struct run *r)
{
	for (uint32_t i = 0; i < r->probes.n; i++) {
		const struct probe_spec *s = &r->probes.specs[i];

		if (s->from)
			continue;
		if (s->attached && (s->is_glob || s->is_usdt))
			summarise_glob(r, i);
		else if (never_hit(r, i))
			log_info("%s: attached, never hit", s->symbol);
		else if (!s->attached && !s->engine && !s->refused)
			log_warn("%s: no file that the targets mapped has this %s", s->symbol,
				s->is_usdt ? "probe" : "function");
		else if (!s->attached && s->engine && s->engine->matched)
			log_debug("%s: not attached", s->symbol);
	}
}

static void summarise_oddities(const struct run *r)
{
	const volatile struct inf_stats *st = session_stats(r->session);
	const struct {
		uint64_t n;
		const char *text;
	} odd[] = {
		{ st->no_storage, "threads could not be traced: no memory" },
		{ st->step_mismatch, "steps did not add up" },
		{ st->missed_switches, "context switches were not reported by the kernel; their time stays with the state before" },
		{ st->account_retries, "changes of state were preempted in every try" },
		{ st->frames_stale, "functions were left without a return (longjmp, exception)" },
		{ st->frames_full, "calls were nested too deep for a span" },
		{ st->workers_full, "workers of a step are not in its sums: too many threads or groups" },
		{ st->faults_open, "page faults ended in a signal" },
		{ st->syscalls_short, "short system calls left out" },
		{ st->irqs_full, "interrupts were nested too deep for a span" },
		{ st->irqs_left, "threads were switched within an interrupt; the rest of it is in other states" },
		{ st->sums_full, "calls or pages found no room in the sums per process of the profile" },
	};

	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		if (odd[i].n)
			log_info("%" PRIu64 " %s", odd[i].n, odd[i].text);
	}
}

static void summarise(const struct run *r)
{
	summarise_counts(r);
	summarise_probes(r);
	check_summary(&r->probes);
	summarise_oddities(r);
	follow_summary(r->follow);
}

/* From here on something is attached. */
static int run_attached(struct run *r)
{
	int err, close_err;

	err = attach_all(r);
	if (!err)
		err = start(r);
	if (err) {
		outputs_close(r->out, NULL);
		return err;
	}
	if (!r->o->view)
		log_info("recording%s", r->o->duration_ns ? "" : "; Ctrl-C ends it");
	err = loop(r);
	close_err = stop(r);
	if (!err)
		err = close_err;
	close_err = outputs_close(r->out, &r->totals);
	if (!err)
		err = close_err;
	if (!r->o->view)
		summarise(r);
	return err;
}

static int exit_code(struct run *r, int err)
{
	if (err == -EPERM || err == -EOPNOTSUPP)
		return EXIT_ALLOWED;
	if (err == -EINVAL)
		return EXIT_USAGE;
	if (err)
		return EXIT_RUN;
	if (r->o->strict && total_of(r->totals.lost))
		return EXIT_LOSS;
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
	bool uprobe_multi = false, uprobe_multi_pid = false, reaped;
	int err;

	/* privileges before presets: who may not record need not hear of those */
	err = check_pids(o) ?: check_command(o) ?: outputs_check(o);
	if (!err)
		err = check_allowed(&uprobe_multi, &uprobe_multi_pid);
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
	if (!err && o->command)
		err = o->view ? command_spawn_with(o->command, o->view->command_fds, &r.cmd) :
				command_spawn(o->command, &r.cmd);
	if (!err)
		err = open_session(&r, uprobe_multi, uprobe_multi_pid);
	if (!err && o->view)
		o->view->session = r.session;
	if (!err)
		err = run_attached(&r);
	follow_free(r.follow);
	memory_free(r.memory);
	sums_free(r.processes, r.totals.n_processes);
	session_free(r.session);
	command_reap(&r.cmd);
	reaped = r.cmd.exited;
	if (r.cmd.pid)
		command_end(&r.cmd);
	if (!reaped)
		r.interrupted = true;
	tasks_free(r.tasks);
	handles_free(r.handles);
	probe_table_free(&r.probes);
	if (r.signal_fd >= 0)
		close(r.signal_fd);
	return exit_code(&r, err);
}
