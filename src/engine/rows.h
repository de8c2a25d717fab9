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

/* `count`: an argument that says how many rows a step has. Adds the arguments that are derived from rows.
 * -EINVAL with a reason. */
int rows_begin(struct probe_spec *s, const char *count, const char **ret_why);

/* "TYPE SOURCE", where one load takes an element for each row: *(SOURCE+8*row). That of ROW_OUTPUT may end
 * with " else last", " else all", or " else none", that of ROW_SEQUENCE with " list". -EINVAL with a reason. */
int rows_add_column(struct probe_spec *s, enum row_column column, const char *expr, const char **ret_why);

/* After the last column: recognises rows that are structures in one array, which are read as a whole. */
void rows_end(struct probe_spec *s);

/* "FUNCTION@MEMBER", after rows_end(): a function of the file whose code shows where the column is in its build. -EINVAL with a
 * reason. */
int rows_add_accessor(struct probe_spec *s, enum row_column column, const char *text, const char **ret_why);

/*
 * What is fetched of a step in a file whose functions show the columns there (NULL: not shown). 0: the same as in the
 * preset; 1: something else, without the columns that are not shown; -EINVAL: the functions contradict each other.
 */
int rows_adapt(const struct probe_spec *s, const struct element *const found[ROW_COLUMNS], struct fetch fetch[FUNC_VALS_MAX],
	struct row_fetch row[ROW_COLUMNS]);

/* Whether such an argument is known: `i` is one that rows_begin() added. */
bool rows_shown(const struct probe_spec *s, unsigned int i, const uint64_t *vals);

/* Whether rows turned out to be laid out in another way, so that nothing of them is shown. */
bool rows_refused(const struct probe_spec *s);

/* What is known of a step's rows. The functions return false if none are described, or they do not fit the engine. */
struct step_rows {
	bool readable;	 /* all of them could be read */
	bool one;	 /* they belong to one sequence ... */
	uint64_t sequence; /* ... this one */
	uint64_t mask;	 /* of several sequences; 0: unknown which */
	uint64_t n_sequences, n_outputs; /* 0: unknown */
	bool outputs_known;
	int64_t position; /* of the first; -1: unknown */
};

bool rows_of_step(const struct probe_spec *s, const uint64_t *vals, struct step_rows *ret);

/* The parts of a step by sequence, which follow its record of `size` bytes. Returns how many; 0 also if the record has
 * fewer than it says. */
unsigned int step_parts(const struct rec_step *r, size_t size, const struct row_part **ret_parts);

/* "3: 1 at 57, 0: 128 at 0, and 12 more": sequence, rows, position of the first. Returns its length. */
#define PARTS_TEXT_MAX 160
size_t parts_text(const struct rec_step *r, size_t size, char buf[static PARTS_TEXT_MAX]);

#endif
