/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the kernel needs on this machine to get to a program and back: measured with empty programs on loops of our own
 * process, in the background while the recording is prepared. No target is touched, and nothing is recorded.
 */
#ifndef INFTRACE_CALIBRATE_H
#define INFTRACE_CALIBRATE_H

#include <stdbool.h>
#include <stdint.h>

#include "record.h"

struct calibration;

/* Before the programs of the recording are attached. -errno. */
int calibration_start(bool uprobe_multi, struct calibration **ret_calibration);

/* Waits until all is measured, and lets go of it. Returns 0, or why it could not be. NULL: -ENOENT. */
int calibration_end(struct calibration *c, uint64_t ret_ns[HIT_MAX]);

#endif
