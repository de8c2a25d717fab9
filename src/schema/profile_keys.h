/* SPDX-License-Identifier: BSD-2-Clause */
/* The keys of a profile line (docs/profile-schema.md), for its writer and its readers. */
#ifndef INFTRACE_PROFILE_KEYS_H
#define INFTRACE_PROFILE_KEYS_H

/* A key of lines that inftrace writes, with the version of their rules: any tool may call itself native. */
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

/* joined_why of exchanges on sockets that are no requests of the engine, and of requests that came by no socket. */
#define PROFILE_JOINED_NONE "none fits"

/* A key with the punctuation before its value. */
#define PROFILE_KEY(name) "\"" #name "\":"

/* The types of profile_fields.h by how they are written and read. */
struct as_number;
struct as_us;
struct as_text;
struct as_flag;
struct as_state;
struct as_parts;
struct as_share;
#define AS_COUNT as_number
#define AS_POSITIVE as_number
#define AS_SEVERAL as_number
#define AS_INTEGER as_number
#define AS_US as_us
#define AS_PART as_us
#define AS_THOUSANDTHS as_us
#define AS_SHARE as_share
#define AS_SOME_SHARE as_share
#define AS_TEXT as_text
#define AS_STRING as_text
#define AS_ONE_OF(...) as_text
#define AS_DIGITS as_text
#define AS_BOOT_ID as_text
#define AS_SHIFT as_text
#define AS_PCI as_text
#define AS_UUID as_text
#define AS_TRUE as_flag
#define AS_FALSE as_flag
#define AS_BOOL as_flag
#define AS_STATE as_state
#define AS_PARTS as_parts

/* profile_field_KEY is a pointer to one of these structs, for _Generic: keys without a row do not compile, nor rows that differ in this. */
#define PROFILE_FIELD_OF(as, key) typedef struct as *profile_field_##key;
#define PROFILE_FIELD(as, key) PROFILE_FIELD_OF(as, key)
#define SHAPE(families, key, type, need, text) PROFILE_FIELD(AS_##type, key)
#define STAGE(families, key, type, need, text) PROFILE_FIELD(AS_##type, key)
#include "schema/profile_fields.h"

/* The one that is for the type of a key. */
#define PROFILE_BY_TYPE(key, number, us, text, flag, state, parts) \
	_Generic((profile_field_##key)0, struct as_number *: number, struct as_us *: us, struct as_text *: text, \
		struct as_flag *: flag, struct as_state *: state, struct as_parts *: parts)

#endif
