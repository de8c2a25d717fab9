/* SPDX-License-Identifier: BSD-2-Clause */
/* "node" of a preset's probe: where the members of a node of the engine's graph are. */
#ifndef INFTRACE_ENGINE_NODE_H
#define INFTRACE_ENGINE_NODE_H

#include "engine/engine.h"

struct json_object;

/*
 * Reads "node" of a probe, if there is one: its first argument must be the address of a node. Expressions in it are those of
 * arguments, in which arg1 is that address. -EINVAL with the key and the reason; *ret_key is "node" if no other fits.
 */
int node_read(struct json_object *probe, const struct enum_table *enums, size_t n_enums, struct probe_spec *s,
	const char **ret_key, const char **ret_why);

#endif
