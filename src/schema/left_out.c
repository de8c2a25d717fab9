// SPDX-License-Identifier: BSD-2-Clause
#include "schema/left_out.h"

#include <string.h>

const char *shed_part_name(enum shed_part part)
{
	static const char *const names[SHED_PARTS] = {
		[SHED_SAMPLES] = "samples",
		[SHED_BARRIERS] = "barriers",
		[SHED_OPERATORS] = "operators",
		[SHED_SYSCALLS] = "syscalls",
		[SHED_TIMELINE] = "timeline",
	};

	return names[part];
}

const char *shed_text(uint32_t parts, char buf[SHED_TEXT_MAX])
{
	buf[0] = 0;
	for (int i = 0; i < SHED_PARTS; i++) {
		if (!(parts & 1u << i))
			continue;
		if (buf[0])
			strcat(buf, ",");
		strcat(buf, shed_part_name(i));
	}
	return buf;
}

void left_out_change(struct left_out *l, uint64_t ns, uint32_t parts)
{
	if (l->n == LEFT_OUT_MAX) {
		/* a part left out in one of the two counts for both */
		l->changes[0].parts |= l->changes[1].parts;
		memmove(l->changes + 1, l->changes + 2, (l->n - 2) * sizeof(*l->changes));
		l->n--;
	}
	l->changes[l->n++] = (struct left_out_change){ ns, parts };
}

/* When the state after change i ends. */
static uint64_t left_out_change_end(const struct left_out *l, size_t i)
{
	return i + 1 < l->n ? l->changes[i + 1].ns : UINT64_MAX;
}

uint32_t left_out_between(const struct left_out *l, uint64_t from, uint64_t to)
{
	uint32_t parts = 0;

	for (size_t i = l ? l->n : 0; i-- > 0 && left_out_change_end(l, i) >= from;) {
		if (l->changes[i].ns <= to)
			parts |= l->changes[i].parts;
	}
	return parts;
}

void left_out_times(const struct left_out *l, uint64_t from, uint64_t to, uint64_t ret_ns[SHED_PARTS])
{
	memset(ret_ns, 0, SHED_PARTS * sizeof(*ret_ns));
	for (size_t i = l ? l->n : 0; i-- > 0 && left_out_change_end(l, i) > from;) {
		const struct left_out_change *c = &l->changes[i];
		uint64_t begin = c->ns > from ? c->ns : from, end = left_out_change_end(l, i) < to ? left_out_change_end(l, i) : to;

		for (int k = 0; k < SHED_PARTS && begin < end; k++)
			ret_ns[k] += c->parts & 1u << k ? end - begin : 0;
	}
}
