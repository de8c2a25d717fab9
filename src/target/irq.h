/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of the interrupts of this machine. */
#ifndef INFTRACE_TARGET_IRQ_H
#define INFTRACE_TARGET_IRQ_H

#include <stdint.h>

#include "record.h"

#define IRQ_NAME_LEN 64 /* with its NUL */

struct irq_names;

/*
 * The names of an interrupt's handlers, as their drivers gave them, separated by commas: untrusted
 * text. "irq_27" if there are none. Looked up in /sys/kernel/irq once for each number, and kept in
 * *names (NULL at first; owned by the caller). Returns the kept name, or buf for an impossible number.
 */
const char *irq_name(struct irq_names **names, uint32_t irq, char buf[IRQ_NAME_LEN]);
void irq_names_free(struct irq_names *names);

/* The same for a record of any type: a handler, a softirq or a vector. */
const char *irq_record_name(
	struct irq_names **names, const struct rec_irq *r, char buf[IRQ_NAME_LEN], const char **ret_type);

#endif
