// SPDX-License-Identifier: BSD-2-Clause
#include "top/live.h"

#include <stdlib.h>
#include <string.h>

#include "report/cause.h"
#include "report/stats.h"
#include "requests/step_requests.h"
#include "util/clock.h"
#include "util/names.h"

/* ---- requests in batches: how many there are now, and how long they wait for their first tokens ---- */

#define REQUESTS_MAX 1024 /* the newest */
#define CONTEXTS_MAX 256
#define FIRST_MAX 2048 /* first tokens that are kept */
#define FIRST_NS (60 * NSEC_PER_SEC)
#define QUIET_NS NSEC_PER_SEC /* without a step an engine has nothing to do */

struct live_entry {
	uint32_t serial, tgid;                /* serial 0: unused */
	uint64_t context, sequence, step_end; /* step_end: of the last step with its rows */
	bool first;                           /* it has its first token */
};

/* The last step of a context. */
struct live_context {
	uint32_t tgid;
	uint64_t context, end, ns;
	uint32_t scheduler[SCHEDULER_VALUES];
};

struct first_token {
	uint64_t at, ns;
	uint32_t tgid;
};

struct live_requests {
	struct live_entry entries[REQUESTS_MAX]; /* by serial */
	struct live_context contexts[CONTEXTS_MAX];
	size_t n_contexts;
	struct first_token first[FIRST_MAX]; /* a ring */
	size_t n_first;
	int64_t values[FIRST_MAX];
	bool any;
};

/* NULL: there were too many newer ones, or its rows are not known. */
static struct live_entry *live_find_entry(struct live_requests *lr, const struct step_request *r)
{
	struct live_entry *e = &lr->entries[r->serial % REQUESTS_MAX];

	return r->by_parts && e->serial == r->serial ? e : NULL;
}

/* Finds or adds a context. If there is no room, it replaces the one that was quiet for longest. */
static struct live_context *live_get_context(struct live_requests *lr, uint32_t tgid, uint64_t context)
{
	struct live_context *oldest = lr->contexts;

	list_for_each (c, lr->contexts, lr->n_contexts) {
		if (c->context == context && c->tgid == tgid)
			return c;
		if (c->end < oldest->end)
			oldest = c;
	}
	if (lr->n_contexts < CONTEXTS_MAX)
		oldest = &lr->contexts[lr->n_contexts++];
	*oldest = (struct live_context){ .tgid = tgid, .context = context };
	return oldest;
}

static struct live_process *batches_get_process(struct live_batches *b, uint32_t tgid)
{
	size_t at = list_find(b->n_processes, i, b->processes[i].pid == tgid);

	if (at == LIVE_PROCESSES_MAX)
		return NULL;
	if (at == b->n_processes)
		b->processes[b->n_processes++] = (struct live_process){ .pid = tgid };
	return &b->processes[at];
}

static struct percentiles first_token_percentiles(struct live_requests *lr, uint64_t now, uint32_t tgid)
{
	const struct first_token *f = lr->first;

	return percentiles_over(lr->values, least_of(lr->n_first, FIRST_MAX), i,
		f[i].ns && f[i].at + FIRST_NS >= now && (!tgid || f[i].tgid == tgid) ? (int64_t)f[i].ns : -1);
}

/* It had no step for QUIET_NS, or for twice the last step, since the next one may take that long. */
static bool live_context_idle(const struct live_context *c, uint64_t now)
{
	return c->end + (c->ns > QUIET_NS / 2 ? 2 * c->ns : QUIET_NS) < now;
}

/* The state at `now`. False: there have been no such requests. */
static bool live_requests_find(struct live_requests *lr, uint64_t now, struct live_batches *ret)
{
	*ret = (struct live_batches){ 0 };
	if (!lr->any)
		return false;
	list_for_each (e, lr->entries, REQUESTS_MAX) {
		const struct live_context *c;
		struct live_process *p;
		bool active, waiting;

		if (!e->serial)
			continue;
		c = live_get_context(lr, e->tgid, e->context);
		if (live_context_idle(c, now))
			continue;
		active = e->step_end == c->end;
		waiting = !active && !e->first;
		p = active || waiting ? batches_get_process(ret, e->tgid) : NULL;
		ret->all.active += active;
		ret->all.waiting += waiting;
		if (p) {
			p->active += active;
			p->waiting += waiting;
		}
	}
	list_for_each (c, lr->contexts, lr->n_contexts) {
		struct live_process *p = c->scheduler[SCHEDULER_WAITING] && !live_context_idle(c, now) ? batches_get_process(ret, c->tgid) : NULL;

		if (p)
			memcpy(p->scheduler, c->scheduler, sizeof(p->scheduler));
	}
	if (ret->n_processes == 1)
		memcpy(ret->all.scheduler, ret->processes[0].scheduler, sizeof(ret->all.scheduler));
	ret->all.ttft = first_token_percentiles(lr, now, 0);
	for (size_t i = 0; i < ret->n_processes; i++)
		ret->processes[i].ttft = first_token_percentiles(lr, now, ret->processes[i].pid);
	return true;
}

/*
 * ---- the slow steps of the last minute, each with its cause as in inftrace report ----
 *
 * Each frame makes the report again from the steps that are kept, so a step is compared with later
 * ones as soon as these exist. Verdicts on steps that were evicted stay.
 */
#define KEPT_MAX 2048 /* steps: a minute at 34 per second; judging all of them takes a few milliseconds */
#define KEPT_MIN 256  /* kept for comparison, however old they are */
#define SLOW_MAX 256

struct slow_steps {
	struct live_step kept[KEPT_MAX]; /* a ring, beginning at `first` */
	size_t first, n;
	int64_t evicted_at; /* what began up to then is no longer kept */
	bool added;         /* since the last verdicts */
	struct live_slow slow[SLOW_MAX];
	size_t n_slow;
};

static struct live_step *slow_steps_nth(struct slow_steps *s, size_t i)
{
	return &s->kept[(s->first + i) % KEPT_MAX];
}

static void evict_first(struct slow_steps *s)
{
	int64_t at = slow_steps_nth(s, 0)->step.ts;

	if (at > s->evicted_at)
		s->evicted_at = at;
	s->first = (s->first + 1) % KEPT_MAX;
	s->n--;
}

static void model_add(struct model *m, const struct live_step *ls)
{
	size_t n_behind = (size_t)ls->step.n_behind + ls->step.n_workers_behind;
	struct process *p = model_process(m, ls->pid, 0);
	struct behind_info behind[2 * BEHIND_MAX];
	struct step step = ls->step;

	for (size_t i = 0; i < n_behind; i++) {
		behind[i] = ls->behind[i].row;
		behind[i].by = model_name(m, ls->behind[i].by);
	}
	step.phase = model_name(m, ls->phase);
	step.wait = ls->wait.row;
	step.wait.name = model_name(m, ls->wait.name);
	step.wait.comm = model_name(m, ls->wait.comm);
	step.wait.behind = model_name(m, ls->wait.behind);
	step.straggler_comm = model_name(m, ls->straggler_comm);
	process_add_behind(p, &step, behind, step.n_behind, behind + step.n_behind, step.n_workers_behind);
	process_add_step(p, &step);
}

ORDER(compare_slow, struct live_slow, FALLING(excess), RISING(number))

static void take_slow(struct slow_steps *s, const struct model *m, const struct process *p,
	const struct slow_step *slow, int64_t now)
{
	const struct step step = steps_load(&p->steps, slow->step);
	struct live_slow key = {
		.at = step.ts,
		.excess = slow->cause.excess,
		.pid = p->pid,
		.number = step.number,
		.gap = slow->gap,
	};
	struct live_slow *e = s->slow;
	size_t at = list_find(s->n_slow, i, e[i].pid == key.pid && e[i].number == key.number && e[i].gap == key.gap);

	if (ns_add(step.ts, step.total) < now - LIVE_MINUTE_NS)
		return;
	if (at == SLOW_MAX && e[--at].excess >= key.excess)
		return;
	s->n_slow += at == s->n_slow;
	e[at] = key;
	words_slow(m, p, slow, e[at].text);
}

static void slow_steps_judge(struct slow_steps *s, int64_t now)
{
	const struct phase_names none = { 0 };
	struct summary sum;
	struct model m;

	model_init(&m);
	for (size_t i = 0; i < s->n; i++)
		model_add(&m, slow_steps_nth(s, i));
	model_finish(&m);
	for (size_t i = 0; i < m.n_processes; i++) {
		struct process *p = m.processes[i];

		typical_find(p);
		summary_make(p, NULL, &none, &sum);
		for (size_t k = 0; k < sum.n_slow; k++)
			take_slow(s, &m, p, &sum.slow[k], now);
		summary_free(&sum);
		list_sort(s->slow, s->n_slow, compare_slow);
	}
	model_free(&m);
}

/* Judges the new steps, and fills in the frame's slow steps. */
static void slow_steps_frame(struct slow_steps *s, int64_t now, struct live_frame *f)
{
	size_t n = 0;

	while (s->n > KEPT_MIN && ns_add(slow_steps_nth(s, 0)->step.ts, slow_steps_nth(s, 0)->step.total) < now - LIVE_MINUTE_NS)
		evict_first(s);
	/* drops verdicts that are made again or older than a minute */
	list_for_each (e, s->slow, s->n_slow) {
		if (e->at >= now - LIVE_MINUTE_NS && (!s->added || e->at <= s->evicted_at))
			s->slow[n++] = *e;
	}
	s->n_slow = n;
	if (s->added)
		slow_steps_judge(s, now);
	s->added = false;
	f->minute_slow = s->n_slow;
	f->minute_more = s->n_slow == SLOW_MAX;
	f->slow = s->slow;
	f->n_slow = least_of(s->n_slow, LIVE_SLOW_MAX);
}

#define QUEUE_MAX 4096 /* steps waiting for those that began before them */
#define LANES_MAX 256  /* if full, the one that was quiet for longest is forgotten */
#define TPOT_MAX 16384

/* ---- all of it ---- */

/* Consecutive steps. */
struct live_lane {
	uint32_t pid, tid;
	uint64_t context;
	int64_t end; /* of the last step */
};

struct queued {
	struct live_step s;
	uint64_t round;
};

struct live_token_time {
	int64_t at, ns;
	uint32_t request; /* 0: it has become mixed, and does not count */
};

struct rows {
	struct live_row *list;
	size_t len, size;
	struct idmap by_key;
	struct live_row *sorted; /* in the order of the frame */
};

struct live {
	struct queued queue[QUEUE_MAX]; /* sorted by number */
	size_t n_queue;
	uint64_t round, loss_until;
	struct live_lane lanes[LANES_MAX];
	size_t n_lanes;
	struct live_token_time tpot[TPOT_MAX]; /* a ring from first_tpot */
	size_t first_tpot, n_tpot;
	int64_t values[TPOT_MAX];
	struct step_requests *requests;
	struct live_requests batches;
	bool parts_seen;           /* the rows of each sequence are known for some step */
	uint64_t step_prompt_rows; /* prompt rows of the step that `requests` gets now */
	struct slow_steps slow;
	struct rows ops, syscalls, gaps;
	struct idmap pids;
	struct live_sums last; /* since the last frame */
	int64_t ttft, ttft_at;
	uint64_t ttft_tokens;
	int64_t frame_at;
	uint64_t frame_lost;
	struct gpu {
		struct live_gpu shown;
		int64_t busy, until, from; /* since the last frame; from: `until` at that time */
	} gpus[LIVE_GPUS];
	size_t n_gpus;
	struct live_gpu shown_gpus[LIVE_GPUS];
	struct live_frame frame;
};

/* ---- requests ---- */

static void live_on_begin(struct step_request *r, const struct step_seen *s, void *arg)
{
	struct live_requests *lr = &((struct live *)arg)->batches;

	(void)s;
	if (!r->by_parts) /* its rows are unknown */
		return;
	/* the request before it in its slot is over */
	list_for_each (e, lr->entries, REQUESTS_MAX) {
		if (e->sequence == r->sequence && e->context == r->context && e->tgid == r->tgid)
			e->serial = 0;
	}
	lr->entries[r->serial % REQUESTS_MAX] = (struct live_entry){
		.serial = r->serial, .tgid = r->tgid, .context = r->context, .sequence = r->sequence
	};
	lr->any = true;
}

static void live_on_part(struct step_request *r, const struct step_seen *s, const struct request_part *p, void *arg)
{
	struct live *l = arg;
	struct live_entry *e = live_find_entry(&l->batches, r);
	struct live_context *c;

	if (!r->by_parts || !s->n_parts)
		return;
	l->step_prompt_rows += p->prompt ?: p->again;
	c = live_get_context(&l->batches, r->tgid, r->context);
	c->end = s->end;
	c->ns = s->end - s->start;
	if (e)
		e->step_end = s->end;
}

static void live_on_first(struct step_request *r, void *arg)
{
	struct live *l = arg;
	struct live_requests *lr = &l->batches;
	struct live_entry *e = live_find_entry(lr, r);
	uint64_t ttft = step_request_ttft(r);

	if (e)
		e->first = true;
	if (r->by_parts)
		lr->first[lr->n_first++ % FIRST_MAX] = (struct first_token){ r->first_output, ttft, r->tgid };
	if (!ttft)
		return;
	l->ttft = (int64_t)ttft;
	l->ttft_at = (int64_t)r->first_output - 1; /* see requests_seen() */
	l->ttft_tokens = r->prompt_tokens;
}

static void live_on_step(struct step_request *r, const struct step_seen *s, void *arg)
{
	struct live *l = arg;

	(void)r;
	if (s->phase == PHASE_SHARED && !s->n_parts)
		requests_add_shared(&l->frame.requests, s);
}

static void live_on_token(struct step_request *r, const struct step_seen *s, uint64_t ns, uint64_t gap, void *arg)
{
	struct live *l = arg;

	if (r->mixed || r->lost || gap > PAUSE_NS)
		return;
	if (l->n_tpot == TPOT_MAX) {
		l->first_tpot = (l->first_tpot + 1) % TPOT_MAX;
		l->n_tpot--;
	}
	l->tpot[(l->first_tpot + l->n_tpot++) % TPOT_MAX] =
		(struct live_token_time){ (int64_t)s->end - 1, (int64_t)ns, r->serial };
}

static void live_on_mixed(struct step_request *r, void *arg)
{
	struct live *l = arg;
	struct live_entry *e = live_find_entry(&l->batches, r);

	l->frame.requests.mixed++;
	if (e)
		e->serial = 0;
	for (size_t i = 0; i < l->n_tpot; i++) {
		struct live_token_time *t = &l->tpot[(l->first_tpot + i) % TPOT_MAX];

		if (t->request == r->serial)
			t->request = 0;
	}
}

struct live *live_new(void)
{
	static const struct step_requests_ops ops = {
		.begin = live_on_begin,
		.part = live_on_part,
		.first = live_on_first,
		.step = live_on_step,
		.token = live_on_token,
		.mixed = live_on_mixed,
	};
	struct live *l = xcalloc(1, sizeof(*l));

	l->requests = step_requests_new(NULL, &ops, l);
	l->slow.evicted_at = -1;
	return l;
}

static void rows_free(struct rows *r)
{
	for (size_t i = 0; i < r->len; i++)
		free(r->list[i].name);
	free(r->list);
	free(r->sorted);
	idmap_free(&r->by_key);
}

void live_free(struct live *l)
{
	if (!l)
		return;
	for (size_t i = 0; i < l->n_queue; i++)
		free((void *)l->queue[i].s.parts);
	step_requests_free(l->requests);
	rows_free(&l->ops);
	rows_free(&l->gaps);
	rows_free(&l->syscalls);
	idmap_free(&l->pids);
	free(l);
}

/* ---- steps ---- */

/* The lane of a step's context. If contexts are unknown, the lane of its thread; for a new thread the lane that went quiet
 * last, since engines let different threads call them. *ret_gap: ns since the lane's last step; -1: there was none. */
static struct live_lane *live_get_lane(struct live *l, const struct live_step *s, int64_t *ret_gap)
{
	struct live_lane *best = NULL, *oldest = l->lanes;

	*ret_gap = -1;
	list_for_each (lane, l->lanes, l->n_lanes) {
		if (lane->end < oldest->end)
			oldest = lane;
		if (lane->pid != s->pid || lane->context != s->step.context)
			continue;
		if (lane->context || lane->tid == s->step.tid) {
			best = lane;
			break;
		}
		if (lane->end <= s->step.ts && (!best || lane->end > best->end))
			best = lane;
	}
	if (best) {
		if (s->step.ts >= best->end)
			*ret_gap = s->step.ts - best->end;
		best->tid = s->step.tid;
		return best;
	}
	best = l->n_lanes < LANES_MAX ? &l->lanes[l->n_lanes++] : oldest;
	*best = (struct live_lane){ .pid = s->pid, .tid = s->step.tid, .context = s->step.context };
	return best;
}

static void live_sums_add(struct live_sums *sums, const struct live_step *s, int64_t gap, uint64_t tokens, uint64_t prompt)
{
	const struct step *step = &s->step;

	sums->steps++;
	sums->unfinished += step->unfinished;
	sums->lossy += step->lost != 0;
	if (s->workers > sums->max_workers)
		sums->max_workers = s->workers;
	sums->left_out |= step->left_out;
	sums->total = ns_add(sums->total, step->total);
	sums->workers_total = ns_add(sums->workers_total, step->workers_total);
	if (s->weighed) {
		sums->tracer = ns_add(sums->tracer, step->tracer);
		sums->tracer_of = ns_add(sums->tracer_of, step->total);
	}
	for (unsigned int i = 0; i < STATES; i++) {
		sums->own[i] = ns_add(sums->own[i], step->own[i]);
		sums->workers[i] = ns_add(sums->workers[i], step->workers[i]);
	}
	if (gap > PAUSE_NS)
		sums->idle = ns_add(sums->idle, gap);
	else if (gap > 0)
		sums->between = ns_add(sums->between, gap);
	sums->tokens += tokens;
	sums->prompt_tokens += prompt;
}

static void live_take_step(struct live *l, const struct live_step *s)
{
	int64_t end = ns_add(s->step.ts, s->step.total), gap;
	struct live_lane *lane = live_get_lane(l, s, &gap);
	uint64_t tokens = 0, prompt = s->live_phase == LIVE_PREFILL && !s->step.unfinished ? s->step.n_tokens : 0;
	struct step_seen seen;
	struct row_part all;

	if (requests_seen(&s->step, s->live_phase == LIVE_PREFILL, s->live_phase == LIVE_DECODE, &seen)) {
		seen.tgid = s->pid;
		seen.own_ids = s->own_ids;
		if (!seen.context)
			seen.context = 1 + (uint64_t)(lane - l->lanes);
		l->parts_seen |= s->n_parts != 0;
		seen.n_parts = s->n_parts;
		seen.parts = s->parts;
		seen.parts_left = s->n_parts ? s->parts_left : 0;
		/* once a step has had parts, every step gets some */
		if (!s->n_parts && l->parts_seen && step_seen_whole(&seen, &all)) {
			seen.parts = &all;
			seen.n_parts = 1;
		}
		l->step_prompt_rows = 0;
		step_requests_add(l->requests, &seen);
		if (s->scheduler[SCHEDULER_WAITING])
			memcpy(live_get_context(&l->batches, s->pid, seen.context)->scheduler, s->scheduler, sizeof(s->scheduler));
		if (l->round < l->loss_until)
			step_requests_lost(l->requests, 1);
		if (seen.n_parts && !s->step.unfinished)
			prompt = l->step_prompt_rows;
		tokens = seen.phase == PHASE_PREFILL ? 0 : step_seen_tokens(&seen);
	}
	live_sums_add(&l->last, s, gap, tokens, prompt);
	live_sums_add(&l->frame.run, s, gap, tokens, prompt);
	if (end > lane->end)
		lane->end = end;
	idmap_set(&l->pids, s->pid, 1);
	if (l->slow.n == KEPT_MAX)
		evict_first(&l->slow);
	*slow_steps_nth(&l->slow, l->slow.n++) = *s; /* in the order in which they began, as far as it is known */
	l->slow.added = true;
}

static void live_take_queued(struct live *l, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		live_take_step(l, &l->queue[i].s);
		free((void *)l->queue[i].s.parts);
	}
	l->n_queue -= n;
	memmove(l->queue, l->queue + n, l->n_queue * sizeof(*l->queue));
}

void live_step(struct live *l, const struct live_step *s)
{
	struct row_part *parts = NULL;
	size_t i;

	if (l->n_queue == QUEUE_MAX)
		live_take_queued(l, QUEUE_MAX / 2);
	if (s->n_parts) {
		parts = xcalloc(s->n_parts, sizeof(*parts));
		memcpy(parts, s->parts, s->n_parts * sizeof(*parts));
	}
	for (i = l->n_queue++; i > 0 && l->queue[i - 1].s.step.number > s->step.number; i--)
		l->queue[i] = l->queue[i - 1];
	l->queue[i] = (struct queued){ .s = *s, .round = l->round };
	l->queue[i].s.parts = parts;
}

static void live_take_settled(struct live *l, bool all)
{
	/* the first round may have begun before the record of the step arrived */
	live_take_queued(l, list_find(l->n_queue, i, !all && l->queue[i].round + 2 > l->round));
}

void live_settled(struct live *l)
{
	l->round++;
	live_take_settled(l, false);
}

/* ---- operators and system calls ---- */

static struct live_row *rows_get(struct rows *r, uint64_t key, const char *name)
{
	uint32_t i;

	if (!idmap_get(&r->by_key, key, &i) || strcmp(r->list[i].name, name)) {
		/* the same name at another address? */
		i = (uint32_t)list_find(r->len, k, !strcmp(r->list[k].name, name));
		if (i == r->len)
			*list_push(r->list, r->len, r->size) = (struct live_row){ .name = xstrdup(name) };
		idmap_set(&r->by_key, key, i);
	}
	return &r->list[i];
}

static void row_add(struct live_row *row, uint64_t ns)
{
	row->last_n++;
	row->run_n++;
	row->last_ns = ns_add(row->last_ns, (int64_t)ns);
	row->run_ns = ns_add(row->run_ns, (int64_t)ns);
}

/* What was added since the frame is over. */
static void rows_next(struct rows *r)
{
	list_for_each (row, r->list, r->len) {
		row->last_n = 0;
		row->last_ns = 0;
	}
}

void live_op(struct live *l, const char *name, uint64_t ns)
{
	row_add(rows_get(&l->ops, (uintptr_t)name, name), ns);
}

#define GAP_ROWS_MAX 256 /* threads may have any names */

void live_gap(struct live *l, const char *name, uint64_t ns)
{
	uint64_t key = 0;

	if (l->gaps.len >= GAP_ROWS_MAX)
		name = "(others)";
	for (const char *c = name; *c; c++)
		key = key * 31 + (unsigned char)*c;
	row_add(rows_get(&l->gaps, key, name), ns);
}

void live_wait(struct live *l, uint32_t number, const struct live_wait *wait)
{
	struct slow_steps *kept = &l->slow;

	list_for_each (q, l->queue, l->n_queue) {
		if (q->s.step.number == number)
			q->s.wait = *wait;
	}
	for (size_t i = kept->n; i-- > 0;) {
		struct live_step *s = slow_steps_nth(kept, i);

		if (s->step.number != number)
			continue;
		s->wait = *wait;
		kept->added = true;
		return;
	}
}

void live_syscalls(struct live *l, const struct process_call *calls, size_t n)
{
	struct rows *r = &l->syscalls;
	struct live_row *row;
	const char *name;

	list_for_each (old, r->list, r->len) {
		/* the increase belongs to the last interval */
		old->last_n = 0 - old->run_n;
		old->last_ns = -old->run_ns;
		old->run_n = 0;
		old->run_ns = 0;
	}
	for (size_t i = 0; i < n; i++) {
		uint32_t nr = calls[i].key.nr;

		name = nr & SYSCALL_SUM_COMPAT ? "(32 bit)" : syscall_name(nr);
		row = rows_get(r, nr, name ? name : "(unknown)");
		row->run_n += calls[i].sum.n;
		row->run_ns = ns_add(row->run_ns, (int64_t)calls[i].sum.ns);
	}
	list_for_each (new, r->list, r->len) {
		new->last_n += new->run_n;
		new->last_ns += new->run_ns;
	}
}

/* Busy times arrive late: find_gpus() relates them to the time that they cover, or to the interval if that is longer. */
void live_gpu(struct live *l, uint32_t device, uint32_t pid, int64_t until, int64_t busy)
{
	size_t at = list_find(l->n_gpus, i, l->gpus[i].shown.device == device && l->gpus[i].shown.pid == pid);
	struct gpu *g = &l->gpus[at];

	if (at == LIVE_GPUS)
		return;
	if (at == l->n_gpus)
		l->gpus[l->n_gpus++] = (struct gpu){ .shown = { .device = device, .pid = pid }, .from = l->frame_at };
	g->busy += busy;
	g->shown.run += busy;
	if (until > g->until)
		g->until = until;
}

static void find_gpus(struct live *l, struct live_frame *f)
{
	for (size_t i = 0; i < l->n_gpus; i++) {
		struct gpu *g = &l->gpus[i];

		g->shown.last = g->busy;
		g->shown.last_of = g->until - g->from > f->interval ? g->until - g->from : f->interval;
		g->busy = 0;
		if (g->until > g->from)
			g->from = g->until;
		l->shown_gpus[i] = g->shown;
	}
	f->gpus = l->shown_gpus;
	f->n_gpus = l->n_gpus;
}

void live_lost_steps(struct live *l)
{
	/* steps from before the loss may still be in the queue, or in a ring */
	l->loss_until = l->round + 3;
	step_requests_lost(l->requests, 1);
}

void live_lost(struct live *l, uint64_t records)
{
	l->frame.lost += records;
}

/* ---- frames ---- */

ORDER(compare_run, struct live_row, FALLING(run_ns), strcmp(x->name, y->name))
ORDER(compare_last, struct live_row, FALLING(last_ns), compare_run(x, y))

static struct live_rows rows_sort(struct rows *r, bool run)
{
	r->sorted = xreallocarray(r->sorted, r->len, sizeof(*r->sorted));
	if (r->len)
		memcpy(r->sorted, r->list, r->len * sizeof(*r->sorted));
	list_sort(r->sorted, r->len, run ? compare_run : compare_last);
	return (struct live_rows){ .rows = r->sorted, .len = r->len };
}

static const struct live_token_time *live_nth_tpot(const struct live *l, size_t i)
{
	return &l->tpot[(l->first_tpot + i) % TPOT_MAX];
}

static void find_tpot(struct live *l, int64_t now, struct live_frame *f)
{
	while (l->n_tpot && live_nth_tpot(l, 0)->at < now - LIVE_TPOT_NS) {
		l->first_tpot = (l->first_tpot + 1) % TPOT_MAX;
		l->n_tpot--;
	}
	f->tpot = percentiles_over(l->values, l->n_tpot, i, live_nth_tpot(l, i)->request ? live_nth_tpot(l, i)->ns : -1);
	f->tpot_span = l->n_tpot == TPOT_MAX ? now - live_nth_tpot(l, 0)->at : LIVE_TPOT_NS;
}

const struct live_frame *live_frame(struct live *l, int64_t now, bool last)
{
	struct live_frame *f = &l->frame;

	live_take_settled(l, last);
	f->now = now;
	f->interval = now - l->frame_at;
	f->last = l->last;
	find_gpus(l, f);
	memset(&l->last, 0, sizeof(l->last));
	f->processes = l->pids.len;
	f->ttft = l->ttft;
	f->ttft_at = l->ttft_at;
	f->ttft_tokens = l->ttft_tokens;
	f->last_lost = f->lost - l->frame_lost;
	find_tpot(l, now, f);
	f->has_batches = live_requests_find(&l->batches, (uint64_t)now + 1, &f->batches);
	slow_steps_frame(&l->slow, now, f);
	f->ops = rows_sort(&l->ops, last);
	f->syscalls = rows_sort(&l->syscalls, last);
	f->gaps = rows_sort(&l->gaps, last);
	rows_next(&l->ops);
	rows_next(&l->gaps);
	l->frame_at = now;
	l->frame_lost = f->lost;
	return f;
}
