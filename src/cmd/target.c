// SPDX-License-Identifier: BSD-2-Clause
#include "cmd/target.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/parse.h"

#define WAIT_MAX_NS (10 * NSEC_PER_SEC) /* of --gpu=wait= */

/* Distinct from the keys of the commands that include it. */
enum {
	OPT_ENGINE = 1024,
	OPT_RING_SIZE,
	OPT_BUDGET,
	OPT_PY_STEP,
	OPT_PY_SPAN,
};

static const struct argp_option options[] = {
	{ "pid", 'p', "PID,..", 0, "processes, with their threads, their running children that a preset matches, and all that they start; may be repeated", 1 },
	{ "all", 'a', NULL, 0, "every process of the system", 1 },
	{ "user", CMD_TEXT(struct record_options, user), "NAME", 0, "run COMMAND as this user, not as root; HOME, USER and LOGNAME are the user's", 1 },
	{ "engine", OPT_ENGINE, "NAME|FILE", 0, "preset of functions to probe (default: auto, all installed ones); none for none; may be repeated", 1 },
	{ "uprobe", 'u', "SPEC", 0,
		"one more function: LIB:SYMBOL[(name=EXPR,...)][@role], for example "
		"'libfoo.so:foo(n=s32 arg1)@op', of C++ SCOPE::NAME; or a USDT probe, LIB:usdt:PROVIDER:NAME...; may be repeated",
		1 },
	{ "py-step", OPT_PY_STEP, "NAME", 0,
		"each call of this Python function is a step: MODULE.CLASS.FUNCTION, or FILE:CLASS.FUNCTION, such as "
		"generate.py:Model.forward (CPython 3.8 to 3.14 on x86_64), with arguments: 'generate.py:Model.forward(n_tokens=len(ids))'; "
		"may be repeated",
		1 },
	{ "py-span", OPT_PY_SPAN, "NAME", 0,
		"each call of this Python function is a slice, as of --py-step: 'module.py:Module._call_impl(name=type(self))'; may be repeated",
		1 },
	{ "budget", OPT_BUDGET, "SHARE", 0,
		"what inftrace may take of the time of a step, such as 2%: beyond that it turns off samples, barriers, operators, system "
		"calls one by one and the timeline, in this order, and on again when they fit; what is off is on for 5 % of the time if that fits",
		1 },
	{ "ring-size", OPT_RING_SIZE, "SIZE", 0, "buffer for each CPU (default: 8MB, less with many CPUs)", 1 },
	{ NULL, 0, NULL, 0, NULL, 0 },
};

static void list_add_text(const char ***list, size_t *n, const char *text)
{
	*list = xreallocarray(*list, *n + 1, sizeof(**list));
	(*list)[(*n)++] = text;
}

static int parse_ring_size(const char *arg, uint64_t *ret)
{
	uint64_t bytes;
	int err = parse_size(arg, &bytes);

	if (err)
		return parse_refuse(PARSE_SIZE, "--ring-size", arg, err);
	if (bytes < 4096 || bytes > (1u << 30) || bytes & (bytes - 1))
		return log_fail(-EINVAL, "--ring-size: %s is not a power of two from 4KB to 1GB", arg);
	*ret = bytes;
	return 0;
}

static error_t target_parse_option(int key, char *arg, struct argp_state *state)
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
	case OPT_ENGINE:
		list_add_text(&o->engines, &o->n_engines, arg);
		break;
	case 'u':
		list_add_text(&o->uprobes, &o->n_uprobes, arg);
		break;
	case OPT_PY_STEP:
		list_add_text(&o->py_steps, &o->n_py_steps, arg);
		break;
	case OPT_PY_SPAN:
		list_add_text(&o->py_spans, &o->n_py_spans, arg);
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
		return cmd_set(key, arg, o);
	}
	return err ? EINVAL : 0;
}

const struct argp target_argp = { options, target_parse_option, NULL, NULL, NULL, NULL, NULL };

static bool text_is_number(const char *text)
{
	return *text && !text[strspn(text, "0123456789")];
}

/* -p $(pgrep NAME) with several matches: -p 12 34 56 */
static int take_arguments(struct record_options *o, char **args)
{
	int err = 0;

	o->command = args;
	if (!o->n_pids || !args[0] || !text_is_number(args[0]))
		return 0;
	for (; *args && text_is_number(*args) && !err; args++) {
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

error_t target_parse(int key, struct argp_state *state, struct record_options *o)
{
	switch (key) {
	case 'v':
		log_set_level(log_level() + 1);
		return 0;
	case ARGP_KEY_INIT:
		state->err_stream = NULL; /* no second line after getopt's own, and no exit */
		state->child_inputs[0] = o;
		return 0;
	case ARGP_KEY_ARGS:
		return take_arguments(o, state->argv + state->next) ? EINVAL : 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

void target_free(struct record_options *o)
{
	free(o->pids);
	free(o->engines);
	free(o->uprobes);
	free(o->py_steps);
	free(o->py_spans);
}

int target_check(const struct record_options *o, const char *command)
{
	int kinds = (o->n_pids > 0) + o->all + record_finds(o) + (o->command != NULL);
	const char *finds = o->discover ? ", --discover" : "";

	if (kinds == 1 && o->user && !o->command)
		return log_fail(-EINVAL, "--user: needs a COMMAND");
	if (kinds == 1)
		return 0;
	if (kinds)
		log_error("give one of -p, -a%s and -- COMMAND", o->cgroup ? ", --cgroup" : finds);
	else
		log_error("nothing to record: give -p PID, -a, or -- COMMAND (inftrace %s --help)", command);
	return -EINVAL;
}

/* ---- --gpu ---- */

/* Returns VALUE if the word is NAME=VALUE, else NULL. */
static const char *word_get_value(const char *word, const char *name)
{
	size_t len = strlen(name);

	return strncmp(word, name, len) || word[len] != '=' ? NULL : word + len + 1;
}

static int set_word(struct record_options *o, const char *word)
{
	const char *every = word_get_value(word, "every"), *wait = word_get_value(word, "wait");
	uint64_t ns;

	if (!strcmp(word, "attach")) {
		o->gpu_attach = true;
		return 0;
	}
	if (every) {
		if (!parse_u32(every, &o->gpu_every) && o->gpu_every >= 2)
			return 0;
		log_error("--gpu: every=%s: write a number of steps from 2 on", every);
	} else if (wait) {
		if (!parse_duration(wait, &ns) && ns <= WAIT_MAX_NS) {
			o->gpu_wait_ms = (uint32_t)(ns / NSEC_PER_MSEC);
			o->has_gpu_wait = true;
			return 0;
		}
		log_error("--gpu: wait=%s: write a duration of at most 10s, such as 20ms", wait);
	} else {
		log_error("--gpu: '%s' is neither attach nor every=N nor wait=DURATION", word);
	}
	return -EINVAL;
}

int gpu_options_set(struct record_options *o, const char *arg)
{
	char word[32];
	int err = 0;

	o->gpu = true;
	for (const char *at = arg; at && !err; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
		/* a word that was cut matches none */
		snprintf(word, sizeof(word), "%.*s", (int)strcspn(at, ","), at);
		err = set_word(o, word);
	}
	return err;
}

int gpu_options_check(const struct record_options *o)
{
	const char *why = NULL;

	if (o->cupti && !o->gpu)
		why = "--cupti: needs --gpu";
	else if (o->gpu_budget && !o->gpu)
		why = "--gpu-budget: needs --gpu";
	else if (o->cupti && o->gpu_attach)
		why = "--cupti: not with --gpu=attach: a process that runs finds its own";
	else if (o->gpu_attach && !o->n_pids)
		why = "--gpu=attach: needs -p: into a COMMAND the library comes with --gpu";
	else if (o->gpu && !o->gpu_attach && !o->command)
		why = "--gpu: needs a COMMAND; --gpu=attach brings a library into the processes of -p, which changes them";
	if (why)
		log_error("%s", why);
	return why ? -EINVAL : 0;
}
