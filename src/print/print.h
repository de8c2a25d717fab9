/* SPDX-License-Identifier: BSD-2-Clause */
/* Chrome traces and profiles of any origin and size as text, one event a line, in the order of their start. */
#ifndef INFTRACE_PRINT_PRINT_H
#define INFTRACE_PRINT_PRINT_H

#include <stdio.h>

#include "util/parse.h"

/* Bytes of lines that wait for their place. Beyond that, the earlier half is printed, or dropped with `last`. */
#define PRINT_BYTES_MAX (UINT64_C(256) << 20)

/* Prints a file ("-": standard input). Returns 0, or -errno; the reason, and what is not in order or missing, is on stderr. */
int print_file(const char *path, struct last last, uint64_t bytes_max, FILE *out);

#endif
