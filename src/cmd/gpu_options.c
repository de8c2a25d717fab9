// SPDX-License-Identifier: BSD-2-Clause
#include "cmd/gpu_options.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "util/log.h"
#include "util/parse.h"

int gpu_options_set(struct record_options *o, const char *arg)
{
	static const char attach[] = "attach", every[] = "every=";
	char number[16];

	o->gpu = true;
	for (const char *at = arg; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
		size_t len = strcspn(at, ",");

		if (len == strlen(attach) && !strncmp(at, attach, len)) {
			o->gpu_attach = true;
			continue;
		}
		if (len <= strlen(every) || len - strlen(every) >= sizeof(number) || strncmp(at, every, strlen(every))) {
			log_error("--gpu: '%.*s' is neither attach nor every=N", (int)(len < 32 ? len : 32), at);
			return -EINVAL;
		}
		snprintf(number, sizeof(number), "%.*s", (int)(len - strlen(every)), at + strlen(every));
		if (parse_u32(number, &o->gpu_every) || o->gpu_every < 2) {
			log_error("--gpu: every=%s: write a number of steps from 2 on", number);
			return -EINVAL;
		}
	}
	return 0;
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
