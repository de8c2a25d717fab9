/* SPDX-License-Identifier: BSD-2-Clause */
/* The keys of a profile line (docs/profile-schema.md), for its writer and its readers. */
#ifndef INFTRACE_PROFILE_KEYS_H
#define INFTRACE_PROFILE_KEYS_H

/* A key that marks inftrace's own lines, with the version of their rules: any tool may call itself native. */
#define PROFILE_MARK "inftrace"

/* The keys in the order in which they are written. The first nine are required. */
#define PROFILE_KEYS(KEY)  \
	KEY(event)         \
	KEY(commit_sha)    \
	KEY(env_hash)      \
	KEY(model)         \
	KEY(concurrency)   \
	KEY(shape)         \
	KEY(stage_us)      \
	KEY(graph_enabled) \
	KEY(runtime_flags) \
	KEY(source)        \
	KEY(source_line)   \
	KEY(container)

#define PROFILE_REQUIRED 9

#define PROFILE_KEY_ENUM(name) PROFILE_KEY_##name,
enum profile_key {
	PROFILE_KEYS(PROFILE_KEY_ENUM) PROFILE_KEY_MAX,
};
#undef PROFILE_KEY_ENUM

/* joined_why of a socket's exchange that is no request of the engine, and of a request that came by no socket. */
#define PROFILE_JOINED_NONE "none fits"

/* A key as written, with quotes and colon. */
#define PROFILE_KEY(name) "\"" #name "\":"

/* The types of profile_fields.h, by how they are written and read. */
enum {
	AS_NUMBER = 1,
	AS_TIME,
	AS_NAME,
	AS_FLAG,
	AS_STATE,
	AS_PARTS,
	AS_SHARE,
};
#define AS_COUNT AS_NUMBER
#define AS_POSITIVE AS_NUMBER
#define AS_SEVERAL AS_NUMBER
#define AS_INTEGER AS_NUMBER
#define AS_US AS_TIME
#define AS_PART AS_TIME
#define AS_THOUSANDTHS AS_TIME
#define AS_SOME_SHARE AS_SHARE
#define AS_TEXT AS_NAME
#define AS_STRING AS_NAME
#define AS_ONE_OF(...) AS_NAME
#define AS_DIGITS AS_NAME
#define AS_BOOT_ID AS_NAME
#define AS_SHIFT AS_NAME
#define AS_PCI AS_NAME
#define AS_UUID AS_NAME
#define AS_TRUE AS_FLAG
#define AS_FALSE AS_FLAG
#define AS_BOOL AS_FLAG

/* The size of profile_field_KEY is one of these: a key without a row does not compile, nor do rows of a key that differ in
 * it. */
#define SHAPE(families, key, type, need, text) typedef char profile_field_##key[AS_##type];
#define STAGE(families, key, type, need, text) typedef char profile_field_##key[AS_##type];
#include "schema/profile_fields.h"

/* A key as text, for readers; compiles only if it has a row. */
#define KEY(key) (sizeof(profile_field_##key) ? #key : NULL)

/* The argument for the type of the key. The arguments may be of different types. */
#define PROFILE_BY_TYPE(key, number, time, name, flag, state, parts)                                \
	__builtin_choose_expr(sizeof(profile_field_##key) == AS_NUMBER, number,                     \
		__builtin_choose_expr(sizeof(profile_field_##key) == AS_TIME, time,                 \
			__builtin_choose_expr(sizeof(profile_field_##key) == AS_NAME, name,         \
				__builtin_choose_expr(sizeof(profile_field_##key) == AS_FLAG, flag, \
					__builtin_choose_expr(sizeof(profile_field_##key) == AS_STATE, state, parts)))))

#endif
