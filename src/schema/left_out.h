/* SPDX-License-Identifier: BSD-2-Clause */
/* What --budget left out of a recording (load shedding), as a list of its changes. */
#ifndef INFTRACE_SCHEMA_LEFT_OUT_H
#define INFTRACE_SCHEMA_LEFT_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "record.h"

/* Parts that take turns make some changes in each second; beyond this number the older half is merged. */
#define LEFT_OUT_MAX 16384

struct left_out {
	uint64_t budget; /* share of the time of steps, in millionths */
	struct left_out_change {
		uint64_t ns;	/* CLOCK_BOOTTIME */
		uint32_t parts; /* 1 << enum shed_part, from here to the next change */
	} changes[LEFT_OUT_MAX];
	size_t n;
	/* the first change stands for several: its parts are those of any of them, for so long */
	bool is_merged;
	uint64_t merged_ns[SHED_PARTS];
};

/* "barriers", for example. */
const char *shed_part_name(enum shed_part part);

#define SHED_TEXT_MAX 64

/* "barriers,operators"; "" for none. Returns buf. */
const char *shed_text(uint32_t parts, char buf[SHED_TEXT_MAX]);

/* The reverse; names that this version does not know are ignored. */
uint32_t shed_parts_of(const char *text);

/* Adds a change to `parts`. ns: not before the last change. */
void left_out_change(struct left_out *l, uint64_t ns, uint32_t parts);

/* Returns all parts that were left out at any instant of from..to. l NULL: none. */
uint32_t left_out_between(const struct left_out *l, uint64_t from, uint64_t to);

/* Returns those that were left out at each instant of from..to. */
uint32_t left_out_all_of(const struct left_out *l, uint64_t from, uint64_t to);

/* How long each part was left out within from..to; at most, if what is merged is in there in part. */
void left_out_times(const struct left_out *l, uint64_t from, uint64_t to, uint64_t ret_ns[SHED_PARTS]);

#endif
