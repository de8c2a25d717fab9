// SPDX-License-Identifier: BSD-2-Clause
#include "sink/profile_requests.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/step_requests.h"
#include "gpu/info.h"
#include "sink/profile_request_line.h"
#include "sink/request.h"
#include "sink/request_feed.h"
#include "sink/request_gpu.h"
#include "sink/request_pairs.h"

/* The line of a sequence's request, without the part from its socket. */
struct line {
	uint32_t tgid, serial;
	uint64_t context, sequence, start, end;
	bool graph, split, cancelled;
	const char *shape, *stages;
};

#define HELD_MAX 1024 /* if full, the first one is written with what is known then */

/* A line that waits for what the GPU did. */
struct held_line {
	struct line *line;
	struct rec_request *socket; /* NULL: none */
	const char *why;
};

struct profile_requests {
	struct profile_lines *lines;
	const struct recording *rec;
	struct profile_steps *step_lines;
	char shape[REQUEST_LINE_MAX], stages[REQUEST_LINE_MAX];
	struct request_gpu *gpu; /* NULL: no GPU is recorded */
	struct held_line held[HELD_MAX];
	size_t n_held;
};

/* ---- lines ---- */

/* Whether the client closed the connection before all was written. What it sends may end behind a request as well. */
static bool was_closed(const struct line *l, const struct rec_request *socket)
{
	return socket->h.flags & REQUEST_F_FAILED || (socket->gone_ns && socket->gone_ns < l->end);
}

/* socket: the request that it is joined with; NULL: none, because of `why`, which is NULL if sockets are not
 * recorded. */
static void put_line(struct profile_requests *q, const struct line *l, const struct rec_request *socket, const char *why)
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
	if (q->gpu)
		p = request_gpu_end(q->gpu, p, l->serial, l->split);
	if (socket) {
		p = add_string(p, ",\"joined\":true,\"request\":", request_name(socket, name));
		p = request_line_exchange(p, socket);
		if (!l->cancelled && was_closed(l, socket))
			p = fmt_lit(p, ",\"cancelled\":true");
	} else if (why) {
		p = add_string(p, ",\"joined\":false,\"joined_why\":", why);
	}
	p = add_us(p, PROFILE_STAGES "\"total\":", l->end - start);
	if (socket && l->split)
		p = add_us(p, ",\"queued\":", l->start - start);
	p = fmt_str(p, l->stages, strlen(l->stages));
	if (socket) {
		p = add_us(p, ",\"ttft_client\":", socket->first_chunk_ns - start);
		if (socket->h.start_ns + socket->h.dur_ns >= l->end)
			p = add_us(p, ",\"answered\":", socket->h.start_ns + socket->h.dur_ns - l->end);
	}
	*p++ = '}';
	profile_line_end(q->lines, p, l->graph);
}

/* With its texts behind it; NULL: no memory. */
static struct line *line_copy(const struct line *l)
{
	size_t shape = strlen(l->shape) + 1, stages = strlen(l->stages) + 1;
	struct line *copy = malloc(sizeof(*copy) + shape + stages);

	if (!copy)
		return NULL;
	*copy = *l;
	copy->shape = memcpy(copy + 1, l->shape, shape);
	copy->stages = memcpy((char *)(copy + 1) + shape, l->stages, stages);
	return copy;
}

/* Writes those that wait for nothing, and of the first n all. */
static void put_held(struct profile_requests *q, size_t n)
{
	size_t left = 0;

	for (size_t i = 0; i < q->n_held; i++) {
		struct held_line *h = &q->held[i];

		if (i >= n && request_gpu_waits(q->gpu, h->line->serial)) {
			q->held[left++] = *h;
			continue;
		}
		put_line(q, h->line, h->socket, h->why);
		free(h->line);
		free(h->socket);
	}
	q->n_held = left;
}

/* false: no memory */
static bool hold_line(struct profile_requests *q, const struct line *l, const struct rec_request *socket, const char *why)
{
	struct held_line h = { .line = line_copy(l), .socket = socket ? malloc(sizeof(*socket)) : NULL, .why = why };

	if (!h.line || (socket && !h.socket)) {
		free(h.line);
		free(h.socket);
		return false;
	}
	if (socket)
		*h.socket = *socket;
	if (q->n_held == HELD_MAX)
		put_held(q, 1);
	q->held[q->n_held++] = h;
	return true;
}

static void write_line(struct profile_requests *q, const struct line *l, const struct rec_request *socket, const char *why)
{
	if (!q->gpu || !request_gpu_waits(q->gpu, l->serial) || !hold_line(q, l, socket, why))
		put_line(q, l, socket, why);
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

/* Of a request without rows. */
static void write_steps(struct profile_requests *q, struct step_request *r)
{
	char *p = profile_line_begin(q->lines, "request_prof", r->tgid);

	if (!p)
		return;
	p = request_line_steps(p, r, q->rec->start_boot_ns);
	*p++ = '}';
	profile_line_end(q->lines, p, r->graph);
}

/* ---- pairs ---- */

static void on_sequence(void *request, const struct rec_request *socket, enum join_result why, void *arg)
{
	write_line(arg, request, socket, request_pairs_why(why));
}

static void on_socket(const struct rec_request *r, bool alone, enum join_result why, void *arg)
{
	write_socket(arg, r, alone ? NULL : request_pairs_why(why));
}

/* ---- from steps ---- */

static void on_part(struct step_request *r, const struct step_seen *s, const struct request_part *p, void *arg)
{
	struct profile_requests *q = arg;

	profile_steps_part(q->step_lines, s, p);
	if (q->gpu && r->by_parts)
		request_gpu_part(q->gpu, r, s, p);
}

static void on_step(struct step_request *r, const struct step_seen *s, void *arg)
{
	struct profile_requests *q = arg;

	(void)r;
	profile_steps_taken(q->step_lines, s);
	if (q->gpu)
		request_gpu_told(q->gpu, s);
}

static void *on_done(struct step_request *r, void *arg)
{
	struct profile_requests *q = arg;
	struct line l = { .tgid = r->tgid, .serial = r->serial, .context = r->context, .sequence = r->sequence, .start = r->start, .end = r->last_end, .graph = r->graph, .split = step_request_split(r), .cancelled = r->cancelled, .shape = q->shape, .stages = q->stages };
	struct line *held = NULL;

	if (!r->by_parts) {
		write_steps(q, r);
		return NULL;
	}
	if (q->gpu)
		request_gpu_over(q->gpu, r);
	*request_line_shape(q->shape, r, q->rec->left_out) = 0;
	*request_line_stages(q->stages, r) = 0;
	held = request_feed_joins(q->rec->requests) ? line_copy(&l) : NULL;
	if (!held)
		write_line(q, &l, NULL, NULL);
	return held;
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
	put_held(q, 0);
}

/* ---- start and end ---- */

void profile_requests_finish(struct profile_requests *q)
{
	put_held(q, q->n_held);
}

void profile_requests_free(struct profile_requests *q)
{
	if (!q)
		return;
	request_feed_remove(q->rec->requests, q);
	for (size_t i = 0; i < q->n_held; i++) {
		free(q->held[i].line);
		free(q->held[i].socket);
	}
	request_gpu_free(q->gpu);
	free(q);
}

int profile_requests_new(struct profile_lines *lines, const struct recording *rec, struct profile_steps *steps,
	struct profile_requests **ret_requests)
{
	static const struct request_reader_ops ops = {
		.part = on_part, .step = on_step, .done = on_done, .sequence = on_sequence, .socket = on_socket
	};
	struct profile_requests *q = calloc(1, sizeof(*q));
	int err;

	if (!q)
		return -ENOMEM;
	q->lines = lines;
	q->rec = rec;
	q->step_lines = steps;
	err = rec->gpu ? request_gpu_new(&q->gpu) : 0;
	if (!err)
		err = request_feed_add(rec->requests, &ops, q);
	if (err) {
		request_gpu_free(q->gpu);
		free(q);
		return err;
	}
	*ret_requests = q;
	return 0;
}
