// SPDX-License-Identifier: BSD-2-Clause
#include "report/summary.h"

#include <string.h>

void summary_free(struct summary *s)
{
	free(s->requests.ttft);
	free(s->requests.tpot);
	free(s->batches.typicals.rows);
	free(s->batches.late);
	free(s->batches.culprits);
	free(s->phases);
	free(s->calls);
	free(s->slow);
	cause_sums_free(&s->causes);
	free(s->open);
	free(s->code.tables);
	free(s->code.diffs);
}

/* More phases than any engine has: the rest counts as one. */
#define PHASES_MAX 64
#define CALLS_MAX 64
#define GAP_CALLS_MAX 10000
/* Waits from this share of the time of all threads are worth mentioning. */
#define CROWDED_SHARE 0.05

ORDER(compare_phases, struct phase_summary, FALLING(total), RISING(phase))

static void sum_phases(const struct process *p, struct summary *sum, int64_t *values)
{
	for (size_t i = 0; i < p->steps.len; i++) {
		const struct step s = steps_load(&p->steps, i);
		struct phase_summary *of;
		size_t at;

		sum->lossy_steps += s.lost != 0;
		sum->unfinished += s.unfinished;
		if (s.unfinished)
			continue;
		at = list_find(sum->n_phases, k, sum->phases[k].phase == s.phase || k + 1 == PHASES_MAX);
		if (at == sum->n_phases)
			*list_add(sum, phases) = (struct phase_summary){ .phase = s.phase };
		of = &sum->phases[at];
		of->tokens += s.n_tokens;
		of->total = ns_add(of->total, s.total);
		if (p->left_out[SHED_BARRIERS] && !(s.left_out & 1u << SHED_BARRIERS)) {
			of->barriers_in++;
			of->barriers_of = ns_add(of->barriers_of, s.total);
			of->barriers = ns_add(of->barriers, s.own[ST_BARRIER]);
		}
		of->workers_total = ns_add(of->workers_total, s.workers_total);
		for (unsigned int k = 0; k < STATES; k++) {
			of->own[k] = ns_add(of->own[k], s.own[k]);
			of->workers[k] = ns_add(of->workers[k], s.workers[k]);
		}
	}
	list_for_each (phase, sum->phases, sum->n_phases)
		phase->steps = percentiles_over(values, p->steps.len, i,
			(uint32_t)steps_get(&p->steps, i, STEP_PHASE) == phase->phase && !steps_get(&p->steps, i, STEP_UNFINISHED)
				? steps_get(&p->steps, i, STEP_TOTAL)
				: -1);
	list_sort(sum->phases, sum->n_phases, compare_phases);
}

ORDER(compare_call_sums, struct call_summary, FALLING(times.sum), RISING(name))

static void sum_calls(const struct process *p, struct summary *sum, int64_t *values)
{
	list_for_each (call, p->calls, p->n_calls) {
		size_t at = list_find(sum->n_calls, k, sum->calls[k].name == call->name || k + 1 == CALLS_MAX);

		if (at == sum->n_calls)
			*list_add(sum, calls) = (struct call_summary){ .name = call->name };
	}
	list_for_each (call, sum->calls, sum->n_calls)
		call->times = percentiles_over(values, p->n_calls, i,
			p->calls[i].name == call->name ? p->calls[i].ns : -1);
	list_sort(sum->calls, sum->n_calls, compare_call_sums);
}

/* The longest call in a gap, if it takes most of it. Of nested calls it is the outer one. */
static void explain_gap(const struct process *p, const struct step *s, struct slow_step *gap)
{
	const struct call *c = p->calls, *longest = NULL;
	/* the first one that began at its start or later */
	size_t first = bisect(p->n_calls, k,
		c[k].recording < s->recording || (c[k].recording == s->recording && c[k].ts < s->ts - s->gap));

	for (size_t i = first; i < p->n_calls && i - first < GAP_CALLS_MAX; i++) {
		if (c[i].recording != s->recording || c[i].ts > s->ts)
			break;
		if (!longest || c[i].ns > longest->ns)
			longest = &c[i];
	}
	if (!longest || longest->ns < s->gap / 2 || longest->ns > s->gap)
		return;
	gap->call = longest->name;
	gap->call_ns = longest->ns;
}

/* ns of a long pause before a step in which *ret_waiting requests waited; 0: up to PAUSE_NS, or nobody asked for a token. */
static int64_t pause_before_step(const struct process *p, const struct step *s, uint32_t *ret_waiting)
{
	int64_t since = s->at;
	uint32_t n = 0;

	if (s->gap <= PAUSE_NS)
		return 0;
	for (size_t i = 0; i < p->served.len && p->served.requests[i].at < s->at; i++) {
		const struct request *r = &p->served.requests[i];

		if (r->at + r->total <= s->at)
			continue;
		since = r->at < since ? r->at : since;
		n++;
	}
	since = since < s->at - s->gap ? s->at - s->gap : since;
	if (s->at - since <= PAUSE_NS)
		return 0;
	*ret_waiting = n;
	return s->at - since;
}

/* Counts the pauses; returns the time of the steps that gave output and of the gaps before them. */
static int64_t output_time(const struct process *p, const struct phase_names *names, struct summary *sum)
{
	int64_t time = 0;

	for (size_t i = 0; i < p->steps.len; i++) {
		uint32_t phase = (uint32_t)steps_get(&p->steps, i, STEP_PHASE);
		int64_t gap = steps_get(&p->steps, i, STEP_GAP);
		bool has_rows = steps_get(&p->steps, i, STEP_ROWS + ROW_N_OUTPUTS) || steps_get(&p->steps, i, STEP_ROWS + ROW_N_SEQUENCES) ||
				steps_get(&p->steps, i, STEP_ROWS + ROW_READ);

		if (gap > PAUSE_NS) {
			sum->pauses++;
			sum->pause_max = gap > sum->pause_max ? gap : sum->pause_max;
		}
		if (steps_get(&p->steps, i, STEP_UNFINISHED) || (phase != names->decode && (!has_rows || phase == names->prefill)))
			continue;
		time = ns_add(time, steps_get(&p->steps, i, STEP_TOTAL));
		/* the step continues the previous one without a pause */
		if (gap >= 0 && gap <= PAUSE_NS)
			time = ns_add(time, gap);
	}
	return time;
}

/* Takes what request_prof says: the only source for requests in batches, and the only one at all without steps. */
static void summary_take_requests(const struct process *p, struct summary *sum)
{
	struct request_summary *rs = &sum->requests;
	bool tpot = !p->steps.len || !rs->count || rs->mixed;

	rs->count = rs->mixed = rs->prompt_tokens = rs->output_tokens = rs->began_before = rs->lost = 0;
	rs->by_lines = true;
	rs->n_ttft = 0;
	if (tpot)
		rs->n_tpot = 0;
	list_for_each (r, p->served.requests, p->served.len) {
		if (r->flags & REQUEST_MIXED) {
			rs->mixed++;
			continue;
		}
		rs->count++;
		rs->prompt_tokens += r->prompt_tokens;
		rs->output_tokens += r->output_tokens;
		rs->began_before += (r->flags & REQUEST_BEGAN_BEFORE) != 0;
		rs->lost += (r->flags & REQUEST_LOST) != 0;
		if (r->ttft >= 0)
			*list_add(rs, ttft) = r->ttft;
		if (tpot && r->tpot >= 0)
			*list_add(rs, tpot) = r->tpot;
	}
	sum->tpot_of_lines = tpot && rs->n_tpot > 0;
}

static void find_latencies(const struct process *p, const struct model *m, const struct phase_names *names,
	struct summary *sum)
{
	struct request_summary *rs = &sum->requests;
	int64_t time;

	requests_find(p, m, names, rs);
	if (p->served.in_batches || (!rs->count && !rs->mixed))
		summary_take_requests(p, sum);
	sum->first_step = percentiles_of(rs->ttft, rs->n_ttft);
	sum->tpot = percentiles_of(rs->tpot, rs->n_tpot);
	time = output_time(p, names, sum);
	if (time)
		sum->output_rate = (double)rs->tokens * 1e9 / (double)time;
	list_for_each (phase, sum->phases, sum->n_phases) {
		if (names->prefill && phase->phase == names->prefill && phase->total)
			sum->prefill_rate = (double)phase->tokens * 1e9 / (double)phase->total;
	}
}

void cause_sums_free(struct cause_sums *s)
{
	free(s->list);
	idmap_free(&s->places);
}

void cause_sums_add(struct cause_sums *s, const struct cause_sum *cause, int64_t excess, bool again)
{
	struct cause_sum c = *cause;
	uint64_t key;
	uint32_t i;

	/* what words_cause() does not tell apart is one cause */
	if (c.where == WHERE_STRAGGLER)
		c.where = WHERE_WORKERS;
	if (c.crowded)
		c.by = 0;
	if (c.state != ST_RUNNABLE)
		c.by_task = false;
	key = (uint64_t)c.by << 32 | (uint64_t)c.where << 16 | (uint64_t)c.state << 8 | (uint64_t)c.crowded << 2 |
	      (uint64_t)c.others << 1 | (uint64_t)c.by_task;
	i = idmap_number(&s->places, key, s->n);
	if (i == s->n)
		*list_push(s->list, s->n, s->size) = c;
	s->list[i].steps += !again;
	s->list[i].excess = ns_add(s->list[i].excess, excess);
}

/* Whether an earlier row has the same name: such threads are one cause. */
static bool behind_has_earlier_name(const struct cause *c, uint32_t i)
{
	for (uint32_t k = 0; k < i; k++) {
		if (c->behind[k].by == c->behind[i].by && !c->behind[k].tid == !c->behind[i].tid)
			return true;
	}
	return false;
}

/* Adds a step's cause. If it waited behind several threads, they share its excess in proportion to the wait. */
static void cause_add(struct summary *sum, const struct cause *c)
{
	struct cause_sum part = { .where = c->where, .state = c->state, .crowded = c->crowded };
	int64_t left = c->excess, ns;

	if (c->unseen)
		return;
	for (uint32_t i = 0; !c->crowded && i < c->n_behind; i++) {
		const struct behind_info *row = &c->behind[i];

		if (row->ns < c->behind_whole / BEHIND_LEAST)
			break;
		ns = (int64_t)((double)c->excess * (double)row->ns / (double)c->behind_whole);
		left -= ns;
		part.by = row->by;
		part.by_task = row->tid != 0;
		cause_sums_add(&sum->causes, &part, ns, behind_has_earlier_name(c, i));
	}
	if (left <= 0 && !c->crowded)
		return;
	part.others = !c->crowded && c->n_behind;
	part.by = c->crowded || part.others ? 0 : c->by;
	part.by_task = !c->crowded && !part.others && c->by_tid;
	cause_sums_add(&sum->causes, &part, left, false);
}

/* Steps whose threads waited for a CPU: behind one another, because there are more of them than CPUs, or (limited)
 * held back by a CPU limit. */
static void find_crowd(const struct process *p, bool limited, struct summary *sum)
{
	struct crowd found = { 0 };
	int64_t barrier = 0;

	for (size_t i = 0; i < p->steps.len; i++) {
		const struct step loaded = steps_load(&p->steps, i), *s = &loaded;
		int64_t ns = limited ? step_held_back(p, s) : -1;

		if (!limited && step_crowded(s))
			ns = step_waited_for_own(p, s);
		found.total = ns_add(found.total, ns_add(s->total, s->workers_total));
		if (ns < limited)
			continue;
		found.steps++;
		found.waited = ns_add(found.waited, ns);
		barrier = ns_add(barrier, ns_add(s->own[ST_BARRIER], s->workers[ST_BARRIER]));
		if (step_workers(s) >= found.threads) {
			found.threads = step_workers(s) + 1;
			found.cpus = s->cpus_allowed;
		}
		if (limited && s->cpu_limit && (!sum->cpu_limit || s->cpu_limit < sum->cpu_limit))
			sum->cpu_limit = s->cpu_limit;
	}
	found.spin = barrier > found.waited / 4;
	if ((double)found.waited >= CROWDED_SHARE * (double)found.total && found.waited)
		*(limited ? &sum->limited : &sum->crowd) = found;
}

ORDER(compare_slow, struct slow_step, FALLING(cause.excess), RISING(step))
ORDER(compare_causes, struct cause_sum, FALLING(excess), RISING(state), RISING(by))

void cause_sums_sort(struct cause_sums *s)
{
	list_sort(s->list, s->n, compare_causes);
	idmap_free(&s->places);
}

static void find_slow(const struct process *p, struct summary *sum)
{
	for (size_t i = 0; i < p->steps.len; i++) {
		const struct step s = steps_load(&p->steps, i);
		struct slow_step slow = { .step = i }, open = slow, gap = { .step = i, .gap = true };

		if (s.unfinished && step_is_overdue(p, i)) {
			cause_open(p, &s, &open.cause);
			*list_add(sum, open) = open;
		}
		cause_find(p, &s, &slow.cause);
		if (slow.cause.where != WHERE_NONE) {
			sum->slow_steps++;
			sum->slow_alone += !slow.cause.compared;
			*list_add(sum, slow) = slow;
			cause_add(sum, &slow.cause);
		}
		gap.cause.excess = cause_gap_excess(p, &s, &gap.cause.typical) ?: pause_before_step(p, &s, &gap.waiting);
		if (gap.cause.excess) {
			explain_gap(p, &s, &gap);
			sum->slow_gaps++;
			*list_add(sum, slow) = gap;
		}
	}
	list_sort(sum->slow, sum->n_slow, compare_slow);
	list_sort(sum->open, sum->n_open, compare_slow);
	cause_sums_sort(&sum->causes);
}

void summary_make(struct process *p, const struct model *m, const struct phase_names *names, struct summary *ret)
{
	const struct exchange *e = p->served.exchanges;
	int64_t *values = xcalloc(p->steps.len + p->n_calls + p->served.n_exchanges, sizeof(*values));

	memset(ret, 0, sizeof(*ret));
	sum_phases(p, ret, values);
	sum_calls(p, ret, values);
	find_latencies(p, m, names, ret);
	batch_summary_make(p, &ret->batches);
	ret->ttft = percentiles_over(values, p->served.n_exchanges, i, e[i].first);
	ret->unread = percentiles_over(values, p->served.n_exchanges, i, e[i].unread);
	ret->to_engine = percentiles_over(values, p->served.n_exchanges, i, e[i].to_engine);
	ret->whole = percentiles_over(values, p->served.n_exchanges, i, e[i].cut ? -1 : e[i].total);
	find_crowd(p, false, ret);
	if (p->n_behind)
		find_crowd(p, true, ret);
	find_slow(p, ret);
	code_summary_make(m, p, ret);
	free(values);
}
