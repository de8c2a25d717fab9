/* SPDX-License-Identifier: BSD-2-Clause */
/* What a process's lines of the profile say about the run: commit, model, concurrency, settings, and the hash of the
 * environment. From the options, else our environment, else the process, which is read when it begins, since it may be gone
 * later, and again when its first line is written. */
#ifndef INFTRACE_RECORD_METADATA_H
#define INFTRACE_RECORD_METADATA_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "format/profile.h"
#include "record/options.h"
#include "target/elf.h"
#include "target/process.h"

struct metadata;
struct probe_table;

/* `o` and `probes` must outlive it. */
struct metadata *metadata_new(const struct record_options *o, const struct probe_table *probes);
void metadata_free(struct metadata *m);

/* All functions but metadata_free() do nothing if m is NULL: no profile is wanted. */

/* The process runs a new program, or was attached to. */
void metadata_process(struct metadata *m, pid_t pid);

/* A command of ours that will call exec, with our environment: it may end before anybody looks. */
void metadata_command(struct metadata *m, pid_t pid, char **argv);

/* tgid 0: for a line about no process in particular. Valid until the next call. */
const struct profile_meta *metadata_of(void *m, uint32_t tgid);

/* Whether the text is a JSON object and nothing else. */
bool metadata_flags_ok(const char *text);

/* ---- the hash, equal for two runs if their kernels, hardware, engines and settings are: docs/profile-schema.md ---- */

#define ENV_HASH_UNKNOWN "sha256:unknown"
#define ENV_HASH_MAX sizeof("sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef")
#define ENV_LIBRARIES_MAX 32

struct env_library {
	char *name;                      /* as the linker recorded it; of the program: its file's */
	char build_id[ELF_BUILD_ID_MAX]; /* "none": it has none, or was not found */
};

/* The program of a process, and what a preset claims of it and the libraries that it is linked with, in no order.
 * What it loads itself differs from run to run, and is left out. */
struct env_program {
	char exe[ELF_BUILD_ID_MAX];
	struct env_library libraries[ENV_LIBRARIES_MAX];
	size_t n;
};

/* environ NULL: no variables. Presets count that claim one of the libraries. Returns the canonical JSON (malloc()ed)
 * and its hash; either may be NULL. -EIO; the hash then says that it is unknown. */
int env_hash(const struct env_program *p, const struct process_text *environ, const struct probe_table *presets, char **ret_json,
	char hash[ENV_HASH_MAX]);

/* Whether it is 64 hexadecimal digits, with or without "sha256:" before them. */
bool env_hash_ok(const char *text);

/* env_hash() of a process now. -ESRCH, -EACCES and the like if it cannot be read. */
int env_hash_process(pid_t pid, const struct probe_table *pt, char **ret_json, char hash[ENV_HASH_MAX]);

/* ---- settings where no option is given: from our environment, then from a target's ---- */

/* A value from our environment; NULL when it is not set, empty or blank. */
const char *environment_ours(const char *name);

/* The environment of a process, read once. */
struct environment {
	pid_t pid; /* 0: there is no process, and nothing is set */
	struct process_text text;
	bool may_choose; /* neither where root writes nor what it waits for, if it is another user's */
};

/* An environment that cannot be read is empty. pid 0: none. */
void environment_read(pid_t pid, struct environment *ret);
void environment_free(struct environment *e);

/* The same from the environment of the process. */
const char *environment_theirs(const struct environment *e, const char *name);

/* A variable under our name or another tool's, in our environment or theirs. VLLM_CHAKRA_TRACE=0 switches those off. */
struct variable {
	const char *name, *value;
	pid_t pid; /* whose environment; 0: ours */
};

bool environment_find(const struct environment *e, const char *const names[2], struct variable *ret);

/* As the other tool reads a switch. */
bool environment_is_on(const char *value);

/* The path in a variable, as seen by us; malloc()ed. */
char *environment_path(const struct variable *v);

/* "in the environment", "of process 123" */
const char *environment_whose(const struct variable *v, char buf[32]);

#define COMMAND_LINE_MAX 1024

/* How the recording was started: the words of argv, quoted for a shell, without possible secrets, or "...". Of a COMMAND
 * (a place in argv; NULL: none) only the program, since its arguments may hold prompts. Returns text. */
const char *command_line_text(char *const argv[], char *const *command, char text[COMMAND_LINE_MAX]);

#endif
