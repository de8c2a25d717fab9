// SPDX-License-Identifier: BSD-2-Clause
#include "requests/request_pairs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "schema/profile_keys.h"
#include "util/clock.h"

#define DECIDE_NS UINT64_C(2000000000) /* between two looks for requests that belong together */
/* No further request is awaited this long after the last of a group that may belong together; and this long after one on a
 * socket as long as no step shows a sequence. */
#define WAIT_NS UINT64_C(10000000000)
#define WAIT_ALONE_NS UINT64_C(2000000000)
#define HELD_MAX 512 /* of each kind; if full, all are told with what is known then */
#define RECEIVED_MAX 4096 /* the last ones; of sockets that are served longer the number is not known */
#define NUMBERING_MAX 256
#define OPEN_MAX (JOIN_SEQUENCES - HELD_MAX)

_Static_assert(HELD_MAX <= JOIN_SOCKETS, "all that are held are looked at together");

struct request_pairs {
	const struct request_pairs_ops *ops;
	void *arg;
	struct join *join;
	struct {
		void *request;
		uint64_t end;
	} done[HELD_MAX];
	struct rec_request *records[HELD_MAX];
	size_t n_done, n_records;
	/* of the requests in done, followed by those that are not over */
	struct join_sequence sequences[JOIN_SEQUENCES];
	struct join_socket sockets[HELD_MAX];
	struct join_answer of_sequences[JOIN_SEQUENCES], of_sockets[JOIN_SOCKETS];
	struct join_sequence open[OPEN_MAX];
	uint32_t open_serials[OPEN_MAX];
	size_t n_open;
	struct {
		uint32_t tgid, tid;
		uint64_t at_ns, given;
	} received[RECEIVED_MAX];
	uint64_t n_received;
	uint32_t numbering[NUMBERING_MAX]; /* processes that number their requests */
	size_t n_numbering;
	uint64_t group_ends[JOIN_SOCKETS + JOIN_SEQUENCES];
	uint64_t latest, decided; /* instants */
	uint64_t latest_seen;     /* when latest was set */
	bool sequences_seen;
};

const char *request_pairs_why(enum join_result why)
{
	return why == JOIN_NONE ? PROFILE_JOINED_NONE : why == JOIN_OPEN ? "one is not over"
								 : "several fit";
}

static bool numbers(const struct request_pairs *p, uint32_t tgid)
{
	size_t i = 0;

	while (i < p->n_numbering && p->numbering[i] != tgid)
		i++;
	return i < p->n_numbering;
}

void request_pairs_received(struct request_pairs *p, const struct rec_hdr *call, uint64_t given)
{
	size_t i = p->n_received++ % RECEIVED_MAX;

	p->received[i].tgid = call->tgid;
	p->received[i].tid = call->tid;
	p->received[i].at_ns = call->start_ns;
	p->received[i].given = given;
	if (!numbers(p, call->tgid) && p->n_numbering < NUMBERING_MAX)
		p->numbering[p->n_numbering++] = call->tgid;
}

/* The number of what the thread that answers has passed on between the request and its answer. 0: unknown. */
static uint64_t given_of(const struct request_pairs *p, const struct rec_request *r)
{
	uint64_t n = p->n_received < RECEIVED_MAX ? p->n_received : RECEIVED_MAX;
	uint64_t until = r->first_chunk_ns ? r->first_chunk_ns : r->h.start_ns + r->h.dur_ns;

	for (uint64_t i = p->n_received; i > p->n_received - n; i--) {
		size_t k = (i - 1) % RECEIVED_MAX;

		if (p->received[k].tid == r->h.tid && p->received[k].tgid == r->h.tgid && p->received[k].at_ns >= r->h.start_ns &&
			p->received[k].at_ns <= until)
			return p->received[k].given;
	}
	return 0;
}

static struct join_socket socket_of(const struct request_pairs *p, const struct rec_request *r)
{
	return (struct join_socket){
		.tgid = r->h.tgid,
		.chunks = r->chunks,
		.start = r->h.start_ns,
		.first = r->first_chunk_ns,
		.last = r->h.start_ns + r->h.dur_ns,
		.blocked = r->blocked_ns,
		.gone = r->gone_ns != 0,
		.writes = r->writes,
		.given = given_of(p, r),
		.tid = r->h.tid,
	};
}

static void set_latest(struct request_pairs *p, uint64_t ns)
{
	if (ns <= p->latest)
		return;
	p->latest = ns;
	p->latest_seen = clock_boot_ns();
}

/* Time goes on where nothing comes any more. */
static uint64_t now_of(const struct request_pairs *p)
{
	return p->latest + (clock_boot_ns() - p->latest_seen);
}

/* When the last of each group was over; UINT64_MAX: one is still going on. */
static void find_group_ends(struct request_pairs *p)
{
	memset(p->group_ends, 0, sizeof(p->group_ends));
	for (size_t i = 0; i < p->n_records; i++) {
		const struct rec_hdr *r = &p->records[i]->h;
		uint64_t *end = &p->group_ends[p->of_sockets[i].group];

		if (r->start_ns + r->dur_ns > *end)
			*end = r->start_ns + r->dur_ns;
	}
	for (size_t i = 0; i < p->n_done + p->n_open; i++) {
		uint64_t ns = i < p->n_done ? p->done[i].end : UINT64_MAX, *end = &p->group_ends[p->of_sequences[i].group];

		if (ns > *end)
			*end = ns;
	}
}

/* What is joined by its number awaits nothing else. */
static bool is_due(const struct request_pairs *p, const struct join_answer *a, uint64_t given, bool all)
{
	uint64_t end = p->group_ends[a->group];

	return all || (given && a->result == JOIN_DONE) || (end < UINT64_MAX && p->decided >= end + (p->sequences_seen ? WAIT_NS : WAIT_ALONE_NS));
}

/* What an engine does by itself to warm up. */
static bool is_nobodys(const struct request_pairs *p, const struct join_sequence *q)
{
	return !q->given && !q->vague && numbers(p, q->tgid);
}

static void tell_due(struct request_pairs *p, bool all)
{
	size_t n_done = 0, n_records = 0;

	for (size_t i = 0; i < p->n_done; i++) {
		const struct join_answer *a = &p->of_sequences[i];

		if (!is_due(p, a, p->sequences[i].given, all)) {
			p->sequences[n_done] = p->sequences[i];
			p->done[n_done++] = p->done[i];
		} else if (is_nobodys(p, &p->sequences[i])) {
			p->ops->dropped(p->done[i].request, p->arg);
		} else {
			p->ops->sequence(p->done[i].request, a->result == JOIN_DONE ? p->records[a->with] : NULL, a->result,
				p->arg);
		}
	}
	for (size_t i = 0; i < p->n_records; i++) {
		const struct join_answer *a = &p->of_sockets[i];

		if (!is_due(p, a, p->sockets[i].given, all)) {
			p->records[n_records++] = p->records[i];
			continue;
		}
		if (a->result != JOIN_DONE && p->ops->socket)
			p->ops->socket(p->records[i], !p->sequences_seen, a->result, p->arg);
		free(p->records[i]);
	}
	p->n_done = n_done;
	p->n_records = n_records;
}

/* Tells those that need not wait for another one; all: every one. */
static void decide(struct request_pairs *p, bool all)
{
	p->decided = now_of(p);
	for (size_t i = 0; i < p->n_records; i++)
		p->sockets[i] = socket_of(p, p->records[i]);
	memcpy(p->sequences + p->n_done, p->open, p->n_open * sizeof(*p->open));
	join_decide(p->join, p->sockets, p->n_records, p->sequences, p->n_done + p->n_open, p->of_sockets, p->of_sequences);
	find_group_ends(p);
	tell_due(p, all);
}

void request_pairs_begin(struct request_pairs *p, const struct step_request *r)
{
	p->sequences_seen = true;
	if (p->n_open == OPEN_MAX) /* there are never that many sequences */
		return;
	p->open[p->n_open] = (struct join_sequence){
		.tgid = r->tgid, .open = true, .start = r->start, .given = r->given
	};
	p->open_serials[p->n_open++] = r->serial;
}

static size_t find_open(const struct request_pairs *p, uint32_t serial)
{
	size_t i = 0;

	while (i < p->n_open && p->open_serials[i] != serial)
		i++;
	return i;
}

void request_pairs_first(struct request_pairs *p, const struct step_request *r)
{
	size_t i = find_open(p, r->serial);

	if (i < p->n_open)
		p->open[i].first = r->first_output;
}

void request_pairs_done(struct request_pairs *p, const struct step_request *r, void *request)
{
	size_t i = find_open(p, r->serial);

	set_latest(p, r->last_end);
	if (i < p->n_open) {
		p->open[i] = p->open[--p->n_open];
		p->open_serials[i] = p->open_serials[p->n_open];
	}
	if (!request)
		return;
	if (p->n_done == HELD_MAX)
		decide(p, true);
	p->done[p->n_done].request = request;
	p->done[p->n_done].end = r->last_end;
	p->sequences[p->n_done++] = (struct join_sequence){
		.tgid = r->tgid,
		.vague = r->began_before || r->mixed || r->lost || r->cut || !r->by_parts,
		.any = r->mixed || r->lost || r->cut || !r->by_parts,
		.start = r->start,
		.first = r->first_output,
		.last = r->last_end,
		.outputs = step_request_tokens(r),
		.given = r->given,
		.context = r->context,
		.second = r->second,
	};
}

void request_pairs_socket(struct request_pairs *p, const struct rec_request *r)
{
	struct rec_request *copy = malloc(sizeof(*copy));

	if (!copy) {
		if (p->ops->socket)
			p->ops->socket(r, true, JOIN_NONE, p->arg);
		return;
	}
	if (p->n_records == HELD_MAX)
		decide(p, true);
	*copy = *r;
	p->records[p->n_records++] = copy;
	set_latest(p, r->h.start_ns + r->h.dur_ns);
}

void request_pairs_step(struct request_pairs *p, uint64_t end_ns)
{
	set_latest(p, end_ns);
}

void request_pairs_settled(struct request_pairs *p)
{
	if (p->n_done + p->n_records && now_of(p) >= p->decided + DECIDE_NS)
		decide(p, false);
}

void request_pairs_finish(struct request_pairs *p)
{
	decide(p, true);
}

void request_pairs_free(struct request_pairs *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->n_done; i++)
		p->ops->dropped(p->done[i].request, p->arg);
	for (size_t i = 0; i < p->n_records; i++)
		free(p->records[i]);
	join_free(p->join);
	free(p);
}

int request_pairs_new(const struct request_pairs_ops *ops, void *arg, struct request_pairs **ret_pairs)
{
	/* pages that are never touched are never allocated */
	struct request_pairs *p = calloc(1, sizeof(*p));
	int err = p ? join_new(&p->join) : -ENOMEM;

	if (err) {
		free(p);
		return err;
	}
	p->ops = ops;
	p->arg = arg;
	*ret_pairs = p;
	return 0;
}
