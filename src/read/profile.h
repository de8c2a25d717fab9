/* SPDX-License-Identifier: BSD-2-Clause */
/* Profiles (docs/profile-schema.md), line by line. */
#ifndef INFTRACE_READ_PROFILE_H
#define INFTRACE_READ_PROFILE_H

#include "read/json_source.h"
#include "sink/profile_keys.h"
#include "util/json_node.h"

/* A JSON object with all keys that are required; their values may be of any kind. */
struct profile_line {
	uint64_t number; /* from 1, as an editor counts */
	const struct json_node
		*values[PROFILE_KEY_MAX]; /* NULL: one that is optional is not there */
};

struct profile_reader_ops {
	/* The line is good for the time of the call. Returns 0, or -errno to stop. */
	int (*line)(void *ctx, const struct profile_line *line);
	/* A line that cannot be used, or the place where the file cannot be read any further. */
	void (*bad)(void *ctx, uint64_t number, const char *why);
};

/* Reads an open source to its end. Returns 0, or -errno: what stopped it was told to bad, unless
 * line() returned it or it is -ENOMEM. */
int profile_read(struct json_source *source, const struct profile_reader_ops *ops, void *ctx);

const char *profile_key_name(enum profile_key key);

#endif
