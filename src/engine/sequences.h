/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls that change what an engine keeps of sequences: functions of the role "sequence" in a preset, whose name says what
 * they do, and whose arguments to which sequence (docs/engines.md, "Life of sequences"). Their records come whatever
 * else is recorded, as those of steps do.
 */
#ifndef INFTRACE_ENGINE_SEQUENCES_H
#define INFTRACE_ENGINE_SEQUENCES_H

#include "engine/engine.h"

enum sequence_what {
	SEQUENCE_REMOVE, /* its positions from..to-1 */
	SEQUENCE_COPY,	 /* those of `source` are in `sequence` as well */
	SEQUENCE_KEEP,	 /* all others are removed */
	SEQUENCE_SHIFT,	 /* positions from..to-1 are `by` higher */
	SEQUENCE_CLEAR,	 /* all of the context are removed */
	SEQUENCE_WHATS,
};

struct sequence_change {
	enum sequence_what what;
	uint64_t at_ns; /* CLOCK_BOOTTIME */
	uint32_t tgid, tid;
	uint64_t context; /* as the step's argument; 0: see sequence_context() */
	uint64_t memory;  /* 0: not told */
	bool every;	  /* sequence, if it has one */
	uint64_t sequence, source; /* as in struct row_part */
	int64_t from, to; /* 0 and INT64_MAX: all of it */
	int64_t by;
};

/* Which memory is which context's, as far as calls have told. */
struct sequence_memories;

/* -ENOMEM. */
int sequence_memories_new(struct sequence_memories **ret_memories);
void sequence_memories_free(struct sequence_memories *m);

/* What a call does. False: nothing (it may tell of a memory, though), or it has no such role, or its arguments do not fit. */
bool sequence_change_of(struct sequence_memories *m, const struct probe_table *probes, const struct rec_function *r,
	struct sequence_change *ret);

/* Of which context it is. To be asked once all records that came before the change have been given. 0: not known, since
 * the engine got the memory before the recording. */
uint64_t sequence_context(const struct sequence_memories *m, const struct sequence_change *c);

#endif
