// SPDX-License-Identifier: BSD-2-Clause
#include "target/irq.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/alloc.h"

#define IRQS_MAX 16384 /* numbers that are remembered: the NR_IRQS of the largest machines */

struct irq_names {
	char (*names)[IRQ_NAME_LEN]; /* "": not looked up yet */
	uint32_t n;
};

/* /proc/interrupts has them too, but with a column for each CPU: a megabyte on a large machine. */
static void irq_read(uint32_t irq, char buf[IRQ_NAME_LEN])
{
	char path[64];
	FILE *f;

	buf[0] = '\0';
	snprintf(path, sizeof(path), "/sys/kernel/irq/%" PRIu32 "/actions", irq);
	f = fopen(path, "re");
	if (f && fgets(buf, IRQ_NAME_LEN, f))
		buf[strcspn(buf, "\n")] = '\0';
	if (f)
		fclose(f);
	if (!buf[0])
		snprintf(buf, IRQ_NAME_LEN, "irq_%" PRIu32, irq);
}

const char *irq_name(struct irq_names **names, uint32_t irq, char buf[IRQ_NAME_LEN])
{
	struct irq_names *n = *names;

	if (irq >= IRQS_MAX) {
		irq_read(irq, buf);
		return buf;
	}
	if (!n)
		n = *names = xcalloc(1, sizeof(*n));
	if (irq >= n->n) {
		n->names = xreallocarray(n->names, irq + 1, sizeof(*n->names));
		memset(n->names + n->n, 0, (irq + 1 - n->n) * sizeof(*n->names));
		n->n = irq + 1;
	}
	if (!n->names[irq][0])
		irq_read(irq, n->names[irq]);
	return n->names[irq];
}

void irq_names_free(struct irq_names *names)
{
	if (!names)
		return;
	free(names->names);
	free(names);
}

/* "NET_RX", "TIMER" */
static const char *softirq_name(unsigned int nr)
{
	/* include/linux/interrupt.h, in the spelling of /proc/softirqs */
	static const char *const names[] = { "HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET",
		"SCHED", "HRTIMER", "RCU" };

	return nr < sizeof(names) / sizeof(names[0]) ? names[nr] : "softirq";
}

/* "local_timer" */
static const char *irq_vector_name(unsigned int vector)
{
	/* in the spelling of the kernel's tracepoints */
	static const char *const names[VECTOR_MAX] = {
		[VECTOR_LOCAL_TIMER] = "local_timer",
		[VECTOR_RESCHEDULE] = "reschedule",
		[VECTOR_CALL_FUNCTION] = "call_function",
		[VECTOR_CALL_FUNCTION_SINGLE] = "call_function_single",
		[VECTOR_IRQ_WORK] = "irq_work",
	};

	return vector < VECTOR_MAX ? names[vector] : "vector";
}

const char *irq_record_name(
	struct irq_names **names, const struct rec_irq *r, char buf[IRQ_NAME_LEN], const char **ret_type)
{
	if (r->h.flags & IRQ_F_SOFT) {
		*ret_type = "softirq";
		return softirq_name(r->h.id);
	}
	if (r->h.flags & IRQ_F_VECTOR) {
		*ret_type = "vector";
		return irq_vector_name(r->h.id);
	}
	*ret_type = "handler";
	return irq_name(names, r->h.id, buf);
}
