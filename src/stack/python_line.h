/* SPDX-License-Identifier: BSD-2-Clause */
/* From an instruction of a Python function to the line, by the tables that the compiler leaves with its code. */
#ifndef INFTRACE_PYTHON_LINE_H
#define INFTRACE_PYTHON_LINE_H

#include <stddef.h>
#include <stdint.h>

#include "target/python.h"

/*
 * The line of the instruction at an offset in bytes into the code (negative: not begun); 0: none, or the table does not
 * say. The table may have any content.
 */
uint32_t python_line(enum python_lines kind, const uint8_t *table, size_t len, uint32_t first_line, int64_t offset);

#endif
