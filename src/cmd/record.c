// SPDX-License-Identifier: BSD-2-Clause
/* inftrace record: the command line, checked before anything is attached. */
#include "record/options.h"

#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture/perf_events.h"
#include "cmd/cmd.h"
#include "cmd/record_window.h"
#include "cmd/target.h"
#include "record/metadata.h"
#include "record/trigger.h"
#include "util/log.h"
#include "util/parse.h"

enum {
	OPT_MIN_SYSCALL = 256,
	OPT_SAMPLE_RATE,
	OPT_MIN_STACK,
	OPT_COUNTERS,
	OPT_GPU,
	OPT_GPU_BUDGET,
	OPT_CONCURRENCY,
};

static const struct argp_option options[] = {
	{ NULL, 0, NULL, 0, "What to record:", 1 },
	{ "cgroup", CMD_TEXT(struct record_options, cgroup), "PATH", 0,
		"every process in this cgroup of version 2 and those below it, also those that enter it later, 256 at a time; its directory, "
		"or its name as in /proc/PID/cgroup; with --discover only those that a preset matches",
		1 },
	{ "discover", CMD_TRUE(struct record_options, discover), NULL, 0,
		"every process that a preset matches (--engine), as they come and go, 256 at a time", 1 },
	{ "duration", 'd', "TIME", 0,
		"stop after 10s, 500ms, 2m (default: on Ctrl-C, or when all targets have exited); with windows: the "
		"longest time of each",
		1 },
	{ "events", 'e', "LIST", 0,
		"list of sched,syscalls,faults,functions,ipc,memory,irq,cpu,requests,samples,stacks,pmu,messages (default: the first "
		"five, and requests with -p of a process that listens; cpu shows what other processes ran, requests those on the "
		"sockets of a server, samples which code ran, stacks which code waited, pmu what steps and operators cost the CPU, "
		"messages what goes over TCP connections, for inftrace link); +x and -x change the default",
		1 },
	{ "op-detail", CMD_TRUE(struct record_options, op_detail), NULL, 0, "operators with the names, types and shapes of their tensors", 1 },
	{ "gpu", OPT_GPU, "attach,every=N,wait=DURATION", OPTION_ARG_OPTIONAL,
		"what a COMMAND's GPUs do: kernels, copies, and what part of each step they ran; through CUPTI, or AMD's rocprofiler-sdk, by a "
		"library in the process. --gpu=attach brings it into the processes of -p, by ptrace, which changes them. With every=N of about each N-th step only; "
		"wait=DURATION: how long, of each 0.1 s, it waits for inftrace to make room before it drops records (default: 50ms)",
		1 },
	{ "gpu-budget", OPT_GPU_BUDGET, "SHARE", 0,
		"of --gpu: where its library takes more of a CPU in a process than this, 2% for example, it collects nothing for a while",
		1 },
	{ "cupti", CMD_TEXT(struct record_options, cupti), "FILE", 0, "of --gpu: libcupti.so, if it is not found beside libcudart or in the usual places", 1 },
	{ "hooks", CMD_TRUE(struct record_options, hooks), NULL, 0,
		"barriers, and the operators of a trace, are seen by a library in the processes, at a tenth of the cost of a probe; a COMMAND loads it at its start, "
		"and ptrace brings it into those of -p, which changes them",
		1 },
	{ "metrics", CMD_TEXT(struct record_options, metrics), "URL", 0,
		"the engine's own metrics as counters in the traces, read once a second: http://HOST:PORT/metrics, or a PORT of this machine", 1 },
	{ "hold-libraries", CMD_TRUE(struct record_options, hold), NULL, 0,
		"a process that maps a library waits until the functions in it are probed, 50 ms at most; a COMMAND does "
		"so anyway; with this option its children do, too",
		1 },
	{ "no-hold-libraries", CMD_TRUE(struct record_options, no_hold), NULL, 0, "a COMMAND does not wait; its first calls may be missed", 1 },
	{ "no-names", CMD_TRUE(struct record_options, no_names), NULL, 0, "no names of files and peers that threads wait for", 1 },
	{ "min-syscall", OPT_MIN_SYSCALL, "TIME", 0, "leave out system calls shorter than this that did not block", 1 },
	{ "sample-rate", OPT_SAMPLE_RATE, "HZ", 0, "of -e +samples, for each CPU (default: 99, at most 999)", 1 },
	{ "min-stack", OPT_MIN_STACK, "TIME", 0, "-e +stacks: only of waits that took at least this (default: 1ms)", 1 },
	{ "counters", OPT_COUNTERS, "SET", 0,
		"of -e +pmu: hardware (the default: instructions, cycles and misses of the last-level cache, where the machine has "
		"counters for them) or software (what every kernel counts: cpu_clock_ns, page_faults)",
		1 },
	{ NULL, 0, NULL, 0, "Where to write:", 2 },
	{ "output", 'o', "FILE", 0,
		"trace: .json (Chrome), .pftrace (Perfetto), each with .gz or without, - for stdout (Chrome); or an execution trace, .et "
		"(Chakra); or what PyTorch's tools take, .kineto.json[.gz] and .et.json; may be repeated (default: inftrace-COMM-PID.json, or .pftrace with -e +samples; none with --profile alone)",
		2 },
	{ "profile", CMD_TEXT(struct record_options, profile), "FILE", 0, "profile, a JSON line per engine step, appended; .gz: compressed; - for stdout", 2 },
	{ "strict", CMD_TRUE(struct record_options, strict), NULL, 0, "exit with 4 if a record was lost, with 2 if no file has what -u names", 2 },
	{ NULL, 0, NULL, 0, "Metadata in the profile:", 5 },
	{ "commit-sha", CMD_TEXT(struct record_options, commit_sha), "SHA", 0, NULL, 5 },
	{ "model", CMD_TEXT(struct record_options, model), "NAME", 0, NULL, 5 },
	{ "concurrency", OPT_CONCURRENCY, "N", 0, NULL, 5 },
	{ "runtime-flags", CMD_TEXT(struct record_options, runtime_flags), "JSON", 0, NULL, 5 },
	{ NULL, 0, NULL, 0, "Messages:", 6 },
	{ "quiet", 'q', NULL, 0, "errors only", 6 },
	{ "verbose", 'v', NULL, 0, "also print what is attached where", 6 },
	{ NULL, 0, NULL, 0, NULL, 0 },
};

static const char doc[] =
	"Records what a process does, without restarting or changing it, until Ctrl-C, the end of -d, or "
	"until all targets have exited. Files open at any moment, also while the recording runs."
	"\vEXAMPLES:\n"
	"  sudo inftrace record -p $(pgrep -f llama-server)\n"
	"        timeline of a running server until Ctrl-C\n"
	"  sudo inftrace record -d 10s -o t.json.gz --profile p.jsonl -p 4711\n"
	"        ten seconds, compressed, and where the time of each token went\n"
	"  sudo inftrace record --user $USER --profile p.jsonl -- ./llama-cli -m model.gguf\n"
	"        a command from its first instruction; the profile only, which costs least\n"
	"  sudo inftrace record -e -syscalls,-ipc -p 4711\n"
	"        without the system calls\n"
	"  sudo inftrace record --engine none -u './libfoo.so:foo(n=s32 arg1)@step' -p 4711\n"
	"        a function of your own as the step\n"
	"  sudo inftrace record --window every=60s,for=2s --output-dir traces -p 4711\n"
	"        two seconds of each minute, in files of their own\n"
	"  sudo inftrace record --discover --window every=60s,for=2s --output-dir traces\n"
	"        the same of every engine of this machine, also of those started later\n"
	"  sudo inftrace record -d 1m --cgroup system.slice/llama-server.service\n"
	"        a minute of what runs in a service, or in a container\n"
	"  sudo inftrace record --flight-recorder 64MB --trigger 'step>200ms' -p 4711\n"
	"        only what led to a slow step\n\n"
	"Exit codes: 0 done, 1 failed while running, 2 usage, 3 not allowed by kernel or privileges, 4 "
	"records lost with --strict; with a COMMAND its own when all went well. A COMMAND that still runs "
	"at the end of -d or on Ctrl-C gets SIGTERM; if it keeps running, a message says so, and the code is 1.";

static int record_add_output(struct record_options *o, const char *name)
{
	if (o->n_outputs == OUTPUTS_MAX)
		return log_fail(-EINVAL, "-o: more than %d outputs", OUTPUTS_MAX);
	o->outputs[o->n_outputs++] = name;
	return 0;
}

static int set_duration(struct record_options *o, const char *arg)
{
	int err = parse_duration(arg, &o->duration_ns);

	if (err)
		return parse_refuse(PARSE_DURATION, "-d", arg, err);
	if (o->duration_ns)
		return 0;
	return log_fail(-EINVAL, "-d: a duration of 0 records nothing; without -d the recording lasts until Ctrl-C");
}

static int set_sample_rate(struct record_options *o, const char *arg)
{
	if (!parse_u32(arg, &o->sample_hz) && o->sample_hz && o->sample_hz <= SAMPLE_HZ_MAX)
		return 0;
	return log_fail(-EINVAL, "--sample-rate: '%.32s' is not a number of samples a second from 1 to %d", arg, SAMPLE_HZ_MAX);
}

static int set_counters(struct record_options *o, const char *arg)
{
	o->counters = counter_set_parse(arg);
	if (o->counters)
		return 0;
	return log_fail(-EINVAL, "--counters: '%.32s' is neither hardware nor software", arg);
}

static error_t record_parse_option(int key, char *arg, struct argp_state *state)
{
	struct record_options *o = state->input;
	int err = 0;

	switch (key) {
	case 'd':
		err = set_duration(o, arg);
		break;
	case 'e':
		err = events_parse(arg, &o->events);
		break;
	case OPT_MIN_SYSCALL:
		err = parse_duration(arg, &o->min_syscall_ns);
		if (err)
			parse_refuse(PARSE_DURATION, "--min-syscall", arg, err);
		break;
	case OPT_SAMPLE_RATE:
		err = set_sample_rate(o, arg);
		break;
	case OPT_MIN_STACK:
		err = parse_duration(arg, &o->min_stack_ns);
		if (err)
			parse_refuse(PARSE_DURATION, "--min-stack", arg, err);
		o->has_min_stack = true;
		break;
	case OPT_COUNTERS:
		err = set_counters(o, arg);
		break;
	case 'o':
		err = record_add_output(o, arg);
		break;
	case OPT_GPU:
		err = gpu_options_set(o, arg);
		break;
	case OPT_GPU_BUDGET:
		err = parse_share(arg, &o->gpu_budget);
		if (!err && !o->gpu_budget)
			err = -EINVAL;
		if (err)
			parse_refuse(PARSE_SHARE, "--gpu-budget", arg, err);
		break;
	case OPT_CONCURRENCY:
		err = parse_u32(arg, &o->concurrency);
		if (err || !o->concurrency)
			err = parse_refuse(PARSE_U32, "--concurrency", arg, err ? err : -EINVAL);
		break;
	case 'q':
		log_set_level(-1);
		break;
	default:
		if (key == ARGP_KEY_INIT)
			state->child_inputs[1] = o; /* of the windows */
		err = target_parse(key, state, o);
		return err == ARGP_ERR_UNKNOWN ? cmd_set(key, arg, o) : err;
	}
	return err ? EINVAL : 0;
}

static int options_from_env(struct record_options *o, struct record_strings *strings)
{
	const char *output = environment_ours("INFTRACE_OUTPUT") ?: environment_ours("FERRUM_TRACE_OUT");
	const char *debug = getenv("INFTRACE_DEBUG");
	int err;

	if (!debug || !*debug)
		debug = environment_ours("VLLM_CHAKRA_DEBUG") && environment_is_on(getenv("VLLM_CHAKRA_DEBUG")) ? "1" : NULL;
	if (debug && strcmp(debug, "0"))
		log_set_level(2);
	err = record_window_environment(o, strings);
	if (err || record_by_time(o))
		return err;
	if (!o->n_outputs && output)
		o->outputs[o->n_outputs++] = output;
	if (!o->profile)
		o->profile = environment_ours("INFTRACE_PROFILE_JSONL") ?: environment_ours("FERRUM_PROFILE_JSONL");
	return 0;
}

#define STACK_RING_MIN (256u << 10)

static int check_events(const struct record_options *o)
{
	const char *why = NULL;

	if (o->sample_hz && !(o->events & EVENT_SAMPLES))
		why = "--sample-rate: needs -e +samples";
	else if (o->has_min_stack && !(o->events & EVENT_STACKS))
		why = "--min-stack: needs -e +stacks";
	else if (o->counters && !(o->events & EVENT_PMU))
		why = "--counters: needs -e +pmu";
	else if (o->events & EVENT_MESSAGES && !record_wants_trace(o))
		why = "-e messages: they are in traces, so give -o, or with windows or a flight recorder --format";
	else if (o->metrics && o->profile && !record_wants_trace(o))
		why = "--metrics: they are in traces, so give -o, too";
	else if (o->events & (EVENT_SAMPLES | EVENT_STACKS) && o->ring_bytes && o->ring_bytes < STACK_RING_MIN)
		why = "--ring-size: stacks need at least 256KB";
	if (why)
		log_error("%s", why);
	return why ? -EINVAL : 0;
}

static int check_discover(const struct record_options *o)
{
	if (!record_finds(o) || !o->hold)
		return 0;
	return log_fail(-EINVAL, "--hold-libraries: not with %s, which finds processes after they have mapped their libraries",
		o->discover ? "--discover" : "--cgroup");
}

int cmd_record(int argc, char **argv)
{
	static const struct argp_child children[] = { { &target_argp, 0, NULL, 0 }, { &record_window_argp, 0, NULL, 0 }, {} };
	static const struct argp argp = { options, record_parse_option, "[-- COMMAND ARG ...]", doc, children,
		NULL, NULL };
	struct record_options o = {
		.min_free = WRITER_FLOOR,
		.events = EVENTS_DEFAULT,
	};
	struct record_strings strings = {};
	char command_line[COMMAND_LINE_MAX];
	int code = EXIT_USAGE, err = -EINVAL;

	argp_err_exit_status = EXIT_USAGE;
	/* in order: the options after COMMAND are its own */
	if (!argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &o))
		err = target_check(&o, "record");
	if (!err)
		err = check_discover(&o);
	if (!err)
		err = check_events(&o) ?: gpu_options_check(&o);
	if (!err)
		o.command_line = command_line_text(argv, o.command, command_line);
	if (!err)
		err = options_from_env(&o, &strings);
	if (!err)
		err = record_window_check(&o) ?: hooks_options_check(&o);
	if (!err) {
		events_listening(&o);
		code = record_run(&o);
	} else if (err != -EINVAL)
		code = EXIT_RUN;
	record_strings_free(&strings);
	trigger_free(o.triggers);
	target_free(&o);
	return code;
}
