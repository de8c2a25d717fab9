// SPDX-License-Identifier: BSD-2-Clause
#include "report/steps.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SIZE_MIN 8

#define FIELD(name, member) ARRAY(name, member, 1)
#define ARRAY(name, member, n)                                                                     \
	[STEP_##name] = { offsetof(struct step, member), sizeof(((struct step *)0)->member) / (n), \
		n },

/* Where the values of each column are in a step; those of an array follow its first one, and have
 * no entry. */
static const struct {
	uint16_t offset;
	uint8_t size, count;
} fields[STEP_COLUMNS] = { STEP_FIELDS(FIELD, ARRAY) };

/* Where a column's value is in a step. */
static void *place(struct step *step, enum step_column column, uint8_t *ret_size)
{
	size_t f = column;

	while (!fields[f].count)
		f--;
	*ret_size = fields[f].size;
	return (char *)step + fields[f].offset + (column - f) * fields[f].size;
}

static int64_t member_get(const void *member, uint8_t size)
{
	switch (size) {
	case 1:
		return *(const uint8_t *)member;
	case 4:
		return *(const uint32_t *)member;
	default:
		return *(const int64_t *)member;
	}
}

static void member_set(void *member, uint8_t size, int64_t value)
{
	switch (size) {
	case 1:
		*(uint8_t *)member = (uint8_t)value;
		break;
	case 4:
		*(uint32_t *)member = (uint32_t)value;
		break;
	default:
		*(int64_t *)member = value;
	}
}

void steps_free(struct steps *s)
{
	for (size_t c = 0; c < STEP_COLUMNS; c++)
		free(s->columns[c].values);
	memset(s, 0, sizeof(*s));
}

static uint8_t width_of(int64_t value)
{
	if (value == (int8_t)value)
		return 1;
	if (value == (int16_t)value)
		return 2;
	return value == (int32_t)value ? 4 : 8;
}

static void put(struct column *c, size_t i, int64_t value)
{
	switch (c->width) {
	case 1:
		((int8_t *)c->values)[i] = (int8_t)value;
		break;
	case 2:
		((int16_t *)c->values)[i] = (int16_t)value;
		break;
	case 4:
		((int32_t *)c->values)[i] = (int32_t)value;
		break;
	default:
		((int64_t *)c->values)[i] = value;
	}
}

/* Makes the values of a column wide enough for this one. */
static int widen(struct steps *s, enum step_column column, int64_t value)
{
	struct column *c = &s->columns[column], wide = { .width = width_of(value) };

	if (!c->width && width_of(c->same) > wide.width)
		wide.width = width_of(c->same);
	wide.values = malloc(s->size * wide.width);
	if (!wide.values)
		return -ENOMEM;
	for (size_t i = 0; i < s->len; i++)
		put(&wide, i, steps_get(s, i, column));
	if (!c->width)
		s->wide[s->n_wide++] = (uint8_t)column;
	free(c->values);
	*c = wide;
	return 0;
}

int steps_set(struct steps *s, size_t i, enum step_column column, int64_t value)
{
	struct column *c = &s->columns[column];

	if (!c->width && value == c->same)
		return 0;
	if (width_of(value) > c->width && widen(s, column, value))
		return -ENOMEM;
	put(c, i, value);
	return 0;
}

static int grow(struct steps *s)
{
	size_t size = s->size ? s->size + s->size / 2 : SIZE_MIN;
	void *values;

	for (size_t c = 0; c < STEP_COLUMNS; c++) {
		if (!s->columns[c].width)
			continue;
		values = reallocarray(s->columns[c].values, size, s->columns[c].width);
		if (!values)
			return -ENOMEM;
		s->columns[c].values = values;
	}
	s->size = size;
	return 0;
}

int steps_add(struct steps *s, const struct step *step)
{
	const char *member;
	int64_t value;
	int err = 0;

	if (s->len == s->size && grow(s))
		return -ENOMEM;
	if (!s->len)
		s->first = *step;
	for (size_t f = 0; f < STEP_COLUMNS && !err; f++) {
		member = (const char *)step + fields[f].offset;
		for (size_t i = 0; i < fields[f].count && !err; i++, member += fields[f].size) {
			value = member_get(member, fields[f].size);
			if (!s->len)
				s->columns[f + i].same = value;
			else
				err = steps_set(s, s->len, (enum step_column)(f + i), value);
		}
	}
	s->len++;
	return err;
}

struct step steps_load(const struct steps *s, size_t i)
{
	struct step step = s->first;
	uint8_t size;
	void *member;

	for (size_t k = 0; k < s->n_wide; k++) {
		member = place(&step, s->wide[k], &size);
		member_set(member, size, steps_get(s, i, s->wide[k]));
	}
	return step;
}

int steps_reorder(struct steps *s, const uint32_t *order)
{
	for (size_t k = 0; k < STEP_COLUMNS; k++) {
		struct column *c = &s->columns[k], sorted = *c;

		if (!c->width)
			continue;
		sorted.values = malloc(s->size * c->width);
		if (!sorted.values)
			return -ENOMEM;
		for (size_t i = 0; i < s->len; i++)
			put(&sorted, i, steps_get(s, order[i], (enum step_column)k));
		free(c->values);
		*c = sorted;
	}
	return 0;
}
