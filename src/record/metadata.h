/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What each process's lines of the profile say about the run: commit, model, concurrency, settings, and
 * the hash of the environment. It comes from the options, else our environment, else the process itself,
 * which is read when it begins, since it may be gone later, and again when its first line is written.
 */
#ifndef INFTRACE_RECORD_METADATA_H
#define INFTRACE_RECORD_METADATA_H

#include "record/options.h"
#include "sink/profile.h"

struct metadata;

/* `o` and `probes` must outlive it. -ENOMEM. */
int metadata_new(const struct record_options *o, const struct probe_table *probes, struct metadata **ret_metadata);
void metadata_free(struct metadata *m);

/* All functions but metadata_free() do nothing if m is NULL: no profile is wanted. */

/* The process runs a new program, or was attached to. */
void metadata_process(struct metadata *m, pid_t pid);

/* A command of ours that will call exec, with our environment: it may end before anybody looks. */
void metadata_command(struct metadata *m, pid_t pid, char **argv);

/* tgid 0: for a line about no process in particular, with what is common to all. Owned by m, and valid
 * until the next call. */
const struct profile_meta *metadata_of(void *m, uint32_t tgid);

/* Whether the text is a JSON object and nothing else. */
bool metadata_flags_ok(const char *text);

#endif
