// SPDX-License-Identifier: BSD-2-Clause
#include "report/requests.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "report/cause.h"
#include "requests/step_requests.h"
#include "util/parse.h"
#include "util/text.h"

/* A time between tokens that counts only if its request turns out not to be mixed. */
struct requests_token_time {
	uint32_t request;
	int64_t ns;
};

struct requests_finder {
	struct request_summary *rs;
	LIST(struct requests_token_time, tokens);
	LIST(bool, mixed); /* by request number */
};

static void requests_on_step(struct step_request *r, const struct step_seen *s, void *arg)
{
	struct requests_finder *f = arg;

	(void)r;
	if (s->phase == PHASE_SHARED)
		requests_add_shared(f->rs, s);
}

void requests_add_shared(struct request_summary *rs, const struct step_seen *s)
{
	rs->shared_steps++;
	if (s->rows.n_sequences > rs->max_sequences)
		rs->max_sequences = s->rows.n_sequences;
	rs->shared_tokens += step_seen_tokens(s);
}

static void requests_on_token(struct step_request *r, const struct step_seen *s, uint64_t ns, uint64_t gap, void *arg)
{
	struct requests_finder *f = arg;

	(void)s;
	if (gap <= PAUSE_NS && !r->mixed)
		*list_add(f, tokens) = (struct requests_token_time){ r->serial, (int64_t)ns };
}

/* Leaves out everything about this request. */
static void request_leave_out(struct step_request *r, void *arg)
{
	struct requests_finder *f = arg;

	while (f->n_mixed <= r->serial)
		*list_add(f, mixed) = false;
	f->mixed[r->serial] = true;
}

static void requests_on_done(struct step_request *r, void *arg)
{
	struct requests_finder *f = arg;
	struct request_summary *rs = f->rs;
	uint64_t ttft = step_request_ttft(r);

	rs->tokens += r->outputs;
	if (r->mixed) {
		rs->mixed++;
		return;
	}
	if (r->lost)
		request_leave_out(r, f);
	rs->count++;
	rs->began_before += r->began_before;
	rs->lost += r->lost;
	rs->prompt_tokens += r->began_before ? 0 : r->prompt_tokens;
	rs->output_tokens += step_request_tokens(r);
	if (ttft)
		*list_add(rs, ttft) = (int64_t)ttft;
}

bool requests_seen(const struct step *s, bool prefill, bool decode, struct step_seen *ret)
{
	const uint64_t *v = s->rows;
	bool has_rows = v[ROW_N_OUTPUTS] || v[ROW_N_SEQUENCES] || v[ROW_READ];

	if (!prefill && !decode && !has_rows)
		return false;
	*ret = (struct step_seen){
		.start = (uint64_t)s->ts + 1, /* 0 means none */
		.end = (uint64_t)ns_add(s->ts, s->total) + 1,
		.context = s->context,
		.tokens = s->n_tokens,
		.number = s->number,
		.phase = prefill ? PHASE_PREFILL : decode ? PHASE_DECODE
							  : PHASE_SHARED,
		.has_rows = has_rows, /* whether the preset describes them, readable or not */
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

void requests_find(const struct process *p, const struct model *m, const struct phase_names *names,
	struct request_summary *ret)
{
	static const struct step_requests_ops ops = { .step = requests_on_step, .token = requests_on_token, .mixed = request_leave_out, .done = requests_on_done };
	struct requests_finder f = { .rs = ret };
	struct step_requests *q;
	uint32_t *order, recording = 0;
	struct step_seen seen;
	bool lost = false;

	*ret = (struct request_summary){ 0 };
	if (!p->steps.len || (!names->prefill && !names->decode))
		return;
	for (size_t i = 0; m && i < m->lost.len; i++)
		lost |= !strcmp(model_text(m, m->lost.rows[i].name), "step") && m->lost.rows[i].count;
	order = process_order(p, false);
	q = step_requests_new(NULL, &ops, &f);
	for (size_t i = 0; i < p->steps.len; i++) {
		const struct step s = steps_load(&p->steps, order ? order[i] : i);

		/* requests do not continue from one recording into the next */
		if (i && s.recording != recording)
			step_requests_finish(q);
		recording = s.recording;
		if (requests_seen(&s, s.phase && s.phase == names->prefill, s.phase && s.phase == names->decode, &seen)) {
			seen.context = seen.context ?: s.lane;
			step_requests_add(q, &seen);
		}
		if (lost)
			step_requests_lost(q, 1);
	}
	step_requests_finish(q);
	list_for_each (token, f.tokens, f.n_tokens) {
		if (token->request >= f.n_mixed || !f.mixed[token->request])
			*list_add(ret, tpot) = token->ns;
	}
	ret->tokens += ret->shared_tokens;
	step_requests_free(q);
	free(order);
	free(f.tokens);
	free(f.mixed);
}

/* ---- in numbers ---- */

static void sum_request(const struct process *p, const struct request *r, struct batch_summary *sum)
{
	sum->count++;
	sum->prompt_tokens += r->prompt_tokens;
	sum->cached_tokens += r->cached_tokens;
	sum->output_tokens += r->output_tokens;
	sum->cancelled += !!(r->flags & REQUEST_CANCELLED);
	sum->began_before += (r->flags & REQUEST_BEGAN_BEFORE) != 0;
	sum->unfinished += (r->flags & (REQUEST_UNFINISHED | REQUEST_END_NOT_SEEN)) != 0;
	sum->lost += (r->flags & REQUEST_LOST) != 0;
	if (!(r->flags & REQUEST_PARTED) || (p->served.joined && !(r->flags & REQUEST_JOINED))) {
		sum->unparted++;
		sum->unjoined += (r->flags & REQUEST_PARTED) != 0;
		return;
	}
	sum->parts_total = ns_add(sum->parts_total, r->total);
	sum->full = ns_add(sum->full, r->full);
	for (unsigned int i = 0; i < REFUSALS; i++)
		sum->refused[i] = ns_add(sum->refused[i], r->refused[i]);
	sum->preempted += r->preemptions > 0;
	sum->preemptions += r->preemptions;
	sum->recomputed_tokens += r->recomputed_tokens;
	sum->preempted_time = ns_add(sum->preempted_time, r->preempted);
	sum->recompute = ns_add(sum->recompute, r->recompute);
	for (unsigned int i = 0; i < TIME_PARTS; i++)
		sum->parts[i] = ns_add(sum->parts[i], r->parts[i]);
	list_for_each (s, p->served.states + r->first_state, r->n_states)
		sum->states[s->part][s->state] = ns_add(sum->states[s->part][s->state], s->ns);
}

static void sum_requests(const struct process *p, struct batch_summary *sum, int64_t *values)
{
	const enum request_flags incomplete = REQUEST_BEGAN_BEFORE | REQUEST_UNFINISHED | REQUEST_END_NOT_SEEN | REQUEST_LOST;
	const struct request *r = p->served.requests;
	size_t n = p->served.len;

	for (size_t i = 0; i < n; i++) {
		if (request_told_apart(&r[i]))
			sum_request(p, &r[i], sum);
	}
	sum->tpot = percentiles_over(values, n, i, request_told_apart(&r[i]) ? r[i].tpot : -1);
	sum->total = percentiles_over(values, n, i, request_told_apart(&r[i]) && !(r[i].flags & incomplete) ? r[i].total : -1);
	sum->queued = percentiles_over(values, n, i, request_told_apart(&r[i]) ? r[i].parts[TIME_QUEUED] ?: -1 : -1);
}

static void add_culprit(struct batch_summary *sum, struct idmap *by_number, const struct request *r, uint32_t place,
	const struct request_wait *wait)
{
	uint32_t i = idmap_number(by_number, step_key(r->recording, wait->number), sum->n_culprits);
	struct request_culprit *c;

	if (i == sum->n_culprits)
		*list_add(sum, culprits) = (struct request_culprit){ .number = wait->number, .recording = r->recording, .sequence = wait->sequence };
	c = &sum->culprits[i];
	c->ns = ns_add(c->ns, wait->ns);
	c->victims++;
	if (wait->ns > c->worst) {
		c->worst = wait->ns;
		c->worst_of = place;
	}
}

ORDER(compare_culprits, struct request_culprit, FALLING(ns), RISING(recording), RISING(number))

static void batch_find_culprits(const struct process *p, struct batch_summary *sum)
{
	struct idmap by_number = { 0 };
	struct request_pair pair;

	for (size_t i = 0; i < p->served.len; i++) {
		const struct request *r = &p->served.requests[i];
		int64_t named = 0;

		if (!(r->flags & REQUEST_PARTED))
			continue;
		list_for_each (wait, p->served.waits + r->first_wait, r->n_waits) {
			named += wait->ns;
			pair = (struct request_pair){ wait->ns, (uint32_t)i, wait->number, wait->sequence };
			list_insert(sum->pairs, sum->n_pairs, REQUEST_PAIRS_MAX, ns, pair);
			add_culprit(sum, &by_number, r, (uint32_t)i, wait);
		}
		sum->unnamed = ns_add(sum->unnamed, r->parts[TIME_OTHERS] - named);
	}
	idmap_free(&by_number);
	list_sort(sum->culprits, sum->n_culprits, compare_culprits);
}

static void find_occupancy(const struct process *p, struct batch_summary *sum)
{
	for (unsigned int i = 0; i < OCCUPANCY_ROWS; i++) {
		sum->occupancy[i].from = i ? (1u << (i - 1)) + 1 : 1;
		sum->occupancy[i].to = i + 1 < OCCUPANCY_ROWS ? 1u << i : UINT32_MAX;
	}
	for (size_t i = 0; i < p->steps.len; i++) {
		/* 1 + the number, if they could be read */
		int64_t n = steps_get(&p->steps, i, STEP_ROWS + ROW_N_SEQUENCES) - 1;
		unsigned int k = 0;

		if (n <= 0 || steps_get(&p->steps, i, STEP_UNFINISHED))
			continue;
		while (n > sum->occupancy[k].to)
			k++;
		sum->batches++;
		if ((uint64_t)n > sum->max_sequences)
			sum->max_sequences = (uint64_t)n;
		sum->occupancy[k].steps++;
		sum->occupancy[k].sequences += (uint64_t)n;
		sum->occupancy[k].rows += (uint64_t)steps_get(&p->steps, i, STEP_N_TOKENS);
		sum->occupancy[k].time = ns_add(sum->occupancy[k].time, steps_get(&p->steps, i, STEP_TOTAL));
	}
}

/* ---- why one was late ---- */

/* Below this number nothing is typical. */
#define COMPARED_MIN 5
/* At most this many are used for the medians; of more, a selection spread evenly over them. */
#define SAMPLE_MAX 1024
/* A quarter of an octave. */
#define MARGIN 1.19
/* Smaller differences do not matter. */
#define LEAST_SHARE 0.1
#define LEAST_NS 100000
/* A part, or a state of a part, must explain this share of the excess to be named. */
#define PART_SHARE 0.1
#define STATE_SHARE 0.5

static double tokens_after_first(const struct request *r)
{
	return r->output_tokens > 1 ? r->output_tokens - 1 : 1;
}

/* The divisor for a part's time before it is compared: the parts of decoding grow with the tokens. */
static double part_size(const struct request *r, unsigned int part)
{
	return part == TIME_OWN_DECODE || part == TIME_BETWEEN ? tokens_after_first(r) : 1;
}

/* ns of a part within the time that `kind` is about: all, up to the first token, or after it; -1: unknown. */
static int64_t part_time(const struct request *r, enum request_late_kind kind, unsigned int part)
{
	int64_t first = part == TIME_OTHERS       ? r->first_others
			: part == TIME_BETWEEN    ? r->first_between
			: part == TIME_OWN_DECODE ? 0
						  : r->parts[part];

	if (kind == REQUEST_LATE_NONE)
		return r->parts[part];
	if (kind == REQUEST_LATE_FIRST)
		return first;
	return first < 0 ? -1 : r->parts[part] - first;
}

/* Whether others are compared with its times. */
static bool is_compared(const struct request *r)
{
	return !(r->flags & (REQUEST_OF_STEPS | REQUEST_MIXED | REQUEST_LOST | REQUEST_BEGAN_BEFORE)) &&
	       (r->flags & REQUEST_PARTED) &&
	       r->ttft >= 0;
}

struct sample {
	const struct process *p;
	const struct request *requests[SAMPLE_MAX];
	double values[SAMPLE_MAX];
	double states[SAMPLE_MAX * TIME_PARTS * STATES];
};

struct requests_member {
	uint32_t tokens, request;
};

ORDER(compare_members, struct requests_member, RISING(tokens), RISING(request))

static void find_typical(struct sample *s, const struct requests_member *members, size_t n, struct request_typical *t)
{
	const size_t all = TIME_PARTS * STATES, chosen = least_of(n, SAMPLE_MAX);
	const struct request **r = s->requests;

	for (size_t i = 0; i < chosen; i++)
		r[i] = &s->p->served.requests[members[i * n / chosen].request];
	t->first = median_over(s->values, chosen, i, request_first_token(r[i]));
	t->token = median_over(s->values, chosen, i, r[i]->tpot);
	t->written = median_over(s->values, chosen, i, request_written(r[i]));
	t->answered = median_over(s->values, chosen, i, r[i]->answered);
	for (unsigned int k = 0; k < TIME_PARTS; k++) {
		t->first_parts[k] = median_over(s->values, chosen, i, part_time(r[i], REQUEST_LATE_FIRST, k));
		t->token_parts[k] = median_over(s->values, chosen, i,
			r[i]->tpot < 0 ? -1 : (double)part_time(r[i], REQUEST_LATE_TOKENS, k) / tokens_after_first(r[i]));
	}
	memset(s->states, 0, chosen * all * sizeof(*s->states));
	for (size_t i = 0; i < chosen; i++) {
		list_for_each (state, s->p->served.states + r[i]->first_state, r[i]->n_states)
			s->states[i * all + (size_t)state->part * STATES + state->state] += (double)state->ns / part_size(r[i], state->part);
	}
	for (size_t at = 0; at < all; at++)
		t->states[at / STATES][at % STATES] = median_over(s->values, chosen, i, s->states[i * all + at]);
}

/* The members from `first` to before `end` belong to one class. They are also compared with similar prompts on both
 * sides, since those most similar to one at the edge of a class may be in the next class. */
static void add_class(struct request_typicals *t, struct sample *s, const struct requests_member *members, size_t n,
	size_t first, size_t end)
{
	double lo = members[first].tokens / MARGIN, hi = members[end - 1].tokens * MARGIN;
	struct request_typical row = { .class = tokens_class(members[first].tokens) };

	while (first && members[first - 1].tokens >= lo)
		first--;
	while (end < n && members[end].tokens <= hi)
		end++;
	n = end - first;
	if (n >= COMPARED_MIN) {
		row.compared = (uint32_t)n;
		find_typical(s, &members[first], n, &row);
	}
	*list_push(t->rows, t->len, t->size) = row;
}

/* Finds what is typical of all requests in batches. */
static void find_typicals(const struct process *p, struct request_typicals *ret)
{
	struct sample *s = xmalloc(sizeof(*s));
	struct requests_member *members = xcalloc(p->served.len, sizeof(*members));
	size_t n = 0, end;

	for (size_t i = 0; i < p->served.len; i++) {
		if (is_compared(&p->served.requests[i]))
			members[n++] = (struct requests_member){ p->served.requests[i].prompt_tokens, (uint32_t)i };
	}
	s->p = p;
	list_sort(members, n, compare_members);
	for (size_t i = 0; i < n; i = end) {
		uint32_t class = tokens_class(members[i].tokens);

		for (end = i + 1; end < n && tokens_class(members[end].tokens) == class;)
			end++;
		add_class(ret, s, members, n, i, end);
	}
	free(members);
	free(s);
}

static const struct request_typical nothing_typical;

static const struct request_typical *typical_of(const struct request_typicals *t, const struct request *r)
{
	uint32_t class = tokens_class(r->prompt_tokens);
	size_t i = bisect(t->len, k, t->rows[k].class < class);

	return i < t->len && t->rows[i].class == class && t->rows[i].compared ? &t->rows[i] : &nothing_typical;
}

int64_t request_late_wait(const struct request *r, const struct request_wait *wait, enum request_late_kind kind)
{
	int64_t behind = r->parts[TIME_OTHERS] - r->first_others;

	if (kind == REQUEST_LATE_NONE)
		return wait->ns;
	/* all of its waits were before the first token, or all were after it */
	if (r->first_others >= 0 && !behind)
		return kind == REQUEST_LATE_FIRST ? wait->ns : 0;
	if (!r->first_others)
		return kind == REQUEST_LATE_FIRST ? 0 : wait->ns;
	if (wait->first < 0)
		return -1;
	return kind == REQUEST_LATE_FIRST ? wait->first : wait->ns - wait->first;
}

/* Whether ns is nearly all of the request's part: states are known only for whole parts. */
static bool part_is_whole(const struct request *r, unsigned int part, int64_t ns)
{
	return (double)ns >= (1 - LEAST_SHARE) * (double)r->parts[part];
}

static void part_states(
	const struct process *p, const struct request *r, unsigned int part, int64_t ret_states[STATES])
{
	memset(ret_states, 0, STATES * sizeof(*ret_states));
	list_for_each (state, p->served.states + r->first_state, r->n_states) {
		if (state->part == part)
			ret_states[state->state] = ns_add(ret_states[state->state], state->ns);
	}
}

/* Finds the state of the part that took longer. */
static void explain_part(const struct process *p, const struct request_typical *t, const struct request *r,
	struct request_late_part *part)
{
	int64_t states[STATES];

	part->state = STATE_NONE;
	if (part->part == TIME_OTHERS || part->part == TIME_QUEUED || !part_is_whole(r, part->part, part->ns))
		return;
	part_states(p, r, part->part, states);
	for (unsigned int s = 0; s < STATES; s++) {
		int64_t usual = (int64_t)(t->states[part->part][s] * part_size(r, part->part));
		int64_t more = states[s] - usual;

		/* without anything to compare with, computing is no wait */
		if (!t->compared && !(CAUSE_KEPT_OFF & 1u << s))
			continue;
		if (more > part->state_ns && (double)more >= STATE_SHARE * (double)part->more) {
			part->state = (uint8_t)s;
			part->state_ns = more;
		}
	}
	if (part->state_ns > part->more)
		part->state_ns = part->more;
}

/* How much of a part was clearly waiting, if there is nothing to compare with. */
static int64_t part_waited(const struct process *p, const struct request *r, unsigned int part, int64_t ns)
{
	int64_t states[STATES], waited = 0;

	if (part == TIME_QUEUED || part == TIME_OTHERS || ns <= 0)
		return ns < 0 ? 0 : ns;
	if (!part_is_whole(r, part, ns))
		return 0;
	part_states(p, r, part, states);
	for (unsigned int s = 0; s < STATES; s++)
		waited = ns_add(waited, CAUSE_KEPT_OFF & 1u << s ? states[s] : 0);
	return waited < ns ? waited : ns;
}

static void find_parts(const struct process *p, const struct request_typical *t, const struct request *r,
	struct request_late *late)
{
	const double *typical = late->kind == REQUEST_LATE_TOKENS ? t->token_parts : t->first_parts;
	double scale = late->kind == REQUEST_LATE_TOKENS ? tokens_after_first(r) : 1;

	for (unsigned int k = 0; k < TIME_PARTS; k++) {
		struct request_late_part part = { .part = (enum request_time)k, .ns = part_time(r, late->kind, k) };

		part.typical = (int64_t)(typical[k] * scale);
		part.more = late->compared ? part.ns - part.typical : part_waited(p, r, k, part.ns);
		if (part.more <= 0 || (double)part.more < PART_SHARE * (double)late->excess)
			continue;
		explain_part(p, t, r, &part);
		list_insert(late->parts, late->n_parts, TIME_PARTS, more, part);
	}
}

/* Whether the first token was written late by a tenth or more of the time that its client waited for it. */
static bool find_written(const struct request_typical *t, const struct request *r, struct request_late *ret)
{
	int64_t written = request_written(r), more = written - (int64_t)t->written;

	if (written < 0 || more < LEAST_NS || (double)more < LEAST_SHARE * (double)r->ttft_client)
		return false;
	*ret = (struct request_late){ .kind = REQUEST_LATE_WRITTEN, .value = written, .excess = more, .compared = t->compared };
	ret->typical = (int64_t)t->written;
	return true;
}

/* Whether the answer came late by a tenth or more of the whole time that its client waited. */
static bool find_answer(const struct request_typical *t, const struct request *r, struct request_late *ret)
{
	int64_t more = r->answered - (int64_t)t->answered;

	if (r->answered < 0 || more < LEAST_NS || (double)more < LEAST_SHARE * (double)ns_add(r->total, r->answered))
		return false;
	*ret = (struct request_late){ .kind = REQUEST_LATE_ANSWER, .value = r->answered, .excess = more, .compared = t->compared };
	ret->typical = (int64_t)t->answered;
	ret->held = r->write_blocked < more ? r->write_blocked : more;
	return true;
}

bool request_late_find(const struct process *p, const struct request_typicals *typicals, const struct request *r,
	enum request_late_kind kind, struct request_late *ret)
{
	/* without a token, the length of its prompt was not seen */
	const struct request_typical *t = kind == REQUEST_LATE_NONE ? &nothing_typical : typical_of(typicals, r);
	bool tokens = kind == REQUEST_LATE_TOKENS;
	double typical = tokens ? t->token : t->first, each;
	int64_t waited = 0;

	if (!(r->flags & REQUEST_PARTED) || (r->flags & REQUEST_LOST))
		return false;
	if (kind == REQUEST_LATE_WRITTEN)
		return find_written(t, r, ret);
	if (kind == REQUEST_LATE_ANSWER)
		return find_answer(t, r, ret);
	*ret = (struct request_late){ .kind = kind, .compared = typical > 0 ? t->compared : 0 };
	if (kind == REQUEST_LATE_NONE && (r->output_tokens || r->ttft >= 0 || (r->flags & REQUEST_BEGAN_BEFORE)))
		return false;
	ret->value = tokens ? r->tpot : request_first_token(r);
	if (kind == REQUEST_LATE_NONE)
		ret->value = r->total;
	if (ret->value < 0)
		return false;
	ret->typical = (int64_t)typical;
	each = (double)(ret->value - ret->typical);
	if (!ret->compared) {
		for (unsigned int k = 0; k < TIME_PARTS; k++)
			waited = ns_add(waited, part_waited(p, r, k, part_time(r, kind, k)));
		each = (double)waited / (tokens ? tokens_after_first(r) : 1);
	}
	if (each < LEAST_SHARE * (ret->compared ? typical : (double)ret->value))
		return false;
	ret->excess = (int64_t)(each * (tokens ? tokens_after_first(r) : 1));
	if (ret->excess < LEAST_NS)
		return false;
	find_parts(p, t, r, ret);
	return true;
}

ORDER(compare_late, struct request_late_ref, FALLING(excess), RISING(request), RISING(kind))

void batch_summary_make(const struct process *p, struct batch_summary *ret)
{
	struct request_late late;
	int64_t *values;

	memset(ret, 0, sizeof(*ret));
	if (!p->served.in_batches)
		return;
	values = xcalloc(p->served.len, sizeof(*values));
	sum_requests(p, ret, values);
	free(values);
	find_occupancy(p, ret);
	find_typicals(p, &ret->typicals);
	for (size_t i = 0; i < p->served.len; i++) {
		for (enum request_late_kind kind = 0; kind < REQUEST_LATE_KINDS; kind++) {
			if (request_late_find(p, &ret->typicals, &p->served.requests[i], kind, &late))
				*list_add(ret, late) = (struct request_late_ref){ late.excess, (uint32_t)i, late.kind };
		}
	}
	list_sort(ret->late, ret->n_late, compare_late);
	batch_find_culprits(p, ret);
}

/* ---- which requests kept the SLO ---- */

static int slo_parse_item(const char *key, const char *value, struct slo *slo, char why[SLO_WHY_MAX])
{
	bool ttft = !strcmp(key, "ttft"), tpot = !strcmp(key, "tpot");
	int64_t *member = ttft ? &slo->ttft : &slo->tpot;
	char shown[64], line[PARSE_ERROR_MAX];
	uint64_t ns;
	int err;

	if ((!ttft && !tpot) || *member) {
		snprintf(why, SLO_WHY_MAX, "--slo: %s `%s`; write ttft=500ms,tpot=50ms or one of them",
			ttft || tpot ? "twice" : "there is no", text_printable(shown, sizeof(shown), key));
		return -EINVAL;
	}
	if (*value && !value[strspn(value, "0123456789.")]) {
		snprintf(why, SLO_WHY_MAX, "--slo: %s=%s has no unit; write %s=%sms or %s=%ss", key, text_printable(shown, sizeof(shown), value),
			key, shown, key, shown);
		return -EINVAL;
	}
	err = parse_duration(value, &ns);
	if (!err && !ns)
		err = -EINVAL;
	if (err) {
		snprintf(why, SLO_WHY_MAX, "%s", parse_error(line, PARSE_DURATION, "--slo", value, err));
		return -EINVAL;
	}
	*member = (int64_t)ns;
	return 0;
}

int slo_parse(const char *text, struct slo *ret, char why[SLO_WHY_MAX])
{
	char copy[128], *save = NULL, shown[64];
	struct slo slo = { 0 };
	int err = 0;

	if (snprintf(copy, sizeof(copy), "%s", text) >= (int)sizeof(copy) || !*text)
		goto bad;
	for (char *part = strtok_r(copy, ",", &save); part && !err; part = strtok_r(NULL, ",", &save)) {
		char *value = strchr(part, '=');

		if (!value)
			goto bad;
		*value++ = '\0';
		err = slo_parse_item(part, value, &slo, why);
	}
	if (err)
		return err;
	if (!slo.ttft && !slo.tpot)
		goto bad;
	*ret = slo;
	return 0;
bad:
	snprintf(why, SLO_WHY_MAX, "--slo: '%s' is not understood; write ttft=500ms,tpot=50ms or one of them",
		text_printable(shown, sizeof(shown), text));
	return -EINVAL;
}

/* Whether a request has kept a limit so far. Sets *ret_known to false if that may still change. */
static bool slo_limit_is_kept(int64_t limit, int64_t value, int64_t so_far, bool *ret_known)
{
	if (!limit)
		return true;
	if (value >= 0)
		return value <= limit;
	/* it has already waited longer than that */
	if (so_far > limit)
		return false;
	*ret_known = false;
	return true;
}

static void slo_judge_exchange(const struct exchange *e, struct slo_result *ret)
{
	bool known = true, ttft, tpot;

	ttft = slo_limit_is_kept(ret->slo.ttft, e->first, e->outputs ? 0 : e->total, &known);
	/* one token has no time between tokens, so it keeps any limit; without a token the outcome is open */
	known &= e->outputs != 0;
	tpot = e->outputs < 2 || slo_limit_is_kept(ret->slo.tpot, e->tpot, 0, &known);
	if (ttft && tpot && !known) {
		ret->unknown++;
		return;
	}
	ret->judged++;
	ret->kept += ttft && tpot;
	ret->missed_ttft += !ttft;
	ret->missed_tpot += !tpot;
}

void slo_judge(const struct process *p, const struct slo *slo, struct slo_result *ret)
{
	bool clients = p->served.n_exchanges;
	size_t n = clients ? p->served.n_exchanges : p->served.len;
	int64_t start = 0, end = 0;
	uint32_t recording = 0;

	*ret = (struct slo_result){ .slo = *slo };
	for (size_t i = 0; i < n; i++) {
		const struct request *r = clients ? NULL : &p->served.requests[i];
		/* where no socket was seen, the request stands in for it */
		struct exchange e = clients ? p->served.exchanges[i] : (struct exchange){
			.ts = r->ts,
			.total = r->total,
			.first = request_first_token(r),
			.tpot = r->tpot,
			.recording = r->recording,
			.outputs = r->output_tokens,
		};

		if (r && r->flags & (REQUEST_BEGAN_BEFORE | REQUEST_LOST | REQUEST_MIXED))
			ret->unknown++;
		else
			slo_judge_exchange(&e, ret);
		/* recordings do not overlap */
		if (!i || e.recording != recording) {
			ret->time = ns_add(ret->time, end - start);
			recording = e.recording;
			start = e.ts;
			end = 0;
		}
		start = e.ts < start ? e.ts : start;
		if (ns_add(e.ts, e.total) > end)
			end = ns_add(e.ts, e.total);
	}
	ret->time = ns_add(ret->time, end - start);
}

/* ---- who had the slots ---- */

enum slot_change {
	SLOT_FREED,
	SLOT_WANTED,
	SLOT_TAKEN,
};

struct slot_event {
	int64_t at;
	uint64_t context;
	uint32_t recording, request; /* its index */
	enum slot_change change;
};

ORDER(compare_slot_events, struct slot_event, RISING(recording), RISING(context), RISING(at), RISING(change))

static bool has_slot(const struct request *r)
{
	return r->flags & REQUEST_PARTED && request_told_apart(r);
}

static int64_t slot_taken(const struct request *r)
{
	return ns_add(r->at, r->parts[TIME_QUEUED]);
}

static int64_t slot_freed(const struct request *r)
{
	return ns_add(r->at, r->total);
}

/* Takes the events of one context. */
static void find_slots_of(struct served *s, const struct slot_event *events, size_t n)
{
	struct idmap freed = { 0 }; /* when each sequence was last */
	uint32_t most = 0, taken = 0, last_freed;
	int64_t full = 0;

	list_for_each (e, events, n) {
		taken += (uint32_t)((e->change == SLOT_TAKEN) - (e->change == SLOT_FREED));
		most = taken > most ? taken : most;
	}
	taken = 0;
	for (size_t i = 0; i < n; i++) {
		struct request *r = &s->requests[events[i].request];

		if (taken == most)
			full += events[i].at - events[i - 1].at;
		if (events[i].change == SLOT_WANTED) {
			r->slots = most;
			r->full = -full;
		} else if (events[i].change == SLOT_TAKEN) {
			taken++;
			r->full += full;
			if (!idmap_get(&freed, r->sequence, &last_freed) || slot_freed(&s->requests[last_freed]) <= r->at)
				r->full = 0;
		} else {
			taken--;
			idmap_set(&freed, r->sequence, events[i].request);
		}
	}
	idmap_free(&freed);
}

static void find_slots(struct served *s)
{
	struct slot_event *events = xcalloc(3 * s->len + 1, sizeof(*events)), e;
	size_t n = 0, end;

	for (size_t i = 0; i < s->len; i++) {
		const struct request *r = &s->requests[i];

		if (!has_slot(r) || slot_freed(r) <= slot_taken(r))
			continue;
		e = (struct slot_event){ r->at, r->context, r->recording, (uint32_t)i, SLOT_WANTED };
		events[n++] = e;
		e.at = slot_taken(r);
		e.change = SLOT_TAKEN;
		events[n++] = e;
		e.at = slot_freed(r);
		e.change = SLOT_FREED;
		events[n++] = e;
	}
	list_sort(events, n, compare_slot_events);
	for (size_t i = 0; i < n; i = end) {
		for (end = i + 1; end < n && events[end].recording == events[i].recording && events[end].context == events[i].context;)
			end++;
		find_slots_of(s, &events[i], end - i);
	}
	free(events);
}

void slot_holders_find(const struct process *p, const struct request *r, struct slot_holders *ret)
{
	const int64_t from = r->at, to = slot_taken(r);

	*ret = (struct slot_holders){ 0 };
	for (size_t i = 0; i < p->served.len && p->served.requests[i].at < to; i++) {
		const struct request *other = &p->served.requests[i];
		int64_t taken = slot_taken(other), freed = slot_freed(other);
		struct request_wait held = { .number = other->number, .sequence = other->sequence, .first = -1 };

		if (other == r || !has_slot(other) || other->recording != r->recording || other->context != r->context)
			continue;
		ret->overtook += other->at > from && taken < to && taken > other->at;
		held.ns = (freed < to ? freed : to) - (taken > from ? taken : from);
		if (held.ns <= 0)
			continue;
		ret->n++;
		list_insert(ret->longest, ret->n_longest, SLOT_HOLDERS_MAX, ns, held);
	}
}

/* ---- the requests of the lines of a profile ---- */

const char *request_time_name(enum request_time part)
{
	static const char *const names[TIME_PARTS] = {
		[TIME_QUEUED] = "queued",
		[TIME_OWN_PREFILL] = "own_prefill",
		[TIME_OWN_DECODE] = "own_decode",
		[TIME_OTHERS] = "others",
		[TIME_BETWEEN] = "between",
	};

	return names[part];
}

ORDER(compare_requests, struct request, RISING(at), RISING(recording), RISING(number))

/* The lines of a recording are adjacent. */
static void place_requests(struct served *s, const struct recording_place *places, size_t n_places, int64_t end)
{
	int64_t offset = 0;

	for (size_t i = 0; i < s->len; i++) {
		struct request *r = &s->requests[i];

		if (!i || r->recording != s->requests[i - 1].recording) {
			size_t k = 0;

			while (k < n_places && places[k].recording != r->recording)
				k++;
			offset = k < n_places ? places[k].offset : end;
		}
		r->at = ns_add(r->ts, offset);
		if (ns_add(r->at, r->total) > end)
			end = ns_add(r->at, r->total);
	}
}

void served_finish(struct served *s, const struct recording_place *places, size_t n_places, int64_t end)
{
	place_requests(s, places, n_places, end);
	list_sort(s->requests, s->len, compare_requests);
	find_slots(s);
	list_for_each (r, s->requests, s->len) {
		if (r->number)
			idmap_set(&s->by_number, step_key(r->recording, r->number), (uint32_t)(r - s->requests));
	}
	/* a trace does not have the sequences of the requests that others waited for */
	list_for_each (r, s->requests, s->len) {
		list_for_each (wait, s->waits + r->first_wait, r->n_waits) {
			const struct request *other;

			other = wait->sequence == SEQUENCE_UNKNOWN ? served_find(s, r->recording, wait->number) : NULL;
			if (other)
				wait->sequence = other->sequence;
		}
	}
}

const struct request *served_find(const struct served *s, uint32_t recording, uint32_t number)
{
	uint32_t i;

	return idmap_get(&s->by_number, step_key(recording, number), &i) ? &s->requests[i] : NULL;
}
