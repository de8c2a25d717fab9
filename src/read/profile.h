/* SPDX-License-Identifier: BSD-2-Clause */
/* Profiles (docs/profile-schema.md), line by line. */
#ifndef INFTRACE_READ_PROFILE_H
#define INFTRACE_READ_PROFILE_H

#include "read/json_source.h"
#include "schema/profile_keys.h"

/* A JSON object with all required keys; their values may be of any kind. */
struct profile_line {
	uint64_t number; /* from 1, as editors count */
	const struct json_node *object;
	const struct json_node
		*values[PROFILE_KEY_MAX]; /* NULL: optional and not there */
};

struct profile_reader_ops {
	/* The line is valid during the call. Returns 0, or -errno to stop. */
	int (*line)(void *ctx, const struct profile_line *line);
	/* Reports a line that cannot be used, or the place where the file becomes unreadable. */
	void (*bad)(void *ctx, uint64_t number, const char *why);
};

/* Reads an open source to its end. Returns 0, or -errno; the reason has been passed to bad(),
 * unless line() returned the error. */
int profile_read(struct json_source *source, const struct profile_reader_ops *ops, void *ctx);

const char *profile_key_name(enum profile_key key);

/* Parses a numbered key such as "gpu_gap2_cpu_us": `prefix` ("gpu_gap"), a decimal number of at most nine digits, "_". Returns what
 * follows, or NULL if the key is of another form. */
const char *profile_key_numbered(const char *key, const char *prefix, uint32_t *ret_number);

/* Returns the state of a key in stage_us; -1: unknown. hint: initially 0, then kept by the caller,
 * since keys come in the same order on every line. */
int read_state(const char *key, unsigned int *hint);

/* Reads a time >= 0 in microseconds. */
bool read_us(const struct json_node *value, int64_t *ret_ns);
/* Reads a count >= 0; counts above UINT32_MAX become UINT32_MAX. */
bool read_u32(const struct json_node *value, uint32_t *ret);

#endif
