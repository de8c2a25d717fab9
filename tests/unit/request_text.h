/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests as lines of text, for tests that check everything known about them. */
#ifndef INFTRACE_TEST_REQUEST_TEXT_H
#define INFTRACE_TEST_REQUEST_TEXT_H

#include "requests/step_requests.h"
#include "unit.h"

/* "of 5 100-150 prompt 8+0 tokens 2 ttft 10 intervals 1 split 10/10/0/30 end_seen": of the sequence; prompt: with what was kept of another
 * one (-1: unknown); split: into own prefill and decode, others, between. Returns the end. */
static inline char *put_request(char *p, const struct step_request *r)
{
	const struct {
		bool is;
		const char *name;
	} flags[] = { { r->began_before, "began_before" }, { r->cut, "cut" }, { r->mixed, "mixed" }, { r->lost, "lost" },
		{ r->cancelled, "cancelled" }, { r->end_seen, "end_seen" } };

	p += sprintf(p, "of %lld %llu-%llu prompt %llu+%lld tokens %llu ttft %llu intervals %zu", (long long)r->sequence, (unsigned long long)r->start,
		(unsigned long long)r->last_end, (unsigned long long)r->prompt_tokens, (long long)r->cached,
		(unsigned long long)step_request_tokens(r), (unsigned long long)step_request_ttft(r), r->n_intervals);
	for (int i = 0; i < SPAN_MAX && step_request_split(r); i++)
		p += sprintf(p, i ? "/%llu" : " split %llu", (unsigned long long)r->spans[i]);
	if (r->waits_rest)
		p += sprintf(p, " unknown %llu", (unsigned long long)r->waits_rest);
	if (r->shared)
		p += sprintf(p, " shared %llu", (unsigned long long)r->shared);
	if (r->given)
		p += sprintf(p, " given %llu", (unsigned long long)r->given);
	for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
		p += sprintf(p, "%s%s", flags[i].is ? " " : "", flags[i].is ? flags[i].name : "");
	return p + sprintf(p, "\n");
}

#endif
