/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Measures how long the kernel takes on this machine to reach a program and return, with empty programs and loops in
 * inftrace's own process, in the background while the recording is prepared. Touches no target, and records nothing.
 */
#ifndef INFTRACE_CALIBRATE_H
#define INFTRACE_CALIBRATE_H

#include <stdbool.h>
#include <stdint.h>

#include "capture/perf_events.h"
#include "record.h"

struct calibration;

/* Call before the programs of the recording are attached. ends: how it sees page faults end. Returns 0 or -errno. */
int calibration_start(bool uprobe_multi, enum fault_ends ends, struct calibration **ret_calibration);

/* Waits for the result, and releases the calibration. Returns 0, or why nothing could be measured. NULL: -ENOENT. */
int calibration_end(struct calibration *c, uint64_t ret_ns[HIT_MAX]);

#endif
