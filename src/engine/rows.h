/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rows of a step: a preset says in which arrays the engine has them, and the step gets arguments that
 * count them (docs/engines.md, "Rows").
 */
#ifndef INFTRACE_ENGINE_ROWS_H
#define INFTRACE_ENGINE_ROWS_H

#include "engine/engine.h"

/* The keys of a preset's "rows" are "count" and these. */
extern const char *const row_column_keys[ROW_COLUMNS];

/* `count`: an argument that says how many rows a step has. Adds the arguments that they give. -EINVAL with
 * a reason, -ENOMEM likewise. */
int rows_begin(struct probe_spec *s, const char *count, const char **ret_why);

/* "TYPE SOURCE", where one load is of an element for each row: *(SOURCE+8*row). That of ROW_OUTPUT may end
 * with " else last", " else all", or " else none". -EINVAL with a reason, -ENOMEM likewise. */
int rows_add_column(struct probe_spec *s, enum row_column column, const char *expr, const char **ret_why);

/* Whether such an argument says something: `i` is one that rows_begin() added. */
bool rows_shown(const struct probe_spec *s, unsigned int i, const uint64_t *vals);

/* What is known of a step's rows. False: none are described, or they do not fit the engine. */
struct step_rows {
	bool readable;	 /* all of them */
	bool one;	 /* they are of one sequence ... */
	uint64_t sequence; /* ... this one */
	uint64_t mask;	 /* of several sequences; 0: which is not known */
	uint64_t n_sequences, n_outputs; /* 0 where not known */
	bool outputs_known;
	int64_t position; /* of the first; -1: not known */
};

bool rows_of_step(const struct probe_spec *s, const uint64_t *vals, struct step_rows *ret);

/* What a step has of each sequence: what lies behind its record, which has `size` bytes. Returns how many; 0 also where
 * the record has not as many as it says. */
unsigned int step_parts(const struct rec_step *r, size_t size, const struct row_part **ret_parts);

/* "3: 1 at 57, 0: 128 at 0, and 12 more": sequence, rows, position of the first. Returns its length. */
#define PARTS_TEXT_MAX 160
size_t parts_text(const struct rec_step *r, size_t size, char buf[static PARTS_TEXT_MAX]);

#endif
