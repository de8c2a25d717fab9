/* SPDX-License-Identifier: BSD-2-Clause */
/* Steps and slices that are calls of Python functions, and what is read with them: of --py-step, --py-span, and of presets. */
#ifndef INFTRACE_PYTHON_STEPS_H
#define INFTRACE_PYTHON_STEPS_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/spec.h"

/* Programs and libraries with these names may be, or have, an interpreter. */
#define PYTHON_FILES "*python3*"

/*
 * The functions that an option stands for: "FILE:QUALIFIED.NAME", where FILE is the end of a path; or
 * "PACKAGE.MODULE.QUALIFIED.NAME", each way to split it, and without a module, in any file; or several of these, with | in
 * between. -EINVAL with the reason.
 */
int python_names_parse(const char *option, struct python_calls *ret_calls, const char **ret_why);

/* Appends what an option names: a step (ROLE_STEP), or a slice. On failure one line has been printed; -EINVAL. */
int probe_table_add_python(struct probe_table *pt, const char *option, enum probe_role role);

/* The same for a preset. NULL, with the reason. */
struct probe_spec *probe_table_engine_python(struct probe_table *pt, struct engine *e, const char *names, const char **ret_why);

/* The functions of struct python_batch, as of --py-step. */
struct python_batch_functions {
	const char *batch;   /* NULL: the step itself has it, and ... */
	const char *results; /* ... this its results; else NULL */
	const char *arrival, *sent; /* NULL: there is none */
};

/*
 * Adds where a step of probe_table_engine_python(), which was appended last, has its batch. b: the variables; text: the names of
 * attributes (text[i] NULL: there is none). -EINVAL with the reason.
 */
int probe_table_python_batch(struct probe_table *pt, const struct python_batch_functions *f, const struct python_batch *b,
	const char *const text[PYTHON_MEMBERS], const char **ret_why);

/* Adds where the function with that batch has what the scheduler says of itself: expressions as of --py-step (NULL: none). -EINVAL
 * with the reason. */
int probe_table_python_scheduler(struct probe_table *pt, const char *const expr[SCHEDULER_VALUES], const char **ret_why);

/* Sets what the programs need to know of a specification added by probe_table_add_python(); returns its number among them. */
unsigned int probe_spec_python(const struct probe_table *pt, size_t spec, enum python_layout layout, struct python_calls *ret_calls);

/* Whether interpreters of this layout can tell these functions from others; else the reason. */
bool python_names_tell(const char *option, enum python_layout layout, const char **ret_why);

#endif
