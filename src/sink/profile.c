// SPDX-License-Identifier: BSD-2-Clause
/* Profile JSONL: one line per engine step, whose stages add up to its total to the nanosecond. */
#include "sink/profile_line.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/rows.h"
#include "sink/behind.h"
#include "sink/left_out.h"
#include "sink/profile_ops.h"
#include "sink/profile_requests.h"
#include "sink/sink.h"
#include "sink/weight.h"
#include "target/cpu_limit.h"
#include "util/names.h"
#include "util/version.h"

#define REASON_MAX 160

/* Marks of the recording, by their names in window_prof. */
enum reason_of {
	REASON_TRIGGER,
	REASON_OPEN,
	REASON_CLOSE,
	REASONS,
};

static const struct {
	const char *mark, *key, *at;
} reason_names[REASONS] = {
	[REASON_TRIGGER] = { "trigger", ",\"trigger\":", ",\"trigger_ts_us\":" },
	[REASON_OPEN] = { "window_open", ",\"opened_by\":", NULL },
	[REASON_CLOSE] = { "window_close", ",\"closed_by\":", NULL },
};

struct profile_sink {
	struct sink sink;
	struct recording rec;
	struct profile_lines lines;
	struct profile_ops *ops;
	struct profile_requests *requests;
	struct {
		char text[REASON_MAX]; /* "": there was none */
		uint64_t ns;
	} reasons[REASONS];
	struct {
		uint32_t tgid;
		uint64_t as_of, limit;
	} cpu;	     /* last read */
	uint32_t self; /* the recorder */
	bool graphs; /* some step launched one */
	struct {
		uint32_t n, expired, placed;
		uint64_t ns, ns_max, placed_ns_max;
	} holds;
};

/* What held a thread up for longest, and which thread caused it. */
static char *add_stall(char *p, const char *prefix, const struct stall *s)
{
	const char *state = time_state_name((enum time_state)s->state), *by = s->by;

	if (s->state == ST_CPU || s->state >= ST_MAX)
		return p;
	p = profile_add_key(p, prefix, "_state");
	p = fmt_json_str(p, state, strlen(state));
	p = fmt_us(profile_add_key(p, prefix, "_us"), s->dur_ns);
	if (s->state == ST_RUNNABLE && s->flags & STALL_F_UNNAMED)
		return p;
	if (s->state == ST_RUNNABLE && (!s->by_tid || s->flags & STALL_F_THROTTLED))
		by = s->flags & STALL_F_THROTTLED ? "cpu.max" : "idle";
	else if (!s->by_tid)
		return p; /* woken by an interrupt, or it ended in another way */
	p = profile_add_key(p, prefix, "_by");
	p = fmt_json_str(p, by, strnlen(by, sizeof(s->by)));
	p = fmt_u64(profile_add_key(p, prefix, "_by_tid"), s->flags & STALL_F_THROTTLED ? 0 : s->by_tid);
	if (s->state != ST_RUNNABLE && s->late_ns)
		p = fmt_us(profile_add_key(p, prefix, "_late_us"), s->late_ns);
	return p;
}

/* Behind which threads it waited for a CPU, the longest first: keys prefix1_by, ... and prefix_others_us. */
static char *add_behind(
	char *p, const char *prefix, const struct behind_table *table, uint64_t waited_ns)
{
	struct behind_row rows[BEHIND_MAX];
	uint64_t others;
	size_t n = behind_rows(table, waited_ns, rows, &others);
	char key[32];

	for (size_t i = 0; i < n; i++) {
		snprintf(key, sizeof(key), "%s%zu", prefix, i + 1);
		p = profile_add_key(p, key, "_by");
		p = fmt_json_str(p, rows[i].by, strlen(rows[i].by));
		p = fmt_u64(profile_add_key(p, key, "_tid"), rows[i].tid);
		p = fmt_u64(profile_add_key(p, key, "_pid"), rows[i].tgid);
		p = fmt_us(profile_add_key(p, key, "_us"), rows[i].ns);
	}
	return n && others ? fmt_us(profile_add_key(p, prefix, "_others_us"), others) : p;
}

/* Read once a second, since it may change at any time. */
static uint64_t cpu_limit(struct profile_sink *ps, const struct rec_step *r)
{
	uint64_t end = r->h.start_ns + r->h.dur_ns;

	if (ps->cpu.tgid != r->h.tgid || end > ps->cpu.as_of + 1000000000) {
		ps->cpu.tgid = r->h.tgid;
		ps->cpu.as_of = end;
		ps->cpu.limit = cpu_limit_read(r->h.tgid);
	}
	return ps->cpu.limit;
}

static void write_step(struct profile_sink *ps, const struct rec_step *r)
{
	const struct probe_spec *s = &ps->rec.probes->specs[r->h.id];
	char *p = profile_line_begin(&ps->lines, "token_prof", r->h.tgid);
	struct step_rows rows;
	char off[SHED_TEXT_MAX];
	struct weight weight;

	if (!p)
		return;
	p = add_u64(p, "\"step\":", r->number);
	p = add_u64(p, ",\"pid\":", r->h.tgid);
	p = add_u64(p, ",\"tid\":", r->h.tid);
	p = add_string(p, ",\"phase\":", probe_spec_name(s, r->vals));
	p = profile_add_args(p, s, r->vals, NULL);
	if (rows_of_step(s, r->vals, &rows) && rows.readable)
		p = add_u64(p, ",\"rows\":", r->vals[s->row_count - 1]);
	p = add_us(p, ",\"ts_us\":",
		r->h.start_ns > ps->rec.start_boot_ns ? r->h.start_ns - ps->rec.start_boot_ns : 0);
	p = add_u64(p, ",\"switches\":",
		(uint64_t)r->n.switches_voluntary + r->n.switches_involuntary);
	p = add_u64(p, ",\"switches_voluntary\":", r->n.switches_voluntary);
	p = add_u64(p, ",\"migrations\":", r->n.migrations);
	p = add_u64(p, ",\"faults_minor\":", r->n.faults_minor);
	p = add_u64(p, ",\"faults_major\":", r->n.faults_major);
	p = add_u64(p, ",\"syscalls\":", r->n.syscalls);
	p = add_u64(p, ",\"lost\":", r->lost);
	if (r->h.flags & REC_F_OPEN_START)
		p = fmt_lit(p, ",\"began_before\":true");
	if (r->h.flags & REC_F_OPEN_END)
		p = fmt_lit(p, ",\"unfinished\":true");
	if (r->n.cpus_allowed)
		p = add_u64(p, ",\"cpus_allowed\":", r->n.cpus_allowed);
	if (cpu_limit(ps, r))
		p = add_us(p, ",\"cpu_limit\":", ps->cpu.limit); /* in thousandths, too */
	if (r->left_out)
		p = add_string(p, ",\"left_out\":", shed_text(r->left_out, off));
	if (r->workers || !(r->left_out & 1u << SHED_BARRIERS)) /* workers are recognised at barriers */
		p = add_u64(p, ",\"workers\":", r->workers);
	p = add_stall(p, "stall", &r->stall);
	if (r->straggler_tid) {
		p = add_u64(p, ",\"straggler_tid\":", r->straggler_tid);
		p = add_us(p, ",\"straggler_held_us\":", r->held_ns);
		p = add_stall(p, "straggler", &r->straggler);
	}
	p = add_behind(p, "behind", &r->behind, r->ns[ST_RUNNABLE]);
	if (r->workers)
		p = add_behind(p, "workers_behind", &r->workers_behind, r->workers_ns[ST_RUNNABLE]);
	if (weight_of(r, ps->rec.prices, ps->self, &weight)) {
		p = add_us(p, ",\"tracer_us\":", weight.ns);
		p = add_us(p, ",\"tracer_waited_us\":", weight.waited_ns);
	}
	p = add_us(p, PROFILE_STAGES "\"total\":", r->h.dur_ns);
	p = profile_add_states(p, "", r->ns);
	if (r->workers) {
		uint64_t total = 0;

		for (int i = 0; i < ST_MAX; i++)
			total += r->workers_ns[i];
		p = add_us(p, ",\"workers_total\":", total);
		p = profile_add_states(p, "workers_", r->workers_ns);
	}
	*p++ = '}';
	ps->graphs |= r->n.graphs > 0;
	profile_line_end(&ps->lines, p, r->n.graphs > 0);
}

static void count_hold(struct profile_sink *ps, const struct rec_hdr *h)
{
	if (h->kind == REC_PLACED) {
		ps->holds.placed++;
		if (h->dur_ns > ps->holds.placed_ns_max)
			ps->holds.placed_ns_max = h->dur_ns;
		return;
	}
	ps->holds.n++;
	ps->holds.expired += h->id == HOLD_EXPIRED;
	ps->holds.ns += h->dur_ns;
	if (h->dur_ns > ps->holds.ns_max)
		ps->holds.ns_max = h->dur_ns;
}

static void profile_record(struct sink *s, const struct rec_hdr *rec, size_t size)
{
	struct profile_sink *ps = (struct profile_sink *)s;

	(void)size;
	if (rec->kind == REC_HOLD || rec->kind == REC_PLACED)
		count_hold(ps, rec);
	if (rec->kind == REC_REQUEST)
		profile_requests_socket(ps->requests, (const struct rec_request *)rec);
	if ((rec->kind != REC_STEP && rec->kind != REC_FUNCTION) || rec->id >= ps->rec.probes->n)
		return;
	if (rec->kind == REC_FUNCTION) {
		profile_ops_call(ps->ops, (const struct rec_function *)rec);
		profile_requests_call(ps->requests, (const struct rec_function *)rec);
		return;
	}
	write_step(ps, (const struct rec_step *)rec);
	profile_ops_step(ps->ops, (const struct rec_step *)rec);
	profile_requests_step(ps->requests, (const struct rec_step *)rec);
}

static void profile_loss(struct sink *s, const struct loss *l)
{
	/* in the line of each step that it touched, and in window_prof */
	if (l->count[REC_STEP])
		profile_requests_lost(((struct profile_sink *)s)->requests, l->count[REC_STEP]);
}

static void profile_mark(struct sink *s, const struct mark *m)
{
	struct profile_sink *ps = (struct profile_sink *)s;

	for (int i = 0; i < REASONS && m->reason; i++) {
		if (strcmp(m->name, reason_names[i].mark))
			continue;
		snprintf(ps->reasons[i].text, sizeof(ps->reasons[i].text), "%s", m->reason);
		ps->reasons[i].ns = m->ns;
	}
}

static void profile_settled(struct sink *s)
{
	struct profile_sink *ps = (struct profile_sink *)s;

	profile_ops_settled(ps->ops);
	profile_requests_settled(ps->requests);
}

static int profile_flush(struct sink *s)
{
	return writer_flush(((struct profile_sink *)s)->lines.w);
}

/* What began in one file may end in the next: each line stands alone. */
static void profile_rotate(struct sink *s, struct writer *w)
{
	((struct profile_sink *)s)->lines.w = w;
}

static uint64_t profile_bytes(const struct sink *s)
{
	return writer_bytes(((const struct profile_sink *)s)->lines.w);
}

/* A share as a decimal number with six places, without a double. */
static char *fmt_share(char *p, uint64_t part, uint64_t whole)
{
	uint64_t millionths = whole ? (uint64_t)((unsigned __int128)part * 1000000 / whole) : 1000000;

	p = fmt_u64(p, millionths / 1000000);
	*p++ = '.';
	for (uint64_t div = 100000; div; div /= 10)
		*p++ = (char)('0' + millionths / div % 10);
	return p;
}

/* Waits for probes, and probes that were late. */
static char *add_holds(char *p, const struct profile_sink *ps)
{
	if (ps->holds.n) {
		p = add_u64(p, ",\"holds\":", ps->holds.n);
		p = add_u64(p, ",\"holds_expired\":", ps->holds.expired);
		p = add_us(p, ",\"held_us\":", ps->holds.ns);
		p = add_us(p, ",\"held_longest_us\":", ps->holds.ns_max);
	}
	if (ps->holds.placed) {
		p = add_u64(p, ",\"probed_late\":", ps->holds.placed);
		p = add_us(p, ",\"probed_late_longest_us\":", ps->holds.placed_ns_max);
	}
	return p;
}

/* Adds what --budget was, and for how long each part was off. */
static char *add_left_out(char *p, const struct profile_sink *ps, const struct window_totals *t)
{
	const struct left_out *l = ps->rec.left_out;
	char text[SHED_TEXT_MAX];
	uint32_t parts = 0;

	if (!l)
		return p;
	p = fmt_lit(p, ",\"budget\":");
	p = fmt_share(p, l->budget, 1000000);
	for (int i = 0; i < SHED_PARTS; i++)
		parts |= t->left_out_ns[i] ? 1u << i : 0;
	if (parts)
		p = add_string(p, ",\"left_out\":", shed_text(parts, text));
	for (int i = 0; i < SHED_PARTS; i++) {
		if (!t->left_out_ns[i])
			continue;
		snprintf(text, sizeof(text), "%s_us", shed_part_name(i));
		p = fmt_us(profile_add_key(p, "left_out_", text), t->left_out_ns[i]);
	}
	return p;
}

static void write_window(struct profile_sink *ps, const struct window_totals *t)
{
	uint64_t total = t->close_ns - t->open_ns, records = 0, lost = 0;
	char *p = profile_line_begin(&ps->lines, "window_prof", 0);

	if (!p)
		return;
	for (int k = 0; k < REC_KIND_MAX; k++) {
		records += t->records[k];
		lost += t->lost[k];
	}
	if (!ps->lines.windows)
		p = fmt_lit(p, "\"window\":0,");
	p = add_u64(p, "\"records\":", records);
	p = add_u64(p, ",\"lost\":", lost);
	for (int k = 0; k < REC_KIND_MAX; k++) {
		if (!t->lost[k])
			continue;
		p = fmt_lit(p, ",\"lost_");
		p = fmt_str(p, rec_kind_name((enum rec_kind)k), strlen(rec_kind_name((enum rec_kind)k)));
		p = fmt_lit(p, "\":");
		p = fmt_u64(p, t->lost[k]);
	}
	p = add_u64(p, ",\"bytes\":", t->bytes);
	p = add_u64(p, ",\"steps\":", t->steps);
	p = add_string(p, ",\"version\":", INFTRACE_VERSION);
	if (ps->rec.command_line)
		p = add_string(p, ",\"command_line\":", ps->rec.command_line);
	p = fmt_lit(p, ",\"coverage\":");
	p = fmt_share(p, total > t->lost_ns ? total - t->lost_ns : 0, total);
	for (int i = 0; i < REASONS; i++) {
		uint64_t at = ps->reasons[i].ns, start = ps->rec.start_boot_ns;

		if (!ps->reasons[i].text[0])
			continue;
		p = add_string(p, reason_names[i].key, ps->reasons[i].text);
		if (reason_names[i].at)
			p = add_us(p, reason_names[i].at, at > start ? at - start : 0);
	}
	p = add_holds(p, ps);
	p = add_left_out(p, ps, t);
	p = add_us(p, PROFILE_STAGES "\"total\":", total);
	p = add_us(p, ",\"open\":", t->open_cost_ns);
	p = add_us(p, ",\"close\":", t->close_cost_ns);
	*p++ = '}';
	profile_line_end(&ps->lines, p, ps->graphs);
}

static void write_sums(struct profile_sink *ps, const struct process_totals *t)
{
	struct task *task = tasks_find(ps->rec.tasks, t->tgid);

	for (size_t i = 0; i < PROFILE_SUMS_FAMILIES; i++) {
		const struct profile_family *f = &profile_sums[i];
		char *p = profile_line_begin(&ps->lines, f->event, t->tgid);

		p = p ? f->format(p, t, task ? task->comm : "") : NULL;
		if (p)
			profile_line_end(&ps->lines, p, ps->graphs);
	}
}

static int profile_close(struct sink *s, const struct window_totals *t)
{
	struct profile_sink *ps = (struct profile_sink *)s;
	int err;

	if (t) {
		profile_requests_finish(ps->requests);
		profile_ops_finish(ps->ops, ps->graphs);
	}
	for (size_t i = 0; t && i < t->n_processes; i++)
		write_sums(ps, &t->processes[i]);
	if (t)
		write_window(ps, t);
	err = writer_close(ps->lines.w);
	profile_requests_free(ps->requests);
	profile_ops_free(ps->ops);
	profile_lines_clear(&ps->lines);
	free(ps);
	return err;
}

static const struct sink_ops sink_ops = {
	.record = profile_record,
	.loss = profile_loss,
	.mark = profile_mark,
	.settled = profile_settled,
	.flush = profile_flush,
	.rotate = profile_rotate,
	.close = profile_close,
	.bytes = profile_bytes,
};

int profile_sink_new(struct writer *w, const struct recording *rec, const struct profile_meta *meta,
	struct sink **ret_sink)
{
	struct profile_sink *ps = calloc(1, sizeof(*ps));

	if (!ps) {
		writer_close(w);
		return -ENOMEM;
	}
	ps->sink.ops = &sink_ops;
	ps->lines.w = w;
	ps->lines.meta = *meta;
	ps->lines.windows = rec->windows;
	ps->lines.window = rec->window;
	ps->lines.tgid = rec->tgid;
	ps->rec = *rec;
	ps->self = (uint32_t)getpid();
	if (profile_ops_new(&ps->lines, &ps->rec, &ps->ops) ||
		profile_requests_new(&ps->lines, &ps->rec, &ps->requests)) {
		profile_close(&ps->sink, NULL);
		return -ENOMEM;
	}
	*ret_sink = &ps->sink;
	return 0;
}
