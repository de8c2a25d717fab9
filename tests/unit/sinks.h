/* SPDX-License-Identifier: BSD-2-Clause */
/* Sinks in tests: a recording without a kernel, records to feed it with, and what it wrote. */
#ifndef INFTRACE_TEST_SINKS_H
#define INFTRACE_TEST_SINKS_H

#include <dirent.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <json-c/json.h>

#include "engine/spec.h"
#include "format/profile.h"
#include "io/writer.h"
#include "requests/request_feed.h"
#include "sink/sink.h"
#include "unit.h"
#include "util/json.h"
#include "util/names.h"
#include "validate/check.h"

#define START UINT64_C(1000000000) /* of the recording, CLOCK_BOOTTIME: what is written with the time of the test comes after it */
#define PID 5000000u                  /* no such process: /proc does not know it */
#define TID (PID + 1)

static struct probe_table probes;
static struct recording rec = {
	.start_boot_ns = START,
	.start_mono_ns = 900000000007,
	.start_real_ns = 1763616000000000001,
	.probes = &probes,
};

struct out {
	int fd;
	struct sink *s;
	struct sink *format; /* behind it */
	struct writer *w;    /* the format's */
	char *text;
	size_t len;
	struct json_object *events;
};

static inline void tell_task(enum task_event event, uint32_t tgid, uint32_t tid, const char *comm)
{
	struct rec_task r = { .h = { .kind = REC_TASK, .id = event, .tgid = tgid, .tid = tid } };

	snprintf(r.comm, sizeof(r.comm), "%s", comm);
	tasks_update(rec.tasks, &r);
}

/* Removes the current directory, whose path is given, and its files. */
static inline int leave_directory(const char *directory)
{
	DIR *d = opendir(".");
	struct dirent *e;

	while (d && (e = readdir(d)))
		unlink(e->d_name);
	if (d)
		closedir(d);
	return chdir("/") || rmdir(directory);
}

static inline int setup(void **state)
{
	rec.tasks = tasks_new();
	tell_task(TASK_FORK, PID, PID, "server");
	tell_task(TASK_FORK, PID, TID, "worker");
	return 0;
}

static inline int teardown(void **state)
{
	tasks_free(rec.tasks);
	probe_table_free(&probes);
	return 0;
}

static inline void read_text(struct out *o)
{
	struct stat st;

	assert_int_equal(fstat(o->fd, &st), 0);
	o->len = (size_t)st.st_size;
	free(o->text);
	o->text = malloc(o->len + 1);
	assert_int_equal(pread(o->fd, o->text, o->len, 0), o->len);
	o->text[o->len] = 0;
}

static inline void first_problem(void *ctx, const char *text)
{
	char *buf = ctx;

	if (!*buf)
		snprintf(buf, 256, "%s", text);
}

/* inftrace validate must find nothing wrong. */
static inline void validate_to(struct out *o, bool profile, FILE *summary)
{
	static const char *const families[] = { "token_prof", "window_prof" };
	char problem[256] = "";
	struct check_report report = { .problem = first_problem, .ctx = problem };
	struct json_source source;

	assert_int_equal(json_source_open_mem(&source, o->text, o->len), 0);
	if (profile)
		check_profile(&source, "profile", families, ARRAY_SIZE(families), &report, summary);
	else
		check_trace(&source, "trace", &report, summary);
	json_source_close(&source);
	fclose(summary);
	if (report.problems)
		fail_msg("%s\n%.2000s", problem, o->text);
}

static inline void validate(struct out *o, bool profile)
{
	validate_to(o, profile, fopen("/dev/null", "we"));
}

/* Sinks made between these two share their requests. */
static inline void requests_begin(void)
{
	rec.requests = request_feed_new(&rec);
}

static inline void requests_end(struct out *o)
{
	o->format = o->s;
	o->s = request_feed_sink(rec.requests, o->format);
	rec.requests = NULL;
}

/* Opens a sink of a format, with what it needs around it. */
static inline void out_open(struct out *o, enum writer_mode mode,
	struct sink *(*new)(struct writer *w, const struct recording *rec))
{
	*o = (struct out){ .fd = memfd_create("out", MFD_CLOEXEC) };
	o->w = writer_new(dup(o->fd), "out", mode);
	requests_begin();
	o->s = new (o->w, &rec);
	requests_end(o);
}

/* Continues the sink in another file. Returns the previous one, which is complete. */
static inline struct out out_rotate(struct out *o, enum writer_mode mode)
{
	struct out first = { .fd = o->fd };
	struct writer *w;

	o->fd = memfd_create("next", MFD_CLOEXEC);
	w = writer_new(dup(o->fd), "next", mode);
	o->format->ops->rotate(o->format, w);
	assert_int_equal(writer_close(o->w), 0);
	o->w = w;
	read_text(&first);
	return first;
}

static inline void chrome_open(struct out *o)
{
	out_open(o, WRITER_PLAIN, chrome_sink_new);
}

/* Afterwards everything is in the file. */
static inline void flush(struct out *o)
{
	assert_int_equal(sink_flush(o->s), 0);
	assert_int_equal(writer_sync(o->w), 0);
}

/* Closes the sink and reads what it wrote, valid or not. */
static inline void chrome_read_any(struct out *o)
{
	struct json_tokener *tok = json_tokener_new();

	assert_int_equal(o->s->ops->close(o->s, &(struct window_totals){ .open_ns = START, .close_ns = START + 1000 }), 0);
	read_text(o);
	assert_true(o->len > 4 && !strcmp(o->text + o->len - 4, "}\n]\n"));
	json_tokener_set_flags(tok, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8 |
					    JSON_TOKENER_ALLOW_TRAILING_CHARS);
	o->events = json_tokener_parse_ex(tok, o->text, (int)o->len);
	if (!o->events)
		fail_msg("%s", json_tokener_error_desc(json_tokener_get_error(tok)));
	assert_true(json_object_is_type(o->events, json_type_array));
	json_tokener_free(tok);
}

/* The same for a trace that must be valid. */
static inline void chrome_read(struct out *o)
{
	chrome_read_any(o);
	validate(o, false);
}

static inline void chrome_done(struct out *o)
{
	json_object_put(o->events);
	free(o->text);
	close(o->fd);
}

/* Compares the lines of its events that contain `with` (NULL: all but metadata and clocks), with ' in place of ". */
static inline void assert_events(const struct out *o, const char *with, const char *expected)
{
	size_t len = 0;
	char *got = calloc(1, o->len + 1);

	for (const char *p = o->text, *end; (end = strchr(p, '\n')); p = end + 1) {
		char *line = strndup(p, (size_t)(end - p) - (end[-1] == ','));

		if (*line == '{' && (with ? !!strstr(line, with) : !strstr(line, "\"ph\":\"M\"") && !strstr(line, "inftrace_clock")))
			len += (size_t)sprintf(got + len, "%s\n", line);
		free(line);
	}
	for (char *p = got; (p = strchr(p, '"'));)
		*p = '\'';
	assert_string_equal(got, expected);
	free(got);
}

/* Closes the sink of a valid trace with these events. */
static inline void chrome_expect(struct out *o, const char *with, const char *expected)
{
	chrome_read(o);
	assert_events(o, with, expected);
	chrome_done(o);
}

static const struct profile_meta plain = { .model = "m", .concurrency = 1, .runtime_flags = "{}" };

static inline void profile_open(struct out *o, const struct profile_meta *meta)
{
	*o = (struct out){ .fd = memfd_create("profile", MFD_CLOEXEC) };
	o->w = writer_new(dup(o->fd), "profile", WRITER_LINES);
	requests_begin();
	rec.meta = meta;
	o->s = profile_sink_new(o->w, &rec);
	requests_end(o);
}

static inline void profile_done(struct out *o)
{
	chrome_done(o);
}

#define EMIT(o, r) sink_record((o)->s, &(r)->h, sizeof(*(r)))

/* A header for the worker, 10 us after the start, 1234 ns long. */
static inline struct rec_hdr hdr(enum rec_kind kind, uint32_t id)
{
	return (struct rec_hdr){ .kind = kind,
		.id = id,
		.tgid = PID,
		.tid = TID,
		.cpu = 3,
		.start_ns = START + 10000,
		.dur_ns = 1234 };
}

static inline const char *field(struct json_object *event, const char *key)
{
	struct json_object *v;

	return json_object_object_get_ex(event, key, &v) ? json_object_get_string(v) : NULL;
}

static inline const char *arg(struct json_object *event, const char *key)
{
	return field(json_object_object_get(event, "args"), key);
}

/* The nth event with this phase and name, from 0; NULL when there are fewer. */
static inline struct json_object *find(
	const struct out *o, const char *ph, const char *name, unsigned int nth)
{
	for (size_t i = 0; i < json_object_array_length(o->events); i++) {
		struct json_object *e = json_object_array_get_idx(o->events, i);

		if (!strcmp(field(e, "ph"), ph) && !strcmp(field(e, "name"), name) && !nth--)
			return e;
	}
	return NULL;
}

static inline struct json_object *get(const struct out *o, const char *ph, const char *name)
{
	struct json_object *e = find(o, ph, name, 0);

	if (!e || find(o, ph, name, 1))
		fail_msg("%s %s: %s", ph, name, e ? "more than one" : "missing");
	return e;
}

static inline void assert_text(const char *text, const char *expected)
{
	if (!text || !expected)
		assert_ptr_equal(text, expected);
	else
		assert_string_equal(text, expected);
}

static inline void assert_track(struct json_object *e, uint32_t pid, uint32_t tid)
{
	assert_int_equal(json_object_get_int64(json_object_object_get(e, "pid")), pid);
	assert_int_equal(json_object_get_int64(json_object_object_get(e, "tid")), tid);
}

static inline void assert_span(
	struct json_object *e, const char *cat, const char *ts, const char *dur)
{
	assert_text(field(e, "cat"), cat);
	assert_text(field(e, "ts"), ts);
	assert_text(field(e, "dur"), dur);
}

static char *op_names[] = { "none", "mul_mat", NULL };
static const struct enum_table ops = { .name = "op", .names = op_names, .n = ARRAY_SIZE(op_names) };

static inline struct probe_spec *add_probe(
	const char *symbol, enum probe_role role, uint8_t flags, const char *name, const char *args)
{
	struct probe_spec *s = spec_append(&probes, NULL, symbol);
	char *copy = strdup(args), *save = NULL, arg_name[] = "a";
	const char *why;

	assert_non_null(s);
	s->role = role;
	s->flags = flags;
	for (char *a = strtok_r(copy, ",", &save); a; a = strtok_r(NULL, ",", &save), arg_name[0]++)
		assert_int_equal(spec_add_arg(s, arg_name, a, &ops, 1, &why), 0);
	if (name)
		assert_int_equal(spec_set_name(s, name, &why), 0);
	free(copy);
	return s;
}

/* xorshift64 (Marsaglia, 2003): the same on every machine */
static inline uint64_t draw(void)
{
	static uint64_t seed = 88172645463325252ull;

	return next_random(&seed);
}

/* Divides a time among the states, as the BPF programs do: to the nanosecond. */
static inline void share_out(struct rec_step *r, uint64_t dur)
{
	r->h.dur_ns = dur;
	memset(r->ns, 0, sizeof(r->ns));
	for (int i = 0; i < ST_MAX - 1; i++) {
		r->ns[i] = draw() % 3 ? draw() % (dur + 1) : 0;
		dur -= r->ns[i];
	}
	r->ns[ST_MAX - 1] = dur;
}

static inline int64_t ns_of(struct json_object *v)
{
	const struct json_node node = {
		.text = json_object_get_string(v),
		.kind = json_object_is_type(v, json_type_int) ? JSON_INT : JSON_REAL,
	};
	int64_t ns;

	assert_int_equal(node_us_to_ns(&node, &ns), 0);
	return ns;
}

static inline int64_t ns_field(struct json_object *o, const char *key)
{
	return ns_of(json_object_object_get(o, key));
}

#endif
