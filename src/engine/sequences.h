/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls that change what an engine keeps of sequences: functions of the role "sequence" in a preset, whose name says
 * what they do, and whose arguments say to which sequence (docs/engines.md, "Life of sequences"). Like those of steps,
 * their records are always sent.
 */
#ifndef INFTRACE_ENGINE_SEQUENCES_H
#define INFTRACE_ENGINE_SEQUENCES_H

#include "engine/engine.h"

enum sequence_what {
	SEQUENCE_REMOVE, /* its positions from..to-1 */
	SEQUENCE_COPY,	 /* those of `source` are also in `sequence` */
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
	uint64_t memory;  /* 0: not known */
	bool every;	  /* sequence, if it has one */
	uint64_t sequence, source; /* as in struct row_part */
	int64_t from, to; /* 0 and INT64_MAX: all of it */
	int64_t by;
};

/* Which memory belongs to which context, as far as calls have shown. */
struct sequence_memories;

/* -ENOMEM. */
int sequence_memories_new(struct sequence_memories **ret_memories);
void sequence_memories_free(struct sequence_memories *m);

/* What a call does. False: nothing (though it may show a memory), or it has no such role, or its arguments do not
 * fit. */
bool sequence_change_of(struct sequence_memories *m, const struct probe_table *probes, const struct rec_function *r,
	struct sequence_change *ret);

/* The context of a change. Call it when all records before the change have been passed. 0: unknown, since the engine
 * got the memory before the recording. */
uint64_t sequence_context(const struct sequence_memories *m, const struct sequence_change *c);

#endif
