// SPDX-License-Identifier: BSD-2-Clause
#include "format/request_track.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/derive.h"
#include "requests/request_counts.h"
#include "requests/request_feed.h"
#include "requests/step_requests.h"
#include "sink/process_list.h"

/* Steps whose lanes are kept until their requests are written: as many as may wait for an earlier one. */
#define STEPS_KEPT 8192
#define NO_ROW UINT32_MAX

/* A step that carried a request. */
struct step_carrier {
	uint64_t start, end;
	uint32_t number;
	uint32_t lane, file; /* where its slice is; lane 0: nowhere */
	bool known;
};

/* A request that is not over. */
struct live_request {
	struct thread_entry entry; /* by serial number */
	struct step_carrier first, gave_first, last, before_last;
	struct request_live counted;
};

/* A request that is over, until it is clear which request on a socket it is. */
struct over_request {
	uint32_t serial, tgid;
	uint32_t row, file; /* of its slice; row NO_ROW: it has none */
	uint64_t start;     /* of its first step */
	bool empty;         /* the slice has no length */
};

struct request_slot {
	uint64_t context, sequence;
	uint64_t busy_until;
	uint32_t tgid, group;
};

/* A context of a process. */
struct request_group {
	uint32_t tgid;
	uint64_t context;
	unsigned int nth; /* index among the contexts of its process, from 1 */
	struct request_counts counts;
	uint32_t ids[REQUEST_COUNTERS];
};

struct request_tracks {
	const struct recording *rec;
	const struct request_tracks_ops *ops;
	void *arg;
	struct thread_map live; /* struct live_request */
	uint32_t file;
	struct {
		uint32_t number, lane, file;
	} kept[STEPS_KEPT]; /* by number */
	struct request_slot slots[REQUEST_SLOTS];
	uint32_t n_slots;
	uint64_t lane_ends[2 * REQUEST_LANES];
	struct request_group groups[REQUEST_GROUPS];
	uint32_t n_groups;
	uint32_t row_ids[REQUEST_ROWS];
};

/* ---- names ---- */

/* Returns the index of a context with counters of its own; REQUEST_GROUPS: none is left. */
static uint32_t request_group_of(struct request_tracks *t, uint32_t tgid, uint64_t context)
{
	unsigned int nth = 1;
	uint32_t i;

	for (i = 0; i < t->n_groups; i++) {
		if (t->groups[i].tgid != tgid)
			continue;
		if (t->groups[i].context == context)
			return i;
		nth++;
	}
	if (i == REQUEST_GROUPS)
		return i;
	t->groups[t->n_groups++] = (struct request_group){ .tgid = tgid, .context = context, .nth = nth };
	return i;
}

/* Nearly always there is only the first context, which is not mentioned. */
static size_t put_group_name(struct request_tracks *t, uint32_t group, char name[REQUEST_NAME_MAX], size_t len)
{
	const struct request_group *g = group < REQUEST_GROUPS ? &t->groups[group] : NULL;
	const struct task *task;

	if (!group || !g)
		return len;
	if (g->tgid != t->groups[0].tgid) {
		task = tasks_get(t->rec->tasks, g->tgid, g->tgid);
		len += (size_t)snprintf(name + len, REQUEST_NAME_MAX - len, ", %.*s %u", TASK_COMM_LEN,
			task->comm[0] ? task->comm : "pid", g->tgid);
	}
	if (g->nth > 1)
		len += (size_t)snprintf(name + len, REQUEST_NAME_MAX - len, ", context %u", g->nth);
	return len;
}

/* Order of rows, after the counters: waiting requests, slots by context and sequence, then the others. */
void request_tracks_row_name(struct request_tracks *t, uint32_t row, char name[REQUEST_NAME_MAX], int64_t *ret_rank)
{
	const struct request_slot *s;
	size_t len;

	if (row >= REQUEST_SLOTS) {
		bool queue = row >= REQUEST_SLOTS + REQUEST_LANES;

		snprintf(name, REQUEST_NAME_MAX, "%s", queue ? "queue" : "other slots");
		*ret_rank = queue ? 1 : INT32_MAX;
		return;
	}
	s = &t->slots[row];
	len = (size_t)snprintf(name, REQUEST_NAME_MAX, "slot %llu", (unsigned long long)s->sequence);
	put_group_name(t, s->group, name, len);
	*ret_rank = 2 + (int64_t)s->group * 100000 + (s->sequence < 100000 ? (int64_t)s->sequence : 99999);
}

void request_tracks_counter_name(struct request_tracks *t, uint32_t group, enum request_counter counter,
	char name[REQUEST_NAME_MAX], const char **ret_unit)
{
	static const struct {
		const char *name, *unit;
	} counters[REQUEST_COUNTERS] = {
		[REQUEST_BATCH_SIZE] = { "batch size", "rows" },
		[REQUEST_TOKENS] = { "tokens per step", "tokens" },
		[REQUEST_ACTIVE] = { "active requests", "requests" },
		[REQUEST_WAITING] = { "waiting requests", "requests" },
	};

	put_group_name(t, group, name, (size_t)snprintf(name, REQUEST_NAME_MAX, "%s", counters[counter].name));
	*ret_unit = counters[counter].unit;
}

uint32_t *request_tracks_row_id(struct request_tracks *t, uint32_t row)
{
	return &t->row_ids[row];
}

uint32_t *request_tracks_counter_id(struct request_tracks *t, uint32_t group, enum request_counter counter)
{
	return &t->groups[group].ids[counter];
}

/* ---- rows ---- */

/* Takes a row from `first` on that is free at the start; NO_ROW: none is. Requests come roughly in the order of their ends. */
static uint32_t request_lane_take(struct request_tracks *t, uint32_t first, uint64_t start, uint64_t end)
{
	uint64_t *ends = t->lane_ends + (first - REQUEST_SLOTS);

	for (uint32_t i = 0; i < REQUEST_LANES; i++) {
		if (ends[i] > start)
			continue;
		ends[i] = end;
		return first + i;
	}
	return NO_ROW;
}

/* Takes the slot's row, unless the slot had a request that ended after this one began. */
static uint32_t request_row_take(struct request_tracks *t, const struct step_request *r)
{
	struct request_slot *s = t->slots;
	uint64_t sequence = r->own_ids ? 0 : r->sequence; /* or the next free slot */

	for (; s < t->slots + t->n_slots; s++) {
		if (s->tgid != r->tgid || s->context != r->context)
			continue;
		if (r->own_ids ? s->busy_until <= r->start : s->sequence == sequence)
			break;
		sequence += r->own_ids;
	}
	if (s == t->slots + REQUEST_SLOTS || s->busy_until > r->start)
		return request_lane_take(t, REQUEST_SLOTS, r->start, r->last_end);
	if (s == t->slots + t->n_slots) {
		*s = (struct request_slot){
			.tgid = r->tgid,
			.context = r->context,
			.sequence = sequence,
			.group = request_group_of(t, r->tgid, r->context),
		};
		t->n_slots++;
	}
	s->busy_until = r->last_end;
	return (uint32_t)(s - t->slots);
}

/* ---- what is known of a request that is over ---- */

#define WAITS_MAX 8 /* requests named as the ones that another waited for */

static void drawn_add_flag(struct drawn *d, const char *name, bool set)
{
	if (set)
		drawn_add(d, name, DRAWN_FLAG, 1);
}

static void drawn_add_carrier(struct drawn *d, const char *name, const struct step_carrier *c)
{
	if (c->known)
		drawn_add(d, name, DRAWN_NUMBER, c->number);
}

static void drawn_add_waits(struct drawn *d, const struct step_request *r)
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
		drawn_add(d, names[i].whom, DRAWN_NUMBER, r->waits[i].serial);
		drawn_add(d, names[i].time, DRAWN_TIME, r->waits[i].ns);
	}
	if (rest)
		drawn_add(d, "waited_others", DRAWN_TIME, rest);
}

static void drawn_add_spans(struct drawn *d, const struct step_request *r)
{
	static const char *const names[SPAN_MAX] = {
		[SPAN_OWN_PREFILL] = "own_prefill",
		[SPAN_OWN_DECODE] = "own_decode",
		[SPAN_OTHERS] = "others",
		[SPAN_BETWEEN] = "between",
	};

	for (int i = 0; i < SPAN_MAX; i++) {
		if (r->spans[i])
			drawn_add(d, names[i], DRAWN_TIME, r->spans[i]);
	}
}

static const char *const refusal_keys[REFUSALS] = {
#define REFUSAL_KEY(name, key, phrase, column) "no_" #key,
	REFUSALS_ALL(REFUSAL_KEY)
};

static void drawn_add_request(struct drawn *d, const struct recording *rec, const struct step_request *r, const struct live_request *l)
{
	const char *id = request_own_id(rec->handles, r);

	drawn_add(d, "number", DRAWN_NUMBER, r->serial);
	drawn_add(d, "pid", DRAWN_NUMBER, r->tgid);
	if (r->context)
		drawn_add(d, "context", DRAWN_POINTER, r->context);
	drawn_add(d, "sequence", DRAWN_NUMBER, r->sequence);
	if (r->given)
		drawn_add(d, "engine_request", DRAWN_NUMBER, r->given - 1);
	if (id)
		drawn_add_text(d, "request_id", id, FUNC_STR_LEN);
	if (!r->began_before)
		drawn_add(d, "prompt_tokens", DRAWN_NUMBER, r->prompt_tokens);
	if (r->by_parts && r->cached >= 0)
		drawn_add(d, "cached_tokens", DRAWN_NUMBER, (uint64_t)r->cached);
	drawn_add(d, "output_tokens", DRAWN_NUMBER, step_request_tokens(r));
	if (r->by_parts)
		drawn_add(d, "steps", DRAWN_NUMBER, r->steps);
	if (r->by_parts)
		drawn_add(d, "steps_shared", DRAWN_NUMBER, r->shared);
	drawn_add_carrier(d, "first_step", &l->first);
	if (!r->lost)
		drawn_add_carrier(d, "first_token_step", &l->gave_first);
	drawn_add_carrier(d, "last_step", &l->last);
	if (step_request_ttft(r))
		drawn_add(d, "ttft", DRAWN_TIME, step_request_ttft(r));
	if (step_request_ttft(r) && step_request_split(r)) {
		drawn_add(d, "ttft_others", DRAWN_TIME, r->first_others);
		drawn_add(d, "ttft_between", DRAWN_TIME, r->first_between);
		if (r->first_preempted)
			drawn_add(d, "ttft_preempted", DRAWN_TIME, r->first_preempted);
	}
	if (step_request_split(r)) {
		drawn_add_spans(d, r);
		drawn_add_waits(d, r);
	}
	if (r->arrived)
		drawn_add(d, "queued", DRAWN_TIME, r->start - r->arrived);
	for (int i = 0; i < REFUSALS && step_request_split(r); i++) {
		if (r->refused[i])
			drawn_add(d, refusal_keys[i], DRAWN_TIME, r->refused[i]);
	}
	if (r->preemptions && step_request_split(r)) {
		drawn_add(d, "preemptions", DRAWN_NUMBER, r->preemptions);
		drawn_add(d, "preempted", DRAWN_TIME, r->preempted);
		drawn_add(d, "recomputed_tokens", DRAWN_NUMBER, r->recomputed);
		drawn_add(d, "recompute", DRAWN_TIME, r->recompute);
	}
	drawn_add_flag(d, "cancelled", r->cancelled);
	drawn_add_flag(d, "began_before", r->began_before);
	drawn_add_flag(d, "unfinished", r->cut);
	drawn_add_flag(d, "end_not_seen", !r->cut && !r->end_seen);
	drawn_add_flag(d, "lost_steps", r->lost);
}

/* Sets when its prefill ended; false: unknown. */
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

static struct request_slice request_slice_init(uint32_t row, const char *name, uint64_t start, uint64_t end)
{
	struct request_slice s = { .row = row, .start = start, .end = end };

	drawn_begin(&s.d, "batch", name, DRAWN_SPAN, 0);
	return s;
}

static void tell_phases(struct request_tracks *t, const struct step_request *r, uint32_t row)
{
	struct request_slice prefill, decode;
	uint64_t border;

	if (!find_prefill(r, &border))
		return;
	prefill = request_slice_init(row, "prefill", r->start, border);
	decode = request_slice_init(row, "decode", border, r->last_end);
	if (prefill.end > prefill.start) {
		if (!r->began_before)
			drawn_add(&prefill.d, "tokens", DRAWN_NUMBER, r->prompt_tokens);
		if (r->by_parts && r->cached > 0)
			drawn_add(&prefill.d, "cached_tokens", DRAWN_NUMBER, (uint64_t)r->cached);
		drawn_add(&prefill.d, "steps", DRAWN_NUMBER, r->prefills);
		drawn_add_flag(&prefill.d, "began_before", r->began_before);
		t->ops->slice(&prefill, t->arg);
	}
	if (decode.end > decode.start) {
		drawn_add(&decode.d, "tokens", DRAWN_NUMBER, r->outputs);
		drawn_add(&decode.d, "steps", DRAWN_NUMBER, r->decodes);
		drawn_add_flag(&decode.d, "began_before", r->began_before && prefill.end == prefill.start);
		drawn_add_flag(&decode.d, "unfinished", r->cut);
		t->ops->slice(&decode, t->arg);
	}
	for (uint32_t i = 0; i < r->preemptions && i < PREEMPTIONS_KEPT; i++) {
		struct request_slice out = request_slice_init(row, "preempted", r->out[i].from, r->out[i].to);

		if (out.end > out.start)
			t->ops->slice(&out, t->arg);
	}
}

static void tell_flow(struct request_tracks *t, const struct step_request *r, uint32_t row, const char *name,
	const struct step_carrier *c, uint64_t from_ns, uint64_t ns)
{
	const struct request_flow a = {
		.name = name, .tgid = r->tgid, .lane = c->lane, .row = row, .from_ns = from_ns, .ns = ns
	};

	/* a slice without a length holds no flow, nor does one in another file */
	if (c->known && c->lane && c->file == t->file && c->end > c->start)
		t->ops->flow(&a, t->arg);
}

/* From its first step, from the one that gave its first token, and from its last: those in between are too many. */
static void tell_flows(struct request_tracks *t, const struct step_request *r, const struct live_request *l, uint32_t row)
{
	uint64_t first_token = r->first_output < r->last_end ? r->first_output : r->last_end - 1;

	if (r->last_end == r->start)
		return;
	tell_flow(t, r, row, "first step", &l->first, l->first.start, l->first.start);
	if (l->gave_first.known && !r->lost)
		tell_flow(t, r, row, "first token", &l->gave_first, l->gave_first.end - 1, first_token);
	if (l->last.number != l->first.number && l->last.number != l->gave_first.number)
		tell_flow(t, r, row, "last step", &l->last, l->last.end - 1, r->last_end - 1);
}

/* Returns the row of its slice; NO_ROW: it has none. */
static uint32_t request_tell(struct request_tracks *t, const struct step_request *r, const struct live_request *l)
{
	struct request_slice s;

	if (r->mixed || !r->has_rows || r->last_end < r->start)
		return NO_ROW;
	s = request_slice_init(request_row_take(t, r), NULL, r->start, r->last_end);
	if (s.row == NO_ROW)
		return NO_ROW;
	s.d.name = s.d.texts[0];
	s.d.names = DRAWN_NAME_OF_EACH;
	snprintf(s.d.texts[0], sizeof(s.d.texts[0]), "request %u", r->serial);
	drawn_add_request(&s.d, t->rec, r, l);
	t->ops->slice(&s, t->arg);
	tell_phases(t, r, s.row);
	tell_flows(t, r, l, s.row);
	return s.row;
}

/* Writes the time that a request waited for its first step: since it came on its socket, or without one since it arrived. */
static void request_tell_queued(struct request_tracks *t, const struct over_request *o, const struct rec_request *socket, uint64_t arrived)
{
	struct request_slice s = request_slice_init(NO_ROW, "queued", socket ? socket->h.start_ns : arrived, o->start);
	struct request_flow a = { .name = "queued", .row = o->row, .from_ns = s.end - 1, .ns = s.end };

	if (s.start >= s.end)
		return;
	a.from_row = s.row = request_lane_take(t, REQUEST_SLOTS + REQUEST_LANES, s.start, s.end);
	if (s.row == NO_ROW)
		return;
	drawn_add(&s.d, "number", DRAWN_NUMBER, o->serial);
	drawn_add(&s.d, "pid", DRAWN_NUMBER, o->tgid);
	if (socket)
		drawn_add(&s.d, "fd", DRAWN_NUMBER, socket->h.id);
	t->ops->slice(&s, t->arg);
	/* a slice in an earlier file, or without a length, holds no flow */
	if (o->row != NO_ROW && o->file == t->file && !o->empty)
		t->ops->flow(&a, t->arg);
}

/* ---- steps ---- */

static void tracks_on_begin(struct step_request *r, const struct step_seen *s, void *arg)
{
	(void)s;
	thread_map_get(&((struct request_tracks *)arg)->live, r->serial);
}

static struct step_carrier step_carrier_find(const struct request_tracks *t, const struct step_seen *s)
{
	struct step_carrier c = { .start = s->start, .end = s->end, .number = s->number, .known = true };

	if (t->kept[s->number % STEPS_KEPT].number == s->number) {
		c.lane = t->kept[s->number % STEPS_KEPT].lane;
		c.file = t->kept[s->number % STEPS_KEPT].file;
	}
	return c;
}

static void tracks_on_part(struct step_request *r, const struct step_seen *s, const struct request_part *p, void *arg)
{
	struct request_tracks *t = arg;
	struct live_request *l = thread_map_find(&t->live, r->serial);
	uint32_t group;

	(void)p;
	if (!l || !r->has_rows)
		return;
	group = request_group_of(t, r->tgid, r->context);
	l->before_last = l->last;
	l->last = step_carrier_find(t, s);
	if (!l->first.known)
		l->first = l->last;
	if (group < REQUEST_GROUPS)
		request_counts_part(&t->groups[group].counts, &l->counted, s->start, s->end);
}

static void tracks_on_first(struct step_request *r, void *arg)
{
	struct request_tracks *t = arg;
	struct live_request *l = thread_map_find(&t->live, r->serial);

	/* it may be reported with a later step */
	if (l && l->last.number == r->prefill_step)
		l->gave_first = l->last;
	else if (l && l->before_last.number == r->prefill_step)
		l->gave_first = l->before_last;
}

static void tell_counts(struct request_tracks *t, uint32_t group)
{
	struct request_change c;

	while (request_counts_next(&t->groups[group].counts, &c)) {
		if (c.active_changed)
			t->ops->counter(group, REQUEST_ACTIVE, c.ns, c.active, t->arg);
		if (c.waiting_changed)
			t->ops->counter(group, REQUEST_WAITING, c.ns, c.waiting, t->arg);
	}
}

static void tell_step(struct request_tracks *t, uint32_t group, const struct step_seen *s)
{
	t->ops->counter(group, REQUEST_BATCH_SIZE, s->start, s->tokens, t->arg);
	if (s->rows.outputs_known)
		t->ops->counter(group, REQUEST_TOKENS, s->start, step_seen_tokens(s), t->arg);
	t->ops->counter(group, REQUEST_BATCH_SIZE, s->end, 0, t->arg);
	if (s->rows.outputs_known)
		t->ops->counter(group, REQUEST_TOKENS, s->end, 0, t->arg);
}

static void tracks_on_step(struct step_request *r, const struct step_seen *s, void *arg)
{
	struct request_tracks *t = arg;
	uint32_t group;

	(void)r;
	if (!s->has_rows || !s->rows.readable)
		return;
	group = request_group_of(t, s->tgid, s->context);
	if (group == REQUEST_GROUPS)
		return;
	/* two at once would share one counter */
	if (request_counts_step(&t->groups[group].counts, s->start, s->end))
		tell_step(t, group, s);
	tell_counts(t, group);
}

static void tracks_on_mixed(struct step_request *r, void *arg)
{
	struct request_tracks *t = arg;
	struct live_request *l = thread_map_find(&t->live, r->serial);
	uint32_t group = request_group_of(t, r->tgid, r->context);

	if (l && group < REQUEST_GROUPS)
		request_counts_end(&t->groups[group].counts, &l->counted);
}

static void tracks_on_sequence(void *request, const struct rec_request *socket, enum join_result why, void *arg)
{
	(void)why;
	if (socket)
		request_tell_queued(arg, request, socket, 0);
}

static void *tracks_on_done(struct step_request *r, void *arg)
{
	struct request_tracks *t = arg;
	struct live_request *l = thread_map_find(&t->live, r->serial);
	uint32_t row = NO_ROW;
	struct over_request over, *o;

	if (l) {
		tracks_on_mixed(r, arg);
		row = request_tell(t, r, l);
		thread_map_remove(&t->live, l);
	}
	if (!r->by_parts) /* those without rows are of no interest */
		return NULL;
	over = (struct over_request){ r->serial, r->tgid, row, t->file, r->start, r->last_end <= r->start };
	if (!request_feed_joins(t->rec->requests)) {
		if (r->arrived && row != NO_ROW)
			request_tell_queued(t, &over, NULL, r->arrived);
		return NULL;
	}
	o = xmalloc(sizeof(*o));
	*o = over;
	return o;
}

/* ---- start and end ---- */

void request_tracks_step(struct request_tracks *t, const struct rec_step *r, uint32_t lane)
{
	if (!t)
		return;
	t->kept[r->number % STEPS_KEPT].number = r->number;
	t->kept[r->number % STEPS_KEPT].lane = lane;
	t->kept[r->number % STEPS_KEPT].file = t->file;
}

void request_tracks_rotate(struct request_tracks *t)
{
	if (!t)
		return;
	t->file++;
	memset(t->row_ids, 0, sizeof(t->row_ids));
	for (uint32_t i = 0; i < t->n_groups; i++)
		memset(t->groups[i].ids, 0, sizeof(t->groups[i].ids));
}

void request_tracks_finish(struct request_tracks *t)
{
	if (!t)
		return;
	for (uint32_t i = 0; i < t->n_groups; i++)
		tell_counts(t, i);
}

void request_tracks_free(struct request_tracks *t)
{
	if (!t)
		return;
	thread_map_clear(&t->live, NULL);
	request_feed_remove(t->rec->requests, t);
	for (uint32_t i = 0; i < t->n_groups; i++)
		request_counts_clear(&t->groups[i].counts);
	free(t);
}

struct request_tracks *request_tracks_new(const struct recording *rec, const struct request_tracks_ops *ops, void *arg)
{
	static const struct request_reader_ops reader_ops = {
		.begin = tracks_on_begin,
		.part = tracks_on_part,
		.first = tracks_on_first,
		.step = tracks_on_step,
		.mixed = tracks_on_mixed,
		.done = tracks_on_done,
		.sequence = tracks_on_sequence,
	};
	struct request_tracks *t;

	if (!rec->requests)
		return NULL;
	/* pages that are never touched are never allocated */
	t = xcalloc(1, sizeof(*t));
	t->rec = rec;
	t->ops = ops;
	t->arg = arg;
	t->live.size = sizeof(struct live_request);
	request_feed_add(rec->requests, &reader_ops, t);
	return t;
}
