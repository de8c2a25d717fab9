/* SPDX-License-Identifier: BSD-2-Clause */
/* The file of the truth, and that of the names of kernels (mock.h). The callers have a lock. */
#ifndef MOCK_TRUTH_H
#define MOCK_TRUTH_H

#include "mock.h"

/* Opens them, if MOCK_TRUTH says so. */
void mock_truth_open(void);
void mock_truth_write(const struct mock_work *w);
/* They are complete up to here. */
void mock_truth_flush(void);

#endif
