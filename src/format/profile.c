// SPDX-License-Identifier: BSD-2-Clause
/* Profile JSONL: the sink, and the lines of a whole recording. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/path_code.h"
#include "format/profile_line.h"
#include "gpu/info.h"
#include "process_sums.h"
#include "schema/left_out.h"
#include "util/host_id.h"
#include "util/names.h"
#include "util/program.h"

#define REASON_MAX 160

/* Marks whose reasons are kept. */
enum reason_of {
	REASON_TRIGGER,
	REASON_OPEN,
	REASON_CLOSE,
	REASONS,
};

static const char *const reason_marks[REASONS] = { "trigger", "window_open", "window_close" };

struct profile_sink {
	struct sink sink;
	struct recording rec;
	struct profile_lines lines;
	struct profile_steps *steps;
	struct profile_ops *ops;
	struct profile_requests *requests;
	struct profile_stacks *stacks;
	struct {
		char text[REASON_MAX]; /* "": there was none */
		uint64_t ns;
	} reasons[REASONS];
	bool graphs; /* some step launched one */
	struct {
		uint32_t n, expired, placed;
		uint64_t ns, ns_max, placed_ns_max;
	} holds;
};

/* ---- families that are written once per process, at the end of the window ---- */

#define CALL_NAME_MAX 32
#define CALL_BYTES (2 * (CALL_NAME_MAX + 8) + FMT_U64_MAX + FMT_US_MAX)
/* More calls than exist. A program can invent numbers: calls that do not fit are left out of the
 * line. */
#define CALLS_MAX (PROFILE_BODY_MAX / CALL_BYTES - 8)

static char *sums_begin(struct profile_sink *ps, const char *event, const struct process_totals *t)
{
	const struct task *task = tasks_find(ps->rec.tasks, t->tgid);
	char *p = profile_line_begin(&ps->lines, event, t->tgid);

	return PUT(PUT_FIRST(p, pid, t->tgid), comm, task ? task->comm : "");
}

static char *add_call_key(char *p, const char *prefix, uint32_t nr)
{
	const char *name = syscall_name(nr);
	char key[CALL_NAME_MAX + 1];

	if (name)
		snprintf(key, sizeof(key), "%s", name);
	else
		snprintf(key, sizeof(key), "%s_%u", nr & SYSCALL_SUM_COMPAT ? "compat" : "syscall", nr & ~SYSCALL_SUM_COMPAT);
	return profile_add_key(p, prefix, key);
}

static void write_syscalls(struct profile_sink *ps, const struct process_totals *t)
{
	size_t n = t->n_calls < CALLS_MAX ? t->n_calls : CALLS_MAX;
	uint64_t calls = 0, ns = 0;
	char *p;

	if (!n)
		return;
	for (size_t i = 0; i < n; i++) {
		calls += t->calls[i].sum.n;
		ns += t->calls[i].sum.ns;
	}
	p = PUT(sums_begin(ps, "syscall_prof", t), calls, calls);
	for (size_t i = 0; i < n; i++)
		p = fmt_u64(add_call_key(p, "n_", t->calls[i].nr), t->calls[i].sum.n);
	p = PUT_TOTAL(p, ns);
	for (size_t i = 0; i < n; i++)
		p = fmt_us(add_call_key(p, "", t->calls[i].nr), t->calls[i].sum.ns);
	profile_line_end(&ps->lines, fmt_lit(p, "}"), ps->graphs);
}

static void write_sums(struct profile_sink *ps, const struct process_totals *t)
{
	const struct process_sums *s = &t->sums;
	uint64_t total = 0;
	char *p;

	write_syscalls(ps, t);
	if (!ps->rec.lacks_faults) {
		p = sums_begin(ps, "fault_prof", t);
		p = PUT(p, n_minor, s->faults_minor);
		p = PUT(p, n_major, s->faults_major);
		p = PUT(p, n_kernel, s->faults_kernel);
		p = PUT_TOTAL(p, s->fault_minor_ns + s->fault_major_ns);
		p = PUT(p, minor, s->fault_minor_ns);
		p = PUT(p, major, s->fault_major_ns);
		profile_line_end(&ps->lines, fmt_lit(p, "}"), ps->graphs);
	}

	for (int i = 0; i < ST_MAX; i++)
		total += s->ns[i];
	p = sums_begin(ps, "sched_prof", t);
	p = PUT(p, switches_voluntary, s->switches_voluntary);
	p = PUT(p, switches_involuntary, s->switches_involuntary);
	p = PUT(p, threads, s->threads);
	p = profile_add_states(PUT_TOTAL(p, total), "", s->ns);
	profile_line_end(&ps->lines, fmt_lit(p, "}"), ps->graphs);

	p = sums_begin(ps, "memory_prof", t);
	if (t->lives)
		p = PUT(p, rss_bytes, t->rss_bytes);
	p = PUT_NONZERO(p, rss_peak_bytes, t->rss_peak_bytes);
	if (t->pages) {
		p = PUT(p, pages_allocated, t->sums.pages_allocated);
		p = PUT(p, pages_freed, t->sums.pages_freed);
	}
	profile_line_end(&ps->lines, fmt_lit(p, PROFILE_STAGES "}"), ps->graphs);
}

/* ---- the sink ---- */

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
	profile_steps_record(ps->steps, rec);
	if (rec->kind == REC_TASK && rec->id == TASK_EXEC)
		profile_lines_exec(&ps->lines, rec->tgid);
	if (rec->kind == REC_HOLD || rec->kind == REC_PLACED)
		count_hold(ps, rec);
	if (rec->kind == REC_GPU)
		profile_ops_gpu(ps->ops, (const struct rec_gpu *)rec);
	if (rec->kind == REC_GPU_STEP) {
		profile_steps_gpu(ps->steps, (const struct rec_gpu_step *)rec);
		profile_ops_gpu_step(ps->ops, (const struct rec_gpu_step *)rec);
		profile_requests_gpu(ps->requests, (const struct rec_gpu_step *)rec);
	}
	if (rec->kind == REC_GAP)
		profile_steps_gap(ps->steps, (const struct rec_gap *)rec);
	if (rec->kind == REC_GAP || rec->kind == REC_SENT)
		profile_requests_gap(ps->requests, (const struct rec_gap *)rec);
	if (rec->kind == REC_STACK) {
		profile_stacks_add(ps->stacks, (const struct rec_stack *)rec);
		if (ps->lines.code)
			path_code_add(ps->lines.code, (const struct rec_stack *)rec);
	}
	if ((rec->kind != REC_STEP && rec->kind != REC_FUNCTION) || rec->id >= ps->rec.probes->n)
		return;
	if (rec->kind == REC_FUNCTION) {
		profile_ops_call(ps->ops, (const struct rec_function *)rec);
		profile_stacks_call(ps->stacks, (const struct rec_function *)rec);
		return;
	}
	ps->graphs |= ((const struct rec_step *)rec)->n.graphs > 0;
	profile_steps_add(ps->steps, (const struct rec_step *)rec);
	profile_requests_step(ps->requests, (const struct rec_step *)rec);
	profile_ops_step(ps->ops, (const struct rec_step *)rec);
	profile_stacks_step(ps->stacks, (const struct rec_step *)rec);
}

static void profile_loss(struct sink *s, const struct loss *l)
{
	/* it is also in the line of each step that it touched, of each request that it may have touched, and in window_prof */
	profile_steps_loss(((struct profile_sink *)s)->steps, l);
}

/* Writes what was found out about a process. */
static void write_finding(struct profile_sink *ps, const struct mark *m)
{
	char *p = profile_line_begin(&ps->lines, "misfit_prof", m->tgid);

	p = PUT_FIRST(p, pid, m->tgid);
	p = PUT(p, ts_us, profile_since(&ps->rec, m->ns));
	p = PUT(p, finding, m->reason);
	profile_line_end(&ps->lines, fmt_lit(p, PROFILE_STAGES "}"), false);
}

static void profile_mark(struct sink *s, const struct mark *m)
{
	struct profile_sink *ps = (struct profile_sink *)s;

	if (m->tgid)
		write_finding(ps, m);
	for (int i = 0; i < REASONS && m->reason; i++) {
		if (strcmp(m->name, reason_marks[i]))
			continue;
		snprintf(ps->reasons[i].text, sizeof(ps->reasons[i].text), "%s", m->reason);
		ps->reasons[i].ns = m->ns;
	}
}

static void profile_settled(struct sink *s)
{
	struct profile_sink *ps = (struct profile_sink *)s;

	profile_steps_settled(ps->steps);
	profile_ops_settled(ps->ops);
	profile_stacks_settled(ps->stacks);
}

static int profile_flush(struct sink *s)
{
	return writer_flush(((struct profile_sink *)s)->lines.w);
}

/* What began in one file may end in the next: each line stands alone, but for the frames of stacks. */
static void profile_rotate(struct sink *s, struct writer *w)
{
	struct profile_sink *ps = (struct profile_sink *)s;

	ps->lines.w = w;
	profile_stacks_rotate(ps->stacks);
}

static uint64_t profile_bytes(const struct sink *s)
{
	return writer_bytes(((const struct profile_sink *)s)->lines.w);
}

/* Adds waits for probes, and probes that were late. */
static char *add_holds(char *p, const struct profile_sink *ps)
{
	if (ps->holds.n) {
		p = PUT(p, holds, ps->holds.n);
		p = PUT(p, holds_expired, ps->holds.expired);
		p = PUT(p, held_us, ps->holds.ns);
		p = PUT(p, held_longest_us, ps->holds.ns_max);
	}
	if (ps->holds.placed) {
		p = PUT(p, probed_late, ps->holds.placed);
		p = PUT(p, probed_late_longest_us, ps->holds.placed_ns_max);
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
	p = profile_fmt_share(PUT_KEY(p, budget), l->budget, 1000000);
	for (int i = 0; i < SHED_PARTS; i++)
		parts |= t->left_out_ns[i] ? 1u << i : 0;
	if (parts)
		p = PUT(p, left_out, shed_text(parts, text));
	for (int i = 0; i < SHED_PARTS; i++) {
		if (!t->left_out_ns[i])
			continue;
		snprintf(text, sizeof(text), "%s_us", shed_part_name(i));
		p = fmt_us(profile_add_key(p, "left_out_", text), t->left_out_ns[i]);
	}
	return p;
}

/* Identifies the devices that were used. */
static char *add_gpu_devices(char *p, const struct gpu_info *info)
{
	for (uint32_t i = 0; info && i < GPU_DEVICES_MAX; i++) {
		const struct gpu_identity *is = gpu_info_is_used(info, i) ? gpu_info_device(info, i) : NULL;

		if (!is)
			continue;
		if (is->name[0])
			p = fmt_json_str(PUT_KEY_N(p, gpu_deviceN_name, i), is->name, strlen(is->name));
		if (is->pci[0])
			p = fmt_json_str(PUT_KEY_N(p, gpu_deviceN_pci, i), is->pci, strlen(is->pci));
		if (is->uuid[0])
			p = fmt_json_str(PUT_KEY_N(p, gpu_deviceN_uuid, i), is->uuid, strlen(is->uuid));
	}
	return p;
}

static void write_window(struct profile_sink *ps, const struct window_totals *t)
{
	uint64_t total = t->close_ns - t->open_ns, records = 0, lost = 0;
	char *p = profile_line_begin(&ps->lines, "window_prof", 0), text[FMT_U64_MAX + 1];

	for (int k = 0; k < REC_KIND_MAX; k++) {
		records += t->records[k];
		lost += t->lost[k];
	}
	if (!ps->lines.windows)
		p = fmt_lit(p, "\"window\":0,");
	p = PUT_FIRST(p, records, records);
	p = PUT(p, lost, lost);
	for (int k = 0; k < REC_KIND_MAX; k++) {
		if (t->lost[k])
			p = fmt_u64(profile_add_key(p, "lost_", rec_kind_name((enum rec_kind)k)), t->lost[k]);
	}
	p = PUT(p, bytes, t->bytes);
	p = PUT(p, steps, t->steps);
	p = PUT(p, version, INFTRACE_VERSION);
	p = PUT_NONZERO(p, command_line, ps->rec.command_line);
	/* as text, since the numbers are beyond what a double holds */
	*fmt_u64(text, ps->rec.start_boot_ns) = 0;
	p = PUT(p, boottime_ns, text);
	*fmt_u64(text, ps->rec.start_real_ns) = 0;
	p = PUT(p, realtime_ns, text);
	if (ps->rec.host)
		p = host_id_fmt(p, ps->rec.host);
	p = profile_fmt_share(PUT_KEY(p, coverage), total > t->lost_ns ? total - t->lost_ns : 0, total);
	if (ps->reasons[REASON_TRIGGER].text[0]) {
		p = PUT(p, trigger, ps->reasons[REASON_TRIGGER].text);
		p = PUT(p, trigger_ts_us, profile_since(&ps->rec, ps->reasons[REASON_TRIGGER].ns));
	}
	if (ps->reasons[REASON_OPEN].text[0])
		p = PUT(p, opened_by, ps->reasons[REASON_OPEN].text);
	if (ps->reasons[REASON_CLOSE].text[0])
		p = PUT(p, closed_by, ps->reasons[REASON_CLOSE].text);
	if (ps->rec.lacks_faults)
		p = PUT(p, not_recorded, "faults");
	p = add_holds(p, ps);
	p = add_left_out(p, ps, t);
	p = add_gpu_devices(p, ps->rec.gpu);
	p = PUT_TOTAL(p, total);
	p = PUT(p, open, t->open_cost_ns);
	p = PUT(p, close, t->close_cost_ns);
	*p++ = '}';
	profile_line_end(&ps->lines, p, ps->graphs);
}

static int profile_close(struct sink *s, const struct window_totals *t)
{
	struct profile_sink *ps = (struct profile_sink *)s;
	int err;

	if (t) {
		profile_steps_finish(ps->steps);
		profile_requests_finish(ps->requests);
		profile_ops_finish(ps->ops);
		profile_stacks_finish(ps->stacks);
	}
	for (size_t i = 0; t && i < t->n_processes; i++)
		write_sums(ps, &t->processes[i]);
	if (t)
		write_window(ps, t);
	err = writer_close(ps->lines.w);
	profile_requests_free(ps->requests);
	profile_steps_free(ps->steps);
	profile_ops_free(ps->ops);
	profile_stacks_free(ps->stacks);
	path_code_free(ps->lines.code);
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

struct sink *profile_sink_new(struct writer *w, const struct recording *rec)
{
	struct profile_sink *ps = xcalloc(1, sizeof(*ps));

	ps->sink.ops = &sink_ops;
	ps->lines.w = w;
	ps->lines.meta = *rec->meta;
	ps->lines.windows = rec->windows;
	ps->lines.window = rec->window;
	ps->lines.tgid = rec->tgid;
	ps->lines.tasks = rec->tasks;
	ps->rec = *rec;
	if (rec->stacks && rec->gaps)
		ps->lines.code = path_code_new(rec->stacks);
	ps->steps = profile_steps_new(&ps->lines, &ps->rec);
	ps->ops = profile_ops_new(&ps->lines, &ps->rec);
	ps->stacks = profile_stacks_new(&ps->lines, &ps->rec, ps->ops);
	ps->requests = profile_requests_new(&ps->lines, &ps->rec, ps->steps);
	return &ps->sink;
}
