// SPDX-License-Identifier: BSD-2-Clause
#include "record/limits.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "format/step_overhead.h"
#include "record/capture.h"
#include "sink/process_list.h"
#include "target/process.h"
#include "target/tasks.h"
#include "util/clock.h"
#include "util/list.h"
#include "util/log.h"
#include "util/thread.h"

/* ---- load shedding: which parts are turned off ---- */

void shed_init(struct shed *s, uint64_t budget)
{
	*s = (struct shed){ .budget = budget, .last = SHED_PARTS };
	for (int i = 0; i < SHED_PARTS; i++)
		s->part[i].quiet_ns = SHED_QUIET_NS;
}

void shed_step(struct shed *s, uint64_t start_ns, uint64_t dur_ns, uint64_t weight_ns)
{
	struct shed_look *l = &s->look;

	if (start_ns < s->since_ns || !dur_ns)
		return;
	if (!l->steps)
		l->begun_ns = start_ns;
	l->steps++;
	l->ns += dur_ns;
	l->weight_ns += weight_ns;
	if (dur_ns > l->longest_ns)
		l->longest_ns = dur_ns;
}

void shed_turn_step(struct shed *s, uint64_t weight_ns)
{
	s->turn.steps++;
	s->turn.weight_ns += weight_ns;
}

static uint64_t shed_time_share(uint64_t part, uint64_t whole)
{
	return (uint64_t)((unsigned __int128)part * SHED_WHOLE / whole);
}

static uint64_t shed_weight_per_step(const struct shed_look *l)
{
	return l->weight_ns / l->steps;
}

static enum shed_part shed_first_part_on(const struct shed *s)
{
	uint32_t on = s->parts & ~s->off;

	return on ? (enum shed_part)__builtin_ctz(on) : SHED_PARTS;
}

static uint64_t shed_prices(const struct shed *s, uint32_t parts)
{
	uint64_t ns = 0;

	for (int i = 0; i < SHED_PARTS; i++)
		ns += parts & 1u << i ? s->part[i].price_ns : 0;
	return ns;
}

/* What it costs the steps of the look if these parts are sampled. */
static uint64_t shed_turns_cost(const struct shed *s, uint32_t turns)
{
	return shed_prices(s, turns) * s->look.steps / SHED_TURNS;
}

/* Whether the look is below a limit with this added. */
static bool shed_fits(const struct shed *s, uint64_t added_ns, uint64_t limit)
{
	return s->look.ns && shed_time_share(s->look.weight_ns + added_ns, s->look.ns) < limit;
}

/* Below the budget, so that what has just been turned on is not turned off at once. */
static uint64_t shed_limit_to_add(const struct shed *s)
{
	return s->budget - s->budget / 10;
}

/* The steps of turns show what the sampled parts cost now. */
static void shed_renew_prices(struct shed *s)
{
	uint64_t old = shed_prices(s, s->turns), off_ns = shed_weight_per_step(&s->look), on_ns;

	if (s->turn.steps < SHED_TURN_LEAST || !old)
		return;
	on_ns = s->turn.weight_ns / s->turn.steps;
	for (int i = 0; i < SHED_PARTS; i++) {
		if (s->turns & 1u << i)
			s->part[i].price_ns = on_ns > off_ns ? (uint64_t)((unsigned __int128)(on_ns - off_ns) * s->part[i].price_ns / old) : 0;
	}
	s->turn = (struct shed_look){ 0 };
}

/* Chooses the parts to sample: those turned off last first, as the others show little without the timeline. */
static uint32_t shed_choose_turns(const struct shed *s)
{
	uint32_t turns = 0, may = s->off;

	for (int i = SHED_PARTS - 1; i >= 0; i--) {
		if (!(may & 1u << i))
			continue;
		if (shed_fits(s, shed_turns_cost(s, turns | 1u << i), s->turns & 1u << i ? s->budget : shed_limit_to_add(s)))
			turns |= 1u << i;
		else if (i == SHED_TIMELINE)
			may &= ~(1u << SHED_OPERATORS | 1u << SHED_SYSCALLS);
	}
	return turns;
}

static bool shed_turn_part_off(struct shed *s, uint64_t now)
{
	enum shed_part part = shed_first_part_on(s);
	uint64_t on, quiet;

	if (part == SHED_PARTS)
		return false;
	on = s->part[part].on_ns;
	quiet = s->part[part].quiet_ns;
	quiet = on && now - on < 2 * quiet ? 2 * quiet : SHED_QUIET_NS;
	s->part[part].quiet_ns = quiet < SHED_QUIET_MAX_NS ? quiet : SHED_QUIET_MAX_NS;
	s->off |= 1u << part;
	s->last = part;
	s->before_ns = shed_weight_per_step(&s->look);
	return true;
}

static bool shed_turn_part_on(struct shed *s, uint64_t now)
{
	uint64_t quiet = now > s->since_ns ? now - s->since_ns : 0;

	for (int i = SHED_PARTS - 1; i >= 0; i--) {
		if (!(s->off & 1u << i) || quiet < s->part[i].quiet_ns)
			continue;
		/* with the part on, a tenth of the budget must be left */
		if (!shed_fits(s, s->part[i].price_ns * s->look.steps + shed_turns_cost(s, s->turns & ~(1u << i)), shed_limit_to_add(s)) &&
			(quiet < SHED_QUIET_MAX_NS || s->share >= s->budget))
			continue;
		s->off &= ~(1u << i);
		s->part[i].on_ns = now;
		return true;
	}
	return false;
}

bool shed_turn(struct shed *s, uint32_t parts, uint64_t now_ns)
{
	const struct shed_look *l = &s->look;
	bool changed;

	s->parts = parts;
	if (l->steps < SHED_LOOK_STEPS && (l->steps < SHED_LOOK_LEAST || now_ns < l->begun_ns + SHED_LOOK_NS))
		return false;
	s->step_ns = l->ns / l->steps;
	s->longest_ns = l->longest_ns;
	s->looks++;
	s->share = shed_time_share(l->weight_ns, l->ns);
	if (s->last != SHED_PARTS) /* what turning it off has saved */
		s->part[s->last].price_ns = s->before_ns > shed_weight_per_step(l) ? s->before_ns - shed_weight_per_step(l) : 0;
	s->last = SHED_PARTS;
	shed_renew_prices(s);
	changed = s->share > s->budget ? shed_turn_part_off(s, now_ns) : shed_turn_part_on(s, now_ns);
	/* the price of what was turned off, and the cost of what was turned on, are known with the next look */
	s->turns = changed ? s->turns & s->off : shed_choose_turns(s);
	s->look = (struct shed_look){ 0 };
	return changed;
}

void shed_applied(struct shed *s, uint64_t now_ns)
{
	s->since_ns = now_ns;
	s->look = (struct shed_look){ 0 };
}

uint64_t shed_turn_ns(const struct shed *s)
{
	uint64_t ns = SHED_TURN_STEPS * s->step_ns;

	ns = ns > 2 * s->longest_ns ? ns : 2 * s->longest_ns;
	ns = ns < SHED_TURN_MAX_NS ? ns : SHED_TURN_MAX_NS;
	return ns > SHED_TURN_NS ? ns : SHED_TURN_NS;
}

bool shed_exhausted(const struct shed *s)
{
	return s->share > s->budget && shed_first_part_on(s) == SHED_PARTS;
}

/* ---- --budget ---- */

#define EARLY_NS (3 * NSEC_PER_SEC)

struct overhead *overhead_new(struct capture *c, uint64_t budget)
{
	struct overhead *o = xcalloc(1, sizeof(*o));

	o->c = c;
	o->self = (uint32_t)getpid();
	o->left_out.budget = budget;
	shed_init(&o->shed, budget);
	return o;
}

static void hide_barriers(uint64_t ns[ST_MAX])
{
	ns[ST_CPU] += ns[ST_BARRIER];
	ns[ST_BARRIER] = 0;
}

/*
 * Whether the step is of a process whose Python functions will soon be watched: until then all of them have probes, which no part that is
 * turned off makes cheaper. If they are not watched by then, they will hardly be.
 */
static bool overhead_is_early(struct overhead *o, const struct rec_hdr *h)
{
	if (!o->c->session || !o->c->session->watches || h->flags & STEP_F_WATCHED || !o->c->probes.specs[h->id].is_python)
		return false;
	if (!o->early_since_ns)
		o->early_since_ns = h->start_ns;
	return h->start_ns < o->early_since_ns + EARLY_NS;
}

/* Steps at the edges of a turn count for neither. */
static void overhead_weigh(struct overhead *o, const struct rec_hdr *h, uint64_t weight_ns)
{
	uint64_t end_ns = h->start_ns + h->dur_ns;

	if (h->start_ns > o->turn_over_ns || end_ns < o->turn_ns)
		shed_step(&o->shed, h->start_ns, h->dur_ns, weight_ns);
	else if (h->start_ns >= o->turn_on_ns && end_ns <= o->turn_end_ns)
		shed_turn_step(&o->shed, weight_ns);
}

const struct rec_hdr *overhead_step(struct overhead *o, const struct rec_hdr *h, size_t size)
{
	uint32_t parts = left_out_between(&o->left_out, h->start_ns, h->start_ns + h->dur_ns);
	struct step_overhead w;

	if (parts && size <= sizeof(o->step)) {
		memcpy(&o->step, h, size);
		o->step.s.left_out = parts; /* step_overhead_of() depends on it */
		if (left_out_all_of(&o->left_out, h->start_ns, h->start_ns + h->dur_ns) != parts)
			o->step.s.left_out |= SHED_CHANGED;
		h = &o->step.s.h;
	}
	if (!(h->flags & (REC_F_OPEN_START | REC_F_OPEN_END)) &&
		step_overhead_of((const struct rec_step *)h, &o->c->prices, o->self, &w)) {
		o->weighed++;
		if (!overhead_is_early(o, h))
			overhead_weigh(o, h, w.ns);
	}
	if (h == &o->step.s.h && parts & 1u << SHED_BARRIERS) {
		hide_barriers(o->step.s.ns);
		hide_barriers(o->step.s.workers_ns);
		o->step.s.straggler_tid = 0;
	}
	return h;
}

static const struct {
	const char *with_verb, *marks[2]; /* [true]: off */
} parts_text[SHED_PARTS] = {
	[SHED_SAMPLES] = { "samples, and stacks of waits, are", { "samples on", "samples off" } },
	[SHED_BARRIERS] = { "barriers are", { "barriers on", "barriers off" } },
	[SHED_OPERATORS] = { "operators are", { "operators on", "operators off" } },
	[SHED_SYSCALLS] = { "single system calls are", { "syscalls on", "syscalls off" } },
	[SHED_TIMELINE] = { "the timeline is", { "timeline on", "timeline off" } },
};

static void overhead_mark_part(struct sink *s, enum shed_part part, bool off, uint64_t ns)
{
	struct mark m = { .name = "budget", .ns = ns, .number = part, .reason = parts_text[part].marks[off] };

	sink_mark(s, &m);
}

static void mark_changed(struct sink *s, uint32_t before, uint32_t after, uint64_t ns)
{
	for (int part = 0; part < SHED_PARTS; part++) {
		if ((before ^ after) & 1u << part)
			overhead_mark_part(s, part, after & 1u << part, ns);
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

/* Turns parts off or on: those by which `before` and `after` differ. */
static void overhead_switch_parts(struct overhead *o, struct sink *s, uint32_t before, uint32_t after)
{
	uint64_t ns;

	for (int i = 0; i < SHED_PARTS; i++) {
		if (!((before ^ after) & 1u << i))
			continue;
		before ^= 1u << i;
		session_shed(o->c->session, i, after & 1u << i, &ns);
		left_out_change(&o->left_out, ns, before);
		if (s)
			overhead_mark_part(s, i, after & 1u << i, ns);
	}
}

static void overhead_tell_parts(const struct overhead *o, uint32_t before)
{
	for (int i = 0; i < SHED_PARTS; i++) {
		bool off = o->shed.off & 1u << i;

		if ((before ^ o->shed.off) & 1u << i)
			log_info("--budget %.4g%%: inftrace took %.2f %% of the time of a step: %s %s", (double)o->shed.budget / 1e4,
				(double)o->shed.share / 1e4, parts_text[i].with_verb, off ? "off" : "on again");
	}
}

/* Once for each part, since they come and go with the load. */
static void overhead_tell_turns(struct overhead *o)
{
	for (int i = 0; i < SHED_PARTS; i++) {
		if (o->shed.turns & ~o->told_turns & 1u << i)
			log_info("--budget %.4g%%: %s on for %d %% of the time", (double)o->shed.budget / 1e4, parts_text[i].with_verb, 100 / SHED_TURNS);
	}
	o->told_turns |= o->shed.turns;
}

static void overhead_begin_turn(struct overhead *o, struct sink *s)
{
	o->looks = o->shed.looks;
	o->turn_ns = clock_boot_ns();
	o->turn_end_ns = o->turn_over_ns = UINT64_MAX;
	overhead_switch_parts(o, s, o->shed.off, o->shed.off & ~o->shed.turns);
	o->on = o->shed.turns;
	o->turn_on_ns = clock_boot_ns();
	o->turn_due_ns = o->turn_on_ns + shed_turn_ns(&o->shed);
}

static void overhead_end_turn(struct overhead *o, struct sink *s)
{
	o->turn_end_ns = clock_boot_ns();
	overhead_switch_parts(o, s, o->shed.off & ~o->on, o->shed.off);
	o->on = 0;
	o->turn_due_ns = UINT64_MAX;
	o->shedding = true;
}

/* No probe of the turn is left. Those that are being attached or detached cost as much as those that are on. */
static void overhead_over_turn(struct overhead *o, uint64_t now_ns)
{
	uint64_t ns = now_ns - o->turn_ns;

	o->turn_over_ns = now_ns;
	o->turn_due_ns = now_ns + (SHED_TURNS - 1) * (ns < 2 * SHED_TURN_MAX_NS ? ns : 2 * SHED_TURN_MAX_NS); /* not as long as a suspend */
}

/* Whether a turn may begin once it is due: not before a look has shown what the parts without those cost. */
static bool overhead_takes_turns(const struct overhead *o, const struct sink *s)
{
	return s && o->shed.turns && o->looks != o->shed.looks && !session_shedding(o->c->session);
}

const char *overhead_stays(const struct probe_table *pt, bool counts)
{
	for (uint32_t i = 0; i < pt->n; i++) {
		if (pt->specs[i].is_python && pt->specs[i].attached && pt->specs[i].role == ROLE_STEP)
			return ": --py-step, which each call of a Python function pays for, makes the steps themselves";
	}
	return counts ? ": counters (-e +pmu) are read at each switch of a thread, and at each begin and end of a step" : "";
}

void overhead_turn(struct overhead *o, struct sink *s, uint64_t now_ns)
{
	uint32_t before;
	bool shedding;

	if (!o)
		return;
	if (o->on) {
		if (now_ns >= o->turn_due_ns || !s)
			overhead_end_turn(o, s);
		return;
	}
	before = o->shed.off;
	shedding = session_shedding(o->c->session);
	if (shedding || o->shedding) { /* or was, until some time after the last round */
		o->shedding = shedding;
		if (o->turn_over_ns != UINT64_MAX)
			shed_applied(&o->shed, now_ns);
		else if (!shedding) /* the look goes on */
			overhead_over_turn(o, now_ns);
		return;
	}
	if (now_ns >= o->turn_due_ns && overhead_takes_turns(o, s)) {
		overhead_begin_turn(o, s);
		return;
	}
	if (shed_turn(&o->shed, session_parts(o->c->session), now_ns)) {
		overhead_tell_parts(o, before);
		overhead_switch_parts(o, s, before, o->shed.off);
		shed_applied(&o->shed, clock_boot_ns());
	}
	overhead_tell_turns(o);
	if (shed_exhausted(&o->shed) && !o->told) {
		o->told = true;
		log_warn("--budget %.4g%%: inftrace takes %.2f %% of the time of a step, and nothing is left to turn off%s",
			(double)o->shed.budget / 1e4, (double)o->shed.share / 1e4, overhead_stays(&o->c->probes, session_counters(o->c->session).mask));
	}
}

uint64_t overhead_due_ns(const struct overhead *o, const struct sink *s)
{
	return o && (o->on || overhead_takes_turns(o, s)) ? o->turn_due_ns : UINT64_MAX;
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

/* ---- --max-steps-per-process ---- */

#define PARENTS_MAX 4

struct stepped {
	struct thread_entry tgid; /* only processes with steps have an entry */
	uint32_t steps;
	uint64_t end_ns; /* of its last step; UINT64_MAX: more are to come */
	pid_t parents[PARENTS_MAX];
};

struct limit_held {
	size_t size;
	union {
		struct rec_hdr h;
		char bytes[sizeof(struct rec_step_parts)];
	} rec;
};

struct step_limit {
	uint32_t max;
	struct thread_map processes;
	bool over, any;
	struct limit_held *held;
	size_t n_held, cap_held;
	uint64_t settled_ns;
};

struct step_limit *step_limit_new(uint32_t steps)
{
	struct step_limit *l = xcalloc(1, sizeof(*l));

	l->max = steps;
	l->processes.size = sizeof(struct stepped);
	return l;
}

void step_limit_free(struct step_limit *l)
{
	if (!l)
		return;
	thread_map_clear(&l->processes, NULL);
	free(l->held);
	free(l);
}

void step_limit_reset(struct step_limit *l)
{
	thread_map_clear(&l->processes, NULL);
	l->n_held = 0;
	l->settled_ns = 0;
}

static struct stepped *step_limit_get_process(struct step_limit *l, uint32_t tgid)
{
	struct stepped *p = thread_map_get(&l->processes, tgid);

	if (p->steps)
		return p;
	p->end_ns = UINT64_MAX;
	for (int i = 0, pid = (int)tgid; i < PARENTS_MAX && !process_parent(pid, &pid) && pid; i++)
		p->parents[i] = pid;
	return p;
}

enum step_limit_take step_limit_take(struct step_limit *l, const struct rec_hdr *h, size_t size)
{
	const struct stepped *p = thread_map_find(&l->processes, h->tgid);
	struct limit_held *held;

	if (p && h->kind != REC_TASK && h->start_ns >= p->end_ns)
		return STEP_LIMIT_DROP;
	/* a step that began in the previous window counts there */
	if (h->kind != REC_STEP || h->flags & REC_F_OPEN_START)
		return STEP_LIMIT_PASS;
	if (p && p->steps >= l->max)
		return STEP_LIMIT_DROP;
	if (size > sizeof(held->rec))
		return STEP_LIMIT_PASS;
	held = list_push(l->held, l->n_held, l->cap_held);
	held->size = size;
	memcpy(&held->rec, h, size);
	return STEP_LIMIT_HELD;
}

static uint64_t held_step_end(const struct limit_held *x)
{
	return x->rec.h.start_ns + x->rec.h.dur_ns;
}

static int compare_held_ends(const void *a, const void *b)
{
	uint64_t x = held_step_end(a), y = held_step_end(b);

	return (x > y) - (x < y);
}

uint64_t step_limit_release(struct step_limit *l, uint64_t until_ns, struct sink *s)
{
	size_t n = 0, kept = 0;

	if (!l->n_held)
		return 0;
	qsort(l->held, l->n_held, sizeof(*l->held), compare_held_ends);
	for (; n < l->n_held && held_step_end(&l->held[n]) <= until_ns; n++) {
		const struct limit_held *x = &l->held[n];
		struct stepped *p = step_limit_get_process(l, x->rec.h.tgid);

		if (p->steps >= l->max)
			continue;
		if (++p->steps == l->max)
			p->end_ns = held_step_end(x);
		sink_record(s, &x->rec.h, x->size);
		kept++;
	}
	l->n_held -= n;
	memmove(l->held, l->held + n, l->n_held * sizeof(*l->held));
	return kept;
}

uint64_t step_limit_settled(struct step_limit *l, uint64_t now_ns, struct sink *s)
{
	uint64_t kept = step_limit_release(l, l->settled_ns, s);

	l->settled_ns = now_ns;
	return kept;
}

/* Whether it is an ancestor of a process with steps, as a server is of its workers. */
static bool is_parent(const struct step_limit *l, pid_t tgid)
{
	const struct stepped *p = NULL;

	while ((p = thread_map_next(&l->processes, p))) {
		for (int k = 0; k < PARENTS_MAX; k++) {
			if (p->parents[k] == tgid)
				return true;
		}
	}
	return false;
}

static void step_limit_check_task(struct task *t, void *arg)
{
	struct step_limit *l = arg;
	const struct stepped *p = thread_map_find(&l->processes, t->tgid);

	l->any = true;
	l->over &= p ? p->steps >= l->max : is_parent(l, (pid_t)t->tgid);
}

bool step_limit_over(struct step_limit *l, struct tasks *tasks)
{
	if (!l->processes.first)
		return false;
	l->over = true;
	l->any = false;
	tasks_each_process(tasks, step_limit_check_task, l);
	return l->any && l->over;
}

/* ---- yielding ---- */

#define FILL_PERCENT 50
#define LATE_NS (50 * NSEC_PER_MSEC)
#define LOOK_MS 10 /* any later, the free part of the rings may be full */
#define THREAD_STACK (64u << 10)

struct pace {
	unsigned int (*fill)(void *arg);
	void *fill_arg;
	int epoll; /* of the loop's descriptors, wake and timer */
	int wake;  /* wakes the watching thread so that it ends */
	int timer; /* for a look at the rings */
	struct thread thread;
	pthread_mutex_t lock;
	pthread_cond_t yielded;
	bool yields; /* the loop yields */
	bool looks;  /* the watching thread is in pace_look(), and does not wait for the loop to yield */
	bool ends;
	int look_ms; /* from the loop's last turn to a look at the rings */
	uint64_t due_ns;
};

/* Arms the timer for a look at the rings, unless the loop comes back before and puts it off. */
static void pace_arm_timer(const struct pace *p)
{
	struct itimerspec at = {
		.it_value = { p->look_ms / 1000, p->look_ms % 1000 * (long)NSEC_PER_MSEC },
	};

	timerfd_settime(p->timer, 0, &at, NULL);
}

/* Called with the lock, which it releases while waiting. Returns true when something is urgent. */
static bool pace_look(struct pace *p)
{
	struct epoll_event event = {};
	int n;

	p->looks = true;
	pthread_mutex_unlock(&p->lock);
	n = epoll_wait(p->epoll, &event, 1, -1);
	pthread_mutex_lock(&p->lock);
	p->looks = false;
	if (n > 0 && event.data.fd == p->wake)
		return false;
	if (n <= 0 || event.data.fd != p->timer)
		return n > 0 || errno != EINTR;
	if (clock_boot_ns() >= p->due_ns || p->fill(p->fill_arg) >= FILL_PERCENT)
		return true;
	pace_arm_timer(p);
	return false;
}

static void *pace_watch_rings(void *arg)
{
	struct pace *p = arg;

	pthread_mutex_lock(&p->lock);
	while (!p->ends) {
		if (!p->yields) {
			pthread_cond_wait(&p->yielded, &p->lock);
		} else if (!yield_is_set()) {
			yield_set(true); /* not in the loop, which might lose its CPU before it could announce that */
		} else if (pace_look(p) && p->yields && !p->ends) {
			p->yields = false;
			yield_set(false);
		}
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

/* Tells the watching thread that something has changed. Called with the lock. */
static void pace_wake_watcher(struct pace *p)
{
	uint64_t one = 1;

	if (!p->looks)
		pthread_cond_signal(&p->yielded);
	while (p->looks && write(p->wake, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

static void end_thread(struct pace *p)
{
	pthread_mutex_lock(&p->lock);
	p->ends = true;
	p->yields = false;
	yield_set(false);
	pace_wake_watcher(p);
	pthread_mutex_unlock(&p->lock);
	thread_join(&p->thread);
}

static int add_fd(const struct pace *p, int fd)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLET, .data.fd = fd };

	return epoll_ctl(p->epoll, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

/* Edge-triggered: a thread's birth already makes the control ring readable, but only what is urgent wakes its reader. */
static int open_epoll(struct pace *p, const struct pollfd *fds, nfds_t n_fds)
{
	int err;

	p->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	p->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	p->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (p->wake < 0 || p->timer < 0 || p->epoll < 0)
		return -errno;
	err = add_fd(p, p->wake) ?: add_fd(p, p->timer);
	for (nfds_t i = 0; i < n_fds && !err; i++) {
		err = fds[i].fd < 0 ? 0 : add_fd(p, fds[i].fd);
		err = err == -EPERM ? 0 : err; /* a regular file as input, which is always readable */
	}
	return err;
}

static void pace_close(struct pace *p)
{
	pthread_cond_destroy(&p->yielded);
	pthread_mutex_destroy(&p->lock);
	if (p->wake >= 0)
		close(p->wake);
	if (p->timer >= 0)
		close(p->timer);
	if (p->epoll >= 0)
		close(p->epoll);
	free(p);
}

int pace_new(const struct pollfd *fds, nfds_t n_fds, unsigned int (*fill)(void *arg), void *arg, struct pace **ret_pace)
{
	const struct sched_param first = { .sched_priority = 1 };
	struct pace *p = xcalloc(1, sizeof(*p));
	int err;

	p->fill = fill;
	p->fill_arg = arg;
	yield_lock_init(&p->lock);
	pthread_cond_init(&p->yielded, NULL);
	err = open_epoll(p, fds, n_fds) ?: thread_start(&p->thread, "inftrace-watch", THREAD_STACK, pace_watch_rings, p);
	if (!err) {
		/* a thread that waits for a CPU itself cannot see that others wait too long: this one goes first */
		err = -pthread_setschedparam(p->thread.id, SCHED_FIFO, &first);
		if (err)
			end_thread(p);
	}
	if (err) {
		pace_close(p);
		return err;
	}
	yield_join();
	*ret_pace = p;
	return 0;
}

void pace_free(struct pace *p)
{
	if (!p)
		return;
	end_thread(p);
	yield_leave();
	pace_close(p);
}

static void pace_set_yields(struct pace *p, bool yields, int timeout_ms, uint64_t due_ns)
{
	uint64_t late_ns = clock_boot_ns() + (uint64_t)timeout_ms * NSEC_PER_MSEC + LATE_NS;
	pthread_mutex_lock(&p->lock);
	p->due_ns = due_ns < late_ns ? due_ns : late_ns;
	p->look_ms = timeout_ms + LOOK_MS;
	if (yields != p->yields) {
		p->yields = yields;
		/* if the loop itself ended the yielding, the watching thread may still be in pace_look() */
		if (yields)
			pace_wake_watcher(p);
		else
			yield_set(false);
	}
	if (yields)
		pace_arm_timer(p);
	pthread_mutex_unlock(&p->lock);
}

int pace_poll(struct pace *p, struct pollfd *fds, nfds_t n_fds, int timeout_ms, bool calm, uint64_t due_ns)
{
	int n;

	if (!p)
		return poll(fds, n_fds, timeout_ms);
	pace_set_yields(p, calm && timeout_ms > 0, timeout_ms, due_ns);
	n = poll(fds, n_fds, timeout_ms);
	if (n > 0 || clock_boot_ns() >= due_ns)
		pace_set_yields(p, false, 0, due_ns);
	return n;
}
