// SPDX-License-Identifier: BSD-2-Clause
#include "sink/profile_requests.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/step_requests.h"
#include "sink/profile_request_line.h"
#include "sink/request.h"
#include "sink/request_join.h"

#define DECIDE_NS UINT64_C(2000000000) /* between two looks for requests that belong together */
/* No further request is awaited this long after the last of a group that may belong together. */
#define WAIT_NS UINT64_C(10000000000)
#define HELD_MAX 512 /* of each kind; if full, all are written with what is known then */
#define OPEN_MAX (JOIN_SEQUENCES - HELD_MAX)

_Static_assert(HELD_MAX <= JOIN_SOCKETS, "all that are held are looked at together");

/* The line of a sequence's request, without the part from its socket. */
struct line {
	uint32_t tgid, serial;
	uint64_t context, sequence, start, end;
	bool graph, split;
	char *shape, *stages;
};

/* Requests that are over, and may belong together. Only if sockets are recorded. */
struct held {
	struct join *join;
	struct line lines[HELD_MAX];
	struct rec_request *records[HELD_MAX];
	size_t n_lines, n_records;
	/* of the requests in lines, followed by those that are not over */
	struct join_sequence sequences[JOIN_SEQUENCES];
	struct join_socket sockets[HELD_MAX];
	struct join_answer of_sequences[JOIN_SEQUENCES], of_sockets[JOIN_SOCKETS];
	struct join_sequence open[OPEN_MAX];
	uint32_t open_serials[OPEN_MAX];
	size_t n_open;
	uint64_t group_ends[JOIN_SOCKETS + JOIN_SEQUENCES];
	uint64_t latest, decided; /* instants */
	bool news, sequences_seen;
};

struct profile_requests {
	struct profile_lines *lines;
	const struct recording *rec;
	struct profile_steps *step_lines;
	struct step_requests *steps;
	struct held *held; /* NULL: sockets are not recorded */
	char shape[REQUEST_LINE_MAX], stages[REQUEST_LINE_MAX];
};

/* ---- lines ---- */

static const char *why_not(enum join_result result)
{
	return result == JOIN_NONE ? "none fits" : result == JOIN_OPEN ? "one is not over"
								       : "several fit";
}

/* socket: the request that it is joined with; NULL: none, because of `why`, which is NULL if sockets are not
 * recorded. */
static void write_line(struct profile_requests *q, const struct line *l, const struct rec_request *socket, const char *why)
{
	uint64_t zero = q->rec->start_boot_ns, start = socket ? socket->h.start_ns : l->start;
	char *p = profile_line_begin(q->lines, "request_prof", l->tgid), name[REQUEST_NAME_LEN];

	if (!p)
		return;
	p = add_u64(p, "\"pid\":", l->tgid);
	p = add_u64(p, ",\"source_kind\":\"sequence\",\"number\":", l->serial);
	if (l->context)
		p = add_u64(p, ",\"context\":", l->context);
	p = add_u64(p, ",\"sequence\":", l->sequence);
	p = add_us(p, ",\"ts_us\":", start > zero ? start - zero : 0);
	p = fmt_str(p, l->shape, strlen(l->shape));
	if (socket) {
		p = add_string(p, ",\"joined\":true,\"request\":", request_name(socket, name));
		p = request_line_exchange(p, socket);
	} else if (why) {
		p = add_string(p, ",\"joined\":false,\"joined_why\":", why);
	}
	p = add_us(p, PROFILE_STAGES "\"total\":", l->end - start);
	if (socket && l->split)
		p = add_us(p, ",\"queued\":", l->start - start);
	p = fmt_str(p, l->stages, strlen(l->stages));
	if (socket)
		p = add_us(p, ",\"ttft_client\":", socket->first_chunk_ns - start);
	*p++ = '}';
	profile_line_end(q->lines, p, l->graph);
}

/* why: as above. */
static void write_socket(struct profile_requests *q, const struct rec_request *r, const char *why)
{
	char *p = profile_line_begin(q->lines, "request_prof", r->h.tgid);

	if (!p)
		return;
	p = request_line_socket(p, r, q->rec->start_boot_ns);
	if (why)
		p = add_string(p, ",\"joined\":false,\"joined_why\":", why);
	p = request_line_socket_stages(p, r);
	*p++ = '}';
	profile_line_end(q->lines, p, false);
}

/* ---- held requests ---- */

static struct join_socket socket_of(const struct rec_request *r)
{
	return (struct join_socket){
		.tgid = r->h.tgid,
		.chunks = r->chunks,
		.start = r->h.start_ns,
		.first = r->first_chunk_ns,
		.last = r->last_chunk_ns,
	};
}

static void set_latest(struct held *h, uint64_t ns)
{
	h->news = true;
	if (ns > h->latest)
		h->latest = ns;
}

static void free_line(struct line *l)
{
	free(l->shape);
	free(l->stages);
}

/* When the last of each group was over; UINT64_MAX: one is still going on. */
static void find_group_ends(struct held *h)
{
	memset(h->group_ends, 0, sizeof(h->group_ends));
	for (size_t i = 0; i < h->n_records; i++) {
		const struct rec_hdr *r = &h->records[i]->h;
		uint64_t *end = &h->group_ends[h->of_sockets[i].group];

		if (r->start_ns + r->dur_ns > *end)
			*end = r->start_ns + r->dur_ns;
	}
	for (size_t i = 0; i < h->n_lines + h->n_open; i++) {
		uint64_t ns = i < h->n_lines ? h->lines[i].end : UINT64_MAX, *end = &h->group_ends[h->of_sequences[i].group];

		if (ns > *end)
			*end = ns;
	}
}

static bool is_due(const struct held *h, uint32_t group, bool all)
{
	return all || (h->group_ends[group] < UINT64_MAX && h->latest - h->group_ends[group] >= WAIT_NS);
}

static void write_due(struct profile_requests *q, bool all)
{
	struct held *h = q->held;
	size_t n_lines = 0, n_records = 0;

	for (size_t i = 0; i < h->n_lines; i++) {
		const struct join_answer *a = &h->of_sequences[i];
		struct line *l = &h->lines[i];

		if (!is_due(h, a->group, all)) {
			h->sequences[n_lines] = h->sequences[i];
			h->lines[n_lines++] = *l;
			continue;
		}
		write_line(q, l, a->result == JOIN_DONE ? h->records[a->with] : NULL, why_not(a->result));
		free_line(l);
	}
	for (size_t i = 0; i < h->n_records; i++) {
		const struct join_answer *a = &h->of_sockets[i];

		if (!is_due(h, a->group, all)) {
			h->records[n_records++] = h->records[i];
			continue;
		}
		/* joined ones have a line for both */
		if (a->result != JOIN_DONE)
			write_socket(q, h->records[i], h->sequences_seen ? why_not(a->result) : NULL);
		free(h->records[i]);
	}
	h->n_lines = n_lines;
	h->n_records = n_records;
}

/* Writes those that need not wait for another one; all: every one. */
static void decide(struct profile_requests *q, bool all)
{
	struct held *h = q->held;

	h->news = false;
	h->decided = h->latest;
	for (size_t i = 0; i < h->n_records; i++)
		h->sockets[i] = socket_of(h->records[i]);
	memcpy(h->sequences + h->n_lines, h->open, h->n_open * sizeof(*h->open));
	join_decide(h->join, h->sockets, h->n_records, h->sequences, h->n_lines + h->n_open, h->of_sockets,
		h->of_sequences);
	find_group_ends(h);
	write_due(q, all);
}

static bool hold_line(struct profile_requests *q, const struct line *l, const struct step_request *r)
{
	struct held *h = q->held;
	struct line *copy;

	if (h->n_lines == HELD_MAX)
		decide(q, true);
	copy = &h->lines[h->n_lines];
	*copy = *l;
	copy->shape = strdup(l->shape);
	copy->stages = strdup(l->stages);
	if (!copy->shape || !copy->stages) {
		free_line(copy);
		return false;
	}
	h->sequences[h->n_lines++] = (struct join_sequence){
		.tgid = r->tgid,
		.vague = r->began_before || r->mixed || r->lost || r->cut || !r->by_parts,
		.start = r->start,
		.first = r->first_output,
		.last = r->last_end,
		.outputs = step_request_tokens(r),
	};
	return true;
}

/* ---- from steps ---- */

static void on_begin(struct step_request *r, const struct step_seen *s, void *arg)
{
	struct held *h = ((struct profile_requests *)arg)->held;

	(void)s;
	if (!h)
		return;
	h->sequences_seen = true;
	if (h->n_open == OPEN_MAX) /* there are never that many sequences */
		return;
	h->open[h->n_open] = (struct join_sequence){ .tgid = r->tgid, .open = true, .start = r->start };
	h->open_serials[h->n_open++] = r->serial;
}

static size_t find_open(const struct held *h, uint32_t serial)
{
	size_t i = 0;

	while (i < h->n_open && h->open_serials[i] != serial)
		i++;
	return i;
}

static void on_first(struct step_request *r, const struct step_seen *s, void *arg)
{
	struct held *h = ((struct profile_requests *)arg)->held;
	size_t i = h ? find_open(h, r->serial) : 0;

	(void)s;
	if (h && i < h->n_open)
		h->open[i].first = r->first_output;
}

static void on_part(struct step_request *r, const struct step_seen *s, const struct request_part *p, void *arg)
{
	(void)r;
	profile_steps_part(((struct profile_requests *)arg)->step_lines, s, p);
}

static void on_step(struct step_request *r, const struct step_seen *s, void *arg)
{
	(void)r;
	profile_steps_taken(((struct profile_requests *)arg)->step_lines, s);
}

static void on_done(struct step_request *r, void *arg)
{
	struct profile_requests *q = arg;
	struct line l = { .tgid = r->tgid, .serial = r->serial, .context = r->context, .sequence = r->sequence, .start = r->start, .end = r->last_end, .graph = r->graph, .split = step_request_split(r), .shape = q->shape, .stages = q->stages };
	struct held *h = q->held;
	size_t i;
	char *p;

	if (h) {
		set_latest(h, r->last_end);
		i = find_open(h, r->serial);
		if (i < h->n_open) {
			h->open[i] = h->open[--h->n_open];
			h->open_serials[i] = h->open_serials[h->n_open];
		}
	}
	if (!r->by_parts) {
		p = profile_line_begin(q->lines, "request_prof", r->tgid);
		if (!p)
			return;
		p = request_line_steps(p, r, q->rec->start_boot_ns);
		*p++ = '}';
		profile_line_end(q->lines, p, r->graph);
		return;
	}
	*request_line_shape(q->shape, r, q->rec->left_out) = 0;
	*request_line_stages(q->stages, r) = 0;
	if (!h || !hold_line(q, &l, r))
		write_line(q, &l, NULL, NULL);
}

/* ---- from sockets ---- */

void profile_requests_socket(struct profile_requests *q, const struct rec_request *r)
{
	struct held *h = q->held;
	struct rec_request *copy;

	copy = h ? malloc(sizeof(*copy)) : NULL;
	if (!copy) {
		write_socket(q, r, NULL);
		return;
	}
	if (h->n_records == HELD_MAX)
		decide(q, true);
	*copy = *r;
	h->records[h->n_records++] = copy;
	set_latest(h, r->h.start_ns + r->h.dur_ns);
}

/* ---- start and end ---- */

void profile_requests_step(struct profile_requests *q, const struct rec_step *r)
{
	if (q->held)
		set_latest(q->held, r->h.start_ns + r->h.dur_ns);
	step_requests_step(q->steps, r);
}

void profile_requests_call(struct profile_requests *q, const struct rec_function *r)
{
	step_requests_call(q->steps, r);
}

void profile_requests_lost(struct profile_requests *q, uint64_t n)
{
	step_requests_lost(q->steps, n);
}

void profile_requests_settled(struct profile_requests *q)
{
	struct held *h = q->held;

	step_requests_settled(q->steps);
	/* as long as no step shows a sequence, there is nothing to wait for */
	if (h && h->news && (!h->sequences_seen || h->latest - h->decided >= DECIDE_NS))
		decide(q, !h->sequences_seen);
}

void profile_requests_finish(struct profile_requests *q)
{
	step_requests_finish(q->steps);
	if (q->held)
		decide(q, true);
}

static void held_free(struct held *h)
{
	if (!h)
		return;
	for (size_t i = 0; i < h->n_lines; i++)
		free_line(&h->lines[i]);
	for (size_t i = 0; i < h->n_records; i++)
		free(h->records[i]);
	join_free(h->join);
	free(h);
}

void profile_requests_free(struct profile_requests *q)
{
	if (!q)
		return;
	step_requests_free(q->steps);
	held_free(q->held);
	free(q);
}

static int held_new(struct held **ret_held)
{
	struct held *h = calloc(1, sizeof(*h));
	int err = h ? join_new(&h->join) : -ENOMEM;

	if (err) {
		free(h);
		return err;
	}
	*ret_held = h;
	return 0;
}

int profile_requests_new(struct profile_lines *lines, const struct recording *rec, struct profile_steps *steps,
	struct profile_requests **ret_requests)
{
	static const struct step_requests_ops ops = {
		.begin = on_begin, .part = on_part, .first = on_first, .step = on_step, .done = on_done
	};
	struct profile_requests *q = calloc(1, sizeof(*q));
	int err;

	if (!q)
		return -ENOMEM;
	q->lines = lines;
	q->rec = rec;
	q->step_lines = steps;
	err = step_requests_new(rec->probes, &ops, q, &q->steps);
	if (!err && rec->sockets)
		err = held_new(&q->held);
	if (err) {
		profile_requests_free(q);
		return err;
	}
	*ret_requests = q;
	return 0;
}
