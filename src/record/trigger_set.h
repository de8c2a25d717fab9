/* SPDX-License-Identifier: BSD-2-Clause */
/* The triggers of a recording and how a hit is reported, shared by the files of trigger.h. */
#ifndef INFTRACE_RECORD_TRIGGER_SET_H
#define INFTRACE_RECORD_TRIGGER_SET_H

#include "engine/step_requests.h"
#include "record/queue_watch.h"
#include "record/trigger_hit.h"

struct rates;

enum trigger_kind {
	KIND_STEP,
	KIND_STATE,
	KIND_GPU_IDLE,
	KIND_TTFT, /* from this one to KIND_RATE they need the steps as requests */
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
	bool told; /* reported or not, for a hit that was only counted */
};

#define NO_TOKEN_MAX 256

struct trigger_set {
	struct trigger list[TRIGGERS_MAX];
	size_t n;
	const struct probe_table *probes;
	struct step_requests *requests; /* NULL: no ttft, no rate */
	struct queue_watch *queue;	/* NULL: no queue */
	struct rates *rates;            /* NULL: no rate */
	uint64_t cooldown_ns;
	uint64_t last_ns; /* of the last hit that was reported */
	uint64_t last_crash_ns;
	uint64_t lost;    /* at the previous hit of that kind */
	uint32_t max_hits;
	struct trigger_counts counts;
	struct trigger_hit hit;
	bool pending; /* the hit is still to be reported */
	struct no_token no_token[NO_TOKEN_MAX]; /* if there are more, the oldest are dropped */
	size_t n_no_token;
};

/* Whether to report it; then the rest of the hit is to be filled in. */
bool trigger_is_told(struct trigger_set *set, struct trigger *t, uint64_t ns, uint32_t tgid);

/* The reason, after the expression. */
void trigger_tell(struct trigger_set *set, const struct trigger *t, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#define TIME_TEXT_MAX 32
const char *trigger_time(char buf[TIME_TEXT_MAX], uint64_t ns);

/* The hit to report, once; NULL: none. */
const struct trigger_hit *trigger_take(struct trigger_set *set);

/* ---- trigger_requests.c: request_ttft, request_tpot, queue. Of struct step_requests_ops ---- */

void trigger_request_begin(struct trigger_set *set, const struct step_request *r);
void trigger_request_first(struct trigger_set *set, const struct step_request *r);
void trigger_request_step(struct trigger_set *set, const struct step_seen *s);
void trigger_request_token(
	struct trigger_set *set, const struct step_request *r, const struct step_seen *s, uint64_t ns);
/* Those whose time in the queue is known by now. */
void trigger_queue(struct trigger_set *set);
void trigger_request_mixed(struct trigger_set *set, const struct step_request *r);

#endif
