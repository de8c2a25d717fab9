/* SPDX-License-Identifier: BSD-2-Clause */
/* The arguments of PyTorch's operators, as PyTorch itself writes them. */
#ifndef INFTRACE_INPUTS_H
#define INFTRACE_INPUTS_H

#include <stdint.h>

#include "engine/spec.h"

/* Lists of an operator's arguments: those of execution traces, as Chakra numbers and PyTorch orders them, and the types as its
 * profiler writes them. */
enum input_list { INPUT_VALUES = 1,
	INPUT_SHAPES,
	INPUT_TYPES,
	INPUT_PROFILER_TYPES };

#define INPUTS_TEXT_MAX 1024 /* bytes of any of them */

/* Writes one of the lists in JSON, an element per argument. shapes: two values of FETCH_F_SHAPE for each tensor. Returns the end. */
char *inputs_write(char *p, const struct tensor_args *args, const uint64_t *shapes, enum input_list list);

#endif
