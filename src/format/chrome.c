// SPDX-License-Identifier: BSD-2-Clause
/*
 * Chrome trace JSON, the array form, streamed: opens in Perfetto and chrome://tracing at
 * every moment. Each event is one line, formatted from integers without stdio.
 */
#include <stdlib.h>
#include <time.h>

#include "engine/check.h"
#include "engine/rows.h"
#include "engine/spec.h"
#include "format/chrome.h"
#include "format/flows.h"
#include "format/inputs.h"
#include "format/stack_text.h"
#include "requests/request_feed.h"
#include "schema/left_out.h"
#include "util/bytes.h"
#include "util/clock.h"
#include "util/host_id.h"
#include "util/names.h"
#include "util/program.h"

/*
 * Stacks of waits, each an instant at the beginning of the wait: its slice is written before the stack is known. Samples are
 * left out: the array form has no place for them.
 */
#define REST_MAX (512 + FMT_JSON_STR_MAX(STACK_TEXT_MAX)) /* bytes of an event besides its name and frames */

/* Innermost first. What does not fit is cut at the outer end. */
static char *fmt_stack_frames(char *p, const char *end, const struct stacks *s, uint32_t stack)
{
	char text[STACK_TEXT_MAX];
	const uint32_t *frames;
	unsigned int n = stacks_get(s, stack, &frames);

	for (unsigned int i = 0; i < n; i++) {
		const struct frame *f = stacks_frame(s, frames[i]);
		size_t len = f ? stack_text(f, text) : 0;

		if (!f)
			continue;
		p = fmt_comma(p);
		if (FMT_JSON_STR_MAX(len) > (size_t)(end - p))
			return fmt_lit(p, "\"[cut]\"");
		p = fmt_json_str(p, text, len);
	}
	return p;
}

static void chrome_stack(struct chrome_sink *c, const struct rec_stack *r)
{
	const struct frame *f = c->rec.stacks ? stack_subject(c->rec.stacks, r->stack) : NULL, *waker;
	char text[STACK_TEXT_MAX], *begin, *p;
	struct rec_hdr h = r->h;
	struct place at;

	if (r->h.id != SAMPLE_OFF_CPU || !f || r->state >= ST_MAX)
		return;
	at = chrome_place(c, &h);
	if (h.start_ns < c->rec.start_boot_ns)
		h.start_ns = c->rec.start_boot_ns;
	begin = p = instant_begin(c, &h, &at);
	p = fmt_json_str(p, text, stack_text_name(f, text));
	p = fmt_string(fmt_lit(p, ",\"cat\":\"stack\",\"args\":{\"state\":"), time_state_name((enum time_state)r->state));
	p = fmt_us(fmt_lit(p, ",\"wait_us\":"), r->h.dur_ns);
	waker = c->rec.stacks ? stack_subject(c->rec.stacks, r->waker_stack) : NULL;
	if (waker)
		p = fmt_json_str(fmt_lit(p, ",\"woken_by\":"), text, stack_text_name(waker, text));
	if (r->step)
		p = fmt_u32(fmt_lit(p, ",\"step\":"), r->step - 1);
	p = fmt_lit(p, ",\"stack\":[");
	p = fmt_stack_frames(p, begin + WRITER_EVENT_MAX - REST_MAX, c->rec.stacks, r->stack);
	*p++ = ']';
	args_end(c, p, &at);
}

/* ---- metadata ---- */

/* text NULL: writes the number. */
static void chrome_write_metadata(
	struct chrome_sink *c, const char *what, uint32_t pid, uint32_t tid, const char *key, const char *text, int64_t number)
{
	char *p = fmt_string(fmt_lit(event_begin(c), "{\"ph\":\"M\",\"name\":"), what);

	p = fmt_lit(fmt_track(p, pid, tid), ",\"args\":{");
	p = fmt_lit(fmt_string(p, key), ":");
	p = text ? fmt_string(p, text) : fmt_s64(p, number);
	event_end(c, fmt_lit(p, "}"));
}

void chrome_name_process(struct chrome_sink *c, uint32_t pid, const char *name, int64_t index)
{
	chrome_write_metadata(c, "process_name", pid, 0, "name", name, 0);
	chrome_write_metadata(c, "process_sort_index", pid, 0, "sort_index", NULL, index);
}

void chrome_name_track(struct chrome_sink *c, uint32_t pid, uint32_t tid, const char *name, int64_t index)
{
	chrome_write_metadata(c, "thread_name", pid, tid, "name", name, 0);
	chrome_write_metadata(c, "thread_sort_index", pid, tid, "sort_index", NULL, index);
}

static struct process *process_write_name(struct chrome_sink *c, struct process *pr)
{
	const struct task *t = tasks_get(c->rec.tasks, pr->tgid, pr->tgid);
	const struct container *in;
	char text[CONTAINER_TEXT_MAX];

	if (t->comm[0])
		memcpy(pr->comm, t->comm, TASK_COMM_LEN);
	chrome_write_metadata(c, "process_name", pr->tgid, pr->tgid, "name", pr->comm[0] ? pr->comm : "?", 0);
	in = tasks_container(c->rec.tasks, pr->tgid);
	if (in)
		chrome_write_metadata(c, "process_labels", pr->tgid, pr->tgid, "labels", container_text(in, text), 0);
	chrome_write_metadata(c, "process_sort_index", pr->tgid, pr->tgid, "sort_index", NULL, pr->tgid);
	pr->named = true;
	return pr;
}

static struct process *chrome_get_process(struct chrome_sink *c, uint32_t tgid)
{
	struct process *pr = process_list_get(&c->processes, tgid, c->rec.tasks);

	return pr->named ? pr : process_write_name(c, pr);
}

static void chrome_name_thread(struct chrome_sink *c, uint32_t tgid, uint32_t tid)
{
	struct task *t = tasks_get(c->rec.tasks, tgid, tid);
	struct process *pr;
	const char *name;

	if (t->written & 1u << c->rec.output)
		return;
	pr = chrome_get_process(c, tgid);
	/* this may have made the table grow */
	t = tasks_get(c->rec.tasks, tgid, tid);
	/* a process that is forgotten some time after its exit keeps its name */
	name = !t->comm[0] && tid == tgid ? pr->comm : t->comm;
	if (tid == tgid && strcmp(pr->comm, name)) {
		chrome_write_metadata(c, "process_name", tgid, tgid, "name", name, 0);
		memcpy(pr->comm, name, TASK_COMM_LEN);
	}
	chrome_write_metadata(c, "thread_name", tgid, tid, "name", name[0] ? name : "?", 0);
	t->written |= 1u << c->rec.output;
}

static void name_lane(struct chrome_sink *c, uint32_t tgid, unsigned int lane)
{
	char name[32];

	chrome_get_process(c, tgid);
	*fmt_u32(fmt_lit(name, "worker "), lane) = 0;
	/* after the threads, which have no index: 0 */
	chrome_name_track(c, tgid, TID_WORKERS + lane - 1, name, lane);
}

char *chrome_begin(struct chrome_sink *c, char *p)
{
	static const char end[] = "\n]}\n";

	c->begun = true;
	if (!c->rec.kineto)
		return fmt_lit(p, "[\n");
	writer_set_tail(c->sink.w, end, sizeof(end) - 1);
	p = fmt_u64(fmt_lit(p, "{\"schemaVersion\":1,\"baseTimeNanoseconds\":"), c->rec.start_real_ns);
	return fmt_lit(p, ",\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
}

struct head *chrome_head_fill(struct head *head, uint32_t pid, uint32_t tid)
{
	char *p = head->text;

	_Static_assert(sizeof(",\n{'ph':'X','pid':,'tid':,'ts':") - 1 + 2 * FMT_U32_MAX <= HEAD_LEN,
		"the text has room");
	p = fmt_lit(p, ",\n{\"ph\":\"X\"");
	p = fmt_track(p, pid, tid);
	p = fmt_lit(p, ",\"ts\":");
	head->pid = pid;
	head->tid = tid;
	head->changes = UINT64_MAX; /* none */
	head->len = (uint32_t)(p - head->text);
	return head;
}

char *chrome_quote(struct quoted *q, char *p, const char *name)
{
	char *end = fmt_string(p, name);

	if (end - p <= QUOTED_LEN) {
		q->name = name;
		q->len = (unsigned char)(end - p);
		memcpy(q->text, p, q->len);
	}
	return end;
}

void chrome_time_fill(struct chrome_sink *c, uint64_t high)
{
	c->time.high = high;
	c->time.len = (uint32_t)(fmt_u64(c->time.text, high) - c->time.text);
}

struct place chrome_place(struct chrome_sink *c, const struct rec_hdr *h)
{
	struct head *head;
	unsigned int lane;
	bool new_lane;

	if (c->workers.share && !c->rec.kineto) {
		lane = workers_lane(&c->workers, h, &new_lane);
		if (lane && new_lane)
			name_lane(c, h->tgid, lane);
		if (lane)
			return (struct place){ h->tgid, TID_WORKERS + lane - 1, h->tid };
	}
	head = chrome_head(c, h->tgid, h->tid);
	if (head->changes != tasks_changes(c->rec.tasks)) {
		chrome_name_thread(c, h->tgid, h->tid);
		head->changes = tasks_changes(c->rec.tasks); /* including the changes that the call made */
	}
	return (struct place){ h->tgid, h->tid, 0 };
}

static void chrome_name_cpu(struct chrome_sink *c, uint32_t cpu)
{
	char name[32];

	if (cpu >= CPUS_MAX || c->cpu_named[cpu])
		return;
	if (!memchr(c->cpu_named, 1, sizeof(c->cpu_named)))
		chrome_name_process(c, PID_CPUS, "CPUs", -2);
	c->cpu_named[cpu] = 1;
	*fmt_u32(fmt_lit(name, "CPU "), cpu) = 0;
	chrome_name_track(c, PID_CPUS, cpu, name, cpu);
}

static void clock_instant(struct chrome_sink *c, uint64_t boot, uint64_t mono, uint64_t real)
{
	char *p = fmt_lit(event_begin(c), "{\"ph\":\"i\",\"s\":\"g\",\"name\":\"inftrace_clock\",\"cat\":\"inftrace\"");

	p = fmt_at(c, p, PID_INFTRACE, PID_INFTRACE, boot);
	p = fmt_u64(fmt_lit(p, ",\"args\":{\"boottime_ns\":\""), boot);
	p = fmt_u64(fmt_lit(p, "\",\"monotonic_ns\":\""), mono);
	p = fmt_u64(fmt_lit(p, "\",\"realtime_ns\":\""), real);
	p = fmt_lit(p, "\",\"version\":\"" INFTRACE_VERSION "\"");
	if (c->rec.command_line)
		p = fmt_string(fmt_lit(p, ",\"command_line\":"), c->rec.command_line);
	if (c->rec.host)
		p = host_id_fmt(p, c->rec.host);
	event_end(c, fmt_lit(p, "}"));
}

/* ---- wake-ups ---- */

/* One end of a flow. */
struct flow_end {
	uint32_t pid, tid;
	uint64_t ns;
};

static char *fmt_flow_end(struct chrome_sink *c, char *p, const struct flow_end *at, const char *name, const char *category)
{
	p = fmt_at(c, fmt_u64(p, c->flow_id), at->pid, at->tid, at->ns);
	p = fmt_string(fmt_lit(p, ",\"name\":"), name);
	return fmt_string(fmt_lit(p, ",\"cat\":"), category);
}

static void chrome_write_flow(
	struct chrome_sink *c, const struct flow_end *from, const struct flow_end *to, const char *name, const char *category)
{
	c->flow_id++;
	event_end(c, fmt_flow_end(c, fmt_lit(event_begin(c), "{\"ph\":\"s\",\"id\":"), from, name, category));
	event_end(c, fmt_flow_end(c, fmt_lit(event_begin(c), "{\"ph\":\"f\",\"bp\":\"e\",\"id\":"), to, name, category));
}

void chrome_flow(struct chrome_sink *c, const struct flow *a)
{
	const struct flow_end from = { a->waker_tgid, a->waker_track, a->wake_ns }, to = { a->tgid, a->track, a->end_ns };

	chrome_write_flow(c, &from, &to, a->is_launch ? "ac2g" : "wake-up", a->is_launch ? "ac2g" : "sched");
}

/* Not inline: its register saves would cost every record (20 of 500 instructions of a system call's), and few have flows. */
__attribute__((noinline)) static void write_begun(struct chrome_sink *c, const struct rec_hdr *h, const struct place *at)
{
	struct flow a;

	flows_add_slice(c->flows, h->tid, h->start_ns, at->tid);
	while (flows_take(c->flows, h->tid, h->start_ns, &a)) {
		a.waker_track = at->tid;
		chrome_flow(c, &a);
	}
}

/* A slice was written: writes the flows that begin in it. */
static void write_flows(struct chrome_sink *c, const struct rec_hdr *h, const struct place *at)
{
	if (h->flags & REC_F_WOKE || record_launches(&c->rec, h))
		write_begun(c, h, at);
}

/* From the waker's thread at the wake-up to the woken thread's last nanosecond off the CPU, since a flow must end inside a
 * slice. */
static void make_wakeup_flow(
	struct chrome_sink *c, const struct rec_off_cpu *r, uint32_t waker_tgid, const struct place *at)
{
	struct flow a = {
		.waker_tgid = waker_tgid,
		.waker_tid = r->waker_tid,
		.tgid = r->h.tgid,
		.tid = r->h.tid,
		.track = at->tid,
		.slice_ns = r->waker_slice,
		.wake_ns = r->wake_ns,
		.end_ns = r->h.start_ns + r->h.dur_ns - 1,
	};

	if (a.end_ns < a.wake_ns)
		a.end_ns = a.wake_ns;
	if (flows_add(c->flows, &a))
		chrome_flow(c, &a);
}

/* ---- records ---- */

static char *fmt_syscall_name(char *p, const struct rec_hdr *h)
{
	const struct syscall_quoted *name = h->flags & SYSCALL_F_COMPAT ? NULL : syscall_quoted(h->id);

	if (name) {
		memcpy(p, name->text, sizeof(name->text));
		return p + name->len;
	}
	p = h->flags & SYSCALL_F_COMPAT ? fmt_lit(p, "\"compat_") : fmt_lit(p, "\"syscall_");
	p = fmt_u32(p, h->id);
	return fmt_lit(p, "\"");
}

static void write_syscall(struct chrome_sink *c, const struct rec_syscall *r)
{
	const char *err = r->ret < 0 && r->ret >= -4095 ? errno_name((int)-r->ret) : NULL;
	bool known = !(r->h.flags & SYSCALL_F_COMPAT);
	const char *ipc = ipc_name(&r->h);
	struct place at;
	char *p;

	at = chrome_place(c, &r->h);
	p = span_begin(c, &r->h, at.pid, at.tid);
	if (ipc) {
		p = fmt_lit(fmt_string(p, ipc), ",\"cat\":\"ipc\",\"args\":{\"syscall\":");
		p = fmt_lit(fmt_syscall_name(p, &r->h), ",\"kind\":");
		p = fmt_string(p, ipc_kind_name(&r->h));
		if (!(r->h.flags & REC_F_OPEN_END))
			*p++ = ',';
	} else {
		p = fmt_syscall_name(p, &r->h);
		p = fmt_lit(p, ",\"cat\":\"syscall\",\"args\":{");
	}
	if (r->h.flags & REC_F_OPEN_END) {
		p = fmt_open(p, r->h.flags);
	} else {
		p = fmt_lit(p, "\"ret\":");
		if (err)
			p = fmt_lit(fmt_str(fmt_lit(p, "\""), err, strlen(err)), "\"");
		else if ((uint64_t)r->ret > 0xffffffffull && r->ret > 0) /* addresses, and integers that do not fit a double */
			p = fmt_lit(fmt_hex(fmt_lit(p, "\""), (uint64_t)r->ret), "\"");
		else
			p = fmt_s64(p, r->ret);
		p = fmt_u32(fmt_lit(p, ",\"cpu\":"), r->h.cpu);
		p = fmt_open(p, r->h.flags);
	}
	if (known && syscall_has_fd(r->h.id))
		p = fmt_s64(fmt_lit(p, ",\"fd\":"), (int32_t)r->arg0);
	if (known && r->ret > 0 && syscall_ret_is_bytes(r->h.id))
		p = fmt_s64(fmt_lit(p, ",\"bytes\":"), r->ret);
	if (r->h.flags & SYSCALL_F_BLOCKED && !ipc)
		p = fmt_lit(p, ",\"path\":\"slow\"");
	args_end(c, p, &at);
	write_flows(c, &r->h, &at);
}

static void write_fault(struct chrome_sink *c, const struct rec_fault *r)
{
	struct place at;
	char *p;

	at = chrome_place(c, &r->h);
	p = r->h.flags & FAULT_F_KERNEL ? instant_begin(c, &r->h, &at) : span_begin(c, &r->h, at.pid, at.tid);
	p = r->h.flags & FAULT_F_MAJOR ? fmt_lit(p, "\"page_fault_major\"")
				       : fmt_lit(p, "\"page_fault_minor\"");
	p = fmt_lit(p, ",\"cat\":\"fault\",\"args\":{\"address\":\"");
	p = fmt_lit(fmt_hex(p, r->addr), "\"");
	if (!(r->h.flags & REC_F_OPEN_END))
		p = fmt_u32(fmt_lit(p, ",\"cpu\":"), r->h.cpu);
	if (r->h.flags & FAULT_F_KERNEL)
		p = fmt_lit(p, ",\"kernel\":true");
	p = fmt_open(p, r->h.flags);
	args_end(c, p, &at);
	write_flows(c, &r->h, &at);
}

static void write_off_cpu(struct chrome_sink *c, const struct rec_off_cpu *r)
{
	const char *name = off_cpu_name((enum time_state)r->h.id);
	uint64_t end = r->h.start_ns + r->h.dur_ns;
	bool from_irq = r->h.flags & OFF_CPU_F_WAKER_IRQ || !r->waker_tid;
	struct place at = chrome_place(c, &r->h);
	struct task *waker = NULL;
	char *p;

	if (r->wake_ns && !from_irq)
		waker = tasks_get_other(c->rec.tasks, r->waker_tid);
	p = span_begin(c, &r->h, at.pid, at.tid);
	p = fmt_string(p, name);
	p = fmt_u32(fmt_lit(p, ",\"cat\":\"sched\",\"args\":{\"cpu\":"), r->h.cpu);
	p = fmt_u32(fmt_lit(p, ",\"cpu_before\":"), r->cpu_from);
	if (r->h.flags & OFF_CPU_F_PREEMPT)
		p = fmt_lit(p, ",\"preempted\":true");
	if (r->late)
		p = fmt_lit(p, ",\"end_not_seen\":true");
	if (r->wake_ns)
		p = fmt_us(fmt_lit(p, ",\"run_queue_us\":"), end - off_cpu_runnable_ns(r));
	if (r->wake_ns && from_irq) {
		p = fmt_lit(p, ",\"waker\":\"interrupt\"");
	} else if (r->wake_ns) {
		p = fmt_u32(fmt_lit(p, ",\"waker_tid\":"), r->waker_tid);
		if (waker && waker->comm[0])
			p = fmt_string(fmt_lit(p, ",\"waker\":"), waker->comm);
	}
	p = fmt_open(p, r->h.flags);
	args_end(c, p, &at);
	if (off_cpu_has_flow(r, &c->rec, waker ? waker->tgid : 0))
		make_wakeup_flow(c, r, waker->tgid, &at);
}

static void write_on_cpu(struct chrome_sink *c, const struct rec_on_cpu *r)
{
	struct task *t = tasks_get(c->rec.tasks, r->h.tgid, r->h.tid);
	char *p;

	chrome_name_cpu(c, r->h.cpu);
	p = span_begin(c, &r->h, PID_CPUS, r->h.cpu);
	p = fmt_string(p, t->comm[0] ? t->comm : "?");
	p = fmt_u32(fmt_lit(p, ",\"cat\":\"cpu\",\"args\":{\"pid\":"), r->h.tgid);
	p = fmt_u32(fmt_lit(p, ",\"tid\":"), r->h.tid);
	p = fmt_open(p, r->h.flags);
	*p++ = '}';
	event_end(c, p);
}

static char *fmt_value(struct chrome_sink *c, char *p, const struct probe_arg *a, uint64_t v)
{
	if (a->names && v < a->names->n && a->names->names[v])
		return fmt_name(c, p, a->names->names[v]);
	if (a->is_pointer)
		return fmt_lit(fmt_hex(fmt_lit(p, "\""), v), "\"");
	if (a->is_float)
		return fmt_float(p, v, a->size);
	if (a->is_signed)
		return fmt_s64(p, (int64_t)v);
	return fmt_number(p, v);
}

static char *fmt_args(struct chrome_sink *c, char *p, const struct rec_hdr *h, const uint64_t *vals, const char *strs)
{
	const struct probe_spec *s = &c->rec.probes->specs[h->id];
	uint64_t bytes;

	for (unsigned int i = 0; i < s->nargs; i++) {
		const struct probe_arg *a = &s->args[i];
		const char *str = strs;

		strs += a->is_string ? FUNC_STR_LEN : 0;
		if (!check_shown(s, i, vals) ||
			(s->fetch[i].flags & FETCH_F_LATE && h->flags & REC_F_OPEN_END))
			continue;
		p = fmt_lit(fmt_name(c, fmt_comma(p), a->name), ":");
		if (a->is_string)
			p = fmt_json_str(p, str, strnlen(str, FUNC_STR_LEN));
		else if (a->is_handle && c->rec.handles && (str = handles_get(c->rec.handles, h->tgid, vals[i])))
			p = fmt_string(p, str);
		else
			p = fmt_value(c, p, a, vals[i]);
	}
	if (bytes_of_call(s, vals, &bytes))
		p = fmt_u64(fmt_lit(p, ",\"bytes\":"), bytes);
	if (s->nshapes) { /* as PyTorch's profiler has it */
		p = inputs_write(fmt_lit(fmt_comma(p), "\"Input Dims\":"), &s->tensors, vals, INPUT_SHAPES);
		p = inputs_write(fmt_lit(p, ",\"Input type\":"), &s->tensors, vals, INPUT_PROFILER_TYPES);
	}
	return p;
}

/* An operator as in PyTorch's profiler (Kineto), with its number in an execution trace. */
static char *fmt_kineto_op(struct chrome_sink *c, char *p, const struct rec_function *r)
{
	const struct probe_spec *s = &c->rec.probes->specs[r->h.id];
	uint64_t number = request_feed_number(c->rec.requests);
	size_t len;
	const char *name = operator_name(s->declared, probe_record_name(s, r), &len);

	chrome_kineto_op(c, &r->h, number);
	p = fmt_json_str(p, name, len);
	p = fmt_u64(fmt_lit(p, ",\"cat\":\"cpu_op\",\"args\":{\"External id\":"), number);
	return fmt_u64(fmt_lit(p, ",\"Record function id\":"), number);
}

static void chrome_write_function(struct chrome_sink *c, const struct rec_function *r)
{
	const struct probe_spec *s = probe_table_get(c->rec.probes, &r->h);
	struct place at;
	const uint64_t *counts;
	bool op;
	char *p;

	if (!s)
		return;
	counts = probe_record_counts(s, r);
	at = chrome_place(c, &r->h);
	op = c->rec.kineto && s->role == ROLE_OP;
	if (record_launches(&c->rec, &r->h))
		chrome_kineto_launch(c, &r->h);
	p = s->flags & PROBE_F_INSTANT && !op ? instant_begin(c, &r->h, &at) : span_begin(c, &r->h, at.pid, at.tid);
	if (op) {
		p = fmt_kineto_op(c, p, r);
	} else {
		p = fmt_name(c, p, probe_record_name(s, r));
		p = fmt_lit(p, ",\"cat\":");
		p = fmt_name(c, p, probe_role_name(s->role));
		p = fmt_lit(p, ",\"args\":{");
	}
	p = fmt_args(c, p, &r->h, r->vals, probe_record_strings(s, r));
	if (counts)
		p = counts_fmt(p, &c->rec.counters, counts);
	p = fmt_open(p, r->h.flags);
	args_end(c, p, &at);
	write_flows(c, &r->h, &at);
}

static char *fmt_states(char *p, const uint64_t *ns)
{
	for (int i = 0; i < ST_MAX; i++) {
		if (ns[i])
			p = fmt_us(fmt_lit(fmt_string(fmt_comma(p), time_state_name((enum time_state)i)), ":"), ns[i]);
	}
	return p;
}

/* Adds what the engine's scheduler says of itself. */
static char *fmt_scheduler(char *p, const struct rec_step *r)
{
	char *begin = fmt_lit(p, ",\"scheduler\":{"), *at = begin;

	for (int i = 0; i < SCHEDULER_VALUES; i++) {
		if (r->scheduler[i])
			at = fmt_u32(fmt_lit(fmt_string(fmt_comma(at), scheduler_keys[i]), ":"), r->scheduler[i] - 1);
	}
	return at == begin ? p : fmt_lit(at, "}");
}

static void write_step_span(
	struct chrome_sink *c, const struct rec_step *r, size_t size, const struct place *at, bool own_track)
{
	const struct probe_spec *s = &c->rec.probes->specs[r->h.id];
	char text[PARTS_TEXT_MAX], off[SHED_TEXT_MAX];
	char *p, *before;
	size_t len;

	p = span_begin(c, &r->h, at->pid, at->tid);
	if (c->rec.kineto && !own_track) { /* as PyTorch's profiler marks steps */
		p = fmt_u32(fmt_lit(p, "\"ProfilerStep#"), r->number);
		p = fmt_lit(p, "\",\"cat\":\"user_annotation\",\"args\":{");
	} else {
		p = fmt_name(c, p, probe_spec_name(s, r->vals));
		p = own_track ? fmt_lit(p, ",\"cat\":\"steps\",\"args\":{") : fmt_lit(p, ",\"cat\":\"step\",\"args\":{");
	}
	p = fmt_args(c, p, &r->h, r->vals, r->strs[0]);
	if (r->n_parts > 1 && (len = parts_text(r, size, text)))
		p = fmt_json_str(fmt_lit(fmt_comma(p), "\"batch\":"), text, len);
	p = fmt_u32(fmt_lit(fmt_comma(p), "\"step\":"), r->number);
	if (own_track)
		p = fmt_u32(fmt_lit(p, ",\"thread\":"), r->h.tid);
	p = fmt_scheduler(p, r);
	if (s->stand_in)
		p = fmt_string(fmt_lit(p, ",\"stand_in\":"), s->symbol);
	if (r->h.flags & STEP_F_WATCHED)
		p = fmt_lit(p, ",\"watched\":true");
	if (r->left_out)
		p = fmt_string(fmt_lit(p, ",\"left_out\":"), shed_text(r->left_out, off));
	if (r->left_out & SHED_CHANGED)
		p = fmt_lit(p, ",\"left_out_changed\":true");
	before = fmt_lit(fmt_states(fmt_lit(p, ",\"breakdown_us\":{"), r->ns), "}");
	p = fmt_states(fmt_lit(before, ",\"before_us\":{"), r->before_ns);
	p = p[-1] == '{' ? before : fmt_lit(p, "}");
	if (r->counted == COUNTED)
		p = counts_fmt(p, &c->rec.counters, r->counts);
	if (r->lost)
		p = fmt_u32(fmt_lit(p, ",\"lost_records\":"), r->lost);
	p = fmt_open(p, r->h.flags);
	args_end(c, p, at);
}

/* Returns the tid of the first lane where the span overlaps no other; 0: none is left. Spans come in any order, those of steps
 * in the order of their ends. */
static uint32_t chrome_lane(struct chrome_sink *c, const struct rec_hdr *h, enum lanes kind)
{
	static const struct {
		uint32_t tid, max;
		int64_t order;
		const char *name;
	} kinds[LANES_PATHS] = {
		[LANES_STEPS] = { TID_STEPS, 16, -2, "steps" },
		[LANES_REQUESTS] = { TID_REQUESTS, LANES_MAX, -3, "requests" },
	};
	struct process *pr = chrome_get_process(c, h->tgid);
	uint64_t *end = pr->lane_end[kind];
	uint32_t i = 0;

	while (i < pr->lanes[kind] && end[i] > h->start_ns)
		i++;
	if (i == kinds[kind].max)
		return 0;
	end[i] = h->start_ns + h->dur_ns;
	pr->lanes[kind] += i == pr->lanes[kind];
	if (!bit_is_set(&pr->lanes_named[kind], i)) {
		bit_set(&pr->lanes_named[kind], i);
		chrome_name_track(c, h->tgid, kinds[kind].tid + i, kinds[kind].name, kinds[kind].order);
	}
	return kinds[kind].tid + i;
}

/* ---- what drawn.c describes ---- */

static char *fmt_drawn_arg(char *p, const struct drawn_arg *a)
{
	*p++ = '"';
	p = fmt_str(p, a->name, strlen(a->name));
	switch (a->kind) {
	case DRAWN_NUMBER:
		return fmt_number(fmt_lit(p, "\":"), a->v);
	case DRAWN_POINTER:
		return fmt_lit(fmt_hex(fmt_lit(p, "\":\""), a->v), "\"");
	case DRAWN_TIME:
		return fmt_us(fmt_lit(p, "_us\":"), a->v);
	case DRAWN_TEXT:
	case DRAWN_WORD:
		return fmt_json_str(fmt_lit(p, "\":"), a->text, a->v);
	case DRAWN_FLAG:
		break;
	}
	return fmt_lit(p, "\":true");
}

/* Writes an event from its name to its last argument. */
static char *fmt_drawn(char *p, const struct drawn *d)
{
	p = fmt_string(p, d->name);
	p = fmt_string(fmt_lit(p, ",\"cat\":"), d->category);
	p = fmt_lit(p, ",\"args\":{");
	for (size_t i = 0; i < d->n; i++)
		p = fmt_drawn_arg(fmt_comma(p), &d->args[i]);
	return fmt_open(p, d->flags);
}

void chrome_span(struct chrome_sink *c, const struct rec_hdr *h, uint32_t pid, uint32_t tid, const struct drawn *d)
{
	event_end(c, fmt_lit(fmt_drawn(span_begin(c, h, pid, tid), d), "}"));
}

static void write_instant(struct chrome_sink *c, const struct place *at, const struct drawn *d)
{
	static const char scopes[] = { [DRAWN_INSTANT] = 't', [DRAWN_PROCESS_INSTANT] = 'p', [DRAWN_GLOBAL_INSTANT] = 'g' };
	char *p = fmt_lit(event_begin(c), "{\"ph\":\"i\",\"s\":\"");

	*p++ = scopes[d->as];
	p = fmt_lit(fmt_at(c, fmt_lit(p, "\""), at->pid, at->tid, d->ns), ",\"name\":");
	args_end(c, fmt_drawn(p, d), at);
}

static void write_drawn(struct chrome_sink *c, const struct rec_hdr *h)
{
	struct place at;
	struct drawn d;

	if (!drawn_of(&d, h, &c->irqs))
		return;
	at = chrome_place(c, h);
	if (d.as == DRAWN_SPAN)
		args_end(c, fmt_drawn(span_begin(c, h, at.pid, at.tid), &d), &at);
	else
		write_instant(c, &at, &d);
}

void chrome_counter(
	struct chrome_sink *c, uint32_t pid, uint32_t tid, uint64_t ns, const char *category, const struct drawn_counter *d)
{
	char *p = fmt_at(c, fmt_lit(event_begin(c), "{\"ph\":\"C\""), pid, tid, ns);

	p = fmt_string(fmt_lit(p, ",\"name\":"), d->name);
	p = fmt_string(fmt_lit(p, ",\"cat\":"), category);
	p = fmt_string(fmt_lit(p, ",\"args\":{"), d->unit);
	p = fmt_lit(p, ":");
	event_end(c, fmt_lit(d->real ? fmt_float(p, d->value, sizeof(double)) : fmt_number(p, d->value), "}"));
}

static void chrome_write_memory(struct chrome_sink *c, const struct rec_memory *r)
{
	struct drawn_counter d[MEMORY_COUNTERS];

	chrome_place(c, &r->h);
	drawn_memory(d, r);
	for (size_t i = 0; i < MEMORY_COUNTERS; i++)
		chrome_counter(c, r->h.tgid, r->h.tid, r->h.start_ns, "memory", &d[i]);
}

static void chrome_metric(struct chrome_sink *c, const struct rec_metric *r)
{
	struct drawn_counter d;

	if (!c->metrics_named)
		chrome_name_process(c, METRICS_PID, METRICS_NAME, 0);
	c->metrics_named = true;
	drawn_metric(&d, r);
	chrome_counter(c, METRICS_PID, METRICS_PID, r->h.start_ns, METRICS_NAME, &d);
}

/* ---- what the next step of each context waited for, on tracks of their own ---- */

static void chrome_gap(struct chrome_sink *c, const struct rec_gap *r)
{
	struct process *pr = chrome_get_process(c, r->h.tgid);
	unsigned int i = drawn_gap_track(pr->contexts, &pr->lanes[LANES_PATHS], LANES_MAX, r->context);
	char name[GAP_TRACK_NAME_MAX];
	struct rec_hdr at;
	struct drawn d;

	if (i == LANES_MAX)
		return;
	if (!bit_is_set(&pr->lanes_named[LANES_PATHS], i)) {
		bit_set(&pr->lanes_named[LANES_PATHS], i);
		chrome_name_track(c, r->h.tgid, TID_PATHS + i, drawn_gap_track_name(i, name), -1);
	}
	for (unsigned int nth = 0; nth < drawn_gap_slices(r); nth++) {
		drawn_gap_slice(&d, &c->rec, r, nth, &at);
		chrome_span(c, &at, r->h.tgid, TID_PATHS + i, &d);
	}
}

/* ---- requests on sockets, on a track of their own, and those of batches, in a process of their own ---- */

static void chrome_request(struct chrome_sink *c, const struct rec_request *r)
{
	struct rec_hdr first = r->h;
	struct drawn d;
	uint32_t tid;

	chrome_place(c, &r->h);
	tid = chrome_lane(c, &r->h, LANES_REQUESTS);
	if (!tid)
		return;
	drawn_request(&d, r);
	chrome_span(c, &r->h, r->h.tgid, tid, &d);
	if (!r->first_chunk_ns)
		return;
	first.dur_ns = r->first_chunk_ns - r->h.start_ns;
	event_end(c, fmt_lit(span_begin(c, &first, r->h.tgid, tid), "\"ttft\",\"cat\":\"requests\""));
}

static uint32_t request_row_tid(uint32_t row)
{
	return REQUESTS_PID + 1 + row;
}

static void name_requests(struct chrome_sink *c)
{
	if (!c->requests_named)
		chrome_name_process(c, REQUESTS_PID, REQUESTS_NAME, 0);
	c->requests_named = true;
}

static void name_request_row(struct chrome_sink *c, uint32_t row)
{
	uint32_t *id = request_tracks_row_id(c->requests, row);
	char name[REQUEST_NAME_MAX];
	int64_t rank;

	if (*id)
		return;
	*id = 1;
	name_requests(c);
	request_tracks_row_name(c->requests, row, name, &rank);
	chrome_name_track(c, REQUESTS_PID, request_row_tid(row), name, rank);
}

static void write_request_slice(const struct request_slice *s, void *arg)
{
	name_request_row(arg, s->row);
	chrome_span(arg, &(struct rec_hdr){ .start_ns = s->start, .dur_ns = s->end - s->start }, REQUESTS_PID, request_row_tid(s->row), &s->d);
}

static void write_request_flow(const struct request_flow *a, void *arg)
{
	struct flow_end from = { REQUESTS_PID, request_row_tid(a->from_row), a->from_ns }, to = { REQUESTS_PID, request_row_tid(a->row), a->ns };

	if (a->lane)
		from = (struct flow_end){ a->tgid, a->lane, a->from_ns };
	chrome_write_flow(arg, &from, &to, a->name, "batch");
}

static void write_request_counter(
	uint32_t group, enum request_counter counter, uint64_t ns, uint64_t value, void *arg)
{
	struct chrome_sink *c = arg;
	char name[REQUEST_NAME_MAX];
	const char *unit;

	name_requests(c);
	request_tracks_counter_name(c->requests, group, counter, name, &unit);
	chrome_counter(c, REQUESTS_PID, REQUESTS_PID, ns, "batch", &(struct drawn_counter){ name, unit, value, false });
}

static const struct request_tracks_ops requests_ops = {
	.slice = write_request_slice,
	.flow = write_request_flow,
	.counter = write_request_counter,
};

/* ---- all records, and the file ---- */

static void chrome_write_step(struct chrome_sink *c, const struct rec_step *r, size_t size)
{
	struct place at;

	if (r->h.id >= c->rec.probes->n)
		return;
	at = chrome_place(c, &r->h);
	write_step_span(c, r, size, &at, false);
	write_flows(c, &r->h, &at);
	at = (struct place){ r->h.tgid, chrome_lane(c, &r->h, LANES_STEPS), 0 };
	if (at.tid) /* 0: more steps at once than lanes; then only their threads' tracks have them */
		write_step_span(c, r, size, &at, true);
	request_tracks_step(c->requests, r, at.tid);
}

static void chrome_record(struct sink *s, const struct rec_hdr *rec, size_t size)
{
	struct chrome_sink *c = (struct chrome_sink *)s;

	switch (rec->kind) {
	case REC_SYSCALL:
		write_syscall(c, (const struct rec_syscall *)rec);
		break;
	case REC_OFF_CPU:
		write_off_cpu(c, (const struct rec_off_cpu *)rec);
		break;
	case REC_ON_CPU:
		write_on_cpu(c, (const struct rec_on_cpu *)rec);
		break;
	case REC_FAULT:
		write_fault(c, (const struct rec_fault *)rec);
		break;
	case REC_FUNCTION:
		chrome_write_function(c, (const struct rec_function *)rec);
		break;
	case REC_STEP:
		chrome_write_step(c, (const struct rec_step *)rec, size);
		break;
	case REC_TASK:
		workers_task(&c->workers, (const struct rec_task *)rec);
		write_drawn(c, rec);
		break;
	case REC_IRQ:
	case REC_HOLD:
	case REC_PLACED:
	case REC_MESSAGE:
		write_drawn(c, rec);
		break;
	case REC_REQUEST:
		chrome_request(c, (const struct rec_request *)rec);
		break;
	case REC_MEMORY:
		chrome_write_memory(c, (const struct rec_memory *)rec);
		break;
	case REC_GPU:
		chrome_gpu(c, (const struct rec_gpu *)rec);
		break;
	case REC_GPU_STEP:
		chrome_gpu_step(c, (const struct rec_gpu_step *)rec);
		break;
	case REC_GPU_LOAD:
		chrome_gpu_load(c, (const struct rec_gpu_load *)rec);
		break;
	case REC_GAP:
		if (!(rec->flags & REC_F_OPEN_START)) /* else no step was before it */
			chrome_gap(c, (const struct rec_gap *)rec);
		break;
	case REC_METRIC:
		chrome_metric(c, (const struct rec_metric *)rec);
		break;
	case REC_STACK:
		chrome_stack(c, (const struct rec_stack *)rec);
		break;
	}
}

static void chrome_loss(struct sink *s, const struct loss *l)
{
	struct chrome_sink *c = (struct chrome_sink *)s;
	struct drawn d;

	if (!c->loss_named)
		chrome_write_metadata(c, "thread_name", PID_INFTRACE, PID_INFTRACE, "name", "inftrace", 0);
	c->loss_named = true;
	drawn_loss(&d, l);
	chrome_span(c, &(struct rec_hdr){ .start_ns = l->from_ns, .dur_ns = l->to_ns - l->from_ns }, PID_INFTRACE, PID_INFTRACE, &d);
}

static void chrome_mark(struct sink *s, const struct mark *m)
{
	struct drawn d;

	drawn_mark(&d, m);
	write_instant((struct chrome_sink *)s, &(struct place){ PID_INFTRACE, PID_INFTRACE, 0 }, &d);
}

static void clock_instant_now(struct chrome_sink *c)
{
	struct clock_reading now = clock_read();

	clock_instant(c, now.boot_ns, now.mono_ns, now.real_ns);
}

static void chrome_first_process(struct task *t, void *arg)
{
	struct chrome_sink *c = arg;

	if (!c->rec.tgid || c->rec.tgid == t->tgid)
		chrome_get_process(c, t->tgid);
}

static void chrome_begin_file(struct chrome_sink *c)
{
	tasks_each_process(c->rec.tasks, chrome_first_process, c);
	chrome_name_process(c, PID_INFTRACE, "inftrace", -1);
}

static void chrome_end_file(struct chrome_sink *c)
{
	clock_instant_now(c);
	if (!c->rec.kineto)
		writer_commit(c->sink.w, fmt_lit(writer_reserve(c->sink.w), "\n]\n"));
}

static void chrome_rotate(struct sink *s, struct writer *w)
{
	struct chrome_sink *c = (struct chrome_sink *)s;

	chrome_kineto_held(c, true);
	chrome_end_file(c);
	c->sink.w = w;
	c->begun = c->loss_named = c->requests_named = c->metrics_named = false;
	memset(c->cpu_named, 0, sizeof(c->cpu_named));
	c->gpus_named = 0;
	memset(c->gpu_tracks_named, 0, sizeof(c->gpu_tracks_named));
	for (size_t i = 0; i < c->processes.n; i++) {
		struct process *pr = (struct process *)c->processes.list + i;

		pr->named = false;
		memset(pr->lanes_named, 0, sizeof(pr->lanes_named));
	}
	flows_reset(c->flows);
	request_tracks_rotate(c->requests);
	workers_forget_names(&c->workers);
	tasks_forget_output(c->rec.tasks, c->rec.output, c->rec.tgid);
	chrome_begin_file(c);
	clock_instant_now(c);
}

static void chrome_settled(struct sink *s)
{
	chrome_kineto_held((struct chrome_sink *)s, false);
}

static int chrome_close(struct sink *s, const struct window_totals *t)
{
	struct chrome_sink *c = (struct chrome_sink *)s;
	int err;

	(void)t;
	chrome_kineto_held(c, true);
	request_tracks_finish(c->requests);
	chrome_end_file(c);
	err = writer_close(c->sink.w);
	irq_names_free(c->irqs);
	request_tracks_free(c->requests);
	free(c->flows);
	free(c->launches);
	workers_free(&c->workers);
	free(c->processes.list);
	free(c);
	return err;
}

static const struct sink_ops chrome_ops = {
	.record = chrome_record,
	.loss = chrome_loss,
	.mark = chrome_mark,
	.settled = chrome_settled,
	.rotate = chrome_rotate,
	.close = chrome_close,
};

struct sink *chrome_sink_new(struct writer *w, const struct recording *rec)
{
	struct chrome_sink *c = xcalloc(1, sizeof(*c));

	c->sink.ops = &chrome_ops;
	c->rec = *rec;
	c->flows = flows_new();
	c->requests = request_tracks_new(&c->rec, &requests_ops, c);
	c->processes.size = sizeof(struct process);
	for (size_t i = 0; i < HEADS; i++)
		c->heads[i].pid = UINT32_MAX; /* no process */
	c->sink.w = w;
	chrome_begin_file(c);
	clock_instant(c, rec->start_boot_ns, rec->start_mono_ns, rec->start_real_ns);
	return &c->sink;
}
