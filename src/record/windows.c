// SPDX-License-Identifier: BSD-2-Clause
#include "record/windows.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capture/sums.h"
#include "record/gpu.h"
#include "record/limits.h"
#include "record/output.h"
#include "record/scrape.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/parse.h"
#include "util/user.h"

#define FOR_MIN_NS (10 * NSEC_PER_MSEC) /* opening and closing takes little of that */
#define CLOCK_READ_NS NSEC_PER_MSEC

/* ---- the schedule ---- */

/* Parses one of the two parts: stores its text and its time. */
static int parse_part(char *part, const char *whole, const char *text[2], uint64_t ns[2])
{
	static const char *const keys[] = { "every", "for" };
	char option[32], buf[PARSE_ERROR_MAX];
	int err;

	for (int i = 0; i < 2; i++) {
		size_t n = strlen(keys[i]);

		if (strncmp(part, keys[i], n) || part[n] != '=')
			continue;
		if (text[i])
			return log_fail(-EINVAL, "--window: %s is given twice", keys[i]);
		text[i] = part + n + 1;
		err = parse_duration(text[i], &ns[i]);
		if (!err)
			return 0;
		snprintf(option, sizeof(option), "--window: %s", keys[i]);
		return log_fail(-EINVAL, "%s", parse_error(buf, PARSE_DURATION, option, text[i], err));
	}
	return log_fail(-EINVAL, "--window: '%.60s' is neither manual nor like every=60s,for=2s", whole);
}

static int check_times(const char *const text[2], const uint64_t ns[2])
{
	if (!text[0] || !text[1])
		log_error("--window: %s is missing, as in every=60s,for=2s", text[0] ? "for" : "every");
	else if (ns[1] < FOR_MIN_NS)
		log_error("--window: for=%.40s is shorter than 10ms", text[1]);
	else if (ns[1] >= ns[0])
		log_error("--window: for=%.40s is not shorter than every=%.40s", text[1], text[0]);
	else
		return 0;
	return -EINVAL;
}

int schedule_parse(const char *text, struct schedule_config *c)
{
	const char *times[2] = {};
	uint64_t ns[2];
	char *copy, *rest, *part;
	bool aligned = false;
	int err = 0;

	if (!strcmp(text, "manual")) {
		c->source = SCHEDULE_MANUAL;
		return 0;
	}
	copy = rest = xstrdup(text);
	while ((part = strsep(&rest, ",")) && !err) {
		if (!strcmp(part, "aligned") && !aligned)
			aligned = true;
		else
			err = parse_part(part, text, times, ns);
	}
	if (!err)
		err = check_times(times, ns);
	free(copy);
	if (err)
		return err;
	c->source = SCHEDULE_EVERY;
	c->every_ns = ns[0];
	c->for_ns = ns[1];
	c->aligned = aligned;
	return 0;
}

/* ---- what opens and closes a window ---- */

static void close_window(struct schedule *s, const char *why)
{
	if (!s->state.open)
		return;
	s->state.open = false;
	s->state.closed = why;
}

/* Closes the window and clears all requests for one, which have to be made again. */
static void schedule_use_up(struct schedule *s, const char *why)
{
	s->flag = s->scheduled = s->held = false;
	close_window(s, why);
}

static void schedule_reach_limit(struct schedule *s, const char *why)
{
	schedule_use_up(s, why);
	s->state.over = s->c.source == SCHEDULE_WHOLE;
}

static void open_if_wished(struct schedule *s, uint64_t now)
{
	const char *why = s->flag ? "flag" : s->scheduled ? "schedule"
				     : s->held            ? "start"
							  : NULL;

	if (!why || s->state.open || s->state.over)
		return;
	s->state.open = true;
	s->state.opened = why;
	s->state.number++;
	s->open_ns = now;
	s->steps = 0;
}

static uint64_t schedule_deadline(const struct schedule *s)
{
	if (!s->c.duration_ns)
		return UINT64_MAX;
	if (s->c.source == SCHEDULE_WHOLE)
		return s->begin_ns + s->c.duration_ns;
	return s->state.open ? s->open_ns + s->c.duration_ns : UINT64_MAX;
}

/* Periods count from the beginning of the run, so that a late window does not delay the following ones; aligned, from 1970. */
static uint64_t schedule_elapsed(const struct schedule *s, uint64_t now)
{
	return s->c.aligned ? now + s->c.real_offset_ns : now - s->begin_ns;
}

/* A window that was missed, as during a suspend, is not made up for. */
static void schedule_check_period(struct schedule *s, uint64_t now)
{
	uint64_t period = schedule_elapsed(s, now) / s->c.every_ns + 1, into = schedule_elapsed(s, now) % s->c.every_ns;

	if (period == s->period || into >= s->c.for_ns)
		return;
	if (s->scheduled && !s->held) /* opened late, and it is time for the next one */
		close_window(s, "schedule");
	s->period = period;
	s->scheduled = true;
	/* a window that opens late keeps its length, unless aligned: other hosts close theirs then */
	s->close_ns = now + s->c.for_ns - (s->c.aligned ? into : 0);
}

/* Applies the passing of time. */
static void schedule_advance(struct schedule *s, uint64_t now)
{
	uint64_t end = schedule_deadline(s);

	if (s->state.over)
		return;
	if (s->scheduled && now >= s->close_ns && s->close_ns < end) {
		s->scheduled = false;
		if (!s->held)
			close_window(s, "schedule");
		end = schedule_deadline(s);
	}
	if (now >= end)
		schedule_reach_limit(s, "duration");
	if (s->c.source == SCHEDULE_EVERY)
		schedule_check_period(s, now);
	open_if_wished(s, now);
}

/* ---- events ---- */

void schedule_init(struct schedule *s, const struct schedule_config *c, uint64_t now_ns)
{
	*s = (struct schedule){ .c = *c, .begin_ns = now_ns, .held = c->source == SCHEDULE_WHOLE };
	if (c->aligned) /* the first window is whole: skips one that other hosts have open now */
		s->period = schedule_elapsed(s, now_ns) / c->every_ns + 1;
	schedule_advance(s, now_ns);
}

void schedule_clock(struct schedule *s, uint64_t real_offset_ns)
{
	uint64_t offset = s->c.real_offset_ns;

	if (real_offset_ns > offset + CLOCK_READ_NS || real_offset_ns + CLOCK_READ_NS < offset)
		s->c.real_offset_ns = real_offset_ns;
}

void schedule_flag(struct schedule *s, uint64_t now_ns, bool there)
{
	schedule_advance(s, now_ns);
	if (there == s->flag_there)
		return;
	s->flag = s->flag_there = there;
	if (!there && !s->held)
		close_window(s, "flag");
	open_if_wished(s, now_ns);
}

int schedule_start(struct schedule *s, uint64_t now_ns)
{
	bool was_open;

	schedule_advance(s, now_ns);
	if (s->state.over)
		return -ESHUTDOWN;
	was_open = s->state.open;
	s->held = true;
	open_if_wished(s, now_ns);
	return was_open;
}

int schedule_stop(struct schedule *s, uint64_t now_ns)
{
	schedule_advance(s, now_ns);
	if (!s->state.open)
		return 1;
	schedule_use_up(s, "stop");
	return 0;
}

void schedule_steps(struct schedule *s, uint64_t now_ns, uint64_t n)
{
	s->steps += n;
	if (s->state.open && s->c.max_steps && s->steps >= s->c.max_steps)
		schedule_reach_limit(s, "max_steps");
	schedule_advance(s, now_ns);
}

struct schedule_state schedule_next(struct schedule *s, uint64_t now_ns)
{
	uint64_t next, period;

	schedule_advance(s, now_ns);
	next = s->scheduled && s->close_ns < schedule_deadline(s) ? s->close_ns : schedule_deadline(s);
	period = s->c.source == SCHEDULE_EVERY ? now_ns + s->c.every_ns - schedule_elapsed(s, now_ns) % s->c.every_ns : UINT64_MAX;
	next = period < next ? period : next;
	s->state.next_ns = s->state.over ? UINT64_MAX : next;
	return s->state;
}

/* ---- the flag file ---- */

/* for the nearest directory above, while the flag's directory is missing */
#define ABOVE_EVENTS (IN_CREATE | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR)
#define DIRECTORY_EVENTS (ABOVE_EVENTS | IN_DELETE | IN_MOVED_FROM)
#define WATCH_TRIES 16 /* directories may come and go while one is looked for */
#define EVENTS_BYTES 16384

struct flag {
	char path[PATH_MAX], directory[PATH_MAX];
	const char *name; /* the last part of path */
	uid_t user;
	int fd;
	int wd, above_wd; /* -1: none */
	bool there;       /* as last reported */
	bool look;        /* something has happened to it */
	bool away;        /* ... and it was gone for a while */
	bool warned;      /* that the file is refused; until one is not */
};

/* -ENOENT: not there; other errors with the reason. Checks the file itself, not what its name may lead to later. */
static int flag_check_file(const struct flag *f, char *why, size_t size)
{
	int fd = open(f->path, O_PATH | O_NOFOLLOW | O_CLOEXEC), err = 0;
	struct stat st;

	if (fd < 0 || fstat(fd, &st)) {
		err = -errno;
		snprintf(why, size, "%s", strerror(errno));
	} else if (!S_ISREG(st.st_mode)) {
		err = -EINVAL;
		snprintf(why, size, "it is %s, not a regular file",
			S_ISLNK(st.st_mode)   ? "a symbolic link"
			: S_ISDIR(st.st_mode) ? "a directory"
					      : "a special file");
	} else if (st.st_uid && st.st_uid != f->user) {
		err = -EPERM;
		snprintf(why, size, "it belongs to user %u, neither to you (%u) nor to root", st.st_uid, f->user);
	}
	if (fd >= 0)
		close(fd);
	return err;
}

static bool flag_is_present(struct flag *f)
{
	char why[128];
	int err = flag_check_file(f, why, sizeof(why));

	if (err && err != -ENOENT && !f->warned) {
		log_warn("the flag file %s does not count: %s", f->path, why);
		f->warned = true;
	}
	if (!err)
		f->warned = false;
	return !err;
}

/* ---- the directory ---- */

static void flag_drop_watch(struct flag *f, int *wd)
{
	if (*wd >= 0)
		inotify_rm_watch(f->fd, *wd);
	*wd = -1;
}

/* Watches the nearest existing directory above the missing one. */
static int flag_watch_above(struct flag *f)
{
	char path[PATH_MAX];
	size_t n;
	int wd;

	memcpy(path, f->directory, sizeof(path));
	do {
		n = strlen(path);
		while (n > 1 && path[n - 1] != '/')
			n--;
		while (n > 1 && path[n - 1] == '/')
			n--;
		path[n] = 0;
		wd = inotify_add_watch(f->fd, path, ABOVE_EVENTS);
	} while (wd < 0 && (errno == ENOENT || errno == ENOTDIR) && n > 1);
	if (wd < 0)
		return -errno;
	if (wd != f->above_wd)
		flag_drop_watch(f, &f->above_wd);
	f->above_wd = wd;
	return 0;
}

/* 0: the directory is watched; 1: it is missing, and the nearest one above it is watched. */
static int flag_watch_directory(struct flag *f)
{
	for (int i = 0; i < WATCH_TRIES; i++) {
		int wd = inotify_add_watch(f->fd, f->directory, DIRECTORY_EVENTS), above, err;

		if (wd >= 0) {
			if (wd == f->above_wd) /* a bind mount of the same directory */
				f->above_wd = -1;
			flag_drop_watch(f, &f->above_wd);
			f->wd = wd;
			return 0;
		}
		if (errno != ENOENT && errno != ENOTDIR)
			return -errno;
		above = f->above_wd;
		err = flag_watch_above(f);
		if (err)
			return err;
		/* watched before the directory was looked for, so nothing is missed */
		if (f->above_wd == above)
			return 1;
	}
	return -ENOENT;
}

static void flag_stop_watching(struct flag *f, const char *why)
{
	flag_drop_watch(f, &f->wd);
	flag_drop_watch(f, &f->above_wd);
	log_warn("the flag file %s can no longer be watched: %s; its window stays closed", f->path, why);
}

/* Watches again, since the directory may be another one or missing. Returns as flag_watch_directory() does. */
static int flag_watch_again(struct flag *f)
{
	int err;

	flag_drop_watch(f, &f->wd);
	err = flag_watch_directory(f);
	f->look = true;
	if (err < 0)
		flag_stop_watching(f, strerror(-err));
	return err;
}

/* ---- events ---- */

static void directory_event(struct flag *f, const struct inotify_event *e)
{
	bool mine = e->len && !strcmp(e->name, f->name);
	int err;

	f->look |= mine;
	f->away |= mine && e->mask & (IN_DELETE | IN_MOVED_FROM);
	if (!(e->mask & (IN_UNMOUNT | IN_IGNORED | IN_MOVE_SELF)))
		return;
	f->look = f->away = true;
	if (e->mask & IN_IGNORED)
		f->wd = -1;
	/* a file system mounted there later could not be told from the directory below it */
	if (e->mask & IN_UNMOUNT) {
		flag_stop_watching(f, "its directory was unmounted");
		return;
	}
	err = flag_watch_again(f);
	if (err >= 0)
		log_warn("the directory of the flag file %s was %s; %s", f->path,
			e->mask & IN_IGNORED ? "removed" : "moved",
			err ? "its window stays closed until it is back" : "it is there again");
}

static int flag_drain_events(struct flag *f)
{
	char buf[EVENTS_BYTES] __attribute__((aligned(__alignof__(struct inotify_event))));
	ssize_t n;

	while ((n = read(f->fd, buf, sizeof(buf))) > 0) {
		const struct inotify_event *e;

		for (char *p = buf; p < buf + n; p += sizeof(*e) + e->len) {
			e = (const struct inotify_event *)p;
			if (e->mask & IN_Q_OVERFLOW) {
				flag_watch_again(f); /* events of the directory may be lost */
			} else if (e->wd == f->wd) {
				directory_event(f, e);
			} else if (e->wd == f->above_wd) {
				if (e->mask & IN_IGNORED)
					f->above_wd = -1;
				else if (e->mask & (IN_MOVE_SELF | IN_UNMOUNT))
					flag_drop_watch(f, &f->above_wd);
				if (!flag_watch_again(f))
					log_info("the directory of the flag file %s is back", f->path);
			}
		}
	}
	return n < 0 && errno != EAGAIN && errno != EINTR ? -errno : 0;
}

int flag_read(struct flag *f, bool *ret_there)
{
	int err = flag_drain_events(f);
	bool there;

	if (err)
		return err;
	there = f->look ? f->wd >= 0 && flag_is_present(f) : f->there;
	if (f->away && f->there && there) {
		f->away = f->there = *ret_there = false;
		return 1;
	}
	f->look = f->away = false;
	f->there = *ret_there = there;
	return 0;
}

/* ---- open ---- */

/* A relative path starts at the current directory, even if that is moved. */
static int flag_set_path(struct flag *f, const char *path)
{
	const char *name = basename(path);
	char cwd[PATH_MAX] = "";
	int n;

	if (!*name)
		return log_fail(-EINVAL, "--window-flag: '%s' names no file", path);
	if (*path != '/' && !getcwd(cwd, sizeof(cwd)))
		return log_fail(-errno, "--window-flag: %s: the current directory: %s", path, strerror(errno));
	n = snprintf(f->path, sizeof(f->path), "%s%s%s", cwd, *cwd ? "/" : "", path);
	if (n >= (int)sizeof(f->path) || strlen(name) > NAME_MAX)
		return log_fail(-EINVAL, "--window-flag: %.40s...: %s", path, strerror(ENAMETOOLONG));
	f->name = strrchr(f->path, '/') + 1;
	n = (int)(f->name - f->path) - 1;
	memcpy(f->directory, f->path, (size_t)(n ? n : 1));
	return 0;
}

static int watch_first(struct flag *f)
{
	char why[128];
	int err;

	f->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (f->fd >= 0)
		f->wd = inotify_add_watch(f->fd, f->directory, DIRECTORY_EVENTS);
	if (f->wd < 0) {
		err = -errno;
		/* inotify(7), "/proc interfaces" */
		return log_fail(err, "--window-flag: cannot watch directory %s: %s", f->directory,
			err == -EMFILE   ? "too many users of inotify; raise fs.inotify.max_user_instances"
			: err == -ENOSPC ? "too many files are watched; raise fs.inotify.max_user_watches"
					 : strerror(-err));
	}
	/* watched first, so nothing that happens from here on is missed */
	err = flag_check_file(f, why, sizeof(why));
	f->look = !err;
	if (!err || err == -ENOENT)
		return 0;
	return log_fail(err, "--window-flag: %s: %s", f->path, why);
}

int flag_open(const char *path, struct flag **ret_flag)
{
	struct flag *f = xcalloc(1, sizeof(*f));
	int err;

	f->fd = f->wd = f->above_wd = -1;
	f->user = user_calling();
	err = flag_set_path(f, path);
	if (!err)
		err = watch_first(f);
	if (err) {
		flag_free(f);
		return err;
	}
	*ret_flag = f;
	return 0;
}

int flag_fd(const struct flag *f)
{
	return f ? f->fd : -1;
}

void flag_free(struct flag *f)
{
	if (f && f->fd >= 0)
		close(f->fd); /* also ends all watches */
	free(f);
}

/* ---- windows ---- */

#define DRAIN_NS (10 * NSEC_PER_MSEC)          /* the rings are drained this often, without wake-ups */
#define DRAIN_PROFILE_NS (100 * NSEC_PER_MSEC) /* steps alone are few; each wake-up takes a CPU from a busy engine */
#define CLOSED_NS (500 * NSEC_PER_MSEC)        /* while the window is closed, only urgent events are handled sooner */
#define FLUSH_NS (NSEC_PER_SEC / 10)           /* what was drained is in the file after this time */
#define FILES_NAMED 20                         /* with --max-size this many files are named at the end */
#define IDLE_NS NSEC_PER_SEC                   /* a window closed for this long detaches its programs */
#define PREPARE_NS (NSEC_PER_SEC / 10)         /* they are attached again this long before it opens, if that is known */
#define RESCAN_NS NSEC_PER_SEC                 /* while detached, since no records report newly mapped files */

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

static void windows_mark(struct windows *w, const char *name, uint64_t ns, const char *why)
{
	struct mark m = { .name = name, .ns = ns, .number = w->number, .reason = why };

	if (record_by_time(w->o))
		sink_mark(w->sink, &m);
}

void windows_abandon(struct windows *w)
{
	intake_close(w->in);
	sink_close(w->sink, NULL);
	w->sink = NULL;
	memory_free(w->memory);
	w->memory = NULL;
}

static int windows_open_window(struct windows *w, const char *why)
{
	uint64_t before = clock_boot_ns(), open_ns, ago;
	struct clock_reading now;
	int err;

	if (record_wants_profile(w->o) || w->o->events & EVENT_MEMORY)
		w->memory = memory_new(session_sums_fd(w->c->session));
	if (record_by_time(w->o))
		follow_rescan(w->c->follow); /* no records report mapped files while the window is closed */
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
	/* the other clocks, read at the same instant: their differences are constant over microseconds */
	now = clock_read();
	ago = now.boot_ns - open_ns;
	w->rec.start_boot_ns = open_ns;
	w->rec.start_mono_ns = now.mono_ns - ago;
	w->rec.name_real_ns = w->rec.start_real_ns = now.real_ns - ago;
	w->rec.window = w->number;
	w->totals.open_cost_ns = clock_boot_ns() - before;
	w->sink = w->recorder;
	err = w->sink ? 0 : outputs_open(w->o, &w->rec, NULL, 0, &w->sink);
	if (err) {
		session_stop(w->c->session, &open_ns);
		w->open = false;
		windows_abandon(w);
		return err;
	}
	intake_open(w->in, w->sink, &w->totals, open_ns);
	if (w->in->gpu)
		gpu_start(w->in->gpu);
	windows_mark(w, "window_open", open_ns, why);
	if (w->in->overhead)
		overhead_marks(&w->in->overhead->left_out, w->sink, open_ns, open_ns);
	misfits_marks(w->c->misfits, w->sink, open_ns);
	return 0;
}

/* ---- a window closes ---- */

/* Afterwards everything that the programs have sent is in the outputs. */
static int end_records(struct windows *w)
{
	int err, left_err;

	err = session_stop(w->c->session, &w->totals.close_ns);
	if (err)
		log_warn("spans still open at the end are missing: %s", strerror(-err));
	if (record_wants_profile(w->o) && !w->recorder) {
		w->processes = session_sums(w->c->session, &w->totals.n_processes);
		memory_totals(w->memory, w->processes, w->totals.n_processes);
		for (size_t i = 0; i < w->totals.n_processes; i++)
			w->processes[i].pages = w->o->events & EVENT_MEMORY;
		w->totals.processes = w->processes;
	}
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
	if (w->in->overhead)
		left_out_times(&w->in->overhead->left_out, w->totals.open_ns, w->totals.close_ns, w->totals.left_out_ns);
	return err;
}

static void windows_add_file(const char *name, uint64_t bytes, void *arg)
{
	struct windows *w = arg;

	left_files_add(&w->files, name, bytes);
	if (w->files.n > FILES_NAMED)
		w->unnamed_bytes += bytes;
	(record_by_time(w->o) || w->o->view || w->files.n > FILES_NAMED ? log_debug : log_info)("wrote %s (%.1f MB)", name, (double)bytes / 1e6);
}

static int windows_close_window(struct windows *w, const char *why)
{
	const struct window_totals *t = &w->totals;
	int err, close_err;

	if (!w->open)
		return 0;
	err = end_records(w);
	windows_mark(w, "window_close", w->totals.close_ns, why);
	w->totals.close_cost_ns = clock_boot_ns() - w->totals.close_ns;
	w->totals.bytes = sink_bytes(w->sink);
	windows_totals(w, &w->whole);
	w->whole.open_ns = w->whole.open_ns ? w->whole.open_ns : w->totals.open_ns;
	w->whole.close_ns = w->totals.close_ns;
	w->whole.lost_ns += w->totals.lost_ns;
	w->files.n = 0;
	w->files.bytes = w->unnamed_bytes = 0;
	w->open = false;
	close_err = sink_close(w->sink, &w->totals);
	err = err ? err : close_err;
	w->sink = NULL;
	if (!record_by_time(w->o) && w->files.n > FILES_NAMED)
		log_info("wrote %u more (%.1f MB)", w->files.n - FILES_NAMED, (double)w->unnamed_bytes / 1e6);
	if (record_by_time(w->o) && !w->recorder)
		log_info("window %u (%s to %s): %.1f s, %" PRIu64 " steps, %" PRIu64 " records, %u files in %s (%.1f MB)",
			w->number, w->why, why, (double)(t->close_ns - t->open_ns) / 1e9, t->steps, total_of(t->records),
			w->files.n, w->o->output_dir, (double)w->files.bytes / 1e6);
	w->number++;
	w->idle_ns = clock_boot_ns() + IDLE_NS;
	memory_free(w->memory);
	w->memory = NULL;
	sums_free(w->processes, w->totals.n_processes);
	w->processes = NULL;
	return err;
}

/* ---- the schedule ---- */

static uint64_t realtime_offset_ns(void)
{
	return clock_ns(CLOCK_REALTIME) - clock_boot_ns();
}

/* Opens or closes the window according to the schedule. */
static int windows_apply_schedule(struct windows *w, uint64_t now)
{
	struct schedule_state st;
	int err = 0;

	schedule_clock(&w->schedule, realtime_offset_ns());
	st = schedule_next(&w->schedule, now);
	if (w->open && (!st.open || st.number != w->scheduled))
		err = windows_close_window(w, st.closed);
	if (!err && st.open && !w->open)
		err = windows_open_window(w, st.opened);
	w->scheduled = st.number;
	return err;
}

int windows_start(struct windows *w)
{
	uint64_t now = clock_boot_ns();

	return schedule_start(&w->schedule, now) ?: windows_apply_schedule(w, now);
}

int windows_stop(struct windows *w)
{
	uint64_t now = clock_boot_ns();

	return schedule_stop(&w->schedule, now) ?: windows_apply_schedule(w, now);
}

int windows_read_flag(struct windows *w)
{
	bool there;
	int more, err = 0;

	if (!w->flag)
		return 0;
	do {
		more = flag_read(w->flag, &there);
		if (more < 0)
			return log_fail(more, "cannot watch %s: %s", w->o->window_flag, strerror(-more));
		schedule_flag(&w->schedule, clock_boot_ns(), there);
		err = windows_apply_schedule(w, clock_boot_ns());
	} while (more && !err);
	return err;
}

int windows_turn(struct windows *w, uint64_t now_ns)
{
	struct step_limit *each = w->in->step_limit;

	if (w->open && session_over(w->c->session)) /* also if the record of a step was lost */
		schedule_steps(&w->schedule, now_ns, w->o->max_steps);
	else if (each && w->open && step_limit_over(each, w->c->tasks))
		schedule_steps(&w->schedule, now_ns, 1);
	else if (!each && w->open && w->totals.steps > w->counted_steps)
		schedule_steps(&w->schedule, now_ns, w->totals.steps - w->counted_steps);
	w->counted_steps = w->open ? w->totals.steps : 0;
	return windows_apply_schedule(w, now_ns);
}

uint64_t windows_wait_ns(const struct windows *w, uint64_t now)
{
	bool many = record_wants_trace(w->o) || w->o->events & EVENT_MEMORY || w->o->gpu;
	uint64_t wait = many ? DRAIN_NS : DRAIN_PROFILE_NS, next = w->schedule.state.next_ns;

	if (!w->open)
		wait = CLOSED_NS;
	if (!w->open && !w->idle_ns && next != UINT64_MAX)
		next -= PREPARE_NS;
	if (next <= now)
		return 0;
	return next - now < wait ? next - now : wait;
}

/* ---- records ---- */

/* While the window is closed: detaches the programs, and attaches them before the next one. */
static void windows_idle(struct windows *w, uint64_t now)
{
	bool soon = w->schedule.state.next_ns <= now + PREPARE_NS;

	if (!w->idle_ns && soon) {
		session_wake(w->c->session); /* a failure shows when the window is opened, and is reported then */
		w->idle_ns = w->schedule.state.next_ns + IDLE_NS;
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

static int windows_flush(struct windows *w, uint64_t now)
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
	return windows_flush(w, now);
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
	if (more < 0)
		return log_fail(more, "cannot read the ring buffers: %s", strerror(-more));
	follow_scan(w->c->follow);
	now = clock_boot_ns();
	if (w->in->gpu && gpu_drain(w->in->gpu, now, !more))
		more = 1;
	scrape_drain(w->in->scrape, intake_made, w->in);
	if (!w->open) {
		windows_idle(w, now);
		return more;
	}
	if (!more)
		intake_settled(w->in, now);
	if (w->o->events & EVENT_MEMORY)
		memory_sample(w->memory, w->c->tasks, now, false, intake_record, w->in);
	if (now - w->last_flush_ns < FLUSH_NS)
		return more;
	follow_strangers(w->c->follow, now);
	follow_watches(w->c->follow, now);
	return windows_flush(w, now) ?: more;
}

/* ---- start and end ---- */

int windows_check(struct windows *w)
{
	return w->o->window_flag ? flag_open(w->o->window_flag, &w->flag) : 0;
}

int windows_begin(struct windows *w)
{
	struct schedule_config c = {
		.source = w->o->window_flag ? SCHEDULE_FLAG : SCHEDULE_WHOLE,
		.duration_ns = w->o->duration_ns,
		.max_steps = w->in->step_limit ? 1 : w->o->max_steps, /* 1: reported once all processes have had theirs */
		.real_offset_ns = realtime_offset_ns(),
	};
	int err = 0;

	host_id_read(&w->host);
	w->meta = (struct profile_meta){ .of = metadata_of, .arg = w->c->metadata };
	w->rec = (struct recording){
		.probes = &w->c->probes,
		.tasks = w->c->tasks,
		.handles = w->c->handles,
		.prices = &w->c->prices,
		.left_out = w->in->overhead ? &w->in->overhead->left_out : NULL,
		.stacks = w->c->stacks,
		.counters = session_counters(w->c->session),
		.lacks_faults = w->c->lacks_faults,
		.gpu = w->in->gpu ? gpu_get_info(w->in->gpu) : NULL,
		.windows = record_by_time(w->o),
		.command_line = w->o->command_line,
		.host = &w->host,
		.sockets = w->o->events & EVENT_REQUESTS,
		.gaps = w->in->gaps,
		.fd_name = w->in->gaps && !w->o->no_names ? session_fd_name : NULL,
		.fd_name_arg = w->c->session,
		.meta = &w->meta,
		.on_file = windows_add_file,
		.on_file_arg = w,
	};
	if (record_by_time(w->o))
		err = session_watch(w->c->session);
	if (!err && w->o->window_spec && !w->o->window_flag)
		err = schedule_parse(w->o->window_spec, &c);
	if (err)
		return err;
	schedule_init(&w->schedule, &c, clock_boot_ns());
	err = w->flag ? windows_read_flag(w) : windows_apply_schedule(w, clock_boot_ns());
	if (!err && !w->open)
		w->idle_ns = clock_boot_ns() + IDLE_NS;
	return err;
}

int windows_end(struct windows *w)
{
	return windows_close_window(w, "end");
}
