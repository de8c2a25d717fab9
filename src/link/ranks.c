// SPDX-License-Identifier: BSD-2-Clause
#include "link/ranks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/bisect.h"
#include "util/list_room.h"

/* Of a file that was made to take long: some ten seconds. */
#define WORK_MAX (UINT64_C(1) << 31)
/* Entries of all tables of a group: 64 MB. */
#define TABLE_MAX ((size_t)1 << 24)

int64_t host_place_at(const struct host_place *p, int64_t own_ns)
{
	double first = (double)p->first_ns, part = p->last_ns > p->first_ns ? ((double)own_ns - first) / ((double)p->last_ns - first) : 0;

	/* what is outside of it is not known to within the residual: no line is drawn there */
	part = part < 0 ? 0 : part > 1 ? 1
				       : part;
	return own_ns - p->ahead_first_ns - (int64_t)(part * (double)(p->ahead_last_ns - p->ahead_first_ns));
}

/* ---- ranks ---- */

static bool is_made_before(const struct communicator *m, const struct collective_call *call)
{
	if (m->pid != call->pid)
		return m->pid < call->pid;
	return m->comm != call->comm ? m->comm < call->comm : m->ns <= call->from_ns;
}

/* The last communicator with this address that was made before the call; NULL: it was made before the recording. */
static const struct communicator *made_before(const struct collectives *c, const struct collective_call *call)
{
	size_t n = bisect(c->n_made, i, is_made_before(&c->made[i], call));
	const struct communicator *found = n ? &c->made[n - 1] : NULL;

	return found && found->pid == call->pid && found->comm == call->comm ? found : NULL;
}

/* How many losses began before that; *ret_within: the last of them lasts until then. */
static uint32_t losses_before(const struct collectives *c, int64_t ns, bool *ret_within)
{
	size_t n = bisect(c->n_losses, i, c->losses[i].from_ns <= ns);

	*ret_within = n && c->losses[n - 1].to_ns >= ns;
	return (uint32_t)n;
}

/* NULL: no room. */
static struct rank *rank_get(struct ranks *r, uint32_t host, const struct collective_call *call, const struct communicator *made)
{
	struct rank *k;

	/* the last one first: another window of the recording does not have how it was made */
	for (size_t i = r->n; i--;) {
		k = r->list[i];
		if (k->host == host && k->pid == call->pid && k->comm == call->comm && (!made || k->made_ns == made->ns))
			return k;
	}
	if (r->n == RANKS_MAX)
		return NULL;
	k = calloc(1, sizeof(*k));
	if (!k)
		return NULL;
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

static int add_call(struct ranks *r, uint32_t host, const struct host_place *place, const struct collectives *c, const struct collective_call *call)
{
	const struct communicator *made = made_before(c, call);
	bool within, made_within;
	uint32_t losses = losses_before(c, call->from_ns, &within);
	struct rank *k;

	if (within)
		return 0;
	k = rank_get(r, host, call, made);
	if (!k) {
		r->left_out++;
		return r->n == RANKS_MAX ? 0 : -ENOMEM;
	}
	if (list_room((void **)&k->calls, k->n, &k->size, sizeof(*k->calls)))
		return -ENOMEM;
	k->calls[k->n++] = (struct rank_call){ .own_ns = call->from_ns,
		.at_ns = host_place_at(place, call->from_ns),
		.key = call->key,
		.bytes = call->bytes,
		.tid = call->tid,
		.segment = r->segments + losses,
		.function = call->function,
		.placed = place->known && call->from_ns >= place->first_ns && call->from_ns <= place->last_ns };
	if (made && losses == losses_before(c, made->ns, &made_within) && !made_within)
		k->counted = r->segments + losses;
	return 0;
}

int ranks_add(struct ranks *r, uint32_t host, const struct host_place *place, const struct collectives *c)
{
	int err = 0;

	for (size_t i = 0; i < c->n_calls && !err; i++)
		err = add_call(r, host, place, c, &c->calls[i]);
	r->segments += (uint32_t)c->n_losses + 1;
	return err;
}

static int compare_calls(const void *x, const void *y)
{
	const struct rank_call *a = x, *b = y;

	if (a->own_ns != b->own_ns)
		return a->own_ns < b->own_ns ? -1 : 1;
	if (a->tid != b->tid)
		return a->tid < b->tid ? -1 : 1;
	return a->segment < b->segment ? -1 : a->segment > b->segment;
}

static void sort_rank(struct rank *k)
{
	size_t n = 0;

	if (k->n)
		qsort(k->calls, k->n, sizeof(*k->calls), compare_calls);
	for (size_t i = 0; i < k->n; i++) {
		if (!n || k->calls[n - 1].own_ns != k->calls[i].own_ns || k->calls[n - 1].tid != k->calls[i].tid)
			k->calls[n++] = k->calls[i];
	}
	k->n = n;
}

/* ---- pairs of ranks ---- */

/* Calls of one segment. */
struct run {
	size_t from, to;
};

struct pairing {
	struct ranks *r;
	const struct rank *a, *b;
	uint32_t *table; /* of b's calls, by a's; RANKS_NONE at first */
	size_t next;     /* of b's, that are in no place yet */
	uint64_t placed, mismatched;
};

static struct run run_at(const struct rank *k, size_t from)
{
	struct run run = { from, from };

	while (run.to < k->n && k->calls[run.to].segment == k->calls[from].segment)
		run.to++;
	return run;
}

/* Whether all calls agree if `at` in a is `against` in b; *ret_n: how many there are. */
static bool agrees(struct pairing *p, const struct run *a, const struct run *b, size_t at, size_t against, struct run *ret_a, size_t *ret_b)
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

/* The first call of the run that is not before that. */
static size_t first_from(const struct rank *k, const struct run *run, int64_t at_ns)
{
	return run->from + bisect(run->to - run->from, i, k->calls[run->from + i].at_ns < at_ns);
}

static void place(struct pairing *p, const struct run *a, size_t b)
{
	if (b < p->next)
		return; /* these are others already */
	p->next = b + a->to - a->from;
	for (size_t i = a->from; i < a->to; i++)
		p->table[i] = (uint32_t)(b + i - a->from);
	p->placed += a->to - a->from;
}

/* By the only way in which they agree, if it is the only one. */
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
	at = first_from(p->a, a, middle);
	at = at == a->to ? at - 1 : at;
	middle = p->a->calls[at].at_ns;
	for (against = first_from(p->b, b, middle - RANKS_APART_NS);
		against < b->to && p->b->calls[against].at_ns <= middle + RANKS_APART_NS && n < 2; against++) {
		size_t run_b;

		if (p->r->work > WORK_MAX)
			return;
		if (!agrees(p, a, b, at, against, &run, &run_b))
			continue;
		found = run;
		found_b = run_b;
		n++;
	}
	if (n == 1)
		place(p, &found, found_b);
}

/* By their numbers, up to a call that is another one in each rank: one of them may lack calls, so what follows has to be found anew. */
static void pair_by_number(struct pairing *p, const struct run *a, const struct run *b)
{
	size_t n = a->to - a->from < b->to - b->from ? a->to - a->from : b->to - b->from, i = 0;
	uint64_t placed;

	while (i < n && p->a->calls[a->from + i].key == p->b->calls[b->from + i].key)
		i++;
	place(p, &(struct run){ a->from, a->from + i }, b->from);
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

static int add_member(struct rank_group *g, uint32_t rank, uint32_t *table)
{
	size_t size = g->size;

	if (list_room((void **)&g->members, g->n, &size, sizeof(*g->members)))
		return -ENOMEM;
	if (list_room((void **)&g->calls, g->n, &g->size, sizeof(*g->calls)))
		return -ENOMEM;
	g->members[g->n] = rank;
	g->calls[g->n++] = table;
	return 0;
}

static bool may_be_one(const struct rank *a, const struct rank *b)
{
	if (a->id && b->id)
		return a->id == b->id;
	return a->host != b->host || a->pid != b->pid;
}

/* Adds rank b to the group if its calls are those of the first one. */
static int try_member(struct ranks *r, struct rank_group *g, const struct rank *a, uint32_t at, bool *ret_added)
{
	const struct rank *b = r->list[at];
	struct pairing p = { .r = r, .a = a, .b = b };
	bool same = a->id && a->id == b->id;
	int err;

	*ret_added = false;
	if (!may_be_one(a, b) || (g->n + 1) * a->n > TABLE_MAX)
		return 0;
	p.table = malloc(a->n * sizeof(*p.table));
	if (!p.table)
		return -ENOMEM;
	memset(p.table, 0xff, a->n * sizeof(*p.table));
	pair_ranks(&p);
	if (!same && !p.placed) {
		free(p.table);
		return 0;
	}
	err = add_member(g, at, p.table);
	if (err) {
		free(p.table);
		return err;
	}
	g->mismatched += p.mismatched;
	g->unplaced += b->n > p.placed ? b->n - p.placed : 0;
	g->ranks = g->ranks ? g->ranks : b->ranks;
	*ret_added = true;
	return 0;
}

static void group_clear(struct rank_group *g)
{
	for (size_t i = 0; i < g->n; i++)
		free(g->calls[i]);
	free(g->calls);
	free(g->members);
	memset(g, 0, sizeof(*g));
}

/* The group of a rank, of those that are in none. */
static int make_group(struct ranks *r, const uint32_t *order, size_t from, bool *taken)
{
	const struct rank *a = r->list[order[from]];
	struct rank_group g = { .ranks = a->ranks };
	uint32_t *own = malloc(a->n * sizeof(*own));
	int err = own ? add_member(&g, order[from], own) : -ENOMEM;

	if (err)
		free(own);
	for (size_t i = 0; i < a->n && !err; i++)
		own[i] = (uint32_t)i;
	for (size_t i = from + 1; i < r->n && !err; i++) {
		bool added = false;

		if (!taken[order[i]] && r->list[order[i]]->n)
			err = try_member(r, &g, a, order[i], &added);
		taken[order[i]] |= added;
	}
	if (!err && g.n > 1) {
		err = list_room((void **)&r->groups, r->n_groups, &r->groups_size, sizeof(*r->groups));
		if (!err) {
			r->groups[r->n_groups++] = g;
			return 0;
		}
	}
	group_clear(&g);
	return err;
}

/* Those with the most calls first; a few, at most RANKS_MAX. */
static void order_ranks(const struct ranks *r, uint32_t *order)
{
	for (size_t i = 0; i < r->n; i++) {
		size_t k = i;

		for (; k && r->list[order[k - 1]]->n < r->list[i]->n; k--)
			order[k] = order[k - 1];
		order[k] = (uint32_t)i;
	}
}

int ranks_group(struct ranks *r)
{
	uint32_t *order = malloc((r->n + 1) * sizeof(*order));
	bool *taken = calloc(r->n + 1, sizeof(*taken));
	int err = order && taken ? 0 : -ENOMEM;

	for (size_t i = 0; i < r->n && !err; i++)
		sort_rank(r->list[i]);
	if (!err)
		order_ranks(r, order);
	for (size_t i = 0; i < r->n && !err; i++) {
		if (!taken[order[i]] && r->list[order[i]]->n)
			err = make_group(r, order, i, taken);
	}
	free(order);
	free(taken);
	return err;
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
