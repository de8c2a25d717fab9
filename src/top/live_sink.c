// SPDX-License-Identifier: BSD-2-Clause
#include "top/live_sink.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/check.h"
#include "sink/behind.h"
#include "sink/weight.h"

struct live_sink {
	struct sink sink;
	struct live *live;
	const struct recording *rec;
	live_close_cb close;
	void *arg;
	int err;
};

/* As in the profile: see add_stall() in sink/profile.c. */
static void take_stall(const struct stall *s, struct stall_info *ret, char by[TASK_COMM_LEN])
{
	bool throttled = s->flags & STALL_F_THROTTLED;

	ret->state = STATE_NONE;
	if (s->state == ST_CPU || s->state >= ST_MAX)
		return;
	ret->state = s->state;
	ret->ns = (int64_t)s->dur_ns;
	if (s->state == ST_RUNNABLE && s->flags & STALL_F_UNNAMED)
		return;
	if (s->state == ST_RUNNABLE && (!s->by_tid || throttled)) {
		strcpy(by, throttled ? "cpu.max" : "idle");
	} else if (s->by_tid) {
		memcpy(by, s->by, sizeof(s->by));
		by[TASK_COMM_LEN - 1] = '\0';
	} else {
		return;
	}
	ret->by_tid = s->by_tid;
	if (s->state != ST_RUNNABLE)
		ret->late = s->late_ns;
}

/* An argument of the step's function; 0: it has none with this name. */
static uint64_t find_value(const struct probe_spec *s, const struct rec_step *r, const char *name)
{
	for (unsigned int i = 0; i < s->nargs; i++) {
		if (!strcmp(s->args[i].name, name) && check_shown(s, i, r->vals))
			return r->vals[i];
	}
	return 0;
}

static void take_times(struct step *step, const struct rec_step *r)
{
	for (int i = 0; i < ST_MAX; i++) {
		step->own[i] = (int64_t)r->ns[i];
		step->workers[i] = (int64_t)r->workers_ns[i];
		step->workers_total += step->workers[i];
	}
}

static uint8_t take_behind(struct live_behind *ret, const struct behind_table *table, uint64_t waited_ns)
{
	struct behind_row rows[BEHIND_MAX];
	uint64_t others;
	size_t n = behind_rows(table, waited_ns, rows, &others);

	for (size_t i = 0; i < n; i++) {
		ret[i].row = (struct behind_info){
			.ns = (int64_t)rows[i].ns,
			.tid = rows[i].tid,
			.pid = rows[i].tgid,
			.limit = rows[i].limit,
		};
		memcpy(ret[i].by, rows[i].by, sizeof(ret[i].by));
	}
	return (uint8_t)n;
}

void live_step_from(struct live_step *ret, const struct recording *rec, const struct rec_step *r)
{
	const struct probe_spec *s = &rec->probes->specs[r->h.id];
	uint64_t tokens = find_value(s, r, "n_tokens");
	struct live_step ls = {
		.pid = r->h.tgid,
		.workers = r->workers,
		.step = {
			.ts = r->h.start_ns > rec->start_boot_ns ?
				(int64_t)(r->h.start_ns - rec->start_boot_ns) :
				0,
			.total = (int64_t)r->h.dur_ns,
			.number = r->number,
			.tid = r->h.tid,
			.n_tokens = tokens <= UINT32_MAX ? (uint32_t)tokens : 0,
			.syscalls = r->n.syscalls,
			.faults_minor = r->n.faults_minor,
			.faults_major = r->n.faults_major,
			.lost = r->lost,
			.context = find_value(s, r, "context"),
			.unfinished = r->h.flags & REC_F_OPEN_END,
			.n_workers = r->workers,
			.left_out = r->left_out,
			.cpus_allowed = r->n.cpus_allowed,
			.straggler_tid = r->straggler_tid,
			.straggler.state = STATE_NONE,
		},
	};
	struct weight weight;
	struct task *task = r->straggler_tid ? tasks_find(rec->tasks, r->straggler_tid) : NULL;

	ls.step.began_before = r->h.flags & REC_F_OPEN_START;
	for (unsigned int i = 0; s->row_count && i < ROW_VALUES; i++) {
		if (check_shown(s, s->rows_at + i, r->vals))
			ls.step.rows[i] = r->vals[s->rows_at + i] + 1;
	}
	snprintf(ls.phase, sizeof(ls.phase), "%s", probe_spec_name(s, r->vals));
	take_times(&ls.step, r);
	ls.weighed = weight_of(r, rec->prices, (uint32_t)getpid(), &weight);
	ls.step.tracer = ls.weighed ? (int64_t)weight.ns : -1;
	ls.step.n_behind = take_behind(ls.behind, &r->behind, r->ns[ST_RUNNABLE]);
	if (r->workers)
		ls.step.n_workers_behind = take_behind(
			ls.behind + ls.step.n_behind, &r->workers_behind, r->workers_ns[ST_RUNNABLE]);
	take_stall(&r->stall, &ls.step.stall, ls.by);
	if (r->straggler_tid) {
		ls.step.held = (int64_t)r->held_ns;
		take_stall(&r->straggler, &ls.step.straggler, ls.straggler_by);
	}
	if (task)
		memcpy(ls.straggler_comm, task->comm, sizeof(ls.straggler_comm));
	if (!strcmp(ls.phase, "prefill"))
		ls.live_phase = LIVE_PREFILL;
	else if (!strcmp(ls.phase, "decode"))
		ls.live_phase = LIVE_DECODE;
	*ret = ls;
}

static void live_sink_record(struct sink *s, const struct rec_hdr *rec, size_t size)
{
	struct live_sink *ls = (struct live_sink *)s;
	const struct probe_spec *spec;
	struct live_step step;
	int err = 0;

	if (rec->kind == REC_GPU_LOAD)
		live_gpu(ls->live, rec->id, rec->tgid, (int64_t)(rec->start_ns + rec->dur_ns - ls->rec->start_boot_ns),
			(int64_t)((const struct rec_gpu_load *)rec)->busy_ns);
	if ((rec->kind != REC_STEP && rec->kind != REC_FUNCTION) || rec->id >= ls->rec->probes->n)
		return;
	if (rec->kind == REC_STEP) {
		live_step_from(&step, ls->rec, (const struct rec_step *)rec);
		step.n_parts = step_parts((const struct rec_step *)rec, size, &step.parts);
		step.parts_left = ((const struct rec_step *)rec)->parts_left;
		err = live_step(ls->live, &step);
	} else {
		spec = &ls->rec->probes->specs[rec->id];
		if (spec->role == ROLE_OP)
			err = live_op(ls->live,
				probe_spec_name(spec, ((const struct rec_function *)rec)->vals),
				rec->dur_ns);
	}
	if (err)
		ls->err = err;
}

static void live_sink_loss(struct sink *s, const struct loss *l)
{
	if (l->count[REC_STEP])
		live_lost_steps(((struct live_sink *)s)->live);
	for (int k = 0; k < REC_KIND_MAX; k++)
		live_lost(((struct live_sink *)s)->live, l->count[k]);
}

static void live_sink_settled(struct sink *s)
{
	struct live_sink *ls = (struct live_sink *)s;
	int err = live_settled(ls->live);

	if (err)
		ls->err = err;
}

static int live_sink_flush(struct sink *s)
{
	return ((struct live_sink *)s)->err;
}

static int live_sink_close(struct sink *s, const struct window_totals *t)
{
	struct live_sink *ls = (struct live_sink *)s;
	int err = ls->err;

	ls->close(t, ls->arg);
	free(ls);
	return err;
}

static const struct sink_ops sink_ops = {
	.record = live_sink_record,
	.loss = live_sink_loss,
	.settled = live_sink_settled,
	.flush = live_sink_flush,
	.close = live_sink_close,
};

int live_sink_new(struct live *l, const struct recording *rec, live_close_cb close, void *arg,
	struct sink **ret_sink)
{
	struct live_sink *ls = calloc(1, sizeof(*ls));

	if (!ls)
		return -ENOMEM;
	*ls = (struct live_sink){
		.sink.ops = &sink_ops, .live = l, .rec = rec, .close = close, .arg = arg
	};
	*ret_sink = &ls->sink;
	return 0;
}
