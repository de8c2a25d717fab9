/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rows of a step: a preset says in which arrays the engine keeps them, and the step gets arguments
 * that summarise them (docs/engines.md, "Rows").
 */
#ifndef INFTRACE_ENGINE_ROWS_H
#define INFTRACE_ENGINE_ROWS_H

#include "engine/spec.h"
#include "target/code.h"

/* The keys of a preset's "rows" are "count" and these. */
extern const char *const row_column_keys[ROW_COLUMNS];

/* Keys of enum scheduler_value in presets, and of what is shown of them. */
extern const char *const scheduler_keys[SCHEDULER_VALUES];

/* `count`: an argument that says how many rows a step has. Adds the arguments that are derived from rows.
 * -EINVAL with a reason. */
int rows_begin(struct probe_spec *s, const char *count, const char **ret_why);

/* expr: "TYPE SOURCE", where one load takes an element for each row: *(SOURCE+8*row). ROW_OUTPUT may end with
 * " else last", " else all", or " else none", ROW_SEQUENCE with " list". -EINVAL with a reason. */
int rows_add_column(struct probe_spec *s, enum row_column column, const char *expr, const char **ret_why);

/* Call after the last column: recognises rows that are structures in one array, which are read as a whole. */
void rows_end(struct probe_spec *s);

/* Call after rows_end(). text: "FUNCTION@MEMBER", a function of the file whose code shows where the column is in its build.
 * -EINVAL with a reason. */
int rows_add_accessor(struct probe_spec *s, enum row_column column, const char *text, const char **ret_why);

/*
 * Sets what to fetch of a step in a file whose functions show the columns in `found` (NULL: not shown). Returns 0 if that is
 * as in the preset; 1 if not, then without the columns not shown; -EINVAL: the functions contradict each other, or a structure
 * is too large.
 */
int rows_adapt(const struct probe_spec *s, const struct element *const found[ROW_COLUMNS], struct fetch fetch[FUNC_VALS_MAX],
	struct row_fetch row[ROW_COLUMNS]);

/* Whether argument `i`, one that rows_begin() added, is known. */
bool rows_shown(const struct probe_spec *s, unsigned int i, const uint64_t *vals);

/* Whether the rows turned out to have another layout, so that nothing of them is shown. */
bool rows_refused(const struct probe_spec *s);

/* What is known of a step's rows. */
struct step_rows {
	bool readable;	 /* all of them could be read */
	bool one;	 /* they belong to one sequence ... */
	uint64_t sequence; /* ... this one */
	uint64_t mask;	 /* of several sequences; 0: unknown which */
	uint64_t n_sequences, n_outputs; /* 0: unknown */
	bool outputs_known;
	int64_t position; /* of the first; -1: unknown */
};

/* Returns false if the preset describes no rows, or they do not fit the engine. */
bool rows_of_step(const struct probe_spec *s, const uint64_t *vals, struct step_rows *ret);

/* The parts of a step by sequence, which follow its record of `size` bytes. Returns how many; 0 also if the record has
 * fewer than it says. */
unsigned int step_parts(const struct rec_step *r, size_t size, const struct row_part **ret_parts);

/* "3: 1 at 57, 0: 128 at 0, and 12 more": sequence, rows, position of the first. Returns its length. */
#define PARTS_TEXT_MAX 160
size_t parts_text(const struct rec_step *r, size_t size, char buf[static PARTS_TEXT_MAX]);

#endif
