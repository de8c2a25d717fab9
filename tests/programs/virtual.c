// SPDX-License-Identifier: BSD-2-Clause
/*
 * Virtual functions as a C++ compiler lays them out (Itanium C++ ABI): type names, type information, virtual tables. Calls each
 * function of a class a different number of times, and prints how often.
 *
 *   virtual [-w]: waits for a line of input first
 */
#include "../program.h"

struct type {
	const void *table; /* of the type information's own class, past its beginning */
	const char *name;
	const struct type *base;
};

struct table {
	long to_top;
	const struct type *type;
	void (*functions[3])(int *);
};

/* Each function has its own counter, or the compiler would merge them. */
#define CALL(name)                                                                                            \
	static __attribute__((noinline)) void name(int *counts)                                               \
	{                                                                                                     \
		static int n;                                                                                 \
		*counts += 1;                                                                                 \
		__asm__ volatile("" : "+m"(n));                                                               \
	}

CALL(base_run)
CALL(base_stop)
CALL(run)
CALL(stop)
CALL(more)
CALL(other)

/* A name that ends like another one, and one that begins like it. */
static const char names[] = "x4Kern\0N6engine4KernE\0" "4Kern\0" "4Kernel\0";
static const struct type base = { .table = names, .name = names + 7 };
static const struct type kern = { .table = names, .name = names + 22, .base = &base };
static const struct type kernel = { .table = names, .name = names + 28, .base = &kern };
static const struct table base_table = { .type = &base, .functions = { base_run, base_stop } };
/* for a part of an object that is not at its beginning: not the table of the class */
static const struct table second_table = { .to_top = -8, .type = &kern, .functions = { other, other, other } };
static const struct table kern_table = { .type = &kern, .functions = { run, stop, more } };
static const struct table kernel_table = { .type = &kernel, .functions = { run, other, other } };
static const struct table *volatile tables[] = { &base_table, &second_table, &kern_table, &kernel_table };

int main(int argc, char **argv)
{
	int counts[4][3] = {};

	if (argc > 1 && !strcmp(argv[1], "-w"))
		line_wait();
	for (int t = 0; t < 4; t++) {
		for (int f = 0; f < 3; f++) {
			for (int i = 0; i <= 3 * t + f && tables[t]->functions[f]; i++)
				tables[t]->functions[f](&counts[t][f]);
		}
	}
	printf("{\"base_run\":%d,\"base_stop\":%d,\"stop\":%d,\"more\":%d}\n", counts[0][0], counts[0][1], counts[2][1],
		counts[2][2]);
	return 0;
}
