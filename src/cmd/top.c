// SPDX-License-Identifier: BSD-2-Clause
/* inftrace top: the command line. */
#include "top/top.h"

#include <argp.h>
#include <errno.h>
#include <locale.h>
#include <stdlib.h>

#include "cmd/cmd.h"
#include "cmd/target.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/parse.h"

#define DELAY_MIN_NS (NSEC_PER_SEC / 10)
#define DELAY_MAX_NS (3600 * NSEC_PER_SEC)

enum {
	OPT_OPS = 256,
	OPT_GPU,
};

struct top_args {
	struct record_options record;
	struct top_options top;
};

static const struct argp_option options[] = {
	{ NULL, 0, NULL, 0, "What to look at:", 1 },
	{ "ops", OPT_OPS, NULL, 0,
		"operators too: each call of one costs the engine half a microsecond or more, where steps alone cost next to nothing",
		1 },
	{ "gpu", OPT_GPU, "attach", OPTION_ARG_OPTIONAL,
		"how busy a COMMAND's GPUs are; through CUPTI, or AMD's rocprofiler-sdk, by a library in the process. --gpu=attach brings it into the processes of -p, "
		"by ptrace, which changes them",
		1 },
	{ "cupti", CMD_TEXT(struct top_args, record.cupti), "FILE", 0, "of --gpu: libcupti.so, if it is not found beside libcudart or in the usual places", 1 },
	{ NULL, 0, NULL, 0, "How to show it:", 2 },
	{ "delay", 'd', "SECONDS", 0, "between updates (default: 1)", 2 },
	{ "count", 'n', "COUNT", 0, "end after COUNT updates", 2 },
	{ "batch", 'b', NULL, 0, "blocks of text, one after the other, also on a terminal", 2 },
	{ "verbose", 'v', NULL, 0, "also print what is attached where", 2 },
	{ NULL, 0, NULL, 0, NULL, 0 },
};

static const char doc[] =
	"Where the time of an engine's steps goes, live: steps and tokens a second, time per output token, what the thread that calls "
	"the engine and its workers do meanwhile, the slow steps of the last minute with the cause of each, who caused the time between "
	"steps, system calls. Ends on q, "
	"Ctrl-C, or when all targets have exited. If stdout is not a terminal, prints a block of text at each update."
	"\vThe states are shares of the time from step to step, without pauses of more than a second, in which nobody asked for "
	"tokens; those of the workers are shares of the time for which they worked on a step. The time of system calls includes what "
	"they waited for. While the screen is up, what a COMMAND writes to the terminal is kept and shown at the end; redirect it to "
	"have it elsewhere.\n\n"
	"Keys: q quits, p pauses the screen, o shows the next part first: slow steps, the time between steps, system calls, operators.\n\n"
	"EXAMPLES:\n"
	"  sudo inftrace top -p $(pgrep -f llama-server)\n"
	"  sudo inftrace top --ops -p 4711\n"
	"        with the time of each operator\n"
	"  sudo inftrace top -d 10 -p 4711 | tee top.log\n"
	"        a block each ten seconds\n"
	"  sudo inftrace top -n 1 -d 5 -p 4711 | cat\n"
	"        the next five seconds in one block\n"
	"  sudo inftrace top --user $USER -- ./llama-cli -m model.gguf -p Hello\n\n"
	"Exit codes: as for inftrace record.";

static int parse_delay(const char *arg, uint64_t *ret_ns)
{
	uint64_t ns;
	int err = parse_duration(arg, &ns);

	if (err)
		return parse_refuse(PARSE_DURATION, "-d", arg, err);
	if (ns < DELAY_MIN_NS || ns > DELAY_MAX_NS)
		return log_fail(-ERANGE, "-d: %s is not from 0.1 to 3600 seconds", arg);
	*ret_ns = ns;
	return 0;
}

static int parse_count(const char *arg, uint32_t *ret)
{
	int err = parse_u32(arg, ret);

	if (err)
		return parse_refuse(PARSE_U32, "-n", arg, err);
	if (*ret)
		return 0;
	return log_fail(-EINVAL, "-n: 0 updates show nothing; write 1 or more, or leave -n out");
}

static error_t top_parse_option(int key, char *arg, struct argp_state *state)
{
	struct top_args *a = state->input;
	int err = 0;

	switch (key) {
	case OPT_OPS:
		a->record.events |= EVENT_FUNCTIONS_NAMED;
		break;
	case OPT_GPU:
		err = gpu_options_set(&a->record, arg);
		if (!err && a->record.gpu_every) {
			log_error("--gpu: every=N is for record");
			err = -EINVAL;
		}
		break;
	case 'd':
		err = parse_delay(arg, &a->top.delay_ns);
		break;
	case 'n':
		err = parse_count(arg, &a->top.count);
		break;
	case 'b':
		a->top.batch = true;
		break;
	default:
		err = target_parse(key, state, &a->record);
		return err == ARGP_ERR_UNKNOWN ? cmd_set(key, arg, a) : err;
	}
	return err ? EINVAL : 0;
}

int cmd_top(int argc, char **argv)
{
	static const struct argp_child children[] = { { &target_argp, 0, NULL, 0 }, {} };
	static const struct argp argp = { options, top_parse_option, "[-- COMMAND ARG ...]", doc, children,
		NULL, NULL };
	struct top_args a = {
		.record = { .events = EVENTS_DEFAULT },
		.top = { .delay_ns = NSEC_PER_SEC },
	};
	int code = EXIT_USAGE;

	argp_err_exit_status = EXIT_USAGE;
	/* in order: the options after COMMAND are its own */
	if (!argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &a) &&
		!target_check(&a.record, "top") && !gpu_options_check(&a.record)) {
		/* for the terminal's characters and their width; numbers stay as they are */
		setlocale(LC_CTYPE, "");
		code = top_run(&a.record, &a.top);
	}
	target_free(&a.record);
	return code;
}
