/* SPDX-License-Identifier: BSD-2-Clause */
/* inftrace engines --check: which functions of the presets a process calls. */
#ifndef INFTRACE_CMD_ENGINES_CHECK_H
#define INFTRACE_CMD_ENGINES_CHECK_H

#include <stdint.h>
#include <sys/types.h>

/* Counts the calls of this time and prints them. Returns an exit code: EXIT_RUN also if no step was called. */
int engines_check(pid_t pid, const char *engine, uint64_t ns);

#endif
