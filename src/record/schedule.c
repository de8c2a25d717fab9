// SPDX-License-Identifier: BSD-2-Clause
#include "record/schedule.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/log.h"
#include "util/parse.h"

#define FOR_MIN_NS UINT64_C(10000000) /* opening and closing takes little of that */
#define CLOCK_READ_NS UINT64_C(1000000)

/* ---- parsing ---- */

static int parse_time(const char *key, const char *text, uint64_t *ret_ns)
{
	char option[32], buf[PARSE_ERROR_MAX];
	int err = parse_duration(text, ret_ns);

	if (!err)
		return 0;
	snprintf(option, sizeof(option), "--window: %s", key);
	log_error("%s", parse_error(buf, PARSE_DURATION, option, text, err));
	return -EINVAL;
}

/* Parses one of the two parts: stores its text and its time. */
static int parse_part(char *part, const char *whole, const char *text[2], uint64_t ns[2])
{
	static const char *const keys[] = { "every", "for" };

	for (int i = 0; i < 2; i++) {
		size_t n = strlen(keys[i]);

		if (strncmp(part, keys[i], n) || part[n] != '=')
			continue;
		if (text[i]) {
			log_error("--window: %s is given twice", keys[i]);
			return -EINVAL;
		}
		text[i] = part + n + 1;
		return parse_time(keys[i], text[i], &ns[i]);
	}
	log_error("--window: '%.60s' is neither manual nor like every=60s,for=2s", whole);
	return -EINVAL;
}

static int check_times(const char *const text[2], const uint64_t ns[2])
{
	if (!text[0] || !text[1])
		log_error("--window: %s is missing, as in every=60s,for=2s",
			text[0] ? "for" : "every");
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
	copy = rest = strdup(text);
	if (!copy)
		return -ENOMEM;
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

/* ---- windows ---- */

static void close_window(struct schedule *s, const char *why)
{
	if (!s->state.open)
		return;
	s->state.open = false;
	s->state.closed = why;
}

/* What wished for the window has to do so again. */
static void use_up(struct schedule *s, const char *why)
{
	s->flag = s->scheduled = s->held = false;
	close_window(s, why);
}

static void limit(struct schedule *s, const char *why)
{
	use_up(s, why);
	s->state.over = s->c.source == SCHEDULE_WHOLE;
}

static void open_if_wished(struct schedule *s, uint64_t now)
{
	const char *why = s->flag ? "flag" : s->scheduled ? "schedule" : s->held ? "start" : NULL;

	if (!why || s->state.open || s->state.over)
		return;
	s->state.open = true;
	s->state.opened = why;
	s->state.number++;
	s->open_ns = now;
	s->steps = 0;
}

/* ---- time ---- */

static uint64_t deadline(const struct schedule *s)
{
	if (!s->c.duration_ns)
		return UINT64_MAX;
	if (s->c.source == SCHEDULE_WHOLE)
		return s->begin_ns + s->c.duration_ns;
	return s->state.open ? s->open_ns + s->c.duration_ns : UINT64_MAX;
}

/* What periods are counted from: the beginning of the run, so that a late window does not delay the following ones, or 1970. */
static uint64_t elapsed(const struct schedule *s, uint64_t now)
{
	return s->c.aligned ? now + s->c.real_offset_ns : now - s->begin_ns;
}

/* A window that was missed, as during a suspend, is not made up for. */
static void look_at_period(struct schedule *s, uint64_t now)
{
	uint64_t period = elapsed(s, now) / s->c.every_ns + 1, into = elapsed(s, now) % s->c.every_ns;

	if (period == s->period || into >= s->c.for_ns)
		return;
	if (s->scheduled && !s->held) /* opened late, and it is time for the next one */
		close_window(s, "schedule");
	s->period = period;
	s->scheduled = true;
	/* even for a window that opens late, unless others close then */
	s->close_ns = now + s->c.for_ns - (s->c.aligned ? into : 0);
}

/* Applies the passing of time. */
static void advance(struct schedule *s, uint64_t now)
{
	uint64_t end = deadline(s);

	if (s->state.over)
		return;
	if (s->scheduled && now >= s->close_ns && s->close_ns < end) {
		s->scheduled = false;
		if (!s->held)
			close_window(s, "schedule");
		end = deadline(s);
	}
	if (now >= end)
		limit(s, "duration");
	if (s->c.source == SCHEDULE_EVERY)
		look_at_period(s, now);
	open_if_wished(s, now);
}

static uint64_t next_look(const struct schedule *s, uint64_t now)
{
	uint64_t next = deadline(s), period;

	if (s->state.over)
		return UINT64_MAX;
	if (s->scheduled && s->close_ns < next)
		next = s->close_ns;
	if (s->c.source != SCHEDULE_EVERY)
		return next;
	period = now + s->c.every_ns - elapsed(s, now) % s->c.every_ns;
	return period < next ? period : next;
}

/* ---- events ---- */

void schedule_init(struct schedule *s, const struct schedule_config *c, uint64_t now_ns)
{
	*s = (struct schedule){ .c = *c, .begin_ns = now_ns, .held = c->source == SCHEDULE_WHOLE };
	if (c->aligned) /* the first window is whole: not the one that is open elsewhere now */
		s->period = elapsed(s, now_ns) / c->every_ns + 1;
	advance(s, now_ns);
}

void schedule_clock(struct schedule *s, uint64_t real_offset_ns)
{
	uint64_t offset = s->c.real_offset_ns;

	if (real_offset_ns > offset + CLOCK_READ_NS || real_offset_ns + CLOCK_READ_NS < offset)
		s->c.real_offset_ns = real_offset_ns;
}

void schedule_flag(struct schedule *s, uint64_t now_ns, bool there)
{
	advance(s, now_ns);
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

	advance(s, now_ns);
	if (s->state.over)
		return -ESHUTDOWN;
	was_open = s->state.open;
	s->held = true;
	open_if_wished(s, now_ns);
	return was_open;
}

int schedule_stop(struct schedule *s, uint64_t now_ns)
{
	advance(s, now_ns);
	if (!s->state.open)
		return 1;
	use_up(s, "stop");
	return 0;
}

void schedule_steps(struct schedule *s, uint64_t now_ns, uint64_t n)
{
	s->steps += n;
	if (s->state.open && s->c.max_steps && s->steps >= s->c.max_steps)
		limit(s, "max_steps");
	advance(s, now_ns);
}

void schedule_end(struct schedule *s, uint64_t now_ns)
{
	advance(s, now_ns);
	use_up(s, "end");
	s->state.over = true;
}

struct schedule_state schedule_next(struct schedule *s, uint64_t now_ns)
{
	struct schedule_state state;

	advance(s, now_ns);
	state = s->state;
	state.next_ns = next_look(s, now_ns);
	return state;
}
