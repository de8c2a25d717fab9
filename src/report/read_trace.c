// SPDX-License-Identifier: BSD-2-Clause
/* Reads Chrome traces (docs/trace-format.md): the steps with their breakdowns, and sums by name. */
#include <stdio.h>
#include <string.h>

#include "read/trace.h"
#include "report/read.h"

#define PID_MAX_LIMIT 4194304 /* the kernel's: tids above it are inftrace's own */

struct trace_reader {
	struct model *m;
	struct read_problems *problems;
	uint32_t origin;
	uint32_t recording;
	unsigned int state_hint;
};

static int event_process(struct trace_reader *r, const struct trace_event *event, struct process **ret_process)
{
	uint32_t pid = 0;

	read_u32(event->pid, &pid);
	return model_process(r->m, pid, r->origin, ret_process);
}

static void step_breakdown(struct trace_reader *r, const struct json_node *breakdown, struct step *step)
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

/* For threads that share a track, the args name the thread (docs/trace-format.md). */
static uint32_t event_thread(const struct trace_event *event, const struct json_node *args)
{
	uint32_t tid = 0;

	read_u32(event->tid, &tid);
	if (tid > PID_MAX_LIMIT)
		read_u32(node_get(args, "tid"), &tid);
	return tid;
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

static int read_step(struct trace_reader *r, const struct trace_event *event, int64_t dur)
{
	struct step step = { .stall.state = STATE_NONE, .straggler.state = STATE_NONE };
	static const char *const keys[ROW_VALUES] = {
		[ROW_N_OUTPUTS] = "n_outputs",
		[ROW_N_SEQUENCES] = "n_sequences",
		[ROW_ONE_SEQUENCE] = "sequence",
		[ROW_MASK] = "sequences",
		[ROW_FIRST_POSITION] = "position",
		[ROW_READ] = "rows_read",
	};
	const struct json_node *args = event->args, *breakdown = node_get(args, "breakdown_us");
	struct process *p;
	int err;

	if (!node_is(breakdown, JSON_OBJECT) || !read_us(event->ts, &step.ts))
		return 0;
	step.total = dur;
	step.recording = r->recording;
	step.tid = event_thread(event, args);
	read_u32(node_get(args, "step"), &step.number);
	read_u32(node_get(args, "n_tokens"), &step.n_tokens);
	read_u32(node_get(args, "lost_records"), &step.lost);
	read_u64(args, "context", &step.context);
	for (size_t i = 0; i < ROW_VALUES; i++) {
		if (read_u64(args, keys[i], &step.rows[i]))
			step.rows[i]++;
	}
	step.stand_in = node_get(args, "stand_in") != NULL;
	step.began_before = node_is(node_get(args, "began_before"), JSON_TRUE);
	step.unfinished = node_is(node_get(args, "unfinished"), JSON_TRUE);
	step_breakdown(r, breakdown, &step);
	err = model_name(r->m, node_string(event->name), &step.phase) ?: event_process(r, event, &p);
	return err ?: process_add_step(p, &step);
}

static int read_loss(struct trace_reader *r, const struct trace_event *event)
{
	uint32_t name, count;
	int err;

	if (!node_is(event->args, JSON_OBJECT))
		return 0;
	json_for_each (value, event->args) {
		if (!read_u32(value, &count))
			continue;
		err = model_name(r->m, value->key, &name) ?: tally_add(&r->m->lost, name, 0, count);
		if (err)
			return err;
		r->m->lost_records += count;
	}
	return 0;
}

static int read_call(struct trace_reader *r, struct process *p, const struct trace_event *event, int64_t dur)
{
	struct call call = { .ns = dur, .recording = r->recording };

	if (!read_us(event->ts, &call.ts))
		return 0;
	return model_name(r->m, node_string(event->name), &call.name) ?: process_add_call(p, &call);
}

/* Requests have a process of their own in the trace: whose they are is in the args. */
static int read_request(struct trace_reader *r, const struct trace_event *event, int64_t dur)
{
	struct process *p;
	uint32_t pid;
	int64_t ts;

	if (!read_us(event->ts, &ts) || !read_u32(node_get(event->args, "pid"), &pid))
		return 0;
	if (model_process(r->m, pid, r->origin, &p))
		return -ENOMEM;
	read_request_slice(&p->served, event->args, ts, dur, r->recording);
	return 0;
}

static int read_slice(struct trace_reader *r, const struct trace_event *event)
{
	const char *cat = node_string(event->cat) ? event->cat->text : "";
	bool op = !strcmp(cat, "op"), call = !strcmp(cat, "sample") || !strcmp(cat, "graph");
	struct process *p;
	uint32_t name;
	int64_t dur;
	int err;

	if (!read_us(event->dur, &dur))
		return 0;
	if (!strcmp(cat, "step"))
		return read_step(r, event, dur);
	if (!strcmp(cat, "loss"))
		return read_loss(r, event);
	if (!strcmp(cat, "batch") && node_string(event->name) && !strncmp(event->name->text, "request ", 8))
		return read_request(r, event, dur);
	if (!op && !call && strcmp(cat, "syscall") && strcmp(cat, "ipc"))
		return 0;
	err = event_process(r, event, &p);
	if (err)
		return err;
	if (call)
		return read_call(r, p, event, dur);
	return model_name(r->m, node_string(event->name), &name) ?: tally_add(op ? &p->ops : &p->syscalls, name, dur, 1);
}

/* The first reading says when the recording began: at its ts 0, which is not in this file if it is the second of
 * several. */
static int read_clock(struct trace_reader *r, const struct trace_event *event)
{
	int64_t ts;

	if (model_clock(r->m, r->recording).known || !read_us(event->ts, &ts))
		return 0;
	return model_set_clock(r->m, r->recording, event->args, ts);
}

/* The number is that of the process. */
static int read_finding(struct trace_reader *r, const struct trace_event *event)
{
	struct process *p;
	uint32_t pid;

	if (!read_u32(node_get(event->args, "number"), &pid))
		return 0;
	if (model_process(r->m, pid, r->origin, &p))
		return -ENOMEM;
	return model_name(r->m, node_string(node_get(event->args, "reason")), &p->finding);
}

static int read_event(void *ctx, const struct trace_event *event)
{
	const char *ph = node_string(event->ph), *name = node_string(event->name);
	struct trace_reader *r = ctx;
	struct process *p;
	int err;

	if (!ph)
		return 0;
	if (!strcmp(ph, "i") && name && !strcmp(name, "misfit"))
		return read_finding(r, event);
	if (!strcmp(ph, "X"))
		return read_slice(r, event);
	if (!strcmp(ph, "i") && name && !strcmp(name, "inftrace_clock"))
		return read_clock(r, event);
	if (strcmp(ph, "M") || !name || strcmp(name, "process_name"))
		return 0;
	err = event_process(r, event, &p);
	if (err || !node_is(event->args, JSON_OBJECT))
		return err;
	return model_name(r->m, node_string(node_get(event->args, "name")), &p->comm);
}

/* After the events, or between two of them, a recording may have been cut. */
static void reading_stopped(void *ctx, const struct trace_stop *stop)
{
	struct trace_reader *r = ctx;

	if (stop->kind == TRACE_AFTER ||
		(stop->kind != TRACE_UNREADABLE && stop->events && !stop->in_events))
		return;
	read_problem(r->problems, "line %llu: %s", (unsigned long long)stop->line, stop->why);
}

int read_trace(struct model *m, struct json_source *source, const char *path, struct read_problems *problems)
{
	static const struct trace_reader_ops ops = { .event = read_event, .stop = reading_stopped };
	struct trace_reader r = { .m = m, .problems = problems };
	struct trace_form form;
	char origin[512];
	int err;

	/* a trace does not say which machine it comes from */
	snprintf(origin, sizeof(origin), "trace %s", path);
	err = model_name(m, origin, &r.origin);
	r.recording = m->recordings++;
	if (!err)
		err = trace_read(source, &ops, &r, &form);
	return err == -ENOMEM ? err : 0;
}
