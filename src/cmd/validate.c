// SPDX-License-Identifier: BSD-2-Clause
/* inftrace validate: check profiles, Chrome traces and execution traces. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "read/detect.h"
#include "util/alloc.h"
#include "util/log.h"
#include "util/text.h"
#include "validate/check.h"

#define REQUIRE_MAX 64

struct validate_args {
	char *require_text; /* what `required` points into */
	const char *required[REQUIRE_MAX];
	size_t required_len;
	char **files;
	int files_len;
	bool quiet;
};

static const struct argp_option options[] = {
	{ "require", 'r', "LIST", 0,
		"Event families every profile must have, e.g. token_prof,op_prof", 0 },
	{ "quiet", 'q', NULL, 0, "No summaries, only problems", 0 },
	{ 0 },
};

static const char doc[] =
	"Check profile JSONL files, Chrome traces (.json, .json.gz) and execution traces (.et, and JSON of PyTorch and Chakra); told "
	"apart by content.\n"
	"\v"
	"Of a profile: every line has the required fields with their types; in token_prof lines of inftrace the states sum to the "
	"total, to the nanosecond. Of a trace: every event is complete, slices of a track nest without partial overlap, arrows have a "
	"start, an end and slices to bind to; files of other programs in the object form get notes instead where the viewers are "
	"lenient. Of an execution trace: nodes are unique and named, what they depend on is in the file, and none depends on itself by "
	"way of others. Prints one line of counts for each file, problems on stderr. FILE - is the standard input.\n"
	"\n"
	"Exit code: 0 all files are valid, 1 some are not, 2 usage.\n"
	"\n"
	"EXAMPLES:\n"
	"  inftrace validate profile.jsonl trace.json.gz\n"
	"  inftrace validate profile.jsonl --require token_prof,window_prof\n"
	"  zcat trace.json.gz | inftrace validate -";

static int require_parse(struct validate_args *args, const char *list, struct argp_state *state)
{
	char *name, *rest;

	if (args->require_text)
		argp_error(state, "--require: give all families in one comma-separated list");
	args->require_text = xstrdup(list);
	rest = args->require_text;
	while ((name = strsep(&rest, ","))) {
		if (!*name)
			argp_error(state, "--require: empty name in the list: '%s'", list);
		if (args->required_len == REQUIRE_MAX)
			argp_error(state, "--require: more than %d names", REQUIRE_MAX);
		args->required[args->required_len++] = name;
	}
	return 0;
}

static error_t validate_parse_option(int key, char *arg, struct argp_state *state)
{
	struct validate_args *args = state->input;

	switch (key) {
	case 'r':
		return require_parse(args, arg, state);
	case 'q':
		args->quiet = true;
		return 0;
	case ARGP_KEY_ARGS:
		args->files = state->argv + state->next;
		args->files_len = state->argc - state->next;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "no FILE given");
		return EINVAL;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static void validate_print_problem(void *ctx, const char *text)
{
	log_error("%s: %s", (const char *)ctx, text);
}

/* Returns whether the file is valid; increments *profiles if it is a profile. */
static bool file_validate(const struct validate_args *args, const char *path, FILE *out, int *profiles)
{
	struct json_source source;
	struct check_report report = { .problem = validate_print_problem };
	enum file_kind kind = FILE_OTHER;
	char printable[256], buf[160];
	const char *why = NULL;

	text_printable(printable, sizeof(printable), path);
	report.ctx = printable;
	if (json_source_open(&source, path))
		why = source.error;
	else
		kind = file_detect(&source, buf, sizeof(buf), &why);
	if (!source.error[0] && kind < FILE_EXECUTION_TRACE && text_has_suffix(path, ".et")) /* a damaged one, or one that says nothing about itself */
		kind = FILE_EXECUTION_TRACE;
	/* blank: a profile to which nothing was written; all other JSON has brackets */
	if (kind == FILE_OTHER && !source.error[0] && !text_has_suffix(path, ".json") && text_is_blank((const char *)source.pos, (size_t)(source.end - source.pos)))
		kind = FILE_PROFILE;
	switch (kind) {
	case FILE_OTHER:
		check_problem(&report, "%s", why);
		break;
	case FILE_PROFILE:
		(*profiles)++;
		check_profile(&source, printable, args->required, args->required_len, &report, out);
		break;
	case FILE_TRACE:
		check_trace(&source, printable, &report, out);
		break;
	default:
		check_execution_trace(&source, kind, printable, &report, out);
	}
	json_source_close(&source);
	if (report.problems > CHECK_SHOWN_MAX)
		log_error("%s: %llu more problems", printable,
			(unsigned long long)report.problems - CHECK_SHOWN_MAX);
	return !report.problems;
}

int cmd_validate(int argc, char **argv)
{
	struct validate_args args = { 0 };
	int profiles = 0, ret = EXIT_OK;
	FILE *out = stdout;

	if (cmd_parse(argc, argv, options, validate_parse_option, "FILE...", doc, &args)) {
		ret = EXIT_USAGE;
		goto out;
	}
	if (args.quiet) {
		out = fopen("/dev/null", "we");
		if (!out) {
			log_error("cannot open /dev/null: %s", strerror(errno));
			ret = EXIT_RUN;
			goto out;
		}
	}
	for (int i = 0; i < args.files_len; i++)
		if (!file_validate(&args, args.files[i], out, &profiles))
			ret = EXIT_RUN;
	if (args.required_len && !profiles) {
		log_error("--require: none of the files is a profile");
		ret = EXIT_RUN;
	}
	if (cmd_flush("the summary"))
		ret = EXIT_RUN;
	if (out != stdout)
		fclose(out);
out:
	free(args.require_text);
	return ret;
}
