// SPDX-License-Identifier: BSD-2-Clause
/* inftrace print: traces and profiles as text. */
#include <errno.h>
#include <stdio.h>

#include "cmd/cmd.h"
#include "print/print.h"
#include "util/log.h"
#include "util/text.h"

struct print_args {
	struct last last;
	char **files;
	int n_files;
};

static const struct argp_option options[] = {
	{ "last", 'n', "N|TIME", 0, "Only the last N events, by their start; or those of the last TIME, such as 2s", 0 },
	{ 0 },
};

static const char doc[] =
	"Prints Chrome traces (.json, .json.gz) and profiles (.jsonl, .jsonl.gz), of recordings, windows and dumps, as text: an event a line, sorted by time.\n"
	"\v"
	"Each line has the start, in seconds from that of the recording, the CPU if it is known, the thread, the event, and its data. FILE - is the "
	"standard input.\n\n"
	"Exit code: 0, 1 a file cannot be read, or not to its end, 2 usage.\n\n"
	"EXAMPLES:\n"
	"  inftrace print trace.json | less\n"
	"  inftrace print --last 2s trace_pid4711_1763638456123.json\n"
	"  inftrace print --last 20 profile.jsonl";

static error_t print_parse_option(int key, char *arg, struct argp_state *state)
{
	struct print_args *args = state->input;
	int err;

	switch (key) {
	case 'n':
		err = parse_last(arg, &args->last);
		return err ? -parse_refuse(PARSE_LAST, "--last", arg, err) : 0;
	case ARGP_KEY_ARGS:
		args->files = state->argv + state->next;
		args->n_files = state->argc - state->next;
		return 0;
	case ARGP_KEY_NO_ARGS:
		return log_fail(EINVAL, "no FILE given");
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int cmd_print(int argc, char **argv)
{
	struct print_args args = { 0 };
	char printable[256];
	int ret = EXIT_OK;

	if (cmd_parse(argc, argv, options, print_parse_option, "FILE...", doc, &args))
		return EXIT_USAGE;
	for (int i = 0; i < args.n_files; i++) {
		if (args.n_files > 1)
			printf("%s==> %s <==\n", i ? "\n" : "", text_printable(printable, sizeof(printable), args.files[i]));
		if (print_file(args.files[i], args.last, PRINT_BYTES_MAX, stdout))
			ret = EXIT_RUN;
	}
	return cmd_flush("to the standard output") ?: ret;
}
