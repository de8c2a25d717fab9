// SPDX-License-Identifier: BSD-2-Clause
#include "sink/profile_requests.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "engine/check.h"
#include "sink/request.h"

#define QUEUE_MAX 8192      /* steps that wait for those that began before them */
#define CONTEXTS_MAX 256    /* full: the one that was quiet for longest is forgotten */
#define INTERVALS_MAX 65536 /* of a request; longer ones keep every second, every fourth ... */

enum phase {
	PHASE_PREFILL,
	PHASE_DECODE,
};

/* What is needed of a step's record. */
struct seen {
	uint64_t start, end, context, round;
	uint64_t tokens;
	uint32_t number, tgid;
	enum phase phase;
	bool cut, graph;
};

struct request {
	uint64_t start, prefill_end, last_end; /* start 0: none */
	uint64_t prompt_tokens, decodes, prefills;
	uint64_t first_chunk, last_chunk; /* tokens of prefill steps */
	bool began_before, cut, mixed, graph;
	uint64_t *intervals;
	size_t n_intervals, cap;
	uint64_t stride, skip, longest;
};

struct context {
	uint32_t tgid;
	uint64_t id;
	struct request request;
};

struct profile_requests {
	struct profile_lines *lines;
	const struct recording *rec;
	struct seen queue[QUEUE_MAX]; /* by number */
	size_t n_queue;
	uint64_t round;
	struct context contexts[CONTEXTS_MAX];
	size_t n_contexts;
};

/* ---- a request ---- */

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

static char *add_intervals(char *p, struct request *r)
{
	if (!r->n_intervals)
		return p;
	qsort(r->intervals, r->n_intervals, sizeof(*r->intervals), compare_u64);
	p = add_us(p, ",\"tpot_p50\":", percentile(r->intervals, r->n_intervals, 50));
	p = add_us(p, ",\"tpot_p90\":", percentile(r->intervals, r->n_intervals, 90));
	p = add_us(p, ",\"tpot_p99\":", percentile(r->intervals, r->n_intervals, 99));
	return add_us(p, ",\"tpot_max\":", r->longest);
}

static void write_request(struct profile_requests *q, struct context *c)
{
	uint64_t zero = q->rec->start_boot_ns;
	struct request *r = &c->request;
	char *p = r->start ? profile_line_begin(q->lines, "request_prof", c->tgid) : NULL;

	if (p) {
		p = add_u64(p, ",\"shape\":{\"pid\":", c->tgid);
		p = fmt_lit(p, ",\"source_kind\":\"steps\"");
		if (c->id)
			p = add_u64(p, ",\"context\":", c->id);
		p = add_us(p, ",\"ts_us\":", r->start > zero ? r->start - zero : 0);
		if (!r->began_before)
			p = add_u64(p, ",\"prompt_tokens\":", r->prompt_tokens);
		/* the prefill gives one, too */
		p = add_u64(p, ",\"output_tokens\":", r->decodes + (r->prefill_end != 0));
		p = add_u64(p, ",\"prefill_steps\":", r->prefills);
		if (r->mixed)
			p = fmt_lit(p, ",\"mixed\":true");
		if (r->began_before)
			p = fmt_lit(p, ",\"began_before\":true");
		if (r->cut)
			p = fmt_lit(p, ",\"unfinished\":true");
		p = add_us(p, "},\"stage_us\":{\"total\":", r->last_end - r->start);
		if (r->prefill_end)
			p = add_us(p, ",\"ttft\":", r->prefill_end - r->start);
		p = add_intervals(p, r);
		*p++ = '}';
		profile_line_end(q->lines, p, r->graph);
	}
	*r = (struct request){ .intervals = r->intervals, .cap = r->cap };
}

static void add_interval(struct request *r, uint64_t ns)
{
	if (ns > r->longest)
		r->longest = ns;
	if (r->skip) {
		r->skip--;
		return;
	}
	if (r->n_intervals == INTERVALS_MAX) {
		for (size_t i = 0; i < INTERVALS_MAX / 2; i++)
			r->intervals[i] = r->intervals[2 * i];
		r->n_intervals /= 2;
		r->stride = 2 * r->stride + 1;
	}
	if (r->n_intervals == r->cap) {
		size_t cap = r->cap ? 2 * r->cap : 256;
		uint64_t *list = realloc(r->intervals, cap * sizeof(*list));

		if (!list)
			return;
		r->intervals = list;
		r->cap = cap;
	}
	r->intervals[r->n_intervals++] = ns;
	r->skip = r->stride;
}

/*
 * A prompt that is longer than a batch comes in equal parts, and what is left of it in smaller
 * ones. Other runs are steps of a batch of several sequences, which are named a prefill as well.
 */
static bool is_next_part(const struct request *r, uint64_t tokens)
{
	return tokens < r->last_chunk || (tokens == r->last_chunk && tokens == r->first_chunk);
}

static void take_prefill(struct request *r, const struct seen *s)
{
	if (r->prefills && !is_next_part(r, s->tokens))
		r->mixed = true;
	if (!r->prefills++)
		r->first_chunk = s->tokens;
	r->last_chunk = s->tokens;
	r->prompt_tokens += s->tokens;
	r->prefill_end = s->cut ? 0 : s->end;
}

static void take_decode(struct request *r, const struct seen *s)
{
	if (s->cut)
		return;
	if (r->decodes || r->prefill_end)
		add_interval(r, s->end > r->last_end ? s->end - r->last_end : 0);
	r->decodes++;
}

static struct context *find_context(struct profile_requests *q, uint32_t tgid, uint64_t id)
{
	struct context *c = q->contexts;

	for (size_t i = 0; i < q->n_contexts; i++) {
		if (q->contexts[i].tgid == tgid && q->contexts[i].id == id)
			return &q->contexts[i];
		if (q->contexts[i].request.last_end < c->request.last_end)
			c = &q->contexts[i];
	}
	if (q->n_contexts < CONTEXTS_MAX)
		c = &q->contexts[q->n_contexts++];
	else
		write_request(q, c);
	c->tgid = tgid;
	c->id = id;
	return c;
}

static void take_step(struct profile_requests *q, const struct seen *s)
{
	struct context *c = find_context(q, s->tgid, s->context);
	struct request *r = &c->request;

	if (s->phase == PHASE_PREFILL && (r->decodes || r->began_before))
		write_request(q, c);
	if (!r->start) {
		r->start = s->start;
		r->began_before = s->phase == PHASE_DECODE;
	} else if (s->start < r->last_end) {
		r->mixed = true; /* two at once */
	}
	r->cut |= s->cut;
	r->graph |= s->graph;
	if (s->phase == PHASE_PREFILL)
		take_prefill(r, s);
	else
		take_decode(r, s);
	if (s->end > r->last_end)
		r->last_end = s->end;
}

/* ---- steps, in the order in which they began ---- */

static bool find_value(
	const struct probe_spec *s, const uint64_t *vals, const char *name, uint64_t *ret)
{
	for (unsigned int i = 0; i < s->nargs; i++) {
		if (strcmp(s->args[i].name, name) || !check_shown(s, i, vals))
			continue;
		*ret = vals[i];
		return true;
	}
	return false;
}

static void take_first(struct profile_requests *q, size_t n)
{
	for (size_t i = 0; i < n; i++)
		take_step(q, &q->queue[i]);
	q->n_queue -= n;
	memmove(q->queue, q->queue + n, q->n_queue * sizeof(*q->queue));
}

void profile_requests_step(struct profile_requests *q, const struct rec_step *r)
{
	const struct probe_spec *s = &q->rec->probes->specs[r->h.id];
	const char *name = probe_spec_name(s, r->vals);
	struct seen seen = {
		.start = r->h.start_ns,
		.end = r->h.start_ns + r->h.dur_ns,
		.round = q->round,
		.number = r->number,
		.tgid = r->h.tgid,
		.phase = strcmp(name, "decode") ? PHASE_PREFILL : PHASE_DECODE,
		.cut = r->h.flags & REC_F_OPEN_END,
		.graph = r->n.graphs > 0,
	};
	size_t i;

	if (seen.phase == PHASE_PREFILL && strcmp(name, "prefill"))
		return;
	find_value(s, r->vals, "n_tokens", &seen.tokens);
	find_value(s, r->vals, "context", &seen.context);
	if (q->n_queue == QUEUE_MAX)
		take_first(q, QUEUE_MAX / 2);
	for (i = q->n_queue++; i > 0 && q->queue[i - 1].number > seen.number; i--)
		q->queue[i] = q->queue[i - 1];
	q->queue[i] = seen;
}

/* ---- sockets ---- */

static const char *family_name(unsigned int family)
{
	return family == AF_UNIX ? "unix" : family == AF_INET6 ? "inet6" : "inet";
}

void profile_requests_socket(struct profile_requests *q, const struct rec_request *r)
{
	uint64_t zero = q->rec->start_boot_ns, start = r->h.start_ns;
	char *p = profile_line_begin(q->lines, "request_prof", r->h.tgid), buf[REQUEST_NAME_LEN];

	if (!p)
		return;
	p = add_u64(p, ",\"shape\":{\"pid\":", r->h.tgid);
	p = add_string(p, ",\"source_kind\":\"socket\",\"request\":", request_name(r, buf));
	p = add_us(p, ",\"ts_us\":", start > zero ? start - zero : 0);
	p = add_u64(p, ",\"fd\":", r->h.id);
	p = add_string(p, ",\"family\":", family_name(r->family));
	p = add_u64(p, ",\"bytes_read\":", r->bytes_read);
	p = add_u64(p, ",\"bytes_written\":", r->bytes_written);
	p = add_u64(p, ",\"reads\":", r->reads);
	p = add_u64(p, ",\"writes\":", r->writes);
	p = add_u64(p, ",\"chunks\":", r->chunks);
	if (r->h.flags & REC_F_END_UNSEEN)
		p = fmt_lit(p, ",\"end_not_seen\":true");
	if (r->h.flags & REC_F_OPEN_END)
		p = fmt_lit(p, ",\"unfinished\":true");
	p = add_us(p, "},\"stage_us\":{\"total\":", r->h.dur_ns);
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
	*p++ = '}';
	profile_line_end(q->lines, p, false);
}

void profile_requests_settled(struct profile_requests *q)
{
	size_t n = 0;

	q->round++;
	/* the first round may have begun before the step's record came */
	while (n < q->n_queue && q->queue[n].round + 2 <= q->round)
		n++;
	if (n)
		take_first(q, n);
}

void profile_requests_finish(struct profile_requests *q)
{
	take_first(q, q->n_queue);
	for (size_t i = 0; i < q->n_contexts; i++)
		write_request(q, &q->contexts[i]);
}

void profile_requests_free(struct profile_requests *q)
{
	for (size_t i = 0; q && i < q->n_contexts; i++)
		free(q->contexts[i].request.intervals);
	free(q);
}

int profile_requests_new(struct profile_lines *lines, const struct recording *rec,
	struct profile_requests **ret_requests)
{
	struct profile_requests *q = calloc(1, sizeof(*q));

	if (!q)
		return -ENOMEM;
	q->lines = lines;
	q->rec = rec;
	*ret_requests = q;
	return 0;
}
