// SPDX-License-Identifier: BSD-2-Clause
/*
 * request_prof, from sockets and from the engine's steps (request_feed.h). If both are recorded, a line waits until it is
 * clear whether one of the other kind is the same request; such a pair becomes one line. It also waits for what the GPU did in
 * its steps.
 */
#include "format/profile_line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "format/derive.h"
#include "format/request_gpu.h"
#include "gpu/info.h"
#include "requests/request_feed.h"
#include "requests/step_requests.h"
#include "schema/left_out.h"
#include "waits/gap_log.h"

/* The most bytes of request_line_shape() and of request_line_stages(). */
#define REQUEST_LINE_MAX (16 * 1024)

/* ---- from steps ---- */

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static const unsigned int percents[] = { 50, 90, 99 };

static char *add_intervals(char *p, struct step_request *r)
{
	if (!r->n_intervals)
		return p;
	qsort(r->intervals, r->n_intervals, sizeof(*r->intervals), compare_u64);
	for (size_t i = 0; i < 3; i++) /* the nearest rank */
		p = fmt_us(PUT_KEY_N(p, tpot_pN, percents[i]), r->intervals[(r->n_intervals * percents[i] + 99) / 100 - 1]);
	return PUT(p, tpot_max, r->longest);
}

static char *add_flags(char *p, const struct step_request *r)
{
	p = PUT_NONZERO(p, began_before, r->began_before);
	p = PUT_NONZERO(p, unfinished, r->cut);
	p = PUT_NONZERO(p, end_not_seen, !r->cut && !r->end_seen);
	p = PUT_NONZERO(p, lost_steps, r->lost);
	return p;
}

static char *add_tokens(char *p, struct step_request *r)
{
	p = PUT_NONZERO(p, ttft, step_request_ttft(r));
	return r->lost ? p : add_intervals(p, r);
}

#define WAITS_SHOWN 8

/* Adds the requests that it waited for, the longest first. */
static char *add_request_waits(char *p, const struct step_request *r)
{
	uint64_t others = r->spans[SPAN_OTHERS];

	for (size_t i = 0; i < r->n_waits && i < WAITS_SHOWN; i++) {
		const struct step_wait *w = &r->waits[i];

		p = fmt_u64(PUT_KEY_N(p, waitedN_for, i + 1), w->serial);
		p = fmt_u64(PUT_KEY_N(p, waitedN_pid, i + 1), w->tgid);
		p = fmt_u64(PUT_KEY_N(p, waitedN_sequence, i + 1), w->sequence);
		p = fmt_us(PUT_KEY_N(p, waitedN_us, i + 1), w->ns);
		if (w->first_ns && r->first_output && !r->began_before)
			p = fmt_us(PUT_KEY_N(p, waitedN_ttft_us, i + 1), w->first_ns);
		others -= w->ns;
	}
	return PUT_NONZERO(p, waited_others_us, others);
}

static char *add_request_spans(char *p, const struct step_request *r)
{
	static const char *const names[] = {
		[SPAN_OWN_PREFILL] = "own_prefill", [SPAN_OWN_DECODE] = "own_decode", [SPAN_OTHERS] = "others", [SPAN_BETWEEN] = "between"
	};
	char prefix[16];

	for (int i = SPAN_OWN_PREFILL; i < SPAN_MAX; i++) {
		p = fmt_us(profile_add_key(p, names[i], ""), r->spans[i]);
		if (r->states_unknown[i])
			continue;
		snprintf(prefix, sizeof(prefix), "%s_", names[i]);
		p = profile_add_states(p, prefix, r->span_states[i]);
	}
	return p;
}

/* ---- sequences whose rows are known ---- */

/* For a sequence: its shape after ts_us, and its stages after total and queued. */
static char *request_line_shape(char *p, const struct step_request *r, const struct recording *rec)
{
	uint32_t left_out = left_out_between(rec->left_out, r->start, r->last_end);
	const char *id = request_own_id(rec->handles, r);
	char parts[SHED_TEXT_MAX];

	if (r->given)
		p = PUT(p, engine_request, r->given - 1);
	p = PUT_NONZERO(p, request_id, id);
	if (!r->mixed && !r->began_before)
		p = PUT(p, prompt_tokens, r->prompt_tokens);
	if (!r->mixed && r->cached >= 0)
		p = PUT(p, cached_tokens, (uint64_t)r->cached);
	if (!r->mixed)
		p = PUT(p, output_tokens, step_request_tokens(r));
	p = PUT(p, steps, r->steps);
	p = PUT(p, steps_shared, r->shared);
	p = PUT(p, prefill_steps, r->prefills);
	p = PUT_NONZERO(p, draft_steps, r->drafts);
	if (step_request_split(r)) {
		p = PUT_NONZERO(p, preemptions, r->preemptions);
		p = PUT_NONZERO(p, recomputed_tokens, r->recomputed);
	}
	p = PUT_NONZERO(p, mixed, r->mixed);
	p = PUT_NONZERO(p, cancelled, r->cancelled);
	p = add_flags(p, r);
	p = PUT_NONZERO(p, left_out, left_out ? shed_text(left_out, parts) : NULL);
	return step_request_split(r) ? add_request_waits(p, r) : p;
}

static char *request_line_stages(char *p, struct step_request *r)
{
	bool split = step_request_split(r);

	if (split && r->arrived) {
#define PUT_REFUSED(name, key, phrase, column) p = PUT_NONZERO(p, no_##key, r->refused[REFUSED_##name]);
		REFUSALS_ALL(PUT_REFUSED)
	}
	if (split) {
		p = PUT_NONZERO(p, preempted, r->preempted);
		p = PUT_NONZERO(p, recompute, r->recompute);
		p = add_request_spans(p, r);
	}
	if (split && step_request_ttft(r)) {
		p = PUT(p, ttft_others, r->first_others);
		p = PUT(p, ttft_between, r->first_between);
		p = PUT_NONZERO(p, ttft_preempted, r->first_preempted);
	}
	return r->mixed ? p : add_tokens(p, r);
}

/* ---- sockets ---- */

static char *request_line_exchange(char *p, const struct rec_request *r)
{
	p = PUT(p, fd, r->h.id);
	p = PUT(p, family, r->family == AF_UNIX ? "unix" : r->family == AF_INET6 ? "inet6"
										 : "inet");
	p = PUT(p, bytes_read, r->bytes_read);
	p = PUT(p, bytes_written, r->bytes_written);
	p = PUT(p, reads, r->reads);
	p = PUT(p, writes, r->writes);
	p = PUT(p, chunks, r->chunks);
	p = PUT(p, write_blocked_us, r->blocked_ns);
	return p;
}

/* The line of a sequence's request, without the part from its socket. */
struct request_line {
	uint32_t tgid, serial;
	uint64_t context, sequence, arrived, start, end, between; /* arrived: at the engine, if known and the rest is split; else start */
	uint64_t first;						   /* when its first output was there; 0: not known */
	uint64_t id;						   /* sequence_id_hash() of the engine's own; 0: it has none */
	bool graph, split, cancelled;
	const char *shape, *stages;
};

#define HELD_MAX 1024 /* if full, the first one is written with what is known then */

/* A line that waits for what the GPU did. */
struct held_line {
	struct request_line *line;
	struct rec_request *socket; /* NULL: none */
	const char *why;
};

struct profile_requests {
	struct profile_lines *lines;
	const struct recording *rec;
	struct profile_steps *step_lines;
	char shape[REQUEST_LINE_MAX], stages[REQUEST_LINE_MAX];
	struct request_gpu *gpu; /* NULL: no GPU is recorded */
	struct gap_log *gaps;    /* NULL: none are recorded */
	struct gap_log *sent;    /* likewise; apart, since these would soon take the room of the gaps */
	struct held_line held[HELD_MAX];
	size_t n_held;
};

/* ---- lines ---- */

/* Where the time of a request's queue went. */
struct queue_parts {
	uint64_t sent;   /* when the server passed it on to the engine; 0: not known */
	uint64_t others; /* the part in which the engine ran steps of others, from then on */
};

/* Adds who caused the time until the request was passed on, and then that in which the context ran no step: while the request
 * was queued, and between its steps. */
static char *add_request_path(struct profile_requests *q, char *p, const struct request_line *l, uint64_t start, struct queue_parts *ret)
{
	struct causes c = {};
	uint64_t between, from = start;

	if (l->id && start < l->arrived)
		ret->sent = gap_log_sent(q->sent, l->id, start, l->arrived, &c);
	if (ret->sent)
		from = ret->sent;
	ret->others = l->start - from;
	if (from < l->start)
		ret->others -= gap_log_sum(q->gaps, l->tgid, l->context, from, l->start, true, &c);
	between = gap_log_sum(q->gaps, l->tgid, l->context, l->start, l->end, false, &c);
	if (between < l->between) /* after its last step, before there was another one */
		c.unknown_ns += l->between - between;
	return profile_add_path(p, q->rec, "path", &c, q->lines->code, start, l->end);
}

/* From when on the first part of the answer could have been written; 0: not known, or it was written before. An answer in one part has
 * all outputs. */
static uint64_t answer_due(const struct request_line *l, const struct rec_request *socket)
{
	uint64_t due = socket && socket->chunks > 1 ? l->first : l->end;

	return l->first && socket && socket->first_chunk_ns > due ? due : 0;
}

/* socket: the request that it is joined with; NULL: none, because of `why`, which is NULL if sockets are not
 * recorded. */
static void write_sequence_line(struct profile_requests *q, const struct request_line *l, const struct rec_request *socket, const char *why)
{
	uint64_t start = socket ? socket->h.start_ns : l->arrived;
	char *p = profile_line_begin(q->lines, "request_prof", l->tgid), name[REQUEST_NAME_LEN];
	uint64_t due = answer_due(l, socket);
	struct queue_parts queue = { 0 };
	struct causes late = {};
	bool closed;

	p = PUT_FIRST(p, pid, l->tgid);
	p = PUT(p, source_kind, "sequence");
	p = PUT(p, number, l->serial);
	p = PUT_NONZERO(p, context, l->context);
	p = PUT(p, sequence, l->sequence);
	p = PUT(p, ts_us, profile_since(q->rec, start));
	p = fmt_str(p, l->shape, strlen(l->shape));
	if (q->gaps && l->split)
		p = add_request_path(q, p, l, start, &queue);
	if (q->gaps && due && gap_log_sent(q->sent, start, due, socket->first_chunk_ns, &late))
		p = profile_add_path(p, q->rec, "answer", &late, q->lines->code, due, socket->first_chunk_ns);
	if (q->gpu)
		p = request_gpu_end(q->gpu, p, l->serial, l->split);
	if (socket) {
		p = PUT(PUT(p, joined, true), request, request_name(socket, name));
		p = PUT_NONZERO(p, socket_pid, socket->h.tgid == l->tgid ? 0 : socket->h.tgid);
		p = request_line_exchange(p, socket);
		/* its client closed the connection before all was written; what it sends may end behind a request as well */
		closed = socket->h.flags & REQUEST_F_FAILED || (socket->gone_ns && socket->gone_ns < l->end);
		p = PUT_NONZERO(p, cancelled, closed && !l->cancelled);
	} else if (why) {
		p = PUT(PUT(p, joined, false), joined_why, why);
	}
	p = PUT_TOTAL(p, l->end - start);
	if ((socket && l->split) || (!socket && start < l->start))
		p = PUT_NONZERO(PUT(p, queued, l->start - start), behind_others, queue.others);
	if (socket)
		p = PUT_NONZERO(p, unread, socket->read_ns - start);
	if (socket && l->arrived < l->start && l->arrived > start)
		p = PUT_NONZERO(PUT(p, to_engine, l->arrived - start), sent, queue.sent ? queue.sent - start : 0);
	p = fmt_str(p, l->stages, strlen(l->stages));
	if (socket) {
		if (socket->first_chunk_ns) /* else the recording ended before */
			p = PUT_NONZERO(PUT(p, ttft_client, socket->first_chunk_ns - start), first_answered, due ? socket->first_chunk_ns - due : 0);
		if (socket->h.start_ns + socket->h.dur_ns >= l->end)
			p = PUT(p, answered, socket->h.start_ns + socket->h.dur_ns - l->end);
	}
	*p++ = '}';
	profile_line_end(q->lines, p, l->graph);
}

/* Copies a line, with its texts behind it. */
static struct request_line *line_copy(const struct request_line *l)
{
	size_t shape = strlen(l->shape) + 1, stages = strlen(l->stages) + 1;
	struct request_line *copy = xmalloc(sizeof(*copy) + shape + stages);

	*copy = *l;
	copy->shape = memcpy(copy + 1, l->shape, shape);
	copy->stages = memcpy((char *)(copy + 1) + shape, l->stages, stages);
	return copy;
}

/* Writes lines that wait for nothing, and the first n in any case. */
static void write_held_lines(struct profile_requests *q, size_t n)
{
	size_t left = 0;

	for (size_t i = 0; i < q->n_held; i++) {
		struct held_line *h = &q->held[i];

		if (i >= n && request_gpu_waits(q->gpu, h->line->serial)) {
			q->held[left++] = *h;
			continue;
		}
		write_sequence_line(q, h->line, h->socket, h->why);
		free(h->line);
		free(h->socket);
	}
	q->n_held = left;
}

static void write_or_hold_line(struct profile_requests *q, const struct request_line *l, const struct rec_request *socket, const char *why)
{
	struct held_line h = { .why = why };

	if (!q->gpu || !request_gpu_waits(q->gpu, l->serial)) {
		write_sequence_line(q, l, socket, why);
		return;
	}
	h.line = line_copy(l);
	if (socket)
		h.socket = memcpy(xmalloc(sizeof(*socket)), socket, sizeof(*socket));
	if (q->n_held == HELD_MAX)
		write_held_lines(q, 1);
	q->held[q->n_held++] = h;
}

/* why: as above. */
static void write_socket_line(struct profile_requests *q, const struct rec_request *r, const char *why)
{
	uint64_t start = r->h.start_ns;
	char *p = profile_line_begin(q->lines, "request_prof", r->h.tgid), name[REQUEST_NAME_LEN], id[FUNC_STR_LEN];

	p = PUT_FIRST(p, pid, r->h.tgid);
	p = PUT(p, source_kind, "socket");
	p = PUT(p, request, request_name(r, name));
	p = PUT(p, ts_us, profile_since(q->rec, r->h.start_ns));
	p = request_line_exchange(p, r);
	p = PUT_NONZERO(p, request_id, request_answer_id(r, id) ? id : NULL);
	p = PUT_NONZERO(p, end_not_seen, r->h.flags & REQUEST_F_END_UNSEEN);
	p = PUT_NONZERO(p, unfinished, r->h.flags & REC_F_OPEN_END);
	if (why)
		p = PUT(PUT(p, joined, false), joined_why, why);
	p = PUT_TOTAL(p, r->h.dur_ns);
	if (r->accept_ns)
		p = PUT(p, accepted, r->read_ns > r->accept_ns ? r->read_ns - r->accept_ns : 0);
	p = PUT_NONZERO(p, unread, r->read_ns - start);
	if (r->first_byte_ns)
		p = PUT(p, first_byte, r->first_byte_ns - start);
	if (r->first_chunk_ns)
		p = PUT(p, ttft, r->first_chunk_ns - start);
	if (r->chunks > 1) {
		p = PUT(p, tpot_mean, (r->last_chunk_ns - r->first_chunk_ns) / (r->chunks - 1));
		for (size_t i = 0; i < 3; i++)
			p = fmt_us(PUT_KEY_N(p, tpot_pN, percents[i]), request_gap_ns(r, percents[i]));
		p = PUT(p, tpot_max, r->longest_ns);
	}
	*p++ = '}';
	profile_line_end(q->lines, p, false);
}

/* Writes a request from steps whose rows are not known by sequence. */
static void write_steps_line(struct profile_requests *q, struct step_request *r)
{
	char *p = profile_line_begin(q->lines, "request_prof", r->tgid);

	p = PUT_FIRST(p, pid, r->tgid);
	p = PUT(p, source_kind, "steps");
	p = PUT_NONZERO(p, context, r->context);
	if (r->has_rows && r->sequence <= INT32_MAX)
		p = PUT(p, sequence, r->sequence);
	p = PUT(p, ts_us, profile_since(q->rec, r->start));
	/* it is unknown which rows of a shared step were its own */
	if (!r->began_before && !r->shared)
		p = PUT(p, prompt_tokens, r->prompt_tokens);
	if (!r->shared)
		p = PUT(p, output_tokens, step_request_tokens(r));
	p = PUT(p, prefill_steps, r->prefills);
	p = PUT_NONZERO(p, draft_steps, r->drafts);
	p = PUT_NONZERO(p, mixed, r->mixed);
	p = PUT_NONZERO(p, shared_steps, r->shared);
	p = add_flags(p, r);
	p = PUT_TOTAL(p, r->last_end - r->start);
	if (!r->mixed) /* else nothing belongs to one request alone */
		p = add_tokens(p, r);
	*p++ = '}';
	profile_line_end(q->lines, p, r->graph);
}

/* ---- pairs ---- */

static void profile_on_sequence(void *request, const struct rec_request *socket, enum join_result why, void *arg)
{
	write_or_hold_line(arg, request, socket, request_pairs_why(why));
}

static void profile_on_socket(const struct rec_request *r, bool alone, enum join_result why, void *arg)
{
	write_socket_line(arg, r, alone ? NULL : request_pairs_why(why));
}

/* ---- from steps ---- */

static void profile_on_part(struct step_request *r, const struct step_seen *s, const struct request_part *p, void *arg)
{
	struct profile_requests *q = arg;

	profile_steps_part(q->step_lines, s, p);
	if (q->gpu && r->by_parts)
		request_gpu_part(q->gpu, r, s, p);
}

static void profile_on_step(struct step_request *r, const struct step_seen *s, void *arg)
{
	struct profile_requests *q = arg;

	(void)r;
	profile_steps_taken(q->step_lines, s);
	if (q->gpu)
		request_gpu_told(q->gpu, s);
}

static void *profile_on_done(struct step_request *r, void *arg)
{
	struct profile_requests *q = arg;
	const char *id = request_own_id(q->rec->handles, r);
	struct request_line l = {
		.tgid = r->tgid,
		.serial = r->serial,
		.context = r->context,
		.sequence = r->sequence,
		.arrived = r->arrived && step_request_split(r) ? r->arrived : r->start,
		.first = step_request_ttft(r) ? r->start + step_request_ttft(r) : 0,
		.id = id ? sequence_id_hash(id) : 0,
		.start = r->start,
		.end = r->last_end,
		.between = r->spans[SPAN_BETWEEN],
		.graph = r->graph,
		.split = step_request_split(r),
		.cancelled = r->cancelled,
		.shape = q->shape,
		.stages = q->stages,
	};

	if (!r->by_parts) {
		write_steps_line(q, r);
		return NULL;
	}
	if (q->gpu)
		request_gpu_over(q->gpu, r);
	*request_line_shape(q->shape, r, q->rec) = 0;
	*request_line_stages(q->stages, r) = 0;
	if (request_feed_joins(q->rec->requests))
		return line_copy(&l);
	write_or_hold_line(q, &l, NULL, NULL);
	return NULL;
}

void profile_requests_step(struct profile_requests *q, const struct rec_step *r)
{
	if (q->gpu && gpu_info_expects(q->rec->gpu, r->h.tgid))
		request_gpu_expect(q->gpu, r->number);
}

void profile_requests_gpu(struct profile_requests *q, const struct rec_gpu_step *r)
{
	if (!q->gpu)
		return;
	request_gpu_step(q->gpu, r);
	write_held_lines(q, 0);
}

void profile_requests_gap(struct profile_requests *q, const struct rec_gap *r)
{
	if (q->gaps && !(r->h.flags & GAP_F_WITHIN))
		gap_log_add(r->h.kind == REC_SENT ? q->sent : q->gaps, r);
}

/* ---- start and end ---- */

void profile_requests_finish(struct profile_requests *q)
{
	write_held_lines(q, q->n_held);
}

void profile_requests_free(struct profile_requests *q)
{
	request_feed_remove(q->rec->requests, q);
	for (size_t i = 0; i < q->n_held; i++) {
		free(q->held[i].line);
		free(q->held[i].socket);
	}
	request_gpu_free(q->gpu);
	gap_log_free(q->gaps);
	gap_log_free(q->sent);
	free(q);
}

struct profile_requests *profile_requests_new(
	struct profile_lines *lines, const struct recording *rec, struct profile_steps *steps)
{
	static const struct request_reader_ops ops = {
		.part = profile_on_part, .step = profile_on_step, .done = profile_on_done, .sequence = profile_on_sequence, .socket = profile_on_socket
	};
	struct profile_requests *q = xcalloc(1, sizeof(*q));

	q->lines = lines;
	q->rec = rec;
	q->step_lines = steps;
	if (rec->gpu)
		q->gpu = request_gpu_new();
	if (rec->gaps) {
		q->gaps = gap_log_new();
		q->sent = gap_log_new();
	}
	request_feed_add(rec->requests, &ops, q);
	return q;
}
