// SPDX-License-Identifier: BSD-2-Clause
/* Loaded into the engine (../engines/hook.h): before each eighth step it forks, and its child ends. */
#include "../engines/hook.h"

#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

static void step_begin(unsigned int step, int n_tokens)
{
	pid_t child = step % 8 ? -1 : fork();

	if (!child)
		_exit(0);
	if (child > 0)
		waitpid(child, NULL, 0);
}

extern const struct engine_hook engine_hook;
const struct engine_hook engine_hook = { .step_begin = step_begin };
