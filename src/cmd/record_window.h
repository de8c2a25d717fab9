/* SPDX-License-Identifier: BSD-2-Clause */
/* inftrace record: the options of windows, of the flight recorder and of rotation. */
#ifndef INFTRACE_CMD_RECORD_WINDOW_H
#define INFTRACE_CMD_RECORD_WINDOW_H

#include <argp.h>

#include "record/options.h"

/* A child of record's, with the same input. */
extern const struct argp record_window_argp;

/* Heap copies of values that are not in argv. */
struct record_strings {
	char *flag, *output_dir;
};
void record_strings_free(struct record_strings *strings);

/*
 * What the environment says where no option does: ours, then that of the first target. Before
 * outputs are taken from there, which would be for the whole run. -EINVAL (one line has been
 * printed), -ENOMEM.
 */
int record_window_environment(struct record_options *o, struct record_strings *strings);

/* Whether the options fit each other, the default ones, and the output directory, which is made. One
 * line has been printed on failure; -EINVAL (usage) or another errno. */
int record_window_check(struct record_options *o);

#endif
