/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SDT_H
#define SDT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

/* A probe that is behind a semaphore: whether somebody looks, and the probe. */
bool sdt_is_guarded_on(void);
void sdt_fire_guarded(int64_t n);

/* In one general register as a whole. */
struct sdt_pair {
	int n;
	float f;
};

struct sdt_numbers {
	struct sdt_pair pair;
	double d;
	double more; /* by value on the stack of x86_64 */
};

/* A function with an ordinary probe. */
double sdt_take_numbers(const struct sdt_numbers *s, struct sdt_pair pair, struct sdt_numbers copy);

#endif
