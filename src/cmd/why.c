// SPDX-License-Identifier: BSD-2-Clause
/* inftrace why: the command line. */
#include "top/why.h"

#include <argp.h>
#include <errno.h>
#include <stdlib.h>

#include "cmd/cmd.h"
#include "cmd/target.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/parse.h"

#define DURATION_MIN_NS (NSEC_PER_SEC / 10)
#define DURATION_MAX_NS (60 * NSEC_PER_SEC)

struct why_args {
	struct record_options record;
	uint64_t duration_ns;
};

static const struct argp_option options[] = {
	{ NULL, 0, NULL, 0, "How long to look:", 1 },
	{ "duration", 'd', "TIME", 0, "as 500ms or 10s (default: 3s)", 1 },
	{ "verbose", 'v', NULL, 0, "also print what is attached where", 1 },
	{ NULL, 0, NULL, 0, NULL, 0 },
};

static const char doc[] =
	"What an engine does, or waits for, now: the steps and requests that have not ended; each thread that calls the engine, for "
	"whom it waits, and what that thread does, and so on. Below that, where the last seconds went."
	"\vWho holds a lock is known for mutexes of glibc, and for which child a process waits; for other waits the thread is named "
	"that has woken the waiting one most often during these seconds. Steps that began before these seconds are not seen as such: "
	"of a process without any others the threads are shown that have run most.\n\n"
	"EXAMPLES:\n"
	"  sudo inftrace why -p $(pgrep -f llama-server)\n"
	"  sudo inftrace why -d 10s -p 4711\n\n"
	"Exit codes: as for inftrace record.";

static int parse_why_duration(const char *arg, uint64_t *ret_ns)
{
	int err = parse_duration(arg, ret_ns);

	if (err)
		return parse_refuse(PARSE_DURATION, "-d", arg, err);
	if (*ret_ns < DURATION_MIN_NS || *ret_ns > DURATION_MAX_NS)
		return log_fail(-ERANGE, "-d: %s is not from 100ms to 60s", arg);
	return 0;
}

static error_t why_parse_option(int key, char *arg, struct argp_state *state)
{
	struct why_args *a = state->input;

	switch (key) {
	case 'd':
		return parse_why_duration(arg, &a->duration_ns) ? EINVAL : 0;
	default:
		return target_parse(key, state, &a->record);
	}
}

int cmd_why(int argc, char **argv)
{
	static const struct argp_child children[] = { { &target_argp, 0, NULL, 0 }, {} };
	static const struct argp argp = { options, why_parse_option, NULL, doc, children, NULL, NULL };
	struct why_args a = { .record = { .events = EVENTS_DEFAULT | EVENT_STACKS | EVENT_SAMPLES }, .duration_ns = 3 * NSEC_PER_SEC };
	int code = EXIT_USAGE;

	argp_err_exit_status = EXIT_USAGE;
	if (argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &a) || target_check(&a.record, "why")) {
		; /* it has been said */
	} else if (!a.record.n_pids) {
		log_error("why: give the engine's process with -p PID");
	} else {
		events_listening(&a.record);
		code = why_run(&a.record, a.duration_ns);
		if (cmd_flush("the screen") && !code)
			code = EXIT_RUN;
	}
	target_free(&a.record);
	return code;
}
