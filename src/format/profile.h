/* SPDX-License-Identifier: BSD-2-Clause */
/* What the profile's envelope says about the run, the same on every line of a process. */
#ifndef INFTRACE_PROFILE_H
#define INFTRACE_PROFILE_H

#include <stdbool.h>
#include <stdint.h>

struct profile_meta {
	const char *commit_sha;    /* NULL: unknown */
	const char *model;         /* not blank */
	uint32_t concurrency;      /* 0: unknown: the most that are seen */
	bool configured;           /* concurrency is from the engine's options, rather than said by somebody */
	const char *runtime_flags; /* text of a JSON object */
	const char *env_hash;      /* "sha256:..."; NULL: unknown */
	bool incomplete;           /* more may become known later */
	/* Returns what is known of a process (0: of none in particular), valid until the next call. Called
	 * when the first line about it is written, since the engine's libraries are not mapped before, and
	 * again while it is incomplete. NULL: the members above apply to all. */
	const struct profile_meta *(*of)(void *arg, uint32_t tgid);
	void *arg;
};

#endif
