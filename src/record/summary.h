/* SPDX-License-Identifier: BSD-2-Clause */
/* The messages at the end of a run. */
#ifndef INFTRACE_RECORD_SUMMARY_H
#define INFTRACE_RECORD_SUMMARY_H

#include "record/windows.h"

void record_summary(const struct windows *w, uint64_t begun_ns);

#endif
