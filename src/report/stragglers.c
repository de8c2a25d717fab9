// SPDX-License-Identifier: BSD-2-Clause
/* Who is late for collectives, and why: see report.h. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/output.h"

/* An excess by chance, as for steps (cause.c). */
#define NOISE_SIGMAS 6.0
#define NOISE_SHARE 0.1
#define EXCESS_MIN_NS 20000
/* A pause, or the two states that a sentence names, must explain one half of an excess to be its cause. */
#define CAUSE_SHARE 2

/* A collective that all units entered at known times. */
struct judged {
	size_t collective;
	uint32_t unit, after, member; /* the last unit, the one before it, and the last unit's last member */
	int64_t late_ns, residual_ns;
	int64_t before_ns; /* when all had entered the previous collective, by the timeline; INT64_MIN: unknown */
};

struct straggler_entry {
	int64_t ns;
	uint32_t member;
};

struct finder {
	const struct model *m;
	const struct summary *summaries;
	const struct ranks *ranks;
	struct straggler_group *g;
	uint32_t *unit_of;               /* by member */
	struct straggler_entry *entries; /* by unit, of the collective at hand */
	struct judged *judged;
	double *own; /* by unit, then judged collective: what it took longer than the others since its last call; NaN: unknown */
	size_t n;    /* collectives */
};

static const struct rank *member_rank(const struct finder *f, uint32_t member)
{
	return f->ranks->list[f->g->group->members[member]];
}

static uint32_t member_call(const struct finder *f, uint32_t member, size_t collective)
{
	return f->g->group->calls[member][collective];
}

/* ---- who was last ---- */

static void find_units(struct finder *f)
{
	struct straggler_group *g = f->g;
	const struct rank_group *group = g->group;

	for (size_t i = 1; i < group->n; i++)
		g->by_host |= member_rank(f, (uint32_t)i)->host != member_rank(f, 0)->host;
	g->units = xcalloc(group->n, sizeof(*g->units));
	f->unit_of = xcalloc(group->n, sizeof(*f->unit_of));
	f->entries = xcalloc(group->n, sizeof(*f->entries));
	for (uint32_t i = 0; i < group->n; i++) {
		uint32_t host = member_rank(f, i)->host;
		size_t unit = list_find(g->n_units, u, g->by_host && g->units[u].host == host);

		if (unit == g->n_units)
			g->units[g->n_units++] = (struct straggler_unit){ .host = host, .rank = g->by_host ? RANKS_NONE : group->members[i] };
		f->unit_of[i] = (uint32_t)unit;
	}
}

/* Sets the entries of a collective. Returns false, and counts it, if one is missing or its time unknown. */
static bool get_entries(struct finder *f, size_t collective)
{
	struct straggler_group *g = f->g;
	bool placed = true;

	for (uint32_t u = 0; u < g->n_units; u++)
		f->entries[u].ns = INT64_MIN;
	for (uint32_t k = 0; k < g->group->n; k++) {
		uint32_t at = member_call(f, k, collective);
		const struct rank_call *call;
		struct straggler_entry *e = &f->entries[f->unit_of[k]];

		if (at == RANKS_NONE) {
			g->incomplete++;
			return false;
		}
		call = &member_rank(f, k)->calls[at];
		placed &= call->placed || !g->by_host;
		if (call->at_ns > e->ns || e->ns == INT64_MIN)
			*e = (struct straggler_entry){ call->at_ns, k };
	}
	g->unplaced += !placed;
	return placed;
}

/* Finds the last unit and the one before it, and what each unit took itself. */
static void collective_find_last(struct finder *f, size_t collective, int64_t before_ns)
{
	struct straggler_group *g = f->g;
	struct judged *j = &f->judged[g->judged];
	uint32_t last = 0, after = 1, host, other;

	for (uint32_t u = 1; u < g->n_units; u++) {
		if (f->entries[u].ns > f->entries[last].ns) {
			after = last;
			last = u;
		} else if (u > 1 && f->entries[u].ns > f->entries[after].ns) {
			after = u;
		}
	}
	host = g->units[last].host;
	other = g->units[after].host;
	*j = (struct judged){ .collective = collective,
		.unit = last,
		.after = after,
		.member = f->entries[last].member,
		.late_ns = f->entries[last].ns - f->entries[after].ns,
		.residual_ns = host == other ? 0 : g->hosts->list[host].residual_ns + g->hosts->list[other].residual_ns,
		.before_ns = before_ns };
	for (uint32_t u = 0; u < g->n_units; u++) {
		const struct rank_call *calls = member_rank(f, f->entries[u].member)->calls;
		uint32_t at = member_call(f, f->entries[u].member, collective);
		int64_t others = f->entries[u == last ? after : last].ns, before = INT64_MIN;

		if (at && calls[at - 1].segment == calls[at].segment)
			before = calls[at - 1].at_ns;
		f->own[u * f->n + g->judged] = before == INT64_MIN ? NAN : (double)(f->entries[u].ns - (before > others ? before : others));
	}
	if (j->residual_ns > g->residual_ns)
		g->residual_ns = j->residual_ns;
	if (j->late_ns > j->residual_ns)
		g->units[last].last++;
	else
		g->close++;
	g->judged++;
}

/* ---- stragglers ---- */

/* The summary and the process of a rank; NULL: no profile has steps of it. */
static const struct summary *rank_find_summary(const struct finder *f, const struct rank *r, const struct process **ret_process)
{
	const struct archive_hosts *h = f->g->hosts;

	for (size_t i = 0; i < f->m->n_processes; i++) {
		const struct process *p = f->m->processes[i];
		struct recording_clock clock;
		struct boot boot;

		if (p->pid != r->pid || !p->steps.len)
			continue;
		clock = model_clock(f->m, (uint32_t)steps_get(&p->steps, 0, STEP_RECORDING));
		boot = (struct boot){ .id = clock.id, .lead_ns = clock.real_ns - clock.boot_ns };
		*ret_process = p;
		if (p->host == h->list[r->host].name || (!p->host && clock.known && archive_host_of(h, &boot) == r->host))
			return &f->summaries[i];
	}
	return NULL;
}

static void straggler_add_event(struct finder *f, const struct judged *j, int64_t excess_ns)
{
	struct straggler_group *g = f->g;
	const struct rank *r = member_rank(f, j->member);
	const struct rank_call *call = &r->calls[member_call(f, j->member, j->collective)];
	int64_t since = call[-1].at_ns > j->before_ns ? call[-1].at_ns : j->before_ns;
	struct straggler_unit *u = &g->units[j->unit];

	u->stragglers++;
	u->excess_ns = ns_add(u->excess_ns, excess_ns);
	g->all_events++;
	*list_add(g, events) = (struct straggler_event){
		.collective = j->collective,
		.unit = j->unit,
		.after = j->after,
		.rank = g->group->members[j->member],
		.call = call,
		.late_ns = j->late_ns,
		.excess_ns = excess_ns,
		.since_ns = ns_add(call->own_ns, since - call->at_ns),
	};
}

/* Whether the unit was last by more than the clock uncertainty. */
static bool unit_is_last(const struct judged *j, uint32_t unit)
{
	return j->unit == unit && j->late_ns > j->residual_ns;
}

/* Finds how late a unit was when it was last, and its events. */
static void find_stragglers(struct finder *f, uint32_t unit)
{
	const double *own = f->own + unit * f->n;
	const struct judged *j = f->judged;
	size_t n = f->g->judged, known = 0;
	int64_t *late = xcalloc(n, sizeof(*late));
	double *values = xcalloc(n, sizeof(*values)), median, limit = EXCESS_MIN_NS;
	const struct process *p;

	f->g->units[unit].late = percentiles_over(late, n, i, unit_is_last(&j[i], unit) ? j[i].late_ns : -1);
	for (size_t i = 0; i < n; i++) {
		if (!isnan(own[i]))
			values[known++] = own[i];
	}
	median = median_of(values, known);
	/* a tenth of a step is not worth mentioning, however evenly the units enter */
	for (uint32_t k = 0; k < f->g->group->n; k++) {
		const struct summary *s = f->unit_of[k] == unit ? rank_find_summary(f, member_rank(f, k), &p) : NULL;

		if (s && s->n_phases)
			limit = fmax(limit, NOISE_SHARE * (double)s->phases[0].steps.p50);
	}
	limit = fmax(limit, NOISE_SIGMAS * mad_of(values, known, median));
	median = fmax(median, 0);
	for (size_t i = 0; i < n; i++) {
		if (unit_is_last(&j[i], unit) && !isnan(own[i]) && own[i] - median > limit)
			straggler_add_event(f, &j[i], (int64_t)(own[i] - median));
	}
	free(late);
	free(values);
}

ORDER(compare_events, struct straggler_event, FALLING(excess_ns), RISING(collective))

/* ---- why ---- */

/* ns for which the slow step, or the pause before it, overlaps the time in which the rank got late; 0 or less: none. */
static int64_t event_overlap_ns(const struct finder *f, const struct process *p, const struct slow_step *slow, const struct straggler_event *e)
{
	struct recording_clock clock = model_clock(f->m, (uint32_t)steps_get(&p->steps, slow->step, STEP_RECORDING));
	int64_t begin, from, to;

	if (!clock.known)
		return 0;
	begin = ns_add(clock.boot_ns, steps_get(&p->steps, slow->step, STEP_TS));
	from = slow->gap ? begin - steps_get(&p->steps, slow->step, STEP_GAP) : begin;
	to = slow->gap ? begin : ns_add(begin, steps_get(&p->steps, slow->step, STEP_TOTAL));
	return (to < e->call->own_ns ? to : e->call->own_ns) - (from > e->since_ns ? from : e->since_ns);
}

/* Whether a slow step explains an event. Part of the time in its states may lie outside of the overlap, behind the call,
 * where it waits for other ranks: at most as much as the step itself does. */
static bool step_explains_event(const struct finder *f, const struct process *p, const struct slow_step *slow, const struct straggler_event *e)
{
	int64_t inside = event_overlap_ns(f, p, slow, e), outside, enough = e->excess_ns / CAUSE_SHARE;
	const struct cause *c = &slow->cause;

	if (inside < enough)
		return false;
	if (slow->gap)
		return c->excess >= enough;
	outside = steps_get(&p->steps, slow->step, STEP_TOTAL) - inside;
	return c->part - outside >= enough / 2 && ns_add(c->part, c->second_part) - outside >= enough;
}

static void event_find_why(struct finder *f, struct straggler_event *e)
{
	const struct process *p = NULL;
	const struct summary *sum = rank_find_summary(f, f->ranks->list[e->rank], &p);

	e->why = sum ? STRAGGLER_UNKNOWN : STRAGGLER_NO_PROFILE;
	for (size_t i = 0; sum && i < sum->n_slow && e->why != STRAGGLER_KNOWN; i++) {
		if (!step_explains_event(f, p, &sum->slow[i], e))
			continue;
		e->why = STRAGGLER_KNOWN;
		e->p = p;
		e->slow = sum->slow[i];
	}
}

static void straggler_explain_events(struct finder *f)
{
	struct straggler_group *g = f->g;

	list_sort(g->events, g->n_events, compare_events);
	g->n_events = least_of(g->n_events, STRAGGLER_EVENTS_MAX);
	list_for_each (e, g->events, g->n_events) {
		const struct cause *c = &e->slow.cause;
		/* all pauses count as one cause, without a state */
		struct cause_sum sum = { .where = WHERE_NONE, .state = STATE_NONE };

		event_find_why(f, e);
		if (!e->slow.gap)
			sum = (struct cause_sum){
				.where = c->where,
				.state = c->state,
				.by = c->by,
				.by_task = c->by_tid,
				.crowded = c->crowded,
			};
		if (e->why == STRAGGLER_KNOWN)
			cause_sums_add(&g->units[e->unit].causes, &sum, e->excess_ns, false);
	}
	list_for_each (unit, g->units, g->n_units)
		cause_sums_sort(&unit->causes);
}

/* ---- groups ---- */

static void stragglers_add_group(struct stragglers *l, const struct model *m, const struct summary *summaries, const struct archive_hosts *hosts,
	const struct rank_group *group)
{
	struct finder f = { .m = m, .summaries = summaries, .ranks = &hosts->ranks };
	int64_t before_ns = INT64_MIN;

	f.g = list_add(l, groups);
	*f.g = (struct straggler_group){ .hosts = hosts, .group = group };
	find_units(&f);
	f.n = f.ranks->list[group->members[0]]->n;
	f.judged = xcalloc(f.n, sizeof(*f.judged));
	f.own = xcalloc(f.g->n_units * f.n, sizeof(*f.own));
	for (size_t i = 0; i < f.n; i++) {
		bool all = get_entries(&f, i);

		if (all)
			collective_find_last(&f, i, before_ns);
		before_ns = all ? f.entries[f.judged[f.g->judged - 1].unit].ns : INT64_MIN;
	}
	for (uint32_t u = 0; u < f.g->n_units; u++)
		find_stragglers(&f, u);
	straggler_explain_events(&f);
	free(f.unit_of);
	free(f.entries);
	free(f.judged);
	free(f.own);
}

/* The ranks in no group that might have been compared with those of other processes. */
static uint64_t ranks_count_ungrouped(const struct ranks *r)
{
	uint64_t n = 0, grouped = 0;
	bool several = false;

	for (size_t i = 0; i < r->n; i++) {
		n += r->list[i]->n > 0;
		several |= r->list[i]->host != r->list[0]->host || r->list[i]->pid != r->list[0]->pid;
	}
	for (size_t i = 0; i < r->n_groups; i++)
		grouped += r->groups[i].n;
	return several ? n - grouped : 0;
}

void stragglers_find(struct model *m, const struct summary *summaries, struct stragglers *ret)
{
	memset(ret, 0, sizeof(*ret));
	for (size_t i = 0; i < m->n_archives; i++) {
		struct archive_hosts *h = m->archives[i];

		ranks_group(&h->ranks);
		list_for_each (group, h->ranks.groups, h->ranks.n_groups)
			stragglers_add_group(ret, m, summaries, h, group);
		ret->alone += ranks_count_ungrouped(&h->ranks);
	}
}

void stragglers_free(struct stragglers *l)
{
	list_for_each (g, l->groups, l->n_groups) {
		for (size_t k = 0; k < g->n_units; k++)
			cause_sums_free(&g->units[k].causes);
		free(g->units);
		free(g->events);
	}
	free(l->groups);
	memset(l, 0, sizeof(*l));
}

/* ---- in words ---- */

#define RANKS_SHOWN 8
#define CAUSES_SHOWN 4
#define HOST_SHOWN 64
#define STRAGGLER_NAME_MAX 96
#define STRAGGLER_SENTENCE_MAX (SENTENCE_MAX + 320)

static const char *host_name(const struct model *m, const struct straggler_group *g, uint32_t host, char buf[HOST_SHOWN])
{
	return text_printable(buf, HOST_SHOWN, model_text(m, g->hosts->list[host].name));
}
#define HOST(m, g, host) host_name(m, g, host, (char[HOST_SHOWN]){ 0 })

/* "b, pid 300" */
static const char *rank_name(const struct model *m, const struct straggler_group *g, uint32_t rank, char buf[STRAGGLER_NAME_MAX])
{
	const struct rank *r = g->hosts->ranks.list[rank];

	snprintf(buf, STRAGGLER_NAME_MAX, "%s, pid %u", HOST(m, g, r->host), r->pid);
	return buf;
}

/* "b", or a rank. */
static const char *straggler_unit_name(const struct model *m, const struct straggler_group *g, uint32_t unit, char buf[STRAGGLER_NAME_MAX])
{
	const struct straggler_unit *u = &g->units[unit];

	return u->rank == RANKS_NONE ? host_name(m, g, u->host, buf) : rank_name(m, g, u->rank, buf);
}

/* "b, pid 300: 31.0 ms after a at ncclAllReduce of 8192 bytes: step 12, ..." */
static const char *straggler_sentence(const struct model *m, const struct straggler_group *g, const struct straggler_event *e, char buf[STRAGGLER_SENTENCE_MAX])
{
	char rank[STRAGGLER_NAME_MAX], after[STRAGGLER_NAME_MAX], text[SENTENCE_MAX];
	const char *why = "there is no profile of it";

	if (e->why == STRAGGLER_UNKNOWN)
		why = "its steps do not show why";
	if (e->why == STRAGGLER_KNOWN)
		why = words_slow(m, e->p, &e->slow, text);
	snprintf(buf, STRAGGLER_SENTENCE_MAX, "%s: %s after %s at %s of %llu bytes: %s", rank_name(m, g, e->rank, rank),
		DURATION(e->late_ns), straggler_unit_name(m, g, e->after, after), collective_name(e->call->function),
		LLU(e->call->bytes), why);
	return buf;
}

static const char *cause_text(const struct model *m, const struct cause_sum *c, char buf[SENTENCE_MAX])
{
	if (c->state != STATE_NONE)
		return words_cause(m, c, buf);
	snprintf(buf, SENTENCE_MAX, "longer pauses between steps");
	return buf;
}

/* ---- on a terminal ---- */

static void page_put_late_head(const struct page *page, const struct straggler_group *g)
{
	/* what is not in the table */
	const struct {
		uint64_t n;
		const char *text;
	} rows[] = {
		{ g->incomplete, "have not been recorded of all ranks, or nobody knows which of a rank's calls belongs to them" },
		{ g->unplaced, "are at times for which it is not known how the clocks of the hosts relate (record -e +messages)" },
		{ g->group->mismatched, "differ in function or bytes between ranks" },
		{ g->group->unplaced, "calls of other ranks belong to none, as far as is known" },
	};
	size_t n = g->group->n;
	char name[STRAGGLER_NAME_MAX];

	page_put(page, "Collectives of %zu ranks", n);
	if (g->group->ranks > n)
		page_put(page, " of %u", g->group->ranks);
	for (size_t i = 0; i < n && i < RANKS_SHOWN; i++)
		page_put(page, "%s%s", i ? "; " : " (", rank_name(page->m, g, g->group->members[i], name));
	page_put(page, "%s): %llu\n", n > RANKS_SHOWN ? "; ..." : "", LLU(g->judged + g->incomplete + g->unplaced));
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (rows[i].n)
			page_put(page, "  not compared: %llu %s\n", LLU(rows[i].n), rows[i].text);
	}
}

static void page_put_late_units(const struct page *page, const struct straggler_group *g)
{
	char name[STRAGGLER_NAME_MAX];

	page_put(page, "\n  %-24s%9s %10s %10s %10s %10s\n", "entered last", "count", "p50", "p99", "max", "stragglers");
	for (uint32_t u = 0; u < g->n_units; u++) {
		const struct straggler_unit *unit = &g->units[u];

		page_put(page, "  %-24s%9llu %10s %10s %10s %10llu\n", straggler_unit_name(page->m, g, u, name), LLU(unit->last),
			unit->last ? DURATION(unit->late.p50) : "", unit->last ? DURATION(unit->late.p99) : "",
			unit->last ? DURATION(unit->late.max) : "", LLU(unit->stragglers));
		for (size_t i = 0; i < unit->causes.n && i < CAUSES_SHOWN; i++)
			page_put(page, "  %11s in %llu: %s\n", DURATION(unit->causes.list[i].excess),
				LLU(unit->causes.list[i].steps), cause_text(page->m, &unit->causes.list[i], SENTENCE));
	}
	if (g->close)
		page_put(page, "  %-24s%9llu   within the %s that the clocks are known to\n", "nobody surely",
			LLU(g->close), DURATION(g->residual_ns));
}

void page_stragglers(const struct page *page, const struct stragglers *l)
{
	list_for_each (g, l->groups, l->n_groups) {
		page_put_late_head(page, g);
		if (g->judged)
			page_put_late_units(page, g);
		if (g->all_events && page->slowest)
			page_put(page, "Late by more than usual: %llu\n", LLU(g->all_events));
		list_for_each (e, g->events, least_of(g->n_events, page->slowest))
			page_put(page, "  %s\n", straggler_sentence(page->m, g, e, (char[STRAGGLER_SENTENCE_MAX]){ 0 }));
		page_put(page, "\n");
	}
	if (l->alone)
		page_put(page,
			"Collectives of %llu %sranks are not compared: of no other calls is it certain that they are of the same ones.\n\n", LLU(l->alone), l->n_groups ? "more " : "");
}

/* ---- as JSON ---- */

static void json_put_late_unit(const struct page *page, struct json_object *o, const struct straggler_group *g, const struct straggler_unit *u)
{
	json_put_text(o, "host", HOST(page->m, g, u->host));
	if (u->rank != RANKS_NONE)
		json_put_u64(o, "pid", g->hosts->ranks.list[u->rank]->pid);
	json_put_u64(o, "last", u->last);
	json_put_percentiles(o, "late_us", &u->late);
	json_put_u64(o, "stragglers", u->stragglers);
	json_put_us(o, "excess_us", u->excess_ns);
	json_put_list (o, "causes", one, c, u->causes.list, u->causes.n) {
		json_put_text(one, "state", words_state(c->state));
		json_put_text(one, "where", cause_where_names[c->where]);
		json_put_u64(one, "stragglers", c->steps);
		json_put_us(one, "excess_us", c->excess);
		json_put_text(one, "text", cause_text(page->m, c, SENTENCE));
	}
}

static void json_put_late_event(const struct page *page, struct json_object *o, const struct straggler_group *g, const struct straggler_event *e)
{
	const struct rank *r = g->hosts->ranks.list[e->rank];
	const struct straggler_unit *after = &g->units[e->after];

	json_put_text(o, "host", HOST(page->m, g, r->host));
	json_put_u64(o, "pid", r->pid);
	json_put_u64(o, "tid", e->call->tid);
	json_put_u64(o, "collective", e->collective);
	json_put_text(o, "function", collective_name(e->call->function));
	json_put_u64(o, "bytes", e->call->bytes);
	json_put_us(o, "boottime_us", e->call->own_ns);
	json_put_us(o, "late_us", e->late_ns);
	json_put_us(o, "excess_us", e->excess_ns);
	json_put_text(o, "after_host", HOST(page->m, g, after->host));
	if (after->rank != RANKS_NONE)
		json_put_u64(o, "after_pid", g->hosts->ranks.list[after->rank]->pid);
	if (e->why == STRAGGLER_KNOWN) {
		json_put_u64(o, "step", (uint64_t)steps_get(&e->p->steps, e->slow.step, STEP_NUMBER));
		json_put_u64(o, "recording", (uint64_t)steps_get(&e->p->steps, e->slow.step, STEP_RECORDING));
		json_put_text(o, "state", e->slow.gap ? "between" : words_state(e->slow.cause.state));
		json_put_text(o, "where", cause_where_names[e->slow.cause.where]);
		json_put_us(o, "state_us", e->slow.gap ? e->slow.cause.excess : e->slow.cause.part);
	}
	json_put_text(o, "text", straggler_sentence(page->m, g, e, (char[STRAGGLER_SENTENCE_MAX]){ 0 }));
}

static void json_put_late_group(const struct page *page, struct json_object *o, const struct straggler_group *g)
{
	json_put_list (o, "ranks", one, member, g->group->members, g->group->n) {
		const struct rank *r = g->hosts->ranks.list[*member];

		json_put_text(one, "host", HOST(page->m, g, r->host));
		json_put_u64(one, "pid", r->pid);
		if (r->ranks)
			json_put_u64(one, "rank", r->rank);
	}
	if (g->group->ranks)
		json_put_u64(o, "ranks_of", g->group->ranks);
	json_put_u64(o, "compared", g->judged);
	json_put_u64(o, "incomplete", g->incomplete);
	json_put_u64(o, "clock_unknown", g->unplaced);
	json_put_u64(o, "mismatched", g->group->mismatched);
	json_put_u64(o, "not_matched", g->group->unplaced);
	json_put_u64(o, "within_residual", g->close);
	json_put_us(o, "residual_us", g->residual_ns);
	json_put_text(o, "by", g->by_host ? "host" : "rank");
	json_put_list (o, "entered_last", one, unit, g->units, g->n_units)
		json_put_late_unit(page, one, g, unit);
	json_put_u64(o, "stragglers", g->all_events);
	json_put_list (o, "latest", one, event, g->events, least_of(g->n_events, page->slowest))
		json_put_late_event(page, one, g, event);
}

void json_put_stragglers(const struct page *page, struct json_object *o, const struct stragglers *l)
{
	if (l->n_groups) {
		json_put_list (o, "collectives", one, g, l->groups, l->n_groups)
			json_put_late_group(page, one, g);
	}
	if (l->alone)
		json_put_u64(o, "ranks_not_compared", l->alone);
}
