// SPDX-License-Identifier: BSD-2-Clause
#include "engine/rows.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/alloc.h"

const char *const row_column_keys[ROW_COLUMNS] = {
	[ROW_SEQUENCE] = "sequence",
	[ROW_SEQUENCES] = "sequences",
	[ROW_POSITION] = "position",
	[ROW_OUTPUT] = "output",
};

const char *const scheduler_keys[SCHEDULER_VALUES] = {
	[SCHEDULER_WAITING] = "waiting",
	[SCHEDULER_RUNNING] = "running",
	[SCHEDULER_SLOTS] = "slots",
	[SCHEDULER_TOKENS_MAX] = "tokens_max",
	[SCHEDULER_KV_FREE] = "kv_free",
	[SCHEDULER_KV_BLOCKS] = "kv_blocks",
	[SCHEDULER_AHEAD] = "ahead",
	[SCHEDULER_FULL] = "full",
};

static const struct {
	const char *name;
	bool is_signed, is_pointer;
} values[ROW_VALUES] = {
	[ROW_N_OUTPUTS] = { "n_outputs", true, false },
	[ROW_N_SEQUENCES] = { "n_sequences", true, false },
	[ROW_ONE_SEQUENCE] = { "sequence", true, false },
	[ROW_MASK] = { "sequences", false, true },
	[ROW_FIRST_POSITION] = { "position", true, false },
	[ROW_READ] = { "rows_read", true, false },
};

int rows_begin(struct probe_spec *s, const char *count, const char **ret_why)
{
	int at = spec_find_arg(s, count, strlen(count));

	*ret_why = "count is not the name of an argument that is a number";
	if (at < 0 || s->args[at].is_string || s->args[at].is_float)
		return -EINVAL;
	*ret_why = "they take six of the ten arguments";
	if (s->nargs + ROW_VALUES > FUNC_VALS_MAX)
		return -EINVAL;
	*ret_why = "an argument has the name of what is made of rows: n_outputs, n_sequences, sequence, sequences, "
		   "position or rows_read";
	for (int i = 0; i < ROW_VALUES; i++) {
		if (spec_find_arg(s, values[i].name, strlen(values[i].name)) >= 0)
			return -EINVAL;
	}
	*ret_why = "rows and batch are names of what is shown of them";
	if (spec_find_arg(s, "rows", 4) >= 0 || spec_find_arg(s, "batch", 5) >= 0)
		return -EINVAL;
	s->row_count = (uint8_t)(at + 1);
	s->rows_at = (uint8_t)s->nargs;
	for (int i = 0; i < ROW_VALUES; i++) {
		s->fetch[s->nargs] = (struct fetch){ .reg = REG_NONE, .size = 8 };
		s->args[s->nargs] = (struct probe_arg){
			.name = xstrdup(values[i].name),
			.is_signed = values[i].is_signed,
			.is_pointer = values[i].is_pointer,
			.is_row = true,
			.size = 8,
		};
		s->nargs++;
	}
	return 0;
}

/* Cuts off " else WORD". */
static int parse_else(char *expr, enum row_column column, uint8_t *ret_else)
{
	static const char *const words[] = {
		[ROW_ELSE_NONE] = "none", [ROW_ELSE_LAST] = "last", [ROW_ELSE_ALL] = "all"
	};
	char *word = strstr(expr, " else ");

	if (!word)
		return 0;
	*word = 0;
	word += strlen(" else ");
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(words[i], word) || column != ROW_OUTPUT)
			continue;
		*ret_else = (uint8_t)i;
		return 0;
	}
	return -EINVAL;
}

int rows_add_column(struct probe_spec *s, enum row_column column, const char *expr, const char **ret_why)
{
	char *source = xstrdup(expr);
	size_t len;
	bool list;
	int err;

	err = parse_else(source, column, &s->row_else);
	len = strlen(source);
	list = len >= 5 && !strcmp(source + len - 5, " list");
	if (list)
		source[len - 5] = 0;
	if (err)
		*ret_why = "only output may end with \" else last\", \" else all\" or \" else none\"";
	else
		err = fetch_parse_row(source, &s->row[column], ret_why);
	free(source);
	if (!err && list && (column != ROW_SEQUENCE || s->row[column].loads < 2)) {
		*ret_why = "only a sequence that a pointer leads to may end with \" list\"";
		err = -EINVAL;
	}
	s->row[column].list = list;
	return err;
}

void rows_end(struct probe_spec *s)
{
	const struct row_fetch *first = &s->row[ROW_SEQUENCE];

	s->row_struct = 0;
	if (first->stride <= 8 || first->stride > ROW_STRUCT_MAX)
		return;
	for (int i = 0; i < ROW_COLUMNS; i++) {
		const struct row_fetch *f = &s->row[i];
		unsigned int size = f->loads > 1 ? 8 : f->size;

		if (f->loads && (f->stride != first->stride || memcmp(&f->array, &first->array, sizeof(f->array)) ||
					f->off[0] < 0 || (unsigned int)f->off[0] + size > f->stride))
			return;
	}
	s->row_struct = (uint8_t)first->stride;
}

bool rows_refused(const struct probe_spec *s)
{
	return s->row_count && s->misfits & (1u << (s->row_count - 1) | 1u << s->rows_at);
}

bool rows_shown(const struct probe_spec *s, unsigned int i, const uint64_t *vals)
{
	if (rows_refused(s))
		return false;
	if (i == s->rows_at + (unsigned int)ROW_MASK)
		return vals[i];
	if (i == s->rows_at + (unsigned int)ROW_READ)
		return vals[i] != vals[s->row_count - 1];
	return vals[i] != ROW_UNKNOWN;
}

static uint64_t row_value_or(uint64_t v, uint64_t otherwise)
{
	return v == ROW_UNKNOWN ? otherwise : v;
}

bool rows_of_step(const struct probe_spec *s, const uint64_t *vals, struct step_rows *ret)
{
	const uint64_t *v = vals + s->rows_at;

	if (!s->row_count || rows_refused(s))
		return false;
	*ret = (struct step_rows){
		.readable = v[ROW_READ] == vals[s->row_count - 1],
		.one = v[ROW_ONE_SEQUENCE] != ROW_UNKNOWN,
		.sequence = row_value_or(v[ROW_ONE_SEQUENCE], 0),
		.mask = v[ROW_MASK],
		.n_sequences = row_value_or(v[ROW_N_SEQUENCES], 0),
		.n_outputs = row_value_or(v[ROW_N_OUTPUTS], 0),
		.outputs_known = v[ROW_N_OUTPUTS] != ROW_UNKNOWN,
		.position = (int64_t)row_value_or(v[ROW_FIRST_POSITION], (uint64_t)-1),
	};
	return true;
}

unsigned int step_parts(const struct rec_step *r, size_t size, const struct row_part **ret_parts)
{
	if (size < sizeof(*r) || r->n_parts > STEP_PARTS_MAX || size < REC_STEP_SIZE(r->n_parts))
		return 0;
	*ret_parts = ((const struct rec_step_parts *)r)->parts;
	return r->n_parts;
}

size_t parts_text(const struct rec_step *r, size_t size, char buf[static PARTS_TEXT_MAX])
{
	const struct row_part *parts;
	unsigned int n = step_parts(r, size, &parts), i;
	uint64_t left = n ? r->parts_left : 0;
	size_t len = 0;
	char one[80], more[32] = "";

	for (i = 0; i < n; i++) {
		const struct row_part *part = &parts[i];
		int one_len = snprintf(one, sizeof(one), "%s%" PRId64 ": %u", i ? ", " : "", (int64_t)part->sequence,
			part->rows);

		if (part->position >= 0)
			one_len += snprintf(one + one_len, sizeof(one) - (size_t)one_len, " at %" PRId64, part->position);
		if (len + (size_t)one_len + sizeof(more) > PARTS_TEXT_MAX)
			break;
		memcpy(buf + len, one, (size_t)one_len);
		len += (size_t)one_len;
	}
	left += n - i;
	if (left)
		snprintf(more, sizeof(more), ", and %" PRIu64 " more", left);
	memcpy(buf + len, more, strlen(more) + 1);
	return len + strlen(more);
}

int rows_add_accessor(struct probe_spec *s, enum row_column column, const char *text, const char **ret_why)
{
	const char *at = strrchr(text, '@');
	char *end = NULL;
	long member = at ? strtol(at + 1, &end, 0) : -1;

	*ret_why = "must be FUNCTION@MEMBER, of a column in structures that are counted by elements()";
	if (!at || at == text || end == at + 1 || *end || member < 0 || member >= ROW_STRUCT_MAX || !s->row_struct ||
		!s->row[column].loads || !s->fetch[s->row_count - 1].element)
		return -EINVAL;
	s->accessor[column].function = xstrndup(text, (size_t)(at - text));
	s->accessor[column].member = (uint32_t)member;
	return 0;
}

/* The offset of the vector of structures in the object that the first pointer leads to. */
static int32_t *vector_of(struct fetch *f)
{
	return &f->off[f->derefs - 1];
}

int rows_adapt(const struct probe_spec *s, const struct element *const found[ROW_COLUMNS], struct fetch fetch[FUNC_VALS_MAX],
	struct row_fetch row[ROW_COLUMNS])
{
	struct fetch *count = &fetch[s->row_count - 1];
	const struct element *first = NULL;
	bool same = true;

	memcpy(fetch, s->fetch, sizeof(s->fetch));
	memcpy(row, s->row, sizeof(s->row));
	for (int i = 0; i < ROW_COLUMNS; i++) {
		if (!found[i])
			continue;
		if (first && (first->vector != found[i]->vector || first->size != found[i]->size))
			return -EINVAL;
		first = found[i];
		same &= (int32_t)first->vector == *vector_of(count) && first->size == count->element &&
			first->member == s->accessor[i].member;
	}
	if (same)
		return 0;
	if (first->size > ROW_STRUCT_MAX)
		return -EINVAL;
	*vector_of(count) = (int32_t)first->vector;
	count->element = (uint16_t)first->size;
	for (int i = 0; i < ROW_COLUMNS; i++) {
		struct row_fetch *r = &row[i];

		if (!found[i]) { /* in a structure that has changed, it may be anywhere */
			*r = (struct row_fetch){};
			continue;
		}
		*vector_of(&r->array) = (int32_t)first->vector;
		r->stride = first->size;
		r->off[0] += (int32_t)found[i]->member - (int32_t)s->accessor[i].member;
		if (r->off[0] < 0 || r->off[0] >= (int32_t)r->stride)
			return -EINVAL;
	}
	return 1;
}
