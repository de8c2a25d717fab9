// SPDX-License-Identifier: BSD-2-Clause
#include "util/chance.h"

#include <math.h>

/* Above this n a normal distribution approximates the binomial one. */
#define EXACT_MAX 2000

/* lgamma() would write the sign to a global variable. */
static double log_factorial(double n)
{
	int sign;

	return lgamma_r(n + 1, &sign);
}

double chance_at_least(double k, double n, double p)
{
	double sum = 0;

	if (n > EXACT_MAX)
		return erfc((k - 0.5 - n * p) / sqrt(2 * n * p * (1 - p))) / 2;
	for (double i = k; i <= n; i++)
		sum += exp(log_factorial(n) - log_factorial(i) - log_factorial(n - i) + i * log(p) + (n - i) * log1p(-p));
	return sum;
}

bool chance_is_clear(double samples, double next)
{
	return samples > 0 && chance_at_least(samples, samples + next, 0.5) <= CHANCE_LEAST;
}
