// SPDX-License-Identifier: BSD-2-Clause
#include "cmd/target.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/log.h"
#include "util/parse.h"

/* Distinct from the keys of the commands that include it. */
enum {
	OPT_ENGINE = 1024,
	OPT_RING_SIZE,
	OPT_USER,
	OPT_BUDGET,
	OPT_PY_STEP,
};

static const struct argp_option options[] = {
	{ "pid", 'p', "PID,..", 0, "processes, with their threads and the children that they start; may be repeated", 1 },
	{ "all", 'a', NULL, 0, "every process of the system", 1 },
	{ "user", OPT_USER, "NAME", 0, "run COMMAND as this user, not as root; HOME, USER and LOGNAME are the user's", 1 },
	{ "engine", OPT_ENGINE, "NAME|FILE", 0, "preset of functions to probe (default: auto, all installed ones); none for none; may be repeated", 1 },
	{ "uprobe", 'u', "SPEC", 0,
		"one more function: LIB:SYMBOL[(name=EXPR,...)][@role], for example "
		"'libfoo.so:foo(n=s32 arg1)@op', of C++ SCOPE::NAME; or a USDT probe, LIB:usdt:PROVIDER:NAME...; may be repeated",
		1 },
	{ "py-step", OPT_PY_STEP, "NAME", 0,
		"each call of this Python function is a step: MODULE.CLASS.FUNCTION, or FILE:CLASS.FUNCTION, such as "
		"generate.py:Model.forward (CPython 3.8 to 3.12 on x86_64); may be repeated",
		1 },
	{ "budget", OPT_BUDGET, "SHARE", 0,
		"what inftrace may take of the time of a step, such as 2%: beyond that it turns off samples, barriers, operators, system "
		"calls one by one and the timeline, in this order, and on again when they fit",
		1 },
	{ "ring-size", OPT_RING_SIZE, "SIZE", 0, "buffer for each CPU (default: 8MB, less with many CPUs)", 1 },
	{ NULL, 0, NULL, 0, NULL, 0 },
};

static int add_text(const char ***list, size_t *n, const char *text)
{
	const char **grown = realloc(*list, (*n + 1) * sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	*list = grown;
	grown[(*n)++] = text;
	return 0;
}

static int parse_ring_size(const char *arg, uint64_t *ret)
{
	uint64_t bytes;
	int err = parse_size(arg, &bytes);

	if (err)
		return parse_refuse(PARSE_SIZE, "--ring-size", arg, err);
	if (bytes < 4096 || bytes > (1u << 30) || bytes & (bytes - 1)) {
		log_error("--ring-size: %s is not a power of two from 4KB to 1GB", arg);
		return -EINVAL;
	}
	*ret = bytes;
	return 0;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct record_options *o = state->input;
	int err = 0;

	switch (key) {
	case 'p':
		err = parse_pid_list(arg, &o->pids, &o->n_pids);
		if (err)
			parse_refuse(PARSE_PID_LIST, "-p", arg, err);
		break;
	case 'a':
		o->all = true;
		break;
	case OPT_USER:
		o->user = arg;
		break;
	case OPT_ENGINE:
		err = add_text(&o->engines, &o->n_engines, arg);
		break;
	case 'u':
		err = add_text(&o->uprobes, &o->n_uprobes, arg);
		break;
	case OPT_PY_STEP:
		err = add_text(&o->py_steps, &o->n_py_steps, arg);
		break;
	case OPT_BUDGET:
		err = parse_share(arg, &o->budget);
		if (err)
			parse_refuse(PARSE_SHARE, "--budget", arg, err);
		o->has_budget = !err;
		break;
	case OPT_RING_SIZE:
		err = parse_ring_size(arg, &o->ring_bytes);
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return err ? EINVAL : 0;
}

const struct argp target_argp = { options, parse_option, NULL, NULL, NULL, NULL, NULL };

static bool is_number(const char *text)
{
	return *text && !text[strspn(text, "0123456789")];
}

/* -p $(pgrep NAME) with several matches: -p 12 34 56 */
int target_take_arguments(struct record_options *o, char **args)
{
	int err = 0;

	o->command = args;
	if (!o->n_pids || !args[0] || !is_number(args[0]))
		return 0;
	for (; *args && is_number(*args) && !err; args++) {
		err = parse_pid_list(*args, &o->pids, &o->n_pids);
		if (err)
			parse_refuse(PARSE_PID_LIST, "-p", *args, err);
	}
	if (!err && *args) {
		log_error("-p: options after several process ids: write -p $(pgrep -d, NAME), or -p at the end");
		err = -EINVAL;
	}
	o->command = NULL;
	return err;
}

int target_check(const struct record_options *o, const char *command)
{
	int kinds = (o->n_pids > 0) + o->all + record_finds(o) + (o->command != NULL);
	const char *finds = o->discover ? ", --discover" : "";

	if (kinds == 1 && o->user && !o->command) {
		log_error("--user: needs a COMMAND");
		return -EINVAL;
	}
	if (kinds == 1)
		return 0;
	if (kinds)
		log_error("give one of -p, -a%s and -- COMMAND", o->cgroup ? ", --cgroup" : finds);
	else
		log_error("nothing to record: give -p PID, -a, or -- COMMAND (inftrace %s --help)", command);
	return -EINVAL;
}
