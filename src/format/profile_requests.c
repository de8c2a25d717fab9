// SPDX-License-Identifier: BSD-2-Clause
#include "format/profile_requests.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "format/derive.h"
#include "format/profile_line.h"
#include "format/request_gpu.h"
#include "gpu/info.h"
#include "requests/request_feed.h"
#include "requests/step_requests.h"
#include "schema/left_out.h"

/* The most bytes of request_line_shape() and of request_line_stages(). */
#define REQUEST_LINE_MAX (16 * 1024)

/* ---- from steps ---- */

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* The nearest rank. */
static uint64_t percentile(const uint64_t *sorted, size_t n, unsigned int percent)
{
	return sorted[(n * percent + 99) / 100 - 1];
}

static char *add_intervals(char *p, struct step_request *r)
{
	if (!r->n_intervals)
		return p;
	qsort(r->intervals, r->n_intervals, sizeof(*r->intervals), compare_u64);
	p = add_us(p, ",\"tpot_p50\":", percentile(r->intervals, r->n_intervals, 50));
	p = add_us(p, ",\"tpot_p90\":", percentile(r->intervals, r->n_intervals, 90));
	p = add_us(p, ",\"tpot_p99\":", percentile(r->intervals, r->n_intervals, 99));
	return add_us(p, ",\"tpot_max\":", r->longest);
}

static char *add_flags(char *p, const struct step_request *r)
{
	if (r->began_before)
		p = fmt_lit(p, ",\"began_before\":true");
	if (r->cut)
		p = fmt_lit(p, ",\"unfinished\":true");
	else if (!r->end_seen)
		p = fmt_lit(p, ",\"end_not_seen\":true");
	if (r->lost)
		p = fmt_lit(p, ",\"lost_steps\":true");
	return p;
}

static char *add_tokens(char *p, struct step_request *r)
{
	uint64_t ttft = step_request_ttft(r);

	if (ttft)
		p = add_us(p, ",\"ttft\":", ttft);
	return r->lost ? p : add_intervals(p, r);
}

/* All of a request of steps whose rows are not known by sequence. zero: the start of the recording. */
static char *request_line_steps(char *p, struct step_request *r, uint64_t zero)
{
	p = add_u64(p, "\"pid\":", r->tgid);
	p = fmt_lit(p, ",\"source_kind\":\"steps\"");
	if (r->context)
		p = add_u64(p, ",\"context\":", r->context);
	if (r->has_rows && r->sequence <= INT32_MAX)
		p = add_u64(p, ",\"sequence\":", r->sequence);
	p = add_us(p, ",\"ts_us\":", r->start > zero ? r->start - zero : 0);
	/* it is unknown which rows of a shared step were its own */
	if (!r->began_before && !r->shared)
		p = add_u64(p, ",\"prompt_tokens\":", r->prompt_tokens);
	if (!r->shared)
		p = add_u64(p, ",\"output_tokens\":", step_request_tokens(r));
	p = add_u64(p, ",\"prefill_steps\":", r->prefills);
	if (r->drafts)
		p = add_u64(p, ",\"draft_steps\":", r->drafts);
	if (r->mixed)
		p = fmt_lit(p, ",\"mixed\":true");
	if (r->shared)
		p = add_u64(p, ",\"shared_steps\":", r->shared);
	p = add_flags(p, r);
	p = add_us(p, PROFILE_STAGES "\"total\":", r->last_end - r->start);
	/* if it is mixed, nothing belongs to one request alone */
	return r->mixed ? p : add_tokens(p, r);
}

#define WAITS_SHOWN 8

/* The requests for which it waited, the longest first. */
static char *add_waits(char *p, const struct step_request *r)
{
	uint64_t others = r->spans[SPAN_OTHERS];
	char key[16];

	for (size_t i = 0; i < r->n_waits && i < WAITS_SHOWN; i++) {
		const struct step_wait *w = &r->waits[i];

		snprintf(key, sizeof(key), "waited%zu", i + 1);
		p = fmt_u64(profile_add_key(p, key, "_for"), w->serial);
		p = fmt_u64(profile_add_key(p, key, "_pid"), w->tgid);
		p = fmt_u64(profile_add_key(p, key, "_sequence"), w->sequence);
		p = fmt_us(profile_add_key(p, key, "_us"), w->ns);
		if (w->first_ns && r->first_output && !r->began_before)
			p = fmt_us(profile_add_key(p, key, "_ttft_us"), w->first_ns);
		others -= w->ns;
	}
	return others ? add_us(p, ",\"waited_others_us\":", others) : p;
}

static char *add_spans(char *p, const struct step_request *r)
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
static char *request_line_shape(char *p, const struct step_request *r, const struct left_out *list)
{
	uint32_t left_out = left_out_between(list, r->start, r->last_end);
	char parts[SHED_TEXT_MAX];

	if (r->given)
		p = add_u64(p, ",\"engine_request\":", r->given - 1);
	if (!r->mixed && !r->began_before)
		p = add_u64(p, ",\"prompt_tokens\":", r->prompt_tokens);
	if (!r->mixed && r->cached >= 0)
		p = add_u64(p, ",\"cached_tokens\":", (uint64_t)r->cached);
	if (!r->mixed)
		p = add_u64(p, ",\"output_tokens\":", step_request_tokens(r));
	p = add_u64(p, ",\"steps\":", r->steps);
	p = add_u64(p, ",\"steps_shared\":", r->shared);
	p = add_u64(p, ",\"prefill_steps\":", r->prefills);
	if (r->drafts)
		p = add_u64(p, ",\"draft_steps\":", r->drafts);
	if (r->mixed)
		p = fmt_lit(p, ",\"mixed\":true");
	if (r->cancelled)
		p = fmt_lit(p, ",\"cancelled\":true");
	p = add_flags(p, r);
	if (left_out)
		p = add_string(p, ",\"left_out\":", shed_text(left_out, parts));
	return step_request_split(r) ? add_waits(p, r) : p;
}

static char *request_line_stages(char *p, struct step_request *r)
{
	bool split = step_request_split(r);

	if (split)
		p = add_spans(p, r);
	if (split && step_request_ttft(r)) {
		p = add_us(p, ",\"ttft_others\":", r->first_others);
		p = add_us(p, ",\"ttft_between\":", r->first_between);
	}
	return r->mixed ? p : add_tokens(p, r);
}

/* ---- sockets ---- */

static const char *family_name(unsigned int family)
{
	return family == AF_UNIX ? "unix" : family == AF_INET6 ? "inet6"
							       : "inet";
}

static char *request_line_exchange(char *p, const struct rec_request *r)
{
	p = add_u64(p, ",\"fd\":", r->h.id);
	p = add_string(p, ",\"family\":", family_name(r->family));
	p = add_u64(p, ",\"bytes_read\":", r->bytes_read);
	p = add_u64(p, ",\"bytes_written\":", r->bytes_written);
	p = add_u64(p, ",\"reads\":", r->reads);
	p = add_u64(p, ",\"writes\":", r->writes);
	p = add_u64(p, ",\"chunks\":", r->chunks);
	p = add_us(p, ",\"write_blocked_us\":", r->blocked_ns);
	return p;
}

/* For one on a socket: its shape, the part about what was read and written, and its stages. */
static char *request_line_socket(char *p, const struct rec_request *r, uint64_t zero)
{
	uint64_t start = r->h.start_ns;
	char buf[REQUEST_NAME_LEN];

	p = add_u64(p, "\"pid\":", r->h.tgid);
	p = add_string(p, ",\"source_kind\":\"socket\",\"request\":", request_name(r, buf));
	p = add_us(p, ",\"ts_us\":", start > zero ? start - zero : 0);
	p = request_line_exchange(p, r);
	if (r->h.flags & REQUEST_F_END_UNSEEN)
		p = fmt_lit(p, ",\"end_not_seen\":true");
	if (r->h.flags & REC_F_OPEN_END)
		p = fmt_lit(p, ",\"unfinished\":true");
	return p;
}

static char *request_line_socket_stages(char *p, const struct rec_request *r)
{
	uint64_t start = r->h.start_ns;

	p = add_us(p, PROFILE_STAGES "\"total\":", r->h.dur_ns);
	if (r->accept_ns)
		p = add_us(p, ",\"accepted\":", start > r->accept_ns ? start - r->accept_ns : 0);
	if (r->first_byte_ns)
		p = add_us(p, ",\"first_byte\":", r->first_byte_ns - start);
	if (r->first_chunk_ns)
		p = add_us(p, ",\"ttft\":", r->first_chunk_ns - start);
	if (r->chunks > 1) {
		p = add_us(p, ",\"tpot_mean\":",
			(r->last_chunk_ns - r->first_chunk_ns) / (r->chunks - 1));
		p = add_us(p, ",\"tpot_p50\":", request_gap_ns(r, 50));
		p = add_us(p, ",\"tpot_p90\":", request_gap_ns(r, 90));
		p = add_us(p, ",\"tpot_p99\":", request_gap_ns(r, 99));
		p = add_us(p, ",\"tpot_max\":", r->longest_ns);
	}
	return p;
}

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

	if (!q)
		return -ENOMEM;
	q->lines = lines;
	q->rec = rec;
	q->step_lines = steps;
	if (rec->gpu)
		q->gpu = request_gpu_new();
	request_feed_add(rec->requests, &ops, q);
	*ret_requests = q;
	return 0;
}
