// SPDX-License-Identifier: BSD-2-Clause
#include "cmd/engines_check.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "capture/session.h"
#include "record/options.h"
#include "sink/sink.h"
#include "util/program.h"
#include "util/text.h"

/* A recording of which nothing is kept but the numbers of calls. */
struct check {
	struct view view;
	struct sink sink;
	const struct probe_table *pt;
	bool ended, any, steps, called; /* steps: there are presets with some */
};

static void print_probe(struct check *c, const struct probe_spec *s, bool hit)
{
	char shown[256];

	printf("  %-8s %-40s ", s->stand_in ? "stand-in" : probe_role_name(s->role), text_printable(shown, sizeof(shown), s->symbol));
	if (s->records)
		printf("%" PRIu64 " calls%s\n", s->records, s->stand_in ? " that were steps" : "");
	else if (!s->attached)
		puts(s->refused ? "left out" : "not found");
	else
		puts(hit ? "called" : "never hit");
	c->any |= hit;
	c->called |= hit && s->role == ROLE_STEP && !s->stand_in;
}

/* Of what a glob matches, only what was hit: it may be thousands. */
static void print_probes(struct check *c)
{
	for (uint32_t i = 0; i < c->pt->n; i++) {
		const struct probe_spec *s = &c->pt->specs[i];
		bool hit = s->attached && session_probe_hit(c->view.session, i);

		if (!s->engine->matched || ((s->is_glob || s->is_usdt) && !s->from && s->attached) || (s->from && !hit))
			continue;
		c->steps |= s->engine->has_step;
		print_probe(c, s, hit);
	}
}

static void nothing_lost(struct sink *s, const struct loss *l)
{
	(void)s;
	(void)l;
}

static void counted_elsewhere(struct sink *s, const struct rec_hdr *rec, size_t size)
{
	(void)s;
	(void)rec;
	(void)size;
}

static int check_close(struct sink *s, const struct window_totals *t)
{
	struct check *c = (struct check *)((char *)s - offsetof(struct check, sink));

	if (!t)
		return 0;
	c->ended = true;
	print_probes(c);
	if (t->lost[REC_FUNCTION] + t->lost[REC_STEP])
		printf("%" PRIu64 " more calls were lost\n", t->lost[REC_FUNCTION] + t->lost[REC_STEP]);
	if (!c->any)
		puts("nothing was called: the engine did nothing in that time, or other functions did it");
	else if (c->steps && !c->called)
		puts("no step was called: the preset does not fit, or the engine did too little in that time");
	return 0;
}

static int check_open(struct view *v, const struct recording *rec, struct sink **ret_sink)
{
	static const struct sink_ops ops = { .record = counted_elsewhere, .loss = nothing_lost, .close = check_close };
	struct check *c = (struct check *)v;

	c->pt = rec->probes;
	c->sink.ops = &ops;
	*ret_sink = &c->sink;
	return 0;
}

static int check_round(struct view *v, uint64_t now_ns)
{
	(void)v;
	(void)now_ns;
	return 0;
}

int engines_check(pid_t pid, const char *engine, uint64_t ns)
{
	static const struct view_ops ops = { .open = check_open, .round = check_round };
	struct check c = { .view = { .ops = &ops, .fd = -1 } };
	struct record_options o = {
		.pids = &pid,
		.n_pids = 1,
		.events = EVENT_FUNCTIONS | EVENT_FUNCTIONS_NAMED,
		.engines = &engine,
		.n_engines = engine != NULL,
		.duration_ns = ns,
		.view = &c.view,
	};
	int code;

	sigemptyset(&c.view.signals);
	code = record_run(&o);
	if (code)
		return code;
	return c.ended && c.any && (c.called || !c.steps) ? EXIT_OK : EXIT_RUN;
}
