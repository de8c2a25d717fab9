/* SPDX-License-Identifier: BSD-2-Clause */
/* The options that record and top share: what is traced, and with which probes. */
#ifndef INFTRACE_CMD_TARGET_H
#define INFTRACE_CMD_TARGET_H

#include <argp.h>

#include "record/options.h"

/* A child parser for both; its input is a struct record_options. Prints one line on failure. */
extern const struct argp target_argp;

/* Takes what follows the options: a command, or more process ids. Prints one line on failure; -EINVAL. */
int target_take_arguments(struct record_options *o, char **args);

/* Checks that there are targets, of one kind only. `command`: for the message. -EINVAL. */
int target_check(const struct record_options *o, const char *command);

/* Takes the argument of --gpu; NULL: none. Prints one line on failure; -EINVAL. */
int gpu_options_set(struct record_options *o, const char *arg);

/* Checks that the GPU options fit each other, once all are known. Prints one line on failure; -EINVAL. */
int gpu_options_check(const struct record_options *o);

#endif
