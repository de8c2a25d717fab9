/* SPDX-License-Identifier: BSD-2-Clause */
/* Order statistics. */
#ifndef INFTRACE_REPORT_STATS_H
#define INFTRACE_REPORT_STATS_H

#include <stddef.h>
#include <stdint.h>

struct percentiles {
	size_t n; /* 0: the others are 0 as well */
	int64_t p50, p90, p99, max, sum;
};

/* By nearest rank: each is one of the values, the smallest that is not below that share of them.
 * Sorts the values. */
struct percentiles percentiles_of(int64_t *values, size_t n);

/* The median (of an even number the upper one), by selection: the values change their order. 0 when
 * there are none. */
double median_of(double *values, size_t n);

/* Median absolute deviation from the center, scaled so that of a normal distribution it is the
 * standard deviation. The values are overwritten. */
double mad_of(double *values, size_t n, double center);

#endif
