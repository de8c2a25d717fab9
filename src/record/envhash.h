/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * env_hash of the profile: one value that is equal for two runs if their kernels, hardware, engines
 * and settings were. docs/profile-schema.md lists its input.
 */
#ifndef INFTRACE_ENVHASH_H
#define INFTRACE_ENVHASH_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "target/elf.h"

struct json_object;
struct probe_table;
struct process_text;

#define ENV_HASH_UNKNOWN "sha256:unknown"
#define ENV_HASH_MAX \
	sizeof("sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef")

struct env_library {
	const char *name;     /* file name, without its directory */
	const char *build_id; /* see env_build_id() */
};

/* The order of the lists does not matter, nor do duplicate libraries. */
struct env_input {
	const struct process_text *environ; /* of the target; NULL: its variables are left out */
	const char *exe;		    /* its build-id; NULL: none */
	const struct env_library *libraries;
	size_t n_libraries;
	const struct probe_table *presets; /* only those that claim one of the libraries count; or NULL */
};

/* Returns the canonical JSON (malloc()ed) and its hash; either may be NULL. -ENOMEM; the hash then
 * says that it is unknown. */
int env_hash(const struct env_input *in, char **ret_json, char hash[ENV_HASH_MAX]);

/* The build-id, "none" for a file that cannot be read or has none; returns why it could not be opened. */
int env_build_id(const char *path, char hex[ELF_BUILD_ID_MAX]);

/* The build-id of the program that a process runs. -ESRCH, -EACCES, -EPERM. */
int env_exe_build_id(pid_t pid, char hex[ELF_BUILD_ID_MAX]);

/* Adds the variables that configure engines, sorted by name, without secrets. -ENOMEM. */
int env_add_settings(const struct process_text *environ, struct json_object *obj);

/* Whether "NAME=VALUE" is one of them. */
bool env_is_setting(const char *variable);

/* Whether it is 64 hexadecimal digits, with or without "sha256:" before them. */
bool env_hash_ok(const char *text);

/* Untrusted bytes as a JSON string; what is not UTF-8 becomes U+FFFD. NULL: no memory. */
struct json_object *env_json_string(const char *s);

/*
 * The same for a process: its libraries are the mapped files that the presets of the table claim. environ NULL: its
 * current one. -ESRCH, -EACCES and the like if it cannot be read.
 */
int env_hash_process(pid_t pid, const struct process_text *environ, const struct probe_table *pt, char **ret_json,
	char hash[ENV_HASH_MAX]);

#endif
