// SPDX-License-Identifier: BSD-2-Clause
/* inftrace link: several files on one timeline. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "link/link.h"
#include "util/alloc.h"
#include "util/log.h"
#include "util/text.h"

#define KEY_ET 256

struct link_args {
	const char *out;
	bool check;
	size_t n;
	struct {
		char *host; /* NULL: none was given */
		const char *path;
		bool is_et;
	} files[LINK_FILES_MAX];
};

static const struct argp_option options[] = {
	{ "output", 'o', "OUT.zip", 0, "The archive to write", 0 },
	{ "et", KEY_ET, "FILE", 0, "Execution trace: PyTorch's of the run of a Kineto trace (JSON), one of Chakra's tools, or a .et of record -o", 0 },
	{ "check", CMD_TRUE(struct link_args, check), NULL, 0, "Only say how the clocks relate; write nothing", 0 },
	{ 0 },
};

static const char doc[] =
	"One timeline of inftrace's traces, those of PyTorch's profiler (Kineto) and those of other hosts: an archive that Perfetto "
	"opens, with the files as they are and a manifest of how their clocks relate. FILE is a .pftrace or .json of record -o, a "
	"Kineto trace, or a profile, also compressed; HOST= names the machine it is from, which is else known by "
	"the kernel's boot id in recordings.\n"
	"\v"
	"Kineto's times are by the wall clock. Where inftrace has recorded the same calls (PyTorch's operators, functions of "
	"CUDA), they bound by how much the two clocks differ, since one of each pair of calls lies within the other: the traces are "
	"shifted by that, and half of what the bounds leave open is the residual. Recordings of several hosts with -e +messages are related by the "
	"messages between them, of which none is received before it was sent. Without such calls or messages "
	"files are placed by the wall clocks, and the output says so.\n"
	"\n"
	"Recordings that have no time in common, and clocks that contradict each other, are refused. Profiles and execution traces "
	"have no clock; they go along in the directory .inftrace of the archive, which Perfetto does not look at.\n"
	"\n"
	"Exit code: 0 done; 1 a file cannot be read, or the files do not belong together; 2 usage.\n"
	"\n"
	"EXAMPLES:\n"
	"  inftrace link -o all.zip trace.pftrace kineto.json.gz --et pytorch_et.json\n"
	"  inftrace link -o all.zip gpu1=a.pftrace gpu2=b.pftrace a.jsonl b.jsonl\n"
	"  inftrace link --check trace.json.gz kineto.json.gz";

/* "HOST=FILE", where the part before is a name and no path; "./A=B" is a file of that name. */
static void link_args_add_file(struct link_args *args, const char *arg, bool is_et, struct argp_state *state)
{
	const char *equals = is_et ? NULL : strchr(arg, '=');

	if (args->n == LINK_FILES_MAX)
		argp_error(state, "more than %d files", LINK_FILES_MAX);
	if (equals && (equals == arg || memchr(arg, '/', (size_t)(equals - arg))))
		equals = NULL;
	if (equals && !equals[1])
		argp_error(state, "%s: no file behind the name of the host", arg);
	args->files[args->n].path = equals ? equals + 1 : arg;
	args->files[args->n].is_et = is_et;
	if (equals)
		args->files[args->n].host = xstrndup(arg, (size_t)(equals - arg));
	args->n++;
}

static error_t link_parse_option(int key, char *arg, struct argp_state *state)
{
	struct link_args *args = state->input;

	switch (key) {
	case 'o':
		args->out = arg;
		return 0;
	case KEY_ET:
		link_args_add_file(args, arg, true, state);
		return 0;
	case ARGP_KEY_ARG:
		link_args_add_file(args, arg, false, state);
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "no FILE given");
		return EINVAL;
	case ARGP_KEY_END:
		if (!args->out == !args->check)
			argp_error(state, "give one of -o OUT.zip and --check");
		return 0;
	default:
		return cmd_set(key, arg, args);
	}
}

static int link_run(const struct link_args *args, struct link *l)
{
	char printable[256];
	uint64_t bytes;
	int err = 0;

	for (size_t i = 0; !err && i < args->n; i++)
		err = link_add(l, args->files[i].path, args->files[i].host, args->files[i].is_et);
	if (!err)
		err = link_relate(l);
	if (!err && args->out)
		err = link_write(l, args->out, &bytes);
	if (err)
		return log_fail(err, "%s", l->error);
	link_tell(l, stdout);
	if (cmd_flush("to standard output"))
		return -EIO;
	if (args->out)
		log_info("%s: %zu files, %.1f MB; it opens in ui.perfetto.dev and in trace_processor",
			text_printable(printable, sizeof(printable), args->out), l->n, (double)bytes / 1e6);
	return 0;
}

int cmd_link(int argc, char **argv)
{
	static struct link_args args;
	static struct link l;
	int err;

	if (cmd_parse(argc, argv, options, link_parse_option, "[HOST=]FILE...", doc, &args))
		return EXIT_USAGE;
	err = link_run(&args, &l);
	link_clear(&l);
	for (size_t i = 0; i < args.n; i++)
		free(args.files[i].host);
	return err ? EXIT_RUN : EXIT_OK;
}
