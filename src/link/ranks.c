// SPDX-License-Identifier: BSD-2-Clause
#include "link/ranks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "link/host_clock.h"
#include "link/match.h"
#include "read/pftrace_events.h"
#include "read/trace.h"
#include "util/list.h"

/* Calls in which all ranks of the communicator take part. */
static const char *const functions[] = {
	"ncclAllReduce",
	"ncclAllGather",
	"ncclReduceScatter",
	"ncclReduce",
	"ncclBroadcast",
	"ncclBcast",
	"ncclAlltoAll",
	"ncclGather",
	"ncclScatter",
};
#define FUNCTIONS (sizeof(functions) / sizeof(functions[0]))

/* inftrace's traces have their first clock reading within this many events. */
#define CLOCK_WITHIN 1000
#define LOST "lost records"
#define BUDGET "budget" /* the instant at which function probes are turned off, or on again */

/* An event with the arguments that matter. */
struct rank_found {
	const char *name;
	int64_t from_ns, to_ns;
	uint32_t pid, tid;
	uint64_t comm, id, bytes, count, ranks, rank, lost;
	bool has_comm;
	uint64_t type; /* hash of its name */
};

struct collectives_reader {
	struct collectives *c;
	char *why;
	int64_t begin_ns; /* of Chrome JSON: CLOCK_BOOTTIME - ts */
};

const char *collective_name(uint8_t function)
{
	return function < FUNCTIONS ? functions[function] : "";
}

static bool is_maker(const char *name)
{
	return !strcmp(name, "ncclCommInitRank") || !strcmp(name, "ncclCommInitRankConfig");
}

static size_t function_of(const char *name)
{
	size_t i = 0;

	while (i < FUNCTIONS && strcmp(name, functions[i]))
		i++;
	return i;
}

static bool name_is_wanted(const char *name)
{
	return (!strncmp(name, "nccl", 4) && (function_of(name) < FUNCTIONS || is_maker(name))) || !strcmp(name, LOST);
}

static void found_take_number(struct rank_found *f, const char *key, uint64_t value)
{
	const struct {
		const char *key;
		uint64_t *to;
	} list[] = {
		{ "comm", &f->comm },
		{ "id", &f->id },
		{ "bytes", &f->bytes },
		{ "count", &f->count },
		{ "ranks", &f->ranks },
		{ "rank", &f->rank },
		{ "function", &f->lost },
	};

	for (size_t i = 0; key && i < sizeof(list) / sizeof(list[0]); i++) {
		if (!strcmp(key, list[i].key))
			*list[i].to = value;
	}
}

/* Chrome JSON has pointers as text. */
static void found_take_text(struct rank_found *f, const char *key, const char *text)
{
	if (!key || !text)
		return;
	if (!strcmp(key, "type"))
		f->type = name_hash(text, strlen(text));
	else if (!strncmp(text, "0x", 2))
		found_take_number(f, key, strtoull(text, NULL, 16));
}

static void add_loss(struct collectives *c, int64_t from_ns, int64_t to_ns)
{
	*list_push(c->losses, c->n_losses, c->losses_size) = (struct collective_loss){ from_ns, to_ns };
}

static void add_maker(struct collectives *c, const struct rank_found *f)
{
	if (c->n_made == COLLECTIVES_MAX)
		return;
	*list_push(c->made, c->n_made, c->made_size) = (struct communicator){ .ns = f->to_ns,
		.comm = f->comm,
		.id = f->id,
		.pid = f->pid,
		.ranks = f->ranks > UINT32_MAX ? 0 : (uint32_t)f->ranks,
		.rank = f->rank > UINT32_MAX ? 0 : (uint32_t)f->rank };
}

static void collective_add_call(struct collectives *c, const struct rank_found *f, size_t function)
{
	uint64_t bytes = f->bytes ? f->bytes : f->count;

	if (c->n_calls == COLLECTIVES_MAX) {
		if (!c->left_out++)
			add_loss(c, f->from_ns, INT64_MAX / 4);
		return;
	}
	*list_push(c->calls, c->n_calls, c->calls_size) = (struct collective_call){ .from_ns = f->from_ns,
		.to_ns = f->to_ns,
		.comm = f->comm,
		.key = name_hash((const char *)&(const uint64_t[]){ function, bytes, f->type }, 3 * sizeof(uint64_t)),
		.bytes = bytes,
		.pid = f->pid,
		.tid = f->tid,
		.function = (uint8_t)function };
}

/* Ignores calls without a communicator: they are of other programs, or cannot be told apart. */
static void collectives_take(struct collectives *c, const struct rank_found *f)
{
	size_t function = function_of(f->name);

	if (!link_time_fits(f->from_ns) || !link_time_fits(f->to_ns))
		return;
	if (!strcmp(f->name, LOST) && f->lost)
		add_loss(c, f->from_ns, f->to_ns);
	else if (f->comm && is_maker(f->name))
		add_maker(c, f);
	else if (f->comm && function < FUNCTIONS)
		collective_add_call(c, f, function);
}

/* ---- Perfetto ---- */

static void perfetto_slice(void *ctx, const struct pftrace_slice *s)
{
	struct rank_found f = { .name = s->name, .from_ns = s->start_ns, .to_ns = s->end_ns, .pid = s->pid, .tid = s->tid };

	if (!s->n)
		return;
	for (size_t i = 0; i < s->n; i++) {
		if (s->args[i].text)
			found_take_text(&f, s->args[i].name, s->args[i].text);
		else
			found_take_number(&f, s->args[i].name, s->args[i].value);
	}
	collectives_take(((struct collectives_reader *)ctx)->c, &f);
}

static bool perfetto_wants_instant(const char *name)
{
	return pftrace_instant_is_host(name) || !strcmp(name, BUDGET);
}

static void perfetto_instant(void *ctx, const struct pftrace_instant *in)
{
	struct collectives *c = ((struct collectives_reader *)ctx)->c;

	if (pftrace_instant_is_host(in->name))
		pftrace_instant_host(in, &c->id);
	else if (link_time_fits(in->ns))
		add_loss(c, in->ns, in->ns);
}

static void take_clocks(struct collectives *c, int64_t boot_ns, int64_t real_ns)
{
	if (c->has_clock || !link_time_fits(boot_ns) || !link_time_fits(real_ns))
		return;
	c->has_clock = true;
	c->boot_ns = boot_ns;
	c->real_ns = real_ns;
}

static int perfetto_clocks(void *ctx, int64_t boot_ns, int64_t real_ns)
{
	take_clocks(((struct collectives_reader *)ctx)->c, boot_ns, real_ns);
	return 0;
}

static void perfetto_bad(void *ctx, uint64_t offset, const char *why)
{
	struct collectives_reader *r = ctx;

	if (!r->why[0])
		snprintf(r->why, COLLECTIVES_WHY_MAX, "byte %llu: %s", (unsigned long long)offset, why);
}

/* ---- Chrome JSON ---- */

static void chrome_clock(struct collectives_reader *r, const struct trace_event *e)
{
	int64_t ts, boot, real;

	if (r->c->has_clock || node_us_to_ns(e->ts, &ts) < 0 || !link_time_fits(ts) ||
		!link_clock_text(node_string(node_get(e->args, "boottime_ns")), &boot) ||
		!link_clock_text(node_string(node_get(e->args, "realtime_ns")), &real))
		return;
	take_clocks(r->c, boot, real);
	r->begin_ns = boot - ts;
	host_id_from_json(&r->c->id, e->args);
}

static uint32_t node_small_u32(const struct json_node *node)
{
	uint64_t v = node_u64(node);

	return v > UINT32_MAX ? 0 : (uint32_t)v;
}

static int chrome_event(void *ctx, const struct trace_event *e)
{
	const char *ph = node_string(e->ph);
	struct collectives_reader *r = ctx;
	struct rank_found f = { .name = node_string(e->name), .pid = node_small_u32(e->pid), .tid = node_small_u32(e->tid) };
	int64_t dur;

	if (!r->c->has_clock && e->number > CLOCK_WITHIN)
		return -ENODATA; /* not a trace of inftrace */
	if (!ph || !f.name || node_us_to_ns(e->ts, &f.from_ns) < 0 || !link_time_fits(f.from_ns))
		return 0;
	if (ph[0] == 'i' && !strcmp(f.name, "inftrace_clock"))
		chrome_clock(r, e);
	else if (ph[0] == 'i' && !strcmp(f.name, BUDGET))
		add_loss(r->c, f.from_ns, f.from_ns);
	if (ph[0] != 'X' || !name_is_wanted(f.name) || node_us_to_ns(e->dur, &dur) < 0 || !link_time_fits(dur) || !node_is(e->args, JSON_OBJECT))
		return 0;
	f.to_ns = f.from_ns + dur;
	json_for_each (arg, e->args) {
		if (node_is(arg, JSON_INT))
			found_take_number(&f, arg->key, node_u64(arg));
		else
			found_take_text(&f, arg->key, node_string(arg));
	}
	collectives_take(r->c, &f);
	return 0;
}

static void chrome_stopped(void *ctx, const struct trace_stop *stop)
{
	struct collectives_reader *r = ctx;

	/* a recording that was cut ends between two events */
	if (!r->why[0] && (stop->kind == TRACE_UNREADABLE || stop->kind == TRACE_UNEXPECTED))
		snprintf(r->why, COLLECTIVES_WHY_MAX, "line %llu: %s", (unsigned long long)stop->line, stop->why);
}

/* ---- all ---- */

static int collective_compare_calls(const void *x, const void *y)
{
	const struct collective_call *a = x, *b = y;

	return cmp_int(a->pid, b->pid) ?: cmp_int(a->from_ns, b->from_ns) ?
									  : cmp_int(a->tid, b->tid);
}

static int compare_made(const void *x, const void *y)
{
	const struct communicator *a = x, *b = y;

	return cmp_int(a->pid, b->pid) ?: cmp_int(a->comm, b->comm) ?
								    : cmp_int(a->ns, b->ns);
}

static int compare_losses(const void *x, const void *y)
{
	const struct collective_loss *a = x, *b = y;

	return cmp_int(a->from_ns, b->from_ns);
}

/* Drops the inner call where one collective calls another (ncclBcast calls ncclBroadcast). */
static void drop_nested(struct collectives *c)
{
	size_t n = 0;

	for (size_t i = 0; i < c->n_calls; i++) {
		const struct collective_call *call = &c->calls[i], *last = n ? &c->calls[n - 1] : NULL;

		if (last && last->pid == call->pid && last->tid == call->tid && call->from_ns >= last->from_ns && call->to_ns <= last->to_ns &&
			last->comm == call->comm)
			continue;
		c->calls[n++] = *call;
	}
	c->n_calls = n;
}

static void join_losses(struct collectives *c)
{
	size_t n = 0;

	for (size_t i = 0; i < c->n_losses; i++) {
		struct collective_loss *last = n ? &c->losses[n - 1] : NULL;

		if (!last || c->losses[i].from_ns > last->to_ns)
			c->losses[n++] = c->losses[i];
		else if (c->losses[i].to_ns > last->to_ns)
			last->to_ns = c->losses[i].to_ns;
	}
	c->n_losses = n;
}

/* Converts all times to the machine's CLOCK_BOOTTIME, and sorts. */
static void collectives_finish(struct collectives_reader *r)
{
	struct collectives *c = r->c;
	int64_t by = r->begin_ns - c->id.shift_ns;

	for (size_t i = 0; i < c->n_calls; i++) {
		c->calls[i].from_ns += by;
		c->calls[i].to_ns += by;
	}
	for (size_t i = 0; i < c->n_made; i++)
		c->made[i].ns += by;
	for (size_t i = 0; i < c->n_losses; i++) {
		c->losses[i].from_ns += by;
		c->losses[i].to_ns += by;
	}
	c->boot_ns -= c->id.shift_ns;
	c->id.shift_ns = 0;
	list_sort(c->calls, c->n_calls, collective_compare_calls);
	list_sort(c->made, c->n_made, compare_made);
	list_sort(c->losses, c->n_losses, compare_losses);
	join_losses(c);
	drop_nested(c);
}

int collectives_read(struct json_source *source, struct collectives *ret, char why[COLLECTIVES_WHY_MAX])
{
	static const struct pftrace_event_ops pftrace = { .slice = perfetto_slice,
		.clocks = perfetto_clocks,
		.instant = perfetto_instant,
		.wants_instant = perfetto_wants_instant,
		.wants_args = name_is_wanted,
		.bad = perfetto_bad };
	static const struct trace_reader_ops chrome = { .event = chrome_event, .stop = chrome_stopped };
	struct collectives_reader r = { .c = ret, .why = why };
	struct trace_form form;
	bool torn;
	int err;

	memset(ret, 0, sizeof(*ret));
	why[0] = 0;
	if (pftrace_is(source)) {
		err = pftrace_events_read(source, &pftrace, &r, &torn);
	} else {
		err = trace_read(source, &chrome, &r, &form);
		if (!ret->has_clock)
			collectives_clear(ret); /* not a trace of inftrace */
		if (err && !why[0])
			err = 0; /* it ends early, or is not a trace of inftrace */
	}
	collectives_finish(&r);
	return err ? err : why[0] ? -EBADMSG
				  : 0;
}

void collectives_clear(struct collectives *c)
{
	free(c->calls);
	free(c->made);
	free(c->losses);
	memset(c, 0, sizeof(*c));
}

/* Comparisons at most: some ten seconds for a file that was made to take long. */
#define WORK_MAX (UINT64_C(1) << 31)
/* Entries of all tables of a group: 64 MB. */
#define TABLE_MAX ((size_t)1 << 24)

int64_t host_place_at(const struct host_place *p, int64_t own_ns)
{
	double first = (double)p->first_ns, part = p->last_ns > p->first_ns ? ((double)own_ns - first) / ((double)p->last_ns - first) : 0;

	/* beyond its ends the line is not extended, since the residual does not hold there */
	part = part < 0 ? 0 : part > 1 ? 1
				       : part;
	return own_ns - p->ahead_first_ns - (int64_t)(part * (double)(p->ahead_last_ns - p->ahead_first_ns));
}

/* ---- ranks ---- */

/* Returns the last communicator with this address that was made before the call; NULL: it was made before the recording. */
static const struct communicator *made_before(const struct collectives *c, const struct collective_call *call)
{
	size_t n = bisect(c->n_made, i,
		(cmp_int(c->made[i].pid, call->pid) ?: cmp_int(c->made[i].comm, call->comm) ?
											    : cmp_int(c->made[i].ns, call->from_ns)) <= 0);
	const struct communicator *found = n ? &c->made[n - 1] : NULL;

	return found && found->pid == call->pid && found->comm == call->comm ? found : NULL;
}

/* Returns how many losses began by ns; *ret_within: the last of them had not ended. */
static uint32_t losses_before(const struct collectives *c, int64_t ns, bool *ret_within)
{
	size_t n = bisect(c->n_losses, i, c->losses[i].from_ns <= ns);

	*ret_within = n && c->losses[n - 1].to_ns >= ns;
	return (uint32_t)n;
}

/* NULL: over RANKS_MAX. */
static struct rank *rank_get(struct ranks *r, uint32_t host, const struct collective_call *call, const struct communicator *made)
{
	struct rank *k;

	/* the last one first: another window of the recording may lack the call that made it */
	for (size_t i = r->n; i--;) {
		k = r->list[i];
		if (k->host == host && k->pid == call->pid && k->comm == call->comm && (!made || k->made_ns == made->ns))
			return k;
	}
	if (r->n == RANKS_MAX)
		return NULL;
	k = xcalloc(1, sizeof(*k));
	k->host = host;
	k->pid = call->pid;
	k->comm = call->comm;
	k->made_ns = made ? made->ns : INT64_MIN;
	k->id = made ? made->id : 0;
	k->ranks = made ? made->ranks : 0;
	k->rank = made ? made->rank : 0;
	k->counted = RANKS_NONE;
	r->list[r->n++] = k;
	return k;
}

static void add_call(struct ranks *r, uint32_t host, const struct host_place *place, const struct collectives *c, const struct collective_call *call)
{
	const struct communicator *made = made_before(c, call);
	bool within, made_within;
	uint32_t losses = losses_before(c, call->from_ns, &within);
	struct rank *k;

	if (within)
		return;
	k = rank_get(r, host, call, made);
	if (!k) {
		r->left_out++;
		return;
	}
	*list_push(k->calls, k->n, k->size) = (struct rank_call){ .own_ns = call->from_ns,
		.at_ns = host_place_at(place, call->from_ns),
		.key = call->key,
		.bytes = call->bytes,
		.tid = call->tid,
		.segment = r->segments + losses,
		.function = call->function,
		.placed = place->known && call->from_ns >= place->first_ns && call->from_ns <= place->last_ns };
	if (made && losses == losses_before(c, made->ns, &made_within) && !made_within)
		k->counted = r->segments + losses;
}

void ranks_add(struct ranks *r, uint32_t host, const struct host_place *place, const struct collectives *c)
{
	for (size_t i = 0; i < c->n_calls; i++)
		add_call(r, host, place, c, &c->calls[i]);
	r->segments += (uint32_t)c->n_losses + 1;
}

static int compare_rank_calls(const void *x, const void *y)
{
	const struct rank_call *a = x, *b = y;

	return cmp_int(a->own_ns, b->own_ns) ?: cmp_int(a->tid, b->tid) ?
									: cmp_int(a->segment, b->segment);
}

/* ---- pairs of ranks ---- */

/* Calls of one segment. */
struct run {
	size_t from, to;
};

struct pairing {
	struct ranks *r;
	const struct rank *a, *b;
	uint32_t *table; /* for each call of a, b's call; RANKS_NONE at first */
	size_t next;     /* the first of b's calls that is not placed yet */
	uint64_t placed, mismatched;
};

static struct run run_at(const struct rank *k, size_t from)
{
	struct run run = { from, from };

	while (run.to < k->n && k->calls[run.to].segment == k->calls[from].segment)
		run.to++;
	return run;
}

/* Whether all calls agree, and are enough, if `at` in a is `against` in b. *ret_a, *ret_b: the calls of a, and where they begin in b. */
static bool runs_agree(struct pairing *p, const struct run *a, const struct run *b, size_t at, size_t against, struct run *ret_a, size_t *ret_b)
{
	size_t back = at - a->from < against - b->from ? at - a->from : against - b->from;
	size_t on = a->to - at < b->to - against ? a->to - at : b->to - against;

	*ret_a = (struct run){ at - back, at + on };
	*ret_b = against - back;
	if (back + on < RANKS_AGREE_MIN)
		return false;
	for (size_t i = 0; i < back + on; i++) {
		p->r->work++;
		if (p->a->calls[ret_a->from + i].key != p->b->calls[*ret_b + i].key)
			return false;
	}
	return true;
}

/* Returns the index of the run's first call at or after at_ns. */
static size_t run_find_first(const struct rank *k, const struct run *run, int64_t at_ns)
{
	return run->from + bisect(run->to - run->from, i, k->calls[run->from + i].at_ns < at_ns);
}

static void pairing_place_run(struct pairing *p, const struct run *a, size_t b)
{
	if (b < p->next)
		return; /* these are placed already */
	p->next = b + a->to - a->from;
	for (size_t i = a->from; i < a->to; i++)
		p->table[i] = (uint32_t)(b + i - a->from);
	p->placed += a->to - a->from;
}

/* Pairs two runs by the shift at which they agree, if there is exactly one. */
static void pair_by_search(struct pairing *p, const struct run *a, const struct run *b)
{
	int64_t from, to, middle;
	struct run run, found = { 0, 0 };
	size_t at, against, found_b = 0, n = 0;

	if (a->from == a->to || b->from == b->to)
		return;
	from = p->a->calls[a->from].at_ns > p->b->calls[b->from].at_ns ? p->a->calls[a->from].at_ns : p->b->calls[b->from].at_ns;
	to = p->a->calls[a->to - 1].at_ns < p->b->calls[b->to - 1].at_ns ? p->a->calls[a->to - 1].at_ns : p->b->calls[b->to - 1].at_ns;
	if (to < from - RANKS_APART_NS)
		return;
	middle = from + (to - from) / 2;
	at = run_find_first(p->a, a, middle);
	at = at == a->to ? at - 1 : at;
	middle = p->a->calls[at].at_ns;
	for (against = run_find_first(p->b, b, middle - RANKS_APART_NS);
		against < b->to && p->b->calls[against].at_ns <= middle + RANKS_APART_NS && n < 2; against++) {
		size_t run_b;

		if (p->r->work > WORK_MAX)
			return;
		if (!runs_agree(p, a, b, at, against, &run, &run_b))
			continue;
		found = run;
		found_b = run_b;
		n++;
	}
	if (n == 1)
		pairing_place_run(p, &found, found_b);
}

/* Pairs calls by number up to the first mismatch. One rank may lack calls there, so what follows is searched anew. */
static void pair_by_number(struct pairing *p, const struct run *a, const struct run *b)
{
	size_t n = a->to - a->from < b->to - b->from ? a->to - a->from : b->to - b->from, i = 0;
	uint64_t placed;

	while (i < n && p->a->calls[a->from + i].key == p->b->calls[b->from + i].key)
		i++;
	pairing_place_run(p, &(struct run){ a->from, a->from + i }, b->from);
	if (i == n)
		return;
	p->mismatched++;
	placed = p->placed;
	pair_by_search(p, &(struct run){ a->from + i, a->to }, &(struct run){ b->from + i, b->to });
	if (p->placed == placed) /* none lacks a call, but the two are different */
		pair_by_search(p, &(struct run){ a->from + i + 1, a->to }, &(struct run){ b->from + i + 1, b->to });
}

static void pair_ranks(struct pairing *p)
{
	bool same = p->a->id && p->a->id == p->b->id;

	for (size_t i = 0; i < p->a->n;) {
		struct run a = run_at(p->a, i);

		for (size_t j = 0; j < p->b->n;) {
			struct run b = run_at(p->b, j);
			bool counted = same && p->a->calls[i].segment == p->a->counted && p->b->calls[j].segment == p->b->counted;

			p->r->work += b.to - b.from;
			if (counted)
				pair_by_number(p, &a, &b);
			else
				pair_by_search(p, &a, &b);
			p->r->gave_up |= p->r->work > WORK_MAX;
			if (p->r->gave_up)
				return;
			j = b.to;
		}
		i = a.to;
	}
}

/* ---- groups ---- */

static void group_add_member(struct rank_group *g, uint32_t rank, uint32_t *table)
{
	g->members = xreallocarray(g->members, g->n + 1, sizeof(*g->members));
	g->calls = xreallocarray(g->calls, g->n + 1, sizeof(*g->calls));
	g->members[g->n] = rank;
	g->calls[g->n++] = table;
}

static bool ranks_can_match(const struct rank *a, const struct rank *b)
{
	if (a->id && b->id)
		return a->id == b->id;
	return a->host != b->host || a->pid != b->pid;
}

/* Adds rank b to the group if its calls match the first one's. */
static bool group_try_member(struct ranks *r, struct rank_group *g, const struct rank *a, uint32_t at)
{
	const struct rank *b = r->list[at];
	struct pairing p = { .r = r, .a = a, .b = b };
	bool same = a->id && a->id == b->id;

	if (!ranks_can_match(a, b) || (g->n + 1) * a->n > TABLE_MAX)
		return false;
	p.table = xreallocarray(NULL, a->n, sizeof(*p.table));
	memset(p.table, 0xff, a->n * sizeof(*p.table));
	pair_ranks(&p);
	if (!same && !p.placed) {
		free(p.table);
		return false;
	}
	group_add_member(g, at, p.table);
	g->mismatched += p.mismatched;
	g->unplaced += b->n > p.placed ? b->n - p.placed : 0;
	g->ranks = g->ranks ? g->ranks : b->ranks;
	return true;
}

static void group_clear(struct rank_group *g)
{
	for (size_t i = 0; i < g->n; i++)
		free(g->calls[i]);
	free(g->calls);
	free(g->members);
	memset(g, 0, sizeof(*g));
}

/* Makes the group of a rank from the ranks that are in no group yet. */
static void make_group(struct ranks *r, const uint32_t *order, size_t from, bool *taken)
{
	const struct rank *a = r->list[order[from]];
	struct rank_group g = { .ranks = a->ranks };
	uint32_t *own = xreallocarray(NULL, a->n, sizeof(*own));

	group_add_member(&g, order[from], own);
	for (size_t i = 0; i < a->n; i++)
		own[i] = (uint32_t)i;
	for (size_t i = from + 1; i < r->n; i++) {
		if (!taken[order[i]] && r->list[order[i]]->n)
			taken[order[i]] = group_try_member(r, &g, a, order[i]);
	}
	if (g.n > 1)
		*list_push(r->groups, r->n_groups, r->groups_size) = g;
	else
		group_clear(&g);
}

/* Orders ranks by insertion, those with the most calls first; there are RANKS_MAX at most. */
static void order_ranks(const struct ranks *r, uint32_t *order)
{
	for (size_t i = 0; i < r->n; i++) {
		size_t k = i;

		for (; k && r->list[order[k - 1]]->n < r->list[i]->n; k--)
			order[k] = order[k - 1];
		order[k] = (uint32_t)i;
	}
}

void ranks_group(struct ranks *r)
{
	uint32_t *order = xreallocarray(NULL, r->n + 1, sizeof(*order));
	bool *taken = xcalloc(r->n + 1, sizeof(*taken));

	for (size_t i = 0; i < r->n; i++) {
		struct rank *k = r->list[i];
		size_t n = 0;

		list_sort(k->calls, k->n, compare_rank_calls);
		for (size_t j = 0; j < k->n; j++) {
			if (!n || k->calls[n - 1].own_ns != k->calls[j].own_ns || k->calls[n - 1].tid != k->calls[j].tid)
				k->calls[n++] = k->calls[j];
		}
		k->n = n;
	}
	order_ranks(r, order);
	for (size_t i = 0; i < r->n; i++) {
		if (!taken[order[i]] && r->list[order[i]]->n)
			make_group(r, order, i, taken);
	}
	free(order);
	free(taken);
}

void ranks_clear(struct ranks *r)
{
	for (size_t i = 0; i < r->n; i++) {
		free(r->list[i]->calls);
		free(r->list[i]);
	}
	for (size_t i = 0; i < r->n_groups; i++)
		group_clear(&r->groups[i]);
	free(r->groups);
	memset(r, 0, sizeof(*r));
}
