// SPDX-License-Identifier: BSD-2-Clause
/* inftrace record: the options of windows, of the flight recorder and of rotation. */
#include "cmd/record_window.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "io/outfile.h"
#include "record/metadata.h"
#include "record/trigger.h"
#include "record/windows.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/parse.h"
#include "util/text.h"

#define COOLDOWN_NS (10 * NSEC_PER_SEC)
#define COOLDOWN_DEFAULT UINT64_MAX
#define MAX_SIZE_MIN (UINT64_C(1) << 20)
#define FLIGHT_BYTES_MIN (UINT64_C(1) << 20)
#define FLIGHT_NS_MIN (NSEC_PER_SEC / 10)

enum {
	OPT_WINDOW_FLAG = 512,
	OPT_MAX_STEPS,
	OPT_MAX_STEPS_EACH,
	OPT_OUTPUT_DIR,
	OPT_FORMAT,
	OPT_ET_STEPS,
	OPT_FLIGHT,
	OPT_TRIGGER,
	OPT_COOLDOWN,
	OPT_MAX_DUMPS,
	OPT_MAX_SIZE,
	OPT_MIN_FREE,
	OPT_MAX_FILES,
};

static const struct argp_option options[] = {
	{ "max-size", OPT_MAX_SIZE, "SIZE", 0, "begin a new file when one has reached this size", 2 },
	{ "min-free", OPT_MIN_FREE, "SIZE|PERCENT%", 0,
		"end when less than this is free on the file system of the files (default: 5% or 1GB, whichever is less); 0: no limit", 2 },
	{ "max-files", OPT_MAX_FILES, "N", 0, "with --max-size: keep the newest N files", 2 },
	{ "output-dir", OPT_OUTPUT_DIR, "DIR", 0,
		"directory of the files of windows and dumps: for each process and window trace_pidPID_MS.json "
		"and profile_pidPID_MS.jsonl, with -a one trace_system_MS.json (default: the current one)",
		2 },
	{ "et-steps", OPT_ET_STEPS, "N", 0, "write the first N whole steps into each execution trace, and no more", 2 },
	{ "format", OPT_FORMAT, "LIST", 0,
		"formats of the files in --output-dir: of traces json,json.gz,pftrace,pftrace.gz,et,et.json,kineto.json,kineto.json.gz, of "
		"profiles jsonl or jsonl.gz (default: json,jsonl)",
		2 },
	{ "chakra-names", CMD_TRUE(struct record_options, chakra_names), NULL, 0,
		"name the traces in --output-dir kineto_pidPID_MS.json and chakra_trace_pidPID_MS.et", 2 },
	{ NULL, 0, NULL, 0, "Windows:", 3 },
	{ "window-flag", OPT_WINDOW_FLAG, "FILE", 0,
		"record while FILE exists; it must be a regular file, yours or root's", 3 },
	{ "window", CMD_TEXT(struct record_options, window_spec), "SPEC", 0,
		"manual: from inftrace start to inftrace stop; every=60s,for=2s: two seconds of each minute; with ,aligned of each minute by the wall clock, the "
		"same on all hosts",
		3 },
	{ "max-steps", OPT_MAX_STEPS, "N", 0,
		"end the window, or the run without windows, after N engine steps (default: 0, never)", 3 },
	{ "max-steps-per-process", OPT_MAX_STEPS_EACH, "N", 0,
		"leave out what a process does after its Nth step in the window; the window, or the run "
		"without windows, ends when all processes have reached theirs",
		3 },
	{ NULL, 0, NULL, 0, "Flight recorder:", 4 },
	{ "flight-recorder", OPT_FLIGHT, "SIZE|TIME", 0,
		"keep the newest 64MB or 30s in memory; dump them on SIGUSR1, inftrace dump, or a trigger", 4 },
	{ "trigger", OPT_TRIGGER, "EXPR", 0,
		"dump when step>150ms, gap>50ms (between steps), ttft>2s, request_ttft>2s, request_tpot>100ms, queue>1s, runnable>50ms (any state of the "
		"profile, or blocked), gpu_idle>5ms (with --gpu), rate<10 (tokens per second), lost>0, exit, crash; may be repeated",
		4 },
	{ "trigger-cooldown", OPT_COOLDOWN, "TIME", 0,
		"after a trigger only count others for this time (default: 10s); a crash is always dumped", 4 },
	{ "max-dumps", OPT_MAX_DUMPS, "N", 0, "after N triggers only count others", 4 },
	{ NULL, 0, NULL, 0, NULL, 0 },
};

/* ---- values ---- */

static int parse_name(const char *option, const char *arg, const char **ret)
{
	if (!*arg)
		return log_fail(-EINVAL, "%s: the name is empty", option);
	*ret = arg;
	return 0;
}

static int parse_number(const char *option, const char *arg, uint32_t least, uint32_t *ret)
{
	uint32_t n = 0;
	int err = parse_u32(arg, &n);

	if (err)
		return parse_refuse(PARSE_U32, option, arg, err);
	if (n < least)
		return log_fail(-EINVAL, "%s: must be at least %u", option, least);
	*ret = n;
	return 0;
}

static int add_format(struct record_options *o, const char *name)
{
	static const char *const known[] = { "json", "json.gz", "pftrace", "pftrace.gz", "et", "et.json", "kineto.json", "kineto.json.gz" };
	const size_t n_known = sizeof(known) / sizeof(known[0]);
	const char *format = NULL, *nearest;

	_Static_assert(sizeof(known) / sizeof(known[0]) <= FORMATS_MAX, "each may be given once");
	if (!strcmp(name, "jsonl") || !strcmp(name, "jsonl.gz")) {
		if (o->profile_format)
			return log_fail(-EINVAL, "--format: give jsonl or jsonl.gz, once");
		o->profile_format = name[5] ? "jsonl.gz" : "jsonl";
		return 0;
	}
	for (size_t i = 0; i < n_known; i++) {
		if (!strcmp(name, known[i]))
			format = known[i];
	}
	if (!format) {
		nearest = nearest_name(name, known, n_known);
		return log_fail(-EINVAL, "--format: '%.40s' is not a format%s%s; there are json, json.gz, "
					 "pftrace, pftrace.gz, et, et.json, kineto.json, kineto.json.gz, and of profiles jsonl, jsonl.gz",
			name, nearest ? "; nearest: " : "", nearest ? nearest : "");
	}
	for (size_t i = 0; i < o->n_formats; i++) {
		if (o->formats[i] == format)
			return log_fail(-EINVAL, "--format: %s is given twice", format);
	}
	o->formats[o->n_formats++] = format;
	return 0;
}

static int parse_formats(struct record_options *o, const char *list)
{
	char *copy = xstrdup(list), *rest = copy;
	int err = 0;

	while (rest && !err)
		err = add_format(o, strsep(&rest, ","));
	free(copy);
	return err;
}

static uint64_t memory_bytes(void)
{
	return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* "2m" means minutes: a size has its letter in capitals, or a B. A number alone could be either. */
static int parse_flight(struct record_options *o, const char *arg)
{
	uint64_t bytes = 0, ns = 0;
	bool has_unit = *arg && !strchr("0123456789.", arg[strlen(arg) - 1]);

	if (has_unit && !parse_duration(arg, &ns)) {
		if (ns < FLIGHT_NS_MIN)
			return log_fail(-EINVAL, "--flight-recorder: %.40s is less than 100ms", arg);
	} else if (has_unit && !parse_size(arg, &bytes)) {
		if (bytes < FLIGHT_BYTES_MIN)
			return log_fail(-EINVAL, "--flight-recorder: %.40s is less than 1MB", arg);
		if (bytes > memory_bytes())
			return log_fail(-EINVAL, "--flight-recorder: %.40s is more than the %.1f GB of memory of this machine", arg,
				(double)memory_bytes() / (1u << 30));
	} else {
		return log_fail(-EINVAL, "--flight-recorder: '%.40s' is neither a size nor a time; write 64MB or 30s",
			arg);
	}
	o->flight_bytes = bytes;
	o->flight_ns = ns;
	return 0;
}

static int parse_min_free(const char *arg, struct writer_floor *ret)
{
	size_t len = strlen(arg);
	uint32_t percent;
	uint64_t bytes;
	char number[8];
	int err;

	if (len && len < sizeof(number) && arg[len - 1] == '%') {
		snprintf(number, sizeof(number), "%.*s", (int)len - 1, arg);
		if (parse_u32(number, &percent) || percent >= 100)
			return log_fail(-EINVAL, "--min-free: '%s' is not a part of a file system; write 5%%, for example", arg);
		*ret = (struct writer_floor){ .percent = percent };
		return 0;
	}
	err = parse_size(arg, &bytes);
	if (err)
		return parse_refuse(PARSE_SIZE, "--min-free", arg, err);
	*ret = (struct writer_floor){ .bytes = bytes };
	return 0;
}

static int parse_max_size(const char *arg, uint64_t *ret)
{
	uint64_t bytes = 0;
	int err = parse_size(arg, &bytes);

	if (err)
		return parse_refuse(PARSE_SIZE, "--max-size", arg, err);
	if (bytes < MAX_SIZE_MIN)
		return log_fail(-EINVAL, "--max-size: %.40s is less than 1MB", arg);
	*ret = bytes;
	return 0;
}

static error_t window_parse_option(int key, char *arg, struct argp_state *state)
{
	struct record_options *o = state->input;
	uint32_t n = 0;
	int err = 0;

	switch (key) {
	case ARGP_KEY_INIT:
		o->trigger_cooldown_ns = COOLDOWN_DEFAULT;
		break;
	case OPT_WINDOW_FLAG:
		err = parse_name("--window-flag", arg, &o->window_flag);
		break;
	case OPT_MAX_STEPS:
		err = parse_number("--max-steps", arg, 0, &n);
		o->max_steps = n;
		break;
	case OPT_MAX_STEPS_EACH:
		err = parse_number("--max-steps-per-process", arg, 0, &o->max_steps_each);
		break;
	case OPT_ET_STEPS:
		err = parse_number("--et-steps", arg, 1, &o->et_steps);
		break;
	case OPT_OUTPUT_DIR:
		err = parse_name("--output-dir", arg, &o->output_dir);
		break;
	case OPT_FORMAT:
		err = parse_formats(o, arg);
		break;
	case OPT_FLIGHT:
		err = parse_flight(o, arg);
		break;
	case OPT_TRIGGER:
		err = trigger_parse(&o->triggers, arg);
		break;
	case OPT_COOLDOWN:
		err = parse_duration(arg, &o->trigger_cooldown_ns);
		if (err)
			parse_refuse(PARSE_DURATION, "--trigger-cooldown", arg, err);
		break;
	case OPT_MAX_DUMPS:
		err = parse_number("--max-dumps", arg, 1, &o->max_dumps);
		break;
	case OPT_MIN_FREE:
		err = parse_min_free(arg, &o->min_free);
		break;
	case OPT_MAX_SIZE:
		err = parse_max_size(arg, &o->max_size);
		break;
	case OPT_MAX_FILES:
		err = parse_number("--max-files", arg, 1, &o->max_files);
		break;
	default:
		return cmd_set(key, arg, o);
	}
	return err ? EINVAL : 0;
}

const struct argp record_window_argp = { options, window_parse_option, NULL, NULL, NULL, NULL, NULL };

/* ---- checks of the whole ---- */

static int refuse_options(const char *line)
{
	return log_fail(-EINVAL, "%s", line);
}

static int check_combination(const struct record_options *o)
{
	struct schedule_config schedule;
	bool windows = o->window_flag || o->window_spec, flight = o->flight_bytes || o->flight_ns;

	if (o->window_flag && o->window_spec)
		return refuse_options("give one of --window-flag and --window");
	if (windows && flight)
		return refuse_options(
			"give windows (--window-flag, --window) or --flight-recorder, not both");
	if (record_by_time(o) && (o->n_outputs || o->profile))
		return log_fail(-EINVAL, "%s: with %s the files are named by time: give --output-dir and --format",
			o->n_outputs ? "-o" : "--profile",
			windows ? "windows" : "--flight-recorder");
	if (!record_by_time(o) && (o->output_dir || o->n_formats || o->profile_format || o->chakra_names))
		return log_fail(-EINVAL, "%s needs --window-flag, --window or --flight-recorder: without them give -o",
			o->output_dir                        ? "--output-dir"
			: o->n_formats || o->profile_format ? "--format"
							    : "--chakra-names");
	if (flight && (o->max_steps || o->max_steps_each))
		return log_fail(-EINVAL, "%s is for windows; a flight recorder ends with -d, if at all",
			o->max_steps ? "--max-steps" : "--max-steps-per-process");
	if (o->max_steps && o->max_steps_each)
		return refuse_options("give one of --max-steps and --max-steps-per-process");
	if (trigger_needs_gpu(o->triggers) && !o->gpu)
		return refuse_options("--trigger gpu_idle needs --gpu");
	if (!flight && o->triggers)
		return refuse_options("--trigger needs --flight-recorder, such as 64MB or 30s");
	if (!o->triggers && o->trigger_cooldown_ns != COOLDOWN_DEFAULT)
		return refuse_options("--trigger-cooldown needs --trigger and --flight-recorder");
	if (!o->triggers && o->max_dumps)
		return refuse_options("--max-dumps needs --trigger and --flight-recorder");
	if (o->max_files && !o->max_size)
		return refuse_options("--max-files needs --max-size");
	for (size_t i = 0; i < o->n_outputs && o->max_size; i++) {
		if (!strcmp(o->outputs[i], "-"))
			return refuse_options("--max-size: output to stdout cannot be split into files");
		if (output_is_et(o->outputs[i]))
			return refuse_options("--max-size: an execution trace cannot be split into files");
	}
	return o->window_spec ? schedule_parse(o->window_spec, &schedule) : 0;
}

int record_window_check(struct record_options *o)
{
	char why[OUTFILE_WHY_MAX];
	int err = check_combination(o);

	if (err)
		return err;
	if (o->trigger_cooldown_ns == COOLDOWN_DEFAULT)
		o->trigger_cooldown_ns = COOLDOWN_NS;
	if (!record_by_time(o))
		return 0;
	if (!o->n_formats)
		o->formats[o->n_formats++] = "json";
	if (!o->output_dir)
		o->output_dir = ".";
	err = outfile_check_directory(o->output_dir, why);
	if (err)
		log_error("--output-dir: cannot write into %s: %s", o->output_dir, why);
	return err;
}

/* ---- the environment: ours, then the first target's ---- */

/* Settings of another user's process are reported and ignored. */
static bool find_allowed_variable(const struct environment *e, const char *const names[2], const char *option, struct variable *ret)
{
	char buf[32];

	if (!environment_find(e, names, ret))
		return false;
	if (!ret->pid || e->may_choose)
		return true;
	log_info("%s %s is left out: the process is another user's, or sees other files; give %s", ret->name,
		environment_whose(ret, buf), option);
	return false;
}

/* The other tool's defaults where only its switch is set. */
#define CHAKRA_FLAG "/tmp/vllm_chakra_trace_on"
#define CHAKRA_DIR "/home/ubuntu/vllm_quickstart/vllm_chakra"

static bool switch_is_on(const struct environment *e, const char *name, struct variable *ret)
{
	const char *const names[2] = { name, name };

	return environment_find(e, names, ret) && environment_is_on(ret->value);
}

/* value: the default if only the switch is set. */
static bool find_default(const struct environment *e, const char *value, struct variable *ret)
{
	bool found = switch_is_on(e, "VLLM_CHAKRA_TRACE", ret) && (!ret->pid || e->may_choose);

	ret->value = value;
	return found;
}

static void window_flag_from_env(struct record_options *o, const struct environment *e, struct record_strings *strings)
{
	static const char *const names[2] = { "INFTRACE_WINDOW_FLAG", "VLLM_CHAKRA_FLAG" };
	struct variable v;
	char buf[32];

	if (record_by_time(o) ||
		(!find_allowed_variable(e, names, "--window-flag", &v) && !find_default(e, CHAKRA_FLAG, &v)))
		return;
	if (o->n_outputs || o->profile) {
		log_info("%s %s is left out: %s is for the whole run", v.name, environment_whose(&v, buf),
			o->n_outputs ? "-o" : "--profile");
		return;
	}
	o->window_flag = strings->flag = environment_path(&v);
	strings->chakra = !strncmp(v.name, "VLLM_", 5);
	log_info("windows while %s exists: %s %s", o->window_flag, v.name, environment_whose(&v, buf));
}

static int max_steps_from_env(struct record_options *o, const struct environment *e)
{
	static const char *const names[2] = { "INFTRACE_MAX_STEPS", "VLLM_CHAKRA_TRACE_MAX_STEPS" };
	char buf[PARSE_ERROR_MAX], who[32];
	struct variable v;
	uint32_t n;
	int err;

	if (o->max_steps || o->max_steps_each || o->flight_bytes || o->flight_ns || !find_allowed_variable(e, names, "--max-steps", &v))
		return 0;
	err = parse_u32(v.value, &n);
	/* a setting meant for another program must not keep the recording from starting */
	if (err && !v.pid)
		return parse_refuse(PARSE_U32, v.name, v.value, err);
	if (err) {
		log_warn("%s; it is left out", parse_error(buf, PARSE_U32, v.name, v.value, err));
		return 0;
	}
	if (!record_by_time(o) && (v.pid || v.name != names[0]))
		return 0;
	if (v.name == names[0])
		o->max_steps = n;
	else
		o->max_steps_each = n; /* the meaning in its specification */
	log_info("windows of %u steps%s: %s %s", n, o->max_steps_each ? " of each process" : "", v.name,
		environment_whose(&v, who));
	return 0;
}

static void directory_from_env(struct record_options *o, const struct environment *e, struct record_strings *strings)
{
	static const char *const names[2] = { "INFTRACE_OUTPUT_DIR", "VLLM_CHAKRA_TRACE_DIR" };
	struct variable v;

	if (!record_by_time(o) || o->output_dir)
		return;
	if (find_allowed_variable(e, names, "--output-dir", &v) || (strings->chakra && find_default(e, CHAKRA_DIR, &v)))
		o->output_dir = strings->output_dir = environment_path(&v);
}

/* Reports the settings of other targets that have no effect: all processes share one window. */
static void report_other_targets(const struct record_options *o, const struct environment *first, const char *const *names, size_t n)
{
	for (size_t i = 1; i < o->n_pids; i++) {
		struct environment e;

		environment_read(o->pids[i], &e);
		for (size_t k = 0; k < n; k++) {
			const char *value = environment_theirs(&e, names[k]), *same = environment_theirs(first, names[k]);

			if (value && !environment_ours(names[k]) && (!same || strcmp(value, same) != 0))
				log_info("%s of process %d is left out: windows are as process %d says; record them apart", names[k],
					o->pids[i], o->pids[0]);
		}
		environment_free(&e);
	}
}

/* Applies the other tool's switches where its windows are recorded. */
static void chakra_switches(struct record_options *o, const struct environment *e)
{
	struct variable v;
	char buf[32];

	if (switch_is_on(e, "VLLM_CHAKRA_RECORD_SHAPES", &v))
		o->op_detail = true;
	if (switch_is_on(e, "VLLM_CHAKRA_WITH_STACK", &v) && o->events == EVENTS_DEFAULT)
		o->events |= EVENT_SAMPLES | EVENT_STACKS;
	if (switch_is_on(e, "VLLM_CHAKRA_SYNC_CUDA", &v))
		log_info("%s %s is left out: inftrace makes no process wait for its GPU; --gpu shows when its kernels end", v.name,
			environment_whose(&v, buf));
}

int record_window_environment(struct record_options *o, struct record_strings *strings)
{
	static const char *const names[] = { "INFTRACE_WINDOW_FLAG", "VLLM_CHAKRA_FLAG", "INFTRACE_OUTPUT_DIR", "VLLM_CHAKRA_TRACE_DIR",
		"INFTRACE_MAX_STEPS", "VLLM_CHAKRA_TRACE_MAX_STEPS" };
	struct environment e;
	int err;

	environment_read(o->n_pids ? o->pids[0] : 0, &e);
	if (!record_by_time(o) && !o->n_outputs && !o->profile)
		report_other_targets(o, &e, names, sizeof(names) / sizeof(names[0]));
	window_flag_from_env(o, &e, strings);
	err = max_steps_from_env(o, &e);
	if (!err)
		directory_from_env(o, &e, strings);
	if (!err && strings->chakra)
		chakra_switches(o, &e);
	environment_free(&e);
	return err;
}

void record_strings_free(struct record_strings *strings)
{
	free(strings->flag);
	free(strings->output_dir);
}
