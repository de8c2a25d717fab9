// SPDX-License-Identifier: BSD-2-Clause
#include "hooked_lib.h"

struct sums meet(struct place *p, long b, long c, long d, long e, long f, double s, double t, double u, double v, double w, double x, double y,
	double z)
{
	if (p->within)
		p->within(p->arg);
	return (struct sums){ s + 2 * t + 3 * u + 4 * v + 5 * w + 6 * x + 7 * y + 8 * z, b + 2 * c + 3 * d + 4 * e + 5 * f };
}
