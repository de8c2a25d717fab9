/* SPDX-License-Identifier: BSD-2-Clause */
/* Who ended the waits of a function. */
#ifndef INFTRACE_REPORT_WAKER_CODE_H
#define INFTRACE_REPORT_WAKER_CODE_H

#include "report/model.h"

/* A wait, if its line says who ended it. by: a function; 0: not known. Returns 0 or -ENOMEM. */
int waker_code_add(struct model *m, struct stack_times *s, const struct stack_row *row, uint32_t phase, uint32_t by,
	const char *thread);

/* Who ended the most of what the function waited in a state; NULL: that is not known of any of it. */
const struct waker_sum *waker_code_find(const struct stack_times *s, uint32_t phase, uint8_t state, uint32_t function);

#endif
