/* SPDX-License-Identifier: BSD-2-Clause */
/* What a run does for clients of its control socket. */
#ifndef INFTRACE_RECORD_CONTROL_H
#define INFTRACE_RECORD_CONTROL_H

#include <stdint.h>

#include "io/control.h"

struct run;

/* Opens the socket; a run can do without. */
void run_control(struct run *r);

/* The window has left a file: whoever closes it is told. */
void run_file(struct run *r, const char *name, uint64_t bytes);

#endif
