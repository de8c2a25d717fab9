// SPDX-License-Identifier: BSD-2-Clause
#include "report/requests.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/step_requests.h"
#include "report/cause.h"
#include "report/summary.h"

/* A time between tokens that counts only if its request turns out not to be mixed. */
struct token_time {
	uint32_t request;
	int64_t ns;
};

struct finder {
	struct request_summary *rs;
	struct token_time *tokens;
	size_t n_tokens, tokens_size;
	bool *mixed; /* by request number */
	size_t n_mixed, mixed_size;
	bool failed; /* out of memory */
};

void requests_free(struct request_summary *rs)
{
	free(rs->ttft.ns);
	free(rs->tpot.ns);
}

bool requests_left_out(const struct request_summary *rs, char text[REQUESTS_TEXT_MAX])
{
	size_t n = 0;

	if (!rs->mixed && !rs->began_before && !rs->lost)
		return false;
	n += (size_t)snprintf(text, REQUESTS_TEXT_MAX, "left out of these times:");
	if (rs->mixed && rs->shared_steps && !rs->by_lines)
		n += (size_t)snprintf(text + n, REQUESTS_TEXT_MAX - n,
			" at least %llu requests, which shared %llu steps with others (up to %llu sequences in one)",
			(unsigned long long)(rs->mixed > rs->max_sequences ? rs->mixed : rs->max_sequences),
			(unsigned long long)rs->shared_steps, (unsigned long long)rs->max_sequences);
	else if (rs->mixed)
		n += (size_t)snprintf(text + n, REQUESTS_TEXT_MAX - n, " %llu requests that cannot be told from others",
			(unsigned long long)rs->mixed);
	if (rs->began_before)
		n += (size_t)snprintf(text + n, REQUESTS_TEXT_MAX - n,
			"%s of the first token's, %llu requests that began before the recording", rs->mixed ? ";" : "",
			(unsigned long long)rs->began_before);
	if (rs->lost)
		snprintf(text + n, REQUESTS_TEXT_MAX - n, "%s %llu requests during which steps were lost",
			rs->mixed || rs->began_before ? ";" : "", (unsigned long long)rs->lost);
	return true;
}

static void on_step(struct step_request *r, const struct step_seen *s, void *arg)
{
	(void)r;
	if (s->phase == PHASE_SHARED)
		requests_add_shared(((struct finder *)arg)->rs, s);
}

void requests_add_shared(struct request_summary *rs, const struct step_seen *s)
{
	rs->shared_steps++;
	rs->unreadable += !s->rows.n_sequences;
	if (s->rows.n_sequences > rs->max_sequences)
		rs->max_sequences = s->rows.n_sequences;
	rs->shared_tokens += step_seen_tokens(s);
}

static void on_token(struct step_request *r, const struct step_seen *s, uint64_t ns, uint64_t gap, void *arg)
{
	struct finder *f = arg;

	(void)s;
	if (gap > PAUSE_NS || r->mixed)
		return;
	if (array_reserve(&f->tokens, f->n_tokens + 1, &f->tokens_size, sizeof(*f->tokens))) {
		f->failed = true;
		return;
	}
	f->tokens[f->n_tokens++] = (struct token_time){ .request = r->serial, .ns = (int64_t)ns };
}

/* Leaves out everything about this request. */
static void leave_out(struct step_request *r, void *arg)
{
	struct finder *f = arg;

	if (array_reserve(&f->mixed, (size_t)r->serial + 1, &f->mixed_size, sizeof(*f->mixed))) {
		f->failed = true;
		return;
	}
	while (f->n_mixed <= r->serial)
		f->mixed[f->n_mixed++] = false;
	f->mixed[r->serial] = true;
}

static void on_done(struct step_request *r, void *arg)
{
	struct finder *f = arg;
	struct request_summary *rs = f->rs;
	uint64_t ttft = step_request_ttft(r);

	rs->tokens += r->outputs;
	if (r->mixed) {
		rs->mixed++;
		return;
	}
	if (r->lost)
		leave_out(r, f);
	rs->count++;
	rs->began_before += r->began_before;
	rs->lost += r->lost;
	rs->drafts += r->drafts > 0;
	rs->prompt_tokens += r->began_before ? 0 : r->prompt_tokens;
	rs->output_tokens += step_request_tokens(r);
	if (ttft && times_add(&rs->ttft, (int64_t)ttft))
		f->failed = true;
}

bool requests_seen(const struct step *s, bool prefill, bool decode, struct step_seen *ret)
{
	const uint64_t *v = s->rows;

	if (!prefill && !decode && !step_has_rows(s))
		return false;
	*ret = (struct step_seen){
		.start = (uint64_t)s->ts + 1, /* 0 means none */
		.end = (uint64_t)ns_add(s->ts, s->total) + 1,
		.context = s->context,
		.tokens = s->n_tokens,
		.number = s->number,
		.phase = prefill ? PHASE_PREFILL : decode ? PHASE_DECODE : PHASE_SHARED,
		.has_rows = step_has_rows(s),
		.rows = {
			.readable = !v[ROW_READ],
			.one = v[ROW_ONE_SEQUENCE],
			.sequence = v[ROW_ONE_SEQUENCE] ? v[ROW_ONE_SEQUENCE] - 1 : 0,
			.mask = v[ROW_MASK] ? v[ROW_MASK] - 1 : 0,
			.n_sequences = v[ROW_N_SEQUENCES] ? v[ROW_N_SEQUENCES] - 1 : 0,
			.n_outputs = v[ROW_N_OUTPUTS] ? v[ROW_N_OUTPUTS] - 1 : 0,
			.outputs_known = v[ROW_N_OUTPUTS],
			.position = (int64_t)v[ROW_FIRST_POSITION] - 1,
		},
		.cut = s->unfinished,
		.began_before = s->began_before,
	};
	return true;
}

static void add_step(struct step_requests *q, const struct step *s, struct step_seen *seen)
{
	if (!seen->context)
		seen->context = s->lane;
	step_requests_add(q, seen);
}

static void take_steps(const struct process *p, const struct phase_names *names, bool lost,
	const uint32_t *order, struct step_requests *q)
{
	struct step_seen seen;
	uint32_t recording = 0;

	for (size_t i = 0; i < p->steps.len; i++) {
		const struct step s = steps_load(&p->steps, order ? order[i] : i);

		/* requests do not continue from one recording into the next */
		if (i && s.recording != recording)
			step_requests_finish(q);
		recording = s.recording;
		if (requests_seen(&s, s.phase && s.phase == names->prefill,
			    s.phase && s.phase == names->decode, &seen))
			add_step(q, &s, &seen);
		if (lost)
			step_requests_lost(q, 1);
	}
	step_requests_finish(q);
}

static bool steps_lost(const struct model *m)
{
	for (size_t i = 0; i < m->lost.len; i++) {
		if (!strcmp(model_text(m, m->lost.rows[i].name), "step") && m->lost.rows[i].count)
			return true;
	}
	return false;
}

int requests_find(const struct process *p, const struct model *m, const struct phase_names *names,
	struct request_summary *ret)
{
	static const struct step_requests_ops ops = {
		.step = on_step, .token = on_token, .mixed = leave_out, .done = on_done
	};
	struct finder f = { .rs = ret };
	struct step_requests *q = NULL;
	uint32_t *order = NULL;
	int err;

	*ret = (struct request_summary){};
	if (!p->steps.len || (!names->prefill && !names->decode))
		return 0;
	err = process_order(p, false, &order);
	if (!err)
		err = step_requests_new(NULL, &ops, &f, &q);
	if (err)
		goto out;
	take_steps(p, names, m && steps_lost(m), order, q);
	for (size_t i = 0; i < f.n_tokens && !err; i++) {
		const struct token_time *t = &f.tokens[i];

		if (t->request >= f.n_mixed || !f.mixed[t->request])
			err = times_add(&ret->tpot, t->ns);
	}
	ret->tokens += ret->shared_tokens;
	if (f.failed)
		err = -ENOMEM;
out:
	step_requests_free(q);
	free(order);
	free(f.tokens);
	free(f.mixed);
	return err;
}
