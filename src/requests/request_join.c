// SPDX-License-Identifier: BSD-2-Clause
#include "requests/request_join.h"

#include <string.h>

#include "util/alloc.h"
#include "util/bytes.h"

#define GROUP_MAX 256 /* of each kind; larger ones are ambiguous */
#define NONE UINT32_MAX
#define SOON_NS UINT64_C(250000000)  /* usual upper bound of an answer's latency */
#define LATE_NS UINT64_C(1000000000) /* upper bound of an answer's latency, from what it reports to the write */

#define RULE_PAIRS 8    /* joined pairs of a process that it takes for a rule about the writes of an answer */
#define RULE_SOCKETS 16 /* the same of its sockets, joined or not, if one rule explains them all */
#define EXTRA_MIN (-16)
#define EXTRAS 64 /* numbers of extra writes that are tried, from EXTRA_MIN on: one for each bit of a word */

#define ORDER_PAIRS 32 /* the same for the order in which answers began */

#define LEFT JOIN_SOCKETS /* in place of a socket's index: all that is unjoined */
#define EXCHANGE_WORDS (LEFT / 64 + 1)

struct join_answers {
	struct join_answer *sockets, *sequences;
};

struct join {
	bool fits[JOIN_SOCKETS][JOIN_SEQUENCES], alike[JOIN_SOCKETS][JOIN_SEQUENCES];
	bool may_be[JOIN_SOCKETS][JOIN_SEQUENCES];      /* pair_is_possible(), however late */
	uint32_t groups[JOIN_SOCKETS + JOIN_SEQUENCES]; /* of each socket, then of each sequence: lowest member of its group */
	size_t n_sockets, n_sequences;
	uint64_t exchanges[LEFT + 1][EXCHANGE_WORDS];
	const struct join_socket *sockets;
	const struct join_sequence *sequences;
	/* by time alone; then by order */
	struct join_answer timed_sockets[JOIN_SOCKETS], timed_sequences[JOIN_SEQUENCES];
	bool by_order; /* groups are paired by order */
};

/* Usual upper bounds of answer latency, and by what factor the rest may exceed them. */
static const uint64_t soon_ns[] = { 250000, 500000, 1000000, 2000000, 4000000, 8000000, 16000000 };
#define N_SOON (sizeof(soon_ns) / sizeof(soon_ns[0]))
#define SOON_MARGIN 4

/* Writes that block for longer are held up by a client that does not read. What it could not take at once comes in larger
 * parts. */
#define HELD_UP_NS 5000000

/* Whether something was written within `soon` after `at`, when what it reports happened, not counting blocked writes. */
static bool write_is_soon(const struct join_socket *s, uint64_t written, uint64_t at, uint64_t soon)
{
	return written >= at && written - at <= s->blocked + soon;
}

/* Requests with a number are the same only if their numbers are. */
static bool have_same_number(const struct join_socket *s, const struct join_sequence *q)
{
	return s->tgid == q->tgid && s->given == q->given;
}

/* Whether a sequence can be the request of a socket if its answer is written within `soon`. */
static bool pair_is_possible_soon(const struct join_socket *s, const struct join_sequence *q, uint64_t soon)
{
	if (s->given || q->given)
		return have_same_number(s, q);
	if (s->tgid != q->tgid || !s->first || (!q->vague && s->start > q->start))
		return false;
	if (q->any)
		return s->start <= q->last && s->last >= q->start;
	if (!q->first && !q->vague)
		return q->open && s->last >= q->start;
	/* an answer in one part may be written when it is complete */
	if (!q->vague && (s->first < q->first || (s->chunks > 1 && !write_is_soon(s, s->first, q->first, soon))))
		return false;
	if (q->open)
		return true;
	if (s->last < q->last && !s->gone)
		return false;
	return s->last <= q->last + s->blocked + soon && s->chunks <= q->outputs + 4;
}

/* Whether a sequence can be the request of a socket, even if its answer is late. */
static bool pair_is_possible(const struct join_socket *s, const struct join_sequence *q)
{
	if (s->given || q->given)
		return have_same_number(s, q);
	if (s->tgid != q->tgid || !s->first)
		return false;
	if (q->vague)
		return s->start <= q->last && s->last >= q->start;
	if (s->start > q->start)
		return false;
	if (q->open) /* what is still unknown may fit */
		return s->last >= q->start && s->first >= q->first;
	if (!q->first || s->first < q->first || s->last > q->last + s->blocked + LATE_NS)
		return false;
	/* on a busy machine tokens come in larger parts */
	return (s->last >= q->last || s->gone) && s->chunks <= q->outputs + 4;
}

/* Whether they also look alike: only pairs that do are joined. */
static bool pair_is_alike(const struct join_socket *s, const struct join_sequence *q)
{
	if (s->given)
		return true;
	return s->last <= q->last + s->blocked + SOON_NS &&
	       (s->chunks < 2 || s->gone || s->blocked >= HELD_UP_NS || 2 * (uint64_t)s->chunks + 2 >= q->outputs);
}

static uint32_t join_find_group(struct join *j, uint32_t i)
{
	while (j->groups[i] != i)
		i = j->groups[i] = j->groups[j->groups[i]];
	return i;
}

static void find_groups(struct join *j)
{
	for (uint32_t i = 0; i < j->n_sockets + j->n_sequences; i++)
		j->groups[i] = i;
	for (uint32_t i = 0; i < j->n_sockets; i++) {
		for (uint32_t k = 0; k < j->n_sequences; k++) {
			uint32_t a = join_find_group(j, i), b = join_find_group(j, (uint32_t)j->n_sockets + k);

			if (j->fits[i][k])
				j->groups[a > b ? a : b] = a > b ? b : a;
		}
	}
}

struct group {
	uint32_t sockets[GROUP_MAX], sequences[GROUP_MAX];
	uint32_t n_sockets, n_sequences;
	uint32_t pairs[GROUP_MAX]; /* for each sequence the socket, by its index in the group; NONE: none yet */
	bool tried[GROUP_MAX];     /* sequences */
};

/* Finds a sequence for a socket, other than `but`; other sockets may get another one in exchange. */
static bool find_pair(const struct join *j, struct group *g, uint32_t socket, uint32_t but)
{
	for (uint32_t k = 0; k < g->n_sequences; k++) {
		if (k == but || g->tried[k] || !j->fits[g->sockets[socket]][g->sequences[k]])
			continue;
		g->tried[k] = true;
		if (g->pairs[k] != NONE && !find_pair(j, g, g->pairs[k], NONE))
			continue;
		g->pairs[k] = socket;
		return true;
	}
	return false;
}

/* Whether the group has a complete matching, which g->pairs is then. */
static bool pair_all(const struct join *j, struct group *g)
{
	memset(g->pairs, 0xff, sizeof(g->pairs));
	for (uint32_t i = 0; i < g->n_sockets; i++) {
		memset(g->tried, 0, sizeof(g->tried));
		if (!find_pair(j, g, i, NONE))
			return false;
	}
	return g->n_sockets == g->n_sequences;
}

/* Whether the answer began after the sequence's first output and before its next step. */
static bool began_between(const struct join_socket *s, const struct join_sequence *q)
{
	return q->vague || (s->first >= q->first && (!q->second || s->first < q->second));
}

/* Matches a group completely by order: the answer that began first with the sequence that went on first. false: impossible. */
static bool pair_in_order(const struct join *j, struct group *g)
{
	bool all = g->n_sockets == g->n_sequences;

	memset(g->pairs, 0xff, sizeof(g->pairs));
	for (uint32_t k = 0; k < g->n_sequences && all; k++) {
		const struct join_sequence *q = &j->sequences[g->sequences[k]];

		for (uint32_t i = 0; i < g->n_sockets; i++) {
			int n = 0; /* answers before this one minus sequences before this one */

			for (uint32_t other = 0; other < g->n_sockets; other++) {
				n += (j->sockets[g->sockets[other]].first < j->sockets[g->sockets[i]].first) -
				     (j->sequences[g->sequences[other]].second < q->second);
				all &= other == k || j->sequences[g->sequences[other]].second != q->second;
			}
			g->pairs[k] = n ? g->pairs[k] : i;
		}
		all = all && q->second && q->context == j->sequences[g->sequences[0]].context && g->pairs[k] != NONE &&
		      j->alike[g->sockets[g->pairs[k]]][g->sequences[k]];
	}
	return all;
}

/* Whether every complete matching contains this pair. */
static bool pair_is_forced(const struct join *j, const struct group *g, uint32_t sequence)
{
	struct group other = *g;

	memset(other.tried, 0, sizeof(other.tried));
	other.pairs[sequence] = NONE;
	return !find_pair(j, &other, g->pairs[sequence], sequence);
}

static void decide_group(const struct join *j, struct group *g, bool open, bool vague, const struct join_answers *of)
{
	enum join_result result = JOIN_AMBIGUOUS;

	if (!g->n_sockets || !g->n_sequences)
		result = JOIN_NONE;
	else if (open)
		result = JOIN_OPEN;
	for (uint32_t i = 0; i < g->n_sockets; i++)
		of->sockets[g->sockets[i]].result = result;
	for (uint32_t i = 0; i < g->n_sequences; i++)
		of->sequences[g->sequences[i]].result = result;
	if (result != JOIN_AMBIGUOUS || vague || !(j->by_order ? pair_in_order(j, g) : pair_all(j, g)))
		return;
	for (uint32_t k = 0; k < g->n_sequences; k++) {
		struct join_answer *s = &of->sockets[g->sockets[g->pairs[k]]], *q = &of->sequences[g->sequences[k]];

		if (!j->alike[g->sockets[g->pairs[k]]][g->sequences[k]] || (!j->by_order && !pair_is_forced(j, g, k)))
			continue;
		s->result = q->result = JOIN_DONE;
		s->with = g->sequences[k];
		q->with = g->sockets[g->pairs[k]];
	}
}

/* Finds which sockets and sequences can be pairs if all answers are written within `soon`; 0: however late, without those that
 * are joined. Returns how many sockets fit a sequence. */
static size_t find_fits(struct join *j, const struct join_answers *of, uint64_t soon)
{
	size_t n = 0;

	for (size_t i = 0; i < j->n_sockets; i++) {
		const struct join_socket *s = &j->sockets[i];
		bool any = false;

		for (size_t k = 0; k < j->n_sequences; k++) {
			const struct join_sequence *q = &j->sequences[k];
			bool done = of->sockets[i].result == JOIN_DONE || of->sequences[k].result == JOIN_DONE;

			if (!soon)
				j->may_be[i][k] = pair_is_possible(s, q);
			j->fits[i][k] = soon ? pair_is_possible_soon(s, q, soon) : !done && j->may_be[i][k];
			j->alike[i][k] = j->fits[i][k] && (soon || pair_is_alike(s, q));
			any |= j->fits[i][k];
		}
		n += any;
	}
	return n;
}

/* The rule of a process: its answers take `extra` more writes than tokens. */
struct join_rule {
	uint32_t tgid;
	bool known;
	int64_t extra;
};

static struct join_rule find_rule(const struct join *j, uint32_t tgid, const struct join_answer *of_sockets)
{
	struct join_rule rule = { .tgid = tgid };
	uint64_t least = UINT64_MAX, most = 0;
	size_t n = 0;

	for (size_t i = 0; i < j->n_sockets; i++) {
		const struct join_socket *s = &j->sockets[i];
		uint64_t outputs;
		int64_t extra;

		if (of_sockets[i].result != JOIN_DONE || s->tgid != tgid || s->gone)
			continue;
		outputs = j->sequences[of_sockets[i].with].outputs;
		extra = (int64_t)s->writes - (int64_t)outputs;
		if (n++ && extra != rule.extra)
			return rule;
		rule.extra = extra;
		least = outputs < least ? outputs : least;
		most = outputs > most ? outputs : most;
	}
	rule.known = n >= RULE_PAIRS && most > least;
	return rule;
}

/* The same where time joins too few pairs: for one number of extra writes each socket has a sequence that it may be, which for
 * any other number not even half of them have. Expects what find_fits() finds without a limit. */
static struct join_rule guess_rule(const struct join *j, uint32_t tgid, const struct join_answer *of_sockets)
{
	struct join_rule rule = { .tgid = tgid };
	size_t n = 0, explained[EXTRAS] = { 0 }, others = 0;

	for (size_t i = 0; i < j->n_sockets; i++) {
		const struct join_socket *s = &j->sockets[i];
		bool joined = of_sockets[i].result == JOIN_DONE, unclear = false, any = false;
		uint64_t extras = 0;

		if (s->tgid != tgid || s->gone || s->given)
			continue;
		for (size_t k = 0; k < j->n_sequences; k++) {
			const struct join_sequence *q = &j->sequences[k];
			int64_t extra = (int64_t)s->writes - (int64_t)q->outputs - EXTRA_MIN;

			if (!(joined ? k == of_sockets[i].with : j->fits[i][k]))
				continue;
			any = true;
			unclear |= q->open || q->vague;
			extras |= extra >= 0 && extra < EXTRAS ? UINT64_C(1) << extra : 0;
		}
		if (unclear || !any)
			continue;
		n++;
		for (size_t e = 0; e < EXTRAS; e++)
			explained[e] += extras >> e & 1;
	}
	for (size_t e = 0; e < EXTRAS; e++) {
		others += 2 * explained[e] >= n;
		rule.extra = explained[e] == n ? (int64_t)e + EXTRA_MIN : rule.extra;
		rule.known |= explained[e] == n;
	}
	rule.known &= n >= RULE_SOCKETS && others == 1;
	return rule;
}

/* Whether a pair does not contradict the rule, as far as is known. */
static bool rule_is_obeyed(const struct join_rule *rule, const struct join_socket *s, const struct join_sequence *q)
{
	return s->given || s->gone || q->open || q->vague || (int64_t)s->writes == (int64_t)q->outputs + rule->extra;
}

/* As find_fits(), of unjoined requests, but only pairs that obey their process's rule. Returns whether any process has a rule. */
static bool find_fits_by_rule(struct join *j, const struct join_answers *of)
{
	struct join_rule rule = { 0 };
	bool any = false;

	find_fits(j, of, 0);
	for (size_t i = 0; i < j->n_sockets; i++) {
		const struct join_socket *s = &j->sockets[i];

		if (of->sockets[i].result == JOIN_DONE)
			continue;
		if (rule.tgid != s->tgid) {
			rule = find_rule(j, s->tgid, of->sockets);
			rule = rule.known ? rule : guess_rule(j, s->tgid, of->sockets);
		}
		any |= rule.known;
		for (size_t k = 0; k < j->n_sequences && rule.known; k++) {
			j->fits[i][k] &= rule_is_obeyed(&rule, s, &j->sequences[k]);
			j->alike[i][k] = j->fits[i][k] && (!s->gone || j->alike[i][k]);
		}
	}
	return any;
}

/* Finds for each pair, by its socket, the pairs whose sequences it could take, also by way of others (transitive closure). All
 * unjoined requests are one more pair, number LEFT. */
static void find_exchanges(struct join *j, const struct join_answers *of)
{
	memset(j->exchanges, 0, sizeof(j->exchanges));
	for (size_t i = 0; i < j->n_sockets; i++) {
		size_t from = of->sockets[i].result == JOIN_DONE ? i : LEFT;

		for (size_t k = 0; k < j->n_sequences; k++) {
			if (j->may_be[i][k])
				bit_set(j->exchanges[from], of->sequences[k].result == JOIN_DONE ? of->sequences[k].with : LEFT);
		}
	}
	for (size_t via = 0; via <= LEFT; via++) {
		for (size_t i = 0; i <= LEFT; i++) {
			for (size_t w = 0; w < EXCHANGE_WORDS && bit_is_set(j->exchanges[i], via); w++)
				j->exchanges[i][w] |= j->exchanges[via][w];
		}
	}
}

/* Undoes pairs that could have exchanged their sequences if answers may be late. */
static void undo_exchangeable(struct join *j, const struct join_answers *of)
{
	find_exchanges(j, of);
	for (size_t i = 0; i < j->n_sockets; i++) {
		bool exchanged = false;

		for (size_t other = 0; other <= LEFT && of->sockets[i].result == JOIN_DONE; other++)
			exchanged |= other != i && bit_is_set(j->exchanges[i], other) && bit_is_set(j->exchanges[other], i);
		if (!exchanged)
			continue;
		of->sequences[of->sockets[i].with].result = JOIN_AMBIGUOUS;
		of->sockets[i].result = JOIN_AMBIGUOUS;
	}
}

static void decide_groups(struct join *j, const struct join_answers *of)
{
	uint32_t n_sockets = (uint32_t)j->n_sockets, all = n_sockets + (uint32_t)j->n_sequences;

	find_groups(j);
	for (uint32_t group = 0; group < all; group++) {
		struct group g = { .n_sockets = 0 };
		bool open = false, vague = false, large = false;

		for (uint32_t i = group; i < all && j->groups[group] == group; i++) {
			const struct join_sequence *q = i < n_sockets ? NULL : &j->sequences[i - n_sockets];
			uint32_t *n = q ? &g.n_sequences : &g.n_sockets;
			struct join_answer *a = q ? &of->sequences[i - n_sockets] : &of->sockets[i];

			if (join_find_group(j, i) != group || a->result == JOIN_DONE)
				continue;
			a->group = group;
			a->result = JOIN_AMBIGUOUS;
			if (*n == GROUP_MAX) {
				large = true;
				continue;
			}
			(q ? g.sequences : g.sockets)[(*n)++] = q ? i - n_sockets : i;
			open |= q && q->open;
			vague |= q && q->vague && !q->given;
		}
		if (!large && j->groups[group] == group)
			decide_group(j, &g, open, vague, of);
	}
}

/* Restores the answers of requests that are not joined. */
static void restore_unjoined(struct join_answer *a, const struct join_answer *before, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (a[i].result != JOIN_DONE)
			a[i] = before[i];
	}
}

/* Joins by each process's rule what time alone does not tell. Leaves other answers as they are. */
static void decide_by_rule(struct join *j, const struct join_answers *of)
{
	if (!find_fits_by_rule(j, of))
		return;
	memcpy(j->timed_sockets, of->sockets, j->n_sockets * sizeof(*of->sockets));
	memcpy(j->timed_sequences, of->sequences, j->n_sequences * sizeof(*of->sequences));
	decide_groups(j, of);
	restore_unjoined(of->sockets, j->timed_sockets, j->n_sockets);
	restore_unjoined(of->sequences, j->timed_sequences, j->n_sequences);
}

static void forget_answers(const struct join *j, const struct join_answers *of)
{
	for (size_t i = 0; i < j->n_sockets; i++)
		of->sockets[i] = (struct join_answer){ .with = NONE, .result = JOIN_AMBIGUOUS };
	for (size_t i = 0; i < j->n_sequences; i++)
		of->sequences[i] = (struct join_answer){ .with = NONE, .result = JOIN_AMBIGUOUS };
}

/* The sequence of a joined socket; NULL: it is not joined. */
static const struct join_sequence *joined_sequence(const struct join *j, const struct join_answer *of_socket)
{
	return of_socket->result == JOIN_DONE ? &j->sequences[of_socket->with] : NULL;
}

/* Whether the order of a process can be relied on: one thread begins each answer before the sequence goes on, and for at least
 * ORDER_PAIRS requests the order agrees with what else is known, which would tell if it did not. `any`: one of its sockets. */
static bool keeps_order(const struct join *j, const struct join_socket *any, const struct join_answer *of_sockets)
{
	struct join_rule rule = find_rule(j, any->tgid, j->timed_sockets);
	size_t n = 0;

	if (!rule.known && find_rule(j, any->tgid, of_sockets).known)
		return false;
	for (size_t i = 0; i < j->n_sockets; i++) {
		const struct join_socket *s = &j->sockets[i], *o = j->sockets;
		const struct join_sequence *q = joined_sequence(j, &j->timed_sockets[i]), *joined = joined_sequence(j, &of_sockets[i]), *of_o;
		bool told = false;

		if (s->tgid != any->tgid)
			continue;
		if (s->tid != any->tid || (joined && (!began_between(s, joined) || (q && q != joined))))
			return false;
		q = joined ? joined : q;
		for (size_t k = 0; k < i && q && q->second; k++, o++) {
			of_o = joined_sequence(j, &of_sockets[k]);
			of_o = of_o ? of_o : joined_sequence(j, &j->timed_sockets[k]);
			if (!of_o || o->tgid != s->tgid || of_o->context != q->context || !of_o->second)
				continue;
			if ((s->first < o->first) != (q->second < of_o->second))
				return false;
			told |= began_between(s, of_o) && began_between(o, q) &&
				((joined && of_sockets[k].result == JOIN_DONE) || (rule.known && !rule_is_obeyed(&rule, s, of_o)));
		}
		n += told;
	}
	return n >= ORDER_PAIRS;
}

/* Joins by order what nothing else tells. */
static void decide_by_order(struct join *j, const struct join_answers *of)
{
	const struct join_answers by_order = { j->timed_sockets, j->timed_sequences };
	const struct join_socket *last = NULL;
	bool ordered = false;

	forget_answers(j, &by_order);
	find_fits(j, &by_order, 0);
	for (size_t i = 0; i < j->n_sockets; i++) {
		for (size_t k = 0; k < j->n_sequences; k++)
			j->fits[i][k] &= began_between(&j->sockets[i], &j->sequences[k]);
	}
	j->by_order = true;
	decide_groups(j, &by_order);
	j->by_order = false;
	for (size_t i = 0; i < j->n_sockets; i++) {
		uint32_t k = by_order.sockets[i].with;

		if (by_order.sockets[i].result != JOIN_DONE || of->sockets[i].result == JOIN_DONE || of->sequences[k].result == JOIN_DONE)
			continue;
		if (!last || last->tgid != j->sockets[i].tgid)
			ordered = keeps_order(j, last = &j->sockets[i], of->sockets);
		if (!ordered)
			continue;
		of->sockets[i] = by_order.sockets[i];
		of->sequences[k] = by_order.sequences[k];
	}
}

void join_decide(struct join *j, const struct join_socket *sockets, size_t n_sockets,
	const struct join_sequence *sequences, size_t n_sequences, struct join_answer *ret_sockets,
	struct join_answer *ret_sequences)
{
	const struct join_answers of = { ret_sockets, ret_sequences };
	size_t all;

	j->n_sockets = n_sockets;
	j->n_sequences = n_sequences;
	j->sockets = sockets;
	j->sequences = sequences;
	forget_answers(j, &of);
	all = find_fits(j, &of, 0);
	for (size_t i = 0; i < N_SOON; i++) {
		/* if many answers are later than that, some fit another one by accident */
		if (4 * find_fits(j, &of, soon_ns[i]) < 3 * all)
			continue;
		find_fits(j, &of, SOON_MARGIN * soon_ns[i]);
		decide_groups(j, &of);
		undo_exchangeable(j, &of);
		break;
	}
	find_fits(j, &of, 0);
	decide_groups(j, &of);
	decide_by_rule(j, &of);
	decide_by_order(j, &of);
}

struct join *join_new(void)
{
	return xcalloc(1, sizeof(struct join));
}
