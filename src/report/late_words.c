// SPDX-License-Identifier: BSD-2-Clause
/* Who is late for collectives: in words, on a terminal, and in the report's JSON. */
#include <stdio.h>
#include <string.h>

#include "report/late.h"
#include "report/object.h"
#include "report/sentence.h"
#include "report/words.h"
#include "util/text.h"

#define RANKS_SHOWN 8
#define CAUSES_SHOWN 4
#define HOST_SHOWN 64
#define LATE_NAME_MAX 96
#define LATE_SENTENCE_MAX (SENTENCE_MAX + 320)

static const char *host_name(const struct model *m, const struct late_group *g, uint32_t host, char buf[HOST_SHOWN])
{
	return text_printable(buf, HOST_SHOWN, model_text(m, g->hosts->list[host].name));
}

/* "b, pid 300" */
static const char *rank_name(const struct model *m, const struct late_group *g, uint32_t rank, char buf[LATE_NAME_MAX])
{
	const struct rank *r = g->hosts->ranks.list[rank];
	char host[HOST_SHOWN];

	snprintf(buf, LATE_NAME_MAX, "%s, pid %u", host_name(m, g, r->host, host), r->pid);
	return buf;
}

/* "b", or a rank. */
static const char *unit_name(const struct model *m, const struct late_group *g, uint32_t unit, char buf[LATE_NAME_MAX])
{
	const struct late_unit *u = &g->units[unit];
	char host[HOST_SHOWN];

	if (u->rank != RANKS_NONE)
		return rank_name(m, g, u->rank, buf);
	snprintf(buf, LATE_NAME_MAX, "%s", host_name(m, g, u->host, host));
	return buf;
}

/* "b, pid 300: 31.0 ms after a at ncclAllReduce of 8192 bytes: step 12, ..." */
static int sentence_of(const struct model *m, const struct late_group *g, const struct late_event *e, char buf[LATE_SENTENCE_MAX])
{
	char rank[LATE_NAME_MAX], after[LATE_NAME_MAX], d[DURATION_MAX], why[SENTENCE_MAX] = "there is no profile of it";
	int err = 0;

	if (e->why == LATE_UNKNOWN)
		snprintf(why, sizeof(why), "its steps do not show why");
	if (e->why == LATE_KNOWN)
		err = words_slow(m, e->p, &e->slow, why);
	snprintf(buf, LATE_SENTENCE_MAX, "%s: %s after %s at %s of %llu bytes: %s", rank_name(m, g, e->rank, rank),
		words_duration(d, e->late_ns), unit_name(m, g, e->after, after), collective_name(e->call->function),
		(unsigned long long)e->call->bytes, why);
	return err;
}

static const char *cause_text(const struct model *m, const struct cause_sum *c, char buf[SENTENCE_MAX])
{
	if (c->state != STATE_NONE)
		return words_cause(m, c, buf);
	snprintf(buf, SENTENCE_MAX, "longer pauses between steps");
	return buf;
}

/* ---- text ---- */

static void put_head(const struct page *page, const struct late_group *g)
{
	size_t n = g->group->n;
	char name[LATE_NAME_MAX];

	fprintf(page->out, "Collectives of %zu ranks", n);
	if (g->group->ranks > n)
		fprintf(page->out, " of %u", g->group->ranks);
	for (size_t i = 0; i < n && i < RANKS_SHOWN; i++)
		fprintf(page->out, "%s%s", i ? "; " : " (", rank_name(page->m, g, g->group->members[i], name));
	fprintf(page->out, "%s): %llu\n", n > RANKS_SHOWN ? "; ..." : "",
		(unsigned long long)(g->judged + g->incomplete + g->unplaced));
}

/* What is not in the table. */
static void put_left_out(const struct page *page, const struct late_group *g)
{
	const struct {
		uint64_t n;
		const char *text;
	} rows[] = {
		{ g->incomplete, "have not been recorded of all ranks, or nobody knows which of a rank's calls belongs to them" },
		{ g->unplaced, "are at times for which it is not known how the clocks of the hosts relate (record -e +messages)" },
		{ g->group->mismatched, "differ in function or bytes between ranks" },
		{ g->group->unplaced, "calls of other ranks belong to none, as far as is known" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (rows[i].n)
			fprintf(page->out, "  not compared: %llu %s\n", (unsigned long long)rows[i].n, rows[i].text);
	}
}

static void put_units(const struct page *page, const struct late_group *g)
{
	char d[4][DURATION_MAX], name[LATE_NAME_MAX], sentence[SENTENCE_MAX];

	fprintf(page->out, "\n  %-24s%9s %10s %10s %10s %10s\n", "entered last", "count", "p50", "p99", "max", "stragglers");
	for (uint32_t u = 0; u < g->n_units; u++) {
		const struct late_unit *unit = &g->units[u];

		fprintf(page->out, "  %-24s%9llu %10s %10s %10s %10llu\n", unit_name(page->m, g, u, name), (unsigned long long)unit->last,
			unit->last ? words_duration(d[0], unit->late.p50) : "", unit->last ? words_duration(d[1], unit->late.p99) : "",
			unit->last ? words_duration(d[2], unit->late.max) : "", (unsigned long long)unit->stragglers);
		for (size_t i = 0; i < unit->causes.n && i < CAUSES_SHOWN; i++)
			fprintf(page->out, "  %11s in %llu: %s\n", words_duration(d[3], unit->causes.list[i].excess),
				(unsigned long long)unit->causes.list[i].steps, cause_text(page->m, &unit->causes.list[i], sentence));
	}
	if (g->close)
		fprintf(page->out, "  %-24s%9llu   within the %s that the clocks are known to\n", "nobody surely",
			(unsigned long long)g->close, words_duration(d[0], g->residual_ns));
}

int late_text(const struct page *page, const struct late *l, uint32_t slowest)
{
	char sentence[LATE_SENTENCE_MAX];
	int err;

	for (size_t i = 0; i < l->n; i++) {
		const struct late_group *g = &l->groups[i];

		put_head(page, g);
		put_left_out(page, g);
		if (g->judged)
			put_units(page, g);
		if (g->all_events && slowest)
			fprintf(page->out, "Late by more than usual: %llu\n", (unsigned long long)g->all_events);
		for (size_t k = 0; k < g->n_events && k < slowest; k++) {
			err = sentence_of(page->m, g, &g->events[k], sentence);
			if (err)
				return err;
			fprintf(page->out, "  %s\n", sentence);
		}
		fputc('\n', page->out);
	}
	if (l->alone)
		fprintf(page->out,
			"Collectives of %llu %sranks are not compared: of no other calls is it certain that they are of the same ones.\n\n",
			(unsigned long long)l->alone, l->n ? "more " : "");
	return 0;
}

/* ---- JSON ---- */

static void put_host(struct json_build *b, struct json_object *o, const char *key, const struct model *m, const struct late_group *g, uint32_t host)
{
	char name[HOST_SHOWN];

	json_put_text(b, o, key, host_name(m, g, host, name));
}

static struct json_object *ranks_array(struct json_build *b, const struct model *m, const struct late_group *g)
{
	struct json_object *array = json_new_array(b);

	for (size_t i = 0; i < g->group->n; i++) {
		const struct rank *r = g->hosts->ranks.list[g->group->members[i]];
		struct json_object *o = json_new_object(b);

		put_host(b, o, "host", m, g, r->host);
		json_put_u64(b, o, "pid", r->pid);
		if (r->ranks)
			json_put_u64(b, o, "rank", r->rank);
		json_append(b, array, o);
	}
	return array;
}

static struct json_object *causes_array(struct json_build *b, const struct model *m, const struct late_unit *u)
{
	struct json_object *array = json_new_array(b);
	char sentence[SENTENCE_MAX];

	for (size_t i = 0; i < u->causes.n; i++) {
		struct json_object *o = json_new_object(b);

		json_put_text(b, o, "state", words_state(u->causes.list[i].state));
		json_put_text(b, o, "where", cause_where_name(u->causes.list[i].where));
		json_put_u64(b, o, "stragglers", u->causes.list[i].steps);
		json_put_us(b, o, "excess_us", u->causes.list[i].excess);
		json_put_text(b, o, "text", cause_text(m, &u->causes.list[i], sentence));
		json_append(b, array, o);
	}
	return array;
}

static struct json_object *units_array(struct json_build *b, const struct model *m, const struct late_group *g)
{
	struct json_object *array = json_new_array(b);

	for (size_t i = 0; i < g->n_units; i++) {
		const struct late_unit *u = &g->units[i];
		struct json_object *o = json_new_object(b);

		put_host(b, o, "host", m, g, u->host);
		if (u->rank != RANKS_NONE)
			json_put_u64(b, o, "pid", g->hosts->ranks.list[u->rank]->pid);
		json_put_u64(b, o, "last", u->last);
		object_percentiles(b, o, "late_us", &u->late);
		json_put_u64(b, o, "stragglers", u->stragglers);
		json_put_us(b, o, "excess_us", u->excess_ns);
		json_put(b, o, "causes", causes_array(b, m, u));
		json_append(b, array, o);
	}
	return array;
}

static struct json_object *event_object(
	struct json_build *b, const struct model *m, const struct late_group *g, const struct late_event *e, int *err)
{
	const struct rank *r = g->hosts->ranks.list[e->rank];
	const struct late_unit *after = &g->units[e->after];
	struct json_object *o = json_new_object(b);
	char sentence[LATE_SENTENCE_MAX];

	put_host(b, o, "host", m, g, r->host);
	json_put_u64(b, o, "pid", r->pid);
	json_put_u64(b, o, "tid", e->call->tid);
	json_put_u64(b, o, "collective", e->collective);
	json_put_text(b, o, "function", collective_name(e->call->function));
	json_put_u64(b, o, "bytes", e->call->bytes);
	json_put_us(b, o, "boottime_us", e->call->own_ns);
	json_put_us(b, o, "late_us", e->late_ns);
	json_put_us(b, o, "excess_us", e->excess_ns);
	put_host(b, o, "after_host", m, g, after->host);
	if (after->rank != RANKS_NONE)
		json_put_u64(b, o, "after_pid", g->hosts->ranks.list[after->rank]->pid);
	if (e->why == LATE_KNOWN) {
		json_put_u64(b, o, "step", (uint64_t)steps_get(&e->p->steps, e->slow.step, STEP_NUMBER));
		json_put_u64(b, o, "recording", (uint64_t)steps_get(&e->p->steps, e->slow.step, STEP_RECORDING));
		json_put_text(b, o, "state", e->slow.gap ? "between" : words_state(e->slow.cause.state));
		json_put_text(b, o, "where", cause_where_name(e->slow.cause.where));
		json_put_us(b, o, "state_us", e->slow.gap ? e->slow.cause.excess : e->slow.cause.part);
	}
	if (!*err)
		*err = sentence_of(m, g, e, sentence);
	json_put_text(b, o, "text", *err ? "" : sentence);
	return o;
}

int late_put(struct json_build *b, struct json_object *o, const struct model *m, const struct late *l, uint32_t slowest)
{
	struct json_object *groups = l->n ? json_new_array(b) : NULL;
	int err = 0;

	for (size_t i = 0; i < l->n; i++) {
		const struct late_group *g = &l->groups[i];
		struct json_object *group = json_new_object(b), *events = json_new_array(b);

		json_put(b, group, "ranks", ranks_array(b, m, g));
		if (g->group->ranks)
			json_put_u64(b, group, "ranks_of", g->group->ranks);
		json_put_u64(b, group, "compared", g->judged);
		json_put_u64(b, group, "incomplete", g->incomplete);
		json_put_u64(b, group, "clock_unknown", g->unplaced);
		json_put_u64(b, group, "mismatched", g->group->mismatched);
		json_put_u64(b, group, "not_matched", g->group->unplaced);
		json_put_u64(b, group, "within_residual", g->close);
		json_put_us(b, group, "residual_us", g->residual_ns);
		json_put_text(b, group, "by", g->by_host ? "host" : "rank");
		json_put(b, group, "entered_last", units_array(b, m, g));
		json_put_u64(b, group, "stragglers", g->all_events);
		for (size_t k = 0; k < g->n_events && k < slowest && !err; k++)
			json_append(b, events, event_object(b, m, g, &g->events[k], &err));
		json_put(b, group, "latest", events);
		json_append(b, groups, group);
	}
	if (groups)
		json_put(b, o, "collectives", groups);
	if (l->alone)
		json_put_u64(b, o, "ranks_not_compared", l->alone);
	return err;
}
