/* SPDX-License-Identifier: BSD-2-Clause */
/* inftrace report as a whole, in a child, on text made by a test. */
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
 * Runs the report on a text: it ends with rc, and prints each of these texts, or not where "!" precedes it. complains: a part
 * of its messages, or all of them if it ends in a newline; "": there are none; NULL: any.
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

static inline const char *profile_end(struct profile *p)
{
	assert_int_equal(fclose(p->out), 0);
	return p->text;
}

/* As REPORT_SAYS, of a profile that ends here. */
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

static inline struct json_object *get(struct json_object *o, const char *key)
{
	struct json_object *value;

	if (!json_object_object_get_ex(o, key, &value))
		fail_msg("no %s in %s", key, json_object_to_json_string(o));
	return value;
}

static inline struct json_object *get_at(struct json_object *o, const char *key, size_t i)
{
	struct json_object *value = json_object_array_get_idx(get(o, key), i);

	if (!value)
		fail_msg("%s has no place %zu in %s", key, i, json_object_to_json_string(o));
	return value;
}

static inline const char *text_at(struct json_object *o, const char *key)
{
	return json_object_get_string(get(o, key));
}

#endif
