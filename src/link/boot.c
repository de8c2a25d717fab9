// SPDX-License-Identifier: BSD-2-Clause
#include "link/boot.h"

#include <stdlib.h>
#include <string.h>

enum boot_fit boot_compare(const struct boot *a, const struct boot *b)
{
	if (a->id.boot_id[0] && b->id.boot_id[0])
		return strcmp(a->id.boot_id, b->id.boot_id) ? BOOT_OTHER : BOOT_SAME;
	return llabs(a->lead_ns - b->lead_ns) <= BOOT_AGREE_NS ? BOOT_LIKELY : BOOT_UNLIKELY;
}

void boot_choose(struct boot_choice *c, uint32_t host, enum boot_fit fit)
{
	if ((fit != BOOT_SAME && fit != BOOT_LIKELY) || fit < c->fit)
		return;
	*c = (struct boot_choice){ .fit = fit, .host = host, .several = fit == c->fit };
}
