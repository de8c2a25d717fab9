/* SPDX-License-Identifier: BSD-2-Clause */
/* How many bytes a call passes, where its arguments say how many elements of which type. */
#ifndef INFTRACE_ENGINE_BYTES_H
#define INFTRACE_ENGINE_BYTES_H

#include "engine/engine.h"

struct json_object;

/* Reads "bytes" of an enum: an array with the size of each value. Nothing if there is none. -EINVAL with the reason, or -ENOMEM. */
int bytes_read_sizes(struct json_object *obj, struct enum_table *t, const char **ret_why);

/* Reads "bytes" of a probe whose arguments are known: "ARG * ARG", the second of an enum with sizes. The same. */
int bytes_read(struct json_object *obj, struct probe_spec *s, const char **ret_why);

/* false: the preset does not say it, or the arguments are not known. */
bool bytes_of_call(const struct probe_spec *s, const uint64_t *vals, uint64_t *ret_bytes);

#endif
