/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A library given with -H takes part in the run, without the engines knowing what it does. It
 * exports this struct as "engine_hook". The thread that calls the step function calls all of them;
 * those not needed may be NULL.
 */
#ifndef TEST_HOOK_H
#define TEST_HOOK_H

#include <stdbool.h>

struct engine_hook {
	int (*init)(void); /* once the engine is ready to decode; 0, or it has said why */
	void (*step_begin)(unsigned int step, int n_tokens);
	/* Within the step: llama.cpp's callback of this node of the graph (0..). ask: before
	 * anything is computed; true makes llama.cpp compute up to this node, and call once more
	 * with !ask. */
	bool (*node)(unsigned int node, bool ask);
	void (*step_end)(unsigned int step);
	int (*finish)(void); /* 0, or it has said why */
};

#endif
