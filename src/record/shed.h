/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Decides which parts of a recording are turned off to keep its cost within --budget. Pure: steps and the time go
 * in, a decision comes out.
 *
 * A look covers some steps that were all recorded in the same way. If they cost more than the budget, the next part is
 * turned off, in the order of enum shed_part; the difference to the cost of a step in the next look is the price of the
 * part. After a quiet time the last part that would fit is turned on again. If that was wrong, the next quiet time is
 * twice as long.
 */
#ifndef INFTRACE_RECORD_SHED_H
#define INFTRACE_RECORD_SHED_H

#include <stdbool.h>
#include <stdint.h>

#include "record.h"

#define SHED_WHOLE 1000000 /* shares are in millionths */
#define SHED_LOOK_STEPS 32 /* a look ends after this many steps ... */
#define SHED_LOOK_NS UINT64_C(1000000000) /* ... or after this time, if it has had a few */
#define SHED_LOOK_LEAST 4
#define SHED_QUIET_NS UINT64_C(5000000000)
/* The longest quiet time. After it a part is tried regardless of its price: the load may have changed. */
#define SHED_QUIET_MAX_NS UINT64_C(300000000000)

/* Sums over steps. */
struct shed_look {
	uint64_t begun_ns, steps, ns, weight_ns;
};

struct shed {
	uint64_t budget;   /* share of the time of steps */
	uint32_t parts;	   /* 1 << enum shed_part: those that can be turned off */
	uint32_t off;	   /* of these */
	uint64_t since_ns; /* steps that began before do not count */
	uint64_t share;	   /* found by the last look */
	struct shed_look look;
	struct {
		uint64_t price_ns; /* for each step */
		uint64_t quiet_ns;
		uint64_t on_ns; /* when it was turned on again; 0: never */
	} part[SHED_PARTS];
	enum shed_part last; /* turned off, but without a look since; SHED_PARTS: none */
	uint64_t before_ns; /* cost of a step before that */
};

void shed_init(struct shed *s, uint64_t budget);

/* A step has ended. weight_ns: the part of dur_ns that recording it cost. */
void shed_step(struct shed *s, uint64_t start_ns, uint64_t dur_ns, uint64_t weight_ns);

/* parts: those that exist now. Returns whether s->off has changed; call shed_applied() then. */
bool shed_turn(struct shed *s, uint32_t parts, uint64_t now_ns);

/* From now on parts that are off cost nothing, and parts that are on have their full cost. */
void shed_applied(struct shed *s, uint64_t now_ns);

/* Whether the last look found more than the budget, and nothing is left to turn off. */
bool shed_exhausted(const struct shed *s);

#endif
