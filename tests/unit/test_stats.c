// SPDX-License-Identifier: BSD-2-Clause

#include "report/stats.h"
#include "unit.h"

TEST(test_percentiles)
{
	int64_t hundred[100], few[] = { 30, 10, 20 }, one[] = { 7 };
	struct percentiles p;

	for (int i = 0; i < 100; i++)
		hundred[i] = 100 - i;
	p = percentiles_of(hundred, 100);
	assert_int_equal(p.n, 100);
	assert_int_equal(p.p50, 50);
	assert_int_equal(p.p90, 90);
	assert_int_equal(p.p99, 99);
	assert_int_equal(p.max, 100);
	assert_int_equal(p.sum, 5050);

	p = percentiles_of(few, 3);
	assert_int_equal(p.p50, 20);
	assert_int_equal(p.p90, 30);
	assert_int_equal(p.p99, 30);

	p = percentiles_of(one, 1);
	assert_int_equal(p.p50, 7);
	assert_int_equal(p.p99, 7);
	assert_int_equal(p.max, 7);

	p = percentiles_of(NULL, 0);
	assert_int_equal(p.n, 0);
	assert_int_equal(p.max, 0);
}

/* Sums of values in hostile files do not wrap. */
TEST(test_percentiles_limit)
{
	int64_t v[] = { INT64_MAX, INT64_MAX, 1 };
	struct percentiles p = percentiles_of(v, 3);

	assert_int_equal(p.sum, INT64_MAX);
	assert_int_equal(p.max, INT64_MAX);
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* Against sorting, for all small sizes and with many equal values. */
TEST(test_median)
{
	double v[300], sorted[300];
	uint64_t random = 1;

	for (size_t n = 1; n <= 300; n++) {
		for (unsigned int range = 1; range < 100000; range *= 7) {
			for (size_t i = 0; i < n; i++)
				sorted[i] = v[i] = (double)(next_random(&random) % range);
			qsort(sorted, n, sizeof(*sorted), compare_doubles);
			assert_true(median_of(v, n) == sorted[n / 2]);
		}
	}
	assert_true(median_of(v, 0) == 0);
}

/* Outliers do not move it; its scale is that of a standard deviation. */
TEST(test_mad)
{
	double v[] = { 8, 9, 10, 10, 11, 12, 1e9 };
	double w[] = { 5, 5, 5 };

	assert_true(mad_of(v, 7, 10) == 1.4826);
	assert_true(mad_of(w, 3, 5) == 0);
}

RUN_TESTS(NULL, NULL)
