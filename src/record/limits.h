/* SPDX-License-Identifier: BSD-2-Clause */
/* How much is recorded: what --budget leaves out, --max-steps-per-process, and when the recording yields to others. */
#ifndef INFTRACE_RECORD_LIMITS_H
#define INFTRACE_RECORD_LIMITS_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "record.h"
#include "schema/left_out.h"
#include "sink/sink.h"

struct capture;
struct pace;
struct step_limit;
struct tasks;

/* ---- load shedding: which parts are off ---- */

/*
 * Decides from steps and the time. A look covers some steps that were all recorded in the same way. If they cost more than
 * the budget, the next part is turned off, in the order of enum shed_part; its price is how much less a step costs in the
 * next look. After a quiet time the last part that fits the budget is turned on again; if that was wrong, its next quiet
 * time is twice as long. Parts that are off are sampled as far as the budget allows: for some steps of each second or so there is a turn
 * in which they are on, one in SHED_TURNS of the time.
 */
#define SHED_WHOLE 1000000                /* shares are in millionths */
#define SHED_LOOK_STEPS 32                /* a look ends after this many steps ... */
#define SHED_LOOK_NS UINT64_C(1000000000) /* ... or after this time, with at least SHED_LOOK_LEAST */
#define SHED_LOOK_LEAST 4
#define SHED_TURNS 20
#define SHED_TURN_NS UINT64_C(50000000) /* the shortest turn */
#define SHED_TURN_MAX_NS UINT64_C(5000000000)
#define SHED_TURN_STEPS 4 /* it lasts as long as so many, and as two of the longest: those at its beginning and end are not whole */
#define SHED_TURN_LEAST 2 /* whole steps that show what it costs */
#define SHED_QUIET_NS UINT64_C(5000000000)
/* The longest quiet time. After it a part is tried regardless of its price: the load may have changed. */
#define SHED_QUIET_MAX_NS UINT64_C(300000000000)

/* Sums over steps. */
struct shed_look {
	uint64_t begun_ns, steps, ns, weight_ns, longest_ns;
};

struct shed {
	uint64_t budget;   /* share of the time of steps */
	uint32_t parts;    /* 1 << enum shed_part: can be turned off */
	uint32_t off;      /* of these */
	uint32_t turns;    /* of these, those that are sampled */
	uint64_t since_ns; /* steps that began before do not count */
	uint64_t share;    /* found by the last look */
	uint64_t step_ns, longest_ns; /* likewise: the mean length of a step, and the longest */
	uint64_t looks;               /* so far */
	struct shed_look turn;        /* steps within turns */
	struct shed_look look;
	struct {
		uint64_t price_ns; /* for each step */
		uint64_t quiet_ns;
		uint64_t on_ns; /* when it was turned on again; 0: never */
	} part[SHED_PARTS];
	enum shed_part last; /* turned off, with no look since; SHED_PARTS: none */
	uint64_t before_ns;  /* cost of a step before that */
};

void shed_init(struct shed *s, uint64_t budget);

/* A step has ended. weight_ns: the part of dur_ns that recording it cost. */
void shed_step(struct shed *s, uint64_t start_ns, uint64_t dur_ns, uint64_t weight_ns);

/* The same for a step within a turn, in which all parts that are sampled were on. */
void shed_turn_step(struct shed *s, uint64_t weight_ns);

/* parts: all existing ones. Returns whether s->off has changed; call shed_applied() then. */
bool shed_turn(struct shed *s, uint32_t parts, uint64_t now_ns);

/* From now on parts that are off cost nothing, and parts that are on have their full cost. */
void shed_applied(struct shed *s, uint64_t now_ns);

/* How long the turns are, by the steps of the last look. */
uint64_t shed_turn_ns(const struct shed *s);

/* Whether the last look found more than the budget, and nothing is left to turn off. */
bool shed_exhausted(const struct shed *s);

/* ---- --budget: turns them off, and notes for each step what was left out of it ---- */

struct overhead {
	struct capture *c;
	struct shed shed;
	struct left_out left_out;
	struct rec_step_parts step; /* returned by overhead_step() */
	uint32_t self;
	uint64_t weighed; /* steps whose cost is known */
	/* The last turn: from turn_ns on parts were turned on, from turn_on_ns to turn_end_ns (UINT64_MAX: it goes on) they were, and until
	 * turn_over_ns (UINT64_MAX: still) probes were in place. When it ends, or the next one begins; parts that are on in it; looks before it. */
	uint64_t turn_ns, turn_on_ns, turn_end_ns, turn_over_ns, turn_due_ns, looks;
	uint32_t on, told_turns;
	uint64_t early_since_ns; /* the first step of a Python function that was not watched; 0: none */
	bool shedding;    /* in the last round, probes were being detached */
	bool told;        /* it was reported that nothing is left to turn off */
};

struct overhead *overhead_new(struct capture *c, uint64_t budget);

/* Returns a step as sinks should show it, valid until the next call. With barriers off, time at them counts as on-CPU. */
const struct rec_hdr *overhead_step(struct overhead *o, const struct rec_hdr *h, size_t size);

/* Appended to the warning that nothing is left to turn off: what may cost much but is never shed; "": nothing. counts:
 * there are counters. */
const char *overhead_stays(const struct probe_table *pt, bool counts);

/* Turns parts off and on as decided. s: the sink of the open window; NULL: none is open. o NULL: does nothing. */
void overhead_turn(struct overhead *o, struct sink *s, uint64_t now_ns);

/* When overhead_turn() has something to do; UINT64_MAX: not by time. o may be NULL; s: as for overhead_turn(). */
uint64_t overhead_due_ns(const struct overhead *o, const struct sink *s);

/* Writes marks for all changes in from..to, and for what was off at its beginning. */
void overhead_marks(const struct left_out *l, struct sink *s, uint64_t from, uint64_t to);

/* Prints at the end for how long each part was off. */
void overhead_summary(const struct overhead *o, uint64_t from, uint64_t to);

/* ---- --max-steps-per-process ---- */

/* Leaves out what a process does after its last step of a window. Records come in any order: steps are held until all
 * earlier ones must have arrived, and other records that come before the last step is known are kept. */
struct step_limit *step_limit_new(uint32_t steps);
void step_limit_free(struct step_limit *l);

/* A window opens. */
void step_limit_reset(struct step_limit *l);

enum step_limit_take {
	STEP_LIMIT_PASS,
	STEP_LIMIT_DROP,
	STEP_LIMIT_HELD, /* a copy, for step_limit_release() */
};
enum step_limit_take step_limit_take(struct step_limit *l, const struct rec_hdr *h, size_t size);

/* Every record that was sent before until_ns has been taken: hands over the steps to keep, in their order. Returns how many. */
uint64_t step_limit_release(struct step_limit *l, uint64_t until_ns, struct sink *s);

/* Call it at each settled() of sinks: releases what was sent before the previous call. */
uint64_t step_limit_settled(struct step_limit *l, uint64_t now_ns, struct sink *s);

/* Whether all living targets have had their steps; a parent of targets with steps needs none. false without targets. */
bool step_limit_over(struct step_limit *l, struct tasks *tasks);

/* ---- yielding to what is recorded ---- */

/*
 * The loop's thread and the writers' yield to all others (util/thread.h) while nothing is urgent, so on a busy CPU they may
 * not run for a long time. A small thread with priority over all others makes them run normally when the loop has not come
 * back for a while and a ring is more than half full, what the loop waits for has happened, or it is late. They yield again
 * when the rings are empty and the writers are done.
 */

/* Call it in the loop's thread, with what the loop waits for. fill: returns how full the fullest ring is, in percent; called
 * by another thread. -errno: no thread can watch, and nothing yields. */
int pace_new(const struct pollfd *fds, nfds_t n_fds, unsigned int (*fill)(void *arg), void *arg, struct pace **ret_pace);

/* From now on nothing yields. */
void pace_free(struct pace *p);

/*
 * Like poll(2) on the same descriptors. calm: the loop knows of nothing urgent. due_ns: when it next has something to
 * do (CLOCK_BOOTTIME); it is late after that, or some time after the timeout. p may be NULL.
 */
int pace_poll(struct pace *p, struct pollfd *fds, nfds_t n_fds, int timeout_ms, bool calm, uint64_t due_ns);

#endif
