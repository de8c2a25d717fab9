// SPDX-License-Identifier: BSD-2-Clause
#include "record/windows.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "capture/sums.h"
#include "record/flag.h"
#include "record/gpu.h"
#include "record/output.h"
#include "record/overhead.h"
#include "record/step_limit.h"
#include "util/clock.h"
#include "util/log.h"

#define DRAIN_NS (10 * NSEC_PER_MSEC) /* the rings are drained this often, without wake-ups */
#define DRAIN_PROFILE_NS (100 * NSEC_PER_MSEC) /* steps alone are few; each wake-up takes a CPU from a busy engine */
#define CLOSED_NS (500 * NSEC_PER_MSEC) /* while the window is closed, only urgent events are handled sooner */
#define FLUSH_NS (NSEC_PER_SEC / 10) /* what was drained is in the file after this time */
#define FILES_NAMED 20 /* with --max-size this many files are named at the end */
#define IDLE_NS NSEC_PER_SEC /* a window closed for this long detaches its programs */
#define PREPARE_NS (NSEC_PER_SEC / 10) /* they are attached again this long before it opens, if that is known */
#define RESCAN_NS NSEC_PER_SEC	     /* meanwhile no records report newly mapped files */

void windows_totals(const struct windows *w, struct window_totals *ret_totals)
{
	struct window_totals t = w->whole;

	if (w->open) {
		for (int k = 0; k < REC_KIND_MAX; k++) {
			t.records[k] += w->totals.records[k];
			t.lost[k] += w->totals.lost[k];
		}
		t.steps += w->totals.steps;
		t.bytes += sink_bytes(w->sink);
	}
	*ret_totals = t;
}

/* ---- a window opens ---- */

/* Reads the other clocks at the same instant: their differences are constant over microseconds. */
static void set_clocks(struct recording *rec, uint64_t open_ns)
{
	struct clock_reading now = clock_read();

	rec->start_boot_ns = open_ns;
	rec->start_mono_ns = now.mono_ns - (now.boot_ns - open_ns);
	rec->start_real_ns = now.real_ns - (now.boot_ns - open_ns);
	rec->name_real_ns = rec->start_real_ns;
}

static void mark(struct windows *w, const char *name, uint64_t ns, const char *why)
{
	struct mark m = { .name = name, .ns = ns, .number = w->number, .reason = why };

	if (record_by_time(w->o))
		sink_mark(w->sink, &m);
}

static int open_sink(struct windows *w)
{
	w->sink = w->recorder;
	return w->sink ? 0 : outputs_open(w->o, &w->rec, &w->sink);
}

/* The files could not be opened, so nothing is recorded. */
static void discard(struct windows *w)
{
	uint64_t close_ns;

	session_stop(w->c->session, &close_ns);
	w->open = false;
	windows_abandon(w);
}

void windows_abandon(struct windows *w)
{
	intake_close(w->in);
	sink_close(w->sink, NULL);
	w->sink = NULL;
	memory_free(w->memory);
	w->memory = NULL;
}

static int window_open(struct windows *w, const char *why)
{
	uint64_t before = clock_boot_ns(), open_ns;
	int err = 0;

	if (record_wants_profile(w->o) || w->o->events & EVENT_MEMORY)
		err = memory_new(session_sums_fd(w->c->session), &w->memory);
	if (!err && record_by_time(w->o))
		follow_rescan(w->c->follow); /* no records report mapped files while the window is closed */
	if (!err)
		err = session_start(w->c->session, &open_ns);
	if (err) {
		windows_abandon(w);
		return err;
	}
	w->totals = (struct window_totals){ .open_ns = open_ns };
	w->open = true;
	w->why = why;
	w->last_flush_ns = open_ns;
	w->idle_ns = 0;
	if (w->memory)
		memory_start(w->memory, w->c->tasks);
	set_clocks(&w->rec, open_ns);
	w->rec.window = w->number;
	w->totals.open_cost_ns = clock_boot_ns() - before;
	err = open_sink(w);
	if (err) {
		discard(w);
		return err;
	}
	intake_open(w->in, w->sink, &w->totals, open_ns);
	if (w->in->gpu)
		gpu_start(w->in->gpu);
	mark(w, "window_open", open_ns, why);
	if (w->overhead)
		overhead_marks(&w->overhead->left_out, w->sink, open_ns, open_ns);
	misfits_marks(w->c->misfits, w->sink, open_ns);
	return 0;
}

/* ---- a window closes ---- */

/* Reads the sums per process, for the end of the profile. */
static void read_sums(struct windows *w)
{
	int err;

	if (!record_wants_profile(w->o) || w->recorder)
		return;
	err = session_sums(w->c->session, &w->processes, &w->totals.n_processes);
	if (err) {
		log_warn("the sums per process are missing in the profile: %s", strerror(-err));
		return;
	}
	memory_totals(w->memory, w->processes, w->totals.n_processes);
	for (size_t i = 0; i < w->totals.n_processes; i++)
		w->processes[i].pages = w->o->events & EVENT_MEMORY;
	w->totals.processes = w->processes;
}

/* Afterwards everything that the programs have sent is in the outputs. */
static int end_records(struct windows *w)
{
	int err, left_err;

	err = session_stop(w->c->session, &w->totals.close_ns);
	if (err)
		log_warn("spans still open at the end are missing: %s", strerror(-err));
	read_sums(w);
	capture_weigh(w->c);
	do {
		err = session_drain(w->c->session);
	} while (err > 0);
	intake_finish_stacks(w->in);
	intake_release(w->in);
	if (w->in->gpu)
		gpu_stop(w->in->gpu, w->totals.close_ns);
	if (w->o->events & EVENT_MEMORY)
		memory_sample(w->memory, w->c->tasks, w->totals.close_ns, true, intake_record, w->in);
	left_err = session_requests(w->c->session);
	if (left_err)
		log_warn("requests that were not over are missing: %s", strerror(-left_err));
	intake_check_loss(w->in, clock_boot_ns());
	intake_close(w->in);
	if (w->overhead)
		left_out_times(&w->overhead->left_out, w->totals.open_ns, w->totals.close_ns, w->totals.left_out_ns);
	return err;
}

static void on_file(const char *name, uint64_t bytes, void *arg)
{
	struct windows *w = arg;

	left_files_add(&w->files, name, bytes);
	if (w->files.n > FILES_NAMED)
		w->unnamed_bytes += bytes;
	if (!record_by_time(w->o) && w->files.n <= FILES_NAMED)
		log_info("wrote %s (%.1f MB)", name, (double)bytes / 1e6);
	else
		log_debug("wrote %s (%.1f MB)", name, (double)bytes / 1e6);
}

/* Adds to the totals of the run. */
static void add_totals(struct windows *w)
{
	struct window_totals *t = &w->whole;

	windows_totals(w, t);
	t->open_ns = t->open_ns ? t->open_ns : w->totals.open_ns;
	t->close_ns = w->totals.close_ns;
	t->lost_ns += w->totals.lost_ns;
}

static void say_closed(const struct windows *w, const char *why)
{
	const struct window_totals *t = &w->totals;

	if (!record_by_time(w->o) && w->files.n > FILES_NAMED)
		log_info("wrote %u more (%.1f MB)", w->files.n - FILES_NAMED, (double)w->unnamed_bytes / 1e6);
	if (record_by_time(w->o) && !w->recorder)
		log_info("window %u (%s to %s): %.1f s, %" PRIu64 " steps, %" PRIu64 " records, %u files in %s (%.1f MB)",
			w->number, w->why, why, (double)(t->close_ns - t->open_ns) / 1e9, t->steps, total_of(t->records),
			w->files.n, w->o->output_dir, (double)w->files.bytes / 1e6);
}

static int window_close(struct windows *w, const char *why)
{
	int err, close_err;

	if (!w->open)
		return 0;
	err = end_records(w);
	mark(w, "window_close", w->totals.close_ns, why);
	w->totals.close_cost_ns = clock_boot_ns() - w->totals.close_ns;
	w->totals.bytes = sink_bytes(w->sink);
	add_totals(w);
	w->files.n = 0;
	w->files.bytes = w->unnamed_bytes = 0;
	w->open = false;
	close_err = sink_close(w->sink, &w->totals);
	err = err ? err : close_err;
	w->sink = NULL;
	say_closed(w, why);
	w->number++;
	w->idle_ns = clock_boot_ns() + IDLE_NS;
	memory_free(w->memory);
	w->memory = NULL;
	sums_free(w->processes, w->totals.n_processes);
	w->processes = NULL;
	return err;
}

/* ---- the schedule ---- */

static uint64_t real_offset_ns(void)
{
	return clock_ns(CLOCK_REALTIME) - clock_boot_ns();
}

/* Opens or closes the window according to the schedule. */
static int heed_schedule(struct windows *w, uint64_t now)
{
	struct schedule_state st;
	int err = 0;

	schedule_clock(&w->schedule, real_offset_ns());
	st = schedule_next(&w->schedule, now);
	w->next_ns = st.next_ns;
	if (w->open && (!st.open || st.number != w->scheduled))
		err = window_close(w, st.closed);
	if (!err && st.open && !w->open)
		err = window_open(w, st.opened);
	w->scheduled = st.number;
	w->over = w->over || st.over;
	return err;
}

int windows_start(struct windows *w)
{
	uint64_t now = clock_boot_ns();

	return schedule_start(&w->schedule, now) ?: heed_schedule(w, now);
}

int windows_stop(struct windows *w)
{
	uint64_t now = clock_boot_ns();

	return schedule_stop(&w->schedule, now) ?: heed_schedule(w, now);
}

int windows_read_flag(struct windows *w)
{
	bool there;
	int more, err = 0;

	if (!w->flag)
		return 0;
	do {
		more = flag_read(w->flag, &there);
		if (more < 0) {
			log_error("cannot watch %s: %s", w->o->window_flag, strerror(-more));
			return more;
		}
		schedule_flag(&w->schedule, clock_boot_ns(), there);
		err = heed_schedule(w, clock_boot_ns());
	} while (more && !err);
	return err;
}

static void count_steps(struct windows *w, uint64_t now)
{
	struct step_limit *each = w->in->step_limit;

	if (w->open && session_over(w->c->session)) /* also if the record of a step was lost */
		schedule_steps(&w->schedule, now, w->o->max_steps);
	else if (each && w->open && step_limit_over(each, w->c->tasks))
		schedule_steps(&w->schedule, now, 1);
	else if (!each && w->open && w->totals.steps > w->counted_steps)
		schedule_steps(&w->schedule, now, w->totals.steps - w->counted_steps);
	w->counted_steps = w->open ? w->totals.steps : 0;
}

int windows_turn(struct windows *w, uint64_t now_ns)
{
	count_steps(w, now_ns);
	return heed_schedule(w, now_ns);
}

uint64_t windows_wait_ns(const struct windows *w, uint64_t now)
{
	bool many = record_wants_trace(w->o) || w->o->events & EVENT_MEMORY || w->o->gpu;
	uint64_t wait = !w->open ? CLOSED_NS : many ? DRAIN_NS
						    : DRAIN_PROFILE_NS,
		 next = w->next_ns;

	if (!w->open && !w->idle_ns && next != UINT64_MAX)
		next -= PREPARE_NS;
	if (next <= now)
		return 0;
	return next - now < wait ? next - now : wait;
}

uint64_t windows_due_ns(const struct windows *w)
{
	return w->next_ns;
}

uint64_t windows_pending(const struct windows *w)
{
	return w->open ? sink_pending(w->sink) : 0;
}

/* ---- records ---- */

/* While the window is closed. */
static void be_idle(struct windows *w, uint64_t now)
{
	bool soon = w->next_ns <= now + PREPARE_NS;

	if (!w->idle_ns && soon) {
		session_wake(w->c->session); /* a failure shows when the window is opened, and is reported then */
		w->idle_ns = w->next_ns + IDLE_NS;
	} else if (w->idle_ns && now >= w->idle_ns && !soon) {
		session_idle(w->c->session);
		w->idle_ns = 0;
		w->last_rescan_ns = now;
	}
	if (!w->idle_ns && now - w->last_rescan_ns >= RESCAN_NS) {
		follow_rescan(w->c->follow);
		w->last_rescan_ns = now;
	}
}

static int flush(struct windows *w, uint64_t now)
{
	intake_check_loss(w->in, now);
	w->last_flush_ns = now;
	return sink_flush(w->sink);
}

int windows_keep_up(struct windows *w)
{
	uint64_t now = clock_boot_ns();
	int err = session_drain(w->c->session);

	if (err < 0 || !w->open || now - w->last_flush_ns < FLUSH_NS)
		return err < 0 ? err : 0;
	return flush(w, now);
}

int windows_drain(struct windows *w)
{
	uint64_t now;
	int more;

	/* urgent records first */
	session_drain_control(w->c->session);
	follow_scan(w->c->follow);
	capture_weigh(w->c);
	more = session_drain(w->c->session);
	if (more < 0) {
		log_error("cannot read the ring buffers: %s", strerror(-more));
		return more;
	}
	follow_scan(w->c->follow);
	now = clock_boot_ns();
	if (w->in->gpu && gpu_drain(w->in->gpu, now, !more))
		more = 1;
	if (!w->open) {
		be_idle(w, now);
		return more;
	}
	if (!more)
		intake_settled(w->in, now);
	if (w->o->events & EVENT_MEMORY)
		memory_sample(w->memory, w->c->tasks, now, false, intake_record, w->in);
	if (now - w->last_flush_ns < FLUSH_NS)
		return more;
	follow_strangers(w->c->follow, now);
	return flush(w, now) ?: more;
}

/* ---- start and end ---- */

int windows_check(struct windows *w)
{
	int err;

	w->flag_fd = -1;
	if (!w->o->window_flag)
		return 0;
	err = flag_open(w->o->window_flag, &w->flag);
	if (!err)
		w->flag_fd = flag_fd(w->flag);
	return err;
}

void windows_free(struct windows *w)
{
	flag_free(w->flag);
}

static int plan(struct windows *w)
{
	struct schedule_config c = {
		.duration_ns = w->o->duration_ns,
		.max_steps = w->o->max_steps,
		.real_offset_ns = real_offset_ns(),
	};
	int err = 0;

	if (w->in->step_limit)
		c.max_steps = 1; /* one "step" is reported once all processes have had theirs */

	if (w->o->window_flag)
		c.source = SCHEDULE_FLAG;
	else if (w->o->window_spec)
		err = schedule_parse(w->o->window_spec, &c);
	if (!err)
		schedule_init(&w->schedule, &c, clock_boot_ns());
	return err;
}

int windows_begin(struct windows *w)
{
	int err = 0;

	host_id_read(&w->host);
	w->meta = (struct profile_meta){ .of = metadata_of, .arg = w->c->metadata };
	w->rec = (struct recording){
		.probes = &w->c->probes,
		.tasks = w->c->tasks,
		.handles = w->c->handles,
		.prices = &w->c->prices,
		.left_out = w->overhead ? &w->overhead->left_out : NULL,
		.stacks = w->c->stacks,
		.counters = session_counters(w->c->session),
		.lacks_faults = w->c->lacks_faults,
		.gpu = w->in->gpu ? gpu_get_info(w->in->gpu) : NULL,
		.windows = record_by_time(w->o),
		.command_line = w->o->command_line,
		.host = &w->host,
		.sockets = w->o->events & EVENT_REQUESTS,
		.meta = &w->meta,
		.on_file = on_file,
		.on_file_arg = w,
	};
	if (record_by_time(w->o))
		err = session_watch(w->c->session);
	err = err ?: plan(w);
	if (!err)
		err = w->flag ? windows_read_flag(w) : heed_schedule(w, clock_boot_ns());
	if (!err && !w->open)
		w->idle_ns = clock_boot_ns() + IDLE_NS;
	return err;
}

int windows_end(struct windows *w)
{
	return window_close(w, "end");
}
