// SPDX-License-Identifier: BSD-2-Clause
/*
 * Compares a Chrome trace and a profile of tests/vm/known.c with its own counts.
 *
 *	count COUNTS TRACE PROFILE
 *
 * COUNTS is what known wrote. Prints one line per comparison that fails, or one line with
 * the totals; exits with 1 when anything differs, be it one too many or one too few.
 */
#include "../program.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <math.h>

#define MAX_COUNTS 64
#define LINE_MAX_BYTES 65536

/* One line of COUNTS, and what the trace has. */
struct count {
	char who[16], what[16], name[32];
	long expected, seen;
};

/* The stretch of one thread that COUNTS is about, between its markers. */
struct stretch {
	const char *who;
	long tid;
	int64_t begin_ns, end_ns;
};

static struct count counts[MAX_COUNTS];
static int n_counts;
static int failures;

__attribute__((format(printf, 1, 2))) static void fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
	failures++;
}

static struct count *count_find(const char *who, const char *what, const char *name)
{
	for (int i = 0; i < n_counts; i++) {
		struct count *c = &counts[i];

		if (!strcmp(c->who, who) && !strcmp(c->what, what) && !strcmp(c->name, name))
			return c;
	}
	return NULL;
}

/* The line's struct, added with 0 expected when COUNTS has none, so that it fails. */
static struct count *count_get(const char *who, const char *what, const char *name)
{
	struct count *c = count_find(who, what, name);

	if (c || n_counts == MAX_COUNTS)
		return c;
	c = &counts[n_counts++];
	snprintf(c->who, sizeof(c->who), "%s", who);
	snprintf(c->what, sizeof(c->what), "%s", what);
	snprintf(c->name, sizeof(c->name), "%s", name);
	return c;
}

static bool counts_read(const char *path)
{
	FILE *in = fopen(path, "re");
	struct count *c = counts;

	if (!in)
		return false;
	while (n_counts < MAX_COUNTS && fscanf(in, "%15s %15s %31s %ld", c->who, c->what, c->name, &c->expected) == 4)
		c = &counts[++n_counts];
	fclose(in);
	return n_counts > 0;
}

static const char *text(struct json_object *o, const char *key)
{
	struct json_object *v;

	return json_object_object_get_ex(o, key, &v) ? json_object_get_string(v) : "";
}

static long number(struct json_object *o, const char *key)
{
	struct json_object *v;

	return json_object_object_get_ex(o, key, &v) ? json_object_get_int64(v) : 0;
}

/* Microseconds with three decimals, as nanoseconds. */
static int64_t nanoseconds(struct json_object *o, const char *key)
{
	struct json_object *v;

	return json_object_object_get_ex(o, key, &v) ? llround(json_object_get_double(v) * 1e3) : 0;
}

static bool is_syscall(struct json_object *e)
{
	return !strcmp(text(e, "cat"), "syscall") || !strcmp(text(e, "cat"), "ipc");
}

/* Its name; for a call that passes data between processes or threads, the name of the call. */
static const char *name_of(struct json_object *e)
{
	struct json_object *args;

	if (strcmp(text(e, "cat"), "ipc") || !json_object_object_get_ex(e, "args", &args))
		return text(e, "name");
	return text(args, "syscall");
}

static bool stretch_find(struct json_object *events, struct stretch *s)
{
	struct count *tid = count_find(s->who, "tid", "-");

	s->tid = tid ? tid->expected : -1;
	s->begin_ns = s->end_ns = -1;
	for (size_t i = 0; i < json_object_array_length(events); i++) {
		struct json_object *e = json_object_array_get_idx(events, i);
		int64_t ts = nanoseconds(e, "ts");

		if (number(e, "tid") != s->tid || !is_syscall(e))
			continue;
		if (!strcmp(text(e, "name"), "getpgid") && ts + nanoseconds(e, "dur") > s->begin_ns)
			s->begin_ns = ts + nanoseconds(e, "dur");
		if (!strcmp(text(e, "name"), "getsid") && ts > s->end_ns)
			s->end_ns = ts;
	}
	if (tid)
		tid->seen = tid->expected;
	if (s->begin_ns >= 0 && s->end_ns >= s->begin_ns)
		return true;
	fail("%s: no getpgid and getsid that bound its work", s->who);
	return false;
}

/* Whether args has that key. */
static bool flag(struct json_object *e, const char *key)
{
	struct json_object *args;

	return json_object_object_get_ex(e, "args", &args) && json_object_object_get_ex(args, key, NULL);
}

/* A span that began before the recording, anywhere on the thread. */
static void began_before_count(struct json_object *e, const struct stretch *s)
{
	struct count *c;
	char name[32];

	snprintf(name, sizeof(name), "%s", name_of(e));
	/* COUNTS is words between spaces */
	for (char *p = name; *p; p++)
		if (*p == ' ')
			*p = '_';
	c = count_get(s->who, "began_before", name);
	if (c)
		c->seen++;
}

/* What an event counts as; false: not in COUNTS. */
static bool event_class(struct json_object *e, const char **ret_what, const char **ret_name)
{
	const char *cat = text(e, "cat"), *name = name_of(e), *ph = text(e, "ph");

	*ret_what = cat;
	*ret_name = name;
	if (is_syscall(e)) {
		*ret_what = "syscall";
	} else if (!strcmp(cat, "fault")) {
		*ret_name = !strcmp(name, "page_fault_major") ? "major" : "minor";
		return true;
	} else if (!strcmp(cat, "sched")) {
		*ret_what = "switch";
		*ret_name = flag(e, "preempted") ? "involuntary" : "voluntary";
	} else if (strcmp(cat, "step") && strcmp(cat, "op")) {
		return false;
	}
	return !strcmp(ph, "X");
}

static void stretch_count(struct json_object *events, const struct stretch *s)
{
	for (size_t i = 0; i < json_object_array_length(events); i++) {
		struct json_object *e = json_object_array_get_idx(events, i);
		int64_t ts = nanoseconds(e, "ts");
		const char *what, *name;
		struct count *c;

		if (number(e, "tid") != s->tid)
			continue;
		if (flag(e, "began_before"))
			began_before_count(e, s);
		if (ts < s->begin_ns || ts >= s->end_ns || !event_class(e, &what, &name))
			continue;
		c = count_get(s->who, what, name);
		if (c)
			c->seen++;
	}
}

static void trace_count(const char *path)
{
	struct json_object *events = json_object_from_file(path);
	struct stretch threads[] = { { .who = "main" }, { .who = "peer" } };

	if (!json_object_is_type(events, json_type_array)) {
		fail("%s: not a JSON array", path);
		goto out;
	}
	for (size_t i = 0; i < json_object_array_length(events); i++)
		if (!strcmp(text(json_object_array_get_idx(events, i), "cat"), "loss"))
			fail("%s: records were lost", path);
	for (int i = 0; i < 2; i++)
		if (stretch_find(events, &threads[i]))
			stretch_count(events, &threads[i]);
out:
	json_object_put(events);
}

/* A token_prof line: the counts of COUNTS' "step" lines, and stages that add up. */
static void step_check(struct json_object *line, long step)
{
	struct json_object *shape = NULL, *stages = NULL;
	int64_t sum = 0;

	json_object_object_get_ex(line, "shape", &shape);
	json_object_object_get_ex(line, "stage_us", &stages);
	for (int i = 0; i < n_counts; i++) {
		struct count *c = &counts[i];

		if (strcmp(c->who, "step"))
			continue;
		c->seen = number(shape, c->what);
		if (c->seen != c->expected)
			fail("step %ld %s: did %ld, profile has %ld", step, c->what, c->expected, c->seen);
		c->seen = c->expected;
	}
	json_object_object_foreach(stages, key, value)
	{
		if (strcmp(key, "total") && strncmp(key, "workers_", 8))
			sum += llround(json_object_get_double(value) * 1e3);
	}
	if (sum != nanoseconds(stages, "total") || !sum)
		fail("step %ld: total is not the stages' sum, %" PRId64 " ns", step, sum);
}

static void profile_check(const char *path)
{
	static char buf[LINE_MAX_BYTES];
	struct count *work = count_find("main", "step", "work");
	long steps = 0;
	FILE *in = fopen(path, "re");

	if (!in) {
		fail("%s: cannot be opened", path);
		return;
	}
	while (fgets(buf, sizeof(buf), in)) {
		struct json_object *line = json_tokener_parse(buf);

		if (!strcmp(text(line, "event"), "token_prof"))
			step_check(line, steps++);
		json_object_put(line);
	}
	fclose(in);
	if (work && steps != work->expected)
		fail("did %ld steps, profile has %ld", work->expected, steps);
}

int main(int argc, char **argv)
{
	long total = 0;

	if (argc != 4 || !counts_read(argv[1])) {
		fputs("Usage: count COUNTS TRACE PROFILE\n", stderr);
		return 2;
	}
	trace_count(argv[2]);
	profile_check(argv[3]);
	for (int i = 0; i < n_counts; i++) {
		struct count *c = &counts[i];

		if (!strcmp(c->who, "step") || !strcmp(c->what, "tid"))
			continue;
		if (c->seen != c->expected)
			fail("%s %s %s: did %ld, trace has %ld", c->who, c->what, c->name, c->expected, c->seen);
		total += c->seen;
	}
	if (!failures)
		printf("%ld spans and faults of %d kinds, all as counted by the program\n", total, n_counts);
	return failures ? 1 : 0;
}
