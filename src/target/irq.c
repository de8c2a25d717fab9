// SPDX-License-Identifier: BSD-2-Clause
#include "target/irq.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/names.h"

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

static char *name_slot(struct irq_names **names, uint32_t irq)
{
	char(*list)[IRQ_NAME_LEN];
	struct irq_names *n;

	if (!*names)
		*names = calloc(1, sizeof(**names));
	n = *names;
	if (!n || irq >= IRQS_MAX)
		return NULL;
	if (irq >= n->n) {
		list = realloc(n->names, (irq + 1) * sizeof(*list));
		if (!list)
			return NULL;
		memset(list + n->n, 0, (irq + 1 - n->n) * sizeof(*list));
		n->names = list;
		n->n = irq + 1;
	}
	return n->names[irq];
}

const char *irq_name(struct irq_names **names, uint32_t irq, char buf[IRQ_NAME_LEN])
{
	char *name = name_slot(names, irq);

	if (!name)
		name = buf;
	if (name == buf || !name[0])
		irq_read(irq, name);
	return name;
}

void irq_names_free(struct irq_names *names)
{
	if (!names)
		return;
	free(names->names);
	free(names);
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
