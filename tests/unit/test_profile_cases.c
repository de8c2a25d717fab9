// SPDX-License-Identifier: BSD-2-Clause
/*
 * Which lines of a profile are valid, by the table in tests/golden/profile_cases.jsonl (run from the root of the tree).
 *
 * Each line of it is a case: its name; `text`, a file, or else one line, the good one; `set`, what is other in the good line,
 * which the first case has as a whole: values as JSON, null for a key that is missing; `require`, the option; `says`, the
 * problem, several in a list, or null, where ... stands for anything. In all of them <good> is the line, <members> what is
 * between its braces, <ff> a byte, and <TEXT*9> is TEXT nine times. `differs`: the parser that the format comes from takes
 * the file, or takes it for something else: words of docs/profile-schema.md, which says why.
 */
#include <json-c/json.h>

#include "read/detect.h"
#include "unit.h"
#include "util/text.h"
#include "validate/check.h"

#define TABLE "tests/golden/profile_cases.jsonl"

struct text {
	char *data;
	size_t len;
};

/* Writes text[0] to text[len - 1] with what stands for something replaced; members: what <members> is. */
static void expand(FILE *out, const char *text, size_t len, const struct text *members)
{
	const char *end = text + len, *word, *times;

	while (text < end) {
		if (*text != '<') {
			fputc(*text++, out);
			continue;
		}
		word = text + 1;
		text = memchr(word, '>', (size_t)(end - word));
		if (!text)
			fail_msg("no > behind <%s", word);
		len = (size_t)(text++ - word);
		times = memrchr(word, '*', len);
		if (times) {
			for (long n = strtol(times + 1, NULL, 10); n > 0; n--)
				expand(out, word, (size_t)(times - word), members);
		} else if (len == 2) {
			fputc((int)strtol(word, NULL, 16), out);
		} else {
			fputs(len == 4 ? "{" : "", out);
			fwrite(members->data, 1, members->len, out);
			fputs(len == 4 ? "}" : "", out);
		}
	}
}

static const char *member_text(json_object *object, const char *key)
{
	return json_object_get_string(json_object_object_get(object, key));
}

static void write_member(FILE *out, const char *key, const char *value)
{
	fputs(ftell(out) ? ",\"" : "\"", out);
	expand(out, key, strlen(key), NULL);
	fputs("\":", out);
	expand(out, value, strlen(value), NULL);
}

/* Writes the file of a case: its line is `good` with the case's changes. */
static void case_file(json_object *test, json_object *good, struct text *file)
{
	const char *text = member_text(test, "text") ?: "<good>\n";
	json_object *set = json_object_object_get(test, "set"), *value;
	struct text members;
	FILE *out = open_memstream(&members.data, &members.len);

	assert_non_null(out);
	json_object_object_foreach(good, good_key, good_value)
	{
		if (!json_object_object_get_ex(set, good_key, &value))
			value = good_value;
		if (value)
			write_member(out, good_key, json_object_get_string(value));
	}
	if (set) {
		json_object_object_foreach(set, key, more)
		{
			if (!json_object_object_get_ex(good, key, NULL))
				write_member(out, key, json_object_get_string(more));
		}
	}
	assert_int_equal(fclose(out), 0);
	out = open_memstream(&file->data, &file->len);
	assert_non_null(out);
	expand(out, text, strlen(text), &members);
	assert_int_equal(fclose(out), 0);
	free(members.data);
}

static void problem_add(void *ctx, const char *text)
{
	json_object_array_add(ctx, json_object_new_string(text));
}

/* Returns the problems of a file, as `inftrace validate` finds them. */
static json_object *file_problems(const struct text *file, const char *require)
{
	json_object *said = json_object_new_array();
	struct check_report report = { .problem = problem_add, .ctx = said };
	char *list = require ? strdup(require) : NULL, *rest = list, buf[160];
	struct json_source source;
	const char *why, *names[8];
	enum file_kind kind;
	FILE *out = fopen("/dev/null", "we");
	size_t n = 0;

	assert_non_null(out);
	while (rest && n < ARRAY_SIZE(names))
		names[n++] = strsep(&rest, ",");
	assert_int_equal(json_source_open_mem(&source, file->data, file->len), 0);
	kind = file_detect(&source, buf, sizeof(buf), &why);
	if (kind == FILE_PROFILE || text_is_blank((const char *)source.pos, (size_t)(source.end - source.pos)))
		check_profile(&source, "-", names, n, &report, out);
	else
		problem_add(said, "is no profile");
	json_source_close(&source);
	fclose(out);
	free(list);
	return said;
}

static bool is_said(json_object *wanted, json_object *said)
{
	const char *want = json_object_get_string(wanted), *got = json_object_get_string(said);
	size_t len = strlen(want);

	return text_has_suffix(want, "...") ? !strncmp(want, got, len - 3) : !strcmp(want, got);
}

/* Whether the case came out as in the table. */
static bool case_holds(json_object *test, json_object *good)
{
	json_object *says = json_object_object_get(test, "says"), *said;
	bool list = json_object_is_type(says, json_type_array), holds;
	size_t n = list ? json_object_array_length(says) : says != NULL;
	struct text file;

	case_file(test, good, &file);
	said = file_problems(&file, member_text(test, "require"));
	holds = json_object_array_length(said) == n;
	for (size_t i = 0; holds && i < n; i++)
		holds = is_said(list ? json_object_array_get_idx(says, i) : says, json_object_array_get_idx(said, i));
	if (!holds)
		print_error("%s: must say %s, says %s\n", member_text(test, "case"), json_object_to_json_string(says),
			json_object_to_json_string(said));
	json_object_put(said);
	free(file.data);
	return holds;
}

static char *file_text(const char *path)
{
	FILE *f = fopen(path, "re");
	char *text = NULL;
	size_t size = 0;

	if (!f || getdelim(&text, &size, '\0', f) < 0)
		fail_msg("cannot read %s: run this from the root of the tree", path);
	fclose(f);
	return text;
}

TEST(test_cases)
{
	char *table = file_text(TABLE), *doc = file_text("docs/profile-schema.md"), *rest = table, *line;
	json_object *good = NULL, *test, *says;
	size_t n = 0, wrong = 0, valid = 0;
	const char *differs;

	while ((line = strsep(&rest, "\n")) && *line) {
		test = json_tokener_parse(line);
		n++;
		if (!test || !json_object_object_get_ex(test, "says", &says))
			fail_msg("line %zu of the table is none: %s", n, line);
		if (!good)
			good = json_object_get(json_object_object_get(test, "set"));
		wrong += !case_holds(test, good);
		valid += !says;
		differs = member_text(test, "differs");
		if (differs && !strstr(doc, differs))
			fail_msg("not in the document: %s", differs);
		json_object_put(test);
	}
	print_message("# %zu cases, %zu of them valid\n", n, valid);
	json_object_put(good);
	free(table);
	free(doc);
	assert_true(valid && valid < n);
	assert_int_equal(wrong, 0);
}

RUN_TESTS(NULL, NULL)
