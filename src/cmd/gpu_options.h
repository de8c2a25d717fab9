/* SPDX-License-Identifier: BSD-2-Clause */
/* --gpu, as commands have it. */
#ifndef INFTRACE_CMD_GPU_OPTIONS_H
#define INFTRACE_CMD_GPU_OPTIONS_H

#include "record/options.h"

/* The argument of --gpu; NULL: none. On failure one line has been printed; -EINVAL. */
int gpu_options_set(struct record_options *o, const char *arg);

/* Whether they go together, once all are known. The same. */
int gpu_options_check(const struct record_options *o);

#endif
