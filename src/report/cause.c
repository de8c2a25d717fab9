// SPDX-License-Identifier: BSD-2-Clause
#include "report/cause.h"

#include <math.h>
#include <string.h>

/* ---- what is typical ---- */

/* BLOCK steps share one typical, which comes from them and NEAR blocks on both sides: few enough steps to follow a context
 * that grows, enough that a disturbance over dozens of steps does not become the norm. */
#define BLOCK 32
#define NEAR 2
/* Blocks on both sides of the far window: if the near steps are all slower than those, they are the anomaly. */
#define FAR 32
/* Below this number nothing is typical. */
#define COMPARED_MIN 5

#define EXACT_MAX 8 /* tokens */

/* One step in 10^9 of a normal distribution exceeds 6 sigma by chance. Measured times have longer tails, so noise is at
 * least a tenth of the median. */
#define NOISE_SIGMAS 6.0
#define NOISE_SHARE 0.1
/* By how much the near steps must be slower than the far ones. */
#define SLOWER_SHARE 0.25

/* This many steps or more in a row are only compared with one another, since a new prompt begins with an empty context. */
#define RUN_MIN 64

struct group_entry {
	uint32_t lane, phase, class;
	uint32_t row; /* equal for consecutive steps of one phase in their lane */
	uint32_t step;
};

struct typical_finder {
	struct process *p;
	struct group_entry *entries; /* sorted by group and time */
	double *values;              /* of one window */
};

static double size_of_tokens(int64_t n_tokens)
{
	return n_tokens > EXACT_MAX ? (double)n_tokens : 1;
}

static double step_size(const struct step *s)
{
	return size_of_tokens(s->n_tokens);
}

double steps_size(const struct steps *s, size_t i)
{
	return size_of_tokens(steps_get(s, i, STEP_N_TOKENS));
}

uint32_t tokens_class(uint32_t n_tokens)
{
	uint32_t octave;
	bool upper;

	if (n_tokens <= EXACT_MAX)
		return n_tokens;
	octave = 31 - (uint32_t)__builtin_clz(n_tokens);
	upper = (uint64_t)n_tokens * n_tokens >= 2ULL << 2 * octave;
	return EXACT_MAX + 1 + 2 * octave + upper;
}

ORDER(compare_entries, struct group_entry, RISING(lane), RISING(phase), RISING(class), RISING(step))

/* A run of steps of one group. */
struct cause_span {
	const struct group_entry *entries;
	size_t len;
};

/* The median of a column per unit, and how far values deviate from it. */
struct norm {
	double median, deviation;
};

static struct norm norm_of(struct typical_finder *f, const struct cause_span *span, enum step_column column)
{
	const struct steps *steps = &f->p->steps;
	struct norm norm = { 0 };
	bool any = false;

	for (size_t i = 0; i < span->len && !steps_all_zero(steps, column); i++) {
		size_t step = span->entries[i].step;
		int64_t ns = steps_get(steps, step, column);

		any |= ns != 0;
		f->values[i] = (double)ns / steps_size(steps, step);
	}
	if (any) {
		norm.median = median_of(f->values, span->len);
		norm.deviation = mad_of(f->values, span->len, norm.median);
	}
	return norm;
}

/* The block that begins at `block` with `blocks` blocks on both sides. At the ends of a group it is shifted, not shortened. */
static struct cause_span span_around_block(const struct cause_span *group, size_t block, size_t blocks)
{
	size_t len = (2 * blocks + 1) * BLOCK, from;

	if (len > group->len)
		len = group->len;
	from = block > blocks * BLOCK ? block - blocks * BLOCK : 0;
	if (from > group->len - len)
		from = group->len - len;
	return (struct cause_span){ group->entries + from, len };
}

/* The next steps that are compared with one another: RUN_MIN or more in a row, or all up to the next such row. */
static struct cause_span next_run(const struct cause_span *group, size_t from)
{
	struct cause_span run = { group->entries + from, 0 };
	size_t row;

	while (from + run.len < group->len) {
		const struct group_entry *e = run.entries + run.len;

		for (row = 1; from + run.len + row < group->len && e[row].row == e->row;)
			row++;
		if (row >= RUN_MIN && run.len)
			break;
		run.len += row;
		if (row >= RUN_MIN)
			break;
	}
	return run;
}

static struct typical typical_find_block(struct typical_finder *f, struct cause_span span, const struct cause_span *far)
{
	struct norm total = norm_of(f, &span, STEP_TOTAL), far_total, own;
	struct typical t = { 0 };
	size_t n;

	/* the near steps, unless they are all slow compared with the far ones */
	if (far->len > span.len) {
		far_total = norm_of(f, far, STEP_TOTAL);
		if (total.median > far_total.median + fmax(SLOWER_SHARE * far_total.median, NOISE_SIGMAS * far_total.deviation)) {
			span = *far;
			total = far_total;
		}
	}
	t.total = total.median;
	t.least = NOISE_SHARE * t.total;
	t.noise = fmax(NOISE_SIGMAS * total.deviation, t.least);
	for (unsigned int s = 0; s < STATES; s++) {
		own = norm_of(f, &span, STEP_OWN + s);
		t.own[s] = own.median;
		t.own_noise[s] = NOISE_SIGMAS * own.deviation;
		t.workers[s] = norm_of(f, &span, STEP_WORKERS + s).median;
	}
	n = fill_over(f->values, span.len, i, steps_get(&f->p->steps, span.entries[i].step, STEP_GAP));
	t.gap = median_of(f->values, n);
	/* a pause matters if it is long compared with a step */
	t.gap_noise = fmax(NOISE_SIGMAS * mad_of(f->values, n, t.gap), NOISE_SHARE * t.total);
	t.compared = (uint32_t)span.len;
	t.first = (uint32_t)(span.entries - f->entries);
	return t;
}

static void typical_find_run(struct typical_finder *f, const struct cause_span *group, const struct cause_span *run)
{
	const struct cause_span *among = run->len < RUN_MIN ? group : run;
	size_t from = (size_t)(run->entries - group->entries), end;
	struct process *p = f->p;

	for (size_t block = 0; block < run->len; block = end) {
		struct typical t = { 0 };
		struct cause_span near, far;

		end = run->len - block < 2 * BLOCK ? run->len : block + BLOCK;
		near = span_around_block(among, among == run ? block : from + block, NEAR);
		far = span_around_block(group, from + block, FAR);
		if (group->len >= COMPARED_MIN)
			t = typical_find_block(f, near, &far);
		for (size_t i = block; i < end; i++)
			steps_set(&p->steps, run->entries[i].step, STEP_TYPICAL, (int64_t)p->n_typicals);
		*list_add(p, typicals) = t;
	}
}

/* Adds all finished steps, sorted by group and time; returns their number. */
static size_t make_entries(struct typical_finder *f)
{
	struct process *p = f->p;
	uint32_t row = 0;
	size_t n = 0;

	for (size_t i = 0; i < p->steps.len; i++) {
		uint32_t phase = (uint32_t)steps_get(&p->steps, i, STEP_PHASE);
		uint32_t class = 2 * tokens_class((uint32_t)steps_get(&p->steps, i, STEP_N_TOKENS));

		/* Without barrier records, waits at barriers count as work, and what is recorded takes time: steps are only compared with
		 * those of which the same was left out. So are those of a process whose Python functions all had probes. */
		class += (uint32_t)steps_get(&p->steps, i, STEP_WATCHED);
		class = class << SHED_PARTS | (uint32_t)steps_get(&p->steps, i, STEP_LEFT_OUT);
		row += i && phase != (uint32_t)steps_get(&p->steps, i - 1, STEP_PHASE);
		if (!steps_get(&p->steps, i, STEP_UNFINISHED) && !steps_get(&p->steps, i, STEP_LEFT_OUT_CHANGED))
			f->entries[n++] = (struct group_entry){ (uint32_t)steps_get(&p->steps, i, STEP_LANE), phase,
				class, row, (uint32_t)i };
	}
	list_sort(f->entries, n, compare_entries);
	for (size_t i = 0; i < n; i++)
		p->grouped[i] = f->entries[i].step;
	return n;
}

void typical_find(struct process *p)
{
	size_t n = p->steps.len;
	struct typical_finder f = {
		.p = p,
		.entries = xcalloc(n, sizeof(*f.entries)),
		.values = xcalloc(n, sizeof(*f.values)),
	};
	struct cause_span group, run;

	p->grouped = xcalloc(n, sizeof(*p->grouped));
	/* for steps that are in no group */
	*list_add(p, typicals) = (struct typical){ 0 };
	n = make_entries(&f);
	for (group.entries = f.entries; n; group.entries += group.len, n -= group.len) {
		const struct group_entry *e = group.entries;

		group.len = list_find(n, i, e[i].lane != e->lane || e[i].phase != e->phase || e[i].class != e->class);
		for (size_t at = 0; at < group.len; at += run.len) {
			run = next_run(&group, at);
			typical_find_run(&f, &group, &run);
		}
	}
	free(f.entries);
	free(f.values);
}

/* ---- why a step took longer ---- */

static const struct typical *step_typical(const struct process *p, const struct step *s)
{
	return &p->typicals[s->typical];
}

/* A smaller excess is not worth mentioning, however steady the other steps are. */
#define EXCESS_MIN_NS 20000
/* A step without others to compare with is slow if it waited for this share of its time. */
#define WAITED_SHARE 0.1

#define BIT(state) (1u << (state))
#define ALL_STATES (BIT(STATES) - 1)

#define HINDERED (CAUSE_KEPT_OFF | BIT(ST_FAULT) | BIT(ST_SYSCALL))

/* In these states a thread waits for others of the engine, as intended. */
#define WAITS_FOR_THREADS (BIT(ST_BARRIER) | BIT(ST_BLOCKED_FUTEX) | BIT(ST_BLOCKED_GIL))

const char *const cause_where_names[WHERE_MAX] = {
	[WHERE_NONE] = "none",
	[WHERE_OWN] = "own",
	[WHERE_STRAGGLER] = "straggler",
	[WHERE_WORKERS] = "workers",
};

/* Time in a state beyond what is typical, for the thread or the workers. */
struct excess {
	int64_t ns[STATES];
};

static void find_excess(const struct step *s, const int64_t *ns, const double *typical, struct excess *e)
{
	double size = step_size(s);

	for (unsigned int i = 0; i < STATES; i++)
		e->ns[i] = ns[i] - (int64_t)(typical[i] * size);
}

/* The state in the mask with the largest excess. */
static uint8_t excess_find_largest(const struct excess *e, uint32_t mask)
{
	uint8_t best = STATE_NONE;

	for (uint8_t i = 0; i < STATES; i++) {
		if (mask & BIT(i) && (best == STATE_NONE || e->ns[i] > e->ns[best]))
			best = i;
	}
	return best;
}

/* c is about the calling thread, or others for which it waited. */
static void cause_set_wait(struct cause *c, const struct step *s)
{
	const struct wait_info *w = &s->wait;

	if ((c->state == ST_RUNNABLE || c->state == ST_STOPPED) && w->state == c->state) {
		c->by = w->behind;
		c->by_tid = w->behind_tid;
	} else if (w->ns >= c->part / 2 && (c->state > ST_RUNNABLE || c->state == ST_BARRIER)) {
		c->by = w->tid == s->tid ? 0 : w->comm;
		c->by_tid = w->tid == s->tid ? 0 : w->tid;
		c->wait = w->name;
		c->wait_ns = w->ns;
	}
}

/* Whether the straggler, in this state, is the largest cause of its waits. */
static bool straggler_was(const struct step *s, uint8_t state)
{
	return s->straggler_tid && s->wait.tid == s->straggler_tid && s->wait.ns && s->wait.state == state;
}

/* The verdict is about other threads: what is known of the calling thread's wait does not apply to them. */
static void cause_blame_threads(struct cause *c, enum cause_where where, uint8_t state, uint32_t tid)
{
	c->where = where;
	c->state = state;
	c->tid = tid;
	c->by = c->by_tid = c->wait = 0;
}

/* Blames the workers if they spent at least `min` ns more than typical in one state of the mask; returns whether they did. */
static bool blame_workers(const struct step *s, const struct excess *workers, uint32_t mask,
	int64_t min, struct cause *c)
{
	uint8_t state = excess_find_largest(workers, mask);

	if (workers->ns[state] < min)
		return false;
	cause_blame_threads(c, WHERE_WORKERS, state, 0);
	/* several workers may have been in the state at the same time */
	c->part = least_of(c->part, workers->ns[state]);
	if (state < ST_RUNNABLE && straggler_was(s, ST_CPU) && s->held >= min) {
		/* the straggler ran the whole time */
		c->where = WHERE_STRAGGLER;
		c->tid = s->straggler_tid;
	} else if (straggler_was(s, state)) {
		c->tid = s->straggler_tid;
		cause_set_wait(c, s);
	}
	return true;
}

/* The calling thread waited for this one thread, which was kept from running. */
static void blame_straggler(const struct step *s, const struct excess *workers, struct cause *c)
{
	cause_blame_threads(c, WHERE_STRAGGLER, s->wait.state, s->straggler_tid);
	/* the straggler's time within the longest wait is known, of the workers only the sum */
	c->part = least_of(c->part, workers->ns[c->state]);
	if (c->part < s->wait.ns)
		c->part = s->wait.ns;
	cause_set_wait(c, s);
}

/* Finds out what held up the threads that the calling thread waited for. c describes its wait at first. */
static void wait_find_cause(const struct step *s, const struct typical *t, struct cause *c)
{
	struct excess workers;
	int64_t half = c->part / 2;

	find_excess(s, s->workers, t->workers, &workers);
	if (s->wait.ns >= half && s->wait.state > ST_CPU && straggler_was(s, s->wait.state)) {
		blame_straggler(s, &workers, c);
		return;
	}
	if (c->by_tid && c->by_tid != s->straggler_tid) { /* that one was in its way, or in the straggler's */
		c->tid = c->state == ST_BARRIER ? s->straggler_tid : 0;
		return;
	}
	if (blame_workers(s, &workers, HINDERED, half, c) ||
		blame_workers(s, &workers, ALL_STATES & ~WAITS_FOR_THREADS, half, c))
		return;
	/* a thread that joined late: what it did before is in no sum */
	if (s->straggler_tid && s->held >= half)
		c->tid = s->straggler_tid;
}

static void cause_find_second(const struct step *s, const struct excess *own, struct cause *c)
{
	uint8_t second = excess_find_largest(own, ALL_STATES & ~BIT(c->state));

	if (own->ns[second] < c->excess / 4 || (second == ST_CPU && s->left_out & 1u << SHED_BARRIERS))
		return;
	c->second = second;
	c->second_part = own->ns[second];
}

/* Whether an excess within noise counts: if step times scatter, since the CPU runs at varying speed, it does when most of it
 * lies in one state in which steps usually spend hardly any time. */
static bool excess_is_notable(const struct typical *t, const struct excess *own, double size, int64_t excess)
{
	uint8_t state = excess_find_largest(own, ALL_STATES);
	double part = (double)own->ns[state];

	return t->compared && (double)excess > t->least * size && part >= (double)excess / 2 &&
	       part > t->own_noise[state] * size;
}

static int64_t behind_sum_own(const struct process *p, const struct behind_info *rows, size_t n)
{
	int64_t sum = 0;

	for (size_t i = 0; i < n; i++) {
		if (rows[i].tid && rows[i].pid == p->pid)
			sum = ns_add(sum, rows[i].ns);
	}
	return sum;
}

int64_t step_waited_for_own(const struct process *p, const struct step *s)
{
	return behind_sum_own(p, p->behind + s->behind, (size_t)s->n_behind + s->n_workers_behind);
}

int64_t step_held_back(const struct process *p, const struct step *s)
{
	const struct behind_info *rows = p->behind + s->behind;
	int64_t sum = 0;

	for (size_t i = 0; i < (size_t)s->n_behind + s->n_workers_behind; i++)
		sum = ns_add(sum, rows[i].limit ? rows[i].ns : 0);
	return sum;
}

uint32_t step_workers(const struct step *s)
{
	double n = s->total > 0 ? ceil((double)s->workers_total / (double)s->total - 0.1) : 0;

	n = n < 1 ? 1 : n;
	return n < s->n_workers ? (uint32_t)n : s->n_workers;
}

bool step_crowded(const struct step *s)
{
	return s->cpus_allowed && s->n_workers && s->cpus_allowed <= step_workers(s);
}

/* Finds out which threads ran while those of the verdict waited for a CPU. */
static void cause_find_culprits(const struct process *p, const struct step *s, struct cause *c)
{
	bool own = c->where == WHERE_OWN;
	int64_t unnamed;

	if (c->state != ST_RUNNABLE)
		return;
	c->n_behind = own ? s->n_behind : s->n_workers_behind;
	if (!c->n_behind)
		return;
	c->behind = p->behind + s->behind + (own ? 0 : s->n_behind);
	c->behind_whole = own ? s->own[ST_RUNNABLE] : s->workers[ST_RUNNABLE];
	c->behind_all = !own && c->tid && s->n_workers > 1;
	unnamed = c->behind_whole;
	for (uint32_t i = 0; i < c->n_behind; i++)
		unnamed -= c->behind[i].ns;
	/* most of the wait may be behind unnamed threads: the log of a CPU that switches often does not reach far back */
	c->by = unnamed > c->behind[0].ns ? 0 : c->behind[0].by;
	c->by_tid = unnamed > c->behind[0].ns ? 0 : c->behind[0].tid;
	c->crowded = step_crowded(s) &&
		     behind_sum_own(p, c->behind, c->n_behind) >= c->behind_whole / 2;
}

/* own: the excess of the calling thread. */
static void find_own_cause(const struct step *s, const struct typical *t, const struct excess *own, struct cause *c)
{
	struct excess workers;

	c->where = WHERE_OWN;
	c->state = excess_find_largest(own, ALL_STATES);
	c->part = own->ns[c->state];
	cause_set_wait(c, s);
	cause_find_second(s, own, c);
	if (BIT(c->state) & WAITS_FOR_THREADS) {
		wait_find_cause(s, t, c);
	} else if (c->state == ST_CPU && !s->unfinished) {
		c->unseen = s->left_out & 1u << SHED_BARRIERS;
		/* engines hand out work in pieces: the others did what a held up worker could not, and nobody waited */
		find_excess(s, s->workers, t->workers, &workers);
		blame_workers(s, &workers, CAUSE_KEPT_OFF, c->part / 2, c);
	}
}

bool step_is_overdue(const struct process *p, size_t i)
{
	const struct step loaded = steps_load(&p->steps, i), *s = &loaded;
	double size = step_size(s);

	for (size_t k = i; k-- > 0;) {
		const struct step like = steps_load(&p->steps, k);
		const struct typical *t = step_typical(p, &like);
		double excess = (double)s->total - t->total * size;

		if (like.lane != s->lane)
			break;
		if (like.phase == s->phase && tokens_class(like.n_tokens) == tokens_class(s->n_tokens) && t->compared)
			return excess >= EXCESS_MIN_NS && excess > t->noise * size;
	}
	return true;
}

void cause_open(const struct process *p, const struct step *s, struct cause *ret_cause)
{
	const struct typical none = { 0 };
	struct cause c = { .state = STATE_NONE, .second = STATE_NONE, .excess = s->total };
	struct excess own;

	if (s->total > 0) {
		find_excess(s, s->own, none.own, &own);
		find_own_cause(s, &none, &own, &c);
		cause_find_culprits(p, s, &c);
	}
	*ret_cause = c;
}

void cause_find(const struct process *p, const struct step *s, struct cause *ret_cause)
{
	const struct typical *t = step_typical(p, s);
	double size = step_size(s), noise;
	struct cause c = { .state = STATE_NONE, .second = STATE_NONE, .compared = t->compared };
	struct excess own;

	find_excess(s, s->own, t->own, &own);
	if (t->compared) {
		c.typical = (int64_t)(t->total * size);
		c.excess = s->total - c.typical;
		noise = t->noise * size;
	} else {
		/* nothing to compare with: count the states that no engine intends */
		for (unsigned int i = 0; i < STATES; i++) {
			if (CAUSE_KEPT_OFF & BIT(i))
				c.excess = ns_add(c.excess, s->own[i]);
			else
				own.ns[i] = 0;
		}
		c.typical = s->total - c.excess;
		noise = WAITED_SHARE * (double)s->total;
	}
	if (s->unfinished || s->left_out_changed || c.excess < EXCESS_MIN_NS)
		goto out;
	if ((double)c.excess <= noise && !excess_is_notable(t, &own, size, c.excess))
		goto out;
	find_own_cause(s, t, &own, &c);
	cause_find_culprits(p, s, &c);
out:
	*ret_cause = c;
}

int64_t cause_gap_excess(const struct process *p, const struct step *s, int64_t *ret_typical)
{
	const struct typical *t = step_typical(p, s);
	int64_t excess;

	if (s->gap < 0 || s->gap > PAUSE_NS || !t->compared)
		return 0;
	excess = s->gap - (int64_t)t->gap;
	if (excess < EXCESS_MIN_NS || (double)excess <= t->gap_noise)
		return 0;
	*ret_typical = (int64_t)t->gap;
	return excess;
}

/* Parts without which a step's operators are incomplete, or have no end of their own. */
#define OPS_UNSEEN (1u << SHED_BARRIERS | 1u << SHED_OPERATORS | 1u << SHED_TIMELINE)

static int64_t step_op_ns(const struct process *p, size_t step, uint32_t name)
{
	const struct op_time *ops = p->step_ops + steps_get(&p->steps, step, STEP_OPS);
	int64_t n = steps_get(&p->steps, step, STEP_N_OPS);

	for (int64_t i = 0; i < n; i++) {
		if (ops[i].name == name)
			return ops[i].ns;
	}
	return 0;
}

int64_t cause_op(const struct process *p, const struct step *s, uint32_t *ret_name)
{
	const struct typical *t = step_typical(p, s);
	double *values, excess, best = 0;

	*ret_name = 0;
	if (!s->n_ops || !t->compared || s->left_out & OPS_UNSEEN)
		return 0;
	values = xcalloc(t->compared, sizeof(*values));
	list_for_each (op, p->step_ops + s->ops, s->n_ops) {
		size_t n = 0;

		for (uint32_t k = 0; k < t->compared; k++) {
			uint32_t other = p->grouped[t->first + k];

			if (!(steps_get(&p->steps, other, STEP_LEFT_OUT) & OPS_UNSEEN))
				values[n++] = (double)step_op_ns(p, other, op->name) / steps_size(&p->steps, other);
		}
		excess = (double)op->ns - median_of(values, n) * step_size(s);
		if (excess > best) {
			best = excess;
			*ret_name = op->name;
		}
	}
	free(values);
	return (int64_t)best;
}
