// SPDX-License-Identifier: BSD-2-Clause
#include "sink/request_track_inner.h"

#define WAITS_MAX 8 /* requests named as the ones that another waited for */

static void add(struct request_slice *s, const char *name, enum request_arg_kind kind, uint64_t v)
{
	if (s->n_args < REQUEST_ARGS_MAX)
		s->args[s->n_args++] = (struct request_arg){ name, kind, v };
}

static void add_flag(struct request_slice *s, const char *name, bool set)
{
	if (set)
		add(s, name, REQUEST_ARG_FLAG, 1);
}

static void add_carrier(struct request_slice *s, const char *name, const struct step_carrier *c)
{
	if (c->known)
		add(s, name, REQUEST_ARG_NUMBER, c->number);
}

static void add_waits(struct request_slice *s, const struct step_request *r)
{
	static const struct {
		const char *whom, *time;
	} names[WAITS_MAX] = {
		{ "waited1_for", "waited1" },
		{ "waited2_for", "waited2" },
		{ "waited3_for", "waited3" },
		{ "waited4_for", "waited4" },
		{ "waited5_for", "waited5" },
		{ "waited6_for", "waited6" },
		{ "waited7_for", "waited7" },
		{ "waited8_for", "waited8" },
	};
	uint64_t rest = r->spans[SPAN_OTHERS];

	for (size_t i = 0; i < r->n_waits && i < WAITS_MAX; i++) {
		rest -= r->waits[i].ns;
		add(s, names[i].whom, REQUEST_ARG_NUMBER, r->waits[i].serial);
		add(s, names[i].time, REQUEST_ARG_TIME, r->waits[i].ns);
	}
	if (rest)
		add(s, "waited_others", REQUEST_ARG_TIME, rest);
}

static void add_spans(struct request_slice *s, const struct step_request *r)
{
	static const char *const names[SPAN_MAX] = {
		[SPAN_OWN_PREFILL] = "own_prefill",
		[SPAN_OWN_DECODE] = "own_decode",
		[SPAN_OTHERS] = "others",
		[SPAN_BETWEEN] = "between",
	};

	for (int i = 0; i < SPAN_MAX; i++) {
		if (r->spans[i])
			add(s, names[i], REQUEST_ARG_TIME, r->spans[i]);
	}
}

static void add_request(struct request_slice *s, const struct step_request *r, const struct live_request *l)
{
	add(s, "number", REQUEST_ARG_NUMBER, r->serial);
	add(s, "pid", REQUEST_ARG_NUMBER, r->tgid);
	if (r->context)
		add(s, "context", REQUEST_ARG_POINTER, r->context);
	add(s, "sequence", REQUEST_ARG_NUMBER, r->sequence);
	if (r->given)
		add(s, "engine_request", REQUEST_ARG_NUMBER, r->given - 1);
	if (!r->began_before)
		add(s, "prompt_tokens", REQUEST_ARG_NUMBER, r->prompt_tokens);
	if (r->by_parts && r->cached >= 0)
		add(s, "cached_tokens", REQUEST_ARG_NUMBER, (uint64_t)r->cached);
	add(s, "output_tokens", REQUEST_ARG_NUMBER, step_request_tokens(r));
	if (r->by_parts)
		add(s, "steps", REQUEST_ARG_NUMBER, r->steps);
	if (r->by_parts)
		add(s, "steps_shared", REQUEST_ARG_NUMBER, r->shared);
	add_carrier(s, "first_step", &l->first);
	if (!r->lost)
		add_carrier(s, "first_token_step", &l->gave_first);
	add_carrier(s, "last_step", &l->last);
	if (step_request_ttft(r))
		add(s, "ttft", REQUEST_ARG_TIME, step_request_ttft(r));
	if (step_request_ttft(r) && step_request_split(r)) {
		add(s, "ttft_others", REQUEST_ARG_TIME, r->first_others);
		add(s, "ttft_between", REQUEST_ARG_TIME, r->first_between);
	}
	if (step_request_split(r)) {
		add_spans(s, r);
		add_waits(s, r);
	}
	add_flag(s, "cancelled", r->cancelled);
	add_flag(s, "began_before", r->began_before);
	add_flag(s, "unfinished", r->cut);
	add_flag(s, "end_not_seen", !r->cut && !r->end_seen);
	add_flag(s, "lost_steps", r->lost);
}

/* The time in which its prompt was decoded; false: unknown. */
static bool find_prefill(const struct step_request *r, uint64_t *ret_end)
{
	*ret_end = r->first_output;
	if (r->lost)
		return false;
	if (r->first_output)
		return true;
	/* if its beginning was not seen there may have been more, or all of it */
	if (!r->decodes)
		*ret_end = r->last_end;
	else if (!r->prefills)
		*ret_end = r->start;
	else
		*ret_end = r->prefill_end;
	return *ret_end >= r->start;
}

static void tell_phases(struct request_tracks *t, const struct step_request *r, uint32_t row)
{
	struct request_slice prefill = { .row = row, .name = "prefill", .start = r->start },
			     decode = { .row = row, .name = "decode", .end = r->last_end };

	if (!find_prefill(r, &prefill.end))
		return;
	decode.start = prefill.end;
	if (prefill.end > prefill.start) {
		if (!r->began_before)
			add(&prefill, "tokens", REQUEST_ARG_NUMBER, r->prompt_tokens);
		if (r->by_parts && r->cached > 0)
			add(&prefill, "cached_tokens", REQUEST_ARG_NUMBER, (uint64_t)r->cached);
		add(&prefill, "steps", REQUEST_ARG_NUMBER, r->prefills);
		add_flag(&prefill, "began_before", r->began_before);
		t->ops->slice(&prefill, t->arg);
	}
	if (decode.end > decode.start) {
		add(&decode, "tokens", REQUEST_ARG_NUMBER, r->outputs);
		add(&decode, "steps", REQUEST_ARG_NUMBER, r->decodes);
		add_flag(&decode, "began_before", r->began_before && prefill.end == prefill.start);
		add_flag(&decode, "unfinished", r->cut);
		t->ops->slice(&decode, t->arg);
	}
}

static void tell_arrow(struct request_tracks *t, const struct step_request *r, uint32_t row, const char *name,
	const struct step_carrier *c, uint64_t from_ns, uint64_t ns)
{
	const struct request_arrow a = {
		.name = name, .tgid = r->tgid, .lane = c->lane, .row = row, .from_ns = from_ns, .ns = ns
	};

	/* a slice without a length holds no arrow, nor does one in another file */
	if (c->known && c->lane && c->file == t->file && c->end > c->start)
		t->ops->arrow(&a, t->arg);
}

/* From its first step, from the one that gave its first token, and from its last: those in between are too many. */
static void tell_arrows(struct request_tracks *t, const struct step_request *r, const struct live_request *l, uint32_t row)
{
	uint64_t first_token = r->first_output < r->last_end ? r->first_output : r->last_end - 1;

	if (r->last_end == r->start)
		return;
	tell_arrow(t, r, row, "first step", &l->first, l->first.start, r->start);
	if (l->gave_first.known && !r->lost)
		tell_arrow(t, r, row, "first token", &l->gave_first, l->gave_first.end - 1, first_token);
	if (l->last.number != l->first.number && l->last.end != r->first_output)
		tell_arrow(t, r, row, "last step", &l->last, l->last.end - 1, r->last_end - 1);
}

uint32_t request_tell(struct request_tracks *t, const struct step_request *r, const struct live_request *l)
{
	struct request_slice s = {
		.name = "request", .numbered = true, .number = r->serial, .start = r->start, .end = r->last_end
	};

	if (r->mixed || !r->has_rows || r->last_end < r->start)
		return NO_ROW;
	s.row = request_row_take(t, r);
	if (s.row == NO_ROW)
		return NO_ROW;
	add_request(&s, r, l);
	t->ops->slice(&s, t->arg);
	tell_phases(t, r, s.row);
	tell_arrows(t, r, l, s.row);
	return s.row;
}

void request_tell_queued(struct request_tracks *t, const struct over_request *o, const struct rec_request *socket)
{
	struct request_slice s = { .name = "queued", .start = socket->h.start_ns, .end = o->start };
	struct request_arrow a = { .name = "queued", .row = o->row, .from_ns = s.end - 1, .ns = s.end };

	if (s.start >= s.end)
		return;
	a.from_row = s.row = request_lane_take(t, REQUEST_SLOTS + REQUEST_LANES, s.start, s.end);
	if (s.row == NO_ROW)
		return;
	add(&s, "number", REQUEST_ARG_NUMBER, o->serial);
	add(&s, "pid", REQUEST_ARG_NUMBER, o->tgid);
	add(&s, "fd", REQUEST_ARG_NUMBER, socket->h.id);
	t->ops->slice(&s, t->arg);
	/* a slice in an earlier file, or without a length, holds no arrow */
	if (o->row != NO_ROW && o->file == t->file && !o->empty)
		t->ops->arrow(&a, t->arg);
}
