// SPDX-License-Identifier: BSD-2-Clause
/* The rules of a profile JSONL: docs/profile-schema.md. */
#include "read/profile.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>

#include "gpu/info.h"
#include "record.h"
#include "util/host_id.h"
#include "util/map.h"
#include "util/text.h"
#include "validate/check.h"

#define REQUIRED_MAX 64

#define STACKS_MAX (1 << 20) /* beyond that it is not checked whether the frames of a stack are known */

struct known_stack {
	UT_hash_handle hh;
	uint64_t id;
};

struct profile_check {
	struct check_report *report;
	struct name_counts families;
	uint64_t line, lines;   /* the number of the current line; how many there were */
	uint64_t required_seen; /* bit N: the Nth required family was seen */
	const char *const *required;
	size_t required_len;
	struct known_stack *stacks; /* whose frames were in a line */
	unsigned int family;        /* of the current line */
};

/* Reports a problem of the current line. */
#define LINE_PROBLEM(check, fmt, ...)                                                        \
	check_problem((check)->report, "line %llu: " fmt, (unsigned long long)(check)->line, \
		##__VA_ARGS__)

static bool node_has_text(const struct json_node *value)
{
	return node_is(value, JSON_STRING) && !text_is_blank(value->text, value->len);
}

static bool string_or_null(const struct json_node *value)
{
	return !value || node_is(value, JSON_NULL) || node_is(value, JSON_STRING);
}

/* Checks one value of the envelope; returns what it must be, or NULL if it is that. */
static const char *envelope_rule(enum profile_key key, const struct json_node *value)
{
	switch (key) {
	case PROFILE_KEY_event:
	case PROFILE_KEY_model:
		return node_has_text(value) ? NULL : "a non-empty string";
	case PROFILE_KEY_commit_sha:
		return node_is(value, JSON_NULL) || node_has_text(value) ? NULL
									 : "a non-empty string or null";
	case PROFILE_KEY_env_hash:
		return node_is(value, JSON_STRING) && !strncmp(value->text, "sha256:", 7)
			       ? NULL
			       : "a string that starts with sha256:";
	case PROFILE_KEY_concurrency:
		return node_s64(value) >= 1 && node_s64(value) <= UINT32_MAX
			       ? NULL
			       : "an integer from 1 to 4294967295";
	case PROFILE_KEY_graph_enabled:
		return node_is_bool(value) ? NULL : "true or false";
	default:
		return node_is(value, JSON_OBJECT) ? NULL : "an object";
	}
}

/* shape and stage_us, whoever wrote them, contain no objects or arrays. */
static bool check_scalars(
	struct profile_check *check, const char *name, const struct json_node *object)
{
	char key_text[64];

	json_for_each (value, object) {
		if (node_is_scalar(value))
			continue;
		LINE_PROBLEM(check, "%s.%s must be a scalar", name,
			text_printable(key_text, sizeof(key_text), value->key));
		return false;
	}
	return true;
}

/* ---- the fields of each family ---- */

enum family_number {
#define FAMILY(family, events) NUMBER_##family,
#include "schema/profile_fields.h"
#include "schema/profile_keys.h"
};

enum family {
#define FAMILY(family, events) family = 1 << NUMBER_##family,
#include "schema/profile_fields.h"
	REQUESTS = STEPS | SEQUENCE | SOCKET,
	WHOLE = TOKEN | OP | SYSCALL | FAULT | SCHED, /* the parts among their stages sum to total */
};

enum type {
	TYPE_COUNT, /* from 0, 1 and 2 */
	TYPE_POSITIVE,
	TYPE_SEVERAL,
	TYPE_INTEGER,
	TYPE_US,
	TYPE_PART,
	TYPE_SHARE,
	TYPE_SOME_SHARE,
	TYPE_TEXT,
	TYPE_STRING,
	TYPE_CHOICE,
	TYPE_TRUE,
	TYPE_FALSE,
	TYPE_BOOL,
	/* as the report reads them, which accepts names of later versions; window_prof's have a rule of their own */
	TYPE_STATE = TYPE_STRING,
	TYPE_PARTS = TYPE_STRING,
	TYPE_DIGITS = TYPE_STRING,
	TYPE_PCI = TYPE_STRING,
	TYPE_UUID = TYPE_STRING,
	TYPE_BOOT_ID = TYPE_STRING,
	TYPE_SHIFT = TYPE_STRING,
	TYPE_THOUSANDTHS = TYPE_US,
};
#define TYPE_ONE_OF(...) TYPE_CHOICE

static const struct field {
	unsigned int families;
	bool stage;
	const char *key, *type_text, *need;
	enum type type;
} fields[] = {
#define SHAPE(families, key, type, need, text) { families, false, #key, #type, #need, TYPE_##type },
#define STAGE(families, key, type, need, text) { families, true, #key, #type, #need, TYPE_##type },
#include "schema/profile_fields.h"
};

#define N_FIELDS (sizeof(fields) / sizeof(fields[0]))

/* Names of the parts of a request's time, and of the GPU's; other capitals stand for any name. */
static const char *const spans[] = { "own_prefill", "own_decode", "others", "between", "queued", NULL };
static const char *const gpu_parts[] = { "busy", "copy", "idle_launch", "idle_wait", "collective", "unknown", NULL };

#define N_SPANS 5

/* Whether a key matches a row of the table, or the rest of a row whose first capitals were matched. */
static bool key_matches(const char *row, const char *key)
{
	const char *const *names;

	for (; *row == *key && !isupper((unsigned char)*row); row++, key++) {
		if (!*row)
			return true;
	}
	if (!isupper((unsigned char)*row))
		return false;
	if (*row == 'N' && !isupper((unsigned char)row[1])) {
		size_t digits = strspn(key, "0123456789");

		return digits && key_matches(row + 1, key + digits);
	}
	names = !strncmp(row, "SPAN", 4) ? spans : !strncmp(row, "PART", 4) ? gpu_parts
									    : NULL;
	while (isupper((unsigned char)*row))
		row++;
	for (; names && *names; names++) {
		if (!strncmp(key, *names, strlen(*names)) && key_matches(row, key + strlen(*names)))
			return true;
	}
	for (; !names && *key; key++) {
		if (key_matches(row, key + 1))
			return true;
	}
	return false;
}

/* Lists of rows whose keys begin alike, by their numbers from 1; 0: the end. Rows that begin with capitals are in list 0. */
static uint16_t first_rows[UCHAR_MAX + 1], next_rows[N_FIELDS];

static void index_fields(void)
{
	memset(first_rows, 0, sizeof(first_rows));
	for (size_t n = N_FIELDS; n > 0; n--) {
		unsigned char c = (unsigned char)fields[n - 1].key[0];
		uint16_t *first = &first_rows[isupper(c) ? 0 : c];

		next_rows[n - 1] = *first;
		*first = (uint16_t)n;
	}
}

/* Finds the row with the whole key, else the first row of the table with capitals that matches. */
static const struct field *find_field(const struct profile_check *check, bool stage, const char *key)
{
	for (int pass = 0; pass < 3; pass++) {
		for (uint16_t n = first_rows[pass < 2 ? (unsigned char)*key : 0]; n; n = next_rows[n - 1]) {
			const struct field *f = &fields[n - 1];

			if (f->families & check->family && f->stage == stage && (pass ? key_matches(f->key, key) : !strcmp(f->key, key)))
				return f;
		}
	}
	return NULL;
}

/* Whether a value is one of "(sample or wait)". */
static bool is_choice(const struct json_node *value, const char *choices)
{
	for (const char *p = strchr(choices, '(') + 1, *end; node_is(value, JSON_STRING); p = end + strlen(" or ")) {
		end = strstr(p, " or ") ?: strchr(p, ')');
		if (value->len == (size_t)(end - p) && !memcmp(p, value->text, value->len))
			return true;
		if (*end == ')')
			break;
	}
	return false;
}

/* The family of a line, of a request by its kind; 0: unknown */
static unsigned int find_family(const struct json_node *event, const struct json_node *kind)
{
	unsigned int found = 0;

#define FAMILY(family, events) found |= is_choice(event, "(" #events ")") ? family : 0;
#include "schema/profile_fields.h"
	if (!(found & REQUESTS))
		return found;
	if (node_is_text(kind, "sequence"))
		return SEQUENCE;
	return node_is_text(kind, "socket") ? SOCKET : node_is_text(kind, "steps") ? STEPS
										   : 0;
}

/* Checks one value of a family; returns what it must be, perhaps in buf, or NULL if it is that. */
static const char *field_rule(const struct field *f, const struct json_node *value, char *buf, size_t size)
{
	static const char *const from[] = { "an integer >= 0", "an integer >= 1", "an integer >= 2" };
	bool number = node_is(value, JSON_INT) || node_is(value, JSON_REAL);
	int64_t ns;

	switch (f->type) {
	case TYPE_COUNT:
	case TYPE_POSITIVE:
	case TYPE_SEVERAL:
		return node_is(value, JSON_INT) && node_s64(value) >= (int64_t)f->type ? NULL : from[f->type];
	case TYPE_INTEGER:
		return node_is(value, JSON_INT) ? NULL : "an integer";
	case TYPE_US:
	case TYPE_PART:
		return !node_us_to_ns(value, &ns) && ns >= 0 ? NULL : "a number >= 0";
	case TYPE_SHARE:
		return number && node_double(value) >= 0 && node_double(value) <= 1 ? NULL : "from 0 to 1";
	case TYPE_SOME_SHARE:
		return number && node_double(value) > 0 && node_double(value) <= 1 ? NULL : "over 0, and at most 1";
	case TYPE_TEXT:
		return node_has_text(value) ? NULL : "a non-empty string";
	case TYPE_STRING:
		return node_is(value, JSON_STRING) ? NULL : "a string";
	case TYPE_CHOICE:
		snprintf(buf, size, "%.*s", (int)strlen(f->type_text) - (int)strlen("ONE_OF()"), strchr(f->type_text, '(') + 1);
		return is_choice(value, f->type_text) ? NULL : buf;
	case TYPE_TRUE:
		return node_is(value, JSON_TRUE) ? NULL : "true";
	case TYPE_FALSE:
		return node_is(value, JSON_FALSE) ? NULL : "false";
	default:
		return node_is_bool(value) ? NULL : "true or false";
	}
}

/* Checks each known key of a shape, and those that must be there. */
static void check_fields(struct profile_check *check, const struct json_node *shape)
{
	const char *rule;
	char key_text[64], buf[64];

	json_for_each (value, shape) {
		const struct field *f = find_field(check, false, value->key);

		rule = f ? field_rule(f, value, buf, sizeof(buf)) : NULL;
		if (rule)
			LINE_PROBLEM(check, "shape.%s must be %s", text_printable(key_text, sizeof(key_text), value->key), rule);
	}
	for (const struct field *f = fields; f < fields + N_FIELDS; f++) {
		if (f->families & check->family && !f->stage && !strcmp(f->need, "ALWAYS") && !node_get(shape, f->key))
			LINE_PROBLEM(check, "shape.%s must be %s", f->key, field_rule(f, NULL, buf, sizeof(buf)));
	}
}

/*
 * Checks the stages of a line that inftrace wrote: microseconds with whole nanoseconds. In the WHOLE families all stages sum
 * to total, to the nanosecond, except those that the table has as no PART.
 */
static bool check_stages(struct profile_check *check, const struct json_node *stages)
{
	int64_t ns, sum = 0, total = -1;
	const struct field *f;
	char key_text[64];
	int ret;

	json_for_each (value, stages) {
		ret = node_us_to_ns(value, &ns);
		if (ret || ns < 0) {
			LINE_PROBLEM(check, "stage_us.%s must be %s", text_printable(key_text, sizeof(key_text), value->key),
				ret == 1 ? "a whole number of nanoseconds" : "a number >= 0");
			return false;
		}
		f = find_field(check, true, value->key);
		if (!strcmp(value->key, "total"))
			total = ns;
		else if ((!f || f->type == TYPE_PART) && __builtin_add_overflow(sum, ns, &sum))
			sum = -1;
	}
	f = find_field(check, true, "total");
	if (total < 0 && f && !strcmp(f->need, "ALWAYS"))
		LINE_PROBLEM(check, "missing stage: stage_us.total");
	else if (check->family & WHOLE && sum != total)
		LINE_PROBLEM(check, "stage_us: the states sum to %lld ns, total is %lld ns (%+lld ns)", (long long)sum, (long long)total,
			(long long)(sum - total));
	return true;
}

/* ---- rules over several values; a value that is no number was reported already, and is in no sum ---- */

static int64_t ns_of(const struct json_node *object, const char *key)
{
	int64_t ns;

	return node_us_to_ns(node_get(object, key), &ns) < 0 ? -1 : ns;
}

/* Sums the members that match a row, except instants; INT64_MIN: overflow. Returns their number; 0, and a sum of -1, if one is
 * no number. */
static size_t sum_of(const struct json_node *object, const char *row, int64_t *ret_sum)
{
	int64_t ns, sum = 0;
	size_t n = 0;

	*ret_sum = -1;
	json_for_each (value, object) {
		if (!key_matches(row, value->key) || text_has_suffix(value->key, "_ts_us"))
			continue;
		n++;
		if (node_us_to_ns(value, &ns) || ns < 0)
			return 0;
		if (__builtin_add_overflow(sum, ns, &sum))
			sum = INT64_MIN;
	}
	*ret_sum = sum;
	return n;
}

static int64_t ns_or_0(const struct json_node *object, const char *key)
{
	int64_t ns = ns_of(object, key);

	return ns > 0 ? ns : 0;
}

/* Sums the causes of a time, their keys beginning with the prefix. False: there are none. */
static bool path_sum(const struct json_node *shape, const char *prefix, int64_t *ret_sum)
{
	static const char *const more[] = { "_rest_us", "_unknown_us" };
	char key[32];

	snprintf(key, sizeof(key), "%sN_us", prefix);
	if (!sum_of(shape, key, ret_sum) || *ret_sum < 0)
		return false;
	for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++) {
		snprintf(key, sizeof(key), "%s%s", prefix, more[i]);
		if (__builtin_add_overflow(*ret_sum, ns_or_0(shape, key), ret_sum))
			*ret_sum = INT64_MAX;
	}
	return true;
}

/* Checks that the causes of a time in which no step ran sum to it. */
static void check_path(struct profile_check *check, const struct json_node *shape, const char *what, int64_t ns)
{
	int64_t sum;

	if (ns >= 0 && path_sum(shape, "path", &sum) && sum != ns)
		LINE_PROBLEM(check, "shape: the causes sum to %lld ns, %s to %lld ns", (long long)sum, what, (long long)ns);
}

/* Checks that what a step waited for is within it. */
static void check_waits(struct profile_check *check, const struct json_node *shape, int64_t total)
{
	int64_t sum;

	if (total >= 0 && path_sum(shape, "wait", &sum) && sum > total)
		LINE_PROBLEM(check, "shape: the causes of its waits sum to %lld ns, the step took %lld ns", (long long)sum, (long long)total);
}

/* Checks that the spans of a request sum to total, and the states and GPU parts of each span to the span. */
static void check_request_sums(struct profile_check *check, const struct json_node *shape, const struct json_node *stages)
{
	int64_t total = ns_of(stages, "total"), sum;
	char row[64];

	for (size_t i = 0; i < N_SPANS; i++) {
		int64_t ns = ns_of(stages, spans[i]);

		snprintf(row, sizeof(row), "%s_STATE", spans[i]);
		if (sum_of(stages, row, &sum) && sum != ns)
			LINE_PROBLEM(check, "stage_us: the states of %s sum to %lld ns, it is %lld ns", spans[i], (long long)sum,
				(long long)(ns < 0 ? 0 : ns));
	}
	if (sum_of(stages, "SPAN", &sum) && sum != total)
		LINE_PROBLEM(check, "stage_us: the parts of the request sum to %lld ns, total is %lld ns (%+lld ns)", (long long)sum,
			(long long)total, (long long)(sum - total));
	for (size_t i = 0; i < N_SPANS; i++) {
		snprintf(row, sizeof(row), "%s_gpu_PART_us", spans[i]);
		if (sum_of(shape, row, &sum) && sum != ns_of(stages, spans[i]))
			LINE_PROBLEM(check, "shape: the parts of the GPU of %s do not sum to it", spans[i]);
	}
	if (path_sum(shape, "answer", &sum) && sum != ns_of(stages, "first_answered"))
		LINE_PROBLEM(check, "shape: the causes of the answer sum to %lld ns, first_answered is %lld ns", (long long)sum, (long long)ns_of(stages, "first_answered"));
	check_path(check, shape, "queued, without behind_others, and between",
		ns_or_0(stages, "queued") - ns_or_0(stages, "behind_others") + ns_or_0(stages, "between"));
}

/* Checks what the recorder says it cost a step: not more than the time of its threads. */
static void check_tracer(struct profile_check *check, const struct json_node *shape, const struct json_node *stages)
{
	int64_t ns = ns_of(shape, "tracer_us"), total = ns_of(stages, "total"), workers = ns_of(stages, "workers_total");

	if (ns >= 0 && ns_of(shape, "tracer_waited_us") > ns)
		LINE_PROBLEM(check, "shape.tracer_waited_us is more than tracer_us");
	else if (ns >= 0 && total >= 0 && ns - total > (workers < 0 ? 0 : workers))
		LINE_PROBLEM(check, "shape.tracer_us is more than all threads of the step had");
}

/* Checks that the parts of a GPU, and of each of several, add up to the step, and what the CPU did in a gap to the gap. */
static void check_gpu(struct profile_check *check, const struct json_node *shape, int64_t total)
{
	size_t n, parts = sizeof(gpu_parts) / sizeof(gpu_parts[0]) - 1;
	char row[64], key[64];
	bool any = false;
	int64_t sum;

	json_for_each (value, shape)
		any |= !strncmp(value->key, "gpu_", 4);
	if (!any)
		return;
	n = sum_of(shape, "gpu_PART_us", &sum) + !node_get(shape, "gpu_collective_us"); /* which is in some lines only */
	if (n > 1 && n < parts)
		LINE_PROBLEM(check, "shape: some of the parts of the GPU are missing");
	else if (n == parts && total >= 0 && sum != total)
		LINE_PROBLEM(check, "shape: the parts of the GPU sum to %lld ns, total is %lld ns (%+lld ns)", (long long)sum,
			(long long)total, (long long)(sum - total));
	for (unsigned int i = 0; i < GPU_DEVICES_MAX && total >= 0; i++) {
		snprintf(row, sizeof(row), "gpu_device%u_PART_us", i);
		if (sum_of(shape, row, &sum) && sum != total)
			LINE_PROBLEM(check, "shape: the parts of GPU %u sum to %lld ns, total is %lld ns", i, (long long)sum, (long long)total);
	}
	for (int i = 1; i <= GPU_GAPS; i++) {
		snprintf(row, sizeof(row), "gpu_gap%d_STATE_us", i);
		snprintf(key, sizeof(key), "gpu_gap%d_us", i);
		if (sum_of(shape, row, &sum) && sum != ns_of(shape, key))
			LINE_PROBLEM(check, "shape: the states of gpu_gap%d sum to %lld ns, it is %lld ns", i, (long long)sum,
				(long long)ns_of(shape, key));
	}
}

/* Checks that the GPU time of operators adds up. */
static void check_gpu_ops(struct profile_check *check, const struct json_node *shape)
{
	int64_t sum, total = ns_of(shape, "gpu_us"), none = ns_of(shape, "gpu_unattributed_us");

	sum_of(shape, "g_NAME_us", &sum);
	if (total < 0 || sum == -1)
		return;
	if (none > 0 && __builtin_add_overflow(sum, none, &sum))
		sum = INT64_MIN;
	if (sum != total)
		LINE_PROBLEM(check, "shape: the GPU times of operators sum to %lld ns, which is not gpu_us", (long long)sum);
}

/* Checks what relates a window to recordings of other machines; older lines lack it. */
static void check_host(struct profile_check *check, const struct json_node *shape)
{
	struct host_id id;

	host_id_from_json(&id, shape);
	if (!id.boot_id[0] && (node_get(shape, KEY(boot_id)) || node_get(shape, KEY(boottime_shift_ns))))
		LINE_PROBLEM(check, "shape.boot_id must be a boot id of Linux, shape.boottime_shift_ns nanoseconds as a string");
}

/* Checks the hottest functions of operators: a name, its share, and the number of samples. */
static void check_hot_ops(struct profile_check *check, const struct json_node *shape)
{
	static const char *const with[] = { "fs_", "s_", "n_" };
	char key_text[64], key[256];

	json_for_each (value, shape) {
		if (strncmp(value->key, "f_", 2))
			continue;
		for (size_t i = 0; i < sizeof(with) / sizeof(with[0]); i++) {
			snprintf(key, sizeof(key), "%s%.240s", with[i], value->key + 2);
			if (node_get(shape, key))
				continue;
			LINE_PROBLEM(check, "shape.%s must be a function, with its share, and the samples and calls of the operator",
				text_printable(key_text, sizeof(key_text), value->key));
			break;
		}
	}
}

/* Frames are in the first line of a file that has the stack. */
static void check_stack(struct profile_check *check, const struct json_node *stack, const struct json_node *frames)
{
	bool whole = node_is(frames, JSON_ARRAY) && json_next(frames, NULL);
	struct known_stack *known;
	uint64_t id = node_u64(stack);

	HASH_FIND(hh, check->stacks, &id, sizeof(id), known);
	if (!known && !frames && HASH_COUNT(check->stacks) < STACKS_MAX)
		LINE_PROBLEM(check, "shape.stack is %llu, whose frames were in no line before", (unsigned long long)id);
	if (known || !frames)
		return;
	for (const struct json_node *frame = NULL; whole && (frame = json_next(frames, frame));)
		whole = node_is(frame, JSON_STRING);
	if (!whole)
		LINE_PROBLEM(check, "frames must be a list of strings, the innermost first");
	if (!whole || HASH_COUNT(check->stacks) == STACKS_MAX)
		return;
	known = xcalloc(1, sizeof(*known));
	known->id = id;
	HASH_ADD(hh, check->stacks, id, sizeof(known->id), known);
}

static void stacks_clear(struct profile_check *check)
{
	struct known_stack *known, *next;

	HASH_ITER(hh, check->stacks, known, next)
	{
		HASH_DEL(check->stacks, known);
		free(known);
	}
}

/* Checks a line that inftrace wrote. */
static void check_native(struct profile_check *check, const struct profile_line *line)
{
	const struct json_node *shape = line->values[PROFILE_KEY_shape], *stages = line->values[PROFILE_KEY_stage_us];
	const struct json_node *window = node_get(shape, KEY(window)), *stack = node_get(shape, KEY(stack));

	check->family = find_family(line->values[PROFILE_KEY_event], node_get(shape, KEY(source_kind)));
	if (window && (!node_is(window, JSON_INT) || node_s64(window) < 0)) {
		LINE_PROBLEM(check, "shape.window must be an integer >= 0");
		return;
	}
	if (check->family == STACK && node_is(stack, JSON_INT) && node_s64(stack) >= 0)
		check_stack(check, stack, node_get(line->object, "frames"));
	check_fields(check, shape);
	if (check_stages(check, stages) && node_is_text(line->values[PROFILE_KEY_event], "request_prof"))
		check_request_sums(check, shape, stages);
	if (check->family == WINDOW)
		check_host(check, shape);
	if (check->family == TOKEN) {
		check_tracer(check, shape, stages);
		check_path(check, shape, KEY(gap_us), ns_of(shape, KEY(gap_us)));
		check_waits(check, shape, ns_of(stages, "total"));
		check_gpu(check, shape, ns_of(stages, "total"));
	}
	if (check->family == OP) {
		check_gpu_ops(check, shape);
		check_hot_ops(check, shape);
	}
}

static int check_line(void *ctx, const struct profile_line *line)
{
	const struct json_node *const *values = line->values;
	struct profile_check *check = ctx;
	const char *rule;

	check->line = line->number;
	check->lines++;
	for (enum profile_key key = 0; key < PROFILE_REQUIRED; key++) {
		rule = envelope_rule(key, values[key]);
		if (!rule)
			continue;
		LINE_PROBLEM(check, "%s must be %s", profile_key_name(key), rule);
		return 0;
	}
	if (!string_or_null(values[PROFILE_KEY_source]) ||
		!string_or_null(values[PROFILE_KEY_source_line])) {
		LINE_PROBLEM(check, "source and source_line must be strings where they are given");
		return 0;
	}
	if (!check_scalars(check, "shape", values[PROFILE_KEY_shape]) ||
		!check_scalars(check, "stage_us", values[PROFILE_KEY_stage_us]))
		return 0;

	/* those of other versions have rules that are not known here */
	if (node_is_text(values[PROFILE_KEY_source], "native") && node_s64(node_get(line->object, PROFILE_MARK)) == 1)
		check_native(check, line);
	for (size_t i = 0; i < check->required_len; i++)
		if (node_is_text(values[PROFILE_KEY_event], check->required[i]))
			check->required_seen |= 1ULL << i;
	name_counts_add(&check->families, values[PROFILE_KEY_event]->text);
	return 0;
}

static void check_bad_line(void *ctx, uint64_t number, const char *why)
{
	struct profile_check *check = ctx;

	check->line = number;
	check->lines++;
	LINE_PROBLEM(check, "%s", why);
}

static void check_required(struct profile_check *check)
{
	char *missing = NULL, name[1024];
	size_t size = 0;
	FILE *out = open_memstream(&missing, &size);

	if (!out)
		out_of_memory();
	for (size_t i = 0; i < check->required_len; i++) {
		if (!(check->required_seen >> i & 1))
			fprintf(out, "%s%s", ftell(out) ? ", " : "", text_printable(name, sizeof(name), check->required[i]));
	}
	if (fclose(out))
		out_of_memory();
	if (size)
		check_problem(check->report, "missing profile event groups: %s", missing);
	free(missing);
}

void check_profile(struct json_source *source, const char *path, const char *const *required,
	size_t required_len, struct check_report *report, FILE *out)
{
	static const struct profile_reader_ops ops = { .line = check_line, .bad = check_bad_line };
	struct profile_check check = { .report = report, .required = required };
	int err;

	check.required_len = required_len < REQUIRED_MAX ? required_len : REQUIRED_MAX;
	index_fields();
	err = profile_read(source, &ops, &check);
	stacks_clear(&check);
	if (err)
		return;
	check_required(&check);
	fprintf(out, "%s: profile%s, %llu line%s: ", path, source->gzip ? " (gzip)" : "",
		(unsigned long long)check.lines, check.lines == 1 ? "" : "s");
	name_counts_print(&check.families, out);
	if (!check.lines)
		fputs("; note: no events", out);
	check_summary_end(report, out);
}
