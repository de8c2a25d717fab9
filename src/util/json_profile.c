// SPDX-License-Identifier: BSD-2-Clause
/* The rules of a profile JSONL: docs/profile-schema.md. */
#include "util/json_check.h"

#include <errno.h>
#include <string.h>

#include "util/text.h"

#define REQUIRED_MAX 64

struct profile_check {
	struct json_reader reader;
	struct check_report *report;
	struct name_counts families;
	uint64_t lines;
	uint64_t required_seen; /* bit N: the Nth required family was seen */
	const char *const *required;
	size_t required_len;
};

/* A problem of the current line. */
#define LINE_PROBLEM(check, fmt, ...)                     \
	check_problem((check)->report, "line %llu: " fmt, \
		(unsigned long long)(check)->reader.value_line, ##__VA_ARGS__)

static const char *const envelope[] = {
	"event",
	"commit_sha",
	"env_hash",
	"model",
	"concurrency",
	"shape",
	"stage_us",
	"graph_enabled",
	"runtime_flags",
};

static bool is_blank(struct json_object *string)
{
	return text_is_blank(json_object_get_string(string), (size_t)json_object_get_string_len(string));
}

static bool string_or_null(struct json_object *value)
{
	return !value || json_object_is_type(value, json_type_string);
}

/* One value of the envelope; returns what it must be, or NULL when it is that. */
static const char *envelope_rule(const char *key, struct json_object *value)
{
	bool is_string = json_object_is_type(value, json_type_string);

	if (!strcmp(key, "event") || !strcmp(key, "model"))
		return is_string && !is_blank(value) ? NULL : "a non-empty string";
	if (!strcmp(key, "commit_sha"))
		return !value || (is_string && !is_blank(value)) ? NULL
								 : "a non-empty string or null";
	if (!strcmp(key, "env_hash"))
		return is_string && !strncmp(json_object_get_string(value), "sha256:", 7)
			       ? NULL
			       : "a string that starts with sha256:";
	if (!strcmp(key, "concurrency"))
		return json_object_is_type(value, json_type_int) &&
				       json_object_get_int64(value) >= 1 &&
				       json_object_get_int64(value) <= UINT32_MAX
			       ? NULL
			       : "an integer from 1 to 4294967295";
	if (!strcmp(key, "graph_enabled"))
		return json_object_is_type(value, json_type_boolean) ? NULL : "true or false";
	return json_object_is_type(value, json_type_object) ? NULL : "an object";
}

static bool is_scalar(struct json_object *value)
{
	return !json_object_is_type(value, json_type_object) &&
	       !json_object_is_type(value, json_type_array);
}

/* shape and stage_us of any writer hold no further objects or arrays. */
static bool check_scalars(struct profile_check *check, const char *name, struct json_object *object)
{
	char key_text[64];

	json_object_object_foreach(object, key, value)
	{
		if (is_scalar(value))
			continue;
		LINE_PROBLEM(check, "%s.%s must be a scalar", name,
			json_printable(key_text, sizeof(key_text), key));
		return false;
	}
	return true;
}

static const char *const whole_families[] = { "token_prof", "op_prof", "syscall_prof", "fault_prof",
	"sched_prof" };

/* The number of the window, in lines that inftrace wrote. */
static bool check_window(struct profile_check *check, struct json_object *shape)
{
	struct json_object *window;

	if (!json_object_object_get_ex(shape, "window", &window) ||
		(json_object_is_type(window, json_type_int) && json_object_get_int64(window) >= 0))
		return true;
	LINE_PROBLEM(check, "shape.window must be an integer >= 0");
	return false;
}

/*
 * The stages of a line that inftrace wrote: microseconds of whole nanoseconds; in the families of
 * which it is said below all but total and the workers' sums add up to total, without a nanosecond
 * to spare.
 */
static void check_native_stages(
	struct profile_check *check, struct json_object *stages, const char *family)
{
	int64_t ns, sum = 0, total = -1;
	char key_text[64];
	bool whole = false;
	int ret;

	for (size_t i = 0; i < sizeof(whole_families) / sizeof(whole_families[0]); i++)
		whole |= !strcmp(family, whole_families[i]);
	json_object_object_foreach(stages, key, value)
	{
		ret = json_us_to_ns(value, &ns);
		if (ret || ns < 0) {
			LINE_PROBLEM(check, "stage_us.%s must be %s",
				json_printable(key_text, sizeof(key_text), key),
				ret == 1 ? "a whole number of nanoseconds" : "a number >= 0");
			return;
		}
		if (!strcmp(key, "total"))
			total = ns;
		else if (strncmp(key, "workers_", 8) && __builtin_add_overflow(sum, ns, &sum))
			sum = -1;
	}
	if (!whole)
		return;
	if (total < 0)
		LINE_PROBLEM(check, "missing stage: stage_us.total");
	else if (sum != total)
		LINE_PROBLEM(check,
			"stage_us: the states sum to %lld ns, total is %lld ns (%+lld ns)",
			(long long)sum, (long long)total, (long long)(sum - total));
}

static void check_line(struct profile_check *check, struct json_object *line)
{
	struct json_object *value;
	const char *family, *rule;

	if (!json_object_is_type(line, json_type_object)) {
		LINE_PROBLEM(check, "profile event must be a JSON object");
		return;
	}
	for (size_t i = 0; i < sizeof(envelope) / sizeof(envelope[0]); i++) {
		if (json_object_object_get_ex(line, envelope[i], NULL))
			continue;
		LINE_PROBLEM(check, "missing required field: %s", envelope[i]);
		return;
	}
	for (size_t i = 0; i < sizeof(envelope) / sizeof(envelope[0]); i++) {
		rule = envelope_rule(envelope[i], json_object_object_get(line, envelope[i]));
		if (!rule)
			continue;
		LINE_PROBLEM(check, "%s must be %s", envelope[i], rule);
		return;
	}
	if (!string_or_null(json_object_object_get(line, "source")) ||
		!string_or_null(json_object_object_get(line, "source_line"))) {
		LINE_PROBLEM(check, "source and source_line must be strings where they are given");
		return;
	}
	if (!check_scalars(check, "shape", json_object_object_get(line, "shape")) ||
		!check_scalars(check, "stage_us", json_object_object_get(line, "stage_us")))
		return;

	family = json_object_get_string(json_object_object_get(line, "event"));
	value = json_object_object_get(line, "source");
	if (value && !strcmp(json_object_get_string(value), "native") &&
		check_window(check, json_object_object_get(line, "shape")))
		check_native_stages(check, json_object_object_get(line, "stage_us"), family);
	for (size_t i = 0; i < check->required_len; i++)
		if (!strcmp(family, check->required[i]))
			check->required_seen |= 1ULL << i;
	name_counts_add(&check->families, family);
}

static void check_required(struct profile_check *check)
{
	char missing[256], name[64];
	size_t used = 0;

	for (size_t i = 0; i < check->required_len && used < sizeof(missing); i++) {
		if (check->required_seen >> i & 1)
			continue;
		used += snprintf(missing + used, sizeof(missing) - used, "%s%s", used ? ", " : "",
			json_printable(name, sizeof(name), check->required[i]));
	}
	if (used)
		check_problem(check->report, "missing profile event groups: %s", missing);
}

void check_profile(struct json_source *source, const char *path, const char *const *required,
	size_t required_len, struct check_report *report, FILE *out)
{
	struct profile_check check = { .report = report, .required = required };
	struct json_object *line;
	int ret;

	check.required_len = required_len < REQUIRED_MAX ? required_len : REQUIRED_MAX;
	ret = json_reader_init(&check.reader, source);
	while (!ret) {
		ret = json_reader_line(&check.reader, &line);
		if (!ret) {
			check_line(&check, line);
			json_object_put(line);
		} else if (ret == -ENODATA) {
			break;
		} else {
			LINE_PROBLEM(&check, "%s", check.reader.error);
			/* the next line may well be good, unless the file itself is not */
			if ((ret != -EBADMSG && ret != -E2BIG) || source->error[0])
				goto out;
			ret = 0;
		}
		check.lines++;
	}
	if (ret != -ENODATA) {
		check_problem(report, "out of memory");
		goto out;
	}
	check_required(&check);
	fprintf(out, "%s: profile%s, %llu line%s: ", path, source->gzip ? " (gzip)" : "",
		(unsigned long long)check.lines, check.lines == 1 ? "" : "s");
	name_counts_print(&check.families, out);
	check_summary_end(report, out);
out:
	json_reader_free(&check.reader);
}
