// SPDX-License-Identifier: BSD-2-Clause
#include "requests/request_feed.h"

#include <stdlib.h>
#include <string.h>

#include "schema/profile_keys.h"
#include "util/alloc.h"
#include "util/clock.h"

#define DECIDE_NS UINT64_C(2000000000) /* between two looks for requests that belong together */
/* A group that may belong together is complete this long after its last request; WAIT_ALONE_NS: while no step has shown a
 * sequence; WAIT_ANSWER_NS: of sequences with ids of their own, whose answers may be written long after them, by another process. */
#define WAIT_NS UINT64_C(10000000000)
#define WAIT_ALONE_NS UINT64_C(2000000000)
#define WAIT_ANSWER_NS UINT64_C(60000000000)
#define HELD_MAX 512      /* of each kind; if full, all are reported with what is known then */
#define RECEIVED_MAX 4096 /* the last ones; the numbers of requests that take longer are unknown */
#define NUMBERING_MAX 256
#define OPEN_MAX (JOIN_SEQUENCES - HELD_MAX)

_Static_assert(HELD_MAX <= JOIN_SOCKETS, "all that are held are looked at together");

/* Finished requests, held until it is clear which are the same. */
struct pairs {
	struct join *join;
	struct {
		void **held; /* for each reader what its `done` returned */
		uint64_t end, handle;
	} done[HELD_MAX];
	struct rec_request *records[HELD_MAX];
	size_t n_done, n_records;
	/* the requests in done, then the open ones */
	struct join_sequence sequences[JOIN_SEQUENCES];
	struct join_socket sockets[HELD_MAX];
	struct join_answer of_sequences[JOIN_SEQUENCES], of_sockets[JOIN_SOCKETS];
	struct join_sequence open[OPEN_MAX];
	uint32_t open_serials[OPEN_MAX];
	uint64_t open_handles[OPEN_MAX];
	size_t n_open;
	struct {
		uint32_t tgid, tid;
		uint64_t at_ns, given;
	} received[RECEIVED_MAX];
	uint64_t n_received;
	uint32_t numbering[NUMBERING_MAX]; /* processes that number their requests */
	size_t n_numbering;
	char ids[HELD_MAX][FUNC_STR_LEN];  /* of records, by their answers; "": none */
	uint64_t group_ends[JOIN_SOCKETS + JOIN_SEQUENCES];
	uint64_t latest, decided; /* instants */
	uint64_t latest_seen;     /* when latest was set */
	bool by_ids, by_time; /* there were requests in steps with ids of their own, and without */
	bool by_answers;      /* one with an id of its own was that of an answer */
};

struct feed_reader {
	const struct request_reader_ops *ops; /* NULL: it is gone */
	void *arg;
};

struct request_feed {
	struct sink sink;
	const struct probe_table *probes;
	const struct handles *handles; /* NULL: none has a name */
	struct step_requests *steps;
	struct pairs *pairs; /* NULL: sockets are not recorded */
	struct feed_reader *readers;
	size_t n_readers;
	uint64_t number;
};

/* Calls an operation of every reader that has it. */
#define TELL(f, op, ...)                                              \
	do {                                                          \
		for (size_t i_ = 0; i_ < (f)->n_readers; i_++) {      \
			const struct feed_reader *to_ = &(f)->readers[i_]; \
			if (to_->ops && to_->ops->op)                 \
				to_->ops->op(__VA_ARGS__, to_->arg);  \
		}                                                     \
	} while (0)

bool request_answer_id(const struct rec_request *r, char ret[FUNC_STR_LEN])
{
	static const char key[] = "\"id\":";
	const char *end = r->answer + sizeof(r->answer);
	const char *at = memmem(r->answer, sizeof(r->answer), key, sizeof(key) - 1);
	size_t n = 0;

	*ret = 0;
	for (at = at ? at + sizeof(key) - 1 : end; at < end && *at == ' '; at++) {
	}
	if (at == end || *at++ != '"')
		return false;
	while (at + n < end && n < FUNC_STR_LEN && at[n] > ' ' && at[n] < 0x7f && at[n] != '"' && at[n] != '\\')
		n++;
	if (!n || n == FUNC_STR_LEN || at + n == end || at[n] != '"')
		return false;
	memcpy(ret, at, n);
	ret[n] = 0;
	return true;
}

/* ---- which requests in steps and on sockets are the same ---- */

const char *request_pairs_why(enum join_result why)
{
	return why == JOIN_NONE ? PROFILE_JOINED_NONE : why == JOIN_OPEN ? "one is not over"
									 : "several fit";
}

static bool pairs_have_sequences(const struct pairs *p)
{
	return p->by_ids || p->by_time;
}

/* Whether the process numbers its requests. */
static bool process_is_numbering(const struct pairs *p, uint32_t tgid)
{
	size_t i = 0;

	while (i < p->n_numbering && p->numbering[i] != tgid)
		i++;
	return i < p->n_numbering;
}

/* A thread has passed on what it read from a socket, as the engine's request number `given`. */
static void take_received(struct pairs *p, const struct rec_hdr *call, uint64_t given)
{
	size_t i = p->n_received++ % RECEIVED_MAX;

	p->received[i].tgid = call->tgid;
	p->received[i].tid = call->tid;
	p->received[i].at_ns = call->start_ns;
	p->received[i].given = given;
	if (!process_is_numbering(p, call->tgid) && p->n_numbering < NUMBERING_MAX)
		p->numbering[p->n_numbering++] = call->tgid;
}

/* The number of the request that the answering thread passed on between the request and its answer. 0: unknown. */
static uint64_t request_find_given(const struct pairs *p, const struct rec_request *r)
{
	uint64_t n = p->n_received < RECEIVED_MAX ? p->n_received : RECEIVED_MAX;
	uint64_t until = r->first_chunk_ns ? r->first_chunk_ns : r->h.start_ns + r->h.dur_ns;

	for (uint64_t i = p->n_received; i > p->n_received - n; i--) {
		size_t k = (i - 1) % RECEIVED_MAX;

		if (p->received[k].tid == r->h.tid && p->received[k].tgid == r->h.tgid && p->received[k].at_ns >= r->read_ns &&
			p->received[k].at_ns <= until)
			return p->received[k].given;
	}
	return 0;
}

static struct join_socket socket_of(const struct pairs *p, const struct rec_request *r)
{
	return (struct join_socket){
		.tgid = r->h.tgid,
		.chunks = r->chunks,
		.start = r->read_ns,
		.first = r->first_chunk_ns,
		.last = r->h.start_ns + r->h.dur_ns,
		.blocked = r->blocked_ns,
		.gone = r->gone_ns != 0,
		.writes = r->writes,
		.given = request_find_given(p, r),
		.tid = r->h.tid,
	};
}

/* Whether the engine's id of a request is that of an answer. vLLM puts the number of the choice before it, and the number of the
 * prompt and random digits behind it: 1_cmpl-ID-0-1b2c3d4e. */
static bool id_is_answer_of(const char *id, const char *answer)
{
	const char *at = strstr(id, answer);

	return at && (at == id || at[-1] == '_') && strchr("-", at[strlen(answer)]);
}

/* The record whose answer has this id, and that overlaps the sequence; NULL: none, or several. */
static struct join_socket *find_by_id(struct pairs *p, const char *id, const struct join_sequence *q)
{
	struct join_socket *best = NULL;
	size_t len = 0;

	for (size_t i = 0; i < p->n_records; i++) {
		struct join_socket *s = &p->sockets[i];
		size_t n = strlen(p->ids[i]);

		if (n < len || !n || s->last < q->start || (!q->open && s->start > q->last) || !id_is_answer_of(id, p->ids[i]))
			continue;
		best = n > len ? s : NULL;
		len = n;
	}
	return best;
}

#define BY_ID (UINT64_C(1) << 63) /* a number that stands for an id */

/* Numbers requests by their ids, as the engine's objects and the answers have them. The process that answers may be another one than
 * the engine, which then gets them by messages on other sockets. Neither those nor answers with another id are joined by time. Of
 * several of the engine's in one answer the first one is meant. */
static void number_by_ids(struct pairs *p, const struct handles *handles)
{
	struct join_sequence *of[HELD_MAX] = { NULL }; /* of each record */

	for (size_t i = 0; i < p->n_records; i++)
		request_answer_id(p->records[i], p->ids[i]);
	for (size_t k = 0; k < p->n_done + p->n_open; k++) {
		struct join_sequence *q = &p->sequences[k];
		uint64_t handle = k < p->n_done ? p->done[k].handle : p->open_handles[k - p->n_done];
		const char *id = handle && handles ? handles_get(handles, q->tgid, handle) : NULL;
		struct join_socket *s = id ? find_by_id(p, id, q) : NULL;

		for (size_t i = 0; i < p->n_records && id; i++) {
			if ((*p->ids[i] || !p->records[i]->http) && p->sockets[i].tgid == q->tgid && !p->sockets[i].given)
				p->sockets[i].given = BY_ID | i;
		}
		q->given = handle ? 0 : q->given;
		if (!s || (of[s - p->sockets] && of[s - p->sockets]->start <= q->start))
			continue;
		if (of[s - p->sockets])
			of[s - p->sockets]->given = 0;
		of[s - p->sockets] = q;
		q->given = s->given = BY_ID | (uint64_t)(s - p->sockets);
		s->tgid = q->tgid;
		p->by_answers = true;
	}
}

static void pairs_set_latest(struct pairs *p, uint64_t ns)
{
	if (ns <= p->latest)
		return;
	p->latest = ns;
	p->latest_seen = clock_boot_ns();
}

/* The present time of the recording, which also goes on if no more requests come. */
static uint64_t pairs_now(const struct pairs *p)
{
	return p->latest + (clock_boot_ns() - p->latest_seen);
}

/* Finds when the last request of each group ended; UINT64_MAX: one is still open. */
static void find_group_ends(struct pairs *p)
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

/* How long after its end a request is held. handle: of a sequence with an id of its own, else 0. */
static uint64_t held_for(const struct pairs *p, uint64_t handle)
{
	if (handle && p->by_answers && p->n_done < HELD_MAX / 2)
		return WAIT_ANSWER_NS;
	return pairs_have_sequences(p) ? WAIT_NS : WAIT_ALONE_NS;
}

/* Whether an answer is final. One by the engine's number awaits nothing else. */
static bool answer_is_due(const struct pairs *p, const struct join_answer *a, uint64_t given, uint64_t handle, bool all)
{
	uint64_t end = p->group_ends[a->group];

	return all || (given && a->result == JOIN_DONE) || (end < UINT64_MAX && p->decided >= end + held_for(p, handle));
}

static void held_free(const struct request_feed *f, void **held)
{
	for (size_t i = 0; i < f->n_readers; i++)
		free(held[i]);
	free(held);
}

/* Whether a request is the engine's own, with which it warms up: not reported. */
static bool sequence_is_warmup(const struct pairs *p, const struct join_sequence *q)
{
	return !q->given && !q->vague && process_is_numbering(p, q->tgid);
}

static void tell_done(const struct request_feed *f, size_t nth)
{
	const struct pairs *p = f->pairs;
	const struct join_answer *a = &p->of_sequences[nth];
	void **held = p->done[nth].held;

	for (size_t i = 0; i < f->n_readers && !sequence_is_warmup(p, &p->sequences[nth]); i++) {
		const struct feed_reader *to = &f->readers[i];

		if (held[i] && to->ops)
			to->ops->sequence(held[i], a->result == JOIN_DONE ? p->records[a->with] : NULL, a->result, to->arg);
	}
	held_free(f, held);
}

static void tell_due(struct request_feed *f, bool all)
{
	size_t n_done = 0, n_records = 0;
	struct pairs *p = f->pairs;

	for (size_t i = 0; i < p->n_done; i++) {
		if (answer_is_due(p, &p->of_sequences[i], p->sequences[i].given, p->done[i].handle, all)) {
			tell_done(f, i);
			continue;
		}
		p->sequences[n_done] = p->sequences[i];
		p->done[n_done++] = p->done[i];
	}
	for (size_t i = 0; i < p->n_records; i++) {
		const struct join_answer *a = &p->of_sockets[i];

		if (!answer_is_due(p, a, p->sockets[i].given, 0, all)) {
			p->records[n_records++] = p->records[i];
			continue;
		}
		if (a->result != JOIN_DONE)
			TELL(f, socket, p->records[i], !pairs_have_sequences(p), a->result);
		free(p->records[i]);
	}
	p->n_done = n_done;
	p->n_records = n_records;
}

/* Reports the requests that need not wait any longer; all: every request. */
static void feed_decide_pairs(struct request_feed *f, bool all)
{
	struct pairs *p = f->pairs;

	p->decided = pairs_now(p);
	for (size_t i = 0; i < p->n_records; i++)
		p->sockets[i] = socket_of(p, p->records[i]);
	memcpy(p->sequences + p->n_done, p->open, p->n_open * sizeof(*p->open));
	number_by_ids(p, f->handles);
	join_decide(p->join, p->sockets, p->n_records, p->sequences, p->n_done + p->n_open, p->of_sockets, p->of_sequences);
	find_group_ends(p);
	tell_due(f, all);
}

static size_t find_open(const struct pairs *p, uint32_t serial)
{
	size_t i = 0;

	while (i < p->n_open && p->open_serials[i] != serial)
		i++;
	return i;
}

/* Holds a finished request. held NULL: no reader wants its socket. */
static void feed_hold_done(struct request_feed *f, const struct step_request *r, void **held)
{
	struct pairs *p = f->pairs;
	size_t i = find_open(p, r->serial);

	pairs_set_latest(p, r->last_end);
	if (i < p->n_open) {
		p->open[i] = p->open[--p->n_open];
		p->open_serials[i] = p->open_serials[p->n_open];
		p->open_handles[i] = p->open_handles[p->n_open];
	}
	if (!held)
		return;
	if (p->n_done == HELD_MAX)
		feed_decide_pairs(f, true);
	p->done[p->n_done].held = held;
	p->done[p->n_done].end = r->last_end;
	p->done[p->n_done].handle = r->own_ids ? r->sequence : 0;
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

/* ---- from steps ---- */

static void feed_on_begin(struct step_request *r, const struct step_seen *s, void *arg)
{
	struct request_feed *f = arg;
	struct pairs *p = f->pairs;

	if (p && r->own_ids)
		p->by_ids = true;
	else if (p)
		p->by_time = true;
	if (p && p->n_open < OPEN_MAX) { /* never full: as many as REQUESTS_MAX in step_slots.h */
		p->open[p->n_open] = (struct join_sequence){
			.tgid = r->tgid, .open = true, .start = r->start, .given = r->given
		};
		p->open_handles[p->n_open] = r->own_ids ? r->sequence : 0;
		p->open_serials[p->n_open++] = r->serial;
	}
	TELL(f, begin, r, s);
}

static void feed_on_part(struct step_request *r, const struct step_seen *s, const struct request_part *p, void *arg)
{
	TELL((struct request_feed *)arg, part, r, s, p);
}

static void feed_on_first(struct step_request *r, void *arg)
{
	struct request_feed *f = arg;
	size_t i = f->pairs ? find_open(f->pairs, r->serial) : 0;

	if (f->pairs && i < f->pairs->n_open)
		f->pairs->open[i].first = r->first_output;
	TELL(f, first, r);
}

static void feed_on_step(struct step_request *r, const struct step_seen *s, void *arg)
{
	TELL((struct request_feed *)arg, step, r, s);
}

static void feed_on_mixed(struct step_request *r, void *arg)
{
	TELL((struct request_feed *)arg, mixed, r);
}

static void feed_on_done(struct step_request *r, void *arg)
{
	struct request_feed *f = arg;
	void **held = f->pairs ? xcalloc(f->n_readers + 1, sizeof(*held)) : NULL;
	bool any = false;

	for (size_t i = 0; i < f->n_readers; i++) {
		const struct feed_reader *to = &f->readers[i];
		void *mine = to->ops && to->ops->done ? to->ops->done(r, to->arg) : NULL;

		any |= mine != NULL;
		if (held)
			held[i] = mine;
		else if (mine)
			to->ops->sequence(mine, NULL, JOIN_NONE, to->arg);
		if (!held)
			free(mine);
	}
	if (!any) {
		free(held);
		held = NULL;
	}
	if (f->pairs)
		feed_hold_done(f, r, held);
}

/* ---- the sink ---- */

static void feed_step(struct request_feed *f, const struct rec_step *r)
{
	if (f->pairs)
		pairs_set_latest(f->pairs, r->h.start_ns + r->h.dur_ns);
	step_requests_step(f->steps, r);
}

static void feed_socket(struct request_feed *f, const struct rec_request *r)
{
	struct pairs *p = f->pairs;
	char id[FUNC_STR_LEN];

	if (!p) {
		TELL(f, socket, r, true, JOIN_NONE);
		return;
	}
	/* messages between processes: many, and where requests have ids they are none of these */
	if (p->by_ids && !p->by_time && !r->http && !request_answer_id(r, id)) {
		TELL(f, socket, r, false, JOIN_NONE);
		pairs_set_latest(p, r->h.start_ns + r->h.dur_ns);
		return;
	}
	if (p->n_records == HELD_MAX)
		feed_decide_pairs(f, true);
	p->records[p->n_records++] = memcpy(xmalloc(sizeof(*r)), r, sizeof(*r));
	pairs_set_latest(p, r->h.start_ns + r->h.dur_ns);
}

static void feed_call(struct request_feed *f, const struct rec_function *r)
{
	uint64_t given;

	if (f->pairs && sequence_received(f->probes, r, &given))
		take_received(f->pairs, &r->h, given);
	step_requests_call(f->steps, r);
}

static void feed_record(struct sink *s, const struct rec_hdr *rec, size_t size)
{
	struct request_feed *f = (struct request_feed *)s;

	f->number++;
	sink_record(f->sink.inner, rec, size);
	if (rec->kind == REC_STEP && rec->id < f->probes->n)
		feed_step(f, (const struct rec_step *)rec);
	else if (rec->kind == REC_FUNCTION && rec->id < f->probes->n)
		feed_call(f, (const struct rec_function *)rec);
	else if (rec->kind == REC_REQUEST)
		feed_socket(f, (const struct rec_request *)rec);
}

static void feed_loss(struct sink *s, const struct loss *l)
{
	struct request_feed *f = (struct request_feed *)s;

	sink_loss(f->sink.inner, l);
	if (l->count[REC_STEP])
		step_requests_lost(f->steps, l->count[REC_STEP]);
}

static void feed_settled(struct sink *s)
{
	struct request_feed *f = (struct request_feed *)s;
	const struct pairs *p = f->pairs;

	/* first, so that what the readers make of it settles with the rest */
	step_requests_settled(f->steps);
	if (p && p->n_done + p->n_records && pairs_now(p) >= p->decided + DECIDE_NS)
		feed_decide_pairs(f, false);
	sink_settled(f->sink.inner);
}

/* Reports what is left while all readers are still there. */
static int feed_close(struct sink *s, const struct window_totals *t)
{
	struct request_feed *f = (struct request_feed *)s;
	int err;

	if (t)
		step_requests_finish(f->steps);
	if (t && f->pairs)
		feed_decide_pairs(f, true);
	err = sink_close(f->sink.inner, t);
	request_feed_free(f);
	return err;
}

static const struct sink_ops feed_ops = {
	.record = feed_record,
	.loss = feed_loss,
	.settled = feed_settled,
	.close = feed_close,
};

struct sink *request_feed_sink(struct request_feed *f, struct sink *inner)
{
	f->sink.inner = inner;
	return &f->sink;
}

const struct sink *request_feed_inner(const struct sink *s)
{
	return s->ops == &feed_ops ? s->inner : s;
}

/* ---- readers ---- */

void request_feed_add(struct request_feed *f, const struct request_reader_ops *ops, void *arg)
{
	if (!f)
		return;
	f->readers = xreallocarray(f->readers, f->n_readers + 1, sizeof(*f->readers));
	f->readers[f->n_readers++] = (struct feed_reader){ ops, arg };
}

void request_feed_remove(struct request_feed *f, const void *arg)
{
	for (size_t i = 0; f && i < f->n_readers; i++) {
		if (f->readers[i].arg == arg)
			f->readers[i].ops = NULL;
	}
}

bool request_feed_joins(const struct request_feed *f)
{
	return f && f->pairs;
}

uint64_t request_feed_number(const struct request_feed *f)
{
	return f ? f->number : 0;
}

void request_feed_free(struct request_feed *f)
{
	struct pairs *p = f->pairs;

	step_requests_free(f->steps);
	for (size_t i = 0; p && i < p->n_done; i++)
		held_free(f, p->done[i].held);
	for (size_t i = 0; p && i < p->n_records; i++)
		free(p->records[i]);
	if (p)
		free(p->join);
	free(p);
	free(f->readers);
	free(f);
}

struct request_feed *request_feed_new(const struct recording *rec)
{
	static const struct step_requests_ops ops = {
		.begin = feed_on_begin,
		.part = feed_on_part,
		.first = feed_on_first,
		.step = feed_on_step,
		.mixed = feed_on_mixed,
		.done = feed_on_done,
	};
	struct request_feed *f = xcalloc(1, sizeof(*f));

	f->sink.ops = &feed_ops;
	f->probes = rec->probes;
	f->handles = rec->handles;
	f->steps = step_requests_new(rec->probes, &ops, f);
	if (rec->sockets) {
		/* pages that are never touched are never allocated */
		f->pairs = xcalloc(1, sizeof(*f->pairs));
		f->pairs->join = join_new();
	}
	return f;
}
