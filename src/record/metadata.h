/* SPDX-License-Identifier: BSD-2-Clause */
/* The run's metadata in a process's profile lines: commit, model, concurrency, settings, and the hash of the environment.
 * It is from the options, else our environment, else the process, which is read when it begins, since it may be gone later,
 * and again for its first line. */
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

/* metadata_process() and metadata_command() do nothing if m is NULL: no profile is wanted. */

/* The process runs a new program, or was attached to. */
void metadata_process(struct metadata *m, pid_t pid);

/* Our COMMAND will call exec, with our environment: it may end before it can be read. */
void metadata_command(struct metadata *m, pid_t pid, char **argv);

/* Returns the metadata of a process, valid until the next call. tgid 0: for a line about no process in particular. */
const struct profile_meta *metadata_of(void *m, uint32_t tgid);

/* Whether the text is a JSON object and nothing else. */
bool metadata_flags_ok(const char *text);

/* ---- the hash, equal for two runs if their kernels, hardware, engines and settings are: docs/profile-schema.md ---- */

#define ENV_HASH_UNKNOWN "sha256:unknown"
#define ENV_HASH_MAX sizeof("sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef")
#define ENV_LIBRARIES_MAX 32

struct env_library {
	char *name;                      /* as the linker recorded it; for the program, its file name */
	char build_id[ELF_BUILD_ID_MAX]; /* "none": it has none, or was not found */
};

/* A process's program, and what presets claim of it and its linked libraries, in no order. Libraries that it loads itself
 * differ from run to run, and are left out. */
struct env_program {
	char exe[ELF_BUILD_ID_MAX];
	struct env_library libraries[ENV_LIBRARIES_MAX];
	size_t n;
};

/* Returns the canonical JSON (malloc()ed) and its hash; either may be NULL. environ NULL: no variables. Only presets that
 * claim one of the libraries count. -EIO: the hash is ENV_HASH_UNKNOWN. */
int env_hash(const struct env_program *p, const struct process_text *environ, const struct probe_table *presets, char **ret_json,
	char hash[ENV_HASH_MAX]);

/* Whether it is 64 hexadecimal digits, with or without "sha256:" before them. */
bool env_hash_ok(const char *text);

/* env_hash() of a running process. -ESRCH, -EACCES and the like if it cannot be read. */
int env_hash_process(pid_t pid, const struct probe_table *pt, char **ret_json, char hash[ENV_HASH_MAX]);

/* ---- settings where no option is given: from our environment, then from a target's ---- */

/* A value from our environment; NULL when it is not set, empty or blank. */
const char *environment_ours(const char *name);

/* The environment of a process, read once. */
struct environment {
	pid_t pid; /* 0: there is no process, and nothing is set */
	struct process_text text;
	bool may_choose; /* false for another user's process: it must not choose where root writes or what it waits for */
};

/* An environment that cannot be read is empty. pid 0: none. */
void environment_read(pid_t pid, struct environment *ret);
void environment_free(struct environment *e);

/* Like environment_ours(), from the environment of the process. */
const char *environment_theirs(const struct environment *e, const char *name);

/* A variable under our name or another tool's, in our environment or theirs. VLLM_CHAKRA_TRACE=0 disables all VLLM_CHAKRA_*. */
struct variable {
	const char *name, *value;
	pid_t pid; /* whose environment; 0: ours */
};

bool environment_find(const struct environment *e, const char *const names[2], struct variable *ret);

/* Whether a switch is on, by the other tool's rules. */
bool environment_is_on(const char *value);

/* Returns the path in a variable, as inftrace sees it; malloc()ed. */
char *environment_path(const struct variable *v);

/* "in the environment", "of process 123" */
const char *environment_whose(const struct variable *v, char buf[32]);

#define COMMAND_LINE_MAX 1024

/* Writes how the recording was started: argv quoted for a shell, with possible secrets masked, cut off by "..." if too long.
 * Of a COMMAND (its place in argv; NULL: none) only the program, since its arguments may hold prompts. Returns text. */
const char *command_line_text(char *const argv[], char *const *command, char text[COMMAND_LINE_MAX]);

#endif
