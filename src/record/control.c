// SPDX-License-Identifier: BSD-2-Clause
/* inftrace record: start, stop, dump and status through the control socket. */
#include "record/control.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "record/flight.h"
#include "record/output.h"
#include "util/clock.h"

static void add_text(struct json_object *o, const char *key, const char *text)
{
	json_object_object_add(o, key, json_object_new_string(text));
}

static void add_number(struct json_object *o, const char *key, uint64_t v)
{
	json_object_object_add(o, key, json_object_new_int64((int64_t)v));
}

static bool is_whole(const struct run_control *r)
{
	return !record_by_time(r->o);
}

static int on_start(struct run_control *r, struct json_object *reply, char msg[CONTROL_MSG_MAX])
{
	char text[64];
	int err;

	if (r->recorder || is_whole(r))
		return control_refuse(msg, -EALREADY, "it records already; start is for --window and --window-flag");
	err = windows_start(r->windows);
	if (err == -ESHUTDOWN)
		return control_refuse(msg, err, "the recording is over");
	if (err < 0) {
		r->failed = err;
		return control_refuse(msg, err, "the window cannot be opened: %s", strerror(-err));
	}
	snprintf(text, sizeof(text), "window %u is open%s", r->windows->number, err ? " already" : "");
	add_text(reply, "message", text);
	add_number(reply, "window", r->windows->number);
	return 0;
}

static int on_stop(struct run_control *r, struct json_object *reply, char msg[CONTROL_MSG_MAX])
{
	struct windows *w = r->windows;
	struct json_object *files;
	char text[128];
	int err = 0;

	if (r->recorder)
		return control_refuse(msg, -EINVAL, "a flight recorder has no window; dump writes what it has");
	if (is_whole(r)) { /* it ends only with the recording */
		r->stop = true;
		add_text(reply, "message", "the recording ends");
		return 0;
	}
	files = json_object_new_array();
	w->files.list = files;
	err = windows_stop(w);
	w->files.list = NULL;
	if (err > 0) {
		json_object_put(files);
		return control_refuse(msg, -EALREADY, "no window is open");
	}
	json_object_object_add(reply, "files", files);
	if (err < 0) {
		r->failed = err;
		return control_refuse(msg, err, "the window's files are not complete: %s", strerror(-err));
	}
	snprintf(text, sizeof(text), "window %u is closed: %.1f s, %" PRIu64 " steps", w->number - 1,
		(double)(w->totals.close_ns - w->totals.open_ns) / 1e9, w->totals.steps);
	add_text(reply, "message", text);
	add_number(reply, "window", w->number - 1);
	return 0;
}

static int on_dump(struct run_control *r, const struct control_request *rq, char msg[CONTROL_MSG_MAX])
{
	int err;

	if (!r->recorder)
		return control_refuse(msg, -EINVAL, "it was not started with --flight-recorder");
	err = recorder_request(r->recorder, *rq->reason ? rq->reason : "dump", rq->last, rq->id);
	if (err)
		return control_refuse(msg, err, "too many dumps are waiting already");
	return -EINPROGRESS;
}

static void add_target(struct task *t, void *arg)
{
	json_object_array_add(arg, json_object_new_int64(t->tgid));
}

/* With --max-size the newest of its files. */
static struct json_object *output_path(const struct run_control *r, size_t i, const char *first)
{
	const char *name = outputs_name(r->windows->sink, i);

	return file_path_json(name ? name : first);
}

static void add_probed(struct session *s, struct json_object *reply)
{
	struct attach_files files;

	if (!attach_files(s->attach, &files))
		return;
	add_number(reply, "probed_files", files.probed);
	add_number(reply, "probed_files_given_back", files.given_back);
}

static void on_status(struct run_control *r, struct json_object *reply)
{
	struct json_object *targets = json_object_new_array(), *outputs = json_object_new_array();
	struct window_totals t;

	windows_totals(r->windows, &t);
	add_number(reply, "pid", (uint64_t)getpid());
	if (r->o->all)
		json_object_object_add(reply, "all", json_object_new_boolean(true));
	else
		tasks_each_process(r->windows->c->tasks, add_target, targets);
	json_object_object_add(reply, "targets", targets);
	json_object_object_add(reply, "elapsed_s",
		json_object_new_double((double)(clock_boot_ns() - r->begun_ns) / 1e9));
	if (!r->recorder) {
		add_text(reply, "window", r->windows->open ? "open" : "closed");
		add_number(reply, "number", r->windows->number);
	}
	add_number(reply, "steps", t.steps);
	add_number(reply, "records", total_of(t.records));
	add_number(reply, "lost", total_of(t.lost));
	add_probed(r->windows->c->session, reply);
	for (size_t i = 0; i < r->o->n_outputs; i++)
		json_object_array_add(outputs, output_path(r, i, r->o->outputs[i]));
	if (r->o->profile)
		json_object_array_add(outputs, output_path(r, r->o->n_outputs, r->o->profile));
	if (record_by_time(r->o))
		json_object_object_add(reply, "output_dir", file_path_json(r->o->output_dir));
	json_object_object_add(reply, "outputs", outputs);
	if (r->recorder)
		recorder_status(r->recorder, reply);
}

/* Opens the first trace that is a file. Not by its name, which may belong to another file by now. */
static int on_open(struct run_control *r, struct control_request *rq, struct json_object *reply, char msg[CONTROL_MSG_MAX])
{
	int fd = -ENOENT;

	if (record_by_time(r->o))
		return control_refuse(
			msg, -EINVAL, "this recording writes a file for each window: give one of those in %.128s", r->o->output_dir);
	for (size_t i = 0; i < r->o->n_outputs && r->windows->sink; i++) {
		fd = outputs_reopen(r->windows->sink, i);
		if (fd == -ENOENT)
			continue;
		if (fd < 0)
			return fd;
		json_object_object_add(reply, "name", output_path(r, i, r->o->outputs[i]));
		rq->fd = fd;
		return 0;
	}
	return control_refuse(msg, fd, "this recording writes no trace: give it -o FILE");
}

static int run_request(void *arg, struct control_request *rq, struct json_object *reply, char msg[CONTROL_MSG_MAX])
{
	struct run_control *r = arg;

	switch (rq->command) {
	case CONTROL_START:
		return on_start(r, reply, msg);
	case CONTROL_STOP:
		return on_stop(r, reply, msg);
	case CONTROL_DUMP:
		return on_dump(r, rq, msg);
	case CONTROL_OPEN:
		return on_open(r, rq, reply, msg);
	default:
		on_status(r, reply);
		return 0;
	}
}

void run_control_open(struct run_control *r)
{
	control_new(run_request, r, NULL, &r->control);
}

void run_control_done(uint64_t id, int err, struct json_object *reply, const char *msg, void *arg)
{
	control_done(((struct run_control *)arg)->control, id, err, reply, msg);
}
