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
#define ENV_LIBRARIES_MAX 32

struct env_library {
	char *name; /* as the linker recorded it, or that of the program's file */
	char build_id[ELF_BUILD_ID_MAX]; /* "none": it has none, or was not found */
};

/*
 * The program of a process, and the files that a preset claims among it and the libraries that it is linked with. What it
 * loads itself is left out: when that happens, and what of it, differs from run to run. The order does not matter.
 */
struct env_program {
	char exe[ELF_BUILD_ID_MAX];
	struct env_library libraries[ENV_LIBRARIES_MAX];
	size_t n;
};

/* path: of the program that the process will run; NULL: the one that it runs. -ESRCH, -EACCES, -EPERM, -ENOMEM. */
int env_program_read(pid_t pid, const char *path, const struct process_text *environ, const struct probe_table *pt,
	struct env_program *ret_program);
void env_program_free(struct env_program *p);

/*
 * environ NULL: variables are left out. Only those presets count that claim one of the libraries. Returns the canonical JSON
 * (malloc()ed) and its hash; either may be NULL. -ENOMEM; the hash then says that it is unknown.
 */
int env_hash(const struct env_program *p, const struct process_text *environ, const struct probe_table *presets, char **ret_json,
	char hash[ENV_HASH_MAX]);

/* Adds the variables that configure engines, sorted by name, without secrets. -ENOMEM. */
int env_add_settings(const struct process_text *environ, struct json_object *obj);

/* Whether "NAME=VALUE" is one of them. */
bool env_is_setting(const char *variable);

/* Whether it is 64 hexadecimal digits, with or without "sha256:" before them. */
bool env_hash_ok(const char *text);

/* env_hash() of a process now. -ESRCH, -EACCES and the like if it cannot be read. */
int env_hash_process(pid_t pid, const struct probe_table *pt, char **ret_json, char hash[ENV_HASH_MAX]);

#endif
