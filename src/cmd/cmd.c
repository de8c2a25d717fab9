// SPDX-License-Identifier: BSD-2-Clause
/* What all subcommands do: parse the command line, and end with all output written. */
#include "cmd/cmd.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "util/log.h"

error_t cmd_set(int key, char *arg, void *args)
{
	void *member = (char *)args + (key & (CMD_TRUE_KEYS - 1));

	switch (key & ~(CMD_TRUE_KEYS - 1)) {
	case CMD_TRUE_KEYS:
		*(bool *)member = true;
		return 0;
	case CMD_TEXT_KEYS:
		*(const char **)member = arg;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int cmd_parse(int argc, char **argv, const struct argp_option *options, argp_parser_t parse, const char *files, const char *doc, void *args)
{
	const struct argp argp = { options, parse, files, doc, NULL, NULL, NULL };

	argp_err_exit_status = EXIT_USAGE;
	return argp_parse(&argp, argc, argv, 0, NULL, args) ? EXIT_USAGE : 0;
}

int cmd_flush(const char *what)
{
	if (!fflush(stdout) && !ferror(stdout))
		return 0;
	return log_fail(EXIT_RUN, "cannot write %s: %s", what, strerror(errno));
}
