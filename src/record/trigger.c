// SPDX-License-Identifier: BSD-2-Clause
#include "record/trigger.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "requests/request_join.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/names.h"
#include "util/parse.h"
#include "util/text.h"

/* ---- tokens per second ---- */

#define PARTS_MAX 1024
#define PART_NS (NSEC_PER_SEC / 1000) /* the least time of a part, except the last */

struct rated_process {
	uint32_t tgid;
	uint64_t last_end;
	struct rate sum;
	struct rate parts[PARTS_MAX]; /* steps, as a ring */
	unsigned int first, n;
};

static void forget_rate(struct rated_process *p)
{
	p->sum = (struct rate){};
	p->n = 0;
}

static struct rated_process *rates_find_process(struct rates *rs, uint32_t tgid)
{
	struct rated_process **oldest = rs->list, *p;

	for (size_t i = 0; i < rs->n; i++) {
		if (rs->list[i]->tgid == tgid)
			return rs->list[i];
		if (rs->list[i]->last_end < (*oldest)->last_end)
			oldest = &rs->list[i];
	}
	if (rs->n == RATES_MAX) {
		p = *oldest;
		forget_rate(p);
	} else {
		p = rs->list[rs->n++] = xcalloc(1, sizeof(*p));
	}
	p->tgid = tgid;
	p->last_end = 0;
	return p;
}

static struct rate *rated_nth_part(struct rated_process *p, unsigned int i)
{
	return &p->parts[(p->first + i) % PARTS_MAX];
}

/* Adds a step; merges short ones, so that there is room for a second of them. */
static void rated_add_step(struct rated_process *p, struct rate step)
{
	if (!p->n || rated_nth_part(p, p->n - 1)->ns >= PART_NS)
		*rated_nth_part(p, p->n++) = (struct rate){};
	rated_nth_part(p, p->n - 1)->tokens += step.tokens;
	rated_nth_part(p, p->n - 1)->ns += step.ns;
	p->sum.tokens += step.tokens;
	p->sum.ns += step.ns;
	/* keeps no more than needed for a second */
	while (p->sum.ns - rated_nth_part(p, 0)->ns >= NSEC_PER_SEC) {
		p->sum.tokens -= rated_nth_part(p, 0)->tokens;
		p->sum.ns -= rated_nth_part(p, 0)->ns;
		p->first = (p->first + 1) % PARTS_MAX;
		p->n--;
	}
}

bool rates_step(struct rates *rs, const struct step_seen *s, struct rate *ret_rate)
{
	struct rated_process *p = rates_find_process(rs, s->tgid);
	uint64_t from = p->last_end;

	if (!from || s->start >= from + NSEC_PER_SEC) {
		forget_rate(p);
		from = s->start;
	}
	if (s->end > p->last_end)
		p->last_end = s->end;
	if (s->phase == PHASE_PREFILL)
		return false;
	rated_add_step(p, (struct rate){
				  .tokens = step_seen_tokens(s),
				  .ns = s->end > from ? s->end - from : 0,
			  });
	if (p->sum.ns < NSEC_PER_SEC)
		return false;
	*ret_rate = p->sum;
	return true;
}

bool rate_below(const struct rate *r, uint64_t limit)
{
	return (unsigned __int128)r->tokens * NSEC_PER_SEC * NSEC_PER_SEC < (unsigned __int128)limit * r->ns;
}

void rates_free(struct rates *rs)
{
	while (rs->n)
		free(rs->list[--rs->n]);
}

/* ---- time in the queue: between a request's socket and its first step, where the two can be joined ---- */

#define SETTLED_ROUNDS 3 /* after which step_requests_settled() has taken all steps */
#define DECIDE_NS (NSEC_PER_SEC / 2) /* between two looks for requests that belong together */
#define KEPT_NS (30 * NSEC_PER_SEC)  /* what ended this long before the latest can no longer be joined */

struct trigger_sequence {
	struct join_sequence s;
	uint64_t sequence;
	uint32_t serial;
};

struct queue_watch {
	struct join *join;
	struct join_socket sockets[JOIN_SOCKETS]; /* if full, the oldest are dropped */
	struct trigger_sequence sequences[JOIN_SEQUENCES];
	size_t n_sockets, n_sequences;
	struct join_sequence given[JOIN_SEQUENCES];
	struct join_answer of_sockets[JOIN_SOCKETS], of_sequences[JOIN_SEQUENCES];
	uint64_t latest, decided; /* instants */
	bool news;
};

static void queue_watch_set_latest(struct queue_watch *w, uint64_t ns)
{
	w->news = true;
	if (ns > w->latest)
		w->latest = ns;
}

static struct trigger_sequence *queue_find_sequence(struct queue_watch *w, const struct step_request *r)
{
	for (size_t i = w->n_sequences; i-- > 0;) {
		if (w->sequences[i].serial == r->serial)
			return &w->sequences[i];
	}
	return NULL;
}

static void queue_watch_begin(struct queue_watch *w, const struct step_request *r)
{
	if (w->n_sequences == JOIN_SEQUENCES)
		memmove(w->sequences, w->sequences + 1, --w->n_sequences * sizeof(*w->sequences));
	w->sequences[w->n_sequences++] = (struct trigger_sequence){
		.s = { .tgid = r->tgid, .open = true, .vague = r->began_before || r->lost, .start = r->start },
		.sequence = r->sequence,
		.serial = r->serial,
	};
}

/* Takes a request whose exchange is over. */
static void queue_watch_socket(struct queue_watch *w, const struct rec_request *r)
{
	if (w->n_sockets == JOIN_SOCKETS)
		memmove(w->sockets, w->sockets + 1, --w->n_sockets * sizeof(*w->sockets));
	w->sockets[w->n_sockets++] = (struct join_socket){
		.tgid = r->h.tgid,
		.chunks = r->chunks,
		.came = r->h.start_ns,
		.start = r->read_ns,
		.first = r->first_chunk_ns,
		.last = r->last_chunk_ns,
	};
	queue_watch_set_latest(w, r->h.start_ns + r->h.dur_ns);
}

/* Forgets requests that are joined or too old. */
static void queue_forget_old(struct queue_watch *w)
{
	uint64_t old = w->latest > KEPT_NS ? w->latest - KEPT_NS : 0;
	size_t n = 0;

	for (size_t i = 0; i < w->n_sockets; i++) {
		uint64_t end = w->sockets[i].last ? w->sockets[i].last : w->sockets[i].start;

		if (w->of_sockets[i].result != JOIN_DONE && end >= old)
			w->sockets[n++] = w->sockets[i];
	}
	w->n_sockets = n;
	n = 0;
	for (size_t i = 0; i < w->n_sequences; i++) {
		const struct join_sequence *s = &w->sequences[i].s;

		if (w->of_sequences[i].result != JOIN_DONE && (s->open || s->last >= old))
			w->sequences[n++] = w->sequences[i];
	}
	w->n_sequences = n;
}

/* ---- hits ---- */

#define TIME_TEXT_MAX 32

static bool trigger_is_cooling(const struct trigger_set *set, const struct trigger *t, uint64_t ns)
{
	/* what led to a crash may have been reported, but not the crash: only other crashes count */
	uint64_t last = t->kind == KIND_CRASH ? set->last_crash_ns : set->last_ns;
	/* records may arrive out of order */
	uint64_t since = ns > last ? ns - last : last - ns;

	return last && since < set->cooldown_ns;
}

/* t: the trigger that was hit; NULL: none. Reports it with the reason, or only counts it. */
static void __attribute__((format(printf, 5, 6)))
report(struct trigger_set *set, struct trigger *t, uint64_t ns, uint32_t tgid, const char *fmt, ...)
{
	bool beyond = set->max_hits && set->counts.hits >= set->max_hits;
	va_list ap;
	int n;

	if (!t)
		return;
	if (beyond || set->pending || trigger_is_cooling(set, t, ns)) {
		set->counts.beyond += beyond;
		set->counts.cooling += !beyond;
		t->left_out++;
		return;
	}
	set->counts.hits++;
	t->hits++;
	set->last_ns = ns;
	if (t->kind == KIND_CRASH)
		set->last_crash_ns = ns;
	set->pending = true;
	set->hit = (struct trigger_hit){ .expr = t->expr, .ns = ns, .tgid = tgid };
	n = snprintf(set->hit.reason, TRIGGER_REASON_MAX, "%.60s: ", t->expr);
	va_start(ap, fmt);
	vsnprintf(set->hit.reason + n, TRIGGER_REASON_MAX - (size_t)n, fmt, ap);
	va_end(ap);
}

/* The hit to report, once; NULL: none. */
static const struct trigger_hit *take_hit(struct trigger_set *set)
{
	bool pending = set->pending;

	set->pending = false;
	return pending ? &set->hit : NULL;
}

static const char *time_text(char buf[TIME_TEXT_MAX], uint64_t ns)
{
	if (ns < 1000000)
		snprintf(buf, TIME_TEXT_MAX, "%.1f us", (double)ns / 1e3);
	else if (ns < 10 * NSEC_PER_SEC)
		snprintf(buf, TIME_TEXT_MAX, "%.1f ms", (double)ns / 1e6);
	else
		snprintf(buf, TIME_TEXT_MAX, "%.2f s", (double)ns / 1e9);
	return buf;
}

static bool trigger_is_wanted(const struct trigger_set *set, enum trigger_kind kind)
{
	for (size_t i = 0; i < set->n; i++) {
		if (set->list[i].kind == kind)
			return true;
	}
	return false;
}

/* The first trigger of a kind whose limit is exceeded; NULL: none. */
static struct trigger *trigger_find_exceeded(struct trigger_set *set, enum trigger_kind kind, uint64_t ns, bool judged)
{
	struct trigger *past = NULL;

	for (size_t i = 0; i < set->n; i++) {
		struct trigger *t = &set->list[i];

		if (t->kind != kind)
			continue;
		t->judged += judged;
		if (!past && ns > t->limit)
			past = t;
	}
	return past;
}

/* ---- parsing ---- */

static const struct {
	const char *name, *phase, *example;
	enum trigger_kind kind;
} events[] = {
	{ "step", NULL, "step>150ms", KIND_STEP },
	{ "decode", "decode", "decode>150ms", KIND_STEP },
	{ "prefill", "prefill", "prefill>2s", KIND_STEP },
	{ "gap", NULL, "gap>50ms", KIND_GAP },
	{ "gpu_idle", NULL, "gpu_idle>5ms", KIND_GPU_IDLE },
	{ "ttft", NULL, "ttft>2s", KIND_TTFT },
	{ "request_ttft", NULL, "request_ttft>2s", KIND_REQUEST_TTFT },
	{ "request_tpot", NULL, "request_tpot>100ms", KIND_REQUEST_TPOT },
	{ "queue", NULL, "queue>1s", KIND_QUEUE },
	{ "rate", NULL, "rate<10", KIND_RATE },
	{ "lost", NULL, "lost>0", KIND_LOST },
	{ "exit", NULL, "exit", KIND_EXIT },
	{ "crash", NULL, "crash", KIND_CRASH },
};

#define N_EVENTS (sizeof(events) / sizeof(events[0]))
#define NAMES_MAX (N_EVENTS + ST_MAX + 1)

static const char blocked[] = "blocked"; /* the sum of the states whose names begin with it */

static int report_unknown_name(const char *name)
{
	const char *names[NAMES_MAX], *nearest;
	size_t n = 0, len = 0;
	char list[512] = "";

	for (size_t i = 0; i < N_EVENTS; i++)
		names[n++] = events[i].name;
	names[n++] = blocked;
	for (int i = 0; i < ST_MAX; i++)
		names[n++] = time_state_name((enum time_state)i);
	for (size_t i = 0; i < n; i++) {
		bool again = i && !strncmp(names[i - 1], "blocked_", 8) && !strncmp(names[i], "blocked_", 8);

		len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%s", i ? ", " : "", names[i] + (again ? strlen(blocked) : 0));
	}
	nearest = nearest_name(name, names, n);
	return log_fail(-EINVAL, "--trigger: '%.40s' is not known%s%s; there are %s", name,
		nearest ? "; nearest: " : "", nearest ? nearest : "", list);
}

static bool find_states(const char *name, uint32_t *ret_states)
{
	uint32_t states = 0;

	for (int i = 0; i < ST_MAX; i++) {
		const char *state = time_state_name((enum time_state)i);

		if (!strcmp(name, blocked) ? !strncmp(state, "blocked_", 8) : !strcmp(name, state))
			states |= 1u << i;
	}
	*ret_states = states;
	return states;
}

static int parse_limit(struct trigger *t, const char *name, const char *text)
{
	char option[40], buf[PARSE_ERROR_MAX];
	enum parse_kind kind = t->kind == KIND_LOST ? PARSE_U32 : PARSE_DURATION;
	uint32_t n = 0;
	int err;

	if (kind == PARSE_U32) {
		err = parse_u32(text, &n);
		t->limit = n;
	} else {
		err = parse_duration(text, &t->limit); /* a rate, a plain decimal number, has the form of a number of seconds */
	}
	if (t->kind == KIND_RATE && (err || !t->limit || text[strspn(text, "0123456789.")]))
		return log_fail(-EINVAL, "--trigger: rate: '%.40s' is not a number of tokens per second above 0; write rate<10 or rate<0.5", text);
	if (!err)
		return 0;
	snprintf(option, sizeof(option), "--trigger: %s", name);
	return log_fail(-EINVAL, "%s", parse_error(buf, kind, option, text, err));
}

/* `name` is what precedes the operator in `text`. */
static int parse_expr(struct trigger *t, const char *name, const char *text)
{
	const char *op = text + strlen(name), *example = NULL;
	char state_example[40], wanted;

	if (find_states(name, &t->states)) {
		t->kind = KIND_STATE;
		snprintf(state_example, sizeof(state_example), "%s>50ms", name);
		example = state_example;
	}
	for (size_t i = 0; i < N_EVENTS && !example; i++) {
		if (strcmp(name, events[i].name))
			continue;
		t->kind = events[i].kind;
		t->phase = events[i].phase;
		example = events[i].example;
	}
	if (!example)
		return report_unknown_name(name);
	wanted = example[strlen(name)];
	if (*op != wanted || (wanted && op[1] == '='))
		return log_fail(-EINVAL, "--trigger: '%.40s' does not have the form of %s", text, example);
	return wanted ? parse_limit(t, name, op + 1) : 0;
}

int trigger_parse(struct trigger_set **set, const char *text)
{
	struct trigger t = { 0 };
	char *name;
	int err;

	if (*set && (*set)->n == TRIGGERS_MAX)
		return log_fail(-EINVAL, "--trigger: more than %d expressions", TRIGGERS_MAX);
	name = xstrndup(text, strcspn(text, "<>=!"));
	err = parse_expr(&t, name, text);
	free(name);
	if (err)
		return err;
	t.expr = xstrdup(text);
	*set = *set ? *set : xcalloc(1, sizeof(**set));
	(*set)->list[(*set)->n++] = t;
	return 0;
}

/* ---- requests, in a batch with others or alone ---- */

/* Messages name a request by its sequence, since request numbers belong to a file and start again in each dump. */

static void trigger_remove_waiting(struct trigger_set *set, size_t i)
{
	set->n_no_token--;
	memmove(&set->no_token[i], &set->no_token[i + 1], (set->n_no_token - i) * sizeof(set->no_token[i]));
}

static void trigger_begin(struct step_request *r, const struct step_seen *s, void *arg)
{
	struct trigger_set *set = arg;

	(void)s;
	if (set->queue)
		queue_watch_begin(set->queue, r);
	if (!trigger_is_wanted(set, KIND_REQUEST_TTFT))
		return;
	/* another request has begun in its place */
	for (size_t i = set->n_no_token; i-- > 0;) {
		const struct no_token *n = &set->no_token[i];

		if (n->tgid == r->tgid && n->context == r->context && n->sequence == r->sequence)
			trigger_remove_waiting(set, i);
	}
	if (r->began_before)
		return;
	if (set->n_no_token == NO_TOKEN_MAX)
		trigger_remove_waiting(set, 0);
	set->no_token[set->n_no_token++] = (struct no_token){
		.from = r->start,
		.context = r->context,
		.sequence = r->sequence,
		.serial = r->serial,
		.tgid = r->tgid,
	};
}

/* A prefill step ends with the first token, or before it: a time beyond the limit stays beyond it. */
static void trigger_part(struct step_request *r, const struct step_seen *s, const struct request_part *p, void *arg)
{
	char spent[TIME_TEXT_MAX];
	struct trigger *t;

	if (!p->prompt || r->mixed || r->began_before || r->lost)
		return;
	t = trigger_find_exceeded(arg, KIND_TTFT, s->end - r->start, true);
	if (!t || r->marked)
		return;
	r->marked = true;
	report(arg, t, s->end, s->tgid, "a request of pid %u, from its first prefill step to the end of step %u: %s",
		s->tgid, s->number, time_text(spent, s->end - r->start));
}

/* Removes a request from those without a token. Returns false if it is not among them. */
static bool trigger_take_waiting(struct trigger_set *set, const struct step_request *r, struct no_token *ret)
{
	for (size_t i = 0; i < set->n_no_token; i++) {
		if (set->no_token[i].serial != r->serial)
			continue;
		*ret = set->no_token[i];
		trigger_remove_waiting(set, i);
		return true;
	}
	return false;
}

static void trigger_mixed(struct step_request *r, void *arg)
{
	struct no_token none;

	trigger_take_waiting(arg, r, &none);
}

static void trigger_first(struct step_request *r, void *arg)
{
	struct trigger_set *set = arg;
	char spent[TIME_TEXT_MAX];
	struct no_token waited;
	struct trigger_sequence *queued;
	struct trigger *t;
	uint64_t ns;

	queued = set->queue ? queue_find_sequence(set->queue, r) : NULL;
	if (queued)
		queued->s.first = r->first_output;
	if (!trigger_take_waiting(set, r, &waited) || r->lost)
		return;
	ns = r->first_output - waited.from;
	t = trigger_find_exceeded(set, KIND_REQUEST_TTFT, ns, true);
	if (!waited.told)
		report(set, t, r->first_output, r->tgid,
			"the request of sequence %" PRIu64 " of pid %u had its first token after %s, in step %u",
			r->sequence, r->tgid, time_text(spent, ns), r->prefill_step);
}

static void judge_rate(struct trigger_set *set, const struct step_seen *s)
{
	struct rate rate = {};
	char spent[TIME_TEXT_MAX];
	bool whole = rates_step(&set->rates, s, &rate);

	for (size_t i = 0; i < set->n; i++) {
		struct trigger *t = &set->list[i];

		if (t->kind != KIND_RATE)
			continue;
		t->judged += s->phase != PHASE_PREFILL;
		if (!whole || !rate_below(&rate, t->limit))
			continue;
		forget_rate(rates_find_process(&set->rates, s->tgid)); /* each second is a reason only once */
		whole = false;
		report(set, t, s->end, s->tgid, "pid %u gave %" PRIu64 " tokens in %s, up to step %u", s->tgid,
			rate.tokens, time_text(spent, rate.ns), s->number);
	}
}

/* Requests that still wait need not have rows in the step. */
static void trigger_step(struct step_request *r, const struct step_seen *s, void *arg)
{
	struct trigger_set *set = arg;
	char spent[TIME_TEXT_MAX];

	(void)r;
	for (size_t i = 0; i < set->n_no_token; i++) {
		struct no_token *n = &set->no_token[i];
		struct trigger *t;

		if (n->told || n->tgid != s->tgid || n->context != s->context || s->end <= n->from)
			continue;
		t = trigger_find_exceeded(set, KIND_REQUEST_TTFT, s->end - n->from, false);
		n->told = t;
		report(set, t, s->end, n->tgid,
			"the request of sequence %" PRIu64 " of pid %u had no token after %s, at the end of step %u",
			n->sequence, n->tgid, time_text(spent, s->end - n->from), s->number);
	}
	if (trigger_is_wanted(set, KIND_RATE))
		judge_rate(set, s);
}

static void trigger_token(struct step_request *r, const struct step_seen *s, uint64_t ns, uint64_t gap, void *arg)
{
	struct trigger *t = r->mixed || r->lost ? NULL : trigger_find_exceeded(arg, KIND_REQUEST_TPOT, ns, true);
	char spent[TIME_TEXT_MAX];

	(void)gap;
	report(arg, t, s->end, r->tgid, "a token of sequence %" PRIu64 " of pid %u took %s, up to the end of step %u",
		r->sequence, r->tgid, time_text(spent, ns), s->number);
}

static void trigger_done(struct step_request *r, void *arg)
{
	struct queue_watch *w = ((struct trigger_set *)arg)->queue;
	struct trigger_sequence *s = queue_find_sequence(w, r);

	if (!s)
		return;
	s->s.open = false;
	s->s.vague |= r->began_before || r->lost || r->mixed;
	s->s.first = r->first_output;
	s->s.last = r->last_end;
	s->s.outputs = step_request_tokens(r);
	queue_watch_set_latest(w, r->last_end);
}

/* Judges the requests that can be joined by now, each once. */
static void judge_queue(struct trigger_set *set)
{
	struct queue_watch *w = set->queue;
	char spent[TIME_TEXT_MAX];

	if (!w->news || !w->n_sockets || w->latest - w->decided < DECIDE_NS)
		return;
	for (size_t i = 0; i < w->n_sequences; i++)
		w->given[i] = w->sequences[i].s;
	join_decide(w->join, w->sockets, w->n_sockets, w->given, w->n_sequences, w->of_sockets, w->of_sequences);
	for (size_t i = w->n_sockets; i-- > 0;) {
		uint64_t from = w->sockets[i].came, ns;
		const struct trigger_sequence *s;

		if (w->of_sockets[i].result != JOIN_DONE)
			continue;
		s = &w->sequences[w->of_sockets[i].with];
		ns = s->s.start > from ? s->s.start - from : 0;
		report(set, trigger_find_exceeded(set, KIND_QUEUE, ns, true), s->s.start, s->s.tgid,
			"a request was queued for %s before it began as sequence %" PRIu64 " of pid %u",
			time_text(spent, ns), s->sequence, s->s.tgid);
	}
	queue_forget_old(w);
	w->decided = w->latest;
	w->news = false;
}

/* ---- steps ---- */

/* Returns whether the step was a hit, reported or not; `done`: it was one already. */
static bool judge_step(struct trigger_set *set, struct trigger *t, const struct rec_step *r, const char *name, bool done)
{
	uint64_t ns = t->kind == KIND_STATE ? 0 : r->h.dur_ns, end = r->h.start_ns + r->h.dur_ns;
	char spent[TIME_TEXT_MAX], total[TIME_TEXT_MAX];
	const char *cut = r->h.flags & REC_F_OPEN_END ? " so far" : "";

	if (t->phase && strcmp(name, t->phase))
		return done;
	for (int i = 0; i < ST_MAX && t->kind == KIND_STATE; i++)
		ns += t->states & 1u << i ? r->ns[i] : 0;
	t->judged++;
	if (done || ns <= t->limit)
		return done;
	time_text(spent, ns);
	time_text(total, r->h.dur_ns);
	if (t->kind == KIND_STATE)
		report(set, t, end, r->h.tgid, "step %u (%.32s) of pid %u was in it for %s of %s%s", r->number, name, r->h.tgid, spent, total, cut);
	else
		report(set, t, end, r->h.tgid, "step %u (%.32s) of pid %u took %s%s", r->number, name, r->h.tgid, total, cut);
	return true;
}

static void trigger_take_step(struct trigger_set *set, const struct rec_step *r)
{
	const char *name;
	bool done = false;

	if (!set->probes || r->h.id >= set->probes->n)
		return;
	name = probe_spec_name(&set->probes->specs[r->h.id], r->vals);
	for (size_t i = 0; i < set->n; i++) {
		struct trigger *t = &set->list[i];

		if (t->kind == KIND_STEP || t->kind == KIND_STATE)
			done = judge_step(set, t, r, name, done);
	}
	if (set->requests)
		step_requests_step(set->requests, r);
}

/* ---- other records ---- */

static void trigger_take_gpu_step(struct trigger_set *set, const struct rec_gpu_step *r)
{
	const struct gpu_gap *gap = &r->gaps[0];
	bool lost = r->h.flags & GPU_STEP_F_LOST;
	struct trigger *t = trigger_find_exceeded(set, KIND_GPU_IDLE, gap->dur_ns, !lost);
	char idle[TIME_TEXT_MAX], gpu[24];

	if (r->n_devices > 1)
		snprintf(gpu, sizeof(gpu), "all %u GPUs", r->n_devices);
	else
		snprintf(gpu, sizeof(gpu), "GPU %u", r->device);
	if (!lost)
		report(set, t, gap->start_ns + gap->dur_ns, r->h.tgid,
			"%s had nothing to do for %s in step %u of pid %u", gpu,
			time_text(idle, gap->dur_ns), r->step, r->h.tgid);
}

/* Of a gap in which nobody asked for anything, most is a wait for the network. */
static void trigger_take_gap(struct trigger_set *set, const struct rec_gap *r)
{
	char spent[TIME_TEXT_MAX], all[TIME_TEXT_MAX], comm[TASK_COMM_LEN + 1] = "", shown[4 * TASK_COMM_LEN];
	const struct gap_segment *most = NULL;
	uint64_t ns = r->h.dur_ns - r->unknown_ns;

	if (r->h.flags & (GAP_F_WITHIN | REC_F_OPEN_START))
		return;
	for (size_t i = r->n_causes; i-- > 0;) {
		if (r->seg[i].state == ST_BLOCKED_POLL || r->seg[i].state == ST_BLOCKED_NET)
			ns -= r->seg[i].dur_ns;
		else
			most = &r->seg[i];
	}
	if (!most)
		return;
	memcpy(comm, most->comm, TASK_COMM_LEN);
	report(set, trigger_find_exceeded(set, KIND_GAP, ns, true), r->h.start_ns + r->h.dur_ns, r->h.tgid,
		"step %u of pid %u began %s after the one before it, %s of that %s (%s)", r->step, r->h.tgid, time_text(all, r->h.dur_ns),
		time_text(spent, most->dur_ns), text_printable(shown, sizeof(shown), comm), time_state_name((enum time_state)most->state));
}

static void trigger_take_request(struct trigger_set *set, const struct rec_request *r)
{
	uint64_t answer = r->first_chunk_ns || r->h.flags & REQUEST_F_HEADER_ONLY ? r->first_chunk_ns : r->first_byte_ns;
	uint64_t end = answer ? answer : r->h.start_ns + r->h.dur_ns;
	uint64_t ns = end > r->h.start_ns ? end - r->h.start_ns : 0;
	char spent[TIME_TEXT_MAX];

	if (set->queue)
		queue_watch_socket(set->queue, r);
	report(set, trigger_find_exceeded(set, KIND_TTFT, ns, true), end, r->h.tgid,
		"a request on descriptor %u of pid %u had %s after %s", r->h.id,
		r->h.tgid, answer ? "its first answer" : "no answer", time_text(spent, ns));
}

static void trigger_take_task(struct trigger_set *set, const struct rec_task *r)
{
	int status = (int)r->arg;
	bool killed = WIFSIGNALED(status);
	const char *name = killed ? signal_name(WTERMSIG(status)) : NULL;
	char comm[TASK_COMM_LEN + 1] = "", shown[4 * TASK_COMM_LEN], how[64];
	struct trigger *t = set->list, *end = set->list + set->n;

	while (t < end && t->kind != KIND_EXIT && (t->kind != KIND_CRASH || !killed))
		t++;
	if (t == end || r->h.id != TASK_EXIT || !(r->h.flags & TASK_F_LAST))
		return;
	if (!killed)
		snprintf(how, sizeof(how), "ended with exit code %d", WEXITSTATUS(status));
	else if (name)
		snprintf(how, sizeof(how), "was killed by %s", name);
	else
		snprintf(how, sizeof(how), "was killed by signal %d", WTERMSIG(status));
	memcpy(comm, r->comm, TASK_COMM_LEN);
	report(set, t, r->h.start_ns, r->h.tgid, "process %u (%s) %s%s", r->h.tgid, text_printable(shown, sizeof(shown), comm), how,
		killed && WCOREDUMP(status) ? ", core dumped" : "");
}

const struct trigger_hit *trigger_record(struct trigger_set *set, const struct rec_hdr *h)
{
	if (h->kind == REC_STEP)
		trigger_take_step(set, (const struct rec_step *)h);
	else if (h->kind == REC_FUNCTION && set->requests && h->id < set->probes->n)
		step_requests_call(set->requests, (const struct rec_function *)h);
	else if (h->kind == REC_TASK)
		trigger_take_task(set, (const struct rec_task *)h);
	else if (h->kind == REC_GAP)
		trigger_take_gap(set, (const struct rec_gap *)h);
	else if (h->kind == REC_GPU_STEP)
		trigger_take_gpu_step(set, (const struct rec_gpu_step *)h);
	else if (h->kind == REC_REQUEST)
		trigger_take_request(set, (const struct rec_request *)h);
	return take_hit(set);
}

const struct trigger_hit *trigger_finish(struct trigger_set *set)
{
	for (int i = 0; set->requests && i < SETTLED_ROUNDS; i++)
		step_requests_settled(set->requests);
	if (set->queue) {
		set->queue->decided = 0;
		judge_queue(set);
	}
	return take_hit(set);
}

const struct trigger_hit *trigger_settled(struct trigger_set *set)
{
	if (set->requests)
		step_requests_settled(set->requests);
	if (set->queue)
		judge_queue(set);
	return take_hit(set);
}

void trigger_lost_steps(struct trigger_set *set, uint64_t n)
{
	if (set->requests)
		step_requests_lost(set->requests, n);
	set->n_no_token = 0;
}

const struct trigger_hit *trigger_loss(struct trigger_set *set, uint64_t total_lost, uint64_t now_ns)
{
	uint64_t lost = total_lost - set->lost;
	struct trigger *t = trigger_find_exceeded(set, KIND_LOST, lost, false);

	if (t)
		set->lost = total_lost;
	report(set, t, now_ns, 0, "%" PRIu64 " records were lost", lost);
	return take_hit(set);
}

/* ---- the set ---- */

void trigger_start(struct trigger_set *set, const struct probe_table *probes, uint64_t cooldown_ns, uint32_t max_hits)
{
#define OPS .begin = trigger_begin, .part = trigger_part, .first = trigger_first, .step = trigger_step, .token = trigger_token, .mixed = trigger_mixed
	static const struct step_requests_ops ops = { OPS }, ops_queue = { OPS, .done = trigger_done };
#undef OPS
	bool queue = trigger_is_wanted(set, KIND_QUEUE);

	set->probes = probes;
	set->cooldown_ns = cooldown_ns;
	set->max_hits = max_hits;
	if (queue && !set->queue) {
		set->queue = xcalloc(1, sizeof(*set->queue));
		set->queue->join = join_new();
	}
	for (int kind = KIND_TTFT; kind <= KIND_RATE && !set->requests; kind++) {
		if (trigger_is_wanted(set, kind))
			set->requests = step_requests_new(probes, queue ? &ops_queue : &ops, set);
	}
}

void trigger_summary(const struct trigger_set *set)
{
	for (size_t i = 0; i < set->n; i++) {
		const struct trigger *t = &set->list[i];

		if (t->hits + t->left_out)
			log_info("--trigger %s: %" PRIu64 " hits, %" PRIu64 " more only counted",
				t->expr, t->hits, t->left_out);
		else if (t->kind <= KIND_RATE && !t->judged)
			log_warn("--trigger %s: nothing was seen that it applies to", t->expr);
		else
			log_info("--trigger %s: no hit", t->expr);
	}
}

bool trigger_needs_gpu(const struct trigger_set *set)
{
	return set && trigger_is_wanted(set, KIND_GPU_IDLE);
}

void trigger_free(struct trigger_set *set)
{
	if (!set)
		return;
	for (size_t i = 0; i < set->n; i++)
		free(set->list[i].expr);
	step_requests_free(set->requests);
	rates_free(&set->rates);
	if (set->queue)
		free(set->queue->join);
	free(set->queue);
	free(set);
}
