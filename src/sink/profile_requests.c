// SPDX-License-Identifier: BSD-2-Clause
#include "sink/profile_requests.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "engine/step_requests.h"
#include "sink/request.h"

struct profile_requests {
	struct profile_lines *lines;
	const struct recording *rec;
	struct step_requests *steps;
};

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

static void write_request(struct step_request *r, void *arg)
{
	struct profile_requests *q = arg;
	uint64_t zero = q->rec->start_boot_ns, ttft;
	char *p = profile_line_begin(q->lines, "request_prof", r->tgid);

	if (!p)
		return;
	p = add_u64(p, "\"pid\":", r->tgid);
	p = fmt_lit(p, ",\"source_kind\":\"steps\"");
	if (r->context)
		p = add_u64(p, ",\"context\":", r->context);
	if (r->has_rows && r->sequence <= INT32_MAX)
		p = add_u64(p, ",\"sequence\":", r->sequence);
	p = add_us(p, ",\"ts_us\":", r->start > zero ? r->start - zero : 0);
	/* which rows of a shared step were its own is not known */
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
	if (r->began_before)
		p = fmt_lit(p, ",\"began_before\":true");
	if (r->cut)
		p = fmt_lit(p, ",\"unfinished\":true");
	else if (!r->end_seen)
		p = fmt_lit(p, ",\"end_not_seen\":true");
	if (r->lost)
		p = fmt_lit(p, ",\"lost_steps\":true");
	p = add_us(p, PROFILE_STAGES "\"total\":", r->last_end - r->start);
	if (r->mixed) /* nothing of it is one request's alone */
		goto out;
	ttft = step_request_ttft(r);
	if (ttft)
		p = add_us(p, ",\"ttft\":", ttft);
	if (!r->lost)
		p = add_intervals(p, r);
out:
	*p++ = '}';
	profile_line_end(q->lines, p, r->graph);
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
	p = add_u64(p, "\"pid\":", r->h.tgid);
	p = add_string(p, ",\"source_kind\":\"socket\",\"request\":", request_name(r, buf));
	p = add_us(p, ",\"ts_us\":", start > zero ? start - zero : 0);
	p = add_u64(p, ",\"fd\":", r->h.id);
	p = add_string(p, ",\"family\":", family_name(r->family));
	p = add_u64(p, ",\"bytes_read\":", r->bytes_read);
	p = add_u64(p, ",\"bytes_written\":", r->bytes_written);
	p = add_u64(p, ",\"reads\":", r->reads);
	p = add_u64(p, ",\"writes\":", r->writes);
	p = add_u64(p, ",\"chunks\":", r->chunks);
	if (r->h.flags & REQUEST_F_END_UNSEEN)
		p = fmt_lit(p, ",\"end_not_seen\":true");
	if (r->h.flags & REC_F_OPEN_END)
		p = fmt_lit(p, ",\"unfinished\":true");
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
	*p++ = '}';
	profile_line_end(q->lines, p, false);
}

/* ---- the whole ---- */

void profile_requests_step(struct profile_requests *q, const struct rec_step *r)
{
	step_requests_step(q->steps, r);
}

void profile_requests_lost(struct profile_requests *q)
{
	step_requests_lost(q->steps);
}

void profile_requests_settled(struct profile_requests *q)
{
	step_requests_settled(q->steps);
}

void profile_requests_finish(struct profile_requests *q)
{
	step_requests_finish(q->steps);
}

void profile_requests_free(struct profile_requests *q)
{
	if (!q)
		return;
	step_requests_free(q->steps);
	free(q);
}

int profile_requests_new(struct profile_lines *lines, const struct recording *rec,
	struct profile_requests **ret_requests)
{
	static const struct step_requests_ops ops = { .done = write_request };
	struct profile_requests *q = calloc(1, sizeof(*q));
	int err;

	if (!q)
		return -ENOMEM;
	q->lines = lines;
	q->rec = rec;
	err = step_requests_new(rec->probes, &ops, q, &q->steps);
	if (err) {
		free(q);
		return err;
	}
	*ret_requests = q;
	return 0;
}
