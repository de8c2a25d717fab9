// SPDX-License-Identifier: BSD-2-Clause
/* Reads Chrome traces (docs/trace-format.md): the steps with their breakdowns, and sums by name. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "read/trace.h"
#include "report/read.h"
#include "schema/left_out.h"

#define PID_MAX_LIMIT 4194304 /* the kernel's: tids above it are inftrace's own */

struct report_trace_reader {
	struct model *m;
	struct read_problems *problems;
	uint32_t origin;
	uint32_t recording;
	unsigned int state_hint;
};

static struct process *event_process(struct report_trace_reader *r, const struct trace_event *event)
{
	uint32_t pid = 0;

	read_u32(event->pid, &pid);
	return model_process(r->m, pid, r->origin);
}

static uint32_t event_name(struct report_trace_reader *r, const struct trace_event *event)
{
	return model_name(r->m, node_string(event->name));
}

static void step_breakdown(struct report_trace_reader *r, const struct json_node *breakdown, struct step *step)
{
	int64_t ns, sum = 0;
	int state;

	json_for_each (value, breakdown) {
		state = read_state(value->key, &r->state_hint);
		if (state < 0 || !read_us(value, &ns))
			continue;
		step->own[state] = ns;
		sum = ns_add(sum, ns);
	}
	if (sum < step->total)
		step->own[STATE_OTHER] = step->total - sum;
}

/* A number, or a pointer in hex. */
static bool read_u64(const struct json_node *args, const char *key, uint64_t *ret)
{
	const struct json_node *value = node_get(args, key);

	if (node_is(value, JSON_INT))
		*ret = node_u64(value);
	else if (node_is(value, JSON_STRING))
		*ret = strtoull(value->text, NULL, 16);
	else
		return false;
	return true;
}

static void trace_read_step(struct report_trace_reader *r, const struct trace_event *event, int64_t dur)
{
	struct step step = { 0 };
	static const char *const keys[ROW_VALUES] = {
		[ROW_N_OUTPUTS] = "n_outputs",
		[ROW_N_SEQUENCES] = "n_sequences",
		[ROW_ONE_SEQUENCE] = "sequence",
		[ROW_MASK] = "sequences",
		[ROW_FIRST_POSITION] = "position",
		[ROW_READ] = "rows_read",
	};
	const struct json_node *args = event->args, *breakdown = node_get(args, "breakdown_us");
	const char *left_out;

	if (!node_is(breakdown, JSON_OBJECT) || !read_us(event->ts, &step.ts))
		return;
	step.total = dur;
	step.recording = r->recording;
	/* for threads that share a track, the args name the thread (docs/trace-format.md) */
	read_u32(event->tid, &step.tid);
	if (step.tid > PID_MAX_LIMIT)
		read_u32(node_get(args, "tid"), &step.tid);
	read_u32(node_get(args, "step"), &step.number);
	read_u32(node_get(args, "n_tokens"), &step.n_tokens);
	read_u32(node_get(args, "lost_records"), &step.lost);
	read_u64(args, "context", &step.context);
	for (size_t i = 0; i < ROW_VALUES; i++) {
		if (read_u64(args, keys[i], &step.rows[i]))
			step.rows[i]++;
	}
	step.stand_in = node_get(args, "stand_in") != NULL;
	step.watched = node_is(node_get(args, "watched"), JSON_TRUE);
	left_out = node_string(node_get(args, "left_out"));
	step.left_out = left_out ? shed_parts_of(left_out) : 0;
	step.left_out_changed = node_is(node_get(args, "left_out_changed"), JSON_TRUE);
	step.began_before = node_is(node_get(args, "began_before"), JSON_TRUE);
	step.unfinished = node_is(node_get(args, "unfinished"), JSON_TRUE);
	step_breakdown(r, breakdown, &step);
	step.phase = event_name(r, event);
	process_add_step(event_process(r, event), &step);
}

static void trace_read_loss(struct report_trace_reader *r, const struct trace_event *event)
{
	uint32_t count;

	if (!node_is(event->args, JSON_OBJECT))
		return;
	json_for_each (value, event->args) {
		if (!read_u32(value, &count))
			continue;
		tally_add(&r->m->lost, model_name(r->m, value->key), 0, count);
		r->m->lost_records += count;
	}
}

static void trace_read_slice(struct report_trace_reader *r, const struct trace_event *event)
{
	const char *cat = node_string(event->cat) ? event->cat->text : "";
	struct call call = { .recording = r->recording };
	bool op = !strcmp(cat, "op");
	struct process *p;
	int64_t dur, ts;
	uint32_t pid;

	if (!read_us(event->dur, &dur))
		return;
	if (!strcmp(cat, "step")) {
		trace_read_step(r, event, dur);
	} else if (!strcmp(cat, "loss")) {
		trace_read_loss(r, event);
	} else if (!strcmp(cat, "batch") && node_string(event->name) && !strncmp(event->name->text, "request ", 8)) {
		/* requests have a process of their own in the trace; the engine's pid is in the args */
		if (read_us(event->ts, &ts) && read_u32(node_get(event->args, "pid"), &pid))
			read_request_slice(r->m, &model_process(r->m, pid, r->origin)->served, event->args, ts, dur, r->recording);
	} else if (!strcmp(cat, "sample") || !strcmp(cat, "graph")) {
		p = event_process(r, event);
		call.ns = dur;
		if (!read_us(event->ts, &call.ts))
			return;
		call.name = event_name(r, event);
		*list_add(p, calls) = call;
	} else if (op || !strcmp(cat, "syscall") || !strcmp(cat, "ipc")) {
		p = event_process(r, event);
		tally_add(op ? &p->ops : &p->syscalls, event_name(r, event), dur, 1);
	}
}

static int trace_read_event(void *ctx, const struct trace_event *event)
{
	const char *ph = node_string(event->ph), *name = node_string(event->name) ?: "";
	struct report_trace_reader *r = ctx;
	struct process *p;
	uint32_t pid;
	int64_t ts;

	if (!ph)
		return 0;
	if (!strcmp(ph, "X")) {
		trace_read_slice(r, event);
	} else if (!strcmp(ph, "i") && !strcmp(name, "misfit")) {
		/* `number` is the pid */
		if (!read_u32(node_get(event->args, "number"), &pid))
			return 0;
		p = model_process(r->m, pid, r->origin);
		p->finding = model_name(r->m, node_string(node_get(event->args, "reason")));
	} else if (!strcmp(ph, "i") && !strcmp(name, "inftrace_clock")) {
		/* The first reading tells when the recording began, at ts 0, which is not in this file if it is the second of
		 * several. */
		if (!model_clock(r->m, r->recording).known && read_us(event->ts, &ts))
			model_set_clock(r->m, r->recording, event->args, ts);
	} else if (!strcmp(ph, "M") && !strcmp(name, "process_name")) {
		p = event_process(r, event);
		if (node_is(event->args, JSON_OBJECT))
			p->comm = model_name(r->m, node_string(node_get(event->args, "name")));
	}
	return 0;
}

/* Reports where reading stopped, unless after the events or between two of them: a recording may have been cut there. */
static void report_trace_stop(void *ctx, const struct trace_stop *stop)
{
	struct report_trace_reader *r = ctx;

	if (stop->kind == TRACE_AFTER ||
		(stop->kind != TRACE_UNREADABLE && stop->events && !stop->in_events))
		return;
	read_problem(r->problems, "line %llu: %s", (unsigned long long)stop->line, stop->why);
}

void read_trace(struct model *m, struct json_source *source, const char *path, struct read_problems *problems)
{
	static const struct trace_reader_ops ops = { .event = trace_read_event, .stop = report_trace_stop };
	struct report_trace_reader r = { .m = m, .problems = problems };
	struct trace_form form;
	char origin[512];

	/* a trace does not say which machine it comes from */
	snprintf(origin, sizeof(origin), "trace %s", path);
	r.origin = model_name(m, origin);
	r.recording = m->recordings++;
	trace_read(source, &ops, &r, &form);
}
