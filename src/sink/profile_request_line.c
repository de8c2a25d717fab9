// SPDX-License-Identifier: BSD-2-Clause
#include "sink/profile_request_line.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "sink/left_out.h"
#include "sink/request.h"

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

/* For engines whose rows are not known by sequence. */
char *request_line_steps(char *p, struct step_request *r, uint64_t zero)
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

char *request_line_shape(char *p, const struct step_request *r, const struct left_out *list)
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

char *request_line_stages(char *p, struct step_request *r)
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

char *request_line_exchange(char *p, const struct rec_request *r)
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

char *request_line_socket(char *p, const struct rec_request *r, uint64_t zero)
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

char *request_line_socket_stages(char *p, const struct rec_request *r)
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
