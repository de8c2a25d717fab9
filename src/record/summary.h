/* SPDX-License-Identifier: BSD-2-Clause */
/* The messages at the end of a run. */
#ifndef INFTRACE_RECORD_SUMMARY_H
#define INFTRACE_RECORD_SUMMARY_H

#include "record/windows.h"

/* Says, if no step has been called, why not and what would be one. Nothing if none are wanted. */
void record_tell_steps(const struct windows *w);

void record_summary(const struct windows *w, uint64_t begun_ns);

#endif
