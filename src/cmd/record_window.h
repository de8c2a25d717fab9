/* SPDX-License-Identifier: BSD-2-Clause */
/* inftrace record: the options of windows, of the flight recorder and of rotation. */
#ifndef INFTRACE_CMD_RECORD_WINDOW_H
#define INFTRACE_CMD_RECORD_WINDOW_H

#include <argp.h>

#include "record/options.h"

/* A child parser of record's, with the same input. */
extern const struct argp record_window_argp;

/* Heap copies of values that are not in argv. */
struct record_strings {
	char *flag, *output_dir;
	bool chakra; /* the flag is the other tool's */
};
void record_strings_free(struct record_strings *strings);

/*
 * Applies the environment where no option was given: ours, then the first target's. Call it
 * before outputs for the whole run are derived from options. -EINVAL: one line has been printed.
 */
int record_window_environment(struct record_options *o, struct record_strings *strings);

/* Checks that the options fit each other, fills in the defaults, and makes the output directory. One
 * line has been printed on failure; -EINVAL (usage) or another errno. */
int record_window_check(struct record_options *o);

#endif
