// SPDX-License-Identifier: BSD-2-Clause
/* inftrace report: what profiles and traces say, for people and for machines. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cmd/cmd.h"
#include "io/outfile.h"
#include "report/report.h"
#include "util/log.h"
#include "util/parse.h"

#define SLOWEST_DEFAULT 10
#define SLOWEST_MAX 100000

#define PAGE_DEFAULT "report.html"
#define PAGE_HEAD 2048 /* the first bytes of a page, which have its title */

enum {
	KEY_HTML = 256,
	KEY_SLO,
};

struct report_args {
	const char *html;
	const char *const *files;
	size_t n_files;
	uint32_t slowest;
	bool json, all_steps, force;
	struct slo slo;
};

static const struct argp_option options[] = {
	{ "json", 'j', NULL, 0, "One JSON object instead of text", 0 },
	{ "html", KEY_HTML, "FILE", OPTION_ARG_OPTIONAL,
		"Write one self-contained page to FILE (" PAGE_DEFAULT "; '-': standard output); also --html FILE where FILE ends in .html", 0 },
	{ "force", CMD_TRUE(struct report_args, force), NULL, 0, "With --html: replace a file that is not such a page", 0 },
	{ "slowest", 'n', "N", 0, "How many slow steps and requests to list (10)", 0 },
	{ "all-steps", CMD_TRUE(struct report_args, all_steps), NULL, 0,
		"With --json: each step with what was typical and the verdict on its cause", 0 },
	{ "slo", KEY_SLO, "ttft=T,tpot=T", 0,
		"How many requests got their first token, and on average each later one, within these times", 0 },
	{ 0 },
};

static const char doc[] =
	"Where the time went: time to first token and per output token, the breakdown of the steps, the slowest steps with the cause "
	"of each, operators, system calls, loss; of requests that an engine has in batches where the time of each went, and for whom "
	"it waited. FILE is a profile (record --profile) or a Chrome trace (record -o), also compressed; - is the standard input. Of "
	"an archive of inftrace link it reads the profiles, or else the Chrome traces. Processes are kept apart.\n"
	"\v"
	"A step is slow when it took longer than the steps of the same process, phase and number of tokens around it do by chance: the "
	"medians of some 160 of them. Its cause is the state in which the most additional time was spent, by the thread that called "
	"the engine or by those that it waited for.\n"
	"\n"
	"A request of a batch is compared with those whose prompts are about as long.\n"
	"\n"
	"Exit code: 0 done; 1 a file cannot be read, or some of its lines (the rest is reported); 2 usage.\n"
	"\n"
	"EXAMPLES:\n"
	"  inftrace report profile.jsonl\n"
	"  inftrace report profile.jsonl --slo ttft=500ms,tpot=50ms\n"
	"  inftrace report profile.jsonl -n 30 --html report.html\n"
	"  inftrace report a.jsonl b.jsonl --json | jq '.processes[].ttft_us'\n"
	"  inftrace report trace.json.gz\n"
	"  inftrace report all.zip";

static int parse_slowest(const char *arg, uint32_t *ret)
{
	char buf[PARSE_ERROR_MAX];
	int err = parse_u32(arg, ret);

	if (!err && *ret <= SLOWEST_MAX)
		return 0;
	return log_fail(EINVAL, "%s", parse_error(buf, PARSE_U32, "-n", arg, err ? err : -ERANGE));
}

static int parse_slo(const char *arg, struct slo *ret)
{
	char why[SLO_WHY_MAX];

	if (!slo_parse(arg, ret, why))
		return 0;
	return log_fail(EINVAL, "%s", why);
}

/* `--html a.jsonl` names no page, `--html a.html` does. */
static const char *page_name(struct argp_state *state)
{
	const char *next = state->argv[state->next];
	size_t len = next ? strlen(next) : 0;

	if (!next || (strcmp(next, "-") && (len < 5 || strcmp(next + len - 5, ".html"))))
		return PAGE_DEFAULT;
	state->next++;
	return next;
}

static error_t report_parse_option(int key, char *arg, struct argp_state *state)
{
	struct report_args *args = state->input;

	switch (key) {
	case 'j':
		args->json = true;
		return 0;
	case 'n':
		return parse_slowest(arg, &args->slowest);
	case KEY_HTML:
		args->html = arg ? arg : page_name(state);
		return 0;
	case KEY_SLO:
		return parse_slo(arg, &args->slo);
	case ARGP_KEY_ARGS:
		args->files = (const char *const *)state->argv + state->next;
		args->n_files = (size_t)(state->argc - state->next);
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "no FILE given");
		return EINVAL;
	case ARGP_KEY_END:
		if (args->all_steps && !args->json)
			argp_error(state, "--all-steps needs --json");
		if (args->json && args->html && !strcmp(args->html, "-"))
			argp_error(state, "--json and --html - cannot both go to standard output");
		return 0;
	default:
		return cmd_set(key, arg, args);
	}
}

static void report_print_problem(void *ctx, const char *text)
{
	*(bool *)ctx = true;
	log_error("%s", text);
}

static void report_print_note(void *ctx, const char *text)
{
	log_info("%s", text);
}

static bool is_page(const char *path)
{
	char head[PAGE_HEAD] = "";
	FILE *f = fopen(path, "re");
	size_t n = f ? fread(head, 1, sizeof(head) - 1, f) : 0;

	if (f)
		fclose(f);
	return memmem(head, n, REPORT_PAGE_MARK, strlen(REPORT_PAGE_MARK));
}

/* Refuses to replace an input, or a file that is no page. Prints one line on failure. */
static int page_check(const struct report_args *args)
{
	const char *path = args->html;
	char why[OUTFILE_WHY_MAX];
	struct stat s;

	if (!strcmp(path, "-"))
		return 0;
	if (outfile_check(path, why))
		return log_fail(EXIT_RUN, "cannot write %s: %s", path, why);
	if (stat(path, &s) || !S_ISREG(s.st_mode))
		return 0;
	for (size_t i = 0; i < args->n_files; i++) {
		if (!outfile_is_input(&s, args->files[i]))
			continue;
		return log_fail(EXIT_USAGE, "--html: %s is a file to report on: give another name for the page (--html=FILE)", path);
	}
	if (!s.st_size || args->force || is_page(path))
		return 0;
	return log_fail(EXIT_USAGE, "--html: %s is there and is not a page of inftrace report: give another name, or --force to replace it", path);
}

/* Prints one line on failure. */
static int html_write(const struct report *r, const struct report_args *args)
{
	bool to_stdout = !strcmp(args->html, "-");
	char why[OUTFILE_WHY_MAX], *page;
	FILE *out = stdout;
	size_t len;
	int err = to_stdout ? 0 : outfile_stream(args->html, &out, why);

	if (err)
		return log_fail(err, "cannot write %s: %s", args->html, why);
	page = report_html(r, args->slowest, &len);
	if (fwrite(page, 1, len, out) != len || fflush(out))
		err = -errno;
	if (!to_stdout && fclose(out) && !err)
		err = -errno;
	free(page);
	if (err)
		return log_fail(err, "cannot write %s: %s", args->html, strerror(-err));
	if (!to_stdout)
		log_info("%s: %zu KB", args->html, (len + 1023) / 1024);
	return 0;
}

int cmd_report(int argc, char **argv)
{
	struct report_args args = { .slowest = SLOWEST_DEFAULT };
	bool problems = false;
	struct report report;
	int ret;

	if (cmd_parse(argc, argv, options, report_parse_option, "FILE...", doc, &args))
		return EXIT_USAGE;
	if (args.html && (ret = page_check(&args)))
		return ret;
	ret = EXIT_RUN;
	report_make(&report, args.files, args.n_files, report_print_problem, report_print_note, &problems);
	if (report_empty(&report)) {
		if (!problems)
			log_error("nothing to report: no engine steps in the input; record with --profile FILE while the "
				  "engine runs; of a program in Python with --py-step FUNCTION");
		goto out;
	}
	if (args.slo.ttft || args.slo.tpot)
		report_slo(&report, &args.slo);
	if (args.html && html_write(&report, &args))
		goto out;
	if (args.json)
		report_json(&report, args.slowest, args.all_steps, stdout);
	else if (!args.html)
		report_text(&report, args.slowest, stdout);
	if ((!args.html || args.json) && cmd_flush("the report"))
		goto out;
	ret = problems ? EXIT_RUN : EXIT_OK;
out:
	report_free(&report);
	return ret;
}
