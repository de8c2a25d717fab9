/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef FIT_H
#define FIT_H

void fit_op(void);
void fit_graph(int n);
/* Each computes the graph n, and those of next() up to a negative number. */
void fit_decode(int (*next)(void), int n) __attribute__((weak));
void fit_process(int (*next)(void), int n);

#endif
