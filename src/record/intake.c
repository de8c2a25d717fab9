// SPDX-License-Identifier: BSD-2-Clause
#include "record/intake.h"

#include <string.h>

#include "engine/calls.h"
#include "record/gpu.h"
#include "record/hooks.h"
#include "record/limits.h"
#include "record/unwinder.h"
#include "waits/gaps.h"

uint64_t total_of(const uint64_t counts[REC_KIND_MAX])
{
	uint64_t n = 0;

	for (int k = 0; k < REC_KIND_MAX; k++)
		n += counts[k];
	return n;
}

void intake_open(struct intake *in, struct sink *s, struct window_totals *totals, uint64_t now_ns)
{
	in->sink = s;
	in->totals = totals;
	memset(in->dropped_now, 0, sizeof(in->dropped_now));
	in->last_loss_ns = now_ns;
	if (in->step_limit)
		step_limit_reset(in->step_limit);
	if (in->gaps)
		gaps_open(in->gaps, totals->open_ns);
	if (in->hooks)
		hooks_window(in->hooks, totals);
}

void intake_close(struct intake *in)
{
	if (in->hooks)
		hooks_window(in->hooks, NULL);
	in->sink = NULL;
	in->totals = NULL;
}

/* ---- one record ---- */

/* Learns of threads that were born since the control ring was drained, and of the names of those outside the targets: both are in it. */
static void intake_learn_threads(struct intake *in, const struct rec_hdr *h)
{
	uint32_t waker = h->kind == REC_OFF_CPU ? ((const struct rec_off_cpu *)h)->waker_tid : 0;
	struct tasks *tasks = in->c->tasks;

	/* records of one thread come in runs; a slice may be the last one of a thread that has just been renamed */
	if (h->kind != REC_ON_CPU && !waker && h->tid == in->met_tid && h->tgid == in->met_tgid && tasks_changes(tasks) == in->met_changes)
		return;
	if (h->kind == REC_ON_CPU || !tasks_lives(tasks, h->tgid, h->tid) || (waker && !tasks_lives(tasks, 0, waker))) {
		session_drain_control(in->c->session);
	} else {
		in->met_tid = h->tid;
		in->met_tgid = h->tgid;
		in->met_changes = tasks_changes(tasks);
	}
	if (waker && in->keep_names)
		tasks_get_other(tasks, waker);
}

/* Tells of a process to all who keep something of it. */
static void intake_take_news(struct intake *in, const struct rec_hdr *h)
{
	const struct rec_task *r = (const struct rec_task *)h;
	enum process_news news = h->kind == REC_MAPPED ? NEWS_MAPPED : tasks_update(in->c->tasks, r);
	bool ends = news == NEWS_EXEC || news == NEWS_GONE;

	if (news == NEWS_EXEC) /* before its files are looked at */
		metadata_process(in->c->metadata, (pid_t)h->tgid);
	if (in->unwinder && (ends || news == NEWS_MAPPED))
		unwinder_process(in->unwinder, h->tgid, news, h->start_ns);
	if (ends)
		misfits_forget(in->c->misfits, h->tgid);
	follow_record(in->c->follow, h, news);
	if (news == NEWS_FORK)
		probe_table_forked(&in->c->probes, r->ptgid, h->tgid);
	if (news == NEWS_FORK || news == NEWS_EXEC)
		handles_drop(in->c->handles, h->tgid);
}

/* Takes a step, a call, or an operator's node. Returns it as sinks should show it; NULL: not at all. */
static const struct rec_hdr *intake_take_call(struct intake *in, const struct rec_hdr *h, size_t *size)
{
	static struct rec_step_parts step;
	struct probe_spec *s;

	if (h->kind == REC_STEP) {
		memcpy(&step, h, REC_STEP_SIZE(((const struct rec_step *)h)->n_parts));
		gaps_behind(in->gaps, &step.s);
		h = &step.s.h;
	}
	if (h->kind == REC_STEP && in->overhead)
		h = overhead_step(in->overhead, h, *size);
	s = probe_table_get(&in->c->probes, h);
	if (!s)
		return NULL;
	s->records += h->kind != REC_NODE;
	h = calls_take(&in->c->probes, in->c->handles, &in->drafts, s, h, size);
	if (h && in->gpu && h->kind == REC_STEP)
		gpu_step(in->gpu, (const struct rec_step *)h);
	if (h && in->hooks && h->kind == REC_STEP)
		hooks_step(in->hooks, h->tgid);
	if (h && in->gpu && h->kind == REC_FUNCTION)
		gpu_call(in->gpu, s, (const struct rec_function *)h);
	return s->hidden ? NULL : h;
}

static void intake_pass_gap(const struct rec_hdr *h, size_t size, void *arg)
{
	sink_record(((struct intake *)arg)->sink, h, size);
}

/* Passes a record on, unless --max-steps-per-process holds it back or leaves it out. */
static void intake_pass_record(struct intake *in, const struct rec_hdr *h, size_t size)
{
	uint64_t id;

	if (h->kind == REC_STEP && in->gaps)
		gaps_step(in->gaps, (const struct rec_step *)h);
	if (in->step_limit && step_limit_take(in->step_limit, h, size) != STEP_LIMIT_PASS)
		return;
	in->totals->steps += h->kind == REC_STEP && !(h->flags & REC_F_OPEN_START); /* else the previous window counts it */
	sink_record(in->sink, h, size);
	if (h->kind == REC_FUNCTION && in->gaps && sequence_sent(&in->c->probes, (const struct rec_function *)h, &id))
		gaps_sent(in->gaps, h, id, intake_pass_gap, in);
	if (h->kind == REC_STEP && in->gaps) /* a dump that the step is the reason for needs them */
		gaps_waits(in->gaps, (const struct rec_step *)h, intake_pass_gap, in);
}

static bool sample_is_whole(const struct rec_sample *r, size_t size)
{
	return size >= sizeof(*r) && r->kernel_n <= SAMPLE_KERNEL_MAX && r->python_n <= SAMPLE_PYTHON_MAX && r->task <= 1 &&
	       r->stack_bytes <= SAMPLE_STACK_MAX && r->stack_bytes % sizeof(uint64_t) == 0 &&
	       size >= REC_SAMPLE_SIZE(r->kernel_n, r->python_n, r->stack_bytes) + SAMPLE_TASK_SIZE(r);
}

static bool node_is_whole(const struct rec_node *r, size_t size)
{
	return size >= REC_NODE_SIZE(0) && r->n <= NODES_MAX && size >= REC_NODE_SIZE(r->n);
}

static bool step_is_whole(const struct rec_step *r, size_t size)
{
	return size >= REC_STEP_SIZE(0) && r->n_parts <= STEP_PARTS_MAX && size >= REC_STEP_SIZE(r->n_parts);
}

/* Whether a record is as long as its counts say, which its users rely on. */
static bool record_is_whole(const struct rec_hdr *h, size_t size)
{
	switch (h->kind) {
	case REC_SAMPLE:
		return sample_is_whole((const struct rec_sample *)h, size);
	case REC_NODE:
		return node_is_whole((const struct rec_node *)h, size);
	case REC_STEP:
		return step_is_whole((const struct rec_step *)h, size);
	}
	return true;
}

/* A thread came back onto a CPU without the kernel reporting it: its hooks may know of an earlier instant than the programs. */
static const struct rec_hdr *intake_take_off_cpu(const struct hooks *hooks, const struct rec_hdr *h)
{
	static struct rec_off_cpu r;
	uint64_t ran_ns;

	memcpy(&r, h, sizeof(r));
	ran_ns = r.late ? hooks_ran_ns(hooks, &r) : 0;
	if (!ran_ns)
		return h;
	r.h.dur_ns = ran_ns - r.h.start_ns;
	if (r.wake_ns > ran_ns)
		r.wake_ns = r.waker_tid = 0;
	return &r.h;
}

void intake_record(const struct rec_hdr *h, size_t size, void *arg)
{
	struct intake *in = arg;

	if (h->kind >= REC_KIND_MAX || !record_is_whole(h, size))
		return;
	if (in->sink && h->kind != REC_SAMPLE && h->kind != REC_ANSWERED && !(h->kind == REC_TASK && h->id == TASK_STRANGER))
		in->totals->records[h->kind]++;
	if (h->kind != REC_TASK && h->kind != REC_MAPPED)
		intake_learn_threads(in, h);
	switch (h->kind) {
	case REC_TASK:
	case REC_MAPPED:
		intake_take_news(in, h);
		if (h->kind == REC_MAPPED || (h->id == TASK_STRANGER && !in->keep_names)) /* kept for dumps, which learn the names from it again */
			return;
		break;
	case REC_SAMPLE: /* sinks get the REC_STACK made of it */
		if (in->unwinder && in->sink)
			unwinder_sample(in->unwinder, (const struct rec_sample *)h, size);
		return;
	case REC_ANSWERED: /* likewise a REC_SENT */
		if (in->gaps && in->sink)
			gaps_answered(in->gaps, h, intake_pass_gap, in);
		return;
	case REC_OFF_CPU:
		h = in->hooks ? intake_take_off_cpu(in->hooks, h) : h;
		break;
	case REC_NODE:
	case REC_STEP:
	case REC_FUNCTION:
		h = intake_take_call(in, h, &size);
		break;
	}
	if (h && in->sink)
		intake_pass_record(in, h, size);
}

void intake_made(const struct rec_hdr *h, size_t size, void *arg)
{
	struct intake *in = arg;

	bool comes_late = h->kind == REC_GPU || h->kind == REC_GPU_LOAD || h->kind == REC_METRIC; /* perhaps from before the window */

	if (!in->sink || (comes_late && h->start_ns + h->dur_ns < in->totals->open_ns))
		return;
	in->totals->records[h->kind]++;
	intake_pass_record(in, h, size);
}

void intake_finish_stacks(struct intake *in)
{
	if (in->unwinder)
		unwinder_finish(in->unwinder, intake_made, in);
}

void intake_settled(struct intake *in, uint64_t now_ns)
{
	if (in->hooks)
		hooks_drain(in->hooks, false);
	if (in->unwinder) {
		unwinder_collect(in->unwinder, intake_made, in);
		if (!unwinder_settled(in->unwinder))
			return;
	}
	if (in->step_limit)
		in->totals->steps += step_limit_settled(in->step_limit, now_ns, in->sink);
	if (in->gaps)
		gaps_settled(in->gaps, false, intake_pass_gap, in);
	sink_settled(in->sink);
}

void intake_release(struct intake *in)
{
	if (in->hooks)
		hooks_drain(in->hooks, true);
	if (in->step_limit)
		in->totals->steps += step_limit_release(in->step_limit, UINT64_MAX, in->sink);
	if (in->gaps)
		gaps_settled(in->gaps, true, intake_pass_gap, in);
}

/* ---- loss ---- */

void intake_check_loss(struct intake *in, uint64_t now_ns)
{
	struct loss l = { .from_ns = in->last_loss_ns, .to_ns = now_ns };
	uint64_t lost[REC_KIND_MAX], dropped[REC_KIND_MAX] = { 0 };
	bool any = false;

	session_lost(in->c->session, lost);
	sink_dropped(in->sink, dropped);
	if (in->unwinder)
		lost[REC_SAMPLE] += unwinder_dropped(in->unwinder);
	if (in->gpu)
		lost[REC_GPU] += gpu_lost(in->gpu);
	if (in->hooks)
		lost[REC_FUNCTION] += hooks_lost(in->hooks);
	for (int k = 0; k < REC_KIND_MAX; k++) {
		l.count[k] = lost[k] - in->lost[k] + dropped[k] - in->dropped_now[k];
		in->lost[k] = lost[k];
		in->dropped += dropped[k] - in->dropped_now[k];
		in->dropped_now[k] = dropped[k];
		in->totals->lost[k] += l.count[k];
		any |= l.count[k] != 0;
	}
	in->last_loss_ns = now_ns;
	if (!any)
		return;
	in->totals->lost_ns += l.to_ns - l.from_ns;
	sink_loss(in->sink, &l);
}
