/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which operator a sample was taken in. A sample says when the innermost operator of its thread had begun, and the record
 * of that operator says what it was and when it ended. The two arrive in any order: samples are unwound first, and a
 * long operator ends after its samples. A sample that has waited for ten seconds has none.
 */
#ifndef INFTRACE_SINK_STACK_OPS_H
#define INFTRACE_SINK_STACK_OPS_H

#include <stdbool.h>
#include <stdint.h>

#include "record.h"

struct stack_ops;

/* Takes samples whose operator is known, or will not be. op: the number given with it, plus 1; 0: none. */
typedef void (*stack_ops_cb)(void *arg, const struct rec_stack *r, uint32_t op);

/* Returns NULL without memory. */
struct stack_ops *stack_ops_new(stack_ops_cb cb, void *arg);
void stack_ops_free(struct stack_ops *so);

/* An operator with FUNCTION_F_SAMPLED has ended. */
void stack_ops_call(struct stack_ops *so, const struct rec_function *r, uint32_t op);
/* Samples, with or without an operator, and anything else that has none. */
void stack_ops_stack(struct stack_ops *so, const struct rec_stack *r);

/* See struct sink_ops: every 10 ms. */
void stack_ops_settled(struct stack_ops *so);
/* Nothing else comes: passes on what waits. */
void stack_ops_finish(struct stack_ops *so);

#endif
