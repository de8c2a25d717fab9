/* SPDX-License-Identifier: BSD-2-Clause */
/* What the profile's envelope says about the run, the same on every line. */
#ifndef INFTRACE_PROFILE_H
#define INFTRACE_PROFILE_H

#include <stdbool.h>
#include <stdint.h>

struct profile_meta {
	const char *commit_sha;	   /* NULL: unknown */
	const char *model;	   /* not blank */
	uint32_t concurrency;	   /* >= 1 */
	const char *runtime_flags; /* text of a JSON object */
	/* "sha256:..." of the process; asked once, when the first line is written, since only then
	 * the engine's libraries are mapped. Belongs to the callee. */
	const char *(*env_hash)(void *arg, uint32_t tgid);
	void *arg;
};

#endif
