/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls that change what an engine keeps of sequences: functions of the role "sequence" in a preset, whose name says
 * what they do, and whose arguments say to which sequence (docs/engines.md, "Life of sequences"). Like those of steps,
 * their records are always sent.
 */
#ifndef INFTRACE_REQUESTS_SEQUENCES_H
#define INFTRACE_REQUESTS_SEQUENCES_H

#include "engine/spec.h"

enum sequence_what {
	SEQUENCE_REMOVE, /* its positions from..to-1 */
	SEQUENCE_COPY,   /* positions of `source` are also in `sequence` */
	SEQUENCE_KEEP,   /* all others are removed */
	SEQUENCE_SHIFT,  /* positions from..to-1 are `by` higher */
	SEQUENCE_CLEAR,  /* all of the context are removed */
	SEQUENCE_PLACE,  /* what comes into the sequence next is `request` */
	SEQUENCE_BEGIN,  /* the engine works on the prompt of the request that was placed */
	SEQUENCE_TOKEN,  /* a token of the sequence has been sampled */
	SEQUENCE_END,    /* the engine is done with the request in the sequence */
	SEQUENCE_WHATS,
};

struct sequence_change {
	enum sequence_what what;
	uint64_t at_ns;   /* CLOCK_BOOTTIME */
	uint64_t said_ns; /* likewise: when it was, as the engine says, if that can be believed; 0: it does not */
	uint32_t tgid, tid;
	bool off_known; /* off_cpu_ns is, as in struct rec_function */
	uint32_t off_cpu_ns;
	uint64_t context;          /* as the step's argument; 0: see sequence_context() */
	uint64_t memory;           /* 0: not known */
	bool every;                /* sequence, if it has one */
	uint64_t sequence, source; /* as in struct row_part */
	int64_t from, to;          /* 0 and INT64_MAX: all of it */
	int64_t by;
	uint64_t request; /* the engine's number of it, plus 1; 0: none */
	uint64_t draft;   /* the context whose steps only guess tokens for this one's; 0: none */
};

/* What calls have shown of a process: the context of a memory, or that a context is one of a draft model. */
#define SHOWN_CONTEXTS_MAX 256 /* beyond that the one reported longest ago is forgotten */

struct shown_contexts {
	struct {
		uint32_t tgid;
		uint64_t key, context; /* key: the memory, or the context itself */
	} list[SHOWN_CONTEXTS_MAX];
	size_t n, next;
};

/* Contexts of draft models: their steps give nobody a token. */
void drafts_add(struct shown_contexts *d, uint32_t tgid, uint64_t context);
bool drafts_have(const struct shown_contexts *d, uint32_t tgid, uint64_t context);

/* The same of a call, if it tells of one. */
void drafts_learn(struct shown_contexts *d, const struct probe_table *probes, const struct rec_function *r);

/* Marks a step of such a context as one: an argument of an enum that has "draft" gets that value. Returns the record, or a
 * copy, which is valid until the next call. */
const struct rec_step *drafts_mark(const struct shown_contexts *d, const struct probe_table *probes, const struct rec_step *r,
	size_t size);

/* What a call does. m: of memories. False: nothing (though it may show a memory), or it has no such role, or its arguments do not
 * fit. */
bool sequence_change_of(struct shown_contexts *m, const struct probe_table *probes, const struct rec_function *r,
	struct sequence_change *ret);

/* Whether the calling thread has passed on what it has read from a socket as this request: its number, plus 1. */
bool sequence_received(const struct probe_table *probes, const struct rec_function *r, uint64_t *ret_request);

/* The context of a change. Call it when all records before the change have been passed. 0: unknown, since the engine
 * got the memory before the recording. */
uint64_t sequence_context(const struct shown_contexts *m, const struct sequence_change *c);

#endif
