// SPDX-License-Identifier: BSD-2-Clause
#include "gpu/join.h"

#include <stdlib.h>

#include "gpu/info.h"
#include "util/clock.h"
#include "util/list.h"

/* By how many ns GPU times may contradict call times, beyond the clock uncertainty: while a better call may come, and after that. */
#define SURE_NS 3000
#define SKEW_NS 20000
#define LOOK_MAX 512 /* calls considered for one kernel */
#define MOVE_MIN 1024
#define KEPT_MIN 512                       /* taken calls kept for further activity of theirs */
#define STREAMS_MAX 256                    /* pairs of a handle and a number */
#define CAPTURES_MAX 16                    /* the last ones */
#define WAITS_MAX 32                       /* the last ones, for calls that arrive after them */
#define CAPTURE_MAX_NS (60 * NSEC_PER_SEC) /* the end of a longer capture was lost */

struct join_call {
	struct launch l;
	uint64_t done_ns; /* end of the first wait for it; 0: none was seen */
	bool taken;       /* joined, or launched nothing */
	bool captured;    /* as far as is known */
	bool told;        /* passed to graphs */
	bool has_work;    /* some of its activity has come; AMD only */
};

/* A capture of a stream and of the thread that began it. Both ends may come late, since calls come in any order. */
struct join_capture {
	uint64_t from_ns, to_ns; /* UINT64_MAX: not seen */
	uint64_t stream;
	uint32_t tid;
	uint32_t number;
};

struct wait {
	uint64_t stream, start_ns, end_ns;
	bool one_stream;
};

struct join_pair {
	uint64_t handle;
	uint32_t context, stream;
};

struct gpu_join {
	struct join_call *calls; /* sorted by start */
	size_t n, cap, first;    /* all before `first` are taken */
	struct join_pair streams[STREAMS_MAX];
	size_t n_streams, next_stream;
	struct join_capture captures[CAPTURES_MAX];
	size_t n_captures;
	uint32_t last_capture; /* its number */
	struct gpu_graphs *graphs;
	uint64_t captures_to_ns; /* latest end of the captures */
	struct wait waits[WAITS_MAX];
	size_t next_wait;
	uint32_t context; /* of the last activity; 0: none so far */
	bool many_contexts;
	uint64_t end_ns; /* calls are seen up to then; UINT64_MAX: no limit */
	/* of the last activity, since a graph launch has many */
	uint32_t correlation;
	bool is_known; /* its call was seen */
	struct launch last;
	uint64_t last_done_ns;
	struct join_skew skews[GPU_DEVICES_MAX];
	uint64_t joined, missed;
};

struct gpu_join *gpu_join_new(struct gpu_graphs *graphs)
{
	struct gpu_join *j = xcalloc(1, sizeof(*j));

	j->graphs = graphs;
	j->end_ns = UINT64_MAX;
	return j;
}

void gpu_join_free(struct gpu_join *j)
{
	if (j)
		free(j->calls);
	free(j);
}

/* ---- captures ---- */

static bool is_captured_by(const struct join_capture *c, const struct launch *l)
{
	if (l->start_ns < c->from_ns || l->start_ns >= c->to_ns || l->start_ns > c->from_ns + CAPTURE_MAX_NS)
		return false;
	return l->tid == c->tid || (l->has_stream && l->stream == c->stream);
}

static void mark_captured(const struct gpu_join *j, struct join_call *call)
{
	call->captured = false;
	for (size_t i = 0; i < j->n_captures; i++) {
		const struct join_capture *c = &j->captures[i];

		if (!is_captured_by(c, &call->l))
			continue;
		call->captured = true;
		call->taken |= c->to_ns != UINT64_MAX;
		if (!call->told)
			gpu_graphs_captured(j->graphs, c->number, &call->l);
		call->told = true;
	}
}

/* Whether all activity of the call was over at the end of the wait. */
static bool is_waited_for(const struct join_call *c, const struct wait *w)
{
	return c->l.end_ns <= w->start_ns && (!w->one_stream || (c->l.has_stream && c->l.stream == w->stream));
}

static struct join_call make_call(const struct gpu_join *j, const struct launch *l)
{
	struct join_call call = { .l = *l };

	if (l->start_ns < j->captures_to_ns)
		mark_captured(j, &call);
	for (size_t i = 0; i < WAITS_MAX; i++) {
		const struct wait *w = &j->waits[i];

		if (is_waited_for(&call, w) && (!call.done_ns || w->end_ns < call.done_ns))
			call.done_ns = w->end_ns;
	}
	return call;
}

/* Returns the capture whose other end this call is; NULL: not seen yet. */
static struct join_capture *join_find_capture(struct gpu_join *j, const struct launch *l)
{
	bool is_end = l->kind == LAUNCH_CAPTURE_END;
	struct join_capture *best = NULL;

	for (size_t i = 0; i < j->n_captures; i++) {
		struct join_capture *c = &j->captures[i];

		if (c->stream != l->stream)
			continue;
		if (is_end && c->to_ns == UINT64_MAX && c->from_ns <= l->start_ns && (!best || c->from_ns > best->from_ns))
			best = c;
		else if (!is_end && c->from_ns == UINT64_MAX && c->to_ns >= l->start_ns && (!best || c->to_ns < best->to_ns))
			best = c;
	}
	return best;
}

static void note_capture(struct gpu_join *j, const struct launch *l)
{
	struct join_capture *c = join_find_capture(j, l);

	if (!c) {
		if (j->n_captures == CAPTURES_MAX)
			memmove(j->captures, j->captures + 1, --j->n_captures * sizeof(*j->captures));
		c = &j->captures[j->n_captures++];
		*c = (struct join_capture){ UINT64_MAX, UINT64_MAX, l->stream, l->tid, ++j->last_capture };
	}
	if (l->kind == LAUNCH_CAPTURE) {
		c->from_ns = l->start_ns;
		c->tid = l->tid;
	} else {
		c->to_ns = l->start_ns;
	}
	j->captures_to_ns = 0;
	for (size_t i = 0; i < j->n_captures; i++) {
		if (j->captures[i].to_ns > j->captures_to_ns)
			j->captures_to_ns = j->captures[i].to_ns;
	}
	for (size_t i = j->first; i < j->n; i++)
		mark_captured(j, &j->calls[i]);
	if (c->from_ns != UINT64_MAX && c->to_ns != UINT64_MAX)
		gpu_graphs_capture_ended(j->graphs, c->number, c->to_ns);
}

/* ---- calls ---- */

/* Drops taken calls, and the older half if that is not enough. */
static void join_make_room(struct gpu_join *j)
{
	size_t n = 0;

	for (size_t i = 0; i < j->n; i++) {
		if (!j->calls[i].taken)
			j->calls[n++] = j->calls[i];
	}
	j->n = n;
	j->first = 0;
	if (n < JOIN_CALLS_MAX)
		return;
	memmove(j->calls, j->calls + n / 2, (n - n / 2) * sizeof(*j->calls));
	j->n -= n / 2;
}

void gpu_join_call(struct gpu_join *j, const struct launch *l)
{
	size_t i;

	if (l->kind == LAUNCH_CAPTURE || l->kind == LAUNCH_CAPTURE_END) {
		note_capture(j, l);
		return;
	}
	if (j->n == j->cap && j->cap >= JOIN_CALLS_MAX)
		join_make_room(j);
	/* calls mostly arrive in the order of their ends, so the place is near the end of the list */
	for (i = j->n; i && j->calls[i - 1].l.start_ns > l->start_ns; i--) {
		if (launch_is_within(&j->calls[i - 1].l, l))
			return; /* the inner call came first */
	}
	if (i && launch_is_within(l, &j->calls[i - 1].l)) {
		j->calls[i - 1] = make_call(j, l);
		return;
	}
	if (i < j->first) /* the new call is the first one not taken */
		j->first = i;
	list_push(j->calls, j->n, j->cap);
	memmove(j->calls + i + 1, j->calls + i, (j->n - 1 - i) * sizeof(*j->calls));
	j->calls[i] = make_call(j, l);
}

void gpu_join_wait(struct gpu_join *j, const uint64_t *stream, uint64_t start_ns, uint64_t end_ns)
{
	const struct wait w = { stream ? *stream : 0, start_ns, end_ns, stream };
	uint64_t noted_ns = 0; /* an earlier wait has covered the calls that ended before */

	if (!stream && j->many_contexts) /* it waited for one device, but which is not known */
		return;
	for (size_t i = 0; i < WAITS_MAX; i++) {
		const struct wait *o = &j->waits[i];

		if (o->end_ns <= end_ns && o->start_ns > noted_ns && (!o->one_stream || (stream && o->stream == *stream)))
			noted_ns = o->start_ns;
	}
	j->waits[j->next_wait] = w;
	j->next_wait = (j->next_wait + 1) % WAITS_MAX;
	for (size_t i = j->n; i-- > j->first && j->calls[i].l.end_ns > noted_ns;) {
		struct join_call *c = &j->calls[i];

		if (!c->taken && is_waited_for(c, &w) && (!c->done_ns || end_ns < c->done_ns))
			c->done_ns = end_ns;
	}
}

static void join_drop_calls(struct gpu_join *j, bool (*is_over)(const struct join_call *c, uint64_t ns), uint64_t ns)
{
	size_t n = 0;

	j->first = 0;
	for (size_t i = 0; i < j->n; i++) {
		if (!j->calls[i].taken && !is_over(&j->calls[i], ns))
			j->calls[n++] = j->calls[i];
	}
	j->n = n;
}

static bool ended_before(const struct join_call *c, uint64_t ns)
{
	return c->l.end_ns <= ns;
}

static bool done_before(const struct join_call *c, uint64_t ns)
{
	return c->done_ns && c->done_ns <= ns;
}

void gpu_join_forget(struct gpu_join *j, uint64_t before_ns)
{
	join_drop_calls(j, ended_before, before_ns);
}

void gpu_join_settle(struct gpu_join *j, uint64_t until_ns)
{
	size_t i = j->first;

	while (i < j->n && (j->calls[i].taken || !done_before(&j->calls[i], until_ns)))
		i++;
	if (i < j->n)
		join_drop_calls(j, done_before, until_ns);
}

size_t gpu_join_pending(const struct gpu_join *j, uint64_t until_ns, struct launch *ret_list, size_t max)
{
	size_t n = 0;

	for (size_t i = j->first; i < j->n && j->calls[i].l.start_ns < until_ns; i++) {
		if (j->calls[i].taken || j->calls[i].captured)
			continue;
		if (n < max)
			ret_list[n] = j->calls[i].l;
		n++;
	}
	return n;
}

/* ---- streams ---- */

enum fit {
	FIT_NOT,
	FIT_MAYBE, /* neither has been seen before */
	FIT_KNOWN,
};

static enum fit fit_streams(const struct gpu_join *j, const struct launch *l, const struct rec_gpu *r)
{
	enum fit fit = FIT_MAYBE;

	if (!l->has_stream)
		return FIT_MAYBE;
	for (size_t i = 0; i < j->n_streams; i++) {
		const struct join_pair *p = &j->streams[i];
		bool same_handle = p->handle == l->stream;
		bool same_stream = p->context == r->context && p->stream == r->stream;

		if (same_handle && same_stream)
			return FIT_KNOWN;
		/* a handle, like the default stream's, may mean another stream in another context */
		if (same_stream || (same_handle && p->context == r->context))
			fit = FIT_NOT;
	}
	return fit;
}

static void learn_stream(struct gpu_join *j, const struct launch *l, const struct rec_gpu *r)
{
	if (!l->has_stream || fit_streams(j, l, r) == FIT_KNOWN)
		return;
	j->streams[j->next_stream] = (struct join_pair){ l->stream, r->context, r->stream };
	j->next_stream = (j->next_stream + 1) % STREAMS_MAX;
	if (j->n_streams < STREAMS_MAX)
		j->n_streams++;
}

/* Handles are reused for new streams. */
static void unlearn_stream(struct gpu_join *j, const struct rec_gpu *r)
{
	for (size_t i = 0; i < j->n_streams; i++) {
		if (j->streams[i].context == r->context && j->streams[i].stream == r->stream)
			j->streams[i--] = j->streams[--j->n_streams];
	}
	j->next_stream = j->n_streams % STREAMS_MAX;
}

/* ---- activity ---- */

static bool call_fits_activity(const struct join_call *c, const struct rec_gpu *r, uint64_t residual_ns)
{
	bool is_graph = r->graph || r->graph_node;
	const struct launch *l = &c->l;

	if (l->start_ns > r->h.start_ns + residual_ns || is_graph != (l->kind == LAUNCH_GRAPH))
		return false;
	if (c->done_ns && c->done_ns + residual_ns < r->h.start_ns)
		return false;
	return is_graph || launch_fits(l, r->h.id == GPU_KERNEL, r->grid, r->block, r->bytes);
}

/*
 * Returns the first call that fits, preferably one whose stream is known to be the same. ret_sure: no call of another stream fits.
 * wait: a missing call may still come.
 */
static struct join_call *join_find_call(struct gpu_join *j, const struct rec_gpu *r, uint64_t residual_ns, bool wait, bool *ret_sure)
{
	struct join_call *maybe = NULL;
	bool refused = false;
	size_t looked = 0;

	*ret_sure = true;
	for (size_t i = j->first; i < j->n && looked < LOOK_MAX; i++) {
		struct join_call *c = &j->calls[i];
		enum fit fit;

		if (c->l.start_ns > r->h.start_ns + residual_ns)
			break;
		looked += !c->taken && !done_before(c, r->h.start_ns - residual_ns);
		if (c->taken || c->captured || !call_fits_activity(c, r, residual_ns))
			continue;
		fit = fit_streams(j, &c->l, r);
		if (fit == FIT_KNOWN)
			return c;
		refused |= fit == FIT_NOT;
		if (fit == FIT_MAYBE && maybe)
			*ret_sure &= maybe->l.stream == c->l.stream;
		else if (fit == FIT_MAYBE)
			maybe = c;
	}
	if (!maybe && refused && !wait)
		unlearn_stream(j, r);
	return maybe;
}

/* Marks a call as taken. whole_stream: also earlier calls on its stream, which runs in order, so nothing of theirs is still to come. */
static void join_take_call(struct gpu_join *j, struct join_call *c, bool whole_stream)
{
	for (struct join_call *o = j->calls + j->first; o < c && whole_stream; o++) {
		if (o->l.has_stream && o->l.stream == c->l.stream)
			o->taken = true;
	}
	c->taken = true;
	while (j->first < j->n && j->calls[j->first].taken)
		j->first++;
	if (j->first < MOVE_MIN || j->first < j->n / 2)
		return;
	j->n -= j->first - KEPT_MIN;
	memmove(j->calls, j->calls + j->first - KEPT_MIN, j->n * sizeof(*j->calls));
	j->first = KEPT_MIN;
}

/* Returns the call of that thread at that time, taken or not, since a copy or a graph may launch several; NULL: it was not seen. */
static struct join_call *find_call_at(struct gpu_join *j, uint32_t tid, uint64_t ns)
{
	size_t i = bisect(j->n, k, j->calls[k].l.start_ns <= ns);

	for (size_t looked = 0; i-- && looked < LOOK_MAX; looked++) {
		struct join_call *c = &j->calls[i];

		if (c->l.tid == tid)
			return c->l.end_ns >= ns && !c->captured ? c : NULL;
	}
	return NULL;
}

/* The CPU may make a copy: then no record of it comes, only of later work on its stream. */
static void pass_copies(struct gpu_join *j, const struct join_call *before)
{
	for (struct join_call *o = j->calls + j->first; o < before; o++) {
		if (o->l.kind == LAUNCH_COPY && o->l.has_stream && before->l.has_stream && o->l.stream == before->l.stream)
			o->taken = true;
	}
}

static bool join_by_thread(struct gpu_join *j, struct rec_gpu *r, uint64_t residual_ns, bool wait)
{
	uint64_t at_ns = r->launch_ns;
	struct join_call *c = NULL;
	bool again = j->is_known && j->last.tid == r->launch_tid && j->last.start_ns <= at_ns && j->last.end_ns >= at_ns;
	bool possible = at_ns <= r->h.start_ns + residual_ns;

	if (!again && possible)
		c = find_call_at(j, r->launch_tid, at_ns);
	if (!again && possible && !c && wait)
		return false;
	if (c) {
		j->last = c->l;
		j->is_known = true;
		r->h.flags |= c->has_work ? 0 : GPU_F_FIRST;
		c->has_work = true;
		pass_copies(j, c);
		join_take_call(j, c, false);
	}
	if (!c && !again) {
		j->missed += r->h.start_ns < j->end_ns;
		r->launch_tid = 0;
		r->launch_ns = 0;
		r->launched_ns = at_ns <= r->h.start_ns ? at_ns : 0;
		return true;
	}
	j->joined++;
	r->launch_tid = j->last.tid;
	r->launch_ns = j->last.start_ns;
	r->launched_ns = j->last.end_ns;
	return true;
}

/* An impossible order shows how far the device's clock is off. */
static void note_skew(struct gpu_join *j, const struct rec_gpu *r)
{
	struct join_skew *s = &j->skews[r->device % GPU_DEVICES_MAX];
	uint64_t end_ns = r->h.start_ns + r->h.dur_ns;

	if (j->last.start_ns > r->h.start_ns && j->last.start_ns - r->h.start_ns > s->early_ns)
		s->early_ns = j->last.start_ns - r->h.start_ns;
	if (j->last_done_ns && end_ns > j->last_done_ns && end_ns - j->last_done_ns > s->late_ns)
		s->late_ns = end_ns - j->last_done_ns;
}

struct join_skew gpu_join_skew(struct gpu_join *j, uint32_t device)
{
	struct join_skew skew = j->skews[device];

	j->skews[device] = (struct join_skew){ 0, 0 };
	return skew;
}

bool gpu_join_activity(struct gpu_join *j, struct rec_gpu *r, uint64_t residual_ns, bool wait)
{
	j->many_contexts |= j->context && r->context != j->context;
	j->context = r->context;
	if (r->launch_tid)
		return join_by_thread(j, r, residual_ns, wait);
	if (!r->correlation || r->correlation != j->correlation) {
		struct join_call *c;
		bool sure;

		c = join_find_call(j, r, residual_ns + (wait ? SURE_NS : SKEW_NS), wait, &sure);
		if (!c && wait)
			return false;
		r->h.flags |= GPU_F_FIRST;
		j->correlation = r->correlation;
		j->is_known = c;
		if (c && sure)
			learn_stream(j, &c->l, r);
		if (c) {
			j->last = c->l;
			j->last_done_ns = c->done_ns;
			join_take_call(j, c, sure && c->l.has_stream);
		}
	}
	j->joined += j->is_known;
	j->missed += !j->is_known && r->h.start_ns < j->end_ns;
	if (!j->is_known)
		return true;
	note_skew(j, r);
	r->launch_tid = j->last.tid;
	r->launch_ns = j->last.start_ns;
	r->launched_ns = j->last.end_ns;
	return true;
}

void gpu_join_end(struct gpu_join *j, uint64_t end_ns)
{
	j->end_ns = end_ns;
}

void gpu_join_counts(const struct gpu_join *j, uint64_t *ret_joined, uint64_t *ret_missed)
{
	*ret_joined = j->joined;
	*ret_missed = j->missed;
}
