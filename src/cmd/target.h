/* SPDX-License-Identifier: BSD-2-Clause */
/* The options that record and top share: what is traced, and with which probes. */
#ifndef INFTRACE_CMD_TARGET_H
#define INFTRACE_CMD_TARGET_H

#include <argp.h>

#include "record/options.h"

/* A child parser for both; its input is a struct record_options. Prints one line on failure. */
extern const struct argp target_argp;

/* Takes the keys of -v and of argp itself, which makes `o` the input of the first child, and what follows the options: a command,
 * or more process ids. Prints one line on failure: EINVAL. ARGP_ERR_UNKNOWN: it is another key. */
error_t target_parse(int key, struct argp_state *state, struct record_options *o);

/* Frees the lists. */
void target_free(struct record_options *o);

/* Checks that there are targets, of one kind only. `command`: for the message. -EINVAL. */
int target_check(const struct record_options *o, const char *command);

/* Takes the argument of --gpu; NULL: none. Prints one line on failure; -EINVAL. */
int gpu_options_set(struct record_options *o, const char *arg);

/* Checks that the GPU options fit each other, once all are known. Prints one line on failure; -EINVAL. */
int gpu_options_check(const struct record_options *o);

#endif
