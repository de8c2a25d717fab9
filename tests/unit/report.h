/* SPDX-License-Identifier: BSD-2-Clause */
/* inftrace report as a whole, in a child process, on text made by a test. */
#ifndef INFTRACE_TEST_REPORT_H
#define INFTRACE_TEST_REPORT_H

#include <json-c/json.h>

#include "run_command.h"

static inline void run_input(struct output *result, const char *text, char **argv)
{
	run_command(result, cmd_report, text, strlen(text), argv);
}

#define ARGV(...) ((char *[]){ "inftrace report", ##__VA_ARGS__, NULL })
#define RUN(result, text, ...) run_input(result, text, ARGV(__VA_ARGS__))

/*
 * Runs the report on a text: it ends with rc, and prints each of these texts, or not if "!" precedes it. complains: part of
 * its messages, or all of them if it ends in a newline; "": none; NULL: any.
 */
static inline void check_report(const char *text, char **argv, int rc, const char *complains, const char *const *says)
{
	struct output result;

	run_input(&result, text, argv);
	if (result.rc != rc || (complains && !*complains && *result.err))
		fail_msg("%d instead of %d: %s", result.rc, rc, result.err);
	if (complains && strchr(complains, '\n'))
		assert_string_equal(result.err, complains);
	else if (complains)
		assert_contains(result.err, complains);
	for (; *says; says++) {
		if (**says != '!')
			assert_contains(result.out, *says);
		else if (strstr(result.out, *says + 1))
			fail_msg("\"%s\" in:\n%s", *says + 1, result.out);
	}
	output_free(&result);
}

#define REPORT_SAYS(text, argv, ...) check_report(text, argv, EXIT_OK, "", (const char *const[]){ __VA_ARGS__, NULL })
#define REPORT_FAILS(text, argv, rc, complains, ...) check_report(text, argv, rc, complains, (const char *const[]){ __VA_ARGS__, NULL })

/* --- a profile, made line by line --- */

struct profile {
	char *text;
	size_t len;
	FILE *out;
};

static inline void profile_begin(struct profile *p)
{
	p->out = open_memstream(&p->text, &p->len);
	assert_non_null(p->out);
}

/* A new profile; the one before is lost. */
static inline struct profile *profile_new(void)
{
	static struct profile profile;

	profile_begin(&profile);
	return &profile;
}

static inline const char *profile_end(struct profile *p)
{
	assert_int_equal(fclose(p->out), 0);
	return p->text;
}

/* Like REPORT_SAYS, for a profile that ends here. */
#define PROFILE_SAYS(p, argv, ...)                                \
	do {                                                      \
		REPORT_SAYS(profile_end(p), argv, ##__VA_ARGS__); \
		free((p)->text);                                  \
	} while (0)

#define HEAD                                                                               \
	"\"commit_sha\":null,\"env_hash\":\"sha256:1\",\"model\":\"m\",\"concurrency\":1," \
	"\"graph_enabled\":false,\"runtime_flags\":{},\"source\":\"native\""

static inline struct json_object *parse(const char *text)
{
	struct json_object *o = json_tokener_parse(text);

	if (!o)
		fail_msg("not JSON: %s", text);
	return o;
}

/* The report as JSON, without an error. */
static inline struct json_object *run_json(const char *text, char **argv)
{
	struct json_object *report;
	struct output result;

	run_input(&result, text, argv);
	assert_string_equal(result.err, "");
	assert_int_equal(result.rc, EXIT_OK);
	report = parse(result.out);
	output_free(&result);
	return report;
}

static inline struct json_object *profile_json(struct profile *p, char **argv)
{
	struct json_object *report = run_json(profile_end(p), argv);

	free(p->text);
	return report;
}

/* Returns the value at a path such as "processes.0.pid"; NULL: there is none. */
static inline struct json_object *at_path(struct json_object *o, const char *path)
{
	char copy[256], *save = NULL;

	snprintf(copy, sizeof(copy), "%s", path);
	for (char *key = strtok_r(copy, ".", &save); key && o; key = strtok_r(NULL, ".", &save))
		o = json_object_is_type(o, json_type_array) ? json_object_array_get_idx(o, strtoul(key, NULL, 10)) : json_object_object_get(o, key);
	return o;
}

/* Pairs of a path and the text of its value; "N" at a path ending in "#": the number of elements; NULL: there is none. */
static inline void check_json(struct json_object *o, const char *const (*pairs)[2], size_t n)
{
	for (size_t i = 0; i < n; i++) {
		size_t len = strlen(pairs[i][0]);
		bool number = len && pairs[i][0][len - 1] == '#';
		char path[256], count[32];
		const char *is;

		snprintf(path, sizeof(path), "%.*s", (int)(len - number), pairs[i][0]);
		is = json_object_get_string(at_path(o, path));
		if (number && is) {
			snprintf(count, sizeof(count), "%zu", json_object_array_length(at_path(o, path)));
			is = count;
		}
		if (!is != !pairs[i][1] || (is && strcmp(is, pairs[i][1])))
			fail_msg("%s is %s, not %s", pairs[i][0], is ? is : "missing", pairs[i][1] ? pairs[i][1] : "missing");
	}
	json_object_put(o);
}

/* Takes over the object. */
#define JSON_IS(o, ...)                                        \
	check_json(o, (const char *const[][2]){ __VA_ARGS__ }, \
		sizeof((const char *const[][2]){ __VA_ARGS__ }) / sizeof(const char *[2]))

#endif
