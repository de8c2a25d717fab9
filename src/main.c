// SPDX-License-Identifier: BSD-2-Clause
/* inftrace: dispatches to the subcommands. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "util/log.h"

struct main_command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *help;
};

static const struct main_command commands[] = {
	{ "record", cmd_record, "record a process, a command or the whole system" },
	{ "top", cmd_top, "live in the terminal: rates, time per state, slow steps" },
	{ "why", cmd_why, "what an engine does, or waits for, now" },
	{ "report", cmd_report, "where the time went: latencies, slow steps and their causes" },
	{ "export", cmd_export, "samples of a trace or profile for flame graph tools" },
	{ "link", cmd_link, "several traces, also Kineto's and those of other hosts, on one timeline" },
	{ "print", cmd_print, "a trace or a profile as text, an event a line" },
	{ "status", cmd_control, "the recordings that run" },
	{ "start", cmd_control, "open a window in a recording that runs" },
	{ "stop", cmd_control, "close it" },
	{ "dump", cmd_control, "write what the flight recorder of a recording holds" },
	{ "validate", cmd_validate, "check a profile JSONL or a Chrome trace" },
	{ "engines", cmd_engines, "presets of functions to probe, and what they match" },
	{ "serve", cmd_serve, "show a trace in the Perfetto UI, also while it is recorded" },
	{ "doctor", cmd_doctor, "what this kernel and these privileges allow" },
};

static void usage(FILE *out)
{
	fputs("Usage: inftrace COMMAND [OPTION...]\n"
	      "       inftrace -p PID [OPTION...]       short for: inftrace record -p PID\n\n"
	      "Where did the time of this token go? A system-wide tracer for LLM inference.\n\n"
	      "Commands:\n",
		out);
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].help);
	fputs("\nEach command has --help. EXAMPLES:\n"
	      "  sudo inftrace -p $(pgrep llama-server)          until Ctrl-C\n"
	      "  sudo inftrace record --user $USER --profile p.jsonl -- ./llama-cli -m model.gguf\n"
	      "  inftrace validate p.jsonl --require token_prof\n",
		out);
}

/* Opens those of 0 to 2 that are closed: the next file would become stderr, for example. In the wrong direction, so that
 * writing to a closed stdout stays an error. */
static void fill_standard_fds(void)
{
	for (int fd = 0; fd <= STDERR_FILENO; fd++) {
		if (fcntl(fd, F_GETFD) < 0 &&
			open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
			_exit(EXIT_RUN);
	}
}

int main(int argc, char **argv)
{
	static char name[64];

	fill_standard_fds();
	if (argc < 2) {
		usage(stderr);
		return EXIT_USAGE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
		usage(stdout);
		return EXIT_OK;
	}
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
		puts("inftrace " INFTRACE_VERSION);
		return EXIT_OK;
	}
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (strcmp(argv[1], commands[i].name))
			continue;
		snprintf(name, sizeof(name), "inftrace %s", commands[i].name);
		argv[1] = name;
		return commands[i].run(argc - 1, argv + 1);
	}
	if (argv[1][0] == '-')
		return cmd_record(argc, argv);
	log_error("no such command: %s (inftrace --help lists them)", argv[1]);
	return EXIT_USAGE;
}
