/* SPDX-License-Identifier: BSD-2-Clause */
/* The envelope of a profile line (docs/profile-schema.md), for its writer and its readers. */
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

#endif
