/* SPDX-License-Identifier: BSD-2-Clause */
/* --py-step: calls of a Python function are steps. */
#ifndef INFTRACE_PYTHON_STEP_H
#define INFTRACE_PYTHON_STEP_H

#include "engine/engine.h"

/* Programs and libraries with these names may be, or have, an interpreter. */
#define PYTHON_FILES "*python3*"

/*
 * The functions that an option stands for: "FILE:QUALIFIED.NAME", where FILE is the end of a path; or
 * "PACKAGE.MODULE.QUALIFIED.NAME", each way to split it, and without a module, in any file. -EINVAL with the reason.
 */
int python_names_parse(const char *option, struct python_calls *ret_calls, const char **ret_why);

/* Appends a step. On failure one line has been printed; -EINVAL. */
int probe_table_add_python(struct probe_table *pt, const char *option);

/* What the programs need to know of a specification that was added so, and its number among them. */
unsigned int probe_spec_python(const struct probe_table *pt, size_t spec, enum python_layout layout, struct python_calls *ret_calls);

/* Whether interpreters of this layout can tell these functions from others; else the reason. */
bool python_names_tell(const char *option, enum python_layout layout, const char **ret_why);

#endif
