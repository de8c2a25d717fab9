/* SPDX-License-Identifier: BSD-2-Clause */
/* What the profile's envelope says about the run, the same on every line of a process. */
#ifndef INFTRACE_PROFILE_H
#define INFTRACE_PROFILE_H

#include <stdbool.h>
#include <stdint.h>

struct profile_meta {
	const char *commit_sha;	   /* NULL: unknown */
	const char *model;	   /* not blank */
	uint32_t concurrency;	   /* >= 1 */
	const char *runtime_flags; /* text of a JSON object */
	const char *env_hash;	   /* "sha256:..."; NULL: unknown */
	bool incomplete;	   /* more may be known later */
	/* What is known of a process, 0: of none in particular, valid until the next call; asked when the
	 * first line about it is written, since only then the engine's libraries are mapped, and some times
	 * more as long as it is incomplete. NULL: the members above are those of all. */
	const struct profile_meta *(*of)(void *arg, uint32_t tgid);
	void *arg;
};

#endif
