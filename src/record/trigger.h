/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The expressions of --trigger: which record is a reason to dump the flight recorder.
 *
 *   request_ttft>2s  a request, batched or alone, has no first token this long after its first step: reported at the
 *                    end of the next step
 *   request_tpot>T   a token of a request came this long after the previous one
 *   queue>T          a request waited this long from its first byte on a socket to its first step, where the two can be
 *                    joined: reported after both are over
 *   step>150ms       an engine step of any kind; decode>T, prefill>T: only of this kind
 *   STATE>50ms       within a step, its calling thread spent more than this in a state of the breakdown: runnable,
 *                    blocked_futex, ...; blocked: in all blocked_ states together
 *   gap>T            a step began this long after the previous one of its context, less the time in which what it waited for came
 *                    from outside: known some time after the step
 *   gpu_idle>T       within a step, a GPU was idle for longer than this at a stretch, since nothing had been launched; needs
 *                    record --gpu, and is reported some time after the step
 *   ttft>2s          from the start of a request's first prefill step to the end of its last one, or from a request's first
 *                    byte on a socket to the first part of its answer
 *   rate<10          tokens per second of a process' decode steps, over its last second of decoding
 *   lost>0           more records than this were lost since the last such hit
 *   exit, crash      a target has ended; crash: by a signal
 */
#ifndef INFTRACE_RECORD_TRIGGER_H
#define INFTRACE_RECORD_TRIGGER_H

#include <stdbool.h>
#include <stdint.h>

#include "record.h"
#include "requests/step_requests.h"

struct probe_table;
struct queue_watch;
struct rated_process;

/* ---- how fast tokens come ---- */

/*
 * Tokens of a process over its last second of decoding. A decode step counts from the end of the previous step to its own.
 * After a second without any step, in which nobody can have asked for tokens, the rate starts afresh.
 */
struct rate {
	uint64_t tokens, ns;
};

#define RATES_MAX 64 /* processes; if full, the one that was quiet for longest is forgotten */

struct rates {
	struct rated_process *list[RATES_MAX];
	size_t n;
};

/* ---- a set of expressions ---- */

#define TRIGGER_REASON_MAX 192
#define TRIGGERS_MAX 16 /* expressions */

struct trigger_hit {
	const char *expr;                /* as it was typed */
	char reason[TRIGGER_REASON_MAX]; /* for people, beginning with the expression */
	uint64_t ns;                     /* CLOCK_BOOTTIME at the end of what was too long */
	uint32_t tgid;                   /* 0: no particular process */
};

enum trigger_kind {
	KIND_STEP,
	KIND_STATE,
	KIND_GAP,
	KIND_GPU_IDLE,
	KIND_TTFT, /* this one to KIND_RATE need struct step_requests */
	KIND_REQUEST_TTFT,
	KIND_REQUEST_TPOT,
	KIND_QUEUE,
	KIND_RATE,
	KIND_LOST,
	KIND_EXIT,
	KIND_CRASH,
};

struct trigger {
	char *expr;
	enum trigger_kind kind;
	const char *phase; /* KIND_STEP: only steps with this name; NULL: all */
	uint32_t states;   /* KIND_STATE: 1 << enum time_state */
	uint64_t limit;    /* nanoseconds; records lost; tokens in 10^9 seconds */
	uint64_t judged, hits, left_out;
};

/* A request that has begun and has no token yet. */
struct no_token {
	uint64_t from, context, sequence;
	uint32_t serial, tgid;
	bool told; /* it was a hit, reported or only counted */
};

#define NO_TOKEN_MAX 256

struct trigger_set {
	struct trigger list[TRIGGERS_MAX];
	size_t n;
	const struct probe_table *probes;
	struct step_requests *requests; /* NULL: none of KIND_TTFT to KIND_RATE */
	struct queue_watch *queue;      /* NULL: no queue */
	struct rates rates;
	uint64_t cooldown_ns;
	uint64_t last_ns; /* of the last hit that was reported */
	uint64_t last_crash_ns;
	uint64_t lost; /* total at the last hit of KIND_LOST */
	uint32_t max_hits;
	struct {
		uint64_t hits;            /* reported */
		uint64_t cooling, beyond; /* only counted: during a cool-down, after max_hits */
	} counts;
	struct trigger_hit hit;
	bool pending;                           /* the hit is still to be reported */
	struct no_token no_token[NO_TOKEN_MAX]; /* if there are more, the oldest are dropped */
	size_t n_no_token;
};

/* Adds an expression to *set, which is created if it is NULL. Prints one line on failure. */
int trigger_parse(struct trigger_set **set, const char *text);
void trigger_free(struct trigger_set *set);

bool trigger_needs_gpu(const struct trigger_set *set);

/* Hits during the cool-down after a hit, and all after max_hits (0: no limit), are only counted. */
void trigger_start(struct trigger_set *set, const struct probe_table *probes, uint64_t cooldown_ns, uint32_t max_hits);

/* NULL: no hit, or one that is only counted. A hit is valid until the next call. */
const struct trigger_hit *trigger_record(struct trigger_set *set, const struct rec_hdr *h);

/* See struct sink_ops: by now steps are in order as far as possible. */
const struct trigger_hit *trigger_settled(struct trigger_set *set);

/* The recording is over: judges what was waiting for more. Nothing but hits may follow. */
const struct trigger_hit *trigger_finish(struct trigger_set *set);

/* `n` steps were lost, perhaps with the tokens that requests wait for. */
void trigger_lost_steps(struct trigger_set *set, uint64_t n);

/* total_lost: records of all kinds since the start. */
const struct trigger_hit *trigger_loss(struct trigger_set *set, uint64_t total_lost, uint64_t now_ns);

/* At the end: prints a line for each expression. */
void trigger_summary(const struct trigger_set *set);

/* ---- tokens per second, for tests ---- */

void rates_free(struct rates *rs); /* frees what rs has, but not rs */

/* Takes a step, in the order in which they began. Returns whether there is a whole second of decoding. */
bool rates_step(struct rates *rs, const struct step_seen *s, struct rate *ret_rate);

/* `limit`: tokens in 10^9 seconds. */
bool rate_below(const struct rate *r, uint64_t limit);

#endif
