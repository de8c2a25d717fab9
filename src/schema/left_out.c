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

uint32_t shed_parts_of(const char *text)
{
	uint32_t parts = 0;

	for (; *text; text += text[0] == ',') {
		size_t len = strcspn(text, ",");

		for (int i = 0; i < SHED_PARTS; i++) {
			if (strlen(shed_part_name(i)) == len && !memcmp(text, shed_part_name(i), len))
				parts |= 1u << i;
		}
		text += len;
	}
	return parts;
}

static void merge_older(struct left_out *l)
{
	size_t half = l->n / 2;
	uint64_t ns[SHED_PARTS];

	left_out_times(l, l->changes[0].ns, l->changes[half].ns, ns);
	memcpy(l->merged_ns, ns, sizeof(ns));
	l->is_merged = true;
	for (size_t i = 1; i < half; i++)
		l->changes[0].parts |= l->changes[i].parts;
	l->n -= half - 1;
	memmove(l->changes + 1, l->changes + half, (l->n - 1) * sizeof(*l->changes));
}

void left_out_change(struct left_out *l, uint64_t ns, uint32_t parts)
{
	if (l->n == LEFT_OUT_MAX)
		merge_older(l);
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

uint32_t left_out_all_of(const struct left_out *l, uint64_t from, uint64_t to)
{
	uint32_t parts = ~0u;

	for (size_t i = l->n; i-- > 0 && left_out_change_end(l, i) > from;) {
		if (l->changes[i].ns <= to)
			parts &= l->changes[i].parts;
	}
	return l->n && l->changes[0].ns <= from ? parts : 0;
}

void left_out_times(const struct left_out *l, uint64_t from, uint64_t to, uint64_t ret_ns[SHED_PARTS])
{
	memset(ret_ns, 0, SHED_PARTS * sizeof(*ret_ns));
	for (size_t i = l ? l->n : 0; i-- > 0 && left_out_change_end(l, i) > from;) {
		const struct left_out_change *c = &l->changes[i];
		uint64_t begin = c->ns > from ? c->ns : from, end = left_out_change_end(l, i) < to ? left_out_change_end(l, i) : to;

		bool merged = !i && l->is_merged && begin == c->ns && end == left_out_change_end(l, i);

		for (int k = 0; k < SHED_PARTS && begin < end; k++) {
			if (merged)
				ret_ns[k] += l->merged_ns[k];
			else
				ret_ns[k] += c->parts & 1u << k ? end - begin : 0;
		}
	}
}
