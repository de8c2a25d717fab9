// SPDX-License-Identifier: BSD-2-Clause
/* The rules of a profile JSONL: docs/profile-schema.md. */
#include "read/profile.h"

#include <errno.h>
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
};

/* Reports a problem of the current line. */
#define LINE_PROBLEM(check, fmt, ...)                                                        \
	check_problem((check)->report, "line %llu: " fmt, (unsigned long long)(check)->line, \
		##__VA_ARGS__)

static bool is_text(const struct json_node *value)
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
		return is_text(value) ? NULL : "a non-empty string";
	case PROFILE_KEY_commit_sha:
		return node_is(value, JSON_NULL) || is_text(value) ? NULL
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

static const char *const whole_families[] = { "token_prof", "op_prof", "syscall_prof", "fault_prof",
	"sched_prof" };

/* Checks the number of the window, in lines that inftrace wrote. */
static bool check_window(struct profile_check *check, const struct json_node *shape)
{
	const struct json_node *window = node_get(shape, "window");

	if (!window || (node_is(window, JSON_INT) && node_s64(window) >= 0))
		return true;
	LINE_PROBLEM(check, "shape.window must be an integer >= 0");
	return false;
}

/* Checks by what a window is related to recordings of other machines; older lines do not have it. */
static void check_host(struct profile_check *check, const struct json_node *shape)
{
	struct host_id id;

	host_id_from_json(&id, shape);
	if (!id.boot_id[0] && (node_get(shape, "boot_id") || node_get(shape, "boottime_shift_ns")))
		LINE_PROBLEM(check, "shape.boot_id must be a boot id of Linux, shape.boottime_shift_ns nanoseconds as a string");
}

/*
 * Checks the stages of a line that inftrace wrote: microseconds with whole nanoseconds; in the
 * families named below, all except total and the workers' sums add up to total, to the nanosecond.
 */
static void check_native_stages(
	struct profile_check *check, const struct json_node *stages, const char *family)
{
	int64_t ns, sum = 0, total = -1;
	char key_text[64];
	bool whole = false;
	int ret;

	for (size_t i = 0; i < sizeof(whole_families) / sizeof(whole_families[0]); i++)
		whole |= !strcmp(family, whole_families[i]);
	json_for_each (value, stages) {
		const char *key = value->key;

		ret = node_us_to_ns(value, &ns);
		if (ret || ns < 0) {
			LINE_PROBLEM(check, "stage_us.%s must be %s",
				text_printable(key_text, sizeof(key_text), key),
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

/* The parts that a request's whole time is divided into; each may be divided again by state. */
static const char *const spans[] = { "queued", "own_prefill", "own_decode", "others", "between" };

#define N_SPANS (sizeof(spans) / sizeof(spans[0]))

/* Whether a stage belongs to a span; *ret_state: it is one of the states of the span. */
static bool find_span(const char *key, size_t *ret_span, bool *ret_state)
{
	for (size_t i = 0; i < N_SPANS; i++) {
		size_t len = strlen(spans[i]);

		if (strncmp(key, spans[i], len) || (key[len] && key[len] != '_'))
			continue;
		*ret_span = i;
		*ret_state = key[len];
		return true;
	}
	return false;
}

/* Checks that the spans of a request add up to total, and the states of a span to the span. */
static void check_spans(struct profile_check *check, const struct json_node *stages)
{
	int64_t ns, sum = 0, total = -1, span_ns[N_SPANS], states[N_SPANS];
	bool any = false, state;
	size_t span;

	for (size_t i = 0; i < N_SPANS; i++)
		span_ns[i] = states[i] = -1;
	json_for_each (value, stages) {
		if (node_us_to_ns(value, &ns) || ns < 0)
			return; /* it was said */
		if (!strcmp(value->key, "total"))
			total = ns;
		if (!find_span(value->key, &span, &state))
			continue;
		if (!state) {
			any = true;
			span_ns[span] = ns;
			if (__builtin_add_overflow(sum, ns, &sum))
				sum = -1;
		} else if (__builtin_add_overflow(states[span] < 0 ? 0 : states[span], ns, &states[span])) {
			states[span] = INT64_MAX;
		}
	}
	for (size_t i = 0; i < N_SPANS; i++) {
		if (states[i] >= 0 && states[i] != span_ns[i])
			LINE_PROBLEM(check, "stage_us: the states of %s sum to %lld ns, it is %lld ns", spans[i],
				(long long)states[i], (long long)(span_ns[i] < 0 ? 0 : span_ns[i]));
	}
	if (any && sum != total)
		LINE_PROBLEM(check, "stage_us: the parts of the request sum to %lld ns, total is %lld ns (%+lld ns)",
			(long long)sum, (long long)total, (long long)(sum - total));
}

/* Checks what the recorder says it cost a step: not more than the time of its threads. */
static void check_tracer(struct profile_check *check, const struct json_node *shape, const struct json_node *stages)
{
	const struct json_node *tracer = node_get(shape, "tracer_us"), *waited = node_get(shape, "tracer_waited_us");
	const struct json_node *total = node_get(stages, "total"), *workers = node_get(stages, "workers_total");
	int64_t ns, waited_ns = 0, total_ns = 0, workers_ns = 0;

	if (!tracer)
		return;
	if (node_us_to_ns(tracer, &ns) || ns < 0 || (waited && (node_us_to_ns(waited, &waited_ns) || waited_ns < 0)))
		LINE_PROBLEM(check, "shape.tracer_us must be a number >= 0");
	else if (waited_ns > ns)
		LINE_PROBLEM(check, "shape.tracer_waited_us is more than tracer_us");
	else if (total && !node_us_to_ns(total, &total_ns) && (!workers || !node_us_to_ns(workers, &workers_ns)) &&
		 ns - total_ns > workers_ns)
		LINE_PROBLEM(check, "shape.tracer_us is more than all threads of the step had");
}

/* Checks that the parts of a GPU add up to the step. */
static void check_gpu(struct profile_check *check, const struct json_node *shape, const struct json_node *stages)
{
	static const char *const parts[] = { "gpu_busy_us", "gpu_copy_us", "gpu_idle_launch_us", "gpu_idle_wait_us", "gpu_unknown_us",
		"gpu_collective_us" /* in some lines only */ };
	const struct json_node *total = node_get(stages, "total");
	int64_t ns, sum = 0, total_ns;
	size_t found = 0;

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		const struct json_node *part = node_get(shape, parts[i]);

		if (!part)
			continue;
		found += i < sizeof(parts) / sizeof(parts[0]) - 1;
		if (node_us_to_ns(part, &ns) || ns < 0 || __builtin_add_overflow(sum, ns, &sum)) {
			LINE_PROBLEM(check, "shape.%s must be a number >= 0", parts[i]);
			return;
		}
	}
	if (!found)
		return;
	if (found < sizeof(parts) / sizeof(parts[0]) - 1)
		LINE_PROBLEM(check, "shape: some of the parts of the GPU are missing");
	else if (total && !node_us_to_ns(total, &total_ns) && sum != total_ns)
		LINE_PROBLEM(check, "shape: the parts of the GPU sum to %lld ns, total is %lld ns (%+lld ns)", (long long)sum,
			(long long)total_ns, (long long)(sum - total_ns));
}

/* Checks that the parts of each of several GPUs add up to the step. */
static void check_gpu_devices(struct profile_check *check, const struct json_node *shape, const struct json_node *stages)
{
	const struct json_node *total = node_get(stages, "total");
	int64_t sum[GPU_DEVICES_MAX] = { 0 }, total_ns, ns;
	bool any[GPU_DEVICES_MAX] = { 0 };
	uint32_t device;
	const char *key;

	if (!total || node_us_to_ns(total, &total_ns))
		return;
	json_for_each (value, shape) {
		key = profile_key_numbered(value->key, "gpu_device", &device);
		if (!key || device >= GPU_DEVICES_MAX || !text_has_suffix(key, "_us") || !strcmp(key, "after_us"))
			continue;
		any[device] = true;
		if (node_us_to_ns(value, &ns) || ns < 0 || __builtin_add_overflow(sum[device], ns, &sum[device]))
			sum[device] = INT64_MIN; /* and stays wrong */
	}
	for (device = 0; device < GPU_DEVICES_MAX; device++) {
		if (any[device] && sum[device] != total_ns)
			LINE_PROBLEM(check, "shape: the parts of GPU %u sum to %lld ns, total is %lld ns", device, (long long)sum[device],
				(long long)total_ns);
	}
}

/* Checks that what the CPU did in a gap of the GPU adds up to it. */
static void check_gpu_gaps(struct profile_check *check, const struct json_node *shape)
{
	int64_t sum[GPU_GAPS] = { 0 }, whole[GPU_GAPS], ns;
	bool any[GPU_GAPS] = { 0 };

	memset(whole, -1, sizeof(whole));
	json_for_each (value, shape) {
		uint32_t number = 0;
		const char *key = profile_key_numbered(value->key, "gpu_gap", &number);
		uint32_t i = number - 1;

		if (i >= GPU_GAPS || !strcmp(key, "ts_us") || (strcmp(key, "us") && !text_has_suffix(key, "_us")))
			continue;
		if (node_us_to_ns(value, &ns) || ns < 0)
			ns = INT32_MAX;
		if (!strcmp(key, "us")) {
			whole[i] = ns;
			continue;
		}
		any[i] = true;
		if (__builtin_add_overflow(sum[i], ns, &sum[i]))
			sum[i] = -1;
	}
	for (int i = 0; i < GPU_GAPS; i++) {
		if (any[i] && sum[i] != whole[i])
			LINE_PROBLEM(check, "shape: the states of gpu_gap%d sum to %lld ns, it is %lld ns", i + 1, (long long)sum[i],
				(long long)whole[i]);
	}
}

/* Checks that the GPU time of operators adds up. */
static void check_gpu_ops(struct profile_check *check, const struct json_node *shape)
{
	const struct json_node *total = node_get(shape, "gpu_us");
	int64_t ns, sum = 0, total_ns;
	char key_text[64];

	if (!total)
		return;
	json_for_each (value, shape) {
		if (strncmp(value->key, "g_", 2) && strcmp(value->key, "gpu_unattributed_us"))
			continue;
		if (node_us_to_ns(value, &ns) || ns < 0 || __builtin_add_overflow(sum, ns, &sum)) {
			LINE_PROBLEM(check, "shape.%s must be a number >= 0", text_printable(key_text, sizeof(key_text), value->key));
			return;
		}
	}
	if (node_us_to_ns(total, &total_ns) || sum != total_ns)
		LINE_PROBLEM(check, "shape: the GPU times of operators sum to %lld ns, which is not gpu_us", (long long)sum);
}

/* Checks the hottest functions of operators: a name, its share, and the number of samples. */
static void check_hot_ops(struct profile_check *check, const struct json_node *shape)
{
	char key_text[64], key[256];

	json_for_each (value, shape) {
		const char *name = value->key + 2, *function = node_string(value);
		const struct json_node *share, *samples, *calls;

		if (strncmp(value->key, "f_", 2))
			continue;
		snprintf(key, sizeof(key), "fs_%.240s", name);
		share = node_get(shape, key);
		snprintf(key, sizeof(key), "s_%.240s", name);
		samples = node_get(shape, key);
		snprintf(key, sizeof(key), "n_%.240s", name);
		calls = node_get(shape, key);
		if (!function || !*function || !share || !node_is(samples, JSON_INT) || node_s64(samples) < 1 || !calls)
			LINE_PROBLEM(check, "shape.%s must be a function, with its share, and the samples and calls of the operator",
				text_printable(key_text, sizeof(key_text), value->key));
		else if (node_double(share) <= 0 || node_double(share) > 1)
			LINE_PROBLEM(check, "shape.fs_%s must be over 0, and at most 1",
				text_printable(key_text, sizeof(key_text), name));
	}
}

/* Checks that what the GPU did in each part of a request's time adds up to it. */
static void check_gpu_request(struct profile_check *check, const struct json_node *shape, const struct json_node *stages)
{
	static const char *const own[] = { "own_prefill", "own_decode", "others", "between" };

	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
		const struct json_node *total = node_get(stages, own[i]);
		int64_t ns, sum = 0, total_ns;
		size_t len = strlen(own[i]);
		bool any = false;

		json_for_each (value, shape) {
			if (strncmp(value->key, own[i], len) || strncmp(value->key + len, "_gpu_", 5))
				continue;
			any = true;
			if (node_us_to_ns(value, &ns) || ns < 0 || __builtin_add_overflow(sum, ns, &sum))
				sum = -1;
		}
		if (any && (!total || node_us_to_ns(total, &total_ns) || sum != total_ns))
			LINE_PROBLEM(check, "shape: the parts of the GPU of %s do not sum to it", own[i]);
	}
}

/* false: this was said */
static bool check_frames(struct profile_check *check, const struct json_node *frames)
{
	bool any = false;

	json_for_each (frame, frames) {
		any = node_is(frame, JSON_STRING);
		if (!any)
			break;
	}
	if (!node_is(frames, JSON_ARRAY) || !any)
		LINE_PROBLEM(check, "frames must be a list of strings, the innermost first");
	return node_is(frames, JSON_ARRAY) && any;
}

/* Frames are in the first line of a file that has the stack. */
static void check_stack(struct profile_check *check, const struct json_node *stack, const struct json_node *frames)
{
	struct known_stack *known;
	uint64_t id = node_u64(stack);

	if (!node_is(stack, JSON_INT) || node_s64(stack) < 0) {
		LINE_PROBLEM(check, "shape.stack must be an integer >= 0");
		return;
	}
	HASH_FIND(hh, check->stacks, &id, sizeof(id), known);
	if (!known && !frames && HASH_COUNT(check->stacks) < STACKS_MAX)
		LINE_PROBLEM(check, "shape.stack is %llu, whose frames were in no line before", (unsigned long long)id);
	if (known || !frames || !check_frames(check, frames) || HASH_COUNT(check->stacks) == STACKS_MAX)
		return;
	known = calloc(1, sizeof(*known));
	if (!known)
		return;
	known->id = id;
	HASH_ADD(hh, check->stacks, id, sizeof(known->id), known);
	if (!known->hh.tbl)
		free(known);
}

/* Checks samples or waits of a stack. */
static void check_samples(struct profile_check *check, const struct profile_line *line)
{
	const struct json_node *shape = line->values[PROFILE_KEY_shape], *kind = node_get(shape, "kind");
	const struct json_node *samples = node_get(shape, "samples"), *stack = node_get(shape, "stack");
	const char *text = node_string(kind);

	if (!text || (strcmp(text, "sample") && strcmp(text, "wait")))
		LINE_PROBLEM(check, "shape.kind must be sample or wait");
	if (!node_is(samples, JSON_INT) || node_s64(samples) < 1)
		LINE_PROBLEM(check, "shape.samples must be an integer >= 1");
	if (!node_get(line->values[PROFILE_KEY_stage_us], "total"))
		LINE_PROBLEM(check, "missing stage: stage_us.total");
	if (stack)
		check_stack(check, stack, node_get(line->object, "frames"));
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

static int check_line(void *ctx, const struct profile_line *line)
{
	const struct json_node *const *values = line->values;
	struct profile_check *check = ctx;
	const char *family, *rule;

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

	family = values[PROFILE_KEY_event]->text;
	/* those of other versions have rules that are not known here */
	if (node_is_text(values[PROFILE_KEY_source], "native") && node_s64(node_get(line->object, PROFILE_MARK)) == 1 &&
		check_window(check, values[PROFILE_KEY_shape])) {
		check_native_stages(check, values[PROFILE_KEY_stage_us], family);
		if (!strcmp(family, "request_prof")) {
			check_spans(check, values[PROFILE_KEY_stage_us]);
			check_gpu_request(check, values[PROFILE_KEY_shape], values[PROFILE_KEY_stage_us]);
		}
		if (!strcmp(family, "window_prof"))
			check_host(check, values[PROFILE_KEY_shape]);
		if (!strcmp(family, "token_prof"))
			check_tracer(check, values[PROFILE_KEY_shape], values[PROFILE_KEY_stage_us]);
		if (!strcmp(family, "token_prof")) {
			check_gpu(check, values[PROFILE_KEY_shape], values[PROFILE_KEY_stage_us]);
			check_gpu_devices(check, values[PROFILE_KEY_shape], values[PROFILE_KEY_stage_us]);
			check_gpu_gaps(check, values[PROFILE_KEY_shape]);
		}
		if (!strcmp(family, "op_prof")) {
			check_gpu_ops(check, values[PROFILE_KEY_shape]);
			check_hot_ops(check, values[PROFILE_KEY_shape]);
		}
		if (!strcmp(family, "stack_prof"))
			check_samples(check, line);
	}
	for (size_t i = 0; i < check->required_len; i++)
		if (node_is_text(values[PROFILE_KEY_event], check->required[i]))
			check->required_seen |= 1ULL << i;
	name_counts_add(&check->families, family);
	return 0;
}

static void bad_line(void *ctx, uint64_t number, const char *why)
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

	for (size_t i = 0; i < check->required_len && out; i++) {
		if (!(check->required_seen >> i & 1))
			fprintf(out, "%s%s", ftell(out) ? ", " : "", text_printable(name, sizeof(name), check->required[i]));
	}
	if (!out || fclose(out))
		check_problem(check->report, "out of memory");
	else if (size)
		check_problem(check->report, "missing profile event groups: %s", missing);
	free(missing);
}

void check_profile(struct json_source *source, const char *path, const char *const *required,
	size_t required_len, struct check_report *report, FILE *out)
{
	static const struct profile_reader_ops ops = { .line = check_line, .bad = bad_line };
	struct profile_check check = { .report = report, .required = required };
	int err;

	check.required_len = required_len < REQUIRED_MAX ? required_len : REQUIRED_MAX;
	err = profile_read(source, &ops, &check);
	stacks_clear(&check);
	if (err == -ENOMEM)
		check_problem(report, "out of memory");
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
