/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads presets, engines/NAME.json (docs/engines.md), into probe specifications. */
#ifndef INFTRACE_ENGINE_ENGINE_H
#define INFTRACE_ENGINE_ENGINE_H

#include "engine/spec.h"

/*
 * Reads a preset and appends its probes. `name` is a path when it has a slash or ends in .json,
 * else the name of an installed preset. On failure one line with file, line and key has been
 * printed; -EINVAL (malformed, too many probes), -ENOENT or another error of open(2), -EFBIG.
 */
int engine_load(struct probe_table *pt, const char *name);

/* The same for a file. */
int engine_load_file(struct probe_table *pt, const char *path);

/* Whether one of the first n engines has the name. */
bool engine_is_named(const struct probe_table *pt, size_t n, const char *name);

/* Loads every installed preset, unless one of that name is loaded. Returns 0 even if there is none. */
int engine_load_all(struct probe_table *pt);

#endif
