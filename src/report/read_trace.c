// SPDX-License-Identifier: BSD-2-Clause
/* Chrome traces (docs/trace-format.md): the steps with their breakdowns, and what adds up by name.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/read.h"

#define PID_MAX_LIMIT 4194304 /* of the kernel: tids above it are inftrace's own */

struct trace_reader {
	struct model *m;
	struct json_reader json;
	struct read_problems *problems;
	uint32_t origin;
	uint32_t recording;
	unsigned int state_hint;
};

static const char *member_text(struct json_object *object, const char *key)
{
	struct json_object *value = json_object_object_get(object, key);

	return json_object_is_type(value, json_type_string) ? json_object_get_string(value) : "";
}

static struct json_object *member_object(struct json_object *object, const char *key)
{
	struct json_object *value = json_object_object_get(object, key);

	return json_object_is_type(value, json_type_object) ? value : NULL;
}

static int event_process(
	struct trace_reader *r, struct json_object *event, struct process **ret_process)
{
	uint32_t pid = 0;

	read_u32(json_object_object_get(event, "pid"), &pid);
	return model_process(r->m, pid, r->origin, ret_process);
}

static void step_breakdown(struct trace_reader *r, struct json_object *breakdown, struct step *step)
{
	int64_t ns, sum = 0;
	int state;

	json_object_object_foreach(breakdown, key, value)
	{
		state = read_state(key, &r->state_hint);
		if (state < 0 || !read_us(value, &ns))
			continue;
		step->own[state] = ns;
		sum = ns_add(sum, ns);
	}
	if (sum < step->total)
		step->own[STATE_OTHER] = step->total - sum;
}

/* Threads that share a track are named in the args (docs/trace-format.md). */
static uint32_t event_thread(struct json_object *event, struct json_object *args)
{
	uint32_t tid = 0;

	read_u32(json_object_object_get(event, "tid"), &tid);
	if (tid > PID_MAX_LIMIT)
		read_u32(json_object_object_get(args, "tid"), &tid);
	return tid;
}

/* A number, or a pointer in hex. */
static bool read_u64(struct json_object *args, const char *key, uint64_t *ret)
{
	struct json_object *value = json_object_object_get(args, key);

	if (json_object_is_type(value, json_type_int))
		*ret = json_object_get_uint64(value);
	else if (json_object_is_type(value, json_type_string))
		*ret = strtoull(json_object_get_string(value), NULL, 16);
	else
		return false;
	return true;
}

static int read_step(struct trace_reader *r, struct json_object *event, int64_t dur)
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
	struct json_object *args = member_object(event, "args"), *breakdown;
	struct process *p;
	int err;

	breakdown = args ? member_object(args, "breakdown_us") : NULL;
	if (!breakdown || !read_us(json_object_object_get(event, "ts"), &step.ts))
		return 0;
	step.total = dur;
	step.recording = r->recording;
	step.tid = event_thread(event, args);
	read_u32(json_object_object_get(args, "step"), &step.number);
	read_u32(json_object_object_get(args, "n_tokens"), &step.n_tokens);
	read_u32(json_object_object_get(args, "lost_records"), &step.lost);
	read_u64(args, "context", &step.context);
	for (size_t i = 0; i < ROW_VALUES; i++) {
		if (read_u64(args, keys[i], &step.rows[i]))
			step.rows[i]++;
	}
	step.began_before = json_object_get_boolean(json_object_object_get(args, "began_before"));
	step.unfinished = json_object_get_boolean(json_object_object_get(args, "unfinished"));
	step_breakdown(r, breakdown, &step);
	err = model_name(r->m, member_text(event, "name"), &step.phase);
	if (!err)
		err = event_process(r, event, &p);
	return err ? err : process_add_step(p, &step);
}

static int read_loss(struct trace_reader *r, struct json_object *event)
{
	struct json_object *args = member_object(event, "args");
	uint32_t name, count;
	int err;

	if (!args)
		return 0;
	json_object_object_foreach(args, key, value)
	{
		if (!read_u32(value, &count))
			continue;
		err = model_name(r->m, key, &name);
		if (!err)
			err = tally_add(&r->m->lost, name, 0, count);
		if (err)
			return err;
		r->m->lost_records += count;
	}
	return 0;
}

static int read_call(
	struct trace_reader *r, struct process *p, struct json_object *event, int64_t dur)
{
	struct call call = { .ns = dur, .recording = r->recording };
	int err;

	if (!read_us(json_object_object_get(event, "ts"), &call.ts))
		return 0;
	err = model_name(r->m, member_text(event, "name"), &call.name);
	return err ? err : process_add_call(p, &call);
}

static int read_slice(struct trace_reader *r, struct json_object *event)
{
	const char *cat = member_text(event, "cat");
	bool op = !strcmp(cat, "op"), call = !strcmp(cat, "sample") || !strcmp(cat, "graph");
	struct process *p;
	uint32_t name;
	int64_t dur;
	int err;

	if (!read_us(json_object_object_get(event, "dur"), &dur))
		return 0;
	if (!strcmp(cat, "step"))
		return read_step(r, event, dur);
	if (!strcmp(cat, "loss"))
		return read_loss(r, event);
	if (!op && !call && strcmp(cat, "syscall") && strcmp(cat, "ipc"))
		return 0;
	err = event_process(r, event, &p);
	if (err)
		return err;
	if (call)
		return read_call(r, p, event, dur);
	err = model_name(r->m, member_text(event, "name"), &name);
	return err ? err : tally_add(op ? &p->ops : &p->syscalls, name, dur, 1);
}

static int read_event(struct trace_reader *r, struct json_object *event)
{
	const char *ph = member_text(event, "ph");
	struct json_object *args;
	struct process *p;
	int err;

	if (!strcmp(ph, "X"))
		return read_slice(r, event);
	if (strcmp(ph, "M") || strcmp(member_text(event, "name"), "process_name"))
		return 0;
	args = member_object(event, "args");
	err = event_process(r, event, &p);
	if (err || !args)
		return err;
	return model_name(r->m, member_text(args, "name"), &p->comm);
}

static int read_failed(struct trace_reader *r, int err)
{
	if (err == -ENOMEM)
		return err;
	read_problem(r->problems, "line %llu: %s", (unsigned long long)r->json.line,
		err == -ENODATA ? "the file ends inside an event" : r->json.error);
	return -EBADMSG;
}

/* The events of an array whose bracket was taken. A recording that was cut ends between two. */
static int read_events(struct trace_reader *r)
{
	struct json_object *event;
	int c, err;

	for (;;) {
		c = json_reader_peek(&r->json);
		if (c == -ENODATA)
			return 0;
		if (c < 0)
			return read_failed(r, c);
		if (c == ']' || c == ',') {
			json_reader_take(&r->json);
			if (c == ']')
				return 0;
			continue;
		}
		err = json_reader_value(&r->json, &event);
		if (err)
			return read_failed(r, err);
		err = json_object_is_type(event, json_type_object) ? read_event(r, event) : 0;
		json_object_put(event);
		if (err)
			return err;
	}
}

/* A key of the outer object and the colon behind it. */
static int read_key(struct trace_reader *r, bool *ret_events)
{
	struct json_object *key;
	int c, err;

	err = json_reader_value(&r->json, &key);
	if (err)
		return read_failed(r, err);
	*ret_events = json_object_is_type(key, json_type_string) &&
		      !strcmp(json_object_get_string(key), "traceEvents");
	json_object_put(key);
	c = json_reader_peek(&r->json);
	if (c < 0)
		return read_failed(r, c);
	json_reader_take(&r->json);
	return 0;
}

/* {"traceEvents": [...], ...}, up to the end of the events. */
static int read_object(struct trace_reader *r)
{
	bool events;
	int c, err;

	for (;;) {
		json_reader_take(&r->json); /* the brace or a comma */
		c = json_reader_peek(&r->json);
		if (c == '}')
			return 0;
		err = read_key(r, &events);
		if (err)
			return err;
		c = json_reader_peek(&r->json);
		if (events && c == '[') {
			json_reader_take(&r->json);
			return read_events(r);
		}
		err = json_reader_value(&r->json, NULL);
		if (err)
			return read_failed(r, err);
		c = json_reader_peek(&r->json);
		if (c != ',')
			return c < 0 ? read_failed(r, c) : 0;
	}
}

int read_trace(struct model *m, struct json_source *source, const char *path,
	struct read_problems *problems)
{
	struct trace_reader r = { .m = m, .problems = problems };
	char origin[512];
	int err;

	err = json_reader_init(&r.json, source);
	if (err)
		goto out;
	/* a trace does not say which machine it is from */
	snprintf(origin, sizeof(origin), "trace %s", path);
	err = model_name(m, origin, &r.origin);
	if (err)
		goto out;
	r.recording = m->recordings++;
	if (json_reader_peek(&r.json) == '[') {
		json_reader_take(&r.json);
		err = read_events(&r);
	} else {
		err = read_object(&r);
	}
out:
	json_reader_free(&r.json);
	return err == -ENOMEM ? err : 0;
}
