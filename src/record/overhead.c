// SPDX-License-Identifier: BSD-2-Clause
#include "record/overhead.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "record/capture.h"
#include "sink/weight.h"
#include "util/clock.h"
#include "util/log.h"

struct overhead *overhead_new(struct capture *c, uint64_t budget)
{
	struct overhead *o = calloc(1, sizeof(*o));

	if (!o)
		return NULL;
	o->c = c;
	o->self = (uint32_t)getpid();
	o->left_out.budget = budget;
	shed_init(&o->shed, budget);
	return o;
}

/* ---- steps ---- */

static void hide_barriers(uint64_t ns[ST_MAX])
{
	ns[ST_CPU] += ns[ST_BARRIER];
	ns[ST_BARRIER] = 0;
}

static void leave_out(struct rec_step *r)
{
	if (!(r->left_out & 1u << SHED_BARRIERS))
		return;
	hide_barriers(r->ns);
	hide_barriers(r->workers_ns);
	r->straggler_tid = 0;
}

const struct rec_hdr *overhead_step(struct overhead *o, const struct rec_hdr *h, size_t size)
{
	uint32_t parts = left_out_between(&o->left_out, h->start_ns, h->start_ns + h->dur_ns);
	struct weight w;

	if (parts && size <= sizeof(o->step)) {
		memcpy(&o->step, h, size);
		o->step.s.left_out = parts; /* which is part of what it weighs */
		h = &o->step.s.h;
	}
	if (!(h->flags & (REC_F_OPEN_START | REC_F_OPEN_END)) &&
		weight_of((const struct rec_step *)h, &o->c->prices, o->self, &w)) {
		o->weighed++;
		shed_step(&o->shed, h->start_ns, h->dur_ns, w.ns);
	}
	if (h == &o->step.s.h)
		leave_out(&o->step.s);
	return h;
}

/* ---- what is off ---- */

static void mark(struct sink *s, enum shed_part part, bool off, uint64_t ns)
{
	static const char *const reasons[SHED_PARTS][2] = {
		[SHED_SAMPLES] = { "samples on", "samples off" },
		[SHED_BARRIERS] = { "barriers on", "barriers off" },
		[SHED_OPERATORS] = { "operators on", "operators off" },
		[SHED_SYSCALLS] = { "syscalls on", "syscalls off" },
		[SHED_TIMELINE] = { "timeline on", "timeline off" },
	};
	struct mark m = { .name = "budget", .ns = ns, .number = part, .reason = reasons[part][off] };

	sink_mark(s, &m);
}

static void mark_changed(struct sink *s, uint32_t before, uint32_t after, uint64_t ns)
{
	for (int part = 0; part < SHED_PARTS; part++) {
		if ((before ^ after) & 1u << part)
			mark(s, part, after & 1u << part, ns);
	}
}

void overhead_marks(const struct left_out *l, struct sink *s, uint64_t from, uint64_t to)
{
	uint32_t parts = 0;
	size_t i = 0;

	for (; l && i < l->n && l->changes[i].ns < from; i++)
		parts = l->changes[i].parts;
	mark_changed(s, 0, parts, from);
	for (; l && i < l->n && l->changes[i].ns <= to; i++) {
		mark_changed(s, parts, l->changes[i].parts, l->changes[i].ns);
		parts = l->changes[i].parts;
	}
}

/* The part with its verb. */
static const char *part_words(enum shed_part part)
{
	static const char *const words[SHED_PARTS] = {
		[SHED_SAMPLES] = "samples, and stacks of waits, are",
		[SHED_BARRIERS] = "barriers are",
		[SHED_OPERATORS] = "operators are",
		[SHED_SYSCALLS] = "single system calls are",
		[SHED_TIMELINE] = "the timeline is",
	};

	return words[part];
}

static void say(const struct overhead *o, enum shed_part part, bool off)
{
	log_info("--budget %.4g%%: inftrace took %.2f %% of the time of a step: %s %s", (double)o->shed.budget / 1e4,
		(double)o->shed.share / 1e4, part_words(part), off ? "off" : "on again");
}

static void change(struct overhead *o, struct sink *s, uint32_t before)
{
	uint64_t ns;

	for (int i = 0; i < SHED_PARTS; i++) {
		bool off = o->shed.off & 1u << i;

		if (!((before ^ o->shed.off) & 1u << i))
			continue;
		session_shed(o->c->session, i, off, &ns);
		left_out_change(&o->left_out, ns, o->shed.off);
		if (s)
			mark(s, i, off, ns);
		say(o, i, off);
	}
}

const char *overhead_stays(const struct probe_table *pt, bool counts)
{
	for (uint32_t i = 0; i < pt->n; i++) {
		if (pt->specs[i].is_python && pt->specs[i].attached)
			return ": --py-step, which each call of a Python function pays for, makes the steps themselves";
	}
	return counts ? ": counters (-e +pmu) are read at each switch of a thread, and at each begin and end of a step" : "";
}

void overhead_turn(struct overhead *o, struct sink *s, uint64_t now_ns)
{
	uint32_t before;

	if (!o)
		return;
	before = o->shed.off;
	if (session_shedding(o->c->session)) {
		shed_applied(&o->shed, now_ns);
		return;
	}
	if (shed_turn(&o->shed, session_parts(o->c->session), now_ns)) {
		change(o, s, before);
		shed_applied(&o->shed, clock_boot_ns());
	} else if (shed_exhausted(&o->shed) && !o->told) {
		o->told = true;
		log_warn("--budget %.4g%%: inftrace takes %.2f %% of the time of a step, and nothing is left to turn off%s",
			(double)o->shed.budget / 1e4, (double)o->shed.share / 1e4, overhead_stays(&o->c->probes, session_counters(o->c->session).mask));
	}
}

void overhead_summary(const struct overhead *o, uint64_t from, uint64_t to)
{
	uint64_t ns[SHED_PARTS];

	if (!o)
		return;
	if (!o->weighed)
		log_warn("--budget: there was no step to measure it by, so nothing was turned off, whatever inftrace cost");
	left_out_times(&o->left_out, from, to, ns);
	for (int i = 0; i < SHED_PARTS; i++) {
		if (ns[i])
			log_info("--budget: left out for %.1f of %.1f s: %s", (double)ns[i] / 1e9,
				(double)(to - from) / 1e9, shed_part_name(i));
	}
}
