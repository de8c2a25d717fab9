/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls that change what an engine keeps of sequences: functions of the role "sequence" in a preset, whose name tells
 * what they do, and whose arguments tell to which sequence (docs/engines.md, "Life of sequences"). Like steps, they are
 * always recorded.
 */
#ifndef INFTRACE_ENGINE_SEQUENCES_H
#define INFTRACE_ENGINE_SEQUENCES_H

#include "engine/spec.h"

enum sequence_what {
	SEQUENCE_REMOVE, /* its positions from..to-1 */
	SEQUENCE_COPY,   /* positions of `source` are also in `sequence` */
	SEQUENCE_KEEP,   /* all others are removed */
	SEQUENCE_SHIFT,  /* positions from..to-1 are `by` higher */
	SEQUENCE_CLEAR,  /* all sequences of the context are removed */
	SEQUENCE_PLACE,  /* what comes into the sequence next is `request` */
	SEQUENCE_BEGIN,  /* the engine works on the prompt of the request that was placed */
	SEQUENCE_TOKEN,  /* a token of the sequence has been sampled */
	SEQUENCE_END,    /* the engine is done with the request in the sequence */
	SEQUENCE_FIRST,  /* the request in the sequence is in a step for the first time; it arrived at said_ns */
	SEQUENCE_WHATS,
};

struct sequence_change {
	enum sequence_what what;
	uint64_t at_ns;   /* CLOCK_BOOTTIME */
	uint64_t said_ns; /* likewise: the time that the engine tells, which may be wrong; 0: none */
	uint32_t tgid, tid;
	bool off_known; /* off_cpu_ns is known, as in struct rec_function */
	uint32_t off_cpu_ns;
	uint64_t context;          /* as the step's argument; 0: see sequence_context() */
	uint64_t memory;           /* 0: unknown */
	bool every;                /* it is about every sequence */
	uint64_t sequence, source; /* as in struct row_part */
	int64_t from, to;          /* positions; 0 and INT64_MAX: all */
	int64_t by;
	uint64_t request; /* the engine's number of it, plus 1; 0: none */
	uint64_t draft;   /* the draft model's context, whose steps only guess tokens for this one; 0: none */
};

/* What calls have shown: the context of a memory, or that a context is a draft model's. */
#define SHOWN_CONTEXTS_MAX 256 /* if full, the one reported longest ago is forgotten */

struct shown_contexts {
	struct {
		uint32_t tgid;
		uint64_t key, context; /* key: the memory, or the context itself */
	} list[SHOWN_CONTEXTS_MAX];
	size_t n, next;
};

/* Contexts of draft models: the steps of these give no request a token. */
void drafts_add(struct shown_contexts *d, uint32_t tgid, uint64_t context);
bool drafts_have(const struct shown_contexts *d, uint32_t tgid, uint64_t context);

/* Adds the draft model's context that a call of ROLE_SEQUENCE tells of, if it does. */
void drafts_learn(struct shown_contexts *d, const struct probe_spec *s, const struct rec_function *r);

/* Marks the step of a draft model: an argument of an enum that has "draft" gets that value. Returns the record, or a copy,
 * which is valid until the next call. */
const struct rec_step *drafts_mark(const struct shown_contexts *d, const struct probe_spec *s, const struct rec_step *r, size_t size);

/* What a call changes. Adds the context of a memory to m. false: nothing, or its role is another, or its arguments do not
 * fit. */
bool sequence_change_of(struct shown_contexts *m, const struct probe_table *probes, const struct rec_function *r,
	struct sequence_change *ret);

/* Whether with this call a server passes a request on to its engine. ret_id: sequence_id_hash() of its id. */
bool sequence_sent(const struct probe_table *probes, const struct rec_function *r, uint64_t *ret_id);

/* Stands for a request's id, in whatever process. */
uint64_t sequence_id_hash(const char *id);

/* Whether with this call a thread passes on what it has read from a socket. ret_request: the request's number, plus 1. */
bool sequence_received(const struct probe_table *probes, const struct rec_function *r, uint64_t *ret_request);

/* The context of a change. Call it once all records before the change have been passed. 0: unknown, since the engine
 * got the memory before the recording. */
uint64_t sequence_context(const struct shown_contexts *m, const struct sequence_change *c);

#endif
