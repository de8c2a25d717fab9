// SPDX-License-Identifier: BSD-2-Clause
#include "record/options.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "capture/hold.h"
#include "capture/perf_events.h"
#include "capture/python.h"
#include "engine/check.h"
#include "engine/inspect.h"
#include "io/control.h"
#include "record/capture.h"
#include "record/flight.h"
#include "record/gpu.h"
#include "record/hooks.h"
#include "record/intake.h"
#include "record/limits.h"
#include "record/output.h"
#include "record/scrape.h"
#include "record/targets.h"
#include "record/unwinder.h"
#include "record/windows.h"
#include "stack/python_name.h"
#include "stack/stack.h"
#include "util/clock.h"
#include "util/confine.h"
#include "util/log.h"
#include "util/names.h"
#include "util/program.h"
#include "util/text.h"
#include "util/thread.h"
#include "waits/gaps.h"

struct record_run {
	const struct record_options *o;
	struct targets targets;
	struct capture capture;
	struct intake intake;
	struct windows windows;
	struct recorder *recorder; /* NULL: no --flight-recorder */
	struct discover *discover; /* NULL: neither --discover nor --cgroup */
	struct control *control;   /* NULL: no socket; the run does without it */
	int failed;                /* error of a client's request; it ends the run */
	uint64_t begun_ns;
	uint64_t shown_ns, shown_records, shown_steps; /* in the last line of progress */
	bool yields;                                   /* our threads may yield */
	struct pace *pace;                             /* NULL: they do not */
	uint64_t last_check_ns;                        /* of whether the targets are alive */
	int signal_fd;
	bool stop, interrupted, steps_told;
};

/* ---- the line of progress ---- */

#define TTY_NS NSEC_PER_SEC
#define FILE_NS (10 * NSEC_PER_SEC)

/* Shows the line if it is time for it. */
static void status_show(struct record_run *r, uint64_t now)
{
	uint64_t period = isatty(STDERR_FILENO) ? TTY_NS : FILE_NS, records, span = now - r->shown_ns;
	const char *state = "";
	struct window_totals t;
	char text[256];

	if (span < period)
		return;
	windows_totals(&r->windows, &t);
	records = total_of(t.records);
	if (record_by_time(r->o) && !r->recorder)
		state = r->windows.open ? "  window open" : "  window closed";
	snprintf(text, sizeof(text),
		"%" PRIu64 " s  %" PRIu64 " steps (%" PRIu64 "/s)  %" PRIu64 " records/s  %.1f MB  %" PRIu64
		" lost%s",
		(now - r->begun_ns) / NSEC_PER_SEC, t.steps, (t.steps - r->shown_steps) * NSEC_PER_SEC / span,
		(records - r->shown_records) * NSEC_PER_SEC / span, (double)t.bytes / 1e6, total_of(t.lost), state);
	log_status(text);
	r->shown_ns = now;
	r->shown_records = records;
	r->shown_steps = t.steps;
}

/* ---- start, stop, dump and status through the control socket ---- */

static void status_add_text(struct json_object *o, const char *key, const char *text)
{
	json_object_object_add(o, key, json_object_new_string(text));
}

static void status_add_number(struct json_object *o, const char *key, uint64_t v)
{
	json_object_object_add(o, key, json_object_new_int64((int64_t)v));
}

static int run_on_start(struct record_run *r, struct json_object *reply, char msg[CONTROL_MSG_MAX])
{
	char text[64];
	int err;

	if (r->recorder || !record_by_time(r->o))
		return control_refuse(msg, -EALREADY, "it records already; start is for --window and --window-flag");
	err = windows_start(&r->windows);
	if (err == -ESHUTDOWN)
		return control_refuse(msg, err, "the recording is over");
	if (err < 0) {
		r->failed = err;
		return control_refuse(msg, err, "the window cannot be opened: %s", strerror(-err));
	}
	snprintf(text, sizeof(text), "window %u is open%s", r->windows.number, err ? " already" : "");
	status_add_text(reply, "message", text);
	status_add_number(reply, "window", r->windows.number);
	return 0;
}

static int run_on_stop(struct record_run *r, struct json_object *reply, char msg[CONTROL_MSG_MAX])
{
	struct windows *w = &r->windows;
	struct json_object *files;
	char text[128];
	int err = 0;

	if (r->recorder)
		return control_refuse(msg, -EINVAL, "a flight recorder has no window; dump writes what it has");
	if (!record_by_time(r->o)) { /* it ends only with the recording */
		r->stop = true;
		status_add_text(reply, "message", "the recording ends");
		return 0;
	}
	files = json_object_new_array();
	w->files.list = files;
	err = windows_stop(w);
	w->files.list = NULL;
	if (err > 0) {
		json_object_put(files);
		return control_refuse(msg, -EALREADY, "no window is open");
	}
	json_object_object_add(reply, "files", files);
	if (err < 0) {
		r->failed = err;
		return control_refuse(msg, err, "the window's files are not complete: %s", strerror(-err));
	}
	snprintf(text, sizeof(text), "window %u is closed: %.1f s, %" PRIu64 " steps", w->number - 1,
		(double)(w->totals.close_ns - w->totals.open_ns) / 1e9, w->totals.steps);
	status_add_text(reply, "message", text);
	status_add_number(reply, "window", w->number - 1);
	return 0;
}

static int run_on_dump(struct record_run *r, const struct control_request *rq, char msg[CONTROL_MSG_MAX])
{
	int err;

	if (!r->recorder)
		return control_refuse(msg, -EINVAL, "it was not started with --flight-recorder");
	err = recorder_request(r->recorder, *rq->reason ? rq->reason : "dump", rq->last, rq->id);
	if (err)
		return control_refuse(msg, err, "too many dumps are waiting already");
	return -EINPROGRESS;
}

static void status_add_target(struct task *t, void *arg)
{
	json_object_array_add(arg, json_object_new_int64(t->tgid));
}

/* Returns the path of an output; with --max-size, of its newest file. */
static struct json_object *output_path(const struct record_run *r, size_t i, const char *first)
{
	const char *name = outputs_name(r->windows.sink, i);

	return file_path_json(name ? name : first);
}

static void add_probed(struct session *s, struct json_object *reply)
{
	if (!s->attach->c.multi)
		return;
	status_add_number(reply, "probed_files", links_files(s->attach->links));
	status_add_number(reply, "probed_files_given_back", s->attach->given_back);
}

static void run_on_status(struct record_run *r, struct json_object *reply)
{
	struct json_object *targets = json_object_new_array(), *outputs = json_object_new_array();
	struct window_totals t;

	windows_totals(&r->windows, &t);
	status_add_number(reply, "pid", (uint64_t)getpid());
	if (r->o->all)
		json_object_object_add(reply, "all", json_object_new_boolean(true));
	else
		tasks_each_process(r->windows.c->tasks, status_add_target, targets);
	json_object_object_add(reply, "targets", targets);
	json_object_object_add(reply, "elapsed_s",
		json_object_new_double((double)(clock_boot_ns() - r->begun_ns) / 1e9));
	if (!r->recorder) {
		status_add_text(reply, "window", r->windows.open ? "open" : "closed");
		status_add_number(reply, "number", r->windows.number);
	}
	status_add_number(reply, "steps", t.steps);
	status_add_number(reply, "records", total_of(t.records));
	status_add_number(reply, "lost", total_of(t.lost));
	add_probed(r->windows.c->session, reply);
	for (size_t i = 0; i < r->o->n_outputs; i++)
		json_object_array_add(outputs, output_path(r, i, r->o->outputs[i]));
	if (r->o->profile)
		json_object_array_add(outputs, output_path(r, r->o->n_outputs, r->o->profile));
	if (record_by_time(r->o))
		json_object_object_add(reply, "output_dir", file_path_json(r->o->output_dir));
	json_object_object_add(reply, "outputs", outputs);
	if (r->recorder)
		recorder_status(r->recorder, reply);
}

/* Opens the first trace that is a file. Not by its name, which may belong to another file by now. */
static int run_on_open(struct record_run *r, struct control_request *rq, struct json_object *reply, char msg[CONTROL_MSG_MAX])
{
	int fd = -ENOENT;

	if (record_by_time(r->o))
		return control_refuse(
			msg, -EINVAL, "this recording writes a file for each window: give one of those in %.128s", r->o->output_dir);
	for (size_t i = 0; i < r->o->n_outputs && r->windows.sink; i++) {
		fd = outputs_reopen(r->windows.sink, i);
		if (fd == -ENOENT)
			continue;
		if (fd < 0)
			return fd;
		json_object_object_add(reply, "name", output_path(r, i, r->o->outputs[i]));
		rq->fd = fd;
		return 0;
	}
	return control_refuse(msg, fd, "this recording writes no trace: give it -o FILE");
}

static int run_request(void *arg, struct control_request *rq, struct json_object *reply, char msg[CONTROL_MSG_MAX])
{
	struct record_run *r = arg;

	switch (rq->command) {
	case CONTROL_START:
		return run_on_start(r, reply, msg);
	case CONTROL_STOP:
		return run_on_stop(r, reply, msg);
	case CONTROL_DUMP:
		return run_on_dump(r, rq, msg);
	case CONTROL_OPEN:
		return run_on_open(r, rq, reply, msg);
	default:
		run_on_status(r, reply);
		return 0;
	}
}

static void run_on_dumped(uint64_t id, int err, struct json_object *reply, const char *msg, void *arg)
{
	control_done(((struct record_run *)arg)->control, id, err, reply, msg);
}

/* ---- the messages at the end ---- */

#define SAMPLE_LIMIT_TEXT "8 MB"
_Static_assert(SAMPLE_BYTES_PER_S == 8 << 20, "SAMPLE_LIMIT_TEXT says the same");
#define NEVER_HIT_NAMED 16 /* functions of a glob that are named individually */

/* What to do about lost records. */
static const char *loss_advice(const struct windows *w, char *buf, size_t size)
{
	const struct record_options *o = w->o;
	const char *profile = o->profile ?: o->profile_format;
	bool gz = profile && text_has_suffix(profile, ".gz");

	if (!w->in->dropped)
		return "a larger --ring-size or fewer -e keeps up";
	for (size_t i = 0; i < o->n_outputs + o->n_formats; i++)
		gz |= text_has_suffix(i < o->n_outputs ? o->outputs[i] : o->formats[i - o->n_outputs], ".gz");
	snprintf(buf, size, "a file was written or a pipe was read too slowly for %" PRIu64 " of them; %s", w->in->dropped,
		gz ? "fewer -e writes less, and without .gz nothing has to be compressed"
		   : ".gz or fewer -e writes less");
	return buf;
}

/* "12 steps, 3 calls" */
static const char *list_counts(const uint64_t counts[REC_KIND_MAX], enum rec_kind without, char buf[512])
{
	size_t n = 0;

	*buf = 0;
	for (int k = 0; k < REC_KIND_MAX; k++) {
		if (counts[k] && k != (int)without)
			n += (size_t)snprintf(buf + n, 512 - n, "%s%" PRIu64 " %s", n ? ", " : "", counts[k],
				rec_kind_name((enum rec_kind)k));
	}
	return buf;
}

static void summarise_counts(const struct windows *w, uint64_t begun_ns)
{
	/* 0: no window was opened */
	uint64_t end = w->whole.close_ns ? w->whole.close_ns : clock_ns(CLOCK_BOOTTIME);
	char why[224], line[512];

	list_counts(w->whole.records, REC_MAPPED, line);
	log_info("%.1f s, %s", (double)(end - begun_ns) / 1e9, *line ? line : "no records");
	if (*list_counts(w->whole.lost, REC_GPU, line)) /* gpu_summary() tells of those */
		log_warn("lost %s: %s", line, loss_advice(w, why, sizeof(why)));
}

/* The places of a USDT probe are one probe, represented by the first of them. */
static bool probe_was_never_hit(const struct capture *c, uint32_t i)
{
	const struct probe_spec *specs = c->probes.specs, *s = &specs[i];

	if (!s->attached || session_probe_hit(c->session, i))
		return false;
	for (uint32_t k = 0; k < c->probes.n; k++) {
		if (specs[k].from == i + 1 && session_probe_hit(c->session, k))
			return false;
	}
	for (uint32_t k = 0; s->is_usdt && k < c->probes.n; k++) {
		if (k != i && specs[k].from == s->from && !strcmp(specs[k].symbol, s->symbol) &&
			(k < i || session_probe_hit(c->session, k)))
			return false;
	}
	return true;
}

/* A preset has functions of many releases and ways to use an engine; only those the user asked for are worth a message. */
static void (*say_unhit(const struct probe_spec *s))(const char *fmt, ...)
{
	return s->engine ? log_debug : log_info;
}

/* A glob may stand for thousands of functions, most of them unused. */
static void summarise_glob(const struct capture *c, uint32_t glob)
{
	const struct probe_spec *specs = c->probes.specs;
	void (*say)(const char *fmt, ...) = say_unhit(&specs[glob]);
	uint32_t never = 0;

	for (uint32_t i = 0; i < c->probes.n; i++)
		never += specs[i].from == glob + 1 && probe_was_never_hit(c, i);
	if (never > NEVER_HIT_NAMED && log_level() < 1) {
		say("%s: %u functions attached, %u of them never hit; -v names them", specs[glob].symbol,
			specs[glob].attached, never);
		return;
	}
	for (uint32_t i = 0; i < c->probes.n; i++) {
		if (specs[i].from == glob + 1 && probe_was_never_hit(c, i))
			say("%s: attached, never hit", specs[i].symbol);
	}
}

static void summarise_probes(const struct capture *c)
{
	for (uint32_t i = 0; i < c->probes.n; i++) {
		const struct probe_spec *s = &c->probes.specs[i];

		if (s->from)
			continue;
		if (s->attached && (s->is_glob || s->is_usdt))
			summarise_glob(c, i);
		else if (probe_was_never_hit(c, i) && s->is_python && !s->engine)
			log_warn("%s %s: no call of it began; its file's or module's name may be another one", python_option(s->role), s->symbol);
		else if (probe_was_never_hit(c, i))
			say_unhit(s)("%s: attached, never hit", s->symbol);
		else if (!s->attached && s->is_python && !s->engine && !s->refused)
			log_warn("%s %s: no target ran Python 3", python_option(s->role), s->symbol);
		else if (!s->attached && !s->engine && !s->refused)
			log_warn("%s: no file that the targets mapped has this %s", s->span_name ? s->span_name : s->symbol,
				s->is_usdt ? "probe" : "function");
		else if (!s->attached && s->engine && s->engine->matched)
			log_debug("%s: not attached", s->symbol);
	}
}

/* Functions without a stack protector: what their times cost, or why they have none. */
static void summarise_ends(const struct capture *c)
{
	uint64_t ns = c->prices.ns[HIT_STEPPED], dear = 0, none = 0, calls = 0;

	for (uint32_t i = 0; i < c->probes.n; i++) {
		const struct probe_spec *s = &c->probes.specs[i];

		if (!s->exits || !s->records)
			continue;
		if (s->dear_ends) {
			dear++;
			calls += s->records;
		}
		none += s->from && s->flags & PROBE_F_INSTANT;
	}
	if (dear && c->weighs)
		log_info("%" PRIu64 " operators without a stack protector: the end of each of %" PRIu64 " calls took some %.1f us", dear, calls,
			(double)ns / 1e3);
	if (none)
		log_info("%" PRIu64 " operators have no time, since where they end is not known%s", none,
			c->probes.dear_ends ? "" : ", or seeing it is dear: with --budget they may have one");
}

#define DEAR_NS 5000 /* assumed where it was not measured: docs/engines.md */
#define DEAR_SHARE 100 /* one in so much of the time is worth a line */
#define DEAR_SHOWN_MAX 8

/* Functions that begin where the kernel has to single-step, if that took much time. */
static void summarise_begins(const struct capture *c, uint64_t ns)
{
	uint64_t price = c->weighs ? c->prices.ns[HIT_STEPPED] : 0;
	unsigned int shown = 0;

	for (uint32_t i = 0; i < c->probes.n && shown < DEAR_SHOWN_MAX; i++) {
		const struct probe_spec *s = &c->probes.specs[i];
		uint64_t took = s->records * (price ?: DEAR_NS);

		if (!s->dear_begin || !s->records || s->is_python || took < ns / DEAR_SHARE)
			continue;
		shown++;
		if (price)
			log_info("%s: the kernel has to single-step its probe: %" PRIu64 " calls at %.1f us took %.2f s of the targets' time",
				s->symbol, s->records, (double)price / 1e3, (double)took / 1e9);
		else
			log_info("%s: the kernel has to single-step its probe: each of %" PRIu64 " calls took some microseconds", s->symbol,
				s->records);
	}
}

static void summarise_oddities(const struct capture *c)
{
	const volatile struct inf_stats *st = session_stats(c->session);
	const struct {
		uint64_t n;
		const char *text;
	} odd[] = {
		{ st->no_storage, "threads could not be traced: no memory" },
		{ st->step_mismatch, "steps did not add up" },
		{ st->account_retries, "changes of state were preempted in every try" },
		{ st->frames_stale, "functions were left without a return (longjmp, exception)" },
		{ st->frames_full, "calls were nested too deep for a span" },
		{ st->workers_full, "workers of a step are not in its sums: too many threads or groups, or a thread that was just exiting" },
		{ st->faults_open, "page faults ended in a signal" },
		{ st->faults_missed, "page faults are among the lost, since this kernel preempts programs (preempt=full): they are counted and have no time; "
				     "further ones, within the kernel, may be missing (see docs/deploy.md)" },
		{ st->syscalls_short, "short system calls left out" },
		{ st->irqs_full, "interrupts were nested too deep for a span" },
		{ st->irqs_left, "threads were switched within an interrupt; the rest of it is in other states" },
		{ st->counters_shared, "steps and operators without counts: others used the CPU's counters, too" },
		{ st->counters_unread, "steps and operators without counts: they began before the window, were on a CPU without counters, or "
				       "the kernel did not report a switch" },
		{ st->sums_full, "calls or pages found no room in the sums per process of the profile" },
	};

	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		if (odd[i].n)
			log_info("%" PRIu64 " %s", odd[i].n, odd[i].text);
	}
	if (st->missed_switches)
		log_debug("%" PRIu64 " times a thread came back onto a CPU without the kernel reporting it: the time stays with the state before "
			  "(see \"Switches that were not reported\" in docs/trace-format.md)",
			(uint64_t)st->missed_switches);
}

static void summarise_stacks(const struct capture *c)
{
	const volatile struct inf_stats *st = session_stats(c->session);
	const char *limit = "since no more than " SAMPLE_LIMIT_TEXT " of stacks are copied in a second on each CPU";
	struct python_names_stats python;
	struct stacks_stats stacks;

	if (!c->stacks)
		return;
	stacks_stats(c->stacks, &stacks);
	if (st->samples_left)
		log_info("samples: %" PRIu64 " taken, %" PRIu64 " left out, %s", st->samples, st->samples_left, limit);
	else if (st->samples)
		log_info("samples: %" PRIu64 " taken", st->samples);
	if (st->waits_left)
		log_info("waits: %" PRIu64 " with their stack, %" PRIu64 " without: %s, or the end of their call was not seen",
			st->waits, st->waits_left, limit);
	else if (st->waits)
		log_info("waits: %" PRIu64 " with their stack", st->waits);
	if (st->wakers_left)
		log_info("wakers: %" PRIu64 " with their stack, %" PRIu64 " without: %s", st->wakers, st->wakers_left, limit);
	else if (st->wakers)
		log_info("wakers: %" PRIu64 " with their stack", st->wakers);
	if (stacks.user)
		log_info("stacks: %.1f %% of %" PRIu64 " unwound to the start of the thread; %" PRIu64 " were longer than their copy, "
			 "of %" PRIu64 " the way to a caller is not known",
			100 * (double)stacks.complete / (double)stacks.user, stacks.user, stacks.cut, stacks.broken);
	if (10 * stacks.made > stacks.places)
		log_info("stacks: %.0f %% of the places in programs are in code without names, made at run time; node --perf-basic-prof, "
			 "and python3 -X perf from 3.12 on, name it",
			100 * (double)stacks.made / (double)stacks.places);
	log_debug("stacks: %.1f MB copied, %" PRIu64 " ns a sample; unwinding took %.3f s and %.1f MB",
		(double)st->sample_bytes / 1e6, st->samples ? st->sample_ns / st->samples : 0, (double)stacks.ns / 1e9,
		(double)stacks.memory / 1e6);
	python_names_stats(c->pythons->names, &python);
	if (python.tasks_left)
		log_info("asyncio: %" PRIu64 " stacks are in [task]: more than %d names of tasks in a process", python.tasks_left,
			PYTHON_TASKS_MAX);
	if (stacks.no_memory)
		log_warn("stacks: %" PRIu64 " without names, since the memory for names is used up", stacks.no_memory);
	if (stacks.files_failed)
		log_info("stacks: %" PRIu64 " files could not be read", stacks.files_failed);
}

/* If no step was called, says why not and what would make one; nothing if none are wanted. */
static void record_tell_steps(const struct windows *w)
{
	const struct probe_table *pt = &w->c->probes;
	const struct engine *engine = NULL;
	const char *attached = NULL;
	bool wanted = false;

	if (w->o->view || w->o->all || record_finds(w->o) || (!w->open && !w->recorder && !w->whole.close_ns))
		return;
	for (uint32_t i = 0; i < pt->n; i++) {
		const struct probe_spec *s = &pt->specs[i];

		if (s->role != ROLE_STEP)
			continue;
		if (session_probe_hit(w->c->session, i))
			return;
		wanted = true;
		if (s->attached && !s->stand_in && !attached)
			attached = s->engine || !s->span_name ? s->symbol : s->span_name;
	}
	for (size_t i = 0; i < pt->n_engines && !engine; i++)
		engine = pt->engines[i]->matched && !pt->engines[i]->runtime ? pt->engines[i] : NULL;
	if (attached)
		log_info("no step so far: %s has not been called, since the engine had nothing to do, or does it in another way "
			 "(inftrace engines -p PID --check 10s counts calls)",
			attached);
	else if (engine && wanted)
		log_info("no steps: the preset %s finds none here: --py-step FUNCTION or -u LIB:FUNCTION@step makes some%s%s", engine->name,
			engine->advice ? "; " : "", engine->advice ?: "");
	else if (wanted)
		log_info("no engine found so far, so there are no steps: none of the libraries that inftrace engines lists is in use; "
			 "--engine FILE, --py-step FUNCTION or -u LIB:FUNCTION@step makes some");
}

static void record_summary(const struct windows *w, uint64_t begun_ns)
{
	const struct capture *c = w->c;
	const volatile struct inf_stats *st = session_stats(c->session);

	summarise_counts(w, begun_ns);
	record_tell_steps(w);
	summarise_probes(c);
	summarise_ends(c);
	summarise_begins(c, w->whole.close_ns - w->whole.open_ns);
	check_summary(&c->probes);
	summarise_oddities(c);
	summarise_stacks(c);
	if (session_counters(c->session).mask)
		log_debug("counters: %" PRIu64 " ns at a switch, the mean of %" PRIu64 " that were timed",
			st->counters_time.n ? st->counters_time.ns / st->counters_time.n : 0,
			(uint64_t)st->counters_time.n);
	if (w->in->gpu)
		gpu_summary(w->in->gpu);
	scrape_summary(w->in->scrape);
	overhead_summary(w->in->overhead, w->whole.open_ns, w->whole.close_ns);
	follow_summary(c->follow);
}

/* ---- the run ---- */

#define CHECK_ALIVE_NS NSEC_PER_SEC
#define STEPS_LOOK_NS (3 * NSEC_PER_SEC) /* when to report that there was no step */
#define GPU_CALM 10                      /* percent of a GPU's ring, since its records come in bursts */
#define PENDING_CALM (4u << 20)          /* bytes waiting for the files: beyond that their writers do not yield */
#define UNWIND_CALM (1u << 20)           /* bytes of samples waiting to be unwound: beyond that nothing yields */

/* Programs, maps, rings and events need descriptors, some for each CPU: as measured, with a margin. */
static int check_descriptors(void)
{
	rlim_t need = 96 + 11 * (rlim_t)sysconf(_SC_NPROCESSORS_CONF);
	struct rlimit rl;

	if (getrlimit(RLIMIT_NOFILE, &rl) || rl.rlim_max >= need)
		return 0;
	return log_fail(-EPERM, "only %llu files may be open, and a recording needs up to %llu: ulimit -n %d",
		(unsigned long long)rl.rlim_max, (unsigned long long)need, need > 1024 ? 65536 : 1024);
}

/* Called after the COMMAND was started, which keeps its usual limit. */
static void raise_descriptors(void)
{
	struct rlimit rl;

	if (getrlimit(RLIMIT_NOFILE, &rl) || rl.rlim_cur == rl.rlim_max)
		return;
	rl.rlim_cur = rl.rlim_max;
	setrlimit(RLIMIT_NOFILE, &rl);
}

/* ---- while it runs ---- */

static void read_signals(struct record_run *r)
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
static int run_keep_up(void *arg)
{
	struct record_run *r = arg;

	read_signals(r);
	return r->stop ? -ECANCELED : windows_keep_up(&r->windows);
}

/* How long, in ms, there is nothing to do unless something happens. */
static int time_to_wait(const struct record_run *r, uint64_t now)
{
	uint64_t wait = windows_wait_ns(&r->windows, now), due = discover_due_ns(r->discover), turn;

	if (r->intake.gpu && gpu_fill(r->intake.gpu) > GPU_CALM) /* more has come while this was taken */
		return 0;
	if (r->recorder && recorder_busy(r->recorder))
		return 0;
	if (r->recorder && recorder_waits(r->recorder) && wait > NSEC_PER_MSEC)
		wait = NSEC_PER_MSEC;
	turn = overhead_due_ns(r->intake.overhead, r->windows.sink);
	if (turn < due)
		due = turn;
	if (due < now + wait)
		wait = due > now ? due - now : 0;
	return (int)((wait + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC);
}

/* Handles everything but records. Returns `more`, or an error. */
static int run_serve(struct record_run *r, int more)
{
	struct view *view = r->o->view;
	uint64_t now = clock_boot_ns();
	int err = windows_read_flag(&r->windows);

	control_serve(r->control);
	err = err ? err : r->failed;
	if (r->recorder && !err)
		recorder_round(r->recorder, now);
	if (!err)
		err = windows_turn(&r->windows, now);
	discover_turn(r->discover, now);
	follow_turn(r->capture.follow, now);
	overhead_turn(r->intake.overhead, r->windows.sink, now);
	hooks_turn(r->intake.hooks);
	misfits_turn(r->capture.misfits, r->windows.sink, now);
	r->stop = r->stop || r->windows.schedule.state.over;
	if (err)
		return err;
	if (view) {
		err = view->ops->round(view, clock_boot_ns());
		if (err > 0)
			r->stop = r->interrupted = true;
		return err < 0 ? err : more;
	}
	if (!r->steps_told && now - r->begun_ns > STEPS_LOOK_NS) {
		r->steps_told = true;
		record_tell_steps(&r->windows);
	}
	status_show(r, now);
	return more;
}

/* Whether the loop waits for nothing but time. */
static bool run_is_calm(const struct record_run *r)
{
	return !(r->recorder && (recorder_busy(r->recorder) || recorder_waits(r->recorder))) &&
	       !(r->intake.gpu && gpu_fill(r->intake.gpu) > GPU_CALM) &&
	       (!r->windows.open || sink_pending(r->windows.sink) < PENDING_CALM) &&
	       (!r->intake.unwinder || unwinder_waiting(r->intake.unwinder) < UNWIND_CALM);
}

static unsigned int fullest_ring(void *arg)
{
	const struct record_run *r = arg;
	unsigned int records = session_fill(r->capture.session), gpu = r->intake.gpu ? gpu_fill(r->intake.gpu) : 0;

	return records > gpu ? records : gpu;
}

static int run_loop(struct record_run *r)
{
	struct view *view = r->o->view;
	struct pollfd fds[] = {
		{ .fd = session_control_fd(r->capture.session), .events = POLLIN },
		{ .fd = r->signal_fd, .events = POLLIN },
		{ .fd = view ? view->fd : -1, .events = POLLIN },
		{ .fd = control_fd(r->control), .events = POLLIN },
		{ .fd = flag_fd(r->windows.flag), .events = POLLIN },
		{ .fd = gpu_fd(r->intake.gpu), .events = POLLIN },
	};
	nfds_t n_fds = sizeof(fds) / sizeof(fds[0]);
	int more = 0, err = r->yields ? pace_new(fds, n_fds, fullest_ring, r, &r->pace) : -EPERM;

	if (err) /* the run works without it, too */
		log_debug("the recording does not yield to others: %s", strerror(-err));
	while (more >= 0 && !r->stop) {
		uint64_t now = clock_boot_ns();
		bool check;

		check = now - r->last_check_ns >= CHECK_ALIVE_NS;
		r->last_check_ns = check ? now : r->last_check_ns;
		r->targets.gone = !r->o->all && !tasks_alive(r->capture.tasks, check) && !r->discover;
		if (r->targets.gone)
			break;
		if (pace_poll(r->pace, fds, n_fds, more ? 0 : time_to_wait(r, now), run_is_calm(r),
			    r->windows.schedule.state.next_ns) < 0 &&
			errno != EINTR) {
			more = -errno;
			break;
		}
		read_signals(r);
		more = windows_drain(&r->windows);
		if (more >= 0)
			more = run_serve(r, more);
	}
	pace_free(r->pace);
	return more < 0 ? more : 0;
}

/* ---- start and end ---- */

static int setup_signals(struct record_run *r)
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

/* A process may have been born just now: its record is in the control ring. */
static bool intake_has_target(uint32_t tgid, void *arg)
{
	const struct intake *in = arg;

	session_drain_control(in->c->session);
	return tasks_find(in->c->tasks, tgid);
}

/* Opens the first window, if it opens now. */
static int run_start(struct record_run *r)
{
	const struct record_options *o = r->o;
	uint64_t now = clock_boot_ns();
	int err;

	err = outputs_prepare(o);
	if (err)
		return err;
	r->begun_ns = r->shown_ns = now;
	r->last_check_ns = now;
	err = record_is_flight(o) ? recorder_new(&r->windows, run_on_dumped, r, &r->recorder) : 0;
	if (!err && r->capture.stacks) {
		err = unwinder_new(r->capture.stacks,
			sampler_period_ns(o->sample_hz ? o->sample_hz : SAMPLE_HZ_DEFAULT), &r->intake.unwinder);
		if (err)
			log_error("cannot start a thread that unwinds stacks: %s", strerror(-err));
	}
	if (!err)
		err = windows_begin(&r->windows);
	r->stop = r->stop || r->windows.schedule.state.over; /* a signal arrived while the targets were being attached */
	if (err)
		return err;
	if (!o->command)
		return 0;
	metadata_command(r->capture.metadata, r->targets.cmd.pid, o->command);
	err = command_release(&r->targets.cmd);
	if (err)
		log_error("cannot run %s: %s", o->command[0], strerror(-err));
	return err;
}

/* For bpf() and uprobes on what is mapped and born from now on; for /proc and the mapped files of other users' processes; for
 * files and directories that are given to the user, at each window, dump and rotation; for SIGTERM to another user's COMMAND;
 * for descriptors for the links of many targets. */
#define CAPABILITIES_KEPT                                                                                                             \
	(CONFINE_CAP(CAP_BPF) | CONFINE_CAP(CAP_PERFMON) | CONFINE_CAP(CAP_SYS_PTRACE) | CONFINE_CAP(CAP_CHECKPOINT_RESTORE) |        \
		CONFINE_CAP(CAP_DAC_READ_SEARCH) | CONFINE_CAP(CAP_DAC_OVERRIDE) | CONFINE_CAP(CAP_CHOWN) | CONFINE_CAP(CAP_FOWNER) | \
		CONFINE_CAP(CAP_KILL) | CONFINE_CAP(CAP_SYS_RESOURCE))

/*
 * Gives up what a running recording does not need any more, for this thread and the threads it starts: capabilities
 * (SECURITY.md lists them, with reasons), and the system calls to run programs, to change the user and the like. Without
 * uprobe_multi, files that are mapped later get single links, for each of which the kernel wants CAP_SYS_ADMIN (6.16, and
 * stable releases of 6.1 and others).
 */
static int drop_privileges(struct record_run *r)
{
	enum yield_right right = yield_allow();
	int err;

	r->yields = right != YIELD_NEVER;
	err = confine_capabilities(CAPABILITIES_KEPT | (features_have(&r->capture.features, FEATURE_UPROBE_MULTI) ? 0 : CONFINE_CAP(CAP_SYS_ADMIN)) |
				   (right == YIELD_BY_CAPABILITY ? CONFINE_CAP(CAP_SYS_NICE) : 0));
#ifndef __SANITIZE_ADDRESS__ /* its leak check forks and traces */
	err = err ?: confine_recorder();
#endif
	if (err)
		log_error("cannot give up privileges: %s", strerror(-err));
	return err;
}

/* Attaches, records, and prints the summary. */
static int run_attached(struct record_run *r)
{
	unsigned int failed = 0;
	int err, close_err;

	targets_find(&r->targets, &r->capture);
	err = r->intake.hooks ? hooks_attach(r->intake.hooks, r->targets.pids, r->targets.n_pids, run_keep_up, r) : 0;
	if (!err)
		err = targets_attach(&r->targets, &r->capture);
	if (!err)
		discover_turn(r->discover, clock_boot_ns());
	capture_calibrated(&r->capture); /* before privileges are dropped */
	if (!err && r->o->has_budget && !r->capture.weighs) {
		log_error("--budget: the cost of inftrace could not be measured here (-v says why)");
		err = -EOPNOTSUPP;
	}
	hold_hurry(r->capture.session->hold); /* needs a privilege */
	if (!err && r->o->gpu_attach)
		gpu_attach(r->intake.gpu, r->capture.inspector, r->targets.pids, r->targets.n_pids); /* needs one, too */
	if (!err)
		err = drop_privileges(r) ?: run_start(r);
	if (err) {
		windows_abandon(&r->windows);
		return err;
	}
	if (!r->o->view)
		log_info("%s%s",
			r->recorder ? "flight recorder on" : r->windows.open ? "recording"
									     : "waiting for the window to open",
			r->o->duration_ns && !record_by_time(r->o) ? "" : "; Ctrl-C ends it");
	err = run_loop(r);
	if (r->recorder)
		failed = recorder_finish(r->recorder);
	close_err = windows_end(&r->windows);
	if (!err)
		err = close_err;
	if (!err && failed)
		err = -EIO;
	if (!r->o->view)
		record_summary(&r->windows, r->begun_ns);
	hooks_summary(r->intake.hooks);
	discover_summary(r->discover);
	return err;
}

static int run_exit_code(const struct record_run *r, int err)
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

static int run_prepare(struct record_run *r, struct record_options *o)
{
	int err;

	/* privileges before presets: users who may not record need not hear of those */
	err = targets_check(&r->targets) ?: outputs_check(o) ?
				    : check_descriptors()    ?
							     : capture_check(&r->capture);
	if (!err)
		err = windows_check(&r->windows) ?: capture_prepare(&r->capture, o) ?
										    : setup_signals(r);
	if (o->has_budget)
		r->intake.overhead = overhead_new(&r->capture, o->budget);
	if (o->max_steps_each)
		r->intake.step_limit = step_limit_new(o->max_steps_each);
	if (!err && record_finds(o))
		err = discover_new(&r->capture, o, &r->discover);
	if (!err)
		err = capture_start_readers(&r->capture, o);
	if (!err && o->metrics)
		err = scrape_new(o->metrics, &r->intake.scrape);
	if (!err && o->gpu)
		err = gpu_new(o, intake_has_target, intake_made, &r->intake, &r->intake.gpu);
	if (!err && o->hooks)
		err = hooks_new(&r->capture, intake_has_target, record_wants_presets(o) ? intake_record : NULL, &r->intake, &r->intake.hooks);
	if (!err && o->command) /* not both: gpu_options_check(), hooks_options_check() */
		err = targets_spawn(&r->targets, r->intake.gpu ? gpu_environment(r->intake.gpu) : r->intake.hooks ? hooks_environment(r->intake.hooks) : NULL);
	raise_descriptors();
	return err;
}

int record_run(struct record_options *o)
{
	struct record_run r = {
		.o = o,
		.targets.o = o,
		.intake = { .c = &r.capture, .keep_names = record_is_flight(o) },
		.windows = { .o = o, .c = &r.capture, .in = &r.intake },
		.signal_fd = -1,
	};
	int err, ended, code;

	err = run_prepare(&r, o);
	/* a client that asks during preparation waits for its answer, and is not told that nothing is running */
	if (!err)
		control_new(run_request, &r, NULL, &r.control);
	if (!err)
		err = capture_open(&r.capture, o, targets_hold_pid(&r.targets), intake_record, &r.intake);
	if (!err && session_wait_log(r.capture.session))
		r.intake.gaps = gaps_new(session_wait_log(r.capture.session), &r.capture.probes);
	if (r.capture.session && r.capture.inspector)
		inspector_set_wait(r.capture.inspector, run_keep_up, &r);
	if (!err && o->view)
		o->view->session = r.capture.session;
	if (!err)
		err = run_attached(&r);
	control_free(r.control);
	recorder_free(r.recorder);
	discover_free(r.discover);
	flag_free(r.windows.flag);
	free(r.intake.overhead);
	unwinder_free(r.intake.unwinder);
	gpu_free(r.intake.gpu);
	scrape_free(r.intake.scrape);
	gaps_free(r.intake.gaps);
	hooks_free(r.intake.hooks);
	capture_close(&r.capture);
	ended = targets_end(&r.targets);
	if (!r.targets.command_exited)
		r.interrupted = true;
	err = err ? err : ended;
	code = run_exit_code(&r, err);
	if (err && !log_error_said())
		log_error("cannot record: %s", strerror(-err));
	step_limit_free(r.intake.step_limit);
	targets_free(&r.targets);
	capture_free(&r.capture);
	if (r.signal_fd >= 0)
		close(r.signal_fd);
	return code;
}
