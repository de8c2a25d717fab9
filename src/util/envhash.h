/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * env_hash of the profile: one value that is equal for two runs when kernel, hardware, engine and
 * settings were. docs/profile-schema.md names what goes in.
 */
#ifndef INFTRACE_ENVHASH_H
#define INFTRACE_ENVHASH_H

#include <stddef.h>
#include <sys/types.h>

struct probe_table;

#define ENV_HASH_UNKNOWN "sha256:unknown"
#define ENV_HASH_MAX \
	sizeof("sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef")

struct env_library {
	const char *name; /* file name, without folder */
	const char *path; /* of the file whose build-id counts; NULL: the next says it */
	const char *build_id; /* "none": it has none, or cannot be read */
};

struct env_preset {
	const char *name;
	unsigned int version;
};

/* The order of the lists has no influence, nor have libraries given twice. */
struct env_input {
	pid_t pid; /* the target; 0: none, its executable and variables stay out */
	const struct env_library *libraries;
	size_t n_libraries;
	const struct env_preset *presets;
	size_t n_presets;
};

/*
 * The canonical JSON (malloc()ed) and its hash; either may be NULL. A file that cannot be read or
 * has no build-id goes in as "none". -ESRCH, -EACCES and the like when the target itself cannot be
 * read, -ENOMEM; hash then says that it is unknown.
 */
int env_hash(const struct env_input *in, char **ret_json, char hash[ENV_HASH_MAX]);

/*
 * The same for a process: its libraries are the mapped files that the presets of the table claim,
 * its presets those that claim any.
 */
int env_hash_process(
	pid_t pid, const struct probe_table *pt, char **ret_json, char hash[ENV_HASH_MAX]);

#endif
