// SPDX-License-Identifier: BSD-2-Clause
/* inftrace record: records on their way to the outputs, and the windows in which there are any. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "capture/sums.h"
#include "engine/check.h"
#include "record/control.h"
#include "record/flight.h"
#include "record/metadata.h"
#include "record/output.h"
#include "record/run.h"
#include "record/step_limit.h"
#include "util/log.h"

#define FLUSH_NS (NSEC_PER_SEC / 10) /* what was drained is in the file after this time */
#define FILES_NAMED 20 /* of those that --max-size made, so many are named at the end */
#define RESCAN_NS NSEC_PER_SEC	     /* while it is idle nothing tells of newly mapped files */

uint64_t total_of(const uint64_t counts[REC_KIND_MAX])
{
	uint64_t n = 0;

	for (int k = 0; k < REC_KIND_MAX; k++)
		n += counts[k];
	return n;
}

void run_totals(const struct run *r, struct window_totals *ret_totals)
{
	struct window_totals t = r->whole;
	const struct window_totals *w = &r->w.totals;

	if (r->w.open) {
		for (int k = 0; k < REC_KIND_MAX; k++) {
			t.records[k] += w->records[k];
			t.lost[k] += w->lost[k];
		}
		t.steps += w->steps;
		t.bytes += r->w.sink ? sink_bytes(r->w.sink) : 0;
	}
	*ret_totals = t;
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
	if (waker && r->recorder)
		tasks_get_other(r->tasks, waker); /* by the time of a dump it may be gone */
}

const struct rec_hdr *run_whole(struct run *r, const struct rec_hdr *h, size_t size)
{
	return h->kind == REC_FUNCTION ? with_strings(r, h, size) : h;
}

static bool is_stranger(const struct rec_hdr *h)
{
	return h->kind == REC_TASK && h->id == TASK_STRANGER;
}

/* Whether the record is to be shown, and how; NULL: it is not. What it tells of names is learned. */
static const struct rec_hdr *take_record(struct run *r, const struct rec_hdr *h, size_t size)
{
	struct probe_spec *s;

	switch (h->kind) {
	case REC_TASK:
		tasks_update(r->tasks, (const struct rec_task *)h);
		if (h->id == TASK_EXEC) /* before its files are looked at */
			metadata_process(r->metadata, (pid_t)h->tgid);
		follow_record(r->follow, h);
		if (h->id == TASK_FORK && h->tid == h->tgid)
			probe_table_forked(&r->probes, ((const struct rec_task *)h)->ptgid, h->tgid);
		if (h->id == TASK_EXEC || (h->id == TASK_FORK && h->tid == h->tgid))
			handles_drop(r->handles, h->tgid);
		if (is_stranger(h) && !r->recorder) /* a dump learns names anew */
			return NULL;
		break;
	case REC_MAPPED:
		follow_record(r->follow, h);
		return NULL;
	case REC_STEP:
	case REC_FUNCTION:
		if (h->id >= r->probes.n)
			return NULL;
		s = &r->probes.specs[h->id];
		s->records++;
		if (h->kind == REC_FUNCTION)
			h = with_strings(r, h, size);
		probe_table_use(&r->probes, h->tgid);
		if (!check_record(r, h))
			return NULL;
		if (s->handle_arg >= 0 && h->kind == REC_FUNCTION)
			learn_name(r, s, (const struct rec_function *)h);
		if (s->hidden)
			return NULL;
		break;
	}
	return h;
}

static void count_step(struct run *r, const struct rec_hdr *h)
{
	if (h->kind == REC_STEP && !(h->flags & REC_F_OPEN_START)) /* else the window before has it */
		r->w.totals.steps++;
}

/* A step that --max-steps-per-process held back. */
static void on_released(const struct rec_hdr *h, size_t size, void *arg)
{
	struct run *r = arg;

	count_step(r, h);
	sink_record(r->w.sink, h, size);
}

static void on_record(const struct rec_hdr *h, size_t size, void *arg)
{
	const struct rec_hdr *shown;
	struct run *r = arg;

	if (h->kind >= REC_KIND_MAX)
		return;
	if (r->w.open && !is_stranger(h))
		r->w.totals.records[h->kind]++;
	if (h->kind != REC_TASK && h->kind != REC_MAPPED)
		meet_threads(r, h);
	shown = take_record(r, h, size);
	if (!shown || !r->w.open || (r->step_limit && step_limit_take(r->step_limit, h, size) != STEP_LIMIT_PASS))
		return;
	count_step(r, h);
	if (r->recorder)
		recorder_record(r->recorder, h, size);
	else
		sink_record(r->w.sink, shown, size);
}

record_cb run_callback(void)
{
	return on_record;
}

/* ---- loss ---- */

void run_check_loss(struct run *r, uint64_t now)
{
	struct loss l = { .from_ns = r->last_loss_ns, .to_ns = now };
	uint64_t lost[REC_KIND_MAX], dropped[REC_KIND_MAX] = { 0 };
	bool any = false;

	session_lost(r->session, lost);
	if (r->w.sink)
		sink_dropped(r->w.sink, dropped);
	for (int k = 0; k < REC_KIND_MAX; k++) {
		l.count[k] = lost[k] - r->lost[k] + dropped[k] - r->w.dropped[k];
		r->lost[k] = lost[k];
		r->dropped += dropped[k] - r->w.dropped[k];
		r->w.dropped[k] = dropped[k];
		r->w.totals.lost[k] += l.count[k];
		any |= l.count[k] != 0;
	}
	r->last_loss_ns = now;
	if (!any)
		return;
	r->w.totals.lost_ns += l.to_ns - l.from_ns;
	if (r->recorder)
		recorder_loss(r->recorder, &l);
	else
		sink_loss(r->w.sink, &l);
}

/* ---- windows ---- */

/* The other clocks at the same instant: both differences are constant over microseconds. */
static void set_clocks(struct run *r, uint64_t open_ns)
{
	struct recording *rec = &r->w.rec;

	rec->start_boot_ns = open_ns;
	rec->start_mono_ns = clock_ns(CLOCK_MONOTONIC) - (clock_ns(CLOCK_BOOTTIME) - open_ns);
	rec->start_real_ns = clock_ns(CLOCK_REALTIME) - (clock_ns(CLOCK_BOOTTIME) - open_ns);
	rec->name_real_ns = rec->start_real_ns;
}

static void mark(struct run *r, const char *name, uint64_t ns, const char *why)
{
	struct mark m = { .name = name, .ns = ns, .number = r->w.number, .reason = why };

	if (r->w.sink && record_by_time(r->o))
		sink_mark(r->w.sink, &m);
}

static int open_files(struct run *r)
{
	return r->recorder ? 0 : outputs_open(r->o, &r->w.rec, &r->w.sink);
}

/* Its files cannot be: nothing is recorded. */
static void window_discard(struct run *r)
{
	uint64_t close_ns;

	session_stop(r->session, &close_ns);
	r->w.open = false;
	window_abandon(r);
}

int window_open(struct run *r, const char *why)
{
	uint64_t before = clock_ns(CLOCK_BOOTTIME), open_ns;
	struct window *w = &r->w;
	int err = 0;

	if (record_wants_profile(r->o) || r->o->events & EVENT_MEMORY)
		err = memory_new(session_sums_fd(r->session), &w->memory);
	if (!err && record_by_time(r->o))
		follow_rescan(r->follow); /* in a closed window nothing tells of mapped files */
	if (!err)
		err = session_start(r->session, &open_ns);
	if (err) {
		window_abandon(r);
		return err;
	}
	w->totals = (struct window_totals){ .open_ns = open_ns };
	memset(w->dropped, 0, sizeof(w->dropped));
	w->open = true;
	w->why = why;
	if (r->step_limit)
		step_limit_reset(r->step_limit);
	r->last_loss_ns = r->last_flush_ns = open_ns;
	r->idle_ns = 0;
	if (w->memory)
		memory_start(w->memory, r->tasks);
	set_clocks(r, open_ns);
	w->rec.window = w->number;
	w->totals.open_cost_ns = clock_ns(CLOCK_BOOTTIME) - before;
	err = open_files(r);
	if (err)
		window_discard(r);
	else
		mark(r, "window_open", open_ns, why);
	return err;
}

/* Per process, for the end of the profile. */
static void read_sums(struct run *r)
{
	struct window *w = &r->w;
	int err;

	if (!record_wants_profile(r->o) || r->recorder)
		return;
	err = session_sums(r->session, &w->processes, &w->totals.n_processes);
	if (err) {
		log_warn("the sums per process are missing in the profile: %s", strerror(-err));
		return;
	}
	memory_totals(w->memory, w->processes, w->totals.n_processes);
	for (size_t i = 0; i < w->totals.n_processes; i++)
		w->processes[i].pages = r->o->events & EVENT_MEMORY;
	w->totals.processes = w->processes;
}

/* Everything that the programs have sent is in the outputs afterwards. */
static int end_records(struct run *r)
{
	struct window *w = &r->w;
	int err, left_err;

	err = session_stop(r->session, &w->totals.close_ns);
	if (err)
		log_warn("spans still open at the end are missing: %s", strerror(-err));
	read_sums(r);
	do {
		err = session_drain(r->session);
	} while (err > 0);
	if (r->step_limit)
		step_limit_release(r->step_limit, UINT64_MAX, on_released, r);
	if (r->o->events & EVENT_MEMORY)
		memory_sample(w->memory, r->tasks, w->totals.close_ns, true, on_record, r);
	left_err = session_requests(r->session);
	if (left_err)
		log_warn("requests that were not over are missing: %s", strerror(-left_err));
	run_check_loss(r, clock_ns(CLOCK_BOOTTIME));
	return err;
}

void window_file(const char *name, uint64_t bytes, void *arg)
{
	struct run *r = arg;

	r->w.files++;
	r->w.file_bytes += bytes;
	if (r->w.files > FILES_NAMED)
		r->w.unnamed_bytes += bytes;
	if (!record_by_time(r->o) && r->w.files <= FILES_NAMED)
		log_info("wrote %s (%.1f MB)", name, (double)bytes / 1e6);
	else
		log_debug("wrote %s (%.1f MB)", name, (double)bytes / 1e6);
	run_file(r, name, bytes);
}

/* Into the totals of the run. */
static void add_totals(struct run *r)
{
	struct window_totals *t = &r->whole;

	run_totals(r, t);
	t->open_ns = t->open_ns ? t->open_ns : r->w.totals.open_ns;
	t->close_ns = r->w.totals.close_ns;
	t->lost_ns += r->w.totals.lost_ns;
}

int window_close(struct run *r, const char *why)
{
	struct window *w = &r->w;
	int err, close_err;

	if (!w->open)
		return 0;
	err = end_records(r);
	mark(r, "window_close", w->totals.close_ns, why);
	w->totals.close_cost_ns = clock_ns(CLOCK_BOOTTIME) - w->totals.close_ns;
	w->totals.bytes = w->sink ? sink_bytes(w->sink) : 0;
	add_totals(r);
	w->files = 0;
	w->file_bytes = w->unnamed_bytes = 0;
	w->open = false;
	close_err = sink_close(w->sink, &w->totals);
	err = err ? err : close_err;
	w->sink = NULL;
	if (!record_by_time(r->o) && w->files > FILES_NAMED)
		log_info("wrote %u more (%.1f MB)", w->files - FILES_NAMED, (double)w->unnamed_bytes / 1e6);
	if (record_by_time(r->o) && !r->recorder)
		log_info("window %u (%s to %s): %.1f s, %" PRIu64 " steps, %" PRIu64 " records, %u files in %s (%.1f MB)",
			w->number, w->why, why, (double)(w->totals.close_ns - w->totals.open_ns) / 1e9,
			w->totals.steps, total_of(w->totals.records), w->files, r->o->output_dir,
			(double)w->file_bytes / 1e6);
	w->number++;
	r->idle_ns = clock_ns(CLOCK_BOOTTIME) + IDLE_NS;
	memory_free(w->memory);
	w->memory = NULL;
	sums_free(w->processes, w->totals.n_processes);
	w->processes = NULL;
	return err;
}

void window_abandon(struct run *r)
{
	sink_close(r->w.sink, NULL);
	r->w.sink = NULL;
	memory_free(r->w.memory);
	r->w.memory = NULL;
}

/* While the window is closed. */
static void be_idle(struct run *r, uint64_t now)
{
	bool soon = r->next_ns <= now + PREPARE_NS;

	if (!r->idle_ns && soon) {
		session_wake(r->session); /* if it fails, so does the opening, which says so */
		r->idle_ns = r->next_ns + IDLE_NS;
	} else if (r->idle_ns && now >= r->idle_ns && !soon) {
		session_idle(r->session);
		r->idle_ns = 0;
		r->last_rescan_ns = now;
	}
	if (!r->idle_ns && now - r->last_rescan_ns >= RESCAN_NS) {
		follow_rescan(r->follow);
		r->last_rescan_ns = now;
	}
}

int run_keep_up(struct run *r)
{
	uint64_t now = clock_ns(CLOCK_BOOTTIME);
	int err = session_drain(r->session);

	if (err < 0 || !r->w.open || now - r->last_flush_ns < FLUSH_NS)
		return err < 0 ? err : 0;
	run_check_loss(r, now);
	r->last_flush_ns = now;
	return r->w.sink ? sink_flush(r->w.sink) : 0;
}

int run_drain(struct run *r)
{
	uint64_t now;
	int more;

	/* first what somebody may wait for */
	session_drain_control(r->session);
	follow_scan(r->follow);
	more = session_drain(r->session);
	if (more < 0) {
		log_error("cannot read the ring buffers: %s", strerror(-more));
		return more;
	}
	follow_scan(r->follow);
	now = clock_ns(CLOCK_BOOTTIME);
	if (!r->w.open) {
		be_idle(r, now);
		return more;
	}
	if (!more && r->step_limit)
		step_limit_settled(r->step_limit, now, on_released, r);
	if (!more && r->w.sink)
		sink_settled(r->w.sink);
	else if (!more && r->recorder)
		recorder_settled(r->recorder);
	if (r->o->events & EVENT_MEMORY)
		memory_sample(r->w.memory, r->tasks, now, false, on_record, r);
	if (now - r->last_flush_ns < FLUSH_NS)
		return more;
	follow_strangers(r->follow, now);
	run_check_loss(r, now);
	r->last_flush_ns = now;
	return (r->w.sink ? sink_flush(r->w.sink) : 0) ?: more;
}
