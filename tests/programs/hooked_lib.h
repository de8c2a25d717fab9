/* SPDX-License-Identifier: BSD-2-Clause */
/* A function that threads call through the linkage table: with every kind of argument that a register can have. */
#ifndef TEST_HOOKED_LIB_H
#define TEST_HOOKED_LIB_H

#include <stdint.h>

struct sums {
	double x; /* in a vector register ... */
	long n;   /* ... and this in another one */
};

struct place {
	void (*within)(void *arg); /* called within; NULL: nothing */
	void *arg;
};

struct sums meet(struct place *p, long b, long c, long d, long e, long f, double s, double t, double u, double v, double w, double x, double y,
	double z);

/* Of another library, which calls meet(). */
struct sums meet_there(struct place *p);

#endif
