// SPDX-License-Identifier: BSD-2-Clause
#include "cmd/gpu_options.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "util/clock.h"
#include "util/log.h"
#include "util/parse.h"

#define WAIT_MAX_NS (10 * NSEC_PER_SEC)

/* Whether the word is NAME=VALUE; then that is its value. */
static const char *value_of(const char *word, const char *name)
{
	size_t len = strlen(name);

	return strncmp(word, name, len) || word[len] != '=' ? NULL : word + len + 1;
}

static int set_word(struct record_options *o, const char *word)
{
	const char *every = value_of(word, "every"), *wait = value_of(word, "wait");
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
		/* one that was cut is none of them */
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
