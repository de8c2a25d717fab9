/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests from the lines of a profile (docs/profile-schema.md): those that were told apart within the batches of an
 * engine, with the parts of their time; and, without parts, those of engines whose rows are not known.
 */
#ifndef INFTRACE_REPORT_SEQ_H
#define INFTRACE_REPORT_SEQ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report/idmap.h"

struct json_node;
struct process;

/* The parts of a request's time, which add up to it. */
enum seq_part {
	SEQ_QUEUED,
	SEQ_OWN_PREFILL,
	SEQ_OWN_DECODE,
	SEQ_OTHERS,  /* work for other requests */
	SEQ_BETWEEN, /* no step ran */
	SEQ_PARTS,
};

enum seq_flags {
	SEQ_BEGAN_BEFORE = 1 << 0,
	SEQ_UNFINISHED = 1 << 1, /* within one of its steps */
	SEQ_END_NOT_SEEN = 1 << 2,
	SEQ_LOST = 1 << 3, /* steps were lost while it ran */
	SEQ_CANCELLED = 1 << 4,
	SEQ_OF_STEPS = 1 << 5, /* of an engine whose rows are not known: its time is not divided into parts */
	SEQ_MIXED = 1 << 6,    /* of these: it has no times of its own */
	SEQ_PARTED = 1 << 7,   /* its parts add up to its time */
	SEQ_JOINED = 1 << 8,   /* with the exchange on its socket */
};

/* A part of a part, by what the calling thread did meanwhile. */
struct seq_state {
	int64_t ns;
	uint8_t part, state;
};

#define SEQ_WAITS_MAX 8

#define SEQ_UNKNOWN UINT32_MAX /* no sequence */

/* A request for whose rows another one waited. */
struct seq_wait {
	int64_t ns;
	int64_t first; /* before the first token; -1: unknown */
	uint32_t number, sequence;
};

struct seq_request {
	int64_t ts;            /* from the start of the recording */
	int64_t at;            /* on the process' time axis; set by seq_finish */
	int64_t total;         /* from the first byte on the socket, if that is known, else from its first step */
	int64_t ttft;          /* from its first step; -1: none, or unknown */
	int64_t ttft_client;   /* from the socket's first byte to the first part of the answer on it; -1: unknown */
	int64_t answered;      /* from the end of its last step until its answer was written; -1: unknown */
	int64_t write_blocked; /* in calls that wrote the answer and had to wait */
	int64_t tpot;          /* mean; -1: as above */
	int64_t tpot_max;
	int64_t parts[SEQ_PARTS];
	int64_t first_others, first_between; /* the shares of these parts before the first token; -1: unknown */
	int64_t waited_others;               /* for requests that are not among its waits */
	uint64_t context;
	uint32_t number;    /* within the recording; 0: unknown */
	uint32_t recording; /* counted from 0 over all files */
	uint32_t sequence;
	uint32_t prompt_tokens, cached_tokens, output_tokens, steps, steps_shared;
	uint32_t chunks;    /* parts of the answer on its socket */
	uint32_t first_state, first_wait; /* indices into the process' states and waits */
	uint16_t n_states;
	uint16_t flags;
	uint8_t n_waits;
};

/* A request as its client saw it: an exchange on a socket of the server. */
struct seq_exchange {
	int64_t ts;    /* first byte read, from the start of the recording */
	int64_t total; /* until the last byte was written */
	int64_t first; /* until the first part of the answer was written; -1: none */
	int64_t tpot;  /* mean: of its tokens if it is joined with them, else of the parts of its answer; -1: unknown */
	uint32_t recording;
	uint32_t outputs; /* the same: tokens, or parts */
	bool cut;         /* its end was not seen */
};

/* The requests of a process. */
struct seqs {
	struct seq_request *requests; /* after seq_finish: sorted by time */
	size_t len, size;
	struct seq_state *states;
	size_t n_states, states_size;
	struct seq_wait *waits;
	size_t n_waits, waits_size;
	size_t in_batches; /* requests without SEQ_OF_STEPS */
	/* All requests that clients made, joined or not, where sockets were seen: what clients saw is told of these alone. */
	struct seq_exchange *exchanges;
	size_t n_exchanges, exchanges_size;
	uint64_t joined;    /* of the exchanges */
	uint64_t unrelated; /* further exchanges that fit no request of the engine: health checks and the like */
	struct idmap by_number;
};

/* "queued", "own_prefill", ... as in the profile. */
const char *seq_part_name(enum seq_part part);

void seqs_free(struct seqs *s);

/* Reads a line of request_prof. *ret_bad: the key with an impossible value; NULL: the request, or the exchange on a socket,
 * or both, was added. Returns 0 or -ENOMEM. */
int seq_read(struct seqs *s, const struct json_node *shape, const struct json_node *stages, uint32_t recording,
	const char **ret_bad);

/* A slice `request NUMBER` of a trace (docs/trace-format.md), with its args; one that cannot be used is left out. Returns 0
 * or -ENOMEM. */
int seq_read_slice(struct seqs *s, const struct json_node *args, int64_t ts, int64_t dur, uint32_t recording);

/* The place of a recording on the time axis of a process. */
struct recording_place {
	uint32_t recording;
	int64_t offset;
};

/* Sorts them once everything is read; places: of the recordings that have steps, end: of the last step. Returns 0 or
 * -ENOMEM. */
int seq_finish(struct seqs *s, const struct recording_place *places, size_t n_places, int64_t end);

/* The request with this number; NULL: not in the files. */
const struct seq_request *seq_find(const struct seqs *s, uint32_t recording, uint32_t number);

/* The time to its first token, including the queue, if that is known. -1: unknown. */
static inline int64_t seq_first_token(const struct seq_request *r)
{
	return r->ttft < 0 ? -1 : r->ttft + r->parts[SEQ_QUEUED];
}

/* A request in batches, whose rows are known. */
static inline bool seq_told_apart(const struct seq_request *r)
{
	return !(r->flags & (SEQ_OF_STEPS | SEQ_MIXED));
}

#endif
